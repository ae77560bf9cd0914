-- SQL functions as tools: what the model is told of them, and what its calls may do.

CREATE SCHEMA run28;
SET search_path = run28, public;
\pset format unaligned
\set VERBOSITY terse

CREATE TYPE mood AS ENUM ('calm', 'cross');
CREATE DOMAIN qty AS int CHECK (VALUE BETWEEN 1 AND 9);
CREATE TABLE orders (id int PRIMARY KEY, customer text, amount numeric(8, 2), placed date);
INSERT INTO orders SELECT i, 'c' || i % 3, i * 1.5, date '2024-01-01' + i FROM generate_series(1, 5) i;

CREATE FUNCTION order_of(id int) RETURNS orders LANGUAGE sql STABLE AS 'SELECT * FROM run28.orders o WHERE o.id = $1';
COMMENT ON FUNCTION order_of IS E'Looks an order up.\nid: the number on the invoice\nNULL if there is none.';
CREATE FUNCTION orders_of(customer text, since date DEFAULT NULL) RETURNS SETOF orders LANGUAGE sql STABLE
AS 'SELECT * FROM run28.orders o WHERE o.customer = $1 AND o.placed >= coalesce($2, o.placed) ORDER BY o.id';
CREATE FUNCTION reserve(id int, n qty DEFAULT 2, mood mood DEFAULT 'calm') RETURNS text LANGUAGE plpgsql
AS $$BEGIN UPDATE run28.orders o SET amount = amount + n WHERE o.id = reserve.id; RETURN n || ' ' || mood; END$$;
CREATE FUNCTION total(VARIADIC ids int[]) RETURNS numeric LANGUAGE sql STABLE AS 'SELECT sum(amount) FROM run28.orders WHERE id = ANY ($1)';
CREATE FUNCTION nothing(flag bool DEFAULT true) RETURNS void LANGUAGE plpgsql AS $$BEGIN IF NOT flag THEN RAISE 'no' USING HINT = 'say true', DETAIL = 'flag was false', ERRCODE = 'P0042'; END IF; END$$;
CREATE FUNCTION two(a int, OUT b int, OUT c text) LANGUAGE sql AS 'SELECT a + 1, ''x''';
CREATE FUNCTION many() RETURNS SETOF int LANGUAGE sql AS 'SELECT generate_series(1, 2000)';
CREATE FUNCTION sneaky() RETURNS text LANGUAGE plpgsql
AS $$BEGIN SET transaction_read_only = off; DELETE FROM run28.orders; RETURN 'done'; END$$;
CREATE FUNCTION slow() RETURNS text LANGUAGE sql AS 'SELECT pg_sleep(10)::text';

SELECT llm_tool('order_of(int)');
SELECT llm_tool('reserve(int, qty, mood)') #> '{function,parameters}' AS parameters;
SELECT llm_tool('total(int[])') #> '{function,parameters}' AS parameters;
SELECT llm_tool('two(int)') #> '{function,parameters}' AS parameters;

-- what can't be a tool
CREATE FUNCTION unnamed(int) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION poly(a anyelement) RETURNS text LANGUAGE sql AS 'SELECT ''x''';
CREATE FUNCTION rec() RETURNS record LANGUAGE sql AS 'SELECT 1, 2';
CREATE FUNCTION geo(p point) RETURNS text LANGUAGE sql AS 'SELECT ''x''';
CREATE FUNCTION "odd name"(a int) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION trig() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END';
CREATE PROCEDURE proc() LANGUAGE sql AS 'SELECT 1';
SELECT llm_tool('unnamed(int)');
SELECT llm_tool('poly(anyelement)');
SELECT llm_tool('rec()');
SELECT llm_tool('geo(point)');
SELECT llm_tool('"odd name"(int)');
SELECT llm_tool('trig()');
SELECT llm_tool('proc()');
SELECT llm_tool('count("any")');
SELECT llm_tool('format(text, "any")');
SELECT llm_tool(1::regprocedure);

-- calls
CREATE FUNCTION call(name text, arguments text, read_only bool DEFAULT true) RETURNS text LANGUAGE sql AS $$
    SELECT llm_call_tool(json_build_object('id', 'c1', 'type', 'function', 'function', json_build_object('name', name, 'arguments', arguments)),
        ARRAY['order_of(int)', 'orders_of(text, date)', 'reserve(int, qty, mood)', 'total(int[])', 'nothing(bool)', 'two(int)', 'many()', 'sneaky()']::regprocedure[],
        read_only) ->> 'content'
