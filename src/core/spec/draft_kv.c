/*
 * draft_kv.c
 *	  A chain or a smaller model as drafter: K and V for the same positions as the target, in the same
 *	  blocks.
 *
 * The drafter computes every row that the target computes: rows of prompts together with the step, so
 * that requests that share blocks, or fork, find both K and V; a request's newest rows when drafts are
 * wanted, in one batch with the first draft, or when there are FOLLOW_FLUSH of them.  Block tables are
 * the target's.  Drafts beyond a request's blocks are computed in blocks of the drafter's own, whose
 * contents are not kept.
 *
 * A model's row is a token.  A chain's row is a token and the target's row of the previous position, and
 * has that position: its K and V can be computed once the token is known.  So the last row of a prompt
 * is missing for requests that share the prompt and continue differently.  Like any error in this file,
 * that can only make drafts worse.
 */
#include "core/spec/model_drafter.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

size_t
drafter_block_bytes(const DraftInfo *info, KType type, int block_size)
{
	KvView		kv = {
		.type = type, .n_layers = info->model.n_kv_layers, .n_blocks = 1, .block_size = block_size,
		.n_kv_heads = info->model.n_kv_heads, .head_dim = info->model.head_dim, .v_dim = info->model.v_dim
	};

	return info->kind == DRAFT_HEADS || kv.n_layers == 0 ? 0 : kv_layout(&kv);
}

/* Return the drafter's own blocks of a request, for drafts beyond the request's blocks. */
static int
extra_blocks(int block_size)
{
	return (SPEC_MAX_DRAFTS + block_size - 1) / block_size + 1;
}

void
follow_blank(Follower *f)
{
	const Dev  *dev = f->area.dev;

	f->kv.base = f->area.base;
	if (dev != NULL)
		dev->ops->fill(dev->d, f->area.base, 0, f->area.size);
}

void
follow_open(Follower *f, const SpecEnv *env)
{
	int			block_size = env->core->opt.block_size;
	size_t		seqs = (size_t) env->max_seqs;
	size_t		rows = (size_t) env->max_rows;

	f->max_len = f->d->info.model.max_model_len;
	f->max_blocks = env->max_model_len / block_size + 1 + extra_blocks(block_size);
	f->pos = mem_alloc(rows * sizeof(int32_t));
	f->seq_start = mem_alloc((seqs + 1) * sizeof(int32_t));
	f->tables = mem_alloc(seqs * sizeof(int32_t *));
	f->table_space = mem_alloc(seqs * (size_t) f->max_blocks * sizeof(int32_t));
	f->out_rows = mem_alloc(seqs * sizeof(int32_t));
	f->out_of = mem_alloc(seqs * sizeof(DraftRequest *));
	f->go_on = mem_alloc(seqs * sizeof(DraftRequest *));
}

size_t
follow_apart(const Follower *f)
{
	const CoreOptions *o = &f->core->opt;

	/* plus the null block */
	return drafter_block_bytes(&f->d->info, o->kv_type,
							   o->block_size) * ((size_t) f->max_seqs * (size_t) extra_blocks(o->block_size) +
												 1);
}

bool
follow_open_kv(Follower *f, Err *e)
{
	const KvView *target = &f->core->kv;
	const ModelInfo *mi = &f->d->info.model;
	size_t		size;
	char		what[80];

	f->kv = (KvView) {
		.type = target->type, .n_layers = mi->n_kv_layers,
			.n_blocks = target->n_blocks + f->max_seqs * extra_blocks(target->block_size),
		.block_size = target->block_size, .n_kv_heads = mi->n_kv_heads, .head_dim = mi->head_dim,
		.v_dim = mi->v_dim
	};
	size = kv_layout(&f->kv);
	snprintf(what, sizeof(what), "The KV cache of the drafts, %d blocks", f->kv.n_blocks);
	if (size == 0)
		return err_set(e, ERR_NOMEM, "out of memory: %s is too large", what);
	if (!devmem_reserve(&f->area, f->core->opt.dev, size, f->core->opt.huge, what, e))
		return false;
	follow_blank(f);
	return true;
}

