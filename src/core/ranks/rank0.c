/*
 * rank0.c
 *	  Rank 0 of a group: sends commands to the other ranks.
 *
 * Tested by tests/t/100_ranks.pl.
 */
#include "core/ranks/ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/blake2.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/alloc.h"
#include "base/machine/system_memory.h"
#include "runtime/eplb_config.h"
#include "core/ranks/rank_protocol.h"
#include "core/ranks/rank_comm.h"
#include "model/parallel/shard.h"
#include "ipc/control_protocol.h"

#define ASSEMBLE_MS	30000
#define ROWS_BYTES	(4 << 20)	/* bytes of embedding rows requested at once */
#define WAITING_CALL_MS 20		/* how often a waiting thread calls `waits` */
#define WAITING_MAX_US INT64_C(300000000)	/* longest time for which it does */

typedef struct RankGroup
{
	GroupMem	mem;
	RankPlace	place;
	uint32_t	last_id;
	uint32_t	last_opening;	/* of communicators; protected by loading */
	pthread_mutex_t writing;	/* held while a command and its body are written */
	pthread_mutex_t fetching;	/* held by a thread that requests rows until it has them */
	pthread_mutex_t loading;	/* held from RC_LOAD to its answers, and around RC_KV */

	/*
	 * The turn to compute with the other ranks, since all models share their communicators.  Threads
	 * take turns in order of arrival.
	 */
	pthread_mutex_t turns;
	pthread_cond_t turned;
	uint64_t	next_ticket;	/* protected by turns */
	uint64_t	served_ticket;
} RankGroup;

struct RankModel
{
	RankGroup  *of;
	uint32_t	id;
	ModelRanks	shape;
	int			embed_width;
	int			hidden;
	int			block_size;
	bool		waiting;		/* for answers to RC_LOAD */
	RankCommOpening opening;
};

/* settings at the engine's start */
static struct
{
	int			replicas;
	int			world;			/* ranks of each replica; 1 = only this process */
	int			stages;
	bool		experts;
	bool		round_robin;
	bool		rows;
	int			tp;
	bool		eplb;
	char		eplb_config[sizeof(((Settings *) NULL)->eplb_config)];
	RankGroup	of[GROUP_MOST];	/* [replicas] if there are other ranks */
} group = {.replicas = 1,.world = 1,.stages = 1,.tp = 1};

/* text for ranks_exchange() */
static pthread_mutex_t exchange_lock = PTHREAD_MUTEX_INITIALIZER;
static char exchange[128];

static bool
open_group(RankGroup *g, int fd, const Settings *s, int world, Err *e)
{
	pthread_mutex_init(&g->writing, NULL);
	pthread_mutex_init(&g->loading, NULL);
	pthread_mutex_init(&g->fetching, NULL);
	pthread_mutex_init(&g->turns, NULL);
	pthread_cond_init(&g->turned, NULL);
	if (!groupmem_open(&g->mem, fd, 0, world, e))
		return false;
	close(fd);
	if (!groupmem_assemble(&g->mem, ASSEMBLE_MS))
		return err_set(e, ERR_LOST, "not all of %d ranks have started", world);
	g->place = rank_place(&g->mem, s->tensor_parallel_size);
	return true;
}

bool
ranks_open(int group_fd, const Settings *s, Err *e)
{
	int			world = s->tensor_parallel_size * s->pipeline_parallel_size;

	group.replicas = s->data_parallel_size;
	group.experts = s->enable_expert_parallel;
	group.rows = strcmp(s->tensor_parallel_mode, "rows") == 0;
	group.eplb = s->enable_eplb;
	memcpy(group.eplb_config, s->eplb_config, sizeof(group.eplb_config));
	group.round_robin = strcmp(s->expert_placement_strategy, "round_robin") == 0;
	if (group.replicas > 1)
		log_line('I', "each model has %d replicas", group.replicas);
	if (group_fd < 0)
		return true;
	for (int r = 0; r < group.replicas; r++)
		if (!open_group(&group.of[r], group_fd + r, s, world, e))
			return false;
	group.world = world;
	group.stages = s->pipeline_parallel_size;
	log_line('I', "models are shared by %d ranks: columns by %d, layers by %d%s", world,
			 s->tensor_parallel_size, s->pipeline_parallel_size, group.rows ? "; sums are of parts" : "");
	group.tp = s->tensor_parallel_size;
	return true;
}

