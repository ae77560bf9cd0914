/*
 * tok_hf.c
 *	  Build a Tok from Hugging Face's tokenizer.json and tokenizer_config.json.
 *
 * This file reads the vocabulary, the merges, and the added tokens; tok_hf_normalizer.c and
 * tok_hf_decoder.c read the other components.  The files are untrusted, so every id, length, and
 * reference is checked before it is used, and big objects are only ever iterated (Json finds a member in
 * linear time).
 *
 * Two files may specify BOS and EOS: the post_processor decides which ids come around a text; only
 * without one do add_bos_token and add_eos_token of tokenizer_config.json count (as in transformers).
 *
 * Tested by tests/unit/tokenizer/test_tokenizer.c and tests/fuzz/fuzz_tokenizer.c.
 */
#include "tokenizer/load/tok_hf.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "base/json/json.h"

/* The state of the construction. */
typedef struct Build
{
	Tok		   *t;
	const Json *model;
	const char *type;			/* the model's */
	const Json *added;			/* "added_tokens"; may be NULL */
	bool	   *skip;			/* [n_ids] special: never a word of text */
	double	   *score;			/* [n_ids] Unigram's */
	int32_t		n_model;		/* end of the model's ids, for Unigram */
} Build;

static bool
is_type(const Build *b, const char *type)
{
	return strcmp(b->type, type) == 0;
}

/* ---------- helpers on trees ---------- */

const Json *
hf_get(const Json *obj, const char *key)
{
	const Json *x = json_is_object(obj) ? json_get(obj, key) : NULL;

	return x == NULL || json_is_null(x) ? NULL : x;
}

const char *
hf_str(const Json *obj, const char *key)
{
	return json_str_of(hf_get(obj, key));
}

bool
hf_bool(const Json *obj, const char *key, bool dflt)
{
	const Json *x = hf_get(obj, key);

	return json_is_bool(x) ? json_is_true(x) : dflt;
}

const char *
hf_type(const Json *obj)
{
	const char *s = hf_str(obj, "type");

	return s != NULL ? s : "";
}

bool
hf_id(const Json *x, int32_t *id)
{
	if (!json_is_number(x) || !(x->num >= 0 && x->num < TOK_MAX_ID) ||
		x->num != (double) (int32_t) x->num)
		return false;
	*id = (int32_t) x->num;
	return true;
}

/* Parse a whole file; NULL with *e set. */
static Json *
parse(const char *name, const char *s, size_t n, Err *e)
{
	Json	   *root;

	if (!uni_valid(s, n))
	{
		err_set(e, ERR_BAD_FILE, "%s is not valid UTF-8", name);
		return NULL;
	}
	while (n > 0 && s[n - 1] == '\0')
		n--;
	root = json_parse(s, n);
	if (!json_is_object(root))
	{
		err_set(e, ERR_BAD_FILE, "%s is not a JSON object", name);
		json_free(root);
		return NULL;
	}
	return root;
}

/* ---------- vocabulary and added tokens ---------- */

static bool
check_model(const Build *b, Err *e)
{
	static const char *const types[] = {"BPE", "Unigram", "WordPiece", "WordLevel"};
	const Json *vocab = hf_get(b->model, "vocab");
	bool		known = false;

	if (b->model == NULL)
		return err_set(e, ERR_BAD_FILE, "tokenizer.json has no model");
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		known = known || strcmp(b->type, types[i]) == 0;
	if (!known)
		return hf_unsupported(e, "model", b->type);
	if (is_type(b, "Unigram") ? !json_is_array(vocab) : !json_is_object(vocab))
		return err_set(e, ERR_BAD_FILE, "tokenizer.json: the model has no vocabulary");
	return true;
}

/*
 * Read the next entry of the vocabulary: {"a": 0, ...}, or [["a", -1.5], ...] whose ids are the
 * positions (*id holds the last one).  Return false with *e set if it is malformed.
 */
static bool
vocab_entry(const Build *b, const Json *x, const char **s, int32_t *id, double *score, Err *e)
{
	bool		ok;

	if (is_type(b, "Unigram"))
	{
		const Json *first = json_is_array(x) ? x->child : NULL;
		const Json *second = first != NULL ? first->next : NULL;

		*s = json_str_of(first);
		*score = json_is_number(second) ? second->num : NAN;
		ok = *s != NULL && ++*id < TOK_MAX_ID && isfinite(*score);
	}
	else
	{
		*s = x->key;
		ok = *s != NULL && hf_id(x, id);	/* the elements of a list have no names */
	}
	if (ok && strlen(*s) <= TOK_MAX_TOKEN_BYTES)
		return true;
	return err_set(e, ERR_BAD_FILE, "tokenizer.json: token \"%.60s\" is too long or has a bad id or score",
				   *s != NULL ? *s : "");
}

