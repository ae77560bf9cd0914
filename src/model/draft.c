/*
 * draft.c
 *	  The door of what guesses tokens: choose the method, load it beside its target, run it.
 *
 * What a Draft lacks is its target's: embedding and head are read where the target has them.  A vocabulary of its own
 * ("d2t", "token_map") is mapped to the target's ids here, so that nobody else knows of it.
 */
#include "model/draft.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "model/draft_int.h"

typedef struct DraftType
{
	Arch		arch;			/* its name is the method's */
	DraftKind	kind;
} DraftType;

static const DraftType types[] = {
#define DRAFT(method, kind, model_types, conf, bind, forward) {{#method, model_types, "", conf, bind, forward}, kind},
#include "model/drafts.def"
#undef DRAFT
};

#define N_TYPES (sizeof(types) / sizeof(types[0]))

struct Draft
{
	DraftInfo	info;
	const DraftType *type;
	Model	   *m;
	Model	   *target;
	int32_t    *map;			/* [n_map] the target's ids of its own; NULL = they are the same */
	int			n_map;
	int			max_out;
	float	   *rows;			/* [max_out][widest row] scratch */
	float	   *logits;			/* [max_out][the head's rows] scratch; on a device `on_dev`, if they aren't the target's */
	DevMem		on_dev;
	size_t		logits_width;
};

static const DraftType *
find_type(const char *method)
{
	for (size_t i = 0; i < N_TYPES; i++)
		if (strcmp(types[i].arch.name, method) == 0)
			return &types[i];
	return NULL;
}

bool
draft_is_method(const char *method)
{
	return find_type(method) != NULL;
}

const char *
draft_guess(const Conf *conf, const char *path)
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
	if (conf_has(conf, "draft_vocab_size") || strstr(class_name, "Eagle3") != NULL || strstr(name, "eagle3") != NULL ||
		strstr(name, "EAGLE3") != NULL)
		return "eagle3";
	if (strncmp(class_name, "Eagle", 5) == 0 || strncmp(class_name, "EAGLE", 5) == 0 || strstr(name, "eagle-") != NULL ||
		strstr(name, "EAGLE-") != NULL)
		return "eagle";
	return "draft_model";
}

/* ---- loading ---- */

/* What the target must have, once its configuration and that of what guesses are known. */
static bool
fits(const char *method, const ModelInfo *target, const ModelInfo *info, const DraftConf *c, Err *e)
{
	if (!target->generates || target->both_ways || target->state_bytes > 0)
	{
		err_set(e, ERR_UNSUPPORTED, "speculative decoding is not supported with architecture \"%s\"", target->arch);
		return err_detail(e, "The model must generate, and keep all of a sequence in its KV cache.");
	}
	if (info->both_ways)
		return err_set(e, ERR_UNSUPPORTED, "architecture \"%s\" can't guess tokens: it generates no text", info->arch);
	if (info->state_bytes > 0)
		return err_set(e, ERR_UNSUPPORTED, "architecture \"%s\" can't guess tokens: its state can't be taken back", info->arch);
	if (c->n_layers > 0 && !target->norms_first)
		return err_set(e, ERR_UNSUPPORTED, "method \"%s\" is not supported with architecture \"%s\": its layers have no norm in front",
					   method, target->arch);
	if (c->given > 0 && c->given != target->hidden_size)
		return err_set(e, ERR_INVALID, "what guesses tokens was made for hidden rows of %d values, the model has %d",
					   c->given, target->hidden_size);
	if (c->given > 0 && c->heads == 0 && ((!c->own_embed && info->hidden_size != target->embed_width) ||
										  (!c->own_head && info->hidden_size != target->hidden_size)))
		return err_set(e, ERR_INVALID, "what guesses tokens has hidden rows of %d values and no %s of its own, the model's has %d",
					   info->hidden_size, c->own_embed ? "head" : "embedding", c->own_embed ? target->hidden_size : target->embed_width);
	if (strcmp(method, "draft_model") == 0 && !info->generates)
		return err_set(e, ERR_INVALID, "the draft model doesn't generate: it has no head for a vocabulary");
	for (int i = 0; i < c->n_layers; i++)
		if (c->layers[0] >= 0 && c->layers[i] >= target->n_layers)
			return err_set(e, ERR_INVALID, "what guesses tokens wants what goes into layer %d, the model has %d layers",
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
	/* near the first layer, in the middle, near the last */
	if (c->n_layers == 3 && c->layers[0] < 0)
	{
		info->layers[0] = target->n_layers > 2 ? 2 : target->n_layers - 1;
		info->layers[1] = target->n_layers / 2;
		info->layers[2] = target->n_layers > 3 ? target->n_layers - 3 : 0;
	}
}

/* Ids of a vocabulary of its own: offsets ("d2t") or the ids themselves ("token_map"). */
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
	/* not of heads that know all ids nevertheless */
	if (t == NULL || rows == 0 || (t->ndim == 1 && !offsets && t->shape[0] != rows))
		return true;
	if (t->ndim != 1 || t->shape[0] != rows || t->type != KT_I64)
		return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" isn't %d numbers of 64 bits", t->name, dec_where(src, t), rows);
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
			return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has a token that the model doesn't have", t->name, dec_where(src, t));
		d->map[i] = (int32_t) id;
	}
	return true;
}

