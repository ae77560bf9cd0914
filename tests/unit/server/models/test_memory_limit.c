/*
 * test_memory_limit.c
 *	  Several models under a memory limit (--fake): which are unloaded for others, which requests wait or
 *	  fail; keep-alive.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "tests/unit/wire_peer.h"

#include "tests/unit/check.h"

static Peer P;
static volatile WireStats *st;

static char dir[] = "/tmp/test_room_XXXXXX";

#define SIZE	"{\"kv_cache_memory_bytes\": 60000000}"
#define SMALL	"{\"kv_cache_memory_bytes\": 24000000}"

/* lora: NULL or the name of an adapter in dir */
static Talk *
call_with(const char *model, const char *options, const char *lora, const char *prompt)
{
	Buf			b = {0};
	WireOut		o = peer_out(&b);
	Talk	   *t;
	char		path[128];

	snprintf(path, sizeof(path), "/fake/%s", model);
	wire_put_int(&o, WTAG_DATABASE, 1);
	wire_put_int(&o, WTAG_SESSION, 1);
	wire_put_str(&o, WTAG_MODEL, model, strlen(model));
	wire_put_str(&o, WTAG_MODEL_PATH, path, strlen(path));
	wire_put_str(&o, WTAG_MODEL_OPTIONS, options, strlen(options));
	if (lora != NULL)
	{
		wire_put_str(&o, WTAG_LORA, lora, strlen(lora));
		snprintf(path, sizeof(path), "%s/%s", dir, lora);
		wire_put_str(&o, WTAG_LORA_PATH, path, strlen(path));
	}
	wire_put_str(&o, WTAG_PROMPT, prompt, strlen(prompt));
	t = talk_begin(&P, WK_GENERATE, &b);
	buf_free(&b);
	return t;
}

static Talk *
run(const char *model, const char *options, const char *prompt)
{
	return call_with(model, options, NULL, prompt);
}

static Talk *
call_lora(const char *model, const char *lora, const char *prompt)
{
	return call_with(model, SIZE, lora, prompt);
}

/* Send a command about a model that the engine knows. */
static Talk *
command_of(const char *what, const char *model)
{
	Buf			b = {0};
	WireOut		o = peer_out(&b);
	Talk	   *t;

	wire_put_int(&o, WTAG_DATABASE, 1);
	wire_put_str(&o, WTAG_MODEL, model, strlen(model));
	wire_put_str(&o, WTAG_COMMAND, what, strlen(what));
	t = talk_begin(&P, WK_CONTROL, &b);
	buf_free(&b);
	return t;
}

/* "text", or "SQLSTATE: message / detail" */
static const char *
result(Talk *t)
{
	static char buf[2048];
	Frame		f;
	bool		final = false;

	snprintf(buf, sizeof(buf), "no final frame");
	while (!final && talk_wait(t, &f, 20000))
	{
		final = f.final;
		if (f.kind == WF_ERROR)
			snprintf(buf, sizeof(buf), "%s: %s / %s", frame_str(&f, WTAG_SQLSTATE),
					 frame_str(&f, WTAG_MESSAGE), frame_str(&f, WTAG_DETAIL));
		else if (final)
			snprintf(buf, sizeof(buf), "%s", frame_str(&f, WTAG_TEXT));
	}
	talk_wait_closed(t, 2000);
	talk_free(t);
	return buf;
}

static void
is(const char *got, const char *want, const char *what)
{
	CHECK(strcmp(got, want) == 0, "%s: \"%s\" instead of \"%s\"", what, got, want);
}

static void
starts(const char *got, const char *want, const char *what)
{
	CHECK(strncmp(got, want, strlen(want)) == 0, "%s: \"%s\" instead of \"%s\"", what, got, want);
}

static uint32_t
state_of(const char *model)
{
	for (uint32_t i = 0; i < st->n_models; i++)
		if (strcmp((const char *) st->models[i].name, model) == 0)
			return st->models[i].state;
	return WM_UNUSED;
}

