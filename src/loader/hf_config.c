/*
 * hf_config.c
 *	  The JSON files of a Hugging Face directory.
 *
 * config.json becomes Conf entries under its own key names, nested objects joined by dots
 * ("rope_scaling.factor"); "quantization_config", which src/quant reads, is kept as JSON text.
 * generation_config.json is read the same way under the prefix "generation.".  Arrays are kept if all
 * elements are numbers or all are strings. tokenizer.json (or what other libraries have instead) and
 * tokenizer_config.json are kept as bytes for src/text, the latter merged with special_tokens_map.json
 * and added_tokens.json.  Only chat templates are extracted here, since this file knows all their
 * places: chat_template.jinja and additional_chat_templates, chat_template.json, tokenizer_config.json.
 *
 * Tested by tests/unit/loader/test_load_conf.c and tests/fuzz/fuzz_config.c.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json/json.h"
#include "quant/ckpt/ckpt.h"
#include "loader/hf_config.h"

#define MAX_KEYS 4096			/* Conf searches linearly */
#define MAX_KEY 255				/* bytes of a dotted key */
#define MAX_ARRAY 65536

/* Read a number; transformers writes an infinite one as {"__float__": "Infinity"}. */
static bool
number_of(const Json *x, double *v)
{
	const char *s = json_str_of(json_get(x, "__float__"));

	*v = s != NULL ? strtod(s, NULL) : x->num;
	return s != NULL || json_is_number(x);
}

static void
flatten_array(Conf *c, const char *key, const Json *v)
{
	const Json *x;
	size_t		n = 0;
	size_t		n_nums = 0;
	size_t		n_strs = 0;
	double		num;

	json_each(x, v)
	{
		n++;
		n_nums += number_of(x, &num);
		n_strs += json_is_string(x);
	}
	if (n == 0 || n > MAX_ARRAY)
		return;
	if (n_nums == n)
	{
		double	   *a = mem_alloc(n * sizeof(double));

		n = 0;
		json_each(x, v)
			number_of(x, &a[n++]);
		conf_set_nums(c, key, a, n);
		mem_free(a);
	}
	else if (n_strs == n)
	{
		const char **a = mem_alloc(n * sizeof(char *));

		n = 0;
		json_each(x, v)
			a[n++] = x->s;
		conf_set_strs(c, key, a, n);
		mem_free(a);
	}
}

/* Store how the weights are quantized as text for src/quant/ckpt/ckpt.c: its keys may be names of
 * modules and patterns, which don't fit the dotted keys.  The method is stored as an entry, too; the
 * rest of the engine needs only that. */
static void
put_quantization(Conf *c, const Json *v)
{
	char	   *text = json_print(v);
	const char *method = json_str_of(json_get(v, "quant_method"));

	if (text != NULL)
		conf_set_str(c, "quantization_config", text);
	if (method != NULL)
		conf_set_str(c, "quantization_config.quant_method", method);
	mem_free(text);
}

static bool
is_quantization(const char *key)
{
	return strcmp(key, "quantization_config") == 0 || strcmp(key, "compression_config") == 0 ||
		strcmp(key, "text_config.quantization_config") == 0;
}

/* Add an object's entries under a prefix.  MAX_KEY bounds the recursion: each level adds a dot to the
 * key. */
static bool
flatten(Conf *c, const char *prefix, const Json *obj, int *budget)
{
	const Json *v;

	json_each(v, obj)
	{
		char		key[MAX_KEY + 1];

		if (snprintf(key, sizeof(key), "%s%s", prefix, v->key) > MAX_KEY - 1 || --*budget < 0)
			return false;
		if (json_is_bool(v))
			conf_set_bool(c, key, json_is_true(v));
		else if (json_is_number(v))
			conf_set_num(c, key, v->num);
		else if (json_is_string(v))
			conf_set_str(c, key, v->s);
		else if (json_is_null(v))
			conf_set_null(c, key);
		else if (json_is_array(v))
			flatten_array(c, key, v);
		else if (json_is_object(v) && is_quantization(key))
			put_quantization(c, v);
		else if (json_is_object(v))
		{
			strcat(key, ".");
			if (!flatten(c, key, v, budget))
				return false;
		}
	}
	return true;
}

/*
 * Rewrite JSON that Python wrote with the word Infinity: replace the word by a number that overflows to
 * infinity.  Return NULL if the word isn't in the text.
 */
