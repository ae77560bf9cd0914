/*
 * awq.c
 *	  AWQ checkpoints (AutoAWQ) of 4 bits, in the layouts of its kernels.
 *
 * GEMM, the usual one:
 *
 *		qweight		I32 [K][N / 8]		codes packed along N
 *		qzeros		I32 [K / G][N / 8]	zero points packed along N
 *		scales		F16 [K / G][N]
 *
 * Row j of the eight in a word is in nibble order[j].  w = (q - z) * scale.
 *
 * GEMV:
 *
 *		qweight		I32 [N][K / 8]		codes packed along K, the first lowest
 *		qzeros		I32 [N][Z]			zero points packed along the groups, the first lowest
 *		scales		F16 [N][Z * 8]
 *
 * where Z * 8 is the number of groups, rounded up in one of several ways.
 *
 * GEMV_FAST:
 *
 *		qweight		I16 [N / 4][K]
 *		scales, qzeros	F16 [Z * 8][N]
 *
 * w = q * scale + zero; older tools call the zeros "scaled_zeros".  Words have 4 nibbles; 64 columns of 4
 * rows take 64 words.  Columns 0 .. 31 of row r are in words 16 r .. 16 r + 7, the other columns in the next
 * 8 words: word i of 8 has column 8 j + i in nibble j.
 *
 * MARLIN, without zero points: marlin.c.
 */
#include <math.h>

#include "base/assert.h"
#include "quant/ckpt/ckpt_gptq.h"

typedef enum AwqLayout
{
	AWQ_GEMM,
	AWQ_GEMV,
	AWQ_GEMV_FAST,
	AWQ_MARLIN
} AwqLayout;

/* ---- GEMM ---- */

static const int order[8] = {0, 4, 1, 5, 2, 6, 3, 7};
static const int row_of[8] = {0, 2, 4, 6, 1, 3, 5, 7};	/* of a nibble */

/* Transpose: nibble j of word i becomes nibble i of word j. */
static void
turn_nibbles(uint32_t *x)
{
	static const uint32_t mask[] = {0x0000ffff, 0x00ff00ff, 0x0f0f0f0f};

	for (int s = 0; s < 3; s++)
	{
		int			apart = 4 >> s;

		for (int i = 0; i < 8; i++)
			if ((i & apart) == 0)
			{
				uint32_t	t = (x[i] >> 4 * apart ^ x[i + apart]) & mask[s];

				x[i + apart] ^= t;
				x[i] ^= t << 4 * apart;
			}
	}
}

/* Unpack m columns of eight rows from the words at p, one below the other; to[j] gets row j of the
 * eight, NULL = drop it. */
static void
word_columns(const uint8_t *p, int64_t line, int m, uint8_t *const *to)
{
	int			i = 0;

	for (; i + 8 <= m; i += 8, p += 8 * line)
	{
		uint32_t	x[8];

		for (int c = 0; c < 8; c++)
			x[c] = ckpt_u32(p + c * line);
		turn_nibbles(x);
		for (int b = 0; b < 8; b++)
			if (to[row_of[b]] != NULL)
				ckpt_spread(x[b], 4, to[row_of[b]] + i);
	}
	for (; i < m; i++, p += line)
		for (int j = 0; j < 8; j++)
			if (to[j] != NULL)
				to[j][i] = (uint8_t) (ckpt_u32(p) >> 4 * order[j] & 15);
}

static void
gemm_codes(const CkptReader *r, int64_t row0, int step, int n, int64_t col0, int m, uint8_t *out)
{
	int64_t		line = r->n / 8 * 4;
	int64_t		last = row0 + (int64_t) (n - 1) * step;

	for (int64_t w = row0 / 8; w <= last / 8; w++)
	{
		uint8_t    *to[8];

		for (int j = 0; j < 8; j++)
		{
			int64_t		at = w * 8 + j - row0;

			to[j] = at >= 0 && at <= last - row0 && at % step == 0 ? out + at / step * CKPT_CHUNK : NULL;
		}
		word_columns((const uint8_t *) r->q->data + col0 * line + w * 4, line, m, to);
	}
}

static float
gemm_zero(const CkptReader *r, int64_t row, int64_t group)
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
	r->codes = gemm_codes;
	r->zero_of = gemm_zero;
	r->zero_bits = 4;
	r->symmetric = s->sym;
	if (r->bits != 4)
		return err_set(e, ERR_UNSUPPORTED,
					   "matrix \"%s\" has %d bits, but this layout is supported with 4 only", r->name,
					   r->bits);
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
	return true;
}

/* ---- GEMV and GEMV_FAST ---- */

