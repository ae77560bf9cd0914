/*
 * secret_mask.h
 *	  Texts without what they may give llm_set_secret().
 */
#ifndef VLLM_PG_CATALOG_SECRET_MASK_H
#define VLLM_PG_CATALOG_SECRET_MASK_H

#include "postgres.h"

/*
 * Bytes.  Of a longer text whoever masks it asks only whether it may give a secret, and then shows nothing of
 * it.
 */
#define SECRET_LONGEST (1024 * 1024)

/* Does a prepared statement of this name call the function? */
typedef bool (*SecretPrepared) (const char *name);

/* Has a text the function's name, also with escapes? */
bool		secret_named(const char *text);

/* False: secret_mask_statement() would find nothing in it, whatever is prepared. */
bool		secret_may_be_given(const char *sql);

/*
 * May a statement give one that is too long to be read closely?  Also if a string or a comment has the name,
 * or such an EXECUTE.
 */
bool		secret_in_long(const char *sql, SecretPrepared prepared);

/*
 * A statement: if it names the function, not only in a comment, its strings are masked, and words in a call.
 * NULL: it doesn't; else a copy, palloc'ed.  EXECUTE of a prepared statement that names it is a call.
 */
char	   *secret_mask_statement(const char *sql, SecretPrepared prepared);

/*
 * Another text that may quote statements, in whatever way: each call in it, and its strings.  NULL (it has no
 * name), or a copy.
 */
char	   *secret_mask_text(const char *text);

/* A copy without strings and dollar quotes. */
char	   *secret_mask_strings(const char *text);

/* A copy without what stands in quotes of this kind. */
char	   *secret_mask_quoted(const char *text, char quote);

#endif
