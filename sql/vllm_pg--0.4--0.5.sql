/*
 * vllm_pg--0.4--0.5.sql
 *	  Embeddings, scores, labels, and tables that keep themselves embedded.
 */

\echo Use "ALTER EXTENSION vllm_pg UPDATE TO '0.5'" to load this file. \quit

/* ---- embeddings, scores, labels (fn_embed.c, fn_score.c, fn_classify.c) ---- */


/* ---- decisions by log-probability (fn_choose.c) ---- */


/* ---- chunks, nearest neighbours, aggregates (fn_chunk.c, fn_nearest.c, fn_agg.c) ---- */


/* ---- pgvector (fn_vector.c) ---- */


/* ---- jobs (fn_job.c, bgworker/jobs.c) ---- */

