/*
 * reasoning_internal.h
 *	  The description of a reasoning format.
 */
#ifndef VLLM_PARSERS_REASONING_REASONING_INTERNAL_H
#define VLLM_PARSERS_REASONING_REASONING_INTERNAL_H

#include "parsers/parsers.h"

/*
 * A format.  The rule: a start tag at the front, if there is one, is dropped; the text before the end
 * tag is reasoning, the text after it content; without an end tag all is reasoning.
 */
struct ReasonFormat
{
	const char *start;
	const char *end;
	bool		needs_start;	/* without the start tag at the front, all is content */
	bool		anywhere;		/* the start mark may be anywhere */
	const char *also_ends;		/* also ends the reasoning, and is content */
	bool		lines;			/* newlines beside the tags belong to them */
	const char *open;			/* content may be enclosed in these */
	const char *close;
	bool		off;			/* the model reasons only if kwargs say so */
	bool		switched;		/* kwargs may turn reasoning off */
	bool		hold_off;		/* with reasoning off, an end tag still counts if the prompt does not show
								 * that */
	bool		special;		/* tags are special tokens */

	/* special kinds */
	bool		identity;
	bool		append;			/* the start tag and all text is content */
	bool		phrases;
	bool		harmony;
};

#endif
