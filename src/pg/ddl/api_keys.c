/*
 * api_keys.c
 *	  API keys of the HTTP server: llm_create_api_key, llm_revoke_api_key, vllm.http_login.
 *
 * A key stands for a role.  Only its SHA-256 is stored (vllm.api_key): a key has 256 random bits, so
 * a slow hash would not make it safer.  The creator of a key for a role must be able to SET ROLE to
 * it, so a key gives its holder no more rights than its creator has.
 *
 * The HTTP server hashes a request's key itself and asks vllm.http_login() for the role.  The key's
 * text never reaches the database server, whatever is logged there, and the HTTP server's role can't
 * read the table.  The index finds candidates by a part of the hash; the rest is compared in constant
 * time.
 *
 * Tests: tests/sql/31_keys.sql, tests/t/083_http.pl.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#include "pg/jobs/job.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_create_api_key);
PG_FUNCTION_INFO_V1(llm_revoke_api_key);
PG_FUNCTION_INFO_V1(llm_http_login);

#define KEY_PREFIX	"sk-"
#define KEY_BYTES	32			/* random bytes */
#define HASH_BYTES	32

static char *
key_name_arg(FunctionCallInfo fcinfo)
{
	char	   *name;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("the API key's name must not be null")));
	name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	if (name[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the API key's name must not be empty")));
	if (strlen(name) >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(ERRCODE_NAME_TOO_LONG),
				 errmsg("API key name \"%s\" is too long (maximum is %d bytes)", name, NAMEDATALEN - 1)));
	return name;
}

static void
require_may_become(Oid role)
{
	char	   *name = GetUserNameFromId(role, true);

	if (superuser() || (name != NULL && compat_may_become(GetUserId(), role)))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 name ? errmsg("must be able to SET ROLE \"%s\"", name) :
			 errmsg("must be superuser to change the API key of a role that was dropped")));
}

/*
 * Run a statement on the table with its owner's rights; return the number of rows.  SPI must be
 * connected.
 */
static uint64
table_execute(const char *sql, int n, Oid *types, Datum *values, const char *nulls, bool read_only)
{
	JobRole		role;

	job_role_internal(&role);
	if (SPI_execute_with_args(sql, n, types, values, nulls, read_only, 0) < 0)
		elog(ERROR, "could not use vllm.api_key");
	job_role_end(&role);
	return SPI_processed;
}

/* Find the role of a key and whether it is in force; return false if there is no such key. */
static bool
find_key(const char *name, Oid *role, bool *in_force)
{
	Oid			types[1] = {TEXTOID};
	Datum		v[1] = {CStringGetTextDatum(name)};
	bool		isnull;

	if (table_execute("SELECT role::oid, revoked IS NULL AND coalesce(expires > clock_timestamp(), true) "
					  "FROM vllm.api_key WHERE name = $1 FOR UPDATE", 1, types, v, NULL, false) == 0)
		return false;
	*role = DatumGetObjectId(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	*in_force = DatumGetBool(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2, &isnull));
	return true;
}

/* Return the text of a new key, in the caller's memory. */
static char *
make_key(void)
{
	unsigned char random[KEY_BYTES];
	char	   *key = palloc(strlen(KEY_PREFIX) + 2 * KEY_BYTES + 1);
	char	   *p = key + strlen(KEY_PREFIX);

	if (!pg_strong_random(random, sizeof(random)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a random API key")));
	strcpy(key, KEY_PREFIX);
	p += hex_encode((const char *) random, sizeof(random), p);
	*p = '\0';
	return key;
}

/*
 * Send a NOTICE if the HTTP server can't SET ROLE to the role, because its own role is not a member
 * of it.
 */
static void
notice_http_role(Oid role)
{
	Oid			http_role;

	if (vllm_http_role[0] == '\0')
		return;
	http_role = get_role_oid(vllm_http_role, true);
	if (OidIsValid(http_role) && !compat_may_become(http_role, role))
		ereport(NOTICE,
				(errmsg("the HTTP server's role \"%s\" can't become role \"%s\" yet", vllm_http_role,
						GetUserNameFromId(role, false)),
				 errhint("Use GRANT %s TO %s.", quote_identifier(GetUserNameFromId(role, false)),
						 quote_identifier(vllm_http_role))));
}

static void
already_exists(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_DUPLICATE_OBJECT),
			 errmsg("API key \"%s\" already exists", name),
			 errhint("Revoke it with llm_revoke_api_key() first.")));
}

