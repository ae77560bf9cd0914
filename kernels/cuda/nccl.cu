/*
 * nccl.cu
 *	  Ranks that have a GPU each and communicate through NCCL.
 *
 * NCCL is opened at run time.  Collectives are enqueued in the ops' stream, and so run in their order.
 * NCCL gathers parts of equal size, which is that of the largest; comm.cu converts them to columns.
 * Data larger than the reserved memory is sent in pieces.  With invariant bits a sum is a gather and a
 * sum in the order of ranks; otherwise it is NCCL's own.
 *
 * If a rank is gone, the others' kernels would wait for ever.  So a thread that waits for the stream
 * repeatedly calls lives() and checks NCCL for errors; if one fails, it aborts the communicators, which
 * ends pending work, and the device counts as lost.  Opening a communicator does the same: NCCL's calls
 * don't block.
 */
#include "cuda/nccl_api.h"

#include "cuda/cuda_ops.h"
#include "cuda/dev.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY	"libnccl.so.2"
#define ROOM	((size_t) 8 << 20)	/* bytes of a rank's part in flight */
#define LOOKS	2000			/* polls without a sleep */
#define LOOK_US	20				/* microseconds between polls after that */

#if defined(__CUDACC__) && __has_include(<nccl.h>)
#include <nccl.h>
#define SAME(a, b)	static_assert((long) (a) == (long) (b), #b)
SAME(NCCL_OK, ncclSuccess);
SAME(NCCL_UNDER_WAY, ncclInProgress);
SAME(NCCL_BYTES, ncclInt8);
SAME(NCCL_FLOATS, ncclFloat32);
SAME(NCCL_SUM, ncclSum);
SAME(NCCL_ANY, NCCL_CONFIG_UNDEF_INT);
SAME(NCCL_LEAST, NCCL_VERSION(2, 18, 0));
SAME(sizeof(NcclId), sizeof(ncclUniqueId));
SAME(offsetof(NcclConfig, blocking), offsetof(ncclConfig_t, blocking));
SAME(offsetof(NcclConfig, share), offsetof(ncclConfig_t, splitShare));
#undef SAME
#endif

static_assert(sizeof(NcclId) == KDEVICE_COMM_ID, "an id is a KDEVICE_COMM_ID");

/* An open library; it stays open, as its threads keep running. */
typedef struct Nccl
{
	struct Nccl *next;
	char	   *path;
	int			version;
#define C(name, parameters) int (*name) parameters;
	NCCL_CALLS(C)
#undef C
	const char *(*GetErrorString) (int result);
} Nccl;

struct KDevComm
{
	KDevComm   *next;			/* next one of the same device */
	KDevice    *d;
	const Nccl *nccl;
	NcclComm	comm;			/* NULL: it has been aborted */
	int			rank;
	int			size;
	bool		(*lives) (void *ctx);
	void	   *ctx;
	uint8_t    *parts;			/* [size][ROOM] in the device's memory */
};

/* ---- the library ---- */