/* Return the highest id + 1 of the vocabulary and the added tokens, 0 with *e set on error. */
static int32_t
count_ids(const Build *b, Err *e)
{
	const Json *x;
	const char *s;
	double		score;
	int32_t		max = -1;
	int32_t		id = -1;

	json_each(x, hf_get(b->model, "vocab"))
	{
		if (!vocab_entry(b, x, &s, &id, &score, e))
			return 0;
		max = id > max ? id : max;
	}
	json_each(x, b->added)
	{
		s = hf_str(x, "content");
		if (!hf_id(hf_get(x, "id"), &id) || s == NULL || strlen(s) > TOK_MAX_TOKEN_BYTES)
		{
			err_set(e, ERR_BAD_FILE, "tokenizer.json: an added token has a bad id or content");
			return 0;
		}
		max = id > max ? id : max;
	}
	if (max < 0)
		err_set(e, ERR_BAD_FILE, "tokenizer.json: the vocabulary is empty");
	return max + 1;
}

static bool
fill_vocab(Build *b, Err *e)
{
	Tok		   *t = b->t;
	bool		unigram = is_type(b, "Unigram");
	const Json *x;
	const char *s;
	double		score;
	size_t		n;
	int32_t		id = -1;

	json_each(x, hf_get(b->model, "vocab"))
	{
		if (!vocab_entry(b, x, &s, &id, &score, e))
			return false;
		ALWAYS(id >= 0 && id < t->n_ids);	/* count_ids() has read the same entries */
		if (strtab_get(t->names, id, &n) != NULL)
			return err_set(e, ERR_BAD_FILE, "tokenizer.json: id %d is given twice, the second time "
						   "to \"%.60s\"", (int) id, s);
		strtab_set(t->names, id, s, strlen(s));
		if (unigram)
			b->score[id] = score;
		/* the JSON parser ends keys at U+0000, so empty keys needn't be unique */
		else if (*s != '\0' && !strtab_index(t->names, id))
			return err_set(e, ERR_BAD_FILE, "tokenizer.json: token \"%.60s\" is given twice", s);
	}
	/* a Unigram vocabulary may have a piece twice: the last one counts */
	for (b->n_model = id + 1; unigram && id >= 0; id--)
		strtab_index(t->names, id);
	return true;
}

/* Register the name of an added token; *id becomes its final id. */
static bool
name_added(Build *b, const char *s, int32_t *id, Err *e)
{
	Tok		   *t = b->t;
	int32_t		known = strtab_find(t->names, s, strlen(s));
	size_t		n;

	if (known >= 0)
		*id = known;			/* the model's id takes precedence, as in the reference */
	else if (strtab_get(t->names, *id, &n) == NULL)
		strtab_set(t->names, *id, s, strlen(s));
	else
	{
		const char *other = strtab_get(t->names, *id, &n);

		if (n != strlen(s) || memcmp(other, s, n) != 0)
			return err_set(e, ERR_BAD_FILE, "tokenizer.json: added token \"%.60s\" has id %d, "
						   "which is \"%.*s\"", s, (int) *id, (int) (n < 60 ? n : 60), other);
	}
	return true;
}

static unsigned
added_flags(const Json *x)
{
	return (hf_bool(x, "special", false) ? ADDED_SPECIAL : 0u) |
		(hf_bool(x, "single_word", false) ? ADDED_SINGLE_WORD : 0u) |
		(hf_bool(x, "lstrip", false) ? ADDED_LSTRIP : 0u) |
		(hf_bool(x, "rstrip", false) ? ADDED_RSTRIP : 0u);
}

/*
 * Add a token.  A "normalized" token is searched in normalized text, so it is stored in its normalized
 * form, to which it also decodes.
 */
