/*
 * test_models_registry.c
 *	  The registry of models from outside (--fake): load, share, fail, unload, forget, change.
 */
#include "tests/unit/wire_peer.h"

#include "tests/unit/check.h"

static Peer P;
static volatile WireStats *st;

static void
put_text(WireOut *o, WireTag tag, const char *s)
{
	wire_put_str(o, tag, s, strlen(s));
}

static Talk *
send_model(WireKind kind, int db, const char *model, const char *path, const char *options,
		   const char *prompt)
{
	Buf			b = {0};
	WireOut		o = peer_out(&b);
	Talk	   *t;

	wire_put_int(&o, WTAG_DATABASE, db);
	wire_put_int(&o, WTAG_ROLE, 10);
	wire_put_int(&o, WTAG_SESSION, 1);
	if (model != NULL)
		put_text(&o, WTAG_MODEL, model);
	if (path != NULL)
		put_text(&o, WTAG_MODEL_PATH, path);
	if (options != NULL)
		put_text(&o, WTAG_MODEL_OPTIONS, options);
	if (prompt != NULL)
		put_text(&o, WTAG_PROMPT, prompt);
	t = talk_begin(&P, kind, &b);
	buf_free(&b);
	return t;
}

/*
 * Return "text" / "arch A len N" / "SQLSTATE|message|hint" of the final frame; *progress: number of such
 * frames.
 */
static const char *
result(Talk *t, int *progress)
{
	static char buf[2048];
	Frame		f;
	int			n = 0;

	snprintf(buf, sizeof(buf), "closed");
	while (talk_wait(t, &f, 10000))
	{
		n += f.kind == WF_PROGRESS;
		if (f.kind == WF_ERROR)
			snprintf(buf, sizeof(buf), "%s|%s|%s", frame_str(&f, WTAG_SQLSTATE), frame_str(&f, WTAG_MESSAGE),
					 frame_str(&f, WTAG_HINT));
		else if (f.final && frame_int(&f, WTAG_MAX_MODEL_LEN) >= 0)
			snprintf(buf, sizeof(buf), "arch %s len %lld", frame_str(&f, WTAG_ARCH),
					 (long long) frame_int(&f, WTAG_MAX_MODEL_LEN));
		else if (f.final)
			snprintf(buf, sizeof(buf), "%s", frame_str(&f, WTAG_TEXT));
		if (f.final)
			break;
	}
	talk_wait_closed(t, 2000);
	talk_free(t);
	if (progress != NULL)
		*progress = n;
	return buf;
}

static const char *
gen(int db, const char *model, const char *path, const char *options, const char *prompt)
{
	return result(send_model(WK_GENERATE, db, model, path, options, prompt), NULL);
}

static const char *
act(WireKind kind, int db, const char *model)
{
	return result(send_model(kind, db, model, NULL, NULL, NULL), NULL);
}

static int
row(int db, const char *name)
{
	for (uint32_t i = 0; i < st->n_models; i++)
		if ((int) st->models[i].dboid == db && strcmp((const char *) st->models[i].name, name) == 0)
			return (int) i;
	return -1;
}

static void
test_load(void)
{
	int			progress;
	const char *r;
	Talk	   *t;
	Frame		f;

	r = result(send_model(WK_MODEL_LOAD, 1, "slow", "/fake/slow:300", NULL, NULL), &progress);
	CHECK(strncmp(r, "arch fake", 9) == 0 && progress >= 5, "load with %d progress frames: %s", progress, r);
	CHECK(row(1, "slow") >= 0 && st->models[row(1, "slow")].state == WM_READY, "ready");
	r = result(send_model(WK_MODEL_LOAD, 1, "slow", "/fake/slow:300", NULL, NULL), &progress);
	CHECK(progress == 0, "loaded already");

	/* a generate request waits for a load, and gets a NOTICE's text */
	t = send_model(WK_GENERATE, 1, "slow2", "/fake/slow:200", "{\"max_model_len\": 100}", "hi");
	CHECK(talk_wait(t, &f, 5000) && f.kind == WF_PROGRESS && frame_int(&f, WTAG_PHASE) == WP_LOADING_MODEL &&
		  strcmp(frame_str(&f, WTAG_TEXT), "loading model \"slow2\"") == 0, "first progress frame");
	CHECK(atomic_load(&wire_slot(&P.arena, t->slot)->phase) == WP_LOADING_MODEL, "phase");
	CHECK(st->models[row(1, "slow2")].state == WM_LOADING, "state is loading");
	CHECK(strcmp(result(t, NULL), "HI") == 0, "answered when loaded");
	CHECK(st->models[row(1, "slow2")].max_model_len == 100, "option in force");
	r = gen(1, "slow2", NULL, NULL, "by name alone");
	CHECK(strcmp(r, "BY NAME ALONE") == 0, "%s", r);
	r = gen(1, "nobody", NULL, NULL, "x");
	CHECK(strncmp(r, "42704|", 6) == 0, "%s", r);
}

