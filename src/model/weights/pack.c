/*
 * pack.c
 *	  Convert tensors of a file to a Decoder's packed weights.
 *
 * dec_pack() plans one arena for everything, then packs matrix by matrix, 64 output columns a chunk, on
 * all threads.  It packs directly from the file's pages if a chunk lies in one tensor of the wanted
 * type, else from a strip of 64 rows into which it gathers adjacent tensors (q|k|v, gate|up) or
 * quantized ones.  So it never copies a whole tensor, and the file's pages leave this process after each
 * matrix.
 *
 * Chunks are numbered by columns, in packing as in products, and the pool gives each thread a range of
 * them: pinned threads pack what they will read later, so its pages are on their NUMA node.
 *
 * Packed weights may come from a cache on disk instead (pack_cache.c).  To detect an unnoticed change of
 * the layout, some strips are packed again and compared.
 *
 * Tested by tests/unit/model/test_model.c, test_packcache.c and the goldens.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/checksum.h"
#include "base/log.h"
#include "base/alloc.h"
#include "base/machine/system_memory.h"
#include "model/weights/bound.h"
#include "model/weights/pack_cache.h"
#include "model/weights/device_placement.h"

#define STRIP 64				/* rows of a chunk, as mat_pack wants */
#define SAMPLES 12				/* number of matrices; one strip of each is compared with the cache's */

typedef struct Packer
{
	Decoder    *d;
	const ModelSource *src;
	Err		   *e;
	size_t		bytes;			/* of the arena: all packed weights */
	uint64_t	total;			/* bytes in the file */
	uint64_t	done;
	uint64_t	plan;			/* digest of the layout of the arena */
	uint8_t    *strips;			/* [threads][strip_bytes] */
	size_t		strip_bytes;
	uint8_t    *raw;			/* [threads][raw_bytes]: rows of another type, from a reader */
	size_t		raw_bytes;
	uint8_t    *whole_rows;		/* [threads][whole_bytes]: a whole row, if a rank has only some of its
								 * inputs */
	size_t		whole_bytes;
	float	   *floats;			/* [threads][most_k]: a row to be quantized */
	int			most_k;
	int32_t    *perm;			/* [rows of the widest matrix]: i % STRIP */
	int			widest;
	bool		mapped;			/* the arena is a cache entry: nothing is written */

	const QuantScheme *quant;	/* NULL = as in the file */
	int			n_kept;			/* matrices that stay as they are */
	int			n_other;		/* matrices that got another format than requested */

	/* the matrix that is being packed */
	KMat	   *m;
	const KTensor *const *parts;
	int			n_parts;
	int			k_all;			/* length of the file's rows */
	int			k_from;			/* first column of the file's rows that m has */
	_Atomic int bad_chunk;		/* the first chunk with rows that src refuses, INT_MAX: none */
} Packer;

/* Call fn on every Linear. */
static bool
each_linear(Decoder *d, bool (*fn) (Packer *p, Linear *l), Packer *p)
{
	for (size_t i = 0; i < d->bound->n_linears; i++)
		if (!fn(p, d->bound->linears[i]))
			return false;
	return true;
}

/* Count matrices that could not get the requested type, for one line in the log. */
static bool
count_other(Packer *p, Linear *l)
{
	const QuantScheme *q = p->quant;
	KType		want = l->is_head ? q->head : q->matrix;

	want = quantize_for_x(want, q->x);
	for (int i = 0; i < l->n_parts && !l->exact; i++)
		if (l->as[i] == l->w[i]->type)
			p->n_kept++;
		else if (l->as[i] != want)
			p->n_other++;
	return true;
}

static void
log_quantization(Packer *p)
{
	if (p->quant->is_float)
		return;
	each_linear(p->d, count_other, p);
	if (p->n_kept > 0 || p->n_other > 0)
		log_line('I', "quantization %s: %d matrices have rows that don't fit its blocks and are quantized "
				 "with smaller ones, %d stay as they are", p->quant->name, p->n_other, p->n_kept);
}

/* ---- the plan ---- */

/* Return true if any part has a bias; parts without one have zeros then. */
static bool
has_bias(const Linear *l)
{
	for (int i = 0; i < l->n_parts; i++)
		if (l->b[i] != NULL)
			return true;
	return false;
}

