/*
 * invariance.h
 *	  Promise 3 as a test: a request alone, in a batch of 16, chunked at 7 tokens, after another one with
 *	  the same prompt, with KV blocks that another core has left in a store, with right and wrong drafts,
 *	  preempted once, with 1 and 2 threads: identical logits, bit for bit.  The same with adapters, of
 *	  other requests in the batch and of its own.
 *
 * The includer gives a function that makes a Core; CoreOptions.tap records the logits of every sampled
 * row of the request under test, which are compared with memcmp to those of the first run (alone, 1
 * thread).
 */
#ifndef VLLM_TESTS_UNIT_CORE_INVARIANCE_H
#define VLLM_TESTS_UNIT_CORE_INVARIANCE_H

#include "tests/unit/check.h"
#include "tests/unit/core_util.h"
#include "core/core_state.h"
#include "core/offload/tier.h"
#include "core/spec/spec.h"

#define INV_TARGET	1000		/* id of the request under test */
#define INV_PROMPT	40
#define INV_OUTPUT	24

/* How tokens are drawn: greedily, at a temperature, or each case once in either way. */
typedef enum InvDraws
{
	INV_GREEDY, INV_SAMPLED, INV_BOTH
} InvDraws;

static InvDraws inv_draws = INV_BOTH;

static bool inv_rows;			/* the prompt under test is given as the embedding rows of its tokens */
static bool inv_no_prompt;		/* no parameter looks at the prompt's tokens */
/* the model has layers with windows, so that a request may fit that would be preempted otherwise */
static bool inv_windows;

/* Adapters: the request under test has number inv_lora_target (-1 = none), the others take turns. */
#define INV_LORAS	3
static const LoraAdapter *inv_loras[INV_LORAS];
static int	inv_n_loras;
static int	inv_lora_target = -1;

static inline const LoraAdapter *
inv_lora_of(int id)
{
	int			i = id >= INV_TARGET ? inv_lora_target : id % (inv_n_loras + 1) - 1;

	return i >= 0 && i < inv_n_loras ? inv_loras[i] : NULL;
}

/* NULL = can't be made (already counted as failed or skipped). */
typedef Core *(*InvMaker) (void *ctx, const CoreOptions *opt, int n_threads);

typedef struct InvRun
{
	Buf			logits;			/* all rows, concatenated */
	Rec			rec;
	int			rows;
	int64_t		max_batch;
	int			cached;			/* number of cached tokens that must be found */
} InvRun;

typedef enum InvCase
{
	INV_ALONE, INV_BATCH, INV_CHUNKED, INV_CACHED, INV_SPEC, INV_BACK, INV_PREEMPTED, INV_ALL, INV_ALL_CACHED,
	INV_ALL_SPEC, INV_CASES
} InvCase;

static const char *const inv_names[INV_CASES] = {
	"alone", "in a batch of 16", "chunked at 7", "computed before", "with drafts",
	"back from another core's store", "preempted once", "batch, chunked and preempted",
	"all of it, and what others have computed", "all of it, and drafts"
};

/* ---- drafts for the target: of 5 the fourth is wrong; for other requests nonsense ---- */

static const InvRun *inv_known;	/* the target's output */

static inline void
inv_propose(void *p, DraftRequest *reqs, int n)
{
	(void) p;
	for (int i = 0; i < n; i++)
	{
		Req		   *r = reqs[i].r;
		const IntVec *ids = &inv_known->rec.ids;

		for (int k = 0; k < reqs[i].most; k++)
		{
			size_t		at = (size_t) (req_n_output(r) + k);
			bool		right = r->in.id == INV_TARGET && k != 3 && at < ids->len;

			intvec_push(&r->spec->drafts, right ? ids->data[at] : 40 + k);
		}
	}
}

static inline bool
inv_open(const SpecEnv *env, void **out, Err *e)
{
	(void) env;
	(void) e;
	*out = mem_alloc(1);
	return true;
}

static const ProposerType inv_proposer = {.name = "known", .flags = SPEC_ALL, .open = inv_open,
										  .close = mem_free, .propose = inv_propose};

static inline void
inv_tap(void *ctx, const Req *r, int position, const float *logits, int n)
{
	InvRun	   *run = ctx;

	if (r->in.id != INV_TARGET)
		return;
	CHECK(position == run->rows, "position %d comes as row %d", position, run->rows);
	run->rows++;
	buf_add(&run->logits, logits, (size_t) n * sizeof(float));
}

static inline IntVec
inv_prompt(uint32_t seed, int n, int vocab)
{
	IntVec		v = {0};

	for (int i = 0; i < n; i++)
	{
		seed = seed * 1664525u + 1013904223u;
		intvec_push(&v, 35 + (int32_t) ((seed >> 8) % (uint32_t) (vocab - 60)));
	}
	return v;
}

