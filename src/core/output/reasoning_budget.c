/*
 * reasoning_budget.c
 *	  Limit a model's reasoning tokens (reasoning_budget.h).
 *
 * Each token within the reasoning counts when it is sampled, since the beginning of an end tag may turn
 * out not to be one; the tokens of a complete tag are subtracted again.  If the model has written the
 * first tokens of an end tag itself, only the others are forced.
 *
 * In some formats the first text of an output is reasoning, whether a start tag precedes it or not.
 * There the budget counts from the first token on, including tokens that may become a start tag, and
 * with a budget of 0 the end tag comes at once.
 *
 * Owner: the request, on the step thread.  Tested by tests/unit/core/sample/test_reasoning_budget.c.
 */
#include "core/output/reasoning_budget.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

struct ReasoningBudget
{
	int			budget;
	IntVec		end;

	ReasonParser *parser;		/* NULL = the reasoning has ended */
	bool		emitted;		/* the parser has emitted reasoning for the current token */
	bool		at_once;		/* text without a start tag is reasoning */
	bool		within;			/* the reasoning has begun */
	int			n_waiting;		/* tokens that may belong to the reasoning or to a tag */
	int			n;				/* reasoning tokens */
	size_t		forced;			/* number of the end tag's tokens that exist; valid if `closing` */
	bool		closing;		/* the budget is used up, so the end tag is forced */
};

static void
sink(void *ctx, const ParseEvent *ev)
{
	ReasoningBudget *t = ctx;

	t->emitted = t->emitted || (ev->kind == PARSE_REASONING && ev->n > 0);
}

/* Return true if an output without a start tag begins with reasoning. */
static bool
begins_with_them(const ReasonFormat *f, const char *kwargs, size_t n_kwargs, ReasonAt at)
{
	ReasoningBudget probe = {0};
	ReasonParser *p = reason_parser_new(f, kwargs, n_kwargs, at, sink, &probe);

	reason_parser_feed(p, "x", 1);
	reason_parser_free(p);
	return probe.emitted;
}

static void
stop_reading(ReasoningBudget *t)
{
	reason_parser_free(t->parser);
	t->parser = NULL;
	t->closing = false;
	t->n_waiting = 0;
}

ReasoningBudget *
rbudget_new(const ReasonFormat *f, const char *kwargs, size_t n_kwargs, ReasonAt at, int budget,
			bool tag_only,
			 IntVec *end)
{
	ReasoningBudget *t = mem_zalloc(sizeof(*t));

	t->budget = budget;
	t->end = *end;
	*end = (IntVec) {0};
	t->parser = reason_parser_new(f, kwargs, n_kwargs, at, sink, t);
	if (tag_only)
		reason_parser_tag_only(t->parser);
	t->within = at == REASON_OPEN;
	t->at_once = t->within || begins_with_them(f, kwargs, n_kwargs, at);
	t->closing = t->at_once && budget == 0;
	if (reason_parser_stage(t->parser) == REASON_AFTER)
		stop_reading(t);
	return t;
}

ReasoningBudget *
rbudget_fork(const ReasoningBudget *t)
{
	ReasoningBudget *r = mem_alloc(sizeof(*r));

	*r = *t;
	r->end = (IntVec) {0};
	intvec_add(&r->end, t->end.data, t->end.len);
	if (t->parser != NULL)
		r->parser = reason_parser_fork(t->parser, sink, r);
	return r;
}

void
rbudget_free(ReasoningBudget *t)
{
	if (t == NULL)
		return;
	reason_parser_free(t->parser);
	intvec_free(&t->end);
	mem_free(t);
}

/* Return how many of the end tag's first tokens, but not all, are the last of ids[0..n). */
static size_t
end_begun(const ReasoningBudget *t, const int32_t *ids, size_t n)
{
	size_t		k = t->end.len <= n ? t->end.len - 1 : n;

	while (k > 0 && memcmp(ids + n - k, t->end.data, k * sizeof(int32_t)) != 0)
		k--;
	return k;
}

/* The last token has ended the reasoning: count the waiting tokens without the tag. */
static void
end_of_thoughts(ReasoningBudget *t, const int32_t *ids, size_t n)
{
	size_t		tag = t->end.len <= n && memcmp(ids + n - t->end.len, t->end.data,
												t->end.len * sizeof(int32_t)) == 0 ? t->end.len : 1;

	if ((t->within || t->emitted) && (size_t) t->n_waiting > tag)
		t->n += t->n_waiting - (int) tag;
	stop_reading(t);
}

void
rbudget_token(ReasoningBudget *t, const Tok *tok, const int32_t *ids, int n)
{
	size_t		len;
	const char *s;
	ReasonStage stage;

	if (t->parser == NULL)
		return;
	s = tok_piece(tok, ids[n - 1], &len);
	t->emitted = false;
	reason_parser_feed(t->parser, s, len);
	stage = reason_parser_stage(t->parser);
	t->n_waiting++;
	if (stage == REASON_AFTER)
		end_of_thoughts(t, ids, (size_t) n);
	else if (t->emitted)
	{
		/* not the forced tokens, which become the end tag */
		int			tag = t->closing && (int) t->forced + 1 < t->n_waiting ? (int) t->forced + 1 :
			t->closing ? t->n_waiting : 0;

		t->n += t->n_waiting - tag;
		t->n_waiting = tag;
		t->within = true;
	}
	else if (stage == REASON_WITHIN && !t->within)
	{
		t->n_waiting = 0;		/* these were the start tag */
		t->within = true;
	}
	if (t->parser == NULL)
		return;
	if (t->closing && ++t->forced == t->end.len)
		stop_reading(t);
	else if (!t->closing && (t->within || t->at_once) && t->budget >= 0 && t->n + t->n_waiting >= t->budget)
	{
		t->closing = true;
		t->forced = end_begun(t, ids, (size_t) n);
	}
}

bool
rbudget_limited(const ReasoningBudget *t)
{
	return t->budget >= 0;
}

int32_t
rbudget_forced(const ReasoningBudget *t)
{
	ALWAYS(!t->closing || t->forced < t->end.len);
	return t->closing ? t->end.data[t->forced] : -1;
}

int32_t
rbudget_highest_id(const ReasoningBudget *t)
{
	int32_t		most = -1;

	for (size_t i = 0; i < t->end.len; i++)
		most = t->end.data[i] > most ? t->end.data[i] : most;
	return most;
}

int
rbudget_count(const ReasoningBudget *t)
{
	/* at the end of a truncated output the waiting tokens are emitted as reasoning, too */
	return t->n + (t->parser != NULL && t->within ? t->n_waiting : 0);
}

/* Return the position of the last tag, counted from 1; 0 = there is none. */
static size_t
last_at(const int32_t *ids, size_t n, const IntVec *tag)
{
	for (size_t at = n; tag->len > 0 && at >= tag->len; at--)
		if (memcmp(ids + at - tag->len, tag->data, tag->len * sizeof(int32_t)) == 0)
			return at - tag->len + 1;
	return 0;
}

bool
rbudget_open(const int32_t *ids, size_t n, const IntVec *start, const IntVec *end)
{
	return last_at(ids, n, start) > last_at(ids, n, end);
}
