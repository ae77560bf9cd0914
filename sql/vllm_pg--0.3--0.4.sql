/* vllm_pg--0.3--0.4.sql: what 0.4 adds; makes the catalog that vllm_pg--0.4.sql makes */

\echo Use "ALTER EXTENSION vllm_pg UPDATE TO '0.4'" to load this file. \quit

CREATE FUNCTION llm_inspect_model(path text, options json DEFAULT NULL) RETURNS json
AS 'MODULE_PATHNAME', 'llm_inspect_model' LANGUAGE C VOLATILE;

REVOKE EXECUTE ON FUNCTION llm_inspect_model(text, json) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION llm_inspect_model(text, json) TO pg_read_server_files;

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
