/*
 * tok_tiktoken.c
 *	  Build a Tok from ranked byte strings: Mistral's tekken.json and tiktoken files.
 *
 * Both list tokens as bytes (base 64) with a rank: the neighbours whose concatenation is the token with
 * the lowest rank are merged, leftmost first.  Expressed as merges: every split of a token into two
 * tokens, with the token's rank.  A word that is a token needs no merges.
 *
 * tekken.json has its regex and its special tokens, whose ids come first.  A tiktoken file has a line
 * "base64 rank" per token; regex and special tokens are in the code of a tokenizer class (this file
 * knows a few classes) and in tokenizer_config.json.
 *
 * Tested by tests/unit/tokenizer/test_tokenizer_kinds.c against tiktoken.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "base/json/json.h"
#include "tokenizer/load/tok_hf.h"
#include "text/utf8.h"

#include "tokenizer/pretok/pretokenizers.def"

typedef struct TokTiktokenRanks
{
	Tok		   *t;
	int32_t		first;			/* id of rank 0 */
	int32_t		n;				/* ranks */
	const char *regex;
	Buf			bytes;			/* of one token */
	Buf			name;			/* its spelling */
	Err		   *e;
} TokTiktokenRanks;

static void
tok_begin(TokTiktokenRanks *r, int32_t first, int32_t n, int32_t n_ids)
{
	Tok		   *t = r->t;

	ASSERT(t->names == NULL);	/* read_tiktoken() reads the ids first: there is no table yet */
	ALWAYS(first >= 0 && n > 0 && first <= n_ids - n);
	r->first = first;
	r->n = n;
	t->n_ids = n_ids;
	t->bos = t->eos = -1;
	t->names = strtab_new((size_t) n_ids);
	t->added_names = strtab_new((size_t) n_ids);
	t->pieces = strtab_new((size_t) n_ids);
	t->flags = mem_zalloc((size_t) n_ids);
}

/* Add the token of a rank, in base 64. */
static bool
add_token(TokTiktokenRanks *r, int32_t rank, const char *b64, size_t n)
{
	size_t		len;

	buf_reset(&r->bytes);
	buf_reset(&r->name);
	if (n > TOK_MAX_TOKEN_BYTES || !hf_base64(b64, n, &r->bytes) || r->bytes.len == 0)
		return err_set(r->e, ERR_BAD_FILE, "the token of rank %d is not valid base 64", (int) rank);
	for (size_t i = 0; i < r->bytes.len; i++)
	{
		char		u[4];

		buf_add(&r->name, u, utf8_put(u, bpe_byte_char((unsigned char) r->bytes.data[i])));
	}
	if (rank < 0 || rank >= r->n || strtab_get(r->t->names, r->first + rank, &len) != NULL)
		return err_set(r->e, ERR_BAD_FILE, "rank %d is given twice or out of range", (int) rank);
	strtab_set(r->t->names, r->first + rank, r->name.data, r->name.len);
	if (!strtab_index(r->t->names, r->first + rank))
		return err_set(r->e, ERR_BAD_FILE, "the token of rank %d is there already", (int) rank);
	return true;
}

static bool
add_special(TokTiktokenRanks *r, int32_t id, const char *s, bool special)
{
	Tok		   *t = r->t;
	size_t		n;

	if (id < 0 || id >= t->n_ids || *s == '\0' || strlen(s) > TOK_MAX_TOKEN_BYTES ||
		strtab_get(t->names, id, &n) != NULL)
		return err_set(r->e, ERR_BAD_FILE, "special token \"%.60s\" has a bad id: %d", s, (int) id);
	strtab_set(t->names, id, s, strlen(s));
	strtab_set(t->added_names, id, s, strlen(s));
	strtab_set(t->pieces, id, s, strlen(s));
	if (!strtab_index(t->added_names, id))
		return true;			/* a name that already exists isn't found in text */
	if (special)
		t->flags[id] |= TOK_F_SPECIAL;
	if (t->added_raw == NULL)
		t->added_raw = added_new();
	added_put(t->added_raw, s, strlen(s), id, special ? ADDED_SPECIAL : 0);
	return true;
}

/* Find every split of token `id` into two tokens; return their number, and add the merges if bpe
 * exists. */
static size_t
cut_token(const TokTiktokenRanks *r, int32_t id)
{
	const Tok  *t = r->t;
	size_t		n;
	const char *s = strtab_get(t->names, id, &n);
	size_t		count = 0;

	for (size_t i = s != NULL ? utf8_len((unsigned char) *s) : n; i < n; i += utf8_len((unsigned char) s[i]))
	{
		int32_t		left = strtab_find(t->names, s, i);
		int32_t		right = left >= 0 ? strtab_find(t->names, s + i, n - i) : -1;

		if (right < 0)
			continue;
		count++;
		if (t->bpe != NULL)
			bpe_add_merge(t->bpe, left, right, id, (uint32_t) (id - r->first));
	}
	return count;
}

