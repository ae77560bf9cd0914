/*
 * kernels.h
 *	  The op table: all operations that the model layer may call on a device.
 *
 * A Kernels is one implementation of all ops (ref, portable, avx2, avx512, ...).
 * Activations are float32, row-major, `rows` x dim; leading dimensions (ld) are
 * in elements.  Inputs and outputs never alias unless an op says so.
 *
 * Invariants, tested by tests/kernels/conform:
 *  - ROW INVARIANCE.  Row i of any output depends only on row i of the inputs
 *    (for attention: on that row's query, position and the K/V of its sequence)
 *    and not on the number of rows, their order, chunk limits or the number of
 *    threads: the same bits.  Reductions run in an order fixed by absolute
 *    indices (k of a matmul, position of a key).
 *  - Finite in, finite out; a NaN or Inf in row i never reaches another row.
 *    Masked or stale KV is never multiplied in.
 *  - No allocation, no system call but the pool's, no errors: shapes were
 *    checked when the model was built.
 *
 * MEMORY.  The pool says which device ops run on (kpool_device).  Floats, operands, matrices, KV,
 * scratch and integers that ops write are in the device's memory.  Structs, and arrays that a comment
 * calls the host's, are in the host's memory and are read before the op returns: a device already has
 * those of KStep (device.h) and stages the others.  On CPUs there is only one memory.
 */
#ifndef VLLM_KERNELS_KERNELS_H
#define VLLM_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocks.h"
#include "pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the layout that mat_pack() writes, in all implementations.  Increase it with any change,
 * since packed weights are cached on disk (vllm.repack_cache). */
#define KERNELS_LAYOUT	4

/*
 * OPERANDS: rows that only products read, in the type that an implementation multiplies.  An element has
 * Kernels.op_size bytes: floats on CPUs, whose files define K_OP_FLOAT and access them directly; BF16 or
 * F16 on GPUs.  All other code only passes them on, and counts elements, never bytes.
 */
#ifdef K_OP_FLOAT
typedef float KOp;
#else
typedef struct KOp KOp;
#endif

/* A weight matrix [n][k] in the packed layout of one Kernels. */
typedef struct KMat
{
	KType		type;			/* type of the source */
	int32_t		n;				/* output columns (rows of the file's matrix) */
	int32_t		k;				/* inputs */
	void	   *data;			/* 64-byte aligned, owned by the model */
	size_t		nbytes;
} KMat;

#define KV_MAX_DIM	1024

/*
 * Paged KV cache of one model.  The layout of one (layer, block, kv_head) cell is private to the
 * kernels: K dim-major [head_dim][block_size], then V [block_size][v_dim].  INT8 has one scale for each
 * token's K and one for its V, FP8 one for each layer's (docs/internals/kernels.md).  The address of a
 * cell is base + block*block_stride + layer*layer_stride + head*head_stride (bytes).  A block is one
 * piece of memory with all its layers: so a first token touches few pages, and a block can be moved as a
 * whole.
 */
typedef struct KvPart
{
	uint16_t	part;			/* index of the layer's page in a block */
	uint16_t	at;				/* index among the page's layers */
} KvPart;

typedef struct KvView
{
	KType		type;			/* KT_F32, KT_F16, KT_BF16, KT_INT8, KT_F8_E4M3 or KT_F8_E5M2 */
	int			n_layers;
	int			n_blocks;
	int			block_size;		/* tokens, a multiple of 16 */
	int			n_kv_heads;
	int			head_dim;		/* of K, at most KV_MAX_DIM */
	int			v_dim;			/* of V, at most KV_MAX_DIM; 0: head_dim */
	/*
	 * NULL: a block is a page of memory, with all layers.  Otherwise page pages[block * n_parts +
	 * parts[layer].part] has the layer at index parts[layer].at; n_layers and n_blocks count the pages',
	 * and a block may lack pages that no op reads.
	 */
	const int32_t *pages;
	int			n_parts;
	const KvPart *parts;
	const float *scales;		/* FP8: two for each layer, of K and of V, above 0; NULL: all 1 */
	uint8_t    *base;
	size_t		layer_stride;
	size_t		block_stride;
	size_t		head_stride;
} KvView;

