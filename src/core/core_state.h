/*
 * core_state.h
 *	  The private state of a core, for the files that implement it.
 */
#ifndef VLLM_CORE_CORE_STATE_H
#define VLLM_CORE_CORE_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/core_internal.h"
#include "core/output/output_queue.h"
#include "core/trace.h"
#include "core/sched/admission.h"

#define FORK_ROWS	16			/* answers to one prompt that are sampled at once */

typedef struct InboxItem
{
	Req		   *r;				/* new request; or NULL: */
	uint64_t	cancel_id;		/* id of the request to cancel */
	bool		stopped;		/* a stop string has ended the request's answer `index` */
	int			index;
} InboxItem;

/* State that other threads access. */
typedef struct Inbox
{
	pthread_mutex_t lock;
	InboxItem  *items;			/* in order of arrival */
	size_t		n;
	size_t		cap;
	size_t		n_new;			/* new requests among the items */
	CoreStats	stats;			/* copy of the last step */
	atomic_int	n_live;			/* requests submitted and not yet removed from the scheduler */
	_Atomic int64_t n_tokens;	/* sum of ReqSched.weight of these requests */
} Inbox;

/* work_class.c */
typedef struct WorkCounts WorkCounts;
WorkCounts *workcounts_new(void);
void		workcounts_free(WorkCounts *w);
/* Count a request that arrives, and set its class; uncount a request that ends. */
void		workcounts_enter(WorkCounts *w, Req *r);
void		workcounts_leave(WorkCounts *w, Req *r);
size_t		workcounts_sessions(const WorkCounts *w);	/* number of known sessions; for tests */

/* A sampled token, and the row of the model's logits that it was sampled from. */
typedef struct LogprobRow
{
	Req		   *r;
	int32_t		id;				/* < 0 = no token */
	const float *raw;
	const struct KSampled *sampled;	/* SampleRow.sampled: then raw is not available */
} LogprobRow;

struct Core
{
	CoreOptions opt;
	Model	   *model;
	Tok		   *tok;
	GenDefaults defaults;
	int			max_model_len;

	KvView		kv;
	DevMem		kv_area;
	DevMem		state_area;		/* recurrent state: a slot for each running request */
	size_t		kv_size;
	size_t		draft_block;	/* bytes per block of the drafter's own KV area */
	KvPart	   *kv_parts;		/* parts of layers with windows; else NULL */
	float	   *kv_scales;		/* [n_kv_layers][2] scales of an FP8 cache; else NULL */
	KvPool	   *pool;
	Prefix	   *prefix;			/* NULL = no prefix caching */
	struct PinnedPrefixes *pins;
	struct KvLife *life;		/* NULL = lifetimes of blocks are not sampled */
	Offload    *offload;		/* NULL = no offload tier */
	Sched	   *sched;
	struct Spec *spec;			/* NULL = no speculation */
	Plan		round;			/* entries whose drafts have all been right so far; e: [max_num_seqs] */
	Admission  *gate;
	Accounts   *accounts;		/* owned; NULL = shared with other cores (CoreOptions.accounts) */
	int64_t		next_deadline_us;	/* no deadline is earlier than this */
	bool		idle;			/* the last step found nothing to compute */
	int64_t		poll_us;		/* time of the next step if a request waits for files */
	BatchBuf   *batch;
	Sampler    *sampler;
	struct DevSampler *smpdev;	/* NULL = sampler samples all rows */
	Constraints *constraints;
	IntVec		forced;			/* scratch */
	SampleRow  *rows;			/* [max_num_seqs] */
	LogprobRow *notes;			/* [max_num_seqs] */
	HostDev		logits;			/* [core_max_logits()][vocab_size] */
	size_t		logits_size;
	const LoraAdapter **loras;	/* scratch: as many rows as logits */
	int32_t    *keep;			/* scratch: as many rows as logits */
	size_t		raw_size;
	/* [max_num_seqs][vocab_size]: copies of the model's logits, for rows that need them unchanged */
	float	   *raw;
	SampleRow  *fork_rows;		/* [FORK_ROWS]; first tokens of answers to one prompt */
	float	   *fork_logits;	/* [FORK_ROWS][vocab_size] */
	float	   *fork_processed; /* [FORK_ROWS][vocab_size]; SampleRow.processed */
	size_t		fork_size;
	HostDev		hidden;			/* [max_num_batched_tokens][hidden_size], for steps with pooled requests */
	size_t		hidden_size;
	HostDev		head_in;		/* pooled_space(), on a device only; [max_num_seqs] */
	HostDev		head_out;
	int			n_multi;		/* live requests of several sequences: pooled ones, and those of several
								 * answers */
	int			n_multi_seqs;	/* scheduled sequences of such requests */