/* Compute the columns of a group, and check that a tensor has room for all groups. */
static bool
padded_groups(const Ckpt *c, CkptReader *r, const GptqSpec *s, const KTensor *t, int64_t has, Err *e)
{
	int64_t		groups;

	if (!ckpt_groups(r, s->group, &r->group, &groups, e))
		return false;
	return (has >= groups && has % 8 == 0 && r->k % 8 == 0) ||
		err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has a shape that does not match a matrix of "
								 "[%lld, %lld]",
				t->name, ckpt_where(c, t), (long long) r->n, (long long) r->k);
}

/* Return true if a group has a scale other than 0 in any row. */
static bool
group_has_scales(const CkptReader *r, int64_t group)
{
	for (int64_t row = 0; row < r->n; row++)
		if (ckpt_element(r->scale, row * r->row_step + group * r->group_step) != 0)
			return true;
	return false;
}

/*
 * Check that all groups have scales and the padding has none.  Padding hides the number of groups, so
 * this is the only way to see that "group_size" differs from the group size of the codes.
 */
static bool
check_padding(const Ckpt *c, const CkptReader *r, int64_t has, Err *e)
{
	int64_t		groups = (r->k + r->group - 1) / r->group;

	for (int64_t g = 0; g < has; g++)
		if (group_has_scales(r, g) != (g < groups))
		{
			err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" doesn't have the scales of %lld groups",
					r->scale->name, ckpt_where(c, r->scale), (long long) groups);
			return err_detail(e, "With groups of %lld columns, group %lld has %s.", (long long) r->group,
							  (long long) g, g < groups ? "none" : "some");
		}
	return true;
}

static float
gemv_zero(const CkptReader *r, int64_t row, int64_t group)
{
	const uint8_t *line = (const uint8_t *) r->zeros->data + row * r->row_step / 2;

	return (float) (line[group / 2] >> group % 2 * 4 & 15);
}

static bool
gemv(Ckpt *c, CkptReader *r, const char *module, const GptqSpec *s, Err *e)
{
	const KTensor *z = ckpt_find(c, module, ".qzeros");

	r->row_step = z != NULL && z->ndim == 2 ? z->shape[1] * 8 : 0;
	r->group_step = 1;
	r->codes = ckpt_stream;
	r->row_bytes = r->k / 2;
	r->zero_of = gemv_zero;
	return (r->q = ckpt_part(c, r, module, ".qweight", ckpt_i32, 2, r->n, r->k / 8, e)) != NULL &&
		(r->zeros = ckpt_part(c, r, module, ".qzeros", ckpt_i32, 2, r->n, r->row_step / 8, e)) != NULL &&
		(r->scale = ckpt_part(c, r, module, ".scales", ckpt_floats, 2, r->n, r->row_step, e)) != NULL &&
		padded_groups(c, r, s, z, r->row_step, e) && check_padding(c, r, r->row_step, e);
}

static void
fast_codes(const CkptReader *r, int64_t row0, int step, int n, int64_t col0, int m, uint8_t *out)
{
	ALWAYS(m % 64 == 0);		/* whole tiles are written */
	for (int j = 0; j < n; j++, out += CKPT_CHUNK)
	{
		int64_t		row = row0 + (int64_t) j * step;
		const uint8_t *p = (const uint8_t *) r->q->data + (row / 4 * r->k + col0 + row % 4 * 16) * 2;

		for (int at = 0; at < m; at += 64, p += 128)
			for (int i = 0; i < 16; i++)
			{
				uint32_t	word = (uint32_t) p[2 * i] | (uint32_t) p[2 * i + 1] << 8;
				uint8_t    *o = out + at + i / 8 * 32 + i % 8;

				for (int b = 0; b < 4; b++)
					o[8 * b] = word >> 4 * b & 15;
			}
	}
}

static float
fast_zero(const CkptReader *r, int64_t row, int64_t group)
{
	int64_t		at = group * r->n + row;
	float		s = ckpt_element(r->scale, at);

	return s == 0 ? 0 : -ckpt_element(r->zeros, at) / s;
}

/* Check that zero points are within the range of the codes. */
static bool
fast_zeros(const Ckpt *c, const CkptReader *r, Err *e)
{
	int64_t		n = ckpt_count(r->zeros);

	for (int64_t i = 0; i < n; i++)
		if (!(fabsf(ckpt_element(r->zeros, i)) <= 16 * fabsf(ckpt_element(r->scale, i))))
		{
			err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has a zero point beyond the codes",
					r->zeros->name, ckpt_where(c, r->zeros));
			return err_detail(e, "That of element %lld is %g, with a scale of %g.", (long long) i,
							  (double) ckpt_element(r->zeros, i), (double) ckpt_element(r->scale, i));
		}
	return true;
}

