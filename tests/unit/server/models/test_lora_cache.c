/*
 * test_lora_cache.c
 *	  The cache of adapters from outside (--fake): load, share, evict, pin, unload, files that change,
 *	  places that are taken.
 */
#include "tests/unit/wire_peer.h"

#include "tests/unit/check.h"

static Peer P;

static void
put_text(WireOut *o, WireTag tag, const char *s)
{
	wire_put_str(o, tag, s, strlen(s));
}

static Talk *
call(WireKind kind, const char *model, const char *path, int pin, const char *prompt)
{
	Buf			b = {0};
	WireOut		o = peer_out(&b);
	Talk	   *t;

	wire_put_int(&o, WTAG_DATABASE, 1);
	wire_put_int(&o, WTAG_ROLE, 10);
	if (model != NULL)
	{
		put_text(&o, WTAG_MODEL, model);
		if (kind != WK_LORA_UNLOAD)
		{
			put_text(&o, WTAG_MODEL_PATH, "/fake/m");
			put_text(&o, WTAG_MODEL_OPTIONS, strcmp(model, "off") == 0 ? "{\"enable_lora\": false}" :
					 strcmp(model, "odd") == 0 ? "{\"max_loras\": 40, \"max_cpu_loras\": 3}" :
						 "{\"max_loras\": 2, \"max_cpu_loras\": 2}");
		}
	}
	if (path != NULL)
	{
		const char *slash = strrchr(path, '/');

		put_text(&o, WTAG_LORA, slash != NULL ? slash + 1 : path);
		put_text(&o, WTAG_LORA_PATH, path);
	}
	if (pin >= 0)
		wire_put_int(&o, WTAG_LORA_PIN, pin);
	if (prompt != NULL)
		put_text(&o, WTAG_PROMPT, prompt);
	t = talk_begin(&P, kind, &b);
	buf_free(&b);
	return t;
}

/* Return the text, "count N" or "SQLSTATE|message" of the final frame. */
static const char *
result(Talk *t)
{
	static char buf[65536];
	Frame		f;

	snprintf(buf, sizeof(buf), "closed");
	while (talk_wait(t, &f, 10000))
	{
		if (f.kind == WF_ERROR)
			snprintf(buf, sizeof(buf), "%s|%s", frame_str(&f, WTAG_SQLSTATE), frame_str(&f, WTAG_MESSAGE));
		else if (f.final && frame_int(&f, WTAG_COUNT) >= 0)
			snprintf(buf, sizeof(buf), "count %lld", (long long) frame_int(&f, WTAG_COUNT));
		else if (f.final)
			snprintf(buf, sizeof(buf), "%s", frame_str(&f, WTAG_TEXT));
		if (f.final)
			break;
	}
	talk_wait_closed(t, 2000);
	talk_free(t);
	return buf;
}

static const char *
gen(const char *path, const char *prompt)
{
	return result(call(WK_GENERATE, "m", path, -1, prompt));
}

static const char *
list(void)
{
	return result(call(WK_LORA_LIST, NULL, NULL, -1, NULL));
}

static int
listed(void)
{
	int			n = 0;

	for (const char *p = list(); (p = strstr(p, "\"path\"")) != NULL; p++)
		n++;
	return n;
}

static bool
has(const char *name)
{
	char		key[128];

	snprintf(key, sizeof(key), "\"path\":\"/fake/%s\"", name);
	return strstr(list(), key) != NULL;
}

#define IS(got, want) \
	do { const char *got_ = (got); CHECK(strcmp(got_, want) == 0, "got %s", got_); } while (0)
#define BEGINS(got, want) \
	do { const char *got_ = (got); CHECK(strncmp(got_, want, strlen(want)) == 0, "got %s", got_); } while (0)

