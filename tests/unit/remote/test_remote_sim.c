/*
 * test_remote_sim.c
 *	  The dispatcher in a world where everything goes wrong at random, and its invariants.
 *
 *	- every request that isn't cancelled gets one final frame, and nothing after it; in time, if it has a
 *	  deadline
 *	- replies belong to their requests
 *	- a request that isn't idempotent is charged at most once; possible charges are reported, never too few
 *	- never more calls at a url than its options allow, nor in any minute
 *	- no call begins, and none continues, without a request that needs it
 *	- at the end nothing is left (and under an address sanitizer, no memory)
 *
 * First argument: the seed of the first world, second: how many events.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/remote/remote_net.h"

#define N_MODELS	6
#define ROLE_REQUESTS	4		/* of role 3 */

typedef struct Model
{
	const char *name, *url, *options;
	int			n_urls, most, retries;
	int			per_minute;
	/*
	 * idle urls are checked, too, and models are forgotten and made anew: calls and checks of the same
	 * url may overlap
	 */
	bool		mixed;
} Model;

static const Model models[N_MODELS] = {
	{"m0", "https://a.example/m0/v1", "{\"timeout\": 20000, \"max_concurrent_requests\": 8}", 1, 8, 3, 0,
	 false},
	{"m1", "https://a.example/m1/v1 https://b.example/m1/v1",
	 "{\"timeout\": 5000, \"max_concurrent_requests\": 2, \"max_retries\": 5}", 2, 2, 5, 0, false},
	{"m2", "https://a.example/m2/v1 https://b.example/m2/v1 https://c.example/m2/v1",
	 "{\"timeout\": 20000, \"max_batch_inputs\": 5}", 3, 64, 3, 0, true},
	{"m3", "https://b.example/m3/v1", "{\"timeout\": 20000, \"requests_per_minute\": 240}", 1, 64, 3, 240,
	 false},
	{"m4", "https://c.example/m4/v1", "{\"timeout\": 20000, \"max_retries\": 0, \"tokens_per_minute\": "
									  "60000}", 1, 64, 0, 0, false},
	{"m5", "https://evil.example/m5/v1 https://a.example/m5/v1",
	 "{\"timeout\": 20000, \"max_concurrent_requests\": 1, \"health_check_interval\": 1}", 2, 1, 3, 0, true},
};

static uint64_t seed;
static int	illness;			/* percentage of calls that go wrong */
static bool evil_allowed;
static int64_t minute[240];		/* times of calls of m3 */
static int	n_minute;
static int	n_done, n_failed, n_cancelled, n_late, n_joined, n_checked;

static uint8_t roles[MOST_CLIENTS];

static uint32_t
rnd(uint32_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t) ((seed >> 11) % n);
}

static int
model_of(const char *url)
{
	return strstr(url, "/m")[2] - '0';
}

static bool
client_waits(const char *body)
{
	for (const char *p = body; *p != '\0';)
	{
		const Client *c = client_of(p);

		if (c != NULL && !c->cancelled && c->finals == 0)
			return true;
		p += strcspn(p, "\n");
		p += *p == '\n';
	}
	return false;
}

/* Health checks: one at a time for a url, at allowed hosts, and no calls while a check is running. */
static void
check_check(const HttpRequest *r)
{
	n_checked++;
	CHECK(strncmp(r->url, "https://evil", 12) != 0 || evil_allowed, "a host that is not allowed");
	CHECK(r->get && r->len == 0 && r->deadline_us <= net_now + 5000000, "a GET");
	for (const HttpCall *c = http.calls; c != NULL; c = c->next)
		CHECK(strcmp(c->url, r->url) != 0, "two checks of \"%s\"", r->url);
}

static bool
has_sent_all(const HttpCall *c)
{
	return c->stream && c->step >= c->plan.chunks + 2;
}

