/*
 * pooling_run.c
 *	  Pooled requests in the core: hidden rows in, vectors out.
 *
 * A pooled request has one or more sequences (chunks of a long text, the two texts of a similarity, a
 * prompt's continuations).  Each is a Req that the scheduler treats like any prompt; when its last row
 * is computed it is finished, without a token.
 *
 *	step thread			pooled_collect(): rows are pooled as they are computed (model/layers/pooler.h);
 *						a sequence's heads run with its last row
 *	output thread		pooled_finish(): joins the sequences' vectors, and applies activations
 *
 * If the op table can pool (pool_rows, on devices), rows stay on the device; the sums have the same bits.
 *
 * The sums of a sequence so far (Req.sum) are dropped with its K and V when it is preempted, and it is
 * pooled again from the start.
 *
 * Log-probabilities: the row of position p gives the log-probability of the token at p + 1, so a
 * sequence's last token is never computed.  The first tokens of all choices are scored with the prompt's
 * last row; a choice of a single token needs no other row.  Longer choices are forks (sched.c), with a
 * row for each token but the last.
 *
 * The first Req owns the Pooled and all its other Reqs, until its last event has been sent.  Tested by
 * tests/unit/core/multi/test_pooled.c.
 */
#include "core/core_internal.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

void
poolspec_free(PoolSpec *p)
{
	for (int i = 0; i < p->n_seqs; i++)
	{
		intvec_free(&p->seqs[i].ids);
		intvec_free(&p->seqs[i].dropped);
	}
	mem_free(p->seqs);
	intvec_free(&p->prompt);
	intvec_free(&p->columns);
	memset(p, 0, sizeof(*p));
}

/* Return the next Req of a request: its first one, which exists already, or a new one. */
static Req *
add_req(Pooled *p, Req *first, int seq)
{
	Req		   *r = p->n_reqs == 0 ? first : group_req_add(first);

	r->pooled = p;
	r->seq.index = seq;
	r->seq.type1_at = seq < 0 ? INT_MAX : p->spec.seqs[seq].type1_at;
	r->seq.seen_to = seq < 0 ? 0 : p->spec.seqs[seq].seen_to;
	p->reqs[p->n_reqs++] = r;
	return r;
}

static void
begin_seq(Pooled *p, Req *r, const ModelInfo *info)
{
	PoolSeq    *s = &p->spec.seqs[r->seq.index];
	const PoolPlan *plan = &info->pools[p->spec.task];

	r->seq.whole = info->both_ways;
	r->tokens = s->ids;
	s->ids = (IntVec) {0};
	p->n_tokens += (int) r->tokens.len;
	/* the tokens before do not attend to these */
	while (plan->unpads && r->tokens.len > 1 && r->tokens.data[r->tokens.len - 1] == plan->pad)
		r->tokens.len--;
	r->in.n_prompt = (int) r->tokens.len;
	switch (pool_plan_rows(plan))
	{
		case PR_FIRST:
			r->seq.out_from = s->skip;
			r->seq.out_to = s->skip + 1;
			break;
		case PR_LAST:
			r->seq.out_from = r->in.n_prompt - 1;
			break;
		case PR_ALL:
			r->seq.out_from = s->skip;
			break;
	}
}

/*
 * Set up the tokens and values of all sequences; with PJ_CHOICES the prompt, and its forks without their
 * tokens.
 */
static void
begin_logprobs(Pooled *p, Req *first)
{
	const IntVec *prompt = &p->spec.prompt;
	bool		choices = p->spec.join == PJ_CHOICES;

	if (choices)
	{
		Req		   *r = add_req(p, first, -1);

		intvec_add(&r->tokens, prompt->data, prompt->len);
		r->in.n_prompt = (int) prompt->len;
		r->seq.out_from = r->in.n_prompt - 1;
	}
	for (int i = 0; i < p->spec.n_seqs; i++)
	{
		const PoolSeq *s = &p->spec.seqs[i];

		p->n_rows[i] = (int) s->ids.len - s->scored_at;
		p->values[i] = mem_zalloc((size_t) (p->n_rows[i] > 0 ? p->n_rows[i] : 1) * sizeof(float));
		p->greedy[i] = 1;
		p->n_tokens += (int) s->ids.len;
		if (!choices || s->ids.len > 1)
		{
			Req		   *r = add_req(p, first, i);

			r->in.n_prompt = (int) (prompt->len + s->ids.len) - 1;
			r->seq.out_from = choices ? (int) prompt->len : s->scored_at - 1;
			if (!choices)
				pooled_fork(r);
		}
	}
	p->n_tokens += (int) prompt->len;
}

