/*
 * secret_mask.h
 *	  Masking of secrets in texts that call llm_set_secret().
 */
#ifndef VLLM_PG_CATALOG_SECRET_MASK_H
#define VLLM_PG_CATALOG_SECRET_MASK_H

#include "postgres.h"

/*
 * In bytes.  For a longer text the callers ask only whether it may contain a secret, and if so show
 * nothing of it.
 */
#define SECRET_LONGEST (1024 * 1024)

/* Return true if a prepared statement of this name calls the function. */
typedef bool (*SecretPrepared) (const char *name);

/* Return true if a text has the function's name, also if written with escapes. */
bool		secret_named(const char *text);

/* Return false if secret_mask_statement() would find nothing in it, whatever statements are prepared. */
bool		secret_may_be_given(const char *sql);

/*
 * Return true if a statement that is too long for masking may give a secret: also if the name, or an
 * EXECUTE of such a prepared statement, is in a string or a comment.
 */
bool		secret_in_long(const char *sql, SecretPrepared prepared);

/*
 * Mask a statement.  If it names the function, not only in a comment, its strings are masked, and
 * words in a call.  An EXECUTE of a prepared statement that names the function is a call.  Return a
 * copy, palloc'ed; NULL if nothing was to be masked.
 */
char	   *secret_mask_statement(const char *sql, SecretPrepared prepared);

/*
 * Mask a text that may quote statements in any way: each call in it, and its strings.  Return a copy;
 * NULL if the name isn't in it.
 */
char	   *secret_mask_text(const char *text);

/* Return a copy with all strings and dollar quotes masked. */
char	   *secret_mask_strings(const char *text);

/* Return a copy with everything masked that is in quotes of this kind. */
char	   *secret_mask_quoted(const char *text, char quote);

#endif
