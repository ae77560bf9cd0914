-- Bodies of OpenAI's and Anthropic's interfaces.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
\pset format unaligned
\pset tuples_only on
-- what differs from run to run
CREATE FUNCTION pg_temp.stable(body json) RETURNS text LANGUAGE sql AS $$
    SELECT regexp_replace(regexp_replace(body::text, '[0-9a-f]{32}', 'ID', 'g'), '"(created|created_at|max_model_len)":(\d+|null)', '"\1":0', 'g')
$$;

-- ---- models, tokens ----
SELECT pg_temp.stable(e) FROM json_array_elements(v1_models()->'data') e WHERE e->>'id' = 'tickets-2m';
SELECT pg_temp.stable(llm_api('/v1/models/tickets-2m'));
SELECT v1_tokenize('{"prompt": "Hello wörld", "return_token_strs": true}');
SELECT v1_tokenize('{"messages": [{"role": "user", "content": "hi"}], "add_generation_prompt": false}');
SELECT v1_detokenize('{"tokens": [72, 101]}');
SELECT llm_api('/tokenize/', '{"model": null, "prompt": "x"}');
SELECT llm_api(NULL, '{}') IS NULL, llm_api('/tokenize', NULL) IS NULL, v1_tokenize(NULL) IS NULL;
-- the calls of a query's rows are in flight together
EXPLAIN (COSTS OFF) SELECT v1_tokenize(json_build_object('prompt', i)) FROM generate_series(1, 3) i;
SELECT v1_tokenize(json_build_object('prompt', i::text)) FROM generate_series(1, 3) i;

CREATE FUNCTION pg_temp.tokens(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF) ' || query LOOP
        IF line ~ 'Tokens:' THEN RETURN NEXT trim(line); END IF;
    END LOOP;
END $$;
SELECT pg_temp.tokens($$SELECT v1_completions(json_build_object('prompt', ARRAY['a b', i::text])) FROM generate_series(1, 3) i$$);

-- ---- errors, as errors and as bodies ----
SELECT llm_api('/v1/nothing', '{}', on_error => 'return')->'error'->>'type';
SELECT llm_api('/v1/models/nothing', '{}', on_error => 'return');
SELECT llm_api('/tokenize', '{}', on_error => 'return');
SELECT llm_api('/tokenize', '[]', on_error => 'return');
SELECT llm_api('/tokenize', '{"prompt": "a\u0000b"}', on_error => 'return');
SELECT llm_api('/tokenize', '{"prompt": "x", "stream": true}', on_error => 'return');
SELECT llm_api('/tokenize', '{"model": "nope", "prompt": "x"}', on_error => 'return');
SELECT llm_api('/tokenize', '{"model": "nope", "prompt": "x"}');
SELECT llm_api('/tokenize', '{"prompt": 5}');
SELECT llm_api('/tokenize', '{"prompt": "x"}', 'bad');
SELECT llm_api('/detokenize', '{"tokens": [1, -1]}');
SELECT llm_api('/detokenize', '{"tokens": [300]}', 'return');
SELECT llm_api_stream('/tokenize', '{"prompt": "x"}');
SELECT llm_api_stream('/tokenize', '{"prompt": "x"}', 'return');
SELECT llm_api_stream('/tokenize', NULL);
SELECT llm_api('/tokenize', '{"messages": [{"role": "user", "content": "x"}], "chat_template": "{{ 1 }}"}');
SET vllm.trust_request_chat_template = on;
SELECT llm_api('/tokenize', '{"messages": [{"role": "user", "content": "x"}], "chat_template": "{{ messages[0].content }}!"}');
RESET vllm.trust_request_chat_template;
SELECT llm_api('/tokenize', '{"model": 5, "prompt": "x"}', 'return');
-- a role without the right to the model
SELECT llm_create_model('bodies', '/fake/bodies');
CREATE ROLE regress_bodies;
SET ROLE regress_bodies;
SELECT count(*) FROM json_array_elements(v1_models()->'data') e WHERE e->>'id' = 'bodies';
SELECT llm_api('/v1/models/bodies', '{}', 'return');
SELECT llm_api('/tokenize', '{"model": "bodies", "prompt": "x"}', 'return');
RESET ROLE;
SELECT llm_drop_model('bodies');
DROP ROLE regress_bodies;
-- unknown fields
SELECT llm_api('/tokenize', '{"prompt": "x", "zzz": 1, "yyy": null}');
SET vllm.unknown_params = ignore;
SELECT llm_api('/tokenize', '{"prompt": "x", "zzz": 1}');
SET vllm.unknown_params = error;
SELECT llm_api('/tokenize', '{"prompt": "x", "zzz": 1}', 'return');
RESET vllm.unknown_params;

