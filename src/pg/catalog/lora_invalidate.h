/*
 * lora_invalidate.h
 *	  Making the engine unload adapters that have been dropped.
 */
#ifndef VLLM_PG_CATALOG_LORA_INVALIDATE_H
#define VLLM_PG_CATALOG_LORA_INVALIDATE_H

#include "postgres.h"

#include "pg/catalog/lora_catalog.h"

/* Call this before the transaction deletes the row l or changes its path. */
void		lora_release(const LoraRow *l);

#endif
