/*
 * block_pool.c
 *	  The block pool of one model: blocks, reference counts, LRU free list, pages.
 *
 * Blocks live in one array; the free ones are threaded by an intrusive doubly linked list whose sentinel
 * is block 0, the null block.  So block 0 is never an element of the list and can never be allocated.
 * With windows there is a second list, of blocks whose window is idle, and a stack of blocks without
 * pages, which are free, too.
 *
 * Invariants (kvpool_check; each change of a count or a link asserts what it relies on):
 *  - a block is on the free list (or the stack of empty ones) exactly when its ref count is 0; the list
 *    is
 *	  linked the same way in both directions; `available` is its length; the null block's count stays 0;
 *  - each page is one block's or on the stack of free pages; a block with references has its full pages,
 *    one
 *	  with references to its window has that; a window is idle exactly when it is there and has no references;
 *	  a block has no fewer references than its window.
 *
 * Owner: the step thread.  Every operation is O(1) per block; kvpool_check is O(blocks).  Tested by
 * tests/unit/core/kv/test_block_pool.c: the order of reuse, and 10^5 random operations against a naive
 * model.
 */
#include "core/kv/block_pool.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define NULL_BLOCK 0			/* sentinel of the free list */

typedef struct KvBlock
{
	int32_t		refs;			/* number of block tables that contain the block */
	int32_t		prev;			/* neighbours in the free list, if refs == 0 */
	int32_t		next;
	uint64_t	since;			/* when it was freed */
} KvBlock;

/* The window of a block. */
typedef struct KvWindow
{
	int32_t		refs;
	bool		there;
	bool		empty;			/* the block has no pages at all, and is on the stack of empty blocks */
	int32_t		prev;			/* neighbours in the list of idle windows; sentinel 0 */
	int32_t		next;
	uint64_t	since;			/* when it became idle */
} KvWindow;

/* Additional state of a pool with windows. */
typedef struct Paging
{
	int			full;
	int			window;
	int			n_pages;
	int32_t    *map;			/* [n_blocks][full + window] */
	int32_t    *free;			/* [n_free] pages that belong to no block */
	int			n_free;
	int32_t    *empty;			/* [n_empty] blocks without pages */
	int			n_empty;
	KvWindow   *windows;		/* [n_blocks] */
	int			n_idle;
	uint64_t	clock;
	void		(*lost) (void *ctx, int32_t block);
	void	   *lost_ctx;
} Paging;

struct KvPool
{
	int			n_blocks;		/* including the null block */
	int			available;		/* length of the free list */
	KvBlock    *blocks;			/* [n_blocks] */
	uint8_t    *touched;		/* [pages + 1] */
	int			n_touched;
	Paging	   *paging;			/* NULL = each block is a page */
};

/* Append a block at the tail: it is reused after all blocks that are free now. */
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

/* Insert a block at the head of the free list: it is reused next. */
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

	ASSERT(p->available > 0);
	ASSERT(p->blocks[k->prev].next == b && p->blocks[k->next].prev == b);
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
	p->touched = mem_zalloc((size_t) p->n_blocks);
	return p;
}

KvPool *
kvpool_new_windows(int n_blocks, int n_pages, int full, int window)
{
	KvPool	   *p = mem_zalloc(sizeof(*p));
	Paging	   *g = mem_zalloc(sizeof(*g));

	p->n_blocks = n_blocks < 2 ? 2 : n_blocks;
	p->blocks = mem_zalloc((size_t) p->n_blocks * sizeof(KvBlock));
	p->paging = g;
	g->full = full;
	g->window = window;
	g->n_pages = n_pages;
	g->map = mem_zalloc((size_t) p->n_blocks * (size_t) (full + window) * sizeof(int32_t));
	g->windows = mem_zalloc((size_t) p->n_blocks * sizeof(KvWindow));
	g->free = mem_zalloc((size_t) n_pages * sizeof(int32_t));
	g->empty = mem_zalloc((size_t) p->n_blocks * sizeof(int32_t));
	while (g->n_free < n_pages)
	{
		g->free[g->n_free] = n_pages - g->n_free;
		g->n_free++;
	}
	for (int32_t b = p->n_blocks - 1; b > 0; b--)
	{
		g->windows[b].empty = true;
		g->empty[g->n_empty++] = b;
	}
	p->touched = mem_zalloc((size_t) n_pages + 1);
	return p;
}

