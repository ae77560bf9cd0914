/*
 * upgrade.c
 *	  llm_engine_upgrade(): replaces the engine without failing a request.
 *
 * The backend directs, the supervisor acts (src/pg/supervisor/standby_engine.c has the steps).  In
 * between, the backend loads into the new engine the models that are in service in the old one.  The
 * old engine returns its models' names, files and options, and each is sent to the new one as
 * llm_load_model() would do.  Then the backend puts to sleep, or pauses, what sleeps or is paused in
 * the old engine.  A wake-up is sent to both engines (sleep_wake.c), as requests may wait in either.
 * If the function ends early, by an error, a cancel or the end of the backend, the upgrade is
 * cancelled.
 *
 * Tests: tests/t/094_upgrade_engine.pl.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/catalog/engine_stats.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_engine_upgrade);

/* before_shmem_exit callback and PG_CATCH: have the supervisor undo the steps so far. */
static void
cancel_upgrade(int code, Datum arg)
{
	LWLockAcquire(vllm_shared->lock, LW_EXCLUSIVE);
	if (vllm_shared->upgrade == VUP_DONE || vllm_shared->upgrade == VUP_FAILED)
		vllm_shared->upgrade = VUP_NONE;
	else if (vllm_shared->upgrade != VUP_NONE)
		vllm_shared->upgrade = VUP_CANCELLED;
	LWLockRelease(vllm_shared->lock);
	vclient_select_side(-1);
	vllm_wake_supervisor();
}

static VllmUpgrade
upgrade_state(char *why, Size size)
{
	VllmUpgrade u;

	LWLockAcquire(vllm_shared->lock, LW_SHARED);
	u = vllm_shared->upgrade;
	strlcpy(why, u == VUP_FAILED ? vllm_shared->upgrade_error : "", size);
	LWLockRelease(vllm_shared->lock);
	return u;
}

/* Wait until the supervisor has reached `want`; ERROR if the upgrade fails. */
static void
wait_for(VllmUpgrade want)
{
	static uint32 wait_event = 0;
	char		why[sizeof(vllm_shared->upgrade_error)];

	for (;;)
	{
		VllmUpgrade u = upgrade_state(why, sizeof(why));

		if (u == want)
			break;
		/* NONE: the supervisor has been restarted */
		if (u == VUP_FAILED || u == VUP_NONE)
		{
			ConditionVariableCancelSleep();
			ereport(ERROR,
					(errcode(ERRCODE_CANNOT_CONNECT_NOW),
					 errmsg("could not upgrade the inference engine"),
					 why[0] ? errdetail("%s", why) : 0,
					 errhint("The previous engine continues to serve; see the server log.")));
		}
		(void) ConditionVariableTimedSleep(&vllm_shared->state_cv, 100,
										   compat_wait_event(&wait_event, "VllmUpgrade"));
	}
	ConditionVariableCancelSleep();
}

/* While two engines run, all models are in memory twice. */
static void
check_memory(void)
{
	WireStats  *stats = engine_stats_snapshot();
	int64		sum = 0;
	int64		limit = (int64) vllm_memory_limit * 1024 * 1024;

	for (uint32 i = 0; stats && i < stats->n_models; i++)
		if (stats->models[i].state == WM_READY && stats->models[i].shared_with < 0)
			sum += stats->models[i].memory_bytes;
	if (limit > 0 && sum > limit / 2)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("not enough memory for a second engine"),
				 errdetail("The loaded models take %lld MB, and twice that is more than vllm.memory_limit, "
						   "%d MB.", (long long) (sum >> 20), vllm_memory_limit),
				 errhint("Raise vllm.memory_limit during the upgrade, unload some models or put them to "
						 "sleep, or use llm_engine_restart().")));
}

static void
begin_upgrade(int drain_ms)
{
	static uint32 wait_event = 0;
	bool		busy = true;
	bool		mine = false;

	while (!mine)
	{
		LWLockAcquire(vllm_shared->lock, LW_EXCLUSIVE);
		busy = vllm_shared->upgrade != VUP_NONE && vllm_shared->upgrade != VUP_CANCELLED;
		/* the engine before the present one must have ended */
		mine = vllm_shared->upgrade == VUP_NONE && vllm_shared->retiring_pid == 0;
		if (mine)
		{
			vllm_shared->upgrade = VUP_WANTED;
			vllm_shared->upgrade_drain_ms = drain_ms;
		}
		LWLockRelease(vllm_shared->lock);
		if (mine)
			break;
		if (busy)
		{
			ConditionVariableCancelSleep();
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("an upgrade of the inference engine is already in progress")));
		}
		(void) ConditionVariableTimedSleep(&vllm_shared->state_cv, 100,
										   compat_wait_event(&wait_event, "VllmUpgrade"));
	}
	ConditionVariableCancelSleep();
	vllm_wake_supervisor();
}

