/*
 * moat.c
 *	  "moat": the CPUs as a device (hostdev.c) whose memory only ops and copies can access.
 *
 * Between ops and copies all of its memory is PROT_NONE.  Code that accesses it directly gets a signal
 * at that line, and so does code that passes a struct with pointers to host floats to an op.  So code
 * that works with this device separates device memory correctly, and has the CPUs' bits.  For tests
 * only: each opening and closing of the memory takes tens of microseconds per MB touched.
 *
 * Tested by tests/unit/kernels/test_moat.c.
 */
#include "hostdev.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE		((size_t) 4096)
#define POISON_MOST ((size_t) 64 << 20)

typedef struct Land
{
	struct Land *next;
	void	   *base;
	size_t		size;			/* whole pages */
} Land;

/* One protection for all such devices of the process: a counter of calls inside. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Land *lands;
static int	inside;

static const KDeviceOps *host;	/* the device that does the work */
static const Kernels *ops;

static void
protect(int how)
{
	for (const Land *l = lands; l != NULL; l = l->next)
		if (mprotect(l->base, l->size, how) != 0)
			abort();
}

static void
enter(void)
{
	pthread_mutex_lock(&lock);
	if (inside++ == 0)
		protect(PROT_READ | PROT_WRITE);
	pthread_mutex_unlock(&lock);
}

static void
leave(void)
{
	pthread_mutex_lock(&lock);
	if (--inside == 0)
		protect(PROT_NONE);
	pthread_mutex_unlock(&lock);
}

/* ---- ops ---- */

#define OP(name, params, args) \
static void \
moat_##name params \
{ \
	enter(); \
	ops->name args; \
	leave(); \
}
#include "ops.def"
#undef OP

/* Check that p, a pointer in a struct of the host, is device memory or NULL. */
static void
need_land(const void *p)
{
	const Land *l;

	pthread_mutex_lock(&lock);
	for (l = lands; l != NULL && (uintptr_t) p - (uintptr_t) l->base >= l->size;)
		l = l->next;
	pthread_mutex_unlock(&lock);
	if (p != NULL && l == NULL)
		abort();
}

static void
moat_attn_checked(KPool *pool, const KvView *kv, int layer, const KRows *r, const float *q, int ldq,
				  int n_heads, const KAttn *a, KOp *out, void *ws)
{
	need_land(a->alibi);
	need_land(a->bias);
	need_land(a->sinks);
	moat_attn(pool, kv, layer, r, q, ldq, n_heads, a, out, ws);
}

static void
moat_scan_checked(KPool *pool, const KState *st, const KRows *r, const KScan *s, float *y, int ldy)
{
	need_land(st->base);
	need_land(s->a);
	need_land(s->d);
	need_land(s->dt_bias);
	moat_scan(pool, st, r, s, y, ldy);
}

static void
moat_moe_route_checked(KPool *pool, const KRoute *c, float *logits, int rows, float *space, int32_t *experts,
					   float *weights)
{
	need_land(c->correction);
	moat_moe_route(pool, c, logits, rows, space, experts, weights);
}

/* one op, as on a GPU, to test the model layer's use of it */
static void
moat_rope_kv(KPool *pool, const KvView *kv, int layer, const KRows *r, float *qkv, int ld, int n_heads,
			 const float *cs, int rot_dim)
{
	float	   *k = qkv + n_heads * kv->head_dim;

	enter();
	ops->rope(pool, qkv, r->n_rows, ld, n_heads + kv->n_kv_heads, kv->head_dim, r->pos, cs, rot_dim);
	ops->kv_write(pool, kv, layer, r, k, ld, k + kv->n_kv_heads * kv->head_dim, ld);
	/* K is undefined afterwards: overwrite it, so that no code relies on it */
	for (int i = 0; i < r->n_rows; i++)
		memset(k + (size_t) i * (size_t) ld, 0xff, (size_t) (kv->n_kv_heads * kv->head_dim) * sizeof(float));
	leave();
}

