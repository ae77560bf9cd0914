/*
 * test_remote_program.c
 *	  vllm_pg_remote from outside, backends on one side and an endpoint on the other: replies, streams,
 *	  many at once, cancelling, faults, hosts, its end.  Skipped if it isn't built (no libcurl).
 *
 * The endpoint has a thread for each connection; a request's prompt says what it does.
 *
 * test_remote_program [ENGINE]		(the program in the same folder)
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>

#include "tests/unit/wire_peer.h"

#define LONGEST ((uint64_t) 4 << 20)
#define MOST_BODY 1000000

/* ---- the endpoint ---- */

static struct
{
	int			port;
	_Atomic int requests, connections, made, aborted;
	_Atomic int embed_calls, most_inputs;
	_Atomic int throttle;		/* number of further responses with status 429 */
	_Atomic int unauthorized;
	_Atomic int flooded;		/* pieces that the network has accepted */
	_Atomic int64_t aborted_us; /* time when a connection was last found closed in the middle of a request */
} ep;

typedef struct Conn
{
	int			fd;
	size_t		have;
	char		buf[MOST_BODY];
} Conn;

static void
put(int fd, const char *p, size_t n)
{
	while (n > 0)
	{
		ssize_t		k = send(fd, p, n, MSG_NOSIGNAL);

		if (k <= 0)
			return;
		p += k;
		n -= (size_t) k;
	}
}

static void
respond(Conn *c, int status, const char *more, const char *body)
{
	Buf			b = {0};

	buf_printf(&b, "HTTP/1.1 %d X\r\nContent-Type: application/json\r\n%sContent-Length: %zu\r\n\r\n%s",
			   status, more, strlen(body), body);
	put(c->fd, b.data, b.len);
	buf_free(&b);
}

/* Send nothing until the other end closes, or for ms. */
static void
silence(Conn *c, int ms)
{
	struct pollfd p = {.fd = c->fd,.events = POLLIN | POLLRDHUP};
	char		x;

	if (poll(&p, 1, ms) > 0 && recv(c->fd, &x, 1, MSG_PEEK) <= 0)
	{
		atomic_store(&ep.aborted_us, clock_us());
		atomic_fetch_add(&ep.aborted, 1);
	}
}

static void
completion(Conn *c, const char *prompt)
{
	Buf			b = {0};

	buf_printf(&b, "{\"id\":\"x\",\"object\":\"text_completion\",\"model\":\"there\","
			   "\"choices\":[{\"index\":0,\"text\":\"<%s>\",\"finish_reason\":\"stop\",\"logprobs\":null}],"
			   "\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":2,\"total_tokens\":%d}}", prompt,
			   (int) strlen(prompt), (int) strlen(prompt) + 2);
	respond(c, 200, "", b.data);
	buf_free(&b);
}

static void
chunk(Conn *c, const Buf *b)
{
	Buf			out = {0};

	buf_printf(&out, "%zx\r\n%s\r\n", b->len, b->len > 0 ? b->data : "");
	put(c->fd, out.data, out.len);
	buf_free(&out);
}

/*
 * "stream N": N pieces, then nothing more ("stall"), the connection's end ("cut"), an incomplete end
 * ("half"), or an orderly one.
 */
static void
stream(Conn *c, const char *prompt)
{
	static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: "
							   "chunked\r\n\r\n";
	int			n = atoi(prompt + 6);
	Buf			b = {0};

	put(c->fd, head, strlen(head));
	for (int i = 0; i < n; i++)
		buf_printf(&b, "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"text\":\"%d,\","
					   "\"finish_reason\":null}]}\n\n", i);
	chunk(c, &b);
	buf_reset(&b);
	if (strstr(prompt, "stall") != NULL)
		silence(c, 10000);
	else if (strstr(prompt, "cut") != NULL)
		shutdown(c->fd, SHUT_RDWR);
	else
	{
		buf_printf(&b, "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"text\":\"\","
				   "\"finish_reason\":\"length\"}]}\n\ndata: "
				   "{\"id\":\"x\",\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":%d,"
				   "\"total_tokens\":%d}}\n\ndata: [DONE]\n\n", n, n + 7);
		if (strstr(prompt, "half") == NULL)
			chunk(c, &b);
		buf_reset(&b);
		chunk(c, &b);
	}
	buf_free(&b);
}

