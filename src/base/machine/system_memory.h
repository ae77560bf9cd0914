/*
 * system_memory.h
 *	  What this process may still take of the machine's memory, and what processes have of it.
 */
#ifndef VLLM_BASE_MACHINE_SYSTEM_MEMORY_H
#define VLLM_BASE_MACHINE_SYSTEM_MEMORY_H

#include <stdint.h>

/*
 * Bytes that can be had without another process giving some back: free memory, pages of
 * files and swap, within the control groups' limits; UINT64_MAX = unknown.  root: ""
 * (tests: a folder that stands for /).
 */
uint64_t	sysmem_available(const char *root);
/* Resident bytes of a process; 0 = unknown. */
int64_t		sysmem_of_process(int pid);

#endif
