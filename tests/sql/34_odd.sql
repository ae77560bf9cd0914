-- 34_odd.sql: odd arguments of every function are no internal errors
SET client_min_messages = error;
-- what is made by chance goes
BEGIN;
-- one value each of a type, odd in its own way; a function is called with each for all arguments of the type, and each for one argument alone
CREATE TABLE odd (type regtype, n int, value text);
INSERT INTO odd SELECT type, row_number() OVER (PARTITION BY type), value FROM (VALUES
    ('text'::regtype, 'x'), ('text', ''), ('text', 'not there'), ('text', '{"a": [1'), ('text', E'\u00e9\n\t"\\%s%n{{ x }}'), ('text', '-1'),
    ('json', 'null'), ('json', '[]'), ('json', '{}'), ('json', '5'), ('json', '{"": {"": [null, {}]}}'), ('json', '[{"role": "user", "content": 5}]'), ('json', '[null]'),
    ('jsonb', 'null'), ('jsonb', '{"a": [1e400]}'), ('int', '0'), ('int', '-1'), ('int', '2147483647'), ('int', '-2147483648'), ('int', '1'),
    ('bigint', '0'), ('bigint', '-1'), ('bigint', '9223372036854775807'), ('bigint', '-9223372036854775808'),
    ('float8', 'NaN'), ('float8', '-Infinity'), ('float8', '1e308'), ('float8', '0'), ('float4', 'NaN'), ('float4', '0'), ('numeric', 'NaN'), ('numeric', '-1'),
    ('bool', 'true'), ('bool', 'false'), ('text[]', '{}'), ('text[]', '{NULL}'), ('text[]', '{"",x}'), ('text[]', '{{a,b},{c,d}}'), ('text[]', '[5:6]={a,b}'),
    ('int[]', '{}'), ('int[]', '{NULL}'), ('int[]', '{-1,2147483647}'), ('int[]', '{{1,2},{3,4}}'), ('real[]', '{}'), ('real[]', '{NaN}'), ('real[]', '{{1,2},{3}}'), ('real[]', '{{1,2},{3,4}}'), ('real[]', '{NULL}'),
    ('float8[]', '{}'), ('float8[]', '{NaN,1}'), ('float8[]', '{NULL}'), ('bytea', ''), ('bytea', '\x00ff'), ('regclass', 'pg_class'), ('regclass', 'odd'),
    ('regprocedure', '1'), ('regprocedure', 'now()'), ('regprocedure[]', '{}'), ('regprocedure[]', '{1}'), ('oid', '0'), ('oid', '1'), ('name', ''), ('name', 'x'),
    ('interval', '-1 day'), ('interval', '0'), ('timestamptz', 'infinity'), ('json[]', '{}'), ('json[]', '{NULL}'), ('json[]', '{null,5}'), ('uuid', '00000000-0000-0000-0000-000000000000')) v (type, value)
    WHERE value <> '{{1,2},{3}}';
