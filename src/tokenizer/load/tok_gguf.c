/*
 * tok_gguf.c
 *	  Build a Tok from the vocabulary in a GGUF file.
 *
 * Six kinds: "gpt2" is BPE with merges and a pre-tokenizer by name (pretokenizers.def); "llama" is
 * SentencePiece BPE by scores with byte fallback; "t5" is Unigram; "bert" is WordPiece, which marks the
 * tokens that begin a word; "plamo2" (plamo.c); and "rwkv", the longest token at each position, whose
 * tokens are any bytes, spelled with Python's escapes.  A tokenizer.model (tok_sentencepiece.c) is built
 * here, too.
 *
 * GGUF has no flags on added tokens: control tokens (and unknown ones) are
 * special, user-defined tokens are not, and both are matched in raw text.
 * Text never becomes a control token by merging.
 *
 * Real GGUF vocabularies have a few duplicates and padding.  So, other than in tokenizer.json, the first
 * of equal tokens counts, and merges of unknown tokens are an error only if they are malformed.
 *
 * Tested by tests/unit/tokenizer/test_tokenizer.c on ../shared/tokenizers.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "tokenizer/word_marker.h"
#include "tokenizer/tokenizer_internal.h"
#include "text/utf8.h"

static int32_t
type_of(const TokGguf *v, size_t i)
{
	return v->types != NULL ? v->types[i] : TYPE_NORMAL;
}

static bool
check_arrays(const TokGguf *v, Err *e)
{
	const int32_t ids[] = {v->bos, v->eos, v->unk, v->sep};

	if (v->n == 0 || v->n >= TOK_MAX_ID || v->n_merges >= UINT32_MAX)
		return err_set(e, ERR_BAD_FILE, "the GGUF vocabulary has an impossible size: %zu tokens", v->n);
	for (size_t i = 0; i < 4; i++)
		if (ids[i] >= (int32_t) v->n)
			return err_set(e, ERR_BAD_FILE, "the GGUF vocabulary has no token %d, which is to be "
						   "BOS, EOS, SEP, or unknown", (int) ids[i]);
	for (size_t i = 0; i < v->n; i++)
	{
		if (v->token_len[i] > TOK_MAX_TOKEN_BYTES || !uni_valid(v->tokens[i], v->token_len[i]))
			return err_set(e, ERR_BAD_FILE, "GGUF token %zu is too long or not valid UTF-8", i);
		if (v->scores != NULL && isnan(v->scores[i]))
			return err_set(e, ERR_BAD_FILE, "GGUF token %zu has no number as its score", i);
	}
	return true;
}

typedef enum TokGgufKind
{
	KIND_BPE,
	KIND_SPM,
	KIND_UNIGRAM,
	KIND_BERT,
	KIND_PLAMO,
	KIND_RWKV
} TokGgufKind;

/* Return true if the model may make this token out of text. */
static bool
is_piece(int32_t type, TokGgufKind kind)
{
	/* SentencePiece excludes control, unknown and byte tokens; in BPE the merges decide */
	if (kind == KIND_BPE)
		return type != TYPE_UNUSED;
	return type == TYPE_NORMAL || type == TYPE_USER || (type == TYPE_UNUSED && kind == KIND_UNIGRAM);
}

static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Decode the bytes that an RWKV token spells. */
static bool
read_escapes(const char *s, size_t n, Buf *out)
{
	buf_reset(out);
	buf_reserve(out, 1);
	for (size_t i = 0; i < n; i++)
	{
		if (s[i] != '\\')
		{
			buf_addc(out, s[i]);
			continue;
		}
		if (++i == n)
			return false;
		if (s[i] == 'x')
		{
			if (n - i < 3 || hex_digit(s[i + 1]) < 0 || hex_digit(s[i + 2]) < 0)
				return false;
			buf_addc(out, (char) (hex_digit(s[i + 1]) << 4 | hex_digit(s[i + 2])));
			i += 2;
		}
		else
			buf_addc(out, s[i] == 't' ? '\t' : s[i] == 'n' ? '\n' : s[i] == 'r' ? '\r' : s[i]);
	}
	return true;
}

