-- embeddings pinned to a model's digest: in generated columns and in expressions of indexes
\pset format unaligned
SELECT llm_create_model('here', '/fake/embed'), llm_create_model('there', '/fake/ready'), llm_create_model('same', '/fake/embed');
SELECT llm_model_digest('here') AS d \gset
SELECT :'d' ~ '^[0-9a-f]{64}$' AS hex, llm_model_digest('here') = :'d' AS again, llm_model_digest('same') = :'d' AS "same files", llm_model_digest('there') = :'d' AS other,
       llm_model_digest() = llm_model_digest('tickets-2m') AS "the default";
SELECT provolatile FROM pg_proc WHERE proname = 'llm_embed_pinned';
-- it is what llm_embed gives
SELECT llm_embed_pinned('x', :'d', 'here') = llm_embed('x', model => 'here') AS same, llm_embed_pinned('x', :'d', 'here', 4) = llm_embed('x', 4, model => 'here') AS dimensions,
       llm_embed_pinned('x', :'d', 'same') = llm_embed('x', model => 'here') AS "of whatever name", llm_embed_pinned(NULL, :'d', 'here') IS NULL AS nothing, llm_embed_pinned(NULL, 'bad') IS NULL AS "nothing is looked at";
-- a generated column
CREATE TABLE p (id int PRIMARY KEY, body text);
SELECT format('ALTER TABLE p ADD v real[] GENERATED ALWAYS AS (llm_embed_pinned(body, %L, ''here'')) STORED', :'d') \gexec
INSERT INTO p SELECT i, CASE WHEN i < 4 THEN 'text ' || i END FROM generate_series(1, 4) i;
SELECT id, v = llm_embed(body, model => 'here') AS same FROM p ORDER BY id;
UPDATE p SET body = 'other' WHERE id = 2;
SELECT v = llm_embed('other', model => 'here') AS same FROM p WHERE id = 2;
-- an index, and queries that use it
CREATE TABLE q AS SELECT i AS id, 'text ' || i AS body FROM generate_series(1, 200) i;
SELECT format('CREATE UNIQUE INDEX q_v ON q ((llm_embed_pinned(body, %L, ''here'')))', :'d') \gexec
SET enable_seqscan = off;
SELECT id FROM q WHERE llm_embed_pinned(body, :'d', 'here') = llm_embed_pinned('text 17', :'d', 'here');
PREPARE one (text) AS SELECT id FROM q WHERE llm_embed_pinned(body, :'d', 'here') = llm_embed_pinned($1, :'d', 'here');
SET plan_cache_mode = force_generic_plan;
EXECUTE one('text 3');
EXECUTE one('text 4');
RESET plan_cache_mode;
INSERT INTO q VALUES (201, 'text 17');
RESET enable_seqscan;
-- calls of many rows are batched
SET vllm.batch_window = 8;
EXPLAIN (COSTS OFF) SELECT llm_embed_pinned(body, repeat('0', 64), 'here') FROM q WHERE id < 9;
RESET vllm.batch_window;
SELECT count(*) FROM (SELECT llm_embed_pinned(body, :'d', 'here') AS v FROM q OFFSET 0) s WHERE v IS NOT NULL;
-- another model
\set SHOW_CONTEXT never
SELECT regexp_replace(llm_model_digest('there'), '.', 'x', 'g');
DO $$ DECLARE m text; d text; h text; BEGIN
	PERFORM llm_embed_pinned('x', repeat('0', 64), 'here');
EXCEPTION WHEN object_not_in_prerequisite_state THEN
	GET STACKED DIAGNOSTICS m = MESSAGE_TEXT, d = PG_EXCEPTION_DETAIL, h = PG_EXCEPTION_HINT;
	RAISE NOTICE '% | % | %', m, d = format('The pinned digest is %s, the model''s digest is %s.', repeat('0', 64), llm_model_digest('here')), h;
END $$;
-- no setting makes NULL of it, and none another model: the index would lack the row
SET vllm.on_error = 'null';
DO $$ BEGIN PERFORM llm_embed_pinned(body, repeat('0', 64), 'here') FROM q; EXCEPTION WHEN object_not_in_prerequisite_state THEN RAISE NOTICE 'an error'; END $$;
INSERT INTO p VALUES (5, '@error:58000:gone');
INSERT INTO p VALUES (6, '');
RESET vllm.on_error;
SET vllm.embedding_model = 'there';
DO $$ BEGIN PERFORM llm_embed_pinned('x', llm_model_digest('here')); EXCEPTION WHEN object_not_in_prerequisite_state THEN RAISE NOTICE 'an error'; END $$;
SET vllm.embedding_model = 'same';
SELECT llm_embed_pinned('x', :'d') = llm_embed('x', model => 'here') AS same;
RESET vllm.embedding_model;
SET vllm.default_params = '{"truncate": 1}';
SELECT llm_embed_pinned('a longer text', :'d', 'here') = llm_embed('a longer text', model => 'here') AS same;
RESET vllm.default_params;
-- the model is another one, in its place: what is kept stays, what comes is refused
SELECT llm_drop_model('here'), llm_create_model('here', '/fake/ready');
INSERT INTO p VALUES (7, 'text');
\set VERBOSITY sqlstate
INSERT INTO p VALUES (7, 'text');
REINDEX INDEX q_v;
SELECT llm_drop_model('here');
INSERT INTO p VALUES (7, 'text');
\set VERBOSITY default
SELECT llm_create_model('here', '/fake/embed');
INSERT INTO p VALUES (7, 'text');
REINDEX INDEX q_v;
SELECT count(*) FROM p WHERE v = llm_embed(body, model => 'here');
-- bad digests
SELECT llm_embed_pinned('x', NULL, 'here');
SELECT llm_embed_pinned('x', '', 'here');
SELECT llm_embed_pinned('x', upper(:'d'), 'here');
SELECT llm_embed_pinned('x', 'x''; DROP TABLE p; --', 'here');
SELECT llm_embed_pinned('x', repeat('0', 100000), 'here') IS NULL;
-- who has none
SELECT llm_create_model('far', provider => 'openai', url => 'https://llm.example.com/v1');
SELECT llm_model_digest('far');
SELECT llm_embed_pinned('x', :'d', 'far');
SELECT llm_create_lora('tuned', 'here', '/fake/adapters/tuned');
SELECT llm_model_digest('tuned');
SELECT llm_embed_pinned('x', :'d', 'tuned');
SELECT llm_model_digest('nobody');
-- of whom may not use the model
CREATE ROLE pinner;
SET ROLE pinner;
SELECT llm_model_digest('here');
SELECT llm_embed_pinned('x', repeat('0', 64), 'here');
RESET ROLE;
DROP ROLE pinner;
-- a fallback is never asked
SELECT llm_create_model('lame', '/fake/lame', options => '{"fallback": "same"}');
SELECT llm_model_digest('lame') AS lame \gset
SELECT llm_embed_pinned('@error:58000:gone', :'lame', 'lame');
DROP TABLE p, q;
SELECT llm_drop_lora('tuned'), llm_drop_model('lame'), llm_drop_model('far'), llm_drop_model('here'), llm_drop_model('there'), llm_drop_model('same');