$$;
SELECT llm_call_tool('{"id": "c1", "function": {"name": "order_of", "arguments": "{\"id\": 3}"}}', '{order_of(int)}');
SELECT call('order_of', '{"id": 99}');
SELECT call('orders_of', '{"customer": "c1"}');
SELECT call('orders_of', '{"customer": "c1", "since": "2024-01-04"}');
SELECT call('orders_of', '{"customer": "c1", "since": null}') = call('orders_of', '{"customer": "c1"}') AS null_is_not_given;
SELECT call('orders_of', '{"customer": "nobody"}');
SELECT call('total', '{"ids": [1, 2]}'), call('total', '{"ids": []}');
SELECT call('nothing', ''), call('nothing', '{"flag": false}');
SELECT call('two', '{"a": 4}');
SELECT call('many', '{}');
-- what is wrong with a call is the model's to read
SELECT call('order_of', '{"id": "3"}');
SELECT call('order_of', '{"id": 3.5}');
SELECT call('order_of', '{}');
SELECT call('order_of', '{"id": null}');
SELECT call('order_of', '{"id": 1, "id2": 1}');
SELECT call('order_of', '{"id": 1, "id": 2}');
SELECT call('order_of', '[1]');
SELECT call('order_of', '{"id": 1');
SELECT call('orders_of', '{"customer": "''; DROP TABLE orders; --"}');
SELECT call('reserve', '{"id": 1, "n": 10}');
SELECT call('reserve', '{"id": 1, "mood": "sad"}');
SELECT call('drop_all', '{}');
SELECT llm_call_tool('{}', '{order_of(int)}'), llm_call_tool('{"function": 1}', '{}');
SELECT llm_call_tool('[]', '{order_of(int)}');
-- nothing is written unless the caller says so
SELECT call('reserve', '{"id": 1}');
SELECT call('reserve', '{"id": 1}', read_only => false), call('reserve', '{"id": 1, "n": 3, "mood": "cross"}', read_only => false);
SELECT amount FROM orders WHERE id = 1;
SELECT call('sneaky', '{}');
SHOW transaction_read_only;
BEGIN;
SELECT call('sneaky', '{}');
SHOW transaction_read_only;
UPDATE orders SET amount = 0 WHERE id = 5;
COMMIT;
SELECT count(*) FROM orders;
-- a call that fails takes back what it wrote, and nothing else
CREATE FUNCTION half(id int) RETURNS text LANGUAGE plpgsql AS $$BEGIN UPDATE run28.orders o SET amount = -1 WHERE o.id = $1; PERFORM 1 / 0; RETURN ''; END$$;
BEGIN;
UPDATE orders SET amount = 7 WHERE id = 4;
SELECT llm_call_tool('{"id": "c1", "function": {"name": "half", "arguments": "{\"id\": 4}"}}', '{half(int)}', false);
COMMIT;
SELECT amount FROM orders WHERE id = 4;
-- another function that fits the call better isn't called
CREATE FUNCTION over(a int, b int DEFAULT 1) RETURNS text LANGUAGE sql AS 'SELECT ''listed''';
CREATE FUNCTION over(a int) RETURNS text LANGUAGE sql AS 'SELECT ''not listed''';
SELECT llm_call_tool('{"function": {"name": "over", "arguments": "{\"a\": 1}"}}', '{"over(int, int)"}') ->> 'content' AS content;
SELECT llm_call_tool('{"function": {"name": "over", "arguments": "{\"a\": 1, \"b\": 2}"}}', '{"over(int, int)"}') ->> 'content' AS content;
SELECT llm_call_tool('{"function": {"name": "over", "arguments": "{\"a\": 1, \"b\": 2}"}}', '{"over(int, int)", over(int)}');
-- the search path is the caller's, and no help to others
CREATE FUNCTION to_json(orders) RETURNS json LANGUAGE sql AS 'SELECT ''"not pg_catalog"''::json';
SELECT call('order_of', '{"id": 3}');
-- a cancel ends the statement, not the call
SET statement_timeout = '200ms';
SELECT llm_call_tool('{"function": {"name": "slow", "arguments": "{}"}}', '{slow()}');
RESET statement_timeout;

