/*
 * request_queue.c
 *	  The queue of a model's requests.
 *
 * The queue is a list of levels, one for each priority.  A level is a list of turns.  A turn is a login
 * with its requests in order of arrival.  On the first level that has one, the turn that has had the
 * least service by its weight gives its first request; among equals, the one that has waited longest.  A
 * new turn starts with the service that the others have had.
 *
 * A request whose input may be coalesced belongs to a group of such requests.  When its turn comes, the
 * others of its group go with it, whatever their login: they take nobody's place.  So the longer the
 * queue is, the fuller the calls are, without any request waiting for that.  Only if the group isn't
 * full, a call is running and the group's oldest request is younger than COALESCE_WAIT_US, the next turn
 * is served first.
 *
 * Tested by tests/unit/remote/test_remote_request_queue.c.
 */
#include "remote/request_queue.h"

#include <stddef.h>

#include "base/alloc.h"
#include "base/assert.h"

/* groups that the queue distinguishes; requests of further kinds are sent alone */
#define MOST_GROUPS	64

typedef struct RequestQueueLevel
{
	bool		first, background;
	int			priority;
	RoleQueue *role_queues, *last;	/* in the order in which they are served */
	double		had;			/* service of the turn that was served last, before that */
	struct RequestQueueLevel *next;
} RequestQueueLevel;

struct RoleQueue
{
	RequestQueueLevel *level;
	uint32_t	login;
	double		had;			/* requests served, divided by the weight */
	QueueItem *head, *tail;
	RoleQueue *next;
};

struct QueueGroup
{
	QueueItem *head, *tail;
	int			n;
	QueueGroup *next;
};

struct RequestQueue
{
	QueueSame	same;
	int			most;
	int			n;
	RequestQueueLevel *levels;
	QueueGroup *groups;
	int			n_groups;
};

RequestQueue *
rqueue_new(QueueSame same, int most)
{
	RequestQueue *g = mem_zalloc(sizeof(*g));

	g->same = same;
	g->most = most;
	return g;
}

void
rqueue_free(RequestQueue *g)
{
	mem_free(g);
}

int
rqueue_count(const RequestQueue *g)
{
	return g->n;
}

/* Return -1, 0 or 1 if the item is before, on or after the level. */
static int
order(const QueueItem *it, const RequestQueueLevel *l)
{
	if (it->first != l->first)
		return it->first ? -1 : 1;
	if (it->background != l->background)
		return it->background ? 1 : -1;
	return it->priority < l->priority ? -1 : it->priority > l->priority;
}

static RoleQueue *
role_queue_of(RequestQueue *g, const QueueItem *it)
{
	RequestQueueLevel **at = &g->levels;
	RequestQueueLevel *l;
	RoleQueue *t;

	while (*at != NULL && order(it, *at) > 0)
		at = &(*at)->next;
	l = *at;
	if (l == NULL || order(it, l) != 0)
	{
		l = mem_zalloc(sizeof(*l));
		*l = (RequestQueueLevel) {.first = it->first,.background = it->background,.priority = it->priority,
								  .next = *at};
		*at = l;
	}
	for (t = l->role_queues; t != NULL; t = t->next)
		if (t->login == it->login)
			return t;
	t = mem_zalloc(sizeof(*t));
	t->level = l;
	t->login = it->login;
	t->had = l->had;
	if (l->last != NULL)
		l->last->next = t;
	else
		l->role_queues = t;
	l->last = t;
	return t;
}

static void
join_group(RequestQueue *g, QueueItem *it)
{
	QueueGroup *p = g->groups;

	if (!it->can_join || g->most < 2)
		return;
	while (p != NULL && !g->same(p->head, it))
		p = p->next;
	if (p == NULL)
	{
		if (g->n_groups >= MOST_GROUPS)
			return;
		p = mem_zalloc(sizeof(*p));
		p->next = g->groups;
		g->groups = p;
		g->n_groups++;
	}
	it->group = p;
	it->group_prev = p->tail;
	if (p->tail != NULL)
		p->tail->group_next = it;
	else
		p->head = it;
	p->tail = it;
	p->n++;
}

void
rqueue_add(RequestQueue *g, QueueItem *it)
{
	RoleQueue *t;

	/* it is in no list */
	ALWAYS(it->role_queue == NULL);
	t = role_queue_of(g, it);
	it->role_queue = t;
	it->prev = t->tail;
	it->next = NULL;
	if (t->tail != NULL)
		t->tail->next = it;
	else
		t->head = it;
	t->tail = it;
	it->group = NULL;
	it->group_prev = it->group_next = NULL;
	join_group(g, it);
	g->n++;
}

