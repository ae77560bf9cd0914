/*
 * test_rope.c
 *	  RoPE frequencies of each scaling against values computed by the reference (transformers), invalid
 *	  parameters, and the table of cos and sin.
 */
#include <math.h>
#include <string.h>

#include "model/layers/rope.h"
#include "tests/unit/check.h"

/* transformers' inv_freq for head_dim 16 */
static const float plain[8] = {1.f, 0.316227764f, 0.100000001f, 0.0316227786f, 0.00999999978f,
0.00316227786f, 0.00100000005f, 0.000316227786f};
static const float llama3[8] = {1.f, 0.254647911f, 0.0254647899f, 0.00790569466f, 0.00249999994f,
0.000790569466f, 0.000250000012f, 7.90569466e-05f};

static const RopeKeys whole;

static void
compare(const char *what, const Conf *c, const float *want, float factor)
{
	float		f[8];
	float		mscale;
	Err			e = {0};
	bool		ok = rope_freqs(c, &whole, 16, 64, f, &mscale, &e);

	CHECK(ok, "%s: %s", what, e.msg);
	for (int i = 0; ok && i < 8; i++)
		CHECK(fabsf(f[i] - want[i] / factor) <= 6.1e-8f * f[i], "%s: frequency %d is %.9g, expected %.9g",
			  what, i, (double) f[i], (double) (want[i] / factor));
}

static void
refused(const char *what, const Conf *c, int rot_dim, ErrClass cls, const char *msg)
{
	float		f[8];
	float		mscale;
	Err			e = {0};

	CHECK(!rope_freqs(c, &whole, rot_dim, 64, f, &mscale, &e) && e.cls == cls && strstr(e.msg, msg) != NULL,
		  "%s: %s", what, e.msg);
}

static void
test_scalings(void)
{
	static const char *const prefixes[] = {"rope_scaling.", "rope_parameters."};
	Conf	   *c = conf_new();
	double		ones[8] = {2, 2, 2, 2, 2, 2, 2, 2};

	compare("nothing given", c, plain, 1);
	conf_set_num(c, "rope_theta", 10000);
	compare("theta", c, plain, 1);
	conf_set_str(c, "rope_scaling.type", "linear");
	refused("no factor", c, 16, ERR_BAD_FILE, "rope_scaling.factor");
	conf_set_num(c, "rope_scaling.factor", 0);
	refused("factor 0", c, 16, ERR_BAD_FILE, "rope_scaling.factor");
	conf_set_num(c, "rope_scaling.factor", 2.5);
	compare("linear", c, plain, 2.5f);
	conf_set_str(c, "rope_scaling.rope_type", "factors");
	refused("no factors", c, 16, ERR_BAD_FILE, "rope_scaling.factors");
	conf_set_nums(c, "rope_scaling.factors", ones, 8);
	compare("factors", c, plain, 2);
	ones[3] = 0;
	conf_set_nums(c, "rope_scaling.factors", ones, 8);
	refused("a factor of 0", c, 16, ERR_BAD_FILE, "rope_scaling.factors");
	conf_free(c);

	for (int p = 0; p < 2; p++)
	{
		char		key[96];
		static const char *const names[] = {"factor", "low_freq_factor", "high_freq_factor",
		"original_max_position_embeddings"};
		static const double values[] = {4, 1, 4, 64};

		c = conf_new();
		snprintf(key, sizeof(key), "%srope_type", prefixes[p]);
		conf_set_str(c, key, "llama3");
		for (int i = 0; i < 4; i++)
		{
			refused("a parameter is missing", c, 16, ERR_BAD_FILE, names[i]);
			snprintf(key, sizeof(key), "%s%s", prefixes[p], names[i]);
			conf_set_num(c, key, values[i]);
		}
		compare("llama3", c, llama3, 1);
		conf_set_num(c, "rope_parameters.rope_theta", -1);
		refused("negative theta", c, 16, ERR_BAD_FILE, "rope_theta");
		conf_free(c);
	}
}

