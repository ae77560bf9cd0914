/*
 * vllm_pg--0.4--0.5.sql
 *	  Embeddings, scores, labels, and tables that keep themselves embedded.
 */

\echo Use "ALTER EXTENSION vllm_pg UPDATE TO '0.5'" to load this file. \quit

/* ---- embeddings, scores, labels (fn_embed.c, fn_score.c, fn_classify.c) ---- */


/* ---- decisions by log-probability (fn_choose.c) ---- */


/* ---- chunks, nearest neighbours, aggregates (fn_chunk.c, fn_nearest.c, fn_agg.c) ---- */

CREATE FUNCTION llm_cosine_distance(a real[], b real[]) RETURNS float8
AS 'MODULE_PATHNAME', 'llm_cosine_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION llm_l2_distance(a real[], b real[]) RETURNS float8
AS 'MODULE_PATHNAME', 'llm_l2_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION llm_inner_product(a real[], b real[]) RETURNS float8
AS 'MODULE_PATHNAME', 'llm_inner_product' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION llm_binary_quantize(v real[]) RETURNS bit
AS 'MODULE_PATHNAME', 'llm_binary_quantize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION llm_nearest(
    query real[],
    source regclass,
    "column" name,
    k int DEFAULT 10,
    metric text DEFAULT 'cosine',
    filter text DEFAULT NULL,
    codes name DEFAULT NULL,
    oversample int DEFAULT 10)
RETURNS TABLE (distance float8, row_id tid, source_table regclass)
AS 'MODULE_PATHNAME', 'llm_nearest'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 ROWS 10;

CREATE FUNCTION llm_nearest_rows(
    rows anyelement,
    query real[],
    "column" name,
    k int DEFAULT 10,
    metric text DEFAULT 'cosine',
    filter text DEFAULT NULL,
    codes name DEFAULT NULL,
    oversample int DEFAULT 10)
RETURNS SETOF anyelement
AS 'MODULE_PATHNAME', 'llm_nearest_rows'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 ROWS 10;


/* ---- pgvector (fn_vector.c) ---- */


/* ---- jobs (fn_job.c, bgworker/jobs.c) ---- */

