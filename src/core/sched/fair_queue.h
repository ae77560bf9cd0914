/*
 * fair_queue.h
 *	  A tree of those who wait for service: whose turn is it?
 *
 * Each node has a clock: the service that it has had, divided by its weight.  Among nodes of one
 * parent it is the turn of the one whose clock is behind the others'; so those that always want
 * service get it by their weights, whatever the size of what they ask for.
 *
 * Where the others are, the parent's own clock says: it goes on by the service that is given below it,
 * divided by the weights of all that are active there: that have requests, or, but for leaves, have none any
 * more and are still ahead, as the service that they had in one go was theirs by and by.  A new node begins
 * there, and so does one that comes back after a while: what it was behind when it last waited is worth less
 * and less, so nobody saves up.  A node that has just had more than its share and comes back is still ahead:
 * to leave and return brings nothing.  And as that clock goes on with each service, whoever
 * it is for, those that are ahead have their turn however many new ones come.
 *
 * Leaves have queues; the scheduler's are sessions, below roles, below the two classes of requests.
 */
#ifndef VLLM_CORE_SCHED_FAIR_QUEUE_H
#define VLLM_CORE_SCHED_FAIR_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id_map.h"

typedef struct Req Req;

/* A list of requests, by their prev and next. */
typedef struct ReqList
{
	Req		   *head;
	Req		   *tail;
	int			n;
} ReqList;

typedef struct Fair Fair;
struct Fair
{
	Fair	   *up;				/* NULL: the root */
	uint64_t	key;			/* unique among its parent's */
	double		weight;			/* > 0 */
	double		clock;			/* service so far / weight, from some start on */
	double		left;			/* its parent's now when it last waited */
	uint64_t	since;			/* when it came, or had its last turn: of equals the least is first */
	int			at;				/* place in its parent's heap; -1 = nobody below it waits */
	int64_t		n_refs;			/* requests below it, that wait or run */
	/* a role's (sched_roles.c), as of the count of that number */
	uint64_t	counted;
	int			blocks;			/* of its requests that run, */
	int			running;		/* number of requests that run */
	bool		is_ahead;		/* it is in its parent's list of these, between: */
	Fair	   *prev;
	Fair	   *next;
	ReqList		queue;			/* a leaf's */
	/* of its children */
	IdMap		kids;			/* all that are known */
	size_t		sweep_at;		/* so many of them: look whom to forget */
	Fair	  **heap;			/* [n]: those that wait, by clock and since */
	int			n;
	int			cap;
	double		active;			/* the weights of those that are active; */
	Fair	   *ahead;			/* active nodes without requests, a list */
	double		soonest;		/* least clock of the list `ahead` */
	double		now;			/* where they are: the service they had / active; never goes back */
	uint64_t	turns;
};

/* The child of that key, made if there is none; it has that weight from now on. */
Fair	   *fair_kid(Fair *up, uint64_t key, double weight);
/* A request begins, or ends, to be one of f's, a leaf.  f may be gone behind fair_unref(). */
void		fair_ref(Fair *f);
void		fair_unref(Fair *f);
/* Somebody waits in f, a leaf; nobody does any more. */
void		fair_wait(Fair *f);
void		fair_rest(Fair *f);
/* As fair_wait(), of a leaf that has not been served: it is as old as it was. */
void		fair_back(Fair *f);
/* The leaf below f whose turn it is; NULL = nobody waits. */
Fair	   *fair_first(Fair *f);
/*
 * The leaf below f whose first request is chosen, of all such the one whose turn is next, if neither it nor a
 * node above it is ahead of the one whose turn it is by more service than lead; NULL = there is none.
 */
Fair	   *fair_first_of(Fair *f, bool (*chosen) (const Req *r), double lead);
/* f, a leaf, has its turn; it gets so much service. */
void		fair_turn(Fair *f);
void		fair_charge(Fair *f, double service);
/* Everything below f. */
void		fair_clear(Fair *f);
/* Is the heap one, and each node below f in it exactly when it waits? */
bool		fair_check(const Fair *f);

#endif
