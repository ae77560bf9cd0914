/*
 * tok_gguf.c
 *	  Builds a Tok from the vocabulary in a GGUF file.
 *
 * Two kinds: "gpt2" is byte-level BPE with merges, pre-tokenizer by name
 * (splits.def); "llama" is SentencePiece BPE by scores with byte fallback.
 * GGUF has no flags on added tokens: control tokens (and unknown ones) are
 * special, user-defined tokens are not, and both are matched in raw text.
 * Text never becomes a control token by merging.
 *
 * GGUF vocabularies in the wild hold a few duplicates and padding; so other
 * than in tokenizer.json the first of equal tokens counts, and merges of
 * unknown tokens are an error only if they are malformed.
 *
 * Tested by tests/unit/test_tokenizer.c on ../shared/tokenizers.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "text/meta.h"
#include "text/tok_impl.h"
#include "text/utf8.h"

/* tokenizer.ggml.token_type */
enum
{
	TYPE_NORMAL = 1,
	TYPE_UNKNOWN = 2,
	TYPE_CONTROL = 3,
	TYPE_USER = 4,
	TYPE_UNUSED = 5,
	TYPE_BYTE = 6
};

static int32_t
type_of(const TokGguf *v, size_t i)
{
	return v->types != NULL ? v->types[i] : TYPE_NORMAL;
}

static bool
check_arrays(const TokGguf *v, Err *e)
{
	const int32_t ids[] = {v->bos, v->eos, v->unk};

	if (v->n == 0 || v->n >= TOK_MAX_ID || v->n_merges >= UINT32_MAX)
		return err_set(e, ERR_BAD_FILE, "the GGUF vocabulary has an impossible size: %zu tokens", v->n);
	for (size_t i = 0; i < 3; i++)
		if (ids[i] >= (int32_t) v->n)
			return err_set(e, ERR_BAD_FILE, "the GGUF vocabulary has no token %d, which is to be "
						   "BOS, EOS, or unknown", (int) ids[i]);
	for (size_t i = 0; i < v->n; i++)
	{
		if (v->token_len[i] > TOK_MAX_TOKEN_BYTES || !uni_valid(v->tokens[i], v->token_len[i]))
			return err_set(e, ERR_BAD_FILE, "GGUF token %zu is too long or not valid UTF-8", i);
		if (v->scores != NULL && isnan(v->scores[i]))
			return err_set(e, ERR_BAD_FILE, "GGUF token %zu has no number as its score", i);
	}
	return true;
}

/* May the model make this token out of text? */
static bool
is_piece(int32_t type, bool bpe)
{
	/* SentencePiece keeps control, unknown and byte tokens apart; in BPE the merges decide */
	return bpe ? type != TYPE_UNUSED : type == TYPE_NORMAL || type == TYPE_USER;
}

/* Names, flags, and added tokens; skip[id] = text may not become it. */
static void
fill_names(Tok *t, const TokGguf *v, bool bpe, bool *skip)
{
	for (size_t i = 0; i < v->n; i++)
	{
		int32_t		id = (int32_t) i;
		int32_t		type = type_of(v, i);
		bool		special = type == TYPE_CONTROL || type == TYPE_UNKNOWN;

		strtab_set(t->names, id, v->tokens[i], v->token_len[i]);
		if (special)
		{
			t->flags[id] |= TOK_F_SPECIAL;
			skip[id] = true;
		}
		if (v->token_len[i] == 0)
			continue;
		if (special || type == TYPE_USER)
		{
			strtab_set(t->added_names, id, v->tokens[i], v->token_len[i]);
			if (!strtab_index(t->added_names, id))
				continue;
			/* added tokens are spelled in plain text, whatever the model's alphabet */
			strtab_set(t->pieces, id, v->tokens[i], v->token_len[i]);
			if (t->added_raw == NULL)
				t->added_raw = added_new();
			added_put(t->added_raw, v->tokens[i], v->token_len[i], id, special ? ADDED_SPECIAL : 0);
		}
		else if (type == TYPE_BYTE)
		{
			/* to be found by name, but not in text */
			strtab_set(t->added_names, id, v->tokens[i], v->token_len[i]);
			strtab_index(t->added_names, id);
		}
		if (is_piece(type, bpe))
			strtab_index(t->names, id);
	}
}

