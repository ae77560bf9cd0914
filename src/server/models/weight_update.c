/*
 * weight_update.c
 *	  New weights for a model that is in service (llm_update_weights()).
 *
 * The new files are loaded as an instance of their own, while the old one serves.  If that fails, or if
 * the new files have another shape, nothing changes.  Then new requests are held back for a moment
 * (ModelInstance.held), until
 *
 *	wait	all requests of the old instance have ended;
 *	abort	the same, after they were made to fail;
 *	keep	requests that are being tokenized have been submitted: the requests then finish on the old
 *			instance, which lives as long as they do
 *
 * (requests of a paused instance can't end before it is resumed: they are kept in mode wait, too)
 *
 * and the entries switch to the new one at once.  So every request is answered by one set of weights,
 * the old or the new one.  The prefix cache belongs to the instance: the new one's is empty.
 *
 * Without another path, all entries that share the instance switch, because their files have changed;
 * with one, only the named entry does.  A request that comes with the entry's previous path is served,
 * too (ModelEntry.old_path): the catalog's change may not have been committed.
 *
 * Server thread, but for the jobs' run functions.  Tested by tests/t/093_sleep.pl.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/alloc.h"
#include "server/models/registry_internal.h"
#include "server/request/request.h"

typedef enum UpdateStage
{
	UP_NEW,
	UP_ROOM,					/* waits for memory for the new instance */
	UP_JOB,						/* a job processes it */
	UP_DRAIN,					/* waits for requests */
	UP_END
} UpdateStage;

struct UpdateOp
{
	Job			j;
	UpdateOp   *next;
	Models	   *m;
	ServerCall *c;				/* the command's call; job_busy keeps it */
	ModelEntry *en;				/* holds a reference */
	char	   *path;
	SleepMode	mode;
	UpdateStage stage;
	ModelOpts	opts;
	Settings	set;
	ModelFacts	facts;			/* of the new files */
	char	   *key;
	ModelInstance *to;				/* referenced by the operation until the switch; NULL = not begun */
	ModelInstance *from;			/* pinned */
	Err			e;				/* cls ERR_NONE = no error so far */
};

/* Does the entry switch to the new instance? */
static bool
changes(const UpdateOp *op, const ModelEntry *en)
{
	return en == op->en || (en->loaded == op->from && strcmp(op->path, op->en->path) == 0 &&
							strcmp(en->path, op->path) == 0);
}

/* ---- jobs ---- */

static void
check_run(Job *j)
{
	UpdateOp   *op = (UpdateOp *) j;

	op->key = models_key(op->path, &op->opts);
	op->m->srv->be->loader->check(op->path, &op->opts, &op->set, &op->facts, &op->e);
}

static bool
go_on(void *ctx, double done)
{
	UpdateOp   *op = ctx;

	(void) done;
	return scall_is_active(op->c);
}

static void
load_run(Job *j)
{
	UpdateOp   *op = (UpdateOp *) j;
	ModelInstance *l = op->to;
	const Backend *be = op->m->srv->be;
	ModelOpts	opts = op->opts;

	opts.in_place_of = op->from->instance;
	l->instance = be->loader->load(op->path, &opts, &op->set, go_on, op, &op->e);
	if (l->instance != NULL)
		be->loader->facts(l->instance, &l->facts);
}

static bool
same_shape(UpdateOp *op)
{
	if (strcmp(op->facts.shape, op->from->facts.shape) == 0)
		return true;
	err_set(&op->e, ERR_INVALID, "the new weights of model \"%s\" do not have the shape of the old ones",
			op->en->name);
	err_detail(&op->e, "They are %.200s, the old ones %.200s.", op->facts.shape, op->from->facts.shape);
	return err_hint(&op->e, "The old weights stay in service; register the new files as a model of their "
							"own.");
}

static void
check_done(Job *j)
{
	UpdateOp   *op = (UpdateOp *) j;
	ModelInstance *l;

	op->stage = UP_END;
	if (op->e.cls != ERR_NONE || !same_shape(op))
		return;
	l = op->to = loaded_new(op->m, op->key, op->path, &op->opts);
	op->key = NULL;
	l->set = op->set;
	l->need = op->facts.memory_bytes;
	l->stays = op->facts.stays_bytes;
	l->updates = true;
	op->stage = UP_ROOM;
}

static void
fail_requests(UpdateOp *op)
{
	Err			e;

	err_set(&e, ERR_NOT_READY, "model \"%s\" was given new weights", op->en->name);
	for (ModelEntry *en = op->m->entries; en != NULL; en = en->next)
		if (changes(op, en))
			entry_fail_requests(en, &e, op->c);
}

static void
begin_change(UpdateOp *op)
{
	op->stage = UP_END;
	/* the entry was unloaded or changed meanwhile, so the new instance is useless */
	if (op->en->loaded != op->from)
	{
		err_set(&op->e, ERR_NOT_READY, "model \"%s\" was unloaded or changed meanwhile", op->en->name);
		return;
	}
	op->from->held = true;
	if (op->mode == SLEEP_ABORT)
		fail_requests(op);
	op->stage = UP_DRAIN;
}

