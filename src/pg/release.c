/*
 * release.c
 *	  Telling the engine that a model of the catalog is gone.
 *
 * The catalog is transactional and the engine is not.  llm_create_model makes the
 * engine look at the files, llm_drop_model leaves weights behind: the one needs a
 * WK_MODEL_FORGET when the transaction rolls back, the other when it commits; DROP
 * EXTENSION and DROP DATABASE forget all of a database (empty name) at commit.  To
 * forget too much costs a reload at most: every request carries path and options.
 *
 * A list holds what the current transaction owes, each entry with the nesting level
 * it belongs to; entries move to the parent when a savepoint is released and fall
 * due, or are dropped, when it is rolled back.  Entries live in TopMemoryContext
 * and hold the finished message, because at the end of a transaction nothing may
 * throw or allocate.  What can't be posted at once (no free slot) stays on the list
 * `due` and is tried again at the end of every later transaction.
 *
 * Tests: tests/sql/models.sql (the request log shows the messages).
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "commands/extension.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "pg/client.h"
#include "pg/encode.h"
#include "pg/release.h"
#include "pg/vllm_pg.h"

typedef struct Release
{
	dlist_node	node;
	int			level;			/* GetCurrentTransactionNestLevel() */
	bool		at_commit;		/* else at abort */
	size_t		len;
	char		body[FLEXIBLE_ARRAY_MEMBER];	/* fields of a WK_MODEL_FORGET */
} Release;

static dlist_head pending = DLIST_STATIC_INIT(pending);
static dlist_head due = DLIST_STATIC_INIT(due);

static object_access_hook_type prev_object_access_hook = NULL;

static void xact_callback(XactEvent event, void *arg);
static void subxact_callback(SubXactEvent event, SubTransactionId mySubid,
							 SubTransactionId parentSubid, void *arg);

static void
add_release(Oid database, const char *name, bool at_commit)
{
	static bool registered = false;
	StringInfoData body;
	WireOut		out;
	Release    *r;

	if (!registered)
	{
		RegisterXactCallback(xact_callback, NULL);
		RegisterSubXactCallback(subxact_callback, NULL);
		registered = true;
	}
	initStringInfo(&body);
	out = vclient_out(&body);
	wire_put_int(&out, WTAG_DATABASE, database);
	wire_put_text(&out, WTAG_MODEL, name, strlen(name));

	r = MemoryContextAlloc(TopMemoryContext, offsetof(Release, body) + body.len);
	r->level = GetCurrentTransactionNestLevel();
	r->at_commit = at_commit;
	r->len = body.len;
	memcpy(r->body, body.data, body.len);
	dlist_push_tail(&pending, &r->node);
	pfree(body.data);
}

void
release_on_abort(const char *name)
{
	add_release(MyDatabaseId, name, false);
}

void
release_on_commit(const char *name)
{
	add_release(MyDatabaseId, name, true);
}

/* ---- ends of transactions: nothing below throws or allocates ---- */

static void
post_due(void)
{
	dlist_mutable_iter it;

	dlist_foreach_modify(it, &due)
	{
		Release    *r = dlist_container(Release, node, it.cur);

		if (!vclient_post(WK_MODEL_FORGET, r->body, r->len))
			return;
		dlist_delete(&r->node);
		pfree(r);
	}
}

/* Entries of `level` and deeper fall due if they wait for this outcome; the rest goes. */
static void
settle(int level, bool commit)
{
	dlist_mutable_iter it;

	dlist_foreach_modify(it, &pending)
	{
		Release    *r = dlist_container(Release, node, it.cur);

		if (r->level < level)
			continue;
		dlist_delete(&r->node);
		if (r->at_commit == commit)
			dlist_push_tail(&due, &r->node);
		else
			pfree(r);
	}
	post_due();
}

static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			settle(0, true);
			break;
		case XACT_EVENT_ABORT:
			settle(0, false);
			break;
		case XACT_EVENT_PRE_PREPARE:
			if (!dlist_is_empty(&pending))
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that has created or dropped a model")));
			break;
		default:
			break;
	}
}

static void
subxact_callback(SubXactEvent event, SubTransactionId mySubid,
				 SubTransactionId parentSubid, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();
	dlist_iter	it;

	if (event == SUBXACT_EVENT_ABORT_SUB)
		settle(level, false);
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
		dlist_foreach(it, &pending)
		{
			Release    *r = dlist_container(Release, node, it.cur);

			if (r->level >= level)
				r->level = level - 1;
		}
}

/* ---- whole databases ---- */

static void
vllm_object_access(ObjectAccessType access, Oid classId, Oid objectId, int subId, void *arg)
{
	if (prev_object_access_hook)
		prev_object_access_hook(access, classId, objectId, subId, arg);
	if (access != OAT_DROP || vllm_shared == NULL)
		return;

	if (classId == DatabaseRelationId)
		add_release(objectId, "", true);
	else if (classId == ExtensionRelationId)
	{
		char	   *name = get_extension_name(objectId);

		if (name && strcmp(name, "vllm_pg") == 0)
			add_release(MyDatabaseId, "", true);
	}
}

static const struct config_enum_entry invalid_text_values[] = {
	{"replace", INVALID_TEXT_REPLACE, false},
	{"error", INVALID_TEXT_ERROR, false},
	{NULL, 0, false}
};

void
vllm_sql_init(void)
{
	DefineCustomEnumVariable("vllm.invalid_text",
							 "What to do with an answer's text that the database can't store.",
							 "replace: NUL is removed, the rest replaced. error: SQLSTATE 22021.",
							 &vllm_invalid_text, INVALID_TEXT_REPLACE, invalid_text_values,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	prev_object_access_hook = object_access_hook;
	object_access_hook = vllm_object_access;
}
