/*
 * assert.h
 *	  Assertions of invariants: ASSERT in builds that look for bugs, ALWAYS in every build.
 *
 * A failed assertion is a bug of the engine: it prints file, line and condition, and aborts.  The engine
 * is a process of its own, so its crash fails its requests with an error and never restarts the
 * database.
 *
 * ASSERT is for checks that cost time (they visit each element, or run once per token), and for
 *   conditions whose violation only gives wrong results.  It is active in every build but a release, which
 *   `make install` makes with VLLM_ASSERT=0.
 * ALWAYS is for a compare or two per request, step or block, where a violation would write out of bounds,
 *   free memory twice, never end, or show one request another request's data.
 *
 * Neither is for input: a user's values, a model's files and the arena are checked, and bad input is an
 * error.  The condition must have no side effects: a release does not evaluate the condition of an
 * ASSERT.
 *
 * The PostgreSQL module (src/pg, and src/ipc in it) has ASSERT by the same switch.  abort() in a backend
 * restarts the database, so a release of the module has no assertions, and ALWAYS must not be used
 * there.  PostgreSQL's own Assert is off in all usual packages, so a failure of it would never be seen.
 *
 * Tested by tests/unit/base/test_assert.c, and with planted faults by tests/unit/core/test_planted.c
 * and, in the module, by tests/t/045_assertions.pl.
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
	/* the supervisor passes stderr to the server log (log.h) */
	fprintf(stderr, "P: %s:%d: does not hold: %s\n", file, line, cond);
	abort();
}

/* text: the condition as written in the source, before macros are expanded */
#define ASSERT_HOLDS(cond, text) \
	(__builtin_expect(!!(cond), 1) ? (void) 0 : assert_failed(__FILE__, __LINE__, text))

#define ALWAYS(cond) ASSERT_HOLDS(cond, #cond)

#if VLLM_ASSERT
#define ASSERT(cond) ASSERT_HOLDS(cond, #cond)
#else
#define ASSERT(cond) ((void) sizeof(!(cond)))
#endif

#endif
