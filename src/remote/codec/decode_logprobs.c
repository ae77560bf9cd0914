/*
 * decode_logprobs.c
 *	  Log-probabilities in the formats of endpoints, converted to the arrays of frames (decode.h).
 *
 *	completions		{"tokens": [...], "token_logprobs": [...], "top_logprobs": [{token: value, ...}, ...]}
 *	chats			{"content": [{"token", "logprob", "bytes", "top_logprobs": [{...}]}, ...]}
 *	prompts			vLLM's [null, {id: {"logprob", "rank", "decoded_token"}, ...}, ...]
 *
 * A position's own token comes first, the others by value.  Endpoints report a token's text, except for
 * vLLM's "token_id:123", and no ranks: the rank of one of the k most likely tokens is its place among
 * them.  An unknown id or rank is -1.
 *
 * Tested by tests/unit/remote/codec/test_remote_reply.c.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "remote/codec/decode_internal.h"

#define UNKNOWN (-1)

/* One entry of the position that is being read. */
typedef struct DecodeLogprobsEntry
{
	int			place;			/* index in the response */
	int32_t		id;
	int32_t		rank;
	float		value;
	size_t		at,				/* offset of its text in Position.bytes */
				len;
} DecodeLogprobsEntry;

typedef struct Position
{
	DecodeLogprobsEntry *e;
	int			n;
	int			cap;
	Buf			bytes;
} Position;

/* ---- lists ---- */

void
lps_free(Lps *l)
{
	intvec_free(&l->counts);
	intvec_free(&l->ids);
	intvec_free(&l->ranks);
	intvec_free(&l->lengths);
	buf_free(&l->values);
	buf_free(&l->bytes);
}

void
lps_reset(Lps *l)
{
	intvec_reset(&l->counts);
	intvec_reset(&l->ids);
	intvec_reset(&l->ranks);
	intvec_reset(&l->lengths);
	buf_reset(&l->values);
	buf_reset(&l->bytes);
}

bool
lps_any(const Lps *l)
{
	return l->counts.len > 0;
}

void
lps_put(const Lps *l, WireOut *o)
{
	if (l->counts.len == 0)
		return;
	ALWAYS(l->values.len == l->ids.len * sizeof(float));
	ASSERT(l->ranks.len == l->ids.len && l->lengths.len == l->ids.len);
	wire_put_ints(o, WTAG_LP_COUNTS, l->counts.data, l->counts.len);
	wire_put_ints(o, WTAG_LP_IDS, l->ids.data, l->ids.len);
	wire_put_floats(o, WTAG_LP_VALUES, (const float *) l->values.data, l->ids.len);
	wire_put_ints(o, WTAG_LP_RANKS, l->ranks.data, l->ranks.len);
	wire_put_ints(o, WTAG_LP_LENGTHS, l->lengths.data, l->lengths.len);
	wire_put_str(o, WTAG_LP_BYTES, l->bytes.data != NULL ? l->bytes.data : "", l->bytes.len);
}

/* ---- one position ---- */

static void
position_free(Position *p)
{
	mem_free(p->e);
	buf_free(&p->bytes);
}

static DecodeLogprobsEntry *
add_entry(Position *p)
{
	if (p->n == p->cap)
	{
		p->cap = p->cap == 0 ? 32 : 2 * p->cap;
		p->e = mem_realloc(p->e, (size_t) p->cap * sizeof(DecodeLogprobsEntry));
	}
	p->e[p->n] = (DecodeLogprobsEntry) {.place = p->n,.id = UNKNOWN,.rank = UNKNOWN,.at = p->bytes.len};
	return &p->e[p->n++];
}

/* Return the number of "token_id:123"; -1: another text. */
static int32_t
token_id(const char *s, size_t n)
{
	static const char head[] = "token_id:";
	int64_t		id = 0;

	if (n <= strlen(head) || n > strlen(head) + 10 || memcmp(s, head, strlen(head)) != 0)
		return UNKNOWN;
	for (size_t i = strlen(head); i < n; i++)
	{
		if (s[i] < '0' || s[i] > '9')
			return UNKNOWN;
		id = id * 10 + (s[i] - '0');
	}
	return id > INT32_MAX ? UNKNOWN : (int32_t) id;
}

