/*
 * offload.c
 *	  Move blocks of the pool to the offload tier, and back (offload.h).
 *
 * Blocks that are loaded are copied into free blocks at once, while the plan is made; then they are
 * known and free like those of a request that has ended, and the rest of the scheduler does not notice.
 * So the content that they overwrite must be read before: by offload_out(), and by the plan's copies so
 * far, which are made immediately.  Blocks in files are held in the tier until they are copied; the
 * request waits, and later requests pass it.
 *
 * Loading is worthwhile if it is faster than computing: the least time that computing has taken for a
 * unit of work (step_time.c) is compared with the time of copying a byte and, for files, the tier's
 * estimate of its disk.  Before anything has been measured, blocks are loaded.
 *
 * Invariants: a request with `wait` is in a queue; the holds of all requests are at most half of the
 * tier's memory.
 *
 * Tested by tests/unit/core/offload/test_offload.c and tests/t/099_offload.pl.
 */
#include "core/offload/offload.h"

#include <math.h>
#include <string.h>

#include "base/blake2.h"
#include "base/clock.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/rng.h"

#define BYTES_PER_US	5000.0	/* speed of copying, before it has been measured */
#define LEAST_PER_US	500.0	/* no memory is slower: a lower value means that the thread was not running */
#define WRITING_US		20000	/* interval of checking the writing of files */
#define IDLE_PART		16		/* when idle, each call puts 1/IDLE_PART of a batch */
#define LEARN_RATE		0.2
#define LEARN_BYTES		((size_t) 64 << 10)	/* smaller copies are not used to measure the speed */
#define MOST_WAIT_US	INT64_C(2000000)	/* longest wait while the time of computing is unknown */

struct OffloadWait
{
	OffloadWait *prev;			/* neighbours in the list of waits */
	OffloadWait *next;
	Req		   *r;
	int			from;			/* index of the first block in the sequence */
	int			n;
	int			cap;
	KvHold	  **holds;			/* [n]; NULL = released */
};

struct Offload
{
	OffloadSetup set;
	KvTierModel *model;
	OffCopy    *copy;
	unsigned char id[KVTIER_KEY];
	uint64_t	nonce;			/* for adapters whose content is unknown */
	size_t		bytes;			/* bytes of a block */
	size_t		most_held;		/* limit of all requests' holds, in bytes */
	size_t		held;
	OffloadKey *keys;			/* [blocks of the pool] keys of known blocks */
	/* blocks noted since they were last put; some may have been overwritten */
	IntVec		fresh;
	unsigned char *is_fresh;	/* [blocks] 1 = in fresh */
	size_t		batch;			/* bytes that are put at once when idle; the tier has room for several
								 * batches */
	size_t		out_left;		/* rest of this step's limit */
	size_t		back_left;
	double		bytes_per_us;
	int			n_waiting;
	OffloadWait *waits;			/* list of all requests' waits */
	bool		files;			/* the tier has files */
	/* state of the tier at the last offload_idle(): */
	bool		read_only;		/* files can't be written */
	bool		backlogged;		/* too many entries wait to be written */
	bool		writing;		/* entries wait to be written */
	bool		stopped;
	OffloadStats stats;
	/* scratch */
	IntVec		found;			/* blocks of the current request, each with a reference */
	OffloadKey *run;			/* [run_cap] keys of the blocks that the tier has for it */
	int			run_cap;
};

/* The position after a request's known tokens. */
typedef struct OffloadPlace
{
	int			block;			/* number of known blocks */
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

/* Put a block into the tier; returns false if it has no room. */
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
	/* an entry that exists already costs nothing */
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
	/* from the end: the order only matters for what is dropped */
	while (o->fresh.len > 0 && o->out_left >= o->bytes)
	{
		int32_t		b = o->fresh.data[--o->fresh.len];

		o->is_fresh[b] = 0;
		if (!o->stopped && prefix_is_full(o->set.prefix, b))
			put(o, b);
	}
	/* between steps this core holds nothing of the tier */
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
	/* the blocks of the last step are computed now */
	prefix_next_step(o->set.prefix);
	while (offload_some(o, o->batch) && clock_us() < deadline_us)
	{
		KvTierStats st;

		/* entries without a file would be evicted for the following ones */
		kvtier_stats(o->set.tier, &st);
		if (st.files == KVF_READY && st.unwritten * o->bytes > st.memory_limit / 2)
			kvtier_flush(o->set.tier, deadline_us);
	}
}

