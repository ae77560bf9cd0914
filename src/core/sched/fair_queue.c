/*
 * fair_queue.c
 *	  Fair queueing in a tree: which of the waiting leaves is served next.
 *
 * A node is kept while it has requests, and after that while its clock is ahead of its siblings': until
 * then it has got more than its share.  Nodes that are not ahead are freed when the number of siblings
 * has doubled; all children of a node are freed when the node has no requests any more.  With very many
 * siblings nodes that are ahead are freed, too: sessions of one request each, of which none ever comes
 * back, all end ahead of the next one.
 *
 * Owner: the step thread.  All operations are O(depth * log(siblings)), except fair_clear() and a sweep,
 * whose cost is amortized over the nodes that were added since the last one.  Tested by
 * tests/unit/core/sched/test_sched.c.
 */
#include "core/sched/fair_queue.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define FEW_KIDS 16
#define MANY_KIDS 4096

/* ---- the heap of a parent ---- */

static bool
before(const Fair *a, const Fair *b)
{
	return a->clock != b->clock ? a->clock < b->clock : a->since < b->since;
}

static void
place(Fair *up, int at, Fair *f)
{
	up->heap[at] = f;
	f->at = at;
}

static void
sift_up(Fair *up, int at)
{
	Fair	   *f = up->heap[at];

	for (; at > 0 && before(f, up->heap[(at - 1) / 2]); at = (at - 1) / 2)
		place(up, at, up->heap[(at - 1) / 2]);
	place(up, at, f);
}

static void
sift_down(Fair *up, int at)
{
	Fair	   *f = up->heap[at];

	for (;;)
	{
		int			kid = 2 * at + 1;

		if (kid >= up->n)
			break;
		if (kid + 1 < up->n && before(up->heap[kid + 1], up->heap[kid]))
			kid++;
		if (!before(up->heap[kid], f))
			break;
		place(up, at, up->heap[kid]);
		at = kid;
	}
	place(up, at, f);
}

static void
heap_add(Fair *up, Fair *f)
{
	if (up->n == up->cap)
	{
		up->cap = up->cap == 0 ? 8 : 2 * up->cap;
		up->heap = mem_realloc(up->heap, (size_t) up->cap * sizeof(Fair *));
	}
	up->heap[up->n++] = f;
	sift_up(up, up->n - 1);
}

static void
heap_remove(Fair *up, Fair *f)
{
	int			at = f->at;
	Fair	   *last;

	ALWAYS(at >= 0 && at < up->n && up->heap[at] == f);
	last = up->heap[--up->n];
	f->at = -1;
	if (last == f)
		return;
	place(up, at, last);
	sift_up(up, at);
	sift_down(up, last->at);
}

/* ---- a parent's clock ---- */

/* f has no requests any more: it stays active until its parent's clock has reached its own. */
static void
stay_ahead(Fair *f)
{
	Fair	   *up = f->up;

	ASSERT(!f->is_ahead && f->n_refs == 0);
	if (up->ahead == NULL || f->clock < up->soonest)
		up->soonest = f->clock;
	f->is_ahead = true;
	f->prev = NULL;
	f->next = up->ahead;
	if (f->next != NULL)
		f->next->prev = f;
	up->ahead = f;
}

/* f leaves the list: it has requests again, or the clock has reached it, or it is freed. */
static void
leave_ahead(Fair *f)
{
	ASSERT(f->is_ahead);
	f->is_ahead = false;
	if (f->prev != NULL)
		f->prev->next = f->next;
	else
		f->up->ahead = f->next;
	if (f->next != NULL)
		f->next->prev = f->prev;
}

/* The parent's clock has reached the first of the children that are ahead. */
static void
reach(Fair *up)
{
	Fair	   *next;

	up->now = up->soonest > up->now ? up->soonest : up->now;
	up->soonest = INFINITY;
	for (Fair *f = up->ahead; f != NULL; f = next)
	{
		next = f->next;
		if (f->clock <= up->now)
		{
			leave_ahead(f);
			up->active -= f->weight;
		}
		else if (f->clock < up->soonest)
			up->soonest = f->clock;
	}
}

static void
go_on(Fair *up, double service)
{
	while (up->ahead != NULL)
	{
		double		need = (up->soonest - up->now) * up->active;

		if (service < need)
			break;
		service -= need > 0 ? need : 0;
		reach(up);
	}
	up->now += service / up->active;
}

/* ---- nodes ---- */

Fair *
fair_kid(Fair *up, uint64_t key, double weight)
{
	Fair	   *f = idmap_get(&up->kids, key);

	ASSERT(weight > 0);
	if (f == NULL)
	{
		f = mem_zalloc(sizeof(*f));
		f->up = up;
		f->key = key;
		f->at = -1;
		f->clock = f->left = up->now;
		idmap_put(&up->kids, key, f);
	}
	if (f->n_refs > 0 || f->is_ahead)
		up->active += weight - f->weight;
	f->weight = weight;
	return f;
}

void
fair_clear(Fair *f)
{
	for (size_t i = 0; i < f->kids.cap; i++)
	{
		Fair	   *kid = f->kids.slots[i].value;

		if (kid == NULL)
			continue;
		fair_clear(kid);
		mem_free(kid);
	}
	idmap_free(&f->kids);
	mem_free(f->heap);
	f->heap = NULL;
	f->n = f->cap = 0;
	f->sweep_at = 0;
	f->now = f->active = 0;
	f->ahead = NULL;
	f->turns = 0;
}

