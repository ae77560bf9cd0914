-- One line, one test: tests/t/040_batch_diff.pl runs it with vllm.batch off and on and compares
-- output, errors and the request log.  Several statements on a line share a session.  setup.sql has
-- the tables.  Where the order of rows is not the plan's (parallel query), sort.
-- At the end of a line may stand "-- " and, separated by commas, what is special about it:
--   log: more     batching may ask more than serial execution (LIMIT with a filter, EXISTS, rows after an
--                 error, the last rows of lag(), where PostgreSQL has a Memoize)
--   log: fewer    it may ask less: everything that serial execution asks, but not as often (a scroll
--                 cursor keeps what it has read, a set-returning function's other columns run once a row)
--   log: subset   nothing but what serial execution asks (its set-returning function gave no row)
--   log: any      both more and fewer
--   inline        no call of the line is batched
--   early         without vllm.batch_strict an error may surface at an earlier row
--   differs       the result differs, docs/user/automatic-batching.md says why
-- Otherwise the requests are the same, and the plan has a node LLM Batch.

-- the target list
SELECT id, llm_generate(body) FROM docs
SELECT llm_generate(body) FROM docs
SELECT llm_generate(body), llm_generate(body) FROM docs
SELECT id, llm_generate(body), llm_generate(grp), n FROM docs
SELECT llm_generate(body), llm_generate(body || ' twice'), llm_generate('constant') FROM docs
SELECT llm_generate('constant') FROM docs
SELECT llm_generate('constant') FROM generate_series(1, 5)
SELECT llm_generate('no table') -- inline
SELECT id, llm_ask(body, 'system ' || grp) FROM docs
SELECT id, llm_ask(body), llm_chat_text(json_build_array(json_build_object('role', 'user', 'content', body))) FROM docs
SELECT id, (llm_chat_full(json_build_array(json_build_object('role', 'user', 'content', body)), n => 2, temperature => 0.5, seed => id)).completions FROM docs
SELECT grp, llm_chat_text(llm_chat_agg('user', body ORDER BY id)) FROM docs GROUP BY grp ORDER BY grp
SELECT id, llm_render_chat(json_build_array(json_build_object('role', 'user', 'content', body)), chat_template => '{{ messages[0].content }}') FROM docs
SELECT id, llm_chat_text(json_build_array(json_build_object('role', 'user', 'content', body)), chat_template => '{{ raise_exception(messages[0].content) }}') FROM docs -- log: more
SELECT llm_generate('no table'), llm_generate('second column')
SELECT llm_generate(NULL) FROM docs
SELECT id, llm_generate(NULL), llm_generate(body) FROM docs
SELECT llm_generate(body) FROM nothing
SELECT id, llm_generate(llm_generate(body)) FROM docs
SELECT id, llm_generate(llm_generate(llm_generate(body) || ' b') || ' c') FROM docs
SELECT id, llm_generate(llm_generate(body) || llm_generate(grp)) FROM docs
SELECT id, llm_generate(body) || '/' || llm_generate(grp) FROM docs
SELECT id, length(llm_generate(body)), upper(body) = llm_generate(body), llm_generate(body) IS NULL FROM docs
SELECT id, llm_generate(body) LIKE '%YES' AS yes, NOT (llm_generate(body) LIKE '%YES') AS no FROM docs
SELECT llm_generate(body || ' ' || id) FROM docs
SELECT llm_generate(format('%s: %s', id, body)) FROM docs
SELECT llm_generate(concat(body, grp, n)) FROM docs WHERE body IS NOT NULL
SELECT llm_generate(body, max_tokens => 1) FROM docs
SELECT llm_generate(body, max_tokens => id) FROM docs
SELECT llm_generate(body, max_tokens => NULL, temperature => 0) FROM docs
SELECT llm_generate(body, temperature => 0.5, seed => id) FROM docs
SELECT llm_generate(body, temperature => 0.5, seed => 7) FROM docs
SELECT count(DISTINCT a) FROM (SELECT llm_generate('same', temperature => 1) AS a FROM docs) s
SELECT llm_generate(body, stop => ARRAY['T']) FROM docs
SELECT llm_generate(body, params => '{"max_tokens": 1}') FROM docs
SELECT llm_generate(body, params => json_build_object('max_tokens', id % 3 + 1)) FROM docs
SELECT llm_generate(body, model => 'tickets-2m') FROM docs
SELECT llm_generate(prompt => body, timeout_ms => 30000) FROM docs
SET vllm.default_max_tokens = 1; SELECT llm_generate(body) FROM docs
SET vllm.default_params = '{"stop": ["T"]}'; SELECT llm_generate(body) FROM docs
SELECT id, (llm_generate_full(body)).text FROM docs
SELECT id, (llm_generate_full(body)).usage FROM docs
SELECT id, ((llm_generate_full(body)).usage).completion_tokens, (llm_generate_full(body)).finish_reason FROM docs
SELECT id, (r).text, (r).token_ids, (r).finish_reason FROM (SELECT id, llm_generate_full(body, max_tokens => 1) AS r FROM docs OFFSET 0) s
SELECT id, llm_tokenize(body) FROM docs
SELECT id, llm_count_tokens(body), llm_count_tokens(llm_generate(body)) FROM docs
SELECT id, llm_detokenize(llm_tokenize(body)) FROM docs
SELECT llm_generate(llm_detokenize(llm_tokenize(body))) FROM docs
SELECT docs, llm_generate(body) FROM docs
SELECT docs.*, llm_generate(docs.body) FROM docs
SELECT llm_generate(docs::text) FROM docs WHERE id < 3
SELECT ctid, tableoid::regclass, llm_generate(body) FROM docs
SELECT id, nextval('s'), llm_generate(body) FROM docs
SELECT id, nextval('s'), llm_generate(body) FROM docs LIMIT 3
SELECT llm_generate(body || nextval('s')), nextval('s') FROM docs WHERE body IS NOT NULL -- inline
SELECT setseed(0.5); SELECT id, random() < 2, llm_generate(body) FROM docs
SELECT setseed(0.25); SELECT round(random()::numeric, 6), llm_generate(body), round(random()::numeric, 6) FROM docs
SELECT 1 AS one, 'x' AS x, llm_generate(body) FROM docs WHERE false -- inline
SELECT llm_generate(body) AS a, count(*) OVER () FROM docs
SELECT -length(llm_generate(body)) FROM docs
SELECT CASE WHEN id = 1 THEN 'no call' ELSE body END FROM docs -- inline
SELECT llm_generate(body)::varchar(5), llm_generate(id::text)::int FROM docs
SELECT 'a' || llm_generate(body) COLLATE "C" FROM docs
SELECT llm_generate(v), llm_generate(c), llm_generate(d::text), llm_generate(num::text) FROM kinds

-- CASE, COALESCE, AND, OR and their kin: no call fires that serial execution would not fire
SELECT id, CASE WHEN flag THEN llm_generate(body) END FROM docs
SELECT id, CASE WHEN flag THEN llm_generate(body) ELSE llm_generate(grp) END FROM docs
SELECT id, CASE WHEN flag THEN llm_generate(body) WHEN n > 60 THEN llm_generate('big ' || n) ELSE 'plain' END FROM docs
SELECT id, CASE grp WHEN 'a' THEN llm_generate('is a') WHEN 'b' THEN llm_generate('is b') ELSE llm_generate('other') END FROM docs
SELECT id, CASE llm_generate(body) WHEN 'FIRST TEXT' THEN 1 WHEN 'SECOND TEXT' THEN 2 END FROM docs
SELECT id, CASE WHEN llm_generate(body) LIKE '%YES' THEN llm_generate('yes ' || id) ELSE llm_generate('no ' || id) END FROM docs
SELECT id, CASE WHEN llm_generate(body) LIKE '%YES' THEN CASE WHEN flag THEN llm_generate('flag ' || id) ELSE 'quiet' END END FROM docs
SELECT id, CASE WHEN body IS NULL THEN 'null' WHEN 10 / (id - 3) > 0 THEN llm_generate(body) ELSE llm_generate('low') END FROM docs
SELECT id, CASE id WHEN 5 THEN 'skipped' ELSE llm_generate(CASE WHEN n IS NULL THEN body ELSE 'n ' || n END) END FROM docs
SELECT t.tag_id, l.* FROM tags t, LATERAL (SELECT d.id, CASE WHEN d.id IN (SELECT m.id FROM many m WHERE m.id < t.tag_id OFFSET 0) THEN llm_generate('in ' || d.id) ELSE llm_generate('out') END FROM docs d WHERE d.id < 5) l ORDER BY 1, 2 -- inline
SELECT id, CASE WHEN id IN (SELECT doc_id FROM tags) THEN llm_generate(body) ELSE llm_generate('untagged') END FROM docs
SELECT id, COALESCE(body, llm_generate('for ' || id)) FROM docs
SELECT id, COALESCE(llm_generate(body), llm_generate('for ' || id), 'never') FROM docs
SELECT id, COALESCE(NULL, llm_generate(body), grp, llm_generate('last ' || id)) FROM docs
SELECT id, COALESCE(CASE WHEN flag THEN llm_generate(body) END, llm_generate('else ' || id)) FROM docs
SELECT id, NULLIF(llm_generate(body), 'FIRST TEXT'), NULLIF(grp, llm_generate('a')) FROM docs
SELECT id, GREATEST(llm_generate(body), llm_generate(grp)), LEAST(llm_generate(body), 'M') FROM docs
SELECT id, flag AND llm_generate(body) LIKE '%YES', flag OR llm_generate(body) LIKE '%YES' FROM docs
SELECT id, flag AND n > 20 AND llm_generate(body) LIKE '%YES' AND llm_generate(grp) = 'B' FROM docs
SELECT id, llm_generate(body) LIKE '%YES' OR llm_generate(grp) = 'B' OR flag FROM docs
SELECT id, NOT (flag OR llm_generate(body) LIKE '%YES'), (flag AND (n > 50 OR llm_generate(body) LIKE '%YES')) IS NOT TRUE FROM docs
SELECT id, (flag AND llm_generate(body) LIKE '%YES') IS UNKNOWN FROM docs
SELECT id, llm_generate(body) = ANY (ARRAY['FIRST TEXT', llm_generate('second text')]), llm_generate(grp) IN ('A', 'B') FROM docs
SELECT id, llm_generate(body) IS DISTINCT FROM llm_generate(grp) FROM docs
SELECT id, ARRAY[llm_generate(body), llm_generate(grp)], ROW(id, llm_generate(body)) FROM docs
SELECT id, (ARRAY[llm_generate(body), 'second'])[1 + id % 2] FROM docs
SELECT id, ROW(llm_generate(body), id) < ROW('G', 5), ROW(llm_generate(grp), 1) = ROW('A', 1) FROM docs
SELECT id, variadic_join(llm_generate(body), grp, llm_generate('v')) FROM docs
SELECT id, llm_generate(body) ~~> llm_generate(grp), good(llm_generate(body)) FROM docs
SELECT id, xmlforest(llm_generate(body) AS a), xmlelement(name x, llm_generate(grp)) FROM docs
SELECT id, json_build_object('a', llm_generate(body)), to_jsonb(llm_generate(grp)) FROM docs
SELECT id, to_tsvector('simple', llm_generate(body)) @@ to_tsquery('simple', 'yes') FROM docs
SELECT id, llm_generate(doc ->> 'q'), jsonb_set(doc, '{q}', to_jsonb(llm_generate('j ' || id))) FROM kinds
SELECT id, llm_generate((p).question), ROW(llm_generate((p).reply), 'x')::pair FROM kinds
SELECT id, llm_generate(words[1]), ARRAY(SELECT llm_generate(x) FROM unnest(words) x) FROM kinds
SELECT id, llm_generate(array_to_string(words, ' ', 'null')) FROM kinds WHERE words <> '{}'
SELECT llm_generate(body)::loud FROM docs
SELECT id, lower(llm_generate(body))::loud FROM docs -- log: more

-- WHERE
SELECT id FROM docs WHERE llm_generate(body) LIKE '%YES'
SELECT id, llm_generate('list ' || id) FROM docs WHERE llm_generate(body) LIKE '%YES'
SELECT id, llm_generate(body) FROM docs WHERE llm_generate(body) LIKE '%YES'
SELECT id FROM docs WHERE llm_generate(body) LIKE '%YES' AND llm_generate(grp) = 'B'
SELECT id FROM docs WHERE llm_generate(body) LIKE '%YES' OR llm_generate(grp) = 'B'
SELECT id FROM docs WHERE flag AND n < 100 AND llm_generate(body) LIKE '%YES'
SELECT id FROM docs WHERE flag OR llm_generate(body) LIKE '%YES'
SELECT id FROM docs WHERE NOT llm_generate(body) LIKE '%YES'
SELECT id FROM docs WHERE llm_generate(body) IS NULL
SELECT id FROM docs WHERE COALESCE(llm_generate(body), 'YES') LIKE '%YES'
SELECT id FROM docs WHERE CASE WHEN flag THEN llm_generate(body) LIKE '%YES' ELSE llm_generate(grp) = 'B' END
SELECT id FROM docs WHERE llm_generate(llm_generate(body) || ' again') LIKE '%YES AGAIN'
SELECT id FROM docs WHERE id IN (1, 4, 6) AND llm_generate(body) LIKE '%YES'
SELECT id FROM docs WHERE llm_generate('constant yes') LIKE '%YES'
SELECT id FROM docs WHERE llm_generate('constant no') LIKE '%YES'
SELECT id FROM docs WHERE length(llm_generate(body)) > 10 ORDER BY id DESC
SELECT id, nextval('s') FROM docs WHERE llm_generate(body) LIKE '%YES'
SELECT setseed(0.1); SELECT id FROM docs WHERE random() < 0.5 AND llm_generate(body) IS NOT NULL
SELECT id FROM docs WHERE llm_generate(body) = llm_generate('first text')
SELECT id FROM docs WHERE good(llm_generate(body))
SELECT id FROM docs WHERE llm_generate(body) IN (SELECT llm_generate(body) FROM docs WHERE id = 6)
SELECT id FROM many WHERE k = 3 AND llm_generate(body) LIKE '%YES'
SET enable_seqscan = off; SELECT id, llm_generate(body) FROM docs WHERE id BETWEEN 3 AND 8 AND llm_generate(body) LIKE '%YES'
SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off; SELECT id, llm_generate(body) FROM many WHERE k IN (2, 3) AND id < 60
SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT k, llm_generate('k ' || k) FROM many WHERE k = 3 AND id < 60
SELECT llm_generate(body) FROM docs WHERE ctid IN ('(0,1)', '(0,4)')
SELECT llm_generate(body) FROM docs WHERE ctid >= '(0,5)' AND ctid < '(0,9)'
SELECT id, llm_generate(body) FROM docs TABLESAMPLE SYSTEM (100) REPEATABLE (1)
SELECT id, llm_generate(body) FROM many TABLESAMPLE BERNOULLI (20) REPEATABLE (3) WHERE llm_generate(body) LIKE '%YES'

-- ORDER BY, DISTINCT, LIMIT
SELECT id FROM docs ORDER BY llm_generate(body), id
SELECT id, llm_generate(body) AS a FROM docs ORDER BY a DESC NULLS LAST, id
SELECT id, llm_generate(body) FROM docs ORDER BY grp NULLS FIRST, id DESC
SELECT id, llm_generate('s ' || id) FROM docs ORDER BY length(llm_generate(body)), id
SELECT DISTINCT llm_generate(body) FROM docs
SELECT DISTINCT llm_generate(body) AS a, grp FROM docs ORDER BY a, grp
SELECT DISTINCT ON (grp) grp, id, llm_generate(body) FROM docs ORDER BY grp, id
SELECT DISTINCT ON (llm_generate(body)) id, body FROM docs ORDER BY llm_generate(body), id
SELECT llm_generate(body) FROM docs ORDER BY id LIMIT 7
SELECT llm_generate(body) FROM docs LIMIT 3
SELECT llm_generate(body) FROM docs LIMIT 0
SELECT llm_generate(body) FROM docs LIMIT NULL
SELECT llm_generate(body) FROM docs ORDER BY id LIMIT ALL OFFSET 10
SELECT llm_generate(body) FROM docs ORDER BY id LIMIT 2 OFFSET 3
SELECT llm_generate(body) FROM docs ORDER BY id OFFSET 100
SELECT llm_generate(body) FROM docs LIMIT (SELECT count(*) FROM tags WHERE tag = 'red')
SELECT id, llm_generate(body) FROM docs WHERE llm_generate(body) LIKE '%YES' LIMIT 2 -- log: more
SET enable_sort = off; SELECT id FROM docs WHERE llm_generate(body) LIKE '%YES' ORDER BY id LIMIT 2 OFFSET 1 -- log: more
SELECT id FROM many WHERE llm_generate(body) LIKE '%YES' LIMIT 10 -- log: more
SELECT id FROM docs WHERE llm_generate(body) LIKE '%NEVER' LIMIT 1 -- log: more
SET enable_sort = off; SELECT id, llm_generate('after ' || id) FROM many WHERE llm_generate(body) LIKE '%YES' ORDER BY id LIMIT 5 -- log: more
SELECT id FROM docs ORDER BY llm_generate(body) DESC NULLS LAST, id LIMIT 3
SELECT grp, llm_generate(body) FROM docs ORDER BY grp FETCH FIRST 3 ROWS WITH TIES -- log: more
SELECT id, llm_generate(body) AS a FROM docs ORDER BY a FETCH FIRST 2 ROWS WITH TIES
SELECT a FROM (SELECT id, llm_generate(body) AS a FROM docs ORDER BY id LIMIT 5) s ORDER BY id DESC LIMIT 2
SELECT a FROM (SELECT llm_generate(body) AS a FROM docs OFFSET 0) s LIMIT 4
SELECT a FROM (SELECT llm_generate(body) AS a FROM docs OFFSET 0) s WHERE a LIKE '%YES' LIMIT 1 -- log: more
SELECT llm_generate(a || ' outer') FROM (SELECT llm_generate(body) AS a FROM docs OFFSET 0) s LIMIT 4
SELECT (SELECT llm_generate(body) FROM docs ORDER BY id LIMIT 1), (SELECT llm_generate(grp) FROM docs WHERE id = 2)
SELECT llm_generate(body) FROM many WHERE id < 100 LIMIT 40
PREPARE p (int) AS SELECT llm_generate(body) FROM docs ORDER BY id LIMIT $1; EXECUTE p(2); EXECUTE p(0); EXECUTE p(NULL)
SELECT 1 FROM docs WHERE llm_generate(body) LIKE '%YES' FETCH FIRST ROW ONLY -- log: more
SELECT id, unnest(ARRAY[1, 2]), llm_generate(body) FROM docs LIMIT 3 -- log: any

-- aggregates, grouping
SELECT string_agg(llm_generate(body), ',') FROM docs
SELECT string_agg(llm_generate(body), ',' ORDER BY id DESC) FROM docs
SELECT string_agg(llm_generate(body), llm_generate('sep') ORDER BY llm_generate(grp), id) FROM docs
SELECT string_agg(DISTINCT llm_generate(body), ',') FROM docs
SELECT array_agg(llm_generate(body) ORDER BY llm_generate(body), id) FROM docs
SELECT count(llm_generate(body)), count(DISTINCT llm_generate(body)), min(llm_generate(grp)), max(llm_generate(grp)) FROM docs
SELECT count(*) FILTER (WHERE llm_generate(body) LIKE '%YES') FROM docs
SELECT sum(n) FILTER (WHERE llm_generate(body) LIKE '%YES'), string_agg(llm_generate(body), ',') FILTER (WHERE flag) FROM docs
SELECT string_agg(llm_generate(body), ',') FILTER (WHERE llm_generate(grp) = 'A') FROM docs
SELECT grp, string_agg(llm_generate(body), ',' ORDER BY id) FROM docs GROUP BY grp ORDER BY grp
SELECT grp, count(*), llm_generate('group ' || grp) FROM docs GROUP BY grp ORDER BY grp
SELECT llm_generate(string_agg(body, ' ' ORDER BY id)) FROM docs
SELECT grp, llm_generate(string_agg(body, ' ' ORDER BY id)) FROM docs GROUP BY grp ORDER BY grp
SELECT grp, llm_generate(string_agg(llm_generate(body), ' ' ORDER BY id)) FROM docs GROUP BY grp ORDER BY grp
SELECT llm_generate(body) AS a, count(*), sum(id) FROM docs GROUP BY a ORDER BY a
SELECT llm_generate(body) LIKE '%YES' AS yes, count(*), string_agg(id::text, ',' ORDER BY id) FROM docs GROUP BY 1 ORDER BY 1
SELECT grp FROM docs GROUP BY grp HAVING llm_generate('having ' || grp) LIKE '%A' ORDER BY grp
SELECT grp, count(*) FROM docs GROUP BY grp HAVING count(*) > 2 AND llm_generate('having ' || grp || count(*)) LIKE 'HAVING%' ORDER BY grp
SELECT count(*) FROM docs HAVING llm_generate('all ' || count(*)) LIKE '%12'
SELECT grp, flag, count(llm_generate(body)) FROM docs GROUP BY ROLLUP (grp, flag) ORDER BY grp, flag
SELECT grp, flag, llm_generate('g ' || COALESCE(grp, '-') || grouping(grp, flag)) FROM docs GROUP BY CUBE (grp, flag) ORDER BY grp, flag, grouping(grp, flag)
SELECT llm_generate(body) AS a, grp, count(*) FROM docs GROUP BY GROUPING SETS ((a), (grp), ()) ORDER BY a, grp, 3
SET enable_hashagg = off; SELECT grp, string_agg(llm_generate(body), ',' ORDER BY id) FROM docs GROUP BY grp
SET enable_sort = off; SELECT grp, count(llm_generate(body)) FROM docs GROUP BY grp ORDER BY grp
SELECT cat(llm_generate(body) ORDER BY id) FROM docs WHERE body IS NOT NULL
SELECT json_agg(llm_generate(body) ORDER BY id), jsonb_object_agg(id, llm_generate(body)) FROM docs
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY llm_generate(body)), mode() WITHIN GROUP (ORDER BY llm_generate(grp)) FROM docs
SELECT rank('FOURTH YES') WITHIN GROUP (ORDER BY llm_generate(body)) FROM docs
SELECT bool_or(llm_generate(body) LIKE '%YES'), every(flag OR llm_generate(body) IS NOT NULL) FROM docs
SELECT sum(CASE WHEN flag THEN length(llm_generate(body)) ELSE 0 END) FROM docs
SELECT grp, sum(length(llm_generate(body))) AS s FROM docs GROUP BY grp HAVING sum(length(llm_generate(body))) > 20 ORDER BY grp
SELECT count(llm_generate(body)) FROM nothing
SELECT DISTINCT count(llm_generate(body)) OVER (PARTITION BY grp) FROM docs ORDER BY 1
SELECT string_agg(llm_generate(body), '') = string_agg(llm_generate(body), '') FROM docs

