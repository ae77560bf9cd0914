/*
 * checksum.h
 *	  A fast 64-bit checksum, for finding damage and for naming things.  It is not cryptographic: an
 *	  attacker can make two texts with the same sum.
 */
#ifndef VLLM_BASE_CHECKSUM_H
#define VLLM_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Return the sum of n bytes; seed: any number, or the sum of the preceding bytes. */
uint64_t	digest(const void *data, size_t n, uint64_t seed);

#endif
