/*
 * stconfig.c
 *	  What sentence-transformers keeps beside a model: modules.json and the files that it names,
 *	  sentence_bert_config.json, config_sentence_transformers.json.
 *
 * They become Conf entries under "st.", which src/model and src/engine read:
 *
 *	st.pooling				keys of poolers.def, whose vectors are put side by side
 *	st.include_prompt		false: an instruction's tokens are not pooled
 *	st.by_token				true: there is no pooling, a text's tokens are what is wanted
 *	st.normalize			vectors have length 1
 *	st.dense.N.*			layers behind pooling: in_features, out_features, bias, activation_function;
 *							their tensors are st.dense.N.linear.weight and .bias
 *	st.true_token_id, st.false_token_id		a score is made of these tokens' logits
 *	st.max_seq_length, st.do_lower_case		of texts
 *	st.prompt_names, st.prompts.NAME, st.default_prompt_name	instructions before a text
 *	st.similarity_fn_name, st.activation_fn
 *
 * A module that can't be computed here is refused: leaving it out would give other vectors.
 *
 * Tested by tests/unit/test_load_st.c, tests/fuzz/fuzz_config.c and tests/golden/pool_golden.c.
 */
#include <cjson/cJSON.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "load/hfconfig.h"

#define MAX_MODULES 16
#define MAX_PROMPTS 256
#define MAX_POOLERS 8

typedef struct StRead
{
	Files	   *f;
	Err		   *e;
	int			n_dense;
	bool		pooled;
	bool		normalized;
} StRead;

/* Optional JSON: *out NULL where it is not there. */
static bool
read_json(StRead *r, const char *dir, const char *name, cJSON **out)
{
	char	   *in = files_join(r->f->path, dir);
	char	   *path = files_join(in, name);
	Buf			text = {0};
	bool		ok = true;

	*out = NULL;
	if (files_exists(path))
	{
		ok = files_slurp(path, FILES_MAX_CONFIG, &text, r->e) &&
			files_json_ok(path, text.data, text.len, FILES_JSON_CONFIG, r->e);
		if (ok && (*out = cJSON_ParseWithLength(text.data, text.len)) == NULL)
			ok = err_set(r->e, ERR_BAD_FILE, "file \"%s\" is not JSON", path);
	}
	buf_free(&text);
	mem_free(path);
	mem_free(in);
	return ok;
}

static const char *
str_of(const cJSON *o, const char *key)
{
	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
}

/* A value of an object as an entry of its own. */
static void
take(StRead *r, const cJSON *o, const char *key, const char *as)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	if (cJSON_IsBool(v))
		conf_set_bool(r->f->conf, as, cJSON_IsTrue(v));
	else if (cJSON_IsNumber(v))
		conf_set_num(r->f->conf, as, v->valuedouble);
	else if (cJSON_IsString(v))
		conf_set_str(r->f->conf, as, v->valuestring);
}

/* ---- modules ---- */

/* A module's folder: a plain name, or nothing for the model's own. */
static bool
folder_ok(const char *s)
{
	size_t		n = strlen(s);

	return n == 0 || (files_name_ok(s, n) && s[0] != '.' && strchr(s, '/') == NULL);
}

/* How the releases name the same, in the order in which vectors are put side by side. */
static const char *const modes[][2] = {
	{"cls", "pooling_mode_cls_token"}, {"max", "pooling_mode_max_tokens"}, {"mean", "pooling_mode_mean_tokens"},
	{"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens"},
	{"weightedmean", "pooling_mode_weightedmean_tokens"}, {"lasttoken", "pooling_mode_lasttoken"},
};

#define N_MODES (sizeof(modes) / sizeof(modes[0]))

/* A mode by its new name; one that isn't known stays as it is, and is refused by who computes. */
static const char *
mode_key(const char *mode)
{
	for (size_t i = 0; i < N_MODES; i++)
		if (strcmp(modes[i][0], mode) == 0)
			return modes[i][1];
	return mode;
}

