/*
 * registry.c
 *	  The registry of models: entries, shared weights, loading and unloading.
 *
 * Loading has two stages, both on the loader thread: a probe (fingerprint of the files: device, inode,
 * size, mtime, ctime of each) and the load itself.  Between them the server thread checks whether the
 * same files with the same options are loaded already.  A stale result is recognised by
 * ModelEntry.attempt, which every unload increments.
 *
 * Lifetime of a ModelInstance: refs counts entries, pins counts jobs that use the instance.  At refs = 0
 * a load in progress is told to give up; a ready instance is freed by the step thread once pins = 0
 * (only that thread can be certain that no step uses it), after entry_inst() and the statistics no
 * longer have it.
 *
 * Tested by tests/unit/server/models/test_models_registry.c and test_server.c.
 */
#include "server/model_scheduler.h"
#include "server/models/registry_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/alloc.h"
#include "server/models/lora_cache.h"
#include "server/request/request.h"
#include "server/request_kinds.h"

static LoraCache *entry_loras(ModelEntry *en, Err *e);

Models *
models_new(struct Server *srv)
{
	Models	   *m = mem_zalloc(sizeof(Models));

	m->srv = srv;
	m->rows = mem_alloc(WIRE_MAX_MODELS * sizeof(StatsRow));
	return m;
}

ModelEntry *
registry_find(const Models *m, uint32_t dboid, const char *name)
{
	for (ModelEntry *en = m->entries; en != NULL; en = en->next)
		if (en->dboid == dboid && strcmp(en->name, name) == 0)
			return en;
	return NULL;
}

/* ---- published state ---- */

static void
fill_stat(ModelEntry *en, const Settings *set, StatsRow *r)
{
	memset(r, 0, sizeof(*r));
	r->counters = &en->n;
	r->m.state = en->state;
	r->m.dboid = en->dboid;
	r->m.hash = wire_model_hash(en->path, en->options);
	r->m.shared_with = -1;
	r->m.asleep = (int32_t) en->asleep;
	r->m.sleep_level = en->sleep_level;
	r->m.used_us = en->used_us;
	r->m.expires_us = memory_limit_expires_us(en, set);
	r->m.memory_bytes = en->loaded != NULL ? memory_limit_takes(en->loaded) : 0;
	snprintf(r->m.name, sizeof(r->m.name), "%s", en->name);
	if (en->state == WM_FAILED)
		snprintf(r->m.error, sizeof(r->m.error), "%.255s", en->err.msg);
	if (en->loaded == NULL)
		return;
	r->m.progress = atomic_load(&en->loaded->permille) / 1000.0;
	if (en->state != WM_READY)
		return;
	r->instance = en->loaded->instance;
	snprintf(r->m.arch, sizeof(r->m.arch), "%s", en->loaded->facts.arch);
	snprintf(r->m.dtype, sizeof(r->m.dtype), "%s", en->loaded->facts.dtype);
	snprintf(r->m.device, sizeof(r->m.device), "%s", en->loaded->facts.device);
	r->m.weight_bytes = en->loaded->facts.weight_bytes;
	r->m.n_params = en->loaded->facts.n_params;
	r->m.max_model_len = en->loaded->facts.max_model_len;
	r->m.block_size = en->loaded->facts.cache.block_size;
	r->m.prefix_caching = en->loaded->facts.cache.prefix_caching;
	snprintf(r->m.kv_dtype, sizeof(r->m.kv_dtype), "%s", en->loaded->facts.cache.dtype);
}

/* Set each instance's weight to the greatest of its entries' weights. */
static void
set_weights(Models *m)
{
	for (ModelInstance *l = m->loaded; l != NULL; l = l->next)
	{
		int			most = 0;

		for (const ModelEntry *en = m->entries; en != NULL; en = en->next)
		{
			int			weight = en->opts.scheduling_weight > 0 ? en->opts.scheduling_weight : MODEL_WEIGHT;

			if ((en->loaded == l || l->left == en) && weight > most)
				most = weight;
		}
		atomic_store(&l->weight, most > 0 ? most : MODEL_WEIGHT);
	}
}

