/*
 * on_error.h
 *	  NULL instead of a request's error, where the caller has asked for it.
 *
 * What can become NULL is that a request could not be answered: the engine or an endpoint failed, was
 * overloaded or too slow, or the input was empty, too long or none at all.  Not what the caller has done or
 * asked for: cancelling, privileges, models that there aren't, wrong options, budgets.
 */
#ifndef VLLM_PG_UTIL_ON_ERROR_H
#define VLLM_PG_UTIL_ON_ERROR_H

#include "postgres.h"

/* What a call says itself. */
typedef enum OnError
{
	ON_ERROR_SETTING = 0,		/* nothing: vllm.on_error holds */
	ON_ERROR_RAISE,
	ON_ERROR_NULL
} OnError;

/* error, null; ERROR 22023 for anything else */
OnError		on_error_option(const char *how);

/* Is this error of a request to be NULL? */
bool		on_error_forgives(OnError how, const ErrorData *e);
/* Is this error of an input that is refused to be NULL?  It is the row's own. */
bool		on_error_forgives_input(OnError how, const ErrorData *e);

/*
 * A request of the session's statement has finished; failed: with an error that is forgiven, or NULL.  Never
 * throws.
 */
void		on_error_count(const ErrorData *failed);
/* ERROR if too many of the statement's requests have failed (vllm.max_error_ratio). */
void		on_error_check(void);
/* At the end of a statement that the client has sent: the WARNING, if something has become NULL. */
void		on_error_tell(void);

/* settings */
extern char *vllm_on_error;		/* error, null */
extern double vllm_max_error_ratio;

#endif