/* Return the number of inputs in the file. */
static int
whole_k(const Linear *l)
{
	return l->k_all > 0 ? l->k_all : l->k;
}

bool
bound_merges(const Linear *l)
{
	for (int i = 1; i < l->n_parts; i++)
		if (l->as[i] != l->as[0] ||
			(l->as[0] == KT_INT8S && (l->w[i]->reader->x.scale != l->w[0]->reader->x.scale ||
									  l->w[i]->reader->x.zero != l->w[0]->reader->x.zero)))
			return false;
	return true;
}

/* Decide which parts of a Linear become one matrix. */
static bool
plan_linear(Packer *p, Linear *l)
{
	Decoder    *d = p->d;
	bool		merge = bound_merges(l);
	int			col = 0;

	ALWAYS(l->n_parts >= 0 && l->n_parts <= (int) (sizeof(l->mat) / sizeof(l->mat[0])));
	l->n_mats = merge ? 1 : l->n_parts;
	for (int i = 0; i < l->n_mats; i++)
	{
		KMat	   *m = &l->mat[i];
		int64_t		what[4];

		m->type = l->as[i];
		m->n = merge ? l->n : (int32_t) l->w[i]->shape[0];
		m->k = l->k;
		m->nbytes = d->k->mat_bytes(m->type, m->n, m->k);
		if (m->nbytes == 0 || !marena_add(&p->bytes, m->nbytes))
			return err_set(p->e, ERR_NOMEM, "model \"%s\" is too large", dec_where(p->src, NULL));
		what[0] = m->type;
		what[1] = m->n;
		what[2] = m->k;
		what[3] = (int64_t) m->nbytes;
		p->plan = digest(what, sizeof(what), p->plan);
		l->col[i] = col;
		col += m->n;
	}
	for (int i = 0; i < l->n_parts; i++)
	{
		size_t		strip = ktype_row_bytes(l->as[i], l->k) * STRIP;
		size_t		raw = ktype_row_bytes(l->w[i]->type, whole_k(l)) * STRIP;
		size_t		whole = l->k_all > 0 ? ktype_row_bytes(l->as[i], l->k_all) : 0;

		if (strip > p->strip_bytes)
			p->strip_bytes = strip;
		if (l->w[i]->reader != NULL && (l->w[i]->type != quantize_rows_of(l->as[i]) || l->k_all > 0) &&
			raw > p->raw_bytes)
			p->raw_bytes = raw;
		if (whole > p->whole_bytes)
			p->whole_bytes = whole;
		p->total += l->w[i]->nbytes;
	}
	if (whole_k(l) > p->most_k)
		p->most_k = whole_k(l);
	if (l->n > p->widest)
		p->widest = l->n;
	if (has_bias(l) && !marena_add(&p->bytes, (size_t) l->n * sizeof(float)))
		return err_set(p->e, ERR_NOMEM, "model \"%s\" is too large", dec_where(p->src, NULL));
	return true;
}

/* Add up the sizes of all weights, and of the buffers for packing. */
static bool
plan_all(Packer *p)
{
	Decoder    *d = p->d;
	size_t		threads = (size_t) kpool_nthreads(d->pool);

	if (!each_linear(d, plan_linear, p))
		return false;
	for (size_t i = 0; i < d->bound->n_vectors; i++)
	{
		const BoundVector *v = &d->bound->vectors[i];
		int64_t		n = v->of == 0 ? v->src->shape[0] : v->at == 0 ? v->of : 0;

		p->plan = digest(&n, sizeof(n), p->plan);
		if (n > 0 && !marena_add(&p->bytes, (size_t) n * sizeof(float)))
			return err_set(p->e, ERR_NOMEM, "model \"%s\" is too large", dec_where(p->src, NULL));
	}
	p->strips = mem_try_aligned(threads * p->strip_bytes);
	p->raw = mem_try_alloc(threads * p->raw_bytes);
	p->whole_rows = mem_try_alloc(threads * p->whole_bytes);
	p->perm = mem_try_alloc((size_t) p->widest * sizeof(int32_t));
	p->floats = mem_try_alloc(threads * (size_t) p->most_k * sizeof(float));
	if (p->strips == NULL || p->raw == NULL || p->whole_rows == NULL || p->perm == NULL || p->floats == NULL)
		return err_set(p->e, ERR_NOMEM, "out of memory");
	for (int i = 0; i < p->widest; i++)
		p->perm[i] = i % STRIP;
	return true;
}