static char *
without_infinity(const char *json, size_t len)
{
	static const char word[] = "Infinity";
	size_t		n = sizeof(word) - 1;
	char	   *copy = NULL;
	bool		quoted = false;

	for (size_t i = 0; i + n <= len; i++)
	{
		if (json[i] == '\\' && quoted)
			i++;
		else if (json[i] == '"')
			quoted = !quoted;
		else if (!quoted && memcmp(json + i, word, n) == 0)
		{
			if (copy == NULL)
			{
				copy = mem_alloc(len + 1);
				memcpy(copy, json, len);
				copy[len] = '\0';
			}
			memcpy(copy + i, "1e999   ", n);
		}
	}
	return copy;
}

bool
hfconfig_parse(Conf *c, const char *prefix, const char *json, size_t len, const char *path, Err *e)
{
	size_t		at;
	char	   *copy;
	const char *text;
	Json	   *root;
	int			budget = MAX_KEYS;
	bool		ok;

	if (!files_json_ok(path, json, len, FILES_JSON_CONFIG, e))
		return false;
	copy = without_infinity(json, len);
	text = copy != NULL ? copy : json;
	root = json_parse_at(text, len, &at);
	ok = json_is_object(root);
	if (!ok)
	{
		err_set(e, ERR_BAD_FILE, "file \"%s\" is not a JSON object", path);
		if (root == NULL)
			err_detail(e, "Invalid JSON at byte %zu.", at);
	}
	else if (!(ok = flatten(c, prefix, root, &budget)))
		err_set(e, ERR_BAD_FILE, "file \"%s\" has more than %d keys, or one longer than %d bytes",
				path, MAX_KEYS, MAX_KEY - 1);
	json_free(root);
	mem_free(copy);
	return ok;
}

bool
files_set_rope(Files *f, const char *rope_scaling, double rope_theta, Err *e)
{
	if (rope_theta > 0)
		conf_set_num(f->conf, "override.rope_theta", rope_theta);
	return rope_scaling[0] == '\0' ||
		hfconfig_parse(f->conf, "override.rope_scaling.", rope_scaling, strlen(rope_scaling), "rope_scaling",
					   e);
}

bool
files_override(Files *f, const char *json, Err *e)
{
	return json[0] == '\0' || hfconfig_parse(f->conf, "", json, strlen(json), "hf_overrides", e);
}

bool
files_set_quantization(Files *f, const char *method, Err *e)
{
	return method[0] == '\0' || ckpt_set_method(f->conf, f->path, method, e);
}

void
files_lift(Files *f, const char *prefix)
{
	conf_lift(f->conf, prefix);
}

void
files_set_nums(Files *f, const char *key, const double *v, size_t n)
{
	conf_set_nums(f->conf, key, v, n);
}

/* Read an optional or required configuration file. */
static bool
read_config(Files *f, const char *name, const char *prefix, bool required, Err *e)
{
	char	   *path = files_join(f->root, name);
	Buf			text = {0};
	bool		ok = true;

	if (required || files_exists(path))
		ok = files_slurp(path, FILES_MAX_CONFIG, &text, e) &&
			hfconfig_parse(f->conf, prefix, text.data, text.len, path, e);
	if (!ok && required && !files_exists(path))
		err_hint(e, "A model is a directory with config.json, tokenizer.json and "
				 "*.safetensors files, or a GGUF file.");
	buf_free(&text);
	mem_free(path);
	return ok;
}

static bool
slurp_optional(Files *f, const char *name, size_t limit, Buf *out, Err *e)
{
	char	   *path = files_join(f->root, name);
	bool		ok = !files_exists(path) || files_slurp(path, limit, out, e);

	mem_free(path);
	return ok;
}

/* Read a file like files_slurp() and check that its JSON may be parsed. */
static bool
slurp_json(Files *f, const char *name, size_t limit, size_t max_values, Buf *out, Err *e)
{
	char	   *path = files_join(f->root, name);
	bool		ok = slurp_optional(f, name, limit, out, e) &&
		(out->data == NULL || files_json_ok(path, out->data, out->len, max_values, e));

	mem_free(path);
	return ok;
}

/* Add the templates of a "chat_template" value: a string, or an array of {"name", "template"}. */
static void
take_templates(Files *f, const Buf *json)
{
	Json	   *root = json->data != NULL ? json_parse(json->data, json->len) : NULL;
	const Json *v = json_get(root, "chat_template");
	const Json *x;

	if (json_is_string(v))
		files_add_template(f, "default", 7, v->s, strlen(v->s));
	else if (json_is_array(v))
		json_each(x, v)
		{
			const char *name = json_str_of(json_get(x, "name"));
			const char *text = json_str_of(json_get(x, "template"));

			if (name != NULL && text != NULL)
				files_add_template(f, name, strlen(name), text, strlen(text));
		}
	json_free(root);
}