void
follow_close(Follower *f)
{
	mem_free(f->pos);
	mem_free(f->seq_start);
	mem_free((void *) f->tables);
	mem_free(f->table_space);
	mem_free(f->out_rows);
	mem_free((void *) f->out_of);
	mem_free((void *) f->go_on);
}

/* ---- a batch ---- */

/* A model's row is at its token's position, a chain's one position before. */
static int
ahead(const Follower *f)
{
	return f->d->info.kind == DRAFT_CHAIN;
}

/* Make the request's table for place `seq` of the batch, extended by blocks of the drafter's own. */
static const int32_t *
table_of(Follower *f, const Req *r, int seq)
{
	const Follow *w = follow_of(r);
	int			place = w != NULL ? w->place : 0;
	int32_t    *t = f->table_space + (size_t) seq * (size_t) f->max_blocks;
	int			extra = extra_blocks(f->kv.block_size);
	int			n = (int) r->kv.blocks.len < f->max_blocks - extra ? (int) r->kv.blocks.len :
		f->max_blocks - extra;

	if (n > 0)
		memcpy(t, r->kv.blocks.data, (size_t) n * sizeof(int32_t));
	for (int i = 0; i < extra; i++)
		t[n + i] = f->core->kv.n_blocks + place * extra + i;
	return t;
}

/*
 * Compute the current batch: logits of its n_out rows go to follow_logits(), outputs for the next draft
 * to f->fed.
 */
static void
run(Follower *f, bool fed_back)
{
	const float *given = fed_back ? f->carried.base : f->given.base;
	Batch		b = {
		.rows = {.n_rows = f->n_rows, .n_seqs = f->n_seqs, .pos = f->pos, .seq_start = f->seq_start,
				 .block_table = f->tables},
		.tokens = f->tokens, .given = given, .fed_back = fed_back, .n_out = f->n_out, .out_rows = f->out_rows
	};

	f->seq_start[f->n_seqs] = f->n_rows;
	if (f->n_rows > 0)
	{
		if (ahead(f) && !fed_back)
			follow_gather(f, f->from, f->n_rows);
		f->d->forward(f->d, &b, &f->kv, follow_logits(f), f->fed.base);
	}
	f->n_rows = f->n_seqs = f->n_out = 0;
}

/* The target's rows for a chain: by index, or consecutive ones. */
typedef struct Rows
{
	const int32_t *numbers;		/* NULL = rows from `first` on */
	int			first;
} Rows;

static Rows
rows_after(Rows rows, int n)
{
	return rows.numbers != NULL ? (Rows) {rows.numbers + n, 0} : (Rows) {NULL, rows.first + n};
}

/* Add rows of r from position `from` on to the batch; they must fit. */
static void
add_rows(Follower *f, const Req *r, Rows rows, int from, int n)
{
	ALWAYS(n >= 0 && f->n_rows + n <= f->max_rows && f->n_seqs < f->max_seqs);
	ASSERT(from >= 0 && (size_t) (from + n + ahead(f)) <= r->tokens.len);
	f->seq_start[f->n_seqs] = f->n_rows;
	f->tables[f->n_seqs] = table_of(f, r, f->n_seqs);
	f->n_seqs++;
	for (int i = 0; i < n; i++)
	{
		f->pos[f->n_rows + i] = from + i;
		f->tokens[f->n_rows + i] = r->tokens.data[from + i + ahead(f)];
	}
	for (int i = 0; i < n && ahead(f); i++)
		f->from[f->n_rows + i] = rows.numbers != NULL ? rows.numbers[i] : rows.first + i;
	f->n_rows += n;
}

/* Compute rows whose outputs are not needed, in as many batches as necessary. */
static void
write_rows(Follower *f, const Req *r, Rows rows, int from, int n)
{
	if (n > f->max_len - from)
		n = f->max_len - from;
	while (n > 0)
	{
		int			m = f->max_rows - f->n_rows < n ? f->max_rows - f->n_rows : n;

		if (m == 0 || f->n_seqs == f->max_seqs)
		{
			run(f, false);
			continue;
		}
		add_rows(f, r, rows, from, m);
		rows = rows_after(rows, ahead(f) ? m : 0);
		from += m;
		n -= m;
	}
}