/* ---- packing ---- */

/* Return how many rows of a tensor, from row i on and at most n, are evenly spaced rows *first, *first +
 * *step ... of the file. */
static int
even_rows(const KTensor *w, int64_t i, int n, int64_t *first, int *step)
{
	const int32_t *perm = w->row_perm != NULL ? w->row_perm + i : NULL;
	int			m = 1;

	*first = w->base_row + (perm != NULL ? perm[0] : i);
	*step = perm != NULL && n > 1 ? perm[1] - perm[0] : 1;
	if (perm == NULL)
		return n;
	while (m < n && *step > 0 && perm[m] - perm[m - 1] == *step)
		m++;
	return m;
}

/* Read rows i .. i+n-1 from a reader, many at once: some readers must read as much for one row as for a
 * block of rows. */
static void
read_rows(const KTensor *w, int64_t i, int n, size_t bytes, uint8_t *to)
{
	for (int m; n > 0; i += m, n -= m, to += (size_t) m * bytes)
	{
		int64_t		first;
		int			step;

		m = even_rows(w, i, n, &first, &step);
		w->reader->rows(w->reader, first, m > 1 ? step : 1, m, to);
	}
}

/* Convert a row to another type. */
static void
convert_row(const Packer *p, KType from, const uint8_t *row, KType type, int ith, uint8_t *to)
{
	float	   *floats = p->floats + (size_t) ith * (size_t) p->most_k;

	kblock_to_float(from, row, p->k_all, floats);
	if (type == KT_F32)
		memcpy(to, floats, (size_t) p->k_all * sizeof(float));
	else
		quantize_row(type, floats, p->k_all, to);
}

/*
 * Copy rows i .. i+n-1 of a tensor to `to`, as the type of the matrix being packed has them.  If a rank
 * has only some inputs, whole rows are quantized before they are cut, so the weights equal those of a
 * single rank.
 */
static void
take_rows(const Packer *p, const KTensor *w, int64_t i, int n, int ith, uint8_t *to)
{
	KType		type = quantize_rows_of(p->m->type);
	bool		cut = p->m->k < p->k_all;
	size_t		bytes = ktype_row_bytes(w->type, p->k_all);
	size_t		to_bytes = ktype_row_bytes(type, p->m->k);
	uint8_t    *whole = p->whole_rows + (size_t) ith * p->whole_bytes;
	uint8_t    *raw = w->type == type && !cut ? to : p->raw + (size_t) ith * p->raw_bytes;

	if (w->reader != NULL)
		read_rows(w, i, n, bytes, raw);
	for (int j = 0; j < n; j++, to += to_bytes)
	{
		int64_t		row = w->row_perm != NULL ? w->row_perm[i + j] : i + j;
		const uint8_t *from = w->reader != NULL ? raw + (size_t) j * bytes : (const uint8_t *) w->data +
			(size_t) row * bytes;

		if (w->type != type)
		{
			convert_row(p, w->type, from, type, ith, cut ? whole : to);
			from = whole;
		}
		if (cut)
			ktype_cut(type, from, p->k_all, p->k_from, p->m->k, to);
		else if (w->type == type && w->reader == NULL)
			memcpy(to, from, bytes);
	}
}

/* Return true if rows from .. to-1 of a tensor are valid.  Readers have already checked theirs. */
static bool
check_tensor(const Packer *p, const KTensor *t, int64_t from, int64_t to, Err *e)
{
	const KTensor *file = t->base != NULL ? t->base : t;

	if (p->src->check == NULL || t->reader != NULL)
		return true;
	if (t->row_perm == NULL)
		return p->src->check(p->src->ctx, file, t->base_row + from, t->base_row + to, e);
	for (int64_t i = from; i < to; i++)
		if (!p->src->check(p->src->ctx, file, t->base_row + t->row_perm[i], t->base_row + t->row_perm[i] + 1,
						   e))
			return false;
	return true;
}

/* Check rows n0 .. n1-1 of the matrix. */
static bool
check_rows(const Packer *p, int n0, int n1, Err *e)
{
	int64_t		first = 0;

	for (int i = 0; i < p->n_parts; i++)
	{
		const KTensor *t = p->parts[i];
		int64_t		from = n0 - first > 0 ? n0 - first : 0;
		int64_t		to = n1 - first < t->shape[0] ? n1 - first : t->shape[0];

		if (from < to && !check_tensor(p, t, from, to, e))
			return false;
		first += t->shape[0];
	}
	return true;
}

