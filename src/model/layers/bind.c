/*
 * bind.c
 *	  Map the tensors of a file to the weights of a Decoder.
 *
 * The architecture's bind function requests each tensor by its name (bind.h).  This file looks the
 * tensor up and checks its shape and type without touching data, so that a bad model is refused at once,
 * and llm_create_model can check a model without loading it.  d->bound lists the tensors found; pack.c
 * makes the weights from that list.
 *
 * Tested by tests/unit/model/test_model.c and the goldens.
 */
#include "model/layers/bind_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"

bool
bind_is_gguf(const Binder *b)
{
	return b->gguf;
}

const Conf *
bind_conf(const Binder *b)
{
	return b->conf;
}

const DecoderConf *
bind_decoder_conf(const Binder *b)
{
	return &b->d->c;
}

Decoder *
bind_decoder(Binder *b)
{
	return b->d;
}

Err *
bind_err(Binder *b)
{
	return b->e;
}

const char *
dec_where(const ModelSource *src, const KTensor *t)
{
	const char *s;

	/* the tensor of a view or a reader is in no file */
	while (t != NULL && (t->base != NULL || t->reader != NULL))
		t = t->base != NULL ? t->base : t->reader->parts[0];
	s = src->where != NULL ? src->where(src->ctx, t) : NULL;
	return s != NULL ? s : "?";
}

/* Print a shape like "[96, 64]". */
static void
shape_text(int ndim, const int64_t *shape, char *buf, size_t size)
{
	size_t		at = 0;

	buf[0] = '\0';
	for (int i = 0; i < ndim && at < size; i++)
		at += (size_t) snprintf(buf + at, size - at, "%s%lld", i ? ", " : "[", (long long) shape[i]);
	if (at < size)
		snprintf(buf + at, size - at, "]");
}

/* Build the whole name of a tensor of the current layer. */
void
bind_full_name(const Binder *b, const char *hf, const char *gguf, const char *ending, char *buf)
{
	snprintf(buf, MAX_NAME, "%s%s%s", b->gguf ? b->gguf_prefix : b->hf_prefix, b->gguf ? gguf : hf, ending);
}

#define MAX_SPELLED (MAX_NAME + 32)

/*
 * Return the i-th spelling of a name, 0 = its own: without its first word (bind.h), and in two ways as
 * the text part of a larger model.  "" = this spelling doesn't exist; false after the last.
 */
static bool
spelling(const Binder *b, const char *name, int i, char *buf)
{
	static const char *const words[] = {
		"model.", "transformer.", "gpt_neox.", "backbone.", "bert.", "roberta.", "distilbert.", "mpnet.",
		"electra.", "ernie.", "new."
	};
	bool		inner = strncmp(name, "model.", 6) == 0;

	buf[0] = '\0';
	if (i == 0)
		snprintf(buf, MAX_SPELLED, "%s", name);
	else if (i == 1)
	{
		for (size_t w = 0; !b->gguf && w < sizeof(words) / sizeof(words[0]); w++)
			if (strncmp(name, words[w], strlen(words[w])) == 0)
				snprintf(buf, MAX_SPELLED, "%s", name + strlen(words[w]));
	}
	else if (b->multimodal && (i == 2 || inner))
		snprintf(buf, MAX_SPELLED, "%slanguage_model.%s", i == 2 ? "" : "model.", i == 2 ? name : name + 6);
	return i < 4;
}

/* Find a tensor by its name in any spelling. */
const KTensor *
bind_find(const Binder *b, const char *name)
{
	const KTensor *t = NULL;
	char		spelled[MAX_SPELLED];

	for (int i = 0; t == NULL && spelling(b, name, i, spelled); i++)
		if (spelled[0] != '\0')
			t = b->src->find(b->src->ctx, spelled);
	return t;
}

bool
bind_has(Binder *b, const char *hf, const char *gguf)
{
	char		name[MAX_NAME];

	bind_full_name(b, hf, gguf, "", name);
	return bind_find(b, name) != NULL;
}

int64_t
bind_n_rows(Binder *b, const char *hf, const char *gguf)
{
	char		name[MAX_NAME];
	const KTensor *t;

	bind_full_name(b, hf, gguf, ".weight", name);
	t = bind_find(b, name);
	return t != NULL ? t->shape[0] : 0;
}

bool
bind_ignore(Binder *b, const char *ending)
{
	if (b->n_ignored == MAX_IGNORED)
		return err_set(b->e, ERR_INTERNAL, "too many ignored tensors");
	b->ignored[b->n_ignored++] = ending;
	return true;
}

