-- 32_embeds.sql: prompts that are embeddings
\set VERBOSITY terse
CREATE FUNCTION pg_temp.error_of(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE m text; d text; h text;
BEGIN
    EXECUTE query;
    RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS m = MESSAGE_TEXT, d = PG_EXCEPTION_DETAIL, h = PG_EXCEPTION_HINT;
    RETURN concat_ws(' | ', SQLSTATE, m, nullif(d, ''), nullif(h, ''));
END $$;

-- off by default
SELECT pg_temp.error_of($$SELECT llm_embeds_generate('{{104,0,0,0}}')$$);
SELECT pg_temp.error_of($$SELECT llm_embeds_output('{{104,0,0,0}}')$$);
SELECT pg_temp.error_of($$SELECT llm_token_embeddings('hi')$$);
CREATE ROLE regress_embeds;
SET ROLE regress_embeds;
SET vllm.enable_prompt_embeds = on;
RESET ROLE;
SET vllm.enable_prompt_embeds = on;

-- a token's row, and back
SELECT llm_token_embeddings('hi'), llm_token_embeddings(''), llm_token_embeddings(NULL) IS NULL AS nothing;
SELECT llm_embeds_generate(llm_token_embeddings('hello big world')),
    llm_embeds_generate(llm_token_embeddings('hello big world'), max_tokens => 2),
    llm_embeds_generate('{104,0,0,0,105,0,0,0}') AS side_by_side, llm_embeds_generate(NULL) IS NULL AS nothing;
SELECT llm_embeds_generate(llm_token_embeddings('hello big world'), temperature => 0.5, seed => 7, stop => '{WORLD}');
SELECT llm_embeds_generate(llm_token_embeddings('one two three'), truncate => 3, params => '{"truncation_side": "right"}'),
    llm_embeds_generate(llm_token_embeddings('one two three'), truncate => 5);
SELECT llm_embeds_generate(llm_token_embeddings('say it'), regex => '[a-c]{3}');
-- the whole: nothing is known of the prompt's tokens
SELECT o.prompt, o.prompt_token_ids, o.prompt_logprobs, cardinality(o.completions) AS n, (o.completions[2]).text, o.usage
FROM llm_embeds_output(llm_token_embeddings('a b'), n => 2, temperature => 1, seed => 3, logprobs => 1) AS o;
-- rows of a table go through the batch node
CREATE TEMP TABLE vectors AS SELECT id, llm_token_embeddings('word ' || id) AS v FROM generate_series(1, 3) id;
EXPLAIN (COSTS OFF) SELECT id, llm_embeds_generate(v) FROM vectors;
SELECT id, llm_embeds_generate(v), (llm_embeds_output(v)).usage FROM vectors ORDER BY id;

-- wrong
SELECT pg_temp.error_of('SELECT llm_embeds_generate(' || v || ')') FROM (VALUES
    ($$'{}'$$), ($$'{{1,2,3}}'$$), ($$'{1,2,3}'$$), ($$'{{1,2,3,4,5,6,7,8}}'$$), ($$'{{{104,0,0,0}}}'$$),
    ($$'{{104,0,0,NULL}}'$$), ($$'{{104,0,0,0},{105,0,NaN,0}}'$$), ($$'{{104,-Infinity,0,0}}'$$),
    ($$'{{104,0,0,0}}', prompt_logprobs => 1$$), ($$'{{104,0,0,0}}', params => '{"prompt_logprobs": 1}'$$),
    ($$'{{104,0,0,0}}', params => '{"n": 2}'$$), ($$'{{104,0,0,0}}', temperature => -1$$), ($$'{{104,0,0,0}}', model => 'no such'$$)) AS x (v);
SELECT pg_temp.error_of($$SELECT llm_embeds_output('{{104,0,0,0}}', params => '{"prompt_logprobs": 1}')$$);
SELECT regexp_replace(pg_temp.error_of($$SELECT llm_embeds_generate(array_fill(0::real, ARRAY[6000000, 4]))$$), '96000\d+', '96000...');
SELECT llm_generate('still here');
RESET vllm.enable_prompt_embeds;
DROP ROLE regress_embeds;

-- in a body: a tensor as torch.save() writes it (tests/unit/server/api/test_api.c has good ones)
SELECT v1_completions('{"prompt_embeds": "YWJj"}');
SET vllm.enable_prompt_embeds = on;
SELECT v1_completions('{"prompt_embeds": "YWJj"}');
RESET vllm.enable_prompt_embeds;
