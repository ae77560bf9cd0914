/*
 * draft_length.c
 *	  How many drafts are worth a row?
 *
 * A step of n rows takes T(n), and the j-th draft of a request, j = 0, 1, ..., is right with all before it
 * with probability p_j = a b^j, where a is how often its first drafts have been right of late, and b how
 * often those after right ones: a request that copies text goes on copying, so b is mostly the greater.
 * Drafts have grades: what followed when more tokens were the same is right more often.  How often drafts of
 * a grade are right is known of all requests together; a and b are that, times how this request compares with
 * all.  We take the drafts that make
 *
 *		tokens per second = (requests + sum of p_j of the drafts taken) / T(rows)
 *
 * the greatest.  Drafts with the greatest p_j come first, so it is enough to try a few bounds: all
 * drafts with p_j of at least so much are taken.  Where a step is bound by reading weights T hardly
 * grows and even poor drafts pay; where it is bound by arithmetic, as large batches are, T grows
 * with each row and only very good ones do: then speculation is off by itself.
 *
 * T is a line through the times of the latest steps that only decoded: T(n) = mean + slope (n - mean n).
 * Where all were of one size nothing is known of the slope, and a small one is assumed, so that drafts are
 * tried; a few steps with drafts then tell what it is. Old steps are forgotten, so after some hundred steps
 * without drafts they are tried once more, as load, texts and lengths change. So is a request whose drafts
 * have been wrong: it is given another chance now and then. Both are a small part of all rows.
 *
 * Drafts of what has weights take time to make: so much for each token that they are ahead, as measured.  It
 * is added to T of the rows, and how many are worth it is asked before they are made.
 *
 * In a step with prompts every row costs its arithmetic, and prompts fill the step as it is: drafts
 * must be nearly sure.
 *
 * Answers don't depend on any of it.  Owner: the step thread.  Tested by tests/unit/core/spec/test_spec.c.
 */
#include "core/spec/spec_internal.h"

#include <math.h>

#include "base/alloc.h"
#include "base/assert.h"

#define RATE			0.1		/* weight of a new outcome */
#define RATE_ALL		0.02	/* weight of a new outcome among those of all requests */
#define SURE			0.8		/* a draft of at least that is worth a row of any step */
#define MEMORY			0.98	/* what a step's weight becomes with the next one */
#define GROWTH			0.1		/* a row's part of its step, where nothing is known */
#define RIDGE			0.05	/* weight of that, in squares of the mean number of rows */
#define PROBE			64		/* a request that was passed over so often may try */
#define OUTLIER			2		/* a time counts as so many times the average at most */
#define LEAST			0.001
#define MOST			0.98	/* nothing is sure */

/* ---- times ---- */

/* 0 = nothing is known. */
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
	double		seen = (double) (us - s->made_us);

	/* rows of prompts have no logits, and are not one's own to choose */
	if (plan->n_rows == 0 || plan->n_rows != plan->n_sample)
		return;
	/* a step that lost the CPU to somebody else says little */
	if (t->weight > 0)
		seen = fmin(seen, OUTLIER * fmax(1, time_of(s, n)));
	t->weight = t->weight * MEMORY + 1;
	t->n = t->n * MEMORY + n;
	t->nn = t->nn * MEMORY + n * n;
	t->us = t->us * MEMORY + seen;
	t->n_us = t->n_us * MEMORY + n * seen;
}

void
spec_made(Spec *s, int depth, int64_t us)
{
	double		each = (double) us / fmax(1, depth);

	s->made_us = us;
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
	int			n;				/* drafts that may be had */
	double		first;			/* how often the first is right, */
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

/* Of the drafts, at most `most`, so many are right with probability of at least p; *sum: of theirs. */
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
 * The bound that is best for n_rows rows without drafts, for which there is so much room; 2 = none is worth
 * it.
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

/* How many of the n that r offers are taken?  *room: for so many rows, these are taken off. */
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
	bool		dear = (s->conf.type->flags & SPEC_DEAR) != 0;
	int			n = 0;
	double		bound;

	for (int i = 0; i < plan->n; i++)
	{
		Req		   *r = plan->e[i].r;

		if (r->spec != NULL && r->spec->drafts.len > 0)
			o[n++] = offer_of(s, r, (int) r->spec->drafts.len);
	}
	/* what has been made is wanted, but for prompts that nobody foresaw */
	if (n > 0 && (s->conf.type->flags & SPEC_ALL) == 0 && (!dear || (mixed && !s->mixed)))
	{
		bound = mixed ? SURE : best_bound(s, o, n, plan->n_rows, room);
		for (int i = 0; i < n; i++)
			o[i].r->spec->drafts.len = (size_t) take(&o[i], bound, &room);
	}
	s->mixed = mixed;
	mem_free(o);
}

int
spec_afford(Spec *s, SpecAsk *asks, int n, int n_rows, bool prompts)
{
	Offer	   *o = mem_alloc((size_t) (n + 1) * sizeof(Offer));
	int			room = s->max_rows - n_rows;
	int			left = 0;
	double		bound;

	for (int i = 0; i < n; i++)
		o[i] = offer_of(s, asks[i].r, asks[i].most);
	bound = n == 0 ? 2 : prompts ? SURE : best_bound(s, o, n, n_rows, room);
	for (int i = 0; i < n; i++)
	{
		int			k = take(&o[i], bound, &room);

		ASSERT(k >= 0 && k <= asks[i].most && room >= 0);
		if (k > 0)
			asks[left++] = (SpecAsk) {asks[i].r, k};
	}
	mem_free(o);
	return left;
}
