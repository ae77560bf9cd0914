/*
 * remote_server.h
 *	  The loop that serves backends: slots and server calls on one side, the dispatcher on the other.
 */
#ifndef VLLM_REMOTE_REMOTE_SERVER_H
#define VLLM_REMOTE_REMOTE_SERVER_H

#include "base/err.h"
#include "remote/http/http_client.h"
#include "remote/remote_settings.h"
#include "ipc/wire.h"

typedef struct RemoteServer RemoteServer;

/* Takes ownership of the contents of set.  The server polls no slot before remote_server_poll(). */
RemoteServer *remote_server_new(const WireArena *arena, int control_fd, Http *h, RSettings *set, Err *e);
void		remote_server_free(RemoteServer *d);
/* Report to the supervisor that the program is ready for backends. */
void		remote_server_ready(RemoteServer *d);
/*
 * Sleep until there is something to do, but at most most_us, and do it.  Returns false if the program
 * must end.
 */
bool		remote_server_poll(RemoteServer *d, int64_t most_us);

#endif
