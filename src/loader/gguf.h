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
	const uint8_t *end;			/* behind the value */
} GgufKey;

typedef struct GgufTensor
{
	const char *name;			/* not NUL-terminated */
	size_t		name_len;
	int			ndim;			/* 1..4 */
	int64_t		ne[4];			/* innermost first, as in the file */
	uint32_t	type;			/* ggml_type */
	uint64_t	offset;			/* from data */
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

/* path is for the error messages.  g is cleared and filled; free it in any case. */
bool		gguf_parse(const uint8_t *base, size_t len, const char *path, Gguf *g, Err *e);
void		gguf_free(Gguf *g);

const GgufKey *gguf_find(const Gguf *g, const char *key);
/* Element i of a number, boolean or array of them; false for other types. */
bool		gguf_num(const GgufKey *k, uint64_t i, double *out);
/* The next string of an array; *at is NULL at first.  false behind the last, and
 * if the file has changed since it was parsed. */
bool		gguf_next_str(const GgufKey *k, const uint8_t **at, const char **s, size_t *len);

/* ---- gguf_shards.c ---- */

/* The path of another part of a split model, from that of part number `no` (from 0 on) of
 * `count`; to be freed, NULL if that isn't its name. */
char	   *gguf_part_path(const char *path, int no, int count, int other);
/* The GGUF model in a directory, to be freed; NULL if there is none, false with the error set
 * if there are several. */
bool		gguf_in_directory(const char *dir, char **path, Err *e);

#endif
