/*
 * loglikelihood_inputs.c
 *	  From a prompt and its continuations to the sequences of a WK_LOGPROBS request.
 *
 * Example: how likely is " Paris" after "The capital of France is"?  Token boundaries need not be text
 * boundaries, so prompt and continuation are tokenized together.  The continuation begins at the first
 * token that differs from the tokens of the prompt alone.  White space at the prompt's end counts as
 * part of the continuation, because tokens often begin with it.  This is the rule of
 * lm-evaluation-harness, except when a token spans the boundary: the harness then drops it or scores too
 * little, whereas this code scores the whole token.  Of several continuations all are scored from the
 * first token in which any of them differs from the prompt, so that their numbers can be compared.
 *
 * Without continuations the prompt's own tokens are scored, from the second on.
 *
 * A model needs a token to start with: if the tokenizer adds none, and no other token precedes the
 * scored ones, BOS or EOS is put first.
 *
 * Any thread.  Tested by tests/unit/backend/pooling/test_choices.c.
 */
#include "backend/pooling/loglikelihood_inputs.h"

#include <limits.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"

/* Limit in bytes: prompt and continuation are tokenized together, so a long prompt costs once per choice. */
#define MAX_TEXT	((size_t) 16 << 20)

typedef struct LoglikelihoodInputsMaker
{
	const Tok  *tok;
	int			vocab_size;
	int			max_len;
	const PoolRequest *pr;
	IntVec		head;			/* tokens that the tokenizer adds before a text */
	IntVec		context;		/* tokens of the prompt, including the head */
	Buf			text;			/* scratch: prompt plus continuation */
	Buf			marks;
} LoglikelihoodInputsMaker;

static bool
bad_input(Err *e, const char *param, const char *what)
{
	err_set(e, ERR_INVALID, "%s", what);
	return err_detail(e, "parameter=%s", param);
}

/* ---- tokens of a text ---- */

/* Find the tokens that are added before a text; not those added after it, since the model continues there. */
static bool
find_head(LoglikelihoodInputsMaker *m, Err *e)
{
	IntVec		all = {0},
				bare = {0};
	size_t		at = 0;
	bool		ok = tok_encode(m->tok, "a", 1, TOK_ADD_SPECIAL, &all, e) &&
		tok_encode(m->tok, "a", 1, 0, &bare, e);

	while (ok && at + bare.len < all.len &&
		   memcmp(all.data + at, bare.data, bare.len * sizeof(int32_t)) != 0)
		at++;
	if (ok)
		intvec_add(&m->head, all.data, at);
	intvec_free(&all);
	intvec_free(&bare);
	return ok;
}

/*
 * Encode the first n bytes of the prompt plus a continuation.  If the text is marked, neither the user's
 * prompt nor a continuation can spell a special token of the chat.
 */
static bool
encode(LoglikelihoodInputsMaker *m, size_t n, StrView more, IntVec *out, Err *e)
{
	if (m->pr->text.s == NULL)
	{
		intvec_add(out, m->pr->ids.data, m->pr->ids.len);
		return more.n == 0 || tok_encode(m->tok, more.s, more.n, 0, out, e);
	}
	buf_reset(&m->text);
	buf_reserve(&m->text, 1);
	buf_add(&m->text, m->pr->text.s, n);
	buf_add(&m->text, more.s != NULL ? more.s : "", more.n);
	intvec_add(out, m->head.data, m->head.len);
	if (m->pr->marks == NULL)
		return tok_encode(m->tok, m->text.data, m->text.len, 0, out, e);
	buf_reset(&m->marks);
	buf_reserve(&m->marks, n + more.n + 1);
	memcpy(m->marks.data, m->pr->marks, n);
	memset(m->marks.data + n, 1, more.n);
	return tok_encode_marked(m->tok, m->text.data, (const uint8_t *) m->marks.data, m->text.len, out, e);
}

static bool
is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/*
 * Return the bytes of the prompt without trailing white space, which belongs to the continuation.  The
 * white space of a template stays.
 */
static size_t
context_bytes(const PoolRequest *pr)
{
	size_t		n = pr->text.n;

	while (pr->marks == NULL && n > 0 && is_space(pr->text.s[n - 1]))
		n--;
	return n;
}

/* ---- sequences ---- */

static bool
check_ids(const LoglikelihoodInputsMaker *m, Err *e)
{
	for (size_t i = 0; i < m->pr->ids.len; i++)
		if (m->pr->ids.data[i] < 0 || m->pr->ids.data[i] >= m->vocab_size)
		{
			err_set(e, ERR_INVALID, "token id %d is not in the vocabulary of %d tokens", m->pr->ids.data[i],
					m->vocab_size);
			return err_detail(e, "parameter=prompt_token_ids");
		}
	return true;
}

/* The limit is one more than the model's length: the last token is not computed. */
static bool
fits(const LoglikelihoodInputsMaker *m, size_t n, const char *what, Err *e)
{
	if (n <= (size_t) m->max_len + 1)
		return true;
	return err_set(e, ERR_TOO_LONG, "%s of %zu tokens does not fit the maximum model length of %d", what, n,
				   m->max_len);
}

