-- Embeddings: options, results, errors, one rule for NULL, empty and long texts, and what is asked.
SET client_min_messages = warning;
SELECT proname, provolatile, proparallel, proisstrict, prosupport <> 0 AS support
FROM pg_proc WHERE proname ~ '^llm_(embed(_|$)|encode)' AND prorettype <> 'trigger'::regtype ORDER BY 1;

-- ---- results ----
SELECT array_length(e, 1), round(sum(x * x)::numeric, 4) AS length FROM llm_embed('the cat sat on the mat') e, unnest(e) x GROUP BY e;
SELECT llm_embed('the cat', 4, false), llm_embed('the cat', 4), llm_embed('the cat', dimensions => 2, normalize_embeddings => true);
SELECT llm_embed('cat', 3, false, instruction => 'the ') = llm_embed('the cat', 3, false) AS instruction,
       llm_embed('cat', 3, false, prompt_name => 'query') = llm_embed('query: cat', 3, false) AS prompt_name,
       llm_embed('cat', 3, false, prompt_name => '') = llm_embed('cat', 3, false) AS no_prompt,
       llm_embed('the cat', truncate => 3) = llm_embed('the') AS truncated;
SELECT llm_embed('the cat', params => '{"dimensions": 3, "normalize": false}') = llm_embed('the cat', 3, false) AS params,
       llm_embed('the cat', 3, params => '{"dimensions": 4, "softmax": false, "truncate_prompt_tokens": 3}') = llm_embed('the', 3, false) AS named_wins,
       llm_embed('the cat', params => '{"dimensions": null, "use_activation": true}') = llm_embed('the cat') AS nulls;
SELECT array_dims(llm_embed('the cat')), array_dims(llm_embed_multi('the cat')), array_dims(llm_embed_multi('the cat', 2)), array_dims(llm_encode('the cat', 'token_embed', 2));
SELECT llm_embed_multi('the cat', 2);
SELECT llm_encode('the cat', 'embed') = llm_embed('the cat') AS embed, llm_encode('good', 'classify', use_activation => false) AS classify,
       array_dims(llm_encode('good', 'token_classify')) AS token_classify, llm_encode('good', 'reward') AS reward,
       llm_encode('a. b.', 'reward', step_tag_id => 46, returned_token_ids => '{0,1}') AS steps;

-- ---- bytes ----
SELECT llm_embed_bytes('the cat', dimensions => 2, normalize_embeddings => false), llm_embed_bytes('the cat', endian => 'big', dimensions => 2),
       llm_embed_bytes('the cat', 'float16', dimensions => 2), llm_embed_bytes('the cat', 'bfloat16', 'big', dimensions => 2), llm_embed_bytes(NULL);
SELECT encode(vllm.embedding_bytes('{0,-0,1,-2,0.333333,65504,65520,1e-7,6e-8,2e-8,6.1e-5,Infinity,NaN}', 'float16', 'big'), 'hex');
SELECT encode(vllm.embedding_bytes('{0,-0,1,-2,0.333333,65504,3.4e38,1e-40,Infinity,NaN}', 'bfloat16', 'big'), 'hex');
SELECT vllm.embedding_bytes('{}', 'float32', NULL), fails($$SELECT vllm.embedding_bytes('{1,NULL}', 'float32', 'big')$$);
SELECT o, fails(format('SELECT llm_embed_bytes(''x'', %s)', o)) FROM unnest(ARRAY['''int8''', 'endian => ''middle''']) o;

