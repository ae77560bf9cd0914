/*
 * channel.c
 *	  Conversations: bytes between a slot's rings and private memory.
 *
 * The arena is untrusted.  A channel keeps its own cursors (req_tail, rep_head) privately from 0 on and
 * only publishes them.  It loads the other side's cursors once, and wire_ring_*() reject impossible
 * ones.  A request's head must belong to this conversation.  The buffer of a message grows with the
 * bytes that arrive, never to the length that the head claims.
 *
 * Barriers: req_head acquire here / release in the backend's writer; rep_tail acquire here / release in
 * the backend's reader; rep_head and req_tail release here / acquire in the backend.  Closing: state =
 * CLOSED (release), rep_head (release), let_go (release), in this order (wire.h).  slot->wake is set
 * before the push; the supervisor clears it before it looks at the slot.
 *
 * Tested by tests/unit/ipc_server/test_channel.c.
 */
#include "ipc_server/channel.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/alloc.h"
#include "base/assert.h"

/* ---- the link ---- */

void
link_init(Link *l, const WireArena *arena, int control_fd)
{
	l->arena = *arena;
	l->hdr = wire_header(arena);
	l->control_fd = control_fd;
	pthread_mutex_init(&l->wake_lock, NULL);
}

WireSlot *
link_slot(const Link *l, uint32_t slot)
{
	/* slot numbers come from wire_pop(), which skips those out of range */
	ALWAYS(slot < l->arena.geo.n_slots);
	return wire_slot(&l->arena, slot);
}

bool
link_slot_over(const WireSlot *w, uint32_t gen)
{
	return atomic_load(&w->cancel) != 0 || atomic_load(&w->let_go) == gen;
}

