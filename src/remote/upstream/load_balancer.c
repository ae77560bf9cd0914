/*
 * load_balancer.c
 *	  The urls of a model: the one with the fewest calls, breakers, and how wide each is open.
 *
 * A breaker opens behind PICK_RUN failures in a row, or when more than half of the last PICK_SEEN were; it
 * stays open for a second, then one call finds out (the probe): a failure doubles the time, anything else
 * closes it.  A probe that was cancelled says nothing and makes room for another.  Calls that were under way
 * when the breaker opened say nothing either.
 *
 * Where there are health checks, it is one of these that finds out: until it is answered no call is made,
 * then one call is the probe.  An answer may take minutes, and a call may hang that others would not: while
 * the probe takes its time, another one is made behind each check that is answered, and the first that ends
 * says how it is.  A check of a url that is idle opens its breaker at once when it fails: the next one comes
 * a second later.
 *
 * Behind a 429 a url gets half as many calls at once as it had, and one more with each window of answers: the
 * endpoint's limit is found without asking it over and over.
 *
 * Tested by tests/unit/remote/test_remote_load_balancer.c.
 */
#include "base/assert.h"
#include "remote/upstream/load_balancer.h"

#include "base/alloc.h"

/* What an endpoint asks for is waited for so long. */
#define SAID_PATIENCE_US	INT64_C(60000000)
/* 429s of calls that began together are one. */
#define NARROW_US			INT64_C(1000000)
/* "As many as it had" is the most of so long. */
#define PEAK_US				INT64_C(10000000)

