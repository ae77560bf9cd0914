/*
 * test_remote_server.c
 *	  The remote program's server (remote_server.c, doorbell_fd.c, remote_settings.c) between backends
 *	  and a fake dispatcher: complete calls, cancelling, corrupt and taken over slots, the doorbell, the
 *	  control socket.
 *
 * This file defines the functions of dispatcher.h and http_client.h that the server calls, so the
 * library's are not linked.
 */
#include <pthread.h>
#include <sys/eventfd.h>

#include "remote/remote_server.h"
#include "remote/dispatcher.h"

#include "tests/unit/wire_peer.h"

#define RING 4096
#define LONGEST ((uint64_t) 4 << 20)
#define ENOUGH 20000			/* maximal unread bytes of the dispatcher's clients */

/* ---- a dispatcher that obeys its prompts ---- */

struct PendingRequest
{
	void	   *owner;
	char	   *fields;
	char		verb[32];
	int			n;
	int			sent;
	int64_t		deadline_us;
	int			timeout_ms;
	PendingRequest *next;
};

struct Dispatcher
{
	const LineSink *sink;
	const RSettings *set;
	PendingRequest *requests;
};

static struct
{
	int			taken, cancelled, settings, turns, http_polls;
	int			untimely;		/* polls at another time than requested */
	int			ended;			/* final frames emitted */
	size_t		most_backlog;
	int64_t		cancel_us, deadline_us;
	int			timeout_ms;
	const char *integrity;
	bool		in_sink;
	bool		cancelled_in_sink;
	int			freed;
} seen;

static _Atomic int busy_us;		/* time of one poll of the dispatcher */
static int	http_event = -1;
static Dispatcher *the_line;

int
http_fd(const Http *h)
{
	(void) h;
	return http_event;
}

int64_t
http_poll(Http *h)
{
	uint64_t	n;

	(void) h;
	seen.http_polls++;
	return read(http_event, &n, sizeof(n)) > 0 ? 0 : INT64_MAX;
}

Dispatcher *
dispatcher_new(Http *h, const RSettings *set, const LineSink *sink)
{
	(void) h;
	the_line = mem_zalloc(sizeof(Dispatcher));
	the_line->sink = sink;
	the_line->set = set;
	return the_line;
}

void
dispatcher_free(Dispatcher *l)
{
	seen.freed++;
	CHECK(l->requests == NULL, "no request is left in a line that goes");
	mem_free(l);
}

void
dispatcher_settings(Dispatcher *l, const RSettings *set)
{
	l->set = set;
	seen.settings++;
}

static void
unlink_request(Dispatcher *l, PendingRequest *a)
{
	PendingRequest **pp = &l->requests;

	while (*pp != a)
		pp = &(*pp)->next;
	*pp = a->next;
	mem_free(a->fields);
	mem_free(a);
}

static void
emit(Dispatcher *l, void *owner, WireFrame kind, size_t n, char with, bool final)
{
	Buf			text = {0};
	Buf			b = {0};
	WireOut		o = peer_out(&b);

	for (size_t i = 0; i < n; i++)
		buf_addc(&text, with);
	if (kind == WF_ACCEPTED)
		wire_put_int(&o, WTAG_PROMPT_TOKENS, 3);
	else
		wire_put_str(&o, WTAG_TEXT, n > 0 ? text.data : "", n);
	seen.ended += final;
	seen.in_sink = true;
	l->sink->frame(owner, kind, &b, final);
	seen.in_sink = false;
	buf_free(&text);
	buf_free(&b);
}

