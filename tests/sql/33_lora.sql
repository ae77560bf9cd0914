-- adapters: the catalog, names, privileges, the argument lora; answers of the fake engine begin with [NAME]
SET vllm.model = 'base';
SELECT llm_create_model('base', '/fake/base'), llm_create_model('other', '/fake/other');
SELECT llm_create_lora('red', 'base', '/fake/adapters/red'), llm_create_lora('blue', NULL, '/fake//adapters/./blue'),
	llm_create_lora('green', 'other', '/fake/adapters/green');
SELECT name, parent, root, source, state, rank, owner, grants, created IS NOT NULL AS created FROM llm_loras ORDER BY name;

-- a name, two ways
SELECT llm_generate('a b', lora => 'red'), llm_generate('a b', model => 'red'), llm_generate('a b', model => 'base', lora => 'red'), llm_generate('a b');
SELECT llm_generate('a b', lora => 'green'), llm_generate('a b', model => 'green'), llm_generate('a b', params => '{"lora": "blue"}');
SELECT name, state, rank, alpha, rslora, modules, bytes, pinned, running, waiting, requests, last_used > now() - interval '1 hour' AS used
FROM llm_loras ORDER BY name;
-- rows choose
CREATE TABLE chosen (id int PRIMARY KEY, adapter text);
INSERT INTO chosen VALUES (1, 'red'), (2, NULL), (3, 'blue'), (4, 'red'), (5, 'green'), (6, NULL);
SELECT id, llm_generate('row ' || id, lora => adapter) FROM chosen ORDER BY id;
SELECT id, llm_generate('row', lora => adapter, temperature => 0) FROM chosen ORDER BY id;
SELECT llm_generate('row', lora => adapter, temperature => 0) FROM (VALUES ('red'), ('nobody')) AS v (adapter);
SELECT llm_generate('row', lora => adapter, temperature => 0) FROM (VALUES ('red'), ('nobody')) AS v (adapter) LIMIT 1;
-- session defaults
SET vllm.default_params = '{"lora": "red"}';
SELECT llm_generate('a b'), llm_generate('a b', model => 'other'), llm_generate('a b', lora => 'blue');
RESET vllm.default_params;
SET vllm.model = 'blue';
SELECT llm_generate('a b'), llm_generate('a b', lora => 'red'), llm_generate('a b', model => 'base');
SET vllm.model = 'base';

-- every function
SELECT (llm_generate_full('x', lora => 'red')).text, (llm_output('x', lora => 'red')).lora, (llm_output('x', lora => 'red')).model, (llm_output('x')).lora;
SELECT text FROM llm_generate_stream('x', lora => 'red');
SELECT text, index FROM llm_completions('x', n => 2, lora => 'red');
SELECT rank, text FROM llm_beam_search('x', 2, lora => 'red');
SELECT prompt_index, rank, text FROM llm_beam_search_batch(ARRAY['x', 'y'], 1, lora => 'red');
SELECT llm_ask('x', lora => 'red') LIKE '[red]%', llm_chat_text('[{"role": "user", "content": "x"}]', lora => 'red') LIKE '[red]%',
	llm_chat('[{"role": "user", "content": "x"}]', lora => 'red')->>'content' LIKE '[red]%';
SELECT string_agg(text, '' ORDER BY seq) LIKE '[red]%' FROM llm_chat_stream('[{"role": "user", "content": "x"}]', lora => 'red');
SELECT text LIKE '[red]%' FROM llm_chat_batch(ARRAY['[{"role": "user", "content": "x"}]'::json], lora => 'red');
SELECT (llm_chat_full('[{"role": "user", "content": "x"}]', lora => 'red')).lora;
SELECT llm_generate_batch(ARRAY['x', 'y'], lora => 'red');
SELECT output FROM llm_generate_query('SELECT 1 AS i, $$x$$::text AS prompt', 'prompt', lora => 'red');
SELECT llm_result(llm_submit('x', lora => 'red')), llm_result(llm_submit_chat('[{"role": "user", "content": "x"}]', lora => 'red')) LIKE '[red]%';
SELECT llm_reduce(ARRAY['x', 'y'], 'join', lora => 'red') LIKE '[red]%';
SELECT llm_chat_run('[{"role": "user", "content": "x"}]', '{}', lora => 'red')->>'content' LIKE '[red]%';
SET vllm.enable_prompt_embeds = on;
SELECT llm_generate('x', lora => 'red') = llm_embeds_generate(llm_token_embeddings('x'), lora => 'red') AS equal,
	(llm_embeds_output(llm_token_embeddings('x'), lora => 'red')).lora;
