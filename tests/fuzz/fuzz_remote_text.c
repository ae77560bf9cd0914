/*
 * fuzz_remote_text.c
 *	  Texts from endpoints and settings: server-sent events, URLs, lists of allowed hosts.
 *
 * The input's first byte selects one (modulo 3), its second where to cut.  Events must not depend on the
 * cuts, and are compared with a simple parser of the whole text.  A URL that is accepted must be the
 * same when it is written out again; a list allows what one of its parts does.
 */
#include "fuzz.h"

#include "base/alloc.h"
#include "remote/codec/sse.h"
#include "ipc/host_allowlist.h"

#define HEAD	2
#define MAX_TEXT	4096

/* ---- events ---- */

static bool
put(void *ctx, const char *data, size_t n)
{
	Buf		   *b = ctx;

	if (data[n] != '\0')
		abort();
	buf_printf(b, "%zu ", n);
	buf_add(b, data, n);
	return true;
}

/* cut: 0 = in one piece. */
static Buf
events_of(const char *s, size_t n, unsigned cut, SseStatus *st)
{
	Sse			p;
	Buf			out = {0};

	sse_init(&p, 2 * MAX_TEXT);
	*st = SSE_MORE;
	for (size_t at = 0; at < n;)
	{
		size_t		k = cut == 0 ? n : 1 + fuzz_below(&cut, 1 + fuzz_below(&cut, 20));
		char	   *exact;

		if (k > n - at)
			k = n - at;
		exact = mem_alloc(k);
		memcpy(exact, s + at, k);
		*st = sse_feed(&p, exact, k, put, &out);
		mem_free(exact);
		at += k;
	}
	sse_free(&p);
	return out;
}

/* Parse the whole text literally by the standard. */
static Buf
plainly(const char *s, size_t n, SseStatus *st)
{
	Buf			out = {0},
				data = {0},
				line = {0};
	bool		any = false;

	*st = SSE_MORE;
	if (n >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0)
		s += 3, n -= 3;
	for (size_t i = 0; i < n && *st == SSE_MORE; i++)
	{
		const char *v;

		if (s[i] != '\n' && s[i] != '\r')
		{
			buf_addc(&line, s[i]);
			continue;
		}
		if (s[i] == '\r' && i + 1 < n && s[i + 1] == '\n')
			i++;
		v = line.len > 5 && line.data[5] == ' ' ? line.data + 6 : line.data + 5;
		if (line.len == 0)
		{
			if (any)
				put(&out, data.data, data.len);
			buf_reset(&data);
			any = false;
		}
		else if ((line.len == 4 && memcmp(line.data, "data", 4) == 0) ||
				 (line.len > 4 && memcmp(line.data, "data:", 5) == 0))
		{
			if (line.len == 4)
				v = line.data + 4;
			if (any)
				buf_addc(&data, '\n');
			else if (line.data + line.len - v == 6 && memcmp(v, "[DONE]", 6) == 0)
				*st = SSE_DONE;
			buf_reserve(&data, 1);
			data.data[data.len] = '\0';
			buf_add(&data, v, line.data + line.len - v);
			any = true;
		}
		buf_reset(&line);
	}
	buf_free(&data);
	buf_free(&line);
	return out;
}

static void
look_at_events(const char *s, size_t n, unsigned cut)
{
	SseStatus	st[3];
	Buf			a = events_of(s, n, 0, &st[0]),
				b = events_of(s, n, 1 + cut, &st[1]),
				c = plainly(s, n, &st[2]);

	if (a.len != b.len || a.len != c.len || st[0] != st[1] || st[0] != st[2])
		abort();
	if (a.len > 0 && (memcmp(a.data, b.data, a.len) != 0 || memcmp(a.data, c.data, a.len) != 0))
		abort();
	buf_free(&a);
	buf_free(&b);
	buf_free(&c);
}

/* ---- URLs and lists ---- */

static bool
take_url(const char *s, HostUrl *u)
{
	char		why[64] = "";
	bool		ok = hosts_url(s, u, why, sizeof(why));

	if (ok != (why[0] == '\0'))
		abort();
	return ok;
}

static void
look_at_url(const char *s)
{
	HostUrl		u,
				v;
	char		entry[300];
	Buf			b = {0};

	if (!take_url(s, &u))
		return;
	if (u.port < 1 || u.port > 65535 || u.host[0] == '\0' ||
		(*u.path != '\0' && *u.path != '/' && *u.path != '?') ||
		strspn(u.host, "abcdefghijklmnopqrstuvwxyz0123456789.-_:") != strlen(u.host))
		abort();
	hosts_entry(&u, entry, sizeof(entry));
	buf_printf(&b, "%s://%s%s", u.https ? "https" : "http", entry, u.path);
	if (!hosts_list_ok(entry, NULL, 0) || !hosts_allowed(entry, &u) || hosts_allowed("*", &u) != u.https ||
		hosts_allowed("", &u))
		abort();
	/* with its port it may be too long */
	if (b.len <= 2048 && (!take_url(b.data, &v) || v.https != u.https || v.port != u.port ||
						  strcmp(v.host, u.host) != 0 || strcmp(v.path, u.path) != 0))
		abort();
	buf_free(&b);
}

