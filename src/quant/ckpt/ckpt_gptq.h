/*
 * ckpt_gptq.h
 *	  Private to the methods that share GPTQ's layout.
 */
#ifndef VLLM_QUANT_CKPT_CKPT_GPTQ_H
#define VLLM_QUANT_CKPT_CKPT_GPTQ_H

#include "base/json/json.h"
#include "quant/ckpt/ckpt_internal.h"

/* What AutoRound's exports in GPTQ's and AWQ's formats have besides, which gptq_plain_integers() reads. */
#define GPTQ_EXPORTED "int int_sym"
#define GPTQ_EXPORTED_KEYS "data_type act_bits act_data_type act_group_size act_sym act_dynamic super_bits " \
	"super_group_size"

typedef struct GptqSpec
{
	int64_t		bits;			/* 16 and more: not quantized */
	int64_t		group;			/* columns, -1 = all */
	bool		sym;
	bool		desc_act;		/* columns were ordered, */
	bool		static_groups;	/* but after groups had been made: these are in place */
	bool		v2;				/* zero points are stored as they are */
	bool		marlin;			/* in the order of Marlin */
} GptqSpec;

/* Settings of an object (these, by their names in the files) on top of those of *s. */
bool		gptq_settings(const Json *o, GptqSpec *s, Err *e);
/* Of what AutoRound writes, also in others' formats: an error unless codes alone are integers. */
bool		gptq_plain_integers(const Json *o, const char *data_types, Err *e);
/* Describe a module's tensors in r, in GPTQ's layout, in AWQ's first one, or in Marlin's (whose
 * tensors have several names). */
bool		gptq_reader(Ckpt *c, CkptReader *r, const char *module, const GptqSpec *s, Err *e);
bool		awq_reader(Ckpt *c, CkptReader *r, const char *module, const GptqSpec *s, Err *e);
bool		marlin_reader(Ckpt *c, CkptReader *r, const char *module, const GptqSpec *s, Err *e);

#endif
