/*
 * setting_check.c
 *	  Check hooks of settings whose text is parsed by code that raises errors.
 *
 * The postmaster checks settings, too, when the configuration is reloaded, and an error there would
 * end it.  It has no database and does not know the encoding, which escapes of non-ASCII characters
 * need.  So it accepts texts with these, and its children check again.
 *
 * Tests: tests/sql/03_options.sql, tests/t/096_speculation.pl.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "pg/util/setting_check.h"

static bool
is_caught(int sqlstate)
{
	int			category = ERRCODE_TO_CATEGORY(sqlstate);

	return category == ERRCODE_DATA_EXCEPTION || category == ERRCODE_FEATURE_NOT_SUPPORTED ||
		category == ERRCODE_PROGRAM_LIMIT_EXCEEDED;
}

static bool
needs_encoding(const ErrorData *e)
{
	return e->sqlerrcode == ERRCODE_UNTRANSLATABLE_CHARACTER ||
		e->sqlerrcode == ERRCODE_FEATURE_NOT_SUPPORTED;
}

ErrorData *
setting_error(void (*parse) (const char *text, const void *arg), const char *text, const void *arg)
{
	MemoryContext old = CurrentMemoryContext;
	MemoryContext cxt = AllocSetContextCreate(old, "check of a setting", ALLOCSET_SMALL_SIZES);
	ErrorData  *volatile e = NULL;

	MemoryContextSwitchTo(cxt);
	/* no subtransaction is needed, as parsing holds no resources but memory */
	PG_TRY();
	{
		parse(text, arg);
	}
	PG_CATCH();
	{
		if (!is_caught(geterrcode()))
			PG_RE_THROW();
		MemoryContextSwitchTo(old);
		e = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	return e != NULL && !OidIsValid(MyDatabaseId) && needs_encoding(e) ? NULL : e;
}
