/*
 * tok_hf_steps.c
 *	  The components of a tokenizer.json around the model: normalizer,
 *	  pre_tokenizer, post_processor, decoder.
 *
 * Each is an object with a "type", possibly a Sequence of others.  They are
 * flattened into the arrays of a Tok.  What isn't known, or stands in an order
 * whose meaning isn't modelled, is refused by name (ERR_UNSUPPORTED): a
 * tokenizer that is nearly right is worse than none.
 *
 * Tested by tests/unit/test_tokenizer.c (refusals, and ids against Hugging
 * Face for what is supported).
 */
#include <string.h>

#include "base/mem.h"
#include "text/meta.h"
#include "text/tok_hf.h"

/* nested Sequences deeper than this are refused */
#define MAX_DEPTH	8
/* longest replacement, prefix, or split literal, bytes */
#define MAX_LITERAL	64

static bool
unsupported(Err *e, const char *part, const char *what)
{
	return err_set(e, ERR_UNSUPPORTED, "tokenizer.json: %s \"%s\" is not supported", part, what);
}

/* A literal of sane size; false with *e set otherwise. */
static bool
check_literal(const char *s, size_t min, const char *part, Err *e)
{
	if (s != NULL && strlen(s) >= min && strlen(s) <= MAX_LITERAL)
		return true;
	return err_set(e, ERR_BAD_FILE, "tokenizer.json: %s has no usable literal", part);
}

/* {"pattern": {"String": ...}}; NULL if the pattern is another kind. */
static const char *
string_pattern(const cJSON *x)
{
	return hf_str(hf_get(x, "pattern"), "String");
}

/* ---------- normalizer ---------- */

/* The caller has made sure that there is room. */
static bool
add_norm(Tok *t, NormStep step)
{
	t->norm[t->n_norm++] = step;
	return true;
}

static bool
normalizer(Tok *t, const cJSON *x, int depth, Err *e)
{
	static const struct
	{
		const char *type;
		UniForm		form;
	}			form[] = {{"NFC", UNI_NFC}, {"NFD", UNI_NFD}, {"NFKC", UNI_NFKC}, {"NFKD", UNI_NFKD}};
	const char *type = hf_type(x);
	const char *from;
	const char *to;

	if (strcmp(type, "Sequence") == 0 && depth < MAX_DEPTH)
	{
		const cJSON *y;

		cJSON_ArrayForEach(y, hf_get(x, "normalizers"))
			if (!normalizer(t, y, depth + 1, e))
				return false;
		return true;
	}
	if (t->n_norm == TOK_MAX_NORM)
		return err_set(e, ERR_UNSUPPORTED, "tokenizer.json: too many normalizers");
	for (size_t i = 0; i < 4; i++)
		if (strcmp(type, form[i].type) == 0)
			return add_norm(t, (NormStep) {.kind = NORM_UNICODE, .form = form[i].form});
	if (strcmp(type, "Prepend") == 0)
	{
		to = hf_str(x, "prepend");
		return check_literal(to, 0, "normalizer Prepend", e) &&
			add_norm(t, (NormStep) {.kind = NORM_PREPEND, .to = mem_strdup(to)});
	}
	if (strcmp(type, "Replace") == 0 && string_pattern(x) != NULL)
	{
		from = string_pattern(x);
		to = hf_str(x, "content");
		return check_literal(from, 1, "normalizer Replace", e) &&
			check_literal(to, 0, "normalizer Replace", e) &&
			add_norm(t, (NormStep) {.kind = NORM_REPLACE, .from = mem_strdup(from),
					 .to = mem_strdup(to)});
	}
	return unsupported(e, "normalizer", type);
}

bool
hf_normalizer(Tok *t, const cJSON *x, Err *e)
{
	return x == NULL || normalizer(t, x, 0, e);
}

/* ---------- pre_tokenizer ---------- */

static bool
add_pre(Tok *t, PreStep step, Err *e)
{
	if (t->byte_level)
	{
		mem_free(step.str);
		return err_set(e, ERR_UNSUPPORTED,
					   "tokenizer.json: a pre_tokenizer behind ByteLevel is not supported");
	}
	if (t->n_pre == SPLIT_MAX_STEPS)
	{
		mem_free(step.str);
		return err_set(e, ERR_UNSUPPORTED, "tokenizer.json: too many pre_tokenizers");
	}
	t->pre[t->n_pre++] = step;
	return true;
}

