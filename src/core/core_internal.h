/*
 * core_internal.h
 *	  What the modules of the core share: requests, plans, and the modules'
 *	  entry points.
 *
 * A Req is owned by the step thread from the moment it leaves the inbox.  It is
 * in exactly one place: the inbox, a gate, a waiting queue (its session's, or the one
 * of preempted requests), the running list, or the list of those held.
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
/* How a token ends an answer. */
typedef struct OutResult
{
	ReqFinish	finish;
	const char *reason;			/* stop string, decimal id or NULL; lives as long as the request */
	bool		is_text;		/* FIN_STOP by a token whose text belongs to the answer nevertheless */
} OutResult;

/*
 * A pooled request: each of its sequences is a Req of its own for the scheduler.  The
 * first stands for all of them: it is known by the request's id, and delivers the end,
 * which comes when the last is done.  pooling_run.c; owned by the first.
 *
 * PJ_CHOICES: the first is the prompt, which gives each choice's first token its
 * log-probability.  Choices of more tokens are its forks, and join the schedule when it
 * is computed.
 */
typedef struct Pooled
{
	PoolSpec	spec;
	Req		  **reqs;			/* [n_reqs] */
	int			n_reqs;
	int			n_left;			/* not yet finished */
	ReqFinish	finish;			/* the worst of their ends */
	Err			err;			/* FIN_ERROR */
	int			n_tokens;		/* of all sequences; a prompt that they share counts once */
	PoolAct		act;
	bool		by_token;		/* each token's row is a result of its own, */
	bool		unit;			/* each token's row is normalized to length 1 */
	int			width;
	/* of each sequence */
	float	  **values;			/* [n_rows][width], from its last step on */
	int		   *n_rows;
	int32_t    *greedy;			/* PT_LOGPROBS */
} Pooled;

/*
 * A request of several answers.  Its first Req computes the prompt and is the prompt request: it is known
 * by the request's id and gives no answer itself.  The answers are its forks, which begin with a
 * token of their own each; those of a beam search have forks in their turn.  sequence_group.c, beam_search.c;
 * owned by the prompt request, all Reqs included, until the last event has been sent.
 */
typedef struct Beam Beam;

typedef struct Group
{
	Req		   *prompt_request;
	Req		  **answers;		/* [n]; NULL: a beam search */
	int			n;
	Beam	   *beam;			/* NULL: n answers */
	/* step thread */
	int			n_left;			/* answers, or beams that are scheduled, which have not ended */
	ReqFinish	failed;			/* a beam search's: FIN_ABORT or FIN_ERROR */
	Err			err;
	/* delivering thread */
	int			n_told;			/* answers whose end has been told */
	int			n_output;		/* tokens of all */
	int			longest;		/* tokens of the longest */
	int			n_thought;		/* reasoning tokens of all */
	int			preemptions;
	int			draft_tokens, accepted_tokens;
	ReqFinish	finish;			/* the worst of the ends */
	Err			told_err;
} Group;

