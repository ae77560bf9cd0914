/*
 * beam_search.c
 *	  Beam search: the most likely complete outputs.
 *
 * All hypotheses of a generation have the same length and compute one row each.  The 2 * width most
 * likely tokens of a row are candidates.  The primary EOS among them completes the hypothesis (unless
 * ignore_eos is set), the others continue it.  The best `width` continuations of all become the next
 * generation: forks of their parents, whose blocks they share.  After max_tokens generations, or when no
 * hypothesis can continue, the best `width` of the completed and the live hypotheses are the answers.
 * Stop strings and stop ids do not end a hypothesis (docs/user/outputs.md).
 *
 *	score = sum of the tokens' log-probabilities / (length ^ length_penalty)
 *
 * The length includes the prompt, but not an EOS at the end.  At equal sums the earlier hypothesis comes
 * first, then the more likely token, then the lower id.
 *
 * Two sets of Reqs alternate as parents and forks: when the forks have computed their rows they have
 * taken over all blocks they need, and nothing refers to their parents any more.
 *
 * Owner: the step thread until the end, the output thread afterwards.  O(width * (vocabulary + length))
 * per generation.  Tested by tests/unit/core/multi/test_beam.c.
 */
#include "core/core_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

typedef struct BeamCand
{
	int			from;			/* index of the live hypothesis that it continues */
	int32_t		id;
	double		cum;
} BeamCand;

typedef struct Result
{
	IntVec		ids;			/* without the prompt; with EOS only if requested */
	double		cum;
	double		score;
	ReqFinish	finish;
	int			no;				/* order of appearance */
} Result;

struct Beam
{
	const Req  *prompt_request;
	int			width;
	int			length;			/* output tokens of the live hypotheses */
	Req		  **live;			/* [width] */
	Req		  **next;			/* [width] */
	int		   *from;			/* [width] index in the previous generation of live[i]'s parent */
	int			n_live;
	int			n_old;			/* size of the previous generation, which is in next[], or the prompt
								 * request */
	bool		first;			/* the previous generation is the prompt request */
	BeamCand   *cands;			/* [width][2 * width] candidates of each live hypothesis */
	int		   *n_cands;		/* [width]; -1 = its row has not been added yet */
	BeamCand   *pool;			/* [width * 2 * width] */
	Result	   *results;
	int			n_results;
	int			cap;
};

static Req *
new_req(const Req *prompt_request, int index)
{
	Req		   *r = group_req_of_prompt(prompt_request, index);

	r->in.params.temperature = 0;	/* so the sampler has no work */
	r->in.params.min_tokens = 0;
	r->in.params.rules = NULL;
	return r;
}

Beam *
beam_new(const Req *prompt_request)
{
	Beam	   *b = mem_zalloc(sizeof(*b));
	size_t		w = (size_t) prompt_request->in.params.out.beam_width;

	b->prompt_request = prompt_request;
	b->width = (int) w;
	b->live = mem_zalloc(w * sizeof(Req *));
	b->next = mem_zalloc(w * sizeof(Req *));
	b->from = mem_zalloc(w * sizeof(int));
	b->cands = mem_alloc(w * 2 * w * sizeof(BeamCand));
	b->n_cands = mem_zalloc(w * sizeof(int));
	b->pool = mem_alloc(w * 2 * w * sizeof(BeamCand));
	b->n_live = 1;
	b->first = true;
	b->n_cands[0] = -1;
	return b;
}

static void
free_reqs(Req **r, int n)
{
	for (int i = 0; i < n && r[i] != NULL; i++)
	{
		intvec_free(&r[i]->tokens);
		intvec_free(&r[i]->kv.blocks);
		mem_free(r[i]);
	}
	mem_free(r);
}

void
beam_free(Beam *b)
{
	if (b == NULL)
		return;
	free_reqs(b->live, b->width);
	free_reqs(b->next, b->width);
	for (int i = 0; i < b->n_results; i++)
		intvec_free(&b->results[i].ids);
	mem_free(b->results);
	mem_free(b->from);
	mem_free(b->cands);
	mem_free(b->n_cands);
	mem_free(b->pool);
	mem_free(b);
}