-- window functions
SELECT id, lag(llm_generate(body)) OVER (ORDER BY id) FROM docs -- log: more
SELECT id, first_value(llm_generate(body)) OVER (PARTITION BY grp ORDER BY id) FROM docs ORDER BY id -- inline
SELECT id, rank() OVER (ORDER BY llm_generate(body)) FROM docs ORDER BY id
SELECT id, row_number() OVER (PARTITION BY llm_generate(body) ORDER BY id) FROM docs ORDER BY id
SELECT id, string_agg(llm_generate(body), ',') OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM docs -- log: fewer
SELECT id, llm_generate('w ' || row_number() OVER (ORDER BY id)) FROM docs ORDER BY id
SELECT id, count(*) FILTER (WHERE llm_generate(body) LIKE '%YES') OVER (ORDER BY id) FROM docs
SELECT id, lag(llm_generate(body), 1, llm_generate('none')) OVER (ORDER BY id) FROM docs WHERE id < 6 -- log: more
SELECT id, lag(id) OVER w1, lead(llm_generate(grp)) OVER w2 FROM docs WINDOW w1 AS (ORDER BY n, id), w2 AS (ORDER BY id) ORDER BY id -- log: more
SELECT * FROM (SELECT id, row_number() OVER (PARTITION BY grp ORDER BY llm_generate(body), id) AS r FROM docs) s WHERE r = 1 ORDER BY id
SELECT grp, llm_generate(grp || rank() OVER (ORDER BY count(*), grp)) FROM docs WHERE grp IS NOT NULL GROUP BY grp ORDER BY grp
SELECT id, ntile(3) OVER (ORDER BY id), nth_value(llm_generate(body), 2) OVER (ORDER BY id) FROM docs LIMIT 4 -- log: more, inline

