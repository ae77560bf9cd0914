-- Options: named arguments, params, session defaults; every bad value is refused.
SET client_min_messages = warning;
SELECT vllm.control('log-clear');
SELECT llm_generate('a', max_tokens => 5, temperature => 0);
SELECT llm_generate('b', temperature => 0.5, seed => 42);
SELECT llm_generate('c d', stop => ARRAY['D', 'x'], min_tokens => 0, ignore_eos => true, top_p => 0.9, top_k => 5,
                    min_p => 0.1, stop_token_ids => '{1,2}');
SELECT llm_generate('e', top_k => -1, top_p => 1, seed => -1);
SELECT * FROM request_log();

-- order of precedence: argument, params, vllm.default_params, vllm.default_max_tokens
SELECT vllm.control('log-clear');
SET vllm.default_params = '{"max_tokens": 30, "temperature": 0.25, "seed": 7}';
SELECT llm_generate('p1');
SELECT llm_generate('p2', params => '{"max_tokens": 20}');
SELECT llm_generate('p3', params => '{"max_tokens": 20, "temperature": 0}', max_tokens => 10);
SELECT llm_generate('p4', params => '{"max_tokens": null, "seed": 8}');
SET vllm.default_max_tokens = 99;
SET vllm.default_params = '{"temperature": 0}';
SELECT llm_generate('p5');
SET vllm.default_params = '';
SELECT llm_generate('p6');
SELECT llm_generate('p7', max_tokens => 3);
RESET vllm.default_params;
RESET vllm.default_max_tokens;
SELECT * FROM request_log();

-- what params alone can say
SELECT llm_generate('one two three', params => '{"stop": "TWO", "include_stop_str_in_output": true}');
SELECT llm_generate('one two three', params => '{"stop": ["THREE", "TWO"]}');
SELECT llm_generate('text', params => '{"detokenize": false}') = '' AS no_text;
SELECT llm_generate('ok', params => '{"n": 1, "skip_special_tokens": false, "add_special_tokens": false, "timeout_ms": 60000}');
SELECT llm_generate('ok', params => '{"model": "tickets-2m"}');
SELECT llm_generate('ok', params => '{}');

-- unknown keys: the known ones are listed, with the one that was meant
CREATE FUNCTION refuses(call text) RETURNS text LANGUAGE sql AS $$
    SELECT regexp_replace(fails(call), '(Known parameters: max_tokens, temperature), [a-z_, ]*\.$', '\1, ...')
$$;
SELECT refuses($$SELECT llm_generate('x', params => '{"max_tokenz": 5}')$$);
SELECT refuses($$SELECT llm_generate('x', params => '{"Temperature": 5}')$$);
SELECT refuses($$SELECT llm_generate('x', params => '{"completely_different": 5}')$$);
SELECT fails($$SELECT llm_generate('x', max_tokenz => 5)$$) LIKE '42883 %';
SELECT refuses($$SET vllm.default_params = '{"top_q": 0.5}'$$);
DROP FUNCTION refuses;
-- known, but not in this version
SELECT fails(format('SELECT llm_generate(''x'', params => %L)', p)) FROM (VALUES
    ('{"n": 2}'), ('{"logprobs": 5}')) v (p);

SELECT o, fails(format('SELECT llm_generate(''x'', %s)', o)) FROM (VALUES
    ('priority => 1'),
    ('cache_salt => ''s''')) v (o);

-- a function of our own with options in an order of its own
CREATE FUNCTION my_generate(prompt text, temperature float8, stranger int, params json, max_tokens int) RETURNS text
AS '$libdir/vllm_pg', 'llm_generate' LANGUAGE C;
SELECT vllm.control('log-clear');
SELECT my_generate('own order', 0.25, 5, '{"top_p": 0.5}', 7);
SELECT my_generate('own order ' || i, 0.5, NULL, NULL, i) FROM generate_series(1, 2) i;
SELECT * FROM request_log();
CREATE FUNCTION my_wrong(prompt text, temperature int) RETURNS text AS '$libdir/vllm_pg', 'llm_generate' LANGUAGE C;
SELECT fails($$SELECT my_wrong('x', 1)$$);
CREATE FUNCTION my_nameless(text, int) RETURNS text AS '$libdir/vllm_pg', 'llm_generate' LANGUAGE C;
SELECT my_nameless('no names, no options', 1);
-- what it is changes
CREATE OR REPLACE FUNCTION my_nameless(prompt text, max_tokens int) RETURNS text AS '$libdir/vllm_pg', 'llm_generate' LANGUAGE C;
SELECT my_nameless('now it has names', 3);
DROP FUNCTION my_generate, my_wrong, my_nameless;

