/*
 * test_model_options.c
 *	  model_options.def: each option is read, and instances of a model differ by it unless its row says
 *	  otherwise.
 */
#include "server/models/registry.h"

#include <float.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "tests/unit/check.h"

/* Two values of each option for which its type does not give them. */
static const struct
{
	const char *name;
	const char *one,
			   *other;
}			samples[] = {
	{"kv_cache_dtype", "\"fp8\"", "\"int8\""},
	{"quantization", "\"int8\"", "\"q4_0\""},
	{"dtype", "\"float32\"", "\"bfloat16\""},
	{"activation_scheme", "\"float\"", "\"auto\""},
	{"rope_scaling", "{\"rope_type\":\"yarn\",\"factor\":2}", "{\"rope_type\":\"yarn\",\"factor\":4}"},
	{"hf_overrides", "{\"a\":1}", "{\"a\":2}"},
	{"keep_alive", "5", "\"5min\""},
	{"scheduling_weight", "50", "200"},
	{"cudagraph_capture_sizes", "[1,2]", "[1,2,4]"},
	{"speculative_config", "{\"method\":\"ngram\",\"num_speculative_tokens\":2}", "false"},
	{"lora_dtype", "\"float16\"", "\"bfloat16\""},
	{"max_lora_rank", "8", "16"},
	{"gpu_memory_utilization", "0.5", "0.75"},
	{"rope_theta", "10000", "1e6"},
	{"kv_cache_memory_bytes", "65536", "70368744177664"},
	{"chat_template", "\"a\"", "\"b\""},
	{"content_format", "\"string\"", "\"openai\""},
	{"tool_call_parser", "\"hermes\"", "\"mistral\""},
	{"reasoning_parser", "\"deepseek_r1\"", "\"qwen3\""},
	{"exclude_tools_when_tool_choice_none", "true", "false"},
	{"prices", "{}", "{\"input\":1}"},
	{"fallback", "\"a\"", "\"b\""},
	{"cascade", "{}", "{\"to\":\"b\"}"},
	{"result_cache", "true", "false"},
};

typedef enum Kind
{
	INT, BIG, NUM, SWITCH, OFF, TEXT, SIZES, SECONDS, ELSEWHERE, CALLER
} Kind;

enum
{
	NO_KEY, KEY, VECTORS
};

static const struct
{
	const char *name;
	Kind		kind;
	int			key;
	double		least,
				most;
}			rows[] = {
#define OPT(name, type, member, least, most, key, must) {#name, type, key, least, most},
#include "runtime/model_options.def"
#undef OPT
};
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

/* The members of ModelOpts that the rows define. */
typedef struct RowsAlone
{
#define OPT(name, type, member, least, most, key, must) OPT_MEMBER_##type(member, most)
#include "runtime/model_options.def"
#undef OPT
} RowsAlone;

static char *
key_of(const char *json)
{
	ModelOpts	o;
	Err			e = {0};
	Buf			key = {0};

	CHECK(model_opts_parse(json, &o, &e), "%s: %s", json, e.msg);
	model_opts_key(&o, &key);
	buf_addc(&key, '\0');
	return key.data;
}

static bool
values_of(size_t row, char one[128], char other[128])
{
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++)
		if (strcmp(samples[i].name, rows[row].name) == 0)
		{
			snprintf(one, 128, "%s", samples[i].one);
			snprintf(other, 128, "%s", samples[i].other);
			return true;
		}
	if (rows[row].kind == SWITCH || rows[row].kind == OFF)
	{
		strcpy(one, "true");
		strcpy(other, "false");
		return true;
	}
	snprintf(one, 128, "%.0f", rows[row].least);
	snprintf(other, 128, "%.0f", rows[row].most);
	return rows[row].kind == INT;
}

