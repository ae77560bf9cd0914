/*
 * load_balancer.c
 *	  The urls of a model: choice by the fewest calls, breakers, and the number of concurrent calls of
 *	  each url.
 *
 * A breaker opens after LB_RUN failures in a row, or when more than half of the last LB_SEEN calls
 * failed.  It stays open for a second, then one call probes the url: a failure doubles the time,
 * anything else closes the breaker.  A probe that was cancelled has no result and makes room for another
 * one.  Calls that were running when the breaker opened have no effect on it either.
 *
 * With health checks, a check must succeed first: until then no call is made, then one call is the
 * probe.  The probe's response may take minutes, and the call may hang where others would not.  So while
 * a probe is running, each further successful check allows another probe, and the first probe that ends
 * decides.  A failed check of an idle url opens its breaker at once: the next check comes a second
 * later.
 *
 * After a 429 a url gets half as many concurrent calls as it had, and one more after each window of
 * successful calls.  So the endpoint's limit is found without exceeding it again and again.
 *
 * Tested by tests/unit/remote/upstream/test_remote_load_balancer.c.
 */
#include "base/assert.h"
#include "remote/upstream/load_balancer.h"

#include "base/alloc.h"

/* Longest time that an endpoint may ask for no calls before requests are no longer kept waiting. */
#define SAID_PATIENCE_US	INT64_C(60000000)
/* 429s within this time count as one, because their calls began together. */
#define NARROW_US			INT64_C(1000000)
/* The number of calls that is halved after a 429 is the maximum within this time. */
#define PEAK_US				INT64_C(10000000)

void
lb_init(LoadBalancer *p, int n, int most)
{
	*p = (LoadBalancer) {.n = n,.most = most,.last = n - 1};
	p->u = mem_zalloc((size_t) n * sizeof(LbUrl));
	for (int i = 0; i < n; i++)
		p->u[i].window = most;
}

void
lb_free(LoadBalancer *p)
{
	mem_free(p->u);
	p->u = NULL;
}

static int
places(const LoadBalancer *p, const LbUrl *u)
{
	int			w = (int) u->window;

	return w < 1 ? 1 : w > p->most ? p->most : w;
}

static int64_t
later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Return when the url may be called; INT64_MAX: when a call has ended.  *worth: is it worth waiting for? */
static int64_t
open_at(const LoadBalancer *p, const LbUrl *u, const LbLimit *l, int64_t now, bool *worth)
{
	int64_t		breaker = now;

	*worth = true;
	if (u->health == WIRE_HEALTH_DOWN && u->checking)
	{
		/* two steps, because the queue is checked again only when this time grows */
		int64_t		soon = u->check_us + LB_CHECK_US;

		return soon > now ? soon : later(u->check_us + LB_CHECK_MAX_US, now + 1);
	}
	if (u->health == WIRE_HEALTH_DOWN)
		breaker = later(p->checks ? now + 1 : now, u->open_until_us);
	if (u->health == WIRE_HEALTH_TRYING && u->probing)
	{
		/* the probe may take any time */
		*worth = now - u->probe_us < LB_MAX_WAIT_US;
		return *worth ? u->probe_us + LB_MAX_WAIT_US : INT64_MAX;
	}
	breaker = later(breaker, l->path_us);
	if (breaker - now > LB_MAX_WAIT_US || (l->said_us != INT64_MAX && l->said_us - now > SAID_PATIENCE_US))
		*worth = false;
	if (l->own_us == INT64_MAX || l->said_us == INT64_MAX)
		return INT64_MAX;
	/* a half-open url takes one call, however many older calls are still running */
	if (breaker <= now && l->own_us <= now && l->said_us <= now &&
		u->health != WIRE_HEALTH_DOWN && u->health != WIRE_HEALTH_TRYING && u->in_flight >= places(p, u))
		return INT64_MAX;
	if (u->in_flight >= p->most)
		return INT64_MAX;
	return later(breaker, later(l->own_us, l->said_us));
}

/*
 * Return how long a response takes, as far as is known.  A call that was given up takes at least as long
 * as it ran.  0: unknown, to be tried.
 */
