# The KV cache with the bundled model: types, memory, pinned prefixes.
use strict;
use warnings;
use lib 't';
use File::Spec;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use VllmTest;

my $node = PostgreSQL::Test::Cluster->new('kv');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "vllm.kv_cache_memory_bytes = '2MB'\nvllm.max_num_seqs = 8\n");
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION vllm_pg;
	CREATE ROLE reader LOGIN});

sub sql { return $node->safe_psql('postgres', shift); }
sub error { return ($node->psql('postgres', shift))[2]; }

# ---- types ----
my $prompt = q{'The kettle arrived broken, and I want my money back.'};
foreach my $type (qw(bfloat16 int8 fp8 fp8_e4m3 fp8_e5m2))
{
	sql("SELECT llm_create_model('$type', (SELECT path FROM llm_models WHERE name = 'tickets-2m'), options => '{\"kv_cache_dtype\": \"$type\"}')");
	like(sql("SELECT llm_generate($prompt, model => '$type', max_tokens => 8, temperature => 0, ignore_eos => true)"), qr/./, "$type answers");
}
is(sql("SELECT llm_generate($prompt, model => 'fp8', max_tokens => 8, temperature => 0)"),
	sql("SELECT llm_generate($prompt, model => 'fp8_e4m3', max_tokens => 8, temperature => 0)"), 'fp8 is fp8_e4m3');
foreach my $c (['fp8', 1.95], ['fp8_e5m2', 1.95], ['int8', 1.8])
{
	is(sql("SELECT a.kv_blocks_total >= $c->[1] * b.kv_blocks_total FROM llm_models a, llm_models b WHERE a.name = '$c->[0]' AND b.name = 'bfloat16'"), 't',
		"$c->[0] has at least $c->[1] times the blocks");
}
like(slurp_file($node->logfile), qr/checkpoint has no scales for an FP8 KV cache/, 'the log tells of scales');
sql("SELECT llm_create_model('scaled', (SELECT path FROM llm_models WHERE name = 'tickets-2m'), options => '{\"kv_cache_dtype\": \"fp8\", \"calculate_kv_scales\": true}')");
like(sql("SELECT llm_generate($prompt, model => 'scaled', max_tokens => 8, temperature => 0)"), qr/./, 'computed scales');
like(slurp_file($node->logfile), qr/FP8 KV cache: scales are computed/, '... as the log tells');
like(error("SELECT llm_create_model('bad', '/x', options => '{\"kv_cache_dtype\": \"fp4\"}')"), qr/must be auto, float32.*fp8_e5m2, got "fp4"/, 'no such type');

# ---- memory ----
my $pid = sql('SELECT pid FROM llm_stat_engine');
sql("SELECT llm_create_model('huge', (SELECT path FROM llm_models WHERE name = 'tickets-2m'), options => '{\"kv_cache_memory_bytes\": 70368744177664}')");
like(error("\\set VERBOSITY verbose\nSELECT llm_generate($prompt, model => 'huge')"), qr/53200: out of memory: The KV cache of \d+ blocks is too large.*HINT:  Lower/s,
	'a KV cache beyond the machine is an error');