/* Set names, flags, and added tokens; skip[id] = text can't become this token. */
static bool
fill_names(Tok *t, const TokGguf *v, TokGgufKind kind, bool *skip, Err *e)
{
	Buf			piece = {0};
	Buf			bytes = {0};
	bool		ok = true;

	for (size_t i = 0; i < v->n; i++)
	{
		int32_t		id = (int32_t) i;
		int32_t		type = type_of(v, i);
		bool		special = type == TYPE_CONTROL || type == TYPE_UNKNOWN;
		const char *s = v->tokens[i];
		size_t		n = v->token_len[i];

		if (kind == KIND_RWKV)
		{
			if (!read_escapes(s, n, &bytes))
			{
				ok = err_set(e, ERR_BAD_FILE, "GGUF token %zu (\"%.60s\") has a malformed escape", i, s);
				break;
			}
			s = bytes.data;
			n = bytes.len;
		}
		strtab_set(t->names, id, s, n);
		if (special)
		{
			t->flags[id] |= TOK_F_SPECIAL;
		}
		skip[id] = special || (kind != KIND_BPE && !is_piece(type, kind)) ||
			(type == TYPE_USER && added_looks_special(s, n));
		if (n == 0)
			continue;
		if (special || type == TYPE_USER)
		{
			strtab_set(t->added_names, id, s, n);
			if (!strtab_index(t->added_names, id))
				continue;
			/* added tokens are spelled in plain text, whatever the model's alphabet */
			buf_reset(&piece);
			if (kind == KIND_BERT)
				buf_addstr(&piece, META);	/* they are words */
			buf_add(&piece, s, n);
			strtab_set(t->pieces, id, piece.data, piece.len);
			if (t->added_raw == NULL)
				t->added_raw = added_new();
			added_put(t->added_raw, s, n, id, (special ? ADDED_SPECIAL : 0u) |
					  (v->added_flags != NULL ? v->added_flags[i] : 0u));
		}
		else if (type == TYPE_BYTE)
		{
			/* to be found by name, but not in text */
			strtab_set(t->added_names, id, s, n);
			strtab_index(t->added_names, id);
		}
		if (is_piece(type, kind))
			strtab_index(t->names, id);
	}
	buf_free(&piece);
	buf_free(&bytes);
	return ok;
}

static bool
fill_merges(Tok *t, const TokGguf *v, Err *e)
{
	Buf			both = {0};

	for (size_t i = 0; i < v->n_merges; i++)
	{
		const char *l = v->merges[i];
		size_t		len = strlen(l);
		/* a token may begin with a space, but neither half is empty */
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
		bpe_add_merge(t->bpe, id[0], id[1], id[2], (uint32_t) i);
	}
	buf_free(&both);
	return true;
}

static bool
add_splits(Tok *t, const SplitGguf *pre, Err *e)
{
	for (size_t i = 0; pre->regex[i] != NULL; i++)
	{
		PreStep    *p = &t->pre[t->n_pre];

		ALWAYS(t->n_pre < SPLIT_MAX_STEPS);
		*p = (PreStep) {.kind = PRE_SPLIT, .split = {.match = split_by_regex(pre->regex[i])}};
		if (p->split.match == NULL && (p->split.rx = rx_compile(pre->regex[i], e)) == NULL)
			return false;
		t->n_pre++;
	}
	return true;
}

static void
add_piece_step(PieceRules *r, PieceStep k)
{
	ALWAYS(r->n < TOK_MAX_PIECE_STEPS);
	r->step[r->n++] = k;
}

