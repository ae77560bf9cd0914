/*
 * bind_slices.c
 *	  Matrices that are stored in other forms: transposed, or several in one tensor.
 *
 * The functions bind a view of the tensor; they touch no data before the weights are packed.
 *
 * Tested by tests/unit/model/test_model.c and the goldens.
 */
#include "model/layers/bind_internal.h"

#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"

/* A reader of rows of a matrix that is stored as [k][width]: in its float type, else in F16. */
typedef struct Transposed
{
	KReader		r;
	const KTensor *t;
	const KTensor *parts[2];
	int64_t		row0;			/* its row 0 in the tensor */
	int64_t		k;
	int64_t		width;
	int			first;			/* row i of the view is column first + i * step */
	int			step;
} Transposed;

/* Return the type of the columns: rows of a float type can be cut between any two weights, others become
 * F16. */
static KType
cut_type(KType t)
{
	return bind_is_float(t) ? t : KT_F16;
}

/* Convert stored rows to halves. */
static void
rows_to_f16(const Transposed *s, const uint8_t *from, uint16_t *to)
{
	float	   *row = mem_alloc((size_t) s->width * sizeof(float));

	for (int64_t i = 0; i < s->k; i++, from += ktype_row_bytes(s->t->type, s->width))
	{
		kblock_to_float(s->t->type, from, s->width, row);
		for (int64_t j = 0; j < s->width; j++)
			*to++ = kf32_to_f16(row[j]);
	}
	mem_free(row);
}

static void
transposed_rows(const KReader *r, int64_t row0, int step, int n, void *to)
{
	const Transposed *s = (const Transposed *) (const void *) r;
	size_t		stored = ktype_row_bytes(s->t->type, s->width);
	size_t		es = ktype_row_bytes(cut_type(s->t->type), 1);
	size_t		row = (size_t) s->width * es;
	uint8_t    *rows = s->t->reader != NULL ? mem_alloc((size_t) s->k * stored) : NULL;
	uint16_t   *halves = NULL;
	int64_t		apart = (int64_t) step * s->step;
	const uint8_t *from;
	uint8_t    *out = to;

	ALWAYS(s->first >= 0 && s->first + (row0 + (int64_t) (n - 1) * step) * s->step < s->width);
	if (rows != NULL)
	{
		s->t->reader->rows(s->t->reader, s->row0, 1, (int) s->k, rows);
		from = rows;
	}
	else
		from = (const uint8_t *) s->t->data + (size_t) s->row0 * stored;
	if (!bind_is_float(s->t->type))
	{
		halves = mem_alloc((size_t) s->k * row);
		rows_to_f16(s, from, halves);
		from = (const uint8_t *) halves;
	}
	from += (size_t) (s->first + row0 * s->step) * es;
	for (int64_t i = 0; i < s->k; i++, from += row)
		for (int64_t j = 0; j < n; j++)
			memcpy(out + ((size_t) j * (size_t) s->k + (size_t) i) * es, from + (size_t) (j * apart) * es,
				   es);
	mem_free(rows);
	mem_free(halves);
}

static bool
float_type(Binder *b, const KTensor *t)
{
	if (bind_is_float(t->type))
		return true;
	return err_set(b->e, ERR_UNSUPPORTED,
				   "tensor \"%s\" in file \"%s\" has type %s, expected F32, F16 or BF16", t->name,
				   dec_where(b->src, t), ktype_name(t->type));
}

/* Make a view of t as n rows of k: columns first, first + step ... of its rows row0 .. row0 + k - 1. */
static KTensor *
make_transposed(Binder *b, const KTensor *t, int64_t row0, int first, int step, int n, int64_t k,
				int64_t width)
{
	Transposed *s = bind_keep(b, sizeof(Transposed));
	KTensor    *v = bind_view(b, t, NULL, n, (int) k);

	*s = (Transposed) {
		.r = {.rows = transposed_rows, .parts = t->reader != NULL ? t->reader->parts : s->parts}, .t = t,
		.parts = {t}, .row0 = row0, .k = k, .width = width, .first = first, .step = step
	};
	v->data = NULL;
	v->type = cut_type(t->type);
	v->nbytes = (size_t) n * ktype_row_bytes(v->type, k);
	v->reader = &s->r;
	return v;
}

bool
bind_transposed(Binder *b, Linear *l, const char *hf, const char *gguf, int n, bool bias)
{
	const KTensor *t;

	/* a quantized checkpoint's matrix isn't transposed */
	if (!bind_find_quantized(b, hf, gguf, n, l->k, &t))
		return false;
	if (t == NULL)
	{
		if ((t = bind_find_matrix(b, hf, gguf, l->k, n)) == NULL || !float_type(b, t))
			return false;
		t = make_transposed(b, t, 0, 0, 1, n, l->k, n);
	}
	bind_site(b, l, hf, n, NULL, n);
	return bind_add_part(b, l, t, n) && (!bias || bind_bias(b, l, hf, gguf, n, NULL, n));
}

/* ---- several matrices in one tensor ---- */

