/*
 * gguf_model.c
 *	  Present a GGUF file as the rest of the engine sees a model: Hugging Face's configuration keys,
 *	  tensors and the vocabulary.
 *
 * The table gguf_keys.def renames keys.  This file does what is more than renaming: rotary factors
 * stored as a tensor, facts that GGUF shows by a tensor's presence (a separate head, biases).  Tensors
 * keep their names: an architecture knows both spellings (src/model/layers/bind.h).  A model may be
 * split into several files; the first one has the keys.
 *
 * Tested by tests/unit/loader/test_gguf.c, the goldens and tests/fuzz/fuzz_gguf.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "loader/model_files_internal.h"
#include "loader/gguf.h"

#define MAX_VOCAB (1 << 24)
#define MAX_CHARSMAP (1 << 24)	/* bytes */
#define MAX_ROPE_FACTORS 512
#define MAX_PER_LAYER 4096		/* values of one key */

typedef struct Gm
{
	Files	   *f;
	const char *path;
	Gguf	   *parts;			/* of each of f's files */
	int			n_parts;
	const Gguf *g;				/* the first part, which has the keys */
	char		arch[64];
	Err		   *e;
} Gm;

/* Return the architecture's key; NULL if absent. */
static const GgufKey *
arch_key(const Gm *m, const char *key)
{
	char		name[192];

	snprintf(name, sizeof(name), "%s.%s", m->arch, key);
	return gguf_find(m->g, name);
}

static bool
key_is(const GgufKey *k, const char *s)
{
	return k != NULL && k->type == GGUF_STRING && k->n == strlen(s) && memcmp(k->data, s, k->n) == 0;
}

static char *
key_dup(const GgufKey *k)
{
	return k != NULL && k->type == GGUF_STRING ? mem_strndup((const char *) k->data, k->n) : NULL;
}

static bool
tensor_is(const GgufTensor *t, const char *name)
{
	return t->name_len == strlen(name) && memcmp(t->name, name, t->name_len) == 0;
}

/* Find a tensor by name.  If part isn't NULL, set *part to the part that has the tensor. */
static const GgufTensor *
find_tensor(const Gm *m, const char *name, int *part)
{
	for (int p = 0; p < m->n_parts; p++)
		for (size_t i = 0; i < m->parts[p].n_tensors; i++)
			if (tensor_is(&m->parts[p].tensors[i], name))
			{
				if (part != NULL)
					*part = p;
				return &m->parts[p].tensors[i];
			}
	return NULL;
}

/* ---- the files ---- */

/* Read a whole number 0 .. hi of a part's keys; dflt if the key is absent. */
static bool
split_key(const Gm *m, int part, const char *key, int hi, int dflt, int *out)
{
	const GgufKey *k = gguf_find(&m->parts[part], key);
	double		v = dflt;

	if (k != NULL && (k->type == GGUF_ARRAY || !gguf_num(k, 0, &v) || !(v >= 0 && v <= hi) ||
					  v != (double) (int) v))
		return err_set(m->e, ERR_BAD_FILE, "file \"%s\" has an invalid \"%s\"", m->f->maps[part].path, key);
	*out = (int) v;
	return true;
}

/* Read part number `part` (from 1) of a split model. */
static bool
read_part(Gm *m, int part)
{
	char	   *path = gguf_part_path(m->path, 0, m->n_parts, part);
	int			no;
	int			count;
	int			at;
	const FileMap *map;

	if (path == NULL)
		return err_set(m->e, ERR_BAD_FILE,
					   "file \"%s\" is the first of %d parts of a GGUF model, but its name doesn't end in "
					   "\"-00001-of-%05d.gguf\"", m->path, m->n_parts, m->n_parts);
	if ((at = files_map(m->f, path, m->e)) < 0)
	{
		mem_free(path);
		return err_detail(m->e, "It is part %d of %d of the model.", part + 1, m->n_parts);
	}
	mem_free(path);
	ALWAYS(at == part && part < m->n_parts);	/* parts[] is parallel to maps[] */
	map = &m->f->maps[part];
	if (!gguf_parse(map->base, map->len, map->path, &m->parts[part], m->e) ||
		!split_key(m, part, "split.no", FILES_MAX_MAPS, -1, &no) ||
		!split_key(m, part, "split.count", FILES_MAX_MAPS, -1, &count))
		return false;
	if (no == part && count == m->n_parts)
		return true;
	err_set(m->e, ERR_BAD_FILE, "file \"%s\" is not part %d of %d of the model", map->path, part + 1,
			m->n_parts);
	return err_detail(m->e, "It has \"split.no\" = %d and \"split.count\" = %d.", no, count);
}

