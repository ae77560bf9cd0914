/*
 * test_plugins.c
 *	  Logits processors: loading and its errors, which requests use them, slots while requests come and
 *	  go, and the sampler's results, with grammars and next to other requests.
 *
 * The processors are those of tests/plugins, in the folder of this program.
 */
#include "core/core_internal.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"

#include "tests/unit/build_path.h"
#include "tests/unit/check.h"

#define N	200

static char library[PATH_MAX];

static Plugins *
load(const char *symbols)
{
	char		list[4 * PATH_MAX] = "";
	char		copy[256];
	char	   *save = NULL;
	Plugins    *p = NULL;
	Err			e = {0};

	snprintf(copy, sizeof(copy), "%s", symbols);
	for (char *s = strtok_r(copy, " ", &save); s != NULL; s = strtok_r(NULL, " ", &save))
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s:%s", list[0] != '\0' ? " , " : "",
				 library, s);
	CHECK(plugins_load(list, &p, &e), "%s", e.msg);
	return p;
}

static void
refuse_load(const char *list, const char *says)
{
	Plugins    *p = NULL;
	Err			e = {0};

	CHECK(!plugins_load(list, &p, &e) && p == NULL && strstr(e.msg, says) != NULL, "%s: %s", list, e.msg);
}

static void
test_load(void)
{
	char		list[PATH_MAX + 64];
	Plugins    *p;
	Err			e;

	CHECK(plugins_load("", &p, &e) && p == NULL && plugins_load(" , ", &p, &e) && p == NULL, "an empty list");
	p = load("favor no_twice");
	CHECK(plugins_count(p) == 2, "%d", plugins_count(p));
	plugins_free(p);
	refuse_load("favor", "is not of the form library:symbol");
	refuse_load(":favor", "is not of the form library:symbol");
	refuse_load("/x.so:", "is not of the form library:symbol");
	refuse_load("some/where.so:favor", "must be an absolute path");
	refuse_load("/no/such.so:favor", "could not load");
	refuse_load("no_such.so:favor", "could not load");
	snprintf(list, sizeof(list), "%s:nothing", library);
	refuse_load(list, "has no symbol \"nothing\"");
	snprintf(list, sizeof(list), "%s:too_new", library);
	refuse_load(list, "is not a logits processor of version 1");
}

static void
test_check(void)
{
	Plugins    *p = load("favor no_twice broken");
	uint32_t	mask;
	Err			e = {0};

	CHECK(plugins_check(p, NULL, &mask, &e) && mask == 0, "nobody takes part without arguments");
	CHECK(plugins_check(p, "{\"favor\": 5}", &mask, &e) && mask == 1, "mask %x", mask);
	CHECK(plugins_check(p, "{\"no_twice\": 1, \"favor\": 5}", &mask, &e) && mask == 3, "mask %x", mask);
	CHECK(!plugins_check(p, "{\"favor\": -5}", &mask, &e) &&
		  strcmp(e.msg, "extra_args: favor must be a token id") == 0 &&
		  strstr(e.detail, "logits processor=favor") != NULL, "%s (%s)", e.msg, e.detail);
	CHECK(!plugins_check(p, "{\"other\": 5}", &mask, &e) && strstr(e.msg, "takes these") != NULL, "%s",
		  e.msg);
	CHECK(!plugins_check(NULL, "{\"favor\": 5}", &mask, &e) &&
		  strstr(e.hint, "vllm.logits_processors") != NULL, "%s", e.hint);
	CHECK(plugins_check(NULL, NULL, &mask, &e) && mask == 0, "none loaded, none wanted");
	plugins_free(p);
}

/* ---- in the sampler ---- */

typedef struct Sampled
{
	GenParams	p;
	PluginSeat	seat;
	int32_t		tokens[64];
	int			n_tokens;
} Sampled;

