/*
 * test_moe.c
 *	  Which experts are chosen, and with which weights: against a plain reference that sorts where
 *	  kroute() selects, and against cases computed by hand.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "route.h"
#include "tests/unit/check.h"

#define MAX_N 64

/* ---- a plain reference, in double ---- */

typedef struct Ranked
{
	double		v;
	int			i;
} Ranked;

/* Order by value; among equals the lower index first. */
static int
ranked_cmp(const void *a, const void *b)
{
	const Ranked *x = a;
	const Ranked *y = b;

	return x->v != y->v ? (x->v < y->v) - (x->v > y->v) : x->i - y->i;
}

static double
sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

static void
softmax(double *x, int n)
{
	double		sum = 0;

	for (int i = 0; i < n; i++)
		sum += exp(x[i]);
	for (int i = 0; i < n; i++)
		x[i] = exp(x[i]) / sum;
}

/* Set all experts outside of the best groups to -inf. */
static void
mask_groups(const KRoute *c, double *choice)
{
	int			size = c->n_experts / c->n_groups;
	Ranked		groups[MAX_N];

	for (int g = 0; g < c->n_groups; g++)
	{
		Ranked		in[MAX_N];

		for (int i = 0; i < size; i++)
			in[i] = (Ranked) {choice[g * size + i], i};
		qsort(in, (size_t) size, sizeof(Ranked), ranked_cmp);
		groups[g] = (Ranked) {in[0].v + (c->group_by == KGROUP_TOP2 ? in[1].v : 0), g};
	}
	qsort(groups, (size_t) c->n_groups, sizeof(Ranked), ranked_cmp);
	for (int g = c->top_groups; g < c->n_groups; g++)
		for (int i = 0; i < size; i++)
			choice[groups[g].i * size + i] = -INFINITY;
}

/* Compute weight[i] of every expert, 0 for those not chosen. */
static void
reference(const KRoute *c, const float *logits, const float *correction, double *weight)
{
	double		score[MAX_N];
	double		choice[MAX_N];
	double		chosen[MAX_N];
	Ranked		r[MAX_N];
	double		sum = 0;

	for (int i = 0; i < c->n_experts; i++)
		score[i] = c->routing == KROUTE_SIGMOID ? sigmoid((double) logits[i]) : (double) logits[i];
	if (c->routing == KROUTE_SOFTMAX)
		softmax(score, c->n_experts);
	for (int i = 0; i < c->n_experts; i++)
		choice[i] = score[i] + (correction != NULL ? (double) correction[i] : 0);
	if (c->n_groups > 1)
		mask_groups(c, choice);
	for (int i = 0; i < c->n_experts; i++)
	{
		r[i] = (Ranked) {choice[i], i};
		weight[i] = 0;
	}
	qsort(r, (size_t) c->n_experts, sizeof(Ranked), ranked_cmp);
	for (int i = 0; i < c->top_k; i++)
		chosen[i] = c->routing == KROUTE_TOPK_SIGMOID ? sigmoid(score[r[i].i]) : score[r[i].i];
	if (c->routing == KROUTE_TOPK_SOFTMAX)
		softmax(chosen, c->top_k);
	for (int i = 0; i < c->top_k; i++)
		sum += chosen[i];
	for (int i = 0; i < c->top_k; i++)
		weight[r[i].i] = chosen[i] * (double) c->scale /
			(c->normalize ? fmax(sum, (double) c->normalize_min) : 1);
}

/* ---- tests ---- */

static void
against_reference(const KRoute *c, const float *logits, const float *correction, const char *what)
{
	KRoute		shifted = *c;
	float		l[MAX_N];
	float		space[MAX_N];
	int32_t		experts[MAX_N];
	float		weights[MAX_N];
	double		want[MAX_N];
	int			n_chosen = 0;
	double		worst = 0;

	reference(c, logits, correction, want);
	memcpy(l, logits, sizeof(l));
	shifted.correction = correction;
	kroute(&shifted, l, space, experts, weights);
	for (int i = 0; i < c->n_experts; i++)
		n_chosen += want[i] != 0;
	CHECK(n_chosen == c->top_k, "%s: the reference chose %d", what, n_chosen);
	for (int i = 0; i < c->top_k; i++)
	{
		CHECK(experts[i] >= 0 && experts[i] < c->n_experts && (i == 0 || experts[i] > experts[i - 1]),
			  "%s: experts %d and %d are in order", what, i > 0 ? experts[i - 1] : -1, experts[i]);
		worst = fmax(worst, fabs(want[experts[i]] - (double) weights[i]));
	}
	CHECK(worst < 1e-6, "%s: a weight is off by %g", what, worst);
}