bool
bind_ignore_under(Binder *b, const char *beginning)
{
	return bind_ignore(b, beginning) && (b->ignored_under[b->n_ignored - 1] = true);
}

void
bind_ignore_rest(Binder *b)
{
	b->ignore_rest = true;
}

void
bind_ignore_extra_layers(Binder *b)
{
	b->ignore_extra = true;
}

/* Return a list of n elements with room for one more: it doubles when n is a power of two. */
static void *
room_for_one(void *list, size_t n, size_t size)
{
	if ((n & (n - 1)) != 0)
		return list;
	return mem_realloc(list, (n > 0 ? 2 * n : 1) * size);
}

void
bind_use(Binder *b, const KTensor *t)
{
	b->used = room_for_one(b->used, (size_t) b->n_used, sizeof(*b->used));
	b->used[b->n_used++] = t;
}

/* Allocate memory owned by d->bound; dec_unbind() frees it. */
void *
bind_keep(Binder *b, size_t bytes)
{
	Bound	   *o = b->d->bound;

	o->views = room_for_one(o->views, (size_t) o->n_views, sizeof(*o->views));
	return o->views[o->n_views++] = mem_zalloc(bytes);
}

bool
bind_check_shape(Binder *b, const KTensor *t, const char *name, int ndim, const int64_t *want)
{
	char		has[96];
	char		expected[96];
	bool		same = t->ndim == ndim;

	for (int i = 0; same && i < ndim; i++)
		same = t->shape[i] == want[i];
	if (same)
		return true;
	shape_text(t->ndim, t->shape, has, sizeof(has));
	shape_text(ndim, want, expected, sizeof(expected));
	return err_set(b->e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has shape %s, expected %s",
				   name, dec_where(b->src, t), has, expected);
}

const KTensor *
bind_missing(Binder *b, const char *name)
{
	err_set(b->e, ERR_BAD_FILE, "tensor \"%s\" is missing in model \"%s\"", name, dec_where(b->src, NULL));
	return NULL;
}

bool
bind_is_float(KType t)
{
	return t == KT_F32 || t == KT_F16 || t == KT_BF16;
}

/* Find a vector [n] by its whole name; NULL with the error set. */
static const KTensor *
find_vector(Binder *b, const char *name, int n)
{
	const KTensor *t = bind_find(b, name);
	int64_t		want = n;

	if (t == NULL)
		return bind_missing(b, name);
	if (!bind_check_shape(b, t, name, 1, &want))
		return NULL;
	if (!bind_is_float(t->type))
	{
		err_set(b->e, ERR_UNSUPPORTED, "tensor \"%s\" in file \"%s\" has type %s, expected F32, F16 or BF16",
				name, dec_where(b->src, t), ktype_name(t->type));
		return NULL;
	}
	bind_use(b, t);
	b->type_bytes[t->type] += t->nbytes;
	b->n_params += (uint64_t) n;
	return t;
}

static void
add_vector(Binder *b, float **to, const KTensor *t, float plus)
{
	Bound	   *o = b->d->bound;

	o->vectors = room_for_one(o->vectors, (size_t) o->n_vectors, sizeof(*o->vectors));
	o->vectors[o->n_vectors++] = (BoundVector) {.to = to, .src = t, .plus = plus};
}

/* Return a view of t as n rows of k. */
KTensor *
bind_view(Binder *b, const KTensor *t, const int32_t *rows, int n, int k)
{
	KTensor    *v = bind_keep(b, sizeof(KTensor));

	*v = (KTensor) {
		.name = t->name, .type = t->type, .ndim = 2, .shape = {n, k}, .data = t->data, .nbytes = t->nbytes,
		.base = t, .reader = t->reader
	};
	if (rows != NULL)
	{
		int32_t    *perm = bind_keep(b, (size_t) n * sizeof(int32_t));

		memcpy(perm, rows, (size_t) n * sizeof(int32_t));
		v->row_perm = perm;
	}
	return v;
}

bool
bind_vector(Binder *b, float **to, const char *hf, const char *gguf, int n)
{
	char		name[MAX_NAME];
	const KTensor *t;

	bind_full_name(b, hf, gguf, "", name);
	t = bind_find(b, name);
	if (t != NULL && t->ndim == 2 && t->shape[0] == 1 && t->shape[1] == n && bind_is_float(t->type))
	{
		KTensor    *v = bind_view(b, t, NULL, n, 1);

		bind_use(b, t);
		b->type_bytes[t->type] += t->nbytes;
		b->n_params += (uint64_t) n;
		v->ndim = 1;
		t = v;
	}
	else if ((t = find_vector(b, name, n)) == NULL)
		return false;
	add_vector(b, to, t, 0);
	return true;
}

