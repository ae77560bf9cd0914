/*
 * profile.h
 *	  Where the time of a step goes: a stopwatch with one sum for each kind of work.
 *
 * The step thread calls profile_mark() at the end of each piece of work; the time since the previous
 * mark is added to that kind.  So the sums of all kinds add up to the whole time.  Without a profile
 * (NULL) a mark costs one test of a pointer.
 */
#ifndef VLLM_BASE_PROFILE_H
#define VLLM_BASE_PROFILE_H

#include <stddef.h>

#include "base/clock.h"

typedef enum ProfileKind
{
	PROF_MATMUL = 0,			/* projections of the layers */
	PROF_HEAD,					/* the LM head */
	PROF_ATTENTION,				/* including the writes of K and V */
	PROF_ROWS,					/* norms, rotation, activation */
	PROF_EMBED,
	PROF_SAMPLE,
	PROF_OUTPUT,				/* tokens to text, stop strings, events */
	PROF_SCHEDULE,				/* inbox, plan, batch, statistics */
	PROF_BETWEEN,				/* from one step to the next */
	PROF_KINDS
} ProfileKind;

typedef struct Profile
{
	int64_t		last_ns;		/* 0 = not running */
	int64_t		ns[PROF_KINDS];
	int64_t		n[PROF_KINDS];	/* marks */
} Profile;

static inline void
profile_mark(Profile *p, ProfileKind kind)
{
	int64_t		now;

	if (p == NULL)
		return;
	now = clock_ns();
	if (p->last_ns != 0)
	{
		p->ns[kind] += now - p->last_ns;
		p->n[kind]++;
	}
	p->last_ns = now;
}

#endif
