/*
 * vllm_pg_ai--0.10.sql
 *	  The schema ai: functions with AlloyDB's names and arguments, which call those of vllm_pg.
 *
 * The functions of one prompt are SQL of one expression, which the planner inlines.  So calls of many rows are
 * batched as those of llm_ask, and who may not execute llm_ask may not execute ai.generate.  The forms for arrays
 * and cursors call them for a set of rows, and so are batched, too; batch_size has no use here.
 *
 * Who may create in the database may make this extension, and the script runs as a superuser.  The script makes the
 * schema and owns it: a schema ai that exists is an error, because its owner could add functions that fit a call
 * better than those here.  Functions of vllm_pg are found as members of that extension.  A call of one has all its
 * arguments in their types, so no function of its name elsewhere, or with other arguments, fits as well.  The
 * bodies in quotes are parsed with the caller's search_path: all names in them have their schema.
 */

\echo Use "CREATE EXTENSION vllm_pg_ai" to load this file. \quit

DO LANGUAGE plpgsql $do$
BEGIN
    IF pg_catalog.to_regnamespace('ai'::text) IS NOT NULL THEN
        RAISE EXCEPTION 'schema "ai" already exists'
            USING ERRCODE = 'duplicate_schema', DETAIL = 'vllm_pg_ai makes this schema, so that no other role can add functions to it.',
                HINT = 'Give the schema another name: ALTER SCHEMA ai RENAME TO ...';
    END IF;
    -- older versions have other types of arguments
    IF pg_catalog.to_regtype('vllm.json'::text) IS NULL THEN
        RAISE EXCEPTION 'vllm_pg_ai needs vllm_pg 0.10, or later'
            USING ERRCODE = 'feature_not_supported', HINT = 'ALTER EXTENSION vllm_pg UPDATE;';
    END IF;
END $do$;

CREATE SCHEMA ai;
GRANT USAGE ON SCHEMA ai TO PUBLIC;
COMMENT ON SCHEMA ai IS 'Functions with the names and arguments of AlloyDB.';

-- The call of a function of vllm_pg: values of arguments by their names, NULL for all others.  Dropped below.
CREATE FUNCTION ai.call_of(function name, given json) RETURNS text
LANGUAGE plpgsql STABLE AS $body$
DECLARE
    f record;
BEGIN
    SELECT n.nspname, p.proname, p.pronargs, p.proargtypes, p.proargnames[:p.pronargs] AS names INTO f
    FROM pg_catalog.pg_extension e
    JOIN pg_catalog.pg_depend d ON d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass::pg_catalog.oid
        AND d.refobjid OPERATOR(pg_catalog.=) e.oid AND d.deptype OPERATOR(pg_catalog.=) 'e'::pg_catalog."char"
        AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid
    JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) d.objid AND p.proname OPERATOR(pg_catalog.=) function
    JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace
    WHERE e.extname OPERATOR(pg_catalog.=) 'vllm_pg'::pg_catalog.name
    AND p.proargnames OPERATOR(pg_catalog.@>) ARRAY(SELECT k FROM pg_catalog.json_object_keys(given) AS k);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'vllm_pg has no function % with the arguments that vllm_pg_ai needs', function
            USING ERRCODE = 'feature_not_supported', HINT = 'ALTER EXTENSION vllm_pg UPDATE;';
    END IF;
    RETURN pg_catalog.format('%I.%I(%s)'::pg_catalog.text, f.nspname, f.proname,
        (SELECT pg_catalog.string_agg(coalesce(given OPERATOR(pg_catalog.->>) a.name,
                'NULL::'::pg_catalog.text OPERATOR(pg_catalog.||) pg_catalog.format_type(f.proargtypes[a.n::pg_catalog.int4 OPERATOR(pg_catalog.-) 1], NULL::pg_catalog.int4)),
            ', '::pg_catalog.text ORDER BY a.n)
         FROM pg_catalog.unnest(f.names) WITH ORDINALITY AS a (name, n)));
END $body$;

-- The texts of a cursor's first column.
CREATE FUNCTION ai.cursor_texts(input_cursor refcursor) RETURNS SETOF text
LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    item pg_catalog.text;
BEGIN
    LOOP
        FETCH input_cursor INTO item;
        EXIT WHEN NOT FOUND;
        RETURN NEXT item;
    END LOOP;
END $body$;
COMMENT ON FUNCTION ai.cursor_texts(refcursor) IS 'Texts in the first column of the rows that a cursor has left.';

-- Make a function of a prompt, and its forms for an array and for a cursor.
CREATE FUNCTION ai.make(name name, result text, volatility text, call text, comment text) RETURNS void
LANGUAGE plpgsql AS $body$
BEGIN
    EXECUTE pg_catalog.format($sql$
CREATE FUNCTION ai.%1$I(prompt text, model_id varchar DEFAULT NULL) RETURNS %2$s
LANGUAGE sql %3$s PARALLEL RESTRICTED COST 100000
RETURN %4$s;
COMMENT ON FUNCTION ai.%1$I(text, varchar) IS %5$L;

CREATE FUNCTION ai.%1$I(prompts text[], batch_size int DEFAULT NULL, model_id varchar DEFAULT NULL) RETURNS %2$s[]
LANGUAGE sql %3$s PARALLEL RESTRICTED COST 1000000
RETURN CASE WHEN prompts IS NOT NULL THEN
    ARRAY(SELECT ai.%1$I(p.prompt, model_id) FROM pg_catalog.unnest(prompts) WITH ORDINALITY AS p (prompt, n) ORDER BY p.n) END;
COMMENT ON FUNCTION ai.%1$I(text[], int, varchar) IS %6$L;

CREATE FUNCTION ai.%1$I(prompt text, input_cursor refcursor, batch_size int DEFAULT NULL, model_id varchar DEFAULT NULL)
RETURNS refcursor
LANGUAGE plpgsql VOLATILE COST 1000000 AS $cursor$
DECLARE
    answers pg_catalog.refcursor;
BEGIN
    OPEN answers NO SCROLL FOR
        SELECT c.input, ai.%1$I(prompt OPERATOR(pg_catalog.||) E'\n'::pg_catalog.text OPERATOR(pg_catalog.||) c.input, model_id) AS output
        FROM ai.cursor_texts(input_cursor) AS c (input);
    RETURN answers;
END $cursor$;
COMMENT ON FUNCTION ai.%1$I(text, refcursor, int, varchar) IS %7$L
$sql$, name, result, volatility, call, comment,
        comment OPERATOR(pg_catalog.||) ' For an array of prompts.'::pg_catalog.text,
        comment OPERATOR(pg_catalog.||) ' For rows of a cursor.'::pg_catalog.text);
