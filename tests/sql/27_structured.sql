-- Structured output: options, errors, and every function that takes them.  The fake answers with
-- the prompt if that fits, else with a short text that does.
\set SHOW_CONTEXT never
CREATE FUNCTION struct_fails(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
	hint text;
BEGIN
	EXECUTE q;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' | ', SQLSTATE || ' ' || SQLERRM, nullif(detail, ''), nullif(hint, ''));
END $$;

-- the prompt fits
SELECT llm_generate('yes', choice => '{yes,no}'), llm_generate('2024-05', regex => '\d{4}-\d\d'),
	llm_generate('{"a": 1}', json_schema => '{"type": "object", "properties": {"a": {"type": "integer"}}}'),
	llm_generate('ab', grammar => 'root ::= "a" "b"+');
-- it doesn't
SELECT llm_generate('maybe', choice => '{yes,yep}'), llm_generate('x', regex => '\d{4}-\d\d'),
	llm_generate('x', json_schema => '{"type": "object", "properties": {"name": {"type": "string"}, "ok": {"const": true}}, "required": ["name", "ok"]}'),
	llm_generate('x', grammar => E'start: "a" B\nB: /[0-9]+/');

-- in params, as vLLM and OpenAI have it
SELECT p, llm_generate('x', params => p::json) FROM (VALUES
	('{"structured_outputs": {"regex": "[ab]c"}}'),
	('{"structured_outputs": {"choice": ["no"]}}'),
	('{"structured_outputs": {"json": {"const": [1, 2]}}}'),
	('{"structured_outputs": {"json": "{\"const\": [1, 2]}", "disable_any_whitespace": true}}'),
	('{"structured_outputs": {"json_object": true}}'),
	('{"structured_outputs": {"grammar": "root ::= \"x\" \"y\""}}'),
	('{"structured_outputs": {"structural_tag": {"format": {"type": "const_string", "value": "tag"}}}}'),
	('{"response_format": {"type": "text"}}'),
	('{"response_format": {"type": "json_object"}}'),
	('{"response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": {"type": "null"}}}}'),
	('{"regex": "b"}'), ('{"choice": "one"}'), ('{"choice": ["one", "two"]}'), ('{"json_schema": {"const": "z"}}'), ('{"grammar": "root ::= \"g\""}')) v (p);
-- members come in the schema's order, whatever jsonb would make of it
SELECT llm_generate('x', params => '{"json_schema": {"properties": {"zz": {"const": 1}, "a": {"const": 2}}, "required": ["a", "zz"], "type": "object"}}');
SELECT llm_generate('x', json_schema => '{"properties": {"zz": {"const": 1}, "a": {"const": 2}}, "required": ["a", "zz"], "type": "object"}');
-- options
SELECT llm_generate('{"b": 1}', json_schema => '{"type": "object"}') AS closed,
	llm_generate('{"b": 1}', json_schema => '{"type": "object"}', params => '{"structured_outputs": {"strict": false}}') AS open;
SELECT llm_generate('{"b":1}', json_schema => '{"type": "object", "additionalProperties": true}', params => '{"structured_outputs": {"disable_additional_properties": true}}') AS closed;
SELECT llm_generate('[ 1]', json_schema => '{"type": "array"}') AS space,
	llm_generate('[ 1]', json_schema => '{"type": "array"}', params => '{"structured_outputs": {"disable_any_whitespace": true}}') AS none,
	llm_generate('[   1]', json_schema => '{"type": "array"}', params => '{"structured_outputs": {"whitespace_pattern": " {0,3}"}}') AS own;
SET vllm.default_params = '{"regex": "[0-9]"}';
SELECT llm_generate('7'), llm_generate('x'), llm_generate('7', choice => '{a}') AS this_one, llm_generate('7', params => '{"response_format": {"type": "text"}}') AS none;
RESET vllm.default_params;