static bool
make_scratch(Draft *d, Err *e)
{
	const Decoder *m = model_decoder(d->m);
	size_t		n = (size_t) d->max_out;
	size_t		width = (size_t) (m->c.draft.inner > m->c.hidden ? m->c.draft.inner : m->c.hidden);

	/* there only models guess, which have hidden rows of their own */
	if (m->dev != NULL)
	{
		d->logits_width = (size_t) d->info.model.vocab_size;
		if (d->info.model.vocab_size == model_info(d->target)->vocab_size)
			return true;
		if (!devmem_reserve(&d->on_dev, m->dev, n * d->logits_width * sizeof(float), m->huge, "Logits of the draft model", e))
			return false;
		d->logits = d->on_dev.base;
		return true;
	}
	d->rows = mem_alloc(n * width * sizeof(float));
	if (d->type->kind == DRAFT_MODEL)
		d->logits_width = (size_t) d->info.model.vocab_size;	/* its head may be its embedding */
	else
		d->logits_width = (size_t) (m->draft.n_outs > 0 ? m->draft.outs[0].n : m->head.n > 0 ? m->head.n : model_info(d->target)->vocab_size);
	d->logits = mem_alloc(n * d->logits_width * sizeof(float));
	d->info.model.work_memory += n * (width + d->logits_width) * sizeof(float);
	return true;
}

