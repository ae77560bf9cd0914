/*
 * test_dev.cu
 *	  kernels/cuda/dev.cu and graph.cu: staging, steps, copies in parallel with them, graphs, and the
 *	  state of a device after an error.
 *
 * Under emulation streams run late and in random order, so memory that is reused too early, or a missing
 * event, causes a wrong result.
 */
#include "emu_test.h"
#include "cuda/dev.h"

#include <pthread.h>
#include <vector>

#define ROWS	64
#define SEQS	8
#define BLOCKS	16				/* of a sequence */
#define BLOCK	16

static const KDeviceOps *ops;
static const KHost the_host = {KDEVICE_ABI, NULL, kpool_device, kpool_nthreads};

static KDevice *
open_device(char *err, size_t errlen)
{
	KDevOpen	o = {ROWS, SEQS, BLOCKS, ROWS, true, KVARIANT_AUTO, false};

	return ops->open(0, &the_host, &o, err, errlen);
}

static KDevice *
must_open(void)
{
	char		err[256] = "";
	KDevice    *d = open_device(err, sizeof(err));

	if (d == NULL)
	{
		fprintf(stderr, "open: %s\n", err);
		abort();
	}
	return d;
}

static bool
well(KDevice *d)
{
	char		err[256] = "";
	bool		ok = ops->wait(d, err, sizeof(err));

	if (!ok)
		fprintf(stderr, "%s\n", err);
	return ok;
}

__global__ void
copy_kernel(int32_t *to, const int32_t *from, int n, int add)
{
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		to[i] = from[i] + add;
}

static void
copy(KDevice *d, int32_t *to, const void *from, int n, int add = 0)
{
	LAUNCH(copy_kernel, 1, 64, 0, dev_stream(d), to, (const int32_t *) from, n, add);
}

/* ---- devices ---- */

static void
check_info(void)
{
	KDevInfo	i;
	char		err[256] = "";
	KHost		other = the_host;
	KDevOpen	o = {1, 1, 1, 1, true, KVARIANT_AUTO, false};

	CHECK(vllm_pg_device_ops(KDEVICE_ABI + 1) == NULL, "another ABI");
	CHECK(ops->abi == KDEVICE_ABI && ops->count(err, sizeof(err)) >= 1, "count: %s", err);
	CHECK(ops->info(0, &i) && i.cc >= 75 && i.sms > 0 && i.total > 0 && i.smem_block >= 65536 &&
		  strlen(i.uuid) == 40, "cc %d, %s", i.cc, i.uuid);
	CHECK(i.usable == (i.why[0] == '\0'), "why: %s", i.why);
	CHECK(!ops->info(99, &i) && !ops->info(-1, &i), "no such device");
	CHECK(ops->open(99, &the_host, &o, err, sizeof(err)) == NULL && strcmp(err, "there is no device 99") == 0,
		  "%s", err);
	other.abi++;
	CHECK(ops->open(0, &other, &o, err, sizeof(err)) == NULL && strstr(err, "another engine") != NULL, "%s",
		  err);
#ifndef __CUDACC__
	/* a machine without a device, with an old driver, without any driver */
	cemu_devices(0);
	CHECK(ops->count(err, sizeof(err)) == 0 && strcmp(err, "no CUDA-capable device is detected") == 0 &&
		  !ops->info(0, &i), "%s", err);
	cemu_devices(1);
	cemu_driver(12080);
	CHECK(ops->count(err, sizeof(err)) == 0 &&
		  strcmp(err, "the driver has CUDA 12.8, and 13.0 or later is needed") == 0, "%s", err);
	cemu_driver(0);
	CHECK(ops->count(err, sizeof(err)) == 0 && strcmp(err, "no NVIDIA driver is loaded") == 0, "%s", err);
	cemu_driver(13020);
	CHECK(ops->count(err, sizeof(err)) == 1, "a later driver");
	cemu_capability(7, 0);
	CHECK(open_device(err, sizeof(err)) == NULL && strstr(err, "7.0, and 7.5") != NULL, "%s", err);
	cemu_capability(7, 5);
	CHECK(ops->info(0, &i) && i.features == 0, "features %x of 7.5", i.features);
	cemu_capability(8, 9);
	CHECK(ops->info(0, &i) && i.features == (DEV_BF16 | DEV_FP8), "features %x of 8.9", i.features);
	o.variant = KVARIANT_WGMMA;
	CHECK(ops->open(0, &the_host, &o, err, sizeof(err)) == NULL &&
		  strstr(err, "has no wgmma: compute capability 8.9, and 9.0") != NULL, "%s", err);
	cemu_capability(9, 0);
	CHECK(ops->info(0, &i) && i.features == (DEV_BF16 | DEV_FP8 | DEV_WGMMA), "features %x of 9.0",
		  i.features);
#endif
}

