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
DROP FUNCTION struct_fails;

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
RESET vllm.default_params;
-- settings that nothing could use are refused when they are set
SET vllm.default_params = 'x';
SET vllm.default_params = '[1]';
SET vllm.default_params = '{"temprature": 1}';
SET vllm.default_params = '{"temperature": 3}';
SET vllm.default_params = '{"temperature": "hot"}';
SET vllm.default_params = '{"structured_outputs": {"jsn": {}}}';
SET vllm.default_params = '{"structured_outputs": 5}';
SET vllm.default_params = '{"logit_bias": [1]}';
SET vllm.default_params = '{"guided_json": {}}';
SHOW vllm.default_params;
SET vllm.tool_call_parser = 'hermess';
SET vllm.reasoning_parser = 'deepseek';
SET vllm.tool_call_parser = 'Hermes';
SHOW vllm.tool_call_parser;
RESET vllm.tool_call_parser;
