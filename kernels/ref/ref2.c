/*
 * ref2.c
 *	  The naive reference, continued: ops that move rows or modify them elementwise (ref2.h).
 *
 * Element by element, as kernels.h defines the ops, in the calling thread.
 */
#include "ref/ref2.h"
#include "route.h"

double
ref2_act(KAct a, const float *p, double x)
{
	if (a == KACT_TANH)
		return tanh(x);
	if (a == KACT_SIGMOID)
		return 1 / (1 + exp(-x));
	if (x > 0)
		return (double) p[0] * x * x + (double) p[2] * x;
	return (expm1(fmin(x, (double) p[3])) - x) * (double) p[1] + (double) p[2] * x;
}

/* element j of row i */
static inline size_t
at(int i, int ld, int j)
{
	return (size_t) i * (size_t) ld + (size_t) j;
}

void
ref2_scale_cols(KPool *pool, float *y, int rows, int ldy, int from, int n, float by)
{
	(void) pool;
	for (int i = 0; i < rows; i++)
		for (int j = from; j < from + n; j++)
			y[at(i, ldy, j)] *= by;
}

void
ref2_mul_cols(KPool *pool, float *y, int rows, int ldy, const float *w, int n)
{
	(void) pool;
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < n; j++)
			y[at(i, ldy, j)] *= w[j];
}

void
ref2_clip(KPool *pool, float *x, int rows, int ldx, int n, float most)
{
	(void) pool;
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < n; j++)
			if (fabsf(x[at(i, ldx, j)]) > most)
				x[at(i, ldx, j)] = copysignf(most, x[at(i, ldx, j)]);
}

void
ref2_add_head_bias(KPool *pool, float *x, int rows, int ldx, int heads, int dim, const float *b, int ldb)
{
	(void) pool;
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < heads * dim; j++)
			x[at(i, ldx, j)] += b[at(j / dim, ldb, j % dim)];
}

void
ref2_temper(KPool *pool, float *q, int rows, int ldq, int n, const int32_t *pos, float scale, int every,
			int first)
{
	(void) pool;
	for (int i = 0; i < rows; i++)
	{
		int			spans = (pos[i] + first) / every;
		float		by = (float) (1 + (double) scale * log1p(spans));

		for (int j = 0; j < n && spans > 0; j++)
			q[at(i, ldq, j)] *= by;
	}
}

void
ref2_put_rows(KPool *pool, const float *const *given, int rows, int dim, float *y, int ldy)
{
	(void) pool;
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < dim && given[i] != NULL; j++)
			y[at(i, ldy, j)] = given[i][j];
}

void
ref2_copy_rows(KPool *pool, float *y, int ldy, const float *x, int ldx, const int32_t *idx, int rows, int dim)
{
	(void) pool;
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < dim; j++)
			y[at(i, ldy, j)] = x[at(idx != NULL ? idx[i] : i, ldx, j)];
}

void
ref2_to_op(KPool *pool, float *y, int ldy, const float *x, int ldx, int rows, int dim)
{
	if (y != x)
		ref2_copy_rows(pool, y, ldy, x, ldx, NULL, rows, dim);
}

void
ref2_keep_rows(KPool *pool, void *x, int elem_size, const int32_t *idx, int n, int width)
{
	uint8_t    *bytes = x;
	int			row = width * elem_size;

	(void) pool;
	for (int i = 0; i < n; i++)
		for (int j = 0; j < row; j++)
			bytes[at(i, row, j)] = bytes[at(idx[i], row, j)];
}

void
ref2_pick_cols(KPool *pool, float *y, int ldy, const float *x, int ldx, const int32_t *from, int rows, int n)
{
	(void) pool;
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < n; j++)
			y[at(i, ldy, j)] = from[j] < 0 ? K_NO_COLUMN : x[at(i, ldx, from[j])];
}

void
ref2_mul_rows(KPool *pool, float *y, int ldy, const float *a, int lda, const float *b, int ldb, int rows,
			  int dim, bool silu)
{
	(void) pool;
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < dim; j++)
		{
			double		z = (double) b[at(i, ldb, j)];

			y[at(i, ldy, j)] = (float) ((double) a[at(i, lda, j)] * (silu ? z / (1 + exp(-z)) : z));
		}
}

void
ref2_dot_rows(KPool *pool, float *y, const float *x, int rows, int dim, const float *w, float bias)
{
	(void) pool;
	for (int i = 0; i < rows; i++)
	{
		double		sum = (double) bias;

		for (int j = 0; j < dim; j++)
			sum += (double) x[at(i, dim, j)] * (double) w[j];
		y[i] = (float) sum;
	}
}

void
ref2_swap_heads(KPool *pool, void *y, bool y_op, size_t y_row, size_t y_head, const void *x, bool x_op,
				size_t x_row, size_t x_head, int rows, int heads, int width)
{
	(void) pool;
	(void) y_op;
	(void) x_op;
	for (int h = 0; h < heads; h++)
		for (int i = 0; i < rows; i++)
			for (int j = 0; j < width; j++)
				((float *) y)[(size_t) i * y_row + (size_t) h * y_head + (size_t) j] =
					((const float *) x)[(size_t) i * x_row + (size_t) h * x_head + (size_t) j];
}

