/*
 * test_device_arena.c
 *	  Memory that ops can access, on the CPUs and on a device; and that the device "host" detects
 *	  violations of device.h.
 */
#include "model/weights/device_arena.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "hostdev.h"
#include "pool.h"

#include "tests/unit/check.h"

#define N	1000

static Dev
open_host(void)
{
	KHost		host = {.abi = KDEVICE_ABI, .pool_device = kpool_device, .pool_threads = kpool_nthreads};
	KDevOpen	o = {.max_rows = 8, .max_seqs = 4, .max_blocks = 4, .max_out = 4, .invariant = true};
	char		err[128] = "";
	Dev			dev = {.ops = kdevice_of_cpus("host")};

	CHECK(dev.ops != NULL && kdevice_of_cpus("tpu") == NULL, "by name");
	CHECK(dev.ops->open(1, &host, &o, err, sizeof(err)) == NULL && err[0] != '\0', "there is but one");
	dev.d = dev.ops->open(0, &host, &o, err, sizeof(err));
	CHECK(dev.d != NULL, "%s", err);
	CHECK(dev.ops->kernels(dev.d, KT_F32) == kernels_select(NULL, NULL), "its ops are the CPU's");
	CHECK(dev.ops->kernels(dev.d, KT_BF16) == NULL, "... with operands of floats");
	return dev;
}

static void
test_rows(const Dev *dev)
{
	HostDev		h;
	Err			e;

	CHECK(hostdev_new(&h, dev, N, "rows", &e), "rows");
	CHECK((h.dev == h.host) == (dev == NULL), "a mirror on a device");
	for (int round = 0; round < 2; round++)
	{
		for (int i = 0; i < N; i++)
			h.dev[i] = (float) (i + round);
		hostdev_get(&h, 10, 20);
		if (dev != NULL)
		{
			CHECK(isnan(h.host[10]), "not before it was waited for");
			h.dev[11] = -1;		/* the copy was requested before */
		}
		CHECK(dev_wait(dev, &e), "waited");
		for (int i = 10; i < 30; i++)
			CHECK(h.host[i] == (float) (i + round), "row %d: %g", i, (double) h.host[i]);
		CHECK(dev == NULL || h.host[30] != (float) (30 + round), "what wasn't asked for isn't there");
		hostdev_drop(&h);
		CHECK((h.dev == NULL) == (dev != NULL) && hostdev_back(&h, &e) && h.dev != NULL,
			  "given back and taken again");
	}
	hostdev_free(&h);
	CHECK(h.dev == NULL && h.host == NULL, "nothing is left");
}

static void
test_memory(const Dev *dev)
{
	DevMem		m;
	Err			e;
	unsigned char *p;

	CHECK(devmem_reserve(&m, dev, 5000, HUGE_OFF, "Some memory", &e) && m.base != NULL, "reserved");
	p = m.base;
	CHECK(((uintptr_t) p & 255) == 0, "aligned");
	CHECK(p[0] == (dev != NULL ? 0xff : 0), "zeros on CPUs, anything on a device");
	p[4999] = 1;
	devmem_drop(&m);
	CHECK(devmem_back(&m, &e) && m.base != NULL, "taken again");
	CHECK(((unsigned char *) m.base)[4999] != 1, "without what was there");
	devmem_free(&m);
	CHECK(m.base == NULL, "freed");
	memset(&e, 0, sizeof(e));
	CHECK(!devmem_reserve(&m, dev, SIZE_MAX / 2, HUGE_OFF, "Too much", &e) && e.cls == ERR_NOMEM,
		  "too much: %s", e.msg);
	devmem_free(&m);
}

/* Copies in parallel with ops. */
static void
test_beside(const Dev *dev)
{
	int			mem[4] = {1, 2, 3, 4};
	int			host[4] = {0};
	int			more[2] = {7, 8};
	KEvent		e;
	KEvent		e2;
	bool		early;

	e = dev->ops->kv_get(dev->d, host, mem, sizeof(mem));
	mem[1] = 5;					/* too early */
	dev->ops->kv_fence(dev->d);
	mem[0] = 9;
	early = dev->ops->event_done(dev->d, e);
	CHECK(!early && host[0] == -1, "not at the first look");
	while (!dev->ops->event_done(dev->d, e))
		;
	CHECK(host[0] == 1 && host[1] == 5 && host[3] == 4, "what was there at the fence: %d %d", host[0],
		  host[1]);
	mem[1] = 2;
	CHECK(dev->ops->event_done(dev->d, e) && dev->ops->event_done(dev->d, 0), "it stays done");

	e = dev->ops->kv_put(dev->d, mem, &more[0], sizeof(int));
	e2 = dev->ops->kv_put(dev->d, mem + 1, &more[1], sizeof(int));
	CHECK(mem[0] == 9 && mem[1] == 2, "a put waits");
	more[0] = 70;				/* it still belongs to the device */
	dev->ops->step_begin(dev->d, &(KStep) {0});
	CHECK(mem[0] == 70 && mem[1] == 8, "until the next step: %d %d", mem[0], mem[1]);
	CHECK(dev->ops->event_done(dev->d, e) && dev->ops->event_done(dev->d, e2), "both are done then");

	/* a step waits for puts and the operations before them, but not for gets */
	e = dev->ops->kv_get(dev->d, host, mem, sizeof(int));
	(void) dev->ops->kv_put(dev->d, mem, &more[1], sizeof(int));
	e2 = dev->ops->kv_get(dev->d, host + 1, mem + 1, sizeof(int));
	dev->ops->step_begin(dev->d, &(KStep) {0});
	mem[0] = mem[1] = 11;
	while (!dev->ops->event_done(dev->d, e) || !dev->ops->event_done(dev->d, e2))
		;
	CHECK(host[0] == 70 && host[1] == 11, "%d %d", host[0], host[1]);
	CHECK(dev->ops->graph(dev->d, &(KGraphKey) {.rows = 1}) == KRUN_EAGER, "no graphs");
}

static int64_t ready_us;

static bool
ready(KDevice *d)
{
	(void) d;
	return clock_us() >= ready_us;
}

static void
count_call(void *ctx)
{
	++*(int *) ctx;
}

/* Progress of a step is reported during all its waits, at regular intervals. */
static void
test_waiting(const Dev *dev)
{
	DevWait		w;
	int			n_calls = 0;

	dev_wait_begin(&w, count_call, NULL, &n_calls);
	dev_wait_until(dev, dev->ops->done, &w);
	CHECK(n_calls == 0, "what is there is not waited for");
	/* none of these waits is long enough for a report alone */
	for (int i = 0; i < 20; i++)
	{
		ready_us = clock_us() + 8000;
		dev_wait_until(dev, ready, &w);
	}
	CHECK(n_calls >= 4, "told %d times in 160 ms", n_calls);
	n_calls = 0;
	w.begun_us -= INT64_C(400000000);
	ready_us = clock_us() + 60000;
	dev_wait_until(dev, ready, &w);
	CHECK(n_calls == 0 && clock_us() >= ready_us, "a step that lasts for minutes hangs: nobody is told");
	dev_wait_begin(&w, NULL, NULL, NULL);
	ready_us = INT64_MAX;
	dev_wait_until(dev, ready, &w);
	dev_wait_until(dev, ready, NULL);
}

int
main(void)
{
	Dev			dev = open_host();

	RUN(test_rows(NULL));
	RUN(test_rows(&dev));
	RUN(test_memory(NULL));
	RUN(test_memory(&dev));
	RUN(test_beside(&dev));
	RUN(test_waiting(&dev));
	dev.ops->close(dev.d);
	return check_done("test_device_arena");
}
