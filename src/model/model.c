/*
 * model.c
 *	  The public interface of src/model: choose the architecture, build the Decoder, plan its work
 *	  space, run a step.
 *
 * model_new() allocates everything that a forward pass touches, so that a loaded model can't run out of
 * memory in the middle of a step.
 *
 * Tested by tests/unit/model/test_model.c and tests/golden/models_golden.c.
 */
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/alloc.h"
#include "model/parallel/expert_migration.h"
#include "model/layers/heads.h"
#include "model/weights/device_placement.h"
#include "model/parallel/shard.h"
#include "model/step_graph.h"

struct Model
{
	const Arch *arch;
	const ModelRanks *ranks;	/* NULL = alone */
	uint8_t		plan[SPLIT_DIGEST]; /* with ranks: digest of the whole model */
	ModelInfo	info;
	int			max_out;
	float	   *kv_scales;
	int		   *kv_windows;
	StepGraphs *graphs;			/* NULL: steps are not recorded */
	Decoder		d;
};

static const Arch archs[] = {
#define MODEL(name, classes, gguf, conf, bind, forward) {#name, classes, gguf, conf, bind, forward},
#include "model/models.def"
#undef MODEL
};

#define N_ARCHS (sizeof(archs) / sizeof(archs[0]))

/* Return true if a list, separated by blanks, has this class.  stem: the first `len` bytes of a class
 * are enough, up to the part that names its head. */
static bool
has_class(const char *classes, const char *name, size_t len, bool stem)
{
	for (const char *p = classes; *p != '\0';)
	{
		size_t		n = strcspn(p, " ");
		size_t		s = n;
		char		one[128];

		if (stem && n < sizeof(one))
		{
			memcpy(one, p, n);
			one[n] = '\0';
			head_kind(one, &s);
		}
		if (s == len && memcmp(p, name, s) == 0)
			return true;
		p += n;
		p += strspn(p, " ");
	}
	return false;
}

const Arch *
model_arch(const Conf *c, HeadKind *head, Err *e)
{
	const char *gguf = conf_str(c, "gguf.architecture", NULL);
	const char *name = gguf != NULL ? gguf : conf_str(c, "architectures", NULL);
	size_t		stem = 0;
	char		buf[129];

	*head = HEAD_LM;

	if (name == NULL)
	{
		err_set(e, ERR_BAD_FILE, "model configuration has no \"architectures\"");
		return NULL;
	}
	for (size_t i = 0; i < N_ARCHS && gguf != NULL; i++)
		if (has_class(archs[i].gguf, name, strlen(name), false))
			return &archs[i];
	if (gguf == NULL)
		*head = head_kind(name, &stem);
	for (size_t i = 0; i < N_ARCHS && gguf == NULL; i++)
		if (has_class(archs[i].classes, name, strlen(name), false))
			return &archs[i];
	/* the same model with another head */
	for (size_t i = 0; i < N_ARCHS && gguf == NULL && stem < strlen(name); i++)
		if (has_class(archs[i].classes, name, stem, true))
			return &archs[i];
	err_set(e, ERR_UNSUPPORTED, "model architecture \"%s\" is not supported",
			dec_printable(name, buf, sizeof(buf)));
	if (gguf != NULL)
		err_hint(e, "Supported GGUF architectures are: "
#define MODEL(name, classes, gguf, conf, bind, forward) gguf " "
#include "model/models.def"
#undef MODEL
			);
	else
		err_hint(e, "Supported architectures are: "
#define MODEL(name, classes, gguf, conf, bind, forward) classes " "
#include "model/models.def"
#undef MODEL
			);
	return NULL;
}

static void
decoder_clear(Decoder *d)
{
	split_end(d);
	dec_unbind(d);
	dec_conf_free(&d->c);
	dec_forget_stacks(d);
	for (size_t i = 0; i < d->n_stacks; i++)
		stack_free(d->stacks[i]);
	dec_lora_free(d);
	mem_free(d->ranks.places);
	mem_free(d->stacks);
	mem_free(d->layers != NULL ? d->layers - d->ranks.first_layer : NULL);
	mem_free(d->draft.blocks);
	mem_free(d->draft.outs);
	mem_free(d->draft.tables);
	mem_free(d->draft.norms);
	if (d->dev != NULL)
		dev_give(d->dev, d->ws_extra, d->ws_size);
	else
		mem_free(d->ws_extra);
	mem_free(d->ids);
	mem_free(d->placed);
	devmem_free(&d->on_dev);
	devmem_free(&d->work_dev);
	marena_free(&d->weights);
	marena_free(&d->work);
	memset(d, 0, sizeof(*d));
}

/* Check that all keys that were read had the right kind. */
static bool
kinds_ok(const Conf *conf, Err *e)
{
	if (conf_misread(conf) == NULL)
		return true;
	return err_set(e, ERR_BAD_FILE, "model configuration has an invalid \"%s\"", conf_misread(conf));
}

