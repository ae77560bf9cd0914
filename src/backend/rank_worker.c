/*
 * rank_worker.c
 *	  A rank other than rank 0: it executes the commands that rank 0 writes.
 *
 * One thread reads commands.  A thread of its own loads a model, so that steps of other models go on.
 * The commands come from the same program under the same user.  Sizes are checked nevertheless, since a
 * command that was misread would write to arbitrary addresses.  The process exits when rank 0 has ended.
 *
 * Tested by tests/t/100_ranks.pl.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/alloc.h"
#include "runtime/cpu_threads.h"
#include "runtime/devices.h"
#include "base/id_map.h"
#include "core/kv/fp8_scales.h"
#include "backend/lora_loader.h"
#include "backend/pooling/pooling_inputs.h"
#include "core/ranks/rank_protocol.h"
#include "core/ranks/rank_comm.h"
#include "core/ranks/ranks.h"
#include "backend/weight_source.h"
#include "runtime/engine_syscalls.h"
#include "loader/model_files.h"
#include "ipc/control_protocol.h"

/* A loaded model. */
typedef struct RankWorkerHeld
{
	Model	   *model;
	ModelRanks	shape;			/* the model points to it as long as it lives */
	Dev		   *dev;			/* NULL = CPUs */
	int			ordinal;		/* number of the device */
	const Kernels *kernels;
	KPool	   *pool;
	int			max_rows;
	int			max_out;
	KvView		kv;
	DevMem		kv_area;
	DevMem		state_area;
	DevMem		out;			/* logits or hidden rows, which only rank 0 reads from its own copy */
	DevMem		in;				/* hidden rows for which rank 0 wants logits */
	float	   *scales;			/* computed scales of an FP8 KV cache; NULL: use the checkpoint's */
	int			slots;
	bool		weights_dropped;	/* its weights are in a file, or dropped without one */
	HugePages	huge;
	RankCommOpening opening;
	const int32_t **tables;		/* [max_rows] */
	const float **embeds;		/* [max_rows] */
	const LoraAdapter **loras;	/* [max_rows] */
} RankWorkerHeld;

static struct
{
	GroupMem	mem;
	RankPlace	place;
	int			replica;
	Settings	set;
	IdMap		models;			/* RankWorkerHeld by id */
	IdMap		loras;			/* LoraAdapter by id */
	int			on_device;		/* models on a device with memory of its own */
	pthread_mutex_t lock;		/* protects the three above: load threads add models and adapters */
} me = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- loading ---- */

typedef struct Loading
{
	RankLoad	what;
	uint32_t	id;
	RankWorkerHeld *held;
	Files	   *files;
	Source		source;
	char		digest[RANK_DIGEST];
	Err			err;
} Loading;

/* Load the model; called under the guard of the files (load_read_guard()). */
static void
load_model(void *arg)
{
	Loading    *l = arg;
	ModelSource src = source_of(&l->source);
	char	   *id = l->what.cache_dir[0] != '\0' ? files_contents_id(l->source.files) : NULL;
	ModelOptions mo = {
		.kernels = l->held->kernels,.pool = l->held->pool,.max_rows = l->what.max_rows,
		.max_out = l->what.max_out, .max_model_len = l->what.max_model_len,
		.quant = model_opts_scheme(&l->what.opts),.huge = l->what.huge, .cache_dir = l->what.cache_dir,
		.cache_id = id,.ranks = &l->held->shape,.dev = l->held->dev
	};

	l->held->model = model_new(files_conf(l->source.files), &src, &mo, &l->err);
	if (l->held->model != NULL)
		rank_digest(l->held->model, l->source.files, l->digest);
	mem_free(id);
}

/*
 * Count a model on the device of that number, or uncount it; rank 0 is told the device while there is a
 * model.
 */
static void
note_device(int ordinal, int models)
{
	pthread_mutex_lock(&me.lock);
	me.on_device += models;
	ASSERT(me.on_device >= 0);
	groupmem_publish(&me.mem, me.on_device > 0 ? ordinal + 1 : 0);
	pthread_mutex_unlock(&me.lock);
}

