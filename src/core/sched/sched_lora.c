/*
 * sched_lora.c
 *	  Limit the adapters of a step to SchedOptions.max_loras.
 *
 * An adapter has a place while one of its requests runs, is held or preempted, or is about to continue
 * its parent: so a request that has begun never waits for a place again.  The plan skips a new request
 * that would need one place more; other requests pass it, and it is put back at the front.  After
 * LORA_PATIENCE requests with adapters, and of no better priority, have passed a request, it is next:
 * until it is admitted no other request with an adapter is, so places become free.  Requests without an
 * adapter mix with any.
 *
 * Owner: the step thread.  Costs nothing while no request has an adapter.  Tested by
 * tests/unit/core/sched/test_sched_lora.c.
 */
#include "core/sched/sched_internal.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define LORA_PATIENCE	32
#define LORA_MAX_SKIPPED	256		/* most requests that one plan skips */

static bool
has_place(const SchedLora *l, const LoraAdapter *a)
{
	for (int i = 0; i < l->n; i++)
		if (l->of[i] == a)
			return true;
	return false;
}

static void
take_place(Sched *s, const Req *r)
{
	SchedLora  *l = &s->lora;

	if (r->in.lora == NULL || has_place(l, r->in.lora))
		return;
	if (l->n == l->cap)
	{
		l->cap = l->cap > 0 ? 2 * l->cap : 16;
		l->of = mem_realloc(l->of, (size_t) l->cap * sizeof(*l->of));
	}
	l->of[l->n++] = r->in.lora;
}

void
sched_lora_begin(Sched *s)
{
	s->lora.n = s->lora.n_skipped = 0;
	memset(s->lora.passing, 0, sizeof(s->lora.passing));
	for (int i = 0; i < s->n_running; i++)
		take_place(s, s->running[i]);
	for (int c = 0; c < N_CLASSES; c++)
		for (const Req *r = s->line[c].preempted.head; r != NULL; r = r->sched.next)
			take_place(s, r);
	for (const Req *r = s->resumed.head; r != NULL; r = r->sched.next)
		take_place(s, r);
	for (const Req *r = s->held.head; r != NULL; r = r->sched.next)
		take_place(s, r);
}

static bool
finds_place(const Sched *s, const Req *r)
{
	return s->opt.max_loras == 0 || s->lora.n < s->opt.max_loras || has_place(&s->lora, r->in.lora);
}

/* Return true if r has a better class or priority. */
static bool
precedes(const Req *r, const Req *other)
{
	return queue_class(r) < queue_class(other) || r->in.priority < other->in.priority;
}

Req *
sched_lora_first(const Sched *s, Req *r)
{
	Req		   *next = s->lora.next;

	if (next == NULL || r == NULL || r->sched.state != RQ_WAITING || precedes(r, next) ||
		!finds_place(s, next))
		return r;
	return next;
}

bool
sched_lora_may(const Sched *s, const Req *r)
{
	const Req  *next = s->lora.next;

	/* a fork uses its parent's place, which stays taken until the fork is admitted or the parent is freed */
	if (r->in.lora == NULL || r->sched.state != RQ_WAITING ||
		(r->sched.parent != NULL && r->sched.parent->sched.state != RQ_REMOVED))
		return true;
	return (next == NULL || next == r || precedes(r, next)) && finds_place(s, r);
}

void
sched_lora_admitted(Sched *s, Req *r)
{
	Passing    *p = &s->lora.passing[queue_class(r)];

	if (r->in.lora == NULL)
		return;
	take_place(s, r);
	if (p->n++ == 0 || r->in.priority > p->worst)
		p->worst = r->in.priority;
	sched_lora_removed(s, r);
}

void
sched_lora_removed(Sched *s, const Req *r)
{
	if (s->lora.next == r)
		s->lora.next = NULL;
}

bool
sched_lora_skip(Sched *s, Req *r)
{
	if (s->lora.skipped.n == LORA_MAX_SKIPPED)
		return false;
	ASSERT(r->sched.state == RQ_WAITING || r->sched.state == RQ_PREEMPTED ||
		   r->sched.state == RQ_CONTINUATION);
	queue_remove(s, r);
	reqlist_push_tail(&s->lora.skipped, r);
	s->lora.n_skipped++;
	sched_want_no_more(s->wanted, r);
	return true;
}

void
sched_lora_end(Sched *s)
{
	ReqList    *skipped = &s->lora.skipped;

	/* so that the first one skipped is at the front again */
	for (Req *r = skipped->tail; r != NULL; r = skipped->tail)
	{
		const Passing *p = &s->lora.passing[queue_class(r)];

		reqlist_remove(skipped, r);
		reqlist_insert_before(queue_join(s, r), r);
		fair_back(r->sched.line);
		if (r->in.lora == NULL)
			continue;
		if (p->n > 0 && p->worst >= r->in.priority)
			r->sched.passed += p->n;
		if (r->sched.passed >= LORA_PATIENCE &&
			(s->lora.next == NULL || r->sched.passed > s->lora.next->sched.passed))
			s->lora.next = r;
	}
}

/* ---- names ---- */

#define NAMES_MAX	64

/* Adapters of a list of names, without duplicates. */
typedef struct SchedLoraNames
{
	const LoraAdapter *seen[NAMES_MAX];
	int			n;
	char	   *text;
	size_t		len;
} SchedLoraNames;

static void
add_name(SchedLoraNames *l, const Req *r)
{
	size_t		n;

	if (r->in.lora == NULL || l->n == NAMES_MAX)
		return;
	for (int i = 0; i < l->n; i++)
		if (l->seen[i] == r->in.lora)
			return;
	n = strlen(r->in.lora->name);
	if (n == 0 || l->len + n + 2 > WIRE_LORA_NAMES)
		return;
	ALWAYS(l->len + n + 2 <= WIRE_LORA_NAMES && l->n < NAMES_MAX);
	l->seen[l->n++] = r->in.lora;
	if (l->len > 0)
		l->text[l->len++] = ',';
	memcpy(l->text + l->len, r->in.lora->name, n + 1);
	l->len += n;
}

static void
add_list(SchedLoraNames *l, const ReqList *list)
{
	for (const Req *r = list->head; r != NULL; r = r->sched.next)
		add_name(l, r);
}

static void
add_tree(SchedLoraNames *l, const Fair *f)
{
	add_list(l, &f->queue);
	for (int i = 0; i < f->n; i++)
		add_tree(l, f->heap[i]);
}

bool
sched_lora_names(const Sched *s, char *running, char *waiting)
{
	SchedLoraNames run = {.text = running};
	SchedLoraNames wait = {.text = waiting};

	running[0] = waiting[0] = '\0';
	if (!s->lora.used)
		return false;
	for (int i = 0; i < s->n_running; i++)
		add_name(&run, s->running[i]);
	add_list(&wait, &s->resumed);
	for (int c = 0; c < N_CLASSES; c++)
	{
		add_list(&wait, &s->line[c].preempted);
		add_tree(&wait, &s->line[c].roles);
	}
	return true;
}
