/*
 * job.h
 *	  Jobs: columns and side tables that are kept up to date automatically (docs/user/jobs.md).
 *
 * A job is a row of vllm.job.  Triggers on its source append the keys of changed rows to
 * vllm.job_queue (triggers.c, job_queue.c); the database's worker (src/pg/jobs/worker.c) takes them
 * from there.
 *
 * THE QUEUE.  Writers only append, so they neither wait for the worker nor fail because of it, at any
 * isolation level.  A changed row is not appended if its key is in the queue already.  That is safe
 * because
 *	- the transaction that changes a source row holds its lock until the transaction ends;
 *	- the worker removes a queue row only while it holds the source row's lock, and
 *	  after it has found that the input is still the one that it computed with;
 *	- an inserted row (which has no lock for the two to meet at) is always appended.
 */
#ifndef VLLM_PG_JOBS_JOB_H
#define VLLM_PG_JOBS_JOB_H

#include "postgres.h"

#include "catalog/objectaddress.h"
#include "nodes/parsenodes.h"
#include "nodes/pg_list.h"
#include "utils/rel.h"

#include "pg/call/engine_func.h"

/* columns of vllm.job, in order */
enum
{
	JOB_ID = 1, JOB_NAME, JOB_KIND, JOB_OWNER, JOB_SOURCE, JOB_KEY_COLUMNS, JOB_INPUT_COLUMNS,
	JOB_INPUT, JOB_TARGET_COLUMN, JOB_TARGET_TABLE, JOB_MODEL, JOB_FUNCTION, JOB_ARGUMENTS,
	JOB_CHUNKING, JOB_CHUNK_SIZE, JOB_CHUNK_OVERLAP, JOB_MAX_ATTEMPTS, JOB_PRIORITY, JOB_BATCH_SIZE,
	JOB_SCHEDULE, JOB_STATE, JOB_REASON,
	JOB_CREATED, JOB_USES, JOB_COLS = JOB_USES
};

/* The objects that the names in an input refer to (job_uses.c). */
typedef struct JobUses
{
	bool		known;			/* false: a job of version 0.9, for which they are not recorded yet */
	List	   *names;			/* char *, sorted */
} JobUses;

/* A row of vllm.job; palloc'ed. */
typedef struct JobDef
{
	int32		id;
	char	   *name;
	char	   *kind;
	Oid			owner;			/* the role it runs as; 0: the source's new owner has not agreed to it
								 * yet */
	Oid			source;
	List	   *key;			/* column names, char * */
	List	   *inputs;			/* column names, char * */
	char	   *input;			/* SQL expression over src */
	char	   *target_column;	/* or NULL */
	Oid			target_table;	/* or InvalidOid */
	char	   *model;
	char	   *function;
	char	   *arguments;
	char	   *chunking;
	int			chunk_size;		/* 0 = not given */
	int			chunk_overlap;	/* -1 = not given */
	int			max_attempts;
	int			priority;
	int			batch_size;		/* 0 = vllm.job_batch_size */
	char	   *schedule;		/* or NULL */
	char	   *state;
	char	   *reason;			/* if state is failed, else NULL */
	JobUses		uses;
} JobDef;

/* Parse "HH:MM-HH:MM" to minutes of the day; until may be before from.  Return false if it is invalid. */
bool		job_schedule(const char *schedule, int *from, int *until);
/* Return true if the job's schedule allows taking rows now. */
bool		job_is_time(const JobDef *def);

/* ---- job_catalog.c ---- */

/* Return the OID of a table or index of schema vllm; ERROR if the extension is not installed. */
Oid			job_relation(const char *name);
bool		job_installed(void);
/* Return NULL if there is none. */
JobDef	   *job_find(const char *name);
/* Return all jobs, ordered by id. */
List	   *job_list(void);
/* Return true if there is any job. */
bool		job_any(void);
/*
 * Return the bytes of inputs and arguments of all committed jobs on an owner's tables, except this
 * one.
 */
size_t		job_size_of_others(Oid owner, int32 id);
/* Return the jobs of a source, found by an index. */
List	   *job_list_of(Oid source);

/* Return the schema of the extension's functions. */
char	   *job_extension_schema(void);

/*
 * A switch to another role, with a search_path of pg_catalog only; the caller's other settings stay.
 * An ERROR ends it, too.
 */
