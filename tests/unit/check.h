/*
 * check.h
 *	  What the suite's C programs share: count checks, end with one line.
 *
 * CHECK(cond, fmt...) counts; a failure prints file, line and the message.
 * check_skip(n, why) counts what could not be run and says why.  main() ends
 * with `return check_done("name")`, which prints
 *		name: N passed, N failed, N skipped
 */
#ifndef VLLM_TESTS_CHECK_H
#define VLLM_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

static int	check_passed,
			check_failed,
			check_skipped;

#define CHECK(cond, ...) \
	do { \
		if (cond) \
			check_passed++; \
		else \
		{ \
			check_failed++; \
			fprintf(stderr, "%s:%d: FAILED %s: ", __FILE__, __LINE__, #cond); \
			fprintf(stderr, __VA_ARGS__); \
			fputc('\n', stderr); \
		} \
	} while (0)

static inline void
check_skip(int n, const char *why)
{
	check_skipped += n;
	fprintf(stderr, "skipped %d: %s\n", n, why);
}

/* the exit status */
static inline int
check_done(const char *name)
{
	(void) check_skip;
	printf("%s: %d passed, %d failed, %d skipped\n", name, check_passed, check_failed, check_skipped);
	return check_failed > 0;
}

#endif
