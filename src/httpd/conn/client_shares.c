/*
 * client_shares.c
 *	  Connected clients, and which ones are evicted when there are too many.
 *
 * The HTTP server doesn't know whether a client has a key before the client has sent its headers, so it
 * accepts every client, and evicts one when a limit is passed:
 *
 *	limit passed							evicted client
 *	vllm.http_clients_per_address, by		the oldest of these
 *	awaited clients of one address
 *	without a key so far
 *	vllm.http_max_clients					of the awaited clients without a key, the oldest of the address
 *											that has most of them; if there is none, the oldest with a key
 *											that is between two requests, first of those that have sent
 *											nothing more
 *	vllm.http_max_clients, while less		first the oldest between two requests, of the key that has most
 *	than a quarter of all clients are		of these
 *	awaited and without a key
 *
 * The last rule is for new clients.  Each is without a key until its first head has arrived.  If idle
 * connections could take all places, each new client would be evicted for the next one.
 *
 * A client is "awaited" while the rest of a request is to come: from its connection until its head is
 * complete, and again while its body comes.  So a crowd of slow clients loses its places to new ones,
 * and a fast client, whose headers come at once, is awaited only that long; bytes that its thread has
 * not read yet count as read.  A client without a running request that does not read what is written to
 * it (a refusal) may be evicted like an awaited one.
 *
 * Running requests without a key can't be ended: they have at most what vllm.http_reserved_clients
 * leaves, and each address its share.  Requests with a key can't be ended either: one key has at most
 * three quarters of all places.  A request that needs no key counts for the key that its client had.  In
 * all other states a client with a key is between two requests and may be evicted: while it sends an
 * incomplete head, or does not read the response to a request that was refused.
 *
 * If a client is evicted while its thread reads, the thread finds the end of the input, sends a short
 * notice and ends within EVICTED_WRITE.  If it is evicted while its thread writes, the socket is shut
 * down in both directions, and the thread wakes up at once.  Until then the client has a thread, but no
 * place.  The acceptor waits for none of them: beyond CLIENTS_LEAVING it refuses new clients.
 *
 * Tests: tests/unit/httpd/test_http_clients.c, tests/t/083_http_raw.pl.
 */
#include "httpd/conn/client_shares.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/alloc.h"
#include "httpd/httpd_settings.h"
#include "httpd/conn/holders.h"

#define BUCKETS			1024	/* in the hash table of addresses */
#define SECOND			INT64_C(1000000)
#define EVICTED_WRITE	(SECOND / 10)	/* us for the notice to an evicted client */
#define LOG_INTERVAL	10000000	/* us between log lines about evicted clients */

/* An address with clients. */
typedef struct ClientShare
{
	Peer		from;
	int			members;		/* its clients of all kinds */
	int			unknown;		/* clients without a key so far that are not evicted */
	int			busy;			/* running requests without a key */
	struct ClientShare *next;
} ClientShare;