static void
test_share(void)
{
	int			a;
	int			b;

	gen(1, "one", "/fake/shared", NULL, "x");
	gen(2, "two", "/fake/shared", NULL, "x");
	a = row(1, "one");
	b = row(2, "two");
	CHECK(st->models[a].shared_with == b || st->models[b].shared_with == a,
		  "same files, same options: shared");
	gen(2, "three", "/fake/shared", "{\"max_num_seqs\": 3}", "x");
	CHECK(st->models[row(2, "three")].shared_with == -1, "other options: not shared");
	gen(2, "four", "/fake/shared", "{\"quantization\": \"int8\"}", "x");
	CHECK(st->models[row(2, "four")].shared_with == -1, "quantized otherwise: not shared");
	gen(1, "five", "/fake/shared", "{\"quantization\": \"int8\"}", "x");
	CHECK(st->models[row(1, "five")].shared_with != -1 || st->models[row(2, "four")].shared_with != -1,
		  "quantized alike: shared");
	gen(1, "six", "/fake/shared", "{\"quantization\": \"int4\"}", "x");
	gen(2, "seven", "/fake/shared", "{\"quantization\": \"q4_k\"}", "x");
	CHECK(st->models[row(1, "six")].shared_with == row(2, "seven") ||
		  st->models[row(2, "seven")].shared_with == row(1, "six"), "two names of one quantization: shared");
	CHECK(strcmp(act(WK_MODEL_UNLOAD, 1, "one"), "") == 0, "unload one");
	CHECK(st->models[row(1, "one")].state == WM_UNLOADED && st->models[row(2, "two")].state == WM_READY,
		  "the other keeps it");
	CHECK(strcmp(gen(2, "two", "/fake/shared", NULL, "works on"), "WORKS ON") == 0, "and works");
	act(WK_MODEL_UNLOAD, 2, "two");
	CHECK(strcmp(gen(1, "one", "/fake/shared", NULL, "again"), "AGAIN") == 0, "loads again on use");
}

