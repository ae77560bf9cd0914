/*
 * remote_server.c
 *	  The remote program's loop: one thread and one epoll descriptor, which becomes readable for backends
 *	  (doorbell_fd.h), the supervisor and endpoints.
 *
 * A RemoteServerCall is a request on a slot (ipc_server/channel.h).  When its message is complete, the
 * dispatcher takes the request over and the sink writes the frames into the channel.  Final frames are
 * delayed until the statistics are published, so that a client that has read its result finds it
 * counted.  If a slot is cancelled, corrupt or reused, its request is cancelled in the dispatcher at
 * once.  A RemoteServerCall is freed after its channel is closed, but never from within the dispatcher:
 * when its slot is polled next.
 *
 * Waiting for endpoints does not count as work: header.busy stays 0, and the heartbeat comes at least
 * once a second.
 *
 * Tested by tests/unit/remote/test_remote_server.c.
 */
#include "remote/remote_server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/machine/cpus.h"
#include "base/log.h"
#include "base/alloc.h"
#include "base/machine/system_memory.h"
#include "remote/doorbell_fd.h"
#include "remote/dispatcher.h"
#include "ipc_server/channel.h"
#include "ipc_server/control_socket.h"
#include "ipc_server/stats_seqlock.h"

#define BEAT_US		INT64_C(1000000)	/* longest time of one iteration of the loop */

typedef struct RemoteServerCall
{
	Channel		ch;
	struct RemoteServer *d;
	PendingRequest *request;	/* owned by the dispatcher; NULL = none */
	bool		taken;			/* the message has been passed on */
	bool		answered;		/* its final frame has come and is kept in this call */
	WireFrame	last_kind;
	Buf			last;
	struct RemoteServerCall *next_last;
} RemoteServerCall;

struct RemoteServer
{
	Link		link;
	ControlLines in;
	DoorbellFd *bell;
	int			epoll;
	Http	   *http;
	RSettings	set;
	Dispatcher *line;
	WireStats  *stats;
	RemoteServerCall **table;			/* indexed by slot; NULL = none */
	int			n_requests;			/* calls whose request is in the dispatcher */
	RemoteServerCall *lasts;			/* list of calls whose final frames are delayed */
	int64_t		beat_us;		/* time of the last sweep of all slots */
	int64_t		http_due_us, dispatcher_due_us;
	bool		stop;
};

/* ---- the dispatcher's sink ---- */

/* The dispatcher no longer has the call's request. */
static void
forget_request(RemoteServerCall *v)
{
	if (v->request == NULL)
		return;
	ASSERT(v->d->n_requests > 0);
	v->d->n_requests--;
	v->request = NULL;
}

static void
cancel_call(RemoteServerCall *v)
{
	PendingRequest *a = v->request;

	forget_request(v);
	if (a != NULL)
		dispatcher_cancel(v->d->line, a);
}

static void
sink_frame(void *owner, WireFrame kind, const Buf *fields, bool final)
{
	RemoteServerCall *v = owner;

	/* after the final frame the dispatcher has no request for v */
	ASSERT(!v->answered);
	if (final)
	{
		forget_request(v);
		v->answered = true;
		v->last_kind = kind;
		if (fields != NULL)
			buf_add(&v->last, fields->data, fields->len);
		v->next_last = v->d->lasts;
		v->d->lasts = v;
		return;
	}
	chan_frame(&v->ch, kind, fields, kind != WF_ACCEPTED);
	/*
	 * The slot is corrupt, or another client has it by now.  During dispatcher_submit() the call has no
	 * request yet; take() checks for that afterwards.
	 */
	if (!chan_is_open(&v->ch))
		cancel_call(v);
}

static void
sink_live(void *owner, WirePhase phase, int prompt_tokens, int output_tokens)
{
	RemoteServerCall *v = owner;
	ChanLive	live = {(int) phase, prompt_tokens, -1, -1, output_tokens, -1, -1};

	if (output_tokens > 0 && atomic_load_explicit(&link_slot(v->ch.link, v->ch.slot)->first_token_us,
												  memory_order_relaxed) < v->ch.arrival_us)
		live.first_token_us = clock_us();
	chan_live(&v->ch, &live);
}

static size_t
sink_backlog(void *owner)
{
	return chan_backlog(&((RemoteServerCall *) owner)->ch);
}

static void
send_lasts(RemoteServer *d)
{
	RemoteServerCall *v = d->lasts;

	d->lasts = NULL;
	for (RemoteServerCall *next; v != NULL; v = next)
	{
		next = v->next_last;
		ASSERT(v->answered && v->request == NULL);
		chan_end(&v->ch, v->last_kind, &v->last);
		buf_free(&v->last);
	}
}

