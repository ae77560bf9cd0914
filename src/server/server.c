/*
 * server.c
 *	  The server thread: from doorbells to server calls, and control commands.
 *
 * The loop blocks only in server_wait(), and works at most as long as the copy of a ring takes.  Longer
 * work is a job (worker_pool.h), or is done by the step thread (step_loop.h).
 *
 * Sleeping: the thread reads doorbell, sets engine_sleeping to 1 (seq_cst), checks the ring and the
 * mailbox once more, then calls FUTEX_WAIT with the value read.  Partners: the backend (and
 * link_ring_doorbell()) pushes, adds 1 to doorbell, and reads engine_sleeping.
 *
 * A call is freed when it is closed and neither a job nor the backend uses it.  Until then it stays in
 * table[] or, once its slot has a new call, in closed_pending.
 *
 * Tested by tests/unit/server/test_server.c.
 */
#include "server/server.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/alloc.h"
#include "server/api/api_call.h"
#include "server/models/lora_cache.h"
#include "server/models/pinned_list.h"
#include "server/request/request.h"
#include "core/trace.h"
#include "ipc_server/control_socket.h"

/* submitted requests for which the step thread is woken once */
#define GRAMMAR_BYTES	((size_t) 512 << 20)	/* cached compiled grammars */
#define SUBMIT_MANY		32

/* ---- server calls ---- */

bool
server_try_free(ServerCall *c)
{
	/* acquire partner: flush() in step_loop.c */
	if (scall_is_open(c) || c->job_busy || atomic_load_explicit(&c->in_core, memory_order_acquire))
		return false;
	if (c->api != NULL && !api_free(c->api))
		return false;
	request_free(c->req);
	if (c->lora != NULL)
		lora_unref(c->lora);
	update_release(c);
	if (c->entry != NULL)
		entry_unref(c->entry);
	scall_free(c);
	return true;
}

/*
 * Remove a closed call from its slot.  If the step thread has closed it, because the slot's words were
 * corrupt, its request still runs and is cancelled.
 */
static void
retire(Server *s, uint32_t slot)
{
	ServerCall *c = s->table[slot];

	ALWAYS(slot < s->link.arena.geo.n_slots && c != NULL && !scall_is_open(c) && c->ch.slot == slot);
	if (chan_was_dropped(&c->ch))
		request_cancel(c);
	s->table[slot] = NULL;
	if (!server_try_free(c))
	{
		c->next = s->closed_pending;
		s->closed_pending = c;
	}
}

static void
sweep_closed(Server *s)
{
	ServerCall **pp = &s->closed_pending;

	while (*pp != NULL)
	{
		ServerCall *c = *pp;
		ServerCall *next = c->next;

		if (server_try_free(c))
			*pp = next;
		else
			pp = &c->next;
	}
}

void
server_each(Server *s, void (*fn) (ServerCall *c, void *arg), void *arg)
{
	for (uint32_t i = 0; i < s->link.arena.geo.n_slots; i++)
		if (s->table[i] != NULL)
		{
			fn(s->table[i], arg);
			if (s->table[i]->api != NULL)
				api_each(s->table[i]->api, fn, arg);
		}
}

typedef struct Collection
{
	bool		(*wanted) (ServerCall *c);
	ServerCall **c;
	size_t		n;
	size_t		cap;
} Collection;

static void
collect(ServerCall *c, void *arg)
{
	Collection *all = arg;

	if (!scall_is_active(c) || !all->wanted(c))
		return;
	if (all->n == all->cap)
	{
		all->cap = all->cap == 0 ? 64 : all->cap * 2;
		all->c = mem_realloc(all->c, all->cap * sizeof(ServerCall *));
	}
	all->c[all->n++] = c;
}

static int
by_arrival(const void *a, const void *b)
{
	uint64_t	x = (*(ServerCall *const *) a)->id;
	uint64_t	y = (*(ServerCall *const *) b)->id;

	return x < y ? -1 : x > y;
}

ServerCall **
server_calls_by_arrival(Server *s, bool (*wanted) (ServerCall *c), size_t *n)
{
	Collection	all = {.wanted = wanted};

	server_each(s, collect, &all);
	if (all.n > 0)
		qsort(all.c, all.n, sizeof(ServerCall *), by_arrival);
	*n = all.n;
	return all.c;
}

