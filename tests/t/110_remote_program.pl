# The remote program as PostgreSQL sees it: its own side, its share of the slots, kills and their effects.
# The fake engine replaces it: it uses the same protocol.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Copy qw(copy);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use VllmTest;

my $n_scripts = 0;

# A program for vllm.remote_path.
sub script
{
	my ($node, $text) = @_;
	my $path = abs_path($node->basedir) . '/remote' . ++$n_scripts;
	open(my $f, '>', $path) or die $!;
	print $f "#!/bin/sh\n$text\n";
	close $f;
	chmod 0755, $path;
	return $path;
}

my $stand_in = "exec $ENV{VLLM_PG_LIBDIR}/vllm_pg_engine --arena-fd 4 --control-fd 3 --fake";
my $node = new_node('remote', "vllm.max_queued_requests = 16\nvllm.hang_timeout = '1s'\nvllm.engine_timeout = '10s'\nrestart_after_crash = on\n"
	. "vllm.allowed_hosts = '127.0.0.1'\n");
ok(until_ready($node), 'the engine becomes ready');

# a remote model, with any options
$node->safe_psql('postgres', q{
	INSERT INTO vllm.model (name, path, options, provider, url, owner, grantees, bundled)
	VALUES ('far', '/nowhere', '{}', 'openai', 'http://127.0.0.1:9/v1', current_user::text::regrole, ARRAY['-'::regrole], false)});

sub far
{
	return "SELECT llm_generate('$_[0]', model => 'far')";
}
my $near = q{SELECT llm_generate('near')};

# ---- not installed ----
SKIP:
{
	skip 'this build has the program', 3 if -x "$ENV{VLLM_PG_LIBDIR}/vllm_pg_remote";
	my $b = bg($node, far('x'));
	my ($out, $err) = finish($b);
	like($err, qr/ERROR:  58P01: the remote program is not installed/, 'no program: 58P01');
	like($err, qr/DETAIL:  There is no program ".*vllm_pg_remote".*\n.*HINT:  .*libcurl/s, 'with the reason and a hint');
	cmp_ok($b->{took}, '<', 5, 'at once');
}

# Return the pid of the program that became ready last.
sub remote_pid
{
	my @pids = slurp_file($node->logfile) =~ /the remote program is ready, pid (\d+)/g;
	return $pids[-1] // 0;
}

sub until_remote
{
	my ($old) = @_;
	return until_true(sub { my $pid = remote_pid(); $pid != $old && is_alive($pid) });
}

sub use_program
{
	my ($path) = @_;
	my $old = remote_pid();
	set_to($node, 'vllm.remote_path', $path);
	return $old;
}

