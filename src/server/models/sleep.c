/*
 * sleep.c
 *	  Models that sleep: their memory is freed, and they come back with the same outputs.
 *
 *	level	freed						comes back by
 *	0		nothing: no step is made		resuming
 *	1		KV cache; weights go to a file	reading the file
 *	2		the whole instance				loading the model's files as they are then
 *
 * An instance whose requests are kept at level 2 frees KV cache and weights only (LR_FORGOTTEN).  When
 * it wakes up, its files are loaded again.  If they are unchanged, their weights replace the freed ones
 * (ModelControl.swap_weights()), so that the requests continue with the same outputs; otherwise the
 * requests fail.
 *
 * An entry's `asleep` says what it lacks (WIRE_SLEEP_*).  It is set first, so that no new request
 * starts, and its last bit is cleared when everything is back.  Requests for a sleeping model wait in
 * stage SCALL_ASLEEP or fail (sleep_stops()).  Entries that share weights sleep together.
 *
 * Each command is a SleepOp.  The server thread processes them one after the other, in steps of
 * op_poll(), some of which are jobs: the step thread suspends an instance, a loader thread moves its
 * weights.  If the client cancels while the operation waits for requests, the sleep is undone; later the
 * operation runs to its end.
 *
 * Server thread, but for the jobs' run functions.  Tested by test_sleep.c, t/093_sleep.pl.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/alloc.h"
#include "server/models/registry_internal.h"
#include "server/request/request.h"
#include "core/spec/spec_config.h"

typedef enum OpStage
{
	OP_NEW,
	OP_DRAIN,					/* waits for requests to end */
	OP_NEXT,					/* process the next instance */
	OP_JOB,						/* a job processes it */
	OP_PINS,					/* waits for other jobs that use the current instance */
	OP_FREEING,					/* waits for the memory of released instances */
	OP_END
} OpStage;

struct SleepOp
{
	Job			j;
	SleepOp    *next;
	Models	   *m;
	ServerCall *c;				/* the command's call; job_busy keeps it */
	bool		wake;
	bool		changed;		/* the files of the current instance have changed */
	OpStage		stage;
	ModelEntry *en;				/* holds a reference; NULL = all */
	int			level;
	SleepMode	mode;
	unsigned	bits;			/* wake: the WIRE_SLEEP_* to bring back */
	ModelInstance *at;				/* current instance, pinned; NULL = none */
	char		dir[1024];		/* directory for weights */
	Err			e;				/* error of the current instance; cls ERR_NONE = none */
	Err			failed;			/* error of a sleep that is being undone by a wake */
};

/* ---- which models sleep ---- */

static bool
in_scope(const SleepOp *op, const ModelEntry *en)
{
	return op->en == NULL || op->en == en || (en->loaded != NULL && en->loaded == op->en->loaded);
}

void
sleep_inherit(ModelEntry *en, const ModelInstance *l)
{
	const ModelEntry *from = NULL;

	if (l == NULL)
	{
		en->asleep = en->m->asleep;
		en->sleep_level = en->m->sleep_level;
		return;
	}
	for (const ModelEntry *o = en->m->entries; o != NULL && from == NULL; o = o->next)
		if (o != en && o->loaded == l)
			from = o;
	if (from != NULL && from->asleep != 0)
	{
		en->asleep = from->asleep;
		en->sleep_level = from->sleep_level;
	}
}

/* Does the request only tokenize or detokenize?  The tokenizer stays as long as the instance. */
static bool
needs_no_weights(const ServerCall *c)
{
	return c->ch.kind == WK_DETOKENIZE || c->ch.kind == WK_CHUNK || c->ch.kind == WK_CHAT_RENDER ||
		(c->ch.kind == WK_TOKENIZE && !c->req->embeds.want);
}

