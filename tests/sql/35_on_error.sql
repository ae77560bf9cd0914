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

-- an argument of all that answer row by row, whatever their options
CREATE FUNCTION pg_temp.on_errors() RETURNS TABLE (f text, lacks text) LANGUAGE sql AS $$
SELECT p.proname, CASE WHEN NOT coalesce(p.proargnames @> '{on_error}', false) THEN 'lacks' END
FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'vllm_pg'
WHERE p.proargnames @> '{lora}' AND p.prokind = 'f' $$;
SELECT count(*) - count(lacks) > 40 AS many, string_agg(f, ', ' ORDER BY f) FILTER (WHERE lacks IS NOT NULL) AS lack FROM pg_temp.on_errors();
SELECT llm_generate(x, on_error => 'null') IS NULL AS generate, llm_generate_full(x, on_error => 'null') IS NULL AS "full", llm_ask(x, on_error => 'null') IS NULL AS ask,
       llm_chat('[{"role": "user", "content": "@error:58000:gone"}]', on_error => 'null') IS NULL AS chat, llm_chat_text('[{"role": "user", "content": "@error:58000:gone"}]', on_error => 'null') IS NULL AS chat_text,
       llm_chat_run('[{"role": "user", "content": "@error:58000:gone"}]', '{}', on_error => 'null') IS NULL AS run,
       llm_output(x, on_error => 'null') IS NULL AS output, llm_beams(x, 2, on_error => 'null') IS NULL AS beams,
       (SELECT count(*) FROM llm_completions(x, on_error => 'null')) AS completions, (SELECT count(*) FROM llm_beam_search(x, 2, on_error => 'null')) AS beam_search,
       (SELECT count(*) FROM llm_chat_batch(ARRAY['[{"role": "user", "content": "@error:58000:gone"}]']::json[], on_error => 'null')) AS chats,
       llm_result(llm_submit(x, on_error => 'null')) IS NULL AS future
FROM (VALUES ('@error:58000:gone')) v (x);
SELECT llm_embed(x, on_error => 'null') IS NULL AS embed, llm_embed_multi(x, on_error => 'null') IS NULL AS multi, llm_embed_bytes(x, on_error => 'null') IS NULL AS bytes,
       llm_encode(x, 'embed', on_error => 'null') IS NULL AS encode, llm_similarity(x, 'y', on_error => 'null') IS NULL AS similarity, llm_score('q', x, on_error => 'null') IS NULL AS score,
       llm_class(x, on_error => 'null') IS NULL AS class, llm_classify_probs(x, on_error => 'null') IS NULL AS probs, (SELECT count(*) FROM llm_classify(x, on_error => 'null')) AS classify,
       (SELECT count(*) FROM llm_token_classify(x, on_error => 'null')) AS tokens, llm_reward(x, on_error => 'null') IS NULL AS reward, llm_reward_tokens(x, on_error => 'null') IS NULL AS rewards,
       llm_reward_steps(x, 1, on_error => 'null') IS NULL AS steps, (SELECT count(*) FROM llm_choice_probs(x, '{a,b}', on_error => 'null')) AS choices,
       (SELECT logprob IS NULL FROM llm_loglikelihood(x, 'y', on_error => 'null')) AS likelihood, llm_result_embedding(llm_submit_embed(x, on_error => 'null')) IS NULL AS future
