/*
 * shutdown_flush.h
 *	  Shutdown of the engine: KV blocks that must survive it are written to files.
 */
#ifndef VLLM_SERVER_SHUTDOWN_FLUSH_H
#define VLLM_SERVER_SHUTDOWN_FLUSH_H

#include "server/step_loop.h"

#define KEEP_US	INT64_C(4000000)	/* the supervisor waits a second longer */

/*
 * Write all computed blocks for which the offload tier has a directory, as far as possible within
 * KEEP_US.  Called on a thread that is neither the step thread nor the server thread, before the process
 * ends: no steps are made after this.
 */
void		keep_all(Step *s, const Backend *be);

#endif