/* The file is not the first part: report an error that names the first part. */
static bool
not_first(const Gm *m, int no, int count)
{
	char	   *first = gguf_part_path(m->path, no, count, 0);

	err_set(m->e, ERR_BAD_FILE, "file \"%s\" is part %d of %d of a GGUF model", m->path, no + 1, count);
	if (first != NULL)
		err_hint(m->e, "Give the path of the first part, \"%s\".", first);
	else
		err_hint(m->e, "Give the path of the first part.");
	mem_free(first);
	return false;
}

/* Read the file and, if it is a part, all others.  Check the total number of
 * tensors against the first part's key. */
static bool
read_parts(Gm *m)
{
	const FileMap *map = &m->f->maps[0];
	size_t		tensors = 0;
	int			no;
	int			count;
	int			want;

	m->g = m->parts = mem_zalloc(FILES_MAX_MAPS * sizeof(Gguf));
	m->n_parts = 1;
	if (!gguf_parse(map->base, map->len, map->path, &m->parts[0], m->e) ||
		!split_key(m, 0, "split.count", FILES_MAX_MAPS, 0, &count) ||
		!split_key(m, 0, "split.no", FILES_MAX_MAPS, 0, &no))
		return false;
	if (count <= 1)
		return true;
	if (no != 0)
		return not_first(m, no, count);
	m->n_parts = count;
	for (int i = 1; i < count; i++)
		if (!read_part(m, i))
			return false;
	for (int i = 0; i < count; i++)
		tensors += m->parts[i].n_tensors;
	if (!split_key(m, 0, "split.tensors.count", FILES_MAX_TENSORS, (int) tensors, &want))
		return false;
	return tensors == (size_t) want ||
		err_set(m->e, ERR_BAD_FILE, "the parts of model \"%s\" have %zu tensors, \"split.tensors.count\" is "
									"%d",
				m->path, tensors, want);
}

static bool
part_has(const Gguf *g, const char *name)
{
	size_t		len = strlen(name);

	for (size_t i = 0; i < g->n_tensors; i++)
	{
		const GgufTensor *t = &g->tensors[i];

		if (t->name_len > len + 1 && memcmp(t->name, "blk.", 4) == 0 &&
			t->name[t->name_len - len - 1] == '.' && memcmp(t->name + t->name_len - len, name, len) == 0)
			return true;
	}
	return false;
}

/* Return true if any layer has a tensor of this name.  One layer isn't enough: a hybrid's first layer
 * may lack tensors that others have. */
static bool
layer_has(const Gm *m, const char *name)
{
	for (int i = 0; i < m->n_parts; i++)
		if (part_has(&m->parts[i], name))
			return true;
	return false;
}

/* ---- configuration ---- */

static void
put_key(Conf *c, const char *conf_key, const GgufKey *k)
{
	double		v;

	if (k == NULL)
		return;
	if (k->type == GGUF_STRING)
	{
		char	   *s = key_dup(k);

		conf_set_str(c, conf_key, s);
		mem_free(s);
	}
	else if (k->type == GGUF_BOOL && gguf_num(k, 0, &v))
		conf_set_bool(c, conf_key, v != 0);
	else if (k->type == GGUF_ARRAY)
	{
		double		v[MAX_PER_LAYER];
		size_t		n = 0;

		while (n < k->n && n < MAX_PER_LAYER && gguf_num(k, n, &v[n]))
			n++;
		if (n > 0 && n == k->n)
			conf_set_nums(c, conf_key, v, n);
	}
	else if (gguf_num(k, 0, &v))
		conf_set_num(c, conf_key, v);
}

/* general.architecture */
static bool
read_arch(Gm *m)
{
	const GgufKey *k = gguf_find(m->g, "general.architecture");

	if (k == NULL || k->type != GGUF_STRING || !files_name_ok((const char *) k->data, k->n) ||
		k->n >= sizeof(m->arch))
		return err_set(m->e, ERR_BAD_FILE, "file \"%s\" has no valid \"general.architecture\"", m->path);
	memcpy(m->arch, k->data, k->n);
	m->arch[k->n] = '\0';
	conf_set_str(m->f->conf, "gguf.architecture", m->arch);
	return true;
}

