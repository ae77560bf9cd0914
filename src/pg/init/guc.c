/*
 * guc.c
 *	  The settings, one table row each.
 *
 * docs/user/operations.md lists them for users; a lint rule compares.  Rows with an engine name are
 * passed to the engine process as `--set name=value` at its start and as `config name=value` when
 * postgresql.conf is reloaded.  Settings that determine the size of shared memory can only be set at
 * server start.
 */
#include "postgres.h"

#include <math.h>

#include <limits.h>

#include "lib/stringinfo.h"
#include "utils/guc.h"

#include "pg/client/spend.h"
#include "pg/init/guc_json.h"
#include "pg/call/default_params.h"
#include "pg/util/on_error.h"
#include "pg/client/query_stats.h"
#include "pg/vllm_pg.h"
#include "ipc/control_protocol.h"
#include "ipc/cpu_list.h"

/* initialized here for a library that is loaded without preload */
char	   *vllm_model = "tickets-2m";
char	   *vllm_embedding_model = "";
char	   *vllm_rerank_model = "";
char	   *vllm_default_params = "";
int			vllm_default_max_tokens = 256;
int			vllm_max_prompt_bytes = 16 * 1024;
bool		vllm_enable_prompt_embeds = false;
bool		vllm_background;
int			vllm_role_weight = 100;
int			vllm_role_max_requests;
int			vllm_role_tokens_per_minute;
int			vllm_role_max_tokens;
int			vllm_role_limit_timeout = -1;
static int	vllm_background_share;
static int	vllm_max_partial;
static int	vllm_max_long_partial;
static int	vllm_long_prompt;
int			vllm_queue_timeout = 60000;
int			vllm_engine_timeout = 30000;
int			vllm_hang_timeout;
int			vllm_max_queued_requests = 1024;
int			vllm_ring_size = 32;
char	   *vllm_tool_call_parser;
char	   *vllm_reasoning_parser;
char	   *vllm_engine_path = "";
char	   *vllm_engine_args = "";
char	   *vllm_logits_processors = "";
int			vllm_engine_nice;
int			vllm_engine_memory_limit;
int			vllm_cpu_threads;
char	   *vllm_cpu_affinity = "";
char	   *vllm_cpu_isa = "auto";
char	   *vllm_device = "auto";
int			vllm_tensor_parallel_size = 1;
int			vllm_pipeline_parallel_size = 1;
int			vllm_data_parallel_size = 1;
static bool vllm_enable_expert_parallel = false;
static bool vllm_enable_eplb = false;
char	   *vllm_cuda_visible_devices = "";
static char *vllm_device_library = "";
static char *vllm_nccl_path = "";
static char *vllm_cuda_kernels = "auto";
char	   *vllm_seccomp = "on";
int			vllm_max_num_seqs;
int			vllm_max_num_batched_tokens;
int			vllm_block_size;
int			vllm_kv_cache_memory;
int			vllm_kv_offload;
int			vllm_kv_offload_disk;
char	   *vllm_kv_cache_dtype = "auto";
char	   *vllm_huge_pages = "try";
static char *vllm_scheduling_policy = "fcfs";
static char *vllm_expert_placement = "linear";
static char *vllm_tensor_parallel_mode = "columns";
static char *vllm_logprobs_mode = "raw_logprobs";
static char *vllm_prefix_cache_isolation = "role";
static bool vllm_enable_prefix_caching;
static char *vllm_speculative_config;
static char *vllm_eplb_config;
static bool vllm_enforce_eager;
static bool vllm_calculate_kv_scales;
static double vllm_kv_metrics_sample;
static double vllm_gpu_memory_utilization;
static bool vllm_disable_hybrid;
static int	vllm_max_logprobs;
static bool vllm_enable_lora;
static int	vllm_max_loras;
static int	vllm_max_cpu_loras;
static int	vllm_max_lora_rank;
static char *vllm_lora_dtype = "auto";
char	   *vllm_repack_cache = "";
char	   *vllm_kv_offload_directory = "";
char	   *vllm_sleep_requests = "error";
static int	vllm_max_models;
int			vllm_memory_limit;
static int	vllm_memory_timeout;
static int	vllm_keep_alive;
bool		vllm_batch_invariant;
int			vllm_step_target;
int			vllm_log_stats_interval;
bool		vllm_engine = true;
bool		vllm_batch = true;
bool		vllm_batch_dedup = true;
bool		vllm_batch_strict;
int			vllm_batch_window;
int			vllm_progress_interval;
int			vllm_job_workers = 2;
int			vllm_job_batch_size = 256;
int			vllm_job_memory = 64 * 1024;
int			vllm_job_transaction_time = 5000;

typedef struct IntRow
{
	const char *name;
	int		   *var;
	int			boot, min, max;
	GucContext	context;
	int			flags;
	const char *engine;			/* the engine's name of the setting, NULL = not passed to the engine */
	const char *desc;
} IntRow;

