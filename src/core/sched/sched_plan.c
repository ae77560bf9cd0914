/*
 * sched_plan.c
 *	  The scheduler's plan: which requests get how many rows of the next step.
 *
 *	1. running requests that lack one row (they decode), in order of admission;
 *	2. running requests that lack more (prompts, recomputed ones), same order;
 *	3. if nobody was preempted: waiting requests (sched_queue.c), as blocks and the row and time
 *	   budgets admit; the first that doesn't fit ends the pass, so nobody is overtaken for ever;
 *	4. drafts behind the tokens of those that decode, in what is left: they take nobody's row, and
 *	   nobody's block (sched_take_spare()).
 *
 * A prompt's chunk is bounded by the row budget, by the predicted time of the
 * step (step_time.c) and, while others want rows too, by half of what is left: one
 * long prompt can neither stop the decodes nor keep short prompts out.
 *
 * Before all that, whoever is next is made way for, if its role has less of what runs than another
 * (sched_roles.c).
 *
 * A new request is admitted only if its whole prompt fits beside what the running ones
 * still need, plus a block for each of them.
 *
 * Owner: the step thread.  A plan costs O(running + admitted).
 */
#include "base/assert.h"
#include "core/offload/offload.h"
#include "core/kv/pinned_prefix.h"
#include "core/sched/sched_internal.h"
#include "core/spec/spec.h"

#define ANSWER_TOKEN 2			/* tokens of a prompt that one of an answer counts for */
#define SPARE 4					/* the background leaves the fourth part of seats and blocks free */
#define SPARE_LATENCY 8			/* throughput work leaves the eighth part of seats free for latency work */
#define FEW_SEATS 16			/* of fewer one that nobody takes would be too many */

/* ---- rows ---- */

static bool
grow_blocks(Sched *s, Req *r, int n_tokens)
{
	int			have = (int) r->kv.blocks.len;
	int			need = sched_blocks(s, n_tokens) - have;

	prefix_cache_trim(&s->share, r);
	if (need <= 0)
		return true;
	if (kvpool_available(s->pool) < need)
		return false;
	for (int i = 0; i < need; i++)
		intvec_push(&r->kv.blocks, 0);
	return prefix_cache_alloc(&s->share, need, r->kv.blocks.data + have);
}

/* n rows for a running request; false: it was itself preempted for want of blocks. */
static bool
plan_give(Sched *s, Req *r, int n)
{
	PlanEntry  *pe;

	while (!grow_blocks(s, r, r->kv.computed + n))
	{
		if (sched_take_spare(s))
			continue;
		if (s->held.n > 0)
		{
			sched_release_held(s, s->held.tail);
			continue;
		}
		/* alone it must fit */
		if (s->n_running == 1 && pins_yield(s->opt.pins))
			continue;
		sched_preempt(s, sched_roles_victim(s, s->steady));
		if (r->sched.state != RQ_RUNNING)
			return false;
	}
	ASSERT(r->sched.state == RQ_RUNNING && r->sched.plan_at < 0 && n > 0 && n <= req_todo(r));
	/* the step's arrays are as long as that */
	ALWAYS(s->plan.n < s->opt.max_seqs && s->plan.n_rows + n <= s->opt.max_rows);
	r->sched.plan_at = s->plan.n++;
	pe = &s->plan.e[r->sched.plan_at];
	pe->r = r;
	pe->n = n;
	pe->sample = r->pooled == NULL && n == req_todo(r);
	pe->out_at = pe->n_out = pe->n_drafts = pe->draft_at = 0;
	if (r->pooled != NULL)
		pooled_rows(r, n, &pe->out_at, &pe->n_out);
	else if (r->out.prompt_lp != NULL)
		logprobs_prompt_rows(r, n, &pe->out_at, &pe->n_out);
	s->plan.n_rows += n;
	s->plan.n_sample += pe->sample;
	if (pe->sample)
	{
		queue_charge(s, r, ANSWER_TOKEN);
		sched_roles_earn(s);
	}
	s->plan.units += cost_units(&s->cost, r->kv.computed, n);
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
		p->e[n].r->sched.plan_at = n;
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
	const Wanted *others = &s->wanted[sched_urgency(r)];
	int			kept = sched_is_urgent(r) || r->seq.whole ? 0 : sched_kept_rows(s);
	double		target = sched_target_of(s, r);
	int			room = s->opt.max_rows - s->plan.n_rows - kept;
	int			todo = (int) r->tokens.len - from;
	int64_t		share;

	if (room <= 0)
		return 0;
	if (r->seq.whole)
		return todo <= whole_room(s, room) ? todo : 0;
	if (target > 0)
	{
		double		units = s->plan.units + cost_units(&s->cost, 0, kept);
		int			fast = cost_rows(&s->cost, units, from, room, target);

		/*
		 * Some progress even when the decodes alone use up the time; beside latency work they have left some
		 * (Sched.decode_us).
		 */
		if (s->prompt_rows == 0 && fast < MIN_CHUNK)
			fast = s->limit_decodes ? fast > 0 ? fast : 1 : MIN_CHUNK;
		room = fast < room ? fast : room;
	}
	if (todo > room && others->n > 0)
	{
		share = room - others->rows;
		if (share < (room + 1) / 2)
			share = (room + 1) / 2;
		room = (int) share;
	}
	if (s->opt.max_chunk > 0 && room > s->opt.max_chunk)
		room = s->opt.max_chunk;
	if (s->opt.long_prompt > 0 && room > s->opt.long_prompt)
		room = s->opt.long_prompt;
	return todo < room ? todo : room;
}

