/*
 * logprobs.h
 *	  How likely tokens were: what a request asks for, and what it gets.
 */
#ifndef VLLM_CORE_SAMPLE_LOGPROBS_H
#define VLLM_CORE_SAMPLE_LOGPROBS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#define LOGPROBS_NONE	(-2)	/* OutParams.logprobs, .prompt_logprobs: not wanted */
#define LOGPROBS_ALL	(-1)	/* of the whole vocabulary */
#define LOGPROBS_ZERO	(-2)	/* CoreOptions.max_logprobs: a token's own alone */
#define LOGPROB_MAX_IDS 128
/* of a request's answers that are told in one go, and of its prompt */
#define LOGPROB_MAX_ENTRIES (1 << 24)

typedef struct Logprob
{
	int32_t		id;
	int32_t		rank;			/* 1 = the likeliest */
	float		value;
} Logprob;

/*
 * Of consecutive positions: entries lie one behind the other, a position's own token
 * first, then others by rank.  counts[i] = 0: none, as of a prompt's first token.
 */
typedef struct Logprobs
{
	IntVec		counts;			/* a position each */
	Logprob    *e;
	size_t		n;
	size_t		cap;
} Logprobs;

/* Which entries a position shall have beside its own token. */
typedef struct LogprobWant
{
	int			top;			/* LOGPROBS_ALL, or the likeliest so many */
	const int32_t *ids;			/* instead: just these */
	int			n_ids;
	bool		logits;			/* their logits instead */
} LogprobWant;

/* How many entries a position has at most. */
int			logprobs_most(const LogprobWant *w, int n_valid);

/*
 * The entries of one row into e[logprobs_most()]; returns their number.  x: n logits, of which the
 * first n_valid may be entries; -INFINITY: masked.  Of equals the lower id comes first.  A rank counts
 * all that are at least as likely.
 */
int			logprobs_row(const float *x, int n, int n_valid, int32_t id, const LogprobWant *w, Logprob *e);

/* The same of what a device says of a row it has sampled, into e[KSAMPLE_TOP + 1]. */
struct KSampled;
int			logprobs_sampled(const struct KSampled *s, Logprob *e);

/* A position more. */
void		logprobs_add(Logprobs *l, const Logprob *e, int n);
void		logprobs_append(Logprobs *to, const Logprobs *from);
Logprobs   *logprobs_new(void);
void		logprobs_free(Logprobs *l);	/* NULL will do */

#endif
