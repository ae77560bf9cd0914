/*
 * spec_draft.c
 *	  Drafts of what has weights of its own (drafter.h): heads, chains and smaller models.
 *
 * Heads want the target's hidden row before a request's last token, which is kept from one step to the next.
 *
 * Chains and models keep K and V of their own, in an area with the target's block numbers, so a request's block table
 * serves for both, and so do sharing, forks and preemption (spec_follow.c).
 *
 * Drafts are the likeliest tokens, or, of a request that draws, those that the sampler draws from the drafter's logits
 * with the noise that it will draw the target's with: the more the two agree, the more often they draw the same.
 *
 * Owner: the step thread.  Tested by tests/unit/test_spec_draft.c.
 */
#include "engine/spec_draft.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

/* ---- a request's ---- */

Follow *
follow_of(const Req *r)
{
	return r->spec != NULL ? r->spec->own : NULL;
}

Follow *
follow_new(Follower *f, Req *r, int done)
{
	Follow	   *w = mem_zalloc(sizeof(*w));

	w->done = done;
	spec_request(f->core->spec, r)->own = w;
	return w;
}

void
follow_keep(const Follower *f, Follow *w, const float *rows, int n)
{
	size_t		width = (size_t) f->d->info.given;

	if (w->have + n > w->cap)
	{
		w->cap = w->have + n;
		w->rows = mem_realloc(w->rows, (size_t) w->cap * width * sizeof(float));
	}
	memcpy(w->rows + (size_t) w->have * width, rows, (size_t) n * width * sizeof(float));
	w->have += n;
}

static void
forget(void *self, Req *r)
{
	Follow	   *w = follow_of(r);

	(void) self;
	if (w == NULL)
		return;
	intvec_free(&w->guesses);
	intvec_free(&w->guess_blocks);
	mem_free(w->rows);
	mem_free(w);
	r->spec->own = NULL;
}

/* ---- heads ---- */

/* Rows of the step's requests that may be asked for: those of their last token and of their drafts. */
static void
heads_step(Follower *f, const Plan *plan, int n_rows)
{
	size_t		width = (size_t) f->d->info.given;
	size_t		at = 0;

	core_to_host(&f->tapped, 0, (size_t) n_rows * width);
	for (int i = 0; i < plan->n; i++)
	{
		const PlanEntry *pe = &plan->e[i];
		Req		   *r = pe->r;
		Follow	   *w = follow_of(r);

		at += (size_t) pe->n_out;
		if (pe->sample && spec_may(r))
		{
			if (w == NULL)
				w = follow_new(f, r, 0);
			w->done = r->computed + pe->n - pe->n_drafts - 1;
			w->have = 0;
			follow_keep(f, w, f->tapped.host + at * width, plan_logits(pe));
		}
		at += (size_t) plan_logits(pe);
	}
}

static void
heads_propose(Follower *f, SpecAsk *asks, int n)
{
	size_t		width = (size_t) f->d->info.given;
	int			most = 0;
	int			m = 0;

	for (int i = 0; i < n; i++)
	{
		const Req  *r = asks[i].r;
		const Follow *w = follow_of(r);
		int			row = w != NULL ? r->computed - 1 - w->done : -1;

		if (row < 0 || row >= w->have)
			continue;
		memcpy(f->given.host + (size_t) m * width, w->rows + (size_t) row * width, width * sizeof(float));
		f->tokens[m] = r->tokens.data[r->tokens.len - 1];
		asks[m++] = asks[i];
		most = asks[i].most > most ? asks[i].most : most;
	}
	if (m == 0)
		return;
	hostdev_put(&f->given, 0, (size_t) m * width);
	f->d->heads(f->d, f->given.dev, f->tokens, m, most, f->ids);
	for (int i = 0; i < m; i++)
		for (int j = 0; j < asks[i].most && f->ids[i * most + j] >= 0 && f->ids[i * most + j] < f->n_valid; j++)
			intvec_push(&asks[i].r->spec->drafts, f->ids[i * most + j]);
}

/* ---- the drafts of logits ---- */

static int32_t
likeliest(const float *x, int n)
{
	int			best = 0;

	for (int i = 1; i < n; i++)
		if (x[i] > x[best])
			best = i;
	return isfinite(x[best]) ? best : -1;
}

/* Does the sampler take but logits, a seed and a position? */
static bool
draws_plainly(const Req *r)
{
	return r->params.temperature > 0 && r->params.rules == NULL && r->params.plugins == 0;
}

void
follow_pick(Follower *f, SpecAsk *const *asks, int n)
{
	int			width = f->vocab;
	int			m = 0;

	for (int i = 0; i < n; i++)
	{
		Req		   *r = asks[i]->r;
		float	   *x = f->logits.host + (size_t) i * (size_t) width;

		if (!draws_plainly(r))
		{
			f->picked[i] = likeliest(x, f->n_valid);
			continue;
		}
		/* the sampler takes numbers only */
		for (int j = 0; j < width; j++)
			x[j] = x[j] > -1e30f ? x[j] : -1e30f;
		f->smp[m] = core_smp_row(r);
		f->smp[m].position += (int) r->spec->drafts.len;
		f->smp[m].logits = x;
		f->smp_of[m++] = i;
	}
	if (m > 0)
		smp_run_rows(f->sampler, f->smp, m, false);
	for (int i = 0; i < m; i++)
		f->picked[f->smp_of[i]] = f->smp[i].id;
}

/* ---- the proposer ---- */

static void
propose(void *self, SpecAsk *asks, int n)
{
	Follower   *f = self;

	if (f->d->info.kind == DRAFT_HEADS)
		heads_propose(f, asks, n);
	else
		follow_propose(f, asks, n);
}

