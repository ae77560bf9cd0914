/*
 * request_queue.h
 *	  Requests that wait for a call, and the coalescing of inputs into one call.  The order is by
 *	  priority, then by the weight of the caller's role, then by arrival.
 */
#ifndef VLLM_REMOTE_REQUEST_QUEUE_H
#define VLLM_REMOTE_REQUEST_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#define COALESCE_WAIT_US INT64_C(2000)

typedef struct QueueItem QueueItem;
typedef struct RoleQueue RoleQueue;
typedef struct QueueGroup QueueGroup;

/* Embedded in each queued object. */
struct QueueItem
{
	/* set by the owner */
	int			priority;		/* lower is scheduled first */
	bool		background;		/* after all others */
	bool		first;			/* before all others: it has waited already */
	uint32_t	login;			/* role whose share it uses */
	int			weight;			/* share in proportion to other roles' weights; 0 = 1 */
	bool		can_join;
	int64_t		since_us;		/* start of its wait for coalescing */
	/* private to request_queue.c */
	RoleQueue *role_queue;		/* NULL: not in the queue */
	QueueItem *prev, *next;
	QueueGroup *group;
	QueueItem *group_prev, *group_next;
};

/* Are both requests the same but for their inputs? */
typedef bool (*QueueSame) (const QueueItem *a, const QueueItem *b);

typedef struct RequestQueue RequestQueue;

RequestQueue *rqueue_new(QueueSame same, int most);
void		rqueue_free(RequestQueue *g);
void		rqueue_add(RequestQueue *g, QueueItem *it);
void		rqueue_remove(RequestQueue *g, QueueItem *it);
int			rqueue_count(const RequestQueue *g);
/*
 * Take the next requests that may go into one call out of the queue and store them in v (of capacity
 * `most`).  Returns their number.  0: the queue is empty, or the first requests wait for others to join
 * them until *when_us.  idle: no call is running, so waiting gains nothing.
 */
int			rqueue_take(RequestQueue *g, bool idle, int64_t now_us, QueueItem **v, int64_t *when_us);
/* Call f for each item of the queue.  f may remove the item that it gets. */
void		rqueue_each(RequestQueue *g, void (*f) (void *ctx, QueueItem *it), void *ctx);

#endif
