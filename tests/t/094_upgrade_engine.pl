# llm_engine_upgrade: another engine takes over while calls run, and none of them fails; whatever is killed
# or cancelled on the way, one of the engines serves.
use strict;
use warnings;
use lib 't';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use VllmTest;

my $node = PostgreSQL::Test::Cluster->new('upgrade_engine');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "max_connections = 60\nvllm.kv_cache_memory_bytes = '16MB'\nstatement_timeout = '120s'\n");
$node->start;
$node->safe_psql('postgres', q{CREATE EXTENSION vllm_pg; CREATE ROLE reader LOGIN;
	SELECT llm_create_model('second', (SELECT path FROM llm_models), options => '{"max_num_seqs": 7}')});

sub sql { return $node->safe_psql('postgres', shift); }
sub error { return ($node->psql('postgres', "\\set VERBOSITY verbose\n" . shift))[2]; }

my $prompt = q{E'Ticket: The kettle arrived broken and I want my money back.\nSummary:'};
my $ask = "SELECT llm_generate($prompt, max_tokens => 30, temperature => 0, ignore_eos => true)";
my $answer = sql($ask);
sql("SELECT llm_generate('a', model => 'second', max_tokens => 1)");

# an idle engine: the models are in service at once
my $old = engine_pid($node);
sql('SELECT llm_engine_upgrade()');
my $new = engine_pid($node);
isnt($new, $old, 'another engine');
is(sql("SELECT string_agg(name || ' ' || state, ', ' ORDER BY name) FROM llm_models"), 'second ready, tickets-2m ready', 'it has the models');
is(sql($ask), $answer, 'the same answer');
ok(until_true(sub { !is_alive($old) }, 10), 'the old one is gone');
is(stat_engine($node, 'state, restarts'), 'ready|0', 'no restart');

# many calls, and upgrade after upgrade: none fails
{
	my $many = "SELECT DISTINCT llm_generate($prompt, max_tokens => 30, temperature => 0, ignore_eos => true) FROM generate_series(1, 60)";
	my @pids = (engine_pid($node));
	my @calls;
	my $begin = time;
	for my $round (1 .. 4)
	{
		push @calls, map { bg($node, ($many) x 3) } 1 .. 5;
		push @calls, bg($node, "SET vllm.batch = off; $many");
		push @calls, bg($node, "SELECT string_agg(text, '') FROM llm_generate_stream($prompt, max_tokens => 30, temperature => 0, params => '{\"ignore_eos\": true}')");
		sql('SELECT llm_engine_upgrade()');
		push @pids, engine_pid($node);
	}
	my %seen = map { $_ => 1 } @pids;
	is(scalar keys %seen, 5, 'five engines have served');
	my ($ok, $bad) = (0, 0);
	for my $c (@calls)
	{
		my ($out, $err) = finish($c);
		my @lines = grep { $_ ne '' } split /\n/, $out;
		my $fine = $err eq '' && @lines > 0 && !grep { $_ ne $answer && index($out, $answer) < 0 } @lines;
		$fine ? $ok++ : $bad++;
		diag("$err $out") if !$fine;
	}
	is($bad, 0, "none of $ok sessions has failed");
	figure('4 upgrades under load in %.1f s', time - $begin);
	is(left_behind($node), '0|0|0|0|0|0', 'nothing is left');
	ok(until_true(sub { !grep { is_alive($_) } @pids[0 .. 3] }, 10), 'the old ones are gone');
	is(sql("SELECT vllm.control('integrity')"), 'ok', 'integrity');
}

# new settings that need another process
sql("ALTER SYSTEM SET vllm.engine_nice = 3");
$node->reload;
sleep 1;
sql('SELECT llm_engine_upgrade()');
# (it can't be nicer than the process that started the server)
is((split ' ', (slurp_file('/proc/' . engine_pid($node) . '/stat') =~ /\) (.*)/)[0])[16], getpriority(0, 0) > 3 ? getpriority(0, 0) : 3, 'the new one has the new settings');
sql('ALTER SYSTEM RESET vllm.engine_nice');
$node->reload;

# the new one does not start: the old one stays
$old = engine_pid($node);
sql("ALTER SYSTEM SET vllm.engine_path = '/nowhere/vllm_pg_engine'");
$node->reload;
sleep 1;
like(error('SELECT llm_engine_upgrade()'), qr/57P03.*could not upgrade the inference engine.*could not execute "\/nowhere\/vllm_pg_engine"/s, 'no such program');
is(engine_pid($node), $old, '... the old one serves');
is(sql($ask), $answer, '... and answers');
sql('ALTER SYSTEM RESET vllm.engine_path');
sql("ALTER SYSTEM SET vllm.engine_args = '--set nonsense=1'");
$node->reload;
sleep 1;
like(error('SELECT llm_engine_upgrade()'), qr/57P03.*The new engine process exited with status 2: .*nonsense/s, 'bad arguments, and the log says so');
is(engine_pid($node), $old, '... the old one serves');
sql('ALTER SYSTEM RESET vllm.engine_args');
$node->reload;
sleep 1;

