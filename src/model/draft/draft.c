/*
 * draft.c
 *	  The interface of draft models: choose the method, load it beside its target, run it.
 *
 * A Draft uses its target's embedding and head, in place, if it has none.  A drafter's smaller
 * vocabulary ("d2t", "token_map") is mapped to the target's ids in this file; no other code sees the
 * drafter's ids.
 */
#include "model/draft/draft.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "model/draft/draft_internal.h"

typedef struct DraftType
{
	Arch		arch;			/* its name is the method's */
	DraftKind	kind;
} DraftType;

static const DraftType types[] = {
#define DRAFT(method, kind, model_types, conf, bind, forward) {{#method, model_types, "", conf, bind, \
																forward}, kind},
#include "model/draft/drafts.def"
#undef DRAFT
};

#define N_TYPES (sizeof(types) / sizeof(types[0]))

struct Draft
{
	DraftInfo	info;
	const DraftType *type;
	Model	   *m;
	Model	   *target;
	int32_t    *map;			/* [n_map] the target's id of each of its own ids; NULL = they are equal */
	int			n_map;
	int			max_out;
	/* scratch in the memory of ops */
	DevMem		rows;			/* [max_out][widest row] */
	DevMem		logits;			/* [max_out][logits_width]; unused if the logits are the target's */
	size_t		logits_width;
	/* [the target's vocabulary] the drafter's id of each token, -1 = none; unused if the vocabularies
	 * are equal */
	DevMem		from;

	/*
	 * Draft tokens of heads: the ids of the largest logits.  A device with a sampling op finds them,
	 * else the host reads the logits.
	 */
	HostDev		seen;			/* [max_out][logits_width] */
	HostDev		sample_args;	/* [max_out] KSample */
	HostDev		found;			/* [DRAFT_MOST][max_out] KSampled */
};

static const DraftType *
find_type(const char *method)
{
	for (size_t i = 0; i < N_TYPES; i++)
		if (strcmp(types[i].arch.name, method) == 0)
			return &types[i];
	return NULL;
}

const char *
draft_infer_method(const Conf *conf, const char *path)
{
	const char *type = conf_str(conf, "speculators_model_type", conf_str(conf, "model_type", ""));
	const char *class_name = conf_str(conf, "architectures", "");
	const char *slash = strrchr(path, '/');
	const char *name = slash != NULL && slash[1] != '\0' ? slash + 1 : path;

	for (size_t i = 0; i < N_TYPES; i++)
		if (types[i].arch.classes[0] != '\0' && strcmp(types[i].arch.classes, type) == 0)
			return types[i].arch.name;
	if (conf_has(conf, "medusa_num_heads"))
		return "medusa";
	if (conf_has(conf, "draft_vocab_size") || strstr(class_name, "Eagle3") != NULL ||
		strstr(name, "eagle3") != NULL || strstr(name, "EAGLE3") != NULL)
		return "eagle3";
	if (strncmp(class_name, "Eagle", 5) == 0 || strncmp(class_name, "EAGLE", 5) == 0 ||
		strstr(name, "eagle-") != NULL || strstr(name, "EAGLE-") != NULL)
		return "eagle";
	return "draft_model";
}

/* ---- loading ---- */

