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

