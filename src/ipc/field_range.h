/*
 * field_range.h
 *	  The range of a number in a request (request_fields.def), and the error for a value outside of it.
 */
#ifndef VLLM_IPC_FIELD_RANGE_H
#define VLLM_IPC_FIELD_RANGE_H

#include "ipc/wire.h"

typedef struct FieldRange
{
	const char *name;			/* what the caller calls it */
	bool		whole;
	double		least,
				most;
	const char *rule;			/* completes "NAME ..." */
	double		dflt;			/* the default, which changes nothing; NaN = no default */
} FieldRange;

/* NULL: it is no number, or any value will do. */
const FieldRange *field_range(int tag);
/* Is the value in the range?  Else text is the error, "temperature must be between 0 and 2, got 3". */
bool		field_range_ok(const FieldRange *r, double v, char *text, size_t n);
/* The same of a field, which must be of the range's tag. */
bool		field_range_read(const FieldRange *r, const WireField *f, char *text, size_t n);

#define FIELD_RANGE_TEXT	160		/* room for the error */

#endif
