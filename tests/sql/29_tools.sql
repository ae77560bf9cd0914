-- Tool calls and reasoning of a text, without a model.
\set SHOW_CONTEXT never
\pset format unaligned
SELECT llm_parse_tool_calls('Let me see.<tool_call>{"name": "f", "arguments": {"a": 1, "b": "é"}}</tool_call>', 'hermes') AS r;
SELECT llm_parse_tool_calls('[f(a=1), g(b=''x'')]', 'pythonic') -> 'tool_calls' -> 1 -> 'function' AS g;
SELECT llm_parse_tool_calls('<tool_call>{"name": broken</tool_call>', 'hermes') AS r;
SELECT llm_parse_tool_calls('no call', 'mistral') AS r;
SELECT length(llm_parse_tool_calls('[TOOL_CALLS]f{"a": 1}', 'mistral') -> 'tool_calls' -> 0 ->> 'id') AS mistral,
       llm_parse_tool_calls('<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>', 'kimi_k2') -> 'tool_calls' -> 0 ->> 'id' AS kimi;
-- types by the tools' schemas
SELECT llm_parse_tool_calls('<tool_call><function=f><parameter=n>5</parameter></function></tool_call>', 'qwen3_coder', tools) -> 'tool_calls' -> 0 -> 'function' ->> 'arguments' AS arguments
FROM (VALUES (NULL::json), ('[{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}}]'),
      ('[{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"n": {"type": "string"}}}}}]')) t(tools);
-- all of a call's arguments or none of it; whole calls before one that is cut are kept
SELECT r -> 'tool_calls' -> 0 -> 'function' ->> 'arguments' AS arguments, r ->> 'content' AS content
FROM (VALUES ('<parameter=a>1</parameter>,<parameter=b>2</parameter>'), ('with: <parameter=a>1</parameter>'), ('<parameter=a>1</parameter><parameter b>2</parameter>'),
      ('<parameter=a>1</parameter><parameter=a>2</parameter>')) t(x), llm_parse_tool_calls('<tool_call><function=f>' || x || '</function></tool_call>', 'qwen3_coder') r;
SELECT r -> 'tool_calls' -> 0 ->> 'id' AS id, json_array_length(r -> 'tool_calls') AS n, r ->> 'content' AS content
FROM llm_parse_tool_calls('<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{"a": ', 'kimi_k2') r;
SELECT r -> 'tool_calls' -> 0 -> 'function' ->> 'arguments' AS arguments, r ->> 'content' AS content
FROM (VALUES ('qwen3_coder', '<tool_call><function=f>{"a": 1}</function></tool_call>'), ('qwen3_coder', '<tool_call><function=f><parameter=a>1</parameter></function>, <parameter=b>2</parameter></tool_call>'),
      ('glm45', E'<tool_call>f\n{"a": 1}</tool_call>'), ('mistral', '[TOOL_CALLS]f{"a": 1}, "b": 2}'), ('internlm', '<|action_start|><|plugin|>{"name": "f", "args": {"a": 1}}<|action_end|>')) t(p, x), llm_parse_tool_calls(x, p) r;
