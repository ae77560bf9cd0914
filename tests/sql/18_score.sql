-- Scores of pairs: similarity, relevance, reranking.
SET client_min_messages = warning;
SELECT oid::regprocedure, provolatile, proparallel, proisstrict, prosupport <> 0 AS support
FROM pg_proc WHERE proname ~ '^llm_(similarity|score|rerank)' ORDER BY oid::regprocedure::text COLLATE "C";

-- ---- two texts, two vectors ----
SELECT llm_similarity('the cat sat on the mat', 'the cat sat on a mat') > llm_similarity('the cat sat on the mat', 'stock prices fell') AS closer,
       round(llm_similarity('a b', 'a b')::numeric, 5) AS same,
       abs(llm_similarity('the cat', 'a dog') - llm_similarity(llm_embed('the cat'), llm_embed('a dog'))) < 1e-6 AS cosine;
SELECT llm_similarity('{1,0}'::real[], '{0,2}'), llm_similarity('{3,4}'::real[], '{6,8}'), llm_similarity('{1,1}'::real[], '{-1,-1}'),
       llm_similarity('{1,0}'::real[], '{0,0}') AS zeros, llm_similarity(NULL::real[], '{1}') AS a, llm_similarity('{1}', NULL::real[]) AS b;
SELECT fails($$SELECT llm_similarity('{1,2}'::real[], '{1}')$$), fails($$SELECT llm_similarity('{1,NULL}'::real[], '{1,2}')$$);
SELECT fails($$SELECT llm_similarity('{}'::real[], '{}')$$), fails($$SELECT llm_similarity('{{1,2}}'::real[], '{{1,2}}')$$);
SELECT llm_similarity(NULL, 'x'), llm_similarity('x', NULL), llm_similarity(NULL, '', model => 'no such');
SELECT fails($$SELECT llm_similarity('', 'x')$$), fails($$SELECT llm_similarity('x', '')$$), fails($$SELECT llm_similarity('x', 'y', params => '{"dimensions": 2}')$$);

-- ---- scores ----
SELECT llm_score('the cat', 'the cat'), llm_score('the cat', 'the cat', use_activation => false), llm_score('cat', 'the cat', instruction => 'the '),
       llm_score(NULL, 'x'), llm_score('x', NULL, truncate => 0);
SELECT fails($$SELECT llm_score('', 'x')$$), fails($$SELECT llm_score('x', '')$$), fails($$SELECT llm_score('x', 'y', truncate => 0)$$);
SELECT fails($$SELECT llm_score('x', '@error:53200:no room')$$), fails($$SELECT llm_score('x', 'y', params => '{"long_input": "chunk"}')$$);
SELECT llm_score_batch('the cat', ARRAY['the cat', NULL, 'a dog', 'the cat']) AS scores, llm_score_batch(NULL, '{x}'), llm_score_batch('x', NULL),
       llm_score_batch('x', '{NULL,NULL}', truncate => 0) AS nulls;
SELECT llm_score_pairs('{the cat,a dog}', '{the cat,the cat}') = ARRAY[llm_score('the cat', 'the cat'), llm_score('a dog', 'the cat')] AS n_n,
       llm_score_pairs('{the cat}', '{the cat,a dog}') = llm_score_batch('the cat', '{the cat,a dog}') AS one_n,
       llm_score_pairs('{NULL}', '{x,y}') AS nulls, llm_score_pairs('{x,NULL}', '{NULL,x}'), llm_score_pairs(NULL, '{x}');
