/*
 * device_ops.h
 *	  Opens the device library of programs that compute with models: the emulated one of
 *	  tests/emu/module.mk, the real one of tests/gpu/module.mk, or --lib FILE.
 */
#ifndef VLLM_TESTS_EMU_DEVICE_OPS_H
#define VLLM_TESTS_EMU_DEVICE_OPS_H

#include <dlfcn.h>
#include <string.h>

#include "device.h"
#include "tests/unit/check.h"

static const KHost host = {.abi = KDEVICE_ABI, .pool_device = kpool_device, .pool_threads = kpool_nthreads};

/*
 * *first: index of the first argument after it.  Returns NULL, counted as a failure, if there is no such
 * library.
 */
static inline const KDeviceOps *
open_device_ops(int argc, char **argv, int *first)
{
	bool		other = argc > 2 && strcmp(argv[1], "--lib") == 0;
	void	   *lib = dlopen(other ? argv[2] : DEVICE_LIB, RTLD_NOW | RTLD_LOCAL);
	const KDeviceOps *(*get) (uint32_t) = lib != NULL ? (const KDeviceOps *(*) (uint32_t)) dlsym(lib,
			"vllm_pg_device_ops") : NULL;

	*first = other ? 3 : 1;
	CHECK(get != NULL, "%s", dlerror());
	if (get == NULL)
		return NULL;
	CHECK(get(KDEVICE_ABI + 1) == NULL, "another version has a device, too");
	return get(KDEVICE_ABI);
}

#endif
