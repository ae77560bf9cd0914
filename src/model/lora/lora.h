/*
 * lora.h
 *	  Low-rank adapters: y + scale * (x A^T) B^T beside a model's matrices.
 *
 * An adapter is read once and never changes.  It has its own memory and knows nothing of a model but
 * the sizes that it was made for, so whoever holds one may outlive the model.  A model's matrices
 * that can have something added are numbered: targets.  What files call a module
 * ("model.layers.0.self_attn.q_proj") is a part of a target, perhaps with its outputs in another order;
 * bind.c knows (LoraSite).
 *
 * Of a model that ranks share (shard.h) each rank has an adapter of its own: A whole, and of B the outputs
 * that the rank has of the matrix.  So what is added has the bits that it has on one rank.
 */
#ifndef VLLM_MODEL_LORA_LORA_H
#define VLLM_MODEL_LORA_LORA_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels.h"
#include "model/weights/device_arena.h"

/* What an adapter's files say. */
typedef struct LoraInfo
{
	int			rank;			/* the greatest of its matrices' */
	double		alpha;			/* lora_alpha */
	bool		rslora;			/* scaled by alpha / sqrt(rank), not alpha / rank */
	int64_t		bytes;			/* of its matrices, as they are kept */
	char		base[256];		/* base_model_name_or_path, cut; "" = not said */
	char		modules[512];	/* q_proj, v_proj, ...: what it adds to; cut */
} LoraInfo;

/* What files have for a module. */
typedef struct LoraModule
{
	const char *name;
	bool		embedding;		/* a is a table: a column for each token */
	double		scale;
	const KTensor *a;			/* [rank][inputs] */
	const KTensor *b;			/* [outputs][rank] */
	const KTensor *base;		/* weights that must be the model's own; then there are no others */
} LoraModule;

/* All that is added to one matrix. */
typedef struct LoraTarget
{
	KLora	   *parts;
	int			n;
	int			width;			/* of all their ranks */
} LoraTarget;

typedef struct LoraAdapter
{
	uint64_t	id;				/* of these files in this process, never 0 */
	unsigned char content[32];	/* a digest of what is in its files, by their times; zeros: not known */
	LoraInfo	info;
	char		label[64];		/* the last part of its path */
	/* that it was first asked for by, as far as it may stand in a list; set by who caches */
	char		name[64];
	LoraTarget *targets;		/* [n_targets] */
	int			n_targets;
	int			width;			/* of the widest target */
	KLora	   *parts;			/* all there are */
	void	   *data;			/* their matrices, */
	const Dev  *pinned;			/* matrices in memory of this device's kind; NULL = the host's */
	DevMem		mem;			/* the same on the device, and data is NULL then */
	uint32_t	shared;			/* its number on other ranks of the model, 0 = there are none, */
	void		(*unshare) (uint32_t shared);	/* makes other ranks forget it; NULL: there are none */
	/* the same for the model's next replica, freed with this one; NULL: this is for all behind it, too */
	struct LoraAdapter *next;
} LoraAdapter;

void		lora_free(LoraAdapter *a);

#endif
