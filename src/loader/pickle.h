/*
 * pickle.h
 *	  Read the contents of a pickle of torch.save() without executing any of it.
 */
#ifndef VLLM_LOADER_PICKLE_H
#define VLLM_LOADER_PICKLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str_view.h"
#include "blocks.h"

#define PICKLE_MAX_DIMS	8
/* Members of an object that are read.  Many names may lead to one object, which is searched for each. */
#define PICKLE_MAX_MEMBERS	64

typedef enum PickleKind
{
	PICKLE_OTHER, PICKLE_MARK, PICKLE_INT, PICKLE_WORD, PICKLE_NAME, PICKLE_TUPLE, PICKLE_LIST, PICKLE_DICT,
	PICKLE_STORAGE, PICKLE_TENSOR, PICKLE_OBJECT
} PickleKind;

typedef struct PickleValue
{
	PickleKind	kind;
	KType		type;			/* PICKLE_STORAGE; KT_COUNT: the tensor says it */
	/* PICKLE_INT: the value; STORAGE: elements; TUPLE, LIST, DICT: its box; TENSOR: its number; OBJECT:
	 * the box of its members, or -1 */
	int64_t		i;
	StrView		word;			/* PICKLE_WORD; STORAGE: its key; NAME, OBJECT: "module\nname" */
} PickleValue;

/* Items of a tuple, list or dictionary; of a dictionary, keys and values alternate. */
typedef struct PickleBox
{
	int32_t		first;			/* node, -1 = none */
	int32_t		last;
	int32_t		n;
} PickleBox;

typedef struct PickleNode
{
	PickleValue v;
	int32_t		next;
} PickleNode;

typedef struct PickleTensor
{
	KType		type;
	StrView		key;			/* of its storage */
	int64_t		stored;			/* elements of the storage */
	int64_t		offset;
	int			n_dims;
	int64_t		dim[PICKLE_MAX_DIMS];
	int64_t		stride[PICKLE_MAX_DIMS];
} PickleTensor;

typedef struct Pickle Pickle;

/*
 * Read a pickle; the result points into the caller's bytes.  If weights is true, the pickle is a
 * model's, with dictionaries and the quantized tensors of TorchAO; else it is one tensor of floats.
 * Return NULL on error; anything unknown is ERR_UNSUPPORTED.
 */
Pickle	   *pickle_read(StrView text, bool weights, Err *e);
void		pickle_free(Pickle *k);
const PickleValue *pickle_top(const Pickle *k);
const PickleBox *pickle_box(const Pickle *k, const PickleValue *v);
const PickleNode *pickle_node(const Pickle *k, int32_t i);	/* NULL for -1 */
const PickleTensor *pickle_tensor(const Pickle *k, const PickleValue *v);
/* Return the value under one of the first PICKLE_MAX_MEMBERS keys of a dictionary or of an object's members,
 * NULL if there is none. */
const PickleValue *pickle_member(const Pickle *k, const PickleValue *v, const char *key);
/* Return true if v is an object of this TorchAO class, in whichever module TorchAO defines the class. */
bool		pickle_is_torchao(const PickleValue *v, const char *class_name);

#endif
