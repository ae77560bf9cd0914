-- Calls with the types that drivers give to parameters: what a list, a dict or a number is there, and no type at all.
SET client_min_messages = warning;
-- each argument of each function takes the types that become its type; the others are NULL
CREATE FUNCTION refused(OUT calls bigint, OUT errors text[]) LANGUAGE plpgsql AS $$
DECLARE
    c record;
BEGIN
    calls := 0;
    errors := '{}';
    FOR c IN
        SELECT p.oid, format('PREPARE drivers (%s) AS SELECT %s%s(%s)', t.given,
                   CASE WHEN p.proretset THEN '* FROM ' ELSE '' END, p.oid::regproc,
                   (SELECT string_agg(format('%I => %s', name, CASE WHEN i = a.i THEN '$1' ELSE format('NULL::%s', CASE WHEN type = 'anyelement'::regtype THEN 'date' ELSE type::text END) END), ', ')
                    FROM unnest(p.proargtypes::regtype[], p.proargnames[1 : p.pronargs]) WITH ORDINALITY x (type, name, i) WHERE i = a.i OR i <= p.pronargs - p.pronargdefaults)) AS call
        FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e',
             unnest(p.proargtypes::regtype[], p.proargnames[1 : p.pronargs]) WITH ORDINALITY a (type, name, i),
             (VALUES ('vllm.json'::regtype, '{json,jsonb,text,varchar,unknown}'::text[]), ('vllm.json[]', '{json[],jsonb[],text[],unknown}'), ('real[]', '{real[]}'), ('json', '{json}'), ('vllm.schema', '{jsonb,unknown}'),
                     ('vllm.doubles', '{float8[],real[],int[],bigint[],numeric[],smallint[],unknown}'), ('float8[]', '{float8[],real[]}'), ('bigint[]', '{bigint[],int[],smallint[]}'), ('vllm.texts', '{text[],varchar[],text,varchar,unknown}'),
                     ('int', '{int,smallint,unknown}'), ('bigint', '{bigint,int,smallint}'), ('float8', '{float8,real,int,bigint,smallint,numeric}'),
                     ('text', '{text,varchar,unknown}'), ('text[]', '{text[],varchar[]}')) m (declared, types),
             unnest(m.types) t (given)
        WHERE d.refclassid = 'pg_extension'::regclass AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'vllm_pg')
        AND p.prokind = 'f' AND p.pronamespace <> 'vllm'::regnamespace AND p.proargnames IS NOT NULL AND p.provariadic = 0 AND a.type = m.declared AND prorettype <> 'trigger'::regtype
        ORDER BY p.oid, a.i
    LOOP
        BEGIN
            EXECUTE replace(c.call, ' (unknown) AS', ' AS');
            DEALLOCATE drivers;
        EXCEPTION WHEN OTHERS THEN
            errors := errors || format('%s: %s', c.call, SQLERRM);
        END;
        calls := calls + 1;
    END LOOP;
END $$;
SELECT calls > 2000 AS many, errors FROM refused();
DROP FUNCTION refused;
-- pg_upgrade makes domains and arrays again without that
SELECT typname FROM pg_type WHERE typispreferred AND typtype <> 'b' OR typispreferred AND typname LIKE '\_%';
-- arrays say of their elements what their types do
SELECT vllm.array_of(ARRAY['a', NULL]::varchar[]::vllm.texts) = ARRAY['a', NULL], vllm.array_of('{}'::varchar[]::vllm.texts) = '{}', (SELECT vllm.array_of(array_agg(i::varchar)::vllm.texts) FROM generate_series(1, 3) i) || 'x'::text AS aggregated,
       pg_typeof((ARRAY['a']::varchar[]::vllm.texts)[1]), (ARRAY[1, 2.5]::vllm.doubles)[2], '{1,2}'::vllm.doubles, '[2:3]={1,NULL}'::float8[]::vllm.doubles, fails($$SELECT '{x}'::vllm.doubles$$), vllm.doubles_in('{1,2}', 'text'::regtype, -1);