static void
receive(ServerCall *c)
{
	Err			e;

	switch (chan_receive(&c->ch, &e))
	{
		case CHAN_MORE:
			break;
		case CHAN_COMPLETE:
			c->stage = SCALL_BUSY;
			request_start(c);
			break;
		case CHAN_BAD:
			scall_end_error(c, &e);
			break;
	}
}

/* A backend has rung for this slot. */
static void
poll_slot(Server *s, uint32_t slot)
{
	WireSlot   *w = link_slot(&s->link, slot);
	uint32_t	state;
	uint32_t	gen;
	ServerCall *c;

	/* Cleared before the slot is read.  Partner: the backend's exchange in its ring-for-attention. */
	atomic_exchange(&w->attn, 0);
	state = atomic_load_explicit(&w->state, memory_order_acquire);
	gen = atomic_load_explicit(&w->gen, memory_order_acquire);
	c = s->table[slot];
	if (c != NULL && scall_is_open(c) &&
		(c->ch.gen != gen || state != WS_OPEN || link_slot_over(w, gen)))
	{
		/*
		 * retire() cancels a running request after the call is closed: its last event must not find the
		 * call open, and report that the model is gone
		 */
		if (c->stage != SCALL_RUNNING)
			request_cancel(c);
		scall_drop(c);
	}
	if (c != NULL && !scall_is_open(c))
	{
		retire(s, slot);
		c = NULL;
		/* dropping the call has closed the slot, so a new owner may have it by now: read state, then gen */
		state = atomic_load_explicit(&w->state, memory_order_acquire);
		gen = atomic_load_explicit(&w->gen, memory_order_acquire);
	}
	if (state != WS_OPEN)
		return;
	if (c == NULL)
	{
		c = s->table[slot] = scall_new(&s->link, slot, gen, s->next_id++);
		c->srv = s;
		if (link_slot_over(w, gen))
			scall_drop(c);
	}
	if (c->stage == SCALL_RECEIVING && scall_is_active(c))
		receive(c);
	scall_pump(c);
	if (!scall_is_open(c))
		retire(s, slot);
}

/* ---- waking the step thread ---- */

static void
wake_step(Server *s)
{
	if (s->wakes_pending == 0)
		return;
	s->wakes_pending = 0;
	step_wake(s->step);
}

void
server_submitted(Server *s)
{
	if (++s->wakes_pending >= SUBMIT_MANY)
		wake_step(s);
}

/* ---- control commands ---- */

static void
answer_text(ServerCall *c, const char *text, size_t n)
{
	Buf			b = {0};
	WireOut		o = chan_out(&b);

	wire_put_str(&o, WTAG_TEXT, text, n);
	scall_end(c, WF_DONE, &b);
	buf_free(&b);
}

void
server_answer(ServerCall *c, const char *text)
{
	answer_text(c, text, strlen(text));
}

typedef struct StepJob
{
	Job			j;
	ServerCall *c;
	Step	   *step;
	Err			e;				/* cls ERR_NONE = ok */
	int			ms;
} StepJob;

static void
integrity_run(Job *j)
{
	StepJob    *t = (StepJob *) j;

	if (!step_check(t->step, &t->e))
		return;
	/*
	 * Other threads count a request as inflight shortly before it is live, and no longer as live shortly
	 * before it is no longer inflight: a matter of microseconds.  No step runs meanwhile, so nothing
	 * else changes; the loop runs for all of the 100 ms only if something is broken.
	 */
	for (int i = 0; i < 50; i++)
	{
		int64_t		live = step_live(t->step);
		int64_t		inflight = atomic_load(step_inflight(t->step));

		if (live == inflight)
			return;
		if (i == 49)
			err_set(&t->e, ERR_INTERNAL, "%lld requests are in flight, but the cores have %lld",
					(long long) inflight, (long long) live);
		usleep(2000);
	}
}

static void
sleep_run(Job *j)
{
	StepJob    *t = (StepJob *) j;

	step_sleep(t->step, t->ms);
}

static void
reset_prefix_cache_run(Job *j)
{
	step_reset_prefix_cache(((StepJob *) j)->step);
}

static void
step_job_done(Job *j)
{
	StepJob    *t = (StepJob *) j;

	ASSERT(t->c->job_busy);
	t->c->job_busy = false;
	if (t->e.cls == ERR_NONE)
		answer_text(t->c, "ok", 2);
	else
		answer_text(t->c, t->e.msg, strlen(t->e.msg));
	mem_free(t);
}

