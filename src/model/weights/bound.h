/*
 * bound.h
 *	  The tensors that an architecture's bind function has requested (layers/bind.h), for the code that
 *	  makes weights from them: packing, placement on devices, sharing among ranks.
 */
#ifndef VLLM_MODEL_WEIGHTS_BOUND_H
#define VLLM_MODEL_WEIGHTS_BOUND_H

#include "model/decoder.h"

/* How a table's elements are converted. */
typedef enum BindMap
{
	BIND_SAME,
	BIND_MINUS_EXP,				/* -e^x */
	BIND_TURNED					/* transpose [n / cols][cols] to [cols][n / cols] */
} BindMap;

typedef struct BoundVector
{
	float	  **to;
	const KTensor *src;
	float		plus;			/* added to each element */
	BindMap		map;
	int			cols;
	int			at;				/* offset of this piece of a vector of `of` elements; of = 0: the whole
								 * vector */
	int			of;
} BoundVector;

struct Bound
{
	Linear	  **linears;
	size_t		n_linears;
	BoundVector *vectors;
	size_t		n_vectors;
	void	  **views;			/* tensors and permutations made while binding, freed with this struct */
	size_t		n_views;
};

/* Return true if the parts of l become one matrix: they have one type, and their inputs one static scale. */
bool		bound_merges(const Linear *l);

#endif