SELECT o, fails(format('SELECT llm_score_pairs(%s)', o)) FROM unnest(ARRAY['''{}'', ''{}''', '''{a}'', ''{}''', '''{}'', ''{b}''', '''{a,b}'', ''{c}''', '''{a,b}'', ''{c,d,e}''',
    '''{a}'', ''{b}'', truncate => 0', '''{a}'', ''{b}'', model => ''no such''']) o;
SELECT fails($$SELECT llm_score_batch('a', '{}')$$), fails($$SELECT llm_score_batch('a', ARRAY['b', ''])$$);
\set VERBOSITY default
SELECT llm_score_batch('a', ARRAY['b', '@error:58030:second', '@error:54000:third']);
\set VERBOSITY terse
SELECT array_length(s, 1), s[1] = s[1991] AND s[1] <> s[2000] AS same FROM llm_score_batch('text 5', (SELECT array_agg('text ' || i % 10 ORDER BY i) FROM generate_series(0, 1999) i) || '{}') s;
SELECT array_length(llm_score_batch('text 5', (SELECT array_agg('text ' || i) FROM generate_series(1, 2000) i)), 1);
SELECT left_behind();

-- ---- rerank ----
SELECT * FROM llm_rerank('red fish', ARRAY['blue fish', NULL, 'red fish', 'a cow']);
SELECT * FROM llm_rerank('red fish', ARRAY['blue fish', NULL, 'red fish', 'red fish'], 2);
SELECT * FROM llm_rerank('red fish', ARRAY['blue fish', 'red fish'], NULL, use_activation => false);
SELECT count(*) FROM llm_rerank(NULL, '{a}');
SELECT count(*) FROM llm_rerank('a', NULL);
SELECT count(*) FROM llm_rerank('a', '{}', truncate => 0);
SELECT fails($$SELECT * FROM llm_rerank('a', '{b}', -1)$$), fails($$SELECT * FROM llm_rerank('a', ARRAY['b', ''])$$), fails($$SELECT * FROM llm_rerank('', '{b}')$$);
SELECT llm_rerank('red fish', ARRAY['blue fish', 'red fish'], 1);
EXPLAIN (COSTS OFF) SELECT * FROM llm_rerank('red fish', ARRAY['blue fish', 'red fish'], 1);
EXPLAIN (COSTS OFF) SELECT q, r.* FROM (VALUES ('red'), ('blue')) v (q), llm_rerank(q, ARRAY['red', 'blue', 'green'], 1) r;
SELECT q, r.* FROM (VALUES ('red'), (NULL), ('blue')) v (q), llm_rerank(q, ARRAY['red', 'blue', 'green'], 1) r;
-- the function's parts are not the caller's schema's
CREATE SCHEMA mine;
CREATE FUNCTION mine.llm_score(query text, document text, use_activation bool DEFAULT NULL, instruction text DEFAULT NULL, truncate int DEFAULT NULL,
    model text DEFAULT NULL, params json DEFAULT NULL, timeout_ms int DEFAULT NULL) RETURNS real LANGUAGE sql AS 'SELECT 42::real';
SET search_path = mine, public;
SELECT relevance_score <> 42 AS ours FROM llm_rerank('red fish', '{fish}');
RESET search_path;
DROP SCHEMA mine CASCADE;

-- ---- the aggregate ----
CREATE TABLE fish (id int, body text, grp text);
INSERT INTO fish VALUES (1, 'blue fish', 'a'), (2, NULL, 'a'), (3, 'red fish', 'a'), (4, 'a cow', 'b'), (5, 'red fish', 'b'), (6, NULL, 'c'), (NULL, 'fish', 'b');
SELECT llm_rerank_agg('red fish', id, body) FROM fish;
SELECT grp, llm_rerank_agg('red fish', id, body, 1) FROM fish GROUP BY grp ORDER BY grp;
SELECT r.* FROM unnest((SELECT llm_rerank_agg(q, 'id ' || id, body, 2, 'tickets-2m') FROM fish, (VALUES ('red fish'), (NULL)) v (q))) r;
SELECT llm_rerank_agg('red fish', id, body, 1) FILTER (WHERE id > 3) AS filtered, llm_rerank_agg('x', id, body) FILTER (WHERE false) AS none FROM fish;
SELECT id, (llm_rerank_agg('red fish', id, body, 1) OVER (ORDER BY id)) AS best FROM fish WHERE id IS NOT NULL;
SELECT llm_rerank_agg('red fish', body, body, id) FROM fish WHERE id = 1;
SELECT fails($$SELECT llm_rerank_agg('q', 1, 'x', -1)$$), fails($$SELECT llm_rerank_agg('q', 1, '')$$), fails($$SELECT llm_rerank_agg('q', 1, 'x', 1, 'no such')$$),
       fails($$SELECT llm_rerank_agg('q', i, 'x', i) FROM generate_series(1, 2) i$$);
SELECT fails($$SELECT llm_rerank_agg('q', id, CASE WHEN id = 3 THEN '@error:53200:third' ELSE 'x' END) FROM fish$$);
-- many rows, many groups, the same as ranking by hand
CREATE TABLE many AS SELECT i AS id, 'text ' || i % 200 || ' fish' AS body, i % 50 AS grp FROM generate_series(1, 4000) i;
SELECT count(*), bool_and(a.best = b.best) FROM
    (SELECT grp, (SELECT array_agg(r.id) FROM unnest(agg) r) AS best FROM (SELECT grp, llm_rerank_agg('text 7 fish', id, body, 3) AS agg FROM many GROUP BY grp) s) a
    JOIN (SELECT grp, array_agg(id::text ORDER BY score DESC, id::text COLLATE "C") FILTER (WHERE at <= 3) AS best
          FROM (SELECT *, row_number() OVER (PARTITION BY grp ORDER BY score DESC, id::text COLLATE "C") AS at FROM (SELECT *, llm_score('text 7 fish', body) AS score FROM many) x) y GROUP BY grp) b
    USING (grp);
SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
ANALYZE many;
EXPLAIN (COSTS OFF) SELECT llm_rerank_agg('text 7 fish', id, body, 3) FROM many;
SELECT llm_rerank_agg('text 7 fish', id, body, 3) FROM many;
SELECT array_length(llm_rerank_agg('text 7 fish', id, body), 1) FROM many;
-- what workers hand over is not the client's: its encoding doesn't matter
CREATE TABLE cafes AS SELECT i AS id, 'caf' || chr(233) || ' ' || i AS body FROM generate_series(1, 500) i;
ANALYZE cafes;
SET parallel_leader_participation = off; SET client_encoding = 'LATIN1';
SELECT r.id, r.document = 'caf' || chr(233) || ' ' || r.id AS same FROM unnest((SELECT llm_rerank_agg('caf' || chr(233) || ' 7', id, body, 2) FROM cafes)) r;
RESET client_encoding; RESET parallel_leader_participation;
DROP TABLE cafes;
RESET max_parallel_workers_per_gather; RESET parallel_setup_cost; RESET parallel_tuple_cost; RESET min_parallel_table_scan_size;
SELECT llm_rerank_agg('text 7 fish', id, body, 3) FROM many;
DROP TABLE fish, many;
SELECT left_behind();

-- ---- privileges: of the model, in all of them ----
CREATE ROLE scorer;
SELECT llm_revoke('tickets-2m', 'public');
SET ROLE scorer;
SELECT f, fails('SELECT ' || f) AS fails FROM unnest(ARRAY['llm_embed(''x'')', 'llm_embed_batch(''{x}'')', 'llm_score(''q'', ''x'')', 'llm_score_batch(''q'', ''{x}'')', 'llm_rerank(''q'', ''{x}'')',
    'llm_rerank_agg(''q'', 1, ''x'')', 'llm_class(''x'')', 'llm_classify(''x'')', 'llm_token_classify(''x'')', 'llm_submit_embed(''x'')']) f;
RESET ROLE;
SELECT llm_grant('tickets-2m', 'public');
DROP ROLE scorer;
