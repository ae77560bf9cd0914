/*
 * compressed.c
 *	  compressed-tensors checkpoints (llm-compressor).
 *
 *		pack-quantized		weight_packed I32 [N][K * bits / 32]: the codes of a row without gaps,
 *							signed ones + 2^(bits - 1); weight_zero_point I32 [N * bits / 32][G], packed along
 *							N; weight_g_idx I32 [K]; weight_shape I64 [2]
 *		int-quantized		weight I8 [N][K], weight_zero_point I8
 *		float-quantized		weight F8_E4M3 [N][K]
 *		nvfp4-pack-quantized	weight_packed U8 [N][K / 2], weight_scale F8_E4M3 [N][K / 16], and
 *							weight_global_scale F32, a divisor
 *		mxfp4-pack-quantized	weight_packed U8 [N][K / 2], weight_scale U8 [N][K / 32]
 *
 * all with weight_scale: one, [N][1], [N][G], or one for each block.
 *
 * A config group has settings for the modules that its targets name: by name, by pattern ("re:"), or by
 * class; "Linear" means all.  Static scales of INT8 activations (input_scale, input_zero_point) are offered
 * beside the matrix (KReader.with_x); other scales of activations are not used.
 */
#include "base/assert.h"
#include "base/json/json.h"
#include "quant/ckpt/ckpt_internal.h"

/* the scheme of a group's weights */
typedef struct Scheme
{
	int64_t		bits;
	int64_t		group;			/* 0 = no groups of columns */
	int64_t		block[2];		/* 0 = no blocks */
	bool		integer;
	bool		symmetric;
	bool		int8_acts;
	bool		static_acts;	/* the same, with scales in the files */
	bool		ordered;		/* the columns of a group aren't adjacent */
} Scheme;

/* Values of "actorder"; true means the first.  Those before "weight" need a tensor with the order. */
#define ORDERS "group dynamic weight static"

#define FORMATS "dense pack-quantized int-quantized float-quantized naive-quantized nvfp4-pack-quantized " \
	"mxfp4-pack-quantized mxfp8-quantized mixed-precision"

static bool
block_structure(const Json *w, int64_t *block, Err *e)
{
	const Json *b = ckpt_get(w, "block_structure");

	for (int i = 0; i < 2; i++)
	{
		const Json *v = json_item(b, i);

		if (json_count(b) != 2 || !json_is_number(v) || !(v->num >= 1 && v->num <= 1 << 24) ||
			v->num != (double) (int64_t) v->num)
			return err_set(e, ERR_BAD_FILE, "quantization configuration has an invalid \"block_structure\"");
		block[i] = (int64_t) v->num;
	}
	return true;
}

static bool
read_scheme(const Json *g, Scheme *s, Err *e)
{
	static const char known[] = "num_bits type symmetric group_size strategy block_structure dynamic "
		"actorder observer observer_kwargs scale_dtype zp_dtype is_mx";
	const Json *w = ckpt_get(g, "weights");
	const Json *acts = ckpt_get(g, "input_activations");
	const Json *acts_type = ckpt_get(acts, "type");
	const Json *order = ckpt_get(w, "actorder");
	int			word;

	*s = (Scheme) {0};
	if (!ckpt_known(g, "targets weights input_activations output_activations format", e) ||
		!ckpt_word(g, "format", FORMATS, 0, &word, e) || !ckpt_known(w, known, e) ||
		!ckpt_int(w, "num_bits", 1, 8, 8, &s->bits, e) || !ckpt_word(w, "type", "int float", 0, &word, e) ||
		!ckpt_bool(w, "symmetric", true, &s->symmetric, e) ||
		!ckpt_int(w, "group_size", -1, 1 << 24, 0, &s->group, e))
		return false;
	s->integer = word == 0;
	if (!json_is_bool(order) && !ckpt_word(w, "actorder", ORDERS, 2, &word, e))
		return false;
	s->ordered = json_is_bool(order) ? json_is_true(order) : word < 2;
	s->group = s->group < 0 ? 0 : s->group;
	s->int8_acts = s->integer && json_to_int(ckpt_get(acts, "num_bits")) == 8 &&
		(acts_type == NULL || strcmp(acts_type->s != NULL ? acts_type->s : "", "int") == 0);
	s->static_acts = s->int8_acts && ckpt_says_nothing(ckpt_get(acts, "dynamic"));
	if (!ckpt_word(w, "strategy", "tensor channel group block tensor_group", -1, &word, e))
		return false;
	return word != 3 || block_structure(w, s->block, e);
}

bool
compressed_open(Ckpt *c, Err *e)
{
	static const char known[] = "quant_method format quantization_status config_groups ignore "
		"kv_cache_scheme version global_compression_ratio sparsity_config run_compressed producer";
	const Json *groups;
	const Json *v;
	Scheme		s;
	int			word;

	if (!ckpt_map(c->conf, "config_groups", &groups, e) || !ckpt_known(c->conf, known, e) ||
		!ckpt_word(c->conf, "format", FORMATS, 0, &word, e) ||
		!ckpt_word(c->conf, "quantization_status", "compressed frozen", 0, &word, e) ||
		!ckpt_word(ckpt_get(c->conf, "sparsity_config"), "format", "dense", 0, &word, e))
		return false;
	json_each(v, groups)
	{
		const Json *t;
		bool		matches;

		if (!json_is_object(v))
			return err_set(e, ERR_UNSUPPORTED, "quantization configuration has a group without its settings");
		if (!read_scheme(v, &s, e))
			return false;
		json_each(t, ckpt_get(v, "targets"))
			if (json_is_string(t) && strncmp(t->s, "re:", 3) == 0 &&
				!ckpt_match(t->s + 3, "", false, &matches, e))
				return false;
	}
	return true;
}