/* cut: where the list is cut in two. */
static void
look_at_list(char *s, size_t n, unsigned cut)
{
	static const HostUrl urls[] = {{true, "a.example", 443, ""}, {false, "a.example", 80, ""},
								   {true, "b.a.example", 8443, ""}, {false, "127.0.0.1", 8000, ""},
	{false, "::1", 80, ""}, {true, "a", 443, ""}};
	char		why[128] = "";
	bool		ok = hosts_list_ok(s, why, sizeof(why));
	size_t		at = n > 0 ? cut % n : 0;

	if (ok != (why[0] == '\0'))
		abort();
	while (at < n && s[at] != ',' && s[at] != ' ')
		at++;
	for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++)
	{
		bool		all = hosts_allowed(s, &urls[i]),
					parts;
		char		was = s[at];

		s[at] = '\0';
		parts = hosts_allowed(s, &urls[i]) || (at < n && hosts_allowed(s + at + 1, &urls[i]));
		s[at] = was;
		if (all != parts)
			abort();
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char	   *s;
	size_t		n;

	if (size < HEAD || size > MAX_TEXT)
		return 0;
	n = size - HEAD;
	s = mem_alloc(n + 1);
	memcpy(s, data + HEAD, n);
	s[n] = '\0';
	if (data[0] % 3 == 0)
		look_at_events(s, n, data[1]);
	else if (data[0] % 3 == 1)
		look_at_url(s);
	else
		look_at_list(s, strlen(s), data[1]);
	mem_free(s);
	return 0;
}

/* ---- seeds ---- */

static const struct
{
	char		kind;
	const char *text;
}			seeds[] = {
	{0, "data: {\"choices\": []}\n\ndata: [DONE]\n\n"},
	{0, "\xef\xbb\xbf" "event: x\r\nid: 1\r\ndata: a\r\ndata:b\r\n\r\n: hello\r\n\r\n"},
	{0, "data\n\ndata:\n\ndata: \ndata\n\n"}, {0, "data: a\r\rdata: b\r\n\ndata: c\n\r\n"},
	{0, "datax: a\nretry: 5\n\ndata: x\n"},
	{1, "https://llm.example.com/v1"}, {1, "http://127.0.0.1:8000/v1/x%20y"},
	{1, "https://[2001:DB8::1]:8443/"}, {1, "http://1.2.3.4.example"},
	{1, "https://user:p@a.example:443/?q#f"}, {1, "https://a.example/v1?api-version=2024-10-21"},
	{1, "http://0x7f.1"},
	{2, "a.example, *.a.example:8443 [::1]"}, {2, "*"},
	{2, "https://a.example http://127.0.0.1:8000,*.example"}, {2, "a:0, b/, *.1.2.3.4, ::1"},
};

size_t
fuzz_count(void)
{
	return sizeof(seeds) / sizeof(seeds[0]);
}

void
fuzz_seed(size_t i, Buf *b)
{
	buf_addc(b, seeds[i].kind);
	buf_addc(b, (char) (17 * i));
	buf_addstr(b, seeds[i].text);
}

void
fuzz_change(Buf *b, unsigned *seed)
{
	static const char *const piece[] = {"data: ", "data:", "data", "\n", "\r", "\r\n", "\n\n", "[DONE]", ": ",
										"\xef\xbb\xbf", "event: x\n", "x", " ",
		"http://", "https://", "a", "a.example", "127.0.0.1", "0x7f", "1", "[::1]", "[", "]", ":", ":80",
		":443", ":0", ":65536", "@", "/", "\\", "%", "%25", "%2e", "?", "#", ".", "..", "*", "*.", ",", ", ",
		"\t", "\xc3\xbc", "::", "fe80::1%eth0", "-", "_"};

	if (rand_r(seed) % 4 == 0)
		fuzz_bytes(b, b->len, seed);
	else if (rand_r(seed) % 16 == 0 && b->len >= HEAD)
		b->data[fuzz_below(seed, HEAD)] = (char) rand_r(seed);
	else
	{
		const char *s = piece[fuzz_below(seed, sizeof(piece) / sizeof(piece[0]))];

		fuzz_replace(b, HEAD + fuzz_below(seed, b->len), rand_r(seed) % 3 == 0 ? fuzz_below(seed, 6) : 0, s,
					 strlen(s));
	}
}

FUZZ_MAIN("fuzz_remote_text", 200000)
