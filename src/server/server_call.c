/*
 * server_call.c
 *	  Server calls: with a slot (ipc_server/channel.h) or, for the inner requests of an API call, without
 *	  one.
 *
 * A call without a slot uses only its channel's lock and states: its frames go to emit(), and it never
 * waits for space in a ring.
 *
 * Tested by tests/unit/server/test_server.c and test_api.c.
 */
#include "base/assert.h"
#include "server/server_call.h"

#include "base/clock.h"
#include "base/alloc.h"
#include "server/request/output_splitter.h"
#include "server/request/choice_replies.h"
#include "server/request/stream_interval.h"

/* ---- life ---- */

ServerCall *
scall_new(Link *l, uint32_t slot, uint32_t gen, uint64_t id)
{
	ServerCall *c = mem_zalloc(sizeof(ServerCall));

	chan_init(&c->ch, l, slot, gen);
	c->id = id;
	return c;
}

ServerCall *
scall_new_inner(Link *l, uint64_t id, ServerCallEmit emit, void *ctx, int item)
{
	ServerCall *c = mem_zalloc(sizeof(ServerCall));

	c->ch.link = l;
	c->ch.slot = UINT32_MAX;
	c->ch.arrival_us = clock_us();
	/* its message is complete from the start */
	for (WireCallState s = WC_CLAIMED; s <= WC_RUNNING; s++)
		chan_set_state(&c->ch, s);
	pthread_mutex_init(&c->ch.lock, NULL);
	c->id = id;
	c->stage = SCALL_BUSY;
	c->emit = emit;
	c->emit_ctx = ctx;
	c->emit_item = item;
	return c;
}

void
scall_free(ServerCall *c)
{
	/* closed and unused: by the step thread, a job, or a list of waiting calls */
	ALWAYS(!atomic_load(&c->in_core) && !c->job_busy && c->on == NULL);
	ALWAYS(c->ch.state == WC_CLOSED || c->ch.state == WC_NONE);
	buf_free(&c->text);
	buf_free(&c->last);
	intvec_free(&c->ids);
	replies_free(c->replies);
	stream_hold_free(c->hold);
	answer_free(c->answer);
	chan_destroy(&c->ch);
	mem_free(c);
}

/* ---- frames ---- */

/*
 * Pass a frame of an inner call to its emit(); kind 0: drop the call.  Returns false if it has its final
 * frame already.
 */
static bool
emit(ServerCall *c, int kind, const Buf *fields, bool final)
{
	bool		active;

	pthread_mutex_lock(&c->ch.lock);
	active = c->ch.state == WC_RUNNING;
	if (active)
	{
		if (final && kind != 0)
			chan_set_state(&c->ch, WC_FINAL);
		if (final)
			chan_set_state(&c->ch, WC_CLOSED);
		c->emit(c, kind, fields, final);
	}
	pthread_mutex_unlock(&c->ch.lock);
	return active;
}

void
scall_pump(ServerCall *c)
{
	if (c->emit == NULL)
		chan_pump(&c->ch);
}

void
scall_frame(ServerCall *c, WireFrame kind, const Buf *fields, bool wake)
{
	if (c->emit != NULL)
		emit(c, (int) kind, fields, false);
	else
		chan_frame(&c->ch, kind, fields, wake);
}

bool
scall_end(ServerCall *c, WireFrame kind, const Buf *fields)
{
	return c->emit != NULL ? emit(c, (int) kind, fields, true) : chan_end(&c->ch, kind, fields);
}

bool
scall_end_error(ServerCall *c, const Err *e)
{
	Buf			b = {0};
	bool		r;

	chan_put_error(&b, e);
	r = scall_end(c, WF_ERROR, &b);
	buf_free(&b);
	return r;
}

void
scall_drop(ServerCall *c)
{
	if (c->emit != NULL)
		emit(c, 0, NULL, true);
	else
		chan_drop(&c->ch);
}

bool
scall_is_open(ServerCall *c)
{
	return chan_is_open(&c->ch);
}

bool
scall_is_active(ServerCall *c)
{
	return chan_is_active(&c->ch);
}

/* ---- live counters ---- */

bool
scall_live(ServerCall *c, const ChanLive *v)
{
	return c->emit != NULL ? chan_is_active(&c->ch) : chan_live(&c->ch, v);
}

void
scall_phase(ServerCall *c, WirePhase phase)
{
	ChanLive	v = {(int) phase, -1, -1, -1, -1, -1, -1};

	scall_live(c, &v);
}
