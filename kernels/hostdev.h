/*
 * hostdev.h
 *	  The CPUs as devices of device.h: devices that every machine has, to test the code that uses
 *	  devices.
 */
#ifndef VLLM_KERNELS_HOSTDEV_H
#define VLLM_KERNELS_HOSTDEV_H

#include "device.h"

/* Return "host" or "moat"; NULL: there is no such device. */
const KDeviceOps *kdevice_of_cpus(const char *name);

/* moat.c: "moat", which calls the functions of "host" */
const KDeviceOps *kdevice_moat(const KDeviceOps *cpus);

#endif
