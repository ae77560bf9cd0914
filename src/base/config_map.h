/*
 * config_map.h
 *	  A flat, read-only view of a model's configuration.
 *
 * src/loader turns config.json (and generation_config.json under the prefix
 * "generation.") and GGUF metadata into one Conf in Hugging Face's key names,
 * nested objects joined by dots: "num_hidden_layers", "rope_scaling.factor",
 * "generation.temperature".  src/model reads only this, so an architecture is
 * written once for both file kinds.  Arrays of numbers and of strings are
 * kept.  A JSON null counts as absent, but for conf_is_null(); where a switch was
 * asked for it is off, as in Python.
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

/* Let what stands under a prefix stand without it, too, unless it does already. */
void		conf_lift(Conf *c, const char *prefix);

/* All there is, in the order in which it was set. */
void		conf_hash(const Conf *c, Blake2 *b);

/* There is a value, which is not null. */
bool		conf_has(const Conf *c, const char *key);
bool		conf_is_null(const Conf *c, const char *key);
/* Getters give the default when the key is absent or of another kind.  A switch that is null is off. */
int64_t		conf_int(const Conf *c, const char *key, int64_t dflt);
double		conf_num(const Conf *c, const char *key, double dflt);
bool		conf_bool(const Conf *c, const char *key, bool dflt);	/* the numbers 0 and 1 will do */
/* The first key that conf_num(), conf_int() or conf_bool() was asked for and that is of
 * another kind; NULL = none. */
const char *conf_misread(const Conf *c);
const char *conf_str(const Conf *c, const char *key, const char *dflt);
/* A single number counts as an array of one.  NULL, *n = 0 when absent. */
const double *conf_nums(const Conf *c, const char *key, size_t *n);
const char *const *conf_strs(const Conf *c, const char *key, size_t *n);

#endif