my $old = use_program(script($node, $stand_in));
ok(until_remote($old), 'a program named by vllm.remote_path is started by a reload');
my $sup = parent_of(engine_pid($node));
is(parent_of(remote_pid()), $sup, 'by the supervisor of the engine');
isnt(remote_pid(), engine_pid($node), 'beside the engine');
is(readlink('/proc/' . remote_pid() . '/fd/0'), '/dev/null', 'it has no standard input');
is_deeply([ grep { !m{^(/dev/null|pipe:|socket:|/memfd:vllm_pg arena|anon_inode:)} } map { readlink($_) // () } glob('/proc/' . remote_pid() . '/fd/*') ],
	[], 'and no file of the server');

# ---- which program serves ----
my $up = $node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()');
my $asked = stat_engine($node, 'requests');
is($node->safe_psql('postgres', far('far away')), 'FAR AWAY', 'a remote model is answered');
is($node->safe_psql('postgres', q{SELECT count(*) FROM (SELECT llm_generate('row ' || i, model => 'far') AS a FROM generate_series(1, 300) i) s WHERE a LIKE 'ROW %'}),
	300, 'and for many rows');
is(stat_engine($node, 'requests'), $asked, 'the engine has seen none of it');
is($node->safe_psql('postgres', $near), 'NEAR', 'a local one is');
is(stat_engine($node, 'requests'), $asked + 1, 'by the engine');
is($node->safe_psql('postgres', q{SELECT string_agg(text, '') FROM llm_generate_stream('in parts', model => 'far')}), 'IN PARTS', 'a stream');

# Return the slots in use.
sub slots_taken
{
	my $got;
	until_true(sub { ($got = stat_engine($node, 'slots_total - slots_free || \' \' || zombies || \' \' || slot_waiters')) eq '0 0 0' }, 10);
	return $got;
}

sub running
{
	my ($n, $model) = @_;
	return until_sql($node, "SELECT count(*) = $n FROM llm_requests WHERE state = 'running' AND model = '$model'");
}

sub cancel_all
{
	my (@b) = @_;
	until_true(sub {
		$node->safe_psql('postgres', 'SELECT llm_cancel(id) FROM llm_requests');
		stat_engine($node, 'slots_total - slots_free + slot_waiters') == 0;
	}, 20);
	return map { (finish($_))[1] } @b;
}

# ---- cancelling, as with the engine ----
my $b = bg($node, far('@hang'));
ok(running(1, 'far'), 'llm_requests has it');
is($node->safe_psql('postgres', q{SELECT kind, prompt_tokens > 0 FROM llm_requests}), 'generate|t', 'with its live figures');
is($node->safe_psql('postgres', 'SELECT llm_cancel(id) FROM llm_requests'), 't', 'llm_cancel()');
like((finish($b))[1], qr/ERROR:  57014/, 'ends it');
$b = bg($node, q{SET statement_timeout = '300ms'}, far('@hang'));
like((finish($b))[1], qr/ERROR:  57014/, 'statement_timeout');
$b = bg($node, q{SELECT llm_generate('@hang', model => 'far', params => '{"timeout_ms": 300}')});
like((finish($b))[1], qr/ERROR:  57014/, 'timeout_ms');
finish(bg($node, 'BEGIN', q{DECLARE c CURSOR FOR SELECT llm_generate_stream('@tokens:20000', max_tokens => 20000, model => 'far')}, 'FETCH 1 FROM c', 'ROLLBACK'));
is(slots_taken(), '0 0 0', 'ROLLBACK of a cursor in the middle of a stream leaves nothing behind');
$b = bg($node, far('@hang'));
running(1, 'far');
$node->safe_psql('postgres', 'SELECT pg_terminate_backend(pid) FROM llm_requests');
finish($b);
is(slots_taken(), '0 0 0', 'nor a terminated backend');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');

# ---- kill -9 of either: the other one goes on ----
my ($engine, $remote) = (engine_pid($node), remote_pid());
my @far = map { bg($node, far('@hang')) } 1 .. 4;
my @near = map { bg($node, q{SELECT llm_generate('@hang')}) } 1 .. 4;
ok(running(4, 'far') && running(4, 'tickets-2m'), '4 calls of each are running');
my $t0 = time;
kill 9, $remote;
my $lost = grep { (finish($_))[1] =~ /ERROR:  58000: lost connection to the remote program\n.*HINT:  .*repeat/s } @far;
is($lost, 4, 'kill -9 of the remote program: its calls fail with 58000 and a hint');
cmp_ok(time - $t0, '<', 2, 'at once');
is($node->safe_psql('postgres', q{SELECT count(*) FROM llm_requests WHERE model = 'tickets-2m' AND state = 'running'}), 4, 'those of the engine go on');
is($node->safe_psql('postgres', far('next')), 'NEXT', 'the next call works');
ok(until_remote($remote), 'by another program');
is(engine_pid($node), $engine, 'the engine is the same');
like(slurp_file($node->logfile), qr/the remote program ended\n.*DETAIL:  The process was terminated by signal 9/, 'the log says how it ended');

$remote = remote_pid();
@far = map { bg($node, far('@hang')) } 1 .. 4;
running(4, 'far');
kill 9, $engine;
$lost = grep { (finish($_))[1] =~ /ERROR:  58000: the inference engine was lost/ } @near;
is($lost, 4, 'kill -9 of the engine: its calls fail');
ok(until_ready($node, $engine), 'there is another engine');
is($node->safe_psql('postgres', q{SELECT count(*) FROM llm_requests WHERE model = 'far' AND state = 'running'}), 4, 'those of the remote program go on');
is($node->safe_psql('postgres', $near), 'NEAR', 'the next call works');
is(remote_pid(), $remote, 'the remote program is the same');
is(scalar(grep { /57014/ } cancel_all(@far)), 4, 'they are cancelled as ever');
is($node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()'), $up, 'the database did not restart');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');

# a new engine, twice: the remote program's side stays
$b = bg($node, far('@hang'));
running(1, 'far');
for my $i (1 .. 2)
{
	$engine = engine_pid($node);
	$node->safe_psql('postgres', 'SELECT llm_engine_upgrade()');
	isnt(engine_pid($node), $engine, "upgrade $i: another engine");
	ok(until_true(sub { !is_alive($engine) }, 10), 'the old one ends');
	is($node->safe_psql('postgres', far('still')), 'STILL', 'a remote model is answered');
}
ok(running(1, 'far'), 'the request that was under way still is');
is(remote_pid(), $remote, 'by the same program');
is(scalar(grep { /57014/ } cancel_all($b)), 1, 'it is cancelled');

# a batch whose rows go to both sides
$b = bg($node, q{SELECT count(*) FROM (SELECT llm_generate('r' || i || CASE WHEN i = 50 THEN '@delay:1500' ELSE '' END, model => CASE i % 2 WHEN 0 THEN 'far' END) AS a FROM generate_series(1, 100) i) s WHERE a LIKE 'R%'});
is(scalar(finish($b)), 100, 'rows of one statement go to both');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');

# ---- three quarters of the slots ----
@far = map { bg($node, far('@hang')) } 1 .. 14;
ok(running(12, 'far'), '12 of 16 slots are for endpoints');
ok(until_sql($node, 'SELECT slot_waiters = 2 FROM llm_stat_engine'), 'others wait');
is($node->safe_psql('postgres', $near), 'NEAR', 'while the engine is free');
is($node->safe_psql('postgres', q{SELECT count(llm_generate('near ' || i)) FROM generate_series(1, 100) i}), 100, 'for many');
my ($out, $err) = finish(bg($node, q{SET vllm.queue_timeout = '300ms'}, far('x')));
like($err, qr/ERROR:  53300.*three quarters/s, 'a further one is refused after vllm.queue_timeout');
is($node->safe_psql('postgres', q{SELECT llm_cancel(min(id)) FROM llm_requests}), 't', 'one of them ends');
ok(until_sql($node, 'SELECT slot_waiters = 1 FROM llm_stat_engine') && running(12, 'far'), 'and one that waits has its slot');
is(scalar(grep { /57014/ } cancel_all(@far)), 14, 'the rest');
is(slots_taken(), '0 0 0', 'nothing is left behind');

# the same for the engine
$b = bg($node, far('@hang'));
running(1, 'far');
@near = map { bg($node, q{SELECT llm_generate('@hang')}) } 1 .. 14;
ok(running(12, 'tickets-2m'), '12 are for the engine while endpoints are asked');
ok(until_sql($node, 'SELECT slot_waiters = 2 FROM llm_stat_engine'), 'others wait');
is($node->safe_psql('postgres', far('far')), 'FAR', 'endpoints are asked');
is(scalar(grep { /57014/ } cancel_all(@near, $b)), 15, 'all are cancelled');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');

# calls that wait for a slot lose nothing when the program crashes
$remote = remote_pid();
@far = map { bg($node, far('@hang')) } 1 .. 12;
running(12, 'far');
$b = bg($node, far('after'));
until_sql($node, 'SELECT slot_waiters = 1 FROM llm_stat_engine');
kill 9, $remote;
is(scalar(grep { (finish($_))[1] =~ /58000/ } @far), 12, 'killed again');
is(scalar(finish($b)), 'AFTER', 'who waited for a slot is answered by the next program');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');

# ---- hangs ----
($engine, $remote) = (engine_pid($node), remote_pid());
$b = bg($node, far('@stall'));
like((finish($b))[1], qr/ERROR:  58000/, 'without a step for vllm.hang_timeout: the call fails');
like(slurp_file($node->logfile), qr/killing the remote program\n.*DETAIL:  .*made no step/, 'the log says why');
ok(until_remote($remote), 'a new program takes over');
$remote = remote_pid();
kill 'STOP', $remote;
$b = bg($node, far('x'));
($out, $err) = finish($b);
ok($out eq 'X' || $err =~ /58000/, 'SIGSTOP: the call ends');
ok(until_remote($remote), 'a new program takes over');
is(engine_pid($node), $engine, 'the engine is the same');

# ---- settings ----
like(error_of($node, q{ALTER SYSTEM SET vllm.allowed_hosts = 'ftp://there'}), qr/ERROR:  22023/, 'vllm.allowed_hosts is checked');
like(error_of($node, q{ALTER SYSTEM SET vllm.allowed_hosts = '} . join(',', map { "host$_.example.com" } 1 .. 80) . q{'}), qr/too long/, 'and bounded');
like(error_of($node, q{ALTER SYSTEM SET vllm.remote_path = 'vllm_pg_remote'}), qr/must be absolute/, 'vllm.remote_path is a path');
$remote = remote_pid();
my $args = abs_path($node->basedir) . '/args';
use_program(script($node, "echo \"\$@\" >$args\n$stand_in"));
ok(until_remote($remote), 'another program');
ok(until_true(sub { !is_alive($remote) }, 5), 'instead of the one that ran');
like(slurp_file($args), qr/^--arena-fd 4 --control-fd 3 --set allowed_hosts=127\.0\.0\.1 --set ca_file= --set max_connections=256 --set seccomp=on$/, 'it is told the settings');
is($node->safe_psql('postgres', far('again')), 'AGAIN', 'it answers');
$remote = remote_pid();
set_to($node, 'vllm.remote_max_connections', 7);
ok(until_true(sub { slurp_file($node->logfile) =~ /remote program: .*max_connections/ }), 'a reload tells it (which this one does not know)');
is(remote_pid(), $remote, 'and leaves it running');
use_program('/nonexistent/remote');
ok(until_true(sub { !is_alive($remote) }, 5), 'one that is not there: the old one ends');
$b = bg($node, far('x'));
($out, $err) = finish($b);
like($err, qr/ERROR:  57P03: the remote program is not available \(state "failed"\)\n.*DETAIL:  .*No such file.*\n.*HINT:/s, '57P03 with the reason');
cmp_ok($b->{took}, '<', 5, 'without waiting for vllm.engine_timeout');
is($node->safe_psql('postgres', $near), 'NEAR', 'the engine does not mind');
use_program(script($node, 'echo "hello 999 $$" >&3; exec sleep 60'));
like((finish(bg($node, far('x'))))[1], qr/57P03.*wire version 999/s, 'of another version');
use_program(script($node, 'echo "E: no luck" >&2; exit 1'));
like((finish(bg($node, q{SET vllm.engine_timeout = '1s'}, far('x'))))[1], qr/57P03.*no luck/s, 'one that ends again and again, with its last words');
my $log_at = -s $node->logfile;
usleep(1_000_000);
cmp_ok(scalar(() = slurp_file($node->logfile, $log_at) =~ /the remote program ended/g), '<', 10, 'is started ever less often');
$old = use_program(script($node, $stand_in));
is($node->safe_psql('postgres', far('well')), 'WELL', 'put right');

# ---- a program that overwrites its arena: the engine and its calls are not affected ----
copy(dirname(abs_path(__FILE__)) . '/mad_engine.pl', $node->basedir . '/mad_engine.pl') or die $!;
my @asked_far = (far('some words'), q{SELECT count(*) FROM llm_models}, q{SELECT count(*) FROM llm_stat_remote}, q{SELECT * FROM llm_remote}, q{SELECT count(*) FROM llm_stat_model},
	q{SELECT sum(ttft_ms) FROM llm_requests}, q{SELECT count(*) FROM llm_metrics()}, q{SELECT count(*) FROM llm_generate_stream('a stream', model => 'far')},
	q{SELECT count(llm_generate('m' || i, model => 'far')) FROM generate_series(1, 30) i}, q{SELECT count(llm_cancel(id)) FROM llm_requests WHERE model = 'far'});
$engine = engine_pid($node);
for my $seed (1 .. 3)
{
	use_program(script($node, 'exec /usr/bin/perl ' . abs_path($node->basedir) . "/mad_engine.pl $seed 1.5"));
	my @b = map { bg($node, q{SET statement_timeout = '300ms'}, (@asked_far) x 2) } 1 .. 3;
	my $sane = bg($node, map { "SELECT llm_generate(p, max_tokens => 4000) = upper(p), pg_sleep(0.02) FROM (SELECT 'sane $_' || repeat(' long', 3000)) AS s(p)" } 1 .. 60);
	for my $b (@b)
	{
		my ($out, $err) = finish($b);
		unlike($err, qr/server closed the connection|FATAL|PANIC/, "mad $seed: the session lives");
		cmp_ok($b->{took}, '<', 40, '... and every statement ends');
	}
	($out, $err) = finish($sane);
	is($err, '', 'no call of the engine fails');
	is($out, join("\n", ('t|') x 60), '... nor has a wrong answer');
}
is(engine_pid($node), $engine, 'the engine is the same');
is($node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()'), $up, 'the database did not restart');
use_program(script($node, $stand_in));
is($node->safe_psql('postgres', far('sane again')), 'SANE AGAIN', 'sane again');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');

# ---- the supervisor ends, and then the server ----
($engine, $remote) = (engine_pid($node), remote_pid());
$b = bg($node, far('@hang'));
running(1, 'far');
$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'vllm_pg supervisor'});
like((finish($b))[1], qr/ERROR:  58000/, 'terminated supervisor: the running call fails');
ok(until_true(sub { !is_alive($remote) && !is_alive($engine) }, 2), 'both programs are gone');
is($node->safe_psql('postgres', far('back')), 'BACK', 'and come back');
is($node->safe_psql('postgres', $near), 'NEAR', 'both');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');
($engine, $remote) = (engine_pid($node), remote_pid());
@far = map { bg($node, far('@hang')) } 1 .. 3;
running(3, 'far');
kill 9, $node->safe_psql('postgres', 'SELECT min(pid) FROM llm_requests');
finish($_) for @far;
ok(until_true(sub { !is_alive($remote) && !is_alive($engine) }, 5), 'kill -9 of a backend, so the server begins anew: both programs are gone');
until_true(sub { ($node->psql('postgres', 'SELECT 1'))[0] == 0 }, 30);
is($node->safe_psql('postgres', far('anew')), 'ANEW', 'and come back');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');
until_remote($remote);
$remote = remote_pid();
$b = bg($node, far('@hang'));
running(1, 'far');
$node->stop('immediate');
finish($b);
ok(until_true(sub { !is_alive($remote) }, 2), 'immediate stop: the program is gone');

# ---- without an engine ----
$node->start;
$node->safe_psql('postgres', q{
	CREATE TABLE here (id int PRIMARY KEY, body text, answer text);
	CREATE TABLE there (id int PRIMARY KEY, body text, answer text);
	SELECT llm_create_completion_job('here', '{body}', 'answer', name => 'here')});
$node->stop('fast');
$node->append_conf('postgresql.conf', "vllm.engine = off\n");
$node->start;
is($node->safe_psql('postgres', far('alone')), 'ALONE', 'vllm.engine = off: endpoints are asked');
is(stat_engine($node, 'state, pid IS NULL, running IS NULL'), 'off|t|t', 'llm_stat_engine says so');
for my $sql ($near, q{SELECT llm_engine_restart()}, q{SELECT llm_engine_upgrade()}, q{SELECT llm_count_tokens('x')}, q{SELECT llm_sleep()},
	q{SELECT count(llm_generate('near ' || i)) FROM generate_series(1, 3) i})
{
	$b = bg($node, $sql);
	($out, $err) = finish($b);
	like($err, qr/ERROR:  55000: the inference engine is switched off\n.*HINT:/s, "$sql: 55000");
	cmp_ok($b->{took}, '<', 5, 'at once');
}
is($node->safe_psql('postgres', q{SELECT count(*) FROM llm_models}), 2, 'the catalog can be read');
like($node->safe_psql('postgres', 'SELECT llm_version()'), qr/engine off/, 'llm_version()');
# views and lists don't need an engine, or say that there is none
for my $what (split /\n/, $node->safe_psql('postgres', q{
	SELECT o FROM (
		SELECT c.oid::regclass::text FROM pg_class c JOIN pg_depend d ON d.objid = c.oid AND d.classid = 'pg_class'::regclass AND d.deptype = 'e'
			JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'vllm_pg' WHERE c.relkind = 'v'
		UNION ALL SELECT unnest(ARRAY['llm_metrics()', 'llm_metrics_text()', 'llm_version()'])) AS t(o) ORDER BY 1}))
{
	$b = bg($node, "SELECT count(*) FROM $what");
	($out, $err) = finish($b);
	ok(($err eq '' || $err =~ /ERROR:  55000: the inference engine is switched off/) && $b->{took} < 5, "$what can be read") or diag($err);
}
@far = map { bg($node, far('@hang')) } 1 .. 17;
ok(running(16, 'far'), 'endpoints have all slots');
is(scalar(grep { /57014/ } cancel_all(@far)), 17, 'all are cancelled');
$b = bg($node, q{SELECT count(*) FROM (SELECT llm_generate('r' || i, model => 'far') AS a FROM generate_series(1, 200) i) s WHERE a LIKE 'R%'});
is(scalar(finish($b)), 200, 'a batch');

# jobs of local models wait, others continue
$node->safe_psql('postgres', q{
	INSERT INTO here SELECT i, 'one' FROM generate_series(1, 50) i;
	INSERT INTO there SELECT i, 'two' FROM generate_series(1, 50) i;
	SELECT llm_create_completion_job('there', '{body}', 'answer', name => 'there', model => 'far')});
ok(until_sql($node, q{SELECT count(*) = 50 FROM there WHERE answer = 'TWO'}), 'a job of a remote model');
is($node->safe_psql('postgres', 'SELECT count(answer) FROM here'), 0, 'one of a local model rests');
is($node->safe_psql('postgres', q{SELECT state FROM llm_jobs WHERE name = 'here'}), 'active', 'without being a failure');
is(slots_taken(), '0 0 0', 'nothing is left behind');
$node->stop('fast');
$node->append_conf('postgresql.conf', "vllm.engine = on\n");
$node->start;
ok(until_sql($node, q{SELECT count(*) = 50 FROM here WHERE answer = 'ONE'}), 'and goes on when there is an engine');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');
$node->stop('fast');
done_testing();