/* Drop the delayed final frame together with its slot. */
static void
forget_last(RemoteServerCall *v)
{
	RemoteServerCall **pp = &v->d->lasts;

	while (*pp != NULL && *pp != v)
		pp = &(*pp)->next_last;
	if (*pp == v)
		*pp = v->next_last;
	buf_free(&v->last);
}

static const LineSink sink = {.frame = sink_frame,.live = sink_live,.backlog = sink_backlog};

/* ---- control commands ---- */

/*
 * Count calls that are open though their slot belongs to another request, and requests that only one
 * side has.
 */
static bool
integrity(RemoteServer *d, Buf *answer)
{
	int			stale = 0,
				requests = 0,
				lost = 0;

	for (uint32_t i = 0; i < d->link.arena.geo.n_slots; i++)
	{
		RemoteServerCall *v = d->table[i];
		WireSlot   *w = link_slot(&d->link, i);

		if (v == NULL)
			continue;
		if (chan_is_open(&v->ch) && (atomic_load(&w->gen) != v->ch.gen || atomic_load(&w->state) != WS_OPEN))
			stale++;
		requests += v->request != NULL;
		lost += v->request != NULL && !chan_is_open(&v->ch);
	}
	if (stale > 0)
		buf_printf(answer, "%d conversations outlive their slots", stale);
	else if (lost > 0)
		buf_printf(answer, "%d requests outlive their conversations", lost);
	else if (requests != d->n_requests || requests != dispatcher_live(d->line))
		buf_printf(answer, "%d conversations wait for requests, of %d; the dispatcher has %d", requests,
				   d->n_requests, dispatcher_live(d->line));
	else
		return dispatcher_command(d->line, "integrity", answer);
	return true;
}

static bool
command(RemoteServer *d, const char *what, Buf *answer)
{
	if (strcmp(what, "integrity") == 0)
		return integrity(d, answer);
	if (strcmp(what, "fds") == 0)
		buf_printf(answer, "%d", control_count_fds());
	else if (strcmp(what, "rss") == 0)
		buf_printf(answer, "%lld", (long long) sysmem_of_process((int) getpid()));
	else if (strcmp(what, "ping") == 0)
		buf_addstr(answer, "pong");
	else
		return dispatcher_command(d->line, what, answer);
	return true;
}

static void
control(RemoteServerCall *v)
{
	WireIn		in = {.p = v->ch.in,.end = v->ch.in + v->ch.in_len};
	WireField	f;
	Buf			answer = {0};
	Buf			fields = {0};
	WireOut		o = chan_out(&fields);
	char		what[256] = "";
	int			r;
	Err			e = {0};

	/* an empty message has no memory */
	while ((r = v->ch.in_len > 0 ? wire_next(&in, &f) : 0) > 0)
		if (f.tag == WTAG_COMMAND)
			snprintf(what, sizeof(what), "%.*s", (int) (f.n < sizeof(what) ? f.n : sizeof(what)), f.s);
	if (r < 0)
		err_set(&e, ERR_INTERNAL, "malformed request");
	else if (!command(v->d, what, &answer))
		err_set(&e, ERR_INVALID, "unknown control command \"%.64s\"", what);
	if (e.cls != ERR_NONE)
		chan_end_error(&v->ch, &e);
	else
	{
		wire_put_str(&o, WTAG_TEXT, answer.data != NULL ? answer.data : "", answer.len);
		chan_end(&v->ch, WF_DONE, &fields);
	}
	buf_free(&answer);
	buf_free(&fields);
}

/* ---- slots ---- */

/* The message is complete: submit the request. */
static void
take(RemoteServerCall *v)
{
	RemoteServer *d = v->d;
	char	   *fields = v->ch.in;
	PendingRequest *a;

	v->taken = true;
	if (v->ch.kind == WK_CONTROL)
	{
		control(v);
		return;
	}
	/* the dispatcher owns the message from here on */
	v->ch.in = NULL;
	a = dispatcher_submit(d->line, (WireKind) v->ch.kind, fields, v->ch.in_len, v->ch.deadline_us,
						  v->ch.timeout_ms, v);
	if (a == NULL)
	{
		Err			e;

		err_set(&e, ERR_INTERNAL, "the request was lost");
		if (!v->answered)
			chan_end_error(&v->ch, &e);
		return;
	}
	ASSERT(!v->answered);
	v->request = a;
	d->n_requests++;
	if (!chan_is_open(&v->ch))
		cancel_call(v);
}

static void
receive(RemoteServerCall *v)
{
	Err			e = {0};

	switch (chan_receive(&v->ch, &e))
	{
		case CHAN_MORE:
			break;
		case CHAN_COMPLETE:
			take(v);
			break;
		case CHAN_BAD:
			v->taken = true;
			chan_end_error(&v->ch, &e);
			break;
	}
}

