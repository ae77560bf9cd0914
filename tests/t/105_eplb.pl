# Experts that move between ranks while a model generates (vllm.enable_eplb): the outputs of one process,
# bit for bit, before and after; rounds, their metrics and the log; sleep, new weights, cancelled requests,
# a rank that is killed; devices; errors.
use strict;
use warnings;
use lib 't';
use Cwd qw(abs_path getcwd);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use VllmTest;

my $fixtures = getcwd() . '/fixtures';
my $node = PostgreSQL::Test::Cluster->new('eplb');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "vllm.device = 'cpu'\nvllm.cpu_threads = 2\nvllm.max_num_seqs = 8\nvllm.max_num_batched_tokens = 64\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');

sub sql { return $node->safe_psql('postgres', shift); }
sub error { return error_of($node, shift); }
sub restart { return restart_with($node, @_); }

# 8, 8, 6 and 5 experts; a model without any
my @kinds = qw(qwen3_moe_f16 deepseek3_f16 gpt_oss_f16 mixtral_f16);
sql(qq{SELECT llm_create_model('$_', '$fixtures/models/$_', options => '{"kv_cache_memory_bytes": 262144, "max_model_len": 96}')}) for @kinds, 'llama_tied_bf16';
# a step computes its scales when it is loaded
sql(qq{SELECT llm_create_model('scaled', '$fixtures/models/qwen3_moe_f16', options => '{"kv_cache_memory_bytes": 262144, "max_model_len": 96, "kv_cache_dtype": "fp8", "calculate_kv_scales": true}')});

# many steps: prompts in chunks, requests in one batch
sub answers
{
	my ($kind) = @_;
	return sql(qq{SELECT string_agg((llm_output(repeat('a b c ', i), model => '$kind', max_tokens => 14, ignore_eos => true, temperature => 1, seed => i, logprobs => 2)).completions::text, '|' ORDER BY i)
		FROM generate_series(1, 7) i});
}

# [rounds, moved, failed, balanced]
sub moves
{
	my ($kind) = @_;
	return split /\|/, sql(qq{WITH m AS (SELECT name, value FROM llm_metrics() WHERE labels ->> 'model_name' = '$kind')
		SELECT max(value) FILTER (WHERE name = 'vllm_pg:eplb_rearrangements_total'), max(value) FILTER (WHERE name = 'vllm_pg:eplb_moved_experts_total'),
			max(value) FILTER (WHERE name = 'vllm_pg:eplb_failed_total'),
			max(value) FILTER (WHERE name = 'vllm_pg:eplb_rows_total') / nullif(max(value) FILTER (WHERE name = 'vllm_pg:eplb_busiest_rows_total'), 0) FROM m});
}

sub have_moved
{
	my ($kind, $what) = @_;
	my ($rounds, $moved, $failed, $balanced) = moves($kind);
	cmp_ok($rounds, '>', 1, "$kind $what: rounds");
	cmp_ok($moved, '>', 0, '... experts moved');
	is($failed, 0, '... none failed');
	ok($balanced >= 0.5 && $balanced <= 1, "... balancedness $balanced");
	return;
}

# one kind with more tests; an adapter of its attention, and the model alone
my $kind = 'qwen3_moe_f16';
my $adapter = abs_path($node->basedir) . '/adapter';
make_adapter($adapter, 32, 40);
sql("SELECT llm_create_lora('adapted', '$kind', '$adapter')");
my $adapted = qq{SELECT string_agg(llm_generate('a b ' || i, model => '$kind', lora => CASE WHEN i % 2 = 0 THEN 'adapted' END, max_tokens => 12, ignore_eos => true, temperature => 0), '|' ORDER BY i) FROM generate_series(1, 6) i};
my $with = sql($adapted);
isnt($with, sql($adapted =~ s/'adapted'/NULL/r), 'an adapter changes answers');

my %alone = map { $_ => answers($_) } @kinds, qw(llama_tied_bf16 scaled);
is((moves($kind))[0], 0, 'one process: nothing moves');

# ---- the same bits ----

