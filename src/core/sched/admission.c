/*
 * admission.c
 *	  Limits of roles: requests in flight, tokens per minute.
 *
 * ipc_server/role_account.c has the arithmetic of accounts.  Accounts are protected by a lock, which is
 * held for a few instructions, because replicas of a model step on threads of their own (step_loop.c).
 * The rest belongs to the core's step thread.
 *
 * Tested by tests/unit/core/sched/test_admission.c, tests/unit/core/test_sim.c, and with roles by
 * tests/t/097_limits.pl.
 */
#include "core/sched/admission.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "core/sched/sched_internal.h"
#include "ipc_server/role_account.h"

#define FEW_ACCOUNTS 64

struct Account
{
	Accounts   *of;
	uint64_t	role;
	RoleAccount a;				/* a.n_refs: requests that have passed and not ended */
};

struct Accounts
{
	pthread_mutex_t lock;		/* cores of several threads may share the accounts */
	IdMap		by_role;
	size_t		sweep_at;		/* at this number of accounts: free the idle ones */
	_Atomic uint64_t changes;	/* incremented when a request ends */
};

struct Admission
{
	Accounts   *accounts;
	Fair		roles;			/* waiting requests: roles, sessions */
	int			n;
	uint64_t	seen;			/* Accounts.changes at the last check */
	int64_t		due_us;			/* when a bucket is not empty again; INT64_MAX = no request waits for one */
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

/* Free the accounts without usage. */
static void
sweep(Accounts *a, int64_t now_us)
{
	Account   **idle = mem_alloc((a->by_role.n + 1) * sizeof(Account *));
	size_t		n = 0;

	for (size_t i = 0; i < a->by_role.cap; i++)
	{
		Account    *acc = a->by_role.slots[i].value;

		if (acc != NULL && account_idle(&acc->a, now_us))
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

static RoleTerms
terms_of(const Caller *by)
{
	return (RoleTerms) {by->max_requests, by->tokens_per_minute, by->wait_ms};
}

/* Return when r may pass; INT64_MAX = when another request ends. */
static int64_t
open_at(const Account *acc, const Req *r, int64_t now_us)
{
	RoleTerms	t = terms_of(&r->in.by);

	return account_open_at(&acc->a, &t, now_us);
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
	RoleTerms	t = terms_of(&r->in.by);

	ASSERT(r->sched.account == NULL);
	r->sched.account = acc;
	acc->a.n_refs++;
	account_pass(&acc->a, &t, r->sched.admission_tokens, now_us);
}

static void
put_limit(const Req *r, const RoleAccount *a, bool late, int64_t now_us, Err *e)
{
	RoleTerms	t = terms_of(&r->in.by);

	account_refuse(a, &t, late, now_us, e);
}

static AdmissionResult
enter(Admission *g, Req *r, int64_t now_us, Err *e)
{
	Account    *acc;
	Fair	   *role;
	int64_t		open;

	acc = account_of(g->accounts, r->in.by.role, now_us);
	open = open_at(acc, r, now_us);
	role = idmap_get(&g->roles.kids, r->in.by.role);
	/* no request overtakes waiting ones of its role */
	if (open <= now_us && (role == NULL || role->n == 0))
	{
		pass(r, acc, now_us);
		return GATE_PASS;
	}
	if (r->in.by.wait_ms == 0)
	{
		put_limit(r, &acc->a, false, now_us, e);
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

		if (open_at(acc, r, now_us) > now_us)
			continue;
		fair_turn(line);
		fair_charge(line, 1);
		admission_remove(g, r);
		pass(r, acc, now_us);
		return r;
	}
	/* none may pass: compute when to check again */
	g->seen = g->accounts->changes;
	g->due_us = INT64_MAX;
	for (int i = 0; i < g->roles.n; i++)
	{
		Req		   *r = fair_first(g->roles.heap[i])->queue.head;
		int64_t		open = open_at(account_of(g->accounts, r->in.by.role, now_us), r, now_us);

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
	RoleAccount none = {0};

	pthread_mutex_lock(&g->accounts->lock);
	acc = idmap_get(&g->accounts->by_role, r->in.by.role);
	put_limit(r, acc != NULL ? &acc->a : &none, true, now_us, e);
	pthread_mutex_unlock(&g->accounts->lock);
}

void
admission_leave(Admission *g, Req *r)
{
	RoleTerms	t = terms_of(&r->in.by);

	if (r->sched.account == NULL)
		return;
	pthread_mutex_lock(&g->accounts->lock);
	/* without requests the account may be freed by a sweep */
	ALWAYS(r->sched.account->a.n_refs > 0 && r->sched.account->a.in_flight <= r->sched.account->a.n_refs);
	r->sched.account->a.n_refs--;
	account_leave(&r->sched.account->a, &t);
	r->sched.account = NULL;
	g->accounts->changes++;
	pthread_mutex_unlock(&g->accounts->lock);
}

void
admission_charge(const Req *r, int n)
{
	const Req  *first = r->group != NULL ? r->group->prompt_request :
		r->pooled != NULL ? r->pooled->reqs[0] : r;

	Account    *acc = first->sched.account;

	if (r->in.by.tokens_per_minute == 0 || acc == NULL)
		return;
	pthread_mutex_lock(&acc->of->lock);
	account_charge(&acc->a, r->in.by.tokens_per_minute, n, clock_us());
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