static void
check_keys(void)
{
	char	   *none = key_of("{}");

	for (size_t i = 0; i < N_ROWS; i++)
	{
		char		one[128];
		char		other[128];
		char		json[256];
		char	   *keys[3];
		bool		found = values_of(i, one, other);

		CHECK(found, "option \"%s\" has no values in samples[]", rows[i].name);
		if (!found)
			continue;
		snprintf(json, sizeof(json), "{\"%s\":%s}", rows[i].name, one);
		keys[0] = key_of(json);
		keys[1] = key_of(json);
		snprintf(json, sizeof(json), "{\"%s\":%s}", rows[i].name, other);
		keys[2] = key_of(json);
		CHECK(strcmp(keys[0], keys[1]) == 0, "\"%s\" twice: %s, %s", rows[i].name, keys[0], keys[1]);
		CHECK((strcmp(keys[0], keys[2]) != 0) == (rows[i].key != NO_KEY), "\"%s\" as %s and %s: %s, %s",
			  rows[i].name, one, other, keys[0], keys[2]);
		CHECK(rows[i].key != NO_KEY || strcmp(none, keys[0]) == 0, "\"%s\": %s", rows[i].name, keys[0]);
		for (int j = 0; j < 3; j++)
			mem_free(keys[j]);
	}
	mem_free(none);
}

/*
 * The rows that are not part of the key, written out, so that a change of this is a decision and not an
 * accident.  All others are part of it: otherwise instances that compute different results would be
 * shared.
 */
static void
check_no_keys(void)
{
	static const char *const no_key[] = {
		"keep_alive", "scheduling_weight", "chat_template", "content_format", "tool_call_parser",
		"reasoning_parser", "exclude_tools_when_tool_choice_none", "prices", "fallback", "cascade",
		"result_cache"
	};
	size_t		found = 0;

	for (size_t i = 0; i < N_ROWS; i++)
	{
		bool		listed = false;

		for (size_t j = 0; j < sizeof(no_key) / sizeof(no_key[0]); j++)
			listed = listed || strcmp(no_key[j], rows[i].name) == 0;
		found += listed;
		CHECK((rows[i].key == NO_KEY) == listed, "\"%s\" %s", rows[i].name,
			  listed ? "is no part of the key" : "must be a part of the key");
	}
	CHECK(found == sizeof(no_key) / sizeof(no_key[0]), "one of %zu is no option", found);
}

/* Texts that look like other options don't make equal keys. */
static void
check_hostile(void)
{
	char	   *a = key_of("{\"hf_overrides\":{\"a\":\"|speculative_config=4:null\"}}");
	char	   *b = key_of("{\"hf_overrides\":{\"a\":\"\"},\"speculative_config\":false}");

	CHECK(strcmp(a, b) != 0, "%s", a);
	mem_free(a);
	mem_free(b);
}

/* Values outside the range are refused, and the error has both bounds. */
static void
check_ranges(void)
{
	for (size_t i = 0; i < N_ROWS; i++)
	{
		char		json[128];
		char		want[160];
		ModelOpts	o;
		Err			e = {0};

		if (rows[i].kind != INT && rows[i].kind != BIG)
			continue;
		snprintf(want, sizeof(want), "model option \"%s\" must be an integer between %.0f and %.0f, got 0",
				 rows[i].name, rows[i].least, rows[i].most);
		snprintf(json, sizeof(json), "{\"%s\":0}", rows[i].name);
		CHECK(!model_opts_parse(json, &o, &e) && strcmp(e.msg, want) == 0, "%s", e.msg);
		snprintf(json, sizeof(json), "{\"%s\":%.0f}", rows[i].name, rows[i].most + 1);
		CHECK(!model_opts_parse(json, &o, &e) && strncmp(e.msg, want, strlen(want) - 1) == 0, "%s", e.msg);
		snprintf(json, sizeof(json), "{\"%s\":%.0f.5}", rows[i].name, rows[i].least);
		CHECK(!model_opts_parse(json, &o, &e), "%s", json);
	}
}

int
main(void)
{
	ModelOpts	o;
	Err			e = {0};

	check_keys();
	check_no_keys();
	check_hostile();
	check_ranges();
	/* ModelOpts has only the rows' members and the two pointers: another member would not be in the key */
	CHECK(offsetof(ModelOpts, for_adopt) == (sizeof(RowsAlone) + 7) / 8 * 8 &&
		  sizeof(ModelOpts) == offsetof(ModelOpts, for_adopt) + 16, "ModelOpts has a member of no row");
	CHECK(!model_opts_parse("{\"max_lora_rank\":3}", &o, &e) && strstr(e.msg, "must be one of") != NULL,
		  "%s", e.msg);
	CHECK(!model_opts_parse("{\"no_such\":3}", &o, &e) &&
		  strstr(e.hint, ", cascade and result_cache.") != NULL,
		  "%s", e.hint);
	return check_done("test_model_options");
}
