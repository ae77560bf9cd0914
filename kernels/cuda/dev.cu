/*
 * dev.cu
 *	  A GPU as a device of device.h: opening it, memory, copies, steps, and the library's only symbol.
 *
 * After open() nothing is allocated except what callers ask for, with one exception: the copy of a KV's
 * page map grows with the pages.  Any CUDA error makes the device lost: from then on it isn't used any
 * more, and step_end() and wait() report the first reason.
 */
#include "cuda/dev.h"
#include "cuda/mm/blaslt.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAGE_HALF	((size_t) 8 << 20)
#define LEAST_CC	75			/* lowest compute capability */
#define ALIGN(n)	(((n) + 255) / 256 * 256)

static KHost the_host;			/* shared by all devices */

/* ---- errors ---- */

void
dev_lose(KDevice *d, const char *why)
{
	if (!d->lost)
		snprintf(d->error, sizeof(d->error), "%s: %s", d->info.name, why);
	d->lost = true;
}

bool
dev_ok(KDevice *d, cudaError_t e, const char *what)
{
	char		why[128];

	if (e == cudaSuccess)
		return true;
	cudaGetLastError();
	snprintf(why, sizeof(why), "%s: %s", what, cudaGetErrorString(e));
	dev_lose(d, why);
	return false;
}

bool
dev_use(KDevice *d)
{
	return !d->lost && dev_ok(d, cudaSetDevice(d->info.ordinal), "cudaSetDevice");
}

/* Wait for an event of the stream, or for NULL for everything in it.  It may in turn wait for other
 * ranks. */
static bool
await(KDevice *d, cudaEvent_t e, const char *what)
{
	if (d->comms != NULL)
		return comms_await(d, e);
	return dev_ok(d, e != NULL ? cudaEventSynchronize(e) : cudaStreamSynchronize(d->stream), what);
}

static bool
take_error(const KDevice *d, char *err, size_t errlen)
{
	if (d->lost)
		snprintf(err, errlen, "%s", d->error);
	return !d->lost;
}

/* ---- which devices there are ---- */

/* A runtime without a driver reports that the driver is too old. */
static int
dev_count(char *why, size_t whylen)
{
	int			n = 0,
				has = 0,
				wants = 0;
	cudaError_t e = cudaGetDeviceCount(&n);

	if (e == cudaSuccess && n > 0)
		return n;
	cudaGetLastError();
	cudaDriverGetVersion(&has);
	cudaRuntimeGetVersion(&wants);
	if (e == cudaErrorInsufficientDriver && has == 0)
		snprintf(why, whylen, "no NVIDIA driver is loaded");
	else if (e == cudaErrorInsufficientDriver)
		snprintf(why, whylen, "the driver has CUDA %d.%d, and %d.0 or later is needed", has / 1000,
				 has % 1000 / 10, wants / 1000);
	else
		snprintf(why, whylen, "%s", cudaGetErrorString(e == cudaSuccess ? cudaErrorNoDevice : e));
	return 0;
}

static void
put_uuid(char *to, size_t size, const char *bytes)
{
	size_t		at = (size_t) snprintf(to, size, "GPU-");

	for (int i = 0; i < 16; i++)
		at += (size_t) snprintf(to + at, size - at, "%s%02x", i == 4 || i == 6 || i == 8 ||
								i == 10 ? "-" : "", (unsigned) (uint8_t) bytes[i]);
}

/* mem() reports free memory after the device has been opened: asking for it here would open it */
static bool
dev_info(int ordinal, KDevInfo *out)
{
	cudaDeviceProp p;
	int			version = 0;
	char		why[8];
	const char *lacks = table_lacks();

	memset(out, 0, sizeof(*out));
	if (ordinal < 0 || ordinal >= dev_count(why, sizeof(why)) ||
		cudaGetDeviceProperties(&p, ordinal) != cudaSuccess)
		return false;
	cudaDriverGetVersion(&version);
	out->ordinal = ordinal;
	snprintf(out->name, sizeof(out->name), "%.63s", p.name);
	put_uuid(out->uuid, sizeof(out->uuid), p.uuid.bytes);
	snprintf(out->driver, sizeof(out->driver), "CUDA %d.%d", version / 1000, version % 1000 / 10);
	out->cc = p.major * 10 + p.minor;
	out->sms = p.multiProcessorCount;
	out->total = p.totalGlobalMem;
	out->l2 = (uint64_t) p.l2CacheSize;
	out->smem_block = (uint32_t) p.sharedMemPerBlockOptin;
	out->features = (out->cc >= 80 ? DEV_BF16 : 0) | (out->cc >= 89 ? DEV_FP8 : 0) |
		(out->cc == 90 ? DEV_WGMMA : 0);
	if (out->cc < LEAST_CC)
		snprintf(out->why, sizeof(out->why), "compute capability %d.%d, and %d.%d or later is needed",
				 p.major, p.minor, LEAST_CC / 10, LEAST_CC % 10);
	else if (lacks != NULL)
		snprintf(out->why, sizeof(out->why), "the library lacks the op %s", lacks);
	out->usable = out->why[0] == '\0';
	return true;
}