/*
 * The rows of one step.  Sequence s owns rows seq_start[s] .. seq_start[s+1]-1 (at least one) with
 * consecutive positions; K/V of positions 0..pos are in the blocks of its table (block_table[s][p /
 * block_size]).
 */
typedef struct KRows
{
	int			n_rows;
	int			n_seqs;
	const int32_t *seq_start;	/* [n_seqs + 1] */
	const int32_t *pos;			/* [n_rows] absolute position */
	const int32_t *const *block_table;	/* [n_seqs] */
	const int32_t *state_slot;	/* [n_seqs] slot of recurrent state; NULL: the model has none */
	int			row0;			/* first row and sequence within the step, if this is a part of it: */
	int			seq0;			/* a device uses them to find the step's arrays (KStep); CPUs ignore them */
} KRows;

/* How a mixture's router chooses experts (route.h).  Of equally good experts the first is chosen. */
typedef enum KRouting
{
	KROUTE_SOFTMAX,				/* scores are the softmax of all logits */
	KROUTE_SIGMOID,				/* scores are each logit's sigmoid */
	KROUTE_TOPK_SOFTMAX,		/* scores are the logits, weights the softmax of the chosen ones */
	KROUTE_TOPK_SIGMOID,		/* scores are the logits, weights the sigmoid of each chosen one */
	KROUTE_SPARSEMIXER			/* Phi-3.5-MoE's */
} KRouting;

typedef enum KGroupBy
{
	KGROUP_MAX,					/* a group's score is that of its best expert */
	KGROUP_TOP2					/* a group's score is the sum of its two best experts' */
} KGroupBy;

#define KROUTE_MAX_EXPERTS 1024
#define KROUTE_MAX_CHOSEN 64

typedef struct KRoute
{
	int			n_experts;		/* at most KROUTE_MAX_EXPERTS */
	int			top_k;			/* experts of a row, at most KROUTE_MAX_CHOSEN */
	KRouting	routing;
	KGroupBy	group_by;
	int			n_groups;		/* 0 or 1: no groups; divides n_experts */
	int			top_groups;		/* groups that experts are chosen from */
	bool		normalize;		/* weights add up to 1 */
	float		normalize_min;	/* least sum of the weights before they are normalized */
	float		scale;			/* factor of all weights */
	float		jitter;			/* KROUTE_SPARSEMIXER: scores this far below the best one still count */
	const float *correction;	/* [n_experts] added to scores for the choice, not for weights; NULL: none */
} KRoute;

/*
 * How to sample one row's token (src/core/sample/sample.c defines the stages and their order).  A call
 * has one buffer: the rows' KSample, followed by the arrays of the rows.  *_at is the offset of an
 * array, in words of 4 bytes from the buffer's beginning; 0: absent.
 */
#define K_NO_COLUMN (-1e30f)	/* a logit that is never sampled, but finite */
#define KSAMPLE_TOP 20			/* most log-probabilities of a row beside the token's own */
#define KSAMPLE_MAX_WIDTH (1 << 19) /* most logits of a row */
#define KSAMPLE_NOT_FINITE (-1)	/* the row's logits aren't all finite */
#define KSAMPLE_NO_TOKEN (-2)	/* no token is left to choose from */

typedef struct KSample
{
	int32_t		row;			/* row of the logits; all rows of a call differ */
	uint32_t	pos;			/* output position: the noise is keyed by seed, pos and token */
	uint64_t	seed;
	double		top_p;			/* 1: no limit */
	int32_t		top_k;			/* 0: no limit */
	float		inv_t;			/* 1 / temperature; 0: the largest logit */
	float		min_p_log;		/* log(min_p); -inf: no limit */
	int32_t		n_logprobs;		/* number of likeliest tokens to report, 0 .. KSAMPLE_TOP; -1: not even
								 * the token's own log-probability */
	int32_t		as_logits;		/* report logits instead of log-probabilities */
	uint32_t	mask_at;		/* bit i % 32 of word i / 32: token i is allowed; absent: all are */
	uint32_t	given_at;		/* bits of the grammar only, to which log-probabilities refer */
	uint32_t	bias_at;		/* [n_bias] tokens, all different, then [n_bias] floats to add */
	int32_t		n_bias;
	/* [n_pen] tokens that occurred, all different, then their counts in the output; 0: only in the
	 * prompt */
	uint32_t	pen_at;
	int32_t		n_pen;
	float		presence;
	float		frequency;
	float		repetition;		/* 1: none; finite, above 0 */
} KSample;

