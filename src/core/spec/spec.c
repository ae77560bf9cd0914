/*
 * spec.c
 *	  Speculation of one model: which requests get drafts, and what becomes of them.
 *
 * Before each plan the proposer makes drafts for all running requests that decode: only their last token
 * is not computed.  draft_length.c then takes those that are worth a row.
 *
 * Drafts never go beyond the end of a request's output, or the model's length, so no draft needs a block
 * that the request would not need eventually.  There are no drafts for sequences that only compute
 * (pooled ones, and prompt requests of several answers), nor for hypotheses of beam searches, which end
 * with each token.
 *
 * Owner: the step thread.  Tested by tests/unit/core/spec/test_spec.c.
 */
#include "core/spec/spec.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "core/core_state.h"
#include "core/spec/spec_internal.h"

#define MAX_LOGITS	256			/* most rows for drafts in a step; a row takes 4 bytes per id of the
								 * vocabulary */

/* ---- proposers ---- */

#define PROPOSER(symbol, needs) extern const ProposerType proposer_##symbol;
#include "core/spec/spec.def"
#undef PROPOSER

static const ProposerType *const types[] = {
#define PROPOSER(symbol, needs) &proposer_##symbol,
#include "core/spec/spec.def"
#undef PROPOSER
};

#define N_TYPES (sizeof(types) / sizeof(types[0]))

