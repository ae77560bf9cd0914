/*
 * test_remote_roles.c
 *	  Limits of roles: accounts for requests that come, end and give up in any order.
 */
#include "remote/upstream/role_admission.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/unit/check.h"

#define N_ITEMS		400
#define N_ROLES		3

static uint64_t seed = 3;

static int
rnd(int n)
{
	seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (int) ((seed >> 33) % (uint64_t) n);
}

typedef struct Row
{
	RoleItem	it;				/* first member */
	bool		in, passed;
	int			number;
} Row;

/* In flight, in order, and no request waits that could be admitted. */
static void
test_requests(void)
{
	static const int most[N_ROLES + 1] = {0, 1, 3, 20};
	Roles	   *r = roles_new();
	Row		   *rows = mem_zalloc(N_ITEMS * sizeof(*rows));
	int			in_flight[N_ROLES + 1] = {0};
	int			number = 0,
				refused = 0,
				waited = 0;
	int64_t		when;
	RoleItem   *it;
	Err			e;

	for (int step = 0; step < 100000; step++)
	{
		Row		   *x = &rows[rnd(N_ITEMS)];
		int			role = 1 + rnd(N_ROLES);

		if (!x->in && rnd(2))
		{
			RoleAnswer	a;

			*x = (Row) {.it = {.role = (uint32_t) role,.max_requests = most[role],
							   .wait_ms = rnd(3) == 0 ? 0 : -1},.number = number++};
			a = roles_enter(r, &x->it, 5, step, &e);
			CHECK((a == ROLE_PASS) <= (in_flight[role] < most[role]), "over the limit");
			CHECK(a != ROLE_REFUSE || (x->it.wait_ms == 0 && e.cls == ERR_LIMIT), "refused");
			CHECK(a != ROLE_WAIT || x->it.wait_ms != 0, "waits");
			refused += a == ROLE_REFUSE;
			waited += a == ROLE_WAIT;
			x->in = a != ROLE_REFUSE;
			x->passed = a == ROLE_PASS;
			in_flight[role] += a == ROLE_PASS;
		}
		else if (x->in)
		{
			in_flight[x->it.role] -= x->passed;
			roles_leave(r, &x->it, rnd(2) ? -1 : 3, step);
			x->in = false;
		}
		while ((it = roles_next(r, step, &when)) != NULL)
		{
			x = (Row *) it;
			CHECK(x->in && !x->passed && in_flight[it->role] < most[it->role], "its turn");
			for (int i = 0; i < N_ITEMS; i++)
				if (rows[i].in && !rows[i].passed && rows[i].it.role == it->role &&
					rows[i].number < x->number)
					CHECK(false, "%d before %d", x->number, rows[i].number);
			x->passed = true;
			in_flight[it->role]++;
		}
		for (int i = 1; i <= N_ROLES; i++)
			CHECK(in_flight[i] <= most[i], "%d of %d", in_flight[i], most[i]);
	}
	CHECK(refused > 1000 && waited > 1000, "%d, %d", refused, waited);
	for (int i = 0; i < N_ITEMS; i++)
		if (rows[i].in)
			roles_leave(r, &rows[i].it, 0, 0);
	CHECK(roles_next(r, 0, &when) == NULL && when == INT64_MAX, "empty");
	roles_free(r);
	mem_free(rows);
}

/* In the long run as many tokens as the limit says, however wrong the estimates are. */
static void
test_tokens(int used_per_estimate)
{
	Roles	   *r = roles_new();
	int64_t		now = 1000000;
	int64_t		used = 0;
	int64_t		start = now;
	int64_t		when;

	while (now < start + INT64_C(3600000000))
	{
		RoleItem	it = {.role = 9,.tokens_per_minute = 6000,.wait_ms = -1};
		int			n = 1 + rnd(300);
		Err			e;
		RoleAnswer	a = roles_enter(r, &it, n, now, &e);

		if (a == ROLE_WAIT)
		{
			CHECK(roles_next(r, now, &when) == NULL && when > now && when < INT64_MAX, "when");
			now = when;
			CHECK(roles_next(r, now, &when) == &it, "it keeps its word");
		}
		used += n * used_per_estimate;
		roles_leave(r, &it, n * used_per_estimate, now);
	}
	CHECK(used >= 60 * 6000 && used <= 61 * 6000 + 600 * used_per_estimate, "%lld in an hour",
		  (long long) used);
	roles_free(r);
}

static void
test_none(void)
{
	Roles	   *r = roles_new();
	Err			e;

	for (int i = 0; i < 1000; i++)
	{
		RoleItem	it = {.role = (uint32_t) rnd(3)};
		RoleItem	other = {.role = 100 + (uint32_t) i,.max_requests = 1};

		CHECK(roles_enter(r, &it, 1000000, 1, &e) == ROLE_PASS && it.of == NULL, "no limits, no account");
		roles_leave(r, &it, 5, 1);
		/* many roles: idle ones are forgotten */
		CHECK(roles_enter(r, &other, 1, 1, &e) == ROLE_PASS, "the first");
		roles_leave(r, &other, 0, 1);
		roles_leave(r, &other, 0, 1);
	}
	roles_free(r);
}

int
main(void)
{
	RUN(test_requests());
	RUN(test_tokens(1));
	RUN(test_tokens(4));
	RUN(test_none());
	return check_done("test_remote_roles");
}
