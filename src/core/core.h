/*
 * core.h
 *	  The engine core: requests in, token events out, one step at a time.
 *
 * One Core per loaded model: model, tokenizer, block pool, scheduler.  Only the step thread touches
 * them, except for the thread-safe inbox (submit and cancel).  A request has computed `computed` of its
 * `n_tokens` tokens: there is no prefill or decode phase.  Chunked prefill, preemption by recompute,
 * prefix hits and speculation are all the same subtraction of the two numbers.
 *
 *	core_step():	plan -> forward -> sample -> commit -> emit		(core.c)
 *
 * Promise 3: a request's tokens and logits depend on nothing but the model, its prompt and its
 * parameters.  tests/unit/core/test_invariance.c tests everything below that could break this (row
 * order, chunk size, block ids, thread count, preemption).
 */
#ifndef VLLM_CORE_CORE_H
#define VLLM_CORE_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/config_map.h"
#include "base/err.h"
#include "core/sample/logit_rules.h"
#include "core/sample/logits_processors.h"
#include "core/sample/logprobs.h"
#include "core/spec/spec_config.h"
#include "core/output/reasoning_budget.h"
#include "grammar/grammar.h"
#include "model/weights/device_arena.h"
#include "model/lora/lora.h"
#include "model/model.h"
#include "model/layers/pooler.h"
#include "tokenizer/tokenizer.h"
#include "ipc/wire.h"

/* ---- number of answers, and what events say of their tokens (docs/user/outputs.md) ---- */
typedef struct OutParams
{
	int			n;				/* number of answers to one prompt, which is computed once */
	/*
	 * log-probabilities of an answer's tokens: LOGPROBS_NONE, LOGPROBS_ALL, or the number of most likely
	 * tokens at each position
	 */
	int			logprobs;
	int			prompt_logprobs;	/* the same for the prompt's tokens */
	bool		logits;			/* set by the core: return logits instead */
	IntVec		logprob_ids;	/* also of these tokens; owned */
	int			beam_width;		/* 0 = no beam search */
	double		length_penalty;	/* of a beam search */
} OutParams;

/* ---- sampling parameters, normalised (docs/user/sampling.md) ---- */

/*
 * The members of GenParams that rows of request_fields.def with reader PARAM or MODEL_PARAM define, by
 * type
 */
#define PARAM_TYPE_INT int
#define PARAM_TYPE_NUM double
#define PARAM_TYPE_BOOL bool
#define PARAM_OF_PARAM(member) MEMBER, member
#define PARAM_OF_MODEL_PARAM(member) MEMBER, member
#define PARAM_OF_OUT(member) NOTHING, -
#define PARAM_OF_RULE(member) NOTHING, -
#define PARAM_OF_MODEL_RULE(member) NOTHING, -
#define PARAM_OF_CODE NOTHING, -
#define PARAM_MEMBER(type, member) PARAM_TYPE_##type member;
#define PARAM_NOTHING(type, member)
#define PARAM_MAKE(type, what, member) PARAM_##what(type, member)
#define PARAM_ROW(...) PARAM_MAKE(__VA_ARGS__)

