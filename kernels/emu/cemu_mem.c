/*
 * cemu_mem.c
 *	  Check every load and store of a kernel: whether it is allowed, and whether it races with others.
 *
 * There are two arenas, the device's and a block's shared memory; both are filled with 0xFF (NaN) and
 * record which bytes are allocated (valid[]: how many of 8 bytes).  Each allocation is followed by an
 * unallocated gap.  A kernel may access allocations, its own stack and its arguments, and read
 * constants.
 *
 * Races: a segment is what a thread does between two synchronizations.  Each byte records the segments
 * of its last writer and of its two last readers.  Two segments of a launch are ordered if they belong
 * to one thread, or to one block with a barrier between, or to one warp with a __syncwarp of both
 * between.  Shuffles, votes, ldmatrix and mma order nothing: the language doesn't guarantee it.  In a
 * block with mbarriers a thread has also seen what arrived in the phases that it waited for (seen[]).
 * Two accesses that aren't ordered, one of them a write, are a race, unless both are atomic.  Blocks of
 * a launch are not ordered.  Whether a race is found doesn't depend on the order in which threads run
 * here, with one exception: of three or more concurrent readers of a byte in one warp only two are
 * recorded.
 */
#include "emu/cemu.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* address space: an engine allocates and frees much memory, in pieces */
#define DEVICE_SIZE	((size_t) (CEMU_CHECKS ? 512 : 4096) << 20)
#define MOST_MEMORY	((size_t) 512 << 20)
/* the library fills only the beginning of a large piece: engines reserve much that no step reaches */
#define FILL_MOST	((size_t) (CEMU_CHECKS ? 512 : 4) << 20)
#define SHARED_SIZE	((size_t) 512 << 10)	/* address space; the runtime limits what a block may use */
#define SEGS		((uint32_t) 1 << 24)	/* of one launch */
#define ATOMIC		0x80000000u
#define PENDING		0x7fffffffu	/* destination of a pending cp.async */
#define BULK		0x7ffffffeu
#define MBAR		0x7ffffffdu
#define MAX_SHARED	64

typedef struct Cell
{
	uint32_t	w,
				r1,
				r2;
} Cell;

typedef struct Seg
{
	uint32_t	block;			/* counted over all launches */
	uint32_t	epoch;			/* barriers of the block so far */
	uint32_t	clock;			/* synchronizations of the thread so far */
	uint32_t	thread;
} Seg;

typedef struct Arena
{
	const char *name;
	char	   *base;
	size_t		size;
	uint8_t    *valid;
	Cell	   *cells;
	uint32_t	floor;			/* segments below are over */
} Arena;

typedef struct Piece
{
	size_t		at;
	size_t		size;
} Piece;

static Arena device = {.name = "device memory", .size = DEVICE_SIZE};
static Arena shared = {.name = "shared memory", .size = SHARED_SIZE};
static Piece *pieces;			/* allocations of the device, sorted by address */
static size_t n_pieces,
			pieces_room,
			cursor,				/* where to search for room: freed memory is reused late */
			used,
			limit = MOST_MEMORY;
static struct
{
	const void *key;
	size_t		at;
	size_t		size;
}			statics[MAX_SHARED];
static int	n_statics;
static size_t shared_end,
			dynamic_at,
			dynamic_size,
			shared_sum;
static Seg *segs;
static uint32_t launch_first = 1,	/* the first segment of this launch */
			seg_next = 1,
			block_no,
			epoch;
static int	wide;				/* the block has mbarriers: then, for other warps' threads and for copies, */
static uint32_t seen[CEMU_THREADS][CEMU_SEEN];	/* seen[] records what each thread has seen complete */
static size_t mbar_cells[CEMU_MBARS];
static int	n_mbar_cells;

/* addresses of the program or library that this is linked into */
extern const char __ehdr_start __attribute__((visibility("hidden")));
extern const char _end __attribute__((visibility("hidden")));

static void *
reserve(size_t n)
{
	void	   *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		cemu_fail("no address space: %s", strerror(errno));
	return p;
}

