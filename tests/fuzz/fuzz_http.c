/*
 * fuzz_http.c
 *	  Requests of HTTP clients: edits of heads and of chunked bodies.  In whatever pieces they come, they
 *	  are refused in the same way or give the same head, or the same body with the same end; and what is
 *	  accepted has the properties that the server relies on.
 *
 * The input's first byte selects one of these (modulo 2), its second how it is cut.
 */
#include "fuzz.h"

#include <strings.h>

#include "base/alloc.h"
#include "httpd/conn/request_head.h"
#include "httpd/router.h"

#define PREFIX	2

#define CHECK(cond) do { if (!(cond)) abort(); } while (0)

static const char *const heads[] = {
	"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close, x\r\nExpect: "
	"100-continue\r\n\r\n{}", "\r\nGET http://x:1/load?a=%41&b HTTP/1.1\r\nHost: x:1\r\nTransfer-Encoding: "
							  "chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
	"GET / HTTP/1.0\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost:\r\nOrigin: a\r\nX:\r\n\r\n",
	"GET /v1/models/%2e%2e%2F/%ff HTTP/1.1\r\nhost: [::1]\r\nA:\tb \t\r\n\r\n",
	"GET /v1/responses/a/cancel HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999999999999\r\nX-Api-Key: "
	"k\r\n\r\n",
};
static const char *const chunks[] = {
	"2\r\n{}\r\n0\r\n\r\n", "ffffffff\r\nabc",
	"00000001;a=\"b\"\r\nx\r\n1\r\ny\r\n000\r\nA: b\r\nC:\r\n\r\nGET", "0\r\n\r\n0\r\n\r\n",
	"a\r\n0123456789\r\n0;x\r\nT: 1\r\n\r\n",
};
static const char *const words[] = {
	"\r\n", "\r", "\n", ":", " ", "\t", "HTTP/1.1", "HTTP/1.0", "Host: x\r\n", "Content-Length: 1\r\n",
	"Transfer-Encoding: chunked\r\n", "%00", "%2f", "%", "http://", "0", "ffffffff", ";", "\r\n\r\n", "\x80",
	"\x7f", "?", "#", "*", "@", " /", "\r\n ", "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
};

#define N_HEADS		(sizeof(heads) / sizeof(heads[0]))
#define N_CHUNKS	(sizeof(chunks) / sizeof(chunks[0]))

/* ---- heads ---- */

/* Return the next cut of n bytes after `at`; seed 0: none. */
static size_t
next_cut(size_t at, size_t n, unsigned *seed)
{
	size_t		piece = *seed == 0 ? n : 1 + fuzz_below(seed, 9);

	return n - at < piece ? n : at + piece;
}

/* Return the status of a head, 0 = accepted, in *h and *kept; -1: incomplete.  *used: where it ends. */
static int
take_head(const char *s, size_t n, unsigned seed, HttpHead *h, Buf *kept, size_t *used)
{
	HeadScan	scan = {0};
	const char *why = NULL;
	int			status = 0;

	for (size_t have = 0; status == 0 && have < n;)
	{
		char	   *exact;

		have = next_cut(have, n, &seed);
		exact = mem_alloc(have);
		memcpy(exact, s, have);
		status = head_scan(exact, have, &scan, &why);
		mem_free(exact);
	}
	*used = scan.at;
	CHECK(scan.at <= n && scan.begin <= scan.at);
	if (status == 0)
		return -1;
	if (status == 1)
	{
		buf_add(kept, s + scan.begin, scan.at - scan.begin);
		status = head_parse(kept->data, kept->len, h, &why);
	}
	CHECK(status == 0 || (status >= 400 && why != NULL));
	return status;
}

static void
check_head(HttpHead *h, const Buf *kept)
{
	int			hosts = 0;

	CHECK(!(h->chunked && h->sized) && (h->http11 || !h->chunked) && h->method[0] != '\0' &&
		  h->path[0] != '\0');
	for (int i = 0; i < h->n; i++)
	{
		const HeadField *f = &h->fields[i];

		CHECK(f->name > kept->data && f->value + strlen(f->value) <= kept->data + kept->len);
		CHECK(f->name[0] != '\0' && strpbrk(f->name, " \t\r\n:") == NULL &&
			  strpbrk(f->value, "\r\n") == NULL);
		hosts += strcasecmp(f->name, "host") == 0;
	}
	CHECK(hosts == 1 || (hosts == 0 && !h->http11));
	(void) route_find(h->path);
	head_decode(h->path, false);
	CHECK(h->path + strlen(h->path) <= kept->data + kept->len);
	if (h->query != NULL)
		head_decode(h->query, true);
}