# it can't load the models: memory for both, and missing files
sql("ALTER SYSTEM SET vllm.memory_limit = '100MB'");
$node->reload;
sleep 1;
like(error('SELECT llm_engine_upgrade()'), qr/53200.*not enough memory for a second engine.*vllm.memory_limit/s, 'memory');
sql('ALTER SYSTEM RESET vllm.memory_limit');
$node->reload;

# Return the pid of the second engine while it is prepared.
sub second
{
	my $pid;
	until_true(sub {
		($pid) = grep { $_ != $old } map { /^(\d+)/ } `pgrep -f '^[^ ]*vllm_pg_engine --arena-fd' -P @{[ sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'vllm_pg supervisor'") ]}`;
		defined $pid }, 10);
	return $pid;
}
# loading takes a while: one session makes the second engine's loads slow
for my $how ('kill', 'cancel', 'terminate', 'kill the old one')
{
	$old = engine_pid($node);
	my $restarts = stat_engine($node, 'restarts');
	my $c = bg($node, map { $ask } 1 .. 10);
	my $u = bg($node, $how eq 'cancel' ? "SET statement_timeout = '60ms'" : 'SELECT 1', 'SELECT llm_engine_upgrade() FROM generate_series(1, 20)');
	if ($how eq 'kill')
	{
		my $pid = second();
		kill 'KILL', $pid;
	}
	elsif ($how eq 'terminate')
	{
		until_sql($node, "SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE '%llm_engine_upgrade() FROM%' AND pid <> pg_backend_pid()");
		usleep(30000);
		sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%llm_engine_upgrade() FROM%' AND pid <> pg_backend_pid()");
	}
	elsif ($how eq 'kill the old one')
	{
		second();
		kill 'KILL', $old;
	}
	my ($out, $err) = finish($u);
	$err =~ s/^(psql:.*)?NOTICE:.*\n(LOCATION:.*\n)?//mg;
	like($err, $how eq 'cancel' ? qr/57014/ : $how eq 'terminate' ? qr/57P01|terminat/ : qr/57P03|58000|^$/, "$how: " . ($err =~ /(ERROR|FATAL): (.*)/ ? $2 : 'in time'));
	($out, $err) = finish($c);
	# the second engine may have begun to serve before the kill
	if ($how eq 'kill the old one' || ($how eq 'kill' && stat_engine($node, 'restarts') > $restarts)) { like($err, qr/58000|^$/, '... its calls are lost, as ever'); }
	else
	{
		is($err, '', '... no call fails');
		is_deeply([ split /\n/, $out ], [ ($answer) x 10 ], '... and all answers are right') if $how ne 'kill' || $err eq '';
	}
	ok(until_sql($node, "SELECT state = 'ready' FROM llm_stat_engine"), '... somebody serves');
	is(sql($ask), $answer, '... and answers');
	is(left_behind($node), '0|0|0|0|0|0', '... nothing is left');
	sql('SELECT llm_engine_upgrade()');
	is(sql($ask), $answer, '... and the next upgrade works');
}
my $sup = sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'vllm_pg supervisor'");
ok(until_true(sub { 1 == scalar(my @p = `pgrep -P $sup vllm_pg_engine`) }, 10), 'one engine is left');

# a new supervisor, whichever side the engine was on
for my $n (1, 2)
{
	sql('SELECT llm_engine_upgrade()') for 1 .. $n;
	$old = engine_pid($node);
	sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'vllm_pg supervisor'");
	until_ready($node, $old);
	is(sql($ask), $answer, 'after the end of the supervisor');
	sql('SELECT llm_engine_upgrade()');
	is(sql($ask), $answer, '... and another upgrade');
	is(left_behind($node), '0|0|0|0|0|0', '... nothing is left');
}
$sup = sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'vllm_pg supervisor'");

# a call that takes longer than the old engine's time to finish: it is lost, the others are not
sql("SELECT vllm.control('sleep-step 3000')");
my $slow = bg($node, $ask);
until_sql($node, "SELECT count(*) FROM llm_requests WHERE kind = 'generate'", '1');
$old = engine_pid($node);
sql('SELECT llm_engine_upgrade(drain_timeout_ms => 300)');
is(sql($ask), $answer, 'the new one answers beside it');
like((finish($slow))[1], qr/58000/, 'a call that outlives the old engine fails as in a crash');
ok(until_true(sub { !is_alive($old) }, 10), 'the old one is gone');

