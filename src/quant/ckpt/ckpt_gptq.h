/*
 * ckpt_gptq.h
 *	  Private to the methods that share GPTQ's layout.
 */
#ifndef VLLM_QUANT_CKPT_CKPT_GPTQ_H
#define VLLM_QUANT_CKPT_CKPT_GPTQ_H

#include "base/json/json.h"
#include "quant/ckpt/ckpt_internal.h"

/* Further keys of AutoRound's exports in GPTQ's and AWQ's formats; gptq_plain_integers() reads them. */
#define GPTQ_EXPORTED "int int_sym"
#define GPTQ_EXPORTED_KEYS "data_type act_bits act_data_type act_group_size act_sym act_dynamic super_bits " \
	"super_group_size"

typedef struct GptqSpec
{
	int64_t		bits;			/* 16 and more: not quantized */
	int64_t		group;			/* columns, -1 = all */
	bool		sym;
	bool		desc_act;		/* columns were reordered, */
	bool		static_groups;	/* but after the groups were made: groups are consecutive */
	bool		v2;				/* zero points are stored as they are */
	bool		marlin;			/* in Marlin's order */
} GptqSpec;

/* Read the settings of an object (these, by their names in the files) over those of *s. */
bool		gptq_settings(const Json *o, GptqSpec *s, Err *e);
/* Check settings that AutoRound writes, also in other tools' formats: fail unless the weights are plain
 * integers and nothing else is quantized. */
bool		gptq_plain_integers(const Json *o, const char *data_types, Err *e);
/* Describe a module's tensors in r: in GPTQ's layout, in AWQ's first layout, or in Marlin's (where
 * tensors have different names in different tools). */
bool		gptq_reader(Ckpt *c, CkptReader *r, const char *module, const GptqSpec *s, Err *e);
bool		awq_reader(Ckpt *c, CkptReader *r, const char *module, const GptqSpec *s, Err *e);
bool		marlin_reader(Ckpt *c, CkptReader *r, const char *module, const GptqSpec *s, Err *e);

#endif
