/*
 * ckpt_internal.h
 *	  Private to the checkpoint methods: the structs and functions from which they are built.
 *
 * A method describes a matrix in a CkptReader: the positions of its codes, scales and zero points.
 * ckpt_finish() (ckpt_read.c) checks them and chooses the matrix's type; only ckpt_read.c makes rows.  A
 * weight is always
 *
 *		(value(code) - zero) * scale
 *
 * where value(code) is the code itself or an entry of a table.
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

/* Read the codes of the n rows (at most CKPT_ROWS) row0, row0 + step, ... and of columns col0 ..
 * col0+m-1 (col0 is a multiple of CKPT_CHUNK, m at most CKPT_CHUNK) to out[n][CKPT_CHUNK]. */
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
	int64_t		dims[3];		/* for codes(): the method's own use */
	int			bits;			/* of a code, 1..8 */
	int64_t		row_bytes;		/* ckpt_stream(): bytes of a row of codes */
	uint8_t		flip;			/* ckpt_stream(): bits of a code to invert */
	bool		high_first;		/* ckpt_stream(): the high nibble comes first */
	const float *value;			/* [1 << bits]; NULL: value(code) is the code */
	float		table[256];		/* storage for value */
	bool		e2m1;			/* value is the table of MXFP4's codes */

	/* F32, F16, BF16, F8_E4M3, or U8 and F8_E8M0: exponents.  NULL: the method doesn't have the scales
	 * alone in one tensor */
	const KTensor *scale;
	int64_t		row_div;		/* rows that share a scale */
	int64_t		row_step;		/* step between scales of two such sets of rows */
	int64_t		group_step;		/* step between scales of two groups of columns */
	int64_t		group;			/* columns of a group */
	bool		flat;			/* groups continue from one row to the next */
	float		factor;			/* factor of all scales */
	float		(*scale_of) (const CkptReader *r, int64_t row, int64_t group);	/* NULL: computed from the
																				 * fields above */
	float		most;			/* upper bound of the scales */
	const KTensor *scale2;		/* for scale_of: second scales, */
	const KTensor *codes2;		/* codes of the scales, */
	int64_t		group2;			/* scales that share a second scale */
	float		offset2;

	float		(*zero_of) (const CkptReader *r, int64_t row, int64_t group);	/* NULL: zero0 */
	float		zero0;
	const KTensor *zeros;		/* for zero_of */
	int			zero_add;
	int			zero_bits;		/* zeros are codes of 2, 4 or 8 bits without a gap; 0 = anything else */
	bool		zero_floats;	/* zeros are floats, one for each group */
	bool		symmetric;		/* zero points must be the middle of the codes */

	/* not NULL: reads scales and zero points of columns col0 .. col0+m-1 of a row, for a matrix without
	 * groups; both tensors are floats of the same shape */
	void		(*columns) (const CkptReader *r, int64_t row, int64_t col0, int m, float *s, float *z);

	int32_t    *g_idx;			/* [k], groups of the columns; NULL: in order */
	int64_t		n_groups;		/* number of groups */
	bool		int8_acts;		/* made for 8-bit activations: INT8 if it fits */

	KReader		offer;			/* the smaller type that r offers: rows of FP8, or of 4 bits */
	KTensor		offer_t;
	KReader		with_x;			/* rows of KT_INT8S; with_x.x: ckpt_input_scale() */
	KTensor		with_x_t;
};

struct Ckpt
{
	const struct CkptMethod *method;
	char		name[CKPT_MAX_METHOD];
	Json	   *conf;			/* the "quantization_config" */
	CkptFiles	files;
	int64_t		ints[8];		/* the method's own use */
	CkptReader **readers;
	size_t		n_readers;
};

typedef struct CkptMethod
{
	const char *names;
	const char *also;			/* further names that only the model option "quantization" accepts */
	bool		(*open) (Ckpt *c, Err *e);
	/* *out = NULL: not quantized; else the caller passes it to ckpt_finish() */
	bool		(*matrix) (Ckpt *c, const char *module, int64_t n, int64_t k, CkptReader **out, Err *e);
} CkptMethod;

/* ---- tensors (ckpt.c) ---- */

