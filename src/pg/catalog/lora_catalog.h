/*
 * lora_catalog.h
 *	  The table vllm.lora: adapters of models, and the roles that may use them.
 */
#ifndef VLLM_PG_CATALOG_LORA_CATALOG_H
#define VLLM_PG_CATALOG_LORA_CATALOG_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/timestamp.h"

#include "ipc/wire.h"

/* One row, or an adapter in the directory vllm.lora_dir; palloc'ed, strings in the server's encoding. */
typedef struct LoraRow
{
	char	   *name;
	char	   *model;			/* the name of the model it is for */
	char	   *path;			/* absolute */
	Oid			owner;			/* InvalidOid: the adapter is in the directory, or the role has been
								 * dropped */
	int			n_grantees;
	Oid		   *grantees;		/* roles, InvalidOid = PUBLIC */
	TimestampTz created;
	bool		from_dir;		/* in vllm.lora_dir: it has no row */
} LoraRow;

extern char *vllm_lora_dir;		/* vllm.lora_dir: '' = none */
extern bool vllm_allow_runtime_lora;	/* vllm.allow_runtime_lora */

void		lora_init(void);	/* _PG_init: the settings */

/* Return an adapter of the table, NULL if there is none. */
LoraRow    *lora_find(const char *name);
/*
 * Return an adapter of the table or, as an adapter of vllm.model, of vllm.lora_dir; NULL if there is
 * none.
 */
LoraRow    *lora_resolve(const char *name);
/*
 * Return the adapter that a call gives beside a model (NULL: no model).  ERROR 42704 if there is
 * none, 22023 if it is another model's.
 */
LoraRow    *lora_named(const char *name, const char *model);

/* ERROR 42501 unless the current user may use it.  Does not check the privileges of its model. */
void		lora_check_use(const LoraRow *l);
bool		lora_may_use(const LoraRow *l, Oid role);
/*
 * Return true if the role may use the model of that name, or the adapter and its model.  A role that
 * has been dropped may not.
 */
bool		lora_or_model_may_use(const char *name, Oid role);
/* Return true if the current user may see the adapter's path. */
bool		lora_may_see_path(const LoraRow *l);
/*
 * Return an adapter that the current user owns: ERROR 42704, 42501, or 42809 if it is in
 * vllm.lora_dir.
 */
LoraRow    *lora_for_owner(const char *name);

/* Return all rows, LoraRow *, ordered by name; model: only this one's, NULL = of all models. */
List	   *lora_list(const char *model);

/* The caller holds catalog_lock() of the name. */
void		lora_insert(const LoraRow *l);
void		lora_delete(const char *name);
/* Replace all columns of the row `name` except created. */
void		lora_update(const char *name, const LoraRow *l);

/*
 * lora_ddl.c: llm_create_lora(); llm_load_lora(), pin < 0: not given; llm_drop_lora(), ...; drop all
 * adapters of a model that is about to be dropped
 */
void		lora_create(char *name, const char *model, char *path, bool replace);
void		lora_load(const char *name, int pin);
void		lora_drop(const char *name, bool cascade);
void		lora_drop_all(const char *model);

/* Append the fields that name a message's adapter. */
void		lora_put(const LoraRow *l, WireOut *out);

#endif
