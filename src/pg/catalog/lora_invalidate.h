/*
 * lora_release.h
 *	  Telling the engine that an adapter of the catalog is gone.
 */
#ifndef VLLM_PG_LORA_RELEASE_H
#define VLLM_PG_LORA_RELEASE_H

#include "postgres.h"

#include "pg/lora.h"

/* This transaction deletes the row l, or gives it another path; to be called before it does. */
void		lora_release(const LoraRow *l);

#endif