static void
arena_make(Arena *a)
{
	if (a->base != NULL)
		return;
	a->base = reserve(a->size);
	a->valid = reserve(a->size / 8);
	if (!CEMU_CHECKS)
		return;
	a->cells = reserve(a->size * sizeof(Cell));
	if (segs == NULL)
		segs = reserve(SEGS * sizeof(Seg));
}

/* mark [at, at + n) as allocated: at is a multiple of 8 */
static void
valid_set(Arena *a, size_t at, size_t n)
{
	memset(a->valid + at / 8, 8, n / 8);
	if (n % 8 != 0)
		a->valid[(at + n) / 8] = (uint8_t) (n % 8);
}

static int
valid_all(const Arena *a, size_t at, size_t n)
{
	for (size_t g = at / 8; g <= (at + n - 1) / 8; g++)
	{
		size_t		end = at + n - g * 8;

		if ((end < 8 ? end : 8) > a->valid[g])
			return 0;
	}
	return 1;
}

/* fill memory with a pattern that no code can take for zeros */
static void
fill(void *p, size_t n)
{
	memset(p, 0xff, n < FILL_MOST ? n : FILL_MOST);
}

static size_t
gap(size_t size)
{
	size_t		g = size < 256 ? 256 : size > 65536 ? 65536 : size;

	return (g + 255) / 256 * 256;
}

/* find the first room of n bytes with gaps in pieces from index i on; return the index to insert at, or
 * -1 */
static long
room_from(size_t i, size_t from, size_t n)
{
	for (; i <= n_pieces; i++)
	{
		size_t		begin = i == 0 ? 65536 : pieces[i - 1].at + pieces[i - 1].size + gap(pieces[i - 1].size);
		size_t		end = i == n_pieces ? DEVICE_SIZE - 65536 : pieces[i].at;

		begin = (begin + 255) / 256 * 256;
		if (begin < from)
			begin = from;
		if (begin + n + gap(n) <= end)
		{
			cursor = begin;
			return (long) i;
		}
	}
	return -1;
}

void *
cemu_malloc(size_t size)
{
	size_t		n = size == 0 ? 1 : size;
	long		i;

	arena_make(&device);
	if (n > DEVICE_SIZE || used + n > limit)
		return NULL;
	i = room_from(0, cursor, n);
	if (i < 0)
		i = room_from(0, 0, n);
	if (i < 0)
		return NULL;
	if (n_pieces == pieces_room)
	{
		pieces_room = pieces_room * 2 + 64;
		pieces = realloc(pieces, pieces_room * sizeof(*pieces));
		if (pieces == NULL)
			cemu_fail("no memory");
	}
	memmove(pieces + i + 1, pieces + i, (n_pieces++ - (size_t) i) * sizeof(*pieces));
	pieces[i] = (Piece) {cursor, n};
	used += n;
	fill(device.base + cursor, n);
	valid_set(&device, cursor, n);
	cursor += n + gap(n);
	cursor = (cursor + 255) / 256 * 256;
	return device.base + pieces[i].at;
}

int
cemu_free(void *p)
{
	for (size_t i = 0; i < n_pieces; i++)
		if (device.base + pieces[i].at == (char *) p)
		{
			fill(p, pieces[i].size);
			memset(device.valid + pieces[i].at / 8, 0, pieces[i].size / 8 + 1);
			used -= pieces[i].size;
			memmove(pieces + i, pieces + i + 1, (--n_pieces - i) * sizeof(*pieces));
			return 1;
		}
	return 0;
}

void
cemu_memory_limit(size_t bytes)
{
	limit = bytes > MOST_MEMORY ? MOST_MEMORY : bytes;
}

void
cemu_memory_info(size_t *room, size_t *all)
{
	*all = limit;
	*room = used < limit ? limit - used : 0;
}

static int
in_arena(const Arena *a, const char *p)
{
	return a->base != NULL && p >= a->base && p < a->base + a->size;
}

int
cemu_is_device(const void *p, size_t n)
{
	return n == 0 ||
		(in_arena(&device, p) && valid_all(&device, (size_t) ((const char *) p - device.base), n));
}

/* ---- shared memory of the running block ---- */

