-- The catalog: create, drop, load, unload; what rolls back, rolls back.
SET client_min_messages = warning;
SELECT llm_create_model('m1', '/fake/ready//x/../m1/');
SELECT name, path, provider, state, owner, grants, options FROM llm_models WHERE name = 'm1';
SELECT llm_generate('first use loads it', model => 'm1');
SELECT name, arch, dtype, state, progress, parameters > 0 AS parameters, weight_bytes > 0 AS weights, max_model_len > 0 AS len,
       kv_blocks_total > 0 AS kv, kv_blocks_used, running, waiting FROM llm_models WHERE name = 'm1';
SELECT llm_unload_model('m1');
SELECT name, state FROM llm_models WHERE name = 'm1';
SELECT llm_load_model('m1');
SELECT name, state FROM llm_models WHERE name = 'm1';
SELECT llm_create_model('m2', '/fake/m2', options => '{"max_model_len": 100}');
SELECT llm_generate('two', model => 'm2');
SELECT name, max_model_len, options FROM llm_models WHERE name = 'm2';
SELECT llm_create_model('m2kv', '/fake/two', options => '{"kv_cache_dtype": "int8"}');
SELECT llm_generate('two', model => 'm2kv');
SELECT llm_drop_model('m2kv');
SELECT fails(format('SELECT llm_generate(%L, model => ''m2'')', repeat('x', 100)));
SET vllm.model = 'm2';
SELECT llm_generate('default model');
RESET vllm.model;

-- what can't be created; of the known options only the first few
SELECT c, regexp_replace(fails('SELECT llm_create_model(' || c || ')'), '(Known options are \w+, \w+, ).*', '\1...') AS fails FROM (VALUES
    ('NULL, ''/fake/x'''), (''''', ''/fake/x'''), ('repeat(''x'', 64), ''/fake/x'''),
    ('''m3'''), ('''m3'', ''relative/path'''), ('''m3'', ''Qwen/Qwen3-4B'''), ('''m3'', ''hf://Qwen/Qwen3-4B'''),
    ('''m3'', ''https://huggingface.co/Qwen/Qwen3-4B'''), ('''m3'', ''Qwen/Qwen3-4B-GGUF:Q4_K_M'''), ('''m3'', ''Qwen/Qwen3-4B-GGUF/x.gguf'''), ('''m3'', ''gpt2'''),
    ('''m3'', ''/fake/x'', options => ''{"speculative_config": {"method": "draft_model", "num_speculative_tokens": 2, "model": "Qwen/Qwen3-0.6B"}}'''), ('''m3'', '''''), ('''m1'', ''/fake/again'''), ('''tickets-2m'', ''/fake/x'''),
    ('''m3'', ''/fake/bad'''), ('''m3'', ''/fake/x'', provider => ''openai'''), ('''m3'', ''/fake/x'', url => ''http://x'''),
    ('''m3'', ''/fake/x'', options => ''[]'''), ('''m3'', ''/fake/x'', options => ''{"no_such_option": 1}'''),
    ('''m3'', ''/fake/x'', options => ''{"kv_cache_dtype": "int4"}'''), ('''m3'', ''/fake/x'', options => ''{"kv_cache_dtype": 8}''')) v (c);
SELECT count(*) FROM llm_models WHERE name = 'm3';

-- what files hold, without a row
SELECT llm_inspect_model('/fake/x'), llm_inspect_model('/fake/x', '{"max_model_len": 10}') ->> 'supported' AS supported;
SELECT c, regexp_replace(fails('SELECT llm_inspect_model(' || c || ')'), '(Known options are \w+, \w+, ).*', '\1...') AS fails FROM (VALUES
    ('NULL'), (''''''), ('''relative/path'''), ('''/fake/bad'''), ('''/fake/x'', ''[]'''), ('''/fake/x'', ''{"no_such_option": 1}''')) v (c);
CREATE ROLE regress_no_files;
SET ROLE regress_no_files;
SELECT fails($$SELECT llm_inspect_model('/fake/x')$$);
RESET ROLE;
DROP ROLE regress_no_files;
SELECT fails($$SELECT llm_drop_model('m3')$$), fails($$SELECT llm_drop_model(NULL)$$), fails($$SELECT llm_drop_model('tickets-2m')$$);
SELECT fails($$SELECT llm_load_model('m3')$$), fails($$SELECT llm_unload_model('m3')$$), fails($$SELECT llm_load_model(NULL)$$);
SELECT fails($$INSERT INTO vllm.model VALUES ('m1')$$);