-- ---- completions ----
SELECT pg_temp.stable(v1_completions('{"prompt": "hello big world"}'));
-- prompts times answers, of seeds that follow each other; token ids as a prompt
SELECT c->>'index', c->>'text', c->'token_ids', c->'prompt_token_ids'
FROM json_array_elements(v1_completions('{"prompt": ["hello big world", [104, 105]], "n": 2, "temperature": 0.5, "seed": 7, "echo": true,
    "return_token_ids": true}')->'choices') c;
SELECT v1_completions('{"prompt": "hello big world", "max_tokens": 0, "echo": true}')->'choices'->0;
SELECT v1_completions('{"prompt": "hello big world", "max_tokens": 2, "stop": ["BIG"]}')->'choices'->0;
SELECT v1_completions('{"prompt": ["a b", "c"]}')->'usage';
SELECT v1_completions('{"prompt": []}');
SELECT v1_completions('{"prompt": ["a", 5]}');
SELECT v1_completions('{"prompt": [1, -5]}');
SELECT v1_completions('{"prompt": "x", "suffix": "y"}');
SELECT v1_completions('{"prompt": "x", "n": 2, "temperature": 0}');
SELECT v1_completions('{"prompt": "x", "n": 0}');
SELECT v1_completions('{"prompt": "x", "best_of": 3}');
SELECT v1_completions('{"prompt": "x", "temperature": 3}');
SELECT v1_completions('{"prompt": "x", "top_k": 1.5}');
SELECT v1_completions('{"prompt": "x", "max_tokens": 33554430, "stop": null}')->'choices'->0->'text';
SELECT v1_completions('{"prompt": "x", "max_tokens": 33554432}');
SELECT v1_completions('{"prompt": "x", "stream_options": {"include_usage": true}}');
SELECT v1_completions('{"prompt": "x", "response_format": {}}');
SELECT v1_completions('{"prompt": "ab c", "logprobs": 1, "max_tokens": 2}')->'choices'->0->'logprobs';
-- the prompt's first token has no log-probability
SELECT c->'logprobs', c->'prompt_logprobs' FROM json_array_elements(v1_completions('{"prompt": "ab", "logprobs": 0, "echo": true, "max_tokens": 1,
    "return_tokens_as_token_ids": true}')->'choices') c;
-- of a prompt that is cut, what the model has seen: text, ids, tokens, offsets and usage
SELECT side, c->>'text' AS text, c->'prompt_token_ids' AS ids, c->'logprobs'->'tokens' AS tokens, c->'logprobs'->'text_offset' AS offsets, b->'usage'->>'prompt_tokens' AS n
FROM unnest(ARRAY['left', 'right']) side,
    v1_completions(json_build_object('prompt', '["abcdef", [104, 105, 106], "xy"]'::json, 'truncate_prompt_tokens', 2, 'truncation_side', side, 'echo', true,
                                     'return_token_ids', true, 'logprobs', 0, 'max_tokens', 1)) b, json_array_elements(b->'choices') c;
-- within a character: its bytes that are left are a character each, in the echo as in text_offset
SELECT n, c->>'text' AS text, c->'logprobs'->'text_offset' AS offsets FROM generate_series(1, 6) n,
    json_array_elements(v1_completions(json_build_object('prompt', 'o 😀!', 'truncate_prompt_tokens', n, 'echo', true, 'logprobs', 0, 'max_tokens', 1))->'choices') c;
SELECT c->'prompt_token_ids' AS ids, c->'logprobs' AS none FROM json_array_elements(v1_completions('{"prompt": ["abcdef", [104, 105, 106]], "truncate_prompt_tokens": 2,
    "return_token_ids": true}')->'choices') c;
SELECT json_array_length(c->'prompt_token_ids') AS n, c->>'text' AS text
FROM json_array_elements(v1_completions(format('{"prompt": "%s", "truncate_prompt_tokens": -1, "max_tokens": 33554400, "echo": true, "return_token_ids": true}', repeat('a', 40))::json)->'choices') c;
SELECT c->'choices'->0->>'text' AS text, c->'choices'->0->'prompt_token_ids' AS ids
FROM v1_completions_stream('{"prompt": "abcdef", "truncate_prompt_tokens": 2, "echo": true, "return_token_ids": true}') c;
SELECT v1_completions('{"prompt": "abcdef", "truncate_prompt_tokens": 33554433, "echo": true}');
SELECT json_array_length(b->'prompt_token_ids') AS ids, b->'usage'->>'prompt_tokens' AS n
FROM v1_chat_completions('{"messages": [{"role": "user", "content": "abcdef"}], "truncate_prompt_tokens": 5, "return_token_ids": true}') b;
SELECT c->>'index', c->>'text' FROM json_array_elements(v1_completions('{"prompt": ["ab", "c"], "n": 2, "use_beam_search": true, "length_penalty": 0.5}')->'choices') c;
SELECT v1_completions('{"prompt": "x", "length_penalty": 0.5}');
SELECT v1_completions_stream('{"prompt": "x", "n": 2, "use_beam_search": true}');
SELECT v1_completions_stream('{"prompt": "x", "prompt_logprobs": 0}');
SELECT v1_completions('{"prompt": "a b", "presence_penalty": 0.5, "frequency_penalty": -1, "repetition_penalty": 1.5, "logit_bias": {"5": 1}, "bad_words": ["x"],
    "allowed_token_ids": [1, 2], "repetition_detection": {"max_pattern_size": 2, "min_count": 2}, "truncate_prompt_tokens": 1, "truncation_side": "right",
    "spaces_between_special_tokens": false, "vllm_xargs": {"k": 1}}')->'choices'->0->>'text';
SELECT v1_completions('{"prompt": "a b", "cache_salt": "s", "priority": 0}')->'choices'->0->>'text';
SELECT v1_completions('{"prompt": "a b", "cache_salt": ""}');
SELECT v1_completions('{"prompt": "a b", "priority": 1}');
SELECT v1_completions('{"prompt": "a b", "presence_penalty": 2.5}');
SELECT v1_completions('{"prompt": "a b", "logit_bias": [5]}');
SELECT v1_completions('{"prompt": "a b", "logit_bias": {"x": 5}}');
SELECT v1_completions('{"prompt": "a b", "repetition_penalty": 0}');
-- structured output
SELECT v1_completions('{"prompt": "a b", "structured_outputs": {"choice": ["yes", "no"]}}')->'choices'->0->>'text' IN ('yes', 'no') AS fits;
SELECT (v1_completions('{"prompt": "a b", "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"const": {"b": 1, "a": 2}}}}}')
    ->'choices'->0->>'text')::json->>'b';
SELECT v1_completions('{"prompt": "x", "response_format": {"type": "text"}}')->'choices'->0->>'text';
SELECT v1_completions('{"prompt": "x", "structured_outputs": {}}');
SELECT v1_completions('{"prompt": "x", "structured_outputs": {"regex": "(?=x)"}}');
SELECT v1_completions('{"prompt": "x", "guided_json": {}}');
-- an answer that fails fails the body, and the others are cancelled
SELECT llm_api('/v1/completions', '{"prompt": ["@delay:5000 x", "@error:58000:gone", "y"]}', 'return');
SELECT pg_temp.stable(c) FROM v1_completions_stream('{"prompt": "hello big world", "echo": true,
    "stream_options": {"include_usage": true, "continuous_usage_stats": true}}') c;
-- a stream that is left ends its requests
SELECT count(*) FROM (SELECT v1_completions_stream('{"prompt": "@tokens:100000", "max_tokens": 100000}') LIMIT 3) c;
SELECT pg_temp.stable(c) FROM llm_api_stream('/v1/completions', '{"prompt": "a @error:54000:long b"}', 'return') c;

-- ---- chat ----
SELECT pg_temp.stable(v1_chat_completions('{"messages": [{"role": "user", "content": "hi you"}]}'));
SELECT c->'message'->>'content', c->>'finish_reason' FROM json_array_elements(v1_chat_completions('{"messages": [{"role": "user", "content": "hi"},
    {"role": "assistant", "content": "I "}], "echo": true, "add_generation_prompt": false, "continue_final_message": true, "max_completion_tokens": 2}')->'choices') c;
SELECT pg_temp.stable(c) FROM v1_chat_completions_stream('{"messages": [{"role": "user", "content": "hi"}], "n": 2, "temperature": 1, "seed": 3,
    "max_tokens": 1, "stream_options": {"include_usage": true}}') WITH ORDINALITY AS t(c, o)
    ORDER BY coalesce((c->'choices'->0->>'index')::int, 9), o;
SELECT c->'logprobs' FROM json_array_elements(v1_chat_completions('{"messages": [{"role": "user", "content": "hi"}], "logprobs": true, "top_logprobs": 1,
    "max_tokens": 1}')->'choices') c;
SELECT v1_chat_completions('{"messages": [{"role": "user", "content": "hi"}], "top_logprobs": 1}');
SELECT v1_chat_completions('{"messages": []}');
SELECT v1_chat_completions('{"messages": [{"role": "user", "content": "x"}], "add_generation_prompt": true, "continue_final_message": true}');
SELECT v1_chat_completions('{"messages": [{"role": "user", "content": "x"}], "tools": []}');
SELECT v1_chat_completions('{"messages": [{"role": "user", "content": "x"}], "tool_choice": "auto"}');
SELECT count(DISTINCT v1_chat_completions(json_build_object('messages', json_build_array(json_build_object('role', 'user', 'content', i::text))))->'choices'->0->'message'->>'content')
FROM generate_series(1, 300) i;

-- tools and reasoning
CREATE FUNCTION pg_temp.say(t text, more text DEFAULT '{}') RETURNS json LANGUAGE sql AS $$
    SELECT json_object_agg(key, value) FROM (SELECT 'messages' AS key, json_build_array(json_build_object('role', 'user', 'content', '@say:' || t || '@end')) AS value
        UNION ALL SELECT * FROM json_each(more::json)) m
$$;
\set calls '</think>Look.<tool_call>{"name": "f", "arguments": {"n": 1}}</tool_call><tool_call>{"name": "g", "arguments": {}}</tool_call>'
\set tools '{"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}}, {"type": "function", "function": {"name": "g"}}]'
SELECT v1_chat_completions(pg_temp.say('x', :'tools' || '}'));
SET vllm.tool_call_parser = 'hermes';
SELECT v1_chat_completions(pg_temp.say('x', :'tools' || ', "tool_choice": "required"}'))->'choices'->0->'message'->'tool_calls'->0->'function';
SET vllm.reasoning_parser = 'deepseek_r1';
SELECT pg_temp.stable(v1_chat_completions(pg_temp.say('I think.' || :'calls', :'tools' || '}'))->'choices'->0);
SELECT pg_temp.stable(c->'choices'->0->'delta') FROM v1_chat_completions_stream(pg_temp.say('I think.' || :'calls', :'tools' || ', "parallel_tool_calls": false}')) c;
SELECT pg_temp.stable(v1_messages(pg_temp.say('I think.' || :'calls', '{"max_tokens": 100, "tools": [{"name": "f", "input_schema": {}}, {"name": "g"}]}'))->'content');
SELECT c->>'type', c->'item'->>'type', c->>'arguments' FROM v1_responses_stream(json_build_object('input', '@say:I think.' || :'calls' || '@end', 'store', false,
    'tools', '[{"type": "function", "name": "f"}, {"type": "function", "name": "g"}]'::json)) c;
-- text and calls in their order, whole and in a stream; cut by max_tokens in a call, or behind all calls
\set twice '</think>Look.<tool_call>{"name": "f", "arguments": {}}</tool_call> <tool_call>{"name": "g", "arguments": 12}</tool_call> <tool_call>{"name": "f", "arguments": {}} tail'
SELECT t.tokens, m -> 'stop_reason' AS message, (SELECT json_agg(c -> 'type') FROM json_array_elements(m -> 'content') c) AS blocks,
       (SELECT json_agg(c -> 'content_block' -> 'type') FROM v1_messages_stream(body) c WHERE c ->> 'type' = 'content_block_start') AS streamed,
       (SELECT json_agg(c -> 'delta' -> 'stop_reason') FROM v1_messages_stream(body) c WHERE c ->> 'type' = 'message_delta') AS stop
FROM (VALUES (4), (5), (6), (9), (100)) t(tokens), pg_temp.say('x' || :'twice', '{"max_tokens": ' || t.tokens || ', "tools": [{"name": "f", "input_schema": {}}, {"name": "g"}]}') body, v1_messages(body) m;
SELECT t.tokens, r -> 'status' AS status, (SELECT json_agg(c -> 'type') FROM json_array_elements(r -> 'output') c) AS items,
       (SELECT json_agg(c -> 'type') FROM v1_responses_stream(body) e, json_array_elements(e -> 'response' -> 'output') c WHERE e ->> 'type' IN ('response.completed', 'response.incomplete')) AS streamed
FROM (VALUES (4), (5), (6), (9), (100)) t(tokens), json_build_object('input', '@say:x' || :'twice' || '@end', 'store', false, 'max_output_tokens', t.tokens,
    'tools', '[{"type": "function", "name": "f"}, {"type": "function", "name": "g"}]'::json) body, v1_responses(body) r;
SELECT t.tokens, c -> 'finish_reason' AS reason, json_array_length(c -> 'message' -> 'tool_calls') AS calls, (SELECT json_agg(e -> 'choices' -> 0 -> 'finish_reason') FROM v1_chat_completions_stream(body) e WHERE e -> 'choices' -> 0 ->> 'finish_reason' IS NOT NULL) AS streamed
FROM (VALUES (4), (5), (6), (9), (100)) t(tokens), pg_temp.say('x' || :'twice', :'tools' || ', "max_tokens": ' || t.tokens || '}') body, v1_chat_completions(body) r, LATERAL (SELECT r -> 'choices' -> 0 AS c) o;
-- each item has an id of its own, though an answer has two messages
SELECT (SELECT count(*) FROM json_array_elements(v1_responses(body) -> 'output')) AS items, (SELECT count(DISTINCT c ->> 'id') FROM json_array_elements(v1_responses(body) -> 'output') c) AS ids,
       (SELECT count(DISTINCT c ->> 'id') FROM v1_responses_stream(body) e, json_array_elements(e -> 'response' -> 'output') c WHERE e ->> 'type' = 'response.completed') AS streamed
FROM json_build_object('input', '@say:x' || :'twice' || '@end', 'store', false, 'tools', '[{"type": "function", "name": "f"}, {"type": "function", "name": "g"}]'::json) body;
-- what a prompt is counted as is what it takes, also where tools are hidden
SELECT llm_create_model('hides', '/fake/hides', '{"exclude_tools_when_tool_choice_none": true, "chat_template": "{{ tools }} {{ messages[0].content }}"}');
SELECT choice, v1_messages(b)->'usage'->'input_tokens' AS took, v1_messages_count_tokens(b)->'input_tokens' AS counted
FROM (VALUES ('auto'), ('none')) c(choice), json_build_object('model', 'hides', 'max_tokens', 3, 'messages', '[{"role": "user", "content": "x"}]'::json,
    'tools', '[{"name": "f"}]'::json, 'thinking', '{"type": "enabled", "budget_tokens": 5}'::json, 'tool_choice', json_build_object('type', choice)) b;
SELECT choice, c->'usage'->'prompt_tokens' AS took, json_array_length(c->'prompt_token_ids') AS ids
FROM (VALUES ('auto'), ('none')) t(choice), v1_chat_completions(json_build_object('model', 'hides', 'max_tokens', 3, 'messages', '[{"role": "user", "content": "x"}]'::json,
    'tools', '[{"type": "function", "function": {"name": "f"}}]'::json, 'return_token_ids', true, 'tool_choice', choice)) c;
SELECT llm_drop_model('hides');
SET vllm.tool_call_parser = 'none such';
RESET vllm.tool_call_parser;
RESET vllm.reasoning_parser;

-- ---- vectors, labels, scores ----
SELECT pg_temp.stable(v1_embeddings('{"input": "hello big world"}'));
SELECT e->>'index', e->>'embedding' FROM json_array_elements(v1_embeddings('{"input": ["a", "b c"], "encoding_format": "base64", "embed_dtype": "float16",
    "endianness": "big", "dimensions": 4}')->'data') e;
SELECT e->>'index', e->'embedding'->0 FROM json_array_elements(v1_embeddings('{"input": [[97], [98, 99]], "truncate_prompt_tokens": 1}')->'data') e;
SELECT json_array_length(v1_embeddings('{"messages": [{"role": "user", "content": "x"}]}')->'data'->0->'embedding');
SELECT v1_embeddings('{"input": []}');
SELECT v1_embeddings('{"input": ["x", 5]}');
SELECT v1_embeddings('{"input": "x", "normalize": true}');
SELECT v1_embeddings('{"input": "x", "encoding_format": "hex"}');
SELECT v1_embeddings('{"input": "x", "truncation_side": "left"}');
SELECT pg_temp.stable(v1_classify('{"input": ["hello big world"]}'));
SELECT json_array_length(e->'data'), json_array_length(e->'data'->0)
FROM json_array_elements(v1_pooling('{"input": ["hello big world", "b"], "task": "token_embed"}')->'data') e;
SELECT v1_pooling('{"input": "x"}');
SELECT pg_temp.stable(v1_score('{"text_1": "q", "text_2": ["a", "q"]}'));
SELECT json_array_length(v1_score('{"queries": ["q", "r"], "documents": ["a", {"text": "q"}]}')->'data');
SELECT v1_score('{"text_1": ["q", "a"], "text_2": ["a", "q", "r"]}');
SELECT pg_temp.stable(v1_rerank('{"query": "big", "documents": ["a", "big thing", {"text": "x big"}], "top_n": 2}'));
SELECT v1_rerank('{"query": "big", "documents": []}');

-- ---- Anthropic's messages ----
SELECT pg_temp.stable(v1_messages('{"max_tokens": 50, "messages": [{"role": "user", "content": "hi you"}]}'));
SELECT pg_temp.stable(v1_messages('{"max_tokens": 50, "stop_sequences": ["YOU"], "system": [{"type": "text", "text": "be", "cache_control": {"type": "ephemeral"}}],
    "messages": [{"role": "user", "content": [{"type": "text", "text": "hi you"}, {"type": "tool_result", "tool_use_id": "t1", "content": "42"}]},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""}, {"type": "text", "text": "ok"},
    {"type": "tool_use", "id": "t1", "name": "f", "input": {"b": 1, "a": 2}}]}]}'));
SELECT pg_temp.stable(c) FROM v1_messages_stream('{"max_tokens": 2, "messages": [{"role": "user", "content": "hi you"}]}') c;
SELECT v1_messages('{"max_tokens": 50, "output_config": {"format": {"type": "json_schema", "schema": {"const": 7}}}, "messages": [{"role": "user", "content": "x"}]}')
    ->'content'->0->>'text';
SELECT v1_messages('{"max_tokens": 50, "output_format": {"type": "json_schema", "schema": {"const": 7}}, "messages": [{"role": "user", "content": "x"}]}')->'content'->0->>'text';
SELECT v1_messages('{"max_tokens": 50, "output_format": {"type": "text"}, "messages": [{"role": "user", "content": "x"}]}');
SELECT v1_messages_count_tokens('{"messages": [{"role": "user", "content": "hi you"}]}');
SELECT v1_messages('{"messages": [{"role": "user", "content": "x"}]}');
SELECT llm_api('/v1/messages', '{"max_tokens": 3, "messages": [{"role": "user", "content": [{"type": "image"}]}]}', 'return');
SELECT llm_api('/v1/messages', '{"max_tokens": 3, "messages": [{"role": "robot", "content": "x"}]}', 'return');
SELECT llm_api('/v1/messages', '{"model": "nope", "max_tokens": 3, "messages": []}', 'return');

-- ---- responses, and what is kept of them ----
SELECT pg_temp.stable(v1_responses('{"input": "hi you", "instructions": "be", "max_output_tokens": 3, "request_id": "one"}'));
SELECT v1_responses('{"input": [{"role": "user", "content": [{"type": "input_text", "text": "and"}]}, {"type": "reasoning", "content": [{"type": "reasoning_text",
    "text": "hm"}]}, {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}, {"type": "function_call_output", "call_id": "c", "output": "42"}],
    "previous_response_id": "resp_one", "request_id": "two"}')->'output'->0->'content'->0->>'text';