static bool
finish(TokTiktokenRanks *r)
{
	Tok		   *t = r->t;
	PieceRules	rules = {.step = {{.kind = PIECE_BYTES}}, .n = 1};
	BpeConf		c = {.names = t->names, .n_ids = (size_t) t->n_ids, .unk = -1, .byte_level = true,
					 .ignore_merges = true};
	bool	   *skip;

	for (int b = 0; b < 256; b++)
	{
		char		u[4];

		if (strtab_find(t->names, u, utf8_put(u, bpe_byte_char((unsigned char) b))) < 0)
			return err_set(r->e, ERR_BAD_FILE, "the vocabulary has no token for byte %d", b);
	}
	t->pre[0] = (PreStep) {.kind = PRE_SPLIT, .split = {.match = split_by_regex(r->regex)}};
	if (t->pre[0].split.match == NULL && (t->pre[0].split.rx = rx_compile(r->regex, r->e)) == NULL)
		return false;
	t->n_pre = 1;
	t->byte_level = true;
	for (int32_t id = r->first; id < r->first + r->n; id++)
		c.n_merges += cut_token(r, id);
	t->bpe = bpe_new(&c);
	for (int32_t id = r->first; id < r->first + r->n; id++)
		cut_token(r, id);
	skip = mem_zalloc((size_t) t->n_ids * sizeof(bool));
	for (int32_t id = 0; id < t->n_ids; id++)
		skip[id] = id < r->first || id >= r->first + r->n;
	bpe_finish(t->bpe, skip);
	mem_free(skip);
	tok_make_pieces(t, &rules);
	return true;
}

static Tok *
result(TokTiktokenRanks *r, bool ok)
{
	buf_free(&r->bytes);
	buf_free(&r->name);
	if (ok)
		return r->t;
	tok_free(r->t);
	return NULL;
}

/* ---------- tekken.json ---------- */

/* Special tokens of old files, which had no list; others are <SPECIAL_n>. */
static const char *const old_special[] = {
	"<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
	"[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]",
	"[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"
};

static bool
tekken_special(TokTiktokenRanks *r, const Json *list)
{
	const Json *x;
	int32_t		id;
	size_t		n;
	size_t		known = list == NULL ? sizeof(old_special) / sizeof(old_special[0]) : 0;

	json_each(x, list)
	{
		const char *s = hf_str(x, "token_str");

		if (!hf_id(hf_get(x, "rank"), &id) || id >= r->first || s == NULL)
			return err_set(r->e, ERR_BAD_FILE, "tekken.json: a special token has a bad rank or no text");
		if (!add_special(r, id, s, hf_bool(x, "is_control", true)))
			return false;
	}
	for (id = 0; id < r->first; id++)
	{
		char		s[32];

		if (strtab_get(r->t->names, id, &n) != NULL)
			continue;
		snprintf(s, sizeof(s), "<SPECIAL_%d>", (int) id);
		if (!add_special(r, id, (size_t) id < known ? old_special[id] : s, true))
			return false;
	}
	r->t->bos = tok_find(r->t, "<s>", 3);
	r->t->eos = tok_find(r->t, "</s>", 4);
	return true;
}

static bool
read_tekken(TokTiktokenRanks *r, const Json *root)
{
	const Json *config = hf_get(root, "config");
	const Json *x;
	int32_t		size;
	int32_t		special;
	int32_t		rank;

	r->regex = hf_str(config, "pattern");
	if (r->regex == NULL || !hf_id(hf_get(config, "default_vocab_size"), &size) ||
		!hf_id(hf_get(config, "default_num_special_tokens"), &special) || special >= size)
		return err_set(r->e, ERR_BAD_FILE, "tekken.json has no usable config");
	tok_begin(r, special, size - special, size);
	if (!tekken_special(r, hf_get(root, "special_tokens")))
		return false;
	json_each(x, hf_get(root, "vocab"))
	{
		const char *b64 = hf_str(x, "token_bytes");

		if (!hf_id(hf_get(x, "rank"), &rank) || b64 == NULL)
			return err_set(r->e, ERR_BAD_FILE, "tekken.json: a token has a bad rank or no bytes");
		/* the file may have more than the model */
		if (rank < r->n && !add_token(r, rank, b64, strlen(b64)))
			return false;
	}
	tok_surround(r->t, r->t->bos, -1);
	return finish(r);
}

Tok *
tok_from_tekken(const char *json, size_t n, Err *e)
{
	TokTiktokenRanks r = {.t = mem_zalloc(sizeof(Tok)), .e = e};
	Json	   *root = uni_valid(json, n) ? json_parse(json, n) : NULL;
	bool		ok = json_is_object(root) || err_set(e, ERR_BAD_FILE, "tekken.json is not a JSON object");
	Tok		   *t = result(&r, ok && read_tekken(&r, root));

	json_free(root);
	return t;
}

/* ---------- tiktoken ---------- */

typedef struct TiktokenClass
{
	const char *name;			/* tokenizer_class */
	const char *regex;
	int			extras;			/* special tokens <|extra_n|> after Qwen's own three */
} TiktokenClass;

static const TiktokenClass classes[] = {
	{"QWenTokenizer", RX_QWEN2, 205},
	{"TikTokenTokenizer", RX_KIMI, 0},
	{"PreTrainedTokenizerFast", RX_LLAMA3, 0},	/* Llama 3's tokenizer.model */
};