RESET vllm.enable_prompt_embeds;
WITH v AS (SELECT llm_embed('x') AS a, llm_embed('x', lora => 'red') AS b, llm_embed('x', model => 'red') AS c)
SELECT llm_cosine_distance(a, b), b = c FROM v;
SELECT llm_embed('x') = llm_embed('x', lora => 'red') AS embed, llm_embed_bytes('x') = llm_embed_bytes('x', lora => 'red') AS bytes,
	llm_embed_multi('x') = llm_embed_multi('x', lora => 'red') AS multi, llm_encode('x', 'embed') = llm_encode('x', 'embed', lora => 'red') AS encode,
	(SELECT e FROM llm_embed_batch(ARRAY['x'], lora => 'red') e) = llm_embed('x', lora => 'red') AS batch,
	llm_result_embedding(llm_submit_embed('x', lora => 'red')) = llm_embed('x', lora => 'red') AS future;
SELECT llm_score('a', 'a') > 0 AS score, llm_score('a', 'a', lora => 'red') > 0 AS score_red, llm_similarity('a', 'a', lora => 'red') > 0 AS similarity,
	llm_score_pairs(ARRAY['a'], ARRAY['a'], lora => 'red') AS pairs;
SELECT * FROM llm_score_batch('a', ARRAY['a', 'b'], lora => 'red');
SELECT * FROM llm_rerank('a', ARRAY['a', 'b'], lora => 'red');
SELECT llm_rerank_agg('a', 1, 'a', 0, 'red');
SELECT * FROM llm_classify('good', lora => 'red') EXCEPT SELECT * FROM llm_classify('good');
SELECT llm_class('good', lora => 'red') = llm_class('good') AS class, llm_classify_probs('good', lora => 'red') = llm_classify_probs('good') AS probs,
	llm_reward('good', lora => 'red') = llm_reward('good') AS reward, llm_reward_tokens('good', lora => 'red') = llm_reward_tokens('good') AS tokens;
SELECT token, label FROM llm_token_classify('Ann 12') EXCEPT SELECT token, label FROM llm_token_classify('Ann 12', lora => 'red');
SELECT llm_choose('x', ARRAY['a', 'b'], lora => 'red') IS NOT NULL, llm_filter('x', 'y', lora => 'red') IS NOT NULL, llm_filter_prob('x', 'y', lora => 'red') IS NOT NULL,
	llm_perplexity('x y', lora => 'red') IS NOT NULL;
SELECT count(*) FROM llm_choice_probs('x', ARRAY['a', 'b'], lora => 'red');
SELECT count(*) FROM llm_loglikelihood('x', 'y', lora => 'red');
SELECT llm_generate_json('x', '{"type": "boolean"}', lora => 'red') IS NOT NULL, llm_generate_as('x', NULL::bool, lora => 'red') IS NOT NULL,
	llm_extract('x', NULL::bool, lora => 'red') IS NOT NULL;
SELECT llm_count_tokens('x', model => 'red') = llm_count_tokens('x'), llm_detokenize(llm_tokenize('x', model => 'red'), model => 'red');

-- bodies
SELECT v1_completions('{"model": "red", "prompt": "a b"}')->'choices'->0->>'text' AS text, v1_completions('{"model": "red", "prompt": "a b"}')->>'model' AS model,
	v1_chat_completions('{"model": "red", "messages": [{"role": "user", "content": "x"}]}')->'choices'->0->'message'->>'content' LIKE '[red]%' AS chat;
SELECT m->>'id' AS id, m->>'root' AS root, m->>'parent' AS parent FROM json_array_elements(v1_models()->'data') m WHERE m->>'id' <> 'tickets-2m';

