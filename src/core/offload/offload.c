/*
 * offload.c
 *	  The way to the store behind the pool, and back (offload.h).
 *
 * Blocks that come back are put into free blocks at once, while the plan is made, and are then known and
 * free like those of a request that has ended: nothing else of the scheduler knows of them.  So what they
 * overwrite is read before: by offload_out(), and by the plan's copies so far, which are made then and there.
 * What is in files is held in the store until it is copied; the request waits aside, and whoever comes after
 * it goes on.
 *
 * Whether it is worth while: the least time that computing has taken for a unit of work (step_time.c),
 * against the time that copying takes for a byte, and, of files, what the store says about its disk.
 * Before anything has been measured blocks come back.
 *
 * Invariants: a request with `wait` is in a queue; the holds of all of them are at most half of the store's
 * memory.
 *
 * Tested by tests/unit/core/test_offload.c and tests/t/099_offload.pl.
 */
#include "core/offload/offload.h"

#include <math.h>
#include <string.h>

#include "base/blake2.h"
#include "base/clock.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/rng.h"

#define BYTES_PER_US	5000.0	/* of copying, before it has been measured */
#define LEAST_PER_US	500.0	/* no memory is slower: the thread was kept from its processor */
#define WRITING_US		20000	/* so often it is looked how far files are */
#define IDLE_PART		16		/* of what a step may put, at once while there are no steps */
#define LEARN_RATE		0.2
#define LEARN_BYTES		((size_t) 64 << 10)	/* less tells nothing about the time of a byte */
#define MOST_WAIT_US	INT64_C(2000000)	/* while nobody knows what computing takes */

struct OffloadWait
{
	OffloadWait *prev;			/* of other requests */
	OffloadWait *next;
	Req		   *r;
	int			from;			/* number of the first block in the sequence */
	int			n;
	int			cap;
	KvHold	  **holds;			/* [n]; NULL: given up */
};

struct Offload
{
	OffloadSetup set;
	KvTierModel *model;
	OffCopy    *copy;
	unsigned char id[KVTIER_KEY];
	uint64_t	nonce;			/* of adapters whose content nobody knows */
	size_t		bytes;			/* of a block */
	size_t		most_held;		/* holds of all requests, in bytes */
	size_t		held;
	OffloadKey *keys;			/* [blocks of the pool] of those that are known */
	/* blocks that became known since they were last put, as far as they still are */
	IntVec		fresh;
	unsigned char *is_fresh;	/* [blocks] */
	size_t		batch;			/* of what goes out at rest: the store has room for several */
	size_t		out_left;		/* of this step */
	size_t		back_left;
	double		bytes_per_us;
	int			n_waiting;
	OffloadWait *waits;			/* of all requests */
	bool		files;			/* the store has some */
	/* State of the store at the last idle moment: */
	bool		shut;			/* nothing can be written */
	bool		behind;			/* more is to be written than shall be at once */
	bool		writing;		/* something is */
	bool		stopped;
	OffloadStats stats;
	/* scratch */
	IntVec		found;			/* blocks of the request at hand, each with a reference */
	OffloadKey *run;			/* [run_cap] keys of what the store has for it */
	int			run_cap;
};

/* Where a request's tokens end that are known, and what comes behind. */
typedef struct OffloadPlace
{
	int			block;			/* so many are known */
	uint64_t	chain;
	OffloadKey	key;
} OffloadPlace;