static int64_t
slowness(const LbUrl *u)
{
	return later(u->latency_us, u->given_up_us);
}

/* Is a the better choice?  i, j: their distance from the url that was chosen last. */
static bool
better(const LbUrl *a, int i, const LbUrl *b, int j)
{
	if (a->in_flight != b->in_flight)
		return a->in_flight < b->in_flight;
	if (slowness(a) != slowness(b))
		return slowness(a) < slowness(b);
	return i < j;
}

LbResult
lb_choose(LoadBalancer *p, const LbLimit *limits, int avoid, int64_t now_us, int64_t *when_us, int *url)
{
	int64_t		soon = INT64_MAX;
	int64_t		blocked_until = INT64_MAX;
	int			best = -1;
	int			best_at = 0;
	bool		busy = false;
	bool		allowed = false;

	for (int k = 0; k < p->n; k++)
	{
		int			i = (p->last + 1 + k) % p->n;
		LbUrl      *u = &p->u[i];
		bool		worth;
		int64_t		at;

		if (u->banned)
			continue;
		allowed = true;
		at = open_at(p, u, &limits[i], now_us, &worth);
		if (!worth)
		{
			if (at < blocked_until)
				blocked_until = at;
		}
		else if (at == INT64_MAX)
			busy = true;
		else if (at > now_us)
			soon = at < soon ? at : soon;
		else if (best < 0 || best == avoid || (i != avoid && better(u, k, &p->u[best], best_at)))
		{
			best = i;
			best_at = k;
		}
	}
	*when_us = 0;
	if (best >= 0)
	{
		ASSERT(!p->u[best].banned && p->u[best].in_flight < p->most);
		*url = best;
		return LB_OK;
	}
	if (!allowed)
		return LB_BANNED;
	if (soon != INT64_MAX)
		*when_us = soon;
	if (busy)
		return LB_BUSY;
	if (soon != INT64_MAX)
		return LB_LATER;
	*when_us = blocked_until == INT64_MAX ? 0 : blocked_until;
	return LB_NEVER;
}

bool
lb_is_open(const LoadBalancer *p, int url, int64_t now_us)
{
	const LbUrl *u = &p->u[url];

	return (u->health == WIRE_HEALTH_DOWN && (p->checks || u->open_until_us > now_us)) ||
		(u->health == WIRE_HEALTH_TRYING && u->probing);
}

bool
lb_begin(LoadBalancer *p, int url, int64_t now_us)
{
	LbUrl      *u = &p->u[url];

	ALWAYS(url >= 0 && url < p->n);
	p->last = url;
	u->in_flight++;
	if (u->in_flight >= u->peak || now_us - u->peak_us > PEAK_US)
	{
		u->peak = u->in_flight;
		u->peak_us = now_us;
	}
	if (u->health != WIRE_HEALTH_DOWN && u->health != WIRE_HEALTH_TRYING)
		return false;
	u->health = WIRE_HEALTH_TRYING;
	u->probing = true;
	u->probe_us = now_us;
	return true;
}

static bool
is_closed(const LbUrl *u)
{
	return u->health == WIRE_HEALTH_UP || u->health == WIRE_HEALTH_UNKNOWN;
}

static void
open_breaker(LbUrl *u, int64_t now)
{
	u->open_us = is_closed(u) ? LB_OPEN_US : u->open_us * 2;
	if (u->open_us > LB_OPEN_MAX_US)
		u->open_us = LB_OPEN_MAX_US;
	u->open_until_us = now + u->open_us;
	u->health = WIRE_HEALTH_DOWN;
}

static void
note(LbUrl *u, bool failed)
{
	u->seen = ((u->seen << 1) | failed) & ((UINT32_C(1) << LB_SEEN) - 1);
	if (u->n_seen < LB_SEEN)
		u->n_seen++;
	u->run = failed ? u->run + 1 : 0;
}

