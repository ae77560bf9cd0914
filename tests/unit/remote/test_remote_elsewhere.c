/*
 * test_remote_elsewhere.c
 *	  The dispatcher when a url, or one kind of requests at it, fails: which requests end at once so that
 *	  another model can be used, and which are unaffected.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/remote/remote_net.h"

static RSettings settings = {.allowed_hosts = "a.example b.example c.example",.max_connections = 1000};

static NetPlan
always_500(const HttpRequest *r)
{
	(void) r;
	return net_status(500, -1);
}

static Dispatcher *
start(void)
{
	return net_start(&settings, net_by_script);
}

/* Failures of one kind of requests don't affect other kinds. */
static void
test_paths(void)
{
	Dispatcher *l = start();
	Want		embed = {.kind = WK_POOL,.task = "embed",.options = "{\"max_retries\": 0}"};
	Want		text = {.options = "{\"max_retries\": 0}"};
	Client	   *c = NULL;
	Client	   *d;

	for (int i = 0; i < 5; i++)
	{
		net_add(NET_STATUS, 500, -1);
		c = net_req(l, &embed);
		net_run(l, &http, 1000000);
		CHECK(c->finals == 1 && !c->done && c->tries == 1 && c->charged == 1, "%s", c->message);
	}
	c = net_req(l, &embed);
	net_run(l, &http, 100000);
	CHECK(c->finals == 0 && http.n == 0, "waits");
	embed.fallback = true;
	d = net_req(l, &embed);
	net_run(l, &http, 100000);
	CHECK(d->finals == 1 && d->calls == 0 && d->elsewhere == 1 && strcmp(d->sqlstate, "57P03") == 0 &&
		  strstr(d->detail, "/completions\" has failed too often") != NULL, "%s: %s", d->message, d->detail);
	embed.fallback = false;
	embed.deadline_us = net_now + 300000;
	d = net_req(l, &embed);
	net_run(l, &http, 20000);
	CHECK(d->finals == 1 && strcmp(d->sqlstate, "57P03") == 0, "its time would be over: %s", d->message);
	d = net_req(l, &text);
	net_run(l, &http, 20000);
	CHECK(d->done && d->queue_us == 0 && l->models->lb.u[0].health == WIRE_HEALTH_UP && c->finals == 0,
		  "others don't: %s", d->message);
	net_run(l, &http, 10000000);
	CHECK(c->done && c->queue_us > 800000 && c->queue_us < 1100000, "tried again, and well: %s", c->message);
	/* fail so often that the url rests for longer than any request waits */
	net_plan = always_500;
	embed.deadline_us = 0;
	for (int i = 0; i < 400; i++)
	{
		c = net_req(l, &embed);
		net_run(l, &http, 10000000);
	}
	CHECK(c->finals == 1 && c->calls == 0 && strcmp(c->sqlstate, "57P03") == 0, "%s", c->message);
	net_plan = net_by_script;
	d = net_req(l, &text);
	net_run(l, &http, 1000000);
	CHECK(d->done && d->tries == 1, "%s", d->message);
	net_stop(l);
}

/* A response that can't be decoded: if it was cut or garbled, that may have been an accident. */
static void
test_nonsense(void)
{
	Dispatcher *l = start();
	Client	   *c;

	net_add(NET_NONSENSE, 200, -1);
	c = net_req(l, &(Want) {.seed = true});
	net_run(l, &http, 10000000);
	CHECK(!c->done && c->tries == 1 && c->charged == 1 && c->elsewhere == 1 &&
		  strcmp(c->sqlstate, "08P01") == 0, "%s", c->message);
	net_add(NET_GARBAGE, 200, -1);
	net_add(NET_CUT_BODY, 200, -1);
	c = net_req(l, &(Want) {.seed = true});
	net_run(l, &http, 10000000);
	CHECK(c->done && c->tries == 3 && c->charged == 2, "%s", c->message);
	/* choices that an endpoint can't answer; generation uses the same path */
	for (int i = 0; i < 10; i++)
	{
		for (int k = 0; k < 3; k++)
			net_add(NET_NONSENSE, 200, -1);
		c = net_req(l, &(Want) {.kind = WK_LOGPROBS});
		net_run(l, &http, 100000);
		net_at_script = net_n_script;
		CHECK(c->finals == (i < 5) && !c->done, "%d: %s", i, c->message);
		c = net_req(l, &(Want) {0});
		net_run(l, &http, 20000);
		CHECK(c->done && c->tries == 1, "%d: %s", i, c->message);
	}
	net_run(l, &http, 100000000);
	net_stop(l);
}

static bool
was_rerouted(const Client *c, int calls)
{
	return c->finals == 1 && !c->done && c->elsewhere == 1 && c->calls == calls;
}

