/*
 * draft_length.c
 *	  Choose how many drafts are worth a row.
 *
 * A step of n rows takes T(n).  The j-th draft of a request, j = 0, 1, ..., is right together with all
 * before it with probability p_j = a b^j, where a is the recent acceptance rate of its first drafts, and
 * b that of drafts after accepted ones: a request that copies text continues to copy, so b is usually
 * greater.  Drafts have grades: those that followed more matching tokens are right more often.  The
 * acceptance rate of a grade is measured over all requests; a and b are this rate times the ratio of
 * this request's rate to that of all requests.  The drafts taken are those that maximize
 *
 *		tokens per second = (requests + sum of p_j of the drafts taken) / T(rows)
 *
 * Drafts with the greatest p_j come first, so it suffices to try a few bounds: all drafts whose p_j
 * reaches the bound are taken.  If a step is limited by reading weights, T hardly grows and even poor
 * drafts are worthwhile.  If it is limited by arithmetic, as with large batches, T grows with each row
 * and only very good drafts are: then speculation switches itself off.
 *
 * T is a line through the times of recent steps that only decoded: T(n) = mean + slope (n - mean n).
 * If all were of one size, the slope is unknown, and a small one is assumed, so that drafts are tried; a
 * few steps with drafts then determine it.  Old steps are forgotten, so after some hundred steps without
 * drafts they are tried again, since load, texts and lengths change.  A request whose drafts have been
 * wrong also gets another chance now and then.  Both cost a small part of all rows.
 *
 * Drafts by models take time to make: a measured time for each token of the longest draft.  It is added
 * to T of the rows, and the number of drafts is chosen before they are made.
 *
 * In a step with prompts every row costs its arithmetic, and prompts fill the step anyway: drafts must
 * be almost certain.
 *
 * Outputs do not depend on any of this.  Owner: the step thread.  Tested by
 * tests/unit/core/spec/test_spec.c.
 */
#include "core/spec/spec_internal.h"

#include <math.h>

#include "base/alloc.h"
#include "base/assert.h"

#define RATE			0.1		/* weight of a new outcome */
#define RATE_ALL		0.02	/* weight of a new outcome among those of all requests */
#define SURE			0.8		/* a draft with at least this probability is worth a row of any step */
#define MEMORY			0.98	/* factor of a step's weight with each later step */
#define GROWTH			0.1		/* assumed relative cost of a row, when nothing is known */
#define RIDGE			0.05	/* weight of that assumption, in squares of the mean number of rows */
#define PROBE			64		/* a request that was passed over this often may try a draft */
#define OUTLIER			2		/* a time counts at most as this multiple of the average */
#define LEAST			0.001
#define MOST			0.98	/* no draft is certain */

/* ---- times ---- */

/* Return the predicted time of a step of n rows; 0 = unknown. */
static double
time_of(const Spec *s, double n)
{
	const SpecTimes *t = &s->times;
	double		mean_n;
	double		mean_us;
	double		ridge;
	double		slope;

	if (t->weight == 0)
		return 0;
	mean_n = t->n / t->weight;
	mean_us = t->us / t->weight;
	ridge = RIDGE * mean_n * mean_n;
	slope = t->n_us - mean_n * t->us + ridge * GROWTH * mean_us / mean_n;
	slope /= t->nn - mean_n * t->n + ridge;
	return mean_us + fmax(0, slope) * (n - mean_n);
}

void
spec_learn(Spec *s, const Plan *plan, int64_t us)
{
	SpecTimes  *t = &s->times;
	double		n = plan->n_rows;
	double		seen = (double) (us - s->drafting_us);

	/* prompts have rows without logits, and speculation does not choose the number of their rows */
	if (plan->n_rows == 0 || plan->n_rows != plan->n_sample)
		return;
	/* a step that lost the CPU to another process says little */
	if (t->weight > 0)
		seen = fmin(seen, OUTLIER * fmax(1, time_of(s, n)));
	t->weight = t->weight * MEMORY + 1;
	t->n = t->n * MEMORY + n;
	t->nn = t->nn * MEMORY + n * n;
	t->us = t->us * MEMORY + seen;
	t->n_us = t->n_us * MEMORY + n * seen;
}

void
spec_drafted(Spec *s, int depth, int64_t us)
{
	double		each = (double) us / fmax(1, depth);

	s->drafting_us = us;
	s->draft_us = s->draft_us == 0 ? each :
		s->draft_us + RATE * (fmin(each, OUTLIER * s->draft_us) - s->draft_us);
}

/* ---- outcomes ---- */

