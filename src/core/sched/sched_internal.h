/*
 * sched_internal.h
 *	  The scheduler's own state, for the files that make it: sched.c (blocks, forks, preemption),
 *	  sched_queue.c (who waits, and who is next) and sched_plan.c (rows).
 */
#ifndef VLLM_CORE_SCHED_SCHED_INTERNAL_H
#define VLLM_CORE_SCHED_SCHED_INTERNAL_H

#include "core/core_internal.h"

#define MIN_CHUNK 16			/* prompt rows a step may always have */

/* The classes of requests, each with a tree of roles and sessions. */
enum
{
	CLASS_FRONT, CLASS_BACK, N_CLASSES
};

/* Latency work, and all other. */
enum
{
	URGENT, NOT_URGENT, N_URGENCIES
};

/* Rows of prompts that requests want. */
typedef struct Wanted
{
	int			n;				/* requests */
	int64_t		rows;
} Wanted;

/* One of them. */
typedef struct Line
{
	ReqList		preempted;		/* by admit_no */
	Fair		roles;			/* new ones */
	int			n_new;			/* number of new requests */
	double		clock;			/* service it has had / its share; see fair_queue.h */
} Line;

/* sched_lora.c */
typedef struct Passing
{
	int			n;				/* requests with adapters that have been admitted */
	int			worst;			/* the greatest number of their priorities */
} Passing;

typedef struct SchedLora
{
	const LoraAdapter **of;		/* [n] that have a place, as of the plan at hand */
	int			n;
	int			cap;
	Passing		passing[N_CLASSES];	/* of the plan at hand */
	ReqList		skipped;			/* of the plan at hand: they find no place */
	int			n_skipped;		/* number of requests that the plan has skipped */
	bool		used;			/* some request has had one */
	Req		   *next;			/* has been passed too often; NULL = nobody */
} SchedLora;

struct Sched
{
	SchedOptions opt;
	KvPool	   *pool;
	PrefixCache	share;
	Cost		cost;

	Req		  **running;		/* [opt.max_seqs], by admit_no */
	int			n_running;
	Line		line[N_CLASSES];
	double		line_now;		/* the clock of the class that had the last turn; never goes back */
	ReqList		resumed;		/* forks instead of their parents */
	/* so many of them were admitted since a new request has been, while some waited */
	int			n_resumed;
	int			n_urgent;		/* so much latency work was admitted in a row, while other work waited */
	ReqList		held;			/* newest last */
	Wanted		waiting[N_URGENCIES];	/* by waiting and preempted ones */
	uint64_t	next_admit_no;
	int64_t		n_preemptions;
	uint64_t	large_session;	/* whose throughput work has run last; 0 = nobody's */
	int64_t		latency_us;		/* when another session's latency work has run beside it */
	int		   *free_slots;		/* [n_free_slots] */
	int			n_free_slots;

	SchedLora	lora;
	uint64_t	n_counts;		/* of what roles have */
	int64_t		may_lose;		/* rows that may be computed again for the sake of roles that have less */

	Plan		plan;
	/* scratch of the plan at hand */
	Wanted		wanted[N_URGENCIES];	/* by candidates for prompt rows not yet looked at */
	int			prompt_rows;	/* prompt rows handed out */
	int			n_partial;		/* prompts that will not be complete; */
	int			n_long;			/* long prompts that will not be complete in this step */
	int			n_back;			/* of the background, that run */
	int			walk;			/* the one of running[] that is looked at; -1 = none */
	int			steady;			/* those before it keep what they have in this plan */
	bool		no_turn;		/* the new one whose turn it was before resumed ones can't be admitted */
	double		target_us;		/* the step lasts at most so long; 0 = no limit */
	double		latency_target_us;	/* the same for rows of latency work's prompts */
	int			latency_rows;	/* so many of them have room, and have not yet been given */
	int			n_throughput;	/* requests of that class that run */
	bool		latency_recent; /* latency_us is not long ago */
	bool		limit_decodes;	/* other than latency work decodes only as far as this allows: */
	double		decode_us;		/* its rows make the step at most so long */
	uint64_t	decode_from;	/* admit_no of the first that the last plan had no time for; 0 = none */
};

/* ---- sched_queue.c ---- */
void		reqlist_push_tail(ReqList *l, Req *r);
void		reqlist_remove(ReqList *l, Req *r);
/* Behind all that have its priority, or a lower number; in front of all that have it, or a higher one. */
void		reqlist_insert(ReqList *l, Req *r);
void		reqlist_insert_before(ReqList *l, Req *r);
/* In front of at; NULL: behind all. */
void		reqlist_insert_at(ReqList *l, Req *r, Req *at);
/* Does a come before b, of any class?  Of equals who was admitted first. */
bool		sched_precedes(const Req *a, const Req *b);
/* r comes: it has a line, until queue_leave(). */
void		queue_enter(Sched *s, Req *r);
/* r waits from now on: the queue that it is to be put into, followed by queue_joined(). */
ReqList    *queue_join(Sched *s, Req *r);
void		queue_joined(Sched *s, Req *r);
/* r, which ran, waits in front of all new ones of its class, in order of age. */
void		queue_preempted(Sched *s, Req *r);
/* r, of any class, waits no more. */
void		queue_remove(Sched *s, Req *r);
/* r has gone. */
void		queue_leave(Req *r);
/* The request to be admitted next; NULL = no request waits. */
Req		   *queue_next(Sched *s);
/*
 * r can't be admitted in the plan at hand.  True: it was due before the continuations, which are considered
 * next; false: the plan admits no more.
 */