static bool
fill_merges(Tok *t, const TokGguf *v, Err *e)
{
	Buf			both = {0};

	for (size_t i = 0; i < v->n_merges; i++)
	{
		const char *l = v->merges[i];
		size_t		len = strlen(l);
		/* a token may begin with a space, never is one half empty */
		const char *sp = len > 0 ? memchr(l + 1, ' ', len - 1) : NULL;
		int32_t		id[3];

		if (sp == NULL || sp[1] == '\0')
		{
			buf_free(&both);
			return err_set(e, ERR_BAD_FILE, "GGUF merge %zu (\"%.60s\") is not a pair of tokens", i, l);
		}
		buf_reset(&both);
		buf_add(&both, l, (size_t) (sp - l));
		buf_addstr(&both, sp + 1);
		id[0] = strtab_find(t->names, l, (size_t) (sp - l));
		id[1] = strtab_find(t->names, sp + 1, strlen(sp + 1));
		id[2] = strtab_find(t->names, both.data, both.len);
		if (id[0] < 0 || id[1] < 0 || id[2] < 0)
		{
			buf_free(&both);
			return err_set(e, ERR_BAD_FILE, "GGUF merge %zu (\"%.60s\") is not of tokens in the "
						   "vocabulary", i, l);
		}
		bpe_add_merge(t->bpe, id[0], id[1], id[2]);
	}
	buf_free(&both);
	return true;
}

static bool
build_bpe(Tok *t, const TokGguf *v, const bool *skip, PieceRules *r, Err *e)
{
	const SplitGguf *pre = v->pre != NULL ? split_by_gguf(v->pre) : NULL;
	BpeConf		c = {.names = t->names, .n_ids = v->n, .n_merges = v->n_merges,
		.byte_level = true, .unk = -1};

	if (pre == NULL)
	{
		err_set(e, ERR_UNSUPPORTED, "GGUF pre-tokenizer \"%s\" is not supported", v->pre ? v->pre : "");
		if (v->pre == NULL)
			return err_detail(e, "The file lacks tokenizer.ggml.pre: it was made by an old converter.");
		return false;
	}
	if (v->n_merges == 0)
		return err_set(e, ERR_BAD_FILE, "the GGUF vocabulary has no merges");
	for (size_t i = 0; pre->step[i] != NULL; i++)
		t->pre[t->n_pre++] = (PreStep) {.kind = PRE_SPLIT, .split = {.match = pre->step[i]}};
	t->byte_level = r->byte_level = true;
	c.ignore_merges = pre->ignore_merges;
	t->bpe = bpe_new(&c);
	if (!fill_merges(t, v, e))
		return false;
	bpe_finish(t->bpe, skip);
	if (t->bos >= 0 && (v->add_bos > 0 || (v->add_bos < 0 && pre->add_bos)))
		t->before[t->n_before++] = t->bos;
	return true;
}

static bool
build_spm(Tok *t, const TokGguf *v, PieceRules *r, Err *e)
{
	int32_t		byte_id[256];
	bool		prefix = v->add_space_prefix != 0;

	if (v->scores == NULL)
		return err_set(e, ERR_BAD_FILE, "the GGUF vocabulary has no scores");
	for (int c = 0; c < 256; c++)
	{
		char		s[8];

		snprintf(s, sizeof(s), "<0x%02X>", c);
		byte_id[c] = tok_find(t, s, 6);
	}
	if (prefix)
		t->norm[t->n_norm++] = (NormStep) {.kind = NORM_PREPEND, .to = mem_strdup(META)};
	t->norm[t->n_norm++] = (NormStep) {.kind = NORM_REPLACE, .from = mem_strdup(" "),
		.to = mem_strdup(META)};
	t->spm = spm_new(t->names, byte_id, v->scores, v->n, v->unk);
	t->fffd_per_byte = true;
	t->start = prefix ? START_STRIP : START_AS_IS;
	t->start_count = 1;
	*r = (PieceRules) {.byte_tokens = true, .from = {META}, .to = {" "}, .n = 1};
	if (t->bos >= 0 && v->add_bos != 0)
		t->before[t->n_before++] = t->bos;
	return true;
}

Tok *
tok_from_gguf(const TokGguf *v, Err *e)
{
	Tok		   *t;
	PieceRules	rules = {0};
	bool		bpe = v->model != NULL && strcmp(v->model, "gpt2") == 0;
	bool	   *skip;
	bool		ok;

	if (!bpe && (v->model == NULL || strcmp(v->model, "llama") != 0))
	{
		err_set(e, ERR_UNSUPPORTED, "GGUF tokenizer model \"%s\" is not supported", v->model ? v->model : "");
		return NULL;
	}
	if (!check_arrays(v, e))
		return NULL;
	t = mem_zalloc(sizeof(Tok));
	t->n_ids = (int32_t) v->n;
	t->bos = v->bos < 0 ? -1 : v->bos;
	t->eos = v->eos < 0 ? -1 : v->eos;
	t->names = strtab_new(v->n);
	t->added_names = strtab_new(v->n);
	t->pieces = strtab_new(v->n);
	t->flags = mem_zalloc(v->n);
	skip = mem_zalloc(v->n * sizeof(bool));
	fill_names(t, v, bpe, skip);
	ok = bpe ? build_bpe(t, v, skip, &rules, e) : build_spm(t, v, &rules, e);
	mem_free(skip);
	if (!ok)
	{
		tok_free(t);
		return NULL;
	}
	if (t->eos >= 0 && v->add_eos > 0)
		t->after[t->n_after++] = t->eos;
	tok_make_pieces(t, &rules);
	return t;
}
