/*
 * wire.c
 *	  Arena geometry, rings and message fields, for both sides of the wire.
 *
 * Compiled into the PostgreSQL extension and into the engine: libc and base/assert.h only, no
 * allocation, no global state.  Nothing read from the arena is used before it is checked, and each
 * shared word is loaded once into a local.  Assertions are only about private data: the geometry, and
 * values derived from checked ones.
 *
 * Barriers (partner in parentheses):
 *	- byte rings: callers store the cursor with release after wire_ring_write()
 *	  (acquire load before wire_ring_read()), and the other way round for space.
 *	- slot rings: wire_push() stores the entry, then head (seq_cst); wire_pop()
 *	  loads head (seq_cst), then the entry.  push then loads tail, pop stored tail
 *	  before it loads head again: the later of the two sees the other's store, so
 *	  either pop returns the pushed entry or push returns "was empty".
 *
 * Tested by tests/unit/ipc/test_wire.c and tests/fuzz/fuzz_wire.c.
 */
#include "ipc/wire.h"

#include <string.h>

#include "base/assert.h"

/* ---- arena geometry ---- */

static uint64_t
align_up(uint64_t v, uint64_t to)
{
	return (v + to - 1) / to * to;
}

static bool
is_pow2(uint32_t v)
{
	return v != 0 && (v & (v - 1)) == 0;
}

bool
wire_layout(WireGeometry *g, uint32_t n_slots, uint32_t ring_size, uint64_t max_request)
{
	uint64_t	off = WIRE_HEADER_SIZE;

	memset(g, 0, sizeof(*g));
	if (!is_pow2(n_slots) || n_slots > WIRE_MAX_SLOTS)
		return false;
	if (!is_pow2(ring_size) || ring_size < 4096 || ring_size > (UINT32_C(1) << 30))
		return false;
	if (max_request < sizeof(WireMsg) || max_request > (UINT64_C(1) << 40))
		return false;
	g->magic = WIRE_MAGIC;
	g->version = WIRE_VERSION;
	g->n_slots = n_slots;
	g->ring_size = ring_size;
	g->max_request = max_request;
	g->stats_off = off;
	off += WIRE_STATS_SIZE;
	g->to_engine_off = off;
	off = align_up(off + 4 * (uint64_t) n_slots, 4096);
	g->to_worker_off = off;
	off = align_up(off + 4 * (uint64_t) n_slots, 4096);
	g->slots_off = off;
	off = align_up(off + WIRE_SLOT_SIZE * (uint64_t) n_slots, 4096);
	g->rings_off = off;
	off += 2 * (uint64_t) ring_size * n_slots;
	g->total_size = off;
	return true;
}

bool
wire_geometry_ok(const WireGeometry *g, uint64_t size)
{
	WireGeometry want;

	if (size < WIRE_HEADER_SIZE || g->magic != WIRE_MAGIC || g->version != WIRE_VERSION)
		return false;
	if (!wire_layout(&want, g->n_slots, g->ring_size, g->max_request))
		return false;
	return want.total_size <= size && memcmp(g, &want, sizeof(want)) == 0;
}

WireStats *
wire_stats(const WireArena *a)
{
	return (WireStats *) (a->base + a->geo.stats_off);
}

WireSlot *
wire_slot(const WireArena *a, uint32_t slot)
{
	return (WireSlot *) (a->base + a->geo.slots_off + (uint64_t) WIRE_SLOT_SIZE * slot);
}

char *
wire_req_ring(const WireArena *a, uint32_t slot)
{
	return a->base + a->geo.rings_off + (uint64_t) a->geo.ring_size * 2 * slot;
}

char *
wire_rep_ring(const WireArena *a, uint32_t slot)
{
	return wire_req_ring(a, slot) + a->geo.ring_size;
}

/* ---- slot number rings ---- */

static WireRing *
queue_ring(const WireArena *a, WireQueue q)
{
	return q == WQ_TO_ENGINE ? &wire_header(a)->to_engine : &wire_header(a)->to_worker;
}

/* Return the address of entry number `at` (free-running). */
static _Atomic uint32_t *
queue_entry(const WireArena *a, WireQueue q, uint32_t at)
{
	uint64_t	off = q == WQ_TO_ENGINE ? a->geo.to_engine_off : a->geo.to_worker_off;

	return (_Atomic uint32_t *) (a->base + off) + (at & (a->geo.n_slots - 1));
}

