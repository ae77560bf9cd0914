/*
 * test_remote_checks.c
 *	  The dispatcher's health checks: the check itself, when it is made, and the effect of its result.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/remote/remote_net.h"

static RSettings settings = {.allowed_hosts = "a.example b.example c.example",.max_connections = 1000};

static Dispatcher *
start(void)
{
	return net_start(&settings, net_by_script);
}

static bool a_is_dead;
static int	a_calls,
			b_calls;

static NetPlan
a_may_be_dead(const HttpRequest *r)
{
	bool		a = strstr(r->url, "//a.") != NULL;
	NetPlan		p = net_default();

	if (net_is_check(r->url))
	{
		CHECK(r->get && r->len == 0 && !r->stream && r->verify, "a plain GET");
		CHECK(r->deadline_us > net_now && r->deadline_us <= net_now + 5000000, "its time");
		net_checks++;
	}
	else if (a)
		a_calls++;
	else
		b_calls++;
	if (a && a_is_dead)
		p.what = NET_NOT_SENT;
	return p;
}

/* Let time pass, whether requests wait or not. */
static void
pass(Dispatcher *l, int64_t us)
{
	int64_t		end = net_now + us;

	while (net_now < end)
	{
		int64_t		step = net_poll(l, &http);

		step = step < 1 ? 1 : step;
		net_now = end - net_now < step ? end : net_now + step;
	}
	net_poll(l, &http);
}

/* One request that gets its result with a single try. */
static void
answered_at_once(Dispatcher *l, const Want *w)
{
	Client	   *c = net_req(l, w);

	pass(l, 100000);
	CHECK(c->done && c->tries == 1, "%s, %lld tries", c->message, (long long) c->tries);
}

static Dispatcher *
start_two(Want *w, const char *options)
{
	Dispatcher *l = start();

	net_plan = a_may_be_dead;
	a_is_dead = true;
	a_calls = b_calls = 0;
	*w = (Want) {.url = "https://a.example/v1 https://b.example/v1",.options = options,.secret = "k1"};
	return l;
}

static void
test_checks(void)
{
	Want		w;
	Dispatcher *l = start_two(&w, "{\"requests_per_minute\": 1000000}");
	RModel	   *m;
	RUrl		was;

	for (int i = 0; i < 20; i++)
		net_req(l, &w);
	pass(l, 900000);
	m = l->models;
	CHECK(m->lb.u[0].health == WIRE_HEALTH_DOWN && a_calls >= LB_RUN && net_checks == 0, "a is down");
	was = m->u[0];
	a_calls = 0;
	for (int i = 0; i < 300; i++)
	{
		if (i == 100)
			w.secret = "k2";
		answered_at_once(l, &w);
	}
	/* at 1, 3, 7, 15 s; the one at 31 is due later */
	CHECK(a_calls == 0 && b_calls >= 300 && net_checks == 4, "%d calls, %d checks", a_calls, net_checks);
	CHECK(m->u[0].calls == was.calls && m->u[0].failures == was.failures && m->u[0].retries == was.retries,
		  "figures are requests' alone");
	CHECK(m->u[0].rate.requests.left == was.rate.requests.left && m->u[0].rate.tokens_in_flight == 0 &&
		  m->lb.u[0].in_flight == 0, "nor in a limit");
	CHECK(strstr(m->u[0].error, "health check: ") == m->u[0].error, "%s", m->u[0].error);
	a_is_dead = false;
	for (int i = 0; i < 20; i++)
		answered_at_once(l, &w);
	CHECK(net_checks == 5 && a_calls > 0 && m->lb.u[0].health == WIRE_HEALTH_UP, "%d checks, %d calls",
		  net_checks, a_calls);
	net_checks = 0;
	pass(l, 100000000);
	CHECK(net_checks == 0, "nothing more to find out");
	net_stop(l);
}

