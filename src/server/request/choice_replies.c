/*
 * choice_replies.c
 *	  Requests with several choices or log-probabilities: fields of messages and replies.
 *
 * A reply of this kind is a list: the fields before the first INDEX are about the prompt, the fields
 * after an INDEX are about that choice.  Log-probabilities are arrays, parallel in all their entries:
 * LP_COUNTS has the number of entries of each position, its own token first.  The tokens' bytes are
 * concatenated in LP_BYTES, with their lengths in LP_LENGTHS.
 *
 *	not streamed	one final frame with everything
 *	streamed		a frame for each event: INDEX and the new TEXT and so on; a choice's last frame has its
 *					FINISH_REASON.  The final frame has the request's usage.
 *
 * Owner: the server call; used only by the thread that calls its sink.  Tested by
 * tests/unit/server/test_server_core.c and tests/sql/26_outputs.sql.
 */
#include "server/request/choice_replies.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "server/server_call.h"
#include "server/request/output_parsers.h"
#include "server/request/request_params.h"


typedef struct ChoiceReply
{
	Buf			text;
	Answer	   *parts;			/* splits the text, instead of `text`; NULL: text is not split */
	IntVec		ids;
	Logprobs   *lp;				/* NULL: not wanted */
	ReqFinish	ended;
	char	   *reason;			/* NULL: none */
	double		cum;
	double		score;
	bool		scored;			/* a beam, which has a score */
} ChoiceReply;

struct Replies
{
	const Backend *be;
	const BackendModel *in;
	/* the splitter that choices' splitters are copies of; NULL: text is not split */
	const Answer *parts;
	bool		want_ids;
	bool		has_prompt;
	IntVec		prompt;			/* valid if has_prompt */
	Logprobs   *prompt_lp;		/* NULL: not wanted, or not computed yet */
	ChoiceReply *a;
	int			n;
	int			cap;
};

/* ---- requests ---- */

bool
replies_field(OutParams *p, const WireField *f, bool *known, Err *e)
{
	*known = true;
	switch (f->tag)
	{
		case WTAG_LOGPROB_TOKEN_IDS:
			if (f->n > LOGPROB_MAX_IDS || p->logprob_ids.len > 0)
				return params_bad(e, "logprob_token_ids", "may have at most 128 elements");
			for (size_t i = 0; i < f->n; i++)
				intvec_push(&p->logprob_ids, wire_int_at(f, i));
			return true;
		default:
			*known = false;
			return true;
	}
}

bool
replies_wanted(const OutParams *p)
{
	return p->n > 1 || p->beam_width > 0 || p->logprobs != LOGPROBS_NONE ||
		p->prompt_logprobs != LOGPROBS_NONE || p->logprob_ids.len > 0;
}

/* ---- output of the choices ---- */

Replies *
replies_new(const Backend *be, const BackendModel *in, const IntVec *prompt, bool want_ids,
			const Answer *parts)
{
	Replies    *r = mem_zalloc(sizeof(*r));

	r->has_prompt = want_ids && prompt != NULL;
	if (r->has_prompt)
		intvec_add(&r->prompt, prompt->data, prompt->len);
	r->be = be;
	r->in = in;
	r->want_ids = want_ids;
	r->parts = parts;
	return r;
}

void
replies_free(Replies *r)
{
	if (r == NULL)
		return;
	for (int i = 0; i < r->n; i++)
	{
		buf_free(&r->a[i].text);
		answer_free(r->a[i].parts);
		intvec_free(&r->a[i].ids);
		logprobs_free(r->a[i].lp);
		mem_free(r->a[i].reason);
	}
	logprobs_free(r->prompt_lp);
	intvec_free(&r->prompt);
	mem_free(r->a);
	mem_free(r);
}

static ChoiceReply *
answer(Replies *r, int i)
{
	ALWAYS(i >= 0);
	if (i >= r->cap)
	{
		int			cap = 2 * r->cap > i + 1 ? 2 * r->cap : i + 1;

		r->a = mem_realloc(r->a, (size_t) cap * sizeof(ChoiceReply));
		memset(r->a + r->cap, 0, (size_t) (cap - r->cap) * sizeof(ChoiceReply));
		r->cap = cap;
	}
	if (i >= r->n)
		r->n = i + 1;
	return &r->a[i];
}

static void
add_logprobs(Logprobs **to, const Logprobs *from)
{
	if (from == NULL)
		return;
	if (*to == NULL)
		*to = logprobs_new();
	logprobs_append(*to, from);
}

/* Add a choice's new text, and its end. */
static void
take_text(const Replies *r, ChoiceReply *a, const ReqEvent *ev)
{
	if (r->parts == NULL)
	{
		buf_add(&a->text, ev->text, ev->text_len);
		return;
	}
	if (a->parts == NULL)
		a->parts = answer_fork(r->parts, ev->index);
	answer_feed(a->parts, ev->text, ev->text_len);
	if (ev->ended != FIN_NONE)
		answer_finish(a->parts);
}

