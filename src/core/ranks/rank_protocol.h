/*
 * rank_protocol.h
 *	  What rank 0 writes to the others: commands, each a RankCmd and a body of `size` bytes.
 *
 * All are the same program, so structs go as they are.  Commands are executed in order; RC_LOAD and RC_KV are
 * answered (groupmem_answer()), as are RC_LORA, RC_STORE, RC_FETCH, RC_ADOPT, RC_MEET and RC_COMM; all of
 * these but RC_KV and RC_MEET by a thread of its own.
 *
 *		RC_LOAD		RankLoad
 *		RC_KV		RankKv
 *		RC_FORWARD	RankStep, then seq_start [n_seqs + 1], pos [n_rows], tokens [n_rows], out_rows [n_out];
 *					if typed types [n_rows], if slotted state slots [n_seqs], if adapted adapters [n_seqs];
 *					for each sequence the number of blocks and these; if embedded for each row whether it is,
 *					then the embeddings of those that are
 *		RC_LOGITS	RankLogits, hidden rows; if adapted adapters [n]
 *		RC_COPY		BlockCopy, as many as there are
 *		RC_ROWS		tokens, as many as there are; whoever of the first stage has rows of the embedding of some
 *					sends these to rank 0
 *		RC_LARGEST	nothing; each sends rank 0 how many layers with K and V it has, then what is largest in
 *					each, of K and of V
 *		RC_SCALES	RankLargest, then what is largest in each of its layers, of K and of V: how the stage's KV
 *					will be scaled
 *		RC_FREE		nothing
 *		RC_LORA		RankLora
 *		RC_UNLORA	the adapter's number; no model's
 *		RC_REST		nothing: KV and state are given back
 *		RC_STORE	the directory, with its 0
 *		RC_FETCH	nothing; KV and state come back with the weights
 *		RC_FORGET	nothing
 *		RC_ADOPT	the number of the model that has the weights
 *		RC_MEET		the library of communicators, with its 0; the answer is what rank_meet() says
 *		RC_COMM		RankComm
 *		RC_APART	nothing
 *
 * Adapters have numbers from 1 on, which are never used again; 0 is none.
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
	uint32_t	model;			/* number of the model, from 1 on, never used again */
	uint64_t	size;			/* of the body */
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
	/* of setting vllm.device, where rank 0 has one; else CPUs */
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
	int32_t		width;			/* of an embedding */
	bool		hidden;
	bool		typed;
	bool		slotted;
	bool		embedded;
	bool		adapted;
	bool		tapped;			/* all rows' last hidden rows are wanted: none is left out on the way */
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

/* A communicator of each stage's ranks, then of each column's. */
typedef struct RankComm
{
	uint32_t	number;			/* of the opening, from 1 on */
	char		library[sizeof(((Settings *) NULL)->nccl_path)];
	char		ids[GROUP_MOST + 1][KDEVICE_COMM_ID];
} RankComm;

/* Which of the world's ranks is which: ranks of a stage are side by side. */
typedef struct RankPlace
{
	KComm	   *tp;
	KComm	   *pp;
	KComm	   *world;			/* all of them; only beside steps */
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
