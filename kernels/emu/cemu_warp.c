/*
 * cemu_warp.c
 *	  Collective operations of a warp's lanes, and small floats.
 *
 * The last lane to arrive computes for all of them, from each lane's arguments.  Fragments are as in the
 * PTX manual: group g = lane / 4, t = lane % 4.  A product sums in float, k ascending, beginning with c;
 * tensor cores round differently, so results are compared within a tolerance.  cp.async copies at the
 * wait; until then its destination is NaN and an access to it is an error.
 */
#include "emu/cemu.h"

#include <stdlib.h>
#include <string.h>

#include "blocks.h"

typedef struct Word
{
	uint64_t	v;
	int			kind;
	int			by;
	int			width;
	uint64_t	out;
} Word;

static void
sync_compute(void **args, uint32_t mask)
{
	(void) args;
	cemu_mem_warp(cemu_thread(cemu_now->id / CEMU_WARP * CEMU_WARP), mask);
}

void
cemu_syncwarp(uint32_t mask, const char *file, int line)
{
	cemu_warp("__syncwarp", mask, NULL, sync_compute, file, line);
}

static void
shfl_compute(void **args, uint32_t mask)
{
	for (int i = 0; i < CEMU_WARP; i++)
	{
		Word	   *w = args[i];
		int			lo,
					hi,
					from;

		if (w == NULL)
			continue;
		lo = i & ~(w->width - 1);
		hi = lo + w->width - 1;
		switch ((CemuShfl) w->kind)
		{
			case CEMU_IDX:
				from = lo + (w->by & (w->width - 1));
				break;
			case CEMU_UP:
				from = i - w->by < lo ? i : i - w->by;
				break;
			case CEMU_DOWN:
				from = i + w->by > hi ? i : i + w->by;
				break;
			default:
				from = (i ^ w->by) > hi ? i : i ^ w->by;
				break;
		}
		if (args[from] == NULL)
			cemu_fail("lane %d shuffles from lane %d, which mask %08x lacks, at %s:%d", i, from, mask,
					  cemu_now->file, cemu_now->line);
		w->out = ((Word *) args[from])->v;
	}
}

uint64_t
cemu_shfl(CemuShfl kind, uint32_t mask, uint64_t v, int by, int width, const char *file, int line)
{
	static const char *const names[] = {"__shfl_sync", "__shfl_up_sync", "__shfl_down_sync",
										"__shfl_xor_sync"};
	Word		w = {v, kind, by, width, 0};

	if (width < 1 || width > CEMU_WARP || (width & (width - 1)) != 0)
		cemu_fail("%s of width %d at %s:%d", names[kind], width, file, line);
	if (kind != CEMU_IDX && (by < 0 || by >= CEMU_WARP))
		cemu_fail("%s by %d at %s:%d", names[kind], by, file, line);
	cemu_warp(names[kind], mask, &w, shfl_compute, file, line);
	return w.out;
}

static uint32_t
join(CemuVote kind, uint32_t a, uint32_t b)
{
	switch (kind)
	{
		case CEMU_ADD:
			return a + b;
		case CEMU_MIN_S:
			return (int32_t) a < (int32_t) b ? a : b;
		case CEMU_MAX_S:
			return (int32_t) a > (int32_t) b ? a : b;
		case CEMU_MIN_U:
			return a < b ? a : b;
		case CEMU_MAX_U:
			return a > b ? a : b;
		case CEMU_AND:
			return a & b;
		case CEMU_OR:
			return a | b;
		default:
			return a ^ b;
	}
}

static void
vote_compute(void **args, uint32_t mask)
{
	int			first = __builtin_ctz(mask);
	CemuVote	kind = (CemuVote) ((Word *) args[first])->kind;

	for (int i = 0; i < CEMU_WARP; i++)
	{
		Word	   *w = args[i];
		uint32_t	out = 0;

		if (w == NULL)
			continue;
		if (kind > CEMU_MATCH_ALL)
			out = (uint32_t) ((Word *) args[first])->v;
		for (int j = 0; j < CEMU_WARP; j++)
		{
			Word	   *o = args[j];

			if (o == NULL)
				continue;
			if (kind > CEMU_MATCH_ALL)
				out = j == first ? out : join(kind, out, (uint32_t) o->v);
			else if (kind == CEMU_BALLOT ? o->v != 0 : o->v == w->v)
				out |= 1u << j;
		}
		w->out = kind == CEMU_MATCH_ALL && out != mask ? 0 : out;
	}
}

