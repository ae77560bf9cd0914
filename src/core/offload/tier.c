/*
 * tier.c
 *	  The offload tier: its table of entries, and its memory.
 *
 * Each model has its own range of addresses for as many blocks as the memory limit allows, so a range
 * has slots of one size.  The limit counts the slots of all models that have memory.  When a slot's
 * entry is evicted, the slot keeps its memory for the model's next entry, unless another model needs it.
 *
 * tier_io.c has the thread, tier_file.c the files.  Tested by tests/unit/core/offload/test_kvtier.c.
 */
#include "core/offload/tier.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "core/offload/tier_file.h"
#include "core/offload/tier_internal.h"

static void tier_cancel_read(KvTier *t, Entry *e);

#define MIN_TABLE 1024
#define SWEEP 256				/* chains of the table per call */
#define FIRST_RATE 200e6		/* bytes per second, until a rate has been measured */
#define RATE_HALF_LIFE_US 10e6	/* a measured rate below FIRST_RATE approaches it again while nothing is
								 * read */

/* ---- lists ---- */

static void
list_push(List *l, Entry *e, int link)
{
	e->prev[link] = NULL;
	e->next[link] = l->head;
	if (l->head != NULL)
		l->head->prev[link] = e;
	else
		l->tail = e;
	l->head = e;
	l->n++;
}

static void
list_append(List *l, Entry *e, int link)
{
	e->prev[link] = l->tail;
	e->next[link] = NULL;
	if (l->tail != NULL)
		l->tail->next[link] = e;
	else
		l->head = e;
	l->tail = e;
	l->n++;
}

static void
list_unlink(List *l, Entry *e, int link)
{
	ASSERT(l->n > 0 && (e->prev[link] != NULL ? e->prev[link]->next[link] == e : l->head == e));
	if (e->prev[link] != NULL)
		e->prev[link]->next[link] = e->next[link];
	else
		l->head = e->next[link];
	if (e->next[link] != NULL)
		e->next[link]->prev[link] = e->prev[link];
	else
		l->tail = e->prev[link];
	l->n--;
}

static void
tier_list_add(KvTier *t, Entry *e, ListId list)
{
	List	   *l = &t->lists[list];

	if (l->tail != NULL && e->used < l->tail->used && list != L_READ)
		list_append(l, e, 0);	/* older than the others: its write has failed, or it was held for long */
	else
		list_push(l, e, 0);
	e->list = list;
	t->cool_bytes += list == L_COOL ? e->model->slot_bytes : 0;
}

void
tier_list_remove(KvTier *t, Entry *e)
{
	if (e->list != L_NONE)
		list_unlink(&t->lists[e->list], e, 0);
	t->cool_bytes -= e->list == L_COOL ? e->model->slot_bytes : 0;
	e->list = L_NONE;
}

/* ---- slots ---- */

static void
slot_free(KvTier *t, Entry *e)
{
	KvTierModel *m = e->model;

	/* a slot freed twice would be given to two entries */
	ALWAYS(e->at != NULL && m->n_used > 0 && m->n_warm + m->n_cold < m->n_slots);
	m->spare[m->n_warm++] = e->slot;
	m->n_used--;
	t->used_bytes -= m->slot_bytes;
	e->at = NULL;
	if (m->n_used == 0)
		pthread_cond_signal(&t->more);	/* let the thread unmap the memory */
}

/* Return the memory of an unused slot to the system. */
static bool
cool_one(KvTier *t)
{
	for (KvTierModel *m = t->models; m != NULL; m = m->next)
		if (m->n_warm > 0)
		{
			int32_t		slot = m->spare[--m->n_warm];

			madvise(m->area.base + (size_t) slot * m->slot_bytes, m->slot_bytes, MADV_DONTNEED);
			m->n_cold++;
			m->spare[m->n_slots - m->n_cold] = slot;
			t->memory -= m->slot_bytes;
			return true;
		}
	return false;
}