int
ranks_replicas(void)
{
	return group.replicas;
}

int
ranks_world(void)
{
	return group.world;
}

int
ranks_stages(void)
{
	return group.stages;
}

bool
ranks_shares(const ModelInfo *mi)
{
	return group.world > 1 && !mi->both_ways && mi->n_kv_layers > 0;
}

bool
ranks_eplb(EplbConf *out, Err *e)
{
	*out = (EplbConf) {0};
	if (!group.eplb)
		return true;
	if (!eplb_config_parse(group.eplb_config, out, e))
	{
		err_detail(e, "The setting vllm.eplb_config is invalid.");
		return false;
	}
	if (!group.experts || group.tp == 1)
	{
		err_set(e, ERR_INVALID, "experts can move only between ranks that hold whole experts");
		return err_hint(e, "Turn vllm.enable_expert_parallel on and set vllm.tensor_parallel_size to more "
						   "than 1, or turn vllm.enable_eplb off.");
	}
	out->on = true;
	return true;
}

/* The engine can't continue: exit, and the supervisor restarts all ranks. */
static void __attribute__((noreturn))
lost(const RankGroup *g)
{
	log_line('P', "rank %d of %d has ended or does not respond", groupmem_missed(&g->mem), group.world);
	_exit(ENGINE_EXIT_FATAL);
}

void
ranks_check(void)
{
	for (int r = 0; r < group.replicas && group.world > 1; r++)
		if (groupmem_dead(&group.of[r].mem))
			lost(&group.of[r]);
}

static void
send_to_group(RankGroup *g, RankCmdKind kind, uint32_t model, const void *body, size_t size)
{
	RankCmd		cmd = {kind, model, size};
	bool		ok;

	pthread_mutex_lock(&g->writing);
	ok = groupmem_write(&g->mem, &cmd, sizeof(cmd)) && groupmem_write(&g->mem, body, size);
	pthread_mutex_unlock(&g->writing);
	if (!ok)
		lost(g);
}

static void
send_cmd(const RankModel *m, RankCmdKind kind, const void *body, size_t size)
{
	send_to_group(m->of, kind, m->id, body, size);
}

/*
 * Receive the answers of all other ranks; *e is the first error.  digest: what successful ranks must
 * have read; "" = their answers have no text.
 */
static bool
receive_all(RankGroup *g, const char *digest, Err *e)
{
	bool		ok = true;

	for (int r = 1; r < group.world; r++)
	{
		Err			its;

		if (!groupmem_receive(&g->mem, r, &its))
			lost(g);
		if (its.cls == ERR_NONE && digest[0] != '\0' && strcmp(its.msg, digest) != 0)
		{
			err_set(&its, ERR_LOST, "rank %d has loaded a different model than rank 0", r);
			err_detail(&its, "Their files or configurations differ.");
		}
		if (its.cls != ERR_NONE && ok)
			*e = its;
		ok = ok && its.cls == ERR_NONE;
	}
	return ok;
}

/* ---- a step ---- */

/*
 * Wait for the turn of this model's step.  Steps of several models may be due at the same time, but all
 * ranks compute one step before rank 0 sends the next one.  waits: called now and then while this thread
 * waits, to show that it is alive, but only as long as an operation that does not hang can take; NULL =
 * never.
 */