bool
sleep_stops(ServerCall *c)
{
	ModelEntry *en = c->entry;
	Err			e;

	if (en->asleep == 0 && en->loaded != NULL && (en->loaded->leaving || en->loaded->held) &&
		c->stage != SCALL_LOADING)
	{
		/* its memory is needed elsewhere (memory_limit.c), or it gets new weights (weight_update.c) */
		c->stage = SCALL_ASLEEP;
		scall_phase(c, WP_WAITING);
		return true;
	}
	if (en->asleep != 0 && needs_no_weights(c) && entry_inst(en) != NULL)
	{
		/* the operation waits for its jobs; new ones all the time would make that endless */
		if (!en->loaded->held)
			return false;
		c->stage = SCALL_ASLEEP;
		scall_phase(c, WP_WAITING);
		return true;
	}
	if (en->asleep == 0)
		return false;
	/* the call waited for the load already when the operation began to wait for it */
	if (c->stage == SCALL_LOADING && en->m->ops != NULL && en->m->ops->stage == OP_DRAIN &&
		in_scope(en->m->ops, en))
		return false;
	if (en->sleep_level > 0 && !c->req->sleep_wait && c->stage != SCALL_ASLEEP)
	{
		err_set(&e, ERR_NOT_READY, "model \"%s\" is asleep", en->name);
		err_hint(&e, "llm_wake_up() wakes it; with vllm.sleep_requests = \"wait\" requests wait for that.");
		request_fail(c, &e);
		return true;
	}
	c->stage = SCALL_ASLEEP;
	scall_phase(c, WP_ASLEEP);
	return true;
}

/* Return what is missing when `bits` are back.  A sleeper with weights and KV cache lacks nothing. */
static unsigned
sleep_left(unsigned asleep, int level, unsigned bits)
{
	asleep &= ~bits;
	return level > 0 && (asleep & (WIRE_SLEEP_WEIGHTS | WIRE_SLEEP_KV)) == 0 ? 0 : asleep;
}

/* ---- server calls ---- */

/* Does the call wait for a model which is awake, or need no weights? */
static bool
may_wake(ServerCall *c)
{
	return c->stage == SCALL_ASLEEP &&
		(c->entry->asleep == 0 || (needs_no_weights(c) && entry_inst(c->entry) != NULL));
}

/* Continue the waiting requests in the order of arrival. */
void
sleep_wake_requests(Models *m)
{
	size_t		n;
	ServerCall **c = server_calls_by_arrival(m->srv, may_wake, &n);

	for (size_t i = 0; i < n; i++)
		entry_go(c[i]);
	mem_free(c);
}

/* Return the instance that has the request, or would have it. */
static ModelInstance *
conv_loaded(const ServerCall *c)
{
	return c->on != NULL ? c->on : c->entry->loaded;
}

/* Does the instance process the request, or a job for it? */
static bool
at_work(ServerCall *c)
{
	if (c->stage == SCALL_RUNNING)
		return atomic_load(&c->in_core);
	return scall_is_active(c) && (c->stage == SCALL_LORA || (c->stage == SCALL_BUSY && c->job_busy));
}

typedef struct Live
{
	const SleepOp *op;
	size_t		n;
} Live;

static void
count_live(ServerCall *c, void *arg)
{
	Live	   *all = arg;

	/* requests of a paused model do not end, so they are not waited for: they are kept */
	if (c->entry != NULL && in_scope(all->op, c->entry) &&
		(conv_loaded(c) == NULL || conv_loaded(c)->rest == LR_AWAKE) &&
		(at_work(c) || (c->stage == SCALL_LOADING && scall_is_active(c))))
		all->n++;
}

static bool
drained(const SleepOp *op)
{
	Live		live = {.op = op};

	server_each(op->m->srv, count_live, &live);
	return live.n == 0;
}

static void
park_loading(ServerCall *c, void *arg)
{
	if (c->entry == arg && c->stage == SCALL_LOADING && scall_is_active(c))
	{
		c->stage = SCALL_ASLEEP;
		scall_phase(c, WP_ASLEEP);
	}
}

/* ---- beginning and end of an operation ---- */

/* Fail the command.  An error of all models may be about one whose files the caller may not know. */
static void
op_fail(const SleepOp *op)
{
	Err			e = op->e.cls != ERR_NONE ? op->e : op->failed;
	char		draft[SPEC_PATH];

	if (op->en == NULL && op->c->req != NULL && (op->c->req->secret_paths & WIRE_SECRET_MODEL) != 0)
		for (const ModelEntry *en = op->m->entries; en != NULL; en = en->next)
		{
			err_replace(&e, en->path, en->name);
			if (model_opts_draft_path(&en->opts, draft))
				err_replace(&e, draft, "speculative_config");
		}
	request_fail(op->c, &e);
}