static void
step_job(Server *s, ServerCall *c, void (*run) (Job *), int ms, const Err *e)
{
	StepJob    *t = mem_zalloc(sizeof(StepJob));

	t->j.run = run;
	t->j.done = step_job_done;
	t->c = c;
	t->step = s->step;
	t->ms = ms;
	if (e != NULL)
		t->e = *e;
	c->job_busy = true;
	step_run(s->step, &t->j);
}

typedef struct Leaks
{
	Server	   *s;
	int			stale;
} Leaks;

static void
count_stale(ServerCall *c, void *arg)
{
	Leaks	   *l = arg;
	WireSlot   *w;

	if (c->emit != NULL)
		return;					/* the outer API call has the slot */
	w = link_slot(&l->s->link, c->ch.slot);
	if (scall_is_open(c) && (atomic_load(&w->gen) != c->ch.gen || atomic_load(&w->state) != WS_OPEN))
		l->stale++;
}

static void
integrity(Server *s, ServerCall *c)
{
	Leaks		l = {s, 0};
	Err			e = {0};

	server_each(s, count_stale, &l);
	if (l.stale > 0)
	{
		err_set(&e, ERR_INTERNAL, "%d conversations outlive their slots", l.stale);
		answer_text(c, e.msg, strlen(e.msg));
		return;
	}
	step_job(s, c, integrity_run, 0, NULL);
}

/* Writes a profile that has ended.  It may become tens of megabytes of JSON, so it is a job. */
typedef struct ProfileJob
{
	Job			j;
	ServerCall *c;
	TraceRecording *rec;
	Buf			frame;			/* its fields */
} ProfileJob;

static void
profile_run(Job *j)
{
	ProfileJob *t = (ProfileJob *) j;
	WireOut		o = chan_out(&t->frame);
	Buf			json = {0};

	trace_write(t->rec, &json);
	wire_put_str(&o, WTAG_TEXT, json.data, json.len);
	buf_free(&json);
	trace_free(t->rec);
}

static void
profile_done(Job *j)
{
	ProfileJob *t = (ProfileJob *) j;

	t->c->job_busy = false;
	scall_end(t->c, WF_DONE, &t->frame);
	buf_free(&t->frame);
	mem_free(t);
}

static bool
profile_stop(Server *s, ServerCall *c, Err *e)
{
	TraceRecording *rec = trace_stop(e);
	ProfileJob *t;

	if (rec == NULL)
		return false;
	t = mem_zalloc(sizeof(*t));
	t->j.run = profile_run;
	t->j.done = profile_done;
	t->c = c;
	t->rec = rec;
	c->job_busy = true;
	jobs_submit(s->jobs, JQ_CHECK, &t->j);
	return true;
}

/* Run "start <steps to skip> <maximal steps>" or "stop". */
static bool
profile_command(Server *s, ServerCall *c, const char *command, Err *e)
{
	int			delay = 0;
	int			max = 0;

	if (strcmp(command, "stop") == 0)
		return profile_stop(s, c, e);
	if (sscanf(command, "start %d %d", &delay, &max) != 2 || delay < 0 || max < 0)
		return err_set(e, ERR_INVALID, "unknown control command \"profile-%.40s\"", command);
	if (!trace_start(delay, max, e))
		return false;
	answer_text(c, "ok", 2);
	return true;
}

void
server_control(Server *s, ServerCall *c, const char *command)
{
	Buf			b = {0};
	Err			e;

	if (strcmp(command, "integrity") == 0)
	{
		integrity(s, c);
		return;
	}
	if (sleep_command(s->models, c, command) || update_command(s->models, c, command))
		return;
	if (pinlist_command(s, c, command))
		return;
	if (strncmp(command, "profile-", 8) == 0)
	{
		if (!profile_command(s, c, command + 8, &e))
			scall_end_error(c, &e);
		return;
	}
	if (strcmp(command, "reset-prefix-cache") == 0)
	{
		step_job(s, c, reset_prefix_cache_run, 0, NULL);
		return;
	}
	if (strncmp(command, "sleep-step ", 11) == 0)
	{
		step_job(s, c, sleep_run, atoi(command + 11), NULL);
		return;
	}
	if (strcmp(command, "reset-stats") == 0)
	{
		stats_reset(s->stats);
		buf_addstr(&b, "ok");
	}
	else if (strcmp(command, "fds") == 0)
		buf_printf(&b, "%d", control_count_fds());
	else if (strcmp(command, "rss") == 0)
		buf_printf(&b, "%lld", (long long) stats_rss());
	else if (strcmp(command, "ping") == 0)
		buf_addstr(&b, "pong");
	else if (s->be->hooks == NULL || !s->be->hooks->control(command, &b))
	{
		err_set(&e, ERR_INVALID, "unknown control command \"%.64s\"", command);
		scall_end_error(c, &e);
		return;
	}
	answer_text(c, b.data != NULL ? b.data : "", b.len);
	buf_free(&b);
}

