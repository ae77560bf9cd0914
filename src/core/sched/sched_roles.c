/*
 * sched_roles.c
 *	  Roles share what runs: seats and blocks, when these are short.
 *
 * The order of service (sched_queue.c) says whose turn it is, but a turn is worth nothing while others hold
 * all seats, or all blocks: their answers may take minutes, and those of them that were preempted wait in
 * front.  So of what runs at once a role has a portion: its part of all seats or of all blocks, the greater
 * of the two, divided by its weight.
 *
 *	- When a running request wants a block and there is none, the role with the greatest portion loses its
 *	  newest request.
 *	- Of those that were preempted and those that are new, one whose role would still have less goes before
 *	  one whose role has more.
 *	- When the next request finds no seat or no blocks, the role with the greatest portion loses its newest
 *	  requests to it, as long as that role keeps no less than the other gets.
 *
 * No role's oldest request is preempted for another role.  Each exchange leaves the portions closer together,
 * so none is reversed.  So the oldest request of all always runs on, and no request overtakes the one that
 * has waited longest in a role of which nothing runs: every request ends.  What is computed again after such
 * preemptions is bounded by what is generated meanwhile (GOES_ON).
 *
 * With SchedOptions.priorities the order is the callers', and there are no portions.  Requests in the
 * background have their own roles.
 *
 * Owner: the step thread.  Costs nothing while all that run are one role's and no other role waits.
 * Tested by tests/unit/core/sched/test_sched.c, tests/unit/core/test_sim.c.
 */
#include "core/sched/sched_internal.h"

#include "base/alloc.h"
#include "base/assert.h"

/* for each token of an answer so many rows may be computed again, for others' sake */
#define GOES_ON	8
#define SAVED	2				/* upper limit of such rows, in multiples of the pool's tokens */

/* ---- what roles have ---- */

/* The role below which r waits, or has waited; NULL: it has none. */
static Fair *
role_of(const Req *r)
{
	return r->sched.line != NULL ? r->sched.line->up : NULL;
}

static void
count(Sched *s, Fair *role, int blocks, int requests)
{
	if (role == NULL)
		return;
	if (role->counted != s->n_counts)
	{
		role->counted = s->n_counts;
		role->blocks = role->running = 0;
	}
	role->blocks += blocks;
	role->running += requests;
	ASSERT(role->blocks >= 0 && role->running >= 0);
}

void
sched_roles_count(Sched *s)
{
	s->n_counts++;
	for (int i = 0; i < s->n_running; i++)
		count(s, role_of(s->running[i]), (int) s->running[i]->kv.blocks.len, 1);
	for (const Req *r = s->held.head; r != NULL; r = r->sched.next)
		count(s, role_of(r), (int) r->kv.blocks.len, 0);
}

void
sched_roles_admitted(Sched *s, const Req *r)
{
	count(s, role_of(r), sched_blocks(s, (int64_t) r->tokens.len), 1);
}

/* Of what runs, by weight, with so much more. */
static double
portion(const Sched *s, const Fair *role, int blocks, int requests)
{
	bool		known = role->counted == s->n_counts;
	double		of_blocks = (double) ((known ? role->blocks : 0) + blocks) / kvpool_total(s->pool);
	double		of_seats = (double) ((known ? role->running : 0) + requests) / s->opt.max_seqs;

	return (of_blocks > of_seats ? of_blocks : of_seats) / role->weight;
}

bool
sched_roles_before(const Sched *s, const Req *r, const Req *other)
{
	const Fair *a = role_of(r);
	const Fair *b = role_of(other);

	if (s->opt.priorities || a == NULL || b == NULL || a == b)
		return false;
	return portion(s, a, sched_blocks(s, (int64_t) r->tokens.len), 1) <= portion(s, b, 0, 0);
}

/* ---- who wants a block, and there is none ---- */

/*
 * Some role has two that run, and one behind `from`: the newest of the one that has most.  Else the newest of
 * all.
 */