void
pooled_fork(Req *r)
{
	const PoolSpec *spec = &r->pooled->spec;

	intvec_add(&r->tokens, spec->prompt.data, spec->prompt.len);
	intvec_add(&r->tokens, spec->seqs[r->seq.index].ids.data, (size_t) r->in.n_prompt - spec->prompt.len);
}

/* If activation is switched on and the model's files have none, use the usual one of the task. */
static PoolAct
activation(const PoolSpec *s, const ModelInfo *info)
{
	PoolAct		usual = info->acts[s->task];

	if (s->activation == 0)
		return PA_NONE;
	if (s->activation < 0 || usual != PA_NONE)
		return usual;
	if (s->task == PT_EMBED || s->task == PT_TOKEN_EMBED)
		return PA_LENGTH1;
	return info->n_labels > 1 ? PA_SOFTMAX : PA_SIGMOID;
}

void
pooled_begin(Req *r, PoolSpec *spec, const ModelInfo *info)
{
	Pooled	   *p = mem_zalloc(sizeof(*p));
	size_t		n = (size_t) spec->n_seqs;

	p->spec = *spec;
	memset(spec, 0, sizeof(*spec));
	p->reqs = mem_zalloc((n + 1) * sizeof(Req *));
	p->values = mem_zalloc(n * sizeof(float *));
	p->n_rows = mem_zalloc(n * sizeof(int));
	p->greedy = mem_zalloc(n * sizeof(int32_t));
	p->width = p->spec.task == PT_LOGPROBS ? 1 : info->pools[p->spec.task].width;
	p->act = activation(&p->spec, info);
	p->unit = p->spec.task != PT_LOGPROBS && info->acts[p->spec.task] == PA_LENGTH1;
	p->by_token = p->spec.task != PT_LOGPROBS && info->pools[p->spec.task].n == 0;
	if (p->spec.task == PT_LOGPROBS)
		begin_logprobs(p, r);
	else
		for (int i = 0; i < p->spec.n_seqs; i++)
			begin_seq(p, add_req(p, r, i), info);
	p->n_left = p->n_reqs;
}

void
pooled_free(Pooled *p)
{
	if (p == NULL)
		return;
	for (int i = 0; i < p->spec.n_seqs; i++)
		mem_free(p->values[i]);
	for (int i = 0; i < p->n_reqs; i++)
	{
		mem_free(p->reqs[i]->sum);
		if (i == 0)
			continue;
		intvec_free(&p->reqs[i]->tokens);
		intvec_free(&p->reqs[i]->kv.blocks);
		mem_free(p->reqs[i]);
	}
	poolspec_free(&p->spec);
	mem_free(p->reqs);
	mem_free(p->values);
	mem_free(p->n_rows);
	mem_free(p->greedy);
	mem_free(p);
}

bool
pooled_check(const Pooled *p, const ModelInfo *info, int max_model_len, Err *e)
{
	if (p->spec.task >= PT_COUNT || !(info->tasks & 1u << p->spec.task))
		return err_set(e, ERR_INTERNAL, "pooled request of task %d, which the model does not have",
					   p->spec.task);
	for (int i = 0; p->spec.task == PT_LOGPROBS && i < p->spec.n_seqs; i++)
		if (p->n_rows[i] < 1 || (p->spec.join != PJ_CHOICES && p->spec.seqs[i].scored_at < 1))
			return err_set(e, ERR_INTERNAL, "sequence of %zu tokens, scored from token %d on",
						   p->spec.seqs[i].ids.len, p->spec.seqs[i].scored_at);
	for (int i = 0; i < p->n_reqs; i++)
	{
		const Req  *r = p->reqs[i];

		if (r->in.n_prompt < 1 || r->seq.out_from < 0 || r->seq.out_from >= r->in.n_prompt)
			return err_set(e, ERR_INTERNAL, "sequence of %d tokens, of which row %d is wanted",
						   r->in.n_prompt, r->seq.out_from);
		if (r->in.n_prompt > max_model_len)
			return err_set(e, ERR_TOO_LONG, "input of %d tokens does not fit the maximum model length of %d",
						   r->in.n_prompt, max_model_len);
	}
	return true;
}

