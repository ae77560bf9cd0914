/*
 * sentence_transformers_config.c
 *	  Read the files of sentence-transformers beside a model: modules.json and the files that it names,
 *	  sentence_bert_config.json, config_sentence_transformers.json.
 *
 * They become Conf entries under "st.", which src/model and src/backend read:
 *
 *	st.rows.N.*				layers applied to each token's row, before pooling or without it; keys as st.dense
 *	st.pooling				keys of poolers.def; the poolers' vectors are concatenated
 *	st.include_prompt		false: an instruction's tokens are not pooled
 *	st.by_token				true: there is no pooling, the result is one vector for each token
 *	st.normalize			vectors have length 1
 *	st.dense.N.*			layers after pooling: in_features, out_features, bias, activation_function;
 *							their tensors are st.dense.N.linear.weight and .bias; or with dimension a
 *							LayerNorm: st.dense.N.norm.weight and .bias
 *	st.truncate_dim			length to which an embedding is cut after all this
 *	st.true_token_id, st.false_token_id		a score is computed from these tokens' logits
 *	st.max_seq_length, st.do_lower_case		limit and case of texts
 *	st.model_max_length, st.no_token_types	settings of tokenizer_config.json for texts
 *	st.query_length, st.document_length, st.query_expansion.*	for models of token vectors (such as
 *							ColBERT), with st.mask_token, st.eos_token, st.padding_side of the tokenizer
 *	st.query_prefix, st.document_prefix		what PyLate puts before these texts
 *	st.multi_vector, st.skiplist, st.skiplist_tasks		tokens whose vectors are dropped
 *	st.prompt_names, st.prompts.NAME, st.default_prompt_name	instructions before a text
 *	st.similarity_fn_name, st.activation_fn
 *
 * The order of modules counts.  A module that the engine can't compute, or not at its position, is
 * refused: leaving it out would give other vectors.
 *
 * Tested by tests/unit/loader/test_load_st.c, tests/fuzz/fuzz_config.c and tests/golden/pool_golden.c.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "base/json/json.h"
#include "loader/hf_config.h"

#define MAX_MODULES 16
#define MAX_PROMPTS 256
#define MAX_POOLERS 8
#define MAX_WORDS 4096			/* of a skiplist */

typedef struct StRead
{
	Files	   *f;
	Err		   *e;
	int			n_rows;			/* layers on tokens' rows before pooling */
	int			n_dense;		/* layers after pooling */
	bool		pools;			/* the model has a pooling module */
	bool		pooled;			/* the pooling's configuration has been read */
	bool		normalized;
} StRead;

/* Read an optional JSON file; *out = NULL if it doesn't exist. */
static bool
read_json(StRead *r, const char *dir, const char *name, Json **out)
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
		if (ok && (*out = json_parse(text.data, text.len)) == NULL)
			ok = err_set(r->e, ERR_BAD_FILE, "file \"%s\" is not JSON", path);
	}
	buf_free(&text);
	mem_free(path);
	mem_free(in);
	return ok;
}

static const char *
str_of(const Json *o, const char *key)
{
	return json_str_of(json_get(o, key));
}

/* Copy a value of an object to a Conf entry. */
static void
take(StRead *r, const Json *o, const char *key, const char *as)
{
	const Json *v = json_get(o, key);

	if (json_is_bool(v))
		conf_set_bool(r->f->conf, as, json_is_true(v));
	else if (json_is_number(v))
		conf_set_num(r->f->conf, as, v->num);
	else if (json_is_string(v))
		conf_set_str(r->f->conf, as, v->s);
}

/* ---- modules ---- */

/* Return true if a module's folder is a plain name, or empty for the model's own folder. */
static bool
folder_ok(const char *s)
{
	size_t		n = strlen(s);

	return n == 0 || (files_name_ok(s, n) && s[0] != '.' && strchr(s, '/') == NULL);
}

/* The older releases' names of the same modes, in the order in which vectors are concatenated. */
static const char *const modes[][2] = {
	{"cls", "pooling_mode_cls_token"}, {"max", "pooling_mode_max_tokens"},
	{"mean", "pooling_mode_mean_tokens"},
	{"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens"},
	{"weightedmean", "pooling_mode_weightedmean_tokens"}, {"lasttoken", "pooling_mode_lasttoken"},
};

