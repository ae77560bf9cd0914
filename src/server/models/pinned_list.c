/*
 * pinned_list.c
 *	  Lists the pinned prefixes in the models of a database, and releases one by its number.
 *
 * The step thread owns pinned prefixes, so a job reads them between two steps.  The server thread knows
 * the models' names, so it writes the result: a JSON array, of which the backend shows each role only
 * its own (pin_prefix.c).  The prompts are not in it.
 *
 * Tested by tests/t/092_kv.pl.
 */
#include "server/models/pinned_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json/json_writer.h"
#include "base/alloc.h"
#include "server/models/registry_internal.h"
#include "server/request/request.h"

typedef struct PinnedListFound
{
	const BackendModel *instance;		/* may be freed meanwhile: compared, not dereferenced */
	PinInfo		info;
} PinnedListFound;

typedef struct PinJob
{
	Job			j;
	ServerCall *c;
	Server	   *s;
	uint64_t	unpin;			/* 0: list */
	bool		done;
	PinnedListFound *found;
	size_t		n,
				cap;
} PinJob;

static void
note(void *ctx, const BackendModel *in, const PinInfo *i)
{
	PinJob	   *t = ctx;

	if (t->n == t->cap)
	{
		t->cap = t->cap == 0 ? 16 : 2 * t->cap;
		t->found = mem_realloc(t->found, t->cap * sizeof(PinnedListFound));
	}
	t->found[t->n] = (PinnedListFound) {in, *i};
	if (i->lora != NULL)
		t->found[t->n].info.lora = mem_strdup(i->lora);
	t->n++;
}

static void
run(Job *j)
{
	PinJob	   *t = (PinJob *) j;

	if (t->unpin != 0)
		t->done = step_unpin(t->s->step, t->unpin);
	else
		step_pins(t->s->step, note, t);
}

/* Return the first of the database's models that has this instance; NULL = none. */
static const char *
model_of(const Server *s, uint32_t dboid, const BackendModel *in)
{
	for (const ModelEntry *en = s->models->entries; en != NULL; en = en->next)
		if (en->dboid == dboid && en->state == WM_READY && en->loaded->instance == in)
			return en->name;
	return NULL;
}

static void
put(JsonOut *o, const char *model, const PinInfo *i)
{
	static const char *const among[] = {"none", "role", "database"};	/* settings_owner() */

	json_open(o, '{');
	json_key_int(o, "id", (int64_t) i->id);
	json_key_cstr(o, "model", model);
	json_key_int(o, "role", i->role);
	json_key_cstr(o, "isolation", among[i->owner >> 32]);
	if (i->lora != NULL)
		json_key_cstr(o, "lora", i->lora);
	json_key(o, "salted");
	json_bool(o, i->salted);
	json_key_int(o, "tokens", i->tokens);
	json_key_int(o, "bytes", i->bytes);
	json_key_int(o, "since_us", i->since_us);
	json_close(o, '}');
}

static void
answer_list(PinJob *t)
{
	Buf			b = {0};
	JsonOut		o = {.b = &b};

	json_open(&o, '[');
	for (size_t i = 0; i < t->n; i++)
	{
		const char *model = model_of(t->s, t->c->req->dboid, t->found[i].instance);

		if (model != NULL)
			put(&o, model, &t->found[i].info);
		mem_free(t->found[i].info.lora);
	}
	json_close(&o, ']');
	request_answer_text(t->c, &b);
	buf_free(&b);
}

static void
done(Job *j)
{
	PinJob	   *t = (PinJob *) j;

	t->c->job_busy = false;
	if (t->unpin != 0)
		server_answer(t->c, t->done ? "t" : "f");
	else
		answer_list(t);
	mem_free(t->found);
	mem_free(t);
}

bool
pinlist_command(Server *s, ServerCall *c, const char *command)
{
	PinJob	   *t;
	uint64_t	id = 0;

	if (strcmp(command, "pins") != 0 && sscanf(command, "unpin %" SCNu64, &id) != 1)
		return false;
	t = mem_zalloc(sizeof(PinJob));
	t->j.run = run;
	t->j.done = done;
	t->c = c;
	t->s = s;
	t->unpin = id;
	c->job_busy = true;
	step_run(s->step, &t->j);
	return true;
}
