/*
 * sched_queue.c
 *	  The scheduler's queues: which requests wait, and which is next.
 *
 * Preempted requests come first (except for new ones whose roles have less: sched_roles.c), then
 * continuations, which replace their parents, then new ones, by fair shares of roles and of the sessions
 * of a role (fair_queue.h), FCFS within a session.  After RESUMED_PATIENCE continuations, or if its role
 * has less, a new request comes before them, if there is room for it: a beam search has as many
 * continuations with each token.  Of new requests latency work comes before its turn, but not often in a
 * row, nor far ahead of its share.  With SchedOptions.priorities new requests wait in one queue, by
 * priority, and these three kinds are compared by priority.
 *
 * Background requests (Caller) have queues of their own.  They are admitted when no other request waits,
 * and else for their share of what both classes get: SchedOptions.background_share.
 *
 * Service is counted in tokens: a prompt's tokens that had to be computed count once, output tokens
 * twice, as each needs a step of its own.  Recomputation after a preemption is not counted.
 *
 * Owner: the step thread.  Add and remove are O(log(roles) + log(sessions)), except for finding a
 * priority's place in its queue.
 */
#include "core/sched/sched_internal.h"

#include "base/assert.h"
#include "ipc_server/role_account.h"

#define RESUMED_PATIENCE 64
/*
 * limits of latency work that comes before other work whose turn it is: requests in a row, and tokens of
 * service ahead
 */
#define URGENT_PATIENCE 8
#define URGENT_LEAD 1024

/* ---- lists ---- */

/* Return true if r is in no list: not alone in l, and not linked to another request. */
static inline bool
is_unlinked(const ReqList *l, const Req *r)
{
	return r->sched.prev == NULL && r->sched.next == NULL && l->head != r;
}

void
reqlist_push_tail(ReqList *l, Req *r)
{
	ASSERT(is_unlinked(l, r));
	r->sched.prev = l->tail;
	r->sched.next = NULL;
	if (l->tail != NULL)
		l->tail->sched.next = r;
	else
		l->head = r;
	l->tail = r;
	l->n++;
}

static void
reqlist_push_head(ReqList *l, Req *r)
{
	ASSERT(is_unlinked(l, r));
	r->sched.prev = NULL;
	r->sched.next = l->head;
	if (l->head != NULL)
		l->head->sched.prev = r;
	else
		l->tail = r;
	l->head = r;
	l->n++;
}

/* Return true if a comes before b, in any class; of equal ones the one admitted first. */
bool
sched_precedes(const Req *a, const Req *b)
{
	if (a->in.priority != b->in.priority)
		return a->in.priority < b->in.priority;
	return a->sched.yields != b->sched.yields ? b->sched.yields : a->sched.admit_no < b->sched.admit_no;
}

/* Insert after all requests with its priority or a lower number. */
void
reqlist_insert(ReqList *l, Req *r)
{
	Req		   *at = l->tail;

	ASSERT(is_unlinked(l, r));
	while (at != NULL && at->in.priority > r->in.priority)
		at = at->sched.prev;
	if (at == NULL)
	{
		reqlist_push_head(l, r);
		return;
	}
	r->sched.prev = at;
	r->sched.next = at->sched.next;
	if (at->sched.next != NULL)
		at->sched.next->sched.prev = r;
	else
		l->tail = r;
	at->sched.next = r;
	l->n++;
}

void
reqlist_insert_at(ReqList *l, Req *r, Req *at)
{
	ASSERT(is_unlinked(l, r));
	if (at == NULL)
	{
		reqlist_push_tail(l, r);
		return;
	}
	r->sched.next = at;
	r->sched.prev = at->sched.prev;
	if (at->sched.prev != NULL)
		at->sched.prev->sched.next = r;
	else
		l->head = r;
	at->sched.prev = r;
	l->n++;
}

/* Insert before all requests with its priority or a higher number. */
void
reqlist_insert_before(ReqList *l, Req *r)
{
	Req		   *at = l->head;

	while (at != NULL && at->in.priority < r->in.priority)
		at = at->sched.next;
	reqlist_insert_at(l, r, at);
}

void
reqlist_remove(ReqList *l, Req *r)
{
	/* r must be in this list: removing it from another one would cut that list */
	ALWAYS(r->sched.prev != NULL ? r->sched.prev->sched.next == r : l->head == r);
	ALWAYS(r->sched.next != NULL ? r->sched.next->sched.prev == r : l->tail == r);
	ASSERT(l->n > 0);
	if (r->sched.prev != NULL)
		r->sched.prev->sched.next = r->sched.next;
	else
		l->head = r->sched.next;
	if (r->sched.next != NULL)
		r->sched.next->sched.prev = r->sched.prev;
	else
		l->tail = r->sched.prev;
	r->sched.prev = r->sched.next = NULL;
	l->n--;
}

