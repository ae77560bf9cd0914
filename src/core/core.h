/*
 * core.h
 *	  The engine core: requests in, token events out, one step at a time.
 *
 * One Core per loaded model: model, tokenizer, block pool, scheduler.  All of it
 * is touched by the step thread alone, but for the thread-safe inbox (submit and
 * cancel).  A request is `computed` chasing `n_tokens`: there is no prefill and
 * no decode phase; chunked prefill, preemption by recompute,
 * prefix hits and speculation are the same subtraction.
 *
 * core_step():	plan -> forward -> sample -> commit -> emit		(core.c)
 *
 * Promise 3: a request's tokens and logits depend on nothing but the model, its
 * prompt and its parameters.  Everything below that could break this (row order,
 * chunk size, block ids, thread count, preemption) is under test in
 * tests/unit/core/test_invariance.c.
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

/* ---- how many answers, and what is told of their tokens (docs/user/outputs.md) ---- */
typedef struct OutParams
{
	int			n;				/* answers to one prompt, which is computed once */
	/* of an answer's tokens: LOGPROBS_NONE, LOGPROBS_ALL, or of how many of the likeliest */
	int			logprobs;
	int			prompt_logprobs;	/* the same for the prompt's tokens */
	bool		logits;			/* the core's: logits are told instead */
	IntVec		logprob_ids;	/* of just these tokens beside the answer's own; owned */
	int			beam_width;		/* 0: not a beam search */
	double		length_penalty;	/* a beam search's */
} OutParams;

/* ---- sampling parameters, normalised (docs/user/sampling.md) ---- */

/* The members that rows of request_fields.def make: of those whose reader is PARAM or MODEL_PARAM, by type */
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
	int32_t    *stop_ids;		/* owned; user's + (unless ignore_eos) the model's extra EOS ids */
	int			n_stop_ids;
	int32_t    *min_ids;		/* owned; all ids masked until min_tokens (EOS set and stop ids) */
	int			n_min_ids;
	OutParams	out;
	LogitRules *rules;			/* owned; NULL = logits stay as they are */
	int			repeat_max;		/* repetition_detection: the longest pattern; 0 = off */
	int			repeat_min;		/* repetition_detection: the shortest pattern */
	int			repeat_count;	/* so many of it end the answer */
	bool		tight_special;	/* no space between special tokens: not spaces_between_special_tokens */
	char	   *extra_args;		/* owned; a json object for logits processors; NULL = none */
	/* the prompt stays computed (1), or no longer (-1); there is no answer to speak of */
	int			pin;
	/* owned; K and V are shared among requests of the same salt only; NULL = none */
	char	   *cache_salt;
	uint32_t	plugins;		/* which of these take part: CoreOptions.plugins */
} GenParams;

/* ---- pooling: vectors, scores, log-probabilities instead of an answer ---- */

/* One of a pooled request's sequences. */
typedef struct PoolSeq
{
	IntVec		ids;			/* owned */
	/* from this token on they are of type 1: a pair's second text; INT_MAX = none */
	int			type1_at;
	int			skip;			/* its first tokens are not pooled: an instruction's */
	int			seen_to;		/* tokens from this one on see the others, but nobody sees them; 0 = none */
	IntVec		dropped;		/* token by token: rows that are not wanted, ascending; owned */
	int			scored_at;		/* PT_LOGPROBS: the first token whose log-probability is wanted: >= 1, or 0
								 * behind PoolSpec.prompt */
} PoolSeq;

/* What the sequences' vectors become. */
typedef enum PoolJoin
{
	PJ_ONE,						/* there is but one sequence */
	/* of one text: their mean, weighted by tokens; token by token: side by side */
	PJ_CHUNKS,
	PJ_COSINE,					/* of two */
	/* of two texts' token vectors: sum over the first's of the greatest product */
	PJ_MAXSIM,
	PJ_CHOICES					/* PT_LOGPROBS: continuations of one prompt, which is computed once */
} PoolJoin;

typedef struct PoolSpec
{
	PoolTask	task;			/* PT_NONE: not a pooled request */
	PoolJoin	join;
	int			n_seqs;
	PoolSeq    *seqs;			/* owned */
	IntVec		prompt;			/* PJ_CHOICES: what all sequences begin with; not in their ids; owned */
	int			dimensions;		/* 0 = all */
	int			cut;			/* behind the activation so many are left; 0 = all */
	bool		mean;			/* PJ_MAXSIM: not the sum, but the mean */
	int			activation;		/* 0 no, 1 yes, -1 as the model's files say */
	int32_t		step_tag;		/* PT_REWARD: rows of this token only; -1 = all */
	IntVec		columns;		/* PT_REWARD: of the vocabulary; empty = all; owned */
} PoolSpec;