/* Factors of RoPE's frequencies, which converters store as tensors. */
static const struct
{
	const char *tensor;
	const char *key;
	const char *type;			/* type of rope scaling */
}			rope_tensors[] = {
	{"rope_freqs.weight", "rope_scaling.factors", "factors"},
	{"rope_factors_long.weight", "rope_scaling.long_factor", "longrope"},
	{"rope_factors_short.weight", "rope_scaling.short_factor", "longrope"},
};

#define N_ROPE_TENSORS (sizeof(rope_tensors) / sizeof(rope_tensors[0]))

static bool
read_rope_factors(Gm *m, size_t which, const GgufTensor *t, int part)
{
	const FileMap *map = &m->f->maps[part];
	uint64_t	data = m->parts[part].data;
	const char *type = conf_str(m->f->conf, "rope_scaling.rope_type", rope_tensors[which].type);
	double		factors[MAX_ROPE_FACTORS];

	if (strcmp(type, rope_tensors[which].type) != 0)
		return err_set(m->e, ERR_UNSUPPORTED,
					   "file \"%s\" has both RoPE scaling type \"%s\" and tensor \"%s\"", m->path, type,
					   rope_tensors[which].tensor);
	if (t->ndim != 1 || t->ne[0] > MAX_ROPE_FACTORS || t->type != 0 ||
		t->offset > map->len - data || (uint64_t) t->ne[0] * 4 > map->len - data - t->offset)
		return err_set(m->e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" is invalid",
					   rope_tensors[which].tensor, map->path);
	for (int64_t i = 0; i < t->ne[0]; i++)
	{
		float		v;

		memcpy(&v, map->base + data + t->offset + i * 4, sizeof(v));
		factors[i] = v;
	}
	if (!conf_has(m->f->conf, "rope_scaling.rope_type"))
		conf_set_str(m->f->conf, "rope_scaling.rope_type", rope_tensors[which].type);
	conf_set_nums(m->f->conf, rope_tensors[which].key, factors, (size_t) t->ne[0]);
	return true;
}

static bool
read_rope(Gm *m)
{
	Conf	   *c = m->f->conf;
	const GgufKey *type = arch_key(m, "rope.scaling.type");
	const GgufKey *old = arch_key(m, "rope.scale_linear");
	double		factor;

	if (type != NULL && !key_is(type, "none"))
		put_key(c, "rope_scaling.rope_type", type);
	else if (type == NULL && old != NULL)
	{
		conf_set_str(c, "rope_scaling.rope_type", "linear");
		put_key(c, "rope_scaling.factor", old);
	}
	for (size_t i = 0; i < N_ROPE_TENSORS; i++)
	{
		int			part = 0;
		const GgufTensor *t = find_tensor(m, rope_tensors[i].tensor, &part);

		if (t != NULL && !read_rope_factors(m, i, t, part))
			return false;
	}
	/* The key is a tenth of DeepSeek's mscale, but Ministral 3's own value.  Both of DeepSeek's mscales
	 * are equal in all models. */
	old = arch_key(m, "rope.scaling.yarn_log_multiplier");
	if (old != NULL && gguf_num(old, 0, &factor))
	{
		factor *= conf_has(c, "kv_lora_rank") ? 10 : 1;
		conf_set_num(c, "rope_scaling.mscale", factor);
		conf_set_num(c, "rope_scaling.mscale_all_dim", factor);
	}
	/* with other types the engine would multiply it by the type's own factor */
	old = arch_key(m, "rope.scaling.attn_factor");
	if (old != NULL && strcmp(conf_str(c, "rope_scaling.rope_type", ""), "longrope") == 0)
		put_key(c, "rope_scaling.attention_factor", old);
	else if (old != NULL && gguf_num(old, 0, &factor) && factor != 1)
		return err_set(m->e, ERR_UNSUPPORTED, "file \"%s\" has \"rope.scaling.attn_factor\" = %g, "
					   "which is supported for longrope only", m->path, factor);
	return true;
}

