/*
 * clients.c
 *	  Who is connected, and who has to leave when there are too many.
 *
 * Nobody can know whether a client has a key before it has sent its headers, so everybody is let in, and who makes others
 * wait for it may be told to leave:
 *
 *	one more of an address than vllm.http_clients_per_address, without a key so far		the oldest of these that is awaited
 *	one more than vllm.http_max_clients		of those without a key that are awaited, the oldest of the address that has most;
 *											if there is none, the oldest with a key that is between two requests
 *
 * "Awaited" is a client of which the rest of a request is to come.  So a crowd of slow ones loses places to each who comes,
 * and a quick one, whose headers come at once, is awaited for no longer than that.  Requests without a key that are being
 * answered can't be ended: those have at most what vllm.http_reserved_clients leaves, and per address its share.
 *
 * Who is told to leave finds its socket at its end, says so to its client and goes: until then it has no place, but a thread.
 *
 * Tests: tests/unit/test_http_clients.c, tests/t/083_http_raw.pl.
 */
#include "http/clients.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "http/conf.h"

#define BUCKETS			1024	/* of addresses */
#define LEAVING_MS		1000	/* that a newcomer waits for these */
#define LOG_INTERVAL	10000000	/* us between lines about clients that had to leave */

/* Of an address that somebody has come from. */
typedef struct Share
{
	Peer		from;
	int			members;		/* clients, of all kinds */
	int			unknown;		/* without a key so far, and not told to leave */
	int			busy;			/* requests without a key */
	struct Share *next;
} Share;

struct Client
{
	int			fd;
	Share	   *share;
	bool		keyed;			/* its last request had a valid key */
	bool		busy;			/* a request without a key has its place */
	bool		awaited;
	bool		idle;
	bool		evicted;
	Client	   *older, *newer;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t left = PTHREAD_COND_INITIALIZER;
static Share *shares[BUCKETS];
static Client *oldest, *newest;
static int	present;			/* threads */
static int	placed;				/* of these not told to leave */
static int	busy;				/* requests without a key */

/* ---- addresses; locked ---- */

static Share **
find_share(const Peer *from)
{
	Share	  **s = &shares[peer_hash(from, 0) % BUCKETS];

	while (*s != NULL && !peer_same(&(*s)->from, from))
		s = &(*s)->next;
	return s;
}

static Share *
join_share(const Peer *from)
{
	Share	  **s = find_share(from);

	if (*s == NULL)
	{
		*s = mem_zalloc(sizeof(Share));
		(*s)->from = *from;
	}
	(*s)->members++;
	return *s;
}

static void
leave_share(Share *share)
{
	Share	  **s;

	if (--share->members > 0)
		return;
	s = find_share(&share->from);
	*s = share->next;
	mem_free(share);
}

/* ---- who has to leave; locked ---- */

static void
tell(const Client *c)
{
	static int64_t last;
	int64_t		now = clock_us();
	char		from[64];

	if (last != 0 && now - last < LOG_INTERVAL)
		return;
	last = now;
	peer_text(&c->share->from, from, sizeof(from));
	log_line('W', "too many clients wait with unfinished requests: closing the oldest, now of %d from %s", c->share->unknown, from);
}

static void
evict(Client *c)
{
	if (!c->keyed)
	{
		tell(c);
		c->share->unknown--;
	}
	c->evicted = true;
	placed--;
	/* its thread wakes, and may still write */
	shutdown(c->fd, SHUT_RD);
}

/* The oldest of an address (NULL: of that which has most) that has no key and is awaited; NULL: none */
static Client *
oldest_unknown(const Share *of)
{
	Client	   *found = NULL;

	for (Client *c = oldest; c != NULL; c = c->newer)
		if (!c->evicted && !c->keyed && c->awaited && (of == NULL || c->share == of) &&
			(found == NULL || c->share->unknown > found->share->unknown))
			found = c;
	return found;
}

static Client *
oldest_idle(void)
{
	for (Client *c = oldest; c != NULL; c = c->newer)
		if (!c->evicted && c->keyed && c->awaited && c->idle)
			return c;
	return NULL;
}

/* Make room for one of this address, which is a member already; false: nobody can leave. */
static bool
make_room(const Share *share)
{
	Client	   *c;

	if (http_conf.clients_per_address > 0 && share->unknown >= http_conf.clients_per_address &&
		(c = oldest_unknown(share)) != NULL)
		evict(c);
	if (placed < http_conf.max_clients)
		return true;
	c = oldest_unknown(NULL);
	if (c == NULL)
		c = oldest_idle();
	if (c != NULL)
		evict(c);
	return c != NULL;
}

/* Those who were told to leave are many: until some have; false: they don't. */
static bool
wait_for_leavers(void)
{
	struct timespec until;
	int			rc = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += LEAVING_MS / 1000;
	while (present - placed >= CLIENTS_LEAVING && rc == 0)
		rc = pthread_cond_timedwait(&left, &lock, &until);
	return present - placed < CLIENTS_LEAVING;
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
	*(c->older != NULL ? &c->older->newer : &oldest) = c->newer;
	*(c->newer != NULL ? &c->newer->older : &newest) = c->older;
}

Client *
clients_enter(int fd, const Peer *from)
{
	Client	   *c = NULL;
	Share	   *share;

	pthread_mutex_lock(&lock);
	share = join_share(from);
	if (wait_for_leavers() && make_room(share))
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
	if (!c->busy)
		return;
	c->busy = false;
	c->share->busy--;
	busy--;
}

void
clients_leave(Client *c)
{
	pthread_mutex_lock(&lock);
	release(c);
	if (!c->evicted)
	{
		placed--;
		c->share->unknown -= !c->keyed;
	}
	leave_share(c->share);
	unlink_client(c);
	present--;
	/* under the lock: nobody may shut down another's socket of this number */
	close(c->fd);
	pthread_cond_signal(&left);
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
}

Claim
clients_claim(Client *c, bool keyed)
{
	Claim		claim = CLAIM_OK;

	pthread_mutex_lock(&lock);
	if (c->evicted)
		claim = CLAIM_GONE;
	else if (keyed)
		set_keyed(c, true);
	else if (c->keyed)
		;						/* a client with a key asks for what needs none */
	else if (http_conf.clients_per_address > 0 && c->share->busy >= http_conf.clients_per_address)
		claim = CLAIM_SHARE;
	else if (busy >= http_conf.max_clients - http_conf.reserved_clients)
		claim = CLAIM_FULL;
	else
	{
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