Offload *
offload_open(const OffloadSetup *setup, Err *e)
{
	Offload    *o = mem_zalloc(sizeof(*o));
	size_t		n = (size_t) kvpool_total(setup->pool) + 1;
	KvTierStats st;

	o->set = *setup;
	memcpy(o->id, setup->id, KVTIER_KEY);
	o->set.id = o->id;
	o->nonce = rng_seed();
	if (setup->step_bytes == 0)
		o->set.step_bytes = OFFLOAD_STEP_BYTES;
	o->bytes_per_us = BYTES_PER_US;
	kvtier_stats(setup->tier, &st);
	o->most_held = (size_t) st.memory_limit / 2;
	o->batch = (size_t) st.memory_limit / 4 < o->set.step_bytes ? (size_t) st.memory_limit / 4 :
		o->set.step_bytes;
	o->copy = offcopy_new(setup->dev, setup->tier, setup->areas, o->batch, e);
	if (o->copy != NULL)
	{
		o->bytes = offcopy_bytes(o->copy);
		o->model = kvtier_join(setup->tier, setup->id, o->bytes, e);
	}
	if (o->model == NULL)
	{
		offcopy_free(o->copy);
		mem_free(o);
		return NULL;
	}
	if (o->set.step_bytes < o->bytes)
		o->set.step_bytes = o->bytes;
	if (o->batch < o->bytes)
		o->batch = o->bytes;
	o->files = st.files != KVF_NONE;
	o->keys = mem_zalloc(n * sizeof(OffloadKey));
	o->is_fresh = mem_zalloc(n);
	offload_step(o);
	return o;
}

void
offload_close(Offload *o)
{
	if (o == NULL)
		return;
	offcopy_free(o->copy);
	kvtier_leave(o->set.tier, o->model);
	intvec_free(&o->fresh);
	intvec_free(&o->found);
	mem_free(o->is_fresh);
	mem_free(o->keys);
	mem_free(o->run);
	mem_free(o);
}

size_t
offload_memory(const Offload *o)
{
	return ((size_t) kvpool_total(o->set.pool) + 1) * (sizeof(OffloadKey) + 1) + offcopy_memory(o->copy);
}

const OffloadStats *
offload_stats(const Offload *o)
{
	return &o->stats;
}

void
offload_bytes(const Offload *o, uint64_t *memory, uint64_t *files)
{
	kvtier_model_bytes(o->set.tier, o->model, memory, files);
}

/* ---- keys ---- */

void
offload_begin(const Offload *o, Req *r)
{
	static const unsigned char unknown[sizeof(r->in.lora->content)];
	int			n = r->pooled != NULL ? r->pooled->n_reqs : 1;
	OffloadKey	root;
	Blake2		b;

	blake2_begin(&b, kvtier_secret(o->set.tier), KVTIER_KEY);
	blake2_add(&b, "root", 5);
	blake2_add(&b, o->id, KVTIER_KEY);
	blake2_add(&b, &r->in.owner, sizeof(r->in.owner));
	blake2_add(&b, r->in.lora != NULL ? "a" : "-", 1);
	if (r->in.lora != NULL && memcmp(r->in.lora->content, unknown, sizeof(unknown)) != 0)
		blake2_add(&b, r->in.lora->content, sizeof(r->in.lora->content));
	else if (r->in.lora != NULL)
	{
		blake2_add(&b, &o->nonce, sizeof(o->nonce));
		blake2_add(&b, &r->in.lora->id, sizeof(r->in.lora->id));
	}
	if (r->in.params.cache_salt != NULL)
		blake2_add(&b, r->in.params.cache_salt, strlen(r->in.params.cache_salt));
	blake2_end(&b, root.b);
	for (int i = 0; i < n; i++)
	{
		Req		   *q = r->pooled != NULL ? r->pooled->reqs[i] : r;

		q->kv.root_key = q->kv.key = root;
	}
}

void
offload_next(const Offload *o, OffloadKey *key, const int32_t *tokens)
{
	Blake2		b;

	blake2_begin(&b, kvtier_secret(o->set.tier), KVTIER_KEY);
	blake2_add(&b, "next", 5);
	blake2_add(&b, key->b, sizeof(key->b));
	blake2_add(&b, tokens, (size_t) o->set.block_size * sizeof(int32_t));
	blake2_end(&b, key->b);
}

