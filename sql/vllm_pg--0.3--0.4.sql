/* vllm_pg--0.3--0.4.sql: what 0.4 adds; makes the catalog that vllm_pg--0.4.sql makes */

\echo Use "ALTER EXTENSION vllm_pg UPDATE TO '0.4'" to load this file. \quit

CREATE FUNCTION llm_inspect_model(path text, options json DEFAULT NULL) RETURNS json
AS 'MODULE_PATHNAME', 'llm_inspect_model' LANGUAGE C VOLATILE;

REVOKE EXECUTE ON FUNCTION llm_inspect_model(text, json) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION llm_inspect_model(text, json) TO pg_read_server_files;