void
link_ring_doorbell(Link *l)
{
	/* partner: a thread that goes to sleep sets engine_sleeping and then checks again */
	atomic_fetch_add(&l->hdr->doorbell, 1);
	if (atomic_load(&l->hdr->engine_sleeping))
		syscall(SYS_futex, &l->hdr->doorbell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void
link_send_line(Link *l, const char *line)
{
	if (l->control_fd >= 0 &&
		send(l->control_fd, line, strlen(line), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return;					/* full: the supervisor already has lines to read; closed: the control
								 * thread exits the program */
}

/* Wake the slot's owner through the supervisor. */
static void
wake(Link *l, uint32_t slot)
{
	uint32_t	idle = WW_IDLE;
	bool		first;

	/* partner: the owner's fence between setting wake to IDLE and its last poll */
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_compare_exchange_strong(&link_slot(l, slot)->wake, &idle, WW_QUEUED))
		return;
	pthread_mutex_lock(&l->wake_lock);
	first = wire_push(&l->arena, WQ_TO_WORKER, slot);
	pthread_mutex_unlock(&l->wake_lock);
	if (first)
		link_send_line(l, "w\n");
}

/* ---- life ---- */

void
chan_set_state(Channel *c, WireCallState to)
{
	ASSERT(wire_call_may_follow(c->state, to));
	c->state = to;
}

/* Return true until the final frame is in the ring, or the channel was dropped. */
static bool
is_open(const Channel *c)
{
	return c->state != WC_NONE && c->state != WC_CLOSED;
}

/* Return true if the channel is open and its final frame is not yet queued. */
static bool
is_active(const Channel *c)
{
	return is_open(c) && c->state != WC_FINAL;
}

void
chan_init(Channel *c, Link *l, uint32_t slot, uint32_t gen)
{
	WireSlot   *s = link_slot(l, slot);

	c->link = l;
	c->slot = slot;
	c->gen = gen;
	c->arrival_us = clock_us();
	chan_set_state(c, WC_CLAIMED);
	chan_set_state(c, WC_SENDING);
	pthread_mutex_init(&c->lock, NULL);
	c->req_tail = c->rep_head = 0;	/* conversations begin at 0, whatever the arena says */
	c->deadline_us = atomic_load_explicit(&s->deadline_us, memory_order_relaxed);
	c->timeout_ms = (int) (atomic_load_explicit(&s->timeout_ms, memory_order_relaxed) & INT32_MAX);
	atomic_store_explicit(&s->arrival_us, c->arrival_us, memory_order_relaxed);
	atomic_store_explicit(&s->phase, WP_RECEIVING, memory_order_relaxed);
}

static void
free_buffers(Channel *c)
{
	buf_free(&c->out);
	c->out_at = 0;
}

void
chan_destroy(Channel *c)
{
	free_buffers(c);
	mem_free(c->in);
	c->in = NULL;
	pthread_mutex_destroy(&c->lock);
}

/* ---- request bytes in ---- */

/* Make room for at least one more byte of the body. */
static bool
grow(Channel *c, Err *e)
{
	size_t		cap = c->in_cap == 0 ? 4096 : c->in_cap * 2;
	char	   *p;

	if (cap > c->msg.len)
		cap = c->msg.len;
	p = mem_try_realloc(c->in, cap + 1);
	if (p == NULL)
		return err_set(e, ERR_NOMEM, "out of memory receiving a request of %llu bytes",
					   (unsigned long long) c->msg.len);
	c->in = p;
	c->in_cap = cap;
	return true;
}

static bool
check_msg(Channel *c, Err *e)
{
	if (c->msg.magic != WIRE_MSG_MAGIC || c->msg.kind == 0 || c->msg.kind >= WK_COUNT ||
		((c->msg.flags & WIRE_SUMMED) != 0 && c->msg.len < WIRE_SUM_BYTES))
		return err_set(e, ERR_INTERNAL, "malformed request message");
	if (!wire_in_place(&c->msg, c->gen, 0))
	{
		err_set(e, ERR_LOST, "the request was damaged in transmission");
		return err_detail(e, "Its header belongs to another conversation or another position.");
	}
	if (c->msg.len > c->link->arena.geo.max_request)
	{
		err_set(e, ERR_TOO_LONG, "request of %llu bytes is longer than the maximum of %llu bytes",
				(unsigned long long) c->msg.len, (unsigned long long) c->link->arena.geo.max_request);
		return err_hint(e, "The maximum is set by vllm.max_prompt_bytes.");
	}
	c->kind = c->msg.kind;
	return true;
}

/* Read the bytes that have arrived; returns their number, or -1 with *e set. */
static int
receive_some(Channel *c, Err *e)
{
	WireSlot   *s = link_slot(c->link, c->slot);
	uint32_t	head = atomic_load_explicit(&s->req_head, memory_order_acquire);
	char	   *to;
	size_t		room;
	int			n;

	if (c->msg_have < sizeof(c->msg))
	{
		to = (char *) &c->msg + c->msg_have;
		room = sizeof(c->msg) - c->msg_have;
	}
	else
	{
		if (c->in_len == c->in_cap && c->in_len < c->msg.len && head != c->req_tail && !grow(c, e))
			return -1;
		to = c->in + c->in_len;
		room = c->in_cap - c->in_len;
	}
	ASSERT(c->msg_have <= sizeof(c->msg) && c->in_len <= c->in_cap);
	if (room == 0)
		return 0;
	n = wire_ring_read(wire_req_ring(&c->link->arena, c->slot), c->link->arena.geo.ring_size, head,
					   c->req_tail, to, room);
	if (n < 0)
	{
		err_set(e, ERR_INTERNAL, "corrupt request ring");
		return -1;
	}
	c->req_tail += (uint32_t) n;
	if (c->msg_have < sizeof(c->msg))
	{
		c->msg_have += (size_t) n;
		if (c->msg_have == sizeof(c->msg) && !check_msg(c, e))
			return -1;
	}
	else
		c->in_len += (size_t) n;
	return n;
}

/* The message is complete: verify its checksum, and remove it. */
static bool
check_sum(Channel *c, Err *e)
{
	if (!wire_intact(&c->msg, c->in))
	{
		err_set(e, ERR_LOST, "the request was damaged in transmission");
		return err_detail(e, "The checksum of the %llu received bytes differs from the one that was sent.",
						  (unsigned long long) c->msg.len);
	}
	c->msg.len = c->in_len = (size_t) wire_fields_len(&c->msg);
	c->msg.flags &= (uint16_t) ~WIRE_SUMMED;
	pthread_mutex_lock(&c->lock);
	/* another thread may have dropped the channel meanwhile */
	if (c->state == WC_SENDING)
		chan_set_state(c, WC_RUNNING);
	pthread_mutex_unlock(&c->lock);
	return true;
}

ChanRead
chan_receive(Channel *c, Err *e)
{
	WireSlot   *s = link_slot(c->link, c->slot);
	uint32_t	before = c->req_tail;
	int			n;

	do
	{
		n = receive_some(c, e);
		if (n < 0)
			return CHAN_BAD;
		atomic_store_explicit(&s->req_tail, c->req_tail, memory_order_release);
	} while (n > 0);
	if (c->msg_have == sizeof(c->msg) && c->in_len == c->msg.len)
		return check_sum(c, e) ? CHAN_COMPLETE : CHAN_BAD;
	/* the backend may be waiting for room in the ring */
	if (c->req_tail != before)
		wake(c->link, c->slot);
	return CHAN_MORE;
}

/* ---- reply bytes out; all under c->lock ---- */

static void
let_go(Channel *c)
{
	chan_set_state(c, WC_CLOSED);
	atomic_store_explicit(&link_slot(c->link, c->slot)->let_go, c->gen, memory_order_release);
	free_buffers(c);
}

static void
close_locked(Channel *c)
{
	WireSlot   *s;
	uint32_t	was = WS_OPEN;

	if (!is_open(c))
		return;
	c->dropped = true;
	s = link_slot(c->link, c->slot);
	if (atomic_load(&s->gen) == c->gen)
	{
		atomic_store_explicit(&s->phase, WP_FINISHED, memory_order_relaxed);
		atomic_compare_exchange_strong(&s->state, &was, WS_CLOSED);
		let_go(c);
		wake(c->link, c->slot);
		return;
	}
	chan_set_state(c, WC_CLOSED); /* the slot has another owner now */
	free_buffers(c);
}

static void
pump_locked(Channel *c, bool notify)
{
	WireSlot   *s = link_slot(c->link, c->slot);

	ASSERT(c->out_at <= c->out.len);
	if (!is_open(c))
		return;
	if (atomic_load_explicit(&s->gen, memory_order_acquire) != c->gen)
	{
		close_locked(c);
		return;
	}
	while (c->out_at < c->out.len)
	{
		uint32_t	tail = atomic_load_explicit(&s->rep_tail, memory_order_acquire);
		int			n = wire_ring_write(wire_rep_ring(&c->link->arena, c->slot), c->link->arena.geo.ring_size,
										c->rep_head, tail, c->out.data + c->out_at, c->out.len - c->out_at);
		bool		last;

		if (n < 0)
		{
			close_locked(c);
			return;
		}
		if (n == 0)
			break;
		c->out_at += (size_t) n;
		c->rep_head += (uint32_t) n;
		last = c->state == WC_FINAL && c->out_at == c->out.len;
		if (last)
		{
			uint32_t	was = WS_OPEN;

			atomic_store_explicit(&s->phase, WP_FINISHED, memory_order_relaxed);
			atomic_compare_exchange_strong(&s->state, &was, WS_CLOSED);
		}
		atomic_store_explicit(&s->rep_head, c->rep_head, memory_order_release);
		if (last)
		{
			let_go(c);
			wake(c->link, c->slot);
			return;
		}
	}
	if (c->out_at < c->out.len)
		notify = true;			/* the ring is full, and only the backend can make room */
	else
	{
		buf_reset(&c->out);
		c->out_at = 0;
	}
	if (notify)
		wake(c->link, c->slot);
}

void
chan_pump(Channel *c)
{
	pthread_mutex_lock(&c->lock);
	if (c->out_at < c->out.len)
		pump_locked(c, false);
	pthread_mutex_unlock(&c->lock);
}

static void
queue_frame(Channel *c, WireFrame kind, const Buf *fields, bool final)
{
	uint32_t	place = c->rep_head + (uint32_t) (c->out.len - c->out_at);
	WireMsg		m = wire_head(kind, final ? WIRE_FINAL : 0, fields != NULL ? fields->len : 0, c->gen, place);

	ASSERT(c->out_at <= c->out.len);
	/* compact the buffer, so that it does not grow for ever if the backend always lags */
	if (c->out_at > c->out.len / 2)
	{
		buf_consume(&c->out, c->out_at);
		c->out_at = 0;
	}
	buf_add(&c->out, &m, sizeof(m));
	if (fields != NULL && fields->len > 0)
		buf_add(&c->out, fields->data, fields->len);
	if (WIRE_CHECKED)
	{
		uint64_t	sum = wire_sum(&m, fields != NULL ? fields->data : NULL);

		buf_add(&c->out, &sum, sizeof(sum));
	}
}

void
chan_frame(Channel *c, WireFrame kind, const Buf *fields, bool notify)
{
	pthread_mutex_lock(&c->lock);
	if (is_active(c))
	{
		queue_frame(c, kind, fields, false);
		pump_locked(c, notify);
	}
	pthread_mutex_unlock(&c->lock);
}

bool
chan_end(Channel *c, WireFrame kind, const Buf *fields)
{
	bool		first;

	pthread_mutex_lock(&c->lock);
	first = is_active(c);
	if (first)
	{
		queue_frame(c, kind, fields, true);
		chan_set_state(c, WC_FINAL);
		pump_locked(c, false);
	}
	pthread_mutex_unlock(&c->lock);
	return first;
}

bool
chan_end_error(Channel *c, const Err *e)
{
	Buf			b = {0};
	bool		r;

	chan_put_error(&b, e);
	r = chan_end(c, WF_ERROR, &b);
	buf_free(&b);
	return r;
}

void
chan_drop(Channel *c)
{
	pthread_mutex_lock(&c->lock);
	close_locked(c);
	pthread_mutex_unlock(&c->lock);
}

bool
chan_was_dropped(Channel *c)
{
	bool		r;

	pthread_mutex_lock(&c->lock);
	r = c->dropped;
	pthread_mutex_unlock(&c->lock);
	return r;
}

bool
chan_is_open(Channel *c)
{
	bool		r;

	pthread_mutex_lock(&c->lock);
	r = is_open(c);
	pthread_mutex_unlock(&c->lock);
	return r;
}

bool
chan_is_active(Channel *c)
{
	bool		r;

	pthread_mutex_lock(&c->lock);
	r = is_active(c);
	pthread_mutex_unlock(&c->lock);
	return r;
}

size_t
chan_backlog(Channel *c)
{
	size_t		n = 0;

	pthread_mutex_lock(&c->lock);
	if (is_open(c))
	{
		uint32_t	in_ring = c->rep_head - atomic_load_explicit(&link_slot(c->link, c->slot)->rep_tail,
																 memory_order_relaxed);

		n = c->out.len - c->out_at;
		/* a larger value means a corrupt cursor, which chan_pump() detects */
		if (in_ring <= c->link->arena.geo.ring_size)
			n += in_ring;
	}
	pthread_mutex_unlock(&c->lock);
	return n;
}

/* ---- live counters ---- */

static void
figure(_Atomic uint32_t *to, int v)
{
	if (v >= 0)
		atomic_store_explicit(to, (uint32_t) v, memory_order_relaxed);
}

bool
chan_live(Channel *c, const ChanLive *v)
{
	bool		active;

	pthread_mutex_lock(&c->lock);
	if (is_open(c))
	{
		WireSlot   *s = link_slot(c->link, c->slot);

		figure(&s->phase, v->phase);
		figure(&s->prompt_tokens, v->prompt_tokens);
		figure(&s->cached_tokens, v->cached_tokens);
		figure(&s->computed_tokens, v->computed_tokens);
		figure(&s->output_tokens, v->output_tokens);
		figure(&s->preemptions, v->preemptions);
		if (v->first_token_us >= 0)
			atomic_store_explicit(&s->first_token_us, v->first_token_us, memory_order_relaxed);
	}
	active = is_active(c);
	pthread_mutex_unlock(&c->lock);
	return active;
}

/* ---- fields ---- */

static void
append(void *ctx, const void *data, size_t n)
{
	buf_add(ctx, data, n);
}

WireOut
chan_out(Buf *b)
{
	return (WireOut)
	{
		.append = append,.ctx = b
	};
}

void
chan_put_error(Buf *fields, const Err *e)
{
	WireOut		o = chan_out(fields);
	const char *state = err_sqlstate(e->cls);

	wire_put_str(&o, WTAG_SQLSTATE, state, strlen(state));
	wire_put_str(&o, WTAG_MESSAGE, e->msg, strlen(e->msg));
	if (e->detail[0] != '\0')
		wire_put_str(&o, WTAG_DETAIL, e->detail, strlen(e->detail));
	if (e->hint[0] != '\0')
		wire_put_str(&o, WTAG_HINT, e->hint, strlen(e->hint));
}
