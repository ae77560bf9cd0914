/*
 * model_digest.h
 *	  Which model an instance is: a digest of its files' contents and of the options by which vectors differ.
 */
#ifndef VLLM_BACKEND_MODEL_DIGEST_H
#define VLLM_BACKEND_MODEL_DIGEST_H

#include <stdbool.h>

#include "base/blake2.h"
#include "base/err.h"
#include "loader/model_files.h"
#include "runtime/model_options.h"

#define MODEL_DIGEST (2 * BLAKE2_BYTES + 1)	/* hexadecimal digits, and a NUL */

typedef struct ModelDigest ModelDigest;

/* Of the model that is being loaded from these files, which lie at path; never NULL. */
ModelDigest *modeldigest_new(const Files *files, const char *path, const ModelOpts *o);
void		modeldigest_free(ModelDigest *d);
/* The instance has the weights of another one now. */
void		modeldigest_adopt(ModelDigest *d, const ModelDigest *from);
/* Is it known?  Else modeldigest_get() reads all weights.  Any thread. */
bool		modeldigest_known(ModelDigest *d);
/* Any thread; ERR_NOT_READY: the files have changed since they were loaded. */
bool		modeldigest_get(ModelDigest *d, char hex[MODEL_DIGEST], Err *e);

/* For a backend without files: of any text. */
void		modeldigest_of_text(const char *text, size_t n, char hex[MODEL_DIGEST]);

#endif
