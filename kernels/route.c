/*
 * route.c
 *	  Choose the experts of a mixture that compute a row, and their weights.
 *
 * Plain float arithmetic on a few hundred numbers per row, in a fixed order: the choice must depend only
 * on the row's logits.
 *
 * Tested by tests/unit/model/layers/test_moe.c against a plain reference, and the goldens.
 */
#include "route.h"

#include <math.h>
#include <string.h>

typedef struct Route
{
	const KRoute *c;
	float	   *scores;			/* [n_experts] */
	float	   *choice;			/* [n_experts]: scores for the choice; -inf: excluded */
	int32_t    *experts;		/* [top_k], in the order of choice */
	float	   *weights;		/* [top_k] */
} Route;

/* x = softmax(x) */
static void
softmax(float *x, int n)
{
	float		max = x[0];
	float		sum = 0;

	for (int i = 1; i < n; i++)
		max = x[i] > max ? x[i] : max;
	for (int i = 0; i < n; i++)
	{
		x[i] = expf(x[i] - max);
		sum += x[i];
	}
	for (int i = 0; i < n; i++)
		x[i] /= sum;
}

float
kroute_sigmoid(float x)
{
	return 1 / (1 + expf(-x));
}

static void
sigmoid(float *x, int n)
{
	for (int i = 0; i < n; i++)
		x[i] = kroute_sigmoid(x[i]);
}

static void
unchanged(float *x, int n)
{
	(void) x;
	(void) n;
}

/* Return the best of x[0 .. n-1] that isn't taken: the first of equal ones, or any one if all are
 * NaN. */
static int
best_of(const float *x, const bool *taken, int n)
{
	int			best = -1;

	for (int i = 0; i < n; i++)
		if (!taken[i] && (best < 0 || x[i] > x[best]))
			best = i;
	return best;
}

/* Return the score of a group of n experts. */
static float
group_score(const KRoute *c, const float *choice, int n)
{
	float		first = -INFINITY;
	float		second = -INFINITY;

	for (int i = 0; i < n; i++)
	{
		if (choice[i] > first)
		{
			second = first;
			first = choice[i];
		}
		else if (choice[i] > second)
			second = choice[i];
	}
	return c->group_by == KGROUP_TOP2 ? first + second : first;
}

/* Mark the experts of all groups except the best as taken. */
static void
leave_groups(const Route *r, bool *taken)
{
	const KRoute *c = r->c;
	int			size = c->n_experts / c->n_groups;
	float		score[KROUTE_MAX_EXPERTS];
	bool		chosen[KROUTE_MAX_EXPERTS] = {false};

	for (int g = 0; g < c->n_groups; g++)
		score[g] = group_score(c, r->choice + g * size, size);
	for (int i = 0; i < c->top_groups; i++)
		chosen[best_of(score, chosen, c->n_groups)] = true;
	for (int i = 0; i < c->n_experts; i++)
		taken[i] = !chosen[i / size];
}

/* Choose the top_k best experts, with their scores as weights. */
static void
choose(Route *r)
{
	const KRoute *c = r->c;
	bool		taken[KROUTE_MAX_EXPERTS];

	memset(taken, 0, (size_t) c->n_experts * sizeof(bool));
	if (c->n_groups > 1)
		leave_groups(r, taken);
	for (int i = 0; i < c->top_k; i++)
	{
		int			best = best_of(r->choice, taken, c->n_experts);

		taken[best] = true;
		r->experts[i] = best;
		r->weights[i] = r->scores[best];
	}
}

/*
 * SparseMixer (Liu et al. 2024, arXiv:2409.12136): choose one expert after the other, each the best of
 * the rest, weighted by a softmax over those with similar scores.
 */
static void
choose_sparsemixer(Route *r)
{
	const KRoute *c = r->c;
	bool		taken[KROUTE_MAX_EXPERTS];

	memset(taken, 0, (size_t) c->n_experts * sizeof(bool));
	for (int i = 0; i < c->top_k; i++)
	{
		int			best = best_of(r->scores, taken, c->n_experts);
		float		max = r->scores[best];
		float		sum = 0;

		for (int j = 0; j < c->n_experts; j++)
		{
			float		factor = fabsf(r->scores[j]);

			factor = factor > max ? factor : max;
			if (!taken[j] && !((max - r->scores[j]) / factor > 2 * c->jitter))
				sum += expf(r->scores[j] - max);
		}
		taken[best] = true;
		r->experts[i] = best;
		r->weights[i] = 1 / sum;
	}
}

static const struct
{
	void		(*scores) (float *x, int n);
	void		(*choose) (Route *r);
	void		(*weights) (float *x, int n);
}			routings[] = {
	[KROUTE_SOFTMAX] = {softmax, choose, unchanged},
	[KROUTE_SIGMOID] = {sigmoid, choose, unchanged},
	[KROUTE_TOPK_SOFTMAX] = {unchanged, choose, softmax},
	[KROUTE_TOPK_SIGMOID] = {unchanged, choose, sigmoid},
	[KROUTE_SPARSEMIXER] = {unchanged, choose_sparsemixer, unchanged},
};

/* insertion sort, as there are only a few */
static void
sort_experts(int n, int32_t *experts, float *weights)
{
	for (int i = 1; i < n; i++)
		for (int j = i; j > 0 && experts[j] < experts[j - 1]; j--)
		{
			int32_t		e = experts[j];
			float		w = weights[j];

			experts[j] = experts[j - 1];
			weights[j] = weights[j - 1];
			experts[j - 1] = e;
			weights[j - 1] = w;
		}
}

void
kroute(const KRoute *c, float *logits, float *space, int32_t *experts, float *weights)
{
	Route		r = {.c = c, .scores = logits, .choice = logits, .experts = experts, .weights = weights};

	routings[c->routing].scores(logits, c->n_experts);
	if (c->correction != NULL)
	{
		r.choice = space;
		for (int i = 0; i < c->n_experts; i++)
			space[i] = logits[i] + c->correction[i];
	}
	routings[c->routing].choose(&r);
	routings[c->routing].weights(weights, c->top_k);
	if (c->normalize)
	{
		float		sum = 0;

		for (int i = 0; i < c->top_k; i++)
			sum += weights[i];
		sum = sum < c->normalize_min ? c->normalize_min : sum;
		for (int i = 0; i < c->top_k; i++)
			weights[i] /= sum;
	}
	for (int i = 0; i < c->top_k && c->scale != 1; i++)
		weights[i] *= c->scale;
	sort_experts(c->top_k, experts, weights);
}
