/*
 * cemu_rt.c
 *	  Streams, events, graphs and memory: the runtime functions of cuda_rt.h.
 *
 * A stream is a queue of works; an event has a counter of its records and the last one that was reached.
 * A thread that waits runs works of any stream that can continue, chosen by cemu_random(), until its
 * condition holds; a query may run one work.  A graph owns works and lends them; a work is freed with
 * its last reference.  Host threads take turns: every call holds a lock.
 */
#include "emu/cemu.h"
#include "emu/cuda_rt.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum WorkKind
{
	W_KERNEL,
	W_COPY,
	W_SET,
	W_RECORD,
	W_WAIT,
	W_CALL
} WorkKind;

typedef struct Work
{
	WorkKind	kind;
	int			refs;
	CemuLaunch *launch;
	void		(*drop) (CemuLaunch *l);
	void	   *dst;
	const void *src;
	size_t		n;
	int			c;
	struct CemuEvent *event;
	uint64_t	no;				/* number of the event's record */
	int			(*go) (void *arg);	/* of cemu_call(); NULL: it has returned 1 */
	void	   *arg;
} Work;

typedef struct Works
{
	Work	  **w;
	size_t		n,
				room,
				head;
} Works;

typedef struct CemuGraph
{
	Works		works;
	int			refs;
	int			invalid;		/* a call was made that invalidates the capture */
} CemuGraph;

typedef struct CemuStream
{
	Works		works;
	CemuGraph  *capture;
	int			device;
	struct CemuStream *next;
} CemuStream;

typedef struct CemuEvent
{
	uint64_t	recorded,
				reached;
	int			works;			/* works in queues */
	int			destroyed;
} CemuEvent;

#define RUNTIME	13000			/* the emulated toolkit: 13.0 */

typedef struct Func
{
	const void *fn;
	int			smem;
} Func;

static CemuStream *streams;
static Func funcs[256];
static int	n_funcs;
static int	lazy = 1;
static int	capability = 90;
static int	n_devices = 1;
static int	driver = RUNTIME;
static __thread int device;		/* the thread's current device */
static int	live,				/* existing memory allocations, streams, events, graphs */
			fail_in;			/* calls until one fails */
static __thread cudaError_t last_error;
static __thread CemuStream *capturing;	/* stream being captured by this thread, not in relaxed mode */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static inline int
take_lock(void)
{
	return pthread_mutex_lock(&lock);
}

static inline void
drop_lock(const int *l)
{
	(void) l;
	pthread_mutex_unlock(&lock);
}

/* for the rest of the function */
#define LOCKED __attribute__((cleanup(drop_lock), unused)) const int locked = take_lock()

static cudaError_t
error(cudaError_t e)
{
	last_error = e;
	return e;
}

/* A call that isn't allowed in a capture ends it. */
static cudaError_t
refused(CemuStream *s)
{
	s->capture->invalid = 1;
	return error(cudaErrorStreamCaptureUnsupported);
}

/* Return true if an allocation may succeed, false if the test wants it to fail. */
static int
may_take(void)
{
	return fail_in == 0 || --fail_in > 0;
}

void
cemu_fail_at(int n)
{
	fail_in = n;
}

int
cemu_live(void)
{
	return live;
}

static void *
need(void *p)
{
	if (p == NULL)
		cemu_fail("no memory");
	return p;
}

static void
works_add(Works *q, Work *w)
{
	if (q->head > 0 && q->head == q->n)
		q->head = q->n = 0;
	if (q->n == q->room)
		q->w = need(realloc(q->w, (q->room = q->room * 2 + 16) * sizeof(*q->w)));
	q->w[q->n++] = w;
}

static void
work_drop(Work *w)
{
	if (--w->refs > 0)
		return;
	if (w->launch != NULL)
		w->drop(w->launch);
	if (w->event != NULL && --w->event->works == 0 && w->event->destroyed)
		free(w->event);
	free(w);
}

static int
runnable(const CemuStream *s)
{
	Work	   *w;

	if (s->works.head == s->works.n)
		return 0;
	w = s->works.w[s->works.head];
	if (w->kind == W_CALL && w->go != NULL && w->go(w->arg))
		w->go = NULL;
	if (w->kind == W_CALL)
		return w->go == NULL;
	return w->kind != W_WAIT || w->event->reached >= w->no;
}