void
spec_tested(Spec *s, Req *r, int at, bool hit)
{
	double	   *one = &r->spec->hits[at > 0];
	double	   *all = &s->hits[at > 0];
	double	   *graded = &s->graded[r->spec->grade][at > 0];

	*one += RATE * (hit - *one);
	*all += RATE_ALL * (hit - *all);
	*graded += RATE_ALL * (hit - *graded);
}

/* ---- the choice ---- */

typedef struct Offer
{
	Req		   *r;
	int			n;				/* available drafts */
	double		first;			/* probability that the first one is right */
	double		next;			/* how often each later draft token is accepted when the one before was */
} Offer;

static Offer
offer_of(const Spec *s, Req *r, int n)
{
	const SpecReq *x = r->spec;
	double		p[2];

	for (int i = 0; i < 2; i++)
		p[i] = fmin(MOST, s->graded[x->grade][i] * x->hits[i] / fmax(LEAST, s->hits[i]));
	return (Offer) {r, n, fmax(LEAST, p[0]), p[1]};
}

/*
 * Return how many of the drafts, at most `most`, are right with a probability of at least p; adds their
 * probabilities to *sum.
 */
static int
drafts_above(const Offer *o, double p, int most, double *sum)
{
	double		all = o->first;
	int			k = 0;

	for (; k < o->n && k < most && all >= p; k++)
	{
		*sum += all;
		all *= o->next;
	}
	return k;
}

/*
 * Return the best bound for n_rows rows without drafts, with room for so many more; 2 = no draft is
 * worth it.
 */
static double
best_bound(const Spec *s, const Offer *o, int n, int n_rows, int room)
{
	static const double bounds[] = {0.9, 0.7, 0.5, 0.35, 0.25, 0.15, 0.08, 0.03};
	double		best = 2;
	double		rate = n_rows / fmax(1, time_of(s, n_rows));

	for (size_t b = 0; b < sizeof(bounds) / sizeof(bounds[0]); b++)
	{
		double		gain = 0;
		int			rows = 0;
		int			depth = 0;
		double		r;

		for (int i = 0; i < n && rows < room; i++)
		{
			int			k = drafts_above(&o[i], bounds[b], room - rows, &gain);

			rows += k;
			depth = k > depth ? k : depth;
		}
		if (rows == 0)
			continue;
		r = (n_rows + gain) / fmax(1, time_of(s, n_rows + rows) + depth * s->draft_us);
		if (r > rate)
		{
			rate = r;
			best = bounds[b];
		}
	}
	return best;
}

/* Return how many of r's drafts are taken; reduces *room by them. */
static int
take(const Offer *o, double bound, int *room)
{
	SpecReq    *r = o->r->spec;
	double		sum = 0;
	int			k = drafts_above(o, bound, *room, &sum);

	if (k == 0 && o->n > 0 && *room > 0 && ++r->passed_over >= PROBE)
		k = 1;
	if (k > 0)
		r->passed_over = 0;
	*room -= k;
	return k;
}

void
spec_choose(Spec *s, const Plan *plan, int room)
{
	Offer	   *o = mem_alloc((size_t) (plan->n + 1) * sizeof(Offer));
	bool		mixed = plan->n_rows != plan->n_sample;
	bool		costly = (s->conf.type->flags & SPEC_COSTLY) != 0;
	int			n = 0;
	double		bound;

	for (int i = 0; i < plan->n; i++)
	{
		Req		   *r = plan->e[i].r;

		if (r->spec != NULL && r->spec->drafts.len > 0)
			o[n++] = offer_of(s, r, (int) r->spec->drafts.len);
	}
	/* drafts that took time were chosen before they were made, unless there are unexpected prompts */
	if (n > 0 && (s->conf.type->flags & SPEC_ALL) == 0 && (!costly || (mixed && !s->mixed)))
	{
		bound = mixed ? SURE : best_bound(s, o, n, plan->n_rows, room);
		for (int i = 0; i < n; i++)
			o[i].r->spec->drafts.len = (size_t) take(&o[i], bound, &room);
	}
	s->mixed = mixed;
	mem_free(o);
}

int
spec_afford(Spec *s, DraftRequest *reqs, int n, int n_rows, bool prompts)
{
	Offer	   *o = mem_alloc((size_t) (n + 1) * sizeof(Offer));
	int			room = s->max_rows - n_rows;
	int			left = 0;
	double		bound;

	for (int i = 0; i < n; i++)
		o[i] = offer_of(s, reqs[i].r, reqs[i].most);
	bound = n == 0 ? 2 : prompts ? SURE : best_bound(s, o, n, n_rows, room);
	for (int i = 0; i < n; i++)
	{
		int			k = take(&o[i], bound, &room);

		ASSERT(k >= 0 && k <= reqs[i].most && room >= 0);
		if (k > 0)
			reqs[left++] = (DraftRequest) {reqs[i].r, k};
	}
	mem_free(o);
	return left;
}