/* ---- memory ---- */

static void *
dev_alloc(KDevice *d, size_t size, const char *what)
{
	void	   *p = NULL;

	(void) what;
	if (!dev_use(d))
		return NULL;
	if (cudaMalloc(&p, size) == cudaSuccess)
		return p;
	cudaGetLastError();
	return NULL;
}

/* graphs contain addresses, which may soon belong to other data */
static void
dev_free(KDevice *d, void *p)
{
	if (p == NULL)
		return;
	graphs_stale(d->graphs);
	if (dev_use(d))
		dev_ok(d, cudaFree(p), "cudaFree");
}

static void *
dev_pin(KDevice *d, size_t size)
{
	void	   *p = NULL;

	if (dev_use(d) && cudaMallocHost(&p, size) == cudaSuccess)
		return p;
	cudaGetLastError();
	return NULL;
}

static void
dev_unpin(KDevice *d, void *p)
{
	if (p != NULL && dev_use(d))
		dev_ok(d, cudaFreeHost(p), "cudaFreeHost");
}

static bool
dev_pin_area(KDevice *d, void *p, size_t size)
{
	if (dev_use(d) && cudaHostRegister(p, size, cudaHostRegisterDefault) == cudaSuccess)
		return true;
	cudaGetLastError();
	return false;
}

static void
dev_unpin_area(KDevice *d, void *p)
{
	if (dev_use(d))
		dev_ok(d, cudaHostUnregister(p), "cudaHostUnregister");
}

static void
dev_mem(KDevice *d, uint64_t *free_bytes, uint64_t *total)
{
	size_t		room = 0,
				all = 0;

	if (dev_use(d))
		dev_ok(d, cudaMemGetInfo(&room, &all), "cudaMemGetInfo");
	*free_bytes = room;
	*total = all;
}

static void
dev_forget(KDevice *d, const void *from, size_t size)
{
	int			n = 0;

	for (int i = 0; i < d->n_consts; i++)
	{
		DevConst   *c = &d->consts[i];

		if ((uintptr_t) c->key - (uintptr_t) from >= size)
		{
			d->consts[n++] = *c;
			continue;
		}
		dev_free(d, c->dev);
		free(c->host);
	}
	d->n_consts = n;
}

/* ---- the stage ---- */

KDevice *
dev_of(const KPool *pool)
{
	return the_host.pool_device(pool);
}

cudaStream_t
dev_stream(KDevice *d)
{
	__atomic_fetch_add(&d->work, 1, __ATOMIC_RELAXED);
	return d->stream;
}

/* reserve this many bytes in one half; false: even an empty half is too small */
bool
dev_room(KDevice *d, size_t size)
{
	DevStage   *s = &d->stage;

	if (d->lost)
		return false;
	if (d->run == KRUN_CAPTURE)
	{
		dev_lose(d, "an array of the host in a graph");
		return false;
	}
	if (s->at + ALIGN(size) <= s->half)
		return true;
	if (ALIGN(size) > s->half)
	{
		dev_lose(d, "arrays of an op are larger than the stage");
		return false;
	}
	if (!dev_ok(d, cudaEventRecord(s->used[s->half_now], dev_stream(d)), "cudaEventRecord"))
		return false;
	s->busy[s->half_now] = true;
	s->half_now ^= 1;
	s->at = 0;
	if (s->busy[s->half_now] && !await(d, s->used[s->half_now], "staging"))
		return false;
	s->busy[s->half_now] = false;
	return true;
}

void *
dev_stage(KDevice *d, size_t size, void **dev)
{
	DevStage   *s = &d->stage;
	size_t		at;

	if (!dev_use(d) || !dev_room(d, size))
		return NULL;
	at = (size_t) s->half_now * s->half + s->at;
	s->at += ALIGN(size);
	*dev = s->dev + at;
	return s->host + at;
}