/* Read a token's bytes: those that are reported, or else its text. */
static bool
read_token(const DecodedReply *r, Position *p, DecodeLogprobsEntry *en, StrView token, StrView bytes,
		   Err *e)
{
	JsonMembers m;
	StrView		b;
	int64_t		v;

	if (json_kind(token) != '"' || !json_text(token, &p->bytes))
	{
		/* U+0000 is a token like others */
		if (json_kind(token) != '"')
			return reply_bad(r, e, "has a log-probability without a token");
		p->bytes.len = en->at;
	}
	en->id = p->bytes.len > en->at ? token_id(p->bytes.data + en->at, p->bytes.len - en->at) : UNKNOWN;
	if (en->id >= 0)
		p->bytes.len = en->at;
	else if (json_kind(bytes) == '[' && json_elements(&m, bytes.s, bytes.n))
	{
		p->bytes.len = en->at;
		while (json_element(&m, &b) > 0)
		{
			if (!json_whole(b, 0, 255, &v))
				return reply_bad(r, e, "has a token whose bytes are none");
			buf_addc(&p->bytes, (char) v);
		}
	}
	en->len = p->bytes.len - en->at;
	return true;
}

static bool
read_value(const DecodedReply *r, StrView v, float *out, Err *e)
{
	double		x;

	if (!json_num(v, &x) || !isfinite((float) x))
		return reply_bad(r, e, "has a log-probability that is no finite number");
	*out = (float) x;
	return true;
}

static int
more_likely(const void *a, const void *b)
{
	const DecodeLogprobsEntry *x = a;
	const DecodeLogprobsEntry *y = b;

	if (x->value != y->value)
		return x->value > y->value ? -1 : 1;
	return x->place - y->place;
}

static bool
same_token(const Position *p, const DecodeLogprobsEntry *a, const DecodeLogprobsEntry *b)
{
	if (a->id >= 0 && b->id >= 0)
		return a->id == b->id;
	return a->len == b->len && memcmp(p->bytes.data + a->at, p->bytes.data + b->at, a->len) == 0;
}

/*
 * Is this a token without a text of its own: a part of a character, which servers write as U+FFFD, or
 * leave out?
 */
static bool
is_nameless(const Position *p, const DecodeLogprobsEntry *en)
{
	return en->id < 0 && (en->len == 0 || memmem(p->bytes.data + en->at, en->len, "\xEF\xBF\xBD", 3) != NULL);
}

/*
 * Are the places of the most likely tokens their ranks?  Not if some are missing.  In an object with
 * texts as keys (by_text), two tokens with the same text are one member, so with tokens without a text
 * the ranks are unknown.
 */
static bool
ranks_are_sure(const Position *p, int n_top, bool by_text)
{
	for (int i = 0; by_text && i < p->n; i++)
		if (is_nameless(p, &p->e[i]))
			return false;
	return n_top != 0 && (n_top < 0 || p->n > n_top);
}

/*
 * The position's own token is e[0]; the other entries are the reported top tokens, perhaps with the own
 * one among them.  If k top tokens were asked for, the first k by value have their places as ranks.
 */
static void
rank_entries(Position *p, int n_top, bool by_text)
{
	bool		sure = ranks_are_sure(p, n_top, by_text);
	int			own = 0;

	for (int i = 1; i < p->n && own == 0; i++)
		if (p->e[i].value == p->e[0].value && same_token(p, &p->e[0], &p->e[i]))
			own = i;
	qsort(p->e + 1, p->n > 0 ? (size_t) p->n - 1 : 0, sizeof(DecodeLogprobsEntry), more_likely);
	for (int i = 1; sure && i < p->n && (n_top < 0 || i <= n_top); i++)
		p->e[i].rank = i;
	for (int i = 1; i < p->n && own > 0; i++)
		if (p->e[i].place == own)
		{
			p->e[0].rank = p->e[i].rank;
			if (p->e[0].id < 0)
				p->e[0].id = p->e[i].id;
			memmove(p->e + i, p->e + i + 1, (size_t) (p->n - i - 1) * sizeof(DecodeLogprobsEntry));
			p->n--;
			break;
		}
}

static bool
add_position(const DecodedReply *r, Lps *l, const Position *p, Err *e)
{
	if (l->ids.len + (size_t) p->n > REPLY_MAX_ENTRIES)
		return reply_bad(r, e, "has more than %d log-probabilities", REPLY_MAX_ENTRIES);
	for (int i = 0; i < p->n; i++)
	{
		const DecodeLogprobsEntry *en = &p->e[i];

		intvec_push(&l->ids, en->id);
		intvec_push(&l->ranks, en->rank);
		intvec_push(&l->lengths, (int32_t) en->len);
		buf_add(&l->values, &en->value, sizeof(float));
		if (en->len > 0)
			buf_add(&l->bytes, p->bytes.data + en->at, en->len);
	}
	intvec_push(&l->counts, p->n);
	l->n++;
	if (p->n > 0)
		l->cum += (double) p->e[0].value;
	return true;
}

