/*
 * fn_remote.c
 *	  What views show of models behind urls: url and has_secret of llm_models.
 *
 * Tests: tests/sql/33_remote_models.sql.
 */
#include "postgres.h"

#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "pg/catalog.h"
#include "pg/row.h"
#include "pg/secret.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_model_urls);

/* vllm.model_urls(): what only those see who may see a model's path */
Datum
llm_model_urls(PG_FUNCTION_ARGS)
{
	ListCell   *lc;
	Row			row = {0};

	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, catalog_list())
	{
		ModelRow   *m = lfirst(lc);

		if (!catalog_is_remote(m) || !catalog_may_see_path(m))
			continue;
		row_str(&row, m->name);
		row_str(&row, m->url);
		row_datum(&row, BoolGetDatum(secret_find(m->name) != NULL));
		row_emit(&row, fcinfo);
	}
	return (Datum) 0;
}
