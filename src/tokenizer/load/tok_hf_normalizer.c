/*
 * tok_hf_normalizer.c
 *	  Read the components of a tokenizer.json before the model: normalizer and pre_tokenizer.
 *
 * Each is an object with a "type", possibly a Sequence of others.  They are flattened into the arrays of
 * a Tok.  Unknown components are refused by name (ERR_UNSUPPORTED): a tokenizer that is nearly right is
 * worse than none.
 *
 * Tested by tests/unit/tokenizer/test_tokenizer.c (refusals, and ids against Hugging
 * Face for what is supported).
 */
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "base/json/json.h"
#include "tokenizer/word_marker.h"
#include "tokenizer/load/tok_hf.h"
#include "text/utf8.h"

/* bytes of the longest replacement, prefix, or split literal */
#define MAX_LITERAL	256
#define MAX_CHARSMAP ((size_t) 16 << 20)

bool
hf_unsupported(Err *e, const char *part, const char *what)
{
	return err_set(e, ERR_UNSUPPORTED, "tokenizer.json: %s \"%s\" is not supported", part, what);
}

bool
hf_literal(const char *s, size_t min, const char *part, Err *e)
{
	if (s != NULL && strlen(s) >= min && strlen(s) <= MAX_LITERAL)
		return true;
	return err_set(e, ERR_BAD_FILE, "tokenizer.json: %s has no usable literal", part);
}

const char *
hf_string_pattern(const Json *x)
{
	return hf_str(hf_get(x, "pattern"), "String");
}

/* ---------- normalizer ---------- */

/* The caller has checked that there is room. */
static bool
add_norm(Tok *t, NormStep step)
{
	ALWAYS(t->n_norm < TOK_MAX_NORM);
	t->norm[t->n_norm++] = step;
	return true;
}

static bool
norm_replace(Tok *t, const Json *x, Err *e)
{
	const char *from = hf_string_pattern(x);
	const char *regex = hf_str(hf_get(x, "pattern"), "Regex");
	const char *to = hf_str(x, "content");
	SplitMatch	match = regex != NULL ? split_by_regex(regex) : NULL;
	PcrePattern *rx = NULL;

	if (!hf_literal(to, 0, "normalizer Replace", e))
		return false;
	if (regex != NULL)
	{
		if (match == NULL && (rx = rx_compile(regex, e)) == NULL)
			return false;
		return add_norm(t, (NormStep) {.kind = NORM_REGEX, .match = match, .rx = rx, .to = mem_strdup(to)});
	}
	return hf_literal(from, 1, "normalizer Replace", e) &&
		add_norm(t, (NormStep) {.kind = NORM_REPLACE, .from = mem_strdup(from), .to = mem_strdup(to)});
}

bool
hf_base64(const char *s, size_t len, Buf *out)
{
	uint32_t	bits = 0;
	int			n = 0;

	while (len > 0 && s[len - 1] == '=')
		len--;
	for (size_t i = 0; i < len; i++)
	{
		char		c = s[i];
		int			v = c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 :
			c >= '0' && c <= '9' ? c - '0' + 52 : c == '+' ? 62 : c == '/' ? 63 : -1;

		if (v < 0)
			return false;
		bits = bits << 6 | (uint32_t) v;
		if ((n += 6) >= 8)
			buf_addc(out, (char) (bits >> (n -= 8)));
	}
	return true;
}

static bool
norm_precompiled(Tok *t, const Json *x, Err *e)
{
	const char *b64 = hf_str(x, "precompiled_charsmap");
	Buf			blob = {0};
	Charsmap   *map;

	if (b64 == NULL || strlen(b64) > MAX_CHARSMAP)
		return err_set(e, ERR_BAD_FILE, "tokenizer.json: normalizer Precompiled has no usable charsmap");
	if (hf_base64(b64, strlen(b64), &blob))
		map = charsmap_new(blob.data, blob.len, e);
	else
		map = charsmap_new("", 0, e);
	buf_free(&blob);
	return map != NULL && add_norm(t, (NormStep) {.kind = NORM_CHARSMAP, .map = map});
}

static bool
norm_bert(Tok *t, const Json *x)
{
	bool		lower = hf_bool(x, "lowercase", true);

	return add_norm(t, (NormStep) {.kind = NORM_BERT, .flags =
					(hf_bool(x, "clean_text", true) ? NORM_BERT_CLEAN : 0u) |
					(hf_bool(x, "handle_chinese_chars", true) ? NORM_BERT_CHINESE : 0u) |
					(hf_bool(x, "strip_accents", lower) ? NORM_BERT_ACCENTS : 0u) |
					(lower ? NORM_BERT_LOWER : 0u)});
}

