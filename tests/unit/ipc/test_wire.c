/*
 * test_wire.c
 *	  src/ipc: arena geometry, slot rings, byte rings, message fields.
 */
#include <ctype.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "tests/unit/check_abort.h"
#include "ipc/field_range.h"
#include "ipc/traceparent.h"
#include "ipc/wire.h"

static void
append(void *ctx, const void *data, size_t n)
{
	buf_add(ctx, data, n);
}

/* The layout must match the table in wire.h byte for byte. */
static void
test_layout(void)
{
	WireGeometry h;

	CHECK(wire_layout(&h, 256, 32768, 1 << 24), "good geometry");
	CHECK(h.stats_off == 4096, "stats at %llu", (unsigned long long) h.stats_off);
	CHECK(h.to_engine_off == 4096 + WIRE_STATS_SIZE, "to_engine behind stats");
	CHECK(h.to_worker_off >= h.to_engine_off + 4 * 256, "to_worker behind to_engine");
	CHECK(h.slots_off >= h.to_worker_off + 4 * 256, "slots behind to_worker");
	CHECK(h.rings_off >= h.slots_off + 256 * 256, "rings behind slots");
	CHECK(h.total_size == h.rings_off + UINT64_C(2) * 32768 * 256, "rings are last");
	CHECK(offsetof(WireSlot, state) == 0 && offsetof(WireSlot, gen) == 4 && offsetof(WireSlot, cancel) == 8 &&
		  offsetof(WireSlot, req_head) == 20 && offsetof(WireSlot, rep_tail) == 32 &&
		  offsetof(WireSlot, arrival_us) == 64, "slot offsets");
	CHECK(sizeof(WireMsg) == 24 && offsetof(WireMsg, gen) == 4 && offsetof(WireMsg, place) == 8 &&
		  offsetof(WireMsg, kind) == 12 && offsetof(WireMsg, len) == 16,
		  "message header is 24 bytes, whose it is and where come first");
	CHECK(sizeof(WireStats) <= WIRE_STATS_SIZE, "stats fit");
	CHECK(wire_geometry_ok(&h, h.total_size), "own header is sane");
	CHECK(!wire_geometry_ok(&h, h.total_size - 1), "mapping too small");
	h.version++;
	CHECK(!wire_geometry_ok(&h, h.total_size), "wrong version");
	h.version--;
	h.slots_off += 8;
	CHECK(!wire_geometry_ok(&h, h.total_size), "wrong offset");
	h.slots_off -= 8;
	h.n_slots = 255;
	CHECK(!wire_geometry_ok(&h, h.total_size), "not a power of two");
	CHECK(!wire_layout(&h, 0, 32768, 1 << 24), "no slots");
	CHECK(!wire_layout(&h, 2 * WIRE_MAX_SLOTS, 32768, 1 << 24), "too many slots");
	CHECK(!wire_layout(&h, 256, 1000, 1 << 24), "ring size");
	CHECK(!wire_layout(&h, 256, 32768, 1), "max_request");
}

static WireArena
new_arena(uint32_t n_slots)
{
	WireArena	a;

	wire_layout(&a.geo, n_slots, 4096, 1 << 20);
	a.base = calloc(1, a.geo.total_size);
	memcpy(a.base, &a.geo, sizeof(a.geo));
	return a;
}

/* Addresses are computed from our copy of the geometry, whatever is written over the header. */
static void
test_private_geometry(void)
{
	WireArena	a = new_arena(8);
	char	   *end = a.base + a.geo.total_size;
	uint32_t	s = 99;

	memset(a.base, 0xff, WIRE_HEADER_SIZE);
	CHECK((char *) wire_stats(&a) == a.base + WIRE_HEADER_SIZE, "stats");
	CHECK((char *) wire_slot(&a, 8) <= wire_req_ring(&a, 0), "slots");
	CHECK(wire_rep_ring(&a, 7) + a.geo.ring_size == end, "the last ring");
	atomic_store(&wire_header(&a)->to_worker.tail, UINT32_MAX);
	wire_push(&a, WQ_TO_WORKER, 5);
	CHECK(wire_pop(&a, WQ_TO_WORKER, &s) && s == 5, "a slot ring");
	free(a.base);
}

