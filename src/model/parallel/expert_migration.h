/*
 * expert_migration.h
 *	  Private to src/model: whole experts that move to where there is less to do (expert_balance.h), while
 *	  the model runs.
 *
 * Ranks have as many slots each; at first expert i is in slot i, and the slots that are over have second
 * copies, from expert 0 on.  Rows of an expert with several copies take turns at them, by their number in the
 * step.  A copy is the same bytes, and a row's sum goes by the experts' numbers wherever these are, so an
 * answer's bits don't depend on any of this.
 *
 * Each rank counts the rows of every expert, as every rank routes all of them: all count alike, and each
 * finds the new places by itself.  Layer by layer, copies that a slot is to have are brought beside the
 * weights, from whichever rank has that expert; when all are there, all ranks switch to them behind the same
 * step.  So a layer's table and weights always belong together, and whatever fails on the way costs nothing
 * but what was brought so far.
 *
 * The host's weights are always those that the tables name, also where ops have them on a device.
 */
#ifndef VLLM_MODEL_PARALLEL_EXPERT_MIGRATION_H
#define VLLM_MODEL_PARALLEL_EXPERT_MIGRATION_H

#include "model/decoder.h"

/*
 * Can as many slots be divided among the ranks, and are experts of a layer alike?  ERR_INVALID,
 * ERR_UNSUPPORTED.
 */
bool		balance_check(const Decoder *d, const EplbConf *c, int ranks, Err *e);
/*
 * The slots' first tables, on the host; before weights are divided.  below: the ranks' buffers are of the
 * host.
 */
void		balance_begin(Decoder *d, const EplbConf *c, KComm *below);
void		balance_end(Decoder *d);

/* A step begins; of each layer, where its slots' rows begin; behind the step, if it was a real one. */
void		balance_step_begin(Decoder *d);
void		balance_count(Decoder *d, int layer, const int32_t *start);
void		balance_step_end(Decoder *d);

/* The weights are gone, on all ranks: so is what was brought; balance_home() follows. */
void		balance_stop(Decoder *d);
/* The weights are again as they were loaded, on all ranks.  ERR_LOST: the device is. */
bool		balance_home(Decoder *d, Err *e);

const EplbStat *balance_stat(const Decoder *d);

#endif
