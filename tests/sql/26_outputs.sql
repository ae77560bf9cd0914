-- 26_outputs.sql: several answers, log-probabilities, beam search
\set VERBOSITY terse

-- answers with the next seeds
SELECT c.index, c.text, c.token_ids, c.finish_reason, c.cumulative_logprob
FROM llm_completions('hello big world', n => 3, temperature => 1, seed => 5) AS c;
-- one answer is one row; a NULL prompt none
SELECT c.index, c.text, c.logprobs IS NULL AS none FROM llm_completions('a b') AS c;
SELECT count(*) FROM llm_completions(NULL, n => 2);
SELECT llm_output(NULL) IS NULL AS nothing;
-- rows of a table
SELECT p, array_agg(c.text ORDER BY c.index) AS answers
FROM (VALUES ('one'), ('two words')) AS v (p), llm_completions(p, n => 2, temperature => 1, seed => 1) AS c GROUP BY p ORDER BY p;
SELECT p, (llm_output(p, n => 2, temperature => 1, seed => 7)).usage FROM (VALUES ('one'), ('two words'), (NULL)) AS v (p);

-- log-probabilities: 0 is the token's own alone
SELECT l.* FROM llm_completions('x y', logprobs => 0) AS c, unnest(c.logprobs) AS l;
SELECT l.* FROM llm_completions('x y', logprobs => 3) AS c, unnest(c.logprobs) AS l;
SELECT c.cumulative_logprob FROM llm_completions('x y', logprobs => 3) AS c;
SELECT l.pos, l.token_id, l.rank, l.chosen
FROM llm_completions('x y', logprob_token_ids => '{65,66}') AS c, unnest(c.logprobs) AS l;
-- of the prompt: nothing is known of its first token
SELECT l.* FROM unnest((llm_output('abc', prompt_logprobs => 1)).prompt_logprobs) AS l;
-- bytes that are part of a character only
SELECT l.pos, l.token, l.bytes FROM unnest((llm_output(U&'\00e9', prompt_logprobs => 0)).prompt_logprobs) AS l;

-- the whole
SELECT o.prompt, o.prompt_token_ids, o.prompt_logprobs IS NULL AS no_prompt_logprobs, cardinality(o.completions) AS n, o.usage, o.model, o.finished
FROM llm_output('abc', n => 2, temperature => 1, seed => 3) AS o;
SELECT llm_output_json(llm_output('a b', logprobs => 2));
SELECT llm_output_json(NULL) IS NULL AS nothing;
-- JSON has no infinity: as OpenAI writes it
SELECT vllm.logprobs_json(ARRAY[ROW(1, 5, 'a', 'a', '-0.5', 1, true), ROW(1, 6, 'b', 'b', '-infinity', 2, false)]::llm_logprob[]);

-- beam search
SELECT * FROM llm_beam_search('one two three', 3);
SELECT rank, text, finish_reason FROM llm_beam_search('one two three', 2, max_tokens => 2);
SELECT prompt_index, rank, text FROM llm_beam_search_batch(ARRAY['one two', NULL, 'three'], 2);

-- each option there is: honoured, or refused by name; one without a line here is told as such
CREATE FUNCTION pg_temp.known() RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE h text;
BEGIN
    PERFORM llm_generate('a', params => '{"no such": 1}');
EXCEPTION WHEN invalid_parameter_value THEN
    GET STACKED DIAGNOSTICS h = PG_EXCEPTION_HINT;
    RETURN string_to_array(rtrim(regexp_replace(h, '.*Known parameters: ', ''), '.'), ', ');
