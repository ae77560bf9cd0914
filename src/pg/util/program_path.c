/*
 * program_path.c
 *	  Paths of the extension's programs: beside its library, unless a setting gives another one.
 */
#include "postgres.h"

#include <dlfcn.h>

#include "miscadmin.h"

#include "pg/util/program_path.h"
#include "pg/vllm_pg.h"

char *
program_path(const char *name)
{
	Dl_info		info;
	char	   *slash;
	char	   *dir;

	if (dladdr((void *) program_path, &info) == 0 || info.dli_fname == NULL)
		return psprintf("%s/%s", pkglib_path, name);
	dir = pstrdup(info.dli_fname);
	slash = strrchr(dir, '/');
	if (slash != NULL)
		*slash = '\0';
	return psprintf("%s/%s", dir, name);
}

char *
remote_program_path(void)
{
	return vllm_remote_path[0] != '\0' ? pstrdup(vllm_remote_path) : program_path("vllm_pg_remote");
}