SELECT r -> 'tool_calls' -> 0 -> 'function' ->> 'arguments' AS arguments, r ->> 'content' AS content
FROM (VALUES ('{"a": 1, "\u0061": 2}'), ('{"a": {"b": 1, "b": 2}}'), ('{"a": {"a": 1}, "b": [{"a": 1}, {"a": 1}]}')) t(x), llm_parse_tool_calls('<tool_call>{"name": "f", "arguments": ' || x || '}</tool_call>', 'hermes') r;
-- equal texts, equal ids
SELECT llm_parse_tool_calls(x, 'hermes')::text = llm_parse_tool_calls(x, 'hermes')::text AS same FROM (VALUES ('<tool_call>{"name": "f", "arguments": {}}')) t(x);
SELECT * FROM llm_parse_reasoning('<think>I think.</think>Hello.', 'deepseek_r1');
SELECT parser, kwargs, (llm_parse_reasoning('a</think>b', parser, kwargs)).*
FROM (VALUES ('qwen3', NULL::json), ('deepseek_v3', NULL), ('deepseek_v3', '{"thinking": true}'), ('glm45', '{"enable_thinking": false}'), ('mistral', NULL), ('identity', NULL)) t(parser, kwargs);
SELECT * FROM llm_parse_reasoning('no end', 'deepseek_r1');
SELECT llm_parse_tool_calls(NULL, 'hermes') IS NULL AS n1, llm_parse_tool_calls('x', NULL) IS NULL AS n2, llm_parse_reasoning(NULL, 'qwen3') IS NULL AS n3;
SELECT llm_parse_tool_calls('x', 'herms');
SELECT llm_parse_reasoning('x', 'deep');
-- rows of one statement, each with a parser of its own
SELECT count(*), count(DISTINCT r::text) FROM (SELECT llm_parse_tool_calls('<tool_call>{"name": "f' || i % 7 || '", "arguments": {}}</tool_call>', CASE WHEN i % 2 = 0 THEN 'hermes' ELSE 'jamba' END) AS r FROM generate_series(1, 500) i) t;
-- chats: the answer taken apart (the fake model says what it is told to)
CREATE FUNCTION pg_temp.say(t text) RETURNS json LANGUAGE sql AS $$ SELECT json_build_array(json_build_object('role', 'user', 'content', '@say:' || t || '@end')) $$;
CREATE FUNCTION pg_temp.parts(answer json) RETURNS text LANGUAGE sql AS $$
    SELECT format('content %s reasoning %s calls %s finish %s', answer -> 'content', answer -> 'reasoning',
                  (SELECT string_agg(c -> 'function' ->> 'name' || (c -> 'function' ->> 'arguments'), ' ') FROM json_array_elements(answer -> 'tool_calls') c), answer ->> 'finish_reason') $$;