/*
 * Set the ids of the own tokens of the positions from `first` on, if ids has as many.  A position's
 * first entry is its own token.
 */
static void
set_own_ids(Lps *l, size_t first, const IntVec *ids)
{
	size_t		at = l->ids.len;

	if (ids == NULL || ids->len != l->counts.len - first)
		return;
	for (size_t i = ids->len; i-- > 0;)
	{
		size_t		n = (size_t) l->counts.data[first + i];

		/* each position has its own token */
		ALWAYS(n > 0 && n <= at);
		at -= n;
		l->ids.data[at] = ids->data[i];
	}
}

bool
reply_read_ids(const DecodedReply *r, StrView v, const char *what, IntVec *out, Err *e)
{
	JsonMembers m;
	StrView		id;
	int64_t		x;

	if (json_kind(v) != '[' || !json_elements(&m, v.s, v.n))
		return reply_bad(r, e, "has no list of %s", what);
	while (json_element(&m, &id) > 0)
	{
		if (!json_whole(id, 0, INT32_MAX, &x))
			return reply_bad(r, e, "has %s that are no numbers of tokens", what);
		intvec_push(out, (int32_t) x);
	}
	return true;
}

/* ---- completions ---- */

/* Read {token: value, ...}, or null. */
static bool
read_top(const DecodedReply *r, Position *p, StrView v, Err *e)
{
	JsonMembers m;
	StrView		key;
	StrView		value;

	if (json_kind(v) == 'n')
		return true;
	if (json_kind(v) != '{' || !json_members(&m, v.s, v.n))
		return reply_bad(r, e, "has top_logprobs that are no object");
	while (json_member(&m, &key, &value) > 0)
	{
		DecodeLogprobsEntry *en = add_entry(p);

		if (!read_token(r, p, en, (StrView) {key.s - 1, key.n + 2}, (StrView) {NULL, 0}, e) ||
			!read_value(r, value, &en->value, e))
			return false;
	}
	return true;
}

/* Iterates over three lists.  next_of() returns false at the end, or with *e after an error. */
typedef struct Lists
{
	JsonMembers tokens,
				values,
				top;
	bool		has_top;
	bool		bad;
} Lists;

static bool
next_of(Lists *l, StrView *token, StrView *value, StrView *top)
{
	bool		more = json_element(&l->tokens, token) > 0;

	*top = (StrView) {NULL, 0};
	l->bad = (json_element(&l->values, value) > 0) != more ||
		(l->has_top && (json_element(&l->top, top) > 0) != more);
	return more && !l->bad;
}

bool
lps_completion(const DecodedReply *r, Lps *l, StrView v, const IntVec *ids, int n_top, Err *e)
{
	static const char *const names[] = {"tokens", "token_logprobs", "top_logprobs"};
	StrView		f[3];
	Lists		lists = {.bad = false};
	StrView		token;
	StrView		value;
	StrView		top;
	Position	p = {0};
	size_t		first = l->counts.len;
	bool		ok = true;

	json_fields(v, names, 3, f);
	if (json_kind(f[0]) != '[' || json_kind(f[1]) != '[')
		return reply_bad(r, e, "has logprobs without tokens and their values");
	json_elements(&lists.tokens, f[0].s, f[0].n);
	json_elements(&lists.values, f[1].s, f[1].n);
	lists.has_top = json_kind(f[2]) == '[' && json_elements(&lists.top, f[2].s, f[2].n);
	while (ok && next_of(&lists, &token, &value, &top))
	{
		DecodeLogprobsEntry *own;

		p.n = 0;
		buf_reset(&p.bytes);
		own = add_entry(&p);
		ok = read_token(r, &p, own, token, (StrView) {NULL, 0}, e) && read_value(r, value, &own->value, e) &&
			read_top(r, &p, top, e);
		if (ok)
		{
			rank_entries(&p, n_top, true);
			ok = add_position(r, l, &p, e);
		}
	}
	position_free(&p);
	if (ok && lists.bad)
		return reply_bad(r, e, "has logprobs whose lists differ in length");
	if (ok)
		set_own_ids(l, first, ids);
	return ok;
}

/* ---- chats ---- */

static const char *const chat_names[] = {"token", "logprob", "bytes", "top_logprobs"};

static bool
read_chat_entry(const DecodedReply *r, Position *p, StrView v, StrView *top, Err *e)
{
	StrView		f[4];
	DecodeLogprobsEntry *en = add_entry(p);
	bool		ok = json_fields(v, chat_names, 4, f);

	*top = f[3];
	return (ok || reply_bad(r, e, "has a log-probability that is no object")) &&
		read_token(r, p, en, f[0], f[2], e) && read_value(r, f[1], &en->value, e);
}

