/*
 * desk.h
 *	  Where backends come to: slots and conversations on one side, the line on the other.
 */
#ifndef VLLM_REMOTE_DESK_H
#define VLLM_REMOTE_DESK_H

#include "base/err.h"
#include "remote/http.h"
#include "remote/settings.h"
#include "wire/wire.h"

typedef struct Desk Desk;

/* set: the desk's own from now on.  Not ready yet: nobody is attended to before desk_turn(). */
Desk	   *desk_new(const WireArena *arena, int control_fd, Http *h, RSettings *set, Err *e);
void		desk_free(Desk *d);
/* Tell the supervisor that backends may come. */
void		desk_ready(Desk *d);
/* Sleep until there is something to do, but no longer than most_us, and do it.  False: the program is to end. */
bool		desk_turn(Desk *d, int64_t most_us);

#endif