is(sql('SELECT pid FROM llm_stat_engine'), $pid, '... that the engine survives');
sql("SELECT llm_drop_model('huge')");
sql("SELECT llm_generate($prompt, max_tokens => 4)");
is(sql("SELECT weights > 0 AND kv_reserved > 1000000 AND kv BETWEEN 1 AND kv_reserved AND work > 0 AND other > 0
	AND total = weights + kv + state + work + offload + other AND offload = 0 AND kv_tokens > 100 FROM llm_memory WHERE model = 'tickets-2m'"), 't', 'llm_memory');
is(sql("SELECT (SELECT sum(total) FROM llm_memory) < (SELECT engine_rss FROM llm_stat_engine)"), 't', 'all of it is in the engine');
is(sql("SELECT m.kv_reserved = l.kv_bytes FROM llm_memory m JOIN vllm.model_list() l ON l.name = m.model WHERE model = 'int8'"), 't', 'kv_reserved is kv_bytes');
is(sql("SELECT count(*) FROM llm_metrics() WHERE name = 'vllm_pg:memory_bytes' AND labels->>'model_name' = 'tickets-2m'"), 6, 'and it is a metric');

# ---- layers with windows ----
my $mistral = File::Spec->rel2abs($node->basedir) . '/mistral';
PostgreSQL::Test::RecursiveCopy::copypath(sql("SELECT path FROM llm_models WHERE name = 'tickets-2m'"), $mistral);
my $config = slurp_file("$mistral/config.json");
$config =~ s/"model_type": "llama"/"model_type": "mistral", "sliding_window": 48/ or die;
$config =~ s/LlamaForCausalLM/MistralForCausalLM/ or die;
open my $fh, '>', "$mistral/config.json" or die;
print $fh $config;
close $fh;
sql("SELECT llm_create_model('windows', '$mistral'), llm_create_model('whole', '$mistral', options => '{\"disable_hybrid_kv_cache_manager\": true}')");
my $answers = q{SELECT md5(string_agg(llm_generate(repeat(i || ' and again ', 40), model => '%s', max_tokens => 20, temperature => 0, ignore_eos => true), '|')) FROM generate_series(1, 20) i};
is(sql(sprintf $answers, 'windows'), sql(sprintf $answers, 'whole'), 'windows change no answer');
is(sql("SELECT max_model_len FROM llm_models WHERE name IN ('windows', 'whole') ORDER BY 1"), "1024\n2048", 'the same memory holds longer sequences');
is(sql("SELECT kv_tokens FROM llm_memory WHERE model IN ('windows', 'whole') ORDER BY model"), "1024\n", '... of any length, where all layers have windows');
sql("SELECT llm_drop_model('windows'), llm_drop_model('whole')");

# ---- limits in force ----
sub limit { return sql("SELECT value FROM llm_metrics() WHERE name = 'vllm_pg:max_num_seqs' AND labels->>'model_name' = 'tickets-2m'"); }
is(limit(), 8, 'the metric tells the sequences of a step');
sql("SELECT llm_unload_model('tickets-2m')");
is(limit(), 0, '... nothing of a model that is unloaded');

# the engine gets settings from the supervisor, a moment later than sessions
sub holds
{
	my ($setting, $query, $expect) = @_;
	my $got;
	$node->append_conf('postgresql.conf', $setting);
	$node->reload;
	for (1 .. 100)
	{
		sql("SELECT llm_unload_model('tickets-2m')");
		$got = join '', ($node->psql('postgres', "\\set VERBOSITY verbose\n$query"))[1, 2];
		return 1 if $got =~ $expect;
		sleep 0.1;
	}
	diag($got);
	return 0;
}
my $ask = "SELECT length(llm_generate($prompt, max_tokens => 4))";
ok(holds('vllm.max_num_seqs = 3', "$ask \\g /dev/null\nSELECT value FROM llm_metrics() WHERE name = 'vllm_pg:max_num_seqs' AND labels->>'model_name' = 'tickets-2m'", qr/^3$/),
	'... and what holds since it was loaded anew');
foreach my $c (['"max_num_seqs": 4, "max_num_batched_tokens": 2', qr/max_num_batched_tokens must be at least max_num_seqs \(4\), got 2/],
	['"max_num_partial_prefills": 2, "max_long_partial_prefills": 3', qr/max_long_partial_prefills must be at most max_num_partial_prefills \(2\), got 3/],
	['"long_prefill_token_threshold": 100000', qr/long_prefill_token_threshold must be at most the model's length of \d+, got 100000/])
{
	like(error("SELECT llm_create_model('odd', path, options => '{$c->[0]}') FROM llm_models WHERE name = 'tickets-2m'"), $c->[1], "$c->[0] is no model");
}
ok(holds('vllm.max_num_batched_tokens = 2', $ask, qr/22023: max_num_batched_tokens must be at least max_num_seqs \(3\), got 2/),
	'limits that contradict each other are an error');
ok(holds('vllm.max_num_batched_tokens = 0', $ask, qr/^\d+$/), '... until they do not');

# ---- pinned prefixes ----
my $text = q{repeat('Our terms of business are these. ', 12)};
my $fill = q{SELECT llm_generate(i || ' ' || repeat('Other words, again and again. ', 14), max_tokens => 2) FROM generate_series(1, 60) i};
sub cached { return sql(($_[1] // '') . "SELECT (r.usage).cached_tokens FROM llm_generate_full($text || ' $_[0]', max_tokens => 2) r"); }
my $n = sql("SELECT llm_pin_prefix($text)");
cmp_ok($n, '>', 40, "a prompt of $n tokens is pinned");
is(sql("SELECT pinned_tokens FROM llm_memory WHERE model = 'tickets-2m'"), int($n / 16) * 16, '... its full blocks');
sql($fill);
cmp_ok(cached('One.'), '>=', int($n / 16) * 16, 'it is found when everything else has been overwritten');
is(cached('One.', 'SET ROLE reader; '), 0, 'by nobody else');
like(error("SET ROLE reader; SELECT llm_pin_prefix('x')"), qr/permission denied for function llm_pin_prefix/, 'not everybody may pin');
like(error("SELECT llm_pin_prefix('x')"), qr/too short to be pinned/, 'too short');
my $long = error(q{SELECT llm_pin_prefix(i || repeat(' All of this is to be kept.', 20)) FROM generate_series(1, 60) i});
like($long, qr/no room to pin a prompt of \d+ tokens/, 'more than half of the cache');
like($long, qr/HINT:  Unpin others with llm_unpin_prefix/, '... and what can be done');
sql("SELECT llm_unpin_prefix($text)");
sql("SELECT llm_reset_prefix_cache()");

# the beginning of chats, as the template writes it
sql(q{SELECT llm_create_model('chats', path, options => '{"kv_cache_memory_bytes": 1048576, "chat_template": "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}\\n{% endfor %}"}') FROM llm_models WHERE name = 'tickets-2m'});
my $system = '{"role": "system", "content": "You are a careful clerk who thinks of the customers first and never promises what the shop can not do."}';
my $pinned = sql("SELECT llm_pin_prefix(llm_render_chat('[$system]', add_generation_prompt => false, model => 'chats'), params => '{\"add_special_tokens\": false}', model => 'chats')");
is(sql("SELECT llm_chat('[$system, {\"role\": \"user\", \"content\": \"Where is it?\"}]', model => 'chats', max_tokens => 2)->'usage'->'prompt_tokens_details'->>'cached_tokens'"),
	$pinned, "chats find $pinned pinned tokens");
sql("SELECT llm_drop_model('chats')");

# common blocks count once: each of these alone takes a quarter of the cache
is(sql("SELECT count(llm_pin_prefix(repeat('Our terms of business are these. ', 12) || repeat(i || ' more. ', 8))) FROM generate_series(1, 5) i"), 5, 'five prompts that begin alike are pinned');
is(sql("SELECT (SELECT pinned_tokens FROM llm_memory WHERE model = 'tickets-2m') < (SELECT sum(tokens) FROM llm_pinned_prefixes) / 2"), 't', '... in the memory of less than half of them');
is(sql("SELECT (SELECT pinned_tokens FROM llm_memory WHERE model = 'tickets-2m') = 16 * kv_blocks_used FROM llm_models WHERE name = 'tickets-2m'"), 't', '... as blocks tell');
sql("SELECT llm_unpin_prefix(id) FROM llm_pinned_prefixes ORDER BY id LIMIT 4");
is(sql("SELECT tokens = pinned_tokens AND bytes = tokens / 16 * (kv_bytes / kv_blocks_total) FROM llm_pinned_prefixes, llm_memory, llm_stat_model WHERE llm_memory.model = 'tickets-2m' AND name = 'tickets-2m'"), 't',
	'the last one has all of it');
sql("SELECT llm_unpin_prefix(id) FROM llm_pinned_prefixes");
is(sql("SELECT pinned_tokens, kv_blocks_used FROM llm_memory JOIN llm_models ON name = model WHERE model = 'tickets-2m'"), '0|0', 'all unpinned by number');

# the list
sql("GRANT EXECUTE ON FUNCTION llm_pin_prefix, llm_unpin_prefix(bigint) TO reader");
sql("SELECT llm_pin_prefix($text)");
sql("SET ROLE reader; SELECT llm_pin_prefix($text, cache_salt => 's')");
my $list = "SELECT role, model, isolation, lora IS NULL, salted, tokens, pinned_at BETWEEN now() - interval '1 min' AND clock_timestamp() FROM llm_pinned_prefixes ORDER BY id";
my $all = int($n / 16) * 16;
is(sql($list), getpwuid($<) . "|tickets-2m|role|t|f|$all|t\nreader|tickets-2m|role|t|t|$all|t", 'what is pinned');
is(sql("SET ROLE reader; $list"), "reader|tickets-2m|role|t|t|$all|t", '... a role sees its own');
my $mine = sql("SELECT min(id) FROM llm_pinned_prefixes");
like(error("SET ROLE reader; SELECT llm_unpin_prefix($mine)"), qr/permission denied to unpin prefix $mine/, '... and gives up no others');
is(sql("SET ROLE reader; SELECT llm_unpin_prefix(id) FROM llm_pinned_prefixes"), 't', '... but its own');
is(sql("SELECT llm_unpin_prefix($mine), llm_unpin_prefix($mine), llm_unpin_prefix(-1), llm_unpin_prefix(NULL::bigint)"), 't|f|f|', 'given up once');
is(sql('SELECT count(*) FROM llm_pinned_prefixes'), 0, 'nothing is pinned');
sql("SELECT llm_reset_prefix_cache()");
is(cached('Two.'), 0, 'after a reset nothing is found');
sql("SELECT llm_pin_prefix($text)");
sql("SELECT llm_reset_prefix_cache()");
is(sql("SELECT pinned_tokens, kv_blocks_used FROM llm_memory JOIN llm_models ON name = model WHERE model = 'tickets-2m'"), '0|0',
	'... and nothing is pinned, which shows at once');
sql("SELECT llm_pin_prefix($text, cache_salt => 's')");
sql($fill);
cmp_ok(cached('Three.'), '<', 16, 'a salt of its own');
sql("SELECT llm_unpin_prefix($text, cache_salt => 's')");
is(sql("SELECT pinned_tokens FROM llm_memory WHERE model = 'tickets-2m'"), 0, 'unpinned');

$node->stop;
done_testing();
