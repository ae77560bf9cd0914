# Jobs fill columns of pgvector's types, with an HNSW index, and side tables with such columns.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my $node = new_node('jobs_vector');
SKIP:
{
	skip 'pgvector is not installed beside this server', 6
		unless $node->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'}) eq '1';
	$node->safe_psql('postgres', q{CREATE EXTENSION vector;
		CREATE TABLE t (id int PRIMARY KEY, a text, v vector(8), h halfvec(8), narrow vector(8));
		CREATE TABLE chunks (id int, chunk_seq int, chunk text, embedding vector(8), tok_start int, tok_end int, PRIMARY KEY (id, chunk_seq));
		CREATE INDEX ON t USING hnsw (v vector_cosine_ops);
		INSERT INTO t SELECT i, 'text ' || i FROM generate_series(1, 300) i;
		SELECT llm_create_embedding_job('t', 'a', target_column => 'v', dimensions => 8, name => 'v');
		SELECT llm_create_embedding_job('t', 'a', target_column => 'h', dimensions => 8, name => 'h');
		SELECT llm_create_embedding_job('t', 'a', target_column => 'narrow', dimensions => 8, name => 'narrow', backfill => 'none');
		SELECT llm_create_embedding_job('t', 'a', target_table => 'chunks', dimensions => 8, chunking => 'tokens', chunk_size => 4, name => 'c')});
	my $settled = q{SELECT bool_and(queued + in_flight = 0 AND backfill = 'done') FROM llm_jobs};
	ok(until_sql($node, $settled), 'back-filled');
	is($node->safe_psql('postgres', q{SELECT count(*) FILTER (WHERE v = llm_embed(a, dimensions => 8)::vector),
		count(*) FILTER (WHERE h = llm_embed(a, dimensions => 8)::halfvec) FROM t}), '300|300', 'vector and halfvec');
	is($node->safe_psql('postgres', q{SELECT count(*) > 300, count(*) = count(*) FILTER (WHERE embedding = llm_embed(chunk, dimensions => 8)::vector) FROM chunks}),
		't|t', 'chunks');
	my ($rc, $out, $err) = $node->psql('postgres', q{ALTER TABLE t ADD other vector(5);
		SELECT llm_create_embedding_job('t', 'a', target_column => 'other', dimensions => 8)});
	like($err, qr/expected 5 dimensions, not 8/, 'a column that does not take the vectors is found when the job is made');
	$node->safe_psql('postgres', q{ALTER TABLE t ALTER narrow TYPE vector(5); UPDATE t SET a = 'changed' WHERE id = 5});
	until_sql($node, $settled);
	is($node->safe_psql('postgres', q{SET enable_seqscan = off; SELECT id FROM t ORDER BY v <=> llm_embed('changed', dimensions => 8)::vector LIMIT 1}),
		'5', 'the index finds the new vector');
	is($node->safe_psql('postgres', 'SELECT name, key, sqlstate, message FROM llm_job_failures'), 'narrow|{5}|22000|expected 5 dimensions, not 8',
		'a vector that the column does not take');
}
$node->stop('fast');
done_testing();