typedef struct JobRole
{
	Oid			user;
	int			sec_context;
	int			guc_level;
} JobRole;
void		job_role_end(const JobRole *r);
/* Switch to a job's owner, in a restricted context in which the owner's code may run. */
void		job_role_owner(JobRole *r, Oid owner);
/* Like job_role_owner(), but with the caller's search_path, for a text that the caller gave. */
void		job_role_owner_here(JobRole *r, Oid owner);
/* Return the owner of the job that runs, whatever the current user is.  Valid in JOB_SECURITY_CONTEXT. */
Oid			job_running_for(void);
/*
 * Run step(arg) in a subtransaction; return its error, in the caller's memory, or NULL.  A cancel is
 * thrown as an ERROR, as it is for the whole transaction.
 */
ErrorData  *job_attempt(void (*step) (void *arg), void *arg);
/* Truncate the long texts of a copied error. */
void		job_cut_error(ErrorData *e);
/* Return InvalidOid if there is no such relation. */
Oid			job_relation_owner(Oid relid);
/*
 * ERROR if row-level security applies to the job's owner: the worker would take hidden rows for
 * deleted ones.
 */
void		job_refuse_rls(Oid relid, Oid owner);
/* Switch to the owner of the extension's tables, for our own statements on them. */
void		job_role_internal(JobRole *r);

/* ---- job_ddl.c ---- */

/*
 * Create the job's triggers on its source or on a partition.  The caller's privileges on the table
 * are not checked: the trigger function belongs to the extension, and so does the right to use it.
 * Existing triggers are left unchanged.  A table that another transaction has locked is skipped; a
 * caller that needs the triggers locks it first.
 */
void		job_create_triggers(const JobDef *job, Oid relid);
/* Return the names (char *) of the job's triggers on relid, found by their function and its argument. */
List	   *job_trigger_names(const JobDef *job, Oid relid);

/*
 * Drop the job because its model is dropped, whoever the caller is.  Return false if there is no job
 * of that name, or if it has another model now.
 */
bool		job_drop_of_model(const char *name, const char *model);

/*
 * A column of a job's source is about to be renamed.  job_rename_begin() reads the inputs of its jobs
 * with the old name, job_rename_end() writes them with the new one.  job_rename_begin() returns NULL
 * if no job is affected.
 */

List	   *job_rename_begin(RenameStmt *statement);
void		job_rename_end(List *renames, RenameStmt *statement);
/*
 * Stop jobs whose sources have new owners: their texts are neither read nor run until the new owner
 * resumes them.
 */
void		job_follow_owners(void);

/* ---- job_queue.c ---- */

typedef struct JobQueue JobQueue;

JobQueue   *job_queue_open(int32 job);
/* always: append even if the key is in the queue */
void		job_queue_add(JobQueue *q, char **key, int n_key, bool always);
/* Always append a key that job_key_datum() has made. */
void		job_queue_add_datum(JobQueue *q, Datum key, int64 hash);
/* Queue a sweep of the side table for chunks of deleted rows, unless one is in the queue. */
void		job_queue_add_truncate(JobQueue *q);
/* Return true if anything was appended. */
bool		job_queue_close(JobQueue *q);
/* Return a key in the form that the queue stores. */
Datum		job_key_datum(char **key, int n_key);
/* ERROR if the text form of the type's values depends on settings or on names that may change. */
void		job_check_key_type(const char *column, Oid type);
/* Set the format in which keys are written as text, until AtEOXact_GUC(level). */
int			job_key_format(void);

/* ---- job_expr.c ---- */

/*
 * Input and output functions of types read and write the constants of an expression; they may run
 * code that the job's owner has created.  So all functions here switch to the owner, in a restricted
 * context, whoever calls them, for example a user who renames a column.
 */

/*
 * Analyse an SQL expression over the columns of rel, with the caller's search_path.  Return its text
 * in a form whose meaning doesn't depend on the search_path (the row's alias is src), the names of
 * its columns, and the objects it uses.
 */
char	   *job_expression(Relation rel, Oid owner, const char *text, List **columns, JobUses *uses);
/*
 * The same for an expression that we have made, which must not find operators of the caller's
 * search_path.
 */
char	   *job_expression_built(Relation rel, Oid owner, const char *text, List **columns, JobUses *uses);
/*
 * Parse a stored expression; ERROR if its types are not those recorded in uses.
 * job_expression_write() writes the tree back with the columns' current names.
 */
Node	   *job_expression_read(Relation rel, Oid owner, const char *text, const JobUses *uses);
char	   *job_expression_write(Relation rel, Oid owner, Node *node);
/* Return the expression for a template, and for a list of columns. */
char	   *job_template_expression(const char *template);
char	   *job_columns_expression(List *columns);

/* ---- job_uses.c ---- */

/*
 * Return the objects that an expression uses.  Here and below, owner is the job's owner, and the
 * caller has switched to it (job_role_owner()).
 */
