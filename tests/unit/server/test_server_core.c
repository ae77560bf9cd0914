/*
 * test_server_core.c
 *	  The engine process with the real core on the tiny models of build/fixtures/models: check, load,
 *	  tokenize, generate, share, cancel, unload.  test_offline and the golden files test the contents of
 *	  outputs.
 */
#include <dirent.h>
#include <sched.h>

#include "tests/unit/wire_peer.h"

#include "tests/unit/check.h"

#define MODEL "build/fixtures/models/llama_f32"
#define DRAFTS "build/fixtures/drafts/"

static Peer P;
static volatile WireStats *st;

typedef struct Run
{
	WireKind	kind;
	int			db;
	const char *model;
	const char *path;
	const char *options;
	const char *prompt;
	const char *command;
	int			max_tokens;
	bool		stream;
	bool		ignore_eos;
} Run;

static void
put_text(WireOut *o, WireTag tag, const char *s)
{
	if (s != NULL)
		wire_put_str(o, tag, s, strlen(s));
}

static Talk *
run(const Run *a)
{
	Buf			b = {0};
	WireOut		o = peer_out(&b);
	Talk	   *t;

	wire_put_int(&o, WTAG_DATABASE, a->db);
	wire_put_int(&o, WTAG_SESSION, a->db);
	put_text(&o, WTAG_MODEL, a->model);
	put_text(&o, WTAG_MODEL_PATH, a->path);
	put_text(&o, WTAG_MODEL_OPTIONS, a->options);
	put_text(&o, WTAG_PROMPT, a->prompt);
	put_text(&o, WTAG_COMMAND, a->command);
	if (a->kind == WK_GENERATE)
	{
		wire_put_int(&o, WTAG_MAX_TOKENS, a->max_tokens);
		wire_put_num(&o, WTAG_TEMPERATURE, 0);
		wire_put_int(&o, WTAG_STREAM, a->stream);
		wire_put_int(&o, WTAG_WANT_IDS, a->stream);	/* longer frames */
		wire_put_int(&o, WTAG_IGNORE_EOS, a->ignore_eos);
	}
	t = talk_begin(&P, a->kind, &b);
	buf_free(&b);
	return t;
}

/* Return all text of the call, or "SQLSTATE: message". */
static char *
result(Talk *t)
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
	}
	if (!final)
		buf_addstr(&b, " (no final frame)");
	talk_wait_closed(t, 5000);
	talk_free(t);
	buf_addstr(&b, "");
	return b.data;
}

static void
integrity(const char *after)
{
	char	   *r = result(run(&(Run) {.kind = WK_CONTROL,.command = "integrity"}));

	CHECK(strcmp(r, "ok") == 0, "integrity after %s: %s", after, r);
	free(r);
}

static void
test_check(void)
{
	Talk	   *t = run(&(Run) {.kind = WK_MODEL_CHECK,.path = MODEL});
	Frame		f;
	char	   *r;

	CHECK(talk_final(t, &f, 10000) && strcmp(frame_str(&f, WTAG_ARCH), "llama") == 0 &&
		  strcmp(frame_str(&f, WTAG_DTYPE), "F32") == 0 && frame_int(&f, WTAG_N_PARAMS) > 1000 &&
		  frame_int(&f, WTAG_MAX_MODEL_LEN) > 0, "check: %s %s", frame_str(&f, WTAG_MESSAGE),
		  frame_str(&f, WTAG_ARCH));
	talk_free(t);
	CHECK(st->n_models == 0, "a check loads nothing");
	r = result(run(&(Run) {.kind = WK_MODEL_CHECK,.path = "build/fixtures/models/no_such"}));
	CHECK(strncmp(r, "58030: ", 7) == 0 || strncmp(r, "XX001: ", 7) == 0, "%s", r);
	free(r);
	r = result(run(&(Run) {.kind = WK_MODEL_CHECK,.path = MODEL,
						   .options = "{\"max_model_len\": 100000000}"}));
	CHECK(strncmp(r, "22023: ", 7) == 0, "%s", r);
	free(r);
}

