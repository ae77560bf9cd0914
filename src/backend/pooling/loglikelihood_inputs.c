/*
 * loglikelihood_inputs.c
 *	  From a prompt and its continuations to the sequences of a WK_LOGPROBS request.
 *
 * How likely is " Paris" behind "The capital of France is"?  Tokens are not cut where
 * texts are, so prompt and continuation are tokenized together, and the tokens of the
 * prompt alone say where the continuation begins: at the first token in which the two
 * differ.  White space at the prompt's end counts as the continuation's, because a token
 * often begins with it.  This is the rule of lm-evaluation-harness, but where a token
 * reaches across the boundary: the harness then drops it or scores too little, here all
 * of it is scored, and of several continuations all are scored from the first token in
 * which one of them leaves the prompt: so their numbers can be compared.
 *
 * Without continuations: the prompt's own tokens, from the second on.
 *
 * A model needs a token to begin with: where the tokenizer adds none, and nothing else is
 * in front of what is scored, its BOS or EOS is put there.
 *
 * Any thread.  Tested by tests/unit/backend/test_choices.c.
 */
#include "backend/pooling/loglikelihood_inputs.h"

#include <limits.h>
#include <string.h>

#include "base/alloc.h"

/* Prompt and continuation are tokenized together, so a long prompt costs once per choice. */
#define MAX_TEXT	((size_t) 16 << 20)

typedef struct LoglikelihoodInputsMaker
{
	const Tok  *tok;
	int			vocab_size;
	int			max_len;
	const PoolRequest *pr;
	IntVec		head;			/* what the tokenizer puts in front of a text */
	IntVec		context;		/* tokens of the prompt, with the head */
	Buf			text;			/* scratch: prompt and continuation */
	Buf			marks;
} LoglikelihoodInputsMaker;

static bool
bad_input(Err *e, const char *param, const char *what)
{
	err_set(e, ERR_INVALID, "%s", what);
	return err_detail(e, "parameter=%s", param);
}

/* ---- tokens of a text ---- */

/* What is added in front of a text; not what is added behind it, where the model goes on. */
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

/* The first n bytes of the prompt, and a continuation; marked: neither a user's prompt nor a
 * continuation can spell a special token in a chat. */
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

/* Bytes of the prompt without the white space that belongs to what follows; a template's stays. */
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

/* The last token is not computed. */
static bool
fits(const LoglikelihoodInputsMaker *m, size_t n, const char *what, Err *e)
{
	if (n <= (size_t) m->max_len + 1)
		return true;
	return err_set(e, ERR_TOO_LONG, "%s of %zu tokens does not fit the maximum model length of %d", what, n,
				   m->max_len);
}

/* Something to begin with. */
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

/* Cut what all begin with off the sequences. */
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
			return bad_input(e, "choice", "a choice adds no token to the prompt");
		ids->len -= n;
		memmove(ids->data, ids->data + n, ids->len * sizeof(int32_t));
	}
	return true;
}

/* One continuation is a sequence like any other, its first part not scored. */
static void
join_one(PoolSpec *out)
{
	PoolSeq    *s = &out->seqs[0];
	IntVec		own = s->ids;

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

/* No continuation: how likely is each token of the text itself? */
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

	/* a template writes all of it */
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
