/*
 * model_drafter.h
 *	  Private to model_drafter.c and draft_kv.c: drafts by models with weights.
 */
#ifndef VLLM_CORE_SPEC_MODEL_DRAFTER_H
#define VLLM_CORE_SPEC_MODEL_DRAFTER_H

#include "core/spec/drafter.h"
#include "core/core_state.h"
#include "core/sample/sample_device.h"
#include "core/spec/spec.h"

#define FOLLOW_FLUSH 8			/* a chain's rows are computed when there are so many, even if no drafts are
								 * wanted */

/* State of a request that is kept from one step to the next. */
typedef struct Follow
{
	struct Follow *next;
	struct Follow **link;		/* pointer that points to this */
	/* positions whose K and V the drafter has; heads: position of the first row */
	int			done;
	int			have;			/* rows of the target from there on, without those of wrong drafts */
	int			cap;
	int32_t    *rows;			/* [cap] their indexes in Follower.rows */
	/*
	 * DRAFT_MODEL: draft tokens from position `done` on whose K and V it has, valid if the drafts are
	 * accepted
	 */
	IntVec		draft_ids;
	IntVec		draft_blocks;	/* DRAFT_MODEL: blocks with the K and V of these tokens */
	int			place;			/* index of the drafter's own blocks that it uses while drafts are made */
	bool		blind;			/* the prompt has no token ids: the drafter can't process it */
} Follow;

typedef struct Follower
{
	Core	   *core;
	Drafter    *d;
	int			vocab;			/* width of a row of logits */
	int			n_valid;
	int			max_rows;
	int			max_seqs;
	Sampler    *sampler;
	ModelTaps	taps;
	Follow	   *first;			/* list of all requests' states */
	/* rows in the ops' memory: */
	/* [kept + max_rows][given] the target's: the kept ones, and those of the latest step */
	DevMem		rows;
	int			kept;			/* limit of kept rows of all requests */
	int			top;			/* rows from here on are free */
	int			step_at;		/* first row of the step */
	DevMem		given;			/* [max_rows][given] input of the current batch */
	DevMem		fed;			/* [max_seqs][fed_width] a chain's output for its next draft */
	DevMem		carried;		/* [max_seqs][fed_width] rows of the chains in go_on */
	HostDev		logits;			/* [max_seqs][vocab], unless the device samples */
	DevSampler *smpdev;
	DevMem		unseen;			/* the logits, if the device samples */
	const KSampled **sampled;	/* [max_seqs] */
	GenParams	greedy;
	int32_t    *from;			/* [kept + max_rows] indexes of rows */
	int32_t    *tokens;			/* [max_rows] */
	int32_t    *ids;			/* [max_seqs][most] */
	int32_t    *sampled_ids;	/* [max_seqs] */
	SampleRow  *smp;			/* [max_seqs] */
	int		   *smp_of;			/* [max_seqs] */

	/* draft_kv.c */
	KvView		kv;				/* K and V by the target's block numbers, followed by blocks of the
								 * drafter's own */
	DevMem		area;
	int			max_len;		/* most positions that the drafter supports */
	int			max_blocks;		/* of a block table */
	int32_t    *pos;			/* [max_rows] */
	int32_t    *seq_start;		/* [max_seqs + 1] */
	const int32_t **tables;		/* [max_seqs] */
	int32_t    *table_space;	/* [max_seqs][max_blocks] */
	int32_t    *out_rows;		/* [max_seqs] */
	DraftRequest **out_of;		/* [max_seqs] requests that want the drafts after these rows */
	DraftRequest **go_on;		/* [max_seqs] requests that want further drafts */
	int			n_rows;			/* of the batch that is being made */
	int			n_seqs;
	int			n_out;
} Follower;

/* ---- model_drafter.c ---- */
Follow	   *follow_of(const Req *r);	/* NULL = no state is kept */
Follow	   *follow_new(Follower *f, Req *r, int done);
/* Add n rows to those that w has: Follower.rows from `row` on. */
void		follow_keep(Follow *w, int row, int n);
/* Copy rows by index to `given`. */
void		follow_gather(Follower *f, const int32_t *from, int n);
/* Return where the ops write logits. */
float	   *follow_logits(const Follower *f);
/* Set picked[i] to the draft of the i-th of n rows of logits, -1 = none. */
void		follow_sample(Follower *f, DraftRequest *const *reqs, int n);

/* ---- draft_kv.c ---- */
void		follow_open(Follower *f, const SpecEnv *env);
/*
 * follow_open_kv(): allocate the drafter's K and V, when the target has some.  follow_apart(): bytes
 * that they take besides those of the target's blocks.
 */
bool		follow_open_kv(Follower *f, Err *e);
size_t		follow_apart(const Follower *f);
void		follow_close(Follower *f);
/* Initialize a new area: rows that were never computed are zeros, as on CPUs, instead of old contents. */
void		follow_blank(Follower *f);
void		follow_step(Follower *f, const SpecStep *s);
void		follow_propose(Follower *f, DraftRequest *reqs, int n);

#endif
