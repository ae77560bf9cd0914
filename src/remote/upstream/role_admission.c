/*
 * role_admission.c
 *	  What roles may take.
 *
 * An account is kept as the time at which its bucket of one minute's tokens is full again, as in
 * core/sched/admission.c: it is empty when that is a minute or more ahead.  A request passes while there is
 * something in it; it takes an estimate then, and what it has really used when it ends.
 *
 * max_tokens of bodies of the HTTP interfaces are looked at, too; what isn't given can't be known to be
 * within the limit, so it must be given (to the SQL functions it always is).
 *
 * Tested by tests/unit/remote/test_remote_roles.c.
 */
#include "remote/upstream/role_admission.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/json_scan.h"
#include "base/alloc.h"

#define MINUTE_US	INT64_C(60000000)
#define FEW_ROLES	64

struct Role
{
	uint32_t	id;
	int			n_refs;			/* that have entered, and not left */
	int			in_flight;		/* passed requests of roles with a limit of requests in flight */
	double		full_us;
	RoleItem   *head, *tail;	/* that wait */
	Role	   *next;
};

struct Roles
{
	Role	   *all;
	int			n, n_waiting;
};

/* ---- messages ---- */

static bool
take_int(const WireField *f, int64_t least, int64_t most, int *out, Err *e)
{
	if (f->i < least || f->i > most)
		return err_set(e, ERR_INTERNAL, "field \"%s\" must not be %lld", wire_tag_name(f->tag),
					   (long long) f->i);
	*out = (int) f->i;
	return true;
}

static bool
too_many(const RoleItem *it, const char *name, long long n, Err *e)
{
	if (n >= 0)
	{
		err_set(e, ERR_INVALID, "%s must be at most %d for this role, got %lld", name, it->max_tokens, n);
		err_detail(e, "parameter=%s, value=%lld", name, n);
	}
	else
	{
		err_set(e, ERR_INVALID, "%s must be given, and be at most %d for this role", name, it->max_tokens);
		err_detail(e, "parameter=%s", name);
	}
	return err_hint(e, "The limit is the role's setting vllm.role_max_tokens.");
}

static bool
ends_with(FieldSpan s, const char *end)
{
	size_t		n = strlen(end);

	return s.n >= n && memcmp(s.s + s.n - n, end, n) == 0;
}

/*
 * A body of the HTTP interfaces: each of its members that limits an answer must be within; one must be there.
 */
