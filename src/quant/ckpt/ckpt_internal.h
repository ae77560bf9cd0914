/*
 * ckpt_internal.h
 *	  Private to the checkpoint methods: what they are made of.
 *
 * A method describes a matrix in a CkptReader: where its codes lie, where scales and zero
 * points.  ckpt_finish() (ckpt_read.c) checks them, chooses the type that the matrix gets,
 * and is the only one who makes rows.  A weight is always
 *
 *		(value(code) - zero) * scale
 *
 * where value is the code itself or an entry of a table.
 */
#ifndef VLLM_QUANT_CKPT_CKPT_INTERNAL_H
#define VLLM_QUANT_CKPT_CKPT_INTERNAL_H

#include <string.h>

#include "base/json/json.h"
#include "quant/ckpt/ckpt.h"

#define CKPT_MAX_PARTS 40
#define CKPT_MAX_NAME 256
#define CKPT_MAX_METHOD 24
#define CKPT_CHUNK 256			/* columns at a time: whole words and blocks of all formats */
#define CKPT_ROWS 64			/* rows at a time */

typedef struct CkptReader CkptReader;

/* Codes of the n rows (at most CKPT_ROWS) row0, row0 + step, ... and of columns col0 ..
 * col0+m-1 (col0 a multiple of CKPT_CHUNK, m at most that) to out[n][CKPT_CHUNK]. */
typedef void (*CkptCodes) (const CkptReader *r, int64_t row0, int step, int n, int64_t col0, int m,
						   uint8_t *out);

struct CkptReader
{
	KReader		r;				/* first: the rows() callback casts back */
	KTensor		t;				/* what ckpt_matrix() returns */
	const KTensor *parts[CKPT_MAX_PARTS + 1];
	int			n_parts;
	char	   *name;
	int64_t		n;
	int64_t		k;

	const KTensor *q;			/* codes */
	CkptCodes	codes;
	int64_t		dims[3];		/* for codes: the method's own */
	int			bits;			/* of a code, 1..8 */
	int64_t		row_bytes;		/* ckpt_stream(): of a row of codes */
	uint8_t		flip;			/* ckpt_stream(): these bits of a code are inverted */
	bool		high_first;		/* ckpt_stream(): the high nibble comes first */
	const float *value;			/* [1 << bits]; NULL: the code */
	float		table[256];		/* for that */
	bool		e2m1;			/* value is the table of MXFP4's codes */

	/* F32, F16, BF16, F8_E4M3, or U8 and F8_E8M0: exponents.  NULL: none is alone in a tensor */
	const KTensor *scale;
	int64_t		row_div;		/* rows that share a scale */
	int64_t		row_step;		/* scales from one of these to the next */
	int64_t		group_step;		/* step between scales of two groups of columns */
	int64_t		group;			/* columns of a group */
	bool		flat;			/* groups go on from one row to the next */
	float		factor;			/* of all scales */
	float		(*scale_of) (const CkptReader *r, int64_t row, int64_t group);	/* NULL: from the above */
	float		most;			/* upper bound of the scales */
	const KTensor *scale2;		/* for scale_of: more scales, */
	const KTensor *codes2;		/* codes of them, */
	int64_t		group2;			/* scales that share a second scale */
	float		offset2;

	float		(*zero_of) (const CkptReader *r, int64_t row, int64_t group);	/* NULL: zero0 */
	float		zero0;
	const KTensor *zeros;		/* for zero_of */
	int			zero_add;
	int			zero_bits;		/* zeros are codes of 2, 4 or 8 bits without a gap; 0 = anything */
	bool		zero_floats;	/* zeros are floats, one for each group */
	bool		symmetric;		/* zero points must be the middle of the codes */

	/* not NULL: scales and zero points (both tensors of floats, alike) of columns col0 ..
	 * col0+m-1 of a row, which have no groups */
	void		(*columns) (const CkptReader *r, int64_t row, int64_t col0, int m, float *s, float *z);

	int32_t    *g_idx;			/* [k], groups of the columns; NULL: in order */
	int64_t		n_groups;		/* number of groups */
	bool		int8_acts;		/* made for products of bytes: INT8 if it fits */

	KReader		offer;			/* what r offers: rows of FP8, or of 4 bits */
	KTensor		offer_t;
};

struct Ckpt
{
	const struct CkptMethod *method;
	char		name[CKPT_MAX_METHOD];
	Json	   *conf;			/* the "quantization_config" */
	CkptFiles	files;
	int64_t		ints[8];		/* the method's own */
	CkptReader **readers;
	size_t		n_readers;
};