SELECT pg_temp.stable(items) FROM vllm.response WHERE id = 'resp_two';
SELECT v1_responses_get('resp_two')->>'status';
SELECT llm_api('/v1/responses//', '{"input": "x", "previous_response_id": "resp_two", "request_id": "slash"}')->>'id';
SELECT llm_api('/v1/responses/resp_slash/', '{"x": "\u0000"}', 'return')->>'previous_response_id';
SELECT llm_api('/v1/responses/', '{"input": "\u0000"}', 'return')->'error'->>'code';
DELETE FROM vllm.response WHERE id = 'resp_slash';
SELECT v1_responses_get('resp_three');
SELECT v1_responses_cancel('resp_two');
SELECT v1_responses('{"input": "x", "previous_response_id": "resp_nine"}');
SELECT v1_responses('{"input": "x", "background": true}');
SELECT v1_responses('{"input": [{"type": "item_reference", "id": "x"}]}');
SELECT (v1_responses('{"input": "x", "store": false, "text": {"format": {"type": "json_schema", "name": "s", "schema": {"const": 7}}}}')->'output'->0->'content'->0->>'text')::json;
SELECT c->>'type', c->>'delta' FROM v1_responses_stream('{"input": "hi you", "max_output_tokens": 2, "request_id": "three"}') c;
SELECT v1_responses_get('resp_three')->'output'->0->'content'->0->>'text';
BEGIN TRANSACTION READ ONLY;
SELECT v1_responses('{"input": "x", "store": false}')->>'status';
SELECT count(c) FROM v1_responses_stream('{"input": "x", "store": false}') c;
SELECT v1_responses('{"input": "x"}');
ROLLBACK;
SELECT count(*) FROM vllm.response;
CREATE ROLE regress_bodies;
SET ROLE regress_bodies;
SELECT count(*) FROM vllm.response;
SELECT llm_api('/v1/responses/resp_two', '{}', 'return');
RESET ROLE;
-- roles whose names differ in upper and lower case, and the same id
CREATE ROLE "Regress_Bodies x";
CREATE ROLE "Regress_Bodies";
SET ROLE regress_bodies;
SELECT v1_responses('{"input": "mine", "request_id": "one"}')->'output'->0->'content'->0->>'text';
SET ROLE "Regress_Bodies";
SELECT count(*) FROM vllm.response;
SELECT llm_api('/v1/responses/resp_one', '{}', 'return');
SELECT v1_responses('{"input": "hers", "request_id": "one"}')->>'id';
SELECT v1_responses('{"input": "and", "request_id": "one"}')->>'id';
SELECT v1_responses('{"input": "next", "request_id": "two", "previous_response_id": "resp_one"}')->'output'->0->'content'->0->>'text';
SELECT id, response->'output'->0->'content'->0->>'text' FROM vllm.response ORDER BY id;
SET ROLE "Regress_Bodies x";
SELECT v1_responses('{"input": "x"}')->>'status';
-- without the right to them: an error, and nothing is left behind
SET row_security = off;
SELECT llm_api('/v1/responses/resp_one', '{}', 'return');
SELECT llm_api('/v1/responses', '{"input": "x", "previous_response_id": "resp_one"}', 'return');
RESET row_security;
-- nobody locks the table, and with it what others store; columns that are updated give no right to that
SET ROLE "Regress_Bodies";
BEGIN;
LOCK TABLE vllm.response IN ACCESS EXCLUSIVE MODE;
ROLLBACK;
BEGIN;
LOCK TABLE vllm.response IN SHARE MODE;
ROLLBACK;
DELETE FROM vllm.response;
-- deleted are the caller's
SELECT llm_forget_responses(now() - interval '1 day');
SELECT llm_forget_responses(id => 'resp_two');
SELECT id FROM vllm.response;
SET ROLE regress_bodies;
SELECT llm_forget_responses(now() + interval '1 day');
SELECT count(*) FROM vllm.response;
BEGIN TRANSACTION READ ONLY;
SELECT llm_forget_responses();
ROLLBACK;
SET ROLE "Regress_Bodies";
SELECT llm_forget_responses();
RESET ROLE;
-- a superuser's are those of its own role, too
SELECT v1_responses_get('resp_one')->'output'->0->'content'->0->>'text';
DELETE FROM vllm.response;
DROP ROLE regress_bodies, "Regress_Bodies", "Regress_Bodies x";