static inline void
inv_submit(Core *c, int id, int n_prompt, int n_output, double temperature, Rec *rec)
{
	GenParams	p = greedy_params(n_output);

	p.temperature = temperature;
	p.top_k = 50;
	p.has_seed = true;
	p.seed = id;
	p.detokenize = false;
	/* with all parameters that look at the tokens so far */
	if (temperature > 0)
	{
		LogitRules *r = genparams_rules(&p);

		r->repetition_penalty = inv_no_prompt ? 1 : 1.3;
		r->frequency_penalty = 0.4;
		r->presence_penalty = -0.2;
		p.min_tokens = 3;
	}
	submit_rows = inv_rows && id % 2 == 0;
	submit_lora = inv_lora_of(id);
	submit(c, (uint64_t) id, (uint64_t) id % 3, inv_prompt((uint32_t) id, n_prompt, 250), p, ~0u, rec);
	submit_lora = NULL;
	submit_rows = false;
}

/* Run another request with the first n tokens of the target's prompt to its end. */
static inline void
inv_before(Core *c, int n, int n_output, Rec *rec)
{
	GenParams	p = greedy_params(n_output);
	IntVec		prompt = inv_prompt(INV_TARGET, n, 250);

	p.detokenize = false;
	submit_lora = inv_lora_of(INV_TARGET);
	submit(c, (uint64_t) (2000 + n), 0, prompt, p, ~0u, rec);
	submit_lora = NULL;
	while (core_has_work(c))
		core_step(c);
}

/*
 * Preempted once: an older request of 30 + 60 tokens and the target of 40 + 24 share 6 blocks of 16.
 * The target is the newer one: when the blocks run out it is preempted, and resumes when the older one
 * is done (INV_ALL: with other requests in the batch).
 */
static inline void
inv_run(InvMaker make, void *ctx, InvCase which, int n_threads, double temperature, InvRun *run)
{
	CoreOptions opt = {
		.max_num_seqs = 16, .max_num_batched_tokens = 512, .max_model_len = 128, .block_size = 16,
		.kv_blocks = which >= INV_PREEMPTED ? 6 : 16 * 8, .kv_type = KT_F32,
		.max_chunk = which == INV_CHUNKED || which >= INV_ALL ? 7 : 0,
		.prefix_caching = which == INV_CACHED || which == INV_BACK || which == INV_ALL_CACHED, .tap = inv_tap,
		.tap_ctx = run
	};
	KvTier	   *tier = NULL;
	bool		drafts = which == INV_SPEC || which == INV_ALL_SPEC;
	Core	   *c;
	CoreStats	st;
	Rec			mates[15];
	Err			e = {0};

	if (drafts)
		opt.spec = (SpecConfig) {.type = &inv_proposer, .n_drafts = 5};

	memset(mates, 0, sizeof(mates));
	memset(run, 0, sizeof(*run));
	if (which == INV_BACK)
	{
		opt.kv_always = true;
		opt.kv_tier = tier = kvtier_open(&(KvTierOptions) {.memory_bytes = 4 << 20}, &e);
	}
	if ((c = make(ctx, &opt, n_threads)) == NULL)
		return;
	/* all of its prompt, or half of it */
	run->cached = opt.prefix_caching && prefix_cache_supported(core_info(c)) ? INV_PROMPT - 1 : 0;
	if (which == INV_BACK)
	{
		inv_before(c, INV_PROMPT, 40, &mates[8]);
		core_free(c);
		if ((c = make(ctx, &opt, n_threads)) == NULL)
			return;
		/* full blocks only */
		run->cached = c->offload != NULL ? INV_PROMPT / 16 * 16 : 0;
	}
	if (opt.prefix_caching && which != INV_BACK)
		inv_before(c, INV_PROMPT, 40, &mates[8]);
	if (which == INV_ALL_CACHED)
		inv_before(c, 20, 3, &mates[9]);
	if (which == INV_BATCH || which == INV_SPEC)
		for (int i = 0; i < 15; i++)
			inv_submit(c, i, 3 + 5 * i, 30 + i, i % 2, &mates[i]);
	if (which >= INV_PREEMPTED)
		inv_submit(c, 1, 30, 60, 0, &mates[0]);
	inv_submit(c, INV_TARGET, INV_PROMPT, INV_OUTPUT, temperature, &run->rec);
	for (int i = 2; i < 8 && which >= INV_ALL; i++)
	{
		core_step(c);			/* the target is admitted first */
		inv_submit(c, i, 20 + i, 10, i % 2, &mates[i]);
	}
	while (core_has_work(c))
	{
		core_step(c);
		if (!core_check(c, &e))
		{
			CHECK(false, "%s", e.msg);
			break;
		}
	}
	core_stats(c, &st);
	run->max_batch = st.max_batch;
	CHECK(st.spec_drafts == 0 || drafts, "drafts that nobody has asked for");
	CHECK(!drafts || core_info(c)->state_bytes > 0 || st.spec_accepted > 0, "%s: no draft was taken",
		  inv_names[which]);
	core_free(c);
	if (tier != NULL)
		kvtier_close(tier);
	for (int i = 0; i < 15; i++)
		rec_free(&mates[i]);
}

