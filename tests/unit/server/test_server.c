/*
 * test_server.c
 *	  The engine process from outside (--fake): calls through the arena, cancelling, corrupt backends,
 *	  control socket, start and end.
 *
 * test_server [ENGINE] [bench]
 */
#include "tests/unit/wire_peer.h"

#include "tests/unit/check.h"

static Peer P;
static const char *const fake_args[] = {"--fake", NULL};

static void
put_text(WireOut *o, WireTag tag, const char *s)
{
	wire_put_str(o, tag, s, strlen(s));
}

static void
put_model(WireOut *o, const char *model, const char *path)
{
	wire_put_int(o, WTAG_DATABASE, 5);
	wire_put_int(o, WTAG_ROLE, 10);
	wire_put_int(o, WTAG_SESSION, 1);
	put_text(o, WTAG_MODEL, model);
	put_text(o, WTAG_MODEL_PATH, path);
}

static Talk *
generate_n(const char *prompt, size_t n, bool stream)
{
	Buf			b = {0};
	WireOut		o = peer_out(&b);
	Talk	   *t;

	put_model(&o, "m", "/fake/m");
	wire_put_str(&o, WTAG_PROMPT, prompt, n);
	wire_put_int(&o, WTAG_MAX_TOKENS, 1000000);
	wire_put_num(&o, WTAG_TEMPERATURE, 0);
	if (stream)
		wire_put_int(&o, WTAG_STREAM, 1);
	t = talk_begin(&P, WK_GENERATE, &b);
	buf_free(&b);
	return t;
}

static Talk *
generate(const char *prompt, bool stream)
{
	return generate_n(prompt, strlen(prompt), stream);
}

/* Return the whole output or "SQLSTATE: message". */
static const char *
answer(Talk *t)
{
	static char buf[1024];
	Frame		f;

	if (!talk_final(t, &f, 10000))
		snprintf(buf, sizeof(buf), "no final frame (state %u)", talk_state(t));
	else if (f.kind == WF_ERROR)
		snprintf(buf, sizeof(buf), "%s: %.500s", frame_str(&f, WTAG_SQLSTATE), frame_str(&f, WTAG_MESSAGE));
	else
		snprintf(buf, sizeof(buf), "%s", frame_str(&f, WTAG_TEXT));
	talk_wait_closed(t, 5000);
	talk_free(t);
	return buf;
}

static const char *
control(const char *command)
{
	return answer(talk_command(&P, command));
}

static void
start(const char *const *args, uint32_t n_slots, uint32_t ring)
{
	peer_arena(&P, n_slots, ring, UINT64_C(32) << 20);
	peer_spawn(&P, args);
	CHECK(peer_wait_ready(&P, 10000), "engine is ready");
	CHECK(P.hello, "hello came before ready");
	if (!P.ready)
	{
		peer_drain_log(&P);
		fprintf(stderr, "%s\n", P.text.data != NULL ? P.text.data : "");
		exit(check_done("test_server"));
	}
}

static void
stop(void)
{
	peer_send(&P, "stop\n");
	CHECK(peer_exit_status(&P, 10000) == 0, "stop ends the engine");
	CHECK(!peer_complaints(&P), "no sanitizer complaints");
	peer_free(&P);
}

static bool
ends(const char *what)
{
	const char *r = control("integrity");

	CHECK(strcmp(r, "ok") == 0, "integrity after %s: %s", what, r);
	return strcmp(r, "ok") == 0;
}

