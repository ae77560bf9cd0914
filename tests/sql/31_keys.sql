-- API keys of the HTTP door: who may make, see and revoke them, and what they open.
SET client_min_messages = notice;
CREATE ROLE regress_vllm_app;
CREATE ROLE regress_vllm_other;
CREATE ROLE regress_vllm_admin IN ROLE regress_vllm_app;
GRANT EXECUTE ON FUNCTION fails(text) TO PUBLIC;
GRANT EXECUTE ON FUNCTION llm_create_api_key(text, text, timestamptz) TO regress_vllm_admin;

-- what the door asks: the role of a key's hash
CREATE FUNCTION login(key text) RETURNS text LANGUAGE sql AS $$ SELECT vllm.http_login(sha256(convert_to(key, 'UTF8'))) $$;

-- the key is shown once; only its hash is stored
CREATE TEMP TABLE made (name text, key text);
GRANT ALL ON made TO PUBLIC;
INSERT INTO made VALUES ('one', llm_create_api_key('one', 'regress_vllm_app')), ('two', llm_create_api_key('two'));
SELECT name, key ~ '^sk-[0-9a-f]{64}$' AS shape, login(key) FROM made ORDER BY 1;
SELECT count(*) FROM vllm.api_key k JOIN made m ON m.key IN (k::text, encode(k.hash, 'hex')) OR position(m.key IN k::text) > 0;
SELECT count(DISTINCT key) FROM made;
SELECT name, state, role, created IS NOT NULL AS created, expires, revoked FROM llm_api_keys WHERE name = 'one';

-- what opens nothing
SELECT login(upper(key)), login(key || ' '), login(left(key, -1)), login('') FROM made WHERE name = 'one';
SELECT vllm.http_login(NULL), vllm.http_login('\x00'), vllm.http_login(hash || '\x00'::bytea) FROM vllm.api_key WHERE name = 'one';
-- as much as the index looks at is not enough
SELECT vllm.http_login(overlay(hash PLACING '\x00112233' FROM 29)) FROM vllm.api_key WHERE name = 'one';

-- revoked: at once and for good
SELECT llm_revoke_api_key('one'), llm_revoke_api_key('one');
SELECT login(key) FROM made WHERE name = 'one';
SELECT name, state, revoked IS NOT NULL AS revoked FROM llm_api_keys WHERE name = 'one';
-- its name may be used again, for another key
INSERT INTO made VALUES ('one again', llm_create_api_key('one', 'regress_vllm_app'));
SELECT name, login(key) FROM made ORDER BY name COLLATE "C";

-- expired
SELECT llm_create_api_key('soon', 'regress_vllm_app', clock_timestamp() + interval '1 hour') AS soon \gset
SELECT login(:'soon');
UPDATE vllm.api_key SET expires = clock_timestamp() WHERE name = 'soon';
SELECT login(:'soon'), state FROM llm_api_keys WHERE name = 'soon';

-- renamed and dropped roles
CREATE ROLE regress_vllm_gone;
SELECT llm_create_api_key('gone', 'regress_vllm_gone') AS gone \gset
ALTER ROLE regress_vllm_gone RENAME TO "regress_vllm_Gone";
SELECT login(:'gone');
DROP ROLE "regress_vllm_Gone";
SELECT login(:'gone'), state FROM llm_api_keys WHERE name = 'gone';
SELECT llm_revoke_api_key('gone');

-- what is refused
SELECT f, fails('SELECT ' || f) FROM (VALUES
    ('llm_create_api_key(NULL)'), ('llm_create_api_key('''')'), ('llm_create_api_key(repeat(''x'', 64))'),
    ('llm_create_api_key(''one'', ''regress_vllm_app'')'), ('llm_create_api_key(''three'', ''no_such_role'')'),
    ('llm_create_api_key(''three'', valid_until => ''2001-01-01Z'')'),
    ('llm_revoke_api_key(''three'')'), ('llm_revoke_api_key(NULL)')) v (f);

-- a role that may make keys makes them for what it can become, and nothing else
SET ROLE regress_vllm_admin;
INSERT INTO made VALUES ('mine', llm_create_api_key('mine')), ('app', llm_create_api_key('app', 'regress_vllm_app'));
SELECT name, login(key) FROM made WHERE name IN ('mine', 'app') ORDER BY 1;
SELECT f, fails('SELECT ' || f) FROM (VALUES
    ('llm_create_api_key(''three'', ''regress_vllm_other'')'), ('llm_create_api_key(''gone'', ''regress_vllm_app'')'),
    ('llm_revoke_api_key(''two'')'), ('* FROM vllm.api_key')) v (f);
SELECT name, state, role, created_by FROM llm_api_keys ORDER BY name COLLATE "C";
RESET ROLE;

-- others may not, and see nothing
SET ROLE regress_vllm_other;
SELECT f, fails('SELECT ' || f) FROM (VALUES ('llm_create_api_key(''three'')'), ('llm_revoke_api_key(''mine'')'),
    ('hash FROM vllm.api_key')) v (f);
SELECT count(*) FROM llm_api_keys;
-- but may use what it was given
SELECT login(key) FROM made WHERE name = 'mine';
RESET ROLE;

-- a transaction that rolls back leaves no key
BEGIN;
SELECT llm_create_api_key('never') AS never \gset
ROLLBACK;
SELECT login(:'never');
BEGIN READ ONLY;
SELECT llm_create_api_key('never');
ROLLBACK;

-- the door's role has to be able to become the key's
CREATE ROLE vllm_http LOGIN NOINHERIT;
SELECT llm_create_api_key('noted', 'regress_vllm_app') IS NOT NULL AS made;
GRANT regress_vllm_app TO vllm_http;
SELECT llm_create_api_key('unnoted', 'regress_vllm_app') IS NOT NULL AS made;

DELETE FROM vllm.api_key;
DROP FUNCTION login;
DROP TABLE made;
REVOKE EXECUTE ON FUNCTION llm_create_api_key(text, text, timestamptz) FROM regress_vllm_admin;
DROP ROLE regress_vllm_admin, regress_vllm_app, regress_vllm_other, vllm_http;
