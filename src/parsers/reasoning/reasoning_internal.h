/*
 * reasoning_internal.h
 *	  What a format of reasoning is.
 */
#ifndef VLLM_PARSERS_REASONING_REASONING_INTERNAL_H
#define VLLM_PARSERS_REASONING_REASONING_INTERNAL_H

#include "parsers/parsers.h"

/*
 * A format.  The rule: a start tag at the front, if it is there, is dropped; what comes
 * before the end tag is reasoning, what comes behind it content; without an end tag all
 * is reasoning.
 */
struct ReasonFormat
{
	const char *start;
	const char *end;
	bool		needs_start;	/* without it at the front, all is content */
	bool		anywhere;		/* the start mark may stand anywhere */
	const char *also_ends;		/* ends the thoughts, too, and is content */
	bool		lines;			/* newlines beside the tags are theirs */
	const char *open;			/* content may stand between these */
	const char *close;
	bool		off;			/* it only thinks if kwargs say so */
	bool		switched;		/* kwargs may say that it doesn't */
	bool		hold_off;		/* an end tag still counts if the prompt does not show reasoning */
	bool		special;		/* tags are special tokens */

	/* kinds of their own */
	bool		identity;
	bool		append;			/* content is the start tag and all */
	bool		phrases;
	bool		harmony;
};

#endif
