/*
 * vllm_pg--0.6--0.7.sql
 *	  An engine to run all day: adapters, limits, sleep, figures.
 */

\echo Use "ALTER EXTENSION vllm_pg UPDATE TO '0.7'" to load this file. \quit
