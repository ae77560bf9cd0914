/*
 * lexer.h
 *	  Which lexemes a run of bytes may be, or become.
 *
 * A state is a set of pairs (lexeme, what is left of it), made when first needed.  There
 * is no state without a pair: that is LEX_DEAD.
 */
#ifndef VLLM_GRAMMAR_CFG_LEXER_H
#define VLLM_GRAMMAR_CFG_LEXER_H

#include "grammar/regex/regex.h"

typedef struct Lexer Lexer;

#define LEX_DEAD	0

typedef struct LexInfo
{
	uint32_t	done;			/* which lexemes have just ended: a number for lexer_done(); 0 = none */
	bool		more;			/* one of them may go on */
} LexInfo;

typedef struct LexState
{
	LexInfo		info;
	/* by class: the state, with LEX_MORE and LEX_DONE as its info says; LEX_UNKNOWN = not asked
	 * for yet.  NULL = none asked for.  Stays where it is. */
	uint32_t   *next;
} LexState;

#define LEX_UNKNOWN	UINT32_MAX
#define LEX_MORE	1u			/* lexemes may go on */
#define LEX_DONE	2u			/* lexemes have ended */
#define LEX_STATE(x) ((x) >> 2)

Lexer	   *lexer_new(Regex *re);
void		lexer_free(Lexer *l);
size_t		lexer_memory(const Lexer *l);
/*
 * Texts exist already: whether one goes on is not asked (re_live()), it will be seen.  States
 * from which nothing can be completed aren't LEX_DEAD then.
 */
void		lexer_read_only(Lexer *l);

/* The state in which these lexemes (in order, each once) may begin. */
uint32_t	lexer_start(Lexer *l, const ReNode *lexeme, uint32_t n);
/* The state after a byte of the class (re_classes()). */
uint32_t	lexer_step(Lexer *l, uint32_t state, uint32_t cls);
/* The same with flags, as in LexState.next. */
uint32_t	lexer_step_flags(Lexer *l, uint32_t state, uint32_t cls);
/* Of a state that has been stepped to. */
LexInfo		lexer_info(const Lexer *l, uint32_t state);
/* All states, for walks that step by themselves where they can; valid until the next step. */
const LexState *lexer_states(const Lexer *l, uint32_t *n);
/* Numbers of sets of lexemes are below this. */
uint32_t	lexer_n_done(const Lexer *l);
/* Lexemes of a number, in order. */
const ReNode *lexer_done(const Lexer *l, uint32_t done, uint32_t *n);
/* The number of a set of lexemes, in order. */
uint32_t	lexer_done_number(Lexer *l, const ReNode *lexeme, uint32_t n);
/* The pairs of a state: lexeme, rest, lexeme, ...; n of them.  Valid until the next step. */
const ReNode *lexer_pairs(const Lexer *l, uint32_t state, uint32_t *n);
Regex	   *lexer_re(const Lexer *l);
/* A state that is as good as this one for the next k bytes, the same one for many. */
uint32_t	lexer_clamp(Lexer *l, uint32_t state, uint32_t k);
uint32_t	lexer_classes(const Lexer *l, const uint8_t **cls);

#endif
