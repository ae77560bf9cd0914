/*
 * nearest.c
 *	  Exact search over vectors in tables: llm_nearest, llm_nearest_rows; distances of
 *	  real[] (llm_cosine_distance, llm_l2_distance, llm_inner_product) and their signs as bits
 *	  (llm_binary_quantize).
 *
 * A search is a query that the function writes and runs as the caller, with the caller's snapshot:
 *
 *		SELECT tableoid, ctid, distance(column, $1) FROM source
 *		WHERE column IS NOT NULL AND (filter) ORDER BY 3, 1, 2 LIMIT k
 *
 * so that privileges, row security, partitions, parallel workers and interrupts work as in
 * PostgreSQL.  Its bounded sort keeps the k best in a heap, and the distance is one pass of SIMD over
 * the detoasted array.  Rows at the same distance are ordered by table and ctid, so the order is
 * total.
 *
 * With a column of codes (llm_binary_quantize) the query orders by the number of different bits, for
 * k * oversample rows, and reads no vectors; the distances of those rows are then computed exactly,
 * by ctid.  A column of one of pgvector's types is searched with its operators, so an index on it can
 * be used.  Any user can name a type "vector", with a cast and operators in any language: a type,
 * cast or operator counts as pgvector's only if it is a member of the extension and its code is in C.
 *
 * A filter is one expression; it is parsed alone before it becomes part of the query.
 *
 * Tests: tests/sql/21_nearest.sql, tests/unit/pg/test_vecmath.c.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_language.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "parser/parse_coerce.h"
#include "parser/parser.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/varbit.h"

#include "pg/jobs/job.h"
#include "pg/util/vector_math.h"
#include "pg/util/number_array.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_cosine_distance);
PG_FUNCTION_INFO_V1(llm_l2_distance);
PG_FUNCTION_INFO_V1(llm_inner_product);
PG_FUNCTION_INFO_V1(llm_binary_quantize);
PG_FUNCTION_INFO_V1(llm_nearest);
PG_FUNCTION_INFO_V1(llm_nearest_rows);

#define MAX_OVERSAMPLE	1000

/* ---- vectors ---- */

typedef struct Vec
{
	const float *x;
	int			n;
} Vec;

/* Return real[].  A float8[] is converted to a copy, which PG_FREE_IF_COPY() frees. */
static ArrayType *
vector_arg(FunctionCallInfo fcinfo, int arg)
{
	ArrayType  *a = PG_GETARG_ARRAYTYPE_P(arg);
	ArrayType  *reals = number_array_reals(a);

	if (reals != a)
		PG_FREE_IF_COPY(a, arg);
	return reals;
}

static Vec
read_vec(ArrayType *array)
{
	if (ARR_NDIM(array) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 ARR_NDIM(array) == 0 ? errmsg("vector must have at least 1 dimension") :
				 errmsg("vector must be a one-dimensional array")));
	if (array_contains_nulls(array))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("vector must not contain null values")));
	return (Vec)
	{
		(const float *) ARR_DATA_PTR(array), ARR_DIMS(array)[0]
	};
}

static void
check_dimensions(Vec a, Vec b)
{
	if (a.n != b.n)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("vectors have different dimensions: %d and %d", a.n, b.n)));
}

typedef enum Metric
{
	METRIC_COSINE, METRIC_L2, METRIC_IP
} Metric;

static Datum
two_vectors(FunctionCallInfo fcinfo, Metric metric)
{
	ArrayType  *a = vector_arg(fcinfo, 0);
	ArrayType  *b = vector_arg(fcinfo, 1);
	Vec			x = read_vec(a);
	Vec			y = read_vec(b);
	const VecOps *ops = vec_ops();
	double		result;

	check_dimensions(x, y);
	if (metric == METRIC_COSINE)
		result = vec_cosine_distance(ops, x.x, y.x, x.n);
	else if (metric == METRIC_L2)
		result = sqrt(ops->square_distance(x.x, y.x, x.n));
	else
		result = ops->dot(x.x, y.x, x.n);
	PG_FREE_IF_COPY(a, 0);
	PG_FREE_IF_COPY(b, 1);
	PG_RETURN_FLOAT8(result);
}

