/*
 * test_offload.c
 *	  The offload tier of a core: blocks that one core has computed are found by another one, in memory
 *	  and in files, if model, owner, salt and adapter are the same; what happens to them when a core
 *	  sleeps, drops its weights, or the disk is lost.
 *
 * test_prefix_cache.c and test_sim.c test blocks under random schedules, test_invariance_model.c the
 * bits of real models.
 */
#include "core/offload/offload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/blake2.h"
#include "base/clock.h"
#include "base/alloc.h"
#include "core/core_state.h"
#include "hostdev.h"
#include "ipc/control_protocol.h"

#include "tests/unit/check.h"
#include "tests/unit/core_util.h"
#include "tests/unit/fake_model.h"

#define PROMPT	100
#define FULL	96				/* tokens of a prompt that are in full blocks */

/*
 * Results of Python's hashlib.blake2b(data[:n], key=key[:k], digest_size=32), for bytes 0, 7, 14 ... and
 * a key of 0, 1, 2 ...
 */
static void
test_blake2(void)
{
	static const struct
	{
		size_t		k;
		size_t		n;
		const char *hex;
	}			cases[] = {
		{0, 0, "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8"},
		{0, 128, "14696d2a98d9f8a280da8b132b1045b345e1033759c6b02fcc4ee885c8ae7c37"},
		{0, 129, "3934215260b1039be9d9d2b073b059bcd50120c327a22af93eb4d98cf821c14c"},
		{32, 0, "4e51e7a913fc80137da52880fecca175bf81e117d5c68126dc2774033517ea0d"},
		{32, 100, "a9191ad045497530185c5bf59c70199321f0f26ad9bf6d2c9873a76aab33eba0"},
		{64, 1000, "98f39fd8d97044262657da17b02b900eae756ad10da44c41cb1ceccf7edd6691"},
	};
	uint8_t		key[BLAKE2_MAX_KEY];
	uint8_t		data[1000];

	for (size_t i = 0; i < sizeof(key); i++)
		key[i] = (uint8_t) i;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t) (i * 7);
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++)
		for (size_t piece = 1; piece < 300; piece += 61)
		{
			Blake2		b;
			uint8_t		sum[BLAKE2_BYTES];
			char		hex[2 * BLAKE2_BYTES + 1];

			blake2_begin(&b, key, cases[c].k);
			for (size_t at = 0; at < cases[c].n; at += piece)
				blake2_add(&b, data + at, cases[c].n - at < piece ? cases[c].n - at : piece);
			blake2_end(&b, sum);
			for (int i = 0; i < BLAKE2_BYTES; i++)
				snprintf(hex + 2 * i, 3, "%02x", sum[i]);
			CHECK(strcmp(hex, cases[c].hex) == 0, "key of %zu, %zu bytes in pieces of %zu: %s", cases[c].k,
				  cases[c].n, piece, hex);
		}
}

/* ---- cores ---- */

static KvTier *tier;
static uint64_t next_id = 1;
static Buf	expected;			/* output of the prompt without a tier */

static bool locked;				/* another store has the directory */

static KvTier *
a_tier(const char *dir)
{
	KvTierOptions o = {.memory_bytes = 1 << 20, .directory = dir, .disk_bytes = 1 << 24};
	Err			e = {0};
	KvTier	   *t = kvtier_open(&o, &e);
	KvTierStats st = {0};

	CHECK(t != NULL, "%s", e.msg);
	for (int i = 0; i < 5000 && dir != NULL && st.files != (locked ? KVF_LOCKED : KVF_READY); i++)
	{
		usleep(1000);
		kvtier_stats(t, &st);
	}
	return t;
}

/* Make a core named by this number, with `blocks` blocks. */
static Core *
a_core(int id, int blocks)
{
	CoreOptions o = options(4, 64, blocks);

	o.prefix_caching = true;
	o.kv_tier = tier;
	o.kv_id[0] = (unsigned char) id;
	o.kv_always = true;
	return core_for_grammars(fake_model(512), tiny_tok(), o);
}

typedef struct Request
{
	uint32_t	seed;			/* of the prompt */
	uint64_t	owner;
	const char *salt;
	const LoraAdapter *lora;
	void		(*meanwhile) (Core *c);	/* called after its first step */
} Request;