/* Remove a closed call from its slot. */
static void
retire(RemoteServer *d, uint32_t slot)
{
	RemoteServerCall *v = d->table[slot];

	ALWAYS(v != NULL && v->d == d && v->ch.slot == slot);
	d->table[slot] = NULL;
	cancel_call(v);
	forget_last(v);
	chan_destroy(&v->ch);
	mem_free(v);
}

static RemoteServerCall *
accept_call(RemoteServer *d, uint32_t slot, uint32_t gen)
{
	RemoteServerCall *v = mem_zalloc(sizeof(RemoteServerCall));

	v->d = d;
	chan_init(&v->ch, &d->link, slot, gen);
	d->table[slot] = v;
	return v;
}

/* A backend has rung for this slot. */
static void
poll_slot(RemoteServer *d, uint32_t slot)
{
	WireSlot   *w = link_slot(&d->link, slot);
	RemoteServerCall *v = d->table[slot];
	uint32_t	state;
	uint32_t	gen;

	/* Cleared before the slot is read.  Partner: the backend's exchange in its ring-for-attention. */
	atomic_exchange(&w->attn, 0);
	state = atomic_load_explicit(&w->state, memory_order_acquire);
	gen = atomic_load_explicit(&w->gen, memory_order_acquire);
	if (v != NULL && chan_is_open(&v->ch) &&
		(v->ch.gen != gen || state != WS_OPEN || link_slot_over(w, gen)))
	{
		cancel_call(v);
		chan_drop(&v->ch);
	}
	if (v != NULL && !chan_is_open(&v->ch))
	{
		retire(d, slot);
		v = NULL;
		/* dropping the call has closed the slot, so a new owner may have it by now: read state, then gen */
		state = atomic_load_explicit(&w->state, memory_order_acquire);
		gen = atomic_load_explicit(&w->gen, memory_order_acquire);
	}
	if (state != WS_OPEN)
		return;
	if (v == NULL)
	{
		v = accept_call(d, slot, gen);
		if (link_slot_over(w, gen))
			chan_drop(&v->ch);
	}
	if (!v->taken && chan_is_active(&v->ch))
		receive(v);
	chan_pump(&v->ch);
	if (!chan_is_open(&v->ch))
		retire(d, slot);
}

/* Poll all slots, rung or not: after a corrupt ring, and once a second. */
static void
sweep(RemoteServer *d, bool all)
{
	for (uint32_t i = 0; i < d->link.arena.geo.n_slots; i++)
		if (all || d->table[i] != NULL)
			poll_slot(d, i);
}

static bool
ring_empty(const RemoteServer *d)
{
	WireRing   *r = &d->link.hdr->to_engine;

	return atomic_load(&r->head) == atomic_load(&r->tail);
}

static void
serve_ring(RemoteServer *d)
{
	WireHeader *h = d->link.hdr;
	uint32_t	n_slots = d->link.arena.geo.n_slots;
	uint32_t	slot;
	bool		corrupt = atomic_load(&h->to_engine.head) - atomic_load(&h->to_engine.tail) > n_slots;

	for (uint32_t i = 0; i < n_slots && wire_pop(&d->link.arena, WQ_TO_ENGINE, &slot); i++)
		if (slot < n_slots)
			poll_slot(d, slot);
	if (corrupt)
	{
		log_line('W', "the request queue was corrupt; all slots were examined");
		sweep(d, true);
	}
}

/* ---- the supervisor ---- */

static void
control_line(void *ctx, char *line)
{
	RemoteServer *d = ctx;
	const char *assign = control_config(line);
	Err			e;

	if (strcmp(line, CONTROL_STOP) == 0)
		d->stop = true;
	else if (assign == NULL)
		log_line('W', "unknown line on the control socket");
	else if (!rsettings_assign(&d->set, assign, &e))
		log_line('W', "%s", e.msg);
	else
		dispatcher_settings(d->line, &d->set);
}

/* ---- statistics ---- */

/* -1 = unknown */
static int64_t
available_memory(void)
{
	uint64_t	n = sysmem_available("");

	return n > INT64_MAX ? -1 : (int64_t) n;
}

/* The arena still has the statistics of the previous process. */
static void
begin_stats(WireStats *s)
{
	statlock_take(s);
	memset((char *) s + sizeof(s->seq), 0, sizeof(*s) - sizeof(s->seq));
	s->started_us = clock_us();
	s->cpus = (int32_t) sysconf(_SC_NPROCESSORS_ONLN);
	s->cpus_usable = cpus_usable();
	cpus_name(s->cpu_name, sizeof(s->cpu_name));
	s->memory_total = (int64_t) sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
	statlock_release(s);
}

static void
look_at_memory(WireStats *s)
{
	int64_t		rss = sysmem_of_process((int) getpid());
	int64_t		available = available_memory();

	statlock_take(s);
	s->rss_bytes = rss;
	s->memory_available = available;
	statlock_release(s);
}