uint32_t
cemu_vote(CemuVote kind, uint32_t mask, uint64_t v, const char *file, int line)
{
	static const char *const names[] = {"a vote", "__match_any_sync", "__match_all_sync", "a reduction",
										"a reduction",
		"a reduction", "a reduction", "a reduction", "a reduction", "a reduction", "a reduction"};
	Word		w = {v, kind, 0, 0, 0};

	cemu_warp(names[kind], mask, &w, vote_compute, file, line);
	return (uint32_t) w.out;
}

/* ---- tensor cores ---- */

typedef struct Mma
{
	CemuMma		kind;
	uint32_t   *d;
	const uint32_t *a;
	const uint32_t *b;
	const uint32_t *c;
} Mma;

/* kf16_to_f32() of all halves */
static float halves[65536];

void
cemu_halves_make(void)
{
	if (halves[1] != 0)
		return;
	for (int i = 0; i < 65536; i++)
		halves[i] = kf16_to_f32((uint16_t) i);
}

static inline float
as_float(uint32_t u)
{
	float		f;

	memcpy(&f, &u, 4);
	return f;
}

float
cemu_operand(CemuMma kind, uint32_t word, int i)
{
	uint16_t	h = (uint16_t) (word >> 16 * i);

	if (kind == CEMU_E4M3)
		return kf8_to_f32(KT_F8_E4M3, (uint8_t) (word >> 8 * i));
	return kind == CEMU_F16 ? halves[h] : as_float((uint32_t) h << 16);
}

/* d += a * b, each product and sum rounded, in the order of k; loops that the compiler can vectorize */
static void
add_products(float d[16][8], float a[16][32], float b[32][8], int n)
{
	for (int row = 0; row < 16; row++)
		for (int k = 0; k < n; k++)
			for (int col = 0; col < 8; col++)
				d[row][col] += a[row][k] * b[k][col];
}

static void
add_products_int(uint32_t d[16][8], int32_t a[16][32], int32_t b[32][8])
{
	for (int row = 0; row < 16; row++)
		for (int k = 0; k < 32; k++)
			for (int col = 0; col < 8; col++)
				d[row][col] += (uint32_t) (a[row][k] * b[k][col]);
}

/*
 * elements of a register: 2 halves or 4 bytes; registers of A: (g, low k), (g + 8, low k), (g, high k),
 * (g + 8, high k)
 */
static void
mma_compute(void **args, uint32_t mask)
{
	static float fa[16][32],
				fb[32][8],
				fd[16][8];
	static int32_t ia[16][32],
				ib[32][8];
	static uint32_t id[16][8];
	CemuMma		kind = ((Mma *) args[0])->kind;
	int			per = kind == CEMU_S8 || kind == CEMU_E4M3 ? 4 : 2;

	(void) mask;
	cemu_halves_make();
	for (int l = 0; l < CEMU_WARP; l++)
	{
		Mma		   *m = args[l];

		for (int r = 0; r < 4; r++)
		{
			int			row = l / 4 + r % 2 * 8;

			for (int i = 0; i < per; i++)
			{
				int			k = l % 4 * per + r / 2 * 4 * per + i;

				if (kind == CEMU_S8)
					ia[row][k] = (int8_t) (m->a[r] >> 8 * i);
				else
					fa[row][k] = cemu_operand(kind, m->a[r], i);
				if (r < 2)
				{
					k = l % 4 * per + r * 4 * per + i;
					if (kind == CEMU_S8)
						ib[k][l / 4] = (int8_t) (m->b[r] >> 8 * i);
					else
						fb[k][l / 4] = cemu_operand(kind, m->b[r], i);
				}
			}
			row = l / 4 + r / 2 * 8;
			id[row][l % 4 * 2 + r % 2] = m->c[r];
			fd[row][l % 4 * 2 + r % 2] = as_float(m->c[r]);
		}
	}
	if (kind == CEMU_S8)
		add_products_int(id, ia, ib);
	else
		add_products(fd, fa, fb, 8 * per);
	for (int l = 0; l < CEMU_WARP; l++)
		for (int r = 0; r < 4; r++)
		{
			Mma		   *m = args[l];
			int			row = l / 4 + r / 2 * 8,
						col = l % 4 * 2 + r % 2;

			if (kind == CEMU_S8)
				m->d[r] = id[row][col];
			else
				memcpy(&m->d[r], &fd[row][col], 4);
		}
}

