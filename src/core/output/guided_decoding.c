/*
 * guided_decoding.c
 *	  Sequences whose output must match a grammar.
 *
 * A token's bytes are what it adds to the output's text (tok_piece()), so the grammar sees the same text
 * as the user.  Special tokens are never text.  The model's EOS ids end the text, and so may the
 * request's stop ids if the text is complete.
 *
 * The output ends with "stop" when only the end can follow, without a step that samples the EOS.  With
 * ignore_eos the end's ids are not allowed, and the output continues as long as the grammar allows.  The
 * grammar overrides min_tokens.
 *
 * Reasoning models: up to the mark that ends the reasoning the output is free, and the grammar does not
 * see it.  The mark is text, as for the reasoning parser, in whatever tokens it is written.  Tokens that
 * would continue after the mark are not allowed, so the grammar begins at a token boundary.  Ids that
 * end the output are not allowed before the mark, as there would be no output, unless the output may be
 * a tool call.
 *
 * Forced text.  If the grammar allows only one continuation, the bytes up to the next choice are known.
 * They are tokenized together with the text before them, and appended without running the model; the
 * next step computes them in one chunk.  Two rules ensure that the tokens are those that the tokenizer
 * makes of the whole text.  At the left end a token must begin where the forced text begins, else
 * nothing is appended and the model chooses.  At the right end up to LOOK_BACK tokens are left to the
 * model if a longer token that the grammar allows could replace them.
 *
 * Owner: the step thread, except for masks, which the mask thread computes between constraints_begin()
 * and constraints_wait().  The step thread helps with them, and only waits for masks that the mask
 * thread has begun.  Tested by tests/unit/core/sample/test_constraint.c.
 */
#include "core/output/guided_decoding.h"

#include <pthread.h>
#include <string.h>

#include "base/log.h"
#include "base/alloc.h"
#include "base/assert.h"

#define FORCED_MAX		4096	/* most bytes that are appended at once */
#define CONTEXT			8		/* tokens before the forced text that the tokenizer sees */
#define LOOK_BACK		4		/* tokens at the end of the forced text that a longer token may replace */

/* How much of the text that ends the reasoning the output has matched. */
typedef struct Mark
{
	const char *part;			/* the current part, up to a MARK_GAP or the end */
	size_t		n;
	size_t		seen;			/* bytes of the part that the output ends with */
} Mark;

struct Constraint
{
	Constraints *cs;
	GramMatch  *match;
	const char *mark_text;		/* the grammar applies after this text; NULL = from the start */
	Mark		mark;
	bool		wide;			/* some token contains the mark and continues after it */
	bool		may_end;		/* the output may also end before the mark */
	bool		active;
	bool		jump;			/* forced tokens may be appended */
};

/* A row of a step. */
typedef struct MaskRow
{
	const Req  *r;				/* NULL = the row has no mask */
	bool		failed;
	Err			err;
} MaskRow;

struct Constraints
{
	const Tok  *tok;
	IntVec		end;
	int			n_valid;
	int			max_seqs;
	bool		jump;

	pthread_mutex_t making;		/* protects the vocabulary until it is made */
	GramVocab  *vocab;			/* NULL = not made yet */
	size_t		longest;		/* bytes of the longest token */
	const char *mark;			/* mark of the last mark_is_wide(); protected by making */
	bool		wide;			/* some token has the mark and continues after it */
	size_t		n_words;
	uint32_t   *words;			/* [max_seqs][n_words] */
	uint32_t   *scratch;		/* [n_words] used by the step thread */
	uint32_t   *free;			/* [n_words] mask of all ids but the end's */
	MaskRow    *row;			/* [max_seqs] */
	int			n_rows;			/* of the current step; 0 = no row has a mask */
	IntVec		ids;			/* scratch */
	Buf			text;			/* scratch */

	pthread_mutex_t lock;
	pthread_cond_t more;		/* for the mask thread */
	pthread_cond_t done;		/* for the step thread */
	int			next;			/* next row to compute; protected by lock */
	int			busy;			/* rows being computed; protected by lock */
	bool		stop;			/* protected by lock */
	bool		threaded;
	pthread_t	thread;
};

/* ---- sequences ---- */

/* ---- the mark ---- */

static Mark
mark_of(const char *text)
{
	return (Mark) {.part = text,.n = strcspn(text, MARK_GAP)};
}