void
pooled_rows(const Req *r, int n, int *out_at, int *n_out)
{
	int			from = r->kv.computed > r->seq.out_from ? r->kv.computed : r->seq.out_from;
	int			end = r->kv.computed + n;

	if (r->seq.out_to > 0 && end > r->seq.out_to)
		end = r->seq.out_to;
	*out_at = from - r->kv.computed;
	*n_out = end > from ? end - from : 0;
}

void
pooled_restart(Req *r)
{
	Pooled	   *p = r->pooled;

	/* log-probabilities are written to fixed places, with the same values again */
	if (p->spec.task == PT_LOGPROBS)
		return;
	mem_free(r->sum);
	r->sum = NULL;
	mem_free(p->values[r->seq.index]);
	p->values[r->seq.index] = NULL;
	p->n_rows[r->seq.index] = 0;
}

/* ---- a step's rows ---- */

/* Make room for n more rows of a sequence's values. */
static float *
more_values(Req *r, int n)
{
	Pooled	   *p = r->pooled;
	size_t		have = (size_t) p->n_rows[r->seq.index] * (size_t) p->width;
	/* the final size: a preempted sequence restarts from 0 */
	int			most = p->by_token ? r->in.n_prompt : 1;

	ALWAYS(p->n_rows[r->seq.index] + n <= most);
	if (p->values[r->seq.index] == NULL)
		p->values[r->seq.index] = mem_alloc((size_t) most * (size_t) p->width * sizeof(float));
	p->n_rows[r->seq.index] += n;
	return p->values[r->seq.index] + have;
}

#define HEAD_ROWS	64			/* most rows at a time, on a device */

static size_t
larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

void
pooled_space(const ModelInfo *info, size_t *in, size_t *out)
{
	*in = *out = 0;
	for (int t = 0; t < PT_COUNT; t++)
	{
		const PoolPlan *p = &info->pools[t];

		*in = larger(*in, (size_t) p->n * (size_t) p->row);
		*out = larger(*out, HEAD_ROWS * larger((size_t) p->row, (size_t) p->width));
	}
}

/*
 * Run a task's head (or, with `layers`, the layers before pooling) on n rows x of so many columns, which
 * are in the ops' memory.  y is host memory: from a device the results are copied in parts.
 */
static void
run_rows(const PoolStep *s, PoolTask t, bool layers, const float *x, int columns, int n, float *y)
{
	const PoolPlan *p = &model_info(s->model)->pools[t];
	size_t		width = (size_t) (layers ? p->row : p->width);

	for (int i = 0; i < n;)
	{
		int			m = s->hidden->on != NULL && n - i > HEAD_ROWS ? HEAD_ROWS : n - i;
		float	   *to = s->hidden->on != NULL ? s->head_out->dev : y;

		if (layers)
			model_pool_rows(s->model, x, m, to);
		else
			model_pool_head(s->model, t, x, m, to);
		if (s->hidden->on != NULL)
		{
			core_to_host(s->head_out, 0, (size_t) m * width);
			memcpy(y, s->head_out->host, (size_t) m * width * sizeof(float));
		}
		x += (size_t) m * (size_t) columns;
		y += (size_t) m * width;
		i += m;
	}
}

/* Run the head on one row in host memory. */
static void
run_host_row(const PoolStep *s, PoolTask t, const float *x, float *y)
{
	const PoolPlan *p = &model_info(s->model)->pools[t];
	const Dev  *dev = s->hidden->on;
	int			columns = p->n * p->row;

	if (dev != NULL)
	{
		dev->ops->put(dev->d, s->head_in->dev, x, (size_t) columns * sizeof(float));
		x = s->head_in->dev;
	}
	run_rows(s, t, false, x, columns, 1, y);
}

