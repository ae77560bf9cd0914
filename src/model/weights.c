/*
 * weights.c
 *	  From tensors in a file to a Decoder's packed weights.
 *
 * Two passes.  dec_bind() looks every tensor up by its Hugging Face name and
 * checks its shape, touching no data: so a bad model is refused at once, and
 * llm_create_model can check one without loading it.  dec_pack() plans one arena
 * for everything, then packs matrix by matrix, 64 output columns a chunk, on all
 * threads; tensors that are packed side by side (q|k|v, gate|up) or quantized on
 * the way are gathered into a strip of 64 rows first.
 *
 * Tested by tests/unit/test_model.c (refusals) and the goldens (arithmetic).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "model/decoder.h"

#define STRIP 64				/* rows of a chunk, as mat_pack wants */

typedef struct Binder
{
	Decoder    *d;
	const Arch *arch;
	const ModelSource *src;
	const QuantScheme *quant;	/* NULL = as in the file */
	Err		   *e;
	const KTensor **used;		/* [n_used] */
	size_t		n_used;
	size_t		cap_used;
	uint64_t	type_bytes[KT_COUNT];
	uint64_t	n_params;
} Binder;

static const char *
where(const ModelSource *src, const KTensor *t)
{
	const char *s = src->where != NULL ? src->where(src->ctx, t) : NULL;

	return s != NULL ? s : "?";
}

/* "[96, 64]" */
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

/* Find a tensor of shape [n][k] (a vector [n] when k is 0); NULL with the error
 * set when it is missing or of another shape. */
static const KTensor *
bind_tensor(Binder *b, const char *name, int n, int k)
{
	const KTensor *t = b->src->find(b->src->ctx, name);
	int64_t		want[2] = {n, k};
	int			ndim = k > 0 ? 2 : 1;

	if (t == NULL)
	{
		err_set(b->e, ERR_BAD_FILE, "tensor \"%s\" is missing in model \"%s\"",
				name, where(b->src, NULL));
		return NULL;
	}
	if (t->ndim != ndim || t->shape[0] != n || (ndim == 2 && t->shape[1] != k))
	{
		char		has[96];
		char		expected[64];

		shape_text(t->ndim, t->shape, has, sizeof(has));
		shape_text(ndim, want, expected, sizeof(expected));
		err_set(b->e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has shape %s, expected %s",
				name, where(b->src, t), has, expected);
		return NULL;
	}
	if (k == 0 && t->type != KT_F32 && t->type != KT_F16 && t->type != KT_BF16)
	{
		err_set(b->e, ERR_UNSUPPORTED, "tensor \"%s\" in file \"%s\" has type %s, expected F32, F16 or BF16",
				name, where(b->src, t), ktype_name(t->type));
		return NULL;
	}
	if (b->n_used == b->cap_used)
	{
		b->cap_used = b->cap_used ? b->cap_used * 2 : 256;
		b->used = mem_realloc(b->used, b->cap_used * sizeof(*b->used));
	}
	b->used[b->n_used++] = t;
	if (k == 0)
		b->type_bytes[t->type] += t->nbytes;
	b->n_params += (uint64_t) n * (uint64_t) (k > 0 ? k : 1);
	return t;
}

/* What becomes of a matrix: its type in memory. */
static bool
choose_type(Binder *b, const Linear *l, const KTensor *t, KType *as)
{
	bool		head = l == &b->d->embed || l == &b->d->head;

	*as = t->type;
	if (b->quant == NULL)
		return true;
	if (t->type != KT_F32 && t->type != KT_F16 && t->type != KT_BF16)
	{
		err_set(b->e, ERR_INVALID, "model \"%s\" is quantized already and can't be quantized as %s",
				where(b->src, NULL), b->quant->name);
		err_detail(b->e, "Tensor \"%s\" has type %s.", t->name, ktype_name(t->type));
		return err_hint(b->e, "Leave out the model option \"quantization\".");
	}
	*as = quantize_type(head ? b->quant->head : b->quant->matrix, l->k);
	if (*as == KT_COUNT)
		*as = t->type;
	return true;
}

