/*
 * test_http_clients.c
 *	  Who has to leave when the HTTP door has too many clients, and which addresses are refused for their wrong keys.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "http/clients.h"
#include "http/conf.h"
#include "http/guard.h"
#include "tests/unit/check.h"

static Peer
peer(unsigned char last)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	unsigned char bytes[4] = {192, 0, 2, last};

	memcpy(&a.sin_addr, bytes, 4);
	return peer_of(&a);
}

static Client *
enter(unsigned char last)
{
	Peer		p = peer(last);
	int			pair[2];
	Client	   *c;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
		return NULL;
	close(pair[1]);
	c = clients_enter(pair[0], &p);
	if (c == NULL)
		close(pair[0]);
	return c;
}

/* How many of these were told to leave? */
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
	CHECK(clients_claim(a[39], true) == CLAIM_OK && clients_claim(a[0], true) == CLAIM_GONE, "a key");
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
	CHECK(more[0] != NULL && clients_evicted(c[0]) && evicted(c, 20) == 1, "of the address that has most the oldest");
	for (int i = 1; i < 20; i++)
		CHECK(clients_claim(c[i], true) == CLAIM_OK, "with a key");
	more[1] = enter(78);
	CHECK(more[1] != NULL && clients_evicted(more[0]) && evicted(c, 20) == 1, "who has no key goes before those who have");
	clients_claim(more[1], true);
	CHECK(enter(79) == NULL, "all are at work");
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
		got[i] = clients_claim(c[i], false);
	}
	CHECK(got[14] == CLAIM_OK && got[15] == CLAIM_FULL, "the rest is for those with keys");
	CHECK(clients_claim(c[15], true) == CLAIM_OK && clients_claim(c[15], false) == CLAIM_OK, "who may ask for what needs none");
	clients_release(c[0]);
	CHECK(clients_claim(c[16], false) == CLAIM_OK && clients_claim(c[17], false) == CLAIM_FULL, "one has ended");
	http_conf.clients_per_address = 10;
	CHECK(clients_claim(c[18], false) == CLAIM_SHARE, "its address has too many");
	leave(c, 20);
	CHECK(clients_count() == 0, "all have left");
	for (int i = 0; i < 15; i++)
		c[i] = enter((unsigned char) i), got[i] = clients_claim(c[i], false);
	CHECK(got[14] == CLAIM_OK, "all places were given back");
	leave(c, 15);
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
	guard_right(right);
	CHECK(!guard_wrong(&a, wrong, now) && !guard_wrong(&a, wrong, now) && guard_blocked(&a, wrong, now) == 0, "tries");
	CHECK(guard_wrong(&a, wrong, now + 4000000) && !guard_wrong(&a, wrong, now + 4000000), "told once");
	CHECK(guard_blocked(&a, wrong, now + 4000001) == 6 && guard_blocked(&a, right, now + 4000001) == 0 && guard_blocked(&b, wrong, now) == 0, "who is refused");
	CHECK(guard_blocked(&a, wrong, now + 10000000) == 0, "the window ends");
	CHECK(!guard_wrong(&a, right, now + 10000000) && !guard_wrong(&a, wrong, now + 10000000) && guard_wrong(&a, wrong, now + 10000000), "a new one");
	CHECK(guard_blocked(&a, right, now + 10000001) == 10, "a key that was revoked is known no more");
	/* many addresses: no memory but the tables', and who comes again and again is remembered longest */
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
	test_share();
	test_full();
	test_reserve();
	test_addresses();
	test_keys();
	return check_done("test_http_clients");
}