/* YaRN's limits if no key gives them. */
static void
test_yarn_limits(void)
{
	Conf	   *c = conf_new();
	RopeKeys	keys = {0};
	float		f[3][32];
	float		mscale;
	Err			e = {0};

	conf_set_num(c, "max_position_embeddings", 4096);
	conf_set_str(c, "rope_scaling.rope_type", "yarn");
	conf_set_num(c, "rope_scaling.factor", 4);
	for (int i = 0; i < 3; i++)
	{
		if (i > 0)
		{
			conf_set_num(c, "rope_scaling.beta_fast", i == 1 ? 32 : 16);
			conf_set_num(c, "rope_scaling.beta_slow", 1);
		}
		CHECK(rope_freqs(c, &keys, 64, 16384, f[i], &mscale, &e), "%s", e.msg);
	}
	CHECK(memcmp(f[0], f[1], sizeof(f[0])) == 0, "not those of 32 turns and 1");
	CHECK(memcmp(f[1], f[2], sizeof(f[0])) != 0, "16 turns make no difference");
	conf_free(c);
}

/* YaRN, LongRoPE and dynamic NTK: frequencies, transformers' for head_dim 16, and parameters. */
static void
test_long(void)
{
	static const float yarn[8] = {1.0f, 0.197642356f, 0.0250000004f, 0.00790569466f, 0.00249999994f,
								  0.000790569466f, 0.000250000012f, 7.90569466e-05f};
	static const float dynamic[8] = {1.0f, 0.270296127f, 0.0730599985f, 0.0197478328f, 0.00533776265f,
									 0.00144277664f, 0.000389976922f, 0.000105409257f};
	double		two[8] = {2, 2, 2, 2, 2, 2, 2, 2};
	double		four[8] = {4, 4, 4, 4, 4, 4, 4, 4};
	Conf	   *c = conf_new();

	conf_set_num(c, "max_position_embeddings", 64);
	conf_set_str(c, "rope_scaling.rope_type", "yarn");
	conf_set_num(c, "rope_scaling.factor", 4);
	conf_set_num(c, "rope_scaling.original_max_position_embeddings", 32);
	compare("yarn", c, yarn, 1);
	conf_set_num(c, "rope_scaling.beta_fast", 0);
	refused("beta_fast 0", c, 16, ERR_BAD_FILE, "rope_scaling.beta_fast");
	conf_set_num(c, "rope_scaling.beta_fast", 32);
	conf_set_num(c, "rope_scaling.attention_factor", -1);
	refused("negative attention_factor", c, 16, ERR_BAD_FILE, "rope_scaling.attention_factor");
	conf_set_num(c, "rope_scaling.original_max_position_embeddings", 0);
	refused("trained with nothing", c, 16, ERR_BAD_FILE, "rope_scaling.original_max_position_embeddings");
	conf_free(c);

	c = conf_new();
	conf_set_num(c, "max_position_embeddings", 64);
	conf_set_str(c, "rope_scaling.type", "dynamic");
	refused("no factor", c, 16, ERR_BAD_FILE, "rope_scaling.factor");
	conf_set_num(c, "rope_scaling.factor", 2);
	compare("dynamic", c, dynamic, 1);
	conf_set_num(c, "rope_scaling.factor", 0.5);
	refused("factor below 1", c, 16, ERR_BAD_FILE, "rope_scaling.factor");
	conf_free(c);

	c = conf_new();
	conf_set_num(c, "max_position_embeddings", 64);
	conf_set_str(c, "rope_scaling.type", "no such type");
	conf_set_str(c, "override.rope_scaling.rope_type", "yarn");
	conf_set_num(c, "override.rope_scaling.factor", -4);
	refused("a bad option", c, 16, ERR_INVALID,
			"model option \"rope_scaling\" has an invalid or missing \"factor\"");
	conf_set_num(c, "override.rope_scaling.factor", 4);
	conf_set_num(c, "override.rope_scaling.original_max_position_embeddings", 32);
	conf_set_num(c, "original_max_position_embeddings", 64);
	compare("yarn as an option", c, yarn, 1);
	conf_set_num(c, "rope_theta", 7);
	conf_set_num(c, "rope_parameters.rope_theta", 8);
	conf_set_num(c, "override.rope_theta", 10000);
	compare("theta as an option", c, yarn, 1);
	conf_free(c);

	/* compare() loads for 64 positions */
	for (int longer = 0; longer < 2; longer++)
	{
		c = conf_new();
		conf_set_num(c, "max_position_embeddings", 256);
		conf_set_num(c, "original_max_position_embeddings", longer ? 63 : 64);
		conf_set_str(c, "rope_scaling.type", longer ? "su" : "longrope");
		conf_set_nums(c, "rope_scaling.short_factor", two, 8);
		conf_set_nums(c, "rope_scaling.long_factor", four, 8);
		compare(longer ? "long" : "short", c, plain, longer ? 4 : 2);
		conf_set_nums(c, longer ? "rope_scaling.long_factor" : "rope_scaling.short_factor", two, 7);
		refused("too few factors", c, 16, ERR_BAD_FILE,
				longer ? "rope_scaling.long_factor" : "rope_scaling.short_factor");
		conf_free(c);
	}
}