/* Build a norm's name; the first BERT checkpoints call its vectors gamma and beta, as the paper does. */
static void
norm_name(Binder *b, const char *hf, const char *gguf, const char *ending, const char *greek, char *buf)
{
	bind_full_name(b, hf, gguf, greek, buf);
	if (b->gguf || !b->d->c.both_ways || bind_find(b, buf) == NULL)
		bind_full_name(b, hf, gguf, ending, buf);
}

bool
bind_norm(Binder *b, Norm *norm, const char *hf, const char *gguf, int n)
{
	char		name[MAX_NAME];
	const KTensor *t;

	norm_name(b, hf, gguf, ".weight", ".gamma", name);
	if ((t = find_vector(b, name, n)) == NULL)
		return false;
	/* converters to GGUF have already added the one */
	add_vector(b, &norm->w, t, b->d->c.one_plus && !b->gguf ? 1.0f : 0.0f);
	if (!b->d->c.norm_bias)
		return true;
	norm_name(b, hf, gguf, ".bias", ".beta", name);
	if ((t = find_vector(b, name, n)) == NULL)
		return false;
	add_vector(b, &norm->b, t, 0);
	return true;
}

/* ---- matrices ---- */

/* Return true if no matrix is converted, except by quantize_for_x(). */
static bool
as_in_file(const QuantScheme *q)
{
	return q == NULL || q->matrix == KT_COUNT;
}

/* Return a matrix's type in memory. */
static bool
choose_type(Binder *b, const Linear *l, const KTensor *t, KType *as)
{
	*as = l->exact && bind_is_float(t->type) ? KT_F32 : t->type;
	if (as_in_file(b->quant) || l->exact || (b->quant->is_float && !bind_is_float(t->type)))
		return true;
	if (!bind_is_float(t->type))
	{
		err_set(b->e, ERR_INVALID, "model \"%s\" is quantized already and can't be quantized as %s",
				dec_where(b->src, NULL), b->quant->name);
		err_detail(b->e, "Tensor \"%s\" has type %s.", t->name, ktype_name(t->type));
		return err_hint(b->e, "Leave out the model option \"quantization\".");
	}
	*as = quantize_type(l->is_head ? b->quant->head : b->quant->matrix, l->k);
	if (*as == KT_COUNT)
		*as = t->type;
	return true;
}

/* Add a Linear to the list with its first part. */
static void
add_linear(Binder *b, Linear *l)
{
	Bound	   *o = b->d->bound;

	o->linears = room_for_one(o->linears, (size_t) o->n_linears, sizeof(*o->linears));
	o->linears[o->n_linears++] = l;
}

/*
 * Return the tensor from which n rows of t are read: the smaller type that its reader offers, if the
 * kernels support it and the user didn't request another type.
 */
static const KTensor *
offered(Binder *b, const Linear *l, const KTensor *t, int n)
{
	const KTensor *o = t->reader != NULL ? t->reader->offer : NULL;
	KTensor    *v;

	if (o == NULL || l->exact || !as_in_file(b->quant) || b->d->k == NULL ||
		b->d->k->mat_bytes(o->type, n, l->k) == 0)
		return t;
	v = bind_keep(b, sizeof(KTensor));
	*v = *t;
	v->type = o->type;
	v->reader = o->reader;
	return v;
}

/* Add n rows of t as the next part of l. */
bool
bind_add_part(Binder *b, Linear *l, const KTensor *t, int n)
{
	int			p = l->n_parts;

	if (p == LINEAR_MAX)
		return err_set(b->e, ERR_INTERNAL, "too many parts of a matrix");
	if (p == 0)
		add_linear(b, l);
	ASSERT(l->n_mats == 0);		/* parts are packed later */
	l->n_parts++;
	l->w[p] = t = offered(b, l, t, n);
	if (!choose_type(b, l, t, &l->as[p]))
		return false;
	b->before_bytes[l->as[p]] += ktype_row_bytes(l->as[p], l->k) * (uint64_t) n;
	if (b->quant != NULL && !bind_for_x(b, l))
		return false;
	if (b->d->k != NULL && b->d->k->mat_bytes(l->as[p], n, l->k) == 0)
	{
		err_set(b->e, ERR_UNSUPPORTED,
				"tensor \"%s\" in file \"%s\" has type %s, which the \"%s\" kernels don't support "
				"with %d columns", t->name, dec_where(b->src, t), ktype_name(l->as[p]), b->d->k->name,
				l->k);
		if (quantize_rows_of(l->as[p]) != l->as[p] || l->as[p] == KT_INT8S)
			err_hint(b->e, "The model option \"activation_scheme\" can be used on CPUs only. Leave it out.");
		return false;
	}
	b->type_bytes[l->as[p]] += ktype_row_bytes(l->as[p], l->k) * (uint64_t) n;
	b->n_params += (uint64_t) n * (uint64_t) l->k;
	l->n += n;
	return true;
}