/* The passes over running requests that lack one row. */
enum
{
	DECODE_URGENT,				/* latency work */
	DECODE_FROM,				/* other work, from where the last plan had no time for more */
	DECODE_REST,				/* other work before that */
	DECODE_PASSES
};

static int
decode_pass_of(const Sched *s, const Req *r)
{
	if (sched_is_urgent(r))
		return DECODE_URGENT;
	return r->sched.admit_no >= s->decode_from ? DECODE_FROM : DECODE_REST;
}

static void
plan_decodes(Sched *s)
{
	uint64_t	first_left = 0;	/* out of the step */

	s->steady = 0;
	for (int i = 0; i < s->n_running; i++)
		prefix_cache_mark_computed(&s->share, s->running[i], s->running[i]->kv.computed, false);
	for (int pass = 0; pass < DECODE_PASSES; pass++)
		for (s->walk = 0; s->walk < s->n_running; s->walk++)
		{
			Req		   *r = s->running[s->walk];

			if (req_todo(r) != 1 || s->plan.n_rows >= s->opt.max_rows ||
				decode_pass_of(s, r) != pass)
				continue;
			if (pass == DECODE_URGENT || sched_decode_fits(s, r))
				plan_give(s, r, 1);
			else if (first_left == 0)
				first_left = r->sched.admit_no;
		}
	s->decode_from = first_left;
}

/* n rows of a request that nobody preempts any more in this plan, but itself. */
static void
give_prompt(Sched *s, Req *r, int n)
{
	if (!plan_give(s, r, n))
		return;
	s->n_partial += r->kv.computed + n < (int) r->tokens.len;
	s->n_long += r->kv.computed + n < (int) r->tokens.len && r->sched.is_long;
	s->prompt_rows += n;
	if (sched_is_urgent(r))
		s->latency_rows -= n < s->latency_rows ? n : s->latency_rows;
	prefix_cache_mark_computed(&s->share, r, r->kv.computed + n, true);
}

static void
plan_prompts(Sched *s)
{
	for (s->walk = 0; s->walk < s->n_running; s->walk++)
	{
		Req		   *r = s->running[s->walk];
		PrefixHit	hit;
		int			n;

		if (req_todo(r) <= 1)
			continue;
		sched_want_no_more(s->wanted, r);
		hit = prefix_cache_lookup(&s->share, r);
		n = chunk_for(s, r, hit.tokens);
		if (n == 0)
			break;
		prefix_cache_adopt_blocks(&s->share, r, &hit, &s->plan);
		/* others may count on what those before it compute */
		s->steady = s->walk;
		give_prompt(s, r, n);
	}
	s->walk = -1;
	s->steady = s->n_running;
}

/* ---- admissions ---- */

int
sched_pages_promised_to(const Sched *s, const Req *r)
{
	int			blocks = sched_blocks(s, (int64_t) r->tokens.len) + 1;
	int			have = (int) r->kv.blocks.len;
	int			more = sched_pages(s, blocks - have, 0);
	int			windows = sched_pages(s, 0, blocks) - (have - r->kv.w_from) * kvpool_window(s->pool);

	/* one that is ahead has more than it was promised */
	return (more > 0 ? more : 0) + (windows > 0 ? windows : 0);
}