/* Count e, which is in memory and usable from now on. */
static void
memory_gain(KvTier *t, Entry *e, bool dirty)
{
	t->n_memory++;
	e->dirty = dirty;
	t->n_dirty += dirty;
}

/* Uncount e, and free its slot. */
static void
memory_lose(KvTier *t, Entry *e)
{
	t->n_memory--;
	tier_written(t, e);
	slot_free(t, e);
}

void
tier_written(KvTier *t, Entry *e)
{
	t->n_dirty -= e->dirty;
	e->dirty = false;
	t->eager = t->eager && t->n_dirty > 0;
}

void
tier_evict(KvTier *t, Entry *e)
{
	t->stats.n_dropped += e->dirty;
	tier_list_remove(t, e);
	memory_lose(t, e);
	if (!e->has_file)
		tier_forget(t, e);
}

/* Return the entry to evict from memory next; NULL = none may be evicted. */
static Entry *
victim(const KvTier *t)
{
	Entry	   *warm = t->lists[L_WARM].tail;
	Entry	   *cool = t->lists[L_COOL].tail;

	if (warm == NULL && cool == NULL)
		return t->lists[L_DIRTY].tail;
	if (warm == NULL || cool == NULL)
		return warm != NULL ? warm : cool;
	return warm->used < cool->used ? warm : cool;
}

/* Reserve addresses for m's slots; returns false if the system has none, which is logged once. */
static bool
reserve(KvTier *t, KvTierModel *m)
{
	Err			err = {0};

	if (marena_reserve(&m->area, (size_t) m->n_slots * m->slot_bytes, t->o.huge,
					   "The KV cache's offload tier", &err))
	{
		if ((m->spare = mem_try_alloc((size_t) m->n_slots * sizeof(*m->spare))) != NULL)
			return true;
		marena_free(&m->area);
	}
	if (!m->logged)
		log_line('W', "KV cache offload: could not reserve %zu MB of addresses; a model's KV cache is not "
					  "offloaded (check vllm.kv_offload_bytes and the kernel's vm.overcommit_memory)",
				 (size_t) m->n_slots * m->slot_bytes >> 20);
	m->logged = true;
	return false;
}

/* Give e a slot with memory, within the limit. */
static bool
slot_take(KvTier *t, Entry *e)
{
	KvTierModel *m = e->model;
	Entry	   *v;

	/* no slots: the blocks were found in files, and are larger than the memory now */
	if (m->area.base == NULL && (m->n_slots == 0 || !reserve(t, m)))
		return false;
	m->shedding = false;
	while (m->n_warm == 0 && t->memory + m->slot_bytes > t->o.memory_bytes)
	{
		if (cool_one(t))
			continue;
		if ((v = victim(t)) == NULL)
			return false;
		tier_evict(t, v);
	}
	if (m->n_warm > 0)
		e->slot = m->spare[--m->n_warm];
	else
	{
		if (m->n_cold > 0)
			e->slot = m->spare[m->n_slots - m->n_cold--];
		else
			e->slot = m->fresh++;
		t->memory += m->slot_bytes;
	}
	m->n_used++;
	t->used_bytes += m->slot_bytes;
	e->at = m->area.base + (size_t) e->slot * m->slot_bytes;
	return true;
}

bool
tier_take_idle_area(KvTier *t, MArena *out)
{
	for (KvTierModel *m = t->models; m != NULL; m = m->next)
		if (m->area.base != NULL && m->n_used == 0)
		{
			*out = m->area;
			m->area = (MArena) {0};
			t->memory -= (size_t) m->n_warm * m->slot_bytes;
			m->fresh = m->n_warm = m->n_cold = 0;
			mem_free(m->spare);
			m->spare = NULL;
			return true;
		}
	return false;
}

/* ---- the table ---- */

/* Keys are digests, so any of their bytes can select the chain. */
static Entry **
chain_of(const KvTier *t, const unsigned char *key)
{
	uint64_t	h;

	memcpy(&h, key, sizeof(h));
	return &t->table[h & (t->n_table - 1)];
}