-- what PostgreSQL's read-only mode lets pass is undone; what was written is told
CREATE TEMP TABLE scratch (a int);
CREATE SEQUENCE seq;
CREATE FUNCTION w_object() RETURNS text LANGUAGE sql AS 'SELECT ''object '' || (lo_from_bytea(0, ''x'') > 0)';
CREATE FUNCTION w_reset() RETURNS text LANGUAGE plpgsql AS $$BEGIN RESET transaction_read_only; DELETE FROM run28.orders; RETURN 'deleted'; END$$;
CREATE FUNCTION w_set() RETURNS text LANGUAGE plpgsql AS $$BEGIN SET transaction_read_only = off; RETURN ''; END$$;
CREATE FUNCTION w_setting() RETURNS text LANGUAGE sql AS $$SELECT set_config('run28.setting', 'changed', false)$$;
CREATE FUNCTION w_temp() RETURNS text LANGUAGE plpgsql AS $$BEGIN INSERT INTO scratch VALUES (1); RETURN (SELECT count(*) FROM scratch); END$$;
CREATE FUNCTION w_next() RETURNS bigint LANGUAGE sql AS $$SELECT nextval('run28.seq')$$;
CREATE FUNCTION w_commit() RETURNS text LANGUAGE plpgsql AS $$BEGIN COMMIT; RETURN ''; END$$;
CREATE FUNCTION w_nested() RETURNS text LANGUAGE sql AS $$SELECT public.llm_call_tool('{"function": {"name": "reserve", "arguments": "{\"id\": 1}"}}', '{"run28.reserve(int, run28.qty, run28.mood)"}', false) ->> 'content'$$;
SET run28.setting = 'as it was';
SELECT proname, llm_call_tool(json_build_object('function', json_build_object('name', proname)), ARRAY[oid::regprocedure]) ->> 'content' AS content
FROM pg_proc WHERE pronamespace = 'run28'::regnamespace AND proname LIKE 'w\_%' AND proname NOT IN ('w_object', 'w_reset') ORDER BY proname;
-- later versions refuse these by themselves
SELECT llm_call_tool('{"function": {"name": "w_object"}}', '{w_object()}') -> 'content' #>> '{}' ~ 'error' AS refused;
SELECT llm_call_tool('{"function": {"name": "w_reset"}}', '{w_reset()}') -> 'content' #>> '{}' ~ 'error' AS refused;
SHOW run28.setting;
SELECT (SELECT count(*) FROM orders) AS orders, (SELECT count(*) FROM scratch) AS scratch, (SELECT count(*) FROM pg_largeobject_metadata) AS objects, nextval('seq');
SELECT llm_call_tool('{"function": {"name": "w_setting"}}', '{w_setting()}', false) ->> 'content' AS content;
SHOW run28.setting;
-- arguments as an object
SELECT llm_call_tool('{"function": {"name": "order_of", "arguments": {"id": 3}}}', '{order_of(int)}') ->> 'content' AS content;
SELECT llm_call_tool(j::json, '{order_of(int)}') ->> 'content' AS content
FROM (VALUES ('{"function": {"name": "order_of", "arguments": [3]}}'), ('{"function": {"name": "order_of", "arguments": null}}'), ('{"function": {"name": "order_of"}}')) v(j);
-- columns of any name, VARIADIC with a default
CREATE FUNCTION cols(q int) RETURNS TABLE (r int, x text) LANGUAGE sql AS $$SELECT q, 'one'$$;
CREATE FUNCTION one_col(q int) RETURNS TABLE (r int) LANGUAGE sql AS 'SELECT q';
CREATE FUNCTION joined(a text, VARIADIC b text[] DEFAULT '{}') RETURNS text LANGUAGE sql AS $$SELECT a || array_to_string(b, ',')$$;
SELECT llm_call_tool('{"function": {"name": "cols", "arguments": "{\"q\": 1}"}}', '{cols(int)}') ->> 'content' AS content;
SELECT llm_call_tool('{"function": {"name": "one_col", "arguments": "{\"q\": 1}"}}', '{one_col(int)}') ->> 'content' AS content;
SELECT llm_tool('joined(text, text[])') #> '{function,parameters,required}' AS required,
    llm_call_tool('{"function": {"name": "joined", "arguments": "{\"a\": \"x\", \"b\": []}"}}', '{"joined(text, text[])"}') ->> 'content' AS content;