static void
test_generate(void)
{
	volatile WireStats *st = wire_stats(&P.arena);
	Talk	   *t = generate("hello  brave new\nworld", false);
	Frame		f;
	const char *r;

	CHECK(talk_wait(t, &f, 5000) && f.kind == WF_PROGRESS &&
		  strcmp(frame_str(&f, WTAG_TEXT), "loading model \"m\"") == 0, "the first use says that it loads");
	CHECK(talk_wait(t, &f, 5000) && f.kind == WF_ACCEPTED && frame_int(&f, WTAG_PROMPT_TOKENS) == 22,
		  "accepted");
	CHECK(talk_wait(t, &f, 5000) && f.kind == WF_DONE && f.final, "done");
	CHECK(talk_state(t) == WS_CLOSED, "closed before the final frame can be read");
	CHECK(st->finished == 1 && st->requests == 1 && st->running == 0 && st->output_tokens == 4 &&
		  st->prompt_tokens == 22, "counted before the answer can be read");
	CHECK(strcmp(frame_str(&f, WTAG_TEXT), "HELLO BRAVE NEW WORLD") == 0, "%s", frame_str(&f, WTAG_TEXT));
	CHECK(strcmp(frame_str(&f, WTAG_FINISH_REASON), "stop") == 0, "finish reason");
	CHECK(frame_int(&f, WTAG_COMPLETION_TOKENS) == 4 && frame_int(&f, WTAG_E2E_US) > 0, "usage");
	CHECK(st->n_models == 1 && st->models[0].state == WM_READY &&
		  strcmp((const char *) st->models[0].name, "m") == 0 && st->models[0].requests == 1 &&
		  st->models[0].output_tokens == 4, "model row");
	talk_free(t);

	t = generate("a b c", true);
	for (int i = 0; i < 4; i++)
		CHECK(talk_wait(t, &f, 5000) && f.kind == (i == 0 ? WF_ACCEPTED : WF_TEXT), "stream frame %d: %d", i,
			  f.kind);
	CHECK(strcmp(frame_str(&f, WTAG_TEXT), " C") == 0, "last delta");
	CHECK(talk_wait(t, &f, 5000) && f.kind == WF_DONE && frame_str(&f, WTAG_TEXT)[0] == '\0',
		  "no text in the end");
	talk_free(t);

	r = answer(generate("", false));
	CHECK(strncmp(r, "22023: ", 7) == 0, "empty prompt: %s", r);
	r = answer(generate("x @error", false));
	CHECK(strcmp(r, "22023: fake error") == 0, "%s", r);
	CHECK(st->failed == 2, "failures are counted: %lld", (long long) st->failed);
	ends("generate");
}

static Talk *
with_field(WireKind kind, void (*add) (WireOut *o))
{
	Buf			b = {0};
	WireOut		o = peer_out(&b);
	Talk	   *t;

	put_model(&o, "m", "/fake/m");
	add(&o);
	t = talk_begin(&P, kind, &b);
	buf_free(&b);
	return t;
}

static void
add_bad_top_p(WireOut *o)
{
	put_text(o, WTAG_PROMPT, "x");
	wire_put_num(o, WTAG_TOP_P, 1.5);
}

static void
add_nan(WireOut *o)
{
	put_text(o, WTAG_PROMPT, "x");
	wire_put_num(o, WTAG_TEMPERATURE, 0.0 / 0.0);
}

static void
add_reply_field(WireOut *o)
{
	put_text(o, WTAG_PROMPT, "x");
	put_text(o, WTAG_FINISH_REASON, "stop");
}

static void
add_nothing(WireOut *o)
{
	(void) o;
}

static void
add_prompt(WireOut *o)
{
	put_text(o, WTAG_PROMPT, "ab\xc3\xa9");
}

static void
add_ids(WireOut *o)
{
	const int32_t ids[] = {104, 105};

	wire_put_ints(o, WTAG_PROMPT_IDS, ids, 2);
}

static void
add_bad_ids(WireOut *o)
{
	const int32_t ids[] = {104, 300};

	wire_put_ints(o, WTAG_PROMPT_IDS, ids, 2);
}

static void
test_bad_requests(void)
{
	WireMsg		m = {.magic = 7,.kind = WK_GENERATE,.len = 8};
	const char *r;

	r = answer(with_field(WK_GENERATE, add_bad_top_p));
	CHECK(strcmp(r, "22023: top_p must be greater than 0 and at most 1, got 1.5") == 0, "%s", r);
	r = answer(with_field(WK_GENERATE, add_nan));
	CHECK(strncmp(r, "22023: temperature", 18) == 0, "%s", r);
	r = answer(with_field(WK_GENERATE, add_reply_field));
	CHECK(strncmp(r, "XX000: unexpected field", 23) == 0, "%s", r);
	r = answer(with_field(WK_GENERATE, add_nothing));
	CHECK(strncmp(r, "XX000: ", 7) == 0, "%s", r);
	r = answer(talk_begin_raw(&P, &m, sizeof(m)));
	CHECK(strcmp(r, "XX000: malformed request message") == 0, "%s", r);
	m.magic = WIRE_MSG_MAGIC;
	m.kind = 99;
	r = answer(talk_begin_raw(&P, &m, sizeof(m)));
	CHECK(strcmp(r, "XX000: malformed request message") == 0, "%s", r);
	m.kind = WK_GENERATE;
	m.len = UINT64_C(1) << 60;
	r = answer(talk_begin_raw(&P, &m, sizeof(m)));
	CHECK(strncmp(r, "54000: ", 7) == 0, "%s", r);
	r = control("no-such-command");
	CHECK(strncmp(r, "22023: ", 7) == 0, "%s", r);
	ends("bad requests");
}

