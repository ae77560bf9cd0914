-- NULL instead of a request's error, for who asks for it
\pset format unaligned
CREATE TABLE f AS SELECT i, CASE WHEN i % 4 = 0 THEN '@error:58000:gone ' || i ELSE 'ok ' || i END AS p FROM generate_series(1, 12) i;
-- the default: an error is one, of its row
SELECT i, llm_generate(p) FROM f WHERE i < 6;
-- alone, in the call or by the setting
SELECT llm_generate('@error:58000:gone', params => '{"on_error": "null"}') IS NULL AS gone;
SELECT llm_embed('@error:58000:gone', params => '{"on_error": "null"}') IS NULL AS gone;
SET vllm.on_error = 'null';
-- which of two is the last depends on which answer comes first
\set VERBOSITY terse
SELECT llm_generate('@error:58000:gone') IS NULL AS gone, llm_generate('@error:53300:full') IS NULL AS full;
\set VERBOSITY default
SELECT llm_generate('@error:58000:gone', params => '{"on_error": "error"}');
-- the batch node, and the same without it
SELECT i, llm_generate(p) IS NULL AS failed FROM f ORDER BY i;
SELECT count(*), count(llm_generate(p)) FROM f;
SET vllm.batch = off;
SELECT i, llm_generate(p) IS NULL AS failed FROM f ORDER BY i;
RESET vllm.batch;
-- where a result is used before its row is there
SELECT i FROM f WHERE llm_generate(p) IS NULL ORDER BY i;
SELECT i, llm_generate(llm_generate(p)) IS NULL AS failed FROM f WHERE i < 5 ORDER BY i;
-- a set
SELECT g IS NULL AS failed FROM llm_generate_batch(ARRAY['a', '@error:58000:b', 'c']) g;
-- too slow is a failure, of its row alone
SELECT llm_generate('@delay:2000', timeout_ms => 50) IS NULL AS slow;
SELECT i, llm_generate(CASE WHEN i = 2 THEN '@delay:3000' ELSE 'x' END, timeout_ms => 200) IS NULL AS slow FROM generate_series(1, 3) i;
-- what was asked for wrongly stays an error, and what the client itself has ended
SELECT llm_generate('x', max_tokens => 0);
SELECT llm_generate('x', model => 'nobody');
SELECT llm_generate('@error:22023:wrong');
SELECT llm_generate('@error:0A000:never');
SELECT llm_generate('@error:42501:no');
SET statement_timeout = '100ms';
SELECT llm_generate('@delay:5000');
RESET statement_timeout;
-- how many may fail
SET vllm.max_error_ratio = 0.2;
SELECT count(llm_generate(p)) FROM f;
CREATE TABLE g AS SELECT i, CASE WHEN i <= 6 THEN '@error:58000:gone ' || i ELSE 'ok ' || i END AS p FROM generate_series(1, 40) i;
SELECT count(llm_generate(p)) FROM g;
SET vllm.batch = off;
SELECT count(llm_generate(p)) FROM g;
SET vllm.max_error_ratio = 0.3;
SELECT count(llm_generate(p)) FROM g;
RESET vllm.batch;
SELECT count(llm_generate(p)) FROM g;
SET vllm.max_error_ratio = 0;
SELECT count(llm_generate(p)) FROM g;
RESET vllm.max_error_ratio;
-- in a block there is a WARNING, too
DO $$ DECLARE t text; BEGIN t := llm_generate('@error:58000:gone'); RAISE NOTICE 'null: %', t IS NULL; END $$;
-- EXPLAIN counts
SET vllm.batch_window = 1;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) SELECT llm_generate(p) FROM f;
RESET vllm.batch_window;
-- a stream can't take back what it has sent
SELECT * FROM llm_generate_stream('x', params => '{"on_error": "null"}');
SELECT llm_generate('x', params => '{"on_error": "ignore"}');
SET vllm.on_error = 'ignore';
RESET vllm.on_error;
DROP TABLE f, g;

-- a row whose input is nothing, or too much, is one that could not be answered
CREATE TABLE e AS SELECT i, CASE i WHEN 2 THEN '' WHEN 4 THEN repeat('x', 20) ELSE 'ok ' || i END AS p FROM generate_series(1, 5) i;
SELECT llm_generate(p) FROM e;
SELECT llm_embed(p) IS NULL FROM e;
SELECT i, llm_embed(p, 2, params => '{"on_error": "null"}') IS NULL AS embed, llm_similarity(p, 'x', params => '{"on_error": "null"}') IS NULL AS similarity,
       llm_score('x', p, params => '{"on_error": "null"}') IS NULL AS score, llm_class(p, params => '{"on_error": "null"}') IS NULL AS class,
       llm_generate(p, 1, params => '{"on_error": "null"}') IS NULL AS generate FROM e ORDER BY i;
SET vllm.on_error = 'null';
-- which of a row's errors is the last to arrive differs
SET client_min_messages = error;
SELECT i, llm_generate(p, 1) IS NULL AS generate, llm_embed(p) IS NULL AS embed, llm_similarity('x', p) IS NULL AS similarity, llm_ask(p, max_tokens => 1) IS NULL AS ask FROM e ORDER BY i;
RESET client_min_messages;
SET vllm.batch = off;
SELECT i, llm_generate(p, 1) IS NULL AS generate, llm_embed(p) IS NULL AS embed, llm_similarity('x', p) IS NULL AS similarity, llm_ask(p, max_tokens => 1) IS NULL AS ask FROM e ORDER BY i;
RESET vllm.batch;
SELECT e IS NULL AS failed FROM llm_embed_batch(ARRAY['a', '', 'c']) e;
SELECT i FROM e WHERE llm_embed(p, 2) IS NULL;
SELECT llm_generate('{}'::int[]) IS NULL AS no_ids;
SELECT llm_generate('{1,NULL}'::int[]) IS NULL AS null_id;
-- functions without params have an argument
RESET vllm.on_error;
SELECT llm_choose('@error:58000:gone', '{a,b}', on_error => 'null') IS NULL AS choose, llm_filter('x', '@error:58000:gone', on_error => 'null') IS NULL AS filter,
       llm_filter_prob('x', '@error:58000:gone', on_error => 'null') IS NULL AS prob, llm_perplexity('@error:58000:gone', on_error => 'null') IS NULL AS perplexity,
       llm_classify('@error:58000:gone', '{a,b}', on_error => 'null') IS NULL AS classify;
SELECT i, llm_filter('x', CASE i WHEN 2 THEN '@error:58000:gone' ELSE 'y' END, on_error => 'null') IS NULL AS failed FROM generate_series(1, 3) i ORDER BY i;
SELECT llm_choose('@error:58000:gone', '{a,b}', on_error => 'error');
SELECT llm_choose('x', '{a,b}', on_error => 'ignore');
SET vllm.on_error = 'null';
-- options are not a row's
SELECT i, llm_embed(p, 0) FROM e;
SELECT i, llm_embed(p, i - 2) IS NULL FROM e WHERE i = 2;
SELECT llm_embed('', model => 'nobody');
RESET vllm.on_error;
DROP TABLE e;
