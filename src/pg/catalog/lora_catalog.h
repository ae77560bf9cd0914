/*
 * lora_catalog.h
 *	  The table vllm.lora: adapters of models, and who may use them.
 */
#ifndef VLLM_PG_CATALOG_LORA_CATALOG_H
#define VLLM_PG_CATALOG_LORA_CATALOG_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/timestamp.h"

#include "ipc/wire.h"

/* One row, or what vllm.lora_dir has under that name; palloc'ed, strings in the server's encoding. */
typedef struct LoraRow
{
	char	   *name;
	char	   *model;			/* the name of the model it is for */
	char	   *path;			/* absolute */
	Oid			owner;			/* InvalidOid: of the directory, or gone */
	int			n_grantees;
	Oid		   *grantees;		/* roles, InvalidOid = PUBLIC */
	TimestampTz created;
	bool		from_dir;		/* of vllm.lora_dir: there is no row */
} LoraRow;

extern char *vllm_lora_dir;		/* vllm.lora_dir: '' = none */
extern bool vllm_allow_runtime_lora;	/* vllm.allow_runtime_lora */

void		lora_init(void);	/* _PG_init: the settings */

/* NULL if there is none: of the table alone. */
LoraRow    *lora_find(const char *name);
/* NULL if there is none; also looks in vllm.lora_dir: as an adapter of vllm.model. */
LoraRow    *lora_resolve(const char *name);
/*
 * The adapter that a call names beside a model (NULL: none is named): ERROR 42704 if there is none, 22023 if
 * it is another model's.
 */
LoraRow    *lora_named(const char *name, const char *model);

/* ERROR 42501 unless the current user may use it; what its model asks for is another matter. */
void		lora_check_use(const LoraRow *l);
bool		lora_may_use(const LoraRow *l, Oid role);
/* May the role use the model of that name, or the adapter and its model?  One that is gone may nothing. */
bool		lora_or_model_may_use(const char *name, Oid role);
/* May the current user see the path of the adapter? */
bool		lora_may_see_path(const LoraRow *l);
/* ERROR 42704, 42501, or 42809: it is of vllm.lora_dir */
LoraRow    *lora_for_owner(const char *name);

/* All rows, LoraRow *, ordered by name; model: of this one alone, NULL = all. */
List	   *lora_list(const char *model);

/* The caller holds catalog_lock() of the name. */
void		lora_insert(const LoraRow *l);
void		lora_delete(const char *name);
/* All columns of the row `name` but created. */
void		lora_update(const char *name, const LoraRow *l);

/*
 * lora_ddl.c: llm_create_lora(); llm_load_lora(), pin < 0: not said; llm_drop_lora(), ... all of a model
 * that is about to be dropped
 */
void		lora_create(char *name, const char *model, char *path, bool replace);
void		lora_load(const char *name, int pin);
void		lora_drop(const char *name, bool cascade);
void		lora_drop_all(const char *model);

/* Fields that say which adapter a message is about. */
void		lora_put(const LoraRow *l, WireOut *out);

#endif
