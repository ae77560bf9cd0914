/*
 * json_schema.h
 *	  Compile JSON Schema to a grammar.
 */
#ifndef VLLM_GRAMMAR_SCHEMA_JSON_SCHEMA_H
#define VLLM_GRAMMAR_SCHEMA_JSON_SCHEMA_H

#include "grammar/cfg/cfg.h"
#include "grammar/grammar.h"

/*
 * Build the node of all JSON texts that are valid under the schema, as the options say.  Keywords that
 * can't be expressed are ERR_UNSUPPORTED by name, a malformed schema is ERR_INVALID.
 */
bool		schema_build(Cfg *c, const char *schema, size_t n, const GramOptions *o, CfgNode *out, Err *e);
/* Build any JSON object (object) or any JSON value. */
bool		schema_any(Cfg *c, bool object, const GramOptions *o, CfgNode *out, Err *e);

#endif
