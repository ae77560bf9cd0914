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
