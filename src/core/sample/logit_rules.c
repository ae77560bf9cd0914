/*
 * logit_rules.c
 *	  Rules of a request that change a row of logits.
 *
 * In the sampler's order (sample.c), on float32 like the reference:
 *
 *	allowed_token_ids	all other ids become -INFINITY;
 *	bad_words			the last token of a word becomes -INFINITY if the output ends with
 *						the others; the prompt does not count;
 *	logit_bias			is added;
 *	repetition_penalty	logits above 0 of tokens in prompt and output are divided by it,
 *						others multiplied by it;
 *	frequency_penalty	times the token's count in the output is subtracted;
 *	presence_penalty	is subtracted if the token is in the output.
 *
 * -INFINITY stays -INFINITY: no rule allows a forbidden token again.  Finite logits stay finite, however
 * large the numbers.
 *
 * Penalties only visit the request's tokens, not the vocabulary: TokenCounts is a hash table of the
 * different tokens, updated with the tokens since the last row.  It depends only on tokens, so
 * preemption does not affect it.
 *
 * Tested by tests/unit/core/sample/test_logits.c against tests/golden/sampling.json.
 */
#include "core/sample/logit_rules.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/json/json_scan.h"
#include "base/alloc.h"
#include "base/json/json.h"
#include "core/sample/param_range.h"
#include "ipc/wire.h"

#define MAX_BIAS		65536	/* most ids with a bias */
#define MAX_BIAS_BYTES	(2 << 20)
#define MAX_BIAS_VALUE	100.0	/* larger values are reduced to this, as in vLLM */
#define MAX_WORDS		1024
#define MAX_WORDS_BYTES	65536	/* of all words together, since they are tokenized at once */

LogitRules *
logit_rules_new(void)
{
	LogitRules *r = mem_zalloc(sizeof(*r));

	r->repetition_penalty = 1;
	return r;
}

void
logit_rules_free(LogitRules *r)
{
	if (r == NULL)
		return;
	for (int i = 0; i < r->n_words; i++)
		mem_free(r->words[i]);
	mem_free(r->words);
	mem_free(r->bias_ids);
	mem_free(r->bias);
	mem_free(r->allowed_mask);
	intvec_free(&r->allowed);
	intvec_free(&r->bad);
	intvec_free(&r->bad_ends);
	mem_free(r);
}

/* ---- adding parameters ---- */

static bool
bad(Err *e, const char *param, const char *what)
{
	err_set(e, ERR_INVALID, "%s %s", param, what);
	return err_detail(e, "parameter=%s", param);
}

static bool
bad_value(Err *e, const char *param, const char *what, const char *value)
{
	err_set(e, ERR_INVALID, "%s %s", param, what);
	return err_detail(e, "parameter=%s, value=%s", param, value);
}

/* Parse an id that is written as an object key. */
static bool
id_of_key(const char *key, int32_t *id)
{
	char	   *end;
	long		v;

	if (*key < '0' || *key > '9' || strlen(key) > 10)
		return false;
	v = strtol(key, &end, 10);
	*id = (int32_t) v;
	return *end == '\0' && v <= INT32_MAX;
}

typedef struct Bias
{
	int32_t		id;
	int			at;				/* position in the text */
	double		value;
} Bias;

static int
by_id(const void *a, const void *b)
{
	const Bias *x = a;
	const Bias *y = b;

	return x->id != y->id ? (x->id < y->id ? -1 : 1) : x->at - y->at;
}

/* If an id occurs twice, the last one counts. */
static void
set_biases(LogitRules *r, Bias *b, int n)
{
	qsort(b, (size_t) n, sizeof(Bias), by_id);
	mem_free(r->bias_ids);
	mem_free(r->bias);
	r->bias_ids = mem_alloc((size_t) (n + 1) * sizeof(int32_t));
	r->bias = mem_alloc((size_t) (n + 1) * sizeof(float));
	r->n_bias = 0;
	for (int i = 0; i < n; i++)
	{
		ASSERT(b[i].id >= 0 && (i == 0 || b[i - 1].id <= b[i].id));
		if (i + 1 < n && b[i + 1].id == b[i].id)
			continue;
		r->bias_ids[r->n_bias] = b[i].id;
		r->bias[r->n_bias++] = (float) fmax(-MAX_BIAS_VALUE, fmin(MAX_BIAS_VALUE, b[i].value));
	}
}

static bool
bad_key(const char *key, Err *e)
{
	err_set(e, ERR_INVALID, "logit_bias must have token ids as keys, got \"%.60s\"", key);
	err_detail(e, "parameter=logit_bias, value=%.60s", key);
	return err_hint(e, "An id is a non-negative integer; llm_tokenize() returns the ids of a text.");
}