static void
test_generate(void)
{
	const Run	plain = {.kind = WK_GENERATE,.db = 1,.model = "a",.path = MODEL,.prompt = "Hello world",
	.max_tokens = 20,.ignore_eos = true};
	Run			stream = plain;
	Talk	   *t = run(&plain);
	Frame		f;
	char	   *one;
	char	   *two;
	char	   *many[8];

	CHECK(talk_final(t, &f, 30000) && f.kind == WF_DONE && frame_int(&f, WTAG_COMPLETION_TOKENS) == 20 &&
		  strcmp(frame_str(&f, WTAG_FINISH_REASON), "length") == 0 && frame_int(&f, WTAG_PROMPT_TOKENS) > 0,
		  "generate: %s", frame_str(&f, WTAG_MESSAGE));
	CHECK(st->finished == 1 && st->output_tokens == 20 && st->steps >= 20, "counted: %lld steps",
		  (long long) st->steps);
	CHECK(st->kv_blocks_used == 0, "blocks are free when the answer is there");
	talk_free(t);
	one = result(run(&plain));
	stream.stream = true;
	two = result(run(&stream));
	CHECK(strcmp(one, two) == 0, "streamed deltas add up to the answer");
	{
		Talk	   *ts[8];

		for (int i = 0; i < 8; i++)
			ts[i] = run(i % 2 ? &plain : &stream);
		for (int i = 0; i < 8; i++)
		{
			many[i] = result(ts[i]);
			CHECK(strcmp(many[i], one) == 0, "the same answer in a batch");
			free(many[i]);
		}
	}
	free(one);
	free(two);
	integrity("generate");
}

static void
test_errors(void)
{
	char	   *r =
		result(run(&(Run) {.kind = WK_GENERATE,.db = 1,.model = "a",.path = MODEL,.prompt = "",
						   .max_tokens = 5}));

	CHECK(strncmp(r, "22023: ", 7) == 0, "empty prompt: %s", r);
	free(r);
	r = result(run(&(Run) {.kind = WK_GENERATE,.db = 1,.model = "s",.path = MODEL,
						   .options = "{\"max_model_len\": 8}",
		.prompt = "one two three four five six seven eight nine ten",.max_tokens = 5}));
	CHECK(strncmp(r, "54000: ", 7) == 0, "prompt too long: %s", r);
	free(r);
	r = result(run(&(Run) {.kind = WK_GENERATE,.db = 1,.model = "gone",.path = "/no/such/model",.prompt = "x",
						   .max_tokens = 5}));
	CHECK(strncmp(r, "58030: ", 7) == 0 || strncmp(r, "XX001: ", 7) == 0, "no files: %s", r);
	free(r);
}

/*
 * An error is found after the model and its drafter are loaded: both are freed (the engine under ASan
 * reports leaks when it ends).
 */
static void
test_late_error(void)
{
	char		cwd[600];
	char		options[900];
	char	   *r;

	CHECK(getcwd(cwd, sizeof(cwd)) != NULL, "no directory");
	snprintf(options, sizeof(options), "{\"fp8_activations\": true, \"speculative_config\": {\"method\": "
									   "\"medusa\", \"model\": \"%s/" DRAFTS "medusa\"}}", cwd);
	r = result(run(&(Run) {.kind = WK_GENERATE,.db = 1,.model = "late",.path = DRAFTS "target",
						   .options = options,.prompt = "x",.max_tokens = 5}));
	CHECK(strncmp(r, "0A000: option \"fp8_activations\"", 31) == 0, "options that don't fit the weights: %s",
		  r);
	free(r);
	/* a model is not created with options that prevent its load */
	r = result(run(&(Run) {.kind = WK_MODEL_CHECK,.db = 1,.path = DRAFTS "target",
						   .options = "{\"fp8_activations\": true}"}));
	CHECK(strncmp(r, "0A000: option \"fp8_activations\"", 31) == 0, "the check: %s", r);
	free(r);
	integrity("a load that fails late");
}