void		poolspec_free(PoolSpec *p);

/* ---- what a request tells its owner ---- */
typedef enum ReqFinish
{
	FIN_NONE = 0, FIN_STOP, FIN_LENGTH, FIN_REPETITION, FIN_ABORT, FIN_ERROR
} ReqFinish;

typedef struct ReqEvent
{
	const int32_t *ids;			/* new output tokens, in order */
	int			n_ids;
	const char *text;			/* new text that may be shown (UTF-8, whole characters) */
	size_t		text_len;
	int			index;			/* which of the request's answers the tokens belong to */
	ReqFinish	ended;			/* how that answer has ended; FIN_NONE: it goes on */
	ReqFinish	finish;			/* FIN_NONE: more to come; else the worst of the answers' ends */
	const char *stop_reason;	/* stop string or decimal token id; NULL = SQL NULL */
	const Err  *err;			/* FIN_ERROR */
	const Logprobs *logprobs;	/* of ids, if wanted; else NULL */
	const Logprobs *prompt_logprobs;	/* with the first token, if wanted; else NULL */
	double		cum_logprob;	/* of the answer so far, if log-probabilities are wanted; a beam's */
	bool		is_beam;		/* of a beam search, */
	double		score;			/* of a beam search: the score that orders its hypotheses */
	const float *values;		/* pooled: [n_rows][width], with the finishing event; PT_LOGPROBS: one per
								 * scored token, sequence after sequence */
	int			n_rows;
	int			width;
	const int32_t *counts;		/* PT_LOGPROBS: [n_rows] scored tokens of each sequence */
	const int32_t *greedy;		/* PT_LOGPROBS: [n_rows] 1 = each token was the likeliest */
	int			prompt_tokens, output_tokens, cached_tokens, preemptions;	/* of all answers */
	int			back_tokens;	/* of cached_tokens: from the offload tier */
	int			draft_tokens, accepted_tokens;	/* draft tokens of all answers, and the accepted ones */
	int			reasoning_tokens;	/* of output_tokens; -1 = nobody has counted */
	int			longest;		/* output_tokens of the longest answer; 0: there is one answer */
	int64_t		arrival_us, scheduled_us, first_token_us, now_us;
} ReqEvent;

typedef struct Req Req;

/* Called on the step thread, or with CoreOptions.overlap on the core's output thread; never after
 * the finishing event.  Must not block. */
typedef void (*ReqSink) (void *ctx, Req *r, const ReqEvent *ev);

/* A prompt that stays computed (pinned_prefix.h). */
typedef struct PinInfo
{
	uint64_t	id;				/* of this process */
	uint64_t	owner;			/* ReqSpec.owner */
	uint32_t	role;
	char	   *lora;			/* an adapter's name; NULL = none */
	bool		salted;
	int			tokens;			/* of its full blocks */
	int64_t		bytes;			/* their K and V */
	int64_t		since_us;		/* since 1970 */
} PinInfo;

/* The caller and the limits of its role (docs/user/scheduling.md). */
typedef struct Caller
{
	uint64_t	role;			/* fair shares and limits are its */
	int			weight;			/* of its share; 0 = ROLE_WEIGHT (role_account.h) */
	bool		background;		/* it can wait */
	int			max_requests;	/* in flight; 0 = any number */
	int			tokens_per_minute;	/* 0 = any number */
	int			max_tokens;		/* most that a request may ask for; 0 = any number */
	int			wait_ms;		/* for the first two; -1 = as long as it takes, 0 = an error at once */
} Caller;

/* A session that has, or had in the last second, more requests in a model waits for the last of them. */
#define LATENCY_REQUESTS 8

/* Of a request, or of all that a core has: who waits for it?  In the order of how soon. */
typedef enum WorkClass
{
	WORK_NONE,
	WORK_BACKGROUND,			/* nobody: jobs, vllm.background */
	WORK_THROUGHPUT,			/* somebody, for the last of many */
	WORK_LATENCY,				/* somebody, for this one */
	WORK_CLASSES
} WorkClass;

/*
 * What is asked for.  core_submit() takes all of it over into the Req; from then on all threads read it, and
 * nobody writes.  One of several answers has a copy, but what is owned is the prompt request's.
 */