#define N_MODES (sizeof(modes) / sizeof(modes[0]))

/* Return a mode under its new name.  An unknown mode is returned unchanged; the pooler refuses it. */
static const char *
mode_key(const char *mode)
{
	for (size_t i = 0; i < N_MODES; i++)
		if (strcmp(modes[i][0], mode) == 0)
			return modes[i][1];
	return mode;
}

/* Refuse a module that the model has but the engine can't compute. */
static bool
refuse(StRead *r, const char *dir, const char *why)
{
	return err_set(r->e, ERR_UNSUPPORTED, "module \"%s\" of model \"%s\" is not supported: %s", dir,
				   r->f->path, why);
}

static bool
read_pooling(StRead *r, const char *dir)
{
	const char *keys[MAX_POOLERS];
	size_t		n = 0;
	Json	   *o;
	const Json *mode;
	const Json *x;
	bool		ok = read_json(r, dir, "config.json", &o);

	ASSERT(r->pools);			/* read_modules() has looked for this module first */
	if (ok && !json_is_object(o))
		ok = err_set(r->e, ERR_BAD_FILE, "model \"%s\" has no \"%s/config.json\", which says how it pools",
					 r->f->path, dir);
	if (ok && r->pooled)
		ok = refuse(r, dir, "a second pooling");
	mode = json_get(o, "pooling_mode");
	if (json_is_string(mode))
		keys[n++] = mode_key(mode->s);
	else if (json_is_array(mode))
		json_each(x, mode)
		{
			if (n < MAX_POOLERS && json_is_string(x))
				keys[n++] = mode_key(x->s);
		}
	for (size_t i = 0; i < N_MODES && !json_is_string(mode) && !json_is_array(mode); i++)
		if (json_is_true(json_get(o, modes[i][1])))
			keys[n++] = modes[i][1];
	if (n == 0)
		keys[n++] = "pooling_mode_mean_tokens";
	if (ok)
	{
		conf_set_strs(r->f->conf, "st.pooling", keys, n);
		take(r, o, "include_prompt", "st.include_prompt");
		r->pooled = true;
	}
	json_free(o);
	return ok;
}

/* Return true if a layer reads what is at its position, and writes its result back there. */
static bool
layer_at_place(StRead *r, const char *dir, const Json *o)
{
	const char *in = str_of(o, "module_input_name");
	const char *out = str_of(o, "module_output_name");

	if (r->normalized)
		return refuse(r, dir, "a layer after normalized vectors");
	if (r->pools && !r->pooled && (in == NULL || strcmp(in, "token_embeddings") != 0))
		return refuse(r, dir, "a layer before the pooling whose input is not \"token_embeddings\"");
	if (r->pooled && in != NULL && strcmp(in, "sentence_embedding") != 0)
		return refuse(r, dir, "a layer after the pooling whose input is not \"sentence_embedding\"");
	if (out != NULL && in != NULL && strcmp(in, out) != 0)
		return refuse(r, dir, "a layer whose output has another name than its input");
	return true;
}

/* Read a layer's configuration and tensors as the next layer before or after pooling. */
static bool
read_layer(StRead *r, const char *dir, const char *width)
{
	static const char *const keys[] = {"in_features", "out_features", "bias", "activation_function",
									   "dimension"};
	int		   *n = r->pooled ? &r->n_dense : &r->n_rows;
	char		prefix[32];
	char		name[64];
	Json	   *o;
	bool		ok = read_json(r, dir, "config.json", &o);

	if (ok && (!json_is_object(o) || !json_is_number(json_get(o, width))))
		ok = err_set(r->e, ERR_BAD_FILE, "model \"%s\" has no \"%s/config.json\" with \"%s\"", r->f->path,
					 dir, width);
	if (ok && json_is_true(json_get(o, "use_residual")))
		ok = refuse(r, dir, "a dense layer with a residual connection");
	ok = ok && layer_at_place(r, dir, o);
	snprintf(prefix, sizeof(prefix), "st.%s.%d.", r->pooled ? "dense" : "rows", *n);
	for (size_t i = 0; ok && i < sizeof(keys) / sizeof(keys[0]); i++)
	{
		snprintf(name, sizeof(name), "%s%s", prefix, keys[i]);
		take(r, o, keys[i], name);
	}
	ok = ok && safetensors_add(r->f, dir, prefix, r->e);
	++*n;
	json_free(o);
	return ok;
}

