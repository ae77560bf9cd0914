/*
 * slot_care.c
 *	  The supervisor repairs slots whose words in the arena are damaged.
 *
 * The engine, the remote program and every backend write to the arena, and a stray write of any of
 * them may hit a slot.  The owner of a slot, its generation and its request are also in VllmShared,
 * so damage can be recognised, and repaired without a restart of the engine.  Once a second every
 * slot is checked:
 *
 *	word			damage									action
 *	attn			set, though the slot is in no ring		the engine is notified again
 *	wake			QUEUED or invalid, should be IDLE		it is reset; the owner's latch is set
 *	gen, state,		an owned slot's conversation can't		the owner's latch is set; it gives the slot up
 *	let_go			end any more							with an error (vcall_poll() sees most of these)
 *	any				the engine does not let go of			a conversation of the next generation is opened
 *					a zombie								and cancelled at once: RETIRED until the engine
 *															has let go of that
 *
 * A word may be wrong for a moment (the engine sets CLOSED before let_go, the supervisor pops a wake
 * before it clears it), so it counts as damaged only if two checks in a row find it wrong (VSD_*).  A
 * repair without damage is harmless: the engine looks at a slot once too often, or lets go of a
 * generation without a request.  The new generation also distinguishes late stores of a thread that
 * slept meanwhile.
 *
 * A zombie that the engine is to finish (VSLOT_POST) is treated this way only if its words are wrong.
 *
 * Tests: tests/t/010_damaged_slots.pl.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "pg/compat.h"
#include "pg/client/slots.h"

#define CHECK_EVERY	1000		/* ms */
#define MAX_LOGGED	32			/* damaged slots that one check logs */

/* doubts of the last check */
#define VSD_ATTN	1
#define VSD_WAKE	2
#define VSD_WORDS	4
#define VSD_ZOMBIE	8

/* Return true if the doubt holds for the second check in a row. */
static bool
again(VllmOwner *o, uint8 what, bool doubt)
{
	bool		twice = doubt && (o->doubts & what) != 0;

	o->doubts = doubt && !twice ? o->doubts | what : o->doubts & ~what;
	return twice;
}

/* Return true if a conversation with these words can go on and end. */
static bool
words_ok(const VllmOwner *o, const WireSlot *w)
{
	uint32		state = atomic_load(&w->state);

	if (atomic_load(&w->gen) != o->gen)
		return state == WS_LOST;
	return state == WS_OPEN || state == WS_LOST ||
		(state == WS_CLOSED && atomic_load(&w->let_go) == o->gen);
}

/*
 * Repair attn and wake that say, for the second check in a row, that the slot is in a ring when it is
 * not: its owner, or a later one, would wait for ever.
 */
static void
check_rings(VllmOwner *o, WireSlot *w, int slot)
{
	uint32		wake = atomic_load(&w->wake);

	if (again(o, VSD_ATTN, atomic_load(&w->attn) != 0))
		vslot_ring_anyhow(slot, o->side);
	/* vslot_drain_wakes() has just emptied the ring */
	if (again(o, VSD_WAKE, wake != WW_IDLE && wake != WW_QUIET))
	{
		(void) atomic_compare_exchange_strong(&w->wake, &wake, WW_IDLE);
		if (o->kind == VO_OWNED)
			SetLatch(compat_proc_latch(o->procno));
	}
}

/* Return true if the slot was not retired before. */
static bool
retire(VllmOwner *o)
{
	bool		news = !o->retired;

	o->retired = true;
	return news;
}

static bool
check_owned(VllmOwner *o, const WireSlot *w)
{
	if (!again(o, VSD_WORDS, !words_ok(o, w)))
		return false;
	o->damaged = true;
	SetLatch(compat_proc_latch(o->procno));
	return retire(o);
}

/* The engine should have let go of the zombie within a moment, unless it has to finish the request. */
static bool
check_zombie(VllmOwner *o, const WireSlot *w, int slot)
{
	bool		wrong = !words_ok(o, w) || (!o->posted && atomic_load(&w->cancel) != 1);

	if (!again(o, VSD_ZOMBIE, wrong || !o->posted))
		return false;
	o->posted = false;
	vslot_new_generation_locked(slot);
	vslot_ring_anyhow(slot, o->side);
	/* without wrong words, the engine may only be slow */
	return wrong && retire(o);
}

/* Check a slot; return true if it is newly found damaged. */
static bool
check_slot(int slot)
{
	VllmOwner  *o = &vllm_shared->owners[slot];
	WireSlot   *w = wire_slot(&vllm_arenas[o->side], slot);

	check_rings(o, w, slot);
	if (o->kind == VO_OWNED)
		return check_owned(o, w);
	if (o->kind == VO_ZOMBIE)
		return check_zombie(o, w, slot);
	o->doubts &= VSD_ATTN | VSD_WAKE;
	o->retired = false;
	return false;
}

void
vslot_care_poll(void)
{
	static TimestampTz last = 0;
	TimestampTz now = GetCurrentTimestamp();
	VllmShared *s = vllm_shared;
	int			damaged[MAX_LOGGED];
	int			n = 0;

	if (last != 0 && now >= last && !TimestampDifferenceExceeds(last, now, CHECK_EVERY))
		return;
	last = now;
	LWLockAcquire(s->lock, LW_EXCLUSIVE);
	for (int i = 0; i < s->n_all; i++)
		if (check_slot(i) && n < MAX_LOGGED)
			damaged[n++] = i;
	LWLockRelease(s->lock);
	for (int i = 0; i < n; i++)
		ereport(LOG,
				(errmsg("request slot %d is damaged", damaged[i]),
				 errdetail("Its words in the memory that is shared with the engine were overwritten. It is "
						   "reused when both sides have released it.")));
}