/* Add a template from its own file, if that exists. */
static bool
read_template(Files *f, const char *file, const char *name, size_t name_len, Err *e)
{
	Buf			text = {0};
	bool		ok = slurp_optional(f, file, FILES_MAX_CONFIG, &text, e);

	if (ok && text.data != NULL)
		files_add_template(f, name, name_len, text.data, text.len);
	buf_free(&text);
	return ok;
}

/* Add additional_chat_templates/NAME.jinja. */
static bool
read_named_templates(Files *f, Err *e)
{
	static const char folder[] = "additional_chat_templates";
	char	   *path = files_join(f->root, folder);
	DIR		   *dir = opendir(path);
	struct dirent *entry;
	bool		ok = true;

	while (ok && dir != NULL && f->n_templates < FILES_MAX_TEMPLATES && (entry = readdir(dir)) != NULL)
	{
		size_t		n = strlen(entry->d_name);

		if (n > 6 && strcmp(entry->d_name + n - 6, ".jinja") == 0)
		{
			char	   *file = files_join(folder, entry->d_name);

			ok = read_template(f, file, entry->d_name, n - 6, e);
			mem_free(file);
		}
	}
	if (dir != NULL)
		closedir(dir);
	mem_free(path);
	return ok;
}

/* Read the templates as transformers does: if there are template files, other places don't count. */
static bool
read_templates(Files *f, Err *e)
{
	Buf			json = {0};
	bool		ok = read_template(f, "chat_template.jinja", "default", 7, e) && read_named_templates(f, e);

	if (ok && f->n_templates == 0)
	{
		ok = slurp_json(f, "chat_template.json", FILES_MAX_CONFIG, FILES_JSON_CONFIG, &json, e);
		take_templates(f, &json);
	}
	if (ok && f->n_templates == 0)
		take_templates(f, &f->tok_config);
	buf_free(&json);
	return ok;
}

/* Read an optional file with a JSON object; *out = NULL if the file doesn't exist. */
static bool
read_object(Files *f, const char *name, Json **out, Err *e)
{
	Buf			text = {0};
	bool		ok = slurp_json(f, name, FILES_MAX_CONFIG, FILES_JSON_TOK_CONFIG, &text, e);

	*out = NULL;
	if (ok && text.data != NULL)
	{
		*out = json_parse(text.data, text.len);
		if (!json_is_object(*out))
			ok = err_set(e, ERR_BAD_FILE, "file \"%s/%s\" is not a JSON object", f->root, name);
	}
	buf_free(&text);
	return ok;
}

/* Keys for single tokens and for lists of tokens. */
static const char *const token_names[] = {
	"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token",
	"additional_special_tokens", "extra_special_tokens"
};

#define N_TOKEN_NAMES	(sizeof(token_names) / sizeof(token_names[0]))

/* Convert {"<|im_end|>": 32000} to the form of "added_tokens_decoder".  A token that
 * special_tokens_map.json names is special. */
static void
add_decoder(Json *config, const Json *added)
{
	Json	   *decoder;
	const char *named[N_TOKEN_NAMES];
	const Json *x;
	char		id[32];

	for (size_t i = 0; i < N_TOKEN_NAMES; i++)
	{
		x = json_get(config, token_names[i]);
		named[i] = json_str_of(json_is_object(x) ? json_get(x, "content") : x);
	}
	decoder = json_add(config, "added_tokens_decoder", JSON_IS_OBJECT);
	json_each(x, added)
	{
		Json	   *token;
		bool		special = false;

		if (!json_is_number(x) || !(x->num >= 0 && x->num < INT32_MAX))
			continue;
		for (size_t i = 0; i < N_TOKEN_NAMES; i++)
			special |= named[i] != NULL && strcmp(named[i], x->key) == 0;
		snprintf(id, sizeof(id), "%d", (int) x->num);
		token = json_add(decoder, id, JSON_IS_OBJECT);
		json_add_str(token, "content", x->key);
		json_add_bool(token, "special", special);
	}
}

/*
 * Older checkpoints name special tokens in special_tokens_map.json, and added ones in added_tokens.json.
 * As in transformers these files take precedence over tokenizer_config.json, unless that file lists the
 * added tokens itself.
 */
