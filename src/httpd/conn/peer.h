/*
 * peer.h
 *	  The address of a client.
 */
#ifndef VLLM_HTTPD_CONN_PEER_H
#define VLLM_HTTPD_CONN_PEER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/*
 * An IPv4 address, mapped, or the first 64 bits of an IPv6 address, since one network usually owns all
 * addresses with these.
 */
typedef struct Peer
{
	unsigned char bytes[16];
} Peer;

/*
 * sa: a struct sockaddr of any family.  It is copied, because each family is a type of its own for the
 * compiler (aliasing).
 */
static inline Peer
peer_of(const void *sa)
{
	Peer		p = {{0}};
	sa_family_t family;

	memcpy(&family, (const char *) sa + offsetof(struct sockaddr, sa_family), sizeof(family));
	if (family == AF_INET)
	{
		p.bytes[10] = p.bytes[11] = 0xff;
		memcpy(p.bytes + 12, (const char *) sa + offsetof(struct sockaddr_in, sin_addr), 4);
	}
	else if (family == AF_INET6)
	{
		struct in6_addr a;

		memcpy(&a, (const char *) sa + offsetof(struct sockaddr_in6, sin6_addr), sizeof(a));
		memcpy(p.bytes, &a, IN6_IS_ADDR_V4MAPPED(&a) ? 16 : 8);
	}
	return p;
}

static inline int
peer_same(const Peer *a, const Peer *b)
{
	return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

/*
 * Return the FNV-1a hash, started with a random seed, so that nobody can choose an address with a given
 * position in a table.
 */
static inline uint64_t
peer_hash(const Peer *p, uint64_t seed)
{
	uint64_t	h = 0xcbf29ce484222325u ^ seed;

	for (size_t i = 0; i < sizeof(p->bytes); i++)
		h = (h ^ p->bytes[i]) * 0x100000001b3u;
	return h ^ (h >> 32);
}

static inline void
peer_text(const Peer *p, char *to, size_t size)
{
	static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
	char		a[INET6_ADDRSTRLEN] = "";

	if (memcmp(p->bytes, mapped, sizeof(mapped)) == 0)
		inet_ntop(AF_INET, p->bytes + 12, a, sizeof(a));
	else
		inet_ntop(AF_INET6, p->bytes, a, sizeof(a));
	snprintf(to, size, "%s%s", a, strchr(a, ':') != NULL ? "/64" : "");
}

#endif
