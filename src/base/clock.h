/*
 * clock.h
 *	  Monotonic time.
 */
#ifndef VLLM_BASE_CLOCK_H
#define VLLM_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* microseconds since boot (CLOCK_MONOTONIC) */
static inline int64_t
clock_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* nanoseconds of the same clock */
static inline int64_t
clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t) ts.tv_sec * 1000000000 + ts.tv_nsec;
}

#endif
