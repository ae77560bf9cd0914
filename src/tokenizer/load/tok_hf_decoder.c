/*
 * tok_hf_decoder.c
 *	  Read the components of a tokenizer.json after the model: decoder and post_processor.
 *
 * Unknown components, and combinations whose meaning isn't implemented, are refused by name
 * (ERR_UNSUPPORTED).
 *
 * Tested by tests/unit/tokenizer/test_tokenizer.c (refusals, and texts and ids against Hugging
 * Face for what is supported).
 */
#include <string.h>

#include "base/assert.h"
#include "base/json/json.h"
#include "tokenizer/word_marker.h"
#include "tokenizer/load/tok_hf.h"

/* ---------- decoder ---------- */

typedef struct DecoderState
{
	Tok		   *t;
	PieceRules *r;
	bool		last;			/* no other step over tokens may follow */
	bool		fused;			/* after Fuse: the text is one piece */
} DecoderState;

static bool
add_step(DecoderState *d, PieceStep k, Err *e)
{
	if (d->r->n == TOK_MAX_PIECE_STEPS)
		return err_set(e, ERR_UNSUPPORTED, "tokenizer.json: too many decoders");
	d->r->step[d->r->n++] = k;
	return true;
}

static bool
decode_metaspace(DecoderState *d, const Json *x, Err *e)
{
	const char *meta = hf_str(x, "replacement");
	const char *scheme = hf_str(x, "prepend_scheme");
	bool		never = scheme ? strcmp(scheme, "never") == 0 : !hf_bool(x, "add_prefix_space", true);

	if (meta == NULL)
		meta = META;
	return hf_literal(meta, 1, "decoder Metaspace", e) &&
		add_step(d, (PieceStep) {.kind = PIECE_META, .from = meta, .drop = !never}, e);
}

static bool
decode_strip(DecoderState *d, const Json *x, Err *e)
{
	const char *content = hf_str(x, "content");
	int32_t		start = 0;
	int32_t		stop = 0;

	if (!hf_literal(content, 1, "decoder Strip", e))
		return false;
	if (!hf_id(hf_get(x, "start"), &start) || !hf_id(hf_get(x, "stop"), &stop))
		return err_set(e, ERR_BAD_FILE, "tokenizer.json: decoder Strip has a bad start or stop");
	if (!d->fused && !d->last)
		return add_step(d, (PieceStep) {.kind = PIECE_STRIP, .from = content, .left = (size_t) start,
						.right = (size_t) stop}, e);
	if (!d->fused || strcmp(content, " ") != 0 || stop != 0 || d->t->strip > 0)
		return hf_unsupported(e, "decoder", "Strip other than of leading spaces, behind Fuse");
	d->t->strip = (size_t) start;
	return true;
}

static bool
decode_word_piece(DecoderState *d, const Json *x, Err *e)
{
	const char *prefix = hf_str(x, "prefix");

	if (prefix == NULL)
		prefix = "##";
	if (!hf_literal(prefix, 0, "decoder WordPiece", e) ||
		!add_step(d, (PieceStep) {.kind = PIECE_WORDS, .from = prefix}, e))
		return false;
	return !hf_bool(x, "cleanup", true) || add_step(d, (PieceStep) {.kind = PIECE_CLEANUP}, e);
}

/* Add a step over tokens. */
static bool
decode_tokens(DecoderState *d, const char *type, const Json *x, Err *e)
{
	const char *s;

	if (strcmp(type, "ByteLevel") == 0)
	{
		d->last = d->fused = true;
		return add_step(d, (PieceStep) {.kind = PIECE_BYTES}, e);
	}
	if (strcmp(type, "ByteFallback") == 0)
	{
		d->last = d->t->fffd_per_byte = true;
		return add_step(d, (PieceStep) {.kind = PIECE_FALLBACK}, e);
	}
	if (strcmp(type, "Metaspace") == 0)
		return decode_metaspace(d, x, e);
	if (strcmp(type, "WordPiece") == 0)
		return decode_word_piece(d, x, e);
	if (strcmp(type, "Replace") == 0 && hf_string_pattern(x) != NULL)
	{
		s = hf_str(x, "content");
		return hf_literal(hf_string_pattern(x), 1, "decoder Replace", e) &&
			hf_literal(s, 0, "decoder Replace", e) &&
			add_step(d, (PieceStep) {.kind = PIECE_REPLACE, .from = hf_string_pattern(x), .to = s}, e);
	}
	if (strcmp(type, "BPEDecoder") == 0)
	{
		s = hf_str(x, "suffix");
		d->last = true;
		return hf_literal(s ? s : "</w>", 1, "decoder BPEDecoder", e) &&
			add_step(d, (PieceStep) {.kind = PIECE_SUFFIX, .from = s ? s : "</w>"}, e);
	}
	return hf_unsupported(e, "decoder", type);
}

static bool
decoder(DecoderState *d, const Json *x, int depth, Err *e)
{
	const char *type = hf_type(x);

	if (strcmp(type, "Sequence") == 0 && depth < HF_MAX_DEPTH)
	{
		const Json *y;

		json_each(y, hf_get(x, "decoders"))
			if (!decoder(d, y, depth + 1, e))
				return false;
		return true;
	}
	if (strcmp(type, "Strip") == 0)
		return decode_strip(d, x, e);
	if (strcmp(type, "Fuse") == 0)
		return d->fused = true;
	if (d->fused || d->last)
		return hf_unsupported(e, "order of decoders at", type);
	return decode_tokens(d, type, x, e);
}

bool
hf_decoder(Tok *t, const Json *x, PieceRules *r, Err *e)
{
	DecoderState d = {.t = t, .r = r};

	if (x == NULL)				/* tokens are joined with spaces */
		return add_step(&d, (PieceStep) {.kind = PIECE_SPACED}, e);
	return decoder(&d, x, 0, e);
}