static const IntRow int_rows[] = {
	{"vllm.max_queued_requests", &vllm_max_queued_requests, 1024, 1, WIRE_MAX_SLOTS / 2, PGC_POSTMASTER, 0,
	 NULL,
	"Sets the maximum number of LLM requests in flight, over all sessions."},
	{"vllm.ring_size", &vllm_ring_size, 32, 4, 16 * 1024, PGC_POSTMASTER, GUC_UNIT_KB, NULL,
	"Sets the size of each request's buffer in shared memory, in each direction."},
	{"vllm.max_prompt_bytes", &vllm_max_prompt_bytes, 16 * 1024, 1, 256 * 1024, PGC_POSTMASTER, GUC_UNIT_KB,
	 NULL,
	"Sets the maximum size of a prompt."},
	{"vllm.default_max_tokens", &vllm_default_max_tokens, 256, 0, INT_MAX, PGC_USERSET, 0, NULL,
	"Sets the number of tokens generated when max_tokens is not given; 0 means up to the model's context "
	"length."},
	{"vllm.role_weight", &vllm_role_weight, 100, 1, 10000, PGC_SUSET, 0, NULL,
	"Sets the weight of the role's share of the engine, among roles whose requests wait."},
	{"vllm.role_max_requests", &vllm_role_max_requests, 0, 0, INT_MAX, PGC_SUSET, 0, NULL,
	"Limits the LLM requests of the role that are in flight, over all its sessions; 0 means no limit."},
	{"vllm.role_tokens_per_minute", &vllm_role_tokens_per_minute, 0, 0, INT_MAX, PGC_SUSET, 0, NULL,
	"Limits the tokens of the role's prompts and answers in a minute, over all its sessions; 0 means no "
	"limit."},
	{"vllm.role_max_tokens", &vllm_role_max_tokens, 0, 0, INT_MAX, PGC_SUSET, 0, NULL,
	"Limits max_tokens of the role's requests; 0 means no limit."},
	{"vllm.role_limit_timeout", &vllm_role_limit_timeout, -1, -1, INT_MAX, PGC_USERSET, GUC_UNIT_MS, NULL,
	"Sets how long a request waits for a limit of its role before it fails; -1 means as long as it takes."},
	{"vllm.background_share", &vllm_background_share, 6, 0, 50, PGC_SIGHUP, 0, "background_share",
	"Sets the percentage of the engine that requests in the background get while others wait, in models that "
	"are loaded from now on."},
	{"vllm.queue_timeout", &vllm_queue_timeout, 60000, 0, INT_MAX, PGC_USERSET, GUC_UNIT_MS, NULL,
	"Sets how long a request waits for a free slot before it fails."},
	{"vllm.engine_timeout", &vllm_engine_timeout, 30000, 0, INT_MAX, PGC_USERSET, GUC_UNIT_MS, NULL,
	"Sets how long a request waits for the inference engine to be available before it fails."},
	{"vllm.hang_timeout", &vllm_hang_timeout, 60000, 100, INT_MAX, PGC_SIGHUP, GUC_UNIT_MS, "hang_timeout_ms",
	"Sets how long an engine that has work may make no progress before it is killed and restarted."},
	{"vllm.engine_nice", &vllm_engine_nice, 0, 0, 19, PGC_SIGHUP, 0, NULL,
	"Sets the niceness of the engine process, from its next start on."},
	{"vllm.engine_memory_limit", &vllm_engine_memory_limit, 0, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_MB, NULL,
	"Limits the address space of the engine process, from its next start on; 0 means no limit."},
	{"vllm.cpu_threads", &vllm_cpu_threads, 0, 0, CPULIST_CPUS, PGC_SIGHUP, 0, "cpu_threads",
	"Sets the number of compute threads of each model; 0 means one for each CPU that the engine may use."},
	{"vllm.max_num_seqs", &vllm_max_num_seqs, 0, 0, 4096, PGC_SIGHUP, 0, "max_num_seqs",
	"Sets the maximum number of sequences in one step of a model; 0 means by the machine and the model."},
	{"vllm.max_num_batched_tokens", &vllm_max_num_batched_tokens, 0, 0, 65536, PGC_SIGHUP, 0,
	 "max_num_batched_tokens",
	"Sets the maximum number of tokens computed in one step of a model; 0 means by the machine and the "
	"model."},
	{"vllm.max_num_partial_prefills", &vllm_max_partial, 0, 0, 4096, PGC_SIGHUP, 0,
	 "max_num_partial_prefills",
	"Sets how many prompts may be computed in part at once; 0 means any number."},
	{"vllm.max_long_partial_prefills", &vllm_max_long_partial, 1, 1, 4096, PGC_SIGHUP, 0,
	 "max_long_partial_prefills",
	"Sets how many partly computed prompts may be long, so that shorter ones overtake the others."},
	{"vllm.long_prefill_token_threshold", &vllm_long_prompt, 0, 0, INT_MAX, PGC_SIGHUP, 0,
	 "long_prefill_token_threshold",
	"Sets from how many tokens a prompt counts as long, and how many of its tokens go into a step; 0 means "
	"that no prompt is long."},
	{"vllm.tensor_parallel_size", &vllm_tensor_parallel_size, 1, 1, RANKS_MOST, PGC_SIGHUP, 0,
	 "tensor_parallel_size",
	"Sets how many processes share the columns of each model's matrices, from the engine's next start on."},
	{"vllm.pipeline_parallel_size", &vllm_pipeline_parallel_size, 1, 1, RANKS_MOST, PGC_SIGHUP, 0,
	 "pipeline_parallel_size",
	"Sets how many stages of processes share each model's layers, from the engine's next start on."},
	{"vllm.data_parallel_size", &vllm_data_parallel_size, 1, 1, RANKS_MOST, PGC_SIGHUP, 0,
	 "data_parallel_size",
	"Sets how many replicas of each model take turns at its requests, from the engine's next start on."},
	{"vllm.block_size", &vllm_block_size, 16, 16, 256, PGC_SIGHUP, 0, "block_size",
	"Sets the number of tokens in a block of the KV cache; a multiple of 16."},
	{"vllm.kv_cache_memory_bytes", &vllm_kv_cache_memory, 0, 0, 64 * 1024 * 1024, PGC_SIGHUP, GUC_UNIT_MB,
	 "kv_cache_memory",
	"Sets the size of the KV cache of each model; 0 means 512 MB on CPUs, and on a GPU what "
	"vllm.gpu_memory_utilization leaves."},
	{"vllm.kv_offload_bytes", &vllm_kv_offload, 0, 0, 64 * 1024 * 1024, PGC_SIGHUP, GUC_UNIT_MB, "kv_offload",
	"Sets the memory for blocks that the KV caches evict, which are loaded back instead of computed again; 0 "
	"means none."},
	{"vllm.kv_offload_disk_bytes", &vllm_kv_offload_disk, 10240, 1, 1024 * 1024 * 1024, PGC_SIGHUP,
	 GUC_UNIT_MB, "kv_offload_disk",
	"Sets how much of the evicted KV cache may be kept in the files of vllm.kv_offload_directory."},
	{"vllm.max_models", &vllm_max_models, 64, 1, WIRE_MAX_MODELS, PGC_SIGHUP, 0, "max_models",
	"Sets how many local models of all databases the engine knows at once; the least recently used ones that "
	"are idle are unloaded for others."},
	{"vllm.memory_limit", &vllm_memory_limit, 0, 0, 64 * 1024 * 1024, PGC_SIGHUP, GUC_UNIT_MB, "memory_limit",
	"Limits the memory of all loaded models together; the least recently used ones are unloaded for others.  "
	"0 means no limit."},
	{"vllm.memory_timeout", &vllm_memory_timeout, 60000, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_MS,
	 "memory_timeout_ms",
	"Sets how long the load of a model waits for memory that other models hold, and a request for a place "
	"among vllm.max_models, before it fails."},
	{"vllm.keep_alive", &vllm_keep_alive, -1, -1, INT_MAX, PGC_SIGHUP, GUC_UNIT_S, "keep_alive",
	"Sets how long a model without requests stays loaded; -1 means for ever."},
	{"vllm.step_target", &vllm_step_target, 50, 0, 60000, PGC_SIGHUP, GUC_UNIT_MS, "step_target_ms",
	"Limits how much longer other requests may make a step in which interactive requests decode; 0 means no "
	"limit."},
	{"vllm.max_loras", &vllm_max_loras, 32, 1, 4096, PGC_SIGHUP, 0, "max_loras",
	"Sets the maximum number of different adapters in one step of a model."},
	{"vllm.max_cpu_loras", &vllm_max_cpu_loras, 0, 0, 4096, PGC_SIGHUP, 0, "max_cpu_loras",
	"Sets how many adapters of a model are kept in memory; 0 means as many as vllm.max_loras."},
	{"vllm.max_lora_rank", &vllm_max_lora_rank, 64, 1, 512, PGC_SIGHUP, 0, "max_lora_rank",
	"Sets the maximum rank of adapters: 1, 8, 16, 32, 64, 128, 256, 320 or 512."},
	{"vllm.max_logprobs", &vllm_max_logprobs, 20, -1, INT_MAX, PGC_SIGHUP, 0, "max_logprobs",
	"Sets how many log-probabilities of a token a request may ask for; -1 means no limit."},
	{"vllm.batch_window", &vllm_batch_window, 0, 0, WIRE_MAX_SLOTS / 2, PGC_USERSET, 0, NULL,
	"Sets the maximum number of LLM requests that one statement keeps in flight; 0 means as many as the "
	"engine can use."},
	{"vllm.max_rows", &vllm_max_rows, 0, 0, INT_MAX, PGC_SUSET, 0, NULL,
	"Refuses statements that are estimated to make more LLM calls; 0 means no limit."},
	{"vllm.max_tokens_per_statement", &vllm_max_tokens_per_statement, 0, 0, INT_MAX, PGC_SUSET, 0, NULL,
	"Refuses statements whose LLM calls are estimated to have more tokens, in prompts and answers; 0 means "
	"no limit."},
	{"vllm.log_min_duration", &vllm_log_min_duration, -1, -1, INT_MAX, PGC_SUSET, GUC_UNIT_MS, NULL,
	"Sets the minimum duration above which LLM requests are logged, without prompts and answers; -1 means "
	"never, 0 all."},
	{"vllm.log_stats_interval", &vllm_log_stats_interval, 0, 0, INT_MAX / 1000, PGC_SIGHUP, GUC_UNIT_S, NULL,
	"Sets how often the engine's throughput is logged while it works; 0 means never."},
	{"vllm.stat_max", &vllm_stat_max, 1000, 100, 1000000, PGC_POSTMASTER, 0, NULL,
	"Sets the maximum number of queries and roles whose LLM requests llm_stat_query and llm_stat_role count "
	"separately."},
	{"vllm.progress_interval", &vllm_progress_interval, 0, 0, INT_MAX, PGC_USERSET, 0, NULL,
	"Sets after how many rows of an LLM Batch node a NOTICE reports progress; 0 means never."},
	{"vllm.job_workers", &vllm_job_workers, 2, 0, 64, PGC_SIGHUP, 0, NULL,
	"Sets the maximum number of databases whose LLM jobs run at the same time; 0 means that jobs rest."},
	{"vllm.job_batch_size", &vllm_job_batch_size, 256, 1, 10000, PGC_SIGHUP, 0, NULL,
	"Sets the maximum number of rows that an LLM job takes from its queue at once."},
	{"vllm.job_memory", &vllm_job_memory, 64 * 1024, 1024, INT_MAX, PGC_SIGHUP, GUC_UNIT_KB, NULL,
	"Sets the memory for inputs that the LLM jobs of a database process at once; each job may always have "
	"one row."},
	{"vllm.job_transaction_time", &vllm_job_transaction_time, 5000, 100, 60000, PGC_SIGHUP, GUC_UNIT_MS, NULL,
	"Sets the maximum duration of a transaction of an LLM job."},
};

