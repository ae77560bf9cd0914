/*
 * core_internal.h
 *	  Shared by the modules of the core: requests, plans, and the modules' entry points.
 *
 * The step thread owns a Req from the moment it leaves the inbox.  A Req is in exactly one place: the
 * inbox, a gate, a waiting queue (its session's, or the one of preempted requests or of continuations),
 * the running list, or the list of held requests.
 */
#ifndef VLLM_CORE_CORE_INTERNAL_H
#define VLLM_CORE_CORE_INTERNAL_H

#include "core/core.h"
#include "core/sched/fair_queue.h"
#include "base/id_map.h"
#include "core/kv/block_pool.h"
#include "core/kv/prefix_index.h"
#include "tokenizer/detokenizer.h"
#include "text/stop_strings.h"

/* ---- requests ---- */
/* Whether and how a token ends an answer. */
typedef struct OutResult
{
	ReqFinish	finish;
	const char *reason;			/* stop string, decimal id or NULL; valid as long as the request */
	bool		is_text;		/* FIN_STOP by a token whose text is nevertheless part of the answer */
} OutResult;

/*
 * A pooled request: for the scheduler each of its sequences is a Req of its own.  The first Req
 * represents the request: it has the request's id, owns this struct, and emits the end, once the last
 * sequence has ended.  See pooling_run.c.
 *
 * PJ_CHOICES: the first Req is the prompt, whose last row gives the log-probability of each choice's
 * first token.  Choices of more tokens are forks of it, and are scheduled when the prompt is computed.
 */
typedef struct Pooled
{
	PoolSpec	spec;
	Req		  **reqs;			/* [n_reqs] */
	int			n_reqs;
	int			n_left;			/* sequences that have not ended */
	ReqFinish	finish;			/* the worst of the sequences' ends */
	Err			err;			/* FIN_ERROR */
	int			n_tokens;		/* of all sequences; a shared prompt counts once */
	PoolAct		act;
	bool		by_token;		/* each token's row is a result of its own */
	bool		unit;			/* each token's row is normalized to length 1 */
	int			width;
	/* for each sequence: */
	float	  **values;			/* [n_rows][width], set from its last step on */
	int		   *n_rows;
	int32_t    *greedy;			/* for PT_LOGPROBS */
} Pooled;

/*
 * A request of several answers.  Its first Req is the prompt request: it computes the prompt, has the
 * request's id, and gives no answer itself.  The answers are its forks, and each begins with a first
 * token of its own; those of a beam search are forked again.  See sequence_group.c, beam_search.c.  The
 * prompt request owns the group, with all its Reqs, until the last event has been sent.
 */
typedef struct Beam Beam;

typedef struct Group
{
	Req		   *prompt_request;
	Req		  **answers;		/* [n]; NULL for a beam search */
	int			n;
	Beam	   *beam;			/* NULL = n answers */
	/* used by the step thread */
	int			n_left;			/* answers, or scheduled beams, that have not ended */
	ReqFinish	failed;			/* of a beam search: FIN_ABORT or FIN_ERROR */
	Err			err;
	/* used by the output thread */
	int			n_emitted;		/* answers whose end has been emitted */
	int			n_output;		/* tokens of all answers */
	int			longest;		/* tokens of the longest answer */
	int			n_thought;		/* reasoning tokens of all answers */
	int			preemptions;
	int			draft_tokens, accepted_tokens;
	ReqFinish	finish;			/* the worst of the answers' ends */
	Err			emitted_err;
} Group;

typedef enum ReqState
{
	RQ_NEW = 0,					/* in the inbox */
	RQ_DEFERRED,				/* at the gate */
	RQ_WAITING,					/* in its session's queue */
	RQ_PREEMPTED,				/* in the queue of preempted requests */
	RQ_CONTINUATION,			/* queued as the continuation of a preempted or forked request */
	RQ_RUNNING,
	RQ_HELD,					/* computed; keeps its blocks until its forks have taken them over */
	RQ_REMOVED					/* removed from the scheduler; about to finish */
} ReqState;

/* spec.h */
typedef struct SpecReq SpecReq;
/* offload.h */
typedef struct Offload Offload;
typedef struct OffloadWait OffloadWait;
typedef struct OffloadKey
{
	unsigned char b[32];
} OffloadKey;

