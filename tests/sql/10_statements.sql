-- The functions in statements of every kind.
SET client_min_messages = warning;
CREATE TABLE docs (id int PRIMARY KEY, body text, answer text);
INSERT INTO docs SELECT i, 'doc ' || i FROM generate_series(1, 200) i;
ANALYZE docs;

-- EXPLAIN and PREPARE don't call
SELECT vllm.control('log-clear');
EXPLAIN (COSTS off) SELECT llm_generate(body) FROM docs;
EXPLAIN (COSTS off) SELECT llm_generate('constant');
PREPARE q (int) AS SELECT llm_generate(body) FROM docs WHERE id = $1;
SELECT count(*) FROM request_log();
EXECUTE q(1);
EXECUTE q(2);
SET plan_cache_mode = force_generic_plan;
EXECUTE q(3);
RESET plan_cache_mode;
SELECT count(*) FROM request_log();
DEALLOCATE q;
-- the planner knows what a call costs
CREATE FUNCTION plan_rows(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE j json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO j;
    RETURN (j -> 0 -> 'Plan' ->> 'Plan Rows')::float8;
END $$;
CREATE FUNCTION plan_cost(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE j json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO j;
    RETURN (j -> 0 -> 'Plan' ->> 'Total Cost')::float8;
END $$;
SELECT plan_cost('SELECT llm_generate(body, max_tokens => 1000) FROM docs') > 5 * plan_cost('SELECT llm_generate(body, max_tokens => 100) FROM docs') AS dearer,
       plan_cost('SELECT llm_ask(body, max_tokens => 1000) FROM docs') > 5 * plan_cost('SELECT llm_ask(body, max_tokens => 100) FROM docs') AS ask_dearer,
       plan_rows('SELECT llm_generate_stream(''x'', max_tokens => 17)') AS stream_rows;
-- a cheap condition comes first
SELECT vllm.control('log-clear');
SELECT id FROM docs WHERE llm_generate(body) LIKE '%7' AND id <= 10;
SELECT count(*) FROM request_log();
-- ORDER BY ... LIMIT calls for the rows it returns
SELECT vllm.control('log-clear');
SELECT id, llm_generate(body) FROM docs ORDER BY id DESC LIMIT 3;
SELECT count(*) FROM request_log();
-- a sub-select used twice calls once a row
SELECT vllm.control('log-clear');
SELECT count(*) FROM (SELECT llm_generate(body) AS a FROM docs WHERE id <= 10) s WHERE a <> 'x' AND a LIKE 'DOC%';
SELECT count(*) FROM request_log();

-- DML
UPDATE docs SET answer = llm_generate(body) WHERE id <= 3 RETURNING id, answer;
INSERT INTO docs (id, body, answer) VALUES (1001, 'v', llm_generate('values')) ON CONFLICT (id) DO NOTHING RETURNING answer;
INSERT INTO docs (id, body) VALUES (1, 'again') ON CONFLICT (id) DO UPDATE SET answer = llm_generate(EXCLUDED.body) RETURNING answer;
DELETE FROM docs WHERE id = 1001 RETURNING llm_generate(body);
CREATE TABLE copied AS SELECT id, llm_generate(body) AS a FROM docs WHERE id <= 5;
SELECT * FROM copied ORDER BY id;
COPY (SELECT id, llm_generate(body) FROM docs WHERE id <= 2 ORDER BY id) TO STDOUT;
-- a generated default, a check, a trigger
CREATE TABLE checked (t text CHECK (llm_generate(t) LIKE 'GOOD%'));
INSERT INTO checked VALUES ('good text');
INSERT INTO checked VALUES ('bad text');
CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.answer := llm_generate(NEW.body);
    RETURN NEW;
END $$;
CREATE TRIGGER fill BEFORE INSERT ON docs FOR EACH ROW EXECUTE FUNCTION fill();
INSERT INTO docs (id, body) VALUES (2001, 'from a trigger') RETURNING answer;
DROP TRIGGER fill ON docs;
-- an index on an answer is refused: the function is volatile
CREATE INDEX ON docs (llm_generate(body));

-- PL/pgSQL, SQL functions, lateral joins, set operations, aggregates, windows
DO $$
DECLARE r record; t text := '';
BEGIN
    FOR r IN SELECT id, llm_generate(body) AS a FROM docs WHERE id <= 3 ORDER BY id LOOP
        t := t || r.a || llm_generate(' and more') || ';';
    END LOOP;
    RAISE WARNING '%', t;
END $$;
CREATE FUNCTION shout(t text) RETURNS text LANGUAGE sql AS $$SELECT llm_generate(t) || '!'$$;
SELECT shout(body) FROM docs WHERE id <= 2 ORDER BY id;
SELECT d.id, l.a FROM docs d, LATERAL (SELECT llm_generate(d.body) AS a) l WHERE d.id <= 2 ORDER BY 1;
SELECT d.id, (SELECT llm_generate(d.body)) AS a FROM docs d WHERE d.id <= 2 ORDER BY 1;
SELECT llm_generate('u1') UNION ALL SELECT llm_generate('u2') ORDER BY 1;
SELECT string_agg(llm_generate(body), ',' ORDER BY id) FROM docs WHERE id <= 3;
SELECT id, first_value(llm_generate(body)) OVER (ORDER BY id) FROM docs WHERE id <= 2;
WITH m AS MATERIALIZED (SELECT id, llm_generate(body) AS a FROM docs WHERE id <= 3) SELECT a FROM m WHERE id > 1 ORDER BY id;
-- CTEs that read the one before twice: each is looked at once
SET statement_timeout = '10s';
DO $$
DECLARE q text := 'WITH c0 AS MATERIALIZED (SELECT body AS x FROM docs)';
BEGIN
    FOR i IN 1..40 LOOP
        q := q || format(', c%1$s AS MATERIALIZED (SELECT DISTINCT a.x FROM c%2$s a CROSS JOIN c%2$s b)', i, i - 1);
    END LOOP;
    EXECUTE 'EXPLAIN ' || q || ' SELECT llm_generate(x) FROM c40';
END $$;
RESET statement_timeout;

-- parallel query: the scan may be parallel, the calls stay in the leader
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SELECT count(a), min(a), max(a) FROM (SELECT llm_generate(body, max_tokens => 5) AS a FROM docs WHERE id <= 200) s;
EXPLAIN (COSTS off) SELECT llm_generate(body) FROM docs WHERE id % 2 = 0;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET max_parallel_workers_per_gather;

-- a cursor over rows
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, llm_generate(body) FROM docs WHERE id <= 3 ORDER BY id;
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
FETCH LAST FROM c;
COMMIT;
DROP TABLE docs, copied, checked;
DROP FUNCTION fill, shout, plan_rows, plan_cost;
SELECT left_behind();
