/*
 * job.h
 *	  Jobs: columns and side tables that keep themselves up to date (docs/user/jobs.md).
 *
 * A job is a row of vllm.job.  Triggers on its source append the keys of changed rows
 * to vllm.job_queue (triggers.c, job_queue.c); a worker of the database
 * (src/pg/jobs/worker.c) takes them from there.
 *
 * THE QUEUE.  Writers only append, so they neither wait for the worker nor fail because
 * of it, whatever their isolation level.  A changed row is not appended when its key
 * waits already: that is safe because
 *	- whoever changes a source row holds its lock until the end of the transaction;
 *	- the worker removes a queue row only while it holds the source row's lock and
 *	  after it found the input to be still the one that it computed with;
 *	- an inserted row (which has no lock to meet at) is always appended.
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

/* What the names in an input stand for (job_uses.c). */
typedef struct JobUses
{
	bool		known;			/* false: a job of 0.9, of which nothing is recorded yet */
	List	   *names;			/* char *, sorted */
} JobUses;

/* A row of vllm.job; palloc'ed. */
typedef struct JobDef
{
	int32		id;
	char	   *name;
	char	   *kind;
	Oid			owner;			/* as whom it runs; 0: the source's owner has not agreed to it */
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
	char	   *reason;			/* of state failed, or NULL */
	JobUses		uses;
} JobDef;

/* "HH:MM-HH:MM" in minutes of the day; until may be before from.  False: it is not one. */
bool		job_schedule(const char *schedule, int *from, int *until);
/* Does the job's schedule let it begin with rows now? */
bool		job_is_time(const JobDef *def);

/* ---- job_catalog.c ---- */

/* A table or index of schema vllm; ERROR if the extension is not installed. */
Oid			job_relation(const char *name);
bool		job_installed(void);
/* NULL if there is none. */
JobDef	   *job_find(const char *name);
/* All of them, ordered by id. */
List	   *job_list(void);
/* Is there any? */
bool		job_any(void);
/* Bytes of inputs and arguments of all jobs on an owner's tables but this one, as far as committed. */
size_t		job_size_of_others(Oid owner, int32 id);
/* Those of a source, found by an index. */
List	   *job_list_of(Oid source);

/* Where the extension's functions are. */
char	   *job_extension_schema(void);

/* Run as somebody else, with a search_path of pg_catalog alone, settings of the
 * caller's untouched; an ERROR ends it, too. */
typedef struct JobRole
{
	Oid			user;
	int			sec_context;
	int			guc_level;
} JobRole;
void		job_role_end(const JobRole *r);
/* As a job's owner, whose code may run: in a restricted context. */
void		job_role_owner(JobRole *r, Oid owner);
/* The same, but with the caller's search_path, for a text of the caller's. */
void		job_role_owner_here(JobRole *r, Oid owner);
/* In JOB_SECURITY_CONTEXT: the job's owner, whoever the current user is. */
Oid			job_running_for(void);
/* step(arg) in a subtransaction: its error, in the caller's memory, or NULL.  A cancel goes on as an ERROR:
 * it is meant for the whole transaction. */
ErrorData  *job_attempt(void (*step) (void *arg), void *arg);
/* Of a copy of an error: what is longer than anybody reads goes. */
void		job_cut_error(ErrorData *e);
/* InvalidOid: there is no such relation. */
Oid			job_relation_owner(Oid relid);
/* ERROR if row-level security applies to the job's owner: hidden rows would be taken for deleted. */
void		job_refuse_rls(Oid relid, Oid owner);
/* The owner of the extension's tables, for statements of our own on them. */
void		job_role_internal(JobRole *r);

/* ---- job_ddl.c ---- */

/*
 * The job's triggers on its source or a partition, whose owner the caller has asked for
 * nothing: the trigger function is the extension's, and so is the right to use it.  Those
 * that are there are left alone.  A table that somebody else has locked is left alone, too:
 * a caller that needs the triggers locks it first.
 */
void		job_create_triggers(const JobDef *job, Oid relid);
/* Names (char *) of the triggers of relid that are the job's, by their function and its argument. */
List	   *job_trigger_names(const JobDef *job, Oid relid);

/*
 * The job goes with its model, whoever calls; false: there is none of that name, or it has got another model.
 */
bool		job_drop_of_model(const char *name, const char *model);

/*
 * A column of a job's source is about to be renamed: its jobs' inputs are read with the old
 * name, and written with the new one afterwards.  NULL: no job has to do with it.
 */

List	   *job_rename_begin(RenameStmt *statement);
void		job_rename_end(List *renames, RenameStmt *statement);
/*
 * Jobs whose sources have new owners stop: nothing of their text is read or run until the new owner resumes
 * them.
 */
void		job_follow_owners(void);

/* ---- job_queue.c ---- */

typedef struct JobQueue JobQueue;

JobQueue   *job_queue_open(int32 job);
/* always: even if the key waits already */
void		job_queue_add(JobQueue *q, char **key, int n_key, bool always);
/* A key as job_key_datum() makes it, always. */
void		job_queue_add_datum(JobQueue *q, Datum key, int64 hash);
/* The side table is to be looked through for rows that are gone; once, if that waits already. */
void		job_queue_add_truncate(JobQueue *q);
/* Has anything been appended? */
bool		job_queue_close(JobQueue *q);
/* A key as the queue has it. */
Datum		job_key_datum(char **key, int n_key);
/* ERROR if the text of such values depends on settings or names that may change. */
void		job_check_key_type(const char *column, Oid type);
/* Settings under which keys are written as text, until AtEOXact_GUC(level). */
int			job_key_format(void);

