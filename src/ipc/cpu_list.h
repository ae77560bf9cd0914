/*
 * cpu_list.h
 *	  Lists of CPUs as users write them: vllm.cpu_affinity.
 *
 *		list  =  ""  |  "auto"  |  part { "," part }
 *		part  =  CPU  |  FIRST "-" LAST  |  FIRST "-" LAST ":" STEP
 *
 * The syntax of taskset --cpu-list.  Blanks around numbers are allowed; listing a CPU twice is not.  Both
 * sides use this: the server checks a value when it is set, the engine applies it.
 */
#ifndef VLLM_IPC_CPU_LIST_H
#define VLLM_IPC_CPU_LIST_H

#include <stddef.h>

#define CPULIST_CPUS	8192	/* CPU numbers are 0 .. 8191: the most that Linux can be built for */
#define CPULIST_LEN		512		/* longest text, including the NUL */

#define CPULIST_AUTO	(-1)
#define CPULIST_BAD		(-2)

/*
 * Fill cpus[CPULIST_CPUS] in the order of the list and return their number; 0 for "", CPULIST_AUTO for
 * "auto".  On CPULIST_BAD, why[] gets a sentence without its period.
 */
int			cpulist_parse(const char *s, int *cpus, char *why, size_t why_size);

#endif
