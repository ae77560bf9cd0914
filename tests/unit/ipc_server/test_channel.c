/*
 * test_channel.c
 *	  Messages and frames of a slot from both ends (ipc_server/channel.c), and the control socket
 *	  (ipc_server/control_socket.c): one thread is backend, supervisor and program.
 */
#include "ipc_server/channel.h"
#include "ipc_server/control_socket.h"

#include "tests/unit/check_abort.h"
#include "tests/unit/wire_peer.h"

#define RING 4096
#define LONGEST 100000

static Peer P;
static Link L;

static void
setup(void)
{
	int			sv[2];

	peer_arena(&P, 4, RING, LONGEST);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) != 0)
		abort();
	P.ctl = sv[0];
	P.log = -1;
	link_init(&L, &P.arena, sv[1]);
}

static WireSlot *
slot_of(const Talk *t)
{
	return wire_slot(&P.arena, t->slot);
}

static void
begin(Channel *c, const Talk *t)
{
	memset(c, 0, sizeof(*c));
	chan_init(c, &L, t->slot, t->gen);
}

/* Fill b with n bytes that depend on their position. */
static void
fill(Buf *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_addc(b, (char) (i * 31 + i / 251));
}

static void
finish(Channel *c, Talk *t)
{
	chan_drop(c);
	chan_destroy(c);
	peer_poll(&P);
	atomic_store(&slot_of(t)->wake, WW_IDLE);
	talk_free(t);
	P.wakes = 0;
}

/* ---- requests ---- */

static void
test_whole(void)
{
	static const size_t sizes[] = {0, 1, 100, RING - sizeof(WireMsg), RING, 3 * RING + 5, LONGEST};
	Err			e;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
	{
		Buf			body = {0};
		Talk	   *t;
		Channel		c;
		ChanRead	r;
		int			turns = 0;

		fill(&body, sizes[i]);
		t = talk_begin(&P, WK_TOKENIZE, &body);
		begin(&c, t);
		while ((r = chan_receive(&c, &e)) == CHAN_MORE && turns++ < 1000)
			talk_pump(t);
		CHECK(r == CHAN_COMPLETE && c.kind == WK_TOKENIZE && c.in_len == sizes[i], "%zu bytes are received",
			  sizes[i]);
		CHECK(sizes[i] == 0 || memcmp(c.in, body.data, sizes[i]) == 0, "... as they were");
		CHECK(turns == (int) ((sizeof(WireMsg) + sizes[i] - 1) / RING), "... a ring of them at a time: %d",
			  turns);
		CHECK(atomic_load(&slot_of(t)->req_tail) == (uint32_t) (sizeof(WireMsg) + sizes[i]),
			  "their place is given back");
		finish(&c, t);
		buf_free(&body);
	}
}

/* Receive a message of 3000 bytes with a checksum, of which the byte at `at` was changed; SIZE_MAX: none. */
static ChanRead
receive_summed(size_t at, Channel *c, Talk **t, Err *e)
{
	WireMsg		m = {.magic = WIRE_MSG_MAGIC,.gen = talk_next_gen(&P),.kind = WK_TOKENIZE,
					 .flags = WIRE_SUMMED,.len = 3000 + WIRE_SUM_BYTES};
	Buf			body = {0};
	Buf			all = {0};
	uint64_t	sum;

	fill(&body, 3000);
	sum = wire_sum(&m, body.data);
	buf_add(&all, &m, sizeof(m));
	buf_add(&all, body.data, body.len);
	buf_add(&all, &sum, sizeof(sum));
	if (at < all.len)
		all.data[at] ^= 0x10;
	*t = talk_begin_raw(&P, all.data, all.len);
	begin(c, *t);
	buf_free(&body);
	buf_free(&all);
	return chan_receive(c, e);
}

