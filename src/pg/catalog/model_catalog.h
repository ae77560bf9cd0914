/*
 * model_catalog.h
 *	  The table vllm.model: which models a database knows and who may use them.
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
	char	   *path;			/* as stored; catalog_path() makes it a file name; NULL: a remote model */
	char	   *options;		/* json text, NULL = none */
	char	   *provider;		/* 'local', 'openai' */
	char	   *url;			/* its first base URL; NULL: it is here */
	Oid			owner;
	int			n_grantees;
	Oid		   *grantees;		/* roles, InvalidOid = PUBLIC */
	bool		bundled;		/* belongs to the extension */
	struct LoraRow *lora;		/* catalog_for_use(): with this adapter (lora_catalog.h); NULL = alone */
} ModelRow;

/* NULL if there is none. */
ModelRow   *catalog_find(const char *name);
/* All rows, ModelRow *, ordered by name. */
List	   *catalog_list(void);

/*
 * The model a call names (NULL: vllm.model), which the current user may use:
 * ERROR 42704 or 42501 otherwise.  The name may be an adapter's, or the adapter
 * is named beside it (lora, NULL = none): then it is the adapter's model, with its
 * lora set.  For its owner: ERROR unless the current user has the owner's privileges.
 */
ModelRow   *catalog_for_use(const char *name, const char *lora);

/* What a call is for, where that has a default model of its own. */
typedef enum ModelUse
{
	USE_ANY,					/* vllm.model */
	USE_EMBED,					/* vllm.embedding_model */
	USE_RERANK					/* vllm.rerank_model */
} ModelUse;

/*
 * The same of a call for that.  *by_default: neither it nor the setting of its own names a model, so that
 * vllm.model's is asked, which may not be made for it.
 */
ModelRow   *catalog_for_use_as(ModelUse use, const char *name, const char *lora, bool *by_default);
/* DEFAULT_MODEL, if the engine is to refuse a model that only generates. */
void		catalog_put_default(const ModelRow *m, bool by_default, WireOut *out);
ModelRow   *catalog_model_for_use(const char *name);
/* The row, for who may do what he wants with any model; ERROR if there is none. */
ModelRow   *catalog_model(const char *name);
/*
 * Refuse a path that is not absolute; where it looks like a repository of Hugging Face's, say how to get
 * that.
 */
void		catalog_check_absolute(const char *path);
ModelRow   *catalog_model_for_owner(const char *name);
/* What a call names it by: the adapter, if there is one. */
const char *catalog_called(const ModelRow *m);
bool		catalog_may_use(const ModelRow *m, Oid role);
bool		catalog_is_owner(const ModelRow *m, Oid role);

/* Serialise changes of one name, a model's or an adapter's, until the end of the transaction. */
void		catalog_lock(const char *name);
/*
 * Until the end of the transaction: what is made uses the name, or the name is dropped if nothing uses it.
 * The former does not keep out changes of other kinds.
 */
void		catalog_lock_use(const char *name);
void		catalog_lock_drop(const char *name);
void		catalog_insert(const ModelRow *m);
void		catalog_delete(const char *name);
void		catalog_set_grantees(const char *name, const Oid *roles, int n);
void		catalog_set_path(const char *name, const char *path);
void		catalog_set_options(const char *name, const char *options);

/* Is it a remote model, which the remote program serves and not the engine? */
bool		catalog_is_remote(const ModelRow *m);
/* Its base URLs, char *: the first one and those of option "urls". */
List	   *catalog_urls(const ModelRow *m);
/* ERROR 0A000 if it is; what: "llm_sleep()" */
void		catalog_require_local(const ModelRow *m, const char *what);

/*
 * Where the files of a model that is here are: absolute; $libdir is the folder this library was loaded from.
 */
char	   *catalog_path(const ModelRow *m);

/* May the current user see the path, or the url, and the options? */
bool		catalog_may_see_path(const ModelRow *m);

/* wire_model_hash() of the path, or the first url, and options that catalog_put() sends. */
uint64		catalog_hash(const ModelRow *m);

/*
 * Fields that every message about a model carries: who asks, name, path or urls and secret, options, adapter.
 */
void		catalog_put(const ModelRow *m, WireOut *out);

/* A table, index or sequence of the extension's in schema vllm; InvalidOid: there is none. */
Oid			catalog_own_relation(const char *name);

/* For lora_catalog.c: the same, which must be there; roles in a row; may the role do as one of these? */
Oid			catalog_relation(const char *name);
Oid		   *catalog_roles(Datum array, int *n);
Datum		catalog_roles_datum(const Oid *roles, int n);
bool		catalog_is_granted(const Oid *roles, int n, Oid role);

#endif
