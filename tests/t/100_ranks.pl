# Models that several processes compute together: the same outputs, bit for bit; ranks that crash, hang or
# never start; errors; nothing is left.
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
my $node = PostgreSQL::Test::Cluster->new('ranks');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "vllm.kv_cache_memory_bytes = '16MB'\nvllm.cpu_threads = 2\nvllm.max_num_seqs = 8\nvllm.hang_timeout = '3s'\nvllm.enable_prompt_embeds = on\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');

sub sql { return $node->safe_psql('postgres', shift); }
sub error { return error_of($node, shift); }

sub ranks { return engine_ranks($node); }

# Requests that are sent to every group: prompts with a common prefix and long ones, one by one and
# together, several choices of one prompt, beams, log-probabilities of outputs and prompts, a grammar.
my $long = join(' ', map { "Ticket $_: the kettle of order 10$_ arrived broken." } 1 .. 12);
my @questions = (
	q{SELECT llm_generate(E'Ticket: My order A-1042 never arrived and nobody answers my mails.\nSentiment:')},
	qq{SELECT llm_generate('$long', max_tokens => 20, ignore_eos => true)},
	q{SELECT string_agg(llm_generate('Ticket ' || i || ':', max_tokens => 12, temperature => 1, seed => i, ignore_eos => true), '|' ORDER BY i) FROM generate_series(1, 12) i},
	q{SELECT llm_output_json(llm_output('Ticket: the Volt scale is broken', temperature => 0.9, seed => 3, n => 3, logprobs => 3, prompt_logprobs => 2, max_tokens => 12))::jsonb - 'model' - 'id' - 'created' - 'metrics' - 'usage'},
	q{SELECT string_agg(b::text, '|') FROM llm_beam_search('Ticket: x', 3, 5) b},
	q{SELECT llm_generate('Ticket: my order', regex => '[a-z ]{5,20}', temperature => 1, seed => 5, max_tokens => 12)},
);
sub answers { return map { sql($_) } @questions; }

# tiny models of other kinds: a mixture, one KV head, recurrent layers next to attention and alone, latents,
# windows
my @kinds = qw(mixtral_f16 qwen3_moe_f16 falcon_mqa_f16 granite4_f16 mamba_f16 deepseek3_f16 gpt_oss_f16);
my $top = abs_path($node->basedir) . '/models';
mkdir $top or die;
for my $kind (@kinds)
{
	mkdir "$top/$kind" or die;
	copy($_, "$top/$kind") or die "$_: $!" for glob "$fixtures/models/$kind/*";
	sql(qq{SELECT llm_create_model('$kind', '$top/$kind', options => '{"kv_cache_memory_bytes": 65536, "max_model_len": 96}')});
}

sub kind
{
	my ($kind, $prompt) = @_;
	$prompt //= "repeat('a b c ', i)";
	return qq{SELECT string_agg((llm_output($prompt, model => '$kind', max_tokens => 12, ignore_eos => true, temperature => 1, seed => i, logprobs => 2)).completions::text, '|' ORDER BY i) FROM generate_series(1, 6) i};
}
sql(qq{SELECT llm_create_model('$_->[0]', '$top/$_->[1]', options => '{"kv_cache_memory_bytes": 65536, "max_model_len": 96, "kv_cache_dtype": "fp8", "calculate_kv_scales": true}')})
	for [ 'scaled', 'mixtral_f16' ], [ 'scaled_latent', 'deepseek3_f16' ];
my %kind_alone = map { $_ => sql(kind($_)) } @kinds, qw(scaled scaled_latent);
isnt($kind_alone{scaled}, $kind_alone{mixtral_f16}, 'an FP8 cache changes answers');

# and one with drafters: a model of its own, heads, chains that use its hidden rows, and its own layer
my @drafting = (
	[ 'draft_model', 'target', 'target' ], [ 'medusa', 'target', 'medusa' ], [ 'mlp_speculator', 'target', 'mlp' ],
	[ 'eagle', 'target', 'eagle-llama' ], [ 'eagle3', 'target', 'eagle3' ], [ 'mtp', 'target_mtp', '' ],
);
for my $kind (qw(target target_mtp medusa mlp eagle-llama eagle3))
{
	mkdir "$top/$kind" or die;
	copy($_, "$top/$kind") or die "$_: $!" for glob "$fixtures/drafts/$kind/*";
}
sub drafting
{
	my ($method, $target, $from) = @{ $_[0] };
	my $where = $from eq '' ? '' : qq{, "model": "$top/$from", "num_speculative_tokens": 2};
	return qq{SELECT llm_create_model('by_$method', '$top/$target', options => '{"kv_cache_memory_bytes": 262144, "speculative_config": {"method": "$method"$where}}')};
}
sql(qq{SELECT llm_create_model('$_', '$top/$_', options => '{"kv_cache_memory_bytes": 262144}')}) for qw(target target_mtp);
$kind_alone{$_} = sql(kind($_)) for qw(target target_mtp);

