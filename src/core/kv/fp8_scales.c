/*
 * fp8_scales.c
 *	  The scales of an FP8 KV cache: one for each layer's K and one for its V.
 *
 * They are the checkpoint's, if it has some; or, if the model option calculate_kv_scales is set,
 * computed from a fixed text when the model is loaded.  They can't be computed from the first request:
 * then outputs would depend on which request came first.  Without either the scales are 1, with a
 * warning.
 *
 * Tested by tests/unit/core/kv/test_kvscales.c.
 */
#include <math.h>

#include "base/log.h"
#include "base/alloc.h"
#include "core/core_state.h"
#include "core/kv/fp8_scales.h"
#include "core/ranks/ranks.h"

#define SAMPLE_BLOCK	16
#define SAMPLE_TOKENS	(CORE_SAMPLE_BLOCKS * SAMPLE_BLOCK)

/*
 * FP8 code of the largest value seen.  It is less than the largest value of E4M3, 448, to leave room for
 * larger values.
 */
#define K_MOST	200.0f
#define V_MOST	100.0f

/* Text of several kinds: prose, names, numbers, code, other languages. */
static const char sample[] =
	"The harbour master counted the ships again. Eleven had come in before the storm, two were still "
	"missing, and nobody on the pier could say whether the lights out there were theirs. \"Wait until six,\" "
	"she said, \"then ring the bell.\"\nInvoice 2024-0817: 3 x bolts M8 (0.42 EUR), 12 x washers (0.07 EUR), "
	"total 2.10 EUR; paid on 2024-09-03 by A. Lindqvist.\nSELECT name, count(*) FROM orders WHERE price > "
	"10.5 GROUP BY name ORDER BY 2 DESC LIMIT 5;\nfor (int i = 0; i < n; i++)\n\tsum += x[i] * y[i];\n"
	"{\"id\": 17, \"tags\": [\"red\", \"blue\"], \"ok\": true, \"note\": null}\n"
	"Der Zug hat zehn Minuten Versp\xc3\xa4tung. \xc2\xbf" "D\xc3\xb3nde est\xc3\xa1 la estaci\xc3\xb3n? "
	"\xe6\x98\x8e\xe5\xa4\xa9\xe4\xbc\x9a\xe4\xb8\x8b\xe9\x9b\xa8\xe3\x80\x82 "
	"\xd0\x9f\xd0\xbe\xd0\xb5\xd0\xb7\xd0\xb4 \xd0\xbf\xd1\x80\xd0\xb8\xd0\xb4\xd1\x91\xd1\x82 \xd0\xb2 "
	"\xd1\x88\xd0\xb5\xd1\x81\xd1\x82\xd1\x8c.\n";

/* Repeat the tokens of the sample until n tokens are filled. */
static bool
sample_tokens(const Core *c, int n, int32_t *out, Err *e)
{
	IntVec		ids = {0};
	bool		ok = tok_encode(c->tok, sample, sizeof(sample) - 1, TOK_ADD_SPECIAL, &ids, e) &&
		(ids.len > 0 || err_set(e, ERR_UNSUPPORTED, "scales of the KV cache can't be computed with this "
													"tokenizer"));

	for (int i = 0; ok && i < n; i++)
	{
		int32_t		id = ids.data[(size_t) i % ids.len];

		out[i] = id < core_info(c)->vocab_size ? id : 0;
	}
	intvec_free(&ids);
	return ok;
}

/* Compute K and V of n tokens as floats, in an area of their own. */
static bool
run_sample(Core *c, const KvView *kv, const int32_t *tokens, int n, float *out)
{
	int32_t		start[2] = {0, n};
	int32_t		pos[SAMPLE_TOKENS];
	int32_t		table[SAMPLE_TOKENS];
	int32_t		slot = 0;
	int32_t		last = n - 1;
	const int32_t *tables[1] = {table};
	Batch		b = {
		.rows = {.n_rows = n,.n_seqs = 1,.seq_start = start,.pos = pos,.block_table = tables,
				 .state_slot = &slot}, .tokens = tokens, .hidden = true, .n_out = 1, .out_rows = &last,
		.state = c->state_area.base
	};

	for (int i = 0; i < n; i++)
	{
		pos[i] = i;
		table[i] = i;
	}
	if (c->state_area.base == NULL)
		b.rows.state_slot = NULL;
	return model_forward(c->model, &b, kv, out);
}