/* Make an empty reader, owned by c. */
CkptReader *ckpt_reader(Ckpt *c, const char *module, int64_t n, int64_t k);
/* Return the tensor "MODULE.ending"; NULL if there is none.  Doesn't mark the tensor as used. */
const KTensor *ckpt_find(const Ckpt *c, const char *module, const char *ending);
/* Return such a tensor as a part of r.  It must exist, be of one of these types (list ends with
 * KT_COUNT) and of this shape (0 = any size; with ndim 2, a tensor of 3 dimensions counts as one matrix
 * of its matrices one below the other).  Return NULL with the error set if not. */
const KTensor *ckpt_part(Ckpt *c, CkptReader *r, const char *module, const char *ending, const KType *types,
						 int ndim, int64_t d0, int64_t d1, Err *e);
/* Mark a tensor as a part of r if it exists, although the weights don't need it, such as scales of
 * activations. */
void		ckpt_unused(Ckpt *c, CkptReader *r, const char *module, const char *ending);
const char *ckpt_where(const Ckpt *c, const KTensor *t);
int64_t		ckpt_count(const KTensor *t);	/* number of elements */

/* Load 4 bytes from any address; other than weights, these need no alignment. */
static inline uint32_t
ckpt_u32(const void *p)
{
	uint32_t	v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Unpack a word of codes of 8, 4 or 2 bits, the lowest first, to a byte each. */
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
/* Read one of the words of `allowed`, separated by blanks; its number to *out, dflt if the key is
 * absent. */
bool		ckpt_word(const Json *o, const char *key, const char *allowed, int dflt, int *out, Err *e);
/* Read an object; *out = NULL if the key is absent. */
bool		ckpt_map(const Json *o, const char *key, const Json **out, Err *e);
/* Fail if a key that isn't in `known` (separated by blanks) has a value other than null, false, "", []
 * or {}. */
bool		ckpt_known(const Json *o, const char *known, Err *e);
/* Print a value for a message. */
const char *ckpt_show(const Json *v, char *buf, size_t size);
/* Match a name with a pattern, from its beginning (Python's re.match) or anywhere (re.search).  Return
 * false if the pattern isn't a regular expression. */
bool		ckpt_match(const char *pattern, const char *name, bool anywhere, bool *out, Err *e);

/* Return the number of `word` in a list of words, or -1. */
int			ckpt_word_number(const char *list, const char *word);
/* Return true for null, false, "", [] and {}, and for NULL: there is no such key. */
bool		ckpt_says_nothing(const Json *v);

/* ---- methods (ckpt_method.c) ---- */

/* Return true if no member of the object has a value: nothing is quantized. */
bool		ckpt_is_empty(const Json *conf);
/* Return a configuration's method and the name that the configuration uses for it; NULL with the error
 * set. */
const CkptMethod *ckpt_method(const Json *conf, char *name, size_t size, Err *e);

/* ---- readers (ckpt_read.c) ---- */

void		ckpt_stream(const CkptReader *r, int64_t row0, int step, int n, int64_t col0, int m,
						uint8_t *out);
/* Describe one scale for each group: [n][groups] or [groups][n]. */
void		ckpt_scale_rows(CkptReader *r, const KTensor *t, int64_t group);
void		ckpt_scale_cols(CkptReader *r, const KTensor *t, int64_t group);
/* For groups of `size` columns (-1 = all) compute the columns of a group and the number of groups. */
bool		ckpt_groups(const CkptReader *r, int64_t size, int64_t *group, int64_t *groups, Err *e);
/* Check that the tensor with the order of the columns exists, as a setting of the configuration needs
 * it. */
bool		ckpt_needs_order(const Ckpt *c, const char *module, const char *ending, const char *setting,
							 Err *e);
/* Read the group of each column to r->g_idx, if there is such a tensor. */
bool		ckpt_order(Ckpt *c, CkptReader *r, const char *module, const char *ending, int64_t groups,
					   Err *e);
bool		ckpt_finish(Ckpt *c, CkptReader *r, Err *e);

/* ---- types of 4 bits (ckpt_four.c) ---- */

/* Return the 4-bit type that can hold a matrix whose largest scale is `most`; KT_COUNT if none can. */
KType		ckpt_four(const CkptReader *r, float most);
/* Convert columns col0 .. col0+m-1 (whole blocks of 32) of a row to the row of type r->offer_t.type that
 * begins at `to`. */
void		ckpt_put_four(const CkptReader *r, int64_t row, int64_t col0, int m, const uint8_t *codes,
						  uint8_t *to);

/* ---- scales (ckpt_scale.c) ---- */

/* Return element i of a tensor of scales.  ckpt_elements() reads n of them; all must be finite. */
float		ckpt_element(const KTensor *t, int64_t i);
void		ckpt_elements(const KTensor *t, int64_t i, int64_t n, float *out);
/* Check that all elements of a tensor are finite; the largest absolute value to *most. */
bool		ckpt_finite(const Ckpt *c, const KTensor *t, float *most, Err *e);
float		ckpt_scale_at(const CkptReader *r, int64_t row, int64_t group);
float		ckpt_zero_at(const CkptReader *r, int64_t row, int64_t group);

/*
 * Read the one static scale of a matrix' inputs, and the zero point if there is one.  A matrix without them,
 * or whose inputs have others than one scale that is a usable number, has no static scale; that is no error.
 */
void		ckpt_input_scale(Ckpt *c, CkptReader *r, const char *module);

/* Facts about all zero points of a matrix. */
typedef struct CkptZeros
{
	float		lo;
	float		hi;
	bool		whole;			/* all are integers */
} CkptZeros;

/* Compute them.  Return false if the matrix must be symmetric and isn't. */
bool		ckpt_zeros(const Ckpt *c, const CkptReader *r, CkptZeros *out, Err *e);

/* ---- small floats and bytes (ckpt_float.c) ---- */

extern const KType ckpt_i8[];
extern const KType ckpt_f8[];
extern const KType ckpt_scales[];	/* floats and exponents */

float		ckpt_e4m3(uint8_t b);
float		ckpt_e8m0(uint8_t b);	/* 255 is NaN */
/* Describe codes that are the bytes of a tensor [n][k] of one of these types, I8 or F8. */
bool		ckpt_bytes(Ckpt *c, CkptReader *r, const char *module, const char *ending, const KType *types,
					   Err *e);
/* Describe codes that are nibbles of E2M1, the low one first, k / 2 bytes a row. */
void		ckpt_fp4(CkptReader *r, const KTensor *t);
/* Describe a tensor U8 [n][k / 2] with an exponent for each 32 columns, or with an E4M3 scale for each
 * 16 or 32. */
bool		ckpt_mx(Ckpt *c, CkptReader *r, const char *module, const char *ending, const char *scale,
					Err *e);
bool		ckpt_nvfp4(Ckpt *c, CkptReader *r, const char *module, const char *ending, const char *scale,
					   Err *e);
/* Describe "weight_packed" and "weight_scale" as compressed-tensors stores FP4: with "weight_global_scale"
 * NVFP4, else MXFP4. */
bool		ckpt_packed_fp4(Ckpt *c, CkptReader *r, const char *module, Err *e);
/* Describe "weight" F8 [n][k] and "weight_scale": exponents of 32 columns, or one scale, or one a row, or
 * of blocks of 128 x 128. */
bool		ckpt_fp8(Ckpt *c, CkptReader *r, const char *module, Err *e);
/* Describe "weight" U8 [n][k * 3 / 4] of E2M3, or E3M2 if wide, the first code in the lowest bits, and
 * "weight_scale", an exponent for each 32 columns. */
bool		ckpt_mx6(Ckpt *c, CkptReader *r, const char *module, bool wide, Err *e);
/* Describe scales by their shape: one, or one a row, or one for each block of rows x cols (0 = no
 * blocks); a tensor of 3 dimensions has several matrices, one below the other. */
bool		ckpt_scale_shape(Ckpt *c, CkptReader *r, const KTensor *t, int64_t rows, int64_t cols, Err *e);
/* Describe the zero points of I8 codes, if there are any, laid out as the scales. */
bool		ckpt_i8_zeros(Ckpt *c, CkptReader *r, const char *module, const char *ending, Err *e);
/* Read the only element of an F32 tensor; it must be neither 0 nor infinite. */
bool		ckpt_one_float(Ckpt *c, CkptReader *r, const char *module, const char *ending, float *out,
						   Err *e);

/* GGUF types that no kernel supports (gguf_types.c) */
bool		gguf_matrix(Ckpt *c, const char *module, int64_t n, int64_t k, CkptReader **out, Err *e);

#define CKPT(names, also, open, matrix) \
	bool open(Ckpt *c, Err *e); \
	bool matrix(Ckpt *c, const char *module, int64_t n, int64_t k, CkptReader **out, Err *e);
#include "quant/ckpt/ckpt.def"
#undef CKPT

#endif