/* ---- copies in the ops' order ---- */

/* More than both halves of the staging buffer; the source is overwritten at once. */
static void
check_put(void)
{
	const size_t n = (size_t) 20 << 20;
	KDevice    *d = must_open();
	std::vector<uint8_t> src(n);
	uint8_t    *p = (uint8_t *) ops->alloc(d, n, "test"),
			   *back = (uint8_t *) ops->pin(d, n);
	uint64_t	room,
				all;
	size_t		wrong = 0;

	ops->mem(d, &room, &all);
	CHECK(room < all && all > 0, "memory");
	CHECK(ops->alloc(d, (size_t) 1 << 46, "test") == NULL && well(d), "too much memory is no error");
	for (size_t i = 0; i < n; i++)
		src[i] = (uint8_t) (i * 7 + i / 4096);
	ops->put(d, p, src.data(), n);
	memset(src.data(), 1, n);
	ops->fill(d, p + 5, 0xab, 100);
	ops->get(d, back, p, n);
	CHECK(well(d), "lost");
	for (size_t i = 0; i < n; i++)
		wrong += back[i] != (i >= 5 && i < 105 ? 0xab : (uint8_t) (i * 7 + i / 4096));
	CHECK(wrong == 0, "%zu bytes are wrong", wrong);
	ops->free(d, p);
	ops->free(d, NULL);
	ops->unpin(d, back);
	CHECK(ops->pin_area(d, src.data(), n), "pin_area");
	ops->unpin_area(d, src.data());
	ops->close(d);
}

/* Arrays of ops: 1 to 3 MB each, changed as soon as the op has been called. */
static void
check_stage(void)
{
	const int	n = 24,
				most = 768 * 1024;
	KDevice    *d = must_open();
	std::vector<int32_t> src(most);
	int32_t    *all = (int32_t *) ops->alloc(d, (size_t) n * 1024 * 4, "test"),
			   *back = (int32_t *) ops->pin(d, (size_t) n * 1024 * 4);
	int			wrong = 0;

	for (int i = 0; i < n; i++)
	{
		int			len = most / (1 + i % 3);
		const int32_t *at;

		for (int j = 0; j < len; j++)
			src[j] = i * 1000003 + j;
		at = (const int32_t *) dev_array(d, src.data(), len * sizeof(int32_t));
		copy(d, all + i * 1024, at + len - 1024, 1024);
	}
	ops->get(d, back, all, (size_t) n * 1024 * 4);
	CHECK(well(d), "lost");
	for (int i = 0; i < n; i++)
		for (int j = 0; j < 1024; j++)
			wrong += back[i * 1024 + j] != i * 1000003 + most / (1 + i % 3) - 1024 + j;
	CHECK(wrong == 0, "%d integers are wrong", wrong);
	CHECK(dev_array(d, NULL, 4) == NULL && well(d), "NULL");
	/* Constants are found by their content. */
	src[0] = 1;
	const void *one = dev_const(d, src.data(), src.data(), 64),
			   *again = dev_const(d, src.data(), src.data(), 64);

	src[0] = 2;
	const void *two = dev_const(d, src.data(), src.data(), 64);

	copy(d, all, one, 1);
	copy(d, all + 1, two, 1);
	ops->get(d, back, all, 8);
	CHECK(well(d) && one == again && one != two && back[0] == 1 && back[1] == 2, "constants");
	/* until they are dropped, and no others with them */
	const void *other = dev_const(d, src.data() + 100, src.data(), 64);
	uint64_t	room[3],
				total;

	src[0] = 1;
	ops->mem(d, &room[0], &total);
	ops->forget(d, src.data(), 100 * sizeof(int32_t));
	ops->mem(d, &room[1], &total);
	one = dev_const(d, src.data(), src.data(), 64);
	ops->mem(d, &room[2], &total);
	copy(d, all, one, 1);
	ops->get(d, back, all, 4);
	src[0] = 2;
	CHECK(well(d) && back[0] == 1 && dev_const(d, src.data() + 100, src.data(), 64) == other,
		  "constants that were forgotten");
#ifndef __CUDACC__
	/* the driver allocates more at once */
	CHECK(room[1] > room[2] && room[2] > room[0], "room for %lld bytes, %lld, %lld", (long long) room[0],
		  (long long) room[1], (long long) room[2]);
#endif
	CHECK(dev_array(d, src.data(), (size_t) 9 << 20) == NULL && !ops->wait(d, (char *) back, 100) &&
		  strstr((char *) back, "larger than the stage") != NULL, "%s", (char *) back);
	ops->close(d);
	cudaFree(all);
	cudaFreeHost(back);
}

