/*
 * device_placement.c
 *	  Weights and work space in a device's memory (device_placement.h).
 *
 * Tested by tests/unit/kernels/test_moat.c.
 */
#include "model/weights/device_placement.h"

#include "base/alloc.h"
#include "model/weights/bound.h"

/* Translate p, in the arena, to the device's copy. */
static void *
moved(const MArena *a, const DevMem *m, const void *p)
{
	uintptr_t	at = (uintptr_t) p - (uintptr_t) a->base;

	return p != NULL && at < a->size ? (char *) m->base + at : (void *) (uintptr_t) p;
}

/* Translate an address of the device's copy back to the arena. */
static const void *
back(const MArena *a, const DevMem *m, const void *p)
{
	uintptr_t	at = (uintptr_t) p - (uintptr_t) m->base;

	return m->base != NULL && p != NULL && at < m->size ? (const char *) a->base + at : p;
}

const float *
dec_host(const Decoder *d, const float *p)
{
	return back(&d->weights, &d->on_dev, p);
}

KMat
dec_host_mat(const Decoder *d, const KMat *m)
{
	KMat		host = *m;

	host.data = (void *) (uintptr_t) back(&d->weights, &d->on_dev, m->data);
	return host;
}

static void
move_float(const MArena *a, const DevMem *m, float **p)
{
	*p = moved(a, m, *p);
}

/* Register a pointer that moves together with the weights. */
static void
add_slot(Decoder *d, void **p)
{
	uintptr_t	at = (uintptr_t) *p - (uintptr_t) d->weights.base;

	if (*p == NULL || at >= d->weights.size)
		return;					/* an earlier call has registered it */
	d->placed = mem_realloc(d->placed, (d->n_placed + 1) * sizeof(*d->placed));
	d->placed[d->n_placed++] = p;
	*p = (char *) d->on_dev.base + at;
}

bool
dec_place(Decoder *d, Err *e)
{
	if (d->dev == NULL)
		return true;
	if (!devmem_reserve(&d->on_dev, d->dev, d->weights.size, d->huge, "The weights of the model", e))
		return false;
	for (size_t i = 0; i < d->bound->n_linears; i++)
	{
		Linear	   *l = d->bound->linears[i];

		for (int j = 0; j < l->n_mats; j++)
			add_slot(d, &l->mat[j].data);
		add_slot(d, (void **) (void *) &l->bias);
	}
	for (size_t i = 0; i < d->bound->n_vectors; i++)
		add_slot(d, (void **) (void *) d->bound->vectors[i].to);
	d->dev->ops->put(d->dev->d, d->on_dev.base, d->weights.base, d->weights.used);
	return dev_wait(d->dev, e);
}

void
dec_forget_stacks(const Decoder *d)
{
	for (size_t i = 0; d->dev != NULL && i < d->n_stacks; i++)
	{
		const Stack *s = d->stacks[i];
		size_t		n = s->mats != NULL ? (size_t) (s->of[0].n_mats * s->n) : 0;

		if (n == 0)
			continue;
		d->dev->ops->forget(d->dev->d, s->mats, n * sizeof(*s->mats));
		d->dev->ops->forget(d->dev->d, s->bias, n * sizeof(*s->bias));
	}
}

void
dec_leave(Decoder *d)
{
	/* the device's copy may not exist any more: storing the weights in a file drops it, too */
	if (d->dev == NULL || d->on_dev.base == NULL)
		return;
	d->left = d->on_dev.base;
	dec_forget_stacks(d);
	devmem_drop(&d->on_dev);
}

bool
dec_return(Decoder *d, Err *e)
{
	if (d->dev == NULL)
		return true;
	if (!devmem_back(&d->on_dev, e))
		return false;
	for (size_t i = 0; i < d->n_placed && d->left != NULL; i++)
		*d->placed[i] = (char *) d->on_dev.base + ((uintptr_t) *d->placed[i] - (uintptr_t) d->left);
	d->left = NULL;
	for (size_t i = 0; i < d->n_stacks; i++)
		stack_again(d->stacks[i]);
	d->dev->ops->put(d->dev->d, d->on_dev.base, d->weights.base, d->weights.used);
	return dev_wait(d->dev, e);
}

bool
dec_place_work(Decoder *d, const PlacePiece *p, size_t n, Err *e)
{
	if (d->dev == NULL)
		return true;
	if (!devmem_reserve(&d->work_dev, d->dev, d->work.size, d->huge, "The work space of the model", e))
		return false;
	for (size_t i = 0; i < n; i++)
	{
		const float *host = *p[i].at;

		move_float(&d->work, &d->work_dev, p[i].at);
		if (p[i].table > 0)
			d->dev->ops->put(d->dev->d, *p[i].at, host, p[i].table);
	}
	d->ws = moved(&d->work, &d->work_dev, d->ws);
	return dev_wait(d->dev, e);
}
