/*
 * inspect.h
 *	  What model files hold, without loading them.
 */
#ifndef VLLM_ENGINE_INSPECT_H
#define VLLM_ENGINE_INSPECT_H

#include "engine/backend.h"

/* Options of the core that agree with the model's (backend_core.c). */
typedef bool (*InspectPlan) (const ModelInfo *mi, const ModelOpts *o, const Settings *s, CoreOptions *co, Err *e);

/* Append a JSON object to *json.  false with *e set: the files can't be read as a model. */
bool		inspect_model(const char *path, const ModelOpts *opts, const Settings *s, const Kernels *k, InspectPlan plan,
						  Buf *json, Err *e);

#endif