/* Set the tokens around a text: by the file's flags, or else by these defaults. */
static void
surround(Tok *t, const TokGguf *v, bool add_bos, bool add_eos, bool add_sep)
{
	int32_t		before = -1;
	int32_t		after = -1;

	if (v->add_bos >= 0 ? v->add_bos : add_bos)
		before = v->bos;
	if (v->add_eos >= 0 ? v->add_eos : add_eos)
		after = v->eos;
	if ((v->add_sep >= 0 ? v->add_sep : add_sep) && after < 0)
		after = v->sep >= 0 ? v->sep : v->eos;
	tok_surround(t, before, after);
}

static bool
build_bpe(Tok *t, const TokGguf *v, const bool *skip, PieceRules *r, Err *e)
{
	bool		gemma = strcmp(v->model, "gemma4") == 0;
	const char *name = gemma ? "gemma4" : v->pre;
	const SplitGguf *pre = name != NULL ? split_by_gguf(name) : NULL;
	BpeConf		c = {.names = t->names, .n_ids = v->n, .n_merges = v->n_merges, .unk = -1};

	if (pre == NULL)
	{
		err_set(e, ERR_UNSUPPORTED, "GGUF pre-tokenizer \"%s\" is not supported", v->pre ? v->pre : "");
		if (v->pre == NULL)
			return err_detail(e, "The file lacks tokenizer.ggml.pre: it was made by an old converter.");
		return false;
	}
	if (v->n_merges == 0)
		return err_set(e, ERR_BAD_FILE, "the GGUF vocabulary has no merges");
	if (!add_splits(t, pre, e))
		return false;
	if (pre->spm)
	{
		t->norm[t->n_norm++] = (NormStep) {.kind = NORM_SPACES};
		c.byte_fallback = t->fffd_per_byte = true;
		c.unk = v->unk;
		add_piece_step(r, (PieceStep) {.kind = PIECE_META, .from = META});
		add_piece_step(r, (PieceStep) {.kind = PIECE_FALLBACK});
	}
	else
	{
		c.byte_level = t->byte_level = true;
		add_piece_step(r, (PieceStep) {.kind = PIECE_BYTES});
	}
	c.ignore_merges = pre->ignore_merges;
	t->bpe = bpe_new(&c);
	if (!fill_merges(t, v, e))
		return false;
	bpe_finish(t->bpe, skip);
	surround(t, v, pre->add_bos, false, pre->add_sep);
	return true;
}

/* Set normalizer and decoder of SentencePiece. */
static bool
sentencepiece_text(Tok *t, const TokGguf *v, bool trim, PieceRules *r, Err *e)
{
	bool		prefix = v->add_space_prefix != 0;
	unsigned	flags = (trim ? NORM_SPM_TRIM : 0u) | (v->native ? NORM_SPM_EDGES : 0u);

	if (v->charsmap != NULL && v->n_charsmap > 0)
	{
		Charsmap   *map = charsmap_new(v->charsmap, v->n_charsmap, e);

		if (map == NULL)
			return false;
		t->norm[t->n_norm++] = (NormStep) {.kind = NORM_CHARSMAP, .flags = NORM_SPM, .map = map};
	}
	if (prefix)
		flags |= v->space_suffix ? NORM_SPM_SUFFIX : NORM_SPM_PREFIX;
	t->norm[t->n_norm++] = (NormStep) {.kind = NORM_SPACES, .flags = flags};
	t->fffd_per_byte = true;
	t->lead = v->native && prefix && !v->space_suffix ? (int32_t) v->n_native : 0;
	t->strip = trim ? SIZE_MAX : prefix && !v->space_suffix;
	add_piece_step(r, (PieceStep) {.kind = PIECE_META, .from = META});
	add_piece_step(r, (PieceStep) {.kind = PIECE_FALLBACK});
	return true;
}