static void
rest_run(Job *j)
{
	UpdateOp   *op = (UpdateOp *) j;

	op->m->srv->be->control->suspend(op->to->instance, false);
	op->to->rest = LR_RESTS;
}

static void
rest_done(Job *j)
{
	begin_change((UpdateOp *) j);
}

static void
load_done(Job *j)
{
	UpdateOp   *op = (UpdateOp *) j;
	ModelInstance *l = op->to;

	l->done = true;
	l->ready_us = clock_us();
	op->stage = UP_END;
	if (l->instance == NULL)
		return;
	loaded_attach(l);
	if (op->en->asleep == 0)
	{
		begin_change(op);
		return;
	}
	/* a paused model stays paused with the new weights */
	op->stage = UP_JOB;
	op->j.run = rest_run;
	op->j.done = rest_done;
	step_run(op->m->srv->step, &op->j);
}

/* ---- the switch ---- */

typedef struct Old
{
	const UpdateOp *op;
	int			n;
} Old;

/* Do requests of the old instance stay on it, instead of failing or ending first? */
static bool
keeps(const UpdateOp *op)
{
	return op->mode == SLEEP_KEEP ||
		(op->mode == SLEEP_WAIT && op->from != NULL && op->from->rest != LR_AWAKE);
}

static void
count_old(ServerCall *c, void *arg)
{
	Old		   *o = arg;

	if (c->entry == NULL || !changes(o->op, c->entry))
		return;
	if (c->stage == SCALL_RUNNING)
		o->n += o->op->mode == SLEEP_WAIT && !keeps(o->op) && c->on == NULL && atomic_load(&c->in_core);
	else
		o->n += scall_is_active(c) && (c->stage == SCALL_LORA || (c->stage == SCALL_BUSY && c->job_busy));
}

static bool
drained(UpdateOp *op)
{
	Old			o = {op, 0};

	if (op->from != NULL && op->from->pins > 1 && keeps(op))
		return false;
	server_each(op->m->srv, count_old, &o);
	return o.n == 0;
}

static void
count_unplaced(ServerCall *c, void *arg)
{
	Old		   *o = arg;

	o->n += c->entry != NULL && changes(o->op, c->entry) && c->stage == SCALL_LORA && scall_is_active(c) &&
		c->lora_print != NULL;
}

/*
 * Is the model paused while requests wait for an adapter's place?  No place becomes free before the
 * wake-up, which waits for this update.
 */
static bool
never_drained(UpdateOp *op)
{
	Old			o = {op, 0};

	if (op->from->rest == LR_AWAKE)
		return false;
	server_each(op->m->srv, count_unplaced, &o);
	if (o.n == 0)
		return false;
	err_set(&op->e, ERR_NOT_READY, "model \"%s\" is paused while requests wait for places of adapters",
			op->en->name);
	err_hint(&op->e, "The old weights stay in service; llm_resume() lets requests go on.");
	return true;
}

/* Keep the request on the old instance. */
static void
stay(ServerCall *c, void *arg)
{
	UpdateOp   *op = arg;

	if (c->entry == NULL || !changes(op, c->entry) || c->stage != SCALL_RUNNING || c->on != NULL ||
		!atomic_load(&c->in_core))
		return;
	ALWAYS(c->entry->loaded != NULL);
	c->on = c->entry->loaded;
	c->on->pins++;
	loaded_leave(c->on, c->entry);
}

static void
change_over(UpdateOp *op)
{
	Models	   *m = op->m;

	server_each(m->srv, stay, op);
	for (ModelEntry *en = m->entries, *next; en != NULL; en = next)
	{
		next = en->next;
		if (!changes(op, en))
			continue;
		ALWAYS(en->loaded == op->from && op->from->refs > 0 && op->to->instance != NULL);
		en->loaded = op->to;
		op->to->refs++;
		op->from->refs--;
		if (en == op->en && strcmp(en->path, op->path) != 0)
		{
			mem_free(en->old_path);
			en->old_path = en->path;
			en->path = mem_strdup(op->path);
		}
	}
	op->to->updates = false;
	models_show(m);
	log_line('I', "model \"%s\" has new weights, from \"%s\"", op->en->name, op->path);
	op->stage = UP_END;
}

static void
count_lora(ServerCall *c, void *arg)
{
	Old		   *o = arg;

	o->n += c->entry != NULL && changes(o->op, c->entry) && c->stage == SCALL_LORA && scall_is_active(c);
}

/*
 * The model is not in service: only change the path, and the next load takes the files at that time.
 * Requests that were kept in its sleep finish on the old weights.  Returns false if some requests are
 * still waiting for an adapter.
 */
