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
