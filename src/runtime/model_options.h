/*
 * model_options.h
 *	  The options of a model, as its catalog entry has them.
 *
 * server/models/model_options.c reads them; backends and ranks take them as they are.
 */
#ifndef VLLM_RUNTIME_MODEL_OPTIONS_H
#define VLLM_RUNTIME_MODEL_OPTIONS_H

#include "quant/quantize.h"
#include "runtime/capture_sizes.h"
#include "runtime/engine_settings.h"

typedef struct BackendModel BackendModel;		/* a loaded model (backend.h) */

#define SPEC_TEXT		2048	/* speculative_config's text is shorter */

/* Options of a catalog entry; 0 or "" = not given */
typedef struct ModelOpts
{
	int			max_model_len;
	int			max_num_seqs;
	int			max_num_batched_tokens;
	int			max_num_partial_prefills;
	int			max_long_partial_prefills;
	int			long_prefill_token_threshold;
	int64_t		kv_cache_memory_bytes;
	double		gpu_memory_utilization;
	char		kv_cache_dtype[16];
	int			kv_scales;		/* "calculate_kv_scales": 1, -1; 0 = not given */
	int			no_windows;		/* "disable_hybrid_kv_cache_manager": 1, -1; 0 = not given */
	char		quantization[16];	/* a QuantScheme's name */
	char		dtype[16];		/* a QuantScheme's name; if quantization is not given */
	bool		no_jump;		/* "jump_forward": false */
	int			enforce_eager;	/* 1, -1; 0 = not given */
	int			fp8_activations;	/* 1, -1; 0 = not given */
	int			capture_sizes[GRAPH_SIZES]; /* "cudagraph_capture_sizes" */
	int			n_capture_sizes;	/* 0 = not given */
	int			prefix_caching; /* "enable_prefix_caching": 1, -1; 0 = not given */
	int			enable_lora;	/* 1, -1; 0 = not given */
	int			max_loras;
	int			max_cpu_loras;
	int			max_lora_rank;
	char		lora_dtype[12];
	char		speculative_config[SPEC_TEXT];	/* a JSON object, or "null": off */
	bool		has_keep_alive; /* "keep_alive", */
	int64_t		keep_alive;		/* "keep_alive" in seconds; -1 = no limit, and pinned */
	double		rope_theta;
	char		rope_scaling[4096]; /* a JSON object */
	char		hf_overrides[4096]; /* a JSON object: keys of config.json */
	const BackendModel *for_adopt;		/* not an option: it is loaded for Backend.adopt() into this one, where that is computed, and never runs */
	const BackendModel *in_place_of;	/* not an option: it never goes from that one's device to CPUs */
} ModelOpts;

/* What float matrices become by "quantization" or else "dtype"; NULL = what they are (model_options.c). */
const QuantScheme *model_opts_scheme(const ModelOpts *o);

/* What adapters may be; of a model's options and, where these are silent, the settings (model_options.c). */
typedef struct LoraLimits
{
	bool		enabled;
	int			max_loras;		/* distinct ones in a step */
	int			max_cpu_loras;	/* in memory, at least max_loras */
	int			max_rank;
	char		dtype[12];		/* of their matrices: auto, float16, bfloat16, float32 */
} LoraLimits;

bool		lora_limits(const ModelOpts *o, const Settings *s, LoraLimits *out, Err *e);

#endif