/* Add a first token. */
static bool
add_first(const LoglikelihoodInputsMaker *m, IntVec *ids, const char *param, Err *e)
{
	int32_t		id = tok_bos(m->tok) >= 0 ? tok_bos(m->tok) : tok_eos(m->tok);

	if (id < 0)
		return bad_input(e, param, "nothing is in front of the first token, and the tokenizer has no BOS or "
								   "EOS");
	intvec_push(ids, id);
	return true;
}

static size_t
same_tokens(const IntVec *a, const IntVec *b)
{
	size_t		n = 0;

	while (n < a->len && n < b->len && a->data[n] == b->data[n])
		n++;
	return n;
}

static bool
encode_choices(LoglikelihoodInputsMaker *m, PoolSpec *out, Err *e)
{
	const PoolRequest *pr = m->pr;

	for (int i = 0; i < pr->n_choices; i++)
	{
		if (pr->choices[i].n == 0)
			return bad_input(e, "choice", "a choice must not be empty");
		out->seqs[out->n_seqs++] = (PoolSeq) {.type1_at = INT_MAX};
		if (!encode(m, pr->text.n, pr->choices[i], &out->seqs[i].ids, e))
			return false;
		if (!fits(m, out->seqs[i].ids.len, "prompt with a choice", e))
			return false;
	}
	return true;
}

/* Remove the common prefix of all sequences, which becomes the shared prompt. */
static bool
share_prompt(LoglikelihoodInputsMaker *m, PoolSpec *out, Err *e)
{
	size_t		n = m->context.len;

	for (int i = 0; i < out->n_seqs; i++)
	{
		size_t		same = same_tokens(&m->context, &out->seqs[i].ids);

		n = same < n ? same : n;
	}
	intvec_add(&out->prompt, m->context.data, n);
	if (n == 0 && !add_first(m, &out->prompt, "prompt", e))
		return false;
	for (int i = 0; i < out->n_seqs; i++)
	{
		IntVec	   *ids = &out->seqs[i].ids;

		if (ids->len == n)
			return bad_input(e, "prompt", "a choice adds no token to the prompt");
		ALWAYS(ids->len > n);
		ids->len -= n;
		memmove(ids->data, ids->data + n, ids->len * sizeof(int32_t));
	}
	return true;
}

/* With one continuation, make one sequence of prompt and continuation; the prompt is not scored. */
static void
join_one(PoolSpec *out)
{
	PoolSeq    *s = &out->seqs[0];
	IntVec		own = s->ids;

	ASSERT(out->n_seqs == 1 && out->prompt.len > 0);	/* a model needs a token to start with */
	s->scored_at = (int) out->prompt.len;
	s->ids = out->prompt;
	intvec_add(&s->ids, own.data, own.len);
	out->prompt = (IntVec) {0};
	out->join = PJ_ONE;
	intvec_free(&own);
}

static bool
make_choices(LoglikelihoodInputsMaker *m, PoolSpec *out, Err *e)
{
	const PoolRequest *pr = m->pr;

	if (pr->text.n > MAX_TEXT / (size_t) pr->n_choices)
		return err_set(e, ERR_TOO_LONG, "prompt of %zu bytes is too long for %d choices", pr->text.n,
					   pr->n_choices);
	out->seqs = mem_zalloc((size_t) pr->n_choices * sizeof(PoolSeq));
	if (!encode(m, context_bytes(pr), (StrView) {0}, &m->context, e) || !encode_choices(m, out, e) ||
		!share_prompt(m, out, e))
		return false;
	out->join = PJ_CHOICES;
	if (out->n_seqs == 1)
		join_one(out);
	return true;
}

/* Without continuations, score each token of the text itself. */
static bool
make_text(LoglikelihoodInputsMaker *m, PoolSpec *out, Err *e)
{
	if (m->pr->text.s != NULL && m->pr->text.n == 0)
		return bad_input(e, "input", "input must not be empty");
	out->seqs = mem_zalloc(sizeof(PoolSeq));
	out->seqs[0] = (PoolSeq) {.type1_at = INT_MAX, .scored_at = 1};
	out->n_seqs = 1;
	out->join = PJ_ONE;
	if (!encode(m, m->pr->text.n, (StrView) {0}, &out->seqs[0].ids, e))
		return false;
	if (out->seqs[0].ids.len < 2)
		return bad_input(e, "input", out->seqs[0].ids.len == 0 ? "input has no tokens" :
						 "input has one token, and none in front of it");
	return fits(m, out->seqs[0].ids.len, "input", e);
}

bool
choices_make(const Tok *tok, int vocab_size, int max_len, const PoolRequest *pr, PoolSpec *out, Err *e)
{
	LoglikelihoodInputsMaker m = {.tok = tok, .vocab_size = vocab_size, .max_len = max_len, .pr = pr};
	bool		ok = check_ids(&m, e);

	/* a template's text already has all special tokens */
	if (ok && pr->add_special && pr->text.s != NULL && pr->marks == NULL)
		ok = find_head(&m, e);
	if (ok && pr->n_choices > 0)
		ok = make_choices(&m, out, e);
	else if (ok)
		ok = make_text(&m, out, e);
	intvec_free(&m.head);
	intvec_free(&m.context);
	buf_free(&m.text);
	buf_free(&m.marks);
	return ok;
}
