/*
 * place_queue.c
 *	  Requests that wait for a place in the registry.
 *
 * The registry holds vllm.max_models entries.  If all of them are busy, a request for another model waits
 * until one is idle, at most vllm.memory_timeout, as a load waits for memory; then it fails with 54000.
 * It fails at once if all are kept by their option keep_alive, since none of these becomes idle.
 *
 * Requests get places in the order of their arrival: while one waits, later ones for models without an
 * entry wait behind it.  Whether an entry is idle is seen by polling, so there is nothing to undo when a
 * waiting request is cancelled.
 *
 * Server thread only.  Tested by tests/unit/server/models/test_models_registry.c.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "server/models/registry_internal.h"
#include "server/request/request.h"

/* Return true if c, which gets no place now, may wait for one.  *most_ms: how long at most. */
static bool
may_wait(ServerCall *c, int *most_ms)
{
	Settings	set;
	int64_t		now = clock_us();

	settings_get(c->srv->box, &set);
	if (c->stage != SCALL_PLACE)
		c->place_us = now;
	*most_ms = set.memory_timeout_ms;
	return now - c->place_us < (int64_t) set.memory_timeout_ms * 1000;
}

static void
fail(ServerCall *c, int waited_ms, Err *e)
{
	if (waited_ms > 0)
		err_detail(e, "None of them was idle within %d ms (vllm.memory_timeout): each has requests, is being "
				   "loaded, or is kept by its option keep_alive.", waited_ms);
	request_fail(c, e);
}

bool
place_take(ServerCall *c)
{
	Models	   *m = c->srv->models;
	const Request *r = c->req;
	bool		behind = m->n_placeless > 0 && r->path != NULL &&
		registry_find(m, r->dboid, r->model) == NULL;
	int			most_ms = 0;
	Err			e;

	m->all_busy = false;
	if (!behind || !may_wait(c, &most_ms))
	{
		c->entry = registry_ensure(m, r->dboid, r->model, r->path, r->options, &e);
		if (c->entry != NULL)
		{
			entry_ref(c->entry);
			c->stage = SCALL_BUSY;
			return true;
		}
		if (!m->all_busy || !may_wait(c, &most_ms))
		{
			fail(c, m->all_busy ? most_ms : 0, &e);
			return false;
		}
	}
	c->stage = SCALL_PLACE;
	scall_phase(c, WP_WAITING);
	m->n_placeless++;
	return false;
}

static bool
is_placeless(ServerCall *c)
{
	return c->stage == SCALL_PLACE;
}

bool
place_poll(Models *m)
{
	ServerCall **c;
	size_t		n;

	if (m->n_placeless == 0)
		return false;
	c = server_calls_by_arrival(m->srv, is_placeless, &n);
	/* those that get no place count again; a request may end another one of the same body */
	m->n_placeless = 0;
	for (size_t i = 0; i < n; i++)
		if (scall_is_active(c[i]))
			request_start_with_model(c[i]);
	mem_free(c);
	return m->n_placeless > 0;
}