/* Set what the drafter needs of the target, once both configurations are known. */
static bool
fits(const char *method, const ModelInfo *target, const ModelInfo *info, const DraftConf *c, Err *e)
{
	if (!target->generates || target->both_ways || target->state_bytes > 0)
	{
		err_set(e, ERR_UNSUPPORTED, "speculative decoding is not supported with architecture \"%s\"",
				target->arch);
		return err_detail(e, "The model must generate, and keep all of a sequence in its KV cache.");
	}
	if (info->both_ways)
		return err_set(e, ERR_UNSUPPORTED, "architecture \"%s\" can't draft tokens: it generates no text",
					   info->arch);
	if (info->state_bytes > 0)
		return err_set(e, ERR_UNSUPPORTED,
					   "architecture \"%s\" can't draft tokens: its state can't be rolled back", info->arch);
	if (c->n_layers > 0 && !target->norms_first)
		return err_set(e, ERR_UNSUPPORTED,
					   "method \"%s\" is not supported with architecture \"%s\": its layers have no norm in "
					   "front", method, target->arch);
	if (c->given > 0 && c->given != target->hidden_size)
		return err_set(e, ERR_INVALID, "the draft model was made for hidden states of %d values, the model "
									   "has %d",
					   c->given, target->hidden_size);
	if (c->given > 0 && c->heads == 0 && ((!c->own_embed && info->hidden_size != target->embed_width) ||
										  (!c->own_head && info->hidden_size != target->hidden_size)))
		return err_set(e, ERR_INVALID, "the draft model has hidden states of %d values and no %s of its own, "
									   "the model's has %d",
					   info->hidden_size, c->own_embed ? "head" : "embedding",
					   c->own_embed ? target->hidden_size : target->embed_width);
	if (strcmp(method, "draft_model") == 0 && !info->generates)
		return err_set(e, ERR_INVALID, "the draft model doesn't generate: it has no head for a vocabulary");
	for (int i = 0; i < c->n_layers; i++)
		if (c->layers[0] >= 0 && c->layers[i] >= target->n_layers)
			return err_set(e, ERR_INVALID,
						   "the draft model needs the input of layer %d, the model has %d layers",
						   c->layers[i], target->n_layers);
	return true;
}

static void
fill_info(DraftInfo *info, const DraftType *t, const ModelInfo *target, const DraftConf *c, const Conf *conf)
{
	info->method = t->arch.name;
	info->kind = t->kind;
	info->most = c->heads > 0 ? c->heads : c->most;
	info->usual = c->heads;
	info->raw = c->given_raw;
	if (strcmp(info->method, "mtp") == 0)
		info->usual = (int) conf_int(conf, "num_nextn_predict_layers", 1);
	if (info->most > 0 && info->usual > info->most)
		info->usual = info->most;
	if (info->usual > DRAFT_MOST || (info->usual < 1 && strcmp(info->method, "mtp") == 0))
		info->usual = 1;
	info->n_layers = c->n_layers;
	memcpy(info->layers, c->layers, sizeof(info->layers));
	info->given = (c->n_layers > 0 ? c->n_layers : 1) * c->given;
	/* one near the first layer, one in the middle, one near the last */
	if (c->n_layers == 3 && c->layers[0] < 0)
	{
		info->layers[0] = target->n_layers > 2 ? 2 : target->n_layers - 1;
		info->layers[1] = target->n_layers / 2;
		info->layers[2] = target->n_layers > 3 ? target->n_layers - 3 : 0;
	}
}

/* Read the ids of a smaller vocabulary: offsets ("d2t") or the ids themselves ("token_map"). */
static bool
read_map(Draft *d, const ModelSource *src, Err *e)
{
	const KTensor *t = src->find(src->ctx, "d2t");
	bool		offsets = t != NULL;
	const Decoder *m = model_decoder(d->m);
	int			rows = m->head.n > 0 ? m->head.n : m->draft.n_outs > 0 ? m->draft.outs[0].n : 0;
	int			vocab = model_info(d->target)->vocab_size;

	if (t == NULL)
		t = src->find(src->ctx, "token_map");
	/* ignored if the heads know all ids nevertheless */
	if (t == NULL || rows == 0 || (t->ndim == 1 && !offsets && t->shape[0] != rows))
		return true;
	if (t->ndim != 1 || t->shape[0] != rows || t->type != KT_I64)
		return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" isn't %d numbers of 64 bits", t->name,
					   dec_where(src, t), rows);
	d->n_map = rows;
	d->map = mem_alloc((size_t) rows * sizeof(int32_t));
	for (int i = 0; i < rows; i++)
	{
		int64_t		id;

		memcpy(&id, (const uint8_t *) t->data + (size_t) i * sizeof(id), sizeof(id));
		if (offsets && (id < -(int64_t) DEC_MAX_VOCAB || id > DEC_MAX_VOCAB))
			id = -1;
		else if (offsets)
			id += i;
		if (id < 0 || id >= vocab)
			return err_set(e, ERR_BAD_FILE,
						   "tensor \"%s\" in file \"%s\" has a token that the model doesn't have", t->name,
						   dec_where(src, t));
		d->map[i] = (int32_t) id;
	}
	return true;
}

