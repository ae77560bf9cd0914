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