static void
take_turn(RankGroup *g, void (*waits) (void *ctx), void *ctx)
{
	int64_t		begun = clock_us();
	uint64_t	mine;

	pthread_mutex_lock(&g->turns);
	mine = g->next_ticket++;
	while (g->served_ticket != mine)
	{
		struct timespec ts;

		clock_gettime(CLOCK_REALTIME, &ts);
		ts.tv_nsec += WAITING_CALL_MS * 1000000L;
		ts.tv_sec += ts.tv_nsec / 1000000000;
		ts.tv_nsec %= 1000000000;
		(void) pthread_cond_timedwait(&g->turned, &g->turns, &ts);
		if (waits == NULL || g->served_ticket == mine || clock_us() - begun > WAITING_MAX_US)
			continue;
		pthread_mutex_unlock(&g->turns);
		waits(ctx);
		pthread_mutex_lock(&g->turns);
	}
	pthread_mutex_unlock(&g->turns);
}

static void
end_turn(void *ctx)
{
	RankGroup  *g = ((const RankModel *) ctx)->of;

	pthread_mutex_lock(&g->turns);
	ALWAYS(g->served_ticket < g->next_ticket);
	g->served_ticket++;
	pthread_cond_broadcast(&g->turned);
	pthread_mutex_unlock(&g->turns);
}

static void
add_ints(Buf *b, const int32_t *x, int n)
{
	buf_add(b, (const char *) x, (size_t) n * sizeof(int32_t));
}

static void
add_loras(Buf *b, const LoraAdapter *const *lora, int n)
{
	for (int i = 0; i < n; i++)
	{
		int32_t		number = lora[i] != NULL ? (int32_t) lora[i]->shared : 0;

		add_ints(b, &number, 1);
	}
}

static void
add_tables(Buf *b, const KRows *r, int block_size)
{
	for (int s = 0; s < r->n_seqs; s++)
	{
		int32_t		n = r->pos[r->seq_start[s + 1] - 1] / block_size + 1;

		ASSERT(r->seq_start[s] < r->seq_start[s + 1] && r->seq_start[s + 1] <= r->n_rows);
		add_ints(b, &n, 1);
		add_ints(b, r->block_table[s], n);
	}
}

static void
add_embeds(Buf *b, const Batch *batch, int width)
{
	for (int i = 0; i < batch->rows.n_rows; i++)
	{
		int32_t		has = batch->embeds[i] != NULL;

		add_ints(b, &has, 1);
	}
	for (int i = 0; i < batch->rows.n_rows; i++)
		if (batch->embeds[i] != NULL)
			buf_add(b, (const char *) batch->embeds[i], (size_t) width * sizeof(float));
}

static void
send_forward(void *ctx, const Batch *b)
{
	const RankModel *m = ctx;
	const KRows *r = &b->rows;
	RankStep	s = {
		.n_rows = r->n_rows,.n_seqs = r->n_seqs,.n_out = b->n_out,.width = m->embed_width,.hidden = b->hidden,
		.typed = b->types != NULL,.slotted = r->state_slot != NULL,.embedded = b->embeds != NULL,
		.adapted = b->lora != NULL,.tapped = b->taps != NULL && b->taps->all != NULL
	};
	Buf			body = {0};

	buf_add(&body, (const char *) &s, sizeof(s));
	add_ints(&body, r->seq_start, r->n_seqs + 1);
	add_ints(&body, r->pos, r->n_rows);
	add_ints(&body, b->tokens, r->n_rows);
	add_ints(&body, b->out_rows, b->n_out);
	if (s.typed)
		add_ints(&body, b->types, r->n_rows);
	if (s.slotted)
		add_ints(&body, r->state_slot, r->n_seqs);
	if (s.adapted)
		add_loras(&body, b->lora, r->n_seqs);
	add_tables(&body, r, m->block_size);
	if (s.embedded)
		add_embeds(&body, b, m->embed_width);
	take_turn(m->of, b->wait, b->wait_ctx);
	send_cmd(m, RC_FORWARD, body.data, body.len);
	buf_free(&body);
}

static void
send_logits(void *ctx, const float *hidden, const LoraAdapter *const *lora, int n)
{
	const RankModel *m = ctx;
	RankLogits	l = {n, lora != NULL};
	Buf			body = {0};

	buf_add(&body, (const char *) &l, sizeof(l));
	buf_add(&body, (const char *) hidden, (size_t) n * (size_t) m->hidden * sizeof(float));
	if (l.adapted)
		add_loras(&body, lora, n);
	take_turn(m->of, NULL, NULL);
	send_cmd(m, RC_LOGITS, body.data, body.len);
	buf_free(&body);
}