\set tools '[{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}}, {"type": "function", "function": {"name": "g"}}]'
SET vllm.default_params = '{"temperature": 0}';
SELECT pg_temp.parts(llm_chat(pg_temp.say('<think>I think.</think>Hello you.')));
SET vllm.reasoning_parser = 'deepseek_r1';
SELECT pg_temp.parts(llm_chat(pg_temp.say('<think>I think.</think>Hello you.')));
SELECT pg_temp.parts(llm_chat(pg_temp.say('<think>I think.</think>Hello you.'), include_reasoning => false));
SELECT llm_chat_text(pg_temp.say('<think>I think.</think>Hello you.')), llm_chat_text(pg_temp.say('I think')) AS cut;
SELECT llm_ask('@say:I think.</think>Hello you.@end');
SELECT pg_temp.parts(llm_chat(pg_temp.say('I think and think.'), max_tokens => 2));
SELECT pg_temp.parts(llm_chat(pg_temp.say('I think.<tool_call>{"name": "f", "arguments": {}}</tool_call>'), tools => :'tools'));
SET vllm.tool_call_parser = 'hermes';
SELECT pg_temp.parts(llm_chat(pg_temp.say('I think. </think>Let me see. <tool_call>{"name": "f", "arguments": {"n": 1}}</tool_call><tool_call> {"name": "g", "arguments": {}} </tool_call>'), tools => :'tools'));
SELECT pg_temp.parts(llm_chat(pg_temp.say('</think>Let me see. <tool_call>{"name": "f", "arguments": {"n": 1}}</tool_call><tool_call> {"name": "g", "arguments": {}} </tool_call>'), tools => :'tools', parallel_tool_calls => false));
SELECT pg_temp.parts(llm_chat(pg_temp.say('</think><tool_call>{"name": "f"'), tools => :'tools'));
SELECT pg_temp.parts(llm_chat(pg_temp.say('</think><tool_call>{"name": "f", "arguments": {}}</tool_call>'), tools => :'tools', tool_choice => '"none"'));
SELECT pg_temp.parts(llm_chat(pg_temp.say('</think><tool_call>{"name": "f", "arguments": {}}</tool_call>')));
-- the same ids each time, others for another prompt
SELECT count(DISTINCT llm_chat(pg_temp.say('</think>' || x || '<tool_call>{"name": "f", "arguments": {}}</tool_call>'), tools => :'tools') -> 'tool_calls' -> 0 ->> 'id') FROM (VALUES ('a'), ('a'), ('b')) t(x);
-- streams
SELECT seq, text, finish_reason FROM llm_chat_stream(pg_temp.say('I think. </think>Let me see. <tool_call>{"name": "f", "arguments": {"n": 1}}</tool_call>'), tools => :'tools') WHERE text <> '' OR finish_reason IS NOT NULL;
-- thoughts and calls as they come; the pieces together are what llm_chat gives
SELECT seq, text, finish_reason, reasoning, regexp_replace(tool_calls::text, '[0-9a-f]{32}', 'ID') AS tool_calls
FROM llm_chat_stream(pg_temp.say('I think. </think>Let me see. <tool_call>{"name": "f", "arguments": {"n": 1, "s": "one two"}}</tool_call>'), tools => :'tools');
CREATE FUNCTION pg_temp.streamed(messages json, tools json, tool_choice json DEFAULT NULL, max_tokens int DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
    WITH rows AS (SELECT * FROM llm_chat_stream(messages, tools => tools, tool_choice => tool_choice, max_tokens => max_tokens)),
         pieces AS (SELECT seq, n, c ->> 'index' AS i, c -> 'function' ->> 'name' AS name, c -> 'function' ->> 'arguments' AS arguments
                    FROM rows, json_array_elements(tool_calls) WITH ORDINALITY AS c (c, n)),
         calls AS (SELECT i, string_agg(name, '' ORDER BY seq, n) || string_agg(arguments, '' ORDER BY seq, n) AS call, count(*) AS n FROM pieces GROUP BY i)
    SELECT format('content %s reasoning %s calls %s finish %s, in pieces: %s',
                  coalesce(to_json(nullif(string_agg(text, '' ORDER BY seq), ''))::text, 'null'), to_json(string_agg(reasoning, '' ORDER BY seq)),
                  (SELECT string_agg(call, ' ' ORDER BY i) FROM calls), max(finish_reason), (SELECT max(n) > 3 FROM calls)) FROM rows $$;
SELECT split_part(s, ', in pieces', 1) = pg_temp.parts(llm_chat(t, tools => :'tools')) AS same, s
FROM (VALUES (pg_temp.say('Hm. </think>So: <tool_call> {"name": "f", "arguments": {"s": "one two three four"}} </tool_call> <tool_call> {"name": "g", "arguments": {}} </tool_call>'))) a(t), pg_temp.streamed(t, :'tools') s;
-- what is cut is told in part, which is no JSON, and is content then
SELECT pg_temp.streamed(pg_temp.say('</think><tool_call> {"name": "f", "arguments": {"s": "one two three four five six'), :'tools');
-- cut by max_tokens in a further call: the whole one stays, the reason is length
SELECT n, pg_temp.parts(llm_chat(pg_temp.say(t), tools => :'tools', max_tokens => n)), pg_temp.streamed(pg_temp.say(t), :'tools', NULL, n)
FROM (VALUES ('</think><tool_call>{"name": "f", "arguments": {}}</tool_call> <tool_call>{"name": "g", "arguments": {}}</tool_call> tail')) x(t), unnest(ARRAY[4, 5, 6, 9]) n;
-- what the model's options say comes first
SELECT llm_create_model('parsing', '/fake/parsing', '{"tool_call_parser": "mistral", "reasoning_parser": "identity"}');
SELECT pg_temp.parts(llm_chat(pg_temp.say('Look. [TOOL_CALLS]f{"n": 2}'), tools => :'tools', model => 'parsing'));
SELECT llm_create_model('wrong', '/fake/wrong', '{"tool_call_parser": "none such"}');
SELECT llm_drop_model('parsing');
-- mistakes
SELECT llm_chat(pg_temp.say('x'), tool_choice => '"auto"');
SELECT llm_chat(pg_temp.say('x'), tools => :'tools', tool_choice => '"any"');
SELECT llm_chat(pg_temp.say('x'), tools => :'tools', tool_choice => '{"type": "function"}');
SELECT llm_generate('x', params => '{"tool_choice": "auto"}');
SET vllm.tool_call_parser = '';
SELECT llm_chat(pg_temp.say('x'), tools => :'tools', tool_choice => '"auto"');
SET vllm.tool_call_parser = 'nonsense';
RESET vllm.tool_call_parser;
RESET vllm.reasoning_parser;
-- a variable of the template
SELECT llm_chat_text('[{"role": "user", "content": "x"}]', chat_template => '{{ reasoning_effort }}', reasoning_effort => 'low'),
       llm_chat_text('[{"role": "user", "content": "x"}]', chat_template => '{{ reasoning_effort }}', reasoning_effort => 'low', chat_template_kwargs => '{"reasoning_effort": "high"}');
-- calls that must be made (the fake model writes the shortest text that the schema lets it)
SELECT pg_temp.parts(llm_chat(pg_temp.say('[{"name": "f", "parameters": {"n": 1}}, {"name": "g", "parameters": {}}]'), tools => :'tools', tool_choice => '"required"'));
SELECT pg_temp.parts(llm_chat(pg_temp.say('[{"name": "f", "parameters": {"n": 1}}, {"name": "g", "parameters": {}}]'), tools => :'tools', tool_choice => '"required"', max_tokens => 3));
SELECT pg_temp.parts(llm_chat(pg_temp.say('{"n":7}'), tools => :'tools', tool_choice => '{"type": "function", "function": {"name": "f"}}'));
SELECT split_part(s, ', in pieces', 1) = pg_temp.parts(llm_chat(pg_temp.say('x'), tools => :'tools', tool_choice => choice)) AS same, s
FROM (VALUES ('"required"'::json), ('{"type": "function", "function": {"name": "f"}}')) a(choice), pg_temp.streamed(pg_temp.say('x'), :'tools', choice) s;
SELECT pg_temp.streamed(pg_temp.say('x'), :'tools', choice, 4) FROM (VALUES ('"required"'::json), ('{"type": "function", "function": {"name": "f"}}')) a(choice);
SELECT llm_chat(pg_temp.say('x'), tools => :'tools', tool_choice => '{"type": "function", "function": {"name": "h"}}');
SELECT llm_chat(pg_temp.say('x'), tools => '[]', tool_choice => '"required"');
SELECT llm_chat(pg_temp.say('x'), tools => '[{"type": "function"}]', tool_choice => '"required"');
SELECT llm_chat(pg_temp.say('x'), tools => :'tools', tool_choice => '"required"', json_schema => '{}');
SELECT llm_chat(pg_temp.say('x'), tools => :'tools', tool_choice => '"required"', regex => 'a');
-- "#" is the tool's own schema, and numbers keep their digits
SELECT pg_temp.parts(llm_chat('[{"role": "user", "content": "x"}]', tool_choice => '"required"', tools => '[{"function": {"name": "a", "parameters": {"type": "object",
  "properties": {"y": {"$ref": "#/$defs/d"}, "z": {"$ref": "#/properties/y"}, "x": {"$ref": "#"}}, "required": ["y", "z"], "$defs": {"d": {"const": 9007199254740993}}}}}]'));