static void
test_tokenize(void)
{
	Talk	   *t = with_field(WK_TOKENIZE, add_prompt);
	Frame		f;
	WireField	v;
	const char *r;

	CHECK(talk_final(t, &f, 5000) && frame_int(&f, WTAG_COUNT) == 4 && frame_field(&f, WTAG_TOKEN_IDS, &v) &&
		  v.n == 4 && wire_int_at(&v, 3) == 0xa9, "tokenize");
	talk_free(t);
	r = answer(with_field(WK_DETOKENIZE, add_ids));
	CHECK(strcmp(r, "hi") == 0, "%s", r);
	r = answer(with_field(WK_DETOKENIZE, add_bad_ids));
	CHECK(strncmp(r, "22023: ", 7) == 0, "%s", r);
}

/* A prompt and an output of 16 MB through rings of 32 kB. */
static void
test_big(void)
{
	size_t		n = 16 << 20;
	char	   *p = malloc(n + 1);
	int64_t		start_us = clock_us();
	Talk	   *t;
	Frame		f;
	WireField	v;
	bool		same = true;

	memset(p, 'a', n);
	for (size_t i = 100; i < n; i += 1000)
		p[i] = ' ';
	p[n] = '\0';
	t = generate_n(p, n, false);
	CHECK(talk_final(t, &f, 30000) && f.kind == WF_DONE && frame_field(&f, WTAG_TEXT, &v) && v.n == n,
		  "whole answer");
	for (size_t i = 0; same && i < n; i++)
		same = v.s[i] == (p[i] == ' ' ? ' ' : 'A');
	CHECK(same, "answer is right");
	talk_free(t);
	printf("16 MB prompt and answer: %lld ms\n", (long long) (clock_us() - start_us) / 1000);
	free(p);
	ends("a big prompt");
}

/* A backend that reads late: everything waits in the engine, nothing is lost. */
static void
test_slow_reader(void)
{
	Talk	   *t = generate("@big:1000000", false);
	Talk	   *u;
	Frame		f;
	WireField	v;

	usleep(50000);
	u = generate("others go on", false);
	CHECK(strcmp(answer(u), "OTHERS GO ON") == 0, "a full ring blocks nobody else");
	CHECK(talk_state(t) == WS_OPEN, "not closed while bytes are left");
	CHECK(talk_final(t, &f, 10000) && frame_field(&f, WTAG_TEXT, &v) && v.n == 1000000, "all there");
	talk_free(t);
}

static void
test_cancel(void)
{
	static const char *const prompts[] = {"@hang", "@delay:60000", "@slow:20 @tokens:100000", "@big:1000000"};
	volatile WireStats *st = wire_stats(&P.arena);
	WireMsg		m = {.magic = WIRE_MSG_MAGIC,.kind = WK_GENERATE,.len = 100000};
	Talk	   *t;

	for (size_t i = 0; i < sizeof(prompts) / sizeof(prompts[0]); i++)
		for (int wait = 0; wait < 2; wait++)
		{
			t = generate(prompts[i], true);
			usleep(wait ? 20000 : 0);
			talk_cancel(t);
			CHECK(talk_wait_closed(t, 2000), "%s is closed", prompts[i]);
			CHECK(atomic_load(&wire_slot(&P.arena, t->slot)->let_go) == t->gen, "and let go");
			talk_free(t);
		}
	t = talk_begin_raw(&P, &m, sizeof(m));	/* while receiving */
	usleep(5000);
	talk_cancel(t);
	CHECK(talk_wait_closed(t, 2000), "cancelled while receiving");
	talk_free(t);
	EVENTUALLY(st->kv_blocks_used == 0 && st->running == 0);
	CHECK(st->kv_blocks_used == 0 && st->running == 0 && st->waiting == 0, "no blocks left: %lld",
		  (long long) st->kv_blocks_used);
	ends("cancels");
}