static void
op_end(SleepOp *op)
{
	Models	   *m = op->m;
	ServerCall *c = op->c;

	ALWAYS(m->ops == op && op->stage == OP_END && op->at == NULL);
	m->ops = op->next;
	models_show(m);
	c->job_busy = false;
	if (op->e.cls != ERR_NONE || op->failed.cls != ERR_NONE)
		op_fail(op);
	else
		server_answer(c, "ok");
	if (op->en != NULL)
		entry_unref(op->en);
	mem_free(op);
}

void
sleep_stop_load(ModelEntry *en)
{
	ModelInstance *l;

	if (en->state != WM_LOADING)
		return;
	server_each(en->m->srv, park_loading, en);
	l = entry_let_go(en);
	if (l != NULL)
		loaded_settle(l);
}

static void
fall_asleep(SleepOp *op, ModelEntry *en)
{
	Err			e;

	en->was_asleep = en->asleep;
	en->was_level = en->sleep_level;
	en->asleep |= op->level == 0 ? WIRE_SLEEP_SCHEDULING : WIRE_SLEEP_ALL;
	if (op->level > en->sleep_level)
		en->sleep_level = op->level;
	if (op->mode == SLEEP_WAIT)
		return;
	sleep_stop_load(en);
	if (op->mode == SLEEP_KEEP)
		return;
	err_set(&e, ERR_NOT_READY, "model \"%s\" was %s", en->name, op->level == 0 ? "paused" : "put to sleep");
	err_hint(&e, "%s wakes it.", op->level == 0 ? "llm_resume()" : "llm_wake_up()");
	entry_fail_requests(en, &e, op->c);
}

static void
begin_sleep(SleepOp *op)
{
	Models	   *m = op->m;

	if (op->en == NULL)
	{
		m->was_asleep = m->asleep;
		m->was_level = m->sleep_level;
		m->asleep |= op->level == 0 ? WIRE_SLEEP_SCHEDULING : WIRE_SLEEP_ALL;
		if (op->level > m->sleep_level)
			m->sleep_level = op->level;
	}
	for (ModelEntry *en = m->entries; en != NULL; en = en->next)
		if (in_scope(op, en))
			fall_asleep(op, en);
	models_show(m);
	op->stage = op->mode == SLEEP_WAIT ? OP_DRAIN : OP_NEXT;
}

static void
end_drain(SleepOp *op)
{
	/* loads that no call waits for any more */
	for (ModelEntry *en = op->m->entries; en != NULL; en = en->next)
		if (in_scope(op, en))
			sleep_stop_load(en);
	op->stage = OP_NEXT;
}

/* Undo begin_sleep(). */
static void
take_back(SleepOp *op)
{
	Models	   *m = op->m;

	if (op->en == NULL)
	{
		m->asleep = m->was_asleep;
		m->sleep_level = m->was_level;
	}
	for (ModelEntry *en = m->entries; en != NULL; en = en->next)
		if (in_scope(op, en))
		{
			en->asleep = en->was_asleep;
			en->sleep_level = en->was_level;
		}
	models_show(m);
	sleep_wake_requests(m);
	op->stage = OP_END;
}

/* All instances are awake as requested: update the entries. */
static void
end_wake(SleepOp *op)
{
	Models	   *m = op->m;

	for (ModelEntry *en = m->entries; en != NULL; en = en->next)
		if (in_scope(op, en) && en->asleep != 0)
		{
			en->asleep = sleep_left(en->asleep, en->sleep_level, op->bits);
			if (en->asleep == 0)
				en->sleep_level = 0;
		}
	if (op->en == NULL && m->asleep != 0)
	{
		m->asleep = sleep_left(m->asleep, m->sleep_level, op->bits);
		if (m->asleep == 0)
			m->sleep_level = 0;
	}
	models_show(m);
	sleep_wake_requests(m);
	op->stage = OP_END;
}

/* ---- instances ---- */

static void
let_go_of(SleepOp *op, ModelInstance *l)
{
	ModelInstance *last = NULL;

	for (ModelEntry *en = op->m->entries; en != NULL; en = en->next)
		if (en->loaded == l)
			last = entry_let_go(en);
	if (last != NULL)
		loaded_settle(last);
}

typedef struct FailOn
{
	const ModelInstance *l;
	Err			e;
} FailOn;

static void
fail_on(ServerCall *c, void *arg)
{
	FailOn	   *f = arg;

	if (c->entry != NULL && c->stage != SCALL_ASLEEP && conv_loaded(c) == f->l)
		request_fail(c, &f->e);
}