/* Reserve floats for each row of a step whose logits are wanted. */
static bool
scratch(Draft *d, DevMem *m, size_t width, const char *what, Err *e)
{
	const Decoder *dec = model_decoder(d->m);
	size_t		size = (size_t) d->max_out * width * sizeof(float);

	if (dec->dev == NULL)
		d->info.model.work_memory += size;
	return devmem_reserve(m, dec->dev, size, HUGE_OFF, what, e);
}

/* Map the drafter's logits to the target's token ids. */
static bool
place_from(Draft *d, Err *e)
{
	const Decoder *m = model_decoder(d->m);
	int			vocab = model_info(d->target)->vocab_size;
	int			own = (int) d->logits_width;
	int32_t    *from = mem_alloc((size_t) vocab * sizeof(int32_t));
	bool		ok = devmem_reserve(&d->from, m->dev, (size_t) vocab * sizeof(int32_t), HUGE_OFF,
									"Token ids of the draft model", e);

	for (int i = 0; i < vocab; i++)
		from[i] = d->map == NULL && i < own ? i : -1;
	for (int i = 0; d->map != NULL && i < own; i++)
		from[d->map[i]] = i;
	if (ok && m->dev != NULL)
	{
		m->dev->ops->put(m->dev->d, d->from.base, from, (size_t) vocab * sizeof(int32_t));
		ok = dev_wait(m->dev, e);
	}
	else if (ok)
		memcpy(d->from.base, from, (size_t) vocab * sizeof(int32_t));
	mem_free(from);
	return ok;
}

/* Prepare finding the heads' draft tokens: in the memory of ops, if there is an op for it. */
static bool
make_finder(Draft *d, Err *e)
{
	const Decoder *m = model_decoder(d->m);
	size_t		n = (size_t) d->max_out;
	KSample    *sample_args;

	if (m->dev == NULL || m->k->sample == NULL || d->logits_width > KSAMPLE_MAX_WIDTH)
	{
		if (m->dev == NULL)
			d->info.model.work_memory += n * d->logits_width * sizeof(float);
		return hostdev_new(&d->seen, m->dev, n * d->logits_width, "logits of drafts", e);
	}
	if (!scratch(d, &d->logits, d->logits_width, "Logits of the draft model", e) ||
		!hostdev_new(&d->sample_args, m->dev, n * (sizeof(KSample) / sizeof(float)), "rows of drafts", e) ||
		!hostdev_new(&d->found, m->dev, DRAFT_MOST * n * (sizeof(KSampled) / sizeof(float)), "drafts", e))
		return false;
	sample_args = (KSample *) (void *) d->sample_args.host;
	for (size_t i = 0; i < n; i++)
		sample_args[i] = (KSample) {.row = (int32_t) i, .top_p = 1, .min_p_log = -INFINITY, .n_logprobs = -1,
									.repetition = 1};
	return true;
}

