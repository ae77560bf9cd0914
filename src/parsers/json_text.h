/*
 * json_text.h
 *	  JSON texts within text: read one value, and write it in one form.
 *
 * Arguments are handed on as text.  The form is that of Python's json.dumps with
 * ensure_ascii=False, which clients of OpenAI-like servers know: a blank behind ':' and
 * ',', no other white space, characters as themselves.  Numbers stay digit by digit as
 * they were written: a tree of doubles, as cJSON's, would change long ones.
 */
#ifndef VLLM_PARSERS_JSON_TEXT_H
#define VLLM_PARSERS_JSON_TEXT_H

#include "base/buf.h"
#include "parsers/text_span.h"

#define JTEXT_DEPTH		200		/* values within each other */

/* Read one value, and append it to out (NULL: skip it).  False: there is none; s is anywhere. */
bool		jtext_value(Span *s, Buf *out);
/* The same where control characters may stand in strings as they are. */
bool		jtext_value_lax(Span *s, Buf *out);
/* All of s is one value; else out is as before. */
bool		jtext_whole(Span s, Buf *out);
/* Read a string, and append what it says. */
bool		jtext_string(Span *s, Buf *out);

#endif