bool
wire_push(const WireArena *a, WireQueue q, uint32_t slot)
{
	WireRing   *r = queue_ring(a, q);
	uint32_t	head;

	ASSERT(slot < a->geo.n_slots);
	head = atomic_load_explicit(&r->head, memory_order_relaxed);

	atomic_store_explicit(queue_entry(a, q, head), slot, memory_order_relaxed);
	atomic_store(&r->head, head + 1);
	return atomic_load(&r->tail) == head;
}

bool
wire_pop(const WireArena *a, WireQueue q, uint32_t *slot)
{
	WireRing   *r = queue_ring(a, q);
	uint32_t	n_slots = a->geo.n_slots;
	uint32_t	tail = atomic_load_explicit(&r->tail, memory_order_relaxed);

	for (uint32_t i = 0; i < n_slots; i++)
	{
		uint32_t	head = atomic_load(&r->head);
		uint32_t	v;

		if (head == tail)
			return false;
		/*
		 * the cursors are corrupt, as a ring never has more than n_slots entries; still return its last
		 * n_slots
		 */
		if (head - tail > n_slots)
			tail = head - n_slots;
		v = atomic_load_explicit(queue_entry(a, q, tail), memory_order_relaxed);
		tail++;
		atomic_store(&r->tail, tail);
		if (v < n_slots)
		{
			*slot = v;
			return true;
		}
	}
	return false;
}

/* ---- byte rings ---- */

int
wire_ring_write(char *ring, uint32_t size, uint32_t head, uint32_t tail,
				const void *data, size_t n)
{
	uint32_t	used = head - tail;
	uint32_t	at = head & (size - 1);
	uint32_t	first;

	ASSERT(is_pow2(size));
	if (used > size)
		return -1;
	if (n > size - used)
		n = size - used;
	if (n == 0)
		return 0;
	first = size - at;
	if (first > n)
		first = (uint32_t) n;
	ASSERT(at + first <= size && n - first <= at);
	memcpy(ring + at, data, first);
	memcpy(ring, (const char *) data + first, n - first);
	return (int) n;
}

int
wire_ring_read(const char *ring, uint32_t size, uint32_t head, uint32_t tail,
			   void *data, size_t n)
{
	uint32_t	used = head - tail;
	uint32_t	at = tail & (size - 1);
	uint32_t	first;

	ASSERT(is_pow2(size));
	if (used > size)
		return -1;
	if (n > used)
		n = used;
	if (n == 0)
		return 0;
	first = size - at;
	if (first > n)
		first = (uint32_t) n;
	ASSERT(at + first <= size && n - first <= at);
	memcpy(data, ring + at, first);
	memcpy((char *) data + first, ring, n - first);
	return (int) n;
}

/* ---- messages ---- */

WireMsg
wire_head(int kind, int flags, uint64_t fields, uint32_t gen, uint32_t place)
{
	return (WireMsg)
	{
		.magic = WIRE_MSG_MAGIC,.gen = gen,.place = place,.kind = (uint16_t) kind,
			.flags = (uint16_t) (flags | (WIRE_CHECKED ? WIRE_SUMMED : 0)), .len = fields + WIRE_TRAILER
	};
}

/* FNV-1a over 64-bit words, then over the remaining bytes */
static uint64_t
sum_bytes(uint64_t h, const char *p, size_t n)
{
	uint64_t	w;

	for (; n >= sizeof(w); n -= sizeof(w), p += sizeof(w))
	{
		memcpy(&w, p, sizeof(w));
		h = (h ^ w) * UINT64_C(0x100000001b3);
		/* let the high bits of a word affect the low bits, too */
		h ^= h >> 29;
	}
	for (; n > 0; n--, p++)
		h = (h ^ (unsigned char) *p) * UINT64_C(0x100000001b3);
	return h;
}

uint64_t
wire_sum(const WireMsg *m, const void *fields)
{
	uint64_t	h = sum_bytes(UINT64_C(0xcbf29ce484222325), (const char *) m, sizeof(*m));

	return sum_bytes(h, fields, (size_t) wire_fields_len(m));
}

