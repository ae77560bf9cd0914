/*
 * cemu.c
 *	  The threads of a block as fibers, and their synchronization.
 *
 * A fiber runs until it waits; nothing preempts it.  All threads at a barrier, and all lanes of a warp's
 * operation, must be at the same source line; no thread may wait for one that has returned.  Both rules
 * are stricter than hardware.
 */
#include "emu/cemu.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STACK	(128 * 1024)	/* including its guard page */
#define GUARD	4096

void		cemu_switch(void **from, void *to);

__thread CemuThread *cemu_now;
CemuLaunch *cemu_launched;

/* a copy, not the host's struct: kernels may read only constants and their own data */
static CemuLaunch launched;
static CemuThread threads[CEMU_THREADS];
static int	n_threads;
static char *stacks;
static void *host_sp;
static CemuOrder order = CEMU_FORWARD;
static uint64_t rng = 0x9e3779b97f4a7c15u;
static int	turn[CEMU_THREADS]; /* threads in the order of a round, and whose turn it is */
static int	turn_at;
static int	n_waiting;			/* at the block's barrier */
static int	n_exited;
static int	barrier_sum,
			barrier_result;

/* Lanes that wait for the rest of their mask, and where.  A warp has at most as many meetings as lanes. */
typedef struct Meeting
{
	uint32_t	mask;
	uint32_t	here;			/* lanes that wait; 0: none */
	const char *op;
	const char *file;
	int			line;
	void	   *args[CEMU_WARP];
} Meeting;

typedef struct Warp
{
	uint32_t	present;		/* lanes that the block has */
	uint32_t	waiting;		/* in any meeting */
	uint32_t	exited;
	uint32_t	open;			/* meetings in which lanes wait */
	Meeting		meetings[CEMU_WARP];
} Warp;

static Warp warps[CEMU_THREADS / CEMU_WARP];

CemuThread *
cemu_thread(int id)
{
	return &threads[id];
}

int
cemu_n_threads(void)
{
	return n_threads;
}

void
cemu_order(CemuOrder o, uint64_t seed)
{
	order = o;
	rng = seed * 2 + 0x9e3779b97f4a7c15u;
}

/* xorshift64*, Vigna 2016 */
uint64_t
cemu_random(void)
{
	rng ^= rng >> 12;
	rng ^= rng << 25;
	rng ^= rng >> 27;
	return rng * 0x2545f4914f6cdd1du;
}

void
cemu_fail(const char *fmt,...)
{
	va_list		ap;

	fflush(stdout);
	fprintf(stderr, "emu: ");
	if (cemu_launched != NULL)
	{
		CemuDim		b = cemu_launched->at;

		fprintf(stderr, "%s: block (%u, %u, %u)", cemu_launched->name, b.x, b.y, b.z);
		if (cemu_now != NULL)
			fprintf(stderr, " thread (%u, %u, %u)", cemu_now->idx.x, cemu_now->idx.y, cemu_now->idx.z);
		fprintf(stderr, ": ");
	}
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	abort();
}

/* Handler for a stack overflow of a thread, or an access that the compiler didn't announce. */
static void
on_segv(int sig, siginfo_t *info, void *context)
{
	char	   *p = info->si_addr;

	(void) sig;
	(void) context;
	signal(SIGSEGV, SIG_DFL);
	if (cemu_now != NULL && p >= cemu_now->stack && p < cemu_now->stack + GUARD)
		cemu_fail("stack overflow (a thread has %d kB of local memory)", STACK / 1024);
	if (cemu_launched != NULL)
		cemu_fail("segmentation fault at %p", (void *) p);
}

static void
stacks_make(void)
{
	static char alt[64 * 1024];
	stack_t		ss = {.ss_sp = alt, .ss_size = sizeof(alt)};
	struct sigaction sa = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO | SA_ONSTACK};

	stacks = mmap(NULL, (size_t) STACK * CEMU_THREADS, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (stacks == MAP_FAILED)
		cemu_fail("no memory for stacks: %s", strerror(errno));
	for (int i = 0; i < CEMU_THREADS; i++)
		mprotect(stacks + (size_t) STACK * i, GUARD, PROT_NONE);
	if (!CEMU_CHECKS)
		return;					/* an engine has its own handler */
	sigaltstack(&ss, NULL);
	sigaction(SIGSEGV, &sa, NULL);
}