typedef struct CkptMethod
{
	const char *names;
	const char *also;			/* names that only the model option "quantization" has */
	bool		(*open) (Ckpt *c, Err *e);
	/* *out NULL: not quantized; else to be given to ckpt_finish() */
	bool		(*matrix) (Ckpt *c, const char *module, int64_t n, int64_t k, CkptReader **out, Err *e);
} CkptMethod;

/* ---- tensors (ckpt.c) ---- */

/* An empty reader, owned by c. */
CkptReader *ckpt_reader(Ckpt *c, const char *module, int64_t n, int64_t k);
/* The tensor "MODULE.ending"; NULL if there is none.  Untouched by any use. */
const KTensor *ckpt_find(const Ckpt *c, const char *module, const char *ending);
/* The same as a part of r, which must be there, of one of these types (KT_COUNT behind the
 * last) and of this shape (0 dimensions = any; with 2, several matrices in one of 3 are one):
 * NULL with the error set. */
const KTensor *ckpt_part(Ckpt *c, CkptReader *r, const char *module, const char *ending, const KType *types,
						 int ndim, int64_t d0, int64_t d1, Err *e);
/* As a part if it is there: without use for the weights, as scales of activations. */
void		ckpt_unused(Ckpt *c, CkptReader *r, const char *module, const char *ending);
const char *ckpt_where(const Ckpt *c, const KTensor *t);
int64_t		ckpt_count(const KTensor *t);	/* elements */