/* The instance's weights are lost: its requests fail, and the next ones load the model anew. */
static void
give_up(SleepOp *op, ModelInstance *l)
{
	FailOn		f = {.l = l};
	const char *name = l->left != NULL ? l->left->name : "";

	for (const ModelEntry *en = op->m->entries; en != NULL; en = en->next)
		if (en->loaded == l)
			name = en->name;
	if (op->changed)
	{
		err_set(&f.e, ERR_NOT_READY, "the files of model \"%s\" have changed while it slept", name);
		err_hint(&f.e, "A request must use one set of weights; repeat it.");
	}
	else
	{
		err_set(&f.e, ERR_NOT_READY, "model \"%s\" has lost its weights", name);
		err_detail(&f.e, "%s", op->e.msg);
	}
	l->given_up = true;
	server_each(op->m->srv, fail_on, &f);
	let_go_of(op, l);
}

/* A job has ended.  A sleep that fails is undone for all models in scope, and the command fails. */
static void
job_done(Job *j)
{
	SleepOp    *op = (SleepOp *) j;
	ModelInstance *l = op->at;

	op->at = NULL;
	if (l->fetched)
		l->ready_us = clock_us();
	l->fetched = false;
	op->stage = OP_NEXT;
	/* a failed wake leaves the instance asleep, unless it undoes a sleep that has lost the weights */
	if (op->changed || (op->wake && l->lost && op->e.cls != ERR_NONE))
		give_up(op, l);
	else if (op->wake)
		l->lost = false;
	if (op->e.cls != ERR_NONE && op->wake)
		op->stage = OP_END;
	else if (op->e.cls != ERR_NONE)
	{
		op->wake = true;
		op->bits = WIRE_SLEEP_ALL;
		op->failed = op->e;
		op->e.cls = ERR_NONE;
	}
	op->changed = false;
	loaded_unpin(l);
}

static void
store_run(Job *j)
{
	SleepOp    *op = (SleepOp *) j;
	const Backend *be = op->m->srv->be;

	if (op->level >= 2)
	{
		if (be->control->drop_weights != NULL)
			be->control->drop_weights(op->at->instance);
		op->at->rest = LR_FORGOTTEN;
	}
	else if (be->control->save_weights == NULL ||
			 be->control->save_weights(op->at->instance, op->dir, &op->at->lost, &op->e))
		op->at->rest = LR_STORED;
	else if (op->at->lost)
		op->at->rest = LR_FORGOTTEN;
}

/* Resume the instance. */
static void
go_on_run(Job *j)
{
	SleepOp    *op = (SleepOp *) j;

	if (op->m->srv->be->control->resume(op->at->instance, &op->e))
		op->at->rest = LR_AWAKE;
}

static void
rest_run(Job *j)
{
	SleepOp    *op = (SleepOp *) j;

	op->m->srv->be->control->suspend(op->at->instance, op->level > 0);
	op->at->rest = LR_RESTS;
}

static void
rest_done(Job *j)
{
	SleepOp    *op = (SleepOp *) j;

	if (op->level == 0)
		job_done(j);
	else
	{
		op->at->held = true;
		op->stage = OP_PINS;
	}
}

static bool
load_on(void *ctx, double done)
{
	(void) ctx;
	(void) done;
	return true;
}

/* Load the weights of the model's files again, if these are unchanged. */
static bool
reload(SleepOp *op)
{
	ModelInstance *l = op->at;
	const Backend *be = op->m->srv->be;
	ModelOpts	opts = l->opts;
	BackendModel *again;
	char	   *key;
	bool		ok = true;

	if (be->control->swap_weights == NULL)
		return true;
	opts.for_adopt = l->instance;
	again = be->loader->load(l->path, &opts, &l->set, load_on, NULL, &op->e);
	if (again == NULL)
		return false;
	/* compared after the load, so that no change during the load is missed */
	key = models_key(l->path, &l->opts);
	op->changed = strcmp(key, l->key) != 0;
	if (!op->changed)
		ok = be->control->swap_weights(l->instance, again, &op->e);
	mem_free(key);
	be->loader->free(again);
	return ok && !op->changed;
}