/* ---- the loop ---- */

static bool
ring_empty(Server *s)
{
	WireRing   *r = &s->link.hdr->to_engine;

	return atomic_load(&r->head) == atomic_load(&r->tail);
}

static void
server_wait(Server *s)
{
	WireHeader *h = s->link.hdr;
	struct timespec ts = {.tv_sec = 1};
	uint32_t	bell = atomic_load(&h->doorbell);

	if (s->soon)
		ts = (struct timespec)
		{
			.tv_nsec = 2000000
		};
	else if (s->closed_pending != NULL)
		ts = (struct timespec)
		{
			.tv_nsec = 50000000
		};
	atomic_store(&h->engine_sleeping, 1);
	if (ring_empty(s) && !jobs_mail(s->jobs))
		syscall(SYS_futex, &h->doorbell, FUTEX_WAIT, bell, &ts, NULL, 0);
	atomic_store(&h->engine_sleeping, 0);
}

/* Poll all slots, rung or not: after a corrupt ring, and once a second. */
static void
sweep(Server *s, bool all)
{
	for (uint32_t i = 0; i < s->link.arena.geo.n_slots; i++)
		if (all || s->table[i] != NULL)
			poll_slot(s, i);
}

static bool
serve_ring(Server *s)
{
	WireHeader *h = s->link.hdr;
	uint32_t	n_slots = s->link.arena.geo.n_slots;
	uint32_t	slot;
	bool		corrupt = atomic_load(&h->to_engine.head) - atomic_load(&h->to_engine.tail) > n_slots;
	bool		any = corrupt;

	for (uint32_t i = 0; i < n_slots; i++)
	{
		if (!wire_pop(&s->link.arena, WQ_TO_ENGINE, &slot))
			break;
		any = true;
		if (slot < n_slots)
			poll_slot(s, slot);
	}
	if (corrupt)
	{
		log_line('W', "the request queue was corrupt; all slots were examined");
		sweep(s, true);
	}
	return any;
}

static void
notify(void *ctx)
{
	link_ring_doorbell(ctx);
}

Server *
server_new(const WireArena *arena, int control_fd, const Backend *be, SettingsBox *box, const char *isa)
{
	Server	   *s = mem_zalloc(sizeof(Server));
	WireHeader *h = wire_header(arena);
	Settings	set;

	settings_get(box, &set);
	link_init(&s->link, arena, control_fd);
	s->be = be;
	s->box = box;
	s->next_id = 1;
	s->table = mem_zalloc(s->link.arena.geo.n_slots * sizeof(ServerCall *));
	atomic_store(&h->busy, 0);
	atomic_store(&h->engine_sleeping, 0);
	atomic_store(&h->heartbeat_us, clock_us());
	s->stats = stats_new(wire_stats(&s->link.arena), be, isa, settings_threads(&set));
	s->jobs = jobs_new(notify, &s->link);
	s->step = step_new(&s->link, be, box, s->stats, s->jobs);
	s->grammars = grammar_cache_new(GRAMMAR_BYTES);
	s->models = models_new(s);
	stats_publish(s->stats);
	return s;
}

void
server_run(Server *s)
{
	int64_t		swept = clock_us();

	for (;;)
	{
		int64_t		now = clock_us();
		bool		any;

		atomic_store_explicit(&s->link.hdr->heartbeat_us, now, memory_order_relaxed);
		/* requests that have ended must not keep a model in use when the next load looks for memory */
		if (s->closed_pending != NULL)
			sweep_closed(s);
		any = serve_ring(s);
		any |= jobs_drain(s->jobs);
		wake_step(s);
		models_progress(s->models);
		s->soon = models_attend_loras(s->models);
		s->soon |= sleep_poll(s->models);
		/* before new loads, which may be of models that were unloaded for an update */
		s->soon |= update_poll(s->models);
		s->soon |= memory_limit_poll(s->models);
		s->soon |= place_poll(s->models);
		memory_limit_tick(s->models);
		if (s->closed_pending != NULL)
			sweep_closed(s);
		if (now - swept > 1000000)
		{
			swept = now;
			sweep(s, false);
		}
		if (!any)
			server_wait(s);
	}
}