my $even = '{"step_interval": 3, "window_size": 8, "num_redundant_experts": 2}';
my $odd = '{"step_interval": 4, "window_size": 4, "num_redundant_experts": 3, "use_async": false, "log_balancedness": true, "log_balancedness_interval": 5}';
restart(tensor_parallel_size => 2, enable_expert_parallel => 'on', enable_eplb => 'on', eplb_config => $even);
for my $kind (@kinds[0 .. 2])
{
	is(answers($kind), $alone{$kind}, "$kind, time $_") for 1 .. 3;
	have_moved($kind, 'on 2 ranks');
}
is(answers('llama_tied_bf16'), $alone{llama_tied_bf16}, 'a model without experts');
is((moves('llama_tied_bf16'))[0], 0, '... of which nothing moves');
like(error(q{SELECT llm_generate('x', model => 'mixtral_f16')}), qr/ERROR:  22023: .*5 experts and 2 redundant ones can't be divided among 2 ranks.*HINT:  .*is 3\./s,
	'experts that can not be divided');

restart(eplb_config => $odd, expert_placement_strategy => 'round_robin');
is(answers('mixtral_f16'), $alone{mixtral_f16}, "mixtral_f16, time $_") for 1 .. 3;
have_moved('mixtral_f16', 'all at once');
ok($node->log_contains(qr/experts on 2 ranks: balancedness [01]\.\d{3} of 5 steps, \d+ copies moved so far/), 'the log tells how even they are');
restart(pipeline_parallel_size => 2, eplb_config => $even, expert_placement_strategy => 'linear');
is(answers('gpt_oss_f16'), $alone{gpt_oss_f16}, "gpt_oss_f16 in stages, time $_") for 1 .. 2;
have_moved('gpt_oss_f16', 'in stages');
restart(pipeline_parallel_size => 1);

# ---- a model's life ----

my $call = qq{SELECT llm_generate('a b c', model => '$kind', max_tokens => 20, ignore_eos => true, temperature => 1, seed => 4)};
is(answers($kind), $alone{$kind}, 'places that aren\'t the first ones');
my $told = sql($call);
for my $level (1, 2)
{
	sql("SELECT llm_sleep($level, mode => 'keep', model => '$kind')");
	sql("SELECT llm_wake_up(model => '$kind')");
	is(sql($call), $told, "behind a sleep of level $level");
	is(answers($kind), $alone{$kind}, '... all of it');
}
is(answers('scaled'), $alone{scaled}, 'scales that a step computes');
sql("SELECT llm_sleep(2, mode => 'keep', model => 'scaled')");
sql("SELECT llm_wake_up(model => 'scaled')");
is(answers('scaled'), $alone{scaled}, '... of weights that are loaded again for who sleeps');
my $b = bg($node, "SET vllm.sleep_requests = 'wait'", ($call) x 8);
for (1 .. 3)
{
	usleep(50000);
	sql("SELECT llm_sleep(1, mode => 'keep', model => '$kind'); SELECT llm_wake_up(model => '$kind')");
}
is(finish($b), join("\n", ($told) x 8), 'sleep in the middle of requests');
sql("SELECT llm_update_weights('$kind')");
is(answers($kind), $alone{$kind}, 'weights that are read again');
my @calls = map { bg($node, "SET statement_timeout = '" . 40 * $_ . "ms'", qq{SELECT count(llm_generate('a b ' || i, model => '$kind', max_tokens => 80, ignore_eos => true)) FROM generate_series(1, 50) i}) } 1 .. 5;
finish($_) for @calls;
is(answers($kind), $alone{$kind}, 'behind requests that were cancelled');

is(sql($adapted), $with, 'an adapter beside the model');
sql("SELECT llm_unload_model('$kind')");
is(answers($kind), $alone{$kind}, 'unloaded and loaded again');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');

# ---- a rank is killed ----