void
offload_note(Offload *o, int32_t block, const OffloadKey *key)
{
	o->keys[block] = *key;
	if (o->is_fresh[block])
		return;
	o->is_fresh[block] = 1;
	intvec_push(&o->fresh, block);
}

const OffloadKey *
offload_key(const Offload *o, int32_t block)
{
	return &o->keys[block];
}

/* ---- out ---- */

/* false: the store has no room. */
static bool
put(Offload *o, int32_t block)
{
	KvHold	   *h = kvtier_put(o->set.tier, o->model, o->keys[block].b);

	if (h == NULL)
		return kvtier_find(o->set.tier, o->model, o->keys[block].b) != KVT_NONE;
	offcopy_out(o->copy, block, h);
	o->stats.out_bytes += (int64_t) o->bytes;
	o->out_left -= o->out_left < o->bytes ? o->out_left : o->bytes;
	return true;
}

void
offload_out(Offload *o, int32_t block)
{
	if (o->stopped || !prefix_is_full(o->set.prefix, block))
		return;
	/* what the store has already costs nothing */
	if (o->out_left < o->bytes && kvtier_find(o->set.tier, o->model, o->keys[block].b) == KVT_NONE)
		o->stats.dropped_bytes += (int64_t) o->bytes;
	else if (!put(o, block))
		o->stats.dropped_bytes += (int64_t) o->bytes;
}

bool
offload_some(Offload *o, size_t most)
{
	bool		any = o->fresh.len > 0;

	o->out_left = most > o->bytes ? most : o->bytes;
	/* from the end: its order does not matter but for what is dropped */
	while (o->fresh.len > 0 && o->out_left >= o->bytes)
	{
		int32_t		b = o->fresh.data[--o->fresh.len];

		o->is_fresh[b] = 0;
		if (!o->stopped && prefix_is_full(o->set.prefix, b))
			put(o, b);
	}
	/* nothing of the store is ours between steps */
	offcopy_settle(o->copy);
	return any;
}

void
offload_fence(Offload *o)
{
	offcopy_fence(o->copy);
}

bool
offload_work(Offload *o)
{
	return offcopy_work(o->copy);
}

void
offload_settle(Offload *o)
{
	offcopy_settle(o->copy);
}

void
offload_all(Offload *o, int64_t deadline_us)
{
	/* what the last step has computed is there */
	prefix_next_step(o->set.prefix);
	while (offload_some(o, o->batch) && clock_us() < deadline_us)
	{
		KvTierStats st;

		/* what has no file yet would make room for what follows */
		kvtier_stats(o->set.tier, &st);
		if (st.files == KVF_READY && st.unwritten * o->bytes > st.memory_limit / 2)
			kvtier_flush(o->set.tier, deadline_us);
	}
}

int64_t
offload_idle_us(const Offload *o)
{
	if (!o->files || o->stopped || o->shut)
		return 0;
	if (o->fresh.len > 0)
		return o->behind ? WRITING_US : OFFLOAD_POLL_US;
	return o->writing ? WRITING_US : 0;
}

void
offload_idle(Offload *o)
{
	KvTierStats st;

	if (!o->files || o->stopped || (o->fresh.len == 0 && !o->writing))
		return;
	kvtier_stats(o->set.tier, &st);
	/* another process has them, or the disk is full: not before something has been computed again */
	o->shut = st.files != KVF_READY && st.files != KVF_OPENING;
	/* the thread shall follow, as what it has not written when memory is short is lost */
	o->behind = st.unwritten * o->bytes > o->most_held / 2;
	if (o->fresh.len > 0 && !o->shut && !o->behind)
	{
		offload_some(o, o->batch / IDLE_PART);
		kvtier_write(o->set.tier);
		kvtier_stats(o->set.tier, &st);
	}
	o->writing = st.unwritten > 0;
}

void
offload_shed(Offload *o, int64_t deadline_us)
{
	(void) kvtier_flush(o->set.tier, deadline_us);
	kvtier_shed(o->set.tier, o->model);
}

