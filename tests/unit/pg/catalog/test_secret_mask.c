/*
 * test_secret_mask.c
 *	  src/pg/catalog/secret_name.c, secret_mask.c: their results equal those of a plain scanner, over
 *	  random texts with all quotes, escapes and comments; and texts that are meant to take long are
 *	  processed in time.
 *
 * `test_secret_mask -v` prints the times.
 */
#include "pg/catalog/secret_name.c"
#include "pg/catalog/secret_mask.c"

#include <time.h>

#include "tests/unit/check.h"
#include "tests/unit/pg/secret_mask_ref.h"

#define MB			(1024 * 1024)
#define RANDOM_TEXTS 60000
/* Limit for a busy machine and a build with sanitizers; an idle one takes up to 50. */
#define MOST_MS		1500

bool		standard_conforming_strings = true;

static bool verbose;

static uint64_t seed = 88172645463325252u;

static unsigned
rnd(unsigned n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned) ((seed >> 11) % n);
}

/* Prepared statements whose names begin with p call the function. */
static bool
prepared(const char *name)
{
	return name[0] == 'p';
}

static bool
prepared_quoted(const char *name)
{
	return strcmp(name, "a\"b") == 0;
}

/* ---- the same as the plain scanner ---- */

static const char *const piece[] = {
	"llm_set_secret", "LLM_Set_Secret", "llm_set_s\\0065cret", "\"llm_set_secret\"",
	"llm_set_s\\\\\\\\x65cret", "\\154lm_set_secret", "\\u006clm!005fset_secret", "llm\\_set_secret",
	"\\U1000006clm_set_secret", "llm_set_s\\+000065cret", "llm_set_secre", "llm_", "l", "\\0065", "\\x65",
	"0065", "_set_secret", "t", "(", ")", "(", ")", "'", "'", "''", "\"", "\"", "\"\"", "$$", "$$", "$a$",
	"$a$", "$ab$", "$", "$1", "E'", "e'", "U&'", "U&\"", "\\", "\\\\", "\\'", "\\\\\\",
	"/*", "*/", "/*", "*/", "--", "\n", "--x\n", " ", " ", "a", "x1", ",", "execute ", "EXECUTE p(",
	"execute \"p\"(", "execute q(", "execute U&\"q\"(", "EXECUTE u&\"x\" UESCAPE '!' (", "language ",
	"LANGUAGE plpython", "'sql'", "do ", "0", "+", "\xc3\xa4", "5f", "137", "secret", "llm_set_secret(",
	"llm_set_secret('a', 'b')", "$a$ llm_set_secret('", "$a$", ";"
};

static char *
random_text(int n)
{
	char	   *s = malloc((size_t) n * 32 + 1);
	size_t		len = 0;

	for (int i = 0; i < n; i++)
	{
		const char *w = piece[rnd(lengthof(piece))];
		unsigned	times = rnd(12) == 0 ? 1 + rnd(4) : 1;

		for (; times > 0 && len + strlen(w) < (size_t) n * 32; times--)
		{
			memcpy(s + len, w, strlen(w));
			len += strlen(w);
		}
	}
	s[len] = '\0';
	return s;
}

static void
same(const char *what, const char *text, char *a, char *b)
{
	CHECK((a == NULL) == (b == NULL) && (a == NULL || strcmp(a, b) == 0), "%s of <%s>: <%s>, not <%s>", what,
		  text, a ? a : "NULL", b ? b : "NULL");
	free(a);
	free(b);
}

static void
compare(const char *s)
{
	CHECK(secret_named(s) == ref_named(s), "names it: <%s>", s);
	same("statement", s, secret_mask_statement(s, prepared), ref_mask_statement(s, prepared));
	same("text", s, secret_mask_text(s), ref_mask_text(s));
	same("strings", s, secret_mask_strings(s), ref_mask_strings(s));
	same("quoted", s, secret_mask_quoted(s, '\''), ref_mask_quoted(s, '\''));
	CHECK(secret_may_be_given(s) || ref_mask_statement(s, prepared) == NULL, "may be given: <%s>", s);
}