static float
random_float(void)
{
	return (float) rand() / (float) RAND_MAX * 6 - 3;
}

static void
test_reference(void)
{
	static const KRoute confs[] = {
		{.n_experts = 8, .top_k = 2, .routing = KROUTE_SOFTMAX, .scale = 1},
		{.n_experts = 8, .top_k = 3, .routing = KROUTE_SOFTMAX, .normalize = true, .scale = 2.5f},
		{.n_experts = 60, .top_k = 4, .routing = KROUTE_SOFTMAX, .normalize = true, .normalize_min = 0.7f,
		 .scale = 1},
		{.n_experts = 40, .top_k = 8, .routing = KROUTE_TOPK_SOFTMAX, .scale = 1},
		{.n_experts = 16, .top_k = 1, .routing = KROUTE_TOPK_SIGMOID, .scale = 1},
		{.n_experts = 64, .top_k = 8, .routing = KROUTE_SIGMOID, .group_by = KGROUP_TOP2, .n_groups = 8,
		.top_groups = 4, .normalize = true, .scale = 2.5f},
		{.n_experts = 32, .top_k = 6, .routing = KROUTE_SOFTMAX, .group_by = KGROUP_MAX, .n_groups = 8,
		.top_groups = 3, .scale = 16},
		{.n_experts = 12, .top_k = 4, .routing = KROUTE_SIGMOID, .group_by = KGROUP_TOP2, .n_groups = 3,
		.top_groups = 1, .scale = 1},
		{.n_experts = 4, .top_k = 4, .routing = KROUTE_SOFTMAX, .scale = 1},
	};

	srand(7);
	for (size_t k = 0; k < sizeof(confs) / sizeof(confs[0]); k++)
		for (int round = 0; round < 200; round++)
		{
			float		logits[MAX_N];
			float		correction[MAX_N];
			char		what[64];

			for (int i = 0; i < MAX_N; i++)
			{
				logits[i] = random_float();
				correction[i] = random_float() / 4;
			}
			snprintf(what, sizeof(what), "configuration %zu", k);
			against_reference(&confs[k], logits, NULL, what);
			against_reference(&confs[k], logits, correction, what);
			/* ties: few different logits */
			for (int i = 0; i < MAX_N; i++)
				logits[i] = roundf(logits[i] / 3);
			snprintf(what, sizeof(what), "configuration %zu with ties", k);
			against_reference(&confs[k], logits, NULL, what);
		}
}

/* SparseMixer: computed by hand. */
static void
test_sparsemixer(void)
{
	KRoute		c = {.n_experts = 4, .top_k = 2, .routing = KROUTE_SPARSEMIXER, .jitter = 0.01f, .scale = 1};
	float		logits[4] = {2, 1, 1.99f, 0.985f};
	int32_t		experts[2];
	float		weights[2];
	float		space[4];

	/*
	 * 1.99 is within 2 % of 2: among these two, 2 has the weight exp(0) / (exp(0) + exp(-0.01)).  Then
	 * 1.99 is the best, and nothing is near it.
	 */
	kroute(&c, logits, space, experts, weights);
	CHECK(experts[0] == 0 && experts[1] == 2, "experts %d and %d", experts[0], experts[1]);
	CHECK(fabs((double) weights[0] - 1 / (1 + exp(-0.01))) < 1e-6 && weights[1] == 1, "weights %g and %g",
		  (double) weights[0], (double) weights[1]);
}

/* A row of NaN chooses valid experts, and stays NaN. */
static void
test_nan(void)
{
	static const KRouting kinds[] = {KROUTE_SOFTMAX, KROUTE_SIGMOID, KROUTE_TOPK_SOFTMAX, KROUTE_TOPK_SIGMOID,
									 KROUTE_SPARSEMIXER};

	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
	{
		KRoute		c = {.n_experts = 8, .top_k = 3, .routing = kinds[k], .n_groups = 4, .top_groups = 2,
		.group_by = KGROUP_TOP2, .scale = 1};
		float		logits[8];
		float		space[8];
		int32_t		experts[3];
		float		weights[3];

		for (int i = 0; i < 8; i++)
			logits[i] = NAN;
		kroute(&c, logits, space, experts, weights);
		for (int i = 0; i < 3; i++)
			CHECK(experts[i] >= 0 && experts[i] < 8 && (i == 0 || experts[i] > experts[i - 1]) &&
				  isnan(weights[i]), "routing %zu: expert %d with weight %g", k, experts[i],
				  (double) weights[i]);
	}
}

int
main(void)
{
	RUN(test_reference());
	RUN(test_sparsemixer());
	RUN(test_nan());
	return check_done("test_moe");
}