static Talk *
generate_regex(const char *prompt, const char *regex)
{
	Buf			b = {0};
	WireOut		o = peer_out(&b);
	Talk	   *t;

	put_model(&o, "m", "/fake/m");
	put_text(&o, WTAG_PROMPT, prompt);
	put_text(&o, WTAG_REGEX, regex);
	wire_put_int(&o, WTAG_MAX_TOKENS, 100);
	wire_put_num(&o, WTAG_TEMPERATURE, 0);
	t = talk_begin(&P, WK_GENERATE, &b);
	buf_free(&b);
	return t;
}

/*
 * While twelve requests wait for their grammars, one without a grammar is served.  And cancelled
 * requests' grammars are not compiled: the next request doesn't wait for those of twelve cancelled ones.
 */
static void
test_grammars(void)
{
	Talk	   *t[12];
	char		regex[16];
	int64_t		before;

	for (int i = 0; i < 12; i++)
	{
		snprintf(regex, sizeof(regex), "a{%d}", i + 1);
		t[i] = generate_regex("@encode:500 and some more words", regex);
	}
	before = clock_ns();
	CHECK(strcmp(answer(generate("no grammar", false)), "NO GRAMMAR") == 0, "another request");
	CHECK(clock_ns() - before < INT64_C(450000000) || peer_sanitized(&P), "it has waited for %lld ms",
		  (long long) (clock_ns() - before) / 1000000);
	for (int i = 0; i < 12; i++)
	{
		talk_cancel(t[i]);
		CHECK(talk_wait_closed(t[i], 2000), "cancelled while its grammar waits");
		talk_free(t[i]);
	}
	before = clock_ns();
	CHECK(strcmp(answer(generate_regex("b", "b+")), "b") == 0, "an answer");
	CHECK(clock_ns() - before < INT64_C(2000000000), "after %lld ms",
		  (long long) (clock_ns() - before) / 1000000);
	ends("grammars");
}

/* Cancelled slots are claimed again at once; late events must not reach the new owner. */
static void
test_reuse(void)
{
	volatile WireStats *st = wire_stats(&P.arena);
	long		rss0 = 0;
	int			fds0 = atoi(control("fds"));
	int			wrong = 0;

	for (int i = 0; i < 1000; i++)
	{
		Talk	   *t = generate(i % 2 ? "@slow:1 a b c d" : "@hang", true);
		Talk	   *u;

		if (i % 4 > 1)
			peer_wait(&P, 1);
		talk_cancel(t);
		talk_wait_closed(t, 2000);
		talk_free(t);
		u = generate("next one", false);	/* same slot */
		if (strcmp(answer(u), "NEXT ONE") != 0)
			wrong++;
		if (i == 200)
			rss0 = atol(control("rss"));
	}
	CHECK(wrong == 0, "%d of 1000 answers disturbed", wrong);
	CHECK(atoi(control("fds")) == fds0, "no file descriptor leaks");
	if (peer_sanitized(&P))
		check_skip(1, "RSS of a sanitized build");
	else
		CHECK(atol(control("rss")) - rss0 < 4 << 20, "RSS grew by %ld", atol(control("rss")) - rss0);
	EVENTUALLY(st->kv_blocks_used == 0);
	CHECK(st->kv_blocks_used == 0, "no blocks left");
	ends("1000 cancels");
}

/* A slot claimed again while the engine still handles its previous call. */
static void
test_turnover(void)
{
	int			wrong = 0;

	for (int i = 0; i < 5000 && wrong == 0; i++)
		wrong += strcmp(answer(generate("again", false)), "AGAIN") != 0;
	CHECK(wrong == 0, "5000 conversations on one slot");
	ends("turnover");
}

