/*
 * peft_adapter.h
 *	  The files of an adapter, as the Python package peft writes them: adapter_config.json and
 *	  adapter_model.safetensors.
 *
 * As untrusted as a model's: what is used of them has been checked, and what would change the result but
 * isn't understood is refused.  What they fit, the model says.
 */
#ifndef VLLM_LOADER_PEFT_ADAPTER_H
#define VLLM_LOADER_PEFT_ADAPTER_H

#include "loader/model_files.h"

typedef struct AdapterModule
{
	char	   *name;			/* "model.layers.0.self_attn.q_proj" */
	bool		embedding;		/* a is a table: a column for each token */
	double		scale;
	const KTensor *a;			/* [rank][inputs] */
	const KTensor *b;			/* [outputs][rank] */
	const KTensor *base;		/* a copy of the model's own weights; then there are no others */
} AdapterModule;

/* An entry of alpha_pattern. */
typedef struct AdapterAlpha
{
	struct Pattern *of;			/* modules whose names end so */
	double		alpha;
} AdapterAlpha;

typedef struct Adapter
{
	Files	   *files;			/* for load_read_guard() */
	int			rank;			/* the greatest of the modules' */
	double		alpha;			/* lora_alpha */
	AdapterAlpha *alphas;		/* the first that fits a module counts */
	int			n_alphas;
	bool		rslora;
	char		base[256];		/* base_model_name_or_path, cut */
	char		names[512];		/* q_proj,v_proj,...: last words of the modules' names, cut */
	AdapterModule *modules;
	int			n;
} Adapter;

/*
 * ERR_IO (files that can't be read), ERR_BAD_FILE (that are broken), ERR_UNSUPPORTED (DoRA, modules_to_save,
 * biases, other methods than LoRA, tensors of no known kind).
 */
Adapter    *adapter_open(const char *path, Err *e);
void		adapter_close(Adapter *a);

#endif
