/*
 * wire_peer.h
 *	  Both PostgreSQL ends of the wire in a few lines of C: an arena, an engine process, backends that
 *	  use it.  For tests of the engine.
 *
 * A Peer is the supervisor and all backends in one thread.  A Talk is one call; talk_pump() moves its
 * bytes without blocking, peer_wait() sleeps on the control socket as the supervisor does.
 */
#ifndef VLLM_TESTS_WIRE_PEER_H
#define VLLM_TESTS_WIRE_PEER_H

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/build_path.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/alloc.h"
#include "ipc/control_protocol.h"
#include "ipc/wire.h"

#include "check.h"

typedef struct Peer
{
	char		engine[1024];	/* path of vllm_pg_engine */
	int			memfd;
	WireArena	arena;
	WireHeader *h;				/* in the arena */
	int			ctl;
	int			log;			/* engine's stderr */
	pid_t		pid;
	char		line[CONTROL_LINE];
	size_t		have;
	bool		hello;
	bool		ready;
	int			wakes;			/* "w" lines read */
	Buf			text;			/* the engine's log so far */
	char	   *slot_used;
} Peer;

typedef struct Talk
{
	Peer	   *p;
	uint32_t	slot;
	uint32_t	gen;
	Buf			out;			/* request bytes */
	size_t		out_at;
	Buf			in;				/* reply bytes */
	size_t		in_at;
	uint32_t	in_base;		/* position of in's first byte */			/* frames returned */
	bool		open;
} Talk;

typedef struct Frame
{
	int			kind;
	bool		final;
	const char *data;
	size_t		len;
} Frame;

static inline void
peer_append(void *ctx, const void *data, size_t n)
{
	buf_add(ctx, data, n);
}

static inline WireOut
peer_out(Buf *b)
{
	return (WireOut) {.append = peer_append,.ctx = b};
}

/* build/X/tests/unit/FOLDER/test_Y -> build/X/vllm_pg_engine */
static inline void
peer_find_engine(Peer *p)
{
	if (!build_path(p->engine, sizeof(p->engine), "vllm_pg_engine"))
		abort();
}

static inline void
peer_arena(Peer *p, uint32_t n_slots, uint32_t ring_size, uint64_t max_request)
{
	WireGeometry *g = &p->arena.geo;

	wire_layout(g, n_slots, ring_size, max_request);
	p->memfd = memfd_create("arena", MFD_CLOEXEC);
	if (p->memfd < 0 || ftruncate(p->memfd, (off_t) g->total_size) != 0)
		abort();
	p->arena.base = mmap(NULL, g->total_size, PROT_READ | PROT_WRITE, MAP_SHARED, p->memfd, 0);
	if (p->arena.base == MAP_FAILED)
		abort();
	memcpy(p->arena.base, g, sizeof(*g));
	p->h = wire_header(&p->arena);
	p->slot_used = calloc(n_slots, 1);
}

/* args: NULL-terminated, after --arena-fd and --control-fd */
static inline void
peer_spawn(Peer *p, const char *const *args)
{
	int			sv[2];
	int			pipefd[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) != 0 || pipe2(pipefd, O_CLOEXEC) != 0)
		abort();
	p->hello = p->ready = false;
	p->have = 0;
	p->pid = fork();
	if (p->pid == 0)
	{
		const char *argv[32] = {p->engine, "--arena-fd", "4", "--control-fd", "3"};
		int			n = 5;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(sv[1], 100);
		dup2(p->memfd, 101);
		dup2(pipefd[1], 2);
		dup2(100, 3);
		dup2(101, 4);
		syscall(SYS_close_range, 5, ~0U, 0);
		while (*args != NULL && n < 31)
			argv[n++] = *args++;
		execv(p->engine, (char *const *) argv);
		_exit(127);
	}
	close(sv[1]);
	close(pipefd[1]);
	p->ctl = sv[0];
	p->log = pipefd[0];
	fcntl(p->log, F_SETFL, O_NONBLOCK);
	fcntl(p->ctl, F_SETFL, O_NONBLOCK);
}

/* Read the log, since a full pipe would block the engine. */
static inline void
peer_drain_log(Peer *p)
{
	char		buf[4096];
	ssize_t		n;

	while (p->log >= 0 && (n = read(p->log, buf, sizeof(buf))) > 0)
		buf_add(&p->text, buf, (size_t) n);
}

