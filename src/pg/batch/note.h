/*
 * note.h
 *	  EXPLAIN of calls that a plan node makes row by row.
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
	List	   *reasons;		/* String *, without duplicates */
} InlineCalls;

/* ---- inline.c ---- */
/* Collect the calls that this plan node makes itself; return false if it makes none. */
bool		batch_inline_calls(Rewrite *rw, Plan *plan, InlineCalls *result);

/* ---- explain.c ---- */
/* context: for deparse_expression() */
char	   *batch_call_text(Node *call, List *context, ExplainState *es);

/* ---- note.c ---- */
/* Insert a node that names the inline calls above each plan node that makes any. */
void		batch_note_calls(PlannedStmt *stmt);
/*
 * Say whether EXPLAIN is planning a statement; set to false when a statement runs.  Return the
 * previous state.
 */
bool		batch_note_explaining(bool explaining);
void		batch_note_init(void);

#endif
