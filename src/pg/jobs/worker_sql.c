/*
 * worker_sql.c
 *	  The worker's statements on a job's source and target.
 *
 * They run as the job's owner with a search_path of pg_catalog, so every name in them has its
 * schema.  A key is passed as text and compared with the operators of the primary key's index, which
 * may belong to an extension's type.  Inheritance is not followed, but partitions are.
 *
 * Tests: tests/sql/23_jobs.sql.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "commands/trigger.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "pg/jobs/job_worker.h"
#include "pg/compat.h"

typedef struct KeyColumn
{
	char	   *name;			/* quoted */
	char	   *type;			/* with its modifier */
	Oid			typid;
	Oid			equal,
				greater,
				least;			/* operators: greater or equal */
} KeyColumn;

typedef struct Tables
{
	JobRun	   *job;
	char	   *source;			/* with ONLY where needed */
	char	   *target;			/* the side table, or NULL */
	int			n;
	KeyColumn  *key;
} Tables;

pg_noreturn static void
raise_table_dropped(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_TABLE),
			 errmsg("a table of the job has been dropped")));
}

static char *
relation_name(Oid relid)
{
	char	   *name = get_rel_name(relid);

	if (name == NULL)
		raise_table_dropped();
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), name);
}

static void
key_changed(const JobDef *def)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
			 errmsg("the primary key of %s has changed since the job was made", relation_name(def->source)),
			 errhint("Drop the job and create it again.")));
}

static void
read_key(Tables *t, Relation rel)
{
	const JobDef *def = t->job->def;
	Relation	index;

	(void) RelationGetIndexList(rel);
	if (!OidIsValid(rel->rd_pkindex))
		key_changed(def);
	index = index_open(rel->rd_pkindex, AccessShareLock);
	t->n = list_length(def->key);
	if (index->rd_index->indnkeyatts != t->n)
		key_changed(def);
	t->key = palloc(sizeof(KeyColumn) * t->n);
	for (int i = 0; i < t->n; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), index->rd_index->indkey.values[i] - 1);
		Oid			family = index->rd_opfamily[i];
		Oid			type = index->rd_opcintype[i];

		if (strcmp(NameStr(att->attname), list_nth(def->key, i)) != 0)
			key_changed(def);
		job_check_key_type(NameStr(att->attname), att->atttypid);
		t->key[i].name = pstrdup(quote_identifier(NameStr(att->attname)));
		t->key[i].typid = att->atttypid;
		t->key[i].type = format_type_extended(att->atttypid, att->atttypmod,
											  FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
		t->key[i].equal = get_opfamily_member(family, type, type, BTEqualStrategyNumber);
		t->key[i].greater = get_opfamily_member(family, type, type, BTGreaterStrategyNumber);
		t->key[i].least = get_opfamily_member(family, type, type, BTGreaterEqualStrategyNumber);
		jobs_allow_type(t->job, type);
		jobs_allow_operator(t->job, t->key[i].equal);
		jobs_allow_operator(t->job, t->key[i].greater);
		jobs_allow_operator(t->job, t->key[i].least);
	}
	index_close(index, AccessShareLock);
}

/* Append left.key <op> right, for column i. */
static void
put_compare(StringInfo s, const Tables *t, int i, const char *left, bool equal, const char *right)
{
	const KeyColumn *k = &t->key[i];

	generate_operator_clause(s, psprintf("%s.%s", left, k->name), k->typid, equal ? k->equal : k->greater,
							 right, k->typid);
}

/* Append: the key of `left` equals the parameters from $first on. */
static void
put_match_params(StringInfo s, const Tables *t, const char *left, int first)
{
	for (int i = 0; i < t->n; i++)
	{
		appendStringInfoString(s, i ? " AND " : "");
		put_compare(s, t, i, left, true, psprintf("($%d::%s)", first + i, t->key[i].type));
	}
}

static void
put_match_keys(StringInfo s, const Tables *t, const char *left)
{
	for (int i = 0; i < t->n; i++)
	{
		appendStringInfoString(s, i ? " AND " : "");
		put_compare(s, t, i, left, true, psprintf("(vllm_keys.k%d::%s)", i + 1, t->key[i].type));
	}
}