static bool
read_dense(StRead *r, const char *dir)
{
	return read_layer(r, dir, "out_features");
}

static bool
read_layer_norm(StRead *r, const char *dir)
{
	if (!r->pooled)
		return refuse(r, dir, "a LayerNorm that does not follow a pooling");
	return read_layer(r, dir, "dimension");
}

/* Read which tokens' logits count, for a language model that scores. */
static bool
read_logit_score(StRead *r, const char *dir)
{
	Json	   *o;
	bool		ok = read_json(r, dir, "config.json", &o);

	take(r, o, "true_token_id", "st.true_token_id");
	take(r, o, "false_token_id", "st.false_token_id");
	json_free(o);
	return ok;
}

static bool
read_normalize(StRead *r, const char *dir)
{
	if (r->pools && !r->pooled)
		return refuse(r, dir, "vectors that are normalized before the pooling");
	r->normalized = true;
	conf_set_bool(r->f->conf, "st.normalize", true);
	return true;
}

/* Copy a list of words to a Conf entry; a single word counts as a list of one. */
static void
take_words(StRead *r, const Json *o, const char *key, const char *as)
{
	const Json *v = json_get(o, key);
	const char *words[MAX_WORDS];
	size_t		n = 0;
	const Json *x;

	if (json_is_string(v))
		words[n++] = v->s;
	json_each(x, v)
	{
		if (n < MAX_WORDS && json_is_string(x))
			words[n++] = x->s;
	}
	if (json_is_string(v) || json_is_array(v))
		conf_set_strs(r->f->conf, as, words, n);
}

/* Read which tokens' vectors count in a comparison by tokens. */
static bool
read_mask(StRead *r, const char *dir)
{
	Json	   *o;
	bool		ok = read_json(r, dir, "config.json", &o);

	if (ok && json_count(json_get(o, "keep_only_token_ids")) > 0)
		ok = refuse(r, dir, "\"keep_only_token_ids\"");
	take_words(r, o, "skiplist_words", "st.skiplist");
	take_words(r, o, "skiplist_tasks", "st.skiplist_tasks");
	conf_set_bool(r->f->conf, "st.multi_vector", true);
	json_free(o);
	return ok;
}

static void
read_expansion(StRead *r, const Json *o)
{
	static const char *const keys[] = {"strategy", "attend", "token", "length"};
	char		name[64];

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
	{
		snprintf(name, sizeof(name), "st.query_expansion.%s", keys[i]);
		take(r, o, keys[i], name);
	}
}

/* Read limits and case of texts, by all names that the file has used for them. */
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
		Json	   *o;

		ok = read_json(r, dir, files[i], &o);
		found = o != NULL;
		take(r, o, "max_seq_length", "st.max_seq_length");
		take(r, o, "do_lower_case", "st.do_lower_case");
		take(r, o, "query_length", "st.query_length");
		take(r, o, "document_length", "st.document_length");
		read_expansion(r, json_get(o, "query_expansion"));
		json_free(o);
	}
	return ok;
}

/* Copy a token's text, given as a string or as an object with it. */
static void
take_token(StRead *r, const Json *o, const char *key, const char *as)
{
	const Json *v = json_get(o, key);

	if (json_is_object(v))
		take(r, v, "content", as);
	else
		take(r, o, key, as);
}

/*
 * Read the settings of the tokenizer's configuration.  Its length counts if sentence-transformers' files
 * have none and the model doesn't generate (heads_conf()); libraries write 1e30 for no limit.
 */
static void
read_tokenizer(StRead *r)
{
	const Buf  *text = &r->f->tok_config;
	Json	   *o = text->data != NULL ? json_parse(text->data, text->len) : NULL;
	const Json *v = json_get(o, "model_max_length");
	const Json *names = json_get(o, "model_input_names");
	const Json *x;
	bool		typed = !json_is_array(names);

	if (json_is_number(v) && v->num < INT_MAX)
		conf_set_num(r->f->conf, "st.model_max_length", v->num);
	take_token(r, o, "mask_token", "st.mask_token");
	take_token(r, o, "eos_token", "st.eos_token");
	take(r, o, "padding_side", "st.padding_side");
	json_each(x, names)
	{
		if (json_is_string(x) && strcmp(x->s, "token_type_ids") == 0)
			typed = true;
	}
	if (!typed)
		conf_set_bool(r->f->conf, "st.no_token_types", true);
	json_free(o);
}

