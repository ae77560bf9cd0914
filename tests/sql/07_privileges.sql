-- Who may do what.
SET client_min_messages = warning;
CREATE ROLE regress_vllm_owner;
CREATE ROLE regress_vllm_user;
CREATE ROLE regress_vllm_group;
CREATE ROLE regress_vllm_member IN ROLE regress_vllm_group;
GRANT pg_read_server_files TO regress_vllm_owner;
GRANT EXECUTE ON FUNCTION fails(text) TO PUBLIC;

-- an ordinary role: the bundled model, nothing else
SET ROLE regress_vllm_user;
SELECT llm_generate('public model'), llm_count_tokens('abc');
SELECT f, fails('SELECT ' || f) FROM (VALUES
    ('llm_create_model(''u1'', ''/fake/u1'')'),
    ('llm_drop_model(''tickets-2m'')'), ('llm_load_model(''tickets-2m'')'), ('llm_unload_model(''tickets-2m'')'),
    ('llm_grant(''tickets-2m'', ''regress_vllm_user'')'), ('llm_revoke(''tickets-2m'', ''public'')'),
    ('llm_engine_restart()'), ('vllm.control(''log'')'), ('* FROM vllm.model')) v (f);
SELECT fails('DELETE FROM vllm.model'), fails('UPDATE vllm.model SET path = NULL');
SELECT count(*) FROM llm_stat_engine;
RESET ROLE;

-- an owner: pg_read_server_files may name paths
SET ROLE regress_vllm_owner;
SELECT llm_create_model('o1', '/fake/o1', options => '{"max_model_len": 1000}');
SELECT llm_generate('mine', model => 'o1');
SELECT name, path, owner, grants, options FROM llm_models WHERE name = 'o1';
SELECT fails($$SELECT llm_drop_model('tickets-2m')$$);
RESET ROLE;

-- not granted: 42501 on every use, and the path is nobody else's business
SET ROLE regress_vllm_user;
SELECT fails($$SELECT llm_generate('x', model => 'o1')$$), fails($$SELECT llm_tokenize('x', model => 'o1')$$),
       fails($$SELECT llm_generate('x', params => '{"model": "o1"}')$$), fails($$SELECT llm_drop_model('o1')$$);
SET vllm.model = 'o1';
SELECT fails($$SELECT llm_generate('x')$$);
RESET vllm.model;
SELECT name, path, owner, options FROM llm_models WHERE name = 'o1';
RESET ROLE;

-- grant to a role, to a group, to everybody
SET ROLE regress_vllm_owner;
SELECT llm_grant('o1', 'regress_vllm_user');
SELECT llm_grant('o1', 'regress_vllm_user');
SELECT fails($$SELECT llm_grant('o1', 'no such role')$$), fails($$SELECT llm_grant('nobody', 'public')$$),
       fails($$SELECT llm_grant('o1', NULL)$$), fails($$SELECT llm_grant(NULL, 'public')$$);
RESET ROLE;
SET ROLE regress_vllm_user;
SELECT llm_generate('granted', model => 'o1');
SELECT fails($$SELECT llm_unload_model('o1')$$), fails($$SELECT llm_grant('o1', 'public')$$);
RESET ROLE;
SET ROLE regress_vllm_member;
SELECT fails($$SELECT llm_generate('x', model => 'o1')$$);
RESET ROLE;
SELECT llm_grant('o1', 'regress_vllm_group');
SET ROLE regress_vllm_member;
SELECT llm_generate('through the group', model => 'o1');
RESET ROLE;
SELECT grants FROM llm_models WHERE name = 'o1';
-- grants follow a rename and roll back
ALTER ROLE regress_vllm_user RENAME TO regress_vllm_renamed;
SELECT grants FROM llm_models WHERE name = 'o1';
ALTER ROLE regress_vllm_renamed RENAME TO regress_vllm_user;
BEGIN;
SELECT llm_revoke('o1', 'regress_vllm_user');
ROLLBACK;
SELECT llm_revoke('o1', 'regress_vllm_group');
SELECT llm_revoke('o1', 'regress_vllm_group');
SELECT grants FROM llm_models WHERE name = 'o1';
SET ROLE regress_vllm_member;
SELECT fails($$SELECT llm_generate('x', model => 'o1')$$);
RESET ROLE;
SELECT llm_revoke('o1', 'regress_vllm_user');
SELECT llm_grant('o1', 'public');
SET ROLE regress_vllm_member;
SELECT llm_generate('everybody', model => 'o1');
RESET ROLE;
SELECT llm_revoke('o1', 'public');
-- the bundled model can be closed and opened again
SELECT llm_revoke('tickets-2m', 'public');
SET ROLE regress_vllm_user;
SELECT fails($$SELECT llm_generate('x')$$);
RESET ROLE;
SELECT llm_grant('tickets-2m', 'public');

-- a function owner's rights count inside SECURITY DEFINER
CREATE FUNCTION ask_o1(p text) RETURNS text LANGUAGE sql SECURITY DEFINER AS $$SELECT llm_generate(p, model => 'o1')$$;
ALTER FUNCTION ask_o1(text) OWNER TO regress_vllm_owner;
SET ROLE regress_vllm_user;
SELECT ask_o1('definer');
RESET ROLE;

-- a role that is dropped leaves a number that fits nobody
CREATE ROLE regress_vllm_gone;
SELECT llm_grant('o1', 'regress_vllm_gone');
DROP ROLE regress_vllm_gone;
SELECT grants[1] ~ '^\d+$' AS number FROM llm_models WHERE name = 'o1';
SET ROLE regress_vllm_user;
SELECT fails($$SELECT llm_generate('x', model => 'o1')$$);
RESET ROLE;

-- requests: own rows, all with pg_read_all_stats
BEGIN;
DECLARE c CURSOR FOR SELECT llm_generate_stream('@tokens:20 @slow:200');
FETCH 1 FROM c;
SELECT count(*) FROM llm_requests;
SET LOCAL ROLE regress_vllm_user;
SELECT count(*) FROM llm_requests;
SELECT fails($$SELECT llm_cancel(0)$$);
RESET ROLE;
SELECT id FROM llm_requests \gset
SET LOCAL ROLE regress_vllm_user;
SELECT replace(fails('SELECT llm_cancel(' || :id || ')'), :'id', 'ID');
RESET ROLE;
GRANT pg_read_all_stats TO regress_vllm_user;
SET LOCAL ROLE regress_vllm_user;
SELECT count(*), max(role) = current_user AS mine FROM llm_requests;
RESET ROLE;
REVOKE pg_read_all_stats FROM regress_vllm_user;
ROLLBACK;

DROP FUNCTION ask_o1(text);
SELECT llm_drop_model('o1');
DROP ROLE regress_vllm_owner, regress_vllm_user, regress_vllm_member, regress_vllm_group;
SELECT left_behind();