SELECT llm_chat(pg_temp.say('x'), tool_choice => '"required"', tools => '[{"function": {"name": "a", "parameters": {"$defs": {"d": {"type": "integer"}}}}}, {"function": {"name": "b", "parameters": {"$defs": {"d": {"type": "string"}}}}}]');
-- how long a model may think: what the fake model can't show is tests/t/088_thoughts.pl's
SELECT llm_chat(pg_temp.say('x'), thinking_token_budget => 5);
SET vllm.reasoning_parser = 'granite';
SELECT llm_chat(pg_temp.say('x'), thinking_token_budget => 5);
SET vllm.reasoning_parser = 'deepseek_r1';
SELECT llm_chat_text(pg_temp.say('a</think>b'), thinking_token_budget => 5) AS set, llm_chat_text(pg_temp.say('a</think>b'), thinking_token_budget => -1) AS unlimited,
       llm_generate('x', params => '{"thinking_token_budget": 0}') AS plain;
SELECT llm_chat(pg_temp.say('x'), thinking_token_budget => -2);
SELECT llm_generate('x', params => '{"thinking_token_budget": 1.5}');
SELECT llm_generate('x', params => '{"thinking_token_budget": true}');
SELECT llm_chat(pg_temp.say('x'), thinking_token_budget => 5, params => '{"structured_outputs": {"regex": "a", "enable_in_reasoning": true}}');
-- a schema holds at once if thoughts are not wanted
SELECT pg_temp.parts(llm_chat(pg_temp.say('{"n":7}'), json_schema => '{"type": "object"}', include_reasoning => false));
RESET vllm.reasoning_parser;
-- thinking between calls: an answer goes back as it is, and the template finds its thoughts, calls and results; a later answer has its own thoughts only
SET vllm.reasoning_parser = 'minimax_m2';
SET vllm.tool_call_parser = 'hermes';
\set template '{%- for m in messages %}[{{ m.role }}]{% if m.role == "assistant" %}{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content or "" }}{% for c in m.tool_calls or [] %}<call {{ c.id }} {{ c.function.name }}{{ c.function.arguments | tojson }}>{% endfor %}{% elif m.role == "tool" %}<{{ m.tool_call_id }} {{ m.name }}: {{ m.content }}>{% else %}{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}[assistant]<think>{% endif %}'
CREATE TEMP TABLE turn (n serial, m json);
INSERT INTO turn (m) VALUES ('{"role": "user", "content": "@say:It is first. </think>I look.<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": 1}}</tool_call>@end"}');
INSERT INTO turn (m) SELECT llm_chat(json_agg(m ORDER BY n), tools => :'tools', chat_template => :'template') FROM turn;
INSERT INTO turn (m) SELECT json_build_object('role', 'tool', 'tool_call_id', m -> 'tool_calls' -> 0 ->> 'id', 'name', 'f', 'content', 'sunny') FROM turn WHERE n = 2;
SELECT pg_temp.parts(m) FROM turn WHERE n = 2;
SELECT regexp_replace(llm_render_chat(json_agg(m ORDER BY n), :'tools', :'template'), 'chatcmpl-tool-[0-9a-f]{32}', 'ID', 'g') FROM turn;
UPDATE turn SET m = '{"role": "user", "content": "@say:It is sunny. </think>Take a hat.@end"}' WHERE n = 1;
SELECT pg_temp.parts(llm_chat(json_agg(m ORDER BY n), tools => :'tools', chat_template => :'template')) FROM turn;
RESET vllm.tool_call_parser;
RESET vllm.reasoning_parser;
-- reasoning and calls in columns of their own, of several answers and of several conversations
SET vllm.reasoning_parser = 'deepseek_r1';
SET vllm.tool_call_parser = 'hermes';
SELECT c.index, c.text, c.reasoning, c.tool_calls -> 0 -> 'function' ->> 'name' AS called, c.finish_reason
  FROM unnest((llm_chat_full(pg_temp.say('I think.</think>Hello'), n => 3, temperature => 1, seed => 5)).completions) c;