/* A module that works in training only. */
static bool
read_nothing(StRead *r, const char *dir)
{
	(void) r;
	(void) dir;
	return true;
}

/* Return the last word of a module's class; NULL if it has none, or no valid folder. */
static const char *
module_kind(const Json *m, const char **dir)
{
	const char *type = str_of(m, "type");
	const char *word = type != NULL ? strrchr(type, '.') : NULL;

	*dir = str_of(m, "path");
	if (type == NULL || *dir == NULL || !folder_ok(*dir))
		return NULL;
	return word != NULL ? word + 1 : type;
}

static bool
read_module(StRead *r, const Json *m)
{
	static const struct
	{
		const char *name;
		bool		(*read) (StRead *r, const char *dir);
	}			kinds[] = {
		{"Transformer", read_transformer}, {"Pooling", read_pooling}, {"Dense", read_dense},
		{"LayerNorm", read_layer_norm},
		{"Normalize", read_normalize}, {"Dropout", read_nothing}, {"LogitScore", read_logit_score},
		{"MultiVectorMask", read_mask},
	};
	const char *dir;
	const char *word = module_kind(m, &dir);
	char		shown[65];
	size_t		n = 0;

	if (word == NULL)
		return err_set(r->e, ERR_BAD_FILE,
					   "file \"%s/modules.json\" has a module without a valid \"type\" or \"path\"",
					   r->f->path);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i].name, word) == 0)
			return kinds[i].read(r, dir);
	for (; word[n] != '\0' && n < sizeof(shown) - 1; n++)
		shown[n] = word[n] > ' ' && word[n] <= '~' ? word[n] : '?';
	shown[n] = '\0';
	err_set(r->e, ERR_UNSUPPORTED, "module \"%s\" of model \"%s\" is not supported", shown, r->f->path);
	return err_hint(r->e, "Supported modules are Transformer, Pooling, Dense, LayerNorm, Normalize, Dropout, "
						  "LogitScore and MultiVectorMask.");
}

/* Return the folder of the last module of this kind in modules.json; NULL = none. */
static const char *
find_module(const Json *list, const char *kind)
{
	const char *found = NULL;
	const char *dir;
	const Json *m;

	json_each(m, list)
	{
		const char *word = module_kind(m, &dir);

		if (word != NULL && strcmp(word, kind) == 0)
			found = dir;
	}
	return found;
}

static bool
read_modules(StRead *r)
{
	Json	   *list;
	const Json *m;
	bool		ok = read_json(r, "", "modules.json", &list);

	read_tokenizer(r);
	if (list == NULL)
		return ok && read_transformer(r, "");
	if (!json_is_array(list) || json_count(list) > MAX_MODULES)
		ok = err_set(r->e, ERR_BAD_FILE, "file \"%s/modules.json\" is not an array of at most %d modules",
					 r->f->path, MAX_MODULES);
	r->pools = find_module(list, "Pooling") != NULL;
	for (m = ok ? list->child : NULL; ok && m != NULL; m = m->next)
		ok = read_module(r, m);
	if (ok && !r->pooled)
		conf_set_bool(r->f->conf, "st.by_token", true);
	if (ok && !conf_has(r->f->conf, "st.max_seq_length") && conf_has(r->f->conf, "st.model_max_length"))
		conf_set_num(r->f->conf, "st.max_seq_length", conf_num(r->f->conf, "st.model_max_length", 0));
	json_free(list);
	return ok;
}

bool
stconfig_root(Files *f, Err *e)
{
	StRead		r = {.f = f,.e = e};
	Json	   *list;
	bool		ok = read_json(&r, "", "modules.json", &list);
	const char *dir = find_module(list, "Transformer");

	if (dir != NULL && dir[0] != '\0')
	{
		mem_free(f->root);
		f->root = files_join(f->path, dir);
	}
	json_free(list);
	return ok;
}

