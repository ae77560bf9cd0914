/*
 * model_digest.h
 *	  The identity of a model: a digest of its files' contents and of the options that change its
 *	  vectors.
 */
#ifndef VLLM_BACKEND_MODEL_DIGEST_H
#define VLLM_BACKEND_MODEL_DIGEST_H

#include <stdbool.h>

#include "base/blake2.h"
#include "base/err.h"
#include "loader/model_files.h"
#include "runtime/model_options.h"

#define MODEL_DIGEST (2 * BLAKE2_BYTES + 1)	/* hexadecimal digits and a NUL */

typedef struct ModelDigest ModelDigest;

/* Make the digest of a model that is being loaded from these files at path; never NULL. */
ModelDigest *modeldigest_new(const Files *files, const char *path, const ModelOpts *o);
void		modeldigest_free(ModelDigest *d);
/* The instance has taken over the weights of another one, whose digest is `from`. */
void		modeldigest_adopt(ModelDigest *d, const ModelDigest *from);
/* Return true if the digest is known; if not, modeldigest_get() reads all weights.  Any thread. */
bool		modeldigest_known(ModelDigest *d);
/* Compute the digest; any thread.  ERR_NOT_READY: the files have changed since they were loaded. */
bool		modeldigest_get(ModelDigest *d, char hex[MODEL_DIGEST], Err *e);

/* The digest of any text, for a backend without files. */
void		modeldigest_of_text(const char *text, size_t n, char hex[MODEL_DIGEST]);

#endif
