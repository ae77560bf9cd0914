# Decisions by log-probability with the bundled model: the functions agree with each other, whatever runs at
# the same time, batched or row by row; and nothing is left.
use strict;
use warnings;
use Cwd ();
use lib 't';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my $node = PostgreSQL::Test::Cluster->new('choose');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "max_connections = 60\nvllm.kv_cache_memory_bytes = '16MB'\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');
$node->safe_psql('postgres', slurp_file('models/docs_sample.sql'));

sub sql { return $node->safe_psql('postgres', shift); }

sub error
{
	my ($rc, $out, $err) = $node->psql('postgres', '\set VERBOSITY sqlstate' . "\n" . shift);
	return $rc ? $err : "no error: $out";
}

# labels of one token and of many, one a prefix of another
sql(q{
	CREATE TABLE labels AS SELECT ARRAY['refund', 'delivery', 'a broken article', 'broken', 'nothing of all that, but something else',
		'a', 'b', 'thanks', 'complaint'] AS l;
	CREATE TABLE asked AS SELECT id, left(prompt, 200) || E'\nThe subject is: ' AS p FROM docs WHERE id % 2 = 0;
	ANALYZE;
	CREATE TABLE choices AS SELECT a.id, c.* FROM asked a, labels, LATERAL llm_choice_probs(a.p, l) c;
	CREATE TABLE alone AS SELECT a.id, l.label, x.* FROM (SELECT * FROM asked ORDER BY id LIMIT 16) a,
		(SELECT unnest(l) AS label FROM labels) l, LATERAL llm_loglikelihood(a.p, l.label) x;
});
is(sql('SELECT count(*), count(DISTINCT id), bool_and(logprob < 0) FROM choices'), '288|32|t', 'every label of every prompt has a number');
is(sql('SELECT count(*) FROM alone JOIN choices USING (id, label) WHERE alone.logprob IS DISTINCT FROM choices.logprob'), '0',
	'sharing the prompt changes no bit: llm_choice_probs gives what llm_loglikelihood gives');
is(sql('SELECT count(*) FROM (SELECT sum(prob) FROM choices GROUP BY id) s WHERE abs(sum - 1) > 1e-9'), '0', 'probabilities add up to 1');
is( sql(q{SELECT count(*) FROM asked a, labels, LATERAL (SELECT label FROM alone WHERE alone.id = a.id ORDER BY logprob DESC LIMIT 1) best
	WHERE llm_choose(a.p, l) <> best.label}), '0', 'llm_choose takes the likeliest');
is( sql(q{SELECT count(*) FROM asked a, labels, LATERAL (SELECT label FROM alone WHERE alone.id = a.id ORDER BY logprob / tokens DESC LIMIT 1) best
	WHERE llm_choose(a.p, l, 'mean') <> best.label}), '0', '... by token');
is( sql(q{SELECT count(*) FROM asked a, labels, LATERAL (SELECT label FROM alone WHERE alone.id = a.id ORDER BY logprob / octet_length(label) DESC LIMIT 1) best
	WHERE llm_choose(a.p, l, 'bytes') <> best.label}), '0', '... by byte');

# a text's own tokens after BOS are a continuation of an empty prompt
is( sql(q{SELECT count(*) FROM docs, LATERAL llm_loglikelihood('', prompt) l WHERE abs(llm_perplexity(prompt) / exp(-l.logprob / l.tokens) - 1) > 1e-12}),
	'0', 'perplexity is what the log-probability of the text says');
# (if the output's text has the same tokens)
is( sql(q{SELECT bool_and(is_greedy), bool_and(l.tokens = cardinality(g.token_ids)) FROM (SELECT rtrim(p) AS p FROM asked) a,
	LATERAL llm_generate_full(p, max_tokens => 6, temperature => 0) g, LATERAL llm_loglikelihood(p, g.text) l
	WHERE g.text <> '' AND llm_tokenize(p || g.text) = llm_tokenize(p) || g.token_ids}), 't|t', 'what is generated at temperature 0 is greedy');
is(sql(q{SELECT count(*) FROM docs WHERE llm_filter('It is about money.', prompt, 0.3) <> (llm_filter_prob('It is about money.', prompt) >= 0.3)}),
	'0', 'llm_filter compares llm_filter_prob with its threshold');
my $passed = sql(q{SELECT count(*) FROM docs WHERE llm_filter('It is about money.', prompt, 0.3)});
my $guess = sql(q{EXPLAIN SELECT * FROM docs WHERE llm_filter('It is about money.', prompt, 0.3)}) =~ /rows=(\d+)/ ? $1 : -1;
cmp_ok(abs($guess - $passed), '<=', 2, "another session's plan expects $passed rows: $guess");

# row by row, and together with all kinds of other requests
my $all = q{SELECT md5(string_agg(x, ',' ORDER BY id)) FROM (SELECT a.id, concat_ws('|', llm_choose(a.p, l), llm_perplexity(a.p),
	llm_filter('It is about money.', a.p), llm_filter_prob('polite', a.p)) AS x FROM asked a, labels WHERE a.id % 3 = 0) s};
my $want = sql("SET vllm.batch = off; $all");
is(sql($all), $want, 'batched and row by row: the same');
my @bg = map { bg($node, $all) } 1 .. 4;
push @bg, bg($node, q{SELECT count(*) FROM (SELECT llm_generate(prompt, max_tokens => 40, ignore_eos => true, seed => 7) FROM docs) s});
is(scalar(finish($_)), $want, 'beside others: the same') for @bg[0 .. 3];
is(scalar(finish($bg[4])), '64', 'and they have their answers');

# cancelled in any state: no block and no request is left
for my $ms (5, 20, 50, 90, 150)
{
	like(error("SET statement_timeout = $ms; SELECT llm_choose(p || repeat(' word', 300 + id), (SELECT array_agg('label ' || i) FROM generate_series(1, 200) i)) FROM asked;"),
		qr/57014/, "cancelled after $ms ms");
	is(sql(q{SELECT vllm.control('integrity')}), 'ok', '... and the engine finds its books in order');
}
ok(until_sql($node, q{SELECT running + waiting + kv_blocks_used = 0 FROM llm_stat_engine}), 'no request or block is left');

# too long for the model; and models that don't generate
like(error(q{SELECT llm_choose(repeat('word ', 5000), '{a,b}');}), qr/54000/, 'a prompt that does not fit');
like(error(q{SELECT llm_perplexity(repeat('word ', 5000));}), qr/54000/, 'a text that does not fit');
is(sql(q{SELECT llm_choose('My parcel is late. ', '{a,b}', chat => true) IN ('a', 'b')}), 't', "with the model's chat template");
my $encoder = Cwd::abs_path('fixtures/pool/bert_embed');
sql("SELECT llm_create_model('encoder', '$encoder')");
for my $call (q{llm_choose('a', '{a,b}', model => 'encoder')}, q{llm_filter('a', 'b', model => 'encoder')},
	q{llm_perplexity('a', model => 'encoder')}, q{llm_loglikelihood('a', 'b', model => 'encoder')})
{
	like(error("SELECT $call;"), qr/0A000/, "an encoder can't: $call");
}

done_testing();
