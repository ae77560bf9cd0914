/*
 * structured_options.h
 *	  Structured output: what a request says its answer must look like.
 *
 * docs/user/structured-output.md is the manual.  A request gives one kind (a JSON schema, a
 * regular expression, ...), by an option of its own, in "structured_outputs" or in
 * "response_format"; it becomes a GramSpec, from which the cache makes a Grammar,
 * and with that the core constrains the answer (guided_decoding.h).
 */
#ifndef VLLM_SERVER_REQUEST_STRUCTURED_OPTIONS_H
#define VLLM_SERVER_REQUEST_STRUCTURED_OPTIONS_H

#include "base/json/json_scan.h"
#include "grammar/grammar.h"
#include "ipc/wire.h"

/* As given; texts point into the request's message. */
typedef struct StructuredSpec
{
	StrView		schema;			/* .s = NULL: not given */
	const char *schema_name;	/* what gave it, for errors; NULL = json_schema */
	StrView		regex;
	StrView		grammar;
	StrView		outputs;		/* structured_outputs: a JSON object */
	StrView		format;			/* response_format: a JSON object */
	const char **choice;
	size_t	   *choice_len;
	size_t		n_choices;
	size_t		cap_choices;

	/* structured_check() */
	bool		given;			/* gram holds */
	const char *param;			/* name of the parameter that gave the grammar */
	bool		in_reasoning;	/* from the first token on, even if the model thinks first */
	GramSpec	gram;
	char	  **owned;			/* texts that gram points to */
	size_t		n_owned;
} StructuredSpec;

/* Fields of a message; *known = false if it is none. */
bool		structured_field(StructuredSpec *s, const WireField *f, bool *known, Err *e);
/* All fields are in: which kind is it?  ERR_INVALID with parameter=. */
bool		structured_check(StructuredSpec *s, Err *e);
void		structured_free(StructuredSpec *s);
/* There is no grammar, for *e: say of which parameter, and what can be done. */
void		structured_blame(const StructuredSpec *s, Err *e);

/*
 * Grammars by what they were made of, and the errors of those that could not be made;
 * the longest unused ones go first.  For any thread.
 */
typedef struct GrammarCache GrammarCache;

GrammarCache *grammar_cache_new(size_t max_bytes);
void		grammar_cache_free(GrammarCache *c);	/* for tests: the engine's lives as long as it */
/* Is it there, or would it be compiled? */
bool		grammar_cache_has(GrammarCache *c, const GramSpec *spec);
/* A reference.  Compiles if need be, which may take a second; who wants the same meanwhile waits. */
Grammar    *grammar_cache_get(GrammarCache *c, const GramSpec *spec, Err *e);

#endif