Datum
llm_cosine_distance(PG_FUNCTION_ARGS)
{
	return two_vectors(fcinfo, METRIC_COSINE);
}

Datum
llm_l2_distance(PG_FUNCTION_ARGS)
{
	return two_vectors(fcinfo, METRIC_L2);
}

Datum
llm_inner_product(PG_FUNCTION_ARGS)
{
	return two_vectors(fcinfo, METRIC_IP);
}

/* One bit for each dimension: 1 = greater than zero. */
Datum
llm_binary_quantize(PG_FUNCTION_ARGS)
{
	ArrayType  *a = vector_arg(fcinfo, 0);
	Vec			v = read_vec(a);
	int			len = VARBITTOTALLEN(v.n);
	VarBit	   *bits = palloc0(len);

	SET_VARSIZE(bits, len);
	VARBITLEN(bits) = v.n;
	for (int i = 0; i < v.n; i++)
		if (v.x[i] > 0)
			VARBITS(bits)[i / BITS_PER_BYTE] |= 0x80 >> (i % BITS_PER_BYTE);
	PG_FREE_IF_COPY(a, 0);
	PG_RETURN_VARBIT_P(bits);
}

/* ---- the arguments of a search ---- */

typedef struct MetricRow
{
	const char *name;
	const char *function;		/* for real[] */
	const char *op;				/* pgvector's operator */
} MetricRow;

/* for all of these, smaller is nearer */
static const MetricRow metrics[] = {
	[METRIC_COSINE] = {"cosine", "llm_cosine_distance", "<=>"},
	[METRIC_L2] = {"l2", "llm_l2_distance", "<->"},
	[METRIC_IP] = {"ip", "llm_inner_product", "<#>"},
};

typedef struct NearestSearch
{
	Oid			rel;
	char	   *source;			/* quoted names */
	char	   *column;
	char	   *codes;			/* NULL: none */
	char	   *filter;			/* NULL: none */
	int			k;
	int			oversample;
	const MetricRow *metric;
	char	   *schema;			/* schema of our functions, quoted */
	Oid			vector_oid;		/* pgvector's type; invalid: the column is real[] */
	char	   *vector_type;	/* its name, quoted with its schema */
	Oid			vector_namespace;
	char	   *vector_schema;
} NearestSearch;

static void
check_source(NearestSearch *s)
{
	char		kind;
	char	   *name;

	/* the lock keeps a column that is found: without it, s.name would be a call of a function name(s) */
	LockRelationOid(s->rel, AccessShareLock);
	kind = get_rel_relkind(s->rel);
	name = get_rel_name(s->rel);
	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", s->rel)));
	if (kind != RELKIND_RELATION && kind != RELKIND_MATVIEW && kind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table or materialized view", name),
				 errhint("For a view, use ORDER BY llm_cosine_distance(column, query) with a LIMIT.")));
	s->source = quote_qualified_identifier(get_namespace_name(get_rel_namespace(s->rel)), name);
}

static Oid
column_type(const NearestSearch *s, const char *column)
{
	AttrNumber	attno = get_attnum(s->rel, column);

	if (attno == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist", column, get_rel_name(s->rel))));
	return getBaseType(get_atttype(s->rel, attno));
}

/* Only a superuser can make a base type. */
static bool
is_pgvector_type(Oid type, Form_pg_type form)
{
	Oid			extension = get_extension_oid("vector", true);

	return (strcmp(NameStr(form->typname), "vector") == 0 ||
			strcmp(NameStr(form->typname), "halfvec") == 0) &&
		form->typtype == TYPTYPE_BASE && OidIsValid(extension) &&
		getExtensionOfObject(TypeRelationId, type) == extension;
}

/*
 * The extension's owner may add functions to it; only a superuser can make one in C.
 */
static bool
is_pgvector_function(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Oid			language = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		language = ((Form_pg_proc) GETSTRUCT(tuple))->prolang;
		ReleaseSysCache(tuple);
	}
	return (language == ClanguageId || language == INTERNALlanguageId) &&
		getExtensionOfObject(ProcedureRelationId, function) == get_extension_oid("vector", true);
}

