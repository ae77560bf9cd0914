/*
 * test_sizing.c
 *	  Default sizes of steps: known cases, and that they make sense on any machine.
 */
#include "core/batch_limits.h"

#include "tests/unit/check.h"

#define GIB (UINT64_C(1) << 30)

static void
expect(int threads, int64_t kv_tokens, uint64_t memory, int vocab, int hidden, int seqs, int rows)
{
	ModelInfo	mi = {.vocab_size = vocab, .hidden_size = hidden};
	CoreOptions co = {0};

	sizing_fill(&mi, threads, kv_tokens, memory, &co);
	CHECK(co.max_num_seqs == seqs && co.max_num_batched_tokens == rows,
		  "%d threads, %lld tokens, %llu bytes: %d and %d, not %d and %d", threads, (long long) kv_tokens,
		  (unsigned long long) memory, co.max_num_seqs, co.max_num_batched_tokens, seqs, rows);
}

int
main(void)
{
	ModelInfo	mi = {.vocab_size = 1000, .hidden_size = 64};
	CoreOptions co;

	RUN(expect(2, 1 << 20, 16 * GIB, 32000, 2048, 64, 512));
	RUN(expect(4, 1 << 20, 16 * GIB, 32000, 2048, 128, 1024));
	RUN(expect(64, 1 << 20, 256 * GIB, 150000, 4096, 256, 4096));
	RUN(expect(64, 1 << 20, UINT64_MAX, 150000, 4096, 256, 4096));
	expect(16, 4096, 16 * GIB, 32000, 2048, 64, 4096);	/* little KV cache */
	expect(64, 1 << 20, 2 * GIB, 150000, 4096, 111, 341);	/* little memory */
	RUN(expect(64, 0, 0, 150000, 4096, 8, 8));
	/* a given size stays, and the other one fits it */
	co = (CoreOptions) {.max_num_seqs = 3};
	sizing_fill(&mi, 2, 1 << 20, GIB, &co);
	CHECK(co.max_num_seqs == 3 && co.max_num_batched_tokens == 512, "%d and %d", co.max_num_seqs,
		  co.max_num_batched_tokens);
	co = (CoreOptions) {.max_num_seqs = 1000};
	sizing_fill(&mi, 2, 1 << 20, GIB, &co);
	CHECK(co.max_num_seqs == 1000 && co.max_num_batched_tokens == 1000, "%d and %d", co.max_num_seqs,
		  co.max_num_batched_tokens);
	co = (CoreOptions) {.max_num_batched_tokens = 20};
	sizing_fill(&mi, 2, 1 << 20, GIB, &co);
	CHECK(co.max_num_seqs == 20 && co.max_num_batched_tokens == 20, "%d and %d", co.max_num_seqs,
		  co.max_num_batched_tokens);
	for (int threads = 1; threads <= 256; threads++)
		for (int64_t kv = 1; kv < INT64_C(1) << 32; kv *= 7)
			for (uint64_t memory = 1; memory < UINT64_C(1) << 44; memory *= 13)
			{
				co = (CoreOptions) {0};
				sizing_fill(&mi, threads, kv, memory, &co);
				if (co.max_num_seqs < 8 || co.max_num_seqs > 256 ||
					co.max_num_batched_tokens < co.max_num_seqs || co.max_num_batched_tokens > 4096)
					CHECK(false, "%d threads: %d and %d", threads, co.max_num_seqs,
						  co.max_num_batched_tokens);
			}
	return check_done("sizing");
}
