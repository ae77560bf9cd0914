/*
 * on_error.h
 *	  NULL instead of a request's error, if the caller has asked for that.
 *
 * Errors that can become NULL: the engine or an endpoint failed, was overloaded or too slow, or the
 * input was empty, too long or invalid.  Errors of the caller stay errors: cancelling, privileges,
 * models that don't exist, wrong options, budgets.
 */
#ifndef VLLM_PG_UTIL_ON_ERROR_H
#define VLLM_PG_UTIL_ON_ERROR_H

#include "postgres.h"

/* The option of a call. */
typedef enum OnError
{
	ON_ERROR_SETTING = 0,		/* not given: vllm.on_error applies */
	ON_ERROR_RAISE,
	ON_ERROR_NULL
} OnError;

/* error, null; ERROR 22023 for anything else */
OnError		on_error_option(const char *how);

/* Return true if this error of a request is to be NULL. */
bool		on_error_forgives(OnError how, const ErrorData *e);
/* Return true if this error of a refused input is to be NULL; it concerns only its row. */
bool		on_error_forgives_input(OnError how, const ErrorData *e);

/*
 * Count a finished request of the session's statement.  failed: its forgiven error, or NULL.  Never
 * throws.
 */
void		on_error_count(const ErrorData *failed);
/* ERROR if too many of the statement's requests have failed (vllm.max_error_ratio). */
void		on_error_check(void);
/* At the end of a statement of the client: send the WARNING if an error has become NULL. */
void		on_error_report(void);

/* settings */
extern char *vllm_on_error;		/* error, null */
extern double vllm_max_error_ratio;

#endif