static void
test_many(void)
{
	Talk	   *t[16];
	char		prompt[64];
	int			right = 0;

	for (int round = 0; round < 50; round++)
	{
		for (int i = 0; i < 16; i++)
		{
			snprintf(prompt, sizeof(prompt), "@delay:%d row %d", i % 3, i);
			t[i] = generate(prompt, i % 2 == 0);
		}
		for (int i = 15; i >= 0; i--)
		{
			char		want[64];
			Buf			text = {0};
			Frame		f;

			snprintf(want, sizeof(want), "@DELAY:%d ROW %d", i % 3, i);
			do
				if (!talk_wait(t[i], &f, 5000))
					break;
				else
					buf_addstr(&text, frame_str(&f, WTAG_TEXT));
			while (!f.final);
			right += text.data != NULL && strstr(text.data, want) != NULL;
			buf_free(&text);
			talk_free(t[i]);
		}
	}
	CHECK(right == 800, "%d of 800 interleaved answers right", right);
	ends("many at once");
}

/* Whatever a broken backend writes, the engine survives and serves the others. */
static void
test_corrupt(void)
{
	unsigned	seed = 7;

	for (int i = 0; i < check_effort(60, CHECK_SLOW > 1 ? 60 : 100, 300); i++)
	{
		Talk	   *t = generate(i % 2 ? "@big:200000" : "@slow:1 @tokens:50", true);
		WireSlot   *s = wire_slot(&P.arena, t->slot);

		switch (rand_r(&seed) % 6)
		{
			case 0:
				atomic_store(&s->req_head, (uint32_t) rand_r(&seed) * 3);
				break;
			case 1:
				atomic_store(&s->rep_tail, (uint32_t) rand_r(&seed) * 3);
				break;
			case 2:
				atomic_store(&s->state, rand_r(&seed) % 5);
				break;
			case 3:
				atomic_fetch_add(&s->gen, 1);
				break;
			case 4:
				atomic_store(&P.h->to_engine.head, (uint32_t) rand_r(&seed));
				break;
			case 5:
				atomic_store(&s->req_tail, 12345);
				break;
		}
		talk_ring(t);
		usleep(300);
		talk_cancel(t);
		talk_wait_closed(t, 1000);
		talk_free(t);
	}
	CHECK(strcmp(answer(generate("still there", false)), "STILL THERE") == 0, "the engine serves on");
	usleep(50000);
	ends("corrupt backends");
}

static void
test_idle(void)
{
	double		before = cpu_seconds(P.pid);
	int64_t		beat = atomic_load(&P.h->heartbeat_us);

	sleep(2);
	CHECK(cpu_seconds(P.pid) - before <= 0.02, "idle engine uses no CPU: %.3f s",
		  cpu_seconds(P.pid) - before);
	CHECK(atomic_load(&P.h->heartbeat_us) > beat, "but its heart beats");
	EVENTUALLY(atomic_load(&P.h->busy) == 0);
	CHECK(atomic_load(&P.h->busy) == 0, "not busy");
}

static void
test_settings(void)
{
	bool		slow = false;
	int64_t		begun = clock_us();

	peer_send(&P, "config fake_step_ms=50\nconfig nonsense=1\nconfig fake_batch=0\n");
	/* the engine reads it in its own time */
	while (!slow && clock_us() - begun < 10000000)
	{
		int64_t		t0 = clock_us();

		CHECK(strcmp(answer(generate("slow step", false)), "SLOW STEP") == 0,
			  "an answer with other settings");
		slow = clock_us() - t0 >= 50000;
	}
	CHECK(slow, "config took effect");
	peer_send(&P, "config fake_step_ms=0\n");
	usleep(20000);
}

static void
test_crash_and_stall(void)
{
	Talk	   *t;
	uint64_t	steps;
	Talk	   *u;

	start(fake_args, 16, 4096);
	answer(generate("warm up", false));
	t = generate("@stall", false);
	usleep(100000);
	steps = atomic_load(&P.h->step_counter);
	usleep(100000);
	CHECK(atomic_load(&P.h->busy) == 1 && atomic_load(&P.h->step_counter) == steps,
		  "stalled: busy and no step");
	CHECK(strcmp(control("ping"), "pong") == 0, "the server thread answers all the same");
	u = generate("waits", false);
	talk_cancel(u);
	CHECK(talk_wait_closed(u, 1000), "and cancels");
	talk_free(u);
	talk_free(t);
	peer_send(&P, "stop\n");
	CHECK(peer_exit_status(&P, 2000) == 0, "stop works while stalled");
	peer_free(&P);

	start(fake_args, 16, 4096);
	t = generate("@crash", false);
	CHECK(peer_exit_status(&P, 5000) == 1000 + SIGABRT, "@crash aborts");
	talk_free(t);
	peer_free(&P);
}

