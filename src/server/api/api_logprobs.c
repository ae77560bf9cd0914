/*
 * api_logprobs.c
 *	  The choices of a reply, and log-probabilities in the formats of the interfaces.
 *
 * A reply is a list of fields (choice_replies.c): the prompt's, then after each INDEX those of a choice.
 * A position's entries begin with its own token; the top tokens follow.
 *
 * Tested by tests/unit/server/api/test_api.c and tests/sql/30_bodies.sql.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "server/api/api_internal.h"

#define LEAST	(-9999.0f)		/* written instead of minus infinity */

/* ---- choices ---- */

static bool
entries_field(ApiEntries *e, const WireField *f)
{
	WireField  *to = f->tag == WTAG_LP_COUNTS ? &e->counts : f->tag == WTAG_LP_IDS ? &e->ids :
		f->tag == WTAG_LP_RANKS ? &e->ranks : f->tag == WTAG_LP_VALUES ? &e->values :
		f->tag == WTAG_LP_LENGTHS ? &e->lengths : f->tag == WTAG_LP_BYTES ? &e->bytes : NULL;

	if (to != NULL)
		*to = *f;
	return to != NULL;
}

static void
answer_field(ApiAnswer *a, const WireField *f)
{
	switch (f->tag)
	{
		case WTAG_TEXT:
			a->text = (StrView) {f->s, f->n};
			break;
		case WTAG_REASONING:
			a->reasoning = (StrView) {f->s, f->n};
			break;
		case WTAG_TOOL_CALLS:
			a->tool_calls = (StrView) {f->s, f->n};
			break;
		case WTAG_CALLS_AT:
			a->calls_at = *f;
			break;
		case WTAG_TOKEN_IDS:
			a->ids = *f;
			break;
		case WTAG_FINISH_REASON:
			a->finish_reason = (StrView) {f->s, f->n};
			break;
		case WTAG_STOP_REASON:
			a->stop_reason = (StrView) {f->s, f->n};
			break;
		default:
			(void) entries_field(&a->entries, f);
			break;
	}
}

void
apianswers_read(ApiAnswers *r, const char *fields, size_t n)
{
	WireIn		in = {.p = fields,.end = fields + n};
	WireField	f;

	memset(r, 0, sizeof(*r));
	while (wire_next(&in, &f) > 0)
	{
		if (f.tag == WTAG_INDEX)
		{
			r->a = mem_realloc(r->a, (size_t) (r->n + 1) * sizeof(ApiAnswer));
			memset(&r->a[r->n], 0, sizeof(ApiAnswer));
			r->a[r->n++].index = (int) f.i;
		}
		else if (r->n > 0)
			answer_field(&r->a[r->n - 1], &f);
		else
			(void) entries_field(&r->prompt, &f);
	}
}

void
apianswers_free(ApiAnswers *r)
{
	mem_free(r->a);
}

/* ---- entries ---- */

typedef struct ApiModelEntry
{
	int32_t		id;
	int			rank;
	float		value;
	const char *s;
	size_t		n;
} ApiModelEntry;

/* The entries of each position: position p has first[p] .. first[p + 1] - 1. */
typedef struct Positions
{
	int			n;
	size_t	   *first;
	ApiModelEntry *e;
} Positions;

static void
positions_free(Positions *p)
{
	mem_free(p->first);
	mem_free(p->e);
}

/* Read the arrays; if they don't match each other, there is no position. */
static void
positions_read(Positions *p, const ApiEntries *e)
{
	size_t		n = e->ids.n;
	const char *bytes = e->bytes.s != NULL ? e->bytes.s : "";
	size_t		at = 0;
	float	   *values = mem_alloc((n + 1) * sizeof(float));

	memset(p, 0, sizeof(*p));
	p->first = mem_zalloc((e->counts.n + 1) * sizeof(size_t));
	p->e = mem_zalloc((n + 1) * sizeof(ApiModelEntry));
	for (size_t i = 0; i < e->counts.n; i++)
		p->first[i + 1] = p->first[i] + (size_t) (wire_int_at(&e->counts, i) > 0
												  ? wire_int_at(&e->counts, i) : 0);
	if (p->first[e->counts.n] == n && e->ranks.n == n && e->values.n == n && e->lengths.n == n)
		p->n = (int) e->counts.n;
	if (p->n > 0 && n > 0)
		wire_floats(&e->values, values);
	for (size_t i = 0; i < n && p->n > 0; i++)
	{
		size_t		len = (size_t) (wire_int_at(&e->lengths, i) > 0 ? wire_int_at(&e->lengths, i) : 0);

		ASSERT(at <= e->bytes.n);
		if (at + len > e->bytes.n)
			len = e->bytes.n - at;
		p->e[i] = (ApiModelEntry) {wire_int_at(&e->ids, i), wire_int_at(&e->ranks, i), values[i],
								   bytes + at, len};
		at += len;
	}
	mem_free(values);
}

