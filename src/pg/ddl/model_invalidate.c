/*
 * model_invalidate.c
 *	  Making the engine, or the remote program, forget models that were dropped or never committed.
 *
 * The catalog is transactional and the engine is not.  llm_create_model makes the engine read the
 * files; llm_drop_model leaves the weights loaded.  So the engine must forget a model that a
 * transaction has created when that rolls back, and one that it has dropped when it commits.  A name
 * may stand for one version (path and options) in this transaction and for another one in all others,
 * and a version that others use must not be forgotten; hence WK_MODEL_FORGET names the version.  DROP
 * EXTENSION and DROP DATABASE make both programs forget all models of a database (empty name) at
 * commit.
 *
 * The remote program has only counters of a remote model; the rules for the engine apply to it, too.
 *
 * A log has the models that the current transaction has created and dropped, in order, each entry
 * with its nesting level.  Entries move to the parent level when a savepoint is released and are
 * removed when it is rolled back.  The first entry of a name says which version other transactions
 * see, the last one which version this transaction sees.  At the end of a level, every version in the
 * log that is neither of the two becomes due (at commit, only the last one counts).  Entries live in
 * TopMemoryContext, because at the end of a transaction no code may throw or allocate.
 *
 * A message that can't be sent at once (no free slot) goes to VllmShared.forgets; the supervisor
 * sends it when a slot is free, and empties the list when the engine has ended.  When that list is
 * full, entries stay on the backend's list `due` and are tried again at the end of its later
 * transactions.  A transaction that creates the same version again removes its due messages.
 *
 * Tests: tests/sql/06_models.sql, tests/t/008_forget.pl.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "commands/extension.h"
#include "common/hashfn.h"
#include "lib/ilist.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "base/assert.h"
#include "pg/call/api_args.h"
#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/catalog/lora_catalog.h"
#include "pg/ddl/model_invalidate.h"
#include "pg/catalog/secret.h"
#include "pg/vllm_pg.h"

typedef struct Release
{
	dlist_node	node;
	int			level;			/* GetCurrentTransactionNestLevel() */
	bool		created;		/* else it was dropped */
	bool		falls_due;		/* set by settle() */
	struct Release *first;		/* first entry in pending of this name */
	VllmForget	what;

	/* for the first entry of a name */
	dlist_node	in_bucket;
	struct Release *last;		/* set by settle() */
	struct Release *below;		/* set by settle(): the last entry that remains when the levels roll back */
} Release;

#define N_BUCKETS	4096

/* Levels never decrease along the list: deeper levels have ended before more entries are added. */
static dlist_head pending = DLIST_STATIC_INIT(pending);
static dlist_head first_ones[N_BUCKETS];	/* of pending, by hash of the name */
static dlist_head due = DLIST_STATIC_INIT(due);

static object_access_hook_type prev_object_access_hook = NULL;

static void xact_callback(XactEvent event, void *arg);
static void subxact_callback(SubXactEvent event, SubTransactionId mySubid,
							 SubTransactionId parentSubid, void *arg);

static bool
same_name(const VllmForget *a, const VllmForget *b)
{
	return a->dbid == b->dbid && strcmp(a->name, b->name) == 0;
}

static bool
same_version(const VllmForget *a, const VllmForget *b)
{
	return a->hash == b->hash && a->remote == b->remote && same_name(a, b);
}

/* ---- the shared list ---- */

static void
queue_remove(const VllmForget *f)
{
	VllmShared *s = vllm_shared;

	LWLockAcquire(s->lock, LW_EXCLUSIVE);
	for (int i = s->n_forgets - 1; i >= 0; i--)
		if (same_version(&s->forgets[i], f))
			s->forgets[i] = s->forgets[--s->n_forgets];
	LWLockRelease(s->lock);
}

/* Return false if it is full. */
static bool
queue_add(const VllmForget *f)
{
	VllmShared *s = vllm_shared;
	bool		there = false;

	LWLockAcquire(s->lock, LW_EXCLUSIVE);
	for (int i = 0; i < s->n_forgets && !there; i++)
		there = same_version(&s->forgets[i], f);
	if (!there && s->n_forgets < VLLM_MAX_FORGETS)
	{
		s->forgets[s->n_forgets++] = *f;
		there = true;
	}
	LWLockRelease(s->lock);
	if (there)
		vllm_wake_supervisor();
	return there;
}

typedef struct Body
{
	size_t		len;
	char		data[256];		/* four fields; the longest is a name */
} Body;

static void
append_body(void *ctx, const void *data, size_t n)
{
	Body	   *b = ctx;

	ASSERT(b->len + n <= sizeof(b->data));
	memcpy(b->data + b->len, data, n);
	b->len += n;
}

static bool
post(const VllmForget *f)
{
	Body		body = {0};
	WireOut		out = {append_body, &body};

	wire_put_int(&out, WTAG_DATABASE, f->dbid);
	wire_put_str(&out, WTAG_MODEL, f->name, strlen(f->name));
	if (f->hash != 0)
		wire_put_int(&out, WTAG_MODEL_HASH, (int64) f->hash);
	/* only marks the message as one for the remote program */
	if (f->remote)
		wire_put_str(&out, WTAG_URL, "", 0);
	return vclient_post(WK_MODEL_FORGET, body.data, body.len);
}

void
release_post_queued(void)
{
	VllmShared *s = vllm_shared;

	for (int n = s->n_forgets; n > 0; n--)
	{
		VllmForget	f;
		bool		found;

		LWLockAcquire(s->lock, LW_SHARED);
		if ((found = s->n_forgets > 0))
			f = s->forgets[0];
		LWLockRelease(s->lock);
		if (!found || !post(&f))
			return;
		queue_remove(&f);
	}
}