FROM (VALUES ('@error:58000:gone')) v (x);
-- arrays have NULLs in their places, and what there is no score of comes last
SELECT g FROM llm_generate_batch(ARRAY['a', '@error:58000:gone', 'c'], on_error => 'null') g;
SELECT output FROM llm_generate_query('SELECT unnest(ARRAY[''a'', ''@error:58000:gone'', ''c'']) AS p', 'p', on_error => 'null');
SELECT v IS NULL AS failed FROM llm_embed_batch(ARRAY['a', '@error:58000:gone', ''], on_error => 'null') v;
SELECT array_position(llm_score_batch('a', ARRAY['a', '@error:58000:gone', 'c'], on_error => 'null'), NULL) AS batch, array_position(llm_score_pairs(ARRAY['a', 'b'], ARRAY['a', ''], on_error => 'null'), NULL) AS pairs;
SELECT document, relevance_score IS NULL AS failed FROM llm_rerank('a', ARRAY['@error:58000:gone', 'a'], on_error => 'null');
-- the argument goes before params, those before the setting; of a row's own value, too
SELECT llm_generate('@error:58000:gone', on_error => 'null', params => '{"on_error": "error"}') IS NULL AS generate, llm_embed('@error:58000:gone', on_error => 'null', params => '{"on_error": "error"}') IS NULL AS embed;
SET vllm.on_error = 'null';
SELECT llm_embed('@error:58000:gone', on_error => 'error');
SELECT llm_score_batch('a', ARRAY['@error:58000:gone'], on_error => 'error');
-- a whole of parts is NULL if one of them is missing; what was asked for wrongly stays an error there, too
RESET vllm.on_error;
SELECT llm_create_model('short', '/fake/ready', options => '{"max_model_len": 400}');
CREATE FUNCTION pg_temp.parts(bad text) RETURNS text[] LANGUAGE sql RETURN (SELECT array_agg(repeat(i || ' ', 30) || CASE i WHEN 4 THEN bad ELSE '' END) FROM generate_series(1, 9) i);
SELECT llm_reduce(pg_temp.parts(''), 'sum up', max_tokens => 20, model => 'short', on_error => 'null') IS NULL AS good;
-- the fake's message goes on to the end of the prompt
\set VERBOSITY sqlstate
SELECT llm_reduce(pg_temp.parts('@error:58000:gone'), 'sum up', max_tokens => 20, model => 'short', on_error => 'null') IS NULL AS failed;
SELECT llm_reduce(pg_temp.parts('@error:58000:gone'), 'sum up', max_tokens => 20, model => 'short');
SELECT llm_reduce(pg_temp.parts('@error:42501:no'), 'sum up', max_tokens => 20, model => 'short', on_error => 'null');
SELECT llm_reduce(pg_temp.parts('@error:42501:no'), 'sum up', max_tokens => 20, model => 'short', on_error => 'null') FROM generate_series(1, 2);
SELECT llm_reduce(ARRAY[repeat('x', 900)], 'sum up', max_tokens => 20, model => 'short', on_error => 'null') IS NULL AS too_long;
SELECT llm_agg(t, 'sum up', '{"max_tokens": 20, "model": "short", "on_error": "null"}') IS NULL AS failed FROM unnest(pg_temp.parts('@error:58000:gone')) t;
\set VERBOSITY default
SELECT llm_drop_model('short');
SET vllm.on_error = 'null';
-- a ranking takes no NULLs, and says so by the error
SELECT llm_rerank_agg('a', 1, '@error:58000:gone');
RESET vllm.on_error;
SELECT i, llm_embed(CASE i WHEN 2 THEN '@error:58000:gone' ELSE 'x' END, on_error => CASE WHEN i < 3 THEN 'null' END) IS NULL AS failed FROM generate_series(1, 3) i;
SELECT i, llm_embed('@error:58000:gone', on_error => CASE WHEN i < 2 THEN 'null' END) IS NULL AS failed FROM generate_series(1, 2) i;
SELECT llm_embed('x', on_error => 'ignore');
SELECT llm_similarity('x', 'y', on_error => '');
SELECT llm_embed(NULL, on_error => 'ignore') IS NULL AS nothing;
EXPLAIN (COSTS OFF, VERBOSE) SELECT llm_embed(p, on_error => 'null'), llm_generate(p, on_error => 'null') FROM e;
DROP TABLE e;

-- an input that is refused with the SQLSTATE of wrong options is still one of its row
CREATE FUNCTION pg_temp.say(content text) RETURNS json LANGUAGE sql RETURN json_build_array(json_build_object('role', 'user', 'content', content));
CREATE TABLE m (i int, why text, m json);
INSERT INTO m VALUES (1, 'good', pg_temp.say('x')), (2, 'no messages', '[]'), (3, 'no array', '{"role": "user"}'), (4, 'no objects', '[1]'), (5, 'no role', '[{"content": "x"}]'),
    (6, 'an image', '[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]'), (7, 'malformed arguments', '[{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}]'),
    (8, 'refused by the template', pg_temp.say('refuse')), (9, 'good', pg_temp.say('y'));
