/*
 * token_logprobs.c
 *	  Log-probabilities of a step's tokens, between sampling and committing.
 *
 * For rows that need them, a copy of the model's logits was kept, or the device that sampled the row has
 * returned them.  When the tokens are known, all threads process the rows.  A request may only collect a
 * limited number, unless it is a stream, which sends them at once.
 *
 * Owner: the step thread.  Tested by tests/unit/core/multi/test_answers.c and tests/golden/logprobs_golden.c.
 */
#include "core/core_state.h"

#include "base/alloc.h"

/* Return true if r wants log-probabilities of its output tokens. */
bool
core_wants_logprobs(const Req *r)
{
	return r->in.params.out.logprobs != LOGPROBS_NONE || r->in.params.out.logprob_ids.len > 0;
}

float *
core_raw_row(const Core *c, int i)
{
	return c->raw + (size_t) i * (size_t) core_info(c)->vocab_size;
}

/* Return the log-probabilities of a request's next token; NULL = it wants none. */
static Logprobs *
token_logprobs(const Core *c, const LogprobRow *row)
{
	const OutParams *o = &row->r->in.params.out;
	LogprobWant want = {.top = o->logprobs, .logits = o->logits};
	Logprobs   *lp;
	Logprob    *e;
	int			n;

	if (row->id < 0 || !core_wants_logprobs(row->r))
		return NULL;
	if (o->logprob_ids.len > 0)
	{
		want.ids = o->logprob_ids.data;
		want.n_ids = (int) o->logprob_ids.len;
	}
	e = mem_alloc((size_t) logprobs_most(&want, c->defaults.n_valid) * sizeof(Logprob));
	n = row->sampled != NULL ? logprobs_sampled(row->sampled, e) :
		logprobs_row(row->raw, core_info(c)->vocab_size, c->defaults.n_valid, row->id, &want, e);
	lp = logprobs_new();
	logprobs_add(lp, e, n);
	mem_free(e);
	return lp;
}

typedef struct NoteRun
{
	const Core *c;
	const LogprobRow *rows;
} NoteRun;

static void
note_one(void *arg, int i, int ith)
{
	const NoteRun *a = arg;
	const LogprobRow *row = &a->rows[i];

	(void) ith;
	row->r->out.token_lp = token_logprobs(a->c, row);
}

void
core_logprobs_of_tokens(const Core *c, const LogprobRow *rows, int n)
{
	NoteRun		run = {c, rows};

	kpool_run(c->opt.pool, note_one, &run, n);
}

/*
 * Compute the log-probabilities of the tokens that a step has sampled, except the first tokens of
 * several answers, which parallel_sampling.c handles.
 */
void
core_logprobs_of_rows(Core *c, const Plan *plan)
{
	int			n = 0;
	int			at = 0;

	for (int i = 0; i < plan->n; i++)
	{
		Req		   *r = plan->e[i].r;

		if (!plan->e[i].sample)
			continue;
		if (core_wants_logprobs(r) && !r->sched.cancelled &&
			(r->group == NULL || r != r->group->prompt_request))
			c->notes[n++] = (LogprobRow) {r, c->rows[at].id, core_raw_row(c, at), c->rows[at].sampled};
		at++;
	}
	core_logprobs_of_tokens(c, c->notes, n);
}

bool
core_has_logprob_space(const Core *c, Req *r, Err *e)
{
	int64_t		most = core_max_entries(c);
	int64_t    *so_far = r->group != NULL ? &r->group->prompt_request->out.n_entries : &r->out.n_entries;

	if (r->out.token_lp == NULL)
		return true;
	*so_far += (int64_t) r->out.token_lp->n;
	/* a stream does not collect them */
	return r->in.stream || *so_far <= most ||
		err_set(e, ERR_TOO_LONG, "more than %lld log-probabilities in one answer", (long long) most);
}