-- a model that fails to load: every call says so, the view too
SELECT llm_create_model('broken', '/fake/fail');
SELECT fails($$SELECT llm_generate('x', model => 'broken')$$), fails($$SELECT llm_load_model('broken')$$);
SELECT name, state, error FROM llm_models WHERE name = 'broken';
SELECT llm_drop_model('broken');

-- drop: gone at once for this session, from the engine at commit
BEGIN;
SELECT llm_drop_model('m1');
SELECT fails($$SELECT llm_generate('x', model => 'm1')$$);
ROLLBACK;
SELECT llm_generate('still there', model => 'm1');
SELECT llm_drop_model('m1');
SELECT fails($$SELECT llm_generate('x', model => 'm1')$$);
-- the name is free again
SELECT llm_create_model('m1', '/fake/other');
SELECT llm_generate('again', model => 'm1'), (SELECT path FROM llm_models WHERE name = 'm1');

-- create in a transaction: usable inside, gone after a rollback
BEGIN;
SELECT llm_create_model('t1', '/fake/t1');
SELECT llm_generate('inside', model => 't1');
SELECT name, state FROM llm_models WHERE name = 't1';
ROLLBACK;
SELECT fails($$SELECT llm_generate('x', model => 't1')$$);
-- and the engine has forgotten it: the same name and path is not loaded
SELECT llm_create_model('t1', '/fake/t1');
SELECT name, state FROM llm_models WHERE name = 't1';
SELECT llm_load_model('t1'), llm_drop_model('t1');
SELECT llm_create_model('t1', '/fake/t1');
SELECT name, state FROM llm_models WHERE name = 't1';
-- savepoints
BEGIN;
SELECT llm_create_model('s1', '/fake/s1');
SAVEPOINT a;
SELECT llm_create_model('s2', '/fake/s2');
SELECT llm_drop_model('s1');
SAVEPOINT b;
SELECT llm_create_model('s3', '/fake/s3');
SELECT llm_generate('three', model => 's3');
RELEASE b;
ROLLBACK TO a;
SELECT name FROM llm_models WHERE name LIKE 's_' ORDER BY 1;
SELECT llm_create_model('s3', '/fake/s3');
SELECT name, state FROM llm_models WHERE name = 's3';
SELECT llm_create_model('s4', '/fake/s4');
COMMIT;
SELECT name FROM llm_models WHERE name LIKE 's_' ORDER BY 1;
SELECT llm_generate('s1', model => 's1'), llm_generate('s4', model => 's4');
-- a failed create inside an exception block leaves nothing
DO $$
BEGIN
    PERFORM llm_create_model('e1', '/fake/e1');
    RAISE division_by_zero;
EXCEPTION WHEN division_by_zero THEN
    PERFORM llm_create_model('e1', '/fake/e1again');
