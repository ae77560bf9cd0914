/*
 * fuzz_wire.c
 *	  Arbitrary bytes that a backend leaves in the arena: message fields, request parsing, slot rings and
 *	  byte rings with arbitrary cursors.
 *
 * With libFuzzer: LLVMFuzzerTestOneInput().  Without: fuzz_wire [N [SEED]] runs N mutations of
 * well-formed messages (20,000 by default) and prints one line, and fuzz_wire --seeds DIR writes some as
 * a corpus.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "server/models/registry.h"
#include "server/request/request.h"
#include "ipc/wire.h"

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every byte that a field claims must be readable. */
static unsigned
walk(const char *p, size_t n)
{
	WireIn		in = {.p = p,.end = p + n};
	WireField	f;
	unsigned	sum = 0;

	while (wire_next(&in, &f) > 0)
	{
		if (f.type == WT_STR)
			for (size_t i = 0; i < f.n; i++)
				sum += (unsigned char) f.s[i];
		if (f.type == WT_INTS)
			for (size_t i = 0; i < f.n; i++)
				sum += (unsigned) wire_int_at(&f, i);
		if (f.type == WT_FLOATS)
		{
			float	   *v = malloc(f.n * sizeof(float) + 1);

			wire_floats(&f, v);
			for (size_t i = 0; i < f.n; i++)
				sum += v[i] > 0;
			free(v);
		}
		sum += wire_tag_name(f.tag)[0];
	}
	return sum;
}

static void
rings(const uint8_t *data, size_t size)
{
	static char ring[4096];
	static char out[8192];
	uint32_t	v[4];
	int			w;
	int			r;

	if (size < sizeof(v))
		return;
	memcpy(v, data, sizeof(v));
	w = wire_ring_write(ring, sizeof(ring), v[0], v[1], data, size < 8192 ? size : 8192);
	r = wire_ring_read(ring, sizeof(ring), v[0], v[1], out, v[2] % sizeof(out));
	if (w > (int) sizeof(ring) || r > (int) sizeof(ring))
		abort();
	if (w >= 0 && r >= 0 && (uint32_t) r > v[0] - v[1])
		abort();
}

/* Read a head, and the message that it announces. */
static void
message(const char *data, size_t size)
{
	WireMsg		m;
	WireMsg		other;

	if (size < sizeof(m))
		return;
	memcpy(&m, data, sizeof(m));
	size -= sizeof(m);
	/* both readers check this first */
	m.len = size;
	if ((m.flags & WIRE_SUMMED) == 0 || m.len >= WIRE_SUM_BYTES)
		(void) wire_intact(&m, data + sizeof(m));
	m = wire_head(m.kind, 0, size, m.gen, m.place);
	m.flags &= (uint16_t) ~WIRE_SUMMED;
	m.len = size;
	other = m;
	other.place++;
	if (wire_in_place(&other, m.gen, m.place) ||
		wire_sum(&other, data + sizeof(m)) == wire_sum(&m, data + sizeof(m)))
		abort();
}

static void
slot_ring(const uint8_t *data, size_t size)
{
	static WireArena a;
	WireRing   *r;
	uint32_t	slot;
	int			n = 0;

	if (a.base == NULL)
	{
		wire_layout(&a.geo, 16, 4096, 1 << 16);
		a.base = malloc(a.geo.total_size);
	}
	if (size < 8 + 64)
		return;
	/* the other side may have written anything into the header, too */
	for (size_t i = 0; i < WIRE_HEADER_SIZE; i++)
		a.base[i] = (char) data[i % size];
	r = &wire_header(&a)->to_engine;
	memcpy((void *) &r->head, data, 4);
	memcpy((void *) &r->tail, data + 4, 4);
	memcpy(a.base + a.geo.to_engine_off, data + 8, 64);
	while (wire_pop(&a, WQ_TO_ENGINE, &slot))
		if (slot >= 16 || ++n > 16)
			abort();
}