static bool
read_pooling(StRead *r, const char *dir)
{
	const char *keys[MAX_POOLERS];
	size_t		n = 0;
	cJSON	   *o;
	const cJSON *mode;
	const cJSON *x;
	bool		ok = read_json(r, dir, "config.json", &o);

	if (ok && !cJSON_IsObject(o))
		ok = err_set(r->e, ERR_BAD_FILE, "model \"%s\" has no \"%s/config.json\", which says how it pools", r->f->path, dir);
	mode = cJSON_GetObjectItemCaseSensitive(o, "pooling_mode");
	if (cJSON_IsString(mode))
		keys[n++] = mode_key(mode->valuestring);
	else if (cJSON_IsArray(mode))
		cJSON_ArrayForEach(x, mode)
		{
			if (n < MAX_POOLERS && cJSON_IsString(x))
				keys[n++] = mode_key(x->valuestring);
		}
	for (size_t i = 0; i < N_MODES && !cJSON_IsString(mode) && !cJSON_IsArray(mode); i++)
		if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, modes[i][1])))
			keys[n++] = modes[i][1];
	if (n == 0)
		keys[n++] = "pooling_mode_mean_tokens";
	if (ok)
	{
		conf_set_strs(r->f->conf, "st.pooling", keys, n);
		take(r, o, "include_prompt", "st.include_prompt");
		r->pooled = true;
	}
	cJSON_Delete(o);
	return ok;
}

static bool
read_dense(StRead *r, const char *dir)
{
	static const char *const keys[] = {"in_features", "out_features", "bias", "activation_function"};
	char		name[64];
	cJSON	   *o;
	bool		ok = read_json(r, dir, "config.json", &o);

	if (ok && (!cJSON_IsObject(o) || !cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(o, "out_features"))))
		ok = err_set(r->e, ERR_BAD_FILE, "model \"%s\" has no \"%s/config.json\" with \"out_features\"", r->f->path, dir);
	if (ok && (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "use_residual")) || r->normalized))
		ok = err_set(r->e, ERR_UNSUPPORTED, "module \"%s\" of model \"%s\" is not supported: a dense layer %s", dir, r->f->path,
					 r->normalized ? "behind normalized vectors" : "with a residual connection");
	for (size_t i = 0; ok && i < sizeof(keys) / sizeof(keys[0]); i++)
	{
		snprintf(name, sizeof(name), "st.dense.%d.%s", r->n_dense, keys[i]);
		take(r, o, keys[i], name);
	}
	snprintf(name, sizeof(name), "st.dense.%d.", r->n_dense);
	ok = ok && safetensors_add(r->f, dir, name, r->e);
	r->n_dense++;
	cJSON_Delete(o);
	return ok;
}

/* Of a language model that scores: which tokens' logits count. */
static bool
read_logit_score(StRead *r, const char *dir)
{
	cJSON	   *o;
	bool		ok = read_json(r, dir, "config.json", &o);

	take(r, o, "true_token_id", "st.true_token_id");
	take(r, o, "false_token_id", "st.false_token_id");
	cJSON_Delete(o);
	return ok;
}

static bool
read_normalize(StRead *r, const char *dir)
{
	(void) dir;
	r->normalized = true;
	conf_set_bool(r->f->conf, "st.normalize", true);
	return true;
}

/* Limits and case of texts, by the names that the file has had. */
static bool
read_transformer(StRead *r, const char *dir)
{
	static const char *const files[] = {
		"sentence_bert_config.json", "sentence_roberta_config.json", "sentence_distilbert_config.json",
		"sentence_camembert_config.json", "sentence_albert_config.json", "sentence_xlm-roberta_config.json",
		"sentence_xlnet_config.json",
	};
	bool		ok = true;
	bool		found = false;

	for (size_t i = 0; ok && !found && i < sizeof(files) / sizeof(files[0]); i++)
	{
		cJSON	   *o;

		ok = read_json(r, dir, files[i], &o);
		found = o != NULL;
		take(r, o, "max_seq_length", "st.max_seq_length");
		take(r, o, "do_lower_case", "st.do_lower_case");
		cJSON_Delete(o);
	}
	return ok;
}