-- the values: one call, and the types of its parameters
CREATE FUNCTION called(types text, call text, given text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    value text;
    why text;
BEGIN
    EXECUTE format('PREPARE drivers %s AS SELECT (%s)::text', types, call);
    BEGIN
        EXECUTE format('EXECUTE drivers(%s)', given) INTO value;
    EXCEPTION WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS why = PG_EXCEPTION_DETAIL;
        value := SQLSTATE || ' ' || SQLERRM || coalesce(' | ' || nullif(why, ''), '');
    END;
    DEALLOCATE drivers;
    RETURN value;
END $$;
SELECT t, called(t, 'llm_generate($1, $2, params => $3)', '''a b c d'', 3, ''{"stop": "C"}''') FROM unnest('{"","(text, int2, json)","(varchar, int2, jsonb)","(text, int4, text)","(text, int4, varchar)"}'::text[]) t;
SELECT t, called(t, 'llm_generate(''a b c d'', stop => $1)', g) FROM (VALUES ('', '''C'''), ('', '''{C,D}'''), ('', 'NULL'), ('(text)', '''C'''), ('(varchar)', '''C'''), ('(text)', '''{C'''), ('', '''{C'''),
    ('(text[])', '''{B,C}'''), ('(varchar[])', '''{B,C}'''), ('', ''''''), ('(text)', ''''''), ('', '''{}''')) v (t, g);
SELECT t, called(t, 'llm_generate(''a b c d'', stop_token_ids => $1, temperature => 0)', g) FROM (VALUES ('', '''{257}'''), ('(int2[])', '''{257}'''), ('(int4[])', '''{257}'''), ('(int8[])', '''{257}'''),
    ('(int8[])', '''{-5000000000}'''), ('(int8[])', '''{5000000000}'''), ('(int8[])', '''{1,NULL}'''), ('(int8[])', '''{}''')) v (t, g);
SELECT t, called(t, 'llm_generate($1, temperature => $2, seed => $3)', '''{97,32,98}'', ' || g) FROM (VALUES ('', '0, 1'), ('(text, int2, int2)', '0, 1'), ('(int2[], int4, int4)', '0, 1'), ('(int4[], float4, int8)', '0, 1'),
    ('(int8[], numeric, int8)', '0.5, 1099511627776'), ('(int4[], float8, int2)', '1e400, 1')) v (t, g);
SELECT t, called(t, 'llm_detokenize($1)', g) FROM (VALUES ('', '''{97,98}'''), ('(int2[])', '''{97,98}'''), ('(int8[])', '''{97,98}'''), ('(int8[])', '''{97,5000000000}'''), ('(int8[])', '''{NULL}''')) v (t, g);
SELECT t, called(t, 'llm_cosine_distance($1, $2)', g) FROM (VALUES ('', '''{1,2}'', ''{2,1}'''), ('(float8[], float8[])', '''{1,2}'', ''{2,1}'''), ('(float8[], real[])', '''{1,2}'', ''{2,1}'''), ('(real[], float8[])', '''{1,2}'', ''{2,1}'''),
    ('(int2[], numeric[])', '''{1,2}'', ''{2,1}'''), ('(float8[], numeric[])', '''{1,2}'', ''{2,1}'''), ('(int8[], real[])', '''{1,2}'', ''{2,1}'''), ('(float8[], unknown)', '''{1,2}'', ''{2,1}'''), ('(real[], unknown)', '''{1,2}'', ''{2,1}'''), ('(float8[], float8[])', '''{1,2}'', ''{1}'''), ('(float8[], float8[])', 'NULL, ''{1}'''),
    ('(float8[], float8[])', '''{1,NULL}'', ''{1,1}'''), ('(float8[], float8[])', '''{}'', ''{}'''), ('(float8[], float8[])', '''{1e300,1}'', ''{1,1}''')) v (t, g);