/* bytes that are no number of weights: unaligned loads */
static inline uint32_t
ckpt_u32(const void *p)
{
	uint32_t	v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* The codes of a word of 8, 4 or 2 bits each, the lowest first, a byte each. */
static inline void
ckpt_spread(uint32_t word, int bits, uint8_t *out)
{
	uint64_t	v = word;

	if (bits == 8)
		memcpy(out, &word, sizeof(word));
	else if (bits == 4)
	{
		v = (v | v << 16) & 0x0000ffff0000ffff;
		v = (v | v << 8) & 0x00ff00ff00ff00ff;
		v = (v | v << 4) & 0x0f0f0f0f0f0f0f0f;
		memcpy(out, &v, sizeof(v));
	}
	else
		for (int i = 0; i < 2; i++, out += sizeof(v))
		{
			v = word >> 16 * i & 0xffff;
			v = (v | v << 24) & 0x000000ff000000ff;
			v = (v | v << 12) & 0x000f000f000f000f;
			v = (v | v << 6) & 0x0303030303030303;
			memcpy(out, &v, sizeof(v));
		}
}

extern const KType ckpt_i32[];	/* lists of types for ckpt_part() */
extern const KType ckpt_u8[];
extern const KType ckpt_floats[];

/* ---- the configuration (ckpt.c); null counts as absent ---- */

const Json *ckpt_get(const Json *o, const char *key);
bool		ckpt_int(const Json *o, const char *key, int64_t lo, int64_t hi, int64_t dflt, int64_t *out,
					 Err *e);
bool		ckpt_bool(const Json *o, const char *key, bool dflt, bool *out, Err *e);
/* one of the words of `allowed`, separated by blanks, or dflt; its number to *out */
bool		ckpt_word(const Json *o, const char *key, const char *allowed, int dflt, int *out, Err *e);
/* An object, or NULL. */
bool		ckpt_map(const Json *o, const char *key, const Json **out, Err *e);
/* Keys that aren't in `known` (separated by blanks) must say nothing: null, false, "", [] or {}. */
bool		ckpt_known(const Json *o, const char *known, Err *e);
/* a value for a message */
const char *ckpt_show(const Json *v, char *buf, size_t size);
/* Does a pattern match a name from its beginning (Python's re.match), or anywhere (re.search)?
 * false: it isn't a regular expression. */
bool		ckpt_match(const char *pattern, const char *name, bool anywhere, bool *out, Err *e);

/* Is `word` one of the words of a list?  Its number, or -1. */
int			ckpt_word_number(const char *list, const char *word);
/* null, false, "", [] or {} */
bool		ckpt_says_nothing(const Json *v);

/* ---- methods (ckpt_method.c) ---- */

/* An object of which no member says anything: nothing is quantized. */
bool		ckpt_is_empty(const Json *conf);
/* A configuration's method, and how it calls it; NULL with the error set. */
const CkptMethod *ckpt_method(const Json *conf, char *name, size_t size, Err *e);

/* ---- readers (ckpt_read.c) ---- */

void		ckpt_stream(const CkptReader *r, int64_t row0, int step, int n, int64_t col0, int m,
						uint8_t *out);
/* scales one a group: [n][groups] or [groups][n] */
void		ckpt_scale_rows(CkptReader *r, const KTensor *t, int64_t group);
void		ckpt_scale_cols(CkptReader *r, const KTensor *t, int64_t group);
/* Of groups of `size` columns (-1 = all): columns of one, and how many there are. */
bool		ckpt_groups(const CkptReader *r, int64_t size, int64_t *group, int64_t *groups, Err *e);
/* The configuration has a setting that needs a tensor with the order of the columns: is it there? */
bool		ckpt_needs_order(const Ckpt *c, const char *module, const char *ending, const char *setting,
							 Err *e);
/* The group of each column, if there is such a tensor, for r->g_idx. */
bool		ckpt_order(Ckpt *c, CkptReader *r, const char *module, const char *ending, int64_t groups,
					   Err *e);
bool		ckpt_finish(Ckpt *c, CkptReader *r, Err *e);

/* ---- types of 4 bits (ckpt_four.c) ---- */

/* In which of them may a matrix be, whose largest scale is `most`?  KT_COUNT: in none. */
KType		ckpt_four(const CkptReader *r, float most);
/* Columns col0 .. col0+m-1 (blocks of 32) of a row to the row of r->offer_t.type that begins at `to`. */
void		ckpt_put_four(const CkptReader *r, int64_t row, int64_t col0, int m, const uint8_t *codes,
						  uint8_t *to);

/* ---- scales (ckpt_scale.c) ---- */

/* Element i of a tensor of scales; n of them, all finite. */
float		ckpt_element(const KTensor *t, int64_t i);
void		ckpt_elements(const KTensor *t, int64_t i, int64_t n, float *out);
/* All of a tensor must be finite; the largest absolute value to *most. */
bool		ckpt_finite(const Ckpt *c, const KTensor *t, float *most, Err *e);
float		ckpt_scale_at(const CkptReader *r, int64_t row, int64_t group);
float		ckpt_zero_at(const CkptReader *r, int64_t row, int64_t group);

/* Of all zero points of a matrix. */
typedef struct CkptZeros
{
	float		lo;
	float		hi;
	bool		whole;			/* all are integers */
} CkptZeros;

/* false: the matrix is to be symmetric and isn't */
bool		ckpt_zeros(const Ckpt *c, const CkptReader *r, CkptZeros *out, Err *e);

/* ---- small floats and bytes (ckpt_float.c) ---- */

extern const KType ckpt_i8[];
extern const KType ckpt_f8[];
extern const KType ckpt_scales[];	/* floats and exponents */

float		ckpt_e4m3(uint8_t b);
float		ckpt_e8m0(uint8_t b);	/* 255 is NaN */
/* Codes are the bytes of a tensor [n][k] of one of these types, I8 or F8. */
bool		ckpt_bytes(Ckpt *c, CkptReader *r, const char *module, const char *ending, const KType *types,
					   Err *e);
/* Codes are nibbles of E2M1, the low one first, k / 2 bytes a row. */
void		ckpt_fp4(CkptReader *r, const KTensor *t);
/* A tensor U8 [n][k / 2] with an exponent for 32 columns; with E4M3 scales for 16. */
bool		ckpt_mx(Ckpt *c, CkptReader *r, const char *module, const char *ending, const char *scale,
					Err *e);
bool		ckpt_nvfp4(Ckpt *c, CkptReader *r, const char *module, const char *ending, const char *scale,
					   Err *e);
/* "weight" U8 [n][k * 3 / 4] of E2M3, or E3M2 if wide, the first in the lowest bits, and
 * "weight_scale", an exponent for 32 columns. */
bool		ckpt_mx6(Ckpt *c, CkptReader *r, const char *module, bool wide, Err *e);
/* Scales: one, or one a row, or one for each block of rows x cols (0 = there are none); of
 * several matrices below each other in 3 dimensions. */
bool		ckpt_scale_shape(Ckpt *c, CkptReader *r, const KTensor *t, int64_t rows, int64_t cols, Err *e);
/* Zero points of I8 codes, if there are any, laid out as the scales. */
bool		ckpt_i8_zeros(Ckpt *c, CkptReader *r, const char *module, const char *ending, Err *e);
/* The one element of a tensor F32; neither 0 nor infinite. */
bool		ckpt_one_float(Ckpt *c, CkptReader *r, const char *module, const char *ending, float *out,
						   Err *e);

/* Types of GGUF that no kernel knows (gguf_types.c) */
bool		gguf_matrix(Ckpt *c, const char *module, int64_t n, int64_t k, CkptReader **out, Err *e);

#define CKPT(names, also, open, matrix) \
	bool open(Ckpt *c, Err *e); \
	bool matrix(Ckpt *c, const char *module, int64_t n, int64_t k, CkptReader **out, Err *e);
#include "quant/ckpt/ckpt.def"
#undef CKPT

#endif