typedef struct BoolRow
{
	const char *name;
	bool	   *var;
	bool		boot;
	GucContext	context;
	const char *engine;
	const char *desc;
} BoolRow;

static const BoolRow bool_rows[] = {
	{"vllm.engine", &vllm_engine, true, PGC_POSTMASTER, NULL,
	"Starts the inference engine; without it only remote models can be used."},
	{"vllm.batch_invariant", &vllm_batch_invariant, true, PGC_SIGHUP, "batch_invariant",
	"Makes results independent of other requests in the batch, in models that are loaded from now on."},
	{"vllm.batch", &vllm_batch, true, PGC_USERSET, NULL,
	"Keeps the LLM calls of many rows of a statement in flight together."},
	{"vllm.batch_dedup", &vllm_batch_dedup, true, PGC_USERSET, NULL,
	"Computes identical deterministic LLM requests of a statement only once."},
	{"vllm.batch_strict", &vllm_batch_strict, false, PGC_USERSET, NULL,
	"Batches rows only where an error can't be raised earlier than in row-by-row execution."},
	{"vllm.stat_track", &vllm_stat_track, true, PGC_SUSET, NULL,
	"Counts LLM requests in llm_stat_query and llm_stat_role."},
	{"vllm.stat_save", &vllm_stat_save, true, PGC_SIGHUP, NULL,
	"Keeps llm_stat_query and llm_stat_role over restarts of the server."},
	{"vllm.enable_prompt_embeds", &vllm_enable_prompt_embeds, false, PGC_SUSET, NULL,
	"Lets prompts be embeddings, and a model's own embeddings be read."},
	{"vllm.background", &vllm_background, false, PGC_USERSET, NULL,
	"Lets LLM requests of the session wait for those of others."},
	{"vllm.calculate_kv_scales", &vllm_calculate_kv_scales, false, PGC_SIGHUP, "calculate_kv_scales",
	"Computes the scales of an FP8 KV cache when a model is loaded, instead of taking the checkpoint's."},
	{"vllm.disable_hybrid_kv_cache_manager", &vllm_disable_hybrid, false, PGC_SIGHUP,
	 "disable_hybrid_kv_cache_manager",
	"Lets layers with sliding windows keep K and V of all tokens, in models that are loaded from now on."},
	{"vllm.enable_expert_parallel", &vllm_enable_expert_parallel, false, PGC_SIGHUP, "enable_expert_parallel",
	"Lets the processes of vllm.tensor_parallel_size share experts whole instead of by columns, from the "
	"engine's next start on."},
	{"vllm.enable_eplb", &vllm_enable_eplb, false, PGC_SIGHUP, "enable_eplb",
	"Lets whole experts move to processes with less work, from the engine's next start on."},
	{"vllm.enable_prefix_caching", &vllm_enable_prefix_caching, true, PGC_SIGHUP, "enable_prefix_caching",
	"Computes common prefixes of prompts only once, in models that are loaded from now on."},
	{"vllm.enforce_eager", &vllm_enforce_eager, false, PGC_SIGHUP, "enforce_eager",
	"Lets devices compute each step by itself instead of replaying recorded ones, in models that are loaded "
	"from now on."},
	{"vllm.enable_lora", &vllm_enable_lora, true, PGC_SIGHUP, "enable_lora",
	"Lets calls name adapters, of models that are loaded from now on."},
};

