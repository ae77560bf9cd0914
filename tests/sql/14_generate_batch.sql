-- llm_generate_batch and llm_generate_query: many prompts in flight, answers in order.
SET client_min_messages = warning;
-- the options are those of llm_generate
SELECT proname, proparallel, provolatile,
       regexp_replace(pg_get_function_arguments(oid), '^.*max_tokens', 'max_tokens') =
       (SELECT regexp_replace(pg_get_function_arguments(oid), '^.*max_tokens', 'max_tokens') FROM pg_proc WHERE proname = 'llm_generate' AND proargtypes[0] = 'text'::regtype) AS same_options
FROM pg_proc WHERE proname IN ('llm_generate_batch', 'llm_generate_query') ORDER BY 1;

-- ---- arrays ----
SELECT n, answer FROM llm_generate_batch(ARRAY['@delay:60 one', 'two', NULL, 'three']) WITH ORDINALITY AS b (answer, n);
SELECT llm_generate_batch(ARRAY['@delay:60 one', 'two', NULL, 'three']);
SELECT n, answer FROM llm_generate_batch('[3:4][0:1]={{a,b},{c,d}}', max_tokens => 1) WITH ORDINALITY AS b (answer, n);
SELECT count(*) FROM llm_generate_batch('{}');
SELECT count(*) FROM llm_generate_batch(NULL);
SELECT count(*), count(b) FROM llm_generate_batch('{NULL,NULL}', temperature => 77) b;
-- more than the ring holds, in order
SELECT count(*), bool_and(b = 'ROW ' || n) FROM llm_generate_batch((SELECT array_agg('row ' || i ORDER BY i) FROM generate_series(1, 3000) i))
    WITH ORDINALITY AS b (b, n);
-- sets side by side and below each other
SELECT llm_generate_batch(ARRAY['a', 'b', 'c']), llm_generate_batch(ARRAY['x', 'y']);
SELECT id, b FROM generate_series(1, 3) id, llm_generate_batch(ARRAY['p' || id, 'q' || id]) b;
SELECT upper(llm_generate_batch(ARRAY(SELECT llm_generate_batch(ARRAY['in', 'out']))));

-- errors have their turn
\set VERBOSITY default
SELECT llm_generate_batch(ARRAY['fine', '@error:54000:second', '@error:58030:third']);
\set VERBOSITY terse
BEGIN;
DECLARE c CURSOR FOR SELECT llm_generate_batch(ARRAY['@delay:60 fine', NULL, '@error:54000:third', 'fourth']);
FETCH 2 FROM c;
FETCH 1 FROM c;
ROLLBACK;
SELECT llm_generate_batch(ARRAY['fine', '@error']) LIMIT 1;
SELECT fails($$SELECT * FROM llm_generate_batch(ARRAY['x'], temperature => 3)$$);
SELECT fails($$SELECT * FROM llm_generate_batch(ARRAY['x'], model => 'nope')$$);
SELECT fails($$SELECT * FROM llm_generate_batch(ARRAY['x', repeat('x', 17000000)])$$);
SELECT fails($$SELECT * FROM llm_generate_batch(ARRAY['x', '@hang'], timeout_ms => 50)$$);

-- what is not wanted is cancelled
SELECT llm_generate_batch(ARRAY['first', '@hang', '@hang']) LIMIT 1;
SELECT left_behind();
BEGIN;
DECLARE c CURSOR FOR SELECT llm_generate_batch(ARRAY['first', '@hang']);
FETCH 1 FROM c;
CLOSE c;
SELECT left_behind();
ROLLBACK;
SET statement_timeout = '100ms';
SELECT llm_generate_batch(ARRAY['first', '@hang', '@hang']);
RESET statement_timeout;
SELECT left_behind();

-- the window, and duplicates of deterministic calls
SELECT count(vllm.control('log-clear'));
SET vllm.batch_window = 2;
SELECT llm_generate_batch(ARRAY['same', 'same', 'other', 'same', 'other'], temperature => 0);
SELECT count(*) FROM request_log() l WHERE l LIKE '%same%' OR l LIKE '%other%';
SELECT count(vllm.control('log-clear'));
SELECT llm_generate_batch(ARRAY['same', 'same']);
SELECT count(*) FROM request_log() l WHERE l LIKE '%same%';
RESET vllm.batch_window;

