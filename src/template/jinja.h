/*
 * jinja.h
 *	  Chat templates: a sandboxed interpreter of the Jinja language.
 *
 * The reference is jinja2 3.1 as configured by Hugging Face transformers (ImmutableSandboxedEnvironment,
 * trim_blocks, lstrip_blocks, loop controls); docs/user/chat.md lists the differences.  A template is
 * compiled once and immutable afterwards, so any number of threads may render it.  A run has its own
 * variables, memory (an arena, released as a whole) and limits.
 *
 * Marks: every byte of every string comes either from the template or from input (messages, tools,
 * documents).  All operations propagate the marks, so that the output says of each byte where it came
 * from.  The tokenizer uses them so that input text can't become a special token (tok_encode_marked()).
 */
#ifndef VLLM_TEMPLATE_JINJA_H
#define VLLM_TEMPLATE_JINJA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"

typedef struct JinTemplate JinTemplate;
typedef struct Jin Jin;			/* a run */

/* 0 = the default */
typedef struct JinLimits
{
	int64_t		steps;			/* nodes evaluated, plus one for each 64 bytes copied or 4 bytes scanned */
	size_t		memory;			/* bytes of all values together */
	size_t		output;			/* bytes */
	int			depth;			/* nesting of calls and recursive loops */
} JinLimits;

/* What a template does with its variables, as far as its text shows. */
typedef struct JinUses
{
	bool		content_parts;	/* loops over a message's content */
	bool		string_test;	/* tests "is string" somewhere */
} JinUses;

/*
 * Compile a template.  Return NULL with *e set: ERR_INVALID, "... at line N: ...".  The source is
 * copied.  A compiled template takes at most about 50 times its source's memory.
 */
JinTemplate *jin_compile(const char *source, size_t n, Err *e);
void		jin_free(JinTemplate *t);
JinUses		jin_uses(const JinTemplate *t);
/* Return true if s occurs in the template's source. */
bool		jin_source_has(const JinTemplate *t, const char *s);

Jin		   *jin_new(const JinLimits *limits);
void		jin_end(Jin *j);

/*
 * Append the output to *out and one byte of marks for each of its bytes to *marks (1 = input; may be
 * NULL).  A run renders once.  Return false with *e set if the template raised an error (ERR_INVALID,
 * with the line), or a limit was exceeded (ERR_TOO_LONG).
 */
bool		jin_render(Jin *j, const JinTemplate *t, Buf *out, Buf *marks, Err *e);

#endif