static void
before(void *self, const Plan *plan, Batch *batch)
{
	Follower   *f = self;

	(void) plan;
	if (f->d->info.kind != DRAFT_MODEL)
		batch->taps = &f->taps;
}

static void
step(void *self, const SpecStep *s)
{
	Follower   *f = self;

	if (f->d->info.kind == DRAFT_HEADS)
		heads_step(f, s->plan, s->batch->n_out);
	else
		follow_step(f, s);
}

static void
rest(void *self)
{
	devmem_drop(&((Follower *) self)->area);
}

static bool
back(void *self, Err *e)
{
	Follower   *f = self;

	if (!devmem_back(&f->area, e))
		return false;
	f->kv.base = f->area.base;
	return true;
}

static const KvView *
own_kv(const void *self)
{
	const Follower *f = self;

	return f->d->info.kind == DRAFT_HEADS ? NULL : &f->kv;
}

/* The buffers, and blocks of its own. */
static size_t
memory(const void *self)
{
	const Follower *f = self;
	size_t		rows = (size_t) f->max_rows;
	size_t		seqs = (size_t) f->max_seqs;
	size_t		given = (size_t) f->d->info.given;
	size_t		fed = (size_t) f->d->fed_width;
	size_t		floats = rows * (given + (given > fed ? given : fed)) + 2 * seqs * fed;

	if (f->d->info.kind == DRAFT_HEADS)
		return floats * sizeof(float);
	return (floats + seqs * (size_t) f->vocab) * sizeof(float) +
		(size_t) (f->kv.n_blocks - f->core->kv.n_blocks) * f->kv.block_stride;
}

static void
close_it(void *self)
{
	Follower   *f = self;

	if (f == NULL)
		return;
	smp_free(f->sampler);
	devmem_free(&f->area);
	hostdev_free(&f->tapped);
	hostdev_free(&f->given);
	hostdev_free(&f->fed);
	hostdev_free(&f->logits);
	mem_free(f->carried);
	mem_free(f->tokens);
	mem_free(f->ids);
	mem_free(f->picked);
	mem_free(f->smp);
	mem_free(f->smp_of);
	follow_close(f);
	mem_free(f);
}

static bool
make_buffers(Follower *f, const SpecEnv *env, Err *e)
{
	const Dev  *dev = env->core->opt.dev;
	size_t		fed = (size_t) f->d->fed_width;
	size_t		rows = (size_t) env->max_rows;
	size_t		seqs = (size_t) env->max_seqs;
	size_t		given = (size_t) f->d->info.given;

	f->carried = mem_alloc(seqs * fed * sizeof(float));
	f->tokens = mem_alloc(rows * sizeof(int32_t));
	f->ids = mem_alloc(seqs * SPEC_MAX_DRAFTS * sizeof(int32_t));
	f->picked = mem_alloc(seqs * sizeof(int32_t));
	f->smp = mem_zalloc(seqs * sizeof(SmpRow));
	f->smp_of = mem_alloc(seqs * sizeof(int));
	return hostdev_new(&f->tapped, dev, rows * given, "rows for drafts", e) &&
		hostdev_new(&f->given, dev, rows * (given > fed ? given : fed), "rows for drafts", e) &&
		hostdev_new(&f->fed, dev, seqs * fed, "rows of drafts", e) &&
		hostdev_new(&f->logits, dev, f->d->info.kind == DRAFT_HEADS ? 0 : seqs * (size_t) f->vocab, "logits of drafts", e);
}

static bool
open_it(const SpecEnv *env, void **out, Err *e)
{
	Drafter    *d = env->core->opt.drafter;
	Follower   *f;

	if (d == NULL || strcmp(d->info.method, env->conf->type->name) != 0)
		return err_set(e, ERR_INTERNAL, "the drafts of method \"%s\" have no weights", env->conf->type->name);
	f = mem_zalloc(sizeof(*f));
	f->core = env->core;
	f->d = d;
	f->vocab = core_info(env->core)->vocab_size;
	f->n_valid = env->n_valid;
	f->max_rows = env->max_rows;
	f->max_seqs = env->max_seqs;
	f->taps.n_layers = d->info.n_layers;
	memcpy(f->taps.layers, d->info.layers, sizeof(f->taps.layers));
	if (!make_buffers(f, env, e))
	{
		close_it(f);
		return false;
	}
	if (d->info.kind == DRAFT_HEADS)
		f->taps.out = f->tapped.dev;
	else if (d->info.n_layers > 0)
		f->taps.mid = f->tapped.dev;
	else
		f->taps.all = f->tapped.dev;
	f->taps.all_raw = d->info.raw;
	f->sampler = smp_new(env->core->opt.pool, f->vocab, env->n_valid);
	if (d->info.kind != DRAFT_HEADS && !follow_open(f, env, e))
	{
		close_it(f);
		return false;
	}
	*out = f;
	return true;
}

#define DRAFTS(symbol, method) \
	const ProposerType proposer_##symbol = { \
		.name = method, .flags = SPEC_DEAR | SPEC_WEIGHTS, .open = open_it, .close = close_it, .propose = propose, .before = before, \
		.step = step, .lost = forget, .forget = forget, .kv = own_kv, .rest = rest, .back = back, .memory = memory \
	};

DRAFTS(draft_model, "draft_model")
DRAFTS(eagle, "eagle")
DRAFTS(eagle3, "eagle3")
DRAFTS(medusa, "medusa")
DRAFTS(mlp_speculator, "mlp_speculator")
DRAFTS(mtp, "mtp")