/* a waiting thread, for a message */
static const char *
place(const CemuThread *t)
{
	static char buf[2][320];
	static int	turn;
	char	   *b = buf[turn ^= 1];

	if (t->state == CEMU_EXITED)
		snprintf(b, sizeof(buf[0]), "thread (%u, %u, %u) has returned", t->idx.x, t->idx.y, t->idx.z);
	else
		snprintf(b, sizeof(buf[0]), "thread (%u, %u, %u) is in %s at %s:%d", t->idx.x, t->idx.y, t->idx.z,
				 t->op, t->file, t->line);
	return b;
}

/*
 * The next thread of the round that can run, or the host when there is none.  A thread switches to it
 * directly: half as many switches, and the processor predicts the returns of lanes that wait in the same
 * place.
 */
static void
yield(void)
{
	CemuThread *t = cemu_now;

	while (++turn_at < n_threads)
	{
		CemuThread *next = &threads[turn[turn_at]];

		if (next->state != CEMU_RUN)
			continue;
		cemu_now = next;
		cemu_switch(&t->sp, next->sp);
		return;
	}
	cemu_now = NULL;
	cemu_switch(&t->sp, host_sp);
}

static void
thread_main(void)
{
	CemuThread *t = cemu_now;

	cemu_launched->fn(cemu_launched->args);
	if (t->n_copies > 0)
		cemu_fail("returns with %d copies of cp.async in flight", t->n_copies);
	t->state = CEMU_EXITED;
	warps[t->id / CEMU_WARP].exited |= 1u << t->id % CEMU_WARP;
	n_exited++;
	for (int i = 0; n_waiting > 0 && i < n_threads; i++)
		if (threads[i].state == CEMU_BARRIER)
			cemu_fail("returned, and %s and waits for it", place(&threads[i]));
	yield();
	abort();
}

/* the frame that cemu_switch pops: six registers, where to return to */
static void
thread_begin(int i)
{
	CemuThread *t = &threads[i];
	CemuDim		b = cemu_launched->block;
	uint64_t   *sp;

	t->id = i;
	t->idx = (CemuDim) {(unsigned) i % b.x, (unsigned) i / b.x % b.y, (unsigned) i / b.x / b.y};
	t->stack = stacks + (size_t) STACK * i;
	t->state = CEMU_RUN;
	t->n_copies = t->group = 0;
	sp = (uint64_t *) (t->stack + STACK) - 8;	/* as after a call: 8 after a multiple of 16 */
	memset(sp, 0, 8 * sizeof(*sp));
	sp[6] = (uint64_t) (uintptr_t) thread_main;
	t->sp = sp;
}

/* No thread can continue. */
static void
stuck(void)
{
	CemuThread *t = NULL;

	for (int i = 0; i < n_threads && t == NULL; i++)
		if (threads[i].state == CEMU_WARPOP)
			t = &threads[i];
	for (int i = 0; i < n_threads && t == NULL; i++)
		if (threads[i].state == CEMU_PHASE)
			cemu_fail("%s: %s, and no thread can arrive", place(&threads[i]), cemu_mbar_lacks());
	if (t == NULL)
		cemu_fail("all threads wait");	/* impossible: the last one at a barrier continues */
	for (int i = 0; i < CEMU_WARP; i++)
	{
		int			id = t->id / CEMU_WARP * CEMU_WARP + i;

		if (!(t->mask >> i & 1) || (id < n_threads && threads[id].state == CEMU_WARPOP &&
									threads[id].line == t->line && threads[id].mask == t->mask))
			continue;
		if (id >= n_threads)
			cemu_fail("%s, mask %08x: the block has no lane %d", place(t), t->mask, i);
		cemu_fail("divergent: %s, mask %08x, and %s, mask %08x", place(t), t->mask, place(&threads[id]),
				  threads[id].mask);
	}
	cemu_fail("%s: all wait", place(t));
}