/* ---- steps ---- */

typedef struct World
{
	int			n_seqs;
	int32_t		tokens[ROWS],
				pos[ROWS],
				ends[ROWS],
				out_rows[ROWS],
				seq_start[SEQS + 1],
				slots[SEQS],
				blocks[SEQS][BLOCKS];
	const int32_t *table[SEQS];
	std::vector<int32_t> pages;
	KvView		kv;
	KRows		rows;
	KStep		step;
} World;

static void
world_make(World *w, int seed)
{
	w->n_seqs = 1 + seed % SEQS;
	w->seq_start[0] = 0;
	for (int s = 0; s < w->n_seqs; s++)
	{
		int			n = 1 + (int) (dice() % (ROWS / SEQS)),
					first = (int) (dice() % (BLOCKS * BLOCK - n));

		w->seq_start[s + 1] = w->seq_start[s] + n;
		for (int i = 0; i < n; i++)
			w->pos[w->seq_start[s] + i] = first + i;
		for (int i = 0; i < BLOCKS; i++)
			w->blocks[s][i] = (int32_t) (dice() % 1000);
		w->slots[s] = (int32_t) dice();
		w->table[s] = w->blocks[s];
	}
	for (int i = 0; i < ROWS; i++)
	{
		w->tokens[i] = (int32_t) dice();
		w->ends[i] = (int32_t) dice();
		w->out_rows[i] = (int32_t) dice();
	}
	w->pages.resize(2000);
	for (auto &p : w->pages)
		p = (int32_t) dice();
	w->kv = KvView{};
	w->kv.block_size = BLOCK;
	w->kv.n_parts = 2;
	w->kv.pages = w->pages.data();
	w->rows = KRows{};
	w->rows.n_rows = w->seq_start[w->n_seqs];
	w->rows.n_seqs = w->n_seqs;
	w->rows.seq_start = w->seq_start;
	w->rows.pos = w->pos;
	w->rows.block_table = w->table;
	w->rows.state_slot = w->slots;
	w->step = KStep{};
	w->step.rows = &w->rows;
	w->step.kv = &w->kv;
	w->step.tokens = w->tokens;
	w->step.ends = w->ends;
	w->step.out_rows = w->out_rows;
	w->step.n_out = w->rows.n_rows;
}

/* Write everything that an op may read about the rows, as one array of integers; it has space for 2000. */
static int
look(KDevice *d, const World *w, const KRows *r, int32_t *to, std::vector<int32_t> *want)
{
	int			n = r->n_rows,
				ld,
				row0;
	const int32_t *p;

	auto add = [&](const void *dev, int len, int off) {
		copy(d, to, dev, len, -off);
		to += len;
	};
	add(dev_array(d, w->tokens + r->row0, n * sizeof(int32_t)), n, 0);
	add(dev_array(d, r->pos, n * sizeof(int32_t)), n, 0);
	add(dev_array(d, w->ends + r->row0, n * sizeof(int32_t)), n, 0);
	add(dev_array(d, w->out_rows, w->step.n_out * sizeof(int32_t)), w->step.n_out, 0);
	want->insert(want->end(), w->tokens + r->row0, w->tokens + r->row0 + n);
	want->insert(want->end(), r->pos, r->pos + n);
	want->insert(want->end(), w->ends + r->row0, w->ends + r->row0 + n);
	want->insert(want->end(), w->out_rows, w->out_rows + w->step.n_out);
	p = dev_starts(d, r, &row0);
	add(p + 1, r->n_seqs, row0);
	want->insert(want->end(), r->seq_start + 1, r->seq_start + 1 + r->n_seqs);
	p = dev_blocks(d, r, BLOCK, &ld);
	for (int s = 0; s < r->n_seqs; s++)
	{
		int			blocks = r->pos[r->seq_start[s + 1] - 1] / BLOCK + 1;

		add(p + s * ld, blocks, 0);
		want->insert(want->end(), r->block_table[s], r->block_table[s] + blocks);
		if (w->kv.pages == NULL)
			continue;
		add(dev_pages(d, &w->kv, r) + 2 * r->block_table[s][0], 2, 0);
		want->push_back(w->pages[2 * r->block_table[s][0]]);
		want->push_back(w->pages[2 * r->block_table[s][0] + 1]);
	}
	return (int) want->size();
}