void
kvpool_free(KvPool *p)
{
	if (p == NULL)
		return;
	if (p->paging != NULL)
	{
		mem_free(p->paging->map);
		mem_free(p->paging->windows);
		mem_free(p->paging->free);
		mem_free(p->paging->empty);
		mem_free(p->paging);
	}
	mem_free(p->touched);
	mem_free(p->blocks);
	mem_free(p);
}

int
kvpool_total(const KvPool *p)
{
	return p->n_blocks - 1;
}

/* ---- pages ---- */

int
kvpool_pages(const KvPool *p)
{
	return p->paging != NULL ? p->paging->n_pages : kvpool_total(p);
}

int
kvpool_touched(const KvPool *p)
{
	return p->n_touched;
}

void
kvpool_forget_touched(KvPool *p)
{
	memset(p->touched, 0, (size_t) kvpool_pages(p) + 1);
	p->n_touched = 0;
}

static void
touch(KvPool *p, int32_t page)
{
	p->n_touched += p->touched[page] == 0;
	p->touched[page] = 1;
}

int
kvpool_full(const KvPool *p)
{
	return p->paging != NULL ? p->paging->full : 1;
}

int
kvpool_window(const KvPool *p)
{
	return p->paging != NULL ? p->paging->window : 0;
}

const int32_t *
kvpool_map(const KvPool *p)
{
	return p->paging != NULL ? p->paging->map : NULL;
}

void
kvpool_on_lost(KvPool *p, void (*fn) (void *ctx, int32_t block), void *ctx)
{
	if (p->paging != NULL)
	{
		p->paging->lost = fn;
		p->paging->lost_ctx = ctx;
	}
}

int
kvpool_pages_available(const KvPool *p)
{
	const Paging *g = p->paging;

	return g == NULL ? p->available : g->n_free + g->n_idle * g->window + p->available * g->full;
}

int
kvpool_available(const KvPool *p)
{
	const Paging *g = p->paging;
	int			blocks;
	int			pages;

	if (g == NULL)
		return p->available;
	blocks = p->available + g->n_empty;
	pages = kvpool_pages_available(p) / (g->full + g->window);
	return blocks < pages ? blocks : pages;
}

static int32_t *
pages_of(const Paging *g, int32_t block)
{
	return g->map + (size_t) block * (size_t) (g->full + g->window);
}

static void
idle_append(Paging *g, int32_t b)
{
	int32_t		tail = g->windows[NULL_BLOCK].prev;

	g->windows[b].prev = tail;
	g->windows[b].next = NULL_BLOCK;
	g->windows[tail].next = b;
	g->windows[NULL_BLOCK].prev = b;
	g->windows[b].since = ++g->clock;
	g->n_idle++;
}

static void
idle_remove(Paging *g, int32_t b)
{
	KvWindow   *w = &g->windows[b];

	ASSERT(g->n_idle > 0);
	ASSERT(g->windows[w->prev].next == b && g->windows[w->next].prev == b);
	g->windows[w->prev].next = w->next;
	g->windows[w->next].prev = w->prev;
	w->prev = w->next = NULL_BLOCK;
	g->n_idle--;
}

/* Release the pages at[0 .. n-1]. */
static void
release_pages(Paging *g, int32_t *at, int n)
{
	/* a page released twice would be given to two blocks */
	ALWAYS(g->n_free + n <= g->n_pages);
	for (int i = 0; i < n; i++)
	{
		ASSERT(at[i] > 0 && at[i] <= g->n_pages);
		g->free[g->n_free++] = at[i];
		at[i] = 0;
	}
}

/* Release the pages of an idle window. */
static void
drop_window(Paging *g, int32_t block)
{
	idle_remove(g, block);
	g->windows[block].there = false;
	release_pages(g, pages_of(g, block) + g->full, g->window);
}