-- what is refused
SELECT llm_create_lora(NULL, 'base', '/fake/x');
SELECT llm_create_lora('', 'base', '/fake/x');
SELECT llm_create_lora(repeat('x', 64), 'base', '/fake/x');
SELECT llm_create_lora('x', 'base', NULL);
SELECT llm_create_lora('x', 'base', 'fake/x');
SELECT llm_create_lora('x', 'base', '/fake/../x');
SELECT llm_create_lora('x', 'base', '/fake/..');
SELECT llm_create_lora('x', 'base', '/fake/a..b');
SELECT llm_drop_lora('x');
SELECT llm_create_lora('y', 'nobody', '/fake/x');
SELECT llm_create_lora('y', 'red', '/fake/x');
SELECT llm_create_lora('red', 'base', '/fake/x');
SELECT llm_create_lora('base', 'base', '/fake/x');
SELECT llm_create_model('red', '/fake/x');
SELECT llm_create_lora('y', 'base', '/fake/adapters/fail');
SELECT llm_create_lora('y', 'base', '/nowhere/y');
SELECT llm_drop_lora('base');
SELECT llm_drop_lora('nobody');
SELECT llm_alter_lora('red', new_name => 'blue');
SELECT llm_alter_lora('red', new_name => 'other');
SELECT llm_alter_lora('red', path => 'x');
SELECT llm_generate('x', lora => 'nobody');
SELECT llm_generate('x', lora => '');
SELECT llm_generate('x', model => 'nobody');
SELECT llm_generate('x', model => 'other', lora => 'red');
SELECT llm_embed('x', model => 'other', lora => 'red');
-- two adapters in one call, which may be the same one
SELECT llm_generate('x', model => 'blue', lora => 'red');
SELECT llm_embed('x', model => 'blue', lora => 'red');
SELECT llm_generate('x', model => 'green', lora => 'red');
SELECT llm_generate('x', model => 'red', lora => 'red'), llm_generate('x', model => '', lora => 'red');
SELECT llm_drop_model('base');
SELECT llm_load_lora('nobody');
SELECT llm_load_model('red');
-- too large a rank is told when it is loaded
SELECT llm_create_lora('huge', 'base', '/fake/adapters/rank:65');
SELECT llm_generate('x', lora => 'huge');
SELECT llm_drop_lora('huge');

-- transactions
BEGIN;
SELECT llm_create_lora('passing', 'base', '/fake/adapters/passing');
SELECT llm_generate('x', lora => 'passing');
SAVEPOINT s;
SELECT llm_drop_lora('passing');
SELECT llm_generate('x', lora => 'passing');
ROLLBACK TO s;
SELECT llm_generate('x', lora => 'passing');
ROLLBACK;
SELECT llm_generate('x', lora => 'passing');

-- load, pin, unload; unloaded ones are loaded again at their next use, dropped ones are gone
SELECT llm_load_lora('red', pin => true);
SELECT name, state, pinned FROM llm_loras WHERE name = 'red';
SELECT llm_load_lora('red', pin => false);
SELECT name, state, pinned FROM llm_loras WHERE name = 'red';
SELECT llm_unload_lora('red'), llm_unload_lora('red');
SELECT name, state, pinned FROM llm_loras WHERE name = 'red';
SELECT llm_generate('x', lora => 'red');
-- another path, another name
SELECT llm_create_lora('red', 'base', '/fake/adapters/crimson', replace => true);
SELECT llm_generate('x', lora => 'red');
SELECT llm_alter_lora('red', path => '/fake/adapters/scarlet', new_name => 'ruby');
SELECT llm_generate('x', lora => 'ruby');
SELECT llm_generate('x', lora => 'red');
SELECT llm_alter_lora('ruby', new_name => 'red');

