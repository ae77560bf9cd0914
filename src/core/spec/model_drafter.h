/*
 * model_drafter.h
 *	  Private to model_drafter.c and draft_kv.c: drafts of what has weights.
 */
#ifndef VLLM_CORE_SPEC_MODEL_DRAFTER_H
#define VLLM_CORE_SPEC_MODEL_DRAFTER_H

#include "core/spec/drafter.h"
#include "core/core_state.h"
#include "core/sample/sample_device.h"
#include "core/spec/spec.h"

#define FOLLOW_FLUSH 8			/* rows of a chain that wait for drafts to be wanted */

/* What is kept of a request from one step to the next. */
typedef struct Follow
{
	struct Follow *next;
	struct Follow **link;		/* what points to it */
	/* positions whose K and V the drafter has; heads: the position of the first row */
	int			done;
	int			have;			/* rows of the target from there on; those of wrong drafts are not of use */
	int			cap;
	int32_t    *rows;			/* [cap] which of Follower.rows they are */
	/* DRAFT_MODEL: tokens from position `done` on that it has K and V of, if they come true */
	IntVec		guesses;
	IntVec		guess_blocks;	/* DRAFT_MODEL: blocks of these tokens' K and V */
	int			place;			/* whose blocks of the drafter's own it has, while drafts are made */
	bool		blind;			/* its prompt has no tokens: it can't be followed */
} Follow;

typedef struct Follower
{
	Core	   *core;
	Drafter    *d;
	int			vocab;			/* width of logits */
	int			n_valid;
	int			max_rows;
	int			max_seqs;
	Sampler    *sampler;
	ModelTaps	taps;
	Follow	   *first;			/* all of them */
	/* rows, where ops are */
	/* [kept + max_rows][given] the target's: those that are kept, and the latest step's */
	DevMem		rows;
	int			kept;			/* of all requests at most */
	int			top;			/* rows from here on are free */
	int			step_at;		/* the step's first */
	DevMem		given;			/* [max_rows][given] of the batch at hand */
	DevMem		fed;			/* [max_seqs][fed_width] what a chain has left itself, */
	DevMem		carried;		/* [max_seqs][fed_width] rows of the chains in go_on */
	HostDev		logits;			/* [max_seqs][vocab], unless the device samples: */
	DevSampler *smpdev;
	DevMem		unseen;			/* the logits, if the device samples */
	const KSampled **sampled;	/* [max_seqs] */
	GenParams	greedy;
	int32_t    *from;			/* [kept + max_rows] numbers of rows */
	int32_t    *tokens;			/* [max_rows] */
	int32_t    *ids;			/* [max_seqs][most] */
	int32_t    *picked;			/* [max_seqs] */
	SampleRow  *smp;			/* [max_seqs] */
	int		   *smp_of;			/* [max_seqs] */

	/* draft_kv.c */
	KvView		kv;				/* K and V by the target's block numbers, and blocks of its own behind them */
	DevMem		area;
	int			max_len;		/* positions that the drafter knows */
	int			max_blocks;		/* of a table */
	int32_t    *pos;			/* [max_rows] */
	int32_t    *seq_start;		/* [max_seqs + 1] */
	const int32_t **tables;		/* [max_seqs] */
	int32_t    *table_space;	/* [max_seqs][max_blocks] */
	int32_t    *out_rows;		/* [max_seqs] */
	SpecAsk   **out_of;			/* [max_seqs] who asked for the drafts behind them */
	SpecAsk   **go_on;			/* [max_seqs] who wants more */
	int			n_rows;			/* of the batch in the making */
	int			n_seqs;
	int			n_out;
} Follower;

/* ---- model_drafter.c ---- */
Follow	   *follow_of(const Req *r);	/* NULL = nothing is kept */
Follow	   *follow_new(Follower *f, Req *r, int done);
/* n rows more behind those it has: Follower.rows from `row` on. */
void		follow_keep(Follow *w, int row, int n);
/* Rows by number to `given`. */
void		follow_gather(Follower *f, const int32_t *from, int n);
/* Where ops leave logits. */
float	   *follow_logits(const Follower *f);
/* picked[i] = the draft of n rows of logits, -1 = none. */
void		follow_pick(Follower *f, SpecAsk *const *asks, int n);

/* ---- draft_kv.c ---- */
void		follow_open(Follower *f, const SpecEnv *env);
/* Its K and V, when the target has some; what they take besides those of the target's blocks. */
bool		follow_open_kv(Follower *f, Err *e);
size_t		follow_apart(const Follower *f);
void		follow_close(Follower *f);
/* Its area is new.  Rows that nobody could compute are zeros, as on CPUs, and not what was there before. */
void		follow_blank(Follower *f);
void		follow_step(Follower *f, const SpecStep *s);
void		follow_propose(Follower *f, SpecAsk *asks, int n);

#endif
