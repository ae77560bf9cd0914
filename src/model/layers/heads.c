/*
 * heads.c
 *	  The layers after pooling: classifiers, rewards, dense layers.
 *
 * Binding finds the layers, heads_info() sets the model's tasks, and the step thread runs
 * dec_pool_head() on the poolers' results.  Row invariance (kernels.h) holds: every row goes through the
 * same ops of the table, in pieces of HEAD_ROWS.
 *
 * Tested by tests/unit/model/test_model.c and tests/golden/pool_golden.c.
 */
#include "model/layers/heads.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "model/weights/device_placement.h"

/* ---- classes ---- */

static const struct
{
	const char *ending;
	HeadKind	kind;
}			endings[] = {
	{"ForCausalLM", HEAD_LM}, {"LMHeadModel", HEAD_LM}, {"ForConditionalGeneration", HEAD_LM},
	{"ForMaskedLM", HEAD_BARE}, {"ForPreTraining", HEAD_BARE},
	{"ForSequenceClassification", HEAD_SEQUENCE}, {"ForTokenClassification", HEAD_TOKENS},
	{"ForProcessRewardModel", HEAD_STEPS}, {"ForRewardModel", HEAD_REWARD},
	{"Model", HEAD_BARE},		/* after the longer names that end the same way */
};

HeadKind
head_kind(const char *class_name, size_t *stem)
{
	size_t		len = strlen(class_name);

	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
	{
		size_t		n = strlen(endings[i].ending);

		if (len > n && strcmp(class_name + len - n, endings[i].ending) == 0)
		{
			*stem = len - n;
			return endings[i].kind;
		}
	}
	*stem = len;
	return HEAD_LM;
}

/* Make a decoder's attention bidirectional, for models trained that way. */
static bool
look_both_ways(DecoderConf *c, Err *e)
{
	c->both_ways = true;
	for (int i = 0; i < c->n_layers; i++)
	{
		LayerConf  *l = &c->layers[i];

		if (l->recurrent || l->both || l->chunk > 0 || c->mla.latent > 0)
			return err_set(e, ERR_UNSUPPORTED, "bidirectional attention is not supported in this "
											   "architecture");
		/* as in transformers: this many positions on either side, in addition to the row's own */
		if (l->window > 0 && l->ahead == 0)
			l->ahead = l->window++;
	}
	return true;
}

bool
heads_conf(const Conf *conf, DecoderConf *c, Err *e)
{
	const char *class_name = conf_str(conf, "architectures", "");
	bool		tokens = conf_has(conf, HEAD_TOKENS_KEY);
	/* A generating model isn't limited by its tokenizer's length: many of these differ from the
	 * model's. */
	const char *limit = conf_has(conf, "st.max_seq_length") || c->head == HEAD_LM ? "st.max_seq_length" :
		"st.model_max_length";
	double		len = conf_num(conf, limit, 0);

	/* the length of its training texts; a longer context would only take memory */
	if (len >= 1 && len < c->max_len)
		c->max_len = (int) len;
	/* it classifies by logits, whatever class an option gives it */
	if (c->head == HEAD_SEQUENCE && tokens)
		c->head = HEAD_LM;
	/* an embedding model, even if it could generate */
	if (c->head == HEAD_LM && conf_has(conf, "st.pooling") && !tokens)
		c->head = HEAD_BARE;
	c->no_head |= c->head != HEAD_LM;
	return c->both_ways ||
		(conf_bool(conf, "is_causal", true) && strstr(class_name, "Bidirectional") == NULL) ||
		look_both_ways(c, e);
}

/* ---- binding ---- */

bool
head_act(const char *name, HeadAct *out, Err *e)
{
	static const HeadAct acts[] = {
		[KACT_RELU] = HA_RELU, [KACT_GELU] = HA_GELU, [KACT_GELU_TANH] = HA_GELU_TANH, [KACT_SILU] = HA_SILU
	};
	KAct		k;
	char		buf[65];

	*out = strcmp(name, "tanh") == 0 ? HA_TANH : HA_NONE;
	if (*out != HA_NONE)
		return true;
	if (!dec_conf_act(name, &k, e))
		return false;
	if ((size_t) k < sizeof(acts) / sizeof(acts[0]))
		*out = acts[k];
	return *out != HA_NONE || err_set(e, ERR_UNSUPPORTED, "activation function \"%s\" is not supported",
									  dec_printable(name, buf, sizeof(buf)));
}

