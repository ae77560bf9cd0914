/*
 * sched.c
 *	  The scheduler: which requests get how many rows of the next step.
 *
 * There is no prefill and no decode phase.  A request has tokens (prompt and
 * output so far) and `computed`, the number of those whose K/V are in its
 * blocks; a step hands out rows so that computed catches up:
 *
 *	1. running requests that lack one row (they decode), in order of admission;
 *	2. running requests that lack more (prompts, recomputed ones), same order;
 *	3. if nobody was preempted: waiting requests, as blocks and the row and time
 *	   budgets admit.  Preempted ones come first, then forks that go on in their
 *	   parents' place (one each: more would keep others out), then new ones; new ones in round
 *	   robin over sessions, FCFS within a session; the first that doesn't fit
 *	   ends the pass, so nobody is overtaken for ever.
 *
 * A prompt's chunk is bounded by the row budget, by the predicted time of the
 * step (cost.c) and, while others want rows too, by half of what is left: one
 * long prompt can neither stop the decodes nor keep short prompts out.
 *
 * When a running request can't get a block, the most recently admitted running
 * one is preempted: its blocks are freed, computed = 0, and it waits in front.
 * Its rows in the plan at hand, if any, are refunded.  A model with recurrent state has a
 * slot of it for each running request, which goes the way of the blocks.
 *
 * A fork is a request that begins with all the tokens of another, its parent, whose
 * last rows have just been computed.  The parent is then held: off the running list,
 * but with its blocks, until its forks have been admitted; these take a reference to
 * each full block, and a copy of the last.  Blocks so shared are never written: a
 * request writes behind its `computed` only.  Held blocks are the first to go when
 * blocks are short; then, as after a preemption, forks compute all by themselves.
 *
 * With SchedOptions.priorities new requests wait in one queue, by priority, and all orders below are
 * by (priority, first admission): who has the lower number is admitted first, and preempted last.
 *
 * Invariants (sched_check):
 *  - running[] is in order of first admission, the preempted queue too, and all
 *	  of the former are older than all of the latter.  So victims are always the
 *	  tail of running[], which therefore only shrinks at its end while the plan
 *	  walks over it by index: nothing is mutated under an iterator.
 *  - The oldest request is never a victim unless it is alone, and alone it fits
 *	  (sched_fits, checked at submission): every plan makes it progress, so
 *	  there is no livelock.
 *  - A new request is admitted only if its whole prompt fits beside what the
 *	  running ones still need, plus a block for each of them.
 *  - A held request has forks that wait.
 *
 * Owner: the step thread.  A plan costs O(running + admitted); add and remove
 * are O(1) but for the shift in running[].  Tested by tests/unit/test_sched.c
 * (hand-written traces, fairness, random operations, tiny pools).
 */
#include "engine/core_int.h"

#include <string.h>

#include "base/mem.h"

#define MIN_CHUNK 16			/* prompt rows a step may always have */
#define UNWATCHED 4				/* a step nobody reads along with may take so many times the target */

typedef struct ReqList
{
	Req		   *head;
	Req		   *tail;
	int			n;
} ReqList;

/* The waiting requests of one session; freed when it has none. */
typedef struct Session
{
	uint64_t	key;
	ReqList		queue;
	struct Session *prev;		/* neighbours in the round robin */
	struct Session *next;
} Session;

struct Sched
{
	SchedOptions opt;
	KvPool	   *pool;
	Share		share;
	Cost		cost;

	Req		  **running;		/* [opt.max_seqs], by admit_no */
	int			n_running;
	ReqList		preempted;		/* by admit_no */
	ReqList		resumed;		/* forks in the place of their parents */
	ReqList		held;			/* newest last */
	Session    *ring_head;		/* next session to be served */
	Session    *ring_tail;
	IdMap		sessions;
	int			n_waiting;		/* in session queues */
	int64_t		todo_waiting;	/* rows wanted by waiting and preempted ones */
	uint64_t	next_admit_no;
	int64_t		n_preemptions;
	int		   *free_slots;		/* [n_free_slots] */
	int			n_free_slots;