static void
test_cancel_and_unload(void)
{
	const Run	longer = {.kind = WK_GENERATE,.db = 1,.model = "a",.path = MODEL,.prompt = "Hello",
	.max_tokens = 100,.ignore_eos = true,.stream = true};
	Talk	   *t[6];
	char	   *r;
	bool		shared = false;

	for (int i = 0; i < 6; i++)
		t[i] = run(&longer);
	usleep(3000);
	for (int i = 0; i < 6; i++)
	{
		talk_cancel(t[i]);
		CHECK(talk_wait_closed(t[i], 5000), "cancelled");
		talk_free(t[i]);
	}
	EVENTUALLY(st->kv_blocks_used == 0 && st->running == 0 && st->waiting == 0);
	CHECK(st->kv_blocks_used == 0 && st->running == 0, "cancelled requests leave no blocks");
	integrity("cancel");

	r = result(run(&(Run) {.kind = WK_TOKENIZE,.db = 2,.model = "b",.path = MODEL,.prompt = "Hello"}));
	CHECK(strstr(r, "no final") == NULL && strchr(r, ':') == NULL, "tokenize: %s", r);
	free(r);
	for (uint32_t i = 0; i < st->n_models; i++)
		shared = shared || st->models[i].shared_with >= 0;
	CHECK(shared, "another database's entry shares the weights");
	t[0] = run(&longer);
	r = result(run(&(Run) {.kind = WK_MODEL_UNLOAD,.db = 1,.model = "a"}));
	CHECK(strcmp(r, "") == 0, "unload: %s", r);
	free(r);
	free(result(t[0]));
	r = result(run(&(Run) {.kind = WK_MODEL_UNLOAD,.db = 2,.model = "b"}));
	CHECK(strcmp(r, "") == 0, "unload the last: %s", r);
	free(r);
	integrity("unload");
	r = result(run(&longer));
	CHECK(strncmp(r, "55000: ", 7) != 0 && strstr(r, "no final") == NULL, "loads again: %.60s", r);
	free(r);
}

/* A backend that doesn't read delays nothing: its output is computed, others are served. */
static void
test_no_waiting_for_readers(void)
{
	const Run	plain = {.kind = WK_GENERATE,.db = 1,.model = "a",.path = MODEL,.prompt = "Hello world",
	.max_tokens = 200,.ignore_eos = true};
	Run			stream = plain;
	char	   *expect = result(run(&plain));
	char	   *deltas;
	int64_t		finished;
	int64_t		tokens;
	Talk	   *unread[4];

	stream.stream = true;
	deltas = result(run(&stream));
	finished = st->finished;
	tokens = st->output_tokens;
	for (int i = 0; i < 4; i++)
		unread[i] = run(&stream);
	for (int i = 0; i < 4; i++)
	{
		char	   *r = result(run(&plain));

		CHECK(strcmp(r, expect) == 0, "answered beside those who don't read");
		free(r);
	}
	EVENTUALLY(st->finished == finished + 8 && st->running == 0);
	CHECK(st->finished == finished + 8 && st->output_tokens == tokens + 1600 && st->running == 0 &&
		  st->kv_blocks_used == 0, "all are computed, %lld of 8", (long long) (st->finished - finished));
	for (int i = 0; i < 4; i++)
	{
		char	   *r;

		CHECK(talk_state(unread[i]) == WS_OPEN, "more than its ring holds");
		r = result(unread[i]);
		CHECK(strcmp(r, deltas) == 0, "and read in the end");
		free(r);
	}
	free(expect);
	free(deltas);
	integrity("unread answers");
}

#define BUSY	8

/*
 * Two models that compute all the time run their steps at once, each with half of the threads: the
 * outputs equal those of a model alone.  A third model's request is served meanwhile, and one is
 * cancelled.
 */
static void
test_two_models(void)
{
	Run			a = {.kind = WK_GENERATE,.db = 1,.model = "a",.path = MODEL,.prompt = "Hello world",
	.max_tokens = 100,.ignore_eos = true};
	Run			b = a;
	Run			c = a;
	Talk	   *t[2 * BUSY];
	char	   *alone[2];

	b.model = "other";
	b.options = "{\"max_num_seqs\": 7}";
	c.model = "third";
	c.options = "{\"max_num_seqs\": 5}";
	c.prompt = "once";
	c.max_tokens = 3;
	alone[0] = result(run(&a));
	alone[1] = result(run(&c));
	CHECK(strstr(alone[0], "no final") == NULL, "%s", alone[0]);
	for (int round = 0; round < 4; round++)
	{
		char	   *r;
		Talk	   *cancelled;

		for (int i = 0; i < 2 * BUSY; i++)
			t[i] = run(i % 2 ? &a : &b);
		cancelled = run(&a);
		r = result(run(&c));
		CHECK(strcmp(r, alone[1]) == 0, "a request of a third model: %s", r);
		free(r);
		talk_cancel(cancelled);
		CHECK(talk_wait_closed(cancelled, 5000), "cancelled");
		talk_free(cancelled);
		for (int i = 0; i < 2 * BUSY; i++)
		{
			r = result(t[i]);
			CHECK(strcmp(r, alone[0]) == 0, "round %d, request %d: %.60s", round, i, r);
			free(r);
		}
	}
	EVENTUALLY(st->running == 0 && st->kv_blocks_used == 0);
	CHECK(st->running == 0 && st->kv_blocks_used == 0, "nothing is left");
	free(alone[0]);
	free(alone[1]);
	integrity("two models at once");
}

