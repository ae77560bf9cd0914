/*
 * memory_limit.c
 *	  Room for models: vllm.memory_limit and keep-alive.
 *
 * A model takes what ModelFacts.memory_bytes says before its load, asleep what stays_bytes says, and its
 * adapters; the KV caches' offload tier takes all that it may have.  With a limit
 * a load first asks for room (memory_limit_ask()) and is queued if there is none.  The
 * oldest of those that wait is served first; for it idle models are unloaded, least recently used ones
 * before others, but none that its options pin ("keep_alive": -1) and none that has not yet been there as
 * long as its load took: so loading never takes more than about half of the time.
 *
 * Models that are never idle would keep others out for ever.  So when somebody has waited PATIENCE_US, the
 * least recently loaded of them gets no new requests (Loaded.leaving; these wait, too) until it is idle and
 * can go: models that do not fit together take turns.  A model that has waited vllm.memory_timeout fails with
 * 53200 and the sizes.
 *
 * An entry that has been idle longer than its keep-alive is unloaded; idle means that no request is in
 * flight.
 *
 * Server thread.  Tested by tests/unit/server/test_memory_limit.c, tests/t/093_sleep.pl.
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
#define STAY_MOST_US	INT64_C(30000000)	/* longest time that a load protects a model */
#define TICK_US			INT64_C(500000)
#define ASKS_US			INT64_C(200000)		/* a load that waits asks again much sooner than that */

/* ---- which models are busy, which are pinned ---- */

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

/* Fill in ModelInstance.busy, and when entries were last used. */
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

/* Seconds; -1 = for ever. */
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

/* NULL: it is no model's yet (weight_update.c), or any more */
static const char *
model_of(const ModelInstance *l)
{
	for (const ModelEntry *en = l->m->entries; en != NULL; en = en->next)
		if (en->loaded == l)
			return en->name;
	return l->left != NULL ? l->left->name : NULL;
}

/* For the log, and for the requests that wait for l. */
static const char *
name_of(const ModelInstance *l)
{
	const char *name = model_of(l);

	return name != NULL ? name : l->path;
}

/* Its memory without the adapters, which stay while it sleeps. */
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

/* The store behind the KV caches takes its part of the limit, whoever uses it. */
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

/* ---- making room ---- */

/* All of its entries are unloaded. */
static void
unload(ModelInstance *l)
{
	Models	   *m = l->m;
	ModelInstance *last = NULL;

	/* one that nobody waits for any more, or one that may go */
	ASSERT(!l->dying && (l->queued || (l->done && l->instance != NULL && !pinned(l))));
	for (ModelEntry *en = m->entries; en != NULL; en = en->next)
		if (en->loaded == l)
			last = entry_let_go(en);
	if (l->leaving)
		sleep_wake_requests(m);	/* which were held back: they wait for it to be loaded again */
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

/* The idle one that was used longest ago; NULL = none. */
static ModelInstance *
idle_one(const Models *m, const ModelInstance *but, int64_t now)
{
	ModelInstance *best = NULL;

	for (ModelInstance *l = m->loaded; l != NULL; l = l->next)
		if (l != but && l->busy == 0 && may_go(l, now) && (best == NULL || last_used(l) < last_used(best)))
			best = l;
	return best;
}

/* One that shall take no new requests, as it is never idle. */
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

/* Nobody leaves any more: requests that were held back go on. */
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
		/* paths are not for everybody */
		if (l != but && memory_limit_takes(l) > 0)
			at += (size_t) snprintf(out + at, size - at, "%s\"%s\" %" PRId64 " MB (%s)", at > 0 ? ", " : "",
									model_of(l) != NULL ? model_of(l) : l->updates ? "other weights" :
										"one that was unloaded", memory_limit_takes(l) >> 20,
									loaded_goes(l) ? "on its way out" : l->refs == 0 ?
									"finishing its requests" : !l->done ? "loading" : pinned(l) ? "pinned" :
									l->busy > 0 ? "busy" : "idle");
}

static bool
no_room(const Models *m, const ModelInstance *l, int64_t limit, Err *e)
{
	char		who[400];

	list_holders(m, l, who, sizeof(who));
	err_set(e, ERR_NOMEM, "there is no room for model \"%s\"", name_of(l));
	err_detail(e, "It needs %" PRId64 " MB; of %" PRId64 " MB (vllm.memory_limit) %" PRId64
			   " MB are taken%s%s.", l->need >> 20, limit >> 20, taken(m, l) >> 20, who[0] != '\0' ? ": " :
			   "", who);
	return err_hint(e, "Raise vllm.memory_limit, lower the models' kv_cache_memory_bytes, or unload a "
					   "model.");
}

