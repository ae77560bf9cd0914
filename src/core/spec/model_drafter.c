/*
 * model_drafter.c
 *	  Drafts by models with weights of their own (drafter.h): heads, chains and smaller models.
 *
 * Heads need the target's hidden row before a request's last token; chains need those of the tokens that
 * they have not computed yet.  The rows stay in the ops' memory: the target writes a step's rows after
 * those that are kept from earlier steps, and requests store the indexes of theirs.  When there is no
 * room after the kept rows, the rows that are still needed are compacted.
 *
 * Chains and models have K and V of their own, in an area with the target's block numbers, so a
 * request's block table serves for both, and so do sharing, forks and preemption (draft_kv.c).
 *
 * Drafts are the most likely tokens.  For a request with a temperature the sampler draws them from the
 * drafter's logits with the same noise as it will draw the target's token: the more similar the two
 * distributions are, the more often both draws give the same token.
 *
 * Owner: the step thread.  Tested by tests/unit/core/spec/test_spec_draft.c.
 */
#include "core/spec/model_drafter.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

/* ---- state of a request ---- */

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
	w->next = f->first;
	w->link = &f->first;
	if (w->next != NULL)
		w->next->link = &w->next;
	f->first = w;
	spec_request(f->core->spec, r)->own = w;
	return w;
}

void
follow_keep(Follow *w, int row, int n)
{
	if (w->have + n > w->cap)
	{
		w->cap = w->have + n;
		w->rows = mem_realloc(w->rows, (size_t) w->cap * sizeof(int32_t));
	}
	for (int i = 0; i < n; i++)
		w->rows[w->have++] = row + i;
}

static void
forget(void *self, Req *r)
{
	Follow	   *w = follow_of(r);

	(void) self;
	if (w == NULL)
		return;
	*w->link = w->next;
	if (w->next != NULL)
		w->next->link = w->link;
	intvec_free(&w->draft_ids);
	intvec_free(&w->draft_blocks);
	mem_free(w->rows);
	mem_free(w);
	r->spec->own = NULL;
}

/* ---- rows of the target ---- */

void
follow_gather(Follower *f, const int32_t *from, int n)
{
	const CoreOptions *o = &f->core->opt;
	int			width = f->d->info.given;

	o->kernels->copy_rows(o->pool, f->given.base, width, f->rows.base, width, from, n, width);
}

/*
 * Compact the kept rows.  If there are more than the limit, the rest is dropped, and their requests get
 * no drafts.
 */
static void
compact_kept_rows(Follower *f)
{
	const CoreOptions *o = &f->core->opt;
	int			n = 0;

	memset(f->from, 0, (size_t) f->top * sizeof(int32_t));
	for (const Follow *w = f->first; w != NULL; w = w->next)
		for (int i = 0; i < w->have; i++)
		{
			ALWAYS(w->rows[i] >= 0 && w->rows[i] < f->top);
			f->from[w->rows[i]] = 1;
		}
	/* new index of each row, + 1 */
	for (int i = 0; i < f->top; i++)
		if (f->from[i] != 0)
			f->from[i] = n < f->kept ? ++n : 0;
	for (Follow *w = f->first; w != NULL; w = w->next)
		for (int i = 0; i < w->have; i++)
		{
			w->rows[i] = f->from[w->rows[i]] - 1;
			if (w->rows[i] < 0)
				w->have = 0;
		}
	n = 0;
	for (int i = 0; i < f->top; i++)
		if (f->from[i] != 0)
			f->from[n++] = i;
	if (n > 0)
		o->kernels->keep_rows(o->pool, f->rows.base, sizeof(float), f->from, n, f->d->info.given);
	f->top = n;
}

#define SPARSE	256				/* rows are not compacted while the used ones are less than 4 * (kept +
								 * SPARSE) */