static void
test_fail(void)
{
	Talk	   *t[3];
	const char *r;

	for (int i = 0; i < 3; i++)
		t[i] = send_model(WK_GENERATE, 1, "bad", "/fake/fail", NULL, "x");
	for (int i = 0; i < 3; i++)
	{
		r = result(t[i], NULL);
		CHECK(strcmp(r, "XX001|fake load failure|") == 0, "waiter %d: %s", i, r);
	}
	CHECK(st->models[row(1, "bad")].state == WM_FAILED &&
		  strcmp((const char *) st->models[row(1, "bad")].error, "fake load failure") == 0, "row says why");
	r = gen(1, "bad", "/fake/fail", NULL, "x");
	CHECK(strcmp(r, "XX001|fake load failure|") == 0, "later: %s", r);
	r = result(send_model(WK_MODEL_LOAD, 1, "bad", "/fake/fail", NULL, NULL), NULL);
	CHECK(strcmp(r, "XX001|fake load failure|") == 0, "explicit load: %s", r);
	r = gen(1, "opt", "/fake/x", "{\"max_modellen\": 5}", "x");
	CHECK(strncmp(r, "22023|unknown model option \"max_modellen\"|Known options", 50) == 0, "%s", r);
	r = gen(1, "opt", "/fake/x", "{\"max_model_len\": \"a\"}", "x");
	CHECK(strcmp(r, "22023|model option \"max_model_len\" must be an integer between 1 and 2147483647, got "
					"\"a\"|") == 0, "%s", r);
	r = gen(1, "opt", "/fake/x", "{\"kv_cache_dtype\": [8]}", "x");
	CHECK(strcmp(r, "22023|model option \"kv_cache_dtype\" must be auto, float32, float16, bfloat16, int8, "
					"fp8, fp8_e4m3 or fp8_e5m2, got [8]|") == 0,
		  "%s", r);
	r = gen(1, "opt", "/fake/x", "{\"quantization\": \"q3\"}", "x");
	CHECK(strcmp(r, "22023|model option \"quantization\" must be int8, int4, q8_0, q6_k, q4_0, q4_1 or q4_k, "
					"got \"q3\"|The method of a quantized checkpoint may be named, too: "
					"gptq, awq, auto-round, compressed-tensors, fp8, bitsandbytes, mxfp4, modelopt, "
					"quark, torchao, hqq") == 0,
		  "%s", r);
	r = gen(1, "opt", "/fake/x", "{\"quantization\": 4}", "x");
	CHECK(strncmp(r, "22023|model option \"quantization\"", 33) == 0, "%s", r);
	CHECK(strcmp(gen(1, "quant", "/fake/x", "{\"quantization\": \"int4\"}", "x"), "X") == 0, "a known one");
	r = gen(1, "opt", "/fake/x", "{\"dtype\": \"int8\"}", "x");
	CHECK(strcmp(r, "22023|model option \"dtype\" must be auto, float32, float16 (half) or bfloat16, got "
					"\"int8\"|") == 0, "%s", r);
	r = gen(1, "opt", "/fake/x", "{\"quantization\": \"bfloat16\"}", "x");
	CHECK(strncmp(r, "22023|model option \"quantization\"", 33) == 0, "%s", r);
	CHECK(strcmp(gen(1, "half", "/fake/x", "{\"dtype\": \"half\"}", "x"), "X") == 0, "a known one");
	r = gen(1, "opt", "/fake/x", "{\"rope_theta\": 0}", "x");
	CHECK(strcmp(r, "22023|model option \"rope_theta\" must be a number above 0 and at most 1e12, got 0|") ==
		  0, "%s", r);
	r = gen(1, "opt", "/fake/x", "{\"rope_scaling\": {\"factor\": 2}}", "x");
	CHECK(strcmp(r, "22023|model option \"rope_scaling\" must be a JSON object with a \"rope_type\", got "
					"{\"factor\":2}|") == 0,
		  "%s", r);
	r = gen(1, "opt", "/fake/x", "{\"rope_scaling\": {\"rope_type\": \"yarn\", \"fator\": 2}}", "x");
	CHECK(strcmp(r, "22023|model option \"rope_scaling\" has an unknown key \"fator\"|") == 0, "%s", r);
	CHECK(strcmp(gen(1, "rope", "/fake/x",
					 "{\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 2}, \"rope_theta\": 1e6}",
					 "x"), "X") == 0, "a scaling");
	r = gen(1, "opt", "/fake/x", "[1", "x");
	CHECK(strncmp(r, "22023|model options must be a JSON object", 40) == 0, "%s", r);
	r = gen(1, "opt", "/fake/x", "{\"max_model_len\": 4}", "too long a prompt");
	CHECK(strncmp(r, "54000|", 6) == 0, "%s", r);
}