void
lb_end(LoadBalancer *p, int url, bool probe, CallHealth health, bool throttled, int64_t latency_us,
	   int64_t now_us)
{
	LbUrl      *u = &p->u[url];
	bool		closed = is_closed(u);

	/* each lb_begin() has one lb_end() */
	ALWAYS(url >= 0 && url < p->n && u->in_flight > 0);
	if (throttled && now_us - u->narrowed_us > NARROW_US)
	{
		u->window = places(p, u) < u->peak ? places(p, u) : u->peak;
		u->window = u->window / 2 < 1 ? 1 : u->window / 2;
		u->narrowed_us = now_us;
	}
	u->in_flight--;
	if (health == HEALTH_OK)
		u->responded_us = now_us;
	if (latency_us >= 0)
	{
		u->given_up_us = 0;
		u->latency_us = u->latency_us == 0 ? latency_us : u->latency_us + (latency_us - u->latency_us) / 8;
		if (u->latency_us < 1)
			u->latency_us = 1;
		if (u->window < p->most)
			u->window += 1 / u->window;
	}
	if (probe)
		u->probing = false;
	/* another probe has ended before */
	probe = probe && u->health == WIRE_HEALTH_TRYING;
	/* a url that answers "too many requests" works */
	if (probe && throttled)
		health = HEALTH_OK;
	if (health == HEALTH_UNKNOWN || (!closed && !probe))
		return;
	if (health == HEALTH_OK)
	{
		if (probe)
			u->seen = (uint32_t) (u->n_seen = 0);
		u->health = WIRE_HEALTH_UP;
		note(u, false);
		return;
	}
	note(u, true);
	if (probe || u->run >= LB_RUN ||
		(u->n_seen == LB_SEEN && __builtin_popcount(u->seen) * 2 > LB_SEEN))
		open_breaker(u, now_us);
}

void
lb_given_up(LoadBalancer *p, int url, int64_t us)
{
	p->u[url].given_up_us = later(p->u[url].given_up_us, us);
}

/* ---- health checks ---- */

int64_t
lb_check_at(const LoadBalancer *p, int url, int64_t interval_us)
{
	const LbUrl *u = &p->u[url];

	if (!p->checks || u->banned || u->checking)
		return INT64_MAX;
	if (u->health == WIRE_HEALTH_DOWN)
		return u->open_until_us;
	if (u->health == WIRE_HEALTH_TRYING && u->probing)
		return later(u->probe_us, u->check_us) + LB_PROBE_US;
	return interval_us > 0 && u->in_flight == 0 ? u->responded_us + interval_us : INT64_MAX;
}

void
lb_check_begin(LoadBalancer *p, int url, int64_t now_us)
{
	LbUrl      *u = &p->u[url];

	ASSERT(!u->checking && !u->banned);
	u->checking = true;
	u->check_closed = is_closed(u);
	u->check_us = now_us;
}

void
lb_check_end(LoadBalancer *p, int url, CallHealth health, int64_t now_us)
{
	LbUrl      *u = &p->u[url];

	ASSERT(u->checking);
	u->checking = false;
	/* the url responds, but the probe takes its time: allow another probe */
	if (u->health == WIRE_HEALTH_TRYING && u->probing && u->probe_us < u->check_us && health == HEALTH_OK)
	{
		u->probing = false;
		u->responded_us = now_us;
		return;
	}
	/*
	 * Running or newer calls show better than the check whether the url works.  They may even be what
	 * keeps it from responding to the check.
	 */
	if (u->health != WIRE_HEALTH_DOWN && (u->in_flight > 0 || u->responded_us > u->check_us))
		return;
	if (u->check_closed != is_closed(u))
		return;
	if (health == HEALTH_BAD)
	{
		open_breaker(u, now_us);
		return;
	}
	if (health == HEALTH_UNKNOWN)
	{
		/* don't check again at once */
		u->open_until_us = later(u->open_until_us, now_us + LB_OPEN_US);
		u->responded_us = now_us;
		return;
	}
	u->responded_us = now_us;
	if (u->health == WIRE_HEALTH_DOWN)
	{
		u->health = WIRE_HEALTH_TRYING;
		/*
		 * there may be another server at the url now, so forget its latency, which makes it preferred
		 * among equals
		 */
		u->latency_us = u->given_up_us = 0;
	}
	else if (u->health == WIRE_HEALTH_UNKNOWN)
		u->health = WIRE_HEALTH_UP;
}