PendingRequest *
dispatcher_submit(Dispatcher *l, WireKind kind, char *fields, size_t len, int64_t deadline_us,
				  int timeout_ms, void *owner)
{
	WireIn		in = {.p = fields,.end = fields + len};
	WireField	f;
	char		prompt[64] = "";
	PendingRequest *a = mem_zalloc(sizeof(PendingRequest));

	CHECK(kind == WK_GENERATE, "what it was sent as");
	while (len > 0 && wire_next(&in, &f) > 0)
		if (f.tag == WTAG_PROMPT)
			snprintf(prompt, sizeof(prompt), "%.*s", f.n < 60 ? (int) f.n : 60, f.s);
	seen.taken++;
	seen.deadline_us = deadline_us;
	seen.timeout_ms = timeout_ms;
	a->owner = owner;
	a->fields = fields;
	sscanf(prompt, "%31s %d", a->verb, &a->n);
	if (strcmp(a->verb, "now") == 0)
	{
		emit(l, owner, WF_DONE, (size_t) a->n, 'n', true);
		mem_free(fields);
		mem_free(a);
		return NULL;
	}
	if (strcmp(a->verb, "lose") == 0)
	{
		mem_free(fields);
		mem_free(a);
		return NULL;
	}
	if (strcmp(a->verb, "early") == 0)
		emit(l, owner, WF_TEXT, (size_t) a->n, 'e', false);
	a->next = l->requests;
	l->requests = a;
	return a;
}

void
dispatcher_cancel(Dispatcher *l, PendingRequest *a)
{
	seen.cancelled++;
	seen.cancel_us = clock_us();
	seen.cancelled_in_sink |= seen.in_sink;
	unlink_request(l, a);
}

static bool
is_there(const Dispatcher *l, const PendingRequest *a)
{
	const PendingRequest *x = l->requests;

	while (x != NULL && x != a)
		x = x->next;
	return x != NULL;
}

/* "stream N": N frames of 1,000 bytes, as fast as the client reads them. */
static bool
step_stream(Dispatcher *l, PendingRequest *a)
{
	size_t		queued = l->sink->backlog(a->owner);

	if (queued > seen.most_backlog)
		seen.most_backlog = queued;
	if (queued > ENOUGH)
		return false;
	if (a->sent == 0)
		emit(l, a->owner, WF_ACCEPTED, 0, 0, false);
	emit(l, a->owner, WF_TEXT, 1000, (char) ('a' + a->sent % 26), false);
	if (!is_there(l, a))
		return true;
	a->sent++;
	l->sink->live(a->owner, WP_RUNNING, 3, a->sent);
	if (a->sent < a->n)
		return true;
	emit(l, a->owner, WF_DONE, 0, 0, true);
	unlink_request(l, a);
	return true;
}

int64_t
dispatcher_poll(Dispatcher *l, int64_t now_us)
{
	bool		any = false;

	seen.turns++;
	for (int64_t end = clock_us() + atomic_load(&busy_us); clock_us() < end;)
		;
	seen.untimely += now_us < clock_us() - 1000000 || now_us > clock_us();
	for (PendingRequest *a = l->requests, *next; a != NULL; a = next)
	{
		next = a->next;
		if (strcmp(a->verb, "later") == 0)
		{
			emit(l, a->owner, WF_ACCEPTED, 0, 0, false);
			emit(l, a->owner, WF_DONE, (size_t) a->n, 'l', true);
			unlink_request(l, a);
			any = true;
		}
		else if (strcmp(a->verb, "stream") == 0)
		{
			any |= step_stream(l, a);
			/* the list may have changed */
			break;
		}
	}
	return any ? 0 : INT64_MAX;
}

bool
dispatcher_command(Dispatcher *l, const char *command, Buf *answer)
{
	(void) l;
	if (strcmp(command, "integrity") == 0)
		buf_addstr(answer, seen.integrity != NULL ? seen.integrity : "ok");
	else if (strcmp(command, "reset-stats") == 0)
		buf_addstr(answer, "line reset");
	else
		return false;
	return true;
}

int
dispatcher_live(const Dispatcher *l)
{
	int			n = 0;

	for (const PendingRequest *a = l->requests; a != NULL; a = a->next)
		n++;
	return n;
}

void
dispatcher_publish(Dispatcher *l, WireStats *s)
{
	(void) l;
	s->finished = seen.ended;
}

