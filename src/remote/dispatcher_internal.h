/*
 * dispatcher_internal.h
 *	  What dispatcher.c, pending_request.c, call_group.c, upstream_call.c, context_length.c, remote_model.c
 *	  and remote_stats.c share.
 *
 * A PendingRequest is a client's request until its final frame.  It waits for the limits of its role
 * (role_admission.h), then in its model's queue (request_queue.h), until it becomes, alone or with others, a
 * CallGroup: the calls that encode.c makes of it, and the DecodedReply that reads their replies.  An
 * UpstreamCall is one of these calls, with all its tries; while it can't be made, or waits to be made again,
 * it is in its model's list of pending calls.
 *
 * Frames may be sent from within callbacks of HTTP, and the sink that gets a frame may cancel; libcurl may
 * not be called from there.  So only dispatcher_retire() frees objects and closes connections, when no
 * callback is on the stack (depth 0).
 */
#ifndef VLLM_REMOTE_DISPATCHER_INTERNAL_H
#define VLLM_REMOTE_DISPATCHER_INTERNAL_H

#include "remote/codec/encode.h"
#include "remote/upstream/call_outcome.h"
#include "remote/request_queue.h"
#include "remote/dispatcher.h"
#include "remote/upstream/path_breaker.h"
#include "remote/upstream/load_balancer.h"
#include "remote/upstream/rate_limiter.h"
#include "remote/codec/decode.h"
#include "remote/upstream/retry_budget.h"
#include "remote/upstream/role_admission.h"

typedef struct CallGroup CallGroup;
typedef struct UpstreamCall UpstreamCall;
typedef struct RModel RModel;

/* A health check that is under way (health_check.c). */
typedef struct Check
{
	RModel	   *m;
	int			url;
	HttpCall   *h;
	bool		ended;
	HttpResult	res;			/* when it has */
} Check;

/* A model's url, beside PickUrl. */
typedef struct RUrl
{
	const char *base;			/* in the options */
	const char *query;			/* in the options: "", or "?" and what follows every path */
	char		entry[320];		/* that would allow its host; '' = the url is bad: */
	char		why[160];
	Rate		rate;
	Paths		paths;
	int64_t		calls, failures, retries, throttled;
	int64_t		answered_us;	/* last; 0 = never */
	char		error[256];
	Check		check;
} RUrl;

struct RModel
{
	Dispatcher *l;
	RModel	   *next;
	uint64_t	hash;
	uint32_t	dboid;
	char	   *name;
	ROptions   *o;
	RequestQueue *queue;
	LoadBalancer pick;
	RUrl	   *u;				/* pick.n */
	char	   *secret;			/* of the request that came last, for health checks; NULL = none */
	RetryBudget budget;
	UpstreamCall *pending, *pending_last;
	int			n_requests;			/* not ended, or in a job still */
	int			n_deferred;		/* that wait for a limit of their role */
	int			n_calls;		/* under way */
	bool		forgotten;		/* goes with its last request */
	bool		fresh;			/* requests have come since the queue was looked through */
	CallGroup  *sizer;			/* it asks how long the context is; NULL = nobody does */
	int64_t		told_us;		/* when o->told_len was learned */
	int64_t		looked_us;		/* latest time for which waiting requests were checked */
	bool		looked_shunned; /* that check was with an open circuit */
	/* counted */
	int64_t		used_us;
	int64_t		requests, prompt_tokens, cached_tokens, output_tokens;
	int64_t		ended[WIRE_N_ENDS];
	WireHist	hist[WIRE_N_HISTS];
};

/* What the endpoint was asked about its context (context_length.c). */
typedef enum LengthAsked
{
	LENGTH_NOTHING,
	LENGTH_LIST,				/* the list of its models */
	LENGTH_ALL					/* the list, and tokens if the endpoint counts them */
} LengthAsked;