/* allocate n bytes from shared_end on, with a gap before */
static size_t
shared_take(size_t n, size_t align)
{
	size_t		at = (shared_end + 256 + align - 1) / align * align;

	if (at + n + 256 > shared.size)
		cemu_fail("%zu bytes of shared memory", at + n);
	memset(shared.base + at, 0xff, n);
	if (CEMU_CHECKS)
		valid_set(&shared, at, n);
	shared_end = at + n;
	shared_sum += n;
	return at;
}

void *
cemu_shared(const void *key, size_t size, size_t align)
{
	for (int i = 0; i < n_statics; i++)
		if (statics[i].key == key)
			return shared.base + statics[i].at;
	if (n_statics == MAX_SHARED)
		cemu_fail("more than %d shared arrays", MAX_SHARED);
	statics[n_statics].key = key;
	statics[n_statics].size = size;
	statics[n_statics].at = shared_take(size, align < 128 ? 128 : align);
	if (shared_sum - dynamic_size > 48 * 1024 || shared_sum > cemu_launched->most)
		cemu_fail("%zu bytes of static shared memory and %zu of the launch's, at most 49152 and together %zu",
				  shared_sum - dynamic_size, dynamic_size, cemu_launched->most);
	return shared.base + statics[n_statics++].at;
}

void *
cemu_dynamic(void)
{
	return shared.base + dynamic_at;
}

size_t
cemu_shared_used(void)
{
	return shared_sum;
}

/* ---- segments ---- */

static void
seg_begin(CemuThread *t)
{
	uint32_t	i = seg_next++ - launch_first;

	if (i >= SEGS)
		cemu_fail("more than %u segments: use a smaller shape", SEGS);
	segs[i] = (Seg) {block_no, epoch, t->clock[t->id % CEMU_WARP], (uint32_t) t->id};
	t->seg = i + launch_first;
}

void
cemu_mem_launch(void)
{
	arena_make(&device);
	arena_make(&shared);
	if (!CEMU_CHECKS)
		return;
	if (seg_next > MBAR - SEGS)
	{
		madvise(device.cells, device.size * sizeof(Cell), MADV_DONTNEED);
		madvise(shared.cells, shared.size * sizeof(Cell), MADV_DONTNEED);
		seg_next = 1;
	}
	launch_first = seg_next;
	device.floor = launch_first;
}

void
cemu_mem_block(int n_threads, size_t dynamic)
{
	shared.floor = seg_next;
	if (CEMU_CHECKS)
		memset(shared.valid, 0, shared_end / 8 + 1);
	n_statics = 0;
	shared_end = shared_sum = 0;
	dynamic_size = dynamic;
	dynamic_at = shared_take(dynamic, 1024);
	block_no++;
	epoch = 0;
	while (n_mbar_cells > 0)
		memset(shared.cells + mbar_cells[--n_mbar_cells], 0, 8 * sizeof(Cell));
	wide = 0;
	for (int i = 0; CEMU_CHECKS && i < n_threads; i++)
	{
		CemuThread *t = cemu_thread(i);

		t->id = i;
		memset(t->clock, 0, sizeof(t->clock));
		t->clock[i % CEMU_WARP] = 1;
		t->fenced = 0;
		seg_begin(t);
	}
}

/* set `to` to the maximum of both, for numbers from .. end - 1 */
static void
seen_join(uint32_t *to, const uint32_t *more, int from, int end)
{
	for (int i = from; i < end; i++)
		if (more[i] > to[i])
			to[i] = more[i];
}

void
cemu_mem_barrier(int n_threads)
{
	epoch++;
	for (int i = 0; CEMU_CHECKS && i < n_threads; i++)
		seg_begin(cemu_thread(i));
	/* the epoch covers the threads */
	for (int i = 1; wide && i < n_threads; i++)
		seen_join(seen[0], seen[i], CEMU_THREADS, CEMU_SEEN);
	for (int i = 1; wide && i < n_threads; i++)
		seen_join(seen[i], seen[0], CEMU_THREADS, CEMU_SEEN);
}