/* Release all pages of a block that has no references and is on no list. */
static void
empty_block(Paging *g, int32_t block)
{
	ASSERT(!g->windows[block].empty && g->windows[block].refs == 0);
	if (g->windows[block].there)
		drop_window(g, block);
	release_pages(g, pages_of(g, block), g->full);
	g->windows[block].empty = true;
	g->empty[g->n_empty++] = block;
}

/* Release at least one page: of the window or block that has been unused for longest. */
static void
reclaim(KvPool *p)
{
	Paging	   *g = p->paging;
	int32_t		idle = g->windows[NULL_BLOCK].next;
	int32_t		unused = g->full > 0 ? p->blocks[NULL_BLOCK].next : NULL_BLOCK;

	if (idle != NULL_BLOCK && (unused == NULL_BLOCK || g->windows[idle].since <= p->blocks[unused].since))
	{
		drop_window(g, idle);
		return;
	}
	/* kvpool_available() has counted it */
	ALWAYS(unused != NULL_BLOCK);
	list_remove(p, unused);
	empty_block(g, unused);
	if (g->lost != NULL)
		g->lost(g->lost_ctx, unused);
}

static void
take_pages(KvPool *p, int32_t *at, int n)
{
	Paging	   *g = p->paging;

	for (int i = 0; i < n; i++)
	{
		while (g->n_free == 0)
			reclaim(p);
		at[i] = g->free[--g->n_free];
		touch(p, at[i]);
	}
}

/* Take a free block with all its pages; the caller has checked that there are enough. */
static int32_t
take_block(KvPool *p)
{
	Paging	   *g = p->paging;
	int32_t		b;

	if (g->n_empty > 0)
	{
		b = g->empty[--g->n_empty];
		g->windows[b].empty = false;
		take_pages(p, pages_of(g, b), g->full);
	}
	else
	{
		b = p->blocks[NULL_BLOCK].next;
		list_remove(p, b);
	}
	if (g->windows[b].there)
		idle_remove(g, b);
	else
		take_pages(p, pages_of(g, b) + g->full, g->window);
	g->windows[b].there = true;
	g->windows[b].refs = 1;
	return b;
}

void
kvpool_window_ref(KvPool *p, int32_t block)
{
	if (p->paging == NULL)
		return;
	ASSERT(p->paging->windows[block].there);
	if (p->paging->windows[block].refs++ == 0)
		idle_remove(p->paging, block);
}

void
kvpool_window_unref(KvPool *p, int32_t block)
{
	if (p->paging == NULL)
		return;
	ALWAYS(p->paging->windows[block].refs > 0);
	if (--p->paging->windows[block].refs == 0)
		idle_append(p->paging, block);
}

bool
kvpool_has_window(const KvPool *p, int32_t block)
{
	return p->paging == NULL || p->paging->windows[block].there;
}

int
kvpool_window_refs(const KvPool *p, int32_t block)
{
	return p->paging != NULL ? p->paging->windows[block].refs : p->blocks[block].refs;
}

/* ---- blocks ---- */

/* Check the number of a block; the null block is never referenced. */
static inline void
check_id(const KvPool *p, int32_t block)
{
	ALWAYS(block > NULL_BLOCK && block < p->n_blocks);
}

/*
 * Drop a reference; returns true if it was the last one.  Dropping one too many would put the block on
 * the free list while it is in use.
 */
static bool
drop_ref(KvPool *p, int32_t block)
{
	check_id(p, block);
	ALWAYS(p->blocks[block].refs > 0);
	return --p->blocks[block].refs == 0;
}

bool
kvpool_alloc(KvPool *p, int n, int32_t *out)
{
	if (n > kvpool_available(p))
		return false;
	for (int i = 0; i < n; i++)
	{
		int32_t		b = p->paging != NULL ? take_block(p) : p->blocks[NULL_BLOCK].next;

		/* otherwise two requests would read and write the block */
		ALWAYS(b != NULL_BLOCK && p->blocks[b].refs == 0);
		if (p->paging == NULL)
		{
			list_remove(p, b);
			touch(p, b);
		}
		p->blocks[b].refs = 1;
		out[i] = b;
	}
	return true;
}