void
ranks_copy(RankModel *m, const BlockCopy *copies, int n)
{
	if (n > 0)
		send_cmd(m, RC_COPY, copies, (size_t) n * sizeof(*copies));
}

/* ---- load and free a model ---- */

RankModel *
ranks_load(int replica, const char *path, const ModelOpts *o, const ModelOptions *mo, const RankDevice *dev,
		   bool lends)
{
	RankGroup  *g = &group.of[replica];
	RankModel  *m = mem_zalloc(sizeof(RankModel));
	RankLoad   *l = mem_zalloc(sizeof(RankLoad));
	Err			reported_before;

	ALWAYS(replica >= 0 && replica < group.replicas && group.world > 1);
	snprintf(l->path, sizeof(l->path), "%s", path);
	l->opts = *o;
	snprintf(l->isa, sizeof(l->isa), "%s", mo->kernels->name);
	l->max_rows = mo->max_rows;
	l->max_out = mo->max_out;
	l->max_model_len = mo->max_model_len;
	l->huge = mo->huge;
	snprintf(l->cache_dir, sizeof(l->cache_dir), "%s", mo->cache_id != NULL ? mo->cache_dir : "");
	l->experts = group.experts;
	l->round_robin = group.round_robin;
	l->rows = group.rows;
	(void) ranks_eplb(&l->eplb, &reported_before);
	l->lends = lends;
	l->on_device = dev->s != NULL;
	if (l->on_device)
	{
		snprintf(l->device, sizeof(l->device), "%s", dev->s->device);
		snprintf(l->device_library, sizeof(l->device_library), "%s", dev->s->device_library);
		l->open = dev->open;
		l->dtype = dev->dtype;
	}
	pthread_mutex_lock(&g->loading);
	m->of = g;
	m->id = ++g->last_id;
	m->waiting = true;
	m->shape = (ModelRanks) {
		.tp = g->place.tp,.pp = g->place.pp,.experts = group.experts,.round_robin = group.round_robin,
			.rows = group.rows,.lends = lends,.eplb = l->eplb,
		.forward = send_forward,
		.logits = send_logits,.over = end_turn,.ctx = m
	};
	send_cmd(m, RC_LOAD, l, sizeof(*l));
	mem_free(l);
	return m;
}

void
ranks_set_timeout(int ms)
{
	for (int r = 0; r < group.replicas && group.world > 1; r++)
		groupmem_set_timeout(&group.of[r].mem, ms);
}

const ModelRanks *
ranks_of(const RankModel *m)
{
	return m != NULL ? &m->shape : NULL;
}

void
rank_digest(const Model *m, const Files *files, char out[RANK_DIGEST])
{
	uint8_t		sum[BLAKE2_BYTES];
	char	   *id = files_contents_id(files);
	Blake2		b;

	blake2_begin(&b, NULL, 0);
	blake2_add(&b, id, strlen(id));
	blake2_add(&b, model_plan(m), SPLIT_DIGEST);
	blake2_end(&b, sum);
	for (int i = 0; i < BLAKE2_BYTES; i++)
		snprintf(out + 2 * i, 3, "%02x", sum[i]);
	mem_free(id);
}

bool
ranks_loaded(RankModel *m, const Model *own, const Files *files, Err *e)
{
	char		digest[RANK_DIGEST] = "";
	bool		ok;

	/* m->of->loading has been held since RC_LOAD */
	ALWAYS(m->waiting);
	if (own != NULL)
		rank_digest(own, files, digest);
	ok = receive_all(m->of, digest, e);
	m->waiting = false;
	pthread_mutex_unlock(&m->of->loading);
	return ok;
}