/* "flood N": N pieces of 1,000 bytes each, as fast as possible. */
static void
flood(Conn *c, const char *prompt)
{
	static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: "
							   "chunked\r\n\r\n";
	int			n = atoi(prompt + 5);
	char		letters[1001];
	Buf			b = {0};

	put(c->fd, head, strlen(head));
	for (int i = 0; i < n; i++)
	{
		memset(letters, 'a' + i % 26, 1000);
		letters[1000] = '\0';
		buf_printf(&b, "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"text\":\"%s\","
					   "\"finish_reason\":%s}]}\n\n", letters, i == n - 1 ? "\"stop\"" : "null");
		chunk(c, &b);
		buf_reset(&b);
		atomic_store(&ep.flooded, i + 1);
	}
	buf_addstr(&b, "data: [DONE]\n\n");
	chunk(c, &b);
	buf_reset(&b);
	chunk(c, &b);
	buf_free(&b);
}

/* Inputs are "t N"; the row of each is [N, 0.5]. */
static void
embeddings(Conn *c, const char *body)
{
	Buf			b = {0};
	int			n = 0;

	buf_addstr(&b, "{\"object\":\"list\",\"data\":[");
	for (const char *p = body; (p = strstr(p, "\"t ")) != NULL; p += 3, n++)
		buf_printf(&b, "%s{\"object\":\"embedding\",\"index\":%d,\"embedding\":[%d,0.5]}", n > 0 ? "," : "",
				   n, atoi(p + 3));
	buf_printf(&b, "],\"model\":\"there\",\"usage\":{\"prompt_tokens\":%d,\"total_tokens\":%d}}", 2 * n,
			   2 * n);
	atomic_fetch_add(&ep.embed_calls, 1);
	if (n > atomic_load(&ep.most_inputs))
		atomic_store(&ep.most_inputs, n);
	respond(c, 200, "", b.data);
	buf_free(&b);
}

static void
answer(Conn *c, const char *head, const char *body)
{
	const char *p = strstr(body, "\"prompt\":");
	char		prompt[256] = "";

	atomic_fetch_add(&ep.requests, 1);
	if (strstr(head, "Authorization: Bearer s3cret") == NULL)
	{
		atomic_fetch_add(&ep.unauthorized, 1);
		respond(c, 401, "", "{\"error\":{\"message\":\"who are you, wrongsecret?\",\"code\":401}}");
		return;
	}
	if (strstr(head, "/v1/embeddings ") != NULL)
	{
		embeddings(c, body);
		return;
	}
	if (p != NULL)
	{
		for (p += 9; *p == ' ' || *p == '"' || *p == '['; p++)
			;
		snprintf(prompt, sizeof(prompt), "%.*s", (int) strcspn(p, "\""), p);
	}
	if (atomic_load(&ep.throttle) > 0)
	{
		atomic_fetch_sub(&ep.throttle, 1);
		respond(c, 429, "Retry-After: 0\r\n", "{\"error\":{\"message\":\"slow down\"}}");
	}
	else if (strncmp(prompt, "hang", 4) == 0)
		silence(c, 10000);
	else if (strncmp(prompt, "garbage", 7) == 0)
		respond(c, 200, "", "{\"choices\": 7}");
	else if (strncmp(prompt, "die", 3) == 0)
		shutdown(c->fd, SHUT_RDWR);
	else if (strncmp(prompt, "flood", 5) == 0)
		flood(c, prompt);
	else if (strncmp(prompt, "stream", 6) == 0)
		stream(c, prompt);
	else
		completion(c, prompt);
}

/* Serve one request; returns false if the connection has ended. */
static bool
serve(Conn *c)
{
	char	   *end;
	char	   *length;
	size_t		n;

	while ((end = memmem(c->buf, c->have, "\r\n\r\n", 4)) == NULL)
	{
		ssize_t		k = recv(c->fd, c->buf + c->have, sizeof(c->buf) - 1 - c->have, 0);

		if (k <= 0)
			return false;
		c->have += (size_t) k;
	}
	*end = '\0';
	length = strcasestr(c->buf, "\r\nContent-Length:");
	n = length != NULL ? (size_t) atol(length + 17) : 0;
	end += 4;
	while (c->have - (size_t) (end - c->buf) < n)
	{
		ssize_t		k = recv(c->fd, c->buf + c->have, sizeof(c->buf) - 1 - c->have, 0);

		if (k <= 0)
			return false;
		c->have += (size_t) k;
	}
	{
		char	   *body = mem_strndup(end, n);

		answer(c, c->buf, body);
		mem_free(body);
	}
	n += (size_t) (end - c->buf);
	c->have -= n;
	memmove(c->buf, c->buf + n, c->have);
	return true;
}

