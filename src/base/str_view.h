/*
 * str_view.h
 *	  A view of a text, or of a part of one, that the view does not own.
 */
#ifndef VLLM_BASE_STR_VIEW_H
#define VLLM_BASE_STR_VIEW_H

#include <stddef.h>

typedef struct StrView
{
	const char *s;				/* not NUL-terminated; NULL = not given */
	size_t		n;				/* bytes */
} StrView;

#endif
