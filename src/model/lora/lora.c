/*
 * lora.c
 *	  Adapters in the model layer: make them from a file's modules, apply them to a step's rows.
 *
 * Rows of a step are grouped by adapter.  All groups' products of a target are two calls of the op table
 * (shrink, expand), after the product with the matrix itself.  Rows without an adapter are in no group,
 * and a step of such rows costs nothing.  When rows are dropped during a step (dec_wanted) the groups
 * are rebuilt.
 *
 * Tested by tests/unit/backend/test_lora_files.c, test_invariance_model.c, kernels/test_lora.c and
 * golden/lora_golden.
 */
#include "model/lora/lora.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/alloc.h"
#include "model/decoder.h"
#include "model/weights/device_placement.h"
#include "model/parallel/shard.h"

/* ---- making an adapter ---- */

/* A module of the files, matched with a place in the model. */
typedef struct LoraMatch
{
	const LoraModule *m;
	const LoraSite *site;
	KType		as;
	size_t		a_bytes;
	size_t		b_bytes;
} LoraMatch;

typedef struct LoraMaking
{
	const Decoder *d;
	const char *path;
	KType		as;
	LoraMatch  *all;
	int			n;
	int			cap;
	size_t		bytes;
	Err		   *e;
} LoraMaking;

static size_t
align64(size_t n)
{
	return (n + 63) & ~(size_t) 63;
}

static int
panels(int n)
{
	return (n + KLORA_PANEL - 1) / KLORA_PANEL;
}

/* Return a name without the words before the layers, which may differ between checkpoints and
 * adapters. */
static const char *
short_name(const char *name)
{
	static const char *const words[] = {
		"model.", "language_model.", "transformer.", "gpt_neox.", "backbone.", "bert.", "roberta.",
		"distilbert.", "mpnet.", "electra.", "ernie.", "new."
	};
	bool		again = true;

	while (again)
	{
		again = false;
		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			if (strncmp(name, words[i], strlen(words[i])) == 0)
			{
				name += strlen(words[i]);
				again = true;
			}
	}
	return name;
}

static bool
float_type(const LoraMaking *u, const LoraModule *m, const KTensor *t)
{
	if (t->type == KT_F32 || t->type == KT_F16 || t->type == KT_BF16)
		return true;
	return err_set(u->e, ERR_UNSUPPORTED,
				   "adapter \"%s\" has weights of type %s for module \"%s\", expected F32, F16 or BF16",
				   u->path, ktype_name(t->type), m->name);
}

/* Check that the shapes are [rank][inputs] and [outputs][rank] with the model's sizes. */
static bool
check_shapes(const LoraMaking *u, const LoraModule *m, const LoraSite *s)
{
	if (m->embedding != s->embedding)
		return err_set(u->e, ERR_UNSUPPORTED,
					   m->embedding ? "adapter \"%s\" has an embedding for module \"%s\", which is none" :
					   "adapter \"%s\" has no embedding for module \"%s\", which is one", u->path, m->name);
	if (m->a->shape[1] == s->k && m->b->shape[0] == s->n_file)
		return true;
	err_set(u->e, ERR_BAD_FILE, "adapter \"%s\" was made for another model", u->path);
	return err_detail(u->e, "Its module \"%s\" has %lld inputs and %lld outputs; the model's has %d and %d.",
					  m->name, (long long) m->a->shape[1], (long long) m->b->shape[0], s->k, s->n_file);
}

