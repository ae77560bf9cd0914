-- Remote models: the catalog's part.  No endpoint is asked.
-- vllm.allowed_hosts = 'llm.example.com, http://127.0.0.1:8000, *.cluster.test'
SHOW vllm.allowed_hosts;
SET client_min_messages = warning;
CREATE ROLE regress_remote_owner;
CREATE ROLE regress_remote_user;

-- an endpoint is not asked when a model is made
SELECT llm_create_model('big', provider => 'openai', url => 'https://llm.example.com/v1');
SELECT llm_create_model('several', provider => 'openai', url => 'http://127.0.0.1:8000/v1', options => '{
    "model": "Qwen/Qwen3-32B", "urls": ["https://a.cluster.test/v1", "https://b.cluster.test:8443/v1"],
    "dialect": "vllm", "prompt_as": "chat", "rerank_path": "/v2/rerank",
    "max_concurrent_requests": 32, "max_batch_inputs": 16, "requests_per_minute": 600, "tokens_per_minute": 100000,
    "timeout": 60000, "connect_timeout": 500, "max_retries": 0, "headers": {"X-Team": "a b", "OpenAI-Organization": "org-1"},
    "auth_header": "X-API-Key", "ssl_verify": false, "ca_file": "/etc/ca.pem", "max_model_len": 32768,
    "lora_modules": ["french", "sql"], "prices": {"input": 0.15, "cached_input": 0.075, "output": 6e-1},
    "fallback": ["big", "tickets-2m"], "cascade": {"to": "big", "threshold": -0.5}, "result_cache": true}');
SELECT name, path, url, provider, state, has_secret, options->>'model' AS model FROM llm_models WHERE provider = 'openai' ORDER BY 1;

-- what a local model needs is not what a remote one needs
SELECT a, fails('SELECT llm_create_model(' || a || ')') FROM (VALUES
    ('''x'', provider => ''openai'''),
    ('''x'', ''/fake/x'', provider => ''openai'', url => ''https://llm.example.com/v1'''),
    ('''x'', ''/fake/x'', url => ''https://llm.example.com/v1'''),
    ('''x'', provider => ''azure'', url => ''https://llm.example.com/v1'''),
    ('''x'', provider => ''openai'', url => '''''),
    ('''big'', provider => ''openai'', url => ''https://llm.example.com/v1''')) v (a);

-- urls: well-formed, and of a host that is allowed
SELECT u, fails(format('SELECT llm_create_model(''x'', provider => ''openai'', url => %L)', u)) FROM (VALUES
    ('llm.example.com/v1'), ('ftp://llm.example.com/v1'), ('https://user:secret@llm.example.com/v1'),
    ('https://llm.example.com/v1?key=1/2'), ('https://llm.example.com/v1#a'), ('https://llm.example.com:0/v1'),
    (E'https://llm.example.com/v1\r\nX: y'), ('https:///v1'),
    ('https://other.example.com/v1'), ('http://127.0.0.1:8001/v1'), ('https://127.0.0.1:8000/v1'), ('https://cluster.test/v1'),
    ('http://169.254.169.254/latest'), ('https://[::1]:8000/v1')) v (u);