static void
table_grow(KvTier *t, size_t want)
{
	Entry	  **old = t->table;
	size_t		n = t->n_table;

	if (want <= n)
		return;
	while (t->n_table < want)
		t->n_table = t->n_table > 0 ? t->n_table * 2 : MIN_TABLE;
	t->table = mem_zalloc(t->n_table * sizeof(*t->table));
	for (size_t i = 0; i < n; i++)
		for (Entry *e = old[i], *next; e != NULL; e = next)
		{
			Entry	  **c = chain_of(t, e->key);

			next = e->chain;
			e->chain = *c;
			*c = e;
		}
	mem_free(old);
	if (t->sweep != SIZE_MAX)
		t->sweep = 0;
}

void
tier_reserve(KvTier *t, size_t n)
{
	table_grow(t, t->n_entries + n);
}

Entry *
tier_new_entry(KvTier *t, KvTierModel *m, const unsigned char *key)
{
	Entry	   *e = mem_zalloc(sizeof(*e));
	Entry	  **c;

	table_grow(t, t->n_entries / 2);
	memcpy(e->key, key, KVTIER_KEY);
	e->model = m;
	e->epoch = t->epoch;
	e->used = ++t->clock;
	c = chain_of(t, key);
	e->chain = *c;
	*c = e;
	t->n_entries++;
	m->n_entries++;
	return e;
}

void
tier_forget(KvTier *t, Entry *e)
{
	Entry	  **c = chain_of(t, e->key);

	if (e->dropped)
		return;
	while (*c != e)
		c = &(*c)->chain;
	*c = e->chain;
	t->n_entries--;
	e->dropped = true;
	if (e->list == L_READ)
	{
		tier_cancel_read(t, e);
		t->must_notify = true;
		pthread_cond_signal(&t->more);
	}
	else
		tier_list_remove(t, e);
	if (e->has_file)
	{
		list_unlink(&t->filed, e, 1);
		tier_list_add(t, e, L_DROPPED);
		pthread_cond_signal(&t->more);
	}
	tier_settle(t, e, L_NONE);
}

void
tier_settle(KvTier *t, Entry *e, ListId list)
{
	if (e->refs > 0 || e->filling || e->writing || e->reading)
		return;
	if (e->dropped)
	{
		if (e->at != NULL)
			memory_lose(t, e);
		if (!e->has_file)
		{
			e->model->n_entries--;
			mem_free(e);
		}
	}
	else if (e->at != NULL)
		tier_list_add(t, e, e->dirty ? L_DIRTY : list);
	else if (!e->has_file)
		tier_forget(t, e);
}

Entry *
tier_lookup(KvTier *t, const KvTierModel *m, const unsigned char *key)
{
	Entry	   *e = *chain_of(t, key);

	while (e != NULL && (e->model != m || memcmp(e->key, key, KVTIER_KEY) != 0))
		e = e->chain;
	if (e != NULL && e->epoch < m->epoch)
	{
		tier_forget(t, e);
		return NULL;
	}
	return e;
}

bool
tier_sweep(KvTier *t)
{
	if (t->sweep == SIZE_MAX)
		return false;
	for (int i = 0; i < SWEEP && t->sweep < t->n_table; i++, t->sweep++)
		for (Entry *e = t->table[t->sweep], *next; e != NULL; e = next)
		{
			next = e->chain;
			if (e->epoch < e->model->epoch)
				tier_forget(t, e);
		}
	if (t->sweep == t->n_table)
		t->sweep = SIZE_MAX;
	return true;
}

/* Mark e as used most recently. */
static void
touch(KvTier *t, Entry *e)
{
	e->used = ++t->clock;
	if (e->has_file && !e->dropped)
	{
		list_unlink(&t->filed, e, 1);
		list_push(&t->filed, e, 1);
	}
}

static void
tier_cancel_read(KvTier *t, Entry *e)
{
	tier_list_remove(t, e);
	e->reading = false;
	t->reading_bytes -= e->model->bytes;
	atomic_store(&e->state, KVH_LOST);
	slot_free(t, e);
}