/* Add a layer; NULL with the error set if there are too many. */
static HeadLayer *
add_layer(Head *h, int k, HeadAct act)
{
	HeadLayer  *l = &h->layers[h->n];

	if (h->n == HEAD_MAX)
		return NULL;
	l->dense.k = h->n > 0 ? h->layers[h->n - 1].dense.n : k;
	l->dense.exact = true;
	l->act = act;
	h->n++;
	return l;
}

bool
bind_classifier_dense(Binder *b, const char *hf, const char *gguf, int n, HeadAct act, bool bias)
{
	Decoder    *d = bind_decoder(b);
	HeadLayer  *l = add_layer(&d->classifier, d->c.hidden, act);

	if (l == NULL)
		return err_set(bind_err(b), ERR_INTERNAL, "too many layers of a head");
	return bind_linear(b, &l->dense, hf, gguf, n, bias);
}

bool
bind_classifier_norm(Binder *b, const char *hf, const char *gguf)
{
	Head	   *h = &bind_decoder(b)->classifier;
	HeadLayer  *l = &h->layers[h->n - 1];
	char		name[2][160];

	ALWAYS(h->n > 0);
	snprintf(name[0], sizeof(name[0]), "%s.weight", hf);
	snprintf(name[1], sizeof(name[1]), "%s.weight", gguf);
	if (!bind_vector(b, &l->norm.w, name[0], name[1], l->dense.n))
		return false;
	snprintf(name[0], sizeof(name[0]), "%s.bias", hf);
	snprintf(name[1], sizeof(name[1]), "%s.bias", gguf);
	return !bind_has(b, name[0], name[1]) || bind_vector(b, &l->norm.b, name[0], name[1], l->dense.n);
}

bool
bind_classifier(Binder *b, const char *hf, const char *gguf, bool bias)
{
	int64_t		n = bind_n_rows(b, hf, gguf);

	if (n > HEAD_MAX_LABELS)
		return err_set(bind_err(b), ERR_BAD_FILE,
					   "tensor \"%s.weight\" has %lld rows, more than %d labels are not supported", hf,
					   (long long) n, HEAD_MAX_LABELS);
	/* with 0 rows: report the shape by the tensor's name */
	return bind_classifier_dense(b, hf, gguf, n > 0 ? (int) n : 1, HA_NONE, bias);
}

/* Bind the usual names of decoders' heads. */
static bool
bind_usual(Binder *b, const Decoder *d)
{
	if (d->c.head == HEAD_REWARD || d->c.head == HEAD_STEPS)
	{
		if (bind_has(b, "v_head.weight", ""))
			return bind_classifier(b, "v_head", "", bind_has(b, "v_head.bias", ""));
		if (bind_has(b, "score.0.weight", ""))
			return bind_classifier_dense(b, "score.0", "", (int) bind_n_rows(b, "score.0", ""), HA_RELU,
										 true) &&
				bind_classifier(b, "score.2", "", true);
	}
	if (d->c.head == HEAD_TOKENS && bind_has(b, "classifier.weight", ""))
		return bind_classifier(b, "classifier", "", bind_has(b, "classifier.bias", ""));
	return bind_classifier(b, "score", "", bind_has(b, "score.bias", ""));
}

/* Return the last word of a Python class's name. */
static const char *
last_word(const char *s)
{
	const char *dot = strrchr(s, '.');

	return dot != NULL ? dot + 1 : s;
}

static bool
torch_act(const char *name, HeadAct *out, Err *e)
{
	static const struct
	{
		const char *name;
		HeadAct		act;
	}			acts[] = {
		{"Identity", HA_NONE}, {"Tanh", HA_TANH}, {"Sigmoid", HA_SIGMOID}, {"ReLU", HA_RELU},
		{"GELU", HA_GELU},
		{"SiLU", HA_SILU},
	};
	char		buf[65];

	for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++)
		if (strcmp(acts[i].name, last_word(name)) == 0)
		{
			*out = acts[i].act;
			return true;
		}
	return err_set(e, ERR_UNSUPPORTED, "activation function \"%s\" is not supported",
				   dec_printable(name, buf, sizeof(buf)));
}

