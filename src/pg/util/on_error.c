/*
 * on_error.c
 *	  NULL instead of a request's error, if the caller has asked for that.
 *
 * The counters belong to the session's current statement, the one that the client has sent, whatever
 * runs within it, in a batch node or call by call.  They are reset by the first request of the next
 * statement.
 *
 * Tests: tests/sql/35_on_error.sql.
 */
#include "postgres.h"

#include "access/xact.h"
#include "mb/pg_wchar.h"
#include "utils/timestamp.h"

#include "pg/util/on_error.h"
#include "ipc/wire.h"

/* finished requests below which the share of failures is not checked */
#define LEAST_FINISHED	20

char	   *vllm_on_error = "error";
double		vllm_max_error_ratio = 1;

static struct
{
	TimestampTz statement;
	int64		finished,
				failed;
	int64		reported;		/* failures already reported */
	int			sqlstate;		/* of the last forgiven error */
	char		message[512];
}			figures;

OnError
on_error_option(const char *how)
{
	if (strcmp(how, "error") != 0 && strcmp(how, "null") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("on_error must be error or null, got \"%s\"", how)));
	return how[0] == 'n' ? ON_ERROR_NULL : ON_ERROR_RAISE;
}

/* Return true if NULL is asked for. */
static bool
is_null_wanted(OnError how)
{
	return how == ON_ERROR_NULL || (how == ON_ERROR_SETTING && vllm_on_error[0] == 'n');
}

/*
 * Return true if an error with the SQLSTATE of wrong options concerns the row's input: its detail says
 * "parameter=NAME" of a field that contains the input.
 */
static bool
is_of_input(const ErrorData *e)
{
	static const char *const inputs[] = {"prompt", "prompt_token_ids", "prompt_embeds", "messages", "input",
	"query", "document"};
	static const char key[] = "parameter=";
	const char *name;

	if (e->detail == NULL || strncmp(e->detail, key, strlen(key)) != 0)
		return false;
	name = e->detail + strlen(key);
	for (int i = 0; i < (int) lengthof(inputs); i++)
		if (strlen(inputs[i]) == strspn(name, "abcdefghijklmnopqrstuvwxyz_") &&
			strncmp(name, inputs[i], strlen(inputs[i])) == 0)
			return true;
	return false;
}

bool
on_error_forgives(OnError how, const ErrorData *e)
{
	if (!is_null_wanted(how))
		return false;
	if (e->sqlerrcode == ERRCODE_INVALID_PARAMETER_VALUE || e->sqlerrcode == ERRCODE_FEATURE_NOT_SUPPORTED)
		return is_of_input(e);
	/* a user who cancels wants the statement to end; a request that was too slow has the same SQLSTATE */
	if (e->sqlerrcode == ERRCODE_QUERY_CANCELED)
		return e->message != NULL && strcmp(e->message, WIRE_TIMED_OUT) == 0;
	switch (ERRCODE_TO_CATEGORY(e->sqlerrcode))
	{
		case ERRCODE_CONNECTION_EXCEPTION:
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_PROGRAM_LIMIT_EXCEEDED:
		case ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
		case ERRCODE_OPERATOR_INTERVENTION:
		case ERRCODE_SYSTEM_ERROR:
		case ERRCODE_INTERNAL_ERROR:
			return true;
		default:
			return false;
	}
}

bool
on_error_forgives_input(OnError how, const ErrorData *e)
{
	if (!is_null_wanted(how))
		return false;
	/*
	 * the input is invalid or too long; or parts of it were sent as requests, which may fail like any
	 * request
	 */
	switch (ERRCODE_TO_CATEGORY(e->sqlerrcode))
	{
		case ERRCODE_DATA_EXCEPTION:
		case ERRCODE_PROGRAM_LIMIT_EXCEEDED:
			return true;
		default:
			return on_error_forgives(how, e);
	}
}

void
on_error_count(const ErrorData *failed)
{
	TimestampTz statement = GetCurrentStatementStartTimestamp();
	const char *message = failed != NULL && failed->message != NULL ? failed->message : "";

	if (figures.statement != statement)
	{
		figures.statement = statement;
		figures.finished = figures.failed = figures.reported = 0;
	}
	figures.finished++;
	if (failed == NULL)
		return;
	figures.failed++;
	figures.sqlstate = failed->sqlerrcode;
	strlcpy(figures.message, message,
			pg_mbcliplen(message, (int) strlen(message), sizeof(figures.message) - 1) + 1);
}

void
on_error_check(void)
{
	if (figures.failed == 0 || figures.statement != GetCurrentStatementStartTimestamp() ||
		figures.finished < LEAST_FINISHED ||
		(double) figures.failed <= vllm_max_error_ratio * (double) figures.finished)
		return;
	ereport(ERROR,
			(errcode(figures.sqlstate),
			 errmsg("too many LLM requests have failed: " INT64_FORMAT " of " INT64_FORMAT, figures.failed,
					figures.finished),
			 errdetail("The last error was: %s", figures.message),
			 errhint("Setting vllm.max_error_ratio is %g.", vllm_max_error_ratio)));
}

void
on_error_report(void)
{
	int64		unreported = figures.failed - figures.reported;

	if (unreported == 0 || figures.statement != GetCurrentStatementStartTimestamp())
		return;
	figures.reported = figures.failed;
	ereport(WARNING,
			(errcode(figures.sqlstate),
			 errmsg_plural(INT64_FORMAT " of " INT64_FORMAT " LLM requests has failed and is NULL",
						   INT64_FORMAT " of " INT64_FORMAT " LLM requests have failed and are NULL",
						   (unsigned long) unreported, unreported, figures.finished),
			 errdetail("The last error was: %s", figures.message)));
}
