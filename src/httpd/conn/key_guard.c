/*
 * key_guard.c
 *	  Blocks addresses that send wrong keys.
 *
 * A key has 256 random bits and can't be guessed.  But each try is a query to the database, on the one
 * connection that looks up all keys.  So when an address has sent vllm.http_wrong_keys wrong keys within
 * vllm.http_wrong_key_window, its requests are refused (429) without a query until the window ends.
 *
 * Many clients may share one address (NAT, a proxy).  The HTTP server keeps the hashes of keys that were
 * valid before, and looks these keys up whatever address they come from; the database still decides
 * about each request.  So a client with a valid key is served while another one at its address guesses
 * keys; a key that this process has not seen yet waits for the window's end.
 *
 * Keys are looked up one after the other (db_pool.c), the known ones first, and the guard is asked again
 * when a key's turn has come: an address has vllm.http_wrong_keys tries even if it sends many at once.
 *
 * Both tables have a fixed size: sets of WAYS entries, of which the least recently used one is replaced.
 *
 * Tests: tests/unit/httpd/test_http_clients.c, tests/t/083_http_raw.pl.
 */
#include "httpd/conn/key_guard.h"

#include <pthread.h>

#include "httpd/httpd_settings.h"

#define SETS	256
#define WAYS	8

typedef struct AuthFailures
{
	Peer		from;
	int			wrong;			/* wrong keys within the window; 0: the entry is free */
	int64_t		until;			/* end of the window */
	uint64_t	used;
} AuthFailures;

typedef struct KeyGuardKnown
{
	unsigned char hash[GUARD_HASH];
	uint64_t	used;			/* time of last use; 0: the entry is free */
} KeyGuardKnown;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static AuthFailures failures[SETS][WAYS];
static KeyGuardKnown knowns[SETS][WAYS];
static uint64_t uses;			/* counts uses of the tables, as a clock */
static uint64_t chance;

void
guard_init(uint64_t seed)
{
	chance = seed;
}

/* Compare two hashes in constant time. */
static bool
same_hash(const unsigned char *a, const unsigned char *b)
{
	unsigned char differs = 0;

	for (int i = 0; i < GUARD_HASH; i++)
		differs |= a[i] ^ b[i];
	return differs == 0;
}

/* Return the address's entry, or with `make` a free one.  NULL: none.  The caller holds the lock. */
static AuthFailures *
find_failures(const Peer *from, bool make)
{
	AuthFailures *set = failures[peer_hash(from, chance) % SETS];
	AuthFailures *place = set;

	for (int i = 0; i < WAYS; i++)
	{
		if (set[i].wrong > 0 && peer_same(&set[i].from, from))
			return &set[i];
		if (set[i].used < place->used)
			place = &set[i];
	}
	if (!make)
		return NULL;
	*place = (AuthFailures) {.from = *from};
	return place;
}

/* The same for a key that was valid; hashes need no further hashing, because they are random. */
static KeyGuardKnown *
find_known(const unsigned char *hash, bool make)
{
	KeyGuardKnown *set = knowns[hash[0] % SETS];
	KeyGuardKnown *found = NULL;
	KeyGuardKnown *place = set;

	for (int i = 0; i < WAYS; i++)
	{
		if (set[i].used > 0 && same_hash(set[i].hash, hash))
			found = &set[i];
		if (set[i].used < place->used)
			place = &set[i];
	}
	if (found != NULL || !make)
		return found;
	memcpy(place->hash, hash, GUARD_HASH);
	return place;
}

int
guard_blocked(const Peer *from, const unsigned char *hash, int64_t now)
{
	const AuthFailures *g;
	int			wait = 0;

	if (http_conf.wrong_keys == 0)
		return 0;
	pthread_mutex_lock(&lock);
	g = find_failures(from, false);
	if (g != NULL && g->wrong >= http_conf.wrong_keys && g->until > now && find_known(hash, false) == NULL)
		wait = (int) ((g->until - now + 999999) / 1000000);
	pthread_mutex_unlock(&lock);
	return wait;
}

bool
guard_known(const unsigned char *hash)
{
	bool		known;

	pthread_mutex_lock(&lock);
	known = find_known(hash, false) != NULL;
	pthread_mutex_unlock(&lock);
	return known;
}

void
guard_right(const unsigned char *hash)
{
	pthread_mutex_lock(&lock);
	find_known(hash, true)->used = ++uses;
	pthread_mutex_unlock(&lock);
}

bool
guard_wrong(const Peer *from, const unsigned char *hash, int64_t now)
{
	AuthFailures *g;
	KeyGuardKnown *k;
	bool		blocked;

	pthread_mutex_lock(&lock);
	/* the key was revoked since */
	if ((k = find_known(hash, false)) != NULL)
		*k = (KeyGuardKnown) {.used = 0};
	g = http_conf.wrong_keys == 0 ? NULL : find_failures(from, true);
	if (g == NULL)
	{
		pthread_mutex_unlock(&lock);
		return false;
	}
	if (g->until <= now)
	{
		g->wrong = 0;
		g->until = now + (int64_t) http_conf.wrong_key_window_s * 1000000;
	}
	g->wrong++;
	g->used = ++uses;
	blocked = g->wrong == http_conf.wrong_keys;
	pthread_mutex_unlock(&lock);
	return blocked;
}
