# Prompts of embeddings in the real engine, through SQL: the rows of a text's tokens give the same as the
# text, to the last bit of the log-probabilities, with models that scale their embedding, add positions to
# it, widen it or share it with the head; alone, in a batch, in chunks and preempted.  Other numbers give an
# output or an error, and nothing else.
use strict;
use warnings;
use Cwd qw(getcwd);
use File::Copy qw(copy);
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my $fixtures = getcwd() . '/fixtures';
my $top = PostgreSQL::Test::Utils::tempdir_short();
my $node = PostgreSQL::Test::Cluster->new('embeds');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', q{
max_connections = 60
fsync = off
statement_timeout = '180s'
vllm.kv_cache_memory_bytes = '16MB'
vllm.enable_prompt_embeds = on
});
$node->start;
sub sql { return $node->safe_psql('postgres', shift); }
sub error { return ($node->psql('postgres', "\\set VERBOSITY verbose\n" . shift))[2]; }
sql(q{
	CREATE EXTENSION vllm_pg;
	CREATE TABLE texts AS SELECT id, (SELECT string_agg(chr(97 + (id * 7 + g * (id + 3)) % 26), ' ') FROM generate_series(1, 4 + id % 9) g) AS prompt
	FROM generate_series(1, 24) id});

# Run both kinds of prompts, the completions with their log-probabilities as text; $where: options of both.
sub both
{
	my ($model, $options, $count) = @_;
	my $opt = "model => '$model', max_tokens => 40, ignore_eos => true, seed => id, logprobs => 2, $options";
	return qq{SELECT count(*) FILTER (WHERE e IS DISTINCT FROM t), count(DISTINCT t) FROM (
		SELECT (llm_output(prompt, $opt)).completions::text AS t,
			(llm_embeds_output(llm_token_embeddings(prompt, model => '$model'), $opt)).completions::text AS e FROM texts, generate_series(1, $count) g) s};
}

for my $fixture (qw(gemma_bf16 gemma2_bf16 gemma3_bf16 granite_f16 minicpm_f16 opt_post_f16 gpt2_f16 bloom_f16 mamba_f16 qwen3_moe_f16 deepseek3_f16))
{
	my $dir = "$top/$fixture";

	mkdir $dir or die;
	for my $f (glob "$fixtures/models/$fixture/*")
	{
		copy($f, $dir) or die "$f: $!";
	}
	sql(qq{SELECT llm_create_model('$fixture', '$dir', options => '{"kv_cache_memory_bytes": 65536, "max_model_len": 96}')});
	is(sql(both($fixture, 'temperature => 0', 1)), '0|24', "$fixture: what the tokens give");
	is(sql('SET vllm.batch = off; ' . both($fixture, 'temperature => 1', 1)), '0|24', "$fixture: drawn, row by row");
}
is(sql(both('gemma3_bf16', 'temperature => 1, n => 3', 1)), '0|24', 'several answers share the rows');
is(sql(both('tickets-2m', q{temperature => 0.7, presence_penalty => 0.5, stop => '{e }'}, 1)), '0|24', 'the bundled model');
# with windows it would keep so little that no request is preempted
sql(qq{SELECT llm_create_model('tight', '$top/gemma2_bf16',
	options => '{"kv_cache_memory_bytes": 65536, "max_model_len": 96, "disable_hybrid_kv_cache_manager": true}')});
my @h = map { bg($node, both('tight', 'temperature => 1', 2)) } 1 .. 6;
is(scalar(finish($_)), '0|24', 'in company') for @h;
is(sql(q{SELECT preemptions > 0 FROM llm_stat_model WHERE name = 'tight'}), 't', '... that preempts');
# a prompt of several chunks: more tokens than a step takes
is( sql(q{SELECT llm_embeds_generate(llm_token_embeddings(p), max_tokens => 20, temperature => 0) = llm_generate(p, max_tokens => 20, temperature => 0),
	llm_count_tokens(p) > 512 FROM (SELECT repeat('The kettle arrived broken. ', 100) AS p) s}), 't|t', 'a prompt in chunks');

# rows that are no token's
my $mix = q{SELECT llm_embeds_generate(ARRAY(SELECT ((a + b) / 2)::real FROM unnest(llm_token_embeddings('kettle'), llm_token_embeddings('kettle!')) AS u (a, b)
	WHERE a IS NOT NULL AND b IS NOT NULL), max_tokens => 5, temperature => 0)};
is(sql($mix), sql("SET vllm.batch = off; $mix"), 'rows between those of tokens');
my $width = sql(q{SELECT array_length(llm_token_embeddings('a'), 2)});
cmp_ok($width, '>', 8, "rows of $width numbers");
like(error("SELECT llm_embeds_generate(array_fill(1::real, ARRAY[3, $width + 1]))"), qr/22023.*rows of $width numbers.*not of @{[$width + 1]}/s, 'too wide');
like(error("SELECT llm_embeds_generate(array_fill('NaN'::real, ARRAY[3, $width]))"), qr/22023.*finite numbers, got nan in row 1, column 1/s, 'not a number');
like(error("SELECT llm_embeds_generate(array_fill(0.1::real, ARRAY[5000, $width]))"), qr/54000.*longer than the maximum model length/s, 'too long');
like(error("SELECT llm_embeds_generate(array_fill(3e38::real, ARRAY[3, $width]))") || 'an answer', qr/non-finite logits|an answer/, 'huge numbers');
is(sql(both('tickets-2m', 'temperature => 0', 1)), '0|24', '... and the engine goes on');

# cancelled before its end
my $long = "SELECT llm_embeds_generate(array_fill(0.01::real, ARRAY[200, $width]), ignore_eos => true, max_tokens => 3000, temperature => 1) FROM generate_series(1, 20)";
like(error("SET statement_timeout = 300; $long"), qr/57014/, 'cancelled');
ok(until_sql($node, q{SELECT running + waiting = 0 FROM llm_stat_model WHERE name = 'tickets-2m'}), '... and gone');
is(sql(q{SELECT vllm.control('integrity')}), 'ok', 'the engine finds its books in order');
$node->stop;
done_testing();
