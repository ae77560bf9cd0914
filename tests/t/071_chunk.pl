# Chunks and aggregates with the bundled model in the real engine: chunks have the requested number of
# tokens, and the levels of a reduction are the same however they run.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest ();

my $node = PostgreSQL::Test::Cluster->new('chunk');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');
$node->safe_psql('postgres', slurp_file('models/docs_sample.sql'));
sub q1 { return $node->safe_psql('postgres', shift); }

q1(q{CREATE TABLE long AS SELECT g AS id, string_agg(prompt || E'\n\n# Next\n', '' ORDER BY md5(id::text || g)) || 'Grüße aus 世界! 😀' AS body
	FROM docs, generate_series(1, 2) g GROUP BY g});
for my $method (qw(tokens sentences markdown recursive))
{
	for my $size (7, 60)
	{
		my $overlap = int($size / 5);
		is(q1(qq{SELECT count(*) FROM long, llm_chunk_text(body, '$method', $size, $overlap) WHERE llm_count_tokens(chunk, add_special_tokens => false) > $size}),
			'0', "$method, $size: no chunk has more tokens than that");
	}
}
is(q1(q{SELECT count(*) FROM long l WHERE body <> (SELECT string_agg(chunk, '' ORDER BY seq) FROM llm_chunk_text(l.body, 'tokens', 33))}), '0',
	'chunks of tokens put together are the text');
is(q1(q{SELECT count(*) FROM long l, llm_chunk_text(body, 'sentences', 40) c
	WHERE regexp_replace(body, '\s', '', 'g') <> (SELECT regexp_replace(string_agg(chunk, '' ORDER BY seq), '\s', '', 'g') FROM llm_chunk_text(l.body, 'sentences', 40))}), '0',
	'chunks of sentences leave out white space only');
is(q1(q{SELECT count(*) FROM long, llm_chunk_text(body, 'tokens', 33) c, LATERAL llm_tokenize(body, false) t
	WHERE llm_detokenize(t[c.tok_start + 1:c.tok_end]) <> chunk AND id = 1}), '0', 'tok_start and tok_end are the tokens of a chunk');
is(q1('SELECT max(llm_count_tokens(chunk, add_special_tokens => false)) <= 400 FROM long, llm_chunk_text(body)'), 't', 'the default size');

# a group that needs several levels: batched, serially and as an aggregate
my $answer = q1(q{SELECT llm_reduce(array_agg(body ORDER BY id), 'What is the sentiment?', split => true, max_tokens => 8, temperature => 0) FROM long});
isnt($answer, '', 'an answer over texts that are longer than the context');
is(q1(q{SET vllm.batch = off; SELECT llm_reduce(array_agg(body ORDER BY id), 'What is the sentiment?', split => true, max_tokens => 8, temperature => 0) FROM long}),
	$answer, 'the same with batching off');
is(q1(q{SELECT llm_agg(body, 'What is the sentiment?', '{"split": true, "max_tokens": 8, "temperature": 0}' ORDER BY id) FROM long}), $answer, 'the same from the aggregate');
is(q1('SELECT slots_total - slots_free, running, waiting, kv_blocks_used FROM llm_stat_engine'), '0|0|0|0', 'nothing is left in the engine');
$node->stop;
done_testing();
