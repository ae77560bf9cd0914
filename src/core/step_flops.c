/*
 * step_flops.c
 *	  Estimated operations, reads and writes of steps, as vLLM estimates them for MFU.
 *
 * Operations are those of matrices and attention, two for each multiplication and addition.  Bytes are
 * those of weights, read once per step, and of K and V.  The estimate omits what is small beside these
 * (norms, rotations, activations, recurrent states, adapters, drafters).  Owner: the step thread.
 *
 * Tested by tests/unit/core/test_perf.c, tests/t/098_accounting.pl.
 */
#include "core/core_state.h"

/*
 * Count the pairs of a row and a position that it attends to, for rows from .. from + n - 1; window: 0 =
 * a row attends to all positions before it.
 */
static int64_t
pairs(int64_t from, int64_t n, int64_t window)
{
	int64_t		whole = n;		/* rows that attend to all positions before them */

	if (window > 0 && from + n > window)
		whole = from < window ? window - from : 0;
	return whole * from + whole * (whole + 1) / 2 + (n - whole) * window;
}

static int64_t
less(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

StepWork
perf_step(const ModelInfo *info, const Plan *plan, size_t kv_token)
{
	const ModelWork *m = &info->work;
	int			windows = info->kv_windows != NULL ? info->n_kv_windows : 0;
	int			whole = info->n_kv_layers - windows;
	int64_t		rows = plan->n_rows;
	int64_t		attended = 0;
	int64_t		seen = 0;
	StepWork	w;

	for (int i = 0; i < plan->n; i++)
	{
		int64_t		from = plan->e[i].r->kv.computed;
		int64_t		n = plan->e[i].n;

		if (info->both_ways)
		{
			attended += n * n * info->n_kv_layers;
			seen += n * info->n_kv_layers;
			continue;
		}
		attended += pairs(from, n, 0) * whole + (windows > 0 ? pairs(from, n, info->kv_window) * windows : 0);
		seen += (from + n) * whole + (windows > 0 ? less(from + n, info->kv_window + n - 1) * windows : 0);
	}
	w.flops = 2 * (rows * (int64_t) (m->params + m->expert_params) +
				   (int64_t) plan->n_sample * (int64_t) m->head_params) +
		2 * attended * info->n_heads * (info->head_dim + (info->v_dim > 0 ? info->v_dim : info->head_dim));
	w.read = (int64_t) m->bytes + less(rows * (int64_t) m->expert_bytes, (int64_t) m->experts_bytes) +
		(plan->n_sample > 0 ? (int64_t) m->head_bytes : 0) + seen * (int64_t) kv_token;
	w.written = rows * info->n_kv_layers * (int64_t) kv_token;
	return w;
}