static bool
behavior_of(const char *name, SplitBehavior *b, Err *e)
{
	static const struct
	{
		const char *name;
		SplitBehavior b;
	}			row[] = {
		{"Isolated", SPLIT_ISOLATED}, {"Removed", SPLIT_REMOVED}, {"Contiguous", SPLIT_CONTIGUOUS},
		{"MergedWithPrevious", SPLIT_WITH_PREVIOUS}, {"MergedWithNext", SPLIT_WITH_NEXT}
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		if (strcmp(row[i].name, name) == 0)
		{
			*b = row[i].b;
			return true;
		}
	return unsupported(e, "split behavior", name);
}

static bool
pre_split(Tok *t, const cJSON *x, Err *e)
{
	const char *regex = hf_str(hf_get(x, "pattern"), "Regex");
	const char *lit = string_pattern(x);
	const char *name = hf_str(x, "behavior");
	PreStep		step = {.kind = PRE_SPLIT};
	bool		invert = hf_bool(x, "invert", false);
	bool		total = false;

	if (!behavior_of(name ? name : "", &step.split.behavior, e))
		return false;
	if (regex != NULL)
	{
		step.split.match = split_by_regex(regex, &total);
		if (step.split.match == NULL)
		{
			err_set(e, ERR_UNSUPPORTED, "tokenizer.json: the pre_tokenizer's regex is not supported");
			return err_detail(e, "%s", regex);
		}
		/* keeping the matches and dropping nothing: both spellings exist */
		if (invert && total && step.split.behavior <= SPLIT_REMOVED)
		{
			step.split.behavior = SPLIT_ISOLATED;
			invert = false;
		}
	}
	else if (!check_literal(lit, 1, "pre_tokenizer Split", e))
		return false;
	if (invert)
		return unsupported(e, "pre_tokenizer", "Split with invert");
	if (regex == NULL)
	{
		step.str = mem_strdup(lit);
		step.split.lit = step.str;
		step.split.lit_len = strlen(lit);
	}
	return add_pre(t, step, e);
}

static bool
pre_metaspace(Tok *t, const cJSON *x, Err *e)
{
	const char *meta = hf_str(x, "replacement");
	const char *scheme = hf_str(x, "prepend_scheme");
	PreStep		step = {.kind = PRE_METASPACE, .prepend = PREPEND_ALWAYS};

	if (meta == NULL)
		meta = META;
	if (!check_literal(meta, 1, "pre_tokenizer Metaspace", e))
		return false;
	if (scheme == NULL)			/* files from before there were schemes */
		step.prepend = hf_bool(x, "add_prefix_space", true) ? PREPEND_ALWAYS : PREPEND_NEVER;
	else if (strcmp(scheme, "first") == 0)
		step.prepend = PREPEND_FIRST;
	else if (strcmp(scheme, "never") == 0)
		step.prepend = PREPEND_NEVER;
	else if (strcmp(scheme, "always") != 0)
		return unsupported(e, "prepend_scheme", scheme);
	step.str = mem_strdup(meta);
	if (!add_pre(t, step, e))
		return false;
	if (!hf_bool(x, "split", true))
		return true;
	step = (PreStep) {.kind = PRE_SPLIT, .str = mem_strdup(meta)};
	step.split = (SplitStep) {.lit = step.str, .lit_len = strlen(meta), .behavior = SPLIT_WITH_NEXT};
	return add_pre(t, step, e);
}

static bool
pre_byte_level(Tok *t, const cJSON *x, Err *e)
{
	PreStep		space = {.kind = PRE_SPACE};
	PreStep		words = {.kind = PRE_SPLIT, .split = {.match = split_gpt2}};

	if (hf_bool(x, "add_prefix_space", true) && !add_pre(t, space, e))
		return false;
	if (hf_bool(x, "use_regex", true) && !add_pre(t, words, e))
		return false;
	t->byte_level = true;
	return true;
}

static bool
pre_tokenizer(Tok *t, const cJSON *x, int depth, Err *e)
{
	const char *type = hf_type(x);
	PreStep		step = {.kind = PRE_SPLIT};

	if (strcmp(type, "Sequence") == 0 && depth < MAX_DEPTH)
	{
		const cJSON *y;

		cJSON_ArrayForEach(y, hf_get(x, "pretokenizers"))
			if (!pre_tokenizer(t, y, depth + 1, e))
				return false;
		return true;
	}
	if (strcmp(type, "Split") == 0)
		return pre_split(t, x, e);
	if (strcmp(type, "Metaspace") == 0)
		return pre_metaspace(t, x, e);
	if (strcmp(type, "ByteLevel") == 0)
		return pre_byte_level(t, x, e);
	if (strcmp(type, "Digits") == 0)
	{
		step.split.match = split_number;
		step.split.behavior = hf_bool(x, "individual_digits", false) ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
		return add_pre(t, step, e);
	}
	if (strcmp(type, "Punctuation") == 0)
	{
		const char *name = hf_str(x, "behavior");

		step.split.match = split_punct;
		return behavior_of(name ? name : "Isolated", &step.split.behavior, e) && add_pre(t, step, e);
	}
	return unsupported(e, "pre_tokenizer", type);
}

bool
hf_pre_tokenizer(Tok *t, const cJSON *x, Err *e)
{
	return x == NULL || pre_tokenizer(t, x, 0, e);
}

/* ---------- decoder ---------- */

typedef struct DecoderState
{
	Tok		   *t;
	PieceRules *r;
	bool		fused;			/* behind Fuse: the text is one piece */
	int			count;			/* decoders seen, Sequences not counted */
} DecoderState;

static bool
add_replacement(PieceRules *r, const char *from, const char *to, Err *e)
{
	if (!check_literal(from, 1, "decoder Replace", e) || !check_literal(to, 0, "decoder Replace", e))
		return false;
	if (r->n == sizeof(r->from) / sizeof(r->from[0]))
		return err_set(e, ERR_UNSUPPORTED, "tokenizer.json: too many decoders");
	r->from[r->n] = from;
	r->to[r->n++] = to;
	return true;
}

static bool
decode_metaspace(DecoderState *d, const cJSON *x, Err *e)
{
	const char *meta = hf_str(x, "replacement");
	const char *scheme = hf_str(x, "prepend_scheme");
	bool		never = scheme ? strcmp(scheme, "never") == 0 : !hf_bool(x, "add_prefix_space", true);

	if (meta != NULL && strcmp(meta, META) != 0)
		return unsupported(e, "Metaspace replacement", meta);
	if (!never)
		d->t->start = START_DROP_META;
	return add_replacement(d->r, META, " ", e);
}

static bool
decode_strip(DecoderState *d, const cJSON *x, Err *e)
{
	const char *content = hf_str(x, "content");
	const cJSON *start = hf_get(x, "start");
	const cJSON *stop = hf_get(x, "stop");
	int32_t		n = 0;

	if (!d->fused || content == NULL || strcmp(content, " ") != 0 || !hf_id(start, &n) ||
		(stop != NULL && stop->valuedouble != 0))
		return unsupported(e, "decoder", "Strip other than of leading spaces");
	if (d->t->start != START_AS_IS)
		return unsupported(e, "decoder", "Strip after another");
	d->t->start = START_STRIP;
	d->t->start_count = (size_t) n;
	return true;
}

static bool
decoder(DecoderState *d, const cJSON *x, int depth, Err *e)
{
	const char *type = hf_type(x);

	if (strcmp(type, "Sequence") == 0 && depth < MAX_DEPTH)
	{
		const cJSON *y;

		cJSON_ArrayForEach(y, hf_get(x, "decoders"))
			if (!decoder(d, y, depth + 1, e))
				return false;
		return true;
	}
	d->count++;
	if (strcmp(type, "Strip") == 0)
		return decode_strip(d, x, e);
	if (strcmp(type, "Fuse") == 0)
		return d->fused = true;
	/* the rest work on tokens, so they must come first; the byte kinds last of these */
	if (d->fused || d->r->byte_level || d->r->byte_tokens)
		return unsupported(e, "order of decoders at", type);
	if (strcmp(type, "ByteLevel") == 0 && d->count == 1)
		return d->r->byte_level = true;
	if (strcmp(type, "ByteFallback") == 0)
		return d->r->byte_tokens = d->t->fffd_per_byte = true;
	if (strcmp(type, "Metaspace") == 0)
		return decode_metaspace(d, x, e);
	if (strcmp(type, "Replace") == 0 && string_pattern(x) != NULL)
		return add_replacement(d->r, string_pattern(x), hf_str(x, "content"), e);
	return unsupported(e, "decoder", type);
}

bool
hf_decoder(Tok *t, const cJSON *x, PieceRules *r, Err *e)
{
	DecoderState d = {.t = t, .r = r};

	if (x == NULL)
		return err_set(e, ERR_UNSUPPORTED, "tokenizer.json: a tokenizer without decoder is not supported");
	return decoder(&d, x, 0, e);
}

/* ---------- post_processor ---------- */

/* Put ids[0..n) before (or behind) what the template has so far. */
static bool
surround(Tok *t, const int32_t *ids, size_t n, bool before, Err *e)
{
	int32_t    *to = before ? t->before : t->after;
	size_t	   *len = before ? &t->n_before : &t->n_after;

	for (size_t i = 0; i < n; i++)
		if (ids[i] >= t->n_ids)
			return err_set(e, ERR_BAD_FILE, "tokenizer.json: post_processor names token %d, "
						   "which does not exist", (int) ids[i]);
	if (*len + n > TOK_MAX_TEMPLATE)
		return err_set(e, ERR_UNSUPPORTED, "tokenizer.json: post_processor adds too many tokens");
	if (before)
		memmove(to + n, to, *len * sizeof(int32_t));
	if (n > 0)
		memcpy(before ? to : to + *len, ids, n * sizeof(int32_t));
	*len += n;
	return true;
}

/* Append the ids of special token `name` of a template. */
static bool
special_ids(const cJSON *specials, const char *name, int32_t *ids, size_t *n, Err *e)
{
	const cJSON *list = name ? hf_get(hf_get(specials, name), "ids") : NULL;
	const cJSON *y;

	cJSON_ArrayForEach(y, list)
		if (*n == TOK_MAX_TEMPLATE || !hf_id(y, &ids[(*n)++]))
			return err_set(e, ERR_BAD_FILE, "tokenizer.json: bad ids in the post_processor");
	if (!cJSON_IsArray(list))
		return err_set(e, ERR_BAD_FILE, "tokenizer.json: the post_processor's template has no "
					   "special token \"%s\"", name ? name : "");
	return true;
}

static bool
post_template(Tok *t, const cJSON *x, Err *e)
{
	const cJSON *specials = hf_get(x, "special_tokens");
	int32_t		ids[2][TOK_MAX_TEMPLATE];
	size_t		n[2] = {0, 0};
	int			side = 0;		/* 0 before the text, 1 behind it */
	const cJSON *y;

	cJSON_ArrayForEach(y, hf_get(x, "single"))
	{
		const cJSON *sp = hf_get(y, "SpecialToken");

		if (hf_get(y, "Sequence") != NULL)
		{
			if (side++ > 0)
				break;
		}
		else if (!special_ids(specials, hf_str(sp, "id"), ids[side], &n[side], e))
			return false;
	}
	if (side != 1)
		return err_set(e, ERR_BAD_FILE, "tokenizer.json: the post_processor's template must hold "
					   "the text once");
	return surround(t, ids[0], n[0], true, e) && surround(t, ids[1], n[1], false, e);
}

/* "cls": ["<s>", 0] */
static bool
post_pair(Tok *t, const cJSON *x, const char *key, bool before, Err *e)
{
	int32_t		id;

	if (!hf_id(cJSON_GetArrayItem(hf_get(x, key), 1), &id))
		return err_set(e, ERR_BAD_FILE, "tokenizer.json: bad \"%s\" in the post_processor", key);
	return surround(t, &id, 1, before, e);
}

static bool
post_processor(Tok *t, const cJSON *x, int depth, Err *e)
{
	const char *type = hf_type(x);

	if (strcmp(type, "Sequence") == 0 && depth < MAX_DEPTH)
	{
		const cJSON *y;

		cJSON_ArrayForEach(y, hf_get(x, "processors"))
			if (!post_processor(t, y, depth + 1, e))
				return false;
		return true;
	}
	if (strcmp(type, "ByteLevel") == 0)
		return true;			/* changes offsets only */
	if (strcmp(type, "TemplateProcessing") == 0)
		return post_template(t, x, e);
	if (strcmp(type, "RobertaProcessing") == 0 || strcmp(type, "BertProcessing") == 0)
		return post_pair(t, x, "cls", true, e) && post_pair(t, x, "sep", false, e);
	return unsupported(e, "post_processor", type);
}

bool
hf_post_processor(Tok *t, const cJSON *x, Err *e)
{
	return x == NULL || post_processor(t, x, 0, e);
}