/* ---- the loop ---- */

static bool
receive_control(RemoteServer *d, int fd, Err *e)
{
	struct epoll_event ev = {.events = EPOLLIN,.data.fd = fd};

	if (epoll_ctl(d->epoll, EPOLL_CTL_ADD, fd, &ev) == 0)
		return true;
	return err_set(e, ERR_INTERNAL, "could not watch file descriptor %d: %s", fd, strerror(errno));
}

RemoteServer *
remote_server_new(const WireArena *arena, int control_fd, Http *h, RSettings *set, Err *e)
{
	RemoteServer *d = mem_zalloc(sizeof(RemoteServer));
	WireHeader *hdr = wire_header(arena);

	link_init(&d->link, arena, control_fd);
	d->in.fd = control_fd;
	d->http = h;
	d->set = *set;
	d->table = mem_zalloc(arena->geo.n_slots * sizeof(RemoteServerCall *));
	d->stats = wire_stats(&d->link.arena);
	atomic_store(&hdr->busy, 0);
	atomic_store(&hdr->engine_sleeping, 0);
	atomic_store(&hdr->heartbeat_us, clock_us());
	begin_stats(d->stats);
	look_at_memory(d->stats);
	d->line = dispatcher_new(h, &d->set, &sink);
	d->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (d->epoll < 0)
		err_set(e, ERR_INTERNAL, "could not make an epoll descriptor: %s", strerror(errno));
	else
		d->bell = doorbell_new(hdr, e);
	if (d->bell != NULL && receive_control(d, doorbell_fd(d->bell), e) && receive_control(d, control_fd, e) &&
		receive_control(d, http_fd(h), e))
		return d;
	remote_server_free(d);
	return NULL;
}

void
remote_server_free(RemoteServer *d)
{
	for (uint32_t i = 0; i < d->link.arena.geo.n_slots; i++)
		if (d->table[i] != NULL)
			retire(d, i);
	ASSERT(d->n_requests == 0 && d->lasts == NULL);
	dispatcher_free(d->line);
	doorbell_free(d->bell);
	if (d->epoll >= 0)
		close(d->epoll);
	rsettings_free(&d->set);
	mem_free(d->table);
	mem_free(d);
}

void
remote_server_ready(RemoteServer *d)
{
	link_send_line(&d->link, CONTROL_READY "\n");
}

/* Sleep until a backend rings, the supervisor writes, an endpoint responds, or a timer is due. */
static void
sleep_some(RemoteServer *d, int64_t most_us)
{
	struct epoll_event ev[3];
	int64_t		now = clock_us();
	int64_t		due = d->beat_us + BEAT_US;
	int64_t		us;
	int			n;
	bool		rang = false;

	if (due > d->http_due_us)
		due = d->http_due_us;
	if (due > d->dispatcher_due_us)
		due = d->dispatcher_due_us;
	us = due - now < most_us ? due - now : most_us;
	doorbell_sleep(d->bell);
	if (us < 0 || !ring_empty(d))
		us = 0;
	n = epoll_wait(d->epoll, ev, 3, (int) ((us + 999) / 1000));
	for (int i = 0; i < n; i++)
	{
		if (ev[i].data.fd == doorbell_fd(d->bell))
			rang = true;
		else if (ev[i].data.fd == d->in.fd)
			d->stop |= !control_read(&d->in, control_line, d);
		else
			d->http_due_us = 0;
	}
	doorbell_awake(d->bell, rang);
}

/* Return the time that is `us` from now, limited to BEAT_US, so that a wrong value can't stop the loop. */
static int64_t
due_in(int64_t us)
{
	return clock_us() + (us < 0 ? 0 : us > BEAT_US ? BEAT_US : us);
}

bool
remote_server_poll(RemoteServer *d, int64_t most_us)
{
	int64_t		now;

	sleep_some(d, most_us);
	now = clock_us();
	atomic_store_explicit(&d->link.hdr->heartbeat_us, now, memory_order_relaxed);
	atomic_fetch_add_explicit(&d->link.hdr->step_counter, 1, memory_order_relaxed);
	serve_ring(d);
	if (now - d->beat_us >= BEAT_US)
	{
		d->beat_us = now;
		sweep(d, false);
		look_at_memory(d->stats);
	}
	/* before responses are read, so that cancelled calls are closed and submitted ones are started */
	d->dispatcher_due_us = due_in(dispatcher_poll(d->line, now));
	if (now >= d->http_due_us)
	{
		d->http_due_us = due_in(http_poll(d->http));
		d->dispatcher_due_us = due_in(dispatcher_poll(d->line, clock_us()));
	}
	dispatcher_publish(d->line, d->stats);
	send_lasts(d);
	return !d->stop;
}