static bool
normalizer(Tok *t, const Json *x, int depth, Err *e)
{
	static const struct
	{
		const char *type;
		NormStep	step;
	}			plain[] = {
		{"NFC", {.kind = NORM_UNICODE, .form = UNI_NFC}}, {"NFD", {.kind = NORM_UNICODE, .form = UNI_NFD}},
		{"NFKC", {.kind = NORM_UNICODE, .form = UNI_NFKC}},
		{"NFKD", {.kind = NORM_UNICODE, .form = UNI_NFKD}},
		{"Lowercase", {.kind = NORM_LOWER}}, {"StripAccents", {.kind = NORM_ACCENTS}},
		{"Nmt", {.kind = NORM_NMT}},
		{"ByteLevel", {.kind = NORM_SPELL}}
	};
	const char *type = hf_type(x);
	const char *to;

	if (strcmp(type, "Sequence") == 0 && depth < HF_MAX_DEPTH)
	{
		const Json *y;

		json_each(y, hf_get(x, "normalizers"))
			if (!normalizer(t, y, depth + 1, e))
				return false;
		return true;
	}
	if (t->n_norm == TOK_MAX_NORM)
		return err_set(e, ERR_UNSUPPORTED, "tokenizer.json: too many normalizers");
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (strcmp(type, plain[i].type) == 0)
			return add_norm(t, plain[i].step);
	if (strcmp(type, "Prepend") == 0)
	{
		to = hf_str(x, "prepend");
		return hf_literal(to, 0, "normalizer Prepend", e) &&
			add_norm(t, (NormStep) {.kind = NORM_PREPEND, .to = mem_strdup(to)});
	}
	if (strcmp(type, "Replace") == 0)
		return norm_replace(t, x, e);
	if (strcmp(type, "BertNormalizer") == 0)
		return norm_bert(t, x);
	if (strcmp(type, "Strip") == 0)
		return add_norm(t, (NormStep) {.kind = NORM_STRIP, .flags =
						(hf_bool(x, "strip_left", true) ? NORM_STRIP_LEFT : 0u) |
						(hf_bool(x, "strip_right", true) ? NORM_STRIP_RIGHT : 0u)});
	if (strcmp(type, "Precompiled") == 0)
		return norm_precompiled(t, x, e);
	return hf_unsupported(e, "normalizer", type);
}

bool
hf_normalizer(Tok *t, const Json *x, Err *e)
{
	return x == NULL || normalizer(t, x, 0, e);
}

/* ---------- pre_tokenizer ---------- */

/* The Tok takes over what the step owns. */
static bool
add_pre(Tok *t, PreStep step, Err *e)
{
	if (t->n_pre == SPLIT_MAX_STEPS)
	{
		tok_pre_free(&step);
		return err_set(e, ERR_UNSUPPORTED, "tokenizer.json: too many pre_tokenizers");
	}
	t->pre[t->n_pre++] = step;
	return true;
}

static bool
add_matcher(Tok *t, SplitMatch match, SplitBehavior behavior, Err *e)
{
	return add_pre(t, (PreStep) {.kind = PRE_SPLIT, .split = {.match = match, .behavior = behavior}}, e);
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
	return hf_unsupported(e, "split behavior", name);
}

static bool
pre_split(Tok *t, const Json *x, Err *e)
{
	const char *regex = hf_str(hf_get(x, "pattern"), "Regex");
	const char *lit = hf_string_pattern(x);
	const char *name = hf_str(x, "behavior");
	PreStep		step = {.kind = PRE_SPLIT, .split = {.invert = hf_bool(x, "invert", false)}};

	if (!behavior_of(name ? name : "", &step.split.behavior, e))
		return false;
	if (regex != NULL)
	{
		step.split.match = split_by_regex(regex);
		if (step.split.match == NULL && (step.split.rx = rx_compile(regex, e)) == NULL)
			return false;
		return add_pre(t, step, e);
	}
	if (!hf_literal(lit, 1, "pre_tokenizer Split", e))
		return false;
	step.str = mem_strdup(lit);
	step.split.lit = step.str;
	step.split.lit_len = strlen(lit);
	return add_pre(t, step, e);
}

static bool
pre_delimiter(Tok *t, const Json *x, Err *e)
{
	const char *lit = hf_str(x, "delimiter");
	PreStep		step = {.kind = PRE_SPLIT};

	if (!hf_literal(lit, 1, "pre_tokenizer CharDelimiterSplit", e))
		return false;
	step.str = mem_strdup(lit);
	step.split = (SplitStep) {.lit = step.str, .lit_len = strlen(lit), .behavior = SPLIT_REMOVED};
	return add_pre(t, step, e);
}