static void
check_column(NearestSearch *s, const char *column)
{
	Oid			type = column_type(s, column);
	HeapTuple	tuple;

	s->column = psprintf("s.%s", quote_identifier(column));
	if (type == FLOAT4ARRAYOID || type == FLOAT8ARRAYOID)
		return;
	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_type form = (Form_pg_type) GETSTRUCT(tuple);

		if (is_pgvector_type(type, form))
		{
			s->vector_oid = type;
			s->vector_namespace = form->typnamespace;
			s->vector_schema = pstrdup(quote_identifier(get_namespace_name(form->typnamespace)));
			s->vector_type = psprintf("%s.%s", s->vector_schema, NameStr(form->typname));
		}
		ReleaseSysCache(tuple);
	}
	if (!OidIsValid(s->vector_oid))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" is of type %s, not real[]", column, format_type_be(type))));
}

/* Check pgvector's operator for the metric, and its cast of the query, which the search calls. */
static void
check_operator(const NearestSearch *s)
{
	Oid			type = s->vector_oid;
	Oid			cast;
	CoercionPathType path = find_coercion_pathway(type, FLOAT4ARRAYOID, COERCION_EXPLICIT, &cast);
	Oid			op = GetSysCacheOid4(OPERNAMENSP, Anum_pg_operator_oid, CStringGetDatum(s->metric->op),
									 ObjectIdGetDatum(type), ObjectIdGetDatum(type),
									 ObjectIdGetDatum(s->vector_namespace));

	if (!OidIsValid(op) || get_op_rettype(op) != FLOAT8OID || !is_pgvector_function(get_opcode(op)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("extension \"vector\" of this database has no operator %s for type %s", s->metric->op,
						s->vector_type),
				 errhint("Use ALTER EXTENSION vector UPDATE.")));
	if (path != COERCION_PATH_RELABELTYPE && (path != COERCION_PATH_FUNC || !is_pgvector_function(cast)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("extension \"vector\" of this database has no cast from real[] to type %s",
						s->vector_type),
				 errhint("Use ALTER EXTENSION vector UPDATE.")));
}

static void
check_codes(NearestSearch *s, const char *column, int dimensions)
{
	Oid			type = column_type(s, column);
	Oid			collation;
	int32		bits;			/* -1: as many bits as a value has */

	if (type != BITOID && type != VARBITOID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" is of type %s, not bit", column, format_type_be(type)),
				 errhint("Compute it with llm_binary_quantize().")));
	get_atttypetypmodcoll(s->rel, get_attnum(s->rel, column), &type, &bits, &collation);
	if (type == BITOID && bits != dimensions && bits >= 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("codes have %d bits, but the query has %d dimensions", bits, dimensions)));
	s->codes = psprintf("s.%s", quote_identifier(column));
}

/* A position in the filter is not one in the calling query. */
static void
filter_context(void *arg)
{
	int			at = geterrposition();

	if (at > 0)
	{
		errposition(0);
		internalerrposition(at);
		internalerrquery(arg);
	}
}

/* Check that the filter is one expression and nothing else. */
static void
check_filter(char *filter)
{
	ErrorContextCallback callback = {error_context_stack, filter_context, filter};
	List	   *parsed;
	SelectStmt *select;

	error_context_stack = &callback;
	parsed = raw_parser(filter, RAW_PARSE_PLPGSQL_EXPR);
	error_context_stack = callback.previous;
	select = (SelectStmt *) linitial_node(RawStmt, parsed)->stmt;
	if (!IsA(select, SelectStmt) || list_length(select->targetList) != 1 || select->distinctClause ||
		select->fromClause || select->whereClause || select->groupClause || select->havingClause ||
		select->windowClause || select->sortClause || select->limitCount || select->limitOffset ||
		select->lockingClause || select->withClause || select->op != SETOP_NONE ||
		linitial_node(ResTarget, select->targetList)->name != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("filter must be one expression"),
				 errdetail("parameter=filter, value=%s", quote_literal_cstr(filter))));
}

