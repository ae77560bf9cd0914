/*
 * pool_golden.c
 *	  Pooling models against transformers and sentence-transformers (gen_pool.py).
 *
 * Every tests/golden/pool_expected/NAME.json belongs to a fixture build/fixtures/pool/NAME, a directory
 * as sentence-transformers or transformers saves it:
 *
 *	{"options": {...},			model options, as of llm_create_model; may be left out
 *	 "tasks": "embed, ...",		all tasks of the model, in the order of PoolTask; may be left out
 *	 "amplifies": r,			this model amplifies rounding errors by r; default 1
 *	 "raw": ["reward", ...],	tasks whose values are no probabilities, cosines or vectors; may be left out
 *	 "cases": [{
 *		"task": "embed",		PoolRequest's fields from here on; all but task and text may be left out
 *		"text": "...", "pair": "...", "instruction": "...", "prompt_name": "...",
 *		"long_input": "error" | "truncate" | "chunk", "truncate": n, "alike": bool,
 *		"dimensions": n, "use_activation": bool, "step_tag": n, "columns": [n, ...],
 *		"add_special": bool,
 *		"error": "...",			it fails, and its message contains this; then nothing else is compared
 *		"ids": [[n, ...], ...],	the tokens of its sequences; may be left out, as the following
 *		"type1_at": [n, ...],	where the second text of each begins, -1 = nowhere
 *		"offsets": [n, ...],	where tokens begin and end in the text, in characters
 *		"labels": ["...", ...],
 *		"values": [[x, ...], ...]	rows
 *	 }]}
 *
 * Files of tests/golden/pool_variants have the same format, but belong to a fixture that is made from
 * another one (variant.h), and are checked only on the best implementation, with unchanged weights.
 * "refused": "..." instead of cases: it doesn't load, and the message contains this.
 *
 * Checked are: the values, on every implementation of the op table, as loaded from F32 or half precision
 * files, each of which is exact in float: a row's cosine is at least 0.99999, and no value is off by
 * more than 2e-4 (relative, if it is above 1); the same bits when all cases run at once, in chunks of a
 * few tokens, and with such a small KV cache that they are preempted.
 *
 * And with weights converted to BF16, Q8_0 and INT8 on loading: the cosine of embeddings is at least
 * 0.999; no score, probability of a label or reward is off by more than 0.01, 0.02 and 0.03 (raw ones by
 * four times that, which is the same error before a sigmoid); and the first label is the reference's
 * first one, or its probability is less than that bound below the first one's.  "amplifies" is for models
 * that round worse than others, most of them decoders with large random weights, whose last token is not
 * averaged: errors may be r times, and the distance of Q8_0's and INT8's cosines from 1 r^2 times as
 * large.  The models init_*, the same families with transformers' initial weights, show that the family
 * is not the reason.
 */
#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json/json.h"
#include "backend/backend.h"
#include "server/models/registry.h"
#include "tests/golden/variant.h"
#include "tests/unit/check.h"

#define FIXTURES "build/fixtures/pool/"
#define EXPECTED "tests/golden/pool_expected/"
#define VARIANTS "tests/golden/pool_variants/"
#define MAX_CASES 64

/* Result of a request. */
typedef struct Result
{
	float	   *values;
	int			n;				/* rows */
	int			width;
	Err			err;			/* msg "": no error */
	_Atomic bool done;
} Result;

static void
sink(void *ctx, Req *r, const ReqEvent *ev)
{
	Result	   *res = ctx;

	(void) r;
	if (ev->finish == FIN_NONE)
		return;
	if (ev->err != NULL)
		res->err = *ev->err;
	res->n = ev->n_rows;
	res->width = ev->width;
	if (ev->values != NULL)
	{
		size_t		bytes = (size_t) ev->n_rows * (size_t) ev->width * sizeof(float);

		res->values = mem_alloc(bytes);
		memcpy(res->values, ev->values, bytes);
	}
	atomic_store(&res->done, true);
}

