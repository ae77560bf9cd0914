/*
 * awq.c
 *	  AWQ checkpoints in the GEMM layout (AutoAWQ).
 *
 *		qweight		I32 [K][N / 8]		codes of 4 bits packed along N
 *		qzeros		I32 [K / G][N / 8]	zero points likewise
 *		scales		F16 [K / G][N]
 *
 * Row j of the eight in a word lies at bits 4 * order[j].  w = (q - z) * scale.
 */
#include "quant/ckpt_gptq.h"

static const int order[8] = {0, 4, 1, 5, 2, 6, 3, 7};

static void
codes(const CkptReader *r, int64_t row0, int n, int64_t col0, int m, uint8_t *out)
{
	int64_t		words = r->n / 8;

	for (int i = 0; i < m; i++)
	{
		const uint8_t *line = (const uint8_t *) r->q->data + (col0 + i) * words * 4;

		for (int64_t w = row0 / 8; w * 8 < row0 + n; w++)
		{
			uint32_t	word = ckpt_u32(line + w * 4);

			for (int j = 0; j < 8; j++)
			{
				int64_t		row = w * 8 + j - row0;

				if (row >= 0 && row < n)
					out[row * CKPT_CHUNK + i] = (uint8_t) (word >> 4 * order[j] & 15);
			}
		}
	}
}

static float
zero(const CkptReader *r, int64_t row, int64_t group)
{
	uint32_t	word = ckpt_u32((const uint8_t *) r->zeros->data + (group * (r->n / 8) + row / 8) * 4);

	return (float) (word >> 4 * order[row % 8] & 15);
}

bool
awq_reader(Ckpt *c, CkptReader *r, const char *module, const GptqSpec *s, Err *e)
{
	int64_t		group;
	int64_t		groups;

	r->bits = (int) s->bits;
	r->codes = codes;
	r->zero_of = zero;
	if (r->bits != 4)
		return err_set(e, ERR_UNSUPPORTED, "matrix \"%s\" has %d bits, but this layout is supported with 4 only",
					   r->name, r->bits);
	if (!ckpt_groups(r, s->group, &group, &groups, e))
		return false;
	if (r->n % 8 != 0)
		return err_set(e, ERR_BAD_FILE, "matrix \"%s\" of %lld rows can't be packed in words of 8", r->name,
					   (long long) r->n);
	if ((r->q = ckpt_part(c, r, module, ".qweight", ckpt_i32, 2, r->k, r->n / 8, e)) == NULL ||
		(r->zeros = ckpt_part(c, r, module, ".qzeros", ckpt_i32, 2, groups, r->n / 8, e)) == NULL ||
		(r->scale = ckpt_part(c, r, module, ".scales", ckpt_floats, 2, groups, r->n, e)) == NULL)
		return false;
	ckpt_scale_cols(r, r->scale, group);
	return !s->sym || ckpt_symmetric(c, r, groups, e);
}

/* "w_bit" and "q_group_size" are older names. */
static bool
awq_spec(const Ckpt *c, GptqSpec *s, Err *e)
{
	bool		zero_point;

	*s = (GptqSpec) {.bits = 4, .group = 128};
	return ckpt_int(c->conf, "w_bit", 1, 32, s->bits, &s->bits, e) &&
		ckpt_int(c->conf, "q_group_size", -1, 1 << 24, s->group, &s->group, e) && gptq_settings(c->conf, s, e) &&
		ckpt_bool(c->conf, "zero_point", true, &zero_point, e) &&
		(zero_point || err_set(e, ERR_UNSUPPORTED, "quantization configuration has \"zero_point\" = false, which is not supported"));
}

bool
awq_open(Ckpt *c, Err *e)
{
	static const char known[] = "quant_method method bits w_bit group_size q_group_size zero_point version format "
		"checkpoint_format modules_to_not_convert backend sym desc_act lm_head pack_dtype meta damp_percent "
		"do_fuse fuse_max_seq_len modules_to_fuse exllama_config true_sequential quantizer";
	int			word;
	GptqSpec	s;

	return ckpt_known(c->conf, known, e) && ckpt_word(c->conf, "version", "gemm GEMM", 0, &word, e) &&
		ckpt_word(c->conf, "format", "gemm GEMM", 0, &word, e) &&
		ckpt_word(c->conf, "checkpoint_format", "gemm GEMM", 0, &word, e) &&
		ckpt_word(c->conf, "backend", "autoawq auto", 0, &word, e) &&
		ckpt_word(c->conf, "pack_dtype", "int32", 0, &word, e) && awq_spec(c, &s, e);
}

bool
awq_matrix(Ckpt *c, const char *module, int64_t n, int64_t k, CkptReader **out, Err *e)
{
	GptqSpec	s;

	if (ckpt_find(c, module, ".qweight") == NULL)
		return true;
	if (!awq_spec(c, &s, e))
		return false;
	*out = ckpt_reader(c, module, n, k);
	return awq_reader(c, *out, module, &s, e);
}