static void
write_value(JsonOut *j, float v)
{
	json_float(j, v > LEAST ? v : LEAST);
}

/* Write the token's text, or with as_ids "token_id:123". */
static void
write_token(JsonOut *j, const ApiModelEntry *e, bool as_ids)
{
	char		text[32];

	if (!as_ids)
	{
		json_str(j, e->s, e->n);
		return;
	}
	snprintf(text, sizeof(text), "token_id:%" PRId32, e->id);
	json_cstr(j, text);
}

static int64_t
count_chars(const char *s, size_t n)
{
	int64_t		chars = 0;

	for (size_t i = 0; i < n; i++)
		chars += (s[i] & 0xC0) != 0x80;
	return chars;
}

/* ---- /v1/completions ---- */

static void
write_top(JsonOut *j, const Positions *p, int i, bool as_ids)
{
	if (p->first[i + 1] == p->first[i])
	{
		json_null(j);
		return;
	}
	json_open(j, '{');
	for (size_t k = p->first[i]; k < p->first[i + 1]; k++)
	{
		/* the own token may be among the top tokens, and two tokens may have the same text */
		write_token(j, &p->e[k], as_ids);
		json_colon(j);
		write_value(j, p->e[k].value);
	}
	json_close(j, '}');
}

/*
 * Count the characters of a text as it is displayed: each byte at its beginning that continues no
 * character counts as one.
 */
static int64_t
count_shown(StrView t)
{
	size_t		stray = 0;

	while (stray < t.n && (t.s[stray] & 0xC0) == 0x80)
		stray++;
	return (int64_t) stray + count_chars(t.s, t.n);
}

/* Return a position's own token.  Of the first token of a prompt only `first` and first_id are known. */
static ApiModelEntry
own_token(const Positions *p, int i, StrView first, int32_t first_id)
{
	return p->first[i + 1] > p->first[i] ? p->e[p->first[i]] :
		(ApiModelEntry) {.id = first_id,.s = first.s,.n = first.n};
}

/*
 * A prompt that was cut within a character begins with bytes of it that are no character.  Each of them
 * is a U+FFFD in the echo: return how many follow the first token.
 */
static int64_t
count_stray(const Positions *p, StrView echo, StrView first)
{
	int64_t		n = count_shown(echo) - count_shown(first);
	bool		replaced = echo.n >= 3 && memcmp(echo.s, "\xEF\xBF\xBD", 3) == 0;

	if (!replaced && count_shown(echo) == count_chars(echo.s, echo.n))
		return 0;
	for (int i = 1; i < p->n; i++)
	{
		ApiModelEntry e = own_token(p, i, first, 0);

		n -= count_chars(e.s, e.n);
	}
	return n > 0 ? n : 0;
}

/*
 * Return how many characters the echo has for a token's text.  *stray: remaining bytes that are shown as
 * characters of their own.
 */
static int64_t
chars_of(const ApiModelEntry *e, int64_t *stray)
{
	int64_t		n = count_chars(e->s, e->n);

	for (size_t i = 0; i < e->n && *stray > 0; i++)
	{
		if ((e->s[i] & 0xC0) != 0x80)
			*stray = 0;
		else
		{
			n++;
			--*stray;
		}
	}
	return n;
}