END $$;
SELECT name, path FROM llm_models WHERE name = 'e1';
-- drop and create anew in one transaction
BEGIN;
SELECT llm_drop_model('e1');
SELECT llm_create_model('e1', '/fake/e1new', options => '{"max_model_len": 50}');
COMMIT;
SELECT llm_generate('new', model => 'e1');
SELECT path, max_model_len FROM llm_models WHERE name = 'e1';
-- what others use stays, whatever the name stood for meanwhile
SELECT llm_create_model('live', '/fake/live', options => '{"max_model_len": 500}');
SELECT llm_load_model('live');
CREATE FUNCTION live() RETURNS text LANGUAGE sql AS $$SELECT state FROM llm_models WHERE name = 'live'$$;
BEGIN;
SELECT llm_drop_model('live'), llm_create_model('live', '/fake/other');
ROLLBACK;
SELECT live() AS other_path_rolled_back;
BEGIN;
SELECT llm_drop_model('live'), llm_create_model('live', '/fake/live');
ROLLBACK;
SELECT live() AS other_options_rolled_back;
BEGIN;
SELECT llm_drop_model('live'), llm_create_model('live', '/fake/live', options => '{"max_model_len": 500}');
ROLLBACK;
SELECT live() AS same_rolled_back;
BEGIN;
SELECT llm_drop_model('live'), llm_create_model('live', '/fake/live', options => '{"max_model_len": 500}');
COMMIT;
SELECT live() AS same_committed;
BEGIN;
SELECT llm_drop_model('live'), llm_create_model('live', '/fake/other'), llm_drop_model('live');
SELECT llm_create_model('live', '/fake/live', options => '{"max_model_len": 500}');
COMMIT;
SELECT live() AS other_and_back;
BEGIN;
SELECT llm_drop_model('live');
SAVEPOINT a;
SELECT llm_create_model('live', '/fake/live', options => '{"max_model_len": 500}');
ROLLBACK TO a;
SELECT llm_create_model('live', '/fake/other');
SAVEPOINT b;
SELECT llm_drop_model('live');
ROLLBACK TO b;
RELEASE b;
ROLLBACK;
SELECT live() AS savepoints_rolled_back;
BEGIN;
SAVEPOINT a;
SELECT llm_drop_model('live'), llm_create_model('live', '/fake/other');
ROLLBACK TO a;
COMMIT;
SELECT live() AS savepoint_rolled_back;
-- a version of this transaction, used and given up, is forgotten; the one that stays is not
BEGIN;
SELECT llm_drop_model('live'), llm_create_model('live', '/fake/other');
SELECT llm_load_model('live');
SAVEPOINT a;
SELECT llm_drop_model('live'), llm_create_model('live', '/fake/third');
ROLLBACK TO a;
SELECT live() AS third_rolled_back;
ROLLBACK;
SELECT live() AS other_forgotten;
SELECT llm_load_model('live');
BEGIN;
SELECT llm_drop_model('live');
SAVEPOINT a;
SELECT llm_create_model('live', '/fake/live', options => '{"max_model_len": 500}');
ROLLBACK TO a;
COMMIT;
SELECT llm_create_model('live', '/fake/live', options => '{"max_model_len": 500}');
SELECT live() AS dropped_after_all;
DROP FUNCTION live;
-- public, as GRANT knows it
SELECT llm_grant('live', 'PUBLIC');
SELECT grants FROM llm_models WHERE name = 'live';
SELECT llm_revoke('live', 'Public');
SELECT grants FROM llm_models WHERE name = 'live';
-- not with two-phase commit
BEGIN;
SELECT llm_create_model('p1', '/fake/p1');
PREPARE TRANSACTION 'p1';
SELECT name FROM llm_models WHERE name = 'p1';
-- not in a read-only transaction; calls are fine there
BEGIN READ ONLY;
SELECT fails($$SELECT llm_create_model('r1', '/fake/r1')$$), fails($$SELECT llm_drop_model('e1')$$),
       fails($$SELECT llm_grant('e1', 'public')$$), fails($$SELECT llm_revoke('e1', 'public')$$);
SELECT llm_generate('read only');
ROLLBACK;

-- a model that takes long to load: calls wait for it
SELECT llm_create_model('slow', '/fake/slow:300');
SET client_min_messages = notice;
SELECT llm_generate('after loading', model => 'slow');
-- ... and rows of a statement say so once, though they end one after the other
SELECT llm_unload_model('slow');
SELECT llm_generate('row @delay:' || i * 250, model => 'slow') FROM generate_series(0, 3) i;
SET client_min_messages = warning;
SELECT llm_unload_model('slow');
SELECT fails($$SELECT llm_generate('x', model => 'slow', timeout_ms => 50)$$);

-- another database has models of its own
CREATE DATABASE regress_vllm_other;
\set this :DBNAME
\c regress_vllm_other
SET client_min_messages = warning;
CREATE EXTENSION vllm_pg;
SELECT name FROM llm_models;
SELECT llm_create_model('m1', '/fake/mine');
SELECT llm_generate('other database', model => 'm1');
-- DROP EXTENSION releases them, also when it is rolled back first
BEGIN;
DROP EXTENSION vllm_pg;
ROLLBACK;
SELECT llm_generate('still here', model => 'm1');
DROP EXTENSION vllm_pg;
SELECT to_regclass('llm_models'), to_regnamespace('vllm');
CREATE EXTENSION vllm_pg;
SELECT llm_create_model('m1', '/fake/mine');
SELECT name, state FROM llm_models ORDER BY name;
SELECT llm_create_model('m9', '/fake/m9');
SELECT llm_generate('nine', model => 'm9');
\c :this
SET client_min_messages = warning;
DROP DATABASE regress_vllm_other;
SELECT llm_generate('back', model => 'm1');
SELECT llm_drop_model(name) FROM llm_models WHERE name <> 'tickets-2m' ORDER BY name COLLATE "C";
SELECT name FROM llm_models;
SELECT left_behind();
