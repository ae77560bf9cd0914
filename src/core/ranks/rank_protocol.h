/*
 * rank_protocol.h
 *	  The commands that rank 0 writes to the other ranks: each is a RankCmd and a body of `size` bytes.
 *
 * All ranks run the same program, so structs are sent as they are.  Commands are executed in order.  RC_LOAD,
 * RC_KV, RC_LORA, RC_STORE, RC_FETCH, RC_ADOPT, RC_MEET and RC_COMM are answered (groupmem_answer()); all of
 * these but RC_KV and RC_MEET are executed by a thread of their own.
 *
 *		RC_LOAD		RankLoad
 *		RC_KV		RankKv
 *		RC_FORWARD	RankStep, then seq_start [n_seqs + 1], pos [n_rows], tokens [n_rows], out_rows [n_out];
 *					if typed types [n_rows], if slotted state slots [n_seqs], if adapted adapters [n_seqs];
 *					for each sequence the number of blocks and the blocks; if embedded a flag for each row,
 *					then the embeddings of the rows whose flag is set
 *		RC_LOGITS	RankLogits, hidden rows; if adapted adapters [n]
 *		RC_COPY		BlockCopy, any number
 *		RC_ROWS		tokens, any number; each rank of the first stage sends rank 0 the embedding rows of those
 *					that it has
 *		RC_LARGEST	nothing; each rank sends rank 0 the number of its layers with K and V, then the largest
 *					value of each layer's K and V
 *		RC_SCALES	RankLargest, then the largest value of each layer's K and V, from which the stage's ranks
 *					compute the scales of their KV cache
 *		RC_FREE		nothing
 *		RC_LORA		RankLora
 *		RC_UNLORA	the adapter's number; for no model
 *		RC_REST		nothing: return the memory of KV and state
 *		RC_STORE	the directory, with its NUL
 *		RC_FETCH	nothing; restore KV and state together with the weights
 *		RC_FORGET	nothing
 *		RC_ADOPT	the number of the model that has the weights
 *		RC_MEET		the library of communicators, with its NUL; the answer is the text of rank_meet()
 *		RC_COMM		RankComm
 *		RC_APART	nothing
 *
 * Adapters are numbered from 1 on; numbers are never reused, and 0 means none.
 */
#ifndef VLLM_CORE_RANKS_RANK_PROTOCOL_H
#define VLLM_CORE_RANKS_RANK_PROTOCOL_H

#include "base/shared_memory.h"
#include "runtime/model_options.h"
#include "core/core_internal.h"
#include "runtime/devices.h"

typedef enum RankCmdKind
{
	RC_LOAD, RC_KV, RC_FORWARD, RC_LOGITS, RC_COPY, RC_FREE, RC_LORA, RC_UNLORA, RC_REST, RC_STORE, RC_FETCH,
	RC_FORGET, RC_ADOPT, RC_ROWS, RC_LARGEST, RC_SCALES,
	RC_MEET, RC_COMM, RC_APART
} RankCmdKind;

typedef struct RankCmd
{
	RankCmdKind kind;
	uint32_t	model;			/* number of the model, from 1 on, never reused */
	uint64_t	size;			/* bytes of the body */
} RankCmd;

typedef struct RankLoad
{
	char		path[4096];
	ModelOpts	opts;
	char		isa[32];
	int			max_rows;
	int			max_out;
	int			max_model_len;
	HugePages	huge;
	char		cache_dir[1024];
	bool		experts;
	bool		round_robin;
	bool		rows;
	EplbConf	eplb;
	bool		lends;
	/* from setting vllm.device, if rank 0 uses a device; else the model is on CPUs */
	bool		on_device;
	char		device[sizeof(((Settings *) NULL)->device)];
	char		device_library[sizeof(((Settings *) NULL)->device_library)];
	KDevOpen	open;
	KType		dtype;
} RankLoad;

typedef struct RankKv
{
	KType		type;
	int			n_blocks;
	int			block_size;
	int			slots;
} RankKv;

typedef struct RankLargest
{
	int			stage;
	int			layers;
} RankLargest;

typedef struct RankStep
{
	int32_t		n_rows;
	int32_t		n_seqs;
	int32_t		n_out;
	int32_t		width;			/* width of an embedding */
	bool		hidden;
	bool		typed;
	bool		slotted;
	bool		embedded;
	bool		adapted;
	bool		tapped;			/* the last hidden states of all rows are needed, so no row may be skipped */
} RankStep;

typedef struct RankLogits
{
	int32_t		n;
	bool		adapted;
} RankLogits;

typedef struct RankLora
{
	uint32_t	id;
	int			max_rank;
	char		path[4096];
	char		dtype[16];
} RankLora;

/* Ids for a communicator of each stage's ranks, then of each column's. */
typedef struct RankComm
{
	uint32_t	number;			/* number of the opening, from 1 on */
	char		library[sizeof(((Settings *) NULL)->nccl_path)];
	char		ids[GROUP_MOST + 1][KDEVICE_COMM_ID];
} RankComm;

/* This rank's communicators; the ranks of a stage have consecutive numbers. */
typedef struct RankPlace
{
	KComm	   *tp;
	KComm	   *pp;
	KComm	   *world;			/* all ranks; not used by steps */
} RankPlace;

static inline RankPlace
rank_place(GroupMem *g, int tp)
{
	int			stages = g->world / tp;

	return (RankPlace) {
		comm_shm(g, g->rank / tp, g->rank % tp, tp), comm_shm(g, g->world + g->rank % tp, g->rank / tp,
															  stages),
		comm_shm(g, 2 * g->world, g->rank, g->world)
	};
}

#endif
