/*
 * tok_sentencepiece.c
 *	  Build a Tok from SentencePiece's tokenizer.model.
 *
 * The file is a protocol buffer (sentencepiece_model.proto); this reader reads these fields and skips
 * all others:
 *
 *	 1	pieces, each: 1 text, 2 score, 3 type (as GGUF's token_type)
 *	 2	trainer: 3 model type, 24 white space as suffix, 35 byte fallback,
 *		40 41 42 ids of unknown, BOS, EOS
 *	 3	normalizer: 2 precompiled rules, 3 dummy prefix, 4 remove extra white space,
 *		5 escape white space
 *
 * The result is treated like a GGUF vocabulary.  The tokens around a text aren't in the file but in the
 * code of each tokenizer class of transformers: classes whose code does more than that (ids of fairseq)
 * are refused, and so are unknown ones.  Added tokens are in tokenizer_config.json.
 *
 * Tested by tests/unit/tokenizer/test_tokenizer_kinds.c against SentencePiece.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "base/json/json.h"
#include "tokenizer/load/tok_hf.h"
#include "text/unicode.h"

enum
{
	MODEL_UNIGRAM = 1,
	MODEL_BPE = 2
};

#define MAX_ADDED	65536		/* ids after the vocabulary */

typedef struct Field
{
	uint64_t	number;
	uint64_t	value;			/* of a varint */
	const uint8_t *data;		/* 4 bytes or a string */
	size_t		len;
} Field;

typedef struct TokSentencepieceReader
{
	const uint8_t *p;
	const uint8_t *end;
	bool		bad;
} TokSentencepieceReader;

static uint64_t
varint(TokSentencepieceReader *r)
{
	uint64_t	v = 0;

	for (int shift = 0; shift < 64 && r->p < r->end; shift += 7)
	{
		uint8_t		c = *r->p++;

		v |= (uint64_t) (c & 0x7F) << shift;
		if (c < 0x80)
			return v;
	}
	r->bad = true;
	return 0;
}

/* Read the next field; return false at the end, or with r->bad set. */
static bool
next_field(TokSentencepieceReader *r, Field *f)
{
	uint64_t	tag;

	ALWAYS(r->p <= r->end);
	if (r->bad || r->p == r->end)
		return false;
	tag = varint(r);
	*f = (Field) {.number = tag >> 3};
	switch (tag & 7)
	{
		case 0:
			f->value = varint(r);
			return !r->bad;
		case 1:
			f->len = 8;
			break;
		case 2:
			f->len = varint(r);
			break;
		case 5:
			f->len = 4;
			break;
		default:
			r->bad = true;
	}
	if (r->bad || f->len > (size_t) (r->end - r->p))
	{
		r->bad = true;
		return false;
	}
	f->data = r->p;
	r->p += f->len;
	return true;
}

/* The vocabulary under construction; arrays of v.n entries, cap allocated. */
typedef struct SpmFile
{
	TokGguf		v;
	size_t		cap;
	const char **token;			/* offsets while the file is read */
	size_t	   *len;
	float	   *score;
	int32_t    *type;
	uint8_t    *flags;			/* ADDED_* of added tokens */
	Buf			text;
	int			model;
	bool		escape;
} SpmFile;

static void
reserve(SpmFile *s, size_t n)
{
	if (n <= s->cap)
		return;
	s->cap = s->cap * 2 > n ? s->cap * 2 : n > 1024 ? n : 1024;
	s->token = mem_realloc(s->token, s->cap * sizeof(char *));
	s->len = mem_realloc(s->len, s->cap * sizeof(size_t));
	s->score = mem_realloc(s->score, s->cap * sizeof(float));
	s->type = mem_realloc(s->type, s->cap * sizeof(int32_t));
	s->flags = mem_realloc(s->flags, s->cap);
}

static void
add_piece(SpmFile *s, TokSentencepieceReader r, bool *bad)
{
	Field		f;
	size_t		n = s->v.n;

	reserve(s, n + 1);
	s->flags[n] = 0;
	s->len[n] = 0;
	s->score[n] = 0;
	s->type[n] = 1;
	s->token[n] = (const char *) s->text.len;
	while (next_field(&r, &f))
		if (f.number == 1 && f.data != NULL)
		{
			s->token[n] = (const char *) s->text.len;
			s->len[n] = f.len;
			buf_add(&s->text, f.data, f.len);
			buf_addc(&s->text, '\0');
		}
		else if (f.number == 2 && f.len == 4)
			memcpy(&s->score[n], f.data, 4);
		else if (f.number == 3)
			s->type[n] = (int32_t) f.value;
	if (s->len[n] == 0)
		buf_addc(&s->text, '\0');
	*bad = *bad || r.bad;
	s->v.n++;
}