void
cemu_mma(CemuMma kind, uint32_t *d, const uint32_t *a, const uint32_t *b, const uint32_t *c, const char *file,
		 int line)
{
	Mma			m = {kind, d, a, b, c};

	cemu_warp("mma", 0xffffffffu, &m, mma_compute, file, line);
}

typedef struct Ldm
{
	uint32_t   *d;
	int			n;
	int			trans;
	const char *row;
} Ldm;

static void
ldm_compute(void **args, uint32_t mask)
{
	CemuThread *first = cemu_thread(cemu_now->id / CEMU_WARP * CEMU_WARP);
	int			n = ((Ldm *) args[0])->n;

	(void) mask;
	for (int j = 0; j < n * 8; j++)
		if (((uintptr_t) ((Ldm *) args[j])->row & 15) != 0)
			cemu_fail("ldmatrix at %s:%d: lane %d's row isn't aligned to 16 bytes", cemu_now->file,
					  cemu_now->line, j);
	for (int l = 0; l < CEMU_WARP; l++)
		for (int m = 0; m < n; m++)
		{
			Ldm		   *o = args[l];
			uint16_t	h[2];

			for (int i = 0; i < 2; i++)
			{
				int			row = o->trans ? l % 4 * 2 + i : l / 4,
							col = o->trans ? l / 4 : l % 4 * 2 + i;
				const char *p = ((Ldm *) args[m * 8 + row])->row + 2 * col;

				cemu_touch(first + l, p, 2, CEMU_READ, NULL);
				memcpy(&h[i], p, 2);
			}
			o->d[m] = h[0] | (uint32_t) h[1] << 16;
		}
}

void
cemu_ldmatrix(uint32_t *d, int n, int trans, const void *row, const char *file, int line)
{
	Ldm			l = {d, n, trans, row};

	cemu_warp("ldmatrix", 0xffffffffu, &l, ldm_compute, file, line);
}

/* ---- cp.async ---- */

void
cemu_cp_async(void *dst, const void *src, int size, int from)
{
	CemuThread *t = cemu_now;
	const void *pc = __builtin_return_address(0);

	if ((((uintptr_t) dst | (uintptr_t) src) & (uintptr_t) (size - 1)) != 0)
		cemu_fail("cp.async of %d bytes isn't aligned to them", size);
	cemu_touch(t, src, (size_t) from, CEMU_READ, pc);
	cemu_touch(t, dst, (size_t) size, CEMU_WRITE, pc);
	if (t->n_copies == t->copies_room)
	{
		t->copies_room = t->copies_room * 2 + 16;
		t->copies = realloc(t->copies, (size_t) t->copies_room * sizeof(*t->copies));
		if (t->copies == NULL)
			cemu_fail("no memory");
	}
	memset(dst, 0xff, (size_t) size);
	cemu_pending(dst, (size_t) size);
	t->copies[t->n_copies++] = (CemuCopy) {dst, src, size, from, t->group};
}

void
cemu_cp_commit(void)
{
	cemu_now->group++;
}

void
cemu_cp_wait(int left)
{
	CemuThread *t = cemu_now;
	int			done = 0;

	for (; done < t->n_copies && t->copies[done].group < t->group - left; done++)
	{
		CemuCopy   *c = &t->copies[done];

		cemu_arrived(c->dst, (size_t) c->size);
		cemu_touch(t, c->src, (size_t) c->from, CEMU_READ, NULL);
		cemu_touch(t, c->dst, (size_t) c->size, CEMU_WRITE, NULL);
		memset(c->dst, 0, (size_t) c->size);
		memcpy(c->dst, c->src, (size_t) c->from);
	}
	t->n_copies -= done;
	if (done > 0)
		memmove(t->copies, t->copies + done, (size_t) t->n_copies * sizeof(*t->copies));
}

/* ---- small floats: the engine's own conversions ---- */

float
cemu_f16_to_f32(uint16_t h)
{
	return kf16_to_f32(h);
}

uint16_t
cemu_f32_to_f16(float f)
{
	return kf32_to_f16(f);
}

float
cemu_bf16_to_f32(uint16_t h)
{
	return kbf16_to_f32(h);
}

uint16_t
cemu_f32_to_bf16(float f)
{
	return kf32_to_bf16(f);
}

float
cemu_f8_to_f32(int e5m2, uint8_t c)
{
	return kf8_to_f32(e5m2 ? KT_F8_E5M2 : KT_F8_E4M3, c);
}

uint8_t
cemu_f32_to_f8(int e5m2, float f)
{
	return kf32_to_f8(e5m2 ? KT_F8_E5M2 : KT_F8_E4M3, f);
}
