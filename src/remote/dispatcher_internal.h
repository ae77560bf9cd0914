/*
 * dispatcher_internal.h
 *	  What dispatcher.c, pending_request.c, call_group.c, upstream_call.c, context_length.c,
 *	  remote_model.c and remote_stats.c share.
 *
 * A PendingRequest is a client's request until its final frame.  It waits for the limits of its role
 * (role_admission.h), then in its model's queue (request_queue.h).  Then it becomes, alone or with
 * others, a CallGroup: the calls that encode.c makes of the requests, and the DecodedReply that reads
 * the responses.  An UpstreamCall is one of these calls, with all its tries.  While it can't be made, or
 * waits for a retry, it is in its model's list of pending calls.
 *
 * The dispatcher sends frames from within callbacks of the HTTP client, and the sink that gets a frame
 * may cancel requests; but libcurl may not be called from its own callbacks.  So only
 * dispatcher_retire() frees objects and closes connections, when no callback is on the stack (depth 0).
 *
 * Functions called job_... work on a CallGroup, which is also called a job.
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

/* A running health check (health_check.c). */
typedef struct Check
{
	RModel	   *m;
	int			url;
	HttpCall   *h;
	bool		ended;
	HttpResult	res;			/* set once ended */
} Check;

/* State of one url of a model, next to its LbUrl. */
typedef struct RUrl
{
	const char *base;			/* points into the options */
	/* points into the options: "", or "?" and the query that follows every path */
	const char *query;
	/* allowlist entry that would allow its host; '' = the url is invalid, see why */
	char		entry[320];
	char		why[160];
	Rate		rate;
	Paths		paths;
	int64_t		calls, failures, retries, throttled;
	int64_t		answered_us;	/* time of the last response; 0 = never */
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
	LoadBalancer lb;
	RUrl	   *u;				/* array of pick.n */
	char	   *secret;			/* the latest request's, for health checks; NULL = none */
	RetryBudget budget;
	UpstreamCall *pending, *pending_last;
	int			n_requests;			/* requests that have not ended, or are still in a CallGroup */
	int			n_deferred;		/* requests that wait for a limit of their role */
	int			n_calls;		/* running calls */
	bool		forgotten;		/* freed after its last request */
	bool		fresh;			/* requests were added since the queue was last searched */
	CallGroup  *sizer;			/* the CallGroup that asks for the context length; NULL = none */
	int64_t		reported_us;	/* time at which o->reported_len was learned */
	/* requests with deadlines before this time have been ended already (look_at_queue()) */
	int64_t		looked_us;
	bool		check_saw_open; /* was every circuit open at that check? */
	/* statistics */
	int64_t		used_us;
	int64_t		requests, prompt_tokens, cached_tokens, output_tokens;
	int64_t		ended[WIRE_N_ENDS];
	WireHist	hist[WIRE_N_HISTS];
};

/* What the endpoint has been asked about its context length (context_length.c). */
typedef enum LengthProbed
{
	LENGTH_NOTHING,
	LENGTH_LIST,				/* the list of its models */
	LENGTH_ALL					/* the list, and token counts if the endpoint counts tokens */
} LengthProbed;

struct PendingRequest
{
	QueueItem	item;			/* first member, so that a QueueItem * is a PendingRequest * */
	Dispatcher *l;
	RModel	   *m;
	CallGroup  *job;
	void	   *owner;
	RoleItem	role;
	int64_t		used;			/* tokens charged to its role; -1 = unknown */
	RequestFields w;
	int64_t		deadline_us, arrival_us;
	int			timeout_ms;
	uint64_t	id;				/* unique in the dispatcher */
	bool		alone;			/* may no longer be coalesced */
	/* in no queue and no group: another request asks for the context length that this one needs */
	bool		waits_for_length;
	LengthProbed probed;		/* what was asked without learning the length */
	bool		accepted;
	bool		detached;		/* the sink gets no more frames */
	int			tries, charged;
	int			texts;
	/* times of the first call, and of the first and last WF_TEXT; 0 = none */
	int64_t		called_us, first_us, last_us;
	PendingRequest *prev, *next;	/* dispatcher's list of requests that are not gone */
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
	bool		halved;			/* half of a call that failed */
	int64_t		whole_us;		/* start of the call before it was halved */
	RCalls		calls;
	UpstreamCall **c;
	int			left;			/* calls without a complete response */
	DecodedReply *reply;
	size_t		held;			/* bytes of the reply counted in Dispatcher.held */
	int			url;			/* url called last; -1 = none */
	int64_t		first_byte_us;
	/* tokens of tries that failed, as far as the endpoint reported them */
	int64_t		lost_prompt, lost_completion;
	bool		sizes;			/* its one call asks for the context length, for no request */
	RequestFields question;		/* the fields of that call */
	bool		emitted;
	bool		dead;
	CallGroup  *next_retired;
};