static void *
conn_main(void *arg)
{
	Conn	   *c = arg;

	atomic_fetch_add(&ep.connections, 1);
	while (serve(c))
		;
	atomic_fetch_sub(&ep.connections, 1);
	close(c->fd);
	free(c);
	return NULL;
}

static void *
accept_main(void *arg)
{
	int			fd = *(int *) arg;

	for (;;)
	{
		int			one = 1;
		Conn	   *c;
		pthread_t	th;
		int			s = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

		if (s < 0)
			continue;
		setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		atomic_fetch_add(&ep.made, 1);
		c = calloc(1, sizeof(Conn));
		c->fd = s;
		if (pthread_create(&th, NULL, conn_main, c) != 0)
			abort();
		pthread_detach(th);
	}
	return NULL;
}

/* Return a bound socket on which no process listens yet. */
static int
bound(int *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET,.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t	n = sizeof(a);
	int			fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(fd, (struct sockaddr *) &a, sizeof(a)) != 0 || getsockname(fd, (struct sockaddr *) &a, &n) != 0)
		abort();
	*port = ntohs(a.sin_port);
	return fd;
}

static void
start_endpoint(void)
{
	static int	fd;
	pthread_t	th;

	fd = bound(&ep.port);
	if (listen(fd, 1000) != 0 || pthread_create(&th, NULL, accept_main, &fd) != 0)
		abort();
	pthread_detach(th);
}

/* ---- backends ---- */

static Peer P;
static const char *secret = "s3cret";
static const char *options = "{\"model\": \"there\", \"max_retries\": 1}";
static int	closed_port;		/* no process listens there */

static void
put_text(WireOut *o, WireTag tag, const char *s)
{
	wire_put_str(o, tag, s, strlen(s));
}

static void
put_model(WireOut *o, int port)
{
	char		url[64];

	snprintf(url, sizeof(url), "http://127.0.0.1:%d/v1", port);
	wire_put_int(o, WTAG_DATABASE, 5);
	wire_put_int(o, WTAG_ROLE, 10);
	wire_put_int(o, WTAG_SESSION, 1);
	put_text(o, WTAG_MODEL, "m");
	put_text(o, WTAG_URL, url);
	put_text(o, WTAG_MODEL_OPTIONS, options);
	put_text(o, WTAG_SECRET, secret);
}

static Talk *
generate_at(int port, const char *prompt, bool streamed, int timeout_ms)
{
	Buf			b = {0};
	Buf			whole = {0};
	WireOut		o = peer_out(&b);
	WireMsg		m = {.magic = WIRE_MSG_MAGIC,.kind = WK_GENERATE};
	WireSlot   *s;
	uint32_t	i = 0;
	Talk	   *t;

	put_model(&o, port);
	put_text(&o, WTAG_PROMPT, prompt);
	wire_put_int(&o, WTAG_MAX_TOKENS, strncmp(prompt, "flood", 5) == 0 ? 60000 : 20);
	wire_put_num(&o, WTAG_TEMPERATURE, 0.7);
	if (streamed)
		wire_put_int(&o, WTAG_STREAM, 1);
	m.len = b.len;
	buf_add(&whole, &m, sizeof(m));
	buf_add(&whole, b.data, b.len);
	/* the deadline is set before the backend rings */
	while (P.slot_used[i])
		i++;
	s = wire_slot(&P.arena, i);
	atomic_store(&s->deadline_us, timeout_ms > 0 ? clock_us() + timeout_ms * INT64_C(1000) : 0);
	atomic_store(&s->timeout_ms, (uint32_t) timeout_ms);
	t = talk_begin_raw(&P, whole.data, whole.len);
	buf_free(&b);
	buf_free(&whole);
	return t;
}

static Talk *
generate(const char *prompt, bool streamed)
{
	return generate_at(ep.port, prompt, streamed, 20000);
}