void
offload_stop(Offload *o)
{
	o->stopped = true;
}

void
offload_let_go(Offload *o)
{
	while (o->waits != NULL)
		offload_end(o, o->waits->r);
}

void
offload_reset(Offload *o)
{
	/* what is on its way back is of before, too */
	offload_let_go(o);
	kvtier_reset(o->set.tier, o->model);
	while (o->fresh.len > 0)
		o->is_fresh[o->fresh.data[--o->fresh.len]] = 0;
}

/* ---- back ---- */

void
offload_step(Offload *o)
{
	o->out_left = o->back_left = o->set.step_bytes;
	o->n_waiting = 0;
}

int
offload_n_waiting(const Offload *o)
{
	return o->n_waiting;
}

static const int32_t *
tokens_at(const Offload *o, const Req *r, int block)
{
	return r->tokens.data + (size_t) block * (size_t) o->set.block_size;
}

/* r's blocks that are known, which must not be taken for what comes back. */
static OffloadPlace
hold_found(Offload *o, const Req *r, int n)
{
	OffloadPlace p = {0, r->kv.root, r->kv.root_key};

	intvec_reset(&o->found);
	for (; p.block < n; p.block++)
	{
		int32_t		b = prefix_find(o->set.prefix, p.chain, tokens_at(o, r, p.block), &p.chain);

		/* prefix_cache_lookup() has found it */
		ALWAYS(b != 0);
		kvpool_ref(o->set.pool, b);
		intvec_push(&o->found, b);
		p.key = o->keys[b];
	}
	return p;
}

/* The end of a sequence is reused first. */
static void
let_go_found(Offload *o)
{
	while (o->found.len > 0)
		kvpool_unref(o->set.pool, o->found.data[--o->found.len]);
}

/* How many blocks behind p has the store, and how many of them, from the first on, in memory? */
static int
look(Offload *o, const Req *r, const OffloadPlace *p, int *n_memory)
{
	int			size = o->set.block_size;
	int			limit = prefix_cache_limit(r);
	OffloadKey	key = p->key;
	uint64_t	next;
	int			n = 0;

	*n_memory = 0;
	/* it may be known, and wanted in part only */
	if ((p->block + 1) * size > (int) r->tokens.len ||
		prefix_find(o->set.prefix, p->chain, tokens_at(o, r, p->block), &next) != 0)
		return 0;
	for (int k = p->block; k * size < limit && (k + 1) * size <= (int) r->tokens.len; k++)
	{
		KvPlace		where;

		offload_next(o, &key, tokens_at(o, r, k));
		where = kvtier_find(o->set.tier, o->model, key.b);
		if (where == KVT_NONE)
			break;
		if (n == o->run_cap)
		{
			o->run_cap = o->run_cap > 0 ? 2 * o->run_cap : 64;
			o->run = mem_realloc(o->run, (size_t) o->run_cap * sizeof(OffloadKey));
		}
		o->run[n++] = key;
		if (where == KVT_MEMORY && *n_memory == n - 1)
			*n_memory = n;
	}
	return n;
}

/* Microseconds that n blocks behind p save; of `files` blocks that are not in memory. */
static double
gain(const Offload *o, const Req *r, const PrefixHit *hit, const OffloadPlace *p, const Cost *cost,
	 const Plan *plan, int n, int files)
{
	int			limit = prefix_cache_limit(r);
	int			upto = (p->block + n) * o->set.block_size;
	int			tokens = (upto < limit ? upto : limit) - hit->tokens;
	double		rate = cost_rate(cost);
	double		us = (double) n * (double) o->bytes / o->bytes_per_us;
	double		others = cost_predict(cost, plan->units);

	if (n == 0 || tokens <= 0)
		return 0;
	if (rate == 0 || o->set.always)
		return n;
	if (files > 0)
	{
		us += kvtier_read_wait(o->set.tier, (size_t) files * o->bytes) * 1e6;
		/* it comes back in the next step at the earliest */
		us += plan->n_rows > 0 && isfinite(others) ? others : 0;
	}
	return rate * cost_units(cost, hit->tokens, tokens) - us;
}