void
tier_read_done(KvTier *t, Entry *e, bool ok)
{
	e->reading = false;
	t->reading_bytes -= e->model->bytes;
	if (ok)
		memory_gain(t, e, false);
	else
		slot_free(t, e);
	atomic_store(&e->state, ok && !e->dropped ? KVH_READY : KVH_LOST);
	if (!ok && !e->dropped)
		tier_forget(t, e);
	else
		tier_settle(t, e, L_WARM);
}

void
tier_add_file(KvTier *t, Entry *e, bool newest)
{
	e->has_file = true;
	e->model->n_files++;
	if (e->dropped)
		tier_list_add(t, e, L_DROPPED);	/* a reset happened while it was written */
	else if (newest)
		list_push(&t->filed, e, 1);
	else
		list_append(&t->filed, e, 1);
}

void
tier_drop_file(KvTier *t, Entry *e)
{
	if (!e->dropped)
		list_unlink(&t->filed, e, 1);
	e->has_file = false;
	e->model->n_files--;
}

/* ---- putting and getting ---- */

KvHold *
kvtier_put(KvTier *t, KvTierModel *m, const unsigned char key[KVTIER_KEY])
{
	Entry	   *e;

	pthread_mutex_lock(&t->lock);
	if ((e = tier_lookup(t, m, key)) != NULL)
	{
		touch(t, e);
		if (e->list == L_WARM || e->list == L_COOL || e->list == L_DIRTY)
		{
			tier_list_remove(t, e);
			tier_settle(t, e, L_WARM);
		}
		e = NULL;
	}
	else
	{
		e = tier_new_entry(t, m, key);
		if (slot_take(t, e))
		{
			e->filling = true;
			e->refs = 1;
			atomic_store(&e->state, KVH_READY);
		}
		else
		{
			t->stats.n_refused++;
			tier_forget(t, e);
			e = NULL;
		}
	}
	pthread_mutex_unlock(&t->lock);
	return e;
}

void *
kvtier_room(KvHold *h)
{
	return h->at;
}

void
kvtier_keep(KvTier *t, KvHold *h)
{
	pthread_mutex_lock(&t->lock);
	h->filling = false;
	h->refs = 0;
	t->stats.n_put++;
	memory_gain(t, h, t->o.directory != NULL && !h->dropped && !h->has_file);
	touch(t, h);
	tier_settle(t, h, L_WARM);
	if (tier_wants_write(t))
		pthread_cond_signal(&t->more);
	pthread_mutex_unlock(&t->lock);
}

KvPlace
kvtier_find(KvTier *t, const KvTierModel *m, const unsigned char key[KVTIER_KEY])
{
	KvPlace		place = KVT_NONE;
	Entry	   *e;

	pthread_mutex_lock(&t->lock);
	e = tier_lookup(t, m, key);
	if (e != NULL && !e->filling)
		place = e->reading ? KVT_COMING : e->at != NULL ? KVT_MEMORY : KVT_FILE;
	pthread_mutex_unlock(&t->lock);
	return place;
}

KvHold *
kvtier_fetch(KvTier *t, KvTierModel *m, const unsigned char key[KVTIER_KEY])
{
	Entry	   *e;

	pthread_mutex_lock(&t->lock);
	e = tier_lookup(t, m, key);
	if (e == NULL || e->filling)
	{
		t->stats.n_misses++;
		e = NULL;
	}
	else if (e->at != NULL)
	{
		t->stats.n_memory_hits += !e->reading;
		if (e->list != L_READ)
			tier_list_remove(t, e);
		e->refs++;
		touch(t, e);
	}
	else if (slot_take(t, e))
	{
		t->stats.n_file_hits++;
		atomic_store(&e->state, KVH_COMING);
		e->reading = true;
		t->reading_bytes += m->bytes;
		e->refs++;
		touch(t, e);
		tier_list_add(t, e, L_READ);
		pthread_cond_signal(&t->more);
	}
	else
	{
		t->stats.n_refused++;
		e = NULL;
	}
	pthread_mutex_unlock(&t->lock);
	return e;
}

