/*
 * secret.h
 *	  The table vllm.secret: secrets that authorize requests to the endpoints of remote models.
 */
#ifndef VLLM_PG_CATALOG_SECRET_H
#define VLLM_PG_CATALOG_SECRET_H

#include "postgres.h"

/* Return the model's secret, ASCII; NULL if it has none. */
char	   *secret_find(const char *model);
/* Return false if it had none. */
bool		secret_delete(const char *model);

/* secret_log.c: install the hooks that keep secrets out of the server's log */
void		secret_log_init(void);
/*
 * llm_set_secret() runs with this secret (NULL: with none): from now on the session's statement is
 * shown only in masked form.
 */
void		secret_log_know(const char *secret);

#endif