static void
check_range(const char *call, const void *p, size_t n, int must)
{
	if (must && !cemu_is_device(p, n))
		cemu_fail("out of bounds: %s of %zu bytes at %p, which are not all allocated on the device", call, n,
				  p);
}

static void
work_run(Work *w)
{
	switch (w->kind)
	{
		case W_KERNEL:
			cemu_run(w->launch);
			break;
		case W_COPY:
			/* the memory may have been freed since the call */
			check_range("cudaMemcpy to", w->dst, w->n, w->c == cudaMemcpyHostToDevice ||
						w->c == cudaMemcpyDeviceToDevice);
			check_range("cudaMemcpy from", w->src, w->n, w->c == cudaMemcpyDeviceToHost ||
						w->c == cudaMemcpyDeviceToDevice);
			memmove(w->dst, w->src, w->n);
			break;
		case W_SET:
			check_range("cudaMemset", w->dst, w->n, 1);
			memset(w->dst, w->c, w->n);
			break;
		case W_RECORD:
			if (w->no > w->event->reached)
				w->event->reached = w->no;
			break;
		case W_WAIT:
		case W_CALL:
			break;
	}
}

/* run one work of a stream that can continue; return 0 if there is none */
static int
step(void)
{
	CemuStream *ready[64];
	CemuStream *s;
	Work	   *w;
	int			n = 0;

	for (s = streams; s != NULL && n < 64; s = s->next)
		if (runnable(s))
			ready[n++] = s;
	if (n == 0)
		return 0;
	s = ready[cemu_random() % (uint64_t) n];
	w = s->works.w[s->works.head++];
	work_run(w);
	work_drop(w);
	return 1;
}

/* A query: time may have passed meanwhile, so perhaps run a work. */
static void
perhaps(void)
{
	if (cemu_random() % 2 == 0)
		step();
}

/* return true if a stream waits for another process */
static int
elsewhere(void)
{
	for (const CemuStream *s = streams; s != NULL; s = s->next)
		if (s->works.head < s->works.n && s->works.w[s->works.head]->kind == W_CALL)
			return 1;
	return 0;
}

static cudaError_t
drain(const CemuStream *s)
{
	while (s == NULL || s->works.head < s->works.n)
		if (!step())
		{
			if (!elsewhere())
				break;
			usleep(20);
		}
	for (CemuStream *o = streams; o != NULL; o = o->next)
		if ((s == NULL || o == s) && o->works.head < o->works.n)
			cemu_fail("a stream waits for an event that is never reached");
	return cudaSuccess;
}

/* append w, which the stream takes over */
static cudaError_t
put(CemuStream *s, Work *w)
{
	if (s == NULL)
	{
		drain(NULL);
		work_run(w);
		work_drop(w);
		return cudaSuccess;
	}
	works_add(s->capture != NULL ? &s->capture->works : &s->works, w);
	if (!lazy && s->capture == NULL)
		drain(s);
	return cudaSuccess;
}

static Work *
work(WorkKind kind)
{
	Work	   *w = need(calloc(1, sizeof(*w)));

	w->kind = kind;
	w->refs = 1;
	return w;
}

void
cemu_call(void *stream, int (*go) (void *arg), void *arg)
{
	LOCKED;
	CemuStream *s = stream;
	Work	   *w = work(W_CALL);

	w->go = go;
	w->arg = arg;
	put(s, w);
}

void
cemu_lazy(int on)
{
	lazy = on;
}

void
cemu_enqueue(void *stream, CemuLaunch *l, void (*drop) (CemuLaunch *l), const void *fn)
{
	LOCKED;
	CemuStream *s = stream;
	uint64_t	threads = (uint64_t) l->block.x * l->block.y * l->block.z;
	size_t		most = 48 * 1024;
	Work	   *w;

	for (int i = 0; i < n_funcs; i++)
		if (funcs[i].fn == fn)
			most = (size_t) funcs[i].smem;
	if (threads == 0 || threads > CEMU_THREADS || l->block.z > 64 || l->grid.x == 0 || l->grid.y == 0 ||
		l->grid.z == 0 || l->grid.x > 0x7fffffffu || l->grid.y > 65535 || l->grid.z > 65535 || l->smem > most)
	{
		error(l->smem > most ? cudaErrorInvalidValue : cudaErrorInvalidConfiguration);
		drop(l);
		return;
	}
	if (s != NULL && s->device != device)
	{
		error(cudaErrorInvalidResourceHandle);
		drop(l);
		return;
	}
	l->most = most;
	w = work(W_KERNEL);
	w->launch = l;
	w->drop = drop;
	put(s, w);
}

