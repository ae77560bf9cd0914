/*
 * test_sleep.c
 *	  Models that sleep, with the real core: every level and mode, with requests in flight; memory is
 *	  freed, and outputs are the same afterwards.
 */
#include "tests/unit/wire_peer.h"

#include "tests/unit/check.h"

#define MODEL "build/fixtures/models/llama_f32"
#define OTHER "build/fixtures/models/qwen2_f32"

static Peer P;
static volatile WireStats *st;

static Talk *
send_call(WireKind kind, int db, const char *model, const char *path, const char *prompt, const char *command,
		  int max_tokens, bool wait)
{
	Buf			b = {0};
	WireOut		o = peer_out(&b);
	Talk	   *t;

	wire_put_int(&o, WTAG_DATABASE, db);
	wire_put_int(&o, WTAG_SESSION, db);
	if (wait)
		wire_put_int(&o, WTAG_SLEEP_WAIT, 1);
	if (model != NULL)
		wire_put_str(&o, WTAG_MODEL, model, strlen(model));
	if (path != NULL)
		wire_put_str(&o, WTAG_MODEL_PATH, path, strlen(path));
	if (prompt != NULL)
		wire_put_str(&o, WTAG_PROMPT, prompt, strlen(prompt));
	if (command != NULL)
		wire_put_str(&o, WTAG_COMMAND, command, strlen(command));
	if (kind == WK_GENERATE)
	{
		wire_put_int(&o, WTAG_MAX_TOKENS, max_tokens);
		wire_put_num(&o, WTAG_TEMPERATURE, 0);
		wire_put_int(&o, WTAG_IGNORE_EOS, 1);
	}
	t = talk_begin(&P, kind, &b);
	buf_free(&b);
	return t;
}

/* Return the output's text, or "SQLSTATE: message"; *cached: CACHED_TOKENS. */
static char *
result(Talk *t, int64_t *cached)
{
	Buf			b = {0};
	Frame		f;
	bool		final = false;

	while (!final && talk_wait(t, &f, 30000))
	{
		final = f.final;
		if (f.kind == WF_ERROR)
			buf_printf(&b, "%s: %s", frame_str(&f, WTAG_SQLSTATE), frame_str(&f, WTAG_MESSAGE));
		else if (f.kind != WF_PROGRESS)
			buf_addstr(&b, frame_str(&f, WTAG_TEXT));
		if (final && cached != NULL)
			*cached = frame_int(&f, WTAG_CACHED_TOKENS);
	}
	if (!final)
		buf_addstr(&b, " (no final frame)");
	talk_wait_closed(t, 5000);
	talk_free(t);
	buf_addstr(&b, "");
	return b.data;
}

static const char *prompt = "The quick brown fox jumps over the lazy dog and runs away";

static Talk *
gen(int db, const char *path, int n, bool wait)
{
	return send_call(WK_GENERATE, db, "m", path, prompt, NULL, n, wait);
}

/* Return the reply to a command; model: of database db. */
static const char *
command(const char *what, int db, const char *model)
{
	static char buf[1024];
	char	   *r = result(send_call(WK_CONTROL, db, model, NULL, NULL, what, 0, false), NULL);

	snprintf(buf, sizeof(buf), "%s", r);
	free(r);
	return buf;
}

static void
is(Talk *t, const char *want, const char *what)
{
	char	   *r = result(t, NULL);

	CHECK(strcmp(r, want) == 0, "%s: \"%s\" instead of \"%s\"", what, r, want);
	free(r);
}

static void
said(const char *what, const char *want)
{
	const char *r = command(what, 0, NULL);

	CHECK(strcmp(r, want) == 0, "%s: %s", what, r);
}

static int
row(int db)
{
	for (uint32_t i = 0; i < st->n_models; i++)
		if ((int) st->models[i].dboid == db)
			return (int) i;
	return -1;
}

static void
nap(void)
{
	usleep(30000);
}

/* Make the next step slow, so that requests sent now are in flight for a while. */
static void
slow(void)
{
	said("sleep-step 300", "ok");
}