static void
test_same(void)
{
	for (int i = 0; i < RANDOM_TEXTS; i++)
	{
		char	   *s = random_text(1 + (int) rnd(i % 100 == 0 ? 200 : 24));

		standard_conforming_strings = i % 8 != 0;
		compare(s);
		free(s);
	}
	standard_conforming_strings = true;
}

/* The name anywhere, in any spelling, in a longer text without it: no position within a block hides it. */
static void
test_places(void)
{
	static const char *const ways[] = {
		"llm_set_secret",
		"\\006cl\\006d!005f\\0073\\0065\\0074\\005f\\0073\\0065\\0063\\0072\\0065\\0074",
		"\\154\\154\\155\\137\\163\\145\\164\\137\\163\\145\\143\\162\\145\\164",
		"\\x6c\\x6c\\x6d\\x5f\\x73\\x65\\x74\\x5F\\x73\\x65\\x63\\x72\\x65\\x74",
		"llm\\u005Fset\\+00005fsecret"
	};

	for (int w = 0; w < (int) lengthof(ways); w++)
		for (int before = 0; before < 200; before++)
		{
			char		s[1000];

			snprintf(s, sizeof(s), "%*s%s%*s", before, "", ways[w], before * 7 % 130, "");
			CHECK(secret_named(s), "%s behind %d bytes", ways[w], before);
			s[before + 3] = s[before] = '-';
			CHECK(!secret_named(s), "%s damaged, behind %d bytes", ways[w], before);
		}
}

/* ---- times ---- */

static double
ms_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec * 1e3 + (double) t.tv_nsec / 1e6;
}

static void
took(const char *what, const char *how, double ms)
{
	if (verbose)
		printf("%7.1f ms  %s of %s\n", ms, how, what);
	CHECK(ms <= MOST_MS, "%s of %s takes %.0f ms", how, what, ms);
}

/*
 * Process a text as the hook does with a message and with a statement; of a long one only the first two
 * steps.
 */
static void
time_text(const char *what, const char *s)
{
	double		begin = ms_now();

	(void) secret_named(s);
	took(what, "search", ms_now() - begin);
	begin = ms_now();
	(void) secret_in_long(s, prepared);
	took(what, "long", ms_now() - begin);
	if (strlen(s) > SECRET_LONGEST)
		return;
	begin = ms_now();
	free(secret_mask_statement(s, prepared));
	took(what, "statement", ms_now() - begin);
	begin = ms_now();
	free(secret_mask_text(s));
	took(what, "text", ms_now() - begin);
}

/* Make a text: before, then `of` repeated, then behind. */
static void
time_run_of(size_t size, const char *before, const char *of, const char *after)
{
	static char s[16 * MB + 1];
	char		what[200];
	size_t		n = strlen(before);
	size_t		end = size - strlen(after);

	memcpy(s, before, n);
	for (size_t k = strlen(of); n + k <= end; n += k)
		memcpy(s + n, of, k);
	strcpy(s + n, after);
	snprintf(what, sizeof(what), "%zu MB %.60s<%.60s>...%.60s", size / MB, before, of, after);
	time_text(what, s);
}

static void
time_run(const char *before, const char *of, const char *after)
{
	/* with the name at the beginning a long text is detected at once */
	if (before[0] == '\0' || before[0] == '$')
		time_run_of(16 * MB, before, of, after);
	time_run_of(SECRET_LONGEST, before, of, after);
}

static void
test_runs(void)
{
	static const char *const run[] = {
		"\\", "$", "'", "\"", "/*", "--", "-- \n", "/* */", "*/", "E'", "E'\\'", "U&'", "U&\"", "$$", "$a$",
		"$a$b", "$aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		"l", "ll\\", "0", "+", "\\0", "_", "llm_", "llm_set_secre", "llm_set_secret", "llm_set_secret ",
		"llm_set_secret /* ", "llm_set_secret --", "\"llm_set_secret\"", "llm_set_secret(",
		"llm_set_secret)", "llm_set_secret(')", "\\\\l", "a", " ", "(", ")", "execute ", "execute p(",
		"execute p )", "execute \"", "execute/*", "EXECUTE q1('x') EXECUTE q2 (1)", "language ", "language '",
		"'\"", "\\154"
	};
	static const char *const before[] = {"", "llm_set_secret(", "SELECT 'llm_set_secret', execute ",
										 "$q$ $r$ llm_set_secret(' "};

	for (int b = 0; b < (int) lengthof(before); b++)
		for (int i = 0; i < (int) lengthof(run); i++)
			time_run(before[b], run[i], i % 2 ? "" : "'");
	standard_conforming_strings = false;
	time_run("'", "\\", "llm_set_secret");
	standard_conforming_strings = true;
}

