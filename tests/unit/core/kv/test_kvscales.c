/*
 * test_kvscales.c
 *	  Scales of an FP8 KV cache: from a checkpoint under all their names, computed ones, none.
 *
 * A model whose V is 2^-14 of another's, and whose output matrix compensates that, computes the same
 * bits.  The same holds in FP8 if the core computes the scales, because these are 2^-14 of the other
 * model's, too.  With scales of 1 nearly all of V is 0.
 */
#include <math.h>

#include "tests/unit/check.h"
#include "tests/unit/core_util.h"

#include "core/core_state.h"
#include "backend/weight_source.h"

#define MODEL	"build/fixtures/models/llama_f32"
#define EXTRA	8
#define DOWN	0x1p-14f

typedef struct Altered
{
	ModelSource src;
	KTensor		extra[EXTRA];
	char		names[EXTRA][80];
	float		values[EXTRA][4];
	int			n_extra;
	bool		down;
	KTensor		scaled[16];
	int			n_scaled;
} Altered;

static KPool *pools[3];

static const KTensor *
scaled(Altered *a, const KTensor *t, float by)
{
	KTensor    *s = &a->scaled[a->n_scaled];
	size_t		n = t->nbytes / sizeof(float);
	float	   *x = mem_alloc(t->nbytes);

	for (int i = 0; i < a->n_scaled; i++)
		if (strcmp(a->scaled[i].name, t->name) == 0)
		{
			mem_free(x);
			return &a->scaled[i];
		}
	memcpy(x, t->data, t->nbytes);
	for (size_t i = 0; i < n; i++)
		x[i] *= by;
	*s = *t;
	s->data = x;
	a->n_scaled++;
	return s;
}

static const KTensor *
altered_find(void *ctx, const char *name)
{
	Altered    *a = ctx;
	const KTensor *t;

	for (int i = 0; i < a->n_extra; i++)
		if (strcmp(a->names[i], name) == 0)
			return &a->extra[i];
	t = a->src.find(a->src.ctx, name);
	if (t != NULL && a->down && strstr(name, ".v_proj.weight") != NULL)
		return scaled(a, t, DOWN);
	if (t != NULL && a->down && strstr(name, ".o_proj.weight") != NULL)
		return scaled(a, t, 1 / DOWN);
	return t;
}

/* called only for added tensors, which must have a place */
static const KTensor *
altered_at(void *ctx, size_t i)
{
	const Altered *a = ctx;

	return i < (size_t) a->n_extra ? &a->extra[i] : NULL;
}

static void
add_scale(Altered *a, const char *name, int n, const float *values)
{
	KTensor    *t = &a->extra[a->n_extra];

	snprintf(a->names[a->n_extra], sizeof(a->names[0]), "%s", name);
	memcpy(a->values[a->n_extra], values, (size_t) n * sizeof(float));
	*t = (KTensor) {.name = a->names[a->n_extra], .type = KT_F32, .ndim = n > 1, .shape = {n},
					.data = a->values[a->n_extra],
		.nbytes = (size_t) n * sizeof(float)};
	a->n_extra++;
}

static Model *
open_model(Altered *a, Files *f, int threads, Err *e)
{
	ModelOptions mo = {.kernels = kernels_select(NULL, NULL), .pool = pools[threads], .max_rows = 64,
					   .max_out = 4};
	ModelSource src = {.find = altered_find, .at = altered_at, .ctx = a};

	return model_new(files_conf(f), &src, &mo, e);
}

static void
altered_free(Altered *a)
{
	for (int i = 0; i < a->n_scaled; i++)
		mem_free((void *) a->scaled[i].data);
	*a = (Altered) {.src = a->src};
}

static void
check_checkpoint(Altered *a, Files *f)
{
	static const float k = 0.25f,
				heads[] = {0.5f, 3.0f, NAN},
				none = -1.0f,
				both = 0.125f;
	const float *s = NULL;
	Err			e = {0};
	Model	   *m = open_model(a, f, 1, &e);

	CHECK(m != NULL && model_info(m)->kv_scales == NULL, "without: %s", e.msg);
	model_free(m);
	add_scale(a, "model.layers.0.self_attn.k_scale", 1, &k);
	add_scale(a, "model.layers.0.self_attn.v_proj.output_scale", 3, heads);
	add_scale(a, "model.layers.1.self_attn.kv_scale", 1, &both);
	m = open_model(a, f, 1, &e);
	CHECK(m != NULL && (s = model_info(m)->kv_scales) != NULL, "with: %s", e.msg);
	CHECK(s != NULL && s[0] == 0.25f && s[1] == 3.0f && s[2] == 0.125f && s[3] == 0.125f,
		  "scales of two layers");
	model_free(m);
	altered_free(a);
	add_scale(a, "model.layers.0.self_attn.attn.k_scale", 1, &none);
	m = open_model(a, f, 1, &e);
	CHECK(m != NULL && model_info(m)->kv_scales == NULL, "-1: %s", e.msg);
	model_free(m);
	altered_free(a);
}