static bool
add_token(Build *b, const char *s, int32_t id, unsigned flags, bool normalized, Err *e)
{
	Tok		   *t = b->t;
	Added	  **set = normalized ? &t->added_norm : &t->added_raw;
	Buf			form = {0};

	if (!normalized)
		buf_addstr(&form, s);
	else if (!tok_normalize(t, s, strlen(s), TOK_AT_START | TOK_AT_END, &form, e))
	{
		buf_free(&form);
		return false;
	}
	if (strtab_find(t->added_names, s, strlen(s)) < 0)
	{
		strtab_set(t->added_names, id, s, strlen(s));
		strtab_index(t->added_names, id);
		strtab_set(t->pieces, id, form.data, form.len);
	}
	if (flags & ADDED_SPECIAL)
		t->flags[id] |= TOK_F_SPECIAL;
	if ((flags & ADDED_SPECIAL) != 0 || added_looks_special(s, strlen(s)))
		b->skip[id] = true;
	if (*set == NULL)
		*set = added_new();
	if (form.len > 0)
		added_put(*set, form.data, form.len, id, flags);
	buf_free(&form);
	return true;
}

static bool
fill_added(Build *b, Err *e)
{
	const Json *x;

	json_each(x, b->added)
	{
		const char *s = hf_str(x, "content");
		int32_t		id = 0;

		hf_id(hf_get(x, "id"), &id);
		if (*s != '\0' &&
			(!name_added(b, s, &id, e) || !add_token(b, s, id, added_flags(x), hf_bool(x, "normalized", true),
													 e)))
			return false;
	}
	return true;
}

/*
 * Add a token that only tokenizer_config.json lists as added: its text, or an object with flags.
 * Ignored if the vocabulary lacks it: its id would be unknown to the model.
 */
static bool
add_from_config(Build *b, const Json *x, bool special, Err *e)
{
	const char *s = json_is_object(x) ? hf_str(x, "content") : json_str_of(x);
	int32_t		id = s != NULL ? strtab_find(b->t->names, s, strlen(s)) : -1;

	if (id < 0 || *s == '\0' || strtab_find(b->t->added_names, s, strlen(s)) >= 0)
		return true;
	return add_token(b, s, id, added_flags(x) | (special ? ADDED_SPECIAL : 0u),
					 hf_bool(x, "normalized", false), e);
}

static bool
fill_from_config(Build *b, const Json *config, Err *e)
{
	static const char *const names[] = {
		"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"
	};
	static const char *const lists[] = {"additional_special_tokens", "extra_special_tokens"};
	const Json *x;

	json_each(x, hf_get(config, "added_tokens_decoder"))
		if (!add_from_config(b, x, false, e))
			return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!add_from_config(b, hf_get(config, names[i]), true, e))
			return false;
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		json_each(x, hf_get(config, lists[i]))
			if (!add_from_config(b, x, true, e))
				return false;
	return true;
}

/* ---------- merges ---------- */

/* Read the two halves of a merge: "a b" or ["a", "b"]. */
static bool
merge_parts(const Json *x, const char **l, size_t *ln, const char **r, size_t *rn)
{
	const char *sp;

	if (json_is_string(x))
	{
		*l = x->s;
		sp = strchr(*l, ' ');
		if (sp == NULL || strchr(sp + 1, ' ') != NULL)
			return false;
		*ln = (size_t) (sp - *l);
		*r = sp + 1;
	}
	else
	{
		if (!json_is_array(x) || json_count(x) != 2)
			return false;
		*l = json_str_of(x->child);
		*r = json_str_of(x->child->next);
		if (*l == NULL || *r == NULL)
			return false;
		*ln = strlen(*l);
	}
	*rn = strlen(*r);
	return true;
}

static bool
fill_merges(Tok *t, const Json *merges, const char *prefix, Err *e)
{
	size_t		plen = strlen(prefix);
	const Json *x;
	Buf			both = {0};
	bool		ok = true;
	size_t		i = 0;

	json_each(x, merges)
	{
		const char *l;
		const char *r;
		size_t		ln;
		size_t		rn;
		int32_t		id[3];

		if (json_is_string(x) && strncmp(x->s, "#version", 8) == 0)
			continue;
		ok = merge_parts(x, &l, &ln, &r, &rn);
		if (!ok)
		{
			err_set(e, ERR_BAD_FILE, "tokenizer.json: merge %zu is not a pair of tokens", i);
			break;
		}
		buf_reset(&both);
		buf_add(&both, l, ln);
		/* the second half loses the prefix of a continuation, whatever it is */
		if (rn >= plen)
			buf_add(&both, r + plen, rn - plen);
		id[0] = strtab_find(t->names, l, ln);
		id[1] = strtab_find(t->names, r, rn);
		id[2] = strtab_find(t->names, both.data, both.len);
		ok = id[0] >= 0 && id[1] >= 0 && id[2] >= 0;
		if (!ok)
		{
			err_set(e, ERR_BAD_FILE, "tokenizer.json: merge %zu (\"%.*s\" and \"%.40s\") is not of "
					"tokens in the vocabulary", i, (int) (ln < 40 ? ln : 40), l, r);
			break;
		}
		bpe_add_merge(t->bpe, id[0], id[1], id[2], (uint32_t) i);
		i++;
	}
	buf_free(&both);
	return ok;
}