/* each lane of mask has now seen what all of them had seen */
void
cemu_mem_warp(CemuThread *first, uint32_t mask)
{
	uint32_t	all[CEMU_WARP] = {0};

	if (!CEMU_CHECKS)
		return;
	for (int i = 0; i < CEMU_WARP; i++)
		for (int j = 0; (mask >> i & 1) && j < CEMU_WARP; j++)
			if (first[i].clock[j] > all[j])
				all[j] = first[i].clock[j];
	if (wide)
	{
		uint32_t   *sum = seen[first[__builtin_ctz(mask)].id];

		for (int i = 0; i < CEMU_WARP; i++)
			if (mask >> i & 1)
				seen_join(sum, seen[first[i].id], 0, CEMU_SEEN);
		for (int i = 0; i < CEMU_WARP; i++)
			if ((mask >> i & 1) && seen[first[i].id] != sum)
				memcpy(seen[first[i].id], sum, sizeof(seen[0]));
	}
	for (int i = 0; i < CEMU_WARP; i++)
		if (mask >> i & 1)
		{
			memcpy(first[i].clock, all, sizeof(all));
			first[i].clock[i]++;
			seg_begin(&first[i]);
		}
}

/* ---- mbarriers: cemu_async.c ---- */

void
cemu_mem_mbar(const void *p)
{
	size_t		at = (size_t) ((const char *) p - shared.base);

	if (!CEMU_CHECKS)
		return;
	for (int i = 0; i < 8; i++)
		shared.cells[at + i] = (Cell) {MBAR, 0, 0};
	mbar_cells[n_mbar_cells++] = at;
	for (int i = 0; !wide && i < cemu_n_threads(); i++)
		memset(seen[i], 0, sizeof(seen[i]));
	wide = 1;
}

/* release: threads that acquire there see what the thread has done so far */
void
cemu_mem_release(CemuThread *t, uint32_t *to)
{
	uint32_t   *warp = to + t->id / CEMU_WARP * CEMU_WARP;

	if (!CEMU_CHECKS)
		return;
	seen_join(to, seen[t->id], 0, CEMU_SEEN);
	seen_join(warp, t->clock, 0, CEMU_WARP);
	t->clock[t->id % CEMU_WARP]++;
	seg_begin(t);
}

void
cemu_mem_acquire(CemuThread *t, const uint32_t *from)
{
	if (!CEMU_CHECKS)
		return;
	seen_join(seen[t->id], from, 0, CEMU_SEEN);
	seen_join(t->clock, from + t->id / CEMU_WARP * CEMU_WARP, 0, CEMU_WARP);
}

/* fence.proxy.async of the running thread */
void
cemu_async_fence(void)
{
	if (!CEMU_CHECKS)
		return;
	cemu_now->fenced = cemu_now->seg;
	seg_begin(cemu_now);
}

/* ---- an access ---- */

/* " at FILE:LINE", from addr2line if it is installed, and where that was inlined */
static const char *
where(const void *pc)
{
	static char buf[600];
	char		cmd[600],
				line[256];
	Dl_info		info;
	FILE	   *f;

	buf[0] = '\0';
	if (pc == NULL || dladdr(pc, &info) == 0)
		return buf;
	snprintf(cmd, sizeof(cmd), "addr2line -s -i -e '%s' %#zx 2>/dev/null", info.dli_fname,
			 (size_t) ((const char *) pc - 1 - (const char *) info.dli_fbase));
	f = popen(cmd, "r");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL && line[0] != '?' &&
		   strlen(buf) < sizeof(buf) / 2)
	{
		line[strcspn(line, " \n")] = '\0';
		strcat(strcat(buf, buf[0] == '\0' ? " at " : " in "), line);
	}
	if (f != NULL)
		pclose(f);
	return buf;
}

static const char *
verb(CemuAccess kind)
{
	return kind == CEMU_READ ? "reads" : kind == CEMU_WRITE ? "writes" : "atomically changes";
}

static int
ordered(uint32_t seg, const CemuThread *t, uint32_t floor)
{
	const Seg  *s;

	seg &= ~ATOMIC;
	if (seg < floor)
		return 1;
	s = &segs[seg - launch_first];
	if (s->block != block_no)
		return 0;
	if (s->thread >= CEMU_THREADS)
		return seen[t->id][s->thread] >= s->clock;
	if (wide && seen[t->id][s->thread] >= s->clock)
		return 1;
	return s->thread == (uint32_t) t->id || s->epoch < epoch ||
		(s->thread / CEMU_WARP == (uint32_t) t->id / CEMU_WARP &&
		 t->clock[s->thread % CEMU_WARP] >= s->clock);
}

