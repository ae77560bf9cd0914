/*
 * json_scan.h
 *	  What can be told of a JSON text without making a tree of it: how much a tree would
 *	  take, and where the members of an object stand.
 *
 * A tree has a node of 88 bytes for each value (json.h), and two bytes of text are enough
 * for one ("[0,0,0"): a file of 100 MB would become 5 GB.  So values are counted first.
 */
#ifndef VLLM_BASE_JSON_JSON_SCAN_H
#define VLLM_BASE_JSON_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str_view.h"

/*
 * At least as many as there are values in the text, or in as much of it as is JSON; ends
 * when there are more than max.
 */
size_t		json_values(const char *s, size_t n, size_t max);

/* Where the reading of an object, or an array, stands. */
typedef struct JsonMembers
{
	const char *p;
	const char *end;
	bool		first;
} JsonMembers;

/* Begin with the members of the object s[0..n); false if it is none. */
bool		json_members(JsonMembers *m, const char *s, size_t n);
/*
 * The next one: 1; 0: there are no more, and nothing stands behind the object; -1: the text is not
 * JSON.  The key is without its quotes, and its escapes are not undone.  A value's own inside isn't
 * looked at but for where it ends.
 */
int			json_member(JsonMembers *m, StrView *key, StrView *value);
/* The same of an array's elements. */
bool		json_elements(JsonMembers *m, const char *s, size_t n);
int			json_element(JsonMembers *m, StrView *value);

#endif