static void
leave_group(RequestQueue *g, QueueItem *it)
{
	QueueGroup *p = it->group;

	if (p == NULL)
		return;
	ALWAYS(p->n > 0 && (it->group_prev == NULL) == (p->head == it) &&
		   (it->group_next == NULL) == (p->tail == it));
	if (it->group_prev != NULL)
		it->group_prev->group_next = it->group_next;
	else
		p->head = it->group_next;
	if (it->group_next != NULL)
		it->group_next->group_prev = it->group_prev;
	else
		p->tail = it->group_prev;
	it->group = NULL;
	it->group_prev = it->group_next = NULL;
	if (--p->n > 0)
		return;
	for (QueueGroup **at = &g->groups; *at != NULL; at = &(*at)->next)
		if (*at == p)
		{
			*at = p->next;
			break;
		}
	mem_free(p);
	g->n_groups--;
}

/* Free a turn without requests, and a level without turns. */
static void
tidy(RequestQueue *g, RoleQueue *t)
{
	RequestQueueLevel *l = t->level;
	RoleQueue *before = NULL;

	if (t->head != NULL)
		return;
	for (RoleQueue *x = l->role_queues; x != t; x = x->next)
		before = x;
	if (before != NULL)
		before->next = t->next;
	else
		l->role_queues = t->next;
	if (l->last == t)
		l->last = before;
	mem_free(t);
	if (l->role_queues != NULL)
		return;
	for (RequestQueueLevel **at = &g->levels; *at != NULL; at = &(*at)->next)
		if (*at == l)
		{
			*at = l->next;
			break;
		}
	mem_free(l);
}

void
rqueue_remove(RequestQueue *g, QueueItem *it)
{
	RoleQueue *t = it->role_queue;

	ALWAYS(t != NULL && g->n > 0 && (it->prev == NULL) == (t->head == it) &&
		   (it->next == NULL) == (t->tail == it));
	leave_group(g, it);
	if (it->prev != NULL)
		it->prev->next = it->next;
	else
		t->head = it->next;
	if (it->next != NULL)
		it->next->prev = it->prev;
	else
		t->tail = it->prev;
	it->role_queue = NULL;
	it->prev = it->next = NULL;
	g->n--;
	tidy(g, t);
}

/* The turn has been served.  Move it after the turns of its level that have had as much service. */
static void
pass(RoleQueue *t, int weight)
{
	RequestQueueLevel *l = t->level;
	RoleQueue *before = NULL;

	if (t->had > l->had)
		l->had = t->had;
	t->had += 1.0 / (weight > 0 ? weight : 1);
	if (l->last == t)
		return;
	for (RoleQueue *x = l->role_queues; x != t; x = x->next)
		before = x;
	if (before != NULL)
		before->next = t->next;
	else
		l->role_queues = t->next;
	t->next = NULL;
	l->last->next = t;
	l->last = t;
}

/* May the request be sent now?  If not, lower *when_us to the time when it may. */
static bool
ripe(const RequestQueue *g, const QueueItem *it, bool idle, int64_t now, int64_t *when_us)
{
	const QueueGroup *p = it->group;
	int64_t		due;

	if (p == NULL || idle || p->n >= g->most)
		return true;
	due = p->head->since_us + COALESCE_WAIT_US;
	if (due <= now || it->since_us + COALESCE_WAIT_US <= now)
		return true;
	if (due < *when_us)
		*when_us = due;
	return false;
}

int
rqueue_take(RequestQueue *g, bool idle, int64_t now_us, QueueItem **v, int64_t *when_us)
{
	QueueItem *it = NULL;
	QueueGroup *p;
	int			n = 0;

	*when_us = INT64_MAX;
	for (RequestQueueLevel *l = g->levels; l != NULL && it == NULL; l = l->next)
		for (RoleQueue *t = l->role_queues; t != NULL; t = t->next)
			if ((it == NULL || t->had < it->role_queue->had) && ripe(g, t->head, idle, now_us, when_us))
				it = t->head;
	if (it == NULL)
		return 0;
	p = it->group;
	pass(it->role_queue, it->weight);
	v[n++] = it;
	for (QueueItem *x = p != NULL ? p->head : NULL; x != NULL && n < g->most; x = x->group_next)
		if (x != it)
			v[n++] = x;
	ALWAYS(n <= g->most || n == 1);
	for (int i = 0; i < n; i++)
		rqueue_remove(g, v[i]);
	return n;
}

void
rqueue_each(RequestQueue *g, void (*f) (void *ctx, QueueItem *it), void *ctx)
{
	QueueItem **all = mem_alloc((size_t) g->n * sizeof(*all));
	int			n = 0;

	for (RequestQueueLevel *l = g->levels; l != NULL; l = l->next)
		for (RoleQueue *t = l->role_queues; t != NULL; t = t->next)
			for (QueueItem *it = t->head; it != NULL; it = it->next)
				all[n++] = it;
	ALWAYS(n == g->n);
	for (int i = 0; i < n; i++)
		f(ctx, all[i]);
	mem_free(all);
}