END $$;
CREATE FUNCTION pg_temp.searched(name text, value text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE m text; d text;
BEGIN
    PERFORM * FROM llm_beam_search('one two', CASE WHEN name = 'beam_width' THEN NULL ELSE 2 END, params => format('{"%s": %s}', name, value)::json);
    RETURN 'honoured';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS m = MESSAGE_TEXT, d = PG_EXCEPTION_DETAIL;
    RETURN concat_ws(' | ', SQLSTATE, m, nullif(d, ''));
END $$;
SELECT name, value, coalesce(pg_temp.searched(name, value), 'has no line in this test') AS outcome
FROM unnest(pg_temp.known()) WITH ORDINALITY k (name, place) LEFT JOIN (VALUES
    ('max_tokens', '3'), ('temperature', '0.7'), ('temperature', '0'), ('top_p', '0.5'), ('top_k', '3'), ('min_p', '0.5'), ('seed', '5'), ('stop', '"TWO"'), ('stop_token_ids', '[5]'),
    ('min_tokens', '1'), ('ignore_eos', 'true'), ('model', '"no such"'), ('lora', '"no such"'), ('timeout_ms', '60000'), ('on_error', '"null"'),
    ('include_stop_str_in_output', 'true'), ('skip_special_tokens', 'false'), ('detokenize', 'false'), ('add_special_tokens', 'false'), ('presence_penalty', '1'),
    ('frequency_penalty', '1'), ('repetition_penalty', '2'), ('repetition_penalty', '1'), ('logit_bias', '{"5": 1}'), ('allowed_token_ids', '[5]'), ('bad_words', '["ONE"]'),
    ('repetition_detection', '{"max_pattern_size": 2, "min_count": 2}'), ('truncate', '2'), ('truncation_side', '"right"'), ('spaces_between_special_tokens', 'false'),
    ('extra_args', '{"k": 1}'), ('n', '2'), ('logprobs', '1'), ('prompt_logprobs', '1'), ('logprob_token_ids', '[1]'), ('flat_logprobs', 'true'),
    ('traceparent', '"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"'), ('tracestate', '"a=b"'), ('priority', '0'), ('cache_salt', '"s"'), ('beam_width', '2'),
    ('length_penalty', '2'), ('json_schema', '{}'), ('regex', '"a"'), ('choice', '["a"]'), ('grammar', '"root ::= \"a\""'), ('structured_outputs', '{"regex": "a"}'),
    ('response_format', '{"type": "json_object"}'), ('response_format', '{"type": "text"}'), ('tool_choice', '"auto"'), ('parallel_tool_calls', 'true'), ('include_reasoning', 'true'),
    ('reasoning_effort', '"low"'), ('thinking_token_budget', '5'), ('thinking_token_budget', '-1'), ('stream_interval', '2'), ('output_kind', '"DELTA"'), ('best_of', '2')) v (name, value) USING (name)
ORDER BY place, value;
-- of the session's options those that it honours
SET vllm.default_params = '{"temperature": 0.7, "logit_bias": {"5": 1}, "stop": "x", "max_tokens": 2, "json_schema": {}}';
SELECT rank, text FROM llm_beam_search('one two three', 1);
RESET vllm.default_params;
SELECT llm_api('/v1/completions', '{"prompt": "x", "n": 2, "use_beam_search": true, "stop": "y"}', 'return');
SELECT llm_api('/v1/completions', '{"prompt": "x", "n": 2, "use_beam_search": true, "logit_bias": {"5": 1}}', 'return');
SELECT llm_api('/v1/completions', '{"prompt": "x", "n": 2, "use_beam_search": true, "vllm_xargs": {"k": 1}}', 'return');
-- what it doesn't honour and changes only a form, or another option
SET vllm.default_params = '{"flat_logprobs": true, "n": 2, "best_of": 2}';
SELECT rank, text FROM llm_beam_search('one two three', 1);
RESET vllm.default_params;

-- refused
CREATE FUNCTION pg_temp.error_of(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE m text; d text; h text;
BEGIN
    EXECUTE query;
    RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS m = MESSAGE_TEXT, d = PG_EXCEPTION_DETAIL, h = PG_EXCEPTION_HINT;
    RETURN concat_ws(' | ', SQLSTATE, m, nullif(d, ''), nullif(h, ''));
END $$;
SELECT pg_temp.error_of(q) FROM (VALUES
    (1, $$SELECT llm_output('a', n => 0)$$),
    (2, $$SELECT llm_output('a', n => 2, temperature => 0)$$),
    (3, $$SELECT llm_output('a', logprobs => -2)$$),
    (4, $$SELECT llm_output('a', logprobs => 21)$$),
    (5, $$SELECT llm_output('a', prompt_logprobs => 21)$$),
    (6, $$SELECT llm_output('a', logprob_token_ids => '{1,256}')$$),
    (7, $$SELECT llm_output('a', logprobs => 3, logprob_token_ids => '{1,2}')$$),
    (8, $$SELECT llm_output('a', params => '{"beam_width": 2}')$$),
    (9, $$SELECT llm_generate('a', params => '{"n": 2}')$$),
    (10, $$SELECT llm_generate('a', params => '{"logprobs": 0}')$$),
    (11, $$SELECT llm_chat('[]', params => '{"prompt_logprobs": 0}')$$),
    (12, $$SELECT * FROM llm_beam_search('a', 0)$$),
    (13, $$SELECT * FROM llm_beam_search('a', NULL)$$),
    (14, $$SELECT * FROM llm_beam_search('a', 2000)$$),
    (15, $$SELECT * FROM llm_beam_search('a', 2, params => '{"n": 2}')$$),
    (16, $$SELECT * FROM llm_beam_search('a', 2, length_penalty => 'nan')$$),
    (17, $$SELECT llm_generate('a', priority => 2)$$),
    (18, $$SELECT llm_generate('a', priority => 0, cache_salt => 'mine')$$),
    (19, $$SELECT llm_generate('a', cache_salt => '')$$),
    (20, $$SELECT llm_generate('a', cache_salt => repeat('x', 1025))$$)) AS v (i, q) ORDER BY i;

-- what is told when
SELECT seq, text, token_ids, finish_reason FROM llm_generate_stream('@tokens:9', stream_interval => 3);
SELECT seq, text FROM llm_generate_stream('@tokens:3', stream_interval => 100, params => '{"output_kind": "DELTA"}');
SELECT string_agg(text, '') FROM llm_chat_stream('[{"role": "user", "content": "@tokens:20"}]', stream_interval => 7);
SELECT llm_api_stream('/v1/completions', '{"prompt": "@tokens:7", "stream_interval": 4, "n": 2, "temperature": 1, "seed": 1, "logprobs": 0, "return_token_ids": true}')
    -> 'choices' -> 0 -> 'token_ids' AS ids;
SELECT llm_generate('a b', params => '{"output_kind": 2, "best_of": 1, "stream_interval": 5}'), llm_generate('a b', params => '{"output_kind": "CUMULATIVE"}');
SELECT cardinality(c.logprobs) FROM llm_completions('a b', params => '{"logprobs": true, "prompt_logprobs": false}') AS c;
SELECT pg_temp.error_of(q) FROM (VALUES ($$SELECT llm_generate('a', params => '{"best_of": 2}')$$), ($$SELECT llm_completions('a', n => 2, params => '{"best_of": 1}')$$),
    ($$SELECT llm_generate('a', params => '{"output_kind": 1}')$$), ($$SELECT llm_generate_stream('a', params => '{"output_kind": "FINAL_ONLY"}')$$),
    ($$SELECT llm_generate_stream('a', params => '{"output_kind": 0}')$$), ($$SELECT llm_generate('a', params => '{"output_kind": 3}')$$),
    ($$SELECT llm_generate('a', params => '{"output_kind": "delta"}')$$), ($$SELECT llm_generate_stream('a', stream_interval => 0)$$)) AS x (q);
