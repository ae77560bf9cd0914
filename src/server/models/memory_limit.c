/*
 * memory_limit.c
 *	  Memory for models: vllm.memory_limit and keep-alive.
 *
 * A model takes what ModelFacts.memory_bytes says before its load, asleep what stays_bytes says, and its
 * adapters.  The KV caches' offload tier counts with its whole limit.  With vllm.memory_limit, a load
 * first asks for memory (memory_limit_enqueue()) and is queued if there is none.  The load that has waited
 * longest is served first.  For it, idle models are unloaded, the least recently used ones first, but
 * none that is pinned by its options ("keep_alive": -1), and none that has not been loaded for as long
 * as its load took: so loading never takes more than about half of the time.
 *
 * Models that are never idle would keep others out forever.  So when a load has waited PATIENCE_US, the
 * least recently loaded of these models gets no new requests (ModelInstance.leaving; they wait, too)
 * until it is idle and can be unloaded: models that do not fit together take turns.  A load that has
 * waited vllm.memory_timeout fails with 53200 and the sizes.
 *
 * An entry that has been idle longer than its keep-alive is unloaded; idle means that no request is in
 * flight.
 *
 * Server thread.  Tested by tests/unit/server/models/test_memory_limit.c, tests/t/093_sleep.pl.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "server/models/lora_cache.h"
#include "server/models/registry_internal.h"
#include "backend/offload_tier.h"
#include "server/request/request.h"

#define PATIENCE_US		INT64_C(2000000)
#define STAY_LEAST_US	INT64_C(200000)
/* longest time for which a load protects a model from being unloaded */
#define STAY_MOST_US	INT64_C(30000000)
#define TICK_US			INT64_C(500000)
#define RETRY_US		INT64_C(200000)		/* a waiting load asks again much sooner than this */

/* ---- busy and pinned models ---- */

static void
count_busy(ServerCall *c, void *arg)
{
	ModelInstance *l = c->entry != NULL ? c->entry->loaded : NULL;

	(void) arg;
	if (l == NULL)
		return;
	if (c->stage == SCALL_RUNNING ? atomic_load(&c->in_core) : scall_is_active(c) && c->stage != SCALL_ASLEEP)
		l->busy++;
}

/* Update ModelInstance.busy, and the times of the entries' last use. */
static void
look(Models *m)
{
	int64_t		now = clock_us();

	for (ModelInstance *l = m->loaded; l != NULL; l = l->next)
		l->busy = l->pins;
	server_each(m->srv, count_busy, NULL);
	for (ModelEntry *en = m->entries; en != NULL; en = en->next)
		if (en->loaded != NULL && en->loaded->busy > 0)
			en->used_us = now;
}

/* Return the keep-alive in seconds; -1 = forever. */
static int64_t
keep_alive(const ModelEntry *en, const Settings *set)
{
	return en->opts.has_keep_alive ? en->opts.keep_alive : set->keep_alive;
}

int64_t
memory_limit_expires_us(const ModelEntry *en, const Settings *set)
{
	int64_t		s = keep_alive(en, set);

	return en->state == WM_READY && s >= 0 ? en->used_us + s * 1000000 : 0;
}

static bool
pinned(const ModelInstance *l)
{
	for (const ModelEntry *en = l->m->entries; en != NULL; en = en->next)
		if (en->loaded == l && en->opts.has_keep_alive && en->opts.keep_alive < 0)
			return true;
	return false;
}

static int64_t
last_used(const ModelInstance *l)
{
	int64_t		t = 0;

	for (const ModelEntry *en = l->m->entries; en != NULL; en = en->next)
		if (en->loaded == l && en->used_us > t)
			t = en->used_us;
	return t;
}

/* Return the name of the model that has the instance; NULL: none yet (weight_update.c), or none any more. */
static const char *
model_of(const ModelInstance *l)
{
	for (const ModelEntry *en = l->m->entries; en != NULL; en = en->next)
		if (en->loaded == l)
			return en->name;
	return l->left != NULL ? l->left->name : NULL;
}

/* Return a name for the log, and for requests that wait for l. */
static const char *
name_of(const ModelInstance *l)
{
	const char *name = model_of(l);

	return name != NULL ? name : l->path;
}