/* Read "unk_token"; -1 if there is none.  Return false with *e set if it isn't in the vocabulary. */
static bool
find_unk(const Build *b, int32_t *id, Err *e)
{
	const char *unk = hf_str(b->model, "unk_token");

	*id = unk != NULL ? strtab_find(b->t->names, unk, strlen(unk)) : -1;
	if (unk != NULL && *id < 0)
		return err_set(e, ERR_BAD_FILE, "tokenizer.json: unk_token \"%.60s\" is not in the vocabulary", unk);
	return true;
}

/* Remove a last step that spells bytes, if it is the only one: bpe can read raw bytes instead. */
static bool
take_spelling(Tok *t)
{
	for (size_t i = 0; i + 1 < t->n_pre; i++)
		if (t->pre[i].kind == PRE_SPELL)
			return false;
	if (t->n_pre == 0 || t->pre[t->n_pre - 1].kind != PRE_SPELL)
		return false;
	t->n_pre--;
	return true;
}

static bool
make_bpe(Build *b, Err *e)
{
	Tok		   *t = b->t;
	const Json *merges = hf_get(b->model, "merges");
	const Json *dropout = hf_get(b->model, "dropout");
	BpeConf		c = {.names = t->names, .n_ids = (size_t) t->n_ids};
	const Json *x;

	c.prefix = hf_str(b->model, "continuing_subword_prefix");
	c.suffix = hf_str(b->model, "end_of_word_suffix");
	c.byte_fallback = hf_bool(b->model, "byte_fallback", false);
	c.fuse_unk = hf_bool(b->model, "fuse_unk", false);
	c.ignore_merges = hf_bool(b->model, "ignore_merges", false);
	if (!json_is_array(merges))
		return err_set(e, ERR_BAD_FILE, "tokenizer.json: the model has no merges");
	if (dropout != NULL && dropout->num != 0)
		return err_set(e, ERR_UNSUPPORTED, "tokenizer.json: BPE dropout is not supported");
	if (!find_unk(b, &c.unk, e))
		return false;
	if ((c.prefix != NULL && *c.prefix != '\0') || (c.suffix != NULL && *c.suffix != '\0'))
	{
		if (c.byte_fallback)
			return err_set(e, ERR_UNSUPPORTED,
						   "tokenizer.json: byte_fallback with subword prefixes or suffixes is not "
						   "supported");
	}
	else
		c.byte_level = t->byte_level = take_spelling(t);
	json_each(x, merges)
		c.n_merges++;
	t->bpe = bpe_new(&c);
	if (!fill_merges(t, merges, c.prefix != NULL ? c.prefix : "", e))
		return false;
	bpe_finish(t->bpe, b->skip);
	return true;
}

static bool
make_unigram(Build *b, Err *e)
{
	Tok		   *t = b->t;
	UnigramConf c = {.names = t->names, .n_ids = (size_t) b->n_model, .score = b->score, .skip = b->skip,
		.byte_fallback = hf_bool(b->model, "byte_fallback", false), .words = true};

	if (hf_get(b->model, "unk_id") == NULL)
		return err_set(e, ERR_UNSUPPORTED, "tokenizer.json: a Unigram model without unk_id is not supported");
	if (!hf_id(hf_get(b->model, "unk_id"), &c.unk) || c.unk >= b->n_model)
		return err_set(e, ERR_BAD_FILE, "tokenizer.json: unk_id is not in the vocabulary");
	for (int32_t i = 0; i < b->n_model; i++)
		if (i == 0 || b->score[i] < c.min_score)
			c.min_score = b->score[i];
	t->unigram = unigram_new(&c);
	return true;
}

