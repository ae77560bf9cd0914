/*
 * tiny_conf.h
 *	  The base configuration for tests of src/model: hidden 8, 2 heads of 4, 1 kv head, inter 12, 2
 *	  layers; without a class.
 */
#ifndef VLLM_TESTS_UNIT_MODEL_TINY_CONF_H
#define VLLM_TESTS_UNIT_MODEL_TINY_CONF_H

#include "base/config_map.h"

static inline Conf *
tiny_conf(void)
{
	Conf	   *c = conf_new();

	conf_set_int(c, "hidden_size", 8);
	conf_set_int(c, "intermediate_size", 12);
	conf_set_int(c, "num_hidden_layers", 2);
	conf_set_int(c, "num_attention_heads", 2);
	conf_set_int(c, "num_key_value_heads", 1);
	conf_set_int(c, "vocab_size", 10);
	conf_set_int(c, "max_position_embeddings", 64);
	return c;
}

#endif