static void
test_slot_rings(void)
{
	WireArena	a = new_arena(8);
	WireRing   *r = &wire_header(&a)->to_engine;
	uint32_t	s;

	CHECK(!wire_pop(&a, WQ_TO_ENGINE, &s), "empty");
	atomic_store(&r->head, UINT32_MAX - 2);
	atomic_store(&r->tail, UINT32_MAX - 2);
	for (int round = 0; round < 3; round++)
	{
		for (uint32_t i = 0; i < 8; i++)
			CHECK(wire_push(&a, WQ_TO_ENGINE, i) == (i == 0), "only the first push finds it empty");
		for (uint32_t i = 0; i < 8; i++)
			CHECK(wire_pop(&a, WQ_TO_ENGINE, &s) && s == i, "in order over the wrap of the cursor");
		CHECK(!wire_pop(&a, WQ_TO_ENGINE, &s), "empty again");
	}
	/* as the other side may have left it */
	wire_push(&a, WQ_TO_ENGINE, 7);
	for (uint32_t i = 0; i < 8; i++)
		((_Atomic uint32_t *) (a.base + a.geo.to_engine_off))[i] = 77;
	wire_push(&a, WQ_TO_ENGINE, 3);
	CHECK(wire_pop(&a, WQ_TO_ENGINE, &s) && s == 3, "numbers out of range are skipped");
	atomic_store(&r->head, atomic_load(&r->tail) + 1000000);
	for (int n = 0; n < 9; n++)
		if (!wire_pop(&a, WQ_TO_ENGINE, &s))
			break;
	CHECK(!wire_pop(&a, WQ_TO_ENGINE, &s), "a corrupt head ends after one lap");
	memset(a.base + a.geo.to_engine_off, 0xff, 4 * 8);
	atomic_store(&r->head, atomic_load(&r->tail) + 8);
	CHECK(!wire_pop(&a, WQ_TO_ENGINE, &s) && atomic_load(&r->head) == atomic_load(&r->tail),
		  "a ring of nonsense is emptied");
	free(a.base);
}

static void
test_byte_rings(void)
{
	char		ring[4096];
	char		src[5000];
	char		dst[5000];
	uint32_t	head = UINT32_MAX - 1000;
	uint32_t	tail = head;
	unsigned	seed = 1;
	size_t		written = 0;
	size_t		read = 0;
	bool		same = true;

	for (size_t i = 0; i < sizeof(src); i++)
		src[i] = (char) (i * 7 + i / 256);
	CHECK(wire_ring_write(ring, 4096, head, tail, src, 5000) == 4096, "as much as fits");
	CHECK(wire_ring_read(ring, 4096, head + 4096, tail, dst, 5000) == 4096, "as much as is there");
	CHECK(memcmp(src, dst, 4096) == 0, "contents over the wrap");
	for (int i = 0; i < 20000; i++)
	{
		size_t		n = (size_t) rand_r(&seed) % 3000;
		int			w;
		int			g;

		for (size_t k = 0; k < n; k++)
			src[k] = (char) ((written + k) * 31);
		w = wire_ring_write(ring, 4096, head, tail, src, n);
		head += (uint32_t) w;
		written += (size_t) w;
		g = wire_ring_read(ring, 4096, head, tail, dst, (size_t) rand_r(&seed) % 3000);
		for (int k = 0; k < g; k++)
			same = same && dst[k] == (char) ((read + (size_t) k) * 31);
		tail += (uint32_t) g;
		read += (size_t) g;
	}
	CHECK(same && written - read == head - tail, "random traffic: %zu bytes", read);
	CHECK(wire_ring_write(ring, 4096, 5000, 0, src, 1) == -1, "corrupt cursors: write");
	CHECK(wire_ring_read(ring, 4096, 0, 1, dst, 1) == -1, "corrupt cursors: read");
	CHECK(wire_ring_write(ring, 4096, 4096, 0, src, 1) == 0, "full");
}