/* Return true if each layer begins with dec_norm(); ModelTaps.mid is only defined for such models. */
static bool
norms_first(const Decoder *d)
{
	bool		all = !d->c.post_norm;

	for (int i = 0; i < d->c.n_layers && all && !d->c.no_norm_weight; i++)
		all = dec_bound(d, &d->layers[i].attn_norm.w);
	return all;
}

/* Reduce the weights to this rank's part. */
static bool
share(Model *m, Err *e)
{
	split_digest(&m->d, m->plan);
	return split_apply(&m->d, m->ranks, e);
}

/* Read the configuration and find the tensors, without reading weights. */
static bool
open_model(Model *m, const Conf *conf, const ModelSource *src, int max_len,
		   const QuantScheme *quant, Err *e)
{
	Decoder    *d = &m->d;
	ModelInfo  *info = &m->info;

	bool		drafts = m->arch != NULL;

	if (!drafts && (m->arch = model_arch(conf, &d->c.head, e)) == NULL)
		return false;
	if (!m->arch->conf(conf, &d->c, e) || !kinds_ok(conf, e) || (!drafts && !heads_conf(conf, &d->c, e)))
		return false;
	d->classifier_pool = d->c.both_ways ? POOL_CLS : POOL_LAST;
	/* a drafter has the context length of its target */
	if (drafts && max_len > 0)
		d->c.max_len = max_len;
	if (max_len < 0 || max_len > d->c.max_len)
		return err_set(e, ERR_INVALID, "max_model_len %d is outside the range of the model (1 .. %d)",
					   max_len, d->c.max_len);
	if (max_len > 0)
		d->c.max_len = max_len;
	dec_state_plan(d);
	if (!dec_conf_ropes(conf, &d->c, e) ||
		!dec_bind(d, m->arch, conf, src, quant, info, e) || !kinds_ok(conf, e) ||
		(m->ranks != NULL && !share(m, e)))
		return false;
	if (conf_has(conf, "quantization_config.quant_method"))
		snprintf(info->quantization, sizeof(info->quantization), "%s",
				 conf_str(conf, "quantization_config.quant_method", ""));
	info->arch = m->arch->name;
	info->vocab_size = d->c.vocab;
	info->max_model_len = d->c.max_len;
	info->hidden_size = d->c.hidden;
	info->embed_width = d->c.embed_width > 0 ? d->c.embed_width : d->c.hidden;
	info->n_layers = d->c.n_layers;
	info->n_kv_layers = d->n_kv_layers;
	for (int i = 0; i < d->c.n_layers && !d->c.both_ways; i++)
	{
		const LayerConf *l = &d->c.layers[i];
		int			window = l->window > 0 ? l->window : l->chunk;

		if ((l->recurrent && !l->both) || window == 0)
			continue;
		info->n_kv_windows++;
		info->kv_window = window > info->kv_window ? window : info->kv_window;
	}
	info->norms_first = norms_first(d);
	info->state_bytes = d->state_floats * sizeof(float);
	info->n_heads = d->c.n_heads;
	info->n_kv_heads = d->c.n_kv_heads;
	info->head_dim = d->c.head_dim;
	info->v_dim = d->c.mla.latent;
	info->both_ways = d->c.both_ways;
	for (int i = 0; i < d->c.n_layers && d->c.both_ways; i++)
		if (d->c.layers[i].ahead > 0 && (info->reach == 0 || d->c.layers[i].ahead < info->reach))
			info->reach = d->c.layers[i].ahead;
	info->generates = !d->c.both_ways && !d->c.no_head;
	return drafts || heads_info(d, conf, info, e);
}

/* Return how many rows of a step are multiplied with a stack's matrices at once: enough to read the
 * matrices once for many rows, but limited, since each row needs many times its width. */
static int
stack_rows(const Decoder *d)
{
	return d->max_rows < 512 ? d->max_rows : 512;
}

/* Return the ops' scratch for max_rows rows.  The blocks of the KV cache are not known yet: their size
 * hardly matters, and model_forward() enlarges the scratch if necessary. */
static size_t
scratch_bytes(const Decoder *d, int threads)
{
	KvView		kv = {.type = KT_F32, .n_layers = d->n_kv_layers, .n_blocks = 1, .block_size = 16,
		.n_kv_heads = d->c.n_kv_heads, .head_dim = d->c.head_dim, .v_dim = d->c.mla.latent};
	size_t		most = 0;

	if (d->n_kv_layers > 0)
		most = d->k->attn_scratch(&kv, d->c.n_heads, d->max_rows, threads);

	for (size_t i = 0; i < d->bound->n_linears; i++)
		for (int p = 0; p < d->bound->linears[i]->n_parts; p++)
		{
			const Linear *l = d->bound->linears[i];
			size_t		n = d->k->mm_scratch(l->as[p], d->max_rows, l->k);

			if (n > most)
				most = n;
		}
	for (size_t i = 0; i < d->n_stacks; i++)
	{
		const Stack *s = d->stacks[i];

		for (int p = 0; p < s->of[0].n_parts; p++)
		{
			size_t		n = d->k->mm_grouped_scratch(s->of[0].as[p], s->n, stack_rows(d) * s->per_row,
													 s->of[0].k);

			if (n > most)
				most = n;
		}
	}
	return most;
}

