/*
 * vllm_logits_processor.h
 *	  The interface of logits processors: shared libraries for the engine of vllm_pg.
 *
 * This header includes no other one of vllm_pg; C99 and C++.  docs/internals/logits-processors.md has an
 * example and describes when each function is called.  A library has one or more functions of type
 * VllmLogitsEntry, which the setting
 *
 *		vllm.logits_processors = '/path/my_processors.so:my_entry, ...'
 *
 * names.  They run in the engine process, never in a process of PostgreSQL.
 *
 * Versions: VLLM_LOGITS_ABI is incremented when an existing part of the interface changes.  Members are
 * only added at the end of structs whose first member is `size`; a member beyond `size` does not exist.
 */
#ifndef VLLM_CORE_SAMPLE_VLLM_LOGITS_PROCESSOR_H
#define VLLM_CORE_SAMPLE_VLLM_LOGITS_PROCESSOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C"
{
#endif

#define VLLM_LOGITS_ABI 1

/* The model that an instance of the processor is made for. */
typedef struct VllmLogitsConfig
{
	uint32_t	size;
	int32_t		vocab_size;		/* logits in a row; ids are 0 .. vocab_size - 1 */
	int32_t		eos_token_id;	/* -1 = none */
	const char *device;			/* "cpu" */
} VllmLogitsConfig;

/* A request that joins the batch. */
typedef struct VllmLogitsRequest
{
	uint32_t	size;
	int32_t		slot;			/* number of the request while it is in the batch; numbers are small and
								 * reused */
	const char *extra_args;		/* a JSON object, NULL = none; valid until the slot is removed */
	const int32_t *prompt;		/* valid during the call */
	int32_t		n_prompt;
} VllmLogitsRequest;

/*
 * Changes of the batch since the last call.  Removals come first: a slot may be removed and added in the
 * same update.  A request that is not sampled in a step is removed, and added again later; then
 * VllmLogitsRow has its output so far.
 */
typedef struct VllmBatchUpdate
{
	uint32_t	size;
	int32_t		n_removed;
	const int32_t *removed;		/* slots */
	int32_t		n_added;
	const VllmLogitsRequest *added;
} VllmBatchUpdate;

/* A row of the current step. */
typedef struct VllmLogitsRow
{
	int32_t		slot;
	int32_t		n_output;
	const int32_t *output;		/* output so far */
	float	   *logits;			/* [vocab_size], may be changed; -INFINITY forbids an id */
} VllmLogitsRow;

typedef struct VllmLogitsProcessor
{
	uint32_t	abi_version;	/* VLLM_LOGITS_ABI */
	uint32_t	size;			/* size of this struct */
	const char *name;

	/*
	 * Return 1 if a request with these extra_args (NULL = none) takes part, 0 if not, and -1 if they are
	 * invalid, with the reason in message.  Called before any init, and by several threads at once.
	 */
	int			(*validate) (const char *extra_args, char *message, size_t message_size);

	/* Make the instance of a model; NULL: the model is not loaded, and message has the reason. */
	void	   *(*init) (const VllmLogitsConfig *config, char *message, size_t message_size);

	/* May be NULL.  Called before apply in a step in which the batch has changed. */
	void		(*update_state) (void *self, const VllmBatchUpdate *update);

	/* Change the rows of the requests that take part; a result other than 0 fails these requests. */
	int			(*apply_cpu) (void *self, const VllmLogitsRow *rows, int32_t n);

	/* The same with logits on a CUDA device, in stream order; NULL: they are copied for apply_cpu. */
	int			(*apply_cuda) (void *self, const VllmLogitsRow *rows, int32_t n, void *stream);

	/*
	 * May be NULL.  Returns nonzero if the largest logit stays the largest.  Such a processor runs after
	 * the temperature, and never for greedy requests.
	 */
	int			(*argmax_invariant) (void *self);

	void		(*destroy) (void *self);
} VllmLogitsProcessor;

/* Returns NULL if there is none for this version of the interface.  The result must stay valid. */
typedef const VllmLogitsProcessor *(*VllmLogitsEntry) (uint32_t abi_version);

#ifdef __cplusplus
}
#endif
#endif
