/*
 * expert_migration.h
 *	  Private to src/model: move whole experts to less busy ranks (expert_balance.h) while the model
 *	  runs.
 *
 * All ranks have the same number of slots.  At first expert i is in slot i, and the surplus slots have
 * second copies, from expert 0 on.  Rows of an expert with several copies use the copies in turn, by
 * their number in the step.  A copy has the same bytes, and a row's sum is taken in the order of expert
 * numbers, so the bits of the output don't depend on the placement.
 *
 * Every rank routes all rows, so every rank counts the same rows for each expert and computes the same
 * new placement without messages.  Layer by layer, the ranks copy each slot's new expert to memory
 * beside the weights, from a rank that has the expert.  When all copies are complete, all ranks switch
 * to them after the same step.  So a layer's table and weights always belong together, and a failure on
 * the way loses only the copies made so far.
 *
 * The host's weights always match the tables, also if ops use copies on a device.
 */
#ifndef VLLM_MODEL_PARALLEL_EXPERT_MIGRATION_H
#define VLLM_MODEL_PARALLEL_EXPERT_MIGRATION_H

#include "model/decoder.h"

/*
 * Check that the slots can be divided among the ranks, and that the experts of a layer have the same
 * types and shapes.  ERR_INVALID, ERR_UNSUPPORTED.
 */
bool		balance_check(const Decoder *d, const EplbConf *c, int ranks, Err *e);
/*
 * Make the slots' first tables, on the host; call before the weights are split.  below: a communicator
 * for buffers in the host's memory.
 */
void		balance_begin(Decoder *d, const EplbConf *c, KComm *below);
void		balance_end(Decoder *d);

/* Begin a step; count the rows of a layer, given the first row of each slot; end a step, if it was a
 * real one. */
void		balance_step_begin(Decoder *d);
void		balance_count(Decoder *d, int layer, const int32_t *start);
void		balance_step_end(Decoder *d);

/* The weights have been freed on all ranks: drop the copies as well.  balance_home() follows. */
void		balance_stop(Decoder *d);
/* The weights are again as they were loaded, on all ranks: reset the tables.  ERR_LOST: the device is
 * lost. */
bool		balance_home(Decoder *d, Err *e);

const EplbStat *balance_stat(const Decoder *d);

#endif
