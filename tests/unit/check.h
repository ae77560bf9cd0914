/*
 * check.h
 *	  Test harness of the C programs: named tests, counted checks, one summary line.
 *
 * RUN(test_x()) runs a test; its name is the text in the parentheses, with " #2" appended if it runs a
 * second time.  RUN_NAMED(name, test_x()) gives it another name, such as a file's.  CHECK(cond, fmt...)
 * counts a check; if it fails, it prints file, line and the message, and the test has failed.
 * check_skip(n, why) counts tests that can't run, with the reason.  main() ends with `return
 * check_done("name")`, which prints
 *		name: N passed, N failed, N skipped, N checks
 * where N counts tests.  A program without RUN() is one test; failed checks outside of RUN() count as
 * one failed test.
 *
 * All programs take these arguments, which are removed before main() sees them:
 *		--list			print the names of the tests instead of running them
 *		--only TEXT		only tests whose names contain TEXT (a test that needs an earlier one fails alone)
 *		--verbose		a line for each test, with its time and checks
 *		--limit SECONDS	for each test, instead of 120 (600 under sanitizers and with TEST_EFFORT=3); 0: none
 *
 * RUN_WITHIN(seconds, test_x()) is for a test that takes longer.  A test beyond its limit ends the
 * program, which prints its name.
 *
 * check_split() runs the rest of main() in several processes, each of which runs its part of the cases,
 * and counts as a test; the first process adds up their counts in check_done().
 */
#ifndef VLLM_TESTS_CHECK_H
#define VLLM_TESTS_CHECK_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int	check_passed,	/* checks */
			check_failed,
			check_skipped;
static int	check_counts = -1;	/* in a process of check_split(): the descriptor for its counts */

#define CHECK_CALLS		128		/* names that are numbered when they repeat */

/* State of RUN(). */
static struct
{
	int			begun,
				passed,
				failed;
	int			failed_checks;	/* failed checks inside of RUN() */
	const char *name;			/* the running test; NULL = none */
	int			passed_before,	/* counts at its start */
				failed_before;
	struct timespec start;
	char		late[256];		/* message for a test that takes too long */
	const char *calls[CHECK_CALLS]; /* names used so far, with their counts */
	int			times[CHECK_CALLS];
	char		numbered[256];		/* name of a test that repeats a name */
}			check_tests;

#define CHECK_SECONDS	120		/* default limit of a test */

#ifdef __SANITIZE_THREAD__
#define CHECK_THREADS	true	/* the build looks for races, not for results */
#else
#define CHECK_THREADS	false
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CHECK_SLOW		5
#else
#define CHECK_SLOW		1
#endif

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

/* Run a test, which is a call.  A RUN() inside of another one is a part of that test. */
#define RUN(call) RUN_LIMITED(check_numbered(#call), CHECK_SECONDS, call)
#define RUN_WITHIN(seconds, call) RUN_LIMITED(check_numbered(#call), seconds, call)
#define RUN_NAMED(called, call) RUN_LIMITED(called, CHECK_SECONDS, call)

#define RUN_LIMITED(called, seconds, call) \
	do { \
		if (check_tests.name != NULL) \
			call; \
		else if (check_enter(called, seconds)) \
		{ \
			call; \
			check_leave(); \
		} \
	} while (0)

/*
 * Turn the options into environment variables, which child processes of the test inherit, and restart
 * the program without them, so that code that reads argv need not know them.
 */
static __attribute__((constructor)) void
check_options(int argc, char **argv)
{
	int			kept = 1;

	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--list") == 0)
			setenv("CHECK_LIST", "1", 1);
		else if (strcmp(argv[i], "--verbose") == 0)
			setenv("CHECK_VERBOSE", "1", 1);
		else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
			setenv("CHECK_ONLY", argv[++i], 1);
		else if (strcmp(argv[i], "--limit") == 0 && i + 1 < argc)
			setenv("CHECK_LIMIT", argv[++i], 1);
		else
			argv[kept++] = argv[i];
	if (kept == argc || argc < 2)
		return;
	argv[kept] = NULL;
	execv("/proc/self/exe", argv);
	perror("/proc/self/exe");
	_exit(2);
}

/*
 * Return the size of a simulation: TEST_EFFORT is 1 in `make check`, 2 in check-full and by default, 3
 * in nightly runs.
 */
static inline int
check_effort(int few, int usual, int many)
{
	const char *effort = getenv("TEST_EFFORT");

	return effort == NULL || *effort == '2' ? usual : *effort == '1' ? few : many;
}

/* Handler of SIGALRM: the test hangs, or is too slow; only its name is known. */
static void
check_late(int sig)
{
	(void) sig;
	if (write(STDERR_FILENO, check_tests.late, strlen(check_tests.late)) < 0)
		_exit(125);
	_exit(3);					/* 124 would mean that the program takes too long */
}

/*
 * Start the time limit.  CHECK_PATIENCE is a factor for programs that get little CPU.  Child processes of
 * the test have no limit; a test may not use alarm().
 */
