/*
 * peft_adapter.c
 *	  Adapters of the Python package peft.
 *
 * The tensors in the file decide which modules are adapted.  Of the configuration the loader uses what
 * scales them and refuses what would change their meaning.  Unknown keys are ignored, unknown tensors
 * are not.
 *
 * Tested by tests/unit/backend/test_lora_files.c.
 */
#include "loader/peft_adapter.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/alloc.h"
#include "base/json/json.h"
#include "base/pcre_match.h"
#include "loader/model_files_internal.h"

#define MAX_RANK	65536
/* time limit in microseconds for matching all modules with all patterns; normal patterns take hardly any
 * time */
#define ALPHAS_US	INT64_C(10000000)

/* ---- adapter_config.json ---- */

static bool
is_on(const Json *v)
{
	/* an empty list or dictionary requests nothing */
	return v != NULL && !json_is_null(v) && !json_is_false(v) &&
		!((json_is_array(v) || json_is_object(v)) && json_count(v) == 0);
}

/*
 * Return true if the adapter's initialization changed the base.  How an adapter was initialized usually
 * doesn't matter, but some methods first subtract the adapter from the base: then its matrices fit only
 * the changed base, which nobody has saved.
 */
static bool
changes_base(const Json *init)
{
	static const char *const ways[] = {"pissa", "corda", "olora", "loftq", "lora_ga"};

	for (size_t i = 0; json_is_string(init) && i < sizeof(ways) / sizeof(ways[0]); i++)
		if (strncasecmp(init->s, ways[i], strlen(ways[i])) == 0)
			return true;
	return false;
}

/* Refuse settings that would change the result and that the engine doesn't understand. */
static bool
refuse_others(const Json *c, const char *path, Err *e)
{
	static const struct
	{
		const char *key;
		const char *what;
	}			keys[] = {
		{"use_dora", "DoRA"},
		{"modules_to_save", "whole modules (modules_to_save)"},
		{"lora_bias", "biases (lora_bias)"},
		{"use_qalora", "QA-LoRA"},
		{"use_bdlora", "BD-LoRA"},
		{"alora_invocation_tokens", "activated LoRA (alora_invocation_tokens)"},
		{"arrow_config", "Arrow"},
		{"layer_replication", "replicated layers (layer_replication)"},
		{"target_parameters", "parameters that belong to no linear layer (target_parameters)"},
		{"trainable_token_indices", "single tokens' embeddings (trainable_token_indices)"},
		{"ensure_weight_tying", "tied adapters (ensure_weight_tying)"},
	};
	const Json *bias = json_get(c, "bias");
	const Json *init = json_get(c, "init_lora_weights");

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (is_on(json_get(c, keys[i].key)))
			return err_set(e, ERR_UNSUPPORTED, "adapter \"%s\" uses %s, which is not supported", path,
						   keys[i].what);
	if (is_on(bias) && !(json_is_string(bias) && strcmp(bias->s, "none") == 0))
		return err_set(e, ERR_UNSUPPORTED, "adapter \"%s\" has biases, which are not supported", path);
	if (changes_base(init))
	{
		err_set(e, ERR_UNSUPPORTED, "adapter \"%s\" is for a base that was changed when its training began "
									"(init_lora_weights \"%.32s\")", path,
				init->s);
		return err_hint(e, "The Python package peft converts it: save_pretrained() with "
						   "path_initial_model_for_weight_conversion.");
	}
	return true;
}

static bool
check_type(const Json *c, const char *path, Err *e)
{
	const Json *type = json_get(c, "peft_type");

	if (!json_is_string(type))
		return err_set(e, ERR_BAD_FILE, "adapter \"%s\" has no valid \"peft_type\" in its "
										"adapter_config.json", path);
	if (strcmp(type->s, "LORA") != 0)
		return err_set(e, ERR_UNSUPPORTED, "adapter \"%s\" is of type \"%.32s\", only LORA is supported",
					   path, type->s);
	return true;
}

