/*
 * logits_processors.c
 *	  Logits processors from shared libraries: loading, which of them take part, the batch.
 *
 * Libraries are loaded when the engine starts, before it serves requests; a name that can't be loaded
 * ends the engine.  Each model has instances of its own.  A processor can overwrite any memory of its
 * process, which can't be prevented here: but a crash only costs an engine, which its supervisor
 * restarts, and not the database.
 *
 * A request gets a slot when it is first sampled, and keeps it as long as it is sampled in each step.  So
 * requests outside of the step need no attention, and no call is needed when a request ends.  The key of
 * a seat identifies it, and no two seats share one.
 *
 * Tested by tests/unit/core/sample/test_plugins.c, tests/t/085_sampling.pl.
 */
#include "core/sample/logits_processors.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/alloc.h"
#include "core/core_internal.h"
#include "core/sample/vllm_logits_processor.h"

#define MESSAGE_SIZE	512

struct Plugins
{
	int			n;
	const VllmLogitsProcessor *p[PLUGINS_MAX];
};

/* ---- loading ---- */

/* Make the path of a library: a name without a slash is a file beside the engine. */
static bool
library_path(const char *name, char *path, size_t size)
{
	char		exe[PATH_MAX];
	ssize_t		n;

	if (strchr(name, '/') != NULL)
		return name[0] == '/' && (size_t) snprintf(path, size, "%s", name) < size;
	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	if (n <= 0)
		return false;
	exe[n] = '\0';
	*strrchr(exe, '/') = '\0';
	return (size_t) snprintf(path, size, "%s/%s", exe, name) < size;
}

static bool
is_complete(const VllmLogitsProcessor *p)
{
	return p->abi_version == VLLM_LOGITS_ABI && p->size >= sizeof(VllmLogitsProcessor) && p->name != NULL &&
		p->validate != NULL && p->init != NULL && p->apply_cpu != NULL && p->destroy != NULL;
}

static bool
load_one(Plugins *all, const char *library, const char *symbol, Err *e)
{
	char		path[PATH_MAX];
	void	   *dl;
	void	   *at;
	VllmLogitsEntry entry;
	const VllmLogitsProcessor *p;

	if (all->n == PLUGINS_MAX)
		return err_set(e, ERR_INVALID, "more than %d logits processors", PLUGINS_MAX);
	if (!library_path(library, path, sizeof(path)))
		return err_set(e, ERR_INVALID, "logits processor library \"%s\" must be an absolute path, or a file "
									   "beside the engine", library);
	dl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (dl == NULL)
		return err_set(e, ERR_INVALID, "could not load logits processor library: %s", dlerror());
	at = dlsym(dl, symbol);
	if (at == NULL)
		return err_set(e, ERR_INVALID, "logits processor library \"%s\" has no symbol \"%s\"", path, symbol);
	memcpy(&entry, &at, sizeof(entry));
	p = entry(VLLM_LOGITS_ABI);
	if (p == NULL || !is_complete(p))
		return err_set(e, ERR_INVALID, "\"%s\" of \"%s\" is not a logits processor of version %d", symbol,
					   path, VLLM_LOGITS_ABI);
	all->p[all->n++] = p;
	log_line('I', "logits processor \"%s\" of %s", p->name, path);
	return true;
}

static char *
trimmed(char *s)
{
	char	   *end = s + strlen(s);

	s += strspn(s, " \t");
	while (end > s && (end[-1] == ' ' || end[-1] == '\t'))
		*--end = '\0';
	return s;
}

static bool
load_entry(Plugins *all, char *text, Err *e)
{
	char	   *name = trimmed(text);
	char	   *colon = strrchr(name, ':');

	if (colon == NULL || colon == name || colon[1] == '\0')
		return err_set(e, ERR_INVALID, "logits processor \"%s\" is not of the form library:symbol", name);
	*colon = '\0';
	return load_one(all, name, colon + 1, e);
}

/* The processors that the engine was started with. */
static const Plugins *loaded;

const Plugins *
plugins_loaded(void)
{
	return loaded;
}

void
plugins_set_loaded(const Plugins *p)
{
	loaded = p;
}

bool
plugins_load(const char *list, Plugins **out, Err *e)
{
	char	   *copy;
	char	   *save = NULL;
	Plugins    *p;
	bool		ok = true;

	*out = NULL;
	if (list[strspn(list, " \t,")] == '\0')
		return true;
	copy = mem_strdup(list);
	p = mem_zalloc(sizeof(*p));
	for (char *s = strtok_r(copy, ",", &save); s != NULL && ok; s = strtok_r(NULL, ",", &save))
		ok = load_entry(p, s, e);
	mem_free(copy);
	if (!ok)
	{
		mem_free(p);
		return false;
	}
	*out = p;
	return true;
}

void
plugins_free(Plugins *p)
{
	mem_free(p);
}

int
plugins_count(const Plugins *p)
{
	return p != NULL ? p->n : 0;
}

