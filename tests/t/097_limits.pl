# Limits of roles, with the bundled model: settings that only a superuser can set, limits over all sessions
# of a role, and background requests; and waiting for a place among vllm.max_models (engine --fake).
use strict;
use warnings;
use lib 't';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use VllmTest;

my $node = PostgreSQL::Test::Cluster->new('limits');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "max_connections = 60\nvllm.kv_cache_memory_bytes = '16MB'\nstatement_timeout = '60s'\nvllm.max_num_seqs = 4\nvllm.http_role = 'door'\n");
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION vllm_pg;
	CREATE ROLE app LOGIN;
	CREATE ROLE other LOGIN;
	CREATE ROLE nobody;
	GRANT nobody TO app;
	CREATE ROLE door LOGIN;
	GRANT app, other TO door;
	CREATE TABLE log (n serial, what text);
	GRANT ALL ON log TO PUBLIC;
	GRANT ALL ON SEQUENCE log_n_seq TO PUBLIC;
	SELECT llm_generate('warm', max_tokens => 1)});

sub sql { return $node->safe_psql('postgres', shift); }

# Run as that role, by login.
sub as_role
{
	my ($role, @sql) = @_;
	my $b = { out => '', err => '', start => time };
	$b->{h} = IPC::Run::start([ 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres') . " user=$role", map { ('-c', $_) } @sql ],
		'<', '/dev/null', '>', \$b->{out}, '2>', \$b->{err});
	return $b;
}

sub answer { my ($out, $err) = finish(as_role(@_)); return $out eq '' ? $err : $out; }

my $ask = q{SELECT length(llm_generate('Ticket: %s', max_tokens => %d, ignore_eos => true, temperature => 0)) > 0};
my $long = sprintf($ask, 'long', 400);
my $short = sprintf($ask, 'short', 3);

# ---- privileges ----
for my $s (qw(role_weight role_max_requests role_tokens_per_minute role_max_tokens))
{
	like(answer('app', "SET vllm.$s = 5"), qr/42501.*permission denied to set parameter "vllm.$s"/s, "$s: not the role itself");
	like(answer('app', "ALTER ROLE app SET vllm.$s = 5"), qr/42501/, '... not for its next session either');
}
is(answer('app', 'SET vllm.background = on', 'SHOW vllm.background'), 'on', 'anybody can wait');

# ---- max_tokens ----
sql('ALTER ROLE app SET vllm.role_max_tokens = 10');
like(answer('app', $long), qr/22023: max_tokens must be at most 10 for this role, got 400.*parameter=max_tokens.*vllm\.role_max_tokens/s, 'max_tokens is limited');
my $count = q{SELECT (r.usage).completion_tokens FROM llm_generate_full('Ticket: x', ignore_eos => true, temperature => 0, params => %s) r};
is(answer('app', sprintf($count, "'{}'")), 10, '... and is the limit when it is not given');
is(answer('app', 'SET vllm.default_max_tokens = 0', sprintf($count, "'{}'")), 10, '... also without a default');
is(answer('app', 'SET vllm.default_max_tokens = 7', sprintf($count, "'{}'")), 7, '... but not more than the default');
like(answer('app', sprintf($count, q('{"max_tokens": 11}'))), qr/22023: max_tokens must be at most 10/, 'in params');
like(answer('app', q{SELECT llm_api('/v1/completions', '{"prompt": "x", "max_tokens": 11}')}), qr/22023: max_tokens must be at most 10|at most 10 for this role/, 'in a body');
is(answer('app', q{SELECT llm_api('/v1/completions', '{"prompt": "x", "ignore_eos": true, "temperature": 0}')->'usage'->>'completion_tokens'}), 10, '... where it is not given');
like(answer('app', 'SET ROLE nobody', $long), qr/22023: max_tokens must be at most 10/, 'SET ROLE changes nothing');
like(answer('other', $long), qr/^t$/, 'others are not limited');
# as the HTTP server does it
like(answer('door', 'SET ROLE app', $long), qr/22023: max_tokens must be at most 10/, "an API key's role has its limits");
is(answer('door', 'SET ROLE app', q{SELECT llm_api('/v1/completions', '{"prompt": "x", "ignore_eos": true, "temperature": 0}')->'usage'->>'completion_tokens'}), 10, '... also where they are defaults');
is(answer('door', 'SET ROLE other', $long), 't', '... and another one its own');
is(answer('door', $long), 't', '... and the server none');
sql('ALTER ROLE app IN DATABASE postgres SET vllm.role_max_tokens = 5');
like(answer('door', 'SET ROLE app', $long), qr/22023: max_tokens must be at most 5/, 'a setting for the database comes first');
sql('ALTER ROLE app IN DATABASE postgres RESET vllm.role_max_tokens');
sql('ALTER ROLE app RESET vllm.role_max_tokens');

# ---- requests in flight ----
sql('ALTER ROLE app SET vllm.role_max_requests = 1');
my $held = as_role('app', q{SELECT count(*) = 32 FROM llm_completions('Ticket: held', n => 32, max_tokens => 480, temperature => 1, ignore_eos => true)});
ok(until_sql($node, q{SELECT count(*) FROM llm_requests}, '1'), 'one is in flight, of many answers');
like(answer('app', "SET vllm.role_limit_timeout = 0", $short), qr/53400: role has its limit of 1 LLM requests in flight.*vllm\.role_max_requests/s, 'another is refused');
like(answer('app', "SET vllm.role_limit_timeout = '20ms'", $short), qr/53400/, '... or after a while');
like(answer('app', q{SELECT llm_generate('x', timeout_ms => 20)}), qr/57014: canceling LLM request due to timeout/, 'timeout_ms holds there, too');
is(answer('other', $short), 't', 'others go on');
is(answer('app', $short), 't', 'the next one waits');
is((finish($held))[0], 't', 'the first has ended');
my @many = map { as_role('app', $short) } 1 .. 4;
is((finish($_))[0], 't', 'sessions of the role wait for each other') for @many;
is(answer('app', q{SELECT count(llm_generate('Ticket: ' || i, max_tokens => 3)) FROM generate_series(1, 20) i}), 20, 'a statement of many rows');
is(answer('app', 'SET vllm.role_limit_timeout = 0', q{SELECT count(llm_generate('Ticket: ' || i, max_tokens => 3)) FROM generate_series(1, 20) i}), 20,
	"... whose rows don't get in each other's way");
sql('ALTER ROLE app RESET vllm.role_max_requests');

# ---- tokens per minute ----
sql('ALTER ROLE app SET vllm.role_tokens_per_minute = 600');
is(answer('app', sprintf($ask, 'x', 480)), 't', 'within the minute');
is(answer('app', sprintf($ask, 'x', 140)), 't', 'the last one may overdraw it');
like(answer('app', 'SET vllm.role_limit_timeout = 0', $short), qr/53400: role has used up its limit of 600 LLM tokens per minute.*The next request may begin in [0-9.]+ s/s, 'then there are none');
is(answer('other', $short), 't', 'others have theirs');
my $begin = time;
is(answer('app', $short), 't', 'who waits gets them');
cmp_ok(time - $begin, '>', 0.3, '... later');
sql('ALTER ROLE app RESET vllm.role_tokens_per_minute');

# ---- the background ---- one session fills the engine with background rows; another's come first
my $rows = q{INSERT INTO log (what) SELECT '%s' || length(llm_generate('Ticket: ' || i, max_tokens => 60, ignore_eos => true)) * 0 FROM generate_series(1, %d) i};
my $back = as_role('app', 'SET vllm.background = on', 'SET vllm.batch = on', sprintf($rows, 'b', 300));
ok(until_sql($node, q{SELECT count(*) > 4 FROM llm_requests}, 't'), 'the background works');
$begin = time;
is(answer('other', sprintf($ask, 'x', 20)), 't', 'a request in front of it');
my $front = time - $begin;
my $state = sql('SELECT count(*) > 0 FROM llm_requests');
is($state, 't', sprintf('... is done in %.2f s, before the background is', $front));
finish($back);
is(sql(q{SELECT count(*) FROM log WHERE what = 'b0'}), 300, 'the background ends, too');

# ---- by default: a role's futures never hold all seats, all blocks or all slots ----
$node->append_conf('postgresql.conf', "vllm.max_num_seqs = 64\nvllm.kv_cache_memory_bytes = '4MB'\n");
$node->restart;
ok(until_sql($node, q{SELECT length(llm_generate('warm', max_tokens => 1)) >= 0}, 't'), 'the engine is back, with little memory');
my $futures = q{SELECT count(llm_submit('Ticket: ' || i, max_tokens => 450, ignore_eos => true, temperature => 0)) FROM generate_series(1, %d) i};
my $crowd = as_role('app', sprintf($futures, 512), 'SELECT pg_sleep(50)');
ok(until_sql($node, q{SELECT count(*) FROM llm_requests}, '512'), "512 futures of a role");
my $worst = 0;
for (1 .. 5)
{
	my $asked = time;
	is(answer('other', $short), 't', "another role's short call");
	$worst = time - $asked if time - $asked > $worst;
}
my $still = sql('SELECT count(*) FROM llm_requests');
cmp_ok($worst, '<', 2, sprintf('... takes %.2f s at most, while the futures go on', $worst));
cmp_ok($still, '>', 400, '... as they do');
sql(q{SELECT count(pg_terminate_backend(pid)) FROM (SELECT DISTINCT pid FROM llm_requests) x});
finish($crowd);
ok(until_sql($node, q{SELECT count(*) FROM llm_requests}, '0'), 'they end with their session');

# ---- requests that wait for a limit hold a slot: others still get some ----
$node->append_conf('postgresql.conf', 'vllm.max_queued_requests = 8');
$node->restart;
ok(until_sql($node, q{SELECT length(llm_generate('warm', max_tokens => 1)) >= 0}, 't'), 'the engine is back, with 8 slots');
# all slots, if it has no limits: but some are spared for roles that have none
my @crowd = map { as_role('app', sprintf($futures, 4), 'SELECT pg_sleep(50)') } 1 .. 2;
ok(until_sql($node, q{SELECT slots_free FROM llm_stat_engine}, '0'), 'one role has all slots');
like(answer('app', "SET vllm.queue_timeout = '100ms'", $short), qr/53300: too many LLM requests are queued/, '... its next request waits');
is(answer('other', "SET vllm.queue_timeout = '100ms'", $short), 't', "... another role's has one") for 1 .. 3;
sql(q{SELECT count(pg_terminate_backend(pid)) FROM (SELECT DISTINCT pid FROM llm_requests) x});
finish($_) for @crowd;
ok(until_sql($node, q{SELECT slots_free FROM llm_stat_engine}, '8'), 'nothing is left of it');
sql('ALTER ROLE app SET vllm.role_tokens_per_minute = 60');
is(answer('app', sprintf($ask, 'x', 400)), 't', 'a role has used up its tokens for minutes');
my $submit = q{SELECT count(llm_submit('x', max_tokens => 2)) FROM generate_series(1, 4)};
my @greedy = (as_role('app', $submit, 'SELECT pg_sleep(50)'));
ok(until_sql($node, q{SELECT count(*) FROM llm_requests}, '4'), 'it has half of the slots');
push @greedy, as_role('app', "SET vllm.queue_timeout = '30s'", $submit, 'SELECT pg_sleep(50)');
ok(until_sql($node, q{SELECT slot_waiters FROM llm_stat_engine}, '1'), 'another session of it waits for one');
like(answer('app', "SET vllm.queue_timeout = '200ms'", $short), qr/53300: too many LLM requests are queued.*A role with limits can use at most half of them/s, '... or gets an error');
is(answer('other', $short), 't', 'others go on') for 1 .. 3;
is(answer('other', $submit), '4', '... with all the rest');
is(sql(q{SELECT count(*) FROM llm_requests}), 4, 'the role has what it had');
# sessions that end leave theirs to waiting sessions of the role
is(sql(q{SELECT count(pg_terminate_backend(pid)) FROM (SELECT DISTINCT pid FROM llm_requests) x}), 1, 'the first session ends');
finish(shift @greedy);
ok(until_sql($node, q{SELECT count(*) FROM llm_requests WHERE pid NOT IN (SELECT pid FROM pg_stat_activity WHERE wait_event = 'VllmSlot')}, '4'),
	'... and the other has them');
sql(q{SELECT count(pg_terminate_backend(pid)) FROM (SELECT DISTINCT pid FROM llm_requests) x});
finish($_) for @greedy;
sql('ALTER ROLE app RESET vllm.role_tokens_per_minute');
ok(until_sql($node, q{SELECT slots_free FROM llm_stat_engine}, '8'), 'nothing is left');

$node->stop;

# ---- more models than vllm.max_models: a statement waits for a place, and can be ended meanwhile ----

$node = new_node('places', "vllm.max_models = 1\n");
$node->safe_psql('postgres', q{SELECT llm_create_model(n, '/fake/' || n) FROM unnest('{a,b,c}'::text[]) n});
my $first = bg($node, q{SELECT llm_generate('@delay:6000', model => 'a')});
until_sql($node, q{SELECT count(*) = 1 FROM llm_requests WHERE state = 'running'});
my @waiting = map { bg($node, "SELECT llm_generate('x', model => '$_')") } qw(b c);
ok(until_sql($node, q{SELECT count(*) = 2 FROM llm_requests WHERE state = 'waiting'}), 'requests for other models wait while the only place is busy');
for ([ q{SET statement_timeout = '300ms'; SELECT llm_generate('x', model => 'b')}, 'statement_timeout' ], [ q{SELECT llm_generate('x', model => 'b', timeout_ms => 300)}, 'timeout_ms' ])
{
	my $begun = time;
	like(error_of($node, $_->[0]), qr/57014/, "$_->[1] ends the wait");
	cmp_ok(time - $begun, '<', 1.5, '... at once');
}
is($node->safe_psql('postgres', q{SELECT llm_api('/v1/completions', '{"model": "a", "prompt": "y"}')->'choices'->0->>'text'}), 'Y', 'a model that has its place is asked meanwhile');
finish($first);
is(finish($_), 'X', 'then they have their answers') for @waiting;
set_to($node, 'vllm.memory_timeout', '200ms');
$first = bg($node, q{SELECT llm_generate('@delay:2000', model => 'a')});
until_sql($node, q{SELECT count(*) = 1 FROM llm_requests WHERE state = 'running'});
like(error_of($node, q{SELECT llm_generate('x', model => 'b')}), qr/54000: .*too many models in use \(maximum is 1\).*None of them was idle within 200 ms \(vllm\.memory_timeout\)/s, 'they wait no longer than vllm.memory_timeout');
finish($first);
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');
$node->stop('fast');
done_testing();