/* Return where the target's n next rows are written. */
static float *
make_room(Follower *f, int n)
{
	int			have = 0;

	for (const Follow *w = f->first; w != NULL; w = w->next)
		have += w->have;
	if (f->top + n > f->kept + f->max_rows || f->top > 4 * (have + SPARSE))
		compact_kept_rows(f);
	f->step_at = f->top;
	f->top += n;
	return (float *) f->rows.base + (size_t) f->step_at * (size_t) f->d->info.given;
}

/* ---- heads ---- */

/* Keep the step's rows that may be needed for drafts: those of last tokens and of drafts. */
static void
heads_step(Follower *f, const Plan *plan)
{
	int			at = f->step_at;

	for (int i = 0; i < plan->n; i++)
	{
		const PlanEntry *pe = &plan->e[i];
		Req		   *r = pe->r;
		Follow	   *w = follow_of(r);

		at += pe->n_out;
		if (pe->sample && spec_may(r))
		{
			if (w == NULL)
				w = follow_new(f, r, 0);
			w->done = r->kv.computed + pe->n - pe->n_drafts - 1;
			w->have = 0;
			follow_keep(w, at, plan_logits(pe));
		}
		at += plan_logits(pe);
	}
}

static void
heads_propose(Follower *f, DraftRequest *reqs, int n)
{
	int			most = 0;
	int			m = 0;

	for (int i = 0; i < n; i++)
	{
		const Req  *r = reqs[i].r;
		const Follow *w = follow_of(r);
		int			row = w != NULL ? r->kv.computed - 1 - w->done : -1;

		if (row < 0 || row >= w->have)
			continue;
		f->from[m] = w->rows[row];
		f->tokens[m] = r->tokens.data[r->tokens.len - 1];
		reqs[m++] = reqs[i];
		most = reqs[i].most > most ? reqs[i].most : most;
	}
	if (m == 0)
		return;
	follow_gather(f, f->from, m);
	f->d->heads(f->d, f->given.base, f->tokens, m, most, f->ids);
	for (int i = 0; i < m; i++)
		for (int j = 0; j < reqs[i].most && f->ids[i * most + j] >= 0 && f->ids[i * most + j] < f->n_valid;
			 j++)
			intvec_push(&reqs[i].r->spec->drafts, f->ids[i * most + j]);
}

/* ---- drafts from logits ---- */

static int32_t
likeliest(const float *x, int n)
{
	int			best = 0;

	for (int i = 1; i < n; i++)
		if (x[i] > x[best])
			best = i;
	return isfinite(x[best]) ? best : -1;
}

/* Return true if sampling r only depends on logits, seed and position. */
static bool
draws_plainly(const Req *r)
{
	return r->in.params.temperature > 0 && r->in.params.rules == NULL && r->in.params.plugins == 0;
}

float *
follow_logits(const Follower *f)
{
	return f->smpdev != NULL ? f->unseen.base : f->logits.dev;
}

static void
sample_on_device(Follower *f, DraftRequest *const *reqs, int n)
{
	for (int i = 0; i < n; i++)
	{
		Req		   *r = reqs[i]->r;

		f->smp[i] = (SampleRow) {.params = &f->greedy};
		if (draws_plainly(r))
		{
			f->smp[i] = core_smp_row(r);
			f->smp[i].position += (int) r->spec->drafts.len;
		}
		f->sampled[i] = smpdev_add(f->smpdev, &f->smp[i], NULL, i);
	}
	smpdev_run(f->smpdev, f->unseen.base);
	core_wait(f->core);
	for (int i = 0; i < n; i++)
		f->sampled_ids[i] = f->sampled[i]->id;
}

