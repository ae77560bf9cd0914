/*
 * offload_copy.c
 *	  Blocks between where K and V are and the store behind the pool.
 *
 * A slot is a block's bytes in pinned memory and the events of its copies, one for each area.  They are used in turn, so
 * the slot that is wanted next is the one that has been under way longest.
 *
 * Tested by tests/unit/test_offload.c, on the CPUs and on the device "host".
 */
#include "engine/offload_copy.h"

#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "engine/devices.h"

#define LOOK_US	20				/* so often it is looked whether a copy is done */

typedef struct Slot
{
	uint8_t    *at;				/* pinned */
	KvHold	   *hold;			/* to be filled from it and kept; NULL: it goes to a block */
	KEvent		events[OFFLOAD_AREAS];
	bool		busy;
} Slot;

struct OffCopy
{
	const Dev  *dev;			/* NULL: CPUs */
	KvTier	   *tier;
	const KvView *areas[OFFLOAD_AREAS];
	size_t		bytes;
	uint8_t    *pinned;
	Slot		slots[OFFCOPY_SLOTS];
	int			next;
};

OffCopy *
offcopy_new(const Dev *dev, KvTier *tier, const KvView *const areas[OFFLOAD_AREAS], Err *e)
{
	OffCopy    *o = mem_zalloc(sizeof(*o));

	o->dev = dev;
	o->tier = tier;
	for (int i = 0; i < OFFLOAD_AREAS; i++)
		if ((o->areas[i] = areas[i]) != NULL)
			o->bytes += areas[i]->block_stride;
	if (dev == NULL)
		return o;
	o->pinned = dev->ops->pin(dev->d, OFFCOPY_SLOTS * o->bytes);
	if (o->pinned == NULL)
	{
		err_set(e, ERR_NOMEM, "could not pin %zu bytes", OFFCOPY_SLOTS * o->bytes);
		mem_free(o);
		return NULL;
	}
	for (int i = 0; i < OFFCOPY_SLOTS; i++)
		o->slots[i].at = o->pinned + (size_t) i * o->bytes;
	return o;
}

void
offcopy_free(OffCopy *o)
{
	if (o == NULL)
		return;
	offcopy_settle(o);
	if (o->dev != NULL)
		o->dev->ops->unpin(o->dev->d, o->pinned);
	mem_free(o);
}

size_t
offcopy_bytes(const OffCopy *o)
{
	return o->bytes;
}

static void
settle(OffCopy *o, Slot *s)
{
	Err			e;

	if (!s->busy)
		return;
	for (int i = 0; i < OFFLOAD_AREAS; i++)
		while (o->areas[i] != NULL && !o->dev->ops->event_done(o->dev->d, s->events[i]))
			usleep(LOOK_US);
	if (s->hold != NULL)
	{
		/* copies of a lost device count as done and have brought nothing, which would be kept for engines to come */
		if (!dev_wait(o->dev, &e))
			devices_lost(e.msg);
		memcpy(kvtier_room(s->hold), s->at, o->bytes);
		kvtier_keep(o->tier, s->hold);
	}
	s->busy = false;
	s->hold = NULL;
}

void
offcopy_settle(OffCopy *o)
{
	for (int i = 0; i < OFFCOPY_SLOTS; i++)
		settle(o, &o->slots[(o->next + i) % OFFCOPY_SLOTS]);
}

static Slot *
take_slot(OffCopy *o)
{
	Slot	   *s = &o->slots[o->next];

	settle(o, s);
	o->next = (o->next + 1) % OFFCOPY_SLOTS;
	s->busy = true;
	return s;
}

void
offcopy_out(OffCopy *o, int32_t block, KvHold *h)
{
	Slot	   *s = o->dev != NULL ? take_slot(o) : NULL;
	uint8_t    *to = s != NULL ? s->at : kvtier_room(h);

	for (int i = 0; i < OFFLOAD_AREAS; i++)
	{
		const KvView *a = o->areas[i];

		if (a == NULL)
			continue;
		if (s == NULL)
			memcpy(to, a->base + (size_t) block * a->block_stride, a->block_stride);
		else
			s->events[i] = o->dev->ops->kv_get(o->dev->d, to, a->base + (size_t) block * a->block_stride, a->block_stride);
		to += a->block_stride;
	}
	if (s == NULL)
		kvtier_keep(o->tier, h);
	else
		s->hold = h;
}

void
offcopy_back(OffCopy *o, int32_t block, const uint8_t *bytes)
{
	Slot	   *s = o->dev != NULL ? take_slot(o) : NULL;

	if (s != NULL)
		bytes = memcpy(s->at, bytes, o->bytes);
	for (int i = 0; i < OFFLOAD_AREAS; i++)
	{
		const KvView *a = o->areas[i];

		if (a == NULL)
			continue;
		if (s == NULL)
			memcpy(a->base + (size_t) block * a->block_stride, bytes, a->block_stride);
		else
			s->events[i] = o->dev->ops->kv_put(o->dev->d, a->base + (size_t) block * a->block_stride, bytes, a->block_stride);
		bytes += a->block_stride;
	}
}