/* Return its memory without the adapters; these stay while it sleeps. */
static int64_t
takes_itself(const ModelInstance *l)
{
	return l->queued ? 0 : l->rest >= LR_STORED && !l->fetched ? l->stays : l->need;
}

int64_t
memory_limit_takes(const ModelInstance *l)
{
	return takes_itself(l) + (l->loras != NULL ? loras_bytes(l->loras) : 0);
}

/* Return the memory of the KV caches' offload tier, which counts in full whoever uses it. */
static int64_t
store_takes(const Models *m)
{
	Settings	set;

	settings_get(m->srv->box, &set);
	return m->srv->be->control->has_tier_files != NULL ? offload_store_limit(&set) : 0;
}

static int64_t
taken(const Models *m, const ModelInstance *but)
{
	int64_t		sum = store_takes(m);

	for (const ModelInstance *l = m->loaded; l != NULL; l = l->next)
		if (l != but)
			sum += memory_limit_takes(l);
	return sum;
}

/* ---- freeing memory ---- */

/* Unload all entries of the instance. */
static void
unload(ModelInstance *l)
{
	Models	   *m = l->m;
	ModelInstance *last = NULL;

	/* no request waits for it any more, or it may be unloaded */
	ASSERT(!l->dying && (l->queued || (l->done && l->instance != NULL && !pinned(l))));
	for (ModelEntry *en = m->entries; en != NULL; en = en->next)
		if (en->loaded == l)
			last = entry_let_go(en);
	if (l->leaving)
		sleep_wake_requests(m);	/* requests that were held back now wait for it to be loaded again */
	if (last != NULL)
		loaded_settle(last);
}

static bool
may_go(const ModelInstance *l, int64_t now)
{
	int64_t		stay = l->ready_us - l->began_us;

	if (!l->done || l->instance == NULL || l->updates || l->updated ||
		l->refs == 0 || l->dying || l->queued ||
		l->rest >= LR_STORED || pinned(l))
		return false;
	stay = stay < STAY_LEAST_US ? STAY_LEAST_US : stay > STAY_MOST_US ? STAY_MOST_US : stay;
	return now - l->ready_us >= stay;
}

/* Return the least recently used idle instance; NULL = none. */
static ModelInstance *
idle_one(const Models *m, const ModelInstance *but, int64_t now)
{
	ModelInstance *best = NULL;

	for (ModelInstance *l = m->loaded; l != NULL; l = l->next)
		if (l != but && l->busy == 0 && may_go(l, now) && (best == NULL || last_used(l) < last_used(best)))
			best = l;
	return best;
}

/* Choose an instance that takes no new requests, because no instance is idle. */
static void
make_one_leave(const Models *m, const ModelInstance *but, int64_t now)
{
	ModelInstance *best = NULL;

	for (ModelInstance *l = m->loaded; l != NULL; l = l->next)
	{
		if (l->leaving)
			return;
		if (l != but && may_go(l, now) && now - l->ready_us >= PATIENCE_US &&
			(best == NULL || l->ready_us < best->ready_us))
			best = l;
	}
	if (best != NULL)
		best->leaving = true;
}

/* No instance needs to leave any more: continue the requests that were held back. */
static void
stay_all(Models *m)
{
	bool		any = false;

	for (ModelInstance *l = m->loaded; l != NULL; l = l->next)
	{
		any |= l->leaving;
		l->leaving = false;
	}
	if (any)
		sleep_wake_requests(m);
}

static void
list_holders(const Models *m, const ModelInstance *but, char *out, size_t size)
{
	size_t		at = 0;

	out[0] = '\0';
	if (store_takes(m) > 0)
		at += (size_t) snprintf(out, size, "the KV caches' offload tier %" PRId64 " MB",
								store_takes(m) >> 20);
	for (const ModelInstance *l = m->loaded; l != NULL && at < size; l = l->next)
		/* not everybody may see paths */
		if (l != but && memory_limit_takes(l) > 0)
			at += (size_t) snprintf(out + at, size - at, "%s\"%s\" %" PRId64 " MB (%s)", at > 0 ? ", " : "",
									model_of(l) != NULL ? model_of(l) : l->updates ? "other weights" :
										"one that was unloaded", memory_limit_takes(l) >> 20,
									instance_will_be_freed(l) ? "being unloaded" : l->refs == 0 ?
									"finishing its requests" : !l->done ? "loading" : pinned(l) ? "pinned" :
									l->busy > 0 ? "busy" : "idle");
}