/* Pack rows n0 .. n1-1 into m, from its row `to` on. */
static void
pack_rows(Packer *p, KMat *m, int to, int n0, int n1, int ith)
{
	uint8_t    *strip = p->strips + (size_t) ith * p->strip_bytes;
	size_t		row_bytes = ktype_row_bytes(m->type, m->k);
	KTensor		t = {.name = p->parts[0]->name, .type = m->type, .ndim = 2, .shape = {m->n, m->k}};
	const KTensor *w;
	int			part = 0;
	int			first = 0;

	while (n0 - first >= p->parts[part]->shape[0])
		first += (int) p->parts[part++]->shape[0];
	w = p->parts[part];
	if (w->type == quantize_rows_of(m->type) && w->reader == NULL && n1 - first <= w->shape[0] &&
		m->k == p->k_all)
	{
		/* shift the data so that m's rows from `to` on are w's rows from n0 - first on */
		t.data = (const void *) ((uintptr_t) w->data - (uintptr_t) (first + to - n0) * row_bytes);
		if (w->row_perm != NULL)
		{
			t.data = w->data;
			t.row_perm = (const int32_t *) ((uintptr_t) w->row_perm -
											(uintptr_t) (first + to - n0) * sizeof(int32_t));
		}
		p->d->k->mat_pack(m, &t, to, to + n1 - n0);
		return;
	}
	for (int j = n0; j < n1;)
	{
		int			n;

		while (j - first >= p->parts[part]->shape[0])
			first += (int) p->parts[part++]->shape[0];
		n = (int) p->parts[part]->shape[0] - (j - first);
		n = n < n1 - j ? n : n1 - j;
		take_rows(p, p->parts[part], j - first, n, ith, strip + (size_t) (j - n0) * row_bytes);
		j += n;
	}
	t.data = strip;
	t.nbytes = (size_t) (n1 - n0) * row_bytes;
	t.row_perm = p->perm;
	p->d->k->mat_pack(m, &t, to, to + n1 - n0);
}

/* Pack one strip of the current matrix. */
static void
pack_chunk(void *arg, int chunk, int ith)
{
	Packer	   *p = arg;
	int			n0 = chunk * STRIP;
	int			n1 = n0 + STRIP < p->m->n ? n0 + STRIP : p->m->n;
	Err			e;

	if (!check_rows(p, n0, n1, &e))
	{
		int			bad = atomic_load(&p->bad_chunk);

		while (chunk < bad && !atomic_compare_exchange_weak(&p->bad_chunk, &bad, chunk))
			;
		return;
	}
	pack_rows(p, p->m, n0, n0, n1, ith);
}

/* Make matrix i of l the current one. */
static void
begin_mat(Packer *p, Linear *l, int i)
{
	p->m = &l->mat[i];
	p->parts = &l->w[i];
	p->n_parts = l->n_mats == 1 ? l->n_parts : 1;
	p->k_all = whole_k(l);
	p->k_from = l->k_from;
	atomic_store(&p->bad_chunk, INT32_MAX);
}

/* Drop the file's pages of a tensor, or of the tensors that it is made of; they aren't needed for
 * now. */
static void
drop_tensor(const Packer *p, const KTensor *t)
{
	if (p->src->drop == NULL)
		return;
	if (t->reader == NULL)
		p->src->drop(p->src->ctx, t->base != NULL ? t->base : t);
	for (const KTensor *const *part = t->reader != NULL ? t->reader->parts : NULL;
		 part != NULL && *part != NULL; part++)
		p->src->drop(p->src->ctx, *part);
}

/* Pack the current matrix on all threads. */
static bool
pack_mat(Packer *p)
{
	int			bad;

	kpool_run(p->d->pool, pack_chunk, p, (p->m->n + STRIP - 1) / STRIP);
	bad = atomic_load(&p->bad_chunk);
	if (bad != INT32_MAX)
		return check_rows(p, bad * STRIP, p->m->n, p->e);
	for (int i = 0; i < p->n_parts; i++)
	{
		drop_tensor(p, p->parts[i]);
		p->done += p->parts[i]->nbytes;
	}
	if (p->src->progress != NULL && !p->src->progress(p->src->ctx, (double) p->done / (double) p->total))
		return err_set(p->e, ERR_CANCELLED, "loading model \"%s\" was canceled", dec_where(p->src, NULL));
	return true;
}