-- what only the whole transaction can try again ends it
CREATE FUNCTION conflict() RETURNS text LANGUAGE plpgsql AS $$BEGIN RAISE 'conflict' USING ERRCODE = 'serialization_failure'; END$$;
SELECT llm_call_tool('{"function": {"name": "conflict"}}', '{conflict()}');
-- calls of tools beside requests in flight
CREATE FUNCTION upper_of(t text) RETURNS text LANGUAGE sql AS 'SELECT public.llm_generate($1)';
SELECT count(*), count(DISTINCT a), count(DISTINCT c), min(c) FROM (SELECT llm_generate('word ' || i) AS a,
    llm_call_tool(json_build_object('function', json_build_object('name', 'upper_of', 'arguments', json_build_object('t', CASE WHEN i % 2 = 0 THEN 't' ELSE '@error:22023:t' END || i))), '{upper_of(text)}') ->> 'content' AS c
    FROM generate_series(1, 50) i OFFSET 0) s;

-- privileges are the caller's
CREATE ROLE regress_run28;
GRANT USAGE ON SCHEMA run28 TO regress_run28;
REVOKE EXECUTE ON FUNCTION two(int) FROM PUBLIC;
CREATE FUNCTION counted() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS 'SELECT count(*) FROM run28.orders';
SET ROLE regress_run28;
SELECT llm_call_tool('{"function": {"name": "two", "arguments": "{\"a\": 1}"}}', '{two(int)}');
SELECT llm_call_tool('{"function": {"name": "order_of", "arguments": "{\"id\": 1}"}}', '{order_of(int)}') ->> 'content' AS content;
SELECT llm_call_tool('{"function": {"name": "counted", "arguments": "{}"}}', '{counted()}') ->> 'content' AS content;
RESET ROLE;
REVOKE USAGE ON SCHEMA run28 FROM regress_run28;
DO $$
DECLARE f regprocedure := 'run28.counted()';
BEGIN
    SET LOCAL ROLE regress_run28;
    PERFORM public.llm_call_tool('{"function": {"name": "counted", "arguments": "{}"}}', ARRAY[f]);
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE '%', sqlerrm;
END $$;

-- without calls of tools a run is a chat
SELECT r ->> 'content' AS content, r ->> 'finish_reason' AS reason, r ->> 'rounds' AS rounds, r -> 'messages' AS messages
FROM llm_chat_run('[{"role": "user", "content": "hello"}]', '{order_of(int)}', chat_template => '{{ messages[0].content }} {{ tools[0].function.name }}', temperature => 0) r;
-- a call that must be made is made once, wherever that is said
SELECT r ->> 'finish_reason' AS reason, r ->> 'rounds' AS rounds, json_array_length(r -> 'messages') AS messages
FROM llm_chat_run('[{"role": "user", "content": "hello"}]', '{order_of(int)}', tool_choice => '"required"', temperature => 0) r;
SELECT r ->> 'finish_reason' AS reason, r ->> 'rounds' AS rounds, json_array_length(r -> 'messages') AS messages
FROM (VALUES ('{"tool_choice": "required", "temperature": 0}'), ('{"temperature": 0, "tool_choice": {"type": "function", "function": {"name": "order_of"}}, "top_k": 1}'),
    ('{"tool_choice": "required"}')) v(p), llm_chat_run('[{"role": "user", "content": "hello"}]', '{order_of(int)}', params => p::json) r;
SET vllm.default_params = '{"tool_choice": "required", "temperature": 0}';
SELECT r ->> 'finish_reason' AS reason, r ->> 'rounds' AS rounds, json_array_length(r -> 'messages') AS messages
FROM llm_chat_run('[{"role": "user", "content": "hello"}]', '{order_of(int)}') r;
-- null says that there is none, whatever the defaults say
SELECT tool_choice, (llm_chat('[{"role": "user", "content": "hello"}]', tools => json_build_array(llm_tool('order_of(int)')), tool_choice => tool_choice)) -> 'tool_calls' IS NULL AS free
FROM (VALUES (NULL::json), ('null'), (' null ')) v(tool_choice);
RESET vllm.default_params;
SELECT llm_chat_run('[{"role": "user", "content": "hello"}]', '{}', tool_choice => '"required"');
SELECT llm_chat_run(NULL, '{}') IS NULL AS null_in_null_out;
SELECT llm_chat_run('[]', NULL);
SELECT llm_chat_run('[]', '{}', max_rounds => 0);
SELECT llm_chat_run('{}', '{}');
SELECT llm_chat_run('[]', '{NULL}');

