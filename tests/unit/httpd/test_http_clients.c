/*
 * test_http_clients.c
 *	  Which clients the HTTP server evicts when it has too many, which addresses are blocked for wrong
 *	  keys, and how much memory bodies get.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "httpd/conn/body_memory.h"
#include "httpd/conn/client_shares.h"
#include "httpd/httpd_settings.h"
#include "httpd/conn/key_guard.h"
#include "tests/unit/check.h"

static Peer
peer(unsigned char last)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	unsigned char bytes[4] = {192, 0, 2, last};

	memcpy(&a.sin_addr, bytes, 4);
	return peer_of(&a);
}

/* other: gets the client's end of the connection; NULL: closed at once */
static Client *
enter_with(unsigned char last, int *other)
{
	Peer		p = peer(last);
	int			pair[2];
	Client	   *c;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
		return NULL;
	if (other == NULL)
		close(pair[1]);
	else
		*other = pair[1];
	c = clients_enter(pair[0], &p);
	if (c == NULL)
		close(pair[0]);
	return c;
}

static Client *
enter(unsigned char last)
{
	return enter_with(last, NULL);
}

/* Count the evicted clients among these. */
static int
evicted(Client **c, int n)
{
	int			found = 0;

	for (int i = 0; i < n; i++)
		found += clients_evicted(c[i]);
	return found;
}

static void
leave(Client **c, int n)
{
	for (int i = 0; i < n; i++)
		clients_leave(c[i]);
}

static void
test_share(void)
{
	Client	   *a[40];
	Client	   *b;

	http_conf.max_clients = 20;
	http_conf.reserved_clients = 5;
	http_conf.clients_per_address = 10;
	for (int i = 0; i < 40; i++)
		a[i] = enter(1);
	CHECK(evicted(a, 40) == 30 && evicted(a, 30) == 30, "the oldest of an address leave: %d", evicted(a, 40));
	CHECK(clients_claim(a[39], 7) == CLAIM_OK && clients_claim(a[0], 7) == CLAIM_EVICTED, "a key");
	b = enter(1);
	CHECK(evicted(a, 40) == 30 && !clients_evicted(b), "who has one counts no more");
	clients_unknown(a[39]);
	clients_leave(b);
	leave(a, 40);
	CHECK(clients_count() == 0, "all have left");
}

static void
test_full(void)
{
	Client	   *c[20];
	Client	   *more[3];

	http_conf.clients_per_address = 0;
	for (int i = 0; i < 20; i++)
		c[i] = enter((unsigned char) (i < 12 ? 1 : 2 + i));
	more[0] = enter(77);
	CHECK(more[0] != NULL && clients_evicted(c[0]) && evicted(c, 20) == 1,
		  "of the address that has most the oldest");
	for (int i = 1; i < 20; i++)
		CHECK(clients_claim(c[i], 1 + (uint64_t) i % 4) == CLAIM_OK, "with a key");
	more[1] = enter(78);
	CHECK(more[1] != NULL && clients_evicted(more[0]) && evicted(c, 20) == 1,
		  "who has no key goes before those who have");
	clients_claim(more[1], 7);
	CHECK(enter(79) == NULL, "all are at work");
	clients_awaited(c[4], true, false);
	CHECK(enter(79) == NULL, "and one sends a body");
	clients_awaited(c[5], true, true);
	more[2] = enter(79);
	CHECK(more[2] != NULL && clients_evicted(c[5]), "but one between two requests");
	leave(more, 3);
	leave(c, 20);
	CHECK(clients_count() == 0, "all have left");
}

static void
test_reserve(void)
{
	Client	   *c[20];
	Claim		got[20];

	http_conf.clients_per_address = 0;
	for (int i = 0; i < 20; i++)
	{
		c[i] = enter(1);
		got[i] = clients_claim(c[i], 0);
	}
	CHECK(got[14] == CLAIM_OK && got[15] == CLAIM_FULL, "the rest is for those with keys");
	CHECK(clients_claim(c[15], 7) == CLAIM_OK && clients_claim(c[15], 0) == CLAIM_OK,
		  "who may ask for what needs none");
	clients_release(c[0]);
	CHECK(clients_claim(c[16], 0) == CLAIM_OK && clients_claim(c[17], 0) == CLAIM_FULL, "one has ended");
	http_conf.clients_per_address = 10;
	CHECK(clients_claim(c[18], 0) == CLAIM_SHARE, "its address has too many");
	leave(c, 20);
	CHECK(clients_count() == 0, "all have left");
	for (int i = 0; i < 15; i++)
		c[i] = enter((unsigned char) i), got[i] = clients_claim(c[i], 0);
	CHECK(got[14] == CLAIM_OK, "all places were given back");
	leave(c, 15);
}