/* Where that says nothing of the length, the tokenizer's counts; libraries write 1e30 for none. */
static void
read_length(StRead *r)
{
	const Buf  *text = &r->f->tok_config;
	cJSON	   *o = text->data != NULL ? cJSON_ParseWithLength(text->data, text->len) : NULL;
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, "model_max_length");

	if (!conf_has(r->f->conf, "st.max_seq_length") && cJSON_IsNumber(v) && v->valuedouble < INT_MAX)
		conf_set_num(r->f->conf, "st.max_seq_length", v->valuedouble);
	cJSON_Delete(o);
}

/* In training only. */
static bool
read_nothing(StRead *r, const char *dir)
{
	(void) r;
	(void) dir;
	return true;
}

static bool
read_module(StRead *r, const cJSON *m)
{
	static const struct
	{
		const char *name;
		bool		(*read) (StRead *r, const char *dir);
	}			kinds[] = {
		{"Transformer", read_transformer}, {"Pooling", read_pooling}, {"Dense", read_dense},
		{"Normalize", read_normalize}, {"Dropout", read_nothing}, {"LogitScore", read_logit_score},
	};
	const char *type = str_of(m, "type");
	const char *path = str_of(m, "path");
	const char *word = type != NULL ? strrchr(type, '.') : NULL;
	char		shown[65];
	size_t		n = 0;

	if (type == NULL || path == NULL || !folder_ok(path))
		return err_set(r->e, ERR_BAD_FILE, "file \"%s/modules.json\" has a module without a valid \"type\" or \"path\"", r->f->path);
	word = word != NULL ? word + 1 : type;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i].name, word) == 0)
			return kinds[i].read(r, path);
	for (; word[n] != '\0' && n < sizeof(shown) - 1; n++)
		shown[n] = word[n] > ' ' && word[n] <= '~' ? word[n] : '?';
	shown[n] = '\0';
	err_set(r->e, ERR_UNSUPPORTED, "module \"%s\" of model \"%s\" is not supported", shown, r->f->path);
	return err_hint(r->e, "Supported modules are Transformer, Pooling, Dense, Normalize, Dropout and LogitScore.");
}

static bool
read_modules(StRead *r)
{
	cJSON	   *list;
	const cJSON *m;
	bool		ok = read_json(r, "", "modules.json", &list);

	if (list == NULL)
		return ok && read_transformer(r, "");
	if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) > MAX_MODULES)
		ok = err_set(r->e, ERR_BAD_FILE, "file \"%s/modules.json\" is not an array of at most %d modules", r->f->path, MAX_MODULES);
	for (m = ok ? list->child : NULL; ok && m != NULL; m = m->next)
		ok = read_module(r, m);
	if (ok)
		read_length(r);
	if (ok && !r->pooled)
		conf_set_bool(r->f->conf, "st.by_token", true);
	cJSON_Delete(list);
	return ok;
}

/* ---- prompts ---- */

static bool
read_prompts(StRead *r)
{
	const char *names[MAX_PROMPTS];
	size_t		n = 0;
	cJSON	   *o;
	const cJSON *p;
	bool		ok = read_json(r, "", "config_sentence_transformers.json", &o);

	cJSON_ArrayForEach(p, cJSON_GetObjectItemCaseSensitive(o, "prompts"))
	{
		char		key[FILES_MAX_NAME + 16];

		if (n == MAX_PROMPTS || p->string == NULL || !cJSON_IsString(p) || strlen(p->string) > FILES_MAX_NAME)
			continue;
		snprintf(key, sizeof(key), "st.prompts.%s", p->string);
		conf_set_str(r->f->conf, key, p->valuestring);
		names[n++] = p->string;
	}
	if (n > 0)
		conf_set_strs(r->f->conf, "st.prompt_names", names, n);
	take(r, o, "default_prompt_name", "st.default_prompt_name");
	take(r, o, "similarity_fn_name", "st.similarity_fn_name");
	take(r, o, "activation_fn", "st.activation_fn");
	cJSON_Delete(o);
	return ok;
}

bool
stconfig_read(Files *f, Err *e)
{
	StRead		r = {.f = f,.e = e};

	return read_modules(&r) && read_prompts(&r);
}
