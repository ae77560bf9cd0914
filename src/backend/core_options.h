/*
 * core_options.h
 *	  Options of a core that agree with each other and with its model.
 */
#ifndef VLLM_BACKEND_CORE_OPTIONS_H
#define VLLM_BACKEND_CORE_OPTIONS_H

#include "backend/inspect.h"

/* Make the options.  *df gets the drafter's files; the caller must close it, also after an error. */
bool		coreplan_make(const ModelInfo *mi, const PlanFor *f, const ModelOpts *o, const Settings *s,
						  CoreOptions *co, DraftFiles *df, Err *e);
/*
 * Called if speculation does not fit the model.  Returns true if only the setting asks for it: the model
 * is then loaded without.  Returns false if the model's own option asks for it.
 */
bool		coreplan_leave_out(SpecConfig *spec, Err *e);
/* Return the bytes of the KV cache that the option or the setting asks for; 0 = neither does. */
int64_t		coreplan_kv_requested(const ModelOpts *o, const Settings *s);
/* Return the part of a device's memory that may be in use. */
double		coreplan_utilization(const ModelOpts *o, const Settings *s);

#endif