/* Can the client's thread still write to it? */
static bool
writable(Client *c)
{
	return send(clients_fd(c), "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

/*
 * A client that does not read its response is evicted, one whose input is unread is not; neither waits
 * for evicted ones.
 */
static void
test_writing(void)
{
	Client	   *c[20];
	Client	   *more[CLIENTS_LEAVING];
	int			other[20];

	http_conf.clients_per_address = 0;
	http_conf.idle_timeout_s = 60;
	http_conf.header_timeout_s = 10;
	for (int i = 0; i < 20; i++)
		c[i] = enter_with((unsigned char) i, &other[i]);
	/* all have complete heads, so no client is awaited */
	for (int i = 0; i < 20; i++)
		clients_awaited(c[i], false, false);
	CHECK(enter(77) == NULL, "whose head is whole does not leave");
	clients_claim(c[1], 7);
	clients_claim(c[2], 0);
	CHECK(clients_write_begin(c[1]) == 60000000 && clients_write_begin(c[2]) == 10000000,
		  "times to take an answer");
	CHECK(enter(77) == NULL, "nor one whose request is answered");
	clients_write_begin(c[3]);
	more[0] = enter(77);
	CHECK(more[0] != NULL && clients_evicted(c[3]) && evicted(c, 20) == 1 && !writable(c[3]),
		  "one that takes no refusal does, at once");
	CHECK(clients_write_begin(c[3]) == 100000, "a last word");
	clients_leave(more[0]);
	more[0] = enter(78);
	clients_awaited(c[4], true, false);
	clients_awaited(c[5], true, false);
	CHECK(send(other[4], "x", 1, 0) == 1, "it sends");
	more[1] = enter(79);
	CHECK(more[1] != NULL && clients_evicted(c[5]) && !clients_evicted(c[4]),
		  "not one with bytes that nobody has read");
	leave(more, 2);
	leave(c, 20);
	for (int i = 0; i < 20; i++)
		close(other[i]);
	/* evicted clients that don't leave delay no other one */
	for (int i = 0; i < 20; i++)
		c[i] = enter(1);
	for (int i = 0; i < CLIENTS_LEAVING; i++)
		more[i] = enter(2);
	CHECK(more[CLIENTS_LEAVING - 1] != NULL, "a crowd comes and goes");
	{
		int64_t		start = clock_us();

		CHECK(enter(3) == NULL && clock_us() - start < 500000, "turned away at once");
	}
	leave(more, CLIENTS_LEAVING);
	leave(c, 20);
	CHECK(clients_count() == 0, "all have left");
}

/* One key gets at most three quarters of the places. */
static void
test_key_share(void)
{
	Client	   *c[20];
	Claim		got[20];

	for (int i = 0; i < 20; i++)
	{
		c[i] = enter(1);
		got[i] = clients_claim(c[i], 7);
		clients_awaited(c[i], true, false);
	}
	CHECK(got[14] == CLAIM_OK && got[15] == CLAIM_KEY && got[19] == CLAIM_KEY, "its share");
	clients_leave(c[19]);
	c[19] = enter(2);
	CHECK(c[19] != NULL && evicted(c, 20) == 0 && clients_claim(c[19], 8) == CLAIM_OK,
		  "the rest is for other keys");
	clients_leave(c[0]);
	c[0] = enter(3);
	CHECK(clients_claim(c[0], 7) == CLAIM_OK && clients_claim(c[16], 7) == CLAIM_KEY, "one has ended");
	clients_release(c[1]);
	CHECK(clients_claim(c[16], 7) == CLAIM_OK, "another one");
	leave(c, 20);
	CHECK(clients_count() == 0, "all have left");
}

/*
 * Requests without a key of a client that has one count for its key, and between two requests it may be
 * evicted.
 */
static void
test_key_between(void)
{
	Client	   *c[20];
	Client	   *more[4];
	Claim		got[20];
	int			other[4];

	for (int i = 0; i < 20; i++)
	{
		c[i] = i >= 16 ? enter_with(1, &other[i - 16]) : enter(1);
		clients_claim(c[i], 7);
		clients_release(c[i]);
		clients_awaited(c[i], false, false);
	}
	for (int i = 0; i < 20; i++)
		got[i] = clients_claim(c[i], 0);
	CHECK(got[14] == CLAIM_OK && got[15] == CLAIM_KEY && got[19] == CLAIM_KEY,
		  "what needs no key has the key's share, too");
	CHECK(enter(2) == NULL, "while a key is looked up nobody leaves");
	/*
	 * clients without a byte of the next request are evicted first, among these one whose bytes have not
	 * arrived
	 */
	clients_awaited(c[15], true, false);
	clients_write_begin(c[16]);
	for (int i = 17; i < 20; i++)
		clients_awaited(c[i], true, true);
	CHECK(send(other[1], "x", 1, 0) == 1 && send(other[3], "x", 1, 0) == 1, "they send");
	more[0] = enter(2);
	CHECK(more[0] != NULL && clients_evicted(c[18]) && evicted(c, 20) == 1, "the one that sends nothing");
	clients_claim(more[0], 8);
	clients_awaited(more[0], false, false);
	more[1] = enter(3);
	CHECK(more[1] != NULL && clients_evicted(c[15]) && evicted(c, 20) == 2,
		  "the beginning of a head keeps no place");
	clients_leave(more[1]);
	clients_awaited(c[19], false, false);
	for (int i = 1; i < 4; i++)
	{
		more[i] = enter(3);
		if (more[i] != NULL)
			clients_claim(more[i], 8), clients_awaited(more[i], false, false);
	}
	CHECK(more[1] != NULL && more[2] != NULL && clients_evicted(c[16]) && !writable(c[16]),
		  "nor a refusal that is not taken");
	CHECK(more[3] != NULL && clients_evicted(c[17]), "in the end the oldest whose bytes have come");
	CHECK(enter(4) == NULL && evicted(c, 20) == 4, "but requests do");
	for (int i = 0; i < 4; i++)
		if (more[i] != NULL)
			clients_leave(more[i]);
	leave(c, 20);
	for (int i = 0; i < 4; i++)
		close(other[i]);
	CHECK(clients_count() == 0, "all have left");
}

/* Idle connections between two requests don't shut out new clients. */
static void
test_key_idle(void)
{
	Client	   *c[20];
	Client	   *more[7];
	int			other[20];

	http_conf.clients_per_address = 0;
	for (int i = 0; i < 20; i++)
	{
		c[i] = enter_with(1, &other[i]);
		clients_claim(c[i], i < 15 ? 7 : 8);
		clients_release(c[i]);
		clients_awaited(c[i], true, true);
	}
	CHECK(send(other[0], "x", 1, 0) == 1, "its next request has come");
	for (int i = 0; i < 5; i++)
		more[i] = enter((unsigned char) (2 + i));
	CHECK(evicted(more, 5) == 0 && evicted(c, 20) == 5 && evicted(c + 1, 5) == 5,
		  "the oldest of the key that has most make room");
	more[5] = enter(9);
	CHECK(clients_evicted(more[0]) && evicted(c, 20) == 5, "but not for any number of those without a key");
	clients_claim(more[1], 9);
	clients_claim(more[2], 9);
	more[6] = enter(9);
	CHECK(evicted(more, 7) == 1 && evicted(c, 20) == 6 && clients_evicted(c[6]),
		  "as some have shown their keys one more makes room");
	for (int i = 0; i < 20; i++)
		close(other[i]);
	leave(more, 7);
	leave(c, 20);
	CHECK(clients_count() == 0, "all have left");
}

static void
test_bodies(void)
{
	int64_t		now = clock_us();
	int			pair[2];

	http_conf.body_memory = 1000;
	http_conf.max_body = 100;
	CHECK(bodies_take(BODIES_REQUEST, 7, 500, -1, now) == BODIES_OK &&
		  bodies_take(BODIES_REQUEST, 7, 250, -1, now) == BODIES_OK, "fits");
	CHECK(bodies_take(BODIES_REQUEST, 7, 1, -1, now) == BODIES_LATE &&
		  bodies_take(BODIES_REQUEST, 8, 251, -1, now) == BODIES_LATE, "a key's share, and all");
	CHECK(bodies_take(BODIES_REQUEST, 8, 250, -1, now) == BODIES_OK &&
		  bodies_take(BODIES_REQUEST, 9, 1, -1, now) == BODIES_LATE, "the rest");
	bodies_give(BODIES_REQUEST, 7, 250);
	CHECK(bodies_take(BODIES_REQUEST, 9, 250, -1, clock_us() + 5000000) == BODIES_OK, "given back");
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0)
	{
		close(pair[1]);
		CHECK(bodies_take(BODIES_REQUEST, 9, 500, pair[0], clock_us() + 5000000) == BODIES_CLOSED,
			  "its client has left");
		close(pair[0]);
	}
	bodies_give(BODIES_REQUEST, 7, 500);
	bodies_give(BODIES_REQUEST, 8, 250);
	bodies_give(BODIES_REQUEST, 9, 250);
	bodies_give(BODIES_REQUEST, 9, 0);
	CHECK(bodies_take(BODIES_ANSWER, 7, 750, -1, now) == BODIES_OK &&
		  bodies_take(BODIES_REQUEST, 7, 750, -1, now) == BODIES_OK, "answers have as much again");
	CHECK(bodies_take(BODIES_ANSWER, 7, 1, -1, now) == BODIES_LATE &&
		  bodies_take(BODIES_ANSWER, 8, 250, -1, now) == BODIES_OK, "a key's share of it");
	CHECK(bodies_of_answer(100) == 100 && bodies_of_answer(1 << 30) == 750,
		  "one that is larger than all of it fits, too");
	bodies_give(BODIES_ANSWER, 7, 750);
	bodies_give(BODIES_ANSWER, 8, 250);
	bodies_give(BODIES_REQUEST, 7, 750);
	http_conf.max_body = 5000;
	CHECK(bodies_take(BODIES_REQUEST, 7, 5000, -1, now) == BODIES_OK &&
		  bodies_take(BODIES_REQUEST, 8, 1, -1, now) == BODIES_LATE, "one always fits");
	bodies_give(BODIES_REQUEST, 7, 5000);
}

static void
test_addresses(void)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6};
	char		text[64];
	Peer		p,
				q;

	inet_pton(AF_INET6, "2001:db8:1:2:3:4:5:6", &a.sin6_addr);
	p = peer_of(&a);
	inet_pton(AF_INET6, "2001:db8:1:2::7", &a.sin6_addr);
	q = peer_of(&a);
	peer_text(&p, text, sizeof(text));
	CHECK(peer_same(&p, &q) && strcmp(text, "2001:db8:1:2::/64") == 0, "%s", text);
	inet_pton(AF_INET6, "::ffff:192.0.2.7", &a.sin6_addr);
	p = peer_of(&a);
	q = peer(7);
	peer_text(&p, text, sizeof(text));
	CHECK(peer_same(&p, &q) && strcmp(text, "192.0.2.7") == 0, "%s", text);
}