void
replies_add(Replies *r, const ReqEvent *ev)
{
	ChoiceReply *a = answer(r, ev->index);

	take_text(r, a, ev);
	intvec_add(&a->ids, ev->ids, (size_t) ev->n_ids);
	add_logprobs(&r->prompt_lp, ev->prompt_logprobs);
	add_logprobs(&a->lp, ev->logprobs);
	a->ended = ev->ended;
	a->cum = ev->cum_logprob;
	if (ev->is_beam)
	{
		a->scored = true;
		a->score = ev->score;
	}
	if (ev->stop_reason != NULL && a->reason == NULL)
		a->reason = mem_strdup(ev->stop_reason);
}

/* ---- fields ---- */

static void
put_logprobs(const Replies *r, const Logprobs *lp, WireOut *o)
{
	IntVec		ids = {0};
	IntVec		ranks = {0};
	IntVec		lengths = {0};
	Buf			bytes = {0};
	float	   *values;

	if (lp == NULL)
		return;
	values = mem_alloc((lp->n + 1) * sizeof(float));
	for (size_t i = 0; i < lp->n; i++)
	{
		size_t		before = bytes.len;

		intvec_push(&ids, lp->e[i].id);
		intvec_push(&ranks, lp->e[i].rank);
		values[i] = lp->e[i].value;
		r->be->generator->piece(r->in, lp->e[i].id, &bytes);
		intvec_push(&lengths, (int32_t) (bytes.len - before));
	}
	wire_put_ints(o, WTAG_LP_COUNTS, lp->counts.data, lp->counts.len);
	wire_put_ints(o, WTAG_LP_IDS, ids.data, ids.len);
	wire_put_floats(o, WTAG_LP_VALUES, values, lp->n);
	wire_put_ints(o, WTAG_LP_RANKS, ranks.data, ranks.len);
	wire_put_ints(o, WTAG_LP_LENGTHS, lengths.data, lengths.len);
	wire_put_str(o, WTAG_LP_BYTES, bytes.data != NULL ? bytes.data : "", bytes.len);
	mem_free(values);
	intvec_free(&ids);
	intvec_free(&ranks);
	intvec_free(&lengths);
	buf_free(&bytes);
}

static void
put_end(ReqFinish ended, const char *reason, const Answer *parts, WireOut *o)
{
	const char *name = finish_name(ended);

	if (name == NULL)
		name = "abort";			/* the request fails, too */
	else if (parts != NULL && answer_calls_tools(parts, ended == FIN_LENGTH))
		name = "tool_calls";
	wire_put_str(o, WTAG_FINISH_REASON, name, strlen(name));
	if (reason != NULL)
		wire_put_str(o, WTAG_STOP_REASON, reason, strlen(reason));
}

void
replies_put(const Replies *r, WireOut *o)
{
	if (r->has_prompt)
		wire_put_ints(o, WTAG_PROMPT_IDS, r->prompt.data, r->prompt.len);
	put_logprobs(r, r->prompt_lp, o);
	for (int i = 0; i < r->n; i++)
	{
		const ChoiceReply *a = &r->a[i];

		wire_put_int(o, WTAG_INDEX, i);
		if (a->parts != NULL)
			parsing_put(a->parts, o);
		else
			wire_put_str(o, WTAG_TEXT, a->text.len > 0 ? a->text.data : "", a->text.len);
		if (r->want_ids)
			wire_put_ints(o, WTAG_TOKEN_IDS, a->ids.data, a->ids.len);
		put_logprobs(r, a->lp, o);
		if (a->lp != NULL || a->scored)
			wire_put_num(o, WTAG_CUM_LOGPROB, a->cum);
		if (a->scored)
			wire_put_num(o, WTAG_SCORE, a->score);
		put_end(a->ended, a->reason, a->parts, o);
	}
}

bool
replies_put_event(Replies *r, const ReqEvent *ev, WireOut *o)
{
	ChoiceReply *a = r->parts != NULL ? answer(r, ev->index) : NULL;

	if (a != NULL)
		take_text(r, a, ev);
	if ((a != NULL ? !parsing_has(a->parts) : ev->text_len == 0) && ev->logprobs == NULL &&
		ev->prompt_logprobs == NULL && ev->ended == FIN_NONE && !(r->want_ids && ev->n_ids > 0))
		return false;
	put_logprobs(r, ev->prompt_logprobs, o);
	wire_put_int(o, WTAG_INDEX, ev->index);
	if (a != NULL)
		parsing_put(a->parts, o);
	else
		wire_put_str(o, WTAG_TEXT, ev->text_len > 0 ? ev->text : "", ev->text_len);
	if (r->want_ids)
		wire_put_ints(o, WTAG_TOKEN_IDS, ev->ids, (size_t) ev->n_ids);
	put_logprobs(r, ev->logprobs, o);
	if (ev->ended == FIN_NONE)
		return true;
	if (ev->logprobs != NULL || ev->is_beam)
		wire_put_num(o, WTAG_CUM_LOGPROB, ev->cum_logprob);
	if (ev->is_beam)
		wire_put_num(o, WTAG_SCORE, ev->score);
	put_end(ev->ended, ev->stop_reason, a != NULL ? a->parts : NULL, o);
	return true;
}
