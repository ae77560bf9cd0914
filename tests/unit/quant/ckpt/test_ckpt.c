/*
 * test_ckpt.c
 *	  Errors of a quantized checkpoint: configurations, tensors.
 *
 * The files are made in memory; tests/golden/ckpt_golden.c compares the values of valid ones.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/quant/ckpt/fake_ckpt.h"

typedef struct BadConf
{
	const char *json;
	ErrClass	cls;
	const char *msg;
} BadConf;

static const BadConf bad_confs[] = {
	{"", ERR_UNSUPPORTED, "quantization method \"\" is not supported"},
	{"[]", ERR_UNSUPPORTED, "quantization method \"\" is not supported"},
	{"{\"quant_method\":1}", ERR_UNSUPPORTED, "quantization method 1 is not supported"},
	{"{\"quant_method\":\"aqlm\"}", ERR_UNSUPPORTED, "quantization method \"aqlm\" is not supported"},
	{"{\"quant_method\":\"gptq awq\"}", ERR_UNSUPPORTED, "is not supported"},
	{"{\"quant_method\":\"gptq\",\"rotation\":\"hadamard\"}", ERR_UNSUPPORTED,
	 "has \"rotation\" = \"hadamard\""},
	{"{\"quant_method\":\"gptq\",\"\\u0001\\n\":1}", ERR_UNSUPPORTED, "has \"\\u0001\\n\" = 1"},
	{"{\"quant_method\":\"gptq\",\"bits\":5}", ERR_UNSUPPORTED, "\"bits\" = 5"},
	{"{\"quant_method\":\"gptq\",\"bits\":0}", ERR_BAD_FILE, "\"bits\" = 0"},
	{"{\"quant_method\":\"gptq\",\"bits\":\"4\"}", ERR_BAD_FILE, "\"bits\" = \"4\""},
	{"{\"quant_method\":\"gptq\",\"bits\":4.5}", ERR_BAD_FILE, "\"bits\" = 4.5"},
	{"{\"quant_method\":\"gptq\",\"group_size\":1e300}", ERR_BAD_FILE, "\"group_size\""},
	{"{\"quant_method\":\"gptq\",\"group_size\":-2}", ERR_BAD_FILE, "\"group_size\" = -2"},
	{"{\"quant_method\":\"gptq\",\"group_size\":0}", ERR_BAD_FILE, "groups of 0"},
	{"{\"quant_method\":\"gptq\",\"sym\":1}", ERR_BAD_FILE, "\"sym\" = 1"},
	{"{\"quant_method\":\"gptq\",\"checkpoint_format\":\"marlin_24\"}", ERR_UNSUPPORTED,
	 "\"checkpoint_format\" = \"marlin_24\""},
	{"{\"quant_method\":\"gptq_marlin_24\"}", ERR_UNSUPPORTED, "quantization method \"gptq_marlin_24\""},
	{"{\"quant_method\":\"gptq\",\"checkpoint_format\":\"bitblas\"}", ERR_UNSUPPORTED,
	 "\"checkpoint_format\" = \"bitblas\""},
	{"{\"quant_method\":\"gptq\",\"is_marlin_format\":1}", ERR_BAD_FILE, "\"is_marlin_format\" = 1"},
	{"{\"quant_method\":\"gptq\",\"pack_dtype\":\"int64\"}", ERR_UNSUPPORTED, "\"pack_dtype\""},
	{"{\"quant_method\":\"gptq\",\"dynamic\":{\"(\":{}}}", ERR_BAD_FILE,
	 "can't be used as a regular expression"},
	{"{\"quant_method\":\"gptq\",\"dynamic\":{\"m\":{\"rotation\":1}}}", ERR_UNSUPPORTED, "\"rotation\""},
	{"{\"quant_method\":\"gptq\",\"dynamic\":{\"m\":4}}", ERR_BAD_FILE, "has 4 instead of an object"},
	{"{\"quant_method\":\"gptq\",\"dynamic\":[{}]}", ERR_BAD_FILE, "\"dynamic\" = [{}]"},
	{"{\"quant_method\":\"auto-round\",\"extra_config\":[{}]}", ERR_BAD_FILE, "\"extra_config\" = [{}]"},
	{"{\"quant_method\":\"auto-round\",\"extra_config\":{\"m\":[1]}}", ERR_BAD_FILE,
	 "has [1] instead of an object"},
	{"{\"quant_method\":\"compressed-tensors\",\"config_groups\":[{}]}", ERR_BAD_FILE,
	 "\"config_groups\" = [{}]"},
	{"{\"quant_method\":\"compressed-tensors\",\"config_groups\":{\"g\":{\"weights\":[1]}}}",
	 ERR_BAD_FILE, "has [1] instead of an object"},
	{"{\"quant_method\":\"modelopt\",\"quantization\":[1]}", ERR_BAD_FILE, "\"quantization\" = [1]"},
	{"{\"quant_method\":\"awq\",\"version\":\"exllama\"}", ERR_UNSUPPORTED, "\"version\" = \"exllama\""},
	{"{\"quant_method\":\"awq\",\"bits\":8}", ERR_UNSUPPORTED, "\"bits\" = 8"},
	{"{\"quant_method\":\"awq\",\"version\":\"marlin\",\"zero_point\":true}", ERR_UNSUPPORTED,
	 "\"zero_point\" = true"},
	{"{\"quant_method\":\"hqq\",\"quant_config\":{\"weight_quant_params\":{\"nbits\":4},"
	 "\"zero_quant_params\":{\"nbits\":8}}}", ERR_UNSUPPORTED, "\"zero_quant_params\""},
	{"{\"quant_method\":\"hqq\","
	 "\"quant_config\":{\"mlp.up_proj\":{\"weight_quant_params\":{\"rotation\":1}}}}", ERR_UNSUPPORTED,
	 "\"rotation\" = 1"},
	{"{\"quant_method\":\"hqq\",\"quant_config\":4}", ERR_BAD_FILE, "\"quant_config\" = 4"},
	{"{\"quant_method\":\"awq\",\"zero_point\":false}", ERR_UNSUPPORTED, "\"zero_point\" = false"},
	{"{\"quant_method\":\"auto-round\",\"packing_format\":\"auto_round:fp8\"}", ERR_UNSUPPORTED,
	 "\"packing_format\""},
	{"{\"quant_method\":\"auto-round\",\"act_bits\":8}", ERR_BAD_FILE, "\"act_bits\" = 8"},
	{"{\"quant_method\":\"compressed-tensors\",\"format\":\"marlin-24\"}", ERR_UNSUPPORTED,
	 "\"format\" = \"marlin-24\""},
	{"{\"quant_method\":\"compressed-tensors\",\"sparsity_config\":{\"format\":\"sparse-24-bitmask\"}}",
	 ERR_UNSUPPORTED, "\"format\""},
	{"{\"quant_method\":\"compressed-tensors\",\"transform_config\":{\"a\":1}}", ERR_UNSUPPORTED,
	 "\"transform_config\""},
	{"{\"quant_method\":\"compressed-tensors\",\"config_groups\":{\"g\":[\"Linear\"]}}", ERR_UNSUPPORTED,
	 "without its settings"},
	{"{\"quant_method\":\"compressed-tensors\","
	 "\"config_groups\":{\"g\":{\"weights\":{\"strategy\":\"block\"}}}}", ERR_BAD_FILE,
	 "\"block_structure\""},
	{"{\"quant_method\":\"fp8\",\"weight_block_size\":[128]}", ERR_BAD_FILE, "\"weight_block_size\""},
	{"{\"quant_method\":\"fp8\",\"weight_block_size\":[0,128]}", ERR_BAD_FILE, "\"weight_block_size\""},
	{"{\"quant_method\":\"bitsandbytes\",\"bnb_4bit_quant_storage\":\"bfloat16\"}", ERR_UNSUPPORTED,
	 "\"bnb_4bit_quant_storage\""},
	{"{\"quant_method\":\"modelopt\",\"quant_algo\":\"W4A8_AWQ\"}", ERR_UNSUPPORTED,
	 "\"quant_algo\" = \"W4A8_AWQ\""},
	{"{\"quant_method\":\"modelopt\"}", ERR_BAD_FILE, "no \"quant_algo\""},
	{"{\"quant_method\":\"quark\",\"global_quant_config\":{\"weight\":{\"dtype\":\"int3\"}}}",
	 ERR_UNSUPPORTED, "\"dtype\" = \"int3\""},
	{"{\"quant_method\":\"quark\",\"layer_quant_config\":{\"a\":{\"weight\":{\"dtype\":\"int8\","
	 "\"zero_point_type\":\"float32\"}}}}",
	 ERR_UNSUPPORTED, "\"zero_point_type\" = \"float32\""},
	{"{\"quant_method\":\"quark\",\"global_quant_config\":{\"weight\":{\"dtype\":\"int8\","
	 "\"qscheme\":\"per_channel\",\"ch_axis\":1}}}",
	 ERR_BAD_FILE, "\"ch_axis\" = 1"},
	{"{\"quant_method\":\"quark\",\"export\":{\"pack_method\":\"tiles\"}}", ERR_UNSUPPORTED,
	 "\"pack_method\" = \"tiles\""},
	{"{\"quant_method\":\"quark\",\"algo_config\":[{\"name\":\"awq\"},{\"name\":\"rotation\"}]}",
	 ERR_UNSUPPORTED, "the algorithm \"rotation\""},
	{"{\"quant_method\":\"auto-round\",\"sym\":false}", ERR_UNSUPPORTED, "no \"packing_format\""},
	{"{\"quant_method\":\"quark\",\"export\":{\"weight_format\":\"fake_quantized\"}}", ERR_UNSUPPORTED,
	 "\"weight_format\""},
	{"{\"quant_method\":\"torchao\",\"quant_type\":{\"default\":{\"_type\":\"Int4WeightOnlyConfig\","
	 "\"_version\":2}}}", ERR_UNSUPPORTED, "\"_type\""},
	{"{\"quant_method\":\"torchao\",\"quant_type\":\"int4_weight_only\"}", ERR_UNSUPPORTED,
	 "\"quant_type\" = \"int4_weight_only\""},
};

static void
test_configurations(void)
{
	Fake		f = {0};

	make_gptq(&f);
	for (size_t i = 0; i < sizeof(bad_confs) / sizeof(bad_confs[0]); i++)
		refused(bad_confs[i].json, &f, bad_confs[i].json, bad_confs[i].cls, bad_confs[i].msg);
	good("what tools say of themselves", &f,
		 "{\"quant_method\":\"gptq\",\"group_size\":32,\"provider\":\"auto-round\","
		 "\"autoround_version\":\"0.5\",\"optimum:version\":\"1.2\",\"to_quant_block_names\":[\"m\"],"
		 "\"iters\":200,\"nsamples\":128,\"seqlen\":2048,"
		 "\"amp\":true,\"duo_scaling\":true,\"data_type\":\"int\",\"act_bits\":16}", KT_Q4_0);
	refused("other codes", &f, "{\"quant_method\":\"gptq\",\"data_type\":\"mx_fp\"}", ERR_UNSUPPORTED,
			"\"data_type\" = \"mx_fp\"");
	refused("activations", &f, "{\"quant_method\":\"awq\",\"data_type\":\"int\",\"act_bits\":8}",
			ERR_BAD_FILE, "\"act_bits\" = 8");
	good("no method, but what only one has", &f,
		 "{\"quant_method\":null,\"group_size\":32,\"desc_act\":false,\"checkpoint_format\":\"gptq\"}",
		 KT_Q4_0);
	refused("nothing that tells", &f, "{\"quant_method\":null,\"bits\":4}", ERR_UNSUPPORTED,
			"quantization method \"\" is not supported");
	refused("a method in small letters", &f, "{\"quant_method\":\"modelopt\",\"quant_algo\":\"w4a8_awq\"}",
			ERR_UNSUPPORTED, "\"quant_algo\" = \"w4a8_awq\"");
	good("empty values say nothing", &f,
		 "{\"quant_method\":\"gptq\",\"group_size\":32,\"rotation\":null,\"x\":[],\"y\":{},\"z\":false}",
		 KT_Q4_0);
	clear(&f);
}

/* Keys that only the quantization tool uses, as many as possible. */
static void
test_ignored(void)
{
	Conf	   *conf = conf_new();
	char		all[200];
	char		some[26];

	ckpt_ignored(conf, all, sizeof(all));
	CHECK(all[0] == '\0', "no configuration: %s", all);
	conf_set_str(conf, "quantization_config", "{\"quant_method\":\"gptq\",\"bits\":4,\"provider\":\"x\","
				 "\"seqlen\":2048,\"amp\":false,\"nsamples\":1,\"unknown\":1}");
	ckpt_ignored(conf, all, sizeof(all));
	ckpt_ignored(conf, some, sizeof(some));
	CHECK(strcmp(all, "provider, seqlen, nsamples") == 0 && strcmp(some, "provider, seqlen") == 0, "%s; %s",
		  all, some);
	conf_free(conf);
}

