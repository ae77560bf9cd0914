/*
 * on_device.h
 *	  Included before a test of the core (-include): its cores have the device "host", which is the CPUs
 *	  but restricts the engine to what a device allows, and which samples and pools (sample_op.h,
 *	  pool_op.h).  The rest of the test is unchanged, which proves that the results are the same.
 */
#ifndef VLLM_TESTS_ON_DEVICE_H
#define VLLM_TESTS_ON_DEVICE_H

#include <stdio.h>
#include <stdlib.h>

#include "core/core.h"
#include "hostdev.h"
#include "pool.h"
#include "tests/unit/pool_op.h"
#include "tests/unit/sample_op.h"

/* One device for all: its only state is pending copies. */
static inline const Dev *
test_device(void)
{
	static Dev	dev;
	static Kernels table;
	static const KHost host = {.abi = KDEVICE_ABI, .pool_device = kpool_device,
							   .pool_threads = kpool_nthreads};
	char		why[128];

	if (dev.d != NULL)
		return &dev;
	dev.ops = kdevice_of_cpus("host");
	dev.d = dev.ops->open(0, &host, &(KDevOpen) {.max_rows = 1, .max_seqs = 1, .max_blocks = 1, .max_out = 1},
						  why, sizeof(why));
	if (dev.d == NULL)
	{
		fprintf(stderr, "open: %s\n", why);
		exit(2);
	}
	table = *with_sample_op(dev.ops->kernels(dev.d, KT_F32));
	table.pool_rows = pool_op;
	dev.k = &table;
	return &dev;
}

static inline Core *
core_new_on_device(Model *m, Tok *t, const Conf *conf, const CoreOptions *opt, Err *e)
{
	CoreOptions o = *opt;

	if (o.dev == NULL)
		o.dev = test_device();
	return core_new(m, t, conf, &o, e);
}

#define core_new core_new_on_device

#endif