static void
test_start_and_end(void)
{
	static const char *const bad_set[] = {"--fake", "--set", "max_num_seqs=-1", NULL};
	static const char *const unknown[] = {"--fake", "--set", "nonsense=1", NULL};
	WireMsg		m = {.magic = WIRE_MSG_MAGIC,.kind = WK_COUNT,.len = 1};

	start(fake_args, 16, 4096);
	close(P.ctl);
	P.ctl = -1;
	CHECK(peer_exit_status(&P, 2000) == 0, "end of file on the control socket ends the engine");
	peer_free(&P);

	peer_arena(&P, 16, 4096, 1 << 20);
	P.h->geo.version = WIRE_VERSION + 1;
	peer_spawn(&P, fake_args);
	CHECK(peer_exit_status(&P, 2000) == ENGINE_EXIT_VERSION, "wrong version");
	CHECK(!P.hello, "without a hello");
	P.h->geo.version = WIRE_VERSION;
	peer_kill(&P);
	peer_spawn(&P, bad_set);
	CHECK(peer_exit_status(&P, 2000) == ENGINE_EXIT_USAGE, "bad setting");
	peer_kill(&P);
	peer_spawn(&P, unknown);
	CHECK(peer_exit_status(&P, 2000) == ENGINE_EXIT_USAGE, "unknown setting");
	peer_kill(&P);

	/* requests queued before the engine runs are served when it starts */
	{
		Talk	   *t = generate("early bird", false);

		peer_spawn(&P, fake_args);
		CHECK(strcmp(answer(t), "EARLY BIRD") == 0, "a request that was waiting");
		t = talk_begin_raw(&P, &m, sizeof(m));
		CHECK(strncmp(answer(t), "XX000", 5) == 0, "kind out of range");
	}
	peer_kill(&P);
	peer_free(&P);
}

static void
bench(void)
{
	const int	n = 5000;
	int64_t		t0;
	size_t		size = 16 << 20;
	char	   *p = malloc(size);

	start(fake_args, 256, 32768);
	answer(generate("warm up", false));
	t0 = clock_us();
	for (int i = 0; i < n; i++)
		control("ping");
	printf("control round trip: %.1f us\n", (double) (clock_us() - t0) / n);
	t0 = clock_us();
	for (int i = 0; i < n; i++)
		answer(generate("hello", false));
	printf("generate round trip: %.1f us\n", (double) (clock_us() - t0) / n);
	memset(p, 'a', size);
	for (int i = 0; i < 4; i++)
	{
		Talk	   *t;
		Frame		f;

		if (i == 2)
			memcpy(p, "@tokens:1 ", 10);
		t0 = clock_us();
		t = generate_n(p, size, false);
		talk_final(t, &f, 30000);
		printf("16 MB prompt, %s answer: %.1f ms\n", i < 2 ? "16 MB" : "short",
			   (double) (clock_us() - t0) / 1000);
		talk_free(t);
	}
	free(p);
	stop();
}

int
main(int argc, char **argv)
{
	peer_find_engine(&P);
	if (argc > 1)
		snprintf(P.engine, sizeof(P.engine), "%s", argv[1]);
	if (argc > 2)
	{
		bench();
		return 0;
	}
	signal(SIGPIPE, SIG_IGN);
	start(fake_args, 32, 32768);
	RUN(test_generate());
	RUN(test_bad_requests());
	RUN(test_tokenize());
	RUN(test_big());
	RUN(test_slow_reader());
	RUN(test_cancel());
	RUN(test_grammars());
	RUN(test_reuse());
	RUN(test_turnover());
	RUN(test_many());
	RUN(test_settings());
	RUN(test_corrupt());
	RUN(test_idle());
	stop();
	RUN(test_crash_and_stall());
	RUN(test_start_and_end());
	return check_done("test_server");
}