-- set-returning functions, LATERAL
SELECT id, unnest(ARRAY[llm_generate(body), grp]) FROM docs
SELECT id, unnest(string_to_array(llm_generate(body), ' ')) FROM docs
SELECT id, regexp_split_to_table(llm_generate(body), ' '), llm_generate('row ' || id) FROM docs -- log: subset
SELECT id, llm_generate(unnest(words)) FROM kinds
SELECT generate_series(1, length(llm_generate(grp))), llm_generate(body) FROM docs -- log: fewer
SELECT count(DISTINCT a) FROM (SELECT generate_series(1, 5), llm_generate('same', temperature => 1) AS a) s -- log: fewer
SELECT id, unnest(words), llm_generate(words[1]) FROM kinds -- log: fewer
SELECT id, x FROM docs, unnest(string_to_array(llm_generate(body), ' ')) x
SELECT id, a FROM docs, LATERAL (SELECT llm_generate(docs.body) AS a) l -- log: more
SET enable_memoize = off; SELECT id, a FROM docs, LATERAL (SELECT llm_generate(docs.body) AS a) l
SELECT id, a FROM docs, LATERAL llm_generate(docs.body) a
SELECT id, a FROM docs LEFT JOIN LATERAL (SELECT llm_generate(docs.body) AS a) l ON true -- log: more
SELECT id, a FROM docs LEFT JOIN LATERAL llm_generate(docs.body || docs.grp) a ON true
SELECT id, a, b FROM docs, LATERAL (SELECT llm_generate(docs.body) AS a, llm_generate(docs.grp) AS b) l WHERE id < 8
SELECT id, a FROM docs, LATERAL (SELECT llm_generate(docs.body) AS a) l WHERE a LIKE '%YES' -- log: more
SELECT id, l.text, (l.usage).prompt_tokens FROM docs, LATERAL llm_generate_full(docs.body) l
SELECT id, a, b FROM docs, LATERAL llm_generate(body) a, LATERAL llm_generate(a || ' then') b
SELECT id, tag, a FROM docs, LATERAL (SELECT tag, llm_generate(docs.body || ' ' || tag) AS a FROM tags WHERE doc_id = docs.id) l ORDER BY id, tag
SELECT id, a FROM docs LEFT JOIN LATERAL (SELECT llm_generate(tag) AS a FROM tags WHERE doc_id = docs.id ORDER BY tag_id LIMIT 1) l ON true ORDER BY id
SELECT d.id, s.seq, s.text FROM docs d, LATERAL llm_generate_stream(d.body) s WHERE d.id < 5 -- inline
SELECT x, a FROM generate_series(1, 4) x, LATERAL (SELECT llm_generate('n ' || x) AS a) l
SELECT id, (SELECT llm_generate(docs.body)) FROM docs
SELECT id, (SELECT llm_generate(docs.body) WHERE flag), (SELECT llm_generate(docs.body || docs.grp) WHERE flag AND n > 20 AND llm_generate(grp) <> 'A') FROM docs
SELECT id FROM docs WHERE (SELECT llm_generate(docs.body)) LIKE '%YES' ORDER BY (SELECT llm_generate(docs.grp)), id
SELECT id, CASE WHEN flag THEN (SELECT llm_generate(docs.body)) ELSE (SELECT upper(grp)) END, COALESCE(grp, (SELECT llm_generate('for ' || id))) FROM docs
SELECT id, (SELECT llm_generate((SELECT llm_generate(docs.body)) || 'x')), (SELECT (SELECT llm_generate(docs.body))) FROM docs -- inline
SELECT grp, (SELECT llm_generate(max(d.body) || max(d.body))), (SELECT llm_generate(d.grp)) FROM docs d GROUP BY grp ORDER BY grp
SELECT id, (SELECT llm_generate(docs.body || CASE WHEN random() < 2 THEN 'x' END)) FROM docs -- inline
SELECT id, (SELECT llm_generate(docs.body)) FROM docs ORDER BY id LIMIT 3
SELECT id, (SELECT llm_generate(body) WHERE id <> 5 AND id <> 7) FROM bad
SELECT id, (SELECT llm_generate(body)) FROM bad -- log: more
SELECT d.id, (SELECT llm_generate(d.body || t.tag)) FROM docs d JOIN tags t ON t.doc_id = d.id AND (SELECT llm_generate(t.tag)) <> 'RED' ORDER BY 1, 2
SELECT id, (SELECT llm_generate(max(tag)) FROM tags WHERE doc_id = docs.id) FROM docs
SELECT id, (SELECT string_agg(llm_generate(tag), ',' ORDER BY tag_id) FROM tags WHERE doc_id = docs.id) FROM docs
SELECT id, ARRAY(SELECT llm_generate(tag) FROM tags WHERE doc_id = docs.id ORDER BY tag_id) FROM docs
SELECT x, llm_generate(x) FROM unnest(ARRAY['u one', NULL, 'u two']) x
SELECT ord, llm_generate(x) FROM unnest(ARRAY['u one', NULL, 'u two']) WITH ORDINALITY t (x, ord)
SELECT llm_generate(a), b FROM ROWS FROM (unnest(ARRAY['x', 'y', 'z']), generate_series(1, 2)) r (a, b)
SELECT column1, llm_generate(column2) FROM (VALUES (1, 'v one'), (2, NULL), (3, 'v three')) v
SELECT * FROM (VALUES (1, llm_generate('in values')), (2, llm_generate('second')), (3, 'plain')) v -- inline
SELECT * FROM (VALUES (1, llm_generate('in values')), (2, llm_generate('second')), (3, llm_generate(NULL))) v
SELECT a FROM (VALUES (1, llm_generate('v one'), 'x'), (2, llm_generate('v two'), llm_generate('y'))) v (i, a, b) WHERE i > 1 -- inline
SELECT v.a, llm_generate(v.a || ' outer') FROM (VALUES (llm_generate('v one')), (llm_generate('v two'))) v (a)
SELECT x.*, llm_generate(x.a) FROM json_to_recordset('[{"a": "j one"}, {"a": null}]') x (a text)
SELECT llm_generate(x.a) FROM xmltable('/r/a' PASSING '<r><a>one</a><a>two</a></r>' COLUMNS a text PATH '.') x

-- sub-selects
SELECT id FROM docs WHERE EXISTS (SELECT 1 FROM tags WHERE doc_id = docs.id AND llm_generate(tag) = 'RED') ORDER BY id -- log: more
SELECT id FROM docs WHERE NOT EXISTS (SELECT 1 FROM tags WHERE doc_id = docs.id AND llm_generate(tag) = 'RED') ORDER BY id -- log: more
SELECT EXISTS (SELECT 1 FROM docs WHERE llm_generate(body) LIKE '%YES') -- log: more
SELECT id FROM docs WHERE upper(body) IN (SELECT llm_generate(body) FROM docs WHERE flag) ORDER BY id
SELECT id FROM docs WHERE upper(body) NOT IN (SELECT llm_generate(body) FROM docs WHERE flag AND body IS NOT NULL) ORDER BY id
SELECT id FROM docs WHERE llm_generate(body) IN (SELECT upper(body) FROM docs WHERE NOT flag) ORDER BY id -- inline
SELECT id FROM docs WHERE llm_generate(body) > ALL (SELECT llm_generate(tag) FROM tags WHERE tag IS NOT NULL) ORDER BY id -- log: more
SELECT id FROM docs WHERE n = ANY (SELECT length(llm_generate(tag)) * 10 FROM tags) ORDER BY id -- log: more
SELECT id, llm_generate(body) FROM docs WHERE id = (SELECT max(doc_id) FROM tags WHERE llm_generate(tag) = 'RED')
SELECT a FROM (SELECT llm_generate(body) AS a FROM docs) s WHERE a <> 'FIRST TEXT' AND a LIKE '%T%'
SELECT a || '1', a || '2' FROM (SELECT llm_generate(body) AS a FROM docs) s
SELECT a, llm_generate(a || ' more') FROM (SELECT id, llm_generate(body) AS a FROM docs OFFSET 0) s WHERE id > 2
SELECT llm_generate(b || ' c') FROM (SELECT llm_generate(a || ' b') AS b FROM (SELECT llm_generate(body) AS a FROM docs OFFSET 0) s OFFSET 0) t
SELECT id, CASE WHEN EXISTS (SELECT 1 FROM tags WHERE doc_id = docs.id) THEN llm_generate(body) ELSE 'untagged' END FROM docs -- log: more
SELECT id, llm_generate((SELECT max(tag) FROM tags WHERE doc_id = docs.id)) FROM docs
SELECT id FROM docs WHERE llm_generate((SELECT min(tag) FROM tags WHERE doc_id = docs.id)) = 'RED'

