-- EXPLAIN shows calls as one would write them: arguments that are NULL are left out.
CREATE TABLE call_docs (id int, body text);
CREATE FUNCTION calls(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS off) ' || query LOOP
        IF line ~ 'LLM Calls' THEN
            RETURN NEXT btrim(line);
        END IF;
    END LOOP;
END $$;
SELECT calls($$SELECT llm_generate(body) FROM call_docs$$);
SELECT calls($$SELECT llm_generate(body, 4) FROM call_docs$$);
SELECT calls($$SELECT llm_generate(body, max_tokens => 4, seed => id, model => 'tickets-2m') FROM call_docs$$);
SELECT calls($$SELECT llm_generate(body, temperature => 0, stop => ARRAY['x']) FROM call_docs$$);
SELECT calls($$SELECT llm_generate(llm_generate(body, seed => 1), ignore_eos => true) FROM call_docs$$);
SELECT calls($$SELECT upper(llm_generate(body, NULL, NULL, 0.5)) || llm_embed(body, model => 'm')::text FROM call_docs$$);
SELECT calls($$SELECT id FROM call_docs WHERE llm_filter('is it?', body, model => 'tickets-2m')$$);
DROP FUNCTION calls(text);

-- A plan node that makes calls row by row says so, and why.
CREATE TABLE call_tags (doc int, tag text);
CREATE SEQUENCE call_numbers;
CREATE FUNCTION inlined(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS off) ' || query LOOP
        IF line ~ 'Custom Scan|LLM Calls|Join Type|Batching' THEN
            RETURN NEXT btrim(line);
        END IF;
    END LOOP;
