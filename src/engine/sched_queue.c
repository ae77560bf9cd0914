/*
 * sched_queue.c
 *	  Who waits, and who is next: the scheduler's queues.
 *
 * Preempted requests come first, then forks that go on in their parents' place, then new ones, in
 * round robin over sessions, FCFS within one.  With SchedOptions.priorities new requests wait in one
 * queue, by priority, and the classes are compared by it.
 *
 * Invariant (queue_check): a session is known exactly while it has requests that wait.
 *
 * Owner: the step thread.  Add and remove are O(1), but for a priority's place in its queue.
 */
#include "engine/sched_int.h"

#include "base/mem.h"

/* ---- lists ---- */

void
reqlist_push_tail(ReqList *l, Req *r)
{
	r->prev = l->tail;
	r->next = NULL;
	if (l->tail != NULL)
		l->tail->next = r;
	else
		l->head = r;
	l->tail = r;
	l->n++;
}

static void
reqlist_push_head(ReqList *l, Req *r)
{
	r->prev = NULL;
	r->next = l->head;
	if (l->head != NULL)
		l->head->prev = r;
	else
		l->tail = r;
	l->head = r;
	l->n++;
}

/* Does a come before b, of any class?  Of equals who was admitted first. */
bool
sched_precedes(const Req *a, const Req *b)
{
	return a->priority != b->priority ? a->priority < b->priority : a->admit_no < b->admit_no;
}

/* Behind all that have its priority, or a lower number. */
void
reqlist_insert(ReqList *l, Req *r)
{
	Req		   *at = l->tail;

	while (at != NULL && at->priority > r->priority)
		at = at->prev;
	if (at == NULL)
	{
		reqlist_push_head(l, r);
		return;
	}
	r->prev = at;
	r->next = at->next;
	if (at->next != NULL)
		at->next->prev = r;
	else
		l->tail = r;
	at->next = r;
	l->n++;
}

/* In front of all that have its priority, or a higher number. */
void
reqlist_insert_before(ReqList *l, Req *r)
{
	Req		   *at = l->head;

	while (at != NULL && at->priority < r->priority)
		at = at->next;
	if (at == NULL)
	{
		reqlist_push_tail(l, r);
		return;
	}
	r->next = at;
	r->prev = at->prev;
	if (at->prev != NULL)
		at->prev->next = r;
	else
		l->head = r;
	at->prev = r;
	l->n++;
}

void
reqlist_remove(ReqList *l, Req *r)
{
	if (r->prev != NULL)
		r->prev->next = r->next;
	else
		l->head = r->next;
	if (r->next != NULL)
		r->next->prev = r->prev;
	else
		l->tail = r->prev;
	r->prev = r->next = NULL;
	l->n--;
}

static void
ring_append(Sched *s, Session *ss)
{
	ss->prev = s->ring_tail;
	ss->next = NULL;
	if (s->ring_tail != NULL)
		s->ring_tail->next = ss;
	else
		s->ring_head = ss;
	s->ring_tail = ss;
}

static void
ring_remove(Sched *s, Session *ss)
{
	if (ss->prev != NULL)
		ss->prev->next = ss->next;
	else
		s->ring_head = ss->next;
	if (ss->next != NULL)
		ss->next->prev = ss->prev;
	else
		s->ring_tail = ss->prev;
}

/* ---- waiting ---- */

/* With priorities there is but one queue of new requests. */
static uint64_t
session_of(const Sched *s, const Req *r)
{
	return s->opt.priorities ? 0 : r->session;
}

static void
dequeue_session(Sched *s, Req *r)
{
	Session    *ss = idmap_get(&s->sessions, session_of(s, r));

	reqlist_remove(&ss->queue, r);
	s->n_waiting--;
	if (ss->queue.n == 0)
	{
		ring_remove(s, ss);
		idmap_del(&s->sessions, ss->key);
		mem_free(ss);
	}
}

void
queue_remove(Sched *s, Req *r)
{
	s->todo_waiting -= req_todo(r);
	if (r->state == RQ_PREEMPTED)
		reqlist_remove(&s->preempted, r);
	else if (r->state == RQ_RESUMED)
		reqlist_remove(&s->resumed, r);
	else
		dequeue_session(s, r);
}

/* Who is to be admitted next; NULL = nobody waits. */
Req *
queue_next(const Sched *s)
{
	Req		   *classes[] = {s->preempted.head, s->resumed.head, s->ring_head != NULL ? s->ring_head->queue.head : NULL};
	Req		   *first = NULL;

	for (int i = 0; i < 3; i++)
		if (classes[i] != NULL && (first == NULL || classes[i]->priority < first->priority))
			first = classes[i];
	return first;
}

/* r, which was new, is admitted: the next turn is another session's. */
void
queue_turn(Sched *s, const Req *r)
{
	Session    *ss = idmap_get(&s->sessions, session_of(s, r));

	if (ss == NULL)
		return;
	ring_remove(s, ss);
	ring_append(s, ss);
}

/* The queue that r shall wait in. */
ReqList *
queue_join(Sched *s, Req *r)
{
	Session    *ss = idmap_get(&s->sessions, session_of(s, r));

	if (ss == NULL)
	{
		ss = mem_zalloc(sizeof(*ss));
		ss->key = session_of(s, r);
		idmap_put(&s->sessions, ss->key, ss);
		ring_append(s, ss);
	}
	r->state = RQ_WAITING;
	r->plan_at = -1;
	r->slot = -1;
	s->n_waiting++;
	s->todo_waiting += req_todo(r);
	return &ss->queue;
}

/* ---- integrity ---- */

static bool
check_list(const ReqList *l, ReqState state, int64_t *todo, Err *e)
{
	const Req  *prev = NULL;
	int			n = 0;

	for (const Req *r = l->head; r != NULL; prev = r, r = r->next, n++)
	{
		if (r->state != state || r->prev != prev || r->blocks.len != 0 || r->slot >= 0 || r->computed != 0)
			return err_set(e, ERR_INTERNAL, "waiting request %llu: state %d, %zu blocks, %d computed",
						   (unsigned long long) r->id, r->state, r->blocks.len, r->computed);
		*todo += req_todo(r);
	}
	if (n != l->n || l->tail != prev)
		return err_set(e, ERR_INTERNAL, "queue of %d requests counts %d", n, l->n);
	return true;
}

bool
queue_check(const Sched *s, Err *e)
{
	int64_t		todo = 0;
	int			n = 0;
	size_t		n_sessions = 0;

	if (!check_list(&s->preempted, RQ_PREEMPTED, &todo, e) || !check_list(&s->resumed, RQ_RESUMED, &todo, e))
		return false;
	for (const Session *ss = s->ring_head; ss != NULL; ss = ss->next, n_sessions++)
	{
		if (ss->queue.n == 0 || idmap_get(&s->sessions, ss->key) != ss)
			return err_set(e, ERR_INTERNAL, "session %llu is empty or unknown",
						   (unsigned long long) ss->key);
		if (!check_list(&ss->queue, RQ_WAITING, &todo, e))
			return false;
		n += ss->queue.n;
	}
	if (n != s->n_waiting || todo != s->todo_waiting || n_sessions != s->sessions.n)
		return err_set(e, ERR_INTERNAL, "%d requests in %zu sessions want %lld rows, counted %d, %zu, %lld",
					   n, n_sessions, (long long) todo, s->n_waiting, s->sessions.n,
					   (long long) s->todo_waiting);
	return true;
}
