/*
 * model_kind.h
 *	  What a model was made for, as the engine finds by its files.
 */
#ifndef VLLM_PG_CATALOG_MODEL_KIND_H
#define VLLM_PG_CATALOG_MODEL_KIND_H

#include "postgres.h"

#include "pg/catalog/model_catalog.h"

/*
 * Would the engine refuse to embed by the model, if nobody named it for that?  false also of a remote model,
 * and while the engine can't say.
 */
bool		model_only_generates(const ModelRow *m);

#endif
