/*
 * server.h
 *	  The server thread: slots, conversations, control commands.
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

/* Server thread only, but for the members which say otherwise themselves. */
typedef struct Server
{
	Link		link;
	const Backend *be;
	SettingsBox *box;
	Jobs	   *jobs;
	Stats	   *stats;
	Step	   *step;
	Models	   *models;
	GrammarCache *grammars;		/* for any thread */
	ServerCall **table;			/* by slot: the conversation, NULL if none */
	ServerCall *closed_pending;			/* closed, but a job or the backend still has them */
	uint64_t	next_id;
	bool		soon;			/* sleep_turn() waits for something that nobody rings for */
	int			unpoked;		/* requests submitted of which the step thread hasn't heard */
} Server;

Server	   *server_new(const WireArena *arena, int control_fd, const Backend *be, SettingsBox *box,
					   const char *isa);
/* Serve for ever. */
void		server_run(Server *s) __attribute__((noreturn));

/*
 * A request was submitted.  The step thread hears of several at once, at the end of
 * the server's round at the latest: it shall not wake for each.
 */
void		server_submitted(Server *s);
/* Call fn for every conversation (open or not), also inner ones. */
void		server_each(Server *s, void (*fn) (ServerCall *c, void *arg), void *arg);
/* Free a conversation if nobody needs it any more: closed, and neither a job nor the backend has it. */
bool		server_try_free(ServerCall *c);
/* WK_CONTROL */
void		server_answer(ServerCall *c, const char *text);
void		server_control(Server *s, ServerCall *c, const char *command);

#endif
