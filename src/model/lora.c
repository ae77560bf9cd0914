/*
 * lora.c
 *	  Adapters: their memory.
 */
#include "model/lora.h"

#include "base/mem.h"

void
lora_free(LoraAdapter *a)
{
	mem_free(a);
}
