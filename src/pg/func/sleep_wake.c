/*
 * sleep_wake.c
 *	  llm_sleep, llm_wake_up, llm_is_sleeping, llm_pause, llm_resume, llm_is_paused.
 *
 * Each is a control command; src/server/models/sleep.c says what it means.  The functions require
 * EXECUTE, not ownership of the model.
 *
 * Tests: tests/t/093_sleep.pl.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "storage/condition_variable.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "pg/catalog/model_catalog.h"
#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/client/reply.h"
#include "pg/client/slots.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_sleep);
PG_FUNCTION_INFO_V1(llm_wake_up);
PG_FUNCTION_INFO_V1(llm_is_sleeping);
PG_FUNCTION_INFO_V1(llm_pause);
PG_FUNCTION_INFO_V1(llm_resume);
PG_FUNCTION_INFO_V1(llm_is_paused);

/* Return the engine's reply to a command about a model, or (NULL) about all of them. */
static char *
send_command(const char *command, const char *model)
{
	if (vllm_shared == NULL)
		vclient_require_engine();	/* raises the error that says why */
	return text_to_cstring(engine_command(command, model));
}

/* Return the side of the engine that was replaced and finishes its requests; -1 = there is none. */
static int
retiring_side(void)
{
	int			side;

	LWLockAcquire(vllm_shared->lock, LW_SHARED);
	side = vllm_shared->retiring_pid != 0 ? 1 - (int) pg_atomic_read_u32(&vllm_shared->side) : -1;
	LWLockRelease(vllm_shared->lock);
	return side;
}

/* Return the side that serves; if another engine is about to take over, wait for that. */
static int
serving_side(void)
{
	static uint32 wait_event = 0;

	for (;;)
	{
		bool		changing;
		int			side;

		LWLockAcquire(vllm_shared->lock, LW_SHARED);
		changing = vllm_shared->upgrade == VUP_SWITCH;
		side = (int) pg_atomic_read_u32(&vllm_shared->side);
		LWLockRelease(vllm_shared->lock);
		if (!changing)
		{
			ConditionVariableCancelSleep();
			return side;
		}
		(void) ConditionVariableTimedSleep(&vllm_shared->state_cv, 100,
										   compat_wait_event(&wait_event, "VllmUpgrade"));
	}
}

/*
 * Send a command to all engines that it concerns.  It also applies to the requests of an engine that
 * is being replaced (upgrade.c).  And if another engine has taken over during the command, which may
 * be long, the command is repeated: that engine has inherited the state from before.
 */
static void
send_to_all(const char *command, const char *model)
{
	MemoryContext cxt = CurrentMemoryContext;
	int			sent;
	int			side;

	vclient_require_engine();
	do
	{
		sent = serving_side();
		(void) send_command(command, model);
	} while (serving_side() != sent);
	if ((side = retiring_side()) < 0)
		return;
	vclient_select_side(side);
	PG_TRY();
	{
		(void) engine_command(command, model);
	}
	PG_CATCH();
	{
		int			code = geterrcode();

		vclient_select_side(-1);
		/* the old engine has ended meanwhile */
		if ((code != ERRCODE_CANNOT_CONNECT_NOW && code != ERRCODE_SYSTEM_ERROR) || retiring_side() == side)
			PG_RE_THROW();
		MemoryContextSwitchTo(cxt);
		FlushErrorState();
	}
	PG_END_TRY();
	vclient_select_side(-1);
}

static char *
text_arg(FunctionCallInfo fcinfo, int arg)
{
	return PG_ARGISNULL(arg) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(arg));
}

static void
sleep_now(int level, const char *mode, const char *model)
{
	if (level < 0 || level > 2)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("level must be 0, 1 or 2, got %d", level),
				 errhint("Level 0 pauses, 1 frees the KV cache and moves the weights to a file, 2 drops "
						 "both.")));
	if (mode == NULL || (strcmp(mode, "abort") != 0 && strcmp(mode, "wait") != 0 &&
						 strcmp(mode, "keep") != 0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 mode == NULL ? errmsg("mode must not be null") :
				 errmsg("mode must be abort, wait or keep, got \"%s\"", mode),
					 errhint("Requests fail (abort), are awaited (wait), or continue later (keep).")));
	send_to_all(psprintf("sleep %d %s", level, mode), model);
}

/* llm_sleep(level int, mode text, model text) */
Datum
llm_sleep(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("level must not be null")));
	sleep_now(PG_GETARG_INT32(0), text_arg(fcinfo, 1), text_arg(fcinfo, 2));
	PG_RETURN_VOID();
}

/* llm_pause(mode text, model text) */
Datum
llm_pause(PG_FUNCTION_ARGS)
{
	sleep_now(0, text_arg(fcinfo, 0), text_arg(fcinfo, 1));
	PG_RETURN_VOID();
}

/* Return the WIRE_SLEEP_* bit of a tag. */
static int
tag_bit(const char *tag)
{
	if (strcmp(tag, "weights") == 0)
		return WIRE_SLEEP_WEIGHTS;
	if (strcmp(tag, "kv_cache") == 0)
		return WIRE_SLEEP_KV;
	if (strcmp(tag, "scheduling") == 0)
		return WIRE_SLEEP_SCHEDULING;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown tag \"%s\"", tag),
			 errhint("Tags are weights, kv_cache and scheduling; without tags all three are restored.")));
}

/* llm_wake_up(tags text[], model text) */
Datum
llm_wake_up(PG_FUNCTION_ARGS)
{
	int			bits = PG_ARGISNULL(0) ? WIRE_SLEEP_ALL : 0;

	if (!PG_ARGISNULL(0))
	{
		Datum	   *tags;
		bool	   *nulls;
		int			n;

		deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), TEXTOID, -1, false, TYPALIGN_INT, &tags, &nulls, &n);
		for (int i = 0; i < n; i++)
			bits |= tag_bit(nulls[i] ? "" : TextDatumGetCString(tags[i]));
		if (n == 0)
			bits = WIRE_SLEEP_ALL;
	}
	send_to_all(psprintf("wake %d", bits), text_arg(fcinfo, 1));
	PG_RETURN_VOID();
}

/* llm_resume(model text) */
Datum
llm_resume(PG_FUNCTION_ARGS)
{
	send_to_all(psprintf("wake %d", WIRE_SLEEP_SCHEDULING), text_arg(fcinfo, 0));
	PG_RETURN_VOID();
}

/* llm_is_sleeping(model text) */
Datum
llm_is_sleeping(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(send_command("is-sleeping", text_arg(fcinfo, 0))[0] == 't');
}

/* llm_is_paused(model text) */
Datum
llm_is_paused(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(send_command("is-paused", text_arg(fcinfo, 0))[0] == 't');
}
