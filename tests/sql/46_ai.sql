-- The extension vllm_pg_ai: the schema ai with AlloyDB's names (the fake engine answers with the prompt's words in
-- upper case).
SET client_min_messages = warning;
\pset format unaligned
-- a schema of this name belongs to somebody else, and stays theirs
CREATE ROLE regress_ai_user;
CREATE SCHEMA ai AUTHORIZATION regress_ai_user;
\set VERBOSITY terse
SELECT fails('CREATE EXTENSION vllm_pg_ai');
DROP SCHEMA ai;

-- functions of ours in a schema that the search_path has first, some of which would fit better
CREATE SCHEMA earlier;
CREATE FUNCTION earlier.llm_ask(prompt text) RETURNS text LANGUAGE sql RETURN 'not ours';
CREATE FUNCTION earlier.llm_ask(prompt text, model text) RETURNS text LANGUAGE sql RETURN 'not ours';
CREATE FUNCTION llm_ask(prompt text, system text, max_tokens int, temperature float8, top_p float8, top_k int, min_p float8,
    seed bigint, stop vllm.texts, model text) RETURNS text LANGUAGE sql RETURN 'not ours';
CREATE FUNCTION earlier.llm_filter(instruction text, input text, threshold float8, model text, template text) RETURNS bool LANGUAGE sql RETURN NULL::bool;
CREATE FUNCTION earlier.llm_choose(prompt text, labels text[]) RETURNS text LANGUAGE sql RETURN 'not ours';
CREATE FUNCTION earlier.llm_reduce(inputs text[], instruction text, model text) RETURNS text LANGUAGE sql RETURN 'not ours';
SET search_path = earlier, public;
CREATE EXTENSION vllm_pg_ai;
-- what the functions call are the system's functions, and members of the two extensions
CREATE VIEW public.members AS SELECT d.classid, d.objid, x.extname FROM pg_depend d JOIN pg_extension x ON x.oid = d.refobjid
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND x.extname IN ('vllm_pg', 'vllm_pg_ai');
SELECT pg_describe_object(d.classid, d.objid, 0) AS ours, pg_describe_object(d.refclassid, d.refobjid, 0) AS needs
FROM pg_depend d JOIN members m ON m.extname = 'vllm_pg_ai' AND (m.classid, m.objid) = (d.classid, d.objid)
WHERE d.refobjid >= 16384 AND d.deptype = 'n' AND (d.refclassid, d.refobjid) NOT IN (SELECT classid, objid FROM members);
SELECT ai.generate('hello there'), ai.summarize('a text') ~ 'A TEXT' AS summary, ai.rank('3'), ai.if('x') IS NOT NULL AS "if",
       ai.analyze_sentiment('x') IN ('positive', 'negative', 'neutral') AS sentiment;
RESET search_path;
DROP SCHEMA earlier CASCADE;
DROP FUNCTION llm_ask(text, text, int, float8, float8, int, float8, bigint, vllm.texts, text);

-- members; each has a comment
SELECT oid::regprocedure AS function, pg_get_function_arguments(oid) AS arguments, pg_get_function_result(oid) AS result, provolatile, proparallel
FROM pg_proc WHERE pronamespace = 'ai'::regnamespace ORDER BY oid::regprocedure::text COLLATE "C";
SELECT pg_describe_object(classid, objid, 0) AS without_comment FROM members
WHERE extname = 'vllm_pg_ai' AND coalesce(obj_description(objid, classid::regclass::name), '') !~ '^.{10,100}\.$';
SELECT has_schema_privilege('regress_ai_user', 'ai', 'USAGE') AS usage, has_schema_privilege('regress_ai_user', 'ai', 'CREATE') AS "create";
SELECT extrelocatable, extnamespace::regnamespace FROM pg_extension WHERE extname = 'vllm_pg_ai';
DROP VIEW members;