-- ---- batches ----
SELECT custom_id, status_code, response->'choices'->0->>'text' AS text, error->>'message' AS message
FROM llm_run_batch($$SELECT 'c' || i, CASE WHEN i = 3 THEN '/v1/pooling' ELSE '/v1/completions' END,
    json_build_object('prompt', CASE WHEN i = 2 THEN '@error' ELSE 'hi ' || i END, 'stream', i = 4) FROM generate_series(1, 5) i$$, 2);
SELECT custom_id, status_code, response->>'count' AS count, error->>'message' AS message
FROM llm_run_batch($$VALUES ('a', '/tokenize', '{"prompt": "x"}'::jsonb), ('a', '/tokenize', '{}'), (NULL, '/tokenize', '{}'), ('b', NULL, '{}'),
    ('c', '/tokenize', NULL), ('d', '/tokenize', '[]') -- the end$$);
SELECT count(DISTINCT custom_id), count(*) FILTER (WHERE status_code = 200)
FROM llm_run_batch($$SELECT i, '/v1/completions', json_build_object('prompt', i::text) FROM generate_series(1, 300) i$$);
CREATE TEMPORARY TABLE "Bodies 1" AS SELECT 'ignored' AS note, '{"prompt": "hi"}'::json AS body, '/v1/completions' AS url, 'c1' AS custom_id;
SELECT custom_id, response->'choices'->0->>'text' FROM llm_run_batch('"Bodies 1"'::regclass);
-- in parts, each committed; a second call goes on
CREATE TEMPORARY TABLE requests AS SELECT 'r' || i AS custom_id, '/v1/completions' AS url, json_build_object('prompt', CASE WHEN i = 3 THEN '@error' ELSE 'hi ' || i END) AS body
FROM generate_series(1, 7) i;
CREATE TEMPORARY TABLE answers (custom_id text PRIMARY KEY, status_code int, response json, error json);
CALL llm_run_batch_table('requests', 'answers', 2);
SELECT custom_id, status_code, response->'choices'->0->>'text' AS text, error->>'message' AS message FROM answers ORDER BY 1;
DELETE FROM answers WHERE custom_id IN ('r2', 'r3');
UPDATE answers SET response = '{}';
CALL llm_run_batch_table('requests', 'answers');
SELECT custom_id, status_code, response->'choices'->0->>'text' AS text FROM answers ORDER BY 1;
CALL llm_run_batch_table('requests', 'answers', 0);
CALL llm_run_batch_table('requests', NULL);
BEGIN;
CALL llm_run_batch_table('requests', 'answers');
ROLLBACK;
INSERT INTO requests VALUES ('r1', '/v1/completions', '{}');
CALL llm_run_batch_table('requests', 'answers');
UPDATE requests SET custom_id = NULL;
CALL llm_run_batch_table('requests', 'answers');
-- half a character in one body
SELECT custom_id, status_code, response->'choices'->0->>'text' AS text, error->>'message' AS message
FROM llm_run_batch($$VALUES ('a', '/v1/completions', '{"prompt": "\ud800"}'::json), ('b', '/v1/completions', '{"prompt": "b"}'), ('c', '/v1/messages', '{"messages": []}')$$);
SELECT custom_id, status_code FROM llm_run_batch($$VALUES ('a', '/v1/completions', '{"prompt": "\ud800"}'::json)$$);
SELECT * FROM llm_run_batch('SELECT 1');
SELECT * FROM llm_run_batch('SELECT 1 FROM nowhere');
SELECT * FROM llm_run_batch('SELECT 1; SELECT 2');
SELECT * FROM llm_run_batch('');
SELECT * FROM llm_run_batch('SELECT 1', 0);
SELECT * FROM llm_run_batch(NULL);
SHOW vllm.batch_window;

