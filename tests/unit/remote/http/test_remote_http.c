/*
 * test_remote_http.c
 *	  The HTTP client against servers that behave, and servers that don't.
 */
#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/alloc.h"
#include "remote/http/http_client.h"
#include "remote/http/http_internal.h"
#include "tests/unit/check.h"
#include "tests/unit/remote/remote_server.h"

static Server server;
static Http *http;

/* The events of a call. */
typedef struct Got
{
	Buf			body;
	HttpResult	r;
	HttpCall   *call;
	int			heads,
				ended,
				pieces;
	bool		no_head,		/* reject the head */
				no_data;		/* reject the first bytes */
	int			no_piece;		/* reject the bytes after this many pieces; 0 = never */
	bool		pause;			/* pause in the data callback */
	HttpCall  **cancel;			/* cancel this call in the data callback */
	struct Got *start;			/* start this call in the data callback */
	HttpRequest *start_what;
} Got;

static HttpCall *begin(Got *g, const HttpRequest *r);

static bool
on_head(void *ctx, const HttpResult *r)
{
	Got		   *g = ctx;

	g->heads++;
	CHECK(g->heads == 1 && g->ended == 0 && g->body.len == 0, "once, and first");
	CHECK(r->status >= 200, "status %d", r->status);
	return !g->no_head;
}

static bool
on_bytes(void *ctx, const char *p, size_t n)
{
	Got		   *g = ctx;

	if (g->heads != 1 || g->ended != 0)
		CHECK(false, "bytes between the head and the end");
	g->pieces++;
	buf_add(&g->body, p, n);
	if (g->cancel != NULL && *g->cancel != NULL)
	{
		http_cancel(*g->cancel);
		*g->cancel = NULL;
	}
	if (g->start != NULL)
	{
		begin(g->start, g->start_what);
		g->start = NULL;
	}
	if (g->pause)
		http_pause(g->call, true);
	return !g->no_data && (g->no_piece == 0 || --g->no_piece > 0);
}

static void
on_ended(void *ctx, const HttpResult *r)
{
	Got		   *g = ctx;

	g->ended++;
	g->r = *r;
	g->call = NULL;
}

static const HttpEvents events = {on_head, on_bytes, on_ended};

static HttpCall *
begin(Got *g, const HttpRequest *r)
{
	Err			e = {0};

	memset(&g->r, 0, sizeof(g->r));
	g->call = http_start(http, r, &events, g, &e);
	CHECK(g->call != NULL, "%s", e.msg);
	CHECK(g->heads == 0 && g->ended == 0, "nothing comes from within");
	return g->call;
}

static void
forget(Got *g)
{
	buf_free(&g->body);
	memset(g, 0, sizeof(*g));
}

/* Run the client for `ms`, or until the calls have ended. */
static void
poll_calls(Got *g, int n, int ms)
{
	int64_t		end = clock_us() + (int64_t) ms * 1000;

	for (;;)
	{
		struct pollfd p = {.fd = http_fd(http), .events = POLLIN};
		int			ended = 0;
		int64_t		us = end - clock_us();

		for (int i = 0; i < n; i++)
			ended += g[i].ended > 0;
		if (us <= 0 || (n > 0 && ended == n))
			return;
		/* the descriptor must become readable by itself */
		poll(&p, 1, (int) (us / 1000) + 1);
		http_poll(http);
	}
}

static HttpRequest
to(int port, const char *path, const char *body)
{
	static char urls[8][256];
	static int	at;
	char	   *url = urls[at++ % 8];

	snprintf(url, sizeof(urls[0]), "http://127.0.0.1:%d%s", port, path);
	return (HttpRequest) {.url = url, .body = body, .len = strlen(body), .deadline_us = clock_us() + 20000000,
						  .connect_timeout_ms = 5000,
		.verify = true, .max_answer = 1048576};
}

static void
run(Got *g, HttpRequest r)
{
	forget(g);
	begin(g, &r);
	poll_calls(g, 1, 30000);
	CHECK(g->ended == 1, "%s ended %d times", r.url, g->ended);
}