-- a query belongs to it, and is shown where it is
BEGIN;
SELECT llm_create_model('dated', provider => 'openai', url => 'https://llm.example.com/v1?api-version=2024-10-21');
SELECT url FROM llm_models WHERE name = 'dated';
ROLLBACK;
-- options
SELECT o, fails(format('SELECT llm_create_model(''x'', provider => ''openai'', url => ''https://llm.example.com/v1'', options => %L)', o))
FROM (VALUES
    ('[]'), ('{"modle": "x"}'), ('{"SSL_VERIFY": false}'), ('{"model": "a", "model": "b"}'), ('{"model": null}'), ('{"model": ""}'),
    ('{"model": 5}'), ('{"model": "a\nb"}'), ('{"urls": "https://other.example.com/v1"}'), ('{"urls": ["https://a.cluster.test/v1", 5]}'),
    ('{"urls": ["nonsense"]}'), ('{"dialect": "azure"}'), ('{"prompt_as": "mail"}'), ('{"chat_path": "chat"}'), ('{"chat_path": "/chat?x=1"}'),
    ('{"timeout": 0}'), ('{"timeout": 1.5}'), ('{"timeout": "5"}'), ('{"timeout": 1e3}'), ('{"max_retries": 101}'), ('{"timeout": 99999999999999999999}'),
    ('{"headers": []}'), ('{"headers": {"X": 1}}'), ('{"headers": {"a b": "x"}}'), ('{"headers": {"X": "a\r\nY: b"}}'),
    ('{"headers": {"Host": "x"}}'), ('{"headers": {"content-length": "1"}}'), ('{"headers": {"authorization": "Bearer x"}}'),
    ('{"headers": {"X": "1", "x": "2"}}'), ('{"auth_header": "Host"}'), ('{"auth_header": "a:b"}'), ('{"ssl_verify": "no"}'), ('{"ca_file": "ca.pem"}'),
    ('{"lora_modules": {"a": 1}}'), ('{"prices": {"input": -1}}'), ('{"prices": {"output": "1"}}'), ('{"prices": {"total": 1}}'), ('{"prices": 1}'),
    ('{"fallback": 5}'), ('{"fallback": ["a", ""]}'), ('{"cascade": 1}'), ('{"result_cache": "yes"}')) v (o);

-- functions that need files, weights or a KV cache
SELECT c, fails('SELECT ' || c) FROM (VALUES
    ('llm_update_weights(''big'')'), ('llm_unload_model(''big'')'), ('llm_create_lora(''l'', ''big'', ''/fake/l'')'),
    ('llm_sleep(1, model => ''big'')'), ('llm_pause(model => ''big'')'), ('llm_wake_up(model => ''big'')'), ('llm_is_sleeping(''big'')'),
    ('llm_pin_prefix(''a prompt'', model => ''big'')'), ('llm_inspect_model(''https://llm.example.com/v1'')'),
    ('llm_generate(''x'', model => ''big'', lora => ''french'')'), ('llm_generate(''x'', model => ''several'', lora => ''german'')')) v (c);

-- endpoints that nobody has asked
SELECT model, url, health, in_flight, waiting, calls, failures, retries, throttled, avg_latency_ms, retry_at, last_error FROM llm_stat_remote;
SELECT name, state, requests, prompt_tokens, kv_blocks_total, weight_bytes, finished, mean_e2e_ms FROM llm_stat_model WHERE name = 'big';
SELECT count(*), count(state) FROM llm_remote;
SELECT count(*) FROM llm_metrics() WHERE labels->>'model_name' IN ('big', 'several');
SELECT name, value >= 0 AS value FROM llm_metrics() WHERE name LIKE 'vllm_pg:remote%' ORDER BY 1;

-- transactions
BEGIN;
SELECT llm_create_model('gone', provider => 'openai', url => 'https://llm.example.com/v1');
SELECT llm_set_secret('gone', 'not-to-be-seen');
ROLLBACK;
SELECT count(*) FROM llm_models WHERE name = 'gone';
SELECT count(*) FROM vllm.secret;

-- secrets
SELECT llm_set_secret('big', 'not-to-be-seen');
SELECT llm_set_secret('big', 'not-to-be-seen-either');
SELECT name, has_secret FROM llm_models WHERE provider = 'openai' ORDER BY 1;
SELECT model, secret FROM vllm.secret;
SELECT llm_drop_secret('big'), llm_drop_secret('big'), llm_drop_secret('several');
SELECT llm_set_secret('big', 'not-to-be-seen');
SELECT fails($$SELECT llm_set_secret('big', '')$$), fails($$SELECT llm_set_secret('big', NULL)$$), fails($$SELECT llm_set_secret(NULL, 'x')$$),
       fails($$SELECT llm_set_secret('big', E'a\r\nHost: b')$$), fails($$SELECT llm_set_secret('big', ' x')$$), fails($$SELECT llm_set_secret('big', 'schön')$$),
       fails($$SELECT llm_set_secret('big', repeat('x', 4097))$$), fails($$SELECT llm_set_secret('not-to-be-seen', 'big')$$),
       fails($$SELECT llm_set_secret('tickets-2m', 'x')$$), fails($$SELECT llm_drop_secret('tickets-2m')$$);

