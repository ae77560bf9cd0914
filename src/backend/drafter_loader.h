/*
 * drafter_loader.h
 *	  The files of what guesses tokens with weights of its own, beside the model whose tokens they are.
 */
#ifndef VLLM_BACKEND_DRAFTER_LOADER_H
#define VLLM_BACKEND_DRAFTER_LOADER_H

#include "core/spec/drafter.h"
#include "backend/weight_source.h"
#include "core/spec/spec_config.h"

/* Zeroed: there are none. */
typedef struct DraftFiles
{
	const char *method;			/* NULL = the method has no weights */
	Files	   *files;			/* NULL = they are the target's own */
	Source		src;
	Source	   *from;			/* src, or the target's */
	DraftInfo	info;
} DraftFiles;

/*
 * What spec asks for: opened and checked against the target, of which src are the files; its method and
 * number of drafts are filled in where they weren't given.  tok: the target's; NULL = vocabularies aren't
 * compared.
 */
bool		draftfiles_open(DraftFiles *df, SpecConfig *spec, Source *src, const ModelInfo *target,
							const Tok *tok, const Kernels *k, Err *e);
void		draftfiles_close(DraftFiles *df);

/* Its weights, for a target that was made with opt; *out NULL: the method has none. */
bool		draftfiles_load(DraftFiles *df, const SpecConfig *spec, const ModelOptions *opt, Model *target,
							Drafter **out, Err *e);

#endif