static void
held_free(RankWorkerHeld *h)
{
	if (h == NULL)
		return;
	model_free(h->model);
	if (h->dev != NULL && h->dev->memory > 0)
		note_device(h->ordinal, -1);
	if (h->pool != NULL)
		kpool_free(h->pool);
	devmem_free(&h->kv_area);
	devmem_free(&h->state_area);
	devmem_free(&h->out);
	devmem_free(&h->in);
	devices_close(h->dev);
	mem_free(h->scales);
	mem_free(h->tables);
	mem_free(h->embeds);
	mem_free(h->loras);
	mem_free(h);
}

/* Open the rank's own device, whose ops the model will use. */
static bool
open_device(Loading *l)
{
	Settings	s = me.set;
	DeviceChoice where;
	RankWorkerHeld *h = l->held;

	if (!l->what.on_device)
		return true;
	memcpy(s.device, l->what.device, sizeof(s.device));
	memcpy(s.device_library, l->what.device_library, sizeof(s.device_library));
	if (!devices_choose(&s, me.replica, me.mem.rank, me.mem.world, &where, &l->err))
		return false;
	/* with auto, if the device is no longer usable */
	if (where.ops == NULL)
		return err_set(&l->err, ERR_UNSUPPORTED, "rank %d has no device: %s", me.mem.rank, where.why);
	if (!devices_open(&where, &l->what.open, l->what.dtype, &h->dev, &l->err))
		return false;
	h->ordinal = where.ordinal;
	if (where.memory > 0)
		note_device(where.ordinal, 1);
	h->kernels = h->dev->k;
	kpool_set_device(h->pool, h->dev->d);
	return true;
}

/* Allocate the rows that steps read and write. */
static bool
open_rows(RankWorkerHeld *h, Err *e)
{
	const ModelInfo *info = model_info(h->model);
	size_t		logits = (size_t) h->max_out * (size_t) info->vocab_size;
	size_t		hidden = (size_t) h->max_rows * (size_t) info->hidden_size;

	return devmem_reserve(&h->out, h->dev, (logits > hidden ? logits : hidden) * sizeof(float), HUGE_OFF,
						  "Results of a rank", e) &&
		devmem_reserve(&h->in, h->dev, (size_t) h->max_out * (size_t) info->hidden_size * sizeof(float),
					   HUGE_OFF, "Hidden rows of a rank", e);
}

static bool
load(Loading *l)
{
	RankWorkerHeld *h = l->held;
	const ModelOpts *o = &l->what.opts;
	Err		   *e = &l->err;
	CpuPlan		cpus;
	Err			guard = {0};

	if (!cpuplan_make(me.set.cpu_threads, me.set.cpu_affinity, &cpus, e))
		return false;
	cpuplan_share(&cpus, me.replica * me.mem.world + me.mem.rank, me.set.data_parallel_size * me.mem.world);
	if ((l->source.files = l->files = files_open(l->what.path, e)) == NULL ||
		!source_options(l->files, o, e) || (h->pool = cpuplan_pool(&cpus, e)) == NULL ||
		!open_device(l))
		return false;
	kpool_bind(h->pool);
	if (!load_read_guard(l->files, load_model, l, &guard))
		*e = guard;
	kpool_bind(NULL);
	return h->model != NULL && guard.cls == ERR_NONE && open_rows(h, e);
}

static void *
load_main(void *arg)
{
	Loading    *l = arg;
	RankWorkerHeld *h = l->held;
	bool		ok = load(l);

	source_done(&l->source);
	files_close(l->files);
	if (ok)
	{
		h->tables = mem_alloc((size_t) l->what.max_rows * sizeof(*h->tables));
		h->embeds = mem_alloc((size_t) l->what.max_rows * sizeof(*h->embeds));
		h->loras = mem_alloc((size_t) (l->what.max_rows > l->what.max_out
									   ? l->what.max_rows : l->what.max_out) * sizeof(*h->loras));
		l->err = (Err) {.cls = ERR_NONE};
		snprintf(l->err.msg, sizeof(l->err.msg), "%s", l->digest);
		pthread_mutex_lock(&me.lock);
		ASSERT(idmap_get(&me.models, l->id) == NULL);
		idmap_put(&me.models, l->id, h);
		pthread_mutex_unlock(&me.lock);
	}
	else if (l->err.cls == ERR_LOST)
		devices_lost(l->err.msg);
	else
		held_free(h);
	groupmem_answer(&me.mem, &l->err);
	mem_free(l);
	return NULL;
}

