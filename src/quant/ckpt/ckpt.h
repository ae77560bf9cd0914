/*
 * ckpt.h
 *	  Quantized checkpoints: how tools lay quantized matrices out in safetensors files.
 *
 * Such a model's configuration has a "quantization_config", and its files have several tensors instead of a
 * matrix "NAME.weight": codes, scales, zero points, orders of
 * columns.  A method is one file and one row in ckpt.def; ckpt_matrix() makes of a
 * module's tensors one KTensor with a reader, in a type that the kernels multiply with.
 *
 * Which modules are quantized is told by the tensors that they have: a module with an
 * ordinary weight stays as it is, whatever lists of exceptions say.
 */
#ifndef VLLM_QUANT_CKPT_CKPT_H
#define VLLM_QUANT_CKPT_CKPT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config_map.h"
#include "base/err.h"
#include "blocks.h"

typedef struct Ckpt Ckpt;

/* The model's tensors. */
typedef struct CkptFiles
{
	const KTensor *(*find) (void *ctx, const char *name);	/* NULL if there is none */
	const char *(*where) (void *ctx, const KTensor *t); /* its file */
	void	   *ctx;
} CkptFiles;

/* Is it a name that the model option "quantization" has for a method? */
bool		ckpt_is_method(const char *name);
/* "gptq, awq, ..." for messages */
const char *ckpt_method_list(void);
/*
 * Let that option name the method: it must be the one of a configuration that names one, else it becomes
 * that.  where: the model, for messages.  ERR_UNSUPPORTED: nothing is quantized.
 */
bool		ckpt_set_method(Conf *conf, const char *where, const char *option, Err *e);

/*
 * What the configuration says of quantization; *out NULL: nothing.  Errors:
 * ERR_UNSUPPORTED for an unknown method and for anything in its configuration that would
 * change the arithmetic and isn't known, ERR_BAD_FILE.
 */
bool		ckpt_open(const Conf *conf, const CkptFiles *files, Ckpt **out, Err *e);
void		ckpt_close(Ckpt *c);	/* and its tensors */
/* Which keys of the configuration tell of the tool alone: "a, b", or as many as there is room for. */
void		ckpt_ignored(const Conf *conf, char *out, size_t size);

/*
 * The matrix [n][k] of a module ("model.layers.0.mlp.up_proj"), valid until
 * ckpt_close(); *out NULL: the module isn't quantized.  Reads all scales, zero points and
 * orders, to check them and to choose the type.
 */
bool		ckpt_matrix(Ckpt *c, const char *module, int64_t n, int64_t k, const KTensor **out, Err *e);

#endif
