/*
 * sched_plan.c
 *	  The scheduler's plan: which requests get how many rows of the next step.
 *
 * 1. running requests that lack one row (they decode), in order of admission;
 * 2. running requests that lack more (prompts, preempted requests), in the same order;
 * 3. if no request was preempted: waiting requests (sched_queue.c), within the budgets of blocks, rows
 *    and time; the first that does not fit ends the pass, so no request is overtaken for ever;
 * 4. drafts after the tokens of decoding requests, with the rows that are left: they take no row or
 *    block that another request needs (sched_take_spare()).
 *
 * A prompt's chunk is bounded by the row budget, by the predicted time of the step (step_time.c) and,
 * while other requests want rows too, by half of what is left: one long prompt can neither stop the
 * decodes nor keep short prompts out.
 *
 * Before all that, requests may be preempted for the next waiting request, if its role has less than
 * another role (sched_roles.c).
 *
 * A new request is admitted only if its whole prompt fits beside what the running requests still need,
 * plus a block for each of them.
 *
 * Owner: the step thread.  A plan costs O(running + admitted).
 */
#include "base/assert.h"
#include "core/offload/offload.h"
#include "core/kv/pinned_prefix.h"
#include "core/sched/sched_internal.h"
#include "core/spec/spec.h"

#define ANSWER_TOKEN 2			/* an output token costs as much service as this many prompt tokens */
#define SPARE 4					/* background work leaves 1/SPARE of seats (places among max_seqs) and
								 * blocks free */
/* throughput work leaves 1/SPARE_LATENCY of the seats free for latency work */
#define SPARE_LATENCY 8
#define FEW_SEATS 16			/* with fewer seats an unused one would be too expensive */

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

/* Give n rows to a running request; returns false if it was itself preempted for lack of blocks. */
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
		/* a request that runs alone must fit */
		if (s->n_running == 1 && pins_yield(s->opt.pins))
			continue;
		sched_preempt(s, sched_roles_victim(s, s->steady));
		if (r->sched.state != RQ_RUNNING)
			return false;
	}
	ASSERT(r->sched.state == RQ_RUNNING && r->sched.plan_at < 0 && n > 0 && n <= req_todo(r));
	/* the step's arrays have this size */
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

/* Return the rows for a sequence that can't be divided: the first one of a step may take any time. */
static int
whole_room(const Sched *s, int room)
{
	int			fast;

	if (s->target_us <= 0 || s->plan.n_rows == 0)
		return room;
	fast = cost_rows(&s->cost, s->plan.units, 0, room, s->target_us);
	return fast < room ? fast : room;
}

/* Return how many prompt rows from row `from` on the request may have now; 0 = the budgets are used up. */
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
		 * Make some progress even if decodes alone use up the time; beside latency work they have left
		 * some (Sched.decode_us).
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
	DECODE_FROM,				/* other work, starting where the last plan ran out of time */
	DECODE_REST,				/* the rest of the other work */
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
	uint64_t	first_left = 0;	/* first request that gets no row in this step */

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

/* Give n rows to a request that other requests can't preempt any more in this plan. */
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
		/*
		 * the requests before this one keep their rows, since later ones may use the blocks that they
		 * compute
		 */
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

	/* a request with room for drafts has more than it was promised */
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

/* Return the pages that become unavailable when r is admitted. */
static int
pages_wanted(const Sched *s, const Req *r, const PrefixHit *hit)
{
	int			blocks = sched_blocks(s, (int64_t) r->tokens.len);
	int			windows = sched_pages(s, 0, blocks) - (hit->n_windows - hit->n_idle_windows) *
		kvpool_window(s->pool);

	return sched_pages(s, blocks - hit->n_blocks + hit->n_idle, 0) + (windows > 0 ? windows : 0);
}

/* Return which of a waiting request's tokens are computed already: by its parent, or by other requests. */
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
	/*
	 * there are as many slots as running requests; the old content does not matter, a sequence begins
	 * with zeros
	 */
	ALWAYS(s->n_running < s->opt.max_seqs && (!s->opt.slots || s->n_free_slots > 0));
	if (s->opt.slots)
		r->kv.slot = s->free_slots[--s->n_free_slots];
	if (r->sched.admit_no == 0)
	{
		r->sched.admit_no = s->next_admit_no++;
		/* an answer keeps the time of its prompt request */
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
 * Return true if r leaves enough room for more urgent work.  Background work must leave seats and blocks
 * free, so that the next other request need not wait; one background request may always run.  Throughput
 * work leaves one seat to latency work, and more if there was some recently.
 */
static bool
leaves_room(const Sched *s, const Req *r, int need)
{
	/* the seats of a large statement become free at the same time if its outputs have the same length */
	if (r->in.work == WORK_THROUGHPUT && r->sched.state == RQ_WAITING)
		return s->latency_recent ? s->n_throughput < s->opt.max_seqs - s->opt.max_seqs / SPARE_LATENCY :
			s->n_running < s->opt.max_seqs - (s->opt.max_seqs >= FEW_SEATS ? 1 : 0);
	if (!r->in.by.background || s->n_back == 0 || queue_waits(s, CLASS_FRONT))
		return true;
	return s->n_running < s->opt.max_seqs - s->opt.max_seqs / SPARE &&
		kvpool_pages_available(s->pool) - need >= kvpool_pages(s->pool) / SPARE;
}

/*
 * Return true if r may get n rows of its prompt.  A new request may not if too many prompts are
 * partially computed already: shorter ones pass it.
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

/* Start to load r's tokens from the offload tier; returns false if r has to wait for that. */
static bool
load_from_tier(Sched *s, Req *r, PrefixHit *hit, int64_t now_us)
{
	OffloadAnswer a = OFFLOAD_NOTHING;

	while (s->opt.offload != NULL &&
		   (a = offload_back(s->opt.offload, &s->share, r, hit, &s->cost, &s->plan, now_us)) == OFFLOAD_BACK)
		*hit = tokens_there(s, r);
	return a == OFFLOAD_NOTHING;
}

/*
 * Preempt for the next request if it lacks a seat or blocks of which another role has too many; returns
 * the number of preempted requests.
 */
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
		if (!load_from_tier(s, r, &hit, now_us))
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
			/* places of adapters are being freed for this request: no other request passes it */
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

/* Return how many of r's drafts fit without a block that another request needs now. */
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

/* Check that the plan keeps its budgets, and that each entry has blocks for its rows. */
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
	int			freed_space;

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
	freed_space = make_way(s);
	p->n_preempted = 0;
	sched_choose_target(s, now_us);

	plan_decodes(s);
	plan_prompts(s);
	if (p->n_preempted == 0)
		plan_admissions(s, now_us);
	plan_compact(p);
	if (s->opt.spec != NULL && p->n_preempted == 0)
		plan_drafts(s);
	p->n_preempted += freed_space;
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
