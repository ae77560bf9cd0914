/*
 * core_options.h
 *	  Options of a core that agree with each other and with its model.
 */
#ifndef VLLM_BACKEND_CORE_OPTIONS_H
#define VLLM_BACKEND_CORE_OPTIONS_H

#include "backend/inspect.h"

/* *df is what drafts for it, to be closed, also after an error. */
bool		coreplan_make(const ModelInfo *mi, const PlanFor *f, const ModelOpts *o, const Settings *s,
						  CoreOptions *co, DraftFiles *df, Err *e);
/*
 * Speculation doesn't fit: true if only the setting asks for it, and the model does without; false: its own
 * option does.
 */
bool		coreplan_leave_out(SpecConfig *spec, Err *e);
/* Bytes of a KV cache that are asked for; 0: by nobody. */
int64_t		coreplan_kv_asked(const ModelOpts *o, const Settings *s);
/* Part of a device's memory that may be in use. */
double		coreplan_utilization(const ModelOpts *o, const Settings *s);

#endif
