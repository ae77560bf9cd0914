/*
 * hostdev.h
 *	  The CPUs in a device's dress: devices that every machine has, for tests of what uses one.
 */
#ifndef VLLM_KERNELS_HOSTDEV_H
#define VLLM_KERNELS_HOSTDEV_H

#include "device.h"

/* "host"; NULL: there is no such device. */
const KDeviceOps *kdevice_of_cpus(const char *name);

#endif