static void
test_sums(void)
{
	/* in the flags, which the checksum covers, a word, the last bytes, the checksum */
	static const size_t at[] = {15, 24, 1024, 1027, 3023, 3024, 3031};
	Channel		c;
	Talk	   *t;
	Err			e;

	CHECK(receive_summed(SIZE_MAX, &c, &t, &e) == CHAN_COMPLETE && c.in_len == 3000 && c.msg.len == 3000,
		  "whole, and without its checksum");
	finish(&c, t);
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
	{
		CHECK(receive_summed(at[i], &c, &t, &e) == CHAN_BAD && e.cls == ERR_LOST, "byte %zu is damaged",
			  at[i]);
		CHECK(strcmp(err_sqlstate(e.cls), "58000") == 0 && strstr(e.msg, "damaged") != NULL,
			  "which is said: %s", e.msg);
		finish(&c, t);
	}
}

/* Byte for byte; the backend is woken for space as soon as it waits for some. */
static void
test_pieces(void)
{
	WireMsg		m = {.magic = WIRE_MSG_MAGIC,.gen = talk_next_gen(&P),.kind = WK_TOKENIZE,.len = 50};
	Buf			all = {0};
	Talk	   *t;
	Channel		c;
	Err			e;
	size_t		n = sizeof(m) + 50;
	bool		early = false;

	buf_add(&all, &m, sizeof(m));
	fill(&all, 50);
	t = talk_begin_raw(&P, all.data, 1);
	begin(&c, t);
	CHECK(atomic_load(&slot_of(t)->phase) == WP_RECEIVING && atomic_load(&slot_of(t)->arrival_us) > 0,
		  "it is known to have come");
	for (size_t i = 1; i < n; i++)
	{
		early |= chan_receive(&c, &e) != CHAN_MORE;
		buf_add(&t->out, all.data + i, 1);
		talk_pump(t);
	}
	CHECK(!early, "not whole before its last byte");
	CHECK(chan_receive(&c, &e) == CHAN_COMPLETE && memcmp(c.in, all.data + sizeof(m), 50) == 0,
		  "whole with it");
	peer_poll(&P);
	CHECK(P.wakes > 0, "the backend is told of room");
	finish(&c, t);
	buf_free(&all);
}

static void
refused(const WireMsg *m, ErrClass cls, const char *what)
{
	Talk	   *t = talk_begin_raw(&P, m, sizeof(*m));
	Channel		c;
	Err			e = {0};

	begin(&c, t);
	CHECK(chan_receive(&c, &e) == CHAN_BAD && e.cls == cls, "%s is refused: %d %s", what, e.cls, e.msg);
	finish(&c, t);
}

static void
test_malformed(void)
{
	WireMsg		good = {.magic = WIRE_MSG_MAGIC,.kind = WK_GENERATE,.len = LONGEST};
	WireMsg		m = good;
	Talk	   *t;
	Channel		c;
	Err			e;

	m.magic ^= 1;
	refused(&m, ERR_INTERNAL, "another magic");
	m = good;
	m.kind = 0;
	refused(&m, ERR_INTERNAL, "kind 0");
	m.kind = WK_COUNT;
	refused(&m, ERR_INTERNAL, "a kind that there isn't");
	m = good;
	m.len = LONGEST + 1;
	refused(&m, ERR_TOO_LONG, "too long a message");
	m.len = UINT64_MAX;
	refused(&m, ERR_TOO_LONG, "an endless message");
	m = good;
	m.gen = talk_next_gen(&P) - 1;
	refused(&m, ERR_LOST, "what the slot's conversation before has left");
	m.gen = talk_next_gen(&P) + 256;
	refused(&m, ERR_LOST, "a head of any other generation");
	m.gen = 0;
	m.place = 16;
	refused(&m, ERR_LOST, "a head of another place");

	t = talk_begin_raw(&P, &good, sizeof(good));
	buf_add(&t->out, "0123456789", 10);
	begin(&c, t);
	talk_pump(t);
	CHECK(chan_receive(&c, &e) == CHAN_MORE && c.in_len == 10 && c.in_cap <= 4096,
		  "memory goes by what has come, not by what is claimed");
	finish(&c, t);
}

