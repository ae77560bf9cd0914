/*
 * help.c
 *	  llm_help(): functions and views by topic, each with its comment and an example (help.def).
 *
 * Tests: tests/sql/45_help.sql.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "commands/comment.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "pg/util/option_hint.h"
#include "pg/util/row_builder.h"

typedef struct HelpRow
{
	const char *topic;
	const char *name;
	const char *example;
} HelpRow;

#define HELP(topic, name, example) {#topic, #name, example},
static const HelpRow rows[] = {
#include "pg/func/help.def"
};
#undef HELP

static int
by_text(const ListCell *a, const ListCell *b)
{
	return strcmp(lfirst(a), lfirst(b));
}

/*
 * Return the comment of the schema's view, or those of its functions of that name: each text once, in
 * their order, as OIDs differ between databases.
 */
static char *
comment_of(Oid schema, const char *name)
{
	Oid			relation = get_relname_relid(name, schema);
	List	   *comments = NIL;
	CatCList   *list;
	ListCell   *lc;
	const char *last = "";
	StringInfoData s;

	if (OidIsValid(relation))
		return GetComment(relation, RelationRelationId, 0);
	list = SearchSysCacheList1(PROCNAMEARGSNSP, CStringGetDatum(name));
	for (int i = 0; i < list->n_members; i++)
	{
		Form_pg_proc p = (Form_pg_proc) GETSTRUCT(&list->members[i]->tuple);
		char	   *comment = p->pronamespace == schema ? GetComment(p->oid, ProcedureRelationId, 0) : NULL;

		if (comment != NULL)
			comments = lappend(comments, comment);
	}
	ReleaseCatCacheList(list);
	list_sort(comments, by_text);
	initStringInfo(&s);
	foreach(lc, comments)
	{
		if (strcmp(lfirst(lc), last) != 0)
			appendStringInfo(&s, "%s%s", s.len > 0 ? " " : "", (char *) lfirst(lc));
		last = lfirst(lc);
	}
	return s.len > 0 ? s.data : NULL;
}

static void
check_topic(const char *topic)
{
	OptionHint	hint;

	for (int i = 0; i < (int) lengthof(rows); i++)
		if (strcmp(rows[i].topic, topic) == 0)
			return;
	option_hint_begin(&hint, topic);
	for (int i = 0; i < (int) lengthof(rows); i++)
		if (i == 0 || strcmp(rows[i].topic, rows[i - 1].topic) != 0)
			option_hint_add(&hint, rows[i].topic);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("there is no topic \"%s\"", topic), option_hint_report(&hint, "topics")));
}

PG_FUNCTION_INFO_V1(llm_help);

/* llm_help(about text): the rows of a topic; NULL = of all topics */
Datum
llm_help(PG_FUNCTION_ARGS)
{
	char	   *topic = PG_ARGISNULL(0) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(0));
	Oid			schema = get_func_namespace(fcinfo->flinfo->fn_oid);
	Row			row = {0};

	if (topic != NULL)
		check_topic(topic);
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < (int) lengthof(rows); i++)
	{
		if (topic != NULL && strcmp(rows[i].topic, topic) != 0)
			continue;
		row_str(&row, rows[i].topic);
		row_str(&row, rows[i].name);
		row_str(&row, comment_of(schema, rows[i].name));
		row_str(&row, rows[i].example);
		row_emit(&row, fcinfo);
	}
	return (Datum) 0;
}