-- joins
SELECT d.id, t.tag, llm_generate(d.body || ' ' || t.tag) FROM docs d JOIN tags t ON t.doc_id = d.id ORDER BY t.tag_id
SELECT d.id, t.tag_id, llm_generate(t.tag) FROM docs d LEFT JOIN tags t ON t.doc_id = d.id ORDER BY d.id, t.tag_id
SELECT d.id, t.tag_id, llm_generate(d.body) FROM docs d RIGHT JOIN tags t ON t.doc_id = d.id ORDER BY t.tag_id
SELECT d.id, t.tag_id, llm_generate(COALESCE(d.body, t.tag)) FROM docs d FULL JOIN tags t ON t.doc_id = d.id ORDER BY d.id, t.tag_id
SELECT d.id, t.tag_id FROM docs d JOIN tags t ON llm_generate(d.body || ' ' || t.tag) LIKE '%YES RED' ORDER BY 1, 2
SELECT d.id, t.tag_id FROM docs d JOIN tags t ON t.doc_id = d.id AND llm_generate(d.body || ' ' || t.tag) LIKE '%TEXT RED' ORDER BY 1, 2
SELECT d.id, t.tag_id FROM docs d LEFT JOIN tags t ON t.doc_id = d.id AND llm_generate(d.body || ' ' || t.tag) LIKE '%TEXT RED' ORDER BY 1, 2
SET enable_hashjoin = off; SELECT d.id, t.tag_id, llm_generate(COALESCE(t.tag, d.body)) FROM docs d LEFT JOIN tags t ON t.doc_id = d.id AND llm_generate(d.body || ' ' || t.tag) LIKE '%TEXT RED' WHERE d.id < 10 ORDER BY 1, 2
SELECT d.id, t.tag_id, t.tag, d.body FROM docs d LEFT JOIN tags t ON llm_generate(d.grp || t.tag) IN ('ARED', 'BBLUE') ORDER BY 1, 2
SELECT d.id, t.tag_id, t FROM docs d LEFT JOIN tags t ON t.doc_id = d.id AND t.tag <> 'green' AND llm_generate(d.body) LIKE '%YES' AND llm_generate(t.tag) <> 'x' ORDER BY 1, 2
SELECT d.id, t.tag_id FROM (SELECT id, body FROM docs UNION ALL SELECT id, body FROM docs WHERE id < 4) d LEFT JOIN tags t ON llm_generate(d.body || t.tag) LIKE '%TEXTBLUE' ORDER BY 1, 2
SELECT d.id, t.tag_id FROM docs d LEFT JOIN tags t ON t.doc_id = d.id AND llm_generate(t.tag || left(d.grp, 0)) = 'RED' WHERE t.tag_id IS NULL OR llm_generate(d.grp) = 'B' ORDER BY 1, 2
SELECT d.id, t.tag_id, u.tag_id FROM docs d LEFT JOIN tags t ON t.doc_id = d.id AND llm_generate(t.tag || left(d.grp, 0)) = 'RED' LEFT JOIN tags u ON u.doc_id = d.id AND llm_generate(u.tag || COALESCE(t.tag, '')) LIKE 'BLUE%' ORDER BY 1, 2, 3
SELECT d.id, n.id FROM docs d LEFT JOIN nothing n ON llm_generate(n.body) = 'X' ORDER BY 1
SELECT n.id, d.id FROM nothing n LEFT JOIN docs d ON llm_generate(d.body) = 'X' -- inline
SELECT d.id, t.tag_id FROM docs d LEFT JOIN tags t ON t.doc_id = d.id AND llm_generate(t.tag || left(d.grp, 0)) = 'RED' AND random() < 2 ORDER BY 1, 2 -- inline
SELECT d.id, m.id FROM docs d LEFT JOIN many m ON m.id = d.id * 10 + 1 AND llm_generate(m.body || left(d.body, 0)) LIKE '%YES' ORDER BY 1
SET enable_hashjoin = off; SELECT d.id, m.id FROM docs d LEFT JOIN many m ON m.id = d.id * 10 + 1 AND llm_generate(m.body || left(d.body, 0)) LIKE '%YES' ORDER BY 1
SELECT d.id, l.tag FROM docs d LEFT JOIN LATERAL (SELECT tag FROM tags t WHERE t.doc_id = d.id ORDER BY tag_id LIMIT 2) l ON llm_generate(d.body || l.tag) LIKE '%RED' ORDER BY 1, 2
SELECT d.id, t.tag_id FROM docs d LEFT JOIN tags t ON t.doc_id = d.id AND llm_generate(t.tag || left(d.grp, 0)) = 'RED' ORDER BY 1, 2 LIMIT 4
SELECT d.id, t.tag_id FROM docs d LEFT JOIN tags t ON t.tag_id < 5 AND llm_generate(t.tag || left(d.grp, 0)) = 'BLUE' LIMIT 3 -- log: more
BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT d.id, t.tag_id, llm_generate(COALESCE(t.tag, d.grp)) FROM docs d LEFT JOIN tags t ON t.doc_id = d.id AND llm_generate(t.tag || left(d.grp, 0)) = 'RED'; FETCH 2 FROM c; FETCH 3 FROM c; ROLLBACK -- log: more
SELECT b.id, t.tag_id FROM bad b LEFT JOIN tags t ON t.doc_id = b.id AND llm_generate(b.body) LIKE 'FINE%' -- log: more
SELECT b.id, t.tag_id FROM bad b LEFT JOIN tags t ON t.tag_id < 3 AND llm_generate(b.body) LIKE 'FINE%' LIMIT 8 -- log: more
SELECT b.id, t.tag_id FROM bad b LEFT JOIN tags t ON t.tag_id < 3 AND llm_generate(b.body) LIKE 'FINE%' -- log: more
SELECT b.id, t.tag_id FROM bad b LEFT JOIN tags t ON t.tag_id < 3 AND llm_generate(b.body || 10 / (b.id - 3)) LIKE 'FINE%' LIMIT 3 -- log: more, early
SET work_mem = '64kB'; SET enable_nestloop = off; SET enable_mergejoin = off; SELECT count(*), sum(w.id), count(m.id) FROM (SELECT i AS id, repeat(i::text, 50) AS big FROM generate_series(1, 3000) i OFFSET 0) w LEFT JOIN (SELECT m.id, m.body, repeat(m.body, 100) AS big FROM many m, generate_series(1, 2) g OFFSET 0) m ON m.id = w.id AND m.big <> w.big AND m.id < 40 AND llm_generate(m.body || left(w.big, 0)) LIKE '%YES'
SET work_mem = '64kB'; SET enable_nestloop = off; SET enable_mergejoin = off; SELECT count(*), sum(m.id), count(w.id) FROM (SELECT id, body, repeat(body, 100) AS big FROM many OFFSET 0) m LEFT JOIN (SELECT i / 2 AS id, repeat(i::text, 50) AS big FROM generate_series(1, 3000) i OFFSET 0) w ON m.id = w.id AND m.big <> w.big AND m.id < 40 AND llm_generate(m.body || left(w.big, 0)) LIKE '%YES'
SELECT d.id FROM docs d WHERE EXISTS (SELECT FROM tags t WHERE t.doc_id = d.id AND llm_class(d.body || t.tag) = 'positive') ORDER BY 1 -- log: more
SET enable_hashjoin = off; SELECT d.id, llm_generate(d.grp) FROM docs d WHERE EXISTS (SELECT FROM tags t WHERE t.doc_id = d.id AND llm_class(d.body || t.tag) = 'positive') ORDER BY 1 -- log: more
SELECT d.id, llm_generate(d.grp) FROM docs d WHERE EXISTS (SELECT FROM tags t WHERE llm_class(d.body || t.tag) = 'positive') ORDER BY 1 -- log: more
SELECT d.id, llm_generate(d.grp) FROM docs d WHERE NOT EXISTS (SELECT FROM tags t WHERE llm_filter(d.body, t.tag)) ORDER BY 1 -- log: more
SELECT d.id FROM docs d WHERE NOT EXISTS (SELECT FROM tags t WHERE t.doc_id = d.id AND llm_class(d.body || t.tag) = 'positive') ORDER BY 1 -- log: more
SELECT d.id, t.tag FROM docs d LEFT JOIN tags t ON t.doc_id = d.id AND llm_filter(d.body, t.tag) WHERE t.tag_id IS NULL ORDER BY 1 -- log: more
SELECT d.id FROM docs d WHERE d.id IN (SELECT t.doc_id FROM tags t WHERE llm_filter(t.tag, d.body)) ORDER BY 1 -- log: more
SELECT d.id FROM docs d WHERE EXISTS (SELECT FROM many m WHERE m.k = d.id % 7 AND m.id < 60 AND llm_filter(d.grp, m.body, 0.8)) ORDER BY 1 -- log: more
SELECT d.id FROM docs d WHERE NOT EXISTS (SELECT FROM many m WHERE m.k = d.id % 7 AND m.id < 60 AND llm_filter(d.grp, m.body, 0.8)) AND llm_generate(d.body) LIKE '%TEXT' ORDER BY 1 -- log: more
SELECT b.id FROM bad b WHERE EXISTS (SELECT FROM tags t WHERE t.tag_id < 4 AND llm_class(b.body || left(t.tag, 0)) <> 'x') LIMIT 4 -- log: more
SELECT b.id FROM bad b WHERE EXISTS (SELECT FROM tags t WHERE t.tag_id < 4 AND llm_class(b.body || left(t.tag, 0)) <> 'x') -- log: more
SELECT d.id FROM docs d WHERE EXISTS (SELECT FROM bad b WHERE b.id > 3 AND llm_generate(b.body || CASE WHEN d.id = 2 THEN 'x' ELSE '' END) LIKE 'FINE 4%') -- log: more
SELECT d.id FROM docs d WHERE EXISTS (SELECT FROM bad b WHERE b.id > 3 AND llm_generate(b.body) = 'FINE 4' || left(d.grp, 0)) ORDER BY 1 -- log: more
SELECT d.id FROM docs d WHERE EXISTS (SELECT FROM (VALUES ('bad'), ('@delay:30 good'), (''), ('@error:53200:behind')) v(t) WHERE llm_class(v.t || left(d.grp, 0)) = 'positive') ORDER BY 1 -- log: more
SELECT d.id FROM docs d WHERE NOT EXISTS (SELECT FROM (VALUES ('bad'), ('@delay:30 good'), ('@error:53200:behind')) v(t) WHERE llm_class(v.t || left(d.grp, 0)) = 'positive') ORDER BY 1 -- log: more
SELECT d.id FROM docs d WHERE EXISTS (SELECT FROM (VALUES ('bad'), (''), ('good')) v(t) WHERE llm_class(v.t || left(d.grp, 0)) = 'positive') -- log: more
SET work_mem = '64kB'; SET enable_nestloop = off; SET enable_mergejoin = off; BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT m.id, w.id FROM (SELECT id, repeat(id::text, 10000) AS big FROM many OFFSET 0) m LEFT JOIN (SELECT i AS id FROM generate_series(1, 3000) i OFFSET 0) w ON m.id = w.id AND m.big <> '' AND llm_generate(left(m.big, 0) || 'x', temperature => 0) = 'y'; MOVE 1 FROM c; SELECT coalesce(sum(total_bytes), 0) < 1000000 FROM pg_backend_memory_contexts WHERE name = 'LLM batch rows'; ROLLBACK -- log: more
BEGIN; REVOKE EXECUTE ON FUNCTION gen_random_uuid() FROM PUBLIC; SET LOCAL ROLE batch_reader; SELECT d.id, t.tag_id FROM docs d LEFT JOIN tags t ON t.doc_id = d.id AND llm_generate(d.body || ' ' || t.tag) LIKE '%TEXT RED' ORDER BY 1, 2; ROLLBACK
UPDATE docs SET answer = 'tagged' WHERE EXISTS (SELECT FROM tags t WHERE t.doc_id = docs.id AND llm_filter('is it red?', t.tag)) RETURNING id; SELECT id, answer FROM docs ORDER BY id -- log: more
DELETE FROM docs WHERE NOT EXISTS (SELECT FROM tags t WHERE t.doc_id = docs.id AND llm_filter('is it red?', t.tag)) RETURNING id -- log: more
SELECT d.id, EXISTS (SELECT FROM tags t WHERE t.doc_id = d.id AND llm_filter('is it red?', t.tag)), (SELECT count(u.tag_id) FROM docs e LEFT JOIN tags u ON u.doc_id = e.id AND llm_generate(u.tag || d.id) LIKE 'RED%' WHERE e.id = d.id) FROM docs d ORDER BY 1 -- log: more
SELECT id, body FROM docs d WHERE EXISTS (SELECT FROM tags t WHERE t.doc_id = d.id AND llm_filter('is it red?', t.tag)) ORDER BY id LIMIT 2 -- log: more
SELECT d.id FROM docs d WHERE llm_generate(d.grp) = 'A' AND NOT EXISTS (SELECT FROM docs e WHERE e.id < d.id AND e.grp = d.grp AND llm_filter(e.body, d.body)) ORDER BY 1 -- log: more
SELECT a.id, b.id FROM docs a LEFT JOIN docs b ON a.grp = b.grp AND llm_class(a.body) = llm_class(b.body) AND a.id < b.id ORDER BY 1, 2 -- inline
SELECT d.id, t.tag_id FROM docs d LEFT JOIN tags t ON t.doc_id = d.id WHERE t.tag IS NULL OR llm_generate(t.tag) = 'RED' ORDER BY 1, 2
SELECT d.id, t.tag_id FROM docs d FULL JOIN tags t ON t.doc_id = d.id WHERE llm_generate(COALESCE(t.tag, d.body)) LIKE '%E%' ORDER BY 1, 2
SELECT d.id, t.tag_id FROM docs d JOIN tags t ON llm_generate(t.tag) = upper(d.grp) ORDER BY 1, 2 -- log: more
SELECT a.id, b.id FROM docs a JOIN docs b ON llm_generate(a.body) = llm_generate(b.body) AND a.id < b.id WHERE a.id < 7 AND b.id < 7 ORDER BY 1, 2
SELECT s.id, t.tag_id FROM (SELECT id, llm_generate(body) AS a FROM docs OFFSET 0) s JOIN (SELECT tag_id, 'FIRST TEXT' AS b FROM tags OFFSET 0) t ON s.a = t.b ORDER BY 1, 2
SELECT a.id, b.id FROM (SELECT id, llm_generate(body) AS x FROM docs OFFSET 0) a JOIN (SELECT id, llm_generate(body) AS x FROM docs OFFSET 0) b USING (x) ORDER BY 1, 2
SET enable_hashjoin = off; SET enable_nestloop = off; SELECT a.id, b.id, llm_generate(a.grp) FROM docs a JOIN docs b USING (grp) ORDER BY 1, 2
SET enable_hashjoin = off; SET enable_nestloop = off; SELECT a.id, b.id FROM (SELECT id, llm_generate(body) AS x FROM docs OFFSET 0) a JOIN (SELECT id, llm_generate(body) AS x FROM docs OFFSET 0) b USING (x) ORDER BY 1, 2
SET enable_hashjoin = off; SET enable_nestloop = off; SET enable_sort = off; SELECT a.id, b.a FROM many a JOIN (SELECT id, llm_generate(body) AS a FROM many ORDER BY id OFFSET 0) b USING (id) WHERE a.id < 20 ORDER BY a.id -- log: more
SET enable_hashjoin = off; SET enable_mergejoin = off; SELECT a.id, b.id, llm_generate(a.grp) FROM docs a JOIN docs b USING (grp) ORDER BY 1, 2
SET enable_mergejoin = off; SET enable_nestloop = off; SELECT a.id, b.id, llm_generate(a.grp) FROM docs a LEFT JOIN docs b USING (grp) ORDER BY 1, 2
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SELECT t.tag_id, s.a FROM tags t JOIN (SELECT id, llm_generate(body) AS a FROM docs WHERE id < 3 OFFSET 0) s ON t.doc_id = s.id ORDER BY 1
SET enable_hashjoin = off; SET enable_mergejoin = off; SELECT t.tag_id, l.a FROM tags t, LATERAL (SELECT llm_generate(body) AS a FROM docs WHERE id = t.doc_id OFFSET 0) l ORDER BY 1
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = on; SELECT m.id, l.a FROM many m, LATERAL (SELECT tag, upper(tag) AS a FROM tags WHERE tag_id = m.k OFFSET 0) l WHERE llm_generate(m.body) LIKE '%YES' ORDER BY 1
SELECT d.id, c.grp, llm_generate(d.body || c.grp) FROM docs d CROSS JOIN (SELECT DISTINCT grp FROM docs WHERE grp <> 'c') c WHERE d.id < 4 ORDER BY 1, 2
SELECT d.id FROM docs d NATURAL JOIN (SELECT id, llm_generate(body) AS a FROM docs) s WHERE s.a LIKE '%YES' ORDER BY 1
SELECT p.name, string_agg(llm_generate(c.name), ',' ORDER BY c.id) FROM parents p LEFT JOIN children c ON c.parent = p.id GROUP BY p.id ORDER BY p.id
SELECT d.id, t.tag_id, m.k, llm_generate(d.body || t.tag || m.k) FROM docs d JOIN tags t ON t.doc_id = d.id JOIN many m ON m.id = t.tag_id ORDER BY 2
SELECT d.id FROM docs d JOIN tags t ON t.doc_id = d.id WHERE llm_generate(d.body) LIKE '%TEXT' AND llm_generate(t.tag) = 'RED' ORDER BY 1
SELECT d.id FROM docs d LEFT JOIN tags t ON t.doc_id = d.id WHERE t.doc_id IS NULL AND llm_generate(d.body) LIKE '%YES' ORDER BY 1
SELECT d.id, llm_generate(d.body) FROM docs d JOIN nothing x ON x.id = d.id
SELECT d.id, x.a FROM docs d LEFT JOIN (SELECT id, llm_generate(body) AS a FROM nothing OFFSET 0) x ON x.id = d.id ORDER BY 1