/* ---- job_expr.c ---- */

/*
 * Constants of an expression are read and written by functions of their types, which may run
 * code that the job's owner has made.  So all of these work as the owner, in a restricted
 * context, whoever calls: somebody who renames a column, say.
 */

/*
 * Look at an SQL expression over the columns of rel, with the caller's search_path: its text
 * in a form that means the same whatever the search_path (the row's alias is src), and the
 * names of its columns, and what it uses.
 */
char	   *job_expression(Relation rel, Oid owner, const char *text, List **columns, JobUses *uses);
/* One that we have made: whatever operators the caller's search_path finds. */
char	   *job_expression_made(Relation rel, Oid owner, const char *text, List **columns, JobUses *uses);
/*
 * A stored one as a tree, an ERROR if its types are not those that it used; and back under the names that
 * columns have then.
 */
Node	   *job_expression_read(Relation rel, Oid owner, const char *text, const JobUses *uses);
char	   *job_expression_write(Relation rel, Oid owner, Node *node);
/* The expressions that stand for a template and for a list of columns. */
char	   *job_template_expression(const char *template);
char	   *job_columns_expression(List *columns);

/* ---- job_uses.c ---- */

/* Of an expression; the owner here and below is the job's, in whose context (job_role_owner()) these run. */
JobUses		job_uses_of(Node *node, Oid owner);
JobUses		job_uses_copy(const JobUses *uses);
/* True also if one of them is not known. */
bool		job_uses_same(const JobUses *a, const JobUses *b);
/* ERROR if an analysed expression or Query uses what is neither known nor allowed. */
void		job_uses_check(const JobUses *uses, List *allowed, Node *node, Oid owner);
/*
 * ERROR if a type in the text is another one, or not trusted; before the text is analysed, with the
 * search_path of stored texts.
 */
void		job_uses_check_types(const JobUses *uses, const char *input, Oid owner);
/* The column of vllm.job. */
JobUses		job_uses_read(Datum array, bool isnull);
/* SPI is connected. */
void		job_uses_store(const JobDef *job);
/* The same, if nothing is stored yet. */
void		job_uses_record(const JobDef *job);
/*
 * Its owner, who may be a new one, has the job run: if it has failed because its input means something else,
 * or he has not agreed to it before, what the input means now is taken, with a NOTICE of what is new.
 */
void		job_uses_agree(JobDef *job, Oid owner);
/* A set of objects that are not built in, ObjectAddress *. */
List	   *job_object_add(List *objects, Oid classid, Oid oid);
Oid			job_object_owner(const ObjectAddress *a);
/* Those that an expression or Query names. */
List	   *job_objects_of(Node *node);

/* ---- job_trust.c: whose code a job may run ---- */

/* A superuser's, or the job's owner's? */
bool		job_trusts(Oid role, Oid owner);
/* ERROR (42804) if a column's type, or what it is made of, is somebody else's. */
void		job_check_column_type(Oid type, Oid owner);
/* The same of columns that each written row has values of: all, or the generated ones. */
void		job_check_written_types(Relation rel, bool all, Oid owner);
/*
 * ERROR (42501, 42804) if a function, operator, type or whatever else an analysed expression or Query uses
 * is somebody else's.
 */
void		job_trust_node(Node *node, Oid owner);
/*
 * The same of the types in a text that is not analysed yet: to analyse it makes values of these.  Of the
 * columns that it names, too, if rel is not NULL.
 */
void		job_trust_names(Relation rel, Node *raw, Oid owner);
/* Is this an error of one of these? */
bool		job_trust_refused(const ErrorData *e);
/* Can the value of a node be of any type?  That of a boolean test, say, is boolean. */
bool		job_is_value(Node *node);
/* ERROR (22023) if a call is of a built-in function whose arguments name tables or types. */
void		job_check_call(const FuncExpr *call);

/* ---- job_trust_run.c: whose code runs while a job's statements do ---- */

/* ERROR (42501) if the owner is a superuser, and another role has TRIGGER on a table that the job writes. */
void		job_check_trigger_rights(Oid relid, Oid owner);
/* ERROR (42501, 42804) if a utility statement within a job fires triggers that it must not fire. */
void		job_trust_utility(Node *statement);
/* ERROR (42501) if, within a job, a value of the type would run checks of another role. */
void		job_trust_type(Oid type);
/* The bit of a security context in which no function runs as somebody who does not trust its owner. */
#define JOB_SECURITY_CONTEXT	0x10000
void		job_trust_init(void);

/* ---- job_call.c ---- */

/* The call of a job's function, whose first argument is the row's input. */
typedef struct JobCall
{
	const EngineFunc *func;
	Oid			rettype;
	FmgrInfo	flinfo;
	FunctionCallInfo fcinfo;
	SqlRequest	request;		/* body: the head, head_len bytes, then an input */
	int			head_len;
} JobCall;

/*
 * Read the call and make its head as the current user, who must have the model's USAGE;
 * in a transaction; all memory is the current context's.
 */
JobCall    *job_call_make(const char *function, const char *arguments);
/*
 * Arguments as a job keeps them: a List of OwnArg whose values are text, and the call with an input, an SQL
 * expression.
 */
List	   *job_arguments_read(const char *arguments);
char	   *job_call_sql(const char *function, List *arguments, const char *input);
/* The statement for the chunks of an input, an SQL expression: seq, chunk, tok_start, tok_end. */
char	   *job_chunks_sql(const JobDef *def, const char *input);
/* The request for an input, valid until the next one; or its error. */
ErrorData  *job_call_request(JobCall *c, const char *input);

#endif
