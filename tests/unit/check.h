/*
 * check.h
 *	  What the suite's C programs share: count checks, end with one line.
 *
 * CHECK(cond, fmt...) counts; a failure prints file, line and the message.
 * check_skip(n, why) counts what could not be run and says why.  main() ends
 * with `return check_done("name")`, which prints
 *		name: N passed, N failed, N skipped
 *
 * check_split() runs the rest of main() in several processes, each of which takes its part of the cases; the
 * first process adds up their counts in check_done().
 */
#ifndef VLLM_TESTS_CHECK_H
#define VLLM_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int	check_passed,
			check_failed,
			check_skipped;
static int	check_counts = -1;	/* of a process of check_split(): where its counts go */

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

/*
 * Fork n processes.  Returns the number of its part, from 0, in each of them; not in the caller, which waits for
 * all, adds up what they counted, prints the line of check_done(name) and exits.  A process that ends without
 * check_done() is a failure.
 */
static inline int
check_split(const char *name, int n)
{
	int			fds[64];
	int			status;

	fflush(NULL);
	for (int i = 0; i < n && i < 64; i++)
	{
		int			p[2];

		if (pipe(p) != 0)
			abort();
		if (fork() == 0)
		{
			close(p[0]);
			check_counts = p[1];
			return i;
		}
		close(p[1]);
		fds[i] = p[0];
	}
	for (int i = 0; i < n && i < 64; i++)
	{
		int			c[3];

		if (read(fds[i], c, sizeof(c)) != (ssize_t) sizeof(c))
		{
			fprintf(stderr, "part %d FAILED: it ended before its end\n", i);
			c[0] = c[2] = 0;
			c[1] = 1;
		}
		check_passed += c[0];
		check_failed += c[1];
		check_skipped += c[2];
	}
	while (wait(&status) > 0)
		check_failed += WIFSIGNALED(status);
	printf("%s: %d passed, %d failed, %d skipped\n", name, check_passed, check_failed, check_skipped);
	exit(check_failed > 0);
}

/* the exit status */
static inline int
check_done(const char *name)
{
	(void) check_skip;
	(void) check_split;
	if (check_counts >= 0)
	{
		int			c[3] = {check_passed, check_failed, check_skipped};

		if (write(check_counts, c, sizeof(c)) != (ssize_t) sizeof(c))
			abort();
		return check_failed > 0;
	}
	printf("%s: %d passed, %d failed, %d skipped\n", name, check_passed, check_failed, check_skipped);
	return check_failed > 0;
}

#endif