/* Return the number of concatenated vectors that are the input of an embedding's layers. */
static int
n_parts(const Conf *conf)
{
	size_t		n;

	conf_strs(conf, "st.pooling", &n);
	return n > 0 && n <= POOL_PARTS ? (int) n : 1;
}

/* Read a width from a layer's configuration; *out is set. */
static bool
layer_width(Binder *b, const char *prefix, const char *name, int *out)
{
	char		key[64];

	snprintf(key, sizeof(key), "%s%s", prefix, name);
	return dec_conf_int(bind_conf(b), key, 1, DEC_MAX_HIDDEN, 0, out, bind_err(b));
}

static bool
bind_st_norm(Binder *b, const char *prefix, HeadLayer *l)
{
	char		name[64];
	int			n;

	if (!layer_width(b, prefix, "dimension", &n))
		return false;
	if (n != l->dense.k)
		return err_set(bind_err(b), ERR_BAD_FILE, "a LayerNorm of %d columns follows vectors of %d", n,
					   l->dense.k);
	l->dense.n = n;
	/* default of torch.nn.LayerNorm */
	l->eps = 1e-5f;
	snprintf(name, sizeof(name), "%snorm.weight", prefix);
	if (!bind_vector(b, &l->norm.w, name, name, n))
		return false;
	snprintf(name, sizeof(name), "%snorm.bias", prefix);
	return bind_vector(b, &l->norm.b, name, name, n);
}

static bool
bind_st_dense(Binder *b, const char *prefix, HeadLayer *l)
{
	const Conf *conf = bind_conf(b);
	char		key[64];
	char		name[64];
	int			n;

	if (!layer_width(b, prefix, "out_features", &n))
		return false;
	snprintf(key, sizeof(key), "%sactivation_function", prefix);
	/* the module class's default for an absent key */
	if (!torch_act(conf_str(conf, key, "torch.nn.modules.activation.Tanh"), &l->act, bind_err(b)))
		return false;
	snprintf(name, sizeof(name), "%slinear", prefix);
	snprintf(key, sizeof(key), "%sbias", prefix);
	return bind_linear(b, &l->dense, name, name, n, conf_bool(conf, key, true));
}

/* Bind the layers of a sentence-transformers directory at one position: "rows", "dense". */
static bool
bind_st_layers(Binder *b, const char *place, Head *h, int width)
{
	const Conf *conf = bind_conf(b);

	for (int i = 0;; i++)
	{
		char		prefix[32];
		char		key[64];
		bool		dense;
		HeadLayer  *l;

		snprintf(prefix, sizeof(prefix), "st.%s.%d.", place, i);
		snprintf(key, sizeof(key), "%sout_features", prefix);
		dense = conf_has(conf, key);
		snprintf(key, sizeof(key), "%sdimension", prefix);
		if (!dense && !conf_has(conf, key))
			return true;
		if ((l = add_layer(h, width, HA_NONE)) == NULL)
			return err_set(bind_err(b), ERR_UNSUPPORTED,
						   "more than %d layers in a row are not supported", HEAD_MAX);
		if (dense ? !bind_st_dense(b, prefix, l) : !bind_st_norm(b, prefix, l))
			return false;
	}
}

/* Return the width of a head's output for inputs of a width. */
static int
out_width(const Head *h, int width)
{
	return h->n > 0 ? h->layers[h->n - 1].dense.n : width;
}

/* Check the settings of a score computed from tokens' logits. */
static bool
tokens_ok(const Conf *conf, const Decoder *d, Err *e)
{
	size_t		n;
	const double *ids = conf_nums(conf, HEAD_TOKENS_KEY, &n);

	if (d->c.no_head || n < 1 || n > 2)
		return err_set(e, ERR_UNSUPPORTED,
					   "a score is made of the logits of one or two tokens, of a model that has logits");
	for (size_t i = 0; i < n; i++)
		if (!(ids[i] >= 0 && ids[i] < d->c.vocab) || ids[i] != floor(ids[i]))
			return err_set(e, ERR_BAD_FILE, "token %g is not in the model's vocabulary of %d", ids[i],
						   d->c.vocab);
	return true;
}

