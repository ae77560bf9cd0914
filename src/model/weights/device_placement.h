/*
 * device_placement.h
 *	  Private to src/model: weights and work space in a device's memory.
 *
 * Both are laid out on the host as without a device.  Weights are packed on the host, or mapped from the
 * cache, and copied to the device unchanged; the host copy stays, for functions that read single rows.
 * In the work space the host writes only tables.  Then every pointer is moved by the distance between
 * host memory and device memory.
 */
#ifndef VLLM_MODEL_WEIGHTS_DEVICE_PLACEMENT_H
#define VLLM_MODEL_WEIGHTS_DEVICE_PLACEMENT_H

#include "model/decoder.h"

/* Copy matrices, biases and vectors to the device; call before dec_unbind().  ERR_NOMEM, ERR_LOST.  Does
 * nothing without a device. */
bool		dec_place(Decoder *d, Err *e);
/* Give the device's memory back; take it again and copy the host's weights to it. */
void		dec_leave(Decoder *d);
bool		dec_return(Decoder *d, Err *e);
/* Make ops forget arrays of experts, which are about to change or to be freed. */
void		dec_forget_stacks(const Decoder *d);
/* Return the host's copy of a vector of the weights. */
const float *dec_host(const Decoder *d, const float *p);
/* Return the host's copy of a matrix of the weights, for mat_row. */
KMat		dec_host_mat(const Decoder *d, const KMat *m);

/* A pointer to a piece of the work space. */
typedef struct PlacePiece
{
	float	  **at;
	size_t		table;			/* bytes that the host has written; 0: none */
} PlacePiece;

/* Place the work space on the device, after all tables are made. */
bool		dec_place_work(Decoder *d, const PlacePiece *p, size_t n, Err *e);

#endif
