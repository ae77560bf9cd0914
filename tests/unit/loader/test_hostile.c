/*
 * test_hostile.c
 *	  Model files that once crashed the loader, each reduced to its cause.  tests/fuzz found them; each
 *	  must be refused with an error.
 */
#include <string.h>

#include "tests/unit/check.h"
#include "loader/hf_config.h"
#include "quant/ckpt/ckpt.h"
#include "tokenizer/tokenizer.h"

static const KTensor *
find_nothing(void *ctx, const char *name)
{
	(void) ctx;
	(void) name;
	return NULL;
}

/* Lists instead of objects: their elements have no names. */
static void
test_quantization(void)
{
	static const char *const row[] = {
		"{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32,\"dynamic\":[{\"bits\":8}]}",
		"{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32,\"dynamic\":{\"a\":[1]}}",
		"{\"quant_method\":\"auto-round\",\"bits\":4,\"group_size\":32,\"sym\":true,"
		"\"packing_format\":\"auto_round:auto_gptq\",\"extra_config\":[{}]}",
		"{\"quant_method\":\"auto-round\",\"bits\":4,\"group_size\":32,\"sym\":true,"
		"\"packing_format\":\"auto_round:auto_gptq\",\"extra_config\":{\"a\":[1]}}",
		"{\"quant_method\":\"compressed-tensors\",\"config_groups\":{\"a\":{\"weights\":[1]}}}",
		"{\"quant_method\":\"modelopt\",\"quant_algo\":\"FP8\",\"quantized_layers\":{\"a\":[\"x\"]}}",
		"{\"quant_method\":\"quark\",\"global_quant_config\":[1]}",
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
	{
		Conf	   *c = conf_new();
		CkptFiles	files = {.find = find_nothing};
		Ckpt	   *ckpt = NULL;
		Err			e = {0};

		conf_set_str(c, "quantization_config", row[i]);
		CHECK(!ckpt_open(c, &files, &ckpt, &e) && (e.cls == ERR_BAD_FILE || e.cls == ERR_UNSUPPORTED) &&
			  e.msg[0] != '\0', "%s: \"%s\"", row[i], e.msg);
		ckpt_close(ckpt);
		conf_free(c);
	}
}

static void
test_tokenizers(void)
{
	static const char *const row[] = {
		"{\"model\":{\"type\":\"BPE\",\"vocab\":[1,2],\"merges\":[]}}",
		"{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"a\",\"vocab\":[0]}}",
		"{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"a\",\"vocab\":[0]}}",
	};
	static const char config[] = "{\"tokenizer_class\":\"QWenTokenizer\","
								 "\"added_tokens_decoder\":[{\"content\":\"a\"}]}";
	static const char kimi[] = "{\"tokenizer_class\":\"TikTokenTokenizer\","
							   "\"added_tokens_decoder\":[{\"content\":\"a\"}]}";
	static const uint8_t spm[] = {0x0A, 0x00, 0x12, 0x00, 0x1A, 0x00};	/* empty parts */
	Err			e = {0};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
	{
		e = (Err) {0};
		CHECK(tok_from_hf(row[i], strlen(row[i]), NULL, 0, &e) == NULL && e.cls == ERR_BAD_FILE, "%s: \"%s\"",
			  row[i], e.msg);
	}
	e = (Err) {0};
	CHECK(tok_from_tiktoken("YQ== 0\n", 7, config, sizeof(config) - 1, &e) == NULL && e.msg[0] != '\0', "%s",
		  e.msg);
	e = (Err) {0};
	CHECK(tok_from_tiktoken("YQ== 0\n", 7, kimi, sizeof(kimi) - 1, &e) == NULL && e.cls == ERR_BAD_FILE, "%s",
		  e.msg);
	e = (Err) {0};
	CHECK(tok_from_spm(spm, sizeof(spm), NULL, 0, &e) == NULL && e.msg[0] != '\0', "%s", e.msg);
}

int
main(void)
{
	RUN(test_quantization());
	RUN(test_tokenizers());
	return check_done("test_hostile");
}