/* Run a request; returns how many of its tokens were found. */
static int
issue(Core *c, Request a)
{
	ReqSpec		spec = {.id = next_id++, .prompt = random_prompt(a.seed, PROMPT), .sink = rec_sink,
						.owner = a.owner, .lora = a.lora};
	Rec			rec = {0};
	int			cached;
	Err			e = {0};

	spec.sink_ctx = &rec;
	spec.params = greedy_params(5);
	if (a.salt != NULL)
		spec.params.cache_salt = mem_strdup(a.salt);
	CHECK(core_normalize(c, &spec.params, ~0u, &spec.prompt, &e), "%s", e.msg);
	core_submit(c, &spec);
	if (a.meanwhile != NULL)
	{
		core_step(c);
		a.meanwhile(c);
	}
	while (core_has_work(c))
		core_step(c);
	CHECK(core_check(c, &e), "%s", e.msg);
	CHECK(rec.finish == FIN_LENGTH, "it ends with %d %s", rec.finish, rec.err.msg);
	if (a.seed == 1 && a.lora == NULL)
	{
		if (expected.len == 0)
			buf_add(&expected, rec.ids.data, rec.ids.len * sizeof(int32_t));
		CHECK(rec.ids.len * sizeof(int32_t) == expected.len &&
			  memcmp(rec.ids.data, expected.data, expected.len) == 0, "another answer");
	}
	cached = rec.cached;
	rec_free(&rec);
	return cached;
}

static void
expect(Core *c, Request a, int tokens, const char *what)
{
	int			n = issue(c, a);

	CHECK(n == tokens, "%s: %d tokens were found, not %d", what, n, tokens);
}

/* Blocks in the store belong to their owner. */
static void
test_names(void)
{
	LoraAdapter one = {.id = 1, .content = "a"};
	LoraAdapter again = {.id = 2, .content = "a"};
	LoraAdapter other = {.id = 1, .content = "b"};
	LoraAdapter unknown = {.id = 1};
	const Request requests[] = {{.seed = 1}, {.seed = 1, .owner = 7}, {.seed = 1, .salt = "s"},
								{.seed = 1, .lora = &one}, {.seed = 1, .lora = &unknown}};
	Core	   *c;

	tier = a_tier(NULL);
	c = a_core(1, 100);
	for (int i = 0; i < 5; i++)
		expect(c, requests[i], 0, "nobody has asked");
	core_free(c);
	c = a_core(1, 100);
	expect(c, requests[0], FULL, "another core of the same model");
	expect(c, requests[1], FULL, "... of the same owner");
	expect(c, requests[2], FULL, "... of the same salt");
	expect(c, requests[3], FULL, "... with the same adapter");
	expect(c, requests[4], 0, "an adapter of which nobody knows what is in it");
	expect(c, (Request) {.seed = 1, .lora = &other}, 0, "another adapter");
	expect(c, (Request) {.seed = 1, .lora = &again}, PROMPT - 1,
		   "the adapter under another number, which the pool knows by now");
	expect(c, (Request) {.seed = 1, .owner = 8}, 0, "another owner");
	expect(c, (Request) {.seed = 1, .salt = "t"}, 0, "another salt");
	core_free(c);
	c = a_core(2, 100);
	expect(c, requests[0], 0, "another model");
	core_free(c);
	kvtier_close(tier);
}

/* A core that sleeps, drops its weights, gets other weights. */
static void
test_rest(void)
{
	Core	   *c;
	Core	   *from;
	CoreStats	st;
	Err			e = {0};

	tier = a_tier(NULL);
	c = a_core(1, 100);
	expect(c, (Request) {.seed = 1}, 0, "at first");
	core_suspend(c, true);
	core_resume(c, &(Err) {0});
	expect(c, (Request) {.seed = 1}, FULL, "behind a rest");
	core_stats(c, &st);
	CHECK(st.prefix_hits == 0 && st.external_hits == FULL && st.external_queries >= FULL &&
		  st.offload_back_bytes > 0 && st.mem_offload > 0, "%d of %d tokens, %d bytes of %d",
		  (int) st.external_hits, (int) st.external_queries, (int) st.offload_back_bytes,
		  (int) st.mem_offload);
	core_reset_prefix_cache(c);
	expect(c, (Request) {.seed = 1}, 0, "behind a reset");
	/* the same weights, and then others */
	core_suspend(c, true);
	from = a_core(1, 100);
	CHECK(core_swap_weights(c, from, &e), "%s", e.msg);
	core_free(from);
	core_resume(c, &(Err) {0});
	expect(c, (Request) {.seed = 1}, FULL, "with its weights");
	core_suspend(c, true);
	from = a_core(2, 100);
	CHECK(core_swap_weights(c, from, &e), "%s", e.msg);
	core_free(from);
	core_resume(c, &(Err) {0});
	expect(c, (Request) {.seed = 1}, 0, "with other weights");
	expect(c, (Request) {.seed = 1}, PROMPT - 1, "... of which the pool is the memory");
	core_suspend(c, true);
	core_resume(c, &(Err) {0});
	expect(c, (Request) {.seed = 1}, 0, "... and it alone");
	core_free(c);
	kvtier_close(tier);
}