static Nccl *libraries;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* return NULL, or the name of a missing function */
static const char *
find_calls(Nccl *n, void *library)
{
#define C(name, parameters) \
	n->name = (int (*) parameters) dlsym(library, "nccl" #name); \
	if (n->name == NULL) \
		return "nccl" #name;
	NCCL_CALLS(C)
#undef C
	n->GetErrorString = (const char *(*) (int)) dlsym(library, "ncclGetErrorString");
	return NULL;
}

static bool
nccl_load(Nccl *n, char *err, size_t errlen)
{
	void	   *library = dlopen(n->path, RTLD_NOW | RTLD_LOCAL);
	const char *lacks;

	if (library == NULL)
	{
		snprintf(err, errlen, "%s", dlerror());
		return false;
	}
	lacks = find_calls(n, library);
	if (lacks != NULL)
		snprintf(err, errlen, "%s has no %s", n->path, lacks);
	else if (n->GetVersion(&n->version) != NCCL_OK)
		snprintf(err, errlen, "%s has no version", n->path);
	else if (n->version < NCCL_LEAST)
		snprintf(err, errlen, "%s is of version %d, and %d or later is needed", n->path, n->version,
				 NCCL_LEAST);
	else
		return true;
	dlclose(library);
	return false;
}

/* return NULL with the reason in err */
static const Nccl *
nccl_open(const char *path, char *err, size_t errlen)
{
	Nccl	   *n;

	if (path[0] == '\0')
		path = LIBRARY;
	pthread_mutex_lock(&lock);
	for (n = libraries; n != NULL && strcmp(n->path, path) != 0;)
		n = n->next;
	if (n == NULL && (n = (Nccl *) calloc(1, sizeof(*n))) != NULL)
	{
		n->path = strdup(path);
		n->next = libraries;
		if (n->path != NULL && nccl_load(n, err, errlen))
			libraries = n;
		else
		{
			free(n->path);
			free(n);
			n = NULL;
		}
	}
	pthread_mutex_unlock(&lock);
	return n;
}

static const char *
reason(const Nccl *n, int result)
{
	return result == NCCL_UNDER_WAY ? "a rank is gone" : n->GetErrorString != NULL ?
		n->GetErrorString(result) : "an error without a name";
}

static bool
comm_find(const char *library, char *version, size_t size, char *err, size_t errlen)
{
	const Nccl *n = nccl_open(library, err, errlen);

	if (n != NULL)
		snprintf(version, size, "NCCL %d.%d.%d", n->version / 10000, n->version / 100 % 100,
				 n->version % 100);
	return n != NULL;
}

static bool
comm_id(const char *library, void *id, char *err, size_t errlen)
{
	const Nccl *n = nccl_open(library, err, errlen);
	int			result = NCCL_OK;

	if (n == NULL)
		return false;
	result = n->GetUniqueId((NcclId *) id);
	if (result != NCCL_OK)
		snprintf(err, errlen, "%s", reason(n, result));
	return result == NCCL_OK;
}

/* ---- opening, ending ---- */

static void
look_again(int *looks)
{
	if (++*looks < LOOKS)
		sched_yield();
	else
		usleep(LOOK_US);
}

/* Wait for a call that NCCL continues in the background and return its result.  NCCL_UNDER_WAY: it will
 * not end. */
static int
settle(KDevComm *c, int result)
{
	int			looks = 0;

	while (result == NCCL_UNDER_WAY)
	{
		if (!c->lives(c->ctx))
			return NCCL_UNDER_WAY;
		look_again(&looks);
		if (c->nccl->CommGetAsyncError(c->comm, &result) != NCCL_OK)
			break;
	}
	return result;
}

static void
abort_comm(KDevComm *c)
{
	if (c->comm != NULL)
		c->nccl->CommAbort(c->comm);
	c->comm = NULL;
}

/*
 * Close a communicator without pending work.  It is aborted, since NCCL's regular call would wait for
 * the other ranks, which may already be doing something else.
 */
static void
comm_close(KDevComm *c)
{
	KDevComm  **at = &c->d->comms;

	if (dev_use(c->d))
		comms_await(c->d, NULL);
	while (*at != NULL && *at != c)
		at = &(*at)->next;
	if (*at == c)
		*at = c->next;
	abort_comm(c);
	cudaFree(c->parts);
	cudaGetLastError();
	free(c);
}

static KDevComm *
comm_open(KDevice *d, const KDevCommOpen *o, char *err, size_t errlen)
{
	NcclConfig	config = {sizeof(config), (unsigned) NCCL_MAGIC, NCCL_LEAST, 0, NCCL_ANY, NCCL_ANY, NCCL_ANY,
						  NULL, NCCL_ANY};
	const Nccl *n = nccl_open(o->library, err, errlen);
	KDevComm   *c = n != NULL ? (KDevComm *) calloc(1, sizeof(*c)) : NULL;
	NcclId		id;
	int			result;

	if (c == NULL)
		return NULL;
	*c = KDevComm{NULL, d, n, NULL, o->rank, o->size, o->lives, o->ctx, NULL};
	memcpy(&id, o->id, sizeof(id));
	if (o->size > CUDA_RANKS || !dev_use(d) ||
		cudaMalloc((void **) &c->parts, ROOM * (size_t) c->size) != cudaSuccess)
	{
		cudaGetLastError();
		snprintf(err, errlen, "the device has no room for the parts of %d ranks", c->size);
		comm_close(c);
		return NULL;
	}
	result = settle(c, n->CommInitRankConfig(&c->comm, c->size, id, c->rank, &config));
	if (result != NCCL_OK)
	{
		snprintf(err, errlen, "%s", reason(n, result));
		comm_close(c);
		return NULL;
	}
	c->next = d->comms;
	d->comms = c;
	return c;
}

bool
comms_live(KDevice *d)
{
	char		why[160];

	for (KDevComm *c = d->comms; c != NULL && !d->lost; c = c->next)
	{
		int			result = NCCL_OK;
		bool		lives = c->lives(c->ctx);

		if (lives && c->nccl->CommGetAsyncError(c->comm, &result) == NCCL_OK &&
			(result == NCCL_OK || result == NCCL_UNDER_WAY))
			continue;
		snprintf(why, sizeof(why), "NCCL: %s", reason(c->nccl, lives ? result : NCCL_UNDER_WAY));
		dev_lose(d, why);
	}
	for (KDevComm *c = d->comms; c != NULL && d->lost; c = c->next)
		abort_comm(c);
	return !d->lost;
}

bool
comms_await(KDevice *d, cudaEvent_t e)
{
	cudaError_t how;
	int			looks = 0;

	while ((how = e != NULL ? cudaEventQuery(e) : cudaStreamQuery(d->stream)) == cudaErrorNotReady)
	{
		if (!comms_live(d))
			return false;
		look_again(&looks);
	}
	return dev_ok(d, how, "running");
}

/* ---- collectives ---- */

static bool
succeeded(KDevComm *c, int result)
{
	char		why[160];

	result = settle(c, result);
	if (result == NCCL_OK)
		return true;
	snprintf(why, sizeof(why), "NCCL: %s", reason(c->nccl, result));
	dev_lose(c->d, why);
	return comms_live(c->d);
}

static bool
ready(KDevComm *c)
{
	if (c->d->run == KRUN_CAPTURE)
		dev_lose(c->d, "ranks exchange something in a graph");
	return dev_use(c->d) && c->comm != NULL;
}

/* Gather rows of p's columns; mine and all are the addresses for these rows. */
static bool
gather_piece(KDevComm *c, void *all, const void *mine, int rows, const CudaParts *p, size_t size)
{
	cudaStream_t s = dev_stream(c->d);
	size_t		row = (size_t) rows * size;
	size_t		own = cuda_part_width(p, c->rank) * row;
	size_t		slot = 0;
	bool		even = true;

	for (int r = 0; r < c->size; r++)
	{
		slot = cuda_part_width(p, r) * row > slot ? cuda_part_width(p, r) * row : slot;
		even = even && cuda_part_width(p, r) == cuda_part_width(p, 0) && p->starts[r] == r * p->starts[1];
	}
	if (even && rows == 1 && p->from == 0 && p->width >= p->starts[1])
		return succeeded(c, c->nccl->AllGather(mine, all, slot, NCCL_BYTES, c->comm, s));
	slot = (slot + 15) / 16 * 16;
	/* the part is sent with the others' size; mine may lack its end */
	if (own < slot)
	{
		void	   *there = c->parts + (size_t) c->rank * slot;

		if (own > 0 && !dev_ok(c->d, cudaMemcpyAsync(there, mine, own, cudaMemcpyDeviceToDevice, s),
							   "cudaMemcpyAsync"))
			return false;
		mine = there;
	}
	if (!succeeded(c, c->nccl->AllGather(mine, c->parts, slot, NCCL_BYTES, c->comm, s)))
		return false;
	cuda_columns(all, c->parts, slot, p, size, rows, s);
	return true;
}

static void
comm_gather(KDevComm *c, void *all, const void *mine, int rows, const int32_t *starts, size_t size)
{
	int			most = (int) (ROOM / size);
	int			widest = 0;
	int			step;
	CudaParts	p;

	if (!ready(c))
		return;
	p.ranks = c->size;
	p.width = most;
	for (int r = 0; r <= c->size; r++)
		p.starts[r] = starts[r];
	for (int r = 0; r < c->size; r++)
		widest = starts[r + 1] - starts[r] > widest ? starts[r + 1] - starts[r] : widest;
	/* pieces are whole rows, unless one row is too wide */
	step = widest == 0 ? rows : widest < most ? most / widest : 1;
	for (int i = 0; i < rows; i += step)
		for (int from = 0; from < widest; from += most)
		{
			size_t		own = (size_t) (starts[c->rank + 1] - starts[c->rank]);

			p.from = from;
			p.width = widest - from < most ? widest - from : most;
			if (!gather_piece(c, (uint8_t *) all + (size_t) i * (size_t) starts[c->size] * size,
							  (const uint8_t *) mine + ((size_t) i * own + (size_t) from) * size,
							  rows - i < step ? rows - i : step, &p, size))
				return;
		}
}

static void
comm_sum(KDevComm *c, float *x, size_t n)
{
	cudaStream_t s = dev_stream(c->d);

	if (!ready(c) || n == 0)
		return;
	if (!c->d->o.invariant)
		succeeded(c, c->nccl->AllReduce(x, x, n, NCCL_FLOATS, NCCL_SUM, c->comm, s));
	for (size_t at = 0; c->d->o.invariant && at < n; at += ROOM / sizeof(float))
	{
		size_t		part = n - at < ROOM / sizeof(float) ? n - at : ROOM / sizeof(float);

		if (!succeeded(c, c->nccl->AllGather(x + at, c->parts, part, NCCL_FLOATS, c->comm, s)))
			return;
		cuda_sum_parts(x + at, (const float *) c->parts, c->size, part, s);
	}
}

static void
comm_broadcast(KDevComm *c, void *x, size_t bytes, int root)
{
	if (bytes > 0 && ready(c))
		succeeded(c, c->nccl->Broadcast(x, x, bytes, NCCL_BYTES, root, c->comm, dev_stream(c->d)));
}

static void
comm_send(KDevComm *c, const void *x, size_t bytes, int to)
{
	if (bytes > 0 && ready(c))
		succeeded(c, c->nccl->Send(x, bytes, NCCL_BYTES, to, c->comm, dev_stream(c->d)));
}

static void
comm_recv(KDevComm *c, void *x, size_t bytes, int from)
{
	if (bytes > 0 && ready(c))
		succeeded(c, c->nccl->Recv(x, bytes, NCCL_BYTES, from, c->comm, dev_stream(c->d)));
}

extern const KDevCommOps comm_ops = {
	comm_find, comm_id, comm_open, comm_close, comm_gather, comm_sum, comm_broadcast, comm_send, comm_recv
};