bool
plugins_check(const Plugins *p, const char *extra_args, uint32_t *mask, Err *e)
{
	*mask = 0;
	for (int i = 0; i < plugins_count(p); i++)
	{
		char		message[MESSAGE_SIZE] = "";
		int			takes = p->p[i]->validate(extra_args, message, sizeof(message));

		message[sizeof(message) - 1] = '\0';
		if (takes < 0)
		{
			err_set(e, ERR_INVALID, "extra_args: %s", message[0] != '\0' ? message : "they are refused");
			return err_detail(e, "parameter=extra_args, logits processor=%s", p->p[i]->name);
		}
		*mask |= takes > 0 ? UINT32_C(1) << i : 0;
	}
	if (extra_args != NULL && *mask == 0)
	{
		err_set(e, ERR_INVALID, "no logits processor takes these extra_args");
		err_detail(e, "parameter=extra_args");
		return err_hint(e, "Logits processors are loaded by the setting vllm.logits_processors.");
	}
	return true;
}

/* ---- instances of a model ---- */

typedef struct LogitsProcessorsSlot
{
	uint64_t	key;			/* key of the request in the slot; 0 = free */
	uint64_t	step;			/* the last step in which it had a row */
	uint32_t	plugins;
	char	   *extra_args;		/* owned */
} LogitsProcessorsSlot;

struct PluginHost
{
	const Plugins *p;
	void	   *self[PLUGINS_MAX];
	uint32_t	late;
	int			vocab_size;
	uint64_t	step;
	uint64_t	last_key;
	LogitsProcessorsSlot *slots;
	int			n_slots;
	/* scratch of a step, for the largest number of rows so far */
	int			cap;
	int32_t    *removed;
	uint32_t   *removed_of;		/* processors of the removed slots */
	VllmLogitsRequest *added;
	uint32_t   *added_of;
	VllmLogitsRow *rows;
	int		   *row_at;			/* index of the sampler's row */
	int			n_removed;
	int			n_added;
};

PluginHost *
plugin_host_new(const Plugins *p, int vocab_size, int32_t eos, Err *e)
{
	PluginHost *h = mem_zalloc(sizeof(*h));
	VllmLogitsConfig c = {.size = sizeof(c), .vocab_size = vocab_size, .eos_token_id = eos, .device = "cpu"};

	h->p = p;
	h->vocab_size = vocab_size;
	for (int i = 0; i < p->n; i++)
	{
		char		message[MESSAGE_SIZE] = "";

		h->self[i] = p->p[i]->init(&c, message, sizeof(message));
		message[sizeof(message) - 1] = '\0';
		if (h->self[i] == NULL)
		{
			err_set(e, ERR_INVALID, "logits processor \"%s\" does not take this model: %s", p->p[i]->name,
					message);
			plugin_host_free(h);
			return NULL;
		}
		if (p->p[i]->argmax_invariant != NULL && p->p[i]->argmax_invariant(h->self[i]) != 0)
			h->late |= UINT32_C(1) << i;
	}
	return h;
}

void
plugin_host_free(PluginHost *h)
{
	if (h == NULL)
		return;
	for (int i = 0; i < h->p->n; i++)
		if (h->self[i] != NULL)
			h->p->p[i]->destroy(h->self[i]);
	for (int i = 0; i < h->n_slots; i++)
		mem_free(h->slots[i].extra_args);
	mem_free(h->slots);
	mem_free(h->removed);
	mem_free(h->removed_of);
	mem_free(h->added);
	mem_free(h->added_of);
	mem_free(h->rows);
	mem_free(h->row_at);
	mem_free(h);
}

uint32_t
plugin_host_late(const PluginHost *h)
{
	return h->late;
}

/* ---- a step ---- */

/* Make room for n rows, and for the removal of as many slots. */
static void
make_room(PluginHost *h, int n)
{
	int			want = n > h->n_slots ? n : h->n_slots;

	if (want > h->cap)
	{
		h->cap = want;
		h->removed = mem_realloc(h->removed, (size_t) want * sizeof(int32_t));
		h->removed_of = mem_realloc(h->removed_of, (size_t) want * sizeof(uint32_t));
		h->added = mem_realloc(h->added, (size_t) want * sizeof(VllmLogitsRequest));
		h->added_of = mem_realloc(h->added_of, (size_t) want * sizeof(uint32_t));
		h->rows = mem_realloc(h->rows, (size_t) want * sizeof(VllmLogitsRow));
		h->row_at = mem_realloc(h->row_at, (size_t) want * sizeof(int));
	}
	if (n > h->n_slots)
	{
		h->slots = mem_realloc(h->slots, (size_t) n * sizeof(LogitsProcessorsSlot));
		memset(h->slots + h->n_slots, 0, (size_t) (n - h->n_slots) * sizeof(LogitsProcessorsSlot));
		h->n_slots = n;
	}
}