bool
bind_heads(Binder *b, Decoder *d)
{
	const Conf *conf = bind_conf(b);

	d->scores_tokens = conf_has(conf, HEAD_TOKENS_KEY);
	if (d->scores_tokens && !tokens_ok(conf, d, bind_err(b)))
		return false;
	if (d->c.head > HEAD_BARE && d->classifier.n == 0 && !bind_usual(b, d))
		return false;
	return bind_st_layers(b, "rows", &d->row_layers, d->c.hidden) &&
		bind_st_layers(b, "dense", &d->dense, n_parts(conf) * out_width(&d->row_layers, d->c.hidden));
}

static size_t
widest(const Decoder *d, bool inputs)
{
	const Head *heads[] = {&d->classifier, &d->dense, &d->row_layers};
	int			most = 0;

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		for (int j = 0; j < heads[i]->n; j++)
		{
			const Linear *l = &heads[i]->layers[j].dense;
			int			width = inputs ? l->k : l->n;

			most = width > most ? width : most;
		}
	return (size_t) most;
}

size_t
heads_width(const Decoder *d)
{
	return widest(d, false);
}

size_t
heads_inputs(const Decoder *d)
{
	return widest(d, true);
}

/* ---- tasks ---- */

/* Return the pooler of a model without sentence-transformers' files. */
static PoolKind
usual_pooler(const Decoder *d, const Conf *conf)
{
	static const struct
	{
		const char *name;
		PoolKind	kind;
	}			names[] = {{"avg", POOL_MEAN}, {"mean", POOL_MEAN}, {"cls", POOL_CLS}, {"last", POOL_LAST}};
	/* GGUF's numbers; 0 is none, and 4 is a classifier's */
	static const PoolKind numbers[] = {[1] = POOL_MEAN, [2] = POOL_CLS, [3] = POOL_LAST};
	const char *name = conf_str(conf, "pooling", "");
	int64_t		number = conf_int(conf, "gguf.pooling_type", 0);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i].name, name) == 0)
			return names[i].kind;
	if (number >= 1 && number <= 3)
		return numbers[number];
	return d->c.both_ways ? POOL_MEAN : POOL_LAST;
}

/* Return true if the model's files say how its rows become a vector. */
static bool
says_how(const Conf *conf)
{
	int64_t		number = conf_int(conf, "gguf.pooling_type", 0);

	return conf_has(conf, "st.pooling") || conf_bool(conf, "st.by_token", false) ||
		conf_str(conf, "pooling", "")[0] != '\0' || (number >= 1 && number <= 3);
}

/* Set the poolers of a sentence-transformers directory, or the usual one. */
static bool
embed_plan(const Decoder *d, const Conf *conf, PoolPlan *p, Err *e)
{
	static const char *const keys[] = {
#define POOLER(name, key, rows, how, by) key,
#include "model/layers/poolers.def"
#undef POOLER
	};
	size_t		n;
	const char *const *names = conf_strs(conf, "st.pooling", &n);
	char		buf[65];

	*p = (PoolPlan) {.n = 1, .kinds = {usual_pooler(d, conf)}};
	if (n > POOL_PARTS)
		return err_set(e, ERR_UNSUPPORTED, "more than %d poolers side by side are not supported", POOL_PARTS);
	for (size_t i = 0; i < n; i++)
	{
		int			k = 0;

		while (k < POOL_KINDS && strcmp(keys[k], names[i]) != 0)
			k++;
		if (k == POOL_KINDS)
			return err_set(e, ERR_UNSUPPORTED, "pooling \"%s\" is not supported",
						   dec_printable(names[i], buf, sizeof(buf)));
		p->kinds[i] = (PoolKind) k;
		p->n = (int) i + 1;
	}
	p->layers = d->row_layers.n > 0;
	p->row = out_width(&d->row_layers, d->c.hidden);
	p->width = out_width(&d->dense, p->n * p->row);
	return true;
}

