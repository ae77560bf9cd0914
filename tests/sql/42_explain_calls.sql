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
DROP TABLE call_docs;