/* ---- rows that the target has computed ---- */

/*
 * For a model: K and V computed for drafts become valid when the drafts are accepted, as long as r has
 * the same blocks.
 */
static void
collect_drafts(const Follower *f, const Req *r, Follow *w)
{
	int			first = w->done;

	for (size_t i = 0; i < w->draft_ids.len; i++)
	{
		size_t		p = (size_t) first + i;
		size_t		block = p / (size_t) f->kv.block_size;

		if (p >= r->tokens.len || block >= r->kv.blocks.len ||
			r->kv.blocks.data[block] != w->draft_blocks.data[i] || r->tokens.data[p] != w->draft_ids.data[i])
			break;
		w->done++;
	}
	intvec_reset(&w->draft_ids);
	intvec_reset(&w->draft_blocks);
}

/* Compute rows whose tokens are known, up to `end` tokens. */
static void
flush(Follower *f, const Req *r, Follow *w, int end)
{
	int			n = end - ahead(f) - w->done;

	if (ahead(f) && n > w->have)
		n = w->have;
	if (n <= 0)
		return;
	write_rows(f, r, (Rows) {w->rows, 0}, w->done, n);
	w->done += n;
	if (ahead(f))
	{
		w->have -= n;
		memmove(w->rows, w->rows + n, (size_t) w->have * sizeof(int32_t));
	}
}

/* Process the rows of one entry, which are the target's rows from `row` on. */
static void
follow_entry(Follower *f, const PlanEntry *pe, int row)
{
	Req		   *r = pe->r;
	Follow	   *w = follow_of(r);
	int			n = pe->n - pe->n_drafts;
	int			end = r->kv.computed + n;
	int			known = end < (int) r->tokens.len - ahead(f) ? end : (int) r->tokens.len - ahead(f);

	if (w == NULL)
	{
		bool		blind = r->in.embeds != NULL;

		if (!blind && known > r->kv.computed)
			write_rows(f, r, (Rows) {NULL, row}, r->kv.computed, known - r->kv.computed);
		if (!pe->sample || !spec_may(r))
			return;
		w = follow_new(f, r, known);
		w->blind = blind;
		if (ahead(f))
			follow_keep(w, row + known - r->kv.computed, end - known + pe->n_drafts);
		return;
	}
	if (w->blind)
		return;
	/* drop rows of wrong drafts, which are after `computed` */
	if (ahead(f) && w->done + w->have > r->kv.computed)
		w->have = r->kv.computed - w->done;
	if (ahead(f) && w->done + w->have == r->kv.computed)
		follow_keep(w, row, pe->n);
	if (end - w->done <= FOLLOW_FLUSH)
		return;
	/* not before: the step's commit decides which drafts are accepted */
	if (!ahead(f))
		collect_drafts(f, r, w);
	flush(f, r, w, end < (int) r->tokens.len ? end : (int) r->tokens.len);
}

void
follow_step(Follower *f, const SpecStep *s)
{
	int			row = f->step_at;

	core_copy_blocks(f->core->opt.kernels, f->core->opt.pool, &f->kv, s->plan);
	for (int i = 0; i < s->plan->n; i++)
	{
		follow_entry(f, &s->plan->e[i], row);
		row += s->plan->e[i].n;
	}
	run(f, false);
}

/* ---- drafts ---- */

/*
 * Collect the drafts of the batch's rows.  Requests that want further drafts are left in go_on, with
 * their rows in f->carried.
 */
