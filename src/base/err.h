/*
 * err.h
 *	  The engine's error value.
 *
 * Every fallible engine function is `bool f(..., Err *e)` (or returns NULL)
 * and fills *e exactly once on failure.  An Err is plain data: no allocation,
 * nothing to free.  The class decides the SQLSTATE that the user sees (table
 * in err.c, after the mapping in docs/user/sql.md); a request can never trip an
 * assert, it fails with an Err.
 */
#ifndef VLLM_BASE_ERR_H
#define VLLM_BASE_ERR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum ErrClass
{
	ERR_NONE = 0,
	ERR_INVALID,				/* 22023 invalid_parameter_value */
	ERR_TOO_LONG,				/* 54000 program_limit_exceeded: the prompt exceeds a limit */
	ERR_NOT_FOUND,				/* 42704 undefined_object: model, adapter */
	ERR_UNSUPPORTED,			/* 0A000 feature_not_supported */
	ERR_BAD_FILE,				/* XX001 data_corrupted: a model file that can't be used */
	ERR_IO,						/* 58030 io_error */
	ERR_NOMEM,					/* 53200 out_of_memory */
	ERR_QUEUE_FULL,				/* 53300 too_many_connections */
	ERR_NOT_READY,				/* 55000 object_not_in_prerequisite_state: sleeping, unloaded */
	ERR_LIMIT,					/* 53400 configuration_limit_exceeded: a role's quota is used up */
	ERR_CANCELLED,				/* 57014 query_canceled */
	ERR_LOST,					/* 58000 system_error: the engine process ended */
	ERR_CONNECTION,				/* 08006 connection_failure: an endpoint can't be reached, or closed the
								 * connection */
	ERR_PROTOCOL,				/* 08P01 protocol_violation: an endpoint's response can't be interpreted */
	/* 28000 invalid_authorization_specification: an endpoint rejected the secret */
	ERR_AUTH,
	ERR_FORBIDDEN,				/* 42501 insufficient_privilege: a host that is not allowed */
	/* 57P03 cannot_connect_now: an endpoint is overloaded, or its breaker is open */
	ERR_UNAVAILABLE,
	ERR_INTERNAL				/* XX000 */
} ErrClass;

typedef struct Err
{
	ErrClass	cls;
	char		msg[512];		/* one line, no final period, PostgreSQL's wording */
	char		detail[512];	/* '' = none */
	char		hint[2048];		/* '' = none; large enough for lists of supported values */
} Err;

/* Set the error; returns false so that callers write `return err_set(...)`. */
bool		err_set(Err *e, ErrClass cls, const char *fmt,...) __attribute__((format(printf, 3, 4)));
/* Add detail or hint to an error that is already set; returns false. */
bool		err_detail(Err *e, const char *fmt,...) __attribute__((format(printf, 2, 3)));
bool		err_hint(Err *e, const char *fmt,...) __attribute__((format(printf, 2, 3)));
/* Replace each occurrence of `what`, which must not be empty, by `as` in message, detail and hint. */
void		err_replace(Err *e, const char *what, const char *as);
/* Return the five-character SQLSTATE of a class, e.g. "22023". */
const char *err_sqlstate(ErrClass cls);

#endif
