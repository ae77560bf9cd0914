/*
 * own_type.c
 *	  The types that the extension defines for arguments of its functions.
 *
 * An argument of type json does not accept jsonb, nor one of text[] a text, since PostgreSQL has at
 * most assignment casts between them, and an extension must not create casts between PostgreSQL's
 * types.  So the extension has types of its own, to which implicit casts lead.  For drivers,
 * vllm.texts is an array of text, and vllm.doubles one of float8, and they send lists accordingly.
 * All are base types: pg_upgrade re-creates each type by CREATE, and the definition of a domain can't
 * say that it is preferred.
 *
 * Tests: tests/sql/43_drivers.sql.
 */
#include "postgres.h"

#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "pg/util/own_type.h"

PG_FUNCTION_INFO_V1(llm_texts_in);
PG_FUNCTION_INFO_V1(llm_texts_of);
PG_FUNCTION_INFO_V1(llm_doubles_in);
PG_FUNCTION_INFO_V1(llm_doubles_of);
PG_FUNCTION_INFO_V1(llm_one_text);

/* Any user can name a type json; but where the extension is installed, schema vllm is the extension's. */
static bool
is_own(Oid type, const char *name)
{
	Oid			nsp = get_namespace_oid("vllm", true);

	return OidIsValid(nsp) && OidIsValid(type) &&
		type == GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum(name),
								ObjectIdGetDatum(nsp)) &&
		getExtensionOfObject(TypeRelationId, type) == get_extension_oid("vllm_pg", true);
}

bool
is_own_json(Oid type)
{
	return is_own(type, "json") || is_own(type, "schema");
}

bool
is_own_texts(Oid type)
{
	return is_own(type, "texts");
}

static Oid
first_argument(Oid function)
{
	Oid		   *types;
	int			n;

	(void) get_func_signature(function, &types, &n);
	return types[0];
}

bool
is_own_conversion(Oid function)
{
	return getExtensionOfObject(ProcedureRelationId, function) == get_extension_oid("vllm_pg", true) &&
		(is_own_texts(get_func_rettype(function)) ||
		 (get_func_nargs(function) == 1 && is_own_texts(first_argument(function))));
}

static ArrayType *
one_text(Datum t)
{
	return construct_array(&t, 1, TEXTOID, -1, false, TYPALIGN_INT);
}

/*
 * vllm.texts_in(cstring, oid, int): the text of an array, which begins with a brace or bounds, or
 * else a single text
 */
Datum
llm_texts_in(PG_FUNCTION_ARGS)
{
	char	   *s = PG_GETARG_CSTRING(0);
	const char *at = s + strspn(s, " \t\n\r\v\f");

	if (*at != '{' && *at != '[')
		PG_RETURN_ARRAYTYPE_P(one_text(CStringGetTextDatum(s)));
	/* array_in caches what it knows about text in this call's fn_extra */
	fcinfo->args[1].value = ObjectIdGetDatum(TEXTOID);
	return array_in(fcinfo);
}

/*
 * Make the array one of `element`, whose values have the same storage: functions look at the type in
 * the array's header.
 */
static Datum
array_of(Datum value, Oid element)
{
	AnyArrayType *array = DatumGetAnyArrayP(value);
	ArrayType  *copy;

	if (AARR_ELEMTYPE(array) == element)
		return value;
	copy = DatumGetArrayTypePCopy(value);
	copy->elemtype = element;
	return PointerGetDatum(copy);
}

/* vllm.texts_of(text[]), vllm.texts_of(varchar[]), vllm.array_of(vllm.texts) */
Datum
llm_texts_of(PG_FUNCTION_ARGS)
{
	PG_RETURN_DATUM(array_of(PG_GETARG_DATUM(0), TEXTOID));
}

/* vllm.doubles_in(cstring, oid, int): the elements are float8, whatever type the caller gives */
Datum
llm_doubles_in(PG_FUNCTION_ARGS)
{
	fcinfo->args[1].value = ObjectIdGetDatum(FLOAT8OID);
	return array_in(fcinfo);
}

/* vllm.doubles_of(float8[]) */
Datum
llm_doubles_of(PG_FUNCTION_ARGS)
{
	PG_RETURN_DATUM(array_of(PG_GETARG_DATUM(0), FLOAT8OID));
}

/* vllm.texts_of(text), vllm.texts_of(varchar): an array of one text */
Datum
llm_one_text(PG_FUNCTION_ARGS)
{
	PG_RETURN_ARRAYTYPE_P(one_text(PG_GETARG_DATUM(0)));
}
