/*
 * job_expr.c
 *	  The input of a job: an SQL expression over the source's columns.
 *
 * The expression is analysed when the job is created, with the creator's search_path, and stored in
 * the form that PostgreSQL prints with an empty search_path.  In that form every function, type and
 * operator has its schema, so it has the same meaning in the worker.  Constants are written with the
 * fixed settings of keys, and the worker reads them with those.
 *
 * The worker computes the expression twice, before the model is asked and before the result is
 * stored, and stores the result only if both values are equal.  So the expression must not be
 * volatile, and must not read other tables, as their changes would not be noticed.
 *
 * Names in the stored text are resolved again each time, so the objects that they refer to are
 * recorded, too (job_uses.c).  job_trust.c checks who may own those objects.
 *
 * Tests: tests/sql/23_jobs.sql, 23_jobs_checks.sql.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_node.h"
#include "parser/parse_relation.h"
#include "parser/parser.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

#include "pg/jobs/job.h"

static void
refuse(const char *text, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("input \"%s\" of a job is not supported", text),
			 errdetail("%s", detail)));
}

/* Parse the text, which must be one expression and nothing else. */
static Node *
parse_expression(const char *text)
{
	List	   *statements;
	SelectStmt *select;
	ResTarget  *target;

	/* the newline ends a comment that would hide the parenthesis */
	statements = raw_parser(psprintf("SELECT (%s\n)", text), RAW_PARSE_DEFAULT);
	if (list_length(statements) != 1)
		refuse(text, "It must be one SQL expression.");
	select = (SelectStmt *) linitial_node(RawStmt, statements)->stmt;
	if (!IsA(select, SelectStmt) || select->op != SETOP_NONE || list_length(select->targetList) != 1 ||
		select->fromClause || select->whereClause || select->groupClause || select->havingClause ||
		select->sortClause || select->limitCount || select->limitOffset || select->withClause ||
		select->windowClause || select->intoClause || select->lockingClause || select->distinctClause)
		refuse(text, "It must be one SQL expression.");
	target = linitial_node(ResTarget, select->targetList);
	if (target->name != NULL)
		refuse(text, "It must be one SQL expression.");
	return target->val;
}

/* Checked before the analysis, which can make values of other tables' types. */
static bool
has_subquery(Node *raw, void *context)
{
	if (raw == NULL)
		return false;
	return IsA(raw, SubLink) || raw_expression_tree_walker(raw, has_subquery, context);
}

static List *
column_names(Relation rel, Node *node, const char *text)
{
	Bitmapset  *attnos = NULL;
	List	   *names = NIL;
	int			i = -1;

	pull_varattnos(node, 1, &attnos);
	while ((i = bms_next_member(attnos, i)) >= 0)
	{
		AttrNumber	attno = i + FirstLowInvalidHeapAttributeNumber;

		if (attno <= 0)
			refuse(text, "It must name columns of its own; whole rows and system columns are not supported.");
		names = lappend(names, pstrdup(NameStr(TupleDescAttr(RelationGetDescr(rel), attno - 1)->attname)));
	}
	if (names == NIL)
		refuse(text, "It names no column.");
	return names;
}

/* The text form of a money value depends on lc_monetary. */
static bool
has_money_constant(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Const) && getBaseType(((Const *) node)->consttype) == MONEYOID)
		return true;
	return expression_tree_walker(node, has_money_constant, context);
}

/*
 * An untyped literal, as an argument of type "any" or a field of a row, is written as text.
 * Otherwise, when it is read again, the literal (or the field) could take the type that another
 * function of the same name wants, and run that type's input function.
 */
static Node *
literals_as_text(Node *node, void *builtin)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Const) && ((Const *) node)->consttype == UNKNOWNOID && builtin == NULL)
	{
		Const	   *c = (Const *) node;

		return (Node *) makeConst(TEXTOID, -1, DEFAULT_COLLATION_OID, -1,
								  c->constisnull ? (Datum) 0 :
								  CStringGetTextDatum(DatumGetCString(c->constvalue)), c->constisnull, false);
	}
	/*
	 * builtin: the function of pg_catalog whose arguments these are; no other role can create a
	 * function of that name there
	 */
	if (IsA(node, FuncExpr))
		builtin = get_func_namespace(((FuncExpr *) node)->funcid) == PG_CATALOG_NAMESPACE ? node : NULL;
	else if (!IsA(node, List) && !IsA(node, NamedArgExpr))
		builtin = NULL;
	return expression_tree_mutator(node, literals_as_text, builtin);
}