static bool
pre_fixed(Tok *t, const Json *x, Err *e)
{
	int32_t		n = 5;

	if (hf_get(x, "length") != NULL && (!hf_id(hf_get(x, "length"), &n) || n == 0))
		return err_set(e, ERR_BAD_FILE, "tokenizer.json: pre_tokenizer FixedLength has a bad length");
	return add_pre(t, (PreStep) {.kind = PRE_FIXED, .count = (size_t) n}, e);
}

static bool
pre_metaspace(Tok *t, const Json *x, Err *e)
{
	const char *meta = hf_str(x, "replacement");
	const char *scheme = hf_str(x, "prepend_scheme");
	PreStep		step = {.kind = PRE_METASPACE, .prepend = PREPEND_ALWAYS};

	if (meta == NULL)
		meta = META;
	if (!hf_literal(meta, 1, "pre_tokenizer Metaspace", e))
		return false;
	if (scheme == NULL)			/* files from before there were schemes */
		step.prepend = hf_bool(x, "add_prefix_space", true) ? PREPEND_ALWAYS : PREPEND_NEVER;
	else if (strcmp(scheme, "first") == 0)
		step.prepend = PREPEND_FIRST;
	else if (strcmp(scheme, "never") == 0)
		step.prepend = PREPEND_NEVER;
	else if (strcmp(scheme, "always") != 0)
		return hf_unsupported(e, "prepend_scheme", scheme);
	step.str = mem_strdup(meta);
	if (!add_pre(t, step, e))
		return false;
	if (!hf_bool(x, "split", true))
		return true;
	step = (PreStep) {.kind = PRE_SPLIT, .str = mem_strdup(meta)};
	step.split = (SplitStep) {.lit = step.str, .lit_len = strlen(meta), .behavior = SPLIT_WITH_NEXT};
	return add_pre(t, step, e);
}

/* Add ByteLevel's steps.  make_bpe() removes the spelling step unless a later step depends on it. */
static bool
pre_byte_level(Tok *t, const Json *x, Err *e)
{
	return (!hf_bool(x, "add_prefix_space", true) || add_pre(t, (PreStep) {.kind = PRE_SPACE}, e)) &&
		(!hf_bool(x, "use_regex", true) || add_matcher(t, split_gpt2, SPLIT_ISOLATED, e)) &&
		add_pre(t, (PreStep) {.kind = PRE_SPELL}, e);
}

static bool
pre_tokenizer(Tok *t, const Json *x, int depth, Err *e)
{
	const char *type = hf_type(x);
	SplitBehavior behavior;

	if (strcmp(type, "Sequence") == 0 && depth < HF_MAX_DEPTH)
	{
		const Json *y;

		json_each(y, hf_get(x, "pretokenizers"))
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
		return add_matcher(t, split_digit,
						   hf_bool(x, "individual_digits", false) ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS, e);
	if (strcmp(type, "Punctuation") == 0)
	{
		const char *name = hf_str(x, "behavior");

		return behavior_of(name ? name : "Isolated", &behavior, e) &&
			add_matcher(t, split_punct, behavior, e);
	}
	if (strcmp(type, "BertPreTokenizer") == 0)
		return add_matcher(t, split_space, SPLIT_REMOVED, e) &&
			add_matcher(t, split_punct, SPLIT_ISOLATED, e);
	if (strcmp(type, "Whitespace") == 0)
		return add_matcher(t, split_space, SPLIT_REMOVED, e) && add_matcher(t, split_word, SPLIT_ISOLATED, e);
	if (strcmp(type, "WhitespaceSplit") == 0)
		return add_matcher(t, split_space, SPLIT_REMOVED, e);
	if (strcmp(type, "CharDelimiterSplit") == 0)
		return pre_delimiter(t, x, e);
	if (strcmp(type, "UnicodeScripts") == 0)
	{
		/* as in the reference, characters of any script at the beginning of a text are dropped */
		return add_pre(t,
					   (PreStep) {.kind = PRE_SPLIT,
								  .split = {.match = split_script, .behavior = SPLIT_REMOVED,
			.invert = true}}, e);
	}
	if (strcmp(type, "FixedLength") == 0)
		return pre_fixed(t, x, e);
	return hf_unsupported(e, "pre_tokenizer", type);
}

bool
hf_pre_tokenizer(Tok *t, const Json *x, Err *e)
{
	return x == NULL || pre_tokenizer(t, x, 0, e);
}
