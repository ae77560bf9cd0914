/*
 * vllm_pg.h
 *	  Settings (GUCs), and declarations that all folders of src/pg share.
 */
#ifndef VLLM_PG_VLLM_PG_H
#define VLLM_PG_VLLM_PG_H

#include "postgres.h"

#include "pg/shared_state.h"
#include "pg/compat.h"

/* one variable for each row of the table in guc.c; units in the comments */
extern char *vllm_model;		/* vllm.model: default model name */
extern char *vllm_embedding_model;	/* vllm.embedding_model; empty: vllm_model, if it was made for
									 * embeddings */
extern char *vllm_rerank_model; /* vllm.rerank_model; empty: vllm_model, if it was made for reranking */
extern char *vllm_default_params;	/* vllm.default_params: json text, '' = none */
extern int	vllm_default_max_tokens;	/* vllm.default_max_tokens, 0 = rest of the context */
extern int	vllm_max_prompt_bytes;	/* kB */
extern bool vllm_enable_prompt_embeds;
/* shares and limits (docs/user/operations.md) */
extern bool vllm_background;
extern int	vllm_role_weight;
extern int	vllm_role_max_requests; /* 0 = no limit; the next two, too */
extern int	vllm_role_tokens_per_minute;
extern int	vllm_role_max_tokens;
extern int	vllm_role_limit_timeout;	/* ms, -1 = none */
extern bool vllm_engine;		/* vllm.engine: off = no engine runs */
extern int	vllm_queue_timeout; /* ms */
extern int	vllm_engine_timeout;	/* ms */
extern int	vllm_hang_timeout;	/* ms */
extern int	vllm_max_queued_requests;	/* slots */
extern int	vllm_ring_size;		/* kB per slot and direction */
extern char *vllm_tool_call_parser;	/* '' = none */
extern char *vllm_reasoning_parser; /* '' = none */
extern char *vllm_engine_path;	/* vllm.engine_path: '' = vllm_pg_engine beside the library */
extern char *vllm_engine_args;	/* vllm.engine_args: "--fake" in tests */
extern int	vllm_engine_nice;
extern char *vllm_seccomp;		/* on, off, require */
extern int	vllm_engine_memory_limit;	/* MB, 0 = none: RLIMIT_AS of the engine */
extern int	vllm_step_target;	/* ms */
extern int	vllm_log_stats_interval;	/* s, 0 = never */
/* passed on to the engine on SIGHUP: */
extern int	vllm_cpu_threads;	/* 0 = as many as CPUs may be used */
extern char *vllm_cpu_affinity; /* ipc/cpu_list.h */
extern char *vllm_cpu_isa;		/* "auto" */
extern char *vllm_device;		/* auto, cpu, cuda, cuda:N */
extern char *vllm_cuda_visible_devices;	/* the engine's CUDA_VISIBLE_DEVICES; "" = the server's */
extern int	vllm_tensor_parallel_size;	/* processes that share each layer of a model */
extern int	vllm_pipeline_parallel_size;	/* pipeline stages: processes that share layers */
extern int	vllm_data_parallel_size;	/* replicas of the stages; these three settings apply when the
										 * engine starts */
extern int	vllm_max_num_seqs;
extern int	vllm_max_num_batched_tokens;
extern int	vllm_block_size;
extern int	vllm_kv_cache_memory;	/* MB per model */
extern int	vllm_kv_offload;	/* MB */
extern int	vllm_kv_offload_disk;	/* MB */
extern char *vllm_kv_cache_dtype;	/* auto, float32, float16, bfloat16, int8, fp8 ... */
extern char *vllm_huge_pages;	/* try, off, on */
extern char *vllm_kv_offload_directory; /* absolute path, "" = none */
extern char *vllm_repack_cache; /* absolute path of a directory, "" = none */
extern int	vllm_memory_limit;	/* MB, 0 = none */
extern char *vllm_sleep_requests;	/* error, wait */
extern bool vllm_batch_invariant;
/* the batch node (batch.h) */
extern bool vllm_batch;
extern bool vllm_batch_dedup;
extern bool vllm_batch_strict;
extern int	vllm_max_rows;		/* calls that a statement may be estimated to make, 0 = any number */
extern int	vllm_max_tokens_per_statement;	/* 0 = any number */
extern int	vllm_batch_window;	/* requests, 0 = automatic */
extern int	vllm_progress_interval; /* rows, 0 = never */
/* jobs (job.h) */
extern int	vllm_job_workers;	/* databases served at once, 0 = none */
extern int	vllm_job_batch_size;	/* rows */
extern int	vllm_job_memory;		/* kB, each worker */
extern int	vllm_job_transaction_time;	/* ms */

/* the HTTP server (guc_http.c) */
extern int	vllm_http_port;		/* 0 = no HTTP server */
extern char *vllm_http_role;

/* the remote program (guc_remote.c) */
extern char *vllm_allowed_hosts;	/* ipc/host_allowlist.h */
extern char *vllm_remote_path;	/* '' = vllm_pg_remote beside the library */
void		vllm_guc_remote_init(void);
/* Return "name=value" lines for the remote program. */
char	   *vllm_guc_remote_config(void);

void		vllm_guc_init(void);
/*
 * Send a control command to the engine, about one model or (NULL) about all of them; return its reply
 * (control.c).
 */
text	   *engine_command(const char *command, const char *model);
void		vllm_guc_http_init(void);
/*
 * vllm_guc_http_config(): return "name=value" lines for the HTTP server.  vllm_guc_http_files():
 * return the files whose change restarts it, NULL-terminated.
 */
char	   *vllm_guc_http_config(void);
const char *const *vllm_guc_http_files(void);
/*
 * Install the SQL functions' hooks and vllm.invalid_text (model_invalidate.c).  _PG_init calls it
 * before MarkGUCPrefixReserved.
 */
void		vllm_sql_init(void);
/* Return the planner's cost of tokens that are read (prompt) or generated (planner_support.c). */
double		vllm_cost_of_tokens(double tokens, bool prompt);
/* Return "name=value" lines for the engine, for every row marked as the engine's. */
char	   *vllm_guc_engine_config(void);

#endif