static void
count_bytes(Binder *b, KType type, int64_t n, int64_t k)
{
	b->type_bytes[type] += ktype_row_bytes(type, k) * (uint64_t) n;
}

/* prefix + part + ".weight" or ".bias", n outputs */
static bool
bind_part(Binder *b, Linear *l, const char *prefix, const char *part, int n, bool bias)
{
	char		name[256];
	int			p = l->n_parts++;

	snprintf(name, sizeof(name), "%s%s.weight", prefix, part);
	if ((l->w[p] = bind_tensor(b, name, n, l->k)) == NULL || !choose_type(b, l, l->w[p], &l->as[p]))
		return false;
	count_bytes(b, l->as[p], n, l->k);
	l->n += n;
	if (!bias)
		return true;
	snprintf(name, sizeof(name), "%s%s.bias", prefix, part);
	return (l->b[p] = bind_tensor(b, name, n, 0)) != NULL;
}

static bool
bind_layer(Binder *b, Layer *l, int i)
{
	const DecoderConf *c = &b->d->c;
	int			q = c->n_heads * c->head_dim;
	int			kv = c->n_kv_heads * c->head_dim;
	char		prefix[64];
	char		name[128];

	snprintf(prefix, sizeof(prefix), "model.layers.%d.", i);
	snprintf(name, sizeof(name), "%sinput_layernorm.weight", prefix);
	if ((l->attn_norm_src = bind_tensor(b, name, c->hidden, 0)) == NULL)
		return false;
	snprintf(name, sizeof(name), "%spost_attention_layernorm.weight", prefix);
	if ((l->mlp_norm_src = bind_tensor(b, name, c->hidden, 0)) == NULL)
		return false;
	l->qkv.k = l->gate_up.k = c->hidden;
	l->o.k = q;
	l->down.k = c->inter;
	return bind_part(b, &l->qkv, prefix, "self_attn.q_proj", q, c->qkv_bias) &&
		bind_part(b, &l->qkv, prefix, "self_attn.k_proj", kv, c->qkv_bias) &&
		bind_part(b, &l->qkv, prefix, "self_attn.v_proj", kv, c->qkv_bias) &&
		bind_part(b, &l->o, prefix, "self_attn.o_proj", c->hidden, c->o_bias) &&
		bind_part(b, &l->gate_up, prefix, "mlp.gate_proj", c->inter, c->mlp_bias) &&
		bind_part(b, &l->gate_up, prefix, "mlp.up_proj", c->inter, c->mlp_bias) &&
		bind_part(b, &l->down, prefix, "mlp.down_proj", c->hidden, c->mlp_bias);
}

static int
ptr_cmp(const void *a, const void *b)
{
	uintptr_t	x = (uintptr_t) *(const KTensor *const *) a;
	uintptr_t	y = (uintptr_t) *(const KTensor *const *) b;

	return (x > y) - (x < y);
}

/* Tensors without a use mean a model that would be computed wrongly: refuse. */
static bool
check_unused(Binder *b)
{
	static const char inv_freq[] = ".rotary_emb.inv_freq";
	const KTensor *t;

	if (b->src->at == NULL)
		return true;
	qsort(b->used, b->n_used, sizeof(*b->used), ptr_cmp);
	for (size_t i = 0; (t = b->src->at(b->src->ctx, i)) != NULL; i++)
	{
		size_t		len = strlen(t->name);

		if (bsearch(&t, b->used, b->n_used, sizeof(*b->used), ptr_cmp) != NULL)
			continue;
		/* old checkpoints store a table that follows from the configuration */
		if (len >= sizeof(inv_freq) && strcmp(t->name + len - sizeof(inv_freq) + 1, inv_freq) == 0)
			continue;
		if (b->d->c.tied && strcmp(t->name, "lm_head.weight") == 0)
			continue;
		return err_set(b->e, ERR_UNSUPPORTED,
					   "tensor \"%s\" in file \"%s\" has no place in architecture \"%s\"",
					   t->name, where(b->src, t), b->arch->name);
	}
	return true;
}