static void
test_cursors(void)
{
	Buf			body = {0};
	Talk	   *t = talk_begin(&P, WK_TOKENIZE, &body);
	Channel		c;
	Err			e;

	begin(&c, t);
	atomic_fetch_add(&slot_of(t)->req_head, RING + 1);
	CHECK(chan_receive(&c, &e) == CHAN_BAD && strstr(e.msg, "corrupt") != NULL,
		  "a request cursor that can't be");
	finish(&c, t);

	/* our copies of the cursors in the arena are overwritten: they are never read */
	fill(&body, 3000);
	t = talk_begin(&P, WK_TOKENIZE, &body);
	begin(&c, t);
	atomic_store(&slot_of(t)->req_tail, 12345);
	atomic_store(&slot_of(t)->rep_head, 54321);
	CHECK(chan_receive(&c, &e) == CHAN_COMPLETE && memcmp(c.in, body.data, 3000) == 0,
		  "the program goes by its own copy");
	chan_frame(&c, WF_TEXT, NULL, false);
	CHECK(atomic_load(&slot_of(t)->rep_head) == sizeof(WireMsg) + WIRE_TRAILER, "... for replies, too");
	finish(&c, t);

	t = talk_begin(&P, WK_TOKENIZE, &body);
	begin(&c, t);
	atomic_store(&slot_of(t)->rep_tail, 77);
	chan_frame(&c, WF_TEXT, &body, false);
	CHECK(!chan_is_open(&c) && talk_state(t) == WS_CLOSED && talk_over(t),
		  "a reply cursor that can't be closes the slot");
	CHECK(chan_backlog(&c) == 0, "nothing is kept for it");
	finish(&c, t);
	buf_free(&body);
}

/*
 * A request that was read is not read again, nor one that an earlier call has left, wherever the cursors
 * point.
 */
static void
test_stale_requests(void)
{
	Buf			body = {0};
	Talk	   *t;
	Channel		c;
	Err			e = {0};
	const uint32_t magic = WIRE_MSG_MAGIC;
	uint32_t	whole = sizeof(WireMsg) + 200;

	fill(&body, 200);
	t = talk_begin(&P, WK_TOKENIZE, &body);
	begin(&c, t);
	CHECK(chan_receive(&c, &e) == CHAN_COMPLETE, "the first");
	finish(&c, t);

	/* one byte of the second request is written; the first request's bytes follow it */
	t = talk_begin_raw(&P, &magic, 1);
	atomic_store(&slot_of(t)->req_head, whole);
	begin(&c, t);
	CHECK(chan_receive(&c, &e) == CHAN_BAD && e.cls == ERR_LOST, "a head cursor over an old request: %d %s",
		  e.cls, e.msg);
	finish(&c, t);

	/* the program's cursors were overwritten before it saw the call */
	t = talk_begin(&P, WK_DETOKENIZE, &body);
	atomic_store(&slot_of(t)->req_tail, whole);
	atomic_store(&slot_of(t)->rep_head, 320);
	begin(&c, t);
	CHECK(chan_receive(&c, &e) == CHAN_COMPLETE && c.kind == WK_DETOKENIZE &&
		  memcmp(c.in, body.data, 200) == 0, "conversations begin at 0");
	chan_frame(&c, WF_TEXT, NULL, false);
	CHECK(atomic_load(&slot_of(t)->rep_head) == sizeof(WireMsg) + WIRE_TRAILER, "... both ways");
	finish(&c, t);
	buf_free(&body);
}

/* ---- replies ---- */