/* Kinds of pieces of the work space: buffers of max_rows rows, or a table. */
typedef enum ModelPieceKind
{
	PIECE_FLOATS,
	PIECE_OP,					/* operands */
	PIECE_TABLE,				/* floats that the host writes while it loads the model */
	PIECE_HOST					/* only the host reads and writes it */
} ModelPieceKind;

typedef struct ModelPiece
{
	float	  **at;
	size_t		rows;
	size_t		width;
	ModelPieceKind kind;
} ModelPiece;

#define MAX_PIECES (44 + DEC_ROPES)

/* Pieces of integers have the same number of bytes. */
_Static_assert(sizeof(int32_t) == sizeof(float), "int32_t is as wide as float");

/* The pieces of a mixture of experts. */
static size_t
moe_pieces(Decoder *d, ModelPiece *p)
{
	const MoeConf *c = &d->c.moe;
	MoeWork    *w = &d->moe;
	size_t		experts = (size_t) c->n_experts;
	size_t		slots = (size_t) (d->ranks.n_slots > 0 ? d->ranks.n_slots : c->n_experts);
	size_t		top_k = (size_t) c->top_k;
	bool		floats = dec_op_floats(d);
	size_t		rows;
	size_t		n = 0;

	if (experts == 0)
		return 0;
	w->rows = stack_rows(d);
	rows = (size_t) w->rows;
	p[n++] = (ModelPiece) {&w->logits, rows, experts, PIECE_FLOATS};
	p[n++] = (ModelPiece) {&w->space, rows, experts, PIECE_FLOATS};
	p[n++] = (ModelPiece) {&w->weights, rows, top_k, PIECE_FLOATS};
	p[n++] = (ModelPiece) {(float **) &w->experts, rows, top_k, PIECE_FLOATS};
	p[n++] = (ModelPiece) {(float **) &w->place, rows, top_k, PIECE_FLOATS};
	p[n++] = (ModelPiece) {(float **) &w->start, 1, slots + 1, PIECE_FLOATS};
	p[n++] = (ModelPiece) {(float **) &w->own, 1, d->ranks.experts ? slots + 1 : 0, PIECE_FLOATS};
	p[n++] = (ModelPiece) {(float **) &w->in, rows * top_k, floats ? 0 : (size_t) d->c.hidden, PIECE_OP};
	p[n++] = (ModelPiece) {&w->x, rows * top_k, (size_t) d->c.hidden, PIECE_FLOATS};
	p[n++] = (ModelPiece) {&w->gu, rows * top_k, 2 * (size_t) c->inter, PIECE_FLOATS};
	p[n++] = (ModelPiece) {(float **) &w->act, rows * top_k,
						   (size_t) (d->ranks.moe_inter > 0 ? d->ranks.moe_inter : c->inter), PIECE_OP};
	p[n++] = (ModelPiece) {&w->gate, (size_t) d->max_rows, 1, PIECE_FLOATS};
	return n;
}

/* The pieces of latent attention. */
static size_t
mla_pieces(Decoder *d, ModelPiece *p)
{
	const MlaConf *c = &d->c.mla;
	MlaWork    *w = &d->mla;
	size_t		heads = (size_t) d->c.n_heads;
	bool		floats = dec_op_floats(d);
	size_t		rows;
	size_t		n = 0;

	if (c->latent == 0)
		return 0;
	w->rows = stack_rows(d);
	rows = (size_t) w->rows;
	p[n++] = (ModelPiece) {&w->q, (size_t) d->max_rows,
						   c->q_latent > 0 ? heads * (size_t) (c->plain + c->rope) : 0, PIECE_FLOATS};
	p[n++] = (ModelPiece) {&w->a, rows, heads * (size_t) (c->plain > c->v ? c->plain : c->v), PIECE_FLOATS};
	p[n++] = (ModelPiece) {&w->b, rows, heads * (size_t) c->latent, PIECE_FLOATS};
	p[n++] = (ModelPiece) {(float **) &w->plain, rows, floats ? 0 : heads * (size_t) c->plain, PIECE_OP};
	p[n++] = (ModelPiece) {(float **) &w->out, rows, floats ? 0 : heads * (size_t) c->latent, PIECE_OP};
	p[n++] = (ModelPiece) {(float **) &w->turned, rows, floats ? 0 : heads * (size_t) c->latent, PIECE_OP};
	p[n++] = (ModelPiece) {&w->latent_q, rows, heads * (size_t) (c->latent + c->rope), PIECE_FLOATS};
	p[n++] = (ModelPiece) {(float **) &w->start, 1, heads + 1, PIECE_FLOATS};
	p[n++] = (ModelPiece) {(float **) &w->seq_start, 1, rows + 1, PIECE_HOST};
	return n;
}

static size_t
wider(size_t a, int b)
{
	return (size_t) b > a ? (size_t) b : a;
}