static void
test_unload(void)
{
	Talk	   *run;
	Talk	   *wait;
	WireFigures kept;
	const char *r;

	gen(1, "u", "/fake/u", NULL, "x");
	run = send_model(WK_GENERATE, 1, "u", "/fake/u", NULL, "@hang");
	usleep(20000);
	CHECK(strcmp(act(WK_MODEL_UNLOAD, 1, "u"), "") == 0, "unload under load");
	r = result(run, NULL);
	CHECK(strcmp(r, "55000|model \"u\" was unloaded|") == 0, "running: %s", r);
	wait = send_model(WK_GENERATE, 1, "ul", "/fake/slow:60000", NULL, "x");
	usleep(20000);
	CHECK(strcmp(act(WK_MODEL_UNLOAD, 1, "ul"), "") == 0, "unload while loading");
	r = result(wait, NULL);
	CHECK(strcmp(r, "55000|model \"ul\" was unloaded|") == 0, "waiting: %s", r);
	kept = st->models[row(1, "u")].fig;
	CHECK(kept.steps > 0 && kept.requests == 2 && kept.running == 0 && kept.kv_blocks_total == 0,
		  "a model keeps what its instance has counted: %lld steps, %lld requests", (long long) kept.steps,
		  (long long) kept.requests);
	CHECK(strcmp(gen(1, "u", "/fake/u", NULL, "back"), "BACK") == 0, "comes back on use");
	CHECK(st->models[row(1, "u")].fig.requests == 3 && st->models[row(1, "u")].fig.steps > kept.steps,
		  "... and goes on from there");
	CHECK(strcmp(act(WK_MODEL_UNLOAD, 7, "never"), "") == 0, "unloading what is not there");
	/* the loader gave up, so the next load does not wait for a minute */
	CHECK(strcmp(gen(1, "quick", "/fake/q", NULL, "soon"), "SOON") == 0, "loader is free");
	wait = send_model(WK_GENERATE, 1, "c", "/fake/slow:200", NULL, "x");
	usleep(20000);
	talk_cancel(wait);
	CHECK(talk_wait_closed(wait, 1000), "cancelled while loading");
	talk_free(wait);
}

/* A model that a job still uses is about to be freed: no load may use it again. */
static void
test_unload_pinned(void)
{
	char		text[5000];
	Talk	   *job;
	Talk	   *unload;
	Talk	   *load;

	memset(text, 'x', sizeof(text));
	memcpy(text, "@encode:300 ", 12);
	text[sizeof(text) - 1] = '\0';
	gen(1, "p", "/fake/p", NULL, "x");
	job = send_model(WK_TOKENIZE, 1, "p", "/fake/p", NULL, text);
	usleep(50000);
	unload = send_model(WK_MODEL_UNLOAD, 1, "p", NULL, NULL, NULL);
	usleep(20000);
	load = send_model(WK_MODEL_LOAD, 1, "p", "/fake/p", NULL, NULL);
	CHECK(strncmp(result(load, NULL), "arch fake", 9) == 0, "loaded anew");
	CHECK(strcmp(result(job, NULL), "55000|model \"p\" was unloaded|") == 0, "the job's request");
	CHECK(strcmp(result(unload, NULL), "") == 0, "the unload ends");
	CHECK(strcmp(gen(1, "p", "/fake/p", NULL, "still there"), "STILL THERE") == 0, "the new one is used");
}

static const char *
forget(int db, const char *model, uint64_t hash)
{
	Buf			b = {0};
	WireOut		o = peer_out(&b);
	Talk	   *t;

	wire_put_int(&o, WTAG_DATABASE, db);
	put_text(&o, WTAG_MODEL, model);
	wire_put_int(&o, WTAG_MODEL_HASH, (int64_t) hash);
	t = talk_begin(&P, WK_MODEL_FORGET, &b);
	buf_free(&b);
	return result(t, NULL);
}

/* With a hash, only the version with that hash is forgotten. */
static void
test_forget_version(void)
{
	const char *opts = "{\"max_model_len\": 90}";
	Talk	   *run = send_model(WK_GENERATE, 7, "v", "/fake/v", opts, "runs on @delay:200");
	const char *r;

	usleep(20000);
	CHECK(strcmp(forget(7, "v", wire_model_hash("/fake/w", opts)), "") == 0, "another path");
	CHECK(strcmp(forget(7, "v", wire_model_hash("/fake/v", NULL)), "") == 0, "other options");
	CHECK(row(7, "v") >= 0, "still there");
	r = result(run, NULL);
	CHECK(strcmp(r, "RUNS ON @DELAY:200") == 0, "its request goes on: %s", r);
	forget(7, "v", wire_model_hash("/fake/v", opts));
	CHECK(row(7, "v") < 0, "this one");
	gen(7, "v", "/fake/v", NULL, "x");
	forget(7, "v", 0);
	CHECK(row(7, "v") < 0, "0: whatever it is");
}

