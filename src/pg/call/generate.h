/*
 * generate.h
 *	  The functions in engine_func.def's rows.
 */
#ifndef VLLM_PG_CALL_GENERATE_H
#define VLLM_PG_CALL_GENERATE_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/array.h"

#include "pg/call/engine_func.h"

#define GEN_STREAM		1		/* the reply has WF_TEXT frames as tokens arrive */
#define GEN_WANT_IDS	2		/* the reply has token ids */
#define GEN_ANSWERS		4		/* several outputs, and log-probabilities */
#define GEN_BEAMS		8		/* a beam search */
#define GEN_PIN			16		/* for local models: pins their KV cache */

/* Make the head of a WK_GENERATE: model, its privileges, options.  flags: GEN_*. */
void		generate_head_with(SqlRequest *r, FunctionCallInfo fcinfo, int flags);
struct GenOptions;				/* options.h */

/* Like generate_head_with(), with options that have been read. */
void		generate_head_of(SqlRequest *r, const struct GenOptions *options, int flags);

/* Append the parser of a setting, if it names one.  A model's own parser has precedence. */
void		generate_put_parser(WireOut *out, WireTag tag, const char *name);

/*
 * Make the head of a request that needs a model, or only its tokenizer or template.  arg: number of
 * the argument with its name.
 */
void		generate_model_head(SqlRequest *r, WireKind kind, FunctionCallInfo fcinfo, int arg);

/* Return a streamed request's frames as a set, one value per call. */
Datum		generate_stream(FunctionCallInfo fcinfo,
							void (*request) (SqlRequest *r, FunctionCallInfo fcinfo));

/* Read a stream's next frame with content, WF_TEXT or WF_DONE; flush to the client before sleeping. */
void		generate_next(ClientCall *call, CallFrame *f);

/*
 * Return an error if a prompt, or a tokenizer's input, is longer than vllm.max_prompt_bytes, else
 * NULL.
 */
ErrorData  *generate_check_length(const char *what, const text *t);

/* generate.c */
void		generate_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		generate_full_head(SqlRequest *r, FunctionCallInfo fcinfo);
ErrorData  *generate_input(SqlRequest *r, FunctionCallInfo fcinfo);
/* token ids instead of a text */
ErrorData  *generate_ids_input(SqlRequest *r, FunctionCallInfo fcinfo);
Datum		generate_result(const Reply *reply, Oid rettype, bool *isnull);
Datum		generate_full_result(const Reply *reply, Oid rettype, bool *isnull);

/* embeds_generate.c; their results are generate_result(), output_result() */
void		embeds_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		embeds_output_head(SqlRequest *r, FunctionCallInfo fcinfo);
ErrorData  *embeds_input(SqlRequest *r, FunctionCallInfo fcinfo);
/* its input is tokenize_input() */
void		token_embeds_head(SqlRequest *r, FunctionCallInfo fcinfo);
Datum		token_embeds_result(const Reply *reply, Oid rettype, bool *isnull);

/* outputs.c; their input is generate_input() */
void		output_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		chat_full_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		beams_head(SqlRequest *r, FunctionCallInfo fcinfo);
Datum		output_result(const Reply *reply, Oid rettype, bool *isnull);
Datum		beams_result(const Reply *reply, Oid rettype, bool *isnull);

/* tokenize.c */
void		tokenize_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		count_tokens_head(SqlRequest *r, FunctionCallInfo fcinfo);
/* pin_prefix.c */
void		pin_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		unpin_head(SqlRequest *r, FunctionCallInfo fcinfo);
Datum		pin_result(const Reply *reply, Oid rettype, bool *isnull);
void		detokenize_head(SqlRequest *r, FunctionCallInfo fcinfo);
ErrorData  *tokenize_input(SqlRequest *r, FunctionCallInfo fcinfo);
ErrorData  *detokenize_input(SqlRequest *r, FunctionCallInfo fcinfo);
Datum		tokenize_result(const Reply *reply, Oid rettype, bool *isnull);
Datum		count_tokens_result(const Reply *reply, Oid rettype, bool *isnull);
Datum		detokenize_result(const Reply *reply, Oid rettype, bool *isnull);

/* reduce.c */
void		reduce_head(SqlRequest *r, FunctionCallInfo fcinfo);
ErrorData  *reduce_input(SqlRequest *r, FunctionCallInfo fcinfo);

/* grammar_functions.c */
void		grammar_head(SqlRequest *r, FunctionCallInfo fcinfo);
ErrorData  *grammar_input(SqlRequest *r, FunctionCallInfo fcinfo);
Datum		grammar_result(const Reply *reply, Oid rettype, bool *isnull);

/* parse_output.c */
void		parse_tools_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		parse_reasoning_head(SqlRequest *r, FunctionCallInfo fcinfo);
ErrorData  *parse_tools_input(SqlRequest *r, FunctionCallInfo fcinfo);
ErrorData  *parse_reasoning_input(SqlRequest *r, FunctionCallInfo fcinfo);
Datum		parse_reasoning_result(const Reply *reply, Oid rettype, bool *isnull);

/* chunk.c; its input is tokenize_input() */
void		chunk_head(SqlRequest *r, FunctionCallInfo fcinfo);
Datum		chunk_result(const Reply *reply, Oid rettype, bool *isnull);
/* Return the chunks of a text as text *, from chunk_result()'s array. */
List	   *chunk_texts(text *input, ArrayType *spans);

/* chat.c */
/* Append the options of chat rendering that the function has arguments for. */
void		chat_put_template(SqlRequest *r, FunctionCallInfo fcinfo);
/* Append one turn: the system message if there is one, and the user's message. */
void		chat_put_turn(SqlRequest *r, const text *system, const char *user, size_t n);
void		chat_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		ask_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		render_chat_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		tokenize_chat_head(SqlRequest *r, FunctionCallInfo fcinfo);
ErrorData  *chat_input(SqlRequest *r, FunctionCallInfo fcinfo);
ErrorData  *ask_input(SqlRequest *r, FunctionCallInfo fcinfo);
Datum		chat_result(const Reply *reply, Oid rettype, bool *isnull);
/* the text without the white space at its beginning: llm_chat_text, llm_ask, llm_reduce */
Datum		answer_result(const Reply *reply, Oid rettype, bool *isnull);

/* generate_as.c */
void		generate_json_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		generate_as_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		extract_head(SqlRequest *r, FunctionCallInfo fcinfo);
void		extract_json_head(SqlRequest *r, FunctionCallInfo fcinfo);
ErrorData  *extract_input(SqlRequest *r, FunctionCallInfo fcinfo);
ErrorData  *extract_json_input(SqlRequest *r, FunctionCallInfo fcinfo);
Datum		generate_json_result(const Reply *reply, Oid rettype, bool *isnull);
Datum		generate_as_result(const Reply *reply, Oid rettype, bool *isnull);

#endif