static int
same_warp(uint32_t seg, const CemuThread *t)
{
	const Seg  *s = &segs[seg - launch_first];

	return s->block == block_no && s->thread / CEMU_WARP == (uint32_t) t->id / CEMU_WARP;
}

__attribute__((noreturn))
static void
race(const Arena *a, size_t at, const CemuThread *t, uint32_t seg, const char *did, CemuAccess kind,
	 const void *pc)
{
	const Seg  *s = &segs[(seg & ~ATOMIC) - launch_first];
	CemuDim		b = cemu_launched->block;

	if (s->block != block_no)
		cemu_fail("race: %s byte %zu of %s%s, and another block of this launch %s it", verb(kind), at,
				  a->name, where(pc), did);
	if (s->thread >= CEMU_THREADS)
		cemu_fail("race: thread %d %s byte %zu of %s%s, and a bulk copy wrote it, for whose mbarrier it "
				  "hasn't waited", t->id, verb(kind), at, a->name, where(pc));
	cemu_fail("race: thread %d %s byte %zu of %s%s, and thread (%u, %u, %u) %s it with no barrier between",
			  t->id, verb(kind), at, a->name, where(pc), s->thread % b.x, s->thread / b.x % b.y,
			  s->thread / b.x / b.y, did);
}

static void
cell_touch(const Arena *a, Cell *c, const CemuThread *t, CemuAccess kind, const void *pc)
{
	size_t		at = (size_t) (c - a->cells);

	if (c->w == PENDING)
		cemu_fail("%s byte %zu of %s%s before cp.async's wait", verb(kind), at, a->name, where(pc));
	if (c->w == BULK)
		cemu_fail("%s byte %zu of %s%s while a bulk copy writes it", verb(kind), at, a->name, where(pc));
	if (c->w == MBAR)
		cemu_fail("%s byte %zu of %s%s, where an mbarrier is", verb(kind), at, a->name, where(pc));
	if (!(kind == CEMU_ATOMIC && (c->w & ATOMIC)) && !ordered(c->w, t, a->floor))
		race(a, at, t, c->w, c->w & ATOMIC ? "atomically changed" : "wrote", kind, pc);
	if (kind == CEMU_READ)
	{
		if (c->r1 == t->seg)
			return;
		if (!ordered(c->r1, t, a->floor))
		{
			/* keep a reader of another warp if there is one: it races with more accesses */
			if (ordered(c->r2, t, a->floor) || !same_warp(c->r1, t) || same_warp(c->r2, t))
				c->r2 = c->r1;
		}
		c->r1 = t->seg;
		return;
	}
	if (!ordered(c->r1, t, a->floor))
		race(a, at, t, c->r1, "read", kind, pc);
	if (!ordered(c->r2, t, a->floor))
		race(a, at, t, c->r2, "read", kind, pc);
	c->w = t->seg | (kind == CEMU_ATOMIC ? ATOMIC : 0);
	c->r1 = c->r2 = 0;
}

static inline int
same(const Cell *a, const Cell *b)
{
	return a->w == b->w && a->r1 == b->r1 && a->r2 == b->r2;
}

/*
 * Has this segment of the thread had the same access to the byte?  Then nothing has changed: a store of
 * another thread would have forgotten the readers.  The numbers from MBAR to PENDING only stand in w.
 */
static inline int
touched(const Cell *c, const CemuThread *t, CemuAccess kind)
{
	if (kind == CEMU_READ)
		return c->r1 == t->seg && (c->w < MBAR || c->w > PENDING);
	return kind == CEMU_WRITE && c->w == t->seg && c->r1 == 0 && c->r2 == 0;
}

