/*
 * fallback.h
 *	  Another model for a request whose model has failed: option "fallback".
 */
#ifndef VLLM_PG_CALL_FALLBACK_H
#define VLLM_PG_CALL_FALLBACK_H

#include "postgres.h"

#include "lib/stringinfo.h"

#define ROUTE_MOST	8			/* models that are asked for one request, with the first */

/* Whom a request has been sent to, and what was in the way of others. */
typedef struct FallbackRoute
{
	int			n;
	char		tried[ROUTE_MOST][NAMEDATALEN];
	char		why[256];		/* the last one that could not be asked; '' = none */
	/* who is to be asked as the last one wasn't sure; '' = one of the fallbacks */
	char		next[NAMEDATALEN];
} FallbackRoute;

/*
 * May the request be answered by another model after this error?  elsewhere: the endpoint's program thinks
 * so.  Looks at the error and the message alone: anywhere.
 */
bool		route_may(const ErrorData *e, bool elsewhere, const char *body, Size len);

/* The same of an answer to a body, which may say that the model has failed. */
bool		route_may_body(const char *reply, Size reply_len, const char *body, Size len);

/*
 * The message for the next model that the current user may ask, and its name (NAMEDATALEN bytes); false:
 * there is none.  Reads the catalogs.
 */
bool		route_next(FallbackRoute *r, const char *body, Size len, StringInfo to, char *model);

/* The message for this model; false: it can't be asked, r->why says why.  For cascade.c. */
bool		route_to(FallbackRoute *r, const char *model, const char *body, Size len, StringInfo to);
/* The error of that; palloc'ed. */
ErrorData  *route_unsure(const FallbackRoute *r);

/*
 * Before the request is sent: the same, if the program that serves its model does not run, but another model
 * can be asked.  to is made.
 */
bool		route_around(FallbackRoute *r, const StringInfoData *body, StringInfo to, char *model);

/* Adds to the last model's error which models were asked before it, or why the next one was not. */
void		route_tell(const FallbackRoute *r, ErrorData *e);

#endif
