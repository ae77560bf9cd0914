/*
 * release.h
 *	  Telling the engine that a model of the catalog is gone.
 */
#ifndef VLLM_PG_RELEASE_H
#define VLLM_PG_RELEASE_H

#include "postgres.h"

/* If the transaction (or the savepoint's part of it) rolls back: forget the model. */
void		release_on_abort(const char *name);
/* If it commits: forget it. */
void		release_on_commit(const char *name);

#endif