int
sched_roles_victim(Sched *s, int from)
{
	int			last = s->n_running - 1;
	int			victim = last;
	double		most = -1;

	if (s->opt.priorities || last < 1 || s->running[last]->sched.yields)
		return last;
	sched_roles_count(s);
	for (int i = last; i >= from && i > 0; i--)
	{
		const Fair *role = role_of(s->running[i]);

		if (role != NULL && role->running > 1 && portion(s, role, 0, 0) > most)
		{
			most = portion(s, role, 0, 0);
			victim = i;
		}
	}
	return victim;
}

/* ---- who is next, and finds no room ---- */

/* What becomes free when r gives up its blocks. */
static int
pages_of(const Sched *s, const Req *r)
{
	int			n = 0;

	for (size_t i = 0; i < r->kv.blocks.len; i++)
	{
		n += kvpool_refs(s->pool, r->kv.blocks.data[i]) == 1 ? kvpool_full(s->pool) : 0;
		if ((int) i >= r->kv.w_from && kvpool_window(s->pool) > 0)
			n += kvpool_window_refs(s->pool, r->kv.blocks.data[i]) == 1 ? kvpool_window(s->pool) : 0;
	}
	return n;
}

void
sched_roles_earn(Sched *s)
{
	int64_t		most = (int64_t) SAVED * kvpool_total(s->pool) * s->opt.block_size;

	s->may_lose = s->may_lose + GOES_ON < most ? s->may_lose + GOES_ON : most;
}

/* Could v be taken for r?  Not a role's oldest: another one of its role runs before it. */
static bool
may_be_taken(const Sched *s, const Req *r, int at)
{
	const Req  *v = s->running[at];
	const Fair *role = role_of(v);

	if (role == NULL || role == role_of(r) || queue_class(v) != queue_class(r))
		return false;
	for (int i = 0; i < at; i++)
		if (role_of(s->running[i]) == role && !s->running[i]->sched.taken)
			return true;
	return false;
}

/* One more for r: the newest of the role that has most; -1: there is none that r may have. */
static int
taken_for(const Sched *s, const Req *r)
{
	int			blocks = sched_blocks(s, (int64_t) r->tokens.len);
	double		gets = portion(s, role_of(r), blocks, 1);
	double		most = -1;
	int			victim = -1;

	for (int i = s->n_running - 1; i > 0; i--)
	{
		const Req  *v = s->running[i];
		const Fair *role = role_of(v);

		if (v->sched.taken || role == NULL || portion(s, role, 0, 0) <= most || !may_be_taken(s, r, i))
			continue;
		if (portion(s, role, -(int) v->kv.blocks.len, -1) < gets)
			continue;
		most = portion(s, role, 0, 0);
		victim = i;
	}
	return victim;
}

int
sched_roles_make_way(Sched *s, const Req *r, int pages)
{
	int			seats = s->n_running + 1 - s->opt.max_seqs;
	int64_t		lost = 0;
	int			n = 0;
	int			at;
	bool		enough;

	if (s->opt.priorities || role_of(r) == NULL)
		return 0;
	sched_roles_count(s);
	while ((seats > 0 || pages > 0) && (at = taken_for(s, r)) >= 0)
	{
		Req		   *v = s->running[at];

		v->sched.taken = true;
		count(s, role_of(v), -(int) v->kv.blocks.len, -1);
		seats--;
		lost += v->kv.computed;
		pages -= pages_of(s, v) + sched_pages_promised_to(s, v);
		n++;
	}
	/* all that it needs, or nothing */
	enough = seats <= 0 && pages <= 0 && lost <= s->may_lose;
	for (int i = s->n_running - 1; n > 0 && i >= 0; i--)
	{
		if (!s->running[i]->sched.taken)
			continue;
		s->running[i]->sched.taken = false;
		if (enough)
			sched_preempt(s, i);
	}
	sched_roles_count(s);
	s->may_lose -= enough ? lost : 0;
	return enough ? n : 0;
}