/* ---- waiting ---- */

int
queue_class(const Req *r)
{
	return r->in.by.background ? CLASS_BACK : CLASS_FRONT;
}

/* Return the leaf in which r waits.  With priorities there is only one queue of new requests. */
static Fair *
line_of(Sched *s, const Req *r)
{
	Fair	   *roles = &s->line[queue_class(r)].roles;
	int			weight = r->in.by.weight > 0 ? r->in.by.weight : ROLE_WEIGHT;

	if (s->opt.priorities)
		return fair_kid(roles, 0, 1);
	return fair_kid(fair_kid(roles, r->in.by.role, weight), r->in.session, 1);
}

void
queue_enter(Sched *s, Req *r)
{
	s->lora.used = s->lora.used || r->in.lora != NULL;
	if (r->sched.line == NULL)
		fair_ref(r->sched.line = line_of(s, r));
}

ReqList *
queue_join(Sched *s, Req *r)
{
	Line	   *l = &s->line[queue_class(r)];

	/* r is in no queue yet, and holds no blocks */
	ASSERT(r->sched.state == RQ_NEW || r->sched.state == RQ_WAITING || r->sched.state == RQ_REMOVED);
	ASSERT(r->kv.blocks.len == 0 && r->kv.computed == 0);
	queue_enter(s, r);
	if (l->n_new++ == 0 && l->clock < s->line_now)
		l->clock = s->line_now;
	r->sched.state = RQ_WAITING;
	r->sched.plan_at = -1;
	r->kv.slot = -1;
	sched_want(s->waiting, r);
	return &r->sched.line->queue;
}

void
queue_joined(Sched *s, Req *r)
{
	(void) s;
	fair_wait(r->sched.line);
}

void
queue_preempted(Sched *s, Req *r)
{
	ReqList    *l = &s->line[queue_class(r)].preempted;
	Req		   *at = l->head;

	ASSERT(r->sched.state == RQ_PREEMPTED && r->kv.blocks.len == 0 && r->kv.slot < 0 && r->kv.computed == 0);
	while (at != NULL && sched_precedes(at, r))
		at = at->sched.next;
	reqlist_insert_at(l, r, at);
}

void
queue_remove(Sched *s, Req *r)
{
	ASSERT(r->sched.state == RQ_WAITING || r->sched.state == RQ_PREEMPTED ||
		   r->sched.state == RQ_CONTINUATION);
	sched_want_no_more(s->waiting, r);
	if (r->sched.state == RQ_PREEMPTED)
		reqlist_remove(&s->line[queue_class(r)].preempted, r);
	else if (r->sched.state == RQ_CONTINUATION)
		reqlist_remove(&s->resumed, r);
	else
	{
		reqlist_remove(&r->sched.line->queue, r);
		s->line[queue_class(r)].n_new--;
		ASSERT(s->line[queue_class(r)].n_new >= 0);
		if (r->sched.line->queue.n == 0)
			fair_rest(r->sched.line);
	}
}

void
queue_leave(Req *r)
{
	if (r->sched.line != NULL)
		fair_unref(r->sched.line);
	r->sched.line = NULL;
}

/* Return the new request that is next: latency work first, within URGENT_PATIENCE and URGENT_LEAD. */
static Req *
first_new(const Sched *s, Line *l)
{
	Fair	   *f = fair_first(&l->roles);
	Fair	   *urgent = NULL;

	if (f == NULL || sched_is_urgent(f->queue.head) || s->opt.priorities)
		return f != NULL ? f->queue.head : NULL;
	if (s->waiting[URGENT].n > 0 && s->n_urgent < URGENT_PATIENCE)
		urgent = fair_first_of(&l->roles, sched_is_urgent, URGENT_LEAD);
	return urgent != NULL ? urgent->queue.head : f->queue.head;
}

/* Return the first request of one class. */
static Req *
first_of(const Sched *s, Line *l)
{
	Req		   *fresh = first_new(s, l);
	Req		   *old = l->preempted.head;

	/* the oldest preempted request, except if the role of another one has less */
	for (Req *r = old; !s->opt.priorities && r != NULL; r = r->sched.next)
		if (sched_roles_before(s, r, old))
			old = r;
	if (fresh != NULL && old != NULL && sched_roles_before(s, fresh, old))
		return fresh;
	return old != NULL && (fresh == NULL || old->in.priority <= fresh->in.priority) ? old : fresh;
}

/* Return true if r, the first of its class, is due before the continuation. */
static bool
is_turn(const Sched *s, const Req *r, const Req *resumed)
{
	return !s->no_turn && r != NULL && r->sched.state == RQ_WAITING &&
		queue_class(r) <= queue_class(resumed) && r->in.priority == resumed->in.priority &&
		(s->n_resumed >= RESUMED_PATIENCE || sched_roles_before(s, r, resumed));
}