static bool
build_spm(Tok *t, const TokGguf *v, PieceRules *r, Err *e)
{
	int32_t		byte_id[256];

	for (int c = 0; c < 256; c++)
	{
		char		s[8];

		snprintf(s, sizeof(s), "<0x%02X>", c);
		byte_id[c] = tok_find(t, s, 6);
	}
	if (!sentencepiece_text(t, v, v->remove_extra_whitespaces > 0, r, e))
		return false;
	t->spm = spm_new(t->names, byte_id, v->scores, v->n, v->unk, v->native);
	surround(t, v, true, false, false);
	return true;
}

static bool
build_unigram(Tok *t, const TokGguf *v, const bool *skip, PieceRules *r, Err *e)
{
	UnigramConf c = {.names = t->names, .n_ids = v->n, .skip = skip, .unk = v->unk, .byte_fallback = true};
	double	   *score;
	bool		any = false;

	if (v->unk < 0)
		return err_set(e, ERR_BAD_FILE, "the vocabulary has no unknown token");
	if (!sentencepiece_text(t, v, v->remove_extra_whitespaces > 0, r, e))
		return false;
	score = mem_alloc(v->n * sizeof(double));
	c.min_score = 0;
	for (size_t i = 0; i < v->n; i++)
	{
		score[i] = type_of(v, i) == TYPE_USER ? 0 : (double) v->scores[i];
		if (type_of(v, i) == TYPE_NORMAL && (!any || score[i] < c.min_score))
		{
			c.min_score = score[i];
			any = true;
		}
	}
	c.score = score;
	t->unigram = unigram_new(&c);
	mem_free(score);
	surround(t, v, false, true, false);
	return true;
}

static bool
build_bert(Tok *t, const TokGguf *v, const bool *skip, PieceRules *r, Err *e)
{
	bool		lower = v->lowercase != 0;
	bool		accents = v->strip_accents >= 0 ? v->strip_accents : lower;
	WordPieceConf c = {.names = t->names, .n_ids = v->n, .skip = skip, .first = META, .rest = "",
		.max_chars = SIZE_MAX, .unk = v->unk};

	if (v->unk < 0)
		return err_set(e, ERR_BAD_FILE, "the vocabulary has no unknown token");
	t->norm[t->n_norm++] = (NormStep) {.kind = NORM_BERT, .flags = NORM_BERT_CLEAN | NORM_BERT_CHINESE |
		(accents ? NORM_BERT_ACCENTS : 0u) | (lower ? NORM_BERT_LOWER : 0u)};
	t->pre[t->n_pre++] = (PreStep) {.kind = PRE_SPLIT,
									.split = {.match = split_space, .behavior = SPLIT_REMOVED}};
	t->pre[t->n_pre++] = (PreStep) {.kind = PRE_SPLIT, .split = {.match = split_punct}};
	add_piece_step(r, (PieceStep) {.kind = PIECE_META, .from = META, .drop = true});
	add_piece_step(r, (PieceStep) {.kind = PIECE_CLEANUP});
	t->wordpiece = wordpiece_new(&c);
	surround(t, v, true, false, true);
	/* of two texts the second has no [CLS] */
	if (t->pair.n == 6)
	{
		ASSERT(t->pair.item[3].id == t->pair.item[0].id && t->pair.item[4].id == TOK_TEXT_B);
		memmove(&t->pair.item[3], &t->pair.item[4], 2 * sizeof(TokItem));
		t->pair.n--;
	}
	return true;
}

static bool
build_plamo(Tok *t, const TokGguf *v, const bool *skip, PieceRules *r, Err *e)
{
	int32_t		byte_id[256];

	for (int c = 0; c < 256; c++)
	{
		char		s[8];

		snprintf(s, sizeof(s), "<0x%02X>", c);
		byte_id[c] = tok_find(t, s, 6);
		if (byte_id[c] < 0)
			return err_set(e, ERR_BAD_FILE, "the GGUF vocabulary has no token %s", s);
	}
	add_piece_step(r, (PieceStep) {.kind = PIECE_FALLBACK});
	t->plamo = plamo_new(t->names, byte_id, v->scores, skip, v->n);
	surround(t, v, false, false, false);
	return true;
}