static bool
add_match(LoraMaking *u, const LoraModule *m, const LoraSite *s)
{
	LoraMatch  *t;
	size_t		rank = (size_t) m->a->shape[0];

	if (!check_shapes(u, m, s))
		return false;
	/* each output may belong to one part only: lora_expand() runs parts in parallel */
	for (int i = 0; i < u->n; i++)
		if (u->all[i].site == s)
			return err_set(u->e, ERR_BAD_FILE,
						   "adapter \"%s\" has modules \"%s\" and \"%s\", which are the same one of the "
						   "model", u->path, u->all[i].m->name, m->name);
	if (u->n == u->cap)
	{
		u->cap = u->cap > 0 ? 2 * u->cap : 64;
		u->all = mem_realloc(u->all, (size_t) u->cap * sizeof(LoraMatch));
	}
	t = &u->all[u->n++];
	t->m = m;
	t->site = s;
	t->as = u->as != KT_COUNT ? u->as : m->a->type == m->b->type ? m->a->type : KT_F32;
	t->a_bytes = align64(ktype_row_bytes(t->as, (int64_t) rank * s->k_own));
	t->b_bytes = align64(ktype_row_bytes(t->as, (int64_t) rank * panels(s->n) * KLORA_PANEL));
	u->bytes += t->a_bytes + t->b_bytes;
	return true;
}

static void
tensor_row(const KTensor *t, int64_t row, float *out)
{
	kblock_to_float(t->type, (const uint8_t *) t->data + (size_t) row * ktype_row_bytes(t->type, t->shape[1]),
					t->shape[1], out);
}

/* Return true if two rows are equal except for rounding. */
static bool
same_row(const float *x, const float *y, int n, bool exact)
{
	double		diff = 0;
	double		sum = 0;

	for (int i = 0; i < n; i++)
	{
		double		d = fabs((double) x[i] - (double) y[i]);

		/* the number may have been rounded to fewer bits, perhaps twice */
		if (exact && !(d <= fabs((double) y[i]) / 64 + 1e-7))
			return false;
		diff += d * d;
		sum += (double) y[i] * (double) y[i];
	}
	return exact || diff <= sum / 9;
}

/* Check that weights saved with an adapter equal the model's.  A rank compares its own outputs. */
static bool
check_base(const LoraMaking *u, const LoraModule *m, const LoraSite *s)
{
	const Linear *l = s->l == &u->d->head && u->d->c.tied ? &u->d->embed : s->l;
	int			rows = s->embedding ? s->k : s->n_file;
	int			width = s->embedding ? s->n : s->k;
	int			own = s->embedding ? l->n : s->perm == NULL ? rows : s->n;
	int			first = s->embedding && l->all > 0 ? split_at(l->all, u->d->ranks.tp->size,
															  u->d->ranks.tp->rank) : 0;
	KMat		mat;
	bool		exact = l->mat[0].type == KT_F32 || l->mat[0].type == KT_F16 || l->mat[0].type == KT_BF16;
	float	   *x = NULL;
	float	   *y = NULL;
	int			row = 0;

	if (m->base->shape[0] != rows || m->base->shape[1] != width)
	{
		err_set(u->e, ERR_UNSUPPORTED, "adapter \"%s\" has its own weights for module \"%s\", which is not "
									   "supported", u->path, m->name);
		return err_detail(u->e, "They are %lld rows of %lld numbers; the model's are %d of %d.",
						  (long long) m->base->shape[0], (long long) m->base->shape[1], rows, width);
	}
	/* it belongs to another stage */
	if (l->n_mats == 0)
		return true;
	mat = dec_host_mat(u->d, &l->mat[0]);
	x = mem_alloc((size_t) width * sizeof(float));
	y = mem_alloc((size_t) width * sizeof(float));
	for (; row < own; row++)
	{
		u->d->k->mat_row(&mat, row, x);
		tensor_row(m->base, s->embedding || own == rows ? first + row : s->perm[row], y);
		if (!same_row(x, y, width, exact))
			break;
	}
	mem_free(x);
	mem_free(y);
	if (row == own)
		return true;
	err_set(u->e, ERR_UNSUPPORTED, "adapter \"%s\" has its own weights for module \"%s\", which is not "
								   "supported", u->path, m->name);
	return err_detail(u->e, "Those of token %d are not the model's.", first + row);
}