-- what is asked
SELECT vllm.control('log-clear') IS NOT NULL AS cleared;
SELECT ai.if('Is {0} "red"? ' || 'a rose');
SELECT ai.analyze_sentiment('I like it.');
SELECT ai.rank('Score this from 1 to 9: good');
SELECT ai.summarize(E'In 5 words: a long text');
SELECT * FROM request_log();
-- the answer is the more probable one of Yes and No, for any text
SELECT p, ai.if(p) = llm_filter('x', p, template => E'{1}\n\nIf this is a statement: is it true? If it is a question: is its answer yes? Answer Yes or No.\nAnswer: ') AS same
FROM unnest('{a,b c,"{1} and {2}"}'::text[]) p;
SELECT DISTINCT ai.rank('rate ' || i) BETWEEN -1000 AND 1000 AS number FROM generate_series(1, 50) i;
-- NULL is no question
SELECT ai.if(NULL) IS NULL AS a, ai.rank(NULL) IS NULL AS b, ai.generate(NULL) IS NULL AS c, ai.summarize(NULL) IS NULL AS d,
       ai.analyze_sentiment(NULL) IS NULL AS e, ai.generate('model of the setting', NULL);
-- models by name, as they are written in queries for AlloyDB
SELECT llm_create_model('gemini-2.5-flash-lite', '/fake/gemini');
SELECT ai.generate('What is AlloyDB?', model_id => 'gemini-2.5-flash-lite'), AI.GENERATE('x', 'gemini-2.5-flash-lite'),
       ai.if('x', model_id => 'gemini-2.5-flash-lite') IS NOT NULL AS a, ai.rank('x', 'gemini-2.5-flash-lite'::varchar(100)) IS NOT NULL AS b;
SELECT ai.generate('x', model_id => 'gemini-9');
SELECT ai.if(prompts => '{x}', model_id => 'gemini-9');
SELECT l FROM request_log() l WHERE l ~ 'gemini' AND l ~ 'AlloyDB';

SET google_ml_integration.enable_ai_query_engine = true;

