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


CREATE FUNCTION vllm.reduce(
    inputs text[],
    instruction text,
    combine text,
    split bool,
    max_tokens int,
    temperature float8,
    top_p float8,
    top_k int,
    min_p float8,
    seed bigint,
    stop text[],
    stop_token_ids int[],
    min_tokens int,
    ignore_eos bool,
    params json,
    model text,
    timeout_ms int,
    chat_template text,
    chat_template_kwargs json)
RETURNS text
AS 'MODULE_PATHNAME', 'llm_reduce'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support;

-- inlined by the planner, so that the calls of many rows are batched
CREATE FUNCTION llm_reduce(
    inputs text[],
    instruction text,
    combine text DEFAULT NULL,
    split bool DEFAULT NULL,
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop text[] DEFAULT NULL,
    stop_token_ids int[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    params json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    chat_template text DEFAULT NULL,
    chat_template_kwargs json DEFAULT NULL)
RETURNS text
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support
RETURN vllm.reduce(nullif(array_remove(inputs, NULL), '{}'::text[]), instruction, combine, split, max_tokens, temperature, top_p, top_k, min_p, seed, stop, stop_token_ids, min_tokens, ignore_eos, params, model, timeout_ms, chat_template, chat_template_kwargs);

CREATE FUNCTION vllm.agg_step(internal, text, text) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_agg_step' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION vllm.agg_step(internal, text, text, json) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_agg_step' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION vllm.summarize_step(internal, text) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_summarize_step' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION vllm.summarize_step(internal, text, json) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_summarize_step' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION vllm.agg_combine(internal, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_agg_combine' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION vllm.agg_serial(internal) RETURNS bytea
AS 'MODULE_PATHNAME', 'llm_agg_serial' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vllm.agg_deserial(bytea, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_agg_deserial' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vllm.agg_final(internal) RETURNS text
AS 'MODULE_PATHNAME', 'llm_agg_final' LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000;

CREATE AGGREGATE llm_agg(input text, instruction text) (
    SFUNC = vllm.agg_step, STYPE = internal, FINALFUNC = vllm.agg_final, COMBINEFUNC = vllm.agg_combine,
    SERIALFUNC = vllm.agg_serial, DESERIALFUNC = vllm.agg_deserial, PARALLEL = SAFE
);

CREATE AGGREGATE llm_agg(input text, instruction text, params json) (
    SFUNC = vllm.agg_step, STYPE = internal, FINALFUNC = vllm.agg_final, COMBINEFUNC = vllm.agg_combine,
    SERIALFUNC = vllm.agg_serial, DESERIALFUNC = vllm.agg_deserial, PARALLEL = SAFE
);

CREATE AGGREGATE llm_summarize_agg(input text) (
    SFUNC = vllm.summarize_step, STYPE = internal, FINALFUNC = vllm.agg_final, COMBINEFUNC = vllm.agg_combine,
    SERIALFUNC = vllm.agg_serial, DESERIALFUNC = vllm.agg_deserial, PARALLEL = SAFE
);

CREATE AGGREGATE llm_summarize_agg(input text, params json) (
    SFUNC = vllm.summarize_step, STYPE = internal, FINALFUNC = vllm.agg_final, COMBINEFUNC = vllm.agg_combine,
    SERIALFUNC = vllm.agg_serial, DESERIALFUNC = vllm.agg_deserial, PARALLEL = SAFE
);

/* ---- pgvector (fn_vector.c) ---- */


/* ---- jobs (fn_job.c, bgworker/jobs.c) ---- */