/* Read lines and clear wakes.  Returns false if the engine has closed the socket. */
static inline bool
peer_poll(Peer *p)
{
	uint32_t	slot;
	bool		alive = true;

	peer_drain_log(p);
	for (;;)
	{
		ssize_t		n = read(p->ctl, p->line + p->have, sizeof(p->line) - p->have);
		char	   *nl;

		if (n <= 0)
		{
			alive = n < 0;
			break;
		}
		p->have += (size_t) n;
		while ((nl = memchr(p->line, '\n', p->have)) != NULL)
		{
			size_t		used = (size_t) (nl - p->line) + 1;

			*nl = '\0';
			if (strncmp(p->line, CONTROL_HELLO " ", 6) == 0)
				p->hello = true;
			else if (strcmp(p->line, CONTROL_READY) == 0)
				p->ready = true;
			else if (strcmp(p->line, CONTROL_WAKE) == 0)
				p->wakes++;
			p->have -= used;
			memmove(p->line, p->line + used, p->have);
		}
	}
	while (wire_pop(&p->arena, WQ_TO_WORKER, &slot))
		atomic_exchange(&wire_slot(&p->arena, slot)->wake, 0);
	return alive;
}

/* Sleep until the engine writes something; false: it is gone. */
static inline bool
peer_wait(Peer *p, int timeout_ms)
{
	struct pollfd pfd = {.fd = p->ctl,.events = POLLIN};

	poll(&pfd, 1, timeout_ms);
	return peer_poll(p);
}

static inline bool
peer_wait_ready(Peer *p, int timeout_ms)
{
	int64_t		end = clock_us() + timeout_ms * INT64_C(1000);

	while (!p->ready && clock_us() < end)
		if (!peer_wait(p, 50))
			return false;
	return p->ready;
}

static inline void
peer_send(Peer *p, const char *line)
{
	if (send(p->ctl, line, strlen(line), MSG_NOSIGNAL) < 0)
		return;
}

/* Return the exit status within the timeout; -1: still running, 1000 + signal. */
static inline int
peer_exit_status(Peer *p, int timeout_ms)
{
	int64_t		end = clock_us() + timeout_ms * INT64_C(1000);
	int			st;

	do
	{
		if (waitpid(p->pid, &st, WNOHANG) == p->pid)
		{
			p->pid = 0;
			return WIFEXITED(st) ? WEXITSTATUS(st) : 1000 + WTERMSIG(st);
		}
		usleep(1000);
	} while (clock_us() < end);
	return -1;
}

static inline void
peer_kill(Peer *p)
{
	int			st;

	if (p->pid > 0)
	{
		kill(p->pid, SIGKILL);
		waitpid(p->pid, &st, 0);
		p->pid = 0;
	}
	peer_drain_log(p);
	if (p->ctl >= 0)
		close(p->ctl);
	if (p->log >= 0)
		close(p->log);
	p->ctl = p->log = -1;
}

/* Has a sanitizer reported an error (in a sanitized build)?  If so, print the log. */
static inline bool
peer_complaints(Peer *p)
{
	peer_drain_log(p);
	if (p->text.len == 0 ||
		(strstr(p->text.data, "Sanitizer") == NULL && strstr(p->text.data, "runtime error") == NULL))
		return false;
	fprintf(stderr, "%s\n", p->text.data);
	return true;
}

static inline void
peer_free(Peer *p)
{
	peer_kill(p);
	buf_free(&p->text);
	munmap(p->arena.base, p->arena.geo.total_size);
	close(p->memfd);
	free(p->slot_used);
	p->slot_used = NULL;
}

/* Wait for something that other threads or processes do. */
#define EVENTUALLY(cond) \
	for (int eventually_ = 0; eventually_ < 3000 && !(cond); eventually_++) \
		usleep(1000)

/*
 * Start an engine (the program's first argument, else the one in the build folder) with such arguments
 * and an arena of its own, and wait until it is ready.
 */
static inline bool
peer_start(Peer *p, int argc, char **argv, const char *const *args, uint32_t n_slots, uint32_t ring_size,
		   uint64_t max_request)
{
	bool		ready;

	signal(SIGPIPE, SIG_IGN);
	if (argc > 1)
		snprintf(p->engine, sizeof(p->engine), "%s", argv[1]);
	else
		peer_find_engine(p);
	peer_arena(p, n_slots, ring_size, max_request);
	peer_spawn(p, args);
	ready = peer_wait_ready(p, 20000);
	CHECK(ready, "engine is ready");
	return ready;
}

/* Stop the engine; its status must be 0. */
static inline void
peer_end(Peer *p)
{
	peer_send(p, CONTROL_STOP "\n");
	CHECK(peer_exit_status(p, 10000) == 0, "stops");
	CHECK(!peer_complaints(p), "no sanitizer complaints");
	if (check_failed > 0 && p->text.len > 0)
		fprintf(stderr, "%s", p->text.data);
	peer_free(p);
}

