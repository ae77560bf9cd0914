/*
 * engine_settings.h
 *	  The engine's settings: --set name=value at start, "config" lines later (control_protocol.h).
 */
#ifndef VLLM_RUNTIME_ENGINE_SETTINGS_H
#define VLLM_RUNTIME_ENGINE_SETTINGS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels.h"
#include "ipc/cpu_list.h"

#define KV_CACHE_BYTES	(INT64_C(512) << 20)
#define GPU_PART_LEAST	0.05		/* least gpu_memory_utilization */
#define NCCL_OFF		"off"		/* value of nccl_path that turns NCCL off */
#define LORA_MAX_CACHED	4096	/* most adapters of a model in memory */
#define LORA_DTYPES		"auto, float16, bfloat16 or float32"	/* values of lora_dtype */
#define LORA_RANKS		"1, 8, 16, 32, 64, 128, 256, 320 and 512"	/* values of max_lora_rank */

#define LOGPROBS_MAX	20		/* most logprobs of a request if vllm.max_logprobs is not set */

typedef struct Settings
{
	int			cpu_threads;	/* compute threads; 0 = one for each CPU that may be used */
	char		cpu_affinity[CPULIST_LEN];	/* "" = threads are not pinned, "auto", or a list
											 * (ipc/cpu_list.h) */
	char		cpu_isa[32];	/* "auto" or a kernel set's name */
	char		device[128];	/* auto, cpu, cuda, cuda:N, or cuda:N,cuda:N... */
	char		device_library[1024];	/* "" = look beside the engine (devices.h) */
	char		nccl_path[1024];	/* "" = let the loader search, "off" = no NCCL */
	char		cuda_kernels[8];	/* auto, mma, wgmma */
	int			tensor_parallel_size;	/* ranks that split matrices by columns (ranks.h) */
	int			pipeline_parallel_size; /* pipeline stages: groups of ranks that share layers */
	int			data_parallel_size; /* replicas of the model, each with requests of its own */
	char		tensor_parallel_mode[8];	/* columns, rows */
	char		expert_placement_strategy[12];	/* linear, round_robin */
	bool		enable_expert_parallel; /* each expert is on one rank as a whole */
	bool		enable_eplb;	/* experts migrate between ranks */
	char		eplb_config[1024];	/* a JSON object, "" = none; checked when a model is loaded */
	int			max_num_seqs;
	int			max_num_batched_tokens; /* this and max_num_seqs: 0 = from the machine (batch_limits.h) */
	int			max_num_partial_prefills;	/* 0 = any number */
	int			max_long_partial_prefills;
	int			long_prefill_token_threshold;	/* 0 = no prompt is long */
	int			block_size;		/* tokens of a KV block */
	int64_t		kv_cache_memory_bytes;	/* per model; 0 = KV_CACHE_BYTES, or on a device the memory that is
										 * left */
	int			gpu_memory_utilization; /* part of a device's memory that may be in use, in millionths */
	int64_t		kv_offload_bytes;	/* memory for blocks evicted from the KV cache; 0 = none */
	char		kv_offload_directory[1024]; /* directory for such blocks; "" = none */
	int64_t		kv_offload_disk_bytes;
	char		kv_cache_dtype[16]; /* auto or a type (settings_kv_type) */
	bool		no_windows;		/* layers with a window keep all tokens, too */
	int			kv_metrics_sample;	/* part of the blocks whose lifetimes are sampled, in millionths */
	bool		calculate_kv_scales;	/* compute scales of an FP8 KV cache when a model is loaded */
	char		huge_pages[8];	/* try, off, on */
	char		seccomp[8];		/* on, off, require; applies when the process starts */
	char		repack_cache[1024]; /* directory for packed weights, "" = none */
	char		logits_processors[1024];	/* library:symbol, ...; "" = none (logits_processors.h) */
	int			hang_timeout_ms;	/* 0 = no limit */
	int			step_target_ms; /* 0 = only the token budget limits a step */
	bool		batch_invariant;
	char		scheduling_policy[12];	/* fcfs, priority */
	int			background_share;	/* percent */
	bool		enforce_eager;	/* devices record no decode steps */
	bool		enable_prefix_caching;	/* requests with the same prefix share its KV blocks */
	char		prefix_cache_isolation[12]; /* which requests may share: none, role, database */
	bool		enable_lora;	/* requests may name adapters */
	int			max_loras;		/* different adapters in a step */
	int			max_cpu_loras;	/* adapters of a model in memory; 0 = max_loras */
	int			max_lora_rank;
	char		lora_dtype[12]; /* auto, float16, bfloat16, float32 */
	char		speculative_config[1024];	/* a JSON object, "" = none; checked when a model is loaded */
	int			max_models;		/* models that the engine may know, loaded or not */
	int64_t		memory_limit;	/* for all models together; 0 = none */
	int			memory_timeout_ms;	/* how long a load waits for room */
	int			keep_alive;		/* seconds that an idle model stays loaded; -1 = for ever */
	int			max_logprobs;	/* most that a request may ask for; -1 = no limit */
	char		logprobs_mode[20];	/* raw_logprobs, raw_logits, processed_logprobs, processed_logits */
	int			fake_step_ms;	/* --fake: duration of a step */
	int			fake_batch;		/* --fake: requests finished per step */
} Settings;

/* The current settings: the control thread writes them, all threads read a snapshot. */
typedef struct SettingsBox
{
	pthread_mutex_t lock;
	Settings	s;
} SettingsBox;

void		settings_box_init(SettingsBox *b);
void		settings_get(SettingsBox *b, Settings *out);
bool		settings_equal(const Settings *a, const Settings *b);
/* Parse and set one "name=value" text. */
bool		settings_assign(SettingsBox *b, const char *text, Err *e);
/*
 * Return the group of requests with which a request of this role and database shares K and V:
 * ReqSpec.owner.
 */
uint64_t	settings_owner(SettingsBox *b, uint32_t dboid, uint32_t roleid);
/* Return the number of compute threads of a model that is loaded now. */
int			settings_threads(const Settings *s);

/* Return the bytes of a model's KV cache on CPUs; option: the model's option, 0 = not given. */
int64_t		settings_kv_bytes(int64_t option, const Settings *s);
/* Return the KV type for "auto": as precise as the weights, F16 for quantized weights. */
KType		settings_kv_auto(KType weights);
/*
 * Parse a type of the KV cache; auto: the type for a model with such weights.  Returns false for an
 * unknown name.
 */
bool		settings_kv_type(const char *s, KType weights, KType *out);
#define KV_DTYPES "auto, float32, float16, bfloat16, int8, fp8, fp8_e4m3 or fp8_e5m2"
/* Return true for a value of LORA_DTYPES, or of LORA_RANKS. */
bool		lora_dtype_ok(const char *s);
bool		lora_rank_ok(int rank);

#endif
