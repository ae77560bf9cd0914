/*
 * grammar_ast.h
 *	  The syntax tree of a written grammar, before it becomes a Cfg.
 *
 * The readers of notations (ebnf.c, lark.c) make a tree of each rule; note_build() converts them to a
 * grammar.  Rules that aren't recursive and not too large become part of a lexeme, so that a grammar
 * which spells numbers digit by digit is as fast as one with a pattern for them.
 */
#ifndef VLLM_GRAMMAR_LANG_GRAMMAR_AST_H
#define VLLM_GRAMMAR_LANG_GRAMMAR_AST_H

#include "base/buf.h"
#include "grammar/cfg/cfg.h"

typedef struct Notation Notation;
typedef uint32_t NoteNode;

/* A growing list; the owner frees v. */
typedef struct NoteNodes
{
	NoteNode   *v;
	size_t		n,
				cap;
} NoteNodes;

void		note_nodes_push(NoteNodes *l, NoteNode x);

Notation   *note_new(Cfg *c);
void		note_free(Notation *n);

NoteNode	note_re(Notation *n, ReNode re);
NoteNode	note_seq(Notation *n, const NoteNode *part, size_t count);
NoteNode	note_alt(Notation *n, const NoteNode *part, size_t count);
NoteNode	note_repeat(Notation *n, NoteNode a, uint32_t min, uint32_t max);

/* Return the number of a rule by its name; make it if it doesn't exist. */
uint32_t	note_rule(Notation *n, const char *name, size_t len);
NoteNode	note_ref(Notation *n, uint32_t rule);
/* Define a rule.  Return false if it is already defined. */
bool		note_define(Notation *n, uint32_t rule, NoteNode body);
bool		note_defined(const Notation *n, uint32_t rule);
const char *note_name(const Notation *n, uint32_t rule);

/* Build the language of a rule; a name without a definition is ERR_INVALID. */
bool		note_build(Notation *n, uint32_t start, CfgNode *out, Err *e);

/* ---- reading ---- */

/* A position in a text, for the readers. */
typedef struct NoteText
{
	const char *s;
	size_t		n;
	size_t		i;
	Err		   *e;
} NoteText;

/* Set the error with the line number; return false. */
bool		note_error(NoteText *t, ErrClass cls, const char *fmt,...) __attribute__((format(printf, 3, 4)));
/* Report that the next character is not allowed here; return false. */
bool		note_unexpected(NoteText *t);
bool		note_looking_at(const NoteText *t, const char *s);
/* Consume s if it comes next. */
bool		note_accept(NoteText *t, const char *s);
/* Make the sequence of the parts if `ok`, and free the list.  Return ok. */
bool		note_end_sequence(Notation *n, NoteNodes *parts, bool ok, NoteNode *out);
/* Read sequences with "|" between; sequence() reads one, and has set the error if it returns false. */
bool		note_alternatives(Notation *n, NoteText *t, bool (*sequence) (void *reader, NoteNode *out),
							  void *reader, NoteNode *out);
/* Read a decimal number of at most 1,000,000.  Return false if there is none (without an error) or it is
 * larger. */
bool		note_number(NoteText *t, uint32_t *v);
/*
 * Read a literal with its quotes and with C's and JSON's escapes; append it to *out as UTF-8 (\xHH as
 * that character).
 */
bool		note_literal(NoteText *t, Buf *out);

#endif