/* Process one byte of the output; returns true if the mark is complete. */
static bool
mark_step(Mark *m, char c)
{
	size_t		k = m->seen + 1;

	while (k > 0 && !(m->part[k - 1] == c && memcmp(m->part + m->seen + 1 - k, m->part, k - 1) == 0))
		k--;
	m->seen = k;
	if (k < m->n)
		return false;
	if (m->part[k] == '\0')
		return true;
	*m = mark_of(m->part + k + 1);
	return false;
}

/* Return true if the token completes the mark and continues after it. */
static bool
exceeds_mark(Mark m, char last, const char *s, size_t n)
{
	if (n < 2 || memchr(s, last, n - 1) == NULL)
		return false;
	for (size_t i = 0; i + 1 < n; i++)
		if (mark_step(&m, s[i]))
			return true;
	return false;
}

/* Return true if some token of the vocabulary contains the mark and continues after it. */
static bool
mark_is_wide(Constraints *cs, const char *mark)
{
	bool		wide;

	pthread_mutex_lock(&cs->making);
	if (cs->mark != mark)
	{
		cs->mark = mark;
		cs->wide = false;
		for (int32_t i = 0; i < cs->n_valid && !cs->wide; i++)
		{
			size_t		n;
			const char *s = tok_piece(cs->tok, i, &n);

			cs->wide = exceeds_mark(mark_of(mark), mark[strlen(mark) - 1], s, n);
		}
	}
	wide = cs->wide;
	pthread_mutex_unlock(&cs->making);
	return wide;
}

Constraint *
constraint_new(Constraints *cs, Grammar *g, const char *mark, bool may_end, bool jump)
{
	Constraint *c = mem_zalloc(sizeof(*c));

	c->cs = cs;
	c->match = gram_match_new(g, cs->vocab);
	grammar_unref(g);
	c->mark_text = mark;
	c->active = mark == NULL;
	c->may_end = may_end;
	if (mark != NULL)
	{
		c->mark = mark_of(mark);
		c->wide = mark_is_wide(cs, mark);
	}
	c->jump = jump && cs->jump;
	return c;
}

Constraint *
constraint_fork(const Constraint *c)
{
	Constraint *r = mem_alloc(sizeof(*r));

	*r = *c;
	r->match = gram_match_fork(c->match);
	return r;
}

void
constraint_free(Constraint *c)
{
	if (c == NULL)
		return;
	gram_match_free(c->match);
	mem_free(c);
}

bool
constraint_active(const Constraint *c)
{
	return c->active;
}

bool
constraint_finished(Constraint *c)
{
	return c->active && gram_match_finished(c->match);
}

static bool
has_id(const int32_t *ids, size_t n, int32_t id)
{
	for (size_t i = 0; i < n; i++)
		if (ids[i] == id)
			return true;
	return false;
}

/* Process a token before the mark is complete; it may complete the mark. */
static bool
free_token(Constraint *c, int32_t id, Err *e)
{
	size_t		n;
	const char *s = tok_piece(c->cs->tok, id, &n);

	for (size_t i = 0; i < n && !c->active; i++)
	{
		c->active = mark_step(&c->mark, s[i]);
		if (c->active && i + 1 < n)
			return err_set(e, ERR_INTERNAL, "token %d goes beyond the end of the thoughts", id);
	}
	return true;
}

bool
constraint_token(Constraint *c, const Req *r, OutResult *res, Err *e)
{
	int32_t		id = r->tokens.data[r->tokens.len - 1];
	bool		ok;

	if (!c->active)
		return free_token(c, id, e);
	if (!gram_match_token(c->match, id, &ok, e))
		return false;
	/* a stop id without text, after a complete text: out_ends() has set the reason */
	if (!ok && has_id(r->in.params.stop_ids, (size_t) r->in.params.n_stop_ids, id) &&
		gram_match_accepting(c->match))
	{
		if (res->finish != FIN_STOP)
			*res = (OutResult) {.finish = FIN_STOP};
		return true;
	}
	if (!ok)
		return err_set(e, ERR_INTERNAL, "token %d is not allowed by the grammar", id);
	if (res->finish != FIN_STOP && gram_match_finished(c->match))
		*res = (OutResult) {.finish = FIN_STOP, .is_text = !has_id(c->cs->end.data, c->cs->end.len, id)};
	return true;
}

/* ---- masks ---- */

static bool
is_empty(const uint32_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (words[i] != 0)
			return false;
	return true;
}

