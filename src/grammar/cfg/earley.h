/*
 * earley.h
 *	  Where a text stands in a grammar: states and steps by byte.
 *
 * A state is a number; equal situations have equal numbers, so a state can be
 * kept, copied and come back to freely.  States are made when first needed and live as long
 * as the Parse.
 */
#ifndef VLLM_GRAMMAR_CFG_EARLEY_H
#define VLLM_GRAMMAR_CFG_EARLEY_H

#include "grammar/cfg/cfg.h"
#include "grammar/cfg/lexer.h"

typedef struct Parse Parse;

#define PARSE_DEAD	0			/* no text goes on from here */

/* Takes the finished grammar over. */
Parse	   *parse_new(Cfg *c);
void		parse_free(Parse *p);
size_t		parse_memory(const Parse *p);
/* A piece of work begins; its steps are counted from 0 (re_begin()). */
void		parse_begin(Parse *p);
/* All steps so far, of expressions as well. */
uint64_t	parse_work(const Parse *p);
/* Count n steps of others' work with a parser's. */
void		parse_count(Parse *p, uint64_t n);
/* False with *e set if a limit has been hit: then no state made since parse_begin() counts. */
bool		parse_check(const Parse *p, Err *e);

uint32_t	parse_start(Parse *p);
uint32_t	parse_step(Parse *p, uint32_t state, uint8_t b);
bool		parse_accepts(const Parse *p, uint32_t state); /* the text may end here */
bool		parse_can_go_on(Parse *p, uint32_t state);
/* The only byte that may come next; -1: none, or several. */
int			parse_only(Parse *p, uint32_t state);
/* Bytes that may come next. */
void		parse_first(Parse *p, uint32_t state, uint32_t set[8]);

/* ---- for masks: a state as places of the parser, each with one of the lexer ---- */

typedef struct ParsePair
{
	uint32_t	row;
	uint32_t	lex;
} ParsePair;

Lexer	   *parse_lexer(Parse *p);
/* Valid until the next step. */
const ParsePair *parse_pairs(const Parse *p, uint32_t state, uint32_t *n);
/* The state when lexemes (lexer_done()) that began at the row have ended; nothing else goes on. */
uint32_t	parse_after(Parse *p, uint32_t row, uint32_t done);
uint32_t	parse_n_states(const Parse *p); /* for tests, which bound it */

#endif
