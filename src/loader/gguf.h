/*
 * gguf.h
 *	  Private to src/loader: the contents of a GGUF file, checked but not
 *	  interpreted.
 *
 * A Gguf points into the mapping that it was parsed from.  Every value in it has
 * been bounds-checked: a string lies inside the mapping, an array's elements do
 * too, a tensor's product of dimensions fits 63 bits.
 */
#ifndef VLLM_LOADER_GGUF_H
#define VLLM_LOADER_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef enum GgufType
{
	GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL,
	GGUF_STRING, GGUF_ARRAY, GGUF_U64, GGUF_I64, GGUF_F64,
	GGUF_N_TYPES
} GgufType;

typedef struct GgufKey
{
	const char *key;			/* not NUL-terminated */
	size_t		key_len;
	GgufType	type;
	GgufType	elem;			/* of an array */
	uint64_t	n;				/* elements of an array, bytes of a string, else 1 */
	const uint8_t *data;		/* first byte of the value, of the string, of element 0 */
	const uint8_t *end;			/* first byte after the value */
} GgufKey;

typedef struct GgufTensor
{
	const char *name;			/* not NUL-terminated */
	size_t		name_len;
	int			ndim;			/* 1..4 */
	int64_t		ne[4];			/* innermost first, as in the file */
	uint32_t	type;			/* ggml_type */
	uint64_t	offset;			/* from Gguf.data */
} GgufTensor;

typedef struct Gguf
{
	uint32_t	version;
	size_t		n_keys;
	GgufKey    *keys;
	size_t		n_tensors;
	GgufTensor *tensors;
	uint64_t	alignment;
	uint64_t	data;			/* offset of the tensors in the file */
} Gguf;

/* Parse a file's bytes.  path is for error messages.  gguf_parse() clears and fills *g; call gguf_free()
 * in any case. */
bool		gguf_parse(const uint8_t *base, size_t len, const char *path, Gguf *g, Err *e);
void		gguf_free(Gguf *g);

const GgufKey *gguf_find(const Gguf *g, const char *key);
/* Set *out to element i of a number, a boolean or an array of these.  Return false for other types. */
bool		gguf_num(const GgufKey *k, uint64_t i, double *out);
/* Return the next string of an array.  Set *at to NULL before the first call.  Return false after the
 * last string, and if the file has changed since it was parsed. */
bool		gguf_next_str(const GgufKey *k, const uint8_t **at, const char **s, size_t *len);

/* ---- gguf_shards.c ---- */

/* Return the path of part number `other` of a split model, given the path of part number `no` (from 0)
 * of `count`.  The caller frees it.  Return NULL if `path` is not named like such a part. */
char	   *gguf_part_path(const char *path, int no, int count, int other);
/* Find the GGUF model in a directory; the caller frees *path, which is NULL if the directory has none.
 * Return false with the error set if it has several. */
bool		gguf_in_directory(const char *dir, char **path, Err *e);

#endif