/* Allow all ids but the end's, and those that would continue after the mark. */
static void
free_mask(const Constraints *cs, const Constraint *c, uint32_t *words)
{
	bool		near = c->wide || c->mark.seen > 0 || c->mark.part != c->mark_text;
	char		last = c->mark_text[strlen(c->mark_text) - 1];

	memcpy(words, cs->free, cs->n_words * sizeof(uint32_t));
	for (size_t i = 0; i < cs->end.len && c->may_end; i++)
		words[cs->end.data[i] / 32] |= 1u << (cs->end.data[i] % 32);
	for (int32_t i = 0; i < cs->n_valid && near; i++)
	{
		size_t		n;
		const char *s = tok_piece(cs->tok, i, &n);

		if (exceeds_mark(c->mark, last, s, n))
			words[i / 32] &= ~(1u << (i % 32));
	}
}

/* Compute the mask of a request: its grammar's, adapted by its stop ids and ignore_eos. */
static bool
make_mask(const Constraints *cs, const Req *r, uint32_t *words, Err *e)
{
	Constraint *c = r->constraint;
	const GenParams *p = &r->in.params;

	if (!c->active)
	{
		free_mask(cs, c, words);
		return true;
	}
	if (!gram_match_mask(c->match, words, e))
		return false;
	if (p->n_stop_ids > 0 && gram_match_accepting(c->match))
		for (int i = 0; i < p->n_stop_ids; i++)
			words[p->stop_ids[i] / 32] |= 1u << (p->stop_ids[i] % 32);
	for (size_t i = 0; p->ignore_eos && i < cs->end.len; i++)
		if (!has_id(p->stop_ids, (size_t) p->n_stop_ids, cs->end.data[i]))
			words[cs->end.data[i] / 32] &= ~(1u << (cs->end.data[i] % 32));
	if (!is_empty(words, cs->n_words))
		return true;
	err_set(e, ERR_UNSUPPORTED, "no token of the model can continue the text that the grammar wants");
	return err_detail(e, "After %d tokens.", req_n_output(r));
}

/* Take the next row to compute; -1 = there is none. */
static int
take_row(Constraints *cs, bool done_one)
{
	int			i;

	pthread_mutex_lock(&cs->lock);
	cs->busy -= done_one;
	if (done_one && cs->busy == 0)
		pthread_cond_signal(&cs->done);
	while (cs->next < cs->n_rows && cs->row[cs->next].r == NULL)
		cs->next++;
	i = cs->next < cs->n_rows ? cs->next++ : -1;
	cs->busy += i >= 0;
	pthread_mutex_unlock(&cs->lock);
	return i;
}

static void
make_rows(Constraints *cs)
{
	int			i = take_row(cs, false);

	while (i >= 0)
	{
		MaskRow    *row = &cs->row[i];

		row->failed = !make_mask(cs, row->r, cs->words + (size_t) i * cs->n_words, &row->err);
		i = take_row(cs, true);
	}
}

static void *
mask_main(void *arg)
{
	Constraints *cs = arg;
	bool		stop = false;

	while (!stop)
	{
		pthread_mutex_lock(&cs->lock);
		while (cs->next >= cs->n_rows && !cs->stop)
			pthread_cond_wait(&cs->more, &cs->lock);
		stop = cs->stop;
		pthread_mutex_unlock(&cs->lock);
		if (!stop)
			make_rows(cs);
	}
	return NULL;
}

static bool
has_mask(const PlanEntry *pe)
{
	return pe->sample && pe->r->constraint != NULL;
}

void
constraints_begin(Constraints *cs, const Plan *plan)
{
	bool		any = false;

	for (int i = 0; i < plan->n && !any; i++)
		any = has_mask(&plan->e[i]);
	if (!any && cs->n_rows == 0)
		return;
	ALWAYS(plan->n <= cs->max_seqs);
	/* the previous step's masks are complete, so no other thread accesses the rows */
	for (int i = 0; i < plan->n; i++)
	{
		cs->row[i].r = has_mask(&plan->e[i]) ? plan->e[i].r : NULL;
		cs->row[i].failed = false;
	}
	pthread_mutex_lock(&cs->lock);
	ASSERT(cs->busy == 0);
	cs->n_rows = any ? plan->n : 0;
	cs->next = 0;
	if (any && cs->threaded)
		pthread_cond_signal(&cs->more);
	pthread_mutex_unlock(&cs->lock);
}

void
constraints_wait(Constraints *cs)
{
	if (cs->n_rows == 0)
		return;
	make_rows(cs);
	pthread_mutex_lock(&cs->lock);
	while (cs->busy > 0)
		pthread_cond_wait(&cs->done, &cs->lock);
	pthread_mutex_unlock(&cs->lock);
}