/* If another model can be used at once, no request waits for a url that is down. */
static void
test_fallback_breaker(void)
{
	const char *once = "{\"max_retries\": 0, \"max_concurrent_requests\": 5}";
	Dispatcher *l = start();
	Client	   *c[50];
	Client	   *d;
	int64_t		t0 = net_now;

	for (int i = 0; i < 5; i++)
		net_add(NET_NOT_SENT, 0, -1);
	for (int i = 0; i < 50; i++)
		c[i] = net_req(l, &(Want) {.options = once,.fallback = i % 10 != 9});
	net_run(l, &http, 20000);
	for (int i = 0; i < 50; i++)
		CHECK(i % 10 == 9 ? c[i]->finals == 0 : was_rerouted(c[i], i < 5) &&
			  strcmp(c[i]->sqlstate, i < 5 ? "08006" : "57P03") == 0, "%d: %s", i, c[i]->message);
	d = net_req(l, &(Want) {.options = once,.fallback = true,.stop_ids = true});
	c[0] = net_req(l, &(Want) {.options = once,.fallback = true});
	net_poll(l, &http);
	CHECK(was_rerouted(c[0], 0) && d->finals == 0, "its token ids are this model's");
	/* during a probe */
	net_add(NET_HANG, 0, -1);
	net_run(l, &http, 1500000);
	CHECK(http.n == 1, "%d under way", http.n);
	c[1] = net_req(l, &(Want) {.options = once,.fallback = true});
	net_poll(l, &http);
	CHECK(was_rerouted(c[1], 0), "at once");
	for (int i = 9; i < 50; i += 10)
		if (c[i]->under_way > 0)
		{
			c[i]->cancelled = true;
			dispatcher_cancel(l, c[i]->request);
		}
	net_run(l, &http, 10000000);
	CHECK(d->done && c[19]->done && c[49]->done && net_now - t0 > 1500000, "%s", d->message);
	c[2] = net_req(l, &(Want) {.options = once,.fallback = true});
	net_run(l, &http, 1000000);
	CHECK(c[2]->done, "it works again: %s", c[2]->message);
	net_stop(l);
	/* nor for a retry */
	l = start();
	for (int i = 0; i < 10; i++)
	{
		net_add(NET_NOT_SENT, 0, -1);
		c[i] = net_req(l, &(Want) {.fallback = true});
	}
	t0 = net_now;
	net_run(l, &http, 10000000);
	for (int i = 0; i < 10; i++)
		CHECK(was_rerouted(c[i], 1) && c[i]->end_us - t0 < 20000 + 375000, "%lld us",
			  (long long) (c[i]->end_us - t0));
	net_stop(l);
	/* a url that works is waited for */
	l = start();
	for (int i = 0; i < 20; i++)
		c[i] = net_req(l, &(Want) {.options = once,.fallback = true});
	net_run(l, &http, 10000000);
	for (int i = 0; i < 20; i++)
		CHECK(c[i]->done, "%s", c[i]->message);
	net_stop(l);
}

/* Like net_by_script, but health checks get no response. */
static NetPlan
no_check(const HttpRequest *r)
{
	NetPlan		p = net_by_script(r);

	if (net_is_check(r->url))
		p.what = NET_HANG;
	return p;
}

/* A slow probe doesn't keep others out, as long as the server responds to checks. */
static void
test_slow_probe(void)
{
	const char *once = "{\"max_retries\": 0}";
	Client	   *c[20];
	int64_t		t0;
	Dispatcher *l;

	/* 0: it hangs; 1: responses take twenty seconds; 2: the server is gone */
	for (int kind = 0; kind < 3; kind++)
	{
		l = start();
		for (int i = 0; i < 5; i++)
			net_add(NET_NOT_SENT, 0, -1);
		for (int i = 0; i < 5; i++)
			net_req(l, &(Want) {.options = once});
		net_run(l, &http, 20000);
		CHECK(dispatcher_live(l) == 0 && l->models->lb.u[0].health == WIRE_HEALTH_DOWN, "down");
		for (int i = 0; i < (kind == 1 ? 20 : 1); i++)
		{
			net_add(kind == 1 ? NET_OK : NET_HANG, 200, -1);
			net_script[net_n_script - 1].delay_us = 20000000;
		}
		t0 = net_now;
		for (int i = 0; i < 20; i++)
			c[i] = net_req(l, &(Want) {.options = once});
		net_run(l, &http, 1500000);
		CHECK(http.n == 1, "one finds out");
		net_plan = kind == 2 ? no_check : net_by_script;
		net_run(l, &http, kind == 1 ? 15000000 : 10000000);
		if (kind == 1)
		{
			CHECK(dispatcher_live(l) == 20 && http.n > 3 && http.n < 10, "%d finding out, %d wait", http.n,
				  dispatcher_live(l));
			net_run(l, &http, 40000000);
		}
		for (int i = 1; i < 20; i++)
			if (kind == 2)
				CHECK(c[i]->finals == 1 && strcmp(c[i]->sqlstate, "57P03") == 0 &&
					  c[i]->end_us - t0 < 7000000, "%s", c[i]->message);
			else
				CHECK(c[i]->done && c[i]->tries == 1, "%d, %d: %s", kind, i, c[i]->message);
		CHECK(c[0]->done == (kind == 1), "%s", c[0]->message);
		net_stop(l);
	}
}

