/*
 * test_windows.c
 *	  Layers with windows, whose blocks are kept only while they are in the window.
 *
 * The pool's pages under random operations; and models whose requests come, go, are cancelled, preempted
 * and find cached blocks in a pool that is too small for all: their tokens are those that each has
 * alone, on a core that keeps all blocks.
 */
#include "tests/unit/check.h"
#include "tests/unit/core_util.h"

#include "core/core_state.h"
#include "core/kv/layer_groups.h"
#include "backend/weight_source.h"

#define MODELS	"build/fixtures/models/"
#define LIVE	40

static uint32_t rnd_state = 4711;

static uint32_t
rnd(uint32_t n)
{
	rnd_state = rnd_state * 1664525u + 1013904223u;
	return (rnd_state >> 8) % n;
}

/* ---- the pool ---- */

/* A table that holds blocks, and the windows of the last ones only. */
typedef struct Table
{
	int32_t		blocks[64];
	int			n;
	int			from;
} Table;

static int64_t n_lost;

static void
lost(void *ctx, int32_t block)
{
	const KvPool *p = ctx;

	n_lost++;
	CHECK(kvpool_refs(p, block) == 0, "block %d is lost while it is held", block);
}

static void
shrink(KvPool *p, Table *t)
{
	int32_t		b = t->blocks[--t->n];

	if (t->n >= t->from)
		kvpool_window_unref(p, b);
	else
		t->from = t->n;
	if (rnd(3) > 0)
		kvpool_unref(p, b);
	else
		kvpool_unref_first(p, b);
}

/* Make t a copy of another table's beginning, as far as the windows exist. */
static void
copy_table(KvPool *p, Table *t, const Table *from)
{
	if (t->n > 0 || from->n == 0)
		return;
	*t = *from;
	for (int i = 0; i < t->n; i++)
	{
		kvpool_ref(p, t->blocks[i]);
		if (i >= t->from)
			kvpool_window_ref(p, t->blocks[i]);
	}
}

static void
check_pool(int full, int window)
{
	KvPool	   *p = kvpool_new_windows(full > 0 ? 41 : 101, 120, full, window);
	Table		t[6];
	Err			e = {0};
	bool		ok = true;

	memset(t, 0, sizeof(t));
	kvpool_on_lost(p, lost, p);
	for (int i = 0; ok && i < 40000; i++)
	{
		Table	   *a = &t[rnd(6)];
		int			n = (int) rnd(5);
		int			can = kvpool_available(p);

		switch (rnd(5))
		{
			case 0:
			case 1:
				if (a->n + n > 64)
					break;
				ok = kvpool_alloc(p, n, a->blocks + a->n) == (n <= can);
				a->n += n <= can ? n : 0;
				break;
			case 2:
				for (; n > 0 && a->n > 0; n--)
					shrink(p, a);
				break;
			case 3:
				for (; n > 0 && a->from < a->n; n--)
					kvpool_window_unref(p, a->blocks[a->from++]);
				break;
			default:
				copy_table(p, a, &t[rnd(6)]);
		}
		ok = ok && kvpool_check(p, &e) && kvpool_available(p) * (full + window) <= kvpool_pages_available(p);
		for (int k = 0; ok && k < 6; k++)
			for (int j = t[k].from; ok && j < t[k].n; j++)
				ok = kvpool_has_window(p, t[k].blocks[j]);
	}
	CHECK(ok, "%d and %d pages: %s", full, window, e.msg);
	for (int k = 0; k < 6; k++)
		while (t[k].n > 0)
			shrink(p, &t[k]);
	CHECK(kvpool_check(p, &e) && kvpool_pages_available(p) == kvpool_pages(p), "%d and %d pages, empty: %s",
		  full, window, e.msg);
	kvpool_free(p);
}

/* ---- models ---- */

static KPool *pool;
static int64_t n_preempted;

static Core *
open_core(const char *path, bool windows, int blocks, bool prefix_caching)
{
	CoreOptions o = {
		.max_num_seqs = 8, .max_num_batched_tokens = 32, .max_model_len = 256, .block_size = 16,
		.kv_blocks = blocks, .kv_type = KT_F16, .pool = pool, .kernels = kernels_select(NULL, NULL),
		.prefix_caching = prefix_caching, .no_windows = !windows
	};
	ModelOptions mo = {.kernels = o.kernels, .pool = pool, .max_rows = 32, .max_out = 8};
	Err			e = {0};
	Files	   *f = files_open(path, &e);
	Source		source = {.files = f};
	ModelSource src = source_of(&source);
	Model	   *m = f != NULL ? model_new(files_conf(f), &src, &mo, &e) : NULL;
	Core	   *c = NULL;

	if (m != NULL)
	{
		if (o.max_model_len > model_info(m)->max_model_len)
			o.max_model_len = model_info(m)->max_model_len;
		c = core_new(m, source_tok(f, &e), files_conf(f), &o, &e);
	}
	CHECK(c != NULL, "%s: %s", path, e.msg);
	source_done(&source);
	if (f != NULL)
		files_close(f);
	return c;
}

/* Prompt i shares its beginning with some others, and has some length. */
static IntVec
prompt_of(int i, int max_len)
{
	int			n = 20 + i % 5 * 23;
	IntVec		v = random_prompt((uint32_t) (i % 5), n < max_len / 3 ? n : max_len / 3);
	IntVec		more = random_prompt((uint32_t) (100 + i), i * 7 % 40);

	for (size_t k = 0; k < more.len && (int) v.len < max_len / 2; k++)
		intvec_push(&v, more.data[k]);
	intvec_free(&more);
	return v;
}