static bool
match_base(const LoraMaking *u, const LoraModule *m)
{
	const char *name = short_name(m->name);

	if (!float_type(u, m, m->base))
		return false;
	for (int i = 0; i < u->d->n_sites; i++)
	{
		const LoraSite *s = &u->d->sites[i];

		if ((s->embedding || s->l == &u->d->head) && strcmp(short_name(s->module), name) == 0)
			return check_base(u, m, s);
	}
	return err_set(u->e, ERR_UNSUPPORTED,
				   "adapter \"%s\" has its own weights for module \"%s\", which is not supported", u->path,
				   m->name);
}

static bool
match_module(LoraMaking *u, const LoraModule *m)
{
	const char *name = short_name(m->name);
	int			n = u->n;

	if (m->base != NULL)
		return match_base(u, m);
	if (!float_type(u, m, m->a) || !float_type(u, m, m->b))
		return false;
	for (int i = 0; i < u->d->n_sites; i++)
		if (strcmp(short_name(u->d->sites[i].module), name) == 0 && !add_match(u, m, &u->d->sites[i]))
			return false;
	if (u->n > n)
		return true;
	err_set(u->e, ERR_UNSUPPORTED, "adapter \"%s\" adds to module \"%s\", which this model doesn't have or "
								   "can't have one for", u->path, m->name);
	return err_hint(u->e, "Adapters may add to the projections of attention and MLP, to the embedding and to "
						  "the head.");
}

/* Convert n numbers to a type.  Return false if one isn't finite. */
static bool
store(KType as, const float *x, int n, void *to)
{
	uint16_t   *h = to;
	bool		ok = true;

	for (int i = 0; i < n; i++)
		ok = ok && isfinite(x[i]) && (as != KT_F16 || fabsf(x[i]) < 65520.0f);
	if (as == KT_F32)
		memcpy(to, x, (size_t) n * sizeof(float));
	else
		for (int i = 0; i < n; i++)
			h[i] = as == KT_F16 ? kf32_to_f16(x[i]) : kf32_to_bf16(x[i]);
	return ok;
}

/* Store A for the inputs that the Linear has; an embedding's is transposed, so that a token has a
 * row. */
static bool
fill_a(const LoraMatch *t, void *to)
{
	int			rank = (int) t->m->a->shape[0];
	int			k = t->site->k;
	size_t		size = ktype_row_bytes(t->as, 1);
	float	   *row = mem_alloc((size_t) k * sizeof(float));
	bool		ok = true;

	for (int r = 0; r < rank; r++)
	{
		tensor_row(t->m->a, r, row);
		if (!t->site->embedding)
			ok = store(t->as, row + t->site->k_from, t->site->k_own,
					   (char *) to + (size_t) r * (size_t) t->site->k_own * size) && ok;
		else
			for (int i = 0; i < k; i++)
				ok = store(t->as, row + i, 1,
						   (char *) to + ((size_t) i * (size_t) rank + (size_t) r) * size) && ok;
	}
	mem_free(row);
	return ok;
}

/* Store B in panels of outputs, in the model's order of outputs. */
static bool
fill_b(const LoraMatch *t, void *to)
{
	int			rank = (int) t->m->b->shape[1];
	size_t		size = ktype_row_bytes(t->as, 1);
	float	   *row = mem_alloc((size_t) rank * sizeof(float));
	bool		ok = true;

	for (int i = 0; i < t->site->n; i++)
	{
		char	   *panel = (char *) to + (size_t) (i / KLORA_PANEL) * (size_t) rank * KLORA_PANEL * size;

		tensor_row(t->m->b, t->site->perm != NULL ? t->site->perm[i] : i, row);
		for (int r = 0; r < rank; r++)
			ok = store(t->as, row + r, 1,
					   panel + ((size_t) r * KLORA_PANEL + (size_t) (i % KLORA_PANEL)) * size) && ok;
	}
	mem_free(row);
	return ok;
}

