/*
 * lora_cache.c
 *	  The cache of adapters of a loaded model.
 *
 * A request for an adapter takes two steps, both outside of the server thread.  A probe checks the files
 * (requests that come before it has begun share it).  Then the adapter is in the cache, or it is loaded
 * into a place, for which an adapter that was not used for long may be evicted.  A waiting server call
 * is in exactly one list: of a probe, of an adapter that is being loaded, or of the calls that need a
 * place; job_busy keeps the call meanwhile.
 *
 * Requests get places in order of arrival.  An adapter that is always in use would keep its place
 * forever.  So when LORA_PATIENCE requests have begun while another one waits for a place, the adapter
 * that was loaded first is `leaving`.  New requests for it wait, too, after those that wait already,
 * until it is idle and can be evicted.
 *
 * Tested by tests/unit/server/models/test_lora_cache.c.
 */
#include "server/models/lora_cache.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/json/json_writer.h"
#include "base/log.h"
#include "base/alloc.h"
#include "server/models/registry_internal.h"
#include "server/request/request.h"
#include "server/server.h"

#define MAX_NAMES	16			/* names of an adapter that are listed; the oldest one is dropped */
#define LORA_PATIENCE	32

typedef struct Waiting
{
	ServerCall *head;
	ServerCall **tail;
} Waiting;

/* A name under which requests have asked for the adapter. */
typedef struct LoraName
{
	uint32_t	dboid;
	char		model[WIRE_NAME_LEN];
	char		name[WIRE_NAME_LEN];
} LoraName;

struct Lora
{
	Lora	   *next;
	LoraCache  *lc;
	char	   *path;
	char	   *print;			/* fingerprint of the files */
	uint64_t	id;
	LoraAdapter *a;				/* NULL: still loading */
	int64_t		bytes;			/* memory; until it is loaded, the size of its file */
	bool		pinned;
	bool		unlisted;			/* no new request finds it */
	int			users;			/* server calls that use it */
	int64_t		n_requests;
	int64_t		used_us;		/* time of the last request, since the epoch */
	uint64_t	used_no;		/* order of the last requests for all adapters */
	LoraName	names[MAX_NAMES];
	int			n_names;
	Waiting		waiting;
};

typedef struct Probe
{
	Job			j;
	struct Probe *next;
	LoraCache  *lc;
	ModelInstance *pin;
	char	   *path;
	char	   *print;
	int64_t		bytes;			/* size of the file with the weights */
	_Atomic bool begun;
	Waiting		waiting;
} Probe;

struct LoraCache
{
	struct Server *srv;
	const BackendModel *instance;		/* NULL: the model is unloaded */
	LoraLimits	limits;
	Lora	   *all;
	int			n;
	Probe	   *probes;			/* probes that have not ended */
	Waiting		unplaced;		/* calls that need a place; their ServerCall.lora is NULL */
	int			passed;			/* requests that have begun since one of the waiting calls got a place */
	Lora	   *leaving;		/* it takes no new requests; NULL = none */
	uint64_t	uses;
	bool		freed;			/* a place may have become free */
	bool		no_room;		/* memory must become available first (memory_limit.c) */
};

/* ---- lists of server calls ---- */

static void
wait_init(Waiting *w)
{
	w->head = NULL;
	w->tail = &w->head;
}

static void
wait_add(Waiting *w, ServerCall *c)
{
	/* a call is in one list at a time, which keeps it alive */
	ASSERT(c->job_busy && c->lora == NULL && *w->tail == NULL);
	c->lora_next = NULL;
	*w->tail = c;
	w->tail = &c->lora_next;
}

static ServerCall *
wait_take(Waiting *w)
{
	ServerCall *c = w->head;

	if (c != NULL)
	{
		w->head = c->lora_next;
		if (w->head == NULL)
			w->tail = &w->head;
	}
	return c;
}

