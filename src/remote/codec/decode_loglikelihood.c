/*
 * decode_loglikelihood.c
 *	  Log-likelihoods of choices that follow a prompt, from the log-probabilities of an echoed prompt's
 *	  tokens (decode.h).
 *
 * A call's prompt is the request's prompt followed by one choice; the sum is over those tokens of the
 * response that belong to the choice.  As in src/backend/pooling/loglikelihood_inputs.c, white space at
 * the prompt's end belongs to the choice.  Endpoints show in one of these ways where a token is in the
 * text, and none can be trusted alone:
 *
 *	texts		the tokens' texts, from the last one backwards, are the choice; U+FFFD is part of some
 *				character
 *	the same without white space: tokenizers lose a word's space when they write one token
 *	offsets		"text_offset" in characters, if it agrees with the available texts and ends where the
 *				prompt does
 *
 * Otherwise it is an error: never a wrong sum.  Tokens generated after the prompt are dropped; vLLM's
 * prompt_logprobs has none of them.
 *
 * Tested by tests/unit/remote/codec/test_remote_reply_more.c.
 */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "remote/codec/dialect.h"
#include "remote/codec/decode_internal.h"

#define PART "\xEF\xBF\xBD"		/* servers write this for a part of a character */
#define MAX_ENDS 64

typedef struct LoglikelihoodTok
{
	size_t		at,				/* offset of its text in Toks.bytes */
				len;
	bool		has_value;
	float		value;
	bool		greedy;
	int64_t		offset;			/* "text_offset" in characters; -1 = not reported */
} LoglikelihoodTok;

typedef struct Toks
{
	LoglikelihoodTok *t;
	int			n;
	int			cap;
	Buf			bytes;
} Toks;

static void
toks_free(Toks *t)
{
	mem_free(t->t);
	buf_free(&t->bytes);
}

static LoglikelihoodTok *
add_tok(Toks *t)
{
	if (t->n == t->cap)
	{
		t->cap = t->cap == 0 ? 256 : 2 * t->cap;
		t->t = mem_realloc(t->t, (size_t) t->cap * sizeof(LoglikelihoodTok));
	}
	t->t[t->n] = (LoglikelihoodTok) {.at = t->bytes.len,.offset = -1};
	return &t->t[t->n++];
}

/* ---- reading ---- */

static bool
read_value(const DecodedReply *r, StrView v, LoglikelihoodTok *t, Err *e)
{
	double		x;

	if (json_kind(v) == 'n')
		return true;
	if (!json_num(v, &x) || !isfinite((float) x))
		return reply_bad(r, e, "has a log-probability that is no finite number");
	t->has_value = true;
	t->value = (float) x;
	return true;
}

/* Is no token of {token: value, ...} more likely? */
static bool
read_top(const DecodedReply *r, StrView v, LoglikelihoodTok *t, Err *e)
{
	JsonMembers m;
	StrView		key;
	StrView		value;
	double		x;

	t->greedy = true;
	if (json_kind(v) != '{' || !json_members(&m, v.s, v.n))
		return !t->has_value || reply_bad(r, e, "has log-probabilities without top_logprobs");
	while (json_member(&m, &key, &value) > 0)
	{
		if (!json_num(value, &x))
			return reply_bad(r, e, "has a log-probability that is no finite number");
		t->greedy = t->greedy && t->value >= (float) x;
	}
	return true;
}

static void
read_text(Toks *all, LoglikelihoodTok *t, StrView v)
{
	if (!json_text(v, &all->bytes))
		all->bytes.len = t->at;
	t->len = all->bytes.len - t->at;
}