/* Store all matches in the order of targets, so that the parts of a target are adjacent. */
static bool
fill(LoraMaking *u, LoraAdapter *a)
{
	char	   *at = a->data;
	int			n = 0;

	for (int target = 1; target < a->n_targets; target++)
	{
		LoraTarget *to = &a->targets[target];

		to->parts = &a->parts[n];
		for (int i = 0; i < u->n; i++)
		{
			const LoraMatch *t = &u->all[i];
			KLora	   *p = &a->parts[n];

			if (t->site->target != target)
				continue;
			*p = (KLora) {
				.type = t->as, .rank = (int32_t) t->m->a->shape[0], .k = t->site->k_own, .n = t->site->n,
					.at = to->width,
				.col = t->site->from, .scale = (float) t->m->scale, .a = at, .b = at + t->a_bytes
			};
			if (!fill_a(t, at) || !fill_b(t, at + t->a_bytes))
				return err_set(u->e, ERR_BAD_FILE,
							   "adapter \"%s\" has numbers for module \"%s\" that aren't finite as %s",
							   u->path, t->m->name, ktype_name(t->as));
			at += t->a_bytes + t->b_bytes;
			to->width += p->rank;
			to->n++;
			n++;
		}
		a->width = to->width > a->width ? to->width : a->width;
	}
	/* each match is in one target, and the data have the size that was allocated */
	ALWAYS(n == u->n && (size_t) (at - (char *) a->data) == u->bytes);
	return true;
}

static void
free_data(LoraAdapter *a)
{
	if (a->pinned != NULL)
		a->pinned->ops->unpin(a->pinned->d, a->data);
	else
		mem_free(a->data);
	a->data = NULL;
}

/* Copy an adapter to the device.  Runs in a thread of its own, beside the steps, which don't use the
 * adapter before it is complete. */
static bool
to_device(const Decoder *d, LoraAdapter *a, int n_parts, size_t bytes, Err *e)
{
	const Dev  *dev = d->dev;
	DevMem		work;
	KEvent		put;

	/* the adapter may outlive the model */
	dev_ref(dev);
	if (!devmem_reserve(&a->mem, dev, bytes, HUGE_OFF, "An adapter's matrices", e))
		return false;
	/* Try to reserve what its first step needs (make_space()): there, a failure could only end the
	 * process. */
	if (!devmem_reserve(&work, dev, (size_t) d->max_rows * (size_t) a->width * sizeof(float), HUGE_OFF,
						"An adapter's work space", e))
		return false;
	devmem_free(&work);
	put = dev->ops->kv_put(dev->d, a->mem.base, a->data, bytes);
	while (!dev->ops->event_done(dev->d, put))
		usleep(100);
	for (int i = 0; i < n_parts; i++)
	{
		a->parts[i].a = (const char *) a->mem.base + ((const char *) a->parts[i].a - (const char *) a->data);
		a->parts[i].b = (const char *) a->mem.base + ((const char *) a->parts[i].b - (const char *) a->data);
	}
	free_data(a);
	return true;
}

LoraAdapter *
lora_new(const Decoder *d, const LoraModule *modules, int n, const LoraInfo *info, KType as, const char *path,
		 Err *e)
{
	LoraMaking	u = {.d = d, .path = path, .as = as, .e = e};
	LoraAdapter *a = NULL;
	bool		ok = true;

	for (int i = 0; i < n && ok; i++)
		ok = match_module(&u, &modules[i]);
	if (ok)
	{
		a = mem_zalloc(sizeof(LoraAdapter));
		a->info = *info;
		a->info.bytes = (int64_t) u.bytes;
		a->n_targets = d->n_targets;
		a->targets = mem_zalloc((size_t) a->n_targets * sizeof(LoraTarget));
		a->parts = mem_zalloc((size_t) u.n * sizeof(KLora));
		a->data = d->dev != NULL ? d->dev->ops->pin(d->dev->d, u.bytes) : mem_try_aligned(u.bytes);
		a->pinned = d->dev;
		ok = a->data != NULL ? fill(&u, a) :
			err_set(e, ERR_NOMEM, "out of memory: adapter \"%s\" takes %zu bytes", path, u.bytes);
		ok = ok && (d->dev == NULL || to_device(d, a, u.n, u.bytes, e));
	}
	mem_free(u.all);
	if (ok)
		return a;
	lora_free(a);
	return NULL;
}

