/*
 * test_remote_dispatcher.c
 *	  The dispatcher: one case after the other, with a simulated network.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/remote/remote_net.h"

static RSettings settings = {.allowed_hosts = "a.example b.example c.example",.max_connections = 1000};

static NetPlan
always_408(const HttpRequest *r)
{
	(void) r;
	return net_status(408, -1);
}

static NetPlan
always_429(const HttpRequest *r)
{
	(void) r;
	return net_status(429, 10);
}

static Dispatcher *
start(void)
{
	return net_start(&settings, net_by_script);
}

static void
test_answer(void)
{
	Dispatcher *l = start();
	Client	   *c = net_req(l, &(Want) {
		.secret = "s3cret",.options = "{\"headers\": {\"X-Team\": \"blue\"}}",
		.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	});

	CHECK(c->phase == WP_WAITING, "waits");
	net_poll(l, &http);
	CHECK(c->phase == WP_RUNNING, "runs");
	CHECK(strcmp(http.url, "https://a.example/v1/completions") == 0, "%s", http.url);
	CHECK(strstr(http.headers, "Authorization: Bearer s3cret\n") != NULL, "%s", http.headers);
	CHECK(strstr(http.headers, "X-Team: blue\n") != NULL, "%s", http.headers);
	CHECK(strstr(http.headers, "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n") !=
		  NULL, "%s", http.headers);
	CHECK(strstr(http.headers, "X-Request-Id: ") != NULL, "%s", http.headers);
	net_run(l, &http, 1000000);
	CHECK(c->done && strcmp(c->text, "p0!") == 0, "%s", c->text);
	CHECK(c->tries == 1 && c->charged == 0 && strcmp(c->endpoint, "https://a.example/v1") == 0, "%s",
		  c->endpoint);
	CHECK(c->e2e_us == 10000 && c->queue_us == 0 && c->ttft_us == 10000, "%lld", (long long) c->e2e_us);
	CHECK(c->accepted == 1 && dispatcher_live(l) == 0, "ended");
	/* outside of /v1; and the secret in a header of its own */
	c = net_req(l, &(Want) {.kind = WK_TOKENIZE,.secret = "k",
							.options = "{\"auth_header\": \"api-key\", \"dialect\": \"vllm\"}"});
	net_poll(l, &http);
	CHECK(strcmp(http.url, "https://a.example/tokenize") == 0, "%s", http.url);
	CHECK(strstr(http.headers, "api-key: k\n") != NULL && strstr(http.headers, "Bearer") == NULL, "%s",
		  http.headers);
	net_run(l, &http, 1000000);
	CHECK(c->done, "done");
	net_stop(l);
}