static int
open_fds(void)
{
	DIR		   *d = opendir("/proc/self/fd");
	int			n = 0;

	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

static void
test_plain(void)
{
	Got			g = {0};
	char		big[300001];
	HttpStats	st;

	run(&g, to(server.port, "/echo?key=v", "{\"a\": 1}"));
	CHECK(g.r.end == HTTP_DONE && g.r.status == 200 && g.r.is_json && !g.r.is_events &&
		  strcmp(g.body.data, "{\"a\": 1}") == 0, "%s", g.r.e.msg);
	CHECK(g.r.sent_us > 0 && g.r.first_byte_us >= g.r.sent_us && g.r.end_us >= g.r.first_byte_us,
		  "times in their order");
	CHECK(g.r.retry_after_ms == -1 && g.r.limit_tokens == -1, "none given");
	CHECK(strncmp(server.head, "POST /echo?key=v HTTP/1.1\r\n", 27) == 0 &&
		  strstr(server.head, "\r\nContent-Type: application/json\r\n") != NULL &&
		  strstr(server.head, "\r\nAccept: application/json\r\n") != NULL &&
		  strcasestr(server.head, "Expect") == NULL && strcasestr(server.head, "chunked") == NULL &&
		  strcasestr(server.head, "upgrade") == NULL, "%s", server.head);
	run(&g, to(server.port, "/echo", ""));
	CHECK(g.r.end == HTTP_DONE && g.body.len == 0 && strstr(server.head, "\r\nContent-Length: 0\r\n") != NULL,
		  "an empty body: %s", server.head);
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	for (int i = 0; i < 26; i++)
		big[i * 10000] = 'a' + i;
	run(&g, to(server.port, "/echo", big));
	CHECK(g.r.end == HTTP_DONE && g.body.len == sizeof(big) - 1 && memcmp(g.body.data, big, g.body.len) == 0,
		  "%zu bytes", g.body.len);
	run(&g, to(server.port, "/chunked", "some text that is longer than a chunk"));
	CHECK(g.r.end == HTTP_DONE && strcmp(g.body.data, "some text that is longer than a chunk") == 0 &&
		  g.r.retry_after_ms == -1, "chunks; a trailer is no header");
	run(&g, to(server.port, "/gzip", "some text"));
	CHECK(g.r.end == HTTP_CUT && g.r.status == 200 && g.r.e.cls == ERR_PROTOCOL && g.body.len == 0 &&
		  strstr(g.r.e.msg, "compressed") != NULL, "%s", g.r.e.msg);
	CHECK(strstr(server.head, "\r\nAccept-Encoding: identity\r\n") != NULL &&
		  strcasestr(server.head, ": gzip") == NULL, "%s", server.head);
	run(&g, to(server.port, "/bytes", "byte by byte"));
	CHECK(g.r.end == HTTP_DONE && strcmp(g.body.data, "byte by byte") == 0, "byte by byte");
	run(&g, to(server.port, "/hints", ""));
	CHECK(g.r.end == HTTP_DONE && g.r.status == 200 && strcmp(g.body.data, "ok") == 0 &&
		  g.r.retry_after_ms == -1, "the last head counts");
	run(&g, to(server.port, "/no-length", ""));
	CHECK(g.r.end == HTTP_DONE && strcmp(g.body.data, "all of it") == 0, "until it closes");
	run(&g, to(server.port, "/error", "{\"error\": 1}"));
	CHECK(g.r.end == HTTP_DONE && g.r.status == 500 && strcmp(g.body.data, "{\"error\": 1}") == 0,
		  "a status is an answer");
	{
		HttpRequest r = to(server.port, "/events", "{}");
		const char *headers[] = {"Authorization: Bearer s3cret", "X-Empty:", "X-Two: a b",
								 "Content-Type: text/x"};

		r.stream = true;
		r.headers = headers;
		r.n_headers = 4;
		run(&g, r);
		CHECK(g.r.end == HTTP_DONE && g.r.is_events && !g.r.is_json &&
			  strcmp(g.body.data, "data: x\n\ndata: x\n\ndata: x\n\n") == 0, "events");
		CHECK(strstr(server.head, "\r\nAccept: text/event-stream\r\n") != NULL &&
			  strstr(server.head, "\r\nAuthorization: Bearer s3cret\r\n") != NULL &&
			  (strstr(server.head, "\r\nX-Empty:\r\n") != NULL ||
			   strstr(server.head, "\r\nX-Empty: \r\n") != NULL) &&
			  strstr(server.head, "\r\nX-Two: a b\r\n") != NULL &&
			  strstr(server.head, "\r\nContent-Type: text/x\r\n") != NULL &&
			  strstr(server.head, "application/json") == NULL, "%s", server.head);
		r.get = true;
		run(&g, r);
		CHECK(g.r.end == HTTP_DONE && strncmp(server.head, "GET /events", 11) == 0 &&
			  strcasestr(server.head, "content-length") == NULL, "%s", server.head);
	}
	http_stats(http, &st);
	CHECK(st.calls == 0, "%d calls", st.calls);
	forget(&g);
}

static void
test_headers_refused(void)
{
	static const char *const bad[] = {"Host: x", "content-length: 5", "Transfer-Encoding: chunked",
									  "Expect: 100-continue", "X: a\r\nY: b", "X: a\nb",
	"X\r\n: a", "no colon", ": a", "", "X Y: a", "X\t: a", "Connection: close", "X: \x01"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		HttpRequest r = to(server.port, "/echo", "");
		Err			e = {0};
		HttpCall   *c;

		r.headers = &bad[i];
		r.n_headers = 1;
		c = http_start(http, &r, &events, NULL, &e);
		CHECK(c == NULL && e.cls == ERR_INVALID, "%s", bad[i]);
	}
}

static const struct
{
	const char *s;
	int64_t		ms;
}			durations[] = {
	{"6m0s", 360000}, {"1s", 1000}, {"20ms", 20}, {"1h2m3s", 3723000}, {"1.5s", 1500}, {"0s", 0},
	{"7", 7000}, {"0.25", 250}, {"1d", 86400000},
	{"1m0.5s", 60500}, {"999us", 1}, {"1ns", 1}, {"99999999999999999999999s", 86400000},
	{"365d", 86400000},
	{"", -1}, {"s", -1}, {"-1s", -1}, {"1x", -1}, {"1s2", -1}, {"1 s", -1}, {"abc", -1}, {"1.s", -1},
	{".5s", -1}, {"1e3", -1}, {"1s ", -1},
};

static const struct
{
	const char *head;
	int64_t		ms;
}			wait_heads[] = {
	{"Retry-After: 5", 5000}, {"retry-after:5", 5000}, {"RETRY-AFTER:  5  ", 5000}, {"Retry-After: 0", 0},
	{"Retry-After: 1.5", 1500},
	{"Retry-After: -5", -1}, {"Retry-After: soon", -1}, {"Retry-After:", -1}, {"Retry-After: 1s", -1},
	{"Retry-After: 9999999999999999999999", 86400000},
	{"Retry-After: Sun, 06 Nov 1994 08:49:37 GMT", 0}, {"Retry-After: Fri, 31 Dec 2199 23:59:59 GMT",
														86400000},
	{"retry-after-ms: 250", 250}, {"Retry-After-Ms: 0.5", 1}, {"retry-after-ms: x", -1},
	{"retry-after-ms: 99999999999999999999", 86400000},
	{"X-Retry-After: 5", -1}, {"Retry-Afte: 5", -1},
};

/* Waits that the endpoint asks for. */
static void
test_waits(void)
{
	Got			g = {0};
	HttpResult	r;
	char		date[80];
	time_t		t = time(NULL) + 100;
	struct tm	tm;

	for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++)
	{
		int64_t		ms = http_duration(durations[i].s, strlen(durations[i].s));

		CHECK(ms == durations[i].ms, "%s: %lld", durations[i].s, (long long) ms);
	}
	for (size_t i = 0; i < sizeof(wait_heads) / sizeof(wait_heads[0]); i++)
	{
		http_head_reset(&r);
		http_head_line(&r, wait_heads[i].head, strlen(wait_heads[i].head));
		CHECK(r.retry_after_ms == wait_heads[i].ms, "%s: %lld", wait_heads[i].head,
			  (long long) r.retry_after_ms);
	}
	gmtime_r(&t, &tm);
	strftime(date, sizeof(date), "Retry-After: %a, %d %b %Y %H:%M:%S GMT", &tm);
	http_head_reset(&r);
	http_head_line(&r, date, strlen(date));
	CHECK(r.retry_after_ms > 95000 && r.retry_after_ms <= 100000, "%s: %lld", date,
		  (long long) r.retry_after_ms);
	{
		static const struct
		{
			const char *head;
			bool		encoded;
		}			codings[] = {
			{"Content-Encoding: gzip", true}, {"content-encoding:br", true},
			{"Content-Encoding: identity", false}, {"Content-Encoding: Identity , gzip", true},
			{"Content-Encoding:", false}, {"Content-Encoding: ,", false},
			{"Transfer-Encoding: chunked", false}, {"Transfer-Encoding: gzip, chunked", true},
			{"Accept-Encoding: gzip", false},
		};

		for (size_t i = 0; i < sizeof(codings) / sizeof(codings[0]); i++)
		{
			http_head_reset(&r);
			http_head_line(&r, codings[i].head, strlen(codings[i].head));
			CHECK(r.is_encoded == codings[i].encoded, "%s", codings[i].head);
		}
	}
	/* the more precise one counts, in either order */
	for (int i = 0; i < 2; i++)
	{
		http_head_reset(&r);
		http_head_line(&r, i ? "Retry-After: 5" : "retry-after-ms: 20", i ? 14 : 18);
		http_head_line(&r, i ? "retry-after-ms: 20" : "Retry-After: 5", i ? 18 : 14);
		CHECK(r.retry_after_ms == 20, "%lld", (long long) r.retry_after_ms);
	}
	http_head_line(&r, "Content-Type: Text/Event-Stream;charset=utf-8", 45);
	CHECK(r.is_events, "a media type");
	http_head_line(&r, "Content-Type: text/event-streams", 32);
	CHECK(!r.is_events && !r.is_json, "another");
	run(&g, to(server.port, "/limited", ""));
	CHECK(g.r.end == HTTP_DONE && g.r.status == 429 && g.r.retry_after_ms == 7000 && g.r.is_json, "%d",
		  g.r.status);
	CHECK(g.r.limit_requests == 60 && g.r.remaining_requests == 0 && g.r.reset_requests_ms == 360000,
		  "requests");
	CHECK(g.r.limit_tokens == 150000 && g.r.remaining_tokens == 149984 && g.r.reset_tokens_ms == 20,
		  "tokens");
	forget(&g);
}

