/*
 * bind_internal.h
 *	  What the files that bind tensors share (bind.c, bind_slices.c): the state of one bind, and its steps.
 *
 * Errors: b->e is set, and the result is NULL or false.
 */
#ifndef VLLM_MODEL_LAYERS_BIND_INTERNAL_H
#define VLLM_MODEL_LAYERS_BIND_INTERNAL_H

#include "model/layers/heads.h"

#define MAX_IGNORED 16
#define MAX_NAME 256

struct Binder
{
	Decoder    *d;
	const Arch *arch;
	const Conf *conf;
	const ModelSource *src;
	const QuantScheme *quant;	/* NULL = as in the file */
	Err		   *e;
	bool		gguf;
	bool		multimodal;		/* has a vision part, which is left out */
	char		hf_prefix[64];	/* of the layer at hand, or "" */
	char		gguf_prefix[32];
	const char *ignored[MAX_IGNORED];
	bool		ignored_under[MAX_IGNORED]; /* it is how names begin, not how they end */
	int			n_ignored;
	bool		no_sites;		/* who trains adapters has other names, or rows in another order */
	const char *layers;			/* prefix of layers' names in HF, once it is known */
	bool		ignore_extra;	/* layers behind the last one */
	bool		ignore_rest;	/* tensors that no layer binds */
	const BindExtra *extra;		/* the layer that is bound alone; NULL = all are */
	bool		converted;		/* some were of a type of GGUF that no kernel knows */
	const KTensor *matrix;		/* the quantized one that was last asked for */
	char		matrix_name[MAX_NAME];
	const KTensor *slices;		/* the tensor that was last cut into slices */
	char		slices_name[MAX_NAME];
	const KTensor **used;		/* [n_used] */
	size_t		n_used;
	uint64_t	type_bytes[KT_COUNT];
	uint64_t	n_params;
};

/* ---- names ---- */

/* hf and ending behind the layer's prefix, or gguf and ending in a GGUF file: [MAX_NAME]. */
void		bind_full_name(const Binder *b, const char *hf, const char *gguf, const char *ending, char *buf);
/* NULL: there is none of this name, in any of its spellings. */
const KTensor *bind_find(const Binder *b, const char *name);
/* ERR_BAD_FILE: there is no tensor of this name; NULL. */
const KTensor *bind_missing(Binder *b, const char *name);
/* It is not one of the tensors that no layer binds. */
void		bind_use(Binder *b, const KTensor *t);

/* ---- tensors and views ---- */

bool		bind_is_float(KType t);
/* ERR_BAD_FILE unless t has these dimensions; name: for the error. */
bool		bind_check_shape(Binder *b, const KTensor *t, const char *name, int ndim, const int64_t *want);
/* Memory that lives as long as the Decoder. */
void	   *bind_keep(Binder *b, size_t bytes);
/* n rows of k of t; rows: which ones, NULL = the first ones. */
KTensor    *bind_view(Binder *b, const KTensor *t, const int32_t *rows, int n, int k);

/* ---- matrices ---- */

/* false: an error; *out NULL: the checkpoint does not have it quantized. */
bool		bind_find_quantized(Binder *b, const char *hf, const char *gguf, int64_t n, int64_t k,
								const KTensor **out);
/* [n][k], quantized or not; it is used. */
const KTensor *bind_find_matrix(Binder *b, const char *hf, const char *gguf, int64_t n, int64_t k);
/* The next n rows of l. */
bool		bind_add_part(Binder *b, Linear *l, const KTensor *t, int n);
/* The bias of these rows, of n_file in the file. */
bool		bind_bias(Binder *b, Linear *l, const char *hf, const char *gguf, int n_file, const int32_t *rows,
					  int n);

#endif