/* Return the widest row of floats that dec_op() converts for a product. */
static size_t
float_inputs(const Decoder *d)
{
	size_t		most = wider((size_t) d->c.hidden, d->embed.k);

	most = wider(most, d->project_out.n);
	most = wider(most, d->draft.pair_width);
	most = wider(most, d->draft.fuse.k);
	most = wider(most, d->c.draft.inner);
	for (int i = 0; i < d->c.n_layers; i++)
	{
		most = wider(most, d->layers[i].mla.q.k);
		most = wider(most, d->layers[i].ssm.x.k);
		most = wider(most, d->layers[i].ssm.dt.k);
	}
	return wider(most, (int) heads_inputs(d));
}

/* List the buffers of the forward pass, as wide as the widest layer needs them. */
static size_t
work_pieces(Decoder *d, ModelPiece *p)
{
	size_t		rows = (size_t) d->max_rows;
	size_t		hidden = (size_t) d->c.hidden;
	size_t		qkv = 0;
	size_t		att = 0;
	size_t		up = 0;
	size_t		act = 0;
	size_t		n = 0;

	for (int i = 0; i < d->c.n_layers; i++)
	{
		const Layer *l = &d->layers[i];

		qkv = (size_t) l->qkv.n > qkv ? (size_t) l->qkv.n : qkv;
		qkv = (size_t) l->mla.in.n > qkv ? (size_t) l->mla.in.n : qkv;
		qkv = (size_t) l->ssm.in.n > qkv ? (size_t) l->ssm.in.n : qkv;
		att = (size_t) l->o.k > att ? (size_t) l->o.k : att;
		att = (size_t) l->ssm.out.k > att ? (size_t) l->ssm.out.k : att;
		up = (size_t) l->up.n > up ? (size_t) l->up.n : up;
		act = (size_t) l->down.k > act ? (size_t) l->down.k : act;
		up = (size_t) l->moe.shared_up.n > up ? (size_t) l->moe.shared_up.n : up;
		act = (size_t) l->moe.shared_down.k > act ? (size_t) l->moe.shared_down.k : act;
	}
	p[n++] = (ModelPiece) {&d->x, rows, hidden, PIECE_FLOATS};
	p[n++] = (ModelPiece) {&d->y, rows, hidden, PIECE_FLOATS};
	p[n++] = (ModelPiece) {(float **) &d->h, rows, hidden, PIECE_OP};
	p[n++] = (ModelPiece) {&d->qkv, rows, qkv, PIECE_FLOATS};
	p[n++] = (ModelPiece) {(float **) &d->att, rows, att, PIECE_OP};
	p[n++] = (ModelPiece) {&d->gu, rows, up, PIECE_FLOATS};
	p[n++] = (ModelPiece) {(float **) &d->act, rows, act, PIECE_OP};
	p[n++] = (ModelPiece) {(float **) &d->opx, rows, dec_op_floats(d) ? 0 : float_inputs(d), PIECE_OP};
	if (d->state_floats > 0)
	{
		p[n++] = (ModelPiece) {&d->ssm_y, rows, dec_op_floats(d) ? 0 : (size_t) d->c.ssm.inner, PIECE_FLOATS};
		p[n++] = (ModelPiece) {&d->ssm_x, rows, (size_t) ssm_channels(&d->c.ssm), PIECE_FLOATS};
		p[n++] = (ModelPiece) {&d->ssm_p, rows, (size_t) d->c.ssm.dt_rank + 2 * (size_t) d->c.ssm.state,
							   PIECE_FLOATS};
		p[n++] = (ModelPiece) {&d->ssm_dt, rows, (size_t) d->c.ssm.inner, PIECE_FLOATS};
	}
	if (d->draft.pair_width > 0)
		p[n++] = (ModelPiece) {&d->draft.pair, rows, (size_t) d->draft.pair_width, PIECE_FLOATS};
	if (d->c.both_ways)
		p[n++] = (ModelPiece) {(float **) &d->ends, rows, 1, PIECE_HOST};
	p[n++] = (ModelPiece) {&d->head_x, HEAD_ROWS, heads_width(d), PIECE_FLOATS};
	p[n++] = (ModelPiece) {&d->head_y, HEAD_ROWS, heads_width(d), PIECE_FLOATS};
	if (d->scores_tokens)
		p[n++] = (ModelPiece) {&d->token_row, 1, (size_t) d->c.hidden, PIECE_TABLE};
	if (d->c.head_norm)
		p[n++] = (ModelPiece) {&d->head_norm, 1, (size_t) d->c.vocab, PIECE_TABLE};
	if (d->c.bias_buckets > 0)
		p[n++] = (ModelPiece) {&d->bias, (size_t) d->c.n_heads, 2 * (size_t) d->c.max_len - 1, PIECE_TABLE};
	if (d->c.alibi != NULL)
		p[n++] = (ModelPiece) {&d->alibi, 1, (size_t) d->c.n_heads, PIECE_TABLE};
	for (int i = 0; i < DEC_ROPES; i++)
		p[n++] = (ModelPiece) {&d->c.rope[i].table, (size_t) d->c.max_len, (size_t) d->c.rope[i].dim,
							   PIECE_TABLE};
	n += moe_pieces(d, p + n);
	n += mla_pieces(d, p + n);
	p[n++] = (ModelPiece) {&d->ranks.part, 1, split_part(d), PIECE_FLOATS};
	ALWAYS(n <= MAX_PIECES);
	return n;
}