static bool check_block_size(int *newval, void **extra, GucSource source);
static bool check_lora_rank(int *newval, void **extra, GucSource source);
static bool check_lora_dtype(char **newval, void **extra, GucSource source);
static bool check_isa(char **newval, void **extra, GucSource source);
static bool check_affinity(char **newval, void **extra, GucSource source);
static bool check_device(char **newval, void **extra, GucSource source);
static bool check_nccl_path(char **newval, void **extra, GucSource source);
static bool check_cuda_kernels(char **newval, void **extra, GucSource source);
static bool check_visible(char **newval, void **extra, GucSource source);
static bool check_kv_dtype(char **newval, void **extra, GucSource source);
static bool check_huge_pages(char **newval, void **extra, GucSource source);
static bool check_parallel_mode(char **newval, void **extra, GucSource source);
static bool check_placement(char **newval, void **extra, GucSource source);
static bool check_policy(char **newval, void **extra, GucSource source);
static bool check_logprobs_mode(char **newval, void **extra, GucSource source);
static bool check_isolation(char **newval, void **extra, GucSource source);
static bool check_traceparent(char **newval, void **extra, GucSource source);
static bool check_tracestate(char **newval, void **extra, GucSource source);
static bool check_path(char **newval, void **extra, GucSource source);
static bool check_sleep_requests(char **newval, void **extra, GucSource source);
static bool check_cost_window(char **newval, void **extra, GucSource source);
static bool check_on_error(char **newval, void **extra, GucSource source);
static bool check_seccomp(char **newval, void **extra, GucSource source);
static bool check_tool_parser(char **newval, void **extra, GucSource source);
static bool check_reasoning_parser(char **newval, void **extra, GucSource source);