/* A request whose deadline passes before there is a connection says nothing about the url. */
static void
test_short_time(void)
{
	Dispatcher *l = start();

	for (int i = 0; i < 20; i++)
	{
		Client	   *c = net_req(l, &(Want) {.deadline_us = net_now + 10000});

		net_add(NET_NOT_SENT, 0, -1);
		net_run(l, &http, 1000000);
		CHECK(c->finals == 1 && c->tries == 1 && c->charged == 0 && strcmp(c->sqlstate, "57014") == 0, "%s",
			  c->message);
		CHECK(l->models->lb.u[0].health == WIRE_HEALTH_UNKNOWN, "%d", l->models->lb.u[0].health);
	}
	net_stop(l);
}

static NetPlan
a_hangs(const HttpRequest *r)
{
	NetPlan		p = net_default();

	if (strstr(r->url, "//a.") != NULL)
		p.what = NET_HANG;
	return p;
}

/* One of two urls accepts calls and never responds; requests' own deadlines pass before the call's. */
static void
test_silent_url(void)
{
	for (int kind = 0; kind < 2; kind++)
	{
		Dispatcher *l = start();
		int			lost = 0;

		net_plan = a_hangs;
		for (int i = 0; i < 20; i++)
		{
			Client	   *c = net_req(l, &(Want) {.url = "https://a.example/v1 https://b.example/v1",
												.deadline_us = kind == 0 ? net_now + 5000000 : 0});

			net_run(l, &http, 5000001);
			if (kind == 1 && c->finals == 0)
			{
				c->cancelled = true;
				dispatcher_cancel(l, c->request);
			}
			lost += !c->done;
		}
		CHECK(lost <= 1, "%d of 20", lost);
		net_stop(l);
	}
}

/* Tokens that an endpoint refused count in no minute. */
static void
test_refused_tokens(void)
{
	static const struct
	{
		NetDo		what;
		int			status;
		bool		counts;
	}			cases[] = {{NET_STATUS, 400, false}, {NET_STATUS, 404, false}, {NET_NOT_SENT, 0, false},
						   {NET_STATUS, 500, true}, {NET_CUT, 0, true},
	{NET_OK, 0, true}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		const char *few = "{\"tokens_per_minute\": 100, \"max_retries\": 0}";
		Dispatcher *l = start();
		Client	   *c;

		net_add(cases[i].what, cases[i].status, -1);
		c = net_req(l, &(Want) {.options = few});
		net_run(l, &http, 1000000);
		CHECK(c->finals == 1, "%s", c->message);
		c = net_req(l, &(Want) {.options = few});
		net_run(l, &http, 20000000);
		CHECK(c->done && (c->queue_us > 1000000) == cases[i].counts, "%zu: %lld us", i,
			  (long long) c->queue_us);
		net_stop(l);
	}
}

/* Nor is an endpoint waited for that asks for no calls. */
static void
test_fallback_limits(void)
{
	Dispatcher *l = start();
	Client	   *c;
	Client	   *d;
	Client	   *e;
	Want		w = {.kind = WK_POOL,.task = "embed"};

	net_add(NET_STATUS, 429, 10000);
	c = net_req(l, &(Want) {.fallback = true});
	net_run(l, &http, 20000);
	CHECK(was_rerouted(c, 1) && strcmp(c->sqlstate, "57P03") == 0 && c->retry_after_ms > 9000, "%s",
		  c->message);
	c = net_req(l, &(Want) {.fallback = true});
	d = net_req(l, &(Want) {0});
	net_poll(l, &http);
	CHECK(was_rerouted(c, 0) && d->finals == 0, "%s", c->message);
	net_run(l, &http, 20000000);
	CHECK(d->done, "who has no other waits: %s", d->message);
	/* a short wait is accepted */
	net_add(NET_STATUS, 429, 100);
	c = net_req(l, &(Want) {.fallback = true});
	net_run(l, &http, 10000000);
	CHECK(c->done && c->tries == 2, "%s", c->message);
	/* own limits, too */
	for (int i = 0; i < 8; i++)
		c = net_req(l, &(Want) {.model = "slow",.options = "{\"requests_per_minute\": 60}",.fallback = true});
	net_run(l, &http, 10000000);
	CHECK(c->done && c->queue_us > 1000000, "%s", c->message);
	/* together: one request that can use another model, and two that can't */
	net_add(NET_STATUS, 429, 5000);
	c = net_req(l, &w);
	w.fallback = true;
	d = net_req(l, &w);
	w.fallback = false;
	e = net_req(l, &w);
	net_run(l, &http, 20000);
	CHECK(was_rerouted(d, 1) && c->finals == 0 && e->finals == 0, "%s", d->message);
	net_run(l, &http, 20000000);
	CHECK(c->done && e->done && d->calls_then == 1 && strncmp(e->text, e->want, strlen(e->want)) == 0, "%s",
		  e->message);
	net_stop(l);
}

int
main(void)
{
	RUN(test_paths());
	RUN(test_nonsense());
	RUN(test_fallback_breaker());
	RUN(test_fallback_limits());
	RUN(test_slow_probe());
	RUN(test_short_time());
	RUN(test_silent_url());
	RUN(test_refused_tokens());
	return check_done("test_remote_elsewhere");
}