static void
begin_thread(void *(*main) (void *arg), void *arg)
{
	pthread_t	t;

	/* steps have bound this thread to a CPU, and the new thread would inherit that */
	kpool_bind(NULL);
	if (pthread_create(&t, NULL, main, arg) != 0)
	{
		log_line('P', "could not start a thread");
		exit(ENGINE_EXIT_FATAL);
	}
	pthread_detach(t);
}

static void
begin_load(uint32_t id, const void *body, size_t size)
{
	Loading    *l = mem_zalloc(sizeof(Loading));

	ALWAYS(size == sizeof(RankLoad));
	memcpy(&l->what, body, sizeof(RankLoad));
	l->id = id;
	l->held = mem_zalloc(sizeof(RankWorkerHeld));
	l->held->shape = (ModelRanks) {.tp = me.place.tp,.pp = me.place.pp,.experts = l->what.experts,
								   .round_robin = l->what.round_robin,.rows = l->what.rows,
	.lends = l->what.lends,.eplb = l->what.eplb};
	l->held->kernels = kernels_select(l->what.isa, NULL);
	l->held->max_rows = l->what.max_rows;
	l->held->max_out = l->what.max_out;
	l->held->huge = l->what.huge;
	begin_thread(load_main, l);
}

/* ---- adapters ---- */

typedef struct LoraLoading
{
	RankLora	what;
	const Model *model;			/* rank 0 keeps it until this load ends */
} LoraLoading;

static void *
lora_main(void *arg)
{
	LoraLoading *l = arg;
	Err			e = {0};
	LoraAdapter *a = lora_files_load(l->model, l->what.path, l->what.max_rank, l->what.dtype, &e);

	if (a != NULL)
	{
		e.cls = ERR_NONE;
		pthread_mutex_lock(&me.lock);
		ASSERT(idmap_get(&me.loras, l->what.id) == NULL);
		idmap_put(&me.loras, l->what.id, a);
		pthread_mutex_unlock(&me.lock);
	}
	groupmem_answer(&me.mem, &e);
	mem_free(l);
	return NULL;
}

static void
begin_lora(const RankWorkerHeld *h, const RankLora *what)
{
	LoraLoading *l = mem_alloc(sizeof(LoraLoading));

	*l = (LoraLoading) {*what, h->model};
	begin_thread(lora_main, l);
}

/* Look up an id in a map to which load threads add entries. */
static void *
find(IdMap *map, uint32_t id)
{
	void	   *p;

	pthread_mutex_lock(&me.lock);
	p = idmap_get(map, id);
	pthread_mutex_unlock(&me.lock);
	return p;
}

static LoraAdapter *
lora(uint32_t id)
{
	return find(&me.loras, id);
}

/* Free an adapter; does nothing if it could not be loaded. */
static void
drop_lora(uint32_t id)
{
	LoraAdapter *a = lora(id);

	if (a == NULL)
		return;
	pthread_mutex_lock(&me.lock);
	idmap_del(&me.loras, id);
	pthread_mutex_unlock(&me.lock);
	lora_free(a);
}

static RankWorkerHeld *
held(uint32_t id)
{
	return find(&me.models, id);
}

/* ---- sleep ---- */

static void
give_back(RankWorkerHeld *h)
{
	devmem_drop(&h->kv_area);
	devmem_drop(&h->state_area);
}