CREATE FUNCTION pg_temp.internal(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE m text;
BEGIN
    EXECUTE 'SELECT count(*) FROM (' || call || ') s';
    RETURN NULL;
EXCEPTION WHEN internal_error OR data_corrupted THEN
    GET STACKED DIAGNOSTICS m = MESSAGE_TEXT;
    RETURN m;
WHEN query_canceled OR assert_failure OR OTHERS THEN
    RETURN NULL;
END $$;
CREATE TABLE odd_call AS
WITH f AS (SELECT p.oid, p.proname, n.nspname, p.proargtypes::oid[] AS types, p.pronargs FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
           JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e' JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'vllm_pg'
           WHERE p.prokind = 'f' AND p.pronargs > 0 AND n.nspname <> 'vllm' AND p.prorettype <> 'trigger'::regtype
               AND p.proname !~ '(restart|sleep|wake|unload|drop|control|reset|cancel|start|stop|pin)'
               AND NOT EXISTS (SELECT FROM unnest(p.proargtypes::oid[]) t WHERE t IN ('internal'::regtype, 'cstring'::regtype))),
    a AS (SELECT f.*, t.i, (CASE WHEN t.type = 'anyelement'::regtype THEN 'int'::regtype WHEN t.type = 'anyarray'::regtype THEN 'int[]'::regtype ELSE t.type::regtype END) AS type
          FROM f, unnest(f.types) WITH ORDINALITY t (type, i)),
    -- all arguments odd alike, and one of them odd beside plain ones
    c AS (SELECT a.oid, a.nspname, a.proname, k.k, 0 AS one, string_agg(coalesce(format('%L::%s', o.value, a.type), format('NULL::%s', a.type)), ', ' ORDER BY a.i) AS args
          FROM a CROSS JOIN generate_series(0, 6) k (k) LEFT JOIN odd o ON o.type = a.type AND o.n = k.k GROUP BY 1, 2, 3, 4
          UNION ALL
          SELECT a.oid, a.nspname, a.proname, x.n, b.i, string_agg(CASE WHEN a.i = b.i THEN format('%L::%s', x.value, a.type)
              WHEN p.pronargdefaults > 0 AND a.i > p.pronargs - p.pronargdefaults THEN format('NULL::%s', a.type)
              ELSE coalesce(format('%L::%s', (SELECT value FROM odd WHERE odd.type = a.type AND odd.n = 1), a.type), format('NULL::%s', a.type)) END, ', ' ORDER BY a.i)
          FROM a JOIN a b ON b.oid = a.oid JOIN odd x ON x.type = b.type JOIN pg_proc p ON p.oid = a.oid GROUP BY 1, 2, 3, 4, 5)
SELECT DISTINCT format('SELECT * FROM %I.%I(%s)', nspname, proname, args) AS call FROM c;
-- each option, and each member of bodies, with each value
CREATE FUNCTION pg_temp.known(query text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE h text;
BEGIN
    EXECUTE query;
EXCEPTION WHEN invalid_parameter_value THEN
    GET STACKED DIAGNOSTICS h = PG_EXCEPTION_HINT;
    RETURN string_to_array(rtrim(regexp_replace(h, '.*Known parameters: ', ''), '.'), ', ');
END $$;
INSERT INTO odd_call SELECT replace(call, '?', quote_literal(format('{"%s": %s}', name, value)))
FROM (VALUES ('null'), ('true'), ('0'), ('-1'), ('1e400'), ('0.5'), ('""'), ('"x"'), ('[]'), ('[null]'), ('[[1]]'), ('{}'), ('{"": null}'), ('{"type": 5}'), ('18446744073709551616')) v (value),
    (SELECT call, unnest(pg_temp.known(replace(call, '?', quote_literal('{"no such": 1}')))) FROM (VALUES (1)) x (y), (SELECT $$SELECT llm_generate('x', params => ?)$$ AS call) c) o (call, name);
INSERT INTO odd_call SELECT format('SELECT %s(%L)', f, format('{"prompt": "x", "input": "x", "messages": [{"role": "user", "content": "x"}], "%s": %s}', name, value))
FROM unnest(ARRAY['v1_completions', 'v1_chat_completions', 'v1_responses', 'v1_embeddings']) f,
    (VALUES ('null'), ('true'), ('-1'), ('1e400'), ('"x"'), ('[]'), ('[null]'), ('[[1]]'), ('{}'), ('{"": null}'), ('{"type": 5}')) v (value),
    unnest(ARRAY['prompt', 'input', 'messages', 'max_tokens', 'n', 'logprobs', 'stop', 'tools', 'tool_choice', 'response_format', 'stream_options', 'logit_bias', 'truncate_prompt_tokens',
                 'prompt_logprobs', 'echo', 'seed', 'structured_outputs', 'reasoning', 'text', 'chat_template_kwargs', 'dimensions', 'encoding_format']) name;
SELECT count(*) > 1000 AS many FROM odd_call;
SELECT call, m FROM odd_call, pg_temp.internal(call) m WHERE m IS NOT NULL ORDER BY 1;
ROLLBACK;
RESET client_min_messages;