/* The call's wait has ended. */
static void
go_on(ServerCall *c, const Err *e)
{
	c->job_busy = false;
	if (e == NULL)
	{
		if (scall_is_active(c))
			entry_run(c);
	}
	else
		request_fail(c, e);
}

static void
fail_all(Waiting *w, const Err *e)
{
	ServerCall *c;

	while ((c = wait_take(w)) != NULL)
		go_on(c, e);
}

/* ---- adapters ---- */

LoraCache *
loras_new(struct Server *srv, const BackendModel *instance, const LoraLimits *limits)
{
	LoraCache  *lc = mem_zalloc(sizeof(LoraCache));

	lc->srv = srv;
	lc->instance = instance;
	lc->limits = *limits;
	wait_init(&lc->unplaced);
	return lc;
}

/* Free the cache if the model is unloaded and nothing is left. */
static void
cache_settle(LoraCache *lc)
{
	if (lc->instance == NULL && lc->all == NULL && lc->probes == NULL)
		mem_free(lc);
}

static void
lora_dispose(Lora *l)
{
	LoraCache  *lc = l->lc;
	Lora	  **pp = &lc->all;

	ALWAYS(l->users == 0 && l->waiting.head == NULL && lc->n > 0);
	while (*pp != l)
		pp = &(*pp)->next;
	*pp = l->next;
	lc->n--;
	lc->freed = true;
	if (lc->leaving == l)
		lc->leaving = NULL;
	lora_free(l->a);
	mem_free(l->path);
	mem_free(l->print);
	mem_free(l);
	models_show(lc->srv->models);
	cache_settle(lc);
}

/* Hide the adapter from new requests.  Returns true if it was freed. */
static bool
lora_unlist(Lora *l)
{
	l->unlisted = true;
	l->pinned = false;
	if (l->lc->leaving == l)
		l->lc->leaving = NULL;
	if (l->users > 0 || l->a == NULL)
		return false;
	lora_dispose(l);
	return true;
}

void
loras_close(LoraCache *lc)
{
	Err			e;

	err_set(&e, ERR_NOT_READY, "the model was unloaded");
	for (ServerCall *c = lc->unplaced.head; c != NULL; c = c->lora_next)
	{
		step_watch(lc->srv->step, -1);
		mem_free(c->lora_print);
		c->lora_print = NULL;
	}
	fail_all(&lc->unplaced, &e);
	for (Lora *l = lc->all, *next; l != NULL; l = next)
	{
		next = l->next;
		lora_unlist(l);
	}
	lc->instance = NULL;
	cache_settle(lc);
}

static void
lora_named(Lora *l, const ServerCall *c)
{
	const Request *r = c->req;
	int			i;

	for (i = 0; i < l->n_names; i++)
		if (l->names[i].dboid == r->dboid && strcmp(l->names[i].model, r->model) == 0 &&
			strcmp(l->names[i].name, r->lora) == 0)
			return;
	if (l->n_names == MAX_NAMES)
		memmove(&l->names[0], &l->names[1], (size_t) --l->n_names * sizeof(LoraName));
	l->names[l->n_names].dboid = r->dboid;
	snprintf(l->names[l->n_names].model, WIRE_NAME_LEN, "%s", r->model);
	snprintf(l->names[l->n_names].name, WIRE_NAME_LEN, "%s", r->lora);
	l->n_names++;
}

/*
 * A request has waited for a place long enough: choose an adapter in use that takes no new requests
 * until it is idle.
 */
static void
make_one_leave(LoraCache *lc)
{
	for (Lora *l = lc->all; l != NULL; l = l->next)
		if (l->a != NULL && !l->pinned && !l->unlisted && (lc->leaving == NULL || l->id < lc->leaving->id))
			lc->leaving = l;
}

