/*
 * assert.h
 *	  What must hold whatever comes in: ASSERT in builds that look for bugs, ALWAYS in every build.
 *
 * A failure is a bug of ours: it prints file, line and condition, and aborts.  The engine is a process of its
 * own, so its crash ends its requests with an error and never restarts the database.
 *
 *	ASSERT	costs something (it looks at each element, or stands where each token passes), or what follows
 *			would only be wrong.  In every build but a release, which `make install` makes: VLLM_ASSERT=0.
 *	ALWAYS	is a compare or two, once a request, a step or a block; what follows would write out of bounds,
 *			free twice, never end, or show one request what is another's.
 *
 * Neither is for what others may have written: a user's values, a model's files, the arena.  Those are
 * checked, and are errors.  The condition has no effects: a release doesn't compute an ASSERT's.
 *
 * The PostgreSQL module (src/pg, and src/ipc in it) has ASSERT by the same switch: abort() of a backend
 * restarts the database, so a release has none, and ALWAYS may not be used there.  PostgreSQL's own Assert
 * is in no build of the usual packages, so it would never be seen to fail.
 *
 * Tested by tests/unit/base/test_assert.c, and with planted faults by tests/unit/core/test_planted.c and, in
 * the module, by tests/t/045_assertions.pl.
 */
#ifndef VLLM_BASE_ASSERT_H
#define VLLM_BASE_ASSERT_H

#include <stdio.h>
#include <stdlib.h>

#ifndef VLLM_ASSERT
#define VLLM_ASSERT 0
#endif

static _Noreturn __attribute__((cold, noinline, unused)) void
assert_failed(const char *file, int line, const char *cond)
{
	/* stderr goes to the server's log (log.h) */
	fprintf(stderr, "P: %s:%d: does not hold: %s\n", file, line, cond);
	abort();
}

/* text: the condition as it is written, before macros are expanded */
#define ASSERT_HOLDS(cond, text) \
	(__builtin_expect(!!(cond), 1) ? (void) 0 : assert_failed(__FILE__, __LINE__, text))

#define ALWAYS(cond) ASSERT_HOLDS(cond, #cond)

#if VLLM_ASSERT
#define ASSERT(cond) ASSERT_HOLDS(cond, #cond)
#else
#define ASSERT(cond) ((void) sizeof(!(cond)))
#endif

#endif