/* Every frame's head has the call's generation and its own position, however it came into the ring. */
static void
test_heads(void)
{
	static const size_t sizes[] = {0, 8, 5000, 16, 9000, 24, 0};
	Buf			body = {0};
	Buf			some = {0};
	Talk	   *t = talk_begin(&P, WK_GENERATE, &body);
	Channel		c;
	WireMsg		m;
	size_t		at = 0;
	int			n = 0;

	begin(&c, t);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
	{
		buf_reset(&some);
		fill(&some, sizes[i]);
		chan_frame(&c, WF_TEXT, &some, false);
		if (i % 2)
			talk_pump(t);
		chan_pump(&c);
	}
	CHECK(chan_end(&c, WF_DONE, NULL), "the final frame");
	for (int i = 0; i < 20; i++)
	{
		talk_pump(t);
		chan_pump(&c);
	}
	for (; at + sizeof(m) <= t->in.len; at += sizeof(m) + m.len)
	{
		memcpy(&m, t->in.data + at, sizeof(m));
		CHECK(m.magic == WIRE_MSG_MAGIC && wire_in_place(&m, t->gen, (uint32_t) at), "head %d at %zu: %u %u",
			  n, at, m.gen, m.place);
		CHECK(!wire_in_place(&m, t->gen - 1, (uint32_t) at) && !wire_in_place(&m, t->gen, (uint32_t) at + 8),
			  "and nowhere else");
		n++;
	}
	CHECK(n == 8 && at == t->in.len, "all of them: %d", n);
	finish(&c, t);
	buf_free(&some);
}

static void
test_frames(void)
{
	Buf			body = {0};
	Buf			big = {0};
	Talk	   *t;
	Channel		c;
	Frame		f;
	int			frames = 0;

	fill(&big, 3 * RING + 17);
	t = talk_begin(&P, WK_GENERATE, &body);
	begin(&c, t);
	chan_frame(&c, WF_ACCEPTED, NULL, true);
	chan_frame(&c, WF_TEXT, &big, false);
	CHECK(chan_end(&c, WF_DONE, &big), "the final frame");
	CHECK(!chan_end(&c, WF_ERROR, NULL), "is the only one");
	chan_frame(&c, WF_TEXT, &big, false);
	CHECK(chan_is_open(&c) && !chan_is_active(&c), "open until the backend has it all");
	for (int i = 0; i < 100 && !talk_over(t); i++)
	{
		CHECK(talk_state(t) == WS_OPEN, "open while bytes are left");
		talk_pump(t);
		chan_pump(&c);
	}
	CHECK(talk_state(t) == WS_CLOSED && talk_over(t) && !chan_is_open(&c),
		  "closed with the last byte in the ring");
	CHECK(atomic_load(&slot_of(t)->phase) == WP_FINISHED, "finished");
	talk_pump(t);
	while (talk_frame(t, &f))
	{
		static const int kinds[] = {WF_ACCEPTED, WF_TEXT, WF_DONE};

		CHECK(frames < 3 && f.kind == kinds[frames] && f.final == (frames == 2), "frame %d", frames);
		CHECK(frames == 0 ? f.len == 0 : f.len == big.len && memcmp(f.data, big.data, big.len) == 0,
			  "... as it was");
		frames++;
	}
	CHECK(frames == 3 && t->in_at == t->in.len, "all frames, and nothing behind them");
	finish(&c, t);
	buf_free(&big);
}