/* Bind the bias of the part that was added last; rows are those of the part. */
bool
bind_bias(Binder *b, Linear *l, const char *hf, const char *gguf, int n_file, const int32_t *rows, int n)
{
	char		name[MAX_NAME];
	const KTensor *t;

	bind_full_name(b, hf, gguf, ".bias", name);
	if ((t = find_vector(b, name, n_file)) == NULL)
		return false;
	if (rows != NULL)
	{
		KTensor    *v = bind_view(b, t, rows, n, 1);

		v->ndim = 1;
		t = v;
	}
	l->b[l->n_parts - 1] = t;
	return true;
}

/* Find the tensors that a quantized checkpoint has instead of the matrix [n][k] of a module, or a tensor
 * of a GGUF type that no kernel supports; *out = NULL if there are none.  Reads and checks all scales,
 * so a caller that takes several parts of one matrix should ask only once. */
bool
bind_find_quantized(Binder *b, const char *hf, const char *gguf, int64_t n, int64_t k, const KTensor **out)
{
	char		module[MAX_NAME];
	char		spelled[MAX_SPELLED];

	*out = NULL;
	if (b->src->quantized == NULL)
		return true;
	bind_full_name(b, hf, gguf, "", module);
	if (b->matrix != NULL && strcmp(module, b->matrix_name) == 0)
	{
		*out = b->matrix;
		return true;
	}
	for (int i = 0; *out == NULL && spelling(b, module, i, spelled); i++)
		if (spelled[0] != '\0' && !b->src->quantized(b->src->ctx, spelled, n, k, out, b->e))
			return false;
	b->matrix = *out;
	b->converted |= b->gguf && *out != NULL;
	snprintf(b->matrix_name, sizeof(b->matrix_name), "%s", module);
	for (const KTensor *const *p = *out != NULL ? (*out)->reader->parts : NULL; p != NULL && *p != NULL; p++)
		bind_use(b, *p);
	return true;
}

/* Find the matrix [n][k] of a module: "weight", or that of a quantized checkpoint.  Return NULL with the
 * error set. */
const KTensor *
bind_find_matrix(Binder *b, const char *hf, const char *gguf, int64_t n, int64_t k)
{
	char		name[MAX_NAME];
	const KTensor *t;
	int64_t		want[2] = {n, k};

	bind_full_name(b, hf, gguf, ".weight", name);
	/* first, under all spellings: in some formats a tensor "weight" has the codes */
	if (!bind_find_quantized(b, hf, gguf, n, k, &t))
		return NULL;
	if (t != NULL)
		return t;
	t = bind_find(b, name);
	/* parameters that belong to no Linear have no ending */
	if (t == NULL && !b->gguf)
	{
		bind_full_name(b, hf, gguf, "", name);
		if ((t = bind_find(b, name)) == NULL)
			bind_full_name(b, hf, gguf, ".weight", name);
	}
	if (t == NULL)
		return bind_missing(b, name);
	if (!bind_check_shape(b, t, name, 2, want))
		return NULL;
	if (t->type >= KT_COUNT)
	{
		err_set(b->e, ERR_UNSUPPORTED, "tensor \"%s\" in file \"%s\" has type %s, expected F32, F16 or BF16",
				name, dec_where(b->src, t), ktype_name(t->type));
		return NULL;
	}
	bind_use(b, t);
	return t;
}

void
bind_site(Binder *b, Linear *l, const char *hf, int n_file, const int32_t *rows, int n)
{
	char		name[MAX_NAME];

	snprintf(name, sizeof(name), "%s%s", b->hf_prefix, hf);
	if (!b->no_sites && hf[0] != '\0')
		lora_add_site(b->d, l, name, n_file, rows, n);
}

bool
bind_linear(Binder *b, Linear *l, const char *hf, const char *gguf, int n, bool bias)
{
	return bind_rows(b, l, hf, gguf, n, NULL, n, bias);
}

bool
bind_rows(Binder *b, Linear *l, const char *hf, const char *gguf, int n_file, const int32_t *rows, int n,
		  bool bias)
{
	const KTensor *t = bind_find_matrix(b, hf, gguf, n_file, l->k);

	if (t == NULL)
		return false;
	if (rows != NULL)
		t = bind_view(b, t, rows, n, l->k);
	bind_site(b, l, hf, n_file, rows, n);
	return bind_add_part(b, l, t, n) && (!bias || bind_bias(b, l, hf, gguf, n_file, rows, n));
}