/* ---- backends ---- */

static Peer P;
static RemoteServer *D;

/* Start anew: an arena, a server, the supervisor's end of its control socket. */
static void
open_desk(uint32_t n_slots)
{
	RSettings	set;
	int			sv[2];
	Err			e = {0};

	memset(&P, 0, sizeof(P));
	memset(&seen, 0, sizeof(seen));
	peer_arena(&P, n_slots, RING, LONGEST);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) != 0)
		abort();
	fcntl(sv[0], F_SETFL, O_NONBLOCK);
	P.ctl = sv[0];
	P.log = -1;
	http_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	wire_stats(&P.arena)->rss_bytes = -5;
	wire_stats(&P.arena)->n_models = 7;
	atomic_store(&wire_stats(&P.arena)->seq, 41);
	rsettings_init(&set);
	D = remote_server_new(&P.arena, sv[1], NULL, &set, &e);
	CHECK(D != NULL, "a server: %s", e.msg);
	if (D == NULL)
		exit(check_done("test_remote_server"));
	P.line[0] = '\0';
	remote_server_ready(D);
	peer_poll(&P);
	CHECK(P.ready, "the supervisor is told");
	/* the server doesn't close it */
	P.pid = -sv[1];
}

static void
close_desk(void)
{
	remote_server_free(D);
	CHECK(seen.freed == 1, "the line goes with it");
	close(http_event);
	close(-P.pid);
	P.pid = 0;
	peer_free(&P);
}

static Talk *
request(const char *prompt, size_t padding)
{
	Buf			b = {0};
	Buf			pad = {0};
	WireOut		o = peer_out(&b);
	Talk	   *t;

	for (size_t i = 0; i < padding; i++)
		buf_addc(&pad, 'p');
	wire_put_str(&o, WTAG_PROMPT, prompt, strlen(prompt));
	if (padding > 0)
		wire_put_str(&o, WTAG_MODEL_OPTIONS, pad.data, padding);
	t = talk_begin(&P, WK_GENERATE, &b);
	buf_free(&b);
	buf_free(&pad);
	return t;
}

/* Let all sides proceed; this thread is each of them. */
static void
move(Talk *t)
{
	remote_server_poll(D, 1000);
	if (t != NULL)
		talk_pump(t);
	peer_poll(&P);
}

static bool
next_frame(Talk *t, Frame *f)
{
	int64_t		end = clock_us() + 5000000;

	for (;;)
	{
		bool		over = talk_over(t);

		while (talk_pump(t))
			;
		if (talk_frame(t, f))
			return true;
		if (over || clock_us() > end)
			return false;
		move(t);
	}
}

static bool
last_frame(Talk *t, Frame *f)
{
	do
		if (!next_frame(t, f))
			return false;
	while (!f->final);
	return true;
}

static const char *
text_of(Talk *t)
{
	static char buf[1100];
	Frame		f;

	if (!last_frame(t, &f))
		snprintf(buf, sizeof(buf), "no final frame (state %u)", talk_state(t));
	else if (f.kind == WF_ERROR)
		snprintf(buf, sizeof(buf), "%s: %.500s", frame_str(&f, WTAG_SQLSTATE), frame_str(&f, WTAG_MESSAGE));
	else
		snprintf(buf, sizeof(buf), "%s", frame_str(&f, WTAG_TEXT));
	talk_free(t);
	return buf;
}

static const char *
control(const char *command)
{
	return text_of(talk_command(&P, command));
}

static void
whole(const char *what)
{
	const char *r = control("integrity");

	CHECK(strcmp(r, "ok") == 0, "integrity behind %s: %s", what, r);
}

#define WAIT_FOR(cond, t) \
	for (int64_t wait_end = clock_us() + 5000000; !(cond) && clock_us() < wait_end;) \
		move(t)

/* ---- tests ---- */

