/*
 * conform.h
 *	  What the files of tests/kernels/conform share.
 */
#ifndef VLLM_TESTS_CONFORM_H
#define VLLM_TESTS_CONFORM_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kutil.h"

/* counts in conform.c, which has the counters of tests/unit/check.h */
#define EXPECT(cond, ...)	expect((cond), __FILE__, __LINE__, __VA_ARGS__)
void		expect(bool ok, const char *file, int line, const char *fmt,...)
			__attribute__((format(printf, 4, 5)));

/* one implementation under test */
typedef struct Impl
{
	const Kernels *k;
	bool		fused;			/* multiply-adds are fused: float products give ref's bits */
	bool		slow;			/* ref against itself: fewer cases */
	bool		emulated;		/* without the longest cases */
	bool		pairs;			/* BF16 products round the activations to bfloat16 */
} Impl;

#define MAX_THREADS	4

extern KPool *pools[MAX_THREADS + 1];	/* by number of threads */
extern const Kernels *ref;

/* a deterministic stream of pseudo-random numbers */
uint32_t	rnd(void);
void		rnd_seed(uint32_t seed);
float		rnd_float(float scale);	/* in (-scale, scale) */
void		rnd_fill(float *x, size_t n, float scale);
int			rnd_int(int n);		/* 0 .. n-1 */
/* a matrix's row in the file: any bits but in the scales, which are finite and small */
void		rnd_row(KType t, int k, uint8_t *row);
void		rnd_small_row(int k, uint8_t *row);

/* zeroed, 64-byte aligned, with room behind for a canary; never NULL */
void	   *xalloc(size_t n);

/* normalized mean square error of got against want */
double		nmse(const float *want, const float *got, size_t n);

/*
 * Results which all fused implementations must share to the bit: the first one
 * to report under an id sets the value.
 */
bool		same_bits(const Impl *im, int id, const void *p, size_t n);
enum
{
	ID_ROWS = 0,
	ID_ATTN = 1000,
	ID_LORA = 2000,
	ID_MAX = 2100
};

void		test_mm(const Impl *im);
void		test_grouped(const Impl *im);
void		test_lora(const Impl *im);
void		test_pack(const Impl *im);
void		test_rows(const Impl *im);
void		test_attn(const Impl *im);
void		test_f8(void);
void		test_pack_cuda(void);
void		test_ssm(const Impl *im);
void		test_misc(const Impl *im);

#endif