static void
test_forget(void)
{
	Talk	   *run;
	const char *r;

	gen(9, "a", "/fake/a", NULL, "x");
	gen(9, "b", "/fake/b", NULL, "x");
	gen(8, "a", "/fake/a", NULL, "x");
	act(WK_MODEL_FORGET, 9, "a");
	CHECK(row(9, "a") < 0 && row(9, "b") >= 0 && row(8, "a") >= 0, "one name forgotten");
	act(WK_MODEL_FORGET, 9, NULL);
	CHECK(row(9, "b") < 0 && row(8, "a") >= 0, "a database forgotten");
	/* dropped and created again under the same name */
	run = send_model(WK_GENERATE, 8, "a", "/fake/a", NULL, "@hang");
	usleep(20000);
	r = gen(8, "a", "/fake/other", NULL, "new files");
	CHECK(strcmp(r, "NEW FILES") == 0, "%s", r);
	r = result(run, NULL);
	CHECK(strcmp(r, "55000|model \"a\" was changed|") == 0, "%s", r);
}

static void
test_many_entries(void)
{
	char		name[32];
	const char *r;

	for (int i = 0; i < 64; i++)
	{
		snprintf(name, sizeof(name), "m%d", i);
		act(WK_MODEL_FORGET, 1, NULL);
		gen(20, name, "/fake/fail", NULL, "x");
	}
	/* failed entries are evicted */
	r = gen(21, "extra", "/fake/e", NULL, "fits");
	CHECK(strcmp(r, "FITS") == 0, "%s", r);
	CHECK(st->n_models <= 64, "%u rows", st->n_models);
	act(WK_MODEL_FORGET, 20, NULL);
}

static void
set(const char *line)
{
	peer_send(&P, line);
	usleep(50000);
}

static int
rows_of(int db)
{
	int			n = 0;

	for (uint32_t i = 0; i < st->n_models; i++)
		n += (int) st->models[i].dboid == db;
	return n;
}

/* A model whose request has just had its answer is idle, though the server has not freed the request yet. */
static void
test_evict_at_once(void)
{
	int			refused = 0;

	act(WK_MODEL_FORGET, 1, NULL);
	set("config max_models=1\n");
	for (int i = 0; i < 500; i++)
		refused += strcmp(gen(22, i % 2 ? "a" : "b", i % 2 ? "/fake/a" : "/fake/b", NULL, "x"), "X") != 0;
	CHECK(refused == 0, "%d of 500 refused", refused);
	set("config max_models=64\n");
	act(WK_MODEL_FORGET, 22, NULL);
}

/* Idle loaded models are evicted, the least recently used one first; others never are. */
static void
test_evict(void)
{
	Talk	   *run;
	Talk	   *load;
	const char *r;

	act(WK_MODEL_FORGET, 1, NULL);
	set("config max_models=3\n");
	gen(22, "a", "/fake/a", NULL, "x");
	gen(22, "b", "/fake/b", NULL, "x");
	gen(22, "c", "/fake/c", NULL, "x");
	gen(22, "a", "/fake/a", NULL, "x");
	r = gen(22, "d", "/fake/d", NULL, "fits");
	CHECK(strcmp(r, "FITS") == 0, "%s", r);
	CHECK(row(22, "b") < 0 && row(22, "a") >= 0 && row(22, "c") >= 0, "the one used longest ago goes");
	act(WK_MODEL_UNLOAD, 22, "d");
	r = gen(22, "b", "/fake/b", NULL, "back");
	CHECK(strcmp(r, "BACK") == 0 && row(22, "d") < 0 && row(22, "c") >= 0, "first one without weights: %s",
		  r);
	/* a request, a load, and one with unlimited keep-alive */
	act(WK_MODEL_FORGET, 22, NULL);
	run = send_model(WK_GENERATE, 22, "a", "/fake/a", NULL, "@hang");
	gen(22, "c", "/fake/c", "{\"keep_alive\": -1}", "x");
	load = send_model(WK_MODEL_LOAD, 22, "b", "/fake/slow:300", NULL, NULL);
	usleep(50000);
	set("config memory_timeout_ms=0\n");
	r = gen(22, "d", "/fake/d", NULL, "x");
	CHECK(strncmp(r, "54000|too many models in use (maximum is 3)|Raise vllm.max_models", 64) == 0, "%s", r);
	CHECK(strncmp(result(load, NULL), "arch fake", 9) == 0, "the load goes on");
	r = gen(22, "d", "/fake/d", NULL, "loaded, thus idle");
	CHECK(strcmp(r, "LOADED, THUS IDLE") == 0 && row(22, "b") < 0, "%s", r);
	/* a lower limit applies to the next entry */
	set("config max_models=2\n");
	CHECK(rows_of(22) == 3, "none goes by itself");
	r = gen(22, "e", "/fake/e", NULL, "x");
	CHECK(strncmp(r, "54000|", 6) == 0, "a and c stay: %s", r);
	talk_cancel(run);
	CHECK(talk_wait_closed(run, 3000), "the request ends");
	talk_free(run);
	EVENTUALLY(st->running == 0);
	r = gen(22, "e", "/fake/e", NULL, "two");
	CHECK(strcmp(r, "TWO") == 0 && rows_of(22) == 2 && row(22, "c") >= 0, "%s", r);
	set("config max_models=64\n");
	set("config memory_timeout_ms=60000\n");
	act(WK_MODEL_FORGET, 22, NULL);
}

