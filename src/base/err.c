/*
 * err.c
 *	  The engine's error value: formatting and the class -> SQLSTATE table.
 */
#include "base/err.h"

#include <stdio.h>

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
		case ERR_INTERNAL:
			break;
	}
	return "XX000";
}
