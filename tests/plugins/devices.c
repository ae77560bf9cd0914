/*
 * devices.c
 *	  A library of devices that aren't there, for tests of what the engine makes of such: an H200, a T4, and
 *	  one too old to be used, as the driver would tell.
 *
 * CUDA_VISIBLE_DEVICES is read as CUDA does: a list of their numbers.  With -DOTHER_ABI it is a
 * library of another version.  Models can't be computed on it: it only answers questions, and refuses to open
 * any.
 */
#include <stdlib.h>
#include <string.h>

#include "device.h"

static const KDevInfo all[] = {
	{.name = "NVIDIA H200", .uuid = "GPU-00000000-0000-0000-0000-000000000001", .driver = "580.65", .cc = 90,
	 .sms = 132,
		.total = UINT64_C(150754820096), .free = UINT64_C(150000000000), .usable = true},
	{.name = "Tesla T4", .uuid = "GPU-00000000-0000-0000-0000-000000000002", .driver = "580.65", .cc = 75,
	 .sms = 40,
		.total = UINT64_C(15828320256), .usable = true},
	{.name = "Tesla P100", .driver = "580.65", .cc = 60, .sms = 56, .total = UINT64_C(17066885120),
		.why = "compute capability 6.0 is below 7.5"},
};

#define N_ALL	((int) (sizeof(all) / sizeof(all[0])))

/* The i-th that is visible, -1: there are not so many. */
static int
visible(int i)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");

	if (list == NULL)
		return i < N_ALL ? i : -1;
	for (; *list >= '0' && *list < '0' + N_ALL; list += list[1] == ',' ? 2 : 1)
		if (i-- == 0)
			return *list - '0';
	return -1;
}

static int
count(char *why, size_t whylen)
{
	int			n = 0;

	while (visible(n) >= 0)
		n++;
	if (n == 0)
		strncpy(why, "none is visible", whylen);
	return n;
}

static bool
info(int ordinal, KDevInfo *out)
{
	int			at = visible(ordinal);

	if (at < 0)
		return false;
	*out = all[at];
	return true;
}

static KDevice *
refuse(int ordinal, const KHost *host, const KDevOpen *o, char *err, size_t errlen)
{
	(void) ordinal;
	(void) host;
	(void) o;
	strncpy(err, "it is only told of", errlen);
	return NULL;
}

static const Kernels *
none(KDevice *d, KType op_type)
{
	(void) d;
	(void) op_type;
	return NULL;
}

const KDeviceOps *
vllm_pg_device_ops(uint32_t abi)
{
	static const KDeviceOps ops = {.abi = KDEVICE_ABI, .count = count, .info = info, .open = refuse,
								   .kernels = none};

#ifdef OTHER_ABI
	return NULL;
#endif
	return abi == KDEVICE_ABI ? &ops : NULL;
}
