/*
 * vllm_pg_vector--0.5.sql
 *	  Embeddings in the types of pgvector.
 *
 * An extension of its own, as those that join two extensions are: the order in which
 * they are made doesn't matter, each can be dropped with CASCADE without the other, and
 * a dump has them all.  The functions are SQL, which the planner inlines: what is
 * batched, and what is computed once, is as for llm_embed.
 */

\echo Use "CREATE EXTENSION vllm_pg_vector" to load this file. \quit

DO $$
DECLARE
    too_old text := (SELECT string_agg(format('ALTER EXTENSION %I UPDATE', e.extname), '; ' ORDER BY e.extname)
                     FROM pg_catalog.pg_extension e
                     WHERE (e.extname = 'vllm_pg' AND NOT EXISTS (SELECT FROM pg_catalog.pg_proc WHERE pronamespace = e.extnamespace AND proname = 'llm_embed'))
                        OR (e.extname = 'vector' AND NOT EXISTS (SELECT FROM pg_catalog.pg_type WHERE typnamespace = e.extnamespace AND typname = 'halfvec')));
BEGIN
    IF too_old IS NOT NULL THEN
        RAISE EXCEPTION 'vllm_pg_vector needs vllm_pg 0.5 and vector 0.7, or later' USING ERRCODE = 'feature_not_supported', HINT = too_old || ';';
    END IF;
END $$;

CREATE FUNCTION llm_embed_vector(
    input text,
    dimensions int DEFAULT NULL,
    normalize_embeddings bool DEFAULT NULL,
    instruction text DEFAULT NULL,
    prompt_name text DEFAULT NULL,
    truncate int DEFAULT NULL,
    long_input text DEFAULT NULL,
    model text DEFAULT NULL,
    params json DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS vector
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100000
RETURN llm_embed(input, dimensions, normalize_embeddings, instruction, prompt_name, truncate, long_input, model, params, timeout_ms)::vector;

CREATE FUNCTION llm_embed_halfvec(
    input text,
    dimensions int DEFAULT NULL,
    normalize_embeddings bool DEFAULT NULL,
    instruction text DEFAULT NULL,
    prompt_name text DEFAULT NULL,
    truncate int DEFAULT NULL,
    long_input text DEFAULT NULL,
    model text DEFAULT NULL,
    params json DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS halfvec
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100000
RETURN llm_embed(input, dimensions, normalize_embeddings, instruction, prompt_name, truncate, long_input, model, params, timeout_ms)::halfvec;