void
ref2_series(KPool *pool, int32_t *y, int n, int32_t by)
{
	(void) pool;
	for (int i = 0, x = 0; i < n; i++, x += by)
		y[i] = x;
}

void
ref2_moe_route(KPool *pool, const KRoute *c, float *logits, int rows, float *space, int32_t *experts,
			   float *weights)
{
	(void) pool;
	for (int i = 0; i < rows; i++)
		kroute(c, logits + at(i, c->n_experts, 0), space, experts + at(i, c->top_k, 0),
			   weights + at(i, c->top_k, 0));
}

void
ref2_moe_slots(KPool *pool, int32_t *experts, int rows, int first, int top_k, const int32_t *slots, int width)
{
	(void) pool;
	for (int i = 0; i < rows * top_k; i++)
	{
		size_t		e = at(experts[i], width, 0);

		experts[i] = slots[e + 1 + (size_t) ((first + i / top_k) % slots[e])];
	}
}

void
ref2_moe_place(KPool *pool, const int32_t *experts, int pairs, int n_experts, int32_t *start, int32_t *place)
{
	int			n = 0;

	(void) pool;
	for (int e = 0; e < n_experts; e++)
	{
		start[e] = n;
		for (int i = 0; i < pairs; i++)
			if (experts[i] == e)
				place[i] = n++;
	}
	start[n_experts] = n;
}

void
ref2_moe_gather(KPool *pool, float *x, const float *h, int rows, int top_k, const int32_t *place,
				const float *weights, int hidden)
{
	(void) pool;
	for (int i = 0; i < rows * top_k; i++)
		for (int j = 0; j < hidden; j++)
			x[at(place[i], hidden, j)] = h[at(i / top_k, hidden, j)] * (weights != NULL ? weights[i] : 1);
}

void
ref2_moe_combine(KPool *pool, float *y, const float *x, int rows, int top_k, const int32_t *place,
				 const float *weights, const float *gate, bool shared, const float *out_bias, int hidden)
{
	(void) pool;
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < hidden; j++)
		{
			double		sum = shared ? (double) y[at(i, hidden, j)] : 0;

			if (shared && gate != NULL)
				sum /= 1 + exp(-(double) gate[i]);
			for (int k = i * top_k; k < (i + 1) * top_k; k++)
				sum += (weights != NULL ? (double) weights[k] : 1) * (double) x[at(place[k], hidden, j)];
			y[at(i, hidden, j)] = (float) (sum + (out_bias != NULL ? (double) out_bias[j] : 0));
		}
}

void
ref2_lora_rows(KPool *pool, KLoraJob *jobs, int n, const int32_t *ids, float *t, int ldt)
{
	(void) pool;
	for (const KLoraJob *j = jobs; j < jobs + n; j++)
		for (int i = 0; i < j->n_rows * j->p->rank; i++)
		{
			const KLora *p = j->p;
			int			row = j->rows[i / p->rank];
			int32_t		id = ids[row];
			float		a = 0;

			if (id >= 0 && id < p->k)
				kblock_to_float(p->type,
								(const uint8_t *) p->a + at(id, p->rank,
															i % p->rank) * ktype_row_bytes(p->type, 1), 1,
															&a);
			t[at(row, ldt, p->at + i % p->rank)] = a * p->scale;
		}
}

void
ref2_kv_copy(KPool *pool, const KvView *kv, const int32_t *from_to, int n)
{
	(void) pool;
	for (int i = 0; i < n; i++)
		for (size_t b = 0; b < kv->block_stride; b++)
			kv->base[(size_t) from_to[2 * i + 1] * kv->block_stride + b] =
				kv->base[(size_t) from_to[2 * i] * kv->block_stride + b];
}

/* return the larger one; NaN counts as larger than anything */
static float
larger(float a, float b)
{
	return isnan(a) || isnan(b) ? NAN : fmaxf(a, fabsf(b));
}

void
ref2_kv_largest(KPool *pool, const KvView *kv, int layer, int n_blocks, float out[2])
{
	(void) pool;
	out[0] = out[1] = 0;
	for (int b = 0; b < n_blocks; b++)
		for (int h = 0; h < kv->n_kv_heads; h++)
			for (int t = 0; t < kv->block_size; t++)
			{
				uint8_t    *cell = kv_cell(kv, layer, b, h);

				for (int i = 0; i < kv->head_dim; i++)
					out[0] = larger(out[0], kelem_get(KT_F32, cell, at(i, kv->block_size, t)));
				for (int i = 0; i < kv_vwidth(kv); i++)
					out[1] = larger(out[1], kelem_get(KT_F32, kv_cell_v(kv, cell), at(t, kv_vdim(kv), i)));
			}
}