/* Let the other ranks execute a command, and wait for their answers. */
static bool
run_on_ranks(RankModel *m, RankCmdKind kind, const void *body, size_t size, Err *e)
{
	bool		ok;

	pthread_mutex_lock(&m->of->loading);
	send_cmd(m, kind, body, size);
	ok = receive_all(m->of, "", e);
	pthread_mutex_unlock(&m->of->loading);
	return ok;
}

/* ---- communicators ---- */

/* Return NULL if the ranks can use NCCL, else the reason.  found: the text of each rank's rank_meet(). */
static const char *
why_not_nccl(const char found[][sizeof(((Err *) NULL)->msg)])
{
	for (int r = 0; r < group.world; r++)
		for (int o = 0; o < r; o++)
		{
			size_t		uuid = strcspn(found[r], " ");

			if (strcspn(found[o], " ") == uuid && strncmp(found[r], found[o], uuid) == 0)
				return "ranks share a device";
			if (strcmp(strchr(found[r], ' '), strchr(found[o], ' ')) != 0)
				return "ranks have different versions of NCCL";
		}
	return NULL;
}

/* Get the devices and library versions of all ranks.  Returns NULL if all can use NCCL, else the reason. */
static const char *
meet_all(RankModel *m, const Dev *dev, int ordinal, const char *library,
		 char found[][sizeof(((Err *) NULL)->msg)])
{
	RankGroup  *g = m->of;
	Err			e;
	bool		ok = rank_meet(dev, ordinal, library, found[0], sizeof(found[0]), &e);

	send_cmd(m, RC_MEET, library, strlen(library) + 1);
	for (int r = 1; r < group.world; r++)
	{
		Err			its;

		if (!groupmem_receive(&g->mem, r, &its))
			lost(g);
		ok = ok && its.cls == ERR_NONE;
		memcpy(found[r], its.msg, sizeof(its.msg));
	}
	return ok ? why_not_nccl((const char (*)[sizeof(e.msg)]) found) : "NCCL can't be used";
}

/* Open NCCL on all ranks, or on none. */
static bool
open_comms(RankModel *m, Model *own, const Dev *dev, const char *library)
{
	RankGroup  *g = m->of;
	int			tp = group.world / group.stages;
	RankComm   *t = mem_zalloc(sizeof(RankComm));
	Err			e;
	char		why[256] = "";
	bool		ok = true;

	t->number = ++g->last_opening;
	snprintf(t->library, sizeof(t->library), "%s", library);
	for (int i = 0; i < group.stages + tp && ok; i++)
		ok = dev->ops->comm->id(library, t->ids[i], why, sizeof(why));
	if (ok)
	{
		send_cmd(m, RC_COMM, t, sizeof(*t));
		ok = rank_connect(&m->opening, &g->mem, tp, t, own, &e);
		if (!receive_all(g, "", &e) || !ok)
		{
			send_cmd(m, RC_APART, NULL, 0);
			model_apart(own);
			ok = false;
		}
	}
	else
		log_line('W', "NCCL has no id for ranks: %s", why);
	mem_free(t);
	return ok;
}

static void
log_exchange(const char *how, const char *why)
{
	pthread_mutex_lock(&exchange_lock);
	snprintf(exchange, sizeof(exchange), "ranks exchange by %s%s%s", how, why[0] != '\0' ? ": " : "", why);
	log_line('I', "%s", exchange);
	pthread_mutex_unlock(&exchange_lock);
}

void
ranks_exchange(char *buf, size_t size)
{
	pthread_mutex_lock(&exchange_lock);
	snprintf(buf, size, "%s", exchange);
	pthread_mutex_unlock(&exchange_lock);
}

