/*
 * test_remote_sse.c
 *	  Server-sent events: the same events however a text is cut into pieces.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "remote/codec/sse.h"
#include "tests/unit/check.h"

typedef struct Seen
{
	Buf			text;			/* each event's data after its length, "3:abc " */
	int			n;
	int			stop_at;		/* the callback returns false at this event; 0 = never */
} Seen;

static bool
see(void *ctx, const char *data, size_t n)
{
	Seen	   *seen = ctx;

	CHECK(data[n] == '\0', "terminated");
	buf_printf(&seen->text, "%zu:", n);
	buf_add(&seen->text, data, n);
	buf_addc(&seen->text, ' ');
	return ++seen->n != seen->stop_at;
}

/* Feed a piece in a buffer of exactly its size, so that ASan finds reads beyond it. */
static SseStatus
feed(Sse *p, const char *s, size_t n, Seen *seen)
{
	char	   *copy = malloc(n ? n : 1);
	SseStatus	st;

	memcpy(copy, s, n);
	st = sse_feed(p, copy, n, see, seen);
	free(copy);
	return st;
}

typedef struct Case
{
	const char *text;
	const char *want;
	SseStatus	status;
} Case;

static const Case cases[] = {
	{"", "", SSE_MORE},
	{"data: a\n\n", "1:a ", SSE_MORE},
	{"data:a\n\ndata:  b\n\n", "1:a 2: b ", SSE_MORE},
	{"data: a\r\n\r\ndata: b\r\n\r\n", "1:a 1:b ", SSE_MORE},
	{"data: a\r\rdata: b\r\r", "1:a 1:b ", SSE_MORE},
	{"data: a\r\n\ndata: b\n\r\ndata: c\r\r\n", "1:a 1:b 1:c ", SSE_MORE},
	{"\xef\xbb\xbf" "data: a\n\n", "1:a ", SSE_MORE},
	{"\xef\xbb\xbf\n\xef\xbb\xbf" "data: a\n\n", "", SSE_MORE},
	{"\xef\xbb\xbf\xef\xbb\xbf" "data: a\n\n", "", SSE_MORE},
	{"\n\xef\xbb\xbf" "data: a\n\n", "", SSE_MORE},
	{": hello\n\n:\n:data: x\ndata: a\n: between\ndata: b\n\n", "3:a\nb ", SSE_MORE},
	{"event: x\nid: 1\nretry: 5\ndata: a\nevent\n\n", "1:a ", SSE_MORE},
	{"event: ping\n\nid: 2\n\n\n\n", "", SSE_MORE},
	{"data\n\n", "0: ", SSE_MORE},
	{"data:\n\ndata: \n\n", "0: 0: ", SSE_MORE},
	{"data:\ndata:\n\n", "1:\n ", SSE_MORE},
	{"data: a\ndata\ndata: b\n\n", "4:a\n\nb ", SSE_MORE},
	{"datax: a\ndat: b\n data: c\nDATA: d\ndata : e\n\n", "", SSE_MORE},
	{"data: x:y: z\n\n", "6:x:y: z ", SSE_MORE},
	{"data: \xc3\xa4\xf0\x9f\x98\x80\n\n", "6:\xc3\xa4\xf0\x9f\x98\x80 ", SSE_MORE},
	{"data: a\n", "", SSE_MORE},
	{"data: a", "", SSE_MORE},
	{"data: a\n\nda", "1:a ", SSE_MORE},
	{"data: a\n\n: c", "1:a ", SSE_MORE},
	{"data: a\n\nevent: c\n", "1:a ", SSE_MORE},
	{"data: a\n\ndata: [DONE]\n\n", "1:a ", SSE_DONE},
	{"data:[DONE]\r\ndata: b\n\n", "", SSE_DONE},
	{"data: [DONE]\n\ndata: b\n\n", "", SSE_DONE},
	{"data: [DONE] \n\ndata: [done]\n\ndata: a\ndata: [DONE]\n\n", "7:[DONE]  6:[done] 8:a\n[DONE] ",
	 SSE_MORE},
	{"data: [DONE]", "", SSE_MORE},
	{"{\"error\": {\"message\": \"not events\"}}\n", "", SSE_MORE},
};

/* Every case in two pieces, cut at each position, and in three cut at each two, and byte by byte. */
static void
test_cuts(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		const Case *c = &cases[i];
		size_t		n = strlen(c->text);
		int			wrong = 0;

		for (size_t a = 0; a <= n; a++)
			for (size_t b = a; b <= n; b++)
			{
				Sse			p;
				Seen		seen = {0};
				SseStatus	st;

				sse_init(&p, 100);
				st = feed(&p, c->text, a, &seen);
				st = feed(&p, c->text + a, b - a, &seen);
				st = feed(&p, c->text + b, n - b, &seen);
				if (st != c->status ||
					strcmp(seen.text.data ? seen.text.data : "", c->want) != 0)
				{
					if (wrong++ == 0)
						CHECK(false, "%s, cut at %zu and %zu: %d, %s", c->text, a, b, st,
							  seen.text.data ? seen.text.data : "");
				}
				buf_free(&seen.text);
				sse_free(&p);
			}
		CHECK(wrong == 0, "%zu: %d cuts", i, wrong);
		{
			Sse			p;
			Seen		seen = {0};

			sse_init(&p, 100);
			for (size_t k = 0; k < n; k++)
				feed(&p, c->text + k, 1, &seen);
			CHECK(p.status == c->status && strcmp(seen.text.data ? seen.text.data : "", c->want) == 0,
				  "%s, byte by byte", c->text);
			buf_free(&seen.text);
			sse_free(&p);
		}
	}
}