void
kvpool_ref(KvPool *p, int32_t block)
{
	check_id(p, block);
	ASSERT(p->blocks[block].refs >= 0);
	if (p->blocks[block].refs++ == 0)
	{
		ASSERT(p->paging == NULL || !p->paging->windows[block].empty);
		list_remove(p, block);
	}
}

void
kvpool_unref(KvPool *p, int32_t block)
{
	if (!drop_ref(p, block))
		return;
	list_append(p, block);
	if (p->paging != NULL)
		p->blocks[block].since = ++p->paging->clock;
}

void
kvpool_unref_first(KvPool *p, int32_t block)
{
	if (!drop_ref(p, block))
		return;
	if (p->paging != NULL)
		empty_block(p->paging, block);
	else
		list_prepend(p, block);
}

int
kvpool_refs(const KvPool *p, int32_t block)
{
	return p->blocks[block].refs;
}

/* Check the pages of a block in a pool with windows. */
static bool
check_block_pages(const KvPool *p, int32_t b, char *seen, Err *e)
{
	const Paging *g = p->paging;
	const KvWindow *w = &g->windows[b];
	const int32_t *at = pages_of(g, b);

	for (int i = 0; i < g->full + g->window; i++)
	{
		bool		has = i < g->full ? !w->empty : w->there;

		if ((at[i] != 0) != has || at[i] < 0 || at[i] > g->n_pages || (has && seen[at[i]]++))
			return err_set(e, ERR_INTERNAL, "page %d of block %d is %d", i, b, at[i]);
	}
	if ((w->empty && (w->there || p->blocks[b].refs > 0)) || w->refs < 0 || w->refs > p->blocks[b].refs ||
		(w->refs > 0 && !w->there))
		return err_set(e, ERR_INTERNAL, "block %d has %d references, %d to its window", b, p->blocks[b].refs,
					   w->refs);
	return true;
}

static bool
check_pages(const KvPool *p, Err *e)
{
	const Paging *g = p->paging;
	char	   *seen = mem_zalloc((size_t) g->n_pages + 1);
	int			n_idle = 0;
	int			n_listed = 0;
	int			n_empty = 0;
	int			n_seen = g->n_free;
	bool		ok = true;

	for (int i = 0; ok && i < g->n_free; i++)
		ok = g->free[i] > 0 && g->free[i] <= g->n_pages && seen[g->free[i]]++ == 0;
	if (!ok)
		err_set(e, ERR_INTERNAL, "a free page is free twice");
	for (int32_t b = 1; ok && b < p->n_blocks; b++)
	{
		const KvWindow *w = &g->windows[b];

		ok = check_block_pages(p, b, seen, e);
		n_idle += w->there && w->refs == 0;
		n_empty += w->empty;
		n_seen += (w->empty ? 0 : g->full) + (w->there ? g->window : 0);
	}
	for (int32_t b = g->windows[NULL_BLOCK].next; ok && b != NULL_BLOCK && n_listed <= g->n_idle;
		 b = g->windows[b].next)
		n_listed++;
	mem_free(seen);
	if (ok && (n_idle != g->n_idle || n_listed != g->n_idle || n_empty != g->n_empty || n_seen != g->n_pages))
		return err_set(e, ERR_INTERNAL, "%d windows are idle, %d listed, %d counted; %d blocks are empty, %d "
										"counted; %d of %d pages",
					   n_idle, n_listed, g->n_idle, n_empty, g->n_empty, n_seen, g->n_pages);
	return ok;
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
		n_free += k[b].refs == 0 && (p->paging == NULL || !p->paging->windows[b].empty);
	}
	if (n_free != n_listed || n_free != p->available)
		return err_set(e, ERR_INTERNAL, "%d blocks without references, %d on the free list, %d counted",
					   n_free, n_listed, p->available);
	if (k[NULL_BLOCK].refs != 0)
		return err_set(e, ERR_INTERNAL, "null block has %d references", k[NULL_BLOCK].refs);
	return p->paging == NULL || check_pages(p, e);
}