-- CTE
WITH q AS (SELECT id, llm_generate(body) AS a FROM docs) SELECT * FROM q WHERE a LIKE '%YES'
WITH q AS MATERIALIZED (SELECT id, llm_generate(body) AS a FROM docs) SELECT x.id, y.a FROM q x JOIN q y USING (id) ORDER BY 1
WITH q AS NOT MATERIALIZED (SELECT id, llm_generate(body) AS a FROM docs) SELECT x.id, y.a FROM q x JOIN q y USING (id) ORDER BY 1
WITH q AS (SELECT id, body FROM docs) SELECT id, llm_generate(body) FROM q
WITH q AS MATERIALIZED (SELECT id, body FROM docs) SELECT id, llm_generate(body) FROM q WHERE llm_generate(body) LIKE '%YES'
WITH q AS MATERIALIZED (SELECT id, llm_generate(body) AS a FROM docs) SELECT a FROM q LIMIT 2 -- log: more
WITH q AS MATERIALIZED (SELECT id, llm_generate(body) AS a FROM docs) SELECT 1 -- inline
WITH RECURSIVE r (i, t) AS (SELECT 1, llm_generate('start') UNION ALL SELECT i + 1, llm_generate(t || ' ' || i) FROM r WHERE i < 5) SELECT * FROM r
WITH RECURSIVE r (id, t) AS (SELECT id, llm_generate(body) FROM docs WHERE id < 4 UNION ALL SELECT id + 4, llm_generate(t || ' x') FROM r WHERE id < 9) SELECT * FROM r ORDER BY id, t
WITH RECURSIVE r (i) AS (SELECT 1 UNION SELECT i + 1 FROM r WHERE i < 6 AND llm_generate('i ' || i) <> 'I 4') SELECT i FROM r
WITH moved AS (DELETE FROM docs WHERE id < 5 RETURNING id, body) SELECT id, llm_generate(body) FROM moved ORDER BY id
WITH added AS (INSERT INTO log (line) SELECT llm_generate(body) FROM docs RETURNING line) SELECT count(line) FROM added; SELECT line FROM log ORDER BY at
WITH u AS (UPDATE docs SET answer = llm_generate(body) WHERE flag RETURNING id, answer) SELECT id, llm_generate(answer || ' seen') FROM u ORDER BY id
WITH d AS (DELETE FROM docs WHERE llm_generate(body) LIKE '%YES' RETURNING *), i AS (INSERT INTO log (line) SELECT body FROM d) SELECT count(*) FROM d; SELECT line FROM log ORDER BY at

-- set operations
SELECT llm_generate(body) FROM docs UNION ALL SELECT llm_generate(tag) FROM tags
SELECT llm_generate(body) AS a FROM docs UNION SELECT llm_generate(tag) FROM tags ORDER BY a
SELECT llm_generate(body) AS a FROM docs INTERSECT SELECT upper(body) FROM docs WHERE flag ORDER BY a
SELECT upper(body) AS a FROM docs EXCEPT SELECT llm_generate(body) FROM docs WHERE flag ORDER BY a
SELECT llm_generate(a) FROM (SELECT body AS a FROM docs UNION ALL SELECT tag FROM tags) u
SELECT llm_generate(a) FROM (SELECT body AS a FROM docs UNION SELECT tag FROM tags) u ORDER BY 1
SELECT a FROM (SELECT llm_generate(body) AS a FROM docs UNION ALL SELECT llm_generate(tag) FROM tags) u WHERE a LIKE '%E%'
(SELECT llm_generate(body) FROM docs ORDER BY id LIMIT 2) UNION ALL (SELECT llm_generate(tag) FROM tags ORDER BY tag_id LIMIT 2)
SELECT llm_generate(body) FROM docs UNION ALL SELECT llm_generate(tag) FROM tags LIMIT 14 -- log: more
SELECT llm_generate('u1') UNION ALL SELECT llm_generate('u2') ORDER BY 1
SELECT id, llm_generate(body) FROM docs WHERE flag UNION ALL SELECT id, llm_generate(grp) FROM docs WHERE NOT flag ORDER BY 1

-- partitions, inheritance, views
SELECT id, region, llm_generate(body) FROM parts
SELECT id, llm_generate(body) FROM parts ORDER BY id
SELECT id FROM parts WHERE llm_generate(body) LIKE '%1' ORDER BY id
SELECT id, llm_generate(body) FROM parts WHERE region = 'south'
SELECT region, string_agg(llm_generate(body), ',' ORDER BY id) FROM parts GROUP BY region ORDER BY region
SELECT id, llm_generate(body) FROM parts LIMIT 7
SELECT id FROM parts WHERE llm_generate(body) LIKE '%1' LIMIT 2 -- log: more
UPDATE parts SET answer = llm_generate(body); SELECT * FROM parts ORDER BY id
UPDATE parts SET answer = llm_generate(body) WHERE llm_generate(body) LIKE '%2' RETURNING id, region, answer
UPDATE parts SET region = lower(llm_generate('moved')), answer = llm_generate(body) WHERE id < 5; SELECT tableoid::regclass, * FROM parts ORDER BY id
DELETE FROM parts WHERE llm_generate(body) LIKE '%1' RETURNING id; SELECT count(*) FROM parts
INSERT INTO parts SELECT id + 100, CASE WHEN id % 2 = 0 THEN 'north' ELSE 'far' END, llm_generate(body) FROM docs; SELECT tableoid::regclass, id, body FROM parts WHERE id > 100 ORDER BY id
SET enable_partitionwise_aggregate = on; SELECT region, count(llm_generate(body)) FROM parts GROUP BY region ORDER BY region
SET enable_partitionwise_join = on; SELECT a.id, llm_generate(a.body || b.id) FROM parts a JOIN parts b ON a.region = b.region AND a.id = b.id ORDER BY 1
SELECT tableoid::regclass, llm_generate(body) FROM base
UPDATE base SET body = llm_generate(body); SELECT tableoid::regclass, * FROM base
SELECT * FROM asked
SELECT id, a FROM asked WHERE a LIKE '%YES'
SELECT id FROM asked
SELECT a FROM asked ORDER BY id LIMIT 3
SELECT x.a, y.a FROM asked x JOIN asked y USING (id) ORDER BY id
SELECT id, llm_generate(body) FROM barrier WHERE llm_generate(body) LIKE '%TEXT'
SELECT id FROM secrets WHERE llm_generate(body) LIKE '%YES'
SET ROLE batch_reader; SELECT id, llm_generate(body) FROM secrets WHERE llm_generate(body) LIKE '%YES'
SET ROLE batch_reader; SELECT id, noisy(body) FROM secrets WHERE llm_generate(body) LIKE 'MINE%'
CREATE VIEW v AS SELECT id, CASE WHEN flag THEN llm_generate(body) ELSE 'no' END AS c FROM docs; SELECT pg_get_viewdef('v'); SELECT * FROM v

-- INSERT, UPDATE, DELETE, MERGE
INSERT INTO log (line) SELECT llm_generate(body) FROM docs; SELECT * FROM log
INSERT INTO log (line) SELECT llm_generate(body) FROM docs ORDER BY id DESC; SELECT * FROM log
INSERT INTO log (line) SELECT llm_generate(body) FROM docs WHERE llm_generate(body) LIKE '%YES' RETURNING at, line
INSERT INTO log (line) SELECT body FROM docs RETURNING llm_generate(line)
INSERT INTO log (line) SELECT body FROM docs RETURNING at, llm_generate(line) || at, currval('log_at_seq'), log, tableoid::regclass
INSERT INTO log (line) SELECT body FROM docs RETURNING llm_generate(line || currval('log_at_seq')) -- inline
INSERT INTO log (line) SELECT llm_generate(body) FROM docs RETURNING CASE WHEN at % 2 = 0 THEN llm_generate(line || ' again') END, COALESCE(line, llm_generate('for ' || at))
INSERT INTO inbox (id, body) VALUES (1, 'new one'), (3, 'new three') ON CONFLICT (id) DO UPDATE SET answer = upper(EXCLUDED.body) RETURNING llm_generate(inbox.body || answer), twice; SELECT * FROM inbox ORDER BY id
UPDATE parts SET answer = 'x' WHERE id < 10 RETURNING id, region, llm_generate(body || answer), tableoid::regclass
UPDATE parts SET region = 'east' WHERE region = 'north' RETURNING id, llm_generate(region || body); SELECT tableoid::regclass, id FROM parts ORDER BY id
UPDATE base SET body = body || '!' RETURNING id, llm_generate(body), tableoid::regclass
UPDATE docs d SET answer = t.tag FROM tags t WHERE t.doc_id = d.id AND t.tag_id <> 2 RETURNING d.id, llm_generate(t.tag || d.body), (SELECT llm_generate(d.grp)), (SELECT max(tag) FROM tags x WHERE x.doc_id = d.id) || llm_generate(d.answer)
UPDATE docs SET answer = NULL RETURNING llm_generate(body || 10 / (id - 5)) -- log: any, early
UPDATE bad SET n = n + 1 RETURNING id, n, llm_generate(body) -- log: more
WITH gone AS (DELETE FROM docs WHERE id < 5 RETURNING id, llm_generate(body) AS a) SELECT id, a FROM gone WHERE id < 3 ORDER BY id; SELECT count(*) FROM docs -- inline
DO $x$ DECLARE t text; n int := 0; BEGIN FOR t IN DELETE FROM docs WHERE id < 9 RETURNING llm_generate(body) LOOP n := n + 1; EXIT WHEN n = 2; END LOOP; RAISE WARNING '% %', t, (SELECT count(*) FROM docs); UPDATE docs SET n = 1 WHERE id = 9 RETURNING llm_generate(body) INTO t; RAISE WARNING '%', t; END $x$
DO $x$ DECLARE t text; BEGIN UPDATE docs SET n = 1 RETURNING llm_generate('all of ' || id) INTO STRICT t; END $x$ -- log: any
COPY (DELETE FROM docs WHERE id < 4 RETURNING id, llm_generate(body)) TO STDOUT
SET ROLE batch_reader; DELETE FROM docs RETURNING llm_generate(body)
INSERT INTO log (line) VALUES (llm_generate('one row')); SELECT * FROM log -- inline
INSERT INTO log (line) VALUES (llm_generate('row one')), (llm_generate('row two')), ('plain'), (NULL); SELECT * FROM log -- inline
INSERT INTO log (line) VALUES (llm_generate('row one')), (llm_generate('row two')), (llm_generate('row three')) RETURNING line
INSERT INTO inbox (id, body) SELECT id, llm_generate(body || id) FROM docs WHERE id > 5 ON CONFLICT (id) DO NOTHING RETURNING *
INSERT INTO inbox (id, body) VALUES (1, 'new one'), (3, 'new three') ON CONFLICT (id) DO UPDATE SET answer = llm_generate(EXCLUDED.body); SELECT * FROM inbox ORDER BY id -- inline
INSERT INTO inbox (id, body) VALUES (1, 'new one'), (2, 'new two') ON CONFLICT (id) DO UPDATE SET answer = 'hit' WHERE llm_generate(EXCLUDED.body) LIKE '%TWO'; SELECT * FROM inbox ORDER BY id -- inline
INSERT INTO defaulted SELECT id FROM docs WHERE id < 4; SELECT * FROM defaulted
INSERT INTO defaulted VALUES (1), (2); SELECT * FROM defaulted
INSERT INTO checked SELECT 'good ' || id FROM docs WHERE id < 4; SELECT * FROM checked -- inline
INSERT INTO checked VALUES ('good'), ('bad'), ('good too'); SELECT * FROM checked -- inline
INSERT INTO by_statement SELECT id, body FROM docs WHERE body IS NOT NULL; SELECT * FROM log
INSERT INTO by_statement SELECT id, llm_generate(body) FROM docs; SELECT * FROM log; SELECT * FROM by_statement
INSERT INTO by_statement VALUES (1, 'a'), (2, 'b'); UPDATE by_statement SET body = body || ' changed'; SELECT * FROM log
INSERT INTO by_row SELECT id, body FROM docs; SELECT * FROM by_row -- inline
INSERT INTO by_row SELECT id, llm_generate(body) || ' again' FROM docs; UPDATE by_row SET body = body || '!' WHERE id < 3; SELECT * FROM by_row ORDER BY id
UPDATE docs SET answer = llm_generate(body); SELECT id, answer FROM docs ORDER BY id
UPDATE docs SET answer = llm_generate(body), grp = llm_generate(grp) WHERE flag RETURNING id, answer, grp
UPDATE docs SET (answer, n) = (llm_generate(body), length(llm_generate(grp))) WHERE id < 4 RETURNING id, answer, n
UPDATE docs SET (answer, n) = (SELECT llm_generate(tag), tag_id FROM tags WHERE doc_id = docs.id ORDER BY tag_id LIMIT 1); SELECT id, answer, n FROM docs ORDER BY id
UPDATE docs SET answer = 'yes' WHERE llm_generate(body) LIKE '%YES' RETURNING id
UPDATE docs SET answer = llm_generate(t.tag) FROM tags t WHERE t.doc_id = docs.id AND t.tag_id <> 2 RETURNING docs.id, answer
UPDATE docs SET answer = 'x' FROM tags t WHERE t.doc_id = docs.id AND llm_generate(t.tag) = 'GREEN' RETURNING docs.id
UPDATE docs SET body = llm_generate(body) WHERE id < 3 RETURNING llm_generate(body || ' returned')
UPDATE docs SET id = id + length(llm_generate('abcdefghijklmnopqrstuvwxyz')) WHERE id < 5; SELECT id, body FROM docs ORDER BY id
UPDATE parents SET id = id * length(llm_generate('ten letter')); SELECT * FROM children ORDER BY id
UPDATE secrets SET body = llm_generate(body); SELECT * FROM secrets ORDER BY id
SET ROLE batch_reader; UPDATE secrets SET body = llm_generate(body); RESET ROLE; SELECT * FROM secrets ORDER BY id
UPDATE nothing SET body = llm_generate(body)
DELETE FROM docs WHERE llm_generate(body) LIKE '%YES'; SELECT id FROM docs ORDER BY id
DELETE FROM docs USING tags t WHERE t.doc_id = docs.id AND llm_generate(t.tag) = 'RED' RETURNING docs.id, t.tag_id
DELETE FROM docs WHERE id < 3 RETURNING llm_generate(body)
DELETE FROM parents WHERE llm_generate(name) = 'EVE'; SELECT * FROM children
DELETE FROM docs WHERE ctid = ANY (ARRAY(SELECT ctid FROM docs WHERE llm_generate(body) LIKE '%YES')) RETURNING id
MERGE INTO docs d USING (SELECT tag_id, llm_generate(tag) AS a FROM tags) t ON d.id = t.tag_id WHEN MATCHED THEN UPDATE SET answer = t.a; SELECT id, answer FROM docs ORDER BY id
MERGE INTO docs d USING tags t ON d.id = t.tag_id WHEN MATCHED AND llm_generate(t.tag) = 'RED' THEN DELETE WHEN MATCHED THEN UPDATE SET answer = llm_generate(t.tag || ' merged'); SELECT id, answer FROM docs ORDER BY id -- inline
MERGE INTO docs d USING (SELECT tag_id + 8 AS id, tag FROM tags WHERE llm_generate(tag) IN ('RED', 'BLUE')) t ON d.id = t.id WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED THEN INSERT (id, body) VALUES (t.id, llm_generate(t.tag)); SELECT id, body FROM docs WHERE id > 8 ORDER BY id
MERGE INTO parts p USING (SELECT id, llm_generate(body) AS a FROM docs) d ON p.id = d.id WHEN MATCHED AND p.id % 2 = 0 THEN UPDATE SET answer = d.a WHEN MATCHED THEN DELETE; SELECT id, answer FROM parts ORDER BY id
CREATE TABLE made AS SELECT id, llm_generate(body) AS a FROM docs; SELECT * FROM made
CREATE TABLE made AS SELECT id, llm_generate(body) AS a FROM docs WITH NO DATA; SELECT * FROM made -- inline
SELECT id, llm_generate(body) AS a INTO made FROM docs WHERE llm_generate(body) LIKE '%YES'; SELECT * FROM made
CREATE TEMP TABLE made ON COMMIT DROP AS SELECT llm_generate(body) FROM docs; SELECT count(*) FROM pg_class WHERE relname = 'made'
CREATE MATERIALIZED VIEW mv AS SELECT id, llm_generate(body) AS a FROM docs; UPDATE docs SET body = 'changed' WHERE id = 1; REFRESH MATERIALIZED VIEW mv; SELECT * FROM mv ORDER BY id
CREATE MATERIALIZED VIEW mv AS SELECT id, llm_generate(body) AS a FROM docs; CREATE UNIQUE INDEX ON mv (id); UPDATE docs SET body = 'other' WHERE id < 3; REFRESH MATERIALIZED VIEW CONCURRENTLY mv; SELECT * FROM mv ORDER BY id
COPY (SELECT id, llm_generate(body) FROM docs) TO STDOUT
COPY (SELECT id, llm_generate(body) AS a FROM docs WHERE llm_generate(body) LIKE '%YES' ORDER BY id) TO STDOUT (FORMAT csv, HEADER)
COPY (UPDATE docs SET answer = llm_generate(body) WHERE id < 3 RETURNING id, answer) TO STDOUT
COPY (SELECT id, llm_generate(body) FROM bad) TO STDOUT -- log: more
ALTER TABLE docs ADD COLUMN made text DEFAULT llm_generate('added'); SELECT id, made FROM docs ORDER BY id -- inline
ALTER TABLE docs ALTER grp TYPE text USING llm_generate(grp); SELECT id, grp FROM docs ORDER BY id -- inline