void
models_show(Models *m)
{
	StatsRow   *rows = m->rows;
	const ModelInstance *of[WIRE_MAX_MODELS];
	Settings	set;
	int			n = 0;

	set_weights(m);
	settings_get(m->srv->box, &set);
	for (ModelEntry *en = m->entries; en != NULL && n < WIRE_MAX_MODELS; en = en->next, n++)
	{
		fill_stat(en, &set, &rows[n]);
		of[n] = en->loaded;
		for (int i = 0; i < n && en->loaded != NULL; i++)
			if (of[i] == en->loaded)
			{
				rows[n].m.shared_with = i;
				break;
			}
	}
	stats_rows(m->srv->stats, rows, n);
	stats_publish(m->srv->stats);
}

EntryCounters *
entry_counters(ModelEntry *en)
{
	return &en->n;
}

const ModelOpts *
entry_opts(const ModelEntry *en)
{
	return &en->opts;
}

const char *
entry_name(const ModelEntry *en)
{
	return en->name;
}

const ChatModel *
entry_chat(const ModelEntry *en)
{
	return en->chat;
}

BackendModel *
entry_inst(ModelEntry *en)
{
	return en->state == WM_READY ? en->loaded->instance : NULL;
}

bool
entry_facts(ModelEntry *en, ModelFacts *out)
{
	if (en->state != WM_READY)
		return false;
	*out = en->loaded->facts;
	return true;
}

BackendModel *
loaded_inst(const ModelInstance *l)
{
	return l->instance;
}

int
models_known_len(Models *m, uint32_t dboid, const char *name, size_t n)
{
	ModelFacts	f;

	for (ModelEntry *en = m->entries; en != NULL; en = en->next)
		if (en->dboid == dboid && strlen(en->name) == n && memcmp(en->name, name, n) == 0 &&
			entry_facts(en, &f))
			return f.max_model_len;
	return 0;
}

void
entry_ref(ModelEntry *en)
{
	en->refs++;
}

static void
forget_failure(ModelEntry *en)
{
	mem_free(en->fail_print);
	mem_free(en->fail_set);
	en->fail_print = NULL;
	en->fail_set = NULL;
}

void
entry_unref(ModelEntry *en)
{
	ALWAYS(en->refs > 0);
	if (--en->refs > 0)
		return;
	/* only requests had references after the registry's: the entry has no weights */
	ALWAYS(en->loaded == NULL);
	forget_failure(en);
	chat_free(en->chat);
	mem_free(en->path);
	mem_free(en->old_path);
	mem_free(en->options);
	mem_free(en);
}

/* ---- freeing a ModelInstance ---- */

static void
loaded_free(ModelInstance *l)
{
	ModelInstance **pp = &l->m->loaded;

	ALWAYS(l->refs == 0 && l->pins == 0 && l->done && l->dying);
	while (*pp != l)
		pp = &(*pp)->next;
	*pp = l->next;
	if (l->loras != NULL)
		loras_close(l->loras);
	if (l->left != NULL)
		entry_unref(l->left);
	if (l->unloader != NULL)
	{
		l->unloader->job_busy = false;
		scall_end(l->unloader, WF_DONE, NULL);
	}
	mem_free(l->key);
	mem_free(l->path);
	mem_free(l);
}

static void
free_run(Job *j)
{
	ModelInstance *l = (ModelInstance *) j;

	step_detach(l->m->srv->step, l->instance);
}

static void
free_done(Job *j)
{
	ModelInstance *l = (ModelInstance *) j;

	stats_publish(l->m->srv->stats);
	loaded_free(l);
}

void
loaded_settle(ModelInstance *l)
{
	if (l->refs > 0 || l->dying)
		return;
	if (!l->done)
	{
		atomic_store(&l->give_up, true);
		return;
	}
	if (l->pins > 0)
		return;
	l->dying = true;
	if (l->instance == NULL)
	{
		loaded_free(l);
		return;
	}
	l->j.run = free_run;
	l->j.done = free_done;
	step_run(l->m->srv->step, &l->j);
}

