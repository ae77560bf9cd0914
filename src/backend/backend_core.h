/*
 * backend_core.h
 *	  The instance of the real backend, private to the three files that implement it.
 *
 * backend_core.c loads and frees it (ModelLoader), backend_generator.c serves requests (Generator),
 * backend_control.c reports its state, puts it to sleep and swaps its weights (ModelControl).
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
	Core	   *core;			/* NULL: the instance is only a tokenizer */
	Tok		   *tok;			/* only if core is NULL; else the Core owns the tokenizer */
	KPool	   *pool;
	const Kernels *kernels;
	DeviceChoice where;			/* device that the load has chosen */
	bool		tried;			/* the files are valid, so a failure of the load may be the device's */
	Dev		   *dev;			/* NULL = CPUs */
	uint64_t	draft_bytes;	/* weight bytes of the drafter */
	int64_t		tok_bytes;		/* memory of the tokenizer */
	ChatModel  *chat;
	PoolModel  *pooling;		/* NULL: the instance is only a tokenizer */
	KvTier	   *tier;			/* offload tier of the KV cache; NULL = none */
	KDevOpen	open;			/* arguments with which dev was opened */
	RankModel  *ranks;			/* other ranks that compute this model; NULL = none */
	const char *path;			/* path of its files; valid during the load */
	ModelDigest *digest;
	/* shape of the whole model, even if this rank has only a part of it */
	char		shape[sizeof(((ModelFacts *) 0)->shape)];
	int			replica;
	BackendModel *next;			/* next replica; NULL = this is the last one */
	Replicas   *queue;			/* router among replicas; only the first replica has it; NULL = one replica */
	bool		weights_dropped;	/* this rank's weights are dropped or in a file */
	bool		ranks_weights_dropped;	/* weights of the other ranks are dropped or in files */
};

extern const Generator backend_core_generator;
extern const ModelControl backend_core_control;

#endif
