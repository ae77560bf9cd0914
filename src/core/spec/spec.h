/*
 * spec.h
 *	  Speculation: compute tokens that may come next before it is known whether they do.
 *
 * A proposer makes draft tokens.  A step computes the drafts as further rows after the request's own;
 * each of the rows is then sampled as usual, one after the other, as long as the draft after a row equals
 * the token sampled from it (commit.c).  So a proposer only affects how soon an output is complete, not
 * its tokens.  docs/user/speculative-decoding.md describes the feature.
 *
 *	spec.c			speculation of a model: which requests get drafts, and how many
 *	draft_length.c	how many drafts are worth computing
 *	spec.def		the proposers, one file each
 *
 * Owner: the step thread.
 */
#ifndef VLLM_CORE_SPEC_SPEC_H
#define VLLM_CORE_SPEC_SPEC_H

#include "core/core_internal.h"
#include "core/spec/spec_config.h"

/* ---- proposers ---- */

/* The model's properties for a proposer. */
typedef struct SpecEnv
{
	const SpecConfig *conf;
	Core	   *core;			/* the core; NULL in tests of a proposer alone */
	int			max_seqs;
	int			max_rows;
	int			max_model_len;
	int			n_valid;		/* ids that may be sampled */
} SpecEnv;

/* A request for drafts: the proposer adds at most `most` tokens to r->spec->drafts, which is empty. */
typedef struct DraftRequest
{
	Req		   *r;
	int			most;
} DraftRequest;

/* A step that has been computed but not yet sampled. */
typedef struct SpecStep
{
	const Plan *plan;
	const Batch *batch;
	const KvView *kv;
} SpecStep;

#define SPEC_COSTLY		(1u << 0)	/* drafts take time to make: only those that will be computed are
									 * requested */
#define SPEC_WEIGHTS	(1u << 2)	/* the method has weights: CoreOptions.drafter */
#define SPEC_ALL		(1u << 1)	/* tests: all drafts are computed, whether worthwhile or not */

typedef struct ProposerType
{
	const char *name;			/* the method's name */
	unsigned	flags;
	/* *out: the proposer; returns false with *e set */
	bool		(*open) (const SpecEnv *env, void **out, Err *e);
	void		(*close) (void *p);
	/*
	 * make drafts for all requests of the next step at once; all tokens but each request's last one are
	 * computed
	 */
	void		(*propose) (void *p, DraftRequest *reqs, int n);
	/*
	 * The target is about to compute a step: the proposer may request outputs of the model in
	 * Batch.taps.  NULL = none.
	 */
	void		(*before) (void *p, const Plan *plan, Batch *batch);
	/* The target has computed the step, with prompts, pooled sequences and drafts.  NULL = not needed. */
	void		(*step) (void *p, const SpecStep *s);
	/* r, for which drafts were requested before, has lost its blocks; NULL = not needed */
	void		(*lost) (void *p, Req *r);
	/* Request r ends: free its r->spec->own.  NULL = there is none. */
	void		(*forget) (void *p, Req *r);
	/* the proposer's K and V in the target's blocks; NULL = none */
	const KvView *(*kv) (const void *p);
	/*
	 * Allocate the drafter's K and V after the target's.  kv_apart: their bytes outside the target's
	 * blocks.
	 */
	bool		(*open_kv) (void *p, Err *e);
	size_t		(*kv_apart) (const void *p);
	/* no request has blocks: release the memory of the proposer's K and V; NULL = none */
	void		(*rest) (void *p);
	bool		(*back) (void *p, Err *e);	/* allocate the memory again, if it was on a device */
	/* bytes of its memory, without K and V of the target's blocks; NULL = negligible */
	size_t		(*memory) (const void *p);
} ProposerType;

/* Find a proposer by the name of its method; NULL = unknown. */
const ProposerType *proposer_find(const char *name);
void		proposer_names(Buf *out);

/* ---- state of a request ---- */
#define SPEC_GRADES		4

/* Return the grade of drafts that followed this many matching tokens. */
static inline int
spec_grade(int same)
{
	return same < 2 ? 0 : same < 3 ? 1 : same < 6 ? 2 : 3;
}

struct SpecReq
{
	IntVec		drafts;			/* drafts after its tokens, for the next step */
	void	   *own;			/* state of the proposer */
	/* grade of these drafts, by the proposer's estimate, < SPEC_GRADES */
	int			grade;
	/* recent acceptance rate of first drafts, and of drafts after accepted ones */
	double		hits[2];
	int			passed_over;	/* consecutive steps in which its drafts were not worth a row */
};

/* ---- speculation of a model ---- */
typedef struct Spec Spec;

/* Return true if the model supports speculation. */
bool		spec_suits(const ModelInfo *info, Err *e);
/*
 * Open speculation; *out = NULL if the model does not support it and it was not requested explicitly.
 * Call it before the core allocates K and V.
 */
bool		spec_open(Core *c, const SpecConfig *conf, Spec **out, Err *e);
/* Call it when the core has K and V, and a length. */
bool		spec_open_kv(Spec *s, Err *e);
/* Return the bytes of the proposer's K and V besides those of the model's blocks. */
size_t		spec_kv_apart(const Spec *s);
void		spec_free(Spec *s);
/* Return the bytes of the proposer's memory. */
size_t		spec_memory(const Spec *s);
/* Return the proposer's K and V in the target's blocks; NULL = none. */
const KvView *spec_kv(const Spec *s);

/* Return true if r may have drafts now or later. */
bool		spec_may(const Req *r);
/* Return the request's state, which is made if missing. */
SpecReq    *spec_request(Spec *s, Req *r);

/* Called before a plan is made: request drafts for the running requests. */
void		spec_propose(Spec *s, const Sched *sched);
/*
 * Called when the rest of the plan is made, and has room for this many more rows: drop drafts that are
 * not worth a row.
 */
void		spec_choose(Spec *s, const Plan *plan, int room);
/* Learn how long a plan took to be computed and sampled once. */
void		spec_learn(Spec *s, const Plan *plan, int64_t us);
/* Called before and after a plan is computed. */
void		spec_before(Spec *s, const Plan *plan, Batch *batch);
void		spec_step(Spec *s, const SpecStep *step);
/* r's draft at index `at` was right or wrong; those before it were right. */
void		spec_tested(Spec *s, Req *r, int at, bool hit);
/* The model is suspended, and no request has blocks; it resumes. */
void		spec_rest(Spec *s);
bool		spec_back(Spec *s, Err *e);
/* r was preempted; it may have no state. */
void		spec_lost(Spec *s, Req *r);
/* r ends; it may have no state. */
void		spec_end(Spec *s, Req *r);

#endif
