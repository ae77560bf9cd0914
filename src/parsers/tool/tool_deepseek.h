/*
 * tool_deepseek.h
 *	  Marks of DeepSeek's calls: bars are U+FF5C, low lines U+2581.
 */
#ifndef VLLM_PARSERS_TOOL_TOOL_DEEPSEEK_H
#define VLLM_PARSERS_TOOL_TOOL_DEEPSEEK_H

#include "parsers/tool/tool_internal.h"

#define DS_BAR		"\xEF\xBD\x9C"
#define DS_LOW		"\xE2\x96\x81"
#define DS_CALLS	"<" DS_BAR "tool" DS_LOW "calls" DS_LOW "begin" DS_BAR ">"
#define DS_CALL		"<" DS_BAR "tool" DS_LOW "call" DS_LOW "begin" DS_BAR ">"
#define DS_CALL_END "<" DS_BAR "tool" DS_LOW "call" DS_LOW "end" DS_BAR ">"
#define DS_SEP		"<" DS_BAR "tool" DS_LOW "sep" DS_BAR ">"

#endif
