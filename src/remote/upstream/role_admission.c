/*
 * role_admission.c
 *	  Admission of requests by the limits of their roles.
 *
 * ipc_server/role_account.c does the accounting.  A request is charged an estimate of its tokens when it
 * is admitted, and the tokens that it has really used when it ends.
 *
 * max_tokens in bodies of the HTTP interfaces is checked, too.  A body without it can't be known to be
 * within the limit, so it must have it (the SQL functions always send it).
 *
 * Tested by tests/unit/remote/upstream/test_remote_roles.c.
 */
#include "remote/upstream/role_admission.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/json/json_scan.h"
#include "base/alloc.h"

#define FEW_ROLES	64

struct Role
{
	uint32_t	id;
	RoleAccount a;				/* a.n_refs: requests that have entered and not left */
	RoleItem   *head, *tail;	/* waiting items */
	Role	   *next;
};

struct Roles
{
	Role	   *all;
	int			n, n_waiting;
};

/* ---- messages ---- */

static bool
ends_with(StrView s, const char *end)
{
	size_t		n = strlen(end);

	return s.n >= n && memcmp(s.s + s.n - n, end, n) == 0;
}

/*
 * Check a body of the HTTP interfaces: each member that limits the output must be within the limit, and
 * there must be one.
 */
static bool
check_body(const RoleItem *it, const RequestFields *w, Err *e)
{
	static const char *const names[] = {"max_tokens", "max_completion_tokens", "max_output_tokens"};
	const char *name = ends_with(w->api_path, "/responses") ? names[2] : names[0];
	JsonMembers m;
	StrView		key,
				value;
	bool		given = false;

	if (!ends_with(w->api_path, "/completions") && !ends_with(w->api_path, "/messages") &&
		!ends_with(w->api_path, "/responses"))
		return true;
	/* a body that is not JSON is refused elsewhere */
	if (w->api_body.s == NULL || !json_members(&m, w->api_body.s, w->api_body.n))
		return true;
	while (json_member(&m, &key, &value) > 0)
		for (int i = 0; i < 3; i++)
		{
			char		number[32];
			char	   *end;
			double		n;

			/* a key with an escape might be one of these names */
			if (memchr(key.s, '\\', key.n) != NULL)
				return err_set(e, ERR_INVALID,
							   "names of the body's members must not have escapes for this role");
			if (key.n != strlen(names[i]) || memcmp(key.s, names[i], key.n) != 0 ||
				(value.n == 4 && memcmp(value.s, "null", 4) == 0))
				continue;
			if (value.n >= sizeof(number))
				return account_too_many(names[i], it->max_tokens, INT64_MAX, e);
			memcpy(number, value.s, value.n);
			number[value.n] = '\0';
			n = strtod(number, &end);
			given = true;
			if (end == number || !(n <= it->max_tokens))
				return account_too_many(names[i], it->max_tokens,
										end == number || !(n < 9e18) ? INT64_MAX : (int64_t) n, e);
		}
	return given || account_too_many(name, it->max_tokens, -1, e);
}

bool
roles_read(RoleItem *it, const RequestFields *w, Err *e)
{
	WireIn		in = {w->fields, w->fields + w->len};
	WireField	f;
	bool		ok = true;

	*it = (RoleItem) {.role = w->login,.weight = ROLE_WEIGHT,.wait_ms = -1};
	while (ok && wire_next(&in, &f) > 0)
		switch (f.tag)
		{
			case WTAG_ROLE_WEIGHT:
				ok = account_take(&f, &it->weight, e);
				break;
			case WTAG_ROLE_MAX_REQUESTS:
				ok = account_take(&f, &it->max_requests, e);
				break;
			case WTAG_ROLE_TOKENS_PER_MINUTE:
				ok = account_take(&f, &it->tokens_per_minute, e);
				break;
			case WTAG_ROLE_MAX_TOKENS:
				ok = account_take(&f, &it->max_tokens, e);
				break;
			case WTAG_ROLE_LIMIT_WAIT:
				ok = account_take(&f, &it->wait_ms, e);
				break;
			default:
				break;
		}
	if (!ok || it->max_tokens == 0)
		return ok;
	if (w->kind == WK_API)
		return check_body(it, w, e);
	if (w->kind != WK_GENERATE || (w->max_tokens >= 0 && w->max_tokens <= it->max_tokens))
		return true;
	return account_too_many("max_tokens", it->max_tokens, w->max_tokens, e);
}

/* ---- accounts ---- */

Roles *
roles_new(void)
{
	return mem_zalloc(sizeof(Roles));
}

