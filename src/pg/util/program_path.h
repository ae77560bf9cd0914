/*
 * program_path.h
 *	  Where the extension's programs are.  Results are palloc'ed.
 */
#ifndef VLLM_PG_UTIL_PROGRAM_PATH_H
#define VLLM_PG_UTIL_PROGRAM_PATH_H

#include "postgres.h"

/* A file beside this library; palloc'ed */
char	   *program_path(const char *name);
/* vllm.remote_path, or vllm_pg_remote beside this library */
char	   *remote_program_path(void);

#endif