#define GPTQ "{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32}"

#define GPTQ_ACT(group, more) \
	"{\"quant_method\":\"gptq\",\"desc_act\":true,\"group_size\":" group more "}"

/* Is the bias a part, so that an architecture without one may leave it out? */
static void
uses_bias(const char *what, Fake *f, bool yes)
{
	const KTensor *t;
	Ckpt	   *c;
	Err			e;
	bool		used = false;

	CHECK(try(f, GPTQ, &t, &c, &e), "%s: %s", what, e.msg);
	for (const KTensor *const *p = t->reader->parts; *p != NULL; p++)
		used |= *p == get(f, "m.bias");
	CHECK(used == yes, "%s: %s", what, used ? "is left out" : "is not left out");
	ckpt_close(c);
}

static void
test_gptq(void)
{
	static const char *const names[] = {"m.qzeros", "m.scales", "m.g_idx"};
	static const uint16_t not_finite[] = {0x7c00, 0xfc00, 0x7e00};
	Fake		f = {0};

	make_gptq(&f);
	good("as it should be", &f, GPTQ, KT_Q4_0);
	for (int i = 0; i < 3; i++)
	{
		make_gptq(&f);
		get(&f, names[i])->shape[0]++;
		refused(names[i], &f, GPTQ, ERR_BAD_FILE, "has shape [");
		get(&f, names[i])->shape[0]--;
		get(&f, names[i])->type = KT_I64;
		refused(names[i], &f, GPTQ, ERR_BAD_FILE, "has type I64, expected");
		f.names[i + 1][0] = 'X';
		if (i < 2)
			refused(names[i], &f, GPTQ, ERR_BAD_FILE, "is missing in model \"dir\"");
		else
			good("no order", &f, GPTQ, KT_Q4_0);
	}
	/* permuted columns, but the permutation is not given */
	refused("an order that is missing", &f, GPTQ_ACT("32", ""), ERR_BAD_FILE, "\"m.g_idx\" is missing");
	refused("of a module", &f, "{\"quant_method\":\"gptq\",\"group_size\":32,"
							   "\"dynamic\":{\"m\":{\"desc_act\":true}}}", ERR_BAD_FILE,
			"\"m.g_idx\" is missing");
	refused("of AutoRound", &f, "{\"quant_method\":\"auto-round\",\"group_size\":32,\"desc_act\":true}",
			ERR_BAD_FILE, "\"m.g_idx\" is missing");
	good("groups in place", &f, GPTQ_ACT("32", ",\"static_groups\":true"), KT_Q4_0);
	get(&f, "m.scales")->shape[0] = get(&f, "m.qzeros")->shape[0] = 1;
	good("one group", &f, GPTQ_ACT("-1", ""), KT_Q4_0);
	make_gptq(&f);
	good("an order", &f, GPTQ_ACT("32", ""), KT_Q4_0);
	refused("other bits", &f, "{\"quant_method\":\"gptq\",\"bits\":8,\"group_size\":32}", ERR_BAD_FILE,
			"has shape [8, 8], expected [16, 8]");
	refused("other groups", &f, "{\"quant_method\":\"gptq\",\"group_size\":-1}", ERR_BAD_FILE,
			"has shape [2, 1], expected [1, 1]");
	refused("3 bits of 8 rows", &f, "{\"quant_method\":\"gptq\",\"bits\":3,\"group_size\":32}", ERR_BAD_FILE,
			"can't be packed with 3 bits");
	for (int i = 0; i < 3; i++)
	{
		make_gptq(&f);
		memcpy(f.data[2] + 6, &not_finite[i], 2);
		refused("a scale", &f, GPTQ, ERR_BAD_FILE,
				"tensor \"m.scales\" in file \"dir/model.safetensors\" has a scale that is not finite");
	}
	make_gptq(&f);
	f.data[1][2] = 0x76;
	refused("a zero point", &f, GPTQ, ERR_BAD_FILE, "has zero points, but the quantization is symmetric");
	good("without symmetry", &f, "{\"quant_method\":\"gptq\",\"group_size\":32,\"sym\":false}", KT_Q4_1);
	make_gptq(&f);
	((int32_t *) f.data[3])[5] = 2;
	refused("a group too high", &f, GPTQ, ERR_BAD_FILE,
			"tensor \"m.g_idx\" in file \"dir/model.safetensors\" has an invalid group");
	((int32_t *) f.data[3])[5] = -1;
	refused("a negative group", &f, GPTQ, ERR_BAD_FILE, "has an invalid group");
	make_gptq(&f);
	add(&f, "m.bias", KT_F16, 1, N, 0, 0);
	uses_bias("a bias of zeros", &f, true);
	f.data[4][3] = 0x3c;
	uses_bias("a bias", &f, false);
	make_gptq(&f);
	for (int i = 0; i < K / 32 * N; i++)
		((uint16_t *) f.data[2])[i] = 0x0001;
	good("scales too small for a half", &f, GPTQ, KT_BF16);
	clear(&f);
}