JobUses		job_uses_of(Node *node, Oid owner);
JobUses		job_uses_copy(const JobUses *uses);
/* Also returns true if the objects of one of them are not known. */
bool		job_uses_same(const JobUses *a, const JobUses *b);
/* ERROR if an analysed expression or Query uses an object that is neither in uses nor in allowed. */
void		job_uses_check(const JobUses *uses, List *allowed, Node *node, Oid owner);
/*
 * ERROR if a type in the text is not in uses, or not trusted.  Called before the text is analysed,
 * with the search_path of stored texts.
 */
void		job_uses_check_types(const JobUses *uses, const char *input, Oid owner);
/* Read the column of vllm.job. */
JobUses		job_uses_read(Datum array, bool isnull);
/* Write the column; SPI must be connected. */
void		job_uses_store(const JobDef *job);
/* Like job_uses_store(), if nothing is stored yet. */
void		job_uses_record(const JobDef *job);
/*
 * The job's owner, who may be a new one, resumes the job.  If it failed because its input means
 * something else now, or this owner has not agreed to it before, record the present meaning, with a
 * NOTICE about new objects.
 */
void		job_uses_agree(JobDef *job, Oid owner);
/* Add to a set of objects that are not built in, ObjectAddress *. */
List	   *job_object_add(List *objects, Oid classid, Oid oid);
Oid			job_object_owner(const ObjectAddress *a);
/* Return the objects that an expression or Query names. */
List	   *job_objects_of(Node *node);

/* ---- job_trust.c: whose code a job may run ---- */

/* Return true if the role is a superuser or the job's owner. */
bool		job_trusts(Oid role, Oid owner);
/* ERROR (42804) if a column's type, or a type that it is made of, belongs to another role. */
void		job_check_column_type(Oid type, Oid owner);
/*
 * Check the types of columns whose values each write computes: of all columns, or only of generated
 * ones.
 */
void		job_check_written_types(Relation rel, bool all, Oid owner);
/*
 * ERROR (42501, 42804) if an analysed expression or Query uses a function, operator, type or other
 * object that belongs to another role.
 */
void		job_trust_node(Node *node, Oid owner);
/*
 * Check the types in a text that is not analysed yet, as the analysis makes values of them.  If rel
 * is not NULL, check also the types of columns that the text names.
 */
void		job_trust_names(Relation rel, Node *raw, Oid owner);
/* Return true if the error is from one of these checks. */
bool		job_trust_refused(const ErrorData *e);
/* Return true if the node's value can be of any type.  A boolean test, for example, is always boolean. */
bool		job_is_value(Node *node);
/* ERROR (22023) for a call of a built-in function whose arguments name tables or types. */
void		job_check_call(const FuncExpr *call);

/* ---- job_trust_run.c: whose code runs while a job's statements do ---- */

/*
 * ERROR (42501) if the owner is a superuser and another role has the TRIGGER privilege on a table
 * that the job writes.
 */
void		job_check_trigger_rights(Oid relid, Oid owner);
/* ERROR (42501, 42804) if a utility statement within a job fires triggers that it must not fire. */
void		job_trust_utility(Node *statement);
/* ERROR (42501) if, within a job, a value of the type would run checks that belong to another role. */
void		job_trust_type(Oid type);
/*
 * Bit of a security context in which a function runs only if the current user trusts the function's
 * owner.
 */
#define JOB_SECURITY_CONTEXT	0x10000
void		job_trust_init(void);

/* ---- job_call.c ---- */

/* A call of a job's function; its first argument is the row's input. */
typedef struct JobCall
{
	const EngineFunc *func;
	Oid			rettype;
	FmgrInfo	flinfo;
	FunctionCallInfo fcinfo;
	SqlRequest	request;		/* body: the head, head_len bytes, then the current input */
	int			head_len;
} JobCall;

/*
 * Parse the call and make its request's head as the current user, who must have the model's USAGE
 * privilege.  Needs a transaction; all memory is in the current context.
 */
JobCall    *job_call_make(const char *function, const char *arguments);
/*
 * job_arguments_read(): parse a job's stored arguments to a List of OwnArg with text values.
 * job_call_sql(): return the call with an SQL expression as its input.
 */
List	   *job_arguments_read(const char *arguments);
char	   *job_call_sql(const char *function, List *arguments, const char *input);
/*
 * Return the statement for the chunks of an input, an SQL expression; its columns are seq, chunk,
 * tok_start, tok_end.
 */
char	   *job_chunks_sql(const JobDef *def, const char *input);
/* Make the request for an input, valid until the next call; or return the input's error. */
ErrorData  *job_call_request(JobCall *c, const char *input);

#endif