static void
test_settings(void)
{
	static const char *const bad[] = {
		"", "allowed_hosts", "hosts=a", "allowed_host=a", "allowed_hosts=a b://c", "max_connections=0",
		"max_connections=65537", "max_connections=", "max_connections=1x",
		"max_connections=99999999999999999999"
	};
	RSettings	s;
	Err			e;

	rsettings_init(&s);
	CHECK(s.allowed_hosts[0] == '\0' && s.ca_file[0] == '\0' && s.max_connections == 256,
		  "nothing is allowed at first");
	CHECK(rsettings_assign(&s, "allowed_hosts=a.example, *.b.example:8000", &e) &&
		  strcmp(s.allowed_hosts, "a.example, *.b.example:8000") == 0, "hosts");
	CHECK(rsettings_assign(&s, "ca_file=/etc/a=b.pem", &e) && strcmp(s.ca_file, "/etc/a=b.pem") == 0,
		  "a file");
	CHECK(rsettings_assign(&s, "max_connections=65536", &e) && s.max_connections == 65536, "a number");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!rsettings_assign(&s, bad[i], &e) && e.cls == ERR_INVALID, "\"%s\" is refused", bad[i]);
	CHECK(strcmp(s.allowed_hosts, "a.example, *.b.example:8000") == 0 && s.max_connections == 65536,
		  "what is refused changes nothing");
	CHECK(rsettings_assign(&s, "allowed_hosts=", &e) && s.allowed_hosts[0] == '\0', "nothing again");
	rsettings_free(&s);
}

static void
test_start(void)
{
	WireStats  *st = wire_stats(&P.arena);

	CHECK(atomic_load(&st->seq) % 2 == 0 && atomic_load(&st->seq) > 41, "figures can be read: %u",
		  atomic_load(&st->seq));
	CHECK(st->n_models == 0 && st->rss_bytes > 0 && st->started_us > 0 && st->memory_total > 0,
		  "those of the one before are gone");
	CHECK(atomic_load(&P.h->busy) == 0 && atomic_load(&P.h->heartbeat_us) > 0,
		  "the supervisor finds it well");
}

static void
test_commands(void)
{
	const char *r;

	CHECK(strcmp(control("ping"), "pong") == 0, "ping");
	CHECK(atoi(control("fds")) >= 6, "fds");
	CHECK(atoll(control("rss")) > 100000, "rss");
	CHECK(strcmp(control("reset-stats"), "line reset") == 0, "the line's");
	r = control("nonsense");
	CHECK(strcmp(r, "22023: unknown control command \"nonsense\"") == 0, "%s", r);
	r = control("");
	CHECK(strncmp(r, "22023: ", 7) == 0, "%s", r);
	whole("commands");
	seen.integrity = "the line is broken";
	CHECK(strcmp(control("integrity"), "the line is broken") == 0, "the line's word counts");
	seen.integrity = NULL;
	CHECK(seen.taken == 0, "none of these is a request");
}

static void
test_answers(void)
{
	volatile WireStats *st = wire_stats(&P.arena);
	Talk	   *t;
	Frame		f;
	const char *r;

	CHECK(strcmp(text_of(request("now 3", 0)), "nnn") == 0, "an answer from within taking");
	t = request("later 5", 0);
	CHECK(next_frame(t, &f) && f.kind == WF_ACCEPTED && frame_int(&f, WTAG_PROMPT_TOKENS) == 3, "accepted");
	CHECK(next_frame(t, &f) && f.kind == WF_DONE && f.final && strcmp(frame_str(&f, WTAG_TEXT), "lllll") == 0,
		  "answered");
	CHECK(st->finished == seen.ended && seen.ended == 2, "counted before it can be read");
	CHECK(talk_over(t), "let go");
	talk_free(t);
	t = request("now 2000000", 3000000);
	CHECK(last_frame(t, &f) && f.len == 8 + 2000000, "both ways longer than rings: %zu", f.len);
	talk_free(t);
	r = text_of(request("lose", 0));
	CHECK(strncmp(r, "XX000: ", 7) == 0, "a request that the line loses is an error: %s", r);
	t = request("later 1", 0);
	/* values that the backend sets before it rings */
	atomic_store(&wire_slot(&P.arena, t->slot)->deadline_us, 123456789);
	atomic_store(&wire_slot(&P.arena, t->slot)->timeout_ms, 77);
	CHECK(last_frame(t, &f) && seen.deadline_us == 123456789 && seen.timeout_ms == 77,
		  "deadlines are passed on");
	atomic_store(&wire_slot(&P.arena, t->slot)->deadline_us, 0);
	talk_free(t);
	whole("answers");
}

