/*
 * backend_core.h
 *	  The instance of the real backend, for the three files that make it up.
 *
 * backend_core.c loads and frees it (ModelLoader), backend_generator.c answers requests (Generator),
 * backend_control.c tells its state, and puts it to sleep or gives it other weights (ModelControl).
 */
#ifndef VLLM_BACKEND_BACKEND_CORE_H
#define VLLM_BACKEND_BACKEND_CORE_H

#include "backend/backend.h"
#include "backend/model_digest.h"
#include "backend/pooling/pooling_inputs.h"
#include "backend/replica_router.h"
#include "core/offload/tier.h"
#include "core/ranks/ranks.h"
#include "runtime/devices.h"

struct BackendModel
{
	Core	   *core;			/* NULL: a tokenizer only */
	Tok		   *tok;			/* of that; else it is the Core's */
	KPool	   *pool;
	const Kernels *kernels;
	DeviceChoice where;			/* what it is to be computed on, */
	bool		tried;			/* the files are good; the load can fail only on the device */
	Dev		   *dev;			/* NULL = CPUs */
	uint64_t	draft_bytes;	/* weights of what drafts */
	int64_t		tok_bytes;		/* of the tokenizer */
	ChatModel  *chat;
	PoolModel  *pooling;		/* NULL: a tokenizer only */
	KvTier	   *tier;			/* behind the KV cache; NULL = none */
	KDevOpen	open;			/* arguments with which dev was opened */
	RankModel  *ranks;			/* who computes it, too; NULL = nobody */
	const char *path;			/* of its files; while it is loaded */
	ModelDigest *digest;
	/* of the whole model, whatever part of it is here */
	char		shape[sizeof(((ModelFacts *) 0)->shape)];
	int			replica;
	BackendModel *next;			/* the next replica; NULL = it is the last */
	Replicas   *queue;			/* the first of several has it */
	bool		weights_dropped;	/* its weights are in a file: here, */
	bool		ranks_weights_dropped;	/* weights of the other ranks are in files, too */
};

extern const Generator backend_core_generator;
extern const ModelControl backend_core_control;

#endif
