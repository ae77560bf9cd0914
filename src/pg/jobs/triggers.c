/*
 * triggers.c
 *	  Triggers: vllm.job_changed puts keys of changed rows into a job's queue,
 *	  llm_generate_trigger and llm_embed_trigger compute a column immediately.
 *
 * vllm.job_changed is a statement trigger with transition tables.  For an UPDATE, both tables have
 * their rows in the same order, so row i of one belongs to row i of the other if their keys are
 * equal.  (If a BEFORE trigger of a partition suppressed a row, the rest is shifted: keys differ, and
 * all these rows count as changed.)  Values are compared byte by byte, and keys go through their
 * type's output function; so no code that the source's owner could have defined runs here.  The job's
 * own writes change no input column, so they queue nothing.
 *
 * A write must not fail because of a job.  If the job or a key column does not exist any more, the
 * trigger does nothing; the worker reports the error.
 *
 * CALLERS.  A trigger on these functions can be of any form and on any table: created by a superuser,
 * or by any role that had EXECUTE.  So each function checks everything that it relies on, and raises
 * an ERROR if it was not fired as intended.  A table that is not the job's source is no error: it may
 * have been a partition a moment ago.
 *
 * Tests: tests/sql/07_internal.sql, 23_jobs.sql, tests/t/060_jobs.pl.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/partition.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/tuplestore.h"

#include "pg/jobs/job_launcher.h"
#include "pg/jobs/job.h"
#include "pg/util/own_call.h"

PG_FUNCTION_INFO_V1(llm_job_wake);
PG_FUNCTION_INFO_V1(llm_job_changed);
PG_FUNCTION_INFO_V1(llm_generate_trigger);
PG_FUNCTION_INFO_V1(llm_embed_trigger);

static TriggerData *
trigger_data(FunctionCallInfo fcinfo, const char *name)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" was not called by trigger manager", name)));
	return (TriggerData *) fcinfo->context;
}

/* ---- the queue ---- */

typedef struct Changed
{
	JobQueue   *queue;
	TupleDesc	desc;
	int			n_key;
	AttrNumber *key;
	FmgrInfo   *out;
	int			n_inputs;
	AttrNumber *inputs;			/* 0: the column does not exist any more */
	MemoryContext tmp;			/* reset after each row */
} Changed;

static AttrNumber
column_number(TupleDesc desc, const char *name)
{
	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped && strcmp(NameStr(TupleDescAttr(desc, i)->attname),
															name) == 0)
			return i + 1;
	return 0;
}

/* Return false if a key column does not exist any more. */
static bool
find_columns(Changed *c, const JobDef *job)
{
	c->n_key = list_length(job->key);
	c->key = palloc(sizeof(AttrNumber) * c->n_key);
	c->out = palloc(sizeof(FmgrInfo) * c->n_key);
	for (int i = 0; i < c->n_key; i++)
	{
		Oid			out;
		bool		varlena;

		c->key[i] = column_number(c->desc, list_nth(job->key, i));
		if (c->key[i] == 0)
			return false;
		getTypeOutputInfo(TupleDescAttr(c->desc, c->key[i] - 1)->atttypid, &out, &varlena);
		fmgr_info(out, &c->out[i]);
	}
	c->n_inputs = list_length(job->inputs);
	c->inputs = palloc(sizeof(AttrNumber) * c->n_inputs);
	for (int i = 0; i < c->n_inputs; i++)
		c->inputs[i] = column_number(c->desc, list_nth(job->inputs, i));
	return true;
}

static char **
row_key(Changed *c, TupleTableSlot *slot)
{
	char	  **key = palloc(sizeof(char *) * c->n_key);

	for (int i = 0; i < c->n_key; i++)
	{
		bool		isnull;
		Datum		d = slot_getattr(slot, c->key[i], &isnull);

		if (isnull)
			return NULL;		/* the column is no longer part of a primary key */
		key[i] = OutputFunctionCall(&c->out[i], d);
	}
	return key;
}

static void
add_row(Changed *c, TupleTableSlot *slot, bool always)
{
	MemoryContext old = MemoryContextSwitchTo(c->tmp);
	char	  **key = row_key(c, slot);

	MemoryContextSwitchTo(old);
	if (key != NULL)
		job_queue_add(c->queue, key, c->n_key, always);
	MemoryContextReset(c->tmp);
}