/* ---- models ---- */

static void
put_back(WireOut *o, const WireField *f)
{
	if (f->type == WT_INT)
		wire_put_int(o, f->tag, f->i);
	else
		wire_put_str(o, f->tag, f->s, f->n);
}

/* The models are those of all databases; the caller of the upgrade need not know their paths. */
static void
hide_path(WireOut *o)
{
	if (!has_privs_of_role(GetUserId(), ROLE_PG_READ_SERVER_FILES))
		wire_put_int(o, WTAG_SECRET_PATHS, WIRE_SECRET_MODEL);
}

static void
load_context(void *arg)
{
	if (arg != NULL)
		errcontext("loading model \"%s\" into the new inference engine", (char *) arg);
}

/* Send the new engine a request to load one model; body has its fields. */
static void
load_one(const StringInfoData *body, char *name)
{
	ErrorContextCallback cb = {.previous = error_context_stack,.callback = load_context,.arg = name};
	CallFrame	f;
	ClientCall *call;

	error_context_stack = &cb;
	vcall_simple(WK_MODEL_LOAD, body, name, 0, CurrentMemoryContext, &f, &call);
	vcall_end(call);
	error_context_stack = cb.previous;
}

/* Send the new engine a command from the serving one. */
static void
pass_one(const StringInfoData *body, char *name)
{
	CallFrame	f;
	ClientCall *call;

	(void) name;
	vcall_simple(WK_CONTROL, body, NULL, 0, CurrentMemoryContext, &f, &call);
	vcall_end(call);
}

/*
 * The serving engine's reply to the command consists of the fields of several messages, each
 * beginning with DATABASE.  Send each message to the new engine.
 */
static void
hand_over(const char *command, int side, void (*pass) (const StringInfoData *body, char *name))
{
	StringInfoData body;
	WireOut		out;
	CallFrame	f;
	ClientCall *call;
	WireIn		in;
	WireField	field;
	char	   *name = NULL;

	initStringInfo(&body);
	out = vclient_out(&body);
	vclient_put_identity(&out);
	wire_put_str(&out, WTAG_COMMAND, command, strlen(command));
	vcall_simple(WK_CONTROL, &body, NULL, 0, CurrentMemoryContext, &f, &call);
	in.p = f.data;
	in.end = f.data + f.len;
	vclient_select_side(side);
	initStringInfo(&body);
	out = vclient_out(&body);
	while (wire_next(&in, &field) > 0)
	{
		if (field.tag == WTAG_DATABASE && body.len > 0)
		{
			hide_path(&out);
			pass(&body, name);
			resetStringInfo(&body);
			name = NULL;
		}
		if (field.tag == WTAG_MODEL)
			name = text_to_cstring(text_from_wire(field.s, field.n));
		if (field.type == WT_INT || field.type == WT_STR)
			put_back(&out, &field);
	}
	if (body.len > 0)
	{
		hide_path(&out);
		pass(&body, name);
	}
	vclient_select_side(-1);
	vcall_end(call);
}

/* llm_engine_upgrade(drain_timeout_ms int) */
Datum
llm_engine_upgrade(PG_FUNCTION_ARGS)
{
	int			drain_ms = PG_ARGISNULL(0) ? 60000 : PG_GETARG_INT32(0);

	if (drain_ms < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("drain_timeout_ms must not be negative, got %d", drain_ms)));
	vclient_require_engine();
	check_memory();
	begin_upgrade(drain_ms);
	PG_ENSURE_ERROR_CLEANUP(cancel_upgrade, (Datum) 0);
	{
		int			side;

		wait_for(VUP_READY);
		side = 1 - (int) pg_atomic_read_u32(&vllm_shared->side);
		hand_over("loaded-models", side, load_one);
		/* last, so that models that were put to sleep meanwhile sleep in the new engine, too */
		hand_over("sleep-state", side, pass_one);
		LWLockAcquire(vllm_shared->lock, LW_EXCLUSIVE);
		if (vllm_shared->upgrade == VUP_READY)
			vllm_shared->upgrade = VUP_SWITCH;
		LWLockRelease(vllm_shared->lock);
		vllm_wake_supervisor();
		wait_for(VUP_DONE);
	}
	PG_END_ENSURE_ERROR_CLEANUP(cancel_upgrade, (Datum) 0);
	cancel_upgrade(0, (Datum) 0);
	PG_RETURN_VOID();
}