/* Make steps without work, as long as they are due. */
static void
be_idle(Core *c)
{
	for (int i = 0; i < 20000 && core_next_due(c) != INT64_MAX; i++)
	{
		int64_t		wait = core_next_due(c) - clock_us();

		if (wait > 0)
			usleep((useconds_t) wait);
		core_step(c);
	}
	CHECK(core_next_due(c) == INT64_MAX, "it is never idle");
}

/* No request waits for files that another process has. */
static void
test_locked(const char *dir)
{
	KvTier	   *first = a_tier(dir);
	Core	   *c;

	locked = true;
	tier = a_tier(dir);
	c = a_core(1, 100);
	expect(c, (Request) {.seed = 1}, 0, "at first");
	be_idle(c);
	core_suspend(c, true);
	core_resume(c, &(Err) {0});
	expect(c, (Request) {.seed = 1}, FULL, "from memory");
	core_free(c);
	kvtier_close(tier);
	kvtier_close(first);
	locked = false;
}

/* The store writes its blocks when idle; another process finds them. */
static void
test_idle(const char *dir)
{
	KvTierStats st;
	Core	   *c;

	tier = a_tier(dir);
	c = a_core(1, 100);
	expect(c, (Request) {.seed = 1}, 0, "at first");
	be_idle(c);
	kvtier_stats(tier, &st);
	CHECK(st.file_entries == FULL / 16 && st.unwritten == 0, "%d files, %d are missing",
		  (int) st.file_entries, (int) st.unwritten);
	core_free(c);
	kvtier_close(tier);
	tier = a_tier(dir);
	c = a_core(1, 100);
	expect(c, (Request) {.seed = 1}, FULL, "from files");
	/* the disk is lost while a request reads from it */
	for (uint32_t k = 2; k < 6; k++)
		expect(c, (Request) {.seed = k}, 0, "others");
	core_suspend(c, true);
	core_resume(c, &(Err) {0});
	kvtier_flush(tier, clock_us() + 5000000);
	kvtier_shed(tier, NULL);
	for (uint32_t k = 1; k < 6; k++)
	{
		if (k == 3)
		{
			char		cmd[64];

			snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
			CHECK(system(cmd) == 0, "%s", cmd);
		}
		expect(c, (Request) {.seed = k}, k < 3 ? FULL : 0, k < 3 ? "the disk is there" : "the disk is gone");
	}
	core_free(c);
	kvtier_close(tier);
}

static bool waited;				/* reads or writes were in progress when it happened */

static void
forget_meanwhile(Core *c)
{
	waited = offload_n_waiting(c->offload) > 0;
	core_reset_prefix_cache(c);
}

static void
rest_meanwhile(Core *c)
{
	KvTierStats st;

	waited = offload_n_waiting(c->offload) > 0;
	core_suspend(c, true);
	kvtier_flush(tier, clock_us() + 5000000);
	kvtier_shed(tier, NULL);
	kvtier_stats(tier, &st);
	/* one may be being read */
	CHECK(st.memory_entries <= 1, "%d blocks are in memory", (int) st.memory_entries);
	core_resume(c, &(Err) {0});
}