-- ---- NULL, empty, long ----
SELECT vllm.control('log-clear');
SELECT llm_embed(NULL), llm_embed(NULL, 0), llm_embed_multi(NULL), llm_encode(NULL, NULL), llm_embed(NULL, model => 'no such');
SELECT count(*) FROM llm_embed_batch(NULL);
SELECT count(*) FROM llm_embed_batch('{}');
SELECT count(*), count(e) FROM llm_embed_batch('{NULL,NULL}', dimensions => 0) e;
SELECT * FROM request_log();
SELECT fails($$SELECT llm_embed('')$$);
SELECT fails($$SELECT llm_embed_batch(ARRAY['a', ''])$$) AS batch, fails($$SELECT llm_encode('', 'classify')$$) AS encode;
SELECT llm_create_model('short', '/fake/short', '{"max_model_len": 10}');
SELECT fails($$SELECT llm_embed('one two three', model => 'short')$$);
SELECT llm_embed('one two three', 2, long_input => 'truncate', model => 'short') = llm_embed('one two th', 2) AS truncate,
       llm_embed('one two three', 2, truncate => -1, model => 'short') = llm_embed('one two th', 2) AS minus_one,
       array_length(llm_embed('one two three', long_input => 'chunk', model => 'short'), 1) AS chunk,
       array_dims(llm_embed_multi('one two three', long_input => 'chunk', model => 'short')) AS chunks;
SELECT fails(format('SELECT llm_embed(repeat(''x'', %s))', setting::int * 1024 + 1)) FROM pg_settings WHERE name = 'vllm.max_prompt_bytes';

-- ---- options that are wrong ----
SELECT o, fails(format('SELECT llm_embed(''x'', %s)', o)) FROM unnest(ARRAY['dimensions => 0', 'dimensions => -1', 'dimensions => 17', 'truncate => 0', 'truncate => -2',
    'long_input => ''cut''', 'long_input => ''''', 'timeout_ms => -1', 'prompt_name => ''no such''', 'model => ''no such''',
    'params => ''[]''', 'params => ''{"dimension": 4}''', 'params => ''{"max_tokens": 4}''', 'params => ''{"dimensions": 2.5}''', 'params => ''{"normalize": "yes"}''',
    'params => ''{"step_tag_id": 4}''']) o;