static void
permute(int *p, int n)
{
	for (int i = 0; i < n; i++)
		p[i] = order == CEMU_REVERSE ? n - 1 - i : i;
	for (int i = n - 1; order == CEMU_RANDOM && i > 0; i--)
	{
		int			j = (int) (cemu_random() % (uint64_t) (i + 1)),
					k = p[i];

		p[i] = p[j];
		p[j] = k;
	}
}

static void
block_run(void)
{
	n_waiting = n_exited = barrier_sum = 0;
	cemu_async_block();
	cemu_mem_block(n_threads, cemu_launched->smem);
	for (int i = 0; i < n_threads; i++)
		thread_begin(i);
	for (int i = 0; i < n_threads; i += CEMU_WARP)
	{
		Warp	   *w = &warps[i / CEMU_WARP];

		w->present = n_threads - i < CEMU_WARP ? (1u << (n_threads - i)) - 1 : ~0u;
		w->waiting = w->exited = w->open = 0;
	}
	permute(turn, n_threads);
	while (n_exited < n_threads)
	{
		int			ran = 0;

		for (turn_at = 0; turn_at < n_threads && threads[turn[turn_at]].state != CEMU_RUN; turn_at++)
			;
		if (turn_at < n_threads)
		{
			ran = 1;
			cemu_now = &threads[turn[turn_at]];
			/* back when the last thread of the round that could run waits */
			cemu_switch(&host_sp, cemu_now->sp);
		}
		if (order == CEMU_RANDOM)
			permute(turn, n_threads);
		if (ran && (order != CEMU_RANDOM || cemu_random() % 2 == 0))
			continue;
		if (!cemu_async_step() && !ran)
			stuck();
	}
	cemu_async_block_end(n_threads);
}

void
cemu_run(CemuLaunch *l)
{
	size_t		blocks = (size_t) l->grid.x * l->grid.y * l->grid.z;
	int		   *of;

	if (cemu_launched != NULL)
		cemu_fail("a kernel launches %s", l->name);
	if (stacks == NULL)
		stacks_make();
	n_threads = (int) (l->block.x * l->block.y * l->block.z);
	of = malloc(blocks * sizeof(int));
	if (of == NULL)
		cemu_fail("no memory for %zu blocks", blocks);
	launched = *l;
	cemu_launched = &launched;
	cemu_mem_launch();
	permute(of, (int) blocks);
	for (size_t i = 0; i < blocks; i++)
	{
		unsigned	b = (unsigned) of[i];

		launched.at = (CemuDim) {b % l->grid.x, b / l->grid.x % l->grid.y, b / l->grid.x / l->grid.y};
		block_run();
	}
	cemu_launched = NULL;
	free(of);
}

static void
wait_in(CemuState state, const char *op, const char *file, int line)
{
	if (cemu_now == NULL)
		cemu_fail("%s at %s:%d: not in a kernel", op, file, line);
	cemu_now->state = state;
	cemu_now->op = op;
	cemu_now->file = file;
	cemu_now->line = line;
}

void
cemu_wait_phase(void *bar, const char *file, int line)
{
	wait_in(CEMU_PHASE, "mbarrier.try_wait", file, line);
	cemu_now->arg = bar;
	yield();
}

int
cemu_barrier_count(const char *op, int pred, const char *file, int line)
{
	wait_in(CEMU_BARRIER, op, file, line);
	for (int i = 0; CEMU_CHECKS && i < n_threads; i++)
	{
		CemuThread *t = &threads[i];

		if (t->state == CEMU_EXITED)
			cemu_fail("waits in %s at %s:%d for all, and %s", op, file, line, place(t));
		if (t->state == CEMU_BARRIER &&
			(t->line != line || (t->file != file && strcmp(t->file, file) != 0)))
			cemu_fail("divergent barrier: it is in %s at %s:%d, and %s", op, file, line, place(t));
	}
	barrier_sum += pred != 0;
	if (++n_waiting < n_threads)
	{
		yield();
		return barrier_result;
	}
	barrier_result = barrier_sum;
	n_waiting = barrier_sum = 0;
	for (int i = 0; i < n_threads; i++)
		threads[i].state = CEMU_RUN;
	cemu_mem_barrier(n_threads);
	return barrier_result;
}