void
loaded_leave(ModelInstance *l, ModelEntry *en)
{
	ASSERT(l->left == NULL || l->left == en || l->refs > 0);
	if (l->left != NULL)
		return;
	l->left = en;
	entry_ref(en);
}

bool
instance_will_be_freed(const ModelInstance *l)
{
	return l->dying || (l->refs == 0 && l->left == NULL);
}

ModelInstance *
entry_pin(ModelEntry *en)
{
	ALWAYS(en->loaded != NULL && !en->loaded->dying);
	en->loaded->pins++;
	return en->loaded;
}

void
loaded_unpin(ModelInstance *l)
{
	ALWAYS(l->pins > 0);
	l->pins--;
	loaded_settle(l);
}

/* ---- requests ---- */

void
entry_run(ServerCall *c)
{
	const RequestKind *k = request_kind(c->ch.kind);
	LoraCache  *lc;
	Err			e;

	if (!k->lora || c->req->lora_path == NULL || c->lora != NULL)
		k->run(c);
	else if ((lc = entry_loras(c->entry, &e)) != NULL)
		loras_want(lc, c);
	else
		request_fail(c, &e);
}

/* ---- loading ---- */

typedef struct Wake
{
	ModelEntry *en;
	const Err  *err;			/* NULL: loaded */
} Wake;

static void
wake_one(ServerCall *c, void *arg)
{
	Wake	   *w = arg;

	if (c->entry != w->en || c->stage != SCALL_LOADING || !scall_is_active(c))
		return;
	if (w->err != NULL)
		request_fail(c, w->err);
	else if (!sleep_stops(c))
		entry_run(c);
}

/* The entry has left LOADING: all waiting requests continue or fail. */
static void
wake_waiting(ModelEntry *en)
{
	Err			err = en->err;
	Wake		w = {en, en->state == WM_READY ? NULL : &err};

	models_show(en->m);
	server_each(en->m->srv, wake_one, &w);
}

static void
entry_failed(ModelEntry *en, const Err *e)
{
	en->state = WM_FAILED;
	en->err = *e;
	if (e->cls == ERR_NOMEM)
		forget_failure(en);		/* there may be enough memory the next time */
	wake_waiting(en);
}

static bool
load_progress(void *ctx, double done)
{
	ModelInstance *l = ctx;
	int			now = (int) (done * 1000);
	int			was = atomic_exchange(&l->permille, now);

	if (now / 50 != was / 50)
		link_ring_doorbell(&l->m->srv->link);
	return !atomic_load(&l->give_up);
}

static void
load_run(Job *j)
{
	ModelInstance *l = (ModelInstance *) j;
	const Backend *be = l->m->srv->be;

	l->instance = be->loader->load(l->path, &l->opts, &l->set, load_progress, l, &l->err);
	if (l->instance != NULL)
		be->loader->facts(l->instance, &l->facts);
}

typedef struct AttachJob
{
	Job			j;
	Step	   *step;
	BackendModel *instance;
	const _Atomic int *weight;
} AttachJob;

static void
attach_run(Job *j)
{
	AttachJob  *a = (AttachJob *) j;

	step_attach(a->step, a->instance, a->weight);
}

static void
attach_done(Job *j)
{
	mem_free(j);
}

void
loaded_attach(ModelInstance *l)
{
	AttachJob  *a = mem_zalloc(sizeof(AttachJob));

	a->j.run = attach_run;
	a->j.done = attach_done;
	a->step = l->m->srv->step;
	a->instance = l->instance;
	a->weight = &l->weight;
	step_run(l->m->srv->step, &a->j);
}

