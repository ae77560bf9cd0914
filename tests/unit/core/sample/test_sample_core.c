/*
 * test_sample_core.c
 *	  The core on a device that samples: which rows the device samples, whose logits are copied to the
 *	  host, and outputs that equal those of a core without a device, bit for bit, with their
 *	  log-probabilities.
 *
 * The device is "host" (hostdev.h) with an op that is the engine's own sampler (sample_op.h), so only
 * the path of the rows can make a difference.  tests/emu/test_sample.cu tests the results of the kernel,
 * and test_spec_device drafts on such a device.
 */
#include "core/output/guided_decoding.h"
#include "core/core_internal.h"
#include "core/output/output_queue.h"
#include "hostdev.h"

#include <limits.h>
#include <stdatomic.h>
#include <unistd.h>

#include "tests/unit/build_path.h"
#include "tests/unit/core/answers_util.h"
#include "tests/unit/core/sample/sample_kinds.h"
#include "tests/unit/sample_op.h"

static KDeviceOps counting;
static const KDeviceOps *cpus;
static size_t got;				/* floats copied from the device */
static Plugins *plugins;

static void
count_get(KDevice *d, void *dst, const void *src, size_t size)
{
	got += size / sizeof(float);
	cpus->get(d, dst, src, size);
}

/* A device that samples or doesn't. */
static Dev
open_device(bool samples)
{
	static const KHost host = {.abi = KDEVICE_ABI, .pool_device = kpool_device,
							   .pool_threads = kpool_nthreads};
	KDevOpen	open = {.max_rows = 1, .max_seqs = 1, .max_blocks = 1, .max_out = 1};
	char		why[128] = "";
	Dev			dev = {.ops = &counting};

	cpus = kdevice_of_cpus("host");
	counting = *cpus;
	counting.get = count_get;
	dev.d = cpus->open(0, &host, &open, why, sizeof(why));
	CHECK(dev.d != NULL, "%s", why);
	dev.k = cpus->kernels(dev.d, KT_F32);
	if (samples)
		dev.k = with_sample_op(dev.k);
	return dev;
}

/* ---- requests ---- */

static void
issue(Core *c, Kind k, int i, Answers *to)
{
	GenParams	p = params_of(k, i, plugins);
	ReqSpec		spec = {
		.id = (uint64_t) i + 1, .session = (uint64_t) i % 3,
		.prompt = random_prompt((uint32_t) i, 5 + i * 7 % 30), .sink = answers_sink, .sink_ctx = to,
		.grammar = k == GRAMMAR || k == LOGPROBS_GRAMMAR ? digits() : NULL
	};
	Err			e = {0};
	uint64_t	given = GP(TEMPERATURE) | GP(MAX_TOKENS) | GP(TOP_K) | GP(TOP_P);

	if (!core_normalize(c, &p, given, &spec.prompt, &e))
	{
		fprintf(stderr, "core_normalize: %s\n", e.msg);
		exit(2);
	}
	spec.params = p;
	atomic_fetch_add(&answers_open, 1);
	core_submit(c, &spec);
}

/* ---- runs ---- */

#define N_REQUESTS (2 * KINDS)

typedef struct Run
{
	Answers		a[N_REQUESTS];
	int			tokens[KINDS];	/* of each kind */
	int			sampled;		/* rows that the device has sampled */
	int			calls;
	size_t		got;			/* floats that were copied */
} Run;

static Core *
new_core(const Dev *dev, int seqs, bool processed)
{
	CoreOptions o = options(seqs, 48, 200);

	o.dev = dev;
	o.plugins = plugins;
	o.prefix_caching = true;
	o.no_jump = true;			/* so that each token has a row */
	o.return_processed = processed;
	o.max_logprobs = 50;
	return core_for_grammars(fake_model(512), tiny_tok(), o);
}