/* c uses the adapter from now on. */
static void
lora_use(Lora *l, ServerCall *c)
{
	LoraCache  *lc = l->lc;
	struct timespec now;

	ALWAYS(l->a != NULL && c->lora == NULL);
	clock_gettime(CLOCK_REALTIME, &now);
	l->users++;
	l->n_requests++;
	l->used_us = (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
	l->used_no = ++lc->uses;
	if (c->req->lora_pin >= 0)
		l->pinned = c->req->lora_pin > 0;
	if (lc->unplaced.head != NULL && ++lc->passed >= LORA_PATIENCE && lc->leaving == NULL)
		make_one_leave(lc);
	c->lora = l;
	c->adapter = l->a;
	go_on(c, NULL);
}

void
lora_unref(Lora *l)
{
	ALWAYS(l->users > 0);
	l->lc->freed = true;
	if (--l->users == 0 && l->unlisted)
		lora_dispose(l);
}

/* ---- loading ---- */

typedef struct LoadJob
{
	Job			j;
	Lora	   *l;
	ModelInstance *pin;
	const Backend *be;
	const BackendModel *instance;
	LoraLimits	limits;
	LoraAdapter *a;
	Err			err;
	int64_t		start_us;
} LoadJob;

static void
load_run(Job *j)
{
	LoadJob    *t = (LoadJob *) j;

	t->a = t->be->loader->lora_load(t->instance, t->l->path, &t->limits, &t->err);
}

/* Copy a name without the characters that separate or quote names in lists. */
static void
plain_name(const char *from, char *to, size_t size)
{
	size_t		n = 0;

	for (; from[n] != '\0' && n + 1 < size; n++)
		to[n] = (from[n] >= '0' && from[n] <= '9') || (from[n] >= 'a' && from[n] <= 'z') ||
			(from[n] >= 'A' && from[n] <= 'Z') || strchr("_-.:/", from[n]) != NULL ? from[n] : '?';
	to[n] = '\0';
}

static void
load_done(Job *j)
{
	LoadJob    *t = (LoadJob *) j;
	Lora	   *l = t->l;
	Waiting		waiting = l->waiting;
	ServerCall *c;

	if (waiting.head == NULL)
		waiting.tail = &waiting.head;
	wait_init(&l->waiting);
	l->a = t->a;
	if (t->a != NULL)
	{
		l->bytes = t->a->info.bytes;
		for (LoraAdapter *a = t->a; a != NULL; a = a->next)
		{
			a->id = l->id;
			plain_name(l->names[0].name, a->name, sizeof(a->name));
		}
		log_line('I', "adapter loaded from \"%s\": rank %d, %" PRId64 " kB, %" PRId64 " ms", l->path,
				 t->a->info.rank, t->a->info.bytes >> 10, (clock_us() - t->start_us) / 1000);
		models_show(l->lc->srv->models);
		l->users++;				/* keeps l: waiting calls may release it at once */
		while ((c = wait_take(&waiting)) != NULL)
			lora_use(l, c);
		lora_unref(l);
	}
	else
	{
		log_line('W', "could not load adapter from \"%s\": %s", l->path, t->err.msg);
		lora_dispose(l);
		fail_all(&waiting, &t->err);
	}
	loaded_unpin(t->pin);
	mem_free(t);
}

static void
lora_begin(LoraCache *lc, ServerCall *c, const char *print, bool pinned)
{
	const char *path = c->req->lora_path;
	/* unique in this process, so that KV blocks of one adapter are never used for another */
	static uint64_t last_id;
	Lora	   *l = mem_zalloc(sizeof(Lora));
	LoadJob    *t = mem_zalloc(sizeof(LoadJob));

	l->lc = lc;
	l->path = mem_strdup(path);
	l->print = mem_strdup(print);
	l->bytes = c->lora_bytes;
	l->id = ++last_id;
	l->pinned = pinned;
	wait_init(&l->waiting);
	wait_add(&l->waiting, c);
	lora_named(l, c);
	l->next = lc->all;
	lc->all = l;
	lc->n++;
	t->j.run = load_run;
	t->j.done = load_done;
	t->l = l;
	t->pin = entry_pin(c->entry);
	t->be = lc->srv->be;
	t->instance = lc->instance;
	t->limits = lc->limits;
	t->start_us = clock_us();
	jobs_submit(lc->srv->jobs, JQ_LORA, &t->j);
}

/* Return the least recently used adapter without a request; NULL = none. */
static Lora *
oldest_idle(const LoraCache *lc)
{
	Lora	   *oldest = NULL;

	for (Lora *l = lc->all; l != NULL; l = l->next)
		if (l->users == 0 && !l->pinned && l->a != NULL && (oldest == NULL || l->used_no < oldest->used_no))
			oldest = l;
	return oldest;
}

int64_t
loras_bytes(const LoraCache *lc)
{
	int64_t		sum = 0;

	for (const Lora *l = lc->all; l != NULL; l = l->next)
		sum += l->bytes;
	return sum;
}

int64_t
loras_oldest_us(const LoraCache *lc)
{
	const Lora *l = oldest_idle(lc);

	return l != NULL ? l->used_us : INT64_MAX;
}

void
loras_evict(LoraCache *lc)
{
	Lora	   *l = oldest_idle(lc);

	log_line('I', "adapter \"%s\" is removed from memory because its memory is needed", l->path);
	lora_dispose(l);
}

/* Is there a free place, or can one be freed? */
static bool
make_place(LoraCache *lc)
{
	Lora	   *oldest;

	if (lc->n < lc->limits.max_cpu_loras)
		return true;
	oldest = oldest_idle(lc);
	if (oldest == NULL)
		return false;
	lora_dispose(oldest);
	return true;
}

static bool
all_pinned(const LoraCache *lc)
{
	for (const Lora *l = lc->all; l != NULL; l = l->next)
		if (!l->pinned || l->unlisted)
			return false;
	return true;
}

static void
wait_for_place(LoraCache *lc, ServerCall *c, const char *print)
{
	c->lora_print = mem_strdup(print);
	wait_add(&lc->unplaced, c);
	step_watch(lc->srv->step, 1);
}

/* The adapter is in the cache, or is being loaded: c uses it or waits for it. */
static void
take(LoraCache *lc, Lora *l, ServerCall *c, const char *print)
{
	lora_named(l, c);
	if (l->a == NULL)
		wait_add(&l->waiting, c);
	else if (l == lc->leaving && lc->unplaced.head != NULL)
		wait_for_place(lc, c, print);
	else
	{
		if (l == lc->leaving)
			lc->leaving = NULL;	/* no request waits for its place any more */
		lora_use(l, c);
	}
}

/* Load the adapter into a free place, if vllm.memory_limit has memory for it. */
static void
begin_if_room(LoraCache *lc, ServerCall *c, const char *print, bool pinned)
{
	Err			e;
	MemoryVerdict room = memory_limit_lora(c->entry, c->req->lora, c->lora_bytes, &c->lora_waiting_us, &e);

	if (room == MEMORY_REFUSED)
		go_on(c, &e);
	else if (room == MEMORY_WAIT)
	{
		lc->no_room = true;
		wait_for_place(lc, c, print);
	}
	else
	{
		lc->passed = 0;
		lora_begin(lc, c, print, pinned);
	}
}

/*
 * The files at c's path have been probed.  again: the probe was before c waited for a place.  Then the
 * cached adapter is no older than the probe, because a request that found other files would have
 * unlisted it.
 */
static void
place(LoraCache *lc, ServerCall *c, const char *print, bool again)
{
	const char *path = c->req->lora_path;
	bool		pinned = false;
	Err			e;

	for (Lora *l = lc->all, *next; l != NULL; l = next)
	{
		next = l->next;
		if (l->unlisted || strcmp(l->path, path) != 0)
			continue;
		if (again || strcmp(l->print, print) == 0)
		{
			take(lc, l, c, print);
			return;
		}
		pinned = l->pinned;
		lora_unlist(l);
	}
	/* the changed adapter inherits the pin, even if it has to wait for its place */
	if (pinned && c->req->lora_pin < 0)
		c->req->lora_pin = 1;
	/* no request overtakes the waiting ones */
	if ((again || lc->unplaced.head == NULL) && !lc->no_room && make_place(lc))
		begin_if_room(lc, c, print, pinned);
	else if (lc->n >= lc->limits.max_cpu_loras && all_pinned(lc))
	{
		err_set(&e, ERR_NOT_READY, "adapter \"%s\" can't be loaded: all %d places are taken by pinned ones",
				c->req->lora, lc->limits.max_cpu_loras);
		err_hint(&e, "Raise max_cpu_loras, or unload an adapter.");
		go_on(c, &e);
	}
	else
	{
		/*
		 * if it waits after a request for which there is no memory, its memory timeout starts, too
		 * (memory_limit_lora())
		 */
		if (!lc->no_room)
			c->lora_waiting_us = 0;
		else if (c->lora_waiting_us == 0)
			c->lora_waiting_us = clock_us();
		wait_for_place(lc, c, print);
	}
}

/* ---- probing files ---- */

static bool
add_file(Buf *b, const char *dir, const char *name, int64_t *size)
{
	char		file[4096];
	struct stat st;

	if (snprintf(file, sizeof(file), "%s/%s", dir, name) >= (int) sizeof(file) || stat(file, &st) != 0)
		return false;
	buf_printf(b, "%ju:%ju:%jd:%jd.%09ld:%jd.%09ld;", (uintmax_t) st.st_dev, (uintmax_t) st.st_ino,
			   (intmax_t) st.st_size, (intmax_t) st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
			   (intmax_t) st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
	*size = (int64_t) st.st_size;
	return true;
}

/* Missing files are no error here: the loader reports them. */
static void
probe_run(Job *j)
{
	static const char *const names[] = {"adapter_config.json", "adapter_model.bin",
										"adapter_model.safetensors"};
	Probe	   *p = (Probe *) j;
	Buf			b = {0};

	atomic_store(&p->begun, true);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		p->bytes = 0;
		if (!add_file(&b, p->path, names[i], &p->bytes))
			buf_addc(&b, '-');
	}
	p->print = b.data;
}

static void
probe_done(Job *j)
{
	Probe	   *p = (Probe *) j;
	LoraCache  *lc = p->lc;
	Probe	  **pp = &lc->probes;
	ServerCall *c;
	Err			unloaded;

	while (*pp != p)
		pp = &(*pp)->next;
	*pp = p->next;
	err_set(&unloaded, ERR_NOT_READY, "the model was unloaded");
	while ((c = wait_take(&p->waiting)) != NULL)
		if (!scall_is_active(c))
			c->job_busy = false;
		else if (lc->instance == NULL)
			go_on(c, &unloaded);
		else
		{
			c->lora_bytes = p->bytes;
			c->lora_waiting_us = 0;
			place(lc, c, p->print, false);
		}
	loaded_unpin(p->pin);
	mem_free(p->path);
	mem_free(p->print);
	mem_free(p);
}

void
loras_want(LoraCache *lc, ServerCall *c)
{
	const char *path = c->req->lora_path;
	Probe	   *p;
	Err			e;

	if (!lc->limits.enabled)
	{
		err_set(&e, ERR_UNSUPPORTED, "model \"%s\" takes no adapters", entry_name(c->entry));
		err_hint(&e, "Its option enable_lora, or the setting vllm.enable_lora, is off.");
		request_fail(c, &e);
		return;
	}
	c->stage = SCALL_LORA;
	c->job_busy = true;
	for (p = lc->probes; p != NULL; p = p->next)
		if (!atomic_load(&p->begun) && strcmp(p->path, path) == 0)
		{
			wait_add(&p->waiting, c);
			return;
		}
	p = mem_zalloc(sizeof(Probe));
	p->j.run = probe_run;
	p->j.done = probe_done;
	p->lc = lc;
	p->pin = entry_pin(c->entry);
	p->path = mem_strdup(path);
	wait_init(&p->waiting);
	wait_add(&p->waiting, c);
	p->next = lc->probes;
	lc->probes = p;
	jobs_submit(lc->srv->jobs, JQ_LOOK, &p->j);
}

/* ---- freed places ---- */

/* Release the adapter of a call that has ended, before its slot is used again. */
static void
let_go(ServerCall *c, void *arg)
{
	(void) arg;
	/* partner: send_finals() in step_loop.c */
	if (c->lora != NULL && !scall_is_active(c) && !c->job_busy && !atomic_load(&c->in_core))
	{
		lora_unref(c->lora);
		c->lora = NULL;
		c->adapter = NULL;
	}
}

void
loras_let_go(struct Server *srv)
{
	server_each(srv, let_go, NULL);
}

/*
 * Give free places to waiting calls.  Called in each iteration of the server thread; true: call again
 * soon.
 */
static bool
loras_attend(LoraCache *lc)
{
	Waiting		again;
	ServerCall *c;

	if (lc->unplaced.head == NULL)
		return false;
	loras_let_go(lc->srv);
	if (!lc->freed && !lc->no_room && scall_is_active(lc->unplaced.head))
		return false;
	lc->freed = lc->no_room = false;
	again = lc->unplaced;
	wait_init(&lc->unplaced);
	while ((c = wait_take(&again)) != NULL)
	{
		char	   *print = c->lora_print;

		c->lora_print = NULL;
		step_watch(lc->srv->step, -1);
		if (scall_is_active(c))
			place(lc, c, print, true);
		else
			c->job_busy = false;
		mem_free(print);
	}
	if (lc->unplaced.head == NULL)
	{
		lc->leaving = NULL;
		lc->passed = 0;
	}
	return lc->no_room;
}

/* ---- requests about adapters ---- */

static void
put_info(JsonOut *j, const LoraInfo *info)
{
	const char *p = info->modules;

	json_key_int(j, "rank", info->rank);
	json_key(j, "alpha");
	json_double(j, info->alpha);
	json_key(j, "rslora");
	json_bool(j, info->rslora);
	json_key_int(j, "bytes", info->bytes);
	json_key_cstr(j, "base_model", info->base[0] != '\0' ? info->base : NULL);
	json_key(j, "modules");
	json_open(j, '[');
	while (*p != '\0')
	{
		size_t		n = strcspn(p, ",");

		json_str(j, p, n);
		p += n + (p[n] == ',');
	}
	json_close(j, ']');
}

static void
answer_info(ServerCall *c, const LoraInfo *info)
{
	Buf			text = {0};
	Buf			fields = {0};
	WireOut		o = chan_out(&fields);
	JsonOut		j = {.b = &text};

	json_open(&j, '{');
	put_info(&j, info);
	json_close(&j, '}');
	wire_put_str(&o, WTAG_TEXT, text.data, text.len);
	scall_end(c, WF_DONE, &fields);
	buf_free(&text);
	buf_free(&fields);
}

void
loras_loaded(ServerCall *c)
{
	answer_info(c, &c->lora->a->info);
	lora_unref(c->lora);
	c->lora = NULL;
	c->adapter = NULL;
}

typedef struct LoraCheckJob
{
	Job			j;
	ServerCall *c;
	LoraInfo	info;
	bool		ok;
	Err			err;
} LoraCheckJob;

static void
check_run(Job *j)
{
	LoraCheckJob *k = (LoraCheckJob *) j;

	k->ok = k->c->srv->be->loader->lora_check(k->c->req->lora_path, &k->info, &k->err);
}

static void
check_done(Job *j)
{
	LoraCheckJob *k = (LoraCheckJob *) j;

	k->c->job_busy = false;
	if (!k->ok)
		request_fail(k->c, &k->err);
	else if (scall_is_active(k->c))
		answer_info(k->c, &k->info);
	mem_free(k);
}

void
loras_check(ServerCall *c)
{
	LoraCheckJob *k = mem_zalloc(sizeof(LoraCheckJob));

	k->j.run = check_run;
	k->j.done = check_done;
	k->c = c;
	c->job_busy = true;
	c->stage = SCALL_BUSY;
	jobs_submit(c->srv->jobs, JQ_LORA, &k->j);
}

void
loras_unload(LoraCache *lc, ServerCall *c)
{
	Buf			fields = {0};
	WireOut		o = chan_out(&fields);
	int			n = 0;

	for (Lora *l = lc != NULL ? lc->all : NULL, *next; l != NULL; l = next)
	{
		next = l->next;
		if (l->unlisted || strcmp(l->path, c->req->lora_path) != 0)
			continue;
		lora_unlist(l);
		n++;
	}
	wire_put_int(&o, WTAG_COUNT, n);
	scall_end(c, WF_DONE, &fields);
	buf_free(&fields);
}

/* The number of requests that use an adapter, by state. */
typedef struct Users
{
	const Lora *l;
	int			running;
	int			waiting;
} Users;

static void
count_user(ServerCall *c, void *arg)
{
	Users	   *u = arg;

	if (c->lora != u->l || !atomic_load_explicit(&c->in_core, memory_order_acquire))
		return;
	u->running++;
}

static void
put_one(const Lora *l, const LoraName *name, JsonOut *j)
{
	Users		u = {l, 0, 0};
	char		hash[17];

	snprintf(hash, sizeof(hash), "%016" PRIx64, wire_model_hash(l->path, ""));
	server_each(l->lc->srv, count_user, &u);
	for (const ServerCall *c = l->waiting.head; c != NULL; c = c->lora_next)
		u.waiting++;
	json_open(j, '{');
	json_key_int(j, "database", name->dboid);
	json_key_cstr(j, "model", name->model);
	json_key_cstr(j, "name", name->name);
	json_key_cstr(j, "path", l->path);
	json_key_cstr(j, "path_hash", hash);
	json_key_int(j, "id", (int64_t) l->id);
	json_key_cstr(j, "state", l->a == NULL ? "loading" : l->unlisted ? "leaving" : "ready");
	json_key(j, "pinned");
	json_bool(j, l->pinned);
	json_key_int(j, "running", u.running);
	json_key_int(j, "waiting", u.waiting);
	json_key_int(j, "requests", l->n_requests);
	json_key_int(j, "last_use_us", l->used_us);
	if (l->a != NULL)
		put_info(j, &l->a->info);
	json_close(j, '}');
}

/*
 * Write the adapters that requests of the database (0: of any) have named, with this model, as members
 * of a JSON array.
 */
static void
loras_list(const LoraCache *lc, uint32_t dboid, JsonOut *j)
{
	for (const Lora *l = lc->all; l != NULL; l = l->next)
		for (int i = 0; i < l->n_names; i++)
			if (dboid == 0 || l->names[i].dboid == dboid)
				put_one(l, &l->names[i], j);
}

/* ---- all models ---- */

bool
models_attend_loras(Models *m)
{
	bool		soon = false;

	if (!step_watched(m->srv->step))
		return false;
	for (ModelInstance *l = m->loaded, *next; l != NULL; l = next)
	{
		next = l->next;
		/* an adapter is checked against the model's weights, which may not be in memory during sleep */
		if (l->loras != NULL && l->rest == LR_AWAKE)
			soon |= loras_attend(l->loras);
	}
	return soon;
}

/* ---- the adapters of the registry's models (registry.h) ---- */

LoraCache *
models_loras(const Models *m, uint32_t dboid, const char *name)
{
	const ModelEntry *en = registry_find(m, dboid, name);

	return en != NULL && en->state == WM_READY ? en->loaded->loras : NULL;
}

void
models_list_loras(const Models *m, uint32_t dboid, JsonOut *j)
{
	for (const ModelInstance *l = m->loaded; l != NULL; l = l->next)
		if (l->loras != NULL)
			loras_list(l->loras, dboid, j);
}