static int
int_between(FunctionCallInfo fcinfo, int arg, const char *name, int otherwise, int least, int most)
{
	int			value = PG_ARGISNULL(arg) ? otherwise : PG_GETARG_INT32(arg);

	if (value < least || value > most)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 most == INT_MAX ? errmsg("%s must be at least %d", name, least) :
				 errmsg("%s must be between %d and %d", name, least, most),
				 errdetail("parameter=%s, value=%d", name, value)));
	return value;
}

static const MetricRow *
metric_by_name(const char *name)
{
	for (int i = 0; i < lengthof(metrics); i++)
		if (strcmp(name, metrics[i].name) == 0)
			return &metrics[i];
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("metric must be cosine, l2 or ip"),
			 errdetail("parameter=metric, value=%s", name)));
}

/* Read the arguments from "column" on, which begin at arg.  vector: the query vector */
static void
read_search(NearestSearch *s, FunctionCallInfo fcinfo, Oid rel, int arg, Datum vector)
{
	if (PG_ARGISNULL(arg))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("column must not be null")));
	memset(s, 0, sizeof(*s));
	s->rel = rel;
	check_source(s);
	check_column(s, NameStr(*PG_GETARG_NAME(arg)));
	s->k = int_between(fcinfo, arg + 1, "k", 10, 1, INT_MAX);
	s->metric = PG_ARGISNULL(arg + 2) ? &metrics[METRIC_COSINE] :
		metric_by_name(text_to_cstring(PG_GETARG_TEXT_PP(arg + 2)));
	if (OidIsValid(s->vector_oid))
		check_operator(s);
	if (!PG_ARGISNULL(arg + 3))
	{
		s->filter = text_to_cstring(PG_GETARG_TEXT_PP(arg + 3));
		check_filter(s->filter);
	}
	s->oversample = int_between(fcinfo, arg + 5, "oversample", 10, 1, MAX_OVERSAMPLE);
	if (!PG_ARGISNULL(arg + 4))
		check_codes(s, NameStr(*PG_GETARG_NAME(arg + 4)), read_vec(DatumGetArrayTypeP(vector)).n);
	s->schema = pstrdup(quote_identifier(job_extension_schema()));
}

/* ---- the query ---- */

/*
 * Append the distance of the row s from $1.  The column may be of a domain, whose owner may have
 * created a function or an operator for it; with casts to the exact types ours fits best.
 */
static void
append_distance(StringInfo q, const NearestSearch *s)
{
	if (s->vector_type)
		appendStringInfo(q, "(%s::%s OPERATOR(%s.%s) $1::%s)", s->column, s->vector_type, s->vector_schema,
						 s->metric->op, s->vector_type);
	else
		appendStringInfo(q, "%s%s.%s(%s::pg_catalog.float4[], $1)",
						 s->metric == &metrics[METRIC_IP] ? "0 OPERATOR(pg_catalog.-) " : "", s->schema,
						 s->metric->function, s->column);
}

/* A comment at the end of the filter must not hide the text after it. */
static void
append_from(StringInfo q, const NearestSearch *s, const char *wanted)
{
	appendStringInfo(q, " FROM %s s WHERE %s IS NOT NULL", s->source, wanted);
	if (s->filter)
		appendStringInfo(q, " AND (%s\n)", s->filter);
}

/* Append `best`: table, ctid and distance of the k nearest rows, or of the candidates by code. */
static void
append_best(StringInfo q, const NearestSearch *s)
{
	appendStringInfoString(q, "WITH best AS MATERIALIZED (SELECT s.tableoid AS t, s.ctid AS r");
	if (s->codes)
	{
		append_from(q, s, s->codes);
		appendStringInfo(q, " ORDER BY pg_catalog.bit_count(%s OPERATOR(pg_catalog.#) "
							"%s.llm_binary_quantize($1)), 1, 2 LIMIT "
						 INT64_FORMAT ")", s->codes, s->schema, (int64) s->k * s->oversample);
		return;
	}
	appendStringInfoString(q, ", ");
	append_distance(q, s);
	appendStringInfoString(q, " AS d");
	append_from(q, s, s->column);
	/* an index gives no order among equal distances */
	appendStringInfo(q, " ORDER BY %s LIMIT %d)", s->vector_type ? "3" : "3, 1, 2", s->k);
}