/* Restore the KV and state memory; on a device it may get another address. */
static bool
take_back(RankWorkerHeld *h, Err *e)
{
	if (!devmem_back(&h->kv_area, e) || !devmem_back(&h->state_area, e))
	{
		give_back(h);
		return false;
	}
	h->kv.base = h->kv_area.base;
	return true;
}

/* Restore the memory for the next step; exit if that fails. */
static void
need_back(RankWorkerHeld *h)
{
	Err			e;

	if (!take_back(h, &e))
	{
		log_line('P', "rank %d can't continue: %s", me.mem.rank, e.msg);
		exit(ENGINE_EXIT_FATAL);
	}
}

typedef struct RankWorkerMoving
{
	RankCmdKind kind;
	RankWorkerHeld *held;			/* rank 0 keeps it until this move ends */
	RankWorkerHeld *from;			/* the instance whose weights are adopted; rank 0 keeps it as long */
	char		dir[4096];
} RankWorkerMoving;

static void *
move_main(void *arg)
{
	RankWorkerMoving *m = arg;
	RankWorkerHeld *h = m->held;
	Err			e = {0};
	bool		ok = true;

	if (m->kind == RC_STORE)
		ok = model_store(h->model, m->dir, &e);
	else if (h->weights_dropped)
		ok = m->kind == RC_FETCH ? model_fetch(h->model, &e) : model_adopt(h->model, m->from->model, &e);
	if (ok)
		h->weights_dropped = m->kind == RC_STORE;
	/*
	 * On a fetch, restore the KV memory here, where rank 0 gets an error as an error of waking; a step
	 * could not report it.  Not on an adoption: the instance that gave the weights still has its memory.
	 */
	if (ok && m->kind == RC_FETCH)
		ok = take_back(h, &e);
	if (ok)
		e.cls = ERR_NONE;
	groupmem_answer(&me.mem, &e);
	mem_free(m);
	return NULL;
}

static void
begin_move(RankCmdKind kind, RankWorkerHeld *h, const void *body, size_t size)
{
	RankWorkerMoving *m = mem_zalloc(sizeof(RankWorkerMoving));
	uint32_t	from = 0;

	m->kind = kind;
	m->held = h;
	if (kind == RC_STORE)
		snprintf(m->dir, sizeof(m->dir), "%.*s", (int) size, (const char *) body);
	else if (kind == RC_ADOPT)
	{
		ALWAYS(size == sizeof(from));
		memcpy(&from, body, sizeof(from));
		m->from = held(from);
		ALWAYS(m->from != NULL);
	}
	begin_thread(move_main, m);
}

/* ---- communicators ---- */

static void
meet(const RankWorkerHeld *h, const char *library)
{
	Err			e = {0};
	char		mine[sizeof(e.msg)];

	if (h->dev == NULL || h->dev->ops->comm == NULL)
		err_set(&e, ERR_UNSUPPORTED, "the device has no communicators");
	else if (rank_meet(h->dev, h->ordinal, library, mine, sizeof(mine), &e))
	{
		e.cls = ERR_NONE;
		memcpy(e.msg, mine, sizeof(mine));
	}
	groupmem_answer(&me.mem, &e);
}

typedef struct RankCommStart
{
	RankWorkerHeld *held;			/* rank 0 keeps it until this ends */
	RankComm	what;
} RankCommStart;

static void *
comm_main(void *arg)
{
	RankCommStart *t = arg;
	Err			e = {0};

	if (rank_connect(&t->held->opening, &me.mem, me.set.tensor_parallel_size, &t->what, t->held->model, &e))
		e.cls = ERR_NONE;
	groupmem_answer(&me.mem, &e);
	mem_free(t);
	return NULL;
}

static void
begin_comm(RankWorkerHeld *h, const RankComm *what)
{
	RankCommStart *t = mem_alloc(sizeof(RankCommStart));

	*t = (RankCommStart) {h, *what};
	begin_thread(comm_main, t);
}

static void
forget(RankWorkerHeld *h)
{
	model_forget(h->model);
	h->weights_dropped = true;
}

/* ---- steps ---- */

