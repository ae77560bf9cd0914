/*
 * control.c
 *	  llm_cancel, llm_engine_restart, llm_reset_prefix_cache, llm_version, vllm.control, and the check
 *	  at the start of the install script.
 *
 * Tests: tests/sql/09_cancel.sql, tests/sql/12_restart.sql.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "storage/condition_variable.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "pg/catalog/model_catalog.h"
#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/client/reply.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_check_preload);
PG_FUNCTION_INFO_V1(llm_cancel);
PG_FUNCTION_INFO_V1(llm_engine_restart);
PG_FUNCTION_INFO_V1(llm_version);
PG_FUNCTION_INFO_V1(llm_control);
PG_FUNCTION_INFO_V1(llm_reset_prefix_cache);

Datum
llm_check_preload(PG_FUNCTION_ARGS)
{
	if (vllm_shared == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("vllm_pg must be loaded when the server starts"),
				 errhint("Add shared_preload_libraries = 'vllm_pg' to postgresql.conf and restart the "
						 "server.")));
	PG_RETURN_VOID();
}

/* The rule is that of pg_cancel_backend. */
static bool
may_cancel(Oid role)
{
	if (superuser_arg(role) && !superuser())
		return false;
	return has_privs_of_role(GetUserId(), role) ||
		has_privs_of_role(GetUserId(), ROLE_PG_SIGNAL_BACKEND);
}

/* llm_cancel(id bigint) */
Datum
llm_cancel(PG_FUNCTION_ARGS)
{
	VclientCancel result;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	if (vllm_shared == NULL)
		PG_RETURN_BOOL(false);
	result = vclient_cancel_request(PG_GETARG_INT64(0), may_cancel);
	if (result == VCANCEL_DENIED)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to cancel request " INT64_FORMAT, PG_GETARG_INT64(0)),
				 errhint("You need the privileges of the role that sent the request.")));
	PG_RETURN_BOOL(result == VCANCEL_DONE);
}

/* Ask the supervisor for a new engine; return the epoch of the one that has to end. */
static uint32
request_restart(void)
{
	uint32		epoch;

	LWLockAcquire(vllm_shared->lock, LW_EXCLUSIVE);
	epoch = pg_atomic_read_u32(&vllm_shared->epoch);
	vllm_shared->restart_requested = true;
	LWLockRelease(vllm_shared->lock);
	vllm_wake_supervisor();
	return epoch;
}

/* llm_engine_restart(): the EXECUTE privilege decides who may call it */
Datum
llm_engine_restart(PG_FUNCTION_ARGS)
{
	static uint32 wait_event = 0;
	uint32		old;
	TimestampTz give_up;

	if (vllm_shared == NULL)
		return llm_check_preload(fcinfo);
	vclient_require_switched_on();
	old = request_restart();
	give_up = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), vllm_engine_timeout);
	while (pg_atomic_read_u32(&vllm_shared->epoch) == old && GetCurrentTimestamp() < give_up)
		(void) ConditionVariableTimedSleep(&vllm_shared->state_cv, 100,
										   compat_wait_event(&wait_event, "VllmRestart"));
	ConditionVariableCancelSleep();
	/* waits until the engine serves; raises 57P03 with the reason if it doesn't */
	vclient_require_engine();
	PG_RETURN_VOID();
}

Datum
llm_version(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("vllm_pg %s (wire %d, engine %s)",
											  VLLM_PG_VERSION, WIRE_VERSION,
											  vllm_shared == NULL ? "not preloaded" :
											  vllm_state_name(pg_atomic_read_u32(&vllm_shared->state)))));
}

text *
engine_command(const char *command, const char *model)
{
	StringInfoData body;
	WireOut		out;
	CallFrame	f;
	ClientCall *call;
	Reply		r;
	text	   *result;

	initStringInfo(&body);
	out = vclient_out(&body);
	if (model != NULL)
	{
		ModelRow   *m = catalog_model(model);

		catalog_require_local(m, psprintf("command \"%s\"", pnstrdup(command, strcspn(command, " "))));
		catalog_put(m, &out);
	}
	else
	{
		vclient_put_identity(&out);
		if (!has_privs_of_role(GetUserId(), ROLE_PG_READ_SERVER_FILES))
			wire_put_int(&out, WTAG_SECRET_PATHS, WIRE_SECRET_MODEL | WIRE_SECRET_LORA);
	}
	wire_put_text(&out, WTAG_COMMAND, command, strlen(command));
	vcall_simple(WK_CONTROL, &body, NULL, 0, CurrentMemoryContext, &f, &call);
	reply_read(&r, &f);
	result = reply_text(&r);
	vcall_end(call);
	return result;
}

/* vllm.control(command text) */
Datum
llm_control(PG_FUNCTION_ARGS)
{
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to send commands to the engine")));
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(engine_command(text_to_cstring(PG_GETARG_TEXT_PP(0)), NULL));
}

/* llm_reset_prefix_cache(): the EXECUTE privilege decides who may call it */
Datum
llm_reset_prefix_cache(PG_FUNCTION_ARGS)
{
	if (vllm_shared == NULL)
		return llm_check_preload(fcinfo);
	engine_command("reset-prefix-cache", NULL);
	PG_RETURN_BOOL(true);
}