/* A core sleeps, or drops its weights, while blocks are read for a request that waits for them. */
static void
test_on_the_way(const char *dir)
{
	char		cmd[64];
	Core	   *c;
	int			n;

	tier = a_tier(dir);
	c = a_core(3, 100);
	expect(c, (Request) {.seed = 1}, 0, "at first");
	core_suspend(c, true);
	core_resume(c, &(Err) {0});
	kvtier_flush(tier, clock_us() + 5000000);
	kvtier_shed(tier, NULL);
	expect(c, (Request) {.seed = 1, .meanwhile = rest_meanwhile}, FULL, "behind a rest");
	core_suspend(c, true);
	core_resume(c, &(Err) {0});
	kvtier_flush(tier, clock_us() + 5000000);
	kvtier_shed(tier, NULL);
	n = issue(c, (Request) {.seed = 1, .meanwhile = forget_meanwhile});
	CHECK(!waited || n == 0, "%d tokens of before a reset came back", n);
	core_free(c);
	kvtier_close(tier);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	CHECK(system(cmd) == 0, "%s", cmd);
}

/* ---- on a device ---- */

#define OVERLAP_SEEDS	6
#define OVERLAP_AT_ONCE	4

static KDeviceOps slow;			/* a device whose copies take effect only after a step has begun */
static bool in_step;
static int	looks;				/* polls in vain since the last step */
static bool hung;				/* a thread waits for a copy there */
static uint64_t in_steps;		/* blocks that got into the store while steps were running */

static bool
slow_event_done(KDevice *d, KEvent e)
{
	if (!in_step && !hung && ++looks < 10000)
		return false;
	hung = hung || !in_step;
	return kdevice_of_cpus("host")->event_done(d, e);
}

static bool
slow_step_done(KDevice *d)
{
	(void) d;
	return !in_step;
}

/* Does what a model does while it waits for a device. */
static void
slow_forward(const Batch *b)
{
	KvTierStats before;
	KvTierStats st;

	kvtier_stats(tier, &before);
	in_step = true;
	looks = 0;
	/* a copy is done when it has been polled twice */
	for (int i = 0; i < 100 && b->work != NULL; i++)
		(void) b->work(b->wait_ctx);
	in_step = false;
	kvtier_stats(tier, &st);
	in_steps += st.n_put - before.n_put;
}

/* Run requests for these prompts at once, and compare with the earlier outputs. */
static void
issue_all(Core *c, const int *seeds, int n, Rec answers[OVERLAP_SEEDS])
{
	Rec			recs[OVERLAP_AT_ONCE] = {0};
	Err			e = {0};

	for (int i = 0; i < n; i++)
	{
		ReqSpec		spec = {.id = next_id++, .sink = rec_sink, .sink_ctx = &recs[i]};

		/*
		 * for every second one only a part of the last block is needed, so it is copied after it has
		 * been restored
		 */
		spec.prompt = random_prompt((uint32_t) seeds[i] + 1, seeds[i] % 2 == 0 ? PROMPT : FULL);
		spec.params = greedy_params(5);
		CHECK(core_normalize(c, &spec.params, ~0u, &spec.prompt, &e), "%s", e.msg);
		core_submit(c, &spec);
	}
	while (core_has_work(c))
		core_step(c);
	CHECK(core_check(c, &e), "%s", e.msg);
	for (int i = 0; i < n; i++)
	{
		Rec		   *first = &answers[seeds[i]];

		CHECK(recs[i].finish == FIN_LENGTH, "it ends with %d %s", recs[i].finish, recs[i].err.msg);
		if (first->ids.len == 0)
		{
			*first = recs[i];
			continue;
		}
		CHECK(recs[i].ids.len == first->ids.len && memcmp(recs[i].ids.data, first->ids.data,
														  first->ids.len * sizeof(int32_t)) == 0,
			  "prompt %d has another answer", seeds[i]);
		rec_free(&recs[i]);
	}
}

/*
 * Only steps wait for copies, on the device: the copies that a step needs arrive while it runs, and
 * copied-out blocks are in the store then.  The pool has space for two prompts and a bit, so some
 * requests take the blocks of others, which are restored at the same time.
 */