/* Private state: only legal transitions, only slots of the arena. */
static void
test_states(void)
{
	Buf			body = {0};
	Talk	   *t = talk_begin(&P, WK_GENERATE, &body);
	Channel		c;
	Err			e = {0};

	begin(&c, t);
	CHECK(c.state == WC_SENDING, "begun: %d", c.state);
	CHECK_ABORTS(chan_init(&c, &L, t->slot, t->gen), "wire_call_may_follow");
	CHECK(chan_receive(&c, &e) == CHAN_COMPLETE && c.state == WC_RUNNING, "whole: %d", c.state);
	CHECK_ABORTS(chan_set_state(&c, WC_SENDING), "wire_call_may_follow");
	CHECK_ABORTS((c.out_at = 1, c.out.len = 0, chan_frame(&c, WF_TEXT, NULL, false)), "out_at <= c->out.len");
	CHECK_ABORTS(link_slot(&L, P.arena.geo.n_slots), "slot < l->arena.geo.n_slots");
	/* the final frame is in the ring at once */
	CHECK(chan_end(&c, WF_DONE, NULL) && c.state == WC_CLOSED, "ended: %d", c.state);
	CHECK_ABORTS(chan_set_state(&c, WC_FINAL), "wire_call_may_follow");
	finish(&c, t);
}

/* Count of reply bytes that the backend has not read. */
static void
test_backlog(void)
{
	Buf			body = {0};
	Buf			big = {0};
	Talk	   *t = talk_begin(&P, WK_GENERATE, &body);
	Channel		c;
	size_t		total = sizeof(WireMsg) + 10000 + WIRE_TRAILER;
	int			wrong = 0;

	begin(&c, t);
	CHECK(chan_backlog(&c) == 0, "none at first");
	fill(&big, 10000);
	chan_frame(&c, WF_TEXT, &big, false);
	CHECK(chan_backlog(&c) == total, "in the ring and behind it: %zu", chan_backlog(&c));
	atomic_store(&slot_of(t)->rep_tail, 1000);
	CHECK(chan_backlog(&c) == total - 1000, "less what is taken: %zu", chan_backlog(&c));
	chan_pump(&c);
	CHECK(chan_backlog(&c) == total - 1000, "moving some into the ring changes nothing: %zu",
		  chan_backlog(&c));
	atomic_store(&slot_of(t)->rep_tail, 999999);
	CHECK(chan_backlog(&c) <= total, "nor does an impossible cursor make it endless");
	finish(&c, t);

	/* a backend that is always behind, but reads */
	t = talk_begin(&P, WK_GENERATE, &body);
	begin(&c, t);
	for (int i = 0; i < 500; i++)
	{
		chan_frame(&c, WF_TEXT, &big, false);
		while (chan_backlog(&c) > 50000)
		{
			talk_pump(t);
			chan_pump(&c);
		}
	}
	CHECK(c.out.cap < 300000, "5 MB go through, but are never all there: %zu", c.out.cap);
	while (chan_backlog(&c) > 0)
	{
		talk_pump(t);
		chan_pump(&c);
	}
	CHECK(t->in.len == 500 * total, "all of them: %zu", t->in.len);
	for (size_t i = 0; i < 500; i++)
		wrong += memcmp(t->in.data + i * total + sizeof(WireMsg), big.data, 10000) != 0;
	CHECK(wrong == 0, "as they were: %d", wrong);
	finish(&c, t);
	buf_free(&big);
}

static void
test_drop(void)
{
	Buf			body = {0};
	Talk	   *t = talk_begin(&P, WK_GENERATE, &body);
	Channel		c;
	ChanLive	v = {WP_RUNNING, 5, -1, -1, 7, -1, -1};

	begin(&c, t);
	CHECK(chan_live(&c, &v) && atomic_load(&slot_of(t)->phase) == WP_RUNNING &&
		  atomic_load(&slot_of(t)->prompt_tokens) == 5 && atomic_load(&slot_of(t)->output_tokens) == 7,
		  "live figures");
	v = (ChanLive) {-1, -1, -1, -1, 8, -1, -1};
	CHECK(chan_live(&c, &v) && atomic_load(&slot_of(t)->prompt_tokens) == 5 &&
		  atomic_load(&slot_of(t)->output_tokens) == 8, "negative ones leave it as it was");
	chan_drop(&c);
	CHECK(talk_state(t) == WS_CLOSED && talk_over(t), "dropped: the slot is let go");
	CHECK(atomic_load(&slot_of(t)->rep_head) == 0, "without a frame");
	v.output_tokens = 9;
	CHECK(!chan_live(&c, &v) && atomic_load(&slot_of(t)->output_tokens) == 8, "never touched again");
	chan_frame(&c, WF_TEXT, NULL, true);
	CHECK(!chan_end(&c, WF_DONE, NULL) && atomic_load(&slot_of(t)->rep_head) == 0, "... by frames neither");
	peer_poll(&P);
	CHECK(P.wakes == 1, "the backend was told once: %d", P.wakes);
	finish(&c, t);
}