static bool
check_targets(const Json *c, const char *path, Err *e)
{
	const Json *modules = json_get(c, "target_modules");

	return json_is_string(modules) || json_is_array(modules) ||
		err_set(e, ERR_BAD_FILE, "adapter \"%s\" has no valid \"target_modules\" in its adapter_config.json",
				path);
}

static bool
number_of(const Json *c, const char *key, double lo, double hi, const char *path, double *out, Err *e)
{
	const Json *v = json_get(c, key);

	if (!json_is_number(v) || !(v->num >= lo && v->num <= hi))
		return err_set(e, ERR_BAD_FILE, "adapter \"%s\" has no valid \"%s\" in its adapter_config.json", path,
					   key);
	*out = v->num;
	return true;
}

/* Compile what peft's get_pattern_key() looks for: the pattern matches the end of a name that begins
 * after a dot. */
static Pattern *
end_pattern(const char *text)
{
	Buf			re = {0};
	Pattern    *p;

	buf_printf(&re, "(.*\\.)?(%s)$", text);
	p = pattern_new(re.data, false);
	buf_free(&re);
	return p;
}

static bool
read_alphas(Adapter *a, const Json *c, const char *path, Err *e)
{
	const Json *p = json_get(c, "alpha_pattern");
	const Json *v;

	if (p == NULL || json_is_null(p))
		return true;
	if (!json_is_object(p))
		return err_set(e, ERR_BAD_FILE, "adapter \"%s\" has no valid \"alpha_pattern\" in its "
										"adapter_config.json", path);
	a->alphas = mem_zalloc(((size_t) json_count(p) + 1) * sizeof(AdapterAlpha));
	json_each(v, p)
	{
		if (!json_is_number(v) || !isfinite(v->num))
			return err_set(e, ERR_BAD_FILE,
						   "adapter \"%s\" has no valid \"alpha_pattern\" in its adapter_config.json", path);
		a->alphas[a->n_alphas].alpha = v->num;
		if ((a->alphas[a->n_alphas++].of = end_pattern(v->key)) == NULL)
			return err_set(e, ERR_BAD_FILE,
						   "adapter \"%s\" has \"%.64s\" in its \"alpha_pattern\", which is no valid regular "
						   "expression", path, v->key);
	}
	return true;
}

static bool
alpha_of(const Adapter *a, const char *path, const char *module, int64_t until_us, double *alpha, Err *e)
{
	*alpha = a->alpha;
	for (int i = 0; i < a->n_alphas; i++)
		switch (clock_us() < until_us ? pattern_fit(a->alphas[i].of, module) : PATTERN_BAD)
		{
			case PATTERN_NO:
				break;
			case PATTERN_YES:
				*alpha = a->alphas[i].alpha;
				return true;
			case PATTERN_BAD:
				return err_set(e, ERR_BAD_FILE,
							   "the \"alpha_pattern\" of adapter \"%s\" takes too many steps to compare with "
							   "module \"%s\"", path, module);
		}
	return true;
}

/* ---- tensors ---- */

static bool
ends_with(const char *s, const char *end, size_t *stem)
{
	size_t		n = strlen(s);
	size_t		k = strlen(end);

	if (n <= k || strcmp(s + n - k, end) != 0)
		return false;
	*stem = n - k;
	return true;
}

/* Split a tensor's name into the module and its part. */
static bool
read_name(const char *name, size_t *stem, bool *embedding, bool *is_b)
{
	*embedding = ends_with(name, ".lora_embedding_A", stem) || ends_with(name, ".lora_embedding_B", stem);
	*is_b = ends_with(name, ".lora_B.weight", stem) || ends_with(name, ".lora_embedding_B", stem);
	return *embedding || *is_b || ends_with(name, ".lora_A.weight", stem);
}

/*
 * Return true for the base weights that peft saves beside an adapter of an embedding or a head.  The
 * model checks whether they equal its own.
 */
static bool
is_base(const char *name, size_t *stem)
{
	return ends_with(name, ".base_layer.weight", stem) ||
		(strstr(name, "lora_") == NULL && ends_with(name, ".weight", stem));
}

