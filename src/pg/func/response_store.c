/*
 * response_store.c
 *	  Stored responses: vllm.response, for previous_response_id and /v1/responses/ID.
 *
 * A row has the response and all items up to it, so the next response needs no other row.  Rows
 * belong to the roles that made them (row-level security).  The store is an ordinary table, so it is
 * transactional.
 *
 * A role that may delete from a table may lock all of it, and then no other role could store a
 * response.  So roles only have the privileges to insert and to update columns, and
 * llm_forget_responses() deletes for them.
 *
 * Tests: tests/sql/30_bodies.sql.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#include "pg/call/api_args.h"
#include "pg/util/encoding.h"
#include "pg/jobs/job.h"

PG_FUNCTION_INFO_V1(llm_forget_responses);

#define RESPONSES	"/v1/responses"

/*
 * Needed for roles that may see the rows of others.  The caller's search_path decides which operators
 * are found, so they have their schema, and the operands have types of pg_catalog: an operator
 * regrole = regrole might belong to any role.
 */
#define OWN \
	"owner::pg_catalog.oid OPERATOR(pg_catalog.=) " \
	"pg_catalog.quote_ident(current_user)::pg_catalog.regrole::pg_catalog.oid AND " \
	"id OPERATOR(pg_catalog.=) "

/*
 * Return the text in the only row and column of a query about `arg`, in the caller's memory; NULL if
 * there is no row.
 */
static char *
look_up(const char *sql, const char *arg)
{
	Oid			types[1] = {TEXTOID};
	Datum		values[1] = {CStringGetTextDatum(arg)};
	MemoryContext cxt = CurrentMemoryContext;
	char	   *found = NULL;

	SPI_connect();
	if (SPI_execute_with_args(sql, 1, types, values, NULL, false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not read vllm.response");
	if (SPI_processed == 1)
	{
		char	   *s = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);

		found = s ? MemoryContextStrdup(cxt, s) : NULL;
	}
	SPI_finish();
	return found;
}

char *
api_store_find(const char *path, const char *previous_id)
{
	const char *id = path + strlen(RESPONSES);

	if (strncmp(path, RESPONSES, strlen(RESPONSES)) != 0)
		return NULL;
	if (*id == '\0')
		return previous_id ? look_up("SELECT items::pg_catalog.text FROM vllm.response WHERE " OWN "$1",
									 previous_id) : NULL;
	if (*id != '/')
		return NULL;
	return look_up("SELECT response::pg_catalog.text FROM vllm.response WHERE "
				   OWN "pg_catalog.split_part($1, '/', 4)", path);
}

/* Find the path and the body in a request's fields; return true for /v1/responses. */
static bool
is_response(const char *fields, size_t n, text **body)
{
	WireIn		in = {.p = fields,.end = fields + n};
	WireField	f;
	bool		found = false;

	*body = NULL;
	while (wire_next(&in, &f) > 0)
	{
		if (f.tag == WTAG_API_PATH)
		{
			/* without trailing slashes */
			while (f.n > 1 && f.s[f.n - 1] == '/')
				f.n--;
			found = f.n == strlen(RESPONSES) && strncmp(f.s, RESPONSES, f.n) == 0;
		}
		else if (f.tag == WTAG_API_BODY)
			*body = text_from_wire(f.s, f.n);
	}
	return found && *body != NULL;
}

/*
 * Return true if the response is to be stored.  With "store": false storing must not even be tried,
 * as the transaction may be read-only.
 */
static bool
is_kept(text *body)
{
	LOCAL_FCINFO(call, 2);
	Datum		store;

	InitFunctionCallInfoData(*call, NULL, 2, InvalidOid, NULL, NULL);
	call->args[0].value = PointerGetDatum(body);
	call->args[0].isnull = false;
	call->args[1].value = CStringGetTextDatum("store");
	call->args[1].isnull = false;
	store = json_object_field_text(call);
	return call->isnull || strcmp(TextDatumGetCString(store), "false") != 0;
}

void
api_store_response(const char *request, size_t request_len, text *response)
{
	Oid			types[2] = {JSONOID, JSONOID};
	Datum		values[2];
	text	   *body;

	if (!is_response(request, request_len, &body) || !is_kept(body))
		return;
	values[0] = PointerGetDatum(body);
	values[1] = PointerGetDatum(response);
	SPI_connect();
	if (SPI_execute_with_args("SELECT vllm.store_response($1, $2)", 2, types, values, NULL, false,
							  1) != SPI_OK_SELECT)
		elog(ERROR, "could not write vllm.response");
	SPI_finish();
}

/*
 * llm_forget_responses(before, id): deletes the caller's responses and returns their number.  NULL:
 * any
 */
Datum
llm_forget_responses(PG_FUNCTION_ARGS)
{
	Oid			types[3] = {OIDOID, TIMESTAMPTZOID, TEXTOID};
	Datum		v[3] = {ObjectIdGetDatum(GetUserId()), PG_GETARG_DATUM(0), PG_GETARG_DATUM(1)};
	char		nulls[3] = {' ', PG_ARGISNULL(0) ? 'n' : ' ', PG_ARGISNULL(1) ? 'n' : ' '};
	JobRole		role;
	uint64		n;

	PreventCommandDuringRecovery("llm_forget_responses()");
	PreventCommandIfReadOnly("llm_forget_responses()");
	SPI_connect();
	job_role_internal(&role);
	if (SPI_execute_with_args("DELETE FROM vllm.response WHERE owner::pg_catalog.oid OPERATOR(pg_catalog.=) "
							  "$1 AND ($2 IS NULL OR created OPERATOR(pg_catalog.<) $2) AND ($3 IS NULL OR "
							  "id OPERATOR(pg_catalog.=) $3)", 3, types, v, nulls, false, 0) != SPI_OK_DELETE)
		elog(ERROR, "could not delete from vllm.response");
	n = SPI_processed;
	job_role_end(&role);
	SPI_finish();
	PG_RETURN_INT64((int64) n);
}
