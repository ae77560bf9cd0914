/*
 * inspect.h
 *	  What model files hold, without loading them.
 */
#ifndef VLLM_BACKEND_INSPECT_H
#define VLLM_BACKEND_INSPECT_H

#include "backend/backend.h"
#include "runtime/devices.h"
#include "backend/drafter_loader.h"

/*
 * The files of a model, its tokenizer (NULL = it has none that can be read), the kernels that shall run it,
 * and where.
 */
typedef struct PlanFor
{
	Source	   *src;
	const Tok  *tok;
	const Kernels *kernels;
	const DeviceChoice *where;
} PlanFor;

/*
 * Options of the core that agree with the model's, and what drafts for it: *df is to be closed, also after an
 * error (core_options.c).
 */
typedef bool (*InspectPlan) (const ModelInfo *mi, const PlanFor *f, const ModelOpts *o, const Settings *s,
							 CoreOptions *co, DraftFiles *df, Err *e);

/* Append a JSON object to *json.  false with *e set: the files can't be read as a model. */
bool		inspect_model(const char *path, const ModelOpts *opts, const Settings *s, const Kernels *k,
						  const DeviceChoice *where, InspectPlan plan, Buf *json, Err *e);

#endif