static bool
make_scratch(Draft *d, Err *e)
{
	const Decoder *m = model_decoder(d->m);
	int			vocab = model_info(d->target)->vocab_size;
	size_t		width = (size_t) (m->c.draft.inner > m->c.hidden ? m->c.draft.inner : m->c.hidden);

	if (d->type->kind == DRAFT_MODEL)
		d->logits_width = (size_t) d->info.model.vocab_size;	/* its head may be its embedding */
	else
	{
		d->logits_width = (size_t) (m->draft.n_outs > 0 ? m->draft.outs[0].n : m->head.n > 0
									? m->head.n : vocab);
		if (!scratch(d, &d->rows, width, "Rows of the draft model", e))
			return false;
	}
	if (d->type->kind == DRAFT_HEADS)
		return make_finder(d, e);
	if ((int) d->logits_width == vocab && d->map == NULL)
		return true;
	return scratch(d, &d->logits, d->logits_width, "Logits of the draft model", e) && place_from(d, e);
}

/* Load a draft model whose context may be shorter than the target's: it drafts only that far. */
static Model *
shorter(const Conf *conf, const ModelSource *src, ModelOptions *opt, Err *e)
{
	ModelInfo	info;

	if (!model_check(conf, src, opt->quant, opt->kernels, &info, e))
		return NULL;
	if (opt->max_model_len > info.max_model_len)
		opt->max_model_len = info.max_model_len;
	return model_new(conf, src, opt, e);
}

Draft *
draft_new(const char *method, const Conf *conf, const ModelSource *src, const ModelOptions *opt,
		  Model *target, Err *e)
{
	const DraftType *t = find_type(method);
	Draft	   *d = mem_zalloc(sizeof(Draft));
	bool		own = t != NULL && t->kind == DRAFT_MODEL;
	ModelOptions mo = *opt;

	d->type = t;
	d->target = target;
	d->max_out = opt->max_out;
	if (t == NULL)
		err_set(e, ERR_INVALID, "there is no method \"%s\"", method);
	else if ((d->m = own ? shorter(conf, src, &mo, e) : model_new_as(&t->arch, target, conf, src, opt, e)) !=
			 NULL)
	{
		const DraftConf *c = &model_decoder(d->m)->c.draft;

		fill_info(&d->info, t, model_info(target), c, conf);
		d->info.model = *model_info(d->m);
		if (fits(method, model_info(target), model_info(d->m), c, e) && (own || read_map(d, src, e)) &&
			make_scratch(d, e))
			return d;
	}
	draft_free(d);
	return NULL;
}

void
draft_free(Draft *d)
{
	if (d == NULL)
		return;
	model_free(d->m);
	mem_free(d->map);
	devmem_free(&d->rows);
	devmem_free(&d->logits);
	devmem_free(&d->from);
	hostdev_free(&d->seen);
	hostdev_free(&d->sample_args);
	hostdev_free(&d->found);
	mem_free(d);
}

bool
draft_store(Draft *d, const char *dir, Err *e)
{
	return model_store(d->m, dir, e);
}

bool
draft_fetch(Draft *d, Err *e)
{
	return model_fetch(d->m, e);
}

void
draft_forget(Draft *d)
{
	model_forget(d->m);
}

bool
draft_adopt(Draft *d, Draft *from, Err *e)
{
	return model_adopt(d->m, from->m, e);
}

const DraftInfo *
draft_info(const Draft *d)
{
	return &d->info;
}

bool
draft_check(const char *method, const Conf *conf, const ModelSource *src, const QuantScheme *quant,
			const Kernels *k, const ModelInfo *target, DraftInfo *info, Err *e)
{
	const DraftType *t = find_type(method);
	DraftConf	c = {0};

	memset(info, 0, sizeof(*info));
	if (t == NULL)
		return err_set(e, ERR_INVALID, "there is no method \"%s\"", method);
	if (!(t->kind == DRAFT_MODEL ? model_check(conf, src, quant, k, &info->model, e) :
		  model_check_as(&t->arch, target, conf, src, quant, k, &info->model, &c, e)))
		return false;
	fill_info(info, t, target, &c, conf);
	return fits(method, target, &info->model, &c, e);
}

/* ---- binding ---- */

Linear *
draft_linears(int n)
{
	return mem_zalloc((size_t) n * sizeof(Linear));
}