bool
dev_send(KDevice *d, void *at, const void *staged, size_t size)
{
	return dev_ok(d, cudaMemcpyAsync(at, staged, size, cudaMemcpyHostToDevice, dev_stream(d)),
				  "cudaMemcpyAsync");
}

/* Copy to pinned memory; *dev is the corresponding address on the device. */
static void *
staged(KDevice *d, const void *host, size_t size, void **dev)
{
	void	   *to = dev_stage(d, size, dev);

	return to != NULL ? memcpy(to, host, size) : NULL;
}

static const int32_t *
in_step(const KDevice *d, const void *host, size_t size)
{
	const DevStep *s = &d->step;
	uintptr_t	p = (uintptr_t) host;

	for (int i = 0; i < DEV_TABLE; i++)
	{
		uintptr_t	from = (uintptr_t) s->given[i];

		if (from != 0 && p >= from && p + size <= from + (size_t) s->n[i] * sizeof(int32_t))
			return (const int32_t *) (s->dev + s->at[i] + (p - from));
	}
	return NULL;
}

const void *
dev_array(KDevice *d, const void *host, size_t size)
{
	const void *p = host != NULL ? in_step(d, host, size) : NULL;
	void	   *dev = NULL;
	void	   *pinned;

	if (p != NULL || host == NULL)
		return p;
	pinned = staged(d, host, size, &dev);
	return pinned != NULL && dev_send(d, dev, pinned, size) ? dev : NULL;
}

const void *
dev_const(KDevice *d, const void *key, const void *host, size_t size)
{
	DevConst   *c;

	if (host == NULL || !dev_use(d))
		return NULL;
	for (int i = 0; i < d->n_consts; i++)
	{
		c = &d->consts[i];
		if (c->key == key && c->size == size && memcmp(c->host, host, size) == 0)
			return c->dev;
	}
	c = (DevConst *) realloc(d->consts, ((size_t) d->n_consts + 1) * sizeof(*c));
	if (c == NULL)
	{
		dev_lose(d, "no memory");
		return NULL;
	}
	d->consts = c;
	c += d->n_consts;
	*c = DevConst{malloc(size), NULL, key, size};
	if (c->host == NULL || !dev_ok(d, cudaMalloc(&c->dev, size), "cudaMalloc"))
	{
		free(c->host);
		dev_lose(d, "no memory");
		return NULL;
	}
	d->n_consts++;
	memcpy(c->host, host, size);
	host = dev_array(d, host, size);
	if (host == NULL ||
		!dev_ok(d, cudaMemcpyAsync(c->dev, host, size, cudaMemcpyDeviceToDevice, dev_stream(d)),
				"cudaMemcpyAsync"))
		return NULL;
	return c->dev;
}

/* ---- copies in the ops' order ---- */

void
dev_put(KDevice *d, void *dst, const void *src, size_t size)
{
	void	   *unused;

	for (size_t done = 0, n; done < size && dev_use(d); done += n)
	{
		void	   *pinned;

		n = size - done < d->stage.half ? size - done : d->stage.half;
		pinned = staged(d, (const char *) src + done, n, &unused);
		if (pinned == NULL)
			return;
		dev_ok(d, cudaMemcpyAsync((char *) dst + done, pinned, n, cudaMemcpyHostToDevice, dev_stream(d)),
			   "cudaMemcpyAsync");
	}
}

static void
dev_get(KDevice *d, void *dst, const void *src, size_t size)
{
	if (size > 0 && dev_use(d))
		dev_ok(d, cudaMemcpyAsync(dst, src, size, cudaMemcpyDeviceToHost, dev_stream(d)), "cudaMemcpyAsync");
}

static void
dev_fill(KDevice *d, void *dst, int byte, size_t size)
{
	if (size > 0 && dev_use(d))
		dev_ok(d, cudaMemsetAsync(dst, byte, size, dev_stream(d)), "cudaMemsetAsync");
}

static bool
dev_wait(KDevice *d, char *err, size_t errlen)
{
	if (dev_use(d))
	{
		await(d, NULL, "running");
		dev_ok(d, cudaGetLastError(), "launching");
	}
	return take_error(d, err, errlen);
}

/* Return true if the data has arrived, or never will. */
static bool
is_complete(KDevice *d, cudaError_t how)
{
	if (how == cudaErrorNotReady && d->comms != NULL && !comms_live(d))
		return true;
	return how != cudaErrorNotReady && (dev_ok(d, how, "running"), true);
}