/* Run requests of all kinds together, or of one kind; `seqs` at a time. */
static void
run(Run *r, const Dev *dev, int only, int seqs, bool processed)
{
	Core	   *c = new_core(dev, seqs, processed);
	int			calls = atomic_load(&sample_ops.calls),
				rows = atomic_load(&sample_ops.rows);

	memset(r, 0, sizeof(*r));
	got = 0;
	for (int i = 0; i < N_REQUESTS; i++)
		if (only < 0 || i % KINDS == only)
			issue(c, (Kind) (i % KINDS), i, &r->a[i]);
	answers_run(c, "run");
	for (int i = 0; i < N_REQUESTS; i++)
		r->tokens[i % KINDS] += r->a[i].output_tokens;
	r->calls = atomic_load(&sample_ops.calls) - calls;
	r->sampled = atomic_load(&sample_ops.rows) - rows;
	r->got = got;
	core_free(c);
}

static void
run_free(Run *r)
{
	for (int i = 0; i < N_REQUESTS; i++)
		answers_free(&r->a[i]);
}

static bool
same_lp(const Logprobs *a, const Logprobs *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	if (a->n != b->n || a->counts.len != b->counts.len)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (a->e[i].id != b->e[i].id || a->e[i].rank != b->e[i].rank ||
			memcmp(&a->e[i].value, &b->e[i].value, sizeof(float)) != 0)
			return false;
	return true;
}

/* Compare the requests that both runs have. */
static void
check_same(const char *what, const Run *a, const Run *b)
{
	for (int i = 0; i < N_REQUESTS; i++)
	{
		const Answers *x = &a->a[i],
				   *y = &b->a[i];

		if (x->n == 0 || y->n == 0)
			continue;
		CHECK(x->finish == y->finish && x->n == y->n && x->finish != FIN_ERROR,
			  "%s: request %d ends by %d, not %d: %s", what, i, x->finish, y->finish, x->err.msg);
		for (int j = 0; j < x->n; j++)
		{
			CHECK(x->a[j].ids.len == y->a[j].ids.len && x->a[j].ids.len > 0 &&
				  memcmp(x->a[j].ids.data, y->a[j].ids.data, x->a[j].ids.len * sizeof(int32_t)) == 0,
				  "%s: request %d has other tokens", what, i);
			CHECK(same_lp(x->a[j].lp, y->a[j].lp), "%s: request %d is told others", what, i);
		}
	}
}

static int
tokens_on_device(const Run *r, bool processed)
{
	int			n = 0;

	for (int k = 0; k < ON_DEVICE; k++)
		if (!processed || (k != LOGPROBS && k != LOGPROBS_GRAMMAR))
			n += r->tokens[k];
	return n;
}

/*
 * Without a device, on one that doesn't sample, and on one that does: all kinds together, each kind
 * alone, each request alone.
 */
static void
test_paths(bool processed)
{
	Dev			plain = open_device(false),
				samples = open_device(true);
	Run			want,
				r;
	char		what[64];

	run(&want, NULL, -1, 12, processed);
	CHECK(want.sampled == 0, "no device, and %d rows", want.sampled);
	run(&r, &plain, -1, 12, processed);
	check_same("on a device that doesn't sample", &r, &want);
	CHECK(r.sampled == 0, "it has sampled %d rows", r.sampled);
	run_free(&r);
	for (int seqs = 1; seqs <= 12; seqs += 11)
	{
		snprintf(what, sizeof(what), "on one that does, %d at a time", seqs);
		run(&r, &samples, -1, seqs, processed);
		check_same(what, &r, &want);
		CHECK(r.sampled == tokens_on_device(&want, processed), "%s: %d rows, not %d", what, r.sampled,
			  tokens_on_device(&want, processed));
		CHECK(seqs == 1 || r.calls < r.sampled / 2, "%s: %d calls for %d rows", what, r.calls, r.sampled);
		run_free(&r);
	}
	for (int k = 0; k < KINDS; k++)
	{
		bool		takes = k < ON_DEVICE && !(processed && (k == LOGPROBS || k == LOGPROBS_GRAMMAR));

		snprintf(what, sizeof(what), "kind %d", k);
		run(&r, &samples, k, 12, processed);
		check_same(what, &r, &want);
		CHECK(takes ? r.sampled == r.tokens[k] &&
			  r.got == (size_t) r.sampled * sizeof(KSampled) / sizeof(float)
			  : r.sampled == 0 && r.got >= FAKE_VOCAB, "%s: %d rows of %d tokens, %zu floats came", what,
			  r.sampled, r.tokens[k], r.got);
		run_free(&r);
	}
	run_free(&want);
	cpus->close(plain.d);
	cpus->close(samples.d);
}

