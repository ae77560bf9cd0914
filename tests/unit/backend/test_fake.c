/*
 * test_fake.c
 *	  --fake as documented in docs/internals/testing.md: outputs, markers, request log.
 */
#include "tests/unit/wire_peer.h"

#include "tests/unit/check.h"

static Peer P;

typedef struct Run
{
	const char *prompt;
	int			max_tokens;		/* 0 = not given */
	double		temperature;
	int64_t		seed;			/* -1 = none */
	const char *stop;
	bool		include_stop;
	bool		want_ids;
	bool		stream;
} Run;

static void
put_text(WireOut *o, WireTag tag, const char *s)
{
	wire_put_str(o, tag, s, strlen(s));
}

static Talk *
run(const Run *a)
{
	Buf			b = {0};
	WireOut		o = peer_out(&b);
	Talk	   *t;

	wire_put_int(&o, WTAG_DATABASE, 5);
	wire_put_int(&o, WTAG_ROLE, 10);
	wire_put_int(&o, WTAG_SESSION, 1);
	put_text(&o, WTAG_MODEL, "m");
	put_text(&o, WTAG_MODEL_PATH, "/fake/m");
	put_text(&o, WTAG_PROMPT, a->prompt);
	if (a->max_tokens > 0)
		wire_put_int(&o, WTAG_MAX_TOKENS, a->max_tokens);
	wire_put_num(&o, WTAG_TEMPERATURE, a->temperature);
	wire_put_int(&o, WTAG_SEED, a->seed);
	if (a->stop != NULL)
		put_text(&o, WTAG_STOP, a->stop);
	wire_put_int(&o, WTAG_INCLUDE_STOP, a->include_stop);
	wire_put_int(&o, WTAG_WANT_IDS, a->want_ids);
	wire_put_int(&o, WTAG_STREAM, a->stream);
	t = talk_begin(&P, WK_GENERATE, &b);
	buf_free(&b);
	return t;
}

/* Return "text|finish_reason|stop_reason" or "SQLSTATE|message". */
static const char *
result(Talk *t)
{
	static char buf[4096];
	Frame		f;

	if (!talk_final(t, &f, 10000))
		snprintf(buf, sizeof(buf), "closed");
	else if (f.kind == WF_ERROR)
		snprintf(buf, sizeof(buf), "%s|%s", frame_str(&f, WTAG_SQLSTATE), frame_str(&f, WTAG_MESSAGE));
	else
		snprintf(buf, sizeof(buf), "%s|%s|%s", frame_str(&f, WTAG_TEXT), frame_str(&f, WTAG_FINISH_REASON),
				 frame_str(&f, WTAG_STOP_REASON));
	talk_wait_closed(t, 2000);
	talk_free(t);
	return buf;
}

static const char *
say(const char *prompt)
{
	return result(run(&(Run) {.prompt = prompt,.seed = -1}));
}

static const char *
control(const char *command)
{
	char	   *bar;
	static char r[4096];

	snprintf(r, sizeof(r), "%s", result(talk_command(&P, command)));
	bar = strrchr(r, '|');
	if (bar != NULL)
		*bar = '\0';
	bar = strrchr(r, '|');
	if (bar != NULL)
		*bar = '\0';
	return r;
}

#define SAYS(prompt, want) \
	do { const char *got = say(prompt); CHECK(strcmp(got, want) == 0, "%s -> %s", prompt, got); } while (0)

static void
test_answers(void)
{
	const char *r;
	Talk	   *t;
	Frame		f;
	WireField	v;

	SAYS("the quick\tbrown  fox", "THE QUICK BROWN FOX|stop|");
	SAYS("   ", "|stop|");
	SAYS("", "22023|prompt must not be empty");
	SAYS("na\xc3\xafve", "NA\xc3\xafVE|stop|");
	r = result(run(&(Run) {.prompt = "a b c d",.max_tokens = 2,.seed = -1}));
	CHECK(strcmp(r, "A B|length|") == 0, "%s", r);
	r = result(run(&(Run) {.prompt = "a b c d",.max_tokens = 4,.seed = -1}));
	CHECK(strcmp(r, "A B C D|stop|") == 0, "%s", r);
	r = result(run(&(Run) {.prompt = "a b",.temperature = 1,.seed = 42}));
	CHECK(strcmp(r, "A B #42|stop|") == 0, "%s", r);
	r = result(run(&(Run) {.prompt = "a b",.temperature = 1,.seed = -1}));
	CHECK(strncmp(r, "A B #r", 6) == 0, "%s", r);
	r = result(run(&(Run) {.prompt = "one two three",.stop = "WO",.seed = -1}));
	CHECK(strcmp(r, "ONE T|stop|WO") == 0, "%s", r);
	r = result(run(&(Run) {.prompt = "one two three",.stop = "WO",.include_stop = true,.seed = -1}));
	CHECK(strcmp(r, "ONE TWO|stop|WO") == 0, "%s", r);
	t = run(&(Run) {.prompt = "one two three",.want_ids = true,.seed = -1});
	CHECK(talk_final(t, &f, 5000) && frame_field(&f, WTAG_TOKEN_IDS, &v) && v.n == 3, "token ids");
	talk_free(t);
}

