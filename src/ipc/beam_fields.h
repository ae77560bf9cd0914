/*
 * beam_fields.h
 *	  Which fields of a request mean something to a beam search.
 */
#ifndef VLLM_IPC_BEAM_FIELDS_H
#define VLLM_IPC_BEAM_FIELDS_H

#include <stdbool.h>

/*
 * Does a beam search honour the field, whatever its value?  A field that is not told here is refused, a new
 * one, too: an option that was passed over would look like an answer that fits it.
 */
bool		beams_take(int tag);

#endif