END $$;
SELECT inlined($$SELECT llm_generate('a single row')$$);
SELECT inlined($$SELECT llm_generate(body || nextval('call_numbers')) FROM call_docs$$);
SELECT inlined($$SELECT CASE WHEN random() < 2 THEN llm_generate(body) END FROM call_docs$$);
SELECT inlined($$SELECT d.id FROM call_docs d LEFT JOIN call_tags t ON t.doc = d.id AND llm_filter(t.tag, d.body)$$);
SELECT inlined($$SELECT d.id FROM call_docs d LEFT JOIN call_tags t ON t.doc = d.id AND llm_filter(t.tag, d.body) AND random() < 2$$);
SELECT inlined($$SELECT d.id FROM call_docs d FULL JOIN call_tags t ON t.doc = d.id AND llm_filter(t.tag, d.body)$$);
SELECT inlined($$SELECT d.id FROM call_docs d WHERE EXISTS (SELECT FROM call_tags t WHERE t.doc = d.id AND llm_filter(t.tag, d.body))$$);
SELECT inlined($$SELECT d.id FROM call_docs d WHERE NOT EXISTS (SELECT FROM call_tags t WHERE t.doc = d.id AND llm_filter(t.tag, d.body))$$);
SELECT inlined($$SELECT d.id, a FROM (SELECT id, body, llm_generate(body || nextval('call_numbers')) AS a FROM call_docs) d LEFT JOIN call_tags t ON t.doc = d.id AND llm_filter(t.tag, d.body)$$);
SET enable_mergejoin = off;
SELECT inlined($$SELECT d.id, t.tag FROM (SELECT * FROM call_docs LIMIT 3) d LEFT JOIN call_tags t ON t.doc = d.id AND llm_filter(t.tag, d.body)$$);
RESET enable_mergejoin;
SELECT inlined($$SELECT d.id FROM call_docs d WHERE llm_generate(d.body) IN (SELECT tag FROM call_tags)$$);
SELECT inlined($$SELECT d.id, EXISTS (SELECT FROM call_tags t WHERE llm_filter(t.tag, d.body)) FROM call_docs d$$);
SELECT inlined($$SELECT d.id, (SELECT llm_generate(d.body)) FROM call_docs d$$);
SELECT inlined($$SELECT d.id, (SELECT llm_generate(d.body || nextval('call_numbers'))) FROM call_docs d$$);
SELECT inlined($$SELECT d.id, (SELECT llm_generate('one')) FROM call_docs d$$);
SELECT inlined($$INSERT INTO call_tags SELECT id, body FROM call_docs RETURNING llm_generate(tag, seed => 1)$$);
SELECT inlined($$DELETE FROM call_tags RETURNING llm_generate(tag || nextval('call_numbers'))$$);
SELECT inlined($$WITH gone AS (DELETE FROM call_tags RETURNING llm_generate(tag) AS a) SELECT a FROM gone$$);
SELECT inlined($$MERGE INTO call_docs d USING call_tags t ON t.doc = d.id WHEN MATCHED THEN UPDATE SET body = llm_generate(t.tag)$$);
SELECT inlined($$SELECT id, llm_agg(body, 'Join:') FROM call_docs GROUP BY id$$);
SELECT inlined($$SELECT llm_agg(body, 'Join:' ORDER BY id) FROM call_docs$$);
SELECT inlined($$SELECT llm_summarize_agg(body) FROM call_docs$$);
SELECT inlined($$SELECT first_value(llm_generate(body)) OVER (ORDER BY id) FROM call_docs$$);
SELECT inlined($$SELECT * FROM call_docs d, llm_generate_stream(d.body) s$$);
-- functions of the extension in SQL that the planner does not inline, and the aggregate that sends its requests itself
SELECT inlined($$SELECT c.text FROM call_docs d, llm_completions(d.body) c$$);
SELECT inlined($$SELECT (llm_completions(body)).text FROM call_docs$$);
SELECT inlined($$SELECT llm_choice_probs(body, ARRAY['a', 'b']) FROM call_docs$$);
SELECT inlined($$SELECT * FROM call_docs d, llm_beam_search(d.body, 2) b$$);
SELECT inlined($$SELECT llm_rerank_agg('q', id, body) FROM call_docs$$);
SELECT inlined($$SELECT id, llm_rerank_agg('q', id, body) OVER () FROM call_docs$$);
SELECT inlined($$SELECT ROW(llm_generate(body), id) < ROW('G', 5) FROM call_docs$$);
SELECT inlined($$SELECT id FROM call_docs LIMIT length(llm_generate('ten'))$$);
SELECT inlined($$SELECT llm_embed_batch(array_agg(body)) FROM call_docs$$);
SELECT inlined($$SELECT * FROM (VALUES (1, llm_generate('one')), (2, 'two')) v$$);
SET vllm.batch = off;
SELECT inlined($$SELECT id, llm_generate(body) FROM call_docs$$);
SELECT inlined($$SELECT llm_agg(body, 'Join:') FROM call_docs$$);
RESET vllm.batch;
-- a function that is evaluated while the statement is planned runs statements
CREATE FUNCTION call_constant() RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN (SELECT count(*) FROM call_docs WHERE id < 0); END $$;
SELECT inlined($$SELECT llm_generate(body || nextval('call_numbers')), call_constant() FROM call_docs$$);
-- ... and so do the arguments of EXECUTE, before it is
CREATE FUNCTION call_argument() RETURNS text LANGUAGE plpgsql AS $$DECLARE t text; BEGIN t := llm_generate('hi'); RETURN t; END $$;
PREPARE call_execute(text) AS SELECT $1;
EXPLAIN (COSTS off) EXECUTE call_execute(call_argument());
SELECT call_argument() IS NOT NULL AS called;
DEALLOCATE call_execute;
DROP FUNCTION call_argument();
-- nothing to say
SELECT inlined($$SELECT id, upper(body) FROM call_docs$$);
-- it runs as ever, and in all formats
INSERT INTO call_docs VALUES (1, 'one'), (2, 'two'), (3, NULL);
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT id, llm_generate(body || nextval('call_numbers')) FROM call_docs ORDER BY id;
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, FORMAT yaml) DELETE FROM call_docs RETURNING llm_generate(body || nextval('call_numbers'));
DROP FUNCTION inlined(text), call_constant();
DROP TABLE call_docs, call_tags;
DROP SEQUENCE call_numbers;