/* Many at once; replies come in another order than requests. */
static void
test_many(void)
{
	Talk	   *t[60];
	int			good = 0;

	for (int i = 0; i < 60; i++)
	{
		char		prompt[32];

		snprintf(prompt, sizeof(prompt), "%s %d", i % 3 == 0 ? "now" : "later", i + 1);
		t[i] = request(prompt, (size_t) i * 300);
	}
	for (int i = 0; i < 60; i++)
	{
		const char *r = text_of(t[i]);

		good += strlen(r) == (size_t) i + 1 && r[0] == (i % 3 == 0 ? 'n' : 'l');
	}
	CHECK(good == 60, "each its own answer: %d", good);
	whole("many");
}

static void
test_stream(void)
{
	Talk	   *t = request("stream 500", 0);
	Frame		f;
	int			n = 0;
	bool		right = true;

	CHECK(next_frame(t, &f) && f.kind == WF_ACCEPTED, "accepted");
	/* the backend reads nothing for a while */
	for (int i = 0; i < 100; i++)
		remote_server_poll(D, 1000);
	CHECK(seen.most_backlog > ENOUGH && seen.most_backlog < ENOUGH + 2000,
		  "the line hears that nobody reads: %zu", seen.most_backlog);
	while (next_frame(t, &f) && !f.final)
	{
		const char *s = frame_str(&f, WTAG_TEXT);

		right &= f.kind == WF_TEXT && strlen(s) == 1000 && s[0] == 'a' + n % 26 && s[999] == s[0];
		n++;
	}
	CHECK(right && n == 500 && f.kind == WF_DONE, "all of it, in order: %d", n);
	CHECK(atomic_load(&wire_slot(&P.arena, t->slot)->output_tokens) == 500 &&
		  atomic_load(&wire_slot(&P.arena, t->slot)->prompt_tokens) == 3 &&
		  atomic_load(&wire_slot(&P.arena, t->slot)->first_token_us) > 0, "live figures");
	talk_free(t);
	whole("a stream");
}

static void
test_cancel(void)
{
	int			before = seen.cancelled;
	int64_t		began;
	Talk	   *t = request("hang", 0);

	WAIT_FOR(dispatcher_live(the_line) == 1, t);
	began = clock_us();
	talk_cancel(t);
	WAIT_FOR(talk_over(t), NULL);
	CHECK(seen.cancelled == before + 1 && seen.cancel_us - began < 100000,
		  "the line hears within 100 ms: %d us", (int) (seen.cancel_us - began));
	CHECK(talk_over(t) && talk_state(t) == WS_CLOSED, "the slot is let go");
	talk_free(t);

	/*
	 * half a message; a complete one, cancelled before it is read; a stream whose ring is full; a reply
	 * that is never read
	 */
	t = request("hang", 100000);
	move(NULL);
	talk_cancel(t);
	WAIT_FOR(talk_over(t), NULL);
	CHECK(talk_over(t) && seen.cancelled == before + 1, "half a message");
	talk_free(t);
	t = request("hang", 0);
	talk_cancel(t);
	WAIT_FOR(talk_over(t), NULL);
	CHECK(talk_over(t) && seen.cancelled == before + 1, "unseen");
	talk_free(t);
	t = request("stream 1000", 0);
	for (int i = 0; i < 50; i++)
		remote_server_poll(D, 1000);
	talk_cancel(t);
	WAIT_FOR(talk_over(t), NULL);
	CHECK(talk_over(t) && seen.cancelled == before + 2, "in a stream");
	talk_free(t);
	t = request("now 100000", 0);
	for (int i = 0; i < 5; i++)
		remote_server_poll(D, 1000);
	CHECK(!talk_over(t), "not all of the answer has room");
	talk_cancel(t);
	WAIT_FOR(talk_over(t), NULL);
	CHECK(talk_over(t) && seen.cancelled == before + 2, "behind the answer");
	talk_free(t);
	whole("cancelling");
}

