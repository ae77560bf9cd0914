/*
 * vllm_pg--0.10.sql
 *	  Functions, types, views and the catalog (docs/user/sql.md).
 *
 * WHOSE CODE RUNS.  A superuser runs this script, in a schema where others may have created what they like.  So every
 * operator, function, table and type has its schema; types of the system need none: pg_catalog comes first in the
 * search_path that CREATE EXTENSION sets.  Whoever may create in the extension's schema could add a function that
 * fits a call better than ours.  So a body here calls functions of schema vllm, where nobody else may create, or
 * gives all arguments, of their very types: a function of that signature fits best, and is ours, as CREATE FUNCTION
 * refuses to replace one.  A schema vllm that is there already is an error.  IN, BETWEEN, LIKE, NULLIF, CASE x WHEN,
 * JOIN USING and the like stand for operators without a schema, and are left out.  scripts/sqlnames.py checks this.
 *
 * WHO READS THE CATALOG.  Only the extension's functions write the tables of schema vllm, and views show users their
 * part of them.  Row-level security without a policy keeps out the members of pg_read_all_data and pg_write_all_data,
 * who have privileges on all tables; the tables' owner, as whom functions and views work, is exempt.
 */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION vllm_pg" to load this file. \quit

/* ---- is the library preloaded? ---- */

CREATE SCHEMA vllm;
GRANT USAGE ON SCHEMA vllm TO PUBLIC;

CREATE FUNCTION vllm.check_preload() RETURNS void
AS 'MODULE_PATHNAME', 'llm_check_preload' LANGUAGE C VOLATILE;

SELECT vllm.check_preload();
DROP FUNCTION vllm.check_preload();

/* ---- types of arguments (number_array.c, own_type.c; docs/user/sql.md) ---- */

-- JSON of callers: json, jsonb and text become it by themselves, which don't become each other.  It is stored as json is.
CREATE TYPE vllm.json;
CREATE FUNCTION vllm.json_in(cstring) RETURNS vllm.json AS 'json_in' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION vllm.json_out(vllm.json) RETURNS cstring AS 'json_out' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION vllm.json_recv(internal) RETURNS vllm.json AS 'json_recv' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION vllm.json_send(vllm.json) RETURNS bytea AS 'json_send' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE TYPE vllm.json (
    INPUT = vllm.json_in, OUTPUT = vllm.json_out, RECEIVE = vllm.json_recv, SEND = vllm.json_send, STORAGE = extended
);
CREATE CAST (json AS vllm.json) WITHOUT FUNCTION AS IMPLICIT;
CREATE CAST (vllm.json AS json) WITHOUT FUNCTION AS IMPLICIT;
CREATE CAST (jsonb AS vllm.json) WITH INOUT AS IMPLICIT;
CREATE CAST (text AS vllm.json) WITH INOUT AS IMPLICIT;
CREATE CAST (varchar AS vllm.json) WITH INOUT AS IMPLICIT;

-- Texts, or one: text[] is stored so, too, and a text becomes an array of one.  Of the category of strings, which a literal
-- is taken for where another function has an argument of another kind.
CREATE TYPE vllm.texts;
CREATE FUNCTION vllm.texts_in(cstring, oid, int) RETURNS vllm.texts AS 'MODULE_PATHNAME', 'llm_texts_in' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION vllm.texts_out(vllm.texts) RETURNS cstring AS 'array_out' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION vllm.texts_recv(internal, oid, int) RETURNS vllm.texts AS 'array_recv' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION vllm.texts_send(vllm.texts) RETURNS bytea AS 'array_send' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION vllm.texts_subscript(internal) RETURNS internal AS 'array_subscript_handler' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE TYPE vllm.texts (
    INPUT = vllm.texts_in, OUTPUT = vllm.texts_out, RECEIVE = vllm.texts_recv, SEND = vllm.texts_send,
    ELEMENT = text, SUBSCRIPT = vllm.texts_subscript, CATEGORY = 'S', STORAGE = extended
);
CREATE FUNCTION vllm.texts_of(text[]) RETURNS vllm.texts AS 'MODULE_PATHNAME', 'llm_texts_of' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION vllm.texts_of(varchar[]) RETURNS vllm.texts AS 'MODULE_PATHNAME', 'llm_texts_of' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION vllm.texts_of(text) RETURNS vllm.texts AS 'MODULE_PATHNAME', 'llm_one_text' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION vllm.texts_of(varchar) RETURNS vllm.texts AS 'MODULE_PATHNAME', 'llm_one_text' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION vllm.array_of(vllm.texts) RETURNS text[] AS 'MODULE_PATHNAME', 'llm_texts_of' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE CAST (text[] AS vllm.texts) WITH FUNCTION vllm.texts_of(text[]) AS IMPLICIT;
CREATE CAST (varchar[] AS vllm.texts) WITH FUNCTION vllm.texts_of(varchar[]) AS IMPLICIT;
CREATE CAST (text AS vllm.texts) WITH FUNCTION vllm.texts_of(text) AS IMPLICIT;
CREATE CAST (varchar AS vllm.texts) WITH FUNCTION vllm.texts_of(varchar) AS IMPLICIT;

-- A vector where it isn't real[], which functions take as well: float8[] and other arrays of numbers become it, and as it is
-- preferred a literal and a parameter without a type do.  It is stored as float8[] is.
CREATE TYPE vllm.doubles;
CREATE FUNCTION vllm.doubles_in(cstring, oid, int) RETURNS vllm.doubles AS 'MODULE_PATHNAME', 'llm_doubles_in' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION vllm.doubles_out(vllm.doubles) RETURNS cstring AS 'array_out' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION vllm.doubles_recv(internal, oid, int) RETURNS vllm.doubles AS 'array_recv' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION vllm.doubles_send(vllm.doubles) RETURNS bytea AS 'array_send' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION vllm.doubles_subscript(internal) RETURNS internal AS 'array_subscript_handler' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE TYPE vllm.doubles (
    INPUT = vllm.doubles_in, OUTPUT = vllm.doubles_out, RECEIVE = vllm.doubles_recv, SEND = vllm.doubles_send,
    ELEMENT = float8, SUBSCRIPT = vllm.doubles_subscript, CATEGORY = 'A', PREFERRED = true, ALIGNMENT = double, STORAGE = extended
);
CREATE FUNCTION vllm.doubles_of(float8[]) RETURNS vllm.doubles AS 'MODULE_PATHNAME', 'llm_doubles_of' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE CAST (float8[] AS vllm.doubles) WITH FUNCTION vllm.doubles_of(float8[]) AS IMPLICIT;
CREATE FUNCTION vllm.doubles_of(real[]) RETURNS vllm.doubles LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN vllm.doubles_of($1::float8[]);
CREATE FUNCTION vllm.doubles_of(smallint[]) RETURNS vllm.doubles LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN vllm.doubles_of($1::float8[]);
CREATE FUNCTION vllm.doubles_of(int[]) RETURNS vllm.doubles LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN vllm.doubles_of($1::float8[]);
CREATE FUNCTION vllm.doubles_of(bigint[]) RETURNS vllm.doubles LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN vllm.doubles_of($1::float8[]);
CREATE FUNCTION vllm.doubles_of(numeric[]) RETURNS vllm.doubles LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN vllm.doubles_of($1::float8[]);
CREATE CAST (real[] AS vllm.doubles) WITH FUNCTION vllm.doubles_of(real[]) AS IMPLICIT;
CREATE CAST (smallint[] AS vllm.doubles) WITH FUNCTION vllm.doubles_of(smallint[]) AS IMPLICIT;
CREATE CAST (int[] AS vllm.doubles) WITH FUNCTION vllm.doubles_of(int[]) AS IMPLICIT;
CREATE CAST (bigint[] AS vllm.doubles) WITH FUNCTION vllm.doubles_of(bigint[]) AS IMPLICIT;
CREATE CAST (numeric[] AS vllm.doubles) WITH FUNCTION vllm.doubles_of(numeric[]) AS IMPLICIT;

-- A schema that isn't json, where a type may stand in its place: jsonb becomes it, and as it is preferred a literal does.
CREATE TYPE vllm.schema;
CREATE FUNCTION vllm.schema_in(cstring) RETURNS vllm.schema AS 'json_in' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION vllm.schema_out(vllm.schema) RETURNS cstring AS 'json_out' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION vllm.schema_recv(internal) RETURNS vllm.schema AS 'json_recv' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION vllm.schema_send(vllm.schema) RETURNS bytea AS 'json_send' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE TYPE vllm.schema (
    INPUT = vllm.schema_in, OUTPUT = vllm.schema_out, RECEIVE = vllm.schema_recv, SEND = vllm.schema_send,
    CATEGORY = 'U', PREFERRED = true, STORAGE = extended
);
CREATE CAST (vllm.schema AS json) WITHOUT FUNCTION;
CREATE CAST (jsonb AS vllm.schema) WITH INOUT AS IMPLICIT;

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

/* ---- models (model_catalog.c, model_ddl.c; docs/user/models.md) ---- */

-- only functions write it
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

INSERT INTO vllm.model (name, path, provider, owner, grantees, bundled)
VALUES ('tickets-2m', '$libdir/vllm_pg/models/tickets-2m', 'local',
        pg_catalog.quote_ident(current_user::text)::regrole, ARRAY['-'::regrole], true);

