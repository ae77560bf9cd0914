/*
 * fp8_scales.h
 *	  How the scales of an FP8 KV cache follow from what is largest in it: on all ranks alike.
 */
#ifndef VLLM_CORE_KV_FP8_SCALES_H
#define VLLM_CORE_KV_FP8_SCALES_H

/* A layer's scales of K and V, by their largest values. */
void		kvscales_of(const float largest[2], float scales[2]);

#endif