typedef enum CallState
{
	CALL_PENDING,				/* in the model's list */
	CALL_RUNS,
	CALL_WHOLE,					/* has a complete response */
	CALL_DRAINS					/* belongs to no group: the connection may end by itself for a moment */
} CallState;

struct UpstreamCall
{
	Dispatcher *l;
	CallGroup  *job;
	int			i;				/* index among the group's calls */
	CallState	state;
	HttpCall   *h;
	Buf			url_text, error_body;
	Buf			body;			/* CALL_DRAINS: the request body, which may still be being sent */
	HttpResult	res;
	Err			e;				/* if garbled: the reason */
	bool		rate_read, ended, garbled, whole;
	bool		paused, full;	/* full: the client has enough unread bytes for now */
	bool		touched;
	UpstreamCall *next_touched;
	int			url;			/* url of the current try */
	uint64_t	path;			/* paths_key() of the current try */
	bool		probe;
	int			avoid;
	int			tries;
	int64_t		begin_us;
	int64_t		due_us;			/* CALL_PENDING: earliest start; CALL_DRAINS: latest end */
	UpstreamCall *prev, *next;	/* list of pending or of draining calls */
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
	int			n_calls;		/* handles of libcurl in use */
	size_t		held,			/* bytes of all responses, now and at most */
				most_held;
	UpstreamCall *touched;
	UpstreamCall *drains;
	PendingRequest *retired;
	CallGroup  *dead;
	int64_t		wake_us;		/* next wakeup, computed by dispatcher_poll() */
	WireFigures early;			/* counts of requests that never reached a model, and of forgotten models */
	WireFigures base;			/* counts to subtract since the last reset */
	int64_t		started_us, published_us;
	bool		rested;			/* published, and nothing has happened since */
};

/* HTTP headers of a call. */
typedef struct Headers
{
	const char **v;
	int			n;
} Headers;

/* Additional fields of an error frame. */
typedef struct ErrorExtra
{
	const char *url;			/* NULL = no endpoint was asked */
	bool		elsewhere;
	int64_t		retry_after_ms; /* -1 = none */
	int64_t		prompt_tokens, completion_tokens;
} ErrorExtra;

/* dispatcher.c */
void		dispatcher_wake(Dispatcher *l, int64_t at_us);
void		dispatcher_queue_touched(UpstreamCall *c);
/* Set another clock, for tests whose simulated network has its own time. */
void		dispatcher_set_clock(Dispatcher *l, int64_t (*clock) (void));

/* pending_request.c */
void		pending_frame(PendingRequest *a, WireFrame kind, const Buf *fields, bool final);
void		pending_error(PendingRequest *a, const Err *e, const ErrorExtra *x);
/*
 * End the request with an error, because its deadline or its maximal wait for its role's limits has
 * passed.
 */
void		pending_late(PendingRequest *a);
/* The client has cancelled the request. */
void		pending_drop(PendingRequest *a);
void		pending_free(PendingRequest *a);
/* Return the message's last field with the tag; n = 0 if it has none. */
StrView	pending_field(const PendingRequest *a, WireTag tag);

/* call_group.c */
/*
 * Make a CallGroup of n requests.  Returns false if the requests have ended with errors, or are back in
 * the queue, each alone.
 */
bool		job_make(RModel *m, PendingRequest **requests, int n);
void		job_fail(CallGroup *j, const Err *e, const ErrorExtra *x);
/*
 * A call of the group would have to wait.  End those requests that the caller can send to another model.
 * Returns false if no request is left.
 */