/* How many of n blocks are worth while? */
static int
choose(const Offload *o, const Req *r, const PrefixHit *hit, const OffloadPlace *p, const Cost *cost,
	   const Plan *plan, int n, int n_memory)
{
	double		whole = gain(o, r, hit, p, cost, plan, n, n - n_memory);
	double		part = n_memory < n ? gain(o, r, hit, p, cost, plan, n_memory, 0) : 0;

	if (whole <= 0 && part <= 0)
		return 0;
	return whole >= part ? n : n_memory;
}

/* Hold the first n of the run, or as many as may be. */
static void
begin_wait(Offload *o, Req *r, const OffloadPlace *p, int n)
{
	OffloadWait *w = mem_zalloc(sizeof(*w));

	w->from = p->block;
	w->holds = mem_alloc((size_t) n * sizeof(KvHold *));
	for (; w->n < n && (o->held == 0 || o->held + o->bytes <= o->most_held); w->n++)
	{
		if ((w->holds[w->n] = kvtier_fetch(o->set.tier, o->model, o->run[w->n].b)) == NULL)
			break;
		o->held += o->bytes;
	}
	w->r = r;
	w->next = o->waits;
	if (w->next != NULL)
		w->next->prev = w;
	o->waits = r->kv.wait = w;
}

static void
release(Offload *o, KvHold **h)
{
	if (*h == NULL)
		return;
	kvtier_release(o->set.tier, *h);
	*h = NULL;
	o->held -= o->bytes;
}

static void
end_wait(Offload *o, Req *r)
{
	OffloadWait *w = r->kv.wait;

	for (int i = 0; i < w->n; i++)
		release(o, &w->holds[i]);
	if (w->prev != NULL)
		w->prev->next = w->next;
	else
		o->waits = w->next;
	if (w->next != NULL)
		w->next->prev = w->prev;
	mem_free(w->holds);
	mem_free(w);
	r->kv.wait = NULL;
}

void
offload_end(Offload *o, Req *r)
{
	r->kv.wait_until_us = 0;
	if (r->kv.wait != NULL)
		end_wait(o, r);
}

/* What a copy of the plan takes may be overwritten now. */
static void
make_copies(const Offload *o, Plan *plan)
{
	offcopy_fence(o->copy);
	for (int k = 0; k < OFFLOAD_AREAS; k++)
		if (o->set.areas[k] != NULL)
			core_copy_blocks(o->set.kernels, o->set.threads, o->set.areas[k], plan);
	plan->n_copies = 0;
}

/* One block into a free one of the pool, as p's next; false: there is none. */
static bool
bring(Offload *o, PrefixCache *s, const Req *r, OffloadPlace *p, const KvHold *h)
{
	int32_t		b;

	if (!prefix_cache_alloc(s, 1, &b))
		return false;
	offcopy_back(o->copy, b, kvtier_bytes(h));
	offload_next(o, &p->key, tokens_at(o, r, p->block));
	p->chain = prefix_add(o->set.prefix, p->chain, b, tokens_at(o, r, p->block), o->set.block_size, false);
	o->keys[b] = p->key;
	intvec_push(&o->found, b);
	p->block++;
	return true;
}

/* As many of what r waits for as have come, and as a step may have; NOTHING: there won't be more. */
static OffloadAnswer
bring_some(Offload *o, PrefixCache *s, Req *r, OffloadPlace *p)
{
	const OffloadWait *w = r->kv.wait;

	for (;;)
	{
		int			i = p->block - w->from;
		KvHoldState st;

		/* what was found before has been overwritten meanwhile, or all is there */
		if (i < 0 || i >= w->n || w->holds[i] == NULL)
			return OFFLOAD_NOTHING;
		st = kvtier_state(w->holds[i]);
		if (st == KVH_LOST)
			return OFFLOAD_NOTHING;
		if (st == KVH_COMING || o->back_left < o->bytes)
			return OFFLOAD_LATER;
		if (!bring(o, s, r, p, w->holds[i]))
			return OFFLOAD_NOTHING;
		release(o, &w->holds[i]);
		o->back_left -= o->bytes;
	}
}

