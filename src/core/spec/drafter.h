/*
 * drafter.h
 *	  The core's interface to a drafter with weights of its own: a Draft (model/draft/draft.h), or a
 *	  stand-in of a test.
 *
 * The core owns it and calls it on the step thread.
 */
#ifndef VLLM_CORE_SPEC_DRAFTER_H
#define VLLM_CORE_SPEC_DRAFTER_H

#include "model/draft/draft.h"

typedef struct Drafter Drafter;

struct Drafter
{
	DraftInfo	info;
	int			fed_width;		/* draft_fed_width() */
	/* like draft_heads() and draft_forward() */
	void		(*heads) (Drafter *d, const float *hidden, const int32_t *tokens, int n, int k, int32_t *out);
	void		(*forward) (Drafter *d, const Batch *b, const KvView *kv, float *logits, float *fed);
	void		(*free) (Drafter *d);	/* frees also *d */
	/* like model_store(), model_fetch(), model_forget() and model_adopt() */
	bool		(*store) (Drafter *d, const char *dir, Err *e);
	bool		(*fetch) (Drafter *d, Err *e);
	void		(*forget) (Drafter *d);
	bool		(*adopt) (Drafter *d, Drafter *from, Err *e);
};

/* Return the bytes of the drafter's K and V in a block of the KV cache of block_size tokens. */
size_t		drafter_block_bytes(const DraftInfo *info, KType type, int block_size);

#endif
