/*
 * fake_pooling.h
 *	  Vectors, scores and labels of the fake backend.  docs/internals/testing.md is its manual.
 */
#ifndef VLLM_BACKEND_FAKE_FAKE_POOLING_H
#define VLLM_BACKEND_FAKE_FAKE_POOLING_H

#include "backend/backend.h"

#define FAKE_WIDTH	16			/* width of an embedding */
#define FAKE_ROW_WIDTH	4		/* width of a token's embedding row: its byte, and zeros */

/* Digest of the path, and of the contents of a file there. */
void		fakepool_digest(const char *path, char hex[MODEL_DIGEST]);

/* Generator.embed_width, token_rows */
int			fakepool_embed_width(const BackendModel *in);
size_t		fakepool_token_rows(const BackendModel *in, const int32_t *ids, size_t n, float *out);

/* Backend.pool; tasks: bits 1 << PoolTask of what the model supports, max_len: bytes. */
bool		fakepool_make(unsigned tasks, int max_len, const PoolRequest *pr, PoolSpec *out, PoolExtra *extra,
						  Err *e);
/* Backend.labels */
const char *const *fakepool_labels(PoolTask task);

/*
 * Return all bytes of a request's sequences with a newline between two sequences; NUL-terminated, owned
 * by the caller.
 */
char	   *fakepool_text(const PoolSpec *s);

/* The content of the finishing event; the caller frees it with fakepool_free(). */
typedef struct FakePooled
{
	float	   *values;
	int			n_rows,
				width;
	int32_t    *counts,
			   *greedy;
} FakePooled;

void		fakepool_answer(const PoolSpec *s, FakePooled *out);
void		fakepool_free(FakePooled *p);

#endif