-- rows are batched: where, join, order by, select, update
CREATE TABLE user_reviews (id int PRIMARY KEY, review_text text, review text);
CREATE TABLE menu_items (item_name text);
INSERT INTO user_reviews SELECT i, 'text ' || i, 'review ' || i FROM generate_series(1, 30) i;
INSERT INTO menu_items VALUES ('soup'), ('cake');
ANALYZE user_reviews, menu_items;
CREATE FUNCTION plan_of(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
        IF line ~ '^ *(->|Custom|LLM Calls)' OR line !~ '^ ' AND line ~ 'Aggregate|Limit|Sort|Update' THEN
            RETURN NEXT regexp_replace(line, '(LLM Calls: [a-z_.]+\().*', '\1...');
        END IF;
    END LOOP;
END $$;
SELECT plan_of($$SELECT id FROM user_reviews WHERE ai.if('Is this good? ' || review)$$);
SELECT plan_of($$SELECT item_name, count(*) FROM menu_items JOIN user_reviews
    ON ai.if(prompt => 'Does the review talk about the item? review: ' || user_reviews.review_text || ' item: ' || item_name) GROUP BY item_name$$);
SELECT plan_of($$SELECT review FROM user_reviews ORDER BY ai.rank('Score this review: ' || review) DESC LIMIT 20$$);
SELECT plan_of($$SELECT ai.generate(prompt => 'Shorten: ' || review, model_id => 'gemini-2.5-flash-lite') FROM user_reviews$$);
SELECT plan_of($$SELECT ai.summarize(review) FROM user_reviews$$);
SELECT plan_of($$SELECT ai.analyze_sentiment(review) FROM user_reviews$$);
SELECT plan_of($$UPDATE user_reviews SET review = ai.generate(review)$$);
SELECT count(*), count(DISTINCT g), min(g) FROM (SELECT ai.generate('Say ' || id) AS g FROM user_reviews) x;
SELECT count(*) FROM user_reviews WHERE ai.if('Is this good? ' || review) IS NULL;
SELECT count(*) FROM menu_items JOIN user_reviews ON ai.if(prompt => review_text || item_name) IS NOT NULL;

-- arrays: in order, NULL for NULL, batched (equal questions are asked once)
SELECT ai.generate(prompts => ARRAY['a', 'b', NULL, 'c'], batch_size => 2), ai.generate(prompts => '{}'), ai.generate(prompts => NULL) IS NULL AS "null",
       ai.generate('{{d,e},{f,g}}'::text[]);
SELECT ai.if(ARRAY['a', NULL]) = ARRAY[ai.if('a'), NULL] AS "if", ai.rank(ARRAY['rate 1', 'rate 2']) = ARRAY[ai.rank('rate 1'), ai.rank('rate 2')] AS rank,
       ai.analyze_sentiment(prompts => ARRAY['x', 'y'], batch_size => 5, model_id => 'gemini-2.5-flash-lite') = ARRAY[ai.analyze_sentiment('x'), ai.analyze_sentiment('y')] AS sentiment,
       ai.summarize(prompts => ARRAY['long'], batch_size => 15) = ARRAY[ai.summarize('long')] AS summary;
SELECT vllm.control('log-clear') IS NOT NULL AS cleared;
SELECT cardinality(ai.if(prompts => array_agg('Is it ' || id % 3))) FROM user_reviews;
SELECT count(*) AS requests FROM request_log();
SET vllm.batch = off;
SELECT vllm.control('log-clear') IS NOT NULL AS cleared;
SELECT cardinality(ai.if(prompts => array_agg('Is it ' || id % 3))) FROM user_reviews;
SELECT count(*) AS unbatched FROM request_log();
RESET vllm.batch;
WITH results AS (SELECT array_agg(id ORDER BY id) AS ids, ai.generate(prompts => array_agg('Say ' || review ORDER BY id), batch_size => 15) AS answers FROM user_reviews),
    pairs AS (SELECT ids[i] AS id, answers[i] AS answer FROM results, generate_series(1, array_length(ids, 1)) AS i)
SELECT r.id, p.answer FROM user_reviews r JOIN pairs p ON r.id = p.id ORDER BY r.id DESC LIMIT 2;
SELECT unnest(ai.rank(array_agg('Score it: ' || review))) IS NOT NULL AS score FROM user_reviews LIMIT 1;

-- cursors: columns input and output
CREATE TABLE results (n serial, input text, output text);
DO $$
DECLARE
    prompt_cursor refcursor;
    result_cursor refcursor;
    rec record;
BEGIN
    IF ai.if('x') THEN
        RAISE INFO 'the fake engine finds Yes more probable';
    END IF;
    OPEN prompt_cursor FOR SELECT review AS prompt FROM user_reviews WHERE id <= 5 ORDER BY id;
    result_cursor := ai.generate('Shorten the review:', prompt_cursor, model_id => 'gemini-2.5-flash-lite');
    LOOP
        FETCH result_cursor INTO rec;
        EXIT WHEN NOT FOUND;
        INSERT INTO results (input, output) VALUES (rec.input, rec.output);
    END LOOP;
    CLOSE result_cursor;
    CLOSE prompt_cursor;
END $$;
SELECT input, output FROM results ORDER BY n;
BEGIN;
DECLARE numbers CURSOR FOR SELECT 'is it ' || id % 2, 'another column' FROM user_reviews;
FETCH 2 FROM numbers;
SELECT vllm.control('log-clear') IS NOT NULL AS cleared;
SELECT ai.if(prompt => 'True?', input_cursor => 'numbers', batch_size => 5) AS answers \gset
FETCH 2 FROM :"answers";
MOVE ALL FROM :"answers";
SELECT * FROM request_log();
COMMIT;
BEGIN;
DECLARE c CURSOR FOR VALUES (NULL), ('x');
SELECT ai.rank('rate', 'c'::refcursor) AS a \gset
FETCH ALL FROM :"a";
DECLARE d CURSOR FOR VALUES (7);
SELECT ai.analyze_sentiment('mood', 'd'::refcursor, 3) AS b \gset
FETCH ALL FROM :"b";
DECLARE e CURSOR FOR VALUES ('long'::varchar);
SELECT ai.summarize('In 3 words', input_cursor => 'e') AS c \gset
FETCH ALL FROM :"c";
SELECT ai.if('x', 'no cursor'::refcursor) AS d \gset
FETCH ALL FROM :"d";
ROLLBACK;

-- groups
SELECT id % 2 AS g, ai.agg_summarize(review ORDER BY id) FROM user_reviews WHERE id <= 5 GROUP BY 1 ORDER BY 1;
SELECT ai.agg_summarize(review) IS NULL AS none FROM user_reviews WHERE false;
SELECT ai.agg_summarize(x) IS NULL AS nulls FROM (VALUES (NULL), (NULL)) v (x);
SELECT ai.agg_summarize(x ORDER BY x) FROM (VALUES ('a'), (NULL), ('b')) v (x);

-- documents by relevance
SELECT llm_create_model('semantic-ranker', '/fake/ranker');
SELECT index, score IS NOT NULL AS score FROM ai.rank(model_id => 'semantic-ranker', search_string => 'red apple',
    documents => ARRAY['a green pear', 'a red apple', 'apple pie']);
SELECT index FROM ai.rank(model_id => 'semantic-ranker', search_string => 'red apple', documents => ARRAY['pear', 'red apple'], top_n => 1);
SELECT count(*) FROM ai.rank('semantic-ranker', NULL, ARRAY['a']);
SELECT (SELECT array_agg(index) FROM ai.rank('semantic-ranker', 'red apple', ARRAY['pear', 'red apple', 'apple']))
     = (SELECT array_agg(index) FROM llm_rerank('red apple', ARRAY['pear', 'red apple', 'apple'], model => 'semantic-ranker')) AS same;
CREATE TABLE found AS SELECT * FROM (VALUES (10, 'pear'), (20, 'red apple'), (30, 'apple')) v (id, body);
SELECT d.id, d.body FROM (SELECT array_agg(id) AS ids, array_agg(body) AS bodies FROM found) f
CROSS JOIN ai.rank(model_id => 'semantic-ranker', search_string => 'red apple', documents => f.bodies, top_n => 2) r
JOIN found d ON d.id = f.ids[r.index] ORDER BY r.score DESC;

-- who may not call ours, may not call these
BEGIN;
REVOKE EXECUTE ON FUNCTION llm_ask, llm_reduce, llm_filter, llm_choose FROM PUBLIC;
SET ROLE regress_ai_user;
SELECT fails($$SELECT ai.generate('x')$$), fails($$SELECT ai.rank('x')$$), fails($$SELECT ai.if('x')$$), fails($$SELECT ai.summarize('x')$$),
       fails($$SELECT ai.analyze_sentiment('x')$$), fails($$SELECT ai.agg_summarize('x')$$), fails($$SELECT ai.generate(prompts => '{x}')$$);
ROLLBACK;
SET ROLE regress_ai_user;
SELECT ai.generate('again'), fails($$SELECT ai.generate('x', model_id => 'semantic-ranker')$$);
RESET ROLE;

DROP TABLE user_reviews, menu_items, results, found;
DROP FUNCTION plan_of(text);
SELECT llm_drop_model('gemini-2.5-flash-lite'), llm_drop_model('semantic-ranker');
DROP EXTENSION vllm_pg_ai;
SELECT to_regnamespace('ai') IS NULL AS gone;
DROP ROLE regress_ai_user;
SELECT left_behind();