bool
queue_stand_back(Sched *s, const Req *r)
{
	if (s->resumed.head == NULL || !is_turn(s, r, s->resumed.head))
		return false;
	s->no_turn = true;
	return true;
}

Req *
queue_next(Sched *s)
{
	Req		   *front = first_of(s, &s->line[CLASS_FRONT]);
	Req		   *back = first_of(s, &s->line[CLASS_BACK]);
	Req		   *resumed = s->resumed.head;

	/* continuations have already had their turn, so they come before new requests */
	if (resumed != NULL && (front == NULL || front->sched.state != RQ_PREEMPTED ||
							resumed->in.priority < front->in.priority) &&
		(front == NULL || resumed->in.priority <= front->in.priority))
	{
		if (front != NULL && is_turn(s, front, resumed))
			return front;
		return front == NULL && is_turn(s, back, resumed) ? back : resumed;
	}
	if (front == NULL || back == NULL)
		return front != NULL ? front : back;
	if (front->sched.state == RQ_PREEMPTED || s->opt.background_share == 0)
		return front;
	return s->line[CLASS_BACK].clock < s->line[CLASS_FRONT].clock ? back : front;
}

bool
queue_waits(const Sched *s, int class)
{
	return s->line[class].n_new > 0 || s->line[class].preempted.n > 0;
}

void
queue_turn(Sched *s, Req *r)
{
	double		clock = s->line[queue_class(r)].clock;

	if (r->sched.state == RQ_CONTINUATION)
		s->n_resumed = s->line[CLASS_FRONT].n_new + s->line[CLASS_BACK].n_new > 0 ? s->n_resumed + 1 : 0;
	if (r->sched.state != RQ_WAITING)
		return;
	s->n_resumed = 0;
	s->n_urgent = sched_is_urgent(r) && s->waiting[NOT_URGENT].n > 0 ? s->n_urgent + 1 : 0;
	if (clock > s->line_now)
		s->line_now = clock;
	fair_turn(r->sched.line);
}

void
queue_charge(Sched *s, Req *r, double service)
{
	int			share = s->opt.background_share;

	if (r->sched.line == NULL)
		return;
	fair_charge(r->sched.line, service);
	s->line[queue_class(r)].clock += service / (r->in.by.background ? share > 0 ? share : 1 : 100 - share);
}

/* ---- integrity ---- */

static bool
check_list(const ReqList *l, ReqState state, int class, Wanted *wanted, Err *e)
{
	const Req  *prev = NULL;
	int			n = 0;

	for (const Req *r = l->head; r != NULL; prev = r, r = r->sched.next, n++)
	{
		if (r->sched.state != state || r->sched.prev != prev || r->kv.blocks.len != 0 || r->kv.slot >= 0 ||
			r->kv.computed != 0 || (class >= 0 && queue_class(r) != class))
			return err_set(e, ERR_INTERNAL, "waiting request %llu: state %d, %zu blocks, %d computed",
						   (unsigned long long) r->in.id, r->sched.state, r->kv.blocks.len, r->kv.computed);
		sched_want(wanted, r);
	}
	if (n != l->n || l->tail != prev)
		return err_set(e, ERR_INTERNAL, "queue of %d requests counts %d", n, l->n);
	return true;
}

/* Check all queues below f. */
static bool
check_tree(const Fair *f, int class, int *n, Wanted *wanted, Err *e)
{
	for (int i = 0; i < f->n; i++)
		if (!check_tree(f->heap[i], class, n, wanted, e))
			return false;
	*n += f->queue.n;
	return check_list(&f->queue, RQ_WAITING, class, wanted, e);
}

bool
queue_check(const Sched *s, Err *e)
{
	Wanted		wanted[N_URGENCIES] = {0};

	if (!check_list(&s->resumed, RQ_CONTINUATION, -1, wanted, e))
		return false;
	for (int c = 0; c < N_CLASSES; c++)
	{
		const Line *l = &s->line[c];
		int			n = 0;

		if (!check_list(&l->preempted, RQ_PREEMPTED, c, wanted, e) ||
			!check_tree(&l->roles, c, &n, wanted, e))
			return false;
		if (!fair_check(&l->roles) || n != l->n_new)
			return err_set(e, ERR_INTERNAL, "%d requests of class %d wait, counted %d", n, c, l->n_new);
	}
	for (int i = 0; i < N_URGENCIES; i++)
		if (wanted[i].rows != s->waiting[i].rows || wanted[i].n != s->waiting[i].n)
			return err_set(e, ERR_INTERNAL, "%d waiting requests want %lld rows, counted %d and %lld",
						   wanted[i].n, (long long) wanted[i].rows, s->waiting[i].n,
						   (long long) s->waiting[i].rows);
	return true;
}