static bool
bind_all(Binder *b)
{
	Decoder    *d = b->d;

	d->embed.k = d->head.k = d->c.hidden;
	if (!bind_part(b, &d->embed, "model.", "embed_tokens", d->c.vocab, false))
		return false;
	if (!d->c.tied && !bind_part(b, &d->head, "", "lm_head", d->c.vocab, false))
		return false;
	if ((d->norm_src = bind_tensor(b, "model.norm.weight", d->c.hidden, 0)) == NULL)
		return false;
	d->layers = mem_zalloc((size_t) d->c.n_layers * sizeof(Layer));
	for (int i = 0; i < d->c.n_layers; i++)
		if (!bind_layer(b, &d->layers[i], i))
			return false;
	return check_unused(b);
}

bool
dec_bind(Decoder *d, const Arch *a, const ModelSource *src, const QuantScheme *quant,
		 ModelInfo *info, Err *e)
{
	Binder		b = {.d = d, .arch = a, .src = src, .quant = quant, .e = e};
	bool		ok = bind_all(&b);

	mem_free(b.used);
	info->n_params = b.n_params;
	info->weight_bytes = 0;
	info->dtype = KT_F32;
	for (int t = 0; t < KT_COUNT; t++)
	{
		info->weight_bytes += b.type_bytes[t];
		if (b.type_bytes[t] > b.type_bytes[info->dtype])
			info->dtype = (KType) t;
	}
	return ok;
}

/* ---- packing ---- */

typedef struct Packer
{
	Decoder    *d;
	const ModelSource *src;
	Err		   *e;
	size_t		bytes;			/* of the arena: all packed weights */
	uint64_t	total;			/* bytes in the file */
	uint64_t	done;
	uint8_t    *strips;			/* [threads][strip_bytes] */
	size_t		strip_bytes;
	float	   *floats;			/* [threads][most_k]: a row to be quantized */
	int			most_k;
	int32_t    *perm;			/* [rows of the widest merged matrix]: i % STRIP */

	const QuantScheme *quant;	/* NULL = as in the file */
	int			n_kept;			/* matrices that stay as they are */
	int			n_other;		/* ... that get another format */

	/* the matrix being packed */
	KMat	   *m;
	const KTensor *const *parts;
	int			n_parts;
} Packer;

/* Call fn on every Linear. */
static bool
each_linear(Decoder *d, bool (*fn) (Packer *p, Linear *l), Packer *p)
{
	if (!fn(p, &d->embed) || (!d->c.tied && !fn(p, &d->head)))
		return false;
	for (int i = 0; i < d->c.n_layers; i++)
	{
		Layer	   *l = &d->layers[i];

		if (!fn(p, &l->qkv) || !fn(p, &l->o) || !fn(p, &l->gate_up) || !fn(p, &l->down))
			return false;
	}
	return true;
}

/* Matrices that could not get the type that was asked for: said once, in the log. */
static bool
count_other(Packer *p, Linear *l)
{
	const QuantScheme *q = p->quant;
	KType		want = l == &p->d->embed || l == &p->d->head ? q->head : q->matrix;

	for (int i = 0; i < l->n_parts; i++)
		if (l->as[i] == l->w[i]->type)
			p->n_kept++;
		else if (l->as[i] != want)
			p->n_other++;
	return true;
}