	Plan		plan;
	/* scratch of the plan at hand */
	int			others;			/* candidates for prompt rows not yet looked at */
	int64_t		others_todo;	/* the rows they want */
	int			prompt_rows;	/* prompt rows handed out */
	double		target_us;		/* of this step; 0 = none */
};

/* ---- lists ---- */

static void
list_push_tail(ReqList *l, Req *r)
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
list_push_head(ReqList *l, Req *r)
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
static bool
precedes(const Req *a, const Req *b)
{
	return a->priority != b->priority ? a->priority < b->priority : a->admit_no < b->admit_no;
}

/* Behind all that have its priority, or a lower number. */
static void
list_insert(ReqList *l, Req *r)
{
	Req		   *at = l->tail;

	while (at != NULL && at->priority > r->priority)
		at = at->prev;
	if (at == NULL)
	{
		list_push_head(l, r);
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
static void
list_insert_before(ReqList *l, Req *r)
{
	Req		   *at = l->head;

	while (at != NULL && at->priority < r->priority)
		at = at->next;
	if (at == NULL)
	{
		list_push_tail(l, r);
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

static void
list_remove(ReqList *l, Req *r)
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

	list_remove(&ss->queue, r);
	s->n_waiting--;
	if (ss->queue.n == 0)
	{
		ring_remove(s, ss);
		idmap_del(&s->sessions, ss->key);
		mem_free(ss);
	}
}

static void
dequeue(Sched *s, Req *r)
{
	s->todo_waiting -= req_todo(r);
	if (r->state == RQ_PREEMPTED)
		list_remove(&s->preempted, r);
	else if (r->state == RQ_RESUMED)
		list_remove(&s->resumed, r);
	else
		dequeue_session(s, r);
}

/* Who is to be admitted next; NULL = nobody waits. */
static Req *
next_waiting(const Sched *s)
{
	Req		   *classes[] = {s->preempted.head, s->resumed.head, s->ring_head != NULL ? s->ring_head->queue.head : NULL};
	Req		   *first = NULL;

	for (int i = 0; i < 3; i++)
		if (classes[i] != NULL && (first == NULL || classes[i]->priority < first->priority))
			first = classes[i];
	return first;
}

/* ---- blocks ---- */

static int
blocks_for(const Sched *s, int64_t n_tokens)
{
	return (int) ((n_tokens + s->opt.block_size - 1) / s->opt.block_size);
}

/* The last output token is never an input: it needs no K/V. */
bool
sched_fits(const Sched *s, int64_t n_tokens)
{
	return blocks_for(s, n_tokens - 1) <= kvpool_total(s->pool);
}

bool
sched_must_fit(const Sched *s, int n_prompt, int max_tokens, Err *e)
{
	int64_t		n_tokens = (int64_t) n_prompt + max_tokens;

	if (sched_fits(s, n_tokens))
		return true;
	err_set(e, ERR_TOO_LONG, "request needs %d KV cache blocks but the model has %d",
			blocks_for(s, n_tokens - 1), kvpool_total(s->pool));
	err_detail(e, "The prompt has %d tokens, max_tokens is %d and a block holds %d tokens.",
			   n_prompt, max_tokens, s->opt.block_size);
	return err_hint(e, "Lower max_tokens or give the model more KV cache memory.");
}

/* What a running request holds, on every way out. */
static void
free_memory(Sched *s, Req *r)
{
	share_leave(&s->share, r);
	if (r->slot >= 0)
		s->free_slots[s->n_free_slots++] = r->slot;
	r->slot = -1;
}

/* ---- forks ---- */

/* A held request gives its blocks back. */
static void
release_held(Sched *s, Req *r)
{
	list_remove(&s->held, r);
	free_memory(s, r);
	r->computed = 0;
	r->state = RQ_GONE;
}

/* r needs its parent no more. */
static void
leave_parent(Sched *s, Req *r)
{
	Req		   *parent = r->parent;

	r->parent = NULL;
	if (parent != NULL && --parent->n_forks == 0 && parent->state == RQ_HELD)
		release_held(s, parent);
}

/* How many blocks could r take over without a copy? */
static int
blocks_of_parent(const Sched *s, const Req *r)
{
	return r->parent != NULL && r->parent->state == RQ_HELD ? r->parent->computed / s->opt.block_size : 0;
}

/* Nobody else needs the parent: its blocks can be had as they are, the last included. */
static bool
inherits(const Req *r)
{
	return r->parent != NULL && r->parent->state == RQ_HELD && r->parent->n_forks == 1;
}

/* How many of its tokens has it when it is admitted? */
static int
tokens_of_parent(const Sched *s, const Req *r)
{
	int			blocks = blocks_of_parent(s, r);

	if (r->parent == NULL || r->parent->state != RQ_HELD)
		return 0;
	if (inherits(r))
		return r->parent->computed;
	return kvpool_available(s->pool) > 0 ? r->parent->computed : blocks * s->opt.block_size;
}

/* What its parent has computed of r's tokens; r's own rows follow. */
static void
take_over(Sched *s, Req *r)
{
	int			blocks = blocks_of_parent(s, r);
	int			tokens = tokens_of_parent(s, r);

	share_note(&s->share, r->parent, r->parent->computed, false);
	share_inherit(r, r->parent);
	if (inherits(r))
	{
		IntVec		t = r->blocks;

		r->blocks = r->parent->blocks;
		r->parent->blocks = t;
		r->parent->computed = r->parent->n_noted = 0;
		r->computed = tokens;
		leave_parent(s, r);
		return;
	}
	for (int i = 0; i < blocks; i++)
	{
		kvpool_ref(s->pool, r->parent->blocks.data[i]);
		intvec_push(&r->blocks, r->parent->blocks.data[i]);
	}
	if (tokens > blocks * s->opt.block_size)
	{
		int32_t		own;

		share_alloc(&s->share, 1, &own);
		intvec_push(&r->blocks, own);
		s->plan.copies[s->plan.n_copies++] = (BlockCopy) {r->parent->blocks.data[blocks], own};
	}
	r->computed = tokens;
	leave_parent(s, r);
}

/* ---- planning ---- */

static bool
grow_blocks(Sched *s, Req *r, int n_tokens)
{
	int			have = (int) r->blocks.len;
	int			need = blocks_for(s, n_tokens) - have;

	if (need <= 0)
		return true;
	if (kvpool_available(s->pool) < need)
		return false;
	for (int i = 0; i < need; i++)
		intvec_push(&r->blocks, 0);
	return share_alloc(&s->share, need, r->blocks.data + have);
}

/* Take back what the plan gave to a request. */
static void
plan_refund(Sched *s, Req *r)
{
	PlanEntry  *pe;

	if (r->plan_at < 0)
		return;
	pe = &s->plan.e[r->plan_at];
	s->plan.n_rows -= pe->n;
	s->plan.n_sample -= pe->sample;
	s->plan.units -= cost_units(&s->cost, r->computed, pe->n);
	pe->r = NULL;				/* plan_compact() drops it */
	r->plan_at = -1;
}

/* Preempt the most recently admitted running request. */
static void
preempt_last(Sched *s)
{
	Req		   *r = s->running[--s->n_running];

	plan_refund(s, r);
	free_memory(s, r);
	r->computed = 0;
	if (r->pooled != NULL)
		pooled_restart(r);
	r->preemptions++;
	r->state = RQ_PREEMPTED;
	list_insert_before(&s->preempted, r);
	s->todo_waiting += req_todo(r);
	s->plan.n_preempted++;
	s->n_preemptions++;
}

/* n rows for a running request; false: it was itself preempted for want of blocks. */
static bool
plan_give(Sched *s, Req *r, int n)
{
	PlanEntry  *pe;

	while (!grow_blocks(s, r, r->computed + n))
	{
		if (s->held.n > 0)
		{
			release_held(s, s->held.tail);
			continue;
		}
		preempt_last(s);
		if (r->state != RQ_RUNNING)
			return false;
	}
	r->plan_at = s->plan.n++;
	pe = &s->plan.e[r->plan_at];
	pe->r = r;
	pe->n = n;
	pe->sample = r->pooled == NULL && n == req_todo(r);
	pe->out_at = pe->n_out = 0;
	if (r->pooled != NULL)
		pooled_rows(r, n, &pe->out_at, &pe->n_out);
	else if (r->prompt_lp != NULL)
		logprobs_prompt_rows(r, n, &pe->out_at, &pe->n_out);
	s->plan.n_rows += n;
	s->plan.n_sample += pe->sample;
	s->plan.units += cost_units(&s->cost, r->computed, n);
	return true;
}

static void
plan_compact(Plan *p)
{
	int			n = 0;

	p->pools = false;
	for (int i = 0; i < p->n; i++)
	{
		if (p->e[i].r == NULL)
			continue;
		p->e[n] = p->e[i];
		p->e[n].r->plan_at = n;
		p->pools = p->pools || p->e[n].n_out > 0;
		n++;
	}
	p->n = n;
}

/* Rows for a sequence that can't be cut: the first of a step may take any time. */
static int
whole_room(const Sched *s, int room)
{
	int			fast;

	if (s->target_us <= 0 || s->plan.n_rows == 0)
		return room;
	fast = cost_rows(&s->cost, s->plan.units, 0, room, s->target_us);
	return fast < room ? fast : room;
}

/* How many prompt rows, from row `from` on, may this request have now?  0 = the budgets are spent. */
static int
chunk_for(Sched *s, const Req *r, int from)
{
	int			room = s->opt.max_rows - s->plan.n_rows;
	int			todo = (int) r->tokens.len - from;
	int64_t		share;

	if (r->whole)
		return todo <= whole_room(s, room) ? todo : 0;
	if (s->target_us > 0)
	{
		int			fast = cost_rows(&s->cost, s->plan.units, from, room, s->target_us);

		/* some progress even when the decodes alone use up the time */
		if (s->prompt_rows == 0 && fast < MIN_CHUNK)
			fast = MIN_CHUNK;
		room = fast < room ? fast : room;
	}
	if (todo > room && s->others > 0)
	{
		share = room - s->others_todo;
		if (share < (room + 1) / 2)
			share = (room + 1) / 2;
		room = (int) share;
	}
	if (s->opt.max_chunk > 0 && room > s->opt.max_chunk)
		room = s->opt.max_chunk;
	return todo < room ? todo : room;
}

static void
plan_decodes(Sched *s)
{
	for (int i = 0; i < s->n_running; i++)
	{
		Req		   *r = s->running[i];

		share_note(&s->share, r, r->computed, false);
		if (req_todo(r) == 1 && s->plan.n_rows < s->opt.max_rows)
			plan_give(s, r, 1);
	}
}

/* n rows of a request that nobody preempts any more in this plan, but itself. */
static void
give_prompt(Sched *s, Req *r, int n)
{
	if (!plan_give(s, r, n))
		return;
	s->prompt_rows += n;
	share_note(&s->share, r, r->computed + n, true);
}

static void
plan_prompts(Sched *s)
{
	for (int i = 0; i < s->n_running; i++)
	{
		Req		   *r = s->running[i];
		ShareHit	hit;
		int			n;

		if (req_todo(r) <= 1)
			continue;
		s->others--;
		s->others_todo -= req_todo(r);
		hit = share_find(&s->share, r);
		n = chunk_for(s, r, hit.tokens);
		if (n == 0)
			break;
		share_take(&s->share, r, &hit, &s->plan);
		give_prompt(s, r, n);
	}
}

/* Blocks that the running requests will want soon: their known tokens and one more each. */
static int
blocks_promised(const Sched *s)
{
	int			n = 0;

	for (int i = 0; i < s->n_running; i++)
	{
		const Req  *r = s->running[i];

		n += blocks_for(s, (int64_t) r->tokens.len) - (int) r->blocks.len + 1;
	}
	return n;
}

/* What of a waiting request's tokens is there already: its parent's, or others'. */
static ShareHit
tokens_there(const Sched *s, const Req *r)
{
	ShareHit	h = {.tokens = tokens_of_parent(s, r), .n_blocks = blocks_of_parent(s, r)};

	return r->parent != NULL && r->parent->state == RQ_HELD ? h : share_find(&s->share, r);
}

static void
admit(Sched *s, Req *r, const ShareHit *hit, int64_t now_us)
{
	Session    *ss;
	int			at;

	dequeue(s, r);
	/* the next turn is another session's */
	if (r->state == RQ_WAITING && (ss = idmap_get(&s->sessions, session_of(s, r))) != NULL)
	{
		ring_remove(s, ss);
		ring_append(s, ss);
	}
	r->state = RQ_RUNNING;
	/* as many slots as may run; what is in one doesn't matter, a sequence begins with zeros */
	if (s->opt.slots)
		r->slot = s->free_slots[--s->n_free_slots];
	if (r->admit_no == 0)
	{
		r->admit_no = s->next_admit_no++;
		r->scheduled_us = now_us;
	}
	if (r->parent != NULL && r->parent->state == RQ_HELD)
		take_over(s, r);
	else
	{
		leave_parent(s, r);
		share_take(&s->share, r, hit, &s->plan);
	}
	for (at = s->n_running++; at > 0 && precedes(r, s->running[at - 1]); at--)
		s->running[at] = s->running[at - 1];
	s->running[at] = r;
}

static void
plan_admissions(Sched *s, int64_t now_us)
{
	int			promised = blocks_promised(s);
	Req		   *r;

	while ((r = next_waiting(s)) != NULL && s->n_running < s->opt.max_seqs)
	{
		ShareHit	hit = tokens_there(s, r);
		int			need = blocks_for(s, (int64_t) r->tokens.len);
		int			n;

		if (s->n_running > 0 && kvpool_available(s->pool) < need - hit.n_blocks + hit.n_idle + promised)
			break;
		s->others--;
		s->others_todo -= req_todo(r);
		n = chunk_for(s, r, hit.tokens);
		/* it goes on where another was, which had its row in any case */
		if (n == 0 && r->state == RQ_RESUMED && s->plan.n_rows < s->opt.max_rows)
			n = 1;
		if (n == 0)
			break;
		admit(s, r, &hit, now_us);
		give_prompt(s, r, n);
		promised += need - (int) r->blocks.len + 1;
	}
}

const Plan *
sched_plan(Sched *s, int64_t now_us)
{
	Plan	   *p = &s->plan;

	for (int i = 0; i < s->n_running; i++)
		s->running[i]->plan_at = -1;
	p->n = p->n_rows = p->n_sample = p->n_preempted = p->n_copies = 0;
	p->units = 0;
	if (s->opt.prefix != NULL)
		prefix_next_step(s->opt.prefix);

	s->prompt_rows = 0;
	s->target_us = (double) s->opt.step_target_us * UNWATCHED;
	s->others = 0;
	s->others_todo = 0;
	if (s->n_running < s->opt.max_seqs)
	{
		s->others = s->n_waiting + s->preempted.n + s->resumed.n;
		s->others_todo = s->todo_waiting;
	}
	for (int i = 0; i < s->n_running; i++)
	{
		int			todo = req_todo(s->running[i]);

		s->others += todo > 1;
		s->others_todo += todo > 1 ? todo : 0;
		if (todo == 1 && s->running[i]->watched)
			s->target_us = (double) s->opt.step_target_us;
	}

	plan_decodes(s);
	plan_prompts(s);
	if (p->n_preempted == 0)
		plan_admissions(s, now_us);
	plan_compact(p);
	return p;
}

void
sched_learn(Sched *s, double units, int64_t us)
{
	cost_learn(&s->cost, units, (double) us);
}

/* ---- life ---- */

Sched *
sched_new(KvPool *pool, const SchedOptions *opt)
{
	Sched	   *s = mem_zalloc(sizeof(*s));

	s->opt = *opt;
	s->pool = pool;
	s->share = (Share) {opt->prefix, pool, opt->block_size};
	s->cost.attn_weight = opt->attn_weight;
	s->next_admit_no = 1;
	s->running = mem_zalloc((size_t) opt->max_seqs * sizeof(Req *));
	s->free_slots = mem_zalloc((size_t) opt->max_seqs * sizeof(int));
	for (int i = opt->max_seqs; opt->slots && i > 0;)
		s->free_slots[s->n_free_slots++] = --i;
	/* no request gets two entries, and nobody is admitted after a preemption */
	s->plan.e = mem_zalloc((size_t) opt->max_seqs * sizeof(PlanEntry));
	s->plan.copies = mem_zalloc((size_t) opt->max_seqs * sizeof(BlockCopy));
	return s;
}

void
sched_free(Sched *s)
{
	if (s == NULL)
		return;
	idmap_free(&s->sessions);
	mem_free(s->running);
	mem_free(s->free_slots);
	mem_free(s->plan.e);
	mem_free(s->plan.copies);
	mem_free(s);
}

/* The queue that r shall wait in. */
static ReqList *
enqueue(Sched *s, Req *r)
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

void
sched_add(Sched *s, Req *r)
{
	list_insert(enqueue(s, r), r);
}

static void
begin_as(Req *r, const Req *parent)
{
	r->shares = parent->shares;
	r->chain = r->root = parent->root;
}

void
sched_fork(Sched *s, Req *r, Req *parent)
{
	list_insert_before(enqueue(s, r), r);
	r->parent = parent;
	if (parent == NULL)
		return;
	parent->n_forks++;
	begin_as(r, parent);
}

void
sched_resume(Sched *s, Req *r, Req *parent)
{
	r->state = RQ_RESUMED;
	r->plan_at = r->slot = -1;
	s->todo_waiting += req_todo(r);
	list_insert(&s->resumed, r);
	r->parent = parent;
	parent->n_forks++;
	begin_as(r, parent);
}

static void
leave_running(Sched *s, Req *r)
{
	int			i = 0;

	while (s->running[i] != r)
		i++;
	s->n_running--;
	memmove(s->running + i, s->running + i + 1, (size_t) (s->n_running - i) * sizeof(Req *));
}

void
sched_hold(Sched *s, Req *r)
{
	if (r->n_forks == 0)
	{
		sched_remove(s, r);
		return;
	}
	leave_running(s, r);
	r->state = RQ_HELD;
	list_push_tail(&s->held, r);
}

void
sched_keep(Sched *s, Req *r)
{
	/* forks of recurrent state compute all by themselves */
	if (s->opt.slots)
		sched_remove(s, r);
	else
		r->n_forks++;
	if (r->state == RQ_RUNNING)
		sched_hold(s, r);
}

void
sched_let_go(Sched *s, Req *r)
{
	if (!s->opt.slots && --r->n_forks == 0 && r->state == RQ_HELD)
		release_held(s, r);
}

void
sched_remove(Sched *s, Req *r)
{
	if (r->state == RQ_RUNNING)
		leave_running(s, r);
	else if (r->state == RQ_WAITING || r->state == RQ_PREEMPTED || r->state == RQ_RESUMED)
		dequeue(s, r);
	leave_parent(s, r);
	free_memory(s, r);
	r->computed = 0;
	r->state = RQ_GONE;
}

int
sched_n_running(const Sched *s)
{
	return s->n_running;
}

int
sched_n_waiting(const Sched *s)
{
	return s->n_waiting + s->preempted.n + s->resumed.n;
}

int
sched_n_held(const Sched *s)
{
	return s->held.n;
}

int64_t
sched_n_preemptions(const Sched *s)
{
	return s->n_preemptions;
}

Req *
sched_any(const Sched *s)
{
	return s->n_running > 0 ? s->running[0] : next_waiting(s);
}

/* ---- integrity ---- */

static bool
check_blocks(const Sched *s, const Req *r, int *used, Err *e)
{
	if (r->computed < 0 || (size_t) r->computed > r->tokens.len)
		return err_set(e, ERR_INTERNAL, "request %llu has computed %d of %zu tokens",
					   (unsigned long long) r->id, r->computed, r->tokens.len);
	if ((int) r->blocks.len < blocks_for(s, r->computed))
		return err_set(e, ERR_INTERNAL, "request %llu has computed %d tokens in %zu blocks",
					   (unsigned long long) r->id, r->computed, r->blocks.len);
	for (size_t i = 0; i < r->blocks.len; i++)
	{
		int32_t		b = r->blocks.data[i];

		if (b < 1 || b > kvpool_total(s->pool))
			return err_set(e, ERR_INTERNAL, "request %llu holds block %d",
						   (unsigned long long) r->id, b);
		used[b]++;
	}
	return true;
}

static bool
check_queue(const ReqList *l, ReqState state, int64_t *todo, Err *e)
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

static bool
check_order(const Sched *s, Err *e)
{
	const Req  *last = NULL;

	for (int i = 0; i < s->n_running; i++)
	{
		if (s->running[i]->state != RQ_RUNNING || (last != NULL && !precedes(last, s->running[i])))
			return err_set(e, ERR_INTERNAL, "running[%d] is out of order", i);
		last = s->running[i];
	}
	if (s->opt.priorities)
		last = NULL;			/* who was preempted may be overtaken by who came later */
	for (const Req *r = s->preempted.head; r != NULL; r = r->next)
	{
		if (last != NULL && !precedes(last, r))
			return err_set(e, ERR_INTERNAL, "preempted request %llu is out of order",
						   (unsigned long long) r->id);
		last = r;
	}
	return true;
}

static bool
check_used(const Sched *s, int *used, Err *e)
{
	int			n = 0;

	for (int i = 0; i < s->n_running; i++)
		if (!check_blocks(s, s->running[i], used, e))
			return false;
	for (const Req *r = s->held.head; r != NULL; r = r->next, n++)
	{
		if (r->state != RQ_HELD || r->n_forks < 1 || req_todo(r) != 0 || r->slot >= 0)
			return err_set(e, ERR_INTERNAL, "held request %llu: state %d, %d forks, %d rows to do",
						   (unsigned long long) r->id, r->state, r->n_forks, req_todo(r));
		if (!check_blocks(s, r, used, e))
			return false;
	}
	if (n != s->held.n)
		return err_set(e, ERR_INTERNAL, "%d requests are held, counted %d", n, s->held.n);
	for (int b = 1; b <= kvpool_total(s->pool); b++)
		if (used[b] != kvpool_refs(s->pool, b))
			return err_set(e, ERR_INTERNAL, "block %d is in %d tables and has %d references",
						   b, used[b], kvpool_refs(s->pool, b));
	return true;
}

/* Each slot is free or has one request, and each running request one. */
static bool
check_slots(const Sched *s, Err *e)
{
	int			n = s->opt.slots ? s->opt.max_seqs : 0;
	int		   *used = mem_zalloc(((size_t) n + 1) * sizeof(int));
	bool		ok = s->n_free_slots + (s->opt.slots ? s->n_running : 0) == n;

	for (int i = 0; ok && i < s->n_free_slots; i++)
		ok = s->free_slots[i] >= 0 && s->free_slots[i] < n && used[s->free_slots[i]]++ == 0;
	for (int i = 0; ok && i < s->n_running; i++)
	{
		int			slot = s->running[i]->slot;

		ok = s->opt.slots ? slot >= 0 && slot < n && used[slot]++ == 0 : slot < 0;
	}
	mem_free(used);
	return ok || err_set(e, ERR_INTERNAL, "%d slots of state: %d free, %d requests run", n, s->n_free_slots,
						 s->n_running);
}

bool
sched_check(const Sched *s, Err *e)
{
	int		   *used;
	bool		ok;
	int64_t		todo = 0;
	int			n = 0;
	size_t		n_sessions = 0;

	if (!kvpool_check(s->pool, e) || !check_order(s, e) || !check_slots(s, e) ||
		!check_queue(&s->preempted, RQ_PREEMPTED, &todo, e) || !check_queue(&s->resumed, RQ_RESUMED, &todo, e))
		return false;
	for (const Session *ss = s->ring_head; ss != NULL; ss = ss->next, n_sessions++)
	{
		if (ss->queue.n == 0 || idmap_get(&s->sessions, ss->key) != ss)
			return err_set(e, ERR_INTERNAL, "session %llu is empty or unknown",
						   (unsigned long long) ss->key);
		if (!check_queue(&ss->queue, RQ_WAITING, &todo, e))
			return false;
		n += ss->queue.n;
	}
	if (n != s->n_waiting || todo != s->todo_waiting || n_sessions != s->sessions.n)
		return err_set(e, ERR_INTERNAL, "%d requests in %zu sessions want %lld rows, counted %d, %zu, %lld",
					   n, n_sessions, (long long) todo, s->n_waiting, s->sessions.n,
					   (long long) s->todo_waiting);
	used = mem_zalloc(((size_t) kvpool_total(s->pool) + 1) * sizeof(int));
	ok = check_used(s, used, e);
	mem_free(used);
	return ok;
}