/* The backend is gone, and another one has the slot. */
static void
test_taken_over(void)
{
	int			before = seen.cancelled;
	Talk	   *t = request("hang", 0);
	Talk	   *u;

	WAIT_FOR(dispatcher_live(the_line) == 1, t);
	atomic_store(&wire_slot(&P.arena, t->slot)->state, WS_FREE);
	P.slot_used[t->slot] = 0;
	u = request("later 4", 0);
	CHECK(u->slot == t->slot && u->gen == t->gen + 1, "the same slot");
	CHECK(strcmp(text_of(u), "llll") == 0, "the new one is answered");
	CHECK(seen.cancelled == before + 1, "the old one is given up");
	buf_free(&t->out);
	buf_free(&t->in);
	free(t);

	/* without a ring, found by the sweep of all slots */
	t = request("hang", 0);
	WAIT_FOR(dispatcher_live(the_line) == 1, t);
	atomic_store(&wire_slot(&P.arena, t->slot)->state, WS_LOST);
	WAIT_FOR(dispatcher_live(the_line) == 0, NULL);
	CHECK(seen.cancelled == before + 2 && talk_state(t) == WS_LOST, "lost");
	talk_free(t);
	whole("taking over");
}

static void
test_corrupt(void)
{
	int			before = seen.cancelled;
	WireMsg		m = {.magic = 1,.kind = WK_GENERATE};
	uint32_t	n = P.arena.geo.n_slots;
	Talk	   *t = request("stream 1000", 0);
	const char *r;

	WAIT_FOR(the_line->requests != NULL && the_line->requests->sent > 3, t);
	atomic_fetch_add(&wire_slot(&P.arena, t->slot)->rep_tail, 100000);
	WAIT_FOR(talk_over(t), NULL);
	CHECK(talk_over(t) && seen.cancelled == before + 1 && seen.cancelled_in_sink,
		  "a corrupt slot gives its request up while the line speaks");
	talk_free(t);
	/* During dispatcher_submit(), when there is no request yet. */
	t = request("early 10000", 0);
	atomic_store(&wire_slot(&P.arena, t->slot)->rep_tail, 77777);
	WAIT_FOR(talk_over(t), NULL);
	CHECK(talk_over(t) && seen.cancelled == before + 2 && dispatcher_live(the_line) == 0,
		  "and before it has begun");
	talk_free(t);
	t = talk_begin_raw(&P, &m, sizeof(m));
	r = text_of(t);
	CHECK(strcmp(r, "XX000: malformed request message") == 0, "%s", r);
	t = request("later 2", 0);
	atomic_store(&P.h->to_engine.head, atomic_load(&P.h->to_engine.tail) + n + 5);
	CHECK(strcmp(text_of(t), "ll") == 0, "behind a corrupt queue");
	whole("corruption");
}

static void
test_control(void)
{
	peer_send(&P, "config max_connections=9\nconfig max_connections=no\n");
	WAIT_FOR(seen.settings > 0, NULL);
	for (int i = 0; i < 10; i++)
		remote_server_poll(D, 1000);
	CHECK(seen.settings == 1 && the_line->set->max_connections == 9, "the line is told of good ones: %d",
		  seen.settings);
}

