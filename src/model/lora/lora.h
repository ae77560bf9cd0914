/*
 * lora.h
 *	  Low-rank adapters: add scale * (x A^T) B^T to the outputs of a model's matrices.
 *
 * An adapter is read once and never changes.  It has its own memory and depends only on the sizes of the
 * model it was made for, so its owner may keep it longer than the model.  The model's matrices that
 * adapters can change are numbered: targets.  A module of the files ("model.layers.0.self_attn.q_proj")
 * is a part of a target, perhaps with its outputs in another order; bind.c records this (LoraSite).
 *
 * If ranks share a model (shard.h), each rank has its own adapter: the whole A, and of B the outputs
 * that the rank has of the matrix.  So the added values have the same bits as on one rank.
 */
#ifndef VLLM_MODEL_LORA_LORA_H
#define VLLM_MODEL_LORA_LORA_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels.h"
#include "model/weights/device_arena.h"

/* Settings of an adapter's files. */
typedef struct LoraInfo
{
	int			rank;			/* the greatest rank of its matrices */
	double		alpha;			/* lora_alpha */
	bool		rslora;			/* scaled by alpha / sqrt(rank), not alpha / rank */
	int64_t		bytes;			/* bytes of its matrices in memory */
	char		base[256];		/* base_model_name_or_path, truncated; "" = not given */
	char		modules[512];	/* q_proj, v_proj, ...: modules that it changes; truncated */
} LoraInfo;

/* The tensors of the files for one module. */
typedef struct LoraModule
{
	const char *name;
	bool		embedding;		/* a is a table with a column for each token */
	double		scale;
	const KTensor *a;			/* [rank][inputs] */
	const KTensor *b;			/* [outputs][rank] */
	const KTensor *base;		/* weights that must equal the model's own; then a and b are NULL */
} LoraModule;

/* All parts that are added to one matrix. */
typedef struct LoraTarget
{
	KLora	   *parts;
	int			n;
	int			width;			/* sum of their ranks */
} LoraTarget;

typedef struct LoraAdapter
{
	uint64_t	id;				/* identifies these files in this process, never 0 */
	unsigned char content[32];	/* digest of its files' contents, by their times; zeros: unknown */
	LoraInfo	info;
	char		label[64];		/* the last part of its path */
	/* name in its first request, as far as it may appear in a list; the adapter cache sets it */
	char		name[64];
	LoraTarget *targets;		/* [n_targets] */
	int			n_targets;
	int			width;			/* width of the widest target */
	KLora	   *parts;			/* parts of all targets */
	void	   *data;			/* their matrices */
	const Dev  *pinned;			/* matrices are in pinned memory for this device; NULL = ordinary host
								 * memory */
	DevMem		mem;			/* the matrices on the device; then data is NULL */
	uint32_t	shared;			/* its number on other ranks of the model, 0 = there are no other ranks */
	void		(*unshare) (uint32_t shared);	/* makes other ranks forget it; NULL: there are none */
	/* the same adapter for the model's next replica, freed with this one; NULL: this one serves all
	 * further replicas, too */
	struct LoraAdapter *next;
} LoraAdapter;

void		lora_free(LoraAdapter *a);

#endif
