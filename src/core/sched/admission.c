/*
 * admission.c
 *	  What roles may take: requests in flight, tokens per minute.
 *
 * A bucket is kept as the time at which it is full again: that is all that is needed, whatever the
 * rate (each request brings its own).  It is empty when that is a minute or more ahead.
 *
 * Accounts are under a lock, which is held for a few instructions: replicas of a model step on threads of
 * their own (step_loop.c).  The rest is the core's.
 *
 * Tested by tests/unit/core/sched/test_gate.c, tests/unit/core/test_sim.c, and with roles by
 * tests/t/097_limits.pl.
 */
#include "core/sched/admission.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "core/sched/sched_internal.h"

#define MINUTE_US	INT64_C(60000000)
#define FEW_ACCOUNTS 64

struct Account
{
	Accounts   *of;
	uint64_t	role;
	int			n_refs;			/* requests that have passed and not ended, */
	int			in_flight;		/* passed requests whose role has a limit of requests in flight */
	double		full_us;		/* clock_us() when its bucket is full */
};

struct Accounts
{
	pthread_mutex_t lock;		/* cores may be several threads' */
	IdMap		by_role;
	size_t		sweep_at;		/* so many: look whom to forget */
	_Atomic uint64_t changes;	/* +1 when a request ends */
};

struct Admission
{
	Accounts   *accounts;
	Fair		roles;			/* those that wait: roles, sessions */
	int			n;
	uint64_t	seen;			/* Accounts.changes at the last look */
	int64_t		due_us;			/* a bucket has something again; INT64_MAX = nobody waits for one */
};

/* ---- accounts ---- */

Accounts *
accounts_new(void)
{
	Accounts   *a = mem_zalloc(sizeof(*a));

	a->sweep_at = FEW_ACCOUNTS;
	pthread_mutex_init(&a->lock, NULL);
	return a;
}

void
accounts_free(Accounts *a)
{
	if (a == NULL)
		return;
	for (size_t i = 0; i < a->by_role.cap; i++)
		mem_free(a->by_role.slots[i].value);
	idmap_free(&a->by_role);
	pthread_mutex_destroy(&a->lock);
	mem_free(a);
}

/* Forget those that say nothing. */
static void
sweep(Accounts *a, int64_t now_us)
{
	Account   **idle = mem_alloc((a->by_role.n + 1) * sizeof(Account *));
	size_t		n = 0;

	for (size_t i = 0; i < a->by_role.cap; i++)
	{
		Account    *acc = a->by_role.slots[i].value;

		if (acc != NULL && acc->n_refs == 0 && acc->full_us <= (double) now_us)
			idle[n++] = acc;
	}
	for (size_t i = 0; i < n; i++)
	{
		idmap_del(&a->by_role, idle[i]->role);
		mem_free(idle[i]);
	}
	mem_free(idle);
	a->sweep_at = FEW_ACCOUNTS + 2 * a->by_role.n;
}

static Account *
account_of(Accounts *a, uint64_t role, int64_t now_us)
{
	Account    *acc = idmap_get(&a->by_role, role);

	if (acc != NULL)
		return acc;
	if (a->by_role.n >= a->sweep_at)
		sweep(a, now_us);
	acc = mem_zalloc(sizeof(*acc));
	acc->of = a;
	acc->role = role;
	idmap_put(&a->by_role, role, acc);
	return acc;
}

static void
charge(Account *acc, int tokens_per_minute, int n, int64_t now_us)
{
	if (acc->full_us < (double) now_us)
		acc->full_us = (double) now_us;
	acc->full_us += (double) n * (double) MINUTE_US / tokens_per_minute;
}

/* When may one with such limits pass?  INT64_MAX: when another ends. */
static int64_t
open_at(const Account *acc, const Caller *by, int64_t now_us)
{
	int64_t		filled = (int64_t) acc->full_us - MINUTE_US + 1;

	if (by->max_requests > 0 && acc->in_flight >= by->max_requests)
		return INT64_MAX;
	return by->tokens_per_minute > 0 && filled > now_us ? filled : now_us;
}

/* ---- the gate ---- */

Admission *
admission_new(Accounts *a)
{
	Admission  *g = mem_zalloc(sizeof(*g));

	g->accounts = a;
	g->due_us = INT64_MAX;
	return g;
}

void
admission_free(Admission *g)
{
	if (g == NULL)
		return;
	ASSERT(g->n == 0);
	fair_clear(&g->roles);
	mem_free(g);
}

static void
pass(Req *r, Account *acc, int64_t now_us)
{
	ASSERT(r->sched.account == NULL);
	r->sched.account = acc;
	acc->n_refs++;
	/* a job's, which has no limits, keeps no session of its owner waiting */
	acc->in_flight += r->in.by.max_requests > 0;
	if (r->in.by.tokens_per_minute > 0)
		charge(acc, r->in.by.tokens_per_minute, r->sched.admission_tokens, now_us);
}

static void
put_limit(const Req *r, const Account *acc, int64_t now_us, Err *e)
{
	const Caller *by = &r->in.by;
	int64_t		open = open_at(acc, by, now_us);

	if (open == INT64_MAX || by->tokens_per_minute == 0)
	{
		err_set(e, ERR_LIMIT, "role has its limit of %d LLM requests in flight", by->max_requests);
		err_hint(e, "The limit is the role's setting vllm.role_max_requests; vllm.role_limit_timeout says "
					"how long to wait.");
	}
	else
	{
		err_set(e, ERR_LIMIT, "role has used up its limit of %d LLM tokens per minute",
				by->tokens_per_minute);
		err_detail(e, "The next request may begin in %.1f s.", (double) (open - now_us) / 1e6);
		err_hint(e, "The limit is the role's setting vllm.role_tokens_per_minute; vllm.role_limit_timeout "
					"says how long to wait.");
	}
}