void
follow_sample(Follower *f, DraftRequest *const *reqs, int n)
{
	int			width = f->vocab;
	int			m = 0;

	if (f->smpdev != NULL)
	{
		sample_on_device(f, reqs, n);
		return;
	}
	core_to_host(&f->logits, 0, (size_t) n * (size_t) width);
	for (int i = 0; i < n; i++)
	{
		Req		   *r = reqs[i]->r;
		float	   *x = f->logits.host + (size_t) i * (size_t) width;

		if (!draws_plainly(r))
		{
			f->sampled_ids[i] = likeliest(x, f->n_valid);
			continue;
		}
		/* the sampler accepts only finite numbers */
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
		f->sampled_ids[f->smp_of[i]] = f->smp[i].id;
}

/* ---- the proposer ---- */

static void
propose(void *self, DraftRequest *reqs, int n)
{
	Follower   *f = self;

	if (f->d->info.kind == DRAFT_HEADS)
		heads_propose(f, reqs, n);
	else
		follow_propose(f, reqs, n);
}

static void
before(void *self, const Plan *plan, Batch *batch)
{
	Follower   *f = self;
	bool		heads = f->d->info.kind == DRAFT_HEADS;
	float	   *to;

	if (f->d->info.kind == DRAFT_MODEL)
		return;
	/* requests of this step will get newer rows */
	for (int i = 0; i < plan->n && heads; i++)
		if (follow_of(plan->e[i].r) != NULL)
			follow_of(plan->e[i].r)->have = 0;
	to = make_room(f, heads ? batch->n_out : batch->rows.n_rows);
	if (heads)
		f->taps.out = to;
	else if (f->taps.n_layers > 0)
		f->taps.mid = to;
	else
		f->taps.all = to;
	batch->taps = &f->taps;
}

static void
step(void *self, const SpecStep *s)
{
	Follower   *f = self;

	if (f->d->info.kind == DRAFT_HEADS)
		heads_step(f, s->plan);
	else
		follow_step(f, s);
}

/* Return the i-th of its areas in the ops' memory, other than logits that the host reads. */
static DevMem *
area_of(Follower *f, int i)
{
	DevMem	   *all[] = {&f->area, &f->rows, &f->given, &f->fed, &f->carried, &f->unseen};

	return i < (int) (sizeof(all) / sizeof(all[0])) ? all[i] : NULL;
}

static void
rest(void *self)
{
	Follower   *f = self;

	for (int i = 0; area_of(f, i) != NULL; i++)
		devmem_drop(area_of(f, i));
	hostdev_drop(&f->logits);
	smpdev_drop(f->smpdev);
	f->top = 0;
}

static bool
back(void *self, Err *e)
{
	Follower   *f = self;

	for (int i = 0; area_of(f, i) != NULL; i++)
		if (!devmem_back(area_of(f, i), e))
			return false;
	if (f->area.base != NULL)
		follow_blank(f);
	return hostdev_back(&f->logits, e) && smpdev_back(f->smpdev, e);
}

static const KvView *
own_kv(const void *self)
{
	const Follower *f = self;

	return f->d->info.kind == DRAFT_HEADS ? NULL : &f->kv;
}

/* Return the bytes of the buffers, and of the drafter's own blocks. */
static size_t
memory(const void *self)
{
	const Follower *f = self;
	size_t		size = f->rows.size + f->given.size + f->fed.size + f->carried.size + f->unseen.size +
		f->logits.n * sizeof(float);

	if (f->d->info.kind != DRAFT_HEADS)
		size += (size_t) (f->kv.n_blocks - f->core->kv.n_blocks) * f->kv.block_stride;
	return size;
}

static void
close_it(void *self)
{
	Follower   *f = self;

	if (f == NULL)
		return;
	smp_free(f->sampler);
	for (int i = 0; area_of(f, i) != NULL; i++)
		devmem_free(area_of(f, i));
	hostdev_free(&f->logits);
	smpdev_free(f->smpdev);
	mem_free((void *) f->sampled);
	mem_free(f->from);
	mem_free(f->tokens);
	mem_free(f->ids);
	mem_free(f->sampled_ids);
	mem_free(f->smp);
	mem_free(f->smp_of);
	follow_close(f);
	mem_free(f);
}

static bool
make_rows(Follower *f, DevMem *m, int n, int width, Err *e)
{
	return devmem_reserve(m, f->core->opt.dev, (size_t) n * (size_t) width * sizeof(float), HUGE_OFF,
						  "Rows for drafts", e);
}

/* Allocate logits, and what picks drafts from them. */
static bool
make_picker(Follower *f, Err *e)
{
	const CoreOptions *o = &f->core->opt;
	SmpDevSizes smp = {.rows = f->max_seqs, .width = f->vocab, .n_valid = f->n_valid,
					   .tokens = f->core->max_model_len};

	if (!smpdev_new(&f->smpdev, o->dev, o->pool, &smp, e))
		return false;
	if (f->smpdev != NULL)
		return make_rows(f, &f->unseen, f->max_seqs, f->vocab, e);
	return hostdev_new(&f->logits, o->dev, (size_t) f->max_seqs * (size_t) f->vocab, "logits of drafts", e);
}

static bool
make_buffers(Follower *f, const SpecEnv *env, Err *e)
{
	int			given = f->d->info.given;
	size_t		rows = (size_t) env->max_rows;
	size_t		seqs = (size_t) env->max_seqs;

	f->kept = given > 0 ? env->max_seqs * (FOLLOW_FLUSH + 1 + env->conf->n_drafts) : 0;
	f->from = mem_alloc(((size_t) f->kept + rows) * sizeof(int32_t));
	f->tokens = mem_alloc(rows * sizeof(int32_t));
	f->ids = mem_alloc(seqs * SPEC_MAX_DRAFTS * sizeof(int32_t));
	f->sampled_ids = mem_alloc(seqs * sizeof(int32_t));
	f->smp = mem_zalloc(seqs * sizeof(SampleRow));
	f->smp_of = mem_alloc(seqs * sizeof(int));
	f->sampled = mem_alloc(seqs * sizeof(*f->sampled));
	genparams_init(&f->greedy);
	f->greedy.temperature = 0;
	return make_rows(f, &f->rows, f->kept + env->max_rows, given, e) &&
		make_rows(f, &f->given, env->max_rows, given, e) &&
		make_rows(f, &f->fed, env->max_seqs, f->d->fed_width, e) &&
		make_rows(f, &f->carried, env->max_seqs, f->d->fed_width, e) &&
		(f->d->info.kind == DRAFT_HEADS || make_picker(f, e));
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
	f->taps.all_raw = d->info.raw;
	f->sampler = smp_new(env->core->opt.pool, f->vocab, env->n_valid);
	if (!make_buffers(f, env, e))
	{
		close_it(f);
		return false;
	}
	if (d->info.kind != DRAFT_HEADS)
		follow_open(f, env);
	*out = f;
	return true;
}

static bool
open_kv(void *self, Err *e)
{
	Follower   *f = self;

	return f->d->info.kind == DRAFT_HEADS || follow_open_kv(f, e);
}

static size_t
kv_apart(const void *self)
{
	const Follower *f = self;

	return f->d->info.kind == DRAFT_HEADS ? 0 : follow_apart(f);
}

#define DRAFTS(symbol, method) \
	const ProposerType proposer_##symbol = { \
		.name = method, .flags = SPEC_COSTLY | SPEC_WEIGHTS, .open = open_it, .close = close_it, \
		.propose = propose, .before = before, \
		.step = step, .lost = forget, .forget = forget, .kv = own_kv, .open_kv = open_kv, \
		.kv_apart = kv_apart, .rest = rest, .back = back, .memory = memory \
	};

DRAFTS(draft_model, "draft_model")
DRAFTS(eagle, "eagle")
DRAFTS(eagle3, "eagle3")
DRAFTS(medusa, "medusa")
DRAFTS(mlp_speculator, "mlp_speculator")
DRAFTS(mtp, "mtp")