static bool
same_value(Changed *c, AttrNumber attno, TupleTableSlot *a, TupleTableSlot *b)
{
	Form_pg_attribute att = TupleDescAttr(c->desc, attno - 1);
	bool		null_a,
				null_b;
	Datum		x = slot_getattr(a, attno, &null_a);
	Datum		y = slot_getattr(b, attno, &null_b);

	if (null_a || null_b)
		return null_a && null_b;
	return datum_image_eq(x, y, att->attbyval, att->attlen);
}

static bool
same_columns(Changed *c, int n, const AttrNumber *attnos, TupleTableSlot *a, TupleTableSlot *b)
{
	MemoryContext old = MemoryContextSwitchTo(c->tmp);
	bool		same = true;

	for (int i = 0; i < n && same; i++)
		same = attnos[i] != 0 && same_value(c, attnos[i], a, b);
	MemoryContextSwitchTo(old);
	MemoryContextReset(c->tmp);
	return same;
}

/* Allocate a read pointer, as other triggers read the same tables. */
static void
read_first(Tuplestorestate *ts, int *pointer)
{
	*pointer = tuplestore_alloc_read_pointer(ts, EXEC_FLAG_REWIND);
	tuplestore_select_read_pointer(ts, *pointer);
	tuplestore_rescan(ts);
}

static bool
read_next(Tuplestorestate *ts, int pointer, TupleTableSlot *slot)
{
	tuplestore_select_read_pointer(ts, pointer);
	return tuplestore_gettupleslot(ts, true, false, slot);
}

static void
add_all(Changed *c, Tuplestorestate *ts, bool always)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(c->desc, &TTSOpsMinimalTuple);
	int			pointer;

	read_first(ts, &pointer);
	while (read_next(ts, pointer, slot))
		add_row(c, slot, always);
	ExecDropSingleTupleTableSlot(slot);
}

static void
add_updated(Changed *c, Tuplestorestate *old_rows, Tuplestorestate *new_rows)
{
	TupleTableSlot *old = MakeSingleTupleTableSlot(c->desc, &TTSOpsMinimalTuple);
	TupleTableSlot *new = MakeSingleTupleTableSlot(c->desc, &TTSOpsMinimalTuple);
	int			old_pointer;
	int			new_pointer;

	read_first(old_rows, &old_pointer);
	read_first(new_rows, &new_pointer);
	for (;;)
	{
		bool		has_old = read_next(old_rows, old_pointer, old);
		bool		has_new = read_next(new_rows, new_pointer, new);
		bool		same_row = has_old && has_new && same_columns(c, c->n_key, c->key, old, new);

		if (!has_old && !has_new)
			break;
		if (same_row && same_columns(c, c->n_inputs, c->inputs, old, new))
			continue;
		if (has_old && !same_row)
			add_row(c, old, false);
		if (has_new)
			add_row(c, new, !same_row);
	}
	ExecDropSingleTupleTableSlot(old);
	ExecDropSingleTupleTableSlot(new);
}

/* Return true if the trigger's table is the job's source or a partition of it. */
static bool
belongs_to(Relation rel, Oid source)
{
	return RelationGetRelid(rel) == source ||
		(rel->rd_rel->relispartition && list_member_oid(get_partition_ancestors(RelationGetRelid(rel)),
														source));
}

static void
queue_changes(Changed *c, TriggerData *t, const JobDef *job)
{
	c->queue = job_queue_open(job->id);
	if (TRIGGER_FIRED_BY_TRUNCATE(t->tg_event))
	{
		if (OidIsValid(job->target_table))
			job_queue_add_truncate(c->queue);
	}
	else if (TRIGGER_FIRED_BY_INSERT(t->tg_event))
		add_all(c, t->tg_newtable, true);
	else if (TRIGGER_FIRED_BY_DELETE(t->tg_event))
	{
		/* a target column is deleted with its row */
		if (OidIsValid(job->target_table))
			add_all(c, t->tg_oldtable, false);
	}
	else
		add_updated(c, t->tg_oldtable, t->tg_newtable);
	if (job_queue_close(c->queue))
		jobs_wake_at_commit(false);
}

/*
 * ERROR unless the trigger has the form that job_create_triggers() gives it.  A trigger for several
 * events has no transition tables, and an UPDATE needs both to find the changed rows.
 */
