/*
 * logprobs.c
 *	  Log-probabilities of tokens, from rows of logits.
 *
 * A log-probability is the logit minus the logarithm of the sum of all logits' exponentials: the model's
 * own distribution, before temperature, penalties and filters, but after a mask (docs/user/outputs.md).
 * Ids that the tokenizer does not know are part of the sum, but never an entry.
 *
 *	output tokens		a copy of the row is kept, since the sampler overwrites it; other rows are not
 *						copied (commit.c)
 *	prompt tokens		their hidden rows are multiplied by the vocabulary's matrix in chunks of as many
 *						rows as a step samples; the row of position p is for token p + 1
 *
 * The positions of a prompt are collected step by step, and are kept when the request is preempted.
 *
 * Any thread, no state.  O(vocabulary) a row, and O(k log k) for the k most likely.  Tested by
 * tests/unit/core/multi/test_answers.c and tests/golden/logprobs_golden.c.
 */
#include "core/core_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define MANY_ENTRIES	4096	/* with more entries per position, rows are processed one by one */

/* ---- lists ---- */

Logprobs *
logprobs_new(void)
{
	return mem_zalloc(sizeof(Logprobs));
}

void
logprobs_free(Logprobs *l)
{
	if (l == NULL)
		return;
	intvec_free(&l->counts);
	mem_free(l->e);
	mem_free(l);
}

static void
add_entries(Logprobs *l, const Logprob *e, size_t n)
{
	if (l->n + n > l->cap)
	{
		l->cap = l->n + n > 2 * l->cap ? l->n + n : 2 * l->cap;
		l->e = mem_realloc(l->e, l->cap * sizeof(Logprob));
	}
	if (n > 0)
		memcpy(l->e + l->n, e, n * sizeof(Logprob));
	l->n += n;
}

void
logprobs_add(Logprobs *l, const Logprob *e, int n)
{
	add_entries(l, e, (size_t) n);
	intvec_push(&l->counts, n);
}

void
logprobs_append(Logprobs *to, const Logprobs *from)
{
	add_entries(to, from->e, from->n);
	intvec_add(&to->counts, from->counts.data, from->counts.len);
}

/* ---- one row ---- */

/* Return the log of the sum of exp(x); smp_logsumexp() is fast, but does not accept masked logits. */
static double
log_sum(const float *x, int n, int n_valid)
{
	float		most = -INFINITY;
	double		sum = 0;
	int32_t		best;
	double		quick = smp_logsumexp(x, n, n_valid, &best);

	if (!isnan(quick))
		return quick;
	for (int i = 0; i < n; i++)
		most = x[i] > most ? x[i] : most;
	for (int i = 0; i < n; i++)
		sum += x[i] > -INFINITY ? exp((double) x[i] - (double) most) : 0;
	return (double) most + log(sum);
}

/* Return true if a comes before b; value is a logit here. */
static inline bool
before(const Logprob *a, const Logprob *b)
{
	return a->value != b->value ? a->value > b->value : a->id < b->id;
}

static int
compare(const void *a, const void *b)
{
	return before(a, b) ? -1 : 1;
}