END $body$;

SELECT ai.make('if'::name, 'boolean'::text, 'STABLE'::text, ai.call_of('llm_filter'::name, pg_catalog.json_build_object(
        'instruction', $$'ai.if'::pg_catalog.text$$,
        'input', 'prompt',
        'threshold', '0.5::float8',
        'model', 'model_id::text',
        'template', $$E'{1}\n\nIf this is a statement: is it true? If it is a question: is its answer yes? Answer Yes or No.\nAnswer: '::pg_catalog.text$$)),
    'Whether a model finds the statement or question in a prompt true.'::text);

-- A score has the scale that the prompt defines, so the model writes it: a grammar admits numbers only.
SELECT ai.make('rank'::name, 'real'::text, 'VOLATILE'::text, ai.call_of('llm_ask'::name, pg_catalog.json_build_object(
        'prompt', $$prompt OPERATOR(pg_catalog.||) E'\n\nAnswer with the score alone, as a number.'::pg_catalog.text$$,
        'max_tokens', '12',
        'temperature', '0::float8',
        'regex', $$'-?[0-9]{1,3}(\.[0-9]{1,2})?'::pg_catalog.text$$,
        'model', 'model_id::text')) OPERATOR(pg_catalog.||) '::real'::text,
    'Score that a model gives by the rules in a prompt.'::text);

SELECT ai.make('generate'::name, 'text'::text, 'VOLATILE'::text, ai.call_of('llm_ask'::name, pg_catalog.json_build_object(
        'prompt', 'prompt', 'model', 'model_id::text')),
    'Answer of a model to a prompt.'::text);

SELECT ai.make('summarize'::name, 'text'::text, 'VOLATILE'::text, ai.call_of('llm_reduce'::name, pg_catalog.json_build_object(
        'inputs', 'ARRAY[prompt]',
        'instruction', $$'Summarize the text. If it says how long the summary is to be, keep to that. Answer with the summary alone.'::pg_catalog.text$$,
        'split', 'true',
        'model', 'model_id::text')),
    'Summary of a text.'::text);

SELECT ai.make('analyze_sentiment'::name, 'text'::text, 'STABLE'::text, ai.call_of('llm_choose'::name, pg_catalog.json_build_object(
        'prompt', $$'Text: '::pg_catalog.text OPERATOR(pg_catalog.||) prompt OPERATOR(pg_catalog.||)
            E'\nIs the sentiment of this text positive, negative or neutral? Answer with one word.\nSentiment: '::pg_catalog.text$$,
        'labels', $$'{positive,negative,neutral}'::pg_catalog.text[]$$,
        'normalization', $$'sum'::pg_catalog.text$$,
        'model', 'model_id::text')),
    'Sentiment of a text: positive, negative or neutral.'::text);

DO LANGUAGE plpgsql $do$
BEGIN
    -- documents by relevance to a query
    EXECUTE pg_catalog.format($sql$
CREATE FUNCTION ai.rank(model_id varchar, search_string text, documents text[], top_n int DEFAULT NULL)
RETURNS TABLE (index int, score real)
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 1000000 ROWS 10
BEGIN ATOMIC
    SELECT r.index, r.relevance_score FROM %s AS r;
END
$sql$, ai.call_of('llm_rerank'::name, pg_catalog.json_build_object(
        'query', 'search_string', 'documents', 'documents', 'top_n', 'coalesce(top_n, 0)', 'model', 'model_id::text')));
    -- llm_reduce asks, so that its privileges count; llm_summarize_agg's steps would not look at the caller's
    EXECUTE pg_catalog.format($sql$
CREATE FUNCTION ai.summary_of(texts text[]) RETURNS text
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 100000
RETURN %s
$sql$, ai.call_of('llm_reduce'::name, pg_catalog.json_build_object(
        'inputs', 'texts', 'instruction', $$'Summarize the following texts in a few sentences.'::pg_catalog.text$$, 'split', 'true')));
END $do$;
COMMENT ON FUNCTION ai.rank(varchar, text, text[], int) IS 'Documents of an array ordered by relevance to a search string.';
COMMENT ON FUNCTION ai.summary_of(text[]) IS 'Final function of agg_summarize.';

CREATE AGGREGATE ai.agg_summarize(text) (
    SFUNC = pg_catalog.array_append, STYPE = text[], FINALFUNC = ai.summary_of
);
COMMENT ON AGGREGATE ai.agg_summarize(text) IS 'Summary of the texts of a group.';

DROP FUNCTION ai.make(name, text, text, text, text);
DROP FUNCTION ai.call_of(name, json);