static bool
build_rwkv(Tok *t, const TokGguf *v, const bool *skip, Err *e)
{
	WordPieceConf c = {.names = t->names, .n_ids = v->n, .skip = skip, .first = "", .rest = "",
		.max_chars = SIZE_MAX, .unk = -1};

	for (int b = 0; b < 256; b++)
	{
		char		byte = (char) b;

		if (strtab_find(t->names, &byte, 1) < 0)
			return err_set(e, ERR_BAD_FILE, "the GGUF vocabulary has no token for the byte 0x%02X", b);
	}
	t->wordpiece = wordpiece_new(&c);
	surround(t, v, false, false, false);
	return true;
}

static bool
kind_of(const TokGguf *v, TokGgufKind *kind, Err *e)
{
	static const struct
	{
		const char *model;
		TokGgufKind	kind;
	}			row[] = {
		{"gpt2", KIND_BPE}, {"gemma4", KIND_BPE}, {"llama", KIND_SPM}, {"t5", KIND_UNIGRAM},
		{"bert", KIND_BERT},
		{"plamo2", KIND_PLAMO}, {"rwkv", KIND_RWKV}
	};
	const char *model = v->model != NULL ? v->model : "";

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		if (strcmp(model, row[i].model) == 0)
		{
			*kind = row[i].kind;
			return true;
		}
	if (strcmp(model, "none") == 0 || strcmp(model, "no_vocab") == 0)
		return err_set(e, ERR_UNSUPPORTED, "the GGUF file has no vocabulary: its tokenizer is \"%s\"", model);
	return err_set(e, ERR_UNSUPPORTED, "GGUF tokenizer model \"%s\" is not supported", model);
}

static bool
build_model(Tok *t, const TokGguf *v, TokGgufKind kind, const bool *skip, PieceRules *r, Err *e)
{
	switch (kind)
	{
		case KIND_BPE:
			return build_bpe(t, v, skip, r, e);
		case KIND_SPM:
			return build_spm(t, v, r, e);
		case KIND_UNIGRAM:
			return build_unigram(t, v, skip, r, e);
		case KIND_BERT:
			return build_bert(t, v, skip, r, e);
		case KIND_PLAMO:
			return build_plamo(t, v, skip, r, e);
		case KIND_RWKV:
			return build_rwkv(t, v, skip, e);
	}
	return false;
}

Tok *
tok_from_gguf(const TokGguf *v, Err *e)
{
	Tok		   *t;
	PieceRules	rules = {0};
	TokGgufKind	kind = KIND_BPE;
	bool	   *skip;
	bool		ok;

	if (!kind_of(v, &kind, e) || !check_arrays(v, e))
		return NULL;
	if ((kind == KIND_SPM || kind == KIND_UNIGRAM || kind == KIND_PLAMO) && v->scores == NULL)
	{
		err_set(e, ERR_BAD_FILE, "the GGUF vocabulary has no scores");
		return NULL;
	}
	t = mem_zalloc(sizeof(Tok));
	t->n_ids = (int32_t) v->n;
	t->bos = v->bos < 0 ? -1 : v->bos;
	t->eos = v->eos < 0 ? -1 : v->eos;
	t->names = strtab_new(v->n);
	t->added_names = strtab_new(v->n);
	t->pieces = strtab_new(v->n);
	t->flags = mem_zalloc(v->n);
	skip = mem_zalloc(v->n * sizeof(bool));
	ok = fill_names(t, v, kind, skip, e) && build_model(t, v, kind, skip, &rules, e);
	mem_free(skip);
	if (!ok)
	{
		tok_free(t);
		return NULL;
	}
	tok_make_pieces(t, &rules);
	return t;
}