static bool
dev_done(KDevice *d)
{
	return !dev_use(d) || is_complete(d, cudaStreamQuery(d->stream));
}

/* ---- copies beside the ops; the caller holds the lock for all of these ---- */

static void
copy_issue(KDevice *d, const DevCopy *c)
{
	DevCopies  *q = &d->copies;
	cudaEvent_t done = q->events[c->no % DEV_EVENTS];
	uint64_t	work = __atomic_load_n(&d->work, __ATOMIC_RELAXED);

	if (!dev_use(d))
		return;
	if (q->marked != work && !(dev_ok(d, cudaEventRecord(q->before, d->stream), "cudaEventRecord") &&
							   dev_ok(d, cudaStreamWaitEvent(q->stream, q->before, 0),
									  "cudaStreamWaitEvent")))
		return;
	q->marked = work;
	q->issued = c->no;
	if (c->up)
		q->up = c->no;
	dev_ok(d, cudaMemcpyAsync(c->dst, c->src, c->size,
							  c->up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, q->stream),
		   "cudaMemcpyAsync");
	dev_ok(d, cudaEventRecord(done, q->stream), "cudaEventRecord");
}

static KEvent
copy_enqueue(KDevice *d, void *dst, const void *src, size_t size, bool up)
{
	DevCopies  *q = &d->copies;
	DevCopy		c = {dst, src, size, up, 0};

	if (size == 0 || d->lost)
		return 0;
	pthread_mutex_lock(&d->lock);
	if (d->step.open && q->n_later == q->room)
	{
		size_t		room = q->room * 2 + 64;
		DevCopy    *more = (DevCopy *) realloc(q->later, room * sizeof(*more));

		if (more == NULL)
			dev_lose(d, "no memory");
		else
		{
			q->later = more;
			q->room = room;
		}
	}
	c.no = d->lost ? 0 : ++q->last;
	if (c.no != 0 && d->step.open)
		q->later[q->n_later++] = c;
	else if (c.no != 0)
		copy_issue(d, &c);
	pthread_mutex_unlock(&d->lock);
	return c.no;
}

static KEvent
dev_kv_put(KDevice *d, void *dst, const void *src, size_t size)
{
	return copy_enqueue(d, dst, src, size, true);
}

static KEvent
dev_kv_get(KDevice *d, void *dst, const void *src, size_t size)
{
	return copy_enqueue(d, dst, src, size, false);
}

static bool
dev_event_done(KDevice *d, KEvent e)
{
	DevCopies  *q = &d->copies;
	bool		done;

	pthread_mutex_lock(&d->lock);
	done = d->lost || e <= q->done;
	if (!done && e <= q->issued && dev_use(d))
	{
		cudaError_t got = cudaEventQuery(q->events[e % DEV_EVENTS]);

		if (got == cudaSuccess)
			q->done = e;
		done = got != cudaErrorNotReady && (dev_ok(d, got, "copying"), true);
	}
	pthread_mutex_unlock(&d->lock);
	return done;
}

/* The last copy's event comes after all of them. */
static void
dev_kv_fence(KDevice *d)
{
	DevCopies  *q = &d->copies;

	pthread_mutex_lock(&d->lock);
	if (q->issued > q->done && dev_use(d))
		dev_ok(d, cudaStreamWaitEvent(d->stream, q->events[q->issued % DEV_EVENTS], 0),
			   "cudaStreamWaitEvent");
	q->up = 0;
	pthread_mutex_unlock(&d->lock);
}

/* ---- steps ---- */

/* blocks that a sequence's rows may read */
static int
blocks_of(const KRows *r, int s, int block_size)
{
	return r->pos[r->seq_start[s + 1] - 1] / block_size + (r->pos[r->seq_start[s + 1] - 1] >= 0);
}

static bool
fits(KDevice *d, const KStep *s)
{
	const KRows *r = s->rows;

	if (r->n_rows > d->o.max_rows || r->n_seqs > d->o.max_seqs || s->n_out > d->o.max_out)
	{
		dev_lose(d, "a step has more rows than the device was opened for");
		return false;
	}
	for (int i = 0; s->kv != NULL && i < r->n_seqs; i++)
		if (blocks_of(r, i, s->kv->block_size) > d->o.max_blocks)
		{
			dev_lose(d, "a sequence has more blocks than the device was opened for");
			return false;
		}
	return true;
}

