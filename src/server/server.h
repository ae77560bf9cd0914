/*
 * server.h
 *	  The server thread: slots, server calls, control commands.
 */
#ifndef VLLM_SERVER_SERVER_H
#define VLLM_SERVER_SERVER_H

#include "backend/backend.h"
#include "server/server_call.h"
#include "server/worker_pool.h"
#include "server/models/registry.h"
#include "server/server_stats.h"
#include "server/step_loop.h"
#include "server/request/structured_options.h"

/* Server thread only, except for members that say otherwise. */
typedef struct Server
{
	Link		link;
	const Backend *be;
	SettingsBox *box;
	Jobs	   *jobs;
	Stats	   *stats;
	Step	   *step;
	Models	   *models;
	GrammarCache *grammars;		/* any thread */
	ServerCall **table;			/* indexed by slot; NULL = none */
	ServerCall *closed_pending;			/* closed calls that a job or the backend still uses */
	uint64_t	next_id;
	bool		soon;			/* sleep_poll() waits for something that rings no doorbell */
	int			wakes_pending;	/* submitted requests that the step thread has not been woken for */
} Server;

Server	   *server_new(const WireArena *arena, int control_fd, const Backend *be, SettingsBox *box,
					   const char *isa);
/* Serve forever. */
void		server_run(Server *s) __attribute__((noreturn));

/*
 * A request was submitted.  The step thread is woken once for several requests, at the latest at the end
 * of the server's iteration, instead of once for each.
 */
void		server_submitted(Server *s);
/* Call fn for every server call (open or not), inner ones included. */
void		server_each(Server *s, void (*fn) (ServerCall *c, void *arg), void *arg);
/*
 * Return those active calls that are wanted, in the order of their arrival; the caller frees the array
 * with mem_free().  NULL: none.
 */
ServerCall **server_calls_by_arrival(Server *s, bool (*wanted) (ServerCall *c), size_t *n);
/*
 * Free a call if it is unused: closed, and neither a job nor the backend uses it.  Returns true if it
 * was freed.
 */
bool		server_try_free(ServerCall *c);
/* WK_CONTROL */
void		server_answer(ServerCall *c, const char *text);
void		server_control(Server *s, ServerCall *c, const char *command);

#endif