/* admission.c */
/* work_class.c */
typedef struct SessionCount SessionCount;
typedef struct Account Account;
typedef struct Admission Admission;

/* guided_decoding.c */
typedef struct Constraint Constraint;
typedef struct Constraints Constraints;

/* Which of a pooled request's sequences this is, and which of its rows are wanted; constant. */
typedef struct ReqSeq
{
	int			index;			/* -1: PoolSpec.prompt */
	int			type1_at;		/* PoolSeq.type1_at */
	int			seen_to;		/* PoolSeq.seen_to */
	bool		whole;			/* all its rows go into one step */
	int			out_from;		/* first wanted row */
	int			out_to;			/* row after the last wanted one; 0 = all rows */
} ReqSeq;

/* State of the request at the gate and in the scheduler; used by the step thread. */
typedef struct ReqSched
{
	ReqState	state;
	bool		cancelled;		/* was cancelled or found a stop string; ends at the step boundary */
	bool		stopped;		/* it found a stop string */
	Account    *account;		/* admission.c: counts among its role's requests in flight; NULL = does not */
	int			admission_tokens;	/* tokens of its prompts */
	int64_t		admission_until_us; /* the gate refuses it then; 0 = no limit */
	int64_t		weight;			/* tokens that core_live_tokens() counts for it */
	bool		late;			/* it is past its deadline, or has waited too long at the gate */
	/* admission.c, sched_queue.c: its leaf in a fair queue; NULL before and after */
	Fair	   *line;
	Req		   *prev;			/* neighbours in a waiting queue, or in the list of held requests */
	Req		   *next;
	bool		is_long;		/* its prompt was long when it was admitted (SchedOptions.long_prompt) */
	bool		yields;			/* background and never preempted: comes after the other requests in all
								 * orders */
	int			passed;			/* number of requests that passed it while there was no place for its
								 * adapter */
	int			passed_alike;	/* number of requests that passed it because of a common prefix with an
								 * earlier one */
	uint64_t	admit_no;		/* order of first admission; 0 = not yet admitted */
	bool		taken;			/* scratch of sched_roles.c: to be preempted for another request */
	int			plan_at;		/* index of its entry in the current plan, -1 = none */
	/* the request whose tokens it begins with, until it is admitted; NULL = not a fork */
	Req		   *parent;
	int			n_forks;		/* forks that have this request as parent */
	int			preemptions;
	int64_t		scheduled_us;	/* time of the first admission, 0 = not yet */
	int64_t		first_token_us;
} ReqSched;

/* What is computed of the request, and where; used by the step thread. */
typedef struct ReqKv
{
	int			computed;		/* tokens whose K/V are in the blocks; at most Req.tokens.len */
	IntVec		blocks;			/* block table, append-only while running */
	int			w_from;			/* index of the first block whose window it holds (block_pool.h) */
	int			slot;			/* slot of its recurrent state while it runs; -1 = none */
	/* prefix_cache.c */
	bool		shares;			/* other requests may use the blocks that it computes */
	uint64_t	root;			/* hash that its first block is chained to (prefix_index.h) */
	uint64_t	chain;			/* hash of the chain after n_noted blocks */
	int			n_noted;		/* number of its blocks that the prefix index has */
	int			cached;			/* tokens that it found computed before its first preemption */
	/* offload.c; unused without a tier */
	OffloadKey	root_key;		/* like root, for keys of the tier */
	OffloadKey	key;			/* like chain */
	OffloadWait *wait;			/* blocks being loaded for it; NULL = none */
	int64_t		wait_until_us;	/* end of its wait for them; 0 = it has never waited */
	int			back_to;		/* this many of its tokens are loaded, or known to be missing in the tier */
	int			back;			/* tokens loaded before its first preemption */
	bool		searched;		/* the tier has been searched for its blocks */
} ReqKv;