/* Read the activation of a score; sentence-transformers' setting counts only if there is one label. */
static bool
label_act(const Conf *conf, int n_labels, PoolAct *out, Err *e)
{
	static const char *const keys[] = {
		"sentence_transformers.activation_fn", "st.activation_fn", "sbert_ce_default_activation_function",
		NULL
	};
	const char *fn = conf_str(conf, dec_conf_key(conf, keys), "");
	const char *type = conf_str(conf, "problem_type", "");
	HeadAct		act;

	*out = PA_SIGMOID;
	if (strcmp(type, "regression") == 0)
		*out = PA_NONE;
	else if (strcmp(type, "multi_label_classification") != 0 && n_labels > 1)
		*out = PA_SOFTMAX;
	if (n_labels > 1 || *out == PA_NONE || fn[0] == '\0')
		return true;
	if (!torch_act(fn, &act, e))
		return false;
	if (act != HA_NONE && act != HA_SIGMOID)
		return err_set(e, ERR_UNSUPPORTED, "activation function \"%s\" behind a score is not supported",
					   last_word(fn));
	if (act == HA_NONE)
		*out = PA_NONE;
	return true;
}

static void
add_task(ModelInfo *info, PoolTask t, PoolPlan plan, PoolAct act)
{
	if (plan.row == 0)
		plan.row = info->hidden_size;
	info->tasks |= 1u << t;
	info->pools[t] = plan;
	info->acts[t] = act;
}

static void
classifier_tasks(const Decoder *d, const Conf *conf, PoolAct act, ModelInfo *info)
{
	int			n = d->classifier.layers[d->classifier.n - 1].dense.n;
	double		pad = conf_num(conf, "pad_token_id", -1);
	PoolPlan	one = {.n = 1, .kinds = {d->classifier_pool}, .width = n};
	PoolPlan	all = {.width = n};

	info->n_labels = n;
	/*
	 * transformers' decoders take the last token that isn't the padding token.  Models were trained that
	 * way, even if the padding token ends a text.
	 */
	if (d->c.head == HEAD_SEQUENCE && d->classifier_pool == POOL_LAST && pad >= 0 && pad < info->vocab_size)
	{
		one.unpads = true;
		one.pad = (int32_t) pad;
	}
	switch (d->c.head)
	{
		case HEAD_SEQUENCE:
			add_task(info, PT_CLASSIFY, one, act);
			if (n == 1)
				add_task(info, PT_SCORE, one, act);
			if (n == 1 && !d->c.both_ways)
				add_task(info, PT_REWARD, one, PA_NONE);
			break;
		case HEAD_TOKENS:
			add_task(info, PT_TOKEN_CLASSIFY, all, act);
			break;
		case HEAD_REWARD:
			if (n == 1)
				add_task(info, PT_REWARD, one, PA_NONE);
			add_task(info, PT_TOKEN_CLASSIFY, all, PA_NONE);
			break;
		case HEAD_STEPS:
			add_task(info, PT_REWARD, all, act);
			add_task(info, PT_TOKEN_CLASSIFY, all, act);
			break;
		case HEAD_LM:
		case HEAD_BARE:
			break;
	}
}

bool
heads_info(const Decoder *d, const Conf *conf, ModelInfo *info, Err *e)
{
	PoolPlan	embed;
	PoolAct		act = PA_NONE;

	info->tasks = info->generates ? 1u << PT_LOGPROBS : 0;
	if (d->classifier.n > 0)
	{
		if (!label_act(conf, d->classifier.layers[d->classifier.n - 1].dense.n, &act, e))
			return false;
		classifier_tasks(d, conf, act, info);
		return true;
	}
	if (conf_has(conf, HEAD_TOKENS_KEY))
	{
		PoolPlan	last = {.n = 1, .kinds = {POOL_LAST}, .width = 1};

		info->n_labels = 1;
		if (!label_act(conf, 1, &act, e))
			return false;
		add_task(info, PT_CLASSIFY, last, act);
		add_task(info, PT_SCORE, last, act);
		return true;
	}
	if (!embed_plan(d, conf, &embed, e))
		return false;
	info->made_to_embed = !info->generates || says_how(conf);
	if (conf_bool(conf, "st.by_token", false))
	{
		add_task(info, PT_TOKEN_EMBED, (PoolPlan) {.width = embed.row}, PA_LENGTH1);
		return true;
	}
	/* a directory without sentence-transformers' files has no setting for normalizing */
	add_task(info, PT_EMBED, embed, conf_has(conf, "st.pooling") && !conf_bool(conf, "st.normalize", false)
			 ? PA_NONE : PA_LENGTH1);
	add_task(info, PT_TOKEN_EMBED, (PoolPlan) {.width = embed.row}, PA_LENGTH1);
	return true;
}