static void
test_markers(void)
{
	int64_t		t0;
	Talk	   *t;
	Frame		f;
	WireField	v;
	int			n = 0;

	SAYS("x @error", "22023|fake error");
	SAYS("x @error:54000:much too long", "54000|much too long");
	SAYS("x @error:58030:no disk", "58030|no disk");
	SAYS("x @errors", "X @ERRORS|stop|");
	SAYS("@tokens:3", "w1 w2 w3|stop|");
	SAYS("@close", "closed");
	t0 = clock_us();
	SAYS("@delay:100 x", "@DELAY:100 X|stop|");
	CHECK(clock_us() - t0 >= 100000, "delayed");
	t = run(&(Run) {.prompt = "@hang",.seed = -1});
	usleep(20000);
	EVENTUALLY(atomic_load(&P.h->busy) == 0);
	CHECK(atomic_load(&P.h->busy) == 0, "waiting is not being busy");
	talk_cancel(t);
	CHECK(talk_wait_closed(t, 2000), "@hang can be cancelled");
	talk_free(t);
	t = run(&(Run) {.prompt = "@nul",.seed = -1});
	CHECK(talk_final(t, &f, 5000) && frame_field(&f, WTAG_TEXT, &v) && memchr(v.s, 0, v.n) != NULL, "@nul");
	talk_free(t);
	t = run(&(Run) {.prompt = "@badutf8",.seed = -1});
	CHECK(talk_final(t, &f, 5000) && frame_field(&f, WTAG_TEXT, &v) && memchr(v.s, 0xff, v.n) != NULL,
		  "@badutf8");
	talk_free(t);
	t = run(&(Run) {.prompt = "@big:100000",.seed = -1});
	CHECK(talk_final(t, &f, 5000) && frame_field(&f, WTAG_TEXT, &v) && v.n == 100000, "@big");
	talk_free(t);
	t0 = clock_us();
	t = run(&(Run) {.prompt = "@slow:20 @tokens:5",.seed = -1,.stream = true});
	while (talk_wait(t, &f, 5000) && !f.final)
		n += f.kind == WF_TEXT;
	CHECK(n == 5 && clock_us() - t0 >= 80000, "@slow: %d deltas", n);
	talk_free(t);
}

/* ---- vectors, scores, labels ---- */

typedef struct Pool
{
	const char *task;
	const char *text;
	const char *pair;
	const char *path;			/* NULL: all tasks */
	int			dimensions;
	int			activation;		/* 0 = not given, 1 off, 2 on */
	int			step_tag;		/* 0 = none */
	bool		labels,
				ids;
	const char *const *choices; /* WK_LOGPROBS */
} Pool;

static Talk *
call_pool(const Pool *a)
{
	Buf			b = {0};
	WireOut		o = peer_out(&b);
	Talk	   *t;

	wire_put_int(&o, WTAG_DATABASE, 5);
	wire_put_int(&o, WTAG_ROLE, 10);
	wire_put_int(&o, WTAG_SESSION, 1);
	put_text(&o, WTAG_MODEL, a->path != NULL ? "e" : "m");
	put_text(&o, WTAG_MODEL_PATH, a->path != NULL ? a->path : "/fake/m");
	put_text(&o, WTAG_PROMPT, a->text);
	if (a->task != NULL)
		put_text(&o, WTAG_TASK, a->task);
	if (a->pair != NULL)
		put_text(&o, WTAG_PAIR, a->pair);
	if (a->dimensions > 0)
		wire_put_int(&o, WTAG_DIMENSIONS, a->dimensions);
	if (a->activation > 0)
		wire_put_int(&o, WTAG_USE_ACTIVATION, a->activation - 1);
	if (a->step_tag > 0)
		wire_put_int(&o, WTAG_STEP_TAG_ID, a->step_tag);
	wire_put_int(&o, WTAG_WANT_LABELS, a->labels);
	wire_put_int(&o, WTAG_WANT_IDS, a->ids);
	for (const char *const *c = a->choices; c != NULL && *c != NULL; c++)
		put_text(&o, WTAG_CHOICE, *c);
	t = talk_begin(&P, a->task != NULL ? WK_POOL : WK_LOGPROBS, &b);
	buf_free(&b);
	return t;
}