static void
check_steps(void)
{
	const int	room = 2000,
				n_steps = 8;
	KDevice    *d = must_open();
	int32_t    *dev = (int32_t *) ops->alloc(d, n_steps * room * 4, "test"),
			   *back = (int32_t *) ops->pin(d, n_steps * room * 4);
	std::vector<int32_t> want[n_steps];
	char		err[256];
	int			wrong = 0;
	static World w;

	for (int i = 0; i < n_steps; i++)
	{
		KRows		part;
		int32_t		start[2] = {0, 1};
		int			n;

		world_make(&w, i * 3);
		if (i < 3)
			w.kv.pages = NULL;	/* whose changes wait for everything that runs */
		part = w.rows;
		/* 3 to 5: a map that changes each time; 6, 7: without a step */
		if (i < 6)
			ops->step_begin(d, &w.step);
		n = look(d, &w, &w.rows, dev + i * room, &want[i]);
		/* the last row, as a part of the step */
		part.n_rows = part.n_seqs = 1;
		part.seq0 = w.n_seqs - 1;
		part.row0 = w.rows.n_rows - 1;
		part.pos += part.row0;
		part.block_table += part.seq0;
		part.seq_start = start;
		look(d, &w, &part, dev + i * room + n, &want[i]);
		ops->step_flush(d);
	}
	CHECK(ops->step_end(d, err, sizeof(err)), "%s", err);
	ops->get(d, back, dev, n_steps * room * 4);
	CHECK(well(d), "lost");
	for (int i = 0; i < n_steps; i++)
		for (size_t j = 0; j < want[i].size(); j++)
			wrong += back[i * room + j] != want[i][j];
	CHECK(wrong == 0, "%d integers are wrong", wrong);
	/* more rows than it was opened for */
	w.rows.n_rows = ROWS + 1;
	ops->step_begin(d, &w.step);
	CHECK(!ops->step_end(d, err, sizeof(err)) && strstr(err, "more rows") != NULL, "%s", err);
	ops->close(d);
	cudaFree(dev);
	cudaFreeHost(back);
}

/*
 * A table is copied with the width of the contexts, in steps of the kinds that graphs have, and is still
 * each sequence's own.
 */