/* What is learnt decides whether it is done again: no single measurement, however odd, may end that. */
static void
learn(Offload *o, size_t bytes, int64_t us)
{
	double		now = (double) bytes / (double) (us > 0 ? us : 1);

	o->stats.back_bytes += (int64_t) bytes;
	if (bytes >= LEARN_BYTES)
		o->bytes_per_us = fmax(o->bytes_per_us + LEARN_RATE * (now - o->bytes_per_us), LEAST_PER_US);
}

/* r is asked for the first time, or has got tokens back. */
static void
count(Offload *o, Req *r, const PrefixHit *hit, const OffloadPlace *p)
{
	int			limit = prefix_cache_limit(r);
	int			upto = p->block * o->set.block_size < limit ? p->block * o->set.block_size : limit;

	if (r->sched.preemptions > 0)
		return;
	if (!r->kv.asked)
		o->stats.queries += limit - hit->tokens;
	if (!r->kv.asked || r->kv.back_to < hit->tokens)
		r->kv.back_to = hit->tokens;
	r->kv.asked = true;
	if (upto > r->kv.back_to)
	{
		o->stats.hits += upto - r->kv.back_to;
		r->kv.back += upto - r->kv.back_to;
		r->kv.back_to = upto;
	}
}

static void
note_until(const Offload *o, Req *r, const PrefixHit *hit, const Cost *cost, int64_t now_us)
{
	double		rate = cost_rate(cost);
	int			tokens = prefix_cache_limit(r) - hit->tokens;

	if (r->kv.wait_until_us == 0)
		r->kv.wait_until_us = now_us +
			(rate == 0 ||
			 o->set.always ? MOST_WAIT_US : (int64_t) (rate * cost_units(cost, hit->tokens, tokens)));
}

OffloadAnswer
offload_back(Offload *o, PrefixCache *s, Req *r, const PrefixHit *hit, const Cost *cost, Plan *plan,
			 int64_t now_us)
{
	OffloadAnswer a = OFFLOAD_NOTHING;
	OffloadPlace p;
	int			before;

	if (o->stopped && r->kv.wait != NULL)
		end_wait(o, r);
	if (o->stopped || !r->kv.shares || (r->sched.parent != NULL && r->sched.parent->sched.state == RQ_HELD))
		return OFFLOAD_NOTHING;
	p = hold_found(o, r, hit->n_blocks);
	before = p.block;
	count(o, r, hit, &p);
	if (r->kv.wait == NULL && (r->kv.wait_until_us == 0 || now_us < r->kv.wait_until_us))
	{
		int			n_memory;
		int			n = look(o, r, &p, &n_memory);

		n = choose(o, r, hit, &p, cost, plan, n, n_memory);
		if (n > 0)
			begin_wait(o, r, &p, n);
	}
	if (r->kv.wait != NULL)
	{
		int64_t		begin = clock_us();

		note_until(o, r, hit, cost, now_us);
		make_copies(o, plan);
		a = bring_some(o, s, r, &p);
		if (p.block > before)
			learn(o, (size_t) (p.block - before) * o->bytes, clock_us() - begin);
		count(o, r, hit, &p);
		if (a == OFFLOAD_LATER && now_us >= r->kv.wait_until_us)
		{
			o->stats.late++;
			a = OFFLOAD_NOTHING;
		}
		if (a == OFFLOAD_LATER)
			o->n_waiting++;
		else
		{
			end_wait(o, r);
			a = p.block > before ? OFFLOAD_BACK : OFFLOAD_NOTHING;
		}
	}
	let_go_found(o);
	return a;
}