typedef struct Vector
{
	float		v[256];
	int			n;
	int64_t		rows;
	char		error[600];
} Vector;

static Vector
pool(const Pool *a)
{
	Vector		r = {0};
	Talk	   *t = call_pool(a);
	Frame		f;
	WireField	v;

	if (!talk_final(t, &f, 10000))
		snprintf(r.error, sizeof(r.error), "closed");
	else if (f.kind == WF_ERROR)
		snprintf(r.error, sizeof(r.error), "%s|%.500s", frame_str(&f, WTAG_SQLSTATE),
				 frame_str(&f, WTAG_MESSAGE));
	else if (frame_field(&f, WTAG_FLOATS, &v) && v.n <= 256)
	{
		wire_floats(&v, r.v);
		r.n = (int) v.n;
		r.rows = frame_int(&f, WTAG_ROWS);
	}
	talk_wait_closed(t, 2000);
	talk_free(t);
	return r;
}

static double
dot(const Vector *a, const Vector *b)
{
	double		sum = 0;

	for (int i = 0; i < a->n && i < b->n; i++)
		sum += (double) a->v[i] * b->v[i];
	return sum;
}

static void
test_vectors(void)
{
	Vector		a = pool(&(Pool) {.task = "embed",.text = "the cat sat on the mat"});
	Vector		b = pool(&(Pool) {.task = "embed",.text = "The cat sat on a mat."});
	Vector		c = pool(&(Pool) {.task = "embed",.text = "stock prices fell"});
	Vector		s = pool(&(Pool) {.task = "score",.text = "the cat sat on the mat",
								  .pair = "stock prices fell"});
	Vector		d;

	CHECK(a.n == 16 && a.rows == 1 && dot(&a, &a) > 0.9999 && dot(&a, &a) < 1.0001, "an embedding: %d", a.n);
	CHECK(dot(&a, &b) > 0.7 && dot(&a, &b) > dot(&a, &c) + 0.3, "%g and %g", dot(&a, &b), dot(&a, &c));
	CHECK(s.n == 1 && s.v[0] - dot(&a, &c) < 1e-5 && s.v[0] - dot(&a, &c) > -1e-5, "score %g", s.v[0]);
	d = pool(&(Pool) {.task = "embed",.text = "the cat sat on the mat",.dimensions = 4,.activation = 1});
	CHECK(d.n == 4 && d.v[0] == (float) (int) d.v[0] && dot(&d, &d) > 1, "not normalized: %g", d.v[0]);
	d = pool(&(Pool) {.task = "token_embed",.text = "two words"});
	CHECK(d.rows == 4 && d.n == 64, "%d values in %d rows", d.n, (int) d.rows);
	d = pool(&(Pool) {.task = "reward",.text = "good. good bad.",.step_tag = '.'});
	CHECK(d.rows == 2 && d.v[0] == 1.1f && d.v[1] == 1.3f, "steps %g %g", d.v[0], d.v[1]);
}

static void
test_labels(void)
{
	Vector		a = pool(&(Pool) {.task = "classify",.text = "I love this great thing"});
	Talk	   *t = call_pool(&(Pool) {.task = "token_classify",.text = "Z\xc3\xbcrich met Washington 42",
									   .labels = true,.ids = true});
	Frame		f;
	WireField	v;
	static const int want[] = {0, 0, 0, 6, 7, 10, 11, 17, 17, 21, 22, 24, 0, 0};
	char		labels[100] = "";
	WireIn		in;

	CHECK(a.n == 3 && a.v[2] > a.v[1] && a.v[1] > a.v[0], "positive");
	CHECK(talk_final(t, &f, 5000) && frame_field(&f, WTAG_OFFSETS, &v) && v.n == 14, "offsets: %zu", v.n);
	for (size_t i = 0; i < 14 && i < v.n; i++)
		CHECK(wire_int_at(&v, i) == want[i], "offset %zu is %d", i, wire_int_at(&v, i));
	in = (WireIn) {f.data, f.data + f.len};
	while (wire_next(&in, &v) > 0)
		if (v.tag == WTAG_LABEL)
			snprintf(labels + strlen(labels), sizeof(labels) - strlen(labels), "%.*s ", (int) v.n, v.s);
	CHECK(strcmp(labels, "O B-NAME I-NAME NUMBER ") == 0, "%s", labels);
	CHECK(frame_field(&f, WTAG_FLOATS, &v) && v.n == 28, "scores: %zu", v.n);
	talk_free(t);
}