static void
check_widths(void)
{
	static const struct
	{
		int			pos;
		int			ld;
	}			longest[] = {{0, 32}, {511, 32}, {512, 64}, {1023, 64}, {1024, 128}, {2900, 182}};
	const int	blocks = 182;
	KDevOpen	o = {ROWS, SEQS, blocks, ROWS, true, KVARIANT_AUTO, false};
	char		err[256] = "";
	KDevice    *d = ops->open(0, &the_host, &o, err, sizeof(err));
	int32_t    *dev = (int32_t *) ops->alloc(d, SEQS * 4, "test"),
			   *back = (int32_t *) ops->pin(d, SEQS * 4);
	std::vector<int32_t> table(SEQS * blocks);
	static World w;

	world_make(&w, 0);
	w.kv.pages = NULL;
	w.n_seqs = w.rows.n_seqs = w.rows.n_rows = SEQS;
	w.step.n_out = 0;
	for (int s = 0; s <= SEQS; s++)
		w.seq_start[s] = s;
	for (int s = 0; s < SEQS; s++)
		w.table[s] = &table[s * blocks];
	for (size_t i = 0; i < table.size(); i++)
		table[i] = (int32_t) i;
	for (auto &l : longest)
	{
		int			ld = 0,
					wrong = 0;
		const int32_t *p;

		for (int s = 0; s < SEQS; s++)
			w.pos[s] = s == 2 ? l.pos : l.pos / 3;
		ops->step_begin(d, &w.step);
		p = dev_blocks(d, &w.rows, BLOCK, &ld);
		for (int s = 0; s < SEQS; s++)
			copy(d, dev + s, p + s * ld + w.pos[s] / BLOCK, 1);
		CHECK(ld == l.ld, "%d blocks for %d keys", ld, l.pos + 1);
		ops->get(d, back, dev, SEQS * 4);
		CHECK(ops->step_end(d, err, sizeof(err)), "%s", err);
		for (int s = 0; s < SEQS; s++)
			wrong += back[s] != s * blocks + w.pos[s] / BLOCK;
		CHECK(wrong == 0, "%d blocks of %d keys are others", wrong, l.pos + 1);
	}
	ops->free(d, dev);
	ops->unpin(d, back);
	ops->close(d);
}

/* ---- copies in parallel with ops ---- */

static void
check_copies(void)
{
	const int	n = 600;		/* more than there are events */
	KDevice    *d = must_open();
	int32_t    *up = (int32_t *) ops->pin(d, n * 4),
			   *down = (int32_t *) ops->pin(d, n * 4),
			   *dev = (int32_t *) ops->alloc(d, n * 4, "test"),
			   *sum = (int32_t *) ops->alloc(d, n * 4, "test");
	KEvent		e[2 * n];
	char		err[256];
	int			wrong = 0;
	static World w;

	world_make(&w, 5);
	w.kv.pages = NULL;
	for (int i = 0; i < n; i++)
		up[i] = i * 3;
	for (int i = 0; i < n; i++)
		e[i] = ops->kv_put(d, dev + i, up + i, 4);
	/* the step waits for them, and copies requested within it wait for the step */
	ops->step_begin(d, &w.step);
	for (int i = 0; i < n; i++)
		e[n + i] = ops->kv_get(d, down + i, sum + i, 4);
	CHECK(!ops->event_done(d, e[2 * n - 1]), "before the step has been made");
	copy(d, sum, dev, n, 1);
	ops->step_flush(d);
	while (!ops->step_done(d))
		;
	CHECK(ops->step_end(d, err, sizeof(err)), "%s", err);
	for (int i = 2 * n - 1; i >= 0; i--)
		while (!ops->event_done(d, e[i]))
			;
	for (int i = 0; i < n; i++)
		wrong += down[i] != i * 3 + 1;
	CHECK(wrong == 0, "%d integers are wrong", wrong);
	CHECK(ops->event_done(d, 0) && ops->kv_get(d, down, dev, 0) == 0, "nothing");
	/* gets, and then a step that writes their source: only the step waits for them */
	memset(down, 0, n * 4);
	for (int i = 0; i < n; i++)
		e[i] = ops->kv_get(d, down + i, sum + i, 4);
	ops->kv_fence(d);
	ops->step_begin(d, &w.step);
	ops->fill(d, sum, 0, n * 4);
	CHECK(ops->step_end(d, err, sizeof(err)), "%s", err);
	wrong = 0;
	for (int i = 0; i < n; i++)
		wrong += !ops->event_done(d, e[i]) || down[i] != i * 3 + 1;
	CHECK(wrong == 0, "%d integers are wrong, or come behind the step", wrong);
	/* put, read by an op before a step, overwritten after it, and so on */
	for (int round = 0; round < 20; round++)
	{
		for (int i = 0; i < n; i++)
			up[i] = i * round;
		e[0] = ops->kv_put(d, dev, up, n * 4);
		ops->kv_fence(d);
		ops->kv_fence(d);
		copy(d, sum, dev, n, round);
		e[1] = ops->kv_put(d, dev, down, n * 4);
		e[2] = ops->kv_get(d, down, sum, n * 4);
		ops->kv_fence(d);
		ops->fill(d, sum, 0xff, n * 4);
		while (!ops->event_done(d, e[2]))
			;
		wrong = 0;
		for (int i = 0; i < n; i++)
			wrong += down[i] != i * round + round;
		CHECK(wrong == 0, "round %d: %d integers are wrong", round, wrong);
	}
	CHECK(well(d), "lost");
	ops->free(d, dev);
	ops->free(d, sum);
	ops->unpin(d, up);
	ops->unpin(d, down);
	ops->close(d);
}