static void
set(const char *line)
{
	peer_send(&P, line);
	usleep(50000);
}

/* Wait until all models may be unloaded. */
static void
settle(void)
{
	usleep(300000);
}

static void
test_least_recent(void)
{
	is(result(run("a", SIZE, "one")), "ONE", "a");
	is(result(run("b", SIZE, "two")), "TWO", "b fits beside it");
	CHECK(state_of("a") == WM_READY && state_of("b") == WM_READY, "both are there");
	is(result(run("a", SIZE, "three")), "THREE", "a again");
	settle();
	is(result(run("c", SIZE, "four")), "FOUR", "c takes the room of b");
	CHECK(state_of("a") == WM_READY && state_of("b") == WM_UNLOADED && state_of("c") == WM_READY,
		  "b was used longest ago: %u %u %u", state_of("a"), state_of("b"), state_of("c"));
	settle();
	is(result(run("b", SIZE, "five")), "FIVE", "b takes that of a");
	CHECK(state_of("a") == WM_UNLOADED && state_of("c") == WM_READY, "a was used longest ago");
	starts(result(run("giant", "{\"kv_cache_memory_bytes\": 300000000}", "x")),
		   "53200: not enough memory for model \"giant\" / It needs 286 MB; of 128 MB", "too large");
	CHECK(state_of("b") == WM_READY && state_of("c") == WM_READY, "nobody had to go for that");
}

static void
test_busy(void)
{
	Talk	   *b;
	Talk	   *c;
	Talk	   *a;

	settle();
	b = run("b", SIZE, "@delay:1200 busy");
	c = run("c", SIZE, "@delay:700 busy");
	usleep(30000);
	a = run("a", SIZE, "patient");
	is(result(a), "PATIENT", "a waits for the first that is idle");
	CHECK(state_of("c") == WM_UNLOADED && state_of("b") == WM_READY, "c was");
	starts(result(c), "@DELAY:700", "c is not disturbed");
	starts(result(b), "@DELAY:1200", "nor b");

	/* waiting requests may be cancelled */
	b = run("b", SIZE, "@delay:800 busy");
	a = run("a", SIZE, "@delay:800 busy");
	usleep(30000);
	c = run("c", SIZE, "impatient");
	usleep(30000);
	talk_cancel(c);
	CHECK(talk_wait_closed(c, 3000), "cancelled");
	talk_free(c);
	starts(result(a), "@DELAY", "a");
	starts(result(b), "@DELAY", "b");
	usleep(100000);
	CHECK(state_of("a") == WM_READY && state_of("b") == WM_READY && state_of("c") == WM_UNLOADED,
		  "nobody had to go for who went away");
	is(result(talk_command(&P, "integrity")), "ok", "integrity");
}

/* A lowered limit applies to loaded models: idle ones are unloaded, busy ones when they become idle. */
static void
test_lowered(void)
{
	Talk	   *t;

	set("config memory_limit=300\n");
	settle();
	is(result(run("a", SIZE, "one")), "ONE", "a");
	is(result(run("b", SIZE, "two")), "TWO", "b");
	is(result(run("c", SIZE, "three")), "THREE", "c");
	settle();
	is(result(run("b", SIZE, "four")), "FOUR", "b again");
	CHECK(state_of("a") == WM_READY && state_of("c") == WM_READY, "all three");
	set("config memory_limit=128\n");
	EVENTUALLY(state_of("a") == WM_UNLOADED);
	usleep(700000);
	CHECK(state_of("a") == WM_UNLOADED && state_of("b") == WM_READY && state_of("c") == WM_READY,
		  "a was used longest ago: %u %u %u", state_of("a"), state_of("b"), state_of("c"));
	t = run("b", SIZE, "@delay:4000 busy");
	usleep(30000);
	set("config memory_limit=50\n");
	EVENTUALLY(state_of("c") == WM_UNLOADED);
	CHECK(state_of("b") == WM_READY && state_of("c") == WM_UNLOADED, "who is busy stays: %u %u",
		  state_of("b"), state_of("c"));
	starts(result(t), "@DELAY", "b");
	EVENTUALLY(state_of("b") == WM_UNLOADED);
	CHECK(state_of("b") == WM_UNLOADED, "... until it is idle");
	set("config memory_limit=128\n");
	is(result(run("b", SIZE, "five")), "FIVE", "there is room again");
}