struct PendingRequest
{
	GatherItem	item;			/* first: an item is its request */
	Dispatcher *l;
	RModel	   *m;
	CallGroup  *job;
	void	   *owner;
	RoleItem	role;
	int64_t		used;			/* tokens, for its role; -1 = not known */
	RequestFields w;
	int64_t		deadline_us, arrival_us;
	int			timeout_ms;
	uint64_t	id;				/* of the dispatcher's */
	bool		alone;			/* gathers no more */
	/* in no queue and no group: another request asks for the context length that this one needs */
	bool		waits_for_length;
	LengthAsked asked;			/* what was asked and did not report the length */
	bool		accepted;
	bool		gone;			/* the sink gets no more frames */
	int			tries, charged;
	int			texts;
	int64_t		called_us, first_us, last_us;	/* first call, first and last WF_TEXT; 0 = none */
	PendingRequest *prev, *next;	/* of the dispatcher's, until it is gone */
	PendingRequest *next_retired;
};

struct CallGroup
{
	Dispatcher *l;
	RModel	   *m;
	PendingRequest **requests;
	const RequestFields **w;
	int			n;
	int			living;			/* requests that are not gone */
	bool		halved;			/* part of one that failed, */
	int64_t		whole_us;		/* start of the whole call */
	RCalls		calls;
	UpstreamCall **c;
	int			left;			/* calls without a whole answer */
	DecodedReply *reply;
	size_t		held;			/* bytes of it that are in the dispatcher's */
	int			url;			/* called last, -1 */
	int64_t		first_byte_us;
	int64_t		lost_prompt, lost_completion;	/* tokens of tries that gave no answer, as far as known */
	bool		sizes;			/* its one call is no request's, but: */
	RequestFields question;		/* how long is the context? */
	bool		emitted;
	bool		dead;
	CallGroup  *next_retired;
};

typedef enum CallState
{
	CALL_PENDING,				/* in the model's list */
	CALL_RUNS,
	CALL_WHOLE,					/* answered */
	CALL_DRAINS					/* of no job: the connection has a moment to come to its end by itself */
} CallState;

struct UpstreamCall
{
	Dispatcher *l;
	CallGroup  *job;
	int			i;				/* of the job's calls */
	CallState	state;
	HttpCall   *h;
	Buf			url_text, error_body;
	Buf			body;			/* drains: the job's, which may still be being sent */
	HttpResult	res;
	Err			e;				/* garbled: how */
	bool		told, ended, garbled, whole;
	bool		paused, full;	/* full: its caller has enough for now */
	bool		touched;
	UpstreamCall *next_touched;
	int			url;			/* of the try */
	uint64_t	path;			/* paths_key() */
	bool		probe;
	int			avoid;
	int			tries;
	int64_t		begin_us;
	int64_t		due_us;			/* pending: not before; drains: not longer than */
	UpstreamCall *prev, *next;	/* pending, draining */
};

struct Dispatcher
{
	Http	   *http;
	RSettings	set;
	LineSink	sink;
	int64_t		(*clock) (void);
	int64_t		now_us;
	int			depth;
	uint64_t	next_id, salt;
	Roles	   *roles;
	RModel	   *models;
	int			n_models;
	PendingRequest *requests;			/* not gone */
	int			n_requests;
	int64_t		next_deadline_us;
	int			n_calls;		/* of libcurl's */
	size_t		held,			/* bytes of all answers */
				most_held;
	UpstreamCall *touched;
	UpstreamCall *drains;
	PendingRequest *retired;
	CallGroup  *dead;
	int64_t		wake_us;		/* found by this turn */
	WireFigures early;			/* requests that never got to a model; those of models that are forgotten */
	WireFigures base;			/* subtracted (reset) */
	int64_t		started_us, published_us;
	bool		rested;			/* published, and nothing has been done since */
};

/* Of a request to an endpoint. */
typedef struct Headers
{
	const char **v;
	int			n;
} Headers;

/* What an error tells besides. */
typedef struct ErrorExtra
{
	const char *url;			/* NULL = none was asked */
	bool		elsewhere;
	int64_t		retry_after_ms; /* -1 = none */
	int64_t		prompt_tokens, completion_tokens;
} ErrorExtra;

/* dispatcher.c */
void		dispatcher_wake(Dispatcher *l, int64_t at_us);
void		dispatcher_queue_touched(UpstreamCall *c);
/* Another clock; for tests, whose network has a time of its own. */
void		dispatcher_set_clock(Dispatcher *l, int64_t (*clock) (void));