static Settings
settings(const char *isa)
{
	SettingsBox box;
	Settings	s;

	settings_box_init(&box);
	settings_get(&box, &s);
	s.cpu_threads = 2;
	s.kv_cache_memory_bytes = 16 << 20;
	snprintf(s.cpu_isa, sizeof(s.cpu_isa), "%s", isa);
	snprintf(s.kv_cache_dtype, sizeof(s.kv_cache_dtype), "float32");
	return s;
}

static PoolSpec
copy_spec(const PoolSpec *s)
{
	PoolSpec	c = *s;

	c.seqs = mem_alloc((size_t) s->n_seqs * sizeof(PoolSeq));
	c.columns = (IntVec) {0};
	for (size_t i = 0; i < s->columns.len; i++)
		intvec_push(&c.columns, s->columns.data[i]);
	for (int i = 0; i < s->n_seqs; i++)
	{
		c.seqs[i] = s->seqs[i];
		c.seqs[i].ids = (IntVec) {0};
		for (size_t j = 0; j < s->seqs[i].ids.len; j++)
			intvec_push(&c.seqs[i].ids, s->seqs[i].ids.data[j]);
		c.seqs[i].dropped = (IntVec) {0};
		intvec_add(&c.seqs[i].dropped, s->seqs[i].dropped.data, s->seqs[i].dropped.len);
	}
	return c;
}

/* Run n requests, all at once. */
static void
run(BackendModel *in, const Settings *s, const PoolSpec *const *specs, Result *res, int n)
{
	static uint64_t id;

	for (int i = 0; i < n; i++)
	{
		ReqSpec		spec = {.session = 1,.id = ++id,.sink = sink,.sink_ctx = &res[i],
							.pool = copy_spec(specs[i])};

		memset(&res[i], 0, sizeof(res[i]));
		backend_core.generator->submit(in, &spec);
	}
	for (int i = 0; i < n; i++)
		while (!atomic_load(&res[i].done))
			if (backend_core.generator->next_due(in, 0) == 0)
				backend_core.generator->step(in, 0, s);
			else
				usleep(50);
}

static void
results_free(Result *r, int n)
{
	for (int i = 0; i < n; i++)
		mem_free(r[i].values);
}

/* ---- a fixture's cases ---- */

typedef struct Case
{
	const Json *j;
	PoolRequest pr;
	PoolSpec	spec;
	PoolExtra	extra;
	bool		ok;				/* a spec was made, as expected */
} Case;

static StrView
text_of(const Json *j, const char *key)
{
	const char *s = json_str_of(json_get(j, key));

	return s != NULL ? (StrView) {s, strlen(s)} : (StrView) {0};
}

static int
int_of(const Json *j, const char *key, int dflt)
{
	const Json *v = json_get(j, key);

	return json_is_number(v) ? (int) v->num : dflt;
}

static int
bool_of(const Json *j, const char *key, int dflt)
{
	const Json *v = json_get(j, key);

	return json_is_bool(v) ? json_is_true(v) : dflt;
}

static void
read_request(Case *c)
{
	const Json *j = c->j;
	StrView		task = text_of(j, "task");
	StrView		text = text_of(j, "long_input");
	const Json *x;

	c->pr = (PoolRequest) {
		.task = pool_task_by_name(task.s, task.n),.text = text_of(j, "text"),.pair = text_of(j, "pair"),
		.instruction = text_of(j, "instruction"),.prompt_name = text_of(j, "prompt_name"),
		.truncate = int_of(j, "truncate", 0),.add_special = bool_of(j, "add_special", 1) == 1,
		.dimensions = int_of(j, "dimensions", 0),.activation = bool_of(j, "use_activation", -1),
		.alike = bool_of(j, "alike", 0) == 1,.step_tag = int_of(j, "step_tag", -1),
		.want_offsets = json_get(j, "offsets") != NULL
	};
	if (text.s != NULL)
		c->pr.long_input = strcmp(text.s, "truncate") == 0 ? LONG_TRUNCATE : strcmp(text.s, "chunk") == 0 ?
			LONG_CHUNK : LONG_ERROR;
	json_each(x, json_get(j, "columns"))
		intvec_push(&c->pr.columns, (int32_t) x->num);
}

