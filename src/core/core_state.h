/*
 * core_state.h
 *	  The core's own state, for the files that make it: core.c and parallel_sampling.c.
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
	Req		   *r;				/* new request, or NULL: */
	uint64_t	cancel_id;		/* cancel this one, or */
	bool		stopped;		/* a stop string has ended its answer */
	int			index;
} InboxItem;

/* What other threads touch. */
typedef struct Inbox
{
	pthread_mutex_t lock;
	InboxItem  *items;			/* in order of arrival */
	size_t		n;
	size_t		cap;
	size_t		n_new;			/* requests among them */
	CoreStats	stats;			/* as of the last step */
	atomic_int	n_live;			/* submitted and not taken out of the schedule */
	_Atomic int64_t n_tokens;	/* sum of the weights of submitted requests */
} Inbox;

/* work_class.c */
typedef struct WorkCounts WorkCounts;
WorkCounts *workcounts_new(void);
void		workcounts_free(WorkCounts *w);
/* A request comes, and its class is set; it goes. */
void		workcounts_enter(WorkCounts *w, Req *r);
void		workcounts_leave(WorkCounts *w, Req *r);
size_t		workcounts_sessions(const WorkCounts *w);	/* known; for tests */

/* A token that has been sampled, and the row that it was sampled from, as the model gave it. */
typedef struct LogprobRow
{
	Req		   *r;
	int32_t		id;				/* < 0: there is none */
	const float *raw;
	const struct KSampled *sampled;	/* SampleRow.sampled: raw isn't there */
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
	DevMem		state_area;		/* recurrent state, a slot for each running request */
	size_t		kv_size;
	size_t		draft_block;	/* bytes that what drafts has for a block, in an area of its own */
	KvPart	   *kv_parts;		/* of layers with windows; else NULL */
	float	   *kv_scales;		/* [n_kv_layers][2], of FP8; else NULL */
	KvPool	   *pool;
	Prefix	   *prefix;			/* NULL: nothing is shared */
	struct PinnedPrefixes *pins;
	struct KvLife *life;		/* NULL: nobody wants to know */
	Offload    *offload;		/* NULL: there is no store behind the pool */
	Sched	   *sched;
	struct Spec *spec;			/* NULL: nobody is ahead */
	Plan		round;			/* whose drafts were right so far; e: [max_num_seqs] */
	Admission  *gate;
	Accounts   *accounts;		/* its own; NULL: it has others' */
	int64_t		next_deadline_us;	/* none is before that */
	bool		idle;			/* the last step found nothing to compute, */
	int64_t		poll_us;		/* time of the next step, if a request waits for files */
	BatchBuf   *batch;
	Sampler    *sampler;
	struct DevSampler *smpdev;	/* NULL: all rows are sampled by sampler */
	Constraints *constraints;
	IntVec		forced;			/* scratch */
	SampleRow  *rows;			/* [max_num_seqs] */
	LogprobRow *notes;			/* [max_num_seqs] */
	HostDev		logits;			/* [core_max_logits()][vocab_size] */
	size_t		logits_size;
	const LoraAdapter **loras;	/* scratch: of as many rows */
	int32_t    *keep;			/* scratch: of as many rows */
	size_t		raw_size;
	/* [max_num_seqs][vocab_size]: copies of rows that are wanted as the model gave them */
	float	   *raw;
	SampleRow  *fork_rows;		/* [FORK_ROWS]; first tokens of answers to one prompt */
	float	   *fork_logits;	/* [FORK_ROWS][vocab_size] */
	float	   *fork_processed; /* [FORK_ROWS][vocab_size]; SampleRow.processed */
	size_t		fork_size;
	HostDev		hidden;			/* [max_num_batched_tokens][hidden_size], for steps with pooled requests */
	size_t		hidden_size;
	HostDev		head_in;		/* pooled_space(), on a device only; [max_num_seqs] */
	HostDev		head_out;
	int			n_multi;		/* live requests of several sequences: pooled ones, several answers, */
	int			n_multi_seqs;	/* sequences of such requests that are scheduled */

	IdMap		by_id;			/* live requests */
	Req		  **finish_pending;			/* cancelled, to be finished at the boundary */
	size_t		n_finish_pending;
	size_t		cap_finish_pending;
	InboxItem  *drained;		/* the inbox's items while they are worked off */
	size_t		cap_drained;
	void		(*on_progress) (void *ctx, bool between); /* NULL = nobody asks */
	void	   *progress_ctx;
	int64_t		progress_us;	/* when it was last told that the step is between two operations */
	int64_t		stood_us;		/* of the step at hand: for how long it stood meanwhile */
	bool		suspended;		/* core_suspend() */
	bool		given_back;		/* the memory of the suspended core was returned to the system */
	_Atomic bool weights_dropped;	/* weights, too: core_save_weights(), core_drop_weights() */
	CoreStats	stats;
	bool		tracing;		/* a profile is being recorded: as of this step */
	TraceStep	trace;			/* trace data of the current step */
	Profile		trace_profile;
	int64_t		other_memory;	/* of tables and rows of logits */
	Inbox	   *inbox;
	WorkCounts *work;			/* live requests by class */
	Deliver    *deliver;
	/* in builds with ASSERT */
	_Atomic bool stepping;		/* a thread is in core_step() */
	int			unchecked;		/* what core_check() may cost by now, in blocks */
};