const uint32_t *
constraints_mask(const Constraints *cs, int i)
{
	if (i >= cs->n_rows || cs->row[i].r == NULL || cs->row[i].failed)
		return NULL;
	return cs->words + (size_t) i * cs->n_words;
}

const Err *
constraints_error(const Constraints *cs, int i)
{
	return i < cs->n_rows && cs->row[i].failed ? &cs->row[i].err : NULL;
}

/* ---- forced text ---- */

/* Append the bytes of the tokens before the forced text, from output or prompt, back to a special token. */
static size_t
context_of(const Constraints *cs, const Req *r, Buf *out)
{
	size_t		from = r->tokens.len;
	/* first position with a token id */
	size_t		first = r->in.embeds != NULL ? (size_t) r->in.n_prompt : 0;

	while (from > first && r->tokens.len - from < CONTEXT && r->tokens.data[from - 1] < cs->n_valid &&
		   !tok_is_special(cs->tok, r->tokens.data[from - 1]))
		from--;
	for (; from < r->tokens.len; from++)
	{
		size_t		n;
		const char *s = tok_piece(cs->tok, r->tokens.data[from], &n);

		buf_add(out, s, n);
	}
	/* some tokenizers add a space before the first word of a text: avoid it before the forced text */
	if (out->len == 0)
		buf_addc(out, '\n');
	return out->len;
}

/*
 * Tokenize a text whose bytes from `at` on are forced, and return the tokens from there on, if a token
 * begins there and their bytes are those of the text.
 */
static bool
tokens_from(Constraints *cs, const Buf *text, size_t at, IntVec *out)
{
	size_t		total = 0;
	size_t		pos = 0;
	size_t		extra;
	Err			e;

	intvec_reset(&cs->ids);
	if (!tok_encode(cs->tok, text->data, text->len, TOK_NO_PARSE_SPECIAL, &cs->ids, &e))
		return false;
	for (size_t i = 0; i < cs->ids.len; i++)
	{
		size_t		n;

		tok_piece(cs->tok, cs->ids.data[i], &n);
		total += n;
	}
	/* one extra byte: the space that some tokenizers add before a text */
	extra = total - text->len;
	if (total < text->len || extra > 1)
		return false;
	for (size_t i = 0; i < cs->ids.len; i++)
	{
		size_t		n;
		const char *s = tok_piece(cs->tok, cs->ids.data[i], &n);

		if (pos >= at + extra)
		{
			if (memcmp(text->data + pos - extra, s, n) != 0)
				return false;
			intvec_push(out, cs->ids.data[i]);
		}
		else if (pos + n > at + extra)
			return false;		/* this token would begin before the forced text */
		pos += n;
	}
	return out->len > 0;
}

/* Return true if a token of more than n bytes may come next. */
static bool
longer_allowed(Constraints *cs, GramMatch *m, size_t n)
{
	Err			e;

	if (n >= cs->longest)
		return false;
	if (!gram_match_mask(m, cs->scratch, &e))
		return true;			/* at a limit of the grammar: the model's next step reports it */
	for (size_t w = 0; w < cs->n_words; w++)
		for (uint32_t bits = cs->scratch[w]; bits != 0; bits &= bits - 1)
		{
			int32_t		id = (int32_t) w * 32 + __builtin_ctz(bits);
			size_t		len;

			tok_piece(cs->tok, id, &len);
			if (len > n && !has_id(cs->end.data, cs->end.len, id))
				return true;
		}
	return false;
}

/* Return how many of the tokens are final whatever text comes after.  Restores the state of the match. */
static size_t
settled(Constraints *cs, GramMatch *m, const IntVec *ids)
{
	size_t		before = gram_match_steps(m);
	size_t		n = 0;
	size_t		keep;
	size_t		bytes = 0;
	bool		ok = true;
	Err			e;

	while (n < ids->len && ok)
		ok = gram_match_token(m, ids->data[n], &ok, &e) && ok && ++n > 0;
	keep = n;
	for (size_t back = 1; back <= LOOK_BACK && back <= n && !gram_match_finished(m); back++)
	{
		size_t		len;

		tok_piece(cs->tok, ids->data[n - back], &len);
		bytes += len;
		gram_match_rollback(m, 1);
		if (longer_allowed(cs, m, bytes))
			keep = n - back;
	}
	gram_match_rollback(m, gram_match_steps(m) - before);
	return keep;
}

