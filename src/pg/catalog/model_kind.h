/*
 * model_kind.h
 *	  The purpose of a model, which the engine finds out from its files.
 */
#ifndef VLLM_PG_CATALOG_MODEL_KIND_H
#define VLLM_PG_CATALOG_MODEL_KIND_H

#include "postgres.h"

#include "pg/catalog/model_catalog.h"

/*
 * Return true if the engine would refuse to embed with the model when it is only the default.  Return
 * false also for a remote model, and if the engine can't say.
 */
bool		model_only_generates(const ModelRow *m);

#endif
