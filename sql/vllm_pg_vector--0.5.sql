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