/* The result of each end of a call: tries, charges, sqlstate, elsewhere. */
static void
test_fates(void)
{
	static const struct
	{
		NetDo		what;
		int			status;
		int			tries[2];	/* if not idempotent, and if idempotent */
		int			charged[2];
		const char *sqlstate[2];	/* NULL = a reply */
		int			elsewhere;
	}			cases[] = {
		{NET_OK, 200, {1, 1}, {0, 0}, {NULL, NULL}, -1},
		{NET_NOT_SENT, 0, {4, 4}, {0, 0}, {"08006", "08006"}, 1},
		{NET_CUT, 0, {1, 4}, {1, 4}, {"08006", "08006"}, 1},
		{NET_CUT_BODY, 0, {1, 4}, {1, 4}, {"08006", "08006"}, 1},
		{NET_TLS, 0, {1, 1}, {0, 0}, {"42501", "42501"}, 1},
		{NET_GARBAGE, 0, {1, 4}, {1, 4}, {"08P01", "08P01"}, 1},
		{NET_EMPTY, 0, {1, 4}, {1, 4}, {"08P01", "08P01"}, 1},
		{NET_STATUS, 400, {1, 1}, {0, 0}, {"22023", "22023"}, -1},
		{NET_STATUS, 413, {1, 1}, {0, 0}, {"54000", "54000"}, -1},
		{NET_STATUS, 422, {1, 1}, {0, 0}, {"22023", "22023"}, -1},
		{NET_STATUS, 401, {1, 1}, {0, 0}, {"28000", "28000"}, 1},
		{NET_STATUS, 403, {1, 1}, {0, 0}, {"42501", "42501"}, 1},
		{NET_STATUS, 404, {1, 1}, {0, 0}, {"42704", "42704"}, 1},
		{NET_STATUS, 302, {1, 1}, {0, 0}, {"42501", "42501"}, 1},
		{NET_STATUS, 408, {4, 4}, {0, 0}, {"57P03", "57P03"}, 1},
		{NET_STATUS, 425, {4, 4}, {0, 0}, {"57P03", "57P03"}, 1},
		{NET_STATUS, 429, {4, 4}, {0, 0}, {"57P03", "57P03"}, 1},
		{NET_STATUS, 503, {4, 4}, {0, 0}, {"57P03", "57P03"}, 1},
		{NET_STATUS, 500, {1, 4}, {1, 4}, {"57P03", "57P03"}, 1},
		{NET_STATUS, 502, {1, 4}, {1, 4}, {"57P03", "57P03"}, 1},
		{NET_STATUS, 504, {1, 4}, {1, 4}, {"57P03", "57P03"}, 1},
		{NET_STATUS, 501, {1, 1}, {0, 0}, {"57P03", "57P03"}, 1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int again = 0; again < 2; again++)
		{
			Dispatcher *l = start();
			Client	   *c = net_req(l, &(Want) {.seed = again});

			for (int k = 0; k < 10; k++)
				net_add(cases[i].what, cases[i].status, -1);
			net_run(l, &http, 100000000);
			CHECK(c->finals == 1, "case %zu: %d", i, c->finals);
			CHECK(c->done == (cases[i].sqlstate[again] == NULL), "case %zu: %s", i, c->message);
			CHECK(c->done || strcmp(c->sqlstate, cases[i].sqlstate[again]) == 0, "case %zu: %s", i,
				  c->sqlstate);
			CHECK(c->tries == cases[i].tries[again] && c->calls == c->tries, "case %zu: %lld tries", i,
				  (long long) c->tries);
			CHECK(c->charged == cases[i].charged[again], "case %zu: %lld charged", i, (long long) c->charged);
			CHECK(c->charges == c->charged + c->done, "case %zu: it charged %d", i, c->charges);
			CHECK(c->elsewhere == cases[i].elsewhere, "case %zu: elsewhere %lld", i,
				  (long long) c->elsewhere);
			net_stop(l);
		}
}

static void
test_retries(void)
{
	Dispatcher *l = start();
	Client	   *c;
	int64_t		t0 = net_now;

	/* twice no connection, then success: waits of 250 and 500 ms, each half more or less */
	net_add(NET_NOT_SENT, 0, -1);
	net_add(NET_NOT_SENT, 0, -1);
	c = net_req(l, &(Want) {0});
	net_run(l, &http, 10000000);
	CHECK(c->done && c->tries == 3 && c->charged == 0, "%s", c->message);
	CHECK(net_now - t0 >= 375000 && net_now - t0 < 1200000, "%lld", (long long) (net_now - t0));
	/* Retry-After */
	net_add(NET_STATUS, 429, 3000);
	t0 = net_now;
	c = net_req(l, &(Want) {0});
	net_run(l, &http, 10000000);
	CHECK(c->done && c->tries == 2, "%s", c->message);
	CHECK(net_now - t0 >= 3000000 && net_now - t0 < 3500000, "%lld", (long long) (net_now - t0));
	/* too long to wait */
	net_add(NET_STATUS, 429, 3600000);
	c = net_req(l, &(Want) {0});
	net_run(l, &http, 10000000);
	CHECK(!c->done && c->tries == 1 && c->retry_after_ms == 3600000 && c->elsewhere == 1, "%s", c->message);
	/* no other request calls it meanwhile */
	c = net_req(l, &(Want) {0});
	net_run(l, &http, 10000000);
	CHECK(!c->done && c->calls == 0 && strcmp(c->sqlstate, "57P03") == 0 && c->retry_after_ms > 3500000,
		  "%s %d", c->message, c->calls);
	net_stop(l);
	/* the wait would exceed the deadline: the error comes at once */
	l = start();
	net_add(NET_STATUS, 503, 5000);
	c = net_req(l, &(Want) {.deadline_us = net_now + 2000000});
	t0 = net_now;
	net_run(l, &http, 10000000);
	CHECK(!c->done && strcmp(c->sqlstate, "57P03") == 0 && net_now - t0 < 100000, "%s", c->sqlstate);
	/* max_retries */
	for (int i = 0; i < 3; i++)
		net_add(NET_NOT_SENT, 0, -1);
	net_now += 10000000;
	c = net_req(l, &(Want) {.options = "{\"max_retries\": 0}"});
	net_run(l, &http, 10000000);
	CHECK(!c->done && c->tries == 1, "%lld", (long long) c->tries);
	net_stop(l);
}

static void
test_streams(void)
{
	Dispatcher *l = start();
	Client	   *c = net_req(l, &(Want) {.stream = true});

	net_run(l, &http, 1000000);
	CHECK(c->done && c->accepted == 1 && c->texts == 3 && c->ttft_us == 10000 && c->e2e_us > c->ttft_us, "%d",
		  c->texts);
	/* output that the client has received is not requested again, with a seed or not */
	net_add(NET_CUT_BODY, 0, -1);
	c = net_req(l, &(Want) {.stream = true,.seed = true});
	net_run(l, &http, 10000000);
	CHECK(!c->done && c->tries == 1 && c->charged == 1 && c->texts > 0 && strcmp(c->sqlstate, "08006") == 0,
		  "%s", c->message);
	CHECK(c->prompt_tokens == 7, "what is known of its cost: %lld", (long long) c->prompt_tokens);
	net_add(NET_GARBAGE, 0, -1);
	c = net_req(l, &(Want) {.stream = true,.seed = true});
	net_run(l, &http, 10000000);
	CHECK(c->done && c->tries == 2 && c->charged == 1 && c->texts == 3, "nothing had been heard: %s",
		  c->message);
	/* everything was sent, but the connection doesn't end: it gets a second */
	net_add(NET_LINGER, 0, -1);
	c = net_req(l, &(Want) {.stream = true});
	net_run(l, &http, 200000);
	CHECK(c->done && http.n == 1, "%d", http.n);
	net_run(l, &http, 2000000);
	CHECK(http.n == 0, "%d", http.n);
	/* cancelled while it handles its frame */
	c = net_req(l, &(Want) {.stream = true});
	net_cancel_on_text = c;
	net_run(l, &http, 2000000);
	CHECK(c->texts == 1 && c->finals == 0 && http.n == 0 && dispatcher_live(l) == 0, "%d", c->texts);
	/* a client that doesn't read pauses the response */
	net_cancel_on_text = NULL;
	net_script[net_n_script] = net_default();
	net_script[net_n_script++].chunks = 100;
	c = net_req(l, &(Want) {.stream = true});
	net_run(l, &http, 50000);
	c->backlog = 1000000;
	net_run(l, &http, 3000000);
	CHECK(http.pauses == 1 && c->texts < 10 && !c->done, "%d", c->texts);
	c->backlog = 0;
	net_run(l, &http, 3000000);
	CHECK(c->done && c->texts == 100, "%d", c->texts);
	net_stop(l);
}

static void
test_ends(void)
{
	Dispatcher *l = start();
	Client	   *c;
	Client	   *d;

	/* a deadline */
	net_add(NET_HANG, 0, -1);
	c = net_req(l, &(Want) {.deadline_us = net_now + 300000,.seed = true});
	net_run(l, &http, 10000000);
	CHECK(strcmp(c->sqlstate, "57014") == 0 &&
		  strcmp(c->message, "canceling LLM request due to timeout") == 0, "%s", c->message);
	CHECK(strcmp(c->detail, "The request took longer than 1234 ms.") == 0, "%s", c->detail);
	CHECK(c->end_us <= c->deadline_us + 1 && c->tries == 1 && c->charged == 1 && http.n == 0, "%d", http.n);
	/* also if the connection fails at that very moment */
	net_script[net_n_script] = net_default();
	net_script[net_n_script].delay_us = 300000;
	net_script[net_n_script++].what = NET_NOT_SENT;
	c = net_req(l, &(Want) {.deadline_us = net_now + 300000});
	net_run(l, &http, 10000000);
	CHECK(strcmp(c->sqlstate, "57014") == 0 && c->charged <= 1 && c->tries == 1, "%s", c->message);
	/* the model's own timeout differs: the call is retried */
	net_add(NET_HANG, 0, -1);
	c = net_req(l, &(Want) {.options = "{\"timeout\": 1000}",.seed = true});
	d = net_req(l, &(Want) {.options = "{\"timeout\": 1000}"});
	net_add(NET_HANG, 0, -1);
	net_run(l, &http, 10000000);
	CHECK(c->done && c->tries == 2 && c->charged == 1, "%s %lld", c->message, (long long) c->tries);
	CHECK(!d->done && d->tries == 1 && d->charged == 1 && strcmp(d->sqlstate, "08006") == 0, "%s",
		  d->message);
	/* cancelled: running, while it waits for a retry, in the queue */
	net_add(NET_HANG, 0, -1);
	net_add(NET_NOT_SENT, 0, -1);
	c = net_req(l, &(Want) {0});
	d = net_req(l, &(Want) {0});
	net_run(l, &http, 100000);
	CHECK(http.n == 1 && http.made == 7, "%d %d", http.n, http.made);
	c->cancelled = d->cancelled = true;
	dispatcher_cancel(l, c->request);
	CHECK(http.n == 0 && dispatcher_live(l) == 1, "closed at once");
	dispatcher_cancel(l, d->request);
	CHECK(dispatcher_live(l) == 0, "gone");
	c = net_req(l, &(Want) {0});
	c->cancelled = true;
	dispatcher_cancel(l, c->request);
	net_run(l, &http, 5000000);
	CHECK(http.made == 7, "no call behind a cancel: %d", http.made);
	net_stop(l);
}

static void
test_hosts(void)
{
	Dispatcher *l = start();
	RSettings	other = settings;
	Client	   *c = net_req(l, &(Want) {.url = "https://evil.example:8443/v1"});

	net_run(l, &http, 1000000);
	CHECK(strcmp(c->sqlstate, "42501") == 0 && c->calls == 0 && strstr(c->hint, "evil.example:8443") != NULL,
		  "%s %s", c->message, c->hint);
	CHECK(c->elsewhere == 1, "elsewhere");
	/* of several urls, only the allowed ones are called */
	c = net_req(l, &(Want) {.url = "https://evil.example/v1 https://b.example/v1"});
	net_run(l, &http, 1000000);
	CHECK(c->done && strcmp(c->endpoint, "https://b.example/v1") == 0, "%s", c->endpoint);
	/* no longer allowed */
	c = net_req(l, &(Want) {0});
	other.allowed_hosts = "b.example";
	dispatcher_settings(l, &other);
	net_run(l, &http, 1000000);
	CHECK(strcmp(c->sqlstate, "42501") == 0 && c->calls == 0, "%s", c->message);
	c = net_req(l, &(Want) {.url = "https://b.example/unstartable"});
	net_run(l, &http, 1000000);
	CHECK(strcmp(c->sqlstate, "58030") == 0, "%s", c->message);
	c = net_req(l, &(Want) {.url = "https://b.example/v1",.prompt = "?"});
	net_run(l, &http, 1000000);
	CHECK(strcmp(c->sqlstate, "0A000") == 0 && c->elsewhere == -1, "%s", c->message);
	c = net_req(l, &(Want) {.url = "https://b.example/v1",.secret = "a\nb"});
	CHECK(c->request == NULL && c->finals == 1 && strcmp(c->sqlstate, "22023") == 0 &&
		  strstr(c->message, "a\nb") == NULL, "%s", c->message);
	net_stop(l);
}

/* URLs are hidden from callers that may not see them. */
static void
test_secret_urls(void)
{
	static const int statuses[] = {401, 404, 503, 302};
	Dispatcher *l = start();
	Client	   *c = net_req(l, &(Want) {.secret_urls = true});

	net_run(l, &http, 1000000);
	CHECK(c->done && c->endpoint[0] == '\0' && c->tries == 1, "%s", c->endpoint);
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
	{
		net_add(NET_STATUS, statuses[i], -1);
		c = net_req(l, &(Want) {.secret_urls = true,.options = "{\"max_retries\": 0}"});
		net_run(l, &http, 1000000);
		CHECK(!c->done && strstr(c->message, "example") == NULL && strstr(c->message, "\"m\"") != NULL, "%s",
			  c->message);
		CHECK(strstr(c->detail, "example") == NULL && strstr(c->hint, "example") == NULL &&
			  c->endpoint[0] == '\0', "%s", c->detail);
	}
	net_add(NET_STATUS, 404, -1);
	c = net_req(l, &(Want) {.secret_urls = true,.url = "https://a.example/v1?k=1",
							.options = "{\"max_retries\": 0}"});
	net_run(l, &http, 1000000);
	CHECK(!c->done && strstr(c->detail, "/completions") != NULL && strstr(c->detail, "k=1") == NULL,
		  "the query: %s", c->detail);
	c = net_req(l, &(Want) {.secret_urls = true,.url = "https://evil.example/v1"});
	net_run(l, &http, 1000000);
	CHECK(strcmp(c->sqlstate, "42501") == 0 && strstr(c->detail, "evil") == NULL &&
		  strstr(c->hint, "evil") == NULL, "%s %s", c->detail, c->hint);
	/* an error as a body */
	net_add(NET_STATUS, 401, -1);
	c = net_req(l, &(Want) {.kind = WK_API});
	net_run(l, &http, 1000000);
	CHECK(c->done && strstr(c->text, "401") != NULL && c->tries == 1 && c->elsewhere == 1, "%s", c->text);
	net_stop(l);
}

/* A request that holds too much memory fails; others continue, and nothing stays counted. */
static void
test_held(void)
{
	Dispatcher *l = start();
	size_t		most = l->most_held;
	Client	   *c;

	CHECK(most > 0, "there is a bound");
	l->most_held = 0;
	c = net_req(l, &(Want) {.seed = true});
	net_run(l, &http, 10000000);
	CHECK(!c->done && strcmp(c->sqlstate, "53200") == 0 && c->tries == 1 && c->charged == 1 &&
		  c->elsewhere <= 0, "%s", c->message);
	CHECK(l->held == 0 && http.n == 0, "%zu", l->held);
	/* other requests hold much, this one little */
	l->most_held = 1000000000;
	l->held = 2000000000;
	c = net_req(l, &(Want) {0});
	net_run(l, &http, 10000000);
	CHECK(c->done && l->held == 2000000000, "%s", c->message);
	l->held = 0;
	net_add(NET_CUT_BODY, 0, -1);
	c = net_req(l, &(Want) {.seed = true});
	net_run(l, &http, 10000000);
	CHECK(c->done && c->tries == 2 && l->held == 0, "%zu", l->held);
	net_stop(l);
}

static void
test_coalesce(void)
{
	Dispatcher *l = start();
	Client	   *c[10];
	Want		w = {.kind = WK_POOL,.task = "embed",.options = "{\"max_batch_inputs\": 4}"};
	Want		bad = w;

	for (int i = 0; i < 10; i++)
		c[i] = net_req(l, &w);
	net_run(l, &http, 1000000);
	CHECK(http.made == 3, "10 in calls of 4: %d", http.made);
	for (int i = 0; i < 10; i++)
		CHECK(c[i]->done && strncmp(c[i]->text, c[i]->want, strlen(c[i]->want)) == 0 && c[i]->tries == 1,
			  "%s", c[i]->text);
	/* one bad row of four: refused together, then sent one by one */
	http.made = 0;
	net_add(NET_STATUS, 400, -1);
	net_add(NET_OK, 200, -1);
	net_add(NET_STATUS, 400, -1);
	for (int i = 0; i < 4; i++)
		c[i] = net_req(l, &w);
	net_run(l, &http, 1000000);
	CHECK(http.made == 5, "%d", http.made);
	CHECK(c[0]->done + c[1]->done + c[2]->done + c[3]->done == 3, "one fails");
	for (int i = 0; i < 4; i++)
		CHECK(c[i]->finals == 1 && c[i]->tries == 2 && (c[i]->done || strcmp(c[i]->sqlstate, "22023") == 0),
			  "%s", c[i]->message);
	/* The same if a request can't be encoded at all. */
	bad.prompt = "?";
	c[0] = net_req(l, &w);
	c[1] = net_req(l, &bad);
	c[2] = net_req(l, &w);
	net_run(l, &http, 1000000);
	CHECK(c[0]->done && c[2]->done && strcmp(c[1]->sqlstate, "0A000") == 0, "%s", c[1]->message);
	/* a request that is cancelled doesn't disturb the others */
	for (int i = 0; i < 4; i++)
		c[i] = net_req(l, &w);
	net_poll(l, &http);
	CHECK(http.n == 1, "together");
	c[0]->cancelled = c[3]->cancelled = true;
	dispatcher_cancel(l, c[0]->request);
	dispatcher_cancel(l, c[3]->request);
	CHECK(http.n == 1 && dispatcher_live(l) == 2, "goes on");
	net_run(l, &http, 1000000);
	CHECK(c[1]->done && c[2]->done && strncmp(c[2]->text, c[2]->want, strlen(c[2]->want)) == 0, "%s",
		  c[2]->text);
	for (int i = 0; i < 2; i++)
		c[i] = net_req(l, &w);
	net_poll(l, &http);
	c[0]->cancelled = c[1]->cancelled = true;
	dispatcher_cancel(l, c[0]->request);
	dispatcher_cancel(l, c[1]->request);
	CHECK(http.n == 0, "the last one closes it");
	/* other secrets, separate calls */
	http.made = 0;
	w.secret = "a";
	c[0] = net_req(l, &w);
	w.secret = "b";
	c[1] = net_req(l, &w);
	net_run(l, &http, 1000000);
	CHECK(http.made == 2 && c[0]->done && c[1]->done, "%d", http.made);
	net_stop(l);
}

/* While a call is running, a single request waits a moment for others to coalesce with. */
static const char *poison;		/* an input that breaks the endpoint down; NULL = every input does */
static NetPlan over_poison;

static NetPlan
by_poison(const HttpRequest *r)
{
	const char *at = r->body;
	size_t		n = poison != NULL ? strlen(poison) : 0;

	if (poison == NULL)
		return over_poison;
	while (at != NULL && (at = strstr(at, poison)) != NULL &&
		   ((at != r->body && at[-1] != '\n') || (at[n] != '\n' && at[n] != '\0')))
		at++;
	return at != NULL ? over_poison : net_default();
}

/* One of n rows breaks the endpoint down. */
static void
test_poison(NetDo what, int status, int n, int most_calls)
{
	Dispatcher *l = start();
	Client	   *c[64];

	for (int bad = 0; bad < n; bad += n / 5)
	{
		net_now += 60000000;
		poison = "none";
		net_plan = by_poison;
		over_poison = net_default();
		over_poison.what = what;
		over_poison.status = status;
		for (int i = 0; i < n; i++)
			c[i] = net_req(l, &(Want) {.kind = WK_POOL,.task = "embed",.options = "{\"max_batch_inputs\": "
																				  "64}"});
		poison = c[bad]->want;
		http.made = 0;
		net_run(l, &http, 60000000);
		CHECK(http.made <= most_calls, "%d calls", http.made);
		for (int i = 0; i < n; i++)
		{
			CHECK(c[i]->finals == 1 && c[i]->done == (i != bad), "row %d, %d of %d is bad: %s, %s", i, bad, n,
				  c[i]->message, c[i]->detail);
			CHECK(c[i]->charges == c[i]->charged + c[i]->done && c[i]->calls == c[i]->tries, "%d, %lld",
				  c[i]->charges, (long long) c[i]->charged);
		}
		CHECK(l->held == 0 && dispatcher_live(l) == 0, "all over");
	}
	net_stop(l);
}

/* An endpoint that is down isn't called for each row. */
static void
test_poison_all(void)
{
	Dispatcher *l = start();
	Client	   *c[640];

	net_plan = by_poison;
	poison = NULL;
	over_poison = net_status(500, -1);
	for (int i = 0; i < 640; i++)
		c[i] = net_req(l, &(Want) {.kind = WK_POOL,.task = "embed",.options = "{\"max_batch_inputs\": 64}"});
	net_run(l, &http, 100000000);
	CHECK(http.made <= 10 + 2 * RETRY_FEW + 40, "%d calls", http.made);
	for (int i = 0; i < 640; i++)
		CHECK(c[i]->finals == 1 && !c[i]->done, "%s", c[i]->text);
	net_stop(l);
	l = start();
	net_plan = by_poison;
	http.made = 0;
	for (int i = 0; i < 64; i++)
		c[i] = net_req(l, &(Want) {.kind = WK_POOL,.task = "embed",
								   .options = "{\"max_batch_inputs\": 64, \"max_retries\": 0}"});
	net_run(l, &http, 100000000);
	CHECK(http.made == 1, "none is repeated: %d", http.made);
	net_stop(l);
}

/* Rows that are wrong only by comparison aren't sent one by one, where the error would not be noticed. */
static void
test_unlike(void)
{
	Dispatcher *l = start();
	Client	   *c[4];

	net_unlike = true;
	for (int i = 0; i < 4; i++)
		net_add(NET_GARBAGE, 200, -1);
	for (int i = 0; i < 4; i++)
		c[i] = net_req(l, &(Want) {.kind = WK_POOL,.task = "embed",.options = "{\"max_batch_inputs\": 4}"});
	net_run(l, &http, 100000000);
	net_unlike = false;
	CHECK(http.made == 4, "%d", http.made);
	for (int i = 0; i < 4; i++)
		CHECK(c[i]->finals == 1 && strcmp(c[i]->sqlstate, "08P01") == 0 && c[i]->tries == 4, "%s",
			  c[i]->message);
	net_stop(l);
}

static void
test_coalesce_waits(void)
{
	Dispatcher *l = start();
	Client	   *c;
	Client	   *d;
	Want		w = {.kind = WK_POOL,.task = "embed"};

	net_req(l, &w);
	net_poll(l, &http);
	CHECK(http.made == 1, "at once");
	c = net_req(l, &w);
	net_poll(l, &http);
	CHECK(http.made == 1, "not at once");
	net_now += 1000;
	d = net_req(l, &w);
	net_poll(l, &http);
	net_now += 999;
	net_poll(l, &http);
	CHECK(http.made == 1, "2 ms aren't over");
	net_now += 1;
	net_poll(l, &http);
	CHECK(http.made == 2 && http.n == 2, "together");
	net_run(l, &http, 1000000);
	CHECK(c->done && d->done && c->queue_us == 2000 && d->queue_us == 1000, "%lld", (long long) c->queue_us);
	net_stop(l);
}

static void
test_order(void)
{
	Dispatcher *l = start();
	Client	   *c[6];
	const char *o = "{\"max_concurrent_requests\": 1}";

	c[0] = net_req(l, &(Want) {.options = o});
	net_poll(l, &http);
	c[1] = net_req(l, &(Want) {.options = o,.background = true,.priority = -5});
	c[2] = net_req(l, &(Want) {.options = o,.login = 1});
	c[3] = net_req(l, &(Want) {.options = o,.login = 1});
	c[4] = net_req(l, &(Want) {.options = o,.login = 2});
	c[5] = net_req(l, &(Want) {.options = o,.priority = -1});
	net_run(l, &http, 10000000);
	CHECK(http.most == 1, "one at a time: %d", http.most);
	CHECK(c[0]->end_us < c[5]->end_us && c[5]->end_us < c[2]->end_us && c[2]->end_us < c[4]->end_us &&
		  c[4]->end_us < c[3]->end_us && c[3]->end_us < c[1]->end_us,
		  "priority, then in turn, then who can wait");
	net_stop(l);
}

static void
test_urls(void)
{
	Dispatcher *l = start();
	Want		w = {.url = "https://a.example/v1 https://b.example/v1 https://c.example/v1"};
	Client	   *c[9];
	int			at_b = 0;

	for (int i = 0; i < 9; i++)
		c[i] = net_req(l, &w);
	net_run(l, &http, 1000000);
	for (int i = 0; i < 9; i++)
		at_b += strcmp(c[i]->endpoint, "https://b.example/v1") == 0;
	CHECK(at_b == 3, "evenly: %d", at_b);
	/* after a failure at one url, the other one is called */
	net_add(NET_NOT_SENT, 0, -1);
	c[0] = net_req(l, &w);
	net_poll(l, &http);
	net_poll(l, &http);
	http.headers[0] = '\0';
	at_b = http.url[8];
	net_run(l, &http, 1000000);
	CHECK(c[0]->done && c[0]->tries == 2 && http.url[8] != at_b, "%s", http.url);
	net_stop(l);
	/* The same if the other url is slower. */
	l = start();
	w.url = "https://a.example/v1 https://b.example/v1";
	net_script[net_n_script] = net_default();
	net_script[net_n_script++].delay_us = 1000;
	c[0] = net_req(l, &w);
	c[1] = net_req(l, &w);
	net_run(l, &http, 1000000);
	CHECK(strcmp(c[0]->endpoint, c[1]->endpoint) != 0, "one each");
	net_add(NET_NOT_SENT, 0, -1);
	c[2] = net_req(l, &w);
	net_poll(l, &http);
	CHECK(strncmp(http.url, c[0]->endpoint, 20) == 0, "the faster one first: %s", http.url);
	net_run(l, &http, 1000000);
	CHECK(c[2]->done && c[2]->tries == 2 && strcmp(c[2]->endpoint, c[1]->endpoint) == 0, "%s",
		  c[2]->endpoint);
	net_stop(l);
}

/* An outage isn't multiplied; an endpoint that asks for a wait doesn't count as an outage. */
static void
test_budget(void)
{
	Dispatcher *l = start();
	int			n = 0;

	for (int i = 0; i < 200; i++)
		net_req(l, &(Want) {0});
	net_plan = always_408;
	net_run(l, &http, 100000000);
	CHECK(dispatcher_live(l) == 0 && http.made >= 200 + 20 + 20 && http.made < 200 + 20 + 20 + 30,
		  "%d calls", http.made);
	for (const RModel *m = l->models; m != NULL; m = m->next)
		n += (int) m->u[0].retries;
	CHECK(n == http.made - 200, "%d counted", n);
	net_stop(l);
	l = start();
	for (int i = 0; i < 200; i++)
		net_req(l, &(Want) {.options = "{\"max_concurrent_requests\": 1000}"});
	net_plan = always_429;
	net_run(l, &http, 1000000000);
	CHECK(dispatcher_live(l) == 0 && http.made == 800, "%d calls", http.made);
	net_stop(l);
}

/* Limits of a role. */
static void
test_roles(void)
{
	Dispatcher *l = start();
	Client	   *c[8];
	Want		w = {.login = 7,.role_requests = 2};
	int64_t		t0;

	for (int i = 0; i < 5; i++)
		c[i] = net_req(l, &w);
	c[5] = net_req(l, &(Want) {.login = 8});
	net_poll(l, &http);
	CHECK(http.n == 3 && c[5]->under_way == 1, "two of the one, the other passes: %d", http.n);
	w.role_wait = 1;
	c[6] = net_req(l, &w);
	CHECK(c[6]->request == NULL && strcmp(c[6]->sqlstate, "53400") == 0, "who doesn't want to wait: %s",
		  c[6]->message);
	CHECK(strcmp(c[6]->message, "role has its limit of 2 LLM requests in flight") == 0, "%s", c[6]->message);
	w.role_wait = 6;
	c[7] = net_req(l, &w);
	net_run(l, &http, 8000);
	CHECK(c[7]->finals == 1 && c[7]->end_us == net_now - 3000 && strcmp(c[7]->sqlstate, "53400") == 0 &&
		  strstr(c[7]->detail, "5 ms") != NULL, "after 5 ms: %s %s", c[7]->message, c[7]->detail);
	net_run(l, &http, 1000000);
	for (int i = 0; i < 5; i++)
		CHECK(c[i]->done, "%s", c[i]->message);
	CHECK(c[2]->end_us > c[0]->end_us && c[4]->end_us > c[2]->end_us && http.most == 3,
		  "one behind the other");
	/* a request that leaves makes room, also if it had not begun */
	w.role_wait = 0;
	w.role_requests = 1;
	for (int i = 0; i < 3; i++)
		c[i] = net_req(l, &w);
	c[0]->cancelled = c[1]->cancelled = true;
	dispatcher_cancel(l, c[0]->request);
	dispatcher_cancel(l, c[1]->request);
	net_run(l, &http, 1000000);
	CHECK(c[2]->done, "%s", c[2]->message);
	/* tokens: each takes 10, of 60 a minute: the bucket holds 60 */
	w = (Want) {.login = 9,.role_tokens = 60};
	t0 = net_now;
	for (int i = 0; i < 8; i++)
	{
		c[i] = net_req(l, &w);
		net_run(l, &http, 100000000);
		CHECK(c[i]->done, "%s", c[i]->message);
	}
	CHECK(net_now - t0 > 9000000 && net_now - t0 < 21000000, "%lld", (long long) (net_now - t0));
	w.role_wait = 1;
	c[0] = net_req(l, &w);
	CHECK(strcmp(c[0]->sqlstate, "53400") == 0 && strstr(c[0]->message, "60 LLM tokens per minute") != NULL,
		  "%s", c[0]->message);
	/* max_tokens */
	c[0] = net_req(l, &(Want) {.role_max_tokens = 15});
	CHECK(strcmp(c[0]->sqlstate, "22023") == 0 &&
		  strcmp(c[0]->message, "max_tokens must be at most 15 for this role, got 16") == 0, "%s",
		  c[0]->message);
	c[0] = net_req(l, &(Want) {.role_max_tokens = 16});
	c[1] = net_req(l, &(Want) {.kind = WK_API,.role_max_tokens = 15,.body = "{\"max_tokens\": 15}"});
	net_run(l, &http, 100000000);
	CHECK(c[0]->done && c[1]->done && c[1]->calls == 1, "%s", c[1]->message);
	for (int i = 0; i < 6; i++)
	{
		static const char *const bodies[] = {
			"{\"max_tokens\": 16}", "{}", "{\"max_tokens\": null}",
			"{\"max_tokens\": 1, \"max_completion_tokens\": 99}", "{\"max_tokens\": \"9\"}",
			"{\"max_tokens\": 1, \"max_t\\u006fkens\": 99}"
		};

		c[0] = net_req(l, &(Want) {.kind = WK_API,.role_max_tokens = 15,.body = bodies[i]});
		net_run(l, &http, 1000000);
		CHECK(c[0]->calls == 0 && c[0]->finals == 1, "%s: %s", bodies[i], c[0]->text);
	}
	net_stop(l);
}

/* The limit of connections in total. */
static void
test_connections(void)
{
	Dispatcher *l = start();
	RSettings	few = settings;
	Client	   *c[12];

	few.max_connections = 3;
	dispatcher_settings(l, &few);
	for (int i = 0; i < 12; i++)
		c[i] = net_req(l, &(Want) {.model = i % 2 ? "m" : "n"});
	net_run(l, &http, 1000000);
	CHECK(http.most == 3 && http.made == 12, "%d at once", http.most);
	for (int i = 0; i < 12; i++)
		CHECK(c[i]->done, "%s", c[i]->message);
	net_stop(l);
}

/* A call that waits for a retry that can't be made before its deadline fails at once. */
static void
test_late_again(void)
{
	Dispatcher *l = start();
	Client	   *c;
	Client	   *d;

	net_add(NET_STATUS, 408, -1);
	net_add(NET_STATUS, 429, 10000);
	c = net_req(l, &(Want) {.deadline_us = net_now + 3000000});
	d = net_req(l, &(Want) {0});
	net_run(l, &http, 1000000);
	CHECK(c->finals == 1 && strcmp(c->sqlstate, "57P03") == 0 && c->tries == 1 && c->retry_after_ms > 9000,
		  "%s", c->message);
	net_run(l, &http, 20000000);
	CHECK(d->done && d->tries == 2, "%s", d->message);
	net_stop(l);
}

static void
test_breaker(void)
{
	Dispatcher *l = start();
	Client	   *c;
	Client	   *d;
	int64_t		t0;
	Buf			b = {0};

	/* five in a row, retries included */
	for (int i = 0; i < 5; i++)
		net_add(NET_NOT_SENT, 0, -1);
	for (int i = 0; i < 5; i++)
		net_req(l, &(Want) {.options = "{\"max_retries\": 0}"});
	net_poll(l, &http);
	net_now += 10000;
	net_poll(l, &http);
	CHECK(http.n == 0 && dispatcher_live(l) == 0, "all have failed");
	CHECK(dispatcher_command(l, "endpoints", &b) && strstr(b.data, "\"health\":\"down\"") != NULL, "%s",
		  b.data);
	t0 = net_now;
	net_add(NET_HANG, 0, -1);
	c = net_req(l, &(Want) {.options = "{\"max_retries\": 0}"});
	net_poll(l, &http);
	CHECK(http.n == 0 && c->finals == 0, "waits");
	d = net_req(l, &(Want) {.options = "{\"max_retries\": 0}",.deadline_us = net_now + 500000});
	net_poll(l, &http);
	CHECK(d->finals == 1 && d->elsewhere == 1 && strcmp(d->sqlstate, "57P03") == 0,
		  "its time would be over: %s", d->message);
	net_run(l, &http, 999999);
	CHECK(net_checks == 0 && http.n == 0, "not yet");
	net_run(l, &http, 1);
	CHECK(http.n == 1 && net_checks == 1 && net_at_script == 5 && net_now - t0 == 1000000, "a check");
	net_run(l, &http, 10000);
	CHECK(http.n == 1 && net_checks == 1 && net_at_script == 6, "then one finds out");
	d = net_req(l, &(Want) {.options = "{\"max_retries\": 0}"});
	net_poll(l, &http);
	CHECK(http.n == 1 && d->finals == 0, "only one");
	/* it is cancelled, so its place is free */
	c->cancelled = true;
	dispatcher_cancel(l, c->request);
	net_run(l, &http, 1000000);
	CHECK(d->done, "%s", d->message);
	buf_reset(&b);
	dispatcher_command(l, "endpoints", &b);
	CHECK(strstr(b.data, "\"health\":\"up\"") != NULL, "%s", b.data);
	buf_free(&b);
	net_stop(l);
}

static void
test_limits(void)
{
	Dispatcher *l = start();
	int64_t		t0 = net_now;
	Client	   *c = NULL;

	/* 60 a minute: 6 at once, then one in 1.11 s */
	for (int i = 0; i < 12; i++)
		c = net_req(l, &(Want) {.options = "{\"requests_per_minute\": 60}"});
	net_run(l, &http, 100000);
	CHECK(http.made == 6, "%d", http.made);
	net_run(l, &http, 100000000);
	CHECK(c->done && net_now - t0 > 6600000 && net_now - t0 < 7000000, "%lld", (long long) (net_now - t0));
	/* limits that the endpoint reports */
	net_script[net_n_script] = net_default();
	net_script[net_n_script].remaining = 0;
	net_script[net_n_script++].reset_ms = 2000;
	net_req(l, &(Want) {0});
	net_run(l, &http, 100000);
	t0 = net_now;
	c = net_req(l, &(Want) {0});
	net_run(l, &http, 10000000);
	CHECK(c->done && c->queue_us > 1800000 && c->queue_us < 2100000, "%lld", (long long) c->queue_us);
	net_stop(l);
}

static void
test_parts(void)
{
	Dispatcher *l = start();
	Client	   *c;

	net_add(NET_OK, 200, -1);
	net_add(NET_NOT_SENT, 0, -1);
	c = net_req(l, &(Want) {.kind = WK_LOGPROBS});
	net_run(l, &http, 10000000);
	CHECK(c->done && c->tries == 4 && http.made == 4, "%lld", (long long) c->tries);
	/* one fails for good: the others are closed */
	net_add(NET_STATUS, 401, -1);
	net_add(NET_HANG, 0, -1);
	net_add(NET_HANG, 0, -1);
	c = net_req(l, &(Want) {.kind = WK_LOGPROBS});
	net_run(l, &http, 10000000);
	CHECK(!c->done && strcmp(c->sqlstate, "28000") == 0 && http.n == 0, "%s", c->message);
	net_stop(l);
}

static void
test_stats(void)
{
	static WireStats s;
	Dispatcher *l = start();
	Client	   *c;

	memset(&s, 0, sizeof(s));
	net_add(NET_STATUS, 400, -1);
	net_req(l, &(Want) {0});
	net_run(l, &http, 1000000);
	for (int i = 0; i < 4; i++)
		net_req(l, &(Want) {0});
	net_run(l, &http, 1000000);
	dispatcher_publish(l, &s);
	CHECK(s.n_models == 1 && s.n_endpoints == 1 && s.seq == 2, "%u", s.n_models);
	CHECK(strcmp(s.models[0].name, "m") == 0 && s.models[0].state == WM_READY && s.models[0].dboid == 5, "%s",
		  s.models[0].name);
	CHECK(s.models[0].hash == wire_model_hash("https://a.example/v1", "") &&
		  s.endpoints[0].model_hash == s.models[0].hash, "its hash");
	CHECK(s.models[0].requests == 5 && s.models[0].ended[WE_STOP] == 4 && s.models[0].ended[WE_ERROR] == 1,
		  "%lld", (long long) s.models[0].requests);
	CHECK(s.models[0].prompt_tokens == 28 && s.models[0].output_tokens == 12, "%lld",
		  (long long) s.models[0].prompt_tokens);
	CHECK(s.models[0].hist[WH_E2E].sum == 40000 && s.models[0].hist[WH_E2E].count[0] == 4, "%lld",
		  (long long) s.models[0].hist[WH_E2E].sum);
	CHECK(s.endpoints[0].health == WIRE_HEALTH_UP && s.endpoints[0].calls == 5 &&
		  s.endpoints[0].failures == 1, "%d", (int) s.endpoints[0].calls);
	CHECK(s.endpoints[0].latency_us > 9000 && s.endpoints[0].in_flight == 0, "%d",
		  (int) s.endpoints[0].latency_us);
	CHECK(s.fig.requests == 5 && s.fig.finished == 4 && s.fig.failed == 1 && s.fig.live == 0, "sums");
	dispatcher_publish(l, &s);
	CHECK(s.seq == 2, "nothing new");
	rstats_reset(l);
	c = net_req(l, &(Want) {.model = "n"});
	dispatcher_publish(l, &s);
	CHECK(s.fig.requests == 1 && s.fig.finished == 0 && s.fig.live == 1 && s.n_models == 2, "%d",
		  (int) s.fig.requests);
	net_run(l, &http, 1000000);
	/* forgotten */
	CHECK(c->done, "done");
	rmodel_forget(l, 5, (StrView) {"m", 1}, 0);
	dispatcher_publish(l, &s);
	CHECK(s.n_models == 1 && strcmp(s.models[0].name, "n") == 0 && s.fig.requests == 1, "%d",
		  (int) s.fig.requests);
	net_stop(l);
}

int
main(void)
{
	RUN(test_answer());
	RUN(test_fates());
	RUN(test_retries());
	RUN(test_streams());
	RUN(test_ends());
	RUN(test_hosts());
	RUN(test_secret_urls());
	RUN(test_held());
	RUN(test_coalesce());
	RUN(test_coalesce_waits());
	RUN(test_poison(NET_STATUS, 500, 5, 9));
	RUN(test_poison(NET_STATUS, 500, 64, 16));
	RUN(test_poison(NET_GARBAGE, 200, 64, 16));
	RUN(test_poison(NET_CUT, 0, 5, 9));
	RUN(test_poison_all());
	RUN(test_unlike());
	RUN(test_order());
	RUN(test_urls());
	RUN(test_budget());
	RUN(test_roles());
	RUN(test_connections());
	RUN(test_late_again());
	RUN(test_breaker());
	RUN(test_limits());
	RUN(test_parts());
	RUN(test_stats());
	return check_done("test_remote_dispatcher");
}