typedef struct KSampled
{
	int32_t		id;				/* or KSAMPLE_NOT_FINITE, KSAMPLE_NO_TOKEN: then all other fields are
								 * undefined */
	int32_t		rank;			/* with n_logprobs >= 0: number of tokens that are at least as likely */
	float		logprob;
	int32_t		n_top;
	int32_t		top_id[KSAMPLE_TOP];	/* sorted, the likeliest first */
	float		top_logprob[KSAMPLE_TOP];
} KSampled;

/*
 * How pooling combines a sequence's rows, one after the other, starting with zeros, or for KPOOL_MAX
 * with the least float.
 */
typedef enum KPoolAdd
{
	KPOOL_COPY,					/* the last row replaces all before */
	KPOOL_SUM,
	KPOOL_MAX,					/* a NaN stays */
	KPOOL_WEIGHTED				/* multiplied by position + 1 */
} KPoolAdd;

/* The rows of a sequence in a step that are pooled. */
typedef struct KPoolSeq
{
	int32_t		slot;			/* row of sums */
	int32_t		row;			/* first row of x */
	int32_t		rows;			/* may be 0 */
	int32_t		pos;			/* position of the first row */
	int32_t		begins;			/* true: initialize its sum */
	double		by;				/* divide the sum by it at the end, in double; 0: don't divide, or not yet */
} KPoolSeq;

/*
 * A low-rank product that is added to a matrix's product: t = scale * (x A^T), then y += t B^T.  A row's
 * t has `rank` columns from `at` on.
 */
#define KLORA_PANEL 32

typedef struct KLora
{
	KType		type;			/* of both: KT_F32, KT_F16 or KT_BF16 */
	int32_t		rank;
	int32_t		k;				/* inputs */
	int32_t		n;				/* outputs */
	int32_t		at;				/* first column of t */
	int32_t		col;			/* first column of y */
	float		scale;
	const void *a;				/* [rank][k] */
	/*
	 * KLORA_PANEL outputs side by side, [n / KLORA_PANEL, rounded up][rank][KLORA_PANEL]; zeros after
	 * the last output
	 */
	const void *b;
} KLora;

/* One product for some rows. */
typedef struct KLoraJob
{
	const KLora *p;
	const int32_t *rows;		/* [n_rows] row numbers of x, t and y */
	int32_t		n_rows;
	int32_t		first;			/* set by the op: its first chunk */
} KLoraJob;

/* One layer's recurrent state: slot s begins at base + s * stride floats.  The state of a sequence whose
 * first row has position 0 starts with zeros, whatever the memory contains. */
typedef struct KState
{
	float	   *base;
	size_t		stride;
} KState;

#define KCONV_MAX	16			/* widest convolution */

/*
 * The recurrence of Mamba-2 (Dao and Gu 2024), and with heads of one channel and a_wide of Mamba (Gu and
 * Dao 2023).  For each head of head_dim channels, h [head_dim][state]:
 *	t = softplus(dt + dt_bias), limited to dt_min .. dt_max
 *	h = h * e^(t a) + t x B;  y = h C + d x, times silu(z)
 */
typedef struct KScan
{
	int			heads;
	int			head_dim;
	int			state;
	int			groups;			/* groups of heads that share B and C */
	const float *x;				/* [rows][heads * head_dim] */
	int			ldx;
	const float *dt;			/* [rows][heads] */
	int			lddt;
	const float *b;				/* [rows][groups * state] */
	const float *c;
	int			ldbc;
	const float *z;				/* [rows][heads * head_dim], NULL = no gate */
	int			ldz;
	const float *a;				/* [heads], or [heads][state] */
	bool		a_wide;
	const float *d;				/* [heads] */
	const float *dt_bias;		/* [heads] or NULL */
	float		dt_min;
	float		dt_max;
} KScan;