-- functions, PL/pgSQL
SELECT id, ask(body) FROM docs
SELECT id, ask_strict(body) FROM docs -- inline
SELECT id, ask_definer(body) FROM docs -- inline
SELECT id, ask_pl(body) FROM docs WHERE body IS NOT NULL -- inline
SELECT id, llm_generate(ask_pl(body)) FROM docs WHERE body IS NOT NULL -- inline
SELECT id, llm_generate(noisy(body)) FROM docs; SELECT * FROM log -- inline
SELECT noisy(llm_generate(body)) FROM docs; SELECT * FROM log
SELECT noisy(llm_generate(body)) FROM docs LIMIT 3; SELECT * FROM log
SELECT id, llm_generate(body || ask_nested(id)) FROM docs WHERE id > 8
SELECT id, ask_nested(id) FROM docs WHERE llm_generate(body) LIKE '%YES'
SELECT * FROM ask_docs(5)
SELECT ask_docs(9)
SELECT a FROM ask_docs(1) WHERE a LIKE '%YES'
SELECT * FROM loop_docs(100)
SELECT * FROM loop_docs(3) -- log: more
SELECT * FROM query_docs()
SELECT query_docs() LIMIT 2 -- log: more
DO $$ DECLARE r record; t text := ''; BEGIN FOR r IN SELECT id, llm_generate(body) AS a FROM docs WHERE llm_generate(body) LIKE '%YES' LOOP t := t || r.id || r.a; END LOOP; RAISE WARNING '%', t; END $$
DO $$ DECLARE t text; BEGIN SELECT string_agg(llm_generate(body), ',' ORDER BY id) INTO t FROM docs; RAISE WARNING '%', t; END $$
DO $$ DECLARE t text; BEGIN SELECT llm_generate(body) INTO t FROM docs ORDER BY id; RAISE WARNING '%', t; END $$ -- log: more
DO $$ DECLARE t text; BEGIN SELECT llm_generate(body) INTO STRICT t FROM docs WHERE id = 2; RAISE WARNING '%', t; END $$
DO $$ DECLARE t text; BEGIN t := llm_generate('an expression'); IF llm_generate('go') = 'GO' THEN RAISE WARNING '%', t || llm_generate('more'); END IF; END $$ -- inline
DO $$ DECLARE n int; BEGIN PERFORM llm_generate(body) FROM docs; GET DIAGNOSTICS n = ROW_COUNT; RAISE WARNING '%', n; END $$
DO $$ DECLARE n int; BEGIN UPDATE docs SET answer = llm_generate(body) WHERE llm_generate(body) LIKE '%YES'; GET DIAGNOSTICS n = ROW_COUNT; RAISE WARNING '% %', n, FOUND; END $$; SELECT id, answer FROM docs ORDER BY id
DO $$ DECLARE t text; BEGIN FOR i IN 1 .. 3 LOOP EXECUTE 'SELECT string_agg(llm_generate(body || $1), '','' ORDER BY id) FROM docs WHERE id < $2' INTO t USING i::text, i + 2; RAISE WARNING '%', t; END LOOP; END $$
DO $$ DECLARE r record; BEGIN FOR r IN SELECT id, llm_generate(body) AS a FROM docs ORDER BY id LOOP BEGIN IF r.id = 3 THEN RAISE 'third'; END IF; INSERT INTO log (line) VALUES (r.a); EXCEPTION WHEN OTHERS THEN INSERT INTO log (line) VALUES (SQLERRM); END; END LOOP; END $$; SELECT * FROM log
DO $$ DECLARE c CURSOR (k int) FOR SELECT id, llm_generate(body) AS a FROM docs WHERE id > k ORDER BY id; i int; a text; BEGIN OPEN c(2); FETCH c INTO i, a; RAISE WARNING '% %', i, a; MOVE FORWARD 2 FROM c; FETCH c INTO i, a; RAISE WARNING '% %', i, a; CLOSE c; END $$ -- log: more
DO $$ DECLARE c CURSOR FOR SELECT id, llm_generate(body) AS a FROM docs ORDER BY id FOR UPDATE; BEGIN FOR r IN c LOOP UPDATE docs SET answer = r.a WHERE CURRENT OF c; END LOOP; END $$; SELECT id, answer FROM docs ORDER BY id
DO $$ DECLARE a text[]; BEGIN a := ARRAY(SELECT llm_generate(body) FROM docs ORDER BY id); RAISE WARNING '%', a; END $$
DO $$ BEGIN BEGIN PERFORM llm_generate(body) FROM bad; EXCEPTION WHEN OTHERS THEN RAISE WARNING 'caught % %', SQLSTATE, SQLERRM; END; PERFORM llm_generate(body) FROM docs; END $$ -- log: more
DO $$ DECLARE r record; BEGIN FOR r IN SELECT id, llm_generate(body) AS a FROM docs ORDER BY id LOOP INSERT INTO log (line) VALUES (r.a); COMMIT; END LOOP; END $$; SELECT * FROM log -- log: fewer
CREATE FUNCTION f(int) RETURNS text LANGUAGE sql AS $$SELECT llm_generate(body) FROM docs WHERE id >= $1 ORDER BY id$$; SELECT f(4), f(5) -- log: more
CREATE PROCEDURE pr() LANGUAGE plpgsql AS $$ BEGIN UPDATE docs SET answer = llm_generate(body) WHERE id < 3; COMMIT; UPDATE docs SET answer = llm_generate(answer || ' x') WHERE id < 3; ROLLBACK; END $$; CALL pr(); SELECT answer FROM docs WHERE id < 3
CREATE RULE r AS ON INSERT TO nothing DO INSTEAD INSERT INTO log (line) SELECT llm_generate(NEW.body); INSERT INTO nothing SELECT id, body FROM docs; SELECT * FROM log

-- cursors
BEGIN; DECLARE c CURSOR FOR SELECT id, llm_generate(body) FROM docs ORDER BY id; FETCH 2 FROM c; FETCH 1 FROM c; FETCH ALL FROM c; COMMIT
BEGIN; DECLARE c CURSOR FOR SELECT id, llm_generate(body) FROM docs ORDER BY id; FETCH 2 FROM c; CLOSE c; SELECT 1; COMMIT -- log: more
BEGIN; DECLARE c CURSOR FOR SELECT id, llm_generate(body) FROM docs; MOVE 3 FROM c; FETCH 2 FROM c; COMMIT -- log: more
BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT id, llm_generate(body) FROM docs; FETCH 2 FROM c; FETCH BACKWARD 1 FROM c; ROLLBACK -- log: more
BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id, llm_generate(body) FROM docs; FETCH 3 FROM c; FETCH BACKWARD 2 FROM c; FETCH LAST FROM c; FETCH FIRST FROM c; FETCH ABSOLUTE 4 FROM c; FETCH RELATIVE -1 FROM c; COMMIT -- log: fewer
BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id, llm_generate(body) FROM docs WHERE llm_generate(body) LIKE '%YES'; FETCH ALL FROM c; FETCH BACKWARD ALL FROM c; COMMIT -- log: fewer
BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id, llm_generate(body) FROM docs ORDER BY id DESC; FETCH 4 FROM c; FETCH PRIOR FROM c; MOVE BACKWARD ALL FROM c; FETCH 1 FROM c; COMMIT -- log: any
BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT id, llm_generate(body) FROM docs ORDER BY id; FETCH 2 FROM c; COMMIT; FETCH 3 FROM c; FETCH BACKWARD 1 FROM c; CLOSE c -- log: fewer
BEGIN; DECLARE c CURSOR FOR SELECT id, llm_generate(body) FROM docs; FETCH 1 FROM c; SAVEPOINT s1; FETCH 2 FROM c; ROLLBACK TO s1; FETCH 2 FROM c; COMMIT -- log: more
BEGIN; SAVEPOINT s1; DECLARE c CURSOR FOR SELECT id, llm_generate(body) FROM docs; FETCH 2 FROM c; ROLLBACK TO s1; FETCH 1 FROM c; ROLLBACK; SELECT llm_generate('after'), 1 -- log: more
BEGIN; DECLARE c CURSOR FOR SELECT id, llm_generate(body) FROM docs; FETCH 1 FROM c; UPDATE docs SET answer = 'x' WHERE CURRENT OF c; ROLLBACK -- differs
BEGIN; DECLARE c CURSOR FOR SELECT id, llm_generate(body) FROM docs FOR UPDATE; FETCH 2 FROM c; UPDATE docs SET answer = 'x' WHERE CURRENT OF c; SELECT id, answer FROM docs WHERE answer IS NOT NULL; COMMIT -- log: more
BEGIN; DECLARE a CURSOR FOR SELECT llm_generate(body) FROM docs; DECLARE b CURSOR FOR SELECT llm_generate(tag) FROM tags; FETCH 1 FROM a; FETCH 2 FROM b; FETCH 2 FROM a; FETCH 1 FROM b; COMMIT -- log: more
SELECT id, llm_generate(body) FROM docs FOR UPDATE
SELECT id, llm_generate(body) FROM docs WHERE llm_generate(body) LIKE '%YES' ORDER BY id FOR UPDATE SKIP LOCKED
SELECT id, llm_generate(body) FROM docs ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED -- log: more
SELECT id, llm_generate(body) FROM docs FOR SHARE NOWAIT
UPDATE docs SET answer = llm_generate(body) WHERE id IN (SELECT id FROM docs WHERE answer IS NULL ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED) RETURNING id, answer