	IdMap		by_id;			/* live requests */
	Req		  **finish_pending;			/* cancelled requests, to be finished at the step boundary */
	size_t		n_finish_pending;
	size_t		cap_finish_pending;
	InboxItem  *drained;		/* the inbox's items while the step thread processes them */
	size_t		cap_drained;
	void		(*on_progress) (void *ctx, bool between); /* NULL = not set */
	void	   *progress_ctx;
	int64_t		progress_us;	/* when it was last called with between = true */
	int64_t		stood_us;		/* time that the current step was paused for other cores' steps */
	bool		suspended;		/* core_suspend() */
	bool		given_back;		/* the suspended core has returned its memory to the system */
	_Atomic bool weights_dropped;	/* weights are dropped: core_save_weights(), core_drop_weights() */
	CoreStats	stats;
	bool		tracing;		/* a profile is being recorded, as of this step */
	TraceStep	trace;			/* trace data of the current step */
	Profile		trace_profile;
	int64_t		other_memory;	/* memory of tables and rows of logits */
	Inbox	   *inbox;
	WorkCounts *work;			/* live requests by class */
	Deliver    *deliver;
	/* for builds with ASSERT */
	_Atomic bool stepping;		/* a thread is in core_step() */
	int			unchecked;		/* blocks that the steps since the last core_check() have earned for the
								 * next one */
};

/* ---- core_open.c ---- */
/* Set up everything but the model, the tokenizer and what threads share.  core_free() releases it. */
bool		core_open(Core *c, const Conf *conf, Err *e);
/* Allocate the KV area and its block pool. */
bool		core_open_kv(Core *c, Err *e);

/* ---- offload_open.c: the offload tier ---- */
/* Call it after everything with K and V is opened.  NULL: there is no tier, or this model can't use it. */
Offload    *core_offload_open(Core *c);
/* Offload the blocks of ended requests before K and V are given up. */
void		core_offload_all(Core *c);
void		core_offload_publish(const Core *c, CoreStats *st);

/* ---- core_memory.c ---- */
/* Call it after everything else is opened. */
void		memory_open(Core *c);
void		memory_publish(const Core *c, CoreStats *st);

/* ---- fp8_scales.c ---- */
/* Set the scales of K and V if the KV cache needs them.  Call it after the KV area and the state are open. */
bool		kvscales_open(Core *c, Err *e);

/* ---- core.c ---- */

/* Publish the statistics for other threads. */
void		core_publish(Core *c);
/* Hand a request's newest token (id >= 0), its end, or both to the output queue. */
void		core_emit(Core *c, Req *r, int32_t id, OutResult res, const Err *err);
/* Count a generating request's prompt, which has been computed. */
void		core_count_prompt(Core *c, const Req *r);
/* Count a request that has ended, before its client learns of the end. */
void		core_count_end(Core *c, ReqFinish fin, const Err *err);
/* Make all computed blocks unfindable. */
void		core_forget_blocks(Core *c);
/* Note a request that was cancelled or ended by a stop string: the step boundary finishes it. */
void		core_finish_later(Core *c, Req *r, bool stopped);
/* A request is over; r is its first Req. */
void		core_request_done(Core *c, Req *r);
/* Remove r from the step thread's structures, and emit its end. */
void		core_finish(Core *c, Req *r, int32_t id, OutResult res, const Err *err);
/* End a request for which the sampler has no token; id: the reason. */
void		core_fail_token(Core *c, Req *r, int32_t id);

