/*
 * quark.c
 *	  AMD Quark's checkpoints: FP8 with one scale for a tensor or row, MXFP4 and MXFP6, and integers.
 *
 *		FP8		weight F8_E4M3 [N][K], weight_scale F32: one, or [N]
 *		MXFP4	weight U8 [N][K / 2], the low nibble first, weight_scale U8 [N][K / 32]
 *		MXFP6	weight U8 [N][K * 3 / 4], the first code in the lowest bits, weight_scale U8 [N][K / 32]
 *
 * Integers have a weight_zero_point as well.  The shape of the scales decides what is packed:
 *
 *		one, or a row each		8 bits: weight I8 or U8 [N][K], zero points alike, as many as scales
 *								4 bits: weight I32 [N][K / 8], zero points I32 [N / 8]
 *		groups of columns		8 bits: weight [K][N], weight_scale [K / G][N], zero points as these
 *								4 bits: weight I32 [K][N / 8], weight_scale [K / G][N], zero points I32
 *								[K / G][N / 8]
 *
 * Code j of the eight in a word is in nibble reordered[j], or in nibble j, as "pack_method" says.
 *
 * The configuration describes each tensor, for all modules or for classes and names of modules; of a
 * module's "weight" it may say only what gives one of these formats.
 *
 * Tested by tests/unit/quant/ckpt/test_ckpt.c and tests/golden/ckpt_golden.c.
 */
#include <stdio.h>

#include "base/assert.h"
#include "base/json/json.h"
#include "quant/ckpt/ckpt_internal.h"

/* in the order of "dtype"'s words */
typedef enum QuarkType
{
	QUARK_NONE = -1,
	QUARK_FP8, QUARK_FP4, QUARK_MX, QUARK_E2M3, QUARK_E3M2, QUARK_INT8, QUARK_UINT8, QUARK_INT4, QUARK_UINT4
} QuarkType;

typedef enum QuarkScheme
{
	QUARK_TENSOR, QUARK_CHANNEL, QUARK_GROUP
} QuarkScheme;

typedef struct QuarkSpec
{
	int			type;			/* QuarkType */
	int			scheme;			/* QuarkScheme */
	int64_t		group;			/* columns */
} QuarkSpec;

/* ---- the configuration ---- */

/* Check that integers are per tensor, per row, or in groups along a row; their zero points are integers,
 * too. */
static bool
check_integers(const Json *w, QuarkSpec *s, Err *e)
{
	int64_t		axis;
	int			word;

	return ckpt_word(w, "zero_point_type", "int32", 0, &word, e) &&
		(s->scheme == QUARK_TENSOR ||
		 ckpt_int(w, "ch_axis", s->scheme == QUARK_CHANNEL ? 0 : -1, s->scheme == QUARK_CHANNEL ? 0 : -1,
				  s->scheme == QUARK_CHANNEL ? 0 : -1, &axis, e)) &&
		(s->scheme != QUARK_GROUP || ckpt_int(w, "group_size", 1, 1 << 24, 32, &s->group, e));
}

static bool
read_weight(const Json *w, QuarkSpec *s, Err *e)
{
	static const char known[] = "dtype observer_cls is_dynamic qscheme ch_axis group_size symmetric "
		"round_method scale_type scale_format scale_calculation_mode mx_element_dtype zero_point_type "
		"is_mse_observer enable_buffer_reuse max_input_numel qat_spec";
	int			word;
	bool		dynamic;

	*s = (QuarkSpec) {.type = QUARK_NONE};
	if (!ckpt_known(w, known, e) ||
		!ckpt_word(w, "dtype", "fp8_e4m3 fp4 mx fp6_e2m3 fp6_e3m2 int8 uint8 int4 uint4", QUARK_NONE,
				   &s->type, e) ||
		!ckpt_word(w, "qscheme", "per_tensor per_channel per_group", QUARK_TENSOR, &s->scheme, e) ||
		!ckpt_word(w, "mx_element_dtype", "fp4", 0, &word, e) ||
		!ckpt_bool(w, "is_dynamic", false, &dynamic, e))
		return false;
	if (dynamic)
		return err_set(e, ERR_UNSUPPORTED,
					   "quantization configuration has weights with \"is_dynamic\" = true");
	if (s->type < QUARK_FP4)
		return true;
	if (s->type >= QUARK_INT8)
		return check_integers(w, s, e);
	return ckpt_int(w, "group_size", 32, 32, 32, &s->group, e) &&
		ckpt_word(w, "scale_format", "e8m0", 0, &word, e);
}

