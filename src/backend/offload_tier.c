/*
 * offload_tier.c
 *	  The engine's offload tier of the KV caches (offload_tier.h): vllm.kv_offload_bytes,
 *	  vllm.kv_offload_directory, vllm.kv_offload_disk_bytes.
 *
 * If only a directory is set, the tier gets BUFFER bytes of memory, through which data passes to and
 * from the files.  A directory that can't be used gives a warning only: requests are served without it.
 *
 * Tested by tests/t/099_offload.pl.
 */
#include "backend/offload_tier.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/blake2.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/alloc.h"

static bool offload_store_stats(KvTierStats *out);

#define BUFFER	(INT64_C(64) << 20)
#define CLOSE_US	INT64_C(4000000)	/* longest time of the writes before the tier is reopened */

static struct
{
	pthread_mutex_t lock;
	KvTier	   *tier;
	int			users;
	/* values with which the tier was opened */
	int64_t		bytes;
	int64_t		disk_bytes;
	char		directory[sizeof(((Settings *) 0)->kv_offload_directory)];
} store = {.lock = PTHREAD_MUTEX_INITIALIZER};

int64_t
offload_store_limit(const Settings *s)
{
	return s->kv_offload_bytes > 0 || s->kv_offload_directory[0] == '\0' ? s->kv_offload_bytes : BUFFER;
}

static bool
as_opened(const Settings *s)
{
	return store.bytes == offload_store_limit(s) && store.disk_bytes == s->kv_offload_disk_bytes &&
		strcmp(store.directory, s->kv_offload_directory) == 0;
}

/* Open the tier; the caller holds the lock. */
static void
open_store(const Settings *s)
{
	KvTierOptions o = {
		.memory_bytes = (size_t) offload_store_limit(s), .directory = s->kv_offload_directory,
		.disk_bytes = (uint64_t) s->kv_offload_disk_bytes
	};
	Err			e = {0};

	ASSERT(store.tier == NULL && store.users == 0);
	huge_pages_by_name(s->huge_pages, &o.huge);
	store.tier = kvtier_open(&o, &e);
	if (store.tier == NULL)
	{
		log_line('W', "the KV cache is not offloaded to files: %s%s%s; check vllm.kv_offload_directory",
				 e.msg, e.detail[0] != '\0' ? " " : "", e.detail);
		o.directory = NULL;
		if (s->kv_offload_bytes > 0)
			store.tier = kvtier_open(&o, &e);
	}
	store.bytes = offload_store_limit(s);
	store.disk_bytes = s->kv_offload_disk_bytes;
	snprintf(store.directory, sizeof(store.directory), "%s", s->kv_offload_directory);
}

/* Before the tier is reopened with other settings, write what is only in memory to files. */
static void
flush_old(const Settings *s)
{
	KvTier	   *t;

	pthread_mutex_lock(&store.lock);
	t = store.users == 0 && !as_opened(s) ? store.tier : NULL;
	store.users += t != NULL;
	pthread_mutex_unlock(&store.lock);
	if (t == NULL)
		return;
	kvtier_flush(t, clock_us() + CLOSE_US);
	offload_store_give(t);
}

KvTier *
offload_store_take(const Settings *s)
{
	KvTier	   *t;

	flush_old(s);
	pthread_mutex_lock(&store.lock);
	if (store.tier != NULL && store.users == 0 && !as_opened(s))
	{
		kvtier_close(store.tier);
		store.tier = NULL;
	}
	if (store.tier == NULL && offload_store_limit(s) > 0)
		open_store(s);
	else if (store.tier != NULL && !as_opened(s))
		log_line('W', "the settings vllm.kv_offload_... have changed: they take effect when no model uses "
					  "the offload tier, or when the engine restarts");
	t = store.tier;
	store.users += t != NULL;
	pthread_mutex_unlock(&store.lock);
	return t;
}

void
offload_store_give(KvTier *t)
{
	if (t == NULL)
		return;
	pthread_mutex_lock(&store.lock);
	ALWAYS(t == store.tier && store.users > 0);
	store.users--;
	pthread_mutex_unlock(&store.lock);
}

/* Return the open tier and count a user of it; NULL if none is open. */
static KvTier *
use_store(void)
{
	KvTier	   *t;

	pthread_mutex_lock(&store.lock);
	t = store.tier;
	store.users += t != NULL;
	pthread_mutex_unlock(&store.lock);
	return t;
}

bool
offload_store_has_files(void)
{
	KvTierStats st;

	return offload_store_stats(&st) && st.files != KVF_NONE;
}

void
offload_store_flush(int64_t deadline_us)
{
	KvTier	   *t = use_store();
	size_t		left;

	if (t == NULL)
		return;
	left = kvtier_flush(t, deadline_us);
	if (left > 0)
		log_line('I', "KV cache offload: %zu blocks could not be written in time", left);
	offload_store_give(t);
}

void
offload_store_reset(void)
{
	KvTier	   *t = use_store();

	if (t != NULL)
		kvtier_reset(t, NULL);
	offload_store_give(t);
}

/* Returns false if no tier is open. */
static bool
offload_store_stats(KvTierStats *out)
{
	bool		open;

	pthread_mutex_lock(&store.lock);
	open = store.tier != NULL;
	if (open)
		kvtier_stats(store.tier, out);
	pthread_mutex_unlock(&store.lock);
	return open;
}

/* ---- identity ---- */

/* Add a digest of the program itself: another build may round differently. */
static void
add_program(Blake2 *b)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static unsigned char sum[BLAKE2_BYTES];
	static bool known;

	pthread_mutex_lock(&lock);
	if (!known)
	{
		int			fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
		char	   *buf = mem_alloc(1 << 16);
		Blake2		p;
		ssize_t		n = -1;

		blake2_begin(&p, NULL, 0);
		while (fd >= 0 && (n = read(fd, buf, 1 << 16)) > 0)
			blake2_add(&p, buf, (size_t) n);
		blake2_end(&p, sum);
		/* if the program can't be read, use a random value: it differs in each process */
		if (n != 0 && getentropy(sum, sizeof(sum)) != 0)
			memset(sum, 0, sizeof(sum));
		if (fd >= 0)
			close(fd);
		mem_free(buf);
		known = true;
	}
	blake2_add(b, sum, sizeof(sum));
	pthread_mutex_unlock(&lock);
}

static void
add_files(Blake2 *b, const Files *f)
{
	char	   *id = files_contents_id(f);

	blake2_add(b, id, strlen(id) + 1);
	mem_free(id);
	conf_hash(files_conf(f), b);
}

void
offload_store_id(const Files *files, const DraftFiles *df, const ModelOpts *o, const CoreOptions *co,
				 const DeviceChoice *where, const KDevOpen *open, unsigned char id[KVTIER_KEY])
{
	const QuantScheme *scheme = model_opts_scheme(o);
	const char *name = scheme != NULL ? scheme->name : "";
	int32_t		len = co->max_model_len;
	Blake2		b;

	blake2_begin(&b, NULL, 0);
	add_program(&b);
	devices_hash(where, open, &b);
	add_files(&b, files);
	blake2_add(&b, name, strlen(name) + 1);
	blake2_add(&b, &len, sizeof(len));
	if (df->method != NULL)
		blake2_add(&b, df->method, strlen(df->method) + 1);
	if (df->files != NULL)
		add_files(&b, df->files);
	if (co->spec.quantization[0] != '\0')
		blake2_add(&b, co->spec.quantization, strlen(co->spec.quantization) + 1);
	blake2_end(&b, id);
}
