/*
 * devices.h
 *	  Devices other than the CPUs: which the machine has, and which one computes a model.
 *
 * A library that the engine looks for provides them (kernels/device.h): vllm_pg_cuda.so.  Any thread may
 * call these functions.
 */
#ifndef VLLM_RUNTIME_DEVICES_H
#define VLLM_RUNTIME_DEVICES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/blake2.h"
#include "base/err.h"
#include "runtime/engine_settings.h"
#include "device.h"
#include "model/weights/device_arena.h"

#define DEVICES_LIBRARY "vllm_pg_cuda.so"

/* Return the number of devices, usable or not; 0 without the library. */
int			devices_n(void);
/* Get the facts of a device as they were when it was found; unknown values are 0 or empty. */
void		devices_info(int i, KDevInfo *out);
/*
 * Get the device memory that models hold, and the memory that was free when a model last allocated or
 * freed some.  Returns false if no model is on the device.
 */
bool		devices_memory(int i, uint64_t *free_bytes, uint64_t *held);

/* The device that vllm.device selects. */
typedef struct DeviceChoice
{
	const KDeviceOps *ops;		/* NULL: the CPUs */
	int			ordinal;
	uint64_t	memory;				/* bytes; 0 = the host's */
	bool		if_it_can;		/* "auto": a model that the device can't compute falls back to the CPUs */
	char		name[96];		/* name for the log and errors: "cuda:0" (NVIDIA H200) */
	char		why[256];		/* auto, and no device was chosen: why not */
} DeviceChoice;

/*
 * Choose the device of a rank out of `ranks`: the rank's element of a list, or the rank-th usable
 * device.  Replicas use other devices of the same kind in turn if there are any (of a list the elements
 * after those of the replicas before), else the same devices.  All ranks share a device that the CPUs
 * emulate.  Returns false with *e set if a named device does not exist or is not usable, or if there are
 * fewer devices than ranks.
 */
bool		devices_choose(const Settings *s, int replica, int rank, int ranks, DeviceChoice *out, Err *e);
/*
 * Open the device for a model whose weights are mostly of this type; *out = NULL for the CPUs.  The
 * device is closed when its last reference is dropped (dev_ref()).  Operands have the weights' type if
 * that is F32, F16 or BF16, else BF16; if the device lacks ops for it, the next of BF16, F16, F32 that
 * it has.
 */
bool		devices_open(const DeviceChoice *c, const KDevOpen *o, KType weights, Dev **out, Err *e);
void		devices_close(Dev *dev);
/*
 * Return the op table whose mat_bytes and scratch say how much memory a model will take, before the
 * device is opened: the device's, or `cpus` for CPUs.
 */
const Kernels *devices_sizes(const DeviceChoice *c, const Kernels *cpus);
/* Log why the CPUs were chosen, once until the reason changes. */
void		devices_log_why(const DeviceChoice *c);
/*
 * Hash what decides the bits that a model computes on the chosen device: the device's kind, the
 * library's code and the kernel variant.  Adds nothing for CPUs.
 */
void		devices_hash(const DeviceChoice *c, const KDevOpen *o, Blake2 *b);
/*
 * A device is lost with all results that it was computing: end the process, so that the supervisor
 * starts a new engine.
 */
void		devices_lost(const char *why) __attribute__((noreturn));
/* Parse vllm.cuda_kernels: auto, mma or wgmma. */
bool		devices_variant(const char *name, KVariant *out);
/*
 * Parse a value of vllm.device: auto, cpu, cuda, cuda:N, a comma-separated list of cuda:N, or a device
 * that the CPUs emulate (hostdev.h).  Returns false if it is none of these.  *ordinal: N, from a list
 * the rank's; -1 = any, -2 = not a device of the library.  *listed: the number of devices in the list.
 */
bool		devices_parse(const char *name, int rank, int *ordinal, int *listed);

#endif
