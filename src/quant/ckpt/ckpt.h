/*
 * ckpt.h
 *	  Quantized checkpoints: how tools store quantized matrices in safetensors files.
 *
 * Such a model's configuration has a "quantization_config", and its files have several tensors instead
 * of a matrix "NAME.weight": codes, scales, zero points, orders of columns.  A method is one file and
 * one row in ckpt.def.  ckpt_matrix() combines a module's tensors to one KTensor with a reader, in a
 * type that the kernels can multiply.
 *
 * A module's tensors decide whether it is quantized: a module with an ordinary weight stays as it is,
 * whatever the configuration's lists of exceptions say.
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

/* Return true if the model option "quantization" accepts this name as a method. */
bool		ckpt_is_method(const char *name);
/* Return "gptq, awq, ..." for messages. */
const char *ckpt_method_list(void);
/*
 * Apply the method that the model option "quantization" names.  If the configuration names a method,
 * both must agree; else the option's method is used.  where: the model, for messages.  ERR_UNSUPPORTED
 * if the model isn't quantized.
 */
bool		ckpt_set_method(Conf *conf, const char *where, const char *option, Err *e);

/*
 * Read the configuration of quantization; *out = NULL if the model has none.  Errors: ERR_UNSUPPORTED
 * for an unknown method and for any unknown setting that would change the arithmetic; ERR_BAD_FILE.
 */
bool		ckpt_open(const Conf *conf, const CkptFiles *files, Ckpt **out, Err *e);
void		ckpt_close(Ckpt *c);	/* frees the tensors, too */
/* List the configuration's keys that only describe the tool, and that the engine ignores: "a, b",
 * truncated to `size`. */
void		ckpt_ignored(const Conf *conf, char *out, size_t size);

/*
 * Make the matrix [n][k] of a module ("model.layers.0.mlp.up_proj"), valid until ckpt_close(); *out =
 * NULL if the module isn't quantized.  Reads all scales, zero points and orders, to check them and to
 * choose the type.
 */
bool		ckpt_matrix(Ckpt *c, const char *module, int64_t n, int64_t k, const KTensor **out, Err *e);

#endif