/* One layer's attention.  A score is, in this order, q * k * scale, capped, biased. */
typedef struct KAttn
{
	float		scale;
	int			window;			/* > 0: only the last `window` positions, including the row's own */
	int			chunk;			/* > 0, without a window: only the row's own chunk of this many positions */
	/* [n_rows] end (exclusive) of the positions that a row sees, ascending in a sequence, for
	 * bidirectional attention, not with chunks; NULL: the row's own position is the last */
	const int32_t *ends;
	int			ahead;			/* with ends, > 0: at most this many positions after the row's own */
	float		softcap;		/* c > 0: a score s becomes c * tanh(s / c) */
	const float *alibi;			/* [n_heads] slopes: subtract slope * distance; or NULL */
	/* [n_heads][2 * span - 1]: add bias[key's position - row's + span - 1]; or NULL */
	const float *bias;
	int			span;			/* more than any distance */
	const float *sinks;			/* [n_heads] an additional score in the softmax, without a value, or NULL */
} KAttn;

/* activations of feed-forward networks; docs/internals/kernels.md defines them */
typedef enum KAct
{
#define KACT(id, gate, up)	KACT_##id,
#include "acts.def"
#undef KACT
	KACT_COUNT,
	/* not as a gate: */
	KACT_TANH = KACT_COUNT,
	KACT_SIGMOID,				/* 1 / (1 + e^-x), in double */
	KACT_XIELU					/* act_op: with parameters */
} KAct;

typedef enum KNormKind
{
	KNORM_RMS,					/* x / sqrt(mean(x^2) + eps) */
	KNORM_LAYER					/* (x - mean) / sqrt(variance + eps) */
} KNormKind;