/* NaN logits, and rules that leave no token, are errors of these requests alone. */
static void
test_errors(void)
{
	Dev			dev = open_device(true);
	Core	   *c = new_core(&dev, 12, false);
	Answers		a[3] = {0};
	IntVec		nan = random_prompt(3, 6);
	GenParams	p = greedy_params(5);

	nan.data[3] = FAKE_NAN;
	answers_submit(c, 1, nan, greedy_params(5), &a[0]);
	/* only the end is allowed, and min_tokens forbids it */
	p.ignore_eos = false;
	p.min_tokens = 2;
	genparams_rules(&p)->has_allowed = true;
	intvec_push(&p.rules->allowed, TINY_EOS);
	answers_submit(c, 2, random_prompt(4, 6), p, &a[1]);
	answers_submit(c, 3, random_prompt(5, 6), greedy_params(5), &a[2]);
	answers_run(c, "errors");
	CHECK(a[0].finish == FIN_ERROR && strcmp(a[0].err.msg, "model produced non-finite logits") == 0, "%d: %s",
		  a[0].finish, a[0].err.msg);
	CHECK(a[1].finish == FIN_ERROR && strstr(a[1].err.msg, "leave no token to choose from") != NULL, "%d: %s",
		  a[1].finish, a[1].err.msg);
	CHECK(a[2].finish == FIN_LENGTH && a[2].a[0].ids.len == 5, "%d after %zu", a[2].finish,
		  a[2].a[0].ids.len);
	for (int i = 0; i < 3; i++)
		answers_free(&a[i]);
	core_free(c);
	cpus->close(dev.d);
}

/* More lists than the buffer holds: several calls in a step, the same tokens. */
static void
test_many_lists(void)
{
	enum
	{
		N = 40
	};
	Dev			dev = open_device(true);
	Answers		a[2][N] = {0};
	Buf			json = {0};
	CoreStats	st;
	Err			e = {0};

	for (int id = 40; id < 240; id++)
		buf_printf(&json, "%s\"%d\": %d", id > 40 ? ", " : "{", id, id % 7 - 3);
	buf_addstr(&json, "}");
	for (int on = 0; on < 2; on++)
	{
		Core	   *c = new_core(on ? &dev : NULL, N, false);
		int			calls = atomic_load(&sample_ops.calls);

		for (int i = 0; i < N; i++)
		{
			GenParams	p = params_of(i % 3 == 0 ? PENALTIES : SEEDED, i, plugins);

			CHECK(logit_rules_bias(genparams_rules(&p), json.data, json.len, &e), "%s", e.msg);
			answers_submit(c, (uint64_t) i + 1, random_prompt((uint32_t) i, 1), p, &a[on][i]);
		}
		answers_run(c, "lists");
		core_stats(c, &st);
		calls = atomic_load(&sample_ops.calls) - calls;
		CHECK(on ? calls >= 4 * st.steps : calls == 0, "%d calls in %lld steps", calls, (long long) st.steps);
		core_free(c);
	}
	for (int i = 0; i < N; i++)
	{
		CHECK(a[0][i].a[0].ids.len == 10 && memcmp(a[0][i].a[0].ids.data, a[1][i].a[0].ids.data,
												   10 * sizeof(int32_t)) == 0, "request %d", i);
		answers_free(&a[0][i]);
		answers_free(&a[1][i]);
	}
	buf_free(&json);
	cpus->close(dev.d);
}

int
main(int argc, char **argv)
{
	char		library[PATH_MAX];
	char		list[2 * PATH_MAX];
	Err			e = {0};

	(void) argc;
	(void) argv;
	CHECK(build_path(library, sizeof(library), "tests/plugins/processors.so"), "not in a build");
	snprintf(list, sizeof(list), "%s:no_twice", library);
	if (!plugins_load(list, &plugins, &e))
	{
		fprintf(stderr, "%s\n", e.msg);
		return 2;
	}
	RUN(test_paths(false));
	RUN(test_paths(true));
	RUN(test_errors());
	RUN(test_many_lists());
	plugins_free(plugins);
	return check_done("test_sample_core");
}