static size_t
block_bytes(KType t, int head_dim)
{
	KvView		kv = {.type = t, .n_layers = 2, .n_blocks = 1, .block_size = 16, .n_kv_heads = 2,
					  .head_dim = head_dim};

	return kv_layout(&kv);
}

/* The number of blocks in the same memory. */
static void
check_sizes(void)
{
	CHECK(block_bytes(KT_BF16, 128) >= 1.9 * (double) block_bytes(KT_INT8, 128), "INT8");
	CHECK(block_bytes(KT_BF16, 128) == 2 * block_bytes(KT_F8_E4M3, 128) &&
		  block_bytes(KT_BF16, 64) == 2 * block_bytes(KT_F8_E5M2, 64), "FP8");
}

typedef struct Run
{
	float		scales[64];
	Buf			logits;
	Rec			rec;
} Run;

static void
tap(void *ctx, const Req *r, int position, const float *logits, int n)
{
	Run		   *run = ctx;

	(void) r;
	(void) position;
	buf_add(&run->logits, logits, (size_t) n * sizeof(float));
}


static void
run_core(Altered *a, Files *f, int threads, KType type, bool compute, Run *run)
{
	CoreOptions o = {
		.max_num_seqs = 4, .max_num_batched_tokens = 64, .max_model_len = 64, .block_size = 16,
		.kv_blocks = 16, .kv_type = type, .compute_kv_scales = compute, .pool = pools[threads],
		.kernels = kernels_select(NULL, NULL), .tap = tap, .tap_ctx = run
	};
	Err			e = {0};
	Model	   *m = open_model(a, f, threads, &e);
	Core	   *c = m != NULL ? core_new(m, source_tok(f, &e), files_conf(f), &o, &e) : NULL;
	GenParams	p = greedy_params(12);

	memset(run, 0, sizeof(*run));
	CHECK(c != NULL, "%s", e.msg);
	if (c == NULL)
		return;
	if (c->kv.scales != NULL)
		memcpy(run->scales, c->kv.scales, 4 * sizeof(float));
	p.detokenize = false;
	submit(c, 1, 0, random_prompt(5, 21), p, ~0u, &run->rec);
	while (core_has_work(c))
		core_step(c);
	core_free(c);
	altered_free(a);
}

static bool
same_logits(const Run *a, const Run *b)
{
	return a->logits.len > 0 && a->logits.len == b->logits.len &&
		memcmp(a->logits.data, b->logits.data, a->logits.len) == 0;
}

static void
check_computed(Altered *a, Files *f, KType type)
{
	Run			plain,
				one,
				two,
				down,
				lost;

	run_core(a, f, 1, KT_F32, true, &plain);
	run_core(a, f, 1, type, true, &one);
	run_core(a, f, 2, type, true, &two);
	a->down = true;
	run_core(a, f, 1, type, true, &down);
	a->down = true;
	run_core(a, f, 1, type, false, &lost);
	CHECK(plain.scales[0] == 0 && !same_logits(&plain, &one), "%s isn't F32", ktype_name(type));
	CHECK(one.scales[0] > 0 && memcmp(one.scales, two.scales, sizeof(one.scales)) == 0 &&
		  same_logits(&one, &two), "%s: scales on two threads", ktype_name(type));
	for (int i = 0; i < 4; i++)
		CHECK(down.scales[i] == one.scales[i] * (i % 2 ? DOWN : 1) && lost.scales[i] == 1,
			  "%s: scale %d is %g and %g", ktype_name(type), i, (double) one.scales[i],
			  (double) down.scales[i]);
	CHECK(same_logits(&one, &down), "%s: computed scales follow the model", ktype_name(type));
	CHECK(!same_logits(&one, &lost), "%s: and scales of 1 don't", ktype_name(type));
	for (int i = 0; i < 5; i++)
	{
		Run		   *r = i == 0 ? &plain : i == 1 ? &one : i == 2 ? &two : i == 3 ? &down : &lost;

		buf_free(&r->logits);
		rec_free(&r->rec);
	}
}

int
main(void)
{
	Err			e = {0};
	Files	   *f = files_open(MODEL, &e);
	Source		source = {.files = f};
	Altered		a = {.src = source_of(&source)};

	if (f == NULL)
	{
		check_skip(1, "no models in build/fixtures/models");
		return check_done("kvscales");
	}
	pools[1] = kpool_new(1);
	pools[2] = kpool_new(2);
	RUN(check_sizes());
	RUN(check_checkpoint(&a, f));
	RUN(check_computed(&a, f, KT_F8_E4M3));
	RUN(check_computed(&a, f, KT_F8_E5M2));
	source_done(&source);
	files_close(f);
	kpool_free(pools[1]);
	kpool_free(pools[2]);
	return check_done("kvscales");
}