bool
wire_intact(const WireMsg *m, const void *body)
{
	uint64_t	sum;

	if ((m->flags & WIRE_SUMMED) == 0)
		return true;
	if (m->len < WIRE_SUM_BYTES)
		return false;
	memcpy(&sum, (const char *) body + wire_fields_len(m), sizeof(sum));
	return sum == wire_sum(m, body);
}

/* ---- fields ---- */

typedef struct FieldHead
{
	uint16_t	tag;
	uint16_t	type;
	uint32_t	len;			/* payload bytes without padding */
} FieldHead;

#define TAG_NAME_LEN 32

/* s[i] in lower case, as a constant expression; 0 after the end */
#define AT(s, i) ((s)[(i) < sizeof(s) ? (i) : 0])
#define LC(s, i) \
	((i) < sizeof(s) ? (char) (AT(s, i) | (AT(s, i) >= 'A' && AT(s, i) <= 'Z' ? 32 : 0)) : '\0')
#define LOWER(s) \
	LC(s, 0), LC(s, 1), LC(s, 2), LC(s, 3), LC(s, 4), LC(s, 5), \
	LC(s, 6), LC(s, 7), LC(s, 8), LC(s, 9), LC(s, 10), LC(s, 11), \
	LC(s, 12), LC(s, 13), LC(s, 14), LC(s, 15), LC(s, 16), LC(s, 17), \
	LC(s, 18), LC(s, 19), LC(s, 20), LC(s, 21), LC(s, 22), LC(s, 23), \
	LC(s, 24), LC(s, 25), LC(s, 26), LC(s, 27), LC(s, 28), LC(s, 29), \
	LC(s, 30), LC(s, 31)

/* indexed by tag; type 0 = no such tag */
static const struct
{
	char		name[TAG_NAME_LEN];
	int			type;
}			tag_table[] = {
#define X(name, num, type) [num] = {{LOWER(#name)}, type},
#include "ipc/fields.def"
#undef X
};

#define N_TAGS	((int) (sizeof(tag_table) / sizeof(tag_table[0])))

int
wire_tag_type(int tag)
{
	return tag >= 0 && tag < N_TAGS ? tag_table[tag].type : 0;
}

const char *
wire_tag_name(int tag)
{
	return wire_tag_type(tag) != 0 ? tag_table[tag].name : NULL;
}

bool
wire_tag_of_vocabulary(int tag)
{
	switch (tag)
	{
		case WTAG_PROMPT_IDS:
		case WTAG_PROMPT_EMBEDS:
		case WTAG_STOP_TOKEN_IDS:
		case WTAG_LOGIT_BIAS:
		case WTAG_ALLOWED_TOKEN_IDS:
		case WTAG_LOGPROB_TOKEN_IDS:
		case WTAG_RETURNED_TOKEN_IDS:
		case WTAG_STEP_TAG_ID:
		case WTAG_PIN:
			return true;
		default:
			return false;
	}
}

/* FNV-1a */
uint64_t
wire_model_hash(const char *path, const char *options)
{
	uint64_t	h = UINT64_C(0xcbf29ce484222325);

	for (const char *p = path; *p != '\0'; p++)
		h = (h ^ (unsigned char) *p) * UINT64_C(0x100000001b3);
	/* hash the NUL between path and options */
	h *= UINT64_C(0x100000001b3);
	for (const char *p = options != NULL ? options : ""; *p != '\0'; p++)
		h = (h ^ (unsigned char) *p) * UINT64_C(0x100000001b3);
	return h != 0 ? h : 1;
}

static void
put(WireOut *o, WireTag tag, WireType type, const void *data, size_t n)
{
	static const char zeros[8] = {0};
	FieldHead	fh = {.tag = (uint16_t) tag,.type = (uint16_t) type,.len = (uint32_t) n};

	/* a reader rejects a field whose type is not its tag's or whose length is wrong */
	ASSERT((int) type == wire_tag_type(tag));
	ASSERT(n == fh.len);
	o->append(o->ctx, &fh, sizeof(fh));
	if (n > 0)
		o->append(o->ctx, data, n);
	if (n % 8 != 0)
		o->append(o->ctx, zeros, 8 - n % 8);
}

void
wire_put_int(WireOut *o, WireTag tag, int64_t v)
{
	put(o, tag, WT_INT, &v, sizeof(v));
}