static float
scale_for(float largest, float most)
{
	return isfinite(largest) && largest >= 0x1p-60f ? largest / most : 1.0f;
}

void
kvscales_of(const float largest[2], float scales[2])
{
	scales[0] = scale_for(largest[0], K_MOST);
	scales[1] = scale_for(largest[1], V_MOST);
}

/* Compute the scales of this rank's layers; other ranks compute those of theirs. */
static bool
compute(Core *c, float *scales, Err *e)
{
	KvView		kv = {
		.type = KT_F32, .n_layers = core_info(c)->n_kv_layers, .block_size = SAMPLE_BLOCK,
		.n_kv_heads = c->kv.n_kv_heads, .head_dim = c->kv.head_dim, .v_dim = c->kv.v_dim
	};
	int			n = SAMPLE_TOKENS;
	int32_t		tokens[SAMPLE_TOKENS];
	size_t		size;
	DevMem		area = {0};
	HostDev		row = {0};
	bool		ok;

	n = n < c->opt.max_num_batched_tokens ? n : c->opt.max_num_batched_tokens;
	n = n < c->max_model_len ? n : c->max_model_len;
	n = n / SAMPLE_BLOCK * SAMPLE_BLOCK;
	if (n == 0)
		return err_set(e, ERR_INVALID, "scales of the KV cache need steps and sequences of at least 16 "
									   "tokens");
	kv.n_blocks = n / SAMPLE_BLOCK;
	size = kv_layout(&kv);
	if (!sample_tokens(c, n, tokens, e))
		return false;
	if (!devmem_reserve(&area, c->opt.dev, size, HUGE_OFF, "A KV cache to compute scales of", e) ||
		(c->opt.ranks != NULL && !ranks_kv(c->opt.ranks, core_info(c), &kv, 1, e)) ||
		!hostdev_new(&row, c->opt.dev, (size_t) core_info(c)->hidden_size, "a hidden row", e))
	{
		devmem_free(&area);
		return false;
	}
	kv.base = area.base;
	ok = run_sample(c, &kv, tokens, n, row.dev) ||
		err_set(e, ERR_LOST, "the device that a model is computed on is lost");
	for (int l = 0; ok && l < kv.n_layers; l++)
		c->opt.kernels->kv_largest(c->opt.pool, &kv, l, kv.n_blocks, scales + 2 * l);
	if (ok && c->opt.ranks != NULL)
		ranks_largest(c->opt.ranks, scales, kv.n_layers);
	for (int l = 0; ok && l < kv.n_layers; l++)
		kvscales_of((float[2]) {scales[2 * l], scales[2 * l + 1]}, scales + 2 * l);
	devmem_free(&area);
	hostdev_free(&row);
	return ok;
}

bool
kvscales_open(Core *c, Err *e)
{
	int			n = 2 * core_info(c)->n_kv_layers;
	const float *has = core_info(c)->kv_scales;
	float		least,
				most;

	if ((c->kv.type != KT_F8_E4M3 && c->kv.type != KT_F8_E5M2) || n == 0)
		return true;
	c->kv_scales = mem_alloc((size_t) n * sizeof(float));
	c->kv.scales = c->kv_scales;
	for (int i = 0; i < n; i++)
		c->kv_scales[i] = has != NULL ? has[i] : 1;
	if (c->opt.compute_kv_scales && !compute(c, c->kv_scales, e))
		return false;
	if (has == NULL && !c->opt.compute_kv_scales)
	{
		log_line('W', "the checkpoint has no scales for an FP8 KV cache: they are 1 (the model option "
				 "calculate_kv_scales computes them)");
		return true;
	}
	least = most = c->kv_scales[0];
	for (int i = 1; i < n; i++)
	{
		least = fminf(least, c->kv_scales[i]);
		most = fmaxf(most, c->kv_scales[i]);
	}
	log_line('I', "FP8 KV cache: scales are %s, %g to %g",
			 c->opt.compute_kv_scales ? "computed" : "the checkpoint's", (double) least, (double) most);
	return true;
}