/* Compute the sizes of the work space and of the rope tables. */
static bool
work_sizes(Decoder *d, int threads, ModelPiece *pieces, size_t *n, size_t *bytes, size_t *total)
{
	bool		fits = true;

	*n = work_pieces(d, pieces);
	*total = 0;
	d->ws_size = scratch_bytes(d, threads);
	for (size_t i = 0; i < *n; i++)
		fits = fits &&
			mem_mul(pieces[i].rows * (pieces[i].kind == PIECE_OP ? (size_t) d->k->op_size : sizeof(float)),
					pieces[i].width, &bytes[i]) &&
			marena_add(total, bytes[i]);
	return fits && marena_add(total, d->ws_size);
}

/* If operands are floats, let pieces of operands share the memory of the float pieces they are made
 * from. */
static void
share_pieces(Decoder *d)
{
	d->ssm_y = (float *) (void *) d->att;
	d->moe.in = (KOp *) (void *) d->moe.x;
	d->mla.plain = (KOp *) (void *) d->mla.a;
	d->mla.out = (KOp *) (void *) d->mla.b;
	d->mla.turned = (KOp *) (void *) d->mla.latent_q;
}

/* Reserve everything at once. */
static bool
plan_work(Decoder *d, Err *e)
{
	ModelPiece	pieces[MAX_PIECES];
	size_t		n;
	size_t		total;
	size_t		bytes[MAX_PIECES];
	char		what[100];
	bool		fits = work_sizes(d, kpool_nthreads(d->pool), pieces, &n, bytes, &total);

	snprintf(what, sizeof(what), "The work space for %d rows and %d positions", d->max_rows, d->c.max_len);
	if (!fits || !marena_reserve(&d->work, total, d->huge, what, e))
		return fits ? false : err_set(e, ERR_NOMEM, "out of memory: %s is too large", what);
	for (size_t i = 0; i < n; i++)
		*pieces[i].at = marena_take(&d->work, bytes[i]);
	if (dec_op_floats(d))
		share_pieces(d);
	d->ws = marena_take(&d->work, d->ws_size);
	d->ids = mem_alloc((size_t) d->max_rows * sizeof(int32_t));
	if (d->c.alibi != NULL)
		memcpy(d->alibi, d->c.alibi, (size_t) d->c.n_heads * sizeof(float));
	for (int i = 0; i < DEC_ROPES; i++)
		if (d->c.rope[i].dim > 0)
			rope_table(d->pool, d->c.rope[i].inv_freq, d->c.rope[i].dim, d->c.rope[i].mscale, d->c.max_len,
					   d->c.rope[i].table);
	return true;
}

/* Compute the reciprocal length of a row of the head, for the rows that this rank has. */
static void
measure_row(void *arg, int row, int ith)
{
	Decoder    *d = arg;
	const Linear *head = d->c.tied ? &d->embed : &d->head;
	KMat		mat = dec_host_mat(d, &head->mat[0]);
	float	   *x = mem_alloc((size_t) head->k * sizeof(float));
	double		sum = 0;

	(void) ith;
	d->k->mat_row(&mat, row, x);
	for (int i = 0; i < head->k; i++)
		sum += (double) x[i] * (double) x[i];
	d->head_norm[row] = (float) (1 / fmax(sqrt(sum), 1e-12));
	mem_free(x);
}

static void
measure_head(Decoder *d)
{
	kpool_run(d->pool, measure_row, d, d->c.vocab);
}

/* Return the largest of n scales, so that no value of the layer is too large for it. */
static float
largest_scale(const float *x, int n)
{
	float		s = 0;

	for (int i = 0; i < n; i++)
		s = isfinite(x[i]) && x[i] > s ? x[i] : s;
	return s;
}

/* Set the layers' windows.  With chunks, a chunk's last row sees as far back as a window of that
 * size. */
static void
find_kv_windows(Model *m)
{
	const DecoderConf *c = &m->d.c;

	m->kv_windows = mem_zalloc(((size_t) m->d.n_kv_layers + 1) * sizeof(int));
	for (int i = 0; i < c->n_layers; i++)
		if (!c->layers[i].recurrent || c->layers[i].both)
			m->kv_windows[c->layers[i].kv] = c->layers[i].window > 0 ? c->layers[i].window :
				c->layers[i].chunk;
	m->info.kv_windows = m->kv_windows;
}

static void
find_kv_scales(Model *m)
{
	const Decoder *d = &m->d;
	int			found = 0;

	m->kv_scales = mem_alloc((2 * (size_t) d->n_kv_layers + 1) * sizeof(float));
	for (int i = 0; i < 2 * d->n_kv_layers; i++)
		m->kv_scales[i] = 1;
	for (int i = 0; i < d->c.n_layers; i++)
	{
		const LayerConf *c = &d->c.layers[i];

		for (int j = 0; j < 2 && (!c->recurrent || c->both); j++)
		{
			float		s = largest_scale(dec_host(d, d->layers[i].kv_scale[j]), d->layers[i].n_kv_scale[j]);

			/* 0 and less: calibration left the scale out */
			if (s > 0)
			{
				m->kv_scales[2 * c->kv + j] = s;
				found++;
			}
		}
	}
	if (found > 0)
		m->info.kv_scales = m->kv_scales;
}