/* Send which page of the KV has which block, for the blocks of these sequences; only if it has
 * changed. */
static void
send_pages(KDevice *d, const KvView *kv, const KRows *r)
{
	DevStep    *s = &d->step;
	size_t		n = 0,
				from = 0;

	for (int i = 0; i < r->n_seqs; i++)
		for (int j = blocks_of(r, i, kv->block_size) - 1; j >= 0; j--)
			if ((size_t) r->block_table[i][j] >= n)
				n = (size_t) r->block_table[i][j] + 1;
	n *= (size_t) kv->n_parts;
	if (n > s->pages_room)
	{
		size_t		room = n * 2;

		if (!await(d, NULL, "running"))
			return;
		graphs_stale(d->graphs);
		cudaFree(s->pages_dev);
		cudaFreeHost(s->pages_host);
		s->pages_dev = s->pages_host = NULL;
		s->pages_room = s->pages_n = 0;
		if (!dev_ok(d, cudaMalloc((void **) &s->pages_dev, room * sizeof(int32_t)), "the map of pages") ||
			!dev_ok(d, cudaMallocHost((void **) &s->pages_host, room * sizeof(int32_t)), "the map of pages"))
			return;
		s->pages_room = room;
	}
	while (from < n && from < s->pages_n && s->pages_host[from] == kv->pages[from])
		from++;
	if (from < n)
	{
		/* pinned memory may still be in use by a copy */
		if (!await(d, NULL, "running"))
			return;
		memcpy(s->pages_host + from, kv->pages + from, (n - from) * sizeof(int32_t));
		dev_ok(d, cudaMemcpyAsync(s->pages_dev + from, s->pages_host + from, (n - from) * sizeof(int32_t),
								  cudaMemcpyHostToDevice, dev_stream(d)), "cudaMemcpyAsync");
	}
	if (n > s->pages_n)
		s->pages_n = n;
	s->pages = kv->pages;
}

/*
 * Return the width of the block tables: the blocks of the longest sequence, rounded up like a graph's
 * contexts, whose ops contain the distance from one table to the next.
 */
static int
table_width(const KDevice *d, const KRows *r, int block_size)
{
	int			most = 1,
				blocks,
				splits = 1;

	for (int i = 0; i < r->n_seqs; i++)
		if (r->pos[r->seq_start[i + 1] - 1] >= most)
			most = r->pos[r->seq_start[i + 1] - 1] + 1;
	while (splits * DEV_SPLIT_KEYS < most)
		splits *= 2;
	blocks = (splits * DEV_SPLIT_KEYS + block_size - 1) / block_size;
	return blocks < d->o.max_blocks ? blocks : d->o.max_blocks;
}

/* copy the arrays to pinned memory; return their bytes */
static size_t
stage_step(KDevice *d, const KStep *k, uint8_t *to)
{
	DevStep    *s = &d->step;
	const KRows *r = k->rows;
	const int32_t *given[DEV_ARRAYS] = {k->tokens, r->pos, k->types, k->ends, k->out_rows, r->seq_start,
										r->state_slot, NULL};
	const int	n[DEV_ARRAYS] = {r->n_rows, r->n_rows, r->n_rows, r->n_rows, k->n_out, r->n_seqs + 1,
								 r->n_seqs, 0};

	for (int i = 0; i < DEV_TABLE; i++)
	{
		s->given[i] = given[i];
		s->n[i] = n[i];
		if (given[i] != NULL)
			memcpy(to + s->at[i], given[i], (size_t) n[i] * sizeof(int32_t));
	}
	s->n[DEV_TABLE] = 0;
	if (k->kv == NULL || r->block_table == NULL)
		return s->at[DEV_TABLE];
	s->n[DEV_TABLE] = r->n_seqs;
	s->ld = table_width(d, r, k->kv->block_size);
	for (int i = 0; i < r->n_seqs; i++)
		memcpy(to + s->at[DEV_TABLE] + (size_t) i * (size_t) s->ld * sizeof(int32_t), r->block_table[i],
			   (size_t) blocks_of(r, i, k->kv->block_size) * sizeof(int32_t));
	return s->at[DEV_TABLE] + (size_t) r->n_seqs * (size_t) s->ld * sizeof(int32_t);
}

