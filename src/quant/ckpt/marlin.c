/*
 * marlin.c
 *	  Marlin's layout of symmetric 4-bit codes, as GPTQ's and AWQ's tools store it.
 *
 *		B or qweight	I32 [K / 16][N * 2]
 *		s or scales		F16 [G][N]
 *
 * w = (q - 8) * scale.  A line of words has 16 columns of all rows, 64 rows in 128 words: the code of
 * column a = 8 a2 + 2 a1 + a0 and row 16 j + 8 b1 + b0 is in word 16 b0 + 4 a1 + j, nibble 2 b1 + a2 + 4
 * a0.  So the words of each GPU thread contain the codes that it multiplies.
 *
 * Scales of 64 rows, [8][8], are stored transposed.  If there is only one group, scales of 32 rows,
 * [4][4][2], are stored with the first two dimensions exchanged: row 8 b + 2 c + d is at 8 c + 2 b + d.
 */
#include "quant/ckpt/ckpt_gptq.h"

#define TILE 16
#define ROWS 64

static void
codes(const CkptReader *r, int64_t row0, int step, int n, int64_t col0, int m, uint8_t *out)
{
	int64_t		line = r->n * 2;

	for (int i = 0; i < n; i++, out += CKPT_CHUNK)
	{
		int64_t		row = row0 + (int64_t) i * step;
		int			b1 = (int) (row % TILE / 8);
		int			first = (int) (row % 8 * 16 + row % ROWS / TILE);
		const uint8_t *p = (const uint8_t *) r->q->data + (col0 / TILE * line + row / ROWS * 128 + first) * 4;

		for (int at = 0; at < m; at += TILE, p += line * 4)
			for (int a1 = 0; a1 < 4; a1++)
			{
				uint32_t	word = ckpt_u32(p + a1 * 16) >> 8 * b1;
				uint8_t    *o = out + at + 2 * a1;

				o[0] = word & 15;
				o[1] = word >> 16 & 15;
				o[8] = word >> 4 & 15;
				o[9] = word >> 20 & 15;
			}
	}
}

static float
scale(const CkptReader *r, int64_t row, int64_t group)
{
	int64_t		at = r->group < r->k ? row - row % 64 + row % 8 * 8 + row % 64 / 8 :
		row - row % 32 + row % 8 / 2 * 8 + row % 32 / 8 * 2 + row % 2;

	return ckpt_element(r->scale, group * r->n + at);
}

bool
marlin_reader(Ckpt *c, CkptReader *r, const char *module, const GptqSpec *s, Err *e)
{
	/* GPTQ's tool and AWQ's use different names */
	const char *q = s->marlin ? ".B" : ".qweight";
	const char *scales = s->marlin ? ".s" : ".scales";
	int64_t		group;
	int64_t		groups;

	r->bits = (int) s->bits;
	r->codes = codes;
	r->scale_of = scale;
	r->zero0 = 8;
	if (r->bits != 4 || !s->sym)
		return err_set(e, ERR_UNSUPPORTED,
					   "matrix \"%s\" has %s, but this layout is supported with 4 symmetric bits only",
					   r->name, r->bits != 4 ? "other than 4 bits" : "zero points");
	if (!ckpt_groups(r, s->group, &group, &groups, e))
		return false;
	if (s->desc_act && !s->static_groups && groups > 1)
		return err_set(e, ERR_UNSUPPORTED, "matrix \"%s\" has \"desc_act\": true with groups of %lld "
					   "columns, but this layout has no order of columns", r->name, (long long) group);
	if (r->k % TILE != 0 || r->n % ROWS != 0)
		return err_set(e, ERR_BAD_FILE, "matrix \"%s\" of shape [%lld, %lld] can't be packed in tiles of "
										"[%d, %d]", r->name,
					   (long long) r->n, (long long) r->k, ROWS, TILE);
	ckpt_unused(c, r, module, ".workspace");
	if ((r->q = ckpt_part(c, r, module, q, ckpt_i32, 2, r->k / TILE, r->n * 2, e)) == NULL ||
		(r->scale = ckpt_part(c, r, module, scales, ckpt_floats, 2, groups, r->n, e)) == NULL ||
		!ckpt_finite(c, r->scale, &r->most, e))
		return false;
	ckpt_scale_cols(r, r->scale, group);
	return true;
}