static void
test_fields(void)
{
	Buf			b = {0};
	WireOut		o = {.append = append,.ctx = &b};
	int32_t		ids[3] = {1, -2, 3};
	WireIn		in;
	WireField	f;

	wire_put_int(&o, WTAG_MAX_TOKENS, -5);
	wire_put_num(&o, WTAG_TEMPERATURE, 0.25);
	wire_put_str(&o, WTAG_PROMPT, "hel\0lo", 6);
	wire_put_str(&o, WTAG_STOP, "", 0);
	wire_put_ints(&o, WTAG_PROMPT_IDS, ids, 3);
	CHECK(b.len % 8 == 0, "fields are padded to 8");
	in = (WireIn) {b.data, b.data + b.len};
	CHECK(wire_next(&in, &f) == 1 && f.tag == WTAG_MAX_TOKENS && f.i == -5, "int");
	CHECK(wire_next(&in, &f) == 1 && f.tag == WTAG_TEMPERATURE && f.num == 0.25, "number");
	CHECK(wire_next(&in, &f) == 1 && f.n == 6 && memcmp(f.s, "hel\0lo", 6) == 0, "string with a NUL");
	CHECK(wire_next(&in, &f) == 1 && f.tag == WTAG_STOP && f.n == 0, "empty string");
	CHECK(wire_next(&in, &f) == 1 && f.n == 3 && wire_int_at(&f, 1) == -2, "ints");
	CHECK(wire_next(&in, &f) == 0, "end");
	for (size_t cut = 1; cut < b.len; cut++)
	{
		int			r;

		in = (WireIn) {b.data, b.data + cut};
		while ((r = wire_next(&in, &f)) > 0)
			;
		/* cuts at field boundaries are well-formed */
		CHECK(r == -1 || cut == 16 || cut == 32 || cut == 48 || cut == 56, "cut at %zu is noticed", cut);
	}
	b.data[2] = WT_STR;
	in = (WireIn) {b.data, b.data + b.len};
	CHECK(wire_next(&in, &f) == -1, "type is not the tag's");
	b.data[2] = WT_INT;
	b.data[4] = 7;
	in = (WireIn) {b.data, b.data + b.len};
	CHECK(wire_next(&in, &f) == -1, "int of 7 bytes");
	b.data[4] = 8;
	b.data[0] = 99;
	in = (WireIn) {b.data, b.data + b.len};
	CHECK(wire_next(&in, &f) == -1, "unknown tag");
	b.data[0] = WTAG_MAX_TOKENS;
	memset(b.data + 4, 0xff, 4);
	in = (WireIn) {b.data, b.data + b.len};
	CHECK(wire_next(&in, &f) == -1, "length beyond the end");
	buf_free(&b);
}

/* Arrays whose lengths are not a multiple of their element size. */
static void
test_arrays(void)
{
	Buf			b = {0};
	WireOut		o = {.append = append,.ctx = &b};
	WireIn		in;
	WireField	f;

	for (int floats = 0; floats < 2; floats++)
		for (int n = 0; n <= 16; n++)
		{
			buf_reset(&b);
			if (floats)
				wire_put_floats(&o, WTAG_FLOATS, (const float[4]) {1, 2, 3, 4}, 4);
			else
				wire_put_ints(&o, WTAG_PROMPT_IDS, (const int32_t[4]) {1, 2, 3, 4}, 4);
			b.data[4] = (char) n;
			in = (WireIn) {b.data, b.data + 8 + (n + 7) / 8 * 8};
			CHECK(wire_next(&in, &f) == (n % 4 == 0 ? 1 : -1) && (n % 4 != 0 || f.n == (size_t) n / 4),
				  "%s of %d bytes", floats ? "floats" : "ints", n);
		}
	buf_free(&b);
}