/* Return the row of the file that becomes row i of heads whose rotary pairs are adjacent. */
static int
paired_row(int i, int head_dim, int rope_dim)
{
	int			r = i % head_dim;
	int			half = rope_dim / 2;

	return r >= rope_dim ? i : i - r + (r < half ? 2 * r : 2 * (r - half) + 1);
}

bool
bind_row(Binder *b, Linear *l, const char *hf, const char *gguf)
{
	char		name[MAX_NAME];
	int64_t		want = l->k;
	const KTensor *t;

	bind_full_name(b, hf, gguf, ".weight", name);
	if ((t = bind_find(b, name)) == NULL || t->ndim != 1)
		return bind_linear(b, l, hf, gguf, 1, false);
	if (!bind_check_shape(b, t, name, 1, &want))
		return false;
	bind_use(b, t);
	return bind_add_part(b, l, bind_view(b, t, NULL, 1, l->k), 1);
}

bool
bind_table(Binder *b, float **to, const char *hf, const char *gguf, int n, int cols, BindMap map)
{
	char		name[MAX_NAME];
	const KTensor *t;
	KTensor    *v;
	int64_t		size = 1;

	bind_full_name(b, hf, gguf, "", name);
	if ((t = bind_find(b, name)) == NULL)
		return bind_missing(b, name) != NULL;
	for (int i = 0; i < t->ndim; i++)
		size *= t->shape[i];
	if (size != n || (cols > 0 && (t->ndim < 2 || t->shape[t->ndim - 1] != cols)))
	{
		int64_t		want[2] = {cols > 0 ? n / cols : n, cols};

		return bind_check_shape(b, t, name, cols > 0 ? 2 : 1, want);
	}
	if (!bind_is_float(t->type))
		return err_set(b->e, ERR_UNSUPPORTED,
					   "tensor \"%s\" in file \"%s\" has type %s, expected F32, F16 or BF16", name,
					   dec_where(b->src, t), ktype_name(t->type));
	bind_use(b, t);
	b->type_bytes[t->type] += t->nbytes;
	b->n_params += (uint64_t) n;
	v = bind_view(b, t, NULL, n, 1);
	v->ndim = 1;
	add_vector(b, to, v, 0);
	b->d->bound->vectors[b->d->bound->n_vectors - 1].map = map;
	b->d->bound->vectors[b->d->bound->n_vectors - 1].cols = cols;
	return true;
}

bool
bind_interleaved(Binder *b, Linear *l, const char *hf, const char *gguf, int heads, int head_dim,
				 int rope_dim, bool bias)
{
	int			n = heads * head_dim;
	int32_t    *rows = mem_alloc((size_t) n * sizeof(int32_t));
	bool		ok;

	for (int r = 0; r < n; r++)
		rows[r] = paired_row(r, head_dim, rope_dim);
	ok = bind_rows(b, l, hf, gguf, n, rows, n, bias);
	mem_free(rows);
	return ok;
}

void
bind_stack(Binder *b, Stack *s, int n, int per_row)
{
	Decoder    *d = b->d;

	ASSERT(s->of == NULL);		/* a matrix is bound once */
	d->stacks = room_for_one(d->stacks, (size_t) d->n_stacks, sizeof(*d->stacks));
	d->stacks[d->n_stacks++] = s;
	s->n = n;
	s->per_row = per_row;
	s->of = mem_zalloc((size_t) n * sizeof(Linear));
}

/* ---- layers, and heads of attention ---- */

bool
bind_layer_at(Binder *b, const char *hf, const char *gguf, Layer *l,
			  bool (*layer) (Binder *b, Decoder *d, Layer *l))
{
	bool		ok;

	snprintf(b->hf_prefix, sizeof(b->hf_prefix), "%s", hf);
	snprintf(b->gguf_prefix, sizeof(b->gguf_prefix), "%s", gguf);
	ok = layer(b, b->d, l);
	b->hf_prefix[0] = b->gguf_prefix[0] = '\0';
	return ok;
}

void
bind_extra(Binder *b, const BindExtra *x)
{
	b->extra = x;
}

const BindExtra *
bind_extra_layer(const Binder *b)
{
	return b->extra;
}