/* Every level: the same text afterwards, with nothing cached. */
static void
test_levels(const char *want)
{
	int64_t		cached = -1;

	for (int level = 0; level <= 2; level++)
	{
		char		cmd[32];
		char	   *r;

		snprintf(cmd, sizeof(cmd), "sleep %d wait", level);
		said(cmd, "ok");
		said("is-sleeping", "t");
		said("is-paused", "t");
		CHECK(st->models[row(1)].asleep != 0 && st->models[row(1)].sleep_level == level, "shown");
		said("integrity", "ok");
		if (level > 0)
			is(gen(1, MODEL, 20, false), "55000: model \"m\" is asleep", "an error while it sleeps");
		if (level < 2)
		{
			char	   *n = result(send_call(WK_TOKENIZE, 1, "m", MODEL, "Hello", NULL, 0, false), NULL);

			CHECK(strchr(n, ':') == NULL, "the tokenizer is awake: %s", n);
			free(n);
		}
		said("wake 7", "ok");
		said("is-sleeping", "f");
		r = result(gen(1, MODEL, 20, false), &cached);
		CHECK(strcmp(r, want) == 0, "level %d: the same text: %s", level, r);
		CHECK(level == 0 || cached == 0, "level %d: %lld tokens were cached", level, (long long) cached);
		free(r);
		said("integrity", "ok");
	}
	/* asleep already, and to a deeper level */
	said("sleep 1 abort", "ok");
	said("sleep 1 abort", "ok");
	said("sleep 2 abort", "ok");
	said("sleep 0 keep", "ok");
	CHECK(st->models[row(1)].sleep_level == 2 && st->models[row(1)].state == WM_UNLOADED, "level 2");
	said("wake 7", "ok");
	said("wake 7", "ok");
	is(gen(1, MODEL, 20, false), want, "awake again");
}

static void
test_tags(const char *want)
{
	Talk	   *t;

	said("sleep 1 abort", "ok");
	said("wake 4", "ok");
	said("is-sleeping", "t");
	said("wake 1", "ok");
	said("is-sleeping", "t");
	t = gen(1, MODEL, 20, true);
	nap();
	CHECK(atomic_load(&wire_slot(&P.arena, t->slot)->phase) == WP_ASLEEP, "it waits");
	said("wake 2", "ok");
	said("is-sleeping", "f");
	is(t, want, "all parts are back");
}