-- every function
SELECT (llm_generate_full('x', regex => 'ab')).text;
SELECT text, finish_reason FROM llm_generate_stream('x', regex => 'ab[cd]');
SELECT llm_chat_text('[{"role": "user", "content": "x"}]', regex => 'ab'), llm_ask('x', regex => 'ab');
SELECT llm_chat('[{"role": "user", "content": "x"}]', regex => 'ab')->>'content';
SELECT string_agg(text, '') FROM llm_chat_stream('[{"role": "user", "content": "x"}]', regex => 'ab[cd]');
SELECT llm_result(llm_submit('x', regex => 'ab')), llm_result(llm_submit_chat('[{"role": "user", "content": "x"}]', regex => 'ab'));
SELECT p, llm_generate(p, choice => '{a,b}') FROM (VALUES ('a'), ('b'), ('c'), (NULL)) v (p);
SELECT c, llm_generate('x', choice => c) FROM (VALUES ('{a}'::text[]), ('{b}'), (NULL)) v (c);
EXPLAIN (COSTS OFF) SELECT llm_generate(p, choice => '{a,b}') FROM (VALUES ('a'), ('b')) v (p);
-- max_tokens cuts
SELECT (r).text, (r).finish_reason FROM (SELECT llm_generate_full('x', regex => '[a-z]{20}', max_tokens => 5) AS r) s;

-- errors
SELECT o, struct_fails(format('SELECT llm_generate(''x'', %s)', o)) FROM (VALUES
	('regex => ''a'', choice => ''{a}'''),
	('regex => ''a'', params => ''{"response_format": {"type": "json_object"}}'''),
	('params => ''{"structured_outputs": {}}'''),
	('params => ''{"structured_outputs": {"json_object": false}}'''),
	('params => ''{"structured_outputs": {"jsn": {}}}'''),
	('params => ''{"structured_outputs": []}'''),
	('params => ''{"response_format": {"type": "xml"}}'''),
	('choice => ''{}'''), ('choice => ''{""}'''), ('regex => '''''), ('grammar => '' '''), ('json_schema => ''[]'''),
	('json_schema => ''{}'', params => ''{"structured_outputs": {"whitespace_pattern": "_*"}}'''),
	('json_schema => ''{"properties": {"a": false}, "required": ["a"], "type": "object"}'''),
	('regex => ''(a'''), ('regex => ''a(?!b)'''), ('regex => ''(a)\1'''),
	('grammar => ''root ::= nothing'''),
	('json_schema => ''{"type": "strange"}'''), ('json_schema => ''{"type": "array", "uniqueItems": true}'''),
	('regex => ''(((a{1000}){1000}){1000}){1000}'', max_tokens => 3'),
	('params => ''{"guided_json": {}}'''), ('params => ''{"guided_regex": "a"}'''), ('params => ''{"guided_choice": ["a"]}'''),
	('params => ''{"guided_grammar": "a"}'''), ('params => ''{"guided_decoding_backend": "x"}''')) v (o);
