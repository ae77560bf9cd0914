/*
 * weights.c
 *	  Which tensors of a file become which weights of a Decoder.
 *
 * dec_bind() looks every tensor up by its Hugging Face name and checks its shape
 * and type, touching no data: so a bad model is refused at once, and
 * llm_create_model can check one without loading it.  pack.c does the rest.
 *
 * Tested by tests/unit/test_model.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/decoder.h"

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
	if (b->d->k != NULL && b->d->k->mat_bytes(l->as[p], n, l->k) == 0)
		return err_set(b->e, ERR_UNSUPPORTED,
					   "tensor \"%s\" in file \"%s\" has type %s, which the \"%s\" kernels don't support with %d columns",
					   name, where(b->src, l->w[p]), ktype_name(l->as[p]), b->d->k->name, l->k);
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