static void
test_use(void)
{
	IS(list(), "[]");
	IS(gen(NULL, "a b"), "A B");
	IS(gen("/fake/one", "a b"), "[one] A B");
	IS(gen("/fake/two", "a b"), "[two] A B");
	IS(gen(NULL, "a b"), "A B");
	CHECK(listed() == 2 && has("one") && has("two"), "%s", list());
	/* the least recently used one is evicted */
	IS(gen("/fake/one", "c"), "[one] C");
	IS(gen("/fake/three", "c"), "[three] C");
	CHECK(listed() == 2 && has("one") && has("three"), "%s", list());
	BEGINS(result(call(WK_LORA_LOAD, "m", "/fake/two", -1, NULL)), "{\"rank\":8,\"alpha\":16");
	CHECK(listed() == 2 && has("two") && has("three"), "%s", list());
	BEGINS(result(call(WK_LORA_CHECK, NULL, "/fake/rank:32", -1, NULL)), "{\"rank\":32,");
	CHECK(listed() == 2, "a check leaves the cache as it is");
}

static void
test_errors(void)
{
	IS(gen("/fake/fail", "a"), "XX001|fake adapter failure");
	IS(result(call(WK_LORA_CHECK, NULL, "/fake/fail", -1, NULL)), "XX001|fake adapter failure");
	BEGINS(gen("/nowhere/x", "a"), "58030|");
	BEGINS(gen("relative", "a"), "22023|");
	BEGINS(gen("/fake/rank:128", "a"), "54000|the adapter's rank 128 is above max_lora_rank (64)");
	BEGINS(result(call(WK_GENERATE, "off", "/fake/one", -1, "a")), "0A000|model \"off\" takes no adapters");
	BEGINS(result(call(WK_GENERATE, "odd", "/fake/one", -1, "a")),
		   "22023|model option \"max_cpu_loras\" (3) must be at least max_loras (40)");
}

static void
test_pin(void)
{
	BEGINS(result(call(WK_LORA_LOAD, "m", "/fake/one", 1, NULL)), "{\"rank\"");
	IS(gen("/fake/four", "a"), "[four] A");
	IS(gen("/fake/five", "a"), "[five] A");
	CHECK(has("one") && has("five") && listed() == 2, "%s", list());
	BEGINS(result(call(WK_LORA_LOAD, "m", "/fake/five", 1, NULL)), "{\"rank\"");
	BEGINS(gen("/fake/four", "a"), "55000|adapter \"four\" can't be loaded");
	IS(result(call(WK_LORA_UNLOAD, "m", "/fake/five", -1, NULL)), "count 1");
	IS(result(call(WK_LORA_UNLOAD, "m", "/fake/five", -1, NULL)), "count 0");
	IS(result(call(WK_LORA_UNLOAD, "nobody", "/fake/five", -1, NULL)), "count 0");
	IS(gen("/fake/four", "a"), "[four] A");
	BEGINS(result(call(WK_LORA_LOAD, "m", "/fake/one", 0, NULL)), "{\"rank\"");
}

/* Both places are in use: the third adapter waits until one is free, others continue. */
static void
test_wait(void)
{
	Talk	   *a = call(WK_GENERATE, "m", "/fake/a", -1, "x @delay:300");
	Talk	   *b = call(WK_GENERATE, "m", "/fake/b", -1, "x @hang");
	Talk	   *c;
	Talk	   *d;
	Frame		f;
	int64_t		start = clock_us();

	usleep(100000);
	CHECK(has("a") && has("b"), "%s", list());
	c = call(WK_GENERATE, "m", "/fake/c", -1, "y");
	d = call(WK_GENERATE, "m", "/fake/d", -1, "z");
	IS(gen(NULL, "base"), "BASE");
	IS(gen("/fake/a", "also"), "[a] ALSO");
	CHECK(!talk_wait(c, &f, 50), "nobody may load a third");
	/* leaving, but still in use: it keeps its place */
	IS(result(call(WK_LORA_UNLOAD, "m", "/fake/b", -1, NULL)), "count 1");
	CHECK(strstr(list(), "leaving") != NULL, "%s", list());
	talk_cancel(d);
	talk_free(d);
	IS(result(a), "[a] X @DELAY:300");
	IS(result(c), "[c] Y");
	CHECK(clock_us() - start < 900000, "it waited %lld ms", (long long) (clock_us() - start) / 1000);
	talk_cancel(b);
	talk_free(b);
	for (int i = 0; i < 100 && has("b"); i++)
		usleep(20000);
	CHECK(!has("b"), "%s", list());
}