KvHoldState
kvtier_state(const KvHold *h)
{
	return (KvHoldState) atomic_load(&h->state);
}

const void *
kvtier_bytes(const KvHold *h)
{
	return h->at;
}

void
kvtier_release(KvTier *t, KvHold *h)
{
	pthread_mutex_lock(&t->lock);
	ALWAYS(h->refs > 0);
	if (--h->refs == 0)
	{
		if (h->filling)
		{
			h->filling = false;
			slot_free(t, h);
		}
		else if (h->list == L_READ)
			tier_cancel_read(t, h);
		else if (!h->dropped)
			touch(t, h);
		tier_settle(t, h, L_WARM);
	}
	pthread_mutex_unlock(&t->lock);
}

double
kvtier_read_wait(KvTier *t, size_t bytes)
{
	double		rate;
	double		all;

	pthread_mutex_lock(&t->lock);
	rate = t->stats.read_rate > 0 ? t->stats.read_rate : FIRST_RATE;
	/* otherwise a disk that was slow once would never be used again */
	if (rate < FIRST_RATE)
		rate += (FIRST_RATE - rate) * (1 - exp2(-(double) (clock_us() - t->read_at_us) / RATE_HALF_LIFE_US));
	all = (double) t->reading_bytes + (double) bytes;
	pthread_mutex_unlock(&t->lock);
	return all / rate;
}

/* ---- whole tier ---- */

static size_t
slot_bytes(size_t bytes)
{
	size_t		page = (size_t) sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) / page * page;
}

KvTierModel *
tier_model(KvTier *t, const unsigned char id[KVTIER_KEY], size_t bytes)
{
	KvTierModel *m = t->models;

	while (m != NULL && (m->bytes != bytes || memcmp(m->id, id, KVTIER_KEY) != 0))
		m = m->next;
	if (m != NULL)
		return m;
	m = mem_zalloc(sizeof(*m));
	memcpy(m->id, id, KVTIER_KEY);
	m->bytes = bytes;
	m->slot_bytes = slot_bytes(bytes);
	m->n_slots = t->o.memory_bytes / m->slot_bytes < INT32_MAX ?
		(int32_t) (t->o.memory_bytes / m->slot_bytes) : INT32_MAX;
	m->epoch = t->all_epoch;
	m->dir = -1;
	m->next = t->models;
	t->models = m;
	return m;
}

void
tier_drop_models(KvTier *t)
{
	for (KvTierModel **at = &t->models, *m; (m = *at) != NULL;)
		if (m->joined == 0 && m->n_entries == 0 && m->area.base == NULL)
		{
			if (m->dir >= 0)
				close(m->dir);
			*at = m->next;
			mem_free(m);
		}
		else
			at = &m->next;
}

KvTierModel *
kvtier_join(KvTier *t, const unsigned char id[KVTIER_KEY], size_t bytes, Err *e)
{
	KvTierModel *m;

	if (bytes == 0 || bytes > t->o.memory_bytes || slot_bytes(bytes) > t->o.memory_bytes)
	{
		err_set(e, ERR_INVALID, "the KV cache's offload tier has no room for one block");
		err_detail(e, "A block of this model has %zu bytes, the tier's memory %zu.", bytes,
				   t->o.memory_bytes);
		err_hint(e, "Raise vllm.kv_offload_bytes, or set it to 0 to do without.");
		return NULL;
	}
	pthread_mutex_lock(&t->lock);
	m = tier_model(t, id, bytes);
	m->joined++;
	pthread_mutex_unlock(&t->lock);
	return m;
}

void
kvtier_leave(KvTier *t, KvTierModel *m)
{
	pthread_mutex_lock(&t->lock);
	m->joined--;
	pthread_mutex_unlock(&t->lock);
}