/* Asleep: no work, but a heartbeat. */
static void
test_idle(void)
{
	int64_t		beat;
	int64_t		began = clock_us();
	uint64_t	step = atomic_load(&P.h->step_counter);
	int			turns = 0;
	int			http;
	const uint64_t one = 1;

	while (clock_us() - began < 2500000)
	{
		remote_server_poll(D, INT64_MAX);
		beat = atomic_load(&P.h->heartbeat_us);
		CHECK(clock_us() - beat < 500000, "it is just now that it beat");
		turns++;
	}
	CHECK(turns >= 2 && turns <= 12, "in 2.5 s %d turns", turns);
	CHECK(atomic_load(&P.h->step_counter) > step && atomic_load(&P.h->busy) == 0, "steps are made");
	http = seen.http_polls;
	CHECK(write(http_event, &one, sizeof(one)) == sizeof(one), "an endpoint answers");
	began = clock_us();
	remote_server_poll(D, INT64_MAX);
	CHECK(seen.http_polls == http + 1 && clock_us() - began < 500000, "and is heard at once");
}

/* ---- the doorbell ---- */

static _Atomic bool halt;

static void *
desk_main(void *arg)
{
	(void) arg;
	while (!atomic_load(&halt) && remote_server_poll(D, INT64_MAX))
		;
	return NULL;
}

/* Wait for the final frame. */
static bool
receive_all_of(Talk *t)
{
	int64_t		end = clock_us() + 5000000;
	Frame		f;
	bool		r;

	while (!(r = talk_frame(t, &f)) && clock_us() < end)
	{
		talk_pump(t);
		peer_poll(&P);
	}
	while (!talk_over(t))
		;
	talk_free(t);
	return r;
}

/* Rings at all moments of an iteration and of falling asleep: a lost one would delay up to a second. */
static void
test_bell(void)
{
	pthread_t	th;
	int64_t		worst = 0;
	int			good = 0;

	atomic_store(&busy_us, 50);
	if (pthread_create(&th, NULL, desk_main, NULL) != 0)
		abort();
	for (int i = 0; i < 3000; i++)
	{
		int64_t		began = clock_us();
		Talk	   *t = request("now 1", 0);
		Talk	   *u;

		while (clock_us() < began + i % 150)
			;
		u = request("now 1", 0);
		good += receive_all_of(t);
		good += receive_all_of(u);
		if (clock_us() - began > worst)
			worst = clock_us() - began;
	}
	CHECK(good == 6000, "all are answered: %d", good);
	CHECK(worst < 600000, "nobody waits for the look at all slots: %d us", (int) worst);
	fprintf(stderr, "longest of 3000 pairs: %d us\n", (int) worst);
	atomic_store(&halt, true);
	pthread_join(th, NULL);
	atomic_store(&busy_us, 0);
}

int
main(void)
{
	signal(SIGPIPE, SIG_IGN);
	RUN(test_settings());
	open_desk(64);
	RUN(test_start());
	RUN(test_commands());
	RUN(test_answers());
	RUN(test_many());
	RUN(test_stream());
	RUN(test_cancel());
	RUN(test_taken_over());
	RUN(test_corrupt());
	RUN(test_control());
	RUN(test_idle());
	RUN(test_bell());
	whole("everything");
	CHECK(seen.turns > 0 && seen.untimely == 0, "the line is told the time");
	peer_send(&P, CONTROL_STOP "\n");
	CHECK(!remote_server_poll(D, 1000000), "stop");
	close_desk();

	/* the supervisor ends while requests are running */
	open_desk(4);
	{
		Talk	   *t = request("hang", 0);
		Talk	   *u = request("now 100000", 0);

		WAIT_FOR(dispatcher_live(the_line) == 1, t);
		shutdown(P.ctl, SHUT_RDWR);
		CHECK(!remote_server_poll(D, 1000000), "the end of its supervisor is its own");
		talk_free(t);
		talk_free(u);
	}
	close_desk();
	return check_done("test_remote_server");
}
