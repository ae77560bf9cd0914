/*
 * weight_source.h
 *	  Connect model files to the model: shared by the server and --offline.
 */
#ifndef VLLM_BACKEND_WEIGHT_SOURCE_H
#define VLLM_BACKEND_WEIGHT_SOURCE_H

#include "loader/model_files.h"
#include "model/model.h"
#include "runtime/model_options.h"
#include "tokenizer/tokenizer.h"

/* Progress 0..1 of a load; returns false to cancel it (ERR_CANCELLED). */
typedef bool (*LoadProgress) (void *ctx, double done);

typedef struct Source
{
	const Files *files;
	LoadProgress progress;		/* NULL: progress is not reported */
	void	   *ctx;
	struct Ckpt *ckpt;			/* reader of a quantized checkpoint, opened at the first request for a
								 * matrix */
} Source;

/* s must live as long as the result is used; then pass it to source_done(). */
ModelSource source_of(Source *s);
void		source_done(Source *s);
/* Apply the model options that change the files' configuration; before the model is made or checked. */
bool		source_options(Files *f, const ModelOpts *o, Err *e);
/* Return the tokenizer that the files describe. */
Tok		   *source_tok(const Files *f, Err *e);
/* Return true for a GGUF file without tensors: a vocabulary, whose architecture need not be known. */
bool		source_tokenizer_only(const Files *f);

#endif
