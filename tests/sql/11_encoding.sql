-- Text that a database can't store, and databases that are not UTF-8.
SET client_min_messages = warning;
SELECT llm_generate('grüße 世界 🙂');
SELECT llm_generate('a @nul') = 'A @NUL' AS nul_removed, encode(convert_to(llm_generate('a @badutf8'), 'UTF8'), 'escape') AS replaced;
SELECT text = 'A @NUL' AS nul_removed FROM llm_generate_full('a @nul');
SELECT string_agg(text, '' ORDER BY seq) = 'A @NUL' AS nul_removed FROM llm_generate_stream('a @nul');
SET vllm.invalid_text = 'error';
SELECT fails($$SELECT llm_generate('a @nul')$$), fails($$SELECT llm_generate('a @badutf8')$$);
SELECT llm_generate('fine');
RESET vllm.invalid_text;
SELECT fails($$SET vllm.invalid_text = 'ignore'$$);
SELECT llm_detokenize('{104,0,105}'), llm_detokenize('{226,130,172,226,130}'), llm_detokenize('{255,65,192,128}');
-- what is too long for a message or a name is cut between two characters
CREATE FUNCTION shown(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    message text;
    detail text;
BEGIN
    EXECUTE query;
    RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
    RETURN right(convert_from(convert_to(message || ' ' || detail, 'LATIN1'), 'LATIN1'), 20);   -- as for a client
END $$;
SELECT shown($$SELECT llm_create_model('m', '/fake/m', options => ('{"result_cache": {"max_age": "x' || repeat('é', 60) || '"}}')::json)$$);
CREATE DOMAIN two_bytes AS text CHECK (octet_length(VALUE) <= 2);
SELECT shown($$SELECT vllm.from_json(to_json(repeat('é', 200)), NULL::two_bytes)$$);
ALTER SYSTEM SET vllm.eplb_config = '{"xééééééééééééééééééééééééééééééééééééé": 1}';
ALTER SYSTEM SET vllm.eplb_config = '{"policy": "ééééééééééééééééééééééééééééééééééééé"}';
CREATE TABLE "xééééééééééééééééééééééééééééééé" (id int PRIMARY KEY, a text, b text);
SELECT llm_create_completion_job('xééééééééééééééééééééééééééééééé', '{a}', 'b');
SELECT convert_from(convert_to(name::text, 'LATIN1'), 'LATIN1') FROM llm_jobs;
SELECT count(llm_drop_job(name)) FROM llm_jobs;
DROP TABLE "xééééééééééééééééééééééééééééééé";
DROP DOMAIN two_bytes;

CREATE DATABASE regress_vllm_latin1 ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C';
CREATE DATABASE regress_vllm_ascii ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C';
\set this :DBNAME
\c regress_vllm_latin1
SET client_encoding = 'UTF8';
SET client_min_messages = warning;
CREATE EXTENSION vllm_pg;
SELECT llm_generate('ärger straße'), llm_count_tokens('ä') AS utf8_bytes;
SELECT llm_detokenize('{226,130,172,33}') AS euro_is_not_latin1, llm_detokenize('{195,188}') AS u_umlaut;
SELECT llm_generate('eins zwei', stop => '{ß,ZWEI}'), llm_generate('x', params => '{"stop": "ü"}');
SELECT llm_create_model('modèle', '/fake/m');
SELECT llm_generate('grün', model => 'modèle');
SELECT name, state FROM llm_models ORDER BY name;
SET vllm.invalid_text = 'error';
SELECT llm_detokenize('{226,130,172}');
\c regress_vllm_ascii
SET client_min_messages = warning;
CREATE EXTENSION vllm_pg;
SELECT llm_generate('plain');
SELECT llm_generate(E'valid \303\244'), llm_count_tokens(E'\303\244');
SELECT llm_generate(E'invalid \377');
-- places in a text are those of substr(): bytes
SELECT token, start, stop, substr(E'caf\303\251 Bob', start + 1, stop - start) AS part FROM llm_token_classify(E'caf\303\251 Bob');
\c :this
SET client_min_messages = warning;
DROP DATABASE regress_vllm_latin1;
DROP DATABASE regress_vllm_ascii;
SELECT left_behind();