static bool
bad_bias(const Json *x, Err *e)
{
	char	   *got = json_is_number(x) ? NULL : json_print(x);

	err_set(e, ERR_INVALID, "logit_bias must have finite numbers as values, got %.60s for token %.20s",
			got != NULL ? got : "one that is too large", x->key);
	mem_free(got);
	err_detail(e, "parameter=logit_bias, value=%.20s", x->key);
	return err_hint(e, "A number from -100 (almost never) to 100 (almost always) is added to the token's "
					   "logit; other numbers are clamped to this range.");
}

static bool
take_bias(LogitRules *r, const Json *object, Bias *b, Err *e)
{
	int			n = 0;

	if (!json_is_object(object))
		return bad(e, "logit_bias", "must be an object of token ids and numbers, such as {\"1234\": -100}");
	for (const Json *x = object->child; x != NULL; x = x->next, n++)
	{
		b[n] = (Bias) {.at = n, .value = x->num};
		if (!id_of_key(x->key, &b[n].id))
			return bad_key(x->key, e);
		if (!json_is_number(x) || !isfinite(x->num))
			return bad_bias(x, e);
	}
	set_biases(r, b, n);
	return true;
}

bool
logit_rules_bias(LogitRules *r, const char *json, size_t n, Err *e)
{
	size_t		values;
	Json	   *object;
	Bias	   *b;
	bool		ok;

	if (n > MAX_BIAS_BYTES || (values = json_values(json, n, MAX_BIAS + 1)) > MAX_BIAS + 1)
		return bad(e, "logit_bias", "may have at most 65536 ids");
	object = json_parse(json, n);
	if (object == NULL)
		return bad(e, "logit_bias", "must be valid json");
	b = mem_alloc((values + 1) * sizeof(Bias));
	ok = take_bias(r, object, b, e);
	mem_free(b);
	json_free(object);
	return ok;
}

bool
logit_rules_bad_word(LogitRules *r, const char *s, size_t n, Err *e)
{
	if (n == 0)
		return bad(e, "bad_words", "cannot contain an empty string");
	for (int i = 0; i < r->n_words; i++)
		if (strlen(r->words[i]) == n && memcmp(r->words[i], s, n) == 0)
			return true;
	r->words_bytes += n;
	if (r->n_words == MAX_WORDS || r->words_bytes > MAX_WORDS_BYTES)
		return bad(e, "bad_words", "may have at most 1024 words of 65536 bytes together");
	if (memchr(s, '\0', n) != NULL)
		return bad(e, "bad_words", "cannot contain a zero byte");
	r->words = mem_realloc(r->words, (size_t) (r->n_words + 1) * sizeof(char *));
	r->words[r->n_words++] = mem_strndup(s, n);
	return true;
}

/* ---- checks against the model ---- */

static bool
check_id(const char *name, int32_t id, int n_valid, Err *e)
{
	if (id >= 0 && id < n_valid)
		return true;
	err_set(e, ERR_INVALID, "%s must be between 0 and %d, got %d", name, n_valid - 1, id);
	return err_detail(e, "parameter=%s", name);
}

static bool
make_allowed_mask(LogitRules *r, int n_valid, Err *e)
{
	if (!r->has_allowed)
		return true;
	if (r->allowed.len == 0)
		return bad(e, "allowed_token_ids", "must not be empty");
	mem_free(r->allowed_mask);
	r->allowed_mask = mem_zalloc(((size_t) n_valid + 31) / 32 * sizeof(uint32_t));
	for (size_t i = 0; i < r->allowed.len; i++)
	{
		int32_t		id = r->allowed.data[i];

		if (!check_id("allowed_token_ids", id, n_valid, e))
			return false;
		r->allowed_mask[id / 32] |= UINT32_C(1) << id % 32;
	}
	return true;
}

/*
 * Add the tokens of s[0..n) as a bad word.  spaced: the word with a space before it, which is only added
 * if it has as many tokens as the word without, and begins with another one.
 */
static bool
add_bad_tokens(LogitRules *r, const Tok *tok, const char *s, size_t n, bool spaced, Err *e)
{
	size_t		from = r->bad.len;
	size_t		before = r->bad_ends.len > 1 ? (size_t) r->bad_ends.data[r->bad_ends.len - 2] : 0;

	if (!tok_encode(tok, s, n, 0, &r->bad, e))
		return false;
	if (r->bad.len == from)
		return spaced || bad_value(e, "bad_words", "must have words that are tokens", s);
	/* after a space it is usually another token; if not, don't add the same sequence twice */
	if (spaced && (r->bad.len - from != from - before || r->bad.data[from] == r->bad.data[before]))
		r->bad.len = from;
	else
		intvec_push(&r->bad_ends, (int32_t) r->bad.len);
	return true;
}

