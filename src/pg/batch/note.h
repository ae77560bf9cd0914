/*
 * note.h
 *	  EXPLAIN of calls that are made row by row.
 */
#ifndef VLLM_PG_BATCH_NOTE_H
#define VLLM_PG_BATCH_NOTE_H

#include "postgres.h"

#include "commands/explain.h"

#include "pg/batch/split.h"
#include "pg/compat.h"

typedef struct InlineCalls
{
	List	   *calls;			/* expressions over the plan node's input */
	List	   *reasons;		/* String *, each once */
} InlineCalls;

/* ---- inline.c ---- */
/* The calls that this one plan node makes; false: none. */
bool		batch_inline_calls(Rewrite *rw, Plan *plan, InlineCalls *result);

/* ---- explain.c ---- */
/* context: of deparse_expression() */
char	   *batch_call_text(Node *call, List *context, ExplainState *es);

/* ---- note.c ---- */
/* Put a node that names such calls above each plan node that makes any. */
void		batch_note_calls(PlannedStmt *stmt);
/* Is EXPLAIN planning now?  Not from when it runs a statement.  Returns what was so before. */
bool		batch_note_explaining(bool explaining);
void		batch_note_init(void);

#endif
