/*
 * vllm_pg--0.9--0.10.sql
 *	  Whose code runs, and who reads the catalog.
 *
 * vllm_pg--0.10.sql makes the same from nothing, and says how names are written here; tests/t/030_upgrade.pl compares
 * the two.  A section here is what a subject's section there has changed.
 */

\echo Use "ALTER EXTENSION vllm_pg UPDATE TO '0.10'" to load this file. \quit

/* ---- trigger functions that only the extension makes triggers of (fn_trigger.c, job_ddl.c) ---- */

REVOKE EXECUTE ON FUNCTION vllm.job_changed(), vllm.job_wake(), vllm.job_ddl() FROM PUBLIC;

/* ---- jobs (job_ddl.c, job_queue.c, job_uses.c) ---- */

-- what the names in an input stand for: recorded when the job runs next
ALTER TABLE vllm.job ADD COLUMN uses text[];

-- 0: the source has a new owner, who has not agreed; 0.9 had put him there without asking
UPDATE vllm.job SET owner = 0::pg_catalog.oid
WHERE reason OPERATOR(pg_catalog.=) 'the source has a new owner, as whom the job will run: look at its input, then call llm_resume_job()';

-- partitions come with CREATE SCHEMA, too
DROP EVENT TRIGGER vllm_job_ddl;
CREATE EVENT TRIGGER vllm_job_ddl ON ddl_command_end
WHEN TAG IN ('ALTER TABLE', 'CREATE TABLE', 'CREATE SCHEMA', 'CREATE TRIGGER') EXECUTE FUNCTION vllm.job_ddl();

-- pg_write_all_data may set sequences: they never end, and numbers that are taken are passed over
ALTER SEQUENCE vllm.job_id_seq CYCLE;
-- the upper 45 bits of an id; ALTER SEQUENCE refuses a value beyond the maximum, which setval() may have left
SELECT pg_catalog.setval('vllm.job_queue_id_seq', 35184372088831) FROM vllm.job_queue_id_seq
WHERE last_value OPERATOR(pg_catalog.>) 35184372088831;
ALTER SEQUENCE vllm.job_queue_id_seq MAXVALUE 35184372088831 CYCLE;

/* ---- who reads the catalog ---- */

-- no policy: members of pg_read_all_data and pg_write_all_data find nothing, and put nothing in
ALTER TABLE vllm.model ENABLE ROW LEVEL SECURITY;
ALTER TABLE vllm.lora ENABLE ROW LEVEL SECURITY;
ALTER TABLE vllm.job ENABLE ROW LEVEL SECURITY;
ALTER TABLE vllm.job_queue ENABLE ROW LEVEL SECURITY;
ALTER TABLE vllm.job_failure ENABLE ROW LEVEL SECURITY;
ALTER TABLE vllm.job_stat ENABLE ROW LEVEL SECURITY;
ALTER TABLE vllm.api_key ENABLE ROW LEVEL SECURITY;

/* ---- roles in dumps ---- */

-- A dump has the number of a role that is gone, which may be another role's where it is restored.  So a dump has texts
-- made by these functions: in the place of such an owner 1, which is no role's number anywhere, and such grantees are left
-- out.  pg_dump appends a configuration's condition to FROM table, which lets it rename columns and join others.
CREATE FUNCTION vllm.dumped_role(role regrole) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT coalesce((SELECT pg_catalog.quote_ident(r.rolname::text) FROM pg_catalog.pg_roles r
                     WHERE r.oid OPERATOR(pg_catalog.=) role::oid), '1');
END;

-- '-' is PUBLIC
CREATE FUNCTION vllm.dumped_roles(roles regrole[]) RETURNS text[]
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT ARRAY(SELECT coalesce(pg_catalog.quote_ident(r.rolname::text), '-')
                 FROM pg_catalog.unnest(roles) WITH ORDINALITY AS g (role, n)
                 LEFT JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) g.role::oid
                 WHERE r.oid IS NOT NULL OR g.role::oid OPERATOR(pg_catalog.=) 0::oid
                 ORDER BY g.n);
END;