/* The HTTP request of a check, and the secret that it uses. */
static void
test_check_request(void)
{
	Want		w;
	Dispatcher *l = start_two(&w, "{\"headers\": {\"X-Team\": \"blue\"}, \"models_path\": \"/here/models\", "
								  "\"connect_timeout\": 300, \"max_retries\": 0}");
	RSettings	none = settings;
	RModel	   *m;

	w.url = "https://a.example/v1";
	for (int i = 0; i < 5; i++)
		net_req(l, &w);
	pass(l, 100000);
	m = l->models;
	CHECK(m->lb.u[0].health == WIRE_HEALTH_DOWN, "down");
	w.secret = "k2";
	net_req(l, &w);
	net_plan = net_by_script;
	net_check_plan.what = NET_HANG;
	pass(l, 1000000);
	CHECK(http.n == 1 && strcmp(http.url, "https://a.example/v1/here/models") == 0 && http.get, "%s",
		  http.url);
	CHECK(strstr(http.headers, "Authorization: Bearer k2\n") != NULL &&
		  strstr(http.headers, "X-Team: blue\n") != NULL, "%s", http.headers);
	CHECK(http.deadline_us > net_now && http.deadline_us <= net_now + 300000, "its deadline");
	pass(l, 400000);
	CHECK(http.n == 0 && m->lb.u[0].health == WIRE_HEALTH_DOWN && m->lb.u[0].open_us == 2000000,
		  "late: two seconds more");
	/* a host that is no longer allowed */
	pass(l, 2000000);
	CHECK(http.n == 1, "another");
	none.allowed_hosts = "b.example";
	dispatcher_settings(l, &none);
	CHECK(http.n == 0 && http.cancelled == 1, "closed");
	net_req(l, &w);
	net_checks = 0;
	pass(l, 60000000);
	CHECK(net_checks == 0, "nor another");
	dispatcher_settings(l, &settings);
	net_req(l, &w);
	pass(l, 1);
	CHECK(http.n == 1 && net_checks == 1, "allowed again");
	/* forgotten while a request waits: no check, no secret; the request finds out itself */
	rmodel_forget(l, 5, (StrView) {"m", 1}, 0);
	CHECK(http.n == 0 && l->models->secret == NULL && dispatcher_live(l) == 1, "forgotten");
	pass(l, 10000000);
	CHECK(dispatcher_live(l) == 0 && l->models == NULL && net_checks == 1 && net_at_script == 0,
		  "its ask is served");
	CHECK(clients[n_clients - 1]->done, "%s", clients[n_clients - 1]->message);
	net_stop(l);
}

/* A url's query follows every path, and is never shown. */
static void
test_query(void)
{
	static const struct
	{
		const char *url;
		WireKind	kind;
		const char *requested;
	}			cases[] = {
		{"https://a.example/x/v1?api-version=2024-10-21&k=1", WK_GENERATE,
		 "https://a.example/x/v1/completions?api-version=2024-10-21&k=1"},
		{"https://a.example/x/v1//?v=1", WK_GENERATE, "https://a.example/x/v1/completions?v=1"},
		{"https://a.example/?v=1", WK_GENERATE, "https://a.example/completions?v=1"},
		{"https://a.example?v=1", WK_GENERATE, "https://a.example/completions?v=1"},
		{"https://a.example/v1/?v=1", WK_TOKENIZE, "https://a.example/tokenize?v=1"},
		{"https://a.example/v1//", WK_TOKENIZE, "https://a.example/tokenize"}
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		Dispatcher *l = start();
		Client	   *c = net_req(l, &(Want) {.kind = cases[i].kind,.url = cases[i].url,
											.options = "{\"dialect\": \"vllm\", \"max_retries\": 0, "
													   "\"health_check_interval\": 1}"});

		net_poll(l, &http);
		CHECK(strcmp(http.url, cases[i].requested) == 0, "%s: %s", cases[i].url, http.url);
		net_run(l, &http, 1000000);
		CHECK(c->done && strchr(c->endpoint, '?') == NULL, "%s", c->endpoint);
		pass(l, 3000000);
		CHECK(net_checks > 0 && strstr(http.url, "//models") == NULL && strstr(http.url, "/models") != NULL &&
			  (strchr(cases[i].url, '?') != NULL) == (strchr(http.url, '?') != NULL), "its check: %s",
			  http.url);
		net_add(NET_STATUS, 404, -1);
		c = net_req(l, &(Want) {.kind = cases[i].kind,.url = cases[i].url,
								.options = "{\"dialect\": \"vllm\", \"max_retries\": 0, "
										   "\"health_check_interval\": 1}"});
		net_run(l, &http, 1000000);
		CHECK(c->finals == 1 && !c->done && strchr(c->message, '?') == NULL, "%s", c->message);
		net_stop(l);
	}
}