SELECT t, called(t, 'llm_similarity($1, $2)', g) FROM (VALUES ('', '''{1,2}'', ''{1,2}'''), ('(float8[], float8[])', '''{1,2}'', ''{1,2}'''), ('(float8[], real[])', '''{1,2}'', ''{1,2}'''), ('(int4[], int4[])', '''{1,2}'', ''{1,2}''')) v (t, g);
SELECT llm_l2_distance('{0,0}'::float8[], '{3,4}'), llm_inner_product('{1,2}'::float8[], '{3,4}'::real[]), llm_binary_quantize('{-1,0.5}'::float8[]), llm_binary_quantize('{-1,0.5}'), llm_binary_quantize(NULL);
CREATE TABLE wide (id int, v real[], w float8[]);
INSERT INTO wide VALUES (1, '{1,0}', '{1,0}'), (2, '{0,1}', '{0,1}'), (3, '{1,1}', NULL);
SELECT p.id, round(n.distance::numeric, 6) FROM llm_nearest('{1,0.1}'::float8[], 'wide', 'v', 2) n JOIN wide p ON p.ctid = n.row_id;
SELECT p.id, round(n.distance::numeric, 6) FROM llm_nearest('{1,0.1}'::real[], 'wide', 'w', 2) n JOIN wide p ON p.ctid = n.row_id;
SELECT id FROM llm_nearest_rows(NULL::wide, '{0,1}'::float8[], 'w', 1);
DROP TABLE wide;
SELECT t, called(t, 'llm_chat_text($1)', '''[{"role": "user", "content": "x"}]''') FROM unnest('{"","(json)","(jsonb)","(text)"}'::text[]) t;
SELECT called('(jsonb[])', '(SELECT text FROM llm_chat_batch($1))', 'ARRAY[''[{"role": "user", "content": "x"}]''::jsonb]') AS batch, called('(jsonb)', 'v1_tokenize($1)->>''count''', '''{"prompt": "abc"}''') AS body,
       called('(text)', 'v1_tokenize($1)', '''{"prompt"''') AS no_json, called('(jsonb)', 'llm_grammar_accepts($1, ''3'')', '''{"type": "integer"}''') AS grammar,
       called('(jsonb)', 'llm_generate_json(''x'', $1)', '''{"const": 3}''') AS generated, called('(jsonb)', 'llm_extract(''x'', $1)', '''{"const": 3}''') AS extracted, called('(json)', 'llm_extract(''x'', $1)', '''{"const": 3}''') AS as_json;

-- prompts of token ids
SELECT (llm_generate_full(ARRAY[97, 32, 98])).token_ids = (llm_generate_full('a b')).token_ids AS full_text, (llm_output('{97,32,98}'::bigint[])).prompt_token_ids,
       (SELECT string_agg(text, '' ORDER BY seq) FROM llm_generate_stream(ARRAY[97, 32, 98])) AS stream, (SELECT text FROM llm_completions(ARRAY[97, 32, 98])), llm_result(llm_submit(ARRAY[97, 32, 98])) AS submitted,
       llm_generate(NULL::int[]) AS null_ids, llm_generate(llm_tokenize('x y'));
SELECT i, fails(format('SELECT llm_generate(%L::bigint[])', i)) FROM unnest('{"{}","{1,NULL}","{{1},{2}}","{-1}","{5000000000}"}'::text[]) i;
SELECT fails(format('SELECT llm_generate(array_fill(1, ARRAY[%s]))', setting::int * 256 + 1)) FROM pg_settings WHERE name = 'vllm.max_prompt_bytes';
EXPLAIN (COSTS OFF) SELECT llm_generate(ARRAY[97, i], 1) FROM generate_series(97, 99) i;
SELECT string_agg(llm_generate(ARRAY[97, i], 1), ' ') FROM generate_series(97, 99) i;
EXPLAIN (COSTS OFF) SELECT llm_generate(i::text, params => '{"max_tokens": 1}'::jsonb, stop => 'x') FROM generate_series(1, 3) i;
EXPLAIN (COSTS OFF) SELECT llm_generate('x', stop => i::text, params => jsonb_build_object('max_tokens', i)) FROM generate_series(1, 3) i;
SELECT llm_generate('1 2 3 4', stop => i::text, params => jsonb_build_object('max_tokens', 4)) FROM generate_series(2, 4) i;
DROP FUNCTION called;
SELECT left_behind();
