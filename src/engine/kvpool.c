/*
 * kvpool.c
 *	  The block pool of one model: fixed blocks, reference counts, LRU free list.
 *
 * Blocks live in one array; the free ones are threaded by an intrusive doubly
 * linked list whose sentinel is block 0, the null block.  So block 0 is never
 * on the list as an element and can never be handed out.
 *
 * Invariants (kvpool_check): a block is on the free list exactly when its ref
 * count is 0; the list is linked the same way in both directions; `available`
 * is its length; the null block's count stays 0.
 *
 * Owner: the step thread.  Every operation is O(1) per block; kvpool_check is
 * O(blocks).  Tested by tests/unit/test_kvpool.c: the order of reuse, and 10^5
 * random operations against a naive model.
 */
#include "engine/kvpool.h"

#include <string.h>

#include "base/mem.h"

#define NULL_BLOCK 0			/* sentinel of the free list */

typedef struct KvBlock
{
	int32_t		refs;			/* block tables that hold the block */
	int32_t		prev;			/* free list neighbours, when refs == 0 */
	int32_t		next;
} KvBlock;

struct KvPool
{
	int			n_blocks;		/* the null block included */
	int			available;		/* length of the free list */
	KvBlock    *blocks;			/* [n_blocks] */
};

/* Append a block at the tail: it is reused after all that are free now. */
static void
list_append(KvPool *p, int32_t b)
{
	int32_t		tail = p->blocks[NULL_BLOCK].prev;

	p->blocks[b].prev = tail;
	p->blocks[b].next = NULL_BLOCK;
	p->blocks[tail].next = b;
	p->blocks[NULL_BLOCK].prev = b;
	p->available++;
}

/* ... at the head: it is the next to be reused. */
static void
list_prepend(KvPool *p, int32_t b)
{
	int32_t		head = p->blocks[NULL_BLOCK].next;

	p->blocks[b].prev = NULL_BLOCK;
	p->blocks[b].next = head;
	p->blocks[head].prev = b;
	p->blocks[NULL_BLOCK].next = b;
	p->available++;
}

static void
list_remove(KvPool *p, int32_t b)
{
	KvBlock    *k = &p->blocks[b];

	p->blocks[k->prev].next = k->next;
	p->blocks[k->next].prev = k->prev;
	k->prev = k->next = NULL_BLOCK;
	p->available--;
}

KvPool *
kvpool_new(int n_blocks)
{
	KvPool	   *p = mem_zalloc(sizeof(*p));

	p->n_blocks = n_blocks < 2 ? 2 : n_blocks;
	p->blocks = mem_zalloc((size_t) p->n_blocks * sizeof(KvBlock));
	for (int32_t b = 1; b < p->n_blocks; b++)
		list_append(p, b);
	return p;
}

void
kvpool_free(KvPool *p)
{
	if (p == NULL)
		return;
	mem_free(p->blocks);
	mem_free(p);
}

int
kvpool_total(const KvPool *p)
{
	return p->n_blocks - 1;
}

int
kvpool_available(const KvPool *p)
{
	return p->available;
}

bool
kvpool_alloc(KvPool *p, int n, int32_t *out)
{
	if (n > p->available)
		return false;
	for (int i = 0; i < n; i++)
	{
		int32_t		b = p->blocks[NULL_BLOCK].next;

		list_remove(p, b);
		p->blocks[b].refs = 1;
		out[i] = b;
	}
	return true;
}

void
kvpool_ref(KvPool *p, int32_t block)
{
	if (p->blocks[block].refs++ == 0)
		list_remove(p, block);
}

void
kvpool_unref(KvPool *p, int32_t block)
{
	if (--p->blocks[block].refs == 0)
		list_append(p, block);
}

void
kvpool_unref_first(KvPool *p, int32_t block)
{
	if (--p->blocks[block].refs == 0)
		list_prepend(p, block);
}

int
kvpool_refs(const KvPool *p, int32_t block)
{
	return p->blocks[block].refs;
}

bool
kvpool_check(const KvPool *p, Err *e)
{
	const KvBlock *k = p->blocks;
	int			n_free = 0;
	int			n_listed = 0;
	int32_t		b = k[NULL_BLOCK].next;
	int32_t		prev = NULL_BLOCK;

	for (; b != NULL_BLOCK; prev = b, b = k[b].next)
	{
		if (b < 0 || b >= p->n_blocks)
			return err_set(e, ERR_INTERNAL, "free list leads to block %d of %d", b, p->n_blocks);
		if (k[b].prev != prev)
			return err_set(e, ERR_INTERNAL, "block %d links back to %d, not to %d", b, k[b].prev, prev);
		if (k[b].refs != 0)
			return err_set(e, ERR_INTERNAL, "block %d is on the free list with %d references", b, k[b].refs);
		if (++n_listed >= p->n_blocks)
			return err_set(e, ERR_INTERNAL, "free list has a cycle");
	}
	if (k[NULL_BLOCK].prev != prev)
		return err_set(e, ERR_INTERNAL, "free list's tail is %d, not %d", k[NULL_BLOCK].prev, prev);
	for (b = 1; b < p->n_blocks; b++)
	{
		if (k[b].refs < 0)
			return err_set(e, ERR_INTERNAL, "block %d has %d references", b, k[b].refs);
		n_free += k[b].refs == 0;
	}
	if (n_free != n_listed || n_free != p->available)
		return err_set(e, ERR_INTERNAL, "%d blocks without references, %d on the free list, %d counted",
					   n_free, n_listed, p->available);
	if (k[NULL_BLOCK].refs != 0)
		return err_set(e, ERR_INTERNAL, "null block has %d references", k[NULL_BLOCK].refs);
	return true;
}