SELECT vllm.control('integrity');
-- what controls the engine has functions, whatever the model
SELECT llm_api('/sleep');
SELECT llm_api('/wake_up/', '{"model": "nobody"}');
-- settings that are objects are checked when they are set
ALTER SYSTEM SET vllm.eplb_config = 'often';
ALTER SYSTEM SET vllm.eplb_config = '{"window_size": 3,';
ALTER SYSTEM SET vllm.eplb_config = '[1]';
ALTER SYSTEM SET vllm.eplb_config = '{"window": 3}';
ALTER SYSTEM SET vllm.eplb_config = '{"window_size": null, "step_interval": 0}';
ALTER SYSTEM SET vllm.eplb_config = '{"use_async": 1}';
ALTER SYSTEM SET vllm.eplb_config = '{"policy": "mine"}';
ALTER SYSTEM SET vllm.speculative_config = '{"method": "suffix", "speed": 3}';
ALTER SYSTEM SET vllm.speculative_config = '{"method": "suffix", "prompt_lookup_max": 3}';
ALTER SYSTEM SET vllm.speculative_config = '{"method": "suffix", "suffix_decoding_min_token_prob": 1.5}';
ALTER SYSTEM SET vllm.speculative_config = '{"method": "suffix", "num_speculative_tokens": 1.5}';
-- methods, and what each of them needs
ALTER SYSTEM SET vllm.speculative_config = '{"method": "warp", "num_speculative_tokens": 3}';
ALTER SYSTEM SET vllm.speculative_config = '{"method": 7}';
ALTER SYSTEM SET vllm.speculative_config = '{}';
ALTER SYSTEM SET vllm.speculative_config = '{"method": null, "model": null}';
ALTER SYSTEM SET vllm.speculative_config = '{"method": "ngram"}';
ALTER SYSTEM SET vllm.speculative_config = '{"method": "eagle", "num_speculative_tokens": 3}';
ALTER SYSTEM SET vllm.speculative_config = '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 5, "prompt_lookup_max": 2}';
ALTER SYSTEM SET vllm.speculative_config = '{"method": "suffix", "model": "/x"}';
ALTER SYSTEM SET vllm.speculative_config = '{"method": "deepseek_mtp", "model": "/x"}';
ALTER SYSTEM SET vllm.speculative_config = '{"model": "/x", "prompt_lookup_max": 3}';
ALTER SYSTEM SET vllm.speculative_config = '{"model": "Qwen/Qwen3-0.6B"}';
ALTER SYSTEM SET vllm.speculative_config = '{"model": "/x", "quantization": "warp"}';
ALTER SYSTEM SET vllm.speculative_config = '{"model": "/x", "quantization": "float16"}';
ALTER SYSTEM SET vllm.speculative_config = '{"model": "/x", "draft_tensor_parallel_size": 2}';
-- each of these is right
ALTER SYSTEM SET vllm.speculative_config = '{"method": "suffix"}';
ALTER SYSTEM SET vllm.speculative_config = '{"method": "mimo_mtp", "quantization": "int4"}';
ALTER SYSTEM SET vllm.speculative_config = '{"method": "ngram", "num_speculative_tokens": 3, "model": null}';
ALTER SYSTEM SET vllm.speculative_config = '{"method": null, "model": "/x", "quantization": "q8_0", "draft_tensor_parallel_size": 1}';
ALTER SYSTEM RESET vllm.speculative_config;