/* Process the inbox; returns false if it was empty. */
bool		core_drain(Core *c);

/* ---- forward.c ---- */
/* Wait until the core's device has finished all its work.  If the device is lost, the process exits. */
void		core_wait(const Core *c);
/*
 * Compute K, V and logits of a planned step's rows; the logits are where the ops are.  Returns false if
 * the step was stopped because all its requests were cancelled.
 */
bool		core_forward(Core *c, const Plan *plan);

/* ---- commit.c ---- */
/* Sample a token for each entry, from its row logits_at; again: entries that this step has sampled before. */
void		core_sample(Core *c, const Plan *plan, bool again);
/* Append the tokens to their requests, and further ones as long as drafts are right. */
void		core_commit(Core *c, const Plan *plan);
SampleRow	core_smp_row(Req *r);
/*
 * Return r's next token, given the sampler's id: the end tag's next token if the reasoning budget is
 * used up.
 */
int32_t		core_next_id(const Req *r, int32_t id);
/*
 * Append r's next token (-1 = none), and the tokens that its grammar forces after it; *res: how the last
 * of them ends the answer.  Emits nothing.  Returns false with *e set at a limit of the grammar.
 */
bool		core_append_token(Core *c, Req *r, int32_t id, OutResult *res, Err *e);
/* Emit r's tokens from tokens[from] on; with the last one r ends if res says so. */
void		core_emit_tokens(Core *c, Req *r, size_t from, OutResult res);
/* token_logprobs.c: return true if r wants log-probabilities of its output tokens. */
bool		core_wants_logprobs(const Req *r);
/* Return the copy of the model's logits for a step's i-th token. */
float	   *core_raw_row(const Core *c, int i);
/* Compute the log-probabilities of a step's tokens, except the first tokens of several answers. */
void		core_logprobs_of_rows(Core *c, const Plan *plan);
/* Compute the log-probabilities of requests' next tokens into their token_lp; NULL if not requested. */
void		core_logprobs_of_tokens(const Core *c, const LogprobRow *rows, int n);
/* Return true if r may collect log-probabilities for one more token. */
bool		core_has_logprob_space(const Core *c, Req *r, Err *e);

/* ---- core_suspend.c ---- */
/* Return true if a suspended core has requests to accept or to end. */
bool		core_rest_due(const Core *c);

/* ---- step_flops.c: estimated work of steps ---- */
typedef struct StepWork
{
	int64_t		flops,
				read,			/* bytes */
				written;
} StepWork;

/* Estimate the work of a planned step; kv_token: bytes of K and V of a token in a layer. */
StepWork	perf_step(const ModelInfo *info, const Plan *plan, size_t kv_token);

/* ---- step_trace.c: trace events of steps ---- */
void		core_trace_begin(Core *c, int64_t now_us);
void		core_trace_mark(Core *c, TraceMark m);
void		core_trace_end(Core *c, const Plan *plan);

/* ---- parallel_sampling.c: several answers to one prompt ---- */

/* r, an answer or a prompt request, is over. */
void		answers_finish(Core *c, Req *r, int32_t id, OutResult res, const Err *err);
/* Cancel all answers. */
void		answers_cancel(Core *c, const Group *g);
/*
 * The last row of a prompt request, or the row of a hypothesis, is computed; id: what the sampler made
 * of it under the mask.
 */
void		answers_commit(Core *c, Req *r, int32_t id, const float *raw, const uint32_t *mask);
/* The grammar leaves no choice: all answers have the prompt request's tokens, and end with res. */
void		answers_forced(Core *c, Group *g, OutResult res);

#endif
