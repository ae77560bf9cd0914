/*
 * nccl_api.h
 *	  The functions of NCCL that nccl.cu calls.
 *
 * The library is opened at run time, and its header may be missing at build time: this file declares its
 * functions, structs and numbers.  If nvcc finds <nccl.h>, nccl.cu compares them with it.
 */
#ifndef VLLM_KERNELS_CUDA_NCCL_API_H
#define VLLM_KERNELS_CUDA_NCCL_API_H

#include "cuda/common.cuh"

#include <stdint.h>

typedef struct NcclAny *NcclComm;

typedef struct NcclId
{
	char		bytes[128];
} NcclId;

/* as of 2.18; later versions recognize missing fields by size and version */
typedef struct NcclConfig
{
	size_t		size;
	unsigned	magic;
	unsigned	version;
	int			blocking;
	int			cluster;
	int			least_blocks;
	int			most_blocks;
	const char *net;
	int			share;
} NcclConfig;

enum
{
	NCCL_MAGIC = (int) 0xcafebeef,
	NCCL_LEAST = 21800,			/* version, as GetVersion() has it: that of the struct above */
	NCCL_ANY = INT32_MIN,		/* in a config: let the library choose */
	NCCL_OK = 0,				/* ncclResult_t */
	NCCL_UNDER_WAY = 7,
	NCCL_BYTES = 0,				/* ncclDataType_t */
	NCCL_FLOATS = 7,
	NCCL_SUM = 0				/* ncclRedOp_t */
};

/* C(name after nccl, parameters); all return NCCL_OK on success */
#define NCCL_CALLS(C) \
	C(GetVersion, (int *version)) \
	C(GetUniqueId, (NcclId *id)) \
	C(CommInitRankConfig, (NcclComm *comm, int ranks, NcclId id, int rank, NcclConfig *config)) \
	C(CommGetAsyncError, (NcclComm comm, int *error)) \
	C(CommAbort, (NcclComm comm)) \
	C(AllGather, (const void *from, void *to, size_t n, int type, NcclComm comm, cudaStream_t stream)) \
	C(AllReduce, (const void *from, void *to, size_t n, int type, int op, NcclComm comm, \
				  cudaStream_t stream)) \
	C(Broadcast, (const void *from, void *to, size_t n, int type, int root, NcclComm comm, \
				  cudaStream_t stream)) \
	C(Send, (const void *from, size_t n, int type, int to, NcclComm comm, cudaStream_t stream)) \
	C(Recv, (void *to, size_t n, int type, int from, NcclComm comm, cudaStream_t stream))

#endif