/*
 * An adapter that nobody uses goes, the one that was used longest ago: it comes back sooner than any model.
 * false: there is none.
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

/* Is a model being unloaded?  Then no other need go before that has ended. */
static bool
some_go(const Models *m, const ModelInstance *but)
{
	for (const ModelInstance *l = m->loaded; l != NULL; l = l->next)
		if (l != but && loaded_goes(l))
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
	if (l->asked_us == 0)
		l->asked_us = now;
	if (now - l->asked_us > (int64_t) set.memory_timeout_ms * 1000)
	{
		no_room(m, l, set.memory_limit, e);
		return MEMORY_REFUSED;
	}
	if (now - l->asked_us > PATIENCE_US)
		make_one_leave(m, l, now);
	return MEMORY_WAIT;
}

MemoryVerdict
memory_limit_make(ModelInstance *l, Err *e)
{
	MemoryVerdict r = try_room(l, e);

	/* an instance asks again each time that it wakes: that is another wait */
	if (r != MEMORY_WAIT)
		l->asked_us = 0;
	if (!l->queued)
		l->m->wanted_us = r == MEMORY_WAIT ? clock_us() : 0;
	return r;
}

MemoryVerdict
memory_limit_lora(ModelEntry *en, const char *name, int64_t bytes, int64_t *asked_us, Err *e)
{
	Models	   *m = en->m;
	int64_t		now = clock_us();
	Settings	set;
	ModelInstance *victim;
	char		who[400];

	settings_get(m->srv->box, &set);
	if (set.memory_limit <= 0)
		return MEMORY_OK;
	/* for what can never be nobody goes */
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
		if (*asked_us == 0)
			*asked_us = now;
		if (now - *asked_us <= (int64_t) set.memory_timeout_ms * 1000)
			return MEMORY_WAIT;
	}
	list_holders(m, NULL, who, sizeof(who));
	err_set(e, ERR_NOMEM, "there is no room for adapter \"%s\"", name);
	err_detail(e, "It needs %" PRId64 " kB; of %" PRId64 " MB (vllm.memory_limit) %" PRId64
			   " MB are taken: %s.", bytes >> 10, set.memory_limit >> 20, taken(m, NULL) >> 20, who);
	err_hint(e, "Raise vllm.memory_limit, or unload a model or adapter.");
	return MEMORY_REFUSED;
}

/* ---- loads ---- */

void
memory_limit_ask(ModelInstance *l)
{
	l->queued = true;
	memory_limit_turn(l->m);
}

static void
count_waiters(ServerCall *c, void *arg)
{
	ModelInstance *l = arg;

	if (c->stage == SCALL_LOADING && c->entry != NULL && c->entry->loaded == l && scall_is_active(c))
		l->busy++;
}

/* The load that has been queued longest. */
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
memory_limit_turn(Models *m)
{
	ModelInstance *l;

	while ((l = first_queued(m)) != NULL)
	{
		MemoryVerdict r;

		/* for nobody nothing is unloaded */
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
	/* a model that wakes, or an update, may wait for room as well (or may have been cancelled) */
	if (m->wanted_us != 0 && clock_us() - m->wanted_us < ASKS_US)
		return true;
	stay_all(m);
	return false;
}

/* ---- keep-alive ---- */

/* The limit may have been lowered: one goes at a time, as its room is not free at once. */
static void
shrink(Models *m, int64_t limit)
{
	ModelInstance *victim;

	for (const ModelInstance *l = m->loaded; l != NULL; l = l->next)
		if (loaded_goes(l))
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

		/* an instance that is leaving makes room for another one (unload()); its requests wait until then */
		if (expires == 0 || now < expires || l->busy > 0 || l->leaving || en->asleep != 0)
			continue;
		log_line('I', "model \"%s\" is unloaded: nobody has asked for it for %" PRId64 " s", en->name,
				 (now - en->used_us) / 1000000);
		l = entry_let_go(en);
		if (l != NULL)
			loaded_settle(l);
	}
	look(m);
	shrink(m, set.memory_limit);
}
