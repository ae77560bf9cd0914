/*
 * job_new.h
 *	  A job that is being created or altered (job_functions.c, job_check.c).
 */
#ifndef VLLM_PG_JOBS_JOB_NEW_H
#define VLLM_PG_JOBS_JOB_NEW_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/rel.h"

#include "pg/jobs/job.h"

typedef struct NewJob
{
	JobDef		def;
	Relation	source;
	char	   *target_table;	/* as the caller gave it, or NULL */
	List	   *arguments;		/* arguments of the call: OwnArg with text values */
	const char *backfill;
} NewJob;

/* Each of these raises an ERROR if something is wrong; SPI must be connected. */

void		job_bad_value(const char *parameter, const char *value, const char *hint);
/* Execute a statement as the caller. */
void		job_execute(const char *sql);

/* value NULL: remove the argument */
void		job_set_argument(NewJob *n, const char *name, const char *value);
/*
 * Set an argument from the parameter options: ERROR if the function has none of that name, or if it
 * is a parameter of the job.
 */
void		job_set_option(NewJob *n, const char *name, const char *value);
bool		job_has_argument(const NewJob *n, const char *name);
/*
 * job_arguments_text(): return the arguments as SQL.  job_read_arguments(): parse them from
 * n->def.arguments.
 */
char	   *job_arguments_text(const NewJob *n);
void		job_read_arguments(NewJob *n);

void		job_check_source(Relation rel);
void		job_refuse_source(Relation rel, const char *why, const char *hint);
/* Set the key from the columns of the primary key. */
void		job_set_key(NewJob *n);
/* type: the type of the job's values */
void		job_check_target_column(NewJob *n, Oid type);
/* Set the side table; create it if it does not exist. */
void		job_set_side_table(NewJob *n, Oid type);
void		job_check_chunking(const NewJob *n);
Datum		job_names_datum(List *names);

/*
 * Try the call and the chunking once with a short text, so that settings that don't suit the model or
 * the target are found now and not for each row.  A NOTICE if there is no engine to ask.
 */
void		job_try(const NewJob *n);
/* ERROR 54000 if the job's texts are too long, or those of all jobs of its future owner together. */
void		job_check_size(const JobDef *def, Oid owner, const char *arguments);

#endif
