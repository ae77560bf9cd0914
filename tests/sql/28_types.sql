-- SQL types as JSON schemas: every text that a schema accepts becomes a value of the type.

CREATE SCHEMA types28;
SET search_path = types28, public;
\pset format unaligned
\set VERBOSITY terse

CREATE TYPE mood AS ENUM ('sad', 'ok', 'very "happy"');
CREATE DOMAIN pos AS int CHECK (VALUE > 0 AND VALUE < 100);
CREATE DOMAIN between_ AS bigint CHECK (VALUE BETWEEN -5 AND 5000000000);
CREATE DOMAIN half_open AS numeric(5, 1) CHECK (VALUE >= 0.25 AND VALUE < 100);
CREATE DOMAIN below_tenth AS real CHECK (VALUE < 0.1 AND VALUE > -0.1);
CREATE DOMAIN exact_ AS numeric CHECK (0 < VALUE AND VALUE <= 1.5);
CREATE DOMAIN level AS int CHECK (VALUE IN (1, 2, 40));
CREATE DOMAIN either AS int CHECK (VALUE < 0 OR VALUE BETWEEN 10 AND 20);
CREATE DOMAIN code AS text NOT NULL CHECK (VALUE ~ '^[A-Z]{2}\d+$') CHECK (length(VALUE) <= 8);
CREATE DOMAIN code_x AS code CHECK (VALUE LIKE '%7_' AND VALUE <> 'AB70');
CREATE DOMAIN words AS varchar(12) CHECK (VALUE SIMILAR TO '(ab|cd)+[[:digit:][:space:]_.-]*' AND VALUE IS NOT NULL);
CREATE DOMAIN status AS text DEFAULT 'new' CHECK (VALUE = ANY (ARRAY['new', 'done', 'it''s']));
CREATE DOMAIN odd AS int CHECK (VALUE % 2 = 1);
CREATE DOMAIN few AS int[] CHECK (cardinality(VALUE) BETWEEN 1 AND 3);
CREATE DOMAIN calm AS mood CHECK (VALUE <> 'sad');
CREATE TYPE inner_ AS (a int, b text);
CREATE TYPE outer_ AS (i inner_, l inner_[], c code, m mood, d calm);
CREATE DOMAIN checked AS inner_ CHECK ((VALUE).a IS NOT NULL);
CREATE TYPE holds AS (code code, code_x code_x, words words);
CREATE TABLE items (id int GENERATED ALWAYS AS IDENTITY, name varchar(5) NOT NULL, gone int,
    price numeric(6, 2), twice numeric GENERATED ALWAYS AS (price * 2) STORED, j json);
ALTER TABLE items DROP COLUMN gone;
COMMENT ON TYPE inner_ IS 'an "inner" thing';
COMMENT ON COLUMN items.price IS 'in euros';

-- what a schema looks like
SELECT llm_type_schema('int');
SELECT llm_type_schema('pos'), llm_type_schema('code_x', true);
SELECT llm_type_schema('inner_', true);
SELECT llm_type_schema('items', true);
SELECT llm_type_schema('odd'), llm_type_schema('odd', true);
SELECT d AS domain, llm_type_schema(d::regtype) ->> '$comment' AS comment, llm_type_schema(d::regtype, true) AS readable
FROM unnest(ARRAY['pos', 'between_', 'half_open', 'below_tenth', 'exact_', 'level', 'either', 'code', 'code_x', 'words',
    'status', 'odd', 'few', 'calm', 'checked']) d;

-- what has none
SELECT llm_type_schema('money');
SELECT llm_type_schema('record');
SELECT llm_type_schema('point[]');
CREATE TYPE has_xml AS (a int, x xml);
SELECT llm_type_schema('has_xml');
CREATE TABLE grid (cells int[][]);
SELECT llm_type_schema('grid');
-- arrays by their elements, but not by their layout
SELECT llm_type_schema('int2vector');
SELECT vllm.from_json('[]', NULL::oidvector);
SELECT llm_type_schema('int8multirange');
SELECT llm_type_schema(0::oid::regtype);