/* Copy the work space to the device, after the host has made its tables. */
static bool
place_work(Decoder *d, Err *e)
{
	ModelPiece	pieces[MAX_PIECES];
	PlacePiece	moved[MAX_PIECES];
	size_t		n = work_pieces(d, pieces);
	size_t		n_moved = 0;

	for (size_t i = 0; i < n; i++)
		if (pieces[i].kind != PIECE_HOST)
			moved[n_moved++] = (PlacePiece) {
				pieces[i].at, pieces[i].kind == PIECE_TABLE ?
					pieces[i].rows * pieces[i].width * sizeof(float) : 0
			};
	return dec_place_work(d, moved, n_moved, e);
}

/* Check that the model uses nothing that a device doesn't support. */
static bool
fits_device(const Decoder *d, Err *e)
{
	if (d->dev == NULL)
		return true;
	for (size_t i = 0; i < d->n_stacks; i++)
		if (d->stacks[i]->n > 0 && d->stacks[i]->mats == NULL)
			return err_set(e, ERR_UNSUPPORTED,
						   "matrices of experts of different types are not supported on a device");
	return true;
}

Model *
model_new(const Conf *conf, const ModelSource *src, const ModelOptions *opt, Err *e)
{
	return model_new_as(NULL, NULL, conf, src, opt, e);
}

Model *
model_new_as(const Arch *a, Model *lender, const Conf *conf, const ModelSource *src, const ModelOptions *opt,
			 Err *e)
{
	Model	   *m = mem_zalloc(sizeof(Model));
	Decoder    *d = &m->d;

	m->arch = a;
	if (lender != NULL)
	{
		d->draft.lender = &lender->d;
		d->c.hidden = lender->info.hidden_size;
		d->c.vocab = lender->info.vocab_size;
	}
	d->k = opt->kernels;
	d->pool = opt->pool;
	d->dev = opt->dev;
	d->max_rows = opt->max_rows;
	d->huge = opt->huge;
	m->max_out = d->ranks.max_out = opt->max_out;
	m->ranks = opt->ranks;
	if (opt->max_rows < 1 || opt->max_out < 1)
	{
		err_set(e, ERR_INVALID, "a model needs room for at least one row, not %d", opt->max_rows);
		model_free(m);
		return NULL;
	}
	if (!open_model(m, conf, src, opt->max_model_len, opt->quant, e) || !plan_work(d, e) ||
		!dec_pack(d, src, opt, &m->info, e))
	{
		model_free(m);
		return NULL;
	}
	for (size_t i = 0; i < d->n_stacks; i++)
		stack_ready(d->stacks[i]);
	find_kv_scales(m);
	m->info.weights_memory = d->weights.used;
	m->info.work_memory = d->work.used;
	if (!d->c.both_ways)
		find_kv_windows(m);
	/* stages without the head don't need the lengths of its rows */
	if (d->head_norm != NULL && split_is_last(d))
		measure_head(d);
	if (split_is_first(d))
		heads_ready(d, conf);
	if (d->c.bias_buckets > 0)
		dec_bias_table(d);
	if (!fits_device(d, e) || !place_work(d, e) || !split_place(d, e))
	{
		model_free(m);
		return NULL;
	}
	/* not with ranks, which wait for one another within a step */
	if (d->dev != NULL && !d->c.both_ways && d->ranks.tp == NULL && d->ranks.pp == NULL)
		m->graphs = stepgraphs_new(opt->graph_sizes, opt->n_graph_sizes, opt->max_rows < opt->max_out
								   ? opt->max_rows : opt->max_out);
	return m;
}

void
model_free(Model *m)
{
	if (m == NULL)
		return;
	decoder_clear(&m->d);
	stepgraphs_free(m->graphs);
	mem_free(m->kv_scales);
	mem_free(m->kv_windows);
	mem_free(m);
}

bool
model_store(Model *m, const char *dir, Err *e)
{
	if (!marena_store(&m->d.weights, dir, e))
		return false;
	dec_leave(&m->d);
	return true;
}

bool
model_fetch(Model *m, Err *e)
{
	return marena_fetch(&m->d.weights, e) && dec_return(&m->d, e);
}

void
model_forget(Model *m)
{
	marena_forget(&m->d.weights);
	balance_stop(&m->d);
	dec_leave(&m->d);
}

bool
model_adopt(Model *m, Model *from, Err *e)
{
	if (!marena_adopt(&m->d.weights, &from->d.weights, e))
		return false;
	/* free it first, as both copies would hardly fit */
	devmem_free(&from->d.on_dev);
	return dec_return(&m->d, e) && balance_home(&m->d, e);
}