static void
open_kv(RankWorkerHeld *h, const RankKv *k)
{
	const ModelInfo *info = model_info(h->model);
	Err			e = {0};
	size_t		size;

	h->slots = k->slots;
	h->kv = (KvView) {
		.type = k->type,.n_layers = info->n_kv_layers,.n_blocks = k->n_blocks,.block_size = k->block_size,
		.n_kv_heads = info->n_kv_heads,.head_dim = info->head_dim,.v_dim = info->v_dim,
		.scales = h->scales != NULL ? h->scales : info->kv_scales
	};
	/* free the memory that was used to compute scales */
	devmem_free(&h->kv_area);
	devmem_free(&h->state_area);
	size = kv_layout(&h->kv);
	if (size == 0)
		err_set(&e, ERR_NOMEM, "out of memory: the KV cache of %d blocks is too large", k->n_blocks);
	else if (devmem_reserve(&h->kv_area, h->dev, size, h->huge, "The KV cache of a rank", &e) &&
			 info->state_bytes > 0)
		(void) devmem_reserve(&h->state_area, h->dev, (size_t) k->slots * info->state_bytes, h->huge,
							  "The recurrent state of a rank", &e);
	h->kv.base = h->kv_area.base;
	groupmem_answer(&me.mem, &e);
}

/* The unread rest of a command's body. */
typedef struct Cut
{
	const uint8_t *at;
	size_t		left;
} Cut;

static const void *
cut(Cut *c, size_t n, size_t size)
{
	const void *p = c->at;

	if (n > c->left / size)
	{
		log_line('P', "a command of rank 0 is too short");
		abort();
	}
	c->at += n * size;
	c->left -= n * size;
	return p;
}

static void
send_largest(RankWorkerHeld *h)
{
	KComm	   *c = me.place.world;
	int32_t		n = h->kv.n_layers;
	float	   *largest = mem_alloc((2 * (size_t) n + 1) * sizeof(float));

	for (int l = 0; l < n; l++)
		h->kernels->kv_largest(h->pool, &h->kv, l, h->kv.n_blocks, largest + 2 * l);
	c->ops->send(c, NULL, &n, sizeof(n), 0);
	c->ops->send(c, NULL, largest, 2 * (size_t) n * sizeof(float), 0);
	mem_free(largest);
}

static void
take_scales(RankWorkerHeld *h, Cut c)
{
	const RankLargest *all = cut(&c, 1, sizeof(RankLargest));
	const float *largest = cut(&c, 2 * (size_t) all->layers, sizeof(float));

	if (all->stage != me.mem.rank / me.set.tensor_parallel_size)
		return;
	ALWAYS(all->layers == h->kv.n_layers);
	mem_free(h->scales);
	h->scales = mem_alloc((2 * (size_t) all->layers + 1) * sizeof(float));
	for (int l = 0; l < all->layers; l++)
		kvscales_of(largest + 2 * l, h->scales + 2 * l);
}

static const int32_t *
cut_ints(Cut *c, int n)
{
	return cut(c, (size_t) n, sizeof(int32_t));
}

static void
cut_tables(Cut *c, const RankWorkerHeld *h, int n_seqs)
{
	for (int s = 0; s < n_seqs; s++)
	{
		int			n = *cut_ints(c, 1);

		h->tables[s] = cut_ints(c, n);
		for (int i = 0; i < n; i++)
			ALWAYS(h->tables[s][i] >= 0 && h->tables[s][i] < h->kv.n_blocks);
	}
}

static void
cut_embeds(Cut *c, const RankWorkerHeld *h, int n_rows, int width)
{
	const int32_t *has = cut_ints(c, n_rows);

	for (int i = 0; i < n_rows; i++)
		h->embeds[i] = has[i] ? cut(c, (size_t) width, sizeof(float)) : NULL;
}

static void
cut_loras(Cut *c, const RankWorkerHeld *h, int n)
{
	const int32_t *ids = cut_ints(c, n);

	for (int i = 0; i < n; i++)
	{
		h->loras[i] = ids[i] != 0 ? lora((uint32_t) ids[i]) : NULL;
		ALWAYS(ids[i] == 0 || h->loras[i] != NULL);
	}
}