void
kvtier_reset(KvTier *t, KvTierModel *m)
{
	pthread_mutex_lock(&t->lock);
	t->epoch++;
	if (m != NULL)
		m->epoch = t->epoch;
	else
	{
		t->all_epoch = t->epoch;
		for (m = t->models; m != NULL; m = m->next)
			m->epoch = t->epoch;
	}
	t->sweep = 0;
	pthread_cond_signal(&t->more);
	pthread_mutex_unlock(&t->lock);
}

void
kvtier_shed(KvTier *t, KvTierModel *m)
{
	static const ListId lists[] = {L_WARM, L_COOL, L_DIRTY};
	int			n;

	pthread_mutex_lock(&t->lock);
	/* if files can't be written now, don't wait for them */
	n = t->stats.files == KVF_READY || t->stats.files == KVF_OPENING ? 2 : 3;
	for (int i = 0; i < n; i++)
		for (Entry *e = t->lists[lists[i]].tail, *next; e != NULL; e = next)
		{
			next = e->prev[0];
			if (m == NULL || e->model == m)
				tier_evict(t, e);
		}
	for (KvTierModel *k = t->models; k != NULL; k = k->next)
		k->shedding = k->shedding || m == NULL || m == k;
	t->eager = t->n_dirty > 0;
	pthread_cond_signal(&t->more);
	pthread_mutex_unlock(&t->lock);
}

size_t
kvtier_flush(KvTier *t, int64_t deadline_us)
{
	struct timespec ts = {.tv_sec = deadline_us / 1000000,.tv_nsec = deadline_us % 1000000 * 1000};
	size_t		left;

	pthread_mutex_lock(&t->lock);
	t->flushing++;
	t->retry_us = 0;			/* try once more, if a write has failed */
	pthread_cond_signal(&t->more);
	while (tier_wants_write(t) || t->writing != NULL || t->trying ||
		   (t->stats.files == KVF_LOCKED && t->retry_us == 0))
		if (pthread_cond_timedwait(&t->done, &t->lock, &ts) != 0)
			break;
	t->flushing--;
	left = t->n_dirty;
	pthread_mutex_unlock(&t->lock);
	return left;
}

void
kvtier_write(KvTier *t)
{
	pthread_mutex_lock(&t->lock);
	t->eager = t->n_dirty > 0;
	pthread_cond_signal(&t->more);
	pthread_mutex_unlock(&t->lock);
}

void
kvtier_model_bytes(KvTier *t, const KvTierModel *m, uint64_t *memory, uint64_t *files)
{
	pthread_mutex_lock(&t->lock);
	*memory = (uint64_t) (m->n_used + m->n_warm) * m->slot_bytes;
	*files = m->n_files * kvfile_size(m->bytes);
	pthread_mutex_unlock(&t->lock);
}

void
kvtier_stats(KvTier *t, KvTierStats *out)
{
	pthread_mutex_lock(&t->lock);
	*out = t->stats;
	out->memory_limit = t->o.memory_bytes;
	out->memory_bytes = t->memory;
	out->memory_entries = t->n_memory;
	out->disk_limit = t->o.directory != NULL ? t->o.disk_bytes : 0;
	out->file_bytes = t->file_bytes;
	out->file_entries = t->filed.n + t->lists[L_DROPPED].n;
	out->unwritten = t->n_dirty;
	out->reading = t->lists[L_READ].n;
	pthread_mutex_unlock(&t->lock);
}

KvTier *
kvtier_open(const KvTierOptions *o, Err *e)
{
	KvTier	   *t = mem_zalloc(sizeof(*t));
	pthread_condattr_t attr;

	t->o = *o;
	t->o.directory = o->directory != NULL && o->directory[0] != '\0' ? mem_strdup(o->directory) : NULL;
	if (t->o.huge == HUGE_ON)
		t->o.huge = HUGE_TRY;
	t->sweep = SIZE_MAX;
	pthread_mutex_init(&t->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&t->more, &attr);
	pthread_cond_init(&t->done, &attr);
	pthread_condattr_destroy(&attr);
	table_grow(t, MIN_TABLE);
	if (!tier_start(t, e))
	{
		kvtier_close(t);
		return NULL;
	}
	return t;
}