typedef struct ReqSpec
{
	uint64_t	session;		/* of one role: in turn, FCFS within one */
	Caller		by;
	int64_t		deadline_us;	/* clock_us(): it fails then; 0 = none */
	int			timeout_ms;		/* timeout in ms from the arrival of the request; 0 = none */
	uint64_t	id;				/* caller's name for it; with generation: unique */
	uint64_t	owner;			/* K and V are shared among requests of one owner only; 0 = everybody's */
	uint32_t	role;			/* who is told as whom has pinned it */
	bool		stream;			/* events are wanted at once; else they may come a little late */
	/*
	 * owned; [prompt.len][ModelInfo.embed_width] finite rows that stand for the prompt's tokens, of
	 * which only the number counts; NULL = none
	 */
	float	   *embeds;
	GenParams	params;			/* owned */
	const LoraAdapter *lora;	/* lives until the finishing event; NULL = the model alone */
	ReqSink		sink;
	void	   *sink_ctx;

	/* owned; core_submit() makes other members of the Req of these, and leaves them empty */
	IntVec		prompt;			/* Req.tokens */
	/* Req.constraint: what the output must look like; NULL = anything.  After core_prepare_grammar() */
	Grammar    *grammar;
	/*
	 * a literal: the output is free until it has this text (MARK_GAP: and anything between); NULL = it isn't
	 */
	const char *grammar_after;
	bool		grammar_may_end;	/* it may end before that */
	ReasoningBudget *reasoning_budget;	/* Req.reasoning_budget: of a model that thinks; NULL = nobody asks */
	PoolSpec	pool;			/* Req.pooled; instead of prompt and params */

	/* core_submit()'s */
	int			priority;		/* the lower, the sooner */
	uint64_t	seed;			/* the user's, or drawn; an answer's own */
	int64_t		arrival_us;
	int			n_prompt;		/* tokens */
	WorkClass	work;			/* work_class.c */
} ReqSpec;

/* What roles have taken, over all cores (admission.h). */
typedef struct Accounts Accounts;

Accounts   *accounts_new(void);
void		accounts_free(Accounts *a);

/*
 * Blocks of a sequence that the core makes up to compute scales of K and V (fp8_scales.c): there are steps
 * of so many, whatever a model's length is.
 */
#define CORE_SAMPLE_BLOCKS	16

typedef struct CoreOptions
{
	const Kernels *kernels;		/* NULL = the CPU's best, or the device's */
	KPool	   *pool;
	const Dev  *dev;			/* what these compute on, the model's, too; NULL = CPUs */
	int			max_num_seqs;	/* most sequences in a step */
	int			max_num_batched_tokens; /* most rows in a step (upper bound of the budget) */
	int			max_partial;	/* most prompts that are computed in part; 0 = any number */
	int			max_long_partial;	/* most long prompts that are computed in part; 0 = one */
	/* a prompt of more tokens is long, and gets at most so many rows of a step; 0 = none is */
	int			long_prompt;
	int			max_model_len;	/* 0 = the model's */
	int			block_size;		/* tokens */
	size_t		kv_bytes;		/* for the block pool */
	int			kv_blocks;		/* usable blocks; > 0 overrides kv_bytes (tests) */
	KType		kv_type;
	bool		no_windows;		/* what layers with windows see no more is kept nevertheless */
	int			kv_sample;		/* blocks whose lives are told of, in millionths */
	bool		compute_kv_scales;	/* FP8: from a text, on loading, whatever the checkpoint has */
	bool		never_runs;		/* another one takes over the weights: no step is made, not even on loading */
	HugePages	huge;			/* for the KV */
	Profile    *profile;		/* where the time of steps goes; NULL = not wanted */
	/*
	 * how much longer other rows may make a step in which latency work decodes (sched_plan.c); other steps
	 * are several times as long; 0 = the budget alone
	 */
	int64_t		step_target_us;
	bool		priorities;		/* who waits is admitted by priority; else in turn over roles and sessions */
	/* percent that requests in the background get while others wait; 0 = none */
	int			background_share;
	int			max_logprobs;	/* most that a request may ask for; LOGPROBS_ALL: no limit; 0 = LOGPROBS_MAX,
								 * LOGPROBS_ZERO = 0 */
	int64_t		max_entries;	/* log-probabilities that a request may gather; 0 = LOGPROB_MAX_ENTRIES */
	bool		tell_logits;	/* they are told instead of log-probabilities */
	/* an answer's tokens: log-probabilities or logits after all sampling stages */
	bool		tell_processed;
	bool		overlap;		/* text and events on a thread of their own, beside the next step */
	int			max_loras;		/* different adapters in a step; 0 = no limit */
	bool		prefix_caching; /* requests that begin alike share what has been computed */
	bool		no_jump;		/* ask the model for each token, even where a grammar leaves no choice */
	Accounts   *accounts;		/* NULL: the core's own */
	struct KvTier *kv_tier;		/* where blocks go that are overwritten (offload.h); NULL = nowhere */
	unsigned char kv_id[32];	/* hash of the weights, part of keys in the offload tier */
	const Plugins *plugins;		/* logits processors; NULL = none */
	SpecConfig	spec;			/* how to speculate, */
	/* while it opens: dev's memory, of which the KV gets what is left (device_budget.h); NULL = kv_bytes */
	struct Budget *budget;
	struct RankModel *ranks;	/* who computes it, too (ranks.h); NULL = nobody */
	struct Drafter *drafter;	/* computes drafts; owned; NULL = a method without weights */
	bool		kv_always;		/* tests: what the tier has is never computed again, whatever that costs */
	/* tests: force chunks of at most this many prompt rows; 0 = off */
	int			max_chunk;
	/* tests: called with every sampled row's logits before sampling */
	void		(*tap) (void *ctx, const Req *r, int position, const float *logits, int n);
	void	   *tap_ctx;
} CoreOptions;

