/*
 * vllm_pg--0.9.sql
 *	  What 0.9 installed, as it was: the scripts of its versions one behind the other.
 *
 * make install leaves it out; tests/t/030_upgrade.pl puts it beside the extension that it tests.
 */

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
/*
 * vllm_pg--0.4--0.5.sql
 *	  Embeddings, scores, labels, and tables that keep themselves embedded.
 */

\echo Use "ALTER EXTENSION vllm_pg UPDATE TO '0.5'" to load this file. \quit

/* ---- embeddings, scores, labels (fn_embed.c, fn_score.c, fn_classify.c) ---- */

CREATE TYPE llm_label AS (index int, label text, prob real);
CREATE TYPE llm_ranked AS (id text, relevance_score real, document text);
CREATE TYPE vllm.token_scores AS (labels text[], scores real[], offsets int[]);

CREATE FUNCTION vllm.llm_pool_support(internal) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_pool_support' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION llm_embed(
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
RETURNS real[]
AS 'MODULE_PATHNAME', 'llm_embed'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION llm_embed_multi(
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
RETURNS real[]
AS 'MODULE_PATHNAME', 'llm_embed_multi'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION llm_embed_batch(
    inputs text[],
    dimensions int DEFAULT NULL,
    normalize_embeddings bool DEFAULT NULL,
    instruction text DEFAULT NULL,
    prompt_name text DEFAULT NULL,
    truncate int DEFAULT NULL,
    long_input text DEFAULT NULL,
    model text DEFAULT NULL,
    params json DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS SETOF real[]
AS 'MODULE_PATHNAME', 'llm_embed_batch'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 ROWS 100;

CREATE FUNCTION vllm.embedding_bytes(embedding real[], dtype text, endian text) RETURNS bytea
AS 'MODULE_PATHNAME', 'llm_embedding_bytes' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION llm_embed_bytes(
    input text,
    dtype text DEFAULT 'float32',
    endian text DEFAULT 'little',
    dimensions int DEFAULT NULL,
    normalize_embeddings bool DEFAULT NULL,
    instruction text DEFAULT NULL,
    prompt_name text DEFAULT NULL,
    truncate int DEFAULT NULL,
    long_input text DEFAULT NULL,
    model text DEFAULT NULL,
    params json DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS bytea
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100000
RETURN vllm.embedding_bytes(llm_embed(input, dimensions, normalize_embeddings, instruction, prompt_name, truncate, long_input, model, params, timeout_ms), dtype, endian);

CREATE FUNCTION llm_encode(
    input text,
    task text,
    dimensions int DEFAULT NULL,
    use_activation bool DEFAULT NULL,
    step_tag_id int DEFAULT NULL,
    returned_token_ids int[] DEFAULT NULL,
    instruction text DEFAULT NULL,
    prompt_name text DEFAULT NULL,
    truncate int DEFAULT NULL,
    long_input text DEFAULT NULL,
    model text DEFAULT NULL,
    params json DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS real[]
AS 'MODULE_PATHNAME', 'llm_encode'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION llm_submit_embed(
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
RETURNS bigint
AS 'MODULE_PATHNAME', 'llm_submit_embed'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION llm_result_embedding(id bigint) RETURNS real[]
AS 'MODULE_PATHNAME', 'llm_result_embedding' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION llm_similarity(
    a text,
    b text,
    model text DEFAULT NULL,
    params json DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS real
AS 'MODULE_PATHNAME', 'llm_similarity'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION llm_score(
    query text,
    document text,
    use_activation bool DEFAULT NULL,
    instruction text DEFAULT NULL,
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params json DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS real
AS 'MODULE_PATHNAME', 'llm_score'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION llm_score_batch(
    query text,
    documents text[],
    use_activation bool DEFAULT NULL,
    instruction text DEFAULT NULL,
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params json DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS real[]
AS 'MODULE_PATHNAME', 'llm_score_batch'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION llm_score_pairs(
    a text[],
    b text[],
    use_activation bool DEFAULT NULL,
    instruction text DEFAULT NULL,
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params json DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS real[]
AS 'MODULE_PATHNAME', 'llm_score_pairs'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION vllm.rerank_limit(top_n int) RETURNS bigint
AS 'MODULE_PATHNAME', 'llm_rerank_limit' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION llm_rerank(
    query text,
    documents text[],
    top_n int DEFAULT 0,
    use_activation bool DEFAULT NULL,
    instruction text DEFAULT NULL,
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params json DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS TABLE (index int, relevance_score real, document text)
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 1000000 ROWS 10
BEGIN ATOMIC
    SELECT d.at::int, llm_score(query, d.text, use_activation, instruction, truncate, model, params, timeout_ms) AS score, d.text
    FROM unnest(documents) WITH ORDINALITY AS d (text, at)
    WHERE query IS NOT NULL
    ORDER BY score DESC NULLS LAST, d.at
    LIMIT vllm.rerank_limit(top_n);
END;

CREATE FUNCTION vllm.rerank_agg_step(internal, text, "any", text) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_rerank_agg_step' LANGUAGE C STABLE PARALLEL SAFE;

CREATE FUNCTION vllm.rerank_agg_step(internal, text, "any", text, int) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_rerank_agg_step' LANGUAGE C STABLE PARALLEL SAFE;

CREATE FUNCTION vllm.rerank_agg_step(internal, text, "any", text, int, text) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_rerank_agg_step' LANGUAGE C STABLE PARALLEL SAFE;

CREATE FUNCTION vllm.rerank_agg_combine(internal, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_rerank_agg_combine' LANGUAGE C STABLE PARALLEL SAFE;

CREATE FUNCTION vllm.rerank_agg_write(internal) RETURNS bytea
AS 'MODULE_PATHNAME', 'llm_rerank_agg_write' LANGUAGE C STABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vllm.rerank_agg_read(bytea, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_rerank_agg_read' LANGUAGE C STABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vllm.rerank_agg_final(internal) RETURNS llm_ranked[]
AS 'MODULE_PATHNAME', 'llm_rerank_agg_final' LANGUAGE C STABLE PARALLEL SAFE;

CREATE AGGREGATE llm_rerank_agg(query text, id "any", document text) (
    SFUNC = vllm.rerank_agg_step, STYPE = internal, FINALFUNC = vllm.rerank_agg_final,
    COMBINEFUNC = vllm.rerank_agg_combine, SERIALFUNC = vllm.rerank_agg_write,
    DESERIALFUNC = vllm.rerank_agg_read, PARALLEL = SAFE
);

CREATE AGGREGATE llm_rerank_agg(query text, id "any", document text, top_n int) (
    SFUNC = vllm.rerank_agg_step, STYPE = internal, FINALFUNC = vllm.rerank_agg_final,
    COMBINEFUNC = vllm.rerank_agg_combine, SERIALFUNC = vllm.rerank_agg_write,
    DESERIALFUNC = vllm.rerank_agg_read, PARALLEL = SAFE
);

CREATE AGGREGATE llm_rerank_agg(query text, id "any", document text, top_n int, model text) (
    SFUNC = vllm.rerank_agg_step, STYPE = internal, FINALFUNC = vllm.rerank_agg_final,
    COMBINEFUNC = vllm.rerank_agg_combine, SERIALFUNC = vllm.rerank_agg_write,
    DESERIALFUNC = vllm.rerank_agg_read, PARALLEL = SAFE
);

CREATE FUNCTION vllm.classify(
    input text,
    use_activation bool DEFAULT NULL,
    top int DEFAULT NULL,
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params json DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS llm_label[]
AS 'MODULE_PATHNAME', 'llm_classify_labels'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION llm_classify(
    input text,
    use_activation bool DEFAULT NULL,
    top int DEFAULT NULL,
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params json DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS TABLE (index int, label text, prob real)
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100000 ROWS 5
BEGIN ATOMIC
    SELECT l.index, l.label, l.prob
    FROM unnest((vllm.classify(input, use_activation, top, truncate, model, params, timeout_ms))[:COALESCE(top, 2147483647)]) AS l;
END;

CREATE FUNCTION llm_class(
    input text,
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params json DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'llm_class'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION llm_classify_probs(
    input text,
    use_activation bool DEFAULT NULL,
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params json DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS real[]
AS 'MODULE_PATHNAME', 'llm_classify_probs'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION vllm.token_scores(
    input text,
    aggregation text DEFAULT NULL,
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params json DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS vllm.token_scores
AS 'MODULE_PATHNAME', 'llm_token_scores'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION vllm.token_labels(scores vllm.token_scores, input text, aggregation text)
RETURNS TABLE (pos int, token text, start int, stop int, label text, score real)
AS 'MODULE_PATHNAME', 'llm_token_labels' LANGUAGE C IMMUTABLE PARALLEL SAFE ROWS 20;

CREATE FUNCTION llm_token_classify(
    input text,
    aggregation text DEFAULT 'none',
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params json DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS TABLE (pos int, token text, start int, stop int, label text, score real)
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100000 ROWS 20
BEGIN ATOMIC
    SELECT t.pos, t.token, t.start, t.stop, t.label, t.score
    FROM vllm.token_labels(vllm.token_scores(input, aggregation, truncate, model, params, timeout_ms), input, aggregation) AS t;
END;

CREATE FUNCTION llm_reward(
    input text,
    use_activation bool DEFAULT NULL,
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params json DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS real
AS 'MODULE_PATHNAME', 'llm_reward'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION llm_reward_tokens(
    input text,
    use_activation bool DEFAULT NULL,
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params json DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS real[]
AS 'MODULE_PATHNAME', 'llm_reward_tokens'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION llm_reward_steps(
    input text,
    step_tag_id int,
    returned_token_ids int[] DEFAULT NULL,
    use_activation bool DEFAULT NULL,
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params json DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS real[]
AS 'MODULE_PATHNAME', 'llm_reward_steps'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_pool_support;


/* ---- decisions by log-probability (fn_choose.c) ---- */

CREATE TYPE llm_choice AS (label text, logprob float8, prob float8);
CREATE TYPE vllm.loglikelihood AS (logprob float8, tokens int, is_greedy bool);

CREATE FUNCTION vllm.llm_choose_support(internal) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_choose_support' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION llm_choose(
    prompt text,
    labels text[],
    normalization text DEFAULT 'sum',
    chat bool DEFAULT false,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'llm_choose'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_choose_support;

CREATE FUNCTION vllm.choices(
    prompt text,
    labels text[],
    normalization text DEFAULT 'sum',
    chat bool DEFAULT false,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS llm_choice[]
AS 'MODULE_PATHNAME', 'llm_choices'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_choose_support;

CREATE FUNCTION llm_choice_probs(
    prompt text,
    labels text[],
    normalization text DEFAULT 'sum',
    chat bool DEFAULT false,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS TABLE (label text, logprob float8, prob float8)
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100000 ROWS 5
BEGIN ATOMIC
    SELECT c.label, c.logprob, c.prob
    FROM unnest(vllm.choices(prompt, labels, normalization, chat, model, timeout_ms)) AS c;
END;

CREATE FUNCTION llm_filter(
    instruction text,
    input text,
    threshold float8 DEFAULT 0.5,
    model text DEFAULT NULL,
    template text DEFAULT NULL,
    chat bool DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS bool
AS 'MODULE_PATHNAME', 'llm_filter'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_choose_support;

CREATE FUNCTION llm_filter_prob(
    instruction text,
    input text,
    model text DEFAULT NULL,
    template text DEFAULT NULL,
    chat bool DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS float8
AS 'MODULE_PATHNAME', 'llm_filter_prob'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_choose_support;

CREATE FUNCTION vllm.loglikelihood(
    context text,
    continuation text,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS vllm.loglikelihood
AS 'MODULE_PATHNAME', 'llm_loglikelihood'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_choose_support;

CREATE FUNCTION llm_loglikelihood(
    context text,
    continuation text,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS TABLE (logprob float8, tokens int, is_greedy bool)
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100000 ROWS 1
BEGIN ATOMIC
    SELECT l.logprob, l.tokens, l.is_greedy
    FROM vllm.loglikelihood(context, continuation, model, timeout_ms) AS l;
END;

CREATE FUNCTION llm_perplexity(
    input text,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS float8
AS 'MODULE_PATHNAME', 'llm_perplexity'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_choose_support;

CREATE FUNCTION llm_format(template text, VARIADIC args "any") RETURNS text
AS 'MODULE_PATHNAME', 'llm_format' LANGUAGE C STABLE PARALLEL SAFE;

CREATE FUNCTION llm_format(template text) RETURNS text
AS 'MODULE_PATHNAME', 'llm_format' LANGUAGE C STABLE PARALLEL SAFE;


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

-- NaN is greater than any number: a vector of zeros would be similar to everything
CREATE FUNCTION llm_similarity(a real[], b real[]) RETURNS real
LANGUAGE sql IMMUTABLE PARALLEL SAFE COST 10
RETURN NULLIF(1 - llm_cosine_distance(a, b), 'NaN'::float8)::real;

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


-- a text is embedded once
CREATE FUNCTION llm_nearest(
    query text,
    source regclass,
    "column" name,
    k int DEFAULT 10,
    metric text DEFAULT 'cosine',
    filter text DEFAULT NULL,
    codes name DEFAULT NULL,
    oversample int DEFAULT 10,
    model text DEFAULT NULL,
    prompt_name text DEFAULT NULL,
    instruction text DEFAULT NULL)
RETURNS TABLE (distance float8, row_id tid, source_table regclass)
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 200000 ROWS 10
BEGIN ATOMIC
    SELECT n.distance, n.row_id, n.source_table
    FROM llm_nearest(llm_embed(query, prompt_name => prompt_name, instruction => instruction, model => model),
                     source, "column", k, metric, filter, codes, oversample) n;
END;

-- polymorphic, so the body is a string
CREATE FUNCTION llm_nearest_rows(
    rows anyelement,
    query text,
    "column" name,
    k int DEFAULT 10,
    metric text DEFAULT 'cosine',
    filter text DEFAULT NULL,
    codes name DEFAULT NULL,
    oversample int DEFAULT 10,
    model text DEFAULT NULL,
    prompt_name text DEFAULT NULL,
    instruction text DEFAULT NULL)
RETURNS SETOF anyelement
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 200000 ROWS 10
AS $$
    SELECT * FROM @extschema@.llm_nearest_rows($1, @extschema@.llm_embed($2, prompt_name => $10, instruction => $11, model => $9),
                                               $3, $4, $5, $6, $7, $8)
$$;

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

-- without NULLs, of one dimension; NULL if there are none
CREATE FUNCTION vllm.reduce_texts(inputs text[]) RETURNS text[]
AS 'MODULE_PATHNAME', 'llm_reduce_texts' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

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
RETURN vllm.reduce(vllm.reduce_texts(inputs), instruction, combine, split, max_tokens, temperature, top_p, top_k, min_p, seed, stop, stop_token_ids, min_tokens, ignore_eos, params, model, timeout_ms, chat_template, chat_template_kwargs);

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

/* ---- pgvector: see vllm_pg_vector--0.5.sql ---- */


/* ---- jobs (fn_job.c, fn_trigger.c, bgworker/jobs.c; docs/jobs.md) ---- */

-- what is to be kept up to date; only functions write it
CREATE TABLE vllm.job (
    id int PRIMARY KEY,
    name name NOT NULL UNIQUE,
    kind text NOT NULL,             -- embedding, completion
    owner regrole NOT NULL,
    source regclass NOT NULL,
    key_columns name[] NOT NULL,    -- the primary key
    input_columns name[] NOT NULL,  -- what the input is made of
    input text NOT NULL,            -- SQL expression, the row's alias is src
    target_column name,
    target_table regclass,
    model text NOT NULL,
    function text NOT NULL,         -- of the extension
    arguments text NOT NULL,        -- of its call, as SQL
    chunking text NOT NULL,
    chunk_size int,
    chunk_overlap int,
    max_attempts int NOT NULL,
    priority int NOT NULL,          -- higher ones are served first
    batch_size int,                 -- NULL: vllm.job_batch_size
    schedule text,                  -- from-until in a day's minutes, as HH:MM-HH:MM
    state text NOT NULL,            -- active, paused, failed
    reason text,                    -- of failed
    created timestamptz NOT NULL,
    UNIQUE (source, target_column),
    UNIQUE (target_table)
);

CREATE SEQUENCE vllm.job_id_seq AS int OWNED BY vllm.job.id;

-- rows whose input has changed: writers append, the worker folds, leases and removes them
CREATE TABLE vllm.job_queue (
    job int NOT NULL,
    id bigint NOT NULL,
    hash bigint NOT NULL,           -- of the key
    key text[],                     -- NULL: the source was truncated
    queued timestamptz NOT NULL,
    attempts int NOT NULL,
    due timestamptz,                -- not before; NULL = now
    worker int,                     -- who has it
    lease_until timestamptz,
    PRIMARY KEY (job, id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

CREATE INDEX job_queue_hash_idx ON vllm.job_queue (job, hash);

CREATE SEQUENCE vllm.job_queue_id_seq OWNED BY vllm.job_queue.id;

-- rows that were given up
CREATE TABLE vllm.job_failure (
    job int NOT NULL,
    hash bigint NOT NULL,
    key text[] NOT NULL,
    attempts int NOT NULL,
    sqlstate text NOT NULL,
    message text NOT NULL,
    failed timestamptz NOT NULL,
    PRIMARY KEY (job, hash, key)
);

CREATE TABLE vllm.job_stat (
    job int PRIMARY KEY,
    done bigint NOT NULL DEFAULT 0,
    claimed bigint NOT NULL DEFAULT 0,      -- rows taken, again ones included
    rate float8 NOT NULL DEFAULT 0,         -- rows/s at last_done, fading with 10 s
    last_done timestamptz,
    last_error text,
    last_error_at timestamptz,
    backfill text,                          -- missing, all: running; NULL: none
    backfill_key text[],                    -- as far as it has come
    backfill_rows bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

SELECT pg_catalog.pg_extension_config_dump('vllm.job', '');
SELECT pg_catalog.pg_extension_config_dump('vllm.job_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('vllm.job_queue', '');
SELECT pg_catalog.pg_extension_config_dump('vllm.job_queue_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('vllm.job_failure', '');
SELECT pg_catalog.pg_extension_config_dump('vllm.job_stat', '');

-- the worker hears of every change, of a restore's COPY, too
CREATE FUNCTION vllm.job_wake() RETURNS trigger
AS 'MODULE_PATHNAME', 'llm_job_wake' LANGUAGE C;

CREATE TRIGGER wake AFTER INSERT OR UPDATE OR DELETE ON vllm.job
FOR EACH STATEMENT EXECUTE FUNCTION vllm.job_wake();

-- on sources: (job's name)
CREATE FUNCTION vllm.job_changed() RETURNS trigger
AS 'MODULE_PATHNAME', 'llm_job_changed' LANGUAGE C;

CREATE FUNCTION vllm.job_ddl() RETURNS event_trigger
AS 'MODULE_PATHNAME', 'llm_job_ddl' LANGUAGE C;

CREATE EVENT TRIGGER vllm_job_drop ON sql_drop EXECUTE FUNCTION vllm.job_ddl();
CREATE EVENT TRIGGER vllm_job_ddl ON ddl_command_end
WHEN TAG IN ('ALTER TABLE', 'CREATE TABLE', 'CREATE TRIGGER') EXECUTE FUNCTION vllm.job_ddl();

CREATE FUNCTION llm_create_embedding_job(
    source regclass,
    input text DEFAULT NULL,
    target_column name DEFAULT NULL,
    target_table text DEFAULT NULL,
    model text DEFAULT NULL,
    chunking text DEFAULT 'none',
    chunk_size int DEFAULT NULL,
    overlap int DEFAULT NULL,
    dimensions int DEFAULT NULL,
    instruction text DEFAULT NULL,
    prompt_name text DEFAULT NULL,
    options json DEFAULT NULL,
    columns name[] DEFAULT NULL,
    template text DEFAULT NULL,
    name name DEFAULT NULL,
    backfill text DEFAULT 'missing',
    max_attempts int DEFAULT 5)
RETURNS name
AS 'MODULE_PATHNAME', 'llm_create_embedding_job' LANGUAGE C VOLATILE;

CREATE FUNCTION llm_create_completion_job(
    source regclass,
    template text DEFAULT NULL,
    target_column name DEFAULT NULL,
    max_tokens int DEFAULT NULL,
    model text DEFAULT NULL,
    options json DEFAULT NULL,
    input text DEFAULT NULL,
    name name DEFAULT NULL,
    backfill text DEFAULT 'missing',
    max_attempts int DEFAULT 5)
RETURNS name
AS 'MODULE_PATHNAME', 'llm_create_completion_job' LANGUAGE C VOLATILE;

-- NULL: as it is
CREATE FUNCTION llm_alter_job(
    name name,
    model text DEFAULT NULL,
    input text DEFAULT NULL,
    columns name[] DEFAULT NULL,
    template text DEFAULT NULL,
    chunking text DEFAULT NULL,
    chunk_size int DEFAULT NULL,
    overlap int DEFAULT NULL,
    dimensions int DEFAULT NULL,
    instruction text DEFAULT NULL,
    prompt_name text DEFAULT NULL,
    max_tokens int DEFAULT NULL,
    options json DEFAULT NULL,
    max_attempts int DEFAULT NULL,
    priority int DEFAULT NULL,
    batch_size int DEFAULT NULL,
    schedule text DEFAULT NULL,
    enabled bool DEFAULT NULL,
    backfill text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'llm_alter_job' LANGUAGE C VOLATILE;

CREATE FUNCTION llm_drop_job(name name) RETURNS void
AS 'MODULE_PATHNAME', 'llm_drop_job' LANGUAGE C VOLATILE;

CREATE FUNCTION llm_pause_job(name name) RETURNS void
AS 'MODULE_PATHNAME', 'llm_pause_job' LANGUAGE C VOLATILE;

CREATE FUNCTION llm_resume_job(name name) RETURNS void
AS 'MODULE_PATHNAME', 'llm_resume_job' LANGUAGE C VOLATILE;

CREATE FUNCTION llm_retry_job(name name, key text[] DEFAULT NULL) RETURNS bigint
AS 'MODULE_PATHNAME', 'llm_retry_job' LANGUAGE C VOLATILE;

CREATE FUNCTION llm_backfill_job(name name, rows text DEFAULT 'all') RETURNS void
AS 'MODULE_PATHNAME', 'llm_backfill_job' LANGUAGE C VOLATILE;

CREATE FUNCTION llm_generate_trigger() RETURNS trigger
AS 'MODULE_PATHNAME', 'llm_generate_trigger' LANGUAGE C;

CREATE FUNCTION llm_embed_trigger() RETURNS trigger
AS 'MODULE_PATHNAME', 'llm_embed_trigger' LANGUAGE C;

CREATE VIEW llm_jobs WITH (security_barrier) AS
SELECT j.name, j.kind, j.source, j.input, coalesce(j.target_column::text, j.target_table::text) AS target,
    j.model, j.owner, j.state, q.queued, q.in_flight, f.failed, s.done,
    q.lag,
    s.rate * exp(-least(extract(epoch FROM clock_timestamp() - s.last_done)::float8 / 10, 700)) AS rate,
    coalesce(s.backfill, 'done') AS backfill, s.backfill_rows,
    greatest(c.reltuples, 0)::bigint AS source_rows_estimate,
    coalesce(j.reason, s.last_error) AS last_error, s.last_error_at, s.last_done, j.created,
    j.priority, j.batch_size, j.schedule
FROM vllm.job j
JOIN vllm.job_stat s ON s.job = j.id
LEFT JOIN pg_catalog.pg_class c ON c.oid = j.source
CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE worker IS NULL) AS queued,
        count(*) FILTER (WHERE worker IS NOT NULL) AS in_flight,
        clock_timestamp() - min(queued) AS lag
    FROM vllm.job_queue WHERE job_queue.job = j.id) q
CROSS JOIN LATERAL (SELECT count(*) AS failed FROM vllm.job_failure WHERE job_failure.job = j.id) f
WHERE pg_catalog.pg_has_role(j.owner::oid, 'USAGE') OR pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE');

CREATE VIEW llm_job_failures WITH (security_barrier) AS
SELECT j.name, j.source, f.key, f.attempts, f.sqlstate, f.message, f.failed
FROM vllm.job_failure f
JOIN vllm.job j ON j.id = f.job
WHERE pg_catalog.pg_has_role(j.owner::oid, 'USAGE');

GRANT SELECT ON llm_jobs, llm_job_failures TO PUBLIC;

/*
 * vllm_pg--0.5--0.6.sql
 *	  Answers that fit: sampling, structured output, tools, reasoning.
 */

\echo Use "ALTER EXTENSION vllm_pg UPDATE TO '0.6'" to load this file. \quit

/* ---- grammars (fn_grammar.c) ---- */

CREATE FUNCTION llm_grammar_accepts(schema json, instance text) RETURNS bool
AS 'MODULE_PATHNAME', 'llm_grammar_accepts' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000;

-- ---- options of functions (options.def) ----
--
-- Functions get new arguments and stay what they are: views, grants and comments go on.
-- Each is declared anew under another name, its signature moves to the old one's row, and
-- the new one goes.  Calls in views and plans hold the arguments that were written; the planner
-- adds the defaults.

CREATE FUNCTION vllm.new_llm_generate(
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
    timeout_ms int DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids int[] DEFAULT NULL,
    json_schema json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'llm_generate' LANGUAGE C;

CREATE FUNCTION vllm.new_llm_generate_full(
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
    timeout_ms int DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids int[] DEFAULT NULL,
    json_schema json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL)
RETURNS llm_result
AS 'MODULE_PATHNAME', 'llm_generate_full' LANGUAGE C;

CREATE FUNCTION vllm.new_llm_generate_stream(
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
    timeout_ms int DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids int[] DEFAULT NULL,
    json_schema json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    stream_interval int DEFAULT NULL)
RETURNS TABLE (seq int, text text, token_ids int[], finish_reason text)
AS 'MODULE_PATHNAME', 'llm_generate_stream' LANGUAGE C;

CREATE FUNCTION vllm.new_llm_chat(
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
    content_format text DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids int[] DEFAULT NULL,
    json_schema json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    tool_choice json DEFAULT NULL,
    parallel_tool_calls bool DEFAULT NULL,
    include_reasoning bool DEFAULT NULL,
    reasoning_effort text DEFAULT NULL,
    thinking_token_budget int DEFAULT NULL)
RETURNS json
AS 'MODULE_PATHNAME', 'llm_chat' LANGUAGE C;

CREATE FUNCTION vllm.new_llm_chat_text(
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
    content_format text DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids int[] DEFAULT NULL,
    json_schema json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    tool_choice json DEFAULT NULL,
    parallel_tool_calls bool DEFAULT NULL,
    include_reasoning bool DEFAULT NULL,
    reasoning_effort text DEFAULT NULL,
    thinking_token_budget int DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'llm_chat_text' LANGUAGE C;

CREATE FUNCTION vllm.new_llm_chat_stream(
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
    content_format text DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids int[] DEFAULT NULL,
    json_schema json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    tool_choice json DEFAULT NULL,
    parallel_tool_calls bool DEFAULT NULL,
    include_reasoning bool DEFAULT NULL,
    reasoning_effort text DEFAULT NULL,
    thinking_token_budget int DEFAULT NULL,
    stream_interval int DEFAULT NULL)
RETURNS TABLE (seq int, text text, token_ids int[], finish_reason text)
AS 'MODULE_PATHNAME', 'llm_chat_stream' LANGUAGE C;

CREATE FUNCTION vllm.new_llm_ask(
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
    chat_template_kwargs json DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids int[] DEFAULT NULL,
    json_schema json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'llm_ask' LANGUAGE C;

CREATE FUNCTION vllm.new_llm_submit(
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
    timeout_ms int DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids int[] DEFAULT NULL,
    json_schema json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'llm_submit' LANGUAGE C;

CREATE FUNCTION vllm.new_llm_generate_batch(
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
    timeout_ms int DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids int[] DEFAULT NULL,
    json_schema json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL)
RETURNS SETOF text
AS 'MODULE_PATHNAME', 'llm_generate_batch' LANGUAGE C;

CREATE FUNCTION vllm.new_llm_generate_query(
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
    timeout_ms int DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids int[] DEFAULT NULL,
    json_schema json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL)
RETURNS TABLE ("row" json, output text)
AS 'MODULE_PATHNAME', 'llm_generate_query' LANGUAGE C;

CREATE FUNCTION vllm.new_reduce(
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
    chat_template_kwargs json,
    presence_penalty float8,
    frequency_penalty float8,
    repetition_penalty float8,
    logit_bias json,
    bad_words text[],
    allowed_token_ids int[],
    json_schema json,
    regex text,
    choice text[],
    grammar text,
    priority int,
    cache_salt text,
    truncate int)
RETURNS text
AS 'MODULE_PATHNAME', 'llm_reduce' LANGUAGE C;

UPDATE pg_catalog.pg_proc old
SET pronargs = new.pronargs, pronargdefaults = new.pronargdefaults, proargtypes = new.proargtypes,
    proallargtypes = new.proallargtypes, proargmodes = new.proargmodes, proargnames = new.proargnames,
    proargdefaults = new.proargdefaults
FROM pg_catalog.pg_proc new
WHERE new.pronamespace = 'vllm'::pg_catalog.regnamespace AND new.proname ~ '^new_'
AND old.proname = pg_catalog.substr(new.proname, 5)
AND old.oid IN (SELECT objid FROM pg_catalog.pg_depend
                WHERE classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND deptype = 'e'
                AND refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass
                AND refobjid = (SELECT oid FROM pg_catalog.pg_extension WHERE extname = 'vllm_pg'));

DROP FUNCTION vllm.new_llm_generate;
DROP FUNCTION vllm.new_llm_generate_full;
DROP FUNCTION vllm.new_llm_generate_stream;
DROP FUNCTION vllm.new_llm_chat;
DROP FUNCTION vllm.new_llm_chat_text;
DROP FUNCTION vllm.new_llm_chat_stream;
DROP FUNCTION vllm.new_llm_ask;
DROP FUNCTION vllm.new_llm_submit;
DROP FUNCTION vllm.new_llm_generate_batch;
DROP FUNCTION vllm.new_llm_generate_query;
DROP FUNCTION vllm.new_reduce;

-- its body calls the other with the new arguments
CREATE FUNCTION vllm.new_llm_reduce(
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
    chat_template_kwargs json DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids int[] DEFAULT NULL,
    json_schema json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL)
RETURNS text
LANGUAGE sql VOLATILE PARALLEL RESTRICTED
RETURN vllm.reduce(vllm.reduce_texts(inputs), instruction, combine, split, max_tokens, temperature, top_p, top_k, min_p, seed,
    stop, stop_token_ids, min_tokens, ignore_eos, params, model, timeout_ms, chat_template, chat_template_kwargs,
    presence_penalty, frequency_penalty, repetition_penalty, logit_bias, bad_words, allowed_token_ids,
    json_schema, regex, choice, grammar, priority, cache_salt, truncate);

UPDATE pg_catalog.pg_proc old
SET pronargs = new.pronargs, pronargdefaults = new.pronargdefaults, proargtypes = new.proargtypes,
    proallargtypes = new.proallargtypes, proargmodes = new.proargmodes, proargnames = new.proargnames,
    proargdefaults = new.proargdefaults, prosqlbody = new.prosqlbody
FROM pg_catalog.pg_proc new
WHERE new.pronamespace = 'vllm'::pg_catalog.regnamespace AND new.proname ~ '^new_'
AND old.proname = pg_catalog.substr(new.proname, 5)
AND old.oid IN (SELECT objid FROM pg_catalog.pg_depend
                WHERE classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND deptype = 'e'
                AND refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass
                AND refobjid = (SELECT oid FROM pg_catalog.pg_extension WHERE extname = 'vllm_pg'));

DROP FUNCTION vllm.new_llm_reduce;

CREATE FUNCTION llm_submit_chat(
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
    content_format text DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids int[] DEFAULT NULL,
    json_schema json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    tool_choice json DEFAULT NULL,
    parallel_tool_calls bool DEFAULT NULL,
    include_reasoning bool DEFAULT NULL,
    reasoning_effort text DEFAULT NULL,
    thinking_token_budget int DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'llm_submit_chat'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000;

/* ---- SQL types as schemas (type_shape.c, fn_generate_as.c) ---- */

CREATE FUNCTION llm_type_schema(type regtype, readable bool DEFAULT false) RETURNS json
AS 'MODULE_PATHNAME', 'llm_type_schema' LANGUAGE C STABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vllm.from_json(instance json, sample anyelement) RETURNS anyelement
AS 'MODULE_PATHNAME', 'llm_from_json' LANGUAGE C STABLE PARALLEL SAFE;

CREATE FUNCTION llm_generate_json(
    prompt text,
    schema json,
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias json DEFAULT NULL,
    on_error text DEFAULT 'error',
    params json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL)
RETURNS json
AS 'MODULE_PATHNAME', 'llm_generate_json'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000000 SUPPORT vllm.llm_support;

CREATE FUNCTION llm_generate_as(
    prompt text,
    sample anyelement,
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias json DEFAULT NULL,
    on_error text DEFAULT 'error',
    params json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL)
RETURNS anyelement
AS 'MODULE_PATHNAME', 'llm_generate_as'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000000 SUPPORT vllm.llm_support;

CREATE FUNCTION llm_extract(
    input text,
    sample anyelement,
    instruction text DEFAULT NULL,
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias json DEFAULT NULL,
    on_error text DEFAULT 'error',
    params json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    chat_template text DEFAULT NULL,
    chat_template_kwargs json DEFAULT NULL)
RETURNS anyelement
AS 'MODULE_PATHNAME', 'llm_extract'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000000 SUPPORT vllm.llm_support;

CREATE FUNCTION llm_extract(
    input text,
    schema json,
    instruction text DEFAULT NULL,
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias json DEFAULT NULL,
    on_error text DEFAULT 'error',
    params json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    chat_template text DEFAULT NULL,
    chat_template_kwargs json DEFAULT NULL)
RETURNS json
AS 'MODULE_PATHNAME', 'llm_extract_json'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000000 SUPPORT vllm.llm_support;

/* ---- SQL functions as tools (fn_tool.c, fn_chat_run.c) ---- */

CREATE FUNCTION llm_tool(function regprocedure) RETURNS json
AS 'MODULE_PATHNAME', 'llm_tool' LANGUAGE C STABLE STRICT PARALLEL SAFE;

CREATE FUNCTION llm_call_tool(tool_call json, tools regprocedure[], read_only bool DEFAULT true) RETURNS json
AS 'MODULE_PATHNAME', 'llm_call_tool' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

CREATE FUNCTION llm_chat_run(
    messages json,
    tools regprocedure[],
    max_rounds int DEFAULT 8,
    read_only bool DEFAULT true,
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop text[] DEFAULT NULL,
    params json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    chat_template text DEFAULT NULL,
    chat_template_kwargs json DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias json DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    tool_choice json DEFAULT NULL,
    parallel_tool_calls bool DEFAULT NULL,
    include_reasoning bool DEFAULT NULL,
    reasoning_effort text DEFAULT NULL,
    stop_token_ids int[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids int[] DEFAULT NULL,
    documents json DEFAULT NULL,
    content_format text DEFAULT NULL,
    json_schema json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    thinking_token_budget int DEFAULT NULL)
RETURNS json
AS 'MODULE_PATHNAME', 'llm_chat_run'
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000;


-- ---- outputs: several answers, log-probabilities, beam search (fn_outputs.c) ----

CREATE TYPE llm_logprob AS (
    pos int,
    token_id int,
    token text,
    bytes bytea,
    logprob float4,
    rank int,
    chosen bool
);

CREATE TYPE llm_completion AS (
    prompt_index int,
    index int,
    text text,
    reasoning text,
    tool_calls json,
    token_ids int[],
    finish_reason text,
    stop_reason text,
    cumulative_logprob float8,
    logprobs llm_logprob[]
);

CREATE TYPE llm_output AS (
    request_id bigint,
    prompt_index int,
    prompt text,
    prompt_token_ids int[],
    prompt_logprobs llm_logprob[],
    completions llm_completion[],
    usage llm_usage,
    metrics json,
    model text,
    lora text,
    finished bool
);

CREATE TYPE llm_beam AS (
    rank int,
    text text,
    token_ids int[],
    cum_logprob float8,
    score float8,
    finish_reason text
);

CREATE FUNCTION llm_output(
    prompt text,
    n int DEFAULT NULL,
    logprobs int DEFAULT NULL,
    prompt_logprobs int DEFAULT NULL,
    logprob_token_ids int[] DEFAULT NULL,
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
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids int[] DEFAULT NULL,
    json_schema json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL)
RETURNS llm_output
AS 'MODULE_PATHNAME', 'llm_output'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support;

CREATE FUNCTION llm_completions(
    prompt text,
    n int DEFAULT NULL,
    logprobs int DEFAULT NULL,
    prompt_logprobs int DEFAULT NULL,
    logprob_token_ids int[] DEFAULT NULL,
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
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids int[] DEFAULT NULL,
    json_schema json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL)
RETURNS SETOF llm_completion
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 100000 ROWS 4
BEGIN ATOMIC
    SELECT c.* FROM unnest((llm_output(prompt, n, logprobs, prompt_logprobs, logprob_token_ids,
        max_tokens, temperature, top_p, top_k, min_p, seed, stop, stop_token_ids, min_tokens, ignore_eos, params,
        model, timeout_ms, presence_penalty, frequency_penalty, repetition_penalty, logit_bias, bad_words,
        allowed_token_ids, json_schema, regex, choice, grammar, priority, cache_salt, truncate)).completions) AS c;
END;

CREATE FUNCTION llm_chat_full(
    messages json,
    n int DEFAULT NULL,
    logprobs int DEFAULT NULL,
    prompt_logprobs int DEFAULT NULL,
    logprob_token_ids int[] DEFAULT NULL,
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
    content_format text DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids int[] DEFAULT NULL,
    json_schema json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    tool_choice json DEFAULT NULL,
    parallel_tool_calls bool DEFAULT NULL,
    include_reasoning bool DEFAULT NULL,
    reasoning_effort text DEFAULT NULL,
    thinking_token_budget int DEFAULT NULL)
RETURNS llm_output
AS 'MODULE_PATHNAME', 'llm_chat_full'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support;

CREATE FUNCTION llm_chat_batch(
    conversations json[],
    n int DEFAULT NULL,
    logprobs int DEFAULT NULL,
    prompt_logprobs int DEFAULT NULL,
    logprob_token_ids int[] DEFAULT NULL,
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
    content_format text DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids int[] DEFAULT NULL,
    json_schema json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    tool_choice json DEFAULT NULL,
    parallel_tool_calls bool DEFAULT NULL,
    include_reasoning bool DEFAULT NULL,
    reasoning_effort text DEFAULT NULL,
    thinking_token_budget int DEFAULT NULL)
RETURNS SETOF llm_completion
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000 ROWS 40
BEGIN ATOMIC
    SELECT s.at::int - 1, c.index, c.text, c.reasoning, c.tool_calls, c.token_ids, c.finish_reason, c.stop_reason,
           c.cumulative_logprob, c.logprobs
    FROM (SELECT b.at, (llm_chat_full(b.conversation, n, logprobs, prompt_logprobs, logprob_token_ids, max_tokens, temperature, top_p, top_k,
              min_p, seed, stop, stop_token_ids, min_tokens, ignore_eos, params, model, timeout_ms, tools,
              chat_template, chat_template_kwargs, add_generation_prompt, continue_final_message, documents,
              content_format, presence_penalty, frequency_penalty, repetition_penalty, logit_bias, bad_words,
              allowed_token_ids, json_schema, regex, choice, grammar, priority, cache_salt, truncate, tool_choice,
              parallel_tool_calls, include_reasoning, reasoning_effort, thinking_token_budget)).completions AS answers
          FROM unnest(conversations) WITH ORDINALITY AS b (conversation, at)) AS s, unnest(s.answers) AS c
    ORDER BY s.at, c.index;
END;

CREATE FUNCTION llm_beams(
    prompt text,
    beam_width int,
    max_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    length_penalty float8 DEFAULT NULL,
    include_stop_str_in_output bool DEFAULT NULL,
    params json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS llm_beam[]
AS 'MODULE_PATHNAME', 'llm_beams'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000000 SUPPORT vllm.llm_support;

CREATE FUNCTION llm_beam_search(
    prompt text,
    beam_width int,
    max_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    length_penalty float8 DEFAULT NULL,
    include_stop_str_in_output bool DEFAULT NULL,
    params json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS TABLE (rank int, text text, token_ids int[], cum_logprob float8, score float8, finish_reason text)
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000 ROWS 4
BEGIN ATOMIC
    SELECT b.* FROM unnest(llm_beams(prompt, beam_width, max_tokens, ignore_eos, temperature, length_penalty,
        include_stop_str_in_output, params, model, timeout_ms)) AS b;
END;

CREATE FUNCTION llm_beam_search_batch(
    prompts text[],
    beam_width int,
    max_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    length_penalty float8 DEFAULT NULL,
    include_stop_str_in_output bool DEFAULT NULL,
    params json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL)
RETURNS TABLE (prompt_index int, rank int, text text, token_ids int[], cum_logprob float8, score float8, finish_reason text)
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000 ROWS 40
BEGIN ATOMIC
    SELECT s.at::int - 1, b.*
    FROM (SELECT p.at, llm_beams(p.prompt, beam_width, max_tokens, ignore_eos, temperature, length_penalty,
              include_stop_str_in_output, params, model, timeout_ms) AS beams
          FROM unnest(prompts) WITH ORDINALITY AS p (prompt, at)) AS s, unnest(s.beams) AS b
    ORDER BY s.at, b.rank;
END;

CREATE FUNCTION vllm.logprobs_json(entries llm_logprob[]) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE WHEN entries IS NOT NULL THEN json_build_object(
        'tokens', coalesce(json_agg(t.token ORDER BY t.pos), '[]'),
        'token_logprobs', coalesce(json_agg(t.logprob ORDER BY t.pos), '[]'),
        'top_logprobs', coalesce(json_agg(t.top ORDER BY t.pos), '[]'),
        'text_offset', coalesce(json_agg(t.at ORDER BY t.pos), '[]')) END
    FROM (SELECT e.pos, max(e.token) FILTER (WHERE e.chosen) AS token, greatest(max(e.logprob) FILTER (WHERE e.chosen), -9999::real) AS logprob,
              json_object_agg(e.token, greatest(e.logprob, -9999::real) ORDER BY e.rank) AS top,
              coalesce(sum(length(max(e.token) FILTER (WHERE e.chosen)))
                       OVER (ORDER BY e.pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS at
          FROM unnest(entries) AS e
          GROUP BY e.pos) AS t;
END;

-- as OpenAI's completions interface has it
CREATE FUNCTION llm_output_json(output llm_output) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE WHEN (output).completions IS NOT NULL THEN json_build_object(
        'object', 'text_completion',
        'model', (output).model,
        'choices', coalesce((
            SELECT json_agg(json_build_object('index', c.index, 'text', c.text,
                                              'logprobs', vllm.logprobs_json(c.logprobs),
                                              'finish_reason', c.finish_reason, 'stop_reason', c.stop_reason)
                            ORDER BY c.index)
            FROM unnest((output).completions) AS c), '[]'),
        'usage', json_build_object('prompt_tokens', ((output).usage).prompt_tokens,
                                   'completion_tokens', ((output).usage).completion_tokens,
                                   'total_tokens', ((output).usage).total_tokens)) END;
END;

/* ---- prompts of embeddings (fn_embeds.c) ---- */

CREATE FUNCTION llm_embeds_generate(
    prompt_embeds real[],
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
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids int[] DEFAULT NULL,
    json_schema json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'llm_embeds_generate'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support;

CREATE FUNCTION llm_embeds_output(
    prompt_embeds real[],
    n int DEFAULT NULL,
    logprobs int DEFAULT NULL,
    logprob_token_ids int[] DEFAULT NULL,
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
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids int[] DEFAULT NULL,
    json_schema json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL)
RETURNS llm_output
AS 'MODULE_PATHNAME', 'llm_embeds_output'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support;

CREATE FUNCTION llm_token_embeddings(input text, add_special_tokens bool DEFAULT true, model text DEFAULT NULL) RETURNS real[]
AS 'MODULE_PATHNAME', 'llm_token_embeddings' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000;

/* ---- bodies of OpenAI's and Anthropic's interfaces (fn_api.c) ---- */

CREATE FUNCTION llm_api(path text, body json DEFAULT '{}', on_error text DEFAULT 'raise') RETURNS json
AS 'MODULE_PATHNAME', 'llm_api' LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000000;

CREATE FUNCTION llm_api_stream(path text, body json DEFAULT '{}', on_error text DEFAULT 'raise') RETURNS SETOF json
AS 'MODULE_PATHNAME', 'llm_api_stream' LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000000 ROWS 100;

CREATE FUNCTION v1_models() RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000 RETURN llm_api('/v1/models', '{}', 'raise');

CREATE FUNCTION v1_tokenize(request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000 RETURN llm_api('/tokenize', request, 'raise');

CREATE FUNCTION v1_detokenize(request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000 RETURN llm_api('/detokenize', request, 'raise');
CREATE FUNCTION v1_completions(request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000 RETURN llm_api('/v1/completions', request, 'raise');

CREATE FUNCTION v1_completions_stream(request json) RETURNS SETOF json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000 ROWS 100
BEGIN ATOMIC SELECT llm_api_stream('/v1/completions', request, 'raise'); END;

CREATE FUNCTION v1_chat_completions(request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000 RETURN llm_api('/v1/chat/completions', request, 'raise');

CREATE FUNCTION v1_chat_completions_stream(request json) RETURNS SETOF json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000 ROWS 100
BEGIN ATOMIC SELECT llm_api_stream('/v1/chat/completions', request, 'raise'); END;

CREATE FUNCTION v1_embeddings(request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 100000 RETURN llm_api('/v1/embeddings', request, 'raise');

CREATE FUNCTION v1_classify(request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 100000 RETURN llm_api('/classify', request, 'raise');

CREATE FUNCTION v1_pooling(request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 100000 RETURN llm_api('/pooling', request, 'raise');

CREATE FUNCTION v1_score(request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 100000 RETURN llm_api('/score', request, 'raise');

CREATE FUNCTION v1_rerank(request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 100000 RETURN llm_api('/rerank', request, 'raise');

CREATE FUNCTION v1_messages(request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000 RETURN llm_api('/v1/messages', request, 'raise');

CREATE FUNCTION v1_messages_stream(request json) RETURNS SETOF json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000 ROWS 100
BEGIN ATOMIC SELECT llm_api_stream('/v1/messages', request, 'raise'); END;

CREATE FUNCTION v1_messages_count_tokens(request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000 RETURN llm_api('/v1/messages/count_tokens', request, 'raise');

CREATE FUNCTION v1_responses(request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL UNSAFE COST 1000000 RETURN llm_api('/v1/responses', request, 'raise');

CREATE FUNCTION v1_responses_stream(request json) RETURNS SETOF json
LANGUAGE sql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 100
BEGIN ATOMIC SELECT llm_api_stream('/v1/responses', request, 'raise'); END;

CREATE FUNCTION v1_responses_get(id text) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000 RETURN llm_api('/v1/responses/' || id, '{}', 'raise');

CREATE FUNCTION v1_responses_cancel(id text) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000 RETURN llm_api('/v1/responses/' || id || '/cancel', '{}', 'raise');

/* Responses that are kept (api_store.c): each role's its own. */
CREATE TABLE vllm.response (
    id text NOT NULL,
    owner regrole NOT NULL DEFAULT pg_catalog.quote_ident(current_user)::regrole,
    created timestamptz NOT NULL DEFAULT now(),
    items json NOT NULL,
    response json NOT NULL,
    PRIMARY KEY (owner, id)
);
ALTER TABLE vllm.response ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON vllm.response USING (owner = pg_catalog.quote_ident(current_user)::regrole)
    WITH CHECK (owner = pg_catalog.quote_ident(current_user)::regrole);
GRANT SELECT, INSERT, UPDATE, DELETE ON vllm.response TO PUBLIC;

CREATE FUNCTION vllm.store_response(body json, response json) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    INSERT INTO vllm.response (id, items, response)
    SELECT response->>'id', (SELECT json_agg(i.item ORDER BY i.part, i.n) FROM (
            SELECT 1 AS part, e.n, e.item FROM vllm.response r, json_array_elements(r.items) WITH ORDINALITY AS e(item, n)
                WHERE r.id = body->>'previous_response_id' AND r.owner = pg_catalog.quote_ident(current_user)::regrole
            UNION ALL SELECT 2, 1, json_build_object('role', 'user', 'content', body->'input') WHERE json_typeof(body->'input') = 'string'
            UNION ALL SELECT 3, e.n, e.item FROM json_array_elements(CASE WHEN json_typeof(body->'input') = 'array' THEN body->'input' ELSE '[]' END)
                WITH ORDINALITY AS e(item, n)
            UNION ALL SELECT 4, e.n, e.item FROM json_array_elements(response->'output') WITH ORDINALITY AS e(item, n)) AS i), response
    WHERE coalesce(body->>'store', 'true') = 'true'
    ON CONFLICT (owner, id) DO UPDATE SET created = now(), items = excluded.items, response = excluded.response;
END;

/* The body's status, as HTTP has it. */
CREATE FUNCTION vllm.api_status(body json) RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN coalesce(json_typeof(body->'error'), 'null') <> 'object' THEN 200
    WHEN body->'error'->'code' IS NOT NULL THEN (body->'error'->>'code')::int
    ELSE CASE body->'error'->>'type' WHEN 'authentication_error' THEN 401 WHEN 'permission_error' THEN 403
        WHEN 'not_found_error' THEN 404 WHEN 'overloaded_error' THEN 503 WHEN 'api_error' THEN 500 ELSE 400 END
    END;

/* The text as json, NULL if it is none, or has escapes that are no characters. */
CREATE FUNCTION vllm.json_or_null(line text) RETURNS json
AS 'MODULE_PATHNAME', 'llm_json_or_null' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

/* What is wrong with a line of a batch beside its body, as the error body; NULL = nothing.  problem: what is known already. */
CREATE FUNCTION vllm.batch_refusal(custom_id text, url text, body json, nth bigint, problem text) RETURNS json
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (SELECT CASE WHEN refusal IS NOT NULL THEN
    json_build_object('error', json_build_object('message', refusal, 'type', 'BadRequestError', 'param', param, 'code', 400)) END
FROM (SELECT CASE WHEN problem IS NOT NULL THEN problem
        WHEN custom_id IS NULL THEN 'custom_id must be given'
        WHEN nth > 1 THEN format('custom_id "%s" is used more than once', custom_id)
        WHEN url IS NULL THEN 'url must be given'
        WHEN body IS NULL THEN 'body must be given, as a JSON object' END,
    CASE WHEN problem IS NOT NULL THEN NULL WHEN custom_id IS NULL OR nth > 1 THEN 'custom_id' WHEN url IS NULL THEN 'url' ELSE 'body' END)
    AS t(refusal, param));

CREATE FUNCTION llm_run_batch(query text, "window" int DEFAULT NULL, OUT custom_id text, OUT status_code int, OUT response json, OUT error json)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_run_batch' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 1000;

CREATE FUNCTION llm_run_batch(input regclass, "window" int DEFAULT NULL, OUT custom_id text, OUT status_code int, OUT response json, OUT error json)
RETURNS SETOF record
LANGUAGE sql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 1000
BEGIN ATOMIC SELECT * FROM llm_run_batch(format('SELECT custom_id, url, body FROM %s', input), "window"); END;

/* Commits after each part, and leaves out what output has already. */
CREATE PROCEDURE llm_run_batch_table(input regclass, output regclass, part_rows int DEFAULT 1000)
AS 'MODULE_PATHNAME', 'llm_run_batch_table' LANGUAGE C;

CREATE FUNCTION llm_run_batch_file(input_path text, output_path text, model text DEFAULT NULL,
    OUT total int, OUT succeeded int, OUT failed int, OUT duration_ms float8)
RETURNS record
AS 'MODULE_PATHNAME', 'llm_run_batch_file' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000;

/* ---- API keys of the HTTP door (fn_keys.c; docs/http.md) ---- */

-- only functions write it
CREATE TABLE vllm.api_key (
    name text PRIMARY KEY,
    hash bytea NOT NULL,            -- SHA-256 of the key
    role regrole NOT NULL,
    created timestamptz NOT NULL,
    created_by regrole NOT NULL,
    expires timestamptz,
    revoked timestamptz
);

CREATE INDEX api_key_hash_idx ON vllm.api_key (pg_catalog.substr(hash, 1, 8));
REVOKE ALL ON vllm.api_key FROM PUBLIC;
-- a role that is gone is dumped as its number, which may be another role's where it is restored
SELECT pg_catalog.pg_extension_config_dump('vllm.api_key', 'WHERE role::pg_catalog.oid IN (SELECT oid FROM pg_catalog.pg_roles)');

CREATE FUNCTION llm_create_api_key(name text, role text DEFAULT NULL, valid_until timestamptz DEFAULT NULL) RETURNS text
AS 'MODULE_PATHNAME', 'llm_create_api_key' LANGUAGE C VOLATILE;
REVOKE EXECUTE ON FUNCTION llm_create_api_key(text, text, timestamptz) FROM PUBLIC;

CREATE FUNCTION llm_revoke_api_key(name text) RETURNS bool
AS 'MODULE_PATHNAME', 'llm_revoke_api_key' LANGUAGE C VOLATILE;

CREATE FUNCTION vllm.http_login(hash bytea) RETURNS text
AS 'MODULE_PATHNAME', 'llm_http_login' LANGUAGE C STABLE;

CREATE VIEW llm_api_keys WITH (security_barrier) AS
SELECT k.name, CASE WHEN r.oid IS NULL THEN 'role dropped' WHEN k.revoked IS NOT NULL THEN 'revoked'
        WHEN k.expires <= pg_catalog.clock_timestamp() THEN 'expired' ELSE 'active' END AS state,
    coalesce(r.rolname::text, k.role::text) AS role, k.created, k.created_by::text AS created_by, k.expires, k.revoked
FROM vllm.api_key k
LEFT JOIN pg_catalog.pg_roles r ON r.oid = k.role::oid
WHERE pg_catalog.pg_has_role(k.role::oid, 'MEMBER');

GRANT SELECT ON llm_api_keys TO PUBLIC;

CREATE FUNCTION llm_reset_prefix_cache() RETURNS bool
AS 'MODULE_PATHNAME', 'llm_reset_prefix_cache' LANGUAGE C VOLATILE;

REVOKE EXECUTE ON FUNCTION llm_reset_prefix_cache() FROM PUBLIC;

CREATE FUNCTION llm_metrics_text() RETURNS text
AS 'MODULE_PATHNAME', 'llm_metrics_text' LANGUAGE C VOLATILE;

/* ---- tools and reasoning (fn_parse.c) ---- */

CREATE TYPE llm_reasoning AS (reasoning text, content text);

CREATE FUNCTION llm_parse_tool_calls(output text, parser text, tools json DEFAULT NULL) RETURNS json
AS 'MODULE_PATHNAME', 'llm_parse_tool_calls' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000;

CREATE FUNCTION llm_parse_reasoning(output text, parser text, chat_template_kwargs json DEFAULT NULL) RETURNS llm_reasoning
AS 'MODULE_PATHNAME', 'llm_parse_reasoning' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000;
/*
 * vllm_pg--0.6--0.7.sql
 *	  An engine to run all day: adapters, limits, sleep, figures.
 */

\echo Use "ALTER EXTENSION vllm_pg UPDATE TO '0.7'" to load this file. \quit

/* ---- figures (fn_metrics.c) ---- */

CREATE FUNCTION llm_metrics(OUT name text, OUT kind text, OUT labels jsonb, OUT value float8,
                            OUT sum float8, OUT count int8, OUT buckets jsonb)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_metrics' LANGUAGE C VOLATILE;

/* ---- adapters (lora.c, fn_lora.c; docs/lora.md) ---- */

-- only functions write it; names are shared with vllm.model
CREATE TABLE vllm.lora (
    name name PRIMARY KEY,
    model name NOT NULL,            -- what it is an adapter of
    path text NOT NULL,
    owner regrole NOT NULL,
    grantees regrole[] NOT NULL,    -- '-' is PUBLIC
    created timestamptz NOT NULL
);

REVOKE ALL ON vllm.lora FROM PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('vllm.lora', '');

CREATE FUNCTION llm_create_lora(name text, model text, path text, replace bool DEFAULT false) RETURNS void
AS 'MODULE_PATHNAME', 'llm_create_lora' LANGUAGE C VOLATILE;

CREATE FUNCTION llm_alter_lora(name text, path text DEFAULT NULL, new_name text DEFAULT NULL) RETURNS void
AS 'MODULE_PATHNAME', 'llm_alter_lora' LANGUAGE C VOLATILE;

CREATE FUNCTION llm_drop_lora(name text) RETURNS void
AS 'MODULE_PATHNAME', 'llm_drop_lora' LANGUAGE C VOLATILE;

-- with its adapters
CREATE FUNCTION llm_drop_model(name text, cascade bool) RETURNS void
AS 'MODULE_PATHNAME', 'llm_drop_model' LANGUAGE C VOLATILE;

CREATE FUNCTION llm_load_lora(name text, pin bool DEFAULT NULL) RETURNS void
AS 'MODULE_PATHNAME', 'llm_load_lora' LANGUAGE C VOLATILE;

CREATE FUNCTION llm_unload_lora(name text) RETURNS void
AS 'MODULE_PATHNAME', 'llm_unload_lora' LANGUAGE C VOLATILE;

CREATE FUNCTION v1_load_lora_adapter(request json) RETURNS text
AS 'MODULE_PATHNAME', 'llm_v1_load_lora_adapter' LANGUAGE C VOLATILE STRICT;

CREATE FUNCTION v1_unload_lora_adapter(request json) RETURNS text
AS 'MODULE_PATHNAME', 'llm_v1_unload_lora_adapter' LANGUAGE C VOLATILE STRICT;

-- parent and root as in vLLM's list of models: the model, and where the files are
CREATE FUNCTION vllm.lora_list(
    OUT name text, OUT parent text, OUT root text, OUT source text, OUT state text, OUT rank int, OUT alpha float8,
    OUT rslora bool, OUT modules text[], OUT bytes bigint, OUT pinned bool, OUT running int, OUT waiting int,
    OUT requests bigint, OUT last_used timestamptz, OUT owner text, OUT grants text[], OUT created timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_lora_list' LANGUAGE C VOLATILE ROWS 10;

CREATE VIEW llm_loras AS SELECT * FROM vllm.lora_list();

GRANT SELECT ON llm_loras TO PUBLIC;

/*
 * The functions that a model answers get an argument, lora, and stay what they are: views, grants and comments
 * go on.  Each is declared anew under another name, its signature moves to the old one's row, and
 * the new one goes.
 */
DO LANGUAGE plpgsql $do$
DECLARE
    f record;
    bodies text[] := ARRAY[
    'llm_embed_bytes', $$RETURN vllm.embedding_bytes(llm_embed(input, dimensions, normalize_embeddings, instruction, prompt_name, truncate,
        long_input, model, params, timeout_ms, lora), dtype, endian)$$,
    'llm_rerank', $$BEGIN ATOMIC
        SELECT d.at::int, llm_score(query, d.text, use_activation, instruction, truncate, model, params, timeout_ms, lora) AS score, d.text
        FROM unnest(documents) WITH ORDINALITY AS d (text, at)
        WHERE query IS NOT NULL
        ORDER BY score DESC NULLS LAST, d.at
        LIMIT vllm.rerank_limit(top_n);
        END$$,
    'llm_classify', $$BEGIN ATOMIC
        SELECT l.index, l.label, l.prob
        FROM unnest((vllm.classify(input, use_activation, top, truncate, model, params, timeout_ms, lora))[:COALESCE(top, 2147483647)]) AS l;
        END$$,
    'llm_token_classify', $$BEGIN ATOMIC
        SELECT t.pos, t.token, t.start, t.stop, t.label, t.score
        FROM vllm.token_labels(vllm.token_scores(input, aggregation, truncate, model, params, timeout_ms, lora), input, aggregation) AS t;
        END$$,
    'llm_choice_probs', $$BEGIN ATOMIC
        SELECT c.label, c.logprob, c.prob
        FROM unnest(vllm.choices(prompt, labels, normalization, chat, model, timeout_ms, lora)) AS c;
        END$$,
    'llm_loglikelihood', $$BEGIN ATOMIC
        SELECT l.logprob, l.tokens, l.is_greedy
        FROM vllm.loglikelihood(context, continuation, model, timeout_ms, lora) AS l;
        END$$,
    'llm_nearest', $$BEGIN ATOMIC
        SELECT n.distance, n.row_id, n.source_table
        FROM llm_nearest(llm_embed(query, prompt_name => prompt_name, instruction => instruction, model => model, lora => lora),
                         source, "column", k, metric, filter, codes, oversample) n;
        END$$,
    'llm_completions', $$BEGIN ATOMIC
        SELECT c.* FROM unnest((llm_output(prompt, n, logprobs, prompt_logprobs, logprob_token_ids,
            max_tokens, temperature, top_p, top_k, min_p, seed, stop, stop_token_ids, min_tokens, ignore_eos, params,
            model, timeout_ms, presence_penalty, frequency_penalty, repetition_penalty, logit_bias, bad_words,
            allowed_token_ids, json_schema, regex, choice, grammar, priority, cache_salt, truncate, lora)).completions) AS c;
        END$$,
    'llm_chat_batch', $$BEGIN ATOMIC
        SELECT s.at::int - 1, c.index, c.text, c.reasoning, c.tool_calls, c.token_ids, c.finish_reason, c.stop_reason,
               c.cumulative_logprob, c.logprobs
        FROM (SELECT b.at, (llm_chat_full(b.conversation, n, logprobs, prompt_logprobs, logprob_token_ids, max_tokens, temperature, top_p, top_k,
                  min_p, seed, stop, stop_token_ids, min_tokens, ignore_eos, params, model, timeout_ms, tools,
                  chat_template, chat_template_kwargs, add_generation_prompt, continue_final_message, documents,
                  content_format, presence_penalty, frequency_penalty, repetition_penalty, logit_bias, bad_words,
                  allowed_token_ids, json_schema, regex, choice, grammar, priority, cache_salt, truncate, tool_choice,
                  parallel_tool_calls, include_reasoning, reasoning_effort, thinking_token_budget, lora)).completions AS answers
              FROM unnest(conversations) WITH ORDINALITY AS b (conversation, at)) AS s, unnest(s.answers) AS c
        ORDER BY s.at, c.index;
        END$$,
    'llm_beam_search', $$BEGIN ATOMIC
        SELECT b.* FROM unnest(llm_beams(prompt, beam_width, max_tokens, ignore_eos, temperature, length_penalty,
            include_stop_str_in_output, params, model, timeout_ms, lora)) AS b;
        END$$,
    'llm_beam_search_batch', $$BEGIN ATOMIC
        SELECT s.at::int - 1, b.*
        FROM (SELECT p.at, llm_beams(p.prompt, beam_width, max_tokens, ignore_eos, temperature, length_penalty,
                  include_stop_str_in_output, params, model, timeout_ms, lora) AS beams
              FROM unnest(prompts) WITH ORDINALITY AS p (prompt, at)) AS s, unnest(s.beams) AS b
        ORDER BY s.at, b.rank;
        END$$,
    'llm_reduce', $$RETURN vllm.reduce(vllm.reduce_texts(inputs), instruction, combine, split, max_tokens, temperature, top_p, top_k, min_p, seed,
        stop, stop_token_ids, min_tokens, ignore_eos, params, model, timeout_ms, chat_template, chat_template_kwargs,
        presence_penalty, frequency_penalty, repetition_penalty, logit_bias, bad_words, allowed_token_ids,
        json_schema, regex, choice, grammar, priority, cache_salt, truncate, lora)$$];
BEGIN
    -- those in C first: the bodies call them
    FOR f IN
        SELECT p.oid, p.prosrc, pg_catalog.pg_get_function_arguments(p.oid) AS arguments, pg_catalog.pg_get_function_result(p.oid) AS result, b.body
        FROM pg_catalog.pg_proc p
        JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = p.oid AND d.deptype = 'e'
        JOIN pg_catalog.pg_extension x ON d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass AND d.refobjid = x.oid AND x.extname = 'vllm_pg'
        JOIN pg_catalog.pg_language l ON l.oid = p.prolang
        LEFT JOIN (SELECT bodies[2 * i - 1] AS name, bodies[2 * i] AS body, i FROM pg_catalog.generate_series(1, pg_catalog.cardinality(bodies) / 2) AS i) b
            ON b.name = p.proname AND l.lanname = 'sql'
        WHERE 'model' = ANY (p.proargnames[1:p.pronargs])
        AND CASE l.lanname WHEN 'c' THEN p.prosrc <> ALL ('{llm_grant,llm_revoke,llm_tokenize,llm_detokenize,llm_count_tokens,llm_render_chat,
                llm_tokenize_chat,llm_token_embeddings,llm_chunk_spans,llm_create_lora,llm_run_batch_file,llm_create_embedding_job,
                llm_create_completion_job,llm_alter_job}') ELSE b.body IS NOT NULL END
        ORDER BY b.i NULLS FIRST, p.oid
    LOOP
        EXECUTE pg_catalog.format('CREATE FUNCTION vllm.with_lora(%s, lora text DEFAULT NULL) RETURNS %s ', f.arguments, f.result) ||
            CASE WHEN f.body IS NULL THEN pg_catalog.format('AS %L, %L LANGUAGE C', 'MODULE_PATHNAME', f.prosrc) ELSE 'LANGUAGE sql ' || f.body END;
        UPDATE pg_catalog.pg_proc old
        SET pronargs = new.pronargs, pronargdefaults = new.pronargdefaults, proargtypes = new.proargtypes,
            proallargtypes = new.proallargtypes, proargmodes = new.proargmodes, proargnames = new.proargnames,
            proargdefaults = new.proargdefaults, prosqlbody = new.prosqlbody
        FROM pg_catalog.pg_proc new
        WHERE new.pronamespace = 'vllm'::pg_catalog.regnamespace AND new.proname = 'with_lora' AND old.oid = f.oid;
        DROP FUNCTION vllm.with_lora;
    END LOOP;
END $do$;

-- polymorphic, so its body is a string
CREATE FUNCTION vllm.with_lora(
    rows anyelement,
    query text,
    "column" name,
    k int DEFAULT 10,
    metric text DEFAULT 'cosine',
    filter text DEFAULT NULL,
    codes name DEFAULT NULL,
    oversample int DEFAULT 10,
    model text DEFAULT NULL,
    prompt_name text DEFAULT NULL,
    instruction text DEFAULT NULL,
    lora text DEFAULT NULL)
RETURNS SETOF anyelement
LANGUAGE sql STABLE
AS $$
    SELECT * FROM @extschema@.llm_nearest_rows($1, @extschema@.llm_embed($2, prompt_name => $10, instruction => $11, model => $9, lora => $12),
                                               $3, $4, $5, $6, $7, $8)
$$;

UPDATE pg_catalog.pg_proc old
SET pronargs = new.pronargs, pronargdefaults = new.pronargdefaults, proargtypes = new.proargtypes, proargnames = new.proargnames,
    proargdefaults = new.proargdefaults, prosrc = new.prosrc
FROM pg_catalog.pg_proc new
WHERE new.pronamespace = 'vllm'::pg_catalog.regnamespace AND new.proname = 'with_lora'
AND old.oid = '@extschema@.llm_nearest_rows(anyelement,text,name,int,text,text,name,int,text,text,text)'::pg_catalog.regprocedure;

DROP FUNCTION vllm.with_lora;

-- ---- memory of models ----

CREATE FUNCTION vllm.model_memory(OUT name text, OUT memory_bytes bigint, OUT last_used timestamptz, OUT expires timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_model_memory' LANGUAGE C VOLATILE ROWS 10;

CREATE OR REPLACE VIEW llm_models AS
    SELECT l.name, l.path, l.arch, l.state, l.provider, l.dtype, l.progress, l.error, l.parameters, l.weight_bytes,
           l.max_model_len, l.kv_blocks_total, l.kv_blocks_used, l.running, l.waiting, l.owner, l.grants, l.options,
           m.memory_bytes, m.last_used, m.expires
    FROM vllm.model_list() l LEFT JOIN vllm.model_memory() m ON m.name = l.name;

-- ---- what models' requests were, and how long they took ----

CREATE FUNCTION vllm.model_requests(
    OUT name text, OUT cached_tokens bigint, OUT finished bigint, OUT failed bigint, OUT cancelled bigint,
    OUT draft_tokens bigint, OUT accepted_tokens bigint, OUT mean_queue_ms float8, OUT mean_ttft_ms float8,
    OUT mean_tpot_ms float8, OUT mean_e2e_ms float8)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_model_requests' LANGUAGE C VOLATILE ROWS 10;

CREATE OR REPLACE VIEW llm_stat_model AS
    SELECT l.name, l.state, l.requests, l.prompt_tokens, l.output_tokens, l.preemptions, l.running, l.waiting,
           l.kv_blocks_total, l.kv_blocks_used, l.kv_bytes, l.weight_bytes,
           r.cached_tokens, r.finished, r.failed, r.cancelled, r.draft_tokens, r.accepted_tokens,
           r.mean_queue_ms, r.mean_ttft_ms, r.mean_tpot_ms, r.mean_e2e_ms
    FROM vllm.model_list() l LEFT JOIN vllm.model_requests() r ON r.name = l.name;

-- ---- other weights ----

CREATE FUNCTION llm_update_weights(model text DEFAULT NULL, path text DEFAULT NULL, mode text DEFAULT 'wait')
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

REVOKE ALL ON FUNCTION llm_update_weights(text, text, text) FROM PUBLIC;

-- ---- another engine ----

CREATE FUNCTION llm_engine_upgrade(drain_timeout_ms int DEFAULT 60000)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

REVOKE ALL ON FUNCTION llm_engine_upgrade(int) FROM PUBLIC;

-- ---- models that sleep ----

CREATE FUNCTION llm_sleep(level int DEFAULT 1, mode text DEFAULT 'abort', model text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION llm_wake_up(tags text[] DEFAULT NULL, model text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION llm_is_sleeping(model text DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION llm_pause(mode text DEFAULT 'abort', model text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION llm_resume(model text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION llm_is_paused(model text DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

REVOKE ALL ON FUNCTION llm_sleep(int, text, text), llm_wake_up(text[], text), llm_pause(text, text), llm_resume(text) FROM PUBLIC;
/* ---- memory of models ---- */

CREATE FUNCTION vllm.memory_list(
    OUT model text, OUT shared_with text, OUT weights bigint, OUT kv_reserved bigint, OUT kv bigint, OUT kv_tokens bigint, OUT pinned_tokens bigint,
    OUT state bigint, OUT work bigint, OUT offload bigint, OUT other bigint, OUT total bigint, OUT offload_files bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_memory_list' LANGUAGE C VOLATILE ROWS 10;

CREATE VIEW llm_memory AS SELECT * FROM vllm.memory_list();

GRANT SELECT ON llm_memory TO PUBLIC;

/* ---- prompts that stay computed ---- */

CREATE FUNCTION llm_pin_prefix(prompt text, model text DEFAULT NULL, cache_salt text DEFAULT NULL, timeout_ms int DEFAULT NULL, params json DEFAULT NULL,
    lora text DEFAULT NULL) RETURNS int
AS 'MODULE_PATHNAME', 'llm_pin_prefix' LANGUAGE C VOLATILE;

CREATE FUNCTION llm_unpin_prefix(prompt text, model text DEFAULT NULL, cache_salt text DEFAULT NULL, timeout_ms int DEFAULT NULL, params json DEFAULT NULL,
    lora text DEFAULT NULL) RETURNS int
AS 'MODULE_PATHNAME', 'llm_unpin_prefix' LANGUAGE C VOLATILE;

CREATE FUNCTION llm_unpin_prefix(id bigint) RETURNS bool
AS 'MODULE_PATHNAME', 'llm_unpin_id' LANGUAGE C VOLATILE;

REVOKE ALL ON FUNCTION llm_pin_prefix(text, text, text, int, json, text), llm_unpin_prefix(text, text, text, int, json, text), llm_unpin_prefix(bigint) FROM PUBLIC;

CREATE FUNCTION vllm.pin_list(
    OUT id bigint, OUT model text, OUT role text, OUT isolation text, OUT lora text, OUT salted bool, OUT tokens int, OUT bytes bigint,
    OUT pinned_at timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_pin_list' LANGUAGE C VOLATILE ROWS 10;

CREATE VIEW llm_pinned_prefixes AS SELECT * FROM vllm.pin_list();

GRANT SELECT ON llm_pinned_prefixes TO PUBLIC;

/* ---- statistics of requests (request_stat.c) ---- */

CREATE FUNCTION vllm.requests(
    OUT id bigint, OUT pid int, OUT database text, OUT role text, OUT model text, OUT kind text,
    OUT state text, OUT arrival timestamptz, OUT prompt_tokens bigint, OUT computed_tokens bigint,
    OUT cached_tokens bigint, OUT output_tokens bigint, OUT preemptions bigint, OUT ttft_ms float8,
    OUT lora text, OUT priority int, OUT traceparent text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_request_list' LANGUAGE C VOLATILE ROWS 10;

CREATE OR REPLACE VIEW llm_requests AS
    SELECT id, pid, database, role, model, kind, state, arrival,
           clock_timestamp() - arrival AS age, prompt_tokens, computed_tokens, cached_tokens,
           output_tokens, preemptions, ttft_ms, lora, priority, traceparent
    FROM vllm.requests();

DROP FUNCTION vllm.request_list();

CREATE FUNCTION vllm.stat_list(
    roles bool, OUT userid oid, OUT dbid oid, OUT queryid bigint, OUT model text, OUT lora text,
    OUT calls bigint, OUT requests bigint, OUT errors bigint, OUT cancelled bigint,
    OUT prompt_tokens bigint, OUT cached_tokens bigint, OUT output_tokens bigint, OUT preemptions bigint,
    OUT draft_tokens bigint, OUT accepted_tokens bigint,
    OUT total_time float8, OUT min_time float8, OUT max_time float8, OUT mean_time float8, OUT stddev_time float8,
    OUT queue_time float8, OUT prefill_time float8, OUT decode_time float8,
    OUT stats_since timestamptz, OUT last_used timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_stat_list' LANGUAGE C VOLATILE STRICT;

CREATE VIEW llm_stat_query AS SELECT * FROM vllm.stat_list(false);

CREATE VIEW llm_stat_role AS
    SELECT s.userid, r.rolname AS role, s.dbid, d.datname AS database, s.calls, s.requests, s.errors, s.cancelled,
           s.prompt_tokens, s.cached_tokens, s.output_tokens, s.preemptions, s.draft_tokens, s.accepted_tokens,
           s.total_time, s.min_time, s.max_time, s.mean_time, s.stddev_time,
           s.queue_time, s.prefill_time, s.decode_time, s.stats_since, s.last_used
    FROM vllm.stat_list(true) s
    LEFT JOIN pg_catalog.pg_roles r ON r.oid = s.userid
    LEFT JOIN pg_catalog.pg_database d ON d.oid = s.dbid;

GRANT SELECT ON llm_stat_query, llm_stat_role TO PUBLIC;

CREATE FUNCTION llm_stat_reset(userid oid DEFAULT NULL, dbid oid DEFAULT NULL, queryid bigint DEFAULT NULL) RETURNS bigint
AS 'MODULE_PATHNAME', 'llm_stat_reset' LANGUAGE C VOLATILE;

REVOKE EXECUTE ON FUNCTION llm_stat_reset(oid, oid, bigint) FROM PUBLIC;

/* ---- devices, and a dashboard in text (fn_views.c, fn_top.c) ---- */

CREATE FUNCTION vllm.device_list(
    OUT device int, OUT kind text, OUT name text, OUT isa text, OUT cpus int, OUT usable_cpus int, OUT threads int,
    OUT memory_total bigint, OUT memory_available bigint, OUT engine_bytes bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_device_list' LANGUAGE C VOLATILE ROWS 1;

CREATE VIEW llm_devices AS SELECT * FROM vllm.device_list();

GRANT SELECT ON llm_devices TO PUBLIC;

CREATE FUNCTION llm_top(requests int DEFAULT 10) RETURNS SETOF text
AS 'MODULE_PATHNAME', 'llm_top' LANGUAGE C VOLATILE ROWS 25;

/* ---- profiles (fn_profile.c) ---- */

CREATE FUNCTION llm_start_profile(delay_steps int DEFAULT 0, max_steps int DEFAULT 0) RETURNS void
AS 'MODULE_PATHNAME', 'llm_start_profile' LANGUAGE C VOLATILE;

CREATE FUNCTION llm_stop_profile(filename text DEFAULT NULL) RETURNS json
AS 'MODULE_PATHNAME', 'llm_stop_profile' LANGUAGE C VOLATILE;

REVOKE EXECUTE ON FUNCTION llm_start_profile(int, int), llm_stop_profile(text) FROM PUBLIC;
/*
 * vllm_pg--0.7--0.8.sql
 *	  GPUs: which there are.
 */

\echo Use "ALTER EXTENSION vllm_pg UPDATE TO '0.8'" to load this file. \quit

/* ---- devices (fn_views.c) ---- */

CREATE FUNCTION vllm.devices(
    OUT device int, OUT kind text, OUT name text, OUT isa text, OUT cpus int, OUT usable_cpus int, OUT threads int,
    OUT memory_total bigint, OUT memory_available bigint, OUT engine_bytes bigint,
    OUT compute_capability text, OUT multiprocessors int, OUT driver text, OUT uuid text, OUT usable bool, OUT rank int, OUT note text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_device_list' LANGUAGE C VOLATILE ROWS 4;

-- replaced, so that grants on it and views of it stay
CREATE OR REPLACE VIEW llm_devices AS SELECT * FROM vllm.devices();

DROP FUNCTION vllm.device_list();
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