/* Return true if this step completes the wanted rows of the sequence. */
static bool
is_last(const PlanEntry *pe)
{
	const Req  *r = pe->r;

	return r->kv.computed + pe->n >= (r->seq.out_to > 0 ? r->seq.out_to : r->in.n_prompt);
}

/*
 * Add the rows of one sequence, which begin at row `at` of the step, to its sums; after the last wanted
 * row, run the head on the sums.
 */
static void
gather(const PoolStep *s, const PlanEntry *pe, size_t at)
{
	Req		   *r = pe->r;
	const ModelInfo *info = model_info(s->model);
	const PoolPlan *plan = &info->pools[r->pooled->spec.task];
	int			width = plan->row;
	int			hidden = info->hidden_size;
	const float *rows = s->hidden->host + at * (size_t) hidden;
	float	   *made = NULL;
	bool		ends = is_last(pe);

	if (r->sum == NULL)
	{
		r->sum = mem_alloc((size_t) plan->n * (size_t) width * sizeof(float));
		for (int k = 0; k < plan->n; k++)
			pool_start(plan->kinds[k], r->sum + k * width, width);
	}
	if (plan->layers)
	{
		made = mem_alloc((size_t) pe->n_out * (size_t) width * sizeof(float));
		run_rows(s, r->pooled->spec.task, true, s->hidden->dev + at * (size_t) hidden, hidden, pe->n_out,
				 made);
		rows = made;
	}
	for (int k = 0; k < plan->n; k++)
	{
		PoolRows	which = pool_rows(plan->kinds[k]);
		float	   *sum = r->sum + k * width;

		for (int i = 0; i < pe->n_out; i++)
		{
			int			pos = r->kv.computed + pe->out_at + i;

			if (which == PR_ALL || pos == (which == PR_FIRST ? r->seq.out_from : r->in.n_prompt - 1))
				pool_add(plan->kinds[k], sum, rows + (size_t) i * (size_t) width, width, pos);
		}
		if (ends)
			pool_end(plan->kinds[k], sum, width, r->seq.out_from, r->in.n_prompt);
	}
	if (ends)
		run_host_row(s, r->pooled->spec.task, r->sum, more_values(r, 1));
	mem_free(made);
}

/* ---- pooling by ops ---- */

/*
 * If the op table can pool, it keeps the sums in the device's memory, next to the hidden rows.
 * Incomplete sums are copied to the host after a step, and back for the next one; complete sums of
 * several sequences go to the head together.
 */

bool
pooled_by_ops(const PoolStep *s)
{
	return s->hidden->on != NULL && s->k->pool_rows != NULL;
}

/* A sequence in a step. */
typedef struct PoolingPart
{
	const PlanEntry *pe;
	int			at;				/* its first row in the step */
} PoolingPart;

/*
 * Select which of n wanted rows of a sequence a pooler takes; they begin with the i-th one of the step,
 * which is row `row` of x.
 */
static KPoolSeq
rows_for(PoolKind k, const PlanEntry *pe, int slot, int i, int n, int row)
{
	const Req  *r = pe->r;
	PoolRows	which = pool_rows(k);
	int			pos = r->kv.computed + pe->out_at + i;
	int			from = pos;
	int			to = pos + n;
	int			one = which == PR_FIRST ? r->seq.out_from : r->in.n_prompt - 1;

	if (which != PR_ALL)
	{
		from = one >= pos && one < to ? one : pos;
		to = one >= pos && one < to ? one + 1 : pos;
	}
	return (KPoolSeq) {
		.slot = slot, .row = row + from - pos, .rows = to - from, .pos = from, .begins = r->sum == NULL &&
			i == 0,
		.by = is_last(pe) && i + n == pe->n_out ? pool_divisor(k, r->seq.out_from, r->in.n_prompt) : 0
	};
}

