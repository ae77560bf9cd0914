/*
 * config_map.h
 *	  A flat, read-only view of a model's configuration.
 *
 * src/loader turns config.json (and generation_config.json under the prefix "generation.") and GGUF
 * metadata into one Conf in Hugging Face's key names, nested objects joined by dots:
 * "num_hidden_layers", "rope_scaling.factor", "generation.temperature".  src/model reads only this, so
 * an architecture is written once for both file kinds.  Arrays of numbers and of strings are kept.  A
 * JSON null counts as absent, except that conf_is_null() reports it and conf_bool() returns false for
 * it, as Python does.
 */
#ifndef VLLM_BASE_CONFIG_MAP_H
#define VLLM_BASE_CONFIG_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/blake2.h"

typedef struct Conf Conf;

Conf	   *conf_new(void);
void		conf_free(Conf *c);

/* Setters copy; a second set of a key replaces the first. */
void		conf_set_int(Conf *c, const char *key, int64_t v);
void		conf_set_num(Conf *c, const char *key, double v);
void		conf_set_bool(Conf *c, const char *key, bool v);
void		conf_set_str(Conf *c, const char *key, const char *v);
void		conf_set_nums(Conf *c, const char *key, const double *v, size_t n);
void		conf_set_strs(Conf *c, const char *key, const char *const *v, size_t n);
void		conf_set_null(Conf *c, const char *key);

/* Copy each entry under `prefix` to the key without the prefix, unless that key is already set. */
void		conf_lift(Conf *c, const char *prefix);

/* Add all entries to the hash, in the order in which they were set. */
void		conf_hash(const Conf *c, Blake2 *b);

/* Return true if the key has a value other than null. */
bool		conf_has(const Conf *c, const char *key);
bool		conf_is_null(const Conf *c, const char *key);
/*
 * Getters return dflt if the key is absent or its value has another type.  conf_bool() returns false for
 * null.
 */
int64_t		conf_int(const Conf *c, const char *key, int64_t dflt);
double		conf_num(const Conf *c, const char *key, double dflt);
bool		conf_bool(const Conf *c, const char *key, bool dflt);	/* also accepts the numbers 0 and 1 */
/*
 * Return the first key whose value had another type than conf_num(), conf_int() or conf_bool() expected;
 * NULL = none.
 */
const char *conf_misread(const Conf *c);
const char *conf_str(const Conf *c, const char *key, const char *dflt);
/* A single number counts as an array of one.  Returns NULL with *n = 0 if the key is absent. */
const double *conf_nums(const Conf *c, const char *key, size_t *n);
const char *const *conf_strs(const Conf *c, const char *key, size_t *n);

#endif