/* llm_create_api_key(name text, role text, valid_until timestamptz) */
Datum
llm_create_api_key(PG_FUNCTION_ARGS)
{
	Oid			types[5] = {TEXTOID, BYTEAOID, OIDOID, OIDOID, TIMESTAMPTZOID};
	Datum		v[5];
	char		nulls[5] = {' ', ' ', ' ', ' ', ' '};
	char	   *name = key_name_arg(fcinfo);
	char	   *key = make_key();
	Oid			role = PG_ARGISNULL(1) ? GetUserId() : get_role_oid(text_to_cstring(PG_GETARG_TEXT_PP(1)),
																	false);
	Oid			old;
	bool		again,
				in_force;

	PreventCommandIfReadOnly("llm_create_api_key()");
	PreventCommandDuringRecovery("llm_create_api_key()");
	require_may_become(role);
	if (!PG_ARGISNULL(2) && PG_GETARG_TIMESTAMPTZ(2) <= GetCurrentTimestamp())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("valid_until must be in the future"),
				 errdetail("It is %s.", timestamptz_to_str(PG_GETARG_TIMESTAMPTZ(2)))));
	SPI_connect();
	again = find_key(name, &old, &in_force);
	if (again)
	{
		if (in_force)
			already_exists(name);
		require_may_become(old);
	}
	v[0] = CStringGetTextDatum(name);
	v[1] = DirectFunctionCall1(sha256_bytea, PointerGetDatum(cstring_to_text(key)));
	v[2] = ObjectIdGetDatum(role);
	v[3] = ObjectIdGetDatum(GetUserId());
	v[4] = PG_ARGISNULL(2) ? (Datum) 0 : PG_GETARG_DATUM(2);
	nulls[4] = PG_ARGISNULL(2) ? 'n' : ' ';
	/* an existing row is locked; if there was none, another session may have inserted one meanwhile */
	if (table_execute(again ? "UPDATE vllm.api_key SET hash = $2, role = $3, created = clock_timestamp(), "
					  "created_by = $4, expires = $5, revoked = NULL WHERE name = $1" :
					  "INSERT INTO vllm.api_key (name, hash, role, created, created_by, expires) "
					  "VALUES ($1, $2, $3, clock_timestamp(), $4, $5) ON CONFLICT (name) DO NOTHING",
					  5, types, v, nulls, false) != 1)
		already_exists(name);
	SPI_finish();
	notice_http_role(role);
	PG_RETURN_TEXT_P(cstring_to_text(key));
}

/* llm_revoke_api_key(name text): false if the key was not in force any more */
Datum
llm_revoke_api_key(PG_FUNCTION_ARGS)
{
	Oid			types[1] = {TEXTOID};
	Datum		v[1];
	char	   *name = key_name_arg(fcinfo);
	Oid			role;
	bool		in_force;

	PreventCommandIfReadOnly("llm_revoke_api_key()");
	PreventCommandDuringRecovery("llm_revoke_api_key()");
	SPI_connect();
	if (!find_key(name, &role, &in_force))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("API key \"%s\" does not exist", name),
				 errhint("The view llm_api_keys lists the keys of your roles.")));
	require_may_become(role);
	v[0] = CStringGetTextDatum(name);
	(void) table_execute("UPDATE vllm.api_key SET revoked = clock_timestamp() WHERE name = $1 AND revoked IS "
						 "NULL", 1, types, v, NULL, false);
	SPI_finish();
	PG_RETURN_BOOL(in_force);
}

/* Return true if the hashes are equal, in a time that does not depend on where they differ. */
static bool
hashes_equal(const char *a, const char *b)
{
	unsigned char differ = 0;

	for (int i = 0; i < HASH_BYTES; i++)
		differ |= (unsigned char) a[i] ^ (unsigned char) b[i];
	return differ == 0;
}

/*
 * Find the keys whose hash begins like this one, and their roles.  Each request does this, so the
 * plan is kept for the session.
 */
static void
find_candidates(Datum hash)
{
	static SPIPlanPtr plan = NULL;
	JobRole		role;

	job_role_internal(&role);
	if (plan == NULL)
	{
		Oid			types[1] = {BYTEAOID};
		SPIPlanPtr	made = SPI_prepare("SELECT k.hash, r.rolname::text FROM vllm.api_key k JOIN pg_roles r "
									   "ON r.oid = k.role WHERE substr(k.hash, 1, 8) = substr($1, 1, 8) AND "
									   "k.revoked IS NULL AND coalesce(k.expires > clock_timestamp(), true)",
									   1, types);

		if (made == NULL || SPI_keepplan(made) != 0)
			elog(ERROR, "could not use vllm.api_key");
		plan = made;
	}
	if (SPI_execute_plan(plan, &hash, NULL, true, 0) < 0)
		elog(ERROR, "could not use vllm.api_key");
	job_role_end(&role);
}

/* vllm.http_login(hash bytea): the role of the key with this SHA-256, or NULL */
Datum
llm_http_login(PG_FUNCTION_ARGS)
{
	bytea	   *hash;
	char	   *name = NULL;
	MemoryContext caller = CurrentMemoryContext;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	hash = PG_GETARG_BYTEA_PP(0);
	if (VARSIZE_ANY_EXHDR(hash) != HASH_BYTES)
		PG_RETURN_NULL();
	SPI_connect();
	find_candidates(PointerGetDatum(hash));
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool		isnull;
		bytea	   *stored = DatumGetByteaPP(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1,
														   &isnull));

		if (VARSIZE_ANY_EXHDR(stored) == HASH_BYTES && hashes_equal(VARDATA_ANY(stored), VARDATA_ANY(hash)))
			name = MemoryContextStrdup(caller, SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 2));
	}
	SPI_finish();
	if (name == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(name));
}