-- privileges: the adapter and its model
CREATE ROLE lora_user;
CREATE ROLE lora_reader IN ROLE pg_read_server_files;
GRANT SELECT ON chosen TO lora_user;
SET ROLE lora_user;
SELECT llm_create_lora('mine', 'base', '/fake/x');
SELECT llm_generate('x', lora => 'red');
RESET ROLE;
SELECT llm_grant('red', 'lora_user');
SET ROLE lora_user;
SELECT llm_generate('x', lora => 'red');
RESET ROLE;
SELECT llm_grant('base', 'lora_user'), llm_revoke('red', 'lora_user');
SET ROLE lora_user;
SELECT llm_generate('x', lora => 'red');
SELECT llm_generate('x', model => 'red');
RESET ROLE;
SELECT llm_grant('red', 'lora_user');
SET ROLE lora_user;
SELECT llm_generate('x', lora => 'red'), llm_generate('x', model => 'red');
SELECT id, llm_generate('row', lora => adapter) FROM chosen WHERE id < 4 ORDER BY id;
SELECT name, root, owner, grants FROM llm_loras WHERE name = 'red';
SELECT m->>'id' AS id FROM json_array_elements(v1_models()->'data') m WHERE m->>'id' <> 'tickets-2m';
SELECT llm_drop_lora('red');
SELECT llm_alter_lora('red', new_name => 'mine');
SELECT llm_load_lora('red');
SELECT llm_unload_lora('red');
SELECT llm_grant('red', 'public');
SELECT * FROM vllm.lora;
SET ROLE lora_reader;
SELECT llm_create_lora('mine', 'base', '/fake/adapters/mine');
RESET ROLE;
SELECT llm_grant('base', 'lora_reader');
SET ROLE lora_reader;
SELECT llm_create_lora('mine', 'base', '/fake/adapters/mine');
SELECT llm_generate('x', lora => 'mine');
SELECT name, root IS NOT NULL AS root, owner FROM llm_loras WHERE name IN ('mine', 'red');
SELECT llm_drop_lora('mine');
RESET ROLE;
SELECT llm_revoke('base', 'lora_user'), llm_revoke('base', 'lora_reader'), llm_revoke('red', 'lora_user');

-- load_lora_adapter and unload_lora_adapter, with vLLM's words
SELECT v1_load_lora_adapter('{"lora_name": "served", "lora_path": "/fake/adapters/served"}');
SET vllm.allow_runtime_lora = on;
SELECT v1_load_lora_adapter('{"lora_name": "served", "lora_path": "/fake/adapters/served"}');
SELECT v1_completions('{"model": "served", "prompt": "a b"}')->'choices'->0->>'text' AS text;
SELECT name, parent, root, state FROM llm_loras WHERE name = 'served';
SELECT v1_load_lora_adapter('{"lora_name": "served", "lora_path": "/fake/adapters/served"}');
SELECT v1_load_lora_adapter('{"lora_name": "served", "lora_path": "/fake/adapters/again", "load_inplace": true}');
SELECT v1_completions('{"model": "served", "prompt": "a b"}')->'choices'->0->>'text' AS text;
SELECT v1_load_lora_adapter('{"lora_name": "served"}');
SELECT v1_load_lora_adapter('{"lora_name": 1, "lora_path": "/x"}');
SELECT v1_load_lora_adapter('[]');
SELECT v1_load_lora_adapter('{"lora_name": "broken", "lora_path": "/fake/adapters/rank:65"}');
SELECT v1_load_lora_adapter('{"lora_name": "served2", "lora_path": "/fake/adapters/served", "base_model_name": "other"}');
SELECT v1_unload_lora_adapter('{"lora_name": "served", "lora_int_id": 3}'), v1_unload_lora_adapter('{"lora_name": "served2"}');
SELECT v1_unload_lora_adapter('{"lora_name": "served"}');
SELECT v1_unload_lora_adapter('{}');
SELECT v1_completions('{"model": "served", "prompt": "a b"}');
SET ROLE lora_user;
SELECT v1_load_lora_adapter('{"lora_name": "served", "lora_path": "/fake/adapters/served"}');
RESET ROLE;
RESET vllm.allow_runtime_lora;

-- a model with its adapters, whoever's they are
SELECT llm_grant('other', 'lora_reader');
SET ROLE lora_reader;
SELECT llm_create_lora('theirs', 'other', '/fake/adapters/theirs');
SELECT llm_drop_model('other', cascade => true);
RESET ROLE;
SELECT llm_drop_model('other');
SELECT llm_drop_model('other', cascade => NULL);
BEGIN;
SELECT llm_drop_model('other', cascade => true);
SELECT llm_generate('x', lora => 'theirs');
ROLLBACK;
SELECT llm_generate('x', lora => 'theirs');
SELECT llm_drop_model('other', cascade => true);
SELECT llm_generate('x', lora => 'theirs');
SELECT llm_drop_model('tickets-2m', cascade => true);

SELECT llm_drop_lora(name) FROM llm_loras WHERE source = 'catalog' ORDER BY name;
SELECT llm_drop_model('base', cascade => true);
SELECT count(*) FROM vllm.lora;
DROP TABLE chosen;
DROP ROLE lora_user;
DROP ROLE lora_reader;
RESET vllm.model;
