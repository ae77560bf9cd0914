/*
 * tok_hf.h
 *	  Parts of the tokenizer.json reader, split by file.
 */
#ifndef VLLM_TEXT_TOK_HF_H
#define VLLM_TEXT_TOK_HF_H

#include <cjson/cJSON.h>

#include "text/tok_impl.h"

/* Member of a small object; NULL if absent, JSON null, or not an object. */
const cJSON *hf_get(const cJSON *obj, const char *key);
/* Its string, NULL if it isn't one. */
const char *hf_str(const cJSON *obj, const char *key);
bool		hf_bool(const cJSON *obj, const char *key, bool dflt);
/* The "type" of a component, "" if it has none. */
const char *hf_type(const cJSON *obj);
/* A token id; false if x isn't an integer in [0, TOK_MAX_ID). */
bool		hf_id(const cJSON *x, int32_t *id);

/* The components; x may be NULL.  false with *e set if not supported. */
bool		hf_normalizer(Tok *t, const cJSON *x, Err *e);
bool		hf_pre_tokenizer(Tok *t, const cJSON *x, Err *e);
bool		hf_decoder(Tok *t, const cJSON *x, PieceRules *r, Err *e);
bool		hf_post_processor(Tok *t, const cJSON *x, Err *e);

#endif