/* Output of the request (stop_check.c); output_queue.c says which thread may use it when. */
typedef struct ReqOutput
{
	Detok	   *detok;			/* NULL if no text is wanted */
	Stop	   *stop;			/* NULL = no stop strings */
	Buf			text;			/* text of the next event */
	Buf			piece;			/* scratch: the detokenizer's text, to be searched for stop strings */
	bool		urgent;			/* tokens are sent with their step */
	bool		ended;			/* a stop string was found; `end` and `end_output` are set */
	OutResult	end;
	int			end_output;		/* output tokens up to the stop string */
	/* a beam's is used by the step thread; else by the output thread, for the tokens sent */
	double		cum_logprob;
	int			n_emitted;		/* output tokens sent; used by the output thread */
	int			n_thought;		/* reasoning tokens sent; used by the output thread */
	Logprobs   *prompt_lp;		/* log-probabilities of the prompt so far; NULL = not wanted, or already
								 * handed to the output */
	int64_t		n_entries;		/* log-probabilities collected, over all answers; of the prompt request */
	Logprobs   *token_lp;		/* of the token just sampled, until it is handed to the output; NULL = not
								 * wanted */
} ReqOutput;

/*
 * A request, or one of its answers: its description, the parts by owner, and what the step thread
 * generates.
 */
struct Req
{
	ReqSpec		in;
	ReqSched	sched;
	ReqKv		kv;
	ReqOutput	out;

	IntVec		tokens;			/* prompt, then output */
	Constraint *constraint;		/* grammar that its output must match; NULL = none */
	ReasoningBudget *reasoning_budget;	/* limits its reasoning tokens; NULL = no limit, and not counted */
	TokenCounts *counts;		/* for penalties; used by the step thread and its sampler */
	PluginSeat	seat;			/* its place among the logits processors */
	SpecReq    *spec;			/* its drafts; NULL = none so far */
	int			draft_tokens, accepted_tokens;
	char		reason[16];		/* decimal id of the stop token */
	/* of one of several answers, or of their prompt request: */
	SessionCount *session_count;	/* work_class.c; of a request's first Req, while it counts */
	Group	   *group;			/* NULL = it is the only answer */
	int			index;			/* index of the answer */
	/* of a pooled request: */
	Pooled	   *pooled;			/* NULL = it generates */
	ReqSeq		seq;
	float	   *sum;			/* what the poolers have computed from the rows so far; NULL before the
								 * first */
};

static inline int
req_todo(const Req *r)
{
	return (int) r->tokens.len - r->kv.computed;
}

static inline int
req_n_output(const Req *r)
{
	return (int) r->tokens.len - r->in.n_prompt;
}

/* ---- plan: what one step computes ---- */
typedef struct PlanEntry
{
	Req		   *r;
	int			n;				/* rows: tokens computed .. computed + n - 1, drafts included */
	/* the last row reaches the end: logits of the last token and of the drafts are computed */
	bool		sample;
	int			n_drafts;		/* number of rows that are drafts, which follow its tokens */
	int			draft_at;		/* index of the first draft token in r->spec's drafts */
	int			logits_at;		/* its first row in the step's logits */
	int			out_at;			/* pooled: its first wanted row, relative to its first row */
	int			n_out;			/* pooled: number of wanted rows from out_at on */
} PlanEntry;

/* Return the rows of logits of an entry. */
static inline int
plan_logits(const PlanEntry *pe)
{
	return pe->sample ? 1 + pe->n_drafts : 0;
}

/* Copy a page of a parent's last block, which is not full, to the fork's own block. */
typedef struct BlockCopy
{
	int32_t		from;
	int32_t		to;
} BlockCopy;

typedef struct Plan
{
	int			n;				/* entries, each one sequence of the step */
	PlanEntry  *e;				/* [max_seqs] */
	int			n_rows;
	int			n_sample;		/* rows of logits */
	bool		pools;			/* some entries are pooled, so hidden rows are wanted */
	int			n_copies;		/* copies to be made before the step, in this order */
	BlockCopy  *copies;			/* [max_seqs * pages of a block] pages to copy */
	int			n_preempted;	/* requests that this plan preempted */
	double		units;			/* predicted work, see step_time.c */
} Plan;

/* ---- step_time.c: prediction of a step's time ---- */
#define COST_BUCKETS 24

typedef struct Cost
{
	double		attn_weight;	/* units per (row, key): a row at position p is 1 + p * weight */
	double		units[COST_BUCKETS];	/* size of the steps seen, by log2 of units; 0 = none */
	double		us[COST_BUCKETS];	/* time of these steps */
} Cost;