static AdmissionResult
enter(Admission *g, Req *r, int64_t now_us, Err *e)
{
	Account    *acc;
	Fair	   *role;
	int64_t		open;

	acc = account_of(g->accounts, r->in.by.role, now_us);
	open = open_at(acc, &r->in.by, now_us);
	role = idmap_get(&g->roles.kids, r->in.by.role);
	/* nobody overtakes those of its role */
	if (open <= now_us && (role == NULL || role->n == 0))
	{
		pass(r, acc, now_us);
		return GATE_PASS;
	}
	if (r->in.by.wait_ms == 0)
	{
		put_limit(r, acc, now_us, e);
		return GATE_REFUSE;
	}
	r->sched.line = fair_kid(fair_kid(&g->roles, r->in.by.role, 1), r->in.session, 1);
	fair_ref(r->sched.line);
	r->sched.state = RQ_DEFERRED;
	if (r->in.by.wait_ms > 0)
		r->sched.admission_until_us = now_us + (int64_t) r->in.by.wait_ms * 1000;
	reqlist_push_tail(&r->sched.line->queue, r);
	fair_wait(r->sched.line);
	g->n++;
	if (open < g->due_us)
		g->due_us = open;
	return GATE_WAIT;
}

AdmissionResult
admission_enter(Admission *g, Req *r, int n_tokens, int64_t now_us, Err *e)
{
	AdmissionResult answer;

	r->sched.admission_tokens = n_tokens;
	if (r->in.by.role == 0)
		return GATE_PASS;
	pthread_mutex_lock(&g->accounts->lock);
	answer = enter(g, r, now_us, e);
	pthread_mutex_unlock(&g->accounts->lock);
	return answer;
}

void
admission_remove(Admission *g, Req *r)
{
	Fair	   *line = r->sched.line;

	ASSERT(r->sched.state == RQ_DEFERRED && g->n > 0);
	reqlist_remove(&line->queue, r);
	if (line->queue.n == 0)
		fair_rest(line);
	r->sched.line = NULL;
	fair_unref(line);
	r->sched.state = RQ_NEW;
	g->n--;
}

static Req *
next(Admission *g, int64_t now_us)
{
	for (int i = 0; i < g->roles.n; i++)
	{
		Fair	   *line = fair_first(g->roles.heap[i]);
		Req		   *r = line->queue.head;
		Account    *acc = account_of(g->accounts, r->in.by.role, now_us);

		if (open_at(acc, &r->in.by, now_us) > now_us)
			continue;
		fair_turn(line);
		fair_charge(line, 1);
		admission_remove(g, r);
		pass(r, acc, now_us);
		return r;
	}
	/* nobody: when is that to be asked again? */
	g->seen = g->accounts->changes;
	g->due_us = INT64_MAX;
	for (int i = 0; i < g->roles.n; i++)
	{
		Req		   *r = fair_first(g->roles.heap[i])->queue.head;
		int64_t		open = open_at(account_of(g->accounts, r->in.by.role, now_us), &r->in.by, now_us);

		if (open < g->due_us)
			g->due_us = open;
	}
	return NULL;
}

Req *
admission_next(Admission *g, int64_t now_us)
{
	Req		   *r;

	if (g->n == 0 || (g->seen == g->accounts->changes && now_us < g->due_us))
		return NULL;
	pthread_mutex_lock(&g->accounts->lock);
	r = next(g, now_us);
	pthread_mutex_unlock(&g->accounts->lock);
	return r;
}

void
admission_late(const Admission *g, const Req *r, int64_t now_us, Err *e)
{
	const Account *acc;
	Account		none = {0};

	pthread_mutex_lock(&g->accounts->lock);
	acc = idmap_get(&g->accounts->by_role, r->in.by.role);
	put_limit(r, acc != NULL ? acc : &none, now_us, e);
	pthread_mutex_unlock(&g->accounts->lock);
	if (e->detail[0] == '\0')
		err_detail(e, "It has waited for %d ms.", r->in.by.wait_ms);
}

void
admission_leave(Admission *g, Req *r)
{
	if (r->sched.account == NULL)
		return;
	pthread_mutex_lock(&g->accounts->lock);
	/* without requests it may be swept away */
	ALWAYS(r->sched.account->n_refs > 0 && r->sched.account->in_flight <= r->sched.account->n_refs);
	r->sched.account->n_refs--;
	r->sched.account->in_flight -= r->in.by.max_requests > 0;
	r->sched.account = NULL;
	g->accounts->changes++;
	pthread_mutex_unlock(&g->accounts->lock);
}

void
admission_charge(const Req *r, int n)
{
	const Req  *first = r->group != NULL ? r->group->stem : r->pooled != NULL ? r->pooled->reqs[0] : r;

	Account    *acc = first->sched.account;

	if (r->in.by.tokens_per_minute == 0 || acc == NULL)
		return;
	pthread_mutex_lock(&acc->of->lock);
	charge(acc, r->in.by.tokens_per_minute, n, clock_us());
	pthread_mutex_unlock(&acc->of->lock);
}

int64_t
admission_due(const Admission *g)
{
	if (g->n == 0)
		return INT64_MAX;
	return g->seen != g->accounts->changes ? 0 : g->due_us;
}

int
admission_n(const Admission *g)
{
	return g->n;
}

Req *
admission_any(Admission *g)
{
	Fair	   *line = fair_first(&g->roles);

	return line != NULL ? line->queue.head : NULL;
}

