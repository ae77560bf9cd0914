/*
 * dialect.c
 *	  The table of endpoint dialects (ipc/endpoint_dialects.def).
 *
 * Tested by tests/unit/remote/codec/test_remote_options.c and test_remote_body.c.
 */
#include "remote/codec/dialect.h"

#include <math.h>
#include <string.h>

static const Dialect dialects[] = {
#define DIALECT(...) {__VA_ARGS__},
#include "ipc/endpoint_dialects.def"
#undef DIALECT
};

#define OF_MODEL_PARAM(member) false
#define OF_MODEL_OUT(member) false
#define OF_MODEL_RULE(member) false
#define OF_MODEL_CODE false
#define OF_MODEL_MODEL_PARAM(member) true
#define OF_MODEL_MODEL_RULE(member) true
#define NONE NAN

static const DialectDefault defaults[] = {
#define FIELD(tag, number, name, type, least, most, rule, body, endpoint, dflt, reader) \
	{WTAG_##tag, OF_MODEL_##reader, dflt},
#define CALL_OPTION(...)
#include "ipc/request_fields.def"
#undef FIELD
#undef CALL_OPTION
};

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
		if ((d->caps & CAP_DEFAULTS) != 0 && defaults[i].of_model && n-- == 0)
			return &defaults[i];
	return NULL;
}