double		cost_units(const Cost *c, int pos, int n);
double		cost_predict(const Cost *c, double units);
void		cost_learn(Cost *c, double units, double us);
/* Return the most rows from position pos on (at most n) for which the step stays within target_us. */
int			cost_rows(const Cost *c, double units, int pos, int n, double target_us);
/* Return the least time that a unit has taken; 0 = unknown. */
double		cost_rate(const Cost *c);

/* ---- prefix_cache.c: requests with the same prefix share blocks ---- */
typedef struct PrefixCache
{
	Prefix	   *prefix;			/* NULL = nothing is shared */
	KvPool	   *pool;
	int			block_size;
	int			window;			/* tokens that layers with a window see; 0 = no layer has one */
	struct KvLife *life;		/* samples the lifetimes of blocks; NULL = off */
	Offload    *offload;		/* offload tier for evicted blocks; NULL = none */
} PrefixCache;

/* Which of a request's tokens are computed already. */
typedef struct PrefixHit
{
	int			tokens;			/* number of tokens, including its own */
	int			n_blocks;		/* full blocks of other requests that hold them */
	int			n_idle;			/* blocks among these that are on the free list */
	int			n_windows;		/* blocks among these whose windows are needed, too */
	int			n_idle_windows;	/* windows among these that are idle, at most */
	int32_t		copied;			/* block whose beginning is copied for the remaining tokens; 0 = none */
} PrefixHit;

/* Return true if requests of such a model can share what they compute. */
bool		prefix_cache_supported(const ModelInfo *info);
/* Decide which requests r, a new one, shares with (p NULL = none); forks inherit that from their parents. */
void		prefix_cache_attach(const Prefix *p, Req *r);
/* Return the prompt tokens that were found computed; summed over the sequences of a pooled request. */
int			prefix_cache_hit_tokens(const Req *r);
/* Return the prompt tokens that came from the offload tier, at most. */
int			prefix_cache_tokens_from_tier(const Req *r);
/* r has computed `upto` tokens, or computes them in the current plan (pending). */
void		prefix_cache_mark_computed(PrefixCache *s, Req *r, int upto, bool pending);
/* Release r's blocks, after noting their content for other requests. */
void		prefix_cache_release(PrefixCache *s, Req *r);
/* Release r's last block, which holds no tokens. */
void		prefix_cache_drop_last(PrefixCache *s, Req *r);
/* Release the windows of r's blocks that rows from `computed` on do not see. */
void		prefix_cache_trim(PrefixCache *s, Req *r);
/* Copy the content of block `from` to block `to` before the step is computed. */
void		prefix_cache_copy(const PrefixCache *s, int32_t from, int32_t to, Plan *plan);
/* Like kvpool_alloc(), for blocks that will be overwritten. */
bool		prefix_cache_alloc(PrefixCache *s, int n, int32_t *out);
/*
 * Find the blocks of other requests for r's tokens after the noted ones, to which r->kv.computed must be
 * equal.
 */
PrefixHit	prefix_cache_lookup(const PrefixCache *s, const Req *r);
/* Return how many of r's tokens may come from other requests. */
int			prefix_cache_limit(const Req *r);
/* Give r the blocks that were found. */
void		prefix_cache_adopt_blocks(PrefixCache *s, Req *r, const PrefixHit *h, Plan *plan);
/* r has taken over its parent's blocks. */
void		prefix_cache_inherit(Req *r, const Req *parent);

/* ---- work_class.c ---- */
/*
 * Return true if r, which was latency work when it arrived, turns out to be part of a large statement;
 * it is throughput work from then on.  Step thread only.
 */
bool		workcounts_demote(Req *r, int64_t now_us);

/* ---- sched.c ---- */
typedef struct Sched Sched;

typedef struct SchedOptions
{
	int			max_seqs;
	int			max_rows;
	int			block_size;
	int			max_partial;	/* as in CoreOptions */
	int			max_long_partial;	/* > 0 */
	int			long_prompt;
	bool		priorities;		/* order new requests by priority instead of turns of roles and sessions */
	int			background_share;	/* percent, 0 .. 50 */
	int			max_loras;		/* different adapters in a step; 0 = no limit */
	int			window;			/* tokens that layers with a window see; 0 = no layer has one */
	bool		slots;			/* each running request has a slot of recurrent state, 0 .. max_seqs-1 */
	int64_t		step_target_us; /* 0 = only the row budget limits a step */
	int			max_chunk;		/* 0 = off */
	double		attn_weight;
	Prefix	   *prefix;			/* index of the blocks' content; NULL = nothing is shared */
	struct PinnedPrefixes *pins;			/* pinned prefixes; NULL = none */
	struct KvLife *life;		/* samples the lifetimes of blocks; NULL = off */
	Offload    *offload;		/* offload tier; NULL = evicted blocks are lost */
	struct Spec *spec;			/* NULL = no speculation */
	int			max_logits;		/* with spec: most rows of logits in a step */
} SchedOptions;