static bool
is_open(Talk *t)
{
	Frame		f;

	while (talk_wait(t, &f, 100))
		if (f.final)
			return false;
	return true;
}

/* With all models busy a request waits, in the order of arrival, until one is idle. */
static void
test_wait_for_place(void)
{
	Talk	   *run[2];
	Talk	   *wait[4];
	const char *r;

	act(WK_MODEL_FORGET, 1, NULL);
	set("config max_models=2\n");
	run[0] = send_model(WK_GENERATE, 22, "a", "/fake/a", NULL, "@hang");
	run[1] = send_model(WK_GENERATE, 22, "b", "/fake/b", NULL, "@hang");
	EVENTUALLY(st->running == 2);
	for (int i = 0; i < 4; i++)
	{
		wait[i] = send_model(WK_GENERATE, 22, i == 0 ? "c" : i == 3 ? "e" : "d", i == 0 ? "/fake/c" : i == 3 ?
							 "/fake/e" : "/fake/d", NULL, i == 0 ? "@hang" : "x");
		CHECK(is_open(wait[i]), "%d waits", i);
	}
	r = gen(22, "a", "/fake/a", NULL, "has its place");
	CHECK(strcmp(r, "HAS ITS PLACE") == 0, "%s", r);
	/* one that gives up is gone at once, and the others move up */
	talk_cancel(wait[3]);
	CHECK(talk_wait_closed(wait[3], 1000), "the request ends");
	talk_free(wait[3]);
	talk_cancel(run[0]);
	CHECK(talk_wait_closed(run[0], 3000), "the request ends");
	talk_free(run[0]);
	EVENTUALLY(row(22, "c") >= 0 && row(22, "a") < 0);
	CHECK(is_open(wait[1]) && is_open(wait[2]) && row(22, "d") < 0, "the first one has the place");
	talk_cancel(run[1]);
	CHECK(talk_wait_closed(run[1], 3000), "the request ends");
	talk_free(run[1]);
	r = result(wait[1], NULL);
	CHECK(strcmp(r, "X") == 0, "%s", r);
	r = result(wait[2], NULL);
	CHECK(strcmp(r, "X") == 0, "%s", r);
	/* no longer than memory_timeout */
	run[1] = send_model(WK_GENERATE, 22, "d", "/fake/d", NULL, "@hang");
	EVENTUALLY(st->running == 2);
	set("config memory_timeout_ms=300\n");
	r = gen(22, "e", "/fake/e", NULL, "x");
	CHECK(strncmp(r, "54000|too many models in use (maximum is 2)", 43) == 0, "%s", r);
	set("config memory_timeout_ms=60000\n");
	/* a raised limit is a place */
	wait[1] = send_model(WK_GENERATE, 22, "e", "/fake/e", NULL, "x");
	CHECK(is_open(wait[1]), "waits");
	set("config max_models=3\n");
	r = result(wait[1], NULL);
	CHECK(strcmp(r, "X") == 0, "%s", r);
	talk_cancel(run[1]);
	talk_cancel(wait[0]);
	CHECK(talk_wait_closed(run[1], 3000) && talk_wait_closed(wait[0], 3000), "the requests end");
	talk_free(run[1]);
	talk_free(wait[0]);
	EVENTUALLY(st->running == 0);
	act(WK_MODEL_FORGET, 22, NULL);
	/* models that are kept never make room */
	set("config max_models=1\n");
	gen(22, "a", "/fake/a", "{\"keep_alive\": -1}", "x");
	r = gen(22, "b", "/fake/b", NULL, "x");
	CHECK(strncmp(r, "54000|", 6) == 0, "%s", r);
	set("config max_models=64\n");
	act(WK_MODEL_FORGET, 22, NULL);
}