/* Read the log-probabilities of a completion with echo. */
static bool
read_echo(const DecodedReply *r, StrView v, Toks *all, Err *e)
{
	static const char *const names[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
	StrView		f[4];
	StrView		s[4];
	JsonMembers m[4];
	int			lists = 4;

	if (!json_fields(v, names, 4, f) || json_kind(f[0]) != '[' || json_kind(f[1]) != '[' ||
		json_kind(f[2]) != '[')
		return reply_bad(r, e, "has no log-probabilities of the prompt");
	if (json_kind(f[3]) != '[')
		lists = 3;
	for (int i = 0; i < lists; i++)
		json_elements(&m[i], f[i].s, f[i].n);
	for (;;)
	{
		LoglikelihoodTok *t;
		int			got = 0;

		for (int i = 0; i < lists; i++)
			got += json_element(&m[i], &s[i]) > 0;
		if (got == 0)
			break;
		if (got != lists)
			return reply_bad(r, e, "has logprobs whose lists differ in length");
		t = add_tok(all);
		read_text(all, t, s[0]);
		if (!read_value(r, s[1], t, e) || !read_top(r, s[2], t, e))
			return false;
		if (lists == 4 && !json_whole(s[3], 0, INT32_MAX, &t->offset))
			return reply_bad(r, e, "has a text_offset that is no number");
	}
	return true;
}

static int64_t
chars(const char *s, size_t n)
{
	int64_t		k = 0;

	for (size_t i = 0; i < n; i++)
		k += ((unsigned char) s[i] & 0xC0) != 0x80;
	return k;
}

/* Return the characters of a call's prompt: the request's prompt and the choice. */
static int64_t
requested_chars(const RequestFields *a, int part)
{
	int64_t		n = chars(a->prompt.s, a->prompt.n);

	return a->n_choices > 0 ? n + chars(a->choices[part].s, a->choices[part].n) : n;
}

/*
 * Drop the tokens that were generated after the prompt, because some endpoints don't accept max_tokens
 * 0.  vLLM counts one generated token in its usage that isn't in the list.  llama-cpp-python leaves out
 * the BOS; and without a BOS its values are shifted by one token, and the last generated token, after
 * which nothing was computed, isn't listed: then the last listed token belongs to the prompt.
 */
static bool
leave_generated(const DecodedReply *r, const RPart *p, Toks *all, Err *e)
{
	uint32_t	caps = r->o->dialect != NULL ? r->o->dialect->caps : 0;
	const RUsage *u = &p->usage;
	int64_t		n = all->n - u->completion;

	if ((caps & CAP_ECHO_ONLY) && (u->prompt < 0 || all->n == u->prompt))
		return true;
	if (n < 0 || (u->prompt >= 0 && n != u->prompt && (n != u->prompt - 1 || (caps & CAP_ECHO_ONLY))))
		return reply_bad(r, e, "has log-probabilities of %d tokens, where %lld and %lld are counted", all->n,
						 (long long) u->prompt, (long long) u->completion);
	if ((caps & CAP_LLAMA) &&
		(n == u->prompt ||
		 (n >= 0 && n < all->n && all->t[n].offset < requested_chars(r->requests[0], p->call->part))))
		return err_set(e, ERR_UNSUPPORTED,
					   "the endpoint of model \"%.64s\" reports wrong log-probabilities of a prompt for a "
					   "model without BOS", r->o->name);
	all->n = (int) n;
	return true;
}

/*
 * Read vLLM's [null, {id: {"logprob", "rank", "decoded_token"}, ...}, ...].  The prompt's own token is
 * the first member of each object.
 */
static bool
read_prompt(const DecodedReply *r, StrView v, Toks *all, Err *e)
{
	static const char *const names[] = {"logprob", "rank", "decoded_token"};
	JsonMembers m;
	JsonMembers inner;
	StrView		s;
	StrView		key;
	StrView		value;
	StrView		f[3];
	int64_t		rank;

	if (!json_elements(&m, v.s, v.n))
		return reply_bad(r, e, "has prompt_logprobs that are no list");
	while (json_element(&m, &s) > 0)
	{
		LoglikelihoodTok *t = add_tok(all);

		if (json_kind(s) == 'n')
			continue;
		if (json_kind(s) != '{' || !json_members(&inner, s.s, s.n) ||
			json_member(&inner, &key, &value) < 1 || !json_fields(value, names, 3, f) ||
			!json_whole(f[1], 1, INT32_MAX, &rank))
			return reply_bad(r, e, "has prompt_logprobs that are not those of tokens");
		if (!read_value(r, f[0], t, e))
			return false;
		t->greedy = rank == 1;
		read_text(all, t, f[2]);
	}
	return true;
}

/* ---- which tokens belong to the choice ---- */

static bool
is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Return the bytes of white space, or of a tokenizer's mark for it, at s; 0: none. */
static size_t
space_at(const char *s, size_t n)
{
	static const char mark[] = "\xE2\x96\x81";

	return n == 0 ? 0 : is_space(*s) ? 1 : n >= 3 && memcmp(s, mark, 3) == 0 ? 3 : 0;
}

static void
add_dense(Buf *out, const char *s, size_t n)
{
	for (size_t i = 0; i < n;)
	{
		size_t		skip = space_at(s + i, n - i);

		if (skip == 0)
			buf_addc(out, s[i++]);
		else
			i += skip;
	}
}

/*
 * The possible numbers of bytes at a text's end that some tokens cover: one number, or several if parts
 * of characters cover one to three bytes each.
 */
typedef struct LoglikelihoodEnds
{
	size_t		v[MAX_ENDS];
	int			n;
	bool		too_many;		/* there are more than MAX_ENDS: treat as no match */
} LoglikelihoodEnds;

static void
add_end(LoglikelihoodEnds *e, size_t v)
{
	for (int i = 0; i < e->n; i++)
		if (e->v[i] == v)
			return;
	if (e->n < MAX_ENDS)
		e->v[e->n++] = v;
	else
		e->too_many = true;
}

static size_t
ends_most(const LoglikelihoodEnds *e, bool least)
{
	size_t		v = e->v[0];

	ALWAYS(e->n > 0 && e->n <= MAX_ENDS);
	for (int i = 1; i < e->n; i++)
		v = (e->v[i] < v) == least ? e->v[i] : v;
	return v;
}

/* Prepend one more token to the tokens that cover the end.  Returns false if its text doesn't match. */
static bool
step_back(LoglikelihoodEnds *ends, const char *text, size_t n, const char *token, size_t len)
{
	while (len > 0 && ends->n > 0)
	{
		bool		part = len >= 3 && memcmp(token + len - 3, PART, 3) == 0;
		LoglikelihoodEnds next = {.n = 0};

		for (int i = 0; i < ends->n; i++)
		{
			size_t		end = ends->v[i];

			if (!part && end < n && text[n - end - 1] == token[len - 1])
				add_end(&next, end + 1);
			for (size_t k = 1; part && k <= 3 && end + k <= n && (unsigned char) text[n - end - k] >= 0x80;
				 k++)
				add_end(&next, end + k);
		}
		len -= part ? 3 : 1;
		if (next.too_many)
			next.n = 0;
		*ends = next;
	}
	return ends->n > 0;
}

/*
 * Return the first of the last tokens that cover the text's last `tail` bytes; it may begin before them.
 * -1: ambiguous or no match.
 */
static int
match_tail(const Toks *all, const char *text, size_t n, size_t tail)
{
	LoglikelihoodEnds ends = {.n = 1};

	for (int i = all->n; i-- > 0;)
	{
		size_t		before = ends_most(&ends, false);

		if (!step_back(&ends, text, n, all->bytes.data + all->t[i].at, all->t[i].len))
			return -1;
		if (ends_most(&ends, true) >= tail)
			return before < tail ? i : -1;
	}
	return -1;
}

/*
 * Like match_tail(), but ignore white space.  spaces: tokens of white space before the match belong to
 * it if it begins with white space.
 */
static int
match_dense_tail(const Toks *all, const char *text, size_t n, size_t tail, bool spaces)
{
	Toks		dense = {0};
	Buf			want = {0};
	size_t		head;
	int			i = -1;

	for (int k = 0; k < all->n; k++)
	{
		LoglikelihoodTok *t = add_tok(&dense);

		add_dense(&dense.bytes, all->bytes.data + all->t[k].at, all->t[k].len);
		t->len = dense.bytes.len - t->at;
	}
	buf_reserve(&dense.bytes, 1);
	add_dense(&want, text, n - tail);
	head = want.len;
	add_dense(&want, text + n - tail, tail);
	if (want.len > head)
		i = match_tail(&dense, want.data, want.len, want.len - head);
	if (i > 0 && spaces && is_space(text[n - tail]) && space_at(all->bytes.data + all->t[i].at,
																all->t[i].len) == 0)
		while (i > 0 && dense.t[i - 1].len == 0 && all->t[i - 1].len > 0)
			i--;
	toks_free(&dense);
	buf_free(&want);
	return i;
}

/*
 * Tokens without a text are parts of a character.  With vLLM these are the first parts, and the last
 * part has the whole text; with llama-cpp-python all parts are without text.  So those before the
 * choice's first token are parts of its first character, or of the character before.  Returns the first
 * token with its parts; -1: ambiguous.
 */
static int
with_parts(const Toks *all, int first, const char *text, size_t n, size_t tail)
{
	bool		mine = (unsigned char) text[n - tail] >= 0x80;
	bool		others = n > tail && (unsigned char) text[n - tail - 1] >= 0x80;
	int			i = first;

	while (i > 0 && all->t[i - 1].len == 0)
		i--;
	if (i == first || !mine)
		return first;
	return others ? -1 : i;
}

/*
 * Return the first token of the characters `from` to `to` by the reported offsets; -1: they are
 * inconsistent.  behind: the token that follows, whose offset ends the last one; NULL: none.
 */
static int
by_offsets(const Toks *all, const LoglikelihoodTok *following, int64_t from, int64_t to)
{
	int			first = -1;

	if (all->n == 0 || all->t[0].offset != 0)
		return -1;
	for (int i = 0; i < all->n; i++)
	{
		const LoglikelihoodTok *t = &all->t[i];
		const char *text = all->bytes.data + t->at;
		int64_t		next = i + 1 < all->n ? t[1].offset : following != NULL ? following->offset : to;

		if (t->offset < 0 || next < t->offset || next > to)
			return -1;
		if (t->len > 0 && memmem(text, t->len, PART, 3) == NULL && chars(text, t->len) != next - t->offset)
			return -1;
		if (first < 0 && next > from)
			first = i;
		if (i + 1 == all->n && next != to)
			return -1;
	}
	/* all parts of a character but the last one begin and end at its beginning */
	while (first > 0 && all->t[first - 1].offset >= from)
		first--;
	return first;
}

/* Find the choice's first token. */
static bool
find_choice(const DecodedReply *r, const RPart *p, const Toks *all, bool has_next, int *first, Err *e)
{
	const RequestFields *a = r->requests[0];
	StrView		choice = a->choices[p->call->part];
	size_t		n = a->prompt.n;
	size_t		tail;
	Buf			s = {0};

	while (n > 0 && is_space(a->prompt.s[n - 1]))
		n--;
	/* of a chat only the choice's own text is known: spaces before it belong to the template */
	buf_add(&s, a->prompt.s, a->prompt.n);
	buf_add(&s, choice.s, choice.n);
	tail = s.len - n;
	*first = match_tail(all, s.data, s.len, tail);
	if (*first < 0)
		*first = match_dense_tail(all, s.data, s.len, tail, a->prompt.s != NULL);
	if (*first > 0)
		*first = with_parts(all, *first, s.data, s.len, tail);
	if (*first < 0)
		*first = by_offsets(all, has_next ? &all->t[all->n] : NULL, chars(s.data, n), chars(s.data, s.len));
	buf_free(&s);
	return *first >= 0 || reply_bad(r, e, "has tokens that are not the text that was asked about");
}

/* ---- responses ---- */

static bool
take_tokens(DecodedReply *r, RPart *p, const Toks *all, bool has_next, Err *e)
{
	const RequestFields *a = r->requests[0];
	int			first = 1;

	/* the token that follows is all->t[all->n] */
	ALWAYS(all->n >= 0 && all->n + has_next <= all->cap);
	if (a->n_choices > 0 && !find_choice(r, p, all, has_next, &first, e))
		return false;
	/* the first token has no context, unless the endpoint reports a value for it */
	if (a->n_choices == 0 && all->n > 0 && all->t[0].has_value)
		first = 0;
	if (first >= all->n)
		return err_set(e, ERR_INVALID, "input has %s",
					   all->n == 0 ? "no tokens" : "one token, and none in front of it");
	p->greedy = true;
	for (int i = first; i < all->n; i++)
	{
		const LoglikelihoodTok *t = &all->t[i];

		if (!t->has_value && i == 0)
			return err_set(e, ERR_UNSUPPORTED,
						   "the endpoint of model \"%.64s\" does not report the log-probability of a text's "
						   "first token",
						   r->o->name);
		if (!t->has_value)
			return reply_bad(r, e, "has no log-probability of token %d", i);
		p->greedy = p->greedy && t->greedy;
		buf_add(&p->floats, &t->value, sizeof(float));
	}
	return true;
}

static bool
choose_whole(DecodedReply *r, RPart *p, StrView v, Err *e)
{
	static const char *const names[] = {"error", "choices", "usage", "prompt_logprobs"};
	static const char *const inner[] = {"logprobs", "prompt_logprobs"};
	StrView		f[4];
	StrView		c[2];
	StrView		choice;
	JsonMembers m;
	Toks		all = {0};
	bool		prompt;
	int			n_all;
	bool		ok;

	if (!json_fields(v, names, 4, f))
		return reply_bad(r, e, "is no object");
	if (f[0].s != NULL)
		return reply_refused(r, f[0], e);
	if (!reply_read_usage(f[2], &p->usage, e))
		return false;
	if (json_kind(f[1]) != '[' || !json_elements(&m, f[1].s, f[1].n) || json_element(&m, &choice) < 1 ||
		!json_fields(choice, inner, 2, c))
		return reply_bad(r, e, "has no choices");
	if (c[1].s == NULL)
		c[1] = f[3];
	prompt = json_kind(c[1]) == '[';
	if (!prompt && p->usage.completion < 0)
		return reply_bad(r, e, "does not say how many tokens were generated");
	buf_reserve(&all.bytes, 1);
	ok = prompt ? read_prompt(r, c[1], &all, e) : read_echo(r, c[0], &all, e);
	n_all = all.n;
	ok = ok && (prompt || leave_generated(r, p, &all, e));
	buf_reset(&p->floats);
	ok = ok && take_tokens(r, p, &all, all.n < n_all, e);
	toks_free(&all);
	return ok;
}

static void
add_usage(int64_t *to, int64_t n)
{
	if (n >= 0)
		*to = (*to > 0 ? *to : 0) + n;
}

static bool
choose_finish(DecodedReply *r, Err *e)
{
	IntVec		counts = {0};
	IntVec		greedy = {0};
	Buf			floats = {0};
	RUsage		u = {-1, -1, -1, -1};
	Buf			b = {0};
	WireOut		o = reply_out(&b);
	int			n = r->requests[0]->n_choices > 0 ? r->requests[0]->n_choices : 1;

	if (r->calls->n != n)
		return err_set(e, ERR_INTERNAL, "%d calls for %d choices", r->calls->n, n);
	for (int i = 0; i < n; i++)
	{
		/* in the order of the choices, whatever the order of the calls is */
		const RPart *p = NULL;

		for (int k = 0; k < n && p == NULL; k++)
			if (r->part[k].call->part == i)
				p = &r->part[k];
		/* encode_loglikelihood.c has made a call for each */
		ALWAYS(p != NULL && p->floats.len > 0);
		intvec_push(&counts, (int32_t) (p->floats.len / sizeof(float)));
		intvec_push(&greedy, p->greedy);
		buf_add(&floats, p->floats.data, p->floats.len);
		add_usage(&u.prompt, p->usage.prompt);
		add_usage(&u.completion, p->usage.completion);
		add_usage(&u.cached, p->usage.cached);
	}
	wire_put_ints(&o, WTAG_COUNTS, counts.data, counts.len);
	wire_put_ints(&o, WTAG_GREEDY, greedy.data, greedy.len);
	wire_put_floats(&o, WTAG_FLOATS, (const float *) floats.data, floats.len / sizeof(float));
	wire_put_int(&o, WTAG_ROWS, n);
	reply_put_usage(&o, &u);
	reply_accepted(r, 0, u.prompt);
	reply_done(r, 0, &b);
	intvec_free(&counts);
	intvec_free(&greedy);
	buf_free(&floats);
	buf_free(&b);
	return true;
}

const ReplyShape reply_choose = {.whole = choose_whole,.finish = choose_finish};