bool		queue_stand_back(Sched *s, const Req *r);
/* Does a request of that class wait that is no continuation? */
bool		queue_waits(const Sched *s, int class);
int			queue_class(const Req *r);
/* r is admitted; r gets so much service. */
void		queue_turn(Sched *s, Req *r);
void		queue_charge(Sched *s, Req *r, double service);
bool		queue_check(const Sched *s, Err *e);

/* ---- sched_latency.c ---- */
bool		sched_is_urgent(const Req *r);
int			sched_urgency(const Req *r);	/* URGENT or NOT_URGENT */
/* r is one of those that want rows, or no more. */
void		sched_want(Wanted *all, const Req *r);
void		sched_want_no_more(Wanted *all, const Req *r);
/* r waits, and the plan may admit it: true = it is found to be part of something large (work_class.c). */
bool		sched_demote_waiting(Sched *s, Req *r, int64_t now_us);
/* What runs, what waits and how long ago latency work was there say how long the plan's step may be. */
void		sched_choose_target(Sched *s, int64_t now_us);
/* So many rows has the plan at hand to keep for latency work's prompts that it comes to later. */
int			sched_kept_rows(const Sched *s);
/* May r, which is not latency work, decode in this step? */
bool		sched_decode_fits(const Sched *s, const Req *r);
/* The time that prompt rows of r may make the step last; 0 = any. */
double		sched_target_of(const Sched *s, const Req *r);

/* ---- sched_prefix.c ---- */
/* So many others at most go before a request as they begin like one that is in front of it. */
#define SCHED_PASS_MOST 256
/* r goes into its session's queue. */
void		sched_place(Sched *s, ReqList *l, Req *r);

/* ---- sched_lora.c ---- */
/* Before admissions: which adapters have a place. */
void		sched_lora_begin(Sched *s);
/* The request to be admitted next, if r is the next of its queue (NULL = nobody). */
Req		   *sched_lora_first(const Sched *s, Req *r);
/* Is there a place for r, which is next? */
bool		sched_lora_may(const Sched *s, const Req *r);
/* No place for r's adapter: the plan skips r; false: it has skipped too many, and admits no more. */
bool		sched_lora_skip(Sched *s, Req *r);
void		sched_lora_admitted(Sched *s, Req *r);
/* r is taken out. */
void		sched_lora_gone(Sched *s, const Req *r);
/* After admissions: skipped requests wait again, in front. */
void		sched_lora_end(Sched *s);

/* ---- sched_roles.c ---- */
/* A token of an answer is computed. */
void		sched_roles_earn(Sched *s);
/* What each role has of what runs, as of now; r is admitted. */
void		sched_roles_count(Sched *s);
void		sched_roles_admitted(Sched *s, const Req *r);
/*
 * r, of one role, and other, of another, both wait: has r's role so much less that r goes first, though it is
 * newer?
 */
bool		sched_roles_before(const Sched *s, const Req *r, const Req *other);
/* Which running request gives way to one that runs; from: of those from there on. */
int			sched_roles_victim(Sched *s, int from);
/*
 * r, which is next, lacks a seat or so many pages: preempt requests of roles that have more.  How many: 0 =
 * it has to wait.
 */
int			sched_roles_make_way(Sched *s, const Req *r, int pages);

/* ---- sched_plan.c ---- */
/* Pages that a running request will want soon: for its known tokens, and a block more. */
int			sched_pages_promised_to(const Sched *s, const Req *r);

/* ---- sched.c ---- */
int			sched_blocks(const Sched *s, int64_t n_tokens);
/* Pages that a sequence of so many blocks has at most at once, of which `windows` have their windows. */
int			sched_pages(const Sched *s, int blocks, int windows);
/* Give blocks back that hold no tokens; false: there were none. */
bool		sched_take_spare(Sched *s);
/* A held request gives its blocks back. */
void		sched_release_held(Sched *s, Req *r);
/* r needs its parent no more. */
void		sched_leave_parent(Sched *s, Req *r);
/* How many blocks could r take over without a copy, and how many tokens has it then? */
int			sched_parent_blocks(const Sched *s, const Req *r);
int			sched_parent_tokens(const Sched *s, const Req *r);
/* What its parent has computed of r's tokens; r's own rows follow. */
void		sched_take_over(Sched *s, Req *r);
/* Preempt the running request at that place; the most recently admitted one. */
void		sched_preempt(Sched *s, int at);

#endif