/* The supervisor, or the backend, has noticed that the program ended: the slot has another owner. */
static void
test_generation(void)
{
	Buf			body = {0};
	Buf			big = {0};

	fill(&big, 2 * RING);
	for (int how = 0; how < 3; how++)
	{
		Talk	   *t = talk_begin(&P, WK_GENERATE, &body);
		WireSlot   *s = slot_of(t);
		Channel		c;

		begin(&c, t);
		if (how == 0)
			chan_frame(&c, WF_TEXT, &big, false);
		atomic_fetch_add(&s->gen, 1);
		atomic_store(&s->let_go, 0);
		atomic_store(&s->rep_head, 3);
		atomic_store(&s->phase, WP_NONE);
		if (how == 0)
			chan_pump(&c);
		else if (how == 1)
			chan_frame(&c, WF_TEXT, &big, true);
		else
			chan_drop(&c);
		CHECK(!chan_is_open(&c), "closed (%d)", how);
		CHECK(atomic_load(&s->state) == WS_OPEN && atomic_load(&s->let_go) == 0 &&
			  atomic_load(&s->rep_head) == 3 && atomic_load(&s->phase) == WP_NONE,
			  "another's slot is left alone (%d)", how);
		finish(&c, t);
	}
	buf_free(&big);
}

static void
test_wakes(void)
{
	Buf			body = {0};
	Talk	   *t = talk_begin(&P, WK_GENERATE, &body);
	Channel		c;
	uint32_t	slot;

	begin(&c, t);
	atomic_store(&slot_of(t)->wake, WW_QUIET);
	chan_frame(&c, WF_TEXT, NULL, true);
	CHECK(!wire_pop(&P.arena, WQ_TO_WORKER, &slot), "who looks by itself is not woken");
	atomic_store(&slot_of(t)->wake, WW_IDLE);
	chan_frame(&c, WF_TEXT, NULL, false);
	CHECK(!wire_pop(&P.arena, WQ_TO_WORKER, &slot), "nor of a frame that can wait");
	for (int i = 0; i < 5; i++)
		chan_frame(&c, WF_TEXT, NULL, true);
	CHECK(wire_pop(&P.arena, WQ_TO_WORKER, &slot) && slot == t->slot &&
		  !wire_pop(&P.arena, WQ_TO_WORKER, &slot), "else once");
	peer_poll(&P);
	CHECK(P.wakes == 1, "with one line: %d", P.wakes);
	finish(&c, t);
}

static void
test_error(void)
{
	Buf			body = {0};
	Talk	   *t = talk_begin(&P, WK_GENERATE, &body);
	Channel		c;
	Frame		f;
	Err			e = {0};

	begin(&c, t);
	err_set(&e, ERR_UNAVAILABLE, "endpoint is busy");
	err_hint(&e, "Wait.");
	CHECK(chan_end_error(&c, &e), "an error ends it");
	CHECK(talk_final(t, &f, 1000) && f.kind == WF_ERROR &&
		  strcmp(frame_str(&f, WTAG_SQLSTATE), "57P03") == 0 &&
		  strcmp(frame_str(&f, WTAG_MESSAGE), "endpoint is busy") == 0 &&
		  strcmp(frame_str(&f, WTAG_HINT), "Wait.") == 0, "as it is");
	CHECK(frame_int(&f, WTAG_DETAIL) == -1, "without what there isn't");
	finish(&c, t);
}

