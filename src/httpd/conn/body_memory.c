/*
 * bodies.c
 *	  Memory for the bodies of requests.
 *
 * All bodies in hand that are longer than BODIES_SMALL have vllm.http_body_memory together, those of one key three quarters of it.
 * One body of vllm.http_max_body always fits when there is no other.  A body asks once, for all of its length, so that no two
 * wait for each other with half of what they need; one that does not fit waits while its time lasts.  The shorter ones are
 * not counted: there are no more of these than clients.
 *
 * Tests: tests/unit/test_http_clients.c, tests/t/083_http_raw.pl.
 */
#include "http/bodies.h"

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "http/conf.h"

#define LOOK_AROUND		INT64_C(200000) /* us between looks at the client */

/* Of a key that has some. */
typedef struct Holder
{
	uint64_t	key;
	size_t		bytes;
	struct Holder *next;
} Holder;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given = PTHREAD_COND_INITIALIZER;
static Holder *holders;
static size_t total;

/* Where the key's holder is, or would be; locked, as all below. */
static Holder **
find_holder(uint64_t key)
{
	Holder	  **h = &holders;

	while (*h != NULL && (*h)->key != key)
		h = &(*h)->next;
	return h;
}

static bool
take(uint64_t key, size_t n)
{
	Holder	  **h = find_holder(key);
	size_t		most = http_conf.body_memory > http_conf.max_body ? http_conf.body_memory : http_conf.max_body;

	if (total + n > most || (*h != NULL && (*h)->bytes + n > most / 4 * 3))
		return false;
	if (*h == NULL)
	{
		*h = mem_zalloc(sizeof(Holder));
		(*h)->key = key;
	}
	(*h)->bytes += n;
	total += n;
	return true;
}

static bool
is_gone(int client)
{
	struct pollfd p = {.fd = client,.events = POLLRDHUP};

	return client >= 0 && poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

BodiesEnd
bodies_take(uint64_t key, size_t n, int client, int64_t until)
{
	BodiesEnd	end = BODIES_OK;

	pthread_mutex_lock(&lock);
	while (end == BODIES_OK && !take(key, n))
	{
		int64_t		left = until - clock_us();
		struct timespec ts;

		if (left <= 0)
			end = BODIES_LATE;
		else if (is_gone(client))
			end = BODIES_GONE;
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
bodies_give(uint64_t key, size_t n)
{
	Holder	  **h;
	Holder	   *empty;

	if (n == 0)
		return;
	pthread_mutex_lock(&lock);
	h = find_holder(key);
	(*h)->bytes -= n;
	total -= n;
	if ((*h)->bytes == 0)
	{
		empty = *h;
		*h = empty->next;
		mem_free(empty);
	}
	pthread_cond_broadcast(&given);
	pthread_mutex_unlock(&lock);
}