void
lora_free(LoraAdapter *a)
{
	const Dev  *dev;

	if (a == NULL)
		return;
	lora_free(a->next);
	if (a->unshare != NULL)
		a->unshare(a->shared);
	mem_free(a->targets);
	mem_free(a->parts);
	if (a->data != NULL)
		free_data(a);
	dev = a->mem.dev;
	devmem_free(&a->mem);
	if (dev != NULL)
		dev_unref(dev);
	mem_free(a);
}

/* ---- a step's rows ---- */

/* Make groups from each row's adapter number. */
static void
make_groups(LoraWork *w, int rows)
{
	memset(w->start, 0, ((size_t) w->n + 1) * sizeof(int32_t));
	for (int i = 0; i < rows; i++)
		if (w->group[i] >= 0)
			w->start[w->group[i] + 1]++;
	for (int g = 0; g < w->n; g++)
		w->start[g + 1] += w->start[g];
	for (int i = 0; i < rows; i++)
		if (w->group[i] >= 0)
			w->rows[w->start[w->group[i]]++] = i;
	/* each start has advanced to the next one's */
	for (int g = w->n; g > 0; g--)
		w->start[g] = w->start[g - 1];
	w->start[0] = 0;
}

/* Return the number of an adapter in this step. */
static int
group_of(LoraWork *w, const LoraAdapter *a, int last)
{
	if (last >= 0 && w->of[last] == a)
		return last;
	for (int g = 0; g < w->n; g++)
		if (w->of[g] == a)
			return g;
	w->of[w->n] = a;
	return w->n++;
}

static void
set_rows(LoraWork *w, int from, int to, const LoraAdapter *a, int *last)
{
	int			g = -1;

	if (a != NULL)
		*last = g = group_of(w, a, *last);
	for (int i = from; i < to; i++)
		w->group[i] = g;
}

/* Make room for this many rows, each with a different adapter. */
static void
make_room(LoraWork *w, int rows)
{
	if (rows <= w->cap)
		return;
	w->of = mem_realloc(w->of, (size_t) rows * sizeof(*w->of));
	w->group = mem_realloc(w->group, (size_t) rows * sizeof(int32_t));
	w->rows = mem_realloc(w->rows, (size_t) rows * sizeof(int32_t));
	w->start = mem_realloc(w->start, ((size_t) rows + 1) * sizeof(int32_t));
	w->cap = rows;
}

static void
free_t(Decoder *d)
{
	if (d->dev != NULL)
		dev_give(d->dev, d->lora.t, d->lora.t_size * sizeof(float));
	else
		mem_free(d->lora.t);
}

/* Make room for t of the widest target, and for the largest possible number of jobs. */
static void
make_space(Decoder *d, int rows)
{
	LoraWork   *w = &d->lora;
	size_t		need;
	int			parts = 0;

	w->ldt = 0;
	for (int g = 0; g < w->n; g++)
	{
		int			most = 0;

		if (w->of[g]->width > w->ldt)
			w->ldt = w->of[g]->width;
		for (int t = 0; t < w->of[g]->n_targets; t++)
			most = w->of[g]->targets[t].n > most ? w->of[g]->targets[t].n : most;
		parts += most;
	}
	if (parts > w->cap_jobs)
	{
		w->jobs = mem_realloc(w->jobs, (size_t) parts * sizeof(KLoraJob));
		w->cap_jobs = parts;
	}
	need = (size_t) rows * (size_t) w->ldt;
	if (need > w->t_size)
	{
		free_t(d);
		w->t = d->dev != NULL ? dev_take(d->dev, need * sizeof(float), "adapters' work space") :
			mem_alloc(need * sizeof(float));
		if (w->t == NULL)
		{
			log_line('P', "out of memory for %zu bytes of adapters' work space", need * sizeof(float));
			abort();
		}
		w->t_size = need;
	}
}