bool		job_elsewhere(CallGroup *j, const Err *e, const ErrorExtra *x);
/* Make separate calls for the requests that are left, one for each. */
void		job_split(CallGroup *j);
/*
 * Make two calls for the requests that are left, not before due_us.  c: the call for all of them, which
 * failed.
 */
void		job_halve(CallGroup *j, const UpstreamCall *c, int64_t due_us);
/*
 * Set the tokens of an error of one of the group's requests: its share of those that the group's failed
 * calls took, and of these further ones.
 */
void		job_lost_tokens(const CallGroup *j, int64_t prompt, int64_t completion, ErrorExtra *x);
/* Return the time after which no request of the group needs the result any more; 0 = never. */
int64_t		job_deadline(const CallGroup *j);
/* Put the request back at the front of the queue.  It may no longer be coalesced. */
void		pending_requeue(PendingRequest *a);
/* Mark the group dead; dispatcher_retire() frees it. */
void		job_kill(CallGroup *j);
void		job_free(CallGroup *j);

/* upstream_call.c */
void		call_pend(UpstreamCall *c);
void		call_unpend(UpstreamCall *c);
/* Start a try of the call at the url. */
void		call_start(UpstreamCall *c, int url);
/* Handle what has happened to the call since it was touched. */
void		call_settle(UpstreamCall *c);
/* Close and free the call. */
void		call_free(UpstreamCall *c);
/* Begin with the headers of the model's options, with its secret.  Reserves space for `more` headers. */
void		headers_begin(Headers *h, const ROptions *o, StrView secret, int more);
/* Free the headers and wipe the secret in them. */
void		headers_free(Headers *h);

/* health_check.c */
/* Remember what the health checks of the model need, when a request for it is submitted. */
void		check_note(RModel *m, StrView secret);
/* Handle health checks that have ended and start those that are due. */
void		health_checks_poll(RModel *m);
/* Close health checks that the new settings do not allow, because their host is no longer allowed. */
void		check_settings(RModel *m);
/* Close all health checks for good and wipe the secret. */
void		check_forget(RModel *m);

/* context_length.c */
/* Must the request wait, because it needs the context length and another request is asking for it? */
bool		length_must_wait(RModel *m, PendingRequest *a);
/* Called while the group is made: make it ask for the context length first, if it needs that. */
void		length_begin(CallGroup *j);
/* Learn the context length from a reply about the model (WF_DONE). */
void		length_learn(RModel *m, const Buf *fields);
void		length_forget(RModel *m);
/*
 * The group that asked for the context length has its reply.  fields NULL: the endpoint does not report
 * it.
 */
void		length_reported(CallGroup *j, const Buf *fields);
/*
 * The call that asked for the length failed.  Returns true if the length will never be known and the
 * requests are back in the queue.  Returns false if the waiting requests must fail with the error.
 */
bool		length_failed(CallGroup *j, const Err *e, const ErrorExtra *x);
/* The call that asked for the length ended in another way.  The waiting requests are back in the queue. */
void		length_over(RModel *m, LengthProbed probed);

/* remote_model.c */
RModel	   *rmodel_get(Dispatcher *l, const RequestFields *w, Err *e);
void		rmodel_forget(Dispatcher *l, uint32_t dboid, StrView name, uint64_t hash);
void		rmodel_settings(RModel *m);
/* Append the url with the path and the query.  off_v1: leave out the base URL's "/v1". */
void		rmodel_url(const RUrl *u, const char *path, bool off_v1, Buf *to);
/* Free the models that are forgotten and unused. */
void		rmodel_tidy(Dispatcher *l);
/* Is every url down, or has it asked for no calls for longer than a first retry would wait? */
bool		rmodel_circuit_open(const RModel *m);
/* Make the calls that may be made now. */
void		rmodel_dispatch(RModel *m);

/* remote_stats.c */
void		rstats_observe(RModel *m, WireHistId id, int64_t value);
void		rstats_done(PendingRequest *a, const Buf *fields);
void		rstats_model_removed(RModel *m);
void		rstats_reset(Dispatcher *l);

#endif