static void
test_timeout(void)
{
	Talk	   *a;
	Talk	   *b;
	const char *r;

	set("config memory_timeout_ms=300\n");
	a = run("a", SIZE, "@delay:1500 busy");
	b = run("b", SIZE, "@delay:1500 busy");
	usleep(30000);
	r = result(run("c", SIZE, "x"));
	starts(r, "53200: not enough memory for model \"c\" / It needs 57 MB; of 128 MB (vllm.memory_limit) 114 "
			  "MB are taken: ", "timeout");
	CHECK(strstr(r, "\"a\" 57 MB (busy)") != NULL && strstr(r, "\"b\" 57 MB (busy)") != NULL, "%s", r);
	starts(result(a), "@DELAY", "a");
	starts(result(b), "@DELAY", "b");
	is(result(run("c", SIZE, "now")), "NOW", "another try");
	set("config memory_timeout_ms=20000\n");
}

static void
test_pinned(void)
{
	static const char pin[] = "{\"kv_cache_memory_bytes\": 60000000, \"keep_alive\": -1}";

	is(result(run("p", pin, "pinned")), "PINNED", "p");
	is(result(run("q", SIZE, "other")), "OTHER", "q");
	is(result(run("p", pin, "pinned")), "PINNED", "p");
	is(result(run("q", SIZE, "other")), "OTHER", "q");
	settle();
	is(result(run("r", SIZE, "third")), "THIRD", "r");
	CHECK(state_of("p") == WM_READY && state_of("q") == WM_UNLOADED,
		  "a pinned model stays though it is older");
}

/* New weights for a model that is being loaded: waiting requests get the new ones. */
static void
test_update_of_load(void)
{
	Talk	   *t = run("slow:600", SIZE, "hello");

	usleep(200000);
	CHECK(state_of("slow:600") == WM_LOADING, "on its way");
	is(result(command_of("update-weights wait", "slow:600")), "ok", "update");
	is(result(t), "HELLO", "who has waited before");
	is(result(talk_command(&P, "integrity")), "ok", "integrity");
}

static const char large[] = "{\"kv_cache_memory_bytes\": 100000000}";

/* Each wake-up that needs memory may wait for the whole vllm.memory_timeout. */
static void
test_wake_waits(void)
{
	set("config memory_timeout_ms=2000\n");
	is(result(run("w", large, "one")), "ONE", "w");
	for (int i = 0; i < 2; i++)
	{
		Talk	   *v;

		is(result(command_of("sleep 1 wait", "w")), "ok", "asleep");
		is(result(run("v", large, "two")), "TWO", "v has the room");
		settle();
		v = run("v", large, "@delay:900 busy");
		usleep(30000);
		is(result(command_of("wake 7", "w")), "ok", "woken when v is idle");
		starts(result(v), "@DELAY:900", "v");
		is(result(run("w", large, "again")), "AGAIN", "w");
		/* longer than the timeout since its first try */
		usleep(1500000);
	}
	set("config memory_timeout_ms=20000\n");
}