static void
fetch_run(Job *j)
{
	SleepOp    *op = (SleepOp *) j;
	const Backend *be = op->m->srv->be;
	ModelInstance *l = op->at;

	if (l->rest == LR_STORED && be->control->restore_weights != NULL &&
		!be->control->restore_weights(l->instance, &op->e))
	{
		if (op->e.cls != ERR_IO)
			return;
		/* the model's files have what can't be read back */
		log_line('W', "%s; the model's files are read instead", op->e.msg);
		be->control->drop_weights(l->instance);
		l->rest = LR_FORGOTTEN;
		op->e.cls = ERR_NONE;
	}
	if (l->rest == LR_STORED || reload(op))
		l->rest = LR_RESTS;
}

/* Return an entry that the instance serves; NULL: it can't sleep or wake. */
static const ModelEntry *
entry_of(const ModelInstance *l)
{
	if (!l->done || l->instance == NULL || l->dying || l->updates || l->given_up)
		return NULL;
	for (const ModelEntry *en = l->m->entries; en != NULL; en = en->next)
		if (en->loaded == l && en->state == WM_READY)
			return en;
	return l->left;
}

typedef struct Kept
{
	const ModelInstance *l;
	bool		any;
} Kept;

static void
find_kept(ServerCall *c, void *arg)
{
	Kept	   *k = arg;

	k->any |= c->entry != NULL && conv_loaded(c) == k->l && at_work(c);
}

/* At level 2: does the instance have requests that must continue later? */
static bool
keeps(const SleepOp *op, const ModelInstance *l)
{
	Kept		k = {.l = l};

	if (op->mode != SLEEP_ABORT)
		server_each(op->m->srv, find_kept, &k);
	return k.any;
}

/* Return the next instance in scope that is not in the requested state; NULL = none. */
static ModelInstance *
next_instance(const SleepOp *op)
{
	for (ModelInstance *l = op->m->loaded; l != NULL; l = l->next)
	{
		const ModelEntry *en = entry_of(l);

		if (en == NULL || !in_scope(op, en))
			continue;
		if (!op->wake && l->rest < (op->level == 0 ? LR_RESTS : op->level == 1 ? LR_STORED : LR_FORGOTTEN))
			return l;
		if (!op->wake && op->level >= 2 && l->refs > 0 && !keeps(op, l))
			return l;
		if (op->wake && l->rest >= LR_STORED && (op->bits & WIRE_SLEEP_WEIGHTS) != 0)
			return l;
		if (op->wake && l->rest == LR_RESTS && sleep_left(en->asleep, en->sleep_level, op->bits) == 0)
			return l;
	}
	return NULL;
}

/* Process the next instance.  Returns false if there is no memory yet to restore weights. */
static bool
next_step(SleepOp *op)
{
	Server	   *s = op->m->srv;
	ModelInstance *l = next_instance(op);
	MemoryVerdict room = l != NULL && op->wake && l->rest >= LR_STORED ? memory_limit_make(l, &op->e) :
		MEMORY_OK;

	if (room == MEMORY_WAIT)
		return false;
	if (room == MEMORY_REFUSED)
		op->stage = OP_END;
	else if (l == NULL && op->wake)
		end_wake(op);
	else if (l == NULL)
		op->stage = op->level >= 2 ? OP_FREEING : OP_END;
	else if (!op->wake && op->level >= 2 && l->rest == LR_FORGOTTEN)
		let_go_of(op, l);
	else
	{
		l->pins++;
		l->fetched = op->wake && l->rest >= LR_STORED;
		/* a wake-up protects the instance from being unloaded as a load does (memory_limit.c) */
		if (l->fetched)
			l->began_us = clock_us();
		op->at = l;
		op->stage = OP_JOB;
		op->j.done = op->wake ? job_done : rest_done;
		op->j.run = !op->wake ? rest_run : l->rest >= LR_STORED ? fetch_run : go_on_run;
		if (op->wake && l->rest >= LR_STORED)
			jobs_submit(s->jobs, JQ_LOAD, &op->j);
		else
			step_run(s->step, &op->j);
	}
	return true;
}

typedef struct Remaining
{
	const ModelInstance *l;
	int			n;
} Remaining;

static void
count_remaining(ServerCall *c, void *arg)
{
	Remaining  *left = arg;

	left->n += c->on == left->l;
}

/*
 * Count the requests that stayed on the instance after an update (weight_update.c), and pin it.  While
 * it is suspended they don't end, so they are not waited for.
 */