-- rounds: a stand-in for llm_chat answers by a script, one line a round
BEGIN;
DO $$
DECLARE f regprocedure := (SELECT oid FROM pg_proc WHERE proname = 'llm_chat' AND prosrc = 'llm_chat');
BEGIN
    EXECUTE format('ALTER EXTENSION vllm_pg DROP FUNCTION %s', f);
    EXECUTE format('ALTER FUNCTION %s RENAME TO llm_chat_itself', f);
END $$;
CREATE FUNCTION public.llm_chat(messages json, tools json, seed bigint, params json) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
    round int := (SELECT count(*) FROM json_array_elements(messages) m WHERE m ->> 'role' = 'assistant');
    line json := ((messages -> 0 ->> 'content')::json) -> round;
BEGIN
    -- what a tool's answer was is what the model would read
    RETURN json_build_object('role', 'assistant', 'content', line ->> 'say', 'reasoning', line ->> 'think', 'tool_calls',
        (SELECT json_agg(json_build_object('id', 'call-' || round || '-' || n, 'type', 'function', 'function',
            json_build_object('name', c ->> 0, 'arguments', (c -> 1)::text))) FROM json_array_elements(line -> 'calls') WITH ORDINALITY x(c, n)),
        'finish_reason', CASE WHEN line -> 'calls' IS NULL THEN 'stop' ELSE 'tool_calls' END,
        'usage', json_build_object('prompt_tokens', 10, 'completion_tokens', round + seed));
END $$;
ALTER EXTENSION vllm_pg ADD FUNCTION public.llm_chat(json, json, bigint, json);
-- another one of the name isn't the extension's
CREATE FUNCTION public.llm_chat(messages json, tools json) RETURNS json LANGUAGE sql AS $$SELECT '"wrong"'::json$$;
CREATE FUNCTION run(script json, max_rounds int DEFAULT 8, read_only bool DEFAULT true) RETURNS TABLE (key text, value text) LANGUAGE sql AS $$
    SELECT key, CASE key WHEN 'messages' THEN (SELECT string_agg(m::text, E'\n  ') FROM json_array_elements(value) m WHERE m ->> 'role' <> 'user') ELSE value::text END
    FROM json_each(public.llm_chat_run(json_build_array(json_build_object('role', 'user', 'content', script::text)),
        ARRAY['order_of(int)', 'orders_of(text, date)', 'reserve(int, qty, mood)']::regprocedure[], max_rounds, read_only, seed => 100))
$$;
SELECT * FROM run('[{"say": "hello"}]');
SELECT * FROM run('[{"calls": [["order_of", {"id": 2}], ["orders_of", {"customer": "c2"}]], "think": "which?"}, {"calls": [["order_of", {"id": "x"}]]}, {"say": "done"}]');
SELECT * FROM run('[{"calls": [["order_of", {"id": 2}]]}, {"calls": [["order_of", {"id": 3}]]}, {"say": "done"}]', max_rounds => 2);
SELECT * FROM run('[{"calls": [["reserve", {"id": 2, "n": 1}], ["other", {}]]}, {"say": "done"}]');
SELECT * FROM run('[{"calls": [["reserve", {"id": 2, "n": 1}], ["reserve", {"id": 2, "n": 20}], ["reserve", {"id": 2}]]}, {"say": "done"}]', read_only => false);
SELECT amount FROM orders WHERE id = 2;
SAVEPOINT s;
DROP FUNCTION public.llm_chat(json, json);
ALTER EXTENSION vllm_pg DROP FUNCTION public.llm_chat(json, json, bigint, json);
SELECT llm_chat_run('[]', '{}');
ROLLBACK;

SET client_min_messages = warning;
DROP SCHEMA run28 CASCADE;
DROP ROLE regress_run28;