/* Replace the top of the heap, which is the worst entry, by e. */
static void
sift(Logprob *heap, int n, Logprob e)
{
	int			i = 0;

	for (;;)
	{
		int			child = 2 * i + 1;

		if (child >= n)
			break;
		if (child + 1 < n && before(&heap[child], &heap[child + 1]))
			child++;
		if (!before(&e, &heap[child]))
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = e;
}

/* Find the k most likely of n, 1 <= k <= n, in order. */
static void
top_of(const float *x, int n, int k, Logprob *out)
{
	ALWAYS(k >= 1 && k <= n);
	for (int i = 0; i < k; i++)
		out[i] = (Logprob) {.id = i, .value = x[i]};
	/* an array sorted from the worst on is a heap */
	qsort(out, (size_t) k, sizeof(Logprob), compare);
	for (int i = 0; i < k / 2; i++)
	{
		Logprob		t = out[i];

		out[i] = out[k - 1 - i];
		out[k - 1 - i] = t;
	}
	for (int32_t i = k; i < n; i++)
		if (x[i] > out[0].value)
			sift(out, k, (Logprob) {.id = i, .value = x[i]});
	qsort(out, (size_t) k, sizeof(Logprob), compare);
}

static int32_t
rank_of(const float *x, int n, int32_t id)
{
	int32_t		rank = 0;

	ASSERT(id >= 0 && id < n);
	for (int i = 0; i < n; i++)
		rank += x[i] >= x[id];
	return rank;
}

int
logprobs_most(const LogprobWant *w, int n_valid)
{
	if (w->ids != NULL)
		return w->n_ids + 1;
	return (w->top == LOGPROBS_ALL || w->top > n_valid ? n_valid : w->top) + 1;
}

/* e[1..k] are the most likely: put the row's own token first, which may be one of them. */
static int
put_first(Logprob *e, int k, Logprob own)
{
	int			at = 1;

	while (at <= k && e[at].id != own.id)
		at++;
	if (at <= k)
	{
		own = e[at];
		memmove(e + at, e + at + 1, (size_t) (k - at) * sizeof(Logprob));
	}
	e[0] = own;
	return at <= k ? k : k + 1;
}

int
logprobs_row(const float *x, int n, int n_valid, int32_t id, const LogprobWant *w, Logprob *e)
{
	double		norm = w->logits ? 0 : log_sum(x, n, n_valid);
	int			k = logprobs_most(w, n_valid) - 1;
	int			m;
	Logprob		own = {.id = id, .value = x[id]};

	if (w->ids != NULL)
		for (int i = 0; i < k; i++)
			e[i + 1] = (Logprob) {.id = w->ids[i], .rank = rank_of(x, n_valid, w->ids[i]),
								  .value = x[w->ids[i]]};
	else if (k > 0)
	{
		top_of(x, n_valid, k, e + 1);
		for (int i = 1; i <= k; i++)
			e[i].rank = i;
	}
	/* a prompt may have ids that can't be entries */
	own.rank = rank_of(x, id < n_valid ? n_valid : n, id);
	m = put_first(e, k, own);
	for (int i = 0; i < m; i++)
		e[i].value = (float) ((double) e[i].value - norm);
	return m;
}

int
logprobs_sampled(const KSampled *s, Logprob *e)
{
	Logprob		own = {.id = s->id, .rank = s->rank, .value = s->logprob};

	for (int i = 0; i < s->n_top; i++)
		e[i + 1] = (Logprob) {.id = s->top_id[i], .rank = i + 1, .value = s->top_logprob[i]};
	return put_first(e, s->n_top, own);
}

/* ---- prompt tokens ---- */

static LogprobWant
prompt_want(const Req *r)
{
	return (LogprobWant) {.top = r->in.params.out.prompt_logprobs, .logits = r->in.params.out.logits};
}

void
logprobs_prompt_rows(const Req *r, int n, int *out_at, int *n_out)
{
	int			from = (int) r->out.prompt_lp->counts.len - 1;
	int			end = r->kv.computed + n < r->in.n_prompt - 1 ? r->kv.computed + n : r->in.n_prompt - 1;

	if (from < r->kv.computed)
		from = r->kv.computed;
	*out_at = from - r->kv.computed;
	*n_out = end > from ? end - from : 0;
}

typedef struct PromptRun
{
	const PoolStep *step;
	const Req  *r;
	int			pos;			/* position of the first row */
	LogprobWant want;
	int			most;
	Logprob    *e;				/* [rows][most] */
	int		   *n;				/* [rows] */
	int			vocab;
} PromptRun;

static void
prompt_row(void *arg, int i, int ith)
{
	PromptRun  *a = arg;

	(void) ith;
	a->n[i] = logprobs_row(a->step->logits->host + (size_t) i * (size_t) a->vocab, a->vocab, a->step->n_valid,
						   a->r->tokens.data[a->pos + i + 1], &a->want, a->e + (size_t) i * (size_t) a->most);
}

/* Process the wanted rows of one request. */
static void
prompt_rows(const PoolStep *s, const PlanEntry *pe, const float *hidden)
{
	const ModelInfo *info = model_info(s->model);
	const LoraAdapter *const *lora = pe->r->in.lora != NULL ? s->loras : NULL;
	PromptRun	a = {.step = s, .r = pe->r, .want = prompt_want(pe->r), .vocab = info->vocab_size};
	int			chunk;

	a.most = logprobs_most(&a.want, s->n_valid);
	chunk = a.most > MANY_ENTRIES ? 1 : s->max_logits;
	for (int i = 0; pe->r->in.lora != NULL && i < s->max_logits; i++)
		s->loras[i] = pe->r->in.lora;
	a.e = mem_alloc((size_t) chunk * (size_t) a.most * sizeof(Logprob));
	a.n = mem_alloc((size_t) chunk * sizeof(int));
	for (int at = 0; at < pe->n_out; at += chunk)
	{
		int			n = pe->n_out - at < chunk ? pe->n_out - at : chunk;

		a.pos = pe->r->kv.computed + pe->out_at + at;
		model_logits(s->model, hidden + (size_t) at * (size_t) info->hidden_size, lora, n, s->logits->dev);
		core_to_host(s->logits, 0, (size_t) n * (size_t) info->vocab_size);
		kpool_run(s->pool, prompt_row, &a, n);
		for (int i = 0; i < n; i++)
			logprobs_add(pe->r->out.prompt_lp, a.e + (size_t) i * (size_t) a.most, a.n[i]);
	}
	mem_free(a.e);
	mem_free(a.n);
}

void
logprobs_collect(const PoolStep *s, const Plan *plan)
{
	size_t		width = (size_t) model_info(s->model)->hidden_size;
	const float *hidden = s->hidden->dev;

	for (int i = 0; i < plan->n; i++)
	{
		const PlanEntry *pe = &plan->e[i];

		if (pe->n_out > 0 && pe->r->pooled == NULL)
			prompt_rows(s, pe, hidden);
		hidden += (size_t) (pe->n_out + plan_logits(pe)) * width;
	}
}
