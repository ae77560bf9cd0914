/*
 * dedup.c
 *	  Equal requests of one pool share one result: a table of requests in flight and of kept replies.
 *
 * The key of a deterministic request is its function, its body and its option for errors.  While the
 * request is in flight, an equal one becomes one more holder of it.  After the last holder has
 * released the reply, a copy of body and reply is kept for later rows.  Copies take up to work_mem;
 * the oldest is dropped first.  The key in the table points into the body, so it must be moved with
 * it.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "pg/batch/request_internal.h"

static uint32
key_hash(const void *key, Size size)
{
	return ((const RequestKey *) key)->hash;
}

static int
key_compare(const void *a, const void *b, Size size)
{
	const RequestKey *x = a;
	const RequestKey *y = b;

	if (x->hash != y->hash || x->func != y->func || x->len != y->len || x->on_error != y->on_error)
		return 1;
	return memcmp(x->body, y->body, x->len);
}

/*
 * The hash includes the count of times that the model's cached results were cleared: a result
 * computed with earlier weights must not serve a request that follows.
 */
uint32
dedup_hash(const SqlRequest *r)
{
	return hash_combine(hash_bytes((const unsigned char *) r->body.data, (int) r->body.len),
						result_cache_cleared(r->model));
}

static HTAB *
dedup_table(BatchPool *p)
{
	HASHCTL		ctl = {
		.keysize = sizeof(RequestKey),.entrysize = sizeof(RequestEntry),
		.hash = key_hash,.match = key_compare,.hcxt = p->cxt
	};

	return hash_create("LLM requests", 256, &ctl,
					   HASH_ELEM | HASH_FUNCTION | HASH_COMPARE | HASH_CONTEXT);
}

RequestKey
dedup_key(const BatchRequest *q)
{
	return (RequestKey)
	{
		.func = q->func,.body = q->copy ? q->copy : q->carrier->body.data,
			.len = q->body_len,.hash = q->hash,.on_error = q->on_error
	};
}

void
dedup_forget(BatchRequest *q)
{
	RequestKey	key;

	if (!q->in_table)
		return;
	key = dedup_key(q);
	(void) hash_search(q->pool->table, &key, HASH_REMOVE, NULL);
	q->in_table = false;
}

static void
free_kept(BatchRequest *q)
{
	BatchPool  *p = q->pool;

	dedup_forget(q);
	p->kept_bytes -= q->space;
	pfree(q->copy);
	q->copy = NULL;
	q->next_free = p->free;
	p->free = q;
}

/*
 * The last holder has released a deterministic reply: keep a copy for later rows, if it is not too
 * large.  The key in the table must then point into the copied body.
 */
bool
dedup_keep(BatchRequest *q)
{
	BatchPool  *p = q->pool;
	Size		size = q->body_len + q->reply_len;
	Size		most = (Size) work_mem * 1024;
	RequestKey	key;
	RequestEntry *e;

	if (!q->in_table || !q->finished || q->err != NULL || size > most / 4)
		return false;
	if (q->copy == NULL)
	{
		char	   *copy = MemoryContextAlloc(p->cxt, Max(q->body_len + q->reply_len, 1));

		memcpy(copy, q->carrier->body.data, q->body_len);
		memcpy(copy + q->body_len, q->reply, q->reply_len);
		key = dedup_key(q);
		e = hash_search(p->table, &key, HASH_FIND, NULL);
		e->key.body = copy;
		q->copy = copy;
		q->reply = copy + q->body_len;
		q->space = GetMemoryChunkSpace(copy) + GetMemoryChunkSpace(q);
		p->held_bytes -= q->reply_len;
		batch_request_give_carrier_back(q);
	}
	p->kept_bytes += q->space;
	dlist_push_tail(&p->kept, &q->node);
	while (p->kept_bytes > most)
		free_kept(dlist_container(BatchRequest, node, dlist_pop_head_node(&p->kept)));
	return true;
}

/* Add one holder to the equal request. */
BatchRequest *
dedup_join(BatchPool *p, const RequestKey *key, BatchStats *stats)
{
	RequestEntry *e = p->table ? hash_search(p->table, key, HASH_FIND, NULL) : NULL;
	BatchRequest *q;

	if (e == NULL)
		return NULL;
	q = e->request;
	if (q->refs++ == 0)
	{
		dlist_delete(&q->node);
		p->kept_bytes -= q->space;
	}
	p->stats.deduplicated++;
	if (stats)
		stats->deduplicated++;
	return q;
}

void
dedup_enter(BatchRequest *q)
{
	RequestKey	key = dedup_key(q);
	RequestEntry *e;
	bool		found;

	if (q->pool->table == NULL)
		q->pool->table = dedup_table(q->pool);
	e = hash_search(q->pool->table, &key, HASH_ENTER, &found);
	e->request = q;
	q->in_table = true;
}