/* Both places are always in use, and a third adapter gets its turn nevertheless. */
static void
test_starve(void)
{
	static const char *const path[] = {"/fake/a", "/fake/b", "/fake/a", "/fake/b"};
	static const char *const want[] = {"[a] X", "[b] X", "[a] X", "[b] X"};
	Talk	   *t[4];
	Talk	   *c;
	Frame		f;
	bool		done = false;
	int			i;

	/* two requests of each, alternating: when one ends the other has half of its time left */
	for (int k = 0; k < 4; k++)
	{
		t[k] = call(WK_GENERATE, "m", path[k], -1, "x @delay:80");
		if (k == 1)
			usleep(40000);
	}
	c = call(WK_GENERATE, "m", "/fake/c", -1, "y");
	for (i = 0; i < 160 && !done; i++)
	{
		BEGINS(result(t[i % 4]), want[i % 4]);
		t[i % 4] = call(WK_GENERATE, "m", path[i % 4], -1, "x @delay:80");
		done = talk_wait(c, &f, 0) && (f.final || (talk_wait(c, &f, 0) && f.final));
	}
	CHECK(done, "adapter c has waited for %d requests", i);
	if (done)
		CHECK(f.kind == WF_DONE && strcmp(frame_str(&f, WTAG_TEXT), "[c] Y") == 0, "%s",
			  frame_str(&f, WTAG_TEXT));
	else
		talk_cancel(c);
	talk_wait_closed(c, 2000);
	talk_free(c);
	for (int k = 0; k < 4; k++)
		BEGINS(result(t[k]), want[k]);
}

/* A slow load: requests for the adapter share it, others don't wait. */
static void
test_slow(void)
{
	Talk	   *t[3];
	int64_t		start = clock_us();

	for (int i = 0; i < 3; i++)
		t[i] = call(WK_GENERATE, "m", "/fake/slow:400", -1, "x");
	IS(gen(NULL, "base"), "BASE");
	CHECK(clock_us() - start < 300000, "others wait");
	for (int i = 0; i < 3; i++)
		IS(result(t[i]), "[slow:400] X");
	CHECK(clock_us() - start < 790000, "it is loaded once");
	/* nor does a request whose adapter is in memory, while as many are loaded as there are threads */
	IS(gen("/fake/one", "x"), "[one] X");
	start = clock_us();
	t[0] = call(WK_LORA_CHECK, NULL, "/fake/slow:403", -1, NULL);
	t[1] = call(WK_LORA_CHECK, NULL, "/fake/slow:404", -1, NULL);
	usleep(50000);
	IS(gen("/fake/one", "x"), "[one] X");
	CHECK(clock_us() - start < 300000, "who has an adapter waits for others' loads: %lld ms",
		  (long long) (clock_us() - start) / 1000);
	BEGINS(result(t[0]), "{\"rank\":8");
	BEGINS(result(t[1]), "{\"rank\":8");
	/* cancelled while it is loaded */
	t[0] = call(WK_GENERATE, "m", "/fake/slow:401", -1, "x");
	usleep(50000);
	talk_cancel(t[0]);
	talk_free(t[0]);
	/* the model is unloaded while an adapter is loaded */
	t[1] = call(WK_GENERATE, "m", "/fake/slow:402", -1, "x");
	usleep(50000);
	result(call(WK_MODEL_UNLOAD, "m", NULL, -1, NULL));
	BEGINS(result(t[1]), "55000|");
	IS(gen("/fake/one", "back"), "[one] BACK");
	IS(gen(NULL, "back"), "BACK");
}