/* Add a word as at the beginning of a text, and as after a space (docs/user/sampling.md). */
static bool
make_bad_words(LogitRules *r, const Tok *tok, Err *e)
{
	Buf			spaced = {0};
	bool		ok = true;

	intvec_reset(&r->bad);
	intvec_reset(&r->bad_ends);
	for (int i = 0; i < r->n_words && ok; i++)
	{
		const char *s = r->words[i] + strspn(r->words[i], " \t\r\n\v\f");
		size_t		had = r->bad_ends.len;

		if (*s == '\0')
			ok = bad(e, "bad_words", "cannot contain a word of white space alone");
		buf_reset(&spaced);
		buf_addc(&spaced, ' ');
		buf_addstr(&spaced, s);
		ok = ok && add_bad_tokens(r, tok, s, strlen(s), false, e);
		if (ok && r->bad_ends.len > had)
			ok = add_bad_tokens(r, tok, spaced.data, spaced.len, true, e);
	}
	buf_free(&spaced);
	return ok;
}

bool
logit_rules_check(LogitRules *r, const Tok *tok, int n_valid, Err *e)
{
	if (!param_in_range(WTAG_PRESENCE_PENALTY, r->presence_penalty, e) ||
		!param_in_range(WTAG_FREQUENCY_PENALTY, r->frequency_penalty, e) ||
		!param_in_range(WTAG_REPETITION_PENALTY, r->repetition_penalty, e))
		return false;
	for (int i = 0; i < r->n_bias; i++)
		if (r->bias_ids[i] >= n_valid)
		{
			err_set(e, ERR_INVALID, "logit_bias names token %d, but the model's tokens are 0 to %d",
					r->bias_ids[i], n_valid - 1);
			return err_detail(e, "parameter=logit_bias, value=%d", r->bias_ids[i]);
		}
	return make_allowed_mask(r, n_valid, e) && make_bad_words(r, tok, e);
}

/* ---- counts ---- */

typedef struct TokenCount
{
	int32_t		id;
	int32_t		n_output;		/* count in the output */
	int32_t		n_prompt;
} TokenCount;

struct TokenCounts
{
	int			seen;			/* tokens counted so far */
	int			n_prompt;
	int			n;				/* number of entries */
	int			n_slots;		/* a power of two, more than twice n */
	int32_t    *slots;			/* index of the entry + 1; 0 = free */
	TokenCount *entries;
};

static int
slot_of(const TokenCounts *c, int32_t id)
{
	uint32_t	at = (uint32_t) id * UINT32_C(2654435761);

	for (at = (at ^ at >> 15) & (uint32_t) (c->n_slots - 1);; at = (at + 1) & (uint32_t) (c->n_slots - 1))
		if (c->slots[at] == 0 || c->entries[c->slots[at] - 1].id == id)
			return (int) at;
}

static void
grow(TokenCounts *c, int n_slots)
{
	mem_free(c->slots);
	c->n_slots = n_slots;
	c->slots = mem_zalloc((size_t) n_slots * sizeof(int32_t));
	c->entries = mem_realloc(c->entries, (size_t) n_slots / 2 * sizeof(TokenCount));
	for (int i = 0; i < c->n; i++)
		c->slots[slot_of(c, c->entries[i].id)] = i + 1;
}

static TokenCount *
entry_of(TokenCounts *c, int32_t id)
{
	int			at = slot_of(c, id);

	if (c->slots[at] == 0)
	{
		if (c->n + 1 >= c->n_slots / 2)
		{
			grow(c, c->n_slots * 2);
			at = slot_of(c, id);
		}
		/* some slots must be free, or searching for an unknown id would never end */
		ALWAYS(c->n < c->n_slots / 2);
		c->entries[c->n] = (TokenCount) {.id = id};
		c->slots[at] = ++c->n;
	}
	return &c->entries[c->slots[at] - 1];
}

/* Count the new tokens.  from_prompt: also the prompt's. */
static TokenCounts *
count_up(TokenCounts **counts, const int32_t *tokens, int n_prompt, int n_tokens, bool from_prompt)
{
	TokenCounts *c = *counts;

	if (c == NULL)
	{
		*counts = c = mem_zalloc(sizeof(*c));
		c->n_prompt = n_prompt;
		c->seen = from_prompt ? 0 : n_prompt;
		grow(c, 1024);
	}
	ASSERT(c->n_prompt == n_prompt && c->seen <= n_tokens);
	for (; c->seen < n_tokens; c->seen++)
	{
		TokenCount *t = entry_of(c, tokens[c->seen]);

		if (c->seen < c->n_prompt)
			t->n_prompt++;
		else
			t->n_output++;
	}
	return c;
}

