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