static void
read_trainer(SpmFile *s, TokSentencepieceReader r, bool *bad)
{
	Field		f;

	while (next_field(&r, &f))
		if (f.number == 3)
			s->model = (int) f.value;
		else if (f.number == 24)
			s->v.space_suffix = f.value != 0;
		else if (f.number == 40)
			s->v.unk = (int32_t) f.value;
		else if (f.number == 41)
			s->v.bos = (int32_t) f.value;
		else if (f.number == 42)
			s->v.eos = (int32_t) f.value;
	*bad = *bad || r.bad;
}

static void
read_normalizer(SpmFile *s, TokSentencepieceReader r, bool *bad)
{
	Field		f;

	while (next_field(&r, &f))
		if (f.number == 2 && f.data != NULL)
		{
			s->v.charsmap = f.data;
			s->v.n_charsmap = f.len;
		}
		else if (f.number == 3)
			s->v.add_space_prefix = f.value != 0;
		else if (f.number == 4)
			s->v.remove_extra_whitespaces = f.value != 0;
		else if (f.number == 5)
			s->escape = f.value != 0;
	*bad = *bad || r.bad;
}

static bool
read_file(SpmFile *s, const void *data, size_t n, Err *e)
{
	TokSentencepieceReader r = {.p = data, .end = (const uint8_t *) data + n};
	bool		bad = false;
	Field		f;

	s->v = (TokGguf) TOK_GGUF_INIT;
	s->v.unk = 0;
	s->v.bos = 1;
	s->v.eos = 2;
	s->v.remove_extra_whitespaces = 1;
	s->v.native = true;
	s->model = MODEL_UNIGRAM;
	s->escape = true;
	while (next_field(&r, &f))
	{
		TokSentencepieceReader inner;

		if (f.data == NULL)
			continue;
		inner = (TokSentencepieceReader) {.p = f.data, .end = f.data + f.len};
		if (f.number == 1 && s->v.n < TOK_MAX_ID)
			add_piece(s, inner, &bad);
		else if (f.number == 2)
			read_trainer(s, inner, &bad);
		else if (f.number == 3)
			read_normalizer(s, inner, &bad);
	}
	if (r.bad || bad || s->v.n == 0)
		return err_set(e, ERR_BAD_FILE, "tokenizer.model is not a SentencePiece model");
	if (s->model != MODEL_UNIGRAM && s->model != MODEL_BPE)
		return err_set(e, ERR_UNSUPPORTED, "tokenizer.model: SentencePiece model type %d is not supported",
					   s->model);
	if (!s->escape)
		return err_set(e, ERR_UNSUPPORTED,
					   "tokenizer.model: white space that is not escaped is not supported");
	for (size_t i = 0; i < s->v.n; i++)
		s->token[i] = s->text.data + (size_t) s->token[i];
	s->v.n_native = s->v.n;
	s->v.model = s->model == MODEL_BPE ? "llama" : "t5";
	return true;
}

/* Add a token; its text must outlive *s. */
static bool
put_added(SpmFile *s, size_t id, const char *text, const Json *x, bool special, Err *e)
{
	size_t		n = strlen(text);

	if (n == 0 || n > TOK_MAX_TOKEN_BYTES || id >= s->v.n + MAX_ADDED || id >= TOK_MAX_ID)
		return err_set(e, ERR_BAD_FILE, "added token \"%.60s\" of tokenizer.model has a bad length or id",
					   text);
	reserve(s, id + 1);
	for (; s->v.n <= id; s->v.n++)
	{
		s->token[s->v.n] = "";
		s->len[s->v.n] = 0;
		s->score[s->v.n] = 0;
		s->type[s->v.n] = TYPE_UNUSED;
		s->flags[s->v.n] = 0;
	}
	ALWAYS(id < s->v.n && s->v.n <= s->cap);
	if (s->len[id] > 0 && (s->len[id] != n || memcmp(s->token[id], text, n) != 0))
		return true;			/* another token has this id */
	s->token[id] = text;
	s->len[id] = n;
	if (s->type[id] == TYPE_NORMAL || s->type[id] == TYPE_UNUSED)
		s->type[id] = special ? TYPE_CONTROL : TYPE_USER;
	s->flags[id] = (uint8_t) ((hf_bool(x, "single_word", false) ? ADDED_SINGLE_WORD : 0) |
							  (hf_bool(x, "lstrip", false) ? ADDED_LSTRIP : 0) |
							  (hf_bool(x, "rstrip", false) ? ADDED_RSTRIP : 0));
	return true;
}

