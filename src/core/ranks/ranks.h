/*
 * ranks.h
 *	  Models that several processes compute together: rank 0's side, and the others'.
 *
 * The supervisor starts as many engine programs as the settings tensor_parallel_size and
 * pipeline_parallel_size multiply to, and gives all of them one memory file (base/shared_memory.h).  Rank 0
 * is the engine: it serves, schedules and samples.  The others execute what it writes into the file's stream
 * (rank_protocol.h): load a model, run a step of it, forget it.  Each has its part of weights, KV and
 * state; what a step computes is made whole on the way (model/parallel/shard.h), so answers have the bits
 * that one process gives.
 *
 * Replicas (data_parallel_size) are such groups side by side: the engine is rank 0 of each, with memory of
 * its own for each.  They know nothing of one another.
 *
 * Threads of rank 0: loader threads begin, finish and end models, each replica's step thread runs them.
 * Loading of a model on other ranks is beside steps of other models.
 *
 * A lost rank: whoever waits for it is told, and rank 0 ends with a message; the supervisor restarts the
 * group.
 */
#ifndef VLLM_CORE_RANKS_RANKS_H
#define VLLM_CORE_RANKS_RANKS_H

#include "device.h"
#include "loader/model_files.h"
#include "model/model.h"
#include "runtime/devices.h"
#include "runtime/eplb_config.h"
#include "runtime/model_options.h"

struct BlockCopy;
typedef struct RankModel RankModel; /* what rank 0 knows of a model on the others */

/* ---- rank 0 ---- */

/*
 * Meet the others, whose memory files are this one, for the first replica, and those behind it; -1 = there is
 * nobody else.  Once, before anything is loaded.
 */
bool		ranks_open(int group_fd, const Settings *s, Err *e);
int			ranks_replicas(void);
/* Ranks that share a replica's models; 1 = this process alone. */
int			ranks_world(void);
int			ranks_stages(void); /* of them: those with other layers */

/* Will a model be on all of them?  Those that can't be shared are rank 0's alone. */
bool		ranks_shares(const ModelInfo *mi);
/*
 * How whole experts of models move, as of the engine's start; ERR_INVALID: the setting is wrong, or says what
 * can't be.
 */
bool		ranks_eplb(EplbConf *out, Err *e);
/* What a model is computed on. */
typedef struct RankDevice
{
	const Settings *s;			/* which say so; NULL: the CPUs */
	KDevOpen	open;			/* arguments of devices.h for these devices */
	KType		dtype;
} RankDevice;

/*
 * The replica's others begin to load it, with options as model_new()'s of rank 0, each on the device that is
 * its own.  Then ranks_loaded(), whatever happens.  lends: ModelRanks.
 */
RankModel  *ranks_load(int replica, const char *path, const ModelOpts *o, const ModelOptions *mo,
					   const RankDevice *dev, bool lends);
/* A rank that stands still for so long while rank 0 waits for others is taken for gone. */
void		ranks_patience(int ms);
const ModelRanks *ranks_of(const RankModel *m);
/*
 * They have, or why not; own: rank 0's, NULL = it couldn't.  All ranks must have read the same
 * (rank_digest()): ERR_LOST.
 */
bool		ranks_loaded(RankModel *m, const Model *own, const Files *files, Err *e);
/*
 * Behind that, of a model on a device: exchange is by NCCL if that can be, else by way of the host.  False:
 * only if vllm.nccl_path asks for what can't be.
 */
bool		ranks_talk(RankModel *m, Model *own, const Dev *dev, int ordinal, const Settings *s, Err *e);
/* How ranks exchange, of the model that was loaded last; "": there is none on devices. */
void		ranks_exchange(char *buf, size_t size);
/* Of a model and the files it was made of: what must be the same on all ranks, as text. */
#define RANK_DIGEST	65
void		rank_digest(const Model *m, const Files *files, char out[RANK_DIGEST]);
/* A rank's process, but for rank 0 of the first replica, which is the engine; false: there are fewer. */
typedef struct RankInfo
{
	int			rank;			/* over all replicas */
	int			replica;
	int			pid;
	int			device;			/* of a model that it computes; -1 = none, or a CPU's */
} RankInfo;
bool		ranks_info(int i, RankInfo *out);
int64_t		ranks_bytes(const RankInfo *r);	/* of memory that its process has; reads the system's files */
/* KV blocks and states like rank 0's. */
bool		ranks_kv(RankModel *m, const ModelInfo *mi, const KvView *kv, int slots, Err *e);
/* Blocks of their KV are copied like rank 0's. */
void		ranks_copy(RankModel *m, const struct BlockCopy *copies, int n);
/*
 * Behind a step in that KV: what is largest in each of `layers` layers of the stage, of K and of V, over its
 * ranks.  All ranks scale a KV cache by what is (kvscales_of()) from their next ranks_kv() on.
 */
void		ranks_largest(RankModel *m, float *largest, int layers);
/*
 * Rows of the embedding (model_token_row()) that other ranks have, of n tokens that there are; any thread.
 * Others stay as they are.
 */
void		ranks_token_rows(RankModel *m, const Model *own, const int32_t *ids, size_t n, float *out);
void		ranks_free(RankModel *m);	/* NULL: nothing */
/*
 * Sleep (model.h, arena.h): each of them gives back and takes as rank 0 does; of what fails it may be that
 * some have.
 */
void		ranks_rest(RankModel *m);
bool		ranks_store(RankModel *m, const char *dir, Err *e);
bool		ranks_fetch(RankModel *m, Err *e);
void		ranks_forget(RankModel *m);
bool		ranks_adopt(RankModel *m, RankModel *from, Err *e);
/* A new number for an adapter, which all replicas' ranks then know it by. */
uint32_t	ranks_lora_number(void);
/* The others read it; whatever comes of it, ranks_unlora() follows. */
bool		ranks_lora(RankModel *m, uint32_t number, const char *path, int max_rank, const char *dtype,
					   Err *e);
void		ranks_unlora(uint32_t number);
/* Ends the process if a rank is missing: what was computed is of no use. */
void		ranks_check(void);

/* ---- the others (rank_worker.c) ---- */

/* Execute rank 0's commands until it ends; the exit status. */
int			rank_main(int group_fd, int rank, int replica, const Settings *s);

#endif