static int
pages_promised(const Sched *s)
{
	int			n = 0;

	for (int i = 0; i < s->n_running; i++)
		n += sched_pages_promised_to(s, s->running[i]);
	return n;
}

/* Pages that are not to be had any more when r is admitted. */
static int
pages_wanted(const Sched *s, const Req *r, const PrefixHit *hit)
{
	int			blocks = sched_blocks(s, (int64_t) r->tokens.len);
	int			windows = sched_pages(s, 0, blocks) - (hit->n_windows - hit->n_idle_windows) *
		kvpool_window(s->pool);

	return sched_pages(s, blocks - hit->n_blocks + hit->n_idle, 0) + (windows > 0 ? windows : 0);
}

/* What of a waiting request's tokens is there already: its parent's, or others'. */
static PrefixHit
tokens_there(const Sched *s, const Req *r)
{
	PrefixHit	h = {.tokens = sched_parent_tokens(s, r), .n_blocks = sched_parent_blocks(s, r)};

	if (r->sched.parent != NULL && h.n_blocks > r->sched.parent->kv.w_from)
		h.n_windows = h.n_blocks - r->sched.parent->kv.w_from;
	return r->sched.parent != NULL && r->sched.parent->sched.state == RQ_HELD ? h :
		prefix_cache_lookup(&s->share, r);
}

static bool
is_long(const Sched *s, const Req *r, const PrefixHit *hit)
{
	return s->opt.long_prompt > 0 && !r->seq.whole && req_todo(r) - hit->tokens > s->opt.long_prompt;
}

static void
admit(Sched *s, Req *r, const PrefixHit *hit, int64_t now_us)
{
	int			at;

	queue_remove(s, r);
	queue_turn(s, r);
	if (r->sched.admit_no == 0)
		queue_charge(s, r, req_todo(r) - hit->tokens);
	sched_roles_admitted(s, r);
	r->sched.is_long = is_long(s, r, hit);
	r->sched.yields = r->in.by.background && r->sched.preemptions == 0;
	s->n_back += r->in.by.background;
	s->n_throughput += r->in.work == WORK_THROUGHPUT;
	sched_lora_admitted(s, r);
	if (s->opt.offload != NULL)
		offload_end(s->opt.offload, r);
	r->sched.state = RQ_RUNNING;
	/* as many slots as may run; what is in one doesn't matter, a sequence begins with zeros */
	ALWAYS(s->n_running < s->opt.max_seqs && (!s->opt.slots || s->n_free_slots > 0));
	if (s->opt.slots)
		r->kv.slot = s->free_slots[--s->n_free_slots];
	if (r->sched.admit_no == 0)
	{
		r->sched.admit_no = s->next_admit_no++;
		/* an answer has its prompt request's */
		if (r->sched.scheduled_us == 0)
			r->sched.scheduled_us = now_us;
	}
	if (r->sched.parent != NULL && r->sched.parent->sched.state == RQ_HELD)
		sched_take_over(s, r);
	else
	{
		sched_leave_parent(s, r);
		prefix_cache_adopt_blocks(&s->share, r, hit, &s->plan);
	}
	for (at = s->n_running++; at > 0 && sched_precedes(r, s->running[at - 1]); at--)
		s->running[at] = s->running[at - 1];
	s->running[at] = r;
}

/*
 * The background fills up what others leave, but not all of it, so that the next of them need not wait; one
 * may always run.  Throughput work leaves a seat to latency work, and a few if there was some lately.
 */
static bool
leaves_room(const Sched *s, const Req *r, int need)
{
	/* the seats of a large statement become free together, when its answers have one length */
	if (r->in.work == WORK_THROUGHPUT && r->sched.state == RQ_WAITING)
		return s->latency_recent ? s->n_throughput < s->opt.max_seqs - s->opt.max_seqs / SPARE_LATENCY :
			s->n_running < s->opt.max_seqs - (s->opt.max_seqs >= FEW_SEATS ? 1 : 0);
	if (!r->in.by.background || s->n_back == 0 || queue_waits(s, CLASS_FRONT))
		return true;
	return s->n_running < s->opt.max_seqs - s->opt.max_seqs / SPARE &&
		kvpool_pages_available(s->pool) - need >= kvpool_pages(s->pool) / SPARE;
}

