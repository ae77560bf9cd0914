/*
 * dialect.c
 *	  The table of kinds of endpoints (ipc/endpoint_dialects.def).
 *
 * Tested by tests/unit/remote/test_remote_options.c and test_remote_body.c.
 */
#include "remote/codec/dialect.h"

#include <string.h>

#define DIALECT_DEFAULT(name, tag, value)
static const Dialect dialects[] = {
#define DIALECT(...) {__VA_ARGS__},
#include "ipc/endpoint_dialects.def"
#undef DIALECT
};
#undef DIALECT_DEFAULT

#define DIALECT(...)
static const DialectDefault defaults[] = {
#define DIALECT_DEFAULT(name, tag, value) {name, WTAG_##tag, value},
#include "ipc/endpoint_dialects.def"
#undef DIALECT_DEFAULT
};
#undef DIALECT

const Dialect *
dialect_find(const char *name)
{
	if (name == NULL)
		return &dialects[0];
	for (size_t i = 0; i < sizeof(dialects) / sizeof(dialects[0]); i++)
		if (strcmp(dialects[i].name, name) == 0)
			return &dialects[i];
	return NULL;
}

void
dialect_names(Buf *b)
{
	for (size_t i = 0; i < sizeof(dialects) / sizeof(dialects[0]); i++)
	{
		if (i > 0)
			buf_addstr(b, ", ");
		buf_addstr(b, dialects[i].name);
	}
}

const DialectDefault *
dialect_default(const Dialect *d, int n)
{
	for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++)
		if (strcmp(defaults[i].dialect, d->name) == 0 && n-- == 0)
			return &defaults[i];
	return NULL;
}