void
cemu_barrier(const char *op, const char *file, int line)
{
	cemu_barrier_count(op, 0, file, line);
}

/*
 * Fail if the lanes of mask can't meet here; return if they can, though the names of the place are other
 * pointers.
 */
static void
check_lanes(const CemuThread *t, uint32_t mask)
{
	CemuThread *first = &threads[t->id / CEMU_WARP * CEMU_WARP];

	if (!(mask >> t->id % CEMU_WARP & 1))
		cemu_fail("is in %s at %s:%d, and mask %08x lacks its lane %d", t->op, t->file, t->line, mask,
				  t->id % CEMU_WARP);
	for (int i = 0; i < CEMU_WARP; i++)
	{
		CemuThread *o = first + i;

		if (!(mask >> i & 1))
			continue;
		if (o >= threads + n_threads)
			cemu_fail("is in %s at %s:%d with mask %08x, and the block has no lane %d", t->op, t->file,
					  t->line, mask, i);
		if (o->state == CEMU_EXITED)
			cemu_fail("waits in %s at %s:%d with mask %08x, and %s", t->op, t->file, t->line, mask,
					  place(o));
		if (o->state != CEMU_WARPOP)
			continue;
		if (o->line != t->line || o->mask != mask || strcmp(o->op, t->op) != 0 ||
			strcmp(o->file, t->file) != 0)
			cemu_fail("divergent: it is in %s at %s:%d, mask %08x, and %s, mask %08x", t->op, t->file,
					  t->line, mask, place(o), o->mask);
	}
}

/* The open meeting of these lanes, or one in which nobody waits. */
static Meeting *
find_meeting(Warp *w, uint32_t mask)
{
	for (uint32_t open = w->open; open != 0; open &= open - 1)
	{
		Meeting    *m = &w->meetings[__builtin_ctz(open)];

		if (m->mask == mask)
			return m;
	}
	return &w->meetings[__builtin_ctz(~w->open)];
}

void
cemu_warp(const char *op, uint32_t mask, void *arg, void (*compute) (void **args, uint32_t mask),
		  const char *file, int line)
{
	CemuThread *t = cemu_now;
	Warp	   *w;
	Meeting    *m;
	uint32_t	me;

	wait_in(CEMU_WARPOP, op, file, line);
	t->mask = mask;
	w = &warps[t->id / CEMU_WARP];
	me = 1u << t->id % CEMU_WARP;
	m = find_meeting(w, mask);
	/* constant time while all is well: the lanes of mask that wait anywhere are those of this meeting */
	if (CEMU_CHECKS && (!(mask & me) || (mask & (w->exited | ~w->present)) != 0 ||
						(w->waiting & mask) != m->here ||
						(m->here != 0 && (m->line != line || m->op != op || m->file != file))))
		check_lanes(t, mask);
	if (m->here == 0)
	{
		m->op = op;
		m->file = file;
		m->line = line;
		if (m->mask != mask)
			memset(m->args, 0, sizeof(m->args));
		m->mask = mask;
	}
	m->here |= me;
	m->args[t->id % CEMU_WARP] = arg;
	if (m->here != mask)
	{
		w->waiting |= me;
		w->open |= 1u << (m - w->meetings);
		yield();
		return;
	}
	w->waiting &= ~mask;
	w->open &= ~(1u << (m - w->meetings));
	for (uint32_t left = mask; left != 0; left &= left - 1)
		threads[t->id / CEMU_WARP * CEMU_WARP + __builtin_ctz(left)].state = CEMU_RUN;
	compute(m->args, mask);
	m->here = 0;
}