-- prepared statements, generic plans, parameters
PREPARE p AS SELECT id, llm_generate(body) FROM docs; EXECUTE p; EXECUTE p
PREPARE p (int, text) AS SELECT id, llm_generate(body || $2) FROM docs WHERE id < $1; EXECUTE p(3, ' a'); EXECUTE p(4, ' b'); EXECUTE p(2, NULL)
SET plan_cache_mode = force_generic_plan; PREPARE p (int, text) AS SELECT id, llm_generate(body || $2) FROM docs WHERE id < $1 AND llm_generate(grp) <> $2; EXECUTE p(3, 'A'); EXECUTE p(9, 'B')
SET plan_cache_mode = force_custom_plan; PREPARE p (text) AS SELECT llm_generate($1), llm_generate($1 || body) FROM docs; EXECUTE p('q '); EXECUTE p(NULL)
PREPARE p (bool) AS SELECT id, CASE WHEN $1 THEN llm_generate(body) ELSE 'no' END FROM docs; EXECUTE p(true); EXECUTE p(false); EXECUTE p(NULL)
PREPARE p AS SELECT id, llm_generate(body) FROM docs; EXECUTE p; ALTER TABLE docs ADD x int; EXECUTE p
PREPARE p AS UPDATE docs SET answer = llm_generate(body) WHERE id = 1 RETURNING answer; EXECUTE p; EXECUTE p
PREPARE p AS SELECT id, llm_generate(body) FROM docs; CREATE TABLE made AS EXECUTE p; SELECT * FROM made
SET plan_cache_mode = force_generic_plan; PREPARE p (int, int) AS SELECT llm_generate(body) FROM docs ORDER BY id LIMIT $1 OFFSET $2; EXECUTE p(2, 1); EXECUTE p(NULL, 10); EXECUTE p(0, 0)
PREPARE p AS SELECT 1 FROM docs WHERE llm_generate(body) LIKE '%YES'; DO $$ BEGIN EXECUTE 'EXPLAIN EXECUTE p'; END $$; EXECUTE p

-- parallel query
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SELECT count(a), count(DISTINCT a), min(a), max(a) FROM (SELECT llm_generate(body) AS a FROM many) s
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SELECT id, llm_generate(body) FROM many WHERE id % 3 = 0 ORDER BY id
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SELECT id FROM many WHERE llm_generate(body) LIKE '%YES' ORDER BY id
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SELECT k, llm_generate('k ' || k || ' ' || count(*)) FROM many GROUP BY k ORDER BY k
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SELECT a.id, llm_generate(a.body || b.k) FROM many a JOIN many b ON a.id = b.id + 1 WHERE a.k = 2 ORDER BY 1
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET parallel_leader_participation = off; SELECT string_agg(llm_generate(body), ',' ORDER BY id) FROM many WHERE id < 20
SET force_parallel_mode = on; SELECT id, llm_generate(body) FROM docs ORDER BY id
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SELECT id, llm_generate(body) FROM parts WHERE llm_generate(body) LIKE '%1' ORDER BY id
CREATE TABLE fat AS SELECT i AS id, repeat(md5(i::text), 30) AS big FROM generate_series(1, 600) i; ANALYZE fat; SET work_mem = '64kB'; SET enable_nestloop = off; SET enable_mergejoin = off; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SELECT count(*), sum(f.id), count(g.id), sum(g.id) FROM fat f LEFT JOIN fat g ON g.big = f.big AND f.id < 40 AND llm_generate(f.id % 3 || left(g.big, 0)) = '1'
CREATE TABLE fat AS SELECT i AS id, repeat(md5(i::text), 30) AS big FROM generate_series(1, 600) i; ANALYZE fat; SET work_mem = '64kB'; SET enable_nestloop = off; SET enable_mergejoin = off; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SELECT count(*), sum(f.id) FROM fat f WHERE NOT EXISTS (SELECT FROM fat g WHERE g.big = f.big AND f.id < 40 AND llm_class('row ' || f.id || left(g.big, 0)) = 'positive') -- log: more

-- planner and executor settings
SET jit = on; SET jit_above_cost = 0; SET jit_inline_above_cost = 0; SET jit_optimize_above_cost = 0; SELECT id, llm_generate(body) || grp, CASE WHEN flag THEN llm_generate('j ' || id) END FROM docs WHERE llm_generate(body) IS NOT NULL
SET jit = on; SET jit_above_cost = 0; SELECT grp, string_agg(llm_generate(body), ',' ORDER BY id), llm_generate(grp) FROM docs GROUP BY grp ORDER BY grp
SET work_mem = '64kB'; SELECT id, llm_generate(body), length(repeat(body, 1000)) FROM many
SET work_mem = '64kB'; SELECT llm_generate(body) AS a, count(*) FROM many GROUP BY a ORDER BY a
SET work_mem = '64kB'; SELECT id, length(big), llm_generate(body) FROM wide
SET work_mem = '64kB'; SELECT id, length(big || 'x'), llm_generate(body), md5(big) FROM wide ORDER BY id DESC
SET work_mem = '64kB'; SELECT id, length(llm_generate(big)), md5(llm_generate(left(big, 60000))) FROM wide
SELECT id, length(llm_generate('@big:' || id * 100000)) FROM wide
SELECT id, length(llm_generate(repeat(body || ' ', 20000))) FROM wide
SET enable_hashagg = off; SELECT DISTINCT llm_generate(body) FROM many WHERE id < 50
SET enable_sort = off; SELECT DISTINCT llm_generate(body) COLLATE "C" AS a FROM docs ORDER BY a
SET enable_incremental_sort = on; SELECT k, id, llm_generate(body) AS a FROM many WHERE id < 40 ORDER BY k, a, id LIMIT 5 -- log: more
SET geqo_threshold = 2; SELECT d.id, llm_generate(d.body || t.tag) FROM docs d JOIN tags t ON t.doc_id = d.id JOIN parents p ON p.id = d.id ORDER BY 1, 2
SET join_collapse_limit = 1; SET from_collapse_limit = 1; SELECT d.id, s.a FROM tags t JOIN (SELECT id, llm_generate(body) AS a FROM docs) s ON s.id = t.doc_id JOIN docs d ON d.id = s.id ORDER BY t.tag_id
SET row_security = off; SELECT id, llm_generate(body) FROM secrets
SET transform_null_equals = on; SELECT id FROM docs WHERE llm_generate(body) = NULL

-- errors: at the row where serial execution raises them, and what a session can do afterwards
SELECT id, llm_generate(body) FROM bad -- log: more
SELECT id, llm_generate(body) FROM bad LIMIT 4
SELECT id, llm_generate(body) FROM bad WHERE id < 5
SELECT id, llm_generate(body) FROM bad WHERE id > 5 -- log: more
SELECT id FROM bad WHERE llm_generate(body) LIKE 'FINE%' LIMIT 4 -- log: more
SELECT id FROM bad WHERE llm_generate(body) LIKE 'FINE%' LIMIT 5 -- log: more
SELECT id, CASE WHEN id <> 5 AND id <> 7 THEN llm_generate(body) END FROM bad
SELECT id, 10 / (id - 3), llm_generate(body) FROM bad -- log: more
SELECT llm_generate(body || 10 / (id - 3)) FROM bad -- log: more, early
SELECT id FROM bad WHERE llm_generate(body || 10 / (id - 3)) LIKE 'FINE%' LIMIT 1 -- log: more, early
SELECT llm_generate((10 / (id - 3))::text) FROM bad LIMIT 2
SELECT llm_generate(body || 10 / (id - 3)) FROM bad LIMIT 1
BEGIN; DECLARE c CURSOR FOR SELECT id, llm_generate(body || 10 / (id - 3)) FROM bad; FETCH 1 FROM c; FETCH 1 FROM c; FETCH 1 FROM c; ROLLBACK -- log: more, early
BEGIN; DECLARE c CURSOR FOR SELECT id, llm_generate(body) FROM bad; FETCH 4 FROM c; FETCH 1 FROM c; ROLLBACK -- log: more
BEGIN; SAVEPOINT s1; SELECT llm_generate(body) FROM bad; ROLLBACK TO s1; SELECT llm_generate(body) FROM docs; COMMIT -- log: more
BEGIN; SAVEPOINT s1; UPDATE docs SET answer = llm_generate(body || '@error'); ROLLBACK TO s1; UPDATE docs SET answer = llm_generate(body); COMMIT; SELECT id, answer FROM docs ORDER BY id -- log: more
BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT id, CASE WHEN llm_generate(CASE id WHEN 2 THEN '@delay:80 slow' ELSE 'row ' || id END) = 'ROW 3' THEN llm_generate('x', model => 'no such') END FROM many; FETCH 2 FROM c; FETCH 1 FROM c; ROLLBACK -- log: more
INSERT INTO log (line) SELECT llm_generate(body) FROM bad; SELECT count(*) FROM log -- log: more
SELECT id, llm_generate(llm_generate(body)) FROM bad -- log: more
SELECT id, llm_generate(body), llm_generate('second ' || id) FROM bad WHERE id IN (4, 5, 6) -- log: more
SELECT id, llm_generate('@error:53200:first ' || id), llm_generate('@error:22023:second ' || id) FROM docs -- log: more
SELECT id, llm_generate('@error:53200:from the list ' || id) FROM docs WHERE llm_generate('@error:22023:from the qual ' || id) IS NULL -- log: more
SELECT id, llm_generate(body), llm_generate(body)::int FROM docs -- log: more
SELECT id, llm_generate(body, max_tokens => 5 - id) FROM docs WHERE body IS NOT NULL -- log: more
SELECT id, llm_generate(body, max_tokens => 5 - id) FROM docs ORDER BY id LIMIT 4
SELECT id, llm_generate(body, model => CASE WHEN id < 4 THEN 'tickets-2m' ELSE 'no such' END) FROM docs WHERE body IS NOT NULL -- log: more
SELECT id FROM bad WHERE llm_generate('f' || id, model => m) LIKE 'F%' LIMIT 2 -- log: more
SELECT id FROM bad WHERE llm_generate('f' || id, max_tokens => 6 - id) LIKE 'F%' LIMIT 2 -- log: more
BEGIN; DECLARE c CURSOR FOR SELECT id, llm_generate('f' || id, model => m) FROM bad; FETCH 4 FROM c; FETCH 1 FROM c; ROLLBACK -- log: more
SELECT llm_generate(body, params => '{"nonsense": 1}') FROM docs
SELECT llm_generate(body, temperature => -1) FROM docs
SELECT llm_generate(body, max_tokens => 0) FROM nothing
SELECT llm_generate(body, max_tokens => 0) FROM docs WHERE body IS NULL
SELECT string_agg(llm_generate(body), ',') FROM bad -- log: more
SELECT id, lag(llm_generate(body)) OVER (ORDER BY id) FROM bad -- log: more
SELECT id, lag(llm_generate(body)) OVER (ORDER BY id) FROM bad WHERE id < 6 -- log: more, early
SELECT id, count(llm_generate(body)) OVER (ORDER BY id) FROM bad LIMIT 4 -- log: more, early
BEGIN; DECLARE c CURSOR FOR SELECT id, count(llm_generate(body)) OVER (ORDER BY id) FROM bad; FETCH 4 FROM c; FETCH 1 FROM c; ROLLBACK -- log: more, early
SET enable_hashagg = off; SELECT id / 5 AS g, count(llm_generate(body)) FROM bad GROUP BY g LIMIT 1 -- log: more, early
SET enable_hashagg = off; SELECT id / 5 AS g, count(llm_generate('fine ' || id)) FROM bad GROUP BY g LIMIT 1 -- log: more
SELECT id, a FROM bad, LATERAL (SELECT llm_generate(bad.body) AS a) l -- log: more
SELECT id, a FROM bad, LATERAL (SELECT llm_generate(bad.body) AS a) l LIMIT 4 -- log: more
SELECT id, llm_generate(body || '@nul') FROM docs WHERE id = 1
SELECT id, llm_generate(body || '@badutf8') FROM docs WHERE id < 3 -- log: more
SELECT id, llm_generate(CASE id WHEN 4 THEN '@close' ELSE body END) FROM docs -- log: more
SELECT llm_generate(CASE id WHEN 4 THEN '@hang' ELSE body END, timeout_ms => 50) FROM docs WHERE body IS NOT NULL -- log: more
SET statement_timeout = '100ms'; SELECT llm_generate(CASE id WHEN 4 THEN '@hang' ELSE body END) FROM docs -- log: more