bool
bind_layers(Binder *b, const char *hf, bool (*layer) (Binder *b, Decoder *d, Layer *l))
{
	Decoder    *d = b->d;
	bool		ok = true;

	if (b->extra != NULL)
		return bind_layer_at(b, b->extra->hf, b->extra->gguf, &d->layers[0], layer);
	b->layers = hf;
	for (int i = 0; ok && i < d->c.n_layers; i++)
	{
		snprintf(b->hf_prefix, sizeof(b->hf_prefix), "%s%d.", hf, i);
		snprintf(b->gguf_prefix, sizeof(b->gguf_prefix), "blk.%d.", i);
		ok = layer(b, d, &d->layers[i]);
	}
	b->hf_prefix[0] = b->gguf_prefix[0] = '\0';
	return ok;
}

bool
bind_qkv(Binder *b, Layer *l, const char *hf, const char *gguf, bool grouped)
{
	const DecoderConf *c = &b->d->c;
	int			dim = c->head_dim;
	int			per = c->n_heads / c->n_kv_heads;
	int			heads = c->n_heads + 2 * c->n_kv_heads;
	int32_t    *rows = mem_alloc((size_t) heads * (size_t) dim * sizeof(int32_t));
	bool		ok;

	l->qkv.k = c->hidden;
	b->no_sites = b->gguf;		/* converters may have reordered the heads */
	for (int h = 0; h < heads; h++)
	{
		int			kv = (h - c->n_heads) % c->n_kv_heads;
		int			from = h;

		if (grouped)
			from = h < c->n_heads ? h / per * (per + 2) + h % per :
				kv * (per + 2) + per + (h >= c->n_heads + c->n_kv_heads);
		for (int i = 0; i < dim; i++)
			rows[h * dim + i] = from * dim + (c->interleaved && h < c->n_heads + c->n_kv_heads ?
											  paired_row(i, dim, c->rope[0].dim) : i);
	}
	ok = bind_rows(b, &l->qkv, hf, gguf, heads * dim, grouped || c->interleaved ? rows : NULL, heads * dim,
				   c->qkv_bias);
	b->no_sites = false;
	mem_free(rows);
	return ok;
}

/* Bind a norm of `heads` heads with separate weights, [heads][head_dim]. */
static bool
bind_head_norm(Binder *b, Norm *norm, const char *hf, const char *gguf, int heads)
{
	const DecoderConf *c = &b->d->c;
	int64_t		want[2] = {heads, c->head_dim};
	int			n = heads * c->head_dim;
	int32_t    *rows = mem_alloc((size_t) n * sizeof(int32_t));
	char		name[MAX_NAME];
	const KTensor *t;
	KTensor    *v;

	for (int i = 0; i < n; i++)
		rows[i] = c->interleaved ? paired_row(i, c->head_dim, c->rope[0].dim) : i;
	bind_full_name(b, hf, gguf, ".weight", name);
	if ((t = bind_find(b, name)) == NULL)
		t = bind_missing(b, name);
	else if (!bind_check_shape(b, t, name, 2, want))
		t = NULL;
	else if (!bind_is_float(t->type))
	{
		err_set(b->e, ERR_UNSUPPORTED, "tensor \"%s\" in file \"%s\" has type %s, expected F32, F16 or BF16",
				name, dec_where(b->src, t), ktype_name(t->type));
		t = NULL;
	}
	if (t != NULL)
	{
		bind_use(b, t);
		b->n_params += (uint64_t) n;
		v = bind_view(b, t, rows, n, 1);
		v->ndim = 1;
		add_vector(b, &norm->w, v, 0);
	}
	mem_free(rows);
	return t != NULL;
}

static bool
bind_each_head(Binder *b, Norm *norm, const char *hf, int heads)
{
	int			dim = b->d->c.head_dim;
	char		name[MAX_NAME];

	for (int h = 0; h < heads; h++)
	{
		const KTensor *t;
		BoundVector *v;

		snprintf(name, sizeof(name), "%s%s.norms.%d.weight", b->hf_prefix, hf, h);
		if ((t = find_vector(b, name, dim)) == NULL)
			return false;
		add_vector(b, &norm->w, t, 0);
		v = &b->d->bound->vectors[b->d->bound->n_vectors - 1];
		v->at = h * dim;
		v->of = heads * dim;
	}
	return true;
}

bool
bind_qk_norm_heads(Binder *b, Layer *l, const char *q, const char *k)
{
	if (b->gguf)
		return bind_qk_norm_as(b, l, q, k);
	return bind_each_head(b, &l->q_norm, q, b->d->c.n_heads) &&
		bind_each_head(b, &l->k_norm, k, b->d->c.n_kv_heads);
}

