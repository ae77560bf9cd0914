/*
 * checksum.h
 *	  A fast 64-bit checksum, for finding damage and naming things; it does not
 *	  withstand anybody who wants two texts with the same sum.
 */
#ifndef VLLM_BASE_CHECKSUM_H
#define VLLM_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* n bytes; seed: anything, or the sum of what came before */
uint64_t	digest(const void *data, size_t n, uint64_t seed);

#endif
