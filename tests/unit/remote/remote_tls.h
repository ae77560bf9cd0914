/*
 * remote_tls.h
 *	  The part of test_remote_http.c that needs certificates: TLS and HTTP/2, against
 *	  tests/remote/tls_server.py.
 */
#ifndef VLLM_TESTS_UNIT_REMOTE_REMOTE_TLS_H
#define VLLM_TESTS_UNIT_REMOTE_REMOTE_TLS_H

#define TLS_CHECKS 60			/* about this many are skipped without python3 or openssl */

typedef struct TlsServer
{
	pid_t		pid;
	int			in,				/* its standard input: closing it ends the server */
				out;
	int			port;
	char		log[65536];
	size_t		len;
} TlsServer;

static char tls_dir[64];

static bool
command(const char *fmt, const char *a, const char *b)
{
	char		text[2048];

	snprintf(text, sizeof(text), fmt, a, b);
	return system(text) == 0;
}

static bool
tls_start(TlsServer *t, const char *cert, const char *alpn)
{
	int			in[2],
				out[2];
	char		c[128],
				k[128];

	memset(t, 0, sizeof(*t));
	snprintf(c, sizeof(c), "%s/%s.crt", tls_dir, cert);
	snprintf(k, sizeof(k), "%s/%s.key", tls_dir, cert);
	if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
		return false;
	t->pid = fork();
	if (t->pid == 0)
	{
		dup2(in[0], 0);
		dup2(out[1], 1);
		execlp("python3", "python3", "tests/remote/tls_server.py", c, k, alpn, (char *) NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	t->in = in[1];
	t->out = out[0];
	fcntl(t->out, F_SETFL, O_NONBLOCK);
	return true;
}

/* Return the log so far. */
static const char *
tls_log(TlsServer *t)
{
	ssize_t		n;

	while (t->len < sizeof(t->log) - 1 && (n = read(t->out, t->log + t->len, sizeof(t->log) - 1 - t->len)) >
		   0)
		t->len += n;
	t->log[t->len] = '\0';
	return t->log;
}

/* Wait until the server prints its port. */
static bool
tls_ready(TlsServer *t)
{
	for (int i = 0; i < 1000 && strchr(tls_log(t), '\n') == NULL; i++)
		usleep(10000);
	t->port = atoi(t->log);
	return t->port > 0;
}

static void
tls_clear(TlsServer *t)
{
	tls_log(t);
	t->len = 0;
}

static void
tls_stop(TlsServer *t)
{
	close(t->in);
	close(t->out);
	waitpid(t->pid, NULL, 0);
}

static int
tls_count(TlsServer *t, const char *what)
{
	int			n = 0;

	for (const char *s = tls_log(t); (s = strstr(s, what)) != NULL; s++)
		n++;
	return n;
}

/* Return when this was first logged; 0 = never. */
static int64_t
tls_when(TlsServer *t, const char *what)
{
	const char *s = strstr(tls_log(t), what);
	int			n;
	long long	us;

	return s != NULL && sscanf(s + strlen(what), "%d %lld", &n, &us) == 2 ? us : 0;
}

static HttpRequest
tls_to(const TlsServer *t, const char *host, const char *body)
{
	static char url[4][128],
				ca[128];
	static int	at;
	HttpRequest r = to(t->port, "/", body);

	snprintf(url[++at % 4], sizeof(url[0]), "https://%s:%d/v1", host, t->port);
	snprintf(ca, sizeof(ca), "%s/good.crt", tls_dir);
	r.url = url[at % 4];
	r.ca_file = ca;
	return r;
}

/* Verification of certificates. */
static void
test_trust(void)
{
	TlsServer	good,
				other;
	Got			g = {0};
	HttpRequest r;

	CHECK(tls_start(&good, "good", "http/1.1") && tls_start(&other, "other", "http/1.1"), "started");
	CHECK(tls_ready(&good) && tls_ready(&other), "ports");
	/* first without verification: such a connection must not be reused for a call that verifies */
	r = tls_to(&good, "127.0.0.1", "unverified");
	r.verify = false;
	r.ca_file = NULL;
	run(&g, r);
	CHECK(g.r.end == HTTP_DONE && strcmp(g.body.data, "unverified") == 0, "%d %s %s", g.r.end, g.r.e.msg,
		  g.r.e.detail);
	r.verify = true;
	run(&g, r);
	CHECK(g.r.end == HTTP_REFUSED && g.heads == 0 && g.r.e.cls == ERR_CONNECTION && g.r.e.hint[0] != '\0',
		  "%d %s %s", g.r.end, g.r.e.msg, g.r.e.detail);
	run(&g, tls_to(&good, "127.0.0.1", "verified"));
	CHECK(g.r.end == HTTP_DONE && strcmp(g.body.data, "verified") == 0, "%d %s %s", g.r.end, g.r.e.msg,
		  g.r.e.detail);
	run(&g, tls_to(&good, "localhost", "another name"));
	CHECK(g.r.end == HTTP_REFUSED, "%d %s %s", g.r.end, g.r.e.msg, g.r.e.detail);
	run(&g, tls_to(&other, "127.0.0.1", "another certificate"));
	CHECK(g.r.end == HTTP_REFUSED, "%d %s %s", g.r.end, g.r.e.msg, g.r.e.detail);
	r = tls_to(&good, "127.0.0.1", "no file");
	r.ca_file = "/nonexistent/ca.crt";
	run(&g, r);
	CHECK(g.r.end == HTTP_REFUSED && g.r.e.cls == ERR_IO, "%d %s %s", g.r.end, g.r.e.msg, g.r.e.detail);
	CHECK(tls_count(&good, "request") == 2 && tls_count(&other, "request") == 0, "nobody else was asked: %s",
		  good.log);
	run(&g, tls_to(&good, "127.0.0.1", "cut"));
	CHECK(g.r.end == HTTP_CUT && g.r.status == 200, "a connection that ends without TLS's farewell: %d %s",
		  g.r.end, g.body.data);
	run(&g, (r = tls_to(&good, "127.0.0.1", "hang"), r.deadline_us = clock_us() + 200000, r));
	CHECK(g.r.end == HTTP_LATE, "%d", g.r.end);
	tls_stop(&good);
	tls_stop(&other);
	forget(&g);
}

/* A cancelled call: its stream is reset or its connection closed within 100 ms, and others continue. */
static void
test_h2_cancel(TlsServer *t)
{
	static const char *const bodies[] = {"hang", "half"};

	for (int i = 0; i < 4; i++)
	{
		Got			g[2] = {0};
		HttpRequest r = tls_to(t, "127.0.0.1", bodies[i % 2]);
		bool		alone = i < 2;
		int64_t		at,
					seen = 0;

		tls_clear(t);
		begin(&g[0], &r);
		poll_calls(NULL, 0, 100);
		if (!alone)
		{
			HttpRequest slow = tls_to(t, "127.0.0.1", "slow one");

			begin(&g[1], &slow);
			poll_calls(NULL, 0, 100);
		}
		CHECK(tls_count(t, "request") == 1 + !alone, "under way: %s", t->log);
		at = clock_us();
		http_cancel(g[0].call);
		for (int k = 0; k < 30 && seen == 0; k++)
		{
			/* a reset is sent at the next iteration, for which the descriptor becomes readable */
			poll_calls(NULL, 0, 10);
			seen = tls_when(t, "rst");
			if (seen == 0 && alone)
				seen = tls_when(t, "closed");
		}
		CHECK(seen != 0 && seen - at < 100000, "%s, %s: after %lld us: %s", bodies[i % 2],
			  alone ? "alone" : "of two", (long long) (seen - at), t->log);
		if (!alone)
		{
			poll_calls(&g[1], 1, 3000);
			CHECK(g[1].r.end == HTTP_DONE && strcmp(g[1].body.data, "slow one") == 0, "the other: %d %s",
				  g[1].r.end, g[1].r.e.msg);
		}
		CHECK(g[0].ended == 0, "no event any more");
		forget(&g[0]);
		forget(&g[1]);
	}
	/* ended by its deadline, and by its callback */
	for (int i = 0; i < 2; i++)
	{
		Got			g = {.no_data = i == 1};
		HttpRequest r = tls_to(t, "127.0.0.1", "half");
		int64_t		seen = 0;

		tls_clear(t);
		if (i == 0)
			r.deadline_us = clock_us() + 200000;
		begin(&g, &r);
		poll_calls(&g, 1, 3000);
		for (int k = 0; k < 30 && seen == 0; k++)
		{
			usleep(10000);
			if ((seen = tls_when(t, "rst")) == 0)
				seen = tls_when(t, "closed");
		}
		CHECK(g.r.end == (i == 0 ? HTTP_LATE : HTTP_CUT) && seen != 0 && seen - g.r.end_us < 100000,
			  "%d: %d, %lld us: %s", i, g.r.end, (long long) (seen - g.r.end_us), t->log);
		forget(&g);
	}
}

static void
test_h2(void)
{
	enum
	{
		MANY = 256
	};
	static Got	g[MANY];
	static char bodies[MANY][32];
	TlsServer	t;
	HttpStats	a,
				b;
	char	   *big = mem_alloc(400001);

	CHECK(tls_start(&t, "good", "h2") && tls_ready(&t), "started");
	http_stats(http, &a);
	run(&g[0], tls_to(&t, "127.0.0.1", "{\"a\": 1}"));
	CHECK(g[0].r.end == HTTP_DONE && g[0].r.status == 200 && g[0].r.is_json &&
		  strcmp(g[0].body.data, "{\"a\": 1}") == 0, "%d %s %s", g[0].r.end, g[0].r.e.msg, g[0].r.e.detail);
	CHECK(g[0].r.sent_us > 0 && strstr(tls_log(&t), "request 1 ") != NULL, "by HTTP/2: %s", t.log);
	for (int i = 0; i < MANY; i++)
	{
		HttpRequest r;

		forget(&g[i]);
		snprintf(bodies[i], sizeof(bodies[i]), "slow %d", i);
		r = tls_to(&t, "127.0.0.1", bodies[i]);
		begin(&g[i], &r);
	}
	poll_calls(g, MANY, 20000);
	for (int i = 0; i < MANY; i++)
		CHECK(g[i].ended == 1 && g[i].r.end == HTTP_DONE && strcmp(g[i].body.data, bodies[i]) == 0,
			  "%d: %s, %s", i, g[i].r.e.msg, g[i].r.e.detail);
	http_stats(http, &b);
	CHECK(b.connects - a.connects <= 4, "%lld connections for %d calls",
		  (long long) (b.connects - a.connects), MANY);
	memset(big, 'x', 400000);
	big[400000] = '\0';
	run(&g[0], tls_to(&t, "127.0.0.1", big));
	CHECK(g[0].r.end == HTTP_DONE && g[0].body.len == 400000, "%zu bytes, %s", g[0].body.len, g[0].r.e.msg);
	/* a paused call doesn't block others on its connection */
	{
		HttpRequest r = tls_to(&t, "127.0.0.1", big);

		forget(&g[0]);
		tls_clear(&t);
		begin(&g[0], &r);
		http_pause(g[0].call, true);
		poll_calls(NULL, 0, 100);
		run(&g[1], tls_to(&t, "127.0.0.1", "slow one"));
		CHECK(g[1].r.end == HTTP_DONE && tls_count(&t, "conn") == 0 && g[0].ended == 0 && g[0].body.len == 0,
			  "%d %s %zu", g[1].r.end, g[1].r.e.msg, g[0].body.len);
		http_pause(g[0].call, false);
		poll_calls(&g[0], 1, 5000);
		CHECK(g[0].r.end == HTTP_DONE && g[0].body.len == 400000, "%d: %zu bytes", g[0].r.end, g[0].body.len);
	}
	tls_clear(&t);
	run(&g[0], tls_to(&t, "127.0.0.1", "reset"));
	CHECK(g[0].r.end == HTTP_CUT && g[0].r.status == 200 && tls_count(&t, "request") == 1, "%d %s %s",
		  g[0].r.end, g[0].r.e.msg, t.log);
	tls_clear(&t);
	run(&g[0], tls_to(&t, "127.0.0.1", "refuse"));
	CHECK(g[0].r.end == HTTP_CUT && g[0].r.status == 0 && tls_count(&t, "request") == 1, "%d %s %s",
		  g[0].r.end, g[0].r.e.msg, t.log);
	tls_clear(&t);
	run(&g[0], tls_to(&t, "127.0.0.1", "goaway"));
	CHECK(g[0].r.end == HTTP_CUT && tls_count(&t, "request") == 1, "%d %s %s", g[0].r.end, g[0].r.e.msg,
		  t.log);
	test_h2_cancel(&t);
	tls_stop(&t);
	for (int i = 0; i < MANY; i++)
		forget(&g[i]);
	mem_free(big);
}

static void
test_tls(void)
{
	const char *make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
		"-subj /CN=test -addext subjectAltName=IP:127.0.0.1 -keyout %s/good.key -out %s/good.crt 2>/dev/null";
	const char *other = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
		"-subj /CN=test -addext subjectAltName=IP:127.0.0.1 -keyout %s/other.key -out %s/other.crt "
		"2>/dev/null";

	strcpy(tls_dir, "/tmp/test_remote_XXXXXX");
	if (mkdtemp(tls_dir) == NULL || !command("python3 -c 'import ssl' 2>/dev/null", "", "") ||
		!command(make, tls_dir, tls_dir) || !command(other, tls_dir, tls_dir))
		check_skip(TLS_CHECKS, "needs python3 and openssl");
	else
	{
		test_trust();
		test_h2();
	}
	command("rm -rf %s", tls_dir, "");
}

#endif