static void
test_modes(const char *want, const char *long_want)
{
	Talk	   *t[6];

	for (int level = 0; level <= 2; level++)
	{
		char		cmd[32];

		/* abort: requests in flight fail, later ones wait */
		slow();
		for (int i = 0; i < 6; i++)
			t[i] = gen(1, MODEL, 200, false);
		nap();
		snprintf(cmd, sizeof(cmd), "sleep %d abort", level);
		said(cmd, "ok");
		for (int i = 0; i < 6; i++)
			is(t[i], level == 0 ? "55000: model \"m\" was paused" : "55000: model \"m\" was put to sleep",
			   "aborted");
		t[0] = gen(1, MODEL, 20, true);
		said("integrity", "ok");
		said("wake 7", "ok");
		is(t[0], want, "waited");

		/* keep: they continue */
		slow();
		for (int i = 0; i < 6; i++)
			t[i] = gen(1, MODEL, 200, false);
		nap();
		snprintf(cmd, sizeof(cmd), "sleep %d keep", level);
		said(cmd, "ok");
		said("integrity", "ok");
		CHECK(level == 0 || st->kv_blocks_used == 0, "%lld blocks are held", (long long) st->kv_blocks_used);
		EVENTUALLY(atomic_load(&P.h->busy) == 0);
		CHECK(atomic_load(&P.h->busy) == 0, "nothing to do");
		/* and can be cancelled during the sleep */
		talk_cancel(t[5]);
		CHECK(talk_wait_closed(t[5], 5000), "cancelled in its sleep");
		talk_free(t[5]);
		EVENTUALLY(st->running + st->waiting == 5);
		said("integrity", "ok");
		said("wake 7", "ok");
		for (int i = 0; i < 5; i++)
			is(t[i], long_want, "kept");
		said("integrity", "ok");
	}
	/* wait: they finish first */
	for (int level = 0; level <= 2; level++)
	{
		char		cmd[32];

		slow();
		for (int i = 0; i < 3; i++)
			t[i] = gen(1, MODEL, 200, false);
		nap();
		snprintf(cmd, sizeof(cmd), "sleep %d wait", level);
		said(cmd, "ok");
		CHECK(st->running + st->waiting == 0, "nobody is left");
		for (int i = 0; i < 3; i++)
			is(t[i], long_want, "awaited");
		said("wake 7", "ok");
	}
	/* paused, then deeper and deeper: they are kept, and fail in mode abort */
	for (int last = 1; last <= 3; last++)
	{
		slow();
		for (int i = 0; i < 3; i++)
			t[i] = gen(1, MODEL, 200, false);
		nap();
		said("sleep 0 keep", "ok");
		said(last == 1 ? "sleep 1 wait" : "sleep 1 keep", "ok");
		if (last >= 2)
			said("sleep 2 wait", "ok");
		if (last == 3)
			said("sleep 2 abort", "ok");
		said("integrity", "ok");
		said("wake 7", "ok");
		for (int i = 0; i < 3; i++)
			is(t[i], last < 3 ? long_want : "55000: model \"m\" was put to sleep", "paused, and kept");
	}
	is(gen(1, MODEL, 20, false), want, "loaded again");
	CHECK(strncmp(command("sleep 3 wait", 0, NULL), "22023", 5) == 0, "no level 3");
	CHECK(strncmp(command("sleep 1 often", 0, NULL), "22023", 5) == 0, "no such mode");
}

#define COPY "build/fixtures/sleep_copy"
#define OTHER_COPY "build/fixtures/sleep_copy_2"

static Talk *
begin_copy(void)
{
	Talk	   *t;

	free(result(gen(7, COPY, 1, false), NULL));
	EVENTUALLY(atomic_load(&P.h->busy) == 0);
	slow();
	t = gen(7, COPY, 200, false);
	/* until the step thread has the request, the model keeps nothing when it sleeps */
	EVENTUALLY(atomic_load(&P.h->busy) == 1);
	return t;
}

/*
 * Requests are kept while the model has no weights, and the files have changed, or are missing, when it
 * wakes.
 */
static void
test_files_change(const char *want, const char *long_want)
{
	Talk	   *t;
	const char *r;

	CHECK(system("rm -rf " COPY " && cp -r " MODEL " " COPY) == 0, "copied");
	t = begin_copy();
	said("sleep 2 keep", "ok");
	CHECK(rename(COPY, COPY ".away") == 0, "moved away");
	r = command("wake 7", 0, NULL);
	CHECK(strncmp(r, "58030", 5) == 0 || strncmp(r, "XX001", 5) == 0, "files that are not there: %s", r);
	said("is-sleeping", "t");
	said("integrity", "ok");
	CHECK(rename(COPY ".away", COPY) == 0, "moved back");
	said("wake 7", "ok");
	is(t, long_want, "the files are back");
	t = begin_copy();
	said("sleep 2 keep", "ok");
	said("wake 1", "ok");
	said("is-sleeping", "t");
	said("wake 2", "ok");
	is(t, long_want, "the same files");
	t = begin_copy();
	said("sleep 2 keep", "ok");
	CHECK(system("touch " COPY "/config.json") == 0, "touched");
	said("wake 7", "ok");
	is(t, "55000: the files of model \"m\" have changed while it slept", "changed files");
	is(gen(7, COPY, 20, false), want, "the next request loads them");
	said("integrity", "ok");
}

/* Return the reply to "update-weights MODE" for database 7's model. */
static const char *
update(const char *mode)
{
	static char buf[1024];
	char		cmd[64];
	char	   *r;

	snprintf(cmd, sizeof(cmd), "update-weights %s", mode);
	r = result(send_call(WK_CONTROL, 7, "m", COPY, NULL, cmd, 0, false), NULL);
	snprintf(buf, sizeof(buf), "%s", r);
	free(r);
	return buf;
}

