/* vllm_pg--0.2--0.3.sql: 0.3 is about the engine; its catalog is that of 0.2 */

\echo Use "ALTER EXTENSION vllm_pg UPDATE TO '0.3'" to load this file. \quit
