/* vllm_pg--0.1--0.2.sql: what 0.2 adds; makes the catalog that vllm_pg--0.2.sql makes */

-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION vllm_pg UPDATE TO '0.2'" to load this file. \quit

-- ---- futures: requests that outlive their statement ----

CREATE FUNCTION llm_submit(
    prompt text,
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
    timeout_ms int DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'llm_submit'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000;

CREATE FUNCTION llm_poll(id bigint) RETURNS bool
AS 'MODULE_PATHNAME', 'llm_poll' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION llm_result(id bigint) RETURNS text
AS 'MODULE_PATHNAME', 'llm_result' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED COST 1000;

CREATE FUNCTION llm_wait(ids bigint[], timeout_ms int DEFAULT NULL) RETURNS bool
AS 'MODULE_PATHNAME', 'llm_wait' LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000;

CREATE FUNCTION llm_discard(id bigint) RETURNS bool
AS 'MODULE_PATHNAME', 'llm_discard' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION vllm.future_list(OUT id bigint, OUT state text, OUT model text, OUT submitted timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_future_list' LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 10;

CREATE VIEW llm_futures AS SELECT id, state, model, submitted FROM vllm.future_list();

GRANT SELECT ON llm_futures TO PUBLIC;

-- ---- many prompts at once ----

CREATE FUNCTION llm_generate_batch(
    prompts text[],
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
    timeout_ms int DEFAULT NULL)
RETURNS SETOF text
AS 'MODULE_PATHNAME', 'llm_generate_batch'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 ROWS 100 SUPPORT pg_catalog.array_unnest_support;

-- it runs any query: never in parallel
CREATE FUNCTION llm_generate_query(
    query text,
    prompt_col name,
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
    timeout_ms int DEFAULT NULL)
RETURNS TABLE ("row" json, output text)
AS 'MODULE_PATHNAME', 'llm_generate_query'
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 1000;

-- ---- how far statements are whose calls are batched ----

CREATE FUNCTION vllm.progress_list(
    OUT pid int, OUT database text, OUT role text, OUT started timestamptz, OUT rows_done bigint,
    OUT in_flight int, OUT requests bigint, OUT deduplicated bigint, OUT prompt_tokens bigint,
    OUT output_tokens bigint, OUT rows_per_s float8, OUT tokens_per_s float8)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_progress_list' LANGUAGE C VOLATILE ROWS 10;

CREATE VIEW llm_progress AS SELECT * FROM vllm.progress_list();

GRANT SELECT ON llm_progress TO PUBLIC;