/* Add the token that tokenizer_config.json names, by text or by an object with flags. */
static bool
put_named(SpmFile *s, const StrTab *all, const Json *x, int32_t *id, Err *e)
{
	const char *text = json_is_object(x) ? hf_str(x, "content") : json_str_of(x);
	int32_t		found = text != NULL && *text != '\0' ? strtab_find(all, text, strlen(text)) : -1;

	if (found < 0)
		return true;
	if (id != NULL)
		*id = found;
	if (s->type[found] == TYPE_USER)
		s->type[found] = TYPE_CONTROL;
	return s->type[found] != TYPE_NORMAL || put_added(s, (size_t) found, text, x, true, e);
}

/* Add tokens from outside tokenizer.model: added ones with their ids, and names of special ones. */
static bool
add_tokens(SpmFile *s, const Json *config, Err *e)
{
	static const char *const names[] = {"unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
	StrTab	   *all;
	const Json *x;
	bool		ok = true;

	json_each(x, hf_get(config, "added_tokens_decoder"))
	{
		const char *text = hf_str(x, "content");
		char	   *end = NULL;
		long		id = x->key != NULL ? strtol(x->key, &end, 10) : -1;

		if (text == NULL || id < 0 || end == x->key || *end != '\0')
			return err_set(e, ERR_BAD_FILE, "tokenizer_config.json has a bad added token");
		if (!put_added(s, (size_t) id, text, x, hf_bool(x, "special", false), e))
			return false;
	}
	all = strtab_new(s->v.n);
	for (size_t i = 0; i < s->v.n; i++)
		if (s->len[i] > 0)
		{
			strtab_set(all, (int32_t) i, s->token[i], s->len[i]);
			strtab_index(all, (int32_t) i);
		}
	ok = put_named(s, all, hf_get(config, "bos_token"), &s->v.bos, e) &&
		put_named(s, all, hf_get(config, "eos_token"), &s->v.eos, e);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && ok; i++)
		ok = put_named(s, all, hf_get(config, names[i]), NULL, e);
	json_each(x, hf_get(config, "additional_special_tokens"))
		ok = ok && put_named(s, all, x, NULL, e);
	strtab_free(all);
	s->v.tokens = s->token;
	s->v.token_len = s->len;
	s->v.scores = s->score;
	s->v.types = s->type;
	s->v.added_flags = s->flags;
	return ok;
}

/* Apply the tokens that the tokenizer class puts around a text. */
static bool
apply_class(TokGguf *v, const Json *config, Err *e)
{
	static const struct
	{
		const char *name;
		bool		bos;
		bool		eos;
	}			row[] = {
		{"LlamaTokenizer", true, false}, {"LlamaTokenizerFast", true, false},
		{"CodeLlamaTokenizer", true, false},
		{"GemmaTokenizer", true, false}, {"GemmaTokenizerFast", true, false}, {"T5Tokenizer", false, true},
		{"T5TokenizerFast", false, true}, {"BaichuanTokenizer", false, false},
		{"InternLMTokenizer", true, false},
		{"InternLM2Tokenizer", true, false}
	};
	const char *name = hf_str(config, "tokenizer_class");
	size_t		i = 0;

	v->add_bos = v->add_eos = 0;
	while (name != NULL && i < sizeof(row) / sizeof(row[0]) && strcmp(row[i].name, name) != 0)
		i++;
	if (name != NULL && i == sizeof(row) / sizeof(row[0]))
	{
		err_set(e, ERR_UNSUPPORTED, "tokenizer.model of tokenizer class \"%s\" is not supported", name);
		return err_hint(e, "Convert the tokenizer with transformers: "
						"AutoTokenizer.from_pretrained(dir).save_pretrained(dir).");
	}
	if (name != NULL)
	{
		v->add_bos = row[i].bos;
		v->add_eos = row[i].eos;
	}
	v->add_bos = hf_bool(config, "add_bos_token", v->add_bos);
	v->add_eos = hf_bool(config, "add_eos_token", v->add_eos);
	return true;
}

Tok *
tok_from_spm(const void *data, size_t n, const char *config, size_t config_len, Err *e)
{
	SpmFile		s = {0};
	Json	   *root = config != NULL ? json_parse(config, config_len) : NULL;
	Tok		   *t = NULL;

	if (config != NULL && !json_is_object(root))
		err_set(e, ERR_BAD_FILE, "tokenizer_config.json is not a JSON object");
	else if (read_file(&s, data, n, e) && apply_class(&s.v, root, e) && add_tokens(&s, root, e))
		t = tok_from_gguf(&s.v, e);
	json_free(root);
	mem_free(s.token);
	mem_free(s.len);
	mem_free(s.score);
	mem_free(s.type);
	mem_free(s.flags);
	buf_free(&s.text);
	return t;
}
