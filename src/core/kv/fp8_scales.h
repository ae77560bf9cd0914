/*
 * fp8_scales.h
 *	  Compute the scales of an FP8 KV cache from its largest values, in the same way on all ranks.
 */
#ifndef VLLM_CORE_KV_FP8_SCALES_H
#define VLLM_CORE_KV_FP8_SCALES_H

/* Compute a layer's scales of K and V from their largest absolute values. */
void		kvscales_of(const float largest[2], float scales[2]);

#endif
