/*
 * beam_fields.h
 *	  Fields of a request that a beam search honours.
 */
#ifndef VLLM_IPC_BEAM_FIELDS_H
#define VLLM_IPC_BEAM_FIELDS_H

#include <stdbool.h>

/*
 * Return true if a beam search honours the field, whatever its value.  The engine rejects a request with
 * any other field, also one added later: if it ignored an option, the output would look as if it obeyed
 * it.
 */
bool		beams_take(int tag);

#endif
