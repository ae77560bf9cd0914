/*
 * vllm_pg_vector--0.5--0.10.sql
 *	  Embeddings in the types of pgvector: bodies whose names are qualified, and all arguments of llm_embed.
 *
 * An extension of its own, as those that join two extensions are: the order in which they are made doesn't matter,
 * each can be dropped with CASCADE without the other, and a dump has them all.  The functions are SQL, which the
 * planner inlines: what is batched, and what is computed once, is as for llm_embed.
 *
 * Who owns the database may make it, in a schema of theirs, and the script runs as a superuser.  So the types and
 * the function that it uses are those of the two extensions, wherever these are: never what has their names in the
 * schema that it installs into.  PostgreSQL would put the schema's name, quoted, in the place of its placeholder, within
 * the format string; a % in that name would then be a part of the format.  So the script has no placeholder: it looks the
 * schema up and hands it to format() as an argument.
 */

\echo Use "ALTER EXTENSION vllm_pg_vector UPDATE TO '0.10'" to load this file. \quit

DO LANGUAGE plpgsql $do$
DECLARE
    here name;
    ours name;
    theirs name;
    type name;
BEGIN
    SELECT n.nspname INTO STRICT ours
    FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace
    WHERE e.extname OPERATOR(pg_catalog.=) 'vllm_pg'::name;
    SELECT n.nspname INTO STRICT here
    FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace
    WHERE e.extname OPERATOR(pg_catalog.=) 'vllm_pg_vector'::name;
    FOREACH type IN ARRAY '{vector,halfvec}'::name[] LOOP
        SELECT n.nspname INTO theirs
        FROM pg_catalog.pg_extension e
        JOIN pg_catalog.pg_depend d ON d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::regclass::oid
            AND d.refobjid OPERATOR(pg_catalog.=) e.oid AND d.deptype OPERATOR(pg_catalog.=) 'e'::"char"
            AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_type'::regclass::oid
        JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) d.objid AND t.typname OPERATOR(pg_catalog.=) type
            AND t.typtype OPERATOR(pg_catalog.=) 'b'::"char"    -- a superuser has made it
        JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) t.typnamespace
        WHERE e.extname OPERATOR(pg_catalog.=) 'vector'::name;
        IF theirs IS NULL THEN
            RAISE EXCEPTION 'vllm_pg_vector needs vector 0.7, or later'
                USING ERRCODE = 'feature_not_supported', HINT = 'ALTER EXTENSION vector UPDATE;';
        END IF;
        -- in place, with grants and views of it; its defaults come with the body
        UPDATE pg_catalog.pg_proc p
        SET proargtypes = (p.proargtypes::text OPERATOR(pg_catalog.||) ' 25 25')::oidvector,
            pronargs = p.pronargs OPERATOR(pg_catalog.+) 2,
            proargnames = p.proargnames OPERATOR(pg_catalog.||) '{lora,on_error}'::text[],
            pronargdefaults = 0,
            proargdefaults = NULL
        FROM pg_catalog.pg_depend d
        JOIN pg_catalog.pg_extension e ON d.refobjid OPERATOR(pg_catalog.=) e.oid AND e.extname OPERATOR(pg_catalog.=) 'vllm_pg_vector'::name
        WHERE d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::regclass::oid AND d.objid OPERATOR(pg_catalog.=) p.oid
        AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::regclass::oid AND d.deptype OPERATOR(pg_catalog.=) 'e'::"char"
        AND p.proname OPERATOR(pg_catalog.=) ('llm_embed_'::text OPERATOR(pg_catalog.||) type::text)::name;
        EXECUTE pg_catalog.format($sql$
CREATE OR REPLACE FUNCTION %4$I.llm_embed_%2$s(
    input text,
    dimensions int DEFAULT NULL,
    normalize_embeddings bool DEFAULT NULL,
    instruction text DEFAULT NULL,
    prompt_name text DEFAULT NULL,
    truncate int DEFAULT NULL,
    long_input text DEFAULT NULL,
    model text DEFAULT NULL,
    params json DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS %3$I.%2$I
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100000
RETURN %1$I.llm_embed(input, dimensions, normalize_embeddings, instruction, prompt_name, truncate, long_input, model,
    params::vllm.json, timeout_ms, lora, on_error)::%3$I.%2$I
$sql$, ours, type, theirs, here);
        EXECUTE pg_catalog.format($sql$
COMMENT ON FUNCTION %2$I.llm_embed_%1$s(text, int, bool, text, text, int, text, text, json, int, text, text) IS
'Embedding of a text as %1$s of pgvector.'
$sql$, type, here);
    END LOOP;
END $do$;
