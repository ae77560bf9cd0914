/*
 * key_guard.h
 *	  Addresses that send wrong keys.
 */
#ifndef VLLM_HTTPD_CONN_KEY_GUARD_H
#define VLLM_HTTPD_CONN_KEY_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "httpd/conn/peer.h"

#define GUARD_HASH	32			/* bytes of a key's SHA-256 */

/* Before all else: what the tables' places depend on. */
void		guard_init(uint64_t seed);

/*
 * Must a request with this key be refused unseen?  0: no, else the seconds until its address may try again.
 * now: microseconds of clock_us(), as below.
 */
int			guard_blocked(const Peer *from, const unsigned char *hash, int64_t now);
/* Was this key valid when it was looked up last? */
bool		guard_known(const unsigned char *hash);
/* The key was valid. */
void		guard_right(const unsigned char *hash);
/* It was not; true: from now on the address is refused, which is to be told once. */
bool		guard_wrong(const Peer *from, const unsigned char *hash, int64_t now);

#endif