static bool
make_word_piece(Build *b, Err *e)
{
	Tok		   *t = b->t;
	const char *prefix = hf_str(b->model, "continuing_subword_prefix");
	WordPieceConf c = {.names = t->names, .n_ids = (size_t) t->n_ids, .skip = b->skip, .first = "",
		.rest = prefix != NULL ? prefix : "##"};
	int32_t		max = 100;

	if (!find_unk(b, &c.unk, e))
		return false;
	if (hf_get(b->model, "max_input_chars_per_word") != NULL &&
		!hf_id(hf_get(b->model, "max_input_chars_per_word"), &max))
		return err_set(e, ERR_BAD_FILE, "tokenizer.json: bad max_input_chars_per_word");
	if (c.unk < 0 && (c.unk = strtab_find(t->names, "[UNK]", 5)) < 0)
		return err_set(e, ERR_BAD_FILE, "tokenizer.json: unk_token \"[UNK]\" is not in the vocabulary");
	c.max_chars = (size_t) max;
	t->wordpiece = wordpiece_new(&c);
	return true;
}

static bool
make_model(Build *b, Err *e)
{
	if (is_type(b, "BPE"))
		return make_bpe(b, e);
	if (is_type(b, "Unigram"))
		return make_unigram(b, e);
	if (is_type(b, "WordPiece"))
		return make_word_piece(b, e);
	b->t->word_level = true;
	return find_unk(b, &b->t->unk, e);
}

/* ---------- the whole tokenizer ---------- */

int32_t
hf_token(const Tok *t, const Json *config, const char *key)
{
	const Json *x = hf_get(config, key);
	const char *s = json_is_object(x) ? hf_str(x, "content") : json_str_of(x);

	return s != NULL ? tok_find(t, s, strlen(s)) : -1;
}

static void
apply_config(Tok *t, const Json *root, const Json *config)
{
	t->bos = hf_token(t, config, "bos_token");
	t->eos = hf_token(t, config, "eos_token");
	if (hf_get(root, "post_processor") == NULL)
		tok_surround(t, hf_bool(config, "add_bos_token", false) ? t->bos : -1,
					 hf_bool(config, "add_eos_token", false) ? t->eos : -1);
}

static bool
build(Build *b, const Json *root, const Json *config, Err *e)
{
	Tok		   *t = b->t;
	PieceRules	rules = {0};

	b->model = hf_get(root, "model");
	b->added = hf_get(root, "added_tokens");
	b->type = *hf_type(b->model) != '\0' ? hf_type(b->model) : "BPE";
	t->bos = t->eos = -1;
	tok_surround(t, -1, -1);
	if (!check_model(b, e))
		return false;
	t->n_ids = count_ids(b, e);
	if (t->n_ids == 0)
		return false;
	t->names = strtab_new((size_t) t->n_ids);
	t->added_names = strtab_new((size_t) t->n_ids);
	t->pieces = strtab_new((size_t) t->n_ids);
	t->flags = mem_zalloc((size_t) t->n_ids);
	b->skip = mem_zalloc((size_t) t->n_ids * sizeof(bool));
	b->score = mem_zalloc((size_t) t->n_ids * sizeof(double));
	if (!hf_normalizer(t, hf_get(root, "normalizer"), e) ||
		!hf_pre_tokenizer(t, hf_get(root, "pre_tokenizer"), e) ||
		!hf_decoder(t, hf_get(root, "decoder"), &rules, e) ||
		!hf_post_processor(t, hf_get(root, "post_processor"), e) ||
		!fill_vocab(b, e) || !fill_added(b, e) || !fill_from_config(b, config, e) || !make_model(b, e))
		return false;
	tok_make_pieces(t, &rules);
	apply_config(t, root, config);
	return true;
}

Tok *
tok_from_hf(const char *tokenizer_json, size_t len, const char *tokenizer_config_json,
			size_t config_len, Err *e)
{
	Build		b = {.t = mem_zalloc(sizeof(Tok))};
	Json	   *root = parse("tokenizer.json", tokenizer_json, len, e);
	Json	   *config = NULL;
	bool		ok = root != NULL;

	if (ok && tokenizer_config_json != NULL)
	{
		config = parse("tokenizer_config.json", tokenizer_config_json, config_len, e);
		ok = config != NULL;
	}
	ok = ok && build(&b, root, config, e);
	json_free(root);
	json_free(config);
	mem_free(b.skip);
	mem_free(b.score);
	if (ok)
		return b.t;
	tok_free(b.t);
	return NULL;
}