/* pending_request.c */
void		pending_frame(PendingRequest *a, WireFrame kind, const Buf *fields, bool final);
void		pending_error(PendingRequest *a, const Err *e, const ErrorExtra *x);
/* Its deadline has come, or the end of its patience with its role's limits. */
void		pending_late(PendingRequest *a);
/* The client has cancelled. */
void		pending_drop(PendingRequest *a);
void		pending_free(PendingRequest *a);
/* Of the message: the last of a tag; n = 0 if there is none. */
StrView	pending_field(const PendingRequest *a, WireTag tag);

/* call_group.c */
/* False: the requests have got errors, or are back in the queue, alone. */
bool		job_make(RModel *m, PendingRequest **requests, int n);
void		job_fail(CallGroup *j, const Err *e, const ErrorExtra *x);
/*
 * It would have to wait: those of its requests end that another model can be asked for.  False: nobody is
 * left.
 */
bool		job_elsewhere(CallGroup *j, const Err *e, const ErrorExtra *x);
/* Those who are left are asked for one by one. */
void		job_split(CallGroup *j);
/* Those who are left are asked for in two calls, after due_us; c: the one of all of them, which failed. */
void		job_halve(CallGroup *j, const UpstreamCall *c, int64_t due_us);
/* When all of its requests will have no use for it any more; 0 = never */
int64_t		job_deadline(const CallGroup *j);
/* Back to the front of the queue, alone. */
void		pending_requeue(PendingRequest *a);
/* To be buried. */
void		job_kill(CallGroup *j);
void		job_free(CallGroup *j);

/* upstream_call.c */
void		call_pend(UpstreamCall *c);
void		call_unpend(UpstreamCall *c);
/* Make a try of it. */
void		call_start(UpstreamCall *c, int url);
/* Something has happened to it. */
void		call_settle(UpstreamCall *c);
/* Close and free it. */
void		call_free(UpstreamCall *c);
/* Those of the model's options, with its secret; there is room for `more`. */
void		headers_begin(Headers *h, const ROptions *o, StrView secret, int more);
/* Wiped. */
void		headers_free(Headers *h);

/* health_check.c */
/* The model is asked: what its health checks need. */
void		check_note(RModel *m, StrView secret);
/* What has been found out, and what is due. */
void		check_turn(RModel *m);
/* Close what may not be any more: hosts that aren't allowed, */
void		check_settings(RModel *m);
/* Closes all connections for good and wipes the secret. */
void		check_forget(RModel *m);

/* context_length.c */
/* The request needs to know how long the context is, and another one is asking for that. */
bool		length_stands_by(RModel *m, PendingRequest *a);
/* A job in the making: must it ask for that first? */
void		length_begin(CallGroup *j);
/* An answer about the model (WF_DONE). */
void		length_learn(RModel *m, const Buf *fields);
void		length_forget(RModel *m);
/* The job that asked for it has its answer (NULL: it isn't told); */
void		length_told(CallGroup *j, const Buf *fields);
/*
 * The call that asked for the length failed: true, it will never be known, and the requests are back in the
 * queue; false, the waiting requests fail with the error.
 */
bool		length_failed(CallGroup *j, const Err *e, const ErrorExtra *x);
/* The call that asked for the length ended otherwise: the waiting requests are back in the queue. */
void		length_over(RModel *m, LengthAsked asked);

/* remote_model.c */
RModel	   *rmodel_get(Dispatcher *l, const RequestFields *w, Err *e);
void		rmodel_forget(Dispatcher *l, uint32_t dboid, StrView name, uint64_t hash);
void		rmodel_settings(RModel *m);
/* A path of it, with the query; off_v1: beside "/v1". */
void		rmodel_url(const RUrl *u, const char *path, bool off_v1, Buf *to);
/* Free those that are forgotten and not used. */
void		rmodel_tidy(Dispatcher *l);
/* Is each url ill, or has said that it takes nothing for longer than a first retry would wait? */
bool		rmodel_shunned(const RModel *m);
/* Make what calls may be made. */
void		rmodel_dispatch(RModel *m);

/* remote_stats.c */
void		rstats_observe(RModel *m, WireHistId id, int64_t value);
void		rstats_done(PendingRequest *a, const Buf *fields);
void		rstats_model_gone(RModel *m);
void		rstats_reset(Dispatcher *l);

#endif