/* New weights for a model that is paused, or asleep: kept requests finish with the old ones. */
static void
test_update(const char *want, const char *long_want)
{
	static const char *const modes[] = {"keep", "wait", "abort"};

	for (int level = 0; level <= 2; level++)
		for (int m = 0; m < 3; m++)
		{
			Talk	   *t = begin_copy();
			Talk	   *u;
			char		cmd[64];
			const char *r;

			snprintf(cmd, sizeof(cmd), "sleep %d keep", level);
			said(cmd, "ok");
			r = update(modes[m]);
			CHECK(strcmp(r, "ok") == 0, "level %d, %s: %s", level, modes[m], r);
			u = gen(7, COPY, 20, true);
			nap();
			CHECK(atomic_load(&wire_slot(&P.arena, u->slot)->phase) == WP_ASLEEP, "level %d, %s: it waits",
				  level, modes[m]);
			said("integrity", "ok");
			said("wake 7", "ok");
			is(t, m < 2 ? long_want : "55000: model \"m\" was given new weights", cmd);
			is(u, want, "who has waited");
			said("integrity", "ok");
		}
	/* requests that stay on the old instance are paused, and sleep, with the model */
	for (int level = 0; level <= 2; level++)
	{
		Talk	   *t = begin_copy();
		char		cmd[64];
		int64_t		steps;

		CHECK(strcmp(update("keep"), "ok") == 0, "left behind");
		snprintf(cmd, sizeof(cmd), "sleep %d keep", level);
		said(cmd, "ok");
		steps = st->steps;
		nap();
		CHECK(st->steps == steps, "level %d: %lld steps", level, (long long) (st->steps - steps));
		said("wake 7", "ok");
		is(t, long_want, cmd);
		said("integrity", "ok");
	}
	/* The same while another model still has the old weights. */
	for (int level = 1; level <= 2; level++)
	{
		Talk	   *t;
		char		cmd[64];

		CHECK(system("rm -rf " OTHER_COPY " && cp -r " MODEL " " OTHER_COPY) == 0, "copied");
		is(gen(8, COPY, 20, false), want, "a model of the same files");
		t = begin_copy();
		is(send_call(WK_CONTROL, 7, "m", OTHER_COPY, NULL, "update-weights keep", 0, false), "ok",
		   "another path");
		snprintf(cmd, sizeof(cmd), "sleep %d keep", level);
		said(cmd, "ok");
		said("wake 7", "ok");
		is(t, long_want, cmd);
		is(gen(8, COPY, 20, false), want, "who still has it");
		is(gen(7, MODEL, 20, false), want, "its next model");
		said("integrity", "ok");
	}
	CHECK(system("rm -r " COPY " " OTHER_COPY) == 0, "gone");
}

/* The client cancels while the operation waits for requests: the sleep is undone. */
static void
test_caller_leaves(const char *want, const char *long_want)
{
	Talk	   *t;
	Talk	   *s;
	Talk	   *waiter;

	slow();
	t = gen(1, MODEL, 200, false);
	nap();
	s = send_call(WK_CONTROL, 0, NULL, NULL, NULL, "sleep 1 wait", 0, false);
	usleep(2000);
	waiter = gen(1, MODEL, 20, true);
	talk_cancel(s);
	CHECK(talk_wait_closed(s, 5000), "cancelled");
	talk_free(s);
	is(t, long_want, "it was not disturbed");
	is(waiter, want, "nor who came later");
	said("is-sleeping", "f");
	said("integrity", "ok");
}

