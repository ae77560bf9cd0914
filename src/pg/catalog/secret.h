/*
 * secret.h
 *	  The table vllm.secret: what authorizes with the endpoints of remote models.
 */
#ifndef VLLM_PG_CATALOG_SECRET_H
#define VLLM_PG_CATALOG_SECRET_H

#include "postgres.h"

/* The model's, ASCII; NULL: it has none. */
char	   *secret_find(const char *model);
/* False: it had none. */
bool		secret_delete(const char *model);

/* secret_log.c: the hooks that keep secrets out of the server's log */
void		secret_log_init(void);
/*
 * llm_set_secret() runs with this secret (NULL: with none): the session's statement is not shown as it is any
 * more.
 */
void		secret_log_know(const char *secret);

#endif