bool
draft_linear(Binder *b, Linear *l, const char *hf, int n, int k)
{
	char		bias[128];

	snprintf(bias, sizeof(bias), "%s.bias", hf);
	l->k = k;
	return bind_linear(b, l, hf, "", n, bind_has(b, bias, ""));
}

/* ---- drafting ---- */

void
dec_draft_rows(Decoder *d, float *y)
{
	const Linear *table = d->embed.n > 0 ? &d->embed : &d->draft.lender->embed;
	const int32_t *ids = d->b->tokens;

	if (d->c.draft.mask_first)
	{
		for (int i = 0; i < d->rows; i++)
			d->ids[i] = d->b->rows.pos[i] == 0 ? -1 : d->b->tokens[i];
		ids = d->ids;
	}
	d->k->rows_of(d->pool, &table->mat[0], ids, 0, d->rows, y, d->c.hidden);
}

/* Copy rows of x, normed if n has weights, to one half of the pairs. */
static void
put_half(Decoder *d, const Norm *n, const float *x, int half)
{
	int			width = d->c.hidden;

	if (n->w != NULL)
	{
		d->k->rmsnorm(d->pool, d->y, x, n->w, d->rows, d->c.hidden, d->c.eps);
		x = d->y;
	}
	d->k->copy_rows(d->pool, d->draft.pair + half * width, 2 * width, x, width, NULL, d->rows, width);
}

void
dec_fuse(Decoder *d)
{
	int			given = d->c.draft.given_first ? 0 : 1;

	dec_draft_rows(d, d->y);
	put_half(d, &d->draft.token_norm, d->y, 1 - given);
	put_half(d, &d->draft.given_norm, d->b->given, given);
	dec_linear(d, &d->draft.fuse, d->draft.pair, d->draft.fuse.k, d->rows, d->x, d->c.hidden);
	d->pending = false;
}

static int32_t
id_of(const Draft *d, int own)
{
	return own >= 0 && d->map != NULL ? d->map[own] : (int32_t) own;
}

static int
best_of(const float *logits, size_t n)
{
	size_t		best = 0;

	for (size_t i = 1; i < n; i++)
		if (logits[i] > logits[best])
			best = i;
	return (int) best;
}

static float *
heads_logits(const Draft *d)
{
	return d->found.n > 0 ? d->logits.base : d->seen.dev;
}

/* Compute head h for n rows: its logits, and the state for the next head. */
static void
one_head(Draft *d, int h, const int32_t *tokens, int n, float *state)
{
	Decoder    *m = model_decoder(d->m);
	bool		medusa = m->c.draft.inner == 0;
	float	   *x = d->rows.base;
	float	   *logits = heads_logits(d);

	if (medusa)
		medusa_rows(m, h, state, n, x);
	else
	{
		mlp_rows(m, h, tokens, n, state);
		x = state;
	}
	if (m->draft.n_outs == 0)
		model_logits(d->target, x, NULL, n, logits);
	else
		dec_linear(m, &m->draft.outs[h < m->draft.n_outs ? h : 0], x, m->draft.outs[0].k, n, logits,
				   (int) d->logits_width);
}

/* Request draft token h of n rows. */
static void
find(Draft *d, int h, int n)
{
	const Decoder *m = model_decoder(d->m);
	size_t		size = (size_t) n * (sizeof(KSampled) / sizeof(float));

	if (d->found.n == 0)
	{
		hostdev_get(&d->seen, 0, (size_t) n * d->logits_width);
		return;
	}
	/* the op modifies them */
	hostdev_put(&d->sample_args, 0, (size_t) n * (sizeof(KSample) / sizeof(float)));
	m->k->sample(m->pool, d->sample_args.dev, n, d->logits.base, (int) d->logits_width, (int) d->logits_width,
				 (KSampled *) (void *) d->found.dev + (size_t) h * (size_t) n);
	hostdev_get(&d->found, (size_t) h * size, size);
}

