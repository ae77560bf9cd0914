/*
 * logprobs.h
 *	  Log-probabilities of tokens: which a request wants, and their values.
 */
#ifndef VLLM_CORE_SAMPLE_LOGPROBS_H
#define VLLM_CORE_SAMPLE_LOGPROBS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#define LOGPROBS_NONE	(-2)	/* OutParams.logprobs, .prompt_logprobs: none */
#define LOGPROBS_ALL	(-1)	/* for the whole vocabulary */
#define LOGPROBS_ZERO	(-2)	/* CoreOptions.max_logprobs: only the token's own */
#define LOGPROB_MAX_IDS 128
/* limit of entries for a request's answers that are returned at once, and for its prompt */
#define LOGPROB_MAX_ENTRIES (1 << 24)

typedef struct Logprob
{
	int32_t		id;
	int32_t		rank;			/* 1 = most likely */
	float		value;
} Logprob;

/*
 * Log-probabilities of consecutive positions.  The entries of a position are its own token first, then
 * others by rank.  counts[i] = 0: no entries, as for a prompt's first token.
 */
typedef struct Logprobs
{
	IntVec		counts;			/* number of entries of each position */
	Logprob    *e;
	size_t		n;
	size_t		cap;
} Logprobs;

/* The entries that a position should have beside its own token. */
typedef struct LogprobWant
{
	int			top;			/* LOGPROBS_ALL, or the number of most likely tokens */
	const int32_t *ids;			/* instead: exactly these tokens */
	int			n_ids;
	bool		logits;			/* return logits instead */
} LogprobWant;

/* Return the most entries that a position can have. */
int			logprobs_most(const LogprobWant *w, int n_valid);

/*
 * Write the entries of one row to e[logprobs_most()]; returns their number.  x: n logits, of which the
 * first n_valid may be entries; -INFINITY: masked.  Of equal logits the lower id comes first.  The rank
 * of a token is the number of tokens that are at least as likely.
 */
int			logprobs_row(const float *x, int n, int n_valid, int32_t id, const LogprobWant *w, Logprob *e);

/* The same from a device's result for a row that it has sampled, to e[KSAMPLE_TOP + 1]. */
struct KSampled;
int			logprobs_sampled(const struct KSampled *s, Logprob *e);

/* Append a position. */
void		logprobs_add(Logprobs *l, const Logprob *e, int n);
void		logprobs_append(Logprobs *to, const Logprobs *from);
Logprobs   *logprobs_new(void);
void		logprobs_free(Logprobs *l);	/* accepts NULL */

#endif
