/*
 * model_depend.h
 *	  Objects that use a model, or an adapter, by its name: jobs, triggers, options of other models.
 */
#ifndef VLLM_PG_DDL_MODEL_DEPEND_H
#define VLLM_PG_DDL_MODEL_DEPEND_H

#include "postgres.h"

#include "pg/catalog/model_catalog.h"

/*
 * The caller has locked the model, or the adapter (catalog_lock()), and is about to drop it.
 *
 * ERROR 2BP01 if any object uses the model.  Adapters, and objects that use these, count, too.
 */
void		depend_refuse(const ModelRow *m);
void		depend_refuse_lora(const char *name);
/* Drop the objects that use it, with a NOTICE for each; not its adapters. */
void		depend_drop_model(const ModelRow *m);
void		depend_drop_lora(const char *name);

#endif
