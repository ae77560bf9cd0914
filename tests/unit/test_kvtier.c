/*
 * test_kvtier.c
 *	  The offload tier's store: order and limits, what comes back is what was put, holds, resets.
 */
#include "engine/kvtier.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"

#define BYTES 4000
#define SLOT 4096

/* The key and the bytes of block number i. */
static void
key_of(int i, unsigned char key[KVTIER_KEY])
{
	for (int j = 0; j < KVTIER_KEY; j++)
		key[j] = (unsigned char) ((i + 1) * 2654435761u >> (j % 3 * 8)) ^ (unsigned char) (j * 7 + i);
}

static void
fill(int i, unsigned char *to, size_t n)
{
	for (size_t j = 0; j < n; j++)
		to[j] = (unsigned char) ((size_t) i * 131 + j * 7 + (j >> 8));
}

static bool
is_block(int i, const unsigned char *p, size_t n)
{
	for (size_t j = 0; j < n; j++)
		if (p[j] != (unsigned char) ((size_t) i * 131 + j * 7 + (j >> 8)))
			return false;
	return true;
}

static bool
put(KvTier *t, KvTierModel *m, int i, size_t n)
{
	unsigned char key[KVTIER_KEY];
	KvHold	   *h;

	key_of(i, key);
	if ((h = kvtier_put(t, m, key)) == NULL)
		return false;
	fill(i, kvtier_room(h), n);
	kvtier_keep(t, h);
	return true;
}

static KvPlace
place(KvTier *t, KvTierModel *m, int i)
{
	unsigned char key[KVTIER_KEY];

	key_of(i, key);
	return kvtier_find(t, m, key);
}

static KvHold *
fetch(KvTier *t, KvTierModel *m, int i)
{
	unsigned char key[KVTIER_KEY];

	key_of(i, key);
	return kvtier_fetch(t, m, key);
}

static void
check_all(KvTier *t)
{
	Err			e = {0};

	CHECK(kvtier_check(t, &e), "%s", e.msg);
}

static KvTier *
open_tier(size_t memory, const char *dir, uint64_t disk)
{
	KvTierOptions o = {.memory_bytes = memory,.directory = dir,.disk_bytes = disk};
	Err			e = {0};
	KvTier	   *t = kvtier_open(&o, &e);

	CHECK(t != NULL, "%s", e.msg);
	return t;
}

static const unsigned char id1[KVTIER_KEY] = {1};

static void
test_memory(void)
{
	KvTier	   *t = open_tier(4 * SLOT, NULL, 0);
	Err			e;
	KvTierModel *m = kvtier_join(t, id1, BYTES, &e);
	KvTierStats st;
	KvHold	   *h;

	for (int i = 0; i < 4; i++)
		CHECK(put(t, m, i, BYTES), "block %d", i);
	CHECK(!put(t, m, 1, BYTES), "it is there");	/* a use: 0, 2, 3, 1 */
	h = fetch(t, m, 0);			/* held: 2, 3, 1 */
	CHECK(h != NULL && kvtier_state(h) == KVH_READY && is_block(0, kvtier_bytes(h), BYTES), "block 0");
	CHECK(put(t, m, 4, BYTES) && put(t, m, 5, BYTES), "two more");
	CHECK(place(t, m, 2) == KVT_NONE && place(t, m, 3) == KVT_NONE && place(t, m, 1) == KVT_MEMORY, "the oldest go");
	kvtier_stats(t, &st);
	CHECK(st.memory_bytes == 4 * SLOT && st.memory_entries == 4, "%d bytes", (int) st.memory_bytes);
	kvtier_reset(t, m);
	CHECK(place(t, m, 0) == KVT_NONE && place(t, m, 1) == KVT_NONE, "reset");
	CHECK(is_block(0, kvtier_bytes(h), BYTES), "what is held stays");
	kvtier_release(t, h);
	for (int i = 0; i < 1000; i++)
	{
		kvtier_stats(t, &st);
		if (st.memory_bytes == 0)
			break;
		usleep(10000);
	}
	CHECK(st.memory_bytes == 0 && st.memory_entries == 0, "memory goes back");
	CHECK(put(t, m, 1, BYTES) && place(t, m, 1) == KVT_MEMORY, "again");
	check_all(t);
	kvtier_leave(t, m);
	kvtier_close(t);
}

int
main(void)
{
	test_memory();
	return check_done("test_kvtier");
}