/* Files that have changed are another adapter. */
static void
test_change(void)
{
	char		dir[] = "/tmp/test_lora_XXXXXX";
	char		file[256];
	char		want[300];
	FILE	   *f;
	const char *id;
	Talk	   *old;
	Talk	   *other;
	long long	first;

	CHECK(mkdtemp(dir) != NULL, "a directory");
	snprintf(file, sizeof(file), "%s/adapter_config.json", dir);
	snprintf(want, sizeof(want), "[%s] A", strrchr(dir, '/') + 1);
	f = fopen(file, "w");
	fputs("{}", f);
	fclose(f);
	IS(gen(dir, "a"), want);
	id = strstr(list(), dir);
	first = id != NULL ? atoll(strstr(id, "\"id\":") + 5) : -1;
	IS(gen(dir, "a"), want);
	id = strstr(list(), dir);
	CHECK(id != NULL && atoll(strstr(id, "\"id\":") + 5) == first, "the same files");
	f = fopen(file, "w");
	fputs("{ }", f);
	fclose(f);
	IS(gen(dir, "a"), want);
	id = strstr(list(), dir);
	CHECK(id != NULL && atoll(strstr(id, "\"id\":") + 5) > first, "%s", list());
	/*
	 * pinned ones are pinned again, even if there is no free place at once: both are in use, one by the
	 * old version
	 */
	BEGINS(result(call(WK_LORA_LOAD, "m", dir, 1, NULL)), "{\"rank\"");
	old = call(WK_GENERATE, "m", dir, -1, "a @delay:300");
	other = call(WK_GENERATE, "m", "/fake/other", -1, "a @delay:300");
	usleep(100000);
	f = fopen(file, "w");
	fputs("{  }", f);
	fclose(f);
	IS(gen(dir, "a"), want);
	BEGINS(result(old), want);
	BEGINS(result(other), "[other] A");
	id = strstr(list(), dir);
	CHECK(id != NULL && strstr(id, "\"pinned\":true") != NULL &&
		  strstr(id, "\"pinned\":true") < strchr(id, '}'), "%s", list());
	result(call(WK_LORA_UNLOAD, "m", dir, -1, NULL));
	unlink(file);
	rmdir(dir);
	BEGINS(gen(dir, "a"), "58030|");
}

/* Many random operations; nothing may be left. */
static void
test_random(void)
{
	Talk	   *t[24] = {NULL};
	unsigned	seed = 7;

	for (int i = 0; i < 600; i++)
	{
		int			k = (int) (rand_r(&seed) % 24);
		char		path[64];

		if (t[k] != NULL)
		{
			if (rand_r(&seed) % 4 == 0)
			{
				talk_cancel(t[k]);
				talk_free(t[k]);
			}
			else
				BEGINS(result(t[k]), "[");
			t[k] = NULL;
		}
		snprintf(path, sizeof(path), "/fake/%sr%d", rand_r(&seed) % 8 == 0 ? "x/" : "",
				 (int) (rand_r(&seed) % 5));
		t[k] = call(WK_GENERATE, "m", path, -1, rand_r(&seed) % 4 == 0 ? "x @delay:3" : "x");
		if (i % 50 == 49)
			result(call(WK_LORA_UNLOAD, "m", path, -1, NULL));
	}
	for (int k = 0; k < 24; k++)
		if (t[k] != NULL)
			BEGINS(result(t[k]), "[");
	/* the client may have the final frame a moment before the server releases the adapter */
	for (int i = 0;
		 i < 100 && (strstr(list(), "\"state\":\"leaving\"") != NULL ||
					 strstr(list(), "\"running\":1") != NULL); i++)
		usleep(20000);
	CHECK(listed() <= 2 * 16 && strstr(list(), "\"running\":1") == NULL, "%s", list());
	{
		Buf			b = {0};
		WireOut		o = peer_out(&b);

		put_text(&o, WTAG_COMMAND, "integrity");
		IS(result(talk_begin(&P, WK_CONTROL, &b)), "ok");
		buf_free(&b);
	}
}

int
main(int argc, char **argv)
{
	static const char *const args[] = {"--fake", NULL};

	if (peer_start(&P, argc, argv, args, 64, 32768, 1 << 24))
	{
		RUN(test_use());
		RUN(test_errors());
		RUN(test_pin());
		RUN(test_wait());
		RUN(test_starve());
		RUN(test_slow());
		RUN(test_change());
		RUN(test_random());
	}
	peer_end(&P);
	return check_done("test_lora_cache");
}