typedef struct Kernels
{
	const char *name;			/* "ref", "portable", "avx2", "avx512", "avx512_bf16" ... */
	int			op_size;		/* bytes of an operand's element */

	/* ---- weights ---- */
	/* bytes of a packed [n][k] matrix of a type; 0 = type not supported */
	size_t		(*mat_bytes) (KType type, int n, int k);
	/* Pack output columns n0..n1-1 of src (2-D, row_perm may be set) into m->data.  n0 and n1 are
	 * multiples of 64 (or n): callers pack in parallel. */
	void		(*mat_pack) (KMat *m, const KTensor *src, int n0, int n1);
	/* out[k] = row j of the matrix as float (embedding look-up) */
	void		(*mat_row) (const KMat *m, int j, float *out);

	/* y[i*ldy + j] = sum_k x[i*ldx + k] * w[j][k] (+ bias[j] unless NULL).
	 * ws: scratch of mm_scratch(m->type, rows, k) bytes, 64-byte aligned. */
	size_t		(*mm_scratch) (KType type, int rows, int k);
	void		(*mm) (KPool *pool, const KMat *w, const KOp *x, int rows, int ldx,
					   float *y, int ldy, const float *bias, void *ws);

	/*
	 * n_mats products in one: rows row_start[g] .. row_start[g+1]-1 of x (perhaps none) times w[g], with
	 * the bits that mm gives each group alone.  The matrices have the same type, n and k; bias: NULL, or
	 * for each matrix its bias or NULL. ws: scratch of mm_grouped_scratch(type, n_mats, rows, k) bytes,
	 * 64-byte aligned.
	 */
	size_t		(*mm_grouped_scratch) (KType type, int n_mats, int rows, int k);
	void		(*mm_grouped) (KPool *pool, const KMat *w, int n_mats, const int32_t *row_start,
							   const KOp *x, int ldx, float *y, int ldy,
							   const float *const *bias, void *ws);

	/* ---- low-rank products beside matrices, of some rows each ---- */
	/*
	 * Compute t of all jobs; columns of t that belong to no job stay unchanged.  No row is in two jobs
	 * with the same `at`.
	 */
	void		(*lora_shrink) (KPool *pool, KLoraJob *jobs, int n, const KOp *x, int ldx, float *t, int ldt);
	/* y += t B^T.  Jobs of the same row have different columns. */
	void		(*lora_expand) (KPool *pool, KLoraJob *jobs, int n, const float *t, int ldt, float *y,
								int ldy);

	/*
	 * Compute t for adapters of embeddings, whose a is [k][rank]: scale * row ids[row] of a, zeros if
	 * there is no such row.  ids: the host's, by row
	 */
	void		(*lora_rows) (KPool *pool, KLoraJob *jobs, int n, const int32_t *ids, float *t, int ldt);

	/* ---- operands ---- */
	/* y = x, in another type; if operands are floats, y may be x, with the same stride */
	void		(*to_op) (KPool *pool, KOp *y, int ldy, const float *x, int ldx, int rows, int dim);
	void		(*from_op) (KPool *pool, float *y, int ldy, const KOp *x, int ldx, int rows, int dim);

	/* ---- row-wise ---- */
	/* y = x / sqrt(mean(x^2) + eps) * w; y may be x, w may be NULL (1) */
	void		(*rmsnorm) (KPool *pool, float *y, const float *x, const float *w,
							int rows, int dim, float eps);
	void		(*rmsnorm_op) (KPool *pool, KOp *y, const float *x, const float *w,
							   int rows, int dim, float eps);
	/* x += d, then y = rmsnorm(x) */
	void		(*add_rmsnorm) (KPool *pool, KOp *y, float *x, const float *d, const float *w,
								int rows, int dim, float eps);
	/* y = (x - mean) / sqrt(variance + eps) * w + b; y may be x, w NULL (1), b NULL (0) */
	void		(*layernorm) (KPool *pool, float *y, const float *x, const float *w, const float *b,
							  int rows, int dim, float eps);
	void		(*layernorm_op) (KPool *pool, KOp *y, const float *x, const float *w, const float *b,
								 int rows, int dim, float eps);
	/*
	 * Norm `heads` heads of dim starting at x (row stride ld), each separately, in place.  Head h's
	 * weight is w + h*ldw (ldw 0: one for all), or none if w is NULL.
	 */
	void		(*norm_heads) (KPool *pool, KNormKind kind, float *x, int rows, int ld,
							   int heads, int dim, const float *w, int ldw, float eps);
	/* x += d */
	void		(*add) (KPool *pool, float *x, const float *d, int rows, int dim);
	/* x *= s */
	void		(*scale) (KPool *pool, float *x, int rows, int dim, float s);
	/*
	 * Rotate `heads` heads of head_dim starting at x (row stride ld), in place.
	 * cs: [max_pos][rot_dim/2][2] cos, sin.  rot_dim <= head_dim, even.  Halves
	 * convention (GPT-NeoX): pairs (i, i + rot_dim/2).
	 */
	void		(*rope) (KPool *pool, float *x, int rows, int ld, int heads, int head_dim,
						 const int32_t *pos, const float *cs, int rot_dim);
	/* y[i][j] = cap * tanh(y[i][j] / cap), cap > 0 */
	void		(*softcap) (KPool *pool, float *y, int rows, int dim, float cap);
	/* y[i][j] = act(g[i][j]) * u[i][j]; g and u are halves of gu: [rows][2*dim] */
	void		(*act_mul) (KPool *pool, KAct a, KOp *y, const float *gu, int rows, int dim);
	/* y = act(y); not KACT_XIELU */
	void		(*act) (KPool *pool, KAct a, float *y, int rows, int dim);
	/*
	 * y = act(x), for products; if operands are floats, y may be x.  p: for KACT_XIELU the factors a_p
	 * and a_n, which the caller computes from the learned parameters, beta and eps; NULL for others.
	 * KACT_XIELU is a_p x^2 + beta x for x > 0, else (e^min(x, eps) - 1 - x) a_n + beta x.
	 */
	void		(*act_op) (KPool *pool, KAct a, const float *p, KOp *y, const float *x, int rows, int dim);
	/* columns from .. from + n - 1 of y, *= by */
	void		(*scale_cols) (KPool *pool, float *y, int rows, int ldy, int from, int n, float by);
	/* column j of y, *= w[j] */
	void		(*mul_cols) (KPool *pool, float *y, int rows, int ldy, const float *w, int n);
	/* clip n columns of x to -most .. most; a NaN stays */
	void		(*clip) (KPool *pool, float *x, int rows, int ldx, int n, float most);
	/* x += b for heads of dim columns each; ldb 0: the same b for all of them, else head h's is b + h*ldb */
	void		(*add_head_bias) (KPool *pool, float *x, int rows, int ldx, int heads, int dim,
								  const float *b, int ldb);
	/*
	 * n columns of q *= 1 + scale log(1 + s), s = (position + first) / every, rounded down, where s > 0.
	 * pos: [rows], the host's.
	 */
	void		(*temper) (KPool *pool, float *q, int rows, int ldq, int n, const int32_t *pos, float scale,
						   int every, int first);

	/* ---- copying rows ---- */
	/*
	 * y's row i = row ids[i] + first of m, zeros if there is no such row.  ids: the host's; NULL: row
	 * `first` for all
	 */
	void		(*rows_of) (KPool *pool, const KMat *m, const int32_t *ids, int first, int rows, float *y,
							int ldy);
	/* y's row i = given[i], unless that is NULL; the pointers and their rows are in the host's memory */
	void		(*put_rows) (KPool *pool, const float *const *given, int rows, int dim, float *y, int ldy);
	/* y's row i = x's row i, or with idx, the host's, x's row idx[i] */
	void		(*copy_rows) (KPool *pool, float *y, int ldy, const float *x, int ldx, const int32_t *idx,
							  int rows, int dim);
	/*
	 * x's row i = x's row idx[i] in place; idx: [n], the host's, ascending.  Rows have width elements of
	 * elem_size bytes.
	 */
	void		(*keep_rows) (KPool *pool, void *x, int elem_size, const int32_t *idx, int n, int width);
	/* y[i][j] = x[i][from[j]] for n columns, K_NO_COLUMN if from[j] < 0; from: [n], in the device's
	 * memory */
	void		(*pick_cols) (KPool *pool, float *y, int ldy, const float *x, int ldx, const int32_t *from,
							  int rows, int n);

	/* y = a * b of dim columns, or a * silu(b); y may be a */
	void		(*mul_rows) (KPool *pool, float *y, int ldy, const float *a, int lda, const float *b, int ldb,
							 int rows, int dim, bool silu);
	/* y[i] = the sum of x[i][j] * w[j], plus bias; in double, j ascending */
	void		(*dot_rows) (KPool *pool, float *y, const float *x, int rows, int dim, const float *w,
							 float bias);
	/*
	 * Row r's head h, of width elements: copy from x + r * x_row + h * x_head to y + r * y_row + h *
	 * y_head.  y and x are operands (y_op, x_op) or floats; strides are in elements.
	 */
	void		(*swap_heads) (KPool *pool, void *y, bool y_op, size_t y_row, size_t y_head, const void *x,
							   bool x_op, size_t x_row, size_t x_head, int rows, int heads, int width);
	/* y[i] = i * by */
	void		(*series) (KPool *pool, int32_t *y, int n, int32_t by);

	/* ---- mixtures of experts ---- */
	/*
	 * Compute each row's top_k experts, ascending, and their weights.  logits: [rows][n_experts], may be
	 * overwritten; space: of the same size.  A NaN leads to some choice and to a weight of NaN.
	 */
	void		(*moe_route) (KPool *pool, const KRoute *c, float *logits, int rows, float *space,
							  int32_t *experts, float *weights);
	/*
	 * Replace experts by the slots that ranks have for them: slots[e * width] is the number of e's
	 * slots, which follow it.  Row i's expert e becomes slot number (first + i) % that number.
	 */
	void		(*moe_slots) (KPool *pool, int32_t *experts, int rows, int first, int top_k,
							  const int32_t *slots, int width);
	/*
	 * Sort pairs of a row and an expert by expert, then by row: pair i goes to place[i], expert e's
	 * pairs are at start[e] .. start[e + 1] - 1.
	 */
	void		(*moe_place) (KPool *pool, const int32_t *experts, int pairs, int n_experts, int32_t *start,
							  int32_t *place);
	/* x's row place[i * top_k + j] = h's row i, with weights times weights[i * top_k + j] */
	void		(*moe_gather) (KPool *pool, KOp *x, const KOp *h, int rows, int top_k, const int32_t *place,
							   const float *weights, int hidden);
	/*
	 * y's row i = sum over j ascending of weights[i * top_k + j] * x's row place[i * top_k + j],
	 * starting with y's row if shared, times the sigmoid of gate[i] unless gate is NULL, else with
	 * zeros; finally plus out_bias.  weights NULL: all 1.
	 */
	void		(*moe_combine) (KPool *pool, float *y, const float *x, int rows, int top_k,
								const int32_t *place, const float *weights, const float *gate, bool shared,
								const float *out_bias, int hidden);

	/* ---- attention ---- */
	/* Store k ([rows][n_kv_heads*head_dim], row stride ldk) and v ([rows][n_kv_heads*v_dim],
	 * ldv) at the rows' positions. */
	void		(*kv_write) (KPool *pool, const KvView *kv, int layer, const KRows *r,
							 const float *k, int ldk, const float *v, int ldv);
	/*
	 * NULL, as on CPUs, or rope of q and K, followed by kv_write: rows of qkv (row stride ld) are
	 * n_heads heads of q, then those of K and of V.  The KV and q have the bits that these two ops give
	 * them; K in qkv is undefined afterwards.
	 */
	void		(*rope_kv) (KPool *pool, const KvView *kv, int layer, const KRows *r, float *qkv, int ld,
							int n_heads, const float *cs, int rot_dim);
	/*
	 * Attention of every row over positions 0..pos of its sequence (or as `a` restricts them), softmax
	 * in float. n_heads is a multiple of n_kv_heads, by at most 128. q: [rows][n_heads*head_dim], row
	 * stride ldq; out: [rows][n_heads*v_dim].
	 */
	size_t		(*attn_scratch) (const KvView *kv, int n_heads, int rows, int nthreads);
	void		(*attn) (KPool *pool, const KvView *kv, int layer, const KRows *r,
						 const float *q, int ldq, int n_heads, const KAttn *a,
						 KOp *out, void *ws);

	/* Copy page from_to[2 i] to page from_to[2 i + 1], one after the other; [2 n], the host's. */
	void		(*kv_copy) (KPool *pool, const KvView *kv, const int32_t *from_to, int n);
	/*
	 * out = the largest |K| and |V| of a layer in blocks 0 .. n_blocks - 1 of a KV cache of floats
	 * (KT_F32), all of them full; NaN if there is a NaN.  out is the host's: the op waits for the
	 * result.
	 */
	void		(*kv_largest) (KPool *pool, const KvView *kv, int layer, int n_blocks, float out[2]);

	/* ---- recurrent state ---- */
	/*
	 * y = b + sum over i of w[i] * x[position - width + 1 + i], or its silu, for each of dim channels
	 * separately.  State: [width - 1][dim], the inputs before the first row.  w: [width][dim]; b: [dim]
	 * or NULL. y must not be x.
	 */
	void		(*conv) (KPool *pool, const KState *st, const KRows *r, const float *x, int ldx, int dim,
						 int width, const float *w, const float *b, bool silu, float *y, int ldy);
	/* State: [heads][head_dim][state].  y: [rows][heads * head_dim], row stride ldy. */
	void		(*scan) (KPool *pool, const KState *st, const KRows *r, const KScan *s, float *y, int ldy);

	/* ---- pooling ---- */
	/*
	 * NULL, as on CPUs, where src/model/layers/pooler.c pools, or add rows of x to sums of width floats,
	 * lds floats apart, with the bits of pooler.c.  seqs: the host's, all with different slots.
	 */
	void		(*pool_rows) (KPool *pool, KPoolAdd how, float *sums, int lds, const KPoolSeq *seqs, int n,
							  const float *x, int ldx, int width);

	/* ---- tokens ---- */
	/*
	 * NULL, as on CPUs, where the engine samples itself, or sample a token for each of n rows.  `rows`
	 * has their KSamples and arrays.  A row has width logits, at most KSAMPLE_MAX_WIDTH; only ids below
	 * n_valid are allowed.  The logits stay unchanged; `rows`, aligned to 8 bytes, is modified.
	 */
	void		(*sample) (KPool *pool, void *rows, int n, float *logits, int width, int n_valid,
						   KSampled *out);
} Kernels;

/*
 * Return the best implementation for this CPU (isa = "auto" or NULL), or the named one.  Return NULL if
 * the name is unknown or this CPU lacks it; *why then says which.
 */
const Kernels *kernels_select(const char *isa, const char **why);
/* All compiled-in implementations, NULL-terminated.  kernels_usable(): this CPU can run it. */
const Kernels *const *kernels_all(void);
bool		kernels_usable(const Kernels *k);

/* Compute strides and size of a KV area: fills head/block/layer_stride, returns the total bytes of
 * n_layers x n_blocks (0 on overflow). */
size_t		kv_layout(KvView *kv);

#ifdef __cplusplus
}
#endif
#endif