bool
ranks_connect(RankModel *m, Model *own, const Dev *dev, int ordinal, const Settings *s, Err *e)
{
	char		(*found)[sizeof(e->msg)];
	const char *why = NULL;
	bool		shared;

	if (dev == NULL || dev->memory == 0 || dev->ops->comm == NULL)
		return true;
	if (strcmp(s->nccl_path, NCCL_OFF) == 0)
	{
		log_exchange("way of the host", "vllm.nccl_path is " NCCL_OFF);
		return true;
	}
	found = mem_zalloc((size_t) group.world * sizeof(*found));
	pthread_mutex_lock(&m->of->loading);
	why = meet_all(m, dev, ordinal, s->nccl_path, found);
	shared = why != NULL && strcmp(why, "ranks share a device") == 0;
	if (why == NULL && !open_comms(m, own, dev, s->nccl_path))
		why = "NCCL could not be opened";
	pthread_mutex_unlock(&m->of->loading);
	if (why == NULL)
		log_exchange(strchr(found[0], ' ') + 1, "");
	mem_free(found);
	if (why == NULL)
		return true;
	/* the setting names a library: devices that can't use any library are not an error of the setting */
	if (s->nccl_path[0] != '\0' && !shared)
	{
		err_set(e, ERR_UNSUPPORTED, "ranks can't use the NCCL library that vllm.nccl_path names: %s", why);
		err_detail(e, "See the server log.");
		return err_hint(e, "Install NCCL 2.18 or later there, or set vllm.nccl_path to \""
						NCCL_OFF "\" so that ranks exchange by way of the host.");
	}
	log_exchange("way of the host", why);
	return true;
}

bool
ranks_kv(RankModel *m, const ModelInfo *mi, const KvView *kv, int slots, Err *e)
{
	RankKv		k = {.type = kv->type,.n_blocks = kv->n_blocks,.block_size = kv->block_size,.slots = slots};

	m->embed_width = mi->embed_width;
	m->hidden = mi->hidden_size;
	m->block_size = kv->block_size;
	return run_on_ranks(m, RC_KV, &k, sizeof(k), e);
}

void
ranks_rest(RankModel *m)
{
	send_cmd(m, RC_REST, NULL, 0);
}

bool
ranks_store(RankModel *m, const char *dir, Err *e)
{
	return run_on_ranks(m, RC_STORE, dir, strlen(dir) + 1, e);
}

bool
ranks_fetch(RankModel *m, Err *e)
{
	return run_on_ranks(m, RC_FETCH, NULL, 0, e);
}

void
ranks_forget(RankModel *m)
{
	send_cmd(m, RC_FORGET, NULL, 0);
}

bool
ranks_adopt(RankModel *m, RankModel *from, Err *e)
{
	return run_on_ranks(m, RC_ADOPT, &from->id, sizeof(from->id), e);
}

/*
 * Receive the largest values of a rank, and merge them into `most`; NULL = this is a stage's first rank:
 * returns its values.  A NaN counts as the largest.
 */
static float *
receive_largest(RankGroup *g, int rank, float *most, int *layers)
{
	KComm	   *c = g->place.world;
	int32_t		n = 0;
	float	   *its;

	c->ops->recv(c, NULL, &n, sizeof(n), rank);
	ranks_check();
	its = mem_alloc((2 * (size_t) n + 1) * sizeof(float));
	c->ops->recv(c, NULL, its, 2 * (size_t) n * sizeof(float), rank);
	ranks_check();
	if (most == NULL)
	{
		*layers = n;
		return its;
	}
	for (int i = 0; i < 2 * *layers; i++)
		if (isnan(its[i]) || its[i] > most[i])
			most[i] = its[i];
	mem_free(its);
	return most;
}

void
ranks_largest(RankModel *m, float *largest, int layers)
{
	RankGroup  *g = m->of;
	int			tp = group.world / group.stages;

	pthread_mutex_lock(&g->fetching);
	send_cmd(m, RC_LARGEST, NULL, 0);
	for (int stage = 0; stage < group.stages; stage++)
	{
		RankLargest all = {.stage = stage,.layers = layers};
		float	   *most = stage == 0 ? largest : NULL;
		Buf			body = {0};

		for (int r = stage == 0 ? 1 : stage * tp; r < (stage + 1) * tp; r++)
			most = receive_largest(g, r, most, &all.layers);
		buf_add(&body, (const char *) &all, sizeof(all));
		buf_add(&body, (const char *) most, 2 * (size_t) all.layers * sizeof(float));
		send_cmd(m, RC_SCALES, body.data, body.len);
		buf_free(&body);
		if (stage > 0)
			mem_free(most);
	}
	pthread_mutex_unlock(&g->fetching);
}