-- they go with the model
BEGIN;
SELECT llm_drop_model('big', cascade => true);
SELECT count(*) FROM vllm.secret;
ROLLBACK;
SELECT count(*) FROM vllm.secret;

-- who may: the function's privilege is all that it takes to make one, its owner's to give it a secret
SET ROLE regress_remote_owner;
SELECT fails($$SELECT llm_create_model('mine', provider => 'openai', url => 'https://llm.example.com/v1')$$);
RESET ROLE;
GRANT EXECUTE ON FUNCTION llm_create_model(text, text, vllm.json, text, text) TO regress_remote_owner;
SET ROLE regress_remote_owner;
SELECT llm_create_model('mine', provider => 'openai', url => 'https://llm.example.com/v1', options => '{"headers": {"X-Team": "a"}}');
SELECT fails($$SELECT llm_create_model('x', '/fake/x')$$),
       fails($$SELECT llm_create_model('x', provider => 'OpenAI', url => 'https://llm.example.com/v1')$$),
       fails($$SELECT llm_create_model('x', provider => 'openai', url => 'https://other.example.com/v1')$$),
       fails($$SELECT llm_create_model('x', provider => 'openai', url => 'https://llm.example.com/v1', options => '{"ssl_verify": false}')$$),
       fails($$SELECT llm_create_model('x', provider => 'openai', url => 'https://llm.example.com/v1', options => '{"ca_file": "/etc/ca.pem"}')$$),
       fails($$SELECT llm_set_secret('big', 'x')$$), fails($$SELECT llm_drop_secret('big')$$), fails($$TABLE vllm.secret$$);
-- a secret that somebody's model has left behind, whose row was deleted by hand, is not for the next one of its name
RESET ROLE;
SELECT llm_create_model('left', provider => 'openai', url => 'https://llm.example.com/v1');
SELECT llm_set_secret('left', 'not-to-be-seen');
DELETE FROM vllm.model WHERE name = 'left';
SET ROLE regress_remote_owner;
SELECT llm_create_model('left', provider => 'openai', url => 'https://llm.example.com/v1');
SELECT has_secret FROM llm_models WHERE name = 'left';
SELECT llm_drop_model('left');
SELECT llm_create_model('careful', provider => 'openai', url => 'https://llm.example.com/v1', options => '{"ssl_verify": true}');
SELECT llm_set_secret('mine', 'not-to-be-seen');
SELECT name, url, has_secret, options FROM llm_models WHERE provider = 'openai' ORDER BY 1;
SELECT model, url FROM llm_stat_remote;
SELECT llm_grant('mine', 'regress_remote_user');
SET ROLE regress_remote_user;
SELECT count(*) FROM llm_stat_remote;
SELECT name, url, has_secret, options FROM llm_models WHERE provider = 'openai' ORDER BY 1;
SELECT fails($$SELECT llm_generate('x', model => 'big')$$), fails($$SELECT llm_load_model('mine')$$), fails($$TABLE vllm.secret$$);
RESET ROLE;
-- files of the server are another matter than urls
GRANT pg_read_server_files TO regress_remote_user;
SET ROLE regress_remote_user;
SELECT name, url, has_secret FROM llm_models WHERE name = 'mine';
RESET ROLE;

SELECT llm_drop_model(name, cascade => true) FROM llm_models WHERE provider = 'openai';
SELECT count(*) FROM vllm.secret;
REVOKE EXECUTE ON FUNCTION llm_create_model(text, text, vllm.json, text, text) FROM regress_remote_owner;
DROP ROLE regress_remote_owner, regress_remote_user;