/* Decide which parts of a Linear become one matrix. */
static bool
plan_linear(Packer *p, Linear *l)
{
	Decoder    *d = p->d;
	bool		merge = true;
	int			col = 0;

	for (int i = 1; i < l->n_parts; i++)
		merge = merge && l->as[i] == l->as[0];
	l->n_mats = merge ? 1 : l->n_parts;
	for (int i = 0; i < l->n_mats; i++)
	{
		KMat	   *m = &l->mat[i];

		m->type = l->as[i];
		m->n = merge ? l->n : (int32_t) l->w[i]->shape[0];
		m->k = l->k;
		m->nbytes = d->k->mat_bytes(m->type, m->n, m->k);
		if (m->nbytes == 0)
			return err_set(p->e, ERR_UNSUPPORTED,
						   "tensor \"%s\" in file \"%s\" has type %s, which is not supported with %d columns",
						   l->w[i]->name, where(p->src, l->w[i]), ktype_name(m->type), l->k);
		if (!marena_add(&p->bytes, m->nbytes))
			return err_set(p->e, ERR_NOMEM, "model \"%s\" is too large", where(p->src, NULL));
		l->col[i] = col;
		col += m->n;
	}
	for (int i = 0; i < l->n_parts; i++)
	{
		size_t		strip = ktype_row_bytes(l->as[i], l->k) * STRIP;

		if (strip > p->strip_bytes)
			p->strip_bytes = strip;
		p->total += l->w[i]->nbytes;
	}
	if (l->k > p->most_k)
		p->most_k = l->k;
	if (l->b[0] != NULL && !marena_add(&p->bytes, (size_t) l->n * sizeof(float)))
		return err_set(p->e, ERR_NOMEM, "model \"%s\" is too large", where(p->src, NULL));
	return true;
}

/* Row i of a tensor to `to`, in the type of the matrix being packed. */
static void
take_row(const Packer *p, const KTensor *w, int64_t i, float *floats, uint8_t *to)
{
	size_t		bytes = ktype_row_bytes(w->type, p->m->k);
	const uint8_t *from = (const uint8_t *) w->data + (size_t) (w->row_perm != NULL ? w->row_perm[i] : i) * bytes;

	if (w->type == p->m->type)
	{
		memcpy(to, from, bytes);
		return;
	}
	kblock_to_float(w->type, from, p->m->k, floats);
	quantize_row(p->m->type, floats, p->m->k, to);
}

/* One strip of the matrix being packed. */
static void
pack_chunk(void *arg, int chunk, int ith)
{
	Packer	   *p = arg;
	KMat	   *m = p->m;
	int			n0 = chunk * STRIP;
	int			n1 = n0 + STRIP < m->n ? n0 + STRIP : m->n;
	uint8_t    *strip = p->strips + (size_t) ith * p->strip_bytes;
	float	   *floats = p->floats + (size_t) ith * (size_t) p->most_k;
	size_t		row_bytes = ktype_row_bytes(m->type, m->k);
	KTensor		t = {.name = p->parts[0]->name, .type = m->type, .ndim = 2,
		.shape = {m->n, m->k}, .data = strip, .row_perm = p->perm};
	int			part = 0;
	int			first = 0;

	if (p->n_parts == 1 && p->parts[0]->type == m->type)
	{
		p->d->k->mat_pack(m, p->parts[0], n0, n1);
		return;
	}
	for (int j = n0; j < n1; j++)
	{
		while (j - first >= p->parts[part]->shape[0])
			first += (int) p->parts[part++]->shape[0];
		take_row(p, p->parts[part], j - first, floats, strip + (size_t) (j - n0) * row_bytes);
	}
	t.nbytes = (size_t) (n1 - n0) * row_bytes;
	p->d->k->mat_pack(m, &t, n0, n1);
}

/* A vector (F32, F16 or BF16) to floats. */
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

static float *
take_vector(Decoder *d, const KTensor *t)
{
	float	   *v = marena_take(&d->weights, (size_t) t->shape[0] * sizeof(float));

	vector_to_float(t, v);
	return v;
}