/* ---------- post_processor ---------- */

static bool
add_item(const Tok *t, TokTemplate *to, int32_t id, int32_t type, Err *e)
{
	ASSERT(id >= 0 || id == TOK_TEXT_A || id == TOK_TEXT_B);
	if (id >= t->n_ids)
		return err_set(e, ERR_BAD_FILE, "tokenizer.json: post_processor names token %d, "
					   "which does not exist", (int) id);
	if (to->n == TOK_MAX_TEMPLATE)
		return err_set(e, ERR_UNSUPPORTED, "tokenizer.json: post_processor adds too many tokens");
	to->item[to->n++] = (TokItem) {id, type};
	return true;
}

/* Add the ids of special token `name` of a template. */
static bool
add_special(const Tok *t, TokTemplate *to, const Json *specials, const char *name, int32_t type, Err *e)
{
	const Json *list = name ? hf_get(hf_get(specials, name), "ids") : NULL;
	const Json *y;
	int32_t		id;

	json_each(y, list)
	{
		if (!hf_id(y, &id))
			return err_set(e, ERR_BAD_FILE, "tokenizer.json: bad ids in the post_processor");
		if (!add_item(t, to, id, type, e))
			return false;
	}
	if (!json_is_array(list))
		return err_set(e, ERR_BAD_FILE, "tokenizer.json: the post_processor's template has no "
					   "special token \"%s\"", name ? name : "");
	return true;
}

/* Read "single" or "pair": each of the first `texts` texts must occur once, in order. */
static bool
post_template(Tok *t, const Json *x, const char *key, int texts, TokTemplate *to, Err *e)
{
	static const char *const names[] = {"A", "B"};
	const Json *y;
	int			seen = 0;

	to->n = 0;
	json_each(y, hf_get(x, key))
	{
		const Json *special = hf_get(y, "SpecialToken");
		const Json *seq = hf_get(y, "Sequence");
		int32_t		type = 0;

		if (hf_get(seq ? seq : special, "type_id") != NULL && !hf_id(hf_get(seq ? seq : special, "type_id"),
																	 &type))
			return err_set(e, ERR_BAD_FILE, "tokenizer.json: bad type_id in the post_processor");
		if (seq == NULL)
		{
			if (!add_special(t, to, hf_get(x, "special_tokens"), hf_str(special, "id"), type, e))
				return false;
			continue;
		}
		if (seen >= texts || hf_str(seq, "id") == NULL || strcmp(hf_str(seq, "id"), names[seen]) != 0)
		{
			seen = -1;
			break;
		}
		if (!add_item(t, to, seen++ == 0 ? TOK_TEXT_A : TOK_TEXT_B, type, e))
			return false;
	}
	if (seen != texts)
		return err_set(e, ERR_BAD_FILE, "tokenizer.json: the post_processor's template must hold "
					   "%s once", texts == 1 ? "the text" : "each text");
	return true;
}

/* Read BertProcessing and RobertaProcessing; "cls": ["<s>", 0]. */
static bool
post_bert(Tok *t, const Json *x, bool roberta, Err *e)
{
	int32_t		cls;
	int32_t		sep;
	int32_t		second = roberta ? 0 : 1;

	if (!hf_id(json_item(hf_get(x, "cls"), 1), &cls) || !hf_id(json_item(hf_get(x, "sep"), 1), &sep))
		return err_set(e, ERR_BAD_FILE, "tokenizer.json: bad \"cls\" or \"sep\" in the post_processor");
	t->single.n = t->pair.n = 0;
	return add_item(t, &t->single, cls, 0, e) && add_item(t, &t->single, TOK_TEXT_A, 0, e) &&
		add_item(t, &t->single, sep, 0, e) &&
		add_item(t, &t->pair, cls, 0, e) && add_item(t, &t->pair, TOK_TEXT_A, 0, e) &&
		add_item(t, &t->pair, sep, 0, e) && (!roberta || add_item(t, &t->pair, sep, 0, e)) &&
		add_item(t, &t->pair, TOK_TEXT_B, second, e) && add_item(t, &t->pair, sep, second, e);
}

static bool
post_processor(Tok *t, const Json *x, int depth, Err *e)
{
	const char *type = hf_type(x);

	if (strcmp(type, "Sequence") == 0 && depth < HF_MAX_DEPTH)
	{
		const Json *y;

		json_each(y, hf_get(x, "processors"))
			if (!post_processor(t, y, depth + 1, e))
				return false;
		return true;
	}
	if (strcmp(type, "ByteLevel") == 0 || strcmp(type, "RobertaProcessing") == 0)
	{
		t->trim_offsets = hf_bool(x, "trim_offsets", true);
		t->prefix_space = hf_bool(x, "add_prefix_space", true);
	}
	if (strcmp(type, "ByteLevel") == 0)
		return true;			/* affects offsets only */
	if (t->templated)
		return hf_unsupported(e, "post_processor behind another:", type);
	t->templated = true;
	if (strcmp(type, "TemplateProcessing") == 0)
		return post_template(t, x, "single", 1, &t->single, e) &&
			(hf_get(x, "pair") == NULL || post_template(t, x, "pair", 2, &t->pair, e));
	if (strcmp(type, "RobertaProcessing") == 0 || strcmp(type, "BertProcessing") == 0)
		return post_bert(t, x, type[0] == 'R', e);
	return hf_unsupported(e, "post_processor", type);
}

bool
hf_post_processor(Tok *t, const Json *x, Err *e)
{
	return x == NULL || post_processor(t, x, 0, e);
}
