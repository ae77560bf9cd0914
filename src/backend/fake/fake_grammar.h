/*
 * fake_grammar.h
 *	  Outputs of the fake backend that match a grammar.
 */
#ifndef VLLM_BACKEND_FAKE_FAKE_GRAMMAR_H
#define VLLM_BACKEND_FAKE_FAKE_GRAMMAR_H

#include "core/core.h"

/*
 * Append the prompt if it matches the grammar, else a short text that does.  cuts gets the end of each
 * token.
 */
void		fake_fitting(Grammar *g, const char *prompt, int max_tokens, Buf *answer, IntVec *cuts,
						 ReqFinish *finish);

#endif
