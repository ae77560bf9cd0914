-- Chat templates and chat functions (the fake engine's template: "role: content" lines).
SET client_min_messages = warning;
SELECT llm_render_chat('[{"role":"system","content":"Be kind."},{"role":"user","content":"Grüße \u4e16"}]');
SELECT llm_render_chat('[{"role":"user","content":"Hi"}]', add_generation_prompt => false);
SELECT llm_render_chat('[{"role":"user","content":"Hi"},{"role":"assistant","content":"I am  "}]', continue_final_message => true) || '|';
SELECT llm_render_chat(NULL) IS NULL AS a, llm_tokenize_chat(NULL) IS NULL AS b, llm_chat(NULL) IS NULL AS c,
       llm_chat_text(NULL) IS NULL AS d, llm_ask(NULL) IS NULL AS e;
-- a template of the request's own needs no model; kwargs are its variables and win
SELECT llm_render_chat('[{"role":"user","content":"Hi"}]', chat_template => '{{ bos_token }}{{ messages[0].content }}{{ x }}',
       chat_template_kwargs => '{"bos_token":"<B>","x":1.0}');
SELECT llm_render_chat('[]', chat_template => '{{ bos_token }}|{{ tools }}|{{ documents }}|{{ add_generation_prompt }}', model => 'tickets-2m');
SELECT llm_render_chat('[]', chat_template => '{{ bos_token }}{{ eos_token }}', chat_template_kwargs => '{"bos_token":"<B>"}', model => 'tickets-2m');
SELECT llm_render_chat('[]', '[{"type":"function","function":{"name":"f","parameters":{"b":1,"a":2}}}]', '{{ tools|tojson }}'),
       llm_render_chat('[]', chat_template => '{{ documents[0].title }}', documents => '[{"title":"T"}]');
-- normalized messages: arguments as objects, parts as text, reasoning's names
SELECT llm_render_chat('[{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"q\": [1, 2.50]}"}},{"function":{"name":"g","arguments":""}}]}]',
       chat_template => '{% for c in messages[0].tool_calls %}{{ c.function.arguments|tojson }}{{ c.function.arguments.q }};{% endfor %}{{ messages[0].content }}');
-- a template that puts texts together gets arguments as a text; one that fails either way says why it failed with objects
SELECT llm_render_chat('[{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":"{\"q\":  1}"}},{"function":{"name":"g","arguments":""}}]}]', chat_template => '{% for c in messages[0].tool_calls %}{{ c.function.name + ":" + c.function.arguments }};{% endfor %}');
SELECT llm_render_chat('[{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}]', chat_template => '{{ 1 + messages[0].tool_calls[0].function.arguments }}');
SELECT llm_render_chat('[{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":"{"}}]}]', chat_template => '{{ messages[0].tool_calls[0].function.arguments }}');
SELECT llm_render_chat('[{"role":"user","content":["a",{"type":"text","text":"b"},{"type":"refusal","refusal":"c"}]}]', chat_template => '{{ messages[0].content }}'),
       llm_render_chat('[{"role":"user","content":"a"}]', chat_template => '{% for m in messages %}{% for p in m.content %}{{ p.type }}={{ p.text }}{% endfor %}{% endfor %}'),
       llm_render_chat('[{"role":"assistant","content":"x","reasoning":"r"}]', chat_template => '{{ messages[0].reasoning_content }}{{ messages[0].thinking }}');
SELECT name, llm_render_chat(json_build_array(json_build_object('role', 'assistant', 'content', 'x', name, 'r')), chat_template => '{% set m = messages[0] %}{{ m.reasoning }}{{ m.reasoning_content }}{{ m.thinking }}')
  FROM (VALUES ('reasoning'), ('reasoning_content'), ('thinking')) v(name);
SELECT llm_render_chat('[{"role":"assistant","content":"x","reasoning":"new","reasoning_content":"old"}]', chat_template => '{{ messages[0].reasoning }} {{ messages[0].reasoning_content }}') AS both,
       llm_render_chat('[{"role":"assistant","content":"x","reasoning":"","reasoning_content":"old"}]', chat_template => '{{ messages[0].reasoning }} {{ messages[0].reasoning_content }}') AS empty,
       llm_render_chat('[{"role":"assistant","content":"x","reasoning":null}]', chat_template => '{{ messages[0].reasoning is none }} {{ messages[0].thinking is defined }}') AS none,
       llm_render_chat('[{"role":"assistant","content":"x","reasoning":"r","tool_calls":[{"function":{"name":"f","arguments":""}}]}]', chat_template => '{{ messages[0].reasoning }} {{ messages[0].thinking is defined }}') AS called;
-- content as text or in parts: as the template goes through it, or as asked for
SELECT f, llm_render_chat('[{"role":"user","content":["a",{"type":"text","text":"b"}]},{"role":"user","content":"c"}]',
       chat_template => '{{ messages[0].content|tojson }}{{ messages[1].content|tojson }}', content_format => f)
  FROM (VALUES (NULL), ('auto'), ('string'), ('openai')) v(f);
SELECT llm_create_model('parts', '/fake/a', '{"content_format": "openai", "chat_template": "{{ messages[0].content|tojson }}"}');
SELECT llm_render_chat('[{"role":"user","content":"a"}]', model => 'parts'), llm_render_chat('[{"role":"user","content":"a"}]', model => 'parts', content_format => 'string'),
       llm_chat_text('[{"role":"user","content":"a"}]', model => 'parts', content_format => 'auto');
SELECT llm_drop_model('parts');
SELECT fails($$SELECT llm_render_chat('[]', chat_template => '{{ 1 }}', content_format => 'json')$$),
       fails($$SELECT llm_create_model('parts', '/fake/a', '{"content_format": "json"}')$$),
       fails($$SELECT llm_render_chat('[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]', chat_template => '{{ 1 }}', content_format => 'openai')$$);
-- the name of one of the model's templates, or else a template
SELECT llm_render_chat('[{"role":"user","content":"Hi"}]', chat_template => 'default'), llm_render_chat('[]', chat_template => 'no_such');
-- what a template raises, with its line
SELECT fails($$SELECT llm_render_chat('[]', chat_template => E'a\n{{ raise_exception("not so") }}')$$),
       fails($$SELECT llm_render_chat('[]', chat_template => E'a\n\n{{ foo.bar }}')$$),
       fails($$SELECT llm_render_chat('[]', chat_template => '{% if x %}')$$),
       fails($$SELECT llm_render_chat('[]', chat_template => '{{ x|nope }}')$$);
SELECT fails($$SELECT llm_render_chat('[]', chat_template => '{% include "x" %}')$$),
       fails($$SELECT llm_render_chat('[]', chat_template => '{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}')$$),
       fails($$SELECT llm_render_chat('[]', chat_template => '{{ "x" * 1000000000 }}')$$);
SELECT fails($$SELECT llm_chat('{"role":"user"}')$$), fails($$SELECT llm_chat('[1]')$$), fails($$SELECT llm_chat('null')$$),
       fails($$SELECT llm_chat('[{"content":"x"}]')$$), fails($$SELECT llm_chat('[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]')$$);
SELECT fails($$SELECT llm_chat('[{"role":"user","content":"x"}]', add_generation_prompt => true, continue_final_message => true)$$),
       fails($$SELECT llm_chat('[]', continue_final_message => true)$$),
       fails($$SELECT llm_chat('[{"role":"user","content":"x"}]', chat_template_kwargs => '{"messages":1}')$$),
       fails($$SELECT llm_chat('[{"role":"user","content":"x"}]', chat_template_kwargs => '[]')$$),
       fails($$SELECT llm_chat('[{"role":"user","content":"x"}]', tools => '{}')$$),
       fails($$SELECT llm_chat('[{"role":"user","content":"x"}]', chat_template => ' ', params => '{"tool_choice":"auto"}')$$),
       fails($$SELECT llm_chat('[]', chat_template => '')$$),
       fails($$SELECT llm_chat('[{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":"{"}}]}]')$$);
-- tokens, answers
SELECT llm_detokenize(llm_tokenize_chat('[{"role":"user","content":"Hi"}]'));
SELECT llm_chat('[{"role":"user","content":"say \"it\""}]'), llm_chat('[{"role":"user","content":"a b c"}]', max_tokens => 2)->>'finish_reason' AS reason;
SELECT llm_chat_text('[{"role":"user","content":"a b c"}]', 2), llm_chat_text('[{"role":"user","content":"x"}]', chat_template => '{{ messages|length }} m');
-- without the space that templates leave to the model, unless the answer continues a message
SELECT llm_ask(E'@say: \n\tneutral x@end') = 'neutral x' AS trimmed, llm_chat_text('[{"role": "user", "content": "@say: neutral@end"}]') = 'neutral' AS chat, llm_ask('@say:  @end') = '' AS nothing,
       llm_reduce(ARRAY['@say: neutral@end'], 'I') = 'neutral' AS reduce, llm_result(llm_submit_chat('[{"role": "user", "content": "@say: neutral@end"}]')) = 'neutral' AS submit,
       llm_agg(x, 'I') = 'neutral' AS agg, llm_summarize_agg(x) = 'neutral' AS summarize, llm_generate(min(x)) = ' neutral' AS plain FROM (VALUES ('@say: neutral@end')) v(x);
SELECT count(*) FILTER (WHERE llm_chat_text(json_build_array(json_build_object('role', 'user', 'content', '@say: ' || i || '@end'))) = i::text) AS batched,
       count(*) FILTER (WHERE llm_reduce(ARRAY['@say: ' || i || '@end'], 'I') = i::text) AS reduced FROM generate_series(1, 20) i;
SELECT quote_literal(llm_chat_text(m, continue_final_message => true)) AS text, quote_literal(llm_result(llm_submit_chat(m, continue_final_message => true))) AS submit, quote_literal(llm_chat(m)->>'content') AS message
  FROM (VALUES ('[{"role": "user", "content": "x"}, {"role": "assistant", "content": "@say: more@end"}]')) v(m);
SELECT llm_ask('why', 'be brief'), llm_ask('why'), llm_ask('why', NULL, 1), llm_ask('a "q" \ ', chat_template => '{{ messages[0].content }}', params => '{"stop":"Q"}');
SELECT string_agg(text, '|' ORDER BY seq), max(finish_reason) FROM llm_chat_stream('[{"role":"user","content":"one two"}]');
SELECT count(*) FROM llm_chat_stream(NULL);
SELECT llm_chat_agg(role, content ORDER BY n), llm_chat_agg(role, content) FILTER (WHERE false) IS NULL AS none
  FROM (VALUES (2, 'user', 'say "x"'), (1, 'system', NULL)) v(n, role, content);
SELECT fails($$SELECT llm_chat_agg(NULL, 'x')$$);
SELECT llm_chat_text(llm_chat_agg(role, content)) FROM (VALUES (1, 'system', 's1'), (1, 'user', 'u1'), (2, 'user', 'u2')) v(g, role, content) GROUP BY g ORDER BY g;
-- many rows are batched like llm_generate's
EXPLAIN (COSTS OFF) SELECT llm_ask('q' || i, 's' || i % 2) FROM generate_series(1, 4) i;
SELECT llm_ask('q' || i, 's' || i % 2), llm_chat_text(llm_chat_agg('user', 'n' || i) OVER (ORDER BY i)) FROM generate_series(1, 3) i;
SELECT count(*), count(DISTINCT llm_render_chat(json_build_array(json_build_object('role', 'user', 'content', i)), chat_template => '{{ messages[0].content }}')) FROM generate_series(1, 200) i;
-- templates of models: by option, as text or file; or none
SELECT llm_create_model('templ', '/fake/a', '{"chat_template": "[{{ messages[0].content }}{{ eos_token }}]"}');
SELECT llm_render_chat('[{"role":"user","content":"Hi"}]', model => 'templ'), llm_chat_text('[{"role":"user","content":"Hi"}]', model => 'templ');
SELECT fails($$SELECT llm_create_model('bad', '/fake/a', '{"chat_template": "{% if %}"}')$$),
       fails($$SELECT llm_create_model('bad', '/fake/a', '{"chat_template": "/no/such/file.jinja"}')$$),
       fails($$SELECT llm_create_model('bad', '/fake/a', '{"chat_template": 5}')$$);
SELECT llm_create_model('mute', '/fake/mute');
SELECT fails($$SELECT llm_render_chat('[{"role":"user","content":"Hi"}]', model => 'mute')$$);
SELECT llm_drop_model('templ'), llm_drop_model('mute');
SELECT fails($$SELECT llm_ask('x', model => 'nobody')$$);
-- cancelled while the template runs, and in mid-answer
SET statement_timeout = '300ms';
SELECT llm_ask('@hang');
RESET statement_timeout;
SELECT left_behind();
