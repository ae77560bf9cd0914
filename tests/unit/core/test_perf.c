/*
 * test_perf.c
 *	  The estimated work of steps, against sums over each row and each position that it attends to.
 */
#include "core/core_state.h"

#include "tests/unit/check.h"

#define LAYERS	6

static StepWork
naive(const ModelInfo *f, const Plan *plan, int64_t kv_token)
{
	StepWork	w = {0};
	int64_t		experts = 0;

	for (int i = 0; i < plan->n; i++)
		for (int layer = 0; layer < f->n_kv_layers; layer++)
		{
			int64_t		window = f->kv_windows != NULL ? f->kv_windows[layer] : 0;
			int			from = plan->e[i].r->kv.computed;
			int			end = from + plan->e[i].n;
			int			first = end;	/* position that is attended to */

			for (int row = from; row < end; row++)
				for (int at = 0; at < (f->both_ways ? end : row + 1); at++)
					if (window == 0 || row - at < window)
					{
						w.flops += 2 * f->n_heads * (f->head_dim + (f->v_dim > 0 ? f->v_dim : f->head_dim));
						first = at < first ? at : first;
					}
			w.read += (end - first) * kv_token;
			w.written += plan->e[i].n * kv_token;
		}
	for (int row = 0; row < plan->n_rows; row++)
	{
		w.flops += 2 * (int64_t) (f->work.params + f->work.expert_params);
		experts += (int64_t) f->work.expert_bytes;
	}
	for (int row = 0; row < plan->n_sample; row++)
		w.flops += 2 * (int64_t) f->work.head_params;
	w.read += (int64_t) f->work.bytes + (experts < (int64_t) f->work.experts_bytes
										 ? experts : (int64_t) f->work.experts_bytes);
	if (plan->n_sample > 0)
		w.read += (int64_t) f->work.head_bytes;
	return w;
}

int
main(void)
{
	uint32_t	seed = 7;
	Req			reqs[5];
	PlanEntry	e[5];
	int			windows[LAYERS];

	for (int i = 0; i < 2000; i++)
	{
		ModelInfo	f = {
			.n_heads = 4, .head_dim = 64, .v_dim = i % 3 == 0 ? 32 : 0, .n_kv_layers = LAYERS,
			.kv_window = 1 + i % 40, .both_ways = i % 7 == 0,
			.work = {1000, 2000, 300, 600, 600 * (uint64_t) (i % 9), 5000, 10000}
		};
		Plan		plan = {.n = 1 + i % 5,.e = e,.n_sample = i % 3};
		StepWork	a,
					b;

		if (i % 2 == 0 && !f.both_ways)
		{
			f.kv_windows = windows;
			for (int layer = 0; layer < LAYERS; layer++)
			{
				windows[layer] = layer % 3 == 0 ? 0 : f.kv_window;
				f.n_kv_windows += windows[layer] > 0;
			}
		}
		for (int k = 0; k < plan.n; k++)
		{
			reqs[k] = (Req) {.kv.computed = f.both_ways
							 ? 0 : (int) ((seed = seed * 1664525 + 1013904223) >> 16) % 60};
			e[k] = (PlanEntry) {.r = &reqs[k],
								.n = 1 + (int) ((seed = seed * 1664525 + 1013904223) >> 16) % 30};
			plan.n_rows += e[k].n;
		}
		a = perf_step(&f, &plan, 512);
		b = naive(&f, &plan, 512);
		CHECK(a.flops == b.flops && a.read == b.read && a.written == b.written,
			  "step %d: %lld operations, %lld and %lld bytes, not %lld, %lld and %lld", i,
			  (long long) a.flops, (long long) a.read, (long long) a.written, (long long) b.flops,
			  (long long) b.read, (long long) b.written);
	}
	return check_done("test_perf");
}
