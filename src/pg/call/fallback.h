/*
 * fallback.h
 *	  Option "fallback": another model for a request whose model has failed.
 */
#ifndef VLLM_PG_CALL_FALLBACK_H
#define VLLM_PG_CALL_FALLBACK_H

#include "postgres.h"

#include "lib/stringinfo.h"

#define ROUTE_MOST	8			/* models asked for one request, the first one included */

/* The models that a request was sent to, and why others could not be asked. */
typedef struct FallbackRoute
{
	int			n;
	char		tried[ROUTE_MOST][NAMEDATALEN];
	char		why[256];		/* why the last one could not be asked; '' = it could */
	/* the model to ask next because the last one wasn't sure; '' = the next fallback */
	char		next[NAMEDATALEN];
} FallbackRoute;

/*
 * Return true if another model may serve the request after this error.  elsewhere: the program that
 * served the request suggests it.  Needs only error and message, so it may be called outside of
 * transactions.
 */
bool		route_may(const ErrorData *e, bool elsewhere, const char *body, Size len);

/* Like route_may(), for a reply whose body may say that the model has failed. */
bool		route_may_body(const char *reply, Size reply_len, const char *body, Size len);

/*
 * Make the message for the next model that the current user may ask, and return its name in model
 * (NAMEDATALEN bytes).  Return false if there is none.  Reads the catalogs.
 */
bool		route_next(FallbackRoute *r, const char *body, Size len, StringInfo to, char *model);

/*
 * Make the message for this model; return false if it can't be asked, with the reason in r->why.  For
 * cascade.c.
 */
bool		route_to(FallbackRoute *r, const char *model, const char *body, Size len, StringInfo to);
/* Return the error for a failed route_to(); palloc'ed. */
ErrorData  *route_unsure(const FallbackRoute *r);

/*
 * Before the request is sent: like route_next(), if the program that serves its model does not run,
 * but another model can be asked.  Initialises to.
 */
bool		route_around(FallbackRoute *r, const StringInfoData *body, StringInfo to, char *model);

/* Add to the last model's error which models were asked before it, or why the next one was not. */
void		route_add_detail(const FallbackRoute *r, ErrorData *e);

#endif