static void
test_logprobs(void)
{
	static const char *const choices[] = {"red", "blue", NULL};
	Talk	   *t = call_pool(&(Pool) {.text = "I like red: ",.choices = choices});
	Frame		f;
	WireField	v;
	Vector		a;

	CHECK(talk_final(t, &f, 5000) && frame_field(&f, WTAG_COUNTS, &v) && v.n == 2 &&
		  wire_int_at(&v, 0) == 3 && wire_int_at(&v, 1) == 4, "counts");
	CHECK(frame_field(&f, WTAG_GREEDY, &v) && wire_int_at(&v, 0) == 1 && wire_int_at(&v, 1) == 0, "greedy");
	talk_free(t);
	a = pool(&(Pool) {.text = "four"});
	CHECK(a.n == 3 && a.v[0] == -0.25f * (1 + 'o' % 7), "a prompt's own: %d", a.n);
}

static void
test_pool_errors(void)
{
	const char *r;
	Vector		a = pool(&(Pool) {.task = "embed",.text = "x @error:53200:no room"});

	CHECK(strcmp(a.error, "53200|no room") == 0, "%s", a.error);
	a = pool(&(Pool) {.task = "embed",.text = "x",.dimensions = 17});
	CHECK(strcmp(a.error, "22023|dimensions must be at most 16") == 0, "%s", a.error);
	a = pool(&(Pool) {.task = "classify",.text = "x",.path = "/fake/embed"});
	CHECK(strcmp(a.error, "0A000|the model does not support the task \"classify\"") == 0, "%s", a.error);
	a = pool(&(Pool) {.task = "score",.text = "x",.pair = "y",.path = "/fake/embed"});
	CHECK(a.n == 1, "%s", a.error);
	a = pool(&(Pool) {.task = "embed",.text = ""});
	CHECK(strcmp(a.error, "22023|input has no tokens") == 0, "%s", a.error);
	control("log-clear");
	pool(&(Pool) {.task = "score",.text = "one",.pair = "two\n"});
	r = control("log");
	CHECK(strcmp(r, "5 10 m score - one | two\\n\n") == 0, "%s", r);
}

/* At most fake_batch requests in a step. */
static void
test_batches(void)
{
	volatile WireStats *st = wire_stats(&P.arena);
	Talk	   *t[10];
	int64_t		steps;
	int64_t		seqs;

	peer_send(&P, "config fake_step_ms=30\nconfig fake_batch=4\n");
	usleep(50000);
	steps = st->steps;
	seqs = st->step_seqs;
	for (int i = 0; i < 10; i++)
		t[i] = run(&(Run) {.prompt = "x",.seed = -1});
	for (int i = 0; i < 10; i++)
		result(t[i]);
	CHECK(st->steps - steps >= 3 && st->steps - steps <= 4 && st->step_seqs - seqs == 10,
		  "10 requests took %lld steps", (long long) (st->steps - steps));
	peer_send(&P, "config fake_step_ms=0\nconfig fake_batch=32\n");
	usleep(50000);
}

static void
test_log(void)
{
	const char *r;

	CHECK(strcmp(control("log-clear"), "") == 0, "log-clear");
	result(run(&(Run) {.prompt = "first\nline",.max_tokens = 7,.seed = -1}));
	result(run(&(Run) {.prompt = "second",.temperature = 0.5,.seed = -1}));
	r = control("log");
	CHECK(strcmp(r, "5 10 m 7 0 first\\nline\n5 10 m - 0.5 second\n") == 0, "%s", r);
	r = control("integrity");
	CHECK(strcmp(r, "ok") == 0, "%s", r);
}

int
main(int argc, char **argv)
{
	static const char *const args[] = {"--fake", NULL};

	if (peer_start(&P, argc, argv, args, 16, 32768, 1 << 24))
	{
		RUN(test_answers());
		RUN(test_markers());
		RUN(test_vectors());
		RUN(test_labels());
		RUN(test_logprobs());
		RUN(test_pool_errors());
		RUN(test_batches());
		RUN(test_log());
	}
	peer_end(&P);
	return check_done("test_fake");
}
