/*
 * load_balancer.h
 *	  The urls of a model: which one is asked next, and which ones are left in peace.
 */
#ifndef VLLM_REMOTE_UPSTREAM_LOAD_BALANCER_H
#define VLLM_REMOTE_UPSTREAM_LOAD_BALANCER_H

#include <stdbool.h>
#include <stdint.h>

#include "remote/upstream/call_outcome.h"
#include "ipc/wire.h"

#define PICK_RUN		5			/* failures in a row that open a breaker */
#define PICK_SEEN		20			/* calls; more than half of them failing opens a breaker, too */
#define PICK_OPEN_US	INT64_C(1000000)	/* it stays open so long at first, */
#define PICK_OPEN_MOST_US INT64_C(30000000)	/* longest time that a breaker stays open */
#define PICK_PATIENCE_US INT64_C(5000000)	/* a request waits so long for a breaker */
/* a probe that takes longer is not waited for where a health check is answered */
#define PICK_PROBE_US	INT64_C(2000000)
#define PICK_CHECK_US	INT64_C(1000000)	/* a health check is expected to take no longer, */
#define PICK_CHECK_MOST_US INT64_C(5000000) /* time limit of a health check */

typedef struct PickUrl
{
	WireHealth	health;
	bool		banned;			/* its host is not allowed */
	int			in_flight;
	double		window;			/* so many calls at once; less behind a 429, growing again */
	int			run;			/* failures in a row */
	uint32_t	seen;			/* the last PICK_SEEN ends, newest in bit 0; 1 = failure */
	int			n_seen;
	int64_t		open_until_us;	/* DOWN */
	int64_t		open_us;		/* how long it was open last */
	bool		probing;		/* TRYING: the call that finds out is under way, */
	int64_t		probe_us;		/* TRYING: start of the newest such call */
	bool		checking;		/* a health check is under way, */
	bool		check_closed;	/* the health check began when the breaker was closed */
	int64_t		check_us;		/* start of the health check */
	int64_t		heard_us;		/* when it answered last, whatever was asked */
	int64_t		narrowed_us;	/* when the window was halved last */
	int			peak;			/* most calls at once of late */
	int64_t		peak_us;
	int64_t		latency_us;		/* moving average of answered calls; 0 = none yet */
	/* a call was given up after so long, and none was answered since; 0 = no such */
	int64_t		given_up_us;
} PickUrl;

typedef struct LoadBalancer
{
	PickUrl    *u;
	int			n;
	int			most;			/* calls at once, per url */
	int			last;			/* round robin among equals */
	bool		checks;			/* what is DOWN gets no call until a health check was answered */
} LoadBalancer;

typedef enum PickResult
{
	PICK_OK,					/* *url */
	/* one that works has no place: when a call has ended, or at *when_us, 0 = no such */
	PICK_BUSY,
	PICK_LATER,					/* at *when_us */
	PICK_NEVER,					/* not within patience; *when_us: until then at least, 0 = not known */
	PICK_BANNED					/* no host is allowed */
} PickResult;

/* What stands in a url's way besides. */
typedef struct PickLimit
{
	/* may be called from then on, by its options (INT64_MAX: when a call has ended), */
	int64_t		own_us;
	int64_t		said_us;		/* time until which the endpoint asked for no calls */
	int64_t		path_us;		/* time until which this path gets no calls */
} PickLimit;

void		lb_init(LoadBalancer *p, int n, int most);
void		lb_free(LoadBalancer *p);
/* limits: n of them; avoid: the url that has failed for this call just now, -1 = none */
PickResult	lb_choose(LoadBalancer *p, const PickLimit *limits, int avoid, int64_t now_us, int64_t *when_us,
					  int *url);
/* Its breaker is open, or one call is finding out. */
bool		lb_is_open(const LoadBalancer *p, int url, int64_t now_us);
/* A call begins; true: it is a probe. */
bool		lb_begin(LoadBalancer *p, int url, int64_t now_us);
/* A call ends: HEALTH_UNKNOWN if it was cancelled; latency_us < 0: no answer. */
void		lb_end(LoadBalancer *p, int url, bool probe, FateHealth health, bool throttled,
				   int64_t latency_us, int64_t now_us);

/* It had no answer when it ended, after so long, since nobody waited any longer. */
void		lb_given_up(LoadBalancer *p, int url, int64_t us);

/*
 * When the url's next health check is due; INT64_MAX: none is.  interval_us: of those that are idle, 0 = none
 */
int64_t		pick_check_at(const LoadBalancer *p, int url, int64_t interval_us);
void		pick_check_begin(LoadBalancer *p, int url, int64_t now_us);
/* HEALTH_UNKNOWN: it was cancelled, or could not be made */
void		pick_check_end(LoadBalancer *p, int url, FateHealth health, int64_t now_us);

#endif
