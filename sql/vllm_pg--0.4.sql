/* vllm_pg--0.4.sql: functions, types, views and the model catalog (docs/sql.md) */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION vllm_pg" to load this file. \quit

-- ---- is the library preloaded? ----

CREATE SCHEMA vllm;
GRANT USAGE ON SCHEMA vllm TO PUBLIC;

CREATE FUNCTION vllm.check_preload() RETURNS void
AS 'MODULE_PATHNAME', 'llm_check_preload' LANGUAGE C VOLATILE;

SELECT vllm.check_preload();
DROP FUNCTION vllm.check_preload();

-- ---- the catalog: only functions write it ----

CREATE TABLE vllm.model (
    name name PRIMARY KEY,
    path text,
    options json,
    provider text NOT NULL,
    url text,
    owner regrole NOT NULL,
    grantees regrole[] NOT NULL,    -- '-' is PUBLIC
    bundled bool NOT NULL
);

-- the path has the extension's schema, where others may create: a function without a schema
-- could be theirs, and would run as the superuser that installs
INSERT INTO vllm.model (name, path, provider, owner, grantees, bundled)
VALUES ('tickets-2m', '$libdir/vllm_pg/models/tickets-2m', 'local',
        pg_catalog.quote_ident(current_user::text)::regrole, ARRAY['-'::regrole], true);

REVOKE ALL ON vllm.model FROM PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('vllm.model', 'WHERE NOT bundled');

-- ---- types ----

CREATE TYPE llm_usage AS (
    prompt_tokens int,
    completion_tokens int,
    total_tokens int,
    cached_tokens int,
    reasoning_tokens int
);

CREATE TYPE llm_result AS (
    text text,
    token_ids int[],
    finish_reason text,
    stop_reason text,
    usage llm_usage,
    timings json
);

-- ---- generation ----

CREATE FUNCTION vllm.llm_support(internal) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_support' LANGUAGE C STRICT;

