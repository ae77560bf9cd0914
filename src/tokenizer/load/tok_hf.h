/*
 * tok_hf.h
 *	  Parts of the tokenizer.json reader, split by file.
 */
#ifndef VLLM_TOKENIZER_LOAD_TOK_HF_H
#define VLLM_TOKENIZER_LOAD_TOK_HF_H

#include "base/json/json.h"
#include "tokenizer/tokenizer_internal.h"

/* Member of a small object; NULL if absent, JSON null, or not an object. */
const Json *hf_get(const Json *obj, const char *key);
/* Its string, NULL if it isn't one. */
const char *hf_str(const Json *obj, const char *key);
bool		hf_bool(const Json *obj, const char *key, bool dflt);
/* The "type" of a component, "" if it has none. */
const char *hf_type(const Json *obj);
/* A token id; false if x isn't an integer in [0, TOK_MAX_ID). */
bool		hf_id(const Json *x, int32_t *id);

/* The components; x may be NULL.  false with *e set if not supported. */
bool		hf_normalizer(Tok *t, const Json *x, Err *e);
bool		hf_pre_tokenizer(Tok *t, const Json *x, Err *e);
bool		hf_decoder(Tok *t, const Json *x, PieceRules *r, Err *e);
bool		hf_post_processor(Tok *t, const Json *x, Err *e);

/* ERR_UNSUPPORTED: part "what"; false. */
bool		hf_unsupported(Err *e, const char *part, const char *what);
/* A literal of sane size, at least min bytes; false with *e set otherwise. */
bool		hf_literal(const char *s, size_t min, const char *part, Err *e);
/* {"pattern": {"String": ...}}; NULL if the pattern is another kind. */
const char *hf_string_pattern(const Json *x);

/* Append what base 64 text means; false if it isn't any. */
bool		hf_base64(const char *s, size_t len, Buf *out);
/* "bos_token": "<s>" or {"content": "<s>"}; -1 if absent or unknown. */
int32_t		hf_token(const Tok *t, const Json *config, const char *key);

/* nested Sequences deeper than this are refused */
#define HF_MAX_DEPTH	8

#endif
