-- One answer over many texts (the fake engine answers with the prompt's words in upper case, its tokens are bytes).
SET client_min_messages = warning;
SELECT vllm.control('log-clear');
-- a template that shows what is in a prompt; a context of 200 tokens
SELECT llm_create_model('short', '/fake/short', '{"max_model_len": 200, "chat_template": "{% for m in messages %}<{{ m.content }}>{% endfor %}"}');
SET vllm.default_params = '{"temperature": 0, "max_tokens": 20}';
SET vllm.model = 'short';

-- all in one prompt
SELECT llm_reduce(ARRAY['a', 'b', NULL, 'c'], 'Join:');
SELECT llm_reduce('{{a,b},{NULL,c}}', 'Join:'), llm_reduce('[5:6]={d,e}', 'Join:');
SELECT llm_reduce(NULL, 'Join:') IS NULL AS a, llm_reduce('{}', 'Join:') IS NULL AS b, llm_reduce(ARRAY[NULL, NULL], 'Join:') IS NULL AS c;
SELECT llm_agg(x, 'Join:' ORDER BY n), llm_agg(x, 'Join:') AS by_bytes, llm_summarize_agg(x)
FROM (VALUES (1, 'z'), (2, NULL), (3, 'y'), (4, 'x'), (5, 'x')) v (n, x);
SELECT llm_agg(x, 'Join:') IS NULL AS a, llm_agg(x, NULL) IS NULL AS b FROM (VALUES (NULL)) v (x);
SELECT llm_agg(DISTINCT x, 'Join:'), count(*) FROM (VALUES ('b'), ('a'), ('b')) v (x);

-- several prompts: their answers are the next level's texts
SELECT vllm.control('log-clear');
SELECT llm_reduce(array_agg(repeat(chr(96 + i) || ' ', 25) ORDER BY i), 'Level 1:', combine => 'Higher:', max_tokens => 4) FROM generate_series(1, 9) i;
SELECT * FROM request_log();
-- three levels, the same tree again
SELECT vllm.control('log-clear');
SELECT llm_agg(repeat(chr(96 + i % 26) || ' ', 12), 'I', '{"max_tokens": 9, "combine": "C"}' ORDER BY i) FROM generate_series(1, 60) i;
SELECT regexp_replace(l, '^\S+ \S+ \S+ ', '') AS prompts FROM request_log() l;

-- many groups: with llm_reduce their last levels are in flight together
EXPLAIN (COSTS OFF) SELECT i % 3, llm_reduce(array_agg(i::text), 'Join:') FROM generate_series(1, 12) i GROUP BY 1;
SELECT i % 3 AS g, llm_reduce(array_agg(i::text ORDER BY i), 'Join:'), llm_agg(i::text, 'Join:' ORDER BY i) FROM generate_series(1, 12) i GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM
    (SELECT g, llm_reduce(array_agg(w ORDER BY i), 'Join:', max_tokens => 5) AS a FROM (SELECT i, i % 7 AS g, 'word' || i AS w FROM generate_series(1, 200) i) s GROUP BY g) x
    JOIN (SELECT g, llm_agg(w, 'Join:', '{"max_tokens": 5}' ORDER BY i) AS a FROM (SELECT i, i % 7 AS g, 'word' || i AS w FROM generate_series(1, 200) i) s GROUP BY g) y
    USING (g, a);
-- options by the ten thousand are read once; of two of a name the last holds
SET statement_timeout = '20s';
SELECT left(fails($$SELECT llm_agg('a', 'Join:', (SELECT json_object_agg('key ' || i, i) FROM generate_series(1, 50000) i))$$), 36);
RESET statement_timeout;
SELECT llm_agg(x, 'Join:', '{"max_tokens": 1, "split": true, "max_tokens": 2, "combine": null, "split": false}') FROM (VALUES ('a'), ('b')) v (x);
SELECT llm_agg(x, 'Join:', '{"split": "perhaps"}') FROM (VALUES ('a')) v (x);
SELECT llm_agg(x, 'Join:', '[]') FROM (VALUES ('a')) v (x);
-- as a window, over batch and serially
SELECT i, llm_agg(i::text, 'Join:') OVER (ORDER BY i DESC ROWS 2 PRECEDING) FROM generate_series(1, 4) i;
SET vllm.batch = off;
SELECT i % 3 AS g, llm_reduce(array_agg(i::text ORDER BY i), 'Join:') FROM generate_series(1, 12) i GROUP BY 1 ORDER BY 1;
RESET vllm.batch;
-- an error comes in its row's turn
BEGIN;
DECLARE c CURSOR FOR SELECT llm_reduce(ARRAY[x], 'I', temperature => t) FROM (VALUES ('a', 0), ('b', 0), ('c', 9)) v (x, t);
FETCH 2 FROM c;
FETCH 1 FROM c;
ROLLBACK;

-- workers collect, the answer is the same
CREATE TABLE words AS SELECT i, md5(i::text) AS w FROM generate_series(1, 3000) i;
ALTER TABLE words SET (parallel_workers = 2);
ANALYZE words;
SET vllm.model = 'tickets-2m';
SELECT md5(llm_agg(w, 'Join:', '{"max_tokens": 5000}')) AS alone FROM words \gset
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET parallel_leader_participation = off;
EXPLAIN (COSTS OFF) SELECT llm_agg(w, 'Join:', '{"max_tokens": 5000}') FROM words;
SELECT md5(llm_agg(w, 'Join:', '{"max_tokens": 5000}')) = :'alone' AS same FROM words;
SELECT llm_agg(w, 'Joiné:', '{"max_tokens": 5000}') = llm_reduce(array_agg(w ORDER BY w COLLATE "C"), 'Joiné:', max_tokens => 5000) AS same FROM words;
SET client_encoding = 'LATIN1';
SELECT length(llm_agg(w, 'Join' || chr(233) || ':', ('{"max_tokens": 5000, "stop": "' || chr(233) || chr(233) || '"}')::json)) - length(llm_agg(w, 'Joine:', '{"max_tokens": 5000}')) AS longer FROM words;
RESET client_encoding;
RESET parallel_setup_cost; RESET parallel_tuple_cost; RESET min_parallel_table_scan_size; RESET parallel_leader_participation;
SET vllm.model = 'short';

-- texts that are longer than the context
SELECT fails($$SELECT llm_reduce(ARRAY['short', repeat('long ', 60)], 'Join:')$$);
SELECT vllm.control('log-clear');
SELECT llm_reduce(ARRAY['short', repeat('long ', 60)], 'Join:', split => true, max_tokens => 3);
SELECT regexp_replace(l, '^\S+ \S+ \S+ ', '') AS prompts FROM request_log() l;
SELECT llm_agg(x, 'Join:', '{"split": true, "max_tokens": 3}' ORDER BY x) FROM (VALUES ('short'), (repeat('long ', 60))) v (x);
-- answers that can't be reduced
SELECT fails($$SELECT llm_reduce(array_agg(repeat('x', 60)), 'Join:', max_tokens => 70) FROM generate_series(1, 9)$$);
SELECT fails($$SELECT llm_reduce(array_agg(repeat('x', 60)), 'Join:', max_tokens => 20) FROM generate_series(1, 9)$$);
SELECT fails($$SELECT llm_reduce(ARRAY['x'], repeat('instruction ', 30))$$);
-- an error of one prompt is the call's; other options are llm_generate's
SELECT fails($$SELECT llm_reduce(array_agg(CASE WHEN i = 5 THEN '@error' ELSE repeat('y', 80) END), 'Join:') FROM generate_series(1, 9) i$$);
SELECT regexp_replace(fails(format('SELECT %s', call)), '(Known parameters: max_tokens), [a-z_, ]*\.$', '\1, ...') AS fails FROM (VALUES
    ($$llm_reduce(ARRAY['x'], NULL)$$), ($$llm_reduce(ARRAY['x'], 'I', temperature => 9)$$), ($$llm_reduce(ARRAY['x'], 'I', model => 'nobody')$$),
    ($$llm_agg('x', 'I', '{"temperature": 9}')$$), ($$llm_agg('x', 'I', '[]')$$), ($$llm_agg('x', 'I', '{"splitt": true}')$$), ($$llm_agg('x', 'I', '{"split": "x"}')$$),
    ($$llm_agg('x', i::text) FROM generate_series(1, 2) i$$), ($$llm_agg('x', NULL::text)$$)) c (call);
-- cancelled within a level
SET statement_timeout = '300ms';
SELECT fails($$SELECT llm_reduce(array_agg('@hang ' || repeat('y', 80)), 'Join:') FROM generate_series(1, 9)$$);
RESET statement_timeout;
RESET vllm.model;
RESET vllm.default_params;
SELECT llm_drop_model('short');
DROP TABLE words;
SELECT left_behind();
