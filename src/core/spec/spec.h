/*
 * spec.h
 *	  Speculation: tokens that may come next are computed before it is known whether they do.
 *
 * A proposer guesses; a step computes the guesses, the drafts, as rows behind the request's own;
 * each of the rows is then sampled as ever, one after the other, as long as the draft behind it
 * is the token that it gave (commit.c).  So a proposer has no say in what an answer is, only in how
 * soon it is there.  docs/user/speculative-decoding.md tells the whole.
 *
 *	 spec.c			a model's: whom to ask, and for how many
 *	 draft_length.c	... and how many of them are worth a row
 *	 spec.def		the proposers, a file each
 *
 * Owner: the step thread.
 */
#ifndef VLLM_CORE_SPEC_SPEC_H
#define VLLM_CORE_SPEC_SPEC_H

#include "core/core_internal.h"
#include "core/spec/spec_config.h"

/* ---- proposers ---- */

/* What a proposer may know of the model. */
typedef struct SpecEnv
{
	const SpecConfig *conf;
	Core	   *core;			/* whose answers these are; NULL in tests of a proposer alone */
	int			max_seqs;
	int			max_rows;
	int			max_model_len;
	int			n_valid;		/* ids that may be sampled */
} SpecEnv;

/* At most `most` drafts behind r's tokens are to be added to r->spec->drafts, which are none. */
typedef struct SpecAsk
{
	Req		   *r;
	int			most;
} SpecAsk;

/* A step that has been computed, but not sampled yet. */
typedef struct SpecStep
{
	const Plan *plan;
	const Batch *batch;
	const KvView *kv;
} SpecStep;

#define SPEC_DEAR		(1u << 0)	/* drafts take time to make: none that won't be computed are asked for */
#define SPEC_WEIGHTS	(1u << 2)	/* it has weights: CoreOptions.drafter */
#define SPEC_ALL		(1u << 1)	/* tests: they are computed, whether it pays or not */

typedef struct ProposerType
{
	const char *name;			/* the method */
	unsigned	flags;
	/* *out: the proposer; false with *e set */
	bool		(*open) (const SpecEnv *env, void **out, Err *e);
	void		(*close) (void *p);
	/* of all requests of the coming step at once; what is known is computed, but for the last token */
	void		(*propose) (void *p, SpecAsk *asks, int n);
	/*
	 * the target is about to compute a step: what it shall leave of it may be asked for (Batch.taps); NULL =
	 * nothing
	 */
	void		(*before) (void *p, const Plan *plan, Batch *batch);
	/* The target has computed the step, with prompts, pooled sequences and drafts; NULL = not wanted. */
	void		(*step) (void *p, const SpecStep *s);
	/* r, which has been asked for, has lost its blocks; NULL = that doesn't matter */
	void		(*lost) (void *p, Req *r);
	/* Request r ends: release its r->spec->own; NULL = there is none. */
	void		(*forget) (void *p, Req *r);
	/* K and V of its own, in the target's blocks; NULL = it has none */
	const KvView *(*kv) (const void *p);
	/*
	 * Allocates the drafter's K and V after the target's.  kv_apart: bytes of them outside the target's
	 * blocks.
	 */
	bool		(*open_kv) (void *p, Err *e);
	size_t		(*kv_apart) (const void *p);
	/* nobody has blocks: the memory of its own K and V is to be given back; NULL = it has none */
	void		(*rest) (void *p);
	bool		(*back) (void *p, Err *e);	/* takes the memory again, if it was on a device */
	/* bytes that it has for its life, K and V of the target's blocks aside; NULL = hardly any */
	size_t		(*memory) (const void *p);
} ProposerType;

/* By the name of its method; NULL = unknown. */
const ProposerType *proposer_find(const char *name);
void		proposer_names(Buf *out);

/* ---- a request's part of it ---- */
#define SPEC_GRADES		4

/* The grade of drafts that followed when so many tokens were the same. */
static inline int
spec_grade(int same)
{
	return same < 2 ? 0 : same < 3 ? 1 : same < 6 ? 2 : 3;
}

struct SpecReq
{
	IntVec		drafts;			/* behind its tokens, for the step at hand */
	void	   *own;			/* the proposer's */
	/* of these drafts: how much they are worth in the proposer's eyes, < SPEC_GRADES */
	int			grade;
	/* how often, of late, a step's first draft was right, and one behind right ones */
	double		hits[2];
	int			passed_over;	/* how often its drafts were not worth a row, in a row */
};

/* ---- a model's ---- */
typedef struct Spec Spec;

/* Can it be done with such a model? */
bool		spec_suits(const ModelInfo *info, Err *e);
/* *out NULL: the model can't, and nobody has asked for it.  Before the core has K and V. */
bool		spec_open(Core *c, const SpecConfig *conf, Spec **out, Err *e);
/* The core has K and V now, and a length. */
bool		spec_open_kv(Spec *s, Err *e);
/* Bytes for K and V of the proposer's own, besides those of the model's blocks. */
size_t		spec_kv_apart(const Spec *s);
void		spec_free(Spec *s);
/* Bytes that the proposer has for its life. */
size_t		spec_memory(const Spec *s);
/* K and V of its own, in the target's blocks; NULL = it has none. */
const KvView *spec_kv(const Spec *s);

/* May r have drafts at all, now or later? */
bool		spec_may(const Req *r);
/* Its part, which is made if there is none. */
SpecReq    *spec_request(Spec *s, Req *r);

/* A plan is to be made: ask for drafts of the running requests. */
void		spec_propose(Spec *s, const Sched *sched);
/*
 * The rest of the plan is made, and has room for so many rows more: drafts that are not worth it are
 * dropped.
 */
void		spec_choose(Spec *s, const Plan *plan, int room);
/* A plan took so long to be computed, and sampled once. */
void		spec_learn(Spec *s, const Plan *plan, int64_t us);
/* A plan is to be computed, and has been. */
void		spec_before(Spec *s, const Plan *plan, Batch *batch);
void		spec_step(Spec *s, const SpecStep *step);
/* The at-th draft of r's has been right, or wrong, and those before it were right. */
void		spec_tested(Spec *s, Req *r, int at, bool hit);
/* The model rests, and nobody has blocks. */
void		spec_rest(Spec *s);
bool		spec_back(Spec *s, Err *e);
/* r is preempted; it may never have been asked for. */
void		spec_lost(Spec *s, Req *r);
/* r ends; it may never have been asked for. */
void		spec_end(Spec *s, Req *r);

#endif