/* Return the text, or "SQLSTATE: message". */
static const char *
result(Talk *t, Frame *f)
{
	static char buf[1200];

	if (!talk_final(t, f, 20000))
		snprintf(buf, sizeof(buf), "no final frame (state %u)", talk_state(t));
	else if (f->kind == WF_ERROR)
		snprintf(buf, sizeof(buf), "%s: %.500s", frame_str(f, WTAG_SQLSTATE), frame_str(f, WTAG_MESSAGE));
	else
		snprintf(buf, sizeof(buf), "%s", frame_str(f, WTAG_TEXT));
	return buf;
}

static const char *
text(Talk *t)
{
	Frame		f;
	const char *r = result(t, &f);

	talk_wait_closed(t, 5000);
	talk_free(t);
	return r;
}

static bool
fails(Talk *t, const char *state)
{
	const char *r = text(t);
	bool		ok = strncmp(r, state, 5) == 0 && r[5] == ':';

	if (!ok)
		fprintf(stderr, "not %s but %s\n", state, r);
	return ok;
}

static const char *
command(const char *what)
{
	return text(talk_command(&P, what));
}

static void
whole(const char *what)
{
	const char *r = command("integrity");

	CHECK(strcmp(r, "ok") == 0, "integrity behind %s: %s", what, r);
}

/* ---- tests ---- */

static void
test_answers(void)
{
	Talk	   *t = generate("hello", false);
	Frame		f;
	const char *r = result(t, &f);

	CHECK(strcmp(r, "<hello>") == 0, "%s", r);
	CHECK(frame_int(&f, WTAG_PROMPT_TOKENS) == 5 && frame_int(&f, WTAG_COMPLETION_TOKENS) == 2 &&
		  strcmp(frame_str(&f, WTAG_FINISH_REASON), "stop") == 0 && frame_int(&f, WTAG_TRIES) == 1, "usage");
	CHECK(strstr(frame_str(&f, WTAG_ENDPOINT), "127.0.0.1") != NULL && frame_int(&f, WTAG_E2E_US) > 0,
		  "who answered, and when");
	CHECK(wire_stats(&P.arena)->finished == 1 && wire_stats(&P.arena)->n_endpoints == 1 &&
		  wire_stats(&P.arena)->endpoints[0].calls == 1 && wire_stats(&P.arena)->n_models == 1,
		  "counted before it can be read");
	talk_free(t);
	CHECK(wire_stats(&P.arena)->rss_bytes > 0 && atomic_load(&wire_stats(&P.arena)->seq) % 2 == 0,
		  "statistics");
	secret = "wrongsecret";
	t = generate("hello", false);
	r = result(t, &f);
	CHECK(strncmp(r, "28000: ", 7) == 0 && strstr(frame_str(&f, WTAG_DETAIL), "wrongsecret") == NULL &&
		  strstr(r, "wrongsecret") == NULL, "a wrong secret, which isn't told: %s %s", r,
		  frame_str(&f, WTAG_DETAIL));
	talk_free(t);
	secret = "s3cret";
	whole("answers");
}

static void
test_streams(void)
{
	Talk	   *t = generate("stream 200", true);
	Frame		f;
	Buf			all = {0};
	Buf			want = {0};
	int			frames = 0;
	bool		ended = false;

	for (int i = 0; i < 200; i++)
		buf_printf(&want, "%d,", i);
	while (!ended && talk_wait(t, &f, 5000))
	{
		ended = f.final;
		frames += f.kind == WF_TEXT;
		if (f.kind == WF_TEXT)
			buf_addstr(&all, frame_str(&f, WTAG_TEXT));
	}
	CHECK(ended && f.kind == WF_DONE && frames >= 1 && all.data != NULL && strcmp(all.data, want.data) == 0,
		  "a stream: %s", ended ? frame_str(&f, WTAG_MESSAGE) : "no end");
	CHECK(ended && frame_int(&f, WTAG_COMPLETION_TOKENS) == 200 &&
		  strcmp(frame_str(&f, WTAG_FINISH_REASON), "length") == 0, "its end");
	talk_free(t);
	buf_free(&all);
	buf_free(&want);
	CHECK(fails(generate("stream 3 cut", true), "08006"), "one whose connection is cut");
	CHECK(fails(generate("stream 3 half", true), "08P01"), "one that ends before its end");
	whole("streams");
}

/*
 * A client that doesn't read makes the endpoint wait; nothing is lost, and the program does not buffer
 * everything.
 */