static bool
check_body(const RoleItem *it, const RequestFields *w, Err *e)
{
	static const char *const names[] = {"max_tokens", "max_completion_tokens", "max_output_tokens"};
	const char *name = ends_with(w->api_path, "/responses") ? names[2] : names[0];
	JsonMembers m;
	JsonSpan	key,
				value;
	bool		given = false;

	if (!ends_with(w->api_path, "/completions") && !ends_with(w->api_path, "/messages") &&
		!ends_with(w->api_path, "/responses"))
		return true;
	/* what is no JSON is refused elsewhere */
	if (w->api_body.s == NULL || !json_members(&m, w->api_body.s, w->api_body.n))
		return true;
	while (json_member(&m, &key, &value) > 0)
		for (int i = 0; i < 3; i++)
		{
			char		number[32];
			char	   *end;
			double		n;

			/* an escape in a key might be one of these */
			if (memchr(key.s, '\\', key.n) != NULL)
				return err_set(e, ERR_INVALID,
							   "names of the body's members must not have escapes for this role");
			if (key.n != strlen(names[i]) || memcmp(key.s, names[i], key.n) != 0 ||
				(value.n == 4 && memcmp(value.s, "null", 4) == 0))
				continue;
			if (value.n >= sizeof(number))
				return too_many(it, names[i], LLONG_MAX, e);
			memcpy(number, value.s, value.n);
			number[value.n] = '\0';
			n = strtod(number, &end);
			given = true;
			if (end == number || !(n <= it->max_tokens))
				return too_many(it, names[i], end == number || !(n < 9e18) ? LLONG_MAX : (long long) n, e);
		}
	return given || too_many(it, name, -1, e);
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
				ok = take_int(&f, 1, ROLE_MAX_WEIGHT, &it->weight, e);
				break;
			case WTAG_ROLE_MAX_REQUESTS:
				ok = take_int(&f, 0, INT_MAX, &it->max_requests, e);
				break;
			case WTAG_ROLE_TOKENS_PER_MINUTE:
				ok = take_int(&f, 0, INT_MAX, &it->tokens_per_minute, e);
				break;
			case WTAG_ROLE_MAX_TOKENS:
				ok = take_int(&f, 0, INT_MAX, &it->max_tokens, e);
				break;
			case WTAG_ROLE_LIMIT_WAIT:
				ok = take_int(&f, -1, INT_MAX, &it->wait_ms, e);
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
	return too_many(it, "max_tokens", w->max_tokens, e);
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

/* Forget those that say nothing. */
static void
sweep(Roles *r, int64_t now)
{
	for (Role **at = &r->all; *at != NULL;)
	{
		Role	   *a = *at;

		if (a->n_refs > 0 || a->full_us > (double) now)
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

static void
charge(Role *a, int tokens_per_minute, int64_t n, int64_t now)
{
	if (tokens_per_minute == 0)
		return;
	if (a->full_us < (double) now)
		a->full_us = (double) now;
	a->full_us += (double) n * (double) MINUTE_US / tokens_per_minute;
}

/* When may it pass?  INT64_MAX: when another ends. */
static int64_t
open_at(const Role *a, const RoleItem *it, int64_t now)
{
	int64_t		filled = (int64_t) a->full_us - MINUTE_US + 1;

	if (it->max_requests > 0 && a->in_flight >= it->max_requests)
		return INT64_MAX;
	return it->tokens_per_minute > 0 && filled > now ? filled : now;
}

static void
pass(Role *a, RoleItem *it, int64_t now)
{
	a->in_flight += it->max_requests > 0;
	charge(a, it->tokens_per_minute, it->estimate, now);
}

static void
put_limit(const Role *a, const RoleItem *it, int64_t now, Err *e)
{
	int64_t		open = open_at(a, it, now);

	if (open == INT64_MAX || it->tokens_per_minute == 0)
	{
		err_set(e, ERR_LIMIT, "role has its limit of %d LLM requests in flight", it->max_requests);
		err_hint(e, "The limit is the role's setting vllm.role_max_requests; vllm.role_limit_timeout says "
					"how long to wait.");
		return;
	}
	err_set(e, ERR_LIMIT, "role has used up its limit of %d LLM tokens per minute", it->tokens_per_minute);
	err_detail(e, "The next request may begin in %.1f s.", (double) (open - now) / 1e6);
	err_hint(e, "The limit is the role's setting vllm.role_tokens_per_minute; vllm.role_limit_timeout says "
				"how long to wait.");
}

RoleAnswer
roles_enter(Roles *r, RoleItem *it, int64_t tokens, int64_t now_us, Err *e)
{
	Role	   *a;

	it->estimate = tokens;
	/* a job brings no limits, and keeps no session of its owner waiting */
	if (it->role == 0 || (it->max_requests == 0 && it->tokens_per_minute == 0))
		return ROLE_PASS;
	a = role_of(r, it->role, now_us);
	/* nobody overtakes those of its role */
	if (a->head == NULL && open_at(a, it, now_us) <= now_us)
	{
		it->of = a;
		a->n_refs++;
		pass(a, it, now_us);
		return ROLE_PASS;
	}
	if (it->wait_ms == 0)
	{
		put_limit(a, it, now_us, e);
		return ROLE_REFUSE;
	}
	it->of = a;
	a->n_refs++;
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
		int64_t		open;

		if (it == NULL)
			continue;
		open = open_at(a, it, now_us);
		if (open <= now_us)
		{
			unlink_item(r, it);
			pass(a, it, now_us);
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
	Role	   *a = it->of;

	if (a == NULL)
		return;
	if (it->waits)
		unlink_item(r, it);
	else
	{
		a->in_flight -= it->max_requests > 0;
		if (used >= 0)
			charge(a, it->tokens_per_minute, used - it->estimate, now_us);
	}
	a->n_refs--;
	it->of = NULL;
}

void
roles_late(const RoleItem *it, int64_t now_us, Err *e)
{
	put_limit(it->of, it, now_us, e);
	if (e->detail[0] == '\0')
		err_detail(e, "It has waited for %d ms.", it->wait_ms);
}
