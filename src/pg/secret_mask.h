/*
 * secret_mask.h
 *	  Texts without the arguments of calls of llm_set_secret().
 */
#ifndef VLLM_PG_SECRET_MASK_H
#define VLLM_PG_SECRET_MASK_H

#include "postgres.h"

/* Does a prepared statement of this name call the function? */
typedef bool (*SecretPrepared) (const char *name);

/*
 * A statement: only what is a call there is masked, not what a comment says.  NULL: it has no call; else a copy, palloc'ed.
 * EXECUTE of a prepared statement with a call is one.
 */
char	   *secret_mask_statement(const char *sql, SecretPrepared prepared);

/* Another text that may quote statements, in whatever way: each call in it.  NULL, or a copy. */
char	   *secret_mask_text(const char *text);

/* A copy without what stands in quotes of this kind. */
char	   *secret_mask_quoted(const char *text, char quote);

#endif
