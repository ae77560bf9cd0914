/*
 * test_http_head.c
 *	  What the HTTP server accepts as a head and as chunks, complete and in pieces.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/alloc.h"
#include "httpd/conn/request_head.h"
#include "tests/unit/check.h"

/*
 * Return the status of a text that is scanned in pieces of `piece` bytes; 0: it is a head, stored in h;
 * -1: it is incomplete.
 */
static int
read_head(const char *text, size_t n, size_t piece, HttpHead *h, Buf *kept)
{
	HeadScan	scan = {0};
	const char *why = NULL;
	int			status = 0;

	for (size_t have = 0; status == 0 && have < n;)
	{
		have = n - have < piece ? n : have + piece;
		status = head_scan(text, have, &scan, &why);
	}
	if (status != 1)
	{
		CHECK(status == 0 || why != NULL, "an error has its reason");
		return status == 0 ? -1 : status;
	}
	buf_reset(kept);
	buf_add(kept, text + scan.begin, scan.at - scan.begin);
	status = head_parse(kept->data, kept->len, h, &why);
	CHECK(status == 0 || why != NULL, "an error has its reason");
	return status;
}

static int
status_of(const char *text, HttpHead *h, Buf *kept)
{
	int			whole = read_head(text, strlen(text), strlen(text), h, kept);

	for (size_t piece = 1; piece < 9; piece++)
		CHECK(read_head(text, strlen(text), piece, h, kept) == whole, "in pieces of %zu: %.40s", piece, text);
	return whole;
}

static void
test_heads(void)
{
	HttpHead	h;
	Buf			kept = {0};

	CHECK(status_of("\r\nPOST /v1/a%2Fb%20c?x=%41&y=a+b HTTP/1.1\r\nHost: [::1]:80\r\nContent-Length:  "
					"007\t\r\nX-Api-Key: k\r\nConnection: a, close\r\nEmpty:\r\n\r\n", &h, &kept) == 0,
					"as sent");
	CHECK(strcmp(h.method, "POST") == 0 && strcmp(h.path, "/v1/a%2Fb%20c") == 0 &&
		  strcmp(h.query, "x=%41&y=a+b") == 0, "%s %s", h.path, h.query);
	CHECK(h.http11 && h.close && h.sized && h.length == 7 && !h.chunked && h.n == 5, "as sent");
	CHECK(strcmp(head_value(&h, "x-api-key"), "k") == 0 && strcmp(head_value(&h, "empty"), "") == 0 &&
		  head_value(&h, "x-api") == NULL, "as sent");
	head_decode(h.query, true);
	CHECK(strcmp(h.query, "x=A&y=a b") == 0, "%s", h.query);
	CHECK(status_of("GET HTTPS://a.b:1/p?q HTTP/1.1\r\nHost: A.b:1\r\nTransfer-Encoding: CHUNKED\r\nExpect: "
					"100-Continue\r\n\r\n", &h, &kept) == 0, "absolute");
	CHECK(strcmp(h.path, "/p") == 0 && h.chunked && h.expects && !h.close && strcmp(h.query, "q") == 0,
		  "absolute");
	CHECK(status_of("OPTIONS * HTTP/1.0\r\n\r\n", &h, &kept) == 0 && h.close && !h.http11 && h.query == NULL,
		  "HTTP/1.0");
	CHECK(status_of("GET / HTTP/1.1\r\nHost: x\r\n", &h, &kept) == -1 && status_of("G", &h, &kept) == -1 &&
		  status_of("\r", &h, &kept) == -1, "not over");
	CHECK(status_of("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999999999\r\n\r\n", &h,
					&kept) == 0 && h.length == 999999999999999999, "the longest");
	buf_free(&kept);
}