typedef struct Other
{
	KDevice    *d;
	int32_t    *dev;
	int32_t    *host;
	int			wrong;
} Other;

static void *
other_thread(void *arg)
{
	Other	   *o = (Other *) arg;

	for (int i = 0; i < 200; i++)
	{
		int32_t    *more = (int32_t *) ops->alloc(o->d, 4096, "test");
		KEvent		e;

		o->host[0] = i;
		e = ops->kv_put(o->d, o->dev, o->host, 4);
		while (!ops->event_done(o->d, e))
			;
		e = ops->kv_get(o->d, o->host + 1, o->dev, 4);
		while (!ops->event_done(o->d, e))
			;
		o->wrong += o->host[1] != i || more == NULL;
		ops->free(o->d, more);
	}
	return NULL;
}

/* Adapters are loaded while steps run. */
static void
check_threads(void)
{
	KDevice    *d = must_open();
	Other		o = {d, (int32_t *) ops->alloc(d, 4, "test"), (int32_t *) ops->pin(d, 8), 0};
	KGraphKey	key = {1, 1, 1, 0};
	int32_t    *dev = (int32_t *) ops->alloc(d, ROWS * 4, "test");
	pthread_t	t;
	char		err[256] = "";
	bool		ok = true;
	static World w;

	pthread_create(&t, NULL, other_thread, &o);
	for (int i = 0; i < 200 && ok; i++)
	{
		world_make(&w, 0);
		ops->step_begin(d, &w.step);
		if (ops->graph(d, &key) != KRUN_REPLAYED)
			copy(d, dev, dev_array(d, w.pos, 4), 1);
		ops->step_flush(d);
		while (!ops->step_done(d))
			;
		ok = ops->step_end(d, err, sizeof(err));
	}
	pthread_join(t, NULL);
	CHECK(ok && o.wrong == 0, "%s, %d wrong", err, o.wrong);
	ops->free(d, o.dev);
	ops->free(d, dev);
	ops->unpin(d, o.host);
	ops->close(d);
}

/* ---- graphs ---- */

static void
check_graphs(void)
{
	static const KRun kinds[] = {KRUN_EAGER, KRUN_CAPTURE, KRUN_REPLAYED, KRUN_REPLAYED, KRUN_REPLAYED};
	KDevice    *d = must_open();
	int32_t    *dev = (int32_t *) ops->alloc(d, 2 * ROWS * 4, "test"),
			   *back = (int32_t *) ops->pin(d, 2 * ROWS * 4),
			   *more;
	char		err[256] = "";
	static World w;

	for (int round = 0; round < 2; round++)
	{
		for (int i = 0; i < 10; i++)
		{
			/* two kinds of steps alternate */
			KGraphKey	key = {ROWS, 1 + i % 2, 1, 0};
			KRun		run;
			int			wrong = 0;

			world_make(&w, 7);
			w.rows.n_rows = w.rows.n_seqs = w.step.n_out = SEQS;
			for (int s = 0; s <= SEQS; s++)
				w.seq_start[s] = s;
			ops->step_begin(d, &w.step);
			run = ops->graph(d, &key);
			CHECK(run == kinds[i / 2], "round %d, step %d: %d", round, i, run);
			if (run != KRUN_REPLAYED)
			{
				copy(d, dev, dev_array(d, w.pos, SEQS * 4), SEQS, i % 2);
				copy(d, dev + SEQS, dev, SEQS, 1);
			}
			ops->step_flush(d);
			ops->get(d, back, dev, 2 * SEQS * 4);
			CHECK(ops->step_end(d, err, sizeof(err)) && well(d), "%s", err);
			for (int j = 0; j < SEQS; j++)
				wrong += back[j] != w.pos[j] + i % 2 || back[SEQS + j] != w.pos[j] + i % 2 + 1;
			CHECK(wrong == 0, "round %d, step %d: %d are wrong", round, i, wrong);
		}
		/* a freed address may have been recorded in a graph */
		more = (int32_t *) ops->alloc(d, 4, "test");
		ops->free(d, more);
	}
	/* more kinds than are kept, each three times: all correct, the oldest are made anew */
	for (int i = 0; i < 300; i++)
		for (int j = 0; j < 3; j++)
		{
			KGraphKey	key = {1, 1, i, 0};

			ops->step_begin(d, &w.step);
			CHECK(ops->graph(d, &key) == kinds[j], "kind %d", i);
			if (kinds[j] != KRUN_REPLAYED)
				ops->fill(d, dev, i % 100, 4);
			ops->step_end(d, err, sizeof(err));
		}
	ops->step_begin(d, &w.step);
	CHECK(ops->graph(d, NULL) == KRUN_EAGER, "no key");
	ops->get(d, back, dev, 4);
	CHECK(ops->step_end(d, err, sizeof(err)) && back[0] == 99 * 0x01010101, "%x", back[0]);
	/* operations outside of the step can't be in a graph */
	for (int i = 0; i < 2; i++)
	{
		KGraphKey	key = {2, 2, 2, 2};
		int32_t		mine[4] = {0, 1, 2, 3};

		ops->step_begin(d, &w.step);
		ops->graph(d, &key);
		CHECK((dev_array(d, mine, sizeof(mine)) == NULL) == (i == 1), "staged in run %d", i);
		CHECK(ops->step_end(d, err, sizeof(err)) == (i == 0), "run %d", i);
	}
	CHECK(strstr(err, "in a graph") != NULL, "%s", err);
	ops->close(d);
	cudaFree(dev);
	cudaFreeHost(back);
}