/* Read the description of one layer or of all: an object, or a list of one. */
static bool
read_layer(const Json *o, QuarkSpec *s, Err *e)
{
	const Json *w = ckpt_get(o, "weight");

	*s = (QuarkSpec) {.type = QUARK_NONE};
	if (!ckpt_known(o, "weight input_tensors output_tensors bias target_device", e))
		return false;
	if (json_is_array(w) && json_count(w) == 1)
		w = w->child;
	return w == NULL || (json_is_object(w) ? read_weight(w, s, e) :
						 err_set(e, ERR_UNSUPPORTED,
								 "quantization configuration has weights with several scales"));
}

/* Check the list of algorithms.  Algorithms that only computed the weights don't matter, but rotations may
 * need operations in the model. */
static bool
check_algorithms(const Json *list, Err *e)
{
	const Json *v;
	char		buf[80];

	json_each(v, list)
	{
		const Json *name = ckpt_get(v, "name");

		if (!json_is_string(name) || strstr(name->s, "rot") != NULL)
			return err_set(e, ERR_UNSUPPORTED,
						   "quantization configuration has the algorithm %s, which is not supported",
						   ckpt_show(name != NULL ? name : v, buf, sizeof(buf)));
	}
	return true;
}

bool
quark_open(Ckpt *c, Err *e)
{
	static const char known[] = "quant_method quant_mode global_quant_config layer_quant_config "
		"layer_type_quant_config exclude export kv_cache_quant_config kv_cache_group min_kv_scale "
		"kv_cache_post_rope version log_severity_level config_version algo_config";
	static const char *const maps[] = {"layer_quant_config", "layer_type_quant_config"};
	const Json *export = ckpt_get(c->conf, "export");
	const Json *v;
	QuarkSpec	spec;
	int			word;

	if (!ckpt_known(c->conf, known, e) || !check_algorithms(ckpt_get(c->conf, "algo_config"), e) ||
		!ckpt_word(export, "weight_format", "real_quantized", 0, &word, e) ||
		!ckpt_word(export, "pack_method", "reorder order", 0, &word, e) ||
		!read_layer(ckpt_get(c->conf, "global_quant_config"), &spec, e))
		return false;
	c->ints[0] = word == 0;
	for (int i = 0; i < 2; i++)
	{
		const Json *layers;

		if (!ckpt_map(c->conf, maps[i], &layers, e))
			return false;
		json_each(v, layers)
			if (!read_layer(v, &spec, e))
				return false;
	}
	return true;
}

/* Match a name with a shell pattern, by converting it to a regular expression, whose matching steps are
 * limited. */
static bool
fits(const char *pattern, const char *name, bool *out, Err *e)
{
	char		regex[4 * CKPT_MAX_NAME];
	size_t		n = 0;
	bool		set = false;

	*out = false;
	if (strlen(pattern) >= CKPT_MAX_NAME)
		return true;
	for (const char *p = pattern; *p != '\0'; p++)
	{
		set = set ? *p != ']' : *p == '[' && strchr(p, ']') != NULL;
		if (set || *p == ']')
			regex[n++] = *p == '!' && p[-1] == '[' ? '^' : *p;
		else
			n += (size_t) sprintf(regex + n, *p == '*' ? ".*" : *p == '?' ? "." :
								  strchr("\\.+(){}|^$", *p) != NULL ? "\\%c" : "%c", *p);
	}
	ALWAYS(n < sizeof(regex) - 4);
	strcpy(regex + n, "\\z");
	return ckpt_match(regex, name, false, out, e);
}

/* Find the layer that describes a module; *out = NULL if none does. */
static bool
find_layer(const Ckpt *c, const char *module, const Json **out, Err *e)
{
	const Json *v;
	bool		found;

	json_each(v, ckpt_get(c->conf, "layer_quant_config"))
	{
		if (!fits(v->key, module, &found, e))
			return false;
		*out = v;
		if (found)
			return true;
	}
	*out = ckpt_get(ckpt_get(c->conf, "layer_type_quant_config"), "Linear");
	if (*out == NULL)
		*out = ckpt_get(c->conf, "global_quant_config");
	return true;
}

