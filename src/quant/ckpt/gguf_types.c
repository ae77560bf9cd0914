/*
 * gguf_types.c
 *	  GGUF types that no kernel supports: NVFP4, which becomes another type with the same codes, or
 *	  Q8_0.
 *
 *		NAME.weight			NVFP4 [N][K], perhaps of several matrices (blocks.h)
 *		NAME.scale			F32: a factor of all weights, or one for each matrix; may be absent
 *		NAME.input_scale	of activations: without use here
 */
#include <math.h>

#include "quant/ckpt/ckpt_internal.h"

static void
codes(const CkptReader *r, int64_t row0, int step, int n, int64_t col0, int m, uint8_t *out)
{
	for (int j = 0; j < n; j++, out += CKPT_CHUNK)
	{
		const uint8_t *p = (const uint8_t *) r->q->data + (row0 + (int64_t) j * step) * r->row_bytes +
			col0 / NVFP4_BLOCK * (int64_t) sizeof(KBlockNVFP4);

		for (int at = 0; at < m; at += NVFP4_BLOCK, p += sizeof(KBlockNVFP4))
			for (int i = 0; i < NVFP4_BLOCK; i++)
				out[at + i] = p[4 + i / 16 * 8 + i % 8] >> i % 16 / 8 * 4 & 15;
	}
}

static float
scale(const CkptReader *r, int64_t row, int64_t group)
{
	const uint8_t *p = (const uint8_t *) r->q->data + row * r->row_bytes +
		group / 4 * (int64_t) sizeof(KBlockNVFP4);
	uint8_t		d = p[group % 4];

	if ((d & 0x7f) == 0x7f)
		return 0;
	/* the reader's codes are E2M1; blocks.h's table has doubled values */
	return ckpt_e4m3(d & 0x7f) * (r->scale2 != NULL ? ckpt_element(r->scale2, row / r->row_div) : 1.0f);
}

bool
gguf_matrix(Ckpt *c, const char *module, int64_t n, int64_t k, CkptReader **out, Err *e)
{
	static const KType nvfp4[] = {KT_NVFP4, KT_COUNT};
	static const KType f32[] = {KT_F32, KT_COUNT};
	const KTensor *w = ckpt_find(c, module, ".weight");
	int64_t		count;
	float		most = 1;
	CkptReader *r;

	if (w == NULL || w->type != KT_NVFP4)
		return true;
	*out = r = ckpt_reader(c, module, n, k);
	ckpt_unused(c, r, module, ".input_scale");
	if ((w = ckpt_part(c, r, module, ".weight", nvfp4, 2, n, k, e)) == NULL)
		return false;
	ckpt_fp4(r, w);
	r->codes = codes;
	r->row_bytes = k / NVFP4_BLOCK * (int64_t) sizeof(KBlockNVFP4);
	r->group = 16;
	r->scale_of = scale;
	if (ckpt_find(c, module, ".scale") != NULL)
	{
		if ((r->scale2 = ckpt_part(c, r, module, ".scale", f32, 0, 0, 0, e)) == NULL ||
			!ckpt_finite(c, r->scale2, &most, e))
			return false;
		count = ckpt_count(r->scale2);
		if (count != 1 && (w->ndim != 3 || count != w->shape[0]))
			return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has %lld elements, expected %lld",
						   r->scale2->name, ckpt_where(c, r->scale2), (long long) count,
						   (long long) (w->ndim == 3 ? w->shape[0] : 1));
		r->row_div = n / count;
	}
	r->most = 448 * most;
	return true;
}