void
roles_free(Roles *r)
{
	while (r->all != NULL)
	{
		Role	   *a = r->all;

		r->all = a->next;
		mem_free(a);
	}
	mem_free(r);
}

/* Free the accounts that hold no information. */
static void
sweep(Roles *r, int64_t now)
{
	for (Role **at = &r->all; *at != NULL;)
	{
		Role	   *a = *at;

		if (!account_idle(&a->a, now))
		{
			at = &a->next;
			continue;
		}
		*at = a->next;
		mem_free(a);
		r->n--;
	}
}

static Role *
role_of(Roles *r, uint32_t id, int64_t now)
{
	Role	   *a = r->all;

	while (a != NULL && a->id != id)
		a = a->next;
	if (a != NULL)
		return a;
	if (r->n >= FEW_ROLES)
		sweep(r, now);
	a = mem_zalloc(sizeof(*a));
	a->id = id;
	a->next = r->all;
	r->all = a;
	r->n++;
	return a;
}

static RoleTerms
terms_of(const RoleItem *it)
{
	return (RoleTerms) {it->max_requests, it->tokens_per_minute, it->wait_ms};
}

RoleAnswer
roles_enter(Roles *r, RoleItem *it, int64_t tokens, int64_t now_us, Err *e)
{
	RoleTerms	t = terms_of(it);
	Role	   *a;

	ASSERT(it->of == NULL && !it->waits);
	it->estimate = tokens;
	/* a job has no limits, and keeps no session of its owner waiting */
	if (it->role == 0 || (it->max_requests == 0 && it->tokens_per_minute == 0))
		return ROLE_PASS;
	a = role_of(r, it->role, now_us);
	/* nobody overtakes waiting requests of the same role */
	if (a->head == NULL && account_open_at(&a->a, &t, now_us) <= now_us)
	{
		it->of = a;
		a->a.n_refs++;
		account_pass(&a->a, &t, tokens, now_us);
		return ROLE_PASS;
	}
	if (it->wait_ms == 0)
	{
		account_refuse(&a->a, &t, false, now_us, e);
		return ROLE_REFUSE;
	}
	it->of = a;
	a->a.n_refs++;
	it->waits = true;
	it->until_us = it->wait_ms > 0 ? now_us + (int64_t) it->wait_ms * 1000 : 0;
	it->next = NULL;
	it->prev = a->tail;
	if (a->tail != NULL)
		a->tail->next = it;
	else
		a->head = it;
	a->tail = it;
	r->n_waiting++;
	return ROLE_WAIT;
}

static void
unlink_item(Roles *r, RoleItem *it)
{
	Role	   *a = it->of;

	ALWAYS(it->waits && r->n_waiting > 0 && (it->prev == NULL) == (a->head == it) &&
		   (it->next == NULL) == (a->tail == it));
	if (it->prev != NULL)
		it->prev->next = it->next;
	else
		a->head = it->next;
	if (it->next != NULL)
		it->next->prev = it->prev;
	else
		a->tail = it->prev;
	it->prev = it->next = NULL;
	it->waits = false;
	r->n_waiting--;
}

RoleItem *
roles_next(Roles *r, int64_t now_us, int64_t *when_us)
{
	*when_us = INT64_MAX;
	if (r->n_waiting == 0)
		return NULL;
	for (Role *a = r->all; a != NULL; a = a->next)
	{
		RoleItem   *it = a->head;
		RoleTerms	t;
		int64_t		open;

		if (it == NULL)
			continue;
		t = terms_of(it);
		open = account_open_at(&a->a, &t, now_us);
		if (open <= now_us)
		{
			unlink_item(r, it);
			account_pass(&a->a, &t, it->estimate, now_us);
			return it;
		}
		if (open < *when_us)
			*when_us = open;
	}
	return NULL;
}

void
roles_leave(Roles *r, RoleItem *it, int64_t used, int64_t now_us)
{
	RoleTerms	t = terms_of(it);
	Role	   *a = it->of;

	if (a == NULL)
		return;
	if (it->waits)
		unlink_item(r, it);
	else
	{
		account_leave(&a->a, &t);
		if (used >= 0)
			account_charge(&a->a, it->tokens_per_minute, used - it->estimate, now_us);
	}
	ALWAYS(a->a.n_refs > 0);
	a->a.n_refs--;
	it->of = NULL;
}

void
roles_late(const RoleItem *it, int64_t now_us, Err *e)
{
	RoleTerms	t = terms_of(it);

	account_refuse(&it->of->a, &t, true, now_us, e);
}
