/*
 * pin_prefix.c
 *	  llm_pin_prefix, llm_unpin_prefix: keep a prompt's KV cache, or stop keeping it (rows of
 *	  engine_func.def); the rows of the view llm_pinned_prefixes, and llm_unpin_prefix by number.
 *
 * For the engine, pinning is a request for one token whose output is ignored.  It returns the pins of
 * all roles in the database's models as a JSON array; each role is shown only its own.
 *
 * Tests: tests/t/092_kv.pl.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/call/generate.h"
#include "pg/client/reply.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_pin_list);
PG_FUNCTION_INFO_V1(llm_unpin_id);

#define N_COLS		9

static void
head(SqlRequest *r, FunctionCallInfo fcinfo, int pin)
{
	WireOut		out;

	generate_head_with(r, fcinfo, GEN_PIN);
	/* each call counts, even if its prompt is repeated */
	r->deterministic = false;
	out = vclient_out(&r->body);
	wire_put_int(&out, WTAG_PIN, pin);
}

void
pin_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	head(r, fcinfo, 1);
}

void
unpin_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	head(r, fcinfo, -1);
}

/* Return the number of the prompt's tokens. */
Datum
pin_result(const Reply *reply, Oid rettype, bool *isnull)
{
	*isnull = false;
	return Int32GetDatum((int32) reply->prompt_tokens);
}

/* ---- listing pins ---- */

/*
 * Return the engine's array of pins, whose content is not trusted; NULL if no engine serves, so
 * nothing is pinned.
 */
static JsonbContainer *
query_engine(void)
{
	text	   *list;
	Datum		json;
	Jsonb	   *jb;

	if (vllm_shared == NULL || pg_atomic_read_u32(&vllm_shared->state) != VLLM_READY)
		return NULL;
	list = engine_command("pins", NULL);
	json = DirectFunctionCall1(jsonb_in, CStringGetDatum(text_to_cstring(list)));
	jb = DatumGetJsonbP(json);
	return JB_ROOT_IS_ARRAY(jb) && !JB_ROOT_IS_SCALAR(jb) ? &jb->root : NULL;
}

/* Return a member of the i-th pin; NULL if it has none of this name and type. */
static JsonbValue *
member(JsonbContainer *list, uint32 i, const char *name, enum jbvType type)
{
	JsonbValue *pin = getIthJsonbValueFromContainer(list, i);
	JsonbValue *v;

	if (pin->type != jbvBinary || !JsonContainerIsObject(pin->val.binary.data))
		return NULL;
	v = getKeyJsonValueFromContainer(pin->val.binary.data, name, strlen(name), NULL);
	return v != NULL && v->type == type ? v : NULL;
}

static int64
number(JsonbContainer *list, uint32 i, const char *name)
{
	const JsonbValue *v = member(list, i, name, jbvNumeric);

	return v == NULL ? 0 : DatumGetInt64(DirectFunctionCall1(numeric_int8, NumericGetDatum(v->val.numeric)));
}

static Datum
string(JsonbContainer *list, uint32 i, const char *name, bool *isnull)
{
	const JsonbValue *v = member(list, i, name, jbvString);

	*isnull = v == NULL;
	return v == NULL ? (Datum) 0 :
		PointerGetDatum(cstring_to_text_with_len(v->val.string.val, v->val.string.len));
}

static void
emit(ReturnSetInfo *rsinfo, JsonbContainer *list, uint32 i, Oid role)
{
	char	   *name = GetUserNameFromId(role, true);
	const JsonbValue *salted = member(list, i, "salted", jbvBool);
	Datum		values[N_COLS];
	bool		nulls[N_COLS] = {0};

	if (rsinfo->setDesc->natts != N_COLS)
		elog(ERROR, "vllm.pin_list() has %d columns, expected %d", rsinfo->setDesc->natts, N_COLS);
	values[0] = Int64GetDatum(number(list, i, "id"));
	values[1] = string(list, i, "model", &nulls[1]);
	values[2] = CStringGetTextDatum(name != NULL ? name : psprintf("%u", role));
	values[3] = string(list, i, "isolation", &nulls[3]);
	values[4] = string(list, i, "lora", &nulls[4]);
	values[5] = BoolGetDatum(salted != NULL && salted->val.boolean);
	values[6] = Int32GetDatum((int32) number(list, i, "tokens"));
	values[7] = Int64GetDatum(number(list, i, "bytes"));
	values[8] = TimestampTzGetDatum(number(list, i, "since_us") - (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) *
									USECS_PER_DAY);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* vllm.pin_list(OUT id, model, role, isolation, lora, salted, tokens, bytes, pinned_at) */
Datum
llm_pin_list(PG_FUNCTION_ARGS)
{
	JsonbContainer *list = query_engine();
	uint32		n = list != NULL ? JsonContainerSize(list) : 0;

	InitMaterializedSRF(fcinfo, 0);
	for (uint32 i = 0; i < n; i++)
	{
		Oid			role = (Oid) number(list, i, "role");

		if (has_privs_of_role(GetUserId(), role) || has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS))
			emit((ReturnSetInfo *) fcinfo->resultinfo, list, i, role);
	}
	return (Datum) 0;
}

/* llm_unpin_prefix(id bigint): false if no pin has this number */
Datum
llm_unpin_id(PG_FUNCTION_ARGS)
{
	JsonbContainer *list;
	uint32		n;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	list = query_engine();
	n = list != NULL ? JsonContainerSize(list) : 0;
	for (uint32 i = 0; i < n; i++)
	{
		text	   *done;

		if (number(list, i, "id") != PG_GETARG_INT64(0))
			continue;
		if (!has_privs_of_role(GetUserId(), (Oid) number(list, i, "role")))
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("permission denied to unpin prefix " INT64_FORMAT, PG_GETARG_INT64(0)),
					 errhint("You need the privileges of the role that pinned the prefix.")));
		done = engine_command(psprintf("unpin " INT64_FORMAT, PG_GETARG_INT64(0)), NULL);
		PG_RETURN_BOOL(VARSIZE_ANY_EXHDR(done) == 1 && *VARDATA_ANY(done) == 't');
	}
	PG_RETURN_BOOL(false);
}
