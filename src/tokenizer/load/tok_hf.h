/*
 * tok_hf.h
 *	  Functions shared by the files of the tokenizer.json reader.
 */
#ifndef VLLM_TOKENIZER_LOAD_TOK_HF_H
#define VLLM_TOKENIZER_LOAD_TOK_HF_H

#include "base/json/json.h"
#include "tokenizer/tokenizer_internal.h"

/* Return a member of a small object; NULL if absent, JSON null, or obj is not an object. */
const Json *hf_get(const Json *obj, const char *key);
/* Return its string, NULL if it isn't one. */
const char *hf_str(const Json *obj, const char *key);
bool		hf_bool(const Json *obj, const char *key, bool dflt);
/* Return the "type" of a component, "" if it has none. */
const char *hf_type(const Json *obj);
/* Read a token id; return false if x isn't an integer in [0, TOK_MAX_ID). */
bool		hf_id(const Json *x, int32_t *id);

/* Read the components; x may be NULL.  Return false with *e set if one isn't supported. */
bool		hf_normalizer(Tok *t, const Json *x, Err *e);
bool		hf_pre_tokenizer(Tok *t, const Json *x, Err *e);
bool		hf_decoder(Tok *t, const Json *x, PieceRules *r, Err *e);
bool		hf_post_processor(Tok *t, const Json *x, Err *e);

/* Set ERR_UNSUPPORTED for `what` of a part; return false. */
bool		hf_unsupported(Err *e, const char *part, const char *what);
/* Check that a literal has at least min bytes and isn't too long; return false with *e set otherwise. */
bool		hf_literal(const char *s, size_t min, const char *part, Err *e);
/* Return the string of {"pattern": {"String": ...}}; NULL if the pattern is of another kind. */
const char *hf_string_pattern(const Json *x);

/* Decode base 64 and append the bytes; return false if the text isn't base 64. */
bool		hf_base64(const char *s, size_t len, Buf *out);
/* Return the id of "bos_token": "<s>" or {"content": "<s>"}; -1 if absent or unknown. */
int32_t		hf_token(const Tok *t, const Json *config, const char *key);

/* Sequences nested deeper than this are refused. */
#define HF_MAX_DEPTH	8

#endif
