/*
 * peft_adapter.h
 *	  The files of an adapter, as the Python package peft writes them: adapter_config.json and
 *	  adapter_model.safetensors.
 *
 * The files are as untrusted as a model's: the loader checks what it uses, and refuses settings that
 * would change the result and that it doesn't understand.  The model checks whether the adapter fits it.
 */
#ifndef VLLM_LOADER_PEFT_ADAPTER_H
#define VLLM_LOADER_PEFT_ADAPTER_H

#include "loader/model_files.h"

typedef struct AdapterModule
{
	char	   *name;			/* "model.layers.0.self_attn.q_proj" */
	bool		embedding;		/* a is a table with a column for each token */
	double		scale;
	const KTensor *a;			/* [rank][inputs] */
	const KTensor *b;			/* [outputs][rank] */
	const KTensor *base;		/* a copy of the model's own weights; then a and b are NULL */
} AdapterModule;

/* An entry of alpha_pattern. */
typedef struct AdapterAlpha
{
	struct Pattern *of;			/* pattern for the ends of module names */
	double		alpha;
} AdapterAlpha;

typedef struct Adapter
{
	Files	   *files;			/* for load_read_guard() */
	int			rank;			/* the greatest rank of the modules */
	double		alpha;			/* lora_alpha */
	AdapterAlpha *alphas;		/* the first that matches a module counts */
	int			n_alphas;
	bool		rslora;
	char		base[256];		/* base_model_name_or_path, truncated */
	char		names[512];		/* q_proj,v_proj,...: last words of the modules' names, truncated */
	AdapterModule *modules;
	int			n;
} Adapter;

/*
 * Open an adapter.  Errors: ERR_IO (unreadable files), ERR_BAD_FILE (broken files), ERR_UNSUPPORTED
 * (DoRA, modules_to_save, biases, methods other than LoRA, tensors of an unknown kind).
 */
Adapter    *adapter_open(const char *path, Err *e);
void		adapter_close(Adapter *a);

#endif
