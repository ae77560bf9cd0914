/*
 * json_scan.h
 *	  Examine a JSON text without making a tree: how many values it has, and where the members of an
 *	  object are.
 *
 * A tree has a node of 88 bytes for each value (json.h), and two bytes of text can make one ("[0,0,0"),
 * so a file of 100 MB could become 5 GB.  Callers therefore count the values first.
 */
#ifndef VLLM_BASE_JSON_JSON_SCAN_H
#define VLLM_BASE_JSON_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str_view.h"

/*
 * Return an upper bound of the number of values in the text, or in its valid prefix.  Stops counting as
 * soon as the number exceeds max.
 */
size_t		json_values(const char *s, size_t n, size_t max);

/*
 * Return true if the text has U+0000, as a byte or as an escape: strings of a tree (json.h) would look
 * shorter.  A backslash before the escape's own makes it six plain characters.
 */
bool		json_has_nul(const char *s, size_t n);

/* Position in an object or array that is being read. */
typedef struct JsonMembers
{
	const char *p;
	const char *end;
	bool		first;
} JsonMembers;

/* Start to read the members of the object s[0..n); returns false if it is not an object. */
bool		json_members(JsonMembers *m, const char *s, size_t n);
/*
 * Read the next member and return 1.  Returns 0 if there are no more and nothing follows the object, -1
 * if the text is not JSON.  The key is without its quotes, with its escapes not undone.  A value is only
 * scanned for its end, not checked.
 */
int			json_member(JsonMembers *m, StrView *key, StrView *value);
/* The same for the elements of an array. */
bool		json_elements(JsonMembers *m, const char *s, size_t n);
int			json_element(JsonMembers *m, StrView *value);

#endif