static void
load_done(Job *j)
{
	ModelInstance *l = (ModelInstance *) j;
	Models	   *m = l->m;

	ALWAYS(!l->done && m->n_loading > 0);
	l->done = true;
	l->ready_us = clock_us();
	m->n_loading--;
	if (l->instance != NULL)
	{
		if (l->need == 0)
			l->need = l->facts.memory_bytes;
		l->stays = l->facts.stays_bytes;
		loaded_attach(l);
		log_line('I', "model loaded from \"%s\": %s %s, %" PRId64 " MB, context %d, %" PRId64 " ms",
				 l->path, l->facts.arch, l->facts.dtype, l->facts.weight_bytes >> 20,
				 l->facts.max_model_len, (clock_us() - l->began_us) / 1000);
	}
	else if (l->refs > 0)
		log_line('W', "could not load model from \"%s\": %s", l->path, l->err.msg);
	l->pins++;					/* keeps l: waiting requests may unload it */
	for (ModelEntry *en = m->entries, *next; en != NULL; en = next)
	{
		next = en->next;
		if (en->loaded != l)
			continue;
		if (l->instance != NULL)
		{
			en->state = WM_READY;
			wake_waiting(en);
		}
		else
		{
			en->loaded = NULL;
			l->refs--;
			entry_failed(en, &l->err);
		}
	}
	loaded_unpin(l);
}

static char *
key_of(const char *print, const ModelOpts *o)
{
	Buf			key = {0};

	buf_addstr(&key, print);
	model_opts_key(o, &key);
	return key.data;
}

char *
models_key(const char *path, const ModelOpts *o)
{
	char	   *print = files_fingerprint(path, o);
	char	   *key = key_of(print, o);

	mem_free(print);
	return key;
}

ModelInstance *
loaded_new(Models *m, char *key, const char *path, const ModelOpts *o)
{
	ModelInstance *l = mem_zalloc(sizeof(ModelInstance));

	l->m = m;
	l->key = key;
	l->path = mem_strdup(path);
	l->opts = *o;
	atomic_store(&l->weight, MODEL_WEIGHT);
	l->refs = 1;
	l->start_us = clock_us();
	l->next = m->loaded;
	m->loaded = l;
	return l;
}

/* The probe has ended: share an instance, or load one. */
static void
attach_or_load(ModelEntry *en, const char *print, int64_t need)
{
	Models	   *m = en->m;
	char	   *key = key_of(print, &en->opts);
	ModelInstance *l;

	for (l = m->loaded; l != NULL; l = l->next)
		/* an instance without references is about to be freed, if only a job still pins it */
		if (l->refs > 0 && !l->updates && strcmp(l->key, key) == 0 && (!l->done || l->instance != NULL))
			break;
	if (l != NULL)
	{
		mem_free(key);
		l->refs++;
		en->loaded = l;
		sleep_inherit(en, l);
		if (l->done)
		{
			en->state = WM_READY;
			wake_waiting(en);
		}
		return;
	}
	l = loaded_new(m, key, en->path, &en->opts);
	en->loaded = l;
	settings_get(m->srv->box, &l->set);
	l->need = need;
	m->n_loading++;
	if (l->set.memory_limit > 0)
		memory_limit_enqueue(l);
	else
		load_start(l);
}

void
load_start(ModelInstance *l)
{
	l->began_us = clock_us();
	l->j.run = load_run;
	l->j.done = load_done;
	jobs_submit(l->m->srv->jobs, JQ_LOAD, &l->j);
}

void
load_refused(ModelInstance *l)
{
	load_done(&l->j);
}

typedef struct ProbeJob
{
	Job			j;
	ModelEntry *en;				/* holds a reference */
	uint64_t	attempt;
	char	   *path;
	char	   *print;
	const Backend *be;
	ModelOpts	opts;
	Settings	set;
	int64_t		need;			/* memory; 0 = known only after the load */
	bool		recheck;		/* the load had failed: the same files and settings give the same error */
} ProbeJob;

static void
probe_run(Job *j)
{
	ProbeJob   *p = (ProbeJob *) j;
	ModelFacts	facts;
	Err			e;

	p->print = files_fingerprint(p->path, &p->opts);
	/* the load will report errors of the files */
	if (p->set.memory_limit > 0 && p->be->loader->check(p->path, &p->opts, &p->set, &facts, &e))
		p->need = facts.memory_bytes;
}

