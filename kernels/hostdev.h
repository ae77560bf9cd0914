/*
 * hostdev.h
 *	  The CPUs in a device's dress: devices that every machine has, for tests of what uses one.
 */
#ifndef VLLM_KERNELS_HOSTDEV_H
#define VLLM_KERNELS_HOSTDEV_H

#include "device.h"

/* "host", or "moat"; NULL: there is no such device. */
const KDeviceOps *kdevice_of_cpus(const char *name);

/* moat.c: "moat", around what "host" does */
const KDeviceOps *kdevice_moat(const KDeviceOps *cpus);

#endif