CREATE FUNCTION llm_generate(
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
RETURNS text
AS 'MODULE_PATHNAME', 'llm_generate'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support;

CREATE FUNCTION llm_generate_full(
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
RETURNS llm_result
AS 'MODULE_PATHNAME', 'llm_generate_full'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support;

CREATE FUNCTION llm_generate_stream(
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
RETURNS TABLE (seq int, text text, token_ids int[], finish_reason text)
AS 'MODULE_PATHNAME', 'llm_generate_stream'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 ROWS 256 SUPPORT vllm.llm_support;

-- ---- chat: messages through the model's template ----

CREATE FUNCTION llm_chat(
    messages json,
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
    tools json DEFAULT NULL,
    chat_template text DEFAULT NULL,
    chat_template_kwargs json DEFAULT NULL,
    add_generation_prompt bool DEFAULT NULL,
    continue_final_message bool DEFAULT NULL,
    documents json DEFAULT NULL,
    content_format text DEFAULT NULL)
RETURNS json
AS 'MODULE_PATHNAME', 'llm_chat'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support;

CREATE FUNCTION llm_chat_text(
    messages json,
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
    tools json DEFAULT NULL,
    chat_template text DEFAULT NULL,
    chat_template_kwargs json DEFAULT NULL,
    add_generation_prompt bool DEFAULT NULL,
    continue_final_message bool DEFAULT NULL,
    documents json DEFAULT NULL,
    content_format text DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'llm_chat_text'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support;

CREATE FUNCTION llm_chat_stream(
    messages json,
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
    tools json DEFAULT NULL,
    chat_template text DEFAULT NULL,
    chat_template_kwargs json DEFAULT NULL,
    add_generation_prompt bool DEFAULT NULL,
    continue_final_message bool DEFAULT NULL,
    documents json DEFAULT NULL,
    content_format text DEFAULT NULL)
RETURNS TABLE (seq int, text text, token_ids int[], finish_reason text)
AS 'MODULE_PATHNAME', 'llm_chat_stream'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 ROWS 256 SUPPORT vllm.llm_support;

CREATE FUNCTION llm_ask(
    prompt text,
    system text DEFAULT NULL,
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
AS 'MODULE_PATHNAME', 'llm_ask'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support;

CREATE FUNCTION llm_render_chat(
    messages json,
    tools json DEFAULT NULL,
    chat_template text DEFAULT NULL,
    chat_template_kwargs json DEFAULT NULL,
    add_generation_prompt bool DEFAULT NULL,
    continue_final_message bool DEFAULT NULL,
    documents json DEFAULT NULL,
    model text DEFAULT NULL,
    content_format text DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'llm_render_chat'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000;

CREATE FUNCTION llm_tokenize_chat(
    messages json,
    tools json DEFAULT NULL,
    chat_template text DEFAULT NULL,
    chat_template_kwargs json DEFAULT NULL,
    add_generation_prompt bool DEFAULT NULL,
    continue_final_message bool DEFAULT NULL,
    documents json DEFAULT NULL,
    model text DEFAULT NULL,
    content_format text DEFAULT NULL)
RETURNS int[]
AS 'MODULE_PATHNAME', 'llm_tokenize_chat'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000;

CREATE FUNCTION vllm.chat_agg_step(internal, text, text) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_chat_agg_step' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION vllm.chat_agg_final(internal) RETURNS json
AS 'MODULE_PATHNAME', 'llm_chat_agg_final' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE AGGREGATE llm_chat_agg(role text, content text) (
    SFUNC = vllm.chat_agg_step, STYPE = internal, FINALFUNC = vllm.chat_agg_final, PARALLEL = SAFE
);

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

-- ---- tokenizers ----

CREATE FUNCTION llm_tokenize(
    input text,
    add_special_tokens bool DEFAULT true,
    model text DEFAULT NULL)
RETURNS int[]
AS 'MODULE_PATHNAME', 'llm_tokenize'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000;

CREATE FUNCTION llm_detokenize(
    ids int[],
    skip_special_tokens bool DEFAULT false,
    model text DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'llm_detokenize'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000;

CREATE FUNCTION llm_count_tokens(
    input text,
    model text DEFAULT NULL,
    add_special_tokens bool DEFAULT true)
RETURNS int
AS 'MODULE_PATHNAME', 'llm_count_tokens'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000;

-- ---- models ----

CREATE FUNCTION llm_create_model(
    name text,
    path text DEFAULT NULL,
    options json DEFAULT NULL,
    provider text DEFAULT 'local',
    url text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'llm_create_model' LANGUAGE C VOLATILE;

CREATE FUNCTION llm_inspect_model(path text, options json DEFAULT NULL) RETURNS json
AS 'MODULE_PATHNAME', 'llm_inspect_model' LANGUAGE C VOLATILE;

CREATE FUNCTION llm_drop_model(name text) RETURNS void
AS 'MODULE_PATHNAME', 'llm_drop_model' LANGUAGE C VOLATILE;

CREATE FUNCTION llm_load_model(name text) RETURNS void
AS 'MODULE_PATHNAME', 'llm_load_model' LANGUAGE C VOLATILE;

CREATE FUNCTION llm_unload_model(name text) RETURNS void
AS 'MODULE_PATHNAME', 'llm_unload_model' LANGUAGE C VOLATILE;

CREATE FUNCTION llm_grant(model text, role text) RETURNS void
AS 'MODULE_PATHNAME', 'llm_grant' LANGUAGE C VOLATILE;

CREATE FUNCTION llm_revoke(model text, role text) RETURNS void
AS 'MODULE_PATHNAME', 'llm_revoke' LANGUAGE C VOLATILE;

-- a path is opened by the server's user
REVOKE EXECUTE ON FUNCTION llm_create_model(text, text, json, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION llm_create_model(text, text, json, text, text) TO pg_read_server_files;
REVOKE EXECUTE ON FUNCTION llm_inspect_model(text, json) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION llm_inspect_model(text, json) TO pg_read_server_files;

-- ---- control ----

CREATE FUNCTION llm_cancel(id bigint) RETURNS bool
AS 'MODULE_PATHNAME', 'llm_cancel' LANGUAGE C VOLATILE;

CREATE FUNCTION llm_engine_restart() RETURNS void
AS 'MODULE_PATHNAME', 'llm_engine_restart' LANGUAGE C VOLATILE;

CREATE FUNCTION llm_version() RETURNS text
AS 'MODULE_PATHNAME', 'llm_version' LANGUAGE C STABLE PARALLEL SAFE;

CREATE FUNCTION vllm.control(command text) RETURNS text
AS 'MODULE_PATHNAME', 'llm_control' LANGUAGE C VOLATILE;

REVOKE EXECUTE ON FUNCTION llm_engine_restart() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION vllm.control(text) FROM PUBLIC;

-- ---- views ----

CREATE FUNCTION vllm.model_list(
    OUT name text, OUT path text, OUT arch text, OUT state text, OUT provider text,
    OUT dtype text, OUT progress float8, OUT error text, OUT parameters bigint,
    OUT weight_bytes bigint, OUT max_model_len bigint, OUT kv_blocks_total bigint,
    OUT kv_blocks_used bigint, OUT kv_bytes bigint, OUT running bigint, OUT waiting bigint,
    OUT requests bigint, OUT prompt_tokens bigint, OUT output_tokens bigint,
    OUT preemptions bigint, OUT owner text, OUT grants text[], OUT options json)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_model_list' LANGUAGE C VOLATILE ROWS 10;

CREATE VIEW llm_models AS
    SELECT name, path, arch, state, provider, dtype, progress, error, parameters, weight_bytes,
           max_model_len, kv_blocks_total, kv_blocks_used, running, waiting, owner, grants, options
    FROM vllm.model_list();

CREATE VIEW llm_stat_model AS
    SELECT name, state, requests, prompt_tokens, output_tokens, preemptions, running, waiting,
           kv_blocks_total, kv_blocks_used, kv_bytes, weight_bytes
    FROM vllm.model_list();

CREATE FUNCTION vllm.request_list(
    OUT id bigint, OUT pid int, OUT database text, OUT role text, OUT model text, OUT kind text,
    OUT state text, OUT arrival timestamptz, OUT prompt_tokens bigint, OUT computed_tokens bigint,
    OUT cached_tokens bigint, OUT output_tokens bigint, OUT preemptions bigint, OUT ttft_ms float8)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_request_list' LANGUAGE C VOLATILE ROWS 10;

CREATE VIEW llm_requests AS
    SELECT id, pid, database, role, model, kind, state, arrival,
           clock_timestamp() - arrival AS age, prompt_tokens, computed_tokens, cached_tokens,
           output_tokens, preemptions, ttft_ms
    FROM vllm.request_list();

CREATE FUNCTION vllm.engine_stats(
    OUT state text, OUT pid int, OUT epoch bigint, OUT restarts bigint, OUT started timestamptz,
    OUT last_error text, OUT last_error_at timestamptz, OUT slots_total bigint,
    OUT slots_free bigint, OUT zombies bigint, OUT slot_waiters bigint, OUT claims bigint, OUT cancels bigint, OUT queue_timeouts bigint,
    OUT isa text, OUT threads int, OUT steps bigint, OUT avg_batch float8, OUT max_batch bigint,
    OUT avg_rows float8, OUT step_ms float8, OUT tokens_per_s float8, OUT requests bigint,
    OUT finished bigint, OUT failed bigint, OUT cancelled bigint, OUT prompt_tokens bigint,
    OUT cached_tokens bigint, OUT output_tokens bigint, OUT preemptions bigint, OUT running bigint,
    OUT waiting bigint, OUT kv_blocks_total bigint, OUT kv_blocks_used bigint,
    OUT engine_rss bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_engine_stats' LANGUAGE C VOLATILE ROWS 1;

CREATE VIEW llm_stat_engine AS SELECT * FROM vllm.engine_stats();

GRANT SELECT ON llm_models, llm_stat_model, llm_requests, llm_stat_engine TO PUBLIC;

-- ---- how far statements are whose calls are batched ----

CREATE FUNCTION vllm.progress_list(
    OUT pid int, OUT database text, OUT role text, OUT started timestamptz, OUT rows_done bigint,
    OUT in_flight int, OUT requests bigint, OUT deduplicated bigint, OUT prompt_tokens bigint,
    OUT output_tokens bigint, OUT rows_per_s float8, OUT tokens_per_s float8)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_progress_list' LANGUAGE C VOLATILE ROWS 10;

CREATE VIEW llm_progress AS SELECT * FROM vllm.progress_list();

GRANT SELECT ON llm_progress TO PUBLIC;
