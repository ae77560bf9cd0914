/*
 * fake_grammar.h
 *	  Answers of the fake that fit a grammar.
 */
#ifndef VLLM_BACKEND_FAKE_FAKE_GRAMMAR_H
#define VLLM_BACKEND_FAKE_FAKE_GRAMMAR_H

#include "core/core.h"

/*
 * Append the prompt if it is of the grammar's language, else a short text that is; cuts:
 * the end of each token in it.
 */
void		fake_fitting(Grammar *g, const char *prompt, int max_tokens, Buf *answer, IntVec *cuts,
						 ReqFinish *finish);

#endif
