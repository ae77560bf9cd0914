/*
 * fair_queue.h
 *	  Fair queueing in a tree: which of the waiting leaves is served next.
 *
 * Each node has a clock: the service that it has got, divided by its weight.  Among the children of a
 * node the one with the least clock is next.  So children that always want service get it in proportion
 * to their weights, whatever the size of each request.
 *
 * The parent's own clock (`now`) follows its children: it advances by the service given below it,
 * divided by the sum of the weights of its active children.  A child is active while it has requests.  A
 * child other than a leaf also stays active without requests while its clock is ahead of the parent's,
 * because the service that it got at once counts as spread over that time.  A new child starts at the
 * parent's clock.  So does a child that comes back after a while: the arrears that it had when it last
 * waited shrink as the clock advances, so a child can't save up service.  A child that has just got more
 * than its share and comes back is still ahead, so it gains nothing by leaving and returning.  And since
 * the parent's clock advances with each service, whichever child gets it, children that are ahead get
 * their turn however many new ones come.
 *
 * Leaves have queues.  In the scheduler leaves are sessions, below roles, below the two classes of
 * requests.
 */
#ifndef VLLM_CORE_SCHED_FAIR_QUEUE_H
#define VLLM_CORE_SCHED_FAIR_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id_map.h"

typedef struct Req Req;

/* A list of requests, linked by their prev and next. */
typedef struct ReqList
{
	Req		   *head;
	Req		   *tail;
	int			n;
} ReqList;

typedef struct Fair Fair;
struct Fair
{
	Fair	   *up;				/* parent; NULL = the root */
	uint64_t	key;			/* unique among the parent's children */
	double		weight;			/* > 0 */
	double		clock;			/* service so far / weight, starting at the parent's `now` */
	double		left;			/* the parent's `now` when this node last waited */
	uint64_t	since;			/* number of its arrival or last turn: breaks ties, the least first */
	int			at;				/* index in the parent's heap; -1 = no request waits below this node */
	int64_t		n_refs;			/* requests below this node that wait or run */
	/* of a role (sched_roles.c), valid if counted == Sched.n_counts: */
	uint64_t	counted;
	int			blocks;			/* blocks of its running requests */
	int			running;		/* number of requests that run */
	bool		is_ahead;		/* it is in its parent's list `ahead`, between prev and next */
	Fair	   *prev;
	Fair	   *next;
	ReqList		queue;			/* of a leaf */
	/* of its children: */
	IdMap		kids;			/* all known children */
	size_t		sweep_at;		/* at this number of children: forget those that are not needed */
	Fair	  **heap;			/* [n]: children that wait, by clock and since */
	int			n;
	int			cap;
	double		active;			/* sum of the weights of active children */
	Fair	   *ahead;			/* list of active children without requests */
	double		soonest;		/* least clock in the list `ahead` */
	double		now;			/* clock of the children: sum of service / active; never decreases */
	uint64_t	turns;
};

/* Return the child with that key, which is made if missing; sets its weight. */
Fair	   *fair_kid(Fair *up, uint64_t key, double weight);
/* Count a request of f, a leaf, or uncount it.  fair_unref() may free f. */
void		fair_ref(Fair *f);
void		fair_unref(Fair *f);
/* The leaf f has a waiting request; has none any more. */
void		fair_wait(Fair *f);
void		fair_rest(Fair *f);
/* Like fair_wait(), for a leaf whose request was not served: it keeps its age. */
void		fair_back(Fair *f);
/* Return the leaf below f that is next; NULL = none waits. */
Fair	   *fair_first(Fair *f);
/*
 * Return the next leaf below f whose first request is chosen, if neither it nor a node above it is ahead
 * of the leaf that is next by more than `lead` of service; NULL = there is none.
 */
Fair	   *fair_first_of(Fair *f, bool (*chosen) (const Req *r), double lead);
/* Give the leaf f its turn; charge service to it. */
void		fair_turn(Fair *f);
void		fair_charge(Fair *f, double service);
/* Free everything below f. */
void		fair_clear(Fair *f);
/* Check that the heap is valid, and that each node below f is in it exactly when it waits. */
bool		fair_check(const Fair *f);

#endif