/* Make a view of rows first, first + step ... of matrix s->at, or of elements of a vector (k = 1). */
static KTensor *
slice_view(Binder *b, const KTensor *t, const BindSlice *s, int n, int k)
{
	size_t		row = ktype_row_bytes(t->type, k);
	KTensor    *v;

	if (s->step == 1)
	{
		v = bind_view(b, t, NULL, n, k);
		v->base_row = (int64_t) s->at * s->n + s->first;
		v->data = (const uint8_t *) t->data + (size_t) v->base_row * row;
	}
	else
	{
		int32_t    *rows = mem_alloc((size_t) n * sizeof(int32_t));

		for (int i = 0; i < n; i++)
			rows[i] = s->first + i * s->step;
		v = bind_view(b, t, rows, n, k);
		mem_free(rows);
		v->base_row = (int64_t) s->at * s->n;
		v->data = (const uint8_t *) t->data + (size_t) v->base_row * row;
	}
	v->nbytes = (size_t) n * row;
	return v;
}

static bool
slice_bias(Binder *b, Linear *l, const BindSlice *s, int n)
{
	char		name[MAX_NAME];
	int64_t		want[2] = {s->count, s->n};
	const KTensor *t;
	KTensor    *v;

	if (b->gguf)
		bind_full_name(b, "", s->gguf, ".bias", name);
	else
		bind_full_name(b, s->hf_bias, "", "", name);
	if ((t = bind_find(b, name)) == NULL)
		return bind_missing(b, name) != NULL;
	if (!bind_check_shape(b, t, name, 2, want) || !float_type(b, t))
		return false;
	bind_use(b, t);
	b->n_params += (uint64_t) n;
	v = slice_view(b, t, s, n, 1);
	v->ndim = 1;
	l->b[l->n_parts - 1] = v;
	return true;
}

/* Find the tensor of a slice; looked up once for all slices. */
static const KTensor *
find_slices(Binder *b, const Linear *l, const BindSlice *s)
{
	char		name[MAX_NAME];
	int64_t		want[3] = {s->count, s->transposed ? l->k : s->n, s->transposed ? s->n : l->k};
	const KTensor *t;

	bind_full_name(b, s->hf, s->gguf, "", name);
	if (b->slices != NULL && strcmp(name, b->slices_name) == 0)
		return b->slices;
	if (!bind_find_quantized(b, s->hf, s->gguf, (int64_t) s->count * s->n, l->k, &t))
		return NULL;
	if (t == NULL)
	{
		bind_full_name(b, s->hf, s->gguf, ".weight", name);
		if ((t = bind_find(b, name)) == NULL && !b->gguf)
		{
			bind_full_name(b, s->hf, "", "", name);
			t = bind_find(b, name);
		}
		if (t == NULL)
			return bind_missing(b, name);
		if (!bind_check_shape(b, t, name, 3, want) || (s->transposed && !float_type(b, t)))
			return NULL;
		bind_use(b, t);
	}
	bind_full_name(b, s->hf, s->gguf, "", b->slices_name);
	return b->slices = t;
}

bool
bind_slice(Binder *b, Linear *l, const BindSlice *s, int n)
{
	const KTensor *t = find_slices(b, l, s);
	const KTensor *v;

	/* the slice is a part of its matrix: with step 2 every other row of it */
	ALWAYS(s->at >= 0 && s->at < s->count && s->first >= 0 && s->first + (n - 1) * s->step < s->n);
	if (t == NULL)
		return false;
	/* a quantized checkpoint's matrix isn't transposed */
	if (s->transposed && t->reader == NULL)
		v = make_transposed(b, t, (int64_t) s->at * l->k, s->first, s->step, n, l->k, s->n);
	else
		v = slice_view(b, t, s, n, l->k);
	return bind_add_part(b, l, v, n) && (s->hf_bias == NULL || slice_bias(b, l, s, n));
}

bool
bind_block(Binder *b, Linear *l, const char *hf, const char *gguf, int n_file, int k_file, int row0,
		   bool transposed, int n)
{
	const KTensor *t = bind_find_matrix(b, hf, gguf, n_file, k_file);
	BindSlice	s = {.first = row0, .step = 1};

	ALWAYS(row0 >= 0 && row0 + (transposed ? l->k : n) <= n_file && (!transposed || n <= k_file));
	if (t == NULL)
		return false;
	if (transposed)
		return bind_add_part(b, l, make_transposed(b, t, row0, 0, 1, n, l->k, k_file), n);
	return bind_add_part(b, l, slice_view(b, t, &s, n, k_file), n);
}

bool
bind_for_x(Binder *b, Linear *l)
{
	const KTensor **t = &l->w[l->n_parts - 1];
	const KTensor *x = (*t)->type == KT_INT8 && (*t)->reader != NULL ? (*t)->reader->with_x : NULL;
	KType	   *as = &l->as[l->n_parts - 1];
	KTensor    *v;

	*as = quantize_for_x(*as, b->quant->x);
	if (*as != KT_INT8S)
		return true;
	if (x == NULL)
	{
		err_set(b->e, ERR_UNSUPPORTED, "option \"activation_scheme\" can be \"static\" only if the files "
				"have a static scale of the activations of each matrix of INT8, and for \"%s\" in file "
				"\"%s\" they have none", (*t)->name, dec_where(b->src, *t));
		return err_hint(b->e, "Use \"dynamic\", which computes a scale for each token.");
	}
	v = bind_keep(b, sizeof(KTensor));
	*v = **t;
	v->type = x->type;
	v->reader = x->reader;
	*t = v;
	return true;
}