static int
take_drafts(Follower *f, int n, int n_go_on)
{
	const CoreOptions *o = &f->core->opt;
	int			width = f->d->fed_width;
	int			m = 0;

	follow_sample(f, f->out_of, n);
	for (int i = 0; i < n; i++)
	{
		DraftRequest *a = f->out_of[i];

		if (f->sampled_ids[i] < 0 || f->sampled_ids[i] >= f->n_valid)
			continue;
		intvec_push(&a->r->spec->drafts, f->sampled_ids[i]);
		if ((int) a->r->spec->drafts.len == a->most)
			continue;
		f->from[m] = i;
		f->go_on[n_go_on + m++] = a;
	}
	/* a drafter without such input has neither array */
	if (width > 0 && m > 0)
		o->kernels->copy_rows(o->pool, (float *) f->carried.base + (size_t) n_go_on * (size_t) width, width,
							  f->fed.base, width, f->from, m, width);
	return n_go_on + m;
}

/*
 * Add rows of r up to that of its last token, after which drafts begin, to the batch.  Returns their
 * number; 0 = none.
 */
static int
first_rows(Follower *f, const Req *r, Follow *w)
{
	int			to = (int) r->tokens.len - ahead(f);

	if (w == NULL || w->blind || (int) r->tokens.len + SPEC_MAX_DRAFTS > f->max_len)
		return 0;
	if (!ahead(f))
		collect_drafts(f, r, w);
	else if (w->done + w->have > to)
		w->have = to - w->done;
	if (ahead(f) && (w->done + w->have != to || w->have == 0))
		return 0;
	if (!ahead(f) && w->done == to)
		w->done--;
	return to - w->done;
}

/* K and V of tokens up to position `end` are computed. */
static void
note_done(Follower *f, const Req *r, Follow *w, int end)
{
	if (ahead(f))
	{
		w->done = end;
		w->have = 0;
		return;
	}
	/* the block of the last token may be released before the target computes the token */
	w->done = end - 1;
	intvec_push(&w->draft_ids, r->tokens.data[end - 1]);
}

/* Note the block of a model's draft, if it will also be the target's block. */
static void
note_block(const Follower *f, const Req *r, Follow *w)
{
	size_t		p = (size_t) w->done + w->draft_blocks.len;
	size_t		block = p / (size_t) f->kv.block_size;

	intvec_push(&w->draft_blocks, block < r->kv.blocks.len ? r->kv.blocks.data[block] : -1);
}

/* Make one more draft for each request in go_on. */
static int
go_on(Follower *f, int n)
{
	ALWAYS(n <= f->max_seqs);
	for (int i = 0; i < n; i++)
	{
		DraftRequest *a = f->go_on[i];
		Req		   *r = a->r;
		Follow	   *w = follow_of(r);
		size_t		k = r->spec->drafts.len;
		int32_t		token = r->spec->drafts.data[k - 1];

		f->seq_start[i] = f->out_rows[i] = i;
		f->tables[i] = table_of(f, r, i);
		f->pos[i] = (int32_t) (r->tokens.len + k) - 1 - ahead(f);
		f->tokens[i] = token;
		f->out_of[i] = a;
		if (!ahead(f))
		{
			intvec_push(&w->draft_ids, token);
			note_block(f, r, w);
		}
	}
	f->n_rows = f->n_seqs = f->n_out = n;
	run(f, true);
	return take_drafts(f, n, 0);
}

void
follow_propose(Follower *f, DraftRequest *reqs, int n)
{
	int			more = 0;

	for (int i = 0; i < n; i++)
	{
		Req		   *r = reqs[i].r;
		Follow	   *w = follow_of(r);
		int			rows = first_rows(f, r, w);

		if (rows == 0 || rows > f->max_rows)
			continue;
		if (f->n_rows + rows > f->max_rows)
		{
			int			n_out = f->n_out;

			run(f, false);
			more = take_drafts(f, n_out, more);
		}
		w->place = i;
		add_rows(f, r, (Rows) {w->rows, 0}, w->done, rows);
		f->out_rows[f->n_out] = f->n_rows - 1;
		f->out_of[f->n_out++] = &reqs[i];
		note_done(f, r, w, w->done + rows);
		if (!ahead(f))
			note_block(f, r, w);
	}
	if (f->n_rows > 0)
	{
		int			n_out = f->n_out;

		run(f, false);
		more = take_drafts(f, n_out, more);
	}
	while (more > 0)
		more = go_on(f, more);
}