static void
check_shape(const TriggerData *t)
{
	bool		old_rows = TRIGGER_FIRED_BY_UPDATE(t->tg_event) || TRIGGER_FIRED_BY_DELETE(t->tg_event);
	bool		new_rows = TRIGGER_FIRED_BY_UPDATE(t->tg_event) || TRIGGER_FIRED_BY_INSERT(t->tg_event);

	if (!TRIGGER_FIRED_FOR_STATEMENT(t->tg_event) || !TRIGGER_FIRED_AFTER(t->tg_event) ||
		t->tg_trigger->tgnargs != 1)
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be an AFTER trigger for each statement, with a job's name",
						"vllm.job_changed"),
				 errhint("llm_create_embedding_job() and llm_create_completion_job() make such triggers.")));
	if ((old_rows && t->tg_oldtable == NULL) || (new_rows && t->tg_newtable == NULL))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("trigger \"%s\" of relation \"%s\" has no %s, which function \"%s\" needs",
						t->tg_trigger->tgname, RelationGetRelationName(t->tg_relation), old_rows &&
						t->tg_oldtable == NULL ? "OLD TABLE" : "NEW TABLE", "vllm.job_changed"),
				 errhint("llm_create_embedding_job() and llm_create_completion_job() make such triggers.")));
}

/* vllm.job_changed(job) */
Datum
llm_job_changed(PG_FUNCTION_ARGS)
{
	TriggerData *t = trigger_data(fcinfo, "vllm.job_changed");
	Changed		c = {0};
	JobDef	   *job;
	int			guc_level;

	check_shape(t);
	job = job_find(t->tg_trigger->tgargs[0]);
	if (job == NULL || !belongs_to(t->tg_relation, job->source))
		return PointerGetDatum(NULL);
	c.desc = RelationGetDescr(t->tg_relation);
	c.tmp = AllocSetContextCreate(CurrentMemoryContext, "job key", ALLOCSET_SMALL_SIZES);
	if (!find_columns(&c, job))
		return PointerGetDatum(NULL);
	guc_level = job_key_format();
	queue_changes(&c, t, job);
	AtEOXact_GUC(false, guc_level);
	MemoryContextDelete(c.tmp);
	return PointerGetDatum(NULL);
}

/* Trigger on vllm.job: wakes the worker, which reads the jobs again. */
Datum
llm_job_wake(PG_FUNCTION_ARGS)
{
	TriggerData *t = trigger_data(fcinfo, "vllm.job_wake");

	if (RelationGetRelid(t->tg_relation) != job_relation("job"))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" can't be a trigger of relation \"%s\"", "vllm.job_wake",
						RelationGetRelationName(t->tg_relation))));
	jobs_wake_at_commit(true);
	return PointerGetDatum(NULL);
}

/* ---- immediate computation: BEFORE INSERT OR UPDATE, for each row ---- */

static AttrNumber
argument_column(TriggerData *t, int arg)
{
	TupleDesc	desc = RelationGetDescr(t->tg_relation);
	AttrNumber	attno = column_number(desc, t->tg_trigger->tgargs[arg]);

	if (attno == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist",
						t->tg_trigger->tgargs[arg], RelationGetRelationName(t->tg_relation)),
				 errhint("The arguments of the trigger are the source column and the target column.")));
	/* its value is computed after the triggers */
	if (TupleDescAttr(desc, attno - 1)->attgenerated)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("column \"%s\" of relation \"%s\" is a generated column, which can't be a %s of "
						"trigger function \"%s\"", t->tg_trigger->tgargs[arg],
						RelationGetRelationName(t->tg_relation), arg == 0 ? "source" : "target",
						get_func_name(t->tg_trigger->tgfoid))));
	return attno;
}

/* Return the function's result for the text, as the target column's type. */
static Datum
computed(const char *sql, TriggerData *t, Datum source, const char *extra, AttrNumber target, bool *isnull)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(t->tg_relation), target - 1);
	Oid			types[2] = {TEXTOID, TEXTOID};
	Datum		values[2] = {source, (Datum) 0};
	char		nulls[2] = {' ', extra ? ' ' : 'n'};
	Datum		d;

	if (extra)
		values[1] = CStringGetTextDatum(extra);
	if (SPI_execute_with_args(psprintf("SELECT (%s)::%s", sql,
									   format_type_with_typemod(att->atttypid, att->atttypmod)),
							  2, types, values, nulls, true, 1) != SPI_OK_SELECT || SPI_processed != 1)
		elog(ERROR, "could not compute column \"%s\"", NameStr(att->attname));
	/* the type's name may refer to another type by now */
	if (SPI_gettypeid(SPI_tuptable->tupdesc, 1) != att->atttypid)
		elog(ERROR, "column \"%s\" was computed as another type", NameStr(att->attname));
	d = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, isnull);
	if (!*isnull)
		d = SPI_datumTransfer(d, att->attbyval, att->attlen);
	return d;
}

