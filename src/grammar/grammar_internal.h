/*
 * grammar_internal.h
 *	  The construction of a Grammar, for the compilers of specifications and for tests.
 */
#ifndef VLLM_GRAMMAR_GRAMMAR_INTERNAL_H
#define VLLM_GRAMMAR_GRAMMAR_INTERNAL_H

#include "grammar/cfg/cfg.h"
#include "grammar/grammar.h"

/* Build the language in an empty grammar.  Called again when the grammar is rebuilt. */
typedef bool (*GramBuild) (Cfg *c, const void *arg, CfgNode *out, Err *e);

/*
 * Make a grammar from what build makes; for tests, which make random ones.  The Grammar takes over
 * arg and frees it with free_arg (NULL: arg stays the caller's), also on failure.
 */
Grammar    *grammar_build(GramBuild build, void *arg, void (*free_arg) (void *), Err *e);
/* Set the memory above which the grammar is rebuilt between two steps, 0 = the default.  For tests, which
 * set it low. */
void		grammar_set_limit(Grammar *g, size_t bytes);

/*
 * Return the steps since the grammar was made: those of expressions, the parser and masks, which count
 * for the limits.  For tests, which bound it.
 */
uint64_t	grammar_work(Grammar *g);

/* Build a specification as part of a larger grammar (structural tags). */
bool		spec_build(Cfg *c, const GramSpec *spec, CfgNode *out, Err *e);

/* ---- compilers ---- */

/* Rules name ::= ..., start rule root (ebnf.c). */
bool		ebnf_build(Cfg *c, const char *text, size_t n, CfgNode *out, Err *e);
/* Lark's notation; the start rule is `start` or the first (lark.c). */
bool		lark_build(Cfg *c, const char *text, size_t n, CfgNode *out, Err *e);
/* Both forms of structural tags (structural_tags.c). */
bool		tags_build(Cfg *c, const char *text, size_t n, const GramOptions *o, CfgNode *out, Err *e);

#endif