static void
test_flood(void)
{
	long		before = atol(command("rss"));
	Talk	   *t = generate("flood 30000", true);
	Frame		f;
	size_t		n = 0;
	int			wrong = 0;
	int			stood = 0;
	bool		ended = false;
	bool		stands = false;

	for (int i = 0; i < 50 && !stands; i++)
	{
		for (int64_t end = clock_us() + 300000; clock_us() < end;)
			peer_wait(&P, 20);
		stands = atomic_load(&ep.flooded) == stood && stood > 0;
		stood = atomic_load(&ep.flooded);
	}
	CHECK(stands && stood < 25000, "the endpoint waits: %d", stood);
	CHECK(strcmp(text(generate("hello", false)), "<hello>") == 0, "others don't");
	CHECK(peer_sanitized(&P) || atol(command("rss")) < before + 10000000, "memory: %ld, %s", before,
		  command("rss"));
	while (!ended && talk_wait(t, &f, 5000))
	{
		WireField	v;

		ended = f.final;
		if (f.kind != WF_TEXT || !frame_field(&f, WTAG_TEXT, &v))
			continue;
		for (size_t i = 0; i < v.n; i++, n++)
			wrong += v.s[i] != 'a' + (char) (n / 1000 % 26);
		/* drop what has been read; moving the rest takes time */
		if (t->in_at > 1000000)
		{
			buf_consume(&t->in, t->in_at);
			t->in_base += (uint32_t) t->in_at;
			t->in_at = 0;
		}
	}
	CHECK(ended && f.kind == WF_DONE && n == 30000000 && wrong == 0, "all of it comes: %zu, %d wrong", n,
		  wrong);
	talk_free(t);
	/* Or the client abandons the request. */
	t = generate("flood 30000", true);
	for (int i = 0; i < 50; i++)
		peer_wait(&P, 10);
	talk_cancel(t);
	CHECK(talk_wait_closed(t, 2000), "a paused stream is cancelled");
	talk_free(t);
	whole("a flood");
}

/* Run n requests, at most as many at once as there are slots. */
static void
test_many(int n, int at_once)
{
	Talk	   *t[64] = {0};
	char		prompt[64];
	int			begun = 0,
				ended = 0,
				good = 0;
	int			made = atomic_load(&ep.made);
	int64_t		began = clock_us();

	while (ended < n && clock_us() - began < 60000000)
	{
		for (int i = 0; i < at_once; i++)
		{
			Frame		f;

			if (t[i] == NULL && begun < n)
			{
				snprintf(prompt, sizeof(prompt), "q%d", begun * 64 + i);
				begun++;
				t[i] = generate(prompt, false);
			}
			if (t[i] == NULL)
				continue;
			talk_pump(t[i]);
			while (t[i] != NULL && talk_frame(t[i], &f))
				if (f.final)
				{
					/* the number in the reply must match the slot's request */
					good += f.kind == WF_DONE && atoi(frame_str(&f, WTAG_TEXT) + 2) % 64 == i;
					while (!talk_over(t[i]))
						;
					talk_free(t[i]);
					t[i] = NULL;
					ended++;
				}
		}
		peer_wait(&P, 1);
	}
	fprintf(stderr, "%d requests, %d at once: %d ms, %d connections\n", n, at_once,
			(int) ((clock_us() - began) / 1000), atomic_load(&ep.made) - made);
	CHECK(good == n, "each its own answer: %d of %d", good, n);
	CHECK(atomic_load(&ep.made) - made <= at_once, "connections are kept: %d", atomic_load(&ep.made) - made);
	whole("many");
}

static void
test_embeddings(void)
{
	Talk	   *t[60];
	int			good = 0;
	Frame		f;

	for (int i = 0; i < 60; i++)
	{
		Buf			b = {0};
		WireOut		o = peer_out(&b);
		char		prompt[32];

		snprintf(prompt, sizeof(prompt), "t %d", i * 3);
		put_model(&o, ep.port);
		put_text(&o, WTAG_TASK, "embed");
		put_text(&o, WTAG_PROMPT, prompt);
		t[i] = talk_begin(&P, WK_POOL, &b);
		buf_free(&b);
	}
	for (int i = 0; i < 60; i++)
	{
		WireField	v;
		float		row[2];
		const char *r = result(t[i], &f);

		if (frame_field(&f, WTAG_FLOATS, &v) && v.n == 2)
		{
			wire_floats(&v, row);
			/* normalized, or unchanged */
			good += i == 0 || row[0] / row[1] == (float) (i * 3) / 0.5f;
		}
		else
			fprintf(stderr, "row %d: %s\n", i, r);
		talk_wait_closed(t[i], 5000);
		talk_free(t[i]);
	}
	CHECK(good == 60, "each its own row: %d", good);
	CHECK(atomic_load(&ep.embed_calls) < 30 && atomic_load(&ep.most_inputs) > 1,
		  "several inputs go together: %d calls", atomic_load(&ep.embed_calls));
	whole("embeddings");
}