static int
n_remaining(const ModelInstance *l)
{
	Remaining	left = {.l = l};

	server_each(l->m->srv, count_remaining, &left);
	return left.n;
}

static bool
all_freed(const Models *m)
{
	for (const ModelInstance *l = m->loaded; l != NULL; l = l->next)
		if (instance_will_be_freed(l))
			return false;
	return true;
}

/* Advance the operation.  Returns false if it waits for something. */
static bool
op_poll(SleepOp *op)
{
	switch (op->stage)
	{
		case OP_NEW:
			/* not during an update of weights */
			if (op->m->updating && scall_is_active(op->c))
				return false;
			if (!scall_is_active(op->c))
				op->stage = OP_END;
			else if (op->wake)
				op->stage = OP_NEXT;
			else
				begin_sleep(op);
			return true;
		case OP_DRAIN:
			if (!scall_is_active(op->c))
				take_back(op);
			else if (drained(op))
				end_drain(op);
			else
				return false;
			return true;
		case OP_NEXT:
			return next_step(op) && op->stage != OP_JOB;
		case OP_JOB:
			return false;
		case OP_PINS:
			if (op->at->pins > 1 + n_remaining(op->at))
				return false;
			op->at->held = false;
			sleep_wake_requests(op->m);
			op->stage = OP_JOB;
			op->j.run = store_run;
			op->j.done = job_done;
			jobs_submit(op->m->srv->jobs, JQ_LOAD, &op->j);
			return false;
		case OP_FREEING:
			if (!all_freed(op->m))
				return false;
			op->stage = OP_END;
			return true;
		case OP_END:
			break;
	}
	op_end(op);
	return true;
}

bool
sleep_poll(Models *m)
{
	while (m->ops != NULL)
		if (!op_poll(m->ops))
			return m->ops->stage != OP_JOB;
	return false;
}

/* ---- commands ---- */

/* Choose the directory for weights: that of the packed weights, else that of the server's temporary files. */
static void
choose_dir(Models *m, char *dir, size_t size)
{
	Settings	set;

	settings_get(m->srv->box, &set);
	if (set.repack_cache[0] != '\0')
		snprintf(dir, size, "%s", set.repack_cache);
	else if (access("base", W_OK) == 0)
	{
		mkdir("base/pgsql_tmp", 0700);
		snprintf(dir, size, "base/pgsql_tmp");
	}
	else
		snprintf(dir, size, ".");
}

static void
op_add(Models *m, ServerCall *c, SleepOp o)
{
	SleepOp    *op = mem_alloc(sizeof(SleepOp));
	SleepOp   **pp = &m->ops;

	*op = o;
	op->m = m;
	op->c = c;
	choose_dir(m, op->dir, sizeof(op->dir));
	if (op->en != NULL)
		entry_ref(op->en);
	c->job_busy = true;
	c->stage = SCALL_BUSY;
	while (*pp != NULL)
		pp = &(*pp)->next;
	*pp = op;
}

/* Return what is asleep of an entry, or of new entries (NULL). */
static unsigned
asleep_bits(const Models *m, const ModelEntry *en)
{
	unsigned	bits = m->asleep;

	if (en != NULL)
		return en->asleep;
	for (en = m->entries; en != NULL; en = en->next)
		bits |= en->asleep;
	return bits;
}

bool
sleep_mode(const char *name, SleepMode *mode)
{
	static const char *const names[] = {[SLEEP_ABORT] = "abort", [SLEEP_WAIT] = "wait",
										[SLEEP_KEEP] = "keep"};

	for (int i = 0; i < 3; i++)
		if (strcmp(name, names[i]) == 0)
		{
			*mode = (SleepMode) i;
			return true;
		}
	return false;
}

/* ---- handing the state to another engine ---- */

static void
put_entry(WireOut *o, const ModelEntry *en)
{
	wire_put_int(o, WTAG_DATABASE, en->dboid);
	wire_put_str(o, WTAG_MODEL, en->name, strlen(en->name));
	wire_put_str(o, WTAG_MODEL_PATH, en->path, strlen(en->path));
	if (en->options[0] != '\0')
		wire_put_str(o, WTAG_MODEL_OPTIONS, en->options, strlen(en->options));
}

static void
put_inherit(WireOut *o, int level, unsigned bits)
{
	char		command[64];

	snprintf(command, sizeof(command), "inherit-sleep %d %u", level, bits);
	wire_put_str(o, WTAG_COMMAND, command, strlen(command));
}