my $old = engine_pid($node);
my $rank = sql(q{SELECT max(substring(note FROM 'process (\d+)')) FROM llm_devices WHERE kind = 'cpu' AND rank = 1});
$b = bg($node, qq{SELECT count(llm_generate('a b ' || i, model => '$kind', max_tokens => 80, ignore_eos => true)) FROM generate_series(1, 400) i});
usleep(300000);
kill 'KILL', $rank;
my ($out, $err) = finish($b);
like($err, qr/ERROR:  58000.*HINT:/s, 'kill -9 of a rank whose experts move: the call ends with a hint');
ok(until_ready($node, $old), '... the group starts again');
is(answers($kind), $alone{$kind}, '... and answers alike');
is(sql($adapted), $with, '... with the adapter, too');
is(left_behind($node), '0|0|0|0|0|0', '... nothing is left behind');

# ---- weights that are mapped from the cache ----

my $cache = abs_path($node->basedir) . '/packed';
mkdir $cache or die;
for my $turn (1 .. 2)
{
	restart(repack_cache => $cache);
	is(answers($kind), $alone{$kind}, "packed weights, turn $turn, time $_") for 1 .. 2;
	have_moved($kind, 'with a cache');
}
my @entries = glob "$cache/*.packed";
is(scalar(@entries), 2, 'an entry for each rank');
sql("SELECT llm_sleep(1, mode => 'keep', model => '$kind'); SELECT llm_wake_up(model => '$kind')");
is(answers($kind), $alone{$kind}, '... behind a sleep');
restart(repack_cache => '');

# ---- devices ----

for my $device (qw(host moat))
{
	restart(device => $device);
	is(answers($kind), $alone{$kind}, "on devices \"$device\", time $_") for 1 .. 2;
	have_moved($kind, "on devices \"$device\"");
}
SKIP:
{
	my $lib = ($ENV{VLLM_PG_DEVICES} // '') . '/emu/vllm_pg_cuda.so';
	skip 'no emulated library of CUDA devices was built', 9 if !-r $lib;
	# its bits aren't the CPUs', but those of one device
	sql("ALTER SYSTEM SET vllm.device_library = '$lib'");
	restart(device => 'cuda', tensor_parallel_size => 1, enable_eplb => 'off');
	my $on_one = sql($call);
	restart(device => 'cuda:0,cuda:0', tensor_parallel_size => 2, enable_eplb => 'on');
	is(sql($call), $on_one, "on two emulated GPUs, time $_") for 1 .. 2;
	have_moved($kind, 'on GPUs');
}
restart(device => 'cpu');

# ---- errors ----

like(error(q{ALTER SYSTEM SET vllm.eplb_config = 'often'}), qr/22023: .*DETAIL:  The value must be a JSON object, or empty/s, 'no object');
like(error(q{ALTER SYSTEM SET vllm.eplb_config = '{"window": 3}'}), qr/DETAIL:  Key "window" is not known\..*HINT:  Known keys are window_size, step_interval/s, 'no such key');
like(error(q{ALTER SYSTEM SET vllm.eplb_config = '{"step_interval": 0}'}), qr/DETAIL:  Key "step_interval" must be an integer between 1 and 1000000, got 0\./, 'out of range');
for my $bad ([ '{"num_redundant_experts": 10}', qr/10 redundant ones of 8 experts are too many for 2 ranks/ ])
{
	restart(eplb_config => $bad->[0]);
	like(error($call), qr/ERROR:  22023: .*$bad->[1]/s, "eplb_config $bad->[0]");
	is(answers('llama_tied_bf16'), $alone{llama_tied_bf16}, '... which is nothing to a model without experts');
}
restart(eplb_config => '', enable_expert_parallel => 'off');
like(error($call), qr/ERROR:  22023: .*ranks that hold whole experts.*HINT:  Turn vllm\.enable_expert_parallel on/s, 'experts that are divided');
restart(enable_expert_parallel => 'on', tensor_parallel_size => 1);
like(error($call), qr/ERROR:  22023: .*ranks that hold whole experts/s, 'one rank');
restart(enable_eplb => 'off');
is(answers($kind), $alone{$kind}, 'one process, as before');
$node->stop('fast');
done_testing();
