/*
 * spec_choose.c
 *	  How many drafts are worth a row?
 *
 * A step of n rows takes T(n), and the j-th draft of a request is right, with all before it, with
 * probability a^j, where a is how often its drafts have been right of late.  We take the drafts that
 * make
 *
 *		tokens per second = (requests + sum of a^j of the drafts taken) / T(rows)
 *
 * the greatest.  Drafts with the greatest a^j come first, so it is enough to try a few bounds: all
 * drafts with a^j of at least so much are taken.  Where a step is bound by reading weights T hardly
 * grows and even poor drafts pay; where it is bound by arithmetic, as large batches are, T grows
 * with each row and only very good ones do: then speculation is off by itself.
 *
 * T is measured: of steps that only decode, by size, as a moving average.  Of sizes that have not been seen it
 * is guessed too low rather than too high, so that they are tried, and then they are known.  A
 * measurement that was too high, as something else ran on the CPUs, would keep a size from being tried again; so now and
 * then a draft is taken though it seems to be a loss, and a request whose drafts have been wrong is given
 * another chance.  Such probes are a small part of all rows.
 *
 * In a step with prompts every row costs its arithmetic, and prompts fill the step as it is: drafts
 * must be nearly sure.
 *
 * Answers don't depend on any of it.  Owner: the step thread.  Tested by tests/unit/test_spec.c.
 */
#include "engine/spec_int.h"

#include <math.h>

#include "base/mem.h"

#define RATE			0.1		/* weight of a new outcome, or time */
#define RATE_ALL		0.02	/* ... of an outcome among those of all requests */
#define SURE			0.8		/* a draft of at least that is worth a row of any step */
#define GROWTH			0.3		/* of a step's time per row, by which more rows than were seen are guessed to add */
#define PROBE_STEPS		32		/* a probe after so many steps without drafts, */
#define PROBE_DRAFTS	64		/* ... and of a request, after it was passed over so often */
#define LEAST			0.001

/* ---- times ---- */

/* Sizes of steps: 1, 2, 3, 4, 6, 8, 12, 16, 24 ... */
static int
size_of_rows(int n)
{
	int			i = n < 1 ? 0 : ilogb(n);

	if (n <= 2)
		return n <= 1 ? 0 : 1;
	i = 2 * i - 1 + (n >= 3 << (i - 1));
	return i < SPEC_SIZES ? i : SPEC_SIZES - 1;
}

static int
rows_of_size(int i)
{
	return i < 2 ? i + 1 : (i % 2 == 0 ? 3 : 2) << (i - 1) / 2;
}

/* 0 = nothing is known. */
static double
time_of(const Spec *s, int n)
{
	int			at = size_of_rows(n);
	int			below = at;
	int			above = at + 1;
	double		lo;
	double		part;

	while (below >= 0 && s->us[below] == 0)
		below--;
	while (above < SPEC_SIZES && s->us[above] == 0)
		above++;
	if (below < 0)
		return above < SPEC_SIZES ? s->us[above] : 0;
	lo = rows_of_size(below);
	if (n <= lo)
		return s->us[below];
	if (above == SPEC_SIZES)
		return s->us[below] * (1 + GROWTH * (n - lo) / lo);
	part = (n - lo) / (rows_of_size(above) - lo);
	return s->us[below] + part * fmax(0, s->us[above] - s->us[below]);
}

void
spec_learn(Spec *s, const Plan *plan, int64_t us)
{
	double	   *t = &s->us[size_of_rows(plan->n_rows)];

	/* rows of prompts have no logits, and are not one's own to choose */
	if (plan->n_rows == 0 || plan->n_rows != plan->n_sample)
		return;
	*t = *t == 0 ? (double) us : *t + RATE * ((double) us - *t);
}

/* ---- outcomes ---- */

void
spec_tested(Spec *s, Req *r, bool hit)
{
	r->spec->hits += RATE * (hit - r->spec->hits);
	s->hits += RATE_ALL * (hit - s->hits);
}

/* ---- the choice ---- */

/* Of n drafts, so many are right with probability of at least p; *sum: of theirs. */
static int
drafts_above(double hits, int n, double p, double *sum)
{
	double		a = fmax(LEAST, fmin(hits, 1 - LEAST));
	double		all = a;
	int			k = 0;

	for (; k < n && all >= p; k++)
	{
		*sum += all;
		all *= a;
	}
	return k;
}

typedef struct Offer
{
	Req		   *r;
	int			n;				/* drafts that may be had */
} Offer;

/* The bound that is best for n_rows rows without drafts; 2 = none is worth it. */
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
		double		r;

		for (int i = 0; i < n; i++)
			rows += drafts_above(o[i].r->spec->hits, o[i].n, bounds[b], &gain);
		if (rows == 0 || rows > room)
			continue;
		r = (n_rows + gain) / fmax(1, time_of(s, n_rows + rows));
		if (r > rate)
		{
			rate = r;
			best = bounds[b];
		}
	}
	return best;
}

/* How many of the n that r offers are taken? */
static int
take(Spec *s, const Offer *o, double bound, bool probe)
{
	double		sum = 0;
	int			k = drafts_above(o->r->spec->hits, o->n, bound, &sum);

	(void) s;
	if (k > 0 || o->n == 0)
		o->r->spec->passed_over = 0;
	else if (probe || ++o->r->spec->passed_over >= PROBE_DRAFTS)
	{
		o->r->spec->passed_over = 0;
		k = 1;
	}
	return k;
}

/* One more step in which nobody would be ahead: is it time to try? */
static bool
may_probe(Spec *s, double bound)
{
	if (bound <= 1 || ++s->since_probe >= PROBE_STEPS)
	{
		s->since_probe = 0;
		return bound > 1;
	}
	return false;
}

void
spec_choose(Spec *s, const Plan *plan, int room)
{
	Offer	   *o = mem_alloc((size_t) (plan->n + 1) * sizeof(Offer));
	int			n = 0;
	double		bound;
	bool		probe;

	for (int i = 0; i < plan->n; i++)
	{
		Req		   *r = plan->e[i].r;

		if (r->spec != NULL && r->spec->drafts.len > 0)
			o[n++] = (Offer) {r, (int) r->spec->drafts.len};
	}
	if (n > 0 && (s->conf.type->flags & (SPEC_DEAR | SPEC_ALL)) == 0)
	{
		bound = plan->n_rows == plan->n_sample ? best_bound(s, o, n, plan->n_rows, room) : SURE;
		probe = may_probe(s, bound);
		for (int i = 0; i < n; i++)
			o[i].r->spec->drafts.len = (size_t) take(s, &o[i], bound, probe && i == 0);
	}
	mem_free(o);
}

int
spec_afford(Spec *s, SpecAsk *asks, int n, int n_rows)
{
	Offer	   *o = mem_alloc((size_t) (n + 1) * sizeof(Offer));
	int			left = 0;
	double		bound;
	bool		probe;

	for (int i = 0; i < n; i++)
		o[i] = (Offer) {asks[i].r, asks[i].most};
	bound = n > 0 ? best_bound(s, o, n, n_rows, s->env.max_rows - n_rows) : 2;
	probe = n > 0 && may_probe(s, bound);
	for (int i = 0; i < n; i++)
	{
		int			k = take(s, &o[i], bound, probe && i == 0);

		if (k > 0)
			asks[left++] = (SpecAsk) {asks[i].r, k};
	}
	mem_free(o);
	return left;
}