typedef struct Core Core;

/* How many rows of logits a step may have: ModelOptions.max_out. */
int			core_max_logits(const CoreOptions *opt);

/* Takes over model and tok (also on failure).  conf: for generation.* and EOS ids. */
Core	   *core_new(Model *model, Tok *tok, const Conf *conf, const CoreOptions *opt, Err *e);
void		core_free(Core *c);		/* every live request ends with FIN_ABORT first */

const ModelInfo *core_info(const Core *c);
const Model *core_model(const Core *c);

typedef struct CacheFacts
{
	int			block_size;		/* tokens; 0 = no K and V are kept */
	bool		prefix_caching;
	char		dtype[16];		/* f16 and so on */
} CacheFacts;
void		core_cache_facts(const Core *c, CacheFacts *out);

const Tok  *core_tok(const Core *c);
int			core_max_model_len(const Core *c);
/* Sequences may have so many tokens at most, if they might have more; before there are any. */
void		core_cap_length(Core *c, int tokens);
/*
 * Weights, KV cache, recurrent state, work space, and rows of logits and their like, as far as they are the
 * host's; of this the work space, which stays while it rests; the rows of a core that is not there yet.
 */
int64_t		core_memory(const Core *c);
int64_t		core_work_memory(const Core *c);
int64_t		core_rows_memory(const ModelInfo *info, const CoreOptions *o);

/* Bits of `given`: the caller set it.  GP(TOP_P) and so on, by the rows of request_fields.def */
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
 * A number that has its own row there, and is in its range: into p, and *given.  false: it is not in p by
 * itself
 */
bool		genparams_number(GenParams *p, uint64_t *given, int tag, double v);

/*
 * Defaults and model checks (docs/user/sampling.md, "Defaults"): fill what `given` lacks from
 * generation_config, check ranges against the vocabulary and the context length.
 * Errors: ERR_INVALID (with the parameter's name in detail), ERR_TOO_LONG.
 */
bool		core_normalize(const Core *c, GenParams *p, uint64_t given, const IntVec *prompt, Err *e);
bool		priority_check(int priority, bool priorities, Err *e);
/* n_valid: ids of the vocabulary; max_logprobs: CoreOptions'. */
bool		outparams_check(const OutParams *out, double temperature, int n_valid, int max_logprobs, Err *e);
void		genparams_init(GenParams *p);	/* hard defaults */
LogitRules *genparams_rules(GenParams *p);	/* p->rules, made if it is NULL */
/* "stop", "length", "repetition" of an answer that is whole; else NULL */
const char *finish_name(ReqFinish f);
/* Somebody has cancelled it, or its time was over; err: of FIN_ERROR, else ignored. */
bool		finish_cancelled(ReqFinish f, const Err *err);
void		genparams_free(GenParams *p);

/*
 * Be ready for requests with a grammar.  Any thread; slow the first time.  ERR_UNSUPPORTED: not with
 * this tokenizer.
 */
bool		core_prepare_grammar(Core *c, Err *e);

/* Do these agree with each other, for a model of this length? */
bool		core_check_options(const CoreOptions *o, int model_len, Err *e);
/*
 * Tokens' rows of the embedding, [ModelInfo.embed_width], as ReqSpec.embeds has them; any thread.  The first
 * of them that there is no token of, n = all are there.
 */