static void
test_check_answers(void)
{
	static const struct
	{
		NetDo		what;
		int			status;
		bool		there;
	}			cases[] = {
		{NET_OK, 200, true}, {NET_GARBAGE, 200, true}, {NET_STATUS, 401, true}, {NET_STATUS, 403, true},
		{NET_STATUS, 404, true}, {NET_STATUS, 429, true},
		{NET_STATUS, 400, true}, {NET_STATUS, 410, true}, {NET_STATUS, 422, true}, {NET_STATUS, 501, true},
		{NET_STATUS, 302, false}, {NET_STATUS, 408, false}, {NET_STATUS, 500, false},
		{NET_STATUS, 502, false}, {NET_STATUS, 503, false},
		{NET_CUT, 0, false}, {NET_CUT_BODY, 0, false}, {NET_TLS, 0, false}, {NET_HANG, 0, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		Want		w;
		Dispatcher *l = start_two(&w, "{\"max_retries\": 0}");

		w.url = "https://a.example/v1";
		for (int k = 0; k < 5; k++)
			net_req(l, &w);
		pass(l, 100000);
		net_plan = net_by_script;
		net_check_plan.what = cases[i].what;
		net_check_plan.status = cases[i].status;
		pass(l, 9000000);
		CHECK(l->models->lb.u[0].health == (cases[i].there ? WIRE_HEALTH_TRYING : WIRE_HEALTH_DOWN),
			  "case %d: %d", (int) i, l->models->lb.u[0].health);
		CHECK(cases[i].there == (net_checks == 1), "%d checks", net_checks);
		net_stop(l);
	}
}

/* Models without requests cause no traffic, whether they are down or checked regularly. */
static void
test_checks_rest(void)
{
	Want		w;
	Dispatcher *l = start_two(&w, "{\"max_retries\": 0}");

	w.url = "https://a.example/v1";
	for (int i = 0; i < 5; i++)
		net_req(l, &w);
	pass(l, 590000000);
	CHECK(net_checks > 20 && net_checks < 30, "%d", net_checks);
	CHECK(l->models->secret != NULL && strcmp(l->models->secret, "k1") == 0, "its secret");
	pass(l, 20000000);
	CHECK(l->models->secret == NULL, "is kept no longer");
	net_checks = 0;
	pass(l, INT64_C(3600000000));
	CHECK(net_checks == 0, "forgotten by all");
	a_is_dead = false;
	answered_at_once(l, &w);
	CHECK(net_checks == 1, "behind a check");
	net_stop(l);

	/* regularly */
	l = start_two(&w, "{\"health_check_interval\": 5}");
	a_is_dead = false;
	net_req(l, &w);
	pass(l, 1000000);
	CHECK(net_checks == 2 && a_calls + b_calls == 1, "what isn't known is found out: %d", net_checks);
	for (int i = 0; i < 100; i++)
	{
		net_req(l, &w);
		net_req(l, &w);
		pass(l, 1000000);
	}
	CHECK(net_checks == 2, "what is asked needs no check: %d", net_checks);
	pass(l, 20000000);
	CHECK(net_checks >= 2 + 6 && net_checks <= 2 + 8, "each 5 s: %d", net_checks);
	a_is_dead = true;
	a_calls = 0;
	pass(l, 6000000);
	CHECK(l->models->lb.u[0].health == WIRE_HEALTH_DOWN && l->models->lb.u[1].health == WIRE_HEALTH_UP,
		  "found out");
	CHECK(l->models->u[0].failures == 0 && l->models->u[0].throttled == 0, "nobody's failure");
	for (int i = 0; i < 100; i++)
		answered_at_once(l, &w);
	CHECK(a_calls == 0, "no request hits it");
	a_is_dead = false;
	pass(l, 650000000);
	CHECK(l->models->lb.u[0].health == WIRE_HEALTH_TRYING, "there again");
	net_checks = 0;
	pass(l, INT64_C(3600000000));
	CHECK(net_checks == 0, "and nobody asks");
	net_stop(l);
}

int
main(void)
{
	RUN(test_checks());
	RUN(test_check_request());
	RUN(test_query());
	RUN(test_check_answers());
	RUN(test_checks_rest());
	return check_done("test_remote_checks");
}
