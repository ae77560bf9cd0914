/*
 * blake2.h
 *	  BLAKE2b (RFC 7693) with a key and a 32-byte digest, for names for which nobody must find a
 *	  collision.
 */
#ifndef VLLM_BASE_BLAKE2_H
#define VLLM_BASE_BLAKE2_H

#include <stddef.h>
#include <stdint.h>

#define BLAKE2_BYTES	32
#define BLAKE2_MAX_KEY	64

typedef struct Blake2
{
	uint64_t	h[8];
	uint64_t	n;				/* bytes hashed so far, without those in buf */
	size_t		have;			/* bytes in buf */
	uint8_t		buf[128];
} Blake2;

/* Begin a digest; n_key <= BLAKE2_MAX_KEY, 0 = unkeyed. */
void		blake2_begin(Blake2 *b, const void *key, size_t n_key);
void		blake2_add(Blake2 *b, const void *data, size_t n);
void		blake2_end(Blake2 *b, uint8_t out[BLAKE2_BYTES]);

#endif