void
lb_init(LoadBalancer *p, int n, int most)
{
	*p = (LoadBalancer) {.n = n,.most = most,.last = n - 1};
	p->u = mem_zalloc((size_t) n * sizeof(PickUrl));
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
places(const LoadBalancer *p, const PickUrl *u)
{
	int			w = (int) u->window;

	return w < 1 ? 1 : w > p->most ? p->most : w;
}

static int64_t
later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* When the url may be called; INT64_MAX: when a call has ended.  *worth: it is worth waiting for. */
static int64_t
open_at(const LoadBalancer *p, const PickUrl *u, const PickLimit *l, int64_t now, bool *worth)
{
	int64_t		breaker = now;

	*worth = true;
	if (u->health == WIRE_HEALTH_DOWN && u->checking)
	{
		/* two steps: the queue is looked through when this grows */
		int64_t		soon = u->check_us + PICK_CHECK_US;

		return soon > now ? soon : later(u->check_us + PICK_CHECK_MOST_US, now + 1);
	}
	if (u->health == WIRE_HEALTH_DOWN)
		breaker = later(p->checks ? now + 1 : now, u->open_until_us);
	if (u->health == WIRE_HEALTH_TRYING && u->probing)
	{
		/* how long the probe takes isn't known */
		*worth = now - u->probe_us < PICK_PATIENCE_US;
		return *worth ? u->probe_us + PICK_PATIENCE_US : INT64_MAX;
	}
	breaker = later(breaker, l->path_us);
	if (breaker - now > PICK_PATIENCE_US || (l->said_us != INT64_MAX && l->said_us - now > SAID_PATIENCE_US))
		*worth = false;
	if (l->own_us == INT64_MAX || l->said_us == INT64_MAX)
		return INT64_MAX;
	/* half open it takes one, whatever is under way from before */
	if (breaker <= now && l->own_us <= now && l->said_us <= now &&
		u->health != WIRE_HEALTH_DOWN && u->health != WIRE_HEALTH_TRYING && u->in_flight >= places(p, u))
		return INT64_MAX;
	if (u->in_flight >= p->most)
		return INT64_MAX;
	return later(breaker, later(l->own_us, l->said_us));
}

/*
 * How long an answer takes, as far as is known: one that nobody has waited for takes longer than they did.
 * 0: to be found out
 */
static int64_t
slowness(const PickUrl *u)
{
	return later(u->latency_us, u->given_up_us);
}

/* Is a the better choice?  i, j: their places behind the one that was taken last */
static bool
better(const PickUrl *a, int i, const PickUrl *b, int j)
{
	if (a->in_flight != b->in_flight)
		return a->in_flight < b->in_flight;
	if (slowness(a) != slowness(b))
		return slowness(a) < slowness(b);
	return i < j;
}

PickResult
lb_choose(LoadBalancer *p, const PickLimit *limits, int avoid, int64_t now_us, int64_t *when_us, int *url)
{
	int64_t		soon = INT64_MAX;
	int64_t		hopeless = INT64_MAX;
	int			best = -1;
	int			best_at = 0;
	bool		busy = false;
	bool		allowed = false;

	for (int k = 0; k < p->n; k++)
	{
		int			i = (p->last + 1 + k) % p->n;
		PickUrl    *u = &p->u[i];
		bool		worth;
		int64_t		at;

		if (u->banned)
			continue;
		allowed = true;
		at = open_at(p, u, &limits[i], now_us, &worth);
		if (!worth)
		{
			if (at < hopeless)
				hopeless = at;
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
		return PICK_OK;
	}
	if (!allowed)
		return PICK_BANNED;
	if (soon != INT64_MAX)
		*when_us = soon;
	if (busy)
		return PICK_BUSY;
	if (soon != INT64_MAX)
		return PICK_LATER;
	*when_us = hopeless == INT64_MAX ? 0 : hopeless;
	return PICK_NEVER;
}

bool
lb_is_open(const LoadBalancer *p, int url, int64_t now_us)
{
	const PickUrl *u = &p->u[url];

	return (u->health == WIRE_HEALTH_DOWN && (p->checks || u->open_until_us > now_us)) ||
		(u->health == WIRE_HEALTH_TRYING && u->probing);
}

bool
lb_begin(LoadBalancer *p, int url, int64_t now_us)
{
	PickUrl    *u = &p->u[url];

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
is_closed(const PickUrl *u)
{
	return u->health == WIRE_HEALTH_UP || u->health == WIRE_HEALTH_UNKNOWN;
}

static void
open_breaker(PickUrl *u, int64_t now)
{
	u->open_us = is_closed(u) ? PICK_OPEN_US : u->open_us * 2;
	if (u->open_us > PICK_OPEN_MOST_US)
		u->open_us = PICK_OPEN_MOST_US;
	u->open_until_us = now + u->open_us;
	u->health = WIRE_HEALTH_DOWN;
}

static void
note(PickUrl *u, bool failed)
{
	u->seen = ((u->seen << 1) | failed) & ((UINT32_C(1) << PICK_SEEN) - 1);
	if (u->n_seen < PICK_SEEN)
		u->n_seen++;
	u->run = failed ? u->run + 1 : 0;
}

void
lb_end(LoadBalancer *p, int url, bool probe, FateHealth health, bool throttled, int64_t latency_us,
	   int64_t now_us)
{
	PickUrl    *u = &p->u[url];
	bool		closed = is_closed(u);

	/* of each lb_begin() there is one end */
	ALWAYS(url >= 0 && url < p->n && u->in_flight > 0);
	if (throttled && now_us - u->narrowed_us > NARROW_US)
	{
		u->window = places(p, u) < u->peak ? places(p, u) : u->peak;
		u->window = u->window / 2 < 1 ? 1 : u->window / 2;
		u->narrowed_us = now_us;
	}
	u->in_flight--;
	if (health == HEALTH_OK)
		u->heard_us = now_us;
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
	/* another one was sooner */
	probe = probe && u->health == WIRE_HEALTH_TRYING;
	/* who says "too much" works */
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
	if (probe || u->run >= PICK_RUN ||
		(u->n_seen == PICK_SEEN && __builtin_popcount(u->seen) * 2 > PICK_SEEN))
		open_breaker(u, now_us);
}

void
lb_given_up(LoadBalancer *p, int url, int64_t us)
{
	p->u[url].given_up_us = later(p->u[url].given_up_us, us);
}

/* ---- health checks ---- */

int64_t
pick_check_at(const LoadBalancer *p, int url, int64_t interval_us)
{
	const PickUrl *u = &p->u[url];

	if (!p->checks || u->banned || u->checking)
		return INT64_MAX;
	if (u->health == WIRE_HEALTH_DOWN)
		return u->open_until_us;
	if (u->health == WIRE_HEALTH_TRYING && u->probing)
		return later(u->probe_us, u->check_us) + PICK_PROBE_US;
	return interval_us > 0 && u->in_flight == 0 ? u->heard_us + interval_us : INT64_MAX;
}

void
pick_check_begin(LoadBalancer *p, int url, int64_t now_us)
{
	PickUrl    *u = &p->u[url];

	ASSERT(!u->checking && !u->banned);
	u->checking = true;
	u->check_closed = is_closed(u);
	u->check_us = now_us;
}

void
pick_check_end(LoadBalancer *p, int url, FateHealth health, int64_t now_us)
{
	PickUrl    *u = &p->u[url];

	ASSERT(u->checking);
	u->checking = false;
	/* it is there, and the probe takes its time: another may be one */
	if (u->health == WIRE_HEALTH_TRYING && u->probing && u->probe_us < u->check_us && health == HEALTH_OK)
	{
		u->probing = false;
		u->heard_us = now_us;
		return;
	}
	/* calls have found out more meanwhile, or will: they may even be what keeps it from answering */
	if (u->health != WIRE_HEALTH_DOWN && (u->in_flight > 0 || u->heard_us > u->check_us))
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
		/* not at once again */
		u->open_until_us = later(u->open_until_us, now_us + PICK_OPEN_US);
		u->heard_us = now_us;
		return;
	}
	u->heard_us = now_us;
	if (u->health == WIRE_HEALTH_DOWN)
	{
		u->health = WIRE_HEALTH_TRYING;
		/* it may be another one now; so it is the first of equals, and is found out about */
		u->latency_us = u->given_up_us = 0;
	}
	else if (u->health == WIRE_HEALTH_UNKNOWN)
		u->health = WIRE_HEALTH_UP;
}
