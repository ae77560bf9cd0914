/*
 * model_options.h
 *	  The options of a model, as its catalog entry has them.
 *
 * model_options.def has a row for each.  server/models/model_options.c parses them; backends and ranks
 * get the parsed values.
 */
#ifndef VLLM_RUNTIME_MODEL_OPTIONS_H
#define VLLM_RUNTIME_MODEL_OPTIONS_H

#include "quant/quantize.h"
#include "runtime/capture_sizes.h"
#include "runtime/engine_settings.h"

typedef struct BackendModel BackendModel;		/* a loaded model (backend.h) */

#define SPEC_TEXT		2048	/* buffer for speculative_config's text, including the NUL */

/* The members of ModelOpts that a row of model_options.def defines, by its type */
#define OPT_MEMBER_INT(member, most) int member;
#define OPT_MEMBER_BIG(member, most) int64_t member;
#define OPT_MEMBER_NUM(member, most) double member;
#define OPT_MEMBER_SWITCH(member, most) int member;
#define OPT_MEMBER_OFF(member, most) bool member;
#define OPT_MEMBER_TEXT(member, most) char member[most];
#define OPT_MEMBER_SIZES(member, most) int member[most]; int n_##member;
#define OPT_MEMBER_SECONDS(member, most) int64_t member; bool has_##member;
#define OPT_MEMBER_ELSEWHERE(member, most)
#define OPT_MEMBER_CALLER(member, most)

/*
 * Options of a catalog entry.  Every option is a row of the table: a member outside of it would not be
 * part of the key that decides which entries share an instance.
 */
typedef struct ModelOpts
{
#define OPT(name, type, member, least, most, key, must) OPT_MEMBER_##type(member, most)
#include "runtime/model_options.def"
#undef OPT
	/*
	 * Not an option.  Set for an instance that is loaded only so that ModelControl.swap_weights() can
	 * move its weights into this instance.  It uses the same device, and never runs.
	 */
	const BackendModel *for_adopt;
	/*
	 * The instance that this one replaces.  If that one is on a device, this one never falls back to the
	 * CPUs, because nobody would notice the slowdown.
	 */
	const BackendModel *in_place_of;
} ModelOpts;

/*
 * Return the scheme to which float matrices are converted by "quantization" or else "dtype", with float
 * activations if "activation_scheme" says so; NULL = as in the file (model_options.c).
 */
const QuantScheme *model_opts_scheme(const ModelOpts *o);

/* Return the method of already quantized files that "quantization" names; "" = none. */
const char *model_opts_method(const ModelOpts *o);

/* Limits of adapters, from a model's options and else from the settings (model_options.c). */
typedef struct LoraLimits
{
	bool		enabled;
	int			max_loras;		/* different adapters in a step */
	int			max_cpu_loras;	/* adapters in memory, at least max_loras */
	int			max_rank;
	char		dtype[12];		/* type of their matrices: auto, float16, bfloat16, float32 */
} LoraLimits;

bool		lora_limits(const ModelOpts *o, const Settings *s, LoraLimits *out, Err *e);

#endif