static void
touch_arena(Arena *a, const CemuThread *t, const char *p, size_t n, CemuAccess kind, const void *pc)
{
	size_t		at = (size_t) (p - a->base);
	Cell	   *c = a->cells + at;
	Cell		before = *c,
				after;

	if (at + n > a->size || !valid_all(a, at, n))
		cemu_fail("out of bounds: %s %zu bytes at %s + %zu%s, which are not all allocated", verb(kind), n,
				  a->name, at, where(pc));
	if (!touched(c, t, kind))
		cell_touch(a, c, t, kind, pc);
	after = *c;
	for (size_t i = 1; i < n; i++)
		if (same(&c[i], &before))
			c[i] = after;
		else if (!touched(&c[i], t, kind))
		{
			before = c[i];
			cell_touch(a, &c[i], t, kind, pc);
			after = c[i];
		}
}

/* an access outside of the arenas: a kernel's own stack, its arguments, constants */
static void
touch_other(const CemuThread *t, const char *p, size_t n, CemuAccess kind, const void *pc)
{
	if (kind == CEMU_READ && (p == (char *) &cemu_now || (p >= &__ehdr_start && p < &_end) ||
							  (p >= (char *) cemu_launched->args && p + n <= (char *) cemu_launched->args +
							   cemu_launched->args_size)))
		return;
	for (int i = 0; i < cemu_n_threads(); i++)
		if (i != t->id && p >= cemu_thread(i)->stack && p < cemu_thread(i)->stack + 128 * 1024)
			cemu_fail("%s local memory of thread %d%s", verb(kind), i, where(pc));
	cemu_fail("%s %zu bytes at %p%s, which is no device memory%s", verb(kind), n, (const void *) p, where(pc),
			  p < (char *) 65536 ? " (a null pointer)" : "");
}

void
cemu_touch(CemuThread *t, const void *p, size_t n, CemuAccess kind, const void *pc)
{
	const char *q = p;

	if (!CEMU_CHECKS)
		return;
	if (t == NULL)
	{
		if (in_arena(&device, q) || in_arena(&shared, q))
			cemu_fail("the host %s memory of the device at %p%s", verb(kind), p, where(pc));
		return;
	}
	if (n == 0 || (q >= t->stack && q < t->stack + 128 * 1024))
		return;
	if (in_arena(&shared, q))
		touch_arena(&shared, t, q, n, kind, pc);
	else if (in_arena(&device, q))
		touch_arena(&device, t, q, n, kind, pc);
	else
		touch_other(t, q, n, kind, pc);
}

static Cell *
cells_of(const char *p)
{
	return in_arena(&shared, p) ? shared.cells + (p - shared.base) : device.cells + (p - device.base);
}

int
cemu_mem_ordered(uint32_t seg, const CemuThread *t)
{
	return !CEMU_CHECKS || ordered(seg, t, shared.floor);
}

/* return true if the segment's thread has executed a fence after it */
int
cemu_mem_fenced(uint32_t seg)
{
	return !CEMU_CHECKS || seg <= cemu_thread((int) segs[seg - launch_first].thread)->fenced;
}

void
cemu_touch_async(CemuThread *t, const void *p, size_t n, CemuAccess kind, const void *pc)
{
	const char *q = p;
	const Arena *a = in_arena(&shared, q) ? &shared : &device;

	if (!CEMU_CHECKS)
		return;
	if (in_arena(a, q) && valid_all(a, (size_t) (q - a->base), n))
		for (const Cell *c = cells_of(q), *end = c + n; c < end; c++)
		{
			uint32_t	w = c->w & ~ATOMIC;

			if (w >= a->floor && w < MBAR && segs[w - launch_first].thread < CEMU_THREADS &&
				ordered(w, t, a->floor) && !cemu_mem_fenced(w))
				cemu_fail("%s byte %zu of %s%s past its stores: fence.proxy.async is missing after them",
						  verb(kind), (size_t) (c - a->cells), a->name, where(pc));
		}
	cemu_touch(t, p, n, kind, pc);
}

void
cemu_mem_bulk(const void *p, size_t n, int who, uint32_t clock)
{
	uint32_t	seg = BULK;
	Cell	   *c = cells_of(p);

	if (!CEMU_CHECKS)
		return;
	if (who != 0)
	{
		seg = seg_next++;
		if (seg - launch_first >= SEGS)
			cemu_fail("more than %u segments: use a smaller shape", SEGS);
		segs[seg - launch_first] = (Seg) {block_no, epoch, clock, (uint32_t) who};
	}
	for (size_t i = 0; i < n; i++)
		c[i] = (Cell) {seg, 0, 0};
}