#define CT(weights) "{\"quant_method\":\"compressed-tensors\"," \
					"\"config_groups\":{\"g\":{\"targets\":[\"Linear\"],\"weights\":" weights "}}}"
#define W4A16 CT("{\"num_bits\":4,\"strategy\":\"group\",\"group_size\":32}")

/* Copy the rows of the matrix as they are offered to the kernels; returns their number of bytes. */
static size_t
rows_of(Fake *f, const char *json, uint8_t *rows, size_t room)
{
	const KTensor *t;
	Ckpt	   *c;
	Err			e;
	size_t		bytes = 0;

	CHECK(try(f, json, &t, &c, &e) && t != NULL, "%s: %s", json, e.msg);
	if (t != NULL && (bytes = ktype_row_bytes(t->type, K)) * N <= room)
		t->reader->rows(t->reader, 0, 1, N, rows);
	ckpt_close(c);
	return bytes * N;
}

/* The zero points of experts whose matrices are stacked are those of one high matrix. */
static void
test_stacked_zeros(void)
{
	static const char json[] = CT("{\"num_bits\":8,\"strategy\":\"group\",\"group_size\":32,"
								  "\"symmetric\":false}");
	Fake		f = {0};
	int64_t    *shape;
	uint8_t    *zeros;
	uint8_t		flat[N * K * 4];
	uint8_t		stacked[N * K * 4];
	size_t		n;

	add(&f, "m.weight_packed", KT_I32, 2, N, K / 4, 0x12);
	add(&f, "m.weight_scale", KT_BF16, 2, N, K / 32, 0x3c);
	shape = add(&f, "m.weight_shape", KT_I64, 1, 2, 0, 0);
	shape[0] = N;
	shape[1] = K;
	zeros = add(&f, "m.weight_zero_point", KT_I32, 2, N / 4, K / 32, 0);
	for (int i = 0; i < N * K / 32; i++)
		zeros[i] = (uint8_t) (100 + i);
	n = rows_of(&f, json, flat, sizeof(flat));
	*get(&f, "m.weight_zero_point") = (KTensor) {.name = "m.weight_zero_point", .type = KT_I32, .ndim = 3,
												 .shape = {N / 4, 1, K / 32}, .data = zeros,
												 .nbytes = N * K / 32};
	CHECK(n > 0 && n <= sizeof(flat) && rows_of(&f, json, stacked, sizeof(stacked)) == n &&
		  memcmp(flat, stacked, n) == 0, "other rows");
	clear(&f);
}