/* In a chat, the token "end of turn" ends the text like EOS, if the file names one. */
static void
read_eos(Gm *m)
{
	static const char *const keys[] = {"tokenizer.ggml.eos_token_id",
	"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
	double		ids[3];
	size_t		n = 0;

	for (int i = 0; i < 3; i++)
	{
		const GgufKey *k = gguf_find(m->g, keys[i]);

		if (k != NULL && gguf_num(k, 0, &ids[n]))
			n++;
	}
	if (n > 0)
		conf_set_nums(m->f->conf, "generation.eos_token_id", ids, n);
}

static bool
read_conf(Gm *m)
{
	Conf	   *c = m->f->conf;
	const GgufTensor *embd = find_tensor(m, "token_embd.weight", NULL);
	const GgufKey *tokens = gguf_find(m->g, "tokenizer.ggml.tokens");

#define GGUF_ARCH_KEY(key, conf) put_key(c, conf, arch_key(m, key));
#define GGUF_KEY(key, conf) put_key(c, conf, gguf_find(m->g, key));
#include "loader/gguf_keys.def"
	/* a file without tensors may still be a tokenizer */
	if (embd != NULL && embd->ndim == 2)
		conf_set_int(c, "vocab_size", embd->ne[1]);
	else if (tokens != NULL && tokens->type == GGUF_ARRAY)
		conf_set_int(c, "vocab_size", (int64_t) tokens->n);
	conf_set_bool(c, "tie_word_embeddings", find_tensor(m, "output.weight", NULL) == NULL);
	conf_set_bool(c, "attention_bias", layer_has(m, "attn_q.bias"));
	conf_set_bool(c, "attention_out_bias", layer_has(m, "attn_output.bias"));
	conf_set_bool(c, "mlp_bias", layer_has(m, "ffn_gate.bias"));
	conf_set_bool(c, "generation.do_sample", conf_has(c, "generation.temperature"));
	read_eos(m);
	return read_rope(m);
}

/* ---- tensors ---- */

static bool
is_rope_tensor(const char *name)
{
	for (size_t i = 0; i < N_ROPE_TENSORS; i++)
		if (strcmp(name, rope_tensors[i].tensor) == 0)
			return true;
	return false;
}

static bool
add_tensor(Gm *m, int part, const GgufTensor *t)
{
	const Gguf *g = &m->parts[part];
	const char *path = m->f->maps[part].path;
	const Quant *q = quant_by_gguf(t->type);
	char		name[FILES_MAX_NAME + 1];
	int64_t		shape[4];
	uint64_t	bytes = 1;

	if (!files_name_ok(t->name, t->name_len))
		return err_set(m->e, ERR_BAD_FILE, "file \"%s\" has a tensor with an invalid name", path);
	snprintf(name, sizeof(name), "%.*s", (int) t->name_len, t->name);
	if (is_rope_tensor(name))
		return true;			/* already part of the configuration */
	if (q == NULL)
	{
		err_set(m->e, ERR_UNSUPPORTED, "tensor \"%s\" in file \"%s\" has GGUF type %u, which is not "
									   "supported",
				name, path, t->type);
		return err_hint(m->e, "Supported types are %s.", quant_gguf_list());
	}
	if (t->offset % g->alignment != 0)
		return err_set(m->e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" is not aligned", name, path);
	for (int i = 0; i < t->ndim; i++)
	{
		shape[i] = t->ne[t->ndim - 1 - i];
		bytes *= (uint64_t) shape[i];	/* gguf_parse() has checked the product */
	}
	if (t->ne[0] % q->block != 0 || bytes > INT64_MAX / (uint64_t) q->bytes ||
		t->offset > INT64_MAX)
		return err_set(m->e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has an invalid shape",
					   name, path);
	bytes = bytes / (uint64_t) q->block * (uint64_t) q->bytes;
	return files_add(m->f, part, name, q, t->ndim, shape, g->data + t->offset, bytes, m->e);
}

static int
offset_cmp(const void *a, const void *b)
{
	uintptr_t	x = (uintptr_t) ((const FileTensor *) a)->t.data;
	uintptr_t	y = (uintptr_t) ((const FileTensor *) b)->t.data;

	return (x > y) - (x < y);
}

static bool
add_tensors(Gm *m)
{
	Files	   *f = m->f;

	for (int p = 0; p < m->n_parts; p++)
		for (size_t i = 0; i < m->parts[p].n_tensors; i++)
			if (!add_tensor(m, p, &m->parts[p].tensors[i]))
				return false;
	if (f->n_tensors > 0)
		qsort(f->tensors, f->n_tensors, sizeof(FileTensor), offset_cmp);
	for (size_t i = 1; i < f->n_tensors; i++)
	{
		const KTensor *a = &f->tensors[i - 1].t;
		const KTensor *b = &f->tensors[i].t;

		if ((const uint8_t *) a->data + a->nbytes > (const uint8_t *) b->data)
			return err_set(m->e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" overlaps tensor \"%s\"",
						   b->name, files_where(f, b), a->name);
	}
	return true;
}

/* ---- vocabulary ---- */

/* Copy an array of strings to NUL-terminated strings in *text and set *at to their offsets. */
static bool
copy_strings(const GgufKey *k, Buf *text, size_t *at, size_t *len)
{
	const uint8_t *p = NULL;

	for (uint64_t i = 0; i < k->n; i++)
	{
		const char *s;
		size_t		n;

		if (!gguf_next_str(k, &p, &s, &n))
			return false;
		at[i] = text->len;
		if (len != NULL)
			len[i] = n;
		buf_add(text, s, n);
		buf_addc(text, '\0');
	}
	return true;
}

static bool
is_array(const GgufKey *k, GgufType elem, uint64_t max)
{
	return k != NULL && k->type == GGUF_ARRAY && k->elem == elem && k->n <= max;
}

static int
flag(const Gm *m, const char *key)
{
	const GgufKey *k = gguf_find(m->g, key);
	double		v;

	return k != NULL && gguf_num(k, 0, &v) ? v != 0 : -1;
}

static int32_t
token_id(const Gm *m, const char *key, size_t n)
{
	const GgufKey *k = gguf_find(m->g, key);
	double		v;

	return k != NULL && gguf_num(k, 0, &v) && v >= 0 && v < (double) n ? (int32_t) v : -1;
}

static bool
bad_vocab(const Gm *m, const char *key)
{
	return err_set(m->e, ERR_BAD_FILE, "file \"%s\" has an invalid \"%s\"", m->path, key);
}

/* Read scores and types, one for each token. */
static bool
read_token_arrays(Gm *m, TokGguf *v)
{
	const GgufKey *scores = gguf_find(m->g, "tokenizer.ggml.scores");
	const GgufKey *types = gguf_find(m->g, "tokenizer.ggml.token_type");

	if (scores != NULL)
	{
		float	   *a = mem_alloc(v->n * sizeof(float));

		v->scores = a;
		if (!is_array(scores, GGUF_F32, v->n) || scores->n != v->n)
			return bad_vocab(m, "tokenizer.ggml.scores");
		if (v->n > 0)
			memcpy(a, scores->data, v->n * sizeof(float));
	}
	if (types != NULL)
	{
		int32_t    *a = mem_alloc(v->n * sizeof(int32_t));

		v->types = a;
		if (!is_array(types, types->elem == GGUF_U32 ? GGUF_U32 : GGUF_I32, v->n) || types->n != v->n)
			return bad_vocab(m, "tokenizer.ggml.token_type");
		if (v->n > 0)
			memcpy(a, types->data, v->n * sizeof(int32_t));
	}
	return true;
}

/* Read special tokens and flags. */
static void
read_token_facts(const Gm *m, TokGguf *v)
{
	v->bos = token_id(m, "tokenizer.ggml.bos_token_id", v->n);
	if (v->bos < 0)
		v->bos = token_id(m, "tokenizer.ggml.cls_token_id", v->n);
	/* the GGUF specification has misspelled this key */
	v->sep = token_id(m, "tokenizer.ggml.seperator_token_id", v->n);
	v->eos = token_id(m, "tokenizer.ggml.eos_token_id", v->n);
	v->unk = token_id(m, "tokenizer.ggml.unknown_token_id", v->n);
	v->add_bos = flag(m, "tokenizer.ggml.add_bos_token");
	v->add_eos = flag(m, "tokenizer.ggml.add_eos_token");
	v->add_sep = flag(m, "tokenizer.ggml.add_sep_token");
	v->add_space_prefix = flag(m, "tokenizer.ggml.add_space_prefix");
	v->remove_extra_whitespaces = flag(m, "tokenizer.ggml.remove_extra_whitespaces");
	v->lowercase = flag(m, "tokenizer.ggml.normalizer.lowercase");
	v->strip_accents = flag(m, "tokenizer.ggml.normalizer.strip_accents");
}

static bool
read_vocab(Gm *m)
{
	const GgufKey *model = gguf_find(m->g, "tokenizer.ggml.model");
	const GgufKey *tokens = gguf_find(m->g, "tokenizer.ggml.tokens");
	const GgufKey *merges = gguf_find(m->g, "tokenizer.ggml.merges");
	const GgufKey *charsmap = gguf_find(m->g, "tokenizer.ggml.precompiled_charsmap");
	Buf			text = {0};
	TokGguf    *v;
	size_t	   *at;
	size_t		at_model = 0;
	size_t		at_pre = 0;
	size_t		at_charsmap = 0;
	char	   *s;
	bool		ok;

	if (model == NULL || tokens == NULL)
		return true;			/* files_tokenizer() reports that there is none */
	if (model->type != GGUF_STRING || !is_array(tokens, GGUF_STRING, MAX_VOCAB))
		return bad_vocab(m, "tokenizer.ggml.tokens");
	if (merges != NULL && !is_array(merges, GGUF_STRING, MAX_VOCAB))
		return bad_vocab(m, "tokenizer.ggml.merges");
	if (charsmap != NULL && !is_array(charsmap, charsmap->elem == GGUF_I8 ? GGUF_I8 : GGUF_U8, MAX_CHARSMAP))
		return bad_vocab(m, "tokenizer.ggml.precompiled_charsmap");
	v = m->f->gguf = mem_alloc(sizeof(TokGguf));
	*v = (TokGguf) TOK_GGUF_INIT;
	v->n = tokens->n;
	v->n_merges = merges != NULL ? merges->n : 0;
	v->tokens = mem_zalloc(v->n * sizeof(char *));
	v->token_len = mem_zalloc(v->n * sizeof(size_t));
	v->merges = mem_zalloc(v->n_merges * sizeof(char *));
	at = mem_zalloc((v->n + v->n_merges) * sizeof(size_t));
	ok = copy_strings(tokens, &text, at, (size_t *) v->token_len) &&
		(merges == NULL || copy_strings(merges, &text, at + v->n, NULL));
	if ((s = key_dup(model)) != NULL)
	{
		at_model = text.len;
		buf_add(&text, s, strlen(s) + 1);
		mem_free(s);
	}
	if ((s = key_dup(gguf_find(m->g, "tokenizer.ggml.pre"))) != NULL)
	{
		at_pre = text.len;
		buf_add(&text, s, strlen(s) + 1);
		mem_free(s);
	}
	if (charsmap != NULL)
	{
		at_charsmap = text.len;
		buf_add(&text, charsmap->data, charsmap->n);
	}
	/* text is complete, so its strings no longer move */
	m->f->gguf_text = text.data;
	for (size_t i = 0; ok && i < v->n; i++)
		((const char **) v->tokens)[i] = text.data + at[i];
	for (size_t i = 0; ok && i < v->n_merges; i++)
		((const char **) v->merges)[i] = text.data + at[v->n + i];
	mem_free(at);
	v->model = text.data + at_model;
	v->pre = at_pre > 0 ? text.data + at_pre : NULL;
	if (charsmap != NULL)
	{
		v->charsmap = text.data + at_charsmap;
		v->n_charsmap = charsmap->n;
	}
	read_token_facts(m, v);
	return ok ? read_token_arrays(m, v) : bad_vocab(m, "tokenizer.ggml.tokens");
}

/* Read tokenizer.chat_template and tokenizer.chat_template.NAME. */
static void
read_templates(Gm *m)
{
	static const char prefix[] = "tokenizer.chat_template";
	size_t		n = sizeof(prefix) - 1;

	for (size_t i = 0; i < m->g->n_keys; i++)
	{
		const GgufKey *k = &m->g->keys[i];

		if (k->type != GGUF_STRING || k->n > FILES_MAX_CONFIG || k->key_len < n ||
			memcmp(k->key, prefix, n) != 0)
			continue;
		if (k->key_len == n)
			files_add_template(m->f, "default", 7, (const char *) k->data, k->n);
		else if (k->key[n] == '.')
			files_add_template(m->f, k->key + n + 1, k->key_len - n - 1, (const char *) k->data, k->n);
	}
}

/* ---- the whole model, read under the guard ---- */

typedef struct GgufRead
{
	Files	   *f;
	Err		   *e;
	bool		ok;
} GgufRead;

static void
read_all(void *arg)
{
	GgufRead   *r = arg;
	Gm			m = {.f = r->f, .path = r->f->maps[0].path, .e = r->e};

	r->ok = read_parts(&m) && read_arch(&m) && read_conf(&m) && add_tensors(&m) && read_vocab(&m);
	if (r->ok)
		read_templates(&m);
	for (int i = 0; i < m.n_parts; i++)
		gguf_free(&m.parts[i]);
	mem_free(m.parts);
}

bool
gguf_open(Files *f, const char *path, Err *e)
{
	GgufRead	r = {.f = f, .e = e};

	ASSERT(f->n_maps == 0);
	if (files_map(f, path, e) < 0)
		return false;
	return load_read_guard(f, read_all, &r, e) && r.ok;
}