const EplbStat *
model_eplb(const Model *m)
{
	return balance_stat(&m->d);
}

const uint8_t *
model_plan(const Model *m)
{
	return m->plan;
}

const ModelInfo *
model_info(const Model *m)
{
	return &m->info;
}

bool
model_check(const Conf *conf, const ModelSource *src, const QuantScheme *quant,
			const Kernels *k, ModelInfo *info, Err *e)
{
	DraftConf	draft;

	return model_check_as(NULL, NULL, conf, src, quant, k, info, &draft, e);
}

bool
model_work(const Conf *conf, const ModelSource *src, const ModelOptions *opt, int threads, uint64_t *out,
		   Err *e)
{
	Model	   *m = mem_zalloc(sizeof(Model));
	ModelPiece	pieces[MAX_PIECES];
	size_t		bytes[MAX_PIECES];
	size_t		n;
	size_t		total;
	bool		ok;

	m->d.k = opt->kernels;
	m->d.max_rows = opt->max_rows;
	m->d.ranks.max_out = opt->max_out;
	m->ranks = opt->ranks;
	ok = open_model(m, conf, src, opt->max_model_len, opt->quant, e) &&
		(work_sizes(&m->d, threads, pieces, &n, bytes, &total) ||
		 err_set(e, ERR_NOMEM, "out of memory: the work space is too large"));
	if (ok)
		*out = total;
	model_free(m);
	return ok;
}

bool
model_check_as(const Arch *a, const ModelInfo *lender, const Conf *conf, const ModelSource *src,
			   const QuantScheme *quant, const Kernels *k, ModelInfo *info, DraftConf *draft, Err *e)
{
	Model	   *m = mem_zalloc(sizeof(Model));
	bool		ok;

	m->arch = a;
	m->d.k = k;
	if (lender != NULL)
	{
		m->d.c.hidden = lender->hidden_size;
		m->d.c.vocab = lender->vocab_size;
	}
	ok = open_model(m, conf, src, 0, quant, e);
	if (ok)
	{
		*info = m->info;
		*draft = m->d.c.draft;
	}
	model_free(m);
	return ok;
}

Decoder *
model_decoder(Model *m)
{
	return &m->d;
}

int
model_token_rank(const Model *m, int32_t token)
{
	const Linear *table = &m->d.embed;
	const KComm *tp = m->d.ranks.tp;

	if (!split_is_first(&m->d) || token < 0 || token >= (table->all > 0 ? table->all : table->n))
		return -1;
	if (tp == NULL)
		return 0;
	return table->all > 0 ? split_owner(table->all, tp->size, token) : tp->rank;
}

void
model_token_row(const Model *m, int32_t token, float *out)
{
	const Linear *table = &m->d.embed;
	const KComm *tp = m->d.ranks.tp;
	KMat		mat = dec_host_mat(&m->d, &table->mat[0]);

	ALWAYS(model_token_rank(m, token) == (tp != NULL ? tp->rank : 0));
	m->d.k->mat_row(&mat, table->all > 0 ? token - split_at(table->all, tp->size, tp->rank) : token, out);
}

void
model_profile(Model *m, Profile *p)
{
	m->d.profile = p;
}

/* Set each row's end of its sequence.  The whole sequence is in the step. */
static void
find_ends(Decoder *d, const KRows *r, const int32_t *seen)
{
	for (int s = 0; s < r->n_seqs; s++)
	{
		int32_t		end = r->pos[r->seq_start[s + 1] - 1] + 1;

		if (seen != NULL && seen[s] < end)
			end = seen[s];
		for (int i = r->seq_start[s]; i < r->seq_start[s + 1]; i++)
			d->ends[i] = end;
	}
}

/* Report that the call that other ranks run as well has ended. */
static void
over(const Model *m)
{
	if (m->ranks != NULL && m->ranks->over != NULL)
		m->ranks->over(m->ranks->ctx);
}

void
model_logits(Model *m, const float *hidden, const LoraAdapter *const *lora, int n, float *logits)
{
	Decoder    *d = &m->d;
	const Batch all = {0};

	if (n == 0)
		return;
	ALWAYS(n <= d->max_rows);
	if (m->ranks != NULL && m->ranks->logits != NULL)
		m->ranks->logits(m->ranks->ctx, split_hidden(d, hidden, n), lora, n);
	if (!split_is_last(d))
	{
		split_logits(d, logits, n, d->c.vocab);
		over(m);
		return;
	}
	d->stopped = false;
	d->b = &all;
	d->rows = n;
	d->k->to_op(d->pool, d->h, d->c.hidden, hidden, d->c.hidden, n, d->c.hidden);
	dec_lora_rows(d, lora, n);
	dec_logits(d, logits);
	over(m);
}

LoraAdapter *
model_lora(const Model *m, const LoraModule *modules, int n, const LoraInfo *info, KType as, const char *path,
		   Err *e)
{
	return lora_new(&m->d, modules, n, info, as, path, e);
}

void
model_pool_rows(Model *m, const float *x, int n, float *y)
{
	dec_pool_rows(&m->d, x, n, y);
}