/* ---- failures ---- */

#ifndef __CUDACC__

/* No memory for one more graph: existing ones are dropped, and the step gives the same result. */
static void
check_room(void)
{
	static const KRun kinds[] = {KRUN_EAGER, KRUN_CAPTURE, KRUN_REPLAYED};
	KDevice    *d = must_open();
	int32_t    *dev = (int32_t *) ops->alloc(d, 4, "test"),
			   *back = (int32_t *) ops->pin(d, 4);
	char		err[256] = "";
	static World w;

	world_make(&w, 7);
	for (int i = 0; i < 7; i++)
		for (int j = 0; j < 3; j++)
		{
			/* 4 has no memory; then the previous ones are recorded anew, and this many are kept */
			KGraphKey	key = {1, 1, i < 5 ? i : i - 5, 0};

			ops->step_begin(d, &w.step);
			CHECK(ops->graph(d, &key) == kinds[j], "kind %d, run %d", i, j);
			cemu_fail_at(i == 4 && j == 1 ? 1 : 0);
			if (kinds[j] != KRUN_REPLAYED)
				ops->fill(d, dev, i + 1, 4);
			ops->step_flush(d);
			cemu_fail_at(0);
			ops->get(d, back, dev, 4);
			CHECK(ops->step_end(d, err, sizeof(err)) && well(d) && back[0] == (i + 1) * 0x01010101,
				  "kind %d, run %d: %x, %s", i, j, back[0], err);
		}
	ops->close(d);
	cudaFree(dev);
	cudaFreeHost(back);
}