/* A model that wakes up gets memory even if another model is never idle. */
static void
test_wake_among_busy(void)
{
	int64_t		end = clock_us() + INT64_C(15000000);
	Talk	   *t[2];
	Talk	   *wake = NULL;
	Frame		f;
	bool		woken = false;

	is(result(command_of("sleep 1 wait", "w")), "ok", "asleep");
	for (int i = 0; i < 2; i++)
		t[i] = run("v", large, i ? "@delay:90 go" : "@delay:60 go");
	usleep(300000);
	wake = command_of("wake 7", "w");
	while (!woken && clock_us() < end)
	{
		for (int i = 0; i < 2; i++)
		{
			bool		final = false;

			while (!final && talk_wait(t[i], &f, 5))
				final = f.final;
			if (!final)
				continue;
			CHECK(f.kind == WF_DONE, "%s: %s", frame_str(&f, WTAG_MESSAGE), frame_str(&f, WTAG_DETAIL));
			talk_wait_closed(t[i], 2000);
			talk_free(t[i]);
			t[i] = run("v", large, i ? "@delay:90 go" : "@delay:60 go");
		}
		woken = talk_wait(wake, &f, 1);
	}
	CHECK(woken && f.kind == WF_DONE, "the wake: %s", woken ? frame_str(&f, WTAG_DETAIL) : "no answer");
	talk_wait_closed(wake, 10000);
	talk_free(wake);
	for (int i = 0; i < 2; i++)
		starts(result(t[i]), "@DELAY", "the last ones");
	is(result(talk_command(&P, "integrity")), "ok", "integrity");
}

/* An update for which there is no memory besides the model disturbs no model, least of all its own. */
static void
test_update_without_room(void)
{
	Talk	   *u;

	is(result(run("u", large, "before")), "BEFORE", "u");
	usleep(2200000);
	set("config memory_timeout_ms=4000\n");
	u = command_of("update-weights wait", "u");
	usleep(3000000);
	/* the update has waited for longer than a load waits until it makes another model leave */
	{
		Talk	   *t = run("u", large, "meanwhile");
		Frame		f;
		bool		final = false;

		while (!final && talk_wait(t, &f, 500))
			final = f.final;
		CHECK(final && f.kind == WF_DONE, "it serves while its update waits");
		talk_wait_closed(t, 5000);
		talk_free(t);
	}
	starts(result(u), "53200: not enough memory for model", "the update");
	is(result(run("u", large, "after")), "AFTER", "u");
	set("config memory_timeout_ms=20000\n");
}

/* Two models that don't fit together and are never idle take turns. */
static void
test_turns(void)
{
	static const char size[] = "{\"kv_cache_memory_bytes\": 100000000}";
	int64_t		end = clock_us() + INT64_C(9000000);
	int			n[2] = {0, 0};
	int			loads = 0;
	size_t		from = P.text.len;
	Talk	   *t[2][2];

	/* the pinned one's options have changed: it is unloaded */
	is(result(run("p", SIZE, "free")), "FREE", "p");
	for (int m = 0; m < 2; m++)
		for (int i = 0; i < 2; i++)
			t[m][i] = run(m ? "x" : "y", size, i ? "@delay:90 go" : "@delay:60 go");
	while (clock_us() < end)
		for (int m = 0; m < 2; m++)
			for (int i = 0; i < 2; i++)
			{
				Frame		f;
				bool		final = false;

				while (!final && talk_wait(t[m][i], &f, 5))
					final = f.final;
				if (!final)
					continue;
				CHECK(f.kind == WF_DONE, "%s: %s", frame_str(&f, WTAG_MESSAGE), frame_str(&f, WTAG_DETAIL));
				n[m]++;
				talk_wait_closed(t[m][i], 2000);
				talk_free(t[m][i]);
				t[m][i] = run(m ? "x" : "y", size, i ? "@delay:90 go" : "@delay:60 go");
			}
	CHECK(n[0] > 10 && n[1] > 10, "%d and %d answers", n[0], n[1]);
	peer_drain_log(&P);
	for (const char *p = P.text.data + from; (p = strstr(p, "model loaded from")) != NULL; p++)
		loads++;
	CHECK(loads <= 46, "%d loads in 9 seconds", loads);
	for (int m = 0; m < 2; m++)
		for (int i = 0; i < 2; i++)
			starts(result(t[m][i]), "@DELAY", "the last ones");
	is(result(talk_command(&P, "integrity")), "ok", "integrity");
}