int64_t
offload_idle_us(const Offload *o)
{
	if (!o->files || o->stopped || o->read_only)
		return 0;
	if (o->fresh.len > 0)
		return o->backlogged ? WRITING_US : OFFLOAD_POLL_US;
	return o->writing ? WRITING_US : 0;
}

void
offload_idle(Offload *o)
{
	KvTierStats st;

	if (!o->files || o->stopped || (o->fresh.len == 0 && !o->writing))
		return;
	kvtier_stats(o->set.tier, &st);
	/* another process uses the files, or the disk is full: try again after the next computation */
	o->read_only = st.files != KVF_READY && st.files != KVF_OPENING;
	/* let the thread catch up, since entries not written when memory is short are lost */
	o->backlogged = st.unwritten * o->bytes > o->most_held / 2;
	if (o->fresh.len > 0 && !o->read_only && !o->backlogged)
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
	/* blocks that are being loaded are older than the reset, too */
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

/* Reference r's n known blocks, so that loading does not overwrite them. */
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

/* Release the references from the end, since the end of a sequence is reused first. */
static void
let_go_found(Offload *o)
{
	while (o->found.len > 0)
		kvpool_unref(o->set.pool, o->found.data[--o->found.len]);
}

/* Count the blocks after p that the tier has, and how many of them, from the first on, are in memory. */
static int
look(Offload *o, const Req *r, const OffloadPlace *p, int *n_memory)
{
	int			size = o->set.block_size;
	int			limit = prefix_cache_limit(r);
	OffloadKey	key = p->key;
	uint64_t	next;
	int			n = 0;

	*n_memory = 0;
	/* the block may be known, and only a part of it wanted */
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

/* Return the microseconds that loading n blocks after p saves; `files` of them are not in memory. */
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
		/* they arrive in the next step at the earliest */
		us += plan->n_rows > 0 && isfinite(others) ? others : 0;
	}
	return rate * cost_units(cost, hit->tokens, tokens) - us;
}

/* Return how many of n blocks are worth loading. */
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

/* Hold the first n blocks of the run, or as many as allowed. */
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

/* Make the plan's copies now: their sources may be overwritten next. */
static void
make_copies(const Offload *o, Plan *plan)
{
	offcopy_fence(o->copy);
	for (int k = 0; k < OFFLOAD_AREAS; k++)
		if (o->set.areas[k] != NULL)
			core_copy_blocks(o->set.kernels, o->set.threads, o->set.areas[k], plan);
	plan->n_copies = 0;
}

/* Copy one block to a free block of the pool, as the next one after p; returns false if there is none. */
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

/*
 * Copy as many of the blocks that r waits for as have arrived and as the step's limit allows;
 * OFFLOAD_NOTHING: there will be no more.
 */
static OffloadAnswer
bring_some(Offload *o, PrefixCache *s, Req *r, OffloadPlace *p)
{
	const OffloadWait *w = r->kv.wait;

	for (;;)
	{
		int			i = p->block - w->from;
		KvHoldState st;

		/* earlier blocks have been overwritten meanwhile, or all are loaded */
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

/*
 * Update the measured speed of copying.  It decides whether blocks are loaded at all, so it has a lower
 * bound: no odd measurement may end the loading for ever.
 */
static void
learn(Offload *o, size_t bytes, int64_t us)
{
	double		now = (double) bytes / (double) (us > 0 ? us : 1);

	o->stats.back_bytes += (int64_t) bytes;
	if (bytes >= LEARN_BYTES)
		o->bytes_per_us = fmax(o->bytes_per_us + LEARN_RATE * (now - o->bytes_per_us), LEAST_PER_US);
}

/* Count r's tokens: at its first query, and when tokens have been loaded. */
static void
count(Offload *o, Req *r, const PrefixHit *hit, const OffloadPlace *p)
{
	int			limit = prefix_cache_limit(r);
	int			upto = p->block * o->set.block_size < limit ? p->block * o->set.block_size : limit;

	if (r->sched.preemptions > 0)
		return;
	if (!r->kv.searched)
		o->stats.queries += limit - hit->tokens;
	if (!r->kv.searched || r->kv.back_to < hit->tokens)
		r->kv.back_to = hit->tokens;
	r->kv.searched = true;
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