void
kvtier_close(KvTier *t)
{
	if (t == NULL)
		return;
	tier_stop(t);
	for (size_t i = 0; i < t->n_table; i++)
		for (Entry *e = t->table[i], *next; e != NULL; e = next)
		{
			next = e->chain;
			mem_free(e);
		}
	for (Entry *e = t->lists[L_DROPPED].head, *next; e != NULL; e = next)
	{
		next = e->next[0];
		mem_free(e);
	}
	for (KvTierModel *m = t->models, *next; m != NULL; m = next)
	{
		next = m->next;
		marena_free(&m->area);
		mem_free(m->spare);
		mem_free(m);
	}
	pthread_cond_destroy(&t->more);
	pthread_cond_destroy(&t->done);
	pthread_mutex_destroy(&t->lock);
	mem_free(t->table);
	mem_free((char *) t->o.directory);
	mem_free(t);
}

/* ---- integrity ---- */

static bool
check_entry(const Entry *e, Err *err)
{
	bool		busy = e->refs > 0 || e->filling || e->writing || (e->reading && e->list != L_READ);
	bool		evictable = e->list == L_WARM || e->list == L_COOL || e->list == L_DIRTY;

	if (e->refs < 0 || (e->at == NULL && !e->has_file))
		return err_set(err, ERR_INTERNAL, "offload tier: an entry that is nowhere");
	if (evictable && (busy || e->at == NULL || e->reading || (e->list == L_DIRTY) != e->dirty))
		return err_set(err, ERR_INTERNAL,
					   "offload tier: an entry in list %d that is in use, or not in memory", (int) e->list);
	if (!busy && !evictable && e->at != NULL && e->list != L_READ)
		return err_set(err, ERR_INTERNAL, "offload tier: an entry in memory that can't go");
	if (e->list == L_DROPPED || (e->dirty && (e->has_file || e->at == NULL)))
		return err_set(err, ERR_INTERNAL, "offload tier: an entry in the wrong state");
	if (e->at != NULL && e->at != e->model->area.base + (size_t) e->slot * e->model->slot_bytes)
		return err_set(err, ERR_INTERNAL, "offload tier: an entry in the wrong place");
	return true;
}

static bool
check_sums(const KvTier *t, Err *err)
{
	size_t		memory = 0;

	for (const KvTierModel *m = t->models; m != NULL; m = m->next)
	{
		if (m->n_used < 0 || m->n_warm < 0 || m->n_cold < 0 ||
			m->n_used + m->n_warm + m->n_cold != m->fresh || m->fresh > m->n_slots)
			return err_set(err, ERR_INTERNAL, "offload tier: %d used, %d warm and %d cold slots of %d",
						   m->n_used, m->n_warm, m->n_cold, m->fresh);
		memory += (size_t) (m->n_used + m->n_warm) * m->slot_bytes;
	}
	if (memory != t->memory || memory > t->o.memory_bytes)
		return err_set(err, ERR_INTERNAL, "offload tier: %zu bytes of memory, %zu are counted", memory,
					   t->memory);
	return true;
}

bool
kvtier_check(KvTier *t, Err *err)
{
	size_t		n = 0;
	size_t		files = 0;
	size_t		dirty = 0;
	bool		ok = true;

	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; ok && i < t->n_table; i++)
		for (const Entry *e = t->table[i]; ok && e != NULL; e = e->chain)
		{
			ok = check_entry(e, err);
			n++;
			files += e->has_file;
			dirty += e->dirty;
		}
	if (ok && (n != t->n_entries || files != t->filed.n || dirty > t->n_dirty))
		ok = err_set(err, ERR_INTERNAL, "offload tier: %zu entries, %zu files, %zu unwritten; %zu, %zu, %zu "
										"are counted",
					 n, files, dirty, t->n_entries, t->filed.n, t->n_dirty);
	ok = ok && check_sums(t, err);
	pthread_mutex_unlock(&t->lock);
	return ok;
}

const unsigned char *
kvtier_secret(const KvTier *t)
{
	return t->secret;
}