static bool
source_changed(TriggerData *t, AttrNumber source)
{
	TupleDesc	desc = RelationGetDescr(t->tg_relation);
	Form_pg_attribute att = TupleDescAttr(desc, source - 1);
	bool		null_old,
				null_new;
	Datum		old;
	Datum		new;

	if (TRIGGER_FIRED_BY_INSERT(t->tg_event))
		return true;
	old = heap_getattr(t->tg_trigtuple, source, desc, &null_old);
	new = heap_getattr(t->tg_newtuple, source, desc, &null_new);
	if (null_old || null_new)
		return null_old != null_new;
	return !datum_image_eq(old, new, att->attbyval, att->attlen);
}

static char *
column_text(TriggerData *t, HeapTuple row, AttrNumber attno)
{
	return SPI_getvalue(row, RelationGetDescr(t->tg_relation), attno);
}

/* Compute the row's target.  sql is over $1, the text, and $2, the trigger's last argument. */
static HeapTuple
compute_row(TriggerData *t, const char *name, int max_args, const char *(*call) (void))
{
	HeapTuple	row = TRIGGER_FIRED_BY_UPDATE(t->tg_event) ? t->tg_newtuple : t->tg_trigtuple;
	int			n = t->tg_trigger->tgnargs;
	AttrNumber	source;
	AttrNumber	target;
	char	   *text;
	int			column;
	Datum		value = (Datum) 0;
	bool		isnull = true;

	if (!TRIGGER_FIRED_FOR_ROW(t->tg_event) || !TRIGGER_FIRED_BEFORE(t->tg_event) ||
		!(TRIGGER_FIRED_BY_INSERT(t->tg_event) || TRIGGER_FIRED_BY_UPDATE(t->tg_event)))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be fired BEFORE INSERT OR UPDATE for each row", name)));
	if (n < 2 || n > max_args)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("trigger function \"%s\" takes 2 to %d arguments, not %d", name, max_args, n)));
	source = argument_column(t, 0);
	target = argument_column(t, 1);
	if (!source_changed(t, source))
		return row;
	SPI_connect();
	text = column_text(t, row, source);
	if (text != NULL)
		value = computed(call(), t, CStringGetTextDatum(text), n > 2 ? t->tg_trigger->tgargs[2] : NULL,
						 target, &isnull);
	column = target;
	SPI_finish();
	return heap_modify_tuple_by_cols(row, RelationGetDescr(t->tg_relation), 1, &column, &value, &isnull);
}

static const char *
generate_call(void)
{
	/* the text replaces {} in the template, or is appended to it */
	List	   *args = own_arg(NIL, "prompt",
							   "CASE WHEN $2 IS NULL THEN $1 WHEN pg_catalog.strpos($2, '{}') "
							   "OPERATOR(pg_catalog.>) 0 THEN pg_catalog.replace($2, '{}', $1) ELSE "
							   "pg_catalog.concat($2, $1) END");

	return psprintf("SELECT %s", own_call(own_function("llm_generate", TEXTOID), args));
}

static const char *
embed_call(void)
{
	List	   *args = own_arg(own_arg(NIL, "input", "$1"), "model", "$2");

	return psprintf("SELECT %s", own_call(own_function("llm_embed", TEXTOID), args));
}

/* llm_generate_trigger(source, target [, template]) */
Datum
llm_generate_trigger(PG_FUNCTION_ARGS)
{
	TriggerData *t = trigger_data(fcinfo, "llm_generate_trigger");

	return PointerGetDatum(compute_row(t, "llm_generate_trigger", 3, generate_call));
}

/* llm_embed_trigger(source, target [, model]) */
Datum
llm_embed_trigger(PG_FUNCTION_ARGS)
{
	TriggerData *t = trigger_data(fcinfo, "llm_embed_trigger");

	return PointerGetDatum(compute_row(t, "llm_embed_trigger", 3, embed_call));
}