SELECT pg_catalog.pg_extension_config_dump('vllm.model',
    'AS m (name, path, options, provider, url, role, roles, bundled),
     LATERAL (SELECT vllm.dumped_role(role) AS owner, vllm.dumped_roles(roles) AS grantees) AS r WHERE NOT bundled');
SELECT pg_catalog.pg_extension_config_dump('vllm.lora',
    'AS l (name, model, path, role, roles),
     LATERAL (SELECT vllm.dumped_role(role) AS owner, vllm.dumped_roles(roles) AS grantees) AS r');
SELECT pg_catalog.pg_extension_config_dump('vllm.job',
    'AS j (id, name, kind, role), LATERAL (SELECT vllm.dumped_role(role) AS owner) AS r');
-- a key of a role that is gone is nobody's
SELECT pg_catalog.pg_extension_config_dump('vllm.api_key',
    'AS k (name, hash, role, created, maker), LATERAL (SELECT vllm.dumped_role(maker) AS created_by) AS r
     WHERE role::pg_catalog.oid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT oid FROM pg_catalog.pg_roles))');

/* ---- responses ---- */

-- each role's own
ALTER TABLE vllm.response ALTER COLUMN owner SET DEFAULT pg_catalog.quote_ident(current_user)::regrole;
ALTER TABLE vllm.response ALTER COLUMN created SET DEFAULT pg_catalog.now();
DROP POLICY own ON vllm.response;
CREATE POLICY own ON vllm.response
    USING (owner::oid OPERATOR(pg_catalog.=) pg_catalog.quote_ident(current_user)::regrole::oid)
    WITH CHECK (owner::oid OPERATOR(pg_catalog.=) pg_catalog.quote_ident(current_user)::regrole::oid);
-- No DELETE, nor UPDATE of the whole table: who has them may lock it (LOCK TABLE), and with it all roles' responses.
REVOKE UPDATE, DELETE ON vllm.response FROM PUBLIC;
GRANT UPDATE (created, items, response) ON vllm.response TO PUBLIC;

-- the caller's, older than `before`, of one id; NULL: of any
CREATE FUNCTION @extschema@.llm_forget_responses(before timestamptz DEFAULT NULL, id text DEFAULT NULL) RETURNS bigint
AS 'MODULE_PATHNAME', 'llm_forget_responses' LANGUAGE C VOLATILE PARALLEL UNSAFE;

/* ---- bodies: what they call has its schema, or cannot be anybody else's ---- */

-- the same, where nobody may add a function that fits the rows' type better
CREATE FUNCTION vllm.nearest_rows(
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

CREATE OR REPLACE FUNCTION @extschema@.llm_completions(
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
    truncate int DEFAULT NULL,
    lora text DEFAULT NULL)
RETURNS SETOF @extschema@.llm_completion
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 100000 ROWS 4
BEGIN ATOMIC
    SELECT c.* FROM pg_catalog.unnest((@extschema@.llm_output(prompt, n, logprobs, prompt_logprobs, logprob_token_ids,
        max_tokens, temperature, top_p, top_k, min_p, seed, stop, stop_token_ids, min_tokens, ignore_eos, params,
        model, timeout_ms, presence_penalty, frequency_penalty, repetition_penalty, logit_bias, bad_words,
        allowed_token_ids, json_schema, regex, choice, grammar, priority, cache_salt, truncate, lora)).completions) AS c;
END;

CREATE OR REPLACE FUNCTION @extschema@.llm_chat_batch(
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
    thinking_token_budget int DEFAULT NULL,
    lora text DEFAULT NULL)
RETURNS SETOF @extschema@.llm_completion
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000 ROWS 40
BEGIN ATOMIC
    SELECT s.at::int OPERATOR(pg_catalog.-) 1, c.index, c.text, c.reasoning, c.tool_calls, c.token_ids, c.finish_reason,
           c.stop_reason, c.cumulative_logprob, c.logprobs
    FROM (SELECT b.at, (@extschema@.llm_chat_full(b.conversation, n, logprobs, prompt_logprobs, logprob_token_ids, max_tokens,
              temperature, top_p, top_k, min_p, seed, stop, stop_token_ids, min_tokens, ignore_eos, params, model, timeout_ms, tools,
              chat_template, chat_template_kwargs, add_generation_prompt, continue_final_message, documents,
              content_format, presence_penalty, frequency_penalty, repetition_penalty, logit_bias, bad_words,
              allowed_token_ids, json_schema, regex, choice, grammar, priority, cache_salt, truncate, tool_choice,
              parallel_tool_calls, include_reasoning, reasoning_effort, thinking_token_budget, lora)).completions AS answers
          FROM pg_catalog.unnest(conversations) WITH ORDINALITY AS b (conversation, at)) AS s,
         pg_catalog.unnest(s.answers) AS c
    ORDER BY s.at, c.index;
END;

CREATE OR REPLACE FUNCTION @extschema@.llm_beam_search(
    prompt text,
    beam_width int,
    max_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    length_penalty float8 DEFAULT NULL,
    include_stop_str_in_output bool DEFAULT NULL,
    params json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL)
RETURNS TABLE (rank int, text text, token_ids int[], cum_logprob float8, score float8, finish_reason text)
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000 ROWS 4
BEGIN ATOMIC
    SELECT b.* FROM pg_catalog.unnest(@extschema@.llm_beams(prompt, beam_width, max_tokens, ignore_eos, temperature, length_penalty,
        include_stop_str_in_output, params, model, timeout_ms, lora)) AS b;
END;

CREATE OR REPLACE FUNCTION @extschema@.llm_beam_search_batch(
    prompts text[],
    beam_width int,
    max_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    length_penalty float8 DEFAULT NULL,
    include_stop_str_in_output bool DEFAULT NULL,
    params json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL)
RETURNS TABLE (prompt_index int, rank int, text text, token_ids int[], cum_logprob float8, score float8, finish_reason text)
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000 ROWS 40
BEGIN ATOMIC
    SELECT s.at::int OPERATOR(pg_catalog.-) 1, b.*
    FROM (SELECT p.at, @extschema@.llm_beams(p.prompt, beam_width, max_tokens, ignore_eos, temperature, length_penalty,
              include_stop_str_in_output, params, model, timeout_ms, lora) AS beams
          FROM pg_catalog.unnest(prompts) WITH ORDINALITY AS p (prompt, at)) AS s, pg_catalog.unnest(s.beams) AS b
    ORDER BY s.at, b.rank;
END;

CREATE OR REPLACE FUNCTION vllm.logprobs_json(entries @extschema@.llm_logprob[]) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE WHEN entries IS NOT NULL THEN pg_catalog.json_build_object(
        'tokens', coalesce(pg_catalog.json_agg(t.token ORDER BY t.pos), '[]'),
        'token_logprobs', coalesce(pg_catalog.json_agg(t.logprob ORDER BY t.pos), '[]'),
        'top_logprobs', coalesce(pg_catalog.json_agg(t.top ORDER BY t.pos), '[]'),
        'text_offset', coalesce(pg_catalog.json_agg(t.at ORDER BY t.pos), '[]')) END
    FROM (SELECT e.pos, pg_catalog.max(e.token) FILTER (WHERE e.chosen) AS token,
              greatest(pg_catalog.max(e.logprob) FILTER (WHERE e.chosen), '-9999'::real) AS logprob,
              pg_catalog.json_object_agg(e.token, greatest(e.logprob, '-9999'::real) ORDER BY e.rank) AS top,
              coalesce(pg_catalog.sum(pg_catalog.length(pg_catalog.max(e.token) FILTER (WHERE e.chosen)))
                       OVER (ORDER BY e.pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS at
          FROM pg_catalog.unnest(entries) AS e
          GROUP BY e.pos) AS t;
END;

-- as OpenAI's completions interface has it
CREATE OR REPLACE FUNCTION @extschema@.llm_output_json(output @extschema@.llm_output) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE WHEN (output).completions IS NOT NULL THEN pg_catalog.json_build_object(
        'object', 'text_completion',
        'model', (output).model,
        'choices', coalesce((
            SELECT pg_catalog.json_agg(pg_catalog.json_build_object('index', c.index, 'text', c.text,
                                                                    'logprobs', vllm.logprobs_json(c.logprobs),
                                                                    'finish_reason', c.finish_reason, 'stop_reason', c.stop_reason)
                                       ORDER BY c.index)
            FROM pg_catalog.unnest((output).completions) AS c), '[]'),
        'usage', pg_catalog.json_build_object('prompt_tokens', ((output).usage).prompt_tokens,
                                              'completion_tokens', ((output).usage).completion_tokens,
                                              'total_tokens', ((output).usage).total_tokens)) END;
END;

CREATE OR REPLACE FUNCTION @extschema@.llm_embed_bytes(
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
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL)
RETURNS bytea
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100000
RETURN vllm.embedding_bytes(@extschema@.llm_embed(input, dimensions, normalize_embeddings, instruction, prompt_name, truncate,
    long_input, model, params, timeout_ms, lora), dtype, endian);

CREATE OR REPLACE FUNCTION @extschema@.llm_rerank(
    query text,
    documents text[],
    top_n int DEFAULT 0,
    use_activation bool DEFAULT NULL,
    instruction text DEFAULT NULL,
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params json DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL)
RETURNS TABLE (index int, relevance_score real, document text)
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 1000000 ROWS 10
BEGIN ATOMIC
    SELECT d.at::int, @extschema@.llm_score(query, d.text, use_activation, instruction, truncate, model, params, timeout_ms, lora) AS score, d.text
    FROM pg_catalog.unnest(documents) WITH ORDINALITY AS d (text, at)
    WHERE query IS NOT NULL
    ORDER BY score DESC NULLS LAST, d.at
    LIMIT vllm.rerank_limit(top_n);
END;

CREATE OR REPLACE FUNCTION @extschema@.llm_classify(
    input text,
    use_activation bool DEFAULT NULL,
    top int DEFAULT NULL,
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params json DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL)
RETURNS TABLE (index int, label text, prob real)
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100000 ROWS 5
BEGIN ATOMIC
    SELECT l.index, l.label, l.prob
    FROM pg_catalog.unnest((vllm.classify(input, use_activation, top, truncate, model, params, timeout_ms, lora))[:coalesce(top, 2147483647)]) AS l;
END;

CREATE OR REPLACE FUNCTION @extschema@.llm_token_classify(
    input text,
    aggregation text DEFAULT 'none',
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params json DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL)
RETURNS TABLE (pos int, token text, start int, stop int, label text, score real)
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100000 ROWS 20
BEGIN ATOMIC
    SELECT t.pos, t.token, t.start, t.stop, t.label, t.score
    FROM vllm.token_labels(vllm.token_scores(input, aggregation, truncate, model, params, timeout_ms, lora), input, aggregation) AS t;
END;

CREATE OR REPLACE FUNCTION @extschema@.llm_choice_probs(
    prompt text,
    labels text[],
    normalization text DEFAULT 'sum',
    chat bool DEFAULT false,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL)
RETURNS TABLE (label text, logprob float8, prob float8)
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100000 ROWS 5
BEGIN ATOMIC
    SELECT c.label, c.logprob, c.prob
    FROM pg_catalog.unnest(vllm.choices(prompt, labels, normalization, chat, model, timeout_ms, lora)) AS c;
END;

CREATE OR REPLACE FUNCTION @extschema@.llm_loglikelihood(
    context text,
    continuation text,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL)
RETURNS TABLE (logprob float8, tokens int, is_greedy bool)
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100000 ROWS 1
BEGIN ATOMIC
    SELECT l.logprob, l.tokens, l.is_greedy
    FROM vllm.loglikelihood(context, continuation, model, timeout_ms, lora) AS l;
END;

-- inlined by the planner where it stands in FROM: there its requests are batched
CREATE OR REPLACE FUNCTION @extschema@.llm_chunk_text(
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

-- NaN is greater than any number: a vector of zeros would be similar to everything
CREATE OR REPLACE FUNCTION @extschema@.llm_similarity(a real[], b real[]) RETURNS real
LANGUAGE sql IMMUTABLE PARALLEL SAFE COST 10
RETURN nullif(1::float8 OPERATOR(pg_catalog.-) @extschema@.llm_cosine_distance(a, b), 'NaN'::float8)::real; -- exact: float8 = float8

-- a text is embedded once
CREATE OR REPLACE FUNCTION @extschema@.llm_nearest(
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
    instruction text DEFAULT NULL,
    lora text DEFAULT NULL)
RETURNS TABLE (distance float8, row_id tid, source_table regclass)
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 200000 ROWS 10
BEGIN ATOMIC
    SELECT n.distance, n.row_id, n.source_table
    FROM @extschema@.llm_nearest(@extschema@.llm_embed(query, NULL::int, NULL::bool, instruction, prompt_name, NULL::int, NULL::text, model,
                                                       NULL::json, NULL::int, lora),
                                 source, "column", k, metric, filter, codes, oversample) n;
END;

-- follows llm_embed wherever the extension's schema is renamed to
CREATE FUNCTION vllm.embed_query(query text, instruction text, prompt_name text, model text, lora text) RETURNS real[]
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100000
RETURN @extschema@.llm_embed(query, NULL::int, NULL::bool, instruction, prompt_name, NULL::int, NULL::text, model, NULL::json, NULL::int, lora);

-- polymorphic, so the body is a string: it is read at each call, under the search_path of who calls
CREATE OR REPLACE FUNCTION @extschema@.llm_nearest_rows(
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
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 200000 ROWS 10
AS $$
    SELECT * FROM vllm.nearest_rows($1, vllm.embed_query($2, $11, $10, $9, $12), $3, $4, $5, $6, $7, $8)
$$;

-- inlined by the planner, so that the calls of many rows are batched
CREATE OR REPLACE FUNCTION @extschema@.llm_reduce(
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
    truncate int DEFAULT NULL,
    lora text DEFAULT NULL)
RETURNS text
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support
RETURN vllm.reduce(vllm.reduce_texts(inputs), instruction, combine, split, max_tokens, temperature, top_p, top_k, min_p, seed,
    stop, stop_token_ids, min_tokens, ignore_eos, params, model, timeout_ms, chat_template, chat_template_kwargs,
    presence_penalty, frequency_penalty, repetition_penalty, logit_bias, bad_words, allowed_token_ids,
    json_schema, regex, choice, grammar, priority, cache_salt, truncate, lora);

CREATE OR REPLACE FUNCTION @extschema@.v1_models() RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000
RETURN @extschema@.llm_api('/v1/models'::text, '{}'::json, 'raise'::text);

CREATE OR REPLACE FUNCTION @extschema@.v1_tokenize(request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000
RETURN @extschema@.llm_api('/tokenize'::text, request, 'raise'::text);

CREATE OR REPLACE FUNCTION @extschema@.v1_detokenize(request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000
RETURN @extschema@.llm_api('/detokenize'::text, request, 'raise'::text);

CREATE OR REPLACE FUNCTION @extschema@.v1_completions(request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000
RETURN @extschema@.llm_api('/v1/completions'::text, request, 'raise'::text);

CREATE OR REPLACE FUNCTION @extschema@.v1_completions_stream(request json) RETURNS SETOF json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000 ROWS 100
BEGIN ATOMIC SELECT @extschema@.llm_api_stream('/v1/completions'::text, request, 'raise'::text); END;

CREATE OR REPLACE FUNCTION @extschema@.v1_chat_completions(request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000
RETURN @extschema@.llm_api('/v1/chat/completions'::text, request, 'raise'::text);

CREATE OR REPLACE FUNCTION @extschema@.v1_chat_completions_stream(request json) RETURNS SETOF json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000 ROWS 100
BEGIN ATOMIC SELECT @extschema@.llm_api_stream('/v1/chat/completions'::text, request, 'raise'::text); END;

CREATE OR REPLACE FUNCTION @extschema@.v1_embeddings(request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 100000
RETURN @extschema@.llm_api('/v1/embeddings'::text, request, 'raise'::text);

CREATE OR REPLACE FUNCTION @extschema@.v1_classify(request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 100000
RETURN @extschema@.llm_api('/classify'::text, request, 'raise'::text);

CREATE OR REPLACE FUNCTION @extschema@.v1_pooling(request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 100000
RETURN @extschema@.llm_api('/pooling'::text, request, 'raise'::text);

CREATE OR REPLACE FUNCTION @extschema@.v1_score(request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 100000
RETURN @extschema@.llm_api('/score'::text, request, 'raise'::text);

CREATE OR REPLACE FUNCTION @extschema@.v1_rerank(request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 100000
RETURN @extschema@.llm_api('/rerank'::text, request, 'raise'::text);

CREATE OR REPLACE FUNCTION @extschema@.v1_messages(request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000
RETURN @extschema@.llm_api('/v1/messages'::text, request, 'raise'::text);

CREATE OR REPLACE FUNCTION @extschema@.v1_messages_stream(request json) RETURNS SETOF json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000 ROWS 100
BEGIN ATOMIC SELECT @extschema@.llm_api_stream('/v1/messages'::text, request, 'raise'::text); END;

CREATE OR REPLACE FUNCTION @extschema@.v1_messages_count_tokens(request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000
RETURN @extschema@.llm_api('/v1/messages/count_tokens'::text, request, 'raise'::text);

CREATE OR REPLACE FUNCTION @extschema@.v1_responses(request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL UNSAFE COST 1000000
RETURN @extschema@.llm_api('/v1/responses'::text, request, 'raise'::text);

CREATE OR REPLACE FUNCTION @extschema@.v1_responses_stream(request json) RETURNS SETOF json
LANGUAGE sql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 100
BEGIN ATOMIC SELECT @extschema@.llm_api_stream('/v1/responses'::text, request, 'raise'::text); END;

CREATE OR REPLACE FUNCTION @extschema@.v1_responses_get(id text) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000
RETURN @extschema@.llm_api('/v1/responses/'::text OPERATOR(pg_catalog.||) id, '{}'::json, 'raise'::text);

CREATE OR REPLACE FUNCTION @extschema@.v1_responses_cancel(id text) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000
RETURN @extschema@.llm_api('/v1/responses/'::text OPERATOR(pg_catalog.||) id OPERATOR(pg_catalog.||) '/cancel'::text, '{}'::json, 'raise'::text);

CREATE OR REPLACE FUNCTION vllm.store_response(body json, response json) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    INSERT INTO vllm.response (id, items, response)
    SELECT response OPERATOR(pg_catalog.->>) 'id'::text,
        (SELECT pg_catalog.json_agg(i.item ORDER BY i.part, i.n) FROM (
            SELECT 1 AS part, e.n, e.item FROM vllm.response r, pg_catalog.json_array_elements(r.items) WITH ORDINALITY AS e(item, n)
                WHERE r.id OPERATOR(pg_catalog.=) (body OPERATOR(pg_catalog.->>) 'previous_response_id'::text)
                AND r.owner::oid OPERATOR(pg_catalog.=) pg_catalog.quote_ident(current_user)::regrole::oid
            UNION ALL SELECT 2, 1, pg_catalog.json_build_object('role', 'user', 'content', body OPERATOR(pg_catalog.->) 'input'::text)
                WHERE pg_catalog.json_typeof(body OPERATOR(pg_catalog.->) 'input'::text) OPERATOR(pg_catalog.=) 'string'::text
            UNION ALL SELECT 3, e.n, e.item FROM pg_catalog.json_array_elements(
                    CASE WHEN pg_catalog.json_typeof(body OPERATOR(pg_catalog.->) 'input'::text) OPERATOR(pg_catalog.=) 'array'::text
                        THEN body OPERATOR(pg_catalog.->) 'input'::text ELSE '[]'::json END)
                WITH ORDINALITY AS e(item, n)
            UNION ALL SELECT 4, e.n, e.item FROM pg_catalog.json_array_elements(response OPERATOR(pg_catalog.->) 'output'::text)
                WITH ORDINALITY AS e(item, n)) AS i), response
    WHERE coalesce(body OPERATOR(pg_catalog.->>) 'store'::text, 'true') OPERATOR(pg_catalog.=) 'true'::text
    ON CONFLICT (owner, id) DO UPDATE SET created = pg_catalog.now(), items = excluded.items, response = excluded.response;
END;

-- the body's status, as HTTP has it
CREATE OR REPLACE FUNCTION vllm.api_status(body json) RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN coalesce(pg_catalog.json_typeof(body OPERATOR(pg_catalog.->) 'error'::text), 'null') OPERATOR(pg_catalog.<>) 'object'::text THEN 200
    WHEN (body OPERATOR(pg_catalog.->) 'error'::text OPERATOR(pg_catalog.->) 'code'::text) IS NOT NULL
        THEN (body OPERATOR(pg_catalog.->) 'error'::text OPERATOR(pg_catalog.->>) 'code'::text)::int
    WHEN body OPERATOR(pg_catalog.->) 'error'::text OPERATOR(pg_catalog.->>) 'type'::text OPERATOR(pg_catalog.=) 'authentication_error'::text THEN 401
    WHEN body OPERATOR(pg_catalog.->) 'error'::text OPERATOR(pg_catalog.->>) 'type'::text OPERATOR(pg_catalog.=) 'permission_error'::text THEN 403
    WHEN body OPERATOR(pg_catalog.->) 'error'::text OPERATOR(pg_catalog.->>) 'type'::text OPERATOR(pg_catalog.=) 'not_found_error'::text THEN 404
    WHEN body OPERATOR(pg_catalog.->) 'error'::text OPERATOR(pg_catalog.->>) 'type'::text OPERATOR(pg_catalog.=) 'overloaded_error'::text THEN 503
    WHEN body OPERATOR(pg_catalog.->) 'error'::text OPERATOR(pg_catalog.->>) 'type'::text OPERATOR(pg_catalog.=) 'api_error'::text THEN 500
    ELSE 400 END;

-- what is wrong with a line of a batch beside its body, as the error body; NULL = nothing.  problem: what is known already
CREATE OR REPLACE FUNCTION vllm.batch_refusal(custom_id text, url text, body json, nth bigint, problem text) RETURNS json
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (SELECT CASE WHEN refusal IS NOT NULL THEN
    pg_catalog.json_build_object('error', pg_catalog.json_build_object('message', refusal, 'type', 'BadRequestError', 'param', param, 'code', 400)) END
FROM (SELECT CASE WHEN problem IS NOT NULL THEN problem
        WHEN custom_id IS NULL THEN 'custom_id must be given'
        WHEN nth OPERATOR(pg_catalog.>) 1::bigint THEN pg_catalog.format('custom_id "%s" is used more than once', custom_id)
        WHEN url IS NULL THEN 'url must be given'
        WHEN body IS NULL THEN 'body must be given, as a JSON object' END,
    CASE WHEN problem IS NOT NULL THEN NULL WHEN custom_id IS NULL OR nth OPERATOR(pg_catalog.>) 1::bigint THEN 'custom_id'
        WHEN url IS NULL THEN 'url' ELSE 'body' END)
    AS t(refusal, param));

CREATE OR REPLACE FUNCTION @extschema@.llm_run_batch(input regclass, "window" int DEFAULT NULL, OUT custom_id text, OUT status_code int, OUT response json, OUT error json)
RETURNS SETOF record
LANGUAGE sql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 1000
BEGIN ATOMIC
    SELECT * FROM @extschema@.llm_run_batch(pg_catalog.format('SELECT custom_id, url, body FROM %s', input), "window");
END;

/* ---- views ---- */

CREATE OR REPLACE VIEW @extschema@.llm_models AS
    SELECT l.name, l.path, l.arch, l.state, l.provider, l.dtype, l.progress, l.error, l.parameters, l.weight_bytes,
           l.max_model_len, l.kv_blocks_total, l.kv_blocks_used, l.running, l.waiting, l.owner, l.grants, l.options,
           m.memory_bytes, m.last_used, m.expires, u.url, u.has_secret
    FROM vllm.model_list() l
    LEFT JOIN vllm.model_memory() m ON m.name OPERATOR(pg_catalog.=) l.name
    LEFT JOIN vllm.model_urls() u ON u.name OPERATOR(pg_catalog.=) l.name;

CREATE OR REPLACE VIEW @extschema@.llm_stat_model AS
    SELECT l.name, l.state, l.requests, l.prompt_tokens, l.output_tokens, l.preemptions, l.running, l.waiting,
           l.kv_blocks_total, l.kv_blocks_used, l.kv_bytes, l.weight_bytes,
           r.cached_tokens, r.finished, r.failed, r.cancelled, r.draft_tokens, r.accepted_tokens,
           r.mean_queue_ms, r.mean_ttft_ms, r.mean_tpot_ms, r.mean_e2e_ms
    FROM vllm.model_list() l
    LEFT JOIN vllm.model_requests() r ON r.name OPERATOR(pg_catalog.=) l.name;

CREATE OR REPLACE VIEW @extschema@.llm_jobs WITH (security_barrier) AS
    SELECT j.name, j.kind, j.source, j.input, coalesce(j.target_column::text, j.target_table::text) AS target,
           j.model, coalesce(c.relowner::regrole, j.owner) AS owner, j.state, q.queued, q.in_flight, f.failed, s.done, q.lag,
           s.rate OPERATOR(pg_catalog.*) pg_catalog.exp(OPERATOR(pg_catalog.-)
               least(extract(epoch FROM pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) s.last_done)::float8 OPERATOR(pg_catalog./) 10::float8,
                     700::float8)) AS rate,
           coalesce(s.backfill, 'done') AS backfill, s.backfill_rows,
           greatest(c.reltuples, 0::real)::bigint AS source_rows_estimate,
           coalesce(j.reason, s.last_error) AS last_error, s.last_error_at, s.last_done, j.created,
           j.priority, j.batch_size, j.schedule
    FROM vllm.job j
    JOIN vllm.job_stat s ON s.job OPERATOR(pg_catalog.=) j.id
    LEFT JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) j.source::oid
    CROSS JOIN LATERAL (SELECT pg_catalog.count(*) FILTER (WHERE worker IS NULL) AS queued,
            pg_catalog.count(*) FILTER (WHERE worker IS NOT NULL) AS in_flight,
            pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) pg_catalog.min(queued) AS lag
        FROM vllm.job_queue WHERE job_queue.job OPERATOR(pg_catalog.=) j.id) q
    CROSS JOIN LATERAL (SELECT pg_catalog.count(*) AS failed FROM vllm.job_failure
        WHERE job_failure.job OPERATOR(pg_catalog.=) j.id) f
    WHERE pg_catalog.pg_has_role(coalesce(c.relowner, j.owner::oid), 'USAGE') OR pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE');

CREATE OR REPLACE VIEW @extschema@.llm_job_failures WITH (security_barrier) AS
    SELECT j.name, j.source, f.key, f.attempts, f.sqlstate, f.message, f.failed
    FROM vllm.job_failure f
    JOIN vllm.job j ON j.id OPERATOR(pg_catalog.=) f.job
    LEFT JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) j.source::oid
    WHERE pg_catalog.pg_has_role(coalesce(c.relowner, j.owner::oid), 'USAGE');

CREATE OR REPLACE VIEW @extschema@.llm_api_keys WITH (security_barrier) AS
    SELECT k.name, CASE WHEN r.oid IS NULL THEN 'role dropped' WHEN k.revoked IS NOT NULL THEN 'revoked'
               WHEN k.expires OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp() THEN 'expired' ELSE 'active' END AS state,
           coalesce(r.rolname::text, k.role::text) AS role, k.created, k.created_by::text AS created_by, k.expires, k.revoked
    FROM vllm.api_key k
    LEFT JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) k.role::oid
    WHERE pg_catalog.pg_has_role(k.role::oid, 'MEMBER');

CREATE OR REPLACE VIEW @extschema@.llm_requests AS
    SELECT id, pid, database, role, model, kind, state, arrival,
           pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) arrival AS age, prompt_tokens, computed_tokens, cached_tokens,
           output_tokens, preemptions, ttft_ms, lora, priority, traceparent
    FROM vllm.requests();

CREATE OR REPLACE VIEW @extschema@.llm_stat_role AS
    SELECT s.userid, r.rolname AS role, s.dbid, d.datname AS database, s.calls, s.requests, s.errors, s.cancelled,
           s.prompt_tokens, s.cached_tokens, s.output_tokens, s.preemptions, s.draft_tokens, s.accepted_tokens,
           s.total_time, s.min_time, s.max_time, s.mean_time, s.stddev_time,
           s.queue_time, s.prefill_time, s.decode_time, s.stats_since, s.last_used
    FROM vllm.stat_list(true) s
    LEFT JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) s.userid
    LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) s.dbid;

CREATE OR REPLACE VIEW @extschema@.llm_stat_cost AS
    SELECT r.rolname AS role, d.datname AS database, c.model, c.requests, c.prompt_tokens, c.cached_tokens, c.output_tokens, c.charged_tries,
           c.cost, c.since, c.userid, c.dbid
    FROM vllm.cost_list() c
    LEFT JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) c.userid
    LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) c.dbid;

CREATE OR REPLACE VIEW @extschema@.llm_stat_budget AS
    SELECT r.rolname AS role, b.day, b.month, b.total, b.reserved, b.userid
    FROM vllm.budget_list() b
    LEFT JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) b.userid;

/* ---- streams of chats: thoughts and calls of tools (fn_chat.c) ---- */

-- Two columns more of llm_chat_stream; views keep what they have.
UPDATE pg_catalog.pg_proc
SET proallargtypes = proallargtypes OPERATOR(pg_catalog.||) ARRAY['pg_catalog.text'::pg_catalog.regtype::pg_catalog.oid, 'pg_catalog.json'::pg_catalog.regtype::pg_catalog.oid],
    proargmodes = proargmodes OPERATOR(pg_catalog.||) '{t,t}'::pg_catalog."char"[],
    proargnames = proargnames OPERATOR(pg_catalog.||) '{reasoning,tool_calls}'::pg_catalog.text[]
WHERE proname OPERATOR(pg_catalog.=) 'llm_chat_stream'::pg_catalog.name
AND oid OPERATOR(pg_catalog.=) ANY (
    SELECT d.objid FROM pg_catalog.pg_depend d
    WHERE d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid AND d.deptype OPERATOR(pg_catalog.=) 'e'::pg_catalog."char"
    AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass::pg_catalog.oid
    AND d.refobjid OPERATOR(pg_catalog.=) (SELECT e.oid FROM pg_catalog.pg_extension e WHERE e.extname OPERATOR(pg_catalog.=) 'vllm_pg'::pg_catalog.name));

/* ---- what the HTTP server calls (src/http) ---- */

-- In schema vllm, which keeps its name: a connection of the server lasts, and the owner of the database may rename the
-- extension's schema and put another in its place.  Each has the privileges of what it calls, whose EXECUTE is checked, too.
CREATE FUNCTION vllm.http_api(path text, request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000
RETURN @extschema@.llm_api(path, request, 'return'::text);

CREATE FUNCTION vllm.http_api_stream(path text, request json) RETURNS SETOF json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000 ROWS 100
BEGIN ATOMIC SELECT @extschema@.llm_api_stream(path, request, 'return'::text); END;

CREATE FUNCTION vllm.http_load_lora_adapter(request json) RETURNS text LANGUAGE sql VOLATILE
RETURN @extschema@.v1_load_lora_adapter(request);

CREATE FUNCTION vllm.http_unload_lora_adapter(request json) RETURNS text LANGUAGE sql VOLATILE
RETURN @extschema@.v1_unload_lora_adapter(request);

CREATE FUNCTION vllm.http_metrics() RETURNS text LANGUAGE sql VOLATILE
RETURN @extschema@.llm_metrics_text();

CREATE FUNCTION vllm.http_sleep(level int, mode text, model text) RETURNS void LANGUAGE sql VOLATILE
BEGIN ATOMIC SELECT @extschema@.llm_sleep(level, mode, model); END;

CREATE FUNCTION vllm.http_wake_up(tags text[], model text) RETURNS void LANGUAGE sql VOLATILE
BEGIN ATOMIC SELECT @extschema@.llm_wake_up(tags, model); END;

CREATE FUNCTION vllm.http_is_sleeping(model text) RETURNS bool LANGUAGE sql VOLATILE
RETURN @extschema@.llm_is_sleeping(model);

CREATE FUNCTION vllm.http_pause(mode text, model text) RETURNS void LANGUAGE sql VOLATILE
BEGIN ATOMIC SELECT @extschema@.llm_pause(mode, model); END;

CREATE FUNCTION vllm.http_resume(model text) RETURNS void LANGUAGE sql VOLATILE
BEGIN ATOMIC SELECT @extschema@.llm_resume(model); END;

CREATE FUNCTION vllm.http_is_paused(model text) RETURNS bool LANGUAGE sql VOLATILE
RETURN @extschema@.llm_is_paused(model);