/* Free the children without requests that are not ahead. */
static void
sweep(Fair *up)
{
	Fair	  **idle = mem_alloc(up->kids.n * sizeof(Fair *));
	bool		many = up->kids.n >= MANY_KIDS;
	size_t		n = 0;

	for (size_t i = 0; i < up->kids.cap; i++)
	{
		Fair	   *kid = up->kids.slots[i].value;

		if (kid != NULL && kid->n_refs == 0 && (many || kid->clock <= up->now))
			idle[n++] = kid;
	}
	for (size_t i = 0; i < n; i++)
	{
		if (idle[i]->is_ahead)
		{
			leave_ahead(idle[i]);
			up->active -= idle[i]->weight;
		}
		idmap_del(&up->kids, idle[i]->key);
		fair_clear(idle[i]);
		mem_free(idle[i]);
	}
	mem_free(idle);
	up->sweep_at = up->kids.n > FEW_KIDS / 2 ? 2 * up->kids.n : FEW_KIDS;
}

void
fair_ref(Fair *f)
{
	for (; f != NULL; f = f->up)
	{
		if (f->n_refs++ > 0 || f->up == NULL)
			continue;
		if (f->is_ahead)
			leave_ahead(f);
		else
			f->up->active += f->weight;
	}
}

void
fair_unref(Fair *f)
{
	Fair	   *empty = NULL;	/* the topmost node without requests */
	Fair	   *up;

	for (; f != NULL; f = f->up)
	{
		/* without requests a node is freed, though a request may still refer to it */
		ALWAYS(f->n_refs > 0);
		if (--f->n_refs == 0)
		{
			empty = f;
			/* not for a leaf: a session that is new for each request would count twice */
			if (f->up != NULL && f->kids.n > 0 && f->clock > f->up->now)
				stay_ahead(f);
			else if (f->up != NULL)
				f->up->active -= f->weight;
		}
	}
	if (empty == NULL)
		return;
	up = empty->up;
	fair_clear(empty);
	if (up != NULL && up->kids.n >= (up->sweep_at > 0 ? up->sweep_at : FEW_KIDS))
		sweep(up);
}

/* ---- turns ---- */

/*
 * f waits again after a pause.  The arrears that it had then are reduced by as much as the parent's
 * clock has advanced since.
 */
static void
catch_up(Fair *f)
{
	double		now = f->up->now;
	double		lag = (f->left - f->clock) - (now - f->left);

	if (f->clock < now)
		f->clock = lag > 0 ? now - lag : now;
}

static void
join(Fair *f, bool anew)
{
	for (; f->up != NULL && f->at < 0; f = f->up)
	{
		if (anew)
		{
			catch_up(f);
			f->since = ++f->up->turns;
		}
		heap_add(f->up, f);
	}
}

void
fair_wait(Fair *f)
{
	join(f, true);
}

void
fair_back(Fair *f)
{
	join(f, false);
}

void
fair_rest(Fair *f)
{
	for (; f->up != NULL && f->n == 0; f = f->up)
	{
		heap_remove(f->up, f);
		f->left = f->up->now;
	}
}

Fair *
fair_first(Fair *f)
{
	if (f->n == 0)
		return NULL;
	while (f->n > 0)
		f = f->heap[0];
	return f;
}

Fair *
fair_first_of(Fair *f, bool (*chosen) (const Req *r), double lead)
{
	Fair	   *first = NULL;	/* a child of f */
	Fair	   *leaf = NULL;

	if (f->n == 0)
		return f->queue.n > 0 && chosen(f->queue.head) ? f : NULL;
	for (int i = 0; i < f->n; i++)
	{
		Fair	   *kid = f->heap[i];
		Fair	   *l;

		if ((first != NULL && before(first, kid)) || (kid->clock - f->heap[0]->clock) * kid->weight > lead)
			continue;
		l = fair_first_of(kid, chosen, lead);
		if (l != NULL)
		{
			first = kid;
			leaf = l;
		}
	}
	return leaf;
}

void
fair_turn(Fair *f)
{
	for (; f->up != NULL; f = f->up)
	{
		f->since = ++f->up->turns;
		if (f->at >= 0)
			sift_down(f->up, f->at);
	}
}

void
fair_charge(Fair *f, double service)
{
	for (; f->up != NULL; f = f->up)
	{
		f->clock += service / f->weight;
		go_on(f->up, service);
		if (f->at >= 0)
			sift_down(f->up, f->at);
	}
}

bool
fair_check(const Fair *f)
{
	int64_t		refs = 0;
	int			n = 0;
	double		active = 0;

	for (int i = 0; i < f->n; i++)
		if (f->heap[i]->at != i || (i > 0 && before(f->heap[i], f->heap[(i - 1) / 2])))
			return false;
	for (size_t i = 0; i < f->kids.cap; i++)
	{
		const Fair *kid = f->kids.slots[i].value;

		if (kid == NULL)
			continue;
		if ((kid->at >= 0) != (kid->n > 0 || kid->queue.n > 0) || !fair_check(kid))
			return false;
		n += kid->at >= 0;
		refs += kid->n_refs;
		active += kid->n_refs > 0 || kid->is_ahead ? kid->weight : 0;
		if (kid->is_ahead && (kid->n_refs > 0 || kid->clock < f->soonest))
			return false;
	}
	return n == f->n && active == f->active && (f->kids.n == 0 || refs == f->n_refs);
}
