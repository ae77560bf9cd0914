/*
 * sched_prefix.c
 *	  The position of a request among the waiting ones of its session: next to those with the same
 *	  prefix.
 *
 * Rows of a statement have no order among themselves, as the client waits for all of them.  If their
 * prompts alternate between a few prefixes, and the cache has no room for all prefixes, each request
 * evicts the prefix that the next one needs.  So a row waits directly after the last one with which it
 * shares a prefix of at least a block, and they run one after the other.  After SCHED_PASS_MOST requests
 * have passed a request, no further one does.
 *
 * Latency work keeps the order in which it arrives: few of its requests wait.
 *
 * Owner: the step thread.  O(SCHED_PASS_MOST) comparisons of at most COMPARED tokens for each request.
 * Tested by test_order() in tests/unit/core/kv/test_prefix_cache.c.
 */
#include "core/sched/sched_internal.h"

#define COMPARED 1024

/* Return the length of the common prefix that the two requests could share. */
static int
common_tokens(const Req *a, const Req *b)
{
	size_t		n = a->tokens.len < b->tokens.len ? a->tokens.len : b->tokens.len;
	size_t		i = 0;

	if (!a->kv.shares || !b->kv.shares || a->kv.root != b->kv.root)
		return 0;
	n = n < COMPARED ? n : COMPARED;
	while (i < n && a->tokens.data[i] == b->tokens.data[i])
		i++;
	return (int) i;
}

/* Return true if r may wait in front of q. */
static bool
may_pass(const Req *r, const Req *q)
{
	return q->in.priority == r->in.priority && q->sched.passed_alike < SCHED_PASS_MOST &&
		!sched_is_urgent(q);
}

void
sched_place(Sched *s, ReqList *l, Req *r)
{
	Req		   *best = NULL;
	int			most = s->opt.block_size - 1;
	Req		   *q = l->tail;

	r->sched.passed_alike = 0;
	if (s->opt.prefix == NULL || s->opt.priorities || !r->kv.shares || sched_is_urgent(r) || q == NULL ||
		q->in.priority > r->in.priority)
	{
		reqlist_insert(l, r);
		return;
	}
	for (int i = 0; i < SCHED_PASS_MOST && q != NULL; i++, q = q->sched.prev)
	{
		int			n = q->in.priority == r->in.priority ? common_tokens(q, r) : 0;

		if (n > most)
		{
			most = n;
			best = q;
		}
		if (!may_pass(r, q))
			break;
	}
	if (best == NULL)
	{
		reqlist_insert(l, r);
		return;
	}
	for (q = best->sched.next; q != NULL; q = q->sched.next)
		q->sched.passed_alike++;
	reqlist_insert_at(l, r, best->sched.next);
}