/* Invariants when a call begins. */
static void
check_begin(const HttpRequest *r)
{
	const Model *m = &models[model_of(r->url)];
	int			n = 1;
	size_t		base = (size_t) (strstr(r->url, "/v1") - r->url);
	char	   *body = mem_strndup(r->body, r->len);

	CHECK(strncmp(r->url, "https://evil", 12) != 0 || evil_allowed, "a host that is not allowed");
	for (const HttpCall *c = http.calls; c != NULL; c = c->next)
		if (strncmp(c->url, r->url, base) == 0)
		{
			CHECK(!net_is_check(c->url) || m->mixed, "\"%s\" is down", r->url);
			n += !net_is_check(c->url) && !has_sent_all(c);
		}
	CHECK(n <= m->most, "%d calls at once for %s", n, m->name);
	CHECK(client_waits(body), "nobody waits for \"%s\"", body);
	n_joined += strchr(body, '\n') != NULL;
	mem_free(body);
	CHECK(r->deadline_us <= net_now + 20000000, "its timeout");
	if (m->per_minute > 0)
	{
		int64_t    *at = &minute[n_minute++ % m->per_minute];

		CHECK(*at == 0 || net_now - *at >= 60000000, "more than %d in a minute: %lld", m->per_minute,
			  (long long) (net_now - *at));
		*at = net_now;
	}
}

static NetPlan
plan(const HttpRequest *r)
{
	static const int statuses[] = {400, 401, 404, 408, 413, 425, 429, 429, 429, 500, 502, 503, 503, 504, 302,
								   529};
	static const NetDo ills[] = {NET_STATUS, NET_STATUS, NET_STATUS, NET_NOT_SENT, NET_NOT_SENT, NET_CUT,
								 NET_CUT_BODY, NET_HANG, NET_TLS, NET_GARBAGE, NET_EMPTY, NET_NONSENSE};
	NetPlan		p = net_default();

	if (net_is_check(r->url))
		check_check(r);
	else
		check_begin(r);
	p.delay_us = rnd(4) == 0 ? 0 : rnd(60000);
	p.chunks = 1 + (int) rnd(5);
	if (rnd(20) == 0)
	{
		p.remaining = rnd(3);
		p.reset_ms = rnd(500);
	}
	if (r->stream && rnd(10) == 0)
		p.what = NET_LINGER;
	if ((int) rnd(100) >= illness)
		return p;
	p.what = ills[rnd(sizeof(ills) / sizeof(ills[0]))];
	p.status = statuses[rnd(sizeof(statuses) / sizeof(statuses[0]))];
	if (rnd(3) == 0)
		p.retry_after_ms = rnd(3000);
	return p;
}

/* Is this request's end a valid one? */
static void
check_end(const Client *c, const Model *m, WireKind kind)
{
	bool		late = strcmp(c->sqlstate, "57014") == 0;

	if (c->cancelled)
	{
		n_cancelled++;
		return;
	}
	CHECK(c->finals == 1, "%d of %s has %d final frames", c->id, m->name, c->finals);
	n_done += c->done;
	n_late += late;
	n_failed += !c->done && !late;
	CHECK(c->deadline_us == 0 || c->end_us <= c->deadline_us + 1, "%d is late by %lld us", c->id,
		  (long long) (c->end_us - c->deadline_us));
	CHECK(!late || c->deadline_us != 0, "what deadline?");
	if (c->done)
	{
		size_t		n = strlen(c->want);

		CHECK(c->stream ? c->texts > 0 : strncmp(c->text, c->want, n) == 0 && strcmp(c->text + n, "!") == 0,
			  "\"%s\" for \"%s\"", c->text, c->want);
		CHECK(c->accepted == 1, "accepted");
	}
	CHECK(c->tries == -1 || c->tries == c->calls_then, "%d: %lld tries, %d calls", c->id,
		  (long long) c->tries, c->calls_then);
	if (kind == WK_LOGPROBS)
		return;
	CHECK(c->idempotent || c->charges <= 1, "%d is charged %d times", c->id, c->charges);
	CHECK(c->charges_then <= c->charged + c->done, "%d: %d charges, of which %lld are told", c->id,
		  c->charges_then, (long long) c->charged);
	CHECK(late || c->charged + c->done <= c->charges_then, "%d: %d charges, but %lld are told: %s", c->id,
		  c->charges_then, (long long) c->charged, c->message);
	/* sent together with a bad one, and then alone */
	CHECK(c->calls <= (m->retries + 1) * (kind == WK_POOL ? 2 : 1), "%d: %d calls", c->id, c->calls);
}

