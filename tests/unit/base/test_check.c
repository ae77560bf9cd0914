/*
 * test_check.c
 *	  tests/unit/check.h: a test that hangs ends its program, which prints the test's name; options.
 */
#include "tests/unit/check.h"

static void
stands_still(void)
{
	for (;;)
		pause();
}

static void
is_quick(void)
{
	CHECK(true, "always");
}

/* Run this program with arguments and return its output; *status as from wait(). */
static void
run_self(const char *arguments, char *out, size_t size, int *status)
{
	char		self[1024];
	char		command[1200];
	ssize_t		n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	size_t		len = 0;
	FILE	   *f;

	if (n < 0)
		abort();
	self[n] = '\0';
	snprintf(command, sizeof(command), "'%s' %s 2>&1", self, arguments);
	fflush(NULL);
	f = popen(command, "r");
	if (f == NULL)
		abort();
	len = fread(out, 1, size - 1, f);
	out[len] = '\0';
	*status = pclose(f);
}

static void
test_limit(void)
{
	char		out[1000];
	int			status;

	run_self("--limit 1 still", out, sizeof(out), &status);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3, "status %x", (unsigned) status);
	CHECK(strstr(out, "FAILED test stands_still(): it took more than 1 s\n") != NULL, "%s", out);
	CHECK(strstr(out, "passed") == NULL, "no line of counts: %s", out);
	run_self("--limit 1 quick", out, sizeof(out), &status);
	CHECK(status == 0 && strstr(out, "check: 1 passed, 0 failed, 0 skipped, 1 checks") != NULL, "%s", out);
}

static void
test_choice(void)
{
	char		out[1000];
	int			status;

	run_self("--list still quick", out, sizeof(out), &status);
	CHECK(status == 0 && strcmp(out, "stands_still()\nis_quick()\n") == 0, "%s", out);
	run_self("--list quick quick still quick", out, sizeof(out), &status);
	CHECK(strcmp(out, "is_quick()\nis_quick() #2\nstands_still()\nis_quick() #3\n") == 0, "%s", out);
	run_self("--only '#2' quick quick still quick", out, sizeof(out), &status);
	CHECK(status == 0 && strstr(out, "check: 1 passed, 0 failed") != NULL, "%s", out);
	run_self("--only quick still quick", out, sizeof(out), &status);
	CHECK(status == 0 && strstr(out, "check: 1 passed, 0 failed") != NULL, "%s", out);
}

int
main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "still") == 0)
			RUN(stands_still());
		else if (strcmp(argv[i], "quick") == 0)
			RUN_WITHIN(100, is_quick());
	if (argc < 2)
	{
		RUN(test_limit());
		RUN(test_choice());
	}
	return check_done("check");
}