static void
test_keys(void)
{
	unsigned char right[GUARD_HASH] = {1};
	unsigned char wrong[GUARD_HASH] = {2};
	Peer		a = peer(1);
	Peer		b = peer(2);
	int64_t		now = 1000000000;

	http_conf.wrong_keys = 3;
	http_conf.wrong_key_window_s = 10;
	guard_init(4711);
	CHECK(!guard_known(right), "new");
	guard_right(right);
	CHECK(guard_known(right) && !guard_known(wrong), "known");
	CHECK(!guard_wrong(&a, wrong, now) && !guard_wrong(&a, wrong, now) && guard_blocked(&a, wrong, now) == 0,
		  "tries");
	CHECK(guard_wrong(&a, wrong, now + 4000000) && !guard_wrong(&a, wrong, now + 4000000), "told once");
	CHECK(guard_blocked(&a, wrong, now + 4000001) == 6 && guard_blocked(&a, right, now + 4000001) == 0 &&
		  guard_blocked(&b, wrong, now) == 0, "who is refused");
	CHECK(guard_blocked(&a, wrong, now + 10000000) == 0, "the window ends");
	CHECK(!guard_wrong(&a, right, now + 10000000) && !guard_wrong(&a, wrong, now + 10000000) &&
		  guard_wrong(&a, wrong, now + 10000000), "a new one");
	CHECK(guard_blocked(&a, right, now + 10000001) == 10, "a key that was revoked is known no more");
	/*
	 * many addresses: no memory beyond the tables, and those that come again and again are remembered
	 * longest
	 */
	for (int i = 0; i < 100000; i++)
	{
		Peer		p = a;

		memcpy(p.bytes, &i, sizeof(i));
		p.bytes[8] = 1;
		guard_wrong(&p, wrong, now + 11000000);
		if (i % 100 == 0)
			guard_wrong(&a, wrong, now + 11000000);
	}
	CHECK(guard_blocked(&a, wrong, now + 11000001) > 0, "as ever");
	http_conf.wrong_keys = 0;
	CHECK(guard_blocked(&a, wrong, now + 11000001) == 0 && !guard_wrong(&a, wrong, now), "no limit");
}

int
main(void)
{
	RUN(test_share());
	RUN(test_full());
	RUN(test_reserve());
	RUN(test_writing());
	RUN(test_key_share());
	RUN(test_key_between());
	RUN(test_key_idle());
	RUN(test_bodies());
	RUN(test_addresses());
	RUN(test_keys());
	return check_done("test_http_clients");
}