typedef struct StringRow
{
	const char *name;
	char	  **var;
	const char *boot;
	GucContext	context;
	int			flags;
	GucStringCheckHook check;
	const char *engine;
	const char *desc;
} StringRow;

static const StringRow string_rows[] = {
	{"vllm.model", &vllm_model, "tickets-2m", PGC_USERSET, 0, NULL, NULL,
	"Names the model that is used when a call names none."},
	{"vllm.embedding_model", &vllm_embedding_model, "", PGC_USERSET, 0, NULL, NULL,
	"Names the model that embeds when a call names none; empty means that of vllm.model, if it was made to "
	"embed."},
	{"vllm.rerank_model", &vllm_rerank_model, "", PGC_USERSET, 0, NULL, NULL,
	"Names the model that scores relevance when a call names none; empty means that of vllm.model, if it was "
	"made to embed or to rerank."},
	{"vllm.default_params", &vllm_default_params, "", PGC_USERSET, 0, check_default_params, NULL,
	"Sets sampling parameters, as a JSON object, that apply when a call does not give them."},
	{"vllm.role_cost_window", &vllm_role_cost_window, "month", PGC_SUSET, 0, check_cost_window, NULL,
	"Sets the period of vllm.role_max_cost: day or month, in UTC, or none for no period."},
	{"vllm.on_error", &vllm_on_error, "error", PGC_USERSET, 0, check_on_error, NULL,
	"Sets the result of a call whose LLM request fails, unless the call gives on_error: error, or null."},
	{"vllm.tool_call_parser", &vllm_tool_call_parser, "", PGC_USERSET, 0, check_tool_parser, NULL,
	"Names the parser of tool calls in chats with models whose options name none; empty means none."},
	{"vllm.reasoning_parser", &vllm_reasoning_parser, "", PGC_USERSET, 0, check_reasoning_parser, NULL,
	"Names the parser of reasoning in chats with models whose options name none; empty means none."},
	{"vllm.engine_path", &vllm_engine_path, "", PGC_SIGHUP, GUC_SUPERUSER_ONLY, NULL, NULL,
	"Sets the path of the engine program; empty means vllm_pg_engine beside the library."},
	{"vllm.logits_processors", &vllm_logits_processors, "", PGC_POSTMASTER, GUC_SUPERUSER_ONLY, NULL,
	 "logits_processors",
	"Sets the logits processors that the engine loads: a list of library:symbol."},
	{"vllm.engine_args", &vllm_engine_args, "", PGC_SIGHUP, GUC_SUPERUSER_ONLY, NULL, NULL,
	"Additional arguments of the engine program, from its next start on."},
	{"vllm.cpu_affinity", &vllm_cpu_affinity, "", PGC_SIGHUP, 0, check_affinity, "cpu_affinity",
	"Binds compute threads to CPUs: a list such as 0-3,8, auto for all that the engine may use, empty for "
	"none."},
	{"vllm.cpu_isa", &vllm_cpu_isa, "auto", PGC_SIGHUP, 0, check_isa, "cpu_isa",
	"Sets the instruction set of the CPU kernels: auto, portable, avx2, avx2_vnni, avx512, avx512_vnni or "
	"avx512_bf16."},
	{"vllm.device", &vllm_device, "auto", PGC_SIGHUP, 0, check_device, "device",
	"Sets what models are computed on: auto, cpu, cuda or cuda:N; of several ranks a list, such as "
	"cuda:0,cuda:1."},
	{"vllm.device_library", &vllm_device_library, "", PGC_SIGHUP, GUC_SUPERUSER_ONLY, check_path,
	 "device_library",
	"Sets the path of the library of CUDA devices; empty means vllm_pg_cuda.so beside the engine program."},
	{"vllm.nccl_path", &vllm_nccl_path, "", PGC_SIGHUP, GUC_SUPERUSER_ONLY, check_nccl_path, "nccl_path",
	"Sets the path of the NCCL library for ranks on GPUs; empty means the loader's search path, off means "
	"that ranks exchange through the host."},
	{"vllm.cuda_kernels", &vllm_cuda_kernels, "auto", PGC_SIGHUP, 0, check_cuda_kernels, "cuda_kernels",
	"Sets which kernels CUDA devices use: auto, mma, or wgmma (compute capability 9.0 only)."},
	{"vllm.cuda_visible_devices", &vllm_cuda_visible_devices, "", PGC_SIGHUP, 0, check_visible, NULL,
	"Sets CUDA_VISIBLE_DEVICES of the engine process, from its next start on; empty means that of the "
	"server."},
	{"vllm.kv_cache_dtype", &vllm_kv_cache_dtype, "auto", PGC_SIGHUP, 0, check_kv_dtype, "kv_cache_dtype",
	"Sets the type of the KV cache: auto (the model's), float32, float16, bfloat16, int8, fp8 (the same as "
	"fp8_e4m3), fp8_e4m3 or fp8_e5m2."},
	{"vllm.huge_pages", &vllm_huge_pages, "try", PGC_SIGHUP, 0, check_huge_pages, "huge_pages",
	"Sets the use of huge pages for weights and KV caches: try (transparent ones), off or on (reserved ones, "
	"or an error)."},
	{"vllm.tensor_parallel_mode", &vllm_tensor_parallel_mode, "columns", PGC_SIGHUP, 0, check_parallel_mode,
	 "tensor_parallel_mode",
	"Sets how processes split matrices whose input is split: columns, with the same bits as one process; "
	"rows, with sums of partial results."},
	{"vllm.expert_placement_strategy", &vllm_expert_placement, "linear", PGC_SIGHUP, 0, check_placement,
	 "expert_placement_strategy",
	"Sets which experts each process has whole, from the engine's next start on: linear, a run of them; "
	"round_robin, one in turn."},
	{"vllm.eplb_config", &vllm_eplb_config, "", PGC_SIGHUP, 0, check_eplb_config, "eplb_config",
	"Sets how experts move, as a JSON object, from the engine's next start on; empty means the defaults."},
	{"vllm.scheduling_policy", &vllm_scheduling_policy, "fcfs", PGC_SIGHUP, 0, check_policy,
	 "scheduling_policy",
	"Sets the order in which waiting requests are served: fcfs (in turn over sessions) or priority."},
	{"vllm.speculative_config", &vllm_speculative_config, "", PGC_SIGHUP, 0, check_speculative_config,
	 "speculative_config",
	"Sets speculative decoding, as a JSON object, in models that are loaded from now on; empty means none."},
	{"vllm.logprobs_mode", &vllm_logprobs_mode, "raw_logprobs", PGC_SIGHUP, 0, check_logprobs_mode,
	 "logprobs_mode",
	"Sets what is returned as log-probabilities: raw_logprobs, raw_logits, processed_logprobs or "
	"processed_logits."},
	{"vllm.prefix_cache_isolation", &vllm_prefix_cache_isolation, "role", PGC_SIGHUP, 0, check_isolation,
	 "prefix_cache_isolation",
	"Sets which requests share cached prefixes: none (those of all roles), role or database."},
	{"vllm.lora_dtype", &vllm_lora_dtype, "auto", PGC_SIGHUP, 0, check_lora_dtype, "lora_dtype",
	"Sets the type in which adapters are kept: auto (their files'), float16, bfloat16 or float32."},
	{"vllm.sleep_requests", &vllm_sleep_requests, "error", PGC_USERSET, 0, check_sleep_requests, NULL,
	"Sets what a call to a sleeping model does: error, or wait until the model wakes."},
	{"vllm.traceparent", &vllm_traceparent, "", PGC_USERSET, 0, check_traceparent, NULL,
	"Sets the W3C trace context (traceparent) of LLM requests; empty means none."},
	{"vllm.tracestate", &vllm_tracestate, "", PGC_USERSET, 0, check_tracestate, NULL,
	"Sets the W3C trace state (tracestate) that goes with vllm.traceparent."},
	{"vllm.kv_offload_directory", &vllm_kv_offload_directory, "", PGC_SIGHUP, GUC_SUPERUSER_ONLY, check_path,
	 "kv_offload_directory",
	"Sets the directory for blocks that the KV caches evict, where the engine finds them after a restart; "
	"empty means none."},
	{"vllm.seccomp", &vllm_seccomp, "on", PGC_SIGHUP, GUC_SUPERUSER_ONLY, check_seccomp, "seccomp",
	"Filters the system calls of the engine, the HTTP server and the remote program, from their next start "
	"on: on, off, or require, which also forbids a start without the filter."},
	{"vllm.repack_cache", &vllm_repack_cache, "", PGC_SIGHUP, GUC_SUPERUSER_ONLY, check_path, "repack_cache",
	"Sets the directory in which packed weights are kept for the next load; empty means nowhere."},
};