void
dec_lora_begin(Decoder *d)
{
	const KRows *r = &d->b->rows;
	LoraWork   *w = &d->lora;
	int			last = -1;

	w->n = 0;
	if (d->b->lora == NULL)
		return;
	make_room(w, r->n_rows);
	for (int s = 0; s < r->n_seqs; s++)
		set_rows(w, r->seq_start[s], r->seq_start[s + 1], d->b->lora[s], &last);
	make_groups(w, r->n_rows);
	make_space(d, r->n_rows);
}

void
dec_lora_rows(Decoder *d, const LoraAdapter *const *of, int n)
{
	int			last = -1;

	d->lora.n = 0;
	if (of == NULL)
		return;
	make_room(&d->lora, n);
	for (int i = 0; i < n; i++)
		set_rows(&d->lora, i, i + 1, of[i], &last);
	make_groups(&d->lora, n);
	make_space(d, n);
}

void
dec_lora_keep(Decoder *d)
{
	if (d->lora.n == 0)
		return;
	for (int i = 0; i < d->b->n_out; i++)
		d->lora.group[i] = d->lora.group[d->b->out_rows[i]];
	make_groups(&d->lora, d->b->n_out);
}

void
dec_lora_free(Decoder *d)
{
	LoraWork   *w = &d->lora;

	mem_free(w->of);
	mem_free(w->group);
	mem_free(w->rows);
	mem_free(w->start);
	mem_free(w->jobs);
	free_t(d);
	for (int i = 0; i < d->n_sites; i++)
	{
		mem_free(d->sites[i].module);
		mem_free(d->sites[i].perm);
	}
	mem_free(d->sites);
}

/* List a target's jobs for rows from .. to - 1. */
static int
jobs_of(LoraWork *w, int target, int from, int to)
{
	int			n = 0;

	for (int g = 0; g < w->n; g++)
	{
		const LoraTarget *t = &w->of[g]->targets[target];
		int			a = w->start[g];
		int			b = w->start[g + 1];

		while (a < b && w->rows[a] < from)
			a++;
		while (b > a && w->rows[b - 1] >= to)
			b--;
		for (int i = 0; i < t->n && a < b; i++)
			w->jobs[n++] = (KLoraJob) {.p = &t->parts[i], .rows = w->rows + a, .n_rows = b - a};
	}
	return n;
}

void
dec_lora(Decoder *d, int target, const KOp *x, int ldx, int from, int to, float *y, int ldy)
{
	LoraWork   *w = &d->lora;
	int			n = jobs_of(w, target, from, to);

	if (n == 0)
		return;
	d->k->lora_shrink(d->pool, w->jobs, n, x, ldx, w->t, w->ldt);
	d->k->lora_expand(d->pool, w->jobs, n, w->t, w->ldt, y, ldy);
}

void
dec_lora_embed(Decoder *d, float *y)
{
	LoraWork   *w = &d->lora;
	int			n = jobs_of(w, d->embed.lora, 0, d->rows);
	const int32_t *ids = d->b->tokens;

	if (n == 0)
		return;
	/* a row that replaces a token's embedding has no token */
	if (d->b->embeds != NULL)
	{
		for (int i = 0; i < d->rows; i++)
			d->ids[i] = d->b->embeds[i] == NULL ? d->b->tokens[i] : -1;
		ids = d->ids;
	}
	d->k->lora_rows(d->pool, w->jobs, n, ids, w->t, w->ldt);
	d->k->lora_expand(d->pool, w->jobs, n, w->t, w->ldt, y, d->embed.k);
}