static bool
same_ints(const Json *want, const int32_t *have, size_t n)
{
	const Json *x;
	size_t		i = 0;

	json_each(x, want)
	{
		if (i >= n || have[i] != (int32_t) x->num)
			return false;
		i++;
	}
	return i == n;
}

static void
check_made(const char *name, int i, const Case *c, BackendModel *in)
{
	const Json *ids = json_get(c->j, "ids");
	const Json *types = json_get(c->j, "type1_at");
	const Json *offsets = json_get(c->j, "offsets");
	const Json *labels = json_get(c->j, "labels");
	int			n = c->spec.n_seqs;

	CHECK(ids == NULL || json_count(ids) == n, "%s, case %d: %d sequences, expected %d", name, i, n,
		  json_count(ids));
	for (int s = 0; s < n && ids != NULL && json_count(ids) == n; s++)
	{
		const IntVec *have = &c->spec.seqs[s].ids;
		bool		same = same_ints(json_item(ids, s), have->data, have->len);

		CHECK(same, "%s, case %d: sequence %d has other tokens", name, i, s);
		for (size_t k = 0; k < have->len && !same; k++)
			fprintf(stderr, "%d ", have->data[k]);
	}
	for (int s = 0; s < n && types != NULL; s++)
	{
		int			want = json_to_int(json_item(types, s));
		int			have = c->spec.seqs[s].type1_at;

		CHECK(have == (want < 0 ? INT_MAX : want), "%s, case %d: type 1 from token %d on, expected %d", name,
			  i, have, want);
	}
	CHECK(offsets == NULL || same_ints(offsets, c->extra.offsets.data, c->extra.offsets.len),
		  "%s, case %d: other offsets", name, i);
	if (labels != NULL)
	{
		const char *const *have = backend_core.generator->labels(in, c->pr.task);
		int			k = 0;

		for (; have != NULL && have[k] != NULL && k < json_count(labels); k++)
			CHECK(strcmp(have[k], json_str_of(json_item(labels, k))) == 0, "%s: label %d is \"%s\"", name,
				  k, have[k]);
		CHECK(k == json_count(labels) && have != NULL && have[k] == NULL, "%s: number of labels", name);
	}
}

/* Make all cases' specs; returns how many cases are to be computed. */
static int
make_cases(const char *name, const Json *root, BackendModel *in, Case *cases, int *n_cases)
{
	const Json *j;
	int			n = 0;
	int			good = 0;

	json_each(j, json_get(root, "cases"))
	{
		Case	   *c = &cases[n];
		StrView		error = text_of(j, "error");
		Err			e = {0};
		bool		ok;

		if (n == MAX_CASES)
			break;
		memset(c, 0, sizeof(*c));
		c->j = j;
		read_request(c);
		ok = backend_core.generator->pool(in, &c->pr, &c->spec, &c->extra, &e);
		c->ok = ok && error.s == NULL;
		if (error.s != NULL)
			CHECK(!ok && strstr(e.msg, error.s) != NULL, "%s, case %d: \"%s\" is expected, and is \"%s\"",
				  name, n, error.s, ok ? "" : e.msg);
		else
			CHECK(ok, "%s, case %d: %s (%s)", name, n, e.msg, e.detail);
		if (c->ok)
			check_made(name, n, c, in);
		good += c->ok;
		n++;
	}
	*n_cases = n;
	return good;
}

static double
cosine(const float *a, const double *b, int n)
{
	double		ab = 0;
	double		aa = 0;
	double		bb = 0;

	for (int i = 0; i < n; i++)
	{
		ab += (double) a[i] * b[i];
		aa += (double) a[i] * (double) a[i];
		bb += b[i] * b[i];
	}
	return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : aa == bb;
}

