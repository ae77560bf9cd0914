/*
 * conv.c
 *	  Conversations: the engine's, with a slot (talk/chan.h) or, of an API call, without one.
 *
 * One without a slot uses its channel's lock and states alone: its frames go to
 * tell(), and nothing of it ever waits for room.
 *
 * Tested by tests/unit/test_server.c and test_api.c.
 */
#include "engine/conv.h"

#include "base/clock.h"
#include "base/mem.h"
#include "engine/answer.h"
#include "engine/replies.h"
#include "engine/stream_hold.h"

/* ---- life ---- */

Conv *
conv_new(Link *l, uint32_t slot, uint32_t gen, uint64_t id)
{
	Conv	   *c = mem_zalloc(sizeof(Conv));

	chan_init(&c->ch, l, slot, gen);
	c->id = id;
	return c;
}

Conv *
conv_new_inner(Link *l, uint64_t id, ConvTell tell, void *ctx, int item)
{
	Conv	   *c = mem_zalloc(sizeof(Conv));

	c->ch.link = l;
	c->ch.slot = UINT32_MAX;
	c->ch.arrival_us = clock_us();
	c->ch.open = true;
	pthread_mutex_init(&c->ch.lock, NULL);
	c->id = id;
	c->stage = CONV_BUSY;
	c->tell = tell;
	c->tell_ctx = ctx;
	c->tell_item = item;
	return c;
}

void
conv_free(Conv *c)
{
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

/* Of an inner one; kind 0: drop it.  False: it has its final frame already. */
static bool
tell(Conv *c, int kind, const Buf *fields, bool final)
{
	bool		active;

	pthread_mutex_lock(&c->ch.lock);
	active = c->ch.open && !c->ch.ending;
	if (active)
	{
		c->ch.ending = final && kind != 0;
		c->ch.open = !final;
		c->tell(c, kind, fields, final);
	}
	pthread_mutex_unlock(&c->ch.lock);
	return active;
}

void
conv_pump(Conv *c)
{
	if (c->tell == NULL)
		chan_pump(&c->ch);
}

void
conv_frame(Conv *c, WireFrame kind, const Buf *fields, bool wake)
{
	if (c->tell != NULL)
		tell(c, (int) kind, fields, false);
	else
		chan_frame(&c->ch, kind, fields, wake);
}

bool
conv_end(Conv *c, WireFrame kind, const Buf *fields)
{
	return c->tell != NULL ? tell(c, (int) kind, fields, true) : chan_end(&c->ch, kind, fields);
}

bool
conv_end_error(Conv *c, const Err *e)
{
	Buf			b = {0};
	bool		r;

	chan_put_error(&b, e);
	r = conv_end(c, WF_ERROR, &b);
	buf_free(&b);
	return r;
}

void
conv_drop(Conv *c)
{
	if (c->tell != NULL)
		tell(c, 0, NULL, true);
	else
		chan_drop(&c->ch);
}

bool
conv_is_open(Conv *c)
{
	return chan_is_open(&c->ch);
}

bool
conv_is_active(Conv *c)
{
	return chan_is_active(&c->ch);
}

/* ---- live figures ---- */

bool
conv_live(Conv *c, const ChanLive *v)
{
	return c->tell != NULL ? chan_is_active(&c->ch) : chan_live(&c->ch, v);
}

void
conv_phase(Conv *c, WirePhase phase)
{
	ChanLive	v = {(int) phase, -1, -1, -1, -1, -1, -1};

	conv_live(c, &v);
}