static void
probe_done(Job *j)
{
	ProbeJob   *p = (ProbeJob *) j;
	ModelEntry *en = p->en;

	if (en->attempt == p->attempt && en->state == WM_LOADING)
	{
		Settings	set;

		settings_get(en->m->srv->box, &set);
		if (p->recheck && en->fail_print != NULL && strcmp(en->fail_print, p->print) == 0 &&
			settings_equal(en->fail_set, &set))
		{
			Err			e = en->err;

			entry_failed(en, &e);
		}
		else
		{
			forget_failure(en);
			en->fail_print = mem_strdup(p->print);
			en->fail_set = mem_alloc(sizeof(Settings));
			*en->fail_set = set;
			attach_or_load(en, p->print, p->need);
		}
	}
	entry_unref(en);
	mem_free(p->path);
	mem_free(p->print);
	mem_free(p);
}

static void
progress_frame(ServerCall *c, const char *text, double done)
{
	Buf			b = {0};
	WireOut		o = chan_out(&b);

	wire_put_int(&o, WTAG_PHASE, WP_LOADING_MODEL);
	wire_put_num(&o, WTAG_PROGRESS, done);
	wire_put_str(&o, WTAG_TEXT, text, strlen(text));
	scall_frame(c, WF_PROGRESS, &b, true);
	buf_free(&b);
	c->progress_sent = done;
	c->progress_us = clock_us();
}

/*
 * Make c wait for the entry's model, and start to load it if necessary.  c continues in entry_run() or
 * fails.  retry: try a failed load again in any case.
 */
static void
entry_wait(ModelEntry *en, ServerCall *c, bool retry)
{
	char		text[128];

	c->stage = SCALL_LOADING;
	scall_phase(c, WP_LOADING_MODEL);
	if (en->state != WM_LOADING)
	{
		ProbeJob   *p = mem_zalloc(sizeof(ProbeJob));

		p->j.run = probe_run;
		p->j.done = probe_done;
		p->en = en;
		p->recheck = en->state == WM_FAILED && !retry;
		p->path = mem_strdup(en->path);
		p->attempt = ++en->attempt;
		p->be = en->m->srv->be;
		p->opts = en->opts;
		settings_get(en->m->srv->box, &p->set);
		entry_ref(en);
		en->state = WM_LOADING;
		models_show(en->m);
		jobs_submit(en->m->srv->jobs, JQ_LOAD, &p->j);
		if (p->recheck)
			return;				/* the probe will most likely end with the same error in a moment */
	}
	snprintf(text, sizeof(text), "loading model \"%s\"", en->name);
	progress_frame(c, text, 0);
}

void
entry_go(ServerCall *c)
{
	c->entry->used_us = clock_us();
	if (sleep_stops(c))
		return;
	if (entry_inst(c->entry) != NULL)
		entry_run(c);
	else
		entry_wait(c->entry, c, c->ch.kind == WK_MODEL_LOAD);
}

static void
progress_one(ServerCall *c, void *arg)
{
	const Models *m = arg;
	char		text[128];
	double		done;

	(void) m;
	if (c->stage != SCALL_LOADING || c->entry == NULL || c->entry->loaded == NULL)
		return;
	done = atomic_load(&c->entry->loaded->permille) / 1000.0;
	if (done < c->progress_sent + 0.1 && clock_us() - c->progress_us < 1000000)
		return;
	snprintf(text, sizeof(text), "loading model \"%s\": %d %%", c->entry->name, (int) (done * 100));
	progress_frame(c, text, done);
}

void
models_progress(Models *m)
{
	int64_t		now;

	if (m->n_loading == 0)
		return;
	server_each(m->srv, progress_one, m);
	now = clock_us();
	if (now - m->shown_us > 50000)
	{
		m->shown_us = now;
		models_show(m);
	}
}

/* ---- adapters ---- */

/*
 * Return the adapters of a model that is ready; NULL with *e set: its options and the settings
 * contradict each other.
 */