static WireKind kinds[MOST_CLIENTS];
static uint8_t requested[MOST_CLIENTS];

static void
arrive(Dispatcher *l)
{
	static const WireKind of[] = {WK_GENERATE, WK_GENERATE, WK_GENERATE, WK_POOL, WK_POOL, WK_POOL,
								  WK_LOGPROBS};
	int			i = (int) rnd(N_MODELS);
	Want		w = {
		.kind = of[rnd(7)],.model = models[i].name,.url = models[i].url,.options = models[i].options,
		.task = rnd(2) ? "embed" : "score", .secret = rnd(2) ? "alpha" : "beta",.background = rnd(10) == 0,
		.priority = (int) rnd(3),.login = (int) rnd(4)
	};

	/* one role has limits */
	if (w.login == 3)
	{
		w.role_requests = ROLE_REQUESTS;
		w.role_tokens = 100000;
		w.role_wait = rnd(3) == 0 ? 1 + (int) rnd(3000) : 0;
	}
	w.role_weight = w.login == 2 ? 500 : 0;
	roles[n_clients] = (uint8_t) w.login;
	w.seed = rnd(2);
	w.fallback = rnd(4) == 0;
	w.stream = w.kind == WK_GENERATE && rnd(2);
	if (rnd(50) == 0)
		w.prompt = "?";
	if (rnd(3) == 0)
		w.deadline_us = net_now + (rnd(5) == 0 ? rnd(20000) : rnd(8000000));
	kinds[n_clients] = w.kind;
	requested[n_clients] = (uint8_t) i;
	net_req(l, &w);
}

static void
hang_up(Dispatcher *l)
{
	Client	   *c;

	if (n_clients == 0)
		return;
	c = clients[n_clients - 1 - (int) rnd(n_clients < 60 ? (uint32_t) n_clients : 60)];
	if (c->cancelled || c->finals > 0)
		return;
	c->cancelled = true;
	dispatcher_cancel(l, c->request);
}

static void
slow_reader(void)
{
	Client	   *c = n_clients > 0 ?
		clients[n_clients - 1 - (int) rnd(n_clients < 60 ? (uint32_t) n_clients : 60)] : NULL;

	if (c != NULL)
		c->backlog = rnd(2) ? 1000000 : 0;
}

/* As if the program had been suspended: requests that became late meanwhile can't end in time. */
static void
sleep_long(void)
{
	int64_t		us = rnd(20000000);

	for (int i = 0; i < n_clients; i++)
		if (clients[i]->finals == 0 && clients[i]->deadline_us != 0 && clients[i]->deadline_us < net_now + us)
			clients[i]->deadline_us = net_now + us;
	net_now += us;
}

static void
settings_change(Dispatcher *l)
{
	RSettings	s = {.max_connections = rnd(4) == 0 ? 3 : 1000};

	evil_allowed = rnd(2);
	s.allowed_hosts = evil_allowed ? "*.example" : "a.example b.example c.example";
	dispatcher_settings(l, &s);
}

/* Does any call continue without a client? */
static void
check_under_way(void)
{
	int			n = 0;

	for (const HttpCall *c = http.calls; c != NULL; c = c->next)
		CHECK(net_is_check(c->url) || client_waits(c->body) || has_sent_all(c), "nobody waits for \"%s\"",
			  c->body);
	for (int i = n_clients - 1; i >= 0 && i > n_clients - 1000; i--)
		n += roles[i] == 3 && clients[i]->under_way > 0 && clients[i]->finals == 0 && !clients[i]->cancelled;
	CHECK(n <= ROLE_REQUESTS, "%d of one role", n);
}

