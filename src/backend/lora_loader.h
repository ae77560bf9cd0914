/*
 * lora_loader.h
 *	  Load adapters from files: src/loader reads them, and src/model keeps them.
 */
#ifndef VLLM_BACKEND_LORA_LOADER_H
#define VLLM_BACKEND_LORA_LOADER_H

#include "model/model.h"

/* Check the files of an adapter without a model.  Errors: those of adapter_open(). */
bool		lora_files_check(const char *path, LoraInfo *out, Err *e);
/*
 * Load an adapter for this model; it has no id yet.  dtype: auto, float16, bfloat16, float32.
 * ERR_TOO_LONG: its rank is above max_rank; other errors as adapter_open() and model_lora().  If a file
 * is truncated meanwhile, that is an error.
 */
LoraAdapter *lora_files_load(const Model *m, const char *path, int max_rank, const char *dtype, Err *e);

#endif