bool
bind_qk_norm_as(Binder *b, Layer *l, const char *q, const char *k)
{
	const DecoderConf *c = &b->d->c;
	int			nq = c->qk_norm == QKNORM_WIDE ? c->n_heads * c->head_dim : c->head_dim;
	int			nk = c->qk_norm == QKNORM_WIDE ? c->n_kv_heads * c->head_dim : c->head_dim;

	if (c->qk_norm == QKNORM_HEADS)
		return bind_head_norm(b, &l->q_norm, q, "attn_q_norm", c->n_heads) &&
			bind_head_norm(b, &l->k_norm, k, "attn_k_norm", c->n_kv_heads);
	return bind_norm(b, &l->q_norm, q, "attn_q_norm", nq) && bind_norm(b, &l->k_norm, k, "attn_k_norm", nk);
}

/* ---- scales of an FP8 KV cache ---- */

/* Read the scales of K or V of a layer, under any of their names; several numbers are one for each
 * head. */
static void
bind_kv_scale(Binder *b, Layer *l, int i, const char *const *names)
{
	for (; *names != NULL; names++)
	{
		char		name[MAX_NAME];
		const KTensor *t;
		KTensor    *v;

		bind_full_name(b, *names, "", "", name);
		if ((t = bind_find(b, name)) == NULL || !bind_is_float(t->type))
			continue;
		l->n_kv_scale[i] = 1;
		for (int d = 0; d < t->ndim; d++)
			l->n_kv_scale[i] *= (int) t->shape[d];
		v = bind_view(b, t, NULL, l->n_kv_scale[i], 1);
		v->ndim = 1;
		bind_use(b, t);
		add_vector(b, &l->kv_scale[i], v, 0);
		return;
	}
}

static void
bind_kv_scales(Binder *b)
{
	static const char *const k[] = {
		"self_attn.k_scale", "self_attn.attn.k_scale", "self_attn.k_proj.k_scale",
		"self_attn.qkv_proj.k_scale", "self_attn.k_proj.output_scale", "self_attn.kv_scale", NULL
	};
	static const char *const v[] = {
		"self_attn.v_scale", "self_attn.attn.v_scale", "self_attn.v_proj.v_scale",
		"self_attn.qkv_proj.v_scale", "self_attn.v_proj.output_scale", "self_attn.kv_scale", NULL
	};

	for (int i = 0; b->layers != NULL && !b->gguf && i < b->d->c.n_layers; i++)
	{
		snprintf(b->hf_prefix, sizeof(b->hf_prefix), "%s%d.", b->layers, i);
		bind_kv_scale(b, &b->d->layers[i], 0, k);
		bind_kv_scale(b, &b->d->layers[i], 1, v);
	}
	b->hf_prefix[0] = '\0';
}

/* ---- the whole model ---- */

static int
ptr_cmp(const void *a, const void *b)
{
	uintptr_t	x = (uintptr_t) *(const KTensor *const *) a;
	uintptr_t	y = (uintptr_t) *(const KTensor *const *) b;

	return (x > y) - (x < y);
}

static bool
is_ignored(const Binder *b, const char *name)
{
	static const char *const parts[] = {"vision_tower.", "vision_model.", "multi_modal_projector."};
	size_t		len = strlen(name);

	for (size_t i = 0; b->multimodal && i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strncmp(name + (strncmp(name, "model.", 6) == 0 ? 6 : 0), parts[i], strlen(parts[i])) == 0)
			return true;
	for (int i = 0; i < b->n_ignored; i++)
	{
		size_t		n = strlen(b->ignored[i]);

		if (len >= n && strncmp(name + (b->ignored_under[i] ? 0 : len - n), b->ignored[i], n) == 0)
			return true;
	}
	return false;
}

/* Return true for a tensor of a layer after the last one. */
static bool
is_extra(const Binder *b, const char *name)
{
	const char *prefix = b->gguf ? "blk." : b->layers;
	size_t		n = prefix != NULL ? strlen(prefix) : 0;

	if (b->ignore_extra && strncmp(name, "model.mtp_", 10) == 0)
		return true;
	return b->ignore_extra && n > 0 && strncmp(name, prefix, n) == 0 && name[n] >= '0' && name[n] <= '9' &&
		strtol(name + n, NULL, 10) >= b->d->c.n_layers;
}

/* Refuse unused tensors: the model would be computed wrongly. */
static bool
check_unused(Binder *b)
{
	const KTensor *t;

	if (b->src->at == NULL || b->ignore_rest)
		return true;
	qsort(b->used, b->n_used, sizeof(*b->used), ptr_cmp);
	for (size_t i = 0; (t = b->src->at(b->src->ctx, i)) != NULL; i++)
		if (bsearch(&t, b->used, b->n_used, sizeof(*b->used), ptr_cmp) == NULL && !is_ignored(b, t->name) &&
			!is_extra(b, t->name))
			return err_set(b->e, ERR_UNSUPPORTED,
						   "tensor \"%s\" in file \"%s\" has no place in architecture \"%s\"",
						   t->name, dec_where(b->src, t), b->arch->name);
	return true;
}