/* ---- results ---- */

/* length: tokens that count, including the prompt. */
static double
score(const Beam *b, double cum, int length)
{
	return cum / pow((double) length, b->prompt_request->in.params.out.length_penalty);
}

/* Add the completed hypothesis r, with one more token if id >= 0. */
static void
add_result(Beam *b, const Req *r, int32_t id, double cum)
{
	Result	   *x;

	if (b->n_results == b->cap)
	{
		b->cap = b->cap == 0 ? 2 * b->width : 2 * b->cap;
		b->results = mem_realloc(b->results, (size_t) b->cap * sizeof(Result));
	}
	x = &b->results[b->n_results];
	*x = (Result) {.cum = cum, .no = b->n_results++, .finish = id >= 0 ? FIN_STOP : FIN_LENGTH};
	x->score = score(b, cum, (int) r->tokens.len);
	intvec_add(&x->ids, r->tokens.data + r->in.n_prompt, r->tokens.len - (size_t) r->in.n_prompt);
	if (id >= 0 && b->prompt_request->in.params.include_stop)
		intvec_push(&x->ids, id);
}

static int
better(const void *a, const void *b)
{
	const Result *x = a;
	const Result *y = b;

	if (x->score != y->score)
		return x->score > y->score ? -1 : 1;
	return x->no < y->no ? -1 : 1;
}

/* ---- generations ---- */

bool
beam_row(Beam *b, const Req *r, const float *logits, int n, int n_valid, int32_t eos)
{
	int			i = r->index;
	BeamCand   *to = b->cands + (size_t) i * 2 * (size_t) b->width;
	LogprobWant want = {.top = 2 * b->width};
	Logprob    *e = mem_alloc((size_t) logprobs_most(&want, n_valid) * sizeof(Logprob));
	int32_t		best;
	int			k;
	bool		finite = !isnan(smp_logsumexp(logits, n, n_valid, &best));

	/* each hypothesis adds one row */
	ASSERT(i >= 0 && i < b->n_live && b->n_cands[i] < 0);
	b->n_cands[i] = 0;
	k = finite ? logprobs_row(logits, n, n_valid, best, &want, e) : 0;
	for (int j = 0; j < k; j++)
	{
		double		cum = r->out.cum_logprob + (double) e[j].value;

		if (e[j].id == eos && !b->prompt_request->in.params.ignore_eos)
			add_result(b, r, eos, cum);
		else
		{
			ALWAYS(b->n_cands[i] < 2 * b->width);
			to[b->n_cands[i]++] = (BeamCand) {i, e[j].id, cum};
		}
	}
	mem_free(e);
	return finite;
}

/* Put the best `width` candidates of all into b->pool, in order; returns their number. */
static int
best_cands(Beam *b)
{
	int			n = 0;
	int			kept = 0;

	for (int i = 0; i < b->n_live; i++)
	{
		ALWAYS(b->n_cands[i] >= 0);
		memcpy(b->pool + n, b->cands + (size_t) i * 2 * (size_t) b->width,
			   (size_t) b->n_cands[i] * sizeof(BeamCand));
		n += b->n_cands[i];
	}
	/* insertion sort: stable, and few are kept */
	for (int i = 0; i < n; i++)
	{
		BeamCand	c = b->pool[i];
		int			at = kept;

		while (at > 0 && b->pool[at - 1].cum < c.cum)
			at--;
		if (at >= b->width)
			continue;
		if (kept < b->width)
			kept++;
		memmove(b->pool + at + 1, b->pool + at, (size_t) (kept - 1 - at) * sizeof(BeamCand));
		b->pool[at] = c;
	}
	return kept;
}