-- a type is described without a call of its owner's functions
CREATE ROLE regress_types28;
GRANT USAGE, CREATE ON SCHEMA types28 TO regress_types28;
SET ROLE regress_types28;
CREATE FUNCTION spy(bound int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
$$BEGIN RAISE NOTICE 'called by %', current_user; RETURN bound; END$$;
CREATE DOMAIN spied AS int CHECK (VALUE >= spy(3)) CHECK (VALUE < 10);
CREATE DOMAIN spied_more AS spied NOT NULL CHECK (VALUE > 4 AND VALUE <> spy(7));
CREATE TYPE spied_in AS (s spied, m spied_more[]);
CREATE FUNCTION spied_tool(s spied) RETURNS int LANGUAGE sql AS 'SELECT 1';
RESET ROLE;
SELECT llm_type_schema('spied'), llm_type_schema('spied_more');
SELECT llm_type_schema('spied_in', true);
SELECT llm_tool('spied_tool(spied)');
SELECT vllm.from_json('2', NULL::spied);
-- the owner's own domain is read as before
SET ROLE regress_types28;
SELECT llm_type_schema('spied');
RESET ROLE;
DROP OWNED BY regress_types28 CASCADE;
DROP ROLE regress_types28;

-- right and wrong instances of each type
CREATE TABLE cases (typ text, yes text[], no text[]);
INSERT INTO cases VALUES
('bool', '{true,false}', '{0,"null","\"t\""}'),
('smallint', '{0,-32768,32767,1.0,1e2}', '{32768,-32769,1.5,"\"1\"","null"}'),
('int', '{-2147483648,2147483647}', '{2147483648,-2147483649,true}'),
('bigint', '{-9223372036854775808,9223372036854775807}', '{9223372036854775808,-9223372036854775809}'),
('oid', '{0,4294967295}', '{-1,4294967296}'),
('real', '{0,-1.5,3.4028235e38,1e-60}', '{3.5e38,-3.5e38,"\"NaN\""}'),
('double precision', '{0,1.7976931348623157e308,1e-400,-2.5}', '{1.8e308,-1e309,"\"Infinity\""}'),
('numeric', '{0,1e300,-123456789012345678901234567890.5,1e-300}', '{1e301,"\"1\""}'),
('text', '{"\"\"","\"a\"","\"\\u00e9\\n\\\"\"","\"\\ud83d\\ude00\""}', '{"\"\\u0000\"",1,"null","\"a"}'),
('name', '{"\"abc\""}', '{"\"0123456789012345678901234567890123456789012345678901234567890123\""}'),
('"char"', '{"\"a\"","\" \""}', '{"\"\"","\"ab\"","\"\\u00e9\""}'),
('date', '{"\"2024-02-29\"","\"0001-01-01\"","\"9999-12-31\"","\"2000-02-29\""}',
    '{"\"2023-02-29\"","\"1900-02-29\"","\"0000-01-01\"","\"2024-04-31\"","\"2024-13-01\"","\"today\""}'),
('time', '{"\"00:00:00\"","\"23:59:59.999999\""}', '{"\"24:00:00\"","\"23:59:60\"","\"1:00:00\"","\"10:00\""}'),
('timetz', '{"\"10:00:00Z\"","\"10:00:00-14:00\""}', '{"\"10:00:00\"","\"10:00:00+15:00\""}'),
('timestamp', '{"\"2024-02-29T10:00:00\"","\"0001-01-01T00:00:00.5\""}', '{"\"2024-02-29\"","\"2024-02-30T10:00:00\"","\"2024-02-29T10:00:00Z\""}'),
('timestamptz', '{"\"2024-02-29T10:00:00Z\"","\"9999-12-31T23:59:59.999999-14:00\"","\"0001-01-01T00:00:00+14:00\""}', '{"\"2024-02-29T10:00:00\"","\"now\""}'),
('interval', '{"\"P1Y2M3DT4H5M6.5S\"","\"PT0S\"","\"P3W\"","\"P-9999Y\"","\"PT-1H\""}', '{"\"P\"","\"PT\"","\"1 day\"","\"P99999Y\"","\"P1DT\""}'),
('uuid', '{"\"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\""}', '{"\"a0eebc99\"","\"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A1\""}'),
('bytea', '{"\"\\\\x\"","\"\\\\xdeadbeef\""}', '{"\"\\\\xabc\"","\"deadbeef\""}'),
('inet', '{"\"10.1.2.255\"","\"::\"","\"1:2:3:4:5:6:7:8\"","\"fe80::1\"","\"1::\"","\"1:2:3:4:5:6::8\"","\"1::3:4:5:6:7:8\"","\"1:2:3:4:5:6:7::\"","\"::2:3:4:5:6:7:8\""}',
    '{"\"256.1.1.1\"","\"1.1.1\"","\":::\"","\"1::2::3\"","\"1:2:3:4:5:6:7:8:9\"","\"1:2:3:4:5:6:7\""}'),
('cidr', '{"\"10.0.0.0/8\"","\"192.168.100.128\"","\"10.1.2.3/32\"","\"1.2.3.0/24\"","\"1.2.0.0/16\"","\"0.0.0.0/0\"","\"::1/128\""}', '{"\"10.1.0.0/8\"","\"1.2.3.4/24\"","\"10.0.0.0/33\""}'),
('macaddr', '{"\"08:00:2b:01:02:03\""}', '{"\"08:00:2b:01:02\"","\"08:00:2b:01:02:0g\""}'),
('macaddr8', '{"\"08:00:2b:01:02:03:04:05\""}', '{"\"08:00:2b:01:02\""}'),
('bit varying', '{"\"\"","\"0110\""}', '{"\"2\""}'),
('pg_lsn', '{"\"16/B374D848\"","\"0/0\""}', '{"\"16\"","\"123456789/0\""}'),
('json', '{1,"null","{\"b\": [1, {}], \"a\": \"x\"}"}', '{"{","[1,]","\"\\u0000\""}'),
('jsonb', '{1e300,"null","{\"b\": [1, {}], \"a\": \"x\"}"}', '{1e301,"{\"\\u0000\": 1}"}'),
('int[]', '{[],"[1, 2]"}', '{"[null]",1,"[[1]]","[3000000000]"}'),
('mood', '{"\"sad\"","\"very \\\"happy\\\"\""}', '{"\"SAD\"","\"\"","null"}'),
('pos', '{1,99}', '{0,100,1.5}'),
('between_', '{-5,5000000000}', '{-6,5000000001}'),
('half_open', '{0.3,99.9,12.34}', '{0.25,100,99.95,0.24}'),
('below_tenth', '{0,0.09,-0.09,0.0999999}', '{0.1,-0.1,0.09999999999999}'),
('exact_', '{0.0000001,1.5}', '{0,1.50000001}'),
('level', '{1,40}', '{3,4}'),
('either', '{-1,10,20}', '{0,9,21}'),
('code', '{"\"AB1\"","\"AB123456\""}', '{"\"ab1\"","\"AB1234567\"","\"AB\"","null","\"\""}'),
('code_x', '{"\"AB71\""}', '{"\"AB70\"","\"AB1\"","\"AB7\""}'),
('words', '{"\"abcd\"","\"ab 1_.-\""}', '{"\"\"","\"abc\"","\"ababababababab\"","null"}'),
('status', '{"\"new\"","\"it''s\""}', '{"\"old\"","null"}'),
('few', '{[1],"[1, 2, 3]"}', '{[],"[1, 2, 3, 4]"}'),
('calm', '{"\"ok\""}', '{"\"sad\"","null"}'),
('int4range', '{"{\"lower\": 1, \"upper\": 2147483646, \"bounds\": \"[]\"}","{\"lower\": null, \"upper\": 5, \"bounds\": \"()\"}","{\"lower\": 9, \"upper\": 5, \"bounds\": \"[)\"}"}',
    '{"{\"lower\": 1, \"upper\": 2147483647, \"bounds\": \"[]\"}","{\"lower\": 1}","{\"lower\": 1, \"upper\": 2, \"bounds\": \"[[\"}"}'),
('daterange', '{"{\"lower\": \"2024-01-01\", \"upper\": \"9999-12-31\", \"bounds\": \"[]\"}"}', '{"{\"lower\": \"2024-01-32\", \"upper\": null, \"bounds\": \"[]\"}"}'),
('numrange', '{"{\"lower\": 1.5, \"upper\": 1.5, \"bounds\": \"[)\"}"}', '{[1]}'),
('inner_', '{"{\"a\": 1, \"b\": null}","{\"b\": \"x\", \"a\": null}"}', '{"{\"a\": 1}","{\"a\": 1, \"b\": \"x\", \"c\": 1}","{\"a\": \"1\", \"b\": null}",[],"null"}'),
('outer_', '{"{\"i\": {\"a\": 1, \"b\": \"x\"}, \"l\": [{\"a\": 1, \"b\": \"x\"}], \"c\": \"AB1\", \"m\": null, \"d\": \"ok\"}"}',
    '{"{\"i\": {\"a\": 1, \"b\": \"x\"}, \"l\": [null], \"c\": \"AB1\", \"m\": null, \"d\": null}","{\"i\": null, \"l\": null, \"c\": null, \"m\": null, \"d\": null}"}'),
('items', '{"{\"id\": 1, \"name\": \"abcde\", \"price\": 9999.99, \"j\": {\"z\": 1, \"a\": 1}}"}',
    '{"{\"id\": 1, \"name\": \"abcdef\", \"price\": 1, \"j\": 1}","{\"id\": 1, \"name\": null, \"price\": 1, \"j\": 1}","{\"id\": 1, \"name\": \"a\", \"price\": 10000, \"j\": 1}"}');

-- the value, or NULL and an error message
CREATE FUNCTION value_of(typ text, instance text, OUT value text, OUT error text) AS $$
BEGIN
    -- NULL::code would be refused by the domain itself
    EXECUTE format(CASE WHEN typ IN ('code', 'code_x', 'words') THEN 'SELECT vllm.from_json($1, (NULL::holds).%s)::text'
        ELSE 'SELECT vllm.from_json($1, NULL::%s)::text' END, typ) INTO value USING instance::json;
EXCEPTION WHEN OTHERS THEN
    error := sqlstate || ' ' || sqlerrm;
END $$ LANGUAGE plpgsql;

SELECT count(*) AS types FROM cases;
-- none: what is right is accepted and has a value
SELECT typ, j, llm_grammar_accepts(llm_type_schema(typ::regtype), j) AS accepted, (value_of(typ, j)).*
FROM cases, unnest(yes) j
WHERE NOT llm_grammar_accepts(llm_type_schema(typ::regtype), j) OR ((value_of(typ, j)).value IS NULL AND j <> 'null');
-- none: what is wrong is accepted by neither, unless it is rounded, or the type's input function knows more notations
SELECT typ, j FROM cases, unnest(no) j WHERE llm_grammar_accepts(llm_type_schema(typ::regtype), j);
SELECT typ, string_agg(j, ' ' ORDER BY j COLLATE "C") AS taken FROM cases, unnest(no) j WHERE (value_of(typ, j)).error IS NULL AND j <> 'null' GROUP BY typ ORDER BY typ COLLATE "C";
-- every instance against every type: accepted means that there is a value
SELECT c.typ, j, (value_of(c.typ, j)).error
FROM cases c, (SELECT DISTINCT unnest(yes || no) j FROM cases) i
WHERE llm_grammar_accepts(llm_type_schema(c.typ::regtype), j) AND (value_of(c.typ, j)).error IS NOT NULL;

-- what the values are
SELECT typ, j, (value_of(typ, j)).value FROM cases, unnest(yes) j
WHERE typ IN ('real', 'double precision', 'half_open', 'int4range', 'daterange', 'numrange', 'interval', 'outer_', 'items', 'json', 'few');
-- what is said of wrong ones
SELECT typ, j, (value_of(typ, j)).error FROM cases, unnest(no) j
WHERE typ IN ('smallint', 'real', 'half_open', 'code', 'mood', 'inner_', 'outer_', 'items', 'int[]', 'int4range') AND (value_of(typ, j)).error IS NOT NULL;
SELECT vllm.from_json('{"i": null, "l": [{"a": 1, "b": "x"}, {"a": 1.5, "b": "x"}], "c": "AB1", "m": null, "d": null}', NULL::outer_);
SELECT vllm.from_json('{"a": 1, "b": "x", "a": 2}', NULL::inner_);
SELECT vllm.from_json('7', NULL::odd), vllm.from_json('null', NULL::odd), vllm.from_json(NULL, 1);
SELECT vllm.from_json('8', NULL::odd);

-- answers: the fake model answers with its prompt if that fits, else with the first text that does
SELECT llm_generate_as('42', NULL::int) AS i, llm_generate_as('"ok"', NULL::mood) AS m, llm_generate_as('{"a": 1, "b": null}', NULL::inner_) AS c,
    llm_generate_as('"AB17"', 'AB71'::code) AS d, llm_generate_as('[1, 2]', NULL::int[]) AS l, llm_generate_as(NULL, NULL::int) AS n;
SELECT pg_typeof(llm_generate_as('1', NULL::pos)), pg_typeof(llm_generate_as('"x"', NULL::text));
SELECT (llm_generate_as(p, NULL::inner_)).* FROM (VALUES ('{"a": 1, "b": "x"}'), (NULL), ('{"a": null, "b": "it''s"}')) v(p);
INSERT INTO items (name, price) SELECT name, price FROM (SELECT (llm_generate_as(p, NULL::items)).*
    FROM (VALUES ('{"id": 1, "name": "a", "price": 1.005, "j": [1]}')) v(p)) s RETURNING name, price, twice;
SELECT llm_generate_json('{"b": 1, "a": [2.50]}', '{"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "array"}}, "required": ["b", "a"]}');
SELECT llm_extract('Anna is 30', NULL::inner_), llm_extract('Anna is 30', schema => '{"enum": ["x"]}'), llm_extract(NULL, NULL::int) IS NULL AS n;
-- the batch node takes them
EXPLAIN (COSTS OFF) SELECT llm_generate_as(p, NULL::pos) FROM (VALUES ('1'), ('2')) v(p);
CREATE TABLE prompts AS SELECT i, i::text AS p FROM generate_series(1, 20) i;
SELECT sum(llm_generate_as(p, NULL::pos)), sum(llm_generate_as(p, NULL::numeric)), count(llm_generate_as(p, NULL::odd, on_error => 'null')) FROM prompts;
SET vllm.batch = off;
SELECT sum(llm_generate_as(p, NULL::pos)), sum(llm_generate_as(p, NULL::numeric)), count(llm_generate_as(p, NULL::odd, on_error => 'null')) FROM prompts;
RESET vllm.batch;
-- an answer that is no value is an error of its row
CREATE TABLE odds AS SELECT i, CASE WHEN i = 5 THEN '8' ELSE (2 * i + 1)::text END AS p FROM generate_series(1, 20) i;
SELECT i, llm_generate_as(p, NULL::odd) FROM odds WHERE llm_generate_as(p, NULL::odd) > 0 LIMIT 4;
SELECT i, llm_generate_as(p, NULL::odd) FROM odds WHERE llm_generate_as(p, NULL::odd) > 0 LIMIT 5;
SELECT count(*) FROM (SELECT 1 FROM odds WHERE llm_generate_as(p, NULL::odd, on_error => 'null') > 0 OFFSET 0) s;
-- what the prompt of an extraction is, and what a scalar is that isn't there
SELECT llm_extract('Anna is 30', schema => '{"type": "string"}', instruction => 'Her age.', chat_template => '{{ messages[0].content | tojson }}') AS prompt;
CREATE FUNCTION extracted(template text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    -- the answer is the prompt if that fits
    RETURN llm_extract('null', NULL::pos, chat_template => template);
END $$;
SELECT extracted('null') IS NULL AS missing, extracted('7') AS seven;
-- what can go wrong
SELECT llm_generate_as('x', NULL::uuid, max_tokens => 2);
SELECT llm_generate_as('x', NULL::uuid, max_tokens => 2, on_error => 'null') IS NULL AS cut;
SELECT llm_generate_as('8', NULL::odd);
SELECT llm_generate_as('8', NULL::odd, on_error => 'null') IS NULL AS refused;
SELECT llm_generate_as('@error', NULL::int, on_error => 'null');
SELECT llm_generate_as('8', NULL::int, on_error => 'ignore');
SELECT llm_generate_as('8', NULL::int, params => '{"stop": "x"}');
SELECT llm_generate_as('8', NULL::int, params => '{"regex": "x"}');
SELECT llm_generate_as('8', NULL::int, params => '{"n": 2}');
SELECT llm_generate_as('8', NULL::int, max_tokens => 0);
SELECT llm_generate_as('8', NULL::money);
SELECT llm_generate_as('', NULL::int);
SELECT llm_generate_json('8', NULL);
SELECT llm_generate_json('8', '{"uniqueItems": true, "type": "array"}');
SELECT llm_generate_json('8', '{"type": 1}');

-- CHECKs that mind null, lengths of arrays, rows and numbers that are excluded
CREATE DOMAIN or_null AS int CHECK (VALUE IS NULL OR (VALUE > 5 AND VALUE < 9));
CREATE DOMAIN at_most AS int[] CHECK (array_length(VALUE, 1) <= 3);
CREATE DOMAIN other_dim AS int[] CHECK (array_length(VALUE, 2) <= 3);
CREATE DOMAIN not_five AS numeric CHECK (VALUE <> 5);
CREATE DOMAIN whole_row AS inner_ CHECK (VALUE IS NOT NULL);
SELECT d AS domain, llm_type_schema(d::regtype)::jsonb - 'properties' AS schema FROM unnest(ARRAY['or_null', 'at_most', 'other_dim', 'whole_row']) d;
SELECT s -> 'not' AS not, s -> '$comment' AS comment FROM llm_type_schema('not_five') s;
CREATE DOMAIN steps AS numeric(5, 2) CHECK (VALUE IN (0.5, 1, 2.25));
CREATE DOMAIN no_step AS numeric(5, 2) CHECK (VALUE = 0.005);
CREATE DOMAIN not_one AS numeric(5, 2) CHECK (VALUE <> 1);
SELECT d AS domain, llm_type_schema(d::regtype) AS schema FROM unnest(ARRAY['steps', 'no_step', 'not_one']) d;
-- the same number, spelled otherwise
SELECT j, llm_grammar_accepts(llm_type_schema('not_five'), j), llm_grammar_accepts(llm_type_schema('half_open'), j) FROM unnest(ARRAY['5', '50e-1', '0.5e1', '500e-2', '50e2', '6']) j;
-- dates have the order of their texts
CREATE DOMAIN born AS date CHECK (VALUE >= '1900-01-01' AND VALUE < '2026-11-20');
SELECT llm_type_schema('born', true);
DO $$
DECLARE
    op text;
    bound date;
    d date;
    said bool;
BEGIN
    FOR op, bound IN SELECT o, b FROM unnest(ARRAY['<', '<=', '>', '>=']) o,
        unnest(ARRAY['0001-01-02', '0999-12-31', '1900-01-01', '1999-12-31', '2000-02-29', '2024-03-01', '9989-09-09', '9999-12-30']::date[]) b
    LOOP
        EXECUTE format('CREATE DOMAIN dated AS date CHECK (VALUE %s %L)', op, bound);
        FOR d IN SELECT bound + i FROM unnest(ARRAY[-1, 0, 1, 10, -10, 31, -31, 400, -400, 4000, -4000]) i WHERE bound + i BETWEEN '0001-01-01' AND '9999-12-31' LOOP
            EXECUTE format('SELECT %L::date %s %L::date', d, op, bound) INTO said;
            EXECUTE 'SELECT $1 = llm_grammar_accepts(llm_type_schema(''dated''), to_json($2)::text)' INTO said USING said, d;
            IF NOT said THEN RAISE 'wrong: % % %', d, op, bound; END IF;
        END LOOP;
        DROP DOMAIN dated;
    END LOOP;
END $$;
CREATE DOMAIN never AS date CHECK (VALUE < '0001-01-01');
SELECT llm_type_schema('never') -> '$comment' AS comment;
-- char(n) is compared without the blanks behind it and matched with them
CREATE DOMAIN flag AS char(1) CHECK (VALUE IN ('Y', 'N'));
CREATE DOMAIN country AS char(2) CHECK (VALUE ~ '^[A-Z]{2}$' AND VALUE <> 'XX');
CREATE DOMAIN padded AS char(4) CHECK (VALUE ~ '^[a-z]{2,3} *$' OR VALUE = 'Q');
CREATE DOMAIN begins AS bpchar CHECK (VALUE LIKE 'a%');
CREATE DOMAIN opens AS char(4) CHECK (VALUE ~ '^a' AND VALUE LIKE '%b%');
SELECT d AS domain, llm_type_schema(d::regtype) FROM unnest(ARRAY['flag', 'country', 'padded', 'begins', 'opens']) d;
SELECT d AS domain, j, (value_of(d, j)).error FROM unnest(ARRAY['flag', 'country', 'padded', 'begins', 'opens']) d,
    unnest(ARRAY['"Y"', '"Y "', '"XX"', '"DE"', '"D"', '"ab"', '"ab  "', '"abc "', '"abcd"', '"Q"', '"Q   "', '"a"', '"a "', '""', '" "']) j
WHERE llm_grammar_accepts(llm_type_schema(d::regtype), j) ORDER BY d, j COLLATE "C";
-- characters that are themselves in brackets here, and operators there
CREATE DOMAIN classes AS text CHECK (VALUE ~ '^[a&&b~~c][!-&&][\&\&]$');
SELECT llm_type_schema('classes') -> 'allOf' AS pattern, llm_grammar_accepts(llm_type_schema('classes'), '"b&&"') AS yes, llm_grammar_accepts(llm_type_schema('classes'), '"d&&"') AS no;
SELECT vllm.from_json('null', NULL::or_null) IS NULL AS n, vllm.from_json('[1, 2, 3]', NULL::at_most), vllm.from_json('{"a": 1, "b": null}', (NULL::inner_));
-- a collation that finds different texts equal
DO $$
BEGIN
    EXECUTE 'CREATE COLLATION no_case (provider = icu, locale = ''und-u-ks-level2'', deterministic = false)';
    EXECUTE 'CREATE DOMAIN not_abc AS text CHECK (VALUE COLLATE no_case NOT IN (''abc'', ''x''))';
    IF NOT llm_grammar_accepts(llm_type_schema('not_abc'), '"ABC"') OR llm_type_schema('not_abc') ->> '$comment' IS NULL THEN
        RAISE 'nothing is said of what the collation finds equal';
    END IF;
EXCEPTION WHEN feature_not_supported THEN NULL;     -- no ICU here
END $$;
-- names are so many bytes, not characters
SELECT llm_type_schema('name');
SELECT vllm.from_json(to_json(repeat('é', 31)), NULL::name), vllm.from_json(to_json(repeat('é', 32)), NULL::name);
-- a label that can't be used yet
BEGIN;
ALTER TYPE mood ADD VALUE 'new';
SELECT llm_type_schema('mood');
COMMIT;
SELECT llm_type_schema('mood');
-- what a sample says beside its type
SELECT vllm.from_json('1.2345', NULL::numeric(5, 2)) AS numeric, vllm.from_json('"ab"', NULL::char(4)) || '|' AS char, vllm.from_json('["abc"]', NULL::varchar(3)[]) AS varchars;
SELECT vllm.from_json('"abcd"', NULL::varchar(3));
SELECT vllm.from_json('1000', NULL::numeric(5, 2));
SELECT llm_generate_as('1.2345', NULL::numeric(5, 2)) AS rounded, llm_generate_as('1.2345', NULL::numeric) AS as_is, llm_extract('"abcd"', NULL::varchar(3)) AS short;
SELECT p, llm_generate_as(p, NULL::numeric(3, 1)) FROM (VALUES ('1.25'), ('99.94')) v(p);
-- columns of columns of columns
DO $$
BEGIN
    CREATE TYPE l0 AS (a int);
    FOR i IN 1..6 LOOP
        EXECUTE format('CREATE TYPE l%s AS (%s)', i, (SELECT string_agg(format('c%s l%s', c, i - 1), ', ') FROM generate_series(1, 12) c));
    END LOOP;
END $$;
SET statement_timeout = '5s';
SELECT length(llm_type_schema('l2')::text) AS length;
SELECT llm_type_schema('l4');
SELECT llm_type_schema('l6');
SELECT vllm.from_json('{}', NULL::l6);
RESET statement_timeout;
-- where it stands, when the type's own function says no
CREATE TYPE placed AS (a int, l date[], j jsonb);
\set VERBOSITY default
SELECT vllm.from_json('{"a": 1, "l": ["2024-02-29", "2023-02-29"], "j": 1}', NULL::placed);
SELECT vllm.from_json('{"a": 1, "l": [], "j": {"x": 1e-20000}}', NULL::placed);
SELECT vllm.from_json('"2023-02-29"', NULL::date);
\set VERBOSITY terse
-- values within values, deeper than any
SELECT llm_generate_as(repeat('[', 1001) || repeat(']', 1001), NULL::json);
SELECT llm_generate_as(repeat('[', 1001) || repeat(']', 1001), NULL::json, on_error => 'null') IS NULL AS refused;

-- to describe a type, or to plan with it, runs no code of roles: neither a function that is SECURITY DEFINER ...
CREATE ROLE types_mal;
GRANT ALL ON SCHEMA types28 TO types_mal;
CREATE FUNCTION adm(text) RETURNS int IMMUTABLE SECURITY DEFINER LANGUAGE plpgsql AS 'BEGIN RETURN $1::int; END';
SET ROLE types_mal;
CREATE DOMAIN by_adm AS text CHECK (length(VALUE) <> adm('bad'));
CREATE TYPE of_adm AS (a by_adm);
CREATE TABLE adm_texts (x text);
DO $$BEGIN EXECUTE 'EXPLAIN SELECT llm_generate_as(x, NULL::of_adm) FROM adm_texts'; END $$;
SELECT current_user;
-- ... nor the CHECKs of a domain within a CHECK ...
CREATE FUNCTION tells(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RAISE NOTICE 'called by %', current_user; RETURN 'z'; END $$;
CREATE DOMAIN inside AS text CHECK (VALUE <> tells('a'));
CREATE DOMAIN outside AS text CHECK (VALUE <> ('x'::inside)::text);
RESET ROLE;
SELECT llm_type_schema('outside') ->> '$comment' AS comment;
-- ... and an error of PostgreSQL's own functions, which may leave references behind, ends the statement
CREATE DOMAIN no_int AS text CHECK (length(VALUE) <> ('abc'::text)::int);
CREATE TYPE of_no_int AS (a no_int);
DO $$BEGIN EXECUTE 'EXPLAIN SELECT llm_generate_as(x, NULL::of_no_int) FROM adm_texts'; END $$;
-- keywords that stand twice, very often
DO $$BEGIN EXECUTE (SELECT 'CREATE DOMAIN many_terms AS text CHECK (' || string_agg(format('VALUE <> %L', repeat('a', 300) || i), ' AND ') || ')' FROM generate_series(1, 4000) i); END $$;
SET statement_timeout = '5s';
SELECT llm_type_schema('many_terms');
RESET statement_timeout;

SET client_min_messages = warning;
DROP SCHEMA types28 CASCADE;
DROP OWNED BY types_mal;
DROP ROLE types_mal;