void
constraint_forced(Constraint *c, const Req *r, int max, IntVec *out)
{
	Constraints *cs = c->cs;
	size_t		at;
	size_t		n;
	Err			e;

	intvec_reset(out);
	if (!c->jump || !c->active || max < 1)
		return;
	buf_reset(&cs->text);
	at = context_of(cs, r, &cs->text);
	if (!gram_match_forced(c->match, FORCED_MAX, &cs->text, &e) || cs->text.len == at ||
		!tokens_from(cs, &cs->text, at, out))
	{
		intvec_reset(out);
		return;
	}
	n = settled(cs, c->match, out);
	out->len = n < (size_t) max ? n : (size_t) max;
}

/* ---- state of a model ---- */

/* Convert the tokens to the grammars' form. */
static GramVocab *
make_vocab(Constraints *cs)
{
	GramToken  *tokens = mem_zalloc((size_t) cs->n_valid * sizeof(GramToken));
	GramVocab  *v;

	for (int32_t i = 0; i < cs->n_valid; i++)
	{
		tokens[i].bytes = tok_piece(cs->tok, i, &tokens[i].len);
		tokens[i].special = tok_is_special(cs->tok, i);
		if (tokens[i].len > cs->longest)
			cs->longest = tokens[i].len;
	}
	v = gram_vocab_new(tokens, (size_t) cs->n_valid, cs->end.data, cs->end.len);
	mem_free(tokens);
	return v;
}

bool
constraints_prepare(Constraints *cs, Err *e)
{
	if (!tok_joins(cs->tok))
	{
		err_set(e, ERR_UNSUPPORTED, "structured output is not supported with this model's tokenizer");
		return err_detail(e, "It writes spaces between tokens that are in none of them.");
	}
	pthread_mutex_lock(&cs->making);
	if (cs->vocab == NULL)
	{
		GramVocab  *v = make_vocab(cs);

		cs->n_words = gram_vocab_words(v);
		/* a mask has a bit for each token that may be sampled */
		ALWAYS(cs->n_words == ((size_t) cs->n_valid + 31) / 32);
		cs->words = mem_alloc((size_t) cs->max_seqs * cs->n_words * sizeof(uint32_t));
		cs->scratch = mem_alloc(cs->n_words * sizeof(uint32_t));
		cs->free = mem_zalloc(cs->n_words * sizeof(uint32_t));
		for (int32_t i = 0; i < cs->n_valid; i++)
			if (!has_id(cs->end.data, cs->end.len, i))
				cs->free[i / 32] |= 1u << (i % 32);
		cs->row = mem_zalloc((size_t) cs->max_seqs * sizeof(MaskRow));
		cs->threaded = pthread_create(&cs->thread, NULL, mask_main, cs) == 0;
		if (cs->threaded)
			pthread_setname_np(cs->thread, "masks");
		else
			log_line('W', "could not start a thread for masks: they are made by the step thread");
		cs->vocab = v;
	}
	pthread_mutex_unlock(&cs->making);
	return true;
}

Constraints *
constraints_new(const Tok *tok, const IntVec *end, int n_valid, int max_seqs, bool jump)
{
	Constraints *cs = mem_zalloc(sizeof(*cs));

	cs->tok = tok;
	intvec_add(&cs->end, end->data, end->len);
	cs->n_valid = n_valid;
	cs->max_seqs = max_seqs;
	cs->jump = jump;
	pthread_mutex_init(&cs->making, NULL);
	pthread_mutex_init(&cs->lock, NULL);
	pthread_cond_init(&cs->more, NULL);
	pthread_cond_init(&cs->done, NULL);
	return cs;
}

void
constraints_free(Constraints *cs)
{
	if (cs == NULL)
		return;
	if (cs->threaded)
	{
		pthread_mutex_lock(&cs->lock);
		cs->stop = true;
		pthread_cond_signal(&cs->more);
		pthread_mutex_unlock(&cs->lock);
		pthread_join(cs->thread, NULL);
	}
	gram_vocab_unref(cs->vocab);
	intvec_free(&cs->end);
	intvec_free(&cs->ids);
	buf_free(&cs->text);
	mem_free(cs->words);
	mem_free(cs->scratch);
	mem_free(cs->free);
	mem_free(cs->row);
	pthread_cond_destroy(&cs->done);
	pthread_cond_destroy(&cs->more);
	pthread_mutex_destroy(&cs->lock);
	pthread_mutex_destroy(&cs->making);
	mem_free(cs);
}
