/*
 * devices.h
 *	  The devices besides the CPUs: which there are, and which one a model is computed on.
 *
 * They come from a library that the engine looks for (kernels/device.h): vllm_pg_cuda.so.  Any thread
 * may call what is here.
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

/* How many it has, usable or not; 0 without it. */
int			devices_n(void);
/* One of them, as it was found; what isn't known is 0 or empty. */
void		devices_info(int i, KDevInfo *out);
/*
 * What models have of its memory, and what was free when one has last taken or given back some; false: no
 * model is on it.
 */
bool		devices_memory(int i, uint64_t *free_bytes, uint64_t *held);

/* What vllm.device comes to. */
typedef struct DeviceChoice
{
	const KDeviceOps *ops;		/* NULL: the CPUs */
	int			ordinal;
	uint64_t	memory;				/* bytes; 0 = the host's */
	bool		if_it_can;		/* "auto": a model that can't be computed there goes to the CPUs */
	char		name[96];		/* as the log and errors have it: "cuda:0" (NVIDIA H200) */
	char		why[256];		/* auto, and no device: why not */
} DeviceChoice;

/*
 * Of one of so many ranks: that of a list which is the rank's, or the rank's of those that can be used.
 * Replicas have others of the same kind, in turn, where there are such, and of a list those behind the ones
 * of the replicas before them, else the same.  Devices of the CPUs are everybody's.  False with *e set: a
 * device that is named isn't there, or can't be used, or there are fewer than ranks.
 */
bool		devices_choose(const Settings *s, int replica, int rank, int ranks, DeviceChoice *out, Err *e);
/*
 * The device, for one model whose weights are mostly of that type; *out NULL: CPUs.  It ends behind all that
 * has something of it (dev_ref()).  Operands are of the weights' type where that is one of F32, F16 and BF16,
 * else BF16; where the device has none such, the next of BF16, F16, F32.
 */
bool		devices_open(const DeviceChoice *c, const KDevOpen *o, KType weights, Dev **out, Err *e);
void		devices_close(Dev *dev);
/*
 * Whose mat_bytes and scratch tell what a model will take there, before it is opened: the device's, or of
 * CPUs `cpus`.
 */
const Kernels *devices_sizes(const DeviceChoice *c, const Kernels *cpus);
/* Why it is the CPUs, into the log: once, until the reason is another one. */
void		devices_tell_why(const DeviceChoice *c);
/*
 * What decides the bits that a model opened so computes there: the device's kind, the library's code, and
 * which of its kernels.  CPUs: nothing.
 */
void		devices_hash(const DeviceChoice *c, const KDevOpen *o, Blake2 *b);
/*
 * One is lost, and whatever it was to compute is gone: the process ends, so that the supervisor starts
 * another engine.
 */
void		devices_lost(const char *why) __attribute__((noreturn));
/* vllm.cuda_kernels: auto, mma or wgmma */
bool		devices_variant(const char *name, KVariant *out);
/*
 * Is it a value of vllm.device: auto, cpu, cuda, cuda:N, several of the last with commas, or a device of the
 * CPUs (hostdev.h)?
 * *ordinal: N, of a list the rank's; -1 = any, -2 = not a device of the library.  *listed: numbers that are
 * named.
 */
bool		devices_parse(const char *name, int rank, int *ordinal, int *listed);

#endif
