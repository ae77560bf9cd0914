/*
 * remote_server.h
 *	  The loop that serves backends: slots and conversations on one side, the dispatcher on the other.
 */
#ifndef VLLM_REMOTE_REMOTE_SERVER_H
#define VLLM_REMOTE_REMOTE_SERVER_H

#include "base/err.h"
#include "remote/http/http_client.h"
#include "remote/remote_settings.h"
#include "ipc/wire.h"

typedef struct RemoteServer RemoteServer;

/* Takes set over.  Not ready yet: no slot is polled before remote_server_turn(). */
RemoteServer *remote_server_new(const WireArena *arena, int control_fd, Http *h, RSettings *set, Err *e);
void		remote_server_free(RemoteServer *d);
/* Tell the supervisor that backends may come. */
void		remote_server_ready(RemoteServer *d);
/*
 * Sleep until there is something to do, but no longer than most_us, and do it.  False: the program is to end.
 */
bool		remote_server_turn(RemoteServer *d, int64_t most_us);

#endif
