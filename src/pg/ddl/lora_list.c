/*
 * lora_list.c
 *	  Rows of the view llm_loras: the rows of vllm.lora, and the engine's state of each adapter.
 *
 * The engine returns, as a JSON array, the adapters that the database's requests have asked for: by
 * name, model and a hash of the path, as JSON can't contain all bytes that a path may have.  An
 * adapter without a row is one of vllm.lora_dir if it is in that directory.  Else its row was renamed
 * or rolled back; no request finds it by that name, so it is not shown.  Adapters that only running
 * requests still use are not shown either.  Only some roles may read paths, so they are compared here
 * and not in SQL.
 *
 * Tests: tests/sql/33_lora.sql, tests/t/091_lora.pl.
 */
#include "postgres.h"

#include <inttypes.h>

#include "catalog/pg_type.h"
#include "catalog/pg_authid.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/catalog/lora_catalog.h"
#include "pg/client/reply.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_lora_list);

#define N_COLS		18
#define UINT64_HEX	"%016" PRIx64

/* An adapter in the engine's list. */
typedef struct InEngine
{
	JsonbContainer *object;
	char	   *name;
	char	   *model;
	char	   *path_hash;
	char	   *state;
	bool		has_row;
} InEngine;

/* ---- the engine's list ---- */

static char *
string_of(const JsonbValue *v)
{
	return v != NULL && v->type == jbvString ? pnstrdup(v->val.string.val, v->val.string.len) : pstrdup("");
}

static JsonbValue *
member(JsonbContainer *object, const char *name)
{
	return getKeyJsonValueFromContainer(object, name, strlen(name), NULL);
}

/* Return NULL if no engine serves. */
static Jsonb *
query_engine(void)
{
	StringInfoData body;
	WireOut		out;
	CallFrame	f;
	ClientCall *call;
	Reply		r;
	text	   *list;

	if (vllm_shared == NULL || pg_atomic_read_u32(&vllm_shared->state) != VLLM_READY)
		return NULL;
	initStringInfo(&body);
	out = vclient_out(&body);
	vclient_put_identity(&out);
	vcall_simple(WK_LORA_LIST, &body, NULL, 0, CurrentMemoryContext, &f, &call);
	reply_read(&r, &f);
	list = reply_text(&r);
	vcall_end(call);
	return DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(text_to_cstring(list))));
}

/* Return InEngine *, without those that are being unloaded. */
static List *
engine_list(void)
{
	Jsonb	   *jb = query_engine();
	List	   *list = NIL;

	if (jb == NULL || !JB_ROOT_IS_ARRAY(jb))
		return NIL;
	for (uint32 i = 0; i < JB_ROOT_COUNT(jb); i++)
	{
		JsonbValue *v = getIthJsonbValueFromContainer(&jb->root, i);
		InEngine   *e;

		if (v->type != jbvBinary || !JsonContainerIsObject(v->val.binary.data))
			continue;
		e = palloc0(sizeof(InEngine));
		e->object = v->val.binary.data;
		e->name = string_of(member(e->object, "name"));
		e->model = string_of(member(e->object, "model"));
		e->path_hash = string_of(member(e->object, "path_hash"));
		e->state = string_of(member(e->object, "state"));
		if (strcmp(e->state, "leaving") != 0)
			list = lappend(list, e);
	}
	return list;
}

/* ---- rows ---- */

static char *
role_name(Oid role)
{
	char	   *name = OidIsValid(role) ? GetUserNameFromId(role, true) : "public";

	return name ? name : psprintf("%u", role);
}

static Datum
text_array(Datum *elems, int n)
{
	return PointerGetDatum(construct_array(elems, n, TEXTOID, -1, false, TYPALIGN_INT));
}

static Datum
role_names(const Oid *roles, int n)
{
	Datum	   *elems = palloc(sizeof(Datum) * Max(n, 1));

	for (int i = 0; i < n; i++)
		elems[i] = CStringGetTextDatum(role_name(roles[i]));
	return text_array(elems, n);
}

static Datum
names_of(JsonbContainer *array)
{
	int			n = JsonContainerSize(array);
	Datum	   *elems = palloc(sizeof(Datum) * Max(n, 1));

	for (int i = 0; i < n; i++)
		elems[i] = CStringGetTextDatum(string_of(getIthJsonbValueFromContainer(array, i)));
	return text_array(elems, n);
}