static void
dev_step_begin(KDevice *d, const KStep *k)
{
	DevStep    *s = &d->step;
	size_t		size;

	if (!dev_use(d) || !fits(d, k))
		return;
	pthread_mutex_lock(&d->lock);
	s->open = true;
	if (d->copies.up != 0)
		dev_ok(d, cudaStreamWaitEvent(d->stream, d->copies.events[d->copies.up % DEV_EVENTS], 0),
			   "cudaStreamWaitEvent");
	d->copies.up = 0;
	pthread_mutex_unlock(&d->lock);
	d->run = KRUN_EAGER;
	s->half_now ^= 1;
	if (s->busy[s->half_now] && !await(d, s->used[s->half_now], "running"))
		return;
	size = stage_step(d, k, s->host[s->half_now]);
	dev_ok(d, cudaMemcpyAsync(s->dev, s->host[s->half_now], size, cudaMemcpyHostToDevice, dev_stream(d)),
		   "cudaMemcpyAsync");
	s->busy[s->half_now] = dev_ok(d, cudaEventRecord(s->used[s->half_now], d->stream), "cudaEventRecord");
	if (k->kv != NULL && k->kv->pages != NULL && !d->lost)
		send_pages(d, k->kv, k->rows);
}

static KRun
dev_graph(KDevice *d, const KGraphKey *key)
{
	d->run = key != NULL && dev_use(d) ? graphs_begin(d, key) : KRUN_EAGER;
	if (d->run != KRUN_EAGER)
		d->key = *key;
	return d->run;
}

static void
dev_step_flush(KDevice *d)
{
	DevStep    *s = &d->step;
	DevCopies  *q = &d->copies;

	if (!s->open)
		return;
	if (d->run != KRUN_EAGER)
		graphs_end(d);
	d->run = KRUN_EAGER;
	memset(s->given, 0, sizeof(s->given));
	s->n[DEV_TABLE] = 0;
	s->pages = NULL;
	if (dev_use(d))
	{
		dev_ok(d, cudaGetLastError(), "launching");
		dev_ok(d, cudaEventRecord(s->ended, dev_stream(d)), "cudaEventRecord");
	}
	pthread_mutex_lock(&d->lock);
	s->open = false;
	for (size_t i = 0; i < q->n_later; i++)
		copy_issue(d, &q->later[i]);
	q->n_later = 0;
	pthread_mutex_unlock(&d->lock);
}

static bool
dev_step_done(KDevice *d)
{
	return !dev_use(d) || is_complete(d, cudaEventQuery(d->step.ended));
}

static bool
dev_step_end(KDevice *d, char *err, size_t errlen)
{
	dev_step_flush(d);
	if (dev_use(d))
		await(d, d->step.ended, "running");
	return take_error(d, err, errlen);
}

/* ---- rows of an op ---- */

/* return true if r is the step, or a part of it */
static bool
of_step(const KDevice *d, const KRows *r)
{
	const DevStep *s = &d->step;

	return s->given[DEV_POS] != NULL && r->pos == s->given[DEV_POS] + r->row0 &&
		r->row0 + r->n_rows <= s->n[DEV_POS] && r->seq0 + r->n_seqs < s->n[DEV_SEQ_START];
}

const int32_t *
dev_starts(KDevice *d, const KRows *r, int *row0)
{
	*row0 = of_step(d, r) ? r->row0 : 0;
	return of_step(d, r) ? (const int32_t *) (d->step.dev + d->step.at[DEV_SEQ_START]) + r->seq0 :
		(const int32_t *) dev_array(d, r->seq_start, ((size_t) r->n_seqs + 1) * sizeof(int32_t));
}

const int32_t *
dev_blocks(KDevice *d, const KRows *r, int block_size, int *ld)
{
	const DevStep *s = &d->step;
	int			most = 1;
	int32_t    *table;
	const int32_t *p = NULL;

	*ld = s->ld;
	if (s->n[DEV_TABLE] > 0 && of_step(d, r))
		return (const int32_t *) (s->dev + s->at[DEV_TABLE]) + (size_t) r->seq0 * (size_t) *ld;
	for (int i = 0; i < r->n_seqs; i++)
		most = blocks_of(r, i, block_size) > most ? blocks_of(r, i, block_size) : most;
	*ld = most;
	table = (int32_t *) calloc((size_t) r->n_seqs * (size_t) most, sizeof(int32_t));
	if (table == NULL)
	{
		dev_lose(d, "no memory");
		return NULL;
	}
	for (int i = 0; i < r->n_seqs; i++)
		memcpy(table + (size_t) i * (size_t) most, r->block_table[i],
			   (size_t) blocks_of(r, i, block_size) * sizeof(int32_t));
	p = (const int32_t *) dev_array(d, table, (size_t) r->n_seqs * (size_t) most * sizeof(int32_t));
	free(table);
	return p;
}