static void
put_match_columns(StringInfo s, const Tables *t, const char *left, const char *right)
{
	for (int i = 0; i < t->n; i++)
	{
		appendStringInfoString(s, i ? " AND " : "");
		put_compare(s, t, i, left, true, psprintf("%s.%s", right, t->key[i].name));
	}
}

/* Append unnest($1, $2, ...)  AS vllm_keys(k1, k2, ..., n). */
static void
put_keys(StringInfo s, const Tables *t)
{
	appendStringInfoString(s, "unnest(");
	for (int i = 0; i < t->n; i++)
		appendStringInfo(s, "%s$%d::text[]", i ? ", " : "", i + 1);
	appendStringInfoString(s, ") WITH ORDINALITY AS vllm_keys(");
	for (int i = 0; i < t->n; i++)
		appendStringInfo(s, "k%d, ", i + 1);
	appendStringInfoString(s, "n)");
}

/* Append: the row comes after the key in the parameters from $2 on, column after column. */
static void
put_after(StringInfo s, const Tables *t, int i)
{
	char	   *param = psprintf("($%d::%s)", i + 2, t->key[i].type);

	appendStringInfoChar(s, '(');
	/* this condition lets an index find the place, which the OR that follows can't */
	if (i == 0 && t->n > 1)
	{
		generate_operator_clause(s, psprintf("src.%s", t->key[i].name), t->key[i].typid, t->key[i].least,
								 param, t->key[i].typid);
		appendStringInfoString(s, " AND (");
	}
	put_compare(s, t, i, "src", false, param);
	if (i + 1 < t->n)
	{
		appendStringInfoString(s, " OR (");
		put_compare(s, t, i, "src", true, param);
		appendStringInfoString(s, " AND ");
		put_after(s, t, i + 1);
		appendStringInfoChar(s, ')');
	}
	if (i == 0 && t->n > 1)
		appendStringInfoChar(s, ')');
	appendStringInfoChar(s, ')');
}

static const char *
backfill_sql(const Tables *t, bool first)
{
	const JobDef *def = t->job->def;
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfoString(&s, "SELECT ");
	for (int i = 0; i < t->n; i++)
		appendStringInfo(&s, "src.%s, ", t->key[i].name);
	if (def->target_column)
		appendStringInfo(&s, "src.%s IS NULL", quote_identifier(def->target_column));
	else
	{
		appendStringInfo(&s, "NOT EXISTS (SELECT 1 FROM %s AS side WHERE ", t->target);
		put_match_columns(&s, t, "side", "src");
		appendStringInfoChar(&s, ')');
	}
	appendStringInfo(&s, " FROM %s AS src", t->source);
	if (!first)
	{
		appendStringInfoString(&s, " WHERE ");
		put_after(&s, t, 0);
	}
	appendStringInfoString(&s, " ORDER BY ");
	for (int i = 0; i < t->n; i++)
		appendStringInfo(&s, "%ssrc.%s", i ? ", " : "", t->key[i].name);
	appendStringInfoString(&s, " LIMIT $1");
	return s.data;
}

static const char *
read_sql(const Tables *t)
{
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfoString(&s, "SELECT vllm_keys.n, x.found, x.version, x.input FROM ");
	put_keys(&s, t);
	/* the input was text when the job was created, but a column's type may have changed */
	appendStringInfo(&s, " LEFT JOIN LATERAL (SELECT true, pg_catalog.concat(src.tableoid, src.ctid, "
						 "src.xmin), CAST((%s) AS text) FROM %s AS src WHERE ",
					 t->job->def->input, t->source);
	put_match_keys(&s, t, "src");
	appendStringInfoString(&s, ") AS x(found, version, input) ON true");
	return s.data;
}

static const char *
lock_sql(const Tables *t)
{
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfoString(&s, "SELECT vllm_keys.n FROM ");
	put_keys(&s, t);
	appendStringInfo(&s, ", %s AS src WHERE ", t->source);
	put_match_keys(&s, t, "src");
	appendStringInfoString(&s, " FOR NO KEY UPDATE OF src SKIP LOCKED");
	return s.data;
}

static const char *
update_sql(const Tables *t, bool clear)
{
	const char *column = quote_identifier(t->job->def->target_column);
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfo(&s, "UPDATE %s AS src SET %s = %s WHERE ", t->source, column, clear ? "NULL" : "$1");
	put_match_params(&s, t, "src", 2);
	if (clear)
		appendStringInfo(&s, " AND src.%s IS NOT NULL", column);
	return s.data;
}