static void
test_compressed(void)
{
	Fake		f = {0};
	int64_t    *shape;

	add(&f, "m.weight_packed", KT_I32, 2, N, K / 8, 0x12);
	add(&f, "m.weight_scale", KT_BF16, 2, N, K / 32, 0x3c);
	shape = add(&f, "m.weight_shape", KT_I64, 1, 2, 0, 0);
	shape[0] = N;
	shape[1] = K;
	good("4 bits", &f, W4A16, KT_Q4_0);
	refused("floats", &f, CT("{\"num_bits\":4,\"type\":\"float\"}"), ERR_BAD_FILE,
			"has type I32, but its group's is float");
	refused("other bits", &f, CT("{\"num_bits\":8,\"group_size\":32}"), ERR_BAD_FILE, "expected [8, 16]");
	refused("other groups", &f, CT("{\"num_bits\":4,\"group_size\":16}"), ERR_BAD_FILE, "does not match");
	refused("an order", &f, CT("{\"num_bits\":4,\"group_size\":32,\"actorder\":\"group\"}"), ERR_BAD_FILE,
			"weight_g_idx\" is missing");
	refused("an order, as once", &f, CT("{\"num_bits\":4,\"group_size\":32,\"actorder\":true}"), ERR_BAD_FILE,
			"weight_g_idx\" is missing");
	refused("an unknown order", &f, CT("{\"num_bits\":4,\"group_size\":32,\"actorder\":\"x\"}"),
			ERR_UNSUPPORTED, "\"actorder\" = \"x\"");
	good("columns in place", &f, CT("{\"num_bits\":4,\"group_size\":32,\"actorder\":\"weight\"}"), KT_Q4_0);
	good("no order", &f, CT("{\"num_bits\":4,\"group_size\":32,\"actorder\":false}"), KT_Q4_0);
	refused("zero points", &f, CT("{\"num_bits\":4,\"group_size\":32,\"symmetric\":false}"), ERR_BAD_FILE,
			"weight_zero_point\" is missing");
	refused("no group", &f, "{\"quant_method\":\"compressed-tensors\"}", ERR_BAD_FILE,
			"no group of the quantization configuration");
	shape[1] = K + 1;
	refused("another shape", &f, W4A16, ERR_BAD_FILE, "does not have the shape [8, 64]");
	clear(&f);

	add(&f, "m.weight", KT_I8, 2, N, K, 1);
	add(&f, "m.weight_scale", KT_F32, 2, N, 1, 0x3c);
	good("8 bits", &f, CT("{\"num_bits\":8,\"strategy\":\"channel\"}"), KT_Q8_0);
	add(&f, "m.weight_zero_point", KT_I8, 2, N, 2, 0);
	refused("zero points", &f, CT("{\"num_bits\":8,\"symmetric\":false}"), ERR_BAD_FILE,
			"does not match its scales");
	clear(&f);
}

static void
test_floats(void)
{
	static const char fp8[] = "{\"quant_method\":\"fp8\",\"weight_block_size\":[4,32]}";
	static const char nvfp4[] = "{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\"}";
	Fake		f = {0};
	float	   *scale;

	add(&f, "m.weight", KT_F8_E4M3, 2, N, K, 0x38);
	refused("no scale", &f, fp8, ERR_BAD_FILE, "tensor \"m.weight_scale\" is missing");
	scale = add(&f, "m.weight_scale_inv", KT_F32, 2, 2, 2, 0);
	good("blocks", &f, fp8, KT_BF16);
	scale[3] = NAN;
	refused("NaN", &f, fp8, ERR_BAD_FILE, "has a scale that is not finite");
	f.t[1].shape[0] = 4;
	f.t[1].shape[1] = 1;
	refused("other blocks", &f, fp8, ERR_BAD_FILE, "has a shape that does not match a matrix of [8, 64]");
	clear(&f);

	add(&f, "m.weight", KT_U8, 2, N, K / 2, 0x21);
	add(&f, "m.weight_scale", KT_F8_E4M3, 2, N, K / 16, 0x38);
	refused("no second scale", &f, nvfp4, ERR_BAD_FILE, "m.weight_scale_2\" is missing");
	scale = add(&f, "m.weight_scale_2", KT_F32, 1, 1, 0, 0);
	refused("a scale of 0", &f, nvfp4, ERR_BAD_FILE, "has a scale that can't be used: 0");
	*scale = 0.25f;
	good("NVFP4", &f, nvfp4, KT_Q8_0);
	f.data[1][7] = 0x7f;
	refused("NaN", &f, nvfp4, ERR_BAD_FILE, "has a scale that is not finite");
	clear(&f);

	add(&f, "m_blocks", KT_U8, 2, N * K / 32, 16, 0x21);
	add(&f, "m_scales", KT_U8, 2, N, K / 32, 127);
	refused("blocks of another shape", &f, "{\"quant_method\":\"mxfp4\"}", ERR_BAD_FILE,
			"tensor \"m_blocks\"");
	f.t[0].ndim = 3;
	f.t[0].shape[0] = N;
	f.t[0].shape[1] = K / 32;
	f.t[0].shape[2] = 16;
	good("MXFP4", &f, "{\"quant_method\":\"mxfp4\"}", KT_MXFP4);
	f.data[1][3] = 255;
	refused("an exponent of 255", &f, "{\"quant_method\":\"mxfp4\"}", ERR_BAD_FILE,
			"has a scale that is not finite");
	clear(&f);
}

