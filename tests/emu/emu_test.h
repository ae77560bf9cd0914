/*
 * emu_test.h
 *	  Helpers for tests of kernels under emulation: device arrays, all orders of threads, faults.
 *
 * Everything but the tests of faults also compiles with nvcc, to run on a GPU, where threads have their
 * own order.
 */
#ifndef VLLM_TESTS_EMU_TEST_H
#define VLLM_TESTS_EMU_TEST_H

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../unit/check.h"
#include "cuda/common.cuh"

/* Allocate n of T on the device, filled from host, or with NaN. */
template <typename T> static inline T *
dev(const T *host, size_t n)
{
	void	   *p = NULL;

	if (cudaMalloc(&p, n * sizeof(T)) != cudaSuccess)
		abort();
	if (host != NULL)
	{
		cudaMemcpy(p, host, n * sizeof(T), cudaMemcpyHostToDevice);
		/* on a GPU the copy may still be in progress, and a device's own stream doesn't wait for it */
		cudaStreamSynchronize(NULL);
	}
	return (T *) p;
}

template <typename T> static inline void
host(T *h, const T *d, size_t n)
{
	cudaMemcpy(h, d, n * sizeof(T), cudaMemcpyDeviceToHost);
}

/* Return the next number of a fixed pseudo-random sequence. */
static inline unsigned
dice(void)
{
	static uint64_t x = 42;

	x = x * 6364136223846793005u + 1442695040888963407u;
	return (unsigned) (x >> 33);
}

#ifdef __CUDACC__

template <typename F> static inline void
all_orders(F f)
{
	f();
}

#else

/* Run f() with threads forward, in reverse, and in four random orders. */
template <typename F> static inline void
all_orders(F f)
{
	for (int i = 0; i < 6; i++)
	{
		cemu_order(i < 2 ? (CemuOrder) i : CEMU_RANDOM, (uint64_t) i);
		f();
	}
	cemu_order(CEMU_FORWARD, 1);
}

/* Run f() in a child and return its stderr when the emulator stops it; "" if it isn't stopped. */
template <typename F> static inline const char *
fault_of(F f)
{
	static char buf[4096];
	int			fd[2],
				status = 0;
	size_t		n = 0;
	ssize_t		got;
	pid_t		child;

	fflush(NULL);
	if (pipe(fd) != 0 || (child = fork()) < 0)
		abort();
	if (child == 0)
	{
		dup2(fd[1], 2);
		close(fd[0]);
		f();
		cudaDeviceSynchronize();
		_exit(0);
	}
	close(fd[1]);
	while (n < sizeof(buf) - 1 && (got = read(fd[0], buf + n, sizeof(buf) - 1 - n)) > 0)
		n += (size_t) got;
	buf[n] = '\0';
	close(fd[0]);
	waitpid(child, &status, 0);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
		buf[0] = '\0';
	return buf;
}

/* f must be stopped with a message that contains both texts, in any order of threads. */
#define CAUGHT(what, also, f) \
	all_orders([&]() { \
		const char *m_ = fault_of(f); \
		CHECK(strstr(m_, what) != NULL && strstr(m_, also) != NULL, "no \"%s\" with \"%s\" in \"%s\"", what, \
			  also, m_); \
	})
/* f must succeed in any order of threads. */
#define CLEAN(f) \
	all_orders([&]() { \
		const char *m_ = \
		fault_of([&]() { f(); cudaDeviceSynchronize(); fprintf(stderr, "ended"); abort(); }); \
		CHECK(strcmp(m_, "ended") == 0, "%s", m_); \
	})

#endif

#endif
