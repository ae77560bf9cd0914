/*
 * bound.h
 *	  What an architecture's bind function has asked for (layers/bind.h), for those that make weights of it:
 *	  packing, placement on devices, sharing among ranks.
 */
#ifndef VLLM_MODEL_WEIGHTS_BOUND_H
#define VLLM_MODEL_WEIGHTS_BOUND_H

#include "model/decoder.h"

/* What becomes of a table's elements. */
typedef enum BindMap
{
	BIND_SAME,
	BIND_MINUS_EXP,				/* -e^x */
	BIND_TURNED					/* [n / cols][cols] to [cols][n / cols] */
} BindMap;

typedef struct BoundVector
{
	float	  **to;
	const KTensor *src;
	float		plus;			/* added to each element */
	BindMap		map;
	int			cols;
	int			at;				/* it is a piece of a vector of `of` elements; of 0: it is all */
	int			of;
} BoundVector;

struct Bound
{
	Linear	  **linears;
	size_t		n_linears;
	BoundVector *vectors;
	size_t		n_vectors;
	void	  **views;			/* tensors and permutations made here, freed with this */
	size_t		n_views;
};

#endif