/*
 * Check that the value is in the list, ignoring case as for PostgreSQL's enums; *value becomes the
 * list's spelling.
 */
static bool
one_of(char **value, const char *const *list, const char *what)
{
	StringInfoData all;

	initStringInfo(&all);
	for (int i = 0; list[i]; i++)
	{
		if (pg_strcasecmp(*value, list[i]) == 0)
		{
			strcpy(*value, list[i]);
			return true;
		}
		appendStringInfo(&all, "%s%s", i ? ", " : "", list[i]);
	}
	GUC_check_errdetail("%s must be one of: %s.", what, all.data);
	return false;
}

static bool
check_isa(char **newval, void **extra, GucSource source)
{
	static const char *const names[] = {"auto", "ref", "portable", "avx2", "avx2_vnni", "avx512",
										"avx512_vnni", "avx512_bf16", NULL};

	return one_of(newval, names, "The instruction set");
}

static bool
check_seccomp(char **newval, void **extra, GucSource source)
{
	static const char *const names[] = {"on", "off", "require", NULL};

	return one_of(newval, names, "The value");
}

static bool
check_tool_parser(char **newval, void **extra, GucSource source)
{
	static const char *const names[] = {
#define TOOL_PARSER(name, symbol) name,
#include "parsers/tool/tools.def"
#undef TOOL_PARSER
		NULL
	};

	if (*newval == NULL || **newval == '\0' || one_of(newval, names, "The parser of tool calls"))
		return true;
	GUC_check_errhint("Empty means none: answers are text.");
	return false;
}

