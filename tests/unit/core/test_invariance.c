/*
 * test_invariance.c
 *	  Promise 3 on the fake model, whose logits depend on every slot of the KV cache: finds faults of the
 *	  scheduler, the blocks and the sampler.  The same on real models: test_invariance_model.c.
 */
#include "tests/unit/core/invariance.h"

#include "tests/unit/fake_model.h"

static KPool *pools[3];

static Core *
make_fake(void *ctx, const CoreOptions *opt, int n_threads)
{
	CoreOptions o = *opt;
	Conf	   *conf = conf_new();
	Err			e = {0};
	Core	   *c;

	(void) ctx;
	o.pool = pools[n_threads];
	c = core_new(fake_model(256), tiny_tok(), conf, &o, &e);
	CHECK(c != NULL, "%s", e.msg);
	conf_free(conf);
	return c;
}

int
main(void)
{
	pools[1] = kpool_new(1);
	pools[2] = kpool_new(2);
	inv_check("fake model", make_fake, NULL);
	inv_check_rows("fake model", make_fake, NULL);
	fake.no_state = true;
	inv_check("fake model without state", make_fake, NULL);
	CHECK(fake.bad_slots == 0, "%d slots of other positions were read", fake.bad_slots);
	kpool_free(pools[1]);
	kpool_free(pools[2]);
	return check_done("invariance");
}