static void
forward(RankWorkerHeld *h, Cut c)
{
	const RankStep *s = cut(&c, 1, sizeof(RankStep));
	Batch		b = {
		.rows = {.n_rows = s->n_rows,.n_seqs = s->n_seqs,.block_table = h->tables},.n_out = s->n_out,
		.hidden = s->hidden
	};

	/* the taps' values are not used here, and logits come in a later command */
	ModelTaps	taps = {.all = h->out.base};

	need_back(h);
	b.taps = s->tapped ? &taps : NULL;
	b.state = (float *) h->state_area.base;
	ALWAYS(s->n_rows >= 0 && s->n_rows <= h->max_rows && s->n_seqs >= 0 && s->n_seqs <= s->n_rows &&
		   s->n_out >= 0 && s->n_out <= s->n_rows);
	b.rows.seq_start = cut_ints(&c, s->n_seqs + 1);
	b.rows.pos = cut_ints(&c, s->n_rows);
	b.tokens = cut_ints(&c, s->n_rows);
	b.out_rows = cut_ints(&c, s->n_out);
	if (s->typed)
		b.types = cut_ints(&c, s->n_rows);
	if (s->slotted)
		b.rows.state_slot = cut_ints(&c, s->n_seqs);
	if (s->adapted)
	{
		cut_loras(&c, h, s->n_seqs);
		b.lora = h->loras;
	}
	cut_tables(&c, h, s->n_seqs);
	if (s->embedded)
	{
		cut_embeds(&c, h, s->n_rows, s->width);
		b.embeds = h->embeds;
	}
	if (!model_forward(h->model, &b, &h->kv, h->out.base) && model_lost(h->model))
		devices_lost("the device that a rank computes a model on is lost");
}

static void
logits(RankWorkerHeld *h, Cut c)
{
	size_t		width = (size_t) model_info(h->model)->hidden_size;
	const RankLogits *l = cut(&c, 1, sizeof(RankLogits));
	const float *hidden;

	ALWAYS(l->n >= 0 && l->n <= h->max_out);
	hidden = cut(&c, (size_t) l->n * width, sizeof(float));
	if (l->adapted)
		cut_loras(&c, h, l->n);
	if (h->dev != NULL)
	{
		h->dev->ops->put(h->dev->d, h->in.base, hidden, (size_t) l->n * width * sizeof(float));
		hidden = h->in.base;
	}
	model_logits(h->model, hidden, l->adapted ? h->loras : NULL, l->n, h->out.base);
}

/*
 * Add this rank's part of the embedding rows of the ids.  A sleeping model has no weights: a late
 * request for rows gets zeros.
 */
static void
rows(RankWorkerHeld *h, Cut c)
{
	size_t		n = c.left / sizeof(int32_t);
	const int32_t *ids = cut_ints(&c, (int) n);
	size_t		width = (size_t) model_info(h->model)->embed_width;
	float	   *out = mem_zalloc((n * width + 1) * sizeof(float));
	size_t		own = 0;

	for (size_t i = 0; i < n; i++)
		if (model_token_rank(h->model, ids[i]) == me.mem.rank)
		{
			if (!h->weights_dropped)
				model_token_row(h->model, ids[i], out + own * width);
			own++;
		}
	me.place.world->ops->send(me.place.world, NULL, out, own * width * sizeof(float), 0);
	mem_free(out);
}

static void
copy(RankWorkerHeld *h, Cut c)
{
	size_t		n = c.left / sizeof(BlockCopy);
	const BlockCopy *copies = cut(&c, n, sizeof(BlockCopy));

	for (size_t i = 0; i < n; i++)
		ALWAYS(copies[i].from >= 0 && copies[i].from < h->kv.n_blocks && copies[i].to >= 0 &&
			   copies[i].to < h->kv.n_blocks);
	need_back(h);
	h->kernels->kv_copy(h->pool, &h->kv, (const int32_t *) copies, (int) n);
}