-- a grammar that doesn't compile fails each call that asks for it, and no other
SELECT g, CASE WHEN g % 2 = 0 THEN struct_fails('SELECT llm_generate(''x'', regex => ''(b'')') ELSE llm_generate('x', regex => 'b') END FROM generate_series(1, 4) g;
-- what the session says, and what a call says: kinds go as a group, options of structured_outputs hold beside a call's kind
CREATE FUNCTION pg_temp.shaped(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r text; m text; d text;
BEGIN
    EXECUTE query INTO r;
    RETURN r;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS m = MESSAGE_TEXT, d = PG_EXCEPTION_DETAIL;
    RETURN concat_ws(' | ', SQLSTATE, m, nullif(d, ''));
END $$;
CREATE TYPE pg_temp.pair AS (a int);
CREATE FUNCTION pg_temp.calls(defaults text) RETURNS TABLE (call text, answer text) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('vllm.default_params', defaults, false);
    RETURN QUERY SELECT v.c, pg_temp.shaped('SELECT ' || v.c) FROM (VALUES
        ($q$llm_generate('one two')$q$), ($q$llm_generate('one', json_schema => '{"const": {"a": 1}}')$q$),
        ($q$llm_generate('one', params => '{"structured_outputs": {"json": {"const": [1]}}}')$q$), ($q$llm_generate('one', regex => 'bc')$q$),
        ($q$llm_generate('one', choice => '{c}')$q$), ($q$llm_generate('one', params => '{"response_format": {"type": "text"}}')$q$),
        ($q$llm_generate_as('one', NULL::pg_temp.pair)$q$), ($q$llm_generate_as('one', NULL::pg_temp.pair, params => '{"regex": "x"}')$q$), ($q$llm_choose('one', '{a,b}') IS NOT NULL$q$),
        ($q$llm_chat('[{"role": "user", "content": "x"}]', tools => '[{"type": "function", "function": {"name": "f", "parameters": {"const": {"n": 1}}}}]', tool_choice => '"required"') ->> 'tool_calls' IS NOT NULL$q$),
        ($q$(SELECT text FROM llm_beam_search('one two', 1))$q$)) v (c);
END $$;
SELECT * FROM pg_temp.calls('{"structured_outputs": {"whitespace_pattern": "  "}}');
SELECT * FROM pg_temp.calls('{"json_schema": {"const": {"b": 2}}}');
SELECT * FROM pg_temp.calls('{"structured_outputs": {"json": {"const": {"b": 2}}, "whitespace_pattern": "  "}}');
SELECT * FROM pg_temp.calls('{"regex": "de", "structured_outputs": {"strict": false}}');
-- a response_format is a kind, too: of a call, in a chat, of rows that are sent together, beside structured_outputs, of the session
CREATE FUNCTION pg_temp.formats(defaults text) RETURNS TABLE (call text, answer text) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('vllm.default_params', defaults, false);
    RETURN QUERY SELECT v.c, pg_temp.shaped('SELECT ' || v.c) FROM (VALUES
        ($q$llm_generate('one', params => '{"response_format": {"type": "json_object"}}')$q$),
        ($q$llm_generate('one', params => '{"response_format": {"type": "json_schema", "json_schema": {"schema": {"const": {"a": 1}}}}}')$q$),
        ($q$llm_generate('one', params => '{"response_format": {"type": "structural_tag", "format": {"type": "const_string", "value": "tag"}}}')$q$),
        ($q$llm_generate('one', params => '{"response_format": {"type": "text"}}')$q$),
        ($q$llm_generate('one', params => '{"response_format": {"type": "text"}, "structured_outputs": {"strict": false}}')$q$),
        ($q$llm_chat('[{"role": "user", "content": "x"}]', params => '{"response_format": {"type": "json_schema", "json_schema": {"schema": {"const": [1, 2]}}}}') ->> 'content'$q$),
        ($q$string_agg(llm_generate(p, params => '{"response_format": {"type": "json_schema", "json_schema": {"schema": {"const": [1, 2]}}}}'), ' ') FROM (VALUES ('a'), ('b')) v (p)$q$),
        ($q$llm_generate('one', params => '{"response_format": {"type": "json_object"}, "structured_outputs": {"strict": false}}')$q$),
        ($q$llm_generate('one', params => '{"structured_outputs": {"strict": false}}')$q$)) v (c);
END $$;
SELECT * FROM pg_temp.formats('{"structured_outputs": {"disable_any_whitespace": true}}');
SELECT o, count(*) FILTER (WHERE answer !~ '^22') AS answers FROM (VALUES ('"disable_additional_properties": true'), ('"whitespace_pattern": " "'), ('"strict": false'),
    ('"enable_in_reasoning": true')) v (o), LATERAL pg_temp.formats('{"structured_outputs": {' || o || '}}') GROUP BY o ORDER BY o;
SET vllm.default_params = '{"response_format": {"type": "json_schema", "json_schema": {"schema": {"const": [1, 2]}}}, "structured_outputs": {"disable_any_whitespace": true}}';
SELECT llm_generate('x'), llm_generate('x', regex => '[ab]'), llm_generate_as('x', NULL::boolean);
SET vllm.default_params = '{"response_format": {"type": "text"}, "structured_outputs": {"strict": false}}';
SELECT llm_generate('x');
-- a call's options with the session's kind
SET vllm.default_params = '{"structured_outputs": {"json": {"const": [1, 2]}, "whitespace_pattern": "  "}}';
SELECT llm_generate('x'), llm_generate('x', params => '{"structured_outputs": {"whitespace_pattern": " "}}');
SET vllm.default_params = '{"json_schema": {"const": [1, 2]}}';
SELECT llm_generate('x', params => '{"structured_outputs": {"whitespace_pattern": "  "}}'),
    pg_temp.shaped($$SELECT llm_generate_as('x', NULL::boolean, params => '{"structured_outputs": {"strict": false}}')$$);
RESET vllm.default_params;
SELECT v1_completions('{"prompt": "x", "response_format": {"type": "json_schema", "json_schema": {"schema": {"const": [1, 2]}}}, "structured_outputs": {"disable_any_whitespace": true}}')->'choices'->0->>'text',
    v1_chat_completions('{"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json_object"}, "structured_outputs": {"disable_any_whitespace": true}}')->'choices'->0->'message'->>'content';

-- settings that nothing could use are refused when they are set
SET vllm.default_params = 'x';
SET vllm.default_params = '[1]';
SET vllm.default_params = '{"temperature": 3}';
SET vllm.default_params = '{"temperature": "hot"}';
SET vllm.default_params = '{"structured_outputs": {"jsn": {}}}';
SET vllm.default_params = '{"structured_outputs": 5}';
SET vllm.default_params = '{"logit_bias": [1]}';
SET vllm.default_params = '{"guided_json": {}}';
CREATE FUNCTION pg_temp.refused(value text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE d text;
BEGIN
    PERFORM set_config('vllm.default_params', value, true);
    RETURN 'taken';
EXCEPTION WHEN invalid_parameter_value THEN
    GET STACKED DIAGNOSTICS d = PG_EXCEPTION_DETAIL;
    RETURN d;
END $$;
SELECT v, pg_temp.refused(v) FROM (VALUES
    ('{"tool_choice": "foo"}'), ('{"tool_choice": 5}'), ('{"tool_choice": {"type": "function"}}'), ('{"tool_choice": {"type": "function", "function": {"name": ""}}}'),
    ('{"response_format": {"type": "foo"}}'), ('{"response_format": {}}'), ('{"response_format": 5}'), ('{"response_format": {"type": "json_schema"}}'),
    ('{"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}'), ('{"response_format": {"type": "json_schema", "json_schema": {"schema": {}, "strict": 1}}}'),
    ('{"response_format": {"type": "json_schema", "json_schema": {"shema": {}}}}'),
    ('{"logit_bias": {"x": 1}}'), ('{"logit_bias": {"5": "a"}}'), ('{"logit_bias": {"-1": 1}}'), ('{"logit_bias": {"4294967296": 1}}'), ('{"logit_bias": {"5": 1e999}}'),
    ('{"choice": []}'), ('{"json_schema": "x"}'), ('{"json_schema": 5}'), ('{"json_schema": "{"}'), ('{"regex": ""}'), ('{"grammar": " "}'),
    ('{"regex": "a", "choice": ["b"]}'), ('{"regex": "a", "response_format": {"type": "json_object"}}'), ('{"json_schema": {}, "structured_outputs": {"regex": "a"}}'),
    ('{"structured_outputs": {"regex": "a", "choice": ["b"]}}'), ('{"structured_outputs": {"choice": []}}'), ('{"structured_outputs": {"choice": [1]}}'),
    ('{"structured_outputs": {"json": 5}}'), ('{"structured_outputs": {"json": "x"}}'), ('{"structured_outputs": {"regex": 5}}'), ('{"structured_outputs": {"grammar": ""}}'),
    ('{"structured_outputs": {"json_object": false}}'), ('{"structured_outputs": {"strict": "yes"}}'), ('{"structured_outputs": {"disable_any_whitespace": 5}}'),
    ('{"structured_outputs": {"whitespace_pattern": 5}}'),
    ('{"on_error": "x"}'), ('{"output_kind": "x"}'), ('{"truncation_side": "up"}'), ('{"truncate": 0}'), ('{"truncate_prompt_tokens": 0}'), ('{"cache_salt": ""}'),
    ('{"allowed_token_ids": []}'), ('{"min_tokens": 10, "max_tokens": 5}'), ('{"n": 5, "best_of": 2}'), ('{"n": 5, "temperature": 0}'), ('{"detokenize": false, "stop": "x"}'),
    ('{"repetition_detection": {"foo": 1}}'), ('{"repetition_detection": {"max_pattern_size": -3}}'), ('{"repetition_detection": {"max_pattern_size": 1.5}}'),
    ('{"repetition_detection": {"max_pattern_size": 3}}'), ('{"repetition_detection": {"max_pattern_size": 3, "min_pattern_size": 4, "min_count": 2}}'), ('{"extra_args": 5}')) v (v);
-- what can be, also beside each other
SELECT v, pg_temp.refused(v) FROM (VALUES
    ('{"tool_choice": "none"}'), ('{"tool_choice": {"type": "function", "function": {"name": "f"}}}'), ('{"tool_choice": null}'), ('{"logit_bias": {}}'), ('{"logit_bias": {"5": -1e3, "0": 1}}'),
    ('{"json_schema": true}'), ('{"json_schema": " {\"type\": \"object\"}"}'), ('{"regex": " "}'), ('{"regex": "a", "response_format": {"type": "text"}, "structured_outputs": {"strict": true, "json": null}}'),
    ('{"structured_outputs": {}}'), ('{"structured_outputs": null, "choice": "a"}'), ('{"on_error": "null", "output_kind": "FINAL_ONLY", "truncation_side": "right", "truncate": -1, "cache_salt": "s"}'),
    ('{"repetition_detection": {"max_pattern_size": 3, "min_count": 2}}'), ('{"repetition_detection": {}}'), ('{"min_tokens": 5, "max_tokens": 5, "n": 2, "best_of": 2, "temperature": 0.5}')) v (v);
-- what only the engine's compiler of grammars knows is an error of the call, which says where the value is from
SELECT v, pg_temp.refused(v), struct_fails('SELECT llm_generate(''x'')') FROM (VALUES
    ('{"regex": "(("}'), ('{"grammar": "("}'), ('{"json_schema": {"type": "foo"}}'), ('{"structured_outputs": {"regex": "(("}}'),
    ('{"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "foo"}}}}')) v (v);
-- so does what this function or this call can't take
SELECT v, pg_temp.refused(v), struct_fails(q) FROM (VALUES
    ('{"n": 2}', $$SELECT llm_generate('x')$$), ('{"logprobs": 1}', $$SELECT llm_generate('x')$$), ('{"output_kind": "DELTA"}', $$SELECT llm_generate('x')$$),
    ('{"min_tokens": 9}', $$SELECT llm_generate('x', max_tokens => 3)$$), ('{"max_tokens": 3}', $$SELECT llm_generate('x', min_tokens => 9)$$),
    ('{"detokenize": false}', $$SELECT llm_generate('x', stop => '{x}')$$)) v (v, q);
SELECT pg_temp.refused('{"structured_outputs": {"whitespace_pattern": "x"}}'), struct_fails('SELECT llm_generate(''x'', json_schema => ''{}'')');
SHOW vllm.default_params;
SET vllm.tool_call_parser = 'hermess';
SET vllm.reasoning_parser = 'deepseek';
SET vllm.tool_call_parser = 'Hermes';
SHOW vllm.tool_call_parser;
RESET vllm.tool_call_parser;
DROP FUNCTION struct_fails;