/* Write one of the four lists; what: 0 tokens, 1 their values, 2 top tokens, 3 offsets. */
static void
write_list(JsonOut *j, const Positions *p, int what, bool as_ids, int64_t *offset, int64_t stray,
		   StrView first, int32_t first_id)
{
	for (int i = 0; i < p->n; i++)
	{
		bool		own = p->first[i + 1] > p->first[i];
		ApiModelEntry e = own_token(p, i, first, first_id);

		if (what == 0)
			write_token(j, &e, as_ids);
		else if (what == 1 && own)
			write_value(j, e.value);
		else if (what == 1)
			json_null(j);
		else if (what == 2)
			write_top(j, p, i, as_ids);
		else
		{
			json_int(j, *offset);
			*offset += own ? chars_of(&e, &stray) : count_shown(first);
		}
	}
}

void
api_write_completion_logprobs(JsonOut *j, const ApiEntries *prompt, StrView echo, StrView first,
							  int32_t first_id, const ApiEntries *e, bool as_ids, int64_t *offset)
{
	static const char *const names[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
	Positions	p = {0};
	Positions	q;

	if (prompt != NULL)
		positions_read(&p, prompt);
	positions_read(&q, e);
	json_open(j, '{');
	for (int what = 0; what < 4; what++)
	{
		json_key(j, names[what]);
		json_open(j, '[');
		write_list(j, &p, what, as_ids, offset, count_stray(&p, echo, first), first, first_id);
		write_list(j, &q, what, as_ids, offset, 0, first, first_id);
		json_close(j, ']');
	}
	json_close(j, '}');
	positions_free(&p);
	positions_free(&q);
}

/* Write [null, {"ID": {"logprob": ..., "rank": ..., "decoded_token": ...}}, ...]. */
void
api_write_prompt_logprobs(JsonOut *j, const ApiEntries *prompt)
{
	Positions	p;
	char		id[16];

	positions_read(&p, prompt);
	json_open(j, '[');
	for (int i = 0; i < p.n; i++)
	{
		if (p.first[i + 1] == p.first[i])
		{
			json_null(j);
			continue;
		}
		json_open(j, '{');
		for (size_t k = p.first[i]; k < p.first[i + 1]; k++)
		{
			snprintf(id, sizeof(id), "%" PRId32, p.e[k].id);
			json_key(j, id);
			json_open(j, '{');
			json_key(j, "logprob");
			write_value(j, p.e[k].value);
			json_key_int(j, "rank", p.e[k].rank);
			json_key(j, "decoded_token");
			json_str(j, p.e[k].s, p.e[k].n);
			json_close(j, '}');
		}
		json_close(j, '}');
	}
	json_close(j, ']');
	positions_free(&p);
}

/* ---- /v1/chat/completions ---- */

/* Write "token", "logprob", "bytes". */
static void
write_chat_token(JsonOut *j, const ApiModelEntry *e, bool as_ids)
{
	json_key(j, "token");
	write_token(j, e, as_ids);
	json_key(j, "logprob");
	write_value(j, e->value);
	json_key(j, "bytes");
	json_open(j, '[');
	for (size_t i = 0; i < e->n; i++)
		json_int(j, (unsigned char) e->s[i]);
	json_close(j, ']');
}

void
api_write_token_logprobs(JsonOut *j, const ApiEntries *entries, int top, bool as_ids)
{
	Positions	p;

	positions_read(&p, entries);
	json_open(j, '[');
	for (int i = 0; i < p.n; i++)
	{
		if (p.first[i + 1] == p.first[i])
			continue;
		json_open(j, '{');
		write_chat_token(j, &p.e[p.first[i]], as_ids);
		json_key(j, "top_logprobs");
		json_open(j, '[');
		for (size_t k = p.first[i]; k < p.first[i + 1]; k++)
		{
			if (top >= 0 && p.e[k].rank > top)
				continue;		/* the own token, which is not one of the top tokens */
			json_open(j, '{');
			write_chat_token(j, &p.e[k], as_ids);
			json_close(j, '}');
		}
		json_close(j, ']');
		json_close(j, '}');
	}
	json_close(j, ']');
	positions_free(&p);
}

void
api_write_chat_logprobs(JsonOut *j, const ApiEntries *entries, int top, bool as_ids)
{
	json_open(j, '{');
	json_key(j, "content");
	api_write_token_logprobs(j, entries, top, as_ids);
	json_key_null(j, "refusal");
	json_close(j, '}');
}