/* Make an adapter's file of `mb` megabytes, which is sparse. */
static void
make_lora(const char *name, int mb)
{
	char		path[128];
	int			fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	CHECK(mkdir(path, 0700) == 0, "%s", path);
	snprintf(path, sizeof(path), "%s/%s/adapter_model.safetensors", dir, name);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	CHECK(fd >= 0 && ftruncate(fd, (off_t) mb << 20) == 0, "%s", path);
	close(fd);
}

static int64_t
takes(const char *model)
{
	for (uint32_t i = 0; i < st->n_models; i++)
		if (strcmp((const char *) st->models[i].name, model) == 0)
			return st->models[i].memory_bytes >> 20;
	return -1;
}

static void
test_adapters(void)
{
	char		cmd[128];
	Talk	   *t;
	Talk	   *second;
	const char *r;

	CHECK(mkdtemp(dir) != NULL, "a directory");
	make_lora("x", 30);
	make_lora("y", 30);
	make_lora("z", 30);
	make_lora("giant", 80);
	settle();
	/* two next to the model, which is alone; a third one replaces the first */
	is(result(call_lora("la", "x", "one")), "[x] ONE", "x");
	is(result(call_lora("la", "y", "two")), "[y] TWO", "y");
	CHECK(takes("la") == 117, "model and adapters: %lld", (long long) takes("la"));
	is(result(call_lora("la", "z", "three")), "[z] THREE", "z instead of x");
	CHECK(takes("la") == 117, "model and adapters: %lld", (long long) takes("la"));
	starts(result(call_lora("la", "giant", "x")),
		   "53200: not enough memory for adapter \"giant\" / It needs 81920 kB; of 128 MB", "too large");
	CHECK(takes("la") == 117, "nobody had to go for that: %lld", (long long) takes("la"));
	/* one of two models is enough, and no other one is unloaded before its memory is free */
	is(result(run("s1", SMALL, "small")), "SMALL", "s1");
	is(result(run("s2", SMALL, "too")), "TOO", "s2");
	settle();
	t = talk_command(&P, "sleep-step 500");
	usleep(50000);
	is(result(call_lora("la", "x", "three and a half")), "[x] THREE AND A HALF", "x instead of s1");
	CHECK(state_of("s1") == WM_UNLOADED && state_of("s2") == WM_READY, "only s1 has gone: %u %u",
		  state_of("s1"), state_of("s2"));
	result(t);
	/* a model gets the memory of unused adapters, and an adapter of its own gets that of a model */
	is(result(run("lb", SIZE, "four")), "FOUR", "b beside a");
	CHECK(state_of("la") == WM_READY && state_of("lb") == WM_READY, "a without adapters: %u %u",
		  state_of("la"), state_of("lb"));
	settle();
	is(result(call_lora("la", "x", "five")), "[x] FIVE", "x instead of b");
	CHECK(state_of("la") == WM_READY && state_of("lb") == WM_UNLOADED, "b has gone: %u %u", state_of("la"),
		  state_of("lb"));
	/* the memory of busy models is waited for, */
	is(result(call_lora("la", "y", "six")), "[y] SIX", "y");
	t = call_lora("la", "x", "@delay:700 seven");
	usleep(30000);
	r = result(call_lora("la", "z", "eight"));
	is(r, "[z] EIGHT", "z instead of y");
	starts(result(t), "[x] ", "x");
	settle();
	is(result(run("lb", SIZE, "nine")), "NINE", "b");
	t = run("lb", SIZE, "@delay:700 ten");
	usleep(30000);
	is(result(call_lora("la", "x", "eleven")), "[x] ELEVEN", "x waits for b");
	starts(result(t), "@DELAY", "b");
	/* But not forever. */
	settle();
	is(result(run("lb", SIZE, "twelve")), "TWELVE", "b");
	set("config memory_timeout_ms=500\n");
	t = run("lb", SIZE, "@delay:900 thirteen");
	usleep(30000);
	second = call_lora("la", "y", "y");
	r = result(call_lora("la", "x", "x"));
	starts(r, "53200: not enough memory for adapter \"x\" / It needs 30720 kB; of 128 MB (vllm.memory_limit) "
			  "114 MB are taken: ", "timeout");
	/* all wait at the same time */
	starts(result(second), "53200: not enough memory for adapter \"y\"", "timeout of the second");
	starts(result(t), "@DELAY", "b");
	set("config memory_timeout_ms=20000\n");
	settle();
	is(result(run("lb", SIZE, "x")), "X", "b");
	/* without a limit they are only counted */
	set("config memory_limit=0\n");
	is(result(call_lora("la", "giant", "x")), "[giant] X", "giant");
	set("config memory_limit=128\n");
	is(result(run("lb", SIZE, "x")), "X", "b goes on");
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	CHECK(system(cmd) == 0, "%s", cmd);
}

