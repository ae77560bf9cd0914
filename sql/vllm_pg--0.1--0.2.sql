/* vllm_pg--0.1--0.2.sql: what 0.2 adds; makes the catalog that vllm_pg--0.2.sql makes */

-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION vllm_pg UPDATE TO '0.2'" to load this file. \quit