/*
 * May r, which is new, get n rows of its prompt?  Not if too many are computed in part: shorter ones pass it.
 */
static bool
prompt_may_begin(const Sched *s, const Req *r, const PrefixHit *hit, int n)
{
	if (r->sched.state != RQ_WAITING || n >= req_todo(r) - hit->tokens)
		return true;
	if (s->opt.max_partial > 0 && s->n_partial >= s->opt.max_partial)
		return false;
	return !is_long(s, r, hit) || s->n_long < s->opt.max_long_partial;
}

/* What the store behind the pool has of r's tokens comes back; false: r waits for that. */
static bool
comes_back(Sched *s, Req *r, PrefixHit *hit, int64_t now_us)
{
	OffloadAnswer a = OFFLOAD_NOTHING;

	while (s->opt.offload != NULL &&
		   (a = offload_back(s->opt.offload, &s->share, r, hit, &s->cost, &s->plan, now_us)) == OFFLOAD_BACK)
		*hit = tokens_there(s, r);
	return a == OFFLOAD_NOTHING;
}

/* The next request may have to wait for a seat or blocks of which another role has too many. */
static int
make_way(Sched *s)
{
	Req		   *r;
	PrefixHit	hit;
	int			lack;

	sched_roles_count(s);
	if (s->n_running == 0 || s->n_running >= s->opt.max_rows)
		return 0;
	sched_lora_begin(s);
	r = sched_lora_first(s, queue_next(s));
	if (r == NULL || r->sched.state == RQ_CONTINUATION || !sched_lora_may(s, r))
		return 0;
	hit = tokens_there(s, r);
	lack = pages_wanted(s, r, &hit) + pages_promised(s) - kvpool_pages_available(s->pool);
	if (s->n_running < s->opt.max_seqs && lack <= 0)
		return 0;
	return sched_roles_make_way(s, r, lack);
}

static void
plan_admissions(Sched *s, int64_t now_us)
{
	int			promised = pages_promised(s);
	Req		   *r;

	sched_lora_begin(s);
	while ((r = sched_lora_first(s, queue_next(s))) != NULL && s->n_running < s->opt.max_seqs)
	{
		PrefixHit	hit;
		int			need;
		int			n;

		if (sched_demote_waiting(s, r, now_us))
			continue;
		if (!sched_lora_may(s, r))
		{
			if (!sched_lora_skip(s, r) && !queue_stand_back(s, r))
				break;
			continue;
		}
		hit = tokens_there(s, r);
		need = pages_wanted(s, r, &hit) + promised;
		if (s->n_running > 0 && kvpool_pages_available(s->pool) < need)
		{
			if (!sched_take_spare(s) && !queue_stand_back(s, r))
				break;
			promised = pages_promised(s);
			continue;
		}
		if (!leaves_room(s, r, need))
		{
			if (!queue_stand_back(s, r))
				break;
			continue;
		}
		if (!comes_back(s, r, &hit, now_us))
		{
			/* other requests pass it, unless it is a continuation or was preempted */
			if ((r->sched.state != RQ_WAITING || r == s->lora.next || !sched_lora_skip(s, r)) &&
				!queue_stand_back(s, r))
				break;
			continue;
		}
		sched_want_no_more(s->wanted, r);
		n = chunk_for(s, r, hit.tokens);
		if (n > 0 && !prompt_may_begin(s, r, &hit, n))
		{
			sched_want(s->wanted, r);
			/* adapters' places are being freed for this request: no other passes it */
			if (r == s->lora.next || !sched_lora_skip(s, r))
				break;
			continue;
		}
		/* a continuation takes the row of the request that it continues */
		if (n == 0 && r->sched.state == RQ_CONTINUATION && s->plan.n_rows < s->opt.max_rows)
			n = 1;
		if (n == 0)
		{
			if (!queue_stand_back(s, r))
				break;
			sched_want(s->wanted, r);
			continue;
		}
		admit(s, r, &hit, now_us);
		give_prompt(s, r, n);
		promised += sched_pages_promised_to(s, r);
	}
	sched_lora_end(s);
}

/* ---- drafts ---- */

/* So many of r's drafts can be had without a block that somebody else needs now. */
static int
drafts_in_blocks(const Sched *s, const Req *r, int upto, int n)
{
	int64_t		there = ((int64_t) r->kv.blocks.len + kvpool_available(s->pool)) * s->opt.block_size;

	return upto + n <= there ? n : (int) (there - upto);
}