/* Return a value of the engine's, as the given type; NULL if it is missing. */
static Datum
figure(const InEngine *e, const char *name, Oid type, bool *isnull)
{
	JsonbValue *v = e != NULL ? member(e->object, name) : NULL;

	*isnull = false;
	if (v != NULL && v->type == jbvNumeric)
	{
		Datum		number = NumericGetDatum(v->val.numeric);

		switch (type)
		{
			case INT4OID:
				return DirectFunctionCall1(numeric_int4, number);
			case INT8OID:
				return DirectFunctionCall1(numeric_int8, number);
			case FLOAT8OID:
				return DirectFunctionCall1(numeric_float8, number);
			case TIMESTAMPTZOID:
				/* microseconds since 1970 */
				return TimestampTzGetDatum(DatumGetInt64(DirectFunctionCall1(numeric_int8, number)) -
										   (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY);
		}
	}
	if (v != NULL && v->type == jbvBool && type == BOOLOID)
		return BoolGetDatum(v->val.boolean);
	if (v != NULL && v->type == jbvBinary && type == TEXTARRAYOID && JsonContainerIsArray(v->val.binary.data))
		return names_of(v->val.binary.data);
	*isnull = true;
	return (Datum) 0;
}

static bool
is_at(const InEngine *e, const char *path)
{
	char		hash[17];

	snprintf(hash, sizeof(hash), UINT64_HEX, wire_model_hash(path, ""));
	return strcmp(e->path_hash, hash) == 0;
}

static char *
path_in_dir(const InEngine *e)
{
	return psprintf("%s/%s", vllm_lora_dir, e->name);
}

/* l, e: either may be NULL */
static void
emit(FunctionCallInfo fcinfo, const LoraRow *l, const InEngine *e)
{
	static const struct
	{
		const char *name;
		Oid			type;
	}			figures[] = {
		{"rank", INT4OID}, {"alpha", FLOAT8OID}, {"rslora", BOOLOID}, {"modules", TEXTARRAYOID},
		{"bytes", INT8OID},
		{"pinned", BOOLOID}, {"running", INT4OID}, {"waiting", INT4OID}, {"requests", INT8OID},
		{"last_use_us", TIMESTAMPTZOID}
	};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	bool		may_see = l != NULL ? lora_may_see_path(l) :
		has_privs_of_role(GetUserId(), ROLE_PG_READ_SERVER_FILES);
	Datum		values[N_COLS] = {0};
	bool		nulls[N_COLS] = {0};

	if (rsinfo->setDesc->natts != N_COLS)
		elog(ERROR, "vllm.lora_list() has %d columns, expected %d", rsinfo->setDesc->natts, N_COLS);
	values[0] = CStringGetTextDatum(l != NULL ? l->name : e->name);
	values[1] = CStringGetTextDatum(l != NULL ? l->model : e->model);
	nulls[2] = !may_see;
	if (may_see)
		values[2] = CStringGetTextDatum(l != NULL ? l->path : path_in_dir(e));
	values[3] = CStringGetTextDatum(l != NULL ? "catalog" : "directory");
	values[4] = CStringGetTextDatum(e != NULL ? e->state : "unloaded");
	for (int i = 0; i < lengthof(figures); i++)
		values[5 + i] = figure(e, figures[i].name, figures[i].type, &nulls[5 + i]);
	nulls[15] = nulls[16] = nulls[17] = l == NULL;
	if (l != NULL)
	{
		values[15] = CStringGetTextDatum(role_name(l->owner));
		values[16] = role_names(l->grantees, l->n_grantees);
		values[17] = TimestampTzGetDatum(l->created);
	}
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * vllm.lora_list(OUT name, parent, root, source, state, rank, alpha, rslora, modules, bytes, pinned, running,
 * waiting, requests, last_used, owner, grants, created)
 */
Datum
llm_lora_list(PG_FUNCTION_ARGS)
{
	List	   *in_engine = engine_list();
	ListCell   *lc;
	ListCell   *le;

	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, lora_list(NULL))
	{
		const LoraRow *l = lfirst(lc);
		const InEngine *found = NULL;

		foreach(le, in_engine)
		{
			InEngine   *e = lfirst(le);

			if (strcmp(e->name, l->name) != 0 || strcmp(e->model, l->model) != 0 || !is_at(e, l->path))
				continue;
			e->has_row = true;
			found = e;
		}
		emit(fcinfo, l, found);
	}
	foreach(le, in_engine)
	{
		const InEngine *e = lfirst(le);

		if (!e->has_row && is_at(e, path_in_dir(e)))
			emit(fcinfo, NULL, e);
	}
	return (Datum) 0;
}
