/*
 * tool_choice.h
 *	  tool_choice "required" or a named tool: the JSON schema that the output must match.
 */
#ifndef VLLM_SERVER_REQUEST_TOOL_CHOICE_H
#define VLLM_SERVER_REQUEST_TOOL_CHOICE_H

#include "base/buf.h"
#include "base/err.h"

/*
 * Append the schema to *out.  tools: the request's, JSON text.  named: only this tool, and the schema is
 * that of its parameters; NULL: an array of at least one {"name", "parameters"} (one_call: of exactly
 * one).  Definitions ($defs) with the same name that differ are an error.
 */
bool		toolchoice_schema(const char *tools, size_t n, const char *named, bool one_call, Buf *out,
							  Err *e);

#endif