Sched	   *sched_new(KvPool *pool, const SchedOptions *opt);
void		sched_free(Sched *s);	/* the scheduler must be empty */
void		sched_add(Sched *s, Req *r);
/* Note in the prefix index what a running request has computed. */
void		sched_note(Sched *s, Req *r);
/* Remove a request, wherever it is, and free its blocks (in reverse order) and its slot. */
void		sched_remove(Sched *s, Req *r);
/*
 * Add r, which begins with the tokens of a running request, its parent (NULL: r computes all its tokens
 * itself), at the front of its session's queue.  When r is admitted it takes over the parent's K and V,
 * if they still exist.
 */
void		sched_fork(Sched *s, Req *r, Req *parent);
/*
 * Like sched_remove(), for a running request that is completely computed, but its blocks stay until its
 * forks have been admitted or other requests need them.
 */
void		sched_retain_blocks(Sched *s, Req *r);
/* Like sched_retain_blocks(), for forks that will be added later, until sched_release_blocks(). */
void		sched_retain_for_forks(Sched *s, Req *r);
void		sched_release_blocks(Sched *s, Req *r);
/* Like sched_fork(), for a fork that replaces its parent: it is admitted before any new request. */
void		sched_resume(Sched *s, Req *r, Req *parent);
/*
 * Plan the next step.  The plan is valid until the next call; a request may be removed once its entry
 * has been processed.
 */
const Plan *sched_plan(Sched *s, int64_t now_us);
void		sched_observe_step_time(Sched *s, double units, int64_t us);
/* Return true if a request of this many tokens, prompt and output, fits when it runs alone. */
bool		sched_fits(const Sched *s, int64_t n_tokens);
/* The same; returns an error with numbers (ERR_TOO_LONG). */
bool		sched_must_fit(const Sched *s, int n_prompt, int max_tokens, Err *e);
/* Between two steps: preempt all running requests and release all held ones, so that all blocks are free. */
void		sched_preempt_all(Sched *s);
int			sched_n_running(const Sched *s);
Req		   *sched_running(const Sched *s, int i);
int			sched_n_waiting(const Sched *s);	/* includes preempted requests */
int			sched_n_held(const Sched *s);
/* waiting requests that the last plan skipped */
int			sched_n_skipped(const Sched *s);
/*
 * Write the names of adapters of running and of waiting requests: [WIRE_LORA_NAMES].  Returns false if
 * no request has ever had one.
 */
bool		sched_lora_names(const Sched *s, char *running, char *waiting);
int64_t		sched_n_preemptions(const Sched *s);
/* Return any request of the scheduler; NULL = empty. */
Req		   *sched_any(Sched *s);
bool		sched_check(const Sched *s, Err *e);

/* ---- pooling_run.c: rows of sequences -> vectors ---- */
/* Make the Reqs of all sequences of a pooled request; r becomes the first. */
/* takes ownership of *spec's content */
void		pooled_begin(Req *r, PoolSpec *spec, const ModelInfo *info);
void		pooled_free(Pooled *p);	/* including all its Reqs but the first */
/* Check the sequences of a request again, whoever submitted it. */
bool		pooled_check(const Pooled *p, const ModelInfo *info, int max_model_len, Err *e);
/* Find the wanted rows among n rows from `computed` on. */
void		pooled_rows(const Req *r, int n, int *out_at, int *n_out);
/* The prompt is computed: give r, a choice, the tokens from which it continues. */
void		pooled_fork(Req *r);
/* The sequence restarts: it was preempted. */
void		pooled_restart(Req *r);
/*
 * Process the wanted rows of a step, [all of n_out and sample][hidden_size] in the plan's order, and run
 * the model's heads for the sequences that end.  logits: scratch for max_logits rows.
 */