static bool
only_path(UpdateOp *op)
{
	ModelEntry *en = op->en;
	ModelInstance *l = NULL;
	Old			o = {op, 0};

	/* requests that wait for a running load will wait for the load of the new files, which op_end() starts */
	sleep_stop_load(en);
	op->from = en->loaded;
	if (op->from != NULL && op->mode == SLEEP_ABORT)
		fail_requests(op);
	server_each(op->m->srv, count_lora, &o);
	if (op->from != NULL && o.n == 0)
		server_each(op->m->srv, stay, op);
	for (ModelEntry *x = op->m->entries; x != NULL && op->from != NULL && o.n == 0; x = x->next)
		if (x != en && changes(op, x))
			entry_let_go(x);
	op->from = NULL;
	if (o.n > 0)
		return false;
	l = entry_let_go(en);
	if (strcmp(en->path, op->path) != 0)
	{
		mem_free(en->old_path);
		en->old_path = en->path;
		en->path = mem_strdup(op->path);
	}
	models_show(op->m);
	if (l != NULL)
		loaded_settle(l);
	op->stage = UP_END;
	return true;
}

static void
op_end(UpdateOp *op)
{
	Models	   *m = op->m;
	ServerCall *c = op->c;
	ModelInstance *from = op->from;
	ModelInstance *to = op->to;

	ALWAYS(m->updates == op && op->stage == UP_END);
	m->updates = op->next;
	m->updating = false;
	if (from != NULL)
		from->held = from->updated = false;
	sleep_wake_requests(m);
	c->job_busy = false;
	if (op->e.cls != ERR_NONE)
		scall_end_error(c, &op->e);
	else
		server_answer(c, "ok");
	entry_unref(op->en);
	mem_free(op->path);
	mem_free(op->key);
	mem_free(op);
	if (to != NULL)
	{
		ALWAYS(to->refs > 0);
		to->done = true;		/* its load may never have begun */
		to->refs--;
		loaded_settle(to);
	}
	if (from != NULL)
		loaded_unpin(from);
}

/* Begin the update.  Returns false if the operation must wait. */
static bool
begin(UpdateOp *op)
{
	ModelEntry *en = op->en;

	if (!scall_is_active(op->c))
	{
		op->stage = UP_END;
		return true;
	}
	if (en->state != WM_READY || en->loaded->rest >= LR_STORED)
		return only_path(op);
	op->m->updating = true;
	op->from = entry_pin(en);
	op->from->updated = true;
	op->opts = en->opts;
	settings_get(op->m->srv->box, &op->set);
	op->stage = UP_JOB;
	op->j.run = check_run;
	op->j.done = check_done;
	jobs_submit(op->m->srv->jobs, JQ_LOAD, &op->j);
	return false;
}

/* Advance the operation.  Returns false if it waits for something. */
static bool
op_poll(UpdateOp *op)
{
	switch (op->stage)
	{
		case UP_NEW:
			/* not during a sleep or a wake-up */
			if (op->m->ops != NULL)
				return false;
			return begin(op);
		case UP_ROOM:
			if (!scall_is_active(op->c))
				op->stage = UP_END;
			else
			{
				MemoryVerdict r = memory_limit_make(op->to, &op->e);

				if (r == MEMORY_WAIT)
					return false;
				op->stage = r == MEMORY_OK ? UP_JOB : UP_END;
				if (r == MEMORY_OK)
				{
					op->to->began_us = clock_us();
					op->j.run = load_run;
					op->j.done = load_done;
					jobs_submit(op->m->srv->jobs, JQ_LOAD, &op->j);
					return false;
				}
			}
			return true;
		case UP_JOB:
			return false;
		case UP_DRAIN:
			/* the client has cancelled: the old weights stay */
			if (!scall_is_active(op->c) || op->en->loaded != op->from)
			{
				err_set(&op->e, ERR_NOT_READY, "model \"%s\" was unloaded or changed meanwhile",
						op->en->name);
				op->stage = UP_END;
			}
			else if (drained(op))
				change_over(op);
			else if (never_drained(op))
				op->stage = UP_END;
			else
				return false;
			return true;
		case UP_END:
			break;
	}
	op_end(op);
	return true;
}

void
update_release(ServerCall *c)
{
	ModelInstance *on = c->on;

	if (on == NULL || atomic_load(&c->in_core))
		return;
	c->on = NULL;
	loaded_unpin(on);
}

bool
update_poll(Models *m)
{
	while (m->updates != NULL)
		if (!op_poll(m->updates))
			return m->updates->stage != UP_JOB;
	return false;
}

bool
update_command(Models *m, ServerCall *c, const char *command)
{
	UpdateOp   *op;
	UpdateOp  **pp = &m->updates;
	SleepMode	mode;
	ModelEntry *en;
	Err			e;

	if (strncmp(command, "update-weights ", 15) != 0 || !sleep_mode(command + 15, &mode))
		return false;
	en = registry_find(m, c->req->dboid, c->req->model);
	if (en == NULL &&
		(en = registry_ensure(m, c->req->dboid, c->req->model, c->req->path, c->req->options, &e)) == NULL)
	{
		scall_end_error(c, &e);
		return true;
	}
	op = mem_zalloc(sizeof(UpdateOp));
	op->m = m;
	op->c = c;
	op->en = en;
	op->mode = mode;
	op->path = mem_strdup(c->req->path != NULL ? c->req->path : en->path);
	entry_ref(en);
	c->job_busy = true;
	c->stage = SCALL_BUSY;
	while (*pp != NULL)
		pp = &(*pp)->next;
	*pp = op;
	return true;
}