/* Compare exact weights with the expectation. */
static void
check_values(const char *name, const char *isa, int i, const Case *c, const Result *r)
{
	const Json *rows = json_get(c->j, "values");
	const Json *row;
	int			n = 0;
	double		worst_cos = 1;
	double		worst = 0;

	if (rows == NULL)
		return;
	CHECK(r->err.msg[0] == '\0', "%s on %s, case %d: %s", name, isa, i, r->err.msg);
	CHECK(r->n == json_count(rows), "%s on %s, case %d: %d rows, expected %d", name, isa, i, r->n,
		  json_count(rows));
	json_each(row, rows)
	{
		double		want[4096];
		int			width = json_count(row);
		const Json *x;
		int			k = 0;
		double		cos;

		if (n >= r->n || width != r->width || width > 4096)
		{
			CHECK(width == r->width, "%s on %s, case %d: %d values, expected %d", name, isa, i, r->width,
				  width);
			return;
		}
		json_each(x, row)
		{
			double		d = fabs((double) r->values[n * width + k] - x->num) / fmax(1, fabs(x->num));

			worst = d > worst || isnan(d) ? d : worst;
			want[k++] = x->num;
		}
		cos = width > 3 ? cosine(r->values + n * width, want, width) : 1;
		worst_cos = cos < worst_cos || isnan(cos) ? cos : worst_cos;
		n++;
	}
	CHECK(worst_cos >= 0.99999, "%s on %s, case %d: cosine %.8f", name, isa, i, worst_cos);
	CHECK(worst <= 2e-4, "%s on %s, case %d: off by %g", name, isa, i, worst);
}

static bool
same_bits(const Result *a, const Result *b)
{
	return a->n == b->n && a->width == b->width && a->values != NULL && b->values != NULL &&
		memcmp(a->values, b->values, (size_t) a->n * (size_t) a->width * sizeof(float)) == 0;
}

/* All cases at once on another instance: the bits that each has alone. */
static void
check_at_once(const char *name, const char *how, BackendModel *in, const Settings *s,
			  const PoolSpec *const *specs,
			  const Result *alone, int n)
{
	Result		res[MAX_CASES];
	Err			e = {0};
	int			bad = 0;

	run(in, s, specs, res, n);
	for (int i = 0; i < n; i++)
		bad += !same_bits(&res[i], &alone[i]);
	CHECK(bad == 0, "%s %s: %d of %d cases have other bits", name, how, bad, n);
	CHECK(backend_core.control->check_state(in, &e), "%s %s: %s", name, how, e.msg);
	results_free(res, n);
}

static BackendModel *
load(const char *name, const ModelOpts *o, const Settings *s)
{
	char		path[300];
	Err			e = {0};
	BackendModel *in;

	snprintf(path, sizeof(path), "%s%s", name[0] == '/' ? "" : FIXTURES, name);
	in = backend_core.loader->load(path, o, s, NULL, NULL, &e);
	CHECK(in != NULL, "%s: %s (%s)", name, e.msg, e.detail);
	return in;
}

/* In small chunks, and with such a small KV cache that requests preempt each other. */
static void
check_cramped(const char *name, const ModelOpts *o, Settings s, BackendModel *in,
			  const PoolSpec *const *specs, const Result *alone, int n)
{
	ModelOpts	small = *o;
	CoreStats	st;
	BackendModel *other;
	int			longest = 1;

	backend_core.control->stats(in, &st);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < specs[i]->n_seqs; k++)
			longest = (int) specs[i]->seqs[k].ids.len > longest ? (int) specs[i]->seqs[k].ids.len : longest;
	small.max_model_len = longest;
	small.max_num_batched_tokens = 7;
	small.max_num_seqs = 6;
	if (st.kv_blocks_total > 0)
		small.kv_cache_memory_bytes = st.kv_bytes / st.kv_blocks_total * (longest / s.block_size + 4);
	if ((other = load(name, &small, &s)) == NULL)
		return;
	check_at_once(name, "in chunks with little KV", other, &s, specs, alone, n);
	backend_core.loader->free(other);
}

