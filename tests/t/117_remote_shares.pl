# One model's endpoint never responds, and its requests have all slots that there are for endpoints: other
# models are served all the same.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use Endpoint;
use VllmTest;

plan skip_all => 'vllm_pg_remote was not built here' if !-x "$ENV{VLLM_PG_LIBDIR}/vllm_pg_remote";

my $node = new_node('shares', "vllm.engine = off\nvllm.allowed_hosts = '127.0.0.1'\nvllm.max_queued_requests = 16\nrestart_after_crash = on\n"
	. "vllm.job_workers = 1\nlog_min_messages = fatal\njit = off\n");
my $ep = Endpoint->new($node->basedir . '/endpoint.log');
my %path = (slow => 'hang', stuck => 'hang', quick => 'ok', late => 'late', some => 'some');
$node->safe_psql('postgres', sprintf(q{SELECT llm_create_model('%s', provider => 'openai', url => '%s')}, $_, $ep->url($path{$_}))) for sort keys %path;

sub ask { my ($model, $prompt) = @_; return sprintf q{SELECT llm_generate('%s', model => '%s')}, $prompt // 'x', $model }

sub running
{
	my ($n, $model) = @_;
	return until_sql($node, "SELECT count(*) = $n FROM llm_requests WHERE state <> 'cancelling' AND model = '$model'");
}

sub waiting { my ($n) = @_; return until_sql($node, "SELECT slot_waiters = $n FROM llm_stat_engine") }

# It gets a slot while others have their maximum: at once, and for many rows.
sub quick_answers
{
	my ($what) = @_;
	my $b = bg($node, q{SET statement_timeout = '10s'}, ask('quick', 'at once'));
	is(finish($b), 'AT ONCE', "$what: another model answers") or diag($b->{err});
	cmp_ok($b->{took}, '<', 3, '... at once');
	$b = bg($node, q{SET statement_timeout = '10s'}, q{SELECT count(*) FROM (SELECT llm_generate('row ' || i, model => 'quick') AS a FROM generate_series(1, 300) i) s WHERE a LIKE 'ROW %'});
	is(finish($b), 300, '... of a statement all rows') or diag($b->{err});
	return;
}

# End all requests and wait until there are none; returns how each of the sessions ended.
sub end_all
{
	my ($with, @b) = @_;
	until_true(sub {
		$node->safe_psql('postgres', "SELECT $with FROM llm_requests");
		$node->safe_psql('postgres', q{SELECT slots_used + slot_waiters + (SELECT count(*) FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND state = 'active' AND pid <> pg_backend_pid()) FROM llm_remote, llm_stat_engine}) == 0;
	}, 20);
	return map { (finish($_))[1] } @b;
}

sub cancel_all { return end_all('llm_cancel(id)', @_) }

sub nothing_left
{
	my ($what) = @_;
	my $got;
	until_true(sub {
		($got = $node->safe_psql('postgres', q{SELECT slots_total - slots_free || ' ' || zombies || ' ' || slot_waiters || ' ' || slots_used FROM llm_stat_engine, llm_remote})) eq '0 0 0 0';
	}, 10);
	return is($got, '0 0 0 0', "$what: nothing is left behind");
}

# ---- a model that never responds ----

my @slow = map { bg($node, ask('slow')) } 1 .. 20;
ok(running(16, 'slow'), 'a model alone has all slots');
ok(waiting(4), '... and no more');
quick_answers('calls');
my @quick = map { bg($node, q{SET statement_timeout = '20s'}, ask('quick', "q$_")) } 1 .. 20;
is(join(' ', map { scalar finish($_) } @quick), join(' ', map { "Q$_" } 1 .. 20), '... in many sessions');
ok(running(16, 'slow') && waiting(4), '... and the others wait as they did');

# a freed slot gets a successor, also of the same model
is($node->safe_psql('postgres', q{SELECT llm_cancel(min(id)) FROM llm_requests}), 't', 'one of them ends');
ok(waiting(3) && running(16, 'slow'), '... and the one that has waited longest has its slot');

# a second one that never responds leaves some slots to a third
my @stuck = map { bg($node, ask('stuck')) } 1 .. 6;
ok(running(2, 'stuck'), 'a second model has some');
ok(waiting(7), '... not all');
quick_answers('two models that never answer');
is($node->safe_psql('postgres', q{SELECT llm_cancel(min(id)) FROM llm_requests WHERE model = 'stuck'}), 't', 'one of the second model ends');
ok(waiting(6) && running(2, 'stuck'), '... another one of it has its slot');
is(scalar(grep { /57014/ } cancel_all(@slow, @stuck)), 26, 'all are cancelled');
nothing_left('calls');

# futures of two sessions, each of which may have half of the slots, and a statement
my $futures = q{DO $$BEGIN FOR i IN 1 .. 8 LOOP PERFORM llm_submit('f ' || i, model => 'slow'); END LOOP; END$$};
my @b = map { bg($node, $futures, 'SELECT pg_sleep(60)') } 1 .. 2;
running(16, 'slow');
push @b, bg($node, q{SELECT llm_generate('row ' || i, model => 'slow') FROM generate_series(1, 40) i});
ok(waiting(1) && running(16, 'slow'), 'futures have all, a statement waits');
quick_answers('futures');
$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%' AND pid <> pg_backend_pid()});
ok(running(14, 'slow'), 'their sessions end: the statement has what one may have');
is(scalar(grep { /57/ } cancel_all(@b)), 3, '... until it is cancelled');
nothing_left('futures');

# ---- jobs of one worker ----

# A job whose model never responds, and after it one whose model does.
sub jobs_go_on
{
	my ($rows, $in_flight, $what) = @_;
	$node->safe_psql('postgres', qq{
		CREATE TABLE hung (id int PRIMARY KEY, body text, answer text);
		CREATE TABLE done (LIKE hung INCLUDING ALL);
		INSERT INTO hung SELECT i, 'hang ' || i FROM generate_series(1, $rows) i;
		SELECT llm_create_completion_job('hung', '{body}', 'answer', name => 'hung', model => 'some')});
	ok(running($in_flight, 'some'), "$what: a job whose model never answers");
	$node->safe_psql('postgres', qq{
		INSERT INTO done SELECT i, 'two ' || i FROM generate_series(1, 50) i;
		SELECT llm_create_completion_job('done', '{body}', 'answer', name => 'done', model => 'quick')});
	ok(until_sql($node, q{SELECT count(*) = 50 FROM done WHERE answer = 'TWO ' || id}), '... does not hold up another one');
	$node->safe_psql('postgres', q{SELECT llm_drop_job('hung'); SELECT llm_drop_job('done'); DROP TABLE hung, done});
	return;
}
jobs_go_on(40, 14, 'jobs');
cancel_all();
nothing_left('jobs');

# ---- slots change hands: each claim gets its turn ----

@b = map { bg($node, q{SET statement_timeout = '50s'}, ask('late', "l$_"), ask('quick', "q$_"), ask('late', "m$_")) } 1 .. 40;
is(join(',', map { scalar finish($_) } @b), join(',', map { "L$_\nQ$_\nM$_" } 1 .. 40), '40 sessions with two models and 16 slots');
nothing_left('many sessions');

# ---- sessions that hold slots crash ----

@b = map { bg($node, ask('slow')) } 1 .. 20;
running(16, 'slow');
push @b, map { bg($node, ask('stuck')) } 1 .. 2;
ok(running(2, 'stuck'), 'slots of two models');
my $pid = $node->safe_psql('postgres', 'SELECT pid FROM llm_remote');
kill 'STOP', $pid;
@quick = map { bg($node, ask('quick')) } 1 .. 3;
# their program doesn't release slots of cancelled requests
$node->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM llm_requests WHERE model <> 'quick'});
ok(until_sql($node, 'SELECT zombies >= 16 FROM llm_stat_engine'), 'cancelled while their program sleeps');
kill 'KILL', $pid;
cancel_all(@b, @quick);
nothing_left('a program that was killed');