void
token_counts_free(TokenCounts *c)
{
	if (c == NULL)
		return;
	mem_free(c->slots);
	mem_free(c->entries);
	mem_free(c);
}

/* ---- applying rules ---- */

/*
 * Return the last token of the i-th word if it is forbidden now, else -1.  *from: start of the word in
 * `bad`; is advanced to the next word.
 */
static int32_t
banned(const LogitRules *r, size_t i, int *from, const int32_t *output, int n_output)
{
	const int32_t *word = r->bad.data + *from;
	int			n = r->bad_ends.data[i] - *from;

	ALWAYS(n > 0 && (size_t) r->bad_ends.data[i] <= r->bad.len);
	*from += n;
	if (n - 1 <= n_output && memcmp(word, output + n_output - (n - 1), (size_t) (n - 1) * sizeof(int32_t)) ==
		0)
		return word[n - 1];
	return -1;
}

void
logit_rules_ban_words(const LogitRules *r, const int32_t *output, int n_output, float *logits, int n_valid)
{
	int			from = 0;

	for (size_t i = 0; i < r->bad_ends.len; i++)
	{
		int32_t		id = banned(r, i, &from, output, n_output);

		if (id >= 0 && id < n_valid)
			logits[id] = -INFINITY;
	}
}

void
logit_rules_ban_bits(const LogitRules *r, const int32_t *output, int n_output, uint32_t *mask, int n_valid)
{
	int			from = 0;

	for (size_t i = 0; i < r->bad_ends.len; i++)
	{
		int32_t		id = banned(r, i, &from, output, n_output);

		if (id >= 0 && id < n_valid)
			mask[id / 32] &= ~(UINT32_C(1) << id % 32);
	}
}

void
logit_rules_add_bias(const LogitRules *r, float *logits)
{
	for (int i = 0; i < r->n_bias; i++)
		logits[r->bias_ids[i]] += r->bias[i];
}

/* Finite values stay finite. */
static float
stay_finite(float x)
{
	return x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x;
}

static bool
penalizes(const LogitRules *r)
{
	return r->repetition_penalty != 1 || r->frequency_penalty != 0 || r->presence_penalty != 0;
}

/* Return the divisor of logits above 0: finite, and not 0. */
static float
repetition_of(const LogitRules *r)
{
	return stay_finite(fmaxf((float) r->repetition_penalty, FLT_MIN));
}

int
logit_rules_counts(const LogitRules *r, TokenCounts **counts, const int32_t *tokens, int n_prompt,
				   int n_tokens, int n_valid, int32_t *ids, int32_t *n_output)
{
	TokenCounts *c;
	int			n = 0;

	if (!penalizes(r))
		return 0;
	c = count_up(counts, tokens, n_prompt, n_tokens, r->repetition_penalty != 1);
	for (int i = 0; i < c->n; i++)
	{
		const TokenCount *t = &c->entries[i];

		if (t->id >= n_valid || (t->n_output == 0 && t->n_prompt == 0))
			continue;
		if (ids != NULL)
		{
			ids[n] = t->id;
			n_output[n] = t->n_output;
		}
		n++;
	}
	return n;
}

void
logit_rules_factors(const LogitRules *r, float *presence, float *frequency, float *repetition)
{
	*presence = (float) r->presence_penalty;
	*frequency = (float) r->frequency_penalty;
	*repetition = r->repetition_penalty != 1 ? repetition_of(r) : 1;
}

void
logit_rules_penalize(const LogitRules *r, TokenCounts **counts, const int32_t *tokens, int n_prompt,
					 int n_tokens, float *logits, int n_valid)
{
	bool		repeats = r->repetition_penalty != 1;
	float		repetition = repetition_of(r);
	TokenCounts *c;

	if (!penalizes(r))
		return;
	c = count_up(counts, tokens, n_prompt, n_tokens, repeats);
	for (int i = 0; i < c->n; i++)
	{
		const TokenCount *t = &c->entries[i];
		float		x;

		if (t->id >= n_valid || logits[t->id] == -INFINITY)
			continue;
		x = logits[t->id];
		if (repeats && (t->n_prompt > 0 || t->n_output > 0))
			x = stay_finite(x > 0 ? x / repetition : x * repetition);
		x -= (float) r->frequency_penalty * (float) t->n_output;
		if (t->n_output > 0)
			x -= (float) r->presence_penalty;
		logits[t->id] = stay_finite(x);
	}
}