/* ---- the log of a transaction ---- */

/* Append to the entries of its name. */
static void
push_pending(Release *r)
{
	uint32		hash = string_hash(r->what.name, sizeof(r->what.name)) ^ r->what.dbid;
	dlist_head *bucket = &first_ones[hash % N_BUCKETS];
	dlist_iter	it;

	r->first = r;
	dlist_foreach(it, bucket)
	{
		Release    *f = dlist_container(Release, in_bucket, it.cur);

		if (same_name(&f->what, &r->what))
			r->first = f;
	}
	if (r->first == r)
		dlist_push_tail(bucket, &r->in_bucket);
	dlist_push_tail(&pending, &r->node);
}

static void
add_release(Oid database, const char *name, uint64 hash, bool remote, bool created)
{
	static bool registered = false;
	char	   *utf8 = pg_server_to_any(name, strlen(name), PG_UTF8);
	Release    *r;
	dlist_mutable_iter it;

	if (strlen(utf8) >= WIRE_NAME_LEN)
		return;					/* such a name doesn't fit into a message, so no request for it can
								 * reach the engine */
	if (!registered)
	{
		RegisterXactCallback(xact_callback, NULL);
		RegisterSubXactCallback(subxact_callback, NULL);
		registered = true;
	}
	r = MemoryContextAllocZero(TopMemoryContext, sizeof(Release));
	r->level = GetCurrentTransactionNestLevel();
	r->created = created;
	r->what.dbid = database;
	r->what.hash = hash;
	r->what.remote = remote;
	strlcpy(r->what.name, utf8, sizeof(r->what.name));
	push_pending(r);
	if (!created || vllm_shared == NULL)
		return;
	/* a pending message from an earlier drop must not come after the requests to this version */
	queue_remove(&r->what);
	dlist_foreach_modify(it, &due)
	{
		Release    *d = dlist_container(Release, node, it.cur);

		if (!same_version(&d->what, &r->what))
			continue;
		dlist_delete(&d->node);
		pfree(d);
	}
}

void
release_created(const ModelRow *m)
{
	add_release(MyDatabaseId, m->name, catalog_hash(m), catalog_is_remote(m), true);
}

void
release_dropped(const ModelRow *m)
{
	add_release(MyDatabaseId, m->name, catalog_hash(m), catalog_is_remote(m), false);
}

/* ---- ends of transactions: nothing below throws or allocates ---- */

static void
post_due(void)
{
	dlist_mutable_iter it;
	bool		full = false;

	if (vllm_shared == NULL || MyProc == NULL)
		return;
	dlist_foreach_modify(it, &due)
	{
		Release    *r = dlist_container(Release, node, it.cur);

		full = full || !post(&r->what);
		if (full && !queue_add(&r->what))
			return;
		dlist_delete(&r->node);
		pfree(r);
	}
}

/* Return true if an entry becomes due when the levels given to settle() end. */
static bool
is_due(const Release *r, bool commit)
{
	const Release *first = r->first;
	const Release *last = first->last;
	const Release *below = first->below;

	if (commit)
		return !(last->created && last->what.hash == r->what.hash);
	/* other transactions see the row that this transaction dropped first, if any */
	if (!first->created && first->what.hash == r->what.hash)
		return false;
	return !(below != NULL && below->created && below->what.hash == r->what.hash);
}

/*
 * End the levels from `level` on: versions that are not valid any more become due, the other entries
 * are removed.
 */
static void
settle(int level, bool commit)
{
	dlist_mutable_iter it;

	dlist_foreach_modify(it, &pending)
	{
		Release    *r = dlist_container(Release, node, it.cur);

		if (r->first == r)
			r->below = NULL;
		r->first->last = r;
		if (r->level < level)
			r->first->below = r;
	}
	dlist_foreach_modify(it, &pending)
	{
		Release    *r = dlist_container(Release, node, it.cur);

		r->falls_due = r->level >= level && is_due(r, commit);
	}
	dlist_foreach_modify(it, &pending)
	{
		Release    *r = dlist_container(Release, node, it.cur);

		if (r->level < level)
			continue;
		if (r->first == r)
			dlist_delete(&r->in_bucket);
		dlist_delete(&r->node);
		if (r->falls_due)
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
release_database(Oid database)
{
	add_release(database, "", 0, false, false);
	add_release(database, "", 0, true, false);
}

static void
vllm_object_access(ObjectAccessType access, Oid classId, Oid objectId, int subId, void *arg)
{
	if (prev_object_access_hook)
		prev_object_access_hook(access, classId, objectId, subId, arg);
	if (access != OAT_DROP || vllm_shared == NULL)
		return;

	if (classId == DatabaseRelationId)
		release_database(objectId);
	else if (classId == ExtensionRelationId)
	{
		char	   *name = get_extension_name(objectId);

		if (name && strcmp(name, "vllm_pg") == 0)
			release_database(MyDatabaseId);
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
							 "Sets what happens to generated text that the database can't store.",
							 "replace: NUL is removed, the rest replaced. error: SQLSTATE 22021.",
							 &vllm_invalid_text, INVALID_TEXT_REPLACE, invalid_text_values,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	vllm_api_init();
	lora_init();
	secret_log_init();
	prev_object_access_hook = object_access_hook;
	object_access_hook = vllm_object_access;
}
