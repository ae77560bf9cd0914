-- Statements that ask the engine are not compiled: their cost is the engine's, and compiling takes longer than the rest.
SET jit = on;
SET jit_above_cost = 0;
SET jit_inline_above_cost = -1;
SET jit_optimize_above_cost = -1;
CREATE TABLE jit_docs AS SELECT i AS id, 'text ' || i AS body FROM generate_series(1, 3) i;
CREATE FUNCTION compiled(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN ' || query LOOP
        IF line LIKE 'JIT:%' THEN
            RETURN true;
        END IF;
    END LOOP;
    RETURN false;
END $$;
-- one without calls is
SELECT compiled('SELECT id + 1 FROM jit_docs WHERE body > ''b''') = pg_jit_available() AS as_usual;
SELECT q FROM unnest(ARRAY[
    $$SELECT llm_generate(body) FROM jit_docs$$,
    $$SELECT (llm_generate_stream('a b')).text$$,
    $$SELECT * FROM llm_generate_stream('a b')$$,
    $$SELECT (llm_completions(body)).text FROM jit_docs$$,
    $$SELECT llm_rerank_agg('a', id, body) FROM jit_docs$$,
    $$SELECT * FROM jit_docs, llm_choice_probs(body, ARRAY['a', 'b']) c$$,
    $$SELECT * FROM jit_docs a LEFT JOIN jit_docs b ON llm_filter(a.body, b.body)$$,
    $$SELECT id FROM jit_docs a WHERE EXISTS (SELECT FROM jit_docs b WHERE b.id > a.id AND llm_filter(b.body, a.body))$$,
    $$SELECT id, (SELECT max(llm_generate(b.body)) FROM jit_docs b WHERE b.id = a.id) FROM jit_docs a$$,
    $$SELECT id FROM jit_docs WHERE id IN (SELECT length(llm_generate(body)) FROM jit_docs)$$,
    $$SELECT CASE WHEN id > 1 THEN llm_generate(body) END, coalesce(llm_generate(body), '') FROM jit_docs$$,
    $$SELECT llm_agg('sum up', body) FROM jit_docs$$,
    $$SELECT llm_count_tokens(body) FROM jit_docs ORDER BY llm_count_tokens(body)$$
]) q WHERE compiled(q);
DROP FUNCTION compiled(text);
DROP TABLE jit_docs;
