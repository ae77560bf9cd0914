/*
 * vllm_logits_processor.h
 *	  What a logits processor is made of: a shared library for the engine of vllm_pg.
 *
 * This header stands alone; C99 and C++.  docs/internals/logits-processors.md has an example and says when
 * what is called.  A library has one function or more of type VllmLogitsEntry; the setting
 *
 *		vllm.logits_processors = '/path/my_processors.so:my_entry, ...'
 *
 * names them.  They run in the engine process, never in a process of PostgreSQL.
 *
 * Versions: VLLM_LOGITS_ABI grows when something that is here changes.  Members are only
 * ever added at the end of structs whose first member is `size`; one that is behind `size` isn't there.
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

/* What the processor is made for: one model, as it is loaded. */
typedef struct VllmLogitsConfig
{
	uint32_t	size;
	int32_t		vocab_size;		/* logits in a row, of ids 0 .. vocab_size - 1 */
	int32_t		eos_token_id;	/* -1 = none */
	const char *device;			/* "cpu" */
} VllmLogitsConfig;

/* A request that comes into the batch. */
typedef struct VllmLogitsRequest
{
	uint32_t	size;
	int32_t		slot;			/* its number while it is in the batch; numbers are small and used again */
	const char *extra_args;		/* a JSON object, NULL = none; valid until the slot is removed */
	const int32_t *prompt;		/* valid during the call */
	int32_t		n_prompt;
} VllmLogitsRequest;

/*
 * What has changed since the last call.  The removed ones go first: a slot may be removed and
 * added at once.  A request that is not sampled in a step is removed and added again later;
 * its answer so far is in VllmLogitsRow then.
 */
typedef struct VllmBatchUpdate
{
	uint32_t	size;
	int32_t		n_removed;
	const int32_t *removed;		/* slots */
	int32_t		n_added;
	const VllmLogitsRequest *added;
} VllmBatchUpdate;

/* A row of the step at hand. */
typedef struct VllmLogitsRow
{
	int32_t		slot;
	int32_t		n_output;
	const int32_t *output;		/* the answer so far */
	float	   *logits;			/* [vocab_size], to be changed; -INFINITY forbids an id */
} VllmLogitsRow;

typedef struct VllmLogitsProcessor
{
	uint32_t	abi_version;	/* VLLM_LOGITS_ABI */
	uint32_t	size;			/* of this struct */
	const char *name;

	/*
	 * Does a request with these extra_args (NULL = none) take part?  1 yes, 0 no, -1: they are
	 * wrong, and message says why.  Before any init, and by several threads at once.
	 */
	int			(*validate) (const char *extra_args, char *message, size_t message_size);

	/* A model's instance; NULL: message says why, and the model is not loaded. */
	void	   *(*init) (const VllmLogitsConfig *config, char *message, size_t message_size);

	/* May be NULL.  Before apply in a step in which something has changed. */
	void		(*update_state) (void *self, const VllmBatchUpdate *update);

	/* Change the rows of the requests that take part; not 0: these requests fail. */
	int			(*apply_cpu) (void *self, const VllmLogitsRow *rows, int32_t n);

	/* The same with logits on a CUDA device, in stream order; NULL: they are copied for apply_cpu. */
	int			(*apply_cuda) (void *self, const VllmLogitsRow *rows, int32_t n, void *stream);

	/*
	 * May be NULL.  Not 0: the largest logit stays the largest.  Such a processor comes behind the
	 * temperature, and never for greedy requests.
	 */
	int			(*argmax_invariant) (void *self);

	void		(*destroy) (void *self);
} VllmLogitsProcessor;

/* NULL: there is none for this version of the interface.  What it returns stays valid. */
typedef const VllmLogitsProcessor *(*VllmLogitsEntry) (uint32_t abi_version);

#ifdef __cplusplus
}
#endif
#endif
