/*
 * test_stop.c
 *	  Stop strings: every way to cut a text into calls gives the same output, and the same as a search in
 *	  the whole text.
 */
#include "tests/unit/check.h"
#include "text/stop_strings.h"

#include <string.h>

/* The result of a whole-text search: earliest completion, then list order. */
static int
by_search(const char *text, size_t n, size_t window, const char *const *strs, const size_t *lens,
		  size_t count, size_t *end)
{
	for (size_t i = window + 1; i <= n; i++)
		for (size_t j = 0; j < count; j++)
			if (lens[j] > 0 && i >= window + lens[j] && memcmp(text + i - lens[j], strs[j], lens[j]) == 0)
			{
				*end = i;
				return (int) j;
			}
	return -1;
}

static void
random_texts(bool include)
{
	unsigned	seed = 7;

	for (int round = 0; round < 20000; round++)
	{
		char		strs[3][6];
		const char *ptr[3] = {strs[0], strs[1], strs[2]};
		size_t		lens[3];
		char		text[40];
		size_t		n = (size_t) rand_r(&seed) % sizeof(text);
		size_t		window = rand_r(&seed) % 3 == 0 ? (size_t) rand_r(&seed) % (n + 1) : 0;
		size_t		end = n;
		size_t		i = 0;
		int			want;
		int			got = -1;
		Stop	   *s;
		Buf			out = {0};

		for (size_t j = 0; j < 3; j++)
		{
			lens[j] = (size_t) rand_r(&seed) % 6;
			for (size_t k = 0; k < lens[j]; k++)
				strs[j][k] = "ab\n"[rand_r(&seed) % 3];
		}
		for (size_t k = 0; k < n; k++)
			text[k] = "ab\n"[rand_r(&seed) % 3];
		want = by_search(text, n, window, ptr, lens, 3, &end);
		s = stop_new(ptr, lens, 3, include);
		while (i < n && got < 0)
		{
			size_t		step = 1 + (size_t) rand_r(&seed) % 4;

			if (i < window)
				step = step < window - i ? step : window - i;
			step = step < n - i ? step : n - i;
			got = stop_feed(s, text + i, step, i >= window, &out);
			i += step;
			CHECK(out.len <= i, "released more than was fed");
		}
		if (got < 0)
			stop_flush(s, &out);
		else if (!include)
			end -= lens[want < 0 ? 0 : want];
		CHECK(got == want, "string %d, expected %d", got, want);
		CHECK(out.len == end && (end == 0 || memcmp(out.data, text, end) == 0),
			  "%zu bytes out, expected %zu", out.len, end);
		stop_free(s);
		buf_free(&out);
	}
}

static void
one(const char *const *strs, size_t n, const char *const *feeds, const char *const *outs, int want)
{
	size_t		lens[4];
	Stop	   *s;
	int			got = -1;

	for (size_t i = 0; i < n; i++)
		lens[i] = strlen(strs[i]);
	s = stop_new(strs, lens, n, false);
	for (size_t i = 0; feeds[i] != NULL; i++)
	{
		Buf			out = {0};

		got = stop_feed(s, feeds[i], strlen(feeds[i]), true, &out);
		CHECK(strcmp(out.data ? out.data : "", outs[i]) == 0, "feed %zu gave \"%s\", expected \"%s\"", i,
			  out.data ? out.data : "", outs[i]);
		buf_free(&out);
	}
	CHECK(got == want, "string %d, expected %d", got, want);
	stop_free(s);
}

/* Flushed text can't begin a match any more. */
static void
after_a_flush(void)
{
	Stop	   *s = stop_new((const char *const[]) {"END"}, (const size_t[]) {3}, 1, false);
	Buf			out = {0};
	int			got;

	CHECK(stop_feed(s, "aEN", 3, true, &out) == -1 && out.len == 1, "held back");
	stop_flush(s, &out);
	got = stop_feed(s, "Db", 2, true, &out);
	CHECK(got == -1 && out.len == 5 && memcmp(out.data, "aENDb", 5) == 0, "string %d, %zu bytes", got,
		  out.len);
	stop_free(s);
	buf_free(&out);
}

#define LIST(...) (const char *const[]) {__VA_ARGS__, NULL}

int
main(void)
{
	Stop	   *none = stop_new(NULL, NULL, 0, false);
	Buf			out = {0};

	CHECK(stop_feed(none, "abc", 3, true, &out) == -1 && out.len == 3, "no strings");
	stop_flush(none, &out);
	CHECK(out.len == 3, "nothing is held");
	stop_free(none);

	/* held back while it may become one, emitted when not */
	RUN(one(LIST("\n\n"), 1, LIST("a\n", "b\n", "\nc"), LIST("a", "\nb", ""), 0));
	/* ends within a fed text; the rest is dropped */
	RUN(one(LIST("END"), 1, LIST("xE", "NDyy"), LIST("x", ""), 0));
	/* the earliest completion wins over the list order */
	RUN(one(LIST("abcd", "bc"), 2, LIST("abcd"), LIST("a"), 1));
	/* ties by list order */
	RUN(one(LIST("bc", "abc"), 2, LIST("abc"), LIST("a"), 0));
	RUN(one(LIST("abc", "bc"), 2, LIST("abc"), LIST(""), 0));
	/* falls back to a shorter border */
	RUN(one(LIST("aab"), 1, LIST("aaa", "ab"), LIST("a", "a"), 0));
	/* characters aren't split */
	one(LIST("\xE4\xBD\xA0!"), 1, LIST("x\xE4\xBD\xA0", "\xE4\xBD\xA0", "!"),
		LIST("x", "\xE4\xBD\xA0", ""), 0);
	RUN(after_a_flush());
	RUN(random_texts(false));
	RUN(random_texts(true));
	buf_free(&out);
	return check_done("stop");
}