/* A draft model whose context may be shorter than the target's: it guesses as far as it goes. */
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
draft_new(const char *method, const Conf *conf, const ModelSource *src, const ModelOptions *opt, Model *target, Err *e)
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
	else if ((d->m = own ? shorter(conf, src, &mo, e) : model_new_as(&t->arch, target, conf, src, opt, e)) != NULL)
	{
		const DraftConf *c = &model_decoder(d->m)->c.draft;

		fill_info(&d->info, t, model_info(target), c, conf);
		d->info.model = *model_info(d->m);
		if (fits(method, model_info(target), model_info(d->m), c, e) && (own || read_map(d, src, e)) && make_scratch(d, e))
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
	mem_free(d->rows);
	if (d->on_dev.dev != NULL)
		devmem_free(&d->on_dev);
	else
		mem_free(d->logits);
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
draft_check(const char *method, const Conf *conf, const ModelSource *src, const QuantScheme *quant, const Kernels *k,
			const ModelInfo *target, DraftInfo *info, Err *e)
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

/* ---- rows in, guesses out ---- */

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

/* rows of x, normed or not, become one half of the pairs */
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
best_of(const Draft *d, const float *logits, size_t n)
{
	size_t		best = 0;

	for (size_t i = 1; i < n; i++)
		if (logits[i] > logits[best])
			best = i;
	return d->map != NULL ? d->map[best] : (int32_t) best;
}

/* Guess h of n rows, and what is left of these for the next. */
static void
one_head(Draft *d, int h, const int32_t *tokens, int n, float *state)
{
	Decoder    *m = model_decoder(d->m);
	bool		medusa = m->c.draft.inner == 0;
	float	   *x = d->rows;

	if (medusa)
		medusa_rows(m, h, state, n, x);
	else
	{
		mlp_rows(m, h, tokens, n, state);
		x = state;
	}
	if (m->draft.n_outs == 0)
		model_logits(d->target, x, NULL, n, d->logits);
	else
		dec_linear(m, &m->draft.outs[h < m->draft.n_outs ? h : 0], x, m->draft.outs[0].k, n, d->logits, (int) d->logits_width);
}

void
draft_heads(Draft *d, const float *hidden, const int32_t *tokens, int n, int k, int32_t *out)
{
	Decoder    *m = model_decoder(d->m);
	int			width = m->c.hidden;
	static const Batch none = {0};
	float	   *state;
	int32_t    *last;

	if (n == 0)
		return;
	m->b = &none;
	m->rows = n;
	m->stopped = false;
	state = m->c.draft.inner == 0 ? m->x : d->rows;
	last = mem_alloc((size_t) n * sizeof(int32_t));
	m->k->copy_rows(m->pool, state, width, hidden, width, NULL, n, width);
	memcpy(last, tokens, (size_t) n * sizeof(int32_t));
	for (int h = 0; h < k; h++)
	{
		one_head(d, h, last, n, state);
		for (int i = 0; i < n; i++)
			out[i * k + h] = last[i] = best_of(d, d->logits + (size_t) i * d->logits_width, d->logits_width);
	}
	mem_free(last);
}

int
draft_fed_width(const Draft *d)
{
	return d->type->kind == DRAFT_CHAIN ? d->info.model.hidden_size : 0;
}

/* Logits of a smaller vocabulary, as the target's. */
static void
spread(const Draft *d, const float *from, int n, int width, float *to)
{
	size_t		vocab = (size_t) model_info(d->target)->vocab_size;

	for (int i = 0; i < n; i++)
	{
		const float *x = from + (size_t) i * (size_t) width;
		float	   *y = to + (size_t) i * vocab;

		for (size_t j = 0; j < vocab; j++)
			y[j] = -INFINITY;
		for (int j = 0; j < width; j++)
			if (d->map != NULL)
				y[d->map[j]] = x[j];
			else if ((size_t) j < vocab)
				y[j] = x[j];
	}
}

#define LEAST_BYTE 0xfe			/* four of them are -1.7e38 */

/* A draft model's logits as the target's, of which it may have more or fewer. */
static void
same_width(const Draft *d, int n, float *to)
{
	const Decoder *m = model_decoder(d->m);
	int			own = d->info.model.vocab_size;
	int			vocab = model_info(d->target)->vocab_size;

	if (m->dev == NULL)
	{
		spread(d, d->logits, n, own, to);
		return;
	}
	if (own < vocab)
		m->dev->ops->fill(m->dev->d, to, LEAST_BYTE, (size_t) n * (size_t) vocab * sizeof(float));
	m->k->copy_rows(m->pool, to, vocab, d->logits, own, NULL, n, own < vocab ? own : vocab);
}

void
draft_forward(Draft *d, const Batch *b, const KvView *kv, float *logits, float *fed)
{
	Decoder    *m = model_decoder(d->m);
	ModelTaps	taps = {.raw = m->c.draft.fed_raw ? fed : NULL};
	Batch		own = *b;

	if (d->type->kind == DRAFT_MODEL)
	{
		if (d->info.model.vocab_size == model_info(d->target)->vocab_size || b->n_out == 0)
			model_forward(d->m, b, kv, logits);
		else
		{
			model_forward(d->m, b, kv, d->logits);
			same_width(d, b->n_out, logits);
		}
		return;
	}
	own.hidden = true;
	own.taps = b->n_out > 0 ? &taps : NULL;
	model_forward(d->m, &own, kv, d->rows);
	if (b->n_out == 0)
		return;
	if (taps.raw == NULL && fed != NULL)
		m->k->copy_rows(m->pool, fed, m->c.hidden, d->rows, m->c.hidden, NULL, b->n_out, m->c.hidden);
	if (m->head.n == 0)
		model_logits(d->target, d->rows, NULL, b->n_out, logits);
	else if (m->head.n == model_info(d->target)->vocab_size && d->map == NULL)
		model_logits(d->m, d->rows, NULL, b->n_out, logits);
	else
	{
		dec_linear(m, &m->head, d->rows, m->head.k, b->n_out, d->logits, m->head.n);
		spread(d, d->logits, b->n_out, m->head.n, logits);
	}
}
