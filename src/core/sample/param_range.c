/*
 * param_range.c
 *	  Check a parameter's number against the range of its row (param_range.h).
 *
 * Tested by tests/unit/core/sample/test_params.c.
 */
#include "core/sample/param_range.h"

#include "ipc/field_range.h"

bool
param_in_range(int tag, double v, Err *e)
{
	const FieldRange *r = field_range(tag);
	char		text[FIELD_RANGE_TEXT];

	if (r == NULL || field_range_ok(r, v, text, sizeof(text)))
		return true;
	err_set(e, ERR_INVALID, "%s", text);
	return err_detail(e, "parameter=%s", r->name);
}