/* Was it preempted as often as expected?  With windows it may fit. */
static inline bool
inv_preempted(const InvRun *run, InvCase which)
{
	return run->rec.preemptions == (which >= INV_PREEMPTED) || (inv_windows && run->rec.preemptions == 0);
}

static inline void
inv_run_free(InvRun *run)
{
	buf_free(&run->logits);
	rec_free(&run->rec);
}

/* A prompt as the embedding rows of its tokens gives the same as the tokens. */
static inline void
inv_check_rows(const char *label, InvMaker make, void *ctx)
{
	inv_no_prompt = true;
	for (int sampled = 0; sampled < 2; sampled++)
	{
		double		temperature = sampled ? 0.8 : 0;
		InvRun		first;

		if (inv_draws == (sampled ? INV_GREEDY : INV_SAMPLED))
			continue;
		inv_run(make, ctx, INV_ALONE, 1, temperature, &first);
		inv_known = &first;
		CHECK(first.rows == INV_OUTPUT, "%s: %d rows", label, first.rows);
		inv_rows = true;
		for (int which = INV_ALONE; which < INV_CASES; which++)
		{
			InvRun		run;

			inv_run(make, ctx, which, 1 + which % 2, temperature, &run);
			CHECK(run.logits.len == first.logits.len && first.logits.len > 0 &&
				  memcmp(run.logits.data, first.logits.data, first.logits.len) == 0,
				  "%s, embeddings, %s: logits differ", label, inv_names[which]);
			CHECK(run.rec.ids.len == first.rec.ids.len && first.rec.ids.len > 0 &&
				  memcmp(run.rec.ids.data, first.rec.ids.data, first.rec.ids.len * sizeof(int32_t)) == 0,
				  "%s, embeddings, %s: tokens differ", label, inv_names[which]);
			CHECK(inv_preempted(&run, which) || which == INV_ALL_SPEC,
				  "%s, embeddings, %s: preempted %d times", label, inv_names[which], run.rec.preemptions);
			inv_run_free(&run);
		}
		inv_rows = false;
		inv_run_free(&first);
	}
	inv_no_prompt = false;
}

static inline void
inv_check(const char *label, InvMaker make, void *ctx)
{
	for (int sampled = 0; sampled < 2; sampled++)
	{
		double		temperature = sampled ? 0.8 : 0;
		InvRun		first;

		if (inv_draws == (sampled ? INV_GREEDY : INV_SAMPLED))
			continue;
		inv_run(make, ctx, INV_ALONE, 1, temperature, &first);
		inv_known = &first;
		CHECK(first.rows == INV_OUTPUT && first.rec.ids.len == INV_OUTPUT, "%s: %d rows", label, first.rows);
		for (int which = INV_ALONE; which < INV_CASES; which++)
			for (int n_threads = 1; n_threads <= 2; n_threads++)
			{
				InvRun		run;

				/* alternate: each case runs with both, one of them greedy and the other sampled */
				if (check_effort(1, 1, 2) == 1 && (which + sampled) % 2 == n_threads % 2)
					continue;
				inv_run(make, ctx, which, n_threads, temperature, &run);
				CHECK(run.logits.len == first.logits.len && first.logits.len > 0 &&
					  memcmp(run.logits.data, first.logits.data, first.logits.len) == 0,
					  "%s, %s, %d threads: logits differ", label, inv_names[which], n_threads);
				CHECK(run.rec.ids.len == first.rec.ids.len && first.rec.ids.len > 0 &&
					  memcmp(run.rec.ids.data, first.rec.ids.data, first.rec.ids.len * sizeof(int32_t)) == 0,
					  "%s, %s, %d threads: tokens differ", label, inv_names[which], n_threads);
				if (which == INV_BATCH)
					CHECK(run.max_batch == 16, "%s: a batch of %d", label, (int) run.max_batch);
				/* with drafts, a request may finish before the preemption */
				CHECK(inv_preempted(&run, which) || which == INV_ALL_SPEC, "%s, %s: preempted %d times",
					  label, inv_names[which], run.rec.preemptions);
				CHECK(run.rec.cached == run.cached ||
					  (which == INV_ALL_CACHED && run.cached > 0 && run.rec.cached > 0),
					  "%s, %s: %d tokens were cached", label, inv_names[which], run.rec.cached);
				inv_run_free(&run);
			}
		inv_run_free(&first);
	}
}

#endif