void
model_pool_head(Model *m, PoolTask t, const float *x, int n, float *y)
{
	dec_pool_head(&m->d, t, m->info.pools[t].width, x, n, y);
}

/* Get more scratch for attention if the KV cache's blocks are larger than estimated. */
static void
need_scratch(Decoder *d, const KvView *kv, int rows)
{
	size_t		need = d->n_kv_layers > 0 ? d->k->attn_scratch(kv, d->c.n_heads, rows,
															   kpool_nthreads(d->pool)) : 0;

	if (need <= d->ws_size)
		return;
	if (d->dev != NULL)
		dev_give(d->dev, d->ws_extra, d->ws_size);
	else
		mem_free(d->ws_extra);
	d->ws_extra = d->dev != NULL ? dev_take(d->dev, need, "attention's scratch") : mem_try_aligned(need);
	if (d->ws_extra == NULL)
	{
		log_line('P', "out of memory for %zu bytes of attention scratch", need);
		abort();
	}
	d->ws = d->ws_extra;
	d->ws_size = need;
}

/* Copy the step's arrays to the device and return how its ops run.  key NULL: the step isn't
 * recorded. */
static KRun
step_begin(Decoder *d, const Batch *b, const KvView *kv, const KGraphKey *key)
{
	KStep		s = {
		.rows = &b->rows, .kv = d->n_kv_layers > 0 ? kv : NULL, .tokens = b->tokens, .types = b->types,
		.ends = d->ends, .out_rows = b->out_rows, .n_out = b->n_out
	};

	for (int i = 0; i < b->rows.n_rows; i++)
		s.max_pos = b->rows.pos[i] > s.max_pos ? b->rows.pos[i] : s.max_pos;
	d->dev->ops->step_begin(d->dev->d, &s);
	return d->dev->ops->graph(d->dev->d, key);
}

/* End a step.  Return false if the device is lost. */
static bool
step_end(Decoder *d)
{
	char		why[256] = "";

	if (d->wait.fn != NULL)
		d->dev->ops->step_flush(d->dev->d);
	dev_wait_until(d->dev, d->dev->ops->step_done, &d->wait);
	if (d->dev->ops->step_end(d->dev->d, why, sizeof(why)))
		return true;
	log_line('P', "the device is lost: %s", why);
	d->lost = true;
	return false;
}

bool
model_lost(const Model *m)
{
	return m->d.lost;
}

bool
model_forward(Model *m, const Batch *b, const KvView *kv, float *out)
{
	Decoder    *d = &m->d;
	const Batch *padded;
	KGraphKey	key;
	KRun		run = KRUN_EAGER;
	bool		ok;

	if (b->rows.n_rows == 0)
		return true;
	if (b->rows.n_rows > d->max_rows || (!b->hidden && b->n_out > m->max_out) || b->n_out > b->rows.n_rows)
	{
		/* a bug of the scheduler; going on would overwrite memory */
		log_line('P', "batch of %d rows and %d outputs is over the plan of %d and %d",
				 b->rows.n_rows, b->n_out, d->max_rows, m->max_out);
		abort();
	}
	/* each row belongs to a sequence */
	ASSERT(b->rows.seq_start[0] == 0 && b->rows.seq_start[b->rows.n_seqs] == b->rows.n_rows);
	/* replayed ops don't show in a profile */
	padded = d->profile == NULL ? stepgraphs_pad(m->graphs, b, kv, out, &key) : NULL;
	b = padded != NULL ? padded : b;
	need_scratch(d, kv, b->rows.n_rows);
	if (m->ranks != NULL && m->ranks->forward != NULL)
		m->ranks->forward(m->ranks->ctx, b);
	d->b = b;
	d->kv = kv;
	d->rows = b->rows.n_rows;
	d->stopped = false;
	if (d->ends != NULL)
		find_ends(d, &b->rows, b->seen);
	dev_wait_begin(&d->wait, b->wait, b->work, b->wait_ctx);
	if (d->dev != NULL)
		run = step_begin(d, b, kv, padded != NULL ? &key : NULL);
	dec_lora_begin(d);
	balance_step_begin(d);
	if (run != KRUN_REPLAYED)
		m->arch->forward(d, out);
	ok = (d->dev == NULL || step_end(d)) && !d->stopped && !split_failed(d);
	/* model_rehearse() sets ranks to NULL: its step doesn't count */
	if (ok && m->ranks != NULL)
	{
		balance_step_end(d);
		ok = !d->lost && !split_failed(d);
	}
	d->wait.fn = NULL;
	over(m);
	return ok;
}

bool
model_rehearse(Model *m, const Batch *b, const KvView *kv, float *out)
{
	const ModelRanks *ranks = m->ranks;
	bool		ok;

	m->ranks = NULL;
	split_alone(&m->d, true);
	ok = model_forward(m, b, kv, out);
	split_alone(&m->d, false);
	m->ranks = ranks;
	return ok;
}

bool
model_connect(Model *m, const ModelComm *t, Err *e)
{
	return split_connect(&m->d, t, e);
}

void
model_apart(Model *m)
{
	split_apart(&m->d);
}