/* One model of two; a new entry that shares its weights sleeps with it. */
static void
test_one(const char *want)
{
	char	   *other = result(send_call(WK_GENERATE, 2, "n", OTHER, prompt, NULL, 20, false), NULL);
	char	   *again;

	CHECK(strcmp(command("sleep 1 wait", 1, "m"), "ok") == 0, "one sleeps");
	again = result(send_call(WK_GENERATE, 2, "n", OTHER, prompt, NULL, 20, false), NULL);
	CHECK(strcmp(other, again) == 0, "the other one is awake: %s", again);
	CHECK(strcmp(command("is-sleeping", 2, "n"), "f") == 0, "not asleep");
	CHECK(strcmp(command("is-sleeping", 1, "m"), "t") == 0, "asleep");
	is(gen(3, MODEL, 20, false), "55000: model \"m\" is asleep", "shared");
	CHECK(strcmp(command("wake 7", 1, "m"), "ok") == 0, "woken");
	is(gen(3, MODEL, 20, false), want, "both are awake");
	CHECK(strncmp(command("sleep 1 wait", 9, "nobody"), "42704", 5) == 0, "unknown");
	/* unloaded while asleep */
	CHECK(strcmp(command("sleep 1 wait", 2, "n"), "ok") == 0, "sleeps");
	free(result(send_call(WK_MODEL_UNLOAD, 2, "n", NULL, NULL, NULL, 0, false), NULL));
	CHECK(strcmp(command("wake 7", 2, "n"), "ok") == 0, "woken");
	free(again);
	again = result(send_call(WK_GENERATE, 2, "n", OTHER, prompt, NULL, 20, false), NULL);
	CHECK(strcmp(other, again) == 0, "loaded again: %s", again);
	free(again);
	free(other);
	/* all, and a model that is added while they sleep */
	said("sleep 1 wait", "ok");
	is(send_call(WK_GENERATE, 4, "late", MODEL, prompt, NULL, 20, false), "55000: model \"late\" is asleep",
	   "new ones sleep, too");
	said("wake 7", "ok");
	is(send_call(WK_GENERATE, 4, "late", MODEL, prompt, NULL, 20, false), want, "woken with all");
}

/* Sleep and wake again and again while requests come and go. */
static void
test_storm(const char *want)
{
	for (int round = 0; round < 30; round++)
	{
		Talk	   *t[8];
		char		cmd[32];

		for (int i = 0; i < 8; i++)
			t[i] = gen(1 + i % 3, MODEL, 20, true);
		if (round % 3 == 0)
			usleep((useconds_t) round * 300);
		snprintf(cmd, sizeof(cmd), "sleep %d %s", round % 3, round % 2 ? "wait" : "keep");
		said(cmd, "ok");
		if (round % 4 == 1)
		{
			talk_cancel(t[0]);
			CHECK(talk_wait_closed(t[0], 5000), "cancelled");
			talk_free(t[0]);
		}
		said("wake 7", "ok");
		for (int i = round % 4 == 1; i < 8; i++)
			is(t[i], want, cmd);
		said("integrity", "ok");
	}
}

int
main(int argc, char **argv)
{
	static const char *const args[] = {"--set", "kv_cache_memory=16", "--set", "cpu_threads=2", NULL};
	char	   *want;
	char	   *long_want;
	int			fds;

	if (!peer_start(&P, argc, argv, args, 64, 16384, 1 << 20))
		return check_done("test_sleep");
	st = wire_stats(&P.arena);
	want = result(gen(1, MODEL, 20, false), NULL);
	CHECK(strncmp(want + 5, ": ", 2) != 0, "%s", want);
	long_want = result(gen(1, MODEL, 200, false), NULL);
	fds = atoi(command("fds", 0, NULL));
	RUN(test_levels(want));
	RUN(test_tags(want));
	RUN(test_modes(want, long_want));
	RUN(test_files_change(want, long_want));
	RUN(test_update(want, long_want));
	RUN(test_caller_leaves(want, long_want));
	RUN(test_one(want));
	RUN(test_storm(want));
	nap();
	CHECK(atoi(command("fds", 0, NULL)) == fds, "%s descriptors instead of %d", command("fds", 0, NULL), fds);
	free(want);
	free(long_want);
	peer_end(&P);
	return check_done("test_sleep");
}