static bool
no_room(const Models *m, const ModelInstance *l, int64_t limit, Err *e)
{
	char		who[400];

	list_holders(m, l, who, sizeof(who));
	err_set(e, ERR_NOMEM, "not enough memory for model \"%s\"", name_of(l));
	err_detail(e, "It needs %" PRId64 " MB; of %" PRId64 " MB (vllm.memory_limit) %" PRId64
			   " MB are taken%s%s.", l->need >> 20, limit >> 20, taken(m, l) >> 20, who[0] != '\0' ? ": " :
			   "", who);
	return err_hint(e, "Raise vllm.memory_limit, lower the models' kv_cache_memory_bytes, or unload a "
					   "model.");
}

/*
 * Evict the least recently used adapter that no request uses, since it is reloaded faster than any
 * model.  Returns false if there is none.
 */
static bool
evict_adapter(const Models *m)
{
	ModelInstance *of = NULL;
	int64_t		oldest = INT64_MAX;

	for (ModelInstance *l = m->loaded; l != NULL; l = l->next)
	{
		int64_t		us = l->loras != NULL ? loras_oldest_us(l->loras) : INT64_MAX;

		if (us < oldest)
		{
			oldest = us;
			of = l;
		}
	}
	if (of != NULL)
		loras_evict(of->loras);
	return of != NULL;
}

/* Is a model being unloaded?  Then no other one is unloaded before that has ended. */
static bool
some_go(const Models *m, const ModelInstance *but)
{
	for (const ModelInstance *l = m->loaded; l != NULL; l = l->next)
		if (l != but && instance_will_be_freed(l))
			return true;
	return false;
}

static MemoryVerdict
try_room(ModelInstance *l, Err *e)
{
	Models	   *m = l->m;
	int64_t		now = clock_us();
	Settings	set;
	ModelInstance *victim;

	settings_get(m->srv->box, &set);
	if (set.memory_limit <= 0 || taken(m, l) + l->need <= set.memory_limit)
		return MEMORY_OK;
	if (l->need + store_takes(m) > set.memory_limit)
	{
		no_room(m, l, set.memory_limit, e);
		return MEMORY_REFUSED;
	}
	loras_let_go(m->srv);
	while (evict_adapter(m))
		if (taken(m, l) + l->need <= set.memory_limit)
			return MEMORY_OK;
	if (some_go(m, l))
		return MEMORY_WAIT;
	look(m);
	victim = idle_one(m, l, now);
	if (victim != NULL)
	{
		ASSERT(victim != l && victim->busy == 0);
		log_line('I', "model \"%s\" is unloaded to make room for \"%s\"", name_of(victim), name_of(l));
		unload(victim);
		return MEMORY_WAIT;
	}
	if (l->waiting_us == 0)
		l->waiting_us = now;
	if (now - l->waiting_us > (int64_t) set.memory_timeout_ms * 1000)
	{
		no_room(m, l, set.memory_limit, e);
		return MEMORY_REFUSED;
	}
	if (now - l->waiting_us > PATIENCE_US)
		make_one_leave(m, l, now);
	return MEMORY_WAIT;
}

MemoryVerdict
memory_limit_make(ModelInstance *l, Err *e)
{
	MemoryVerdict r = try_room(l, e);

	/* an instance asks again at each wake-up, which is another wait */
	if (r != MEMORY_WAIT)
		l->waiting_us = 0;
	if (!l->queued)
		l->m->wanted_us = r == MEMORY_WAIT ? clock_us() : 0;
	return r;
}