void
wire_put_num(WireOut *o, WireTag tag, double v)
{
	put(o, tag, WT_NUM, &v, sizeof(v));
}

void
wire_put_str(WireOut *o, WireTag tag, const char *s, size_t n)
{
	put(o, tag, WT_STR, s, n);
}

void
wire_put_ints(WireOut *o, WireTag tag, const int32_t *v, size_t n)
{
	put(o, tag, WT_INTS, v, n * sizeof(int32_t));
}

void
wire_put_floats(WireOut *o, WireTag tag, const float *v, size_t n)
{
	put(o, tag, WT_FLOATS, v, n * sizeof(float));
}

int
wire_next(WireIn *in, WireField *f)
{
	FieldHead	fh;
	size_t		left = (size_t) (in->end - in->p);
	size_t		padded;

	if (left == 0)
		return 0;
	if (left < sizeof(fh))
		return -1;
	memcpy(&fh, in->p, sizeof(fh));
	left -= sizeof(fh);
	padded = ((size_t) fh.len + 7) & ~(size_t) 7;
	if (padded > left || fh.type != wire_tag_type(fh.tag) || fh.type == 0)
		return -1;
	memset(f, 0, sizeof(*f));
	f->tag = fh.tag;
	f->type = fh.type;
	f->s = in->p + sizeof(fh);
	switch ((WireType) fh.type)
	{
		case WT_INT:
			if (fh.len != sizeof(f->i))
				return -1;
			memcpy(&f->i, f->s, sizeof(f->i));
			break;
		case WT_NUM:
			if (fh.len != sizeof(f->num))
				return -1;
			memcpy(&f->num, f->s, sizeof(f->num));
			break;
		case WT_STR:
			f->n = fh.len;
			break;
		case WT_INTS:
			if (fh.len % sizeof(int32_t) != 0)
				return -1;
			f->n = fh.len / sizeof(int32_t);
			break;
		case WT_FLOATS:
			if (fh.len % sizeof(float) != 0)
				return -1;
			f->n = fh.len / sizeof(float);
			break;
	}
	in->p += sizeof(fh) + padded;
	return 1;
}

int32_t
wire_int_at(const WireField *f, size_t i)
{
	int32_t		v;

	memcpy(&v, f->s + i * sizeof(v), sizeof(v));
	return v;
}

void
wire_floats(const WireField *f, float *out)
{
	if (f->n > 0)
		memcpy(out, f->s, f->n * sizeof(float));
}

/* ---- histograms ---- */

/* vLLM's bounds; 0 ends a row */
static const double bucket_bounds[][WIRE_HIST_BUCKETS] = {
#define WB_FIRST	0
	{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160,
	 640, 2560},
#define WB_TOKEN	1
	{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80},
#define WB_REQUEST	2
	{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680},
#define WB_BLOCK	3
	{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200,
	 1800},
#define WB_COUNT	4
	{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000,
	 1000000},
#define WB_FEW		5
	{1, 2, 5, 10, 20},
#define WB_STEP		6
	{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
};

static const struct
{
	const char *metric;
	int			buckets;
	const char *text;
}			hists[] = {
#define X(name, metric, buckets, text) {metric, buckets, text},
#include "ipc/histograms.def"
#undef X
};

const double *
wire_hist_bounds(WireHistId id, int *n)
{
	const double *b = bucket_bounds[hists[id].buckets];

	for (*n = 0; *n < WIRE_HIST_BUCKETS - 1 && b[*n] > 0;)
		(*n)++;
	return b;
}

const char *
wire_hist_metric(WireHistId id)
{
	return hists[id].metric;
}

const char *
wire_hist_text(WireHistId id)
{
	return hists[id].text;
}

bool
wire_hist_is_time(WireHistId id)
{
	return hists[id].buckets < WB_COUNT;
}

int
wire_hist_bucket(WireHistId id, int64_t value)
{
	int			n;
	const double *b = wire_hist_bounds(id, &n);
	double		v = wire_hist_is_time(id) ? (double) value / 1e6 : (double) value;
	int			i = 0;

	while (i < n && v > b[i])
		i++;
	return i;
}

const WireFigureDef wire_figures[WIRE_N_FIGURES] = {
#define FIGURE(name, kind, metric, labels, help) {#name, WIRE_##kind, metric, labels, help},
#include "ipc/metrics.def"
#undef FIGURE
};
