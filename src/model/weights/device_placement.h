/*
 * device_placement.h
 *	  Private to src/model: weights and work space in a device's memory.
 *
 * Both are laid out on the host as without a device.  Weights are packed there, or mapped from the cache, and
 * put on the device as they are; what the host has stays, for what reads a row on its own.  Of the work space
 * only tables are ever written on the host.  Then every pointer is moved by as much as the device's memory is
 * away.
 */
#ifndef VLLM_MODEL_WEIGHTS_DEVICE_PLACEMENT_H
#define VLLM_MODEL_WEIGHTS_DEVICE_PLACEMENT_H

#include "model/decoder.h"

/* Before dec_unbind(): matrices, biases and vectors.  ERR_NOMEM, ERR_LOST.  Without a device nothing. */
bool		dec_place(Decoder *d, Err *e);
/* The device's memory is given back, and taken again with what the host has, which comes from there. */
void		dec_leave(Decoder *d);
bool		dec_return(Decoder *d, Err *e);
/* Ops have nothing of its experts' arrays any more, which are about to change or go. */
void		dec_forget_stacks(const Decoder *d);
/* Where the host has a vector of the weights. */
const float *dec_host(const Decoder *d, const float *p);
/* Where the host has a matrix of the weights, for mat_row. */
KMat		dec_host_mat(const Decoder *d, const KMat *m);

/* A pointer to a piece of the work space. */
typedef struct PlacePiece
{
	float	  **at;
	size_t		table;			/* bytes that the host has written; 0: none */
} PlacePiece;

/* All tables are made. */
bool		dec_place_work(Decoder *d, const PlacePiece *p, size_t n, Err *e);

#endif