typedef struct PoolStep
{
	Model	   *model;
	const Kernels *k;
	KPool	   *pool;
	const HostDev *hidden;
	const HostDev *logits;		/* scratch: [max_logits][vocab_size] */
	const HostDev *head_in;		/* pooled_space(), on a device; for max_num_seqs sequences */
	const HostDev *head_out;
	int			max_logits;
	const LoraAdapter **loras;	/* scratch for max_logits rows */
	int			n_valid;		/* ids that may be sampled */
} PoolStep;

/* Make the plan's block copies in a KV area. */
void		core_copy_blocks(const Kernels *k, KPool *pool, const KvView *kv, const Plan *plan);
/* Copy n floats from there on to the host, and wait for it.  If the device is lost, the process exits. */
void		core_to_host(const HostDev *h, size_t from, size_t n);
/* Return true if the ops pool these rows, so that the host needs none of them. */
bool		pooled_by_ops(const PoolStep *s);
/* Floats of a sequence's sums and heads' results on a device; 0 = the model has none. */
void		pooled_space(const ModelInfo *info, size_t *in, size_t *out);
void		pooled_collect(const PoolStep *s, const Plan *plan);
/* All sequences have ended: fill the event's values, which are valid until *space is freed. */
bool		pooled_finish(Pooled *p, ReqEvent *ev, float **space, Err *e);

/* ---- logprobs.c: log-probabilities of prompt tokens ---- */
/* Find the wanted rows among n rows from `computed` on of a request with prompt_lp. */
void		logprobs_prompt_rows(const Req *r, int n, int *out_at, int *n_out);
/* Process the wanted rows of a step's generating requests, which lie between those of pooled ones. */
void		logprobs_collect(const PoolStep *s, const Plan *plan);

/* ---- sequence_group.c: several answers ---- */
/* Return true if the request needs more than one Req. */
bool		group_wanted(const OutParams *out);
/* Make the group of r, which becomes its prompt request. */
void		group_begin(Req *r);
/* Make a further Req of a request: its description is copied, but the first Req owns the memory. */
Req		   *group_req_add(const Req *first);
/* The same for a generating request's prompt request, as a member of its group. */
Req		   *group_req_of_prompt(const Req *prompt_request, int index);
/* The prompt is computed: make the Req of answer i, which has no token yet. */
Req		   *group_answer(Group *g, int i, const Tok *tok);
/* Complete an event of one of the answers, which is sent next. */
void		group_event(Group *g, ReqEvent *ev, const Err *err);
/* Free the group with all its Reqs and their params. */
void		group_free(Group *g);


/* ---- beam_search.c ---- */
/*
 * A generation of hypotheses computes a row each; the best of their most likely continuations become the
 * next generation.
 */
Beam	   *beam_new(const Req *prompt_request);
void		beam_free(Beam *b);
/*
 * Add the logits of a live hypothesis (at first of the prompt request); returns false if they are not
 * finite.
 */
bool		beam_row(Beam *b, const Req *r, const float *logits, int n, int n_valid, int32_t eos);
/*
 * All rows are added: make the next generation and return its size; 0 = the search is over.  Its Reqs
 * are new, and begin with the tokens of their parents.
 */
int			beam_next(Beam *b, int max_model_len);
int			beam_n_live(const Beam *b);
Req		   *beam_live(const Beam *b, int i, Req **parent);
bool		beam_has_row(const Beam *b, int i); /* true if the live hypothesis i has a row */
/* The previous generation, after beam_next(). */
int			beam_n_old(const Beam *b);
Req		   *beam_old(const Beam *b, int i);
/* The answers, best first. */
void		beam_end(Beam *b);
int			beam_n_results(const Beam *b, int *n_tokens);
void		beam_emit(Beam *b, const Tok *tok, ReqEvent *ev, ReqSink sink, void *ctx);

/* ---- forward.c: plan -> Batch ---- */
typedef struct BatchBuf BatchBuf;

/* state: of max_seqs slots, or NULL; embed_width: for prompts of embeddings */
BatchBuf   *batch_new(int max_rows, int max_seqs, int embed_width, float *state);
void		batch_free(BatchBuf *b);
const Batch *batch_build(BatchBuf *b, const Plan *plan);