/* ---- prompts ---- */

/* Python's string.punctuation */
static const char *const punctuation[] = {
	"!", "\"", "#", "$", "%", "&", "'", "(", ")", "*", "+", ",", "-", ".", "/", ":", ";", "<", "=", ">", "?",
	"@", "[", "\\", "]", "^", "_", "`", "{", "|", "}", "~"
};

/*
 * Read the settings of PyLate's models of token vectors (from before sentence-transformers had its own):
 * prefixes that are tokens, queries padded with [MASK] unless the settings say no, punctuation left out
 * of documents.
 */
static void
read_pylate(StRead *r, const Json *o)
{
	static const char *const marks[] = {
		"query_length", "document_length", "query_prefix", "document_prefix", "do_query_expansion",
		"attend_to_expansion_tokens", "attend_to_mask_tokens", "skiplist_words",
	};
	static const char *const attend[] = {"attend_to_expansion_tokens", "attend_to_mask_tokens"};
	Conf	   *c = r->f->conf;
	const char *type = str_of(o, "model_type");
	bool		marked = false;

	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		marked |= json_get(o, marks[i]) != NULL;
	take(r, o, "query_prefix", "st.query_prefix");
	take(r, o, "document_prefix", "st.document_prefix");
	take(r, o, "document_length", "st.document_length");
	take_words(r, o, "skiplist_words", "st.skiplist");
	if (type != NULL && strcmp(type, "ColBERT") == 0 && !conf_has(c, "st.skiplist"))
		conf_set_strs(c, "st.skiplist", punctuation, sizeof(punctuation) / sizeof(punctuation[0]));
	if (!marked || conf_has(c, "st.query_expansion.strategy"))
		return;
	if (json_is_false(json_get(o, "do_query_expansion")))
	{
		take(r, o, "query_length", "st.query_length");
		return;
	}
	conf_set_str(c, "st.query_expansion.strategy", "fixed");
	conf_set_num(c, "st.query_expansion.length", 32);
	take(r, o, "query_length", "st.query_expansion.length");
	for (size_t i = sizeof(attend) / sizeof(attend[0]); i > 0; i--)
		take(r, o, attend[i - 1], "st.query_expansion.attend");
}

static bool
read_prompts(StRead *r)
{
	const char *names[MAX_PROMPTS];
	size_t		n = 0;
	Json	   *o;
	const Json *p;
	bool		ok = read_json(r, "", "config_sentence_transformers.json", &o);

	json_each(p, json_get(o, "prompts"))
	{
		char		key[FILES_MAX_NAME + 16];

		if (n == MAX_PROMPTS || p->key == NULL || !json_is_string(p) || strlen(p->key) > FILES_MAX_NAME)
			continue;
		snprintf(key, sizeof(key), "st.prompts.%s", p->key);
		conf_set_str(r->f->conf, key, p->s);
		names[n++] = p->key;
	}
	if (n > 0)
		conf_set_strs(r->f->conf, "st.prompt_names", names, n);
	take(r, o, "default_prompt_name", "st.default_prompt_name");
	take(r, o, "similarity_fn_name", "st.similarity_fn_name");
	take(r, o, "activation_fn", "st.activation_fn");
	take(r, o, "truncate_dim", "st.truncate_dim");
	if (conf_bool(r->f->conf, "st.by_token", false))
		read_pylate(r, o);
	json_free(o);
	return ok;
}

/* Set the length to the longer of documents' and queries' own: in PyLate's models max_seq_length is only
 * the length of what PyLate encoded last. */
static void
longest_side(Conf *c)
{
	static const char *const keys[] = {"st.query_length", "st.document_length", "st.query_expansion.length"};
	double		most = conf_num(c, "st.max_seq_length", 0);

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		most = conf_num(c, keys[i], 0) > most ? conf_num(c, keys[i], 0) : most;
	if (conf_has(c, "st.max_seq_length"))
		conf_set_num(c, "st.max_seq_length", most);
}

bool
stconfig_read(Files *f, Err *e)
{
	StRead		r = {.f = f,.e = e};

	if (!read_modules(&r) || !read_prompts(&r))
		return false;
	if (conf_bool(f->conf, "st.by_token", false))
		longest_side(f->conf);
	return true;
}
