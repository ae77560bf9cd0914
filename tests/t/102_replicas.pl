# Several replicas of a model with one queue: the same outputs, bit for bit, from each of them; all of them
# work; cancelling, limits of roles, priorities, streams, pins, sleep, adapters, and errors.
use strict;
use warnings;
use lib 't';
use Cwd qw(abs_path getcwd);
use File::Copy;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use VllmTest;

my $fixtures = getcwd() . '/fixtures';
my $node = PostgreSQL::Test::Cluster->new('replicas');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "max_connections = 60\nvllm.kv_cache_memory_bytes = '16MB'\nvllm.cpu_threads = 2\nvllm.max_num_seqs = 4\nvllm.hang_timeout = '3s'\nvllm.sleep_requests = 'wait'\nstatement_timeout = '120s'\n");
$node->start;
$node->safe_psql('postgres', q{CREATE EXTENSION vllm_pg; CREATE ROLE app LOGIN; CREATE ROLE other LOGIN});

sub sql { return $node->safe_psql('postgres', shift); }
sub error { return error_of($node, shift); }

# Return the CPU time of each of the engine's threads with that name.
sub steppers
{
	my %us;
	my $engine = engine_pid($node);
	for my $task (glob "/proc/$engine/task/*")
	{
		my $name = do { open(my $f, '<', "$task/comm") or next; <$f> // '' };
		chomp $name;
		next if $name !~ /^step( \d+)?$/;
		open(my $f, '<', "$task/schedstat") or next;
		$us{$name} = (split ' ', <$f> // '0')[0] / 1000;
	}
	return %us;
}

my $dir = abs_path($node->basedir) . '/adapter';
make_adapter($dir);
my $top = abs_path($node->basedir) . '/models';
mkdir $top or die;
my @kinds = qw(mixtral_f16 granite4_f16 mamba_f16);
for my $kind (@kinds)
{
	mkdir "$top/$kind" or die;
	copy($_, "$top/$kind") or die "$_: $!" for glob "$fixtures/models/$kind/*";
	sql(qq{SELECT llm_create_model('$kind', '$top/$kind', options => '{"kv_cache_memory_bytes": 65536, "max_model_len": 96}')});
}

my $many = q{SELECT string_agg(llm_generate('Ticket ' || i || ':', max_tokens => 12, temperature => 1, seed => i, ignore_eos => true), '|' ORDER BY i) FROM generate_series(1, 24) i};
my @questions = (
	q{SELECT llm_generate(E'Ticket: My order A-1042 never arrived and nobody answers my mails.\nSentiment:')},
	$many,
	q{SELECT llm_output_json(llm_output('Ticket: the Volt scale is broken', temperature => 0.9, seed => 3, n => 3, logprobs => 3, prompt_logprobs => 2, max_tokens => 12))::jsonb - 'model' - 'id' - 'created' - 'metrics' - 'usage'},
	q{SELECT string_agg(b::text, '|') FROM llm_beam_search('Ticket: x', 3, 5) b},
	q{SELECT llm_generate('Ticket: my order', regex => '[a-z ]{5,20}', temperature => 1, seed => 5, max_tokens => 12)},
	q{SELECT string_agg(s::text, '') FROM llm_generate_stream('Ticket: the kettle', max_tokens => 30, ignore_eos => true) s},
	(map { qq{SELECT string_agg((llm_output(repeat('a b c ', i), model => '$_', max_tokens => 12, ignore_eos => true, temperature => 1, seed => i, logprobs => 2)).completions::text, '|' ORDER BY i) FROM generate_series(1, 6) i} } @kinds),
	qq{SELECT llm_create_lora('a', 'tickets-2m', '$dir'); SELECT string_agg(llm_generate('Ticket ' || i || ':', max_tokens => 12, lora => 'a', ignore_eos => true), '|' ORDER BY i) FROM generate_series(1, 8) i; SELECT llm_drop_lora('a')},
);
sub answers { return map { sql($_) } @questions; }

my @alone = answers();
isnt($alone[-1], '', 'answers of one replica');

# ---- the same bits ----

for my $shape ([ 2, 1 ], [ 3, 1 ], [ 2, 2 ])
{
	my ($dp, $tp) = @$shape;
	restart_with($node, data_parallel_size => $dp, tensor_parallel_size => $tp);
	is(sql($questions[$_]), $alone[$_], "question $_ of $dp replicas of $tp ranks") for 0 .. $#questions;
	my @calls = map { bg($node, $many) } 1 .. 6;
	is((finish($_))[0], $alone[1], '... many at once') for @calls;
	my %us = steppers();
	is(scalar(keys %us), $dp, "$dp step threads");
	cmp_ok($us{$_}, '>', 1000, "'$_' has worked") for sort keys %us;
	is(sql(q{SELECT count(*) FROM llm_stat_model WHERE name = 'tickets-2m' AND state = 'ready'}), 1, 'it is one model');
}
ok($node->log_contains(qr/each model has 2 replicas/), 'the log tells of them');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');

# a rank of the second replica
my $engine = engine_pid($node);
my $ps = `ps -eo pid,args`;
my @ranks = sort { $a <=> $b } map { /^\s*(\d+) .*vllm_pg_engine --rank 1 --replica 1 --group-fd/ ? $1 : () } split /\n/, $ps;
my ($rank) = grep { my $ppid = `ps -o ppid= -p $_`; $ppid == `ps -o ppid= -p $engine` } @ranks;
ok($rank, 'the second replica has a rank of its own');
kill 'KILL', $rank;
ok(until_ready($node, $engine), 'kill -9 of it');
is(sql($questions[0]), $alone[0], '... and all goes on');
ok($node->log_contains(qr/rank 1 of replica 1 of the inference engine ended/), '... of which the log tells');

# ---- one queue ----

restart_with($node, data_parallel_size => 2, tensor_parallel_size => 1);
sql($questions[0]);

# eight seats instead of four
my $hold = q{SELECT count(*) FROM llm_completions('Ticket %d:', n => 32, max_tokens => 480, temperature => 1, ignore_eos => true)};
my @held = map { bg($node, sprintf($hold, $_)) } 1 .. 3;
ok(until_sql($node, q{SELECT running = 8 FROM llm_stat_model WHERE name = 'tickets-2m'}), 'eight answers are written at once, four by each replica');
# one statement alone has eight answers to write
until_sql($node, q{SELECT count(*) = 3 FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%Ticket%' AND pid <> pg_backend_pid()});
my $start = time;
sql(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%Ticket%' AND pid <> pg_backend_pid()});
my $cancelled = grep { (finish($_))[1] =~ /canceling/ } @held;
is($cancelled, 3, 'all are cancelled, in whichever replica they are');
cmp_ok(time - $start, '<', 5, '... at once');
ok(until_sql($node, q{SELECT running + waiting = 0 FROM llm_stat_model WHERE name = 'tickets-2m'}), '... and are gone');

# a prompt's prefix is computed once
sql('SELECT llm_reset_prefix_cache()');
my $head = join(' ', map { "Ticket $_: the kettle of order 10$_ arrived broken." } 1 .. 8);
my $cached = qq{SELECT (r.usage).cached_tokens > 0 FROM llm_generate_full('$head', max_tokens => 1) r};
is(sql($cached), 'f', 'a new prompt');
is(sql($cached), 't', '... is where it was') for 1 .. 4;

# limits of roles hold over both replicas, and a request that waits in one continues when one in the other
# has ended
sql('ALTER ROLE app SET vllm.role_max_requests = 2');
my @limited = map { bg_as($node, 'app', q{SELECT count(llm_generate('Ticket ' || i || ':', max_tokens => 40, ignore_eos => true)) FROM generate_series(1, 4) i}) } 1 .. 4;
my $most = 0;
for (1 .. 40)
{
	my $n = sql(q{SELECT running FROM llm_stat_model WHERE name = 'tickets-2m'});
	$most = $n if $n > $most;
	usleep(5000);
}
is((finish($_))[0], "4", 'a role with a limit') for @limited;
cmp_ok($most, '<=', 2, '... which holds over all replicas');
sql('ALTER ROLE app RESET vllm.role_max_requests');

# fair shares: a role with few requests isn't delayed by one with many
my @crowd = map { bg_as($node, 'app', q{SELECT count(llm_generate('Ticket ' || i || ':', max_tokens => 100, ignore_eos => true)) FROM generate_series(1, 60) i}) } 1 .. 3;
usleep(300000);
$start = time;
my ($out, $err) = finish(bg_as($node, 'other', q{SELECT count(llm_generate('Ticket ' || i || ':', max_tokens => 20, ignore_eos => true)) FROM generate_series(1, 4) i}));
my $mine = time - $start;
is($out, 4, 'another role beside a crowd');
is((finish($_))[0], 60, '... which gets its answers, too') for @crowd;
cmp_ok($mine, '<', (time - $start) / 2 + 0.5, '... later');

# priorities
restart_with($node, scheduling_policy => 'priority', max_num_seqs => 1);
my @low = map { bg($node, sprintf(q{SELECT length(llm_generate('Ticket %d:', max_tokens => 300, ignore_eos => true, params => '{"priority": 5}')) > 0}, $_)) } 1 .. 8;
usleep(300000);
$start = time;
is(sql(q{SELECT length(llm_generate('Ticket: urgent', max_tokens => 3, ignore_eos => true, params => '{"priority": -1}')) > 0}), 't', 'the urgent one');
my $urgent = time - $start;
is((finish($_))[0], 't', '... and the others') for @low;
cmp_ok($urgent, '<', (time - $start) / 2 + 0.5, '... which are later');
restart_with($node, scheduling_policy => 'fcfs', max_num_seqs => 4);

# a cursor that isn't read to its end, pins
sql(q{BEGIN; DECLARE c CURSOR FOR SELECT * FROM llm_generate_stream('Ticket: x', max_tokens => 400, ignore_eos => true); FETCH 2 FROM c; CLOSE c; COMMIT});
ok(until_sql($node, q{SELECT running = 0 FROM llm_stat_model WHERE name = 'tickets-2m'}), 'a stream that is closed');

# ---- sleep, weights, jobs between steps ----

my $busy = bg($node, "SET vllm.sleep_requests = 'wait'", q{SELECT count(llm_generate('Ticket ' || i || ':', max_tokens => 50, ignore_eos => true)) FROM generate_series(1, 40) i});
sub sleeps
{
	my ($level) = @_;
	sql("SELECT llm_sleep($level, mode => 'keep', model => 'tickets-2m'); SELECT llm_wake_up(model => 'tickets-2m')");
	is(sql($questions[0]), $alone[0], "behind a sleep of level $level");
}
sleeps(1);
sql('SELECT llm_reset_prefix_cache()') for 1 .. 20;
($out, $err) = finish($busy);
is($out, 40, '... nobody else has noticed') or diag($err);
sleeps(2);
is(sql($many), $alone[1], '... all answers are as before');
sql(q{SELECT llm_unload_model('tickets-2m')});
is(sql($many), $alone[1], '... also of a model that is loaded again');
sql('SELECT llm_engine_upgrade()');
is(sql($many), $alone[1], 'behind an upgrade');
is(sql(q{SELECT requests = finished + failed + cancelled AND finished > 0 FROM llm_stat_model WHERE name = 'tickets-2m'}), 't', 'all requests are counted, once');

# ---- errors ----

like(error(q{ALTER SYSTEM SET vllm.data_parallel_size = 0}), qr/22023: 0 is outside the valid range/, 'no replica at all');
sql(q{ALTER SYSTEM SET vllm.data_parallel_size = 16});
sql(q{ALTER SYSTEM SET vllm.tensor_parallel_size = 2});
$node->reload;
$node->psql('postgres', 'SELECT llm_engine_restart()');
ok(until_sql($node, q{SELECT last_error LIKE '%vllm.data_parallel_size require 32 ranks; the maximum is 16%' FROM llm_stat_engine}), 'more ranks than there may be');
restart_with($node, data_parallel_size => 2, tensor_parallel_size => 2, enable_expert_parallel => 'on');
like(error($questions[6]), qr/ERROR:  0A000: .*experts can't be distributed over the ranks of 2 replicas.*HINT:  Turn vllm.enable_expert_parallel off/s, 'whole experts and replicas');
is(sql($questions[0]), $alone[0], '... which a model without experts does not mind');
restart_with($node, data_parallel_size => 1, tensor_parallel_size => 1, enable_expert_parallel => 'off');
is(sql($many), $alone[1], 'one replica, as before');
# a second one runs steps of another model at the same time
is(scalar(keys %{ { steppers() } }), 2, '... with its step threads');
$node->stop('fast');
done_testing();
