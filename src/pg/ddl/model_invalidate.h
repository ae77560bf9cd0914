/*
 * model_invalidate.h
 *	  Telling the engine, or the remote program, that a model of the catalog is gone.
 */
#ifndef VLLM_PG_DDL_MODEL_INVALIDATE_H
#define VLLM_PG_DDL_MODEL_INVALIDATE_H

#include "postgres.h"

#include "pg/catalog/model_catalog.h"

/* This transaction makes the row m, or deletes it; to be called before it does. */
void		release_created(const ModelRow *m);
void		release_dropped(const ModelRow *m);

/* The supervisor's part: post what backends found no slot for, if one is free now. */
void		release_post_queued(void);

#endif