/* Set the settings under which the worker reads the text, until AtEOXact_GUC(level). */
static int
stored_format(void)
{
	int			level = job_key_format();

	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	(void) set_config_option("standard_conforming_strings", "on", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	return level;
}

static char *
write_expression(Relation rel, Node *node)
{
	int			level = stored_format();
	char	   *result;

	result = deparse_expression(node, deparse_context_for("src", RelationGetRelid(rel)), true, false);
	AtEOXact_GUC(false, level);
	return result;
}

char *
job_expression_write(Relation rel, Oid owner, Node *node)
{
	JobRole		role;
	char	   *result;

	job_role_owner(&role, owner);
	result = write_expression(rel, node);
	job_role_end(&role);
	return result;
}

static char *
look_at_expression(Relation rel, Oid owner, const char *text, List **columns, JobUses *uses)
{
	ParseState *pstate = make_parsestate(NULL);
	ParseNamespaceItem *item;
	Node	   *node;
	Node	   *as_text;
	char	   *result;

	node = parse_expression(text);
	if (has_subquery(node, NULL))
		refuse(text, "Subqueries are not supported: changes of other tables would not be noticed.");
	job_trust_names(rel, node, owner);
	item = addRangeTableEntryForRelation(pstate, rel, AccessShareLock, NULL, false, true);
	addNSItemToQuery(pstate, item, false, true, true);
	node = transformExpr(pstate, node, EXPR_KIND_SELECT_TARGET);
	if (pstate->p_hasAggs || pstate->p_hasWindowFuncs || pstate->p_hasTargetSRFs)
		refuse(text, "Aggregates, window functions and functions that return sets are not supported.");
	if (IsA(node, RowExpr) && ((RowExpr *) node)->row_typeid == RECORDOID)
		refuse(text, "It is a row of several values. A list of columns is given as columns => '{a,b}', a "
					 "text made of them as template => '{a} {b}'.");
	as_text = coerce_to_target_type(pstate, node, exprType(node), TEXTOID, -1,
									COERCION_EXPLICIT, COERCE_EXPLICIT_CAST, -1);
	if (as_text == NULL)
		refuse(text, psprintf("Its type %s can't be cast to text.", format_type_be(exprType(node))));
	assign_expr_collations(pstate, as_text);
	if (contain_volatile_functions(as_text))
		refuse(text, "It must not be volatile: its value would differ from one time to the next.");
	if (has_money_constant(as_text, NULL))
		refuse(text, "A constant of type money depends on lc_monetary; cast a number to it.");
	*columns = column_names(rel, as_text, text);
	job_trust_node(as_text, owner);
	*uses = job_uses_of(as_text, owner);
	result = write_expression(rel, literals_as_text(as_text, NULL));
	free_parsestate(pstate);
	return result;
}

char *
job_expression_built(Relation rel, Oid owner, const char *text, List **columns, JobUses *uses)
{
	JobRole		role;
	int			level;
	char	   *result;

	job_role_owner(&role, owner);
	level = stored_format();
	result = look_at_expression(rel, owner, text, columns, uses);
	AtEOXact_GUC(false, level);
	job_role_end(&role);
	return result;
}

char *
job_expression(Relation rel, Oid owner, const char *text, List **columns, JobUses *uses)
{
	JobRole		role;
	char	   *result;

	job_role_owner_here(&role, owner);
	result = look_at_expression(rel, owner, text, columns, uses);
	job_role_end(&role);
	return result;
}

Node *
job_expression_read(Relation rel, Oid owner, const char *text, const JobUses *uses)
{
	JobRole		role;
	int			level;
	ParseState *pstate;
	ParseNamespaceItem *item;
	Node	   *node;

	job_role_owner(&role, owner);
	level = stored_format();
	job_uses_check_types(uses, text, owner);
	pstate = make_parsestate(NULL);
	item = addRangeTableEntryForRelation(pstate, rel, AccessShareLock, makeAlias("src", NIL), false, true);
	addNSItemToQuery(pstate, item, false, true, true);
	node = transformExpr(pstate, parse_expression(text), EXPR_KIND_SELECT_TARGET);
	assign_expr_collations(pstate, node);
	free_parsestate(pstate);
	AtEOXact_GUC(false, level);
	job_role_end(&role);
	return node;
}

/* ---- templates ---- */

static void
put_literal(StringInfo out, StringInfo literal)
{
	if (literal->len > 0)
		appendStringInfo(out, "%s%s", out->len > 0 ? ", " : "", quote_literal_cstr(literal->data));
	resetStringInfo(literal);
}

/* Append the expression for {column}; s is after the brace.  Return the position after it. */
static const char *
put_column(StringInfo out, StringInfo names, const char *s, const char *template)
{
	const char *end = strchr(s, '}');
	const char *column;

	if (end == NULL || end == s)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("malformed template \"%s\"", template),
				 errhint("Columns are written as {name}; {{ and }} stand for braces.")));
	column = quote_identifier(pnstrdup(s, end - s));
	appendStringInfo(out, "%s%s", out->len > 0 ? ", " : "", column);
	appendStringInfo(names, "%s%s", names->len > 0 ? ", " : "", column);
	return end + 1;
}

/* NULL columns become empty; a row whose columns are all NULL has a NULL input. */
char *
job_template_expression(const char *template)
{
	StringInfoData out;
	StringInfoData names;
	StringInfoData literal;
	const char *s = template;

	initStringInfo(&out);
	initStringInfo(&names);
	initStringInfo(&literal);
	while (*s)
	{
		if ((s[0] == '{' && s[1] == '{') || (s[0] == '}' && s[1] == '}'))
		{
			appendStringInfoChar(&literal, s[0]);
			s += 2;
		}
		else if (s[0] == '{')
		{
			put_literal(&out, &literal);
			s = put_column(&out, &names, s + 1, template);
		}
		else
			appendStringInfoChar(&literal, *s++);
	}
	put_literal(&out, &literal);
	if (names.len == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("template \"%s\" names no column", template),
				 errhint("Columns are written as {name}. An SQL expression is given as input => '...'.")));
	return psprintf("CASE WHEN pg_catalog.num_nonnulls(%s) OPERATOR(pg_catalog.>) 0 THEN "
					"pg_catalog.concat(%s) END", names.data, out.data);
}

char *
job_columns_expression(List *columns)
{
	StringInfoData out;
	ListCell   *lc;

	initStringInfo(&out);
	foreach(lc, columns)
		appendStringInfo(&out, ", %s", quote_identifier(lfirst(lc)));
	return psprintf("NULLIF(pg_catalog.concat_ws(E'\\n'%s), '')", out.data);
}
