/*
 * kvscales.h
 *	  How the scales of an FP8 KV cache follow from what is largest in it: on all ranks alike.
 */
#ifndef VLLM_ENGINE_KVSCALES_H
#define VLLM_ENGINE_KVSCALES_H

/* A layer's scales of K and V, by their largest values. */
void		kvscales_of(const float largest[2], float scales[2]);

#endif