const int32_t *
dev_pages(KDevice *d, const KvView *kv, const KRows *r)
{
	if (kv->pages == NULL || !dev_use(d))
		return NULL;
	if (d->step.pages != kv->pages)
	{
		if (dev_room(d, 0))
			send_pages(d, kv, r);
		d->step.pages = NULL;
	}
	return d->step.pages_dev;
}

void
dev_remember(KDevice *d, const int32_t *start, int rows)
{
	int			i = 0;

	while (i < DEV_GROUPS - 1 && d->groups[i].start != start)
		i++;
	memmove(&d->groups[1], &d->groups[0], (size_t) i * sizeof(d->groups[0]));
	d->groups[0].start = start;
	d->groups[0].rows = rows;
}

int
dev_rows_of_groups(KDevice *d, const int32_t *start, int n)
{
	int32_t		rows = 0;

	for (int i = 0; i < DEV_GROUPS; i++)
		if (d->groups[i].start == start)
			return d->groups[i].rows;
	if (d->run == KRUN_CAPTURE)
		dev_lose(d, "groups of rows in a graph that no op has made");
	if (dev_use(d) && dev_ok(d, cudaMemcpyAsync(&rows, start + n, sizeof(rows), cudaMemcpyDeviceToHost,
												dev_stream(d)), "cudaMemcpyAsync"))
		await(d, NULL, "running");
	return rows;
}

/* ---- opening and closing ---- */

static void
dev_close(KDevice *d)
{
	DevStep    *s = &d->step;
	DevCopies  *q = &d->copies;

	if (d->locks)
		pthread_mutex_destroy(&d->lock);
	cudaSetDevice(d->info.ordinal);
	if (q->stream != NULL)
		cudaStreamSynchronize(q->stream);
	if (d->stream != NULL)
		cudaStreamSynchronize(d->stream);
	graphs_free(d->graphs);
	blaslt_close(d->blas);
	for (int i = 0; i < d->n_consts; i++)
	{
		cudaFree(d->consts[i].dev);
		free(d->consts[i].host);
	}
	free(d->consts);
	cudaFree(s->pages_dev);
	cudaFreeHost(s->pages_host);
	cudaFree(s->dev);
	cudaFree(d->stage.dev);
	cudaFreeHost(d->stage.host);
	for (int i = 0; i < 2; i++)
	{
		cudaFreeHost(s->host[i]);
		if (s->used[i] != NULL)
			cudaEventDestroy(s->used[i]);
		if (d->stage.used[i] != NULL)
			cudaEventDestroy(d->stage.used[i]);
	}
	for (int i = 0; i < DEV_EVENTS; i++)
		if (q->events[i] != NULL)
			cudaEventDestroy(q->events[i]);
	if (q->before != NULL)
		cudaEventDestroy(q->before);
	if (s->ended != NULL)
		cudaEventDestroy(s->ended);
	free(q->later);
	if (q->stream != NULL)
		cudaStreamDestroy(q->stream);
	if (d->stream != NULL)
		cudaStreamDestroy(d->stream);
	cudaGetLastError();
	free(d);
}

static bool
event_new(KDevice *d, cudaEvent_t *e)
{
	return dev_ok(d, cudaEventCreateWithFlags(e, cudaEventDisableTiming), "cudaEventCreate");
}

static bool
open_memory(KDevice *d)
{
	DevStep    *s = &d->step;
	const size_t n[DEV_ARRAYS] = {(size_t) d->o.max_rows, (size_t) d->o.max_rows, (size_t) d->o.max_rows,
		(size_t) d->o.max_rows, (size_t) d->o.max_out, (size_t) d->o.max_seqs + 1, (size_t) d->o.max_seqs,
	(size_t) d->o.max_seqs * (size_t) d->o.max_blocks};

	for (int i = 0; i < DEV_ARRAYS; i++)
	{
		s->at[i] = s->size;
		s->size += ALIGN(n[i] * sizeof(int32_t));
	}
	d->stage.half = STAGE_HALF;
	return dev_ok(d, cudaMalloc((void **) &s->dev, s->size), "a step's arrays") &&
		dev_ok(d, cudaMallocHost((void **) &s->host[0], s->size), "a step's arrays") &&
		dev_ok(d, cudaMallocHost((void **) &s->host[1], s->size), "a step's arrays") &&
		dev_ok(d, cudaMalloc((void **) &d->stage.dev, 2 * STAGE_HALF), "the stage") &&
		dev_ok(d, cudaMallocHost((void **) &d->stage.host, 2 * STAGE_HALF), "the stage");
}