/* Convert a vector (F32, F16 or BF16) to floats. */
static void
vector_to_float(const KTensor *t, float *out)
{
	const uint8_t *p = t->data;

	for (int64_t i = 0; i < t->shape[0]; i++)
	{
		int64_t		row = t->row_perm != NULL ? t->row_perm[i] : i;
		uint16_t	h;

		if (t->type == KT_F32)
		{
			memcpy(&out[i], p + row * 4, 4);
			continue;
		}
		memcpy(&h, p + row * 2, 2);
		out[i] = t->type == KT_F16 ? kf16_to_f32(h) : kbf16_to_f32(h);
	}
}

static bool
place_linear(Packer *p, Linear *l)
{
	MArena	   *a = &p->d->weights;

	for (int i = 0; i < l->n_mats; i++)
	{
		begin_mat(p, l, i);
		p->m->data = marena_take(a, p->m->nbytes);
		if (!p->mapped && !pack_mat(p))
			return false;
	}
	if (has_bias(l))
	{
		float	   *bias = l->bias = marena_take(a, (size_t) l->n * sizeof(float));

		for (int i = 0; i < l->n_parts; i++)
		{
			size_t		n = (size_t) l->w[i]->shape[0];

			if (!p->mapped && l->b[i] != NULL)
				vector_to_float(l->b[i], bias);
			else if (!p->mapped)
				memset(bias, 0, n * sizeof(float));
			bias += n;
		}
	}
	return true;
}

/* Transpose [rows][cols] to [cols][rows]. */
static void
transpose(float *x, size_t rows, size_t cols)
{
	float	   *was = mem_alloc(rows * cols * sizeof(float));

	memcpy(was, x, rows * cols * sizeof(float));
	for (size_t i = 0; i < rows; i++)
		for (size_t j = 0; j < cols; j++)
			x[j * rows + i] = was[i * cols + j];
	mem_free(was);
}

/* Place everything in the arena, and pack it unless the arena is a cache entry. */
static bool
place_all(Packer *p)
{
	Decoder    *d = p->d;

	if (!each_linear(d, place_linear, p))
		return false;
	for (size_t i = 0; i < d->bound->n_vectors; i++)
	{
		const BoundVector *v = &d->bound->vectors[i];
		int64_t		n = v->src->shape[0];
		int64_t		room = v->of == 0 ? n : v->of;
		float	   *to;

		if (v->at == 0)
			*v->to = marena_take(&d->weights, (size_t) room * sizeof(float));
		to = *v->to + v->at;
		if (p->mapped)
			continue;
		vector_to_float(v->src, to);
		for (int64_t j = 0; v->plus != 0 && j < n; j++)
			to[j] += v->plus;
		for (int64_t j = 0; v->map == BIND_MINUS_EXP && j < n; j++)
			to[j] = (float) -exp((double) to[j]);
		if (v->map == BIND_TURNED)
			transpose(to, (size_t) (n / v->cols), (size_t) v->cols);
	}
	return true;
}

/* ---- the cache ---- */

/* Return true if the first strip of each matrix of l equals a newly packed one. */
static bool
same_strips(Packer *p, Linear *l)
{
	bool		same = true;

	for (int i = 0; i < l->n_mats && same; i++)
	{
		KMat		m = l->mat[i];
		uint8_t    *now;

		begin_mat(p, l, i);
		m.n = m.n < STRIP ? m.n : STRIP;
		m.nbytes = p->d->k->mat_bytes(m.type, m.n, m.k);
		now = m.data = mem_try_aligned(m.nbytes);
		if (now == NULL)
			return false;
		pack_rows(p, &m, 0, 0, m.n, 0);
		same = memcmp(now, l->mat[i].data, m.nbytes) == 0;
		mem_free(now);
	}
	return same;
}

/* Call same_strips() for some matrices, from the first to the last. */
static bool
same_samples(Packer *p)
{
	const Bound *o = p->d->bound;
	size_t		step = (o->n_linears + SAMPLES - 1) / SAMPLES;

	for (size_t i = 0; i < o->n_linears; i += step)
		if (!same_strips(p, o->linears[i]))
			return false;
	return same_strips(p, o->linears[o->n_linears - 1]);
}

