/*
 * replica_router.c
 *	  Choose the replica for a request, and add up the counters of replicas.
 *
 * Tested by tests/unit/backend/test_replicas.c, and with models by tests/t/102_replicas.pl.
 */
#include "backend/replica_router.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define SLOTS	8192			/* a power of 2 */

/* The prefix of a prompt up to the end of some block. */
typedef struct ReplicaRouterSeen
{
	uint64_t	digest;
	uint32_t	where;			/* bit r: replica r has computed the prefix; 0 = free slot */
} ReplicaRouterSeen;

struct Replicas
{
	int			n;
	int			block_size;
	pthread_mutex_t lock;
	ReplicaRouterSeen seen[SLOTS];
};

Replicas *
replicas_new(int n, int block_size)
{
	Replicas   *q = mem_zalloc(sizeof(Replicas));

	ALWAYS(n > 0 && n <= REPLICAS_MOST && n <= 32 && block_size > 0);
	q->n = n;
	q->block_size = block_size;
	pthread_mutex_init(&q->lock, NULL);
	return q;
}

void
replicas_free(Replicas *q)
{
	if (q == NULL)
		return;
	pthread_mutex_destroy(&q->lock);
	mem_free(q);
}

static uint64_t
mix(uint64_t h, uint64_t x)
{
	h = (h ^ x) * UINT64_C(0x9E3779B97F4A7C15);
	return h ^ (h >> 29);
}

/*
 * Return the hash that the first block's hash is chained to: requests of other owners, salts and
 * adapters share no blocks.
 */
static uint64_t
root(const ReqSpec *spec)
{
	uint64_t	h = mix(1, spec->owner);

	h = mix(h, (uint64_t) (uintptr_t) spec->lora);
	for (const char *c = spec->params.cache_salt; c != NULL && *c != '\0'; c++)
		h = mix(h, (unsigned char) *c);
	return h;
}

static uint64_t
chain_hash(const Replicas *q, uint64_t h, const int32_t *block)
{
	for (int i = 0; i < q->block_size; i++)
		h = mix(h, (uint32_t) block[i]);
	return h;
}

static ReplicaRouterSeen *
slot(Replicas *q, uint64_t digest)
{
	return &q->seen[(digest >> 16) % SLOTS];
}

/* Return the full blocks of a prompt whose token ids are known; a prompt of embeddings has none. */
static int
blocks(const Replicas *q, const ReqSpec *spec)
{
	return spec->embeds != NULL ? 0 : (int) spec->prompt.len / q->block_size;
}

/* Set hit[r] to the number of leading tokens that replica r has computed. */
static void
find(Replicas *q, const ReqSpec *spec, int64_t *hit)
{
	uint64_t	h = root(spec);
	uint32_t	all = ~UINT32_C(0);

	for (int b = 0; b < blocks(q, spec) && all != 0; b++)
	{
		const ReplicaRouterSeen *s;

		h = chain_hash(q, h, spec->prompt.data + (size_t) b * (size_t) q->block_size);
		s = slot(q, h);
		all &= s->digest == h ? s->where : 0;
		for (int r = 0; r < q->n; r++)
			hit[r] += (all >> r & 1) * (uint32_t) q->block_size;
	}
}

static void
note(Replicas *q, const ReqSpec *spec, int replica)
{
	uint64_t	h = root(spec);

	ALWAYS(replica >= 0 && replica < q->n);
	for (int b = 0; b < blocks(q, spec); b++)
	{
		ReplicaRouterSeen *s;

		h = chain_hash(q, h, spec->prompt.data + (size_t) b * (size_t) q->block_size);
		s = slot(q, h);
		if (s->digest != h)
			*s = (ReplicaRouterSeen) {.digest = h};
		s->where |= UINT32_C(1) << replica;
	}
}

int
replicas_choose(Replicas *q, const int64_t *live, const ReqSpec *spec)
{
	int64_t		hit[REPLICAS_MOST] = {0};
	int			best = 0;

	pthread_mutex_lock(&q->lock);
	find(q, spec, hit);
	for (int r = 1; r < q->n; r++)
		if (live[r] - hit[r] < live[best] - hit[best])
			best = r;
	note(q, spec, best);
	pthread_mutex_unlock(&q->lock);
	return best;
}

void
replicas_forget(Replicas *q)
{
	pthread_mutex_lock(&q->lock);
	memset(q->seen, 0, sizeof(q->seen));
	pthread_mutex_unlock(&q->lock);
}

/* ---- metrics ---- */

static bool
has_name(const char *list, const char *name, size_t n)
{
	for (const char *p = list; *p != '\0'; p += strcspn(p, ","), p += *p == ',')
		if (strcspn(p, ",") == n && memcmp(p, name, n) == 0)
			return true;
	return false;
}

/* Append the names that the list does not have yet, as far as there is room. */
static void
add_names(char *list, const char *more)
{
	for (const char *p = more; *p != '\0'; p += strcspn(p, ","), p += *p == ',')
	{
		size_t		n = strcspn(p, ",");
		size_t		len = strlen(list);

		if (!has_name(list, p, n) && len + n + 2 <= WIRE_LORA_NAMES)
			snprintf(list + len, WIRE_LORA_NAMES - len, "%s%.*s", len > 0 ? "," : "", (int) n, p);
	}
}

/*
 * Return true for gauges that are not a replica's own, so must not be added up: the longest sequence,
 * and those of the offload tier.
 */
static bool
is_common(CoreStats *s, const int64_t *figure)
{
	return figure == &s->kv_tokens || figure == &s->mem_offload || figure == &s->offload_file_bytes;
}

void
replicas_add(CoreStats *a, CoreStats *b)
{
	for (int i = 0; i < WIRE_N_FIGURES; i++)
	{
		int64_t    *x = wire_figure(&a->fig, i);
		int64_t		y = *wire_figure(&b->fig, i);

		if (wire_figures[i].kind == WIRE_COUNTER || (wire_figures[i].kind == WIRE_GAUGE && !is_common(a, x)))
			*x += y;
		else if (y > *x)
			*x = y;
	}
	for (int i = 0; i < STEP_SIZES; i++)
		a->step_sizes[i] += b->step_sizes[i];
	for (int i = 0; i < WIRE_N_KV_HISTS; i++)
	{
		for (int j = 0; j < WIRE_HIST_BUCKETS; j++)
			a->kv_life[i].count[j] += b->kv_life[i].count[j];
		a->kv_life[i].sum += b->kv_life[i].sum;
	}
	if (b->max_loras > a->max_loras)
		a->max_loras = b->max_loras;
	add_names(a->loras_running, b->loras_running);
	add_names(a->loras_waiting, b->loras_waiting);
}