static bool
read_chat_position(const DecodedReply *r, Position *p, StrView v, Err *e)
{
	JsonMembers m;
	StrView		top;
	StrView		more;
	StrView		none;

	p->n = 0;
	buf_reset(&p->bytes);
	if (!read_chat_entry(r, p, v, &top, e))
		return false;
	if (json_kind(top) == 'n')
		return true;
	if (json_kind(top) != '[' || !json_elements(&m, top.s, top.n))
		return reply_bad(r, e, "has top_logprobs that are no list");
	while (json_element(&m, &more) > 0)
		if (!read_chat_entry(r, p, more, &none, e))
			return false;
	return true;
}

bool
lps_chat(const DecodedReply *r, Lps *l, StrView v, const IntVec *ids, int n_top, Err *e)
{
	static const char *const names[] = {"content"};
	StrView		f[1];
	StrView		token;
	JsonMembers m;
	Position	p = {0};
	size_t		first = l->counts.len;
	bool		ok = true;

	if (!json_fields(v, names, 1, f))
		return reply_bad(r, e, "has logprobs that are no object");
	if (json_kind(f[0]) == 'n')
		return true;
	if (json_kind(f[0]) != '[' || !json_elements(&m, f[0].s, f[0].n))
		return reply_bad(r, e, "has logprobs without a list of tokens");
	while (ok && json_element(&m, &token) > 0)
	{
		ok = read_chat_position(r, &p, token, e);
		if (ok)
		{
			rank_entries(&p, n_top, false);
			ok = add_position(r, l, &p, e);
		}
	}
	position_free(&p);
	if (ok)
		set_own_ids(l, first, ids);
	return ok;
}

/* ---- prompts ---- */

static bool
read_prompt_position(const DecodedReply *r, Position *p, StrView v, Err *e)
{
	static const char *const names[] = {"logprob", "rank", "decoded_token"};
	JsonMembers m;
	StrView		key;
	StrView		value;
	StrView		f[3];
	int64_t		rank;

	p->n = 0;
	buf_reset(&p->bytes);
	if (json_kind(v) == 'n')
		return true;
	if (json_kind(v) != '{' || !json_members(&m, v.s, v.n))
		return reply_bad(r, e, "has prompt_logprobs that are no objects");
	while (json_member(&m, &key, &value) > 0)
	{
		DecodeLogprobsEntry *en = add_entry(p);
		int64_t		id;

		if (!json_whole((StrView) {key.s, key.n}, 0, INT32_MAX, &id) || !json_fields(value, names, 3, f))
			return reply_bad(r, e, "has prompt_logprobs that are not those of token ids");
		if (!read_value(r, f[0], &en->value, e))
			return false;
		if (f[2].s != NULL && !read_token(r, p, en, f[2], (StrView) {NULL, 0}, e))
			return false;
		en->id = (int32_t) id;
		if (json_kind(f[1]) != 'n' && !json_whole(f[1], 1, INT32_MAX, &rank))
			return reply_bad(r, e, "has a rank that is none");
		en->rank = f[1].s != NULL ? (int32_t) rank : UNKNOWN;
	}
	return true;
}

static int
by_rank(const void *a, const void *b)
{
	const DecodeLogprobsEntry *x = a;
	const DecodeLogprobsEntry *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return more_likely(a, b);
}

bool
lps_prompt(const DecodedReply *r, Lps *l, StrView v, const IntVec *ids, Err *e)
{
	JsonMembers m;
	StrView		position;
	Position	p = {0};
	bool		ok = json_elements(&m, v.s, v.n) || reply_bad(r, e, "has prompt_logprobs that are no list");

	for (size_t i = 0; ok && json_element(&m, &position) > 0; i++)
	{
		ok = read_prompt_position(r, &p, position, e);
		/* the prompt's own token: its id is known, or it comes first */
		for (int k = 1; ok && ids != NULL && i < ids->len && k < p.n; k++)
			if (p.e[k].id == ids->data[i])
			{
				DecodeLogprobsEntry own = p.e[k];

				p.e[k] = p.e[0];
				p.e[0] = own;
				break;
			}
		if (ok && p.n > 1)
			qsort(p.e + 1, (size_t) p.n - 1, sizeof(DecodeLogprobsEntry), by_rank);
		ok = ok && add_position(r, l, &p, e);
	}
	position_free(&p);
	return ok;
}