static void
issue(Core *c, int i, Rec *rec)
{
	GenParams	p = greedy_params(4 + i * 13 % (core_max_model_len(c) / 2 - 5));

	p.detokenize = false;
	p.ignore_eos = true;
	submit(c, (uint64_t) i + 1, (uint64_t) i % 3, prompt_of(i, core_max_model_len(c)), p, ~0u, rec);
}

static void
check_model(const char *name, int blocks, bool full)
{
	static Rec	want[LIVE],
				got[LIVE];
	char		path[200];
	Core	   *c;
	CoreStats	st;
	Err			e = {0};
	bool		ok = true;
	int			same = 0,
				cancelled = 0;

	memset(want, 0, sizeof(want));
	memset(got, 0, sizeof(got));
	snprintf(path, sizeof(path), MODELS "%s", name);
	if ((c = open_core(path, false, 64, false)) == NULL)
		return;
	for (int i = 0; i < LIVE; i++)
	{
		issue(c, i, &want[i]);
		while (core_has_work(c))
			core_step(c);
	}
	core_free(c);
	if ((c = open_core(path, true, blocks, true)) == NULL)
		return;
	CHECK(kvpool_window(c->pool) > 0, "%s has windows", name);
	for (int i = 0; ok && (i < LIVE || core_has_work(c));)
	{
		for (int n = (int) rnd(3); n > 0 && i < LIVE; n--, i++)
			issue(c, i, &got[i]);
		if (i % 9 == 8)
			core_cancel(c, (uint64_t) i - 2);
		core_step(c);
		ok = core_check(c, &e);
	}
	CHECK(ok, "%s: %s", name, e.msg);
	for (int i = 0; ok && i < LIVE; i++)
	{
		cancelled += got[i].finish == FIN_ABORT;
		same += got[i].ids.len <= want[i].ids.len &&
			(got[i].finish == FIN_ABORT || got[i].ids.len == want[i].ids.len) &&
			(got[i].ids.len == 0 ||
			 memcmp(got[i].ids.data, want[i].ids.data, got[i].ids.len * sizeof(int32_t)) == 0);
	}
	core_stats(c, &st);
	CHECK(same == LIVE && cancelled < LIVE / 2, "%s: %d of %d answers are the same, %d cancelled", name, same,
		  LIVE, cancelled);
	n_preempted += st.preemptions;
	/* with windows only, a prefix is cached only as long as its last tokens are in a window */
	CHECK((full || st.cached_tokens > 0 || kvpool_full(c->pool) == 0) && st.kv_blocks_used == 0,
		  "%s: %lld preemptions, %lld tokens found, %lld pages used", name, (long long) st.preemptions,
		  (long long) st.cached_tokens, (long long) st.kv_blocks_used);
	printf("%s: %d + %d pages a block, %lld preemptions, %lld tokens found\n", name, kvpool_full(c->pool),
		   kvpool_window(c->pool), (long long) st.preemptions, (long long) st.cached_tokens);
	core_free(c);
	for (int i = 0; i < LIVE; i++)
	{
		rec_free(&want[i]);
		rec_free(&got[i]);
	}
}

/* The reported memory: an example with 10 full layers and 20 with a window of 32. */
static void
check_sizes(void)
{
	ModelInfo	info = {.n_kv_layers = 30, .n_kv_windows = 20, .kv_window = 32};
	CoreOptions o = {.block_size = 16, .max_num_batched_tokens = 16};
	KvGroups	g = kvgroups_of(&info, &o);

	CHECK(g.layers == 10 && g.full == 1 && g.window == 2 && g.reach == 32, "10 and 20 layers");
	/* 5 blocks with windows, of 3 pages, and one page for each further one */
	CHECK(kvgroups_tokens(&g, &o, 15) == 5 * 16 && kvgroups_tokens(&g, &o, 110) == 100 * 16,
		  "%lld tokens in 110 pages", (long long) kvgroups_tokens(&g, &o, 110));
	o.no_windows = true;
	g = kvgroups_of(&info, &o);
	CHECK(g.layers == 30 && g.full == 1 && g.window == 0 && kvgroups_tokens(&g, &o, 36) == 36 * 16,
		  "without");
	info = (ModelInfo) {.n_kv_layers = 62, .n_kv_windows = 52, .kv_window = 1024};
	o.no_windows = false;
	g = kvgroups_of(&info, &o);
	CHECK(g.layers == 2 && g.full == 5 && g.window == 26, "Gemma 3 27B");
	info = (ModelInfo) {.n_kv_layers = 32, .n_kv_windows = 32, .kv_window = 4096};
	g = kvgroups_of(&info, &o);
	CHECK(g.layers == 32 && g.full == 0 && g.window == 1 && kvgroups_tokens(&g, &o, 259) > 1 << 20,
		  "Mistral 7B");
}

int
main(void)
{
	/* and with few blocks: as many as a sequence of the maximal length needs, or a little more */
	static const struct
	{
		const char *name;
		int			blocks;
	}			models[] = {
		{"gemma3_bf16", 8}, {"gpt_oss_f16", 11}, {"cohere2_f16", 9}, {"mistral_f32", 6}, {"olmo3_f16", 6},
		{"llama4_chunks_f16", 11},
	};

	pool = kpool_new(2);
	RUN(check_pool(1, 1));
	RUN(check_pool(1, 3));
	RUN(check_pool(2, 5));
	RUN(check_pool(0, 2));
	CHECK(n_lost > 1000, "%lld blocks were lost", (long long) n_lost);
	RUN(check_sizes());
	for (int i = 0; i < (int) (sizeof(models) / sizeof(models[0])); i++)
	{
		RUN(check_model(models[i].name, models[i].blocks, true));
		RUN(check_model(models[i].name, 3 * models[i].blocks, false));
	}
	CHECK(n_preempted > 5, "%lld preemptions", (long long) n_preempted);
	kpool_free(pool);
	return check_done("windows");
}
