/*
 * shutdown_flush.h
 *	  An orderly end of the engine: what shall outlive it goes to files.
 */
#ifndef VLLM_SERVER_SHUTDOWN_FLUSH_H
#define VLLM_SERVER_SHUTDOWN_FLUSH_H

#include "server/step_loop.h"

#define KEEP_US	INT64_C(4000000)	/* the supervisor waits for a second longer */

/*
 * Everything that models have computed and the offload tier has a directory for, as far as can be done within
 * KEEP_US.  Called by a thread that is neither the step thread nor the server's, before the process ends: no
 * steps are made from now on.
 */
void		keep_all(Step *s, const Backend *be);

#endif
