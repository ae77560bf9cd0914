/*
 * quants_golden.c
 *	  Values of quantized blocks against the `gguf` package (quants_golden.py): the same bits, for every
 *	  format of files, and over all finite scales.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "quant/quant.h"
#include "tests/unit/check.h"

#define NONE 0xffffffffu

/* the file's header; scales are offsets in a block */
typedef struct Head
{
	uint32_t	gguf_id;
	uint32_t	n;				/* number of blocks */
	uint32_t	bytes;			/* bytes in a block */
	uint32_t	block;			/* weights in a block */
	uint32_t	scale[2];
	uint32_t	crc;			/* checksum of the sweep's values */
} Head;

static uint32_t crc_table[256];

static void
crc_init(void)
{
	for (uint32_t i = 0; i < 256; i++)
	{
		uint32_t	c = i;

		for (int j = 0; j < 8; j++)
			c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
		crc_table[i] = c;
	}
}

static uint32_t
crc32_add(uint32_t crc, const void *data, size_t n)
{
	const uint8_t *p = data;

	crc = ~crc;
	for (size_t i = 0; i < n; i++)
		crc = crc >> 8 ^ crc_table[(crc ^ p[i]) & 255];
	return ~crc;
}

static void
put_half(uint8_t *block, uint32_t at, uint16_t h)
{
	if (at != NONE)
		memcpy(block + at, &h, sizeof(h));
}

/* Every finite scale, in both places; MXFP4: every exponent but NaN's. */
static uint32_t
sweep(KType type, const Head *h, const uint8_t *blocks)
{
	static uint16_t finite[65536];
	uint32_t	n = 0;
	uint32_t	crc = 0;
	uint8_t		block[256];
	float		out[QK_BLOCK];

	for (uint32_t i = 0; i < 65536; i++)
		if ((i & 0x7c00) != 0x7c00)
			finite[n++] = (uint16_t) i;
	if (type == KT_MXFP4)
		n = 255;
	for (uint32_t i = 0; i < n; i++)
	{
		memcpy(block, blocks + i % h->n * h->bytes, h->bytes);
		put_half(block, h->scale[0], finite[i]);
		put_half(block, h->scale[1], finite[n - 1 - i]);
		if (type == KT_MXFP4)
			block[0] = (uint8_t) i;
		kblock_to_float(type, block, h->block, out);
		crc = crc32_add(crc, out, h->block * sizeof(float));
	}
	return crc;
}

/* Check one format of the file; false at its end. */
static bool
check_format(FILE *f)
{
	Head		h;
	const Quant *q;
	uint8_t    *blocks;
	float	   *want;
	float	   *got;
	size_t		n;
	size_t		bad = 0;

	if (fread(&h, sizeof(h), 1, f) != 1)
		return false;
	q = quant_by_gguf(h.gguf_id);
	CHECK(q != NULL && (uint32_t) q->block == h.block && (uint32_t) q->bytes == h.bytes &&
		  h.bytes <= 256 && h.block <= QK_BLOCK, "GGUF type %u", h.gguf_id);
	if (q == NULL || (uint32_t) q->bytes != h.bytes)
		return false;
	n = (size_t) h.n * h.block;
	blocks = mem_alloc((size_t) h.n * h.bytes);
	want = mem_alloc(n * sizeof(float));
	got = mem_alloc(n * sizeof(float));
	CHECK(fread(blocks, h.bytes, h.n, f) == h.n && fread(want, sizeof(float), n, f) == n, "file is short");
	kblock_to_float(q->type, blocks, (int64_t) n, got);
	for (size_t i = 0; i < n; i++)
		if (memcmp(&want[i], &got[i], sizeof(float)) != 0 && bad++ == 0)
			printf("%s: first difference at %zu: %g, expected %g\n", ktype_name(q->type), i,
				   (double) got[i], (double) want[i]);
	CHECK(bad == 0, "%s: %zu of %zu values differ", ktype_name(q->type), bad, n);
	CHECK(quant_check(q, blocks, (int64_t) n) == -1, "%s: scales are finite", ktype_name(q->type));
	CHECK(sweep(q->type, &h, blocks) == h.crc, "%s: values over all scales", ktype_name(q->type));
	mem_free(blocks);
	mem_free(want);
	mem_free(got);
	return true;
}

int
main(void)
{
	FILE	   *f = fopen("tests/golden/quants.bin", "rb");
	int			formats = 0;
	int			expected = 0;

	crc_init();
	CHECK(f != NULL, "quants.bin");
	while (f != NULL && check_format(f))
		formats++;
	/* the file has each block format that GGUF files store */
	for (KType t = 0; t < KT_COUNT; t++)
		expected += quant_get(t) != NULL && quant_get(t)->gguf_id != QUANT_NONE && quant_get(t)->block > 1;
	CHECK(formats == expected, "%d formats, expected %d", formats, expected);
	if (f != NULL)
		fclose(f);
	return check_done("quants_golden");
}
