/*
 * ckpt.c
 *	  What the methods of quantized checkpoints share: reading the configuration and the tensors.
 *
 * The configuration and the tensors are untrusted.  A key that a method doesn't know is an error that
 * names it, unless its value is empty: ignoring it could give other weights.
 *
 * Tested by tests/unit/quant/ckpt/test_ckpt.c.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "base/json/json.h"
#include "base/pcre_match.h"
#include "quant/ckpt/ckpt_internal.h"

/* for a GGUF file, whose tensors have their own types */
static const CkptMethod gguf = {"", "", NULL, gguf_matrix};

const KType ckpt_i32[] = {KT_I32, KT_COUNT};
const KType ckpt_u8[] = {KT_U8, KT_COUNT};
const KType ckpt_floats[] = {KT_F16, KT_BF16, KT_F32, KT_COUNT};

/*
 * Keys with which tools describe themselves or how they found the codes.  They don't change what the
 * codes mean.  One list for all methods, as tools also write checkpoints in other tools' formats.
 */
static const char informational[] = "autoround_version provider optimum:version to_quant_block_names "
	"quant_block_list iters nsamples seqlen amp duo_scaling enable_minmax_tuning enable_norm_bias_tuning "
	"enable_quanted_input gradient_accumulate_steps lr minmax_lr low_gpu_mem_usage batch_size train_bs "
	"dataset scale_dtype supported_types enable_torch_compile model_dtype "
	"model_free";

int
ckpt_word_number(const char *list, const char *word)
{
	size_t		len = strlen(word);
	int			i = 0;

	for (const char *p = list; *p != '\0'; i++)
	{
		size_t		n = strcspn(p, " ");

		if (n == len && memcmp(p, word, n) == 0)
			return i;
		p += n;
		p += strspn(p, " ");
	}
	return -1;
}

/* ---- the configuration ---- */

const Json *
ckpt_get(const Json *o, const char *key)
{
	const Json *v = json_get(o, key);

	return json_is_null(v) ? NULL : v;
}

const char *
ckpt_show(const Json *v, char *buf, size_t size)
{
	char	   *text = json_print(v);
	size_t		n = 0;

	for (const char *s = text; s != NULL && *s != '\0' && n < size - 1; s++)
		buf[n++] = *s >= 0x20 && *s < 0x7f ? *s : '?';
	buf[n] = '\0';
	mem_free(text);
	return buf;
}

static bool
bad_value(const Json *v, const char *key, Err *e)
{
	char		buf[80];

	return err_set(e, ERR_BAD_FILE, "quantization configuration has \"%s\" = %s", key,
				   ckpt_show(v, buf, sizeof(buf)));
}

bool
ckpt_int(const Json *o, const char *key, int64_t lo, int64_t hi, int64_t dflt, int64_t *out, Err *e)
{
	const Json *v = ckpt_get(o, key);

	*out = dflt;
	if (v == NULL)
		return true;
	if (!json_is_number(v) || !(v->num >= (double) lo && v->num <= (double) hi) ||
		v->num != floor(v->num))
	{
		bad_value(v, key, e);
		return err_detail(e, "An integer between %lld and %lld is expected.", (long long) lo, (long long) hi);
	}
	*out = (int64_t) v->num;
	return true;
}

bool
ckpt_bool(const Json *o, const char *key, bool dflt, bool *out, Err *e)
{
	const Json *v = ckpt_get(o, key);

	*out = v != NULL ? json_is_true(v) : dflt;
	return v == NULL || json_is_bool(v) || bad_value(v, key, e);
}

bool
ckpt_word(const Json *o, const char *key, const char *allowed, int dflt, int *out, Err *e)
{
	const Json *v = ckpt_get(o, key);
	char		buf[80];

	*out = dflt;
	if (v == NULL)
		return true;
	if (!json_is_string(v))
		return bad_value(v, key, e);
	if ((*out = ckpt_word_number(allowed, v->s)) >= 0)
		return true;
	err_set(e, ERR_UNSUPPORTED, "quantization configuration has \"%s\" = %s, which is not supported", key,
			ckpt_show(v, buf, sizeof(buf)));
	return err_hint(e, "Supported are: %s", allowed);
}