/* Use the cache's entry if there is a valid one. */
static bool
from_cache(Packer *p, const PackCache *pc)
{
	Decoder    *d = p->d;

	if (!packcache_map(pc, d->pool, &d->weights))
		return false;
	p->mapped = true;
	place_all(p);
	if (same_samples(p))
		return true;
	packcache_refuse(pc, "packing gives something else");
	marena_free(&d->weights);
	p->mapped = false;
	return false;
}

/* Return true if the packed weights may be cached.  If the file changed meanwhile, they would be taken
 * for those of a file that looks the same. */
static bool
go_on(void *ctx)
{
	const ModelSource *src = ((Packer *) ctx)->src;

	if (src->intact != NULL && !src->intact(src->ctx))
		return false;
	return src->progress == NULL || src->progress(src->ctx, 1.0);
}

static void
open_cache(Packer *p, const ModelOptions *opt, PackCache *pc)
{
	const DecRanks *r = &p->d->ranks;
	Buf			quant = {0};
	Buf			key = {0};

	buf_printf(&quant, "%s", opt->quant != NULL ? opt->quant->name : "none");
	/* ranks' parts differ even if their plans are equal, so each rank has its own entry */
	if (r->tp != NULL)
		buf_printf(&quant, "\nrank %d of %d%s%s%s%s", r->tp->rank, r->tp->size,
				   r->experts ? " by experts" : "", r->round_robin ? " in turn" : "", r->rows ? " by rows" :
				   "", r->lends ? ", embedding whole" : "");
	if (r->balance != NULL)
		buf_printf(&quant, ", %d slots", r->n_slots);
	if (r->pp != NULL)
		buf_printf(&quant, "\nstage %d of %d", r->pp->rank, r->pp->size);
	buf_printf(&key, "layout %d\nplan %016llx\n%s", KERNELS_LAYOUT, (unsigned long long) p->plan,
			   opt->cache_id != NULL ? opt->cache_id : "");
	packcache_init(pc, opt->cache_id != NULL ? opt->cache_dir : NULL, dec_where(p->src, NULL), p->d->k->name,
				   quant.data, key.data, p->bytes);
	buf_free(&quant);
	buf_free(&key);
}

/* Check that there is enough memory; otherwise the kernel would kill the engine later. */
static bool
enough_memory(const Packer *p, HugePages huge, const char *what)
{
	uint64_t	left = sysmem_available("");

	/* with HUGE_ON the pages are reserved, or the reservation fails */
	if (huge == HUGE_ON || p->bytes <= left)
		return true;
	err_set(p->e, ERR_NOMEM, "out of memory");
	return err_detail(p->e, "%s: %zu MB are needed, %" PRIu64 " MB are available.", what, p->bytes >> 20,
					  left >> 20);
}

/* Fill the arena from the cache, or from the files; then store it in the cache. */
static bool
fill_arena(Packer *p, const ModelOptions *opt)
{
	Decoder    *d = p->d;
	PackCache	pc;
	char		what[400];
	bool		ok = true;

	open_cache(p, opt, &pc);
	if (!from_cache(p, &pc))
	{
		snprintf(what, sizeof(what), "The weights of model \"%.300s\"", dec_where(p->src, NULL));
		ok = enough_memory(p, opt->huge, what) && marena_reserve(&d->weights, p->bytes, opt->huge, what,
																 p->e) && place_all(p);
		if (ok)
			packcache_write(&pc, d->pool, &d->weights, go_on, p);
	}
	packcache_free(&pc);
	return ok;
}

bool
dec_pack(Decoder *d, const ModelSource *src, const ModelOptions *opt, ModelInfo *info, Err *e)
{
	Packer		p = {.d = d, .src = src, .quant = opt->quant, .e = e};
	bool		ok = plan_all(&p);

	if (ok && opt->quant != NULL)
		log_quantization(&p);
	ok = ok && fill_arena(&p, opt) && dec_place(d, e);
	if (ok)
		dec_unbind(d);
	mem_free(p.strips);
	mem_free(p.raw);
	mem_free(p.whole_rows);
	mem_free(p.perm);
	mem_free(p.floats);
	info->weight_bytes = d->weights.used;
	return ok;
}