/* Receive a rank's embedding rows, which are in the order of their tokens. */
static void
take_rows(RankModel *m, int rank, const Model *own, const int32_t *ids, size_t n, float *out)
{
	KComm	   *c = m->of->place.world;
	size_t		width = (size_t) m->embed_width;
	float	   *rows = mem_alloc((n * width + 1) * sizeof(float));
	size_t		its = 0;

	for (size_t i = 0; i < n; i++)
		its += model_token_rank(own, ids[i]) == rank;
	c->ops->recv(c, NULL, rows, its * width * sizeof(float), rank);
	its = 0;
	for (size_t i = 0; i < n; i++)
		if (model_token_rank(own, ids[i]) == rank)
			memcpy(out + i * width, rows + its++ * width, width * sizeof(float));
	mem_free(rows);
}

/* Get so few rows that steps, which meanwhile wait for the ranks, hardly notice. */
static void
fetch_rows(RankModel *m, const Model *own, const int32_t *ids, size_t n, float *out)
{
	RankGroup  *g = m->of;
	bool		others = false;

	for (size_t i = 0; i < n && !others; i++)
		others = model_token_rank(own, ids[i]) > 0;
	if (!others)
		return;
	pthread_mutex_lock(&g->fetching);
	send_cmd(m, RC_ROWS, ids, n * sizeof(*ids));
	for (int r = 1; r < group.world / group.stages; r++)
		take_rows(m, r, own, ids, n, out);
	pthread_mutex_unlock(&g->fetching);
	ranks_check();
}

void
ranks_token_rows(RankModel *m, const Model *own, const int32_t *ids, size_t n, float *out)
{
	size_t		width = (size_t) m->embed_width;
	size_t		most = ROWS_BYTES / (width * sizeof(float));

	most = most > 0 ? most : 1;
	for (size_t at = 0; at < n; at += most)
		fetch_rows(m, own, ids + at, n - at < most ? n - at : most, out + at * width);
}

void
ranks_free(RankModel *m)
{
	Err			ignored;

	if (m == NULL)
		return;
	if (m->waiting)
		(void) ranks_loaded(m, NULL, NULL, &ignored);
	send_cmd(m, RC_FREE, NULL, 0);
	mem_free(m);
}

/* ---- information about ranks ---- */

bool
ranks_info(int i, RankInfo *out)
{
	int			each = group.world - 1;

	if (i >= group.replicas * each)
		return false;
	out->replica = i / each;
	out->rank = out->replica * group.world + i % each + 1;
	out->pid = groupmem_pid(&group.of[out->replica].mem, i % each + 1);
	out->device = groupmem_published(&group.of[out->replica].mem, i % each + 1) - 1;
	return true;
}

int64_t
ranks_bytes(const RankInfo *r)
{
	return sysmem_of_process(r->pid);
}

/* ---- adapters ---- */

uint32_t
ranks_lora_number(void)
{
	static _Atomic uint32_t last;

	return atomic_fetch_add(&last, 1) + 1;
}

bool
ranks_lora(RankModel *m, uint32_t number, const char *path, int max_rank, const char *dtype, Err *e)
{
	RankLora   *l = mem_zalloc(sizeof(RankLora));
	bool		ok;

	l->id = number;
	l->max_rank = max_rank;
	snprintf(l->path, sizeof(l->path), "%s", path);
	snprintf(l->dtype, sizeof(l->dtype), "%s", dtype);
	ok = run_on_ranks(m, RC_LORA, l, sizeof(*l), e);
	mem_free(l);
	return ok;
}

void
ranks_unlora(uint32_t number)
{
	for (int r = 0; r < group.replicas; r++)
		send_to_group(&group.of[r], RC_UNLORA, 0, &number, sizeof(number));
}
