/*
 * vllm_pg--0.8--0.9.sql
 *	  Models behind urls.
 */

\echo Use "ALTER EXTENSION vllm_pg UPDATE TO '0.9'" to load this file. \quit

/* ---- secrets (secret.c) ---- */

-- only functions write it and nobody reads it; not in dumps
CREATE TABLE vllm.secret (
    model name PRIMARY KEY,
    secret text NOT NULL
);

REVOKE ALL ON vllm.secret FROM PUBLIC;

CREATE FUNCTION llm_set_secret(model text, secret text) RETURNS void
AS 'MODULE_PATHNAME', 'llm_set_secret' LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION llm_drop_secret(model text) RETURNS bool
AS 'MODULE_PATHNAME', 'llm_drop_secret' LANGUAGE C VOLATILE PARALLEL UNSAFE;

/* ---- models (fn_views.c) ---- */

-- what llm_models has more of models behind urls
CREATE FUNCTION vllm.model_urls(OUT name text, OUT url text, OUT has_secret bool) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_model_urls' LANGUAGE C VOLATILE ROWS 10;

CREATE OR REPLACE VIEW llm_models AS
    SELECT l.name, l.path, l.arch, l.state, l.provider, l.dtype, l.progress, l.error, l.parameters, l.weight_bytes,
           l.max_model_len, l.kv_blocks_total, l.kv_blocks_used, l.running, l.waiting, l.owner, l.grants, l.options,
           m.memory_bytes, m.last_used, m.expires, u.url, u.has_secret
    FROM vllm.model_list() l LEFT JOIN vllm.model_memory() m ON m.name = l.name LEFT JOIN vllm.model_urls() u ON u.name = l.name;

/* ---- endpoints, and the program that asks them (fn_remote.c) ---- */

CREATE FUNCTION vllm.url_list(
    OUT model text, OUT url text, OUT health text, OUT in_flight int, OUT waiting int, OUT calls bigint, OUT failures bigint,
    OUT retries bigint, OUT throttled bigint, OUT avg_latency_ms float8, OUT retry_at timestamptz, OUT last_error text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_url_list' LANGUAGE C VOLATILE ROWS 10;

CREATE VIEW llm_stat_remote AS SELECT * FROM vllm.url_list();

CREATE FUNCTION vllm.remote_state(
    OUT state text, OUT pid int, OUT restarts bigint, OUT started timestamptz, OUT last_error text, OUT last_error_at timestamptz,
    OUT slots_used int, OUT running bigint, OUT waiting bigint, OUT requests bigint, OUT finished bigint, OUT failed bigint,
    OUT cancelled bigint, OUT prompt_tokens bigint, OUT output_tokens bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_remote_state' LANGUAGE C VOLATILE ROWS 1;

CREATE VIEW llm_remote AS SELECT * FROM vllm.remote_state();

GRANT SELECT ON llm_stat_remote, llm_remote TO PUBLIC;
