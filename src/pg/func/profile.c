/*
 * profile.c
 *	  llm_start_profile(), llm_stop_profile(): the engine's steps and requests as a Chrome trace.
 *
 * The functions require EXECUTE; writing a file requires the same rights as COPY.
 *
 * Tests: tests/sql/33_observe.sql, tests/t/095_observability.pl.
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "catalog/pg_authid.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/acl.h"
#include "utils/builtins.h"

#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_start_profile);
PG_FUNCTION_INFO_V1(llm_stop_profile);

/* Return an argument that must not be negative; 0 for NULL. */
static int
count_argument(FunctionCallInfo fcinfo, int i, const char *name)
{
	int			n = PG_ARGISNULL(i) ? 0 : PG_GETARG_INT32(i);

	if (n < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must not be negative", name),
				 errdetail("parameter=%s, value=%d", name, n)));
	return n;
}

/* llm_start_profile(delay_steps int, max_steps int) */
Datum
llm_start_profile(PG_FUNCTION_ARGS)
{
	int			delay = count_argument(fcinfo, 0, "delay_steps");
	int			max = count_argument(fcinfo, 1, "max_steps");

	(void) engine_command(psprintf("profile-start %d %d", delay, max), NULL);
	PG_RETURN_VOID();
}

/* Check as for COPY TO, before the profile is fetched, because that is possible only once. */
static char *
check_file(text *filename)
{
	char	   *path = text_to_cstring(filename);

	if (!has_privs_of_role(GetUserId(), ROLE_PG_WRITE_SERVER_FILES))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser or have privileges of pg_write_server_files to write a profile to "
						"a file"),
				 errhint("llm_stop_profile() without a file name gives the profile as its value.")));
	canonicalize_path(path);
	if (!is_absolute_path(path))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("relative path not allowed for a profile's file"),
				 errdetail("parameter=filename, value=%s", path)));
	return path;
}

/* Replace the content of the file, which errors before this point have left unchanged. */
static void
write_file(FILE *file, const char *path, const text *json)
{
	char	   *s = text_to_cstring(json);
	char	   *utf8 = pg_server_to_any(s, strlen(s), PG_UTF8);

	/* a pipe or a terminal can't be truncated */
	if ((ftruncate(fileno(file), 0) != 0 && errno != EINVAL) || fwrite(utf8, strlen(utf8), 1, file) != 1 ||
		FreeFile(file) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", path)));
}

/* llm_stop_profile(filename text) */
Datum
llm_stop_profile(PG_FUNCTION_ARGS)
{
	char	   *path = PG_ARGISNULL(0) ? NULL : check_file(PG_GETARG_TEXT_PP(0));
	FILE	   *file = NULL;
	text	   *json;
	mode_t		mask;

	if (path != NULL)
	{
		mask = umask(S_IWGRP | S_IWOTH);
		file = AllocateFile(path, PG_BINARY_A);
		umask(mask);
		if (file == NULL)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not open file \"%s\" for writing: %m", path)));
	}
	json = engine_command("profile-stop", NULL);
	if (path == NULL)
		PG_RETURN_TEXT_P(json);
	write_file(file, path, json);
	PG_RETURN_NULL();
}
