/*
 * sched_internal.h
 *	  The private state of the scheduler, for its files: sched.c (blocks, forks, preemption),
 *	  sched_queue.c (waiting requests, and which is next), sched_plan.c (rows of the next step) and
 *	  others.
 */
#ifndef VLLM_CORE_SCHED_SCHED_INTERNAL_H
#define VLLM_CORE_SCHED_SCHED_INTERNAL_H

#include "core/core_internal.h"

#define MIN_CHUNK 16			/* prompt rows that a step may always have */

/* The classes of requests: front and background, each with a tree of roles and sessions. */
enum
{
	CLASS_FRONT, CLASS_BACK, N_CLASSES
};

/* Latency work, and all other work. */
enum
{
	URGENT, NOT_URGENT, N_URGENCIES
};

/* Prompt rows that requests want. */
typedef struct Wanted
{
	int			n;				/* requests */
	int64_t		rows;
} Wanted;

/* The waiting requests of one class. */
typedef struct Line
{
	ReqList		preempted;		/* ordered by admit_no */
	Fair		roles;			/* new requests */
	int			n_new;			/* number of new requests */
	double		clock;			/* service the class has got / its share; see fair_queue.h */
} Line;

/* sched_lora.c */
typedef struct Passing
{
	int			n;				/* requests with adapters that have been admitted */
	int			worst;			/* greatest priority number among them */
} Passing;

typedef struct SchedLora
{
	const LoraAdapter **of;		/* [n] adapters that have a place in the current plan */
	int			n;
	int			cap;
	Passing		passing[N_CLASSES];	/* of the current plan */
	ReqList		skipped;			/* requests that the current plan skipped because their adapters have no
									 * place */
	int			n_skipped;		/* number of requests that the plan has skipped */
	bool		used;			/* some request has had an adapter */
	Req		   *next;			/* skipped too often, so it is next; NULL = none */
} SchedLora;

struct Sched
{
	SchedOptions opt;
	KvPool	   *pool;
	PrefixCache	share;
	Cost		cost;

	Req		  **running;		/* [opt.max_seqs], ordered by admit_no */
	int			n_running;
	Line		line[N_CLASSES];
	double		line_now;		/* clock of the class that had the last turn; never decreases */
	ReqList		resumed;		/* waiting continuations */
	/* continuations admitted since the last new request, while new ones waited */
	int			n_resumed;
	int			n_urgent;		/* latency requests admitted in a row while other work waited */
	ReqList		held;			/* held requests, newest last */
	Wanted		waiting[N_URGENCIES];	/* rows wanted by waiting and preempted requests */
	uint64_t	next_admit_no;
	int64_t		n_preemptions;
	uint64_t	large_session;	/* session of the throughput work that ran last; 0 = none */
	int64_t		latency_us;		/* when latency work of another session last ran beside it */
	int		   *free_slots;		/* [n_free_slots] */
	int			n_free_slots;

	SchedLora	lora;
	uint64_t	n_counts;		/* number of the last count of roles' usage */
	int64_t		may_lose;		/* budget of rows that may be computed again for roles that have less */

	Plan		plan;
	/* scratch of the current plan */
	Wanted		wanted[N_URGENCIES];	/* rows wanted by requests that the plan has not yet reached */
	int			prompt_rows;	/* prompt rows given */
	int			n_partial;		/* prompts that this step will not complete */
	int			n_long;			/* long prompts that this step will not complete */
	int			n_back;			/* running background requests */
	int			walk;			/* index in running[] that the plan is at; -1 = none */
	int			steady;			/* requests before this index keep their rows in this plan */
	bool		no_turn;		/* the new request that was due before the continuations can't be admitted */
	double		target_us;		/* limit of the step's time; 0 = none */
	double		latency_target_us;	/* the same for prompt rows of latency work */
	int			latency_rows;	/* rows that are kept for latency work's prompts and not yet given */
	int			n_throughput;	/* running requests of throughput work */
	bool		latency_recent; /* latency_us is recent */
	bool		limit_decodes;	/* work other than latency work decodes only within decode_us: */
	double		decode_us;		/* limit of the step's time with its rows */
	uint64_t	decode_from;	/* admit_no of the first request that the last plan had no time for; 0 =
								 * none */
};

/* ---- sched_queue.c ---- */
void		reqlist_push_tail(ReqList *l, Req *r);
void		reqlist_remove(ReqList *l, Req *r);
/*
 * Insert after all requests with its priority or a lower number; before all with its priority or a
 * higher number.
 */
void		reqlist_insert(ReqList *l, Req *r);
void		reqlist_insert_before(ReqList *l, Req *r);
/* Insert before `at`; NULL = at the end. */
void		reqlist_insert_at(ReqList *l, Req *r, Req *at);
/* Return true if a comes before b, in any class; of equal ones the one admitted first. */
bool		sched_precedes(const Req *a, const Req *b);
/* Give a new request its leaf in the fair queue, which it keeps until queue_leave(). */
void		queue_enter(Sched *s, Req *r);
/* Prepare r to wait; returns the queue to put it into.  Then call queue_joined(). */
ReqList    *queue_join(Sched *s, Req *r);
void		queue_joined(Sched *s, Req *r);
/* Queue a preempted request before all new ones of its class, ordered by age. */
void		queue_preempted(Sched *s, Req *r);
/* Remove r, of any class, from its queue. */
void		queue_remove(Sched *s, Req *r);
/* r has left the scheduler. */
void		queue_leave(Req *r);
/* Return the request to be admitted next; NULL = no request waits. */
Req		   *queue_next(Sched *s);
/*
 * r can't be admitted in the current plan.  Returns true if r was due before the continuations, which
 * come next; false if the plan admits no more requests.
 */
