# Models on a CUDA device, with the library compiled for the CPU (kernels/emu), so that no GPU is needed:
# the CPUs' outputs, the same alone and in a batch, adapters, common prefixes, sleep, and how the device's
# memory is divided, runs out and is freed.
use strict;
use warnings;
use Cwd qw(getcwd);
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use VllmTest;

my $lib = ($ENV{VLLM_PG_DEVICES} // '') . '/emu/vllm_pg_cuda.so';
plan skip_all => 'no emulated library of CUDA devices was built' if !-r $lib;
my $fixtures = getcwd() . '/fixtures';
my $node = PostgreSQL::Test::Cluster->new('cuda');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "max_connections = 60\nfsync = off\nvllm.device = 'cpu'\nvllm.device_library = '$lib'\nvllm.max_num_batched_tokens = 32\nvllm.max_num_seqs = 8\nvllm.cpu_threads = 2\nvllm.kv_cache_memory_bytes = '4MB'\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');

sub sql { return $node->safe_psql('postgres', shift); }
sub error { return error_of($node, shift); }
sub set { return set_to($node, @_); }

# log lines from here on
my $mark;
sub mark { return $mark = -s $node->logfile; }
sub logged { my $what = shift; return until_true(sub { slurp_file($node->logfile, $mark) =~ $what }, 5); }
# the engine's lines reach the log later than its answers reach the caller
sub not_logged { my $what = shift; usleep(500_000); return slurp_file($node->logfile, $mark) !~ $what; }

my @models = ([ 'f32', 'models/llama_f32' ], [ 'f16', 'models/qwen3_f16' ], [ 'bf16', 'models/llama_tied_bf16' ], [ 'experts', 'models/qwen3_moe_f16' ],
	[ 'latent', 'models/deepseek3_f16' ], [ 'recurrent', 'models/mamba2_f16' ], [ 'quantized', 'models/quant_awq' ], [ 'embed', 'pool/bert_embed' ], [ 'score', 'pool/bert_score' ]);
sql("SELECT llm_create_model('$_->[0]', '$fixtures/$_->[1]')") for @models;
sql("SELECT llm_create_lora('adapted', 'f32', '$fixtures/lora/llama_all'); SELECT llm_create_lora('adapted_too', 'f32', '$fixtures/lora/llama_rslora')");

sub unload { sql("SELECT llm_unload_model('$_')") for @_ ? @_ : map { $_->[0] } @models; return; }

sub ids
{
	my ($model, $n, $more) = @_;
	$more //= '';
	return sql(qq{SELECT string_agg((llm_generate_full('abc ' || repeat('d ', i) || i, model => '$model', temperature => 0, max_tokens => 6, ignore_eos => true$more)).token_ids::text, ' ' ORDER BY i)
		FROM generate_series(1, $n) i});
}

# Return the log-probabilities of a prompt's tokens, and the largest difference of two such lists.
sub lps { return sql(qq{SELECT string_agg(l.logprob::text, ' ' ORDER BY l.pos) FROM unnest((llm_output('a fox and a dog, 17', model => '$_[0]', max_tokens => 1, prompt_logprobs => 0)).prompt_logprobs) l WHERE l.logprob IS NOT NULL}); }

sub distance
{
	my @a = split / /, $_[0];
	my @b = split / /, $_[1];
	my $most = @a == @b && @a > 0 ? 0 : 'inf';
	for my $i (0 .. $#a)
	{
		my $d = abs($a[$i] - $b[$i]);
		$most = $d if $d > $most;
	}
	return $most;
}

# ---- the CPUs' outputs ----

my $tickets = q{SELECT string_agg(llm_generate('Ticket: order ' || i || ', the kettle arrived broken.' || E'\nJSON:', temperature => 0, max_tokens => 6), '|' ORDER BY i) FROM generate_series(1, 3) i};
my %on_cpus = (tickets => sql($tickets), map { $_ => lps($_) } 'f32', 'adapted', 'adapted_too');
my $embed = q{SELECT llm_embed('the quick fox', model => 'embed')};
my $score = q{SELECT llm_score('a fox', 'the quick brown fox', model => 'score')};
my ($embedded, $scored) = (sql($embed), sql($score));
unload();
set('vllm.device', 'cuda');
mark();
my %on_device = map { $_ => lps($_) } 'f32', 'adapted', 'adapted_too';
ok(distance($on_device{$_}, $on_cpus{$_}) < 0.05, "log-probabilities of a model of floats: $_") for 'f32', 'adapted', 'adapted_too';
ok(distance($on_cpus{adapted}, $on_cpus{f32}) > 0.5, '... of which adapters make others');
is(sql($tickets), $on_cpus{tickets}, 'greedy answers of a model that has learnt something');
ok(logged(qr/the model is computed on device "cuda:0" \(.*\), with operands of F32/), '... on the device indeed');
ok(sql(qq{SELECT llm_similarity('$embedded'::float4[], ($embed)) > 0.9999}) eq 't', 'a vector');
ok(abs(sql($score) - $scored) < 0.01, 'a score');
my $cached = q{SELECT (r.usage).cached_tokens FROM llm_generate_full(repeat('xyz uvw ', 10), model => 'f32', max_tokens => 1) r};
ok(sql($cached) <= 1, 'a prompt that is new');
ok(sql($cached) > 16, '... and again: its blocks are there');
unload('tickets-2m', 'f32', 'embed', 'score');

# ---- drafters that read the model's hidden rows ----

sql(qq{SELECT llm_create_model('unaided', '$fixtures/drafts/target');
	SELECT llm_create_model('guessed', '$fixtures/drafts/target', '{"speculative_config": {"method": "eagle3", "model": "$fixtures/drafts/eagle3", "num_speculative_tokens": 3}}')});
my $unaided = ids('unaided', 3);
mark();
is(ids('guessed', 3), $unaided, 'answers with drafts');
ok(logged(qr/the model is computed on device "cuda:0"/), '... on the device');
unload('unaided', 'guessed');

# ---- invariance: alone, and in a batch with others ----

for my $model ('f16', 'bf16', 'experts', 'latent', 'recurrent', 'quantized')
{
	my $alone = sql(qq{SELECT (llm_generate_full('abc d 1', model => '$model', temperature => 1, seed => 7, max_tokens => 6, ignore_eos => true)).token_ids});
	my $among = sql(qq{SELECT string_agg(DISTINCT t::text, ' ') FILTER (WHERE i = 3) FROM (SELECT i, (llm_generate_full(CASE i WHEN 3 THEN 'abc d 1' ELSE repeat('x ', i) || i END, model => '$model',
		temperature => 1, seed => 4 + i, max_tokens => 6, ignore_eos => true)).token_ids t FROM generate_series(1, 6) i OFFSET 0) s});
	is($among, $alone, "the same answer among others: $model");
	unload($model);
}

# ---- recorded steps, and each one directly ----

mark();
my @recorded = map { ids($_, 5) } 'bf16', 'experts';
ok(logged(qr/decode steps of up to 8 sequences are recorded/), 'decode steps are recorded');
unload('bf16', 'experts');
set('vllm.enforce_eager', 'on');
mark();
is(join('|', map { ids($_, 5) } 'bf16', 'experts'), join('|', @recorded), '... with the answers of steps by themselves');
ok(not_logged(qr/are recorded/), '... which none are with vllm.enforce_eager');
unload('bf16', 'experts');
set('vllm.enforce_eager', 'off');
like(error(q{SELECT llm_create_model('sizes', '/x', options => '{"cudagraph_capture_sizes": [1, 0]}')}), qr/22023: .*cudagraph_capture_sizes/, 'a size of 0');
sql(q{SELECT llm_create_model('sizes', path, options => '{"cudagraph_capture_sizes": [3, 1]}') FROM llm_models WHERE name = 'bf16'});
mark();
is(ids('sizes', 5), $recorded[0], '... of other sizes');
ok(logged(qr/decode steps of up to 3 sequences are recorded/), '... as the log says');
unload('sizes');

# ---- FP8 by FP8 ----

# an FP8 model with a scale for each block, of which the first becomes the matrix's
my $fp8_dir = getcwd() . '/' . $node->basedir . '/fp8';
mkdir $fp8_dir;
for my $file (glob "$fixtures/models/quant_fp8/*")
{
	my $text = slurp_file($file);
	$text =~ s/"weight_block_size":\s*\[[^]]*\],?\s*// if $file =~ /\/config.json$/;
	if ($file =~ /safetensors$/)
	{
		my $n = unpack('Q<', $text);
		my $head = substr($text, 8, $n);
		# without gaps: the other scales become another, unused tensor
		$head =~ s/"([^"]*)\.weight_scale_inv":\{"dtype":"F32","shape":\[[^]]*\],"data_offsets":\[(\d+),(\d+)\]/
			sprintf('"%s.weight_scale":{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]},"%s.input_scale":{"dtype":"F32","shape":[%d],"data_offsets":[%d,%d]',
				$1, $2, $2 + 4, $1, ($3 - $2) \/ 4 - 1, $2 + 4, $3)/ge;
		$text = pack('Q<', length($head)) . $head . substr($text, 8 + $n);
	}
	append_to_file("$fp8_dir/" . ($file =~ s/.*\///r), $text);
}
sub dtype { return sql("SELECT dtype FROM llm_models WHERE name = '$_[0]'"); }
is(sql("SELECT j ->> 'dtype' FROM llm_inspect_model('$fp8_dir') j"), 'FP8', 'weights of FP8 stay so: what is told before a load, too');
sql("SELECT llm_create_model('fp8', '$fp8_dir'), llm_create_model('fp8_too', '$fp8_dir', options => '{\"fp8_activations\": true}')");
my @fp8 = map { lps($_) } 'fp8', 'fp8_too';
is(join(', ', map { dtype($_) } 'fp8', 'fp8_too'), 'FP8 (fp8), FP8 x FP8 (fp8)', 'weights of FP8, and with activations of FP8');
ok($fp8[0] ne $fp8[1] && distance($fp8[0], $fp8[1]) < 1, '... which give other numbers, not far away');
is(lps('fp8_too'), $fp8[1], '... each time the same');
sql(q{SELECT llm_drop_model('fp8'); SELECT llm_drop_model('fp8_too')});
sql(q{SELECT llm_create_model('floats', path, options => '{"fp8_activations": true}') FROM llm_models WHERE name = 'bf16'});
like(error(q{SELECT llm_generate('abc', model => 'floats')}), qr/0A000: option "fp8_activations" is for weights of FP8, and this model's are BF16/, '... refused where there are no such weights');
mark();
set('vllm.device', 'auto');
like(error(q{SELECT llm_generate('abc', model => 'floats')}), qr/0A000: option "fp8_activations"/, '... also with auto');
ok(not_logged(qr/computed on the CPUs/), '... where the CPUs don\'t try, too');
set('vllm.device', 'cpu');
mark();
like(error(q{SELECT llm_generate('abc', model => 'floats')}), qr/0A000: option "fp8_activations"/, '... and on the CPUs');
ok(not_logged(qr/steps of at most/), '... before they read the weights');
set('vllm.device', 'cuda');
sql(q{SELECT llm_drop_model('floats')});
sql(q{SELECT llm_create_model('drafted', path, options => json_build_object('fp8_activations', true, 'speculative_config', json_build_object('model', path, 'num_speculative_tokens', 2))) FROM llm_models WHERE name = 'bf16'});
like(error(q{SELECT llm_generate('abc', model => 'drafted')}), qr/0A000: option "fp8_activations"/, '... with what drafts for it');
ok(until_sql($node, q{SELECT engine_bytes = 0 FROM llm_devices WHERE kind = 'cuda'}), '... of which nothing is left on the device');
sql(q{SELECT llm_drop_model('drafted')});

# ---- cancelling ----

like(error(q{SET statement_timeout = '300ms'; SELECT llm_generate('abc', model => 'bf16', max_tokens => 200, ignore_eos => true) FROM generate_series(1, 20)}), qr/57014/, 'cancelled');
is(left_behind($node), '0|0|0|0|0|0', '... and nothing is left');

# ---- sleep ----

for my $level (1, 2)
{
	ids('f32', 1);
	my $before = sql(q{SELECT engine_bytes FROM llm_devices WHERE kind = 'cuda'});
	sql("SELECT llm_sleep($level)");
	ok(until_sql($node, "SELECT engine_bytes < $before FROM llm_devices WHERE kind = 'cuda'"), "level $level gives the device's memory back");
	sql('SELECT llm_wake_up()');
	is(lps('f32'), $on_device{f32}, '... and comes back with the same answers');
}
# a call that is kept during a sleep
sub long { return qq{SELECT llm_generate('abc', model => '$_[0]', temperature => 0, max_tokens => 40, ignore_eos => true)}; }

sub kept
{
	my $model = shift;
	sql("SELECT vllm.control('sleep-step 600')");
	my $b = bg($node, long($model));
	ok(until_sql($node, "SELECT count(*) FROM llm_requests WHERE model = '$model' AND state IN ('waiting', 'running')", '1'), "a call of $model");
	return $b;
}

{
	my $answer = sql(long('f32'));
	my $kept = kept('f32');
	sql("SELECT llm_sleep(1, 'keep', 'f32'); SELECT llm_sleep(2, 'keep', 'f32'); SELECT llm_wake_up(model => 'f32')");
	is(scalar finish($kept), $answer, 'level 1, then 2, then awake: a call that is kept');
	is(lps('f32'), $on_device{f32}, '... and the same answers');
	sql(q{SELECT llm_create_model('scaled', path, options => '{"kv_cache_dtype": "fp8", "calculate_kv_scales": true}') FROM llm_models WHERE name = 'f32'});
	$answer = sql(long('scaled'));
	$kept = kept('scaled');
	sql("SELECT llm_sleep(2, 'keep', 'scaled'); SELECT llm_wake_up(model => 'scaled')");
	is(scalar finish($kept), $answer, '... with scales of K and V that were computed');
	sql(q{SELECT llm_drop_model('scaled')});
	# blocks of this size are made of the kernels' smaller ones
	set('vllm.block_size', '64');
	sql(q{SELECT llm_create_model('scaled', path, options => '{"kv_cache_dtype": "fp8", "calculate_kv_scales": true, "max_model_len": 64}') FROM llm_models WHERE name = 'f32'});
	ok(ids('scaled', 1) ne '', '... with large blocks');
	sql(q{SELECT llm_drop_model('scaled')});
	set('vllm.block_size', '16');
}
is(sql(q{SELECT vllm.control('integrity')}), 'ok', 'the engine finds its books in order');

# ---- how the memory is divided ----

unload('tickets-2m', map { $_->[0] } @models);
set('vllm.kv_cache_memory_bytes', '0');
sub kv_tokens { return sql("SELECT kv_tokens FROM llm_memory WHERE model = '$_[0]'"); }
mark();
ids('f32', 1);
ok(logged(qr/KV cache: \d+ MB of device "cuda:0"/), 'the KV cache is what is left');
ok(until_sql($node, q{SELECT rank = 0 FROM llm_devices WHERE kind = 'cuda'}), '... of a device that the engine computes on');
my $much = kv_tokens('f32');
my $total = sql(q{SELECT memory_total FROM llm_devices WHERE kind = 'cuda'});
ok(until_sql($node, qq{SELECT memory_total - memory_available BETWEEN 0.8 * $total AND 0.9 * $total FROM llm_devices WHERE kind = 'cuda'}), 'nine tenths of the device are in use');
# asleep it has freed its memory for others
sql(q{SELECT llm_sleep(1, model => 'f32')});
sql(q{SELECT llm_load_model('bf16')});
like(error(q{SELECT llm_wake_up(model => 'f32')}), qr/53200: .*the device has no room/, 'a model that sleeps finds no room when it wakes');
unload('bf16');
sql(q{SELECT llm_wake_up(model => 'f32')});
ok(ids('f32', 1) ne '', '... and wakes later');
is(sql(q{SELECT value = (SELECT engine_bytes FROM llm_devices WHERE kind = 'cuda') AND value > 0 AND labels ->> 'device' = '0' FROM llm_metrics() WHERE name = 'vllm_pg:gpu_memory_bytes'}), 't', '... which a metric tells');
unload('f32');
set('vllm.gpu_memory_utilization', '0.3');
ids('f32', 1);
ok(kv_tokens('f32') < 0.5 * $much, 'vllm.gpu_memory_utilization');
like(error(q{SELECT llm_load_model('bf16')}), qr/53200: .*device "cuda:0" \(.*\) has no room for a KV cache.*DETAIL: .*of which .* may be used.*In use before: .*weights and work space.*a step of the greatest size.*HINT: /s,
	'a second model finds no room, and the sums');
sql(qq{SELECT llm_create_model('more', '$fixtures/models/llama_tied_bf16', options => '{"gpu_memory_utilization": 0.6}')});
is(sql(q{SELECT llm_load_model('more') IS NOT NULL}), 't', '... but with an option of its own');
for my $wrong ('0', '1.1', '"x"')
{
	like(error(qq{SELECT llm_create_model('no', '/nowhere', options => '{"gpu_memory_utilization": $wrong}')}), qr/22023: .*gpu_memory_utilization.*from 0\.05 to 1/s, "... which can't be $wrong");
}
unload('more', 'f32');
set('vllm.kv_cache_memory_bytes', '2MB');
ids('f32', 1);
ok(kv_tokens('f32') < 0.05 * $much, 'vllm.kv_cache_memory_bytes goes first');
unload('f32');
set('vllm.kv_cache_memory_bytes', '600MB');
like(error(q{SELECT llm_load_model('f32')}), qr/53200: .*device "cuda:0" \(.*\) has no .* for a KV cache.*DETAIL: .*HINT: .*kv_cache_memory_bytes/s, 'more than there is');
set('vllm.kv_cache_memory_bytes', '0');
sql(q{SELECT llm_create_model('wide', path, options => '{"max_num_batched_tokens": 65000}') FROM llm_models WHERE name = 'tickets-2m'});
like(error(q{SELECT llm_load_model('wide')}), qr/53200: .*out of memory: the device has no room.*DETAIL: .*work space.*The device has/s, 'a work space that is too large');
mark();
set('vllm.device', 'auto');
ok(ids('wide', 1) ne '' && ids('f32', 1) ne '', 'auto: it is loaded on the CPUs');
ok(logged(qr/WARNING:  .*the model is computed on the CPUs, not on device "cuda:0".*out of memory/), '... and the log tells why');
ok(logged(qr/computed on device "cuda:0"/), '... the other one on the device');
# the device is full: on the CPUs, where it stays when the device is free
{
	my $answer = sql(long('bf16'));
	ok(logged(qr/on the CPUs, not on device "cuda:0".*no room for a KV cache/), 'auto: no room');
	my $kept = kept('bf16');
	sql("SELECT llm_sleep(2, 'keep', 'bf16')");
	unload('f32');
	sql("SELECT llm_wake_up(model => 'bf16')");
	is(scalar finish($kept), $answer, '... and weights that come back go where they were');
	unload('bf16');
	# a model on the CPUs stays there without an error, too
	ids('f32', 1);
	my $more = sql(long('bf16'));
	is(sql(q{SELECT llm_update_weights('bf16')}), '', 'auto: other weights of a model on the CPUs');
	is(sql(long('bf16')), $more, '... which are the same');
	unload('bf16');
	mark();
	like(error(q{SELECT llm_update_weights('f32')}), qr/53200: .*no room/, 'auto: other weights that the device has no room for');
	ok(not_logged(qr/computed on the CPUs/), '... do not go to the CPUs');
	is(lps('f32'), $on_device{f32}, '... and the old ones stay in service');
	unload('f32');
}
set('vllm.device', 'cuda');
set('vllm.kv_cache_memory_bytes', '4MB');
sql(q{SELECT llm_drop_model('wide')});

# ---- KV blocks in the offload tier belong to these kernels ----

unload();
set('vllm.kv_offload_bytes', '8MB');
sql($cached);
unload('f32');
ok(sql($cached) >= 16, 'K and V come back with the model');
unload('f32');
set('vllm.batch_invariant', 'off');
ok(sql($cached) <= 1, '... but not where products may be others');
unload('f32');
set('vllm.batch_invariant', 'on');
set('vllm.kv_offload_bytes', '0');

# ---- loads and unloads ----

my @seen;
for my $i (1 .. 4)
{
	ids('f32', 1);
	push @seen, sql(q{SELECT engine_bytes || ' ' || memory_available FROM llm_devices WHERE kind = 'cuda'}) if $i == 1 || $i == 4;
	unload('f32');
}
is($seen[1], $seen[0], 'no memory of the device is lost');
ok(until_sql($node, q{SELECT engine_bytes = 0 FROM llm_devices WHERE kind = 'cuda'}), '... and none is kept');

# ---- the engine is killed ----

ids('f32', 1);
my $old = engine_pid($node);
kill 9, $old;
ok(until_ready($node, $old), 'another engine');
is(lps('f32'), $on_device{f32}, '... with the same answers');

# ---- ranks, with a device each ----

my %shared = map { $_ => ids($_, 3) } 'bf16', 'experts';
$old = engine_pid($node);
sql('ALTER SYSTEM SET vllm.tensor_parallel_size = 2');
set('vllm.device', 'cuda:0,cuda:0');
sql('SELECT llm_engine_restart()');
ok(until_ready($node, $old), 'an engine of two ranks');
$old = engine_pid($node);
mark();
is(ids($_, 3), $shared{$_}, "... with one's answers: $_") for 'bf16', 'experts';
ok(logged(qr/KV cache: \d+ MB of device "cuda:0"/), '... where the memory was divided by what a step took');
is(engine_pid($node), $old, '... which lives');

# ---- two replicas, and memory for one ----

sql('ALTER SYSTEM RESET vllm.tensor_parallel_size');
set('vllm.device', 'auto');
set('vllm.kv_cache_memory_bytes', '300MB');
$node->append_conf('postgresql.conf', "vllm.data_parallel_size = 2\n");
$node->restart;
mark();
is(lps('f32'), $on_cpus{f32}, 'auto: the second replica finds no room, and both are computed on the CPUs');
ok(logged(qr/computed on the CPUs, not on device "cuda:0".*another replica: .*out of memory/), '... as the log says');

# ---- and a device for each of them; a third one shares the first one's ----

set('vllm.kv_cache_memory_bytes', '8MB');
set('vllm.cuda_visible_devices', '0,1');
for my $device ('auto', 'cuda')
{
	set('vllm.device', $device);
	$node->restart;
	mark();
	is(lps('f32'), $on_device{f32}, "$device: two replicas on two devices");
	ok(logged(qr/computed on device "cuda:$_"/), "... of which one is cuda:$_") for 0, 1;
	ok(until_sql($node, q{SELECT count(*) = 2 AND bool_and(engine_bytes > 8000000) FROM llm_devices WHERE kind = 'cuda'}), '... whose memory both have');
}
my $of_one = sql(q{SELECT engine_bytes FROM llm_devices WHERE kind = 'cuda' AND device = 1});
$node->append_conf('postgresql.conf', "vllm.data_parallel_size = 3\n");
$node->restart;
is(lps('f32'), $on_device{f32}, 'three replicas');
ok(until_sql($node, qq{SELECT string_agg(round(engine_bytes / $of_one.0)::text, ' ' ORDER BY device) = '2 1' FROM llm_devices WHERE kind = 'cuda'}), '... of which the third one has the first device, too');

$node->stop;
done_testing();