my $dir = abs_path($node->basedir) . '/adapter';
make_adapter($dir);
sql("SELECT llm_create_lora('a', 'tickets-2m', '$dir')");
my $adapted = q{SELECT llm_generate('Ticket: my order', lora => 'a', max_tokens => 30, ignore_eos => true)};
my $both = q{SELECT string_agg(llm_generate('Ticket ' || i || ':', max_tokens => 12, lora => CASE WHEN i % 2 = 0 THEN 'a' END, ignore_eos => true), '|' ORDER BY i) FROM generate_series(1, 12) i};
my ($adapted_alone, $both_alone) = (sql($adapted), sql($both));
isnt($adapted_alone, sql($adapted =~ s/lora => 'a', //r), 'an adapter changes an answer');

my @alone = answers();
is(scalar(ranks()), 0, 'one process');

# ---- the same bits ----

for my $shape ([ 2, 1 ], [ 1, 2 ], [ 2, 2 ])
{
	my ($tp, $pp) = @$shape;
	restart_with($node, tensor_parallel_size => $tp, pipeline_parallel_size => $pp);
	is(scalar(ranks()), $tp * $pp - 1, "$tp x $pp processes");
	my @now = answers();
	is($now[$_], $alone[$_], "question $_ on $tp x $pp ranks") for 0 .. $#questions;
	is(sql($questions[1]), $alone[1], '... again, of what is in the cache');
	is(sql($adapted), $adapted_alone, '... with an adapter');
	is(sql($both), $both_alone, '... beside the model alone');
	for my $kind (@kinds)
	{
		if ($pp > 1 && $kind eq 'granite4_f16')
		{
			like(error(kind($kind)), qr/ERROR:  0A000: .*recurrent layers can't be divided into 2 stages/s, "$kind in stages");
			next;
		}
		is(sql(kind($kind)), $kind_alone{$kind}, "$kind on $tp x $pp ranks");
	}
}
# of the first one: not all of so many lines in a second are logged
ok($node->log_contains(qr/models are shared by 2 ranks: columns by 2, layers by 1/), 'the log tells of the group');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');

restart_with($node, tensor_parallel_size => 2, pipeline_parallel_size => 1, enable_expert_parallel => 'on');
my $other = (ranks())[0];
ok(until_sql($node, qq{SELECT string_agg(rank || coalesce(' ' || note, ''), ', ' ORDER BY rank) = '0, 1 process $other, of replica 0' FROM llm_devices WHERE kind = 'cpu'}),
	'llm_devices has the ranks');
is(sql(q{SELECT bool_and(engine_bytes > 1000000 AND usable) FROM llm_devices WHERE kind = 'cpu'}), 't', '... and what they take');
is(sql(kind($_)), $kind_alone{$_}, "$_ with whole experts") for qw(mixtral_f16 qwen3_moe_f16);
is(sql(kind('mixtral_f16', "llm_token_embeddings(repeat('a b c ', i), model => 'mixtral_f16')") =~ s/llm_output/llm_embeds_output/r), $kind_alone{mixtral_f16},
	'prompts that are embeddings');

restart_with($node, expert_placement_strategy => 'round_robin');
is(sql(kind($_)), $kind_alone{$_}, "$_ with experts that are dealt in turn") for qw(mixtral_f16 qwen3_moe_f16 gpt_oss_f16 deepseek3_f16);
like(error(q{ALTER SYSTEM SET vllm.expert_placement_strategy = 'random'}), qr/22023: .*DETAIL:  The value must be/s, 'another way to deal them');
restart_with($node, expert_placement_strategy => 'linear');

# ---- computed scales of an FP8 cache ----

for my $shape ([ 2, 1 ], [ 2, 2 ])
{
	my ($tp, $pp) = @$shape;
	restart_with($node, tensor_parallel_size => $tp, pipeline_parallel_size => $pp, enable_expert_parallel => 'off');
	is(sql(kind($_)), $kind_alone{$_}, "$_ with computed scales on $tp x $pp ranks") for qw(scaled scaled_latent);
	# at the same time as steps of another model
	my $b = bg($node, (kind('qwen3_moe_f16')) x 30);
	for my $time (1 .. 3)
	{
		sql("SELECT llm_unload_model('scaled')");
		is(sql(kind('scaled')), $kind_alone{scaled}, "... computed while another model answers, time $time");
	}
	is(finish($b), join("\n", ($kind_alone{qwen3_moe_f16}) x 30), '... which answers as always');
}
ok($node->log_contains(qr/FP8 KV cache: scales are computed/), '... as the log tells');
restart_with($node, pipeline_parallel_size => 1);

# ---- drafts of the first rank ----

sql(drafting($_)) for @drafting;
sub guessed { return sql(q{SELECT coalesce(sum(value), 0) FROM llm_metrics() WHERE name = 'vllm:spec_decode_num_accepted_tokens_total'}); }
for my $where ('auto', 'host', 'moat')
{
	restart_with($node, device => $where);
	# the moat is slow
	for ($where eq 'moat' ? @drafting[0, 1] : @drafting)
	{
		my ($method, $target) = @$_;
		is(sql(kind("by_$method")), $kind_alone{$target}, "$method on 2 ranks with device $where");
	}
	cmp_ok(guessed(), '>', 0, 'some guesses were right');
}
restart_with($node, device => 'auto', pipeline_parallel_size => 2);
like(error(kind('by_eagle')), qr/ERROR:  0A000: .*divided into 2 stages.*HINT:  The methods ngram and suffix need no draft weights/s, 'drafts of a model in stages');
restart_with($node, pipeline_parallel_size => 1);

# ---- partial sums ----

like(error(q{ALTER SYSTEM SET vllm.tensor_parallel_mode = 'diagonals'}), qr/22023: .*DETAIL:  The value must be/s, 'another way to divide matrices');
restart_with($node, tensor_parallel_mode => 'rows', enable_expert_parallel => 'off');
ok($node->log_contains(qr/columns by 2, layers by 1; sums are of parts/), 'the log tells of them');
# a greedy output is that of one process, and all ranks have the same bits each time
is(sql($questions[0]), $alone[0], 'an answer by partial sums');
is(sql($adapted), $adapted_alone, '... with an adapter');
my @summed = answers();
is_deeply([ answers() ], \@summed, 'partial sums are the same each time');
for my $kind (qw(mixtral_f16 gpt_oss_f16 deepseek3_f16))
{
	my $once = sql(kind($kind));
	is(sql(kind($kind)), $once, "... of $kind");
	isnt($once, $kind_alone{$kind}, '... and not the bits of one process');
}
restart_with($node, tensor_parallel_mode => 'columns');

# ---- each rank on a device of its own ----

for my $shape ([ 2, 1, 'host' ], [ 2, 2, 'host' ], [ 2, 1, 'moat' ])
{
	my ($tp, $pp, $device) = @$shape;
	restart_with($node, tensor_parallel_size => $tp, pipeline_parallel_size => $pp, device => $device, enable_expert_parallel => 'off');
	# the moat is slow
	my @asked = $device eq 'moat' ? (0, 5) : 0 .. $#questions;
	is(sql($questions[$_]), $alone[$_], "question $_ on $tp x $pp devices \"$device\"") for @asked;
	is(sql(kind('mixtral_f16')), $kind_alone{mixtral_f16}, "mixtral_f16 on $tp x $pp devices \"$device\"");
}
restart_with($node, tensor_parallel_size => 2, pipeline_parallel_size => 1, enable_expert_parallel => 'on');
is(sql(kind('mixtral_f16')), $kind_alone{mixtral_f16}, 'whole experts on devices');
is(sql($questions[0]), $alone[0], 'a model on devices');
sql(q{SELECT llm_unload_model('tickets-2m')});
is(sql($questions[0]), $alone[0], '... unloaded and loaded again');
{
	my $old = engine_pid($node);
	my $b = bg($node, q{SELECT count(llm_generate('Ticket ' || i || ':', max_tokens => 400, ignore_eos => true)) FROM generate_series(1, 300) i});
	usleep(500000);
	kill 'KILL', (ranks())[0];
	my ($out, $err) = finish($b);
	like($err, qr/ERROR:  58000.*HINT:/s, 'kill -9 of a rank with a device: the running call ends with a hint');
	ok(until_ready($node, $old), '... the whole group starts again');
	is(sql($questions[0]), $alone[0], '... and answers alike');
	is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');
}
restart_with($node, tensor_parallel_size => 2, pipeline_parallel_size => 1, device => 'auto');

# ---- life of a model ----

my $call = $questions[0];
is(sql($call), $alone[0], 'loaded');
my @before = map { fd_count($_) } engine_pid($node), ranks();
for (1 .. 3)
{
	sql(q{SELECT llm_unload_model('tickets-2m')});
	is(sql($call), $alone[0], '... and again');
}
is_deeply([ map { fd_count($_) } engine_pid($node), ranks() ], \@before, 'no file is left open');
for my $level (1, 2)
{
	my @awake = map { rss_kb($_) } ranks();
	sql("SELECT llm_sleep($level, mode => 'keep', model => 'tickets-2m')");
	my @asleep = map { rss_kb($_) } ranks();
	cmp_ok($asleep[$_], '<', $awake[$_] - 1000, "level $level: rank " . ($_ + 1) . ' has given memory back') for 0 .. $#awake;
	figure('a rank has %.1f MB of %.1f MB while a small model sleeps', $asleep[0] / 1024, $awake[0] / 1024);
	sql(q{SELECT llm_wake_up(model => 'tickets-2m')});
	is(sql($call), $alone[0], '... and has it again');
	is(sql($questions[1]), $alone[1], '... all of it');
}
my $busy = bg($node, "SET vllm.sleep_requests = 'wait'", q{SELECT md5(string_agg(llm_generate('Ticket ' || i || ':', max_tokens => 60, ignore_eos => true), '' ORDER BY i)) FROM generate_series(1, 20) i});
for (1 .. 3)
{
	usleep(100000);
	sql(q{SELECT llm_sleep(1, mode => 'keep', model => 'tickets-2m'); SELECT llm_wake_up(model => 'tickets-2m')});
}
my ($seen, $why) = finish($busy);
is($seen, sql(q{SELECT md5(string_agg(llm_generate('Ticket ' || i || ':', max_tokens => 60, ignore_eos => true), '' ORDER BY i)) FROM generate_series(1, 20) i}),
	'requests go on behind it') or diag($why);
sql(q{SELECT llm_create_model('copy', (SELECT path FROM llm_models WHERE name = 'tickets-2m'))});
my $of_copy = $call =~ s/:'\)/:', model => 'copy')/r;
is(sql($of_copy), $alone[0], 'a model under another name');
sql(q{SELECT llm_update_weights('copy')});
is(sql($of_copy), $alone[0], '... with weights that are read again');
sql(q{SELECT llm_drop_model('copy')});
my @old = (engine_pid($node), ranks());
sql('SELECT llm_engine_upgrade()');
is(sql($call), $alone[0], 'behind an upgrade');
ok(until_true(sub { !grep { is_alive($_) } @old }, 20), '... the old group is gone');
is(scalar(ranks()), 1, '... the new one has a rank, too');
is(sql($adapted), $adapted_alone, 'an adapter');
is(sql($both), $both_alone, '... beside the model alone');
sql(q{SELECT llm_drop_lora('a')});
sql("SELECT llm_create_lora('a', 'tickets-2m', '$dir')");
is(sql($adapted), $adapted_alone, '... that is read again');
is(sql($call), $alone[0], '... the model alone');

# steps of one model bind threads, which must not keep another model from being loaded
SKIP:
{
	skip 'one CPU', 4 if `nproc` < 2;
	restart_with($node, cpu_affinity => 'auto');
	is(sql($call), $alone[0], 'with a CPU for each rank');
	is(sql(kind('qwen3_moe_f16')), $kind_alone{qwen3_moe_f16}, '... another model behind steps of the first');
	restart_with($node, cpu_affinity => '');
}

# ---- a rank is killed ----

my $up = sql('SELECT pg_postmaster_start_time()');
my $engine = engine_pid($node);
my $rank;
# a process that must end for the restart may still exist
ok(until_true(sub { my @r = ranks(); $rank = $r[0]; @r == 1 }), 'two processes');
my @calls = map { bg($node, q{SELECT count(llm_generate('Ticket ' || i || ':', max_tokens => 400, ignore_eos => true)) FROM generate_series(1, 300) i}) } 1 .. 4;
usleep(500000);
my $start = time;
kill 'KILL', $rank;
my $failed = 0;
for my $b (@calls)
{
	my ($out, $err) = finish($b);
	$failed++ if $err =~ /ERROR:  58000/ && $err =~ /HINT:/;
}
is($failed, 4, 'kill -9 of a rank: running calls get 58000 and a hint');
figure('running calls ended %.0f ms behind the kill of a rank', 1000 * (time - $start));
ok(until_ready($node, $engine), '... the whole group starts again');
ok(!is_alive($engine), '... also its first process');
isnt((ranks())[0], $rank, '... and the rank');
is(sql($call), $alone[0], '... and answers alike');
ok($node->log_contains(qr/rank 1 of the inference engine ended.*terminated by signal 9/s), '... of which the log tells');

# while there are no requests
$engine = engine_pid($node);
kill 'KILL', (ranks())[0];
ok(until_ready($node, $engine), 'kill -9 of an idle rank');
is(sql($call), $alone[0], '... costs no call');

# ten times: the supervisor has no more files than before, and there are no other processes
sub resources
{
	my $supervisor = parent_of(engine_pid($node));
	my $children = () = map { parent_of($_) == $supervisor ? 1 : () } map { m{/proc/(\d+)$} } glob '/proc/[0-9]*';
	my $memfds = grep { (readlink($_) // '') =~ /memfd:/ } glob "/proc/$supervisor/fd/*";
	return join(' ', fd_count($supervisor), $memfds, $children, scalar(ranks()));
}

sub forget_kills
{
	my $was = engine_pid($node);
	sql('SELECT llm_engine_restart()');
	return until_ready($node, $was);
}
my $resources = resources();
for my $n (1 .. 10)
{
	my $was = engine_pid($node);
	my @all = ranks();
	kill 'KILL', $n % 3 == 0 ? $was : $all[0];
	until_ready($node, $was) or last;
	is(sql($call), $alone[0], "alive behind kill $n") if $n % 5 == 0;
	# each kill doubles the pause before the next start, and an orderly restart ends that
	forget_kills() if $n % 5 == 0;
}
is(resources(), $resources, 'kill -9 ten times: the supervisor has as many files, memory files and children as before');
is(left_behind($node), '0|0|0|0|0|0', '... and no slot is left');

# the engine itself
($rank) = ranks();
$engine = engine_pid($node);
kill 'KILL', $engine;
ok(until_ready($node, $engine), 'kill -9 of the engine');
ok(until_true(sub { !is_alive($rank) }, 10), '... ends its ranks');
is(scalar(ranks()), 1, '... and new ones come');

# ---- a rank hangs ----

forget_kills();
is(sql($call), $alone[0], 'all is well');
$engine = engine_pid($node);
($rank) = ranks();
kill 'STOP', $rank;
my ($out, $err) = finish(bg($node, $call));
like($err, qr/ERROR:  58000/, 'SIGSTOP of a rank: the call ends');
ok(until_ready($node, $engine), '... and a new group takes over');
ok(!is_alive($rank), '... the rank that stood still is gone');
is(sql($call), $alone[0], '... the next call works');
is(sql('SELECT pg_postmaster_start_time()'), $up, 'the database did not restart');
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left behind');

# also while a model is loaded
forget_kills();
sql(kind('mixtral_f16'));
sql(q{SELECT llm_unload_model('mixtral_f16')});
$engine = engine_pid($node);
($rank) = ranks();
kill 'STOP', $rank;
($out, $err) = finish(bg($node, kind('mixtral_f16')));
like($err, qr/ERROR:  58000/, 'SIGSTOP of a rank that is to load a model: the call ends');
ok(until_ready($node, $engine), '... and a new group takes over');
ok(until_true(sub { !is_alive($rank) }, 10), '... without it');
ok($node->log_contains(qr/rank 1 of 2 has ended or does not respond/), '... of which the log tells');
is(sql(kind('mixtral_f16')), $kind_alone{mixtral_f16}, '... the model is loaded');

# ---- a rank that reads another model ----

# /proc/self/cwd is another directory for each process
my $places = abs_path($node->basedir) . '/places';
mkdir $_ or die "$_: $!" for $places, "$places/a", "$places/b", "$places/a/model", "$places/b/model";
for my $place (qw(a b))
{
	copy($_, "$places/$place/model") or die "$_: $!" for glob "$fixtures/models/mixtral_f16/*";
}
my $program = readlink('/proc/' . engine_pid($node) . '/exe');
append_to_file("$places/engine", "#!/bin/sh\ncase \"\$*\" in\n*--rank*) cd $places/b ;;\n*) cd $places/a ;;\nesac\nexec $program \"\$@\"\n");
chmod 0755, "$places/engine";
restart_with($node, engine_path => "$places/engine");
my $same = engine_pid($node);
sql(q{SELECT llm_create_model('two', '/proc/self/cwd/model', options => '{"kv_cache_memory_bytes": 65536, "max_model_len": 96}')});
like(error(q{SELECT llm_generate('x', model => 'two', max_tokens => 1)}), qr/ERROR:  58000: .*rank 1 has loaded a different model than rank 0/s, 'ranks that read different files');
is(sql($call), $alone[0], '... costs nothing but the load');
is(engine_pid($node), $same, '... and no engine');
restart_with($node, engine_path => "$places/engine", device => 'host');
$same = engine_pid($node);
like(error(q{SELECT llm_generate('x', model => 'two', max_tokens => 1)}), qr/ERROR:  58000: .*rank 1 has loaded a different model than rank 0/s, '... with devices likewise');
is(sql($call), $alone[0], '... costs nothing but the load');
is(engine_pid($node), $same, '... nor is a device taken for lost');
restart_with($node, engine_path => '', device => 'auto');
sql(q{SELECT llm_drop_model('two')});

# ---- devices of ranks: two of them can be used ----

SKIP:
{
	my $libs = $ENV{VLLM_PG_DEVICES} // '';
	skip 'no example libraries of devices were built (VLLM_PG_DEVICES)', 5 if !-r "$libs/devices.so";
	sql("ALTER SYSTEM SET vllm.device_library = '$libs/devices.so'");
	restart_with($node, tensor_parallel_size => 1, pipeline_parallel_size => 4, device => 'cuda');
	like(error($call), qr/ERROR:  22023: .*4 ranks need as many devices, and 2 can be used.*HINT:  .*cuda:0,cuda:0/s, 'too few devices');
	sql(q{ALTER SYSTEM SET vllm.device = 'cuda:0,cuda:0,cuda:1'});
	$node->reload;
	ok(until_true(sub { error($call) =~ /ERROR:  22023: .*4 ranks need as many devices, and vllm\.device names 3/s }, 10), '... or that are named');
	sql(q{ALTER SYSTEM SET vllm.device = 'cuda:0,cuda:0,cuda:1,cuda:7'});
	$node->reload;
	ok(until_true(sub { error($call) =~ /ERROR/ && $node->log_contains(qr/device "cuda:0".*refuse|could not open device "cuda:0"/) }, 10), 'enough of them');
	restart_with($node, tensor_parallel_size => 1, pipeline_parallel_size => 4, device => 'auto');
	is(sql($call), $alone[0], 'auto with too few: the CPUs');
	ok($node->log_contains(qr/the model is computed on the CPUs: 4 ranks need as many CUDA devices, and 2 can be used/), '... of which the log tells');
	sql(q{ALTER SYSTEM RESET vllm.device_library});
}

# ---- errors ----

like(error(q{ALTER SYSTEM SET vllm.tensor_parallel_size = 0}), qr/22023: 0 is outside the valid range/, 'no ranks at all');
like(error(q{ALTER SYSTEM SET vllm.pipeline_parallel_size = 17}), qr/22023: 17 is outside the valid range/, 'too many');
restart_with($node, tensor_parallel_size => 3);
like(error($call), qr/ERROR:  22023: .*4 attention heads can't be divided among 3 ranks/s, 'heads that can not be divided');
restart_with($node, tensor_parallel_size => 1, pipeline_parallel_size => 5);
like(error($call), qr/ERROR:  22023: .*4 layers can't be divided into 5 stages/s, 'more stages than layers');
sql(q{ALTER SYSTEM SET vllm.tensor_parallel_size = 8});
$node->reload;
$node->psql('postgres', 'SELECT llm_engine_restart()');
ok(until_sql($node, q{SELECT last_error LIKE '%require 40 ranks; the maximum is 16%' FROM llm_stat_engine}), 'more ranks than there may be');
restart_with($node, tensor_parallel_size => 1, pipeline_parallel_size => 1);
is(sql($call), $alone[0], 'one process, as before');
is(scalar(ranks()), 0, '... without ranks');
$node->stop('fast');
done_testing();
