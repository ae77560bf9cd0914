/*
 * field_range.c
 *	  The range of each number in a request (field_range.h).
 *
 * Tested by tests/unit/ipc/test_wire.c.
 */
#include "ipc/field_range.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>

#define RANGE_INT(name, least, most, rule, dflt) {#name, true, least, most, rule, dflt}
#define RANGE_NUM(name, least, most, rule, dflt) {#name, false, least, most, rule, dflt}
#define NONE NAN
#define RANGE_BIG(...) {0}
#define RANGE_BOOL(...) {0}
#define RANGE_STR(...) {0}
#define RANGE_STRS(...) {0}
#define RANGE_IDS(...) {0}
#define RANGE_JSON(...) {0}

static const FieldRange ranges[] = {
#define FIELD(tag, number, name, type, least, most, rule, body, endpoint, dflt, reader) \
	[number] = RANGE_##type(name, least, most, rule, dflt),
#define CALL_OPTION(...)
#define POOL_FIELD(tag, number, name, tasks, type, least, most, rule) \
	[number] = RANGE_##type(name, least, most, rule, NONE),
#include "ipc/request_fields.def"
#include "ipc/pooling_fields.def"
#undef POOL_FIELD
#undef FIELD
#undef CALL_OPTION
};
#define N_RANGES ((int) (sizeof(ranges) / sizeof(ranges[0])))

const FieldRange *
field_range(int tag)
{
	return tag >= 0 && tag < N_RANGES && ranges[tag].name != NULL ? &ranges[tag] : NULL;
}

bool
field_range_ok(const FieldRange *r, double v, char *text, size_t n)
{
	/* NaN fails every comparison, so it is out of range */
	if (v >= r->least && v <= r->most)
		return true;
	/* a range without an upper bound ends at INT_MAX */
	if (r->whole && r->most == INT_MAX && v > r->most)
		snprintf(text, n, "%s must be at most %d, got %.0f", r->name, INT_MAX, v);
	else
		snprintf(text, n, r->whole ? "%s %s, got %.0f" : "%s %s, got %g", r->name, r->rule, v);
	return false;
}

bool
field_range_read(const FieldRange *r, const WireField *f, char *text, size_t n)
{
	return field_range_ok(r, r->whole ? (double) f->i : f->num, text, n);
}
