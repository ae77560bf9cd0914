/*
 * block_copy.c
 *	  Copy blocks between the KV areas and the offload tier.
 *
 * A slot is a block's bytes in pinned memory and the events of its copies, one per area.  Slots are used
 * as a ring, so the next slot is the one that has been in use longest, and copies complete in the order
 * of the slots.
 *
 * On a lost device copies count as done without having copied anything; storing such data would poison
 * later engines, too.  While a step runs, its not being complete shows that the device isn't lost.  After
 * the step the device is asked, which then does not have to wait.
 *
 * Tested by tests/unit/core/offload/test_offload.c, on the CPUs and on the device "host".
 */
#include "core/offload/block_copy.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "runtime/devices.h"

#define LOOK_US	20				/* interval of checking whether a copy is done */
/* bytes of a block that are moved at once while a step runs: delays the detection of the step's end */
#define PIECE	((size_t) 256 << 10)

typedef struct BlockCopySlot
{
	uint8_t    *at;				/* pinned */
	KvHold	   *hold;			/* gets the slot's bytes, and is kept; NULL: the slot is copied to a block */
	KEvent		events[OFFLOAD_AREAS];
	size_t		moved;			/* bytes moved to hold so far */
} BlockCopySlot;

struct OffCopy
{
	const Dev  *dev;			/* NULL = CPUs */
	KvTier	   *tier;
	const KvView *areas[OFFLOAD_AREAS];
	size_t		bytes;
	uint8_t    *pinned;
	BlockCopySlot slots[OFFCOPY_MOST];
	int			n_slots;
	int			oldest;			/* oldest slot in use */
	int			n_busy;			/* number of slots in use from `oldest` on, in a ring */
	bool		unfenced;		/* some copies are not yet waited for by ops */
};

OffCopy *
offcopy_new(const Dev *dev, KvTier *tier, const KvView *const areas[OFFLOAD_AREAS], size_t bytes, Err *e)
{
	OffCopy    *o = mem_zalloc(sizeof(*o));

	o->dev = dev;
	o->tier = tier;
	for (int i = 0; i < OFFLOAD_AREAS; i++)
		if ((o->areas[i] = areas[i]) != NULL)
			o->bytes += areas[i]->block_stride;
	if (dev == NULL)
		return o;
	o->n_slots = bytes / o->bytes < OFFCOPY_SLOTS ? OFFCOPY_SLOTS : bytes / o->bytes > OFFCOPY_MOST ?
		OFFCOPY_MOST : (int) (bytes / o->bytes);
	o->pinned = dev->ops->pin(dev->d, offcopy_memory(o));
	if (o->pinned == NULL)
	{
		err_set(e, ERR_NOMEM, "could not pin %zu bytes", offcopy_memory(o));
		mem_free(o);
		return NULL;
	}
	for (int i = 0; i < o->n_slots; i++)
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

size_t
offcopy_memory(const OffCopy *o)
{
	return (size_t) o->n_slots * o->bytes;
}

static bool
is_copied(const OffCopy *o, const BlockCopySlot *s)
{
	for (int i = 0; i < OFFLOAD_AREAS; i++)
		if (o->areas[i] != NULL && !o->dev->ops->event_done(o->dev->d, s->events[i]))
			return false;
	return true;
}

/* Move so many more bytes that have arrived to the tier; after the last ones the entry is kept. */
static void
move(const OffCopy *o, BlockCopySlot *s, size_t n)
{
	ASSERT(s->hold != NULL && s->moved < o->bytes);
	n = n < o->bytes - s->moved ? n : o->bytes - s->moved;
	memcpy((uint8_t *) kvtier_room(s->hold) + s->moved, s->at + s->moved, n);
	s->moved += n;
	if (s->moved < o->bytes)
		return;
	kvtier_keep(o->tier, s->hold);
	s->hold = NULL;
}

/* Release the oldest slot. */
static void
give_back(OffCopy *o)
{
	ASSERT(o->n_busy > 0);
	o->oldest = (o->oldest + 1) % o->n_slots;
	o->n_busy--;
	o->unfenced = o->unfenced && o->n_busy > 0;
}

static void
finish_oldest(OffCopy *o)
{
	BlockCopySlot *s = &o->slots[o->oldest];
	Err			e;

	while (!is_copied(o, s))
		usleep(LOOK_US);
	if (s->hold != NULL)
	{
		if (!dev_wait(o->dev, &e))
			devices_lost(e.msg);
		move(o, s, o->bytes);
	}
	give_back(o);
}

void
offcopy_settle(OffCopy *o)
{
	while (o->n_busy > 0)
		finish_oldest(o);
}

void
offcopy_fence(OffCopy *o)
{
	if (o->unfenced)
		o->dev->ops->kv_fence(o->dev->d);
	o->unfenced = false;
}

bool
offcopy_work(OffCopy *o)
{
	BlockCopySlot *s = &o->slots[o->oldest];

	if (o->n_busy == 0 || !is_copied(o, s) || o->dev->ops->step_done(o->dev->d))
		return false;
	if (s->hold != NULL)
		move(o, s, PIECE);
	if (s->hold == NULL)
		give_back(o);
	return true;
}

static BlockCopySlot *
take_slot(OffCopy *o)
{
	BlockCopySlot *s;

	if (o->n_busy == o->n_slots)
		finish_oldest(o);
	/* otherwise another block's data would be overwritten */
	ALWAYS(o->n_busy < o->n_slots);
	s = &o->slots[(o->oldest + o->n_busy++) % o->n_slots];
	s->hold = NULL;
	s->moved = 0;
	o->unfenced = true;
	return s;
}

void
offcopy_out(OffCopy *o, int32_t block, KvHold *h)
{
	BlockCopySlot *s = o->dev != NULL ? take_slot(o) : NULL;
	uint8_t    *to = s != NULL ? s->at : kvtier_room(h);

	for (int i = 0; i < OFFLOAD_AREAS; i++)
	{
		const KvView *a = o->areas[i];

		if (a == NULL)
			continue;
		if (s == NULL)
			memcpy(to, a->base + (size_t) block * a->block_stride, a->block_stride);
		else
			s->events[i] = o->dev->ops->kv_get(o->dev->d, to, a->base + (size_t) block * a->block_stride,
											   a->block_stride);
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
	BlockCopySlot *s = o->dev != NULL ? take_slot(o) : NULL;

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
			s->events[i] = o->dev->ops->kv_put(o->dev->d, a->base + (size_t) block * a->block_stride, bytes,
											   a->block_stride);
		bytes += a->block_stride;
	}
}