uint32_t
cemu_shared_at(const void *p)
{
	const char *q = p;

	if (!in_arena(&shared, q) || q - shared.base >= 1 << 18)
		cemu_fail("%p isn't in shared memory", p);
	return (uint32_t) (q - shared.base);
}

void *
cemu_shared_base(void)
{
	return shared.base;
}

/* cp.async: from here on no access to these bytes is allowed */
void
cemu_pending(const void *p, size_t n)
{
	for (size_t i = 0; CEMU_CHECKS && i < n; i++)
		cells_of(p)[i].w = PENDING;
}

/* cp.async: the bytes have arrived */
void
cemu_arrived(const void *p, size_t n)
{
	for (size_t i = 0; CEMU_CHECKS && i < n; i++)
		cells_of(p)[i].w = 0;
}

/* ---- functions that the compiler calls ---- */

static inline void
hook(const char *p, size_t n, CemuAccess kind, const void *pc)
{
	/* host code may access 16 bytes as two of 8: x86 allows it, and the compiler uses that */
	if (((uintptr_t) p & (n - 1)) != 0 && cemu_now != NULL && (in_arena(&shared, p) || in_arena(&device, p)))
		cemu_fail("misaligned: %s %zu bytes at %p%s", verb(kind), n, (const void *) p, where(pc));
	cemu_touch(cemu_now, p, n, kind, pc);
}

#define HOOKS(n) \
	void __tsan_read##n(void *p); \
	void __tsan_write##n(void *p); \
	void __tsan_unaligned_read##n(void *p); \
	void __tsan_unaligned_write##n(void *p); \
	void __tsan_read##n(void *p) { hook(p, n, CEMU_READ, __builtin_return_address(0)); } \
	void __tsan_write##n(void *p) { hook(p, n, CEMU_WRITE, __builtin_return_address(0)); } \
	void __tsan_unaligned_read##n(void *p) { cemu_touch(cemu_now, p, n, CEMU_READ, \
														__builtin_return_address(0)); } \
	void __tsan_unaligned_write##n(void *p) { cemu_touch(cemu_now, p, n, CEMU_WRITE, \
														 __builtin_return_address(0)); }

HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

/* for host code only: kernels use CUDA's */
#define ATOMICS(bits) \
	uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *p, int order); \
	void __tsan_atomic##bits##_store(volatile uint##bits##_t *p, uint##bits##_t v, int order); \
	uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t *p, uint##bits##_t v, int order); \
	uint##bits##_t __tsan_atomic##bits##_fetch_add(volatile uint##bits##_t *p, uint##bits##_t v, int order); \
	uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *p, int order) \
	{ (void) order; return __atomic_load_n(p, __ATOMIC_SEQ_CST); } \
	void __tsan_atomic##bits##_store(volatile uint##bits##_t *p, uint##bits##_t v, int order) \
	{ (void) order; __atomic_store_n(p, v, __ATOMIC_SEQ_CST); } \
	uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t *p, uint##bits##_t v, int order) \
	{ (void) order; return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); } \
	uint##bits##_t __tsan_atomic##bits##_fetch_add(volatile uint##bits##_t *p, uint##bits##_t v, int order) \
	{ (void) order; return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); }
ATOMICS(8)
ATOMICS(32)
ATOMICS(64)

void		__tsan_read_range(void *p, size_t n);
void		__tsan_write_range(void *p, size_t n);
void		__tsan_init(void);
void		__tsan_func_entry(void *pc);
void		__tsan_func_exit(void);

void
__tsan_read_range(void *p, size_t n)
{
	cemu_touch(cemu_now, p, n, CEMU_READ, __builtin_return_address(0));
}

void
__tsan_write_range(void *p, size_t n)
{
	cemu_touch(cemu_now, p, n, CEMU_WRITE, __builtin_return_address(0));
}

void
__tsan_init(void)
{
}

void
__tsan_func_entry(void *pc)
{
	(void) pc;
}

void
__tsan_func_exit(void)
{
}