/* Without it, this code's own kernels compute products of many rows. */
static void
open_blas(KDevice *d)
{
	char		why[160] = "",
				text[224];

	d->blas = blaslt_open(d->o.invariant, d->o.variant == KVARIANT_WGMMA, BLASLT_TILE, the_host.log, why,
						  sizeof(why));
	snprintf(text, sizeof(text), "all products are own kernels, as cuBLASLt can't be used: %s", why);
	if (d->blas == NULL && the_host.log != NULL)
		the_host.log('I', text);
}

static bool
open_all(KDevice *d)
{
	bool		ok = dev_ok(d, cudaSetDevice(d->info.ordinal), "cudaSetDevice") &&
		dev_ok(d, cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking), "cudaStreamCreate") &&
		dev_ok(d, cudaStreamCreateWithFlags(&d->copies.stream, cudaStreamNonBlocking), "cudaStreamCreate") &&
		event_new(d, &d->step.ended) && event_new(d, &d->copies.before);

	for (int i = 0; ok && i < 2; i++)
		ok = event_new(d, &d->step.used[i]) && event_new(d, &d->stage.used[i]);
	for (int i = 0; ok && i < DEV_EVENTS; i++)
		ok = event_new(d, &d->copies.events[i]);
	if (ok && pthread_mutex_init(&d->lock, NULL) == 0)
		d->locks = true;
	d->graphs = graphs_new();
	if (ok && (!d->locks || d->graphs == NULL))
		dev_lose(d, "no memory");
	/* clear an earlier error, which isn't this device's */
	cudaGetLastError();
	if (ok)
		table_open(d);
	/* a library built for other capabilities (CUDA_SM) has no kernels that could be set up */
	ok = ok && !d->lost && dev_ok(d, cudaGetLastError(), "the library's kernels") && open_memory(d);
	if (ok)
		open_blas(d);
	return ok;
}

static KDevice *
dev_open(int ordinal, const KHost *host, const KDevOpen *o, char *err, size_t errlen)
{
	KDevice    *d;
	KDevInfo	info;

	if (host->abi != KDEVICE_ABI)
	{
		snprintf(err, errlen, "the library was built for another engine");
		return NULL;
	}
	if (!dev_info(ordinal, &info))
	{
		snprintf(err, errlen, "there is no device %d", ordinal);
		return NULL;
	}
	if (info.cc < LEAST_CC)
	{
		snprintf(err, errlen, "%s: %s", info.name, info.why);
		return NULL;
	}
	if (o->variant == KVARIANT_WGMMA && !(info.features & DEV_WGMMA))
	{
		snprintf(err, errlen, "%s has no wgmma: compute capability %d.%d, and 9.0 is needed", info.name,
				 info.cc / 10, info.cc % 10);
		return NULL;
	}
	d = (KDevice *) calloc(1, sizeof(*d));
	if (d == NULL)
	{
		snprintf(err, errlen, "no memory");
		return NULL;
	}
	the_host = *host;
	d->info = info;
	d->o = *o;
	if (!open_all(d))
	{
		take_error(d, err, errlen);
		dev_close(d);
		return NULL;
	}
	return d;
}

static const Kernels *
dev_kernels(KDevice *d, KType op_type)
{
	if (d == NULL)
		return table_of(op_type, false);
	return !d->info.usable || (op_type == KT_BF16 && !(d->info.features & DEV_BF16)) ? NULL :
		table_of(op_type, d->o.fp8_x);
}

extern "C" __attribute__((visibility("default"))) const KDeviceOps *
vllm_pg_device_ops(uint32_t abi)
{
	static const KDeviceOps ops = {
		KDEVICE_ABI, dev_count, dev_info, dev_open, dev_close, dev_kernels,
		dev_alloc, dev_free, dev_pin, dev_unpin, dev_pin_area, dev_unpin_area, dev_mem, dev_forget,
		dev_put, dev_get, dev_fill, dev_wait, dev_done,
		dev_kv_put, dev_kv_get, dev_event_done, dev_kv_fence,
		dev_step_begin, dev_graph, dev_step_done, dev_step_flush, dev_step_end,
		&comm_ops,
	};

	return abi == KDEVICE_ABI ? &ops : NULL;
}