static void
plan_drafts(Sched *s)
{
	Plan	   *p = &s->plan;
	int			room = s->opt.max_rows - p->n_rows;

	if (s->opt.max_logits - p->n_sample < room)
		room = s->opt.max_logits - p->n_sample;
	spec_choose(s->opt.spec, p, room);
	for (int i = 0; i < p->n && room > 0; i++)
	{
		PlanEntry  *pe = &p->e[i];
		Req		   *r = pe->r;
		int			upto = r->kv.computed + pe->n;
		int			n = r->spec != NULL && pe->sample && pe->n == 1 ? (int) r->spec->drafts.len : 0;

		n = drafts_in_blocks(s, r, upto, n < room ? n : room);
		if (n <= 0 || !grow_blocks(s, r, upto + n))
			continue;
		pe->n += n;
		pe->n_drafts = n;
		p->n_rows += n;
		p->n_sample += n;
		p->units += cost_units(&s->cost, upto, n);
		room -= n;
	}
	ALWAYS(p->n_rows <= s->opt.max_rows && p->n_sample <= s->opt.max_logits);
}

/* The plan at hand keeps its budgets, and each entry's rows have blocks. */
static void
check_plan(const Sched *s)
{
	const Plan *p = &s->plan;
	int			rows = 0;
	int			logits = 0;

	for (int i = 0; i < p->n; i++)
	{
		const PlanEntry *pe = &p->e[i];
		const Req  *r = pe->r;

		ASSERT(r->sched.state == RQ_RUNNING && r->sched.plan_at == i);
		ASSERT(pe->n > 0 && pe->n_drafts >= 0 && pe->n_drafts < pe->n);
		ASSERT(r->kv.computed >= 0 && r->kv.computed + pe->n - pe->n_drafts <= (int) r->tokens.len);
		ASSERT((int) r->kv.blocks.len >= sched_blocks(s, r->kv.computed + pe->n));
		ASSERT(pe->n_out == 0 || (pe->n_out > 0 && pe->out_at >= 0 && pe->out_at + pe->n_out <= pe->n));
		ASSERT(pe->logits_at == logits);
		ASSERT(!s->opt.slots || r->kv.slot >= 0);
		rows += pe->n;
		logits += plan_logits(pe);
	}
	ASSERT(rows == p->n_rows && rows <= s->opt.max_rows);
	ASSERT(logits == p->n_sample);
	ASSERT(p->n <= s->n_running && s->n_running <= s->opt.max_seqs);
	ASSERT(p->n_copies <= s->opt.max_seqs * (kvpool_full(s->pool) + kvpool_window(s->pool)));
	ASSERT(s->lora.skipped.n == 0);
	ASSERT(s->opt.max_loras == 0 || s->lora.n <= s->opt.max_loras || p->n_preempted > 0);
}

const Plan *
sched_plan(Sched *s, int64_t now_us)
{
	Plan	   *p = &s->plan;
	int			made_way;

	s->walk = -1;
	for (int i = 0; i < s->n_running; i++)
		s->running[i]->sched.plan_at = -1;
	p->n = p->n_rows = p->n_sample = p->n_preempted = p->n_copies = 0;
	p->units = 0;
	if (s->opt.prefix != NULL)
		prefix_next_step(s->opt.prefix);
	if (s->opt.offload != NULL)
		offload_step(s->opt.offload);

	s->prompt_rows = s->n_partial = s->n_long = 0;
	s->no_turn = false;
	made_way = make_way(s);
	p->n_preempted = 0;
	sched_choose_target(s, now_us);

	plan_decodes(s);
	plan_prompts(s);
	if (p->n_preempted == 0)
		plan_admissions(s, now_us);
	plan_compact(p);
	if (s->opt.spec != NULL && p->n_preempted == 0)
		plan_drafts(s);
	p->n_preempted += made_way;
	for (int i = 0, at = 0; i < p->n; i++)
	{
		p->e[i].logits_at = at;
		at += plan_logits(&p->e[i]);
	}
	if (VLLM_ASSERT)
		check_plan(s);
	return p;
}

void
sched_observe_step_time(Sched *s, double units, int64_t us)
{
	cost_learn(&s->cost, units, (double) us);
}