/* FP8 with blocks of 128 x 128 is offered as it is in the file, each row with its blocks' scales. */
static void
test_offer(void)
{
	enum
	{
		ROWS = 200, COLS = 300, ACROSS = 3
	};
	static const struct
	{
		const char *json;
		int			rows,
					cols;
		bool		offers;
	}			cases[] = {
		{"{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]}", 2, 3, true},
		{"{\"quant_method\":\"fp8\",\"weight_block_size\":[128,64]}", 2, 5, false},
		{"{\"quant_method\":\"fp8\",\"weight_block_size\":[64,256]}", 4, 2, true},
		{"{\"quant_method\":\"fp8\"}", ROWS, 1, true},
	};

	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++)
	{
		Fake		f = {0};
		CkptFiles	files = {fake_find, fake_where, &f};
		Conf	   *conf = conf_new();
		Ckpt	   *ckpt = NULL;
		const KTensor *t = NULL,
				   *o;
		Err			e = {0};
		uint8_t    *codes = add(&f, "m.weight", KT_F8_E4M3, 2, ROWS, COLS, 0);
		float	   *scale = add(&f, c < 3 ? "m.weight_scale_inv" : "m.weight_scale", KT_F32, 2, cases[c].rows,
								cases[c].cols, 0);
		int			down = (ROWS + cases[c].rows - 1) / cases[c].rows,
					across = c == 0 ? 128 : c == 1 ? 64 : c == 2 ? 256 : COLS,
					bad = 0;
		uint8_t    *row = mem_alloc(ktype_row_bytes(KT_FP8, COLS) * 2);

		if (c < 3)
			down = c == 2 ? 64 : 128;
		for (int i = 0; i < ROWS * COLS; i++)
			codes[i] = (uint8_t) (i * 37 + i / COLS);
		for (int i = 0; i < cases[c].rows * cases[c].cols; i++)
			scale[i] = 0.01f * (float) (i + 1);
		conf_set_str(conf, "quantization_config", cases[c].json);
		CHECK(ckpt_open(conf, &files, &ckpt, &e) && ckpt_matrix(ckpt, "m", ROWS, COLS, &t, &e) &&
			  t->type == KT_BF16, "%s: %s", cases[c].json, e.msg);
		conf_free(conf);
		o = t != NULL ? t->reader->offer : NULL;
		CHECK((o != NULL) == cases[c].offers, "%s: offers %s", cases[c].json,
			  o != NULL ? ktype_name(o->type) : "nothing");
		for (int i = 0; o != NULL && i + 3 < ROWS; i++)
		{
			o->reader->rows(o->reader, i, 3, 2, row);
			for (int r = 0; r < 2; r++)
			{
				const uint8_t *at = row + ktype_row_bytes(KT_FP8, COLS) * (size_t) r;

				for (int g = 0; g < ACROSS; g++)
					bad += memcmp(at + g * 4, &scale[(i + 3 * r) / down * cases[c].cols + g * 128 / across],
								  4) != 0;
				bad += memcmp(at + ACROSS * 4, codes + (size_t) (i + 3 * r) * COLS, COLS) != 0;
			}
		}
		CHECK(bad == 0 && ktype_row_bytes(KT_FP8, COLS) == ACROSS * 4 + COLS,
			  "%s: %d rows or scales are others", cases[c].json, bad);
		mem_free(row);
		ckpt_close(ckpt);
		clear(&f);
	}
}

#define BNB "{\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true}"

static void
bnb_state(Fake *f, const char *json)
{
	KTensor    *t = get(f, "m.weight.quant_state.bitsandbytes__nf4");

	t->nbytes = strlen(json);
	memcpy((void *) t->data, json, t->nbytes);
}

/* bitsandbytes' tables, rounded to 4 places */
static const float nf4[16] = {
	-1, -0.6962f, -0.5251f, -0.3949f, -0.2844f, -0.1848f, -0.0911f, 0, 0.0796f, 0.1609f, 0.2461f, 0.3379f,
	0.4407f, 0.5626f, 0.7230f, 1
};
static const float fp4[16] = {
	0, 0.0052f, 0.6667f, 1, 0.3333f, 0.5f, 0.1667f, 0.25f, 0, -0.0052f, -0.6667f, -1, -0.3333f, -0.5f,
	-0.1667f, -0.25f
};

