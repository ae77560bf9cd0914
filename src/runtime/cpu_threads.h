/*
 * cpu_threads.h
 *	  Compute threads and their CPUs from the settings cpu_threads and cpu_affinity, and their kernels
 *	  from cpu_isa.
 */
#ifndef VLLM_RUNTIME_CPU_THREADS_H
#define VLLM_RUNTIME_CPU_THREADS_H

#include <stdbool.h>

#include "base/err.h"
#include "kernels.h"
#include "ipc/cpu_list.h"

typedef struct CpuPlan
{
	int			n_threads;
	bool		pinned;
	int			cpus[CPULIST_CPUS]; /* pinned: [n_threads] */
} CpuPlan;

/*
 * Plan the threads.  threads 0 = one for each CPU of the list, or without a list for each CPU that this
 * process can use.  Fails with ERR_INVALID for a malformed list, a CPU that is not allowed, or more
 * threads than CPUs in the list.
 */
bool		cpuplan_make(int threads, const char *affinity, CpuPlan *out, Err *e);
/*
 * Reduce the plan to the part of rank `rank` of `world`: an equal share of the threads, at least one,
 * and as many CPUs that no other rank uses.
 */
void		cpuplan_share(CpuPlan *p, int rank, int world);
/*
 * Return the kernels of that name (NULL, auto: the best that this CPU supports); NULL with *e set, which
 * lists the possible names.
 */
const Kernels *cpuplan_kernels(const char *isa, Err *e);
/* Start the plan's threads; NULL with *e set. */
KPool	   *cpuplan_pool(const CpuPlan *p, Err *e);

#endif
