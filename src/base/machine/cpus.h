/*
 * cpus.h
 *	  What this process may use of the machine's CPUs.
 */
#ifndef VLLM_BASE_MACHINE_CPUS_H
#define VLLM_BASE_MACHINE_CPUS_H

#include <stddef.h>

/* The CPUs that the calling thread may run on, ascending, at most max; 0 = unknown.
 * cpus NULL: how many. */
int			cpus_allowed(int *cpus, int max);
/*
 * CPUs' worth of time that the control groups of this process grant, rounded down
 * but at least 1; 0 = no limit.  root: "" (tests: a folder that stands for /).
 */
int			cpus_quota(const char *root);
/* Threads that can run at the same time: what is allowed, within the quota. */
int			cpus_usable(void);
/* What /proc/cpuinfo calls the first of them; "" = nothing. */
void		cpus_name(char *out, size_t size);

#endif
