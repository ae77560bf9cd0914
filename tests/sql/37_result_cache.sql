-- Answers that are kept in a table
\pset format unaligned
-- what the option may be
SELECT llm_create_model('keeper', '/fake/keeper', options => '{"result_cache": 5}');
SELECT llm_create_model('keeper', '/fake/keeper', options => '{"result_cache": {"max_ages": 5}}');
SELECT llm_create_model('keeper', '/fake/keeper', options => '{"result_cache": {"max_age": "never"}}');
SELECT llm_create_model('keeper', '/fake/keeper', options => '{"result_cache": {"max_age": 0}}');
SELECT llm_create_model('keeper', '/fake/keeper', options => '{"result_cache": {"max_age": "99999999999999 years"}}');
SELECT llm_create_model('keeper', '/fake/keeper', options => '{"result_cache": {"max_age": "-1 day"}}');
SELECT llm_create_model('keeper', '/fake/keeper', options => '{"result_cache": {"max_age": [5]}}');
SELECT llm_create_model('keeper', '/fake/keeper', options => '{"result_cache": {"max_bytes": 5}}');
SELECT llm_create_model('keeper', '/fake/keeper', options => '{"result_cache": {"shared": 5}}');
SELECT llm_create_model('keeper', '/fake/keeper', options => '{"result_cache": true, "prices": {"input": 1, "output": 1}}');
SELECT llm_create_model('sharer', '/fake/sharer', options => '{"result_cache": {"max_age": "7 days", "max_bytes": 100000, "shared": true}}');
SELECT llm_create_model('forgetter', '/fake/forgetter', options => '{"result_cache": false}');
SET vllm.model = 'keeper';
SET vllm.default_params = '{"temperature": 0, "max_tokens": 20}';
CREATE TABLE c AS SELECT i, 'text ' || i AS p FROM generate_series(1, 20) i;
CREATE FUNCTION asks(query text, OUT requests int, OUT hits int) LANGUAGE plpgsql AS $$
DECLARE j json;
BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || query INTO j;
    requests := substring(j::text from '"Requests": (\d+)');
    hits := substring(j::text from '"Cache Hits": (\d+)');
