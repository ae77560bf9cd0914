/*
 * batch_limits.c
 *	  Defaults for the size of a model's steps.
 *
 * Sequences share the reading of the weights, so more of them are better until the CPUs have enough to
 * compute: 32 for each thread.  Each sequence should have some KV cache, and its rows of logits take
 * memory.  max_num_batched_tokens is only an upper bound: the measured cost of rows decides how large a
 * step really is (step_time.c, step_target).  So it follows from the memory of the rows' work space.
 * docs/user/operations.md has the rule.
 *
 * Tested by tests/unit/core/test_sizing.c.
 */
#include "core/batch_limits.h"

#include "base/log.h"

#define SEQS_PER_THREAD 32
#define LEAST_SEQS		64
#define MOST_SEQS		256
#define ROWS_PER_THREAD 256
#define LEAST_ROWS		512
#define MOST_ROWS		4096
#define KV_TOKENS		64		/* tokens of the KV cache for each sequence */
/* logits, and the rows' work space, may each take 1/WORK_PART of the memory */
#define WORK_PART		16
#define WORK_FLOATS		24		/* a row's work space in floats, as a multiple of the hidden size */
#define FEW				8

static int64_t
clamp(int64_t n, int64_t least, int64_t most)
{
	return n < least ? least : n > most ? most : n;
}

/* Return at most as many as fit in a part of the memory, if each takes so many bytes. */
static int64_t
at_most(int64_t n, uint64_t memory, uint64_t bytes)
{
	uint64_t	fit = bytes == 0 ? UINT64_MAX : memory / WORK_PART / bytes;

	return (uint64_t) n > fit ? clamp((int64_t) fit, FEW, n) : n;
}

void
sizing_fill(const ModelInfo *mi, int threads, int64_t kv_tokens, uint64_t memory, CoreOptions *co)
{
	int64_t		seqs = clamp((int64_t) threads * SEQS_PER_THREAD, LEAST_SEQS, MOST_SEQS);
	int64_t		rows = clamp((int64_t) threads * ROWS_PER_THREAD, LEAST_ROWS, MOST_ROWS);

	if (co->max_num_seqs == 0)
	{
		if (kv_tokens / KV_TOKENS < seqs)
			seqs = clamp(kv_tokens / KV_TOKENS, FEW, seqs);
		if (co->max_num_batched_tokens > 0 && seqs > co->max_num_batched_tokens)
			seqs = co->max_num_batched_tokens;
		co->max_num_seqs = (int) at_most(seqs, memory, 2 * sizeof(float) * (uint64_t) mi->vocab_size);
	}
	if (co->max_num_batched_tokens == 0)
	{
		rows = at_most(rows, memory, WORK_FLOATS * sizeof(float) * (uint64_t) mi->hidden_size);
		co->max_num_batched_tokens = (int) (rows < co->max_num_seqs ? co->max_num_seqs : rows);
	}
}

bool
sizing_length(int requested, int most, int64_t fits, int *len, Err *e)
{
	if (requested > most)
		return err_set(e, ERR_INVALID, "max_model_len %d is larger than the model's %d", requested, most);
	if (fits < 1 || requested > fits)
	{
		err_set(e, ERR_INVALID, "the KV cache holds only %lld tokens, fewer than max_model_len %d",
				(long long) fits, requested > 0 ? requested : most);
		return err_hint(e, "Raise vllm.kv_cache_memory_bytes or lower max_model_len.");
	}
	*len = requested > 0 ? requested : most;
	if (*len > fits)
	{
		log_line('I', "context length is %lld instead of %d tokens: that is what fits into the KV cache",
				 (long long) fits, most);
		*len = (int) fits;
	}
	return true;
}
