/*
 * step_trace.c
 *	  Trace events of a core's steps (trace.h).
 *
 * While a profile is recorded the model also marks its operations, unless the core was opened with a
 * Profile of its owner.  Owner: the step thread, between steps.
 */
#include <string.h>

#include "base/clock.h"
#include "core/core_state.h"

static void
switch_over(Core *c)
{
	c->tracing = trace_on();
	if (c->tracing && c->opt.profile == NULL)
		c->opt.profile = &c->trace_profile;
	else if (!c->tracing && c->opt.profile == &c->trace_profile)
		c->opt.profile = NULL;
	c->trace_profile.last_ns = 0;
	model_profile(c->model, c->opt.profile);
}

void
core_trace_begin(Core *c, int64_t now_us)
{
	if (c->tracing != trace_on())
		switch_over(c);
	if (!c->tracing)
		return;
	memset(&c->trace, 0, sizeof(c->trace));
	c->trace.core = c;
	c->trace.at[TM_BEGIN] = now_us;
	for (int i = 0; i < PROF_KINDS; i++)
		c->trace.ops_ns[i] = -c->opt.profile->ns[i];
}

void
core_trace_mark(Core *c, TraceMark m)
{
	if (c->tracing)
		c->trace.at[m] = clock_us();
}

void
core_trace_end(Core *c, const Plan *plan)
{
	if (!c->tracing || plan->n == 0)
		return;
	core_trace_mark(c, TM_END);
	c->trace.seqs = plan->n;
	c->trace.rows = plan->n_rows;
	c->trace.sampled = plan->n_sample;
	c->trace.preempted = plan->n_preempted;
	for (int i = 0; i < PROF_KINDS; i++)
		c->trace.ops_ns[i] += c->opt.profile->ns[i];
	trace_step(&c->trace);
}
