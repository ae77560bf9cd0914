/*
 * field_range.h
 *	  The range of a number in a request (request_fields.def), and the error for a value outside of it.
 */
#ifndef VLLM_IPC_FIELD_RANGE_H
#define VLLM_IPC_FIELD_RANGE_H

#include "ipc/wire.h"

typedef struct FieldRange
{
	const char *name;			/* the option's name as callers write it */
	bool		whole;
	double		least,
				most;
	const char *rule;			/* completes the error message "NAME ..." */
	double		dflt;			/* the default, which has no effect; NaN = no default */
} FieldRange;

/* Return the range of a field; NULL if the field is not a number or has no limits. */
const FieldRange *field_range(int tag);
/*
 * Return true if the value is in the range.  Else text gets the error, e.g. "temperature must be between
 * 0 and 2, got 3".
 */
bool		field_range_ok(const FieldRange *r, double v, char *text, size_t n);
/* The same for a field's value; the field must have the range's tag. */
bool		field_range_read(const FieldRange *r, const WireField *f, char *text, size_t n);

#define FIELD_RANGE_TEXT	160		/* size of the buffer for the error */

#endif