/* Add the rows of n sequences to their sums; slot i is for part i. */
static void
add_rows(const PoolStep *s, const PoolPlan *plan, const PoolingPart *parts, int n)
{
	int			hidden = model_info(s->model)->hidden_size;
	KPoolSeq   *seqs = mem_alloc((size_t) n * sizeof(KPoolSeq));

	for (int k = 0; k < plan->n; k++)
	{
		for (int i = 0; i < n; i++)
			seqs[i] = rows_for(plan->kinds[k], parts[i].pe, i, 0, parts[i].pe->n_out, parts[i].at);
		s->k->pool_rows(s->pool, pool_how(plan->kinds[k]), s->head_in->dev + k * plan->row,
						plan->n * plan->row, seqs, n, s->hidden->dev, hidden, plan->row);
	}
	mem_free(seqs);
}

/* The same for rows that first pass through layers, in parts. */
static void
add_layers(const PoolStep *s, const PoolPlan *plan, const PoolingPart *part, int slot)
{
	int			hidden = model_info(s->model)->hidden_size;

	for (int i = 0; i < part->pe->n_out; i += HEAD_ROWS)
	{
		int			n = part->pe->n_out - i < HEAD_ROWS ? part->pe->n_out - i : HEAD_ROWS;

		model_pool_rows(s->model, s->hidden->dev + (size_t) (part->at + i) * (size_t) hidden, n,
						s->head_out->dev);
		for (int k = 0; k < plan->n; k++)
		{
			KPoolSeq	seq = rows_for(plan->kinds[k], part->pe, slot, i, n, 0);

			s->k->pool_rows(s->pool, pool_how(plan->kinds[k]), s->head_in->dev + k * plan->row,
							plan->n * plan->row, &seq, 1, s->head_out->dev, plan->row, plan->row);
		}
	}
}

/* Pool the sequences of one task; the complete ones come first. */
static void
gather_parts(const PoolStep *s, PoolTask t, const PoolingPart *parts, int n, int n_last)
{
	const PoolPlan *plan = &model_info(s->model)->pools[t];
	const Dev  *dev = s->hidden->on;
	int			columns = plan->n * plan->row;
	size_t		size = (size_t) columns * sizeof(float);
	float	   *made;

	for (int i = 0; i < n; i++)
		if (parts[i].pe->r->sum != NULL)
			dev->ops->put(dev->d, s->head_in->dev + (size_t) i * (size_t) columns, parts[i].pe->r->sum, size);
	if (!plan->layers)
		add_rows(s, plan, parts, n);
	for (int i = 0; i < n && plan->layers; i++)
		add_layers(s, plan, &parts[i], i);
	core_to_host(s->head_in, (size_t) n_last * (size_t) columns, (size_t) (n - n_last) * (size_t) columns);
	for (int i = n_last; i < n; i++)
	{
		Req		   *r = parts[i].pe->r;

		if (r->sum == NULL)
			r->sum = mem_alloc(size);
		memcpy(r->sum, s->head_in->host + (size_t) i * (size_t) columns, size);
	}
	made = mem_alloc((size_t) (n_last + 1) * (size_t) plan->width * sizeof(float));
	run_rows(s, t, false, s->head_in->dev, columns, n_last, made);
	for (int i = 0; i < n_last; i++)
		memcpy(more_values(parts[i].pe->r, 1), made + (size_t) i * (size_t) plan->width,
			   (size_t) plan->width * sizeof(float));
	mem_free(made);
}

static void
gather_task(const PoolStep *s, PoolTask t, const Plan *plan, PoolingPart *parts)
{
	int			n = 0;
	int			n_last = 0;

	for (int last = 1; last >= 0; last--)
	{
		int			at = 0;

		for (int i = 0; i < plan->n; i++)
		{
			const PlanEntry *pe = &plan->e[i];

			if (pe->n_out > 0 && pe->r->pooled != NULL && pe->r->pooled->spec.task == t &&
				!pe->r->pooled->by_token && is_last(pe) == (last != 0))
				parts[n++] = (PoolingPart) {pe, at};
			at += pe->n_out + plan_logits(pe);
		}
		if (last)
			n_last = n;
	}
	if (n > 0)
		gather_parts(s, t, parts, n, n_last);
}

