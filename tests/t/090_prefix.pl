# Prompts with a common prefix with the bundled model: what is cached, who may use it, and that outputs are
# the same with and without.
use strict;
use warnings;
use lib 't';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my $node = PostgreSQL::Test::Cluster->new('prefix');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "max_connections = 60\nvllm.kv_cache_memory_bytes = '16MB'\n");
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION vllm_pg;
	CREATE ROLE reader LOGIN;
	CREATE DATABASE other;
	SELECT llm_create_model('without', (SELECT path FROM llm_models), options => '{"enable_prefix_caching": false}')});

sub sql { return $node->safe_psql('postgres', shift); }
sub error { return ($node->psql('postgres', shift))[2]; }

# Return the cached tokens of a prompt, and how many it has.
my $long = q{repeat('The kettle arrived broken. ', 20) || 'Ticket: I want my money back.'};
sub cached
{
	my ($prompt, $more, $set) = @_;
	return sql(($set // '') . "SELECT (r.usage).cached_tokens FROM llm_generate_full($prompt, max_tokens => 4, temperature => 0" . ($more // '') . ') r');
}

my $n = sql("SELECT cardinality(llm_tokenize($long))");
my $answer = sql("SELECT llm_generate($long, max_tokens => 30, temperature => 0, ignore_eos => true)");
is(cached($long), $n - 1, "all of $n tokens but the last are found");
is(sql("SELECT llm_generate($long, max_tokens => 30, temperature => 0, ignore_eos => true)"), $answer, '... and the answer is the same');
is(sql("SELECT llm_generate($long, model => 'without', max_tokens => 30, temperature => 0, ignore_eos => true)"), $answer, '... as without');
is(cached($long, ", model => 'without'"), 0, 'a model may be without');
cmp_ok(cached("$long || ' $answer Thanks.'"), '>=', $n, 'an answer is found, too, when it comes back');
cmp_ok(cached("$long || ' And more.'"), '>=', $n - 3, 'what follows may be another text');
is(cached("'x' || $long"), cached(q{'x'}) , 'only beginnings count');

# owners and salts
is(cached($long, ", params => '{\"cache_salt\": \"a\"}'"), 0, 'a salt of its own');
is(cached($long, ", params => '{\"cache_salt\": \"a\"}'"), $n - 1, '... is shared by those who have it');
is(cached($long, ", params => '{\"cache_salt\": \"b\"}'"), 0, '... and by no others');
is(cached($long, '', 'SET ROLE reader; '), 0, "another role's prompts are its own");
is(cached($long, '', 'SET ROLE reader; '), $n - 1, '... which it finds');
sub isolation
{
	$node->safe_psql('postgres', "ALTER SYSTEM SET vllm.prefix_cache_isolation = '$_[0]'");
	$node->reload;
	# the engine gets the setting a moment later
	$node->poll_query_until('postgres', "SELECT setting = '$_[0]' FROM pg_settings WHERE name = 'vllm.prefix_cache_isolation'");
	sleep 1;
}
isolation('none');
is(cached($long), 0, 'other isolation, other prompts');
is(cached($long, '', 'SET ROLE reader; '), $n - 1, 'none: all roles share');
isolation('database');
cached($long);
is(cached($long, '', 'SET ROLE reader; '), $n - 1, 'database: roles share');
like(error("ALTER SYSTEM SET vllm.prefix_cache_isolation = 'session'"), qr/must be one of: none, role, database/, 'isolation by what is not known');
isolation('role');
is(sql("SELECT llm_reset_prefix_cache()"), 't', 'all is forgotten');
is(cached($long), 0, '... then');

# a column: the instruction is computed once, and outputs do not depend on it
sql(qq{CREATE TABLE docs AS SELECT i, repeat('Summarize what the customer says in one word. ', 6) || 'Ticket ' || md5(i::text) AS p FROM generate_series(1, 120) i});
my $all = q{SELECT md5(string_agg(x, '|' ORDER BY i)) FROM (SELECT i, llm_generate(p, max_tokens => 12, temperature => 1, seed => i %s) x FROM docs) s};
my $want = sql(sprintf($all, ", model => 'without'"));
is(sql(sprintf($all, '')), $want, 'a column: the same answers');
is(sql(sprintf($all, '')), $want, '... again');
my @bg = map { bg($node, sprintf($all, '')) } 1 .. 4;
is(scalar(finish($_)), $want, '... and from several sessions') for @bg;
sql("SELECT llm_reset_prefix_cache()");
like(error('SET ROLE reader; SELECT llm_reset_prefix_cache()'), qr/permission denied for function llm_reset_prefix_cache/, 'not by anybody');
my ($sum, $found) = split /\|/, sql(q{SELECT sum((r.usage).prompt_tokens), sum((r.usage).cached_tokens) FROM docs,
	LATERAL llm_generate_full(p, max_tokens => 1, temperature => 0) r});
my $common = sql(q{SELECT cardinality(llm_tokenize(repeat('Summarize what the customer says in one word. ', 6)))});
cmp_ok($found, '>=', 119 * ($common - 16), "of $sum tokens $found were found, $common begin all prompts");
like(sql(q{EXPLAIN (ANALYZE, COSTS OFF) SELECT llm_generate(p, max_tokens => 1, temperature => 0) FROM docs}), qr/Cached Tokens: \d\d+/, 'EXPLAIN tells');
cmp_ok(sql(q{SELECT cached_tokens FROM llm_stat_engine}), '>', 119 * ($common - 16), 'llm_stat_engine counts');

# decisions and log-probabilities: rows whose logits are needed are computed
my $choose = q{SELECT md5(string_agg(x, '|' ORDER BY i)) FROM (SELECT i, llm_choice_probs(p, ARRAY['good', 'bad', 'neither of them'] %s)::text x FROM docs) s};
is(sql(sprintf($choose, '')), sql(sprintf($choose, ", model => 'without'")), 'choices: the same, cached or not');
my $ppl = q{SELECT md5(string_agg(llm_perplexity(p %s)::text, '|' ORDER BY i)) FROM docs};
is(sql(sprintf($ppl, '')), sql(sprintf($ppl, ", model => 'without'")), 'perplexities: the same');
my $lp = q{SELECT md5(string_agg((llm_output(p, max_tokens => 3, temperature => 1, seed => 7, prompt_logprobs => 1, n => 2 %s)).prompt_logprobs::text, '|' ORDER BY i)) FROM docs WHERE i < 20};
is(sql(sprintf($lp, '')), sql(sprintf($lp, ", model => 'without'")), 'log-probabilities of prompts: the same');

is(sql(q{SELECT vllm.control('integrity')}), 'ok', 'the engine finds its books in order');
is(sql(q{SELECT sum(kv_blocks_used) FROM llm_stat_model}), 0, 'what is only kept is not used');
done_testing();