SELECT (o.completions[1]).text IS NULL AS no_text, (o.completions[1]).reasoning, json_array_length((o.completions[1]).tool_calls) AS calls, (o.completions[1]).finish_reason,
       (o.usage).prompt_tokens > 0 AS usage, o.prompt, o.model, cardinality((o.completions[1]).logprobs) > 0 AS logprobs
  FROM llm_chat_full(pg_temp.say('I think.</think><tool_call>{"name": "f", "arguments": {"n": 1}}</tool_call>'), tools => :'tools', logprobs => 1) o;
SELECT prompt_index, index, text, reasoning, tool_calls, finish_reason FROM llm_chat_batch(ARRAY[pg_temp.say('A.</think>a'), NULL, pg_temp.say('B.</think>b')], n => 2, temperature => 1, seed => 1);
SELECT count(*) FROM llm_chat_batch('{}');
SELECT llm_chat(pg_temp.say('x'), params => '{"n": 2}');
SELECT text, reasoning FROM llm_completions('@say:I think.</think>x@end');
RESET vllm.tool_call_parser;
RESET vllm.reasoning_parser;
-- tools that may not be called: does the template see them?
SELECT llm_create_model('shy', '/fake/shy', '{"exclude_tools_when_tool_choice_none": true}');
SELECT m AS model, c::text AS choice, llm_chat_text('[{"role": "user", "content": "x"}]', tools => :'tools', tool_choice => c, model => m, chat_template => '{{ tools | length if tools else "none" }}')
  FROM (VALUES ('tickets-2m', '"none"'::json), ('shy', '"none"'), ('shy', NULL)) v(m, c);
SELECT llm_drop_model('shy');
SELECT llm_create_model('shy', '/fake/shy', '{"exclude_tools_when_tool_choice_none": 1}');