/* "added_tokens_decoder": {"151643": {"content": ..., "special": true}, ...} */
static bool
config_special(TokTiktokenRanks *r, const Json *list, int32_t *max)
{
	const Json *x;

	json_each(x, list)
	{
		/* elements of a list have no names */
		char	   *end = "?";
		long		id = x->key != NULL ? strtol(x->key, &end, 10) : -1;
		const char *s = hf_str(x, "content");

		if (*end != '\0' || id < 0 || id >= TOK_MAX_ID || s == NULL)
			return err_set(r->e, ERR_BAD_FILE, "tokenizer_config.json has a bad added token");
		if (r->t->names == NULL)
			*max = id > *max ? (int32_t) id : *max;
		else if (!add_special(r, (int32_t) id, s, hf_bool(x, "special", false)))
			return false;
	}
	return true;
}

static bool
qwen_special(TokTiktokenRanks *r, int extras)
{
	static const char *const own[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
	char		s[32];

	for (int i = 0; extras > 0 && i < 3 + extras; i++)
	{
		snprintf(s, sizeof(s), "<|extra_%d|>", i - 3);
		if (!add_special(r, r->n + i, i < 3 ? own[i] : s, true))
			return false;
	}
	return true;
}

/* Read one "base64 rank" line from *p; return false with *e set if it is malformed. */
static bool
rank_line(TokTiktokenRanks *r, const char **p, const char *end, int32_t *rank, const char **b64, size_t *n)
{
	const char *line = *p;
	const char *stop = memchr(line, '\n', (size_t) (end - line));
	const char *sp;
	int64_t		v = 0;

	if (stop == NULL)
		stop = end;
	*p = stop < end ? stop + 1 : end;
	sp = memchr(line, ' ', (size_t) (stop - line));
	if (stop > line && stop[-1] == '\r')
		stop--;
	for (const char *d = sp != NULL ? sp + 1 : stop; d < stop; d++)
		v = *d >= '0' && *d <= '9' && v < TOK_MAX_ID ? v * 10 + (*d - '0') : TOK_MAX_ID;
	if (sp == NULL || sp + 1 >= stop || v >= TOK_MAX_ID)
		return err_set(r->e, ERR_BAD_FILE, "the tiktoken file has a line that is not \"base64 rank\"");
	*b64 = line;
	*n = (size_t) (sp - line);
	*rank = (int32_t) v;
	return true;
}

static bool
read_tiktoken(TokTiktokenRanks *r, const char *text, size_t n, const Json *config)
{
	const char *name = hf_str(config, "tokenizer_class");
	const Json *added = hf_get(config, "added_tokens_decoder");
	const TiktokenClass *c = NULL;
	const char *b64;
	size_t		len;
	int32_t		rank;
	int32_t		max = -1;		/* the highest rank, then the highest id */
	int32_t		count;

	for (size_t i = 0; name != NULL && i < sizeof(classes) / sizeof(classes[0]); i++)
		if (strcmp(classes[i].name, name) == 0)
			c = &classes[i];
	if (c == NULL)
		return err_set(r->e, ERR_UNSUPPORTED, "a tiktoken file of tokenizer class \"%s\" is not supported",
					   name ? name : "");
	r->regex = c->regex;
	for (const char *p = text; p < text + n;)
	{
		if (!rank_line(r, &p, text + n, &rank, &b64, &len))
			return false;
		max = rank > max ? rank : max;
	}
	count = max + 1;
	if (count == 0)
		return err_set(r->e, ERR_BAD_FILE, "the tiktoken file is empty");
	if (c->extras > 0)
		max += 3 + c->extras;
	else if (!config_special(r, added, &max))
		return false;
	tok_begin(r, 0, count, max + 1);
	for (const char *p = text; p < text + n;)
		if (!rank_line(r, &p, text + n, &rank, &b64, &len) || !add_token(r, rank, b64, len))
			return false;
	if (c->extras > 0 ? !qwen_special(r, c->extras) : !config_special(r, added, &max))
		return false;
	r->t->bos = hf_token(r->t, config, "bos_token");
	r->t->eos = hf_token(r->t, config, c->extras > 0 && hf_get(config, "eos_token") == NULL
						 ? "pad_token" : "eos_token");
	tok_surround(r->t, hf_bool(config, "add_bos_token", false) ? r->t->bos : -1,
				 hf_bool(config, "add_eos_token", false) ? r->t->eos : -1);
	return finish(r);
}

Tok *
tok_from_tiktoken(const char *text, size_t n, const char *config, size_t config_len, Err *e)
{
	TokTiktokenRanks r = {.t = mem_zalloc(sizeof(Tok)), .e = e};
	Json	   *root = config != NULL ? json_parse(config, config_len) : NULL;
	bool		ok = config == NULL || json_is_object(root) ||
		err_set(e, ERR_BAD_FILE, "tokenizer_config.json is not a JSON object");
	Tok		   *t = result(&r, ok && read_tiktoken(&r, text, n, root));

	json_free(root);
	return t;
}
