/*
 * model_catalog.h
 *	  The table vllm.model: a database's models, and the roles that may use them.
 */
#ifndef VLLM_PG_CATALOG_MODEL_CATALOG_H
#define VLLM_PG_CATALOG_MODEL_CATALOG_H

#include "postgres.h"

#include "nodes/pg_list.h"

#include "ipc/wire.h"

/* One row, palloc'ed; strings in the server's encoding. */
typedef struct ModelRow
{
	char	   *name;
	char	   *path;			/* as stored; catalog_path() makes a file name of it; NULL: a remote
								 * model */
	char	   *options;		/* json text, NULL = none */
	char	   *provider;		/* 'local', 'openai' */
	char	   *url;			/* its first base URL; NULL: a local model */
	Oid			owner;
	int			n_grantees;
	Oid		   *grantees;		/* roles, InvalidOid = PUBLIC */
	bool		bundled;		/* belongs to the extension */
	struct LoraRow *lora;		/* set by catalog_for_use(): the adapter to use (lora_catalog.h); NULL =
								 * none */
} ModelRow;

/* Return NULL if there is none. */
ModelRow   *catalog_find(const char *name);
/* Return all rows, ModelRow *, ordered by name. */
List	   *catalog_list(void);

/*
 * Return the model that a call names (NULL: vllm.model); ERROR 42704 if there is none, 42501 if the
 * current user may not use it.  The name may be an adapter's, or the call gives an adapter beside it
 * (lora, NULL = none): then the result is the adapter's model, with lora set.
 * catalog_model_for_owner(): ERROR unless the current user has the owner's privileges.
 */
ModelRow   *catalog_for_use(const char *name, const char *lora);

/* Uses of a model that may have a default model of their own. */
typedef enum ModelUse
{
	USE_ANY,					/* vllm.model */
	USE_EMBED,					/* vllm.embedding_model */
	USE_RERANK					/* vllm.rerank_model */
} ModelUse;

/*
 * Like catalog_for_use(), with the default model of that use.  *by_default: neither the call nor the
 * use's own setting names a model, so vllm.model is asked, which may not be made for that use.
 */
ModelRow   *catalog_for_use_as(ModelUse use, const char *name, const char *lora, bool *by_default);
/* Append DEFAULT_MODEL, which makes the engine refuse a model that only generates. */
void		catalog_put_default(const ModelRow *m, bool by_default, WireOut *out);
ModelRow   *catalog_model_for_use(const char *name);
/* Return the row without a check of privileges; ERROR if there is none. */
ModelRow   *catalog_model(const char *name);
/*
 * Refuse a path that is not absolute.  If it looks like a repository of Hugging Face, the hint says
 * how to get that.
 */
void		catalog_check_absolute(const char *path);
ModelRow   *catalog_model_for_owner(const char *name);
/* Return the name that calls use: the adapter's, if there is one. */
const char *catalog_called(const ModelRow *m);
bool		catalog_may_use(const ModelRow *m, Oid role);
bool		catalog_is_owner(const ModelRow *m, Oid role);

/* Lock a name, a model's or an adapter's, against other changes until the end of the transaction. */
void		catalog_lock(const char *name);
/*
 * Lock the uses of a name until the end of the transaction.  catalog_lock_use() is for a transaction
 * that creates an object which uses the name, catalog_lock_drop() for one that drops the name if no
 * object uses it.  catalog_lock_use() does not conflict with catalog_lock().
 */
void		catalog_lock_use(const char *name);
void		catalog_lock_drop(const char *name);
void		catalog_insert(const ModelRow *m);
void		catalog_delete(const char *name);
void		catalog_set_grantees(const char *name, const Oid *roles, int n);
void		catalog_set_path(const char *name, const char *path);
void		catalog_set_options(const char *name, const char *options);

/* Return true for a remote model, which the remote program serves. */
bool		catalog_is_remote(const ModelRow *m);
/* Return its base URLs, char *: the first one and those of option "urls". */
List	   *catalog_urls(const ModelRow *m);
/* ERROR 0A000 for a remote model; what: for example "llm_sleep()" */
void		catalog_require_local(const ModelRow *m, const char *what);

/*
 * Return the absolute path of a local model's files; $libdir is the folder that this library was
 * loaded from.
 */
char	   *catalog_path(const ModelRow *m);

/* Return true if the current user may see the path, or the url, and the options. */
bool		catalog_may_see_path(const ModelRow *m);

/*
 * Return wire_model_hash() of the path, or the first url, and the options, as catalog_put() sends
 * them.
 */
uint64		catalog_hash(const ModelRow *m);

/*
 * Append the fields that every message about a model has: the caller, name, path or urls and secret,
 * options, adapter.
 */
void		catalog_put(const ModelRow *m, WireOut *out);

/* Return a table, index or sequence of the extension in schema vllm; InvalidOid if there is none. */
Oid			catalog_own_relation(const char *name);

/*
 * For lora_catalog.c.  catalog_relation(): like catalog_own_relation(), but ERROR if there is none.
 * catalog_roles(), catalog_roles_datum(): read and make a row's array of roles.
 * catalog_is_granted(): return true if the role has the privileges of one of these.
 */
Oid			catalog_relation(const char *name);
Oid		   *catalog_roles(Datum array, int *n);
Datum		catalog_roles_datum(const Oid *roles, int n);
bool		catalog_is_granted(const Oid *roles, int n, Oid role);

#endif