/* ---- integers ---- */

static const int in_order[8] = {0, 1, 2, 3, 4, 5, 6, 7};
static const int reordered[8] = {0, 4, 1, 5, 2, 6, 3, 7};

/* The highest bit of signed codes is inverted, so that they become unsigned with 0 at the middle. */
enum
{
	DIM_REORDERED, DIM_FLIP, DIM_DOWN
};

static uint8_t
nibble(const CkptReader *r, const KTensor *t, int64_t i)
{
	const int  *at = r->dims[DIM_REORDERED] ? reordered : in_order;
	uint32_t	word = ckpt_u32((const uint8_t *) t->data + i / 8 * 4);

	return (uint8_t) ((word >> 4 * at[i % 8] & 15) ^ (uint32_t) r->dims[DIM_FLIP]);
}

/* Return the code of a matrix of words, or of bytes as [K][N]. */
static uint8_t
code_at(const CkptReader *r, int64_t row, int64_t col)
{
	int64_t		i = r->dims[DIM_DOWN] ? col * r->n + row : row * r->k + col;

	return r->bits == 4 ? nibble(r, r->q, i) : ((const uint8_t *) r->q->data)[i] ^ r->flip;
}

static void
codes(const CkptReader *r, int64_t row0, int step, int n, int64_t col0, int m, uint8_t *out)
{
	for (int j = 0; j < n; j++, out += CKPT_CHUNK)
		for (int i = 0; i < m; i++)
			out[i] = code_at(r, row0 + (int64_t) j * step, col0 + i);
}

static float
word_zero(const CkptReader *r, int64_t row, int64_t group)
{
	return (float) nibble(r, r->zeros, group * r->n + row);
}

/* Return the zero point of all rows: the lowest bits of the only word. */
static float
single_zero(const CkptReader *r, int64_t row, int64_t group)
{
	(void) row, (void) group;
	return (float) ((ckpt_u32(r->zeros->data) & 15) ^ (uint32_t) r->dims[DIM_FLIP]);
}

static float
byte_zero(const CkptReader *r, int64_t row, int64_t group)
{
	int64_t		at = row / r->row_div * r->row_step + group * r->group_step;

	return (float) (((const uint8_t *) r->zeros->data)[at] ^ r->flip);
}

/* Find the scales of groups, of rows, or the one of all.  Zero points in bytes have the same layout. */
static bool
find_scales(Ckpt *c, CkptReader *r, const char *module, const QuarkSpec *s, int64_t *groups, Err *e)
{
	bool		down = s->scheme == QUARK_GROUP;
	int64_t		group = r->k;

	*groups = 1;
	if (down && (!ckpt_groups(r, s->group, &group, groups, e) ||
				 (r->k % group != 0 &&
				  !err_set(e, ERR_BAD_FILE, "matrix \"%s\" of %lld columns can't have groups of %lld",
						   r->name, (long long) r->k, (long long) group))))
		return false;
	r->scale = ckpt_part(c, r, module, ".weight_scale", ckpt_floats, down ? 2 : 0, *groups, r->n, e);
	if (r->scale == NULL || (!down && !ckpt_scale_shape(c, r, r->scale, 0, 0, e)))
		return false;
	if (down)
		ckpt_scale_cols(r, r->scale, group);
	return true;
}

/* Find the zero points: as many elements as scales, or packed ones. */
static bool
find_zeros(Ckpt *c, CkptReader *r, const char *module, const KType *types, int64_t groups, Err *e)
{
	int64_t		want = ckpt_count(r->scale);
	bool		single = r->bits == 4 && want == 1;
	bool		is_signed = r->bits == 4 ? r->dims[DIM_FLIP] != 0 : r->flip != 0;

	if (is_signed && ckpt_find(c, module, ".weight_zero_point") == NULL)
	{
		r->zero0 = (float) (1 << (r->bits - 1));
		return true;
	}
	if (r->bits == 4 && !single)
		want = groups * (r->n / 8);
	if ((r->zeros = ckpt_part(c, r, module, ".weight_zero_point", types, 0, 0, 0, e)) == NULL)
		return false;
	if (ckpt_count(r->zeros) != want)
		return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has a shape that does not match its "
										"scales",
					   r->zeros->name, ckpt_where(c, r->zeros));
	r->zero_of = single ? single_zero : r->bits == 4 ? word_zero : byte_zero;
	/* Looking at the bytes is enough to check them, except for inverted codes and a single word. */
	r->zero_bits = is_signed || single ? 0 : r->bits;
	return true;
}