-- every option with every kind of wrong value
SELECT o, fails(format('SELECT llm_generate(''x'', %s)', o)) FROM (VALUES
    ('max_tokens => 0'), ('max_tokens => -1'),
    ('temperature => -0.1'), ('temperature => 2.1'), ('temperature => ''NaN'''), ('temperature => ''Infinity'''),
    ('top_p => 0'), ('top_p => 1.1'), ('top_p => -1'),
    ('top_k => -2'),
    ('min_p => -0.1'), ('min_p => 1.1'),
    ('stop => ''{""}'''), ('stop => ''{a,NULL}'''),
    ('stop_token_ids => ''{-1}'''), ('stop_token_ids => ''{1,NULL}'''),
    ('min_tokens => -1'), ('min_tokens => 300'), ('min_tokens => 6, max_tokens => 5'),
    ('timeout_ms => -1'),
    ('model => ''nobody'''), ('model => ''''')) v (o);
SELECT p, fails(format('SELECT llm_generate(''x'', params => %L)', p)) FROM (VALUES
    ('[]'), ('5'), ('null'),
    ('{"max_tokens": "5"}'), ('{"max_tokens": 5.5}'), ('{"max_tokens": true}'), ('{"max_tokens": 99999999999}'),
    ('{"max_tokens": 1e30}'), ('{"max_tokens": [5]}'), ('{"max_tokens": {"a": 1}}'),
    ('{"temperature": "hot"}'), ('{"temperature": 1e400}'), ('{"temperature": 3}'),
    ('{"top_p": 0}'), ('{"top_k": -5}'), ('{"min_p": 2}'),
    ('{"seed": 9223372036854775808}'), ('{"seed": "x"}'),
    ('{"stop": ""}'), ('{"stop": [""]}'), ('{"stop": [1]}'), ('{"stop": 1}'), ('{"stop": {"a": 1}}'),
    ('{"stop_token_ids": 5}'), ('{"stop_token_ids": [-1]}'), ('{"stop_token_ids": ["a"]}'), ('{"stop_token_ids": [4294967296]}'),
    ('{"ignore_eos": 1}'), ('{"ignore_eos": "true"}'),
    ('{"detokenize": 0}'), ('{"detokenize": false, "stop": "x"}'),
    ('{"n": 0}'), ('{"n": 20000}'),
    ('{"model": 5}'), ('{"model": ["a"]}')) v (p);
-- whole numbers may be written with a point
SELECT llm_generate('one two three', params => '{"max_tokens": 2.0}');
-- extremes that are allowed
SELECT fails($$SELECT llm_generate('x', seed => 9223372036854775807)$$), fails($$SELECT llm_generate('x', seed => -9223372036854775808)$$),
       fails($$SELECT llm_generate('x', temperature => 2, top_p => 1, min_p => 1, top_k => 2147483647, max_tokens => 2147483647)$$);
-- too low a temperature is raised
SELECT llm_generate('x', temperature => 0.001, seed => 1);
SELECT llm_generate('x', temperature => 0.00);
-- a prompt that is too long is refused before anything is sent
SHOW vllm.max_prompt_bytes;
-- fixed values in any case of letters, as those of PostgreSQL's own settings
SET vllm.sleep_requests = 'WAIT';
SHOW vllm.sleep_requests;
SET vllm.sleep_requests = 'never';
RESET vllm.sleep_requests;
SELECT fails($$SELECT llm_generate(repeat('x', 16777217))$$);
-- ... and so are options
SELECT fails($$SELECT llm_generate('x', params => format('{"stop": [%s"x"]}', repeat('"",', 6000000))::json)$$);
SELECT fails($$SELECT llm_embed('x', params => format('[%s1]', repeat('1,', 60000000))::json)$$);
SELECT length(llm_generate(repeat('x', 16777216)));
-- a setting that is no json
SET vllm.default_params = '{"a":';
SELECT left_behind();