static const Kernels *
moat_kernels(KDevice *d, KType op_type)
{
	static Kernels k;
	const Kernels *of = host->kernels(d, op_type);

	if (of == NULL)
		return NULL;
	/* only once: other threads may use it already */
	pthread_mutex_lock(&lock);
	if (ops == NULL)
	{
		k = *of;
#define OP(name, params, args) k.name = moat_##name;
#include "ops.def"
#undef OP
		k.attn = moat_attn_checked;
		k.scan = moat_scan_checked;
		k.moe_route = moat_moe_route_checked;
		k.rope_kv = moat_rope_kv;
		ops = of;
	}
	pthread_mutex_unlock(&lock);
	return &k;
}

/* ---- memory ---- */

static void *
moat_alloc(KDevice *d, size_t size, const char *what)
{
	Land	   *l = malloc(sizeof(*l));

	(void) d;
	(void) what;
	if (l == NULL)
		return NULL;
	l->size = (size + PAGE) / PAGE * PAGE;
	l->base = mmap(NULL, l->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (l->base == MAP_FAILED)
	{
		free(l);
		return NULL;
	}
	if (l->size <= POISON_MOST)
		memset(l->base, 0xff, l->size);
	pthread_mutex_lock(&lock);
	l->next = lands;
	lands = l;
	if (inside == 0)
		protect(PROT_NONE);
	pthread_mutex_unlock(&lock);
	return l->base;
}

static void
moat_free(KDevice *d, void *p)
{
	Land	  **at = &lands;
	Land	   *l;

	(void) d;
	if (p == NULL)
		return;
	pthread_mutex_lock(&lock);
	while ((*at)->base != p)
		at = &(*at)->next;
	l = *at;
	*at = l->next;
	pthread_mutex_unlock(&lock);
	munmap(l->base, l->size);
	free(l);
}

/* ---- copies and steps: call the host device with the memory accessible ---- */

static void
moat_put(KDevice *d, void *dst, const void *src, size_t size)
{
	enter();
	host->put(d, dst, src, size);
	leave();
}

static void
moat_get(KDevice *d, void *dst, const void *src, size_t size)
{
	enter();
	host->get(d, dst, src, size);
	leave();
}

static void
moat_fill(KDevice *d, void *dst, int byte, size_t size)
{
	enter();
	host->fill(d, dst, byte, size);
	leave();
}

static bool
moat_wait(KDevice *d, char *err, size_t errlen)
{
	bool		ok;

	enter();
	ok = host->wait(d, err, errlen);
	leave();
	return ok;
}

static KEvent
moat_kv_put(KDevice *d, void *dst, const void *src, size_t size)
{
	return host->kv_put(d, dst, src, size);
}

static KEvent
moat_kv_get(KDevice *d, void *dst, const void *src, size_t size)
{
	KEvent		e;

	enter();
	e = host->kv_get(d, dst, src, size);
	leave();
	return e;
}

static bool
moat_event_done(KDevice *d, KEvent e)
{
	bool		done;

	enter();
	done = host->event_done(d, e);
	leave();
	return done;
}

static void
moat_kv_fence(KDevice *d)
{
	enter();
	host->kv_fence(d);
	leave();
}

static void
moat_step_begin(KDevice *d, const KStep *s)
{
	enter();
	host->step_begin(d, s);
	leave();
}

static void
moat_close(KDevice *d)
{
	enter();
	host->close(d);
	leave();
}

const KDeviceOps *
kdevice_moat(const KDeviceOps *cpus)
{
	static KDeviceOps moat;

	pthread_mutex_lock(&lock);
	if (host == NULL)
	{
		host = cpus;
		moat = *cpus;
		moat.kernels = moat_kernels;
		moat.alloc = moat_alloc;
		moat.free = moat_free;
		moat.put = moat_put;
		moat.get = moat_get;
		moat.fill = moat_fill;
		moat.wait = moat.step_end = moat_wait;
		moat.kv_put = moat_kv_put;
		moat.kv_get = moat_kv_get;
		moat.event_done = moat_event_done;
		moat.kv_fence = moat_kv_fence;
		moat.step_begin = moat_step_begin;
		moat.close = moat_close;
	}
	pthread_mutex_unlock(&lock);
	return &moat;
}