static bool
read_special_tokens(Files *f, Err *e)
{
	Json	   *map = NULL;
	Json	   *added = NULL;
	Json	   *config = f->tok_config.data != NULL ? json_parse(f->tok_config.data, f->tok_config.len) :
		json_new(JSON_IS_OBJECT);
	bool		ok = true;

	if (json_is_object(config) && json_get(config, "added_tokens_decoder") == NULL)
		ok = read_object(f, "special_tokens_map.json", &map, e) &&
			read_object(f, "added_tokens.json", &added, e);
	for (size_t i = 0; ok && i < N_TOKEN_NAMES; i++)
	{
		const Json *x = json_get(map, token_names[i]);

		if (x == NULL)
			continue;
		json_remove(config, token_names[i]);
		json_add_copy(config, token_names[i], x);
	}
	if (ok && added != NULL)
		add_decoder(config, added);
	if (ok && (map != NULL || added != NULL))
	{
		char	   *text = json_print(config);

		buf_reset(&f->tok_config);
		buf_addstr(&f->tok_config, text != NULL ? text : "{}");
		mem_free(text);
	}
	json_free(map);
	json_free(added);
	json_free(config);
	return ok;
}

/* Read the first of the vocabulary files that exists. */
static bool
read_vocabulary(Files *f, Err *e)
{
	static const struct
	{
		const char *name;
		FilesTokKind kind;
	}			row[] = {
		{"tokenizer.json", FILES_TOK_HF}, {"tekken.json", FILES_TOK_TEKKEN},
		{"tokenizer.model", FILES_TOK_SPM},
		{"qwen.tiktoken", FILES_TOK_TIKTOKEN}, {"tiktoken.model", FILES_TOK_TIKTOKEN}
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]) && f->tok_json.data == NULL; i++)
	{
		bool		json = row[i].kind == FILES_TOK_HF || row[i].kind == FILES_TOK_TEKKEN;

		f->tok_kind = row[i].kind;
		if (json ? !slurp_json(f, row[i].name, FILES_MAX_TOKENIZER, FILES_JSON_TOKENIZER, &f->tok_json, e) :
			!slurp_optional(f, row[i].name, FILES_MAX_TOKENIZER, &f->tok_json, e))
			return false;
	}
	/* A SentencePiece file begins with the tag of its first piece; a tiktoken file may have the same
	 * name. */
	if (f->tok_kind == FILES_TOK_SPM && f->tok_json.len > 0 && f->tok_json.data[0] != '\n')
		f->tok_kind = FILES_TOK_TIKTOKEN;
	return true;
}

static bool
read_tokenizer(Files *f, Err *e)
{
	return read_vocabulary(f, e) && slurp_json(f, "tokenizer_config.json", FILES_MAX_CONFIG,
											   FILES_JSON_TOK_CONFIG, &f->tok_config, e) &&
		read_special_tokens(f, e) && read_templates(f, e);
}

/*
 * Some tools write a separate file instead of config.json's "quantization_config": ModelOpt, AutoGPTQ
 * and AutoAWQ (which leave the method out).
 */
static bool
read_quantization(Files *f, Err *e)
{
	static const char *const files[][2] = {
		{"hf_quant_config.json", "modelopt"}, {"quantize_config.json", "gptq"}, {"quant_config.json", "awq"}
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && !conf_has(f->conf, "quantization_config"); i++)
	{
		Buf			text = {0};
		Json	   *root = NULL;
		bool		ok = slurp_json(f, files[i][0], FILES_MAX_CONFIG, FILES_JSON_CONFIG, &text, e);

		if (ok && text.data != NULL)
		{
			root = json_parse(text.data, text.len);
			if (!(ok = json_is_object(root)))
				err_set(e, ERR_BAD_FILE, "file \"%s/%s\" is not a JSON object", f->root, files[i][0]);
			else if (json_get(root, "quant_method") == NULL || json_is_null(json_get(root, "quant_method")))
			{
				json_remove(root, "quant_method");
				json_add_str(root, "quant_method", files[i][1]);
			}
		}
		if (ok && root != NULL)
			put_quantization(f->conf, root);
		json_free(root);
		buf_free(&text);
		if (!ok)
			return false;
	}
	return true;
}

bool
hfconfig_read(Files *f, Err *e)
{
	if (!read_config(f, "config.json", "", true, e))
		return false;
	/* for a model that also takes images, use the configuration of its text part */
	conf_lift(f->conf, "text_config.");
	return read_quantization(f, e) && read_config(f, "generation_config.json", "generation.", false, e) &&
		read_tokenizer(f, e);
}