/* ---- memory ---- */

cudaError_t
cudaMalloc(void **p, size_t n)
{
	LOCKED;

	*p = NULL;
	if (capturing != NULL)
		return refused(capturing);
	*p = may_take() ? cemu_malloc(n) : NULL;
	live += *p != NULL;
	return *p != NULL ? cudaSuccess : error(cudaErrorMemoryAllocation);
}

/* waits for all running work, as in CUDA */
cudaError_t
cudaFree(void *p)
{
	LOCKED;

	if (p == NULL)
		return cudaSuccess;
	if (capturing != NULL)
		return refused(capturing);
	drain(NULL);
	if (!cemu_free(p))
		return error(cudaErrorInvalidValue);
	live--;
	return cudaSuccess;
}

/* filled like device memory, so that code can't take memory that was never written for zeros */
cudaError_t
cudaMallocHost(void **p, size_t n)
{
	LOCKED;

	*p = NULL;
	if (capturing != NULL)
		return refused(capturing);
	*p = may_take() ? malloc(n) : NULL;
	if (*p == NULL)
		return error(cudaErrorMemoryAllocation);
	memset(*p, 0xff, n);
	live++;
	return cudaSuccess;
}

cudaError_t
cudaFreeHost(void *p)
{
	LOCKED;

	if (p == NULL)
		return cudaSuccess;
	if (capturing != NULL)
		return refused(capturing);
	drain(NULL);
	live--;
	free(p);
	return cudaSuccess;
}

cudaError_t
cudaHostRegister(void *p, size_t n, unsigned flags)
{
	LOCKED;

	(void) flags;
	if (p == NULL || n == 0 || !may_take())
		return error(cudaErrorInvalidValue);
	live++;
	return cudaSuccess;
}

cudaError_t
cudaHostUnregister(void *p)
{
	LOCKED;

	drain(NULL);
	live -= p != NULL;
	return cudaSuccess;
}

cudaError_t
cudaMemcpyAsync(void *dst, const void *src, size_t n, cudaMemcpyKind kind, cudaStream_t s)
{
	LOCKED;
	Work	   *w;

	if (kind == cudaMemcpyDefault)
		kind = (cemu_is_device(src, 1) ? 2 : 0) + (cemu_is_device(dst, 1) ? 1 : 0);
	w = work(W_COPY);
	w->dst = dst;
	w->src = src;
	w->n = n;
	w->c = (int) kind;
	return put(s, w);
}

cudaError_t
cudaMemcpy(void *dst, const void *src, size_t n, cudaMemcpyKind kind)
{
	return cudaMemcpyAsync(dst, src, n, kind, NULL);
}

cudaError_t
cudaMemsetAsync(void *p, int c, size_t n, cudaStream_t s)
{
	LOCKED;
	Work	   *w = work(W_SET);

	w->dst = p;
	w->c = c;
	w->n = n;
	return put(s, w);
}

cudaError_t
cudaMemset(void *p, int c, size_t n)
{
	return cudaMemsetAsync(p, c, n, NULL);
}

cudaError_t
cudaMemGetInfo(size_t *room, size_t *all)
{
	LOCKED;

	cemu_memory_info(room, all);
	return cudaSuccess;
}

/* ---- streams and events ---- */

cudaError_t
cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
	LOCKED;

	(void) flags;
	if (!may_take())
		return error(cudaErrorMemoryAllocation);
	live++;
	*s = need(calloc(1, sizeof(**s)));
	(*s)->device = device;
	(*s)->next = streams;
	streams = *s;
	return cudaSuccess;
}

cudaError_t
cudaStreamCreate(cudaStream_t *s)
{
	return cudaStreamCreateWithFlags(s, 0);
}

cudaError_t
cudaStreamSynchronize(cudaStream_t s)
{
	LOCKED;

	if (s != NULL && s->capture != NULL)
		return refused(s);
	return drain(s);
}