static void
header(const uint8_t *data, size_t size)
{
	WireGeometry g;

	wire_layout(&g, 16, 4096, 1 << 16);
	if (size >= 2)
		((uint8_t *) &g)[data[0] % sizeof(g)] ^= data[1];
	if (wire_geometry_ok(&g, 1 << 20) &&
		g.rings_off + UINT64_C(2) * g.ring_size * g.n_slots > (1 << 20))
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* an exact copy, so that a sanitizer detects any read beyond it */
	char	   *copy = malloc(size > 0 ? size : 1);
	volatile unsigned sum;

	memcpy(copy, data, size);
	sum = walk(copy, size);
	(void) sum;
	for (int kind = 1; kind < WK_COUNT; kind++)
	{
		Err			e;
		Request    *r = request_parse(kind, copy, size, &e);
		ModelOpts	o;

		if (r != NULL && r->options != NULL)
			(void) model_opts_parse(r->options, &o, &e);
		request_free(r);
	}
	message(copy, size);
	rings(data, size);
	slot_ring(data, size);
	header(data, size);
	free(copy);
	return 0;
}

#ifndef FUZZ_LIBFUZZER

static void
append(void *ctx, const void *data, size_t n)
{
	buf_add(ctx, data, n);
}

/* Make a random well-formed message. */
static void
make(Buf *b, unsigned *seed)
{
	static const int tags[] = {
#define X(name, num, type) num,
#include "ipc/fields.def"
#undef X
	};
	static const char *const texts[] = {"", "m", "/models/x", "{\"max_model_len\": 128}", "{\"a\":[1,2,{}]}",
										"stop"};
	WireOut		o = {.append = append,.ctx = b};
	int			n = rand_r(seed) % 12;

	for (int i = 0; i < n; i++)
	{
		WireTag		tag = (WireTag) tags[rand_r(seed) % (int) (sizeof(tags) / sizeof(tags[0]))];
		const char *s = texts[rand_r(seed) % 6];
		int32_t		ids[4] = {1, -1, 70000, rand_r(seed)};

		switch (wire_tag_type(tag))
		{
			case WT_INT:
				wire_put_int(&o, tag, (int64_t) rand_r(seed) - (1 << 30));
				break;
			case WT_NUM:
				wire_put_num(&o, tag, (double) rand_r(seed) / 1e9);
				break;
			case WT_STR:
				wire_put_str(&o, tag, s, strlen(s));
				break;
			case WT_INTS:
				wire_put_ints(&o, tag, ids, (size_t) rand_r(seed) % 5);
				break;
			case WT_FLOATS:
				wire_put_floats(&o, tag, (const float[]) {1, -2, 0.5f}, (size_t) rand_r(seed) % 4);
				break;
		}
	}
}

static void
save(const char *dir, int i, const Buf *b)
{
	char		path[512];
	FILE	   *f;

	snprintf(path, sizeof(path), "%s/%04d", dir, i);
	if ((f = fopen(path, "wb")) == NULL || fwrite(b->data != NULL ? b->data : "", 1, b->len, f) != b->len ||
		fclose(f) != 0)
	{
		perror(path);
		exit(2);
	}
}

int
main(int argc, char **argv)
{
	const char *corpus = argc > 2 && strcmp(argv[1], "--seeds") == 0 ? argv[2] : NULL;
	int			n = corpus != NULL ? 200 : argc > 1 ? atoi(argv[1]) : 20000;
	unsigned	seed = corpus == NULL && argc > 2 ? (unsigned) atoi(argv[2]) : 1;

	for (int i = 0; i < n; i++)
	{
		Buf			b = {0};

		make(&b, &seed);
		if (corpus != NULL)
		{
			save(corpus, i, &b);
			buf_free(&b);
			continue;
		}
		for (int k = rand_r(&seed) % 4; k > 0 && b.len > 0; k--)
			b.data[(size_t) rand_r(&seed) % b.len] ^= (char) (1 << rand_r(&seed) % 8);
		if (b.len > 0 && rand_r(&seed) % 4 == 0)
			b.len = (size_t) rand_r(&seed) % b.len;
		LLVMFuzzerTestOneInput((const uint8_t *) (b.data != NULL ? b.data : ""), b.len);
		buf_free(&b);
	}
	printf("fuzz_wire: 1 passed, 0 failed, 0 skipped, %d inputs\n", n);
	return 0;
}

#endif
