/*
 * structured_options.h
 *	  Structured output: the constraints that a request puts on its output.
 *
 * docs/user/structured-output.md is the manual.  A request gives one kind (a JSON schema, a regular
 * expression, ...), by an option of its own, in "structured_outputs" or in "response_format".  It
 * becomes a GramSpec, from which the cache makes a Grammar, with which the core constrains the output
 * (guided_decoding.h).
 */
#ifndef VLLM_SERVER_REQUEST_STRUCTURED_OPTIONS_H
#define VLLM_SERVER_REQUEST_STRUCTURED_OPTIONS_H

#include "base/json/json_scan.h"
#include "grammar/grammar.h"
#include "ipc/wire.h"

/* The options as given; texts point into the request's message. */
typedef struct StructuredSpec
{
	StrView		schema;			/* .s = NULL: not given */
	const char *schema_name;	/* the parameter that gave it, for errors; NULL = json_schema */
	StrView		regex;
	StrView		grammar;
	StrView		outputs;		/* structured_outputs: a JSON object */
	StrView		format;			/* response_format: a JSON object */
	const char **choice;
	size_t	   *choice_len;
	size_t		n_choices;
	size_t		cap_choices;

	/* set by structured_check() */
	bool		given;			/* gram is valid */
	const char *param;			/* name of the parameter that gave the grammar */
	bool		in_reasoning;	/* applies from the first token on, even if the model reasons first */
	GramSpec	gram;
	char	  **owned;			/* texts that gram points into */
	size_t		n_owned;
} StructuredSpec;

/* Take a field of a message; *known = false if it is not about structured output. */
bool		structured_field(StructuredSpec *s, const WireField *f, bool *known, Err *e);
/* All fields have been read: determine the kind.  ERR_INVALID with parameter=. */
bool		structured_check(StructuredSpec *s, Err *e);
void		structured_free(StructuredSpec *s);
/* Add to *e, the error of a grammar, which parameter gave it, and a hint. */
void		structured_blame(const StructuredSpec *s, Err *e);

/*
 * Grammars by their source, and the errors of those that could not be compiled; the least recently used
 * ones are dropped first.  Any thread.
 */
typedef struct GrammarCache GrammarCache;

GrammarCache *grammar_cache_new(size_t max_bytes);
/* for tests: the engine's cache lives as long as the process */
void		grammar_cache_free(GrammarCache *c);
/* Is the grammar cached, or must it be compiled? */
bool		grammar_cache_has(GrammarCache *c, const GramSpec *spec);
/*
 * Return a reference.  Compiles the grammar if it is not cached, which may take a second; other threads
 * that want the same one wait meanwhile.
 */
Grammar    *grammar_cache_get(GrammarCache *c, const GramSpec *spec, Err *e);

#endif