static void
reuse(Req *r, const Req *parent, const BeamCand *c)
{
	r->tokens.len = 0;
	intvec_add(&r->tokens, parent->tokens.data, parent->tokens.len);
	intvec_push(&r->tokens, c->id);
	r->out.cum_logprob = c->cum;
	r->kv.computed = 0;
	r->sched.admit_no = 0;
	r->sched.n_forks = 0;
	r->sched.state = RQ_NEW;
	r->sched.cancelled = false;
}

static Req *
parent_of(const Beam *b, int from)
{
	return b->first ? b->prompt_request->group->prompt_request : b->next[from];
}

int
beam_next(Beam *b, int max_model_len)
{
	int			n = best_cands(b);
	Req		  **t = b->live;

	/* the live generation becomes the previous one, in next[] */
	if (b->length > 0)
	{
		b->live = b->next;
		b->next = t;
		b->first = false;
	}
	b->n_old = b->n_live;
	b->n_live = n;
	b->length++;
	for (int i = 0; i < n; i++)
	{
		if (b->live[i] == NULL)
			b->live[i] = new_req(b->prompt_request, i);
		b->from[i] = b->pool[i].from;
		b->n_cands[i] = -1;
		reuse(b->live[i], parent_of(b, b->from[i]), &b->pool[i]);
	}
	if (b->length < b->prompt_request->in.params.max_tokens &&
		b->prompt_request->in.n_prompt + b->length < max_model_len)
		return n;
	for (int i = 0; i < n; i++)
		add_result(b, b->live[i], -1, b->live[i]->out.cum_logprob);
	b->n_live = 0;
	return 0;
}

Req *
beam_live(const Beam *b, int i, Req **parent)
{
	Req		   *prompt_request = b->prompt_request->group->prompt_request;

	*parent = b->length > 0 ? parent_of(b, b->from[i]) : NULL;
	return b->length > 0 ? b->live[i] : prompt_request;
}

bool
beam_has_row(const Beam *b, int i)
{
	return b->n_cands[i] >= 0;
}

int
beam_n_live(const Beam *b)
{
	return b->n_live;
}

int
beam_n_old(const Beam *b)
{
	return b->n_old;
}

Req *
beam_old(const Beam *b, int i)
{
	return parent_of(b, i);
}

/* ---- the answers ---- */

void
beam_end(Beam *b)
{
	if (b->n_results > 0)
		qsort(b->results, (size_t) b->n_results, sizeof(Result), better);
	while (b->n_results > b->width)
		intvec_free(&b->results[--b->n_results].ids);
}

int
beam_n_results(const Beam *b, int *n_tokens)
{
	*n_tokens = 0;
	for (int i = 0; i < b->n_results; i++)
		*n_tokens += (int) b->results[i].ids.len;
	return b->n_results;
}

/* Make the text of an answer in the same way as for tokens that arrive one by one. */
static void
text_of(const Beam *b, const Result *x, const Tok *tok, Buf *text)
{
	Detok	   *d = out_detok(b->prompt_request, tok);

	for (size_t i = 0; i < x->ids.len; i++)
		detok_push(d, x->ids.data[i], text);
	detok_finish(d, text);
	detok_free(d);
}

void
beam_emit(Beam *b, const Tok *tok, ReqEvent *ev, ReqSink sink, void *ctx)
{
	ReqFinish	finish = ev->finish;
	Buf			text = {0};

	for (int i = 0; i < b->n_results; i++)
	{
		const Result *x = &b->results[i];

		buf_reset(&text);
		if (b->prompt_request->in.params.detokenize)
			text_of(b, x, tok, &text);
		ev->index = i;
		ev->ids = x->ids.data;
		ev->n_ids = (int) x->ids.len;
		ev->text = text.data != NULL ? text.data : "";
		ev->text_len = text.len;
		ev->ended = x->finish;
		ev->cum_logprob = x->cum;
		ev->is_beam = true;
		ev->score = x->score;
		if (ev->n_ids > ev->longest)
			ev->longest = ev->n_ids;
		ev->finish = i + 1 < b->n_results ? FIN_NONE : finish;
		sink(ctx, b->prompt_request->group->prompt_request, ev);
	}
	buf_free(&text);
}