-- ---- queries ----
CREATE TABLE docs (id int, body text, n name, c char(8), v varchar(8));
INSERT INTO docs SELECT i, 'doc ' || i, 'name ' || i, 'char ' || i, 'v ' || i FROM generate_series(1, 5) i;
INSERT INTO docs VALUES (6);
SELECT * FROM llm_generate_query('SELECT * FROM docs ORDER BY id DESC', 'body');
SELECT q.row ->> 'z' AS z, output FROM llm_generate_query('SELECT id AS z, body AS a FROM docs WHERE id < 3 ORDER BY id;', 'a', max_tokens => 1) q;
SELECT (q).row, (q).output FROM (SELECT llm_generate_query('TABLE docs ORDER BY id', 'c') AS q) s LIMIT 2;
SELECT output FROM llm_generate_query('TABLE docs ORDER BY id', 'n');
SELECT output FROM llm_generate_query('TABLE docs ORDER BY id', 'v');
SELECT count(*) FROM llm_generate_query('SELECT * FROM docs WHERE false', 'body');
SELECT count(*) FROM llm_generate_query(NULL, 'body');
SELECT count(*) FROM llm_generate_query('TABLE docs', NULL);
SELECT count(*), bool_and(output = upper(q.row ->> 'p')), max((q.row ->> 'i')::int)
FROM llm_generate_query('SELECT i, ''p '' || i AS p FROM generate_series(1, 3000) i', 'p') q;
-- statements with rows of their own; the caller's view of the data
SELECT output FROM llm_generate_query('INSERT INTO docs (id, body) VALUES (7, ''seven'') RETURNING *', 'body');
SELECT output FROM llm_generate_query('UPDATE docs SET body = body || ''!'' WHERE id >= 6 RETURNING body', 'body');
SELECT output FROM llm_generate_query('WITH d AS (DELETE FROM docs WHERE id >= 6 RETURNING *) SELECT body FROM d ORDER BY id', 'body');
SELECT count(*) FROM docs;
BEGIN READ ONLY;
SELECT output FROM llm_generate_query('SELECT body FROM docs WHERE id = 1', 'body');
SELECT fails($$SELECT * FROM llm_generate_query('DELETE FROM docs RETURNING body', 'body')$$);
COMMIT;

-- what is not a query, or not a prompt
SELECT q, fails(format('SELECT * FROM llm_generate_query(%L, ''body'')', q)) FROM (VALUES
    (''), ('SELECT'), ('SELECT 1; SELECT 2'), ('DELETE FROM docs'), ('CREATE TABLE x ()'), ('SELECT ''x'' AS body INTO x'), ('selec'),
    ('SELECT 1 AS a, 2 AS b'), ('SELECT 1 AS body'), ('SELECT ''{}''::jsonb AS body'), ('SELECT ''x'' AS body, ''y'' AS body'),
    ('SELECT * FROM nowhere'), ('SELECT (1 / 0)::text AS body')) v (q);
SELECT fails($$SELECT * FROM llm_generate_query('SELECT 1 / 0', 'body', temperature => 3)$$);

-- errors have their turn, cursors don't stay
SELECT fails($$SELECT * FROM llm_generate_query('SELECT CASE id WHEN 3 THEN ''@error:54000:third'' ELSE body END AS body FROM docs ORDER BY id', 'body')$$);
BEGIN;
DECLARE c CURSOR FOR SELECT llm_generate_query('SELECT CASE id WHEN 3 THEN ''@hang'' ELSE body END AS p FROM docs ORDER BY id', 'p');
FETCH 2 FROM c;
SELECT count(*) FROM pg_cursors;
CLOSE c;
SELECT count(*) FROM pg_cursors;
SELECT left_behind();
-- a savepoint that takes our cursor with it
DECLARE c CURSOR FOR SELECT llm_generate_query('SELECT body FROM docs, generate_series(1, 3000)', 'body');
SAVEPOINT s;
FETCH 1 FROM c;
ROLLBACK TO s;
FETCH ALL FROM c;
ROLLBACK;
SELECT left_behind();
BEGIN;
DECLARE h CURSOR WITH HOLD FOR SELECT llm_generate_query('SELECT body FROM docs ORDER BY id LIMIT 3', 'body');
COMMIT;
FETCH ALL FROM h;
CLOSE h;
SELECT count(*) FROM pg_cursors;

-- a cursor that has taken the name of ours
CREATE FUNCTION swap(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE c name;
BEGIN
    SELECT name INTO c FROM pg_cursors WHERE statement LIKE 'SELECT body%' AND name LIKE '<unnamed%';
    EXECUTE format('CLOSE %I', c);
    EXECUTE format('DECLARE %I CURSOR FOR %s', c, query);
    RETURN true;
EXCEPTION WHEN null_value_not_allowed THEN RETURN false;
END $$;
SELECT q, left(fails(format('SELECT llm_generate_query(''SELECT body, body AS x FROM docs,
    generate_series(1, 999)'', ''body''), swap(%L)', q)), 55) AS error
FROM unnest(ARRAY['SELECT body, 805306368::bigint FROM docs', 'SELECT 805306368::bigint, 1',
    'SELECT body FROM docs']) q;
DROP FUNCTION swap;
SELECT left_behind();

-- permissions are the caller's
CREATE ROLE regress_vllm_batch;
GRANT SELECT (id, body) ON docs TO regress_vllm_batch;
ALTER TABLE docs ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON docs TO regress_vllm_batch USING (id <= 2);
SELECT llm_create_model('bm', '/fake/bm');
SET ROLE regress_vllm_batch;
SELECT output FROM llm_generate_query('SELECT id, body FROM docs ORDER BY id', 'body');
SELECT llm_generate_query('SELECT * FROM docs', 'body');
SELECT llm_generate_query('SELECT id, body FROM docs', 'body', model => 'bm');
SELECT llm_generate_batch(ARRAY['x'], model => 'bm');
RESET ROLE;
SELECT llm_drop_model('bm');
DROP TABLE docs;
DROP ROLE regress_vllm_batch;
SELECT left_behind();
