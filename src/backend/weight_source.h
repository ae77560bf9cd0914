/*
 * weight_source.h
 *	  Where model files meet the model: what the server and --offline share.
 */
#ifndef VLLM_BACKEND_WEIGHT_SOURCE_H
#define VLLM_BACKEND_WEIGHT_SOURCE_H

#include "loader/model_files.h"
#include "model/model.h"
#include "runtime/model_options.h"
#include "tokenizer/tokenizer.h"

/* Progress 0..1 of a load; false = give up (ERR_CANCELLED). */
typedef bool (*LoadProgress) (void *ctx, double done);

typedef struct Source
{
	const Files *files;
	LoadProgress progress;		/* NULL: progress is not reported */
	void	   *ctx;
	struct Ckpt *ckpt;			/* of a quantized checkpoint, opened when it is asked for a matrix */
} Source;

/* s must live as long as the result is used, and be given to source_done() then */
ModelSource source_of(Source *s);
void		source_done(Source *s);
/* Before the model is made or checked: what its options change of the files' configuration. */
bool		source_options(Files *f, const ModelOpts *o, Err *e);
/* the tokenizer that the files describe */
Tok		   *source_tok(const Files *f, Err *e);
/* A GGUF file without tensors: a vocabulary, which needs no known architecture */
bool		source_tokenizer_only(const Files *f);

#endif
