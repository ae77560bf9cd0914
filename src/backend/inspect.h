/*
 * inspect.h
 *	  Describe model files without loading them.
 */
#ifndef VLLM_BACKEND_INSPECT_H
#define VLLM_BACKEND_INSPECT_H

#include "backend/backend.h"
#include "runtime/devices.h"
#include "backend/drafter_loader.h"

/*
 * What a plan is made for: the files of a model, its tokenizer (NULL = it has none that can be read),
 * the kernels, and the device.
 */
typedef struct PlanFor
{
	Source	   *src;
	const Tok  *tok;
	const Kernels *kernels;
	const DeviceChoice *where;
} PlanFor;

/*
 * Make the core's options for the model, and open its drafter's files: the caller must close *df, also
 * after an error (core_options.c).
 */
typedef bool (*InspectPlan) (const ModelInfo *mi, const PlanFor *f, const ModelOpts *o, const Settings *s,
							 CoreOptions *co, DraftFiles *df, Err *e);

/* Append a JSON object to *json.  Returns false with *e set if the files can't be read as a model. */
bool		inspect_model(const char *path, const ModelOpts *opts, const Settings *s, const Kernels *k,
						  const DeviceChoice *where, InspectPlan plan, Buf *json, Err *e);

#endif