static inline void
check_watch(const char *name, int seconds)
{
	const char *limit = getenv("CHECK_LIMIT");
	const char *patience = getenv("CHECK_PATIENCE");

	if (limit != NULL)
		seconds = atoi(limit);
	else
	{
		seconds *= CHECK_SLOW > 1 ? CHECK_SLOW : check_effort(1, 1, 5);
		seconds *= patience != NULL ? atoi(patience) : 1;
	}
	snprintf(check_tests.late, sizeof(check_tests.late), "FAILED test %.200s: it took more than %d s\n", name,
			 seconds);
	signal(SIGALRM, check_late);
	alarm((unsigned) (seconds > 0 ? seconds : 0));
}

/*
 * Return the test's name; if it repeats, as of a RUN() in a loop, with a number, so that each can be
 * chosen alone.
 */
static inline const char *
check_numbered(const char *name)
{
	int			i = 0;

	while (i < CHECK_CALLS && check_tests.calls[i] != NULL && strcmp(check_tests.calls[i], name) != 0)
		i++;
	if (i == CHECK_CALLS)
		return name;
	check_tests.calls[i] = name;
	if (++check_tests.times[i] == 1)
		return name;
	snprintf(check_tests.numbered, sizeof(check_tests.numbered), "%.240s #%d", name, check_tests.times[i]);
	return check_tests.numbered;
}

/* Is the test selected?  If so, begin it. */
static inline bool
check_enter(const char *name, int seconds)
{
	const char *only = getenv("CHECK_ONLY");

	if (only != NULL && strstr(name, only) == NULL)
		return false;
	if (getenv("CHECK_LIST") != NULL)
	{
		puts(name);
		return false;
	}
	check_tests.begun++;
	check_tests.name = name;
	check_tests.passed_before = check_passed;
	check_tests.failed_before = check_failed;
	check_watch(name, seconds);
	clock_gettime(CLOCK_MONOTONIC, &check_tests.start);
	return true;
}

static inline void
check_leave(void)
{
	int			passed = check_passed - check_tests.passed_before;
	int			failed = check_failed - check_tests.failed_before;
	struct timespec now;

	alarm(0);
	clock_gettime(CLOCK_MONOTONIC, &now);
	check_tests.passed += failed == 0;
	check_tests.failed += failed > 0;
	check_tests.failed_checks += failed;
	if (failed > 0)
		fprintf(stderr, "FAILED test %s: %d of %d checks\n", check_tests.name, failed, passed + failed);
	if (getenv("CHECK_VERBOSE") != NULL)
		printf("%s %6.0f ms %8d checks  %s\n", failed > 0 ? "bad" : "ok ",
			   (double) (now.tv_sec - check_tests.start.tv_sec) * 1e3 +
			   (double) (now.tv_nsec - check_tests.start.tv_nsec) / 1e6, passed + failed, check_tests.name);
	check_tests.name = NULL;
}

static inline void
check_skip(int n, const char *why)
{
	check_skipped += n;
	fprintf(stderr, "skipped %d: %s\n", n, why);
}

/* Print the summary line; returns the exit status. */
static inline int
check_total(const char *name)
{
	int			passed = check_tests.passed;
	int			failed = check_tests.failed;

	if (passed + failed == 0)
		passed = check_failed == 0 && check_passed > 0;
	if (check_failed > check_tests.failed_checks)
		failed++;
	printf("%s: %d passed, %d failed, %d skipped, %d checks\n", name, passed, failed, check_skipped,
		   check_passed + check_failed);
	return check_failed > 0;
}

/*
 * Fork n processes.  In each of them it returns the number of its part, from 0.  The caller does not
 * return: it waits for all, adds up their counts, prints the line of check_done(name) and exits.  A
 * process that ends without check_done() is a failure.
 */
static inline int
check_split(const char *name, int n)
{
	int			fds[64];
	int			status;

	if (getenv("CHECK_LIST") != NULL)
		exit(0);
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
		check_tests.passed += c[1] == 0;
		check_tests.failed += c[1] > 0;
		check_tests.failed_checks += c[1];
		check_passed += c[0];
		check_failed += c[1];
		check_skipped += c[2];
	}
	while (wait(&status) > 0)
		check_failed += WIFSIGNALED(status);
	exit(check_total(name));
}

/* Returns the exit status. */
static inline int
check_done(const char *name)
{
	(void) check_skip;
	(void) check_split;
	(void) check_enter;
	(void) check_leave;
	(void) check_options;
	(void) check_effort;
	(void) check_late;
	if (getenv("CHECK_LIST") != NULL)
		return 0;
	if (check_counts >= 0)
	{
		int			c[3] = {check_passed, check_failed, check_skipped};

		if (write(check_counts, c, sizeof(c)) != (ssize_t) sizeof(c))
			abort();
		return check_failed > 0;
	}
	return check_total(name);
}

#endif