typedef enum ReqState
{
	RQ_NEW = 0,					/* in the inbox */
	RQ_DEFERRED,				/* at the gate */
	RQ_WAITING,					/* in its session's queue */
	RQ_PREEMPTED,				/* in the queue of preempted requests */
	RQ_CONTINUATION,			/* queued as the continuation of a preempted or forked request */
	RQ_RUNNING,
	RQ_HELD,					/* computed; its blocks wait for forks to take them over */
	RQ_GONE						/* removed from the scheduler; about to finish */
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

/* Which of a pooled request's sequences it is, and which of its rows are wanted; set when it is made. */
typedef struct ReqSeq
{
	int			index;			/* -1: PoolSpec.prompt */
	int			type1_at;		/* PoolSeq.type1_at */
	int			seen_to;		/* PoolSeq.seen_to */
	bool		whole;			/* all its rows go into one step */
	int			out_from;		/* its first row that is wanted */
	int			out_to;			/* behind the last one; 0 = all there are */
} ReqSeq;

/* The step thread's: where the request stands at the gate and with the scheduler. */
typedef struct ReqSched
{
	ReqState	state;
	bool		cancelled;		/* seen a cancel or a stop string; finishes at the step boundary */
	bool		stopped;		/* it was a stop string */
	Account    *account;		/* admission.c: counts among its role's requests in flight; NULL = not */
	int			admission_tokens;	/* of its prompts */
	int64_t		admission_until_us; /* it waits at the gate until then; 0 = as long as it takes */
	int64_t		weight;			/* core_live_tokens() */
	bool		late;			/* it is past its deadline, or has waited too long at the gate */
	/* admission.c, sched_queue.c: where it waits, or has waited; NULL before and behind */
	Fair	   *line;
	Req		   *prev;			/* neighbours in a waiting queue, or among those held */
	Req		   *next;
	bool		is_long;		/* SchedOptions.long_prompt: when it was admitted */
	bool		yields;			/* in the background, and never preempted: behind the others in all orders */
	int			passed;			/* by so many others while there was no place for its adapter */
	int			passed_alike;	/* by so many others, which begin like one in front of it */
	uint64_t	admit_no;		/* order of first admission; 0 = never admitted */
	bool		taken;			/* sched_roles.c's scratch: it is to make way for another */
	int			plan_at;		/* index of its entry in the plan at hand, -1 = none */
	/* it begins with that one's tokens, and has not been admitted; NULL = no fork */
	Req		   *parent;
	int			n_forks;		/* whose parent it is */
	int			preemptions;
	int64_t		scheduled_us;	/* first admission, 0 = not yet */
	int64_t		first_token_us;
} ReqSched;

/* The step thread's: what is computed of the request, and where that is. */
typedef struct ReqKv
{
	int			computed;		/* tokens whose K/V are in the blocks; it chases Req.tokens.len */
	IntVec		blocks;			/* block table, append-only while running */
	int			w_from;			/* the first of them whose window it holds (block_pool.h) */
	int			slot;			/* of its recurrent state, while it runs; -1 = none */
	/* prefix_cache.c */
	bool		shares;			/* what it computes may be others', too */
	uint64_t	root;			/* the chain that its first block is behind (prefix_index.h) */
	uint64_t	chain;			/* behind n_noted blocks */
	int			n_noted;		/* of its blocks, whose content is known to others */
	int			cached;			/* tokens that it found computed before it was first preempted */
	/* offload.c; nothing without a tier */
	OffloadKey	root_key;		/* as root, for the store behind the pool */
	OffloadKey	key;			/* as chain */
	OffloadWait *wait;			/* what comes back for it; NULL = nothing */
	int64_t		wait_until_us;	/* then it waits no more; 0 = it never has */
	int			back_to;		/* so many of its tokens have come back, or are known to be missing */
	int			back;			/* so many have, before it was first preempted */
	bool		asked;			/* the store has been asked for it */
} ReqKv;

/* On its way out (stop_check.c); output_queue.c says which thread has it when. */
typedef struct ReqOutput
{
	Detok	   *detok;			/* NULL when text is not wanted */
	Stop	   *stop;			/* NULL: there are no stop strings */
	Buf			text;			/* text of the event at hand */
	Buf			piece;			/* scratch: what the detokenizer gave, for stop strings */
	bool		urgent;			/* tokens go out with their step */
	bool		ended;			/* a stop string was found; `end` and `end_output` hold */
	OutResult	end;
	int			end_output;		/* output tokens up to the stop string */
	/* a beam's: the step thread's; else the delivering thread's, of what is told */
	double		cum_logprob;
	int			n_told;			/* the delivering thread's: output tokens told */
	int			n_thought;		/* the delivering thread's: reasoning tokens told */
	Logprobs   *prompt_lp;		/* what is known of the prompt's; NULL: not wanted, or on the way out */
	int64_t		n_entries;		/* log-probabilities so far, of all answers; the prompt request's */
	Logprobs   *token_lp;		/* of the token just sampled, on the way out; NULL = not wanted */
} ReqOutput;

/* A request, or one of its answers: what was asked, the rest by owner, and what the step thread generates. */
struct Req
{
	ReqSpec		in;
	ReqSched	sched;
	ReqKv		kv;
	ReqOutput	out;

	IntVec		tokens;			/* prompt, then output */
	Constraint *constraint;		/* what its output must look like; NULL = anything will do */
	ReasoningBudget *reasoning_budget;	/* how long it may reason; NULL = no limit, and not counted */
	TokenCounts *counts;		/* for penalties; the step thread's and its sampler's */
	PluginSeat	seat;			/* among logits processors */
	SpecReq    *spec;			/* its drafts; NULL = nobody has asked for any */
	int			draft_tokens, accepted_tokens;
	char		reason[16];		/* decimal stop id */
	/* one of several answers, or their prompt request */
	SessionCount *session_count;	/* work_class.c; a request's first Req, while it counts */
	Group	   *group;			/* NULL: the only answer */
	int			index;			/* which one */
	/* a pooled request's */
	Pooled	   *pooled;			/* NULL: it generates */
	ReqSeq		seq;
	float	   *sum;			/* what its poolers have made of the rows so far; NULL before the first */
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
	/* they reach the end: logits of the last token and of the drafts are wanted */
	bool		sample;
	int			n_drafts;		/* how many of the rows are drafts, which go on behind its tokens */
	int			draft_at;		/* index of the first draft token in r->spec's */
	int			logits_at;		/* its first row of the step's logits */
	int			out_at;			/* pooled: its first wanted row, counted from its first */
	int			n_out;			/* pooled: number of wanted rows from out_at on */
} PlanEntry;

/* Rows of logits of an entry. */
static inline int
plan_logits(const PlanEntry *pe)
{
	return pe->sample ? 1 + pe->n_drafts : 0;
}

/* A page of a fork's own block gets what its parent has in its last, which is not full. */
typedef struct BlockCopy
{
	int32_t		from;
	int32_t		to;
} BlockCopy;

typedef struct Plan
{
	int			n;				/* entries = sequences of the step */
	PlanEntry  *e;				/* [max_seqs] */
	int			n_rows;
	int			n_sample;		/* rows of logits */
	bool		pools;			/* some are pooled: hidden rows are wanted */
	int			n_copies;		/* to be made before the step, in this order */
	BlockCopy  *copies;			/* pages: [max_seqs] times those of a block */
	int			n_preempted;	/* victims of this plan */
	double		units;			/* predicted work, see step_time.c */
} Plan;

/* ---- step_time.c: how long will a step take? ---- */
#define COST_BUCKETS 24

typedef struct Cost
{
	double		attn_weight;	/* units per (row, key): a row at position p is 1 + p * weight */
	double		units[COST_BUCKETS];	/* size of the steps seen, by log2 of units; 0 = none */
	double		us[COST_BUCKETS];	/* and their time */
} Cost;

double		cost_units(const Cost *c, int pos, int n);
double		cost_predict(const Cost *c, double units);
void		cost_learn(Cost *c, double units, double us);
/* Most rows from position pos on (at most n) that keep `units` so far within target_us. */
int			cost_rows(const Cost *c, double units, int pos, int n, double target_us);
/* Least time that a unit has taken; 0 = nothing is known. */
double		cost_rate(const Cost *c);

/* ---- prefix_cache.c: requests that begin alike ---- */
typedef struct PrefixCache
{
	Prefix	   *prefix;			/* NULL: nothing is shared */
	KvPool	   *pool;
	int			block_size;
	int			window;			/* positions that layers with windows see; 0: none has one */
	struct KvLife *life;		/* is told of what becomes of blocks; NULL: nobody */
	Offload    *offload;		/* where blocks go that are overwritten; NULL = nowhere */
} PrefixCache;

/* What of a request's tokens is there already. */
typedef struct PrefixHit
{
	int			tokens;			/* so many, its own included */
	int			n_blocks;		/* in so many blocks of others, all full, */
	int			n_idle;			/* shared blocks that are on the free list */
	int			n_windows;		/* and whose windows are needed, too, */
	int			n_idle_windows;	/* most shared windows that are idle */
	int32_t		copied;			/* and the rest in the first part of this one; 0 = none */
} PrefixHit;

/* Can requests of such a model share what they compute? */
bool		prefix_cache_supported(const ModelInfo *info);
/* r is new: among whose requests it shares (NULL: nobody's); forks learn it from their parents. */
void		prefix_cache_attach(const Prefix *p, Req *r);
/* Tokens of the prompt that were there already; of all sequences of a pooled request. */
int			prefix_cache_hit_tokens(const Req *r);
/* Tokens of the prompt that came back from the offload tier, at most. */
int			prefix_cache_tokens_from_tier(const Req *r);
/* r has computed, or computes in the plan at hand (pending), `upto` tokens. */
void		prefix_cache_mark_computed(PrefixCache *s, Req *r, int upto, bool pending);
/* r gives its blocks back, and leaves word of what is in them. */
void		prefix_cache_release(PrefixCache *s, Req *r);
/* r gives its last block back, which holds nothing. */
void		prefix_cache_drop_last(PrefixCache *s, Req *r);
/* r gives back the windows that its rows from `computed` on don't see. */
void		prefix_cache_trim(PrefixCache *s, Req *r);
/* from's content is to be in `to` before the step is computed. */
void		prefix_cache_copy(const PrefixCache *s, int32_t from, int32_t to, Plan *plan);
/* kvpool_alloc(), of blocks that will hold something else. */
bool		prefix_cache_alloc(PrefixCache *s, int n, int32_t *out);
/* What others have of r's tokens behind those noted, r's `computed` must be. */
PrefixHit	prefix_cache_lookup(const PrefixCache *s, const Req *r);
/* So many of r's tokens may come from others. */
int			prefix_cache_limit(const Req *r);
/* r has its tokens so far, and its blocks. */
void		prefix_cache_adopt_blocks(PrefixCache *s, Req *r, const PrefixHit *h, Plan *plan);
/* r has its parent's blocks. */
void		prefix_cache_inherit(Req *r, const Req *parent);

/* ---- work_class.c ---- */
/*
 * Has r, which was latency work when it came, turned out to be part of something large?  Then it is
 * throughput work from now on, and true is returned.  The step thread's.
 */
bool		workcounts_demote(Req *r, int64_t now_us);

/* ---- sched.c ---- */
typedef struct Sched Sched;

typedef struct SchedOptions
{
	int			max_seqs;
	int			max_rows;
	int			block_size;
	int			max_partial;	/* CoreOptions' */
	int			max_long_partial;	/* > 0 */
	int			long_prompt;
	bool		priorities;		/* by these, not in turn over roles and sessions */
	int			background_share;	/* percent, 0 .. 50 */
	int			max_loras;		/* different adapters in a step; 0 = no limit */
	int			window;			/* positions that layers with windows see; 0 = none has one */
	bool		slots;			/* each running request has a slot of recurrent state, 0 .. max_seqs-1 */
	int64_t		step_target_us; /* 0 = the row budget alone */
	int			max_chunk;		/* 0 = off */
	double		attn_weight;
	Prefix	   *prefix;			/* what blocks hold; NULL: nothing is shared */
	struct PinnedPrefixes *pins;			/* what stays computed; NULL: nothing */
	struct KvLife *life;		/* is told of what becomes of blocks; NULL: nobody */
	Offload    *offload;		/* NULL: what is overwritten is gone */
	struct Spec *spec;			/* NULL: nobody is ahead */
	int			max_logits;		/* rows of logits in a step, with spec */
} SchedOptions;

Sched	   *sched_new(KvPool *pool, const SchedOptions *opt);
void		sched_free(Sched *s);	/* the scheduler must be empty */
void		sched_add(Sched *s, Req *r);
/* Others may know what a running request has computed. */
void		sched_note(Sched *s, Req *r);
/* Take a request out, wherever it is, and free its blocks (in reverse order) and its slot. */
void		sched_remove(Sched *s, Req *r);
/*
 * r begins with the tokens of a running request, its parent (NULL: computes all by itself), and
 * waits in front of its session.  When it is admitted it takes over the parent's K and V, if
 * these are still there.
 */
void		sched_fork(Sched *s, Req *r, Req *parent);
/* As sched_remove(), of a running request that is computed; but its blocks stay for its forks
 * until these have been admitted, or others need them. */
void		sched_retain_blocks(Sched *s, Req *r);
/* As sched_retain_blocks(), whether or not it has forks yet: they may come until sched_release_blocks(). */
void		sched_retain_for_forks(Sched *s, Req *r);
void		sched_release_blocks(Sched *s, Req *r);
/* As sched_fork(), of one that takes its place: it is admitted before any new request. */
void		sched_resume(Sched *s, Req *r, Req *parent);
/* The next step.  Valid until the next call; a request may be removed once its
 * entry has been worked off. */
const Plan *sched_plan(Sched *s, int64_t now_us);
void		sched_observe_step_time(Sched *s, double units, int64_t us);
/* Would a request of this many tokens, prompt and output, fit when alone? */
bool		sched_fits(const Sched *s, int64_t n_tokens);
/* The same as an error with numbers (ERR_TOO_LONG). */
bool		sched_must_fit(const Sched *s, int n_prompt, int max_tokens, Err *e);
/* Between two steps: nobody runs or is held any more, all blocks are free. */
void		sched_preempt_all(Sched *s);
int			sched_n_running(const Sched *s);
Req		   *sched_running(const Sched *s, int i);
int			sched_n_waiting(const Sched *s);	/* preempted ones included */
int			sched_n_held(const Sched *s);
/* of those waiting: others have passed them in the last plan */
int			sched_n_skipped(const Sched *s);
/*
 * Names of adapters of requests that run, and that wait: [WIRE_LORA_NAMES].  false: nobody has ever had one.
 */
bool		sched_lora_names(const Sched *s, char *running, char *waiting);
int64_t		sched_n_preemptions(const Sched *s);
/* Any request that is still there; NULL = empty. */
Req		   *sched_any(Sched *s);
bool		sched_check(const Sched *s, Err *e);

/* ---- pooling_run.c: sequences' rows -> vectors ---- */
/* The request's sequences, of which the first is r: all its Reqs are made here. */
void		pooled_begin(Req *r, PoolSpec *spec, const ModelInfo *info);	/* takes over *spec */
void		pooled_free(Pooled *p);	/* with all its Reqs but the first */
/* May this sequence run?  What core_submit() was given is checked again. */
bool		pooled_check(const Pooled *p, const ModelInfo *info, int max_model_len, Err *e);
/* Which of n rows from `computed` on are wanted. */
void		pooled_rows(const Req *r, int n, int *out_at, int *n_out);
/* The prompt is computed: the tokens of a choice that goes on from there. */
void		pooled_fork(Req *r);
/* The sequence begins anew: it was preempted. */
void		pooled_restart(Req *r);
/*
 * Take the wanted rows of a step, [all of n_out and sample][hidden_size] in the plan's order; the
 * model's heads run for the sequences that end.  logits: space for max_logits rows.
 */
typedef struct PoolStep
{
	Model	   *model;
	const Kernels *k;
	KPool	   *pool;
	const HostDev *hidden;
	const HostDev *logits;		/* space: [max_logits][vocab_size] */
	const HostDev *head_in;		/* pooled_space(), on a device; of as many sequences as there are */
	const HostDev *head_out;
	int			max_logits;
	const LoraAdapter **loras;	/* space for as many rows' */
	int			n_valid;		/* ids that may be sampled */
} PoolStep;

/* The plan's copies, of an area. */
void		core_copy_blocks(const Kernels *k, KPool *pool, const KvView *kv, const Plan *plan);
/* n floats from there on are the host's when this returns.  A device that is lost ends the process. */
void		core_to_host(const HostDev *h, size_t from, size_t n);
/* Do ops pool these rows, so that the host needs none of them? */
bool		pooled_by_ops(const PoolStep *s);
/* Floats that a sequence's sums and heads' results take on a device; 0: the model has none. */
void		pooled_space(const ModelInfo *info, size_t *in, size_t *out);
void		pooled_collect(const PoolStep *s, const Plan *plan);
/* All sequences are done: fill the event's values.  They are valid until *space is freed. */
bool		pooled_finish(Pooled *p, ReqEvent *ev, float **space, Err *e);

/* ---- logprobs.c: log-probabilities of prompts' tokens ---- */
/* Which of n rows from `computed` on are wanted, of a request with prompt_lp. */
void		logprobs_prompt_rows(const Req *r, int n, int *out_at, int *n_out);
/* Take the wanted rows of a step's generating requests, which lie between those of pooled ones. */
void		logprobs_collect(const PoolStep *s, const Plan *plan);

/* ---- sequence_group.c: several answers ---- */
/* Does the request want more than one Req? */
bool		group_wanted(const OutParams *out);
/* The group of r, which becomes its prompt request. */
void		group_begin(Req *r);
/* One more Req of a request, beside its first: what was asked stays the first's; it holds nothing. */
Req		   *group_req_beside(const Req *first);
/* The same of a generating request's prompt request, as one of its group. */
Req		   *group_req_of_prompt(const Req *prompt_request, int index);
/* The prompt is computed, and answer i begins; it has no token yet. */
Req		   *group_answer(Group *g, int i, const Tok *tok);
/* Complete an event of one of the answers; it is told at once. */
void		group_event(Group *g, ReqEvent *ev, const Err *err);
/* With all its Reqs and their params. */
void		group_free(Group *g);


/* ---- beam_search.c ---- */
/*
 * One generation of hypotheses computes a row each; of their likeliest continuations the best
 * become the next one.
 */
Beam	   *beam_new(const Req *prompt_request);
void		beam_free(Beam *b);
/* The logits of one of the live hypotheses (the prompt request at first); false: not finite. */
bool		beam_row(Beam *b, const Req *r, const float *logits, int n, int n_valid, int32_t eos);
/*
 * All rows are there: the next generation, or 0: it is over.  Its Reqs are new, and begin with the tokens of
 * parent.
 */
int			beam_next(Beam *b, int max_model_len);
int			beam_n_live(const Beam *b);
Req		   *beam_live(const Beam *b, int i, Req **parent);
bool		beam_has_row(const Beam *b, int i); /* has the live hypothesis i a row? */
/* The generation before, after beam_next(). */
int			beam_n_old(const Beam *b);
Req		   *beam_old(const Beam *b, int i);
/* The answers, from the best on. */
void		beam_end(Beam *b);
int			beam_n_results(const Beam *b, int *n_tokens);
void		beam_emit(Beam *b, const Tok *tok, ReqEvent *ev, ReqSink sink, void *ctx);

/* ---- forward.c: plan -> Batch ---- */
typedef struct BatchBuf BatchBuf;

/* state: of max_seqs slots, or NULL; embed_width: of prompts that are embeddings */
BatchBuf   *batch_new(int max_rows, int max_seqs, int embed_width, float *state);
void		batch_free(BatchBuf *b);
const Batch *batch_build(BatchBuf *b, const Plan *plan);

/* ---- sample.c ---- */
typedef struct Sampler Sampler;

Sampler    *smp_new(KPool *pool, int width, int n_valid);	/* n_valid: ids the tokenizer knows */
void		smp_use_plugins(Sampler *s, PluginHost *host);	/* taken over; NULL = none */
void		smp_free(Sampler *s);

typedef struct SampleRow SampleRow;

struct SampleRow
{
	const GenParams *params;
	uint64_t	seed;
	int			position;		/* output tokens before this one */
	const int32_t *tokens;		/* of the request; needed where params->rules are */
	int			n_prompt;
	int			n_tokens;
	TokenCounts **counts;		/* needed where params->rules are */
	/* a grammar's: bit id % 32 of word id / 32 says that id may come; NULL = all may */
	const uint32_t *mask;
	PluginSeat *seat;			/* needed where params->plugins are */
	float	   *processed;		/* [width] result: the logits that the token is drawn from, behind all stages,
								 * -INFINITY where it can't be; NULL = not wanted */
	float		shift;			/* the sampler's: what is missing of processed */
	float	   *logits;			/* [width]; smp_run() sets it */
	/* a device has done it (sample_device.h), and says this; NULL: it is to be done here */
	const struct KSampled *sampled;
	int32_t		id;				/* result, or SMP_* */
};

#define SMP_NOT_FINITE	(-1)	/* the model's logits were not */
#define SMP_NO_TOKEN	(-2)	/* nothing is left to choose from */
#define SMP_PLUGIN		(-3)	/* a logits processor failed, or made what is not a number */

/* Sample rows[i] from logits[i * width ...], which is overwritten (masks). */
void		smp_run(Sampler *s, SampleRow *rows, int n, float *logits);
/*
 * The same from each row's own logits.  again: more tokens of requests that were in the run before, some may
 * be missing.
 */
void		smp_run_rows(Sampler *s, SampleRow *rows, int n, bool again);

/* Stage 9, here and on devices: the least z that is kept. */
float		smp_least_z(const GenParams *p);
/*
 * All stages but the draw, of one row: logits become z, the logarithm of what a draw's probabilities
 * are proportional to, -INFINITY where there is none.  False: row->id says why.  Only for tests, which
 * compare the stages with another implementation's.
 */
bool		smp_filter(Sampler *s, SampleRow *row, float *logits);

/* log(sum of exp(x)), NAN if one of n isn't finite; *best: what temperature 0 takes of the first n_valid. */
double		smp_logsumexp(const float *x, int n, int n_valid, int32_t *best);

/* ---- gen_params.c: what the model's files say about generation ---- */
typedef struct GenDefaults
{
	/* of those with MODEL_PARAM() in request_fields.def; hard ones where the files say nothing */
	GenParams	params;
	double		repetition_penalty;
	int			max_new_tokens; /* cap on max_tokens; 0 = none */
	int32_t		eos;			/* primary; -1 = none */
	IntVec		eos_all;		/* primary first, no duplicates */
	int			n_valid;		/* ids that may be sampled or asked for */
} GenDefaults;

void		gendefaults_init(GenDefaults *d, const Conf *conf, const Tok *tok, int vocab_size);
void		gendefaults_free(GenDefaults *d);
const GenDefaults *core_defaults(const Core *c);
const Sched *core_sched(const Core *c);
const Plugins *core_plugins(const Core *c);
int			core_max_logprobs(const Core *c);
int64_t		core_max_entries(const Core *c);
bool		core_priorities(const Core *c);

#define OUT_CONTEXT 6			/* tokens of the prompt, for the detokenizer */

/* ---- stop_check.c: one token of one request -> text, finish ---- */
void		out_begin(Req *r, const Tok *tok);
/* For text behind the prompt; new. */
Detok	   *out_detok(const Req *r, const Tok *tok);
void		out_end(Req *r);
/* Does the newest token of r->tokens end the answer, text aside? */
OutResult	out_ends(Req *r, int32_t eos, int max_model_len);
/* The text of one token into r->text; a stop string in it overrides *res.  n_output: with this one. */
void		out_text(Req *r, int32_t id, int n_output, OutResult *res);

#endif
