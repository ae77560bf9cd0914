/*
 * job_new.h
 *	  A job that is being made or altered (job_functions.c, job_check.c).
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
	char	   *target_table;	/* as given, or NULL */
	List	   *arguments;		/* of the call: OwnArg, whose value is text */
	const char *backfill;
} NewJob;

/* Each is an ERROR if something is wrong; SPI is connected. */

void		job_bad_value(const char *parameter, const char *value, const char *hint);
/* A statement as the caller. */
void		job_execute(const char *sql);

/* value NULL: leave the argument out */
void		job_set_argument(NewJob *n, const char *name, const char *value);
/* One out of options: ERROR if the function has none of the name, or a parameter of the job is it. */
void		job_set_option(NewJob *n, const char *name, const char *value);
bool		job_has_argument(const NewJob *n, const char *name);
/* The arguments as SQL, and out of n->def.arguments. */
char	   *job_arguments_text(const NewJob *n);
void		job_read_arguments(NewJob *n);

void		job_check_source(Relation rel);
void		job_refuse_source(Relation rel, const char *why, const char *hint);
/* The columns of the primary key. */
void		job_set_key(NewJob *n);
/* `type`: of the job's values. */
void		job_check_target_column(NewJob *n, Oid type);
/* It is made if it does not exist. */
void		job_set_side_table(NewJob *n, Oid type);
void		job_check_chunking(const NewJob *n);
Datum		job_names_datum(List *names);

/*
 * Try the call and the chunking once with a short text: what does not suit the model or
 * the target is found here, not row by row.  A NOTICE if there is no engine to ask.
 */
void		job_try(const NewJob *n);
/* ERROR 54000: its texts are too long, or those of all jobs of whom it belongs to from now on. */
void		job_check_size(const JobDef *def, Oid owner, const char *arguments);

#endif