static void
try_head(const char *s, size_t n, unsigned seed)
{
	HttpHead	whole;
	HttpHead	cut;
	Buf			kept[2] = {{0}, {0}};
	size_t		used[2];
	int			status = take_head(s, n, 0, &whole, &kept[0], &used[0]);

	CHECK(take_head(s, n, seed, &cut, &kept[1], &used[1]) == status && used[0] == used[1]);
	if (status == 0)
	{
		CHECK(whole.length == cut.length && whole.n == cut.n && strcmp(whole.path, cut.path) == 0);
		check_head(&whole, &kept[0]);
	}
	buf_free(&kept[0]);
	buf_free(&kept[1]);
}

/* ---- chunks ---- */

/* Parse a chunked body; *used: how many bytes were used. */
static ChunkState
take_chunks(const char *s, size_t n, unsigned seed, Buf *body, size_t *used)
{
	Chunks		c = {0};
	size_t		at = 0;

	for (size_t have = 0; have < n && c.state != CHUNK_END && c.state != CHUNK_BAD;)
	{
		size_t		end = next_cut(have, n, &seed);
		char	   *exact = mem_alloc(end - at);

		memcpy(exact, s + at, end - at);
		for (size_t done = 0; at < end && c.state != CHUNK_END && c.state != CHUNK_BAD;)
		{
			const char *data;
			size_t		len;
			size_t		got = chunks_take(&c, exact + done, end - at, &data, &len);

			CHECK(got <= end - at && (got > 0 || c.state == CHUNK_BAD));
			CHECK(len == 0 || (data >= exact && data + len <= exact + done + got));
			if (len > 0)
				buf_add(body, data, len);
			done += got;
			at += got;
		}
		mem_free(exact);
		have = end;
	}
	*used = at;
	return c.state;
}

static void
try_chunks(const char *s, size_t n, unsigned seed)
{
	Buf			body[2] = {{0}, {0}};
	size_t		used[2];
	ChunkState	state = take_chunks(s, n, 0, &body[0], &used[0]);

	CHECK(take_chunks(s, n, seed, &body[1], &used[1]) == state);
	CHECK(body[0].len == body[1].len &&
		  (body[0].len == 0 || memcmp(body[0].data, body[1].data, body[0].len) == 0));
	CHECK(state != CHUNK_END || used[0] == used[1]);
	buf_free(&body[0]);
	buf_free(&body[1]);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *s = (const char *) data + PREFIX;

	if (size < PREFIX)
		return 0;
	if (data[0] % 2 == 0)
		try_head(s, size - PREFIX, 1 + data[1]);
	else
		try_chunks(s, size - PREFIX, 1 + data[1]);
	return 0;
}

size_t
fuzz_count(void)
{
	return N_HEADS + N_CHUNKS;
}

void
fuzz_seed(size_t i, Buf *b)
{
	buf_addc(b, i < N_HEADS ? 0 : 1);
	buf_addc(b, (char) i);
	buf_addstr(b, i < N_HEADS ? heads[i] : chunks[i - N_HEADS]);
}

void
fuzz_change(Buf *b, unsigned *seed)
{
	const char *word = words[fuzz_below(seed, sizeof(words) / sizeof(words[0]))];
	size_t		at = PREFIX + fuzz_below(seed, b->len - PREFIX + 1);
	char		run[64];

	switch (b->len > PREFIX ? rand_r(seed) % 6 : 0)
	{
		case 0:
		case 1:
			fuzz_replace(b, at, fuzz_below(seed, 2) * strlen(word), word, strlen(word));
			break;
		case 2:
			/* many of one character, up to beyond the limits */
			memset(run, "xA0 \t%"[fuzz_below(seed, 6)], sizeof(run));
			for (size_t n = fuzz_below(seed, 20) == 0 ? fuzz_below(seed, 200) : 1; n > 0; n--)
				fuzz_replace(b, at, 0, run, 1 + fuzz_below(seed, sizeof(run)));
			break;
		case 3:
			b->data[1] = (char) rand_r(seed);
			break;
		default:
			fuzz_bytes(b, b->len, seed);
			if (b->len < PREFIX)
				buf_add(b, "\0\0", PREFIX);
			break;
	}
}

FUZZ_MAIN("fuzz_http", 200000)