static void
gather_by_ops(const PoolStep *s, const Plan *plan)
{
	PoolingPart *parts = mem_alloc((size_t) (plan->n + 1) * sizeof(PoolingPart));

	for (int t = PT_NONE + 1; t < PT_LOGPROBS; t++)
		gather_task(s, (PoolTask) t, plan, parts);
	mem_free(parts);
}

/* ---- log-probabilities ---- */

typedef struct PoolingLogprobRow
{
	Req		   *r;
	int			pos;
	double		norm;			/* log of the sum of exp(logits) */
	int32_t		best;
} PoolingLogprobRow;

/* Adjacent rows of the step, of any requests. */
typedef struct LogprobRun
{
	const PoolStep *step;
	int			vocab;
	const float *hidden;		/* of the first row, in the ops' memory */
	PoolingLogprobRow *rows;			/* [max_logits] */
	int			n;
} LogprobRun;

static void
norm_of_row(void *arg, int i, int ith)
{
	LogprobRun *a = arg;

	(void) ith;
	a->rows[i].norm = smp_logsumexp(a->step->logits->host + (size_t) i * (size_t) a->vocab, a->vocab,
									a->step->n_valid, &a->rows[i].best);
}

/* Score the token after a row. */
static void
score(Pooled *p, int seq, const PoolingLogprobRow *row, const float *logits)
{
	const PoolSeq *s = &p->spec.seqs[seq];
	int			at = row->pos + 1 - (int) p->spec.prompt.len;
	int32_t		id = s->ids.data[at];

	p->values[seq][at - s->scored_at] = (float) ((double) logits[id] - row->norm);
	p->greedy[seq] &= row->best == id;
}

static void
score_run(LogprobRun *a)
{
	bool		any = false;

	if (a->n == 0)
		return;
	for (int i = 0; i < a->n; i++)
	{
		a->step->loras[i] = a->rows[i].r->in.lora;
		any = any || a->rows[i].r->in.lora != NULL;
	}
	model_logits(a->step->model, a->hidden, any ? a->step->loras : NULL, a->n, a->step->logits->dev);
	core_to_host(a->step->logits, 0, (size_t) a->n * (size_t) a->vocab);
	kpool_run(a->step->pool, norm_of_row, a, a->n);
	for (int i = 0; i < a->n; i++)
	{
		const PoolingLogprobRow *row = &a->rows[i];
		const float *logits = a->step->logits->host + (size_t) i * (size_t) a->vocab;
		Pooled	   *p = row->r->pooled;

		if (row->r->seq.index >= 0)
			score(p, row->r->seq.index, row, logits);
		for (int k = 0; row->r->seq.index < 0 && k < p->spec.n_seqs; k++)
			score(p, k, row, logits);
	}
	a->n = 0;
}

/* Process the rows of all requests together: the matrix of the vocabulary is read once for many rows. */
static void
logprobs(const PoolStep *s, const Plan *plan)
{
	size_t		width = (size_t) model_info(s->model)->hidden_size;
	LogprobRun	a = {.step = s, .vocab = model_info(s->model)->vocab_size,
		.rows = mem_alloc((size_t) s->max_logits * sizeof(PoolingLogprobRow))};
	const float *row = s->hidden->dev;

	for (int i = 0; i < plan->n; i++)
	{
		const PlanEntry *pe = &plan->e[i];
		bool		ours = pe->n_out > 0 && pe->r->pooled != NULL && pe->r->pooled->spec.task == PT_LOGPROBS;

		if (!ours && pe->n_out + plan_logits(pe) > 0)
			score_run(&a);
		for (int j = 0; ours && j < pe->n_out; j++)
		{
			if (a.n == s->max_logits)
				score_run(&a);
			if (a.n == 0)
				a.hidden = row + (size_t) j * width;
			a.rows[a.n++] = (PoolingLogprobRow) {.r = pe->r, .pos = pe->r->kv.computed + pe->out_at + j};
		}
		row += (size_t) (pe->n_out + plan_logits(pe)) * width;
	}
	score_run(&a);
	mem_free(a.rows);
}