static void
test_refused(void)
{
	static const struct
	{
		int			status;
		const char *text;
	}			cases[] = {
		{400, "\n"}, {400, "\r\n\r\n"}, {400, "\rG"}, {400, "GET / HTTP/1.1\n"},
		{400, "GET / HTTP/1.1\r\r\n"}, {400, "GET /\tHTTP/1.1\r\nHost: x\r\n\r\n"},
		{505, "GET / HTTP/2.0\r\n\r\n"}, {505, "GET / HTTP/1.2\r\nHost: x\r\n\r\n"},
		{400, "GET / HTTP/1.10\r\nHost: x\r\n\r\n"}, {400, "GET / HTTP\r\n\r\n"}, {400, "GET /\r\n\r\n"},
		{400, "GET\r\n\r\n"},
		{400, "G@T / HTTP/1.1\r\nHost: x\r\n\r\n"}, {400, "GET / / HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET * HTTP/1.1\r\nHost: x\r\n\r\n"}, {400, "GET x HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET /%g0 HTTP/1.1\r\nHost: x\r\n\r\n"}, {400, "GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET /%0 HTTP/1.1\r\nHost: x\r\n\r\n"}, {400, "GET /?%00 HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET http://x HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET http://x?/ HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET http://y/ HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET http://x:80/ HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET http://a@x/ HTTP/1.0\r\n\r\n"}, {400, "GET / HTTP/1.1\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: a\r\nHOST: a\r\n\r\n"}, {400, "GET / HTTP/1.1\r\nHost : a\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\n Host: a\r\n\r\n"}, {400, "GET / HTTP/1.1\r\nHost: a\r\nb\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"},
		{400, "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000000000000\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{417, "GET / HTTP/1.1\r\nHost: x\r\nExpect: 200-ok\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: x\r\nX: \x7f\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: a\r\nAuthorization: a\r\n\r\n"},
	};
	HttpHead	h;
	Buf			kept = {0};
	Buf			text = {0};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CHECK(status_of(cases[i].text, &h, &kept) == cases[i].status, "%d: %s", cases[i].status,
			  cases[i].text);
	CHECK(read_head("GET / HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n", 36, 36, &h, &kept) == 400, "NUL");
	/* lengths: exactly the limit, and one more */
	for (int more = 0; more < 2; more++)
	{
		buf_reset(&text);
		buf_addstr(&text, "GET /");
		while (text.len < (size_t) HEAD_LINE_MAX - 11 + (size_t) more)
			buf_addc(&text, 'x');
		buf_addstr(&text, " HTTP/1.1\r\nHost: x\r\n\r\n");
		CHECK(read_head(text.data, text.len, text.len, &h, &kept) == (more ? 414 : 0), "a line");
		buf_reset(&text);
		buf_addstr(&text, "GET / HTTP/1.1\r\nHost: x\r\nX: ");
		while (text.len < (size_t) HEAD_MAX - 4 + (size_t) more)
			buf_addc(&text, 'x');
		buf_addstr(&text, "\r\n\r\n");
		CHECK(read_head(text.data, text.len, text.len, &h, &kept) == (more ? 431 : 0), "a head");
		buf_reset(&text);
		buf_addstr(&text, "GET / HTTP/1.1\r\nHost: x\r\n");
		for (int i = 1; i < HEAD_FIELDS + more; i++)
			buf_addstr(&text, "X: y\r\n");
		buf_addstr(&text, "\r\n");
		CHECK(read_head(text.data, text.len, text.len, &h, &kept) == (more ? 431 : 0), "fields");
	}
	buf_free(&text);
	buf_free(&kept);
}

/*
 * Read a chunked body that comes in pieces; false: it is invalid.  *used: number of bytes that belong to
 * the body.
 */
static bool
read_chunks(const char *text, size_t piece, Buf *body, size_t *used)
{
	Chunks		c = {0};
	size_t		n = strlen(text);

	buf_reset(body);
	*used = 0;
	while (*used < n && c.state != CHUNK_END)
	{
		const char *data;
		size_t		len;
		size_t		most = n - *used < piece ? n - *used : piece;

		*used += chunks_take(&c, text + *used, most, &data, &len);
		if (c.state == CHUNK_BAD)
			return false;
		buf_add(body, data != NULL ? data : "", len);
	}
	return c.state == CHUNK_END;
}

static void
test_chunks(void)
{
	static const char good[] = "3\r\nabc\r\n0000000A;x=\"y\"\r\n0123456789\r\n0\r\nA-b:c\r\nD:\r\n\r\nGET";
	static const char *const bad[] = {
		"\r\n", "g\r\n", "3", "3\r\nabc", "3\r\nabcd\r\n0\r\n\r\n", "3\r\nab\r\n0\r\n\r\n", "3\n", "3 \r\n",
		"000000001\r\na\r\n", "3;\nabc", "0\r\n\n", "0\r\n a: b\r\n\r\n", "0\r\na b: c\r\n\r\n",
		"0\r\na\r\n\r\n", "0\r\nb: \x01\r\n\r\n", "0\r\n\r", ";\r\n"
	};
	Buf			body = {0};
	Buf			text = {0};
	size_t		used;

	for (size_t piece = 1; piece < sizeof(good); piece++)
	{
		CHECK(read_chunks(good, piece, &body, &used) && used == sizeof(good) - 4, "in pieces of %zu", piece);
		CHECK(strcmp(body.data, "abc0123456789") == 0, "in pieces of %zu: %s", piece, body.data);
		for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
			CHECK(!read_chunks(bad[i], piece, &body, &used), "in pieces of %zu: %s", piece, bad[i]);
	}
	buf_addstr(&text, "1;");
	for (int i = 0; i < 20000; i++)
		buf_addc(&text, 'x');
	buf_addstr(&text, "\r\na\r\n0\r\n\r\n");
	CHECK(!read_chunks(text.data, 5000, &body, &used), "an extension without an end");
	buf_free(&text);
	buf_free(&body);
}

/* Random bytes in and around heads: an accepted head has the properties that other code relies on. */
static void
test_chance(void)
{
	static const char alphabet[] = "\r\n\r\n: \tGETHost/x1,;%0\0\x7f\xc3";
	static const char seed_text[] = "GET /load?a=%41 HTTP/1.1\r\nHost: x\r\nContent-Length: "
									"2\r\nTransfer-Encoding: chunked\r\n\r\n";
	unsigned	seed = 1;
	HttpHead	h;
	Buf			kept = {0};
	int			taken = 0;

	for (int round = 0; round < 200000; round++)
	{
		char		text[sizeof(seed_text)];
		size_t		n = sizeof(seed_text) - 1;

		memcpy(text, seed_text, sizeof(text));
		for (int i = rand_r(&seed) % 4; i >= 0; i--)
			text[(size_t) rand_r(&seed) % n] = alphabet[(size_t) rand_r(&seed) % (sizeof(alphabet) - 1)];
		if (read_head(text, n, 1 + (size_t) rand_r(&seed) % n, &h, &kept) != 0)
			continue;
		taken++;
		CHECK(!(h.sized && h.chunked) && h.path != NULL && h.method[0] != '\0' && (!h.chunked || h.http11),
			  "round %d", round);
		for (int i = 0; i < h.n; i++)
			CHECK(h.fields[i].name[0] != '\0' && strpbrk(h.fields[i].name, " \t\r\n:") == NULL &&
				  strpbrk(h.fields[i].value, "\r\n") == NULL, "round %d", round);
	}
	CHECK(taken > 100, "%d were taken", taken);
	buf_free(&kept);
}

int
main(void)
{
	RUN(test_heads());
	RUN(test_refused());
	RUN(test_chunks());
	RUN(test_chance());
	return check_done("test_http_head");
}
