/*
 * cpus.h
 *	  CPUs of the machine that this process may use.
 */
#ifndef VLLM_BASE_MACHINE_CPUS_H
#define VLLM_BASE_MACHINE_CPUS_H

#include <stddef.h>

/*
 * List the CPUs that the calling thread may run on, ascending, at most max, and return their number; 0 =
 * unknown.  cpus NULL: only return the number.
 */
int			cpus_allowed(int *cpus, int max);
/*
 * Return the CPU quota that the control groups of this process grant, in CPUs, rounded down but at least
 * 1; 0 = no limit.  root: "" (in tests a folder that stands for /).
 */
int			cpus_quota(const char *root);
/* Return how many threads can run at the same time: the allowed CPUs, limited by the quota. */
int			cpus_usable(void);
/* Copy the model name of the first CPU in /proc/cpuinfo; "" = unknown. */
void		cpus_name(char *out, size_t size);

#endif