/* The codes of bitsandbytes' own tables are kept; those of another table become Q8_0. */
static void
test_four_bnb(void)
{
	Fake		f = {0};
	float		got[N * K];
	uint8_t    *codes = add(&f, "m.weight", KT_U8, 2, N * K / 2, 1, 0);
	float	   *map = add(&f, "m.weight.quant_map", KT_F32, 1, 16, 0, 0);
	float	   *absmax = add(&f, "m.weight.absmax", KT_F32, 1, N, 0, 0);

	add(&f, "m.weight.quant_state.bitsandbytes__nf4", KT_U8, 1, 500, 0, ' ');
	bnb_state(&f, "{\"blocksize\":64,\"shape\":[8,64]}");
	for (int i = 0; i < N * K / 2; i++)
		codes[i] = (uint8_t) (i * 37 + i / 32);
	for (int i = 0; i < N; i++)
		absmax[i] = 0.25f * (float) (i + 1);
	for (int fp = 0; fp < 2; fp++)
	{
		double		worst = 0;

		memcpy(map, fp ? fp4 : nf4, sizeof(nf4));
		CHECK(offer_of(&f, BNB, got) == (fp ? KT_FP4 : KT_NF4), "bitsandbytes' table %d", fp);
		for (int i = 0; i < N * K; i++)
		{
			float		code = map[codes[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15];

			worst = fmax(worst, fabs(got[i] / absmax[i / K] - code));
		}
		CHECK(worst < 0.0042, "table %d: rounded by %g", fp, worst);
	}
	map[5] += 0.01f;
	CHECK(offer_of(&f, BNB, got) == KT_COUNT, "another table");
	memcpy(map, nf4, sizeof(nf4));
	memset(absmax, 0, N * sizeof(float));
	CHECK(offer_of(&f, BNB, got) == KT_NF4 && got[0] == 0 && got[N * K - 1] == 0, "scales of 0");
	for (int i = 0; i < N; i++)
		absmax[i] = 1e-3f;
	CHECK(offer_of(&f, BNB, got) == KT_COUNT, "scales too small for a half");
	clear(&f);
}

/*
 * Each pair of E4M3's scales in a group of NVFP4: exact, except for rounding d to half, if their powers
 * of two differ by at most a factor of 8; otherwise the smaller one is off by 1/254 of the larger.
 */
static void
test_four_nvfp4(void)
{
	static const char json[] = "{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\"}";
	static const float half = 0x1p-11f + 1e-6f;
	Fake		f = {0};
	float		got[N * K];
	uint8_t    *codes = add(&f, "m.weight", KT_U8, 2, N, K / 2, 0);
	uint8_t    *scale = add(&f, "m.weight_scale", KT_F8_E4M3, 2, N, K / 16, 0);
	float	   *factor = add(&f, "m.weight_scale_2", KT_F32, 1, 1, 0, 0);
	float		small;
	int			bad = 0;

	*factor = 1 / 4800.0f;
	/* d may be a subnormal half */
	small = 0x1p-25f * NV4_D * 2 * 127 / *factor;
	for (int i = 0; i < N * K / 2; i++)
		codes[i] = (uint8_t) (i * 37 + i / 32);
	for (int pair = 0; pair < 127 * 127; pair += N * K / 32 - 1)
	{
		for (int i = 0; i < N * K / 32; i++)
		{
			scale[2 * i] = (uint8_t) ((pair + i) % 127) | (i % 5 == 0 ? 0x80 : 0);
			scale[2 * i + 1] = (uint8_t) ((pair + i) / 127 % 127);
		}
		/* otherwise d of the largest one would be subnormal, and nothing is offered */
		scale[N * K / 16 - 1] = 0x7e;
		if (offer_of(&f, json, got) != KT_NV4)
			bad++;
		for (int i = 0; i < N * K; i++)
		{
			float		s = kf8_to_f32(KT_F8_E4M3, scale[i / 16]);
			float		other = kf8_to_f32(KT_F8_E4M3, scale[(i / 16) ^ 1]);
			float		code = (float) kcode_mxfp4[codes[i / 2] >> i % 2 * 4 & 15] * 0.5f;
			float		most = fmaxf(fabsf(s), fabsf(other));
			int			apart = abs((scale[i / 16] >> 3 & 15) - (scale[(i / 16) ^ 1] >> 3 & 15));
			float		off = fabsf(got[i] / *factor - code * s);

			bad += off > fabsf(code) * (fabsf(s) * half + (apart <= 3 ? 0 : most / 254) + small);
		}
	}
	CHECK(bad == 0, "NVFP4: %d weights are others", bad);
	*factor = 1e-12f;
	memset(scale, 0x38, N * K / 16);
	good("too small for a half", &f, json, KT_BF16);
	*factor = 4.0f;
	CHECK(offer_of(&f, json, got) == KT_NV4, "a large factor");
	memset(scale, 0x7e, N * K / 16);
	CHECK(offer_of(&f, json, got) == KT_COUNT, "scales too large");
	clear(&f);
}

static void
test_bnb(void)
{
	Fake		f = {0};

	add(&f, "m.weight", KT_U8, 2, N * K / 2, 1, 0x21);
	add(&f, "m.weight.absmax", KT_F32, 1, N * K / 64, 0, 0x3c);
	add(&f, "m.weight.quant_map", KT_F32, 1, 16, 0, 0);
	add(&f, "m.weight.quant_state.bitsandbytes__nf4", KT_U8, 1, 500, 0, ' ');
	refused("no JSON", &f, BNB, ERR_BAD_FILE, "is not a JSON object");
	bnb_state(&f, "{\"blocksize\":64,\"shape\":[8,32]}");
	refused("another shape", &f, BNB, ERR_BAD_FILE, "does not have the shape [8, 64] in its "
			"quantization state");
	bnb_state(&f, "{\"blocksize\":0,\"shape\":[8,64]}");
	refused("no blocks", &f, BNB, ERR_BAD_FILE, "\"blocksize\" = 0");
	bnb_state(&f, "{\"blocksize\":32,\"shape\":[8,64]}");
	refused("smaller blocks", &f, BNB, ERR_BAD_FILE, "has shape [8], expected [16]");
	bnb_state(&f, "{\"blocksize\":64,\"shape\":[8,64]}");
	good("NF4", &f, BNB, KT_Q8_0);
	((float *) f.data[2])[3] = 1.5f;
	refused("a value of 1.5", &f, BNB, ERR_BAD_FILE, "has a value beyond 1");
	((float *) f.data[2])[3] = 0;
	f.t[1].type = KT_U8;
	refused("nested without an offset", &f, BNB, ERR_BAD_FILE, "nested_offset");
	bnb_state(&f, "{\"blocksize\":64,\"shape\":[8,64],\"nested_offset\":0.5}");
	refused("nested without scales", &f, BNB, ERR_BAD_FILE, "m.weight.nested_absmax\" is missing");
	clear(&f);

	add(&f, "m.weight", KT_I8, 2, N, K, 1);
	refused("no scales", &f, BNB, ERR_BAD_FILE, "m.SCB\" is missing");
	add(&f, "m.SCB", KT_F32, 1, N, 0, 0x3c);
	good("INT8", &f, BNB, KT_Q8_0);
	add(&f, "m.weight_format", KT_U8, 1, 1, 0, 2);
	refused("another layout", &f, BNB, ERR_UNSUPPORTED, "asks for a layout that is not supported");
	clear(&f);
}

#define MARLIN "{\"quant_method\":\"gptq\",\"checkpoint_format\":\"marlin\",\"group_size\":32}"

/* The other layouts of GPTQ's and AWQ's tools, for a matrix [8][64]. */
static void
test_layouts(void)
{
	static const char gemv[] = "{\"quant_method\":\"awq\",\"version\":\"gemv\",\"group_size\":32}";
	static const char fast[] = "{\"quant_method\":\"awq\",\"version\":\"gemv_fast\",\"group_size\":32}";
	static const char lie[] = "{\"quant_method\":\"awq\",\"version\":\"gemv\",\"group_size\":16}";
	Fake		f = {0};
	uint16_t   *s;

	add(&f, "m.B", KT_I32, 2, K / 16, N * 2, 0x5a);
	add(&f, "m.s", KT_F16, 2, K / 32, N, 0x20);
	refused("8 rows of Marlin's 64", &f, MARLIN, ERR_BAD_FILE, "can't be packed in tiles of [64, 16]");
	refused("Marlin in disorder", &f, "{\"quant_method\":\"gptq\",\"checkpoint_format\":\"marlin\","
									  "\"group_size\":32,\"desc_act\":true}", ERR_UNSUPPORTED,
			"\"desc_act\": true with groups of 32 columns");
	refused("Marlin with 8 bits", &f, "{\"quant_method\":\"marlin\",\"bits\":8}", ERR_UNSUPPORTED,
			"other than 4 bits");
	refused("Marlin with zero points", &f, "{\"quant_method\":\"marlin\",\"sym\":false}", ERR_UNSUPPORTED,
			"zero points");
	refused("Marlin, not said", &f, GPTQ, ERR_BAD_FILE, "m.qweight\" is missing");
	clear(&f);

	add(&f, "m.qweight", KT_I8, 2, N, K / 2, 0x5a);
	refused("BitBLAS", &f, "{\"quant_method\":\"bitblas\"}", ERR_UNSUPPORTED, "has a layout of BitBLAS");
	clear(&f);

	add(&f, "m.qweight", KT_I32, 2, N, K / 8, 0x5a);
	add(&f, "m.qzeros", KT_I32, 2, N, 4, 0x77);
	s = add(&f, "m.scales", KT_F16, 2, N, 32, 0);
	for (int i = 0; i < N * 32; i++)
		s[i] = i % 32 < K / 32 ? 0x2020 : 0;
	good("GEMV", &f, gemv, KT_Q4_1);
	refused("groups without scales", &f, lie, ERR_BAD_FILE, "doesn't have the scales of 4 groups");
	refused("scales without groups", &f, "{\"quant_method\":\"awq\",\"version\":\"gemv\",\"group_size\":64}",
			ERR_BAD_FILE, "doesn't have the scales of 1 groups");
	get(&f, "m.scales")->shape[1] = 24;
	refused("fewer scales", &f, gemv, ERR_BAD_FILE, "tensor \"m.scales\"");
	get(&f, "m.scales")->shape[1] = 32;
	refused("more groups than there is room for", &f,
			"{\"quant_method\":\"awq\",\"version\":\"gemv\",\"group_size\":1}", ERR_BAD_FILE,
			"tensor \"m.qzeros\"");
	refused("the other layout", &f, "{\"quant_method\":\"awq\",\"group_size\":32}", ERR_BAD_FILE,
			"has shape [8, 8], expected [64, 1]");
	clear(&f);

	add(&f, "m.qweight", KT_I16, 2, N / 4, K, 0x5a);
	memset(add(&f, "m.scales", KT_F16, 2, 8, N, 0), 0x20, K / 32 * N * 2);
	memset(add(&f, "m.scaled_zeros", KT_F16, 2, 8, N, 0), 0x20, K / 32 * N * 2);
	good("GEMV_FAST", &f, fast, KT_Q4_1);
	refused("groups without scales", &f,
			"{\"quant_method\":\"awq\",\"version\":\"gemv_fast\",\"group_size\":16}", ERR_BAD_FILE,
			"doesn't have the scales of 4 groups");
	f.data[2][11] = 0x60;
	refused("a zero point of no code", &f, fast, ERR_BAD_FILE, "has a zero point beyond the codes");
	f.data[2][11] = 0x7e;
	refused("NaN", &f, fast, ERR_BAD_FILE, "has a zero point beyond the codes");
	refused("more groups than there is room for", &f,
			"{\"quant_method\":\"awq\",\"version\":\"gemv_fast\",\"group_size\":4}", ERR_BAD_FILE,
			"tensor \"m.scales\"");
	clear(&f);
}

/* Make HQQ with groups of 64 along axis 1 and 4 bits. */
static void
make_hqq(Fake *f)
{
	int64_t    *shape;

	clear(f);
	add(f, "m.W_q", KT_U8, 2, N / 2, K, 0x5a);
	add(f, "m.scale", KT_F16, 2, N, 1, 0x20);
	add(f, "m.zero", KT_F16, 2, N, 1, 0x47);
	shape = add(f, "m.shape", KT_I64, 1, 2, 0, 0);
	shape[0] = N;
	shape[1] = K;
	add(f, "m.axis", KT_U8, 1, 1, 0, 1);
	memcpy(add(f, "m.packing", KT_U8, 1, 7, 0, 0), "4bit_u8", 7);
	add(f, "m.quant_zero", KT_U8, 1, 1, 0, 0);
}

static void
test_hqq(void)
{
	static const char hqq[] = "{\"quant_method\":\"hqq\"}";
	Fake		f = {0};

	make_hqq(&f);
	good("HQQ", &f, hqq, KT_Q4_1);
	f.data[4][0] = 2;
	refused("a third axis", &f, hqq, ERR_BAD_FILE, "has groups along axis 2");
	f.data[4][0] = 0;
	good("8 columns of 64 groups", &f, hqq, KT_Q8_0);
	f.data[6][0] = 1;
	refused("quantized zero points", &f, hqq, ERR_UNSUPPORTED, "has \"quant_zero\", which is not supported");
	make_hqq(&f);
	f.data[5][0] = '5';
	refused("another packing", &f, hqq, ERR_UNSUPPORTED, "\"packing\" = \"5bit_u8\"");
	make_hqq(&f);
	f.data[5][0] = '2';
	refused("fewer codes in a byte", &f, hqq, ERR_BAD_FILE, "can't have 8 groups and codes of 256 bytes");
	make_hqq(&f);
	get(&f, "m.scale")->shape[0] = 7;
	refused("other groups", &f, hqq, ERR_BAD_FILE, "can't have 7 groups");
	get(&f, "m.zero")->shape[0] = 7;
	refused("other groups of both", &f, hqq, ERR_BAD_FILE, "can't have 7 groups");
	make_hqq(&f);
	((int64_t *) f.data[3])[1] = K + 1;
	refused("another shape", &f, hqq, ERR_BAD_FILE, "does not have the shape [8, 64]");
	make_hqq(&f);
	f.data[2][3] = 0x7c;
	refused("an infinite zero point", &f, hqq, ERR_BAD_FILE,
			"tensor \"m.zero\" in file \"dir/model.safetensors\" has a scale that is not finite");
	f.data[2][3] = 0x60;
	good("a zero point far away", &f, hqq, KT_Q8_0);
	clear(&f);
}

/* TorchAO's first version has wide zero points. */
static void
test_torchao(void)
{
	static const char ao[] = "{\"quant_method\":\"torchao\",\"quant_type\":\"int8_weight_only\"}";
	Fake		f = {0};
	int64_t    *zero;

	add(&f, "m._weight_qdata", KT_I8, 2, N, K, 0x21);
	add(&f, "m._weight_scale", KT_F32, 1, N, 0, 0x3c);
	zero = add(&f, "m._weight_zero_point", KT_I64, 1, N, 0, 0);
	good("zero points of 0", &f, ao, KT_Q8_0);
	zero[3] = -7;
	good("others", &f, ao, KT_BF16);
	zero[3] = 128;
	refused("beyond a byte", &f, ao, ERR_BAD_FILE, "has a zero point beyond the codes");
	get(&f, "m._weight_zero_point")->shape[0] = N - 1;
	refused("fewer", &f, ao, ERR_BAD_FILE, "does not match its scales");
	clear(&f);
}

#define QUARK(weight) "{\"quant_method\":\"quark\",\"layer_quant_config\":{\"x*\":{}, " \
					  "\"[!x]\":{\"weight\":{" weight "}}}}"

/* Quark's integers and small floats, for a matrix [8][64]. */
static void
test_quark(void)
{
	static const char rows[] = QUARK("\"dtype\":\"uint8\",\"qscheme\":\"per_channel\",\"ch_axis\":0");
	static const char groups[] = QUARK("\"dtype\":\"uint4\",\"qscheme\":\"per_group\",\"group_size\":32");
	static const char fp6[] = QUARK("\"dtype\":\"fp6_e2m3\",\"qscheme\":\"per_group\",\"group_size\":32");
	static const char odd[] = QUARK("\"dtype\":\"uint4\",\"qscheme\":\"per_group\",\"group_size\":48");
	Fake		f = {0};

	add(&f, "m.weight", KT_U8, 2, N, K, 0x21);
	add(&f, "m.weight_scale", KT_F32, 1, N, 0, 0x3c);
	refused("no zero points", &f, rows, ERR_BAD_FILE, "m.weight_zero_point\" is missing");
	add(&f, "m.weight_zero_point", KT_U8, 1, N, 0, 0x80);
	good("bytes", &f, rows, KT_Q8_0);
	refused("bytes that nothing describes", &f, "{\"quant_method\":\"quark\"}", ERR_BAD_FILE,
			"has shape [8, 64], expected [8, 32]");
	get(&f, "m.weight_zero_point")->shape[0] = N - 1;
	refused("fewer zero points", &f, rows, ERR_BAD_FILE, "does not match its scales");
	get(&f, "m.weight")->shape[1] = K / 4 * 3;
	get(&f, "m.weight_scale")->shape[0] = N - 1;
	refused("another type of scales", &f, fp6, ERR_BAD_FILE, "has type F32, expected U8");
	clear(&f);
	add(&f, "m.weight", KT_U8, 2, N, K / 4 * 3, 0x21);
	add(&f, "m.weight_scale", KT_U8, 2, N, K / 32, 0x7f);
	good("MXFP6", &f, fp6, KT_BF16);
	f.data[1][3] = 0xff;
	refused("an exponent of 255", &f, fp6, ERR_BAD_FILE, "has a scale that is not finite");
	clear(&f);
	add(&f, "m.weight", KT_I32, 2, K, N / 8, 0x21);
	add(&f, "m.weight_scale", KT_F32, 2, K / 32, N, 0x3c);
	add(&f, "m.weight_zero_point", KT_I32, 2, K / 32, N / 8, 0x33);
	good("words", &f, groups, KT_Q4_1);
	refused("columns without a group", &f, odd, ERR_BAD_FILE, "of 64 columns can't have groups of 48");
	refused("words that nothing describes", &f, "{\"quant_method\":\"quark\"}", ERR_BAD_FILE,
			"has type I32, but the quantization configuration doesn't describe it");
	get(&f, "m.weight_zero_point")->shape[0] = 1;
	refused("fewer zero points", &f, groups, ERR_BAD_FILE, "does not match its scales");
	clear(&f);
}

/*
 * The model option "quantization" names a method: check the result for a configuration; msg NULL: no
 * error.
 */
static void
named(const char *json, const char *option, ErrClass cls, const char *expected)
{
	Conf	   *conf = conf_new();
	Err			e = {0};
	bool		ok;
	const char *got;

	if (strcmp(json, "gguf") == 0)
		conf_set_str(conf, "gguf.architecture", "llama");
	else if (json[0] != '\0')
		conf_set_str(conf, "quantization_config", json);
	ok = ckpt_set_method(conf, "dir", option, &e);
	got = ok ? conf_str(conf, "quantization_config.quant_method", "as it was") : e.msg;
	CHECK(e.cls == cls && ok == (cls == ERR_NONE) && strstr(got, expected) != NULL,
		  "%s, %s: %s instead of %s", json, option, got, expected);
	if (ok && json[0] == '{' && strcmp(got, "as it was") != 0)
		CHECK(strstr(conf_str(conf, "quantization_config", ""), expected) != NULL, "%s: %s", option,
			  conf_str(conf, "quantization_config", ""));
	conf_free(conf);
}

static void
test_option(void)
{
	static const char none[] = "{\"quant_method\":null,\"bits\":4}";
	static const char nf4[] = "{\"quant_method\":\"bitsandbytes\",\"bnb_4bit_quant_type\":\"nf4\"}";
	static const char int8[] = "{\"quant_method\":\"bitsandbytes\",\"load_in_8bit\":true}";

	named(GPTQ, "gptq", ERR_NONE, "as it was");
	named(GPTQ, "gptq_marlin", ERR_NONE, "as it was");
	named(GPTQ, "moe_wna16", ERR_NONE, "as it was");
	named(GPTQ, "awq", ERR_INVALID, "\"dir\" is quantized by gptq, but its option \"quantization\" is awq");
	named("{\"quant_method\":\"aqlm\"}", "gptq", ERR_INVALID, "by aqlm, but");
	named("{\"quant_method\":4}", "gptq", ERR_INVALID, "by another method, but");
	named(none, "gptq", ERR_NONE, "gptq");
	named(none, "awq_marlin", ERR_NONE, "awq");
	named(none, "moe_wna16", ERR_NONE, "gptq");
	named("{\"w_bit\":4}", "moe_wna16", ERR_NONE, "awq");
	named("{\"w_bit\":4}", "inc", ERR_NONE, "auto-round");
	named("{\"desc_act\":true}", "bitblas", ERR_NONE, "gptq");
	named(none, "gguf", ERR_INVALID, "by another method, but");
	named(nf4, "nf4", ERR_NONE, "as it was");
	named(nf4, "bitsandbytes", ERR_NONE, "as it was");
	named(int8, "bitsandbytes", ERR_NONE, "as it was");
	named(int8, "nf4", ERR_INVALID, "by bitsandbytes with 8 bits, but");
	named("gguf", "gguf", ERR_NONE, "as it was");
	named("gguf", "fp8", ERR_INVALID, "by GGUF, but its option \"quantization\" is fp8");
	named("", "bitsandbytes", ERR_UNSUPPORTED, "\"dir\" is not quantized, and can't be");
	named("{\"quant_method\":null}", "fp8", ERR_UNSUPPORTED, "on loading by fp8");
	CHECK(ckpt_is_method("fp8") && ckpt_is_method("nf4") && ckpt_is_method("gguf") &&
		  !ckpt_is_method("int8") && !ckpt_is_method(""), "names");
}

/* A pattern that would take forever is stopped. */
static void
test_patterns(void)
{
	Fake		f = {0};
	static char json[2000] = "{\"quant_method\":\"gptq\",\"group_size\":32,"
							 "\"dynamic\":{\"((m*)*)*((m*)*)*((m*)*)*x\":{\"bits\":4}}}";
	const KTensor *t;
	Ckpt	   *c;
	Err			e;

	make_gptq(&f);
	try(&f, json, &t, &c, &e);
	CHECK(t != NULL || e.cls == ERR_BAD_FILE, "a pattern: %s", e.msg);
	ckpt_close(c);
	clear(&f);
}

int
main(void)
{
	RUN(test_configurations());
	RUN(test_ignored());
	RUN(test_gptq());
	RUN(test_compressed());
	RUN(test_stacked_zeros());
	RUN(test_floats());
	RUN(test_offer());
	RUN(test_bnb());
	RUN(test_four_bnb());
	RUN(test_four_nvfp4());
	RUN(test_layouts());
	RUN(test_hqq());
	RUN(test_torchao());
	RUN(test_quark());
	RUN(test_option());
	RUN(test_patterns());
	return check_done("test_ckpt");
}
