/*
 * request_queue.h
 *	  Requests that wait for their turn: by priority, then by weight of the caller's role, then in order of
 *	  arrival; and those whose inputs may go into one call.
 */
#ifndef VLLM_REMOTE_REQUEST_QUEUE_H
#define VLLM_REMOTE_REQUEST_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#define GATHER_WAIT_US	INT64_C(2000)

typedef struct GatherItem GatherItem;
typedef struct GatherTurn GatherTurn;
typedef struct GatherGroup GatherGroup;

/* In whatever waits. */
struct GatherItem
{
	/* set by the owner */
	int			priority;		/* lower is sooner */
	bool		background;		/* behind all others */
	bool		first;			/* before all others: it has waited already */
	uint32_t	login;			/* whose turn it uses, */
	int			weight;			/* weight of the turn in proportion to others'; 0 = 1 */
	bool		gathers;
	int64_t		since_us;		/* of gathering: it waits from then on */
	/* request_queue.c's */
	GatherTurn *turn;			/* NULL: is not in the queue */
	GatherItem *prev, *next;
	GatherGroup *group;
	GatherItem *group_prev, *group_next;
};

/* Do both ask for the same but for their inputs? */
typedef bool (*GatherSame) (const GatherItem *a, const GatherItem *b);

typedef struct RequestQueue RequestQueue;

RequestQueue *rqueue_new(GatherSame same, int most);
void		rqueue_free(RequestQueue *g);
void		rqueue_add(RequestQueue *g, GatherItem *it);
void		rqueue_remove(RequestQueue *g, GatherItem *it);
int			rqueue_count(const RequestQueue *g);
/*
 * Those whose turn it is, out of the queue: into v (room for `most`), how many.  0: nobody waits, or who does
 * may be joined by others until *when_us.  idle: nothing is under way, so that waiting gains nothing.
 */
int			rqueue_take(RequestQueue *g, bool idle, int64_t now_us, GatherItem **v, int64_t *when_us);
/* Each one of the queue; it may remove the one that it gets. */
void		rqueue_each(RequestQueue *g, void (*f) (void *ctx, GatherItem *it), void *ctx);

#endif
