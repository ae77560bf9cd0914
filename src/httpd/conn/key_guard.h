/*
 * key_guard.h
 *	  Blocks addresses that send wrong keys.
 */
#ifndef VLLM_HTTPD_CONN_KEY_GUARD_H
#define VLLM_HTTPD_CONN_KEY_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "httpd/conn/peer.h"

#define GUARD_HASH	32			/* bytes of a key's SHA-256 */

/* Called before all other functions.  The seed decides the entries' positions in the tables. */
void		guard_init(uint64_t seed);

/*
 * Must a request with this key be refused without a look-up?  Returns 0 if not, else the seconds until
 * its address may try again.  now: microseconds of clock_us(), as below.
 */
int			guard_blocked(const Peer *from, const unsigned char *hash, int64_t now);
/* Was this key valid at its last look-up? */
bool		guard_known(const unsigned char *hash);
/* The key was valid. */
void		guard_right(const unsigned char *hash);
/* The key was not valid.  Returns true if the address is blocked from now on, which the caller logs once. */
bool		guard_wrong(const Peer *from, const unsigned char *hash, int64_t now);

#endif