\set template '{% for m in messages %}{% if m.content == "refuse" %}{{ raise_exception("not so") }}{% endif %}{{ m.content }}{% endfor %}'
SET client_min_messages = error;
SELECT i, why, llm_chat(m, chat_template => :'template', on_error => 'null') IS NULL AS chat, llm_chat_text(m, chat_template => :'template', on_error => 'null') IS NULL AS text,
       llm_chat_full(m, chat_template => :'template', on_error => 'null') IS NULL AS "full", llm_chat_run(m, '{}', chat_template => :'template', on_error => 'null') IS NULL AS run,
       llm_result(llm_submit_chat(m, chat_template => :'template', on_error => 'null')) IS NULL AS future
FROM m ORDER BY i;
SET vllm.batch = off;
SELECT i FROM m WHERE llm_chat(m, chat_template => :'template', on_error => 'null') IS NULL ORDER BY i;
RESET vllm.batch;
SELECT count(*) FROM llm_chat_batch((SELECT array_agg(m ORDER BY i) FROM m), chat_template => :'template', on_error => 'null');
-- token ids that the model doesn't have, and futures of inputs that are refused before they are sent
SELECT llm_generate('{999}'::int[], on_error => 'null') IS NULL AS ids, llm_generate('{1,NULL}'::int[], on_error => 'null') IS NULL AS no_id, llm_output('{-1}'::int[], on_error => 'null') IS NULL AS output,
       llm_result(llm_submit('', on_error => 'null')) IS NULL AS empty, llm_result(llm_submit('{1,NULL}'::int[], on_error => 'null')) IS NULL AS future, llm_result_embedding(llm_submit_embed('', on_error => 'null')) IS NULL AS embedding;
SET vllm.enable_prompt_embeds = on;
SELECT llm_embeds_generate(e, on_error => 'null') IS NULL AS failed FROM (VALUES (1, '{104,0,0,0}'::real[]), (2, '{104,0,0,NaN}'), (3, '{1,2}'), (4, '{}'), (5, '{NULL,1,1,1}')) v (i, e) ORDER BY i;
RESET vllm.enable_prompt_embeds;
RESET client_min_messages;
SELECT llm_submit_embed('');
-- what is wrong in the call stays an error: of these each is one for every row
SELECT fails(format('SELECT llm_chat(m, %s, on_error => ''null'') FROM m WHERE i = 1', a)) FROM unnest('{"chat_template => ''{% if %}''","chat_template => ''{% include \"x\" %}''","tools => ''{}''","documents => ''{}''","chat_template_kwargs => ''[]''",
    "add_generation_prompt => true, continue_final_message => true","continue_final_message => true, chat_template => ''x''","tool_choice => ''\"auto\"''"}'::text[]) a;
DROP TABLE m;
-- texts that can't be sent
CREATE DATABASE regress_vllm_ascii ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C';
\set this :DBNAME
\c regress_vllm_ascii
SET client_min_messages = error;
CREATE EXTENSION vllm_pg;
SELECT llm_generate(p) FROM (VALUES ('fine'), (E'invalid \377')) v (p);
SELECT llm_generate(p, on_error => 'null') FROM (VALUES ('fine'), (E'invalid \377')) v (p);
SELECT llm_generate(E'invalid \377', on_error => 'null') IS NULL AS generate, llm_embed(E'invalid \377', on_error => 'null') IS NULL AS embed, llm_result(llm_submit(E'invalid \377', on_error => 'null')) IS NULL AS future;
SELECT llm_embed_batch(ARRAY['a', E'invalid \377'], on_error => 'null') IS NULL AS failed;
\c :this
DROP DATABASE regress_vllm_ascii;