cudaError_t
cudaStreamQuery(cudaStream_t s)
{
	LOCKED;

	perhaps();
	return s == NULL || s->works.head == s->works.n ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t
cudaStreamDestroy(cudaStream_t s)
{
	LOCKED;
	CemuStream **at = &streams;

	if (s == NULL)
		return error(cudaErrorInvalidResourceHandle);
	drain(s);
	if (capturing == s)
		capturing = NULL;
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	live--;
	free(s->works.w);
	free(s);
	return cudaSuccess;
}

cudaError_t
cudaDeviceSynchronize(void)
{
	LOCKED;

	return capturing != NULL ? refused(capturing) : drain(NULL);
}

cudaError_t
cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags)
{
	LOCKED;

	(void) flags;
	if (!may_take())
		return error(cudaErrorMemoryAllocation);
	live++;
	*e = need(calloc(1, sizeof(**e)));
	return cudaSuccess;
}

cudaError_t
cudaEventCreate(cudaEvent_t *e)
{
	return cudaEventCreateWithFlags(e, 0);
}

cudaError_t
cudaEventDestroy(cudaEvent_t e)
{
	LOCKED;

	live--;
	e->destroyed = 1;
	if (e->works == 0)
		free(e);
	return cudaSuccess;
}

static cudaError_t
put_event(WorkKind kind, cudaEvent_t e, cudaStream_t s)
{
	LOCKED;
	Work	   *w;

	if (s != NULL && s->capture != NULL)
		return refused(s);
	w = work(kind);
	w->event = e;
	e->works++;
	w->no = kind == W_RECORD ? ++e->recorded : e->recorded;
	return put(s, w);
}

cudaError_t
cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
	return put_event(W_RECORD, e, s);
}

cudaError_t
cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
	(void) flags;
	return put_event(W_WAIT, e, s);
}

cudaError_t
cudaEventQuery(cudaEvent_t e)
{
	LOCKED;

	perhaps();
	return e->reached >= e->recorded ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t
cudaEventSynchronize(cudaEvent_t e)
{
	LOCKED;
	uint64_t	no = e->recorded;

	while (e->reached < no)
		if (!step())
			cemu_fail("an event is never reached");
	return cudaSuccess;
}

/* no time is measured */
cudaError_t
cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
	LOCKED;

	if (from->reached == 0 || to->reached == 0)
		return error(cudaErrorNotReady);
	*ms = 0.001f;
	return cudaSuccess;
}

/* ---- graphs: of one stream's kernels, copies and fills ---- */

cudaError_t
cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode)
{
	LOCKED;

	if (s == NULL || s->capture != NULL)
		return error(cudaErrorStreamCaptureUnsupported);
	if (!may_take())
		return error(cudaErrorMemoryAllocation);
	s->capture = need(calloc(1, sizeof(*s->capture)));
	s->capture->refs = 1;
	if (mode != cudaStreamCaptureModeRelaxed)
		capturing = s;
	return cudaSuccess;
}

cudaError_t
cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g)
{
	LOCKED;

	*g = s->capture;
	s->capture = NULL;
	if (capturing == s)
		capturing = NULL;
	if (*g == NULL)
		return error(cudaErrorInvalidValue);
	live++;
	if (!(*g)->invalid)
		return cudaSuccess;
	cudaGraphDestroy(*g);
	*g = NULL;
	return error(cudaErrorStreamCaptureInvalidated);
}

cudaError_t
cudaGraphInstantiate(cudaGraphExec_t *x, cudaGraph_t g, unsigned long long flags)
{
	LOCKED;

	(void) flags;
	if (!may_take())
		return error(cudaErrorMemoryAllocation);
	live++;
	g->refs++;
	*x = g;
	return cudaSuccess;
}

cudaError_t
cudaGraphLaunch(cudaGraphExec_t x, cudaStream_t s)
{
	LOCKED;

	for (size_t i = 0; i < x->works.n; i++)
	{
		x->works.w[i]->refs++;
		put(s, x->works.w[i]);
	}
	return cudaSuccess;
}

cudaError_t
cudaGraphDestroy(cudaGraph_t g)
{
	LOCKED;

	live--;
	if (--g->refs > 0)
		return cudaSuccess;
	for (size_t i = 0; i < g->works.n; i++)
		work_drop(g->works.w[i]);
	free(g->works.w);
	free(g);
	return cudaSuccess;
}

cudaError_t
cudaGraphExecDestroy(cudaGraphExec_t x)
{
	return cudaGraphDestroy(x);
}

/* ---- other functions ---- */

void
cemu_capability(int major, int minor)
{
	capability = major * 10 + minor;
}

void
cemu_devices(int n)
{
	n_devices = n;
}

void
cemu_driver(int version)
{
	driver = version;
}