/* ---- evaluation ---- */

static void
activate(Decoder *d, HeadAct act, float *x, int rows, int width)
{
	static const KAct of_table[] = {
		[HA_TANH] = KACT_TANH, [HA_SIGMOID] = KACT_SIGMOID, [HA_RELU] = KACT_RELU, [HA_GELU] = KACT_GELU,
		[HA_GELU_TANH] = KACT_GELU_TANH, [HA_SILU] = KACT_SILU
	};

	if (act != HA_NONE)
		d->k->act(d->pool, of_table[act], x, rows, width);
}

/* Run the layers for at most HEAD_ROWS rows; the last layer writes to y. */
static void
run_layers(Decoder *d, const Head *h, const float *x, int rows, float *y)
{
	for (int i = 0; i < h->n; i++)
	{
		const HeadLayer *l = &h->layers[i];
		float	   *to = i == h->n - 1 ? y : i % 2 == 0 ? d->head_x : d->head_y;

		if (l->dense.n_mats > 0)
			dec_linear(d, &l->dense, x, l->dense.k, rows, to, l->dense.n);
		else
			d->k->copy_rows(d->pool, to, l->dense.n, x, l->dense.n, NULL, rows, l->dense.n);
		activate(d, l->act, to, rows, l->dense.n);
		if (l->norm.w != NULL)
			d->k->layernorm(d->pool, to, to, l->norm.w, l->norm.b, rows, l->dense.n,
							l->eps != 0 ? l->eps : d->c.eps);
		x = to;
	}
}

void
heads_ready(Decoder *d, const Conf *conf)
{
	const Linear *head = d->c.tied ? &d->embed : &d->head;
	size_t		n;
	const double *ids = conf_nums(conf, HEAD_TOKENS_KEY, &n);
	float	   *row;
	KMat		mat;

	if (d->token_row == NULL)
		return;
	mat = dec_host_mat(d, &head->mat[0]);
	row = mem_alloc((size_t) d->c.hidden * sizeof(float));
	memset(d->token_row, 0, (size_t) d->c.hidden * sizeof(float));
	/* one token: its own logit; two: the second's minus the first's */
	for (size_t i = 0; i < n; i++)
	{
		int			sign = i == n - 1 ? 1 : -1;

		d->k->mat_row(&mat, (int) ids[i], row);
		for (int j = 0; j < d->c.hidden; j++)
			d->token_row[j] += (float) sign * row[j];
		if (head->bias != NULL)
			d->token_bias += (float) sign * dec_host(d, head->bias)[(int) ids[i]];
	}
	mem_free(row);
}

static const Head *
head_of(const Decoder *d, PoolTask t)
{
	switch (t)
	{
		case PT_EMBED:
			return &d->dense;
		case PT_TOKEN_EMBED:
			return &d->row_layers;
		default:
			return &d->classifier;
	}
}

static void
run_head(Decoder *d, const Head *h, int width, const float *x, int n, float *y)
{
	if (h->n == 0)
	{
		d->k->copy_rows(d->pool, y, width, x, width, NULL, n, width);
		return;
	}
	for (int i = 0; i < n; i += HEAD_ROWS)
		run_layers(d, h, x + (size_t) i * (size_t) h->layers[0].dense.k,
				   n - i < HEAD_ROWS ? n - i : HEAD_ROWS, y + (size_t) i * (size_t) width);
}

void
dec_pool_head(Decoder *d, PoolTask t, int width, const float *x, int n, float *y)
{
	const Head *h = head_of(d, t);

	if (d->token_row != NULL && t != PT_EMBED && t != PT_TOKEN_EMBED)
		d->k->dot_rows(d->pool, y, x, n, d->c.hidden, d->token_row, d->token_bias);
	else
		run_head(d, h, width, x, n, y);
}

void
dec_pool_rows(Decoder *d, const float *x, int n, float *y)
{
	run_head(d, &d->row_layers, out_width(&d->row_layers, d->c.hidden), x, n, y);
}
