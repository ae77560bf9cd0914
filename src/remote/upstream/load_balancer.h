/*
 * load_balancer.h
 *	  The urls of a model: which one gets the next call, and which ones get none for a while.
 */
#ifndef VLLM_REMOTE_UPSTREAM_LOAD_BALANCER_H
#define VLLM_REMOTE_UPSTREAM_LOAD_BALANCER_H

#include <stdbool.h>
#include <stdint.h>

#include "remote/upstream/call_outcome.h"
#include "ipc/wire.h"

#define LB_RUN			5			/* failures in a row that open a breaker */
/* window of recent calls; if more than half of them failed, the breaker opens, too */
#define LB_SEEN			20
#define LB_OPEN_US		INT64_C(1000000)	/* how long a breaker stays open at first */
#define LB_OPEN_MAX_US INT64_C(30000000)	/* longest time that a breaker stays open */
#define LB_MAX_WAIT_US INT64_C(5000000)		/* how long a request waits for a breaker */
/* a probe that takes longer is not waited for if a health check succeeds */
#define LB_PROBE_US		INT64_C(2000000)
#define LB_CHECK_US		INT64_C(1000000)	/* expected maximal time of a health check */
#define LB_CHECK_MAX_US INT64_C(5000000) /* time limit of a health check */

typedef struct LbUrl
{
	WireHealth	health;
	bool		banned;			/* its host is not allowed */
	int			in_flight;
	/* maximal number of calls at once; halved by a 429, growing again afterwards */
	double		window;
	int			run;			/* failures in a row */
	uint32_t	seen;			/* results of the last LB_SEEN calls, newest in bit 0; 1 = failure */
	int			n_seen;
	int64_t		open_until_us;	/* DOWN: end of the open state */
	int64_t		open_us;		/* its last time open */
	bool		probing;		/* TRYING: a probing call is running */
	int64_t		probe_us;		/* TRYING: start of the newest probe */
	bool		checking;		/* a health check is running */
	bool		check_closed;	/* the breaker was closed when the health check began */
	int64_t		check_us;		/* start of the health check */
	int64_t		responded_us;	/* time of its last response to anything */
	int64_t		narrowed_us;	/* time when the window was last halved */
	int			peak;			/* most calls at once recently */
	int64_t		peak_us;
	int64_t		latency_us;		/* moving average of successful calls; 0 = none yet */
	/* longest time after which a call was given up since the last success; 0 = none */
	int64_t		given_up_us;
} LbUrl;

typedef struct LoadBalancer
{
	LbUrl      *u;
	int			n;
	int			most;			/* calls at once for each url */
	int			last;			/* for round robin among equal urls */
	bool		checks;			/* a url that is DOWN gets no call until a health check has succeeded */
} LoadBalancer;

typedef enum LbResult
{
	LB_OK,						/* call *url */
	/* working urls are at their limit: try again when a call has ended, or at *when_us (0 = unknown) */
	LB_BUSY,
	LB_LATER,					/* try again at *when_us */
	/* not within the request's patience; *when_us: at least until then, 0 = unknown */
	LB_NEVER,
	LB_BANNED					/* no host is allowed */
} LbResult;

/* Limits of one url outside of the load balancer. */
typedef struct LbLimit
{
	/* earliest call by the limits of its options (INT64_MAX: when a call has ended) */
	int64_t		own_us;
	int64_t		said_us;		/* time until which the endpoint asked for no calls */
	int64_t		path_us;		/* time until which this path gets no calls */
} LbLimit;

void		lb_init(LoadBalancer *p, int n, int most);
void		lb_free(LoadBalancer *p);
/*
 * Choose the url of the next call.  limits: one for each url.  avoid: the url at which this call has
 * just failed; -1 = none.
 */
LbResult	lb_choose(LoadBalancer *p, const LbLimit *limits, int avoid, int64_t now_us, int64_t *when_us,
					  int *url);
/* Is its breaker open, or is a probe running? */
bool		lb_is_open(const LoadBalancer *p, int url, int64_t now_us);
/* A call begins.  Returns true if it is a probe. */
bool		lb_begin(LoadBalancer *p, int url, int64_t now_us);
/* A call ends.  HEALTH_UNKNOWN: it was cancelled.  latency_us < 0: there was no response. */
void		lb_end(LoadBalancer *p, int url, bool probe, CallHealth health, bool throttled,
				   int64_t latency_us, int64_t now_us);

/* A call was given up after `us` without a response, because no request needed it any more. */
void		lb_given_up(LoadBalancer *p, int url, int64_t us);

/*
 * Return when the url's next health check is due; INT64_MAX: never.  interval_us: interval for idle
 * urls; 0 = no checks of those.
 */
int64_t		lb_check_at(const LoadBalancer *p, int url, int64_t interval_us);
void		lb_check_begin(LoadBalancer *p, int url, int64_t now_us);
/* HEALTH_UNKNOWN: the health check was cancelled or could not be made. */
void		lb_check_end(LoadBalancer *p, int url, CallHealth health, int64_t now_us);

#endif