@b = map { bg($node, ask('slow')) } 1 .. 18;
ok(running(16, 'slow') && waiting(2), 'the next one: a model has all slots again');
quick_answers('another program');
is(scalar(grep { /57P01/ } end_all('pg_terminate_backend(pid)', @b)), 18, 'backends end');
nothing_left('backends that ended');

@b = map { bg($node, ask('slow')) } 1 .. 17;
running(16, 'slow');
kill 9, $node->safe_psql('postgres', 'SELECT min(pid) FROM llm_requests');
finish($_) for @b;
ok($node->poll_query_until('postgres', q{SELECT state = 'ready' FROM llm_remote}), 'kill -9 of a backend: the server is back');
@b = map { bg($node, ask('slow')) } 1 .. 17;
ok(running(16, 'slow') && waiting(1), '... with all slots');
quick_answers('behind a crash');
cancel_all(@b);
nothing_left('a crash');

# ---- with an engine ----

$node->append_conf('postgresql.conf', 'vllm.engine = on');
$node->restart;
ok(until_ready($node), 'with an engine');
@b = map { bg($node, ask('slow')) } 1 .. 13;
ok(running(12, 'slow') && waiting(1), 'a model has what endpoints may have');
push @b, map { bg($node, ask('stuck')) } 1 .. 2;
ok(running(2, 'stuck'), 'another model has some');
quick_answers('with an engine');
push @b, map { bg($node, q{SELECT llm_generate('@hang')}) } 1 .. 5;
ok(running(4, 'tickets-2m') && waiting(2), 'the quarter that is for the engine is not touched');
quick_answers('with all slots taken');
is(scalar(grep { /57014/ } cancel_all(@b)), 20, 'all are cancelled');
# the engine's requests leave no slots while there are no requests for endpoints
$node->restart;
ok(until_ready($node), 'an engine alone');
@b = map { bg($node, q{SELECT llm_generate('@hang')}) } 1 .. 17;
ok(running(16, 'tickets-2m') && waiting(1), '... has all slots');
quick_answers('an engine that has all');
is(scalar(grep { /57014/ } cancel_all(@b)), 17, 'all are cancelled');
nothing_left('with an engine');

# what a worker has in flight at once
$node->append_conf('postgresql.conf', "vllm.engine = off\nvllm.max_queued_requests = 1024\n");
$node->restart;
jobs_go_on(300, 128, 'many slots');
cancel_all();
nothing_left('many slots');
$node->stop('fast');
done_testing();