bool		queue_stand_back(Sched *s, const Req *r);
/* Return true if a request of that class waits, other than a continuation. */
bool		queue_waits(const Sched *s, int class);
int			queue_class(const Req *r);
/* r is admitted; charge service to r. */
void		queue_turn(Sched *s, Req *r);
void		queue_charge(Sched *s, Req *r, double service);
bool		queue_check(const Sched *s, Err *e);

/* ---- sched_latency.c ---- */
bool		sched_is_urgent(const Req *r);
int			sched_urgency(const Req *r);	/* returns URGENT or NOT_URGENT */
/* Add r to the requests that want prompt rows, or remove it. */
void		sched_want(Wanted *all, const Req *r);
void		sched_want_no_more(Wanted *all, const Req *r);
/* Return true if r, a waiting request, turns out to be part of a large statement (work_class.c). */
bool		sched_demote_waiting(Sched *s, Req *r, int64_t now_us);
/*
 * Choose how long the plan's step may take: it depends on what runs, what waits, and when latency work
 * last ran.
 */
void		sched_choose_target(Sched *s, int64_t now_us);
/* Return the rows that the plan must keep for latency work's prompts that it reaches later. */
int			sched_kept_rows(const Sched *s);
/* Return true if r, which is not latency work, may decode in this step. */
bool		sched_decode_fits(const Sched *s, const Req *r);
/* Return the limit of the step's time with r's prompt rows; 0 = none. */
double		sched_target_of(const Sched *s, const Req *r);

/* ---- sched_prefix.c ---- */
/* Most requests that may overtake a waiting request because of a common prefix. */
#define SCHED_PASS_MOST 256
/* Insert r into its session's queue. */
void		sched_place(Sched *s, ReqList *l, Req *r);

/* ---- sched_lora.c ---- */
/* Before admissions: find the adapters that have a place. */
void		sched_lora_begin(Sched *s);
/* Return the request to be admitted next, given the next one of the queue, r (NULL = none). */
Req		   *sched_lora_first(const Sched *s, Req *r);
/* Return true if there is a place for the adapter of r, which is next. */
bool		sched_lora_may(const Sched *s, const Req *r);
/*
 * There is no place for r's adapter: skip r in this plan.  Returns false if too many are skipped: then
 * the plan admits no more.
 */
bool		sched_lora_skip(Sched *s, Req *r);
void		sched_lora_admitted(Sched *s, Req *r);
/* r is removed from the scheduler. */
void		sched_lora_removed(Sched *s, const Req *r);
/* After admissions: queue the skipped requests again, at the front. */
void		sched_lora_end(Sched *s);

/* ---- sched_roles.c ---- */
/* An output token is computed. */
void		sched_roles_earn(Sched *s);
/* Count each role's running requests and blocks; r is admitted. */
void		sched_roles_count(Sched *s);
void		sched_roles_admitted(Sched *s, const Req *r);
/*
 * Return true if r goes before `other`, though it is newer, because r's role has less.  Both wait, and
 * their roles differ.
 */
bool		sched_roles_before(const Sched *s, const Req *r, const Req *other);
/* Return the index of the running request to preempt for another; only those from `from` on. */
int			sched_roles_victim(Sched *s, int from);
/*
 * r is next, but lacks a seat or this many pages: preempt requests of roles that have more.  Returns
 * their number; 0 = r has to wait.
 */
int			sched_roles_make_way(Sched *s, const Req *r, int pages);

/* ---- sched_plan.c ---- */
/* Return the pages that a running request will need soon: for its known tokens, and one more block. */
int			sched_pages_promised_to(const Sched *s, const Req *r);

/* ---- sched.c ---- */
int			sched_blocks(const Sched *s, int64_t n_tokens);
/*
 * Return the most pages that a sequence of so many blocks has at once, if `windows` of them have their
 * windows.
 */
int			sched_pages(const Sched *s, int blocks, int windows);
/* Free blocks that hold no tokens; returns false if there are none. */
bool		sched_take_spare(Sched *s);
/* Free the blocks of a held request. */
void		sched_release_held(Sched *s, Req *r);
/* r does not need its parent any more. */
void		sched_leave_parent(Sched *s, Req *r);
/* Return how many blocks r could take over without a copy, and how many tokens it would then have. */
int			sched_parent_blocks(const Sched *s, const Req *r);
int			sched_parent_tokens(const Sched *s, const Req *r);
/* Give r the blocks that its parent has computed of r's tokens; r computes the rest. */
void		sched_take_over(Sched *s, Req *r);
/* Preempt the running request at that index; sched_roles_victim() chooses it. */
void		sched_preempt(Sched *s, int at);

#endif