static void
check_tasks(const char *name, const Json *root, BackendModel *in)
{
	StrView		want = text_of(root, "tasks");
	char		have[200] = "";

	for (int t = PT_NONE + 1; t < PT_COUNT && want.s != NULL; t++)
	{
		PoolRequest pr = {.task = (PoolTask) t,.text = {"a", 1},.pair = {t == PT_SCORE ? "b" : NULL, 1},
						  .activation = -1,.step_tag = -1};
		PoolSpec	spec = {0};
		PoolExtra	extra = {0};
		Err			e = {0};

		if (t != PT_LOGPROBS && backend_core.generator->pool(in, &pr, &spec, &extra, &e) &&
			spec.join == PJ_ONE)
			snprintf(have + strlen(have), sizeof(have) - strlen(have), "%s%s", have[0] != '\0' ? ", " : "",
					 pool_task_name((PoolTask) t));
		poolspec_free(&spec);
		intvec_free(&extra.ids);
		intvec_free(&extra.offsets);
	}
	CHECK(want.s == NULL || strcmp(want.s, have) == 0, "%s: tasks are \"%s\"", name, have);
}

/* ---- rounded weights ---- */

static const struct Format
{
	const char *dtype;
	const char *quantization;
	double		off;			/* maximal error of a value */
}			formats[] = {
	{"bfloat16", "", 0.01},
	{"", "q8_0", 0.02},
	{"", "int8", 0.03},
};

#define N_FORMATS 3

/* Errors of a model's values in a format. */
typedef struct Rounded
{
	double		cosine;			/* smallest, of embeddings */
	double		off;			/* largest, of other values; raw ones count a quarter */
	double		behind;			/* largest distance of the first label from the reference's first */
	bool		changed;		/* any bit differs, so the format was used */
} Rounded;

static int	changed[N_FORMATS];	/* models with different bits */
static int	n_models;

static bool
is_raw(const Json *root, const Case *c)
{
	const Json *t;

	json_each(t, json_get(root, "raw"))
		if (strcmp(json_str_of(t), pool_task_name(c->pr.task)) == 0)
			return true;
	return c->pr.activation == 0;
}

/* Compare one row of n values. */
static void
compare_row(Rounded *to, const float *have, const Json *row, int n, bool vector, bool raw)
{
	double		want[4096];
	int			first = 0;
	int			best = 0;
	const Json *x;
	int			i = 0;

	json_each(x, row)
		want[i++] = x->num;
	if (vector)
	{
		double		cos = cosine(have, want, n);

		to->cosine = cos < to->cosine || isnan(cos) ? cos : to->cosine;
		return;
	}
	for (i = 0; i < n; i++)
	{
		double		off = fabs((double) have[i] - want[i]) / fmax(1, fabs(want[i])) / (raw ? 4 : 1);

		to->off = off > to->off || isnan(off) ? off : to->off;
		first = have[i] > have[first] ? i : first;
		best = want[i] > want[best] ? i : best;
	}
	to->behind = fmax(to->behind, (want[best] - want[first]) / (raw ? 4 : 1));
}

static void
compare_case(Rounded *to, const Json *root, const Case *c, const Result *r, const Result *exact)
{
	const Json *row;
	int			n = 0;

	to->changed = to->changed || !same_bits(r, exact);
	json_each(row, json_get(c->j, "values"))
	{
		if (n >= r->n || json_count(row) != r->width || r->width > 4096)
		{
			to->off = NAN;
			return;
		}
		compare_row(to, r->values + n * r->width, row, r->width, c->pr.task == PT_EMBED ||
					c->pr.task == PT_TOKEN_EMBED, is_raw(root, c));
		n++;
	}
}

