/*
 * err.c
 *	  The engine's error value: formatting and the class -> SQLSTATE table.
 */
#include "base/err.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

bool
err_set(Err *e, ErrClass cls, const char *fmt,...)
{
	va_list		ap;

	e->cls = cls;
	e->detail[0] = e->hint[0] = '\0';
	va_start(ap, fmt);
	vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
	va_end(ap);
	return false;
}

bool
err_detail(Err *e, const char *fmt,...)
{
	va_list		ap;

	va_start(ap, fmt);
	vsnprintf(e->detail, sizeof(e->detail), fmt, ap);
	va_end(ap);
	return false;
}

bool
err_hint(Err *e, const char *fmt,...)
{
	va_list		ap;

	va_start(ap, fmt);
	vsnprintf(e->hint, sizeof(e->hint), fmt, ap);
	va_end(ap);
	return false;
}

static void
replace(char *text, size_t size, const char *what, const char *as)
{
	char		old[sizeof(((Err *) 0)->hint)];
	size_t		len = strlen(text);
	bool		cut = len + 1 == size;	/* if so, the text may end in a truncated `what` */
	size_t		n = 0;

	if (!cut && strstr(text, what) == NULL)
		return;
	snprintf(old, sizeof(old), "%s", text);
	for (const char *p = old; *p != '\0' && n + 1 < size;)
	{
		size_t		left = len - (size_t) (p - old);
		size_t		k = cut && left < strlen(what) ? left : strlen(what);
		bool		found = strncmp(p, what, k) == 0;

		n += (size_t) snprintf(text + n, size - n, "%.*s", found ? INT_MAX : 1, found ? as : p);
		p += found ? k : 1;
	}
}

void
err_replace(Err *e, const char *what, const char *as)
{
	if (what[0] == '\0')
		return;
	replace(e->msg, sizeof(e->msg), what, as);
	replace(e->detail, sizeof(e->detail), what, as);
	replace(e->hint, sizeof(e->hint), what, as);
}

const char *
err_sqlstate(ErrClass cls)
{
	switch (cls)
	{
		case ERR_NONE:
			return "00000";
		case ERR_INVALID:
			return "22023";
		case ERR_TOO_LONG:
			return "54000";
		case ERR_NOT_FOUND:
			return "42704";
		case ERR_UNSUPPORTED:
			return "0A000";
		case ERR_BAD_FILE:
			return "XX001";
		case ERR_IO:
			return "58030";
		case ERR_NOMEM:
			return "53200";
		case ERR_QUEUE_FULL:
			return "53300";
		case ERR_NOT_READY:
			return "55000";
		case ERR_LIMIT:
			return "53400";
		case ERR_CANCELLED:
			return "57014";
		case ERR_LOST:
			return "58000";
		case ERR_CONNECTION:
			return "08006";
		case ERR_PROTOCOL:
			return "08P01";
		case ERR_AUTH:
			return "28000";
		case ERR_FORBIDDEN:
			return "42501";
		case ERR_UNAVAILABLE:
			return "57P03";
		case ERR_INTERNAL:
			break;
	}
	return "XX000";
}
