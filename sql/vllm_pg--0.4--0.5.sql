/*
 * vllm_pg--0.4--0.5.sql
 *	  Embeddings, scores, labels, and tables that keep themselves embedded.
 */

\echo Use "ALTER EXTENSION vllm_pg UPDATE TO '0.5'" to load this file. \quit

/* ---- embeddings, scores, labels (fn_embed.c, fn_score.c, fn_classify.c) ---- */


/* ---- decisions by log-probability (fn_choose.c) ---- */


/* ---- chunks, nearest neighbours, aggregates (fn_chunk.c, fn_nearest.c, fn_agg.c) ---- */

CREATE FUNCTION vllm.chunk_spans(input text, method text, size int, overlap int, model text) RETURNS int[]
AS 'MODULE_PATHNAME', 'llm_chunk_spans' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000;

CREATE FUNCTION vllm.chunk_rows(input text, spans int[])
RETURNS TABLE (seq int, chunk text, tok_start int, tok_end int)
AS 'MODULE_PATHNAME', 'llm_chunk_rows' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10 ROWS 10;

-- inlined by the planner where it stands in FROM: there its requests are batched
CREATE FUNCTION llm_chunk_text(
    input text,
    method text DEFAULT 'tokens',
    size int DEFAULT NULL,
    overlap int DEFAULT NULL,
    model text DEFAULT NULL)
RETURNS TABLE (seq int, chunk text, tok_start int, tok_end int)
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 1000 ROWS 10
BEGIN ATOMIC
    SELECT r.seq, r.chunk, r.tok_start, r.tok_end
    FROM vllm.chunk_rows(input, vllm.chunk_spans(input, method, size, overlap, model)) r;
END;

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