static void
test_cancel(void)
{
	static const char *const prompts[] = {"hang", "stream 3 stall"};

	for (int i = 0; i < 2; i++)
	{
		int			n_requests = atomic_load(&ep.requests);
		int			aborted = atomic_load(&ep.aborted);
		int64_t		began;
		Talk	   *t = generate(prompts[i], i == 1);

		for (int k = 0; k < 2000 && atomic_load(&ep.requests) == n_requests; k++)
		{
			talk_pump(t);
			peer_wait(&P, 1);
		}
		usleep(20000);
		began = clock_us();
		talk_cancel(t);
		CHECK(talk_wait_closed(t, 2000), "%s: the slot is let go", prompts[i]);
		EVENTUALLY(atomic_load(&ep.aborted) > aborted);
		CHECK(atomic_load(&ep.aborted) == aborted + 1 && atomic_load(&ep.aborted_us) - began < 100000,
			  "%s: the endpoint sees it within 100 ms: %d us", prompts[i],
			  (int) (atomic_load(&ep.aborted_us) - began));
		talk_free(t);
	}
	whole("cancelling");
}

static void
test_faults(void)
{
	Frame		f;
	Talk	   *t;
	int64_t		began = clock_us();
	const char *r;
	int			n_requests;

	CHECK(fails(generate_at(ep.port, "hang", false, 300), "57014"), "a deadline");
	CHECK(clock_us() - began > 290000 && clock_us() - began < 900000, "... when it is: %d ms",
		  (int) ((clock_us() - began) / 1000));
	CHECK(fails(generate("garbage", false), "08P01"), "garbage");
	/* on a reused connection, on which libcurl by itself would retry */
	CHECK(strcmp(text(generate("hello", false)), "<hello>") == 0, "a connection");
	n_requests = atomic_load(&ep.requests);
	CHECK(fails(generate("die", false), "08006"), "an endpoint that hangs up");
	CHECK(atomic_load(&ep.requests) == n_requests + 1, "what may be charged is asked once: %d",
		  atomic_load(&ep.requests) - n_requests);
	CHECK(fails(generate_at(closed_port, "hello", false, 20000), "08006"), "nobody there");
	atomic_store(&ep.throttle, 1);
	t = generate("again", false);
	r = result(t, &f);
	CHECK(strcmp(r, "<again>") == 0 && frame_int(&f, WTAG_TRIES) == 2,
		  "throttled once, and asked again: %s, %d tries", r, (int) frame_int(&f, WTAG_TRIES));
	talk_free(t);
	whole("faults");
}

static void
test_hosts(void)
{
	int			n_requests;

	peer_send(&P, "config allowed_hosts=other.example\n");
	usleep(200000);
	n_requests = atomic_load(&ep.requests);
	CHECK(fails(generate("hello", false), "42501"), "a host that is not allowed any more");
	CHECK(atomic_load(&ep.requests) == n_requests, "is not asked");
	peer_send(&P, "config allowed_hosts=http://127.0.0.1\n");
	usleep(200000);
	CHECK(strcmp(text(generate("hello", false)), "<hello>") == 0, "allowed again");
	peer_send(&P, "config allowed_hosts=http://\nconfig nonsense\nrubbish\n");
	usleep(200000);
	CHECK(strcmp(text(generate("hello", false)), "<hello>") == 0, "what can't be read changes nothing");
	whole("hosts");
}

/*
 * Repeated requests leak no descriptors and no memory.  At most half of them fail, so that no breaker
 * opens.
 */
