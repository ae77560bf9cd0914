/*
 * client_shares.h
 *	  Connected clients, and which ones are evicted when there are too many.
 */
#ifndef VLLM_HTTPD_CONN_CLIENT_SHARES_H
#define VLLM_HTTPD_CONN_CLIENT_SHARES_H

#include <stdbool.h>
#include <stdint.h>

#include "httpd/conn/peer.h"

#define CLIENTS_LEAST	16		/* minimum of vllm.http_max_clients */
#define CLIENTS_LEAVING	256		/* evicted clients that have not left yet */
#define CLIENTS_KEY_SHARE(max)	((max) * 3 / 4) /* running requests of one key */

typedef struct Client Client;

/* May a request run? */
typedef enum Claim
{
	CLAIM_OK,
	CLAIM_SHARE,				/* the client's address has its whole share of requests without keys */
	CLAIM_FULL,					/* the remaining places are reserved for clients with keys */
	CLAIM_KEY,					/* the key has its whole share */
	CLAIM_EVICTED				/* the client was evicted */
} Claim;

/*
 * Add a client that has connected.  Returns NULL if there is no place for it, even by eviction.  On
 * success the Client owns the socket.
 */
Client	   *clients_enter(int fd, const Peer *from);
/* Remove the client and close its socket. */
void		clients_leave(Client *c);

/*
 * A request begins.  key: number of its valid key; 0: the request needs no key, and counts for the key
 * that the client had.
 */
Claim		clients_claim(Client *c, uint64_t key);
/* The request had no valid key. */
void		clients_unknown(Client *c);
/* The request has ended. */
void		clients_release(Client *c);
/*
 * awaited: the server waits for bytes of the client, so that it may be evicted.  idle: no byte of the
 * next request has come.
 */
void		clients_awaited(Client *c, bool awaited, bool idle);
/*
 * The client's thread begins to write.  Meanwhile a client without a running request may be evicted, and
 * its writes then fail.  Returns how many microseconds the client has to read what is written.
 */
int64_t		clients_write_begin(Client *c);
void		clients_write_end(Client *c);
/* Was the client evicted? */
bool		clients_evicted(Client *c);

int			clients_fd(const Client *c);
const Peer *clients_peer(const Client *c);

/* Shut down all sockets, so that the threads of the clients end. */
void		clients_end_all(void);
/* Return the number of clients that have not left. */
int			clients_count(void);

#endif