/* Join `best` with its rows; append their distance to `distance`. */
static void
append_rows(StringInfo q, const NearestSearch *s, StringInfo distance)
{
	initStringInfo(distance);
	if (s->codes)
		append_distance(distance, s);
	else
		appendStringInfoString(distance, "best.d");
	appendStringInfo(q, " FROM best JOIN %s s ON s.ctid OPERATOR(pg_catalog.=) best.r AND s.tableoid "
						"OPERATOR(pg_catalog.=) best.t", s->source);
	if (s->codes)
		appendStringInfo(q, " WHERE %s IS NOT NULL", s->column);
}

static void
run(const NearestSearch *s, const char *query, Datum vector)
{
	Oid			type = FLOAT4ARRAYOID;

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	/* read-only: uses the snapshot of the calling query */
	if (SPI_execute_with_args(query, 1, &type, &vector, NULL, true, s->k) != SPI_OK_SELECT)
		elog(ERROR, "the query of a search failed");
}

/* Return the query vector of argument `arg`, checked. */
static Datum
query_vector(FunctionCallInfo fcinfo, int arg)
{
	ArrayType  *array = vector_arg(fcinfo, arg);

	(void) read_vec(array);
	return PointerGetDatum(array);
}

/*
 * ---- llm_nearest(query real[], source regclass, "column" name, k, metric, filter, codes, oversample) ----
 */

Datum
llm_nearest(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	NearestSearch s;
	StringInfoData q,
				distance;
	Datum		vector;

	InitMaterializedSRF(fcinfo, 0);
	if (PG_ARGISNULL(0))
		return (Datum) 0;
	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("source must not be null")));
	vector = query_vector(fcinfo, 0);
	read_search(&s, fcinfo, PG_GETARG_OID(1), 2, vector);
	initStringInfo(&q);
	append_best(&q, &s);
	if (s.codes)
	{
		StringInfoData from;

		initStringInfo(&from);
		append_rows(&from, &s, &distance);
		appendStringInfo(&q, " SELECT %s, s.ctid, s.tableoid%s ORDER BY 1, 3, 2 LIMIT %d", distance.data,
						 from.data, s.k);
	}
	else
		appendStringInfoString(&q, " SELECT d, r, t FROM best ORDER BY 1, 3, 2");
	run(&s, q.data, vector);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		Datum		values[3];
		bool		nulls[3];

		heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, values, nulls);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	SPI_finish();
	return (Datum) 0;
}

/* ---- llm_nearest_rows(rows anyelement, query real[], "column" name, ... like llm_nearest) ---- */

Datum
llm_nearest_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Oid			type = get_fn_expr_argtype(fcinfo->flinfo, 0);
	Oid			rel = OidIsValid(type) ? get_typ_typrelid(type) : InvalidOid;
	NearestSearch s;
	StringInfoData q,
				from,
				distance;
	Datum		vector;

	if (!OidIsValid(rel))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("rows must be a row of the table to search, such as NULL::docs")));
	InitMaterializedSRF(fcinfo, 0);
	if (PG_ARGISNULL(1))
		return (Datum) 0;
	vector = query_vector(fcinfo, 1);
	read_search(&s, fcinfo, rel, 2, vector);
	initStringInfo(&q);
	append_best(&q, &s);
	initStringInfo(&from);
	append_rows(&from, &s, &distance);
	/* a whole row, which handles dropped columns and partitions; plain s could be a column */
	appendStringInfo(&q, " SELECT (s.*)::%s%s ORDER BY %s, s.tableoid, s.ctid LIMIT %d", s.source, from.data,
					 distance.data, s.k);
	run(&s, q.data, vector);
	if (SPI_gettypeid(SPI_tuptable->tupdesc, 1) != type)
		elog(ERROR, "the query of a search has no row of %s", s.source);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool		isnull;
		HeapTupleHeader row = DatumGetHeapTupleHeader(heap_getattr(SPI_tuptable->vals[i], 1,
																   SPI_tuptable->tupdesc, &isnull));
		HeapTupleData tuple = {.t_len = HeapTupleHeaderGetDatumLength(row),.t_data = row};

		tuplestore_puttuple(rsinfo->setResult, &tuple);
	}
	SPI_finish();
	return (Datum) 0;
}