bool
ckpt_map(const Json *o, const char *key, const Json **out, Err *e)
{
	*out = ckpt_get(o, key);
	return *out == NULL || json_is_object(*out) || bad_value(*out, key, e);
}

bool
ckpt_says_nothing(const Json *v)
{
	return v == NULL || json_is_null(v) || json_is_false(v) || (json_is_string(v) && v->s[0] == '\0') ||
		((json_is_array(v) || json_is_object(v)) && v->child == NULL);
}

bool
ckpt_known(const Json *o, const char *known, Err *e)
{
	const Json *v;
	char		buf[80];

	if (o != NULL && !json_is_object(o))
		return err_set(e, ERR_BAD_FILE, "quantization configuration has %s instead of an object",
					   ckpt_show(o, buf, sizeof(buf)));
	json_each(v, o)
	{
		Json		key = {.type = JSON_IS_STRING, .s = v->key, .len = v->key_len};
		char		name[80];

		if (ckpt_says_nothing(v) || ckpt_word_number(known, v->key) >= 0 ||
			ckpt_word_number(informational, v->key) >= 0)
			continue;
		err_set(e, ERR_UNSUPPORTED, "quantization configuration has %s = %s, which is not supported",
				ckpt_show(&key, name, sizeof(name)), ckpt_show(v, buf, sizeof(buf)));
		return false;
	}
	return true;
}

bool
ckpt_match(const char *pattern, const char *name, bool anywhere, bool *out, Err *e)
{
	Pattern    *p = pattern_new(pattern, anywhere);
	PatternFit	fit = p != NULL ? pattern_fit(p, name) : PATTERN_BAD;
	Json		text = {.type = JSON_IS_STRING, .s = pattern, .len = strlen(pattern)};
	char		buf[120];

	pattern_free(p);
	*out = fit == PATTERN_YES;
	return fit != PATTERN_BAD ||
		err_set(e, ERR_BAD_FILE, "quantization configuration has %s, which can't be used as a regular "
								 "expression",
				ckpt_show(&text, buf, sizeof(buf)));
}

bool
ckpt_open(const Conf *conf, const CkptFiles *files, Ckpt **out, Err *e)
{
	const char *text = conf_str(conf, "quantization_config", NULL);
	Ckpt	   *c;

	*out = NULL;
	if (text == NULL && conf_has(conf, "quantization_config"))
		return err_set(e, ERR_BAD_FILE, "model configuration has an invalid \"quantization_config\"");
	if (text == NULL && !conf_has(conf, "gguf.architecture"))
		return true;
	c = mem_zalloc(sizeof(Ckpt));
	c->files = *files;
	if (text == NULL)
	{
		c->method = &gguf;
		*out = c;
		return true;
	}
	c->conf = json_parse(text, strlen(text));
	if (ckpt_is_empty(c->conf))
	{
		ckpt_close(c);
		return true;
	}
	if ((c->method = ckpt_method(c->conf, c->name, sizeof(c->name), e)) != NULL && c->method->open(c, e))
	{
		*out = c;
		return true;
	}
	ckpt_close(c);
	return false;
}

void
ckpt_ignored(const Conf *conf, char *out, size_t size)
{
	const char *text = conf_str(conf, "quantization_config", NULL);
	Json	   *all = text != NULL ? json_parse(text, strlen(text)) : NULL;
	size_t		at = 0;

	out[0] = '\0';
	for (const Json *v = json_is_object(all) ? all->child : NULL; v != NULL; v = v->next)
	{
		int			n;

		if (ckpt_says_nothing(v) || ckpt_word_number(informational, v->key) < 0)
			continue;
		n = snprintf(out + at, size - at, "%s%s", at > 0 ? ", " : "", v->key);
		if (at + (size_t) n >= size)
		{
			out[at] = '\0';
			break;
		}
		at += (size_t) n;
	}
	json_free(all);
}

