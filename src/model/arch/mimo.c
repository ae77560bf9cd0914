/*
 * mimo.c
 *	  MiMo (Xiaomi 2025, arXiv:2505.07608): a Qwen2 with an additional layer after its last one that
 *	  drafts tokens (mtp.c).
 *
 * Tested by tests/golden/draft_golden.c.
 */
#include "model/layers/bind.h"

bool
mimo_bind(Binder *b, Decoder *d)
{
	bind_ignore_extra_layers(b);
	return llama_bind(b, d);
}