size_t		core_token_rows(const Core *c, const int32_t *ids, size_t n, float *out);

/* Thread-safe.  The handle stays valid until its finishing event has been sent. */
Req		   *core_submit(Core *c, ReqSpec *spec);	/* takes over *spec, which is empty then */
void		core_cancel(Core *c, uint64_t id);	/* by ReqSpec.id; unknown = no-op; ends with FIN_ABORT */
/* Tokens of live requests: prompts, and what answers may get at most; thread-safe. */
int64_t		core_live_tokens(const Core *c);

/* fn(ctx) after each round of events, on the thread that calls the sinks; before the first request. */
void		core_on_events(Core *c, void (*fn) (void *ctx), void *ctx);

/*
 * fn(ctx, between) now and then on the way of a step, which may be long, on its thread.  between: it is
 * between two operations on the CPUs; fn may make steps of other cores before it goes on, whose time is not
 * counted as this step's.
 */
void		core_on_progress(Core *c, void (*fn) (void *ctx, bool between), void *ctx);

/* Run one step; false if there was nothing to do. */
bool		core_step(Core *c);
bool		core_has_work(const Core *c);	/* thread-safe */

/* The most urgent of its live requests; thread-safe. */
WorkClass	core_work_class(const Core *c);
/* When the next step is due: 0 = now, INT64_MAX = there is no work.  On the step thread. */
int64_t		core_next_due(const Core *c);

#define STEP_SIZES	14			/* at most 1, 8, 16, 32 ... 16384 tokens, or more */
/* Which of them is a step of n tokens? */
static inline int
step_size(int n)
{
	int			i = 0;

	while (i < STEP_SIZES - 1 && n > (i == 0 ? 1 : 4 << i))
		i++;
	return i;
}

/*
 * Compute nothing until core_resume(), but take in requests and cancel them (core_suspend.c).  free_kv:
 * those that run are preempted, nothing of the prefix cache is left, and the memory of K and V goes back to
 * the system.  On the step thread, between steps.
 */
void		core_suspend(Core *c, bool free_kv);
/* false: a device has no memory for what it gave back; it rests on */
bool		core_resume(Core *c, Err *e);
/*
 * While it rests, on any thread: weights to a file in dir, and back.  *lost: they are forgotten, else on an
 * error nothing has changed.
 */
bool		core_save_weights(Core *c, const char *dir, bool *lost, Err *e);
bool		core_restore_weights(Core *c, Err *e);
/*
 * Step thread: drops the weights and takes those of a core of the same files and options, which then can
 * only be freed.
 */
void		core_drop_weights(Core *c);
bool		core_swap_weights(Core *c, Core *from, Err *e);

/* Forget what was computed for requests that are gone.  On the step thread, between steps. */
void		core_reset_prefix_cache(Core *c);
/* What has been computed goes to the tier behind the KV cache, as far as can be until then (clock_us()). */
void		core_flush_kv_to_tier(Core *c, int64_t deadline_us);
/* What is pinned, the oldest first; give one up (false: there is none of this number). */
void		core_pins(const Core *c, void (*tell) (void *ctx, const PinInfo *i), void *ctx);
bool		core_unpin(Core *c, uint64_t id);

typedef struct CoreStats
{
	union						/* running, waiting: sequences, each of a request's answers counts */
	{
		WireFigures fig;
		struct
		{
#define FIGURE(name, kind, metric, labels, help) int64_t name;
#include "ipc/metrics.def"
#undef FIGURE
		};
	};
	int64_t		step_sizes[STEP_SIZES]; /* how many steps were that large */
	WireHist	kv_life[WIRE_N_KV_HISTS];	/* of a sample of blocks */
	int32_t		max_loras;		/* 0 until a request has an adapter */
	/* adapters of requests that run, and that wait: names, a comma between two */
	char		loras_running[WIRE_LORA_NAMES];
	char		loras_waiting[WIRE_LORA_NAMES];
} CoreStats;
/* thread-safe snapshot; totals only grow, but for output_tokens and failed, see core_stats() */
void		core_stats(const Core *c, CoreStats *out);

/*
 * Check every invariant of pool, scheduler and requests (ref counts, free list,
 * block tables, counters).  On the step thread, between steps.  false: *e says
 * which is broken.  When no request is live, all blocks must be free.
 */
bool		core_check(const Core *c, Err *e);

#endif
