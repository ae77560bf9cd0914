/*
 * asker.h
 *	  Who asks, and what that role may take, as a message has it.
 */
#ifndef VLLM_ENGINE_ASKER_H
#define VLLM_ENGINE_ASKER_H

#include "engine/core.h"
#include "wire/wire.h"

/* One field of a message; *known: it was one of ours. */
bool		asker_field(Asker *a, const WireField *f, bool *known, Err *e);
/* The same as fields of another message. */
void		asker_put(const Asker *a, WireOut *o);
/* May a request ask for so many tokens?  ERR_INVALID. */
bool		asker_max_tokens(const Asker *a, const GenParams *p, unsigned given, Err *e);

#endif