SELECT o, fails(format('SELECT llm_encode(''x'', %s)', o)) FROM unnest(ARRAY['NULL', '''no such''', '''score''', '''classify'', dimensions => 2', '''embed'', step_tag_id => 2',
    '''classify'', long_input => ''chunk''', '''reward'', step_tag_id => -1', '''reward'', returned_token_ids => ''{1,-1}''', '''reward'', returned_token_ids => ''{1,NULL}''',
    '''classify'', instruction => ''x''']) o;
SELECT llm_create_model('embedder', '/fake/embed');
SELECT fails($$SELECT llm_class('x', model => 'embedder')$$), array_length(llm_embed('x', model => 'embedder'), 1);
-- settings of answers are no business of vectors
SET vllm.default_params = '{"temperature": 0.5}';
SELECT array_length(llm_embed('x'), 1);
RESET vllm.default_params;

-- ---- errors of the engine ----
SELECT fails($$SELECT llm_embed('@error:53200:no room')$$);
SELECT fails($$SELECT llm_embed('@hang', timeout_ms => 50)$$);
SET statement_timeout = '100ms';
SELECT llm_embed('@hang');
RESET statement_timeout;

-- ---- arrays ----
SELECT n, e FROM llm_embed_batch(ARRAY['@delay:60 cat', 'dog', NULL, 'cat'], 3, false) WITH ORDINALITY AS b (e, n);
SELECT count(*), bool_and(e = llm_embed('row ' || n)) FROM llm_embed_batch((SELECT array_agg('row ' || i ORDER BY i) FROM generate_series(1, 1500) i)) WITH ORDINALITY AS b (e, n);
\set VERBOSITY default
SELECT llm_embed_batch(ARRAY['fine', '@error:54000:second', '@error:58030:third']);
\set VERBOSITY terse
SELECT left_behind();

-- ---- futures ----
SELECT llm_submit_embed('the cat', 3, false) AS a \gset
SELECT llm_submit_embed('@delay:50 @error:53200:late') AS b \gset
SELECT llm_submit('an answer') AS c \gset
SELECT llm_wait(ARRAY[:a, :b, :c]), llm_poll(:a), llm_submit_embed(NULL);
SELECT count(*), min(state), max(state) FROM llm_futures;
SELECT replace(replace(fails('SELECT llm_result(' || :a || ')'), :'a', 'N') || ', ' || fails('SELECT llm_result_embedding(' || :c || ')'), :'c', 'M');
SELECT llm_result_embedding(:a), llm_result(:c), fails('SELECT llm_result_embedding(' || :b || ')');
SELECT fails('SELECT llm_result_embedding(0)') ~ '^42704' AS unknown, llm_result_embedding(NULL), count(*) FROM llm_futures;

-- ---- in statements ----
CREATE TABLE texts AS SELECT i AS id, CASE WHEN i % 5 <> 0 THEN 'text ' || i END AS body, NULL::real[] AS e FROM generate_series(1, 20) i;
ANALYZE texts;
EXPLAIN (COSTS OFF) UPDATE texts SET e = llm_embed(body);
EXPLAIN (COSTS OFF) INSERT INTO texts SELECT 100 + id, body, llm_embed(body) FROM texts;
EXPLAIN (COSTS OFF) SELECT id FROM texts ORDER BY (llm_embed(body))[1];
EXPLAIN (COSTS OFF) SELECT llm_embed_bytes(body, dtype => 'float16') FROM texts;
EXPLAIN (COSTS OFF) SELECT count(*) FILTER (WHERE (llm_embed_multi(body))[1][1] > 0), max((llm_encode(body, 'classify'))[1]) FROM texts;
EXPLAIN (COSTS OFF) SELECT t.id, v.e FROM texts t, LATERAL (SELECT llm_embed(t.body) AS e) v;
UPDATE texts SET e = llm_embed(body);
SELECT count(*), count(e), bool_and(e = llm_embed(body)) FROM texts;

-- a call of constants is computed once a statement, and never by EXPLAIN
CREATE FUNCTION init_plans(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    line text;
    n int := 0;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN ' || query LOOP
        n := n + (line ~ 'InitPlan \d+( \(returns|$)')::int;
    END LOOP;
    RETURN n;
END $$;
SELECT vllm.control('log-clear');
SELECT init_plans($$SELECT id FROM texts WHERE llm_similarity(e, llm_embed('text 7')) > 0.9 ORDER BY id LIMIT 1$$) AS vector,
       init_plans($$SELECT id FROM texts WHERE body = llm_class('good')$$) AS label,
       init_plans($$UPDATE texts SET e = llm_embed('const', dimensions => 2)$$) AS updated,
       init_plans($$SELECT llm_embed(upper('const')) FROM texts$$) AS nested,
       init_plans($$SELECT llm_embed('no table')$$) AS no_table,
       init_plans($$SELECT llm_embed(random()::text) FROM texts$$) AS volatile,
       init_plans($$SELECT llm_embed(body) FROM texts$$) AS column;
SELECT * FROM request_log();
SELECT id FROM texts WHERE e IS NOT NULL ORDER BY llm_similarity(e, llm_embed('text 7')) DESC LIMIT 1;
SELECT * FROM request_log();
SET vllm.batch = off;
SET vllm.batch_dedup = off;
SELECT vllm.control('log-clear');
SELECT count(*) FROM texts WHERE llm_similarity(e, llm_embed('text 7')) > 0.99;
SELECT count(llm_embed('const')) FROM texts;
PREPARE near(text) AS SELECT id FROM texts WHERE e IS NOT NULL ORDER BY llm_similarity(e, llm_embed('text ' || $1)) DESC LIMIT 1;
EXECUTE near('8');
SET plan_cache_mode = force_generic_plan;
EXECUTE near('9');
RESET plan_cache_mode;
SELECT * FROM request_log();
RESET vllm.batch;
RESET vllm.batch_dedup;
-- nothing to save, and what differs from row to row
EXPLAIN (COSTS OFF) SELECT llm_embed(body || 'x') FROM texts WHERE id = 3;
EXPLAIN (COSTS OFF) SELECT llm_embed('text', dimensions => id % 4 + 1) FROM texts;
SELECT id, llm_embed('text', dimensions => id % 2 + 1, normalize_embeddings => false) FROM texts WHERE id < 4;
-- in VALUES they differ from row to row
EXPLAIN (COSTS OFF) INSERT INTO texts VALUES (101, 'a', llm_embed('a')), (102, 'b', llm_embed('b'));
SELECT init_plans($$INSERT INTO texts VALUES (101, 'a', llm_embed('a')), (102, 'b', llm_embed('b')) RETURNING llm_similarity(e, llm_embed('c'))$$) AS returning,
       init_plans($$SELECT v.e, llm_class('good') FROM (VALUES (llm_embed('a')), (llm_embed('b'))) v (e) WHERE llm_embed('c') IS NOT NULL$$) AS beside;
SELECT count(*), bool_and(e = llm_embed(body)) FROM (VALUES ('a', llm_embed('a')), ('b', llm_embed('b')), (NULL, llm_embed(NULL))) v (body, e);
PREPARE two(text, text) AS SELECT body FROM (VALUES ($1, llm_embed($1)), ($2, llm_embed($2))) v (body, e) ORDER BY llm_similarity(e, llm_embed('text 7')) DESC;
EXECUTE two('text 8', 'text 7');
-- constants that become constants late
SELECT x FROM (SELECT 'bad' AS x UNION ALL SELECT 'good') s WHERE llm_class(x) = 'positive';
SELECT count(*) FROM texts t WHERE EXISTS (SELECT FROM texts u WHERE u.id = t.id AND llm_class('good') = 'positive') AND id < 3;
SELECT llm_class('good') || count(*) FROM texts GROUP BY llm_class('good');
CREATE FUNCTION nearest(q text) RETURNS int LANGUAGE sql STABLE AS $$SELECT id FROM texts WHERE e IS NOT NULL ORDER BY llm_similarity(e, llm_embed(q)) DESC LIMIT 1$$;
SELECT nearest('text 3'), nearest('text 4');
DO $$
DECLARE
    v real[];
    q text := 'text 6';
BEGIN
    v := llm_embed(q);
    RAISE NOTICE '% %', array_length(v, 1), (SELECT id FROM texts WHERE e IS NOT NULL ORDER BY llm_similarity(e, llm_embed(q)) DESC LIMIT 1);
END $$;
DROP FUNCTION nearest, init_plans;
DROP TABLE texts;
SELECT llm_drop_model('short'), llm_drop_model('embedder');
SELECT left_behind();

-- ---- which model, where none is named ----
SET vllm.embedding_model = 'no such embedder'; SET vllm.rerank_model = 'no such reranker';
SELECT c, fails(format('SELECT %s', c)) FROM unnest(ARRAY['llm_embed(''x'')', 'llm_similarity(''x'', ''y'')', 'llm_score(''x'', ''y'')', 'llm_encode(''x'', ''token_embed'')', 'llm_reward(''x'')',
    'llm_embed(''x'', model => ''tickets-2m'')', 'v1_embeddings(''{"input": "x"}'')', 'v1_score(''{"text_1": "x", "text_2": "y"}'')', 'v1_embeddings(''{"input": "x", "model": "tickets-2m"}'')',
    'llm_api(''/pooling'', ''{"input": "x", "task": "classify"}'')', 'llm_api(''/v2/rerank'', ''{"query": "x", "documents": ["y"]}'')']) c;
RESET vllm.rerank_model;
-- changed by a function in the same statement
SET vllm.embedding_model = 'embedder';
SELECT i, fails(format('SELECT llm_embed(set_config(''vllm.embedding_model'', %L, false))', m)) FROM (VALUES (1, 'tickets-2m'), (2, 'gone'), (3, '')) v (i, m) ORDER BY i;
RESET vllm.embedding_model;