static AdapterModule *
add_module(Adapter *a, const char *name, size_t n)
{
	if ((a->n & (a->n - 1)) == 0)
		a->modules = mem_realloc(a->modules, (size_t) (a->n > 0 ? 2 * a->n : 1) * sizeof(AdapterModule));
	a->modules[a->n] = (AdapterModule) {.name = mem_strndup(name, n)};
	return &a->modules[a->n++];
}

static bool
add_tensor(Adapter *a, const char *path, const KTensor *t, Err *e)
{
	static const char prefix[] = "base_model.model.";
	const char *name = strncmp(t->name, prefix, sizeof(prefix) - 1) == 0 ? t->name + sizeof(prefix) - 1 :
		t->name;
	AdapterModule *m = a->n > 0 ? &a->modules[a->n - 1] : NULL;
	size_t		stem;
	bool		embedding;
	bool		is_b;

	if (strstr(name, "lora_magnitude_vector") != NULL)
		return err_set(e, ERR_UNSUPPORTED, "adapter \"%s\" uses DoRA, which is not supported", path);
	if (t->ndim == 2 && is_base(name, &stem))
	{
		add_module(a, name, stem)->base = t;
		return true;
	}
	if (!read_name(name, &stem, &embedding, &is_b))
		return err_set(e, ERR_UNSUPPORTED,
					   "adapter \"%s\" has a tensor \"%s\", which is of no kind that is supported", path,
					   t->name);
	if (t->ndim != 2 || t->shape[0] < 1 || t->shape[1] < 1)
		return err_set(e, ERR_BAD_FILE, "tensor \"%s\" of adapter \"%s\" is no matrix", t->name, path);
	/* Tensors are sorted by name, so A and B of a module are neighbours. */
	if (m == NULL || m->base != NULL || strlen(m->name) != stem || strncmp(m->name, name, stem) != 0 ||
		m->embedding != embedding)
	{
		m = add_module(a, name, stem);
		m->embedding = embedding;
	}
	if (is_b)
		m->b = t;
	else
		m->a = t;
	return true;
}

static void
note_name(Adapter *a, const char *module)
{
	const char *dot = strrchr(module, '.');
	const char *last = dot != NULL ? dot + 1 : module;
	size_t		n = strlen(last);
	size_t		len = strlen(a->names);

	if (n == 0)
		return;					/* the model will refuse such a module */
	for (const char *p = a->names; (p = strstr(p, last)) != NULL; p++)
		if ((p == a->names || p[-1] == ',') && (p[n] == '\0' || p[n] == ','))
			return;
	if (len + n + 2 < sizeof(a->names))
		snprintf(a->names + len, sizeof(a->names) - len, "%s%s", len > 0 ? "," : "", last);
}

static bool
finish_module(Adapter *a, const char *path, const Json *c, double r, AdapterModule *m, int64_t until_us,
			  Err *e)
{
	int64_t		rank;
	double		alpha;

	if (m->base != NULL)
		return true;
	if (m->a == NULL || m->b == NULL)
		return err_set(e, ERR_BAD_FILE, "adapter \"%s\" has only one of the two matrices for module \"%s\"",
					   path, m->name);
	rank = m->a->shape[0];
	if (m->b->shape[1] != rank || rank > MAX_RANK)
		return err_set(e, ERR_BAD_FILE, "adapter \"%s\" has matrices of ranks %lld and %lld for module "
										"\"%s\"", path, (long long) rank,
					   (long long) m->b->shape[1], m->name);
	if (!is_on(json_get(c, "rank_pattern")) && rank != (int64_t) r)
		return err_set(e, ERR_BAD_FILE, "adapter \"%s\" has matrices of rank %lld for module \"%s\", but its "
										"adapter_config.json says %d",
					   path, (long long) rank, m->name, (int) r);
	if (!alpha_of(a, path, m->name, until_us, &alpha, e))
		return false;
	m->scale = alpha / (a->rslora ? sqrt((double) rank) : (double) rank);
	if (rank > a->rank)
		a->rank = (int) rank;
	note_name(a, m->name);
	return true;
}

/* ---- the whole adapter ---- */

/* Return true if the adapter has weights in Python's pickle format, which older versions of peft
 * write. */