/* NTK-aware scaling of Alibaba's GTE. */
static void
test_ntk(void)
{
	static const float fixed[8] = {0.917004049f, 0.265914798f, 0.0771105438f, 0.0223606806f, 0.00648419792f,
								   0.00188030151f, 0.000545253861f, 0.000158113893f};
	Conf	   *c = conf_new();

	conf_set_str(c, "rope_scaling.type", "ntk");
	refused("no factor", c, 16, ERR_BAD_FILE, "rope_scaling.factor");
	conf_set_num(c, "rope_scaling.factor", 1);
	compare("ntk of 1", c, plain, 1);
	conf_set_num(c, "rope_scaling.factor", 2);
	compare("ntk", c, fixed, 1);
	conf_set_num(c, "rope_scaling.mixed_b", 0.6);
	refused("mixed ntk", c, 16, ERR_UNSUPPORTED, "mixed_b");
	conf_free(c);
}

static void
test_refusals(void)
{
	static const char *const types[] = {"ntk_by_parts", "proportional", "mrope", ""};
	Conf	   *c = conf_new();

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
	{
		char		want[64];

		conf_set_str(c, "rope_scaling.rope_type", types[i]);
		snprintf(want, sizeof(want), "type \"%s\" is not supported", types[i]);
		refused(types[i], c, 16, ERR_UNSUPPORTED, want);
	}
	conf_set_str(c, "rope_scaling.rope_type", "default");
	conf_set_num(c, "rope_scaling.llama_4_scaling_beta", 0.1);
	refused("Ministral 3", c, 16, ERR_UNSUPPORTED, "\"rope_scaling.llama_4_scaling_beta\" is not supported");
	conf_free(c);
	c = conf_new();
	refused("odd", c, 15, ERR_BAD_FILE, "head dimension");
	refused("zero", c, 0, ERR_BAD_FILE, "head dimension");
	refused("huge", c, 2048, ERR_BAD_FILE, "head dimension");
	conf_free(c);
}

static void
test_table(void)
{
	KPool	   *pool = kpool_new(2);
	static float cs[200][4][2];
	float		inv[4] = {1, 0.1f, 0.01f, 0.001f};
	double		worst = 0;

	rope_table(pool, inv, 8, 1, 200, &cs[0][0][0]);
	for (int p = 0; p < 200; p++)
		for (int i = 0; i < 4; i++)
		{
			double		a = (double) ((float) p * inv[i]);
			double		d = fabs(cs[p][i][0] - cos(a)) + fabs(cs[p][i][1] - sin(a));

			if (!(d <= worst))
				worst = d;
		}
	CHECK(worst < 1.2e-7, "error %g", worst);
	CHECK(cs[0][2][0] == 1 && cs[0][2][1] == 0, "position 0");
	kpool_free(pool);
}

int
main(void)
{
	RUN(test_scalings());
	RUN(test_long());
	RUN(test_yarn_limits());
	RUN(test_ntk());
	RUN(test_refusals());
	RUN(test_table());
	return check_done("test_rope");
}