/* Nested dollar quotes, and comments, as deep as the text is long; the name is in the innermost one. */
static void
time_nested(size_t size)
{
	char	   *s = malloc(size + 1000);
	size_t		n = 0;

	for (int i = 0; n < size - 1000; i++)
		n += (size_t) sprintf(s + n, "$a%d$ ", i);
	strcpy(s + n, "llm_set_secret('x')");
	time_text("dollar quotes that don't end", s);
	strcpy(s + n, "execute p('x')");
	time_text("dollar quotes that don't end, EXECUTE", s);

	n = 0;
	for (int i = 0; i < 40; i++)
		n += (size_t) sprintf(s + n, "$b%d$ ", i);
	for (; n < size - 1000; n++)
		s[n] = 'a' + (char) (n % 3);
	n += (size_t) sprintf(s + n, " llm_set_secret('x') ");
	for (int i = 40; i-- > 0;)
		n += (size_t) sprintf(s + n, " $b%d$", i);
	time_text("40 dollar quotes", s);

	for (n = 0; n < size / 2 - 100;)
		n += (size_t) sprintf(s + n, "llm_set_secret /* ");
	while (n < size - 100)
		n += (size_t) sprintf(s + n, "*/");
	time_text("comments in one another", s);
	free(s);
}

/* Text that would be scanned again and again is masked completely in the end, not shown. */
static void
test_allowance(void)
{
	char	   *s = malloc(8 * MB);
	char	   *masked;
	size_t		n = (size_t) sprintf(s, "DO $a$ ");

	for (int i = 0; i < 40; i++)
		n += (size_t) sprintf(s + n, "$b%d$ ", i);
	memset(s + n, ' ', 4 * MB);
	n += 4 * MB;
	n += (size_t) sprintf(s + n, "SELECT llm_set_secret('big', 'sesame'); ");
	for (int i = 40; i-- > 0;)
		n += (size_t) sprintf(s + n, " $b%d$", i);
	strcpy(s + n, " $a$");
	masked = secret_mask_statement(s, prepared);
	CHECK(masked != NULL && strstr(masked, "sesame") == NULL, "a secret 40 dollar quotes in");
	free(masked);
	free(s);

	/* names of prepared statements: escapes, and quotes within them */
	masked = secret_mask_statement("EXECUTE U&\"q!0020\" uescape '!' ('sesame')", prepared);
	CHECK(masked != NULL && strstr(masked, "sesame") == NULL, "a name with escapes");
	free(masked);
	masked = secret_mask_statement("EXECUTE \"a\"\"b\"('sesame')", prepared_quoted);
	CHECK(masked != NULL && strstr(masked, "sesame") == NULL, "a name with a quote");
	free(masked);

	/* so many EXECUTEs that the last ones aren't looked up */
	s = malloc(MB);
	for (int i = n = 0; i < 3000; i++)
		n += (size_t) sprintf(s + n, "EXECUTE q%d('seen'); ", i);
	strcpy(s + n, "EXECUTE p1('sesame'); ");
	masked = secret_mask_statement(s, prepared);
	CHECK(masked != NULL && strstr(masked, "sesame") == NULL && strstr(masked, "seen") != NULL,
		  "a secret behind 3,000 EXECUTEs");
	free(masked);
	free(s);
}

int
main(int argc, char **argv)
{
	verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
	RUN(test_same());
	RUN(test_places());
	RUN(test_runs());
	time_nested(16 * MB);
	time_nested(SECRET_LONGEST);
	RUN(test_allowance());
	return check_done("test_secret_mask");
}