/* Return draft token h of row i, which the op has found. */
static int32_t
found(const Draft *d, int h, int n, int i)
{
	if (d->found.n == 0)
		return id_of(d, best_of(d->seen.host + (size_t) i * d->logits_width, d->logits_width));
	return id_of(d, ((const KSampled *) (const void *) d->found.host)[(size_t) h * (size_t) n +
																	  (size_t) i].id);
}

void
draft_heads(Draft *d, const float *hidden, const int32_t *tokens, int n, int k, int32_t *out)
{
	Decoder    *m = model_decoder(d->m);
	int			width = m->c.hidden;
	bool		medusa = m->c.draft.inner == 0;
	int			known = 0;
	static const Batch none = {0};
	float	   *state;
	int32_t    *last;
	Err			e;

	if (n == 0)
		return;
	/* rows and found have as much room */
	ALWAYS(n <= d->max_out && k <= DRAFT_MOST);
	m->b = &none;
	m->rows = n;
	m->stopped = false;
	state = medusa ? m->x : d->rows.base;
	last = mem_alloc((size_t) n * sizeof(int32_t));
	m->k->copy_rows(m->pool, state, width, hidden, width, NULL, n, width);
	memcpy(last, tokens, (size_t) n * sizeof(int32_t));
	for (int h = 0; h < k; h++)
	{
		one_head(d, h, last, n, state);
		find(d, h, n);
		/* Medusa's heads don't depend on each other: request all before reading */
		if (medusa && d->found.n > 0 && h + 1 < k)
			continue;
		if (!dev_wait(m->dev, &e))
		{
			/* the device is lost; the next wait reports it */
			for (int i = 0; i < n * k; i++)
				out[i] = -1;
			break;
		}
		for (; known <= h; known++)
			for (int i = 0; i < n; i++)
				out[i * k + known] = last[i] = found(d, known, n, i);
	}
	mem_free(last);
}

int
draft_fed_width(const Draft *d)
{
	return d->type->kind == DRAFT_CHAIN ? d->info.model.hidden_size : 0;
}

/* Map the drafter's logits to the target's, which may be fewer or more. */
static void
as_target(const Draft *d, int n, float *to)
{
	const Decoder *m = model_decoder(d->m);
	int			vocab = model_info(d->target)->vocab_size;

	m->k->pick_cols(m->pool, to, vocab, d->logits.base, (int) d->logits_width, d->from.base, n, vocab);
}

void
draft_forward(Draft *d, const Batch *b, const KvView *kv, float *logits, float *fed)
{
	Decoder    *m = model_decoder(d->m);
	ModelTaps	taps = {.raw = m->c.draft.fed_raw ? fed : NULL};
	Batch		own = *b;
	bool		other = d->from.base != NULL;

	ALWAYS(b->n_out <= d->max_out);
	if (d->type->kind == DRAFT_MODEL)
	{
		model_forward(d->m, b, kv, other ? d->logits.base : logits);
		if (other && b->n_out > 0)
			as_target(d, b->n_out, logits);
		return;
	}
	own.hidden = true;
	own.taps = b->n_out > 0 ? &taps : NULL;
	model_forward(d->m, &own, kv, d->rows.base);
	if (b->n_out == 0)
		return;
	if (taps.raw == NULL && fed != NULL)
		m->k->copy_rows(m->pool, fed, m->c.hidden, d->rows.base, m->c.hidden, NULL, b->n_out, m->c.hidden);
	if (m->head.n == 0)
		model_logits(d->target, d->rows.base, NULL, b->n_out, logits);
	else if (!other)
		model_logits(d->m, d->rows.base, NULL, b->n_out, logits);
	else
	{
		dec_linear(m, &m->head, d->rows.base, m->head.k, b->n_out, d->logits.base, m->head.n);
		as_target(d, b->n_out, logits);
	}
}