static bool
sits(const PluginHost *h, const PluginSeat *s)
{
	return s->key != 0 && s->slot < h->n_slots && h->slots[s->slot].key == s->key;
}

/* Return the number of slots that are needed if none is removed. */
static int
slots_wanted(const PluginHost *h, const SampleRow *rows, int n)
{
	int			wanted = 0;

	for (int i = 0; i < h->n_slots; i++)
		wanted += h->slots[i].key != 0;
	for (int i = 0; i < n; i++)
		wanted += rows[i].params->plugins != 0 && !sits(h, rows[i].seat);
	return wanted > n ? wanted : n;
}

static void
remove_absent(PluginHost *h)
{
	for (int i = 0; i < h->n_slots; i++)
	{
		LogitsProcessorsSlot *s = &h->slots[i];

		if (s->key == 0 || s->step == h->step)
			continue;
		s->key = 0;
		h->removed[h->n_removed] = i;
		h->removed_of[h->n_removed++] = s->plugins;
	}
}

static void
seat(PluginHost *h, SampleRow *row, int *from)
{
	const GenParams *p = row->params;
	LogitsProcessorsSlot *s;

	while (*from < h->n_slots && h->slots[*from].key != 0)
		(*from)++;
	/* there is a slot for each row of a step */
	ALWAYS(*from < h->n_slots && h->n_added < h->n_slots);
	s = &h->slots[*from];
	mem_free(s->extra_args);
	*s = (LogitsProcessorsSlot) {
		.key = ++h->last_key, .step = h->step, .plugins = p->plugins,
		.extra_args = p->extra_args != NULL ? mem_strdup(p->extra_args) : NULL
	};
	*row->seat = (PluginSeat) {.slot = *from, .key = s->key};
	h->added[h->n_added] = (VllmLogitsRequest) {
		.size = sizeof(VllmLogitsRequest), .slot = *from, .extra_args = s->extra_args,
		.prompt = row->tokens, .n_prompt = row->n_prompt
	};
	h->added_of[h->n_added++] = p->plugins;
}

/* Report the changes to one processor: those of other processors are skipped, in the same order. */
static void
report(PluginHost *h, int i)
{
	const VllmLogitsProcessor *p = h->p->p[i];
	int32_t    *removed = mem_alloc((size_t) (h->n_removed + 1) * sizeof(int32_t));
	VllmLogitsRequest *added = mem_alloc((size_t) (h->n_added + 1) * sizeof(VllmLogitsRequest));
	VllmBatchUpdate u = {.size = sizeof(u), .removed = removed, .added = added};

	for (int k = 0; k < h->n_removed; k++)
		if (h->removed_of[k] >> i & 1)
			removed[u.n_removed++] = h->removed[k];
	for (int k = 0; k < h->n_added; k++)
		if (h->added_of[k] >> i & 1)
			added[u.n_added++] = h->added[k];
	if (u.n_removed + u.n_added > 0)
		p->update_state(h->self[i], &u);
	mem_free(removed);
	mem_free(added);
}

void
plugin_host_update(PluginHost *h, SampleRow *rows, int n, bool again)
{
	int			from = 0;

	make_room(h, again ? slots_wanted(h, rows, n) : n);
	h->step += !again;
	for (int i = 0; i < n; i++)
		if (rows[i].params->plugins != 0 && sits(h, rows[i].seat))
			h->slots[rows[i].seat->slot].step = h->step;
	h->n_removed = 0;
	if (!again)
		remove_absent(h);
	h->n_added = 0;
	for (int i = 0; i < n; i++)
		if (rows[i].params->plugins != 0 && !sits(h, rows[i].seat))
			seat(h, &rows[i], &from);
	for (int i = 0; i < h->p->n && h->n_removed + h->n_added > 0; i++)
		if (h->p->p[i]->update_state != NULL)
			report(h, i);
}

void
plugin_host_apply(PluginHost *h, uint32_t which, SampleRow *rows, int n)
{
	for (int i = 0; i < h->p->n; i++)
	{
		int			m = 0;

		for (int k = 0; k < n && (which >> i & 1) != 0; k++)
		{
			const SampleRow *r = &rows[k];

			if ((r->params->plugins >> i & 1) == 0 || r->id < 0 ||
				((h->late >> i & 1) != 0 && r->params->temperature == 0))
				continue;
			h->row_at[m] = k;
			h->rows[m++] = (VllmLogitsRow) {
				.slot = r->seat->slot, .n_output = r->n_tokens - r->n_prompt,
					.output = r->tokens + r->n_prompt,
				.logits = r->logits
			};
		}
		if (m == 0 || h->p->p[i]->apply_cpu(h->self[i], h->rows, m) == 0)
			continue;
		for (int k = 0; k < m; k++)
		{
			rows[h->row_at[k]].id = SMP_PLUGIN;
			rows[h->row_at[k]].seat->failed = h->p->p[i]->name;
		}
	}
}