static bool
check_kind_of_file(const char *path, const char *weights, Err *e)
{
	char	   *pickled = files_join(path, "adapter_model.bin");
	bool		ok = access(weights, F_OK) == 0 || access(pickled, F_OK) != 0;

	mem_free(pickled);
	if (ok)
		return true;
	err_set(e, ERR_UNSUPPORTED, "adapter \"%s\" has its weights in a PyTorch file, adapter_model.bin, which "
								"is not supported", path);
	return err_hint(e, "Python converts it: safetensors.torch.save_file(torch.load(\"adapter_model.bin\", "
					"weights_only=True), \"adapter_model.safetensors\").");
}

static bool
read_config(Adapter *a, const char *path, const Json *c, double *r, Err *e)
{
	const Json *base = json_get(c, "base_model_name_or_path");
	const Json *rslora = json_get(c, "use_rslora");
	const char *from = json_is_string(base) ? base->s : "";

	/* to Python 1 is true as well, but the value decides the scale, so accept booleans only */
	if (rslora != NULL && !json_is_bool(rslora) && !json_is_null(rslora))
		return err_set(e, ERR_BAD_FILE, "adapter \"%s\" has no valid \"use_rslora\" in its "
										"adapter_config.json", path);
	a->rslora = json_is_true(rslora);
	/* the name is shown to users, so keep only printable ASCII */
	for (size_t i = 0; from[i] != '\0' && i < sizeof(a->base) - 1; i++)
		a->base[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
	return check_type(c, path, e) && refuse_others(c, path, e) && check_targets(c, path, e) &&
		number_of(c, "r", 1, MAX_RANK, path, r, e) && number_of(c, "lora_alpha", -1e9, 1e9, path, &a->alpha,
																e) && read_alphas(a, c, path, e);
}

static bool
read_tensors(Adapter *a, const char *path, const Json *c, double r, Err *e)
{
	int64_t		until_us;

	for (size_t i = 0; i < files_count(a->files); i++)
	{
		/* add_tensor() expects a module's two matrices one after the other */
		ASSERT(i == 0 || strcmp(files_tensor(a->files, i - 1)->name, files_tensor(a->files, i)->name) < 0);
		if (!add_tensor(a, path, files_tensor(a->files, i), e))
			return false;
	}
	until_us = clock_us() + ALPHAS_US;
	for (int i = 0; i < a->n; i++)
		if (!finish_module(a, path, c, r, &a->modules[i], until_us, e))
			return false;
	return a->rank > 0 || err_set(e, ERR_BAD_FILE, "adapter \"%s\" has no weights", path);
}

Adapter *
adapter_open(const char *path, Err *e)
{
	Adapter    *a = mem_zalloc(sizeof(Adapter));
	char	   *config = files_join(path, "adapter_config.json");
	char	   *weights = files_join(path, "adapter_model.safetensors");
	Json	   *c = NULL;
	Buf			text = {0};
	double		r = 0;
	bool		ok = files_slurp(config, FILES_MAX_CONFIG, &text, e) &&
		files_json_ok(config, text.data, text.len, FILES_JSON_CONFIG, e);

	if (ok)
	{
		c = json_parse(text.data, text.len);
		ok = json_is_object(c) || err_set(e, ERR_BAD_FILE, "file \"%s\" is not a JSON object", config);
	}
	ok = ok && read_config(a, path, c, &r, e) && check_kind_of_file(path, weights, e) &&
		(a->files = files_open_one(path, weights, e)) != NULL && read_tensors(a, path, c, r, e);
	json_free(c);
	buf_free(&text);
	mem_free(config);
	mem_free(weights);
	if (ok)
		return a;
	adapter_close(a);
	return NULL;
}

void
adapter_close(Adapter *a)
{
	if (a == NULL)
		return;
	for (int i = 0; i < a->n; i++)
		mem_free(a->modules[i].name);
	mem_free(a->modules);
	for (int i = 0; i < a->n_alphas; i++)
		pattern_free(a->alphas[i].of);
	mem_free(a->alphas);
	files_close(a->files);
	mem_free(a);
}
