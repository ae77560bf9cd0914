/*
 * model_invalidate.h
 *	  Making the engine, or the remote program, forget models that were dropped or never committed.
 */
#ifndef VLLM_PG_DDL_MODEL_INVALIDATE_H
#define VLLM_PG_DDL_MODEL_INVALIDATE_H

#include "postgres.h"

#include "pg/catalog/model_catalog.h"

/* Call these before the transaction creates, or deletes, the row m. */
void		release_created(const ModelRow *m);
void		release_dropped(const ModelRow *m);

/* Called by the supervisor: send the messages for which backends found no slot, if one is free now. */
void		release_post_queued(void);

#endif