MemoryVerdict
memory_limit_lora(ModelEntry *en, const char *name, int64_t bytes, int64_t *waiting_us, Err *e)
{
	Models	   *m = en->m;
	int64_t		now = clock_us();
	Settings	set;
	ModelInstance *victim;
	char		who[400];

	settings_get(m->srv->box, &set);
	if (set.memory_limit <= 0)
		return MEMORY_OK;
	/* nothing is unloaded for an adapter that can never fit */
	if (en->loaded->need + bytes + store_takes(m) <= set.memory_limit)
	{
		loras_let_go(m->srv);
		do
			if (taken(m, NULL) + bytes <= set.memory_limit)
				return MEMORY_OK;
		while (evict_adapter(m));
		if (some_go(m, en->loaded))
			return MEMORY_WAIT;
		look(m);
		victim = idle_one(m, en->loaded, now);
		if (victim != NULL)
		{
			log_line('I', "model \"%s\" is unloaded to make room for adapter \"%s\"", name_of(victim), name);
			unload(victim);
			return MEMORY_WAIT;
		}
		if (*waiting_us == 0)
			*waiting_us = now;
		if (now - *waiting_us <= (int64_t) set.memory_timeout_ms * 1000)
			return MEMORY_WAIT;
	}
	list_holders(m, NULL, who, sizeof(who));
	err_set(e, ERR_NOMEM, "not enough memory for adapter \"%s\"", name);
	err_detail(e, "It needs %" PRId64 " kB; of %" PRId64 " MB (vllm.memory_limit) %" PRId64
			   " MB are taken: %s.", bytes >> 10, set.memory_limit >> 20, taken(m, NULL) >> 20, who);
	err_hint(e, "Raise vllm.memory_limit, or unload a model or adapter.");
	return MEMORY_REFUSED;
}

/* ---- loads ---- */

void
memory_limit_enqueue(ModelInstance *l)
{
	l->queued = true;
	memory_limit_poll(l->m);
}

static void
count_waiters(ServerCall *c, void *arg)
{
	ModelInstance *l = arg;

	if (c->stage == SCALL_LOADING && c->entry != NULL && c->entry->loaded == l && scall_is_active(c))
		l->busy++;
}

/* Return the load that has been queued longest. */
static ModelInstance *
first_queued(const Models *m)
{
	ModelInstance *first = NULL;

	for (ModelInstance *l = m->loaded; l != NULL; l = l->next)
		if (l->queued && (first == NULL || l->start_us < first->start_us))
			first = l;
	return first;
}

bool
memory_limit_poll(Models *m)
{
	ModelInstance *l;

	while ((l = first_queued(m)) != NULL)
	{
		MemoryVerdict r;

		/* nothing is unloaded for a load that no request waits for */
		l->busy = 0;
		if (!atomic_load(&l->give_up))
			server_each(m->srv, count_waiters, l);
		r = l->busy == 0 ? MEMORY_REFUSED : memory_limit_make(l, &l->err);
		if (l->busy == 0)
			unload(l);
		if (r == MEMORY_WAIT)
			return true;
		l->queued = false;
		if (r == MEMORY_OK)
			load_start(l);
		else
			load_refused(l);
	}
	/* a wake-up or an update may also wait for memory (or may have been cancelled) */
	if (m->wanted_us != 0 && clock_us() - m->wanted_us < RETRY_US)
		return true;
	stay_all(m);
	return false;
}

/* ---- keep-alive ---- */

/* The limit may have been lowered: unload one model at a time, since its memory is not free at once. */
static void
shrink(Models *m, int64_t limit)
{
	ModelInstance *victim;

	for (const ModelInstance *l = m->loaded; l != NULL; l = l->next)
		if (instance_will_be_freed(l))
			return;
	if (limit > 0 && taken(m, NULL) > limit && (victim = idle_one(m, NULL, clock_us())) != NULL)
	{
		log_line('I', "model \"%s\" is unloaded: vllm.memory_limit is lower than what the models take",
				 name_of(victim));
		unload(victim);
	}
}

void
memory_limit_tick(Models *m)
{
	int64_t		now = clock_us();
	Settings	set;

	if (now - m->ticked_us < TICK_US)
		return;
	m->ticked_us = now;
	settings_get(m->srv->box, &set);
	look(m);
	for (ModelEntry *en = m->entries; en != NULL; en = en->next)
	{
		int64_t		expires = memory_limit_expires_us(en, &set);
		ModelInstance *l = en->loaded;

		/* a leaving instance is unloaded by unload() for another one; its requests wait until then */
		if (expires == 0 || now < expires || l->busy > 0 || l->leaving || en->asleep != 0)
			continue;
		log_line('I', "model \"%s\" is unloaded: it had no request for %" PRId64 " s", en->name,
				 (now - en->used_us) / 1000000);
		l = entry_let_go(en);
		if (l != NULL)
			loaded_settle(l);
	}
	look(m);
	shrink(m, set.memory_limit);
}
