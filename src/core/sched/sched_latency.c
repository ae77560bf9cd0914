/*
 * sched_latency.c
 *	  Latency work in one model: how long a step may take, and how its time and rows are divided.
 *
 * A client waits for each request of latency work (work_class.c), so its rows come first: rows that
 * decode, then rows of prompts.  Throughput and background work may prolong the step by a target
 * (step_target_us); or, if latency work decodes, to SLOWER times the time that this takes alone, plus a
 * target.  If only new requests would wait for the step's end, the step may take longer, since large
 * steps are cheaper per row.
 *
 * The plan visits requests in order of admission, and a waiting request comes after all running ones.  So
 * the plan keeps rows, and the time that they take, for latency work's prompts until it has reached
 * these (sched_kept_rows()).  It keeps at most half of the step's rows, and leaves half a target of its
 * time: other work progresses in each step, however much latency work there is.
 *
 * Owner: the step thread.  Tested by tests/unit/core/sched/test_sched_latency.c.
 */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "core/sched/sched_internal.h"

/* longest step in targets: large steps are cheaper per row, but new requests wait for their end */
#define LARGE 16				/* no latency work of other sessions recently */
#define LARGE_RECENT 4			/* other sessions have had latency work in the last RECENT_US */
#define RECENT_US 10000000
#define SLOWER 2				/* other rows may prolong a step of latency work by this factor */

bool
sched_is_urgent(const Req *r)
{
	return r->in.work == WORK_LATENCY;
}

int
sched_urgency(const Req *r)
{
	return sched_is_urgent(r) ? URGENT : NOT_URGENT;
}

void
sched_want(Wanted *all, const Req *r)
{
	Wanted	   *w = &all[sched_urgency(r)];

	w->n++;
	w->rows += req_todo(r);
}

void
sched_want_no_more(Wanted *all, const Req *r)
{
	Wanted	   *w = &all[sched_urgency(r)];

	w->n--;
	w->rows -= req_todo(r);
	ASSERT(w->n >= 0 && w->rows >= 0);
}

/* r, which wants rows, was counted as urgent and is not any more: correct the counts. */
static void
recount(Wanted *all, const Req *r)
{
	ASSERT(!sched_is_urgent(r) && all[URGENT].n > 0);
	all[URGENT].n--;
	all[URGENT].rows -= req_todo(r);
	sched_want(all, r);
}

bool
sched_demote_waiting(Sched *s, Req *r, int64_t now_us)
{
	if (!workcounts_demote(r, now_us))
		return false;
	recount(s->waiting, r);
	recount(s->wanted, r);
	return true;
}

/*
 * Note what a running request's class means for the step; adds the rows of decoding latency work to
 * *units.
 */
static void
look_at(Sched *s, Req *r, double *units, int64_t now_us)
{
	workcounts_demote(r, now_us);
	s->n_back += r->in.by.background;
	s->n_throughput += r->in.work == WORK_THROUGHPUT;
	if (req_todo(r) > 1)
		sched_want(s->wanted, r);
	if (!sched_is_urgent(r))
	{
		s->large_session = r->in.session;
		return;
	}
	/* the first requests of a large statement count as latency work, but no client waits for each */
	if (s->large_session != 0 && r->in.session != s->large_session)
		s->latency_us = now_us;
	if (req_todo(r) == 1)
		*units += cost_units(&s->cost, r->kv.computed, 1);
}

/*
 * Keep rows for latency work's prompts, beside `units` of decoding rows: for running requests, and for
 * waiting ones if one of them is next.  Returns the time of all these rows; 0 = no prompt rows are kept.
 */
static double
keep_rows(Sched *s, double units)
{
	const Req  *next = s->n_running < s->opt.max_seqs ? queue_next(s) : NULL;
	int			most = s->n_running < s->opt.max_rows ? (s->opt.max_rows - s->n_running + 1) / 2 : 1;
	double		target = (double) s->opt.step_target_us;
	int64_t		n = s->wanted[URGENT].rows;
	int			least;
	int			fast;

	if (s->n_running < s->opt.max_seqs && (next == NULL || !sched_is_urgent(next)))
		n -= s->waiting[URGENT].rows;
	n = n < most ? n : most;
	least = n < MIN_CHUNK ? (int) n : MIN_CHUNK;
	fast = target > 0 ? cost_rows(&s->cost, units, 0, (int) n, s->latency_target_us - target / 2) : (int) n;
	s->latency_rows = fast > least ? fast : least;
	return n > 0 ? cost_predict(&s->cost, units + cost_units(&s->cost, 0, s->latency_rows)) : 0;
}

/* Limit other work: latency work alone takes `alone`, and the step with other work may take `most`. */
static void
limit_others(Sched *s, double alone, double most)
{
	s->limit_decodes = true;
	s->target_us = most;
	/* while prompts wait, decodes leave them half of the time that other work may add */
	s->decode_us = s->wanted[NOT_URGENT].n > 0 ? (alone + most) / 2 : most;
}

void
sched_choose_target(Sched *s, int64_t now_us)
{
	static const Wanted none[N_URGENCIES];
	double		target = (double) s->opt.step_target_us;
	double		units = 0;
	double		decodes;
	double		alone;

	s->n_throughput = s->n_back = s->latency_rows = 0;
	memcpy(s->wanted, s->n_running < s->opt.max_seqs ? s->waiting : none, sizeof(s->wanted));
	for (int i = 0; i < s->n_running; i++)
		look_at(s, s->running[i], &units, now_us);
	s->latency_recent = s->latency_us > 0 && now_us - s->latency_us < RECENT_US;
	s->limit_decodes = false;
	decodes = units > 0 ? cost_predict(&s->cost, units) : 0;
	s->latency_target_us = s->target_us = target * LARGE;
	if (units > 0)
		s->latency_target_us = s->target_us = isfinite(decodes) && target > 0 ? SLOWER * decodes + target :
			target;
	else if (s->latency_recent && s->n_throughput + s->n_back > 0)
		s->target_us = target * LARGE_RECENT;
	alone = s->wanted[URGENT].n > 0 ? keep_rows(s, units) : 0;
	if (target <= 0 || !isfinite(decodes) || !isfinite(alone))
		return;
	if (alone > 0)
	{
		double		most = alone + target;

		/* the limit of decoding latency work holds, of which its prompts leave half a target */
		if (units > 0 && most > s->latency_target_us)
			most = fmax(s->latency_target_us, alone + target / 2);
		s->latency_target_us = fmax(s->latency_target_us, most);
		limit_others(s, alone, most);
	}
	else if (units > 0 || s->latency_recent)
		limit_others(s, decodes, s->target_us);
}

int
sched_kept_rows(const Sched *s)
{
	return s->wanted[URGENT].n > 0 ? s->latency_rows : 0;
}

bool
sched_decode_fits(const Sched *s, const Req *r)
{
	double		units = s->plan.units + cost_units(&s->cost, 0, sched_kept_rows(s));

	if (!s->limit_decodes || s->plan.n_rows == 0)
		return true;
	return cost_predict(&s->cost, units + cost_units(&s->cost, r->kv.computed, 1)) <= s->decode_us;
}

double
sched_target_of(const Sched *s, const Req *r)
{
	return sched_is_urgent(r) ? s->latency_target_us : s->target_us;
}
