/*
 * test_ckpt_tools.c
 *	  Formats that tools write beside the common ones: ModelOpt's INT8 and NVFP4 with groups of 32,
 *	  AutoRound's floats; static scales of activations.
 *
 * tests/golden/models_golden.c compares whole models that the tools wrote (gen_tools.py).
 */
#include <math.h>

#include "tests/unit/quant/ckpt/fake_ckpt.h"

#define AR(format, type) "{\"quant_method\":\"auto-round\",\"packing_format\":\"auto_round:" format "\"," \
	"\"data_type\":\"" type "\",\"bits\":4,\"group_size\":32,\"act_bits\":4,\"model_free\":true}"

static void
test_groups(void)
{
	static const char w4a8[] = "{\"quant_method\":\"modelopt\",\"quant_algo\":\"W4A8_NVFP4_FP8\"}";
	Fake		f = {0};
	float		got[N * K];
	float	   *factor;
	uint8_t    *scale;
	int			bad = 0;

	add(&f, "m.weight", KT_U8, 2, N, K / 2, 0x77);
	scale = add(&f, "m.weight_scale", KT_F8_E4M3, 2, N, K / 32, 0x38);
	factor = add(&f, "m.weight_scale_2", KT_F32, 1, 1, 0, 0);
	*factor = 0.25f;
	scale[1] = 0x40;
	CHECK(offer_of(&f, w4a8, got) == KT_NV4, "groups of 32");
	for (int i = 0; i < N * K; i++)
		bad += fabsf(got[i] - (i / 32 == 1 ? 3.0f : 1.5f)) > 0.002f;
	CHECK(bad == 0, "groups of 32: %d weights are others", bad);
	clear(&f);
}

/* Return the static scale that is offered beside INT8, or 0. */
static KInt8X
input_scale(Fake *f, const char *json)
{
	KInt8X		x = {0};
	const KTensor *t;
	Ckpt	   *c;
	Err			e;

	CHECK(try(f, json, &t, &c, &e) && t->type == KT_INT8, "%s: %s", json, e.msg);
	if (t != NULL && t->reader->with_x != NULL)
	{
		x = t->reader->with_x->reader->x;
		CHECK(t->reader->with_x->type == KT_INT8S, "%s: the offer's type", json);
	}
	ckpt_close(c);
	return x;
}

#define CT(acts) "{\"quant_method\":\"compressed-tensors\",\"format\":\"int-quantized\"," \
	"\"config_groups\":{\"a\":{\"targets\":[\"Linear\"]," \
	"\"weights\":{\"num_bits\":8,\"type\":\"int\",\"strategy\":\"channel\"}," \
	"\"input_activations\":{\"num_bits\":8,\"type\":\"int\"" acts "}}}}"
#define QUARK(acts) "{\"quant_method\":\"quark\",\"global_quant_config\":{\"weight\":{\"dtype\":\"int8\"," \
	"\"qscheme\":\"per_channel\",\"ch_axis\":0},\"input_tensors\":{\"dtype\":\"int8\"" acts "}}}"

/* Which configurations are static, and which scales can be used. */
static void
test_static(void)
{
	static const struct
	{
		const char *json;
		bool		is_static;
	}			cases[] = {
		{CT(",\"dynamic\":false"), true}, {CT(""), true}, {CT(",\"dynamic\":true"), false},
		{CT(",\"dynamic\":\"local\""), false}, {QUARK(",\"is_dynamic\":false"), true}, {QUARK(""), true},
		{QUARK(",\"is_dynamic\":true"), false}
	};
	static const float bad[] = {0, -1, NAN, INFINITY, 0x1p-110f};
	Fake		f = {0};
	float	   *factor;
	float	   *scale;
	int8_t	   *zero;

	add(&f, "m.weight", KT_I8, 2, N, K, 3);
	factor = add(&f, "m.weight_scale", KT_F32, 1, N, 0, 0);
	for (int i = 0; i < N; i++)
		factor[i] = 0.25f;
	CHECK(input_scale(&f, cases[0].json).scale == 0, "a scale without a tensor");
	scale = add(&f, "m.input_scale", KT_F32, 1, 1, 0, 0);
	*scale = 0.5f;
	zero = add(&f, "m.input_zero_point", KT_I8, 1, 1, 0, 0);
	*zero = -7;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		KInt8X		x = input_scale(&f, cases[i].json);

		CHECK(x.scale == (cases[i].is_static ? 0.5f : 0) && x.zero == (cases[i].is_static ? -7 : 0),
			  "%s: scale %g, zero point %g", cases[i].json, (double) x.scale, (double) x.zero);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		*scale = bad[i];
		CHECK(input_scale(&f, cases[0].json).scale == 0, "scale %g is used", (double) bad[i]);
	}
	*scale = 0.5f;
	get(&f, "m.input_zero_point")->type = KT_F8_E4M3;
	CHECK(input_scale(&f, cases[0].json).scale == 0, "a zero point of another type is used");
	mem_free(f.data[--f.n]);
	get(&f, "m.input_scale")->ndim = 2;
	get(&f, "m.input_scale")->shape[1] = 2;
	CHECK(input_scale(&f, cases[0].json).scale == 0, "one of two scales is used");
	clear(&f);
}

static void
test_int8(void)
{
	static const char w8a8[] = "{\"quant_method\":\"modelopt\",\"quant_algo\":\"W8A8_SQ_PER_CHANNEL\"}";
	Fake		f = {0};
	float	   *factor;

	add(&f, "m.weight", KT_I8, 2, N, K, 3);
	factor = add(&f, "m.weight_scale", KT_F32, 1, N, 0, 0);
	for (int i = 0; i < N; i++)
		factor[i] = 0.25f;
	good("weights only", &f, "{\"quant_method\":\"modelopt\",\"quant_algo\":\"W8A16\"}", KT_Q8_0);
	add(&f, "m.input_scale", KT_F32, 1, 1, 0, 0x3c);
	good("with activations", &f, w8a8, KT_INT8);
	CHECK(input_scale(&f, w8a8).scale == *(const float *) get(&f, "m.input_scale")->data,
		  "ModelOpt's static scale is not offered");
	add(&f, "m.pre_quant_scale", KT_BF16, 1, K, 0, 0x3c);
	refused("SmoothQuant", &f, w8a8, ERR_UNSUPPORTED,
			"tensor \"m.pre_quant_scale\" in file \"dir/model.safetensors\" is not supported");
	clear(&f);
}

static void
test_autoround(void)
{
	Fake		f = {0};
	float	   *factor;

	add(&f, "m.weight_packed", KT_U8, 2, N, K / 2, 0x21);
	add(&f, "m.weight_scale", KT_U8, 2, N, K / 32, 127);
	good("AutoRound's MXFP4", &f, AR("llm_compressor", "mx_fp"), KT_MXFP4);
	refused("other codes", &f, AR("llm_compressor", "int"), ERR_UNSUPPORTED, "\"data_type\" = \"int\"");
	clear(&f);
	add(&f, "m.weight", KT_F8_E4M3, 2, N, K, 0x38);
	factor = add(&f, "m.weight_scale", KT_F32, 1, N, 0, 0);
	for (int i = 0; i < N; i++)
		factor[i] = 0.25f;
	add(&f, "m.input_scale", KT_F32, 1, 1, 0, 0x3c);
	good("AutoRound's FP8", &f, AR("fp8_static", "fp"), KT_BF16);
	clear(&f);
}

int
main(void)
{
	RUN(test_groups());
	RUN(test_static());
	RUN(test_int8());
	RUN(test_autoround());
	return check_done("test_ckpt_tools");
}