static const char *
side_delete_sql(const Tables *t)
{
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfo(&s, "DELETE FROM %s AS side WHERE ", t->target);
	put_match_params(&s, t, "side", 1);
	return s.data;
}

static const char *
side_insert_sql(const Tables *t)
{
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfo(&s, "INSERT INTO %s (", t->target);
	for (int i = 0; i < t->n; i++)
		appendStringInfo(&s, "%s, ", t->key[i].name);
	appendStringInfoString(&s, "chunk_seq, chunk, embedding, tok_start, tok_end) VALUES (");
	for (int i = 0; i < t->n; i++)
		appendStringInfo(&s, "$%d::%s, ", i + 1, t->key[i].type);
	appendStringInfo(&s, "$%d, $%d, $%d, $%d, $%d)", t->n + 1, t->n + 2, t->n + 3, t->n + 4, t->n + 5);
	return s.data;
}

static const char *
sweep_sql(const Tables *t)
{
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfo(&s, "DELETE FROM %s AS side WHERE side.ctid >= $1 AND side.ctid < $2 AND NOT EXISTS "
						 "(SELECT 1 FROM %s AS src WHERE ",
					 t->target, t->source);
	put_match_columns(&s, t, "src", "side");
	appendStringInfoChar(&s, ')');
	return s.data;
}

/*
 * A restore creates jobs and their queue before the tables have all their rows, and creates triggers
 * last.  Until then a row that is not found need not be deleted.
 */
static void
require_triggers(const JobDef *def)
{
	if (!OidIsValid(get_trigger_oid(def->source, psprintf("vllm_job_%d_update", def->id), true)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the job's triggers on %s do not exist", relation_name(def->source)),
				 errhint("Unless a restore is still running, drop the job and create it again.")));
}

/*
 * ERROR if the side table lacks a key column: one that was renamed in the source has another name
 * there.
 */
static void
require_side_key(const JobDef *def)
{
	ListCell   *lc;

	foreach(lc, def->key)
		if (get_attnum(def->target_table, lfirst(lc)) == InvalidAttrNumber)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("column \"%s\" of relation \"%s\" does not exist: a side table has the key "
							"columns of its source", (char *) lfirst(lc), get_rel_name(def->target_table)),
					 errhint("If the source's column was renamed, rename that of the side table, too.")));
}

static void
allow_side_table(JobRun *j)
{
	Relation	rel = table_open(j->def->target_table, AccessShareLock);

	job_check_written_types(rel, true, j->def->owner);
	jobs_allow_columns(j, RelationGetDescr(rel));
	table_close(rel, NoLock);
}

void
jobs_sql_build(JobRun *j)
{
	const JobDef *def = j->def;
	Tables		t = {.job = j};
	Relation	rel;
	char	   *name = relation_name(def->source);

	require_triggers(def);
	rel = try_table_open(def->source, AccessShareLock);
	if (rel == NULL)
		raise_table_dropped();
	read_key(&t, rel);
	job_check_written_types(rel, false, def->owner);
	jobs_allow_columns(j, RelationGetDescr(rel));
	j->n_key = t.n;
	t.source = rel->rd_rel->relkind == RELKIND_RELATION ? psprintf("ONLY %s", name) : name;
	table_close(rel, AccessShareLock);
	if (OidIsValid(def->target_table))
	{
		t.target = relation_name(def->target_table);
		require_side_key(def);
		allow_side_table(j);
	}
	j->sql.read = read_sql(&t);
	j->sql.lock = lock_sql(&t);
	j->sql.backfill_first = backfill_sql(&t, true);
	j->sql.backfill_next = backfill_sql(&t, false);
	if (def->target_column)
	{
		j->sql.update = update_sql(&t, false);
		j->sql.clear = update_sql(&t, true);
	}
	else
	{
		j->sql.side_delete = side_delete_sql(&t);
		j->sql.side_insert = side_insert_sql(&t);
		j->sql.sweep = sweep_sql(&t);
	}
	if (strcmp(def->chunking, "none") != 0)
	{
		j->sql.chunks = job_chunks_sql(def, "$1");
		jobs_allow_function(j, "llm_chunk_text");
	}
}