END $$;
-- once asked, then known: in the batch node, alone, and the same answers
CREATE TABLE first AS SELECT i, llm_generate(p) AS a FROM c;
SELECT model, entries, hits, misses, skipped FROM llm_stat_cache ORDER BY 1;
SELECT * FROM asks('SELECT llm_generate(p) FROM c');
SELECT count(*) FROM c JOIN first USING (i) WHERE llm_generate(c.p) IS NOT DISTINCT FROM first.a;
SET vllm.batch = off;
SELECT count(*) FROM c JOIN first USING (i) WHERE llm_generate(c.p) IS NOT DISTINCT FROM first.a;
SELECT llm_generate('alone') = llm_generate('alone') AS same;
RESET vllm.batch;
SELECT model, entries, hits, misses, skipped FROM llm_stat_cache ORDER BY 1;
SELECT requests FROM llm_stat_cost WHERE model = 'keeper';
SELECT count(llm_embed(p)) FROM c;
SELECT * FROM asks('SELECT llm_embed(p) FROM c');
-- another question: parameters, text, model, role
SELECT * FROM asks('SELECT llm_generate(p, max_tokens => 3) FROM c');
SELECT * FROM asks('SELECT llm_generate(p, temperature => 0.5) FROM c');
SELECT * FROM asks('SELECT llm_generate(p, temperature => 0.5, seed => 1) FROM c');
SELECT * FROM asks('SELECT llm_generate(p, temperature => 0.5, seed => 1) FROM c');
SELECT * FROM asks('SELECT llm_generate(p, model => ''sharer'') FROM c');
SELECT * FROM asks('SELECT llm_generate(p, model => ''forgetter'') FROM c');
SELECT * FROM asks('SELECT llm_generate(p, model => ''forgetter'') FROM c');
CREATE ROLE regress_reader;
GRANT SELECT ON c TO regress_reader;
SELECT llm_grant('keeper', 'regress_reader'), llm_grant('sharer', 'regress_reader');
SET ROLE regress_reader;
SELECT * FROM asks('SELECT llm_generate(p) FROM c');
SELECT * FROM asks('SELECT llm_generate(p, model => ''sharer'') FROM c');
-- nobody reads the table, and who may not use a model has no answer of it
SELECT count(*) FROM vllm.result_cache;
SELECT llm_generate('text 1', model => 'forgetter');
SELECT llm_cache_prune();
SELECT llm_cache_clear();
SELECT llm_cache_clear('keeper');
SELECT count(*) FROM llm_stat_cache;
RESET ROLE;
-- nor does who reads and writes all tables
CREATE ROLE regress_all IN ROLE pg_read_all_data, pg_write_all_data;
SET ROLE regress_all;
SELECT count(*) FROM vllm.result_cache;
DELETE FROM vllm.result_cache;
INSERT INTO vllm.result_cache VALUES ('\x00', 'sharer', 0, now(), 1, '\x00');
RESET ROLE;
DROP ROLE regress_all;
-- a transaction that can't write keeps nothing, but finds; one that is rolled back has kept nothing
BEGIN READ ONLY;
SELECT * FROM asks('SELECT llm_generate(''new '' || p) FROM c');
SELECT * FROM asks('SELECT llm_generate(p) FROM c');
COMMIT;
BEGIN;
SELECT * FROM asks('SELECT llm_generate(''new '' || p) FROM c');
SELECT * FROM asks('SELECT llm_generate(''new '' || p) FROM c');
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT * FROM asks('SELECT llm_generate(''new '' || p) FROM c');
COMMIT;
SELECT skipped FROM llm_stat_cache WHERE model = 'keeper';
-- a parallel plan's answers are kept when it has ended, and once for all rows that ask the same
CREATE TABLE many AS SELECT i, 'parallel ' || i AS p FROM generate_series(1, 20000) i;
ANALYZE many;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
CREATE FUNCTION gathers(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE j json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO j;
    RETURN j::text LIKE '%"Gather"%';
END $$;
SELECT gathers('SELECT llm_generate(p) FROM many WHERE i <= 20');
SELECT * FROM asks('SELECT llm_generate(p) FROM many WHERE i <= 20');
SELECT * FROM asks('SELECT llm_generate(p) FROM many WHERE i <= 20');
SELECT * FROM asks('SELECT llm_generate(''p'' || i % 5) FROM many WHERE i <= 20');
SELECT * FROM asks('SELECT llm_generate(''p'' || i % 5) FROM many WHERE i <= 20');
BEGIN READ ONLY;
SELECT * FROM asks('SELECT llm_generate(''q'' || i) FROM many WHERE i <= 20');
COMMIT;
SELECT * FROM asks('SELECT llm_generate(''q'' || i) FROM many WHERE i <= 20');
SELECT skipped FROM llm_stat_cache WHERE model = 'keeper';
DROP FUNCTION gathers;
DROP TABLE many;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET max_parallel_workers_per_gather;
-- futures: what is known needs no request, what is fetched is kept, by who has asked
SELECT requests AS before FROM llm_stat_cost WHERE model = 'keeper' \gset
SELECT llm_submit('text 1') AS known, llm_submit_embed('text 1') AS vector \gset
SELECT llm_poll(:known), llm_poll(:vector), (SELECT count(*) FROM llm_futures WHERE id IN (:known, :vector) AND state = 'finished');
SELECT llm_result(:known) = llm_generate('text 1') AS same, llm_result_embedding(:vector) = llm_embed('text 1') AS same_vector;
SELECT requests = :before AS no_request FROM llm_stat_cost WHERE model = 'keeper';
SELECT llm_submit('a future') AS f, llm_submit_chat('[{"role": "user", "content": "a future chat"}]', chat_template => '{{ messages[0].content }}') AS chat,
       llm_submit('never fetched') AS never \gset
SELECT llm_wait(ARRAY[:f, :chat, :never]), llm_discard(:never);
SELECT entries AS before FROM llm_stat_cache WHERE model = 'keeper' \gset
-- a member may fetch it; it is kept as the answer of the role that has submitted it
GRANT postgres TO regress_reader;
SET ROLE regress_reader;
SELECT llm_result(:f);
RESET ROLE;
REVOKE postgres FROM regress_reader;
SELECT llm_result(:chat);
SELECT entries - :before AS kept FROM llm_stat_cache WHERE model = 'keeper';
SELECT * FROM asks('SELECT llm_generate(''a future'') FROM c WHERE i = 1');
SELECT * FROM asks('SELECT llm_generate(''never fetched'') FROM c WHERE i = 1');
SELECT llm_submit_chat('[{"role": "user", "content": "a future chat"}]', chat_template => '{{ messages[0].content }}') AS chat \gset
SELECT llm_poll(:chat), llm_result(:chat);
-- in the transaction that fetches it
SELECT llm_submit('another future') AS f \gset
BEGIN;
SELECT llm_result(:f);
SELECT * FROM asks('SELECT llm_generate(''another future'') FROM c WHERE i = 1');
ROLLBACK;
SELECT * FROM asks('SELECT llm_generate(''another future'') FROM c WHERE i = 1');
-- the answer of a model whose answers were cleared since it was asked is not kept
SELECT llm_submit('an old future') AS f \gset
SELECT llm_cache_clear('keeper') > 0 AS cleared;
SELECT skipped AS before FROM llm_stat_cache WHERE model = 'keeper' \gset
SELECT llm_result(:f);
SELECT entries, skipped - :before AS skipped FROM llm_stat_cache WHERE model = 'keeper';
SELECT count(llm_generate(p)) FROM c;
-- errors aren't kept
SET vllm.on_error = 'null';
SET client_min_messages = error;
SELECT * FROM asks('SELECT llm_generate(''@error:58000:gone'') FROM c WHERE i = 1');
SELECT * FROM asks('SELECT llm_generate(''@error:58000:gone'') FROM c WHERE i = 1');
RESET client_min_messages;
RESET vllm.on_error;
-- large answers, and none of a statement that has several of the same
SELECT length(llm_generate(repeat('word ', 5000), max_tokens => 5000)) > 20000 AS long;
SELECT length(llm_generate(repeat('word ', 5000), max_tokens => 5000)) > 20000 AS long;
SELECT * FROM asks('SELECT llm_generate(''one'') FROM c');
-- limits
UPDATE vllm.result_cache SET created = created - interval '8 days' WHERE model = 'sharer';
SELECT * FROM asks('SELECT llm_generate(p, model => ''sharer'') FROM c');
SELECT * FROM asks('SELECT llm_generate(p, model => ''sharer'') FROM c');
SELECT entries FROM llm_stat_cache WHERE model = 'sharer';
SELECT llm_cache_prune();
SELECT entries FROM llm_stat_cache WHERE model = 'sharer';
SELECT count(llm_generate('much ' || i, model => 'sharer')) FROM generate_series(1, 1000) i;
SELECT entries < 1000 AS fewer, bytes BETWEEN 50000 AND 110000 AS kept FROM llm_stat_cache WHERE model = 'sharer';
SELECT count(llm_generate('more ' || i, model => 'sharer')) FROM generate_series(1, 100) i;
SELECT bytes < 140000 AS kept FROM llm_stat_cache WHERE model = 'sharer';
SELECT llm_cache_prune() > 0 AS pruned;
SELECT bytes BETWEEN 90000 AND 100000 AS kept FROM llm_stat_cache WHERE model = 'sharer';
-- the newest are there
SELECT * FROM asks('SELECT llm_generate(''more '' || i, model => ''sharer'') FROM generate_series(91, 100) i');
-- clearing, and a model that is no more
SELECT llm_cache_clear('keeper') > 20 AS cleared;
SELECT * FROM asks('SELECT llm_generate(p) FROM c');
SELECT llm_drop_model('sharer');
SELECT count(*) FROM vllm.result_cache WHERE model = 'sharer';
SELECT llm_create_model('sharer', '/fake/sharer', options => '{"result_cache": {"shared": true}}');
SELECT * FROM asks('SELECT llm_generate(p, model => ''sharer'') FROM c');
SELECT llm_drop_model('sharer');
SELECT llm_drop_model('forgetter');
SELECT llm_drop_model('keeper');
SELECT count(*) FROM vllm.result_cache;
DROP TABLE c, first;
DROP FUNCTION asks;
DROP ROLE regress_reader;
RESET vllm.default_params;
RESET vllm.model;