/* Each fault ends with the right result. */
static void
test_faults(void)
{
	static const struct
	{
		const char *path;
		HttpEnd		end;
		int			status;
		ErrClass	cls;
		int			repeated;	/* how often the server may have read the request */
	}			cases[] = {
		{"/close", HTTP_CUT, 0, ERR_CONNECTION, 1},
		{"/close-unread", HTTP_CUT, 0, ERR_CONNECTION, 0},
		{"/reset", HTTP_CUT, 0, ERR_CONNECTION, 1},
		{"/cut-head", HTTP_CUT, 0, ERR_CONNECTION, 1},
		{"/cut-body", HTTP_CUT, 200, ERR_CONNECTION, 1},
		{"/cut-chunk", HTTP_CUT, 200, ERR_CONNECTION, 1},
		{"/cut-last-chunk", HTTP_CUT, 200, ERR_CONNECTION, 1},
		{"/bad-chunk", HTTP_CUT, 200, ERR_CONNECTION, 1},
		{"/garbage", HTTP_CUT, 0, ERR_PROTOCOL, 1},
		{"/bad-status", HTTP_CUT, 0, ERR_PROTOCOL, 1},
		{"/bad-gzip", HTTP_CUT, 200, ERR_PROTOCOL, 1},
		{"/bomb", HTTP_CUT, 200, ERR_PROTOCOL, 1},
		{"/huge-length", HTTP_TOO_LARGE, 0, ERR_PROTOCOL, 1},
		{"/flood", HTTP_TOO_LARGE, 200, ERR_PROTOCOL, 1},
		{"/endless-headers", HTTP_TOO_LARGE, 0, ERR_PROTOCOL, 1},
		{"/endless-header", HTTP_CUT, 0, ERR_PROTOCOL, 1},
		{"/endless-hints", HTTP_TOO_LARGE, 0, ERR_PROTOCOL, 1},
		{"/redirect", HTTP_DONE, 302, ERR_NONE, 1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int reused = 0; reused < 2; reused++)
		{
			Got			g = {0};
			int			before;
			char		path[300];

			/* on a new connection, and on a reused one */
			if (reused)
				run(&g, to(server.port, "/echo", "x"));
			before = server_figure(&server, &server.requests);
			snprintf(path, sizeof(path), "%s", cases[i].path);
			run(&g, to(server.port, path, "{\"prompt\": 1}"));
			CHECK(g.r.end == cases[i].end && g.r.status == cases[i].status, "%s: end %d, status %d, %s, %s",
				  path, g.r.end, g.r.status, g.r.e.msg, g.r.e.detail);
			CHECK(g.r.e.cls == cases[i].cls, "%s: %s, %s", path, g.r.e.msg, g.r.e.detail);
			CHECK(g.heads == (cases[i].status != 0), "%s: %d heads", path, g.heads);
			CHECK(g.body.len <= 1048576, "%s: %zu bytes", path, g.body.len);
			CHECK(server_figure(&server, &server.requests) - before == cases[i].repeated,
				  "%s reached the server %d times", path, server_figure(&server, &server.requests) - before);
			if (cases[i].cls != ERR_NONE)
				CHECK(strstr(g.r.e.msg, cases[i].path) != NULL && strstr(g.r.e.msg, "prompt") == NULL, "%s",
					  g.r.e.msg);
			forget(&g);
		}
	/*
	 * an invalid Content-Length: libcurl decides, but it must never be a complete response with a wrong
	 * body
	 */
	{
		Got			g = {0};

		run(&g, to(server.port, "/bad-length", ""));
		CHECK(g.r.end == HTTP_CUT || g.body.len == 0, "%d", g.r.end);
		forget(&g);
	}
}

/* URLs in error messages. */
static void
test_texts(void)
{
	Got			g = {0};
	HttpRequest r = to(server.port, "/close?api-key=s3cret", "");
	const char *header = "Authorization: Bearer s3cret";

	r.headers = &header;
	r.n_headers = 1;
	run(&g, r);
	CHECK(strstr(g.r.e.msg, "/close\"") != NULL && strstr(g.r.e.msg, "s3cret") == NULL &&
		  strstr(g.r.e.detail, "s3cret") == NULL, "%s %s", g.r.e.msg, g.r.e.detail);
	forget(&g);
}

/* Calls that fail before anything is sent. */
static void
test_not_sent(void)
{
	Got			g = {0};
	HttpRequest r;
	int			s = socket(AF_INET, SOCK_STREAM, 0),
				filler[64];
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t	len = sizeof(a);
	int64_t		start;

	/* a port where no process listens */
	if (bind(s, (struct sockaddr *) &a, sizeof(a)) != 0 || getsockname(s, (struct sockaddr *) &a, &len) != 0)
		abort();
	run(&g, to(ntohs(a.sin_port), "/x", "{}"));
	CHECK(g.r.end == HTTP_NOT_SENT && g.r.e.cls == ERR_CONNECTION &&
		  strstr(g.r.e.msg, "Connection refused") != NULL && g.r.sent_us == 0, "%d %s", g.r.end, g.r.e.msg);
	/* a listener whose queue is full */
	listen(s, 0);
	for (int i = 0; i < 64; i++)
	{
		filler[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		(void) !connect(filler[i], (struct sockaddr *) &a, sizeof(a));
	}
	usleep(50000);
	r = to(ntohs(a.sin_port), "/x", "{}");
	r.connect_timeout_ms = 200;
	start = clock_us();
	run(&g, r);
	CHECK(g.r.end == HTTP_NOT_SENT && strstr(g.r.e.msg, "timeout expired") != NULL, "%d %s %s", g.r.end,
		  g.r.e.msg, g.r.e.detail);
	CHECK(clock_us() - start < 1500000, "%lld us", (long long) (clock_us() - start));
	r.connect_timeout_ms = 10000;
	r.deadline_us = clock_us() + 200000;
	start = clock_us();
	run(&g, r);
	CHECK(g.r.end == HTTP_NOT_SENT && strstr(g.r.e.msg, "timeout expired") != NULL, "by the deadline: %d %s",
		  g.r.end, g.r.e.msg);
	CHECK(clock_us() - start < 1000000, "%lld us", (long long) (clock_us() - start));
	for (int i = 0; i < 64; i++)
		close(filler[i]);
	close(s);
	r = to(1, "/x", "");
	r.url = "http://no-such-host.invalid/v1";
	run(&g, r);
	CHECK(g.r.end == HTTP_NOT_SENT && strstr(g.r.e.msg, "could not be resolved") != NULL, "%d %s", g.r.end,
		  g.r.e.msg);
	/* other schemes */
	r.url = "file:///etc/passwd";
	run(&g, r);
	CHECK(g.r.end == HTTP_NOT_SENT && g.body.len == 0, "%d %s", g.r.end, g.r.e.msg);
	r.url = "ftp://127.0.0.1/x";
	run(&g, r);
	CHECK(g.r.end == HTTP_NOT_SENT && g.body.len == 0, "%d %s", g.r.end, g.r.e.msg);
	/* TLS to a server without TLS */
	{
		char		url[64];

		snprintf(url, sizeof(url), "https://127.0.0.1:%d/x", server.port);
		r.url = url;
		r.deadline_us = clock_us() + 3000000;
		run(&g, r);
		CHECK(g.r.end == HTTP_NOT_SENT && g.heads == 0, "%d %s", g.r.end, g.r.e.msg);
	}
	forget(&g);
}

static void
test_deadlines(void)
{
	static const char *const paths[] = {"/hang", "/loris", "/stream-hang"};
	Got			g[3] = {0};
	int64_t		start = clock_us();

	for (int i = 0; i < 3; i++)
	{
		HttpRequest r = to(server.port, paths[i], "{}");

		r.deadline_us = start + 400000 - i * 100000;	/* a later call may end earlier */
		begin(&g[i], &r);
	}
	poll_calls(g, 3, 5000);
	for (int i = 0; i < 3; i++)
	{
		int64_t		late = g[i].r.end_us - (start + 400000 - i * 100000);

		CHECK(g[i].ended == 1 && g[i].r.end == HTTP_LATE && g[i].r.e.cls == ERR_CONNECTION, "%s: %d %s",
			  paths[i], g[i].r.end, g[i].r.e.msg);
		CHECK(late >= 0 && late < 100000, "%s: %lld us late", paths[i], (long long) late);
	}
	CHECK(g[2].r.status == 200 && g[2].body.len == 18, "what came before: %zu", g[2].body.len);
	for (int i = 0; i < 3; i++)
		forget(&g[i]);
}

/* Wait until the server has seen all closed connections. */
static void
settle(void)
{
	int			n = -1;

	while (n != server_figure(&server, &server.closed))
	{
		n = server_figure(&server, &server.closed);
		usleep(100000);
	}
}

/* Cancelled calls, as the server sees them. */
static void
test_cancel(void)
{
	static const char *const paths[] = {"/hang", "/stream-hang"};

	settle();
	for (int i = 0; i < 2; i++)
	{
		Got			g = {0};
		HttpRequest r = to(server.port, paths[i], "{}");
		int			before = server_figure(&server, &server.closed);
		int64_t		at;

		begin(&g, &r);
		poll_calls(NULL, 0, 200);
		CHECK(g.ended == 0 && g.heads == i && server_figure(&server, &server.closed) == before, "under way");
		at = clock_us();
		http_cancel(g.call);
		CHECK(clock_us() - at < 50000, "cancelling took %lld us", (long long) (clock_us() - at));
		/* without a further iteration */
		usleep(100000);
		CHECK(server_figure(&server, &server.closed) == before + 1 && server.closed_us - at < 100000,
			  "%s: closed %d, after %lld us", paths[i], server_figure(&server, &server.closed) - before,
			  (long long) (server.closed_us - at));
		poll_calls(NULL, 0, 20);
		CHECK(g.ended == 0, "no event comes any more");
		forget(&g);
	}
	/* before its first iteration, and while it connects */
	for (int i = 0; i < 2; i++)
	{
		Got			g = {0};
		HttpRequest r = to(server.port, "/hang", "{}");
		HttpStats	st;

		begin(&g, &r);
		if (i)
			http_poll(http);
		http_cancel(g.call);
		poll_calls(NULL, 0, 20);
		http_stats(http, &st);
		CHECK(g.ended == 0 && st.calls == 0, "%d calls", st.calls);
		forget(&g);
	}
}

/* Callbacks that reject, cancel others, and start others. */
static void
test_callbacks(void)
{
	Got			g[3] = {0};
	HttpRequest r = to(server.port, "/events", "{}"),
				hang = to(server.port, "/stream-hang", "{}"),
				echo = to(server.port, "/echo", "abc");
	int			before;

	g[0].no_head = true;
	begin(&g[0], &r);
	poll_calls(g, 1, 5000);
	CHECK(g[0].ended == 1 && g[0].r.end == HTTP_CUT && g[0].heads == 1 && g[0].pieces == 0, "%d", g[0].r.end);
	forget(&g[0]);
	g[0].no_data = true;
	settle();
	before = server_figure(&server, &server.closed);
	begin(&g[0], &hang);
	poll_calls(g, 1, 5000);
	CHECK(g[0].ended == 1 && g[0].r.end == HTTP_CUT && g[0].pieces == 1, "%d", g[0].r.end);
	usleep(50000);
	CHECK(server_figure(&server, &server.closed) == before + 1, "closed");
	forget(&g[0]);
	/* one that cancels another and itself, and starts a third */
	for (int self = 0; self < 2; self++)
	{
		settle();
		before = server_figure(&server, &server.closed);
		begin(&g[1], &hang);
		poll_calls(NULL, 0, 100);
		g[0].cancel = self ? &g[0].call : &g[1].call;
		g[0].start = &g[2];
		g[0].start_what = &echo;
		begin(&g[0], self ? &hang : &r);
		poll_calls(&g[2], 1, 5000);
		CHECK(g[2].r.end == HTTP_DONE && strcmp(g[2].body.data, "abc") == 0, "the third");
		poll_calls(NULL, 0, 100);
		CHECK(g[1].ended == 0 && g[0].ended == !self && server_figure(&server, &server.closed) == before + 1,
			  "%d: ended %d and %d", self, g[0].ended, g[1].ended);
		if (self)
			http_cancel(g[1].call);
		for (int i = 0; i < 3; i++)
			forget(&g[i]);
	}
}

static void
test_pause(void)
{
	Got			g = {0};
	HttpRequest r = to(server.port, "/flood", "{}");
	size_t		had;

	r.max_answer = 1u << 30;
	begin(&g, &r);
	poll_calls(NULL, 0, 50);
	CHECK(g.body.len > 0, "it flows");
	http_pause(g.call, true);
	poll_calls(NULL, 0, 20);
	had = g.body.len;
	poll_calls(NULL, 0, 200);
	CHECK(g.body.len == had, "nothing comes while it is paused: %zu", g.body.len - had);
	http_pause(g.call, false);
	CHECK(g.body.len == had, "nothing comes from within");
	poll_calls(NULL, 0, 50);
	CHECK(g.body.len > had, "it flows again");
	for (size_t i = 0; i < g.body.len; i++)
		if (g.body.data[i] != '0' + (char) (i % 10))
		{
			CHECK(false, "byte %zu is not what was sent", i);
			break;
		}
	http_pause(g.call, true);
	poll_calls(NULL, 0, 20);
	http_cancel(g.call);
	forget(&g);
	/* reject bytes that were held back */
	begin(&g, &r);
	http_pause(g.call, true);
	for (int i = 0; i < 1000 && !g.call->held; i++)
		poll_calls(NULL, 0, 10);
	CHECK(g.call->held && g.heads == 1 && g.pieces == 0, "more has come than is kept");
	g.no_piece = 2;
	http_pause(g.call, false);
	poll_calls(&g, 1, 2000);
	CHECK(g.ended == 1 && g.r.end == HTTP_CUT && g.pieces == 2, "%d in %d pieces", g.ended, g.pieces);
	if (g.ended == 0)
		http_cancel(g.call);
	forget(&g);
	/* paused, and its deadline passes all the same */
	r = to(server.port, "/stream-hang", "{}");
	r.deadline_us = clock_us() + 200000;
	begin(&g, &r);
	http_pause(g.call, true);
	poll_calls(&g, 1, 2000);
	CHECK(g.ended == 1 && g.r.end == HTTP_LATE && g.body.len == 0, "%d", g.r.end);
	forget(&g);
	/*
	 * a response that was complete while the call was paused is delivered completely; its caller may
	 * reject, pause again or cancel it then
	 */
	for (int i = 0; i < 6; i++)
	{
		r = to(server.port, "/echo", "some text");
		begin(&g, &r);
		http_pause(g.call, true);
		poll_calls(NULL, 0, 100);
		CHECK(g.ended == 0 && g.heads == 1 && g.body.len == 0, "paused");
		if (i == 1)
		{
			http_cancel(g.call);
			poll_calls(NULL, 0, 20);
			CHECK(g.ended == 0 && g.body.len == 0, "cancelled");
			forget(&g);
			continue;
		}
		g.no_data = i == 2;
		g.cancel = i == 3 ? &g.call : NULL;
		http_pause(g.call, false);
		CHECK(g.body.len == 0, "not from within");
		if (i == 4)
		{
			http_pause(g.call, true);
			poll_calls(NULL, 0, 50);
			CHECK(g.body.len == 0, "paused again at once");
			http_pause(g.call, false);
		}
		if (i == 5)
		{
			g.pause = true;
			poll_calls(NULL, 0, 50);
			CHECK(g.ended == 0 && g.pieces == 1, "paused again from within");
			g.pause = false;
			http_pause(g.call, false);
		}
		poll_calls(&g, 1, i == 3 ? 100 : 2000);
		CHECK(g.ended == (i != 3) && g.pieces == 1 && strcmp(g.body.data, "some text") == 0, "%d: %d %d %s",
			  i, g.ended, g.pieces, g.r.e.msg);
		if (i != 3)
			CHECK(g.r.end == (i == 2 ? HTTP_CUT : HTTP_DONE), "%d: %d", i, g.r.end);
		forget(&g);
	}
}

static void
test_reuse(void)
{
	enum
	{
		MANY = 256
	};
	static Got	g[MANY];
	HttpStats	a,
				b;
	int			before;
	int64_t		start;

	http_free(http);
	http = http_new(&(Err) {0});
	before = server_figure(&server, &server.connections);
	for (int i = 0; i < 100; i++)
	{
		run(&g[0], to(server.port, "/echo", "x"));
		CHECK(g[0].r.end == HTTP_DONE, "%s", g[0].r.e.msg);
	}
	http_stats(http, &a);
	CHECK(a.connects == 1 && a.connections == 1 && server_figure(&server, &server.connections) - before == 1,
		  "%lld made for 100 calls", (long long) a.connects);
	/* a connection that was closed while idle is not reused, and nothing is lost */
	run(&g[0], to(server.port, "/quiet-close", "x"));
	usleep(20000);
	before = server_figure(&server, &server.requests);
	run(&g[0], to(server.port, "/echo", "x"));
	CHECK(g[0].r.end == HTTP_DONE && server_figure(&server, &server.requests) == before + 1, "%s",
		  g[0].r.e.msg);
	http_stats(http, &a);
	CHECK(a.connects == 2 && a.connections == 1, "%lld made, %d open", (long long) a.connects, a.connections);
	/* many at once, twice */
	for (int round = 0; round < 2; round++)
	{
		server.most_at_once = 0;
		start = clock_us();
		for (int i = 0; i < MANY; i++)
		{
			char		text[32];
			HttpRequest r;

			forget(&g[i]);
			snprintf(text, sizeof(text), "number %d", i);
			r = to(server.port, "/wait", text);
			r.body = mem_strdup(text);
			g[i].start_what = NULL;
			begin(&g[i], &r);
			g[i].cancel = NULL;
			/* the body must live until the end */
			g[i].start_what = (HttpRequest *) (uintptr_t) r.body;
		}
		poll_calls(g, MANY, 20000);
		for (int i = 0; i < MANY; i++)
		{
			CHECK(g[i].ended == 1 && g[i].r.end == HTTP_DONE &&
				  strcmp(g[i].body.data, (char *) g[i].start_what) == 0, "%d: %s", i, g[i].r.e.msg);
			mem_free(g[i].start_what);
		}
		CHECK(server.most_at_once > MANY * 3 / 4, "%d at once", server.most_at_once);
		CHECK(clock_us() - start < 5000000, "%lld us", (long long) (clock_us() - start));
		http_stats(http, &b);
		CHECK(b.connects <= 2 + MANY && b.connections <= MANY && b.calls == 0, "round %d: %lld made, %d open",
			  round, (long long) b.connects, b.connections);
	}
	for (int i = 0; i < MANY; i++)
		forget(&g[i]);
	http_free(http);
	http = http_new(&(Err) {0});
}

/* Ten thousand calls of all kinds leak nothing. */
static void
test_leaks(void)
{
	static const char *const paths[] = {"/echo", "/gzip", "/chunked", "/close", "/cut-body", "/garbage",
										"/events", "/redirect", "/stream-hang", "/error"};
	static Got	g[50];
	int			fds = 0;
	size_t		used = 0;
	int			ended = 0,
				cancelled = 0;

	for (int round = 0; round < 200; round++)
	{
		for (int i = 0; i < 50; i++)
		{
			HttpRequest r = to(server.port, paths[i % 10], "{\"prompt\": \"some text\"}");

			if (i % 10 == 8 && i < 25)
				r.deadline_us = clock_us() + 5000;
			begin(&g[i], &r);
		}
		for (int i = 0; i < 50; i++)
			if (i % 10 == 8)
				continue;
			else
				poll_calls(&g[i], 1, 5000);
		poll_calls(NULL, 0, 6);
		for (int i = 0; i < 50; i++)
		{
			if (g[i].ended == 0)
			{
				http_cancel(g[i].call);
				cancelled++;
			}
			else
				ended++;
			forget(&g[i]);
		}
		if (round == 50)
		{
			malloc_trim(0);
			fds = open_fds();
			used = mallinfo2().uordblks;
		}
	}
	CHECK(ended + cancelled == 10000 && cancelled >= 200 && cancelled <= 1000, "%d ended, %d were cancelled",
		  ended, cancelled);
	usleep(100000);
	malloc_trim(0);
	/* includes the server's ends of connections, and its threads' memory */
	CHECK(open_fds() < fds + 60, "%d descriptors, %d before", open_fds(), fds);
	CHECK(mallinfo2().uordblks < used + 1500000, "%zu bytes, %zu before", mallinfo2().uordblks, used);
	{
		HttpStats	st;

		http_stats(http, &st);
		CHECK(st.calls == 0 && st.connections <= 60, "%d calls, %d connections", st.calls, st.connections);
	}
}

#include "tests/unit/remote/remote_tls.h"

int
main(void)
{
	Err			e = {0};
	int			fds;

	signal(SIGPIPE, SIG_IGN);
	server_start(&server);
	fds = open_fds();
	http = http_new(&e);
	CHECK(http != NULL, "%s", e.msg);
	RUN(test_plain());
	RUN(test_headers_refused());
	RUN(test_waits());
	RUN(test_faults());
	RUN(test_texts());
	RUN(test_not_sent());
	RUN(test_deadlines());
	RUN(test_cancel());
	RUN(test_callbacks());
	RUN(test_pause());
	RUN(test_reuse());
	RUN(test_leaks());
	test_tls();
	http_free(http);
	server_stop(&server);
	/* the server's listener and its ends of connections are closed, too */
	CHECK(open_fds() <= fds - 1, "%d descriptors, %d before", open_fds(), fds);
	return check_done("test_remote_http");
}
