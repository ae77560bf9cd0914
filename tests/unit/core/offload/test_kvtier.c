/*
 * test_kvtier.c
 *	  The offload tier's store: order and limits, blocks come back unchanged, holds, resets; files that
 *	  are found again, are damaged, can't be written, belong to another store; many threads.
 *
 * Random operations are compared with a naive model of the memory, a list in order of use.  Every block
 * that comes back is compared byte for byte with the content that belongs to its number.
 */
#include "core/offload/tier.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/unit/check.h"

#define BYTES 4000
#define SLOT 4096

/* Make the key and the bytes of block number i. */
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
	CHECK(!put(t, m, 1, BYTES), "it is there");	/* in order of use: 0, 2, 3, 1 */
	h = fetch(t, m, 0);			/* held: 2, 3, 1 */
	CHECK(h != NULL && kvtier_state(h) == KVH_READY && is_block(0, kvtier_bytes(h), BYTES), "block 0");
	CHECK(put(t, m, 4, BYTES) && put(t, m, 5, BYTES), "two more");
	CHECK(place(t, m, 2) == KVT_NONE && place(t, m, 3) == KVT_NONE && place(t, m, 1) == KVT_MEMORY,
		  "the oldest go");
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

/* ---- random operations against a naive model ---- */

#define RANDOM_KEYS 60

static uint32_t rnd_state = 12345;

static uint32_t
rnd(uint32_t n)
{
	rnd_state = rnd_state * 1664525u + 1013904223u;
	return (rnd_state >> 8) % n;
}

/* The expected memory: entries in order of use, oldest first. */
typedef struct Naive
{
	int			model[RANDOM_KEYS * 2];
	int			key[RANDOM_KEYS * 2];
	int			n;
	size_t		slot[2];
	int			warm[2];		/* slots that have memory, but no entry */
	size_t		memory;
	size_t		limit;
} Naive;

static int
naive_at(const Naive *v, int model, int key)
{
	for (int i = 0; i < v->n; i++)
		if (v->model[i] == model && v->key[i] == key)
			return i;
	return -1;
}

static void
naive_remove(Naive *v, int at)
{
	v->n--;
	memmove(v->model + at, v->model + at + 1, (size_t) (v->n - at) * sizeof(int));
	memmove(v->key + at, v->key + at + 1, (size_t) (v->n - at) * sizeof(int));
}

static void
naive_add(Naive *v, int model, int key)
{
	v->model[v->n] = model;
	v->key[v->n++] = key;
}

/* held: an entry that may not be evicted; -1 = none.  Returns false if there is no space. */
static bool
naive_room(Naive *v, int model, int held_model, int held_key)
{
	while (v->warm[model] == 0 && v->memory + v->slot[model] > v->limit)
	{
		int			at = 0;

		if (v->warm[1 - model] > 0)
		{
			v->warm[1 - model]--;
			v->memory -= v->slot[1 - model];
			continue;
		}
		while (at < v->n && v->model[at] == held_model && v->key[at] == held_key)
			at++;
		if (at == v->n)
			return false;
		v->warm[v->model[at]]++;
		naive_remove(v, at);
	}
	if (v->warm[model] > 0)
		v->warm[model]--;
	else
		v->memory += v->slot[model];
	return true;
}

static void
test_random(void)
{
	static const size_t bytes[2] = {4000, 9000};
	static const unsigned char ids[2][KVTIER_KEY] = {{1}, {2}};
	Naive		v = {.slot = {4096, 12288},.limit = 100000};
	KvTier	   *t = open_tier(v.limit, NULL, 0);
	KvTierModel *m[2];
	Err			e;
	KvHold	   *held = NULL;
	int			held_model = -1;
	int			held_key = -1;
	int			wrong = 0;

	for (int i = 0; i < 2; i++)
		m[i] = kvtier_join(t, ids[i], bytes[i], &e);
	CHECK(kvtier_join(t, ids[0], bytes[0], &e) == m[0], "the same model");
	/* keeps each model's memory from being freed when its last entry is evicted */
	for (int i = 0; i < 2; i++)
		put(t, m[i], RANDOM_KEYS + i, bytes[i]);
	for (int i = 0; i < 2; i++)
	{
		naive_room(&v, i, -1, -1);
		naive_add(&v, i, RANDOM_KEYS + i);
	}
	for (int n = 0; n < 100000; n++)
	{
		int			k = (int) rnd(2);
		int			i = (int) rnd(RANDOM_KEYS);
		int			at = naive_at(&v, k, i);
		KvHold	   *h;

		switch (rnd(4))
		{
			case 0:
				if (at >= 0)
				{
					naive_remove(&v, at);
					naive_add(&v, k, i);
					wrong += put(t, m[k], i, bytes[k]);
				}
				else if (naive_room(&v, k, held_model, held_key))
				{
					naive_add(&v, k, i);
					wrong += !put(t, m[k], i, bytes[k]);
				}
				break;
			case 1:
				wrong += (place(t, m[k], i) == KVT_MEMORY) != (at >= 0);
				break;
			case 2:
				h = fetch(t, m[k], i);
				wrong += (h != NULL) != (at >= 0);
				if (h == NULL)
					break;
				wrong += kvtier_state(h) != KVH_READY || !is_block(i, kvtier_bytes(h), bytes[k]);
				kvtier_release(t, h);
				naive_remove(&v, at);
				naive_add(&v, k, i);
				break;
			default:			/* hold an entry for a while */
				if (held != NULL)
				{
					wrong += !is_block(held_key, kvtier_bytes(held), bytes[held_model]);
					kvtier_release(t, held);
					naive_remove(&v, naive_at(&v, held_model, held_key));
					naive_add(&v, held_model, held_key);
					held = NULL;
					held_model = held_key = -1;
				}
				else if ((held = fetch(t, m[k], i)) != NULL)
				{
					held_model = k;
					held_key = i;
				}
				break;
		}
		/* the last entry of a model would free its memory, at an unpredictable time on the store's thread */
		for (int j = 0; j < 2; j++)
			if (rnd(4) == 0 && naive_at(&v, j, RANDOM_KEYS + j) >= 0 && held_key != RANDOM_KEYS + j)
			{
				put(t, m[j], RANDOM_KEYS + j, bytes[j]);
				naive_remove(&v, naive_at(&v, j, RANDOM_KEYS + j));
				naive_add(&v, j, RANDOM_KEYS + j);
			}
		if (n % 1000 == 0)
		{
			KvTierStats st;

			check_all(t);
			kvtier_stats(t, &st);
			wrong += st.memory_bytes != v.memory || st.memory_entries != (uint64_t) v.n ||
				st.memory_bytes > v.limit;
		}
		if (wrong > 0)
			break;
	}
	CHECK(wrong == 0, "the naive model knows better");
	if (held != NULL)
		kvtier_release(t, held);
	kvtier_close(t);
}