static bool
integers(Ckpt *c, CkptReader *r, const char *module, const QuarkSpec *s, Err *e)
{
	bool		down = s->scheme == QUARK_GROUP;
	bool		words = s->type >= QUARK_INT4;
	bool		is_signed = s->type == QUARK_INT8 || s->type == QUARK_INT4;
	const KType *types = words ? ckpt_i32 : is_signed ? ckpt_i8 : ckpt_u8;
	int64_t		per = words ? 8 : 1;
	int64_t		groups;

	r->bits = words ? 4 : 8;
	r->dims[DIM_REORDERED] = c->ints[0];
	r->dims[DIM_FLIP] = words && is_signed ? 8 : 0;
	r->flip = !words && is_signed ? 0x80 : 0;
	r->dims[DIM_DOWN] = down;
	r->codes = words || down ? codes : ckpt_stream;
	r->row_bytes = r->k;
	if (words && (r->n % 8 != 0 || r->k % 8 != 0))
		return err_set(e, ERR_BAD_FILE, "matrix \"%s\" of shape [%lld, %lld] can't be packed in words of 8",
					   r->name, (long long) r->n, (long long) r->k);
	r->q = down ? ckpt_part(c, r, module, ".weight", types, 2, r->k, r->n / per, e) :
		ckpt_part(c, r, module, ".weight", types, 2, r->n, r->k / per, e);
	return r->q != NULL && find_scales(c, r, module, s, &groups, e) &&
		find_zeros(c, r, module, types, groups, e);
}

/* ---- matrices ---- */

static bool
quantized(Ckpt *c, CkptReader *r, const char *module, const KTensor *w, const QuarkSpec *s, Err *e)
{
	bool		bytes = w->type == KT_F8_E4M3 || w->type == KT_F8_E5M2;
	const KTensor *scale;

	if (s->type >= QUARK_INT8)
		return integers(c, r, module, s, e);
	if (s->type == QUARK_E2M3 || s->type == QUARK_E3M2)
		return ckpt_mx6(c, r, module, s->type == QUARK_E3M2, e);
	/* MXFP4 needs no description */
	if (w->type == KT_U8)
		return ckpt_mx(c, r, module, ".weight", ".weight_scale", e);
	if (!bytes)
		return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has type %s, but the quantization "
										"configuration doesn't describe it",
					   w->name, ckpt_where(c, w), ktype_name(w->type));
	return ckpt_bytes(c, r, module, ".weight", ckpt_f8, e) &&
		(scale = ckpt_part(c, r, module, ".weight_scale", ckpt_floats, 0, 0, 0, e)) != NULL &&
		ckpt_scale_shape(c, r, scale, 0, 0, e);
}

bool
quark_matrix(Ckpt *c, const char *module, int64_t n, int64_t k, CkptReader **out, Err *e)
{
	static const char *const acts[] = {".input_scale", ".input_zero_point"};
	const KTensor *w = ckpt_find(c, module, ".weight");
	const Json *layer;
	const Json *x;
	const Json *acts_conf;
	QuarkSpec	spec;
	CkptReader *r;

	if (w == NULL || w->type < KT_COUNT)
		return true;
	*out = r = ckpt_reader(c, module, n, k);
	for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++)
		ckpt_unused(c, r, module, acts[i]);
	if (!find_layer(c, module, &layer, e) || !read_layer(layer, &spec, e))
		return false;
	x = ckpt_get(layer, "input_tensors");
	acts_conf = json_is_array(x) && json_count(x) == 1 ? x->child : x;
	x = ckpt_get(acts_conf, "dtype");
	r->int8_acts = json_is_string(x) && strcmp(x->s, "int8") == 0;
	if (r->int8_acts && ckpt_says_nothing(ckpt_get(acts_conf, "is_dynamic")))
		ckpt_input_scale(c, r, module);
	return quantized(c, r, module, w, &spec, e);
}
