/*
 * system_memory.h
 *	  Memory that this process can still allocate, and memory that a process uses.
 */
#ifndef VLLM_BASE_MACHINE_SYSTEM_MEMORY_H
#define VLLM_BASE_MACHINE_SYSTEM_MEMORY_H

#include <stdint.h>

/*
 * Return the bytes that can be allocated without taking memory from another process: free memory, page
 * cache and swap, within the limits of the control groups; UINT64_MAX = unknown.  root: "" (in tests a
 * folder that stands for /).
 */
uint64_t	sysmem_available(const char *root);
/* Return the resident bytes of a process; 0 = unknown. */
int64_t		sysmem_of_process(int pid);

#endif