static void
sampled_init(Sampled *a, const Plugins *p, const char *args, double temperature)
{
	Err			e;

	memset(a, 0, sizeof(*a));
	genparams_init(&a->p);
	a->p.temperature = temperature;
	a->p.extra_args = args != NULL ? mem_strdup(args) : NULL;
	CHECK(plugins_check(p, a->p.extra_args, &a->p.plugins, &e), "%s", e.msg);
	a->tokens[0] = 3;
	a->n_tokens = 1;
}

static SampleRow
row_of(Sampled *a, uint64_t seed)
{
	return (SampleRow) {
		.params = &a->p, .seed = seed, .position = a->n_tokens - 1, .tokens = a->tokens, .n_prompt = 1,
		.n_tokens = a->n_tokens, .seat = &a->seat
	};
}

static void
fill(float *logits, int n, unsigned seed)
{
	for (int i = 0; i < n; i++)
	{
		seed = seed * 1664525u + 1013904223u;
		logits[i] = (float) (seed >> 16) / 8192 - 4;
	}
}

static Sampler *
new_sampler(const Plugins *p, KPool *pool)
{
	Sampler    *s = smp_new(pool, N + 8, N);
	Err			e = {0};
	PluginHost *h = plugin_host_new(p, N, -1, &e);

	CHECK(h != NULL, "%s", e.msg);
	smp_use_plugins(s, h);
	return s;
}

/* Requests come and go; those with processors get their effects, the others the same as without. */
static void
test_company(void)
{
	enum
	{
		ASKERS = 12
	};
	static float logits[ASKERS * (N + 8)],
				plain[N + 8];
	Plugins    *p = load("favor no_twice sharpen");
	KPool	   *pool = kpool_new(3);
	Sampler    *s = new_sampler(p, pool);
	Sampler    *alone = smp_new(NULL, N + 8, N);
	Sampled		a[ASKERS];
	int			wrong = 0,
				twice = 0,
				other = 0;
	unsigned	rnd = 9;

	for (int i = 0; i < ASKERS; i++)
		sampled_init(&a[i], p, i % 4 == 0 ? NULL : i % 4 == 1 ? "{\"favor\": 42}" : i % 4 == 2
					 ? "{\"no_twice\": 1}" : "{\"sharpen\": 100000}", i % 3 == 0 ? 0 : 1.5);
	for (int step = 0; step < 200; step++)
	{
		SampleRow	rows[ASKERS];
		int			who[ASKERS];
		int			n = 0;

		for (int i = 0; i < ASKERS; i++)
		{
			rnd = rnd * 1664525u + 1013904223u;
			if ((rnd >> 20) % 5 == 0)
				continue;
			if ((rnd >> 12) % 40 == 0 || a[i].n_tokens == 60)
			{
				/* another request replaces it */
				a[i].n_tokens = 1;
				a[i].seat = (PluginSeat) {0};
			}
			who[n] = i;
			rows[n] = row_of(&a[i], (uint64_t) step * 100 + (uint64_t) i);
			fill(logits + n * (N + 8), N + 8, (unsigned) (step * 50 + i));
			n++;
		}
		smp_run(s, rows, n, logits);
		for (int k = 0; k < n; k++)
		{
			Sampled	   *x = &a[who[k]];
			SampleRow	r = row_of(x, (uint64_t) step * 100 + (uint64_t) who[k]);
			GenParams	q = x->p;
			int			kind = who[k] % 4;

			fill(plain, N + 8, (unsigned) (step * 50 + who[k]));
			q.plugins = 0;
			r.params = &q;
			if (kind == 3)
				q.temperature = 0;	/* temperature so low that the most likely token is drawn */
			smp_run(alone, &r, 1, plain);
			wrong += rows[k].id < 0 || (kind == 1 && rows[k].id != 42);
			twice += kind == 2 && x->n_tokens > 1 && rows[k].id == x->tokens[x->n_tokens - 1];
			other += (kind == 0 || kind == 3) && rows[k].id != r.id;
			if (rows[k].id >= 0)
				x->tokens[x->n_tokens++] = rows[k].id;
		}
	}
	CHECK(wrong == 0 && twice == 0 && other == 0, "%d wrong, %d twice, %d of the others changed", wrong,
		  twice, other);
	for (int i = 0; i < ASKERS; i++)
		genparams_free(&a[i].p);
	smp_free(s);
	smp_free(alone);
	kpool_free(pool);
	plugins_free(p);
}

