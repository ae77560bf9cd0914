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
-- no policy: members of pg_read_all_data and pg_write_all_data find nothing
ALTER TABLE vllm.secret ENABLE ROW LEVEL SECURITY;

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

/* ---- costs (cost.c) ---- */

CREATE FUNCTION vllm.cost_list(
    OUT userid oid, OUT dbid oid, OUT model text, OUT requests bigint, OUT prompt_tokens bigint, OUT cached_tokens bigint,
    OUT output_tokens bigint, OUT charged_tries bigint, OUT cost numeric, OUT since timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_cost_list' LANGUAGE C VOLATILE STRICT;

CREATE VIEW llm_stat_cost AS
    SELECT r.rolname AS role, d.datname AS database, c.model, c.requests, c.prompt_tokens, c.cached_tokens, c.output_tokens, c.charged_tries,
           c.cost, c.since, c.userid, c.dbid
    FROM vllm.cost_list() c
    LEFT JOIN pg_catalog.pg_roles r ON r.oid = c.userid
    LEFT JOIN pg_catalog.pg_database d ON d.oid = c.dbid;

CREATE FUNCTION vllm.budget_list(OUT userid oid, OUT day numeric, OUT month numeric, OUT total numeric, OUT reserved numeric)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_budget_list' LANGUAGE C VOLATILE STRICT;

CREATE VIEW llm_stat_budget AS
    SELECT r.rolname AS role, b.day, b.month, b.total, b.reserved, b.userid
    FROM vllm.budget_list() b
    LEFT JOIN pg_catalog.pg_roles r ON r.oid = b.userid;

GRANT SELECT ON llm_stat_cost, llm_stat_budget TO PUBLIC;

CREATE FUNCTION llm_cost_reset(userid oid DEFAULT NULL) RETURNS bigint
AS 'MODULE_PATHNAME', 'llm_cost_reset' LANGUAGE C VOLATILE;

REVOKE EXECUTE ON FUNCTION llm_cost_reset(oid) FROM PUBLIC;

/* ---- answers that are kept (result_cache.c) ---- */

-- only C code reads and writes it: answers may be confidential; not in dumps
CREATE TABLE vllm.result_cache (
    key bytea NOT NULL,
    model name NOT NULL,
    role oid NOT NULL,
    created timestamptz NOT NULL,
    bytes bigint NOT NULL,
    reply bytea NOT NULL
);

-- not unique: two sessions that ask at once both keep the answer
CREATE INDEX result_cache_key ON vllm.result_cache (key);
CREATE INDEX result_cache_age ON vllm.result_cache (model, created);

REVOKE ALL ON vllm.result_cache FROM PUBLIC;
-- as vllm.secret: who may read and write all tables finds nothing here, and puts no answer in
ALTER TABLE vllm.result_cache ENABLE ROW LEVEL SECURITY;

CREATE FUNCTION vllm.cache_list(OUT model text, OUT entries bigint, OUT bytes bigint, OUT hits bigint, OUT misses bigint, OUT skipped bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_cache_list' LANGUAGE C VOLATILE STRICT;

CREATE VIEW llm_stat_cache AS SELECT * FROM vllm.cache_list();

GRANT SELECT ON llm_stat_cache TO PUBLIC;

CREATE FUNCTION llm_cache_prune() RETURNS bigint
AS 'MODULE_PATHNAME', 'llm_cache_prune' LANGUAGE C VOLATILE PARALLEL UNSAFE;

REVOKE EXECUTE ON FUNCTION llm_cache_prune() FROM PUBLIC;

CREATE FUNCTION llm_cache_clear(model text DEFAULT NULL) RETURNS bigint
AS 'MODULE_PATHNAME', 'llm_cache_clear' LANGUAGE C VOLATILE PARALLEL UNSAFE;

/* ---- cascades (cascade.c) ---- */

CREATE FUNCTION llm_fit_cascade(logprob float8[], agrees bool[], accuracy float8 DEFAULT 0.95, delta float8 DEFAULT 0.05) RETURNS float8
AS 'MODULE_PATHNAME', 'llm_fit_cascade' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION llm_fit_filter(prob float8[], truth bool[], "precision" float8 DEFAULT 0.95, recall float8 DEFAULT 0.95, delta float8 DEFAULT 0.05,
    OUT accept float8, OUT reject float8, OUT asked float8)
AS 'MODULE_PATHNAME', 'llm_fit_filter' LANGUAGE C IMMUTABLE PARALLEL SAFE;