typedef struct GenParams
{
	/* max_tokens is at least 1 and cut to what the context holds; temperature 0 = greedy; top_k 0 = off */
#define FIELD(tag, number, name, type, least, most, rule, body, endpoint, dflt, reader) \
	PARAM_ROW(type, PARAM_OF_##reader)
#define CALL_OPTION(...)
#include "ipc/request_fields.def"
#undef FIELD
#undef CALL_OPTION
	bool		has_seed;
	int64_t		seed;
	char	  **stop;			/* owned */
	size_t	   *stop_len;
	int			n_stop;
	int32_t    *stop_ids;		/* owned; the user's ids and, unless ignore_eos is set, the model's
								 * additional EOS ids */
	int			n_stop_ids;
	int32_t    *min_ids;		/* owned; ids that are masked until min_tokens (EOS ids and stop ids) */
	int			n_min_ids;
	OutParams	out;
	LogitRules *rules;			/* owned; NULL = logits are not changed */
	int			repeat_max;		/* repetition_detection: length of the longest pattern; 0 = off */
	int			repeat_min;		/* repetition_detection: length of the shortest pattern */
	int			repeat_count;	/* this many repetitions end the output */
	bool		tight_special;	/* no space between special tokens: spaces_between_special_tokens is off */
	char	   *extra_args;		/* owned; a JSON object for logits processors; NULL = none */
	/* pin the prompt's KV blocks (1) or unpin them (-1); the output does not matter */
	int			pin;
	/* owned; requests share K and V only with requests of the same salt; NULL = none */
	char	   *cache_salt;
	uint32_t	plugins;		/* bits of the logits processors that take part: indexes into
								 * CoreOptions.plugins */
} GenParams;

/* ---- pooling: vectors, scores, log-probabilities instead of generated text ---- */

/* One sequence of a pooled request. */
typedef struct PoolSeq
{
	IntVec		ids;			/* owned */
	/* tokens from this one on have type 1: a pair's second text; INT_MAX = none */
	int			type1_at;
	int			skip;			/* number of first tokens that are not pooled: those of an instruction */
	int			seen_to;		/* no token attends to the tokens from this one on, which attend to those
								 * before it; 0 = all are attended to */
	IntVec		dropped;		/* tasks per token: ascending indexes of rows that are dropped; owned */
	int			scored_at;		/* PT_LOGPROBS: first token to score: >= 1, or 0 after PoolSpec.prompt */
} PoolSeq;

/* How the vectors of the sequences are combined. */
typedef enum PoolJoin
{
	PJ_ONE,						/* there is only one sequence */
	/* chunks of one text: their mean, weighted by tokens; tasks per token: concatenated */
	PJ_CHUNKS,
	PJ_COSINE,					/* cosine of two */
	/* of two texts' token vectors: the sum, over the first's vectors, of the greatest product */
	PJ_MAXSIM,
	PJ_CHOICES					/* PT_LOGPROBS: continuations of one prompt, which is computed once */
} PoolJoin;

typedef struct PoolSpec
{
	PoolTask	task;			/* PT_NONE: not a pooled request */
	PoolJoin	join;
	int			n_seqs;
	PoolSeq    *seqs;			/* owned */
	IntVec		prompt;			/* PJ_CHOICES: common prefix of all sequences, not part of their ids; owned */
	int			dimensions;		/* 0 = all */
	int			cut;			/* number of dimensions kept after the activation; 0 = all */
	bool		mean;			/* PJ_MAXSIM: mean instead of sum */
	int			activation;		/* 0 = no, 1 = yes, -1 = default of the model's files */
	int32_t		step_tag;		/* PT_REWARD: only rows of this token; -1 = all */
	IntVec		columns;		/* PT_REWARD: columns of the vocabulary; empty = all; owned */
} PoolSpec;

void		poolspec_free(PoolSpec *p);

/* ---- events of a request ---- */
typedef enum ReqFinish
{
	FIN_NONE = 0, FIN_STOP, FIN_LENGTH, FIN_REPETITION, FIN_ABORT, FIN_ERROR
} ReqFinish;

typedef struct ReqEvent
{
	const int32_t *ids;			/* new output tokens, in order */
	int			n_ids;
	const char *text;			/* new text, ready to be shown (UTF-8, whole characters) */
	size_t		text_len;
	int			index;			/* index of the answer that the tokens belong to */
	ReqFinish	ended;			/* how that answer has ended; FIN_NONE = it has not */
	ReqFinish	finish;			/* FIN_NONE = more events follow; else the worst of the answers' ends */
	const char *stop_reason;	/* stop string or decimal token id; NULL = SQL NULL */
	const Err  *err;			/* FIN_ERROR */
	const Logprobs *logprobs;	/* of ids, if requested; else NULL */
	const Logprobs *prompt_logprobs;	/* sent with the first token, if requested; else NULL */
	/* sum over the answer so far, if log-probabilities are requested; of a beam */
	double		cum_logprob;
	bool		is_beam;		/* the request is a beam search */
	double		score;			/* beam search: the score by which hypotheses are ordered */
	const float *values;		/* pooled: [n_rows][width], with the finishing event; PT_LOGPROBS: one per
								 * scored token, of all sequences */
	int			n_rows;
	int			width;
	const int32_t *counts;		/* PT_LOGPROBS: [n_rows] scored tokens of each sequence */
	const int32_t *greedy;		/* PT_LOGPROBS: [n_rows] 1 = greedy decoding would have chosen each token */
	int			prompt_tokens, output_tokens, cached_tokens, preemptions;	/* totals over all answers */
	int			back_tokens;	/* part of cached_tokens that came from the offload tier */
	int			draft_tokens, accepted_tokens;	/* draft tokens verified and accepted, over all answers */
	int			reasoning_tokens;	/* part of output_tokens; -1 = not counted */
	int			longest;		/* output_tokens of the longest answer; 0 = there is only one answer */
	int64_t		arrival_us, scheduled_us, first_token_us, now_us;
} ReqEvent;

typedef struct Req Req;

/*
 * Receives a request's events.  The core calls it on the step thread or, with CoreOptions.overlap, on
 * the core's output thread; never after the finishing event.  It must not block.
 */
typedef void (*ReqSink) (void *ctx, Req *r, const ReqEvent *ev);

/* A pinned prefix (pinned_prefix.h). */
typedef struct PinInfo
{
	uint64_t	id;				/* unique in this process */
	uint64_t	owner;			/* ReqSpec.owner */
	uint32_t	role;
	char	   *lora;			/* an adapter's name; NULL = none */
	bool		salted;
	int			tokens;			/* tokens of its full blocks */
	int64_t		bytes;			/* bytes of their K and V */
	int64_t		since_us;		/* microseconds since 1970 */
} PinInfo;

/* The caller of a request, and the limits of its role (docs/user/scheduling.md). */
typedef struct Caller
{
	uint64_t	role;			/* the role whose share and limits count */
	int			weight;			/* weight of the role's share; 0 = ROLE_WEIGHT (role_account.h) */
	bool		background;		/* background work, which can wait */
	int			max_requests;	/* limit of requests in flight; 0 = none */
	int			tokens_per_minute;	/* 0 = no limit */
	int			max_tokens;		/* largest max_tokens of a request; 0 = no limit */
	int			wait_ms;		/* how long to wait for the first two limits; -1 = no limit, 0 = fail at
								 * once */
} Caller;

/*
 * A session with more requests than this in a model, now or in the last second, runs a large statement
 * and waits for the last of them.
 */
#define LATENCY_REQUESTS 8

/* How urgently a client waits for a request, or for any request of a core; later values are more urgent. */
typedef enum WorkClass
{
	WORK_NONE,
	WORK_BACKGROUND,			/* no client waits: jobs, vllm.background */
	WORK_THROUGHPUT,			/* a client waits for the last of many requests */
	WORK_LATENCY,				/* a client waits for this request */
	WORK_CLASSES
} WorkClass;

/*
 * Description of a request.  core_submit() moves all of it into the Req; from then on it is read-only,
 * and all threads may read it.  Each of several answers has a copy, but the memory belongs to the prompt
 * request.
 */
typedef struct ReqSpec
{
	uint64_t	session;		/* sessions of one role take turns; requests of a session are first come,
								 * first served */
	Caller		by;
	int64_t		deadline_us;	/* clock_us() when the request fails; 0 = none */
	int			timeout_ms;		/* timeout from the arrival of the request; 0 = none */
	uint64_t	id;				/* id chosen by the caller, unique */
	uint64_t	owner;			/* requests share K and V only with requests of the same owner; 0 = shared
								 * by all */
	uint32_t	role;			/* role that PinInfo reports for a prompt pinned by this request */
	bool		stream;			/* send events at once; else they may be delayed a little */
	/*
	 * owned; [prompt.len][ModelInfo.embed_width] finite rows that replace the prompt's tokens, of which
	 * then only the number matters; NULL = none
	 */
	float	   *embeds;
	GenParams	params;			/* owned */
	const LoraAdapter *lora;	/* must live until the finishing event; NULL = no adapter */
	ReqSink		sink;
	void	   *sink_ctx;

	/* owned; core_submit() moves these into other members of the Req, and leaves them empty */
	IntVec		prompt;			/* Req.tokens */
	/* becomes Req.constraint: the grammar of the output; NULL = none.  Call core_prepare_grammar() before */
	Grammar    *grammar;
	/*
	 * a literal: the grammar applies only after the output contains this text (MARK_GAP matches any
	 * text); NULL = it applies from the start
	 */
	const char *grammar_after;
	bool		grammar_may_end;	/* the output may end before grammar_after has appeared */
	ReasoningBudget *reasoning_budget;	/* Req.reasoning_budget: of a reasoning model; NULL = no budget is
										 * requested */
	PoolSpec	pool;			/* Req.pooled; replaces prompt and params */

	/* set by core_submit(): */
	int			priority;		/* lower runs earlier */
	uint64_t	seed;			/* the user's seed or a random one; each answer has its own */
	int64_t		arrival_us;
	int			n_prompt;		/* tokens of the prompt */
	WorkClass	work;			/* work_class.c */
} ReqSpec;

/* Usage of roles, over all cores (admission.h). */
typedef struct Accounts Accounts;

Accounts   *accounts_new(void);
void		accounts_free(Accounts *a);

/*
 * Blocks of the dummy sequence with which the core computes scales of K and V (fp8_scales.c).  A step of
 * this size must be possible whatever the model's length is.
 */
#define CORE_SAMPLE_BLOCKS	16

typedef struct CoreOptions
{
	const Kernels *kernels;		/* NULL = the best for this CPU, or the device's */
	KPool	   *pool;
	const Dev  *dev;			/* device of kernels and model; NULL = CPUs */
	int			max_num_seqs;	/* most sequences in a step */
	int			max_num_batched_tokens; /* most rows in a step (upper bound of the budget) */
	int			max_partial;	/* limit of partially computed prompts; 0 = none */
	int			max_long_partial;	/* limit of partially computed long prompts; 0 = one */
	/* a prompt with more tokens is long, and gets at most this many rows per step; 0 = no prompt is long */
	int			long_prompt;
	int			max_model_len;	/* 0 = the model's */
	int			block_size;		/* tokens */
	size_t		kv_bytes;		/* memory of the block pool */
	int			kv_blocks;		/* usable blocks; > 0 overrides kv_bytes (tests) */
	KType		kv_type;
	bool		no_windows;		/* layers with a window keep all tokens, too */
	int			kv_sample;		/* part of the blocks whose lifetimes are sampled, in millionths */
	bool		compute_kv_scales;	/* FP8: compute scales from a text on loading, even if the checkpoint
									 * has some */
	bool		never_runs;		/* another core will take over the weights: no step is run, not even on
								 * loading */
	HugePages	huge;			/* for the KV area */
	Profile    *profile;		/* collects where the time of steps goes; NULL = off */
	/*
	 * how much time other rows may add to a step in which latency work decodes (sched_plan.c); other
	 * steps may take several times as long; 0 = only the token budget limits a step
	 */
	int64_t		step_target_us;
	bool		priorities;		/* waiting requests are admitted by priority; else roles and sessions take
								 * turns */
	/* percent of the rows for background requests while others wait; 0 = none */
	int			background_share;
	int			max_logprobs;	/* largest logprobs of a request; LOGPROBS_ALL = no limit; 0 = LOGPROBS_MAX,
								 * LOGPROBS_ZERO = 0 */
	int64_t		max_entries;	/* limit of log-probabilities that a request collects; 0 =
								 * LOGPROB_MAX_ENTRIES */
	bool		return_logits;	/* return logits instead of log-probabilities */
	/* log-probabilities or logits of an answer's tokens are those after all sampling stages */
	bool		return_processed;
	bool		overlap;		/* make text and events on a thread of their own, in parallel to the next
								 * step */
	int			max_loras;		/* different adapters in a step; 0 = no limit */
	bool		prefix_caching; /* requests with the same prefix share its KV blocks */
	bool		no_jump;		/* run the model for each token, even if a grammar leaves no choice */
	Accounts   *accounts;		/* NULL: the core's own */
	struct KvTier *kv_tier;		/* offload tier for evicted blocks (offload.h); NULL = none */
	unsigned char kv_id[32];	/* hash of the weights, part of keys in the offload tier */
	const Plugins *plugins;		/* logits processors; NULL = none */
	SpecConfig	spec;			/* speculation, see also drafter */
	/*
	 * during opening: the device memory, whose remainder is for K and V (device_budget.h); NULL = use
	 * kv_bytes
	 */
	struct Budget *budget;
	struct RankModel *ranks;	/* other ranks that compute the model (ranks.h); NULL = none */
	struct Drafter *drafter;	/* owned; a method with weights; NULL = the method has none */
	bool		kv_always;		/* tests: always load blocks from the tier instead of computing them,
								 * whatever that costs */
	/* tests: force chunks of at most this many prompt rows; 0 = off */
	int			max_chunk;
	/* tests: called with the logits of each sampled row before sampling */
	void		(*tap) (void *ctx, const Req *r, int position, const float *logits, int n);
	void	   *tap_ctx;
} CoreOptions;

typedef struct Core Core;

/* Return the most rows of logits of a step: ModelOptions.max_out. */
int			core_max_logits(const CoreOptions *opt);

/* Takes ownership of model and tok (also on failure).  conf: for generation.* and EOS ids. */
Core	   *core_new(Model *model, Tok *tok, const Conf *conf, const CoreOptions *opt, Err *e);
void		core_free(Core *c);		/* first ends every live request with FIN_ABORT */

const ModelInfo *core_info(const Core *c);
const Model *core_model(const Core *c);

typedef struct CacheFacts
{
	int			block_size;		/* tokens; 0 = the model keeps no K and V */
	bool		prefix_caching;
	char		dtype[16];		/* e.g. f16 */
} CacheFacts;
void		core_cache_facts(const Core *c, CacheFacts *out);

const Tok  *core_tok(const Core *c);
int			core_max_model_len(const Core *c);
/* Limit the length of sequences to this many tokens; call it before the first request. */
void		core_cap_length(Core *c, int tokens);
/*
 * core_memory(): host memory of weights, KV cache, recurrent state, work space, and rows of logits and
 * hidden values.  core_work_memory(): the part of it, the work space, that a suspended core keeps.
 * core_rows_memory(): memory of the rows, for a core that does not exist yet.
 */
int64_t		core_memory(const Core *c);
int64_t		core_work_memory(const Core *c);
int64_t		core_rows_memory(const ModelInfo *info, const CoreOptions *o);

/*
 * Bits of `given`, set if the caller gave the parameter: GP(TOP_P) etc., by the rows of
 * request_fields.def.
 */
enum
{
#define FIELD(tag, ...) GP_BIT_##tag,
#define CALL_OPTION(...)
#include "ipc/request_fields.def"
#undef FIELD
#undef CALL_OPTION
	GP_BITS
};
_Static_assert(GP_BITS <= 64, "given");
#define GP(tag) (UINT64_C(1) << GP_BIT_##tag)

/*
 * Set a number that has its own row there and is in its range, in p and in *given.  Returns false if the
 * row has no member of its own in p.
 */
bool		genparams_number(GenParams *p, uint64_t *given, int tag, double v);

/*
 * Apply defaults and check the parameters (docs/user/sampling.md, "Defaults"): take those that `given`
 * lacks from generation_config, and check ranges against the vocabulary and the context length.  Errors:
 * ERR_INVALID (with the parameter's name in detail), ERR_TOO_LONG.
 */
bool		core_normalize(const Core *c, GenParams *p, uint64_t given, const IntVec *prompt, Err *e);
bool		priority_check(int priority, bool priorities, Err *e);
/* n_valid: ids of the vocabulary; max_logprobs: as in CoreOptions. */
bool		outparams_check(const OutParams *out, double temperature, int n_valid, int max_logprobs, Err *e);
void		genparams_init(GenParams *p);	/* sets built-in defaults */
LogitRules *genparams_rules(GenParams *p);	/* returns p->rules, which it makes if NULL */
/* Return "stop", "length" or "repetition" for a complete answer; else NULL. */
const char *finish_name(ReqFinish f);
/* Return true if the request was cancelled or timed out; err: read for FIN_ERROR only. */
bool		finish_cancelled(ReqFinish f, const Err *err);
void		genparams_free(GenParams *p);

/*
 * Prepare for requests with a grammar.  Any thread; the first call is slow.  ERR_UNSUPPORTED if the
 * tokenizer does not allow it.
 */
bool		core_prepare_grammar(Core *c, Err *e);

/* Check that the options agree with each other, for a model of this length. */
bool		core_check_options(const CoreOptions *o, int model_len, Err *e);
/*
 * Copy the embedding rows of token ids, [ModelInfo.embed_width] each, as in ReqSpec.embeds; any thread.
 * Returns the index of the first id that is not a token, n if all are.
 */
size_t		core_token_rows(const Core *c, const int32_t *ids, size_t n, float *out);

/* Thread-safe.  The handle stays valid until its finishing event has been sent. */
Req		   *core_submit(Core *c, ReqSpec *spec);	/* moves the content out of *spec */
void		core_cancel(Core *c, uint64_t id);	/* by ReqSpec.id; an unknown id is ignored; ends with
												 * FIN_ABORT */
/* Return the tokens of live requests: prompts plus the most that outputs may get; thread-safe. */
int64_t		core_live_tokens(const Core *c);

/*
 * Call fn(ctx) after each round of events, on the thread that calls the sinks.  Set it before the first
 * request.
 */
void		core_on_events(Core *c, void (*fn) (void *ctx), void *ctx);

/*
 * Call fn(ctx, between) now and then during a step, which may be long, on its thread.  between: the step
 * is between two operations on the CPUs, and fn may run steps of other cores before it returns; their
 * time does not count as this step's.
 */
void		core_on_progress(Core *c, void (*fn) (void *ctx, bool between), void *ctx);

/* Run one step; returns false if there was nothing to do. */
bool		core_step(Core *c);
bool		core_has_work(const Core *c);	/* thread-safe */

/* Return the most urgent class of the live requests; thread-safe. */
WorkClass	core_work_class(const Core *c);
/* Return when the next step is due: 0 = now, INT64_MAX = no work.  On the step thread. */
int64_t		core_next_due(const Core *c);

#define STEP_SIZES	14			/* sizes of at most 1, 8, 16, 32 ... 16384 tokens, and larger */
/* Return the index of the size of a step of n tokens. */
static inline int
step_size(int n)
{
	int			i = 0;

	while (i < STEP_SIZES - 1 && n > (i == 0 ? 1 : 4 << i))
		i++;
	return i;
}

/*
 * Compute nothing until core_resume(), but accept and cancel requests (core_suspend.c).  free_kv:
 * preempt running requests, clear the prefix cache, and return the memory of K and V to the system.  On
 * the step thread, between steps.
 */
void		core_suspend(Core *c, bool free_kv);
/* Returns false if a device lacks the memory that the core gave back; the core stays suspended. */
bool		core_resume(Core *c, Err *e);
/*
 * While suspended, on any thread: write the weights to a file in dir, and restore them.  *lost: the
 * weights are gone; else nothing has changed on an error.
 */
bool		core_save_weights(Core *c, const char *dir, bool *lost, Err *e);
bool		core_restore_weights(Core *c, Err *e);
/*
 * Step thread: drop the weights; take the weights of a core with the same files and options, which can
 * then only be freed.
 */
void		core_drop_weights(Core *c);
bool		core_swap_weights(Core *c, Core *from, Err *e);

/* Drop the KV blocks of ended requests.  On the step thread, between steps. */
void		core_reset_prefix_cache(Core *c);
/* Write computed blocks to the offload tier, as far as possible until the deadline (clock_us()). */
void		core_flush_kv_to_tier(Core *c, int64_t deadline_us);
/* List pinned prefixes, oldest first; unpin one (false: unknown id). */
void		core_pins(const Core *c, void (*emit) (void *ctx, const PinInfo *i), void *ctx);
bool		core_unpin(Core *c, uint64_t id);

typedef struct CoreStats
{
	union						/* running, waiting: sequences, that is, each answer of a request counts */
	{
		WireFigures fig;
		struct
		{
#define FIGURE(name, kind, metric, labels, help) int64_t name;
#include "ipc/metrics.def"
#undef FIGURE
		};
	};
	int64_t		step_sizes[STEP_SIZES]; /* number of steps by size */
	WireHist	kv_life[WIRE_N_KV_HISTS];	/* of a sample of blocks */
	int32_t		max_loras;		/* 0 until the first request with an adapter */
	/* names of adapters of running and of waiting requests, separated by commas */
	char		loras_running[WIRE_LORA_NAMES];
	char		loras_waiting[WIRE_LORA_NAMES];
} CoreStats;
/* Thread-safe snapshot.  Totals never decrease, except output_tokens and failed, see core_stats(). */
void		core_stats(const Core *c, CoreStats *out);

/*
 * Check every invariant of pool, scheduler and requests (ref counts, free list, block tables, counters).
 * On the step thread, between steps.  Returns false if one is broken: *e says which.  If no request is
 * live, all blocks must be free.
 */
bool		core_check(const Core *c, Err *e);

#endif