/* Return in *yes whether a group names this module.  A class counts only if by_class is true. */
static bool
targets(const Json *g, const char *module, bool by_class, bool *yes, Err *e)
{
	const Json *t;

	*yes = false;
	json_each(t, ckpt_get(g, "targets"))
	{
		const char *name = json_str_of(t);

		if (name == NULL || *yes)
			continue;
		if (by_class)
			*yes = strcmp(name, "Linear") == 0;
		else if (strncmp(name, "re:", 3) != 0)
			*yes = strcmp(name, module) == 0;
		else if (!ckpt_match(name + 3, module, false, yes, e))
			return false;
	}
	return true;
}

static bool
find_scheme(const Ckpt *c, const char *module, Scheme *s, Err *e)
{
	const Json *groups = ckpt_get(c->conf, "config_groups");
	const Json *g;
	bool		yes;

	for (int by_class = 0; by_class < 2; by_class++)
		json_each(g, groups)
		{
			if (!targets(g, module, by_class, &yes, e))
				return false;
			if (yes)
				return read_scheme(g, s, e);
		}
	if (json_count(groups) == 1)
		return read_scheme(groups->child, s, e);	/* the only group names some class */
	return err_set(e, ERR_BAD_FILE, "no group of the quantization configuration has module \"%s\"", module);
}

/* Return a zero point; they are packed along the rows. */
static float
packed_zero(const CkptReader *r, int64_t row, int64_t group)
{
	int64_t		groups = r->zeros->shape[r->zeros->ndim - 1];	/* the matrices of experts may be stacked */
	const uint8_t *p = (const uint8_t *) r->zeros->data + group * 4;
	int64_t		bit = row * r->bits;
	uint32_t	v = ckpt_u32(p + bit / 32 * groups * 4) >> bit % 32;

	ASSERT(group < groups);
	if (bit % 32 + r->bits > 32)
		v |= ckpt_u32(p + (bit / 32 + 1) * groups * 4) << (32 - bit % 32);
	return (float) (v & ((1u << r->bits) - 1));
}

static bool
scales(Ckpt *c, CkptReader *r, const char *module, const Scheme *s, Err *e)
{
	const KTensor *t = ckpt_part(c, r, module, ".weight_scale", ckpt_scales, 0, 0, 0, e);

	if (t == NULL)
		return false;
	if (s->block[0] > 0)
		return ckpt_scale_shape(c, r, t, s->block[0], s->block[1], e);
	return ckpt_scale_shape(c, r, t, s->group > 0 ? 1 : 0, s->group, e);
}

static bool
packed(Ckpt *c, CkptReader *r, const char *module, const Scheme *s, Err *e)
{
	static const KType i64[] = {KT_I64, KT_COUNT};
	int64_t		words = (r->k * s->bits + 31) / 32;
	int64_t		groups = s->group > 0 ? (r->k + s->group - 1) / s->group : 1;
	const KTensor *shape;

	r->bits = (int) s->bits;
	r->codes = ckpt_stream;
	r->row_bytes = words * 4;
	r->zero0 = (float) (1 << (r->bits - 1));
	if ((r->q = ckpt_part(c, r, module, ".weight_packed", ckpt_i32, 2, r->n, words, e)) == NULL ||
		(shape = ckpt_part(c, r, module, ".weight_shape", i64, 1, 2, 0, e)) == NULL ||
		!scales(c, r, module, s, e) ||
		(s->ordered && groups > 1 &&
		 !ckpt_needs_order(c, module, ".weight_g_idx", "\"actorder\": \"group\"", e)) ||
		!ckpt_order(c, r, module, ".weight_g_idx", groups, e))
		return false;
	if (memcmp(shape->data, (int64_t[2]) {r->n, r->k}, 16) != 0)
		return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" does not have the shape [%lld, %lld]",
					   shape->name, ckpt_where(c, shape), (long long) r->n, (long long) r->k);
	if (s->symmetric)
		return true;
	r->zero_of = packed_zero;
	r->zeros = ckpt_part(c, r, module, ".weight_zero_point", ckpt_i32, 2, (r->n * s->bits + 31) / 32, groups,
						 e);
	return r->zeros != NULL;
}

bool
compressed_matrix(Ckpt *c, const char *module, int64_t n, int64_t k, CkptReader **out, Err *e)
{
	static const char *const acts[] = {
		".input_scale", ".input_zero_point", ".input_global_scale", ".output_scale", ".output_zero_point"
	};
	const KTensor *p = ckpt_find(c, module, ".weight_packed");
	const KTensor *w = ckpt_find(c, module, ".weight");
	CkptReader *r;
	Scheme		s;

	if (p == NULL && (w == NULL || w->type < KT_COUNT))
		return true;
	if (!find_scheme(c, module, &s, e))
		return false;
	*out = r = ckpt_reader(c, module, n, k);
	r->int8_acts = s.int8_acts;
	if (s.static_acts)
		ckpt_input_scale(c, r, module);
	for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++)
		ckpt_unused(c, r, module, acts[i]);
	if (s.integer != (p != NULL ? p->type != KT_U8 : w->type == KT_I8))
		return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has type %s, but its group's is %s",
					   p != NULL ? p->name : w->name, ckpt_where(c, p != NULL ? p : w),
					   ktype_name(p != NULL ? p->type : w->type), s.integer ? "int" : "float");
	if (p != NULL)
		return s.integer ? packed(c, r, module, &s, e) : ckpt_packed_fp4(c, r, module, e);
	return ckpt_bytes(c, r, module, ".weight", s.integer ? ckpt_i8 : ckpt_f8, e) &&
		scales(c, r, module, &s, e) &&
		(!s.integer || s.symmetric || ckpt_i8_zeros(c, r, module, ".weight_zero_point", e));
}