static void
test_check(void)
{
	const char *r;

	r = result(send_model(WK_MODEL_CHECK, 1, NULL, "/fake/c", "{\"max_model_len\": 77}", NULL), NULL);
	CHECK(strcmp(r, "arch fake len 77") == 0, "%s", r);
	r = result(send_model(WK_MODEL_CHECK, 1, NULL, "/fake/bad", NULL, NULL), NULL);
	CHECK(strncmp(r, "XX001|", 6) == 0, "%s", r);
	r = result(send_model(WK_MODEL_CHECK, 1, NULL, "/fake/c", "{\"x\": 1}", NULL), NULL);
	CHECK(strncmp(r, "22023|", 6) == 0, "%s", r);
}

/* Load, use, unload, at random and by several calls at once. */
static void
test_random(void)
{
	Talk	   *t[12] = {0};
	unsigned	seed = 3;
	Buf			b = {0};
	WireOut		o = peer_out(&b);

	for (int i = 0; i < 2000; i++)
	{
		int			k = rand_r(&seed) % 12;
		char		name[8];

		if (t[k] != NULL)
		{
			if (rand_r(&seed) % 3 == 0)
				talk_cancel(t[k]);
			else
				while (talk_pump(t[k]))
					;
			if (rand_r(&seed) % 2 == 0)
				peer_wait(&P, 1);
			talk_cancel(t[k]);
			CHECK(talk_wait_closed(t[k], 3000), "conversation ends");
			talk_free(t[k]);
		}
		snprintf(name, sizeof(name), "r%d", rand_r(&seed) % 3);
		switch (rand_r(&seed) % 6)
		{
			case 0:
				t[k] = send_model(WK_MODEL_UNLOAD, 30, name, NULL, NULL, NULL);
				break;
			case 1:
				t[k] = send_model(WK_MODEL_FORGET, 30, name, NULL, NULL, NULL);
				break;
			case 2:
				t[k] = send_model(WK_MODEL_LOAD, 30, name, "/fake/slow:10", NULL, NULL);
				break;
			default:
				t[k] = send_model(WK_GENERATE, 30, name, rand_r(&seed) % 2 ? "/fake/slow:10" : "/fake/r",
								  NULL, rand_r(&seed) % 2 ? "@hang" : "@slow:1 a b c");
				break;
		}
	}
	for (int k = 0; k < 12; k++)
		if (t[k] != NULL)
		{
			talk_cancel(t[k]);
			CHECK(talk_wait_closed(t[k], 3000), "conversation ends");
			talk_free(t[k]);
		}
	put_text(&o, WTAG_COMMAND, "integrity");
	EVENTUALLY(st->running == 0 && st->waiting == 0);
	CHECK(st->running == 0 && st->waiting == 0, "nothing is left: %lld, %lld", (long long) st->running,
		  (long long) st->waiting);
	CHECK(strcmp(result(talk_begin(&P, WK_CONTROL, &b), NULL), "ok") == 0, "integrity");
	buf_free(&b);
}

int
main(int argc, char **argv)
{
	static const char *const args[] = {"--fake", NULL};

	if (peer_start(&P, argc, argv, args, 32, 32768, 1 << 24))
	{
		st = wire_stats(&P.arena);
		RUN(test_load());
		RUN(test_share());
		RUN(test_fail());
		RUN(test_unload());
		RUN(test_unload_pinned());
		RUN(test_forget());
		RUN(test_forget_version());
		RUN(test_many_entries());
		RUN(test_evict());
	RUN(test_wait_for_place());
		RUN(test_evict_at_once());
		RUN(test_check());
		RUN(test_random());
	}
	peer_end(&P);
	return check_done("test_models_registry");
}
