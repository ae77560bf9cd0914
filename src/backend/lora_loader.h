/*
 * lora_loader.h
 *	  Adapters from files: what src/loader reads, and src/model keeps.
 */
#ifndef VLLM_BACKEND_LORA_LOADER_H
#define VLLM_BACKEND_LORA_LOADER_H

#include "model/model.h"

/* Are the files of an adapter good, by themselves?  Errors: adapter_open()'s. */
bool		lora_files_check(const char *path, LoraInfo *out, Err *e);
/*
 * ... and for this model: the adapter, without an id.  dtype: auto, float16, bfloat16, float32.
 * ERR_TOO_LONG: its rank is above max_rank; else as adapter_open() and model_lora().  A file that is
 * truncated meanwhile is an error.
 */
LoraAdapter *lora_files_load(const Model *m, const char *path, int max_rank, const char *dtype, Err *e);

#endif
