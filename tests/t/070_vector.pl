# vllm_pg with the real pgvector, if the server has it: columns that are filled and updated from embeddings,
# HNSW indexes on them, both orders of CREATE EXTENSION, DROP EXTENSION, dump and restore.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest ();

my $node = PostgreSQL::Test::Cluster->new('vector');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "vllm.engine_args = '--fake'\n");
$node->start;

SKIP:
{
	skip 'the server has no pgvector', 28
		if $node->safe_psql('postgres', "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'") eq '0';

	sub q1 { return $node->safe_psql('postgres', shift); }

	q1('CREATE EXTENSION vllm_pg');
	q1('CREATE EXTENSION vector');
	q1('CREATE EXTENSION vllm_pg_vector');
	q1(q{CREATE TABLE docs (id int PRIMARY KEY, body text, v vector(16), h halfvec(16), r real[]);
		INSERT INTO docs SELECT i, 'word' || i % 97 || ' thing' || i % 31 || ' item' || i FROM generate_series(1, 2000) i;});

	# an assignment casts; the calls are batched
	like(q1('EXPLAIN SELECT t.id, n.id FROM (SELECT id, llm_embed(body)::vector AS v FROM docs OFFSET 0) t, LATERAL (SELECT id FROM docs ORDER BY docs.v <=> t.v LIMIT 5) n'),
		qr/LLM Calls: llm_embed\((docs\.)?body\)/, 'many questions are batched');
	like(q1('EXPLAIN UPDATE docs SET v = llm_embed(body)'), qr/LLM Calls: llm_embed\(body\)/, 'an update is batched');
	like(q1('EXPLAIN SELECT llm_embed_halfvec(body) FROM docs'), qr/LLM Calls: llm_embed\(body\)/, 'so is the helper: it is inlined');
	q1('UPDATE docs SET v = llm_embed(body), h = llm_embed_halfvec(body), r = llm_embed(body)');
	is(q1('SELECT count(*) FROM docs WHERE v = r::vector AND h = r::halfvec AND v = llm_embed_vector(body)'), '2000', 'the types hold the same');

	# indexes on columns that are maintained
	q1('CREATE INDEX docs_v ON docs USING hnsw (v vector_cosine_ops); CREATE INDEX docs_h ON docs USING hnsw (h halfvec_l2_ops); ANALYZE docs');
	q1("SELECT vllm.control('log-clear')");
	my $plan = q1("EXPLAIN SELECT id FROM docs ORDER BY v <=> llm_embed_vector('word5 thing5 item5') LIMIT 3");
	like($plan, qr/Index Scan using docs_v/, 'the index serves ORDER BY with the helper');
	like($plan, qr/InitPlan 1/, '... whose question is computed once');
	like(q1("EXPLAIN SELECT id FROM docs ORDER BY v <=> llm_embed('word5 thing5 item5')::vector LIMIT 3"), qr/Index Scan using docs_v/, '... and with a cast');
	like(q1("EXPLAIN SELECT id FROM docs ORDER BY h <-> llm_embed_halfvec('word5 thing5 item5') LIMIT 3"), qr/Index Scan using docs_h/, '... of halfvec');
	is(q1("SELECT vllm.control('log')"), '', 'EXPLAIN asks nothing');
	is(q1("SELECT id FROM docs ORDER BY v <=> llm_embed_vector('word5 thing5 item5') LIMIT 1"), '5', 'the nearest');
	is(q1("SELECT count(*) FROM regexp_split_to_table(vllm.control('log'), '\n') l WHERE l <> ''"), '1', 'one request');
	q1("SET enable_indexscan = off; SELECT vllm.control('log-clear'); SELECT id FROM docs ORDER BY v <=> llm_embed_vector('word5 thing5 item5') LIMIT 1");
	is(q1("SELECT count(*) FROM regexp_split_to_table(vllm.control('log'), '\n') l WHERE l <> ''"), '1', 'one request without an index, too');
	q1("UPDATE docs SET body = 'something entirely new', v = llm_embed('something entirely new') WHERE id = 77");
	is(q1("SELECT id FROM docs ORDER BY v <=> llm_embed_vector('something entirely new') LIMIT 1"), '77', 'an updated row is found through the index');

	is(q1("SELECT round(llm_cosine_distance('[1,2]'::vector, '[2,1]'::vector)::numeric, 3), round(llm_similarity('[1,2]'::vector, '{2,1}'::real[])::numeric, 3), llm_l2_distance('[0,0]'::vector, '{3,4}')"),
		'0.200|0.800|5', 'vector is an argument where real[] is');
	# a generated column, and an index of an expression, with a pinned model
	my $digest = q1('SELECT llm_model_digest()');
	q1(qq{CREATE TABLE pinned (id int PRIMARY KEY, body text, v vector(16) GENERATED ALWAYS AS (llm_embed_pinned(body, '$digest')) STORED);
		INSERT INTO pinned SELECT id, body FROM docs WHERE id <= 500;
		CREATE INDEX pinned_v ON pinned USING hnsw ((llm_embed_pinned(body, '$digest')::vector(16)) vector_cosine_ops)});
	is(q1('SELECT count(*) FROM pinned WHERE v = llm_embed(body)::vector'), '500', 'a generated column');
	my $nearest = "SELECT id FROM pinned ORDER BY llm_embed_pinned(body, '$digest')::vector(16) <=> llm_embed('word5 thing5 item5')::vector LIMIT 1";
	like(q1("SET enable_seqscan = off; EXPLAIN $nearest"), qr/Index Scan using pinned_v/, 'an index of an expression');
	is(q1("SET enable_seqscan = off; $nearest"), '5', '... finds the nearest');
	is(q1("SELECT llm_embed_vector('x', on_error => 'null') = llm_embed('x')::vector"), 't', 'the helper has all arguments');
	q1('DROP TABLE pinned');
	# llm_nearest on the types of pgvector
	my $exact = q1("SELECT string_agg(d.id::text, ',' ORDER BY n.distance, d.id) FROM llm_nearest('word5 thing5 item5', 'docs', 'r', 10) n JOIN docs d ON d.ctid = n.row_id");
	my $found = q1("SELECT string_agg(d.id::text, ',' ORDER BY n.distance, d.id) FROM llm_nearest('word5 thing5 item5', 'docs', 'v', 10) n JOIN docs d ON d.ctid = n.row_id");
	my %exact = map { $_ => 1 } split /,/, $exact;
	my $same = grep { $exact{$_} } split /,/, $found;
	cmp_ok($same, '>=', 8, "llm_nearest over a vector finds at least 8 of the 10 exact neighbours: $same");
	is(q1(q{SET enable_indexscan = off; SELECT count(*) FROM llm_nearest('word5 thing5 item5', 'docs', 'h', 5, 'l2') n JOIN docs d ON d.ctid = n.row_id}), '5', '... over halfvec');

	# dump and restore
	my $dump = PostgreSQL::Test::Utils::tempdir_short() . '/dump.sql';
	$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('postgres') ], 'pg_dump');
	q1('CREATE DATABASE restored');
	$node->command_ok([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-1', '-f', $dump, '-o', '/dev/null', $node->connstr('restored') ], 'restore in one transaction');
	is($node->safe_psql('restored', "SELECT id FROM docs ORDER BY v <=> llm_embed_vector('word5 thing5 item5') LIMIT 1"), '5', 'the helper is there');

	# dropping either one
	my ($rc, $out, $err) = $node->psql('postgres', 'DROP EXTENSION vector');
	like($err, qr/extension vllm_pg_vector depends on extension vector/, 'DROP EXTENSION vector names what depends on it');
	q1('DROP TABLE docs; DROP EXTENSION vector CASCADE');
	is(q1("SELECT string_agg(extname, ',' ORDER BY extname) FROM pg_extension"), 'plpgsql,vllm_pg', 'CASCADE takes the helpers, not vllm_pg');

	# the other order, in a schema
	q1('DROP EXTENSION vllm_pg; CREATE SCHEMA ai; CREATE EXTENSION vector; CREATE EXTENSION vllm_pg SCHEMA ai; CREATE EXTENSION vllm_pg_vector SCHEMA ai');
	is(q1("SELECT vector_dims(ai.llm_embed_vector('x'))"), '16', 'the other order, and another schema');
	q1('DROP EXTENSION vllm_pg CASCADE');
	is(q1("SELECT string_agg(extname, ',' ORDER BY extname) FROM pg_extension"), 'plpgsql,vector', 'vector stays when vllm_pg goes');

	# a schema of a user who makes types and functions with these names
	$node->safe_psql('postgres', 'CREATE DATABASE theirs');
	$node->safe_psql('theirs', q{CREATE EXTENSION vllm_pg; CREATE EXTENSION vector; CREATE SCHEMA mine; CREATE DOMAIN mine.vector AS real[]; CREATE DOMAIN mine.halfvec AS real[];
		CREATE FUNCTION mine.llm_embed(text, int, bool, text, text, int, text, text, vllm.json, int, text DEFAULT NULL) RETURNS real[] LANGUAGE sql AS 'SELECT NULL::real[]';
		CREATE EXTENSION vllm_pg_vector SCHEMA mine});
	is($node->safe_psql('theirs', q{SELECT pg_get_function_result(oid), pg_get_function_sqlbody(oid) ~ 'mine' FROM pg_proc WHERE proname = 'llm_embed_vector'}),
		'vector|f', 'types and the function are those of the extensions');
}
$node->stop;
done_testing();