static bool
check_reasoning_parser(char **newval, void **extra, GucSource source)
{
	static const char *const names[] = {
#define REASONING_PARSER(name, symbol) name,
#include "parsers/reasoning/reasoning.def"
#undef REASONING_PARSER
		NULL
	};

	if (*newval == NULL || **newval == '\0' || one_of(newval, names, "The parser of reasoning"))
		return true;
	GUC_check_errhint("Empty means none: thoughts are part of the answer.");
	return false;
}

/* The engine finds out at a model's load which CPUs it may use. */
static bool
check_affinity(char **newval, void **extra, GucSource source)
{
	int			cpus[CPULIST_CPUS];
	char		why[128];

	if (cpulist_parse(*newval, cpus, why, sizeof(why)) != CPULIST_BAD)
		return true;
	GUC_check_errdetail("%s.", why);
	GUC_check_errhint("Give CPU numbers and ranges such as 0-3,8 or 0-14:2, auto, or nothing.");
	return false;
}

/* The engine finds the devices.  "host" and "moat" are for tests (docs/internals/testing.md). */
static bool
check_device(char **newval, void **extra, GucSource source)
{
	const char *s = *newval;
	int			n = 0;

	if (strcmp(s, "auto") == 0 || strcmp(s, "cpu") == 0 || strcmp(s, "cuda") == 0 || strcmp(s, "host") == 0 ||
		strcmp(s, "moat") == 0)
		return true;
	/*
	 * several devices, separated by commas, are for ranks; the engine's setting has room for at most
	 * RANKS_MOST
	 */
	for (const char *at = s; n < RANKS_MOST && strncmp(at, "cuda:", 5) == 0; n++)
	{
		size_t		digits = strspn(at + 5, "0123456789");

		at += 5 + digits;
		if (digits < 1 || digits > 2 || (*at != '\0' && *at != ','))
			break;
		if (*at == '\0')
			return true;
		at++;
	}
	GUC_check_errdetail("The device must be auto, cpu, cuda or cuda:N, or for ranks a list such as "
						"cuda:0,cuda:1.");
	return false;
}

static bool
check_cuda_kernels(char **newval, void **extra, GucSource source)
{
	static const char *const names[] = {"auto", "mma", "wgmma", NULL};

	return one_of(newval, names, "The value");
}

static bool
check_nccl_path(char **newval, void **extra, GucSource source)
{
	if (strcmp(*newval, "off") == 0 || check_path(newval, extra, source))
		return true;
	if ((*newval)[0] != '/')
		GUC_check_errdetail("The value must be \"off\" or an absolute path.");
	return false;
}