void
pooled_collect(const PoolStep *s, const Plan *plan)
{
	int			width = model_info(s->model)->hidden_size;
	size_t		at = 0;
	bool		scored = false;

	for (int i = 0; i < plan->n; i++)
	{
		const PlanEntry *pe = &plan->e[i];

		if (pe->n_out == 0 || pe->r->pooled == NULL)
			;
		else if (pe->r->pooled->spec.task == PT_LOGPROBS)
			scored = true;
		else if (pe->r->pooled->by_token)
			run_rows(s, pe->r->pooled->spec.task, false, s->hidden->dev + at * (size_t) width, width,
					 pe->n_out, more_values(pe->r, pe->n_out));
		else if (!pooled_by_ops(s))
			gather(s, pe, at);
		at += (size_t) (pe->n_out + plan_logits(pe));
	}
	if (pooled_by_ops(s))
		gather_by_ops(s, plan);
	if (scored)
		logprobs(s, plan);
}

/* ---- results ---- */

static float
dot(const float *a, const float *b, int n)
{
	double		sum = 0;

	for (int i = 0; i < n; i++)
		sum += (double) a[i] * b[i];
	return (float) sum;
}

static bool
all_finite(const Pooled *p)
{
	for (int s = 0; s < p->spec.n_seqs; s++)
		for (size_t i = 0; i < (size_t) p->n_rows[s] * (size_t) p->width; i++)
			if (!isfinite(p->values[s][i]))
				return false;
	return true;
}

/* Average the vectors of a text's chunks, weighted so that each pooled token counts the same. */
static void
mean_of_chunks(const Pooled *p, float *out)
{
	for (int j = 0; j < p->width; j++)
	{
		double		sum = 0;
		double		n = 0;

		for (int s = 0; s < p->spec.n_seqs; s++)
		{
			int			weight = p->reqs[s]->in.n_prompt - p->spec.seqs[s].skip;

			sum += (double) p->values[s][j] * weight;
			n += weight;
		}
		out[j] = (float) (sum / n);
	}
}

/* Remove the rows of dropped tokens. */
static void
drop_rows(Pooled *p)
{
	size_t		width = (size_t) p->width;

	for (int s = 0; s < p->spec.n_seqs; s++)
	{
		const IntVec *dropped = &p->spec.seqs[s].dropped;
		size_t		at = 0;
		int			n = 0;

		for (int i = 0; i < p->n_rows[s]; i++)
		{
			if (at < dropped->len && dropped->data[at] == i)
			{
				at++;
				continue;
			}
			if (n < i)
				memcpy(p->values[s] + (size_t) n * width, p->values[s] + (size_t) i * width,
					   width * sizeof(float));
			n++;
		}
		p->n_rows[s] = n;
	}
}

typedef float Lanes __attribute__((vector_size(16)));

static inline Lanes
times(const float *a, const float *b)
{
	Lanes		x;
	Lanes		y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return x * y;
}

/* The same in floats, for many values: always added in this order. */
static float
dot_lanes(const float *a, const float *b, int n)
{
	Lanes		s0 = {0};
	Lanes		s1 = {0};
	Lanes		s2 = {0};
	Lanes		s3 = {0};
	float		rest = 0;
	int			i = 0;

	for (; i + 16 <= n; i += 16)
	{
		s0 += times(a + i, b + i);
		s1 += times(a + i + 4, b + i + 4);
		s2 += times(a + i + 8, b + i + 8);
		s3 += times(a + i + 12, b + i + 12);
	}
	for (; i < n; i++)
		rest += a[i] * b[i];
	s0 += s1 + (s2 + s3);
	return (s0[0] + s0[1]) + (s0[2] + s0[3]) + rest;
}

/*
 * Return the sum (or mean), over the first text's tokens, of the greatest product with a token of the
 * second.
 */
static float
max_sim(Pooled *p)
{
	double		sum = 0;

	for (int s = 0; s < 2 && p->unit; s++)
		for (int i = 0; i < p->n_rows[s]; i++)
			pool_finish(PA_LENGTH1, 0, p->values[s] + (size_t) i * (size_t) p->width, p->width);
	for (int i = 0; i < p->n_rows[0]; i++)
	{
		float		best = -FLT_MAX;

		for (int j = 0; j < p->n_rows[1]; j++)
			best = fmaxf(best, dot_lanes(p->values[0] + (size_t) i * (size_t) p->width,
										 p->values[1] + (size_t) j * (size_t) p->width, p->width));
		sum += best;
	}
	return (float) (p->spec.mean ? sum / p->n_rows[0] : sum);
}