/* ---- sample.c ---- */
typedef struct Sampler Sampler;

Sampler    *smp_new(KPool *pool, int width, int n_valid);	/* n_valid: ids that the tokenizer knows */
void		smp_use_plugins(Sampler *s, PluginHost *host);	/* takes ownership of host; NULL = none */
void		smp_free(Sampler *s);

typedef struct SampleRow SampleRow;

struct SampleRow
{
	const GenParams *params;
	uint64_t	seed;
	int			position;		/* number of output tokens before this one */
	const int32_t *tokens;		/* the request's tokens; needed if there are params->rules */
	int			n_prompt;
	int			n_tokens;
	TokenCounts **counts;		/* needed if there are params->rules */
	/* allowed ids of a grammar: bit id % 32 of word id / 32; NULL = all */
	const uint32_t *mask;
	PluginSeat *seat;			/* needed if there are params->plugins */
	float	   *processed;		/* [width] result: the logits from which the token is drawn, after all
								 * stages, -INFINITY for excluded ids; NULL = not wanted */
	float		shift;			/* the sampler's: constant to be added to processed */
	float	   *logits;			/* [width]; smp_run() sets it */
	/* result of a device that has sampled the row (sample_device.h); NULL = sample it here */
	const struct KSampled *sampled;
	int32_t		id;				/* result, or SMP_* */
};

#define SMP_NOT_FINITE	(-1)	/* the model's logits are not finite */
#define SMP_NO_TOKEN	(-2)	/* no token is left to choose from */
#define SMP_PLUGIN		(-3)	/* a logits processor failed, or returned a value that is not a number */

/* Sample rows[i] from logits[i * width ...], which are overwritten (masks). */
void		smp_run(Sampler *s, SampleRow *rows, int n, float *logits);
/*
 * The same with each row's own logits.  again: further tokens of requests of the previous run, of which
 * some may be missing.
 */
void		smp_run_rows(Sampler *s, SampleRow *rows, int n, bool again);

/* Stage 9, here and on devices: return the least z that is kept. */
float		smp_least_z(const GenParams *p);
/*
 * Run all stages but the draw for one row: logits become z, the logarithm of values proportional to the
 * probabilities, -INFINITY for excluded ids.  Returns false with the reason in row->id.  Only for tests,
 * which compare the stages with another implementation.
 */
bool		smp_filter(Sampler *s, SampleRow *row, float *logits);

/*
 * Return log(sum of exp(x)), NAN if one of the n values is not finite; *best: the greedy choice among
 * the first n_valid.
 */
double		smp_logsumexp(const float *x, int n, int n_valid, int32_t *best);

/* ---- gen_params.c: what a model's files say about generation ---- */
typedef struct GenDefaults
{
	/* those with MODEL_PARAM() in request_fields.def; built-in ones if the files have none */
	GenParams	params;
	double		repetition_penalty;
	int			max_new_tokens; /* limit of max_tokens; 0 = none */
	int32_t		eos;			/* primary EOS; -1 = none */
	IntVec		eos_all;		/* primary first, no duplicates */
	int			n_valid;		/* ids that may be sampled or requested */
} GenDefaults;

void		gendefaults_init(GenDefaults *d, const Conf *conf, const Tok *tok, int vocab_size);
void		gendefaults_free(GenDefaults *d);
const GenDefaults *core_defaults(const Core *c);
const Sched *core_sched(const Core *c);
const Plugins *core_plugins(const Core *c);
int			core_max_logprobs(const Core *c);
int64_t		core_max_entries(const Core *c);
bool		core_priorities(const Core *c);

#define OUT_CONTEXT 6			/* tokens of the prompt that the detokenizer gets as context */

/* ---- stop_check.c: one token of a request -> text, finish ---- */
void		out_begin(Req *r, const Tok *tok);
/* Make a detokenizer for the text after the prompt. */
Detok	   *out_detok(const Req *r, const Tok *tok);
void		out_end(Req *r);
/* Check whether the newest token of r->tokens ends the answer, apart from its text. */
OutResult	out_ends(Req *r, int32_t eos, int max_model_len);
/*
 * Append the text of one token to r->text; a stop string in it overrides *res.  n_output includes this
 * token.
 */
void		out_text(Req *r, int32_t id, int n_output, OutResult *res);

#endif
