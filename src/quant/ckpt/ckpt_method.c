/*
 * ckpt_method.c
 *	  Find the method of a quantized checkpoint: the table of methods, and their names.
 *
 * The method is named by the configuration, or recognized by keys that only one method has, or named by
 * the model option "quantization".  The option changes nothing for a checkpoint that names its method:
 * it must agree.
 *
 * Tested by tests/unit/quant/ckpt/test_ckpt.c.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/json/json.h"
#include "quant/ckpt/ckpt_internal.h"
#include "quant/quantize.h"

static const CkptMethod methods[] = {
#define CKPT(names, also, open, matrix) {names, also, open, matrix},
#include "quant/ckpt/ckpt.def"
#undef CKPT
};

#define N_METHODS (sizeof(methods) / sizeof(methods[0]))

/* Return "gptq, awq, ...". */
static const char *
method_list(void)
{
	static char list[256];

	/* idempotent: every thread writes the same */
	if (list[0] == '\0')
	{
		size_t		at = 0;
		char		text[sizeof(list)];

		for (size_t i = 0; i < N_METHODS && at < sizeof(text); i++)
			at += (size_t) snprintf(text + at, sizeof(text) - at, "%s%.*s", i > 0 ? ", " : "",
									(int) strcspn(methods[i].names, " "), methods[i].names);
		memcpy(list, text, sizeof(list));
	}
	return list;
}

/* Return the method with this name in files. */
static const CkptMethod *
find_method(const char *name)
{
	for (size_t i = 0; i < N_METHODS; i++)
		if (ckpt_word_number(methods[i].names, name) >= 0)
			return &methods[i];
	return NULL;
}

/* Return true if this is a name of the method, in files or as an option. */
static bool
is_name_of(const CkptMethod *m, const char *name)
{
	return ckpt_word_number(m->names, name) >= 0 || ckpt_word_number(m->also, name) >= 0;
}

/* Return the method of a configuration that doesn't name it, by keys that only one method has; NULL if
 * there are none. */
static const char *
infer_method(const Json *conf)
{
	static const char *const markers[][2] = {
		{"quant_algo", "modelopt"}, {"quantization", "modelopt"}, {"w_bit", "awq"}, {"q_group_size", "awq"},
		{"zero_point", "awq"}, {"packing_format", "auto-round"}, {"desc_act", "gptq"},
		{"checkpoint_format", "gptq"}, {"config_groups", "compressed-tensors"}, {"weight_block_size", "fp8"}
	};

	for (size_t i = 0; i < sizeof(markers) / sizeof(markers[0]); i++)
		if (ckpt_get(conf, markers[i][0]) != NULL)
			return markers[i][1];
	return NULL;
}

bool
ckpt_is_empty(const Json *conf)
{
	const Json *v;

	json_each(v, conf)
		if (!ckpt_says_nothing(v))
			return false;
	return json_is_object(conf);
}

/* Return the method's name; NULL if there is none or it is no text. */
static const char *
method_name(const Json *conf)
{
	const Json *name = ckpt_get(conf, "quant_method");

	return name == NULL ? infer_method(conf) : json_is_string(name) ? name->s : NULL;
}

const CkptMethod *
ckpt_method(const Json *conf, char *name, size_t size, Err *e)
{
	const Json *said = ckpt_get(conf, "quant_method");
	const char *s = method_name(conf);
	const CkptMethod *m = s != NULL ? find_method(s) : NULL;
	char		buf[80];

	if (m != NULL)
	{
		snprintf(name, size, "%s", s);
		return m;
	}
	err_set(e, ERR_UNSUPPORTED, "quantization method %s is not supported",
			said != NULL ? ckpt_show(said, buf, sizeof(buf)) : "\"\"");
	err_hint(e, "Supported methods are: %s", method_list());
	return NULL;
}

/* ---- the model option "quantization" ---- */

bool
ckpt_is_method(const char *name)
{
	bool		is = strcmp(name, "gguf") == 0;

	for (size_t i = 0; i < N_METHODS && !is; i++)
		is = is_name_of(&methods[i], name);
	return is;
}

