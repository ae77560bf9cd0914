/*
 * body_memory.c
 *	  Memory for the bodies of requests, and for responses.
 *
 * All bodies in memory that are longer than BODIES_SMALL share vllm.http_body_memory; those of one key
 * may have three quarters of it.  One body of vllm.http_max_body always fits if there is no other.  A
 * body asks once, for its whole length, so that no two bodies wait for each other with half of what they
 * need.  One that does not fit waits until its time is up.  Shorter bodies are not counted: there are no
 * more of these than clients.
 *
 * Responses have another account of the same size.  A response is in memory from the database's last
 * byte until its client has read it, and a client may be slow.  One that does not fit waits and keeps
 * its database connection, of which there are few.
 *
 * Tests: tests/unit/httpd/test_http_clients.c, tests/t/083_http_raw.pl.
 */
#include "httpd/conn/body_memory.h"

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "base/clock.h"
#include "httpd/httpd_settings.h"
#include "httpd/conn/holders.h"

#define LOOK_AROUND		INT64_C(200000) /* us between checks of the client's socket */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given = PTHREAD_COND_INITIALIZER;

/* Requests and responses have separate accounts, or each could wait for the other's memory. */
static struct
{
	Holder	   *holders;
	size_t		total;
}			accounts[BODIES_KINDS];

static size_t
all_of_it(void)
{
	return http_conf.body_memory > http_conf.max_body ? http_conf.body_memory : http_conf.max_body;
}

/* Take memory if it fits.  The caller holds the lock. */
static bool
take(BodiesKind kind, uint64_t key, size_t n)
{
	size_t		has = holders_has(accounts[kind].holders, key);

	if (accounts[kind].total + n > all_of_it() || (has > 0 && has + n > all_of_it() / 4 * 3))
		return false;
	(void) holders_add(&accounts[kind].holders, key, n);
	accounts[kind].total += n;
	return true;
}

static bool
is_closed(int client)
{
	struct pollfd p = {.fd = client,.events = POLLRDHUP};

	return client >= 0 && poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

BodiesEnd
bodies_take(BodiesKind kind, uint64_t key, size_t n, int client, int64_t until)
{
	BodiesEnd	end = BODIES_OK;

	pthread_mutex_lock(&lock);
	while (end == BODIES_OK && !take(kind, key, n))
	{
		int64_t		left = until - clock_us();
		struct timespec ts;

		if (left <= 0)
			end = BODIES_LATE;
		else if (is_closed(client))
			end = BODIES_CLOSED;
		else
		{
			clock_gettime(CLOCK_REALTIME, &ts);
			ts.tv_nsec += (left < LOOK_AROUND ? left : LOOK_AROUND) * 1000;
			ts.tv_sec += ts.tv_nsec / 1000000000;
			ts.tv_nsec %= 1000000000;
			(void) pthread_cond_timedwait(&given, &lock, &ts);
		}
	}
	pthread_mutex_unlock(&lock);
	return end;
}

void
bodies_give(BodiesKind kind, uint64_t key, size_t n)
{
	if (n == 0)
		return;
	pthread_mutex_lock(&lock);
	holders_sub(&accounts[kind].holders, key, n);
	accounts[kind].total -= n;
	pthread_cond_broadcast(&given);
	pthread_mutex_unlock(&lock);
}

size_t
bodies_of_answer(size_t n)
{
	size_t		most = all_of_it() / 4 * 3;

	return n < most ? n : most;
}