/* ---- files ---- */

static char dir[64];

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void) st, (void) type, (void) f;
	return remove(path);
}

static void
clear_dir(void)
{
	if (dir[0] != '\0')
		nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *
new_dir(void)
{
	clear_dir();
	strcpy(dir, "/tmp/vllm_kvtier_XXXXXX");
	if (mkdtemp(dir) == NULL)
		exit(2);
	return dir;
}

/* Count the files of the one model; -1: there is no folder. */
static int
count_files(char *first)
{
	char		path[512];
	DIR		   *d = opendir(dir);
	struct dirent *de;
	int			n = -1;

	while (d != NULL && (de = readdir(d)) != NULL)
		if (strlen(de->d_name) > 64)
			snprintf(path, sizeof(path), "%s/%s", dir, de->d_name), n = 0;
	closedir(d);
	if (n < 0)
		return n;
	d = opendir(path);
	while ((de = readdir(d)) != NULL)
		if (strlen(de->d_name) == 64)
		{
			n++;
			if (first != NULL)
				snprintf(first, 1024, "%s/%s", path, de->d_name);
		}
	closedir(d);
	return n;
}

static bool
wait_files(KvTier *t, KvFilesState state)
{
	KvTierStats st;

	for (int i = 0; i < 2000; i++)
	{
		kvtier_stats(t, &st);
		if (st.files == state)
			return true;
		usleep(5000);
	}
	return false;
}

static int64_t
soon(void)
{
	return clock_us() + 20 * 1000000;
}

/* Wait for the block; returns whether it has the right content.  Releases it. */
static bool
reads_back(KvTier *t, KvTierModel *m, int i, size_t n)
{
	KvHold	   *h = fetch(t, m, i);
	bool		ok;

	if (h == NULL)
		return false;
	while (kvtier_state(h) == KVH_COMING)
		usleep(200);
	ok = kvtier_state(h) == KVH_READY && is_block(i, kvtier_bytes(h), n);
	kvtier_release(t, h);
	return ok;
}

static void
test_restart(void)
{
	KvTier	   *t = open_tier(64 * SLOT, new_dir(), 1000 * SLOT * 2);
	Err			e;
	KvTierModel *m = kvtier_join(t, id1, BYTES, &e);
	KvTierStats st;
	unsigned char secret[KVTIER_KEY];
	char		path[256];
	struct stat fs;
	int			back = 0;

	memcpy(secret, kvtier_secret(t), KVTIER_KEY);
	CHECK(wait_files(t, KVF_READY), "open");
	for (int i = 0; i < 64; i++)
	{
		put(t, m, i, BYTES);
		if (i % 8 == 0)
			usleep(1000);
	}
	/* at least a quarter is written ahead */
	for (int i = 0; i < 2000; i++)
	{
		kvtier_stats(t, &st);
		if (st.n_written >= 16)
			break;
		usleep(1000);
	}
	CHECK(st.n_written >= 16 && st.n_written < 64 && st.n_dropped == 0, "%d written, %d dropped",
		  (int) st.n_written, (int) st.n_dropped);
	CHECK(kvtier_flush(t, soon()) == 0, "flush");
	kvtier_stats(t, &st);
	CHECK(st.n_written == 64 && st.file_entries == 64 && st.file_bytes == 64 * 2 * SLOT && st.unwritten == 0,
		  "%d written", (int) st.n_written);
	CHECK(count_files(path) == 64, "%d files", count_files(NULL));
	CHECK(stat(path, &fs) == 0 && (fs.st_mode & 0777) == 0600, "0600");
	check_all(t);
	kvtier_close(t);

	snprintf(path, sizeof(path), "%s/key", dir);
	CHECK(stat(path, &fs) == 0 && (fs.st_mode & 0777) == 0600 && fs.st_size == 32, "the key");
	t = open_tier(8 * SLOT, dir, 1000 * SLOT * 2);
	CHECK(memcmp(secret, kvtier_secret(t), KVTIER_KEY) == 0, "the same secret");
	m = kvtier_join(t, id1, BYTES, &e);
	CHECK(wait_files(t, KVF_READY), "open");
	for (int i = 0; i < 64; i++)
	{
		CHECK(place(t, m, i) == KVT_FILE, "block %d", i);
		back += reads_back(t, m, i, BYTES);
		CHECK(place(t, m, i) == KVT_MEMORY, "block %d", i);
	}
	CHECK(back == 64, "%d came back", back);
	kvtier_stats(t, &st);
	CHECK(st.n_read == 64 && st.n_file_hits == 64 && st.memory_bytes == 8 * SLOT && st.read_rate > 0,
		  "%d read", (int) st.n_read);
	check_all(t);
	/* a block that is in a file isn't put again; one that is evicted from memory is still in its file */
	CHECK(!put(t, m, 3, BYTES) && place(t, m, 3) == KVT_FILE, "it is there");
	kvtier_reset(t, m);
	CHECK(place(t, m, 3) == KVT_NONE && !reads_back(t, m, 63, BYTES), "reset");
	for (int i = 0; i < 2000 && count_files(NULL) > 0; i++)
		usleep(5000);
	CHECK(count_files(NULL) == 0, "a reset removes the files");
	CHECK(put(t, m, 3, BYTES) && kvtier_flush(t, soon()) == 0 && count_files(NULL) == 1, "again");
	kvtier_shed(t, NULL);
	CHECK(place(t, m, 3) == KVT_FILE && reads_back(t, m, 3, BYTES), "and back");
	kvtier_close(t);
}

/*
 * Reads that no request waits for any more are not counted, since otherwise no later request would wait
 * for them.
 */
static void
test_given_up(void)
{
	enum
	{
		N = 64
	};
	KvTier	   *t = open_tier(N * SLOT, new_dir(), 1000 * SLOT * 2);
	Err			e;
	KvTierModel *m = kvtier_join(t, id1, BYTES, &e);
	KvHold	   *h[N];

	CHECK(wait_files(t, KVF_READY), "open");
	for (int i = 0; i < N; i++)
		put(t, m, i, BYTES);
	CHECK(kvtier_flush(t, soon()) == 0, "flush");
	kvtier_close(t);
	t = open_tier(N * SLOT, dir, 1000 * SLOT * 2);
	m = kvtier_join(t, id1, BYTES, &e);
	CHECK(wait_files(t, KVF_READY), "open");
	for (int round = 0; round < 10; round++)
	{
		for (int i = 0; i < N; i++)
			h[i] = fetch(t, m, i);
		for (int i = 0; i < N; i++)
			if (h[i] != NULL)
				kvtier_release(t, h[i]);
		kvtier_shed(t, NULL);
	}
	for (int i = 0; i < 2000 && kvtier_read_wait(t, 0) > 0; i++)
		usleep(1000);
	CHECK(kvtier_read_wait(t, 0) == 0, "%g s for nothing", kvtier_read_wait(t, 0));
	check_all(t);
	kvtier_close(t);
}

/* A block that must get a file leaves memory when it is written, unless its model is used meanwhile. */
static void
test_shed(void)
{
	static const unsigned char id2[KVTIER_KEY] = {2};
	KvTier	   *t = open_tier(64 * SLOT, new_dir(), 1000 * SLOT * 2);
	Err			e;
	KvTierModel *m = kvtier_join(t, id1, BYTES, &e);
	KvTierModel *other = kvtier_join(t, id2, BYTES, &e);
	KvTierStats st;

	CHECK(wait_files(t, KVF_READY), "open");
	for (int i = 0; i < 20; i++)
	{
		put(t, m, i, BYTES);
		put(t, other, i, BYTES);
	}
	kvtier_shed(t, m);
	for (int i = 0; i < 2000; i++)
	{
		kvtier_stats(t, &st);
		if (st.memory_entries == 20 && st.unwritten == 0)
			break;
		usleep(5000);
	}
	CHECK(st.memory_entries == 20 && st.file_entries == 40 && st.n_dropped == 0, "%d in memory, %d in files",
		  (int) st.memory_entries, (int) st.file_entries);
	for (int i = 0; i < 20; i++)
		CHECK(place(t, m, i) == KVT_FILE && place(t, other, i) == KVT_MEMORY && reads_back(t, m, i, BYTES),
			  "block %d", i);
	put(t, m, 20, BYTES);
	CHECK(kvtier_flush(t, soon()) == 0 && place(t, m, 20) == KVT_MEMORY, "it is used again");
	check_all(t);
	kvtier_close(t);
}

/* The least recently used files are removed, by this process's uses and by those of the process before. */
static void
test_disk_limit(void)
{
	uint64_t	limit = 10 * 2 * SLOT;
	KvTier	   *t = open_tier(4 * SLOT, new_dir(), limit);
	Err			e;
	KvTierModel *m = kvtier_join(t, id1, BYTES, &e);
	KvTierStats st;

	CHECK(wait_files(t, KVF_READY), "open");
	for (int i = 0; i < 20; i++)
	{
		put(t, m, i, BYTES);
		CHECK(kvtier_flush(t, soon()) == 0, "flush");
		if (i >= 2)
			CHECK(reads_back(t, m, 2, BYTES), "in use");
		kvtier_stats(t, &st);
		CHECK(st.file_bytes <= limit && count_files(NULL) <= 10, "%d files", count_files(NULL));
	}
	kvtier_shed(t, m);
	for (int i = 0; i < 20; i++)
		CHECK((place(t, m, i) == KVT_FILE) == (i >= 11 || i == 2), "block %d", i);
	CHECK(reads_back(t, m, 13, BYTES) && reads_back(t, m, 11, BYTES), "used");
	check_all(t);
	kvtier_close(t);

	/* half as much: by the time of their last use */
	t = open_tier(4 * SLOT, dir, limit / 2);
	m = kvtier_join(t, id1, BYTES, &e);
	CHECK(wait_files(t, KVF_READY), "open");
	for (int i = 0; i < 2000 && count_files(NULL) > 5; i++)
		usleep(5000);
	CHECK(count_files(NULL) == 5 && place(t, m, 11) == KVT_FILE && place(t, m, 13) == KVT_FILE &&
		  place(t, m, 19) == KVT_FILE && place(t, m, 14) == KVT_NONE, "%d files", count_files(NULL));
	kvtier_stats(t, &st);
	CHECK(st.n_removed == 5, "%d", (int) st.n_removed);
	/* no file at all fits */
	kvtier_close(t);
	t = open_tier(4 * SLOT, dir, 100);
	m = kvtier_join(t, id1, BYTES, &e);
	put(t, m, 50, BYTES);
	CHECK(kvtier_flush(t, soon()) == 0 && place(t, m, 50) == KVT_MEMORY, "memory only");
	CHECK(count_files(NULL) <= 0, "%d files", count_files(NULL));
	kvtier_close(t);
}

/* Ways to damage an entry's file; the last one leaves it unchanged. */
typedef enum Damage
{
	TORN, EMPTY, LONGER, MAGIC, VERSION, ORDER, LENGTH, SUM, ID, KEY, UNUSED, FIRST, LAST, HOLE, LINK, WIDE,
	GONE, NO_DAMAGE
} Damage;

static void
damage(const char *path, Damage what)
{
	static const off_t at[] = {[MAGIC] = 1,[VERSION] = 8,[ORDER] = 12,[LENGTH] = 17,[SUM] = 30,[ID] = 32,
							   [KEY] = 70,[UNUSED] = 127,[FIRST] = 128,
	[LAST] = 128 + BYTES - 1};
	int			fd = open(path, O_RDWR);
	unsigned char c;
	static const char zeros[512];
	char		other[1100];

	if (what == TORN || what == EMPTY || what == LONGER)
		CHECK(ftruncate(fd, what == TORN ? 2000 : what == EMPTY ? 0 : 128 + BYTES + 1) == 0, "truncate");
	else if (what == HOLE)
		CHECK(pwrite(fd, zeros, sizeof(zeros), 1000) == sizeof(zeros), "write");
	else if (what == LINK)
	{
		snprintf(other, sizeof(other), "%s.other", path);
		CHECK(rename(path, other) == 0 && symlink(other, path) == 0, "link");
	}
	else if (what == WIDE)
		CHECK(fchmod(fd, 0644) == 0, "chmod");
	else if (what == GONE)
		CHECK(unlink(path) == 0, "unlink");
	else if (what != NO_DAMAGE)
	{
		CHECK(pread(fd, &c, 1, at[what]) == 1, "read");
		c ^= (unsigned char) (1 << rnd(8));
		CHECK(pwrite(fd, &c, 1, at[what]) == 1, "write");
	}
	close(fd);
}

static void
test_damage(void)
{
	char		path[1024];
	struct stat fs;
	Err			e;

	for (int what = 0; what <= NO_DAMAGE; what++)
		for (int before = 0; before < 2; before++)	/* damaged before or after the store is opened */
		{
			KvTier	   *t = open_tier(8 * SLOT, new_dir(), 100 * SLOT);
			KvTierModel *m = kvtier_join(t, id1, BYTES, &e);
			KvTierStats st;

			CHECK(wait_files(t, KVF_READY), "open");
			put(t, m, 1, BYTES);
			CHECK(kvtier_flush(t, soon()) == 0 && count_files(path) == 1, "flush");
			kvtier_shed(t, NULL);
			if (before)
			{
				kvtier_close(t);
				damage(path, (Damage) what);
				t = open_tier(8 * SLOT, dir, 100 * SLOT);
				m = kvtier_join(t, id1, BYTES, &e);
				CHECK(wait_files(t, KVF_READY), "open");
			}
			else
				damage(path, (Damage) what);
			CHECK(reads_back(t, m, 1, BYTES) == (what == NO_DAMAGE), "damage %d is not seen", what);
			CHECK((place(t, m, 1) == KVT_NONE) == (what != NO_DAMAGE), "damage %d is not remembered", what);
			kvtier_stats(t, &st);
			CHECK(before || st.n_damaged == (what != NO_DAMAGE && what != GONE), "damage %d: %d", what,
				  (int) st.n_damaged);
			check_all(t);
			/* it can be put again */
			put(t, m, 1, BYTES);
			CHECK(kvtier_flush(t, soon()) == 0, "flush");
			kvtier_shed(t, NULL);
			CHECK(reads_back(t, m, 1, BYTES), "after damage %d", what);
			CHECK(lstat(path, &fs) == 0 && S_ISREG(fs.st_mode) && (fs.st_mode & 0777) == 0600,
				  "a file again");
			kvtier_close(t);
		}
}

/* Foreign files stay; the rest of an interrupted write is removed. */
static void
test_foreign(void)
{
	static const char *const stay[] = {"notes.txt", "%s/notes", "%s/00ff.block",
									   "%s/FF00000000000000000000000000000000000000000000000000000000000000"};
	KvTier	   *t = open_tier(8 * SLOT, new_dir(), 100 * SLOT);
	Err			e;
	KvTierModel *m = kvtier_join(t, id1, BYTES, &e);
	char		path[1024];
	char		folder[1024];
	char		name[2048];

	CHECK(wait_files(t, KVF_READY), "open");
	put(t, m, 1, BYTES);
	CHECK(kvtier_flush(t, soon()) == 0 && count_files(path) == 1, "flush");
	kvtier_close(t);
	*strrchr(path, '/') = '\0';
	strcpy(folder, path);
	for (int i = 0; i < 4; i++)
	{
		snprintf(name, sizeof(name), i == 0 ? "%s/notes.txt" : stay[i], i == 0 ? dir : folder);
		close(open(name, O_CREAT | O_WRONLY, 0600));
	}
	snprintf(name, sizeof(name), "%s/new", folder);
	close(open(name, O_CREAT | O_WRONLY, 0600));
	snprintf(name, sizeof(name), "%s/lost+found", dir);
	mkdir(name, 0700);
	t = open_tier(8 * SLOT, dir, 0);	/* no space for any file of ours */
	CHECK(wait_files(t, KVF_READY), "open");
	for (int i = 0; i < 2000 && count_files(NULL) > 1; i++)
		usleep(5000);
	for (int i = 0; i < 4; i++)
	{
		snprintf(name, sizeof(name), i == 0 ? "%s/notes.txt" : stay[i], i == 0 ? dir : folder);
		CHECK(access(name, F_OK) == 0, "%s has gone", name);
	}
	snprintf(name, sizeof(name), "%s/new", folder);
	CHECK(access(name, F_OK) != 0, "a write that did not end");
	CHECK(count_files(NULL) == 1, "ours are gone");	/* the file in capitals has a name of the same length */
	kvtier_close(t);
}

static void
refused(const char *path, ErrClass cls, const char *text)
{
	KvTierOptions o = {.memory_bytes = 8 * SLOT,.directory = path,.disk_bytes = 100 * SLOT};
	Err			e = {0};
	KvTier	   *t = kvtier_open(&o, &e);

	CHECK(t == NULL && e.cls == cls && strstr(e.msg, text) != NULL && e.hint[0] != '\0', "%s: %s", path,
		  e.msg);
	kvtier_close(t);
}

static void
test_directory(void)
{
	char		path[256];
	Err			e;
	KvTier	   *t;
	KvTierModel *m;
	struct stat fs;

	new_dir();
	chmod(dir, 0750);
	refused(dir, ERR_INVALID, "open to others");
	chmod(dir, 0700);
	snprintf(path, sizeof(path), "%s/no/folder", dir);
	refused(path, ERR_IO, "could not open directory");
	snprintf(path, sizeof(path), "%s/key", dir);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	refused(dir, ERR_INVALID, "key\" can't be used");	/* empty */
	unlink(path);
	CHECK(symlink("/etc/hostname", path) == 0, "link");
	refused(dir, ERR_INVALID, "key\" can't be used");
	unlink(path);
	refused(path + 1, ERR_IO, "could not open directory");
	if (geteuid() == 0)
	{
		CHECK(chown(dir, 65534, 65534) == 0, "chown");
		refused(dir, ERR_INVALID, "another owner");
		CHECK(chown(dir, 0, 0) == 0, "chown");
	}
	else
		check_skip(1, "not root: whose the directory is");
	snprintf(path, sizeof(path), "%s/made", dir);
	t = open_tier(8 * SLOT, path, 100 * SLOT);
	CHECK(stat(path, &fs) == 0 && (fs.st_mode & 0777) == 0700, "it is made");
	CHECK(kvtier_join(t, id1, 8 * SLOT + 1, &e) == NULL && e.cls == ERR_INVALID &&
		  strstr(e.hint, "kv_offload_bytes") != NULL, "%s", e.msg);
	m = kvtier_join(t, id1, 8 * SLOT, &e);
	CHECK(m != NULL && put(t, m, 1, 8 * SLOT) && put(t, m, 2, 8 * SLOT), "one block fits");
	kvtier_leave(t, m);
	kvtier_close(t);
}

/*
 * Two stores with one directory: the second one has only memory until the first one has ended; then it
 * finds the files.
 */
static void
test_two(void)
{
	KvTier	   *a = open_tier(8 * SLOT, new_dir(), 100 * SLOT);
	KvTier	   *b = open_tier(8 * SLOT, dir, 100 * SLOT);
	Err			e;
	KvTierModel *ma = kvtier_join(a, id1, BYTES, &e);
	KvTierModel *mb = kvtier_join(b, id1, BYTES, &e);
	KvTierStats st;

	CHECK(memcmp(kvtier_secret(a), kvtier_secret(b), KVTIER_KEY) == 0, "one secret");
	for (int i = 0; i < 2000; i++)	/* either may get the directory first */
	{
		kvtier_stats(a, &st);
		if (st.files == KVF_READY)
			break;
		kvtier_stats(b, &st);
		if (st.files == KVF_READY)
		{
			KvTier	   *t = a;
			KvTierModel *m = ma;

			a = b, b = t;
			ma = mb, mb = m;
			break;
		}
		usleep(5000);
	}
	usleep(100000);
	kvtier_stats(b, &st);
	CHECK(st.files == KVF_LOCKED, "state %d", st.files);
	for (int i = 0; i < 6; i++)
	{
		put(a, ma, i, BYTES);
		put(b, mb, i + 3, BYTES);
	}
	CHECK(kvtier_flush(a, soon()) == 0 && kvtier_flush(b, soon()) == 6, "flush");
	CHECK(count_files(NULL) == 6, "%d files", count_files(NULL));
	kvtier_close(a);
	CHECK(wait_files(b, KVF_READY), "its turn");
	kvtier_stats(b, &st);
	CHECK(st.unwritten == 3, "3, 4 and 5 have files: %d", (int) st.unwritten);
	CHECK(reads_back(b, mb, 0, BYTES) && reads_back(b, mb, 2, BYTES) && reads_back(b, mb, 4, BYTES) &&
		  reads_back(b, mb, 8, BYTES), "all of them");
	check_all(b);
	CHECK(kvtier_flush(b, soon()) == 0 && count_files(NULL) == 9, "%d files", count_files(NULL));
	kvtier_close(b);
}

/* A reset also applies to the files that another store has open. */
static void
test_reset_locked(void)
{
	KvTier	   *a = open_tier(8 * SLOT, new_dir(), 100 * SLOT);
	KvTier	   *b;
	Err			e;
	KvTierModel *ma = kvtier_join(a, id1, BYTES, &e);
	KvTierModel *mb;

	CHECK(wait_files(a, KVF_READY), "open");
	b = open_tier(8 * SLOT, dir, 100 * SLOT);
	mb = kvtier_join(b, id1, BYTES, &e);
	for (int i = 0; i < 4; i++)
		put(a, ma, i, BYTES);
	CHECK(kvtier_flush(a, soon()) == 0 && count_files(NULL) == 4, "%d files", count_files(NULL));
	kvtier_reset(b, NULL);
	put(b, mb, 3, BYTES);
	put(b, mb, 4, BYTES);
	kvtier_close(a);
	CHECK(wait_files(b, KVF_READY), "its turn");
	CHECK(place(b, mb, 0) == KVT_NONE && place(b, mb, 2) == KVT_NONE, "what was there before");
	CHECK(reads_back(b, mb, 3, BYTES) && reads_back(b, mb, 4, BYTES), "what was put since");
	check_all(b);
	for (int i = 0; i < 2000 && count_files(NULL) > 1; i++)
		usleep(5000);
	CHECK(kvtier_flush(b, soon()) == 0 && count_files(NULL) == 2, "%d files", count_files(NULL));
	kvtier_close(b);
}

/* ---- failures ---- */

/* Files can't be written: memory still works, and so do files when they can be written again. */
static void
test_write_fails(void)
{
	struct rlimit old;
	KvTier	   *t = open_tier(8 * SLOT, new_dir(), 100 * SLOT);
	Err			e;
	KvTierModel *m = kvtier_join(t, id1, BYTES, &e);
	KvTierStats st;

	CHECK(wait_files(t, KVF_READY), "open");
	getrlimit(RLIMIT_FSIZE, &old);
	CHECK(setrlimit(RLIMIT_FSIZE, &(struct rlimit) {1000, old.rlim_max}) == 0, "a limit");
	for (int i = 0; i < 4; i++)
		put(t, m, i, BYTES);
	CHECK(kvtier_flush(t, soon()) == 4, "nothing is written");
	kvtier_stats(t, &st);
	CHECK(st.files == KVF_DOWN && st.n_errors == 1 && st.n_written == 0 && st.file_bytes == 0, "%d errors",
		  (int) st.n_errors);
	CHECK(count_files(NULL) == 0, "%d files", count_files(NULL));
	for (int i = 4; i < 20; i++)
		CHECK(put(t, m, i, BYTES) && reads_back(t, m, i, BYTES), "memory goes on");
	kvtier_stats(t, &st);
	CHECK(st.n_dropped == 12 && st.n_errors <= 4, "%d dropped, %d errors", (int) st.n_dropped,
		  (int) st.n_errors);
	check_all(t);
	setrlimit(RLIMIT_FSIZE, &old);
	CHECK(kvtier_flush(t, soon()) == 0 && count_files(NULL) == 8, "%d files", count_files(NULL));
	kvtier_stats(t, &st);
	CHECK(st.files == KVF_READY, "state %d", st.files);
	/* a sleeping model has no memory for that */
	CHECK(setrlimit(RLIMIT_FSIZE, &(struct rlimit) {1000, old.rlim_max}) == 0, "a limit");
	put(t, m, 20, BYTES);
	CHECK(kvtier_flush(t, soon()) == 1 && place(t, m, 20) == KVT_MEMORY, "it isn't written");
	kvtier_shed(t, m);
	kvtier_stats(t, &st);
	CHECK(st.memory_entries == 0 && st.unwritten == 0 && place(t, m, 20) == KVT_NONE &&
		  place(t, m, 19) == KVT_FILE, "%d in memory", (int) st.memory_entries);
	check_all(t);
	setrlimit(RLIMIT_FSIZE, &old);
	kvtier_close(t);
}

/* A disk that is full, and has space again; in a process with its own mounts. */
static void
fill_disk(void)
{
	KvTier	   *t;
	Err			e;
	KvTierModel *m;
	KvTierStats st;
	char		path[1024];

	t = open_tier(32 * SLOT, dir, 100 * SLOT);
	m = kvtier_join(t, id1, BYTES, &e);
	CHECK(wait_files(t, KVF_READY), "open");
	for (int i = 0; i < 32; i++)
		put(t, m, i, BYTES);
	CHECK(kvtier_flush(t, soon()) > 0, "it can't have room");
	kvtier_stats(t, &st);
	CHECK(st.files == KVF_DOWN && st.n_errors >= 1 && st.n_errors <= 2 && st.n_written > 0 &&
		  count_files(path) == (int) st.n_written, "%d written", (int) st.n_written);
	check_all(t);
	CHECK(kvtier_flush(t, soon()) > 0, "neither now");
	kvtier_reset(t, m);			/* which frees space */
	for (int i = 0; i < 2000 && count_files(NULL) > 0; i++)
		usleep(5000);
	put(t, m, 5, BYTES);
	CHECK(kvtier_flush(t, soon()) == 0 && count_files(NULL) == 1, "there is room");
	kvtier_shed(t, m);
	CHECK(reads_back(t, m, 5, BYTES), "and back");
	kvtier_close(t);
}

static void
test_disk_full(void)
{
	pid_t		pid;
	int			status;

	new_dir();
	if ((pid = fork()) == 0)
	{
		int			before = check_failed;

		if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
			mount("none", dir, "tmpfs", 0, "size=64k,mode=0700") != 0)
			_exit(77);
		fill_disk();
		_exit(check_failed > before);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		check_skip(1, "may not mount a small disk");
	else
		CHECK(status == 0, "a full disk: status %d", status);
}

/* The directory is removed while it is in use, and created again. */
static void
test_vanished(void)
{
	KvTier	   *t = open_tier(8 * SLOT, new_dir(), 100 * SLOT);
	Err			e;
	KvTierModel *m = kvtier_join(t, id1, BYTES, &e);
	KvTierStats st;
	char		path[1024];

	CHECK(wait_files(t, KVF_READY), "open");
	put(t, m, 1, BYTES);
	CHECK(kvtier_flush(t, soon()) == 0 && count_files(path) == 1, "flush");
	kvtier_shed(t, NULL);
	/* the model's folder only */
	unlink(path);
	*strrchr(path, '/') = '\0';
	CHECK(rmdir(path) == 0, "rmdir");
	CHECK(!reads_back(t, m, 1, BYTES) && put(t, m, 1, BYTES) && kvtier_flush(t, soon()) == 0 &&
		  count_files(NULL) == 1, "it is made again");
	clear_dir();
	put(t, m, 2, BYTES);
	CHECK(kvtier_flush(t, soon()) == 1, "there is no directory");
	CHECK(reads_back(t, m, 1, BYTES) && reads_back(t, m, 2, BYTES), "memory goes on");
	kvtier_stats(t, &st);
	CHECK(st.files != KVF_READY && st.file_entries == 0 && st.file_bytes == 0, "%d files",
		  (int) st.file_entries);
	check_all(t);
	/* it is opened again automatically, since its folder exists */
	CHECK(wait_files(t, KVF_READY), "open");
	CHECK(kvtier_flush(t, soon()) == 0, "flush");
	put(t, m, 3, BYTES);
	CHECK(kvtier_flush(t, soon()) == 0 && reads_back(t, m, 3, BYTES) && count_files(NULL) >= 2, "%d files",
		  count_files(NULL));
	kvtier_close(t);
}

/* Killed in the middle: blocks that come back are intact. */
static void
test_killed(void)
{
	int			back = 0;
	int			seen = 0;

	new_dir();
	for (int round = 0; round < 10; round++)
	{
		pid_t		pid = fork();
		KvTier	   *t;
		KvTierModel *m;
		Err			e;

		if (pid == 0)
		{
			t = open_tier(64 * 40960, dir, 1000 * 40960);
			m = kvtier_join(t, id1, 40000, &e);
			for (int i = 0;; i++)
			{
				put(t, m, round * 100 + i % 100, 40000);
				kvtier_flush(t, clock_us() + 1000);
			}
		}
		usleep(20000 + rnd(20000));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		t = open_tier(8 * 40960, dir, 1000 * 40960);
		m = kvtier_join(t, id1, 40000, &e);
		CHECK(wait_files(t, KVF_READY), "open");
		for (int i = 0; i < (round + 1) * 100; i++)
			if (place(t, m, i) == KVT_FILE)
			{
				seen++;
				back += reads_back(t, m, i, 40000);
			}
		kvtier_close(t);
	}
	CHECK(seen > 0 && back == seen, "%d of %d", back, seen);
}

/* ---- threads ---- */

#define THREADS 3
#define THREAD_KEYS 40

typedef struct Stress
{
	KvTier	   *t;
	KvTierModel *m[2];
	atomic_int	wrong;
	atomic_int	notified;
	unsigned	seed;
} Stress;

static Stress stress;
static const size_t stress_bytes[2] = {4000, 9000};

static void
notified(void *ctx)
{
	atomic_fetch_add(&((Stress *) ctx)->notified, 1);
}

static void *
stress_main(void *arg)
{
	unsigned	seed = (unsigned) (size_t) arg;
	KvHold	   *held[4] = {0};
	int			key[4];
	int			which[4];

	for (int n = 0; n < 6000; n++)
	{
		int			k = rand_r(&seed) % 2;
		int			i = rand_r(&seed) % THREAD_KEYS;
		int			s = rand_r(&seed) % 4;
		KvTierStats st;

		switch (rand_r(&seed) % 16)
		{
			case 0: case 1: case 2: case 3: case 4:
				put(stress.t, stress.m[k], i, stress_bytes[k]);
				break;
			case 5: case 6: case 7: case 8: case 9: case 10:
				if (held[s] != NULL)
					kvtier_release(stress.t, held[s]);
				held[s] = fetch(stress.t, stress.m[k], i);
				key[s] = i;
				which[s] = k;
				break;
			case 11: case 12:
				for (s = 0; s < 4; s++)
					if (held[s] != NULL && kvtier_state(held[s]) == KVH_READY &&
						!is_block(key[s], kvtier_bytes(held[s]), stress_bytes[which[s]]))
						atomic_fetch_add(&stress.wrong, 1);
				break;
			case 13:
				place(stress.t, stress.m[k], i);
				break;
			case 14:
				kvtier_stats(stress.t, &st);
				if (st.memory_bytes > st.memory_limit || st.file_bytes > st.disk_limit)
					atomic_fetch_add(&stress.wrong, 1);
				break;
			default:
				if (rand_r(&seed) % 40 == 0)
					kvtier_reset(stress.t, rand_r(&seed) % 2 ? stress.m[k] : NULL);
				else if (rand_r(&seed) % 20 == 0)
					kvtier_shed(stress.t, rand_r(&seed) % 2 ? stress.m[k] : NULL);
				else if (rand_r(&seed) % 20 == 0)
					kvtier_flush(stress.t, clock_us() + rand_r(&seed) % 10000);
				else if (rand_r(&seed) % 20 == 0)
				{
					Err			e = {0};

					if (!kvtier_check(stress.t, &e))
					{
						fprintf(stderr, "%s\n", e.msg);
						atomic_fetch_add(&stress.wrong, 1);
					}
				}
		}
	}
	for (int s = 0; s < 4; s++)
		if (held[s] != NULL)
			kvtier_release(stress.t, held[s]);
	return NULL;
}

static void
test_threads(void)
{
	static const unsigned char ids[2][KVTIER_KEY] = {{1}, {2}};
	pthread_t	threads[THREADS];
	KvTierStats st;
	Err			e;

	new_dir();
	for (int round = 0; round < 3; round++)
	{
		/* the third round without files */
		KvTierOptions o = {.memory_bytes = 150000,.directory = round < 2 ? dir : NULL,.disk_bytes = 400000,
						   .notify = notified,.notify_ctx = &stress};

		atomic_store(&stress.notified, 0);
		stress.t = kvtier_open(&o, &e);
		for (int i = 0; i < 2; i++)
			stress.m[i] = kvtier_join(stress.t, ids[i], stress_bytes[i], &e);
		for (int i = 0; i < THREADS; i++)
			pthread_create(&threads[i], NULL, stress_main, (void *) (size_t) (round * THREADS + i + 1));
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		check_all(stress.t);
		kvtier_stats(stress.t, &st);
		CHECK(st.n_damaged == 0 && st.n_errors == 0, "%d damaged, %d errors", (int) st.n_damaged,
			  (int) st.n_errors);
		CHECK(round == 2 || (st.n_read > 0 && atomic_load(&stress.notified) >= (int) st.n_read), "%d read",
			  (int) st.n_read);
		kvtier_close(stress.t);
	}
	CHECK(atomic_load(&stress.wrong) == 0, "%d", atomic_load(&stress.wrong));
}

int
main(void)
{
	signal(SIGXFSZ, SIG_DFL);
	RUN(test_memory());
	RUN(test_random());
	RUN(test_restart());
	RUN(test_given_up());
	RUN(test_shed());
	RUN(test_disk_limit());
	RUN(test_damage());
	RUN(test_foreign());
	RUN(test_directory());
	RUN(test_two());
	RUN(test_reset_locked());
	RUN(test_write_fails());
	RUN(test_disk_full());
	RUN(test_vanished());
	RUN(test_killed());
	RUN(test_threads());
	clear_dir();
	return check_done("test_kvtier");
}