static bool
pack_linear(Packer *p, Linear *l)
{
	Decoder    *d = p->d;

	for (int i = 0; i < l->n_mats; i++)
	{
		p->m = &l->mat[i];
		p->parts = &l->w[i];
		p->n_parts = l->n_mats == 1 ? l->n_parts : 1;
		p->m->data = marena_take(&d->weights, p->m->nbytes);
		kpool_run(d->pool, pack_chunk, p, (p->m->n + STRIP - 1) / STRIP);
		for (int j = 0; j < p->n_parts; j++)
			p->done += p->parts[j]->nbytes;
		if (p->src->progress != NULL &&
			!p->src->progress(p->src->ctx, (double) p->done / (double) p->total))
			return err_set(p->e, ERR_CANCELLED, "loading model \"%s\" was canceled", where(p->src, NULL));
	}
	if (l->b[0] != NULL)
	{
		float	   *bias = l->bias = marena_take(&d->weights, (size_t) l->n * sizeof(float));

		for (int i = 0; i < l->n_parts; i++)
		{
			vector_to_float(l->b[i], bias);
			bias += l->b[i]->shape[0];
		}
	}
	/* the files may be closed from here on */
	memset(l->w, 0, sizeof(l->w));
	memset(l->b, 0, sizeof(l->b));
	return true;
}

static bool
pack_norms(Packer *p)
{
	Decoder    *d = p->d;

	d->norm = take_vector(d, d->norm_src);
	d->norm_src = NULL;
	for (int i = 0; i < d->c.n_layers; i++)
	{
		Layer	   *l = &d->layers[i];

		l->attn_norm = take_vector(d, l->attn_norm_src);
		l->mlp_norm = take_vector(d, l->mlp_norm_src);
		l->attn_norm_src = l->mlp_norm_src = NULL;
	}
	return true;
}

/* Add up the sizes of all weights, then reserve them. */
static bool
reserve_weights(Packer *p)
{
	Decoder    *d = p->d;

	if (!each_linear(d, plan_linear, p))
		return false;
	for (int i = 0; i < 2 * d->c.n_layers + 1; i++)
		if (!marena_add(&p->bytes, (size_t) d->c.hidden * sizeof(float)))
			return err_set(p->e, ERR_NOMEM, "model \"%s\" is too large", where(p->src, NULL));
	if (!marena_reserve(&d->weights, p->bytes))
	{
		err_set(p->e, ERR_NOMEM, "out of memory");
		return err_detail(p->e, "The weights of model \"%.300s\" need %zu MB.",
						  where(p->src, NULL), p->bytes >> 20);
	}
	return true;
}

static void
log_quantization(Packer *p)
{
	each_linear(p->d, count_other, p);
	if (p->n_kept > 0 || p->n_other > 0)
		log_line('I', "quantization %s: %d matrices have rows that don't fit its blocks and are quantized with "
				 "smaller ones, %d stay as they are", p->quant->name, p->n_other, p->n_kept);
}

bool
dec_pack(Decoder *d, const ModelSource *src, const QuantScheme *quant, ModelInfo *info, Err *e)
{
	Packer		p = {.d = d, .src = src, .quant = quant, .e = e};
	int			threads = kpool_nthreads(d->pool);
	int			widest = (d->c.n_heads + 2 * d->c.n_kv_heads) * d->c.head_dim;
	bool		ok = reserve_weights(&p);

	if (ok)
	{
		if (widest < 2 * d->c.inter)
			widest = 2 * d->c.inter;
		if (widest < d->c.vocab)
			widest = d->c.vocab;
		p.strips = mem_try_aligned((size_t) threads * p.strip_bytes);
		p.perm = mem_try_alloc((size_t) widest * sizeof(int32_t));
		p.floats = mem_try_alloc((size_t) threads * (size_t) p.most_k * sizeof(float));
		if (p.strips == NULL || p.perm == NULL || p.floats == NULL)
			ok = err_set(e, ERR_NOMEM, "out of memory");
	}
	if (ok)
	{
		for (int i = 0; i < widest; i++)
			p.perm[i] = i % STRIP;
		if (quant != NULL)
			log_quantization(&p);
		ok = each_linear(d, pack_linear, &p) && pack_norms(&p);
	}
	mem_free(p.strips);
	mem_free(p.perm);
	mem_free(p.floats);
	info->weight_bytes = d->weights.used;
	return ok;
}