void
ckpt_close(Ckpt *c)
{
	if (c == NULL)
		return;
	for (size_t i = 0; i < c->n_readers; i++)
	{
		mem_free(c->readers[i]->g_idx);
		mem_free(c->readers[i]->name);
		mem_free(c->readers[i]);
	}
	mem_free(c->readers);
	json_free(c->conf);
	mem_free(c);
}

/* ---- tensors ---- */

const char *
ckpt_where(const Ckpt *c, const KTensor *t)
{
	const char *s = c->files.where != NULL ? c->files.where(c->files.ctx, t) : NULL;

	return s != NULL ? s : "?";
}

int64_t
ckpt_count(const KTensor *t)
{
	int64_t		n = 1;

	for (int i = 0; i < t->ndim; i++)
		n *= t->shape[i];
	return n;
}

const KTensor *
ckpt_find(const Ckpt *c, const char *module, const char *ending)
{
	char		name[CKPT_MAX_NAME];

	if (snprintf(name, sizeof(name), "%s%s", module, ending) >= (int) sizeof(name))
		return NULL;
	return c->files.find(c->files.ctx, name);
}

CkptReader *
ckpt_reader(Ckpt *c, const char *module, int64_t n, int64_t k)
{
	CkptReader *r = mem_zalloc(sizeof(CkptReader));

	if ((c->n_readers & (c->n_readers - 1)) == 0)
		c->readers = mem_realloc(c->readers, (c->n_readers > 0 ? 2 * c->n_readers : 1) * sizeof(*c->readers));
	c->readers[c->n_readers++] = r;
	ALWAYS(n > 0 && k > 0);		/* they divide, and a matrix has a first row */
	r->name = mem_alloc(strlen(module) + sizeof(".weight"));
	sprintf(r->name, "%s.weight", module);
	r->n = n;
	r->k = k;
	r->bits = 8;
	r->row_div = 1;
	r->group = k;
	r->factor = 1;
	return r;
}

static void
add_part(CkptReader *r, const KTensor *t)
{
	for (int i = 0; i < r->n_parts; i++)
		if (r->parts[i] == t)
			return;
	if (r->n_parts < CKPT_MAX_PARTS)
		r->parts[r->n_parts++] = t;
}

void
ckpt_unused(Ckpt *c, CkptReader *r, const char *module, const char *ending)
{
	const KTensor *t = ckpt_find(c, module, ending);

	if (t != NULL)
		add_part(r, t);
}

static bool
check_type(const Ckpt *c, const KTensor *t, const KType *types, Err *e)
{
	char		list[64] = "";

	for (int i = 0; types[i] != KT_COUNT; i++)
	{
		size_t		at = strlen(list);

		if (t->type == types[i])
			return true;
		snprintf(list + at, sizeof(list) - at, "%s%s", i > 0 ? " or " : "", ktype_name(types[i]));
	}
	return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has type %s, expected %s", t->name,
				   ckpt_where(c, t), ktype_name(t->type), list);
}

/* Return true if a tensor has this shape.  Matrices one below the other count as one. */
static bool
has_shape(const KTensor *t, int ndim, int64_t d0, int64_t d1)
{
	int64_t		rows = t->shape[0];

	if (ndim == 2 && t->ndim == 3)
		return rows * t->shape[1] == d0 && t->shape[2] == d1;
	return ndim == 0 || (t->ndim == ndim && rows == d0 && (ndim == 1 || t->shape[1] == d1));
}

