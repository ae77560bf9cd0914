/*
 * lora_invalidate.h
 *	  Telling the engine that an adapter of the catalog is gone.
 */
#ifndef VLLM_PG_CATALOG_LORA_INVALIDATE_H
#define VLLM_PG_CATALOG_LORA_INVALIDATE_H

#include "postgres.h"

#include "pg/catalog/lora_catalog.h"

/* This transaction deletes the row l, or gives it another path; to be called before it does. */
void		lora_release(const LoraRow *l);

#endif