/*
 * From load to idle: compute threads, output thread and all others fall asleep, at once if a core is
 * free.  On a busy machine the threads begin to wait for work late, so they get some seconds.
 */
static void
test_idle(void)
{
	double		used = 1;

	for (int i = 0; i < 3; i++)
	{
		free(result(run(&(Run) {.kind = WK_GENERATE,.db = 1,.model = "a",.path = MODEL,.prompt = "Hello",
								.max_tokens = 50,
			.ignore_eos = true})));
		usleep(20000);			/* threads spin for less */
		for (int second = 0; second < 10 && (second == 0 || used > 0.015); second++)
		{
			double		before = cpu_seconds(P.pid);

			sleep(1);
			used = cpu_seconds(P.pid) - before;
		}
		CHECK(used <= 0.015, "idle after load: %.3f s of CPU time in a second", used);
	}
}

static void
start(const char *engine, const char *const *args)
{
	memset(&P, 0, sizeof(P));
	peer_find_engine(&P);
	if (engine != NULL)
		snprintf(P.engine, sizeof(P.engine), "%s", engine);
	peer_arena(&P, 32, 4096, 1 << 24);
	st = wire_stats(&P.arena);
	peer_spawn(&P, args);
	CHECK(peer_wait_ready(&P, 10000), "ready");
}

static void
stop(void)
{
	peer_send(&P, "stop\n");
	CHECK(peer_exit_status(&P, 10000) == 0, "stops");
	CHECK(!peer_complaints(&P), "no sanitizer complaints");
	if (check_failed > 0 && P.text.len > 0)
		fprintf(stderr, "%s", P.text.data);
	peer_free(&P);
}

/* Count the engine's threads that may run on only one CPU. */
static int
pinned_threads(void)
{
	char		path[64];
	struct dirent *de;
	cpu_set_t	set;
	int			n = 0;
	DIR		   *d;

	snprintf(path, sizeof(path), "/proc/%d/task", (int) P.pid);
	d = opendir(path);
	while (d != NULL && (de = readdir(d)) != NULL)
		n += atoi(de->d_name) > 0 && sched_getaffinity(atoi(de->d_name), sizeof(set), &set) == 0 &&
			CPU_COUNT(&set) == 1;
	if (d != NULL)
		closedir(d);
	return n;
}

/* cpu_affinity binds compute threads; the output thread may run on any CPU. */
static void
test_affinity(const char *engine)
{
	char		list[32];
	const char *args[] = {"--set", "cpu_threads=1", "--set", "kv_cache_memory=16", "--set", list, NULL};
	cpu_set_t	set;
	int			cpu = 0;

	if (sched_getaffinity(0, sizeof(set), &set) != 0 || CPU_COUNT(&set) < 2)
		return;
	while (!CPU_ISSET(cpu, &set))
		cpu++;
	snprintf(list, sizeof(list), "cpu_affinity=%d", cpu);
	start(engine, args);
	if (P.ready)
	{
		free(result(run(&(Run) {.kind = WK_GENERATE,.db = 1,.model = "a",.path = MODEL,.prompt = "Hello",
								.max_tokens = 5})));
		CHECK(pinned_threads() == 1, "%d threads are bound, one computes", pinned_threads());
	}
	stop();
}

int
main(int argc, char **argv)
{
	static const char *const args[] = {"--set", "cpu_threads=2", "--set", "kv_cache_memory=16", NULL};
	const char *engine = argc > 1 ? argv[1] : NULL;

	signal(SIGPIPE, SIG_IGN);
	start(engine, args);
	if (P.ready)
	{
		RUN(test_check());
		RUN(test_generate());
		RUN(test_errors());
		RUN(test_late_error());
		RUN(test_no_waiting_for_readers());
		RUN(test_two_models());
		RUN(test_idle());
		RUN(test_cancel_and_unload());
	}
	stop();
	RUN(test_affinity(engine));
	return check_done("test_server_core");
}