-- vectors, scores, labels: STABLE, so the planner moves and copies them as it likes
SELECT id, llm_embed(body, 2) FROM docs
SELECT id, llm_embed(body, 2), llm_embed(grp, 3, false) FROM docs ORDER BY id DESC
SELECT id, llm_embed(body, dimensions => id % 4 + 1, normalize_embeddings => flag) FROM docs
SELECT id, llm_embed_multi(body, 1), llm_embed_bytes(body, 'float16', dimensions => 2), llm_encode(body, 'classify', use_activation => false) FROM docs
SELECT id FROM docs WHERE llm_class(body) = 'positive'
SELECT id FROM docs WHERE llm_similarity(body, 'first text') > 0.5 ORDER BY id
SELECT id, llm_similarity(body, grp), llm_score(grp, body, use_activation => id % 2 = 0) FROM docs
SELECT id FROM docs ORDER BY llm_score('fourth yes', body) DESC NULLS LAST, id LIMIT 3
SELECT id, llm_class(body) FROM docs WHERE llm_reward(body) > 0 LIMIT 2 -- log: more
SELECT llm_class(body) AS c, count(*), round(avg(llm_reward(body))::numeric, 3) FROM docs GROUP BY c ORDER BY c
SELECT count(*) FILTER (WHERE llm_class(body) = 'positive'), count(DISTINCT llm_embed(body)) FROM docs
SELECT id, rank() OVER (ORDER BY llm_reward(body), id) FROM docs ORDER BY id
SELECT d.id, c.label, c.prob FROM docs d, llm_classify(d.body) c
SELECT d.id, c.index FROM docs d LEFT JOIN LATERAL llm_classify(d.body, use_activation => false, top => 1) c ON true
SELECT d.id, t.token, t.label FROM docs d, llm_token_classify(initcap(d.body), 'first') t
SELECT d.id, t.pos, t.score FROM docs d CROSS JOIN LATERAL llm_token_classify(d.body || ' A1 22', 'none') t WHERE t.label <> 'B-NAME'
SELECT d.id, r.index, r.relevance_score FROM docs d, llm_rerank(d.body, ARRAY['first text', d.grp, 'yes'], 2) r
SELECT r.* FROM llm_rerank('sixth yes', ARRAY['first text', NULL, 'sixth yes', 'yes']) r
SET vllm.batch_dedup = off; SELECT llm_rerank_agg('sixth yes', id, body, 3) FROM docs -- inline
SET vllm.batch_dedup = off; SELECT grp, llm_rerank_agg(llm_generate('first text'), id, lower(llm_generate(body)), 2) FROM docs GROUP BY grp ORDER BY grp
SET vllm.batch_dedup = off; SELECT id, llm_score_batch(body, ARRAY['first text', grp]), llm_score_pairs(ARRAY[grp], ARRAY[body, 'yes']) FROM docs -- inline
SET vllm.batch_dedup = off; SELECT llm_embed_batch(array_agg(body ORDER BY id), 2) FROM docs -- inline
SELECT id, llm_class(llm_generate(body)), llm_generate(llm_class(body)) FROM docs
SELECT id, CASE WHEN id % 2 = 0 THEN llm_class(body) ELSE llm_class(grp) END, COALESCE(llm_class(grp), llm_class(body)) FROM docs
SELECT d.id, t.tag FROM docs d JOIN tags t ON t.doc_id = d.id AND llm_similarity(d.body, t.tag) > -0.5 ORDER BY d.id, t.tag_id
SELECT id FROM docs WHERE llm_class(body) IN (SELECT llm_class(tag) FROM tags) ORDER BY id -- log: fewer
SELECT id, v.e FROM docs, LATERAL (SELECT llm_embed(docs.body, 2) AS e) v
SELECT id, (SELECT llm_class(d.body)) FROM docs d
WITH q AS MATERIALIZED (SELECT id, llm_embed(body) AS e FROM docs) SELECT a.id, (SELECT b.id FROM q b WHERE b.id <> a.id AND b.e IS NOT NULL ORDER BY llm_similarity(a.e, b.e) DESC NULLS LAST, b.id LIMIT 1) FROM q a
SELECT llm_class(body) FROM docs UNION SELECT llm_class(tag) FROM tags ORDER BY 1
SELECT id FROM docs WHERE body IS NOT NULL ORDER BY llm_similarity(body, llm_class('good')) DESC, id
SELECT id, llm_similarity(llm_embed(body), llm_embed('first text')) FROM docs
SELECT id, llm_embed('constant', 2) FROM docs -- inline
SELECT id FROM docs WHERE llm_class('good') = 'positive' AND id < 4 -- inline
PREPARE p(text) AS SELECT id, llm_similarity(body, $1), llm_embed($1, 1) FROM docs; EXECUTE p('first'); SET plan_cache_mode = force_generic_plan; EXECUTE p('second')
SELECT x, llm_class(x) FROM (SELECT 'good' AS x UNION ALL SELECT body FROM docs WHERE id < 3) s WHERE llm_class(x) <> 'negative'
UPDATE docs SET answer = llm_class(body) WHERE llm_reward(body) > 0.15; SELECT id, answer FROM docs ORDER BY id
INSERT INTO log (line) SELECT llm_embed(body, 1)::text FROM docs ORDER BY id; SELECT line FROM log ORDER BY at
SELECT id, region, llm_class(body) FROM parts WHERE llm_reward(body) > 0 ORDER BY id
SELECT id, llm_embed(body, 1) FROM bad WHERE id < 5
SELECT id, llm_embed(body, 1) FROM bad -- log: more
SELECT id, llm_class(body) FROM bad WHERE id > 5 -- log: more
SELECT id, llm_class(body, model => m) FROM bad -- log: more
SELECT id, llm_embed(body, dimensions => 3 - id) FROM docs -- log: more
SELECT id, llm_embed('@delay:' || (13 - id) * 3 || ' ' || id, 1) FROM docs
BEGIN; DECLARE c CURSOR FOR SELECT id, llm_class(body) FROM docs ORDER BY id; FETCH 2 FROM c; FETCH 2 FROM c; ROLLBACK -- log: more
SELECT id, llm_class(body) FROM secrets
SET ROLE batch_reader; SELECT id, llm_class(body) FROM secrets WHERE llm_class(body) IS NOT NULL
DO $x$ BEGIN EXECUTE 'EXPLAIN SELECT * FROM docs WHERE body = llm_class($$good$$)'; EXECUTE 'EXPLAIN VERBOSE UPDATE docs SET answer = llm_class(body)'; EXECUTE 'EXPLAIN SELECT id FROM docs ORDER BY llm_similarity($${1}$$::real[], llm_embed($$q$$, 1))'; END $x$ -- inline

-- latencies that differ: order must not
SELECT id, llm_generate('@delay:' || (13 - id) * 3 || ' ' || id) FROM docs
SELECT id FROM docs WHERE llm_generate('@delay:' || id * 17 % 23 || ' ' || body) LIKE '%YES'
SELECT id, llm_generate(llm_generate('@tokens:' || id)) FROM docs
SELECT id, llm_generate(CASE WHEN id % 4 = 0 THEN '@delay:30 slow yes' ELSE 'quick' END) FROM docs WHERE llm_generate(CASE WHEN id % 3 = 0 THEN '@delay:20 q' ELSE 'p' END) IS NOT NULL LIMIT 6 -- log: more

-- EXPLAIN makes no request
EXPLAIN (COSTS OFF) SELECT 1 FROM docs WHERE id = 1 -- inline
EXPLAIN (FORMAT json, COSTS OFF) INSERT INTO log (line) SELECT 'x' FROM docs -- inline
DO $x$ BEGIN EXECUTE 'EXPLAIN SELECT llm_generate(body) FROM docs'; EXECUTE 'EXPLAIN VERBOSE UPDATE docs SET answer = llm_generate(body)'; EXECUTE 'EXPLAIN (FORMAT yaml) SELECT llm_generate(body) FROM docs WHERE llm_generate(body) > $$a$$'; END $x$ -- inline
DO $x$ DECLARE n int := 0; t text; BEGIN FOR t IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT llm_generate(body) FROM docs' LOOP n := n + 1; END LOOP; RAISE WARNING '%', n > 1; END $x$

-- decisions by log-probability
SELECT id, llm_choose(body, '{yes,text,row}') FROM docs
SELECT id, llm_choose(body, ARRAY[grp, 'z']), llm_choose(body, ARRAY['q', body || 'x'], 'bytes', chat => NULL) FROM docs WHERE grp IS NOT NULL
SELECT id FROM docs WHERE llm_filter('is it yes?', body)
SELECT id, llm_generate(body) FROM docs WHERE llm_filter('is it yes?', body, 0.4, template => '{1} Yes') AND flag
SELECT id, llm_filter(body, grp), round(llm_filter_prob(body, grp)::numeric, 4) FROM docs
SELECT id, round(llm_perplexity(body)::numeric, 4) FROM docs ORDER BY llm_perplexity(body), id
SELECT id, c.label, round(c.prob::numeric, 4) FROM docs, LATERAL llm_choice_probs(body, '{yes,text}') c
SELECT id, l.* FROM docs, LATERAL llm_loglikelihood(body, grp) l
SELECT id, llm_choose(body, CASE WHEN id > 4 THEN '{a,a}'::text[] ELSE '{a,b}' END) FROM docs -- log: more
SELECT llm_choose(grp, array_agg(DISTINCT body)) FROM docs WHERE body IS NOT NULL GROUP BY grp ORDER BY grp
UPDATE docs SET answer = llm_choose(body, '{yes,no}') WHERE llm_filter('is it yes?', body, 0.1)

-- chunks and aggregates over the model
SELECT d.id, c.seq, c.chunk FROM docs d, llm_chunk_text(d.body, 'recursive', 5) c
SELECT d.id, c.seq, llm_generate(c.chunk) FROM docs d, llm_chunk_text(d.body, 'tokens', 6, 2) c
SELECT d.id, c.chunk FROM docs d LEFT JOIN LATERAL llm_chunk_text(d.body, 'sentences', 8) c ON true WHERE d.flag
SELECT grp, llm_reduce(array_agg(body ORDER BY id), 'Join:') FROM docs GROUP BY grp ORDER BY grp
SELECT grp, llm_reduce(array_agg(body ORDER BY id), 'Join:') FROM docs GROUP BY grp HAVING llm_reduce(array_agg(body ORDER BY id), 'Has:') <> '' ORDER BY grp
SELECT id, llm_reduce(ARRAY[body, grp], 'Join ' || coalesce(grp, 'none')) FROM docs
SELECT llm_reduce(ARRAY[llm_generate(body), grp], 'Join:') FROM docs
SELECT id, llm_reduce(ARRAY[body], CASE WHEN id = 3 THEN NULL ELSE 'Join:' END) FROM docs -- log: more
SELECT grp, llm_agg(llm_generate(body), 'Join:' ORDER BY id) FROM docs GROUP BY grp ORDER BY grp

-- prompts of embeddings
SET vllm.enable_prompt_embeds = on; SELECT id, llm_embeds_generate(llm_token_embeddings(body)) FROM docs
SET vllm.enable_prompt_embeds = on; SELECT id, (llm_embeds_output(llm_token_embeddings(body), n => 2, temperature => 1, seed => id)).usage FROM docs
SET vllm.enable_prompt_embeds = on; SELECT id, llm_embeds_generate(CASE WHEN id = 6 THEN '{1,2}' ELSE llm_token_embeddings(body) END) FROM docs -- log: more
SET vllm.enable_prompt_embeds = on; SELECT id, llm_embeds_generate(CASE WHEN id = 6 THEN '{NULL}' ELSE '{97,0,0,0}'::real[] END) FROM docs -- log: more
SELECT id, llm_embeds_generate(llm_token_embeddings(body)) FROM docs

-- adapters: each row its own
SELECT id, llm_generate(body, lora => l, temperature => 0) FROM tuned WHERE id < 25
SELECT id, llm_generate(body, lora => l) FROM tuned WHERE id < 25 ORDER BY id DESC
SELECT id, llm_generate(body, lora => l, temperature => 0) FROM tuned -- log: more
SELECT id, llm_generate(body, lora => l, temperature => 0) FROM tuned ORDER BY id LIMIT 24
SELECT id, llm_generate(body, model => coalesce(l, 'tickets-2m')), llm_generate(body, lora => 'red') FROM tuned WHERE id < 25
SELECT id, llm_generate(llm_generate(body, lora => l), lora => 'blue') FROM tuned WHERE id < 10
SELECT id, CASE WHEN l = 'red' THEN llm_generate(body, lora => l) ELSE llm_ask(body, lora => l) END FROM tuned WHERE id < 25
SELECT id, llm_embed(body, lora => l), llm_score(body, body, lora => l), llm_class(body, lora => l) FROM tuned WHERE id < 10
SELECT id, llm_choose(body, ARRAY['yes', 'no'], lora => l), (llm_output(body, lora => l, n => 2, seed => 1, temperature => 1)).lora FROM tuned WHERE id < 10
SELECT l, count(*), max(llm_generate(body, lora => l)) FROM tuned WHERE id < 25 GROUP BY l ORDER BY l
SELECT t.id, a.text FROM tuned t, LATERAL llm_completions(t.body, lora => t.l) a WHERE t.id < 10 -- inline
UPDATE tuned SET body = llm_generate(body, lora => l) WHERE id < 25 RETURNING id, body