/* The value becomes part of the engine's environment: only numbers and UUIDs are allowed. */
static bool
check_visible(char **newval, void **extra, GucSource source)
{
	size_t		n = strlen(*newval);

	if (n < 512 && strspn(*newval, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-,/") == n)
		return true;
	GUC_check_errdetail("The value is a list of devices' numbers or UUIDs, with commas and without spaces.");
	return false;
}

static bool
check_kv_dtype(char **newval, void **extra, GucSource source)
{
	static const char *const names[] = {"auto", "float32", "float16", "bfloat16", "int8", "fp8", "fp8_e4m3",
										"fp8_e5m2", NULL};

	return one_of(newval, names, "The type");
}

static bool
check_huge_pages(char **newval, void **extra, GucSource source)
{
	static const char *const names[] = {"try", "off", "on", NULL};

	return one_of(newval, names, "The value");
}

static bool
check_placement(char **newval, void **extra, GucSource source)
{
	static const char *const names[] = {"linear", "round_robin", NULL};

	return one_of(newval, names, "The value");
}

static bool
check_parallel_mode(char **newval, void **extra, GucSource source)
{
	static const char *const names[] = {"columns", "rows", NULL};

	return one_of(newval, names, "The value");
}

static bool
check_policy(char **newval, void **extra, GucSource source)
{
	static const char *const names[] = {"fcfs", "priority", NULL};

	return one_of(newval, names, "The value");
}

static bool
check_logprobs_mode(char **newval, void **extra, GucSource source)
{
	static const char *const names[] = {"raw_logprobs", "raw_logits", "processed_logprobs",
										"processed_logits", NULL};

	return one_of(newval, names, "The value");
}

static bool
check_lora_dtype(char **newval, void **extra, GucSource source)
{
	static const char *const names[] = {"auto", "float16", "bfloat16", "float32", NULL};

	return one_of(newval, names, "The type");
}

static bool
check_lora_rank(int *newval, void **extra, GucSource source)
{
	static const int ranks[] = {1, 8, 16, 32, 64, 128, 256, 320, 512};

	for (int i = 0; i < (int) lengthof(ranks); i++)
		if (*newval == ranks[i])
			return true;
	GUC_check_errdetail("The rank must be one of: 1, 8, 16, 32, 64, 128, 256, 320, 512.");
	return false;
}

static bool
check_isolation(char **newval, void **extra, GucSource source)
{
	static const char *const names[] = {"none", "role", "database", NULL};

	return one_of(newval, names, "The value");
}

static bool
check_sleep_requests(char **newval, void **extra, GucSource source)
{
	static const char *const names[] = {"error", "wait", NULL};

	return one_of(newval, names, "The value");
}

static bool
check_cost_window(char **newval, void **extra, GucSource source)
{
	static const char *const names[] = {"day", "month", "none", NULL};

	return one_of(newval, names, "The value");
}

static bool
check_on_error(char **newval, void **extra, GucSource source)
{
	static const char *const names[] = {"error", "null", NULL};

	return one_of(newval, names, "The value");
}

static bool
check_traceparent(char **newval, void **extra, GucSource source)
{
	if (**newval == '\0' || traceparent_ok(*newval, strlen(*newval)))
		return true;
	GUC_check_errhint("A traceparent looks like 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.");
	return false;
}

static bool
check_tracestate(char **newval, void **extra, GucSource source)
{
	if (tracestate_ok(*newval, strlen(*newval)))
		return true;
	GUC_check_errhint("A tracestate is a list of at most 32 pairs such as vendor=value, of at most 512 "
					  "bytes.");
	return false;
}

/* longest value that fits into a line on the control socket with the longest name of such a setting */
#define MAX_DIRECTORY	(CONTROL_LINE - strlen(CONTROL_CONFIG " kv_offload_directory=\n"))

/* The value is sent to the engine as a line: it must be an absolute path without control characters. */
static bool
check_path(char **newval, void **extra, GucSource source)
{
	const char *s = *newval;

	if (s[0] != '\0' && s[0] != '/')
	{
		GUC_check_errdetail("The value must be an absolute path.");
		return false;
	}
	if (strlen(s) > MAX_DIRECTORY)
	{
		GUC_check_errdetail("The path is too long (maximum is %d bytes).", (int) MAX_DIRECTORY);
		return false;
	}
	for (; *s != '\0'; s++)
		if ((unsigned char) *s < ' ')
		{
			GUC_check_errdetail("The path must not contain control characters.");
			return false;
		}
	return true;
}

static bool
check_block_size(int *newval, void **extra, GucSource source)
{
	if (*newval % 16 == 0)
		return true;
	GUC_check_errdetail("The block size must be a multiple of 16.");
	return false;
}

void
vllm_guc_init(void)
{
	for (int i = 0; i < (int) lengthof(int_rows); i++)
	{
		const IntRow *r = &int_rows[i];

		/*
		 * the engine checks that vllm.max_cpu_loras is at least vllm.max_loras, since a file may set
		 * them in any order
		 */
		GucIntCheckHook check = r->var == &vllm_block_size ? check_block_size : r->var == &vllm_max_lora_rank
			? check_lora_rank : NULL;

		DefineCustomIntVariable(r->name, r->desc, NULL, r->var, r->boot, r->min, r->max, r->context, r->flags,
								check, NULL, NULL);
	}
	DefineCustomRealVariable("vllm.kv_cache_metrics_sample",
							 "Sets the fraction of the KV cache's blocks whose lifetimes the metrics sample, "
							 "in models that are loaded from now on; 0 means none.", NULL,
							 &vllm_kv_metrics_sample, 0.01, 0, 1, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomRealVariable("vllm.gpu_memory_utilization",
							 "Sets the part of a GPU's memory that may be in use, by any process, when a "
							 "model is loaded there: what is left of it is for the KV cache.", NULL,
							 &vllm_gpu_memory_utilization, 0.9, 0.05, 1, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomRealVariable("vllm.max_cost",
							 "Limits what the LLM requests of one statement may cost, by the prices of their "
							 "models; 0 means no limit.", NULL, &vllm_max_cost, 0, 0, 1e6, PGC_USERSET, 0,
							 NULL, NULL, NULL);
	DefineCustomRealVariable("vllm.role_max_cost",
							 "Limits what the LLM requests of the role may cost in vllm.role_cost_window, "
							 "over all its sessions; 0 means no limit.", NULL, &vllm_role_max_cost, 0, 0, 1e6,
							 PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomRealVariable("vllm.max_error_ratio",
							 "Sets which fraction of a statement's LLM requests may fail and be NULL, of at "
							 "least 20 that have finished, before the statement fails.", NULL,
							 &vllm_max_error_ratio, 1, 0, 1, PGC_USERSET, 0, NULL, NULL, NULL);
	for (int i = 0; i < (int) lengthof(string_rows); i++)
	{
		const StringRow *r = &string_rows[i];

		DefineCustomStringVariable(r->name, r->desc, NULL, r->var, r->boot, r->context, r->flags,
								   r->check, NULL, NULL);
	}
	for (int i = 0; i < (int) lengthof(bool_rows); i++)
	{
		const BoolRow *r = &bool_rows[i];

		DefineCustomBoolVariable(r->name, r->desc, NULL, r->var, r->boot, r->context, 0,
								 NULL, NULL, NULL);
	}
}

char *
vllm_guc_engine_config(void)
{
	StringInfoData s;

	initStringInfo(&s);
	for (int i = 0; i < (int) lengthof(int_rows); i++)
		if (int_rows[i].engine)
			appendStringInfo(&s, "%s=%d\n", int_rows[i].engine, *int_rows[i].var);
	for (int i = 0; i < (int) lengthof(bool_rows); i++)
		if (bool_rows[i].engine)
			appendStringInfo(&s, "%s=%s\n", bool_rows[i].engine, *bool_rows[i].var ? "on" : "off");
	for (int i = 0; i < (int) lengthof(string_rows); i++)
		if (string_rows[i].engine)
			appendStringInfo(&s, "%s=%s\n", string_rows[i].engine, *string_rows[i].var);
	/* a number without a fraction, like all numbers there: in millionths */
	appendStringInfo(&s, "gpu_memory_utilization=%d\n", (int) rint(vllm_gpu_memory_utilization * 1e6));
	appendStringInfo(&s, "kv_cache_metrics_sample=%d\n", (int) rint(vllm_kv_metrics_sample * 1e6));
	return s.data;
}