static void
check_formats(const char *name, const Json *root, const ModelOpts *o, const Settings *s, const Case *cases,
			  int n_cases,
			  const PoolSpec *const *specs, const Result *exact)
{
	const Json *amplifies = json_get(root, "amplifies");
	double		r = json_is_number(amplifies) ? amplifies->num : 1;
	Rounded		got[N_FORMATS];

	n_models++;
	for (int f = 0; f < N_FORMATS; f++)
	{
		ModelOpts	q = *o;
		const char *as = f == 0 ? formats[f].dtype : formats[f].quantization;
		double		off = formats[f].off * r;
		BackendModel *in;

		got[f] = (Rounded) {.cosine = 1};
		snprintf(q.dtype, sizeof(q.dtype), "%s", formats[f].dtype);
		snprintf(q.quantization, sizeof(q.quantization), "%s", formats[f].quantization);
		if ((in = load(name, &q, s)) == NULL)
			continue;
		for (int i = 0, k = 0; i < n_cases; i++)
			if (cases[i].ok)
			{
				Result		res;

				run(in, s, &specs[k], &res, 1);
				compare_case(&got[f], root, &cases[i], &res, &exact[k]);
				results_free(&res, 1);
				k++;
			}
		backend_core.loader->free(in);
		CHECK(got[f].cosine >= 1 - 0.001 * (f == 0 ? 1 : r * r), "%s as %s: cosine %.6f", name, as,
			  got[f].cosine);
		CHECK(got[f].off <= off, "%s as %s: off by %.4f", name, as, got[f].off);
		CHECK(got[f].behind < off, "%s as %s: another label is first, %.4f behind", name, as, got[f].behind);
		changed[f] += got[f].changed;
	}
	printf("%-32s cosine %.6f %.6f %.6f, off %.4f %.4f %.4f, behind %.4f %.4f %.4f\n", name, got[0].cosine,
		   got[1].cosine, got[2].cosine, got[0].off, got[1].off, got[2].off, got[0].behind, got[1].behind,
		   got[2].behind);
}

/* Check on one implementation of the op table; best: also cramped; rounded: also with rounded weights. */
static void
check_on(const char *name, const Json *root, const ModelOpts *o, const char *isa, bool best, bool rounded)
{
	Settings	s = settings(isa);
	BackendModel *in = load(name, o, &s);
	static Case cases[MAX_CASES];
	const PoolSpec *specs[MAX_CASES] = {0};
	Result		exact[MAX_CASES];
	int			n_cases;
	int			n = 0;

	if (in == NULL)
		return;
	make_cases(name, root, in, cases, &n_cases);
	for (int i = 0; i < n_cases; i++)
		if (cases[i].ok)
		{
			specs[n] = &cases[i].spec;
			run(in, &s, &specs[n], &exact[n], 1);
			check_values(name, isa, i, &cases[i], &exact[n]);
			n++;
		}
	check_at_once(name, "all at once", in, &s, specs, exact, n);
	if (best)
	{
		check_tasks(name, root, in);
		check_cramped(name, o, s, in, specs, exact, n);
	}
	backend_core.loader->free(in);
	if (rounded)
		check_formats(name, root, o, &s, cases, n_cases, specs, exact);
	results_free(exact, n);
	for (int i = 0; i < n_cases; i++)
	{
		poolspec_free(&cases[i].spec);
		intvec_free(&cases[i].extra.ids);
		intvec_free(&cases[i].extra.offsets);
		intvec_free(&cases[i].pr.columns);
	}
}

/* Loaded as in the strictest case. */
static void
check_refused(const char *name, const char *path, const char *want)
{
	ModelOpts	o;
	Settings	s = settings("auto");
	Err			e = {0};
	BackendModel *in;

	model_opts_parse(NULL, &o, &e);
	in = backend_core.loader->load(path, &o, &s, NULL, NULL, &e);
	CHECK(in == NULL && strstr(e.msg, want) != NULL, "%s: \"%s\" is expected, and is \"%s\"", name, want,
		  e.msg);
	if (in != NULL)
		backend_core.loader->free(in);
}

