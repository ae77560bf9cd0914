/*
 * compat.h
 *	  Differences between PostgreSQL 15 and 18; every #if on the version is here.
 */
#ifndef VLLM_PG_COMPAT_H
#define VLLM_PG_COMPAT_H

#include "postgres.h"

#include "miscadmin.h"
#include "nodes/primnodes.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/jsonfuncs.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/wait_event.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#include "storage/waiteventset.h"
#endif

#if PG_VERSION_NUM < 150000
#error "vllm_pg needs PostgreSQL 15 or later"
#endif

#ifdef EXEC_BACKEND
#error "vllm_pg needs a PostgreSQL whose backends are forked: the arena is inherited"
#endif

#ifndef __linux__
#error "vllm_pg runs on Linux (memfd, futex, PDEATHSIG)"
#endif

/* 17: PGPROCs are identified by ProcNumber */
#if PG_VERSION_NUM >= 170000
#define compat_my_procno()	((int) MyProcNumber)
#else
#define compat_my_procno()	((int) MyProc->pgprocno)
#endif

static inline Latch *
compat_proc_latch(int procno)
{
	return &ProcGlobal->allProcs[procno].procLatch;
}

/* 17: extensions can name wait events, for all processes */
static inline uint32
compat_wait_event(uint32 *cache, const char *name)
{
#if PG_VERSION_NUM >= 170000
	if (*cache == 0)
		*cache = WaitEventExtensionNew(name);
	return *cache;
#else
	(void) cache;
	(void) name;
	return PG_WAIT_EXTENSION;
#endif
}

/* 17: a wait event set belongs to a resource owner instead of a memory context */
static inline WaitEventSet *
compat_wait_event_set(int n)
{
#if PG_VERSION_NUM >= 170000
	return CreateWaitEventSet(NULL, n);
#else
	return CreateWaitEventSet(TopMemoryContext, n);
#endif
}

/* 18: pg_noreturn comes before the declaration */
#if PG_VERSION_NUM < 180000
#define pg_noreturn pg_attribute_noreturn()
#endif

/* 16: one function checks privileges on every kind of object */
#if PG_VERSION_NUM >= 160000
#define compat_owns_relation(relid, role) \
	object_ownercheck(RelationRelationId, relid, role)
#define compat_owns_database(dbid, role) \
	object_ownercheck(DatabaseRelationId, dbid, role)
#define compat_proc_aclcheck(funcid, role, mode) \
	object_aclcheck(ProcedureRelationId, (funcid), (role), (mode))
#else
#define compat_owns_relation(relid, role) \
	pg_class_ownercheck(relid, role)
#define compat_owns_database(dbid, role) \
	pg_database_ownercheck(dbid, role)
#define compat_proc_aclcheck(funcid, role, mode) \
	pg_proc_aclcheck((funcid), (role), (mode))
#endif

/* 16: a JSON parser's actions return an error code; 17: the caller may provide the lexer */
#if PG_VERSION_NUM >= 160000
typedef JsonParseErrorType CompatJsonResult;
#define COMPAT_JSON_SUCCESS	JSON_SUCCESS
#else
typedef void CompatJsonResult;
#define COMPAT_JSON_SUCCESS
#endif

static inline JsonLexContext *
compat_json_lexer(text *json)
{
#if PG_VERSION_NUM >= 170000
	return makeJsonLexContext(NULL, json, true);
#else
	return makeJsonLexContext(json, true);
#endif
}

/* 17: JSON_VALUE() and similar functions have a node type of their own */
#if PG_VERSION_NUM >= 170000
#define compat_is_json_expr(node)	IsA(node, JsonExpr)
#else
#define compat_is_json_expr(node)	((void) (node), false)
#endif

/*
 * 17: the action of MERGE; 18: values before and after a row is written.  Only a ModifyTable has
 * these expressions.
 */
static inline bool
compat_is_modify_expr(const Node *node)
{
#if PG_VERSION_NUM >= 180000
	return IsA(node, MergeSupportFunc) || IsA(node, ReturningExpr) ||
		(IsA(node, Var) && ((const Var *) node)->varreturningtype != VAR_RETURNING_DEFAULT);
#elif PG_VERSION_NUM >= 170000
	return IsA(node, MergeSupportFunc);
#else
	(void) node;
	return false;
#endif
}

/* 16: an error of the type's own function can be stored instead of thrown */
#if PG_VERSION_NUM >= 160000
#define compat_make_range(typcache, lower, upper) make_range(typcache, lower, upper, false, NULL)
#else
#define compat_make_range(typcache, lower, upper) make_range(typcache, lower, upper, false)
#endif

/* 16: membership no longer means SET ROLE */
#if PG_VERSION_NUM >= 160000
#define compat_may_become(member, role)	member_can_set_role(member, role)
#else
#define compat_may_become(member, role)	is_member_of_role(member, role)
#endif

/* 18: ExecutorRun() lost execute_once */
#if PG_VERSION_NUM >= 180000
#define COMPAT_EXECUTOR_RUN_ARGS \
	QueryDesc *queryDesc, ScanDirection direction, uint64 count
#define COMPAT_EXECUTOR_RUN_PASS	queryDesc, direction, count
#else
#define COMPAT_EXECUTOR_RUN_ARGS \
	QueryDesc *queryDesc, ScanDirection direction, uint64 count, bool execute_once
#define COMPAT_EXECUTOR_RUN_PASS	queryDesc, direction, count, execute_once
#endif

/* 18: an AFTER trigger runs as the user who wrote its row, not as the user at the statement's end */
#define COMPAT_AFTER_TRIGGERS_KEEP_USER	(PG_VERSION_NUM >= 180000)

/* 17: a timeout for whole transactions */
#if PG_VERSION_NUM >= 170000
#define COMPAT_TRANSACTION_TIMEOUT	{"transaction_timeout", "0"},
#else
#define COMPAT_TRANSACTION_TIMEOUT
#endif

/*
 * A copy of the error that is being handled, for ThrowErrorData() at another time.
 *
 * Later minor releases copy the names of the source file and the function, too, and
 * ThrowErrorData() keeps the pointers until the error is reported: by then the copy's memory may be gone.  So
 * a refused call has no place in our sources.
 */
static inline ErrorData *
compat_caught_error(void)
{
	ErrorData  *e = CopyErrorData();

	e->filename = e->funcname = NULL;
	return e;
}

#endif
