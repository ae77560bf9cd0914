/*
 * client_shares.h
 *	  Connected clients, and which must leave when there are too many.
 */
#ifndef VLLM_HTTPD_CONN_CLIENT_SHARES_H
#define VLLM_HTTPD_CONN_CLIENT_SHARES_H

#include <stdbool.h>
#include <stdint.h>

#include "httpd/conn/peer.h"

#define CLIENTS_LEAST	16		/* of vllm.http_max_clients */
#define CLIENTS_LEAVING	256		/* that were told to leave, and have not yet */
#define CLIENTS_KEY_SHARE(max)	((max) * 3 / 4) /* requests of one key in hand */

typedef struct Client Client;

/* Is there a place for a request? */
typedef enum Claim
{
	CLAIM_OK,
	CLAIM_SHARE,				/* the client's address has all that it may have without keys */
	CLAIM_FULL,					/* what is left is kept for those with keys */
	CLAIM_KEY,					/* the key has all that one key may have */
	CLAIM_GONE					/* the client was told to leave */
} Claim;

/*
 * A client has come: its place, or NULL: there is none, even if others leave.  The socket is the client's
 * from now on.
 */
Client	   *clients_enter(int fd, const Peer *from);
/* It leaves; its socket is closed. */
void		clients_leave(Client *c);

/*
 * A request begins, with a valid key (a number of its own) or where none is needed (0: it counts for the key
 * that the client had).
 */
Claim		clients_claim(Client *c, uint64_t key);
/* It had no valid key. */
void		clients_unknown(Client *c);
/* It has ended. */
void		clients_release(Client *c);
/*
 * Is something expected from the client, so that it may be told to leave?  idle: nothing of a request has
 * come.
 */
void		clients_awaited(Client *c, bool awaited, bool idle);
/*
 * The client's thread writes from now on, and a client without a request in hand may be told to leave
 * meanwhile: its writes fail then.  Returns how many microseconds the client has to take what is written.
 */
int64_t		clients_write_begin(Client *c);
void		clients_write_end(Client *c);
/* Was it told to leave? */
bool		clients_evicted(Client *c);

int			clients_fd(const Client *c);
const Peer *clients_peer(const Client *c);

/* Close all sockets under their owners, who will find them closed. */
void		clients_end_all(void);
/* How many have not left. */
int			clients_count(void);

#endif