static LoraCache *
entry_loras(ModelEntry *en, Err *e)
{
	ModelInstance *l = en->loaded;
	LoraLimits	limits;

	if (l->loras == NULL && lora_limits(&l->opts, &l->set, &limits, e))
		l->loras = loras_new(en->m->srv, l->instance, &limits);
	return l->loras;
}

/* ---- unloading and forgetting ---- */

typedef struct Fail
{
	ModelEntry *en;
	const ServerCall *except;
	Err			err;
} Fail;

static void
fail_one(ServerCall *c, void *arg)
{
	Fail	   *f = arg;

	if (c->entry == f->en && c != f->except)
		request_fail(c, &f->err);
}

void
entry_fail_requests(ModelEntry *en, const Err *e, const ServerCall *except)
{
	Fail		f = {.en = en,.except = except,.err = *e};

	server_each(en->m->srv, fail_one, &f);
}

ModelInstance *
entry_let_go(ModelEntry *en)
{
	ModelInstance *l = en->loaded;

	en->attempt++;
	en->state = WM_UNLOADED;
	en->loaded = NULL;
	models_show(en->m);
	if (l == NULL)
		return NULL;
	ALWAYS(l->refs > 0);
	l->refs--;
	if (l->refs > 0)
		return NULL;
	return l;
}

/* Fail the requests and release the weights.  Returns the ModelInstance if nothing else refers to it. */
static ModelInstance *
entry_release(ModelEntry *en, const char *what, const ServerCall *except)
{
	Err			e;

	err_set(&e, ERR_NOT_READY, "model \"%s\" was %s", en->name, what);
	entry_fail_requests(en, &e, except);
	return entry_let_go(en);
}

void
models_unload(Models *m, uint32_t dboid, const char *name, ServerCall *c)
{
	ModelEntry *en = registry_find(m, dboid, name);
	ModelInstance *l = NULL;

	if (en != NULL && en->state != WM_UNLOADED)
	{
		forget_failure(en);
		l = entry_release(en, "unloaded", c);
	}
	if (l != NULL && l->unloader == NULL)
	{
		l->unloader = c;
		c->job_busy = true;
		c->stage = SCALL_BUSY;
	}
	else
		scall_end(c, WF_DONE, NULL);
	if (l != NULL)
		loaded_settle(l);
}

static void
entry_remove(Models *m, ModelEntry *en, const char *what)
{
	ModelInstance *l = entry_release(en, what, NULL);
	ModelEntry **pp = &m->entries;

	while (*pp != en)
		pp = &(*pp)->next;
	*pp = en->next;
	m->n_entries--;
	models_show(m);
	entry_unref(en);
	if (l != NULL)
		loaded_settle(l);
}

void
models_forget(Models *m, uint32_t dboid, const char *name, uint64_t hash)
{
	ModelEntry *next;

	for (ModelEntry *en = m->entries; en != NULL; en = next)
	{
		next = en->next;
		if (en->dboid == dboid && (name[0] == '\0' || strcmp(en->name, name) == 0) &&
			(hash == 0 || hash == wire_model_hash(en->path, en->options)))
			entry_remove(m, en, "dropped");
	}
}

/* ---- making entries ---- */

/*
 * Count the answered requests that server_try_free() has not freed yet: they still refer to en.
 *
 * A call can't drop its reference when it closes.  The step thread often closes it, with the final frame,
 * but references belong to the server thread.  And a call that the server thread has closed, because its
 * client cancelled, uses the entry's counters and name until the request's last event.
 */
static int
answered(const ModelEntry *en)
{
	const Server *s = en->m->srv;
	int			n = 0;

	for (uint32_t i = 0; i < s->link.arena.geo.n_slots; i++)
		n += s->table[i] != NULL && s->table[i]->entry == en && !scall_is_open(s->table[i]);
	for (const ServerCall *c = s->closed_pending; c != NULL; c = c->next)
		n += c->entry == en;
	return n;
}

/* Is the entry loaded, and kept by its options? */
static bool
entry_pinned(const ModelEntry *en)
{
	return en->loaded != NULL && en->opts.has_keep_alive && en->opts.keep_alive < 0;
}