/* An event is emitted with the byte that ends its empty line, not later. */
static void
test_promptness(void)
{
	static const char *const texts[] = {"data: a\n\n", "data: a\r\n\r", "data: a\r\r"};

	for (int i = 0; i < 3; i++)
	{
		Sse			p;
		Seen		seen = {0};
		size_t		n = strlen(texts[i]);

		sse_init(&p, 100);
		feed(&p, texts[i], n - 1, &seen);
		CHECK(seen.n == 0, "not before: %d", i);
		feed(&p, texts[i] + n - 1, 1, &seen);
		CHECK(seen.n == 1, "at once: %d", i);
		buf_free(&seen.text);
		sse_free(&p);
	}
}

static void
test_bounds(void)
{
	for (int piece = 1; piece <= 64; piece *= 4)
		for (size_t n = 18; n <= 22; n++)
		{
			char		one[64] = "data: ",
						two[64] = "data: ";
			const char *texts[2] = {one, two};

			memset(one + 6, 'x', n);
			strcpy(one + 6 + n, "\n\n");
			/* in two lines with the newline between */
			memset(two + 6, 'x', 10);
			strcpy(two + 16, "\ndata: ");
			memset(two + 23, 'x', n - 11);
			strcpy(two + 12 + n, "\n\n");
			for (int t = 0; t < 2; t++)
			{
				Sse			p;
				Seen		seen = {0};
				SseStatus	st = SSE_MORE;

				sse_init(&p, 20);
				for (size_t at = 0, len = strlen(texts[t]); at < len; at += piece)
					st = feed(&p, texts[t] + at, len - at < (size_t) piece ? len - at : (size_t) piece,
							  &seen);
				CHECK(st == (n <= 20 ? SSE_MORE : SSE_TOO_LARGE) && seen.n == (n <= 20),
					  "%zu bytes by %d: %d", n, piece, st);
				buf_free(&seen.text);
				sse_free(&p);
			}
		}
	/* a line that never ends, and an event that never does: little is buffered, and the end is final */
	for (int t = 0; t < 2; t++)
	{
		Sse			p;
		Seen		seen = {0};
		SseStatus	st = SSE_MORE;

		sse_init(&p, 1000);
		for (int i = 0; i < 100000; i++)
			st = t == 0 ? feed(&p, "x", 1, &seen) : feed(&p, "data: x\n", 8, &seen);
		CHECK(st == SSE_TOO_LARGE && p.line.cap + p.data.cap < 10000 && seen.n == 0, "%d: held %zu", t,
			  p.line.cap + p.data.cap);
		CHECK(feed(&p, "\n\ndata: a\n\n", 11, &seen) == SSE_TOO_LARGE && seen.n == 0, "%d: it stays so", t);
		buf_free(&seen.text);
		sse_free(&p);
	}
	/* any number of events and comments below the bound */
	{
		Sse			p;
		Seen		seen = {0};
		SseStatus	st = SSE_MORE;

		sse_init(&p, 20);
		for (int i = 0; i < 10000; i++)
			st = feed(&p, ": keep-alive\ndata: 01234567890123\n\n", 35, &seen);
		CHECK(st == SSE_MORE && seen.n == 10000, "%d events", seen.n);
		buf_free(&seen.text);
		sse_free(&p);
	}
}

static void
test_stop(void)
{
	Sse			p;
	Seen		seen = {.stop_at = 2};
	const char	text[] = "data: a\n\ndata: b\n\ndata: c\n\n";

	sse_init(&p, 20);
	CHECK(feed(&p, text, sizeof(text) - 1, &seen) == SSE_STOPPED && seen.n == 2, "%d", seen.n);
	CHECK(feed(&p, text, sizeof(text) - 1, &seen) == SSE_STOPPED && seen.n == 2, "it stays so");
	buf_free(&seen.text);
	sse_free(&p);
	/* a NUL is a byte like others */
	sse_init(&p, 20);
	memset(&seen, 0, sizeof(seen));
	CHECK(feed(&p, "data: a\0b\n\n", 11, &seen) == SSE_MORE && seen.text.len == 6 &&
		  memcmp(seen.text.data, "3:a\0b ", 6) == 0, "%zu", seen.text.len);
	buf_free(&seen.text);
	sse_free(&p);
}

int
main(void)
{
	RUN(test_cuts());
	RUN(test_promptness());
	RUN(test_bounds());
	RUN(test_stop());
	return check_done("test_remote_sse");
}
