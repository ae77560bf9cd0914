/*
 * fp8.c
 *	  FP8 checkpoints: DeepSeek's blocks, or one scale for a tensor or row.
 *
 *		weight				F8_E4M3 or F8_E5M2 [N][K]
 *		weight_scale_inv	[N / 128][K / 128], of blocks that may be cut at the edges
 *		weight_scale		one, or [N]
 *
 * Experts may be in one tensor, without ".weight" in their names: NAME F8 [E][N][K], NAME_scale_inv
 * [E][N / 128][K / 128].
 *
 * w = weight * scale, despite the name "inv".  Scales of activations are not used.
 */
#include "base/json/json.h"
#include "quant/ckpt/ckpt_internal.h"

bool
fp8_open(Ckpt *c, Err *e)
{
	static const char known[] = "quant_method method activation_scheme weight_block_size "
		"modules_to_not_convert ignored_layers fmt scale_fmt dequantize expert_dtype activation_scale_ub "
		"kv_cache_scheme bits";
	const Json *block = ckpt_get(c->conf, "weight_block_size");
	int64_t		bits;
	int			word;

	if (!ckpt_known(c->conf, known, e) || !ckpt_word(c->conf, "activation_scheme", "dynamic static", 0, &word,
													 e) ||
		!ckpt_word(c->conf, "fmt", "e4m3 float8_e4m3fn e5m2", 0, &word, e) ||
		!ckpt_word(c->conf, "scale_fmt", "float ue8m0", 0, &word, e) ||
		!ckpt_word(c->conf, "expert_dtype", "fp8", 0, &word, e) ||
		!ckpt_int(c->conf, "bits", 8, 8, 8, &bits, e))
		return false;
	for (int i = 0; block != NULL && i < 2; i++)
	{
		const Json *v = json_item(block, i);

		if (!json_is_number(v) || json_count(block) != 2 ||
			!(v->num >= 1 && v->num <= 1 << 24 && v->num == (double) (int64_t) v->num))
			return err_set(e, ERR_BAD_FILE,
						   "quantization configuration has an invalid \"weight_block_size\"");
		c->ints[i] = (int64_t) v->num;
	}
	return true;
}

bool
fp8_matrix(Ckpt *c, const char *module, int64_t n, int64_t k, CkptReader **out, Err *e)
{
	const KTensor *w = ckpt_find(c, module, ".weight");
	bool		apart = w != NULL;
	bool		inv = ckpt_find(c, module, apart ? ".weight_scale_inv" : "_scale_inv") != NULL;
	const KTensor *scale;
	CkptReader *r;

	if (!apart)
		w = ckpt_find(c, module, "");
	if (w == NULL || (w->type != KT_F8_E4M3 && w->type != KT_F8_E5M2))
		return true;
	*out = r = ckpt_reader(c, module, n, k);
	ckpt_unused(c, r, module, ".input_scale");
	ckpt_unused(c, r, module, ".input_scale_ub");
	ckpt_unused(c, r, module, apart ? ".activation_scale" : "_activation_scale");
	return ckpt_bytes(c, r, module, apart ? ".weight" : "", ckpt_f8, e) &&
		(scale = ckpt_part(c, r, module, (inv ? ".weight_scale_inv" : ".weight_scale") + (apart ? 0 : 7),
						   ckpt_scales, 0, 0, 0, e)) != NULL &&
		ckpt_scale_shape(c, r, scale, c->ints[0], c->ints[1], e);
}
