/*
 * model_options.h
 *	  The options of a model, as its catalog entry has them.
 *
 * model_options.def has a row for each.  server/models/model_options.c reads them; backends and ranks take
 * them as they are.
 */
#ifndef VLLM_RUNTIME_MODEL_OPTIONS_H
#define VLLM_RUNTIME_MODEL_OPTIONS_H

#include "quant/quantize.h"
#include "runtime/capture_sizes.h"
#include "runtime/engine_settings.h"

typedef struct BackendModel BackendModel;		/* a loaded model (backend.h) */

#define SPEC_TEXT		2048	/* speculative_config's text is shorter */

/* The members that a row of model_options.def makes, by its type */
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

/* Options of a catalog entry.  An option is a row of the table, never a member of its own that no key has. */
typedef struct ModelOpts
{
#define OPT(name, type, member, least, most, key, must) OPT_MEMBER_##type(member, most)
#include "runtime/model_options.def"
#undef OPT
	/*
	 * no options.  It is loaded for ModelControl.swap_weights() into this one, where that is computed, and
	 * never runs
	 */
	const BackendModel *for_adopt;
	/* the one that this one follows; from a device none goes to the CPUs, as nobody would notice */
	const BackendModel *in_place_of;
} ModelOpts;

/* What float matrices become by "quantization" or else "dtype"; NULL = what they are (model_options.c). */
const QuantScheme *model_opts_scheme(const ModelOpts *o);

/* The method that "quantization" names, by which the files are quantized already; "" = none. */
const char *model_opts_method(const ModelOpts *o);

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