static void
test_overlap(void)
{
	KHost		host = {.abi = KDEVICE_ABI, .pool_device = kpool_device, .pool_threads = kpool_nthreads};
	KDevOpen	open = {.max_rows = 1, .max_seqs = 1, .max_blocks = 1, .max_out = 1};
	Dev			dev = {.ops = &slow};
	Rec			answers[OVERLAP_SEEDS] = {0};
	uint32_t	x = 1;
	char		why[128];
	Core	   *c;
	CoreOptions o = options(4, 64, 17);
	CoreStats	st;

	slow = *kdevice_of_cpus("host");
	dev.d = slow.open(0, &host, &open, why, sizeof(why));
	dev.k = slow.kernels(dev.d, KT_F32);
	slow.event_done = slow_event_done;
	slow.step_done = slow_step_done;
	tier = a_tier(NULL);
	o.prefix_caching = true;
	o.kv_tier = tier;
	o.kv_always = true;
	o.dev = &dev;
	c = core_for_grammars(fake_model(512), tiny_tok(), o);
	fake.forward = slow_forward;
	for (int i = 0; i < OVERLAP_SEEDS; i++)
		issue_all(c, &i, 1, answers);
	for (int round = 0; round < 300; round++)
	{
		int			seeds[OVERLAP_AT_ONCE];

		for (int i = 0; i < OVERLAP_AT_ONCE; i++)
		{
			x = x * 1664525 + 1013904223;
			seeds[i] = (int) (x >> 16) % OVERLAP_SEEDS;
		}
		issue_all(c, seeds, 1 + round % OVERLAP_AT_ONCE, answers);
	}
	core_stats(c, &st);
	CHECK(!hung, "somebody has waited for a copy before a step");
	CHECK(in_steps > 0, "nothing has gone out while a step was running");
	CHECK(st.external_hits > 100 * FULL && st.offload_out_bytes > 0 && fake.bad_slots == 0,
		  "%d tokens came back, %d slots are wrong", (int) st.external_hits, fake.bad_slots);
	fake.forward = NULL;
	in_step = true;				/* when idle the core waits for it */
	core_free(c);
	for (int i = 0; i < OVERLAP_SEEDS; i++)
		rec_free(&answers[i]);
	kvtier_close(tier);
	slow.close(dev.d);
}

static bool
lost_wait(KDevice *d, char *err, size_t errlen)
{
	(void) d;
	snprintf(err, errlen, "it has fallen off the bus");
	return false;
}

/*
 * A block is being copied from a device when the device is lost: the process ends, and the block is not
 * kept.
 */
static void
test_lost(void)
{
	KDeviceOps	ops = *kdevice_of_cpus("host");
	KHost		host = {.abi = KDEVICE_ABI, .pool_device = kpool_device, .pool_threads = kpool_nthreads};
	KDevOpen	open = {.max_rows = 1, .max_seqs = 1, .max_blocks = 1, .max_out = 1};
	Dev			dev = {.ops = &ops};
	unsigned char key[KVTIER_KEY] = {1};
	char		why[128];
	uint8_t		mem[128] = {0};
	KvView		kv = {.base = mem, .block_stride = 64, .n_blocks = 2};
	const KvView *areas[OFFLOAD_AREAS] = {&kv};
	KvTierModel *m;
	OffCopy    *o;
	Err			e = {0};
	int			status = 0;
	pid_t		child;

	dev.d = ops.open(0, &host, &open, why, sizeof(why));
	tier = a_tier(NULL);
	m = kvtier_join(tier, key, 64, &e);
	o = offcopy_new(&dev, tier, areas, 0, &e);
	CHECK(m != NULL && o != NULL, "%s", e.msg);
	offcopy_out(o, 1, kvtier_put(tier, m, key));
	child = fork();
	if (child == 0)
	{
		ops.wait = lost_wait;
		offcopy_settle(o);
		_exit(77);
	}
	waitpid(child, &status, 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == ENGINE_EXIT_FATAL,
		  "what a lost device has left was kept: status %d", status);
	offcopy_settle(o);
	CHECK(kvtier_find(tier, m, key) == KVT_MEMORY, "... and of one that isn't lost it is");
	offcopy_free(o);
	kvtier_leave(tier, m);
	kvtier_close(tier);
	ops.close(dev.d);
}

int
main(void)
{
	char		dir[] = "/tmp/vllm_offload.XXXXXX";
	Core	   *c;

	fake.no_state = true;
	RUN(test_blake2());
	c = a_core(0, 100);
	expect(c, (Request) {.seed = 1}, 0, "without a tier");
	core_free(c);
	RUN(test_names());
	RUN(test_rest());
	RUN(test_overlap());
	RUN(test_lost());
	if (mkdtemp(dir) == NULL)
		return 2;
	RUN(test_locked(dir));
	RUN(test_idle(dir));
	RUN(test_on_the_way(dir));
	buf_free(&expected);
	return check_done("offload");
}