/* ---- core_open.c ---- */
/* Everything but the model, the tokenizer and what threads share.  core_free() releases it. */
bool		core_open(Core *c, const Conf *conf, Err *e);
/* The KV area and its blocks. */
bool		core_open_kv(Core *c, Err *e);

/* ---- offload_open.c: the store behind the pool ---- */
/* Behind everything that has K and V.  NULL: there is none, or it is of no use to this model. */
Offload    *core_offload_open(Core *c);
/* All that requests have left goes there, before K and V are given up. */
void		core_offload_all(Core *c);
void		core_offload_publish(const Core *c, CoreStats *st);

/* ---- core_memory.c ---- */
/* Behind everything that is opened. */
void		memory_open(Core *c);
void		memory_publish(const Core *c, CoreStats *st);

/* ---- fp8_scales.c ---- */
/* The scales of K and V, if the KV cache needs some.  Behind the KV area and the state. */
bool		kvscales_open(Core *c, Err *e);

/* ---- core.c ---- */

/* The statistics, for other threads. */
void		core_publish(Core *c);
/* The newest token of a request (id >= 0), its end, or both, on the way out. */
void		core_emit(Core *c, Req *r, int32_t id, OutResult res, const Err *err);
/* A request's prompt has been computed: count it. */
void		core_count_prompt(Core *c, const Req *r);
/* A request has ended: count it, where whoever hears of the end finds it. */
void		core_count_end(Core *c, ReqFinish fin, const Err *err);
/* Nobody finds what has been computed any more. */
void		core_forget_blocks(Core *c);
/* Cancelled, or ended by a stop string: to be finished at the step's boundary. */
void		core_finish_later(Core *c, Req *r, bool stopped);
/* A request, of which this is the first Req, is over. */
void		core_request_done(Core *c, Req *r);
/* It is over for the step thread. */
void		core_finish(Core *c, Req *r, int32_t id, OutResult res, const Err *err);
/* The request ends as the sampler has no token for it; id: the reason. */
void		core_fail_token(Core *c, Req *r, int32_t id);

/* What has been left in the inbox; false: nothing. */
bool		core_drain(Core *c);

/* ---- forward.c ---- */
/* All that was asked for of the core's device is there.  A device that is lost ends the process. */
void		core_wait(const Core *c);
/*
 * A planned step's rows become K, V and logits, which are where ops are.  false: nobody wants it any more, it
 * was stopped.
 */
bool		core_forward(Core *c, const Plan *plan);

/* ---- commit.c ---- */
/* A token of each entry, from its row at logits_at; again: entries of the step that have had one. */
void		core_sample(Core *c, const Plan *plan, bool again);
/* They are added to their requests, and so are more as far as drafts were right. */
void		core_commit(Core *c, const Plan *plan);
SampleRow	core_smp_row(Req *r);
/* r's next token, of which the sampler has made id: when the model's thoughts must end, the end tag's. */
int32_t		core_next_id(const Req *r, int32_t id);
/*
 * r's next token (-1: it is none), and those that its grammar forces behind it: how does the last of
 * them end the answer?  Nobody is told.  False with *e set: a limit of the grammar.
 */
bool		core_append_token(Core *c, Req *r, int32_t id, OutResult *res, Err *e);
/* r's tokens from tokens[from] on are on the way out; with the last of them it is over if res says so. */
void		core_emit_tokens(Core *c, Req *r, size_t from, OutResult res);
/* The log-probabilities of r's next token, if they are wanted; raw: its row as the model gave it. */
/* token_logprobs.c: does r want those of its answers' tokens? */
bool		core_wants_logprobs(const Req *r);
/* The row that a step's i-th token is sampled from, as the model gave it. */
float	   *core_raw_row(const Core *c, int i);
/* The log-probabilities of what a step has sampled, but for several answers' first tokens. */
void		core_logprobs_of_rows(Core *c, const Plan *plan);
/* Log-probabilities of requests' next tokens, into their token_lp; NULL for requests that want none. */
void		core_logprobs_of_tokens(const Core *c, const LogprobRow *rows, int n);
/* Is there room for those of r's next token, too? */
bool		core_has_logprob_space(const Core *c, Req *r, Err *e);

/* ---- core_suspend.c ---- */
/* Has a core that is suspended requests to take in or to end? */
bool		core_rest_due(const Core *c);

/* ---- step_flops.c: what steps take ---- */
typedef struct StepWork
{
	int64_t		flops,
				read,			/* bytes */
				written;
} StepWork;

/* Of a step that is planned; kv_token: bytes of K and V of a token in a layer. */
StepWork	perf_step(const ModelInfo *info, const Plan *plan, size_t kv_token);

/* ---- step_trace.c: steps for a profile ---- */
void		core_trace_begin(Core *c, int64_t now_us);
void		core_trace_mark(Core *c, TraceMark m);
void		core_trace_end(Core *c, const Plan *plan);

/* ---- parallel_sampling.c: several answers to one prompt ---- */

/* One of them, or their prompt request, is over. */
void		answers_finish(Core *c, Req *r, int32_t id, OutResult res, const Err *err);
/* All are cancelled. */
void		answers_doom(Core *c, const Group *g);
/*
 * A prompt request's last row, or a hypothesis' row, is there; id: what the sampler made of it, under the
 * mask.
 */
void		answers_commit(Core *c, Req *r, int32_t id, const float *raw, const uint32_t *mask);
/* A grammar leaves no choice at all: res is how all of them end, whose tokens the prompt request has. */
void		answers_forced(Core *c, Group *g, OutResult res);

#endif