static void
test_leaks(void)
{
	int			fds[2];
	long		rss[2];

	for (int round = 0; round < 2; round++)
	{
		for (int i = 0; i < (round == 0 ? 90 : 360); i++)
		{
			Talk	   *t;

			switch (i % 9)
			{
				case 0:
					text(generate("garbage", false));
					break;
				case 1:
					text(generate("die", false));
					break;
				case 2:
					t = generate("hang", false);
					for (int k = 0; k < i % 5; k++)
						peer_wait(&P, 1);
					talk_cancel(t);
					talk_wait_closed(t, 2000);
					talk_free(t);
					break;
				case 3:
					text(generate("stream 20 cut", true));
					break;
				case 4:
					t = generate("stream 3000 stall", true);
					for (int k = 0; k < i % 7; k++)
						peer_wait(&P, 1);
					talk_cancel(t);
					talk_wait_closed(t, 2000);
					talk_free(t);
					break;
				default:
					text(generate("good", false));
			}
		}
		usleep(500000);
		fds[round] = atoi(command("fds"));
		rss[round] = atol(command("rss"));
	}
	CHECK(fds[1] <= fds[0] + 3, "descriptors: %d, %d", fds[0], fds[1]);
	CHECK(peer_sanitized(&P) || rss[1] < rss[0] + 3000000, "memory: %ld, %ld", rss[0], rss[1]);
	whole("faults again and again");
}

static void
test_death(void)
{
	Talk	   *t = generate("hang", false);
	static const char *const args[] = {"--set", "allowed_hosts=http://127.0.0.1", NULL};

	usleep(100000);
	peer_kill(&P);
	/* as the supervisor does */
	atomic_store(&wire_slot(&P.arena, t->slot)->state, WS_LOST);
	talk_free(t);
	peer_spawn(&P, args);
	CHECK(peer_wait_ready(&P, 10000), "another one is ready");
	CHECK(wire_stats(&P.arena)->finished == 0, "and begins anew");
	CHECK(strcmp(text(generate("hello", false)), "<hello>") == 0, "and answers");
	whole("another's death");
	/* the supervisor's end of the socket is closed */
	close(P.ctl);
	CHECK(peer_exit_status(&P, 5000) == 0, "who has no supervisor ends");
	P.ctl = -1;
}

static int
status_of(const char *const *args)
{
	int			r;

	peer_spawn(&P, args);
	r = peer_exit_status(&P, 5000);
	peer_kill(&P);
	return r;
}

static void
test_arguments(void)
{
	static const char *const bad[][3] = {
		{"--set", "max_connections=0", NULL}, {"--set", "nonsense=1", NULL}, {"--nonsense", "1", NULL},
		{"--set", NULL},
		{"--set", "allowed_hosts=http://", NULL}, {"--control-fd", "x", NULL}
	};
	static const char *const none[] = {NULL};
	static const char *const version[] = {"--version", NULL};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(status_of(bad[i]) == ENGINE_EXIT_USAGE, "%s %s is refused", bad[i][0], bad[i][1]);
	CHECK(status_of(version) == ENGINE_EXIT_OK, "version");
	P.h->geo.version++;
	CHECK(status_of(none) == ENGINE_EXIT_VERSION, "an arena of another version");
	P.h->geo.version--;
	peer_drain_log(&P);
}

int
main(int argc, char **argv)
{
	static const char *const args[] = {"--set", "allowed_hosts=http://127.0.0.1", "--set",
									   "max_connections=100", NULL};

	signal(SIGPIPE, SIG_IGN);
	peer_find_engine(&P);
	if (argc > 1)
		snprintf(P.engine, sizeof(P.engine) - 32, "%s", argv[1]);
	strcpy(strrchr(P.engine, '/') != NULL ? strrchr(P.engine, '/') + 1 : P.engine, "vllm_pg_remote");
	if (access(P.engine, X_OK) != 0)
	{
		check_skip(1, "there is no vllm_pg_remote");
		return check_done("test_remote_program");
	}
	start_endpoint();
	bound(&closed_port);
	peer_arena(&P, 64, 4096, LONGEST);
	RUN(test_arguments());
	peer_spawn(&P, args);
	CHECK(peer_wait_ready(&P, 10000) && P.hello, "the program is ready");
	RUN(test_answers());
	RUN(test_streams());
	RUN(test_flood());
	RUN(test_many(1000, 64));
	RUN(test_embeddings());
	RUN(test_cancel());
	RUN(test_faults());
	RUN(test_hosts());
	RUN(test_leaks());
	RUN(test_death());
	if (check_failed > 0 && P.text.len > 0)
		fprintf(stderr, "%s", P.text.data);
	CHECK(!peer_complaints(&P), "no sanitizer complaints");
	peer_free(&P);
	return check_done("test_remote_program");
}