const char *
ckpt_method_list(void)
{
	return method_list();
}

static bool
differs(const char *where, const char *is, const char *option, Err *e)
{
	err_set(e, ERR_INVALID, "model \"%s\" is quantized by %.60s, but its option \"quantization\" is %s",
			where, is, option);
	return err_hint(e, "Leave out the option: the files say how they are quantized.");
}

/* Report that the model isn't quantized.  vLLM would quantize on loading; the hint names the schemes
 * that do this here. */
static bool
not_quantized(const char *where, const char *option, Err *e)
{
	bool		bytes = strcmp(option, "fp8") == 0 || strcmp(option, "fbgemm_fp8") == 0;

	err_set(e, ERR_UNSUPPORTED, "model \"%s\" is not quantized, and can't be quantized on loading by %s",
			where, option);
	err_detail(e, "The option names the method of a quantized checkpoint, or one of %s.",
			   quant_scheme_list());
	return err_hint(e, bytes ? "Quantization on loading with 8 bits is int8 or q8_0." :
					"Quantization on loading with 4 bits is int4, with 8 bits int8 or q8_0.");
}

/* Choose the name for a configuration that has none: the method it looks like if the option is one of
 * its names, else the option's. */
static void
name_for(const Json *conf, const char *option, char *name, size_t size)
{
	const char *inferred = infer_method(conf);
	bool		fits = inferred != NULL && is_name_of(find_method(inferred), option);

	ALWAYS(ckpt_is_method(option));	/* the parser of the options has checked it */
	snprintf(name, size, "%s", fits ? inferred : option);
	for (size_t i = 0; i < N_METHODS && find_method(name) == NULL; i++)
		if (is_name_of(&methods[i], option))
			snprintf(name, size, "%.*s", (int) strcspn(methods[i].names, " "), methods[i].names);
}

/* Check the option "nf4": bitsandbytes has several kinds of codes, and this is the name of one of
 * them. */
static bool
codes_agree(const Json *conf, const char *where, const char *option, Err *e)
{
	const Json *type = ckpt_get(conf, "bnb_4bit_quant_type");
	bool		bytes = json_is_true(ckpt_get(conf, "load_in_8bit"));

	if (strcmp(option, "nf4") != 0 || (!bytes && json_is_string(type) && strcmp(type->s, "nf4") == 0))
		return true;
	return differs(where, bytes ? "bitsandbytes with 8 bits" : "bitsandbytes with other codes", option, e);
}

bool
ckpt_set_method(Conf *conf, const char *where, const char *option, Err *e)
{
	const char *text = conf_str(conf, "quantization_config", NULL);
	Json	   *root = text != NULL ? json_parse(text, strlen(text)) : NULL;
	const Json *said = ckpt_get(root, "quant_method");
	bool		is_gguf = conf_has(conf, "gguf.architecture");
	bool		ok = true;

	if (is_gguf)
		ok = strcmp(option, "gguf") == 0 || differs(where, "GGUF", option, e);
	else if (root == NULL || ckpt_is_empty(root))
		ok = not_quantized(where, option, e);
	else if (json_is_string(said))
		ok = (find_method(said->s) != NULL && is_name_of(find_method(said->s), option)) ||
			differs(where, said->s, option, e);
	else if (said == NULL && strcmp(option, "gguf") != 0)
	{
		char		name[CKPT_MAX_METHOD];

		name_for(root, option, name, sizeof(name));
		json_remove(root, "quant_method");
		json_add_str(root, "quant_method", name);
		conf_set_str(conf, "quantization_config.quant_method", name);
	}
	else
		ok = differs(where, "another method", option, e);
	if (ok && !is_gguf && (ok = codes_agree(root, where, option, e)) && said == NULL)
	{
		char	   *changed = json_print(root);

		conf_set_str(conf, "quantization_config", changed);
		mem_free(changed);
	}
	json_free(root);
	return ok;
}