static void
test_names(void)
{
	char		lower[64];
	bool		ok = true;

#define X(name, num, type) \
	for (size_t i = 0; i <= strlen(#name); i++) \
		lower[i] = (char) tolower((unsigned char) #name[i]); \
	ok = ok && wire_tag_name(num) != NULL && strcmp(wire_tag_name(num), lower) == 0 && \
		wire_tag_type(num) == type;
#include "ipc/fields.def"
#undef X
	CHECK(ok, "names are lower case and types the table's");
	CHECK(wire_tag_name(0) == NULL && wire_tag_name(-1) == NULL && wire_tag_name(5000) == NULL,
		  "unknown tags");
	CHECK(wire_tag_type(0) == 0 && wire_tag_type(19) == 0, "unknown types");
}

/* Numbers must be in the range of request_fields.def; an error has the caller's name and the value. */
static void
test_ranges(void)
{
	static const struct
	{
		int			tag;
		double		v;
		const char *text;		/* NULL: in range */
	}			cases[] = {
		{WTAG_TEMPERATURE, 0, NULL}, {WTAG_TEMPERATURE, 2, NULL},
		{WTAG_TEMPERATURE, 2.5, "temperature must be between 0 and 2, got 2.5"},
		{WTAG_TEMPERATURE, NAN, "temperature must be between 0 and 2, got nan"},
		{WTAG_TOP_P, 0, "top_p must be greater than 0 and at most 1, got 0"},
		{WTAG_REPETITION_PENALTY, INFINITY, "repetition_penalty must be greater than 0, got inf"},
		{WTAG_MAX_TOKENS, 0, "max_tokens must be at least 1, got 0"}, {WTAG_MAX_TOKENS, INT_MAX, NULL},
		{WTAG_MAX_TOKENS, INT_MAX + 1.0, "max_tokens must be at most 2147483647, got 2147483648"},
		{WTAG_THINKING_TOKEN_BUDGET, -2, "thinking_token_budget must be -1 (no limit), 0 or more, got -2"},
		{WTAG_PRIORITY, INT_MIN, NULL},
		{WTAG_DIMENSIONS, 0, "dimensions must be at least 1, got 0"},
	};
	char		text[FIELD_RANGE_TEXT];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		bool		ok = field_range_ok(field_range(cases[i].tag), cases[i].v, text, sizeof(text));

		CHECK(ok == (cases[i].text == NULL) && (ok || strcmp(text, cases[i].text) == 0), "%zu: %s", i,
			  ok ? "fits" : text);
	}
	CHECK(field_range(WTAG_SEED) == NULL && field_range(WTAG_STOP) == NULL &&
		  field_range(WTAG_ROLE) == NULL &&
		  field_range(0) == NULL && field_range(-1) == NULL && field_range(9999) == NULL, "no ranges");
#define FIELD(tag_, number, name_, type, least_, most_, rule_, ...) \
	CHECK((double) (least_) <= (double) (most_) && (int) WTAG_##tag_ == number, #name_); \
	CHECK(field_range(number) == NULL || strcmp(field_range(number)->name, #name_) == 0, #name_); \
	CHECK(field_range(number) == NULL || (rule_)[0] != '\0', #name_);
#define CALL_OPTION(...)
#include "ipc/request_fields.def"
#undef FIELD
#undef CALL_OPTION
}

static void
test_model_hash(void)
{
	uint64_t	h = wire_model_hash("/a", "{}");

	CHECK(wire_model_hash("a", NULL) == UINT64_C(0x089be207b544f1e4), "FNV-1a of a and NUL");
	CHECK(h == wire_model_hash("/a", "{}") && h != 0, "the same is the same");
	CHECK(h != wire_model_hash("/a", NULL) && h != wire_model_hash("/b", "{}"), "path and options count");
	CHECK(wire_model_hash("/a{", "}") != h, "and where the one ends");
	CHECK(wire_model_hash("/a", "") == wire_model_hash("/a", NULL), "no options");
}

/* One thread pushes, another pops and sleeps only when allowed to: no wake-up may be lost. */
static WireArena mt_arena;
static _Atomic int mt_wakes;
static _Atomic int mt_got;
#define MT_N 200000

static void *
mt_pop(void *arg)
{
	int			seen = 0;

	(void) arg;
	while (atomic_load(&mt_got) < MT_N)
	{
		uint32_t	s;

		while (atomic_load(&mt_wakes) == seen)
			sched_yield();
		seen = atomic_load(&mt_wakes);
		while (wire_pop(&mt_arena, WQ_TO_WORKER, &s))
			atomic_fetch_add(&mt_got, 1);
	}
	return NULL;
}

static void
test_no_lost_wake(void)
{
	pthread_t	t;

	mt_arena = new_arena(8);
	pthread_create(&t, NULL, mt_pop, NULL);
	for (int i = 0; i < MT_N; i++)
	{
		while (i - atomic_load(&mt_got) >= 8)
			sched_yield();
		if (wire_push(&mt_arena, WQ_TO_WORKER, (uint32_t) i % 8))
			atomic_fetch_add(&mt_wakes, 1);
	}
	pthread_join(t, NULL);
	CHECK(atomic_load(&mt_got) == MT_N, "every push was popped");
	free(mt_arena.base);
}

static void
test_traceparent(void)
{
	static const char *const good[] = {
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
		"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-comes",
		"01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff"
	};
	static const char *const bad[] = {
		"", "00", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
		"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
		"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.more",
		"00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-011",
		"00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"0g-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	};
	static const char *const states[] = {"", "rojo=00f067aa0ba902b7",
										 "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "a@b=1 , \tc*/_-=2,,",
										 "1=x"};
	static const char *const no_states[] = {"rojo", "=1", "rojo=", "Rojo=1", "a@b@c=1", "a=b=c", "a=\x01",
											"@a=1"};
	char		many[TRACESTATE_LEN + 2] = "";

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		CHECK(traceparent_ok(good[i], strlen(good[i])), "%s", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!traceparent_ok(bad[i], strlen(bad[i])), "\"%s\" is none", bad[i]);
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		CHECK(tracestate_ok(states[i], strlen(states[i])), "%s", states[i]);
	for (size_t i = 0; i < sizeof(no_states) / sizeof(no_states[0]); i++)
		CHECK(!tracestate_ok(no_states[i], strlen(no_states[i])), "\"%s\" is none", no_states[i]);
	for (int i = 0; i < 32; i++)
		strcat(many, "k=v,");
	CHECK(tracestate_ok(many, strlen(many)), "32 members");
	strcat(many, "k=v");
	CHECK(!tracestate_ok(many, strlen(many)), "33 are too many");
	memset(many, ',', sizeof(many));
	CHECK(tracestate_ok(many, TRACESTATE_LEN) && !tracestate_ok(many, TRACESTATE_LEN + 1),
		  "512 bytes at most");
}

/* A wrong call of a writer fails at once, not at the reader. */
static void
test_planted(void)
{
	WireArena	a = new_arena(8);
	Buf			b = {0};
	WireOut		o = {.append = append,.ctx = &b};
	char		ring[4096];

	CHECK_ABORTS(wire_put_int(&o, WTAG_PROMPT, 1), "wire_tag_type(tag)");
	CHECK_ABORTS(wire_put_str(&o, WTAG_MAX_TOKENS, "1", 1), "wire_tag_type(tag)");
	CHECK_ABORTS(wire_put_str(&o, WTAG_PROMPT, "", (size_t) UINT32_MAX + 1), "n == fh.len");
	CHECK_ABORTS(wire_push(&a, WQ_TO_ENGINE, 8), "slot < a->geo.n_slots");
	CHECK_ABORTS(wire_ring_write(ring, 4095, 0, 0, ring, 1), "is_pow2(size)");
	CHECK_ABORTS(wire_ring_read(ring, 0, 0, 0, ring, 1), "is_pow2(size)");
	free(a.base);
	buf_free(&b);
}

int
main(void)
{
	RUN(test_planted());
	RUN(test_layout());
	RUN(test_private_geometry());
	RUN(test_slot_rings());
	RUN(test_byte_rings());
	RUN(test_fields());
	RUN(test_arrays());
	RUN(test_names());
	RUN(test_ranges());
	RUN(test_model_hash());
	RUN(test_no_lost_wake());
	RUN(test_traceparent());
	return check_done("test_wire");
}
