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