/* ---- control ---- */

static Buf	said;

static void
on_line(void *ctx, char *line)
{
	(void) ctx;
	buf_printf(&said, "%s|", line);
}

static void
test_control(void)
{
	static const char *const fds[] = {"", "x", "-1", "4x", "99999999999"};
	ControlLines in = {0};
	char		big[CONTROL_LINE + 10];
	int			sv[2];
	int			fd = 0;
	bool		ok = true;

	CHECK(control_fd_number("17", &fd) && fd == 17, "a number");
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		CHECK(!control_fd_number(fds[i], &fd), "\"%s\" is none", fds[i]);
	CHECK(strcmp(control_config("config a=b c"), "a=b c") == 0 && control_config("configure a=b") == NULL &&
		  control_config("config") == NULL, "assignments");

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) != 0)
		abort();
	in.fd = sv[0];
	CHECK(control_read(&in, on_line, NULL), "nothing is not the end");
	CHECK(write(sv[1], "one\ntwo\nthr", 11) == 11 && control_read(&in, on_line, NULL), "lines");
	CHECK(strcmp(said.data, "one|two|") == 0, "whole ones: %s", said.data);
	CHECK(write(sv[1], "ee\n", 3) == 3 && control_read(&in, on_line, NULL) &&
		  strcmp(said.data, "one|two|three|") == 0, "and the rest: %s", said.data);
	memset(big, 'x', sizeof(big));
	big[sizeof(big) - 1] = '\n';
	CHECK(write(sv[1], big, sizeof(big)) == sizeof(big), "too long a line");
	for (int i = 0; i < 3; i++)
		ok &= control_read(&in, on_line, NULL);
	CHECK(ok && write(sv[1], "four\n", 5) == 5 && control_read(&in, on_line, NULL) &&
		  strstr(said.data, "|four|") != NULL, "is got over");
	close(sv[1]);
	CHECK(!control_read(&in, on_line, NULL), "the end");
	close(sv[0]);
	buf_free(&said);
}

static void
test_beginning(void)
{
	WireArena	a;
	char		line[64] = "";
	char		want[64];
	int			sv[2];

	CHECK(control_map_arena(dup(P.memfd), "engine", &a) == ENGINE_EXIT_OK &&
		  memcmp(&a.geo, &P.arena.geo, sizeof(a.geo)) == 0, "mapped");
	munmap(a.base, a.geo.total_size);
	P.h->geo.version++;
	CHECK(control_map_arena(dup(P.memfd), "engine", &a) == ENGINE_EXIT_VERSION, "of another version");
	P.h->geo.version--;
	CHECK(control_map_arena(9999, "engine", &a) == ENGINE_EXIT_USAGE, "not there");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) != 0)
		abort();
	snprintf(want, sizeof(want), "hello %d %d\n", WIRE_VERSION, (int) getpid());
	CHECK(control_hello(sv[0]) == ENGINE_EXIT_OK && read(sv[1], line, sizeof(line) - 1) > 0 &&
		  strcmp(line, want) == 0, "%s", line);
	CHECK(control_hello(9999) == ENGINE_EXIT_USAGE, "no socket");
	close(sv[0]);
	close(sv[1]);
}

int
main(void)
{
	setup();
	RUN(test_whole());
	RUN(test_sums());
	RUN(test_pieces());
	RUN(test_malformed());
	RUN(test_cursors());
	RUN(test_stale_requests());
	RUN(test_heads());
	RUN(test_frames());
	RUN(test_states());
	RUN(test_backlog());
	RUN(test_drop());
	RUN(test_generation());
	RUN(test_wakes());
	RUN(test_error());
	RUN(test_control());
	RUN(test_beginning());
	close(L.control_fd);
	peer_free(&P);
	return check_done("test_channel");
}
