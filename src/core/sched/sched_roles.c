/*
 * sched_roles.c
 *	  Roles share the running requests' resources: seats (places among max_seqs) and blocks, when these
 *	  are short.
 *
 * The order of service (sched_queue.c) says whose turn it is, but that does not help while other roles
 * hold all seats or all blocks: their requests may run for minutes, and their preempted requests wait at
 * the front.  So each role has a portion of what runs: its part of all seats or of all blocks, whichever
 * is greater, divided by its weight.
 *
 * - When a running request needs a block and there is none, the role with the greatest portion loses its
 *   newest request.
 * - Of preempted and new requests, one whose role would still have less comes before one whose role has
 *   more.
 * - When the next request finds no seat or not enough blocks, the role with the greatest portion loses
 *   its newest requests to it, as long as that role keeps no less than the other gets.
 *
 * No role's oldest request is preempted for another role.  Each exchange makes the portions more equal,
 * so none is reversed.  Hence the oldest request of all always keeps running, and no request overtakes
 * the one that has waited longest in a role without running requests: every request ends.  Recomputation
 * after such preemptions is bounded by the tokens generated meanwhile (GOES_ON).
 *
 * With SchedOptions.priorities callers determine the order, and there are no portions.  Background
 * requests have roles of their own.
 *
 * Owner: the step thread.  Costs nothing while all running requests belong to one role and no other role
 * waits.  Tested by tests/unit/core/sched/test_sched.c, tests/unit/core/test_sim.c.
 */
#include "core/sched/sched_internal.h"

#include "base/alloc.h"
#include "base/assert.h"

/* rows that may be recomputed for other roles per generated token */
#define GOES_ON	8
#define SAVED	2				/* upper limit of saved rows, in multiples of the pool's tokens */

/* ---- usage of roles ---- */

/* Return the role of r's leaf in the fair queue; NULL = it has none. */
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

/*
 * Return the role's portion of what runs, divided by its weight, if it had so many more blocks and
 * requests.
 */
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

/* ---- a running request lacks a block ---- */

/*
 * Choose the newest request, from index `from` on, of the role with the greatest portion among roles
 * with several running requests.  If there is none, choose the newest of all.
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

/* ---- the next request finds no room ---- */

/* Return the pages that become free when r's blocks are freed. */
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

/*
 * Return true if the running request at `at` could be preempted for r: another role's, and not its
 * role's oldest.
 */
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

/*
 * Choose one more request to preempt for r: the newest of the role with the greatest portion; -1 = none
 * is allowed.
 */
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
	/* preempt only if that gives r all that it needs */
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