static void
execute(const RankCmd *cmd, const uint8_t *body)
{
	RankWorkerHeld *h = cmd->kind == RC_LOAD || cmd->kind == RC_UNLORA ? NULL : held(cmd->model);
	Cut			c = {body, (size_t) cmd->size};

	if (cmd->kind == RC_LOAD)
		begin_load(cmd->model, body, (size_t) cmd->size);
	else if (cmd->kind == RC_UNLORA)
		drop_lora(*(const uint32_t *) cut(&c, 1, sizeof(uint32_t)));
	else if (h == NULL)
		return;					/* it could not be loaded, and is freed now */
	else if (cmd->kind == RC_KV)
		open_kv(h, cut(&c, 1, sizeof(RankKv)));
	else if (cmd->kind == RC_FORWARD)
	{
		kpool_bind(h->pool);
		forward(h, c);
	}
	else if (cmd->kind == RC_LOGITS)
		logits(h, c);
	else if (cmd->kind == RC_COPY)
		copy(h, c);
	else if (cmd->kind == RC_ROWS)
		rows(h, c);
	else if (cmd->kind == RC_LARGEST)
		send_largest(h);
	else if (cmd->kind == RC_SCALES)
		take_scales(h, c);
	else if (cmd->kind == RC_REST)
		give_back(h);
	else if (cmd->kind == RC_FORGET)
		forget(h);
	else if (cmd->kind == RC_STORE || cmd->kind == RC_FETCH || cmd->kind == RC_ADOPT)
		begin_move(cmd->kind, h, body, (size_t) cmd->size);
	else if (cmd->kind == RC_MEET)
		meet(h, (const char *) body);
	else if (cmd->kind == RC_COMM)
		begin_comm(h, cut(&c, 1, sizeof(RankComm)));
	else if (cmd->kind == RC_APART)
		model_apart(h->model);
	else if (cmd->kind == RC_LORA)
		begin_lora(h, cut(&c, 1, sizeof(RankLora)));
	else
	{
		ALWAYS(cmd->kind == RC_FREE);
		pthread_mutex_lock(&me.lock);
		idmap_del(&me.models, cmd->model);
		pthread_mutex_unlock(&me.lock);
		held_free(h);
	}
}

static void *
beat_main(void *arg)
{
	(void) arg;
	for (;;)
	{
		groupmem_heartbeat(&me.mem);
		usleep(GROUP_BEAT_MS * 1000 / 2);
	}
	return NULL;
}

int
rank_main(int group_fd, int rank, int replica, const Settings *s)
{
	Err			e;
	DeviceChoice choice;
	RankCmd		cmd;
	uint8_t    *body = NULL;
	uint64_t	room = 0;

	signal(SIGPIPE, SIG_IGN);
	me.set = *s;
	me.replica = replica;
	if (!groupmem_open(&me.mem, group_fd, rank, s->tensor_parallel_size * s->pipeline_parallel_size, &e))
	{
		log_line('P', "%s", e.msg);
		return ENGINE_EXIT_FATAL;
	}
	/* look for the device library before the filter of system calls is installed */
	(void) devices_choose(s, replica, rank, s->tensor_parallel_size * s->pipeline_parallel_size, &choice, &e);
	if (!engine_confine(s, &e))
	{
		log_line('P', "%s", e.msg);
		return ENGINE_EXIT_USAGE;
	}
	me.place = rank_place(&me.mem, s->tensor_parallel_size);
	begin_thread(beat_main, NULL);
	while (groupmem_read(&me.mem, &cmd, sizeof(cmd)))
	{
		if (cmd.size > room)
		{
			mem_free(body);
			room = cmd.size;
			body = mem_try_aligned((size_t) room);
			if (body == NULL)
			{
				log_line('P', "out of memory for a command of %zu bytes", (size_t) room);
				return ENGINE_EXIT_FATAL;
			}
		}
		if (!groupmem_read(&me.mem, body, (size_t) cmd.size))
			break;
		execute(&cmd, body);
	}
	return ENGINE_EXIT_OK;
}