static bool
gemv_fast(Ckpt *c, CkptReader *r, const char *module, const GptqSpec *s, Err *e)
{
	static const KType i16[] = {KT_I16, KT_COUNT};
	const KTensor *t = ckpt_find(c, module, ".scales");
	const char *zeros = ckpt_find(c, module, ".scaled_zeros") != NULL ? ".scaled_zeros" : ".qzeros";
	int64_t		lines = t != NULL && t->ndim == 2 ? t->shape[0] : 0;

	r->codes = fast_codes;
	r->zero_of = fast_zero;
	if (r->k % 64 != 0 || r->n % 4 != 0)
		return err_set(e, ERR_BAD_FILE, "matrix \"%s\" of shape [%lld, %lld] can't be packed in tiles of [4, "
										"64]", r->name,
					   (long long) r->n, (long long) r->k);
	if ((r->q = ckpt_part(c, r, module, ".qweight", i16, 2, r->n / 4, r->k, e)) == NULL ||
		(r->scale = ckpt_part(c, r, module, ".scales", ckpt_floats, 2, lines, r->n, e)) == NULL ||
		(r->zeros = ckpt_part(c, r, module, zeros, ckpt_floats, 2, lines, r->n, e)) == NULL ||
		!padded_groups(c, r, s, t, lines, e) || !fast_zeros(c, r, e))
		return false;
	ckpt_scale_cols(r, r->scale, r->group);
	return check_padding(c, r, lines, e);
}

/* ---- the configuration ---- */

/* Read the settings; "w_bit", "q_group_size" are older names; the layout has three keys. */
static bool
awq_spec(const Ckpt *c, GptqSpec *s, AwqLayout *layout, Err *e)
{
	static const char words[] = "gemm gemv gemv_fast marlin GEMM GEMV GEMV_FAST MARLIN";
	bool		zero_point;
	int			word;

	*s = (GptqSpec) {.bits = 4, .group = 128};
	if (!ckpt_word(c->conf, "checkpoint_format", words, 0, &word, e) ||
		!ckpt_word(c->conf, "format", words, word, &word, e) ||
		!ckpt_word(c->conf, "version", words, word, &word, e) ||
		!ckpt_int(c->conf, "w_bit", 1, 32, s->bits, &s->bits, e) ||
		!ckpt_int(c->conf, "q_group_size", -1, 1 << 24, s->group, &s->group, e) ||
		!gptq_settings(c->conf, s, e) || !ckpt_bool(c->conf, "zero_point", word % 4 != AWQ_MARLIN,
													&zero_point, e))
		return false;
	*layout = (AwqLayout) (word % 4);
	if (zero_point == (*layout == AWQ_MARLIN))
		return err_set(e, ERR_UNSUPPORTED,
					   "quantization configuration has \"zero_point\" = %s, which is not supported",
					   zero_point ? "true" : "false");
	return s->bits == 4 ||
		err_set(e, ERR_UNSUPPORTED, "quantization configuration has \"bits\" = %lld, which is not supported",
				(long long) s->bits);
}

bool
awq_open(Ckpt *c, Err *e)
{
	static const char known[] = "quant_method method bits w_bit group_size q_group_size zero_point version "
		"format checkpoint_format modules_to_not_convert backend sym desc_act lm_head pack_dtype meta "
		"damp_percent do_fuse fuse_max_seq_len modules_to_fuse exllama_config true_sequential quantizer "
		"block_name_to_quantize pack_method " GPTQ_EXPORTED_KEYS;
	int			word;
	AwqLayout	layout;
	GptqSpec	s;

	return ckpt_known(c->conf, known, e) && gptq_plain_integers(c->conf, GPTQ_EXPORTED, e) &&
		ckpt_word(c->conf, "backend", "autoawq auto", 0, &word, e) &&
		ckpt_word(c->conf, "pack_dtype", "int32", 0, &word, e) &&
		/* Quark's key */
		ckpt_word(c->conf, "pack_method", "reorder", 0, &word, e) && awq_spec(c, &s, &layout, e);
}

bool
awq_matrix(Ckpt *c, const char *module, int64_t n, int64_t k, CkptReader **out, Err *e)
{
	AwqLayout	layout;
	GptqSpec	s;
	CkptReader *r;

	if (ckpt_find(c, module, ".qweight") == NULL)
		return true;
	if (!awq_spec(c, &s, &layout, e))
		return false;
	*out = r = ckpt_reader(c, module, n, k);
	r->bits = (int) s.bits;
	r->symmetric = s.sym;
	switch (layout)
	{
		case AWQ_GEMV:
			return gemv(c, r, module, &s, e);
		case AWQ_GEMV_FAST:
			return gemv_fast(c, r, module, &s, e);
		case AWQ_MARLIN:
			s.sym = true;
			r->symmetric = false;	/* the layout implies it */
			return marlin_reader(c, r, module, &s, e);
		case AWQ_GEMM:
			break;
	}
	return awq_reader(c, r, module, &s, e);
}