/* Reply with the models that are awake, or only paused, as the fields to load each; DATABASE begins one. */
static void
answer_loaded(const Models *m, ServerCall *c)
{
	Buf			b = {0};
	WireOut		o = chan_out(&b);

	for (const ModelEntry *en = m->entries; en != NULL; en = en->next)
		if (en->state == WM_READY && (en->asleep == 0 || en->sleep_level == 0))
			put_entry(&o, en);
	scall_end(c, WF_DONE, &b);
	buf_free(&b);
}

/* Reply with the commands that put another engine into this one's sleep state: models, then the engine. */
static void
answer_sleep_state(const Models *m, ServerCall *c)
{
	Buf			b = {0};
	WireOut		o = chan_out(&b);

	for (const ModelEntry *en = m->entries; en != NULL; en = en->next)
	{
		if (en->asleep == 0 && m->asleep == 0)
			continue;
		put_entry(&o, en);
		put_inherit(&o, en->sleep_level, en->asleep);
	}
	if (m->asleep != 0)
	{
		wire_put_int(&o, WTAG_DATABASE, 0);
		put_inherit(&o, m->sleep_level, m->asleep);
	}
	scall_end(c, WF_DONE, &b);
	buf_free(&b);
}

/* Run "inherit-sleep LEVEL BITS" for the message's model, even if not loaded, or for models to come. */
static void
inherit(Models *m, ServerCall *c, int level, unsigned bits)
{
	ModelEntry *en;
	Err			e;

	if (c->req->model[0] == '\0')
	{
		m->asleep = bits;
		m->sleep_level = level;
		models_show(m);
		server_answer(c, "ok");
		return;
	}
	en = registry_ensure(m, c->req->dboid, c->req->model, c->req->path, c->req->options, &e);
	if (en == NULL)
	{
		scall_end_error(c, &e);
		return;
	}
	/* it may have been loaded when it was only paused */
	if (en->state == WM_READY && bits != 0)
	{
		op_add(m, c, (SleepOp) {.en = en,.level = level,.mode = SLEEP_KEEP});
		return;
	}
	en->asleep = bits;
	en->sleep_level = level;
	models_show(m);
	server_answer(c, "ok");
}

/* Reply to "is-sleeping", "is-paused": is any bit asleep?  A model without an entry is one to come. */
static void
answer_asleep(const Models *m, ServerCall *c, unsigned bits)
{
	const Request *r = c->req;
	const ModelEntry *en = r->model[0] != '\0' ? registry_find(m, r->dboid, r->model) : NULL;
	unsigned	asleep = r->model[0] != '\0' && en == NULL ? m->asleep : asleep_bits(m, en);

	server_answer(c, (asleep & bits) != 0 ? "t" : "f");
}

bool
sleep_command(Models *m, ServerCall *c, const char *command)
{
	SleepOp		op = {.wake = false};
	bool		is_query = strcmp(command, "is-sleeping") == 0 || strcmp(command, "is-paused") == 0;
	char		mode[16] = "";
	Err			e;

	if (strcmp(command, "loaded-models") == 0)
	{
		answer_loaded(m, c);
		return true;
	}
	if (strcmp(command, "sleep-state") == 0)
	{
		answer_sleep_state(m, c);
		return true;
	}
	if (sscanf(command, "inherit-sleep %d %u", &op.level, &op.bits) == 2)
	{
		if (op.level < 0 || op.level > 2)
			return false;
		inherit(m, c, op.level, op.bits & WIRE_SLEEP_ALL);
		return true;
	}
	if (sscanf(command, "sleep %d %15s", &op.level, mode) == 2)
	{
		if (op.level < 0 || op.level > 2 || !sleep_mode(mode, &op.mode))
			return false;
	}
	else if (sscanf(command, "wake %u", &op.bits) == 1)
		op.wake = true;
	else if (!is_query)
		return false;
	if (is_query)
		answer_asleep(m, c, command[3] == 's' ? WIRE_SLEEP_ALL : WIRE_SLEEP_SCHEDULING);
	else if (c->req->model[0] != '\0' &&
			 (op.en = registry_ensure(m, c->req->dboid, c->req->model, c->req->path, c->req->options,
									  &e)) == NULL)
		scall_end_error(c, &e);
	else
		op_add(m, c, op);
	return true;
}
