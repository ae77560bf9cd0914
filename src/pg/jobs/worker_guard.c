/*
 * worker_guard.c
 *	  Checks that the worker's own statements use the intended objects.
 *
 * The statements run as the job's owner, and their text has names: of the tables, whose OIDs the job
 * has, of the key's types and operators, and of objects in the job's input.  Between making the text
 * and running it, a name can come to refer to another object: a schema is renamed and another one
 * takes its name.  A hook checks each statement after PostgreSQL has analysed it, also when a cached
 * plan is analysed again.  From then on all objects are identified by OID, and the tables are locked.
 *
 * Statements that the owner's code runs meanwhile have other texts, so they are not checked here.
 *
 * Making a PL/pgSQL variable whose type is a domain runs the domain's checks without a statement.  So
 * the types of a function's variables are checked when it starts.
 *
 * Tests: tests/t/066_jobs_names.pl.
 */
#include "postgres.h"

#include "catalog/pg_operator.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "parser/analyze.h"
#include "plpgsql.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "pg/jobs/job_worker.h"
#include "pg/util/own_call.h"

static post_parse_analyze_hook_type prev_hook = NULL;
/* the job whose statements are checked; NULL: none */
static const JobRun *guarded = NULL;

static bool
is_ours(const char *text)
{
	const JobSql *s = &guarded->sql;
	const char *const ours[] = {
		s->read, s->lock, s->update, s->clear, s->side_delete, s->side_insert, s->sweep,
		s->backfill_first, s->backfill_next, s->chunks
	};

	for (int i = 0; i < (int) lengthof(ours); i++)
		if (ours[i] != NULL && strcmp(ours[i], text) == 0)
			return true;
	return false;
}

static bool
check_relations(Node *node, void *context)
{
	ListCell   *lc;

	if (node == NULL)
		return false;
	if (!IsA(node, Query))
		return expression_tree_walker(node, check_relations, context);
	foreach(lc, ((Query *) node)->rtable)
	{
		const RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		/* the next claim makes the statements with the tables' new names: job_error() */
		if (rte->rtekind == RTE_RELATION && rte->relid != guarded->def->source &&
			rte->relid != guarded->def->target_table)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_TABLE),
					 errmsg("relation \"%s\" has taken the name of a table of the job",
							get_rel_name(rte->relid))));
	}
	return query_tree_walker((Query *) node, check_relations, context, 0);
}

static void
check_statement(ParseState *pstate, Query *query, JumbleState *jstate)
{
	if (guarded != NULL && pstate->p_sourcetext != NULL && is_ours(pstate->p_sourcetext))
	{
		(void) check_relations((Node *) query, NULL);
		job_uses_check(&guarded->uses, guarded->allowed, (Node *) query, guarded->def->owner);
		job_trust_node((Node *) query, guarded->def->owner);
	}
	/* called after the checks above, as the errors of job_trust_run.c are less specific */
	if (prev_hook)
		prev_hook(pstate, query, jstate);
}

/* ---- PL/pgSQL ---- */

static PLpgSQL_plugin plugin;
static const PLpgSQL_plugin *prev_plugin = NULL;

static void
check_variables(PLpgSQL_execstate *state, PLpgSQL_function *function)
{
	job_trust_type(function->fn_rettype);
	for (int i = 0; i < function->ndatums; i++)
	{
		PLpgSQL_datum *d = function->datums[i];

		if (d->dtype == PLPGSQL_DTYPE_VAR || d->dtype == PLPGSQL_DTYPE_PROMISE)
			job_trust_type(((PLpgSQL_var *) d)->datatype->typoid);
		else if (d->dtype == PLPGSQL_DTYPE_REC)
			job_trust_type(((PLpgSQL_rec *) d)->rectypeid);
	}
	if (prev_plugin != NULL && prev_plugin->func_setup != NULL)
		prev_plugin->func_setup(state, function);
}

static void
guard_plpgsql(void)
{
	PLpgSQL_plugin **current = (PLpgSQL_plugin **) find_rendezvous_variable("PLpgSQL_plugin");

	prev_plugin = *current;
	if (prev_plugin != NULL)
		plugin = *prev_plugin;
	plugin.func_setup = check_variables;
	*current = &plugin;
}

void
jobs_guard_begin(void)
{
	prev_hook = post_parse_analyze_hook;
	post_parse_analyze_hook = check_statement;
	guard_plpgsql();
}

void
jobs_guard(const JobRun *j)
{
	guarded = j;
}

/* ---- objects that the statements may use outside of the input ---- */

/* Allow a column's type, and the types that it is made of: a cast to it uses these. */
void
jobs_allow_type(JobRun *j, Oid type)
{
	Oid			base = getBaseType(type);
	Oid			element = get_element_type(base);

	j->allowed = job_object_add(j->allowed, TypeRelationId, type);
	j->allowed = job_object_add(j->allowed, TypeRelationId, base);
	if (OidIsValid(element))
		jobs_allow_type(j, element);
}

void
jobs_allow_columns(JobRun *j, TupleDesc desc)
{
	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped)
			jobs_allow_type(j, TupleDescAttr(desc, i)->atttypid);
}

void
jobs_allow_operator(JobRun *j, Oid operator)
{
	j->allowed = job_object_add(j->allowed, OperatorRelationId, operator);
}

void
jobs_allow_function(JobRun *j, const char *name)
{
	Oid			funcid = own_function(name, TEXTOID);
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid));
	Form_pg_proc proc;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", funcid);
	proc = (Form_pg_proc) GETSTRUCT(tuple);
	j->allowed = job_object_add(j->allowed, ProcedureRelationId, funcid);
	for (int i = 0; i < proc->pronargs; i++)
		jobs_allow_type(j, proc->proargtypes.values[i]);
	ReleaseSysCache(tuple);
}