REVOKE ALL ON vllm.model FROM PUBLIC;
ALTER TABLE vllm.model ENABLE ROW LEVEL SECURITY;
SELECT pg_catalog.pg_extension_config_dump('vllm.model',
    'AS m (name, path, options, provider, url, role, roles, bundled),
     LATERAL (SELECT vllm.dumped_role(role) AS owner, vllm.dumped_roles(roles) AS grantees) AS r WHERE NOT bundled');

CREATE FUNCTION @extschema@.llm_create_model(
    name text,
    path text DEFAULT NULL,
    options vllm.json DEFAULT NULL,
    provider text DEFAULT 'local',
    url text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'llm_create_model' LANGUAGE C VOLATILE;

CREATE FUNCTION @extschema@.llm_inspect_model(path text, options vllm.json DEFAULT NULL) RETURNS json
AS 'MODULE_PATHNAME', 'llm_inspect_model' LANGUAGE C VOLATILE;

CREATE FUNCTION @extschema@.llm_drop_model(name text) RETURNS void
AS 'MODULE_PATHNAME', 'llm_drop_model' LANGUAGE C VOLATILE;

-- with what uses it
CREATE FUNCTION @extschema@.llm_drop_model(name text, cascade bool) RETURNS void
AS 'MODULE_PATHNAME', 'llm_drop_model' LANGUAGE C VOLATILE;

CREATE FUNCTION @extschema@.llm_load_model(name text) RETURNS void
AS 'MODULE_PATHNAME', 'llm_load_model' LANGUAGE C VOLATILE;

CREATE FUNCTION @extschema@.llm_unload_model(name text) RETURNS void
AS 'MODULE_PATHNAME', 'llm_unload_model' LANGUAGE C VOLATILE;

CREATE FUNCTION @extschema@.llm_grant(model text, role text) RETURNS void
AS 'MODULE_PATHNAME', 'llm_grant' LANGUAGE C VOLATILE;

CREATE FUNCTION @extschema@.llm_revoke(model text, role text) RETURNS void
AS 'MODULE_PATHNAME', 'llm_revoke' LANGUAGE C VOLATILE;

-- a path is opened by the server's user
REVOKE EXECUTE ON FUNCTION @extschema@.llm_create_model(text, text, vllm.json, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION @extschema@.llm_create_model(text, text, vllm.json, text, text) TO pg_read_server_files;
REVOKE EXECUTE ON FUNCTION @extschema@.llm_inspect_model(text, vllm.json) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION @extschema@.llm_inspect_model(text, vllm.json) TO pg_read_server_files;

CREATE FUNCTION vllm.model_list(
    OUT name text, OUT path text, OUT arch text, OUT state text, OUT provider text,
    OUT dtype text, OUT progress float8, OUT error text, OUT parameters bigint,
    OUT weight_bytes bigint, OUT max_model_len bigint, OUT kv_blocks_total bigint,
    OUT kv_blocks_used bigint, OUT kv_bytes bigint, OUT running bigint, OUT waiting bigint,
    OUT requests bigint, OUT prompt_tokens bigint, OUT output_tokens bigint,
    OUT preemptions bigint, OUT owner text, OUT grants text[], OUT options json)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_model_list' LANGUAGE C VOLATILE ROWS 10;

CREATE FUNCTION vllm.model_memory(OUT name text, OUT memory_bytes bigint, OUT last_used timestamptz, OUT expires timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_model_memory' LANGUAGE C VOLATILE ROWS 10;

-- what llm_models has more of remote models
CREATE FUNCTION vllm.model_urls(OUT name text, OUT url text, OUT has_secret bool) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_model_urls' LANGUAGE C VOLATILE ROWS 10;

-- what llm_models has more of models that are loaded
CREATE FUNCTION vllm.model_devices(OUT name text, OUT device text) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_model_devices' LANGUAGE C VOLATILE ROWS 10;

CREATE VIEW @extschema@.llm_models AS
    SELECT l.name, l.path, l.arch, l.state, l.provider, l.dtype, l.progress, l.error, l.parameters, l.weight_bytes,
           l.max_model_len, l.kv_blocks_total, l.kv_blocks_used, l.running, l.waiting, l.owner, l.grants, l.options,
           m.memory_bytes, m.last_used, m.expires, u.url, u.has_secret, d.device
    FROM vllm.model_list() l
    LEFT JOIN vllm.model_memory() m ON m.name OPERATOR(pg_catalog.=) l.name
    LEFT JOIN vllm.model_urls() u ON u.name OPERATOR(pg_catalog.=) l.name
    LEFT JOIN vllm.model_devices() d ON d.name OPERATOR(pg_catalog.=) l.name;

-- what models' requests were, and how long they took
CREATE FUNCTION vllm.model_requests(
    OUT name text, OUT cached_tokens bigint, OUT finished bigint, OUT failed bigint, OUT cancelled bigint,
    OUT draft_tokens bigint, OUT accepted_tokens bigint, OUT mean_queue_ms float8, OUT mean_ttft_ms float8,
    OUT mean_tpot_ms float8, OUT mean_e2e_ms float8)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_model_requests' LANGUAGE C VOLATILE ROWS 10;

-- how loaded models share the time of steps
CREATE FUNCTION vllm.model_steps(
    OUT name text, OUT scheduling_weight bigint, OUT work text, OUT waits_for text, OUT compute_ms float8, OUT wait_ms float8,
    OUT paused_ms float8)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_model_steps' LANGUAGE C VOLATILE ROWS 10;

CREATE VIEW @extschema@.llm_stat_model AS
    SELECT l.name, l.state, l.requests, l.prompt_tokens, l.output_tokens, l.preemptions, l.running, l.waiting,
           l.kv_blocks_total, l.kv_blocks_used, l.kv_bytes, l.weight_bytes,
           r.cached_tokens, r.finished, r.failed, r.cancelled, r.draft_tokens, r.accepted_tokens,
           r.mean_queue_ms, r.mean_ttft_ms, r.mean_tpot_ms, r.mean_e2e_ms,
           s.scheduling_weight, s.work, s.waits_for, s.compute_ms, s.wait_ms, s.paused_ms
    FROM vllm.model_list() l
    LEFT JOIN vllm.model_requests() r ON r.name OPERATOR(pg_catalog.=) l.name
    LEFT JOIN vllm.model_steps() s ON s.name OPERATOR(pg_catalog.=) l.name;

CREATE FUNCTION vllm.memory_list(
    OUT model text, OUT shared_with text, OUT weights bigint, OUT kv_reserved bigint, OUT kv bigint, OUT kv_tokens bigint, OUT pinned_tokens bigint,
    OUT state bigint, OUT work bigint, OUT offload bigint, OUT other bigint, OUT total bigint, OUT offload_files bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_memory_list' LANGUAGE C VOLATILE ROWS 10;

CREATE VIEW @extschema@.llm_memory AS
    SELECT * FROM vllm.memory_list();

GRANT SELECT ON @extschema@.llm_models, @extschema@.llm_stat_model, @extschema@.llm_memory TO PUBLIC;

CREATE FUNCTION @extschema@.llm_update_weights(model text DEFAULT NULL, path text DEFAULT NULL, mode text DEFAULT 'wait')
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

REVOKE ALL ON FUNCTION @extschema@.llm_update_weights(text, text, text) FROM PUBLIC;

/* ---- models that sleep (sleep_wake.c) ---- */

CREATE FUNCTION @extschema@.llm_sleep(level int DEFAULT 1, mode text DEFAULT 'abort', model text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION @extschema@.llm_wake_up(tags text[] DEFAULT NULL, model text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION @extschema@.llm_is_sleeping(model text DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION @extschema@.llm_pause(mode text DEFAULT 'abort', model text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION @extschema@.llm_resume(model text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION @extschema@.llm_is_paused(model text DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

REVOKE ALL ON FUNCTION @extschema@.llm_sleep(int, text, text), @extschema@.llm_wake_up(text[], text),
    @extschema@.llm_pause(text, text), @extschema@.llm_resume(text) FROM PUBLIC;

/* ---- secrets (secret.c) ---- */

-- only functions write it and nobody reads it; not in dumps
CREATE TABLE vllm.secret (
    model name PRIMARY KEY,
    secret text NOT NULL
);

REVOKE ALL ON vllm.secret FROM PUBLIC;
ALTER TABLE vllm.secret ENABLE ROW LEVEL SECURITY;

CREATE FUNCTION @extschema@.llm_set_secret(model text, secret text) RETURNS void
AS 'MODULE_PATHNAME', 'llm_set_secret' LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION @extschema@.llm_drop_secret(model text) RETURNS bool
AS 'MODULE_PATHNAME', 'llm_drop_secret' LANGUAGE C VOLATILE PARALLEL UNSAFE;

/* ---- adapters (lora.c, lora_ddl.c; docs/user/lora.md) ---- */

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
ALTER TABLE vllm.lora ENABLE ROW LEVEL SECURITY;
SELECT pg_catalog.pg_extension_config_dump('vllm.lora',
    'AS l (name, model, path, role, roles),
     LATERAL (SELECT vllm.dumped_role(role) AS owner, vllm.dumped_roles(roles) AS grantees) AS r');

CREATE FUNCTION @extschema@.llm_create_lora(name text, model text, path text, replace bool DEFAULT false) RETURNS void
AS 'MODULE_PATHNAME', 'llm_create_lora' LANGUAGE C VOLATILE;

CREATE FUNCTION @extschema@.llm_alter_lora(name text, path text DEFAULT NULL, new_name text DEFAULT NULL) RETURNS void
AS 'MODULE_PATHNAME', 'llm_alter_lora' LANGUAGE C VOLATILE;

CREATE FUNCTION @extschema@.llm_drop_lora(name text) RETURNS void
AS 'MODULE_PATHNAME', 'llm_drop_lora' LANGUAGE C VOLATILE;

-- with what uses it
CREATE FUNCTION @extschema@.llm_drop_lora(name text, cascade bool) RETURNS void
AS 'MODULE_PATHNAME', 'llm_drop_lora' LANGUAGE C VOLATILE;

CREATE FUNCTION @extschema@.llm_load_lora(name text, pin bool DEFAULT NULL) RETURNS void
AS 'MODULE_PATHNAME', 'llm_load_lora' LANGUAGE C VOLATILE;

CREATE FUNCTION @extschema@.llm_unload_lora(name text) RETURNS void
AS 'MODULE_PATHNAME', 'llm_unload_lora' LANGUAGE C VOLATILE;

CREATE FUNCTION @extschema@.v1_load_lora_adapter(request vllm.json) RETURNS text
AS 'MODULE_PATHNAME', 'llm_v1_load_lora_adapter' LANGUAGE C VOLATILE STRICT;

CREATE FUNCTION @extschema@.v1_unload_lora_adapter(request vllm.json) RETURNS text
AS 'MODULE_PATHNAME', 'llm_v1_unload_lora_adapter' LANGUAGE C VOLATILE STRICT;

-- parent and root as in vLLM's list of models: the model, and where the files are
CREATE FUNCTION vllm.lora_list(
    OUT name text, OUT parent text, OUT root text, OUT source text, OUT state text, OUT rank int, OUT alpha float8,
    OUT rslora bool, OUT modules text[], OUT bytes bigint, OUT pinned bool, OUT running int, OUT waiting int,
    OUT requests bigint, OUT last_used timestamptz, OUT owner text, OUT grants text[], OUT created timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_lora_list' LANGUAGE C VOLATILE ROWS 10;

CREATE VIEW @extschema@.llm_loras AS
    SELECT * FROM vllm.lora_list();

GRANT SELECT ON @extschema@.llm_loras TO PUBLIC;

/* ---- generation (generate.c) ---- */

CREATE TYPE @extschema@.llm_usage AS (
    prompt_tokens int,
    completion_tokens int,
    total_tokens int,
    cached_tokens int,
    reasoning_tokens int
);

CREATE TYPE @extschema@.llm_result AS (
    text text,
    token_ids int[],
    finish_reason text,
    stop_reason text,
    usage @extschema@.llm_usage,
    timings json
);

CREATE FUNCTION vllm.llm_support(internal) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_support' LANGUAGE C STRICT;

CREATE FUNCTION @extschema@.llm_generate(
    prompt text,
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop vllm.texts DEFAULT NULL,
    stop_token_ids bigint[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids bigint[] DEFAULT NULL,
    json_schema vllm.json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'llm_generate'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support;

CREATE FUNCTION @extschema@.llm_generate(
    prompt_token_ids bigint[],
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop vllm.texts DEFAULT NULL,
    stop_token_ids bigint[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids bigint[] DEFAULT NULL,
    json_schema vllm.json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'llm_generate_ids'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support;

CREATE FUNCTION @extschema@.llm_generate_full(
    prompt text,
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop vllm.texts DEFAULT NULL,
    stop_token_ids bigint[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids bigint[] DEFAULT NULL,
    json_schema vllm.json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS @extschema@.llm_result
AS 'MODULE_PATHNAME', 'llm_generate_full'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support;

CREATE FUNCTION @extschema@.llm_generate_full(
    prompt_token_ids bigint[],
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop vllm.texts DEFAULT NULL,
    stop_token_ids bigint[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids bigint[] DEFAULT NULL,
    json_schema vllm.json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS @extschema@.llm_result
AS 'MODULE_PATHNAME', 'llm_generate_full_ids'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support;

CREATE FUNCTION @extschema@.llm_generate_stream(
    prompt text,
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop vllm.texts DEFAULT NULL,
    stop_token_ids bigint[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids bigint[] DEFAULT NULL,
    json_schema vllm.json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    stream_interval int DEFAULT NULL,
    lora text DEFAULT NULL)
RETURNS TABLE (seq int, text text, token_ids int[], finish_reason text)
AS 'MODULE_PATHNAME', 'llm_generate_stream'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 ROWS 256 SUPPORT vllm.llm_support;

CREATE FUNCTION @extschema@.llm_generate_stream(
    prompt_token_ids bigint[],
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop vllm.texts DEFAULT NULL,
    stop_token_ids bigint[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids bigint[] DEFAULT NULL,
    json_schema vllm.json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    stream_interval int DEFAULT NULL,
    lora text DEFAULT NULL)
RETURNS TABLE (seq int, text text, token_ids int[], finish_reason text)
AS 'MODULE_PATHNAME', 'llm_generate_stream_ids'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 ROWS 256 SUPPORT vllm.llm_support;

/* ---- chat: messages through the model's template (chat.c; docs/user/chat.md) ---- */

CREATE FUNCTION @extschema@.llm_chat(
    messages vllm.json,
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop vllm.texts DEFAULT NULL,
    stop_token_ids bigint[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    tools vllm.json DEFAULT NULL,
    chat_template text DEFAULT NULL,
    chat_template_kwargs vllm.json DEFAULT NULL,
    add_generation_prompt bool DEFAULT NULL,
    continue_final_message bool DEFAULT NULL,
    documents vllm.json DEFAULT NULL,
    content_format text DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids bigint[] DEFAULT NULL,
    json_schema vllm.json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    tool_choice vllm.json DEFAULT NULL,
    parallel_tool_calls bool DEFAULT NULL,
    include_reasoning bool DEFAULT NULL,
    reasoning_effort text DEFAULT NULL,
    thinking_token_budget int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS json
AS 'MODULE_PATHNAME', 'llm_chat'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support;

CREATE FUNCTION @extschema@.llm_chat_text(
    messages vllm.json,
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop vllm.texts DEFAULT NULL,
    stop_token_ids bigint[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    tools vllm.json DEFAULT NULL,
    chat_template text DEFAULT NULL,
    chat_template_kwargs vllm.json DEFAULT NULL,
    add_generation_prompt bool DEFAULT NULL,
    continue_final_message bool DEFAULT NULL,
    documents vllm.json DEFAULT NULL,
    content_format text DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids bigint[] DEFAULT NULL,
    json_schema vllm.json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    tool_choice vllm.json DEFAULT NULL,
    parallel_tool_calls bool DEFAULT NULL,
    include_reasoning bool DEFAULT NULL,
    reasoning_effort text DEFAULT NULL,
    thinking_token_budget int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'llm_chat_text'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support;

CREATE FUNCTION @extschema@.llm_chat_stream(
    messages vllm.json,
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop vllm.texts DEFAULT NULL,
    stop_token_ids bigint[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    tools vllm.json DEFAULT NULL,
    chat_template text DEFAULT NULL,
    chat_template_kwargs vllm.json DEFAULT NULL,
    add_generation_prompt bool DEFAULT NULL,
    continue_final_message bool DEFAULT NULL,
    documents vllm.json DEFAULT NULL,
    content_format text DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids bigint[] DEFAULT NULL,
    json_schema vllm.json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    tool_choice vllm.json DEFAULT NULL,
    parallel_tool_calls bool DEFAULT NULL,
    include_reasoning bool DEFAULT NULL,
    reasoning_effort text DEFAULT NULL,
    thinking_token_budget int DEFAULT NULL,
    stream_interval int DEFAULT NULL,
    lora text DEFAULT NULL)
RETURNS TABLE (seq int, text text, token_ids int[], finish_reason text, reasoning text, tool_calls json)
AS 'MODULE_PATHNAME', 'llm_chat_stream'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 ROWS 256 SUPPORT vllm.llm_support;

CREATE FUNCTION @extschema@.llm_ask(
    prompt text,
    system text DEFAULT NULL,
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop vllm.texts DEFAULT NULL,
    stop_token_ids bigint[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    chat_template text DEFAULT NULL,
    chat_template_kwargs vllm.json DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids bigint[] DEFAULT NULL,
    json_schema vllm.json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'llm_ask'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support;

CREATE FUNCTION @extschema@.llm_render_chat(
    messages vllm.json,
    tools vllm.json DEFAULT NULL,
    chat_template text DEFAULT NULL,
    chat_template_kwargs vllm.json DEFAULT NULL,
    add_generation_prompt bool DEFAULT NULL,
    continue_final_message bool DEFAULT NULL,
    documents vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    content_format text DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'llm_render_chat'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000;

CREATE FUNCTION @extschema@.llm_tokenize_chat(
    messages vllm.json,
    tools vllm.json DEFAULT NULL,
    chat_template text DEFAULT NULL,
    chat_template_kwargs vllm.json DEFAULT NULL,
    add_generation_prompt bool DEFAULT NULL,
    continue_final_message bool DEFAULT NULL,
    documents vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    content_format text DEFAULT NULL)
RETURNS int[]
AS 'MODULE_PATHNAME', 'llm_tokenize_chat'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000;

CREATE FUNCTION vllm.chat_agg_step(internal, text, text) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_chat_agg_step' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION vllm.chat_agg_final(internal) RETURNS json
AS 'MODULE_PATHNAME', 'llm_chat_agg_final' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE AGGREGATE @extschema@.llm_chat_agg(role text, content text) (
    SFUNC = vllm.chat_agg_step, STYPE = internal, FINALFUNC = vllm.chat_agg_final, PARALLEL = SAFE
);

/* ---- futures: requests that outlive their statement (futures.c) ---- */

CREATE FUNCTION @extschema@.llm_submit(
    prompt text,
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop vllm.texts DEFAULT NULL,
    stop_token_ids bigint[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids bigint[] DEFAULT NULL,
    json_schema vllm.json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'llm_submit'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000;

CREATE FUNCTION @extschema@.llm_submit(
    prompt_token_ids bigint[],
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop vllm.texts DEFAULT NULL,
    stop_token_ids bigint[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids bigint[] DEFAULT NULL,
    json_schema vllm.json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'llm_submit_ids'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000;

CREATE FUNCTION @extschema@.llm_submit_chat(
    messages vllm.json,
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop vllm.texts DEFAULT NULL,
    stop_token_ids bigint[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    tools vllm.json DEFAULT NULL,
    chat_template text DEFAULT NULL,
    chat_template_kwargs vllm.json DEFAULT NULL,
    add_generation_prompt bool DEFAULT NULL,
    continue_final_message bool DEFAULT NULL,
    documents vllm.json DEFAULT NULL,
    content_format text DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids bigint[] DEFAULT NULL,
    json_schema vllm.json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    tool_choice vllm.json DEFAULT NULL,
    parallel_tool_calls bool DEFAULT NULL,
    include_reasoning bool DEFAULT NULL,
    reasoning_effort text DEFAULT NULL,
    thinking_token_budget int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'llm_submit_chat'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000;

CREATE FUNCTION @extschema@.llm_poll(id bigint) RETURNS bool
AS 'MODULE_PATHNAME', 'llm_poll' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION @extschema@.llm_result(id bigint) RETURNS text
AS 'MODULE_PATHNAME', 'llm_result' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED COST 1000;

CREATE FUNCTION @extschema@.llm_wait(ids bigint[], timeout_ms int DEFAULT NULL) RETURNS bool
AS 'MODULE_PATHNAME', 'llm_wait' LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000;

CREATE FUNCTION @extschema@.llm_discard(id bigint) RETURNS bool
AS 'MODULE_PATHNAME', 'llm_discard' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION vllm.future_list(OUT id bigint, OUT state text, OUT model text, OUT submitted timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_future_list' LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 10;

CREATE VIEW @extschema@.llm_futures AS
    SELECT id, state, model, submitted FROM vllm.future_list();

GRANT SELECT ON @extschema@.llm_futures TO PUBLIC;

/* ---- many prompts at once (array_batch.c) ---- */

CREATE FUNCTION @extschema@.llm_generate_batch(
    prompts text[],
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop vllm.texts DEFAULT NULL,
    stop_token_ids bigint[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids bigint[] DEFAULT NULL,
    json_schema vllm.json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS SETOF text
AS 'MODULE_PATHNAME', 'llm_generate_batch'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 ROWS 100 SUPPORT pg_catalog.array_unnest_support;

-- it runs any query: never in parallel
CREATE FUNCTION @extschema@.llm_generate_query(
    query text,
    prompt_col name,
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop vllm.texts DEFAULT NULL,
    stop_token_ids bigint[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids bigint[] DEFAULT NULL,
    json_schema vllm.json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS TABLE ("row" json, output text)
AS 'MODULE_PATHNAME', 'llm_generate_query'
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 1000;

-- how far statements are whose calls are batched
CREATE FUNCTION vllm.progress_list(
    OUT pid int, OUT database text, OUT role text, OUT started timestamptz, OUT rows_done bigint,
    OUT in_flight int, OUT requests bigint, OUT deduplicated bigint, OUT prompt_tokens bigint,
    OUT output_tokens bigint, OUT rows_per_s float8, OUT tokens_per_s float8)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_progress_list' LANGUAGE C VOLATILE ROWS 10;

CREATE VIEW @extschema@.llm_progress AS
    SELECT * FROM vllm.progress_list();

GRANT SELECT ON @extschema@.llm_progress TO PUBLIC;

/* ---- tokenizers (tokenize.c) ---- */

CREATE FUNCTION @extschema@.llm_tokenize(
    input text,
    add_special_tokens bool DEFAULT true,
    model text DEFAULT NULL)
RETURNS int[]
AS 'MODULE_PATHNAME', 'llm_tokenize'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000;

CREATE FUNCTION @extschema@.llm_detokenize(
    ids bigint[],
    skip_special_tokens bool DEFAULT false,
    model text DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'llm_detokenize'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000;

CREATE FUNCTION @extschema@.llm_count_tokens(
    input text,
    model text DEFAULT NULL,
    add_special_tokens bool DEFAULT true)
RETURNS int
AS 'MODULE_PATHNAME', 'llm_count_tokens'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000;

/* ---- outputs: several answers, log-probabilities, beam search (outputs.c; docs/user/outputs.md) ---- */

CREATE TYPE @extschema@.llm_logprob AS (
    pos int,
    token_id int,
    token text,
    bytes bytea,
    logprob float4,
    rank int,
    chosen bool
);

CREATE TYPE @extschema@.llm_completion AS (
    prompt_index int,
    index int,
    text text,
    reasoning text,
    tool_calls json,
    token_ids int[],
    finish_reason text,
    stop_reason text,
    cumulative_logprob float8,
    logprobs @extschema@.llm_logprob[]
);

CREATE TYPE @extschema@.llm_output AS (
    request_id bigint,
    prompt_index int,
    prompt text,
    prompt_token_ids int[],
    prompt_logprobs @extschema@.llm_logprob[],
    completions @extschema@.llm_completion[],
    usage @extschema@.llm_usage,
    metrics json,
    model text,
    lora text,
    finished bool
);

CREATE TYPE @extschema@.llm_beam AS (
    rank int,
    text text,
    token_ids int[],
    cum_logprob float8,
    score float8,
    finish_reason text
);

CREATE FUNCTION @extschema@.llm_output(
    prompt text,
    n int DEFAULT NULL,
    logprobs int DEFAULT NULL,
    prompt_logprobs int DEFAULT NULL,
    logprob_token_ids bigint[] DEFAULT NULL,
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop vllm.texts DEFAULT NULL,
    stop_token_ids bigint[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids bigint[] DEFAULT NULL,
    json_schema vllm.json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS @extschema@.llm_output
AS 'MODULE_PATHNAME', 'llm_output'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support;

CREATE FUNCTION @extschema@.llm_output(
    prompt_token_ids bigint[],
    n int DEFAULT NULL,
    logprobs int DEFAULT NULL,
    prompt_logprobs int DEFAULT NULL,
    logprob_token_ids bigint[] DEFAULT NULL,
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop vllm.texts DEFAULT NULL,
    stop_token_ids bigint[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids bigint[] DEFAULT NULL,
    json_schema vllm.json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS @extschema@.llm_output
AS 'MODULE_PATHNAME', 'llm_output_ids'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support;

CREATE FUNCTION @extschema@.llm_completions(
    prompt text,
    n int DEFAULT NULL,
    logprobs int DEFAULT NULL,
    prompt_logprobs int DEFAULT NULL,
    logprob_token_ids bigint[] DEFAULT NULL,
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop vllm.texts DEFAULT NULL,
    stop_token_ids bigint[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids bigint[] DEFAULT NULL,
    json_schema vllm.json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS SETOF @extschema@.llm_completion
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 100000 ROWS 4
BEGIN ATOMIC
    SELECT c.* FROM pg_catalog.unnest((@extschema@.llm_output(prompt, n, logprobs, prompt_logprobs, logprob_token_ids,
        max_tokens, temperature, top_p, top_k, min_p, seed, stop, stop_token_ids, min_tokens, ignore_eos, params,
        model, timeout_ms, presence_penalty, frequency_penalty, repetition_penalty, logit_bias, bad_words,
        allowed_token_ids, json_schema, regex, choice, grammar, priority, cache_salt, truncate, lora, on_error)).completions) AS c;
END;

CREATE FUNCTION @extschema@.llm_completions(
    prompt_token_ids bigint[],
    n int DEFAULT NULL,
    logprobs int DEFAULT NULL,
    prompt_logprobs int DEFAULT NULL,
    logprob_token_ids bigint[] DEFAULT NULL,
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop vllm.texts DEFAULT NULL,
    stop_token_ids bigint[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids bigint[] DEFAULT NULL,
    json_schema vllm.json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS SETOF @extschema@.llm_completion
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 100000 ROWS 4
BEGIN ATOMIC
    SELECT c.* FROM pg_catalog.unnest((@extschema@.llm_output(prompt_token_ids, n, logprobs, prompt_logprobs, logprob_token_ids,
        max_tokens, temperature, top_p, top_k, min_p, seed, stop, stop_token_ids, min_tokens, ignore_eos, params,
        model, timeout_ms, presence_penalty, frequency_penalty, repetition_penalty, logit_bias, bad_words,
        allowed_token_ids, json_schema, regex, choice, grammar, priority, cache_salt, truncate, lora, on_error)).completions) AS c;
END;

CREATE FUNCTION @extschema@.llm_chat_full(
    messages vllm.json,
    n int DEFAULT NULL,
    logprobs int DEFAULT NULL,
    prompt_logprobs int DEFAULT NULL,
    logprob_token_ids bigint[] DEFAULT NULL,
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop vllm.texts DEFAULT NULL,
    stop_token_ids bigint[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    tools vllm.json DEFAULT NULL,
    chat_template text DEFAULT NULL,
    chat_template_kwargs vllm.json DEFAULT NULL,
    add_generation_prompt bool DEFAULT NULL,
    continue_final_message bool DEFAULT NULL,
    documents vllm.json DEFAULT NULL,
    content_format text DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids bigint[] DEFAULT NULL,
    json_schema vllm.json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    tool_choice vllm.json DEFAULT NULL,
    parallel_tool_calls bool DEFAULT NULL,
    include_reasoning bool DEFAULT NULL,
    reasoning_effort text DEFAULT NULL,
    thinking_token_budget int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS @extschema@.llm_output
AS 'MODULE_PATHNAME', 'llm_chat_full'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support;

CREATE FUNCTION @extschema@.llm_chat_batch(
    conversations vllm.json[],
    n int DEFAULT NULL,
    logprobs int DEFAULT NULL,
    prompt_logprobs int DEFAULT NULL,
    logprob_token_ids bigint[] DEFAULT NULL,
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop vllm.texts DEFAULT NULL,
    stop_token_ids bigint[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    tools vllm.json DEFAULT NULL,
    chat_template text DEFAULT NULL,
    chat_template_kwargs vllm.json DEFAULT NULL,
    add_generation_prompt bool DEFAULT NULL,
    continue_final_message bool DEFAULT NULL,
    documents vllm.json DEFAULT NULL,
    content_format text DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids bigint[] DEFAULT NULL,
    json_schema vllm.json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    tool_choice vllm.json DEFAULT NULL,
    parallel_tool_calls bool DEFAULT NULL,
    include_reasoning bool DEFAULT NULL,
    reasoning_effort text DEFAULT NULL,
    thinking_token_budget int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
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
              parallel_tool_calls, include_reasoning, reasoning_effort, thinking_token_budget, lora, on_error)).completions AS answers
          FROM pg_catalog.unnest(conversations) WITH ORDINALITY AS b (conversation, at)) AS s,
         pg_catalog.unnest(s.answers) AS c
    ORDER BY s.at, c.index;
END;

CREATE FUNCTION @extschema@.llm_beams(
    prompt text,
    beam_width int,
    max_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    length_penalty float8 DEFAULT NULL,
    include_stop_str_in_output bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS @extschema@.llm_beam[]
AS 'MODULE_PATHNAME', 'llm_beams'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000000 SUPPORT vllm.llm_support;

CREATE FUNCTION @extschema@.llm_beam_search(
    prompt text,
    beam_width int,
    max_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    length_penalty float8 DEFAULT NULL,
    include_stop_str_in_output bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS TABLE (rank int, text text, token_ids int[], cum_logprob float8, score float8, finish_reason text)
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000 ROWS 4
BEGIN ATOMIC
    SELECT b.* FROM pg_catalog.unnest(@extschema@.llm_beams(prompt, beam_width, max_tokens, ignore_eos, temperature, length_penalty,
        include_stop_str_in_output, params, model, timeout_ms, lora, on_error)) AS b;
END;

CREATE FUNCTION @extschema@.llm_beam_search_batch(
    prompts text[],
    beam_width int,
    max_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    length_penalty float8 DEFAULT NULL,
    include_stop_str_in_output bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS TABLE (prompt_index int, rank int, text text, token_ids int[], cum_logprob float8, score float8, finish_reason text)
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000 ROWS 40
BEGIN ATOMIC
    SELECT s.at::int OPERATOR(pg_catalog.-) 1, b.*
    FROM (SELECT p.at, @extschema@.llm_beams(p.prompt, beam_width, max_tokens, ignore_eos, temperature, length_penalty,
              include_stop_str_in_output, params, model, timeout_ms, lora, on_error) AS beams
          FROM pg_catalog.unnest(prompts) WITH ORDINALITY AS p (prompt, at)) AS s, pg_catalog.unnest(s.beams) AS b
    ORDER BY s.at, b.rank;
END;

CREATE FUNCTION vllm.logprobs_json(entries @extschema@.llm_logprob[]) RETURNS json
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
CREATE FUNCTION @extschema@.llm_output_json(output @extschema@.llm_output) RETURNS json
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

/* ---- prompts of embeddings (embeds_generate.c) ---- */

CREATE FUNCTION @extschema@.llm_embeds_generate(
    prompt_embeds float8[],
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop vllm.texts DEFAULT NULL,
    stop_token_ids bigint[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids bigint[] DEFAULT NULL,
    json_schema vllm.json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'llm_embeds_generate'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support;

CREATE FUNCTION @extschema@.llm_embeds_output(
    prompt_embeds float8[],
    n int DEFAULT NULL,
    logprobs int DEFAULT NULL,
    logprob_token_ids bigint[] DEFAULT NULL,
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop vllm.texts DEFAULT NULL,
    stop_token_ids bigint[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids bigint[] DEFAULT NULL,
    json_schema vllm.json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS @extschema@.llm_output
AS 'MODULE_PATHNAME', 'llm_embeds_output'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support;

CREATE FUNCTION @extschema@.llm_token_embeddings(input text, add_special_tokens bool DEFAULT true, model text DEFAULT NULL) RETURNS real[]
AS 'MODULE_PATHNAME', 'llm_token_embeddings' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000;

/* ---- grammars, and SQL types as schemas (grammar_functions.c, shape.c, generate_as.c; docs/user/structured-output.md) ---- */

CREATE FUNCTION @extschema@.llm_grammar_accepts(schema vllm.json, instance text) RETURNS bool
AS 'MODULE_PATHNAME', 'llm_grammar_accepts' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000;

CREATE FUNCTION @extschema@.llm_type_schema(type regtype, readable bool DEFAULT false) RETURNS json
AS 'MODULE_PATHNAME', 'llm_type_schema' LANGUAGE C STABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vllm.from_json(instance json, sample anyelement) RETURNS anyelement
AS 'MODULE_PATHNAME', 'llm_from_json' LANGUAGE C STABLE PARALLEL SAFE;

CREATE FUNCTION @extschema@.llm_generate_json(
    prompt text,
    schema vllm.json,
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    on_error text DEFAULT 'error',
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    lora text DEFAULT NULL)
RETURNS json
AS 'MODULE_PATHNAME', 'llm_generate_json'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000000 SUPPORT vllm.llm_support;

CREATE FUNCTION @extschema@.llm_generate_as(
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
    logit_bias vllm.json DEFAULT NULL,
    on_error text DEFAULT 'error',
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    lora text DEFAULT NULL)
RETURNS anyelement
AS 'MODULE_PATHNAME', 'llm_generate_as'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000000 SUPPORT vllm.llm_support;

CREATE FUNCTION @extschema@.llm_extract(
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
    logit_bias vllm.json DEFAULT NULL,
    on_error text DEFAULT 'error',
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    chat_template text DEFAULT NULL,
    chat_template_kwargs vllm.json DEFAULT NULL,
    lora text DEFAULT NULL)
RETURNS anyelement
AS 'MODULE_PATHNAME', 'llm_extract'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000000 SUPPORT vllm.llm_support;

CREATE FUNCTION @extschema@.llm_extract(
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
    logit_bias vllm.json DEFAULT NULL,
    on_error text DEFAULT 'error',
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    chat_template text DEFAULT NULL,
    chat_template_kwargs vllm.json DEFAULT NULL,
    lora text DEFAULT NULL)
RETURNS json
AS 'MODULE_PATHNAME', 'llm_extract_json'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000000 SUPPORT vllm.llm_support;

-- inlined by the planner, so that the calls of many rows are batched
CREATE FUNCTION @extschema@.llm_extract(
    input text,
    schema vllm.schema,
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
    logit_bias vllm.json DEFAULT NULL,
    on_error text DEFAULT 'error',
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    chat_template text DEFAULT NULL,
    chat_template_kwargs vllm.json DEFAULT NULL,
    lora text DEFAULT NULL)
RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000
RETURN @extschema@.llm_extract(input, schema::json, instruction, max_tokens, temperature, top_p, top_k, min_p, seed, presence_penalty,
    frequency_penalty, repetition_penalty, logit_bias, on_error, params, model, timeout_ms, priority, cache_salt,
    truncate, chat_template, chat_template_kwargs, lora);

/* ---- tools and reasoning (parse_output.c, sql_tools.c, chat_run.c; docs/user/tools.md) ---- */

CREATE TYPE @extschema@.llm_reasoning AS (reasoning text, content text);

CREATE FUNCTION @extschema@.llm_parse_tool_calls(output text, parser text, tools vllm.json DEFAULT NULL) RETURNS json
AS 'MODULE_PATHNAME', 'llm_parse_tool_calls' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000;

CREATE FUNCTION @extschema@.llm_parse_reasoning(output text, parser text, chat_template_kwargs vllm.json DEFAULT NULL) RETURNS @extschema@.llm_reasoning
AS 'MODULE_PATHNAME', 'llm_parse_reasoning' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000;

CREATE FUNCTION @extschema@.llm_tool(function regprocedure) RETURNS json
AS 'MODULE_PATHNAME', 'llm_tool' LANGUAGE C STABLE STRICT PARALLEL SAFE;

CREATE FUNCTION @extschema@.llm_call_tool(tool_call vllm.json, tools regprocedure[], read_only bool DEFAULT true) RETURNS json
AS 'MODULE_PATHNAME', 'llm_call_tool' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

CREATE FUNCTION @extschema@.llm_chat_run(
    messages vllm.json,
    tools regprocedure[],
    max_rounds int DEFAULT 8,
    read_only bool DEFAULT true,
    max_tokens int DEFAULT NULL,
    temperature float8 DEFAULT NULL,
    top_p float8 DEFAULT NULL,
    top_k int DEFAULT NULL,
    min_p float8 DEFAULT NULL,
    seed bigint DEFAULT NULL,
    stop vllm.texts DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    chat_template text DEFAULT NULL,
    chat_template_kwargs vllm.json DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    tool_choice vllm.json DEFAULT NULL,
    parallel_tool_calls bool DEFAULT NULL,
    include_reasoning bool DEFAULT NULL,
    reasoning_effort text DEFAULT NULL,
    stop_token_ids bigint[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids bigint[] DEFAULT NULL,
    documents vllm.json DEFAULT NULL,
    content_format text DEFAULT NULL,
    json_schema vllm.json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    thinking_token_budget int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS json
AS 'MODULE_PATHNAME', 'llm_chat_run'
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000;

/* ---- embeddings, scores, labels (embed.c, score.c, classify.c; docs/user/embeddings.md) ---- */

CREATE TYPE @extschema@.llm_label AS (index int, label text, prob real);

CREATE TYPE @extschema@.llm_ranked AS (id text, relevance_score real, document text);

CREATE TYPE vllm.token_scores AS (labels text[], scores real[], offsets int[]);

CREATE FUNCTION vllm.llm_pool_support(internal) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_pool_support' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION @extschema@.llm_embed(
    input text,
    dimensions int DEFAULT NULL,
    normalize_embeddings bool DEFAULT NULL,
    instruction text DEFAULT NULL,
    prompt_name text DEFAULT NULL,
    truncate int DEFAULT NULL,
    long_input text DEFAULT NULL,
    model text DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS real[]
AS 'MODULE_PATHNAME', 'llm_embed'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_pool_support;

-- which model it is; and embeddings by that one or by none, for generated columns and expressions of indexes
CREATE FUNCTION @extschema@.llm_model_digest(model text DEFAULT NULL) RETURNS text
AS 'MODULE_PATHNAME', 'llm_model_digest' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000;

CREATE FUNCTION @extschema@.llm_embed_pinned(
    input text,
    digest text,
    model text DEFAULT NULL,
    dimensions int DEFAULT NULL,
    normalize_embeddings bool DEFAULT NULL,
    instruction text DEFAULT NULL,
    prompt_name text DEFAULT NULL,
    truncate int DEFAULT NULL,
    long_input text DEFAULT NULL)
RETURNS real[]
AS 'MODULE_PATHNAME', 'llm_embed_pinned'
LANGUAGE C IMMUTABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION @extschema@.llm_embed_multi(
    input text,
    dimensions int DEFAULT NULL,
    normalize_embeddings bool DEFAULT NULL,
    instruction text DEFAULT NULL,
    prompt_name text DEFAULT NULL,
    truncate int DEFAULT NULL,
    long_input text DEFAULT NULL,
    model text DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS real[]
AS 'MODULE_PATHNAME', 'llm_embed_multi'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION @extschema@.llm_embed_batch(
    inputs text[],
    dimensions int DEFAULT NULL,
    normalize_embeddings bool DEFAULT NULL,
    instruction text DEFAULT NULL,
    prompt_name text DEFAULT NULL,
    truncate int DEFAULT NULL,
    long_input text DEFAULT NULL,
    model text DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS SETOF real[]
AS 'MODULE_PATHNAME', 'llm_embed_batch'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 ROWS 100;

CREATE FUNCTION vllm.embedding_bytes(embedding real[], dtype text, endian text) RETURNS bytea
AS 'MODULE_PATHNAME', 'llm_embedding_bytes' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION @extschema@.llm_embed_bytes(
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
    params vllm.json DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS bytea
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100000
RETURN vllm.embedding_bytes(@extschema@.llm_embed(input, dimensions, normalize_embeddings, instruction, prompt_name, truncate,
    long_input, model, params, timeout_ms, lora, on_error), dtype, endian);

CREATE FUNCTION @extschema@.llm_encode(
    input text,
    task text,
    dimensions int DEFAULT NULL,
    use_activation bool DEFAULT NULL,
    step_tag_id int DEFAULT NULL,
    returned_token_ids bigint[] DEFAULT NULL,
    instruction text DEFAULT NULL,
    prompt_name text DEFAULT NULL,
    truncate int DEFAULT NULL,
    long_input text DEFAULT NULL,
    model text DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS real[]
AS 'MODULE_PATHNAME', 'llm_encode'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION @extschema@.llm_submit_embed(
    input text,
    dimensions int DEFAULT NULL,
    normalize_embeddings bool DEFAULT NULL,
    instruction text DEFAULT NULL,
    prompt_name text DEFAULT NULL,
    truncate int DEFAULT NULL,
    long_input text DEFAULT NULL,
    model text DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'llm_submit_embed'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION @extschema@.llm_result_embedding(id bigint) RETURNS real[]
AS 'MODULE_PATHNAME', 'llm_result_embedding' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION @extschema@.llm_similarity(
    a text,
    b text,
    model text DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS real
AS 'MODULE_PATHNAME', 'llm_similarity'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION @extschema@.llm_score(
    query text,
    document text,
    use_activation bool DEFAULT NULL,
    instruction text DEFAULT NULL,
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS real
AS 'MODULE_PATHNAME', 'llm_score'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION @extschema@.llm_score_batch(
    query text,
    documents text[],
    use_activation bool DEFAULT NULL,
    instruction text DEFAULT NULL,
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS real[]
AS 'MODULE_PATHNAME', 'llm_score_batch'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION @extschema@.llm_score_pairs(
    a text[],
    b text[],
    use_activation bool DEFAULT NULL,
    instruction text DEFAULT NULL,
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS real[]
AS 'MODULE_PATHNAME', 'llm_score_pairs'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION vllm.rerank_limit(top_n int) RETURNS bigint
AS 'MODULE_PATHNAME', 'llm_rerank_limit' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION @extschema@.llm_rerank(
    query text,
    documents text[],
    top_n int DEFAULT 0,
    use_activation bool DEFAULT NULL,
    instruction text DEFAULT NULL,
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS TABLE (index int, relevance_score real, document text)
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 1000000 ROWS 10
BEGIN ATOMIC
    SELECT d.at::int, @extschema@.llm_score(query, d.text, use_activation, instruction, truncate, model, params, timeout_ms, lora, on_error) AS score, d.text
    FROM pg_catalog.unnest(documents) WITH ORDINALITY AS d (text, at)
    WHERE query IS NOT NULL
    ORDER BY score DESC NULLS LAST, d.at
    LIMIT vllm.rerank_limit(top_n);
END;

CREATE FUNCTION vllm.rerank_agg_step(internal, text, "any", text) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_rerank_agg_step' LANGUAGE C STABLE PARALLEL SAFE COST 100000;

CREATE FUNCTION vllm.rerank_agg_step(internal, text, "any", text, int) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_rerank_agg_step' LANGUAGE C STABLE PARALLEL SAFE COST 100000;

CREATE FUNCTION vllm.rerank_agg_step(internal, text, "any", text, int, text) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_rerank_agg_step' LANGUAGE C STABLE PARALLEL SAFE COST 100000;

CREATE FUNCTION vllm.rerank_agg_combine(internal, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_rerank_agg_combine' LANGUAGE C STABLE PARALLEL SAFE;

CREATE FUNCTION vllm.rerank_agg_write(internal) RETURNS bytea
AS 'MODULE_PATHNAME', 'llm_rerank_agg_write' LANGUAGE C STABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vllm.rerank_agg_read(bytea, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_rerank_agg_read' LANGUAGE C STABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vllm.rerank_agg_final(internal) RETURNS @extschema@.llm_ranked[]
AS 'MODULE_PATHNAME', 'llm_rerank_agg_final' LANGUAGE C STABLE PARALLEL SAFE;

CREATE AGGREGATE @extschema@.llm_rerank_agg(query text, id "any", document text) (
    SFUNC = vllm.rerank_agg_step, STYPE = internal, FINALFUNC = vllm.rerank_agg_final,
    COMBINEFUNC = vllm.rerank_agg_combine, SERIALFUNC = vllm.rerank_agg_write,
    DESERIALFUNC = vllm.rerank_agg_read, PARALLEL = SAFE
);

CREATE AGGREGATE @extschema@.llm_rerank_agg(query text, id "any", document text, top_n int) (
    SFUNC = vllm.rerank_agg_step, STYPE = internal, FINALFUNC = vllm.rerank_agg_final,
    COMBINEFUNC = vllm.rerank_agg_combine, SERIALFUNC = vllm.rerank_agg_write,
    DESERIALFUNC = vllm.rerank_agg_read, PARALLEL = SAFE
);

CREATE AGGREGATE @extschema@.llm_rerank_agg(query text, id "any", document text, top_n int, model text) (
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
    params vllm.json DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS @extschema@.llm_label[]
AS 'MODULE_PATHNAME', 'llm_classify_labels'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION @extschema@.llm_classify(
    input text,
    use_activation bool DEFAULT NULL,
    top int DEFAULT NULL,
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS TABLE (index int, label text, prob real)
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100000 ROWS 5
BEGIN ATOMIC
    SELECT l.index, l.label, l.prob
    FROM pg_catalog.unnest((vllm.classify(input, use_activation, top, truncate, model, params, timeout_ms, lora, on_error))[:coalesce(top, 2147483647)]) AS l;
END;

CREATE FUNCTION @extschema@.llm_class(
    input text,
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'llm_class'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION @extschema@.llm_classify_probs(
    input text,
    use_activation bool DEFAULT NULL,
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS real[]
AS 'MODULE_PATHNAME', 'llm_classify_probs'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION vllm.token_scores(
    input text,
    aggregation text DEFAULT NULL,
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS vllm.token_scores
AS 'MODULE_PATHNAME', 'llm_token_scores'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION vllm.token_labels(scores vllm.token_scores, input text, aggregation text)
RETURNS TABLE (pos int, token text, start int, stop int, label text, score real)
AS 'MODULE_PATHNAME', 'llm_token_labels' LANGUAGE C IMMUTABLE PARALLEL SAFE ROWS 20;

CREATE FUNCTION @extschema@.llm_token_classify(
    input text,
    aggregation text DEFAULT 'none',
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS TABLE (pos int, token text, start int, stop int, label text, score real)
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100000 ROWS 20
BEGIN ATOMIC
    SELECT t.pos, t.token, t.start, t.stop, t.label, t.score
    FROM vllm.token_labels(vllm.token_scores(input, aggregation, truncate, model, params, timeout_ms, lora, on_error), input, aggregation) AS t;
END;

CREATE FUNCTION @extschema@.llm_reward(
    input text,
    use_activation bool DEFAULT NULL,
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS real
AS 'MODULE_PATHNAME', 'llm_reward'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION @extschema@.llm_reward_tokens(
    input text,
    use_activation bool DEFAULT NULL,
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS real[]
AS 'MODULE_PATHNAME', 'llm_reward_tokens'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_pool_support;

CREATE FUNCTION @extschema@.llm_reward_steps(
    input text,
    step_tag_id int,
    returned_token_ids bigint[] DEFAULT NULL,
    use_activation bool DEFAULT NULL,
    truncate int DEFAULT NULL,
    model text DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS real[]
AS 'MODULE_PATHNAME', 'llm_reward_steps'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_pool_support;

/* ---- decisions by log-probability (choose.c) ---- */

CREATE TYPE @extschema@.llm_choice AS (label text, logprob float8, prob float8);

CREATE TYPE vllm.loglikelihood AS (logprob float8, tokens int, is_greedy bool);

CREATE FUNCTION vllm.llm_choose_support(internal) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_choose_support' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION @extschema@.llm_choose(
    prompt text,
    labels text[],
    normalization text DEFAULT 'sum',
    chat bool DEFAULT false,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'llm_choose'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_choose_support;

-- a label of the caller's own; inlined by the planner, so that the calls of many rows are batched
CREATE FUNCTION @extschema@.llm_classify(
    input text,
    labels vllm.texts,
    instruction text DEFAULT NULL,
    normalization text DEFAULT 'sum',
    chat bool DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS text
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100000
RETURN @extschema@.llm_choose(
    coalesce(instruction OPERATOR(pg_catalog.||) E'\n'::text, ''::text) OPERATOR(pg_catalog.||) 'Text: '::text OPERATOR(pg_catalog.||) input
        OPERATOR(pg_catalog.||) E'\nWhich of these labels fits the text best: '::text OPERATOR(pg_catalog.||) pg_catalog.array_to_string(vllm.array_of(labels), ', '::text)
        OPERATOR(pg_catalog.||) E'? Answer with the label alone.\nLabel: '::text,
    vllm.array_of(labels), normalization, chat, model, timeout_ms, lora, on_error);

CREATE FUNCTION vllm.choices(
    prompt text,
    labels text[],
    normalization text DEFAULT 'sum',
    chat bool DEFAULT false,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS @extschema@.llm_choice[]
AS 'MODULE_PATHNAME', 'llm_choices'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_choose_support;

CREATE FUNCTION @extschema@.llm_choice_probs(
    prompt text,
    labels text[],
    normalization text DEFAULT 'sum',
    chat bool DEFAULT false,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS TABLE (label text, logprob float8, prob float8)
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100000 ROWS 5
BEGIN ATOMIC
    SELECT c.label, c.logprob, c.prob
    FROM pg_catalog.unnest(vllm.choices(prompt, labels, normalization, chat, model, timeout_ms, lora, on_error)) AS c;
END;

CREATE FUNCTION @extschema@.llm_filter(
    instruction text,
    input text,
    threshold float8 DEFAULT 0.5,
    model text DEFAULT NULL,
    template text DEFAULT NULL,
    chat bool DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS bool
AS 'MODULE_PATHNAME', 'llm_filter'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_choose_support;

CREATE FUNCTION @extschema@.llm_filter_prob(
    instruction text,
    input text,
    model text DEFAULT NULL,
    template text DEFAULT NULL,
    chat bool DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS float8
AS 'MODULE_PATHNAME', 'llm_filter_prob'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_choose_support;

CREATE FUNCTION vllm.loglikelihood(
    context text,
    continuation text,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS vllm.loglikelihood
AS 'MODULE_PATHNAME', 'llm_loglikelihood'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_choose_support;

CREATE FUNCTION @extschema@.llm_loglikelihood(
    context text,
    continuation text,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS TABLE (logprob float8, tokens int, is_greedy bool)
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100000 ROWS 1
BEGIN ATOMIC
    SELECT l.logprob, l.tokens, l.is_greedy
    FROM vllm.loglikelihood(context, continuation, model, timeout_ms, lora, on_error) AS l;
END;

CREATE FUNCTION @extschema@.llm_perplexity(
    input text,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS float8
AS 'MODULE_PATHNAME', 'llm_perplexity'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_choose_support;

CREATE FUNCTION @extschema@.llm_format(template text, VARIADIC args "any") RETURNS text
AS 'MODULE_PATHNAME', 'llm_format' LANGUAGE C STABLE PARALLEL SAFE;

CREATE FUNCTION @extschema@.llm_format(template text) RETURNS text
AS 'MODULE_PATHNAME', 'llm_format' LANGUAGE C STABLE PARALLEL SAFE;

/* ---- cascades (cascade.c) ---- */

CREATE FUNCTION @extschema@.llm_fit_cascade(logprob float8[], agrees bool[], accuracy float8 DEFAULT 0.95, delta float8 DEFAULT 0.05) RETURNS float8
AS 'MODULE_PATHNAME', 'llm_fit_cascade' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION @extschema@.llm_fit_filter(prob float8[], truth bool[], "precision" float8 DEFAULT 0.95, recall float8 DEFAULT 0.95, delta float8 DEFAULT 0.05,
    OUT accept float8, OUT reject float8, OUT asked float8)
AS 'MODULE_PATHNAME', 'llm_fit_filter' LANGUAGE C IMMUTABLE PARALLEL SAFE;

/* ---- chunks (chunk.c) ---- */

CREATE FUNCTION vllm.chunk_spans(input text, method text, size int, overlap int, model text) RETURNS int[]
AS 'MODULE_PATHNAME', 'llm_chunk_spans' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000;

CREATE FUNCTION vllm.chunk_rows(input text, spans int[])
RETURNS TABLE (seq int, chunk text, tok_start int, tok_end int)
AS 'MODULE_PATHNAME', 'llm_chunk_rows' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10 ROWS 10;

-- inlined by the planner where it stands in FROM: there its requests are batched
CREATE FUNCTION @extschema@.llm_chunk_text(
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

/* ---- nearest neighbours (nearest.c) ---- */

CREATE FUNCTION @extschema@.llm_cosine_distance(a real[], b real[]) RETURNS float8
AS 'MODULE_PATHNAME', 'llm_cosine_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION @extschema@.llm_cosine_distance(a vllm.doubles, b vllm.doubles) RETURNS float8
AS 'MODULE_PATHNAME', 'llm_cosine_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION @extschema@.llm_l2_distance(a real[], b real[]) RETURNS float8
AS 'MODULE_PATHNAME', 'llm_l2_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION @extschema@.llm_l2_distance(a vllm.doubles, b vllm.doubles) RETURNS float8
AS 'MODULE_PATHNAME', 'llm_l2_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION @extschema@.llm_inner_product(a real[], b real[]) RETURNS float8
AS 'MODULE_PATHNAME', 'llm_inner_product' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION @extschema@.llm_inner_product(a vllm.doubles, b vllm.doubles) RETURNS float8
AS 'MODULE_PATHNAME', 'llm_inner_product' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

-- NaN is greater than any number: a vector of zeros would be similar to everything
CREATE FUNCTION @extschema@.llm_similarity(a real[], b real[]) RETURNS real
LANGUAGE sql IMMUTABLE PARALLEL SAFE COST 10
RETURN nullif(1::float8 OPERATOR(pg_catalog.-) @extschema@.llm_cosine_distance(a, b), 'NaN'::float8)::real; -- exact: float8 = float8

CREATE FUNCTION @extschema@.llm_similarity(a vllm.doubles, b vllm.doubles) RETURNS real
LANGUAGE sql IMMUTABLE PARALLEL SAFE COST 10
RETURN nullif(1::float8 OPERATOR(pg_catalog.-) @extschema@.llm_cosine_distance(a, b), 'NaN'::float8)::real; -- exact: float8 = float8

CREATE FUNCTION @extschema@.llm_binary_quantize(v real[]) RETURNS bit
AS 'MODULE_PATHNAME', 'llm_binary_quantize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION @extschema@.llm_binary_quantize(v vllm.doubles) RETURNS bit
AS 'MODULE_PATHNAME', 'llm_binary_quantize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION @extschema@.llm_nearest(
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

CREATE FUNCTION @extschema@.llm_nearest(
    query vllm.doubles,
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

CREATE FUNCTION @extschema@.llm_nearest_rows(
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

CREATE FUNCTION @extschema@.llm_nearest_rows(
    rows anyelement,
    query vllm.doubles,
    "column" name,
    k int DEFAULT 10,
    metric text DEFAULT 'cosine',
    filter text DEFAULT NULL,
    codes name DEFAULT NULL,
    oversample int DEFAULT 10)
RETURNS SETOF anyelement
AS 'MODULE_PATHNAME', 'llm_nearest_rows'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000 ROWS 10;

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

-- a text is embedded once
CREATE FUNCTION @extschema@.llm_nearest(
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
                                                       NULL::vllm.json, NULL::int, lora),
                                 source, "column", k, metric, filter, codes, oversample) n;
END;

-- follows llm_embed wherever the extension's schema is renamed to
CREATE FUNCTION vllm.embed_query(query text, instruction text, prompt_name text, model text, lora text) RETURNS real[]
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100000
RETURN @extschema@.llm_embed(query, NULL::int, NULL::bool, instruction, prompt_name, NULL::int, NULL::text, model, NULL::vllm.json, NULL::int, lora);

-- polymorphic, so the body is a string: it is read at each call, under the search_path of who calls
CREATE FUNCTION @extschema@.llm_nearest_rows(
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

/* ---- aggregates (aggregates.c, reduce.c) ---- */

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
    stop vllm.texts,
    stop_token_ids bigint[],
    min_tokens int,
    ignore_eos bool,
    params vllm.json,
    model text,
    timeout_ms int,
    chat_template text,
    chat_template_kwargs vllm.json,
    presence_penalty float8,
    frequency_penalty float8,
    repetition_penalty float8,
    logit_bias vllm.json,
    bad_words text[],
    allowed_token_ids bigint[],
    json_schema vllm.json,
    regex text,
    choice text[],
    grammar text,
    priority int,
    cache_salt text,
    truncate int,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'llm_reduce'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support;

-- without NULLs, of one dimension; NULL if there are none
CREATE FUNCTION vllm.reduce_texts(inputs text[]) RETURNS text[]
AS 'MODULE_PATHNAME', 'llm_reduce_texts' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- inlined by the planner, so that the calls of many rows are batched
CREATE FUNCTION @extschema@.llm_reduce(
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
    stop vllm.texts DEFAULT NULL,
    stop_token_ids bigint[] DEFAULT NULL,
    min_tokens int DEFAULT NULL,
    ignore_eos bool DEFAULT NULL,
    params vllm.json DEFAULT NULL,
    model text DEFAULT NULL,
    timeout_ms int DEFAULT NULL,
    chat_template text DEFAULT NULL,
    chat_template_kwargs vllm.json DEFAULT NULL,
    presence_penalty float8 DEFAULT NULL,
    frequency_penalty float8 DEFAULT NULL,
    repetition_penalty float8 DEFAULT NULL,
    logit_bias vllm.json DEFAULT NULL,
    bad_words text[] DEFAULT NULL,
    allowed_token_ids bigint[] DEFAULT NULL,
    json_schema vllm.json DEFAULT NULL,
    regex text DEFAULT NULL,
    choice text[] DEFAULT NULL,
    grammar text DEFAULT NULL,
    priority int DEFAULT NULL,
    cache_salt text DEFAULT NULL,
    truncate int DEFAULT NULL,
    lora text DEFAULT NULL,
    on_error text DEFAULT NULL)
RETURNS text
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 100000 SUPPORT vllm.llm_support
RETURN vllm.reduce(vllm.reduce_texts(inputs), instruction, combine, split, max_tokens, temperature, top_p, top_k, min_p, seed,
    stop, stop_token_ids, min_tokens, ignore_eos, params, model, timeout_ms, chat_template, chat_template_kwargs,
    presence_penalty, frequency_penalty, repetition_penalty, logit_bias, bad_words, allowed_token_ids,
    json_schema, regex, choice, grammar, priority, cache_salt, truncate, lora, on_error);

CREATE FUNCTION vllm.agg_step(internal, text, text) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_agg_step' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION vllm.agg_step(internal, text, text, vllm.json) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_agg_step' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION vllm.summarize_step(internal, text) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_summarize_step' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION vllm.summarize_step(internal, text, vllm.json) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_summarize_step' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION vllm.agg_combine(internal, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_agg_combine' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION vllm.agg_serial(internal) RETURNS bytea
AS 'MODULE_PATHNAME', 'llm_agg_serial' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vllm.agg_deserial(bytea, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'llm_agg_deserial' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vllm.agg_final(internal) RETURNS text
AS 'MODULE_PATHNAME', 'llm_agg_final' LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000;

CREATE AGGREGATE @extschema@.llm_agg(input text, instruction text) (
    SFUNC = vllm.agg_step, STYPE = internal, FINALFUNC = vllm.agg_final, COMBINEFUNC = vllm.agg_combine,
    SERIALFUNC = vllm.agg_serial, DESERIALFUNC = vllm.agg_deserial, PARALLEL = SAFE
);

CREATE AGGREGATE @extschema@.llm_agg(input text, instruction text, params vllm.json) (
    SFUNC = vllm.agg_step, STYPE = internal, FINALFUNC = vllm.agg_final, COMBINEFUNC = vllm.agg_combine,
    SERIALFUNC = vllm.agg_serial, DESERIALFUNC = vllm.agg_deserial, PARALLEL = SAFE
);

CREATE AGGREGATE @extschema@.llm_summarize_agg(input text) (
    SFUNC = vllm.summarize_step, STYPE = internal, FINALFUNC = vllm.agg_final, COMBINEFUNC = vllm.agg_combine,
    SERIALFUNC = vllm.agg_serial, DESERIALFUNC = vllm.agg_deserial, PARALLEL = SAFE
);

CREATE AGGREGATE @extschema@.llm_summarize_agg(input text, params vllm.json) (
    SFUNC = vllm.summarize_step, STYPE = internal, FINALFUNC = vllm.agg_final, COMBINEFUNC = vllm.agg_combine,
    SERIALFUNC = vllm.agg_serial, DESERIALFUNC = vllm.agg_deserial, PARALLEL = SAFE
);

/* ---- jobs (job_functions.c, triggers.c, src/pg/jobs/job_launcher.c; docs/user/jobs.md) ---- */

-- what is to be kept up to date; only functions write it
CREATE TABLE vllm.job (
    id int PRIMARY KEY,
    name name NOT NULL UNIQUE,
    kind text NOT NULL,             -- embedding, completion
    owner regrole NOT NULL,         -- of the source, as whom it runs; 0: the source has a new owner, who has not agreed
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
    uses text[],                    -- what the input's names stand for (job_uses.c); NULL: of a job of 0.9, not recorded yet
    UNIQUE (source, target_column),
    UNIQUE (target_table)
);

-- (pg_write_all_data may set sequences: they never end, and numbers that are taken are passed over)
CREATE SEQUENCE vllm.job_id_seq AS int CYCLE OWNED BY vllm.job.id;

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

-- the upper 45 bits of an id (job_queue.c)
CREATE SEQUENCE vllm.job_queue_id_seq MAXVALUE 35184372088831 CYCLE OWNED BY vllm.job_queue.id;

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

ALTER TABLE vllm.job ENABLE ROW LEVEL SECURITY;
ALTER TABLE vllm.job_queue ENABLE ROW LEVEL SECURITY;
ALTER TABLE vllm.job_failure ENABLE ROW LEVEL SECURITY;
ALTER TABLE vllm.job_stat ENABLE ROW LEVEL SECURITY;

SELECT pg_catalog.pg_extension_config_dump('vllm.job',
    'AS j (id, name, kind, role), LATERAL (SELECT vllm.dumped_role(role) AS owner) AS r');
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
WHEN TAG IN ('ALTER TABLE', 'CREATE TABLE', 'CREATE SCHEMA', 'CREATE TRIGGER') EXECUTE FUNCTION vllm.job_ddl();

-- only the extension makes triggers of these
REVOKE EXECUTE ON FUNCTION vllm.job_changed(), vllm.job_wake(), vllm.job_ddl() FROM PUBLIC;

CREATE FUNCTION @extschema@.llm_create_embedding_job(
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
    options vllm.json DEFAULT NULL,
    columns name[] DEFAULT NULL,
    template text DEFAULT NULL,
    name name DEFAULT NULL,
    backfill text DEFAULT 'missing',
    max_attempts int DEFAULT 5)
RETURNS name
AS 'MODULE_PATHNAME', 'llm_create_embedding_job' LANGUAGE C VOLATILE;

CREATE FUNCTION @extschema@.llm_create_completion_job(
    source regclass,
    template text DEFAULT NULL,
    target_column name DEFAULT NULL,
    max_tokens int DEFAULT NULL,
    model text DEFAULT NULL,
    options vllm.json DEFAULT NULL,
    input text DEFAULT NULL,
    name name DEFAULT NULL,
    backfill text DEFAULT 'missing',
    max_attempts int DEFAULT 5)
RETURNS name
AS 'MODULE_PATHNAME', 'llm_create_completion_job' LANGUAGE C VOLATILE;

-- NULL: as it is
CREATE FUNCTION @extschema@.llm_alter_job(
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
    options vllm.json DEFAULT NULL,
    max_attempts int DEFAULT NULL,
    priority int DEFAULT NULL,
    batch_size int DEFAULT NULL,
    schedule text DEFAULT NULL,
    enabled bool DEFAULT NULL,
    backfill text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'llm_alter_job' LANGUAGE C VOLATILE;

CREATE FUNCTION @extschema@.llm_drop_job(name name) RETURNS void
AS 'MODULE_PATHNAME', 'llm_drop_job' LANGUAGE C VOLATILE;

CREATE FUNCTION @extschema@.llm_pause_job(name name) RETURNS void
AS 'MODULE_PATHNAME', 'llm_pause_job' LANGUAGE C VOLATILE;

CREATE FUNCTION @extschema@.llm_resume_job(name name) RETURNS void
AS 'MODULE_PATHNAME', 'llm_resume_job' LANGUAGE C VOLATILE;

CREATE FUNCTION @extschema@.llm_retry_job(name name, key text[] DEFAULT NULL) RETURNS bigint
AS 'MODULE_PATHNAME', 'llm_retry_job' LANGUAGE C VOLATILE;

CREATE FUNCTION @extschema@.llm_backfill_job(name name, rows text DEFAULT 'all') RETURNS void
AS 'MODULE_PATHNAME', 'llm_backfill_job' LANGUAGE C VOLATILE;

CREATE FUNCTION @extschema@.llm_generate_trigger() RETURNS trigger
AS 'MODULE_PATHNAME', 'llm_generate_trigger' LANGUAGE C;

CREATE FUNCTION @extschema@.llm_embed_trigger() RETURNS trigger
AS 'MODULE_PATHNAME', 'llm_embed_trigger' LANGUAGE C;

CREATE VIEW @extschema@.llm_jobs WITH (security_barrier) AS
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

CREATE VIEW @extschema@.llm_job_failures WITH (security_barrier) AS
    SELECT j.name, j.source, f.key, f.attempts, f.sqlstate, f.message, f.failed
    FROM vllm.job_failure f
    JOIN vllm.job j ON j.id OPERATOR(pg_catalog.=) f.job
    LEFT JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) j.source::oid
    WHERE pg_catalog.pg_has_role(coalesce(c.relowner, j.owner::oid), 'USAGE');

GRANT SELECT ON @extschema@.llm_jobs, @extschema@.llm_job_failures TO PUBLIC;

/* ---- bodies of OpenAI's and Anthropic's interfaces (llm_api.c; docs/user/openai-api.md) ---- */

CREATE FUNCTION @extschema@.llm_api(path text, body vllm.json DEFAULT '{}', on_error text DEFAULT 'raise') RETURNS json
AS 'MODULE_PATHNAME', 'llm_api' LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000000;

CREATE FUNCTION @extschema@.llm_api_stream(path text, body vllm.json DEFAULT '{}', on_error text DEFAULT 'raise') RETURNS SETOF json
AS 'MODULE_PATHNAME', 'llm_api_stream' LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000000 ROWS 100;

CREATE FUNCTION @extschema@.v1_models() RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000
RETURN @extschema@.llm_api('/v1/models'::text, '{}'::vllm.json, 'raise'::text);

CREATE FUNCTION @extschema@.v1_tokenize(request vllm.json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000
RETURN @extschema@.llm_api('/tokenize'::text, request, 'raise'::text);

CREATE FUNCTION @extschema@.v1_detokenize(request vllm.json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000
RETURN @extschema@.llm_api('/detokenize'::text, request, 'raise'::text);

CREATE FUNCTION @extschema@.v1_completions(request vllm.json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000
RETURN @extschema@.llm_api('/v1/completions'::text, request, 'raise'::text);

CREATE FUNCTION @extschema@.v1_completions_stream(request vllm.json) RETURNS SETOF json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000 ROWS 100
BEGIN ATOMIC SELECT @extschema@.llm_api_stream('/v1/completions'::text, request, 'raise'::text); END;

CREATE FUNCTION @extschema@.v1_chat_completions(request vllm.json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000
RETURN @extschema@.llm_api('/v1/chat/completions'::text, request, 'raise'::text);

CREATE FUNCTION @extschema@.v1_chat_completions_stream(request vllm.json) RETURNS SETOF json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000 ROWS 100
BEGIN ATOMIC SELECT @extschema@.llm_api_stream('/v1/chat/completions'::text, request, 'raise'::text); END;

CREATE FUNCTION @extschema@.v1_embeddings(request vllm.json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 100000
RETURN @extschema@.llm_api('/v1/embeddings'::text, request, 'raise'::text);

CREATE FUNCTION @extschema@.v1_classify(request vllm.json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 100000
RETURN @extschema@.llm_api('/classify'::text, request, 'raise'::text);

CREATE FUNCTION @extschema@.v1_pooling(request vllm.json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 100000
RETURN @extschema@.llm_api('/pooling'::text, request, 'raise'::text);

CREATE FUNCTION @extschema@.v1_score(request vllm.json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 100000
RETURN @extschema@.llm_api('/score'::text, request, 'raise'::text);

CREATE FUNCTION @extschema@.v1_rerank(request vllm.json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 100000
RETURN @extschema@.llm_api('/rerank'::text, request, 'raise'::text);

CREATE FUNCTION @extschema@.v1_messages(request vllm.json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000
RETURN @extschema@.llm_api('/v1/messages'::text, request, 'raise'::text);

CREATE FUNCTION @extschema@.v1_messages_stream(request vllm.json) RETURNS SETOF json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000 ROWS 100
BEGIN ATOMIC SELECT @extschema@.llm_api_stream('/v1/messages'::text, request, 'raise'::text); END;

CREATE FUNCTION @extschema@.v1_messages_count_tokens(request vllm.json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000
RETURN @extschema@.llm_api('/v1/messages/count_tokens'::text, request, 'raise'::text);

CREATE FUNCTION @extschema@.v1_responses(request vllm.json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL UNSAFE COST 1000000
RETURN @extschema@.llm_api('/v1/responses'::text, request, 'raise'::text);

CREATE FUNCTION @extschema@.v1_responses_stream(request vllm.json) RETURNS SETOF json
LANGUAGE sql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 100
BEGIN ATOMIC SELECT @extschema@.llm_api_stream('/v1/responses'::text, request, 'raise'::text); END;

CREATE FUNCTION @extschema@.v1_responses_get(id text) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000
RETURN @extschema@.llm_api('/v1/responses/'::text OPERATOR(pg_catalog.||) id, '{}'::vllm.json, 'raise'::text);

CREATE FUNCTION @extschema@.v1_responses_cancel(id text) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000
RETURN @extschema@.llm_api('/v1/responses/'::text OPERATOR(pg_catalog.||) id OPERATOR(pg_catalog.||) '/cancel'::text, '{}'::vllm.json, 'raise'::text);

-- responses that are kept (response_store.c): each role's its own
CREATE TABLE vllm.response (
    id text NOT NULL,
    owner regrole NOT NULL DEFAULT pg_catalog.quote_ident(current_user)::regrole,
    created timestamptz NOT NULL DEFAULT pg_catalog.now(),
    items json NOT NULL,
    response json NOT NULL,
    PRIMARY KEY (owner, id)
);

ALTER TABLE vllm.response ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON vllm.response
    USING (owner::oid OPERATOR(pg_catalog.=) pg_catalog.quote_ident(current_user)::regrole::oid)
    WITH CHECK (owner::oid OPERATOR(pg_catalog.=) pg_catalog.quote_ident(current_user)::regrole::oid);
-- No DELETE, nor UPDATE of the whole table: who has them may lock it (LOCK TABLE), and with it all roles' responses.
GRANT SELECT, INSERT, UPDATE (created, items, response) ON vllm.response TO PUBLIC;

-- the caller's, older than `before`, of one id; NULL: of any
CREATE FUNCTION @extschema@.llm_forget_responses(before timestamptz DEFAULT NULL, id text DEFAULT NULL) RETURNS bigint
AS 'MODULE_PATHNAME', 'llm_forget_responses' LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION vllm.store_response(body json, response json) RETURNS void
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

/* ---- many bodies, as OpenAI's batch files have them (batch_file.c) ---- */

-- the body's status, as HTTP has it
CREATE FUNCTION vllm.api_status(body json) RETURNS int
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

-- the text as json, NULL if it is none, or has escapes that are no characters
CREATE FUNCTION vllm.json_or_null(line text) RETURNS json
AS 'MODULE_PATHNAME', 'llm_json_or_null' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- what is wrong with a line of a batch beside its body, as the error body; NULL = nothing.  problem: what is known already
CREATE FUNCTION vllm.batch_refusal(custom_id text, url text, body json, nth bigint, problem text) RETURNS json
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

CREATE FUNCTION @extschema@.llm_run_batch(query text, "window" int DEFAULT NULL, OUT custom_id text, OUT status_code int, OUT response json, OUT error json)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_run_batch' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 1000;

CREATE FUNCTION @extschema@.llm_run_batch(input regclass, "window" int DEFAULT NULL, OUT custom_id text, OUT status_code int, OUT response json, OUT error json)
RETURNS SETOF record
LANGUAGE sql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 1000
BEGIN ATOMIC
    SELECT * FROM @extschema@.llm_run_batch(pg_catalog.format('SELECT custom_id, url, body FROM %s', input), "window");
END;

-- commits after each part, and leaves out what output has already
CREATE PROCEDURE @extschema@.llm_run_batch_table(input regclass, output regclass, part_rows int DEFAULT 1000)
AS 'MODULE_PATHNAME', 'llm_run_batch_table' LANGUAGE C;

CREATE FUNCTION @extschema@.llm_run_batch_file(input_path text, output_path text, model text DEFAULT NULL,
    OUT total int, OUT succeeded int, OUT failed int, OUT duration_ms float8)
RETURNS record
AS 'MODULE_PATHNAME', 'llm_run_batch_file' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000;

/* ---- API keys of the HTTP server (api_keys.c; docs/user/http-server.md) ---- */

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
ALTER TABLE vllm.api_key ENABLE ROW LEVEL SECURITY;
-- a key of a role that is gone is nobody's
SELECT pg_catalog.pg_extension_config_dump('vllm.api_key',
    'AS k (name, hash, role, created, maker), LATERAL (SELECT vllm.dumped_role(maker) AS created_by) AS r
     WHERE role::pg_catalog.oid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT oid FROM pg_catalog.pg_roles))');

CREATE FUNCTION @extschema@.llm_create_api_key(name text, role text DEFAULT NULL, valid_until timestamptz DEFAULT NULL) RETURNS text
AS 'MODULE_PATHNAME', 'llm_create_api_key' LANGUAGE C VOLATILE;

REVOKE EXECUTE ON FUNCTION @extschema@.llm_create_api_key(text, text, timestamptz) FROM PUBLIC;

CREATE FUNCTION @extschema@.llm_revoke_api_key(name text) RETURNS bool
AS 'MODULE_PATHNAME', 'llm_revoke_api_key' LANGUAGE C VOLATILE;

CREATE FUNCTION vllm.http_login(hash bytea) RETURNS text
AS 'MODULE_PATHNAME', 'llm_http_login' LANGUAGE C STABLE;

CREATE VIEW @extschema@.llm_api_keys WITH (security_barrier) AS
    SELECT k.name, CASE WHEN r.oid IS NULL THEN 'role dropped' WHEN k.revoked IS NOT NULL THEN 'revoked'
               WHEN k.expires OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp() THEN 'expired' ELSE 'active' END AS state,
           coalesce(r.rolname::text, k.role::text) AS role, k.created, k.created_by::text AS created_by, k.expires, k.revoked
    FROM vllm.api_key k
    LEFT JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) k.role::oid
    WHERE pg_catalog.pg_has_role(k.role::oid, 'MEMBER');

GRANT SELECT ON @extschema@.llm_api_keys TO PUBLIC;

/* ---- prompts that stay computed (pin_prefix.c; docs/internals/kv-cache.md) ---- */

CREATE FUNCTION @extschema@.llm_reset_prefix_cache() RETURNS bool
AS 'MODULE_PATHNAME', 'llm_reset_prefix_cache' LANGUAGE C VOLATILE;

REVOKE EXECUTE ON FUNCTION @extschema@.llm_reset_prefix_cache() FROM PUBLIC;

CREATE FUNCTION @extschema@.llm_pin_prefix(prompt text, model text DEFAULT NULL, cache_salt text DEFAULT NULL, timeout_ms int DEFAULT NULL, params vllm.json DEFAULT NULL,
    lora text DEFAULT NULL) RETURNS int
AS 'MODULE_PATHNAME', 'llm_pin_prefix' LANGUAGE C VOLATILE;

CREATE FUNCTION @extschema@.llm_unpin_prefix(prompt text, model text DEFAULT NULL, cache_salt text DEFAULT NULL, timeout_ms int DEFAULT NULL, params vllm.json DEFAULT NULL,
    lora text DEFAULT NULL) RETURNS int
AS 'MODULE_PATHNAME', 'llm_unpin_prefix' LANGUAGE C VOLATILE;

CREATE FUNCTION @extschema@.llm_unpin_prefix(id bigint) RETURNS bool
AS 'MODULE_PATHNAME', 'llm_unpin_id' LANGUAGE C VOLATILE;

REVOKE ALL ON FUNCTION @extschema@.llm_pin_prefix(text, text, text, int, vllm.json, text),
    @extschema@.llm_unpin_prefix(text, text, text, int, vllm.json, text), @extschema@.llm_unpin_prefix(bigint) FROM PUBLIC;

CREATE FUNCTION vllm.pin_list(
    OUT id bigint, OUT model text, OUT role text, OUT isolation text, OUT lora text, OUT salted bool, OUT tokens int, OUT bytes bigint,
    OUT pinned_at timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_pin_list' LANGUAGE C VOLATILE ROWS 10;

CREATE VIEW @extschema@.llm_pinned_prefixes AS
    SELECT * FROM vllm.pin_list();

GRANT SELECT ON @extschema@.llm_pinned_prefixes TO PUBLIC;

/* ---- control (control.c, upgrade.c; docs/user/operations.md) ---- */

CREATE FUNCTION @extschema@.llm_cancel(id bigint) RETURNS bool
AS 'MODULE_PATHNAME', 'llm_cancel' LANGUAGE C VOLATILE;

CREATE FUNCTION @extschema@.llm_engine_restart() RETURNS void
AS 'MODULE_PATHNAME', 'llm_engine_restart' LANGUAGE C VOLATILE;

CREATE FUNCTION @extschema@.llm_engine_upgrade(drain_timeout_ms int DEFAULT 60000)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION @extschema@.llm_help(about text DEFAULT NULL)
RETURNS TABLE (topic text, name text, description text, example text)
AS 'MODULE_PATHNAME', 'llm_help' LANGUAGE C STABLE ROWS 40;

CREATE FUNCTION @extschema@.llm_version() RETURNS text
AS 'MODULE_PATHNAME', 'llm_version' LANGUAGE C STABLE PARALLEL SAFE;

CREATE FUNCTION vllm.control(command text) RETURNS text
AS 'MODULE_PATHNAME', 'llm_control' LANGUAGE C VOLATILE;

REVOKE EXECUTE ON FUNCTION @extschema@.llm_engine_restart(), vllm.control(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.llm_engine_upgrade(int) FROM PUBLIC;

/* ---- what goes on (views.c, top.c, query_stats.c; docs/user/monitoring.md) ---- */

CREATE FUNCTION vllm.requests(
    OUT id bigint, OUT pid int, OUT database text, OUT role text, OUT model text, OUT kind text,
    OUT state text, OUT arrival timestamptz, OUT prompt_tokens bigint, OUT computed_tokens bigint,
    OUT cached_tokens bigint, OUT output_tokens bigint, OUT preemptions bigint, OUT ttft_ms float8,
    OUT lora text, OUT priority int, OUT traceparent text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_request_list' LANGUAGE C VOLATILE ROWS 10;

CREATE VIEW @extschema@.llm_requests AS
    SELECT id, pid, database, role, model, kind, state, arrival,
           pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) arrival AS age, prompt_tokens, computed_tokens, cached_tokens,
           output_tokens, preemptions, ttft_ms, lora, priority, traceparent
    FROM vllm.requests();

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

CREATE VIEW @extschema@.llm_stat_engine AS
    SELECT * FROM vllm.engine_stats();

CREATE FUNCTION vllm.devices(
    OUT device int, OUT kind text, OUT name text, OUT isa text, OUT cpus int, OUT usable_cpus int, OUT threads int,
    OUT memory_total bigint, OUT memory_available bigint, OUT engine_bytes bigint,
    OUT compute_capability text, OUT multiprocessors int, OUT driver text, OUT uuid text, OUT usable bool, OUT rank int, OUT note text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_device_list' LANGUAGE C VOLATILE ROWS 4;

CREATE VIEW @extschema@.llm_devices AS
    SELECT * FROM vllm.devices();

-- which features go together: tests/t/122_compatibility.pl tries each two
CREATE VIEW @extschema@.llm_compatibility AS
SELECT f.feature, o.other, r.note IS NULL AS supported, r.note
FROM (SELECT ARRAY['prefix caching', 'chunked prefill', 'speculative decoding', 'quantization on loading', 'FP8 KV cache',
        'LoRA', 'structured output', 'logprobs', 'prompt logprobs', 'parallel sampling', 'beam search', 'streaming',
        'prompt embeddings', 'embeddings', 'KV cache offloading', 'tensor parallelism', 'pipeline parallelism',
        'data parallelism'] AS features) AS l
    CROSS JOIN LATERAL pg_catalog.unnest(l.features) AS f (feature)
    CROSS JOIN LATERAL pg_catalog.unnest(l.features) AS o (other)
    LEFT JOIN (VALUES
        ('beam search', ARRAY['logprobs', 'prompt logprobs', 'parallel sampling', 'structured output'],
            'a beam search looks for the answers that are likeliest for the model alone'),
        ('beam search', ARRAY['streaming', 'prompt embeddings'], 'no function does both'),
        ('streaming', ARRAY['logprobs', 'prompt logprobs', 'parallel sampling'],
            'a row of llm_generate_stream() is a text; the HTTP server streams them'),
        ('streaming', ARRAY['prompt embeddings'], 'no function does both'),
        ('embeddings', ARRAY['logprobs', 'prompt logprobs', 'parallel sampling', 'beam search', 'streaming', 'structured output'],
            'an embedding is no text'),
        ('embeddings', ARRAY['prompt embeddings'], 'no function does both'),
        ('prompt embeddings', ARRAY['prompt logprobs'], 'the prompt has no tokens')) AS r (feature, others, note)
    ON (f.feature OPERATOR(pg_catalog.=) r.feature AND o.other OPERATOR(pg_catalog.=) ANY (r.others))
        OR (o.other OPERATOR(pg_catalog.=) r.feature AND f.feature OPERATOR(pg_catalog.=) ANY (r.others))
WHERE f.feature OPERATOR(pg_catalog.<>) o.other;
GRANT SELECT ON @extschema@.llm_compatibility TO PUBLIC;

-- what quantized checkpoints are in memory: tests/t/025_quantized.pl loads one of each method
CREATE VIEW @extschema@.llm_quantization_support AS
SELECT s.method, s.format, s.cpu, s.cuda
FROM (VALUES
        ('gptq', '2 to 4 bits', ARRAY['Q4_0', 'Q4_1'], ARRAY['Q4_0', 'Q4_1']),
        ('gptq', '8 bits', ARRAY['Q8_0', 'BF16'], ARRAY['Q8_0', 'BF16']),
        ('gptq', 'columns in disorder, groups that are no multiple of 32', ARRAY['Q8_0', 'BF16'], ARRAY['Q8_0', 'BF16']),
        ('awq', '4 bits', ARRAY['Q4_1', 'Q4_0'], ARRAY['Q4_1', 'Q4_0']),
        ('auto-round', 'as gptq or awq', ARRAY['Q4_0', 'Q4_1', 'Q8_0', 'BF16'], ARRAY['Q4_0', 'Q4_1', 'Q8_0', 'BF16']),
        ('auto-round', 'FP8', ARRAY['FP8', 'BF16'], ARRAY['FP8', 'BF16']),
        ('auto-round', 'MXFP8', ARRAY['BF16'], ARRAY['BF16']),
        ('auto-round', 'NVFP4', ARRAY['NVFP4'], ARRAY['Q8_0']),
        ('auto-round', 'MXFP4', ARRAY['MXFP4'], ARRAY['MXFP4']),
        ('compressed-tensors', 'pack-quantized, up to 4 bits', ARRAY['Q4_0', 'Q4_1'], ARRAY['Q4_0', 'Q4_1']),
        ('compressed-tensors', 'pack-quantized, 5 to 8 bits', ARRAY['Q8_0', 'BF16'], ARRAY['Q8_0', 'BF16']),
        ('compressed-tensors', 'int-quantized', ARRAY['INT8', 'Q8_0', 'BF16'], ARRAY['INT8', 'Q8_0', 'BF16']),
        ('compressed-tensors', 'float-quantized, naive-quantized', ARRAY['FP8', 'BF16'], ARRAY['FP8', 'BF16']),
        ('compressed-tensors', 'nvfp4-pack-quantized', ARRAY['NVFP4'], ARRAY['Q8_0']),
        ('compressed-tensors', 'mxfp4-pack-quantized', ARRAY['MXFP4'], ARRAY['MXFP4']),
        ('compressed-tensors', 'mxfp8-quantized', ARRAY['BF16'], ARRAY['BF16']),
        ('fp8', 'E4M3', ARRAY['FP8', 'BF16'], ARRAY['FP8', 'BF16']),
        ('fp8', 'E5M2', ARRAY['BF16'], ARRAY['BF16']),
        ('bitsandbytes', 'NF4', ARRAY['NF4', 'Q8_0'], ARRAY['NF4', 'Q8_0']),
        ('bitsandbytes', 'FP4', ARRAY['FP4', 'Q8_0'], ARRAY['FP4', 'Q8_0']),
        ('bitsandbytes', 'INT8', ARRAY['Q8_0'], ARRAY['Q8_0']),
        ('mxfp4', 'MXFP4', ARRAY['MXFP4'], ARRAY['MXFP4']),
        ('modelopt', 'FP8', ARRAY['FP8', 'BF16'], ARRAY['FP8', 'BF16']),
        ('modelopt', 'INT8', ARRAY['Q8_0', 'INT8'], ARRAY['Q8_0', 'INT8']),
        ('modelopt', 'MXFP8', ARRAY['BF16'], ARRAY['BF16']),
        ('modelopt', 'NVFP4', ARRAY['NVFP4'], ARRAY['Q8_0']),
        ('modelopt', 'MXFP4', ARRAY['MXFP4'], ARRAY['MXFP4']),
        ('quark', 'FP8', ARRAY['FP8', 'BF16'], ARRAY['FP8', 'BF16']),
        ('quark', 'MXFP4', ARRAY['MXFP4'], ARRAY['MXFP4']),
        ('quark', 'MXFP6', ARRAY['BF16'], ARRAY['BF16']),
        ('quark', 'int4, uint4', ARRAY['Q4_0', 'Q4_1'], ARRAY['Q4_0', 'Q4_1']),
        ('quark', 'int8, uint8', ARRAY['Q8_0', 'INT8', 'BF16'], ARRAY['Q8_0', 'INT8', 'BF16']),
        ('torchao', 'int8, intx', ARRAY['Q8_0', 'INT8', 'BF16'], ARRAY['Q8_0', 'INT8', 'BF16']),
        ('torchao', 'float8', ARRAY['FP8', 'BF16'], ARRAY['FP8', 'BF16']),
        ('hqq', 'up to 4 bits', ARRAY['Q4_1', 'Q8_0'], ARRAY['Q4_1', 'Q8_0']),
        ('hqq', '5 to 8 bits', ARRAY['BF16'], ARRAY['BF16']),
        ('gguf', 'Q8_0', ARRAY['Q8_0'], ARRAY['Q8_0']),
        ('gguf', 'Q4_0', ARRAY['Q4_0'], ARRAY['Q4_0']),
        ('gguf', 'Q4_1', ARRAY['Q4_1'], ARRAY['Q4_1']),
        ('gguf', 'Q5_0', ARRAY['Q5_0'], ARRAY['Q5_0']),
        ('gguf', 'Q5_1', ARRAY['Q5_1'], ARRAY['Q5_1']),
        ('gguf', 'Q2_K', ARRAY['Q2_K'], ARRAY['Q2_K']),
        ('gguf', 'Q3_K', ARRAY['Q3_K'], ARRAY['Q3_K']),
        ('gguf', 'Q4_K', ARRAY['Q4_K'], ARRAY['Q4_K']),
        ('gguf', 'Q5_K', ARRAY['Q5_K'], ARRAY['Q5_K']),
        ('gguf', 'Q6_K', ARRAY['Q6_K'], ARRAY['Q6_K']),
        ('gguf', 'IQ4_NL', ARRAY['IQ4_NL'], ARRAY['IQ4_NL']),
        ('gguf', 'IQ4_XS', ARRAY['IQ4_XS'], ARRAY['IQ4_XS']),
        ('gguf', 'MXFP4', ARRAY['MXFP4'], ARRAY['MXFP4']),
        ('gguf', 'NVFP4', ARRAY['NVFP4'], ARRAY['Q8_0'])) AS s (method, format, cpu, cuda);
GRANT SELECT ON @extschema@.llm_quantization_support TO PUBLIC;

CREATE FUNCTION @extschema@.llm_top(requests int DEFAULT 10) RETURNS SETOF text
AS 'MODULE_PATHNAME', 'llm_top' LANGUAGE C VOLATILE ROWS 25;

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

CREATE VIEW @extschema@.llm_stat_query AS
    SELECT * FROM vllm.stat_list(false);

CREATE VIEW @extschema@.llm_stat_role AS
    SELECT s.userid, r.rolname AS role, s.dbid, d.datname AS database, s.calls, s.requests, s.errors, s.cancelled,
           s.prompt_tokens, s.cached_tokens, s.output_tokens, s.preemptions, s.draft_tokens, s.accepted_tokens,
           s.total_time, s.min_time, s.max_time, s.mean_time, s.stddev_time,
           s.queue_time, s.prefill_time, s.decode_time, s.stats_since, s.last_used
    FROM vllm.stat_list(true) s
    LEFT JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) s.userid
    LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) s.dbid;

GRANT SELECT ON @extschema@.llm_requests, @extschema@.llm_stat_engine, @extschema@.llm_devices, @extschema@.llm_stat_query, @extschema@.llm_stat_role TO PUBLIC;

CREATE FUNCTION @extschema@.llm_stat_reset(userid oid DEFAULT NULL, dbid oid DEFAULT NULL, queryid bigint DEFAULT NULL) RETURNS bigint
AS 'MODULE_PATHNAME', 'llm_stat_reset' LANGUAGE C VOLATILE;

REVOKE EXECUTE ON FUNCTION @extschema@.llm_stat_reset(oid, oid, bigint) FROM PUBLIC;

CREATE FUNCTION @extschema@.llm_metrics_text() RETURNS text
AS 'MODULE_PATHNAME', 'llm_metrics_text' LANGUAGE C VOLATILE;

CREATE FUNCTION @extschema@.llm_metrics(OUT name text, OUT kind text, OUT labels jsonb, OUT value float8,
                            OUT sum float8, OUT count int8, OUT buckets jsonb)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_metrics' LANGUAGE C VOLATILE;

/* ---- profiles (profile.c) ---- */

CREATE FUNCTION @extschema@.llm_start_profile(delay_steps int DEFAULT 0, max_steps int DEFAULT 0) RETURNS void
AS 'MODULE_PATHNAME', 'llm_start_profile' LANGUAGE C VOLATILE;

CREATE FUNCTION @extschema@.llm_stop_profile(filename text DEFAULT NULL) RETURNS json
AS 'MODULE_PATHNAME', 'llm_stop_profile' LANGUAGE C VOLATILE;

REVOKE EXECUTE ON FUNCTION @extschema@.llm_start_profile(int, int), @extschema@.llm_stop_profile(text) FROM PUBLIC;

/* ---- endpoints, and the program that asks them (remote_views.c; docs/user/remote-models.md) ---- */

CREATE FUNCTION vllm.url_list(
    OUT model text, OUT url text, OUT health text, OUT in_flight int, OUT waiting int, OUT calls bigint, OUT failures bigint,
    OUT retries bigint, OUT throttled bigint, OUT avg_latency_ms float8, OUT retry_at timestamptz, OUT last_error text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_url_list' LANGUAGE C VOLATILE ROWS 10;

CREATE VIEW @extschema@.llm_stat_remote AS
    SELECT * FROM vllm.url_list();

CREATE FUNCTION vllm.remote_state(
    OUT state text, OUT pid int, OUT restarts bigint, OUT started timestamptz, OUT last_error text, OUT last_error_at timestamptz,
    OUT slots_used int, OUT running bigint, OUT waiting bigint, OUT requests bigint, OUT finished bigint, OUT failed bigint,
    OUT cancelled bigint, OUT prompt_tokens bigint, OUT output_tokens bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_remote_state' LANGUAGE C VOLATILE ROWS 1;

CREATE VIEW @extschema@.llm_remote AS
    SELECT * FROM vllm.remote_state();

GRANT SELECT ON @extschema@.llm_stat_remote, @extschema@.llm_remote TO PUBLIC;

/* ---- costs (spend.c; docs/user/cost.md) ---- */

CREATE FUNCTION vllm.cost_list(
    OUT userid oid, OUT dbid oid, OUT model text, OUT requests bigint, OUT prompt_tokens bigint, OUT cached_tokens bigint,
    OUT output_tokens bigint, OUT charged_tries bigint, OUT cost numeric, OUT since timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_cost_list' LANGUAGE C VOLATILE STRICT;

CREATE VIEW @extschema@.llm_stat_cost AS
    SELECT r.rolname AS role, d.datname AS database, c.model, c.requests, c.prompt_tokens, c.cached_tokens, c.output_tokens, c.charged_tries,
           c.cost, c.since, c.userid, c.dbid
    FROM vllm.cost_list() c
    LEFT JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) c.userid
    LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) c.dbid;

CREATE FUNCTION vllm.budget_list(OUT userid oid, OUT day numeric, OUT month numeric, OUT total numeric, OUT reserved numeric)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_budget_list' LANGUAGE C VOLATILE STRICT;

CREATE VIEW @extschema@.llm_stat_budget AS
    SELECT r.rolname AS role, b.day, b.month, b.total, b.reserved, b.userid
    FROM vllm.budget_list() b
    LEFT JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) b.userid;

GRANT SELECT ON @extschema@.llm_stat_cost, @extschema@.llm_stat_budget TO PUBLIC;

CREATE FUNCTION @extschema@.llm_cost_reset(userid oid DEFAULT NULL) RETURNS bigint
AS 'MODULE_PATHNAME', 'llm_cost_reset' LANGUAGE C VOLATILE;

REVOKE EXECUTE ON FUNCTION @extschema@.llm_cost_reset(oid) FROM PUBLIC;

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
ALTER TABLE vllm.result_cache ENABLE ROW LEVEL SECURITY;

CREATE FUNCTION vllm.cache_list(OUT model text, OUT entries bigint, OUT bytes bigint, OUT hits bigint, OUT misses bigint, OUT skipped bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'llm_cache_list' LANGUAGE C VOLATILE STRICT;

CREATE VIEW @extschema@.llm_stat_cache AS
    SELECT * FROM vllm.cache_list();

GRANT SELECT ON @extschema@.llm_stat_cache TO PUBLIC;

CREATE FUNCTION @extschema@.llm_cache_prune() RETURNS bigint
AS 'MODULE_PATHNAME', 'llm_cache_prune' LANGUAGE C VOLATILE PARALLEL UNSAFE;

REVOKE EXECUTE ON FUNCTION @extschema@.llm_cache_prune() FROM PUBLIC;

CREATE FUNCTION @extschema@.llm_cache_clear(model text DEFAULT NULL) RETURNS bigint
AS 'MODULE_PATHNAME', 'llm_cache_clear' LANGUAGE C VOLATILE PARALLEL UNSAFE;

/* ---- what the HTTP server calls (src/httpd) ---- */

-- In schema vllm, which keeps its name: a connection of the server lasts, and the owner of the database may rename the
-- extension's schema and put another in its place.  Each has the privileges of what it calls, whose EXECUTE is checked, too.
CREATE FUNCTION vllm.http_api(path text, request json) RETURNS json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000
RETURN @extschema@.llm_api(path, request::vllm.json, 'return'::text);

CREATE FUNCTION vllm.http_api_stream(path text, request json) RETURNS SETOF json
LANGUAGE sql VOLATILE PARALLEL RESTRICTED COST 1000000 ROWS 100
BEGIN ATOMIC SELECT @extschema@.llm_api_stream(path, request::vllm.json, 'return'::text); END;

CREATE FUNCTION vllm.http_load_lora_adapter(request json) RETURNS text LANGUAGE sql VOLATILE
RETURN @extschema@.v1_load_lora_adapter(request::vllm.json);

CREATE FUNCTION vllm.http_unload_lora_adapter(request json) RETURNS text LANGUAGE sql VOLATILE
RETURN @extschema@.v1_unload_lora_adapter(request::vllm.json);

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


/* ---- Comments ---- */

-- the upgrade script has the same; docs/user/sql-objects.md is made of them (scripts/sqlcomments.py --write)
COMMENT ON SCHEMA vllm IS 'Catalog tables and internal functions of the extension vllm_pg.';
COMMENT ON FUNCTION vllm.dumped_role(regrole) IS
    'Text form of a role for pg_dump; 1 stands for a dropped role.';
COMMENT ON FUNCTION vllm.dumped_roles(regrole[]) IS
    'Text forms of an array of roles for pg_dump; dropped roles are left out.';
COMMENT ON TABLE vllm.model IS 'Models of this database: files or URL, options, owner, grants.';
COMMENT ON TYPE vllm.json IS 'JSON of an argument: json, jsonb and text become it.';
COMMENT ON TYPE vllm.texts IS 'Texts of an argument: an array, or one text.';
COMMENT ON TYPE vllm.doubles IS 'A vector of an argument that is no real[].';
COMMENT ON TYPE vllm.schema IS 'A JSON schema of an argument that is no json.';
COMMENT ON FUNCTION vllm.json_in(cstring) IS 'Input of vllm.json.';
COMMENT ON FUNCTION vllm.json_out(vllm.json) IS 'Output of vllm.json.';
COMMENT ON FUNCTION vllm.json_recv(internal) IS 'Binary input of vllm.json.';
COMMENT ON FUNCTION vllm.json_send(vllm.json) IS 'Binary output of vllm.json.';
COMMENT ON FUNCTION vllm.texts_in(cstring, oid, integer) IS 'Input of vllm.texts.';
COMMENT ON FUNCTION vllm.texts_out(vllm.texts) IS 'Output of vllm.texts.';
COMMENT ON FUNCTION vllm.texts_recv(internal, oid, integer) IS 'Binary input of vllm.texts.';
COMMENT ON FUNCTION vllm.texts_send(vllm.texts) IS 'Binary output of vllm.texts.';
COMMENT ON FUNCTION vllm.texts_subscript(internal) IS 'Subscripts of vllm.texts.';
COMMENT ON FUNCTION vllm.texts_of(text[]) IS 'The array.';
COMMENT ON FUNCTION vllm.texts_of(varchar[]) IS 'The array.';
COMMENT ON FUNCTION vllm.texts_of(text) IS 'An array of one text.';
COMMENT ON FUNCTION vllm.texts_of(varchar) IS 'An array of one text.';
COMMENT ON FUNCTION vllm.array_of(vllm.texts) IS 'The array.';
COMMENT ON FUNCTION vllm.doubles_in(cstring, oid, integer) IS 'Input of vllm.doubles.';
COMMENT ON FUNCTION vllm.doubles_out(vllm.doubles) IS 'Output of vllm.doubles.';
COMMENT ON FUNCTION vllm.doubles_recv(internal, oid, integer) IS 'Binary input of vllm.doubles.';
COMMENT ON FUNCTION vllm.doubles_send(vllm.doubles) IS 'Binary output of vllm.doubles.';
COMMENT ON FUNCTION vllm.doubles_subscript(internal) IS 'Subscripts of vllm.doubles.';
COMMENT ON FUNCTION vllm.doubles_of(float8[]) IS 'The array.';
COMMENT ON FUNCTION vllm.doubles_of(real[]) IS 'The array.';
COMMENT ON FUNCTION vllm.doubles_of(smallint[]) IS 'The array.';
COMMENT ON FUNCTION vllm.doubles_of(int[]) IS 'The array.';
COMMENT ON FUNCTION vllm.doubles_of(bigint[]) IS 'The array.';
COMMENT ON FUNCTION vllm.doubles_of(numeric[]) IS 'The array.';
COMMENT ON FUNCTION vllm.schema_in(cstring) IS 'Input of vllm.schema.';
COMMENT ON FUNCTION vllm.schema_out(vllm.schema) IS 'Output of vllm.schema.';
COMMENT ON FUNCTION vllm.schema_recv(internal) IS 'Binary input of vllm.schema.';
COMMENT ON FUNCTION vllm.schema_send(vllm.schema) IS 'Binary output of vllm.schema.';
COMMENT ON CAST (json AS vllm.json) IS 'JSON as an argument.';
COMMENT ON CAST (vllm.json AS json) IS 'JSON of an argument.';
COMMENT ON CAST (jsonb AS vllm.json) IS 'JSON as an argument.';
COMMENT ON CAST (text AS vllm.json) IS 'JSON as an argument.';
COMMENT ON CAST (varchar AS vllm.json) IS 'JSON as an argument.';
COMMENT ON CAST (text[] AS vllm.texts) IS 'Texts as an argument.';
COMMENT ON CAST (varchar[] AS vllm.texts) IS 'Texts as an argument.';
COMMENT ON CAST (text AS vllm.texts) IS 'A text as an argument.';
COMMENT ON CAST (varchar AS vllm.texts) IS 'A text as an argument.';
COMMENT ON CAST (float8[] AS vllm.doubles) IS 'A vector as an argument.';
COMMENT ON CAST (real[] AS vllm.doubles) IS 'A vector as an argument.';
COMMENT ON CAST (smallint[] AS vllm.doubles) IS 'A vector as an argument.';
COMMENT ON CAST (int[] AS vllm.doubles) IS 'A vector as an argument.';
COMMENT ON CAST (bigint[] AS vllm.doubles) IS 'A vector as an argument.';
COMMENT ON CAST (numeric[] AS vllm.doubles) IS 'A vector as an argument.';
COMMENT ON CAST (vllm.schema AS json) IS 'A schema of an argument.';
COMMENT ON CAST (jsonb AS vllm.schema) IS 'A schema as an argument.';
COMMENT ON FUNCTION @extschema@.llm_create_model(text, text, vllm.json, text, text) IS
    'Registers a model in a directory or file of the server, or a remote model at a URL.';
COMMENT ON FUNCTION @extschema@.llm_inspect_model(text, vllm.json) IS
    'Reports what model files contain and whether they load, without loading them.';
COMMENT ON FUNCTION @extschema@.llm_drop_model(text) IS 'Drops a model; fails while anything uses it.';
COMMENT ON FUNCTION @extschema@.llm_drop_model(text, boolean) IS
    'Drops a model and, with cascade, what uses it.';
COMMENT ON FUNCTION @extschema@.llm_load_model(text) IS
    'Loads a model into the engine and waits until it is ready.';
COMMENT ON FUNCTION @extschema@.llm_unload_model(text) IS
    'Frees the weights and the KV cache of a model; the next call loads it again.';
COMMENT ON FUNCTION @extschema@.llm_grant(text, text) IS
    'Grants the use of a model or LoRA adapter to a role.';
COMMENT ON FUNCTION @extschema@.llm_revoke(text, text) IS
    'Revokes the use of a model or LoRA adapter from a role.';
COMMENT ON FUNCTION vllm.model_list() IS
    'Rows of llm_models and llm_stat_model: catalog columns and engine state.';
COMMENT ON FUNCTION vllm.model_devices() IS 'Device of each loaded model, for llm_models.';
COMMENT ON FUNCTION vllm.model_memory() IS 'Memory, last use and expiry of loaded models, for llm_models.';
COMMENT ON FUNCTION vllm.model_urls() IS
    'URL of each remote model and whether it has a secret, for llm_models.';
COMMENT ON VIEW @extschema@.llm_models IS 'Models of this database, with the engine''s state of each.';
COMMENT ON COLUMN @extschema@.llm_models.name IS 'Name of the model.';
COMMENT ON COLUMN @extschema@.llm_models.path IS
    'Directory or file of the model; shown to its owner and pg_read_server_files.';
COMMENT ON COLUMN @extschema@.llm_models.arch IS 'Architecture named by the model''s files.';
COMMENT ON COLUMN @extschema@.llm_models.state IS
    'unloaded, loading, ready, failed, paused, asleep; of a remote model also untried.';
COMMENT ON COLUMN @extschema@.llm_models.provider IS 'local, or openai for a remote model.';
COMMENT ON COLUMN @extschema@.llm_models.dtype IS 'Type of most weights after quantization on loading.';
COMMENT ON COLUMN @extschema@.llm_models.progress IS 'Fraction of the load that is done, 0 to 1.';
COMMENT ON COLUMN @extschema@.llm_models.error IS 'Why the last load failed.';
COMMENT ON COLUMN @extschema@.llm_models.parameters IS 'Number of parameters.';
COMMENT ON COLUMN @extschema@.llm_models.weight_bytes IS 'Bytes of weights in memory.';
COMMENT ON COLUMN @extschema@.llm_models.max_model_len IS 'Context length in tokens.';
COMMENT ON COLUMN @extschema@.llm_models.kv_blocks_total IS 'Blocks of the KV cache.';
COMMENT ON COLUMN @extschema@.llm_models.kv_blocks_used IS 'Blocks of the KV cache in use.';
COMMENT ON COLUMN @extschema@.llm_models.running IS 'Requests that are running.';
COMMENT ON COLUMN @extschema@.llm_models.waiting IS 'Requests that are queued.';
COMMENT ON COLUMN @extschema@.llm_models.owner IS 'Role that owns the model.';
COMMENT ON COLUMN @extschema@.llm_models.grants IS 'Roles that may use the model; public means every role.';
COMMENT ON COLUMN @extschema@.llm_models.options IS 'Options of the model; shown to those who see its path.';
COMMENT ON COLUMN @extschema@.llm_models.memory_bytes IS 'Bytes of memory that the loaded model takes.';
COMMENT ON COLUMN @extschema@.llm_models.last_used IS 'Time of the last request.';
COMMENT ON COLUMN @extschema@.llm_models.expires IS 'Time when the engine unloads the idle model.';
COMMENT ON COLUMN @extschema@.llm_models.url IS 'First base URL of a remote model; shown to its owner.';
COMMENT ON COLUMN @extschema@.llm_models.has_secret IS
    'Whether the remote model has a secret; shown to its owner.';
COMMENT ON COLUMN @extschema@.llm_models.device IS
    'Where the loaded model is computed: cpu, cuda:0, or a list for several processes.';
COMMENT ON FUNCTION vllm.model_requests() IS
    'Request counters and mean latencies of models, for llm_stat_model.';
COMMENT ON VIEW @extschema@.llm_stat_model IS 'Request counters, latencies and KV cache use of each model.';
COMMENT ON COLUMN @extschema@.llm_stat_model.name IS 'Name of the model.';
COMMENT ON COLUMN @extschema@.llm_stat_model.state IS 'State of the model, as in llm_models.';
COMMENT ON COLUMN @extschema@.llm_stat_model.requests IS 'Requests since the engine started.';
COMMENT ON COLUMN @extschema@.llm_stat_model.prompt_tokens IS 'Prompt tokens since the engine started.';
COMMENT ON COLUMN @extschema@.llm_stat_model.output_tokens IS 'Generated tokens since the engine started.';
COMMENT ON COLUMN @extschema@.llm_stat_model.preemptions IS 'Preemptions since the engine started.';
COMMENT ON COLUMN @extschema@.llm_stat_model.running IS 'Requests that are running.';
COMMENT ON COLUMN @extschema@.llm_stat_model.waiting IS 'Requests that are queued.';
COMMENT ON COLUMN @extschema@.llm_stat_model.kv_blocks_total IS 'Blocks of the KV cache.';
COMMENT ON COLUMN @extschema@.llm_stat_model.kv_blocks_used IS 'Blocks of the KV cache in use.';
COMMENT ON COLUMN @extschema@.llm_stat_model.kv_bytes IS 'Bytes of the KV cache.';
COMMENT ON COLUMN @extschema@.llm_stat_model.weight_bytes IS 'Bytes of weights in memory.';
COMMENT ON COLUMN @extschema@.llm_stat_model.cached_tokens IS 'Prompt tokens found in the prefix cache.';
COMMENT ON COLUMN @extschema@.llm_stat_model.finished IS 'Requests that finished.';
COMMENT ON COLUMN @extschema@.llm_stat_model.failed IS 'Requests that failed.';
COMMENT ON COLUMN @extschema@.llm_stat_model.cancelled IS 'Requests that were cancelled.';
COMMENT ON COLUMN @extschema@.llm_stat_model.draft_tokens IS 'Draft tokens proposed by speculative decoding.';
COMMENT ON COLUMN @extschema@.llm_stat_model.accepted_tokens IS
    'Draft tokens accepted by speculative decoding.';
COMMENT ON COLUMN @extschema@.llm_stat_model.mean_queue_ms IS 'Mean time in the queue in ms.';
COMMENT ON COLUMN @extschema@.llm_stat_model.mean_ttft_ms IS 'Mean time to the first token in ms.';
COMMENT ON COLUMN @extschema@.llm_stat_model.mean_tpot_ms IS
    'Mean time per output token after the first in ms.';
COMMENT ON COLUMN @extschema@.llm_stat_model.mean_e2e_ms IS 'Mean time from arrival to end in ms.';
COMMENT ON COLUMN @extschema@.llm_stat_model.scheduling_weight IS
    'Weight of the model''s share of compute time.';
COMMENT ON COLUMN @extschema@.llm_stat_model.work IS
    'Most urgent work that the model has now: latency, throughput, background, or NULL.';
COMMENT ON COLUMN @extschema@.llm_stat_model.waits_for IS
    'Other model that computed last since this one has had work.';
COMMENT ON COLUMN @extschema@.llm_stat_model.compute_ms IS 'Time of the model''s own steps in ms.';
COMMENT ON COLUMN @extschema@.llm_stat_model.wait_ms IS
    'Time in ms that the model had work while other models computed.';
COMMENT ON COLUMN @extschema@.llm_stat_model.paused_ms IS
    'Part of wait_ms in which the model''s step was interrupted for others.';
COMMENT ON FUNCTION vllm.model_steps() IS 'Part of llm_stat_model.';
COMMENT ON FUNCTION vllm.memory_list() IS 'Rows of llm_memory.';
COMMENT ON VIEW @extschema@.llm_memory IS 'Memory of each loaded model in bytes, by purpose.';
COMMENT ON COLUMN @extschema@.llm_memory.model IS 'Name of the model.';
COMMENT ON COLUMN @extschema@.llm_memory.shared_with IS
    'Model with the same files and options that holds the memory.';
COMMENT ON COLUMN @extschema@.llm_memory.weights IS 'Bytes of weights; 0 while the model sleeps.';
COMMENT ON COLUMN @extschema@.llm_memory.kv_reserved IS 'Bytes of address space reserved for the KV cache.';
COMMENT ON COLUMN @extschema@.llm_memory.kv IS 'Bytes of the KV cache that have been touched.';
COMMENT ON COLUMN @extschema@.llm_memory.kv_tokens IS
    'Longest sequence that fits the KV cache; NULL means any length.';
COMMENT ON COLUMN @extschema@.llm_memory.pinned_tokens IS 'Tokens of pinned prefixes.';
COMMENT ON COLUMN @extschema@.llm_memory.state IS 'Bytes of recurrent state.';
COMMENT ON COLUMN @extschema@.llm_memory.work IS
    'Bytes of work space for the largest step and of rotary tables.';
COMMENT ON COLUMN @extschema@.llm_memory.offload IS 'Bytes of the offload tier in memory.';
COMMENT ON COLUMN @extschema@.llm_memory.other IS 'Bytes of all other buffers of the model.';
COMMENT ON COLUMN @extschema@.llm_memory.total IS 'Sum of all bytes in memory.';
COMMENT ON COLUMN @extschema@.llm_memory.offload_files IS 'Bytes of the offload tier''s files.';
COMMENT ON FUNCTION @extschema@.llm_update_weights(text, text, text) IS
    'Replaces the weights of a model that is in service.';
COMMENT ON FUNCTION @extschema@.llm_sleep(integer, text, text) IS
    'Frees the memory of a model, or of all models, until llm_wake_up().';
COMMENT ON FUNCTION @extschema@.llm_wake_up(text[], text) IS
    'Restores the memory of a sleeping model, or of all models.';
COMMENT ON FUNCTION @extschema@.llm_is_sleeping(text) IS 'Whether a model, or any model, is asleep.';
COMMENT ON FUNCTION @extschema@.llm_pause(text, text) IS
    'Stops scheduling requests of a model, or of all models.';
COMMENT ON FUNCTION @extschema@.llm_resume(text) IS
    'Schedules requests of a paused model, or of all models, again.';
COMMENT ON FUNCTION @extschema@.llm_is_paused(text) IS 'Whether a model, or any model, is paused.';
COMMENT ON TABLE vllm.secret IS 'API keys for the endpoints of remote models.';
COMMENT ON FUNCTION @extschema@.llm_set_secret(text, text) IS
    'Stores the API key that authorizes with the endpoints of a remote model.';
COMMENT ON FUNCTION @extschema@.llm_drop_secret(text) IS
    'Removes the API key of a remote model; false if it had none.';
COMMENT ON TABLE vllm.lora IS 'LoRA adapters of this database.';
COMMENT ON FUNCTION @extschema@.llm_create_lora(text, text, text, boolean) IS
    'Registers a LoRA adapter in a directory of the server.';
COMMENT ON FUNCTION @extschema@.llm_alter_lora(text, text, text) IS
    'Changes the path or the name of a LoRA adapter.';
COMMENT ON FUNCTION @extschema@.llm_drop_lora(text) IS 'Drops a LoRA adapter; fails while anything uses it.';
COMMENT ON FUNCTION @extschema@.llm_drop_lora(text, boolean) IS
    'Drops a LoRA adapter and, with cascade, what uses it.';
COMMENT ON FUNCTION @extschema@.llm_load_lora(text, boolean) IS
    'Loads a LoRA adapter and waits until it is ready; pin keeps it in memory.';
COMMENT ON FUNCTION @extschema@.llm_unload_lora(text) IS
    'Removes a LoRA adapter from memory; the next call loads it again.';
COMMENT ON FUNCTION @extschema@.v1_load_lora_adapter(vllm.json) IS
    'Endpoint /v1/load_lora_adapter: registers and loads a LoRA adapter.';
COMMENT ON FUNCTION @extschema@.v1_unload_lora_adapter(vllm.json) IS
    'Endpoint /v1/unload_lora_adapter: drops a LoRA adapter.';
COMMENT ON FUNCTION vllm.lora_list() IS 'Rows of llm_loras.';
COMMENT ON VIEW @extschema@.llm_loras IS 'LoRA adapters of this database and loaded ones of vllm.lora_dir.';
COMMENT ON COLUMN @extschema@.llm_loras.name IS 'Name of the adapter.';
COMMENT ON COLUMN @extschema@.llm_loras.parent IS 'Model of the adapter.';
COMMENT ON COLUMN @extschema@.llm_loras.root IS
    'Directory of the adapter; shown to its owner and pg_read_server_files.';
COMMENT ON COLUMN @extschema@.llm_loras.source IS 'catalog, or directory for an adapter of vllm.lora_dir.';
COMMENT ON COLUMN @extschema@.llm_loras.state IS 'unloaded, loading or ready.';
COMMENT ON COLUMN @extschema@.llm_loras.rank IS 'Rank of the adapter.';
COMMENT ON COLUMN @extschema@.llm_loras.alpha IS 'Scaling numerator of the adapter.';
COMMENT ON COLUMN @extschema@.llm_loras.rslora IS
    'Whether the scale is divided by the square root of the rank.';
COMMENT ON COLUMN @extschema@.llm_loras.modules IS 'Modules of the model that the adapter changes.';
COMMENT ON COLUMN @extschema@.llm_loras.bytes IS 'Bytes of memory that the adapter takes.';
COMMENT ON COLUMN @extschema@.llm_loras.pinned IS 'Whether the adapter stays in memory.';
COMMENT ON COLUMN @extschema@.llm_loras.running IS 'Requests that use the adapter.';
COMMENT ON COLUMN @extschema@.llm_loras.waiting IS 'Requests that wait until the adapter is loaded.';
COMMENT ON COLUMN @extschema@.llm_loras.requests IS 'Requests since the engine started.';
COMMENT ON COLUMN @extschema@.llm_loras.last_used IS 'Time of the last request.';
COMMENT ON COLUMN @extschema@.llm_loras.owner IS 'Role that owns the adapter.';
COMMENT ON COLUMN @extschema@.llm_loras.grants IS 'Roles that may use the adapter; public means every role.';
COMMENT ON COLUMN @extschema@.llm_loras.created IS 'Time when the adapter was registered.';
COMMENT ON TYPE @extschema@.llm_usage IS 'Token counts of a request.';
COMMENT ON COLUMN @extschema@.llm_usage.prompt_tokens IS 'Tokens of the prompt.';
COMMENT ON COLUMN @extschema@.llm_usage.completion_tokens IS 'Generated tokens.';
COMMENT ON COLUMN @extschema@.llm_usage.total_tokens IS 'Sum of prompt and generated tokens.';
COMMENT ON COLUMN @extschema@.llm_usage.cached_tokens IS 'Prompt tokens found in the prefix cache.';
COMMENT ON COLUMN @extschema@.llm_usage.reasoning_tokens IS
    'Generated tokens that are reasoning; NULL if not counted.';
COMMENT ON TYPE @extschema@.llm_result IS 'Text, tokens, usage and timings of one request.';
COMMENT ON COLUMN @extschema@.llm_result.text IS 'Generated text.';
COMMENT ON COLUMN @extschema@.llm_result.token_ids IS 'Generated tokens, with the one that ended the output.';
COMMENT ON COLUMN @extschema@.llm_result.finish_reason IS 'stop, length or repetition.';
COMMENT ON COLUMN @extschema@.llm_result.stop_reason IS
    'Stop string or id of the stop token; NULL for the model''s own end token.';
COMMENT ON COLUMN @extschema@.llm_result.usage IS 'Token counts.';
COMMENT ON COLUMN @extschema@.llm_result.timings IS 'Durations in ms and the number of preemptions.';
COMMENT ON FUNCTION vllm.llm_support(internal) IS
    'Planner support function of functions that generate: cost and rows of a call.';
COMMENT ON FUNCTION @extschema@.llm_generate(text, integer, double precision, double precision, integer,
    double precision, bigint, vllm.texts, bigint[], integer, boolean, vllm.json, text, integer, double precision,
    double precision, double precision, vllm.json, text[], bigint[], vllm.json, text, text[], text, integer, text,
    integer, text, text) IS
    'Generates a continuation of a prompt.';
COMMENT ON FUNCTION @extschema@.llm_generate(bigint[], integer, double precision, double precision, integer,
    double precision, bigint, vllm.texts, bigint[], integer, boolean, vllm.json, text, integer, double precision,
    double precision, double precision, vllm.json, text[], bigint[], vllm.json, text, text[], text, integer, text,
    integer, text, text) IS
    'Generates a continuation of a prompt of token ids.';
COMMENT ON FUNCTION @extschema@.llm_generate_full(text, integer, double precision, double precision,
    integer, double precision, bigint, vllm.texts, bigint[], integer, boolean, vllm.json, text, integer, double
    precision, double precision, double precision, vllm.json, text[], bigint[], vllm.json, text, text[], text,
    integer, text, integer, text, text) IS
    'Generates a continuation of a prompt, with tokens, finish reason, usage and timings.';
COMMENT ON FUNCTION @extschema@.llm_generate_full(bigint[], integer, double precision, double precision,
    integer, double precision, bigint, vllm.texts, bigint[], integer, boolean, vllm.json, text, integer, double
    precision, double precision, double precision, vllm.json, text[], bigint[], vllm.json, text, text[], text,
    integer, text, integer, text, text) IS
    'Generates a continuation of a prompt of token ids, with tokens, finish reason, usage and timings.';
COMMENT ON FUNCTION @extschema@.llm_generate_stream(text, integer, double precision, double precision,
    integer, double precision, bigint, vllm.texts, bigint[], integer, boolean, vllm.json, text, integer, double
    precision, double precision, double precision, vllm.json, text[], bigint[], vllm.json, text, text[], text,
    integer, text, integer, integer, text) IS
    'Generates a continuation of a prompt and returns rows as tokens arrive.';
COMMENT ON FUNCTION @extschema@.llm_generate_stream(bigint[], integer, double precision, double precision,
    integer, double precision, bigint, vllm.texts, bigint[], integer, boolean, vllm.json, text, integer, double
    precision, double precision, double precision, vllm.json, text[], bigint[], vllm.json, text, text[], text,
    integer, text, integer, integer, text) IS
    'Generates a continuation of a prompt of token ids and returns rows as tokens arrive.';
COMMENT ON FUNCTION @extschema@.llm_chat(vllm.json, integer, double precision, double precision, integer, double
    precision, bigint, vllm.texts, bigint[], integer, boolean, vllm.json, text, integer, vllm.json, text, vllm.json, boolean,
    boolean, vllm.json, text, double precision, double precision, double precision, vllm.json, text[], bigint[],
    vllm.json, text, text[], text, integer, text, integer, vllm.json, boolean, boolean, text, integer, text, text) IS
    'Generates the assistant''s message of a chat.';
COMMENT ON FUNCTION @extschema@.llm_chat_text(vllm.json, integer, double precision, double precision, integer,
    double precision, bigint, vllm.texts, bigint[], integer, boolean, vllm.json, text, integer, vllm.json, text, vllm.json,
    boolean, boolean, vllm.json, text, double precision, double precision, double precision, vllm.json, text[],
    bigint[], vllm.json, text, text[], text, integer, text, integer, vllm.json, boolean, boolean, text, integer,
    text, text) IS
    'Generates the assistant''s message of a chat and returns its content.';
COMMENT ON FUNCTION @extschema@.llm_chat_stream(vllm.json, integer, double precision, double precision, integer,
    double precision, bigint, vllm.texts, bigint[], integer, boolean, vllm.json, text, integer, vllm.json, text, vllm.json,
    boolean, boolean, vllm.json, text, double precision, double precision, double precision, vllm.json, text[],
    bigint[], vllm.json, text, text[], text, integer, text, integer, vllm.json, boolean, boolean, text, integer,
    integer, text) IS
    'Generates the assistant''s message of a chat and returns rows as tokens arrive.';
COMMENT ON FUNCTION @extschema@.llm_ask(text, text, integer, double precision, double precision, integer,
    double precision, bigint, vllm.texts, bigint[], integer, boolean, vllm.json, text, integer, text, vllm.json, double
    precision, double precision, double precision, vllm.json, text[], bigint[], vllm.json, text, text[], text,
    integer, text, integer, text, text) IS
    'Generates the assistant''s content for one user message and an optional system message.';
COMMENT ON FUNCTION @extschema@.llm_render_chat(vllm.json, vllm.json, text, vllm.json, boolean, boolean, vllm.json, text, text) IS
    'Renders messages through a chat template, without generating.';
COMMENT ON FUNCTION @extschema@.llm_tokenize_chat(vllm.json, vllm.json, text, vllm.json, boolean, boolean, vllm.json, text,
    text) IS
    'Tokens of messages rendered through a chat template.';
COMMENT ON FUNCTION vllm.chat_agg_step(internal, text, text) IS 'Transition function of llm_chat_agg.';
COMMENT ON FUNCTION vllm.chat_agg_final(internal) IS 'Final function of llm_chat_agg.';
COMMENT ON AGGREGATE @extschema@.llm_chat_agg(text, text) IS
    'Aggregates rows of role and content into a JSON array of messages.';
COMMENT ON FUNCTION @extschema@.llm_submit(text, integer, double precision, double precision, integer,
    double precision, bigint, vllm.texts, bigint[], integer, boolean, vllm.json, text, integer, double precision,
    double precision, double precision, vllm.json, text[], bigint[], vllm.json, text, text[], text, integer, text,
    integer, text, text) IS
    'Starts a generate request and returns its id at once.';
COMMENT ON FUNCTION @extschema@.llm_submit(bigint[], integer, double precision, double precision, integer,
    double precision, bigint, vllm.texts, bigint[], integer, boolean, vllm.json, text, integer, double precision,
    double precision, double precision, vllm.json, text[], bigint[], vllm.json, text, text[], text, integer, text,
    integer, text, text) IS
    'Starts a generate request and returns its id at once, for a prompt of token ids.';
COMMENT ON FUNCTION @extschema@.llm_submit_chat(vllm.json, integer, double precision, double precision, integer,
    double precision, bigint, vllm.texts, bigint[], integer, boolean, vllm.json, text, integer, vllm.json, text, vllm.json,
    boolean, boolean, vllm.json, text, double precision, double precision, double precision, vllm.json, text[],
    bigint[], vllm.json, text, text[], text, integer, text, integer, vllm.json, boolean, boolean, text, integer,
    text, text) IS
    'Starts a chat request and returns its id at once.';
COMMENT ON FUNCTION @extschema@.llm_poll(bigint) IS 'Whether a submitted request has ended; never waits.';
COMMENT ON FUNCTION @extschema@.llm_result(bigint) IS 'Waits for a submitted request and returns its text.';
COMMENT ON FUNCTION @extschema@.llm_wait(bigint[], integer) IS
    'Waits until all given requests have ended; false after timeout_ms.';
COMMENT ON FUNCTION @extschema@.llm_discard(bigint) IS
    'Cancels and forgets a submitted request; false if there is none.';
COMMENT ON FUNCTION vllm.future_list() IS 'Rows of llm_futures.';
COMMENT ON VIEW @extschema@.llm_futures IS
    'Requests submitted by this session that the current role may use.';
COMMENT ON COLUMN @extschema@.llm_futures.id IS 'Id of the request.';
COMMENT ON COLUMN @extschema@.llm_futures.state IS 'running, finished or failed.';
COMMENT ON COLUMN @extschema@.llm_futures.model IS 'Name of the model.';
COMMENT ON COLUMN @extschema@.llm_futures.submitted IS 'Time of submission.';
COMMENT ON FUNCTION @extschema@.llm_generate_batch(text[], integer, double precision, double precision,
    integer, double precision, bigint, vllm.texts, bigint[], integer, boolean, vllm.json, text, integer, double
    precision, double precision, double precision, vllm.json, text[], bigint[], vllm.json, text, text[], text,
    integer, text, integer, text, text) IS
    'Generates continuations of an array of prompts in one batch.';
COMMENT ON FUNCTION @extschema@.llm_generate_query(text, name, integer, double precision, double precision,
    integer, double precision, bigint, vllm.texts, bigint[], integer, boolean, vllm.json, text, integer, double
    precision, double precision, double precision, vllm.json, text[], bigint[], vllm.json, text, text[], text,
    integer, text, integer, text, text) IS
    'Generates a continuation for each row of a query given as text.';
COMMENT ON FUNCTION vllm.progress_list() IS 'Rows of llm_progress.';
COMMENT ON VIEW @extschema@.llm_progress IS
    'Progress of statements with batched requests, one row per backend.';
COMMENT ON COLUMN @extschema@.llm_progress.pid IS 'Process id of the backend.';
COMMENT ON COLUMN @extschema@.llm_progress.database IS 'Database of the backend.';
COMMENT ON COLUMN @extschema@.llm_progress.role IS 'Role of the backend.';
COMMENT ON COLUMN @extschema@.llm_progress.started IS 'Time of the statement''s first request.';
COMMENT ON COLUMN @extschema@.llm_progress.rows_done IS 'Rows returned by LLM Batch nodes.';
COMMENT ON COLUMN @extschema@.llm_progress.in_flight IS 'Requests in flight.';
COMMENT ON COLUMN @extschema@.llm_progress.requests IS 'Requests sent.';
COMMENT ON COLUMN @extschema@.llm_progress.deduplicated IS 'Rows served by the request of an equal row.';
COMMENT ON COLUMN @extschema@.llm_progress.prompt_tokens IS 'Prompt tokens of finished requests.';
COMMENT ON COLUMN @extschema@.llm_progress.output_tokens IS 'Generated tokens of finished requests.';
COMMENT ON COLUMN @extschema@.llm_progress.rows_per_s IS 'Rows per second since started.';
COMMENT ON COLUMN @extschema@.llm_progress.tokens_per_s IS 'Generated tokens per second since started.';
COMMENT ON FUNCTION @extschema@.llm_tokenize(text, boolean, text) IS 'Token ids of a text.';
COMMENT ON FUNCTION @extschema@.llm_detokenize(bigint[], boolean, text) IS 'Text of token ids.';
COMMENT ON FUNCTION @extschema@.llm_count_tokens(text, text, boolean) IS 'Number of tokens of a text.';
COMMENT ON TYPE @extschema@.llm_logprob IS 'Log-probability of one token at one position.';
COMMENT ON COLUMN @extschema@.llm_logprob.pos IS 'Position of the token, from 0.';
COMMENT ON COLUMN @extschema@.llm_logprob.token_id IS 'Id of the token.';
COMMENT ON COLUMN @extschema@.llm_logprob.token IS 'Text of the token.';
COMMENT ON COLUMN @extschema@.llm_logprob.bytes IS 'Bytes of the token.';
COMMENT ON COLUMN @extschema@.llm_logprob.logprob IS 'Natural logarithm of the probability.';
COMMENT ON COLUMN @extschema@.llm_logprob.rank IS
    'Rank among all tokens of the vocabulary, 1 is the most likely.';
COMMENT ON COLUMN @extschema@.llm_logprob.chosen IS 'Whether this token is the one in the text.';
COMMENT ON TYPE @extschema@.llm_completion IS 'One of several completions of a prompt.';
COMMENT ON COLUMN @extschema@.llm_completion.prompt_index IS 'Number of the prompt, from 0.';
COMMENT ON COLUMN @extschema@.llm_completion.index IS 'Number of the completion, from 0.';
COMMENT ON COLUMN @extschema@.llm_completion.text IS 'Generated text or content.';
COMMENT ON COLUMN @extschema@.llm_completion.reasoning IS 'Reasoning of a chat completion.';
COMMENT ON COLUMN @extschema@.llm_completion.tool_calls IS 'Tool calls of a chat completion.';
COMMENT ON COLUMN @extschema@.llm_completion.token_ids IS 'Generated tokens.';
COMMENT ON COLUMN @extschema@.llm_completion.finish_reason IS 'Why generation ended.';
COMMENT ON COLUMN @extschema@.llm_completion.stop_reason IS 'Stop string or id of the stop token.';
COMMENT ON COLUMN @extschema@.llm_completion.cumulative_logprob IS
    'Sum of the log-probabilities of the generated tokens.';
COMMENT ON COLUMN @extschema@.llm_completion.logprobs IS 'Log-probabilities of the generated tokens.';
COMMENT ON TYPE @extschema@.llm_output IS 'All completions of a prompt with usage and metrics.';
COMMENT ON COLUMN @extschema@.llm_output.request_id IS 'Always NULL; exists for compatibility with vLLM.';
COMMENT ON COLUMN @extschema@.llm_output.prompt_index IS 'Number of the prompt, from 0.';
COMMENT ON COLUMN @extschema@.llm_output.prompt IS 'The prompt.';
COMMENT ON COLUMN @extschema@.llm_output.prompt_token_ids IS 'Tokens of the prompt.';
COMMENT ON COLUMN @extschema@.llm_output.prompt_logprobs IS 'Log-probabilities of the prompt''s tokens.';
COMMENT ON COLUMN @extschema@.llm_output.completions IS 'The completions.';
COMMENT ON COLUMN @extschema@.llm_output.usage IS 'Token counts.';
COMMENT ON COLUMN @extschema@.llm_output.metrics IS 'Durations in ms and the number of preemptions.';
COMMENT ON COLUMN @extschema@.llm_output.model IS 'Name of the model.';
COMMENT ON COLUMN @extschema@.llm_output.lora IS 'Name of the LoRA adapter; NULL if none.';
COMMENT ON COLUMN @extschema@.llm_output.finished IS 'Whether the request has finished.';
COMMENT ON TYPE @extschema@.llm_beam IS 'One hypothesis of a beam search.';
COMMENT ON COLUMN @extschema@.llm_beam.rank IS 'Rank of the hypothesis, 1 is the best.';
COMMENT ON COLUMN @extschema@.llm_beam.text IS 'Generated text.';
COMMENT ON COLUMN @extschema@.llm_beam.token_ids IS 'Generated tokens.';
COMMENT ON COLUMN @extschema@.llm_beam.cum_logprob IS 'Sum of the log-probabilities of the generated tokens.';
COMMENT ON COLUMN @extschema@.llm_beam.score IS 'Score after the length penalty.';
COMMENT ON COLUMN @extschema@.llm_beam.finish_reason IS 'Why generation ended.';
COMMENT ON FUNCTION @extschema@.llm_output(text, integer, integer, integer, bigint[], integer, double
    precision, double precision, integer, double precision, bigint, vllm.texts, bigint[], integer, boolean,
    vllm.json, text, integer, double precision, double precision, double precision, vllm.json, text[], bigint[],
    vllm.json, text, text[], text, integer, text, integer, text, text) IS
    'Generates n completions of a prompt as one value, with log-probabilities.';
COMMENT ON FUNCTION @extschema@.llm_output(bigint[], integer, integer, integer, bigint[], integer, double
    precision, double precision, integer, double precision, bigint, vllm.texts, bigint[], integer, boolean,
    vllm.json, text, integer, double precision, double precision, double precision, vllm.json, text[], bigint[],
    vllm.json, text, text[], text, integer, text, integer, text, text) IS
    'Generates n completions of a prompt of token ids as one value, with log-probabilities.';
COMMENT ON FUNCTION @extschema@.llm_completions(text, integer, integer, integer, bigint[], integer, double
    precision, double precision, integer, double precision, bigint, vllm.texts, bigint[], integer, boolean,
    vllm.json, text, integer, double precision, double precision, double precision, vllm.json, text[], bigint[],
    vllm.json, text, text[], text, integer, text, integer, text, text) IS
    'Generates n completions of a prompt as rows, with log-probabilities.';
COMMENT ON FUNCTION @extschema@.llm_completions(bigint[], integer, integer, integer, bigint[], integer, double
    precision, double precision, integer, double precision, bigint, vllm.texts, bigint[], integer, boolean,
    vllm.json, text, integer, double precision, double precision, double precision, vllm.json, text[], bigint[],
    vllm.json, text, text[], text, integer, text, integer, text, text) IS
    'Generates n completions of a prompt of token ids as rows, with log-probabilities.';
COMMENT ON FUNCTION @extschema@.llm_chat_full(vllm.json, integer, integer, integer, bigint[], integer, double
    precision, double precision, integer, double precision, bigint, vllm.texts, bigint[], integer, boolean,
    vllm.json, text, integer, vllm.json, text, vllm.json, boolean, boolean, vllm.json, text, double precision, double precision,
    double precision, vllm.json, text[], bigint[], vllm.json, text, text[], text, integer, text, integer, vllm.json,
    boolean, boolean, text, integer, text, text) IS
    'Generates n assistant messages of a chat as one value, with log-probabilities.';
COMMENT ON FUNCTION @extschema@.llm_chat_batch(vllm.json[], integer, integer, integer, bigint[], integer, double
    precision, double precision, integer, double precision, bigint, vllm.texts, bigint[], integer, boolean,
    vllm.json, text, integer, vllm.json, text, vllm.json, boolean, boolean, vllm.json, text, double precision, double precision,
    double precision, vllm.json, text[], bigint[], vllm.json, text, text[], text, integer, text, integer, vllm.json,
    boolean, boolean, text, integer, text, text) IS
    'Generates assistant messages of an array of chats in one batch.';
COMMENT ON FUNCTION @extschema@.llm_beams(text, integer, integer, boolean, double precision, double
    precision, boolean, vllm.json, text, integer, text, text) IS
    'Beam search for the most likely completions, as an array.';
COMMENT ON FUNCTION @extschema@.llm_beam_search(text, integer, integer, boolean, double precision, double
    precision, boolean, vllm.json, text, integer, text, text) IS
    'Beam search for the most likely completions, as rows.';
COMMENT ON FUNCTION @extschema@.llm_beam_search_batch(text[], integer, integer, boolean, double precision,
    double precision, boolean, vllm.json, text, integer, text, text) IS
    'Beam search over an array of prompts.';
COMMENT ON FUNCTION vllm.logprobs_json(@extschema@.llm_logprob[]) IS
    'Log-probabilities in the JSON form of OpenAI''s completions.';
COMMENT ON FUNCTION @extschema@.llm_output_json(@extschema@.llm_output) IS
    'JSON form of an llm_output, as OpenAI''s completions API has it.';
COMMENT ON FUNCTION @extschema@.llm_embeds_generate(double precision[], integer, double precision, double precision,
    integer, double precision, bigint, vllm.texts, bigint[], integer, boolean, vllm.json, text, integer, double
    precision, double precision, double precision, vllm.json, text[], bigint[], vllm.json, text, text[], text,
    integer, text, integer, text, text) IS
    'Generates a continuation of a prompt given as token embeddings.';
COMMENT ON FUNCTION @extschema@.llm_embeds_output(double precision[], integer, integer, bigint[], integer, double
    precision, double precision, integer, double precision, bigint, vllm.texts, bigint[], integer, boolean,
    vllm.json, text, integer, double precision, double precision, double precision, vllm.json, text[], bigint[],
    vllm.json, text, text[], text, integer, text, integer, text, text) IS
    'Generates n completions of a prompt given as token embeddings.';
COMMENT ON FUNCTION @extschema@.llm_token_embeddings(text, boolean, text) IS
    'Input embeddings of the tokens of a text.';
COMMENT ON FUNCTION @extschema@.llm_grammar_accepts(vllm.json, text) IS
    'Whether a text is a JSON document that is valid under a JSON schema.';
COMMENT ON FUNCTION @extschema@.llm_type_schema(regtype, boolean) IS 'JSON schema of an SQL type.';
COMMENT ON FUNCTION vllm.from_json(json, anyelement) IS 'Converts generated JSON to the SQL type of sample.';
COMMENT ON FUNCTION @extschema@.llm_generate_json(text, vllm.json, integer, double precision, double precision,
    integer, double precision, bigint, double precision, double precision, double precision, vllm.json, text,
    vllm.json, text, integer, integer, text, integer, text) IS
    'Generates JSON that is valid under a JSON schema.';
COMMENT ON FUNCTION @extschema@.llm_generate_as(text, anyelement, integer, double precision, double
    precision, integer, double precision, bigint, double precision, double precision, double precision,
    vllm.json, text, vllm.json, text, integer, integer, text, integer, text) IS
    'Generates a value of the SQL type of sample.';
COMMENT ON FUNCTION @extschema@.llm_extract(text, anyelement, text, integer, double precision, double
    precision, integer, double precision, bigint, double precision, double precision, double precision,
    vllm.json, text, vllm.json, text, integer, integer, text, integer, text, vllm.json, text) IS
    'Extracts a value of the SQL type of sample from a text.';
COMMENT ON FUNCTION @extschema@.llm_extract(text, json, text, integer, double precision, double precision,
    integer, double precision, bigint, double precision, double precision, double precision, vllm.json, text,
    vllm.json, text, integer, integer, text, integer, text, vllm.json, text) IS
    'Extracts JSON that is valid under a JSON schema from a text.';
COMMENT ON FUNCTION @extschema@.llm_extract(text, vllm.schema, text, integer, double precision, double precision,
    integer, double precision, bigint, double precision, double precision, double precision, vllm.json, text,
    vllm.json, text, integer, integer, text, integer, text, vllm.json, text) IS
    'Extracts JSON that is valid under a JSON schema from a text.';
COMMENT ON TYPE @extschema@.llm_reasoning IS 'Output of a model, split into reasoning and content.';
COMMENT ON COLUMN @extschema@.llm_reasoning.reasoning IS 'The reasoning.';
COMMENT ON COLUMN @extschema@.llm_reasoning.content IS 'The content after the reasoning.';
COMMENT ON FUNCTION @extschema@.llm_parse_tool_calls(text, text, vllm.json) IS
    'Splits output of a model into tool calls and content.';
COMMENT ON FUNCTION @extschema@.llm_parse_reasoning(text, text, vllm.json) IS
    'Splits output of a model into reasoning and content.';
COMMENT ON FUNCTION @extschema@.llm_tool(regprocedure) IS
    'Tool definition of an SQL function in OpenAI''s JSON form.';
COMMENT ON FUNCTION @extschema@.llm_call_tool(vllm.json, regprocedure[], boolean) IS
    'Executes one tool call with the SQL functions in tools.';
COMMENT ON FUNCTION @extschema@.llm_chat_run(vllm.json, regprocedure[], integer, boolean, integer, double
    precision, double precision, integer, double precision, bigint, vllm.texts, vllm.json, text, integer, text, vllm.json,
    double precision, double precision, double precision, vllm.json, integer, text, integer, vllm.json, boolean,
    boolean, text, bigint[], integer, boolean, text[], bigint[], vllm.json, text, vllm.json, text, text[], text,
    integer, text, text) IS
    'Runs a chat in which the model may call SQL functions as tools.';
COMMENT ON TYPE @extschema@.llm_label IS 'One label of a classifier.';
COMMENT ON COLUMN @extschema@.llm_label.index IS 'Number of the label, from 0.';
COMMENT ON COLUMN @extschema@.llm_label.label IS 'Name of the label.';
COMMENT ON COLUMN @extschema@.llm_label.prob IS 'Probability of the label.';
COMMENT ON TYPE @extschema@.llm_ranked IS 'One document ranked by relevance.';
COMMENT ON COLUMN @extschema@.llm_ranked.id IS 'Id of the document, as text.';
COMMENT ON COLUMN @extschema@.llm_ranked.relevance_score IS 'Relevance of the document to the query.';
COMMENT ON COLUMN @extschema@.llm_ranked.document IS 'The document.';
COMMENT ON TYPE vllm.token_scores IS 'Labels, scores and character offsets of a token classifier.';
COMMENT ON FUNCTION vllm.llm_pool_support(internal) IS
    'Planner support function of pooling functions: cost and rows of a call.';
COMMENT ON FUNCTION @extschema@.llm_embed(text, integer, boolean, text, text, integer, text, text, vllm.json,
    integer, text, text) IS
    'Embedding of a text.';
COMMENT ON FUNCTION @extschema@.llm_model_digest(text) IS
    'Digest of what a local model''s files hold and of the options by which its vectors differ.';
COMMENT ON FUNCTION @extschema@.llm_embed_pinned(text, text, text, integer, boolean, text, text, integer, text) IS
    'Embedding by the model with this digest and no other, for generated columns and indexes.';
COMMENT ON FUNCTION @extschema@.llm_embed_multi(text, integer, boolean, text, text, integer, text, text,
    vllm.json, integer, text, text) IS
    'Embeddings of all tokens of a text, one array row per token.';
COMMENT ON FUNCTION @extschema@.llm_embed_batch(text[], integer, boolean, text, text, integer, text, text,
    vllm.json, integer, text, text) IS
    'Embeddings of an array of texts, computed in one batch.';
COMMENT ON FUNCTION vllm.embedding_bytes(real[], text, text) IS
    'Embedding as bytes of a float type and byte order.';
COMMENT ON FUNCTION @extschema@.llm_embed_bytes(text, text, text, integer, boolean, text, text, integer,
    text, text, vllm.json, integer, text, text) IS
    'Embedding of a text as bytes.';
COMMENT ON FUNCTION @extschema@.llm_encode(text, text, integer, boolean, integer, bigint[], text, text,
    integer, text, text, vllm.json, integer, text, text) IS
    'Pooled output of a model for a text, for a given task.';
COMMENT ON FUNCTION @extschema@.llm_submit_embed(text, integer, boolean, text, text, integer, text, text,
    vllm.json, integer, text, text) IS
    'Starts an embedding request and returns its id at once.';
COMMENT ON FUNCTION @extschema@.llm_result_embedding(bigint) IS
    'Waits for a submitted embedding request and returns the embedding.';
COMMENT ON FUNCTION @extschema@.llm_similarity(text, text, text, vllm.json, integer, text, text) IS
    'Cosine similarity of the embeddings of two texts.';
COMMENT ON FUNCTION @extschema@.llm_score(text, text, boolean, text, integer, text, vllm.json, integer, text, text) IS
    'Relevance of a document to a query.';
COMMENT ON FUNCTION @extschema@.llm_score_batch(text, text[], boolean, text, integer, text, vllm.json, integer,
    text, text) IS
    'Relevance of each document of an array to a query.';
COMMENT ON FUNCTION @extschema@.llm_score_pairs(text[], text[], boolean, text, integer, text, vllm.json, integer,
    text, text) IS
    'Scores of pairs of texts of two arrays.';
COMMENT ON FUNCTION vllm.rerank_limit(integer) IS
    'Checks top_n and returns the number of rows for llm_rerank.';
COMMENT ON FUNCTION @extschema@.llm_rerank(text, text[], integer, boolean, text, integer, text, vllm.json,
    integer, text, text) IS
    'Documents of an array ordered by relevance to a query.';
COMMENT ON FUNCTION vllm.rerank_agg_step(internal, text, "any", text) IS
    'Transition function of llm_rerank_agg.';
COMMENT ON FUNCTION vllm.rerank_agg_step(internal, text, "any", text, integer) IS
    'Transition function of llm_rerank_agg.';
COMMENT ON FUNCTION vllm.rerank_agg_step(internal, text, "any", text, integer, text) IS
    'Transition function of llm_rerank_agg.';
COMMENT ON FUNCTION vllm.rerank_agg_combine(internal, internal) IS 'Combine function of llm_rerank_agg.';
COMMENT ON FUNCTION vllm.rerank_agg_write(internal) IS 'Serialization function of llm_rerank_agg.';
COMMENT ON FUNCTION vllm.rerank_agg_read(bytea, internal) IS 'Deserialization function of llm_rerank_agg.';
COMMENT ON FUNCTION vllm.rerank_agg_final(internal) IS 'Final function of llm_rerank_agg.';
COMMENT ON AGGREGATE @extschema@.llm_rerank_agg(text, "any", text) IS
    'Aggregates documents into an array ordered by relevance to a query.';
COMMENT ON AGGREGATE @extschema@.llm_rerank_agg(text, "any", text, integer) IS
    'Aggregates the top_n documents most relevant to a query.';
COMMENT ON AGGREGATE @extschema@.llm_rerank_agg(text, "any", text, integer, text) IS
    'Aggregates the top_n documents most relevant to a query, scored by a given model.';
COMMENT ON FUNCTION vllm.classify(text, boolean, integer, integer, text, vllm.json, integer, text, text) IS
    'Labels and probabilities of a classifier for a text, as an array.';
COMMENT ON FUNCTION @extschema@.llm_classify(text, boolean, integer, integer, text, vllm.json, integer, text, text) IS
    'Labels of a classifier for a text, the most probable first.';
COMMENT ON FUNCTION @extschema@.llm_classify(text, vllm.texts, text, text, boolean, text, integer, text, text) IS
    'One of the caller''s labels for a text, as judged by the model.';
COMMENT ON FUNCTION @extschema@.llm_class(text, integer, text, vllm.json, integer, text, text) IS
    'Most probable label of a classifier for a text.';
COMMENT ON FUNCTION @extschema@.llm_classify_probs(text, boolean, integer, text, vllm.json, integer, text, text) IS
    'Probabilities of all labels of a classifier, in the model''s order.';
COMMENT ON FUNCTION vllm.token_scores(text, text, integer, text, vllm.json, integer, text, text) IS
    'Labels, scores and offsets of a token classifier for a text.';
COMMENT ON FUNCTION vllm.token_labels(vllm.token_scores, text, text) IS
    'Groups token scores into labelled spans of a text.';
COMMENT ON FUNCTION @extschema@.llm_token_classify(text, text, integer, text, vllm.json, integer, text, text) IS
    'Labelled spans of a text found by a token classifier.';
COMMENT ON FUNCTION @extschema@.llm_reward(text, boolean, integer, text, vllm.json, integer, text, text) IS
    'Reward of a text.';
COMMENT ON FUNCTION @extschema@.llm_reward_tokens(text, boolean, integer, text, vllm.json, integer, text, text) IS
    'Reward of each token of a text.';
COMMENT ON FUNCTION @extschema@.llm_reward_steps(text, integer, bigint[], boolean, integer, text, vllm.json,
    integer, text, text) IS
    'Process rewards at each step tag of a text.';
COMMENT ON TYPE @extschema@.llm_choice IS 'One label of llm_choice_probs.';
COMMENT ON COLUMN @extschema@.llm_choice.label IS 'The label.';
COMMENT ON COLUMN @extschema@.llm_choice.logprob IS 'Log-probability of the label after the prompt.';
COMMENT ON COLUMN @extschema@.llm_choice.prob IS 'Probability among the labels.';
COMMENT ON TYPE vllm.loglikelihood IS 'Log-likelihood of a continuation.';
COMMENT ON FUNCTION vllm.llm_choose_support(internal) IS
    'Planner support function of llm_choose and llm_filter: cost and selectivity.';
COMMENT ON FUNCTION @extschema@.llm_choose(text, text[], text, boolean, text, integer, text, text) IS
    'Zero-shot classification: the most probable of the labels after a prompt.';
COMMENT ON FUNCTION vllm.choices(text, text[], text, boolean, text, integer, text, text) IS
    'Labels with log-probabilities, as an array.';
COMMENT ON FUNCTION @extschema@.llm_choice_probs(text, text[], text, boolean, text, integer, text, text) IS
    'Zero-shot classification: all labels with log-probabilities and probabilities.';
COMMENT ON FUNCTION @extschema@.llm_filter(text, text, double precision, text, text, boolean, integer, text,
    text) IS
    'Whether an instruction holds for a text, as judged by the model.';
COMMENT ON FUNCTION @extschema@.llm_filter_prob(text, text, text, text, boolean, integer, text, text) IS
    'Probability that an instruction holds for a text.';
COMMENT ON FUNCTION vllm.loglikelihood(text, text, text, integer, text, text) IS
    'Log-likelihood of a continuation, as one value.';
COMMENT ON FUNCTION @extschema@.llm_loglikelihood(text, text, text, integer, text, text) IS
    'Log-likelihood of a continuation after a context.';
COMMENT ON FUNCTION @extschema@.llm_perplexity(text, text, integer, text, text) IS 'Perplexity of a text.';
COMMENT ON FUNCTION @extschema@.llm_format(text, VARIADIC "any") IS
    'Replaces {0}, {1}, ... in a template by the arguments.';
COMMENT ON FUNCTION @extschema@.llm_format(text) IS 'Replaces {0}, {1}, ... in a template by the arguments.';
COMMENT ON FUNCTION @extschema@.llm_fit_cascade(double precision[], boolean[], double precision, double
    precision) IS
    'Threshold for the cascade option of a model, fitted on a sample.';
COMMENT ON FUNCTION @extschema@.llm_fit_filter(double precision[], boolean[], double precision, double
    precision, double precision) IS
    'Thresholds for the cascade option with llm_filter, fitted on a sample.';
COMMENT ON FUNCTION vllm.chunk_spans(text, text, integer, integer, text) IS
    'Character and token offsets of the chunks of a text.';
COMMENT ON FUNCTION vllm.chunk_rows(text, integer[]) IS 'Rows of llm_chunk_text from offsets.';
COMMENT ON FUNCTION @extschema@.llm_chunk_text(text, text, integer, integer, text) IS
    'Splits a text into chunks of at most size tokens.';
COMMENT ON FUNCTION @extschema@.llm_cosine_distance(real[], real[]) IS 'Cosine distance of two vectors.';
COMMENT ON FUNCTION @extschema@.llm_cosine_distance(vllm.doubles, vllm.doubles) IS 'Cosine distance of two vectors.';
COMMENT ON FUNCTION @extschema@.llm_l2_distance(real[], real[]) IS 'Euclidean distance of two vectors.';
COMMENT ON FUNCTION @extschema@.llm_l2_distance(vllm.doubles, vllm.doubles) IS 'Euclidean distance of two vectors.';
COMMENT ON FUNCTION @extschema@.llm_inner_product(real[], real[]) IS 'Inner product of two vectors.';
COMMENT ON FUNCTION @extschema@.llm_inner_product(vllm.doubles, vllm.doubles) IS 'Inner product of two vectors.';
COMMENT ON FUNCTION @extschema@.llm_similarity(real[], real[]) IS 'Cosine similarity of two vectors.';
COMMENT ON FUNCTION @extschema@.llm_similarity(vllm.doubles, vllm.doubles) IS 'Cosine similarity of two vectors.';
COMMENT ON FUNCTION @extschema@.llm_binary_quantize(real[]) IS
    'One bit per dimension of a vector: 1 where the number is positive.';
COMMENT ON FUNCTION @extschema@.llm_binary_quantize(vllm.doubles) IS
    'One bit per dimension of a vector: 1 where the number is positive.';
COMMENT ON FUNCTION @extschema@.llm_nearest(real[], regclass, name, integer, text, text, name, integer) IS
    'Exact nearest-neighbour search for a vector: distances and row ids.';
COMMENT ON FUNCTION @extschema@.llm_nearest(vllm.doubles, regclass, name, integer, text, text, name, integer) IS
    'Exact nearest-neighbour search for a vector: distances and row ids.';
COMMENT ON FUNCTION @extschema@.llm_nearest_rows(anyelement, real[], name, integer, text, text, name,
    integer) IS
    'Exact nearest-neighbour search for a vector: rows of the table.';
COMMENT ON FUNCTION @extschema@.llm_nearest_rows(anyelement, vllm.doubles, name, integer, text, text, name,
    integer) IS
    'Exact nearest-neighbour search for a vector: rows of the table.';
COMMENT ON FUNCTION vllm.nearest_rows(anyelement, real[], name, integer, text, text, name, integer) IS
    'Implementation of llm_nearest_rows.';
COMMENT ON FUNCTION @extschema@.llm_nearest(text, regclass, name, integer, text, text, name, integer, text,
    text, text, text) IS
    'Exact nearest-neighbour search for the embedding of a text: distances and row ids.';
COMMENT ON FUNCTION vllm.embed_query(text, text, text, text, text) IS
    'Embeds the query text of a nearest-neighbour search.';
COMMENT ON FUNCTION @extschema@.llm_nearest_rows(anyelement, text, name, integer, text, text, name, integer,
    text, text, text, text) IS
    'Exact nearest-neighbour search for the embedding of a text: rows of the table.';
COMMENT ON FUNCTION vllm.reduce(text[], text, text, boolean, integer, double precision, double precision,
    integer, double precision, bigint, vllm.texts, bigint[], integer, boolean, vllm.json, text, integer, text, vllm.json,
    double precision, double precision, double precision, vllm.json, text[], bigint[], vllm.json, text, text[], text,
    integer, text, integer, text, text) IS
    'Implementation of llm_reduce.';
COMMENT ON FUNCTION vllm.reduce_texts(text[]) IS
    'Texts of an array without NULLs, in one dimension; NULL if none is left.';
COMMENT ON FUNCTION @extschema@.llm_reduce(text[], text, text, boolean, integer, double precision, double
    precision, integer, double precision, bigint, vllm.texts, bigint[], integer, boolean, vllm.json, text, integer,
    text, vllm.json, double precision, double precision, double precision, vllm.json, text[], bigint[], vllm.json, text,
    text[], text, integer, text, integer, text, text) IS
    'Applies an instruction to many texts, in levels where they exceed the context.';
COMMENT ON FUNCTION vllm.agg_step(internal, text, text) IS 'Transition function of llm_agg.';
COMMENT ON FUNCTION vllm.agg_step(internal, text, text, vllm.json) IS 'Transition function of llm_agg.';
COMMENT ON FUNCTION vllm.summarize_step(internal, text) IS 'Transition function of llm_summarize_agg.';
COMMENT ON FUNCTION vllm.summarize_step(internal, text, vllm.json) IS 'Transition function of llm_summarize_agg.';
COMMENT ON FUNCTION vllm.agg_combine(internal, internal) IS
    'Combine function of llm_agg and llm_summarize_agg.';
COMMENT ON FUNCTION vllm.agg_serial(internal) IS 'Serialization function of llm_agg and llm_summarize_agg.';
COMMENT ON FUNCTION vllm.agg_deserial(bytea, internal) IS
    'Deserialization function of llm_agg and llm_summarize_agg.';
COMMENT ON FUNCTION vllm.agg_final(internal) IS 'Final function of llm_agg and llm_summarize_agg.';
COMMENT ON AGGREGATE @extschema@.llm_agg(text, text) IS
    'Aggregate: applies an instruction to all texts of a group.';
COMMENT ON AGGREGATE @extschema@.llm_agg(text, text, vllm.json) IS
    'Aggregate: applies an instruction to all texts of a group, with options.';
COMMENT ON AGGREGATE @extschema@.llm_summarize_agg(text) IS 'Aggregate: summarizes all texts of a group.';
COMMENT ON AGGREGATE @extschema@.llm_summarize_agg(text, vllm.json) IS
    'Aggregate: summarizes all texts of a group, with options.';
COMMENT ON TABLE vllm.job IS 'Embedding and completion jobs.';
COMMENT ON SEQUENCE vllm.job_id_seq IS 'Ids of jobs.';
COMMENT ON TABLE vllm.job_queue IS 'Rows of job sources whose input has changed.';
COMMENT ON SEQUENCE vllm.job_queue_id_seq IS 'Upper bits of ids in vllm.job_queue.';
COMMENT ON TABLE vllm.job_failure IS 'Rows that a job has given up after max_attempts.';
COMMENT ON TABLE vllm.job_stat IS 'Counters and backfill position of each job.';
COMMENT ON FUNCTION vllm.job_wake() IS 'Trigger function that wakes the job worker when vllm.job changes.';
COMMENT ON FUNCTION vllm.job_changed() IS 'Trigger function on job sources that queues changed rows.';
COMMENT ON FUNCTION vllm.job_ddl() IS 'Event trigger function that keeps jobs consistent with DDL.';
COMMENT ON EVENT TRIGGER vllm_job_drop IS 'Removes or fails jobs whose objects are dropped.';
COMMENT ON EVENT TRIGGER vllm_job_ddl IS 'Updates jobs whose source or target is altered.';
COMMENT ON FUNCTION @extschema@.llm_create_embedding_job(regclass, text, name, text, text, text, integer,
    integer, integer, text, text, vllm.json, name[], text, name, text, integer) IS
    'Creates a job that keeps embeddings of a table''s rows up to date.';
COMMENT ON FUNCTION @extschema@.llm_create_completion_job(regclass, text, name, integer, text, vllm.json, text,
    name, text, integer) IS
    'Creates a job that keeps generated text of a table''s rows up to date.';
COMMENT ON FUNCTION @extschema@.llm_alter_job(name, text, text, name[], text, text, integer, integer,
    integer, text, text, integer, vllm.json, integer, integer, integer, text, boolean, text) IS
    'Changes the options of a job.';
COMMENT ON FUNCTION @extschema@.llm_drop_job(name) IS 'Drops a job with its triggers and queue.';
COMMENT ON FUNCTION @extschema@.llm_pause_job(name) IS 'Pauses a job; changes are still queued.';
COMMENT ON FUNCTION @extschema@.llm_resume_job(name) IS 'Resumes a paused or failed job.';
COMMENT ON FUNCTION @extschema@.llm_retry_job(name, text[]) IS
    'Queues failed rows of a job again; returns their number.';
COMMENT ON FUNCTION @extschema@.llm_backfill_job(name, text) IS
    'Processes existing rows of a job''s source again.';
COMMENT ON FUNCTION @extschema@.llm_generate_trigger() IS
    'Row trigger function that generates a column from another one.';
COMMENT ON FUNCTION @extschema@.llm_embed_trigger() IS
    'Row trigger function that embeds a column into another one.';
COMMENT ON VIEW @extschema@.llm_jobs IS 'Jobs with their state, queue length and rate.';
COMMENT ON COLUMN @extschema@.llm_jobs.name IS 'Name of the job.';
COMMENT ON COLUMN @extschema@.llm_jobs.kind IS 'embedding or completion.';
COMMENT ON COLUMN @extschema@.llm_jobs.source IS 'Table whose rows are processed.';
COMMENT ON COLUMN @extschema@.llm_jobs.input IS 'SQL expression of the input.';
COMMENT ON COLUMN @extschema@.llm_jobs.target IS 'Column or table that receives the result.';
COMMENT ON COLUMN @extschema@.llm_jobs.model IS 'Name of the model.';
COMMENT ON COLUMN @extschema@.llm_jobs.owner IS 'Role as which the job runs.';
COMMENT ON COLUMN @extschema@.llm_jobs.state IS 'active, paused or failed.';
COMMENT ON COLUMN @extschema@.llm_jobs.queued IS 'Changed rows in the queue.';
COMMENT ON COLUMN @extschema@.llm_jobs.in_flight IS 'Rows that the worker is processing.';
COMMENT ON COLUMN @extschema@.llm_jobs.failed IS 'Rows given up after max_attempts.';
COMMENT ON COLUMN @extschema@.llm_jobs.done IS 'Rows processed since the job was created.';
COMMENT ON COLUMN @extschema@.llm_jobs.lag IS 'Age of the oldest change in the queue.';
COMMENT ON COLUMN @extschema@.llm_jobs.rate IS 'Rows per second, averaged over about ten seconds.';
COMMENT ON COLUMN @extschema@.llm_jobs.backfill IS 'missing or all while a backfill runs, then done.';
COMMENT ON COLUMN @extschema@.llm_jobs.backfill_rows IS 'Rows visited by the current or last backfill.';
COMMENT ON COLUMN @extschema@.llm_jobs.source_rows_estimate IS 'Estimated number of rows of the source.';
COMMENT ON COLUMN @extschema@.llm_jobs.last_error IS 'Why the job failed, or the last error of a row.';
COMMENT ON COLUMN @extschema@.llm_jobs.last_error_at IS 'Time of the last error.';
COMMENT ON COLUMN @extschema@.llm_jobs.last_done IS 'Time when a row was last processed.';
COMMENT ON COLUMN @extschema@.llm_jobs.created IS 'Time when the job was created.';
COMMENT ON COLUMN @extschema@.llm_jobs.priority IS 'Jobs of an owner with higher priority are served first.';
COMMENT ON COLUMN @extschema@.llm_jobs.batch_size IS 'Most rows in flight; NULL means vllm.job_batch_size.';
COMMENT ON COLUMN @extschema@.llm_jobs.schedule IS 'Time of day in which rows are started, as HH:MM-HH:MM.';
COMMENT ON VIEW @extschema@.llm_job_failures IS 'Rows that a job has given up, with the last error.';
COMMENT ON COLUMN @extschema@.llm_job_failures.name IS 'Name of the job.';
COMMENT ON COLUMN @extschema@.llm_job_failures.source IS 'Table of the row.';
COMMENT ON COLUMN @extschema@.llm_job_failures.key IS 'Primary key of the row.';
COMMENT ON COLUMN @extschema@.llm_job_failures.attempts IS 'Number of attempts.';
COMMENT ON COLUMN @extschema@.llm_job_failures.sqlstate IS 'SQLSTATE of the last error.';
COMMENT ON COLUMN @extschema@.llm_job_failures.message IS 'Message of the last error.';
COMMENT ON COLUMN @extschema@.llm_job_failures.failed IS 'Time of the last attempt.';
COMMENT ON FUNCTION @extschema@.llm_api(text, vllm.json, text) IS
    'Response of an endpoint of OpenAI''s or Anthropic''s API to a request body.';
COMMENT ON FUNCTION @extschema@.llm_api_stream(text, vllm.json, text) IS
    'Chunks of the streamed response of an endpoint to a request body.';
COMMENT ON FUNCTION @extschema@.v1_models() IS 'Endpoint /v1/models: models that the current role may use.';
COMMENT ON FUNCTION @extschema@.v1_tokenize(vllm.json) IS 'Endpoint /tokenize: tokens of a text or chat.';
COMMENT ON FUNCTION @extschema@.v1_detokenize(vllm.json) IS 'Endpoint /detokenize: text of tokens.';
COMMENT ON FUNCTION @extschema@.v1_completions(vllm.json) IS 'Endpoint /v1/completions of OpenAI''s API.';
COMMENT ON FUNCTION @extschema@.v1_completions_stream(vllm.json) IS
    'Endpoint /v1/completions of OpenAI''s API, streamed.';
COMMENT ON FUNCTION @extschema@.v1_chat_completions(vllm.json) IS
    'Endpoint /v1/chat/completions of OpenAI''s API.';
COMMENT ON FUNCTION @extschema@.v1_chat_completions_stream(vllm.json) IS
    'Endpoint /v1/chat/completions of OpenAI''s API, streamed.';
COMMENT ON FUNCTION @extschema@.v1_embeddings(vllm.json) IS 'Endpoint /v1/embeddings of OpenAI''s API.';
COMMENT ON FUNCTION @extschema@.v1_classify(vllm.json) IS 'Endpoint /classify: labels and probabilities.';
COMMENT ON FUNCTION @extschema@.v1_pooling(vllm.json) IS 'Endpoint /pooling: pooled output of a model.';
COMMENT ON FUNCTION @extschema@.v1_score(vllm.json) IS 'Endpoint /score: scores of pairs of texts.';
COMMENT ON FUNCTION @extschema@.v1_rerank(vllm.json) IS 'Endpoint /rerank: documents ordered by relevance.';
COMMENT ON FUNCTION @extschema@.v1_messages(vllm.json) IS 'Endpoint /v1/messages of Anthropic''s API.';
COMMENT ON FUNCTION @extschema@.v1_messages_stream(vllm.json) IS
    'Endpoint /v1/messages of Anthropic''s API, streamed.';
COMMENT ON FUNCTION @extschema@.v1_messages_count_tokens(vllm.json) IS
    'Endpoint /v1/messages/count_tokens of Anthropic''s API.';
COMMENT ON FUNCTION @extschema@.v1_responses(vllm.json) IS 'Endpoint /v1/responses of OpenAI''s API.';
COMMENT ON FUNCTION @extschema@.v1_responses_stream(vllm.json) IS
    'Endpoint /v1/responses of OpenAI''s API, streamed.';
COMMENT ON FUNCTION @extschema@.v1_responses_get(text) IS 'Stored response of /v1/responses by id.';
COMMENT ON FUNCTION @extschema@.v1_responses_cancel(text) IS
    'Endpoint /v1/responses/ID/cancel of OpenAI''s API.';
COMMENT ON TABLE vllm.response IS 'Stored responses of /v1/responses; each role sees its own.';
COMMENT ON FUNCTION @extschema@.llm_forget_responses(timestamp with time zone, text) IS
    'Deletes stored responses of the current role; returns their number.';
COMMENT ON FUNCTION vllm.store_response(json, json) IS 'Stores a response of /v1/responses.';
COMMENT ON FUNCTION vllm.api_status(json) IS 'HTTP status of a response body.';
COMMENT ON FUNCTION vllm.json_or_null(text) IS 'Text as JSON; NULL if it is not valid.';
COMMENT ON FUNCTION vllm.batch_refusal(text, text, json, bigint, text) IS
    'Error body for an invalid line of a batch file; NULL if the line is valid.';
COMMENT ON FUNCTION @extschema@.llm_run_batch(text, integer) IS
    'Runs the request bodies that a query returns.';
COMMENT ON FUNCTION @extschema@.llm_run_batch(regclass, integer) IS
    'Runs the request bodies in a table or view.';
COMMENT ON PROCEDURE @extschema@.llm_run_batch_table(regclass, regclass, integer) IS
    'Runs the request bodies in a table into another table, with commits; can be resumed.';
COMMENT ON FUNCTION @extschema@.llm_run_batch_file(text, text, text) IS
    'Runs a batch file in OpenAI''s format on the server.';
COMMENT ON TABLE vllm.api_key IS 'Hashes of API keys for the HTTP server.';
COMMENT ON FUNCTION @extschema@.llm_create_api_key(text, text, timestamp with time zone) IS
    'Creates an API key for the HTTP server and returns it once.';
COMMENT ON FUNCTION @extschema@.llm_revoke_api_key(text) IS 'Revokes an API key; false if it was not active.';
COMMENT ON FUNCTION vllm.http_login(bytea) IS 'Role of an API key, by the key''s hash.';
COMMENT ON VIEW @extschema@.llm_api_keys IS 'API keys of roles that the current role is a member of.';
COMMENT ON COLUMN @extschema@.llm_api_keys.name IS 'Name of the key.';
COMMENT ON COLUMN @extschema@.llm_api_keys.state IS 'active, expired, revoked or role dropped.';
COMMENT ON COLUMN @extschema@.llm_api_keys.role IS 'Role as which requests with the key run.';
COMMENT ON COLUMN @extschema@.llm_api_keys.created IS 'Time when the key was created.';
COMMENT ON COLUMN @extschema@.llm_api_keys.created_by IS 'Role that created the key.';
COMMENT ON COLUMN @extschema@.llm_api_keys.expires IS 'Time when the key expires; NULL means never.';
COMMENT ON COLUMN @extschema@.llm_api_keys.revoked IS 'Time when the key was revoked.';
COMMENT ON FUNCTION @extschema@.llm_reset_prefix_cache() IS 'Empties the prefix cache of all models.';
COMMENT ON FUNCTION @extschema@.llm_pin_prefix(text, text, text, integer, vllm.json, text) IS
    'Keeps the KV cache of a prompt''s prefix; returns its tokens.';
COMMENT ON FUNCTION @extschema@.llm_unpin_prefix(text, text, text, integer, vllm.json, text) IS
    'Unpins the prefix of a prompt; returns its tokens.';
COMMENT ON FUNCTION @extschema@.llm_unpin_prefix(bigint) IS
    'Unpins a row of llm_pinned_prefixes; false if there is none.';
COMMENT ON FUNCTION vllm.pin_list() IS 'Rows of llm_pinned_prefixes.';
COMMENT ON VIEW @extschema@.llm_pinned_prefixes IS 'Pinned prefixes of models of this database.';
COMMENT ON COLUMN @extschema@.llm_pinned_prefixes.id IS 'Id of the pin.';
COMMENT ON COLUMN @extschema@.llm_pinned_prefixes.model IS 'Name of the model.';
COMMENT ON COLUMN @extschema@.llm_pinned_prefixes.role IS 'Role that pinned the prefix.';
COMMENT ON COLUMN @extschema@.llm_pinned_prefixes.isolation IS
    'Scope in which requests share the prefix: role, database, or none for all.';
COMMENT ON COLUMN @extschema@.llm_pinned_prefixes.lora IS 'Name of the LoRA adapter; NULL if none.';
COMMENT ON COLUMN @extschema@.llm_pinned_prefixes.salted IS 'Whether the prefix has a cache_salt.';
COMMENT ON COLUMN @extschema@.llm_pinned_prefixes.tokens IS 'Tokens of the pinned blocks.';
COMMENT ON COLUMN @extschema@.llm_pinned_prefixes.bytes IS 'Bytes of KV cache of the pinned blocks.';
COMMENT ON COLUMN @extschema@.llm_pinned_prefixes.pinned_at IS 'Time when the prefix was pinned.';
COMMENT ON FUNCTION @extschema@.llm_cancel(bigint) IS
    'Cancels a request of llm_requests; false if there is none.';
COMMENT ON FUNCTION @extschema@.llm_engine_restart() IS 'Restarts the engine process; running calls fail.';
COMMENT ON FUNCTION @extschema@.llm_engine_upgrade(integer) IS
    'Replaces the engine process by a new one without failing calls.';
COMMENT ON FUNCTION @extschema@.llm_help(text) IS 'Functions and views of a topic, or of all topics, with description and example.';
COMMENT ON FUNCTION @extschema@.llm_version() IS 'Versions of extension and engine, and the engine''s state.';
COMMENT ON FUNCTION vllm.control(text) IS 'Sends a diagnostic command to the engine.';
COMMENT ON FUNCTION vllm.requests() IS 'Rows of llm_requests.';
COMMENT ON VIEW @extschema@.llm_requests IS 'Requests that are in the engine now.';
COMMENT ON COLUMN @extschema@.llm_requests.id IS 'Id of the request.';
COMMENT ON COLUMN @extschema@.llm_requests.pid IS 'Process id of the backend.';
COMMENT ON COLUMN @extschema@.llm_requests.database IS 'Database of the backend.';
COMMENT ON COLUMN @extschema@.llm_requests.role IS 'Role of the request.';
COMMENT ON COLUMN @extschema@.llm_requests.model IS 'Name of the model.';
COMMENT ON COLUMN @extschema@.llm_requests.kind IS 'generate, tokenize, load model and others.';
COMMENT ON COLUMN @extschema@.llm_requests.state IS
    'sending, loading model, waiting, running, preempted, finished or cancelling.';
COMMENT ON COLUMN @extschema@.llm_requests.arrival IS 'Time of arrival.';
COMMENT ON COLUMN @extschema@.llm_requests.age IS 'Time since arrival.';
COMMENT ON COLUMN @extschema@.llm_requests.prompt_tokens IS 'Tokens of the prompt.';
COMMENT ON COLUMN @extschema@.llm_requests.computed_tokens IS 'Tokens computed so far.';
COMMENT ON COLUMN @extschema@.llm_requests.cached_tokens IS 'Prompt tokens found in the prefix cache.';
COMMENT ON COLUMN @extschema@.llm_requests.output_tokens IS 'Generated tokens so far.';
COMMENT ON COLUMN @extschema@.llm_requests.preemptions IS 'Number of preemptions.';
COMMENT ON COLUMN @extschema@.llm_requests.ttft_ms IS 'Time to the first token in ms.';
COMMENT ON COLUMN @extschema@.llm_requests.lora IS 'Name of the LoRA adapter; NULL if none.';
COMMENT ON COLUMN @extschema@.llm_requests.priority IS 'Priority; lower values are served first.';
COMMENT ON COLUMN @extschema@.llm_requests.traceparent IS 'W3C trace context of the request.';
COMMENT ON FUNCTION vllm.engine_stats() IS 'Row of llm_stat_engine.';
COMMENT ON VIEW @extschema@.llm_stat_engine IS 'State and counters of the engine process, one row.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.state IS
    'down, starting, loading, ready, draining, backoff or failed.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.pid IS 'Process id of the engine.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.epoch IS 'Number of the engine process.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.restarts IS 'Restarts after a failure.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.started IS 'Time when the engine started.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.last_error IS 'Why the last engine failed.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.last_error_at IS 'Time when the last engine failed.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.slots_total IS 'Request slots.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.slots_free IS 'Free request slots.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.zombies IS
    'Slots closed by the backend and not yet by the engine.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.slot_waiters IS 'Backends that wait for a slot.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.claims IS 'Slots claimed since the server started.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.cancels IS 'Requests cancelled since the server started.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.queue_timeouts IS
    'Calls that got no slot within vllm.queue_timeout.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.isa IS 'Instruction set of the CPU kernels.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.threads IS 'Compute threads.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.steps IS 'Engine steps.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.avg_batch IS 'Mean number of sequences per step.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.max_batch IS 'Largest number of sequences in a step.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.avg_rows IS 'Mean number of tokens per step.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.step_ms IS 'Time of all steps in ms.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.tokens_per_s IS 'Generated tokens per second of step time.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.requests IS 'Requests since the engine started.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.finished IS 'Requests that finished.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.failed IS 'Requests that failed.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.cancelled IS 'Requests that were cancelled.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.prompt_tokens IS 'Prompt tokens.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.cached_tokens IS 'Prompt tokens found in the prefix cache.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.output_tokens IS 'Generated tokens.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.preemptions IS 'Preemptions.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.running IS 'Requests that are running.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.waiting IS 'Requests that are queued.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.kv_blocks_total IS 'Blocks of the KV caches of all models.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.kv_blocks_used IS 'Blocks of the KV caches in use.';
COMMENT ON COLUMN @extschema@.llm_stat_engine.engine_rss IS 'Resident memory of the engine process in bytes.';
COMMENT ON FUNCTION vllm.devices() IS 'Rows of llm_devices.';
COMMENT ON VIEW @extschema@.llm_compatibility IS 'Features that go together in one request, and those that do not.';
COMMENT ON COLUMN @extschema@.llm_compatibility.feature IS 'Feature.';
COMMENT ON COLUMN @extschema@.llm_compatibility.other IS 'Another feature.';
COMMENT ON COLUMN @extschema@.llm_compatibility.supported IS 'Whether a request can have both.';
COMMENT ON COLUMN @extschema@.llm_compatibility.note IS 'Why not.';
COMMENT ON VIEW @extschema@.llm_quantization_support IS 'Quantized checkpoints that load, and what their matrices are in memory.';
COMMENT ON COLUMN @extschema@.llm_quantization_support.method IS 'Method, as llm_inspect_model has it in quantization.';
COMMENT ON COLUMN @extschema@.llm_quantization_support.format IS 'Format of the method.';
COMMENT ON COLUMN @extschema@.llm_quantization_support.cpu IS 'Types of the matrices on CPUs.';
COMMENT ON COLUMN @extschema@.llm_quantization_support.cuda IS 'Types of the matrices on CUDA devices.';
COMMENT ON VIEW @extschema@.llm_devices IS 'Devices that the engine uses or could use.';
COMMENT ON COLUMN @extschema@.llm_devices.device IS 'Number of the device.';
COMMENT ON COLUMN @extschema@.llm_devices.kind IS 'Kind of device, such as cpu or cuda.';
COMMENT ON COLUMN @extschema@.llm_devices.name IS 'Name of the device.';
COMMENT ON COLUMN @extschema@.llm_devices.isa IS 'Instruction set of the CPU kernels.';
COMMENT ON COLUMN @extschema@.llm_devices.cpus IS 'CPUs of the machine.';
COMMENT ON COLUMN @extschema@.llm_devices.usable_cpus IS 'CPUs that the engine may use.';
COMMENT ON COLUMN @extschema@.llm_devices.threads IS 'Compute threads of the engine.';
COMMENT ON COLUMN @extschema@.llm_devices.memory_total IS 'Memory of the device in bytes.';
COMMENT ON COLUMN @extschema@.llm_devices.memory_available IS 'Free memory of the device in bytes.';
COMMENT ON COLUMN @extschema@.llm_devices.engine_bytes IS
    'Memory of the device that the engine uses in bytes.';
COMMENT ON COLUMN @extschema@.llm_devices.compute_capability IS 'CUDA compute capability.';
COMMENT ON COLUMN @extschema@.llm_devices.multiprocessors IS 'Multiprocessors of a GPU.';
COMMENT ON COLUMN @extschema@.llm_devices.driver IS 'Version of the GPU driver.';
COMMENT ON COLUMN @extschema@.llm_devices.uuid IS 'UUID of the GPU.';
COMMENT ON COLUMN @extschema@.llm_devices.usable IS 'Whether the engine can use the device.';
COMMENT ON COLUMN @extschema@.llm_devices.rank IS 'Rank of the process that uses the device.';
COMMENT ON COLUMN @extschema@.llm_devices.note IS 'Why the device is not usable, or another remark.';
COMMENT ON FUNCTION @extschema@.llm_top(integer) IS 'Dashboard of the engine for psql''s \watch.';
COMMENT ON FUNCTION vllm.stat_list(boolean) IS 'Rows of llm_stat_query and llm_stat_role.';
COMMENT ON VIEW @extschema@.llm_stat_query IS
    'Request statistics by role, database, query, model and LoRA adapter.';
COMMENT ON COLUMN @extschema@.llm_stat_query.userid IS 'OID of the role.';
COMMENT ON COLUMN @extschema@.llm_stat_query.dbid IS 'OID of the database.';
COMMENT ON COLUMN @extschema@.llm_stat_query.queryid IS 'Query identifier; NULL if none is computed.';
COMMENT ON COLUMN @extschema@.llm_stat_query.model IS 'Name of the model.';
COMMENT ON COLUMN @extschema@.llm_stat_query.lora IS 'Name of the LoRA adapter; NULL if none.';
COMMENT ON COLUMN @extschema@.llm_stat_query.calls IS 'Statements that sent requests.';
COMMENT ON COLUMN @extschema@.llm_stat_query.requests IS 'Requests.';
COMMENT ON COLUMN @extschema@.llm_stat_query.errors IS 'Requests that failed.';
COMMENT ON COLUMN @extschema@.llm_stat_query.cancelled IS 'Requests that were cancelled.';
COMMENT ON COLUMN @extschema@.llm_stat_query.prompt_tokens IS 'Prompt tokens.';
COMMENT ON COLUMN @extschema@.llm_stat_query.cached_tokens IS 'Prompt tokens found in the prefix cache.';
COMMENT ON COLUMN @extschema@.llm_stat_query.output_tokens IS 'Generated tokens.';
COMMENT ON COLUMN @extschema@.llm_stat_query.preemptions IS 'Preemptions.';
COMMENT ON COLUMN @extschema@.llm_stat_query.draft_tokens IS 'Draft tokens proposed by speculative decoding.';
COMMENT ON COLUMN @extschema@.llm_stat_query.accepted_tokens IS
    'Draft tokens accepted by speculative decoding.';
COMMENT ON COLUMN @extschema@.llm_stat_query.total_time IS
    'Total time of requests from arrival to end in ms.';
COMMENT ON COLUMN @extschema@.llm_stat_query.min_time IS 'Shortest request in ms.';
COMMENT ON COLUMN @extschema@.llm_stat_query.max_time IS 'Longest request in ms.';
COMMENT ON COLUMN @extschema@.llm_stat_query.mean_time IS 'Mean time of a request in ms.';
COMMENT ON COLUMN @extschema@.llm_stat_query.stddev_time IS 'Standard deviation of request times in ms.';
COMMENT ON COLUMN @extschema@.llm_stat_query.queue_time IS 'Total time in the queue in ms.';
COMMENT ON COLUMN @extschema@.llm_stat_query.prefill_time IS 'Total time of prompt processing in ms.';
COMMENT ON COLUMN @extschema@.llm_stat_query.decode_time IS 'Total time of token generation in ms.';
COMMENT ON COLUMN @extschema@.llm_stat_query.stats_since IS 'Time when this row''s statistics began.';
COMMENT ON COLUMN @extschema@.llm_stat_query.last_used IS 'Time of the last request.';
COMMENT ON VIEW @extschema@.llm_stat_role IS 'Request statistics by role and database.';
COMMENT ON COLUMN @extschema@.llm_stat_role.userid IS 'OID of the role.';
COMMENT ON COLUMN @extschema@.llm_stat_role.role IS 'Name of the role.';
COMMENT ON COLUMN @extschema@.llm_stat_role.dbid IS 'OID of the database.';
COMMENT ON COLUMN @extschema@.llm_stat_role.database IS 'Name of the database.';
COMMENT ON COLUMN @extschema@.llm_stat_role.calls IS 'Statements that sent requests.';
COMMENT ON COLUMN @extschema@.llm_stat_role.requests IS 'Requests.';
COMMENT ON COLUMN @extschema@.llm_stat_role.errors IS 'Requests that failed.';
COMMENT ON COLUMN @extschema@.llm_stat_role.cancelled IS 'Requests that were cancelled.';
COMMENT ON COLUMN @extschema@.llm_stat_role.prompt_tokens IS 'Prompt tokens.';
COMMENT ON COLUMN @extschema@.llm_stat_role.cached_tokens IS 'Prompt tokens found in the prefix cache.';
COMMENT ON COLUMN @extschema@.llm_stat_role.output_tokens IS 'Generated tokens.';
COMMENT ON COLUMN @extschema@.llm_stat_role.preemptions IS 'Preemptions.';
COMMENT ON COLUMN @extschema@.llm_stat_role.draft_tokens IS 'Draft tokens proposed by speculative decoding.';
COMMENT ON COLUMN @extschema@.llm_stat_role.accepted_tokens IS
    'Draft tokens accepted by speculative decoding.';
COMMENT ON COLUMN @extschema@.llm_stat_role.total_time IS 'Total time of requests from arrival to end in ms.';
COMMENT ON COLUMN @extschema@.llm_stat_role.min_time IS 'Shortest request in ms.';
COMMENT ON COLUMN @extschema@.llm_stat_role.max_time IS 'Longest request in ms.';
COMMENT ON COLUMN @extschema@.llm_stat_role.mean_time IS 'Mean time of a request in ms.';
COMMENT ON COLUMN @extschema@.llm_stat_role.stddev_time IS 'Standard deviation of request times in ms.';
COMMENT ON COLUMN @extschema@.llm_stat_role.queue_time IS 'Total time in the queue in ms.';
COMMENT ON COLUMN @extschema@.llm_stat_role.prefill_time IS 'Total time of prompt processing in ms.';
COMMENT ON COLUMN @extschema@.llm_stat_role.decode_time IS 'Total time of token generation in ms.';
COMMENT ON COLUMN @extschema@.llm_stat_role.stats_since IS 'Time when this row''s statistics began.';
COMMENT ON COLUMN @extschema@.llm_stat_role.last_used IS 'Time of the last request.';
COMMENT ON FUNCTION @extschema@.llm_stat_reset(oid, oid, bigint) IS
    'Resets the statistics of a role, database or query, or all; returns removed rows.';
COMMENT ON FUNCTION @extschema@.llm_metrics_text() IS 'Metrics of the engine in Prometheus text format.';
COMMENT ON FUNCTION @extschema@.llm_metrics() IS 'Metrics of the engine as rows.';
COMMENT ON FUNCTION @extschema@.llm_start_profile(integer, integer) IS
    'Starts recording steps and requests of the engine.';
COMMENT ON FUNCTION @extschema@.llm_stop_profile(text) IS
    'Stops recording and returns or writes a Chrome trace.';
COMMENT ON FUNCTION vllm.url_list() IS 'Rows of llm_stat_remote.';
COMMENT ON VIEW @extschema@.llm_stat_remote IS 'Health and counters of each URL of remote models.';
COMMENT ON COLUMN @extschema@.llm_stat_remote.model IS 'Name of the model.';
COMMENT ON COLUMN @extschema@.llm_stat_remote.url IS 'Base URL.';
COMMENT ON COLUMN @extschema@.llm_stat_remote.health IS 'unknown, up, down or trying.';
COMMENT ON COLUMN @extschema@.llm_stat_remote.in_flight IS 'Calls in flight.';
COMMENT ON COLUMN @extschema@.llm_stat_remote.waiting IS
    'Requests that wait for this URL or another one of the model.';
COMMENT ON COLUMN @extschema@.llm_stat_remote.calls IS 'Calls.';
COMMENT ON COLUMN @extschema@.llm_stat_remote.failures IS 'Calls that failed.';
COMMENT ON COLUMN @extschema@.llm_stat_remote.retries IS 'Calls that were retries.';
COMMENT ON COLUMN @extschema@.llm_stat_remote.throttled IS 'Failures with status 429.';
COMMENT ON COLUMN @extschema@.llm_stat_remote.avg_latency_ms IS 'Moving average of the latency in ms.';
COMMENT ON COLUMN @extschema@.llm_stat_remote.retry_at IS
    'Time until which a URL that is down gets no calls.';
COMMENT ON COLUMN @extschema@.llm_stat_remote.last_error IS 'Last error of a call.';
COMMENT ON FUNCTION vllm.remote_state() IS 'Row of llm_remote.';
COMMENT ON VIEW @extschema@.llm_remote IS
    'State and counters of the program that calls remote endpoints, one row.';
COMMENT ON COLUMN @extschema@.llm_remote.state IS 'State as in llm_stat_engine, or not installed.';
COMMENT ON COLUMN @extschema@.llm_remote.pid IS 'Process id of the program.';
COMMENT ON COLUMN @extschema@.llm_remote.restarts IS 'Restarts after a failure.';
COMMENT ON COLUMN @extschema@.llm_remote.started IS 'Time when the program started.';
COMMENT ON COLUMN @extschema@.llm_remote.last_error IS 'Why the last process failed.';
COMMENT ON COLUMN @extschema@.llm_remote.last_error_at IS 'Time when the last process failed.';
COMMENT ON COLUMN @extschema@.llm_remote.slots_used IS 'Request slots in use by remote models.';
COMMENT ON COLUMN @extschema@.llm_remote.running IS 'Requests that are running.';
COMMENT ON COLUMN @extschema@.llm_remote.waiting IS 'Requests that are queued.';
COMMENT ON COLUMN @extschema@.llm_remote.requests IS 'Requests since the program started.';
COMMENT ON COLUMN @extschema@.llm_remote.finished IS 'Requests that finished.';
COMMENT ON COLUMN @extschema@.llm_remote.failed IS 'Requests that failed.';
COMMENT ON COLUMN @extschema@.llm_remote.cancelled IS 'Requests that were cancelled.';
COMMENT ON COLUMN @extschema@.llm_remote.prompt_tokens IS 'Prompt tokens.';
COMMENT ON COLUMN @extschema@.llm_remote.output_tokens IS 'Generated tokens.';
COMMENT ON FUNCTION vllm.cost_list() IS 'Rows of llm_stat_cost.';
COMMENT ON VIEW @extschema@.llm_stat_cost IS
    'Cost of requests to models with prices, by role, database and model.';
COMMENT ON COLUMN @extschema@.llm_stat_cost.role IS 'Name of the role.';
COMMENT ON COLUMN @extschema@.llm_stat_cost.database IS 'Name of the database.';
COMMENT ON COLUMN @extschema@.llm_stat_cost.model IS 'Name of the model.';
COMMENT ON COLUMN @extschema@.llm_stat_cost.requests IS 'Requests.';
COMMENT ON COLUMN @extschema@.llm_stat_cost.prompt_tokens IS 'Prompt tokens.';
COMMENT ON COLUMN @extschema@.llm_stat_cost.cached_tokens IS 'Prompt tokens charged at the cached price.';
COMMENT ON COLUMN @extschema@.llm_stat_cost.output_tokens IS 'Generated tokens.';
COMMENT ON COLUMN @extschema@.llm_stat_cost.charged_tries IS
    'Failed calls that the endpoint may have charged.';
COMMENT ON COLUMN @extschema@.llm_stat_cost.cost IS 'Sum of costs.';
COMMENT ON COLUMN @extschema@.llm_stat_cost.since IS 'Time when the account began.';
COMMENT ON COLUMN @extschema@.llm_stat_cost.userid IS 'OID of the role.';
COMMENT ON COLUMN @extschema@.llm_stat_cost.dbid IS 'OID of the database.';
COMMENT ON FUNCTION vllm.budget_list() IS 'Rows of llm_stat_budget.';
COMMENT ON VIEW @extschema@.llm_stat_budget IS 'Spending of each role against its budget.';
COMMENT ON COLUMN @extschema@.llm_stat_budget.role IS 'Name of the role.';
COMMENT ON COLUMN @extschema@.llm_stat_budget.day IS 'Cost since midnight.';
COMMENT ON COLUMN @extschema@.llm_stat_budget.month IS 'Cost since the beginning of the month.';
COMMENT ON COLUMN @extschema@.llm_stat_budget.total IS 'Cost since the account began.';
COMMENT ON COLUMN @extschema@.llm_stat_budget.reserved IS 'Estimated cost of requests in flight.';
COMMENT ON COLUMN @extschema@.llm_stat_budget.userid IS 'OID of the role.';
COMMENT ON FUNCTION @extschema@.llm_cost_reset(oid) IS
    'Resets the accounts of a role, or of all roles; returns their number.';
COMMENT ON TABLE vllm.result_cache IS 'Cached results of models with the option result_cache.';
COMMENT ON FUNCTION vllm.cache_list() IS 'Rows of llm_stat_cache.';
COMMENT ON VIEW @extschema@.llm_stat_cache IS 'Size and hits of the result cache of each model.';
COMMENT ON COLUMN @extschema@.llm_stat_cache.model IS 'Name of the model.';
COMMENT ON COLUMN @extschema@.llm_stat_cache.entries IS 'Results in the cache.';
COMMENT ON COLUMN @extschema@.llm_stat_cache.bytes IS 'Bytes of the results.';
COMMENT ON COLUMN @extschema@.llm_stat_cache.hits IS 'Requests served from the cache.';
COMMENT ON COLUMN @extschema@.llm_stat_cache.misses IS 'Requests looked up and not found.';
COMMENT ON COLUMN @extschema@.llm_stat_cache.skipped IS 'Results that could not be stored.';
COMMENT ON FUNCTION @extschema@.llm_cache_prune() IS
    'Removes expired and excess results from the result cache; returns their number.';
COMMENT ON FUNCTION @extschema@.llm_cache_clear(text) IS
    'Removes all results of a model from the result cache; returns their number.';
COMMENT ON FUNCTION vllm.http_api(text, json) IS 'llm_api() for the HTTP server.';
COMMENT ON FUNCTION vllm.http_api_stream(text, json) IS 'llm_api_stream() for the HTTP server.';
COMMENT ON FUNCTION vllm.http_load_lora_adapter(json) IS 'v1_load_lora_adapter() for the HTTP server.';
COMMENT ON FUNCTION vllm.http_unload_lora_adapter(json) IS 'v1_unload_lora_adapter() for the HTTP server.';
COMMENT ON FUNCTION vllm.http_metrics() IS 'llm_metrics_text() for the HTTP server.';
COMMENT ON FUNCTION vllm.http_sleep(integer, text, text) IS 'llm_sleep() for the HTTP server.';
COMMENT ON FUNCTION vllm.http_wake_up(text[], text) IS 'llm_wake_up() for the HTTP server.';
COMMENT ON FUNCTION vllm.http_is_sleeping(text) IS 'llm_is_sleeping() for the HTTP server.';
COMMENT ON FUNCTION vllm.http_pause(text, text) IS 'llm_pause() for the HTTP server.';
COMMENT ON FUNCTION vllm.http_resume(text) IS 'llm_resume() for the HTTP server.';
COMMENT ON FUNCTION vllm.http_is_paused(text) IS 'llm_is_paused() for the HTTP server.';
