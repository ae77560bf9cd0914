/*
 * cpu_threads.h
 *	  From the settings cpu_threads and cpu_affinity to threads and their CPUs, and from
 *	  cpu_isa to their kernels.
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
 * threads 0 = one for each CPU of the list, or for each one that this process can
 * use.  ERR_INVALID for a malformed list, a CPU that is not allowed, or more
 * threads than CPUs in the list.
 */
bool		cpuplan_make(int threads, const char *affinity, CpuPlan *out, Err *e);
/*
 * What rank `rank` of `world` has of it: an equal share of threads, at least one, and of the CPUs as many
 * others.
 */
void		cpuplan_share(CpuPlan *p, int rank, int world);
/* The kernels of that name (NULL, auto: the best); NULL with *e set, which says what there is. */
const Kernels *cpuplan_kernels(const char *isa, Err *e);
/* Its threads; NULL with *e set. */
KPool	   *cpuplan_pool(const CpuPlan *p, Err *e);

#endif