static void
check_failures(void)
{
	const int	before = cemu_live();
	char		err[256] = "";
	KDevice    *d = NULL;
	int			n,
				leaks = 0,
				silent = 0;

	/* the nth allocation of open() fails */
	for (n = 1; n < 1000 && d == NULL; n++)
	{
		err[0] = '\0';
		cemu_fail_at(n);
		d = open_device(err, sizeof(err));
		silent += d == NULL && strstr(err, "memory") == NULL;
		leaks += d == NULL && cemu_live() != before;
	}
	cemu_fail_at(0);
	CHECK(d != NULL && n > DEV_EVENTS && leaks == 0 && silent == 0, "%d tries, %d leaks, %d without a word",
		  n, leaks, silent);
	/* also a kernel that can't be set up, such as one for another capability */
	CHECK(well(d), "a device was opened in spite of what failed");
	cemu_fail_at(1);
	CHECK(ops->alloc(d, 4, "test") == NULL && well(d), "alloc");
	cemu_fail_at(1);
	CHECK(ops->pin(d, 4) == NULL && well(d), "pin");
	cemu_fail_at(1);
	CHECK(!ops->pin_area(d, err, 4) && well(d), "pin_area");
	ops->close(d);
	CHECK(cemu_live() == before, "%d things are left", cemu_live() - before);

	/* the map of pages, and a graph, fail at their nth allocation; then close with everything in it */
	for (int what = 0; what < 6; what++)
	{
		KGraphKey	key = {1, 1, 1, 0};
		bool		ok = true;
		static World w;

		d = must_open();
		world_make(&w, 7);
		for (int i = 0; i < 2 && ok; i++)
		{
			cemu_fail_at(i == what / 3 ? what % 3 + 1 : 0);
			ops->step_begin(d, &w.step);
			ops->graph(d, &key);
			ok = ops->step_end(d, err, sizeof(err));
		}
		cemu_fail_at(0);
		/* for a graph memory is freed, even if there are no others */
		CHECK(ok == (what == 2 || what >= 4), "%d: %s", what, ok ? "well" : err);
		ops->close(d);
		CHECK(cemu_live() == before, "%d: %d things are left", what, cemu_live() - before);
	}
}

#endif

/* A launch that no device accepts. */
static void
check_lost(void)
{
	KDevice    *d = must_open();
	int32_t    *dev = (int32_t *) ops->alloc(d, 4096, "test"),
			   *back = (int32_t *) ops->pin(d, 4096);
	char		err[256] = "";
	KEvent		e;
	static World w;

	world_make(&w, 3);
	memset(back, 0, 4096);
	ops->step_begin(d, &w.step);
	LAUNCH(copy_kernel, 1, 2048, 0, dev_stream(d), dev, dev, 1, 1);
	CHECK(!ops->step_end(d, err, sizeof(err)) && strstr(err, "launching: invalid configuration") != NULL,
		  "%s", err);
	/* lost for good, with the same reason; nothing else happens */
	ops->put(d, dev, back, 4096);
	ops->fill(d, dev, 1, 4096);
	ops->get(d, back, dev, 4096);
	e = ops->kv_get(d, back, dev, 4096);
	CHECK(ops->event_done(d, e), "nobody waits for a lost device");
	ops->step_begin(d, &w.step);
	CHECK(ops->graph(d, NULL) == KRUN_EAGER, "graph");
	ops->step_flush(d);
	err[0] = '\0';
	CHECK(ops->step_done(d) && !ops->step_end(d, err, sizeof(err)) && strstr(err, "launching") != NULL, "%s",
		  err);
	CHECK(!ops->wait(d, err, sizeof(err)) && ops->alloc(d, 4, "test") == NULL && ops->pin(d, 4) == NULL,
		  "lost");
	CHECK(back[0] == 0, "copied from a lost device");
	ops->close(d);
	cudaFree(dev);
	cudaFreeHost(back);
}

/* A requested copy is complete when done() says so, as after wait(). */
static void
check_async(void)
{
	KDevice    *d = must_open();
	std::vector<int32_t> from(1000);
	int32_t    *at = (int32_t *) ops->alloc(d, from.size() * sizeof(int32_t), "at");
	int32_t    *to = (int32_t *) ops->pin(d, from.size() * sizeof(int32_t));

	for (size_t i = 0; i < from.size(); i++)
		from[i] = (int32_t) dice();
	ops->put(d, at, from.data(), from.size() * sizeof(int32_t));
	ops->get(d, to, at, from.size() * sizeof(int32_t));
	while (!ops->done(d))
		;
	CHECK(memcmp(to, from.data(), from.size() * sizeof(int32_t)) == 0, "what was put and got");
	CHECK(well(d), "all is well");
	ops->unpin(d, to);
	ops->free(d, at);
	ops->close(d);
}

int
main(void)
{
	ops = vllm_pg_device_ops(KDEVICE_ABI);
	RUN(check_info());
	all_orders(check_put);
	all_orders(check_async);
	all_orders(check_stage);
	all_orders(check_steps);
	RUN(check_widths());
	all_orders(check_copies);
	all_orders(check_threads);
	all_orders(check_graphs);
#ifndef __CUDACC__
	RUN(check_failures());
	RUN(check_room());
#endif
	RUN(check_lost());
	return check_done("test_emu_dev");
}
