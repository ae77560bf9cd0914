/*
 * stop_check.c
 *	  Process a new token of a request: does it end the request, and which text does it add?
 *
 * Order of evaluation (docs/user/sampling.md, "Stop conditions"), for the newest token of r->tokens:
 *
 *	1. fewer than min_tokens output tokens: ids do not end the output;
 *	2. the primary EOS, unless ignore_eos: stop, reason NULL;
 *	3. a stop id (the user's, or another EOS of the model): stop, reason the id;
 *	4. max_tokens or the context length reached: length;
 *	   a pattern has been repeated as often as repetition_detection says: repetition;
 *	5. text: the token's, unless it ended the answer in 2 or 3 and include_stop
 *	   is off (guided_decoding.c may have ended it by a token that is text);
 *	6. stop strings in the text, once min_tokens are passed: stop, reason the
 *	   string.  This overrides 4.
 *
 * Token ids are never cut, only text is.  Text that may still become a stop string or is half a
 * character is held back and flushed at the finish.  No text is sent twice: a preemption keeps tokens
 * and this state, and only K/V is computed again.
 *
 * Owner: the step thread.  O(new text) a token.  Tested by tests/unit/core/output/test_output.c.
 */
#include "core/core_internal.h"

#include <stdio.h>
#include <string.h>

Detok *
out_detok(const Req *r, const Tok *tok)
{
	size_t		n = (size_t) r->in.n_prompt < OUT_CONTEXT ? (size_t) r->in.n_prompt : OUT_CONTEXT;
	const int32_t *context = r->in.embeds == NULL ? r->tokens.data + r->in.n_prompt - n : NULL;

	return detok_new(tok, context, n, r->in.params.skip_special);
}

void
out_begin(Req *r, const Tok *tok)
{
	const GenParams *p = &r->in.params;

	if (!p->detokenize)
		return;
	r->out.detok = out_detok(r, tok);
	if (p->tight_special && !p->skip_special)
		detok_tighten(r->out.detok);
	if (p->n_stop > 0)
		r->out.stop = stop_new((const char *const *) p->stop, p->stop_len, (size_t) p->n_stop,
							   p->include_stop);
}

void
out_end(Req *r)
{
	if (r->out.detok != NULL)
		detok_free(r->out.detok);
	if (r->out.stop != NULL)
		stop_free(r->out.stop);
	r->out.detok = NULL;
	r->out.stop = NULL;
	buf_free(&r->out.text);
	buf_free(&r->out.piece);
	token_counts_free(r->counts);
	r->counts = NULL;
}

static bool
has_id(const int32_t *ids, int n, int32_t id)
{
	for (int i = 0; i < n; i++)
		if (ids[i] == id)
			return true;
	return false;
}

/* Return true if the last tokens repeat a pattern of some length often enough. */
static bool
repeats(const GenParams *p, const int32_t *ids, int n)
{
	for (int len = p->repeat_min; len <= p->repeat_max && (int64_t) len * p->repeat_count <= n; len++)
	{
		int			i = n - 1;
		int			from = n - len * (p->repeat_count - 1);

		while (i >= from && ids[i] == ids[i - len])
			i--;
		if (i < from)
			return true;
	}
	return false;
}

/* Check whether the newest token ends the output, by its id or by a count.  Called on the step thread. */
OutResult
out_ends(Req *r, int32_t eos, int max_model_len)
{
	const GenParams *p = &r->in.params;
	OutResult	res = {.finish = FIN_NONE};
	int			n_output = req_n_output(r);
	int32_t		id = r->tokens.data[r->tokens.len - 1];

	if (n_output >= p->min_tokens)
	{
		if (id == eos && !p->ignore_eos)
		{
			res.finish = FIN_STOP;
			return res;
		}
		if (has_id(p->stop_ids, p->n_stop_ids, id))
		{
			snprintf(r->reason, sizeof(r->reason), "%d", id);
			res.finish = FIN_STOP;
			res.reason = r->reason;
			return res;
		}
	}
	if (n_output >= p->max_tokens || r->tokens.len >= (size_t) max_model_len)
		res.finish = FIN_LENGTH;
	else if (p->repeat_max > 0 && n_output >= p->min_tokens && repeats(p, r->tokens.data + r->in.n_prompt,
																	   n_output))
	{
		res.finish = FIN_REPETITION;
		res.reason = "repetition_detected";
	}
	return res;
}

/* Pass the text in r->out.piece to r->out.text; returns true if it completes a stop string. */
static bool
feed_piece(Req *r, int n_output, OutResult *res)
{
	bool		search = n_output > r->in.params.min_tokens;
	int			hit;

	if (r->out.piece.len == 0)
		return false;
	hit = stop_feed(r->out.stop, r->out.piece.data, r->out.piece.len, search, &r->out.text);
	buf_reset(&r->out.piece);
	if (hit < 0)
		return false;
	res->finish = FIN_STOP;
	res->reason = r->in.params.stop[hit];
	return true;
}

void
out_text(Req *r, int32_t id, int n_output, OutResult *res)
{
	/* with stop strings, text that may begin one is held back; without any, all text goes out */
	Buf		   *text = r->out.stop != NULL ? &r->out.piece : &r->out.text;

	buf_reset(&r->out.text);
	if (r->out.detok == NULL)
		return;
	if (res->finish != FIN_STOP || res->is_text || r->in.params.include_stop)
	{
		detok_push(r->out.detok, id, text);
		if (r->out.stop != NULL && feed_piece(r, n_output, res))
			return;
	}
	if (res->finish != FIN_NONE)
	{
		detok_finish(r->out.detok, text);
		if (r->out.stop != NULL && !feed_piece(r, n_output, res))
			stop_flush(r->out.stop, &r->out.text);
	}
}
