/*
 * test_replicas.c
 *	  Which replica gets a request: the least busy one; requests with a common prefix go to the same
 *	  replica while the load allows that, others are distributed; and metrics of several replicas
 *	  together.
 */
#include <string.h>

#include "base/alloc.h"
#include "backend/replica_router.h"
#include "tests/unit/check.h"

#define BLOCK	16

static ReqSpec
spec_of(int32_t first, int n)
{
	ReqSpec		s = {0};

	for (int i = 0; i < n; i++)
		intvec_push(&s.prompt, first + i);
	return s;
}

static int
choose(Replicas *q, int64_t a, int64_t b, int64_t c, const ReqSpec *s)
{
	int64_t		live[3] = {a, b, c};

	return replicas_choose(q, live, s);
}

static void
test_load(void)
{
	Replicas   *q = replicas_new(3, BLOCK);
	ReqSpec		s = spec_of(1, BLOCK - 1);

	CHECK(choose(q, 0, 0, 0, &s) == 0, "ties: the first");
	CHECK(choose(q, 5, 0, 0, &s) == 1, "the first that has least");
	CHECK(choose(q, 5, 6, 4, &s) == 2, "the last");
	CHECK(choose(q, 5, 5, 6, &s) == 0, "a prompt of no full block leaves nothing behind");
	intvec_free(&s.prompt);
	replicas_free(q);
}

static void
test_prefix(void)
{
	Replicas   *q = replicas_new(3, BLOCK);
	ReqSpec		s = spec_of(1, 4 * BLOCK);
	ReqSpec		longer = spec_of(1, 6 * BLOCK);
	ReqSpec		other = spec_of(2, 4 * BLOCK);
	LoraAdapter *lora = (LoraAdapter *) &s;

	CHECK(choose(q, 9, 0, 1, &s) == 1, "where least is to be done");
	CHECK(choose(q, 0, 0, 0, &s) == 1, "... and there again");
	CHECK(choose(q, 0, 4 * BLOCK - 1, 0, &longer) == 1,
		  "who begins alike, while there is more to save than to wait for");
	CHECK(choose(q, 0, 6 * BLOCK, 0, &longer) == 0, "... and no longer");
	CHECK(choose(q, 0, 1, 1, &longer) == 0, "... which has it then, too");
	CHECK(choose(q, 0, 0, 0, &other) == 0, "another prompt");
	s.owner = 7;
	CHECK(choose(q, 0, 0, 0, &s) == 0, "another's requests share nothing");
	s.owner = 0;
	s.params.cache_salt = mem_strdup("salt");
	CHECK(choose(q, 1, 2, 0, &s) == 2, "... nor those of another salt");
	mem_free(s.params.cache_salt);
	s.params.cache_salt = NULL;
	s.lora = lora;
	CHECK(choose(q, 1, 2, 0, &s) == 2, "... or adapter");
	s.lora = NULL;
	CHECK(choose(q, 30, 0, 30, &s) == 1, "the first is still known");
	s.embeds = (float *) &other;
	CHECK(choose(q, 0, 0, 0, &s) == 0, "embeddings have no tokens");
	s.embeds = NULL;
	replicas_forget(q);
	CHECK(choose(q, 2, 2, 1, &s) == 2, "all of it is forgotten");
	intvec_free(&s.prompt);
	intvec_free(&longer.prompt);
	intvec_free(&other.prompt);
	replicas_free(q);
}

/* The table has a fixed size: old entries are dropped, and no entry is ever wrong. */
static void
test_many(void)
{
	Replicas   *q = replicas_new(3, BLOCK);
	ReqSpec		s = spec_of(0, 2 * BLOCK);
	int			wrong = 0;

	for (int i = 0; i < 100000; i++)
	{
		s.prompt.data[0] = 1000 + i;
		wrong += choose(q, 1, 2, 3, &s) != 0;
	}
	CHECK(wrong == 0, "%d of 100000 prompts were taken for others", wrong);
	intvec_free(&s.prompt);
	replicas_free(q);
}

static void
test_figures(void)
{
	CoreStats	a = {0};
	CoreStats	b = {0};

	a.running = 2;
	b.running = 3;
	a.output_tokens = 10;
	b.output_tokens = 5;
	a.max_batch = 4;
	b.max_batch = 3;
	a.kv_tokens = b.kv_tokens = 100;
	a.max_num_seqs = b.max_num_seqs = 8;
	a.step_sizes[2] = 1;
	b.step_sizes[2] = 6;
	b.kv_life[0].count[3] = 2;
	b.kv_life[0].sum = 9;
	snprintf(a.loras_running, sizeof(a.loras_running), "one,two");
	snprintf(b.loras_running, sizeof(b.loras_running), "tw,two,three");
	memset(b.loras_waiting, 'x', sizeof(b.loras_waiting) - 1);
	replicas_add(&a, &b);
	CHECK(a.running == 5 && a.output_tokens == 15, "gauges and counters: %lld, %lld", (long long) a.running,
		  (long long) a.output_tokens);
	CHECK(a.max_batch == 4 && a.kv_tokens == 100 && a.max_num_seqs == 8, "peaks, limits, and what is common");
	CHECK(a.step_sizes[2] == 7 && a.kv_life[0].count[3] == 2 && a.kv_life[0].sum == 9, "histograms");
	CHECK(strcmp(a.loras_running, "one,two,tw,three") == 0, "names: %s", a.loras_running);
	CHECK(a.loras_waiting[0] == '\0', "a name for which there is no room");
}

int
main(void)
{
	RUN(test_load());
	RUN(test_prefix());
	RUN(test_many());
	RUN(test_figures());
	return check_done("test_replicas");
}