/* Is the entry idle: no request, no load, and its options don't keep it? */
static bool
entry_idle(const ModelEntry *en)
{
	const ModelInstance *l = en->loaded;

	if (en->state == WM_LOADING || (en->refs > 1 && en->refs - answered(en) > 1))
		return false;
	return l == NULL || !(l->updates || l->updated || entry_pinned(en));
}

/*
 * Is idle entry a evicted before b?  Entries without weights come first, since they need no reload;
 * entries that were put to sleep come last, since they would come back awake; among equals the least
 * recently used one.
 */
static bool
precedes(const ModelEntry *a, const ModelEntry *b)
{
	if ((a->asleep != 0) != (b->asleep != 0))
		return a->asleep == 0;
	if ((a->loaded != NULL) != (b->loaded != NULL))
		return a->loaded == NULL;
	return a->used_us < b->used_us;
}

/* Evict an entry if there is no space for another one.  Returns false if all entries are in use. */
static bool
evict_entries(Models *m, const char *name, Err *e)
{
	Settings	set;

	settings_get(m->srv->box, &set);
	while (m->n_entries >= set.max_models)
	{
		ModelEntry *first = NULL;

		for (ModelEntry *en = m->entries; en != NULL; en = en->next)
		{
			m->all_busy |= !entry_pinned(en);
			if (entry_idle(en) && (first == NULL || precedes(en, first)))
				first = en;
		}
		if (first == NULL)
		{
			err_set(e, ERR_TOO_LONG, "too many models in use (maximum is %d)", set.max_models);
			err_detail(e, "Each of them has requests, is being loaded, or is kept by its option keep_alive.");
			return err_hint(e, "Raise vllm.max_models, or unload a model.");
		}
		if (first->loaded != NULL)
			log_line('I', "model \"%s\" is unloaded to make room for \"%s\" (vllm.max_models)", first->name,
					 name);
		entry_remove(m, first, "unloaded");
	}
	return true;
}

static ModelEntry *
entry_new(Models *m, uint32_t dboid, const char *name, const char *path, const char *options, Err *e)
{
	ModelOpts	opts;
	ChatModel  *chat;
	ModelEntry *en;

	if (!model_opts_parse(options, &opts, e) || !chatmodel_of_options(options, &chat, e))
		return NULL;
	if (!evict_entries(m, name, e))
	{
		chat_free(chat);
		return NULL;
	}
	/* a name has one entry */
	ASSERT(registry_find(m, dboid, name) == NULL);
	ALWAYS(m->n_entries < WIRE_MAX_MODELS);
	en = mem_zalloc(sizeof(ModelEntry));
	en->m = m;
	en->dboid = dboid;
	snprintf(en->name, sizeof(en->name), "%s", name);
	en->path = mem_strdup(path);
	en->options = mem_strdup(options != NULL ? options : "");
	en->opts = opts;
	en->chat = chat;
	en->state = WM_UNLOADED;
	en->refs = 1;
	sleep_inherit(en, NULL);
	en->next = m->entries;
	m->entries = en;
	m->n_entries++;
	return en;
}

/* Does the catalog row that a request describes still match the entry? */
static bool
entry_is(const ModelEntry *en, const char *path, const char *options)
{
	return (strcmp(en->path, path) == 0 || (en->old_path != NULL && strcmp(en->old_path, path) == 0)) &&
		strcmp(en->options, options != NULL ? options : "") == 0;
}

ModelEntry *
registry_ensure(Models *m, uint32_t dboid, const char *name, const char *path, const char *options, Err *e)
{
	ModelEntry *en = registry_find(m, dboid, name);

	if (en != NULL && (path == NULL || entry_is(en, path, options)))
		return en;
	if (path == NULL)
	{
		err_set(e, ERR_NOT_FOUND, "model \"%s\" is not known to the engine", name);
		return NULL;
	}
	if (en != NULL)
		entry_remove(m, en, "changed");
	return entry_new(m, dboid, name, path, options, e);
}
