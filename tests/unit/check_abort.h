/*
 * check_abort.h
 *	  Tests that an assertion (base/assert.h) detects a fault: a child process plants the fault, aborts
 *	  and reports the condition.
 *
 *		CHECK_ABORTS(kvpool_unref(p, b), "refs > 0");
 *
 * Only the child runs the statement, so the parent's memory is unchanged.
 */
#ifndef VLLM_TESTS_UNIT_CHECK_ABORT_H
#define VLLM_TESTS_UNIT_CHECK_ABORT_H

#include <signal.h>
#include <string.h>

#include "base/assert.h"
#include "tests/unit/check.h"

typedef struct Aborted
{
	int			status;			/* from wait() */
	char		said[4096];		/* output on stderr */
} Aborted;

/*
 * Fork; the child's stderr goes to the parent.  Returns the descriptor to read from in the parent, -1 in
 * the child.
 */
static inline int
abort_begin(pid_t *pid)
{
	int			p[2];

	fflush(NULL);
	if (pipe(p) != 0 || (*pid = fork()) < 0)
		abort();
	if (*pid > 0)
	{
		close(p[1]);
		return p[0];
	}
	/* reset handlers of sanitizers, and don't wait for a core file */
	signal(SIGABRT, SIG_DFL);
	dup2(p[1], STDERR_FILENO);
	close(p[0]);
	close(p[1]);
	return -1;
}

static inline void
abort_end(int fd, pid_t pid, Aborted *a)
{
	size_t		n = 0;
	ssize_t		got;

	while ((got = read(fd, a->said + n, sizeof(a->said) - 1 - n)) > 0)
		n += (size_t) got;
	a->said[n] = '\0';
	close(fd);
	if (waitpid(pid, &a->status, 0) != pid)
		abort();
}

/* what: a part of the condition that must fail */
#define CHECK_ABORTS(statement, what) \
	do { \
		Aborted		aborted_; \
		pid_t		pid_; \
		int			fd_ = abort_begin(&pid_); \
		if (fd_ < 0) \
		{ \
			statement; \
			_exit(0); \
		} \
		abort_end(fd_, pid_, &aborted_); \
		CHECK(WIFSIGNALED(aborted_.status) && WTERMSIG(aborted_.status) == SIGABRT && \
			  strstr(aborted_.said, "does not hold: ") != NULL && strstr(aborted_.said, what) != NULL, \
			  "not seen (status %x): %s; said: %s", (unsigned) aborted_.status, what, aborted_.said); \
	} while (0)

#endif