static float
cosine(Pooled *p)
{
	int			width = 0;

	for (int s = 0; s < 2; s++)
		width = pool_finish(PA_LENGTH1, p->spec.cut, p->values[s], p->width);
	return dot(p->values[0], p->values[1], width);
}

/* Concatenate the rows of all sequences in order; with a step tag only the rows of that token. */
static int
concatenate(const Pooled *p, float *out)
{
	size_t		width = (size_t) p->width;
	int			n = 0;

	for (int s = 0; s < p->spec.n_seqs; s++)
		for (int i = 0; i < p->n_rows[s]; i++)
		{
			const Req  *r = p->reqs[s];

			if (p->by_token && p->spec.step_tag >= 0 &&
				r->tokens.data[r->seq.out_from + i] != p->spec.step_tag)
				continue;
			memcpy(out + (size_t) n * width, p->values[s] + (size_t) i * width, width * sizeof(float));
			n++;
		}
	return n;
}

/* Apply the activation to each row.  If columns are left out, the rows are stored closer together. */
static int
finish_rows(const Pooled *p, float *rows, int n)
{
	const IntVec *columns = &p->spec.columns;
	int			width = columns->len > 0 ? (int) columns->len : p->width;
	float	   *picked = mem_alloc((size_t) width * sizeof(float));
	int			left = width;

	for (int i = 0; i < n; i++)
	{
		const float *row = rows + (size_t) i * (size_t) p->width;

		for (int j = 0; j < width; j++)
			picked[j] = row[columns->len > 0 ? columns->data[j] : j];
		left = pool_finish(p->act, p->spec.dimensions, picked, width);
		if (p->spec.cut > 0 && p->spec.cut < left)
			left = p->spec.cut;
		memcpy(rows + (size_t) i * (size_t) left, picked, (size_t) left * sizeof(float));
	}
	mem_free(picked);
	return left;
}

static bool
no_token_left(Err *e)
{
	err_set(e, ERR_INVALID, "no token of the text is left after the model's skiplist");
	return err_detail(e, "parameter=input");
}

bool
pooled_finish(Pooled *p, ReqEvent *ev, float **space, Err *e)
{
	size_t		rows = 1;
	int			n = 1;
	int			width = p->width;
	float	   *out;

	*space = NULL;
	if (!all_finite(p))
		return err_set(e, ERR_INTERNAL, "model produced non-finite values");
	if (p->by_token)
		drop_rows(p);
	for (int s = 0; s < p->spec.n_seqs; s++)
		rows += (size_t) p->n_rows[s];
	*space = out = mem_alloc(rows * (size_t) p->width * sizeof(float));
	if (p->by_token && p->spec.join == PJ_MAXSIM && (p->n_rows[0] == 0 || p->n_rows[1] == 0))
		return no_token_left(e);
	if (p->spec.join == PJ_COSINE || p->spec.join == PJ_MAXSIM)
	{
		out[0] = p->spec.join == PJ_COSINE ? cosine(p) : max_sim(p);
		width = 1;
	}
	else if (p->spec.task == PT_LOGPROBS)
	{
		concatenate(p, out);
		n = p->spec.n_seqs;
		ev->counts = p->n_rows;
		ev->greedy = p->greedy;
	}
	else
	{
		if (p->spec.join == PJ_CHUNKS && !p->by_token)
			mean_of_chunks(p, out);
		else
			n = concatenate(p, out);
		if (n == 0 && p->spec.step_tag < 0)
			return no_token_left(e);
		if (n == 0)
		{
			err_set(e, ERR_INVALID, "the input has no token %d, which ends a step", p->spec.step_tag);
			return err_detail(e, "parameter=input");
		}
		width = finish_rows(p, out, n);
	}
	ev->values = out;
	ev->n_rows = n;
	ev->width = width;
	return true;
}