struct Client
{
	int			fd;
	ClientShare *share;
	uint64_t	key;			/* of its last request that had a valid key */
	const Holder *of_key;		/* entry of `between` that counts this client; NULL: not counted */
	bool		keyed;			/* its last request had a valid key */
	bool		busy;			/* a request without a key is running */
	bool		holds;			/* a request with a key is running */
	bool		awaited;
	bool		idle;
	bool		writing;
	bool		evicted;
	bool		cut;			/* evicted while its thread wrote */
	Client	   *older, *newer;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ClientShare *shares[BUCKETS];
static Client *oldest, *newest;
static int	present;			/* clients with a thread */
static int	placed;				/* entries that are not evicted */
static int	busy;				/* running requests without a key */
static Holder *between;			/* number of clients between two requests, by key */

/* ---- addresses; the caller holds the lock ---- */

static ClientShare **
find_share(const Peer *from)
{
	ClientShare **s = &shares[peer_hash(from, 0) % BUCKETS];

	while (*s != NULL && !peer_same(&(*s)->from, from))
		s = &(*s)->next;
	return s;
}

static ClientShare *
join_share(const Peer *from)
{
	ClientShare **s = find_share(from);

	if (*s == NULL)
	{
		*s = mem_zalloc(sizeof(ClientShare));
		(*s)->from = *from;
	}
	(*s)->members++;
	return *s;
}

static void
leave_share(ClientShare *share)
{
	ClientShare **s;

	ALWAYS(share->members > 0);
	if (--share->members > 0)
		return;
	ALWAYS(share->unknown == 0 && share->busy == 0);
	s = find_share(&share->from);
	*s = share->next;
	mem_free(share);
}

/* ---- which client is evicted; the caller holds the lock ---- */

static void
log_eviction(const Client *c)
{
	static int64_t last;
	int64_t		now = clock_us();
	char		from[64];

	if (last != 0 && now - last < LOG_INTERVAL)
		return;
	last = now;
	peer_text(&c->share->from, from, sizeof(from));
	log_line('W', "too many clients wait with unfinished requests: closing the oldest, now of %d from %s",
			 c->share->unknown, from);
}

static void
clear_between(Client *c)
{
	if (c->of_key == NULL)
		return;
	c->of_key = NULL;
	holders_sub(&between, c->key, 1);
}

/* Count the client in `between` if it has a key and a place, but no running request. */
static void
count_between(Client *c)
{
	bool		is = c->keyed && !c->evicted && !c->holds && (c->awaited || c->writing);

	if (is && c->of_key == NULL)
		c->of_key = holders_add(&between, c->key, 1);
	else if (!is)
		clear_between(c);
}

static void
evict(Client *c)
{
	if (!c->keyed)
	{
		log_eviction(c);
		c->share->unknown--;
	}
	ALWAYS(!c->evicted && placed > 0);
	c->evicted = true;
	count_between(c);
	placed--;
	c->cut = c->writing;
	/* wakes its thread; a thread that reads may still write */
	shutdown(c->fd, c->cut ? SHUT_RDWR : SHUT_RD);
}

/* Has the client sent bytes that its thread has not read yet? */
static bool
has_unread(const Client *c)
{
	char		byte;

	return (c->awaited || !c->writing) && recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static bool
may_leave(const Client *c)
{
	return !c->evicted && !c->keyed && (c->awaited || (c->writing && !c->busy));
}

/* Return the oldest evictable client of an address, if the address has as many of these as its share. */
static Client *
beyond_share(const ClientShare *share)
{
	Client	   *found = NULL;
	int			n = 0;

	for (Client *c = oldest; c != NULL && n < http_conf.clients_per_address; c = c->newer)
		if (c->share == share && may_leave(c) && !has_unread(c))
		{
			n++;
			if (found == NULL)
				found = c;
		}
	return n < http_conf.clients_per_address ? NULL : found;
}

/*
 * Return the oldest evictable client without a key, of the address that has most.  unread: even if it
 * has sent something.  NULL: none.
 */
static Client *
oldest_unknown(bool unread)
{
	Client	   *found = NULL;

	for (Client *c = oldest; c != NULL; c = c->newer)
		if (may_leave(c) && (found == NULL || c->share->unknown > found->share->unknown) &&
			(unread || !has_unread(c)))
			found = c;
	return found;
}

/*
 * Return the oldest client with a key that has begun no further request.  unread: even if it has sent
 * something.  NULL: none.
 */
static Client *
oldest_idle(bool unread)
{
	for (Client *c = oldest; c != NULL; c = c->newer)
		if (!c->evicted && c->keyed && c->awaited && c->idle && (unread || !has_unread(c)))
			return c;
	return NULL;
}

/*
 * Return the oldest client with a key and without a running request that sends a head or has a response
 * to read.  NULL: none.
 */
static Client *
oldest_between(void)
{
	for (Client *c = oldest; c != NULL; c = c->newer)
		if (!c->evicted && c->keyed && !c->holds && (c->awaited || c->writing))
			return c;
	return NULL;
}

/*
 * Return the oldest client between two requests, of the key that has most of these; those that have sent
 * nothing come first.  NULL: none.
 */
static Client *
oldest_between_requests(void)
{
	Client	   *found = NULL;

	for (Client *c = oldest; c != NULL; c = c->newer)
		if (c->of_key != NULL &&
			(found == NULL || c->of_key->has > found->of_key->has ||
			 (c->of_key == found->of_key && c->idle && !found->idle)) &&
			!has_unread(c))
			found = c;
	return found;
}

/* Are there enough evictable clients without a key that a new client has time to send its head? */
static bool
enough_unknown(void)
{
	int			n = 0;

	for (const Client *c = oldest; c != NULL && n < http_conf.max_clients / 4; c = c->newer)
		n += may_leave(c);
	return n >= http_conf.max_clients / 4;
}

/*
 * Make room for a client of this address, which is counted already.  Returns false if no client can be
 * evicted.
 */
static bool
make_room(const ClientShare *share)
{
	Client	   *c;

	while (http_conf.clients_per_address > 0 && share->unknown >= http_conf.clients_per_address &&
		   (c = beyond_share(share)) != NULL)
		evict(c);
	if (placed < http_conf.max_clients)
		return true;
	c = enough_unknown() ? NULL : oldest_between_requests();
	if (c == NULL)
		c = oldest_unknown(false);
	if (c == NULL)
		c = oldest_unknown(true);
	if (c == NULL)
		c = oldest_idle(false);
	if (c == NULL)
		c = oldest_idle(true);
	if (c == NULL)
		c = oldest_between();
	if (c != NULL)
		evict(c);
	return c != NULL;
}

/* ---- clients ---- */

static void
link_newest(Client *c)
{
	c->older = newest;
	*(newest != NULL ? &newest->newer : &oldest) = c;
	newest = c;
}

static void
unlink_client(Client *c)
{
	ALWAYS((c->older == NULL) == (oldest == c) && (c->newer == NULL) == (newest == c));
	*(c->older != NULL ? &c->older->newer : &oldest) = c->newer;
	*(c->newer != NULL ? &c->newer->older : &newest) = c->older;
}

Client *
clients_enter(int fd, const Peer *from)
{
	Client	   *c = NULL;
	ClientShare *share;

	pthread_mutex_lock(&lock);
	share = join_share(from);
	if (present - placed < CLIENTS_LEAVING && make_room(share))
	{
		c = mem_zalloc(sizeof(Client));
		c->fd = fd;
		c->share = share;
		c->awaited = true;
		share->unknown++;
		placed++;
		present++;
		link_newest(c);
	}
	else
		leave_share(share);
	pthread_mutex_unlock(&lock);
	return c;
}

static void
release(Client *c)
{
	c->holds = false;
	count_between(c);
	if (!c->busy)
		return;
	ALWAYS(c->share->busy > 0 && busy > 0);
	c->busy = false;
	c->share->busy--;
	busy--;
}

void
clients_leave(Client *c)
{
	pthread_mutex_lock(&lock);
	release(c);
	clear_between(c);
	if (!c->evicted)
	{
		placed--;
		c->share->unknown -= !c->keyed;
	}
	leave_share(c->share);
	unlink_client(c);
	present--;
	ASSERT(placed >= 0 && placed <= present);
	if (c->cut)
		/* drop what the client has not read */
		(void) setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &(struct linger) {.l_onoff = 1},
						  sizeof(struct linger));
	/* under the lock, or another thread could shut down a new socket with the same number */
	close(c->fd);
	pthread_mutex_unlock(&lock);
	mem_free(c);
}

static void
set_keyed(Client *c, bool keyed)
{
	if (c->keyed == keyed || c->evicted)
		return;
	c->keyed = keyed;
	c->share->unknown += keyed ? -1 : 1;
	count_between(c);
}

/* Does the key have all places that one key may have? */
static bool
key_is_full(uint64_t key)
{
	int			share = CLIENTS_KEY_SHARE(http_conf.max_clients);
	int			held = 0;

	if (placed < share)
		return false;
	for (const Client *c = oldest; c != NULL; c = c->newer)
		held += c->holds && c->key == key;
	return held >= share;
}

Claim
clients_claim(Client *c, uint64_t key)
{
	Claim		claim = CLAIM_OK;

	pthread_mutex_lock(&lock);
	if (key == 0 && c->keyed)
		key = c->key;			/* a client with a key sends a request that needs none */
	if (c->evicted)
		claim = CLAIM_EVICTED;
	else if (key != 0 && key_is_full(key))
		claim = CLAIM_KEY;
	else if (key != 0)
	{
		/* it is no longer between two requests of its previous key */
		clear_between(c);
		c->key = key;
		c->holds = true;
		set_keyed(c, true);
	}
	else if (http_conf.clients_per_address > 0 && c->share->busy >= http_conf.clients_per_address)
		claim = CLAIM_SHARE;
	else if (busy >= http_conf.max_clients - http_conf.reserved_clients)
		claim = CLAIM_FULL;
	else
	{
		ASSERT(!c->busy);
		c->busy = true;
		c->share->busy++;
		busy++;
	}
	pthread_mutex_unlock(&lock);
	return claim;
}

void
clients_unknown(Client *c)
{
	pthread_mutex_lock(&lock);
	set_keyed(c, false);
	pthread_mutex_unlock(&lock);
}

void
clients_release(Client *c)
{
	pthread_mutex_lock(&lock);
	release(c);
	pthread_mutex_unlock(&lock);
}

void
clients_awaited(Client *c, bool awaited, bool idle)
{
	pthread_mutex_lock(&lock);
	c->awaited = awaited;
	c->idle = idle;
	count_between(c);
	pthread_mutex_unlock(&lock);
}

int64_t
clients_write_begin(Client *c)
{
	int64_t		limit = http_conf.idle_timeout_s;

	pthread_mutex_lock(&lock);
	c->writing = true;
	count_between(c);
	if (!c->keyed && http_conf.header_timeout_s < limit)
		limit = http_conf.header_timeout_s;
	limit = c->evicted ? EVICTED_WRITE : limit * SECOND;
	pthread_mutex_unlock(&lock);
	return limit;
}

void
clients_write_end(Client *c)
{
	pthread_mutex_lock(&lock);
	c->writing = false;
	count_between(c);
	pthread_mutex_unlock(&lock);
}

bool
clients_evicted(Client *c)
{
	bool		evicted;

	pthread_mutex_lock(&lock);
	evicted = c->evicted;
	pthread_mutex_unlock(&lock);
	return evicted;
}

int
clients_fd(const Client *c)
{
	return c->fd;
}

const Peer *
clients_peer(const Client *c)
{
	return &c->share->from;
}

void
clients_end_all(void)
{
	pthread_mutex_lock(&lock);
	for (Client *c = oldest; c != NULL; c = c->newer)
		shutdown(c->fd, SHUT_RDWR);
	pthread_mutex_unlock(&lock);
}

int
clients_count(void)
{
	int			n;

	pthread_mutex_lock(&lock);
	n = present;
	pthread_mutex_unlock(&lock);
	return n;
}
