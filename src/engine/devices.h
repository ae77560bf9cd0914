/*
 * devices.h
 *	  The devices besides the CPUs: which there are, and which one a model is computed on.
 *
 * They come from a library that the engine looks for (kernels/device.h): vllm_pg_cuda.so.  Any thread
 * may call what is here.
 */
#ifndef VLLM_ENGINE_DEVICES_H
#define VLLM_ENGINE_DEVICES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "engine/config.h"
#include "device.h"
#include "model/devmem.h"

#define DEVICES_LIBRARY "vllm_pg_cuda.so"

/*
 * Look for the library, vllm.device_library or beside the engine, unless it has been found; what becomes of it,
 * and the devices, are told in the log.
 */
void		devices_find(const char *library);
/* How many it has, usable or not; 0 without it. */
int			devices_n(void);
/* One of them, as it is now; what isn't known is 0 or empty. */
void		devices_info(int i, KDevInfo *out);
/* Can models be loaded on what vllm.device says?  Not yet on anything but the CPUs: "auto" means these. */
bool		devices_check(const Settings *s, Err *e);
/* ... and the device itself, for one model; *out NULL: CPUs.  It is closed behind all that uses it. */
bool		devices_open(const Settings *s, const KDevOpen *o, Dev **out, Err *e);
void		devices_close(Dev *dev);
/* Is it a value of vllm.device: auto, cpu, cuda, cuda:N, or a device of the CPUs (hostdev.h)?  *ordinal: N; -1 = any, -2 = not
 * a device of the library. */
bool		devices_parse(const char *name, int *ordinal);

#endif