static void
check_rest(Dispatcher *l)
{
	static WireStats s;

	memset(&s, 0, sizeof(s));
	dispatcher_publish(l, &s);
	for (uint32_t i = 0; i < s.n_endpoints; i++)
		CHECK(s.endpoints[i].in_flight == 0 && s.endpoints[i].waiting == 0, "%s: %d under way",
			  s.endpoints[i].url, s.endpoints[i].in_flight);
	CHECK(s.fig.live == 0 && s.fig.running == 0 && s.fig.waiting == 0, "%lld live", (long long) s.fig.live);
	CHECK(s.fig.finished == n_done && s.fig.finished + s.fig.failed + s.fig.cancelled == n_clients,
		  "%lld, %lld, %lld of %d", (long long) s.fig.finished, (long long) s.fig.failed,
		  (long long) s.fig.cancelled, n_clients);
	for (const RModel *m = l->models; m != NULL; m = m->next)
		for (int i = 0; i < m->lb.n; i++)
			CHECK(m->u[i].rate.tokens_in_flight == 0 && !m->lb.u[i].probing && !m->lb.u[i].checking, "%s",
				  m->name);
	CHECK(l->n_calls == 0 && l->touched == NULL && l->drains == NULL, "nothing is left");
}

static void
world(uint64_t from, int events)
{
	RSettings	s = {.allowed_hosts = "a.example b.example c.example",.max_connections = 1000};
	Dispatcher *l;

	seed = from * UINT64_C(0x9e3779b97f4a7c15) + 1;
	memset(minute, 0, sizeof(minute));
	n_minute = n_done = 0;
	evil_allowed = false;
	l = net_start(&s, plan);
	for (int i = 0; i < events; i++)
	{
		uint32_t	what = rnd(100);

		if (what < 40)
			arrive(l);
		else if (what < 45)
			hang_up(l);
		else if (what < 46)
			slow_reader();
		else if (what == 46 && rnd(20) == 0)
			settings_change(l);
		else if (what == 47 && rnd(10) == 0)
			illness = rnd(3) == 0 ? 95 : (int) rnd(40);
		else if (what == 47 && rnd(10) == 0)
			rmodel_forget(l, 5, (StrView) {"m2", 2}, 0);
		else if (what == 48 && n_clients > 0)
			net_cancel_on_text = clients[n_clients - 1];
		else if (what == 49 && rnd(30) == 0)
			sleep_long();
		else
		{
			net_run(l, &http, rnd(40000));
			check_under_way();
		}
	}
	for (int i = 0; i < n_clients; i++)
		clients[i]->backlog = 0;
	illness = 10;
	net_run(l, &http, INT64_C(7200000000));
	CHECK(dispatcher_live(l) == 0 && http.n == 0, "%d asks, %d calls are left", dispatcher_live(l), http.n);
	for (int i = 0; i < n_clients; i++)
		check_end(clients[i], &models[requested[i]], kinds[i]);
	check_rest(l);
	net_stop(l);
}

/* Free the dispatcher with everything running. */
static void
world_ends(uint64_t from)
{
	RSettings	s = {.allowed_hosts = "*.example",.max_connections = 100};
	Dispatcher *l;

	seed = from * 7919 + 1;
	memset(minute, 0, sizeof(minute));
	n_minute = 0;
	evil_allowed = true;
	illness = 30;
	l = net_start(&s, plan);
	for (int i = 0; i < 200; i++)
	{
		arrive(l);
		net_run(l, &http, rnd(3000));
	}
	for (int i = 0; i < n_clients; i++)
		clients[i]->cancelled = true;
	net_stop(l);
}

int
main(int argc, char **argv)
{
	uint64_t	first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	int			events = argc > 2 ? atoi(argv[2]) : check_effort(25000, 100000, 1000000);
	int			each = 5000;

	for (int i = 0; i < events / each; i++)
	{
		RUN(world(first + (uint64_t) i, each));
		if (check_failed > 0)
		{
			fprintf(stderr, "in world %llu\n", (unsigned long long) first + (unsigned) i);
			break;
		}
	}
	for (int i = 0; i < 10; i++)
		RUN(world_ends(first + (uint64_t) i));
	CHECK(n_failed > 100 && n_cancelled > 100 && n_late > 100 && n_joined > 100 && n_checked > 100,
		  "all of it has happened: %d, %d, %d, %d, %d", n_failed, n_cancelled, n_late, n_joined, n_checked);
	return check_done("test_remote_sim");
}