const ProposerType *
proposer_find(const char *name)
{
#define PROPOSER_ALIAS(alias, symbol) \
	if (strcmp(name, #alias) == 0) \
		return &proposer_##symbol;
#include "core/spec/spec.def"
#undef PROPOSER_ALIAS
	for (size_t i = 0; i < N_TYPES; i++)
		if (strcmp(types[i]->name, name) == 0)
			return types[i];
	return NULL;
}

void
proposer_names(Buf *out)
{
	for (size_t i = 0; i < N_TYPES; i++)
		buf_printf(out, "%s%s", i == 0 ? "" : i + 1 < N_TYPES ? ", " : " or ", types[i]->name);
}

/* ---- speculation of a model ---- */

int
core_max_logits(const CoreOptions *opt)
{
	int			more = opt->max_num_seqs * opt->spec.n_drafts;

	if (opt->spec.type == NULL)
		return opt->max_num_seqs;
	return opt->max_num_seqs + (more < MAX_LOGITS ? more : MAX_LOGITS);
}

bool
spec_suits(const ModelInfo *info, Err *e)
{
	if (info->generates && !info->both_ways && info->state_bytes == 0)
		return true;
	err_set(e, ERR_UNSUPPORTED, "speculative_config is not supported with this model");
	return err_detail(e, info->generates &&
					  !info->both_ways ? "It has recurrent state, which can't be rolled back." :
					  "It generates no text.");
}

bool
spec_open(Core *c, const SpecConfig *conf, Spec **out, Err *e)
{
	Spec	   *s;

	*out = NULL;
	if (!spec_suits(core_info(c), e))
	{
		if (!conf->requested)
			log_line('I', "no speculative decoding with this model: %s", e->detail);
		return !conf->requested;
	}
	s = mem_zalloc(sizeof(*s));
	s->conf = *conf;
	s->env = (SpecEnv) {
		.conf = &s->conf, .core = c, .max_seqs = c->opt.max_num_seqs,
			.max_rows = c->opt.max_num_batched_tokens,
		.max_model_len = c->max_model_len, .n_valid = c->defaults.n_valid
	};
	s->reqs = mem_zalloc((size_t) s->env.max_seqs * sizeof(DraftRequest));
	s->max_rows = core_max_logits(&c->opt) < s->env.max_rows ? core_max_logits(&c->opt) : s->env.max_rows;
	s->hits[0] = s->hits[1] = SPEC_HITS;
	for (int i = 0; i < SPEC_GRADES; i++)
		s->graded[i][0] = s->graded[i][1] = SPEC_HITS;
	if (!conf->type->open(&s->env, &s->proposer, e))
	{
		s->proposer = NULL;
		spec_free(s);
		return false;
	}
	*out = s;
	return true;
}

bool
spec_open_kv(Spec *s, Err *e)
{
	s->env.max_model_len = s->env.core->max_model_len;
	return s->conf.type->open_kv == NULL || s->conf.type->open_kv(s->proposer, e);
}

size_t
spec_kv_apart(const Spec *s)
{
	return s->conf.type->kv_apart != NULL ? s->conf.type->kv_apart(s->proposer) : 0;
}

void
spec_free(Spec *s)
{
	if (s == NULL)
		return;
	if (s->proposer != NULL)
		s->conf.type->close(s->proposer);
	mem_free(s->reqs);
	mem_free(s);
}

size_t
spec_memory(const Spec *s)
{
	return s->conf.type->memory != NULL ? s->conf.type->memory(s->proposer) : 0;
}

bool
spec_may(const Req *r)
{
	/* a draft, the token after it, and the one before */
	return r->pooled == NULL && r->in.params.max_tokens - req_n_output(r) > 1 &&
		!(r->group != NULL && (r->group->beam != NULL || r == r->group->prompt_request));
}

SpecReq *
spec_request(Spec *s, Req *r)
{
	if (r->spec == NULL)
	{
		r->spec = mem_zalloc(sizeof(SpecReq));
		memcpy(r->spec->hits, s->hits, sizeof(s->hits));
	}
	return r->spec;
}

/* Return how many drafts r may have. */
static int
room_of(const Spec *s, const Req *r)
{
	int			to_end = r->in.params.max_tokens - req_n_output(r);
	int			to_len = s->env.max_model_len - (int) r->tokens.len;

	if (!spec_may(r) || r->sched.cancelled || req_todo(r) != 1 || req_n_output(r) < 1)
		return 0;
	if (to_len < to_end)
		to_end = to_len;
	/* the last token of an output is never an input */
	return to_end - 1 < s->conf.n_drafts ? to_end - 1 : s->conf.n_drafts;
}

/* Let the proposer make drafts; the plan relies on the limit of each request. */
static void
request_drafts(Spec *s, int n)
{
	s->conf.type->propose(s->proposer, s->reqs, n);
	for (int i = 0; i < n; i++)
		ALWAYS(s->reqs[i].r->spec->drafts.len <= (size_t) s->reqs[i].most);
}

/* Make drafts that take time, for as many of the n requests as worthwhile. */
static void
propose_costly(Spec *s, int n, int n_decoding, bool prompts)
{
	int64_t		start = clock_us();
	int			depth = 0;

	n = spec_afford(s, s->reqs, n, n_decoding, prompts);
	for (int i = 0; i < n; i++)
		depth = s->reqs[i].most > depth ? s->reqs[i].most : depth;
	if (n == 0)
		return;
	request_drafts(s, n);
	spec_drafted(s, depth, clock_us() - start);
}

void
spec_propose(Spec *s, const Sched *sched)
{
	int			n_running = sched_n_running(sched);
	/* a seat is free for a waiting request, and prompts were computed recently */
	bool		prompts = s->mixed && sched_n_waiting(sched) > 0 && n_running < s->env.max_seqs;
	int			n_decoding = 0;
	int			n = 0;

	s->drafting_us = 0;

	for (int i = 0; i < n_running; i++)
	{
		Req		   *r = sched_running(sched, i);
		int			most = room_of(s, r);

		n_decoding += req_todo(r) == 1;
		prompts = prompts || req_todo(r) > 1;
		if (r->spec != NULL)
		{
			intvec_reset(&r->spec->drafts);
			r->spec->grade = 0;
		}
		if (most < 1)
			continue;
		spec_request(s, r);
		ALWAYS(n < s->env.max_seqs && most <= SPEC_MAX_DRAFTS);
		s->reqs[n++] = (DraftRequest) {r, most};
	}
	if (s->conf.max_batch > 0 && n_decoding > s->conf.max_batch)
		return;
	if ((s->conf.type->flags & SPEC_COSTLY) != 0)
		propose_costly(s, n, n_decoding, prompts);
	else if (n > 0)
		request_drafts(s, n);
}

void
spec_before(Spec *s, const Plan *plan, Batch *batch)
{
	if (s->conf.type->before != NULL)
		s->conf.type->before(s->proposer, plan, batch);
}

void
spec_step(Spec *s, const SpecStep *step)
{
	if (s->conf.type->step != NULL)
		s->conf.type->step(s->proposer, step);
}

const KvView *
spec_kv(const Spec *s)
{
	return s->conf.type->kv != NULL ? s->conf.type->kv(s->proposer) : NULL;
}

void
spec_rest(Spec *s)
{
	if (s->conf.type->rest != NULL)
		s->conf.type->rest(s->proposer);
}

bool
spec_back(Spec *s, Err *e)
{
	return s->conf.type->back == NULL || s->conf.type->back(s->proposer, e);
}

void
spec_lost(Spec *s, Req *r)
{
	if (r->spec == NULL)
		return;
	/* they may be of an earlier step, and reach beyond the end when r is admitted again */
	intvec_reset(&r->spec->drafts);
	if (s->conf.type->lost != NULL)
		s->conf.type->lost(s->proposer, r);
}

void
spec_end(Spec *s, Req *r)
{
	if (r->spec == NULL)
		return;
	if (s->conf.type->forget != NULL)
		s->conf.type->forget(s->proposer, r);
	intvec_free(&r->spec->drafts);
	mem_free(r->spec);
	r->spec = NULL;
}