/* most shared memory that a block may ask for: CUDA's programming guide, technical specifications */
static int
shared_optin(void)
{
	switch (capability)
	{
		case 75:
			return 64 * 1024;
		case 80:
		case 87:
			return 163 * 1024;
		case 86:
		case 89:
		case 120:
			return 99 * 1024;
		default:
			return 227 * 1024;
	}
}

cudaError_t
cudaDeviceGetAttribute(int *v, cudaDeviceAttr a, int d)
{
	if (d < 0 || d >= n_devices)
		return error(cudaErrorInvalidValue);
	switch (a)
	{
		case cudaDevAttrMultiProcessorCount:
			*v = 4;
			break;
		case cudaDevAttrComputeCapabilityMajor:
			*v = capability / 10;
			break;
		case cudaDevAttrComputeCapabilityMinor:
			*v = capability % 10;
			break;
		case cudaDevAttrMaxSharedMemoryPerBlockOptin:
			*v = shared_optin();
			break;
		default:
			return error(cudaErrorInvalidValue);
	}
	return cudaSuccess;
}

cudaError_t
cudaFuncSetAttribute(const void *fn, cudaFuncAttribute a, int v)
{
	LOCKED;
	int			i = 0;

	if (a != cudaFuncAttributeMaxDynamicSharedMemorySize || v < 0 || v > shared_optin())
		return error(cudaErrorInvalidValue);
	if (!may_take())
		return error(cudaErrorMemoryAllocation);
	while (i < n_funcs && funcs[i].fn != fn)
		i++;
	if (i == (int) (sizeof(funcs) / sizeof(funcs[0])))
		cemu_fail("too many kernels with much shared memory");
	funcs[i] = (Func) {fn, v};
	n_funcs += i == n_funcs;
	return cudaSuccess;
}

cudaError_t
cudaGetDeviceCount(int *n)
{
#ifdef CEMU_FAST
	/* as many devices as the variable names; one if it isn't set */
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");

	for (n_devices = 1; visible != NULL && *visible != '\0'; visible++)
		n_devices += *visible == ',';
#endif
	*n = n_devices;
	return driver < RUNTIME ? error(cudaErrorInsufficientDriver) : n_devices == 0 ? error(cudaErrorNoDevice) :
		cudaSuccess;
}

cudaError_t
cudaSetDevice(int d)
{
	if (d < 0 || d >= n_devices)
		return error(cudaErrorInvalidValue);
	device = d;
	return cudaSuccess;
}

cudaError_t
cudaGetDeviceProperties(cudaDeviceProp *p, int d)
{
	size_t		room;

	if (d < 0 || d >= n_devices)
		return error(cudaErrorInvalidValue);
	memset(p, 0, sizeof(*p));
	strcpy(p->name, "CUDA on the CPU");
	snprintf(p->uuid.bytes, sizeof(p->uuid.bytes), "emulated GPU %2d", d % 100);
	cemu_memory_info(&room, &p->totalGlobalMem);
	p->sharedMemPerBlockOptin = (size_t) shared_optin();
	p->major = capability / 10;
	p->minor = capability % 10;
	p->multiProcessorCount = 4;
	p->l2CacheSize = 1 << 20;
	return cudaSuccess;
}

cudaError_t
cudaDriverGetVersion(int *v)
{
	*v = driver;
	return cudaSuccess;
}

cudaError_t
cudaRuntimeGetVersion(int *v)
{
	*v = RUNTIME;
	return cudaSuccess;
}

cudaError_t
cudaPeekAtLastError(void)
{
	return last_error;
}

cudaError_t
cudaGetLastError(void)
{
	cudaError_t e = last_error;

	last_error = cudaSuccess;
	return e;
}

const char *
cudaGetErrorString(cudaError_t e)
{
	switch (e)
	{
		case cudaSuccess:
			return "no error";
		case cudaErrorMemoryAllocation:
			return "out of memory";
		case cudaErrorInvalidConfiguration:
			return "invalid configuration argument";
		case cudaErrorStreamCaptureUnsupported:
			return "operation not permitted when stream is capturing";
		case cudaErrorStreamCaptureInvalidated:
			return "operation failed due to a previous error during capture";
		case cudaErrorNotReady:
			return "device not ready";
		case cudaErrorNoDevice:
			return "no CUDA-capable device is detected";
		case cudaErrorInvalidResourceHandle:
			return "invalid resource handle";
		default:
			return "invalid argument";
	}
}