/* Return the type of most bytes before quantize_for_x(): of any type, or of those that it changes. */
static KType
most_bytes(const Binder *b, bool any)
{
	KType		most = KT_F32;
	uint64_t	bytes = 0;

	for (int t = 0; t < KT_COUNT; t++)
		if (b->before_bytes[t] > bytes && (any || quantize_for_x((KType) t, b->quant->x) != (KType) t))
		{
			most = (KType) t;
			bytes = b->before_bytes[t];
		}
	return most;
}

/* Refuse activation_scheme for other weights: with float activations these would become larger. */
static bool
check_x_scheme(const Binder *b)
{
	XScheme		x = b->quant != NULL ? b->quant->x : X_AUTO;
	KType		most = x != X_AUTO ? most_bytes(b, false) : KT_F32;

	/* a stage of a pipeline may have few of the model's weights */
	if (x == X_AUTO || b->d->ranks.pp != NULL || most == KT_INT8 || most == KT_Q4_0 || most == KT_Q4_1)
		return true;
	err_set(b->e, ERR_UNSUPPORTED, "option \"activation_scheme\" can be \"%s\" for weights of %sINT8, and "
			"most of this model's are %s", x_scheme_name(x),
			x == X_FLOAT ? "Q4_0, Q4_1 and " : "", ktype_name(most == KT_F32 ? most_bytes(b, true) : most));
	return err_hint(b->e, "Leave it out: the activations of float weights are floats anyway, and those of "
					"other quantized types are rounded.");
}

bool
dec_bind(Decoder *d, const Arch *a, const Conf *conf, const ModelSource *src, const QuantScheme *quant,
		 ModelInfo *info, Err *e)
{
	Binder		b = {.d = d, .arch = a, .conf = conf, .src = src, .quant = quant, .e = e};
	bool		ok;

	b.gguf = conf_has(conf, "gguf.architecture");
	b.multimodal = !b.gguf && conf_has(conf, "text_config.model_type");
	if (src->quantized == NULL && conf_has(conf, "quantization_config"))
		return err_set(e, ERR_UNSUPPORTED, "quantized checkpoints are not supported here");
	d->bound = mem_zalloc(sizeof(Bound));
	d->layers = mem_zalloc((size_t) d->c.n_layers * sizeof(Layer));
	for (int i = 0; i < d->c.n_layers; i++)
		d->layers[i].c = &d->c.layers[i];
	/* old checkpoints store tables that follow from the configuration */
	ok = bind_ignore(&b, ".inv_freq") && bind_ignore(&b, ".rotary_emb.cos_cached") &&
		bind_ignore(&b, ".rotary_emb.sin_cached") && a->bind(&b, d) && bind_heads(&b, d);
	if (ok)
		bind_kv_scales(&b);
	ok = ok && check_unused(&b);
	mem_free(b.used);
	lora_number_targets(d);
	info->n_params = b.n_params;
	if (ok)
		dec_work(d, &info->work);
	info->weight_bytes = 0;
	info->dtype = KT_F32;
	for (int t = 0; t < KT_COUNT; t++)
	{
		info->weight_bytes += b.type_bytes[t];
		if (b.type_bytes[t] > b.type_bytes[info->dtype])
			info->dtype = (KType) t;
	}
	ok = ok && check_x_scheme(&b);
	/* the types in memory don't show it */
	if (b.converted && info->dtype != KT_NV4)
		snprintf(info->quantization, sizeof(info->quantization), "%s", ktype_name(KT_NVFP4));
	return ok;
}

bool
dec_bound(const Decoder *d, float *const *to)
{
	for (size_t i = 0; i < d->bound->n_vectors; i++)
		if (d->bound->vectors[i].to == to)
			return true;
	return false;
}

void
dec_unbind(Decoder *d)
{
	Bound	   *o = d->bound;

	if (o == NULL)
		return;
	for (size_t i = 0; i < o->n_linears; i++)
	{
		memset(o->linears[i]->w, 0, sizeof(o->linears[i]->w));
		memset(o->linears[i]->b, 0, sizeof(o->linears[i]->b));
	}
	for (size_t i = 0; i < o->n_views; i++)
		mem_free(o->views[i]);
	mem_free(o->views);
	mem_free(o->vectors);
	mem_free(o->linears);
	mem_free(o);
	d->bound = NULL;
}