/* Is the engine a sanitized build (whose memory use means little)? */
static inline bool
peer_sanitized(const Peer *p)
{
	char		path[64];
	char		line[512];
	bool		r = false;
	FILE	   *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int) p->pid);
	f = fopen(path, "r");
	while (f != NULL && !r && fgets(line, sizeof(line), f) != NULL)
		r = strstr(line, "libasan") != NULL || strstr(line, "libtsan") != NULL;
	if (f != NULL)
		fclose(f);
	return r;
}

/* Return the CPU time of a process so far. */
static inline double
cpu_seconds(pid_t pid)
{
	char		path[64];
	unsigned long u = 0,
				s = 0;
	FILE	   *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
	f = fopen(path, "r");
	if (f == NULL || fscanf(f, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &u,
							&s) != 2)
		u = s = 0;
	if (f != NULL)
		fclose(f);
	return (double) (u + s) / (double) sysconf(_SC_CLK_TCK);
}

/* ---- calls ---- */

static inline void
talk_ring(Talk *t)
{
	WireHeader *h = t->p->h;

	if (atomic_exchange(&wire_slot(&t->p->arena, t->slot)->attn, 1) == 0)
		wire_push(&t->p->arena, WQ_TO_ENGINE, t->slot);
	atomic_fetch_add(&h->doorbell, 1);
	if (atomic_load(&h->engine_sleeping))
		syscall(SYS_futex, &h->doorbell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static inline uint32_t
talk_state(const Talk *t)
{
	return atomic_load(&wire_slot(&t->p->arena, t->slot)->state);
}

/* Is nothing more to be written?  CLOSED alone may be seen before the last bytes (wire.h). */
static inline bool
talk_over(const Talk *t)
{
	uint32_t	state = talk_state(t);

	return state != WS_OPEN &&
		(state != WS_CLOSED || atomic_load(&wire_slot(&t->p->arena, t->slot)->let_go) == t->gen);
}

/* Move bytes both ways; true if any were moved. */
static inline bool
talk_pump(Talk *t)
{
	WireSlot   *s = wire_slot(&t->p->arena, t->slot);
	uint32_t	size = t->p->arena.geo.ring_size;
	uint32_t	head = atomic_load(&s->req_head);
	uint32_t	tail = atomic_load(&s->rep_tail);
	bool		rang = false;
	bool		moved = false;
	char		buf[16384];
	int			n;

	if (!t->open)
		return false;
	n = wire_ring_write(wire_req_ring(&t->p->arena, t->slot), size, head, atomic_load(&s->req_tail),
						t->out.data + t->out_at, t->out.len - t->out_at);
	if (n > 0)
	{
		t->out_at += (size_t) n;
		atomic_store(&s->req_head, head + (uint32_t) n);
		moved = rang = true;
	}
	while ((n = wire_ring_read(wire_rep_ring(&t->p->arena, t->slot), size, atomic_load(&s->rep_head), tail,
							   buf, sizeof(buf))) > 0)
	{
		buf_add(&t->in, buf, (size_t) n);
		tail += (uint32_t) n;
		atomic_store(&s->rep_tail, tail);
		moved = rang = true;
	}
	if (rang && talk_state(t) == WS_OPEN)
		talk_ring(t);
	return moved;
}

/* Return the slot of the next call, and its generation. */
static inline uint32_t
talk_next_slot(const Peer *p)
{
	uint32_t	i = 0;

	while (i < p->arena.geo.n_slots && p->slot_used[i])
		i++;
	if (i == p->arena.geo.n_slots)
		abort();
	return i;
}

static inline uint32_t
talk_next_gen(const Peer *p)
{
	return atomic_load(&wire_slot(&p->arena, talk_next_slot(p))->gen) + 1;
}

/* Claim a free slot and start with these bytes; a complete head with generation 0 gets the call's. */
static inline Talk *
talk_begin_raw(Peer *p, const void *msg, size_t n)
{
	Talk	   *t = calloc(1, sizeof(Talk));
	uint32_t	i = talk_next_slot(p);
	WireSlot   *s;
	WireMsg		m;

	p->slot_used[i] = 1;
	t->p = p;
	t->slot = i;
	t->open = true;
	s = wire_slot(&p->arena, i);
	t->gen = atomic_load(&s->gen) + 1;
	atomic_store(&s->cancel, 0);
	atomic_store(&s->req_head, 0);
	atomic_store(&s->req_tail, 0);
	atomic_store(&s->rep_head, 0);
	atomic_store(&s->rep_tail, 0);
	atomic_store(&s->phase, WP_NONE);
	atomic_store(&s->output_tokens, 0);
	atomic_store(&s->gen, t->gen);
	atomic_store(&s->state, WS_OPEN);
	buf_add(&t->out, msg, n);
	if (n >= sizeof(m))
	{
		memcpy(&m, msg, sizeof(m));
		if (m.gen == 0)
			m.gen = t->gen;
		memcpy(t->out.data, &m, sizeof(m));
	}
	talk_pump(t);
	return t;
}

static inline Talk *
talk_begin(Peer *p, WireKind kind, const Buf *body)
{
	WireMsg		m = {.magic = WIRE_MSG_MAGIC,.kind = (uint16_t) kind,.len = body->len};
	Buf			b = {0};
	Talk	   *t;

	buf_add(&b, &m, sizeof(m));
	buf_add(&b, body->data, body->len);
	t = talk_begin_raw(p, b.data, b.len);
	buf_free(&b);
	return t;
}

/* Send a command in a control message. */
static inline Talk *
talk_command(Peer *p, const char *command)
{
	Buf			b = {0};
	WireOut		o = peer_out(&b);
	Talk	   *t;

	wire_put_str(&o, WTAG_COMMAND, command, strlen(command));
	t = talk_begin(p, WK_CONTROL, &b);
	buf_free(&b);
	return t;
}

static inline void
talk_cancel(Talk *t)
{
	atomic_store(&wire_slot(&t->p->arena, t->slot)->cancel, 1);
	talk_ring(t);
}

/* Return the next complete frame. */
static inline bool
talk_frame(Talk *t, Frame *f)
{
	WireMsg		m;

	if (t->in.len - t->in_at < sizeof(m))
		return false;
	memcpy(&m, t->in.data + t->in_at, sizeof(m));
	if (t->in.len - t->in_at - sizeof(m) < m.len)
		return false;
	f->kind = m.kind;
	f->final = (m.flags & WIRE_FINAL) != 0;
	f->data = t->in.data + t->in_at + sizeof(m);
	f->len = wire_intact(&m, f->data) && wire_in_place(&m, t->gen, t->in_base + (uint32_t) t->in_at) ?
		wire_fields_len(&m) : 0;
	t->in_at += sizeof(m) + m.len;
	return true;
}

/* Wait for the next frame; false: timeout, engine gone, or closed without one. */
static inline bool
talk_wait(Talk *t, Frame *f, int timeout_ms)
{
	int64_t		end = clock_us() + timeout_ms * INT64_C(1000);
	bool		alive = true;

	for (;;)
	{
		bool		closed = talk_over(t);

		while (talk_pump(t))
			;
		if (talk_frame(t, f))
			return true;
		if (closed || !alive || clock_us() > end)
			return false;
		alive = peer_wait(t->p, 100);
	}
}

/* Read frames up to the final one. */
static inline bool
talk_final(Talk *t, Frame *f, int timeout_ms)
{
	do
		if (!talk_wait(t, f, timeout_ms))
			return false;
	while (!f->final);
	return true;
}

static inline bool
talk_wait_closed(Talk *t, int timeout_ms)
{
	int64_t		end = clock_us() + timeout_ms * INT64_C(1000);

	while (!talk_over(t) && clock_us() < end)
		peer_wait(t->p, 10);
	return talk_over(t);
}

/* Free the slot; the engine must have released it. */
static inline void
talk_free(Talk *t)
{
	atomic_store(&wire_slot(&t->p->arena, t->slot)->state, WS_FREE);
	t->p->slot_used[t->slot] = 0;
	buf_free(&t->out);
	buf_free(&t->in);
	free(t);
}

/* ---- fields ---- */

static inline bool
frame_field(const Frame *f, int tag, WireField *out)
{
	WireIn		in = {.p = f->data,.end = f->data + f->len};

	while (wire_next(&in, out) > 0)
		if (out->tag == tag)
			return true;
	return false;
}

static inline int64_t
frame_int(const Frame *f, int tag)
{
	WireField	v;

	return frame_field(f, tag, &v) ? v.i : -1;
}

/* Return the text of a field, NUL-terminated; "" if absent.  The static buffers are reused in turn. */
static inline const char *
frame_str(const Frame *f, int tag)
{
	static char bufs[4][1024];
	static int	round;
	char	   *b = bufs[round++ % 4];
	WireField	v;
	size_t		n = 0;

	if (frame_field(f, tag, &v))
	{
		n = v.n < 1023 ? v.n : 1023;
		memcpy(b, v.s, n);
	}
	b[n] = '\0';
	return b;
}

#endif
