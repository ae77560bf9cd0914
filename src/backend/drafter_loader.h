/*
 * drafter_loader.h
 *	  Files of a drafter with weights of its own, beside the files of the target model.
 */
#ifndef VLLM_BACKEND_DRAFTER_LOADER_H
#define VLLM_BACKEND_DRAFTER_LOADER_H

#include "core/spec/drafter.h"
#include "backend/weight_source.h"
#include "core/spec/spec_config.h"

/* A zeroed struct has no drafter. */
typedef struct DraftFiles
{
	const char *method;			/* NULL = the method has no weights */
	Files	   *files;			/* NULL = the drafter is in the target's own files */
	Source		src;
	Source	   *from;			/* src, or the target's source */
	DraftInfo	info;
} DraftFiles;

/*
 * Open the drafter that spec asks for and check it against the target, whose files are src.  Fills in
 * spec's method and number of drafts if they were not given.  tok: the target's tokenizer; NULL = do not
 * compare vocabularies.
 */
bool		draftfiles_open(DraftFiles *df, SpecConfig *spec, Source *src, const ModelInfo *target,
							const Tok *tok, const Kernels *k, Err *e);
void		draftfiles_close(DraftFiles *df);

/*
 * Load the drafter's weights for a target that was made with opt; *out = NULL if the method has no
 * weights.
 */
bool		draftfiles_load(DraftFiles *df, const SpecConfig *spec, const ModelOptions *opt, Model *target,
							Drafter **out, Err *e);

#endif