static void
test_keep_alive(void)
{
	is(result(run("k", "{\"keep_alive\": \"1s\", \"kv_cache_memory_bytes\": 1000000}", "short")), "SHORT",
	   "k");
	CHECK(state_of("k") == WM_READY, "there");
	for (int i = 0; i < 4; i++)
	{
		usleep(500000);
		is(result(run("k", "{\"keep_alive\": \"1s\", \"kv_cache_memory_bytes\": 1000000}", "again")), "AGAIN",
		   "k");
		CHECK(state_of("k") == WM_READY, "a call prolongs it");
	}
	EVENTUALLY(state_of("k") == WM_UNLOADED);
	CHECK(state_of("k") == WM_UNLOADED, "nobody has asked for it");
	is(result(run("z", "{\"keep_alive\": 0, \"kv_cache_memory_bytes\": 1000000}", "@delay:1500 zero")),
	   "@DELAY:1500 ZERO", "busy for longer than that");
	EVENTUALLY(state_of("z") == WM_UNLOADED);
	CHECK(state_of("z") == WM_UNLOADED, "keep_alive 0");
	set("config keep_alive=1\n");
	is(result(run("d", "{\"kv_cache_memory_bytes\": 1000000}", "default")), "DEFAULT", "d");
	is(result(run("f", "{\"kv_cache_memory_bytes\": 1000000, \"keep_alive\": \"2 h\"}", "for ever")),
	   "FOR EVER", "f");
	EVENTUALLY(state_of("d") == WM_UNLOADED);
	CHECK(state_of("d") == WM_UNLOADED && state_of("f") == WM_READY,
		  "the setting's, but for those with one of their own");
	starts(result(run("g", "{\"keep_alive\": \"soon\"}", "x")),
		   "22023: model option \"keep_alive\" must be seconds, a text such as \"5min\", or -1 (for ever), "
		   "got \"soon\"", "bad");
	starts(result(run("g", "{\"keep_alive\": -5}", "x")), "22023: model option \"keep_alive\" must be",
		   "bad");
}

int
main(int argc, char **argv)
{
	static const char *const args[] = {"--fake", "--set", "memory_limit=128", "--set",
									   "memory_timeout_ms=20000", NULL};

	if (!peer_start(&P, argc, argv, args, 64, 16384, 1 << 20))
		return check_done("test_memory_limit");
	st = wire_stats(&P.arena);
	RUN(test_least_recent());
	RUN(test_busy());
	RUN(test_lowered());
	RUN(test_timeout());
	RUN(test_pinned());
	RUN(test_update_of_load());
	RUN(test_turns());
	RUN(test_wake_waits());
	RUN(test_wake_among_busy());
	RUN(test_update_without_room());
	RUN(test_adapters());
	RUN(test_keep_alive());
	peer_end(&P);
	return check_done("test_memory_limit");
}