static int32_t
one(Sampler *s, Sampled *a, const uint32_t *mask, double temperature)
{
	static float logits[N + 8];
	SampleRow	row = row_of(a, 5);

	row.mask = mask;
	a->p.temperature = temperature;
	fill(logits, N + 8, 77);
	smp_run(s, &row, 1, logits);
	return row.id;
}

static void
test_grammar(void)
{
	static const char *const args[] = {"{\"favor\": 42}", "{\"broken\": 3}", "{\"sharpen\": 3}"};
	Plugins    *p = load("favor broken sharpen");
	Sampler    *s = new_sampler(p, NULL);
	uint32_t	mask[N / 32 + 1] = {0};

	mask[0] = 1u << 9 | 1u << 11;
	for (int i = 0; i < 3; i++)
		for (int t = 0; t < 2; t++)
		{
			Sampled		a;
			int32_t		id;

			sampled_init(&a, p, args[i], t);
			id = one(s, &a, mask, t);
			CHECK(id == 9 || id == 11, "%s: %d is not of the grammar", args[i], id);
			genparams_free(&a.p);
		}
	smp_free(s);
	plugins_free(p);
}

static void
test_failures(void)
{
	static const struct
	{
		const char *args;
		int32_t		id;
		const char *failed;
	}			t[] = {
		{"{\"broken\": 1}", SMP_PLUGIN, "broken"},
		{"{\"broken\": 2}", SMP_PLUGIN, NULL},
		{"{\"broken\": 3}", SMP_NO_TOKEN, NULL},
		{"{\"favor\": 100000}", SMP_PLUGIN, "favor"},
		{"{\"sharpen\": 1e39}", SMP_PLUGIN, NULL},
	};
	Plugins    *p = load("favor broken sharpen");
	Sampler    *s = new_sampler(p, NULL);

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
	{
		Sampled		a;
		int32_t		id;

		sampled_init(&a, p, t[i].args, 1);
		id = one(s, &a, NULL, 1);
		CHECK(id == t[i].id, "%s: %d", t[i].args, id);
		CHECK(t[i].failed == NULL ? a.seat.failed == NULL : a.seat.failed != NULL &&
			  strcmp(a.seat.failed, t[i].failed) == 0, "%s: %s failed", t[i].args, a.seat.failed != NULL ?
			  a.seat.failed : "none");
		genparams_free(&a.p);
	}
	smp_free(s);
	plugins_free(p);
}

/* Applied after the temperature, and not for greedy requests. */
static void
test_late(void)
{
	Plugins    *p = load("sharpen");
	Sampler    *s = new_sampler(p, NULL);
	Sampled		a;

	sampled_init(&a, p, "{\"sharpen\": -1}", 0);
	CHECK(one(s, &a, NULL, 0) != one(s, &a, NULL, 0.01),
		  "turned round, the least likely comes; greedy is left alone");
	genparams_free(&a.p);
	smp_free(s);
	plugins_free(p);
}

int
main(int argc, char **argv)
{
	(void) argc;
	(void) argv;
	if (!build_path(library, sizeof(library), "tests/plugins/processors.so"))
	{
		CHECK(false, "not in a build");
		return check_done("plugins");
	}
	RUN(test_load());
	RUN(test_check());
	RUN(test_company());
	RUN(test_grammar());
	RUN(test_failures());
	RUN(test_late());
	return check_done("plugins");
}
