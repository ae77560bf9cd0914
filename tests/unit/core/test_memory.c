/*
 * test_memory.c
 *	  The memory that a core reports, against the operating system's numbers.
 */
#include <dirent.h>

#include "tests/unit/check.h"
#include "tests/unit/core_util.h"

#include "backend/weight_source.h"

#define MODEL	"models/tickets-2m"
#define REQS	64

/* Return the resident memory of this process, in bytes. */
static int64_t
resident(void)
{
	FILE	   *f = fopen("/proc/self/smaps_rollup", "r");
	char		line[256];
	long long	kb = -1;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL && sscanf(line, "Rss: %lld kB", &kb) != 1)
		;
	if (f != NULL)
		fclose(f);
	return kb < 0 ? -1 : kb * 1024;
}

static int64_t
used(const CoreStats *st)
{
	return st->mem_weights + st->mem_kv + st->mem_state + st->mem_work + st->mem_other;
}

static Core *
open_core(KPool *pool)
{
	CoreOptions o = {
		.max_num_seqs = REQS, .max_num_batched_tokens = 512, .block_size = 16, .kv_bytes = 160 << 20,
		.kv_type = KT_F32, .pool = pool, .kernels = kernels_select(NULL, NULL), .huge = HUGE_OFF,
		.prefix_caching = true
	};
	ModelOptions mo = {.kernels = o.kernels, .pool = pool, .max_rows = 512, .max_out = REQS,
					   .huge = HUGE_OFF};
	Err			e = {0};
	Files	   *f = files_open(MODEL, &e);
	Source		source = {.files = f};
	ModelSource src = source_of(&source);
	Model	   *m = f != NULL ? model_new(files_conf(f), &src, &mo, &e) : NULL;
	Core	   *c = m != NULL ? core_new(m, source_tok(f, &e), files_conf(f), &o, &e) : NULL;

	CHECK(c != NULL, "%s", e.msg);
	source_done(&source);
	if (f != NULL)
		files_close(f);
	return c;
}

static void
compare(const CoreStats *st, int64_t before, const char *when)
{
	int64_t		real = resident() - before;

	/* the process itself needs a little by now */
	CHECK(used(st) > real - (4 << 20) && used(st) < real + (4 << 20),
		  "%s %lld bytes are told, %lld are resident", when, (long long) used(st), (long long) real);
	printf("%s: told %lld kB, resident %lld kB\n", when, (long long) used(st) >> 10, (long long) real >> 10);
}

/* The memory of a load is known before it. */
static void
test_work(KPool *pool)
{
	DIR		   *dir = opendir("build/fixtures/models");
	const struct dirent *d;
	int			found = 0;

	while (dir != NULL && (d = readdir(dir)) != NULL)
	{
		ModelOptions mo = {.kernels = kernels_select(NULL, NULL), .pool = pool, .max_rows = 100 + found,
						   .max_out = 64, .huge = HUGE_OFF};
		char		path[300];
		Err			e = {0};
		Files	   *f;
		Source		source = {0};
		ModelSource src;
		Model	   *m;
		uint64_t	work = 0;

		snprintf(path, sizeof(path), "build/fixtures/models/%s", d->d_name);
		if (d->d_name[0] == '.' || (f = files_open(path, &e)) == NULL)
			continue;
		source.files = f;
		src = source_of(&source);
		m = model_new(files_conf(f), &src, &mo, &e);
		if (m != NULL)
			mo.max_model_len = model_info(m)->max_model_len;
		CHECK(m == NULL || (model_work(files_conf(f), &src, &mo, kpool_nthreads(pool), &work, &e) &&
							work == model_info(m)->work_memory),
			  "%s: %llu bytes instead of %llu (%s)", d->d_name, (unsigned long long) work,
			  (unsigned long long) model_info(m)->work_memory, e.msg);
		found += m != NULL;
		model_free(m);
		source_done(&source);
		files_close(f);
	}
	if (dir != NULL)
		closedir(dir);
	CHECK(found > 100, "%d models", found);
}

int
main(void)
{
	KPool	   *pool = kpool_new(2);
	static Rec	recs[REQS];
	int64_t		before = resident();
	Core	   *c = open_core(pool);
	CoreStats	st;
	int			round = 0;
	int64_t		rows;
	bool		lost;
	Err			e = {0};

	if (before < 0 || c == NULL)
	{
		check_skip(1, "no smaps_rollup, or no model");
		return check_done("memory");
	}
	core_stats(c, &st);
	CHECK(st.mem_weights > 0 && st.mem_work > 0 && st.mem_kv == 0 && st.kv_bytes > 100 << 20 &&
		  st.kv_tokens > 1000, "at first %lld bytes of KV are in use", (long long) st.mem_kv);
	/* until all blocks have been used */
	do
	{
		for (int i = 0; i < REQS; i++)
		{
			GenParams	p = greedy_params(4);

			p.detokenize = false;
			p.ignore_eos = true;
			submit(c, (uint64_t) i + 1, 0, random_prompt((uint32_t) (round * REQS + i),
														 core_max_model_len(c) - 8), p, ~0u, &recs[i]);
		}
		while (core_has_work(c))
			core_step(c);
		for (int i = 0; i < REQS; i++)
			rec_free(&recs[i]);
		core_stats(c, &st);
	}
	while (st.mem_kv < st.kv_bytes && ++round < 200);
	CHECK(st.mem_kv == st.kv_bytes && st.kv_blocks_used == 0, "%lld of %lld bytes of KV",
		  (long long) st.mem_kv, (long long) st.kv_bytes);
	printf("told %lld kB (weights %lld, KV %lld, work %lld, other %lld), resident %lld kB\n",
		   (long long) used(&st) >> 10, (long long) st.mem_weights >> 10, (long long) st.mem_kv >> 10,
		   (long long) st.mem_work >> 10, (long long) st.mem_other >> 10,
		   (long long) (resident() - before) >> 10);
	CHECK(used(&st) > (resident() - before) * 0.95 && used(&st) < (resident() - before) * 1.05,
		  "%lld bytes are told, %lld are resident", (long long) used(&st), (long long) (resident() - before));
	core_suspend(c, true);
	core_stats(c, &st);
	CHECK(st.mem_kv == 0, "asleep %lld bytes of KV are in use", (long long) st.mem_kv);
	compare(&st, before, "at rest");
	rows = st.mem_other;
	CHECK(core_save_weights(c, "/tmp", &lost, &e), "%s", e.msg);
	core_stats(c, &st);
	CHECK(st.mem_weights == 0, "%lld bytes of weights", (long long) st.mem_weights);
	compare(&st, before, "stored");
	CHECK(core_restore_weights(c, &e), "%s", e.msg);
	core_resume(c, &(Err) {0});
	core_stats(c, &st);
	CHECK(st.mem_weights > 0, "weights are back");
	submit(c, 1, 0, random_prompt(1, 20), greedy_params(4), ~0u, &recs[0]);
	while (core_has_work(c))
		core_step(c);
	rec_free(&recs[0]);
	core_stats(c, &st);
	CHECK(st.mem_other > rows && st.mem_kv > 0, "and all the rest");
	core_free(c);
	RUN(test_work(pool));
	kpool_free(pool);
	return check_done("memory");
}