static Json *
read_expected(const char *folder, const char *name)
{
	char		path[300];
	Buf			text = {0};
	char		piece[65536];
	size_t		n;
	FILE	   *f;
	Json	   *root = NULL;

	snprintf(path, sizeof(path), "%s%s.json", folder, name);
	if ((f = fopen(path, "rb")) != NULL)
	{
		while ((n = fread(piece, 1, sizeof(piece), f)) > 0)
			buf_add(&text, piece, n);
		fclose(f);
		root = json_parse(text.data, text.len);
	}
	CHECK(json_is_object(root), "%s: no usable expectation", name);
	buf_free(&text);
	return root;
}

static void
check_fixture(const char *name)
{
	Json	   *root = read_expected(EXPECTED, name);
	const Json *options = json_get(root, "options");
	char	   *text = options != NULL ? json_print(options) : NULL;
	ModelOpts	o;
	Err			e = {0};
	int			failed = check_failed;
	const Kernels *best = NULL;

	if (root == NULL)
		return;
	CHECK(model_opts_parse(text, &o, &e), "%s: %s", name, e.msg);
	/* avx512_bf16 rounds activations of BF16 files: the other implementations show exact results */
	for (const Kernels *const *k = kernels_all(); *k != NULL; k++)
		if (kernels_usable(*k) && strstr((*k)->name, "bf16") == NULL)
			best = *k;
	for (const Kernels *const *k = kernels_all(); *k != NULL; k++)
	{
		if (!kernels_usable(*k))
			check_skip(1, "this CPU can't run all implementations");
		else if (strstr((*k)->name, "bf16") == NULL)
			check_on(name, root, &o, (*k)->name, *k == best, *k == best);
	}
	printf("%-32s %s\n", name, check_failed == failed ? "ok" : "FAILED");
	mem_free(text);
	json_free(root);
}

static void
check_variant(const char *name)
{
	Json	   *root = read_expected(VARIANTS, name);
	const Json *options = json_get(root, "options");
	char	   *text = options != NULL ? json_print(options) : NULL;
	StrView		refused = text_of(root, "refused");
	char		dir[] = "/tmp/vllm_test_pool_XXXXXX";
	ModelOpts	o;
	Err			e = {0};
	int			failed = check_failed;

	if (root == NULL)
		return;
	CHECK(model_opts_parse(text, &o, &e), "%s: %s", name, e.msg);
	variant_make(dir, FIXTURES, root);
	if (refused.s != NULL)
		check_refused(name, dir, refused.s);
	else
		check_on(dir, root, &o, kernels_select("auto", NULL)->name, true, false);
	variant_remove(dir);
	mem_free(text);
	printf("%-32s %s\n", name, check_failed == failed ? "ok" : "FAILED");
	json_free(root);
}

static int
is_json(const struct dirent *d)
{
	size_t		n = strlen(d->d_name);

	return n > 5 && strcmp(d->d_name + n - 5, ".json") == 0;
}

/* Check all files of a folder. */
static void
check_all(const char *folder, void (*check) (const char *name))
{
	struct dirent **files = NULL;
	int			n = scandir(folder, &files, is_json, alphasort);

	CHECK(n >= 0, "directory \"%s\" can't be read", folder);
	for (int i = 0; i < n; i++)
	{
		files[i]->d_name[strlen(files[i]->d_name) - 5] = '\0';
		check(files[i]->d_name);
		free(files[i]);
	}
	free(files);
}

/* pool_golden [NAME ...]: these, or all. */
int
main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
	{
		char		path[300];

		snprintf(path, sizeof(path), VARIANTS "%s.json", argv[i]);
		(access(path, R_OK) == 0 ? check_variant : check_fixture) (argv[i]);
	}
	if (argc == 1)
	{
		RUN(check_all(EXPECTED, check_fixture));
		RUN(check_all(VARIANTS, check_variant));
	}
	/* rows of 48 are not complete Q8_0 blocks and stay unchanged: most models have other rows */
	for (int f = 0; f < N_FORMATS && argc == 1; f++)
		CHECK(changed[f] > n_models / 2, "%d of %d models have weights in format %d", changed[f], n_models,
			  f);
	return check_done("pool_golden");
}