# a sleeping or paused model is so in the new engine, too, and wakes there: no call fails
for my $level (0 .. 2)
{
	for my $model ('', 'second')
	{
		my $call = "SELECT llm_generate($prompt, model => 'second', max_tokens => 200, temperature => 0, ignore_eos => true)";
		my $long = sql($call);
		my $of = $model ? ", model => '$model'" : '';
		sql("SELECT vllm.control('sleep-step 400')");
		my $kept = bg($node, $call);
		until_sql($node, "SELECT count(*) > 0 FROM llm_requests WHERE model = 'second' AND state IN ('waiting', 'running')");
		sql("SELECT llm_sleep($level, 'keep'$of)");
		my $before = bg($node, "SET vllm.sleep_requests = 'wait'; $call");
		until_sql($node, "SELECT count(*) FROM llm_requests WHERE state = 'asleep'", '1');
		$old = engine_pid($node);
		sql('SELECT llm_engine_upgrade()');
		isnt(engine_pid($node), $old, "level $level, " . ($model || 'all') . ': another engine');
		is(sql("SELECT llm_is_sleeping(), llm_is_sleeping('second'), llm_is_sleeping('tickets-2m'), llm_is_paused('second')"), $model ? 't|t|f|t' : 't|t|t|t', '... sleeps');
		my $after = bg($node, "SET vllm.sleep_requests = 'wait'; $call");
		until_sql($node, "SELECT count(*) FROM llm_requests WHERE state = 'asleep'", '2');
		sql($model ? "SELECT llm_wake_up(model => '$model')" : 'SELECT llm_wake_up()');
		is(scalar finish($kept), $long, '... who was kept goes on in the old one');
		is(scalar finish($before), $long, '... so does who has waited');
		is(scalar finish($after), $long, '... and who has come later, in the new one');
		is(sql('SELECT llm_is_sleeping()'), 'f', '... awake');
		ok(until_true(sub { !is_alive($old) }, 10), '... the old one is gone');
	}
}
# one model of a sleeping engine is awake
sql("SELECT llm_sleep(1); SELECT llm_wake_up(model => 'second'); SELECT llm_engine_upgrade()");
is(sql("SELECT llm_is_sleeping(), llm_is_sleeping('second'), llm_is_sleeping('tickets-2m')"), 't|f|t', 'each as it was');
sql('SELECT llm_wake_up()');
is(sql($ask), $answer, 'awake');
# a sleep that waits for requests while the engine changes is repeated in the new one
{
	sql("SELECT vllm.control('sleep-step 2000')");
	my $busy = bg($node, $ask);
	until_sql($node, "SELECT count(*) FROM llm_requests WHERE kind = 'generate'", '1');
	my $sleep = bg($node, "SELECT llm_sleep(1, 'wait')");
	until_sql($node, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT llm_sleep(1%' AND state = 'active'", '1');
	sql('SELECT llm_engine_upgrade()');
	is(scalar finish($busy), $answer, 'who was there is answered');
	finish($sleep);
	is(sql('SELECT llm_is_sleeping()'), 't', '... and the new engine sleeps');
	sql('SELECT llm_wake_up()');
	is(sql($ask), $answer, '... until it wakes');
}
# sleeping models need no memory
sql("SELECT llm_load_model('second'); ALTER SYSTEM SET vllm.memory_limit = '100MB'");
$node->reload;
sleep 1;
sql("SELECT llm_sleep(1, model => 'tickets-2m')");
is(sql("SELECT llm_engine_upgrade(); SELECT llm_wake_up(model => 'tickets-2m')"), "\n", 'sleepers need no room');
sql('ALTER SYSTEM RESET vllm.memory_limit');
$node->reload;
is(sql($ask), $answer, 'awake');

# two at once; privileges
{
	my $u = bg($node, 'SET client_min_messages = warning', 'SELECT llm_engine_upgrade() FROM generate_series(1, 3)');
	my $v = bg($node, 'SET client_min_messages = warning', 'SELECT llm_engine_upgrade() FROM generate_series(1, 3)');
	my @err = ((finish($u))[1], (finish($v))[1]);
	ok(!(grep { $_ ne '' && $_ !~ /55006/ } @err), "two at once: one after the other, or an error (@err)");
}
like(error('SET ROLE reader; SELECT llm_engine_upgrade()'), qr/42501/, 'who may');
like(error('SELECT llm_engine_upgrade(-1)'), qr/22023/, 'no negative time');

# and the server stops as usual
sql('SELECT llm_engine_upgrade()');
my @pids = (engine_pid($node), $sup);
$node->stop;
ok(until_true(sub { !grep { is_alive($_) } @pids }, 10), 'nothing is left behind');
done_testing();
