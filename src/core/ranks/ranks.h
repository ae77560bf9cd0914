/*
 * ranks.h
 *	  Models that several processes compute together: the functions of rank 0 and of the other ranks.
 *
 * The supervisor starts tensor_parallel_size * pipeline_parallel_size engine processes, and passes one
 * memory file to all of them (base/shared_memory.h).  Rank 0 is the engine: it serves, schedules and
 * samples.  The others execute the commands that it writes into the file's stream (rank_protocol.h):
 * load a model, run a step of it, free it.  Each has its part of weights, KV and state.  Results are
 * combined during a step (model/parallel/shard.h), so outputs have the same bits as with one process.
 *
 * Replicas (data_parallel_size) are several such groups: the engine is rank 0 of each, with separate
 * memory for each.  The groups are independent of one another.
 *
 * Threads of rank 0: loader threads load and free models, each replica's step thread runs them.  Other
 * ranks load a model while steps of other models run.
 *
 * If a rank is lost, the waits of all others end, and rank 0 exits with a message; the supervisor
 * restarts the group.
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
typedef struct RankModel RankModel; /* rank 0's handle of a model on the other ranks */

/* ---- rank 0 ---- */

/*
 * Connect to the other ranks.  The memory files are this descriptor for the first replica, and the
 * following ones for further replicas; -1 = there are no other ranks.  Call it once, before anything is
 * loaded.
 */
bool		ranks_open(int group_fd, const Settings *s, Err *e);
int			ranks_replicas(void);
/* Return the number of ranks that share a replica's models; 1 = only this process. */
int			ranks_world(void);
int			ranks_stages(void); /* number of pipeline stages */

/* Return true if the ranks share the model; a model that can't be shared is on rank 0 alone. */
bool		ranks_shares(const ModelInfo *mi);
/*
 * Return how whole experts migrate, by the settings at the engine's start; ERR_INVALID if the setting is
 * wrong or not possible.
 */
bool		ranks_eplb(EplbConf *out, Err *e);
/* The device of a model. */
typedef struct RankDevice
{
	const Settings *s;			/* settings that name it; NULL = CPUs */
	KDevOpen	open;			/* arguments for opening the devices */
	KType		dtype;
} RankDevice;

/*
 * Let the replica's other ranks begin to load the model with the options of rank 0's model_new(), each
 * on its own device.  ranks_loaded() must follow in any case.  lends: see ModelRanks.
 */
RankModel  *ranks_load(int replica, const char *path, const ModelOpts *o, const ModelOptions *mo,
					   const RankDevice *dev, bool lends);
/* A rank that makes no progress for this long while rank 0 waits counts as lost. */
void		ranks_set_timeout(int ms);
const ModelRanks *ranks_of(const RankModel *m);
/*
 * Wait until the other ranks have loaded the model, or failed.  own: rank 0's model, NULL = it failed.
 * Fails with ERR_LOST if not all ranks have read the same (rank_digest()).
 */
bool		ranks_loaded(RankModel *m, const Model *own, const Files *files, Err *e);
/*
 * After the load of a model on a device: open NCCL if possible, else exchange through the host.  Returns
 * false only if vllm.nccl_path requires a library that can't be used.
 */
bool		ranks_connect(RankModel *m, Model *own, const Dev *dev, int ordinal, const Settings *s, Err *e);
/* Describe how ranks exchange data, for the model loaded last; "" = none is on devices. */
void		ranks_exchange(char *buf, size_t size);
/* Digest, as text, of a model and its files: everything that must be equal on all ranks. */
#define RANK_DIGEST	65
void		rank_digest(const Model *m, const Files *files, char out[RANK_DIGEST]);
/* A rank's process, other than the engine, which is rank 0 of each replica; false: there are fewer. */
typedef struct RankInfo
{
	int			rank;			/* numbered over all replicas */
	int			replica;
	int			pid;
	int			device;			/* device of a model that it computes; -1 = none, or CPUs */
} RankInfo;
bool		ranks_info(int i, RankInfo *out);
int64_t		ranks_bytes(const RankInfo *r);	/* memory of its process; reads /proc */
/* Allocate KV blocks and states as on rank 0. */
bool		ranks_kv(RankModel *m, const ModelInfo *mi, const KvView *kv, int slots, Err *e);
/* Copy blocks of the KV cache as on rank 0. */
void		ranks_copy(RankModel *m, const struct BlockCopy *copies, int n);
/*
 * After a step with that KV cache: get the largest values of K and V of each of `layers` layers of the
 * first stage, over all its ranks.  From their next ranks_kv() on, all ranks scale the KV cache by them
 * (kvscales_of()).
 */
void		ranks_largest(RankModel *m, float *largest, int layers);
/*
 * Fill in the embedding rows (model_token_row()) of those of the n valid tokens that other ranks have;
 * any thread.  Other rows are unchanged.
 */
void		ranks_token_rows(RankModel *m, const Model *own, const int32_t *ids, size_t n, float *out);
void		ranks_free(RankModel *m);	/* accepts NULL */
/*
 * Sleep (model.h, arena.h): each rank frees and restores memory as rank 0 does.  If a call fails, some
 * ranks may have done it.
 */
void		ranks_rest(RankModel *m);
bool		ranks_store(RankModel *m, const char *dir, Err *e);
bool		ranks_fetch(RankModel *m, Err *e);
void		ranks_forget(RankModel *m);
bool		ranks_adopt(RankModel *m, RankModel *from, Err *e);
/* Return a new number for an adapter, for the ranks of all replicas. */
uint32_t	ranks_lora_number(void);
/* Let the other ranks load an adapter; ranks_unlora() must follow, even if this fails. */
bool		ranks_lora(RankModel *m, uint32_t number, const char *path, int max_rank, const char *dtype,
					   Err *e);
void		ranks_unlora(uint32_t number);
/* Exit the process if a rank is lost: the results of its computation are undefined. */
void		ranks_check(void);

/* ---- other ranks (rank_worker.c) ---- */

/* Execute rank 0's commands until it ends; returns the exit status. */
int			rank_main(int group_fd, int rank, int replica, const Settings *s);

#endif
