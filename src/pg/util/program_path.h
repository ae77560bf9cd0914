/*
 * program_path.h
 *	  Paths of the extension's programs.  Results are palloc'ed.
 */
#ifndef VLLM_PG_UTIL_PROGRAM_PATH_H
#define VLLM_PG_UTIL_PROGRAM_PATH_H

#include "postgres.h"

/* Return the path of a file beside this library. */
char	   *program_path(const char *name);
/* Return vllm.remote_path, or vllm_pg_remote beside this library. */
char	   *remote_program_path(void);

#endif