const KTensor *
ckpt_part(Ckpt *c, CkptReader *r, const char *module, const char *ending, const KType *types, int ndim,
		  int64_t d0, int64_t d1, Err *e)
{
	const KTensor *t = ckpt_find(c, module, ending);
	char		has[96] = "";
	char		want[64];

	if (t == NULL)
	{
		err_set(e, ERR_BAD_FILE, "tensor \"%s%s\" is missing in model \"%s\"", module, ending,
				ckpt_where(c, NULL));
		return NULL;
	}
	if (!check_type(c, t, types, e))
		return NULL;
	add_part(r, t);
	if (has_shape(t, ndim, d0, d1))
		return t;
	for (int i = 0; i < t->ndim; i++)
		snprintf(has + strlen(has), sizeof(has) - strlen(has), "%s%lld", i > 0 ? ", " : "",
				 (long long) t->shape[i]);
	if (ndim == 1)
		snprintf(want, sizeof(want), "%lld", (long long) d0);
	else
		snprintf(want, sizeof(want), "%lld, %lld", (long long) d0, (long long) d1);
	err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has shape [%s], expected [%s]", t->name,
			ckpt_where(c, t), has, want);
	return NULL;
}

/* Mark scales of the KV cache as used: bind.c finds the scales that it needs by name. */
static void
ignore_kv_scales(Ckpt *c, CkptReader *r, const char *module)
{
	static const char *const endings[] = {
		".k_scale", ".v_scale", ".kv_scale", ".q_scale", ".prob_scale", ".attn.k_scale", ".attn.v_scale",
		".attn.q_scale", ".k_zero_point", ".v_zero_point"
	};
	const char *last = strrchr(module, '.');
	char		parent[CKPT_MAX_NAME];

	ckpt_unused(c, r, module, ".k_scale");
	ckpt_unused(c, r, module, ".v_scale");
	ckpt_unused(c, r, module, ".output_scale");
	ckpt_unused(c, r, module, ".output_zero_point");
	if (last == NULL || (strcmp(last, ".k_proj") != 0 && strcmp(last, ".qkv_proj") != 0))
		return;
	snprintf(parent, sizeof(parent), "%.*s", (int) (last - module), module);
	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
		ckpt_unused(c, r, parent, endings[i]);
}

/* Ignore a bias of zeros: older GPTQ tools gave every module a bias. */
static void
ignore_zero_bias(Ckpt *c, CkptReader *r, const char *module)
{
	const KTensor *t = ckpt_find(c, module, ".bias");

	if (t == NULL || t->ndim != 1 || t->shape[0] != r->n || t->type > KT_BF16)
		return;
	for (int64_t i = 0; i < r->n; i++)
		if (ckpt_element(t, i) != 0)
			return;
	ckpt_unused(c, r, module, ".bias");
}

/* Return the module's name in the files.  The files may lack the first word of a name, as those of
 * models that were saved without the head do. */
static const char *
stored_name(const Ckpt *c, const char *module)
{
	static const char *const words[] = {"model.", "transformer.", "gpt_neox.", "backbone."};
	static const char *const endings[] = {
		".weight", ".qweight", ".weight_packed", ".W_q", ".B", "_blocks", "._weight_qdata"
	};

	for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++)
	{
		size_t		n = strlen(words[w]);

		for (size_t i = 0; strncmp(module, words[w], n) == 0 && i < sizeof(endings) / sizeof(endings[0]); i++)
			if (ckpt_find(c, module, endings[i]) == NULL && ckpt_find(c, module + n, endings[i]) != NULL)
				return module + n;
	}
	return module;
}

bool
ckpt_matrix(Ckpt *c, const char *module, int64_t n, int64_t k, const KTensor **out, Err *e)
{
	CkptReader *r = NULL;

	*out = NULL;
	if (n < 1 || k < 1)
		return true;
	module = stored_name(c, module);
	if (!c->method->matrix(c, module, n, k, &r, e))
		return false;
	if (r == NULL)
		return true;
	ignore_kv_scales(c, r, module);
	ignore_zero_bias(c, r, module);
	if (!ckpt_finish(c, r, e))
		return false;
	*out = &r->t;
	return true;
}
