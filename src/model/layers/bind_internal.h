/*
 * bind_internal.h
 *	  What the files that bind tensors (bind.c, bind_slices.c) share: the state of one bind, and its
 *	  steps.
 *
 * On an error these functions set b->e and return NULL or false.
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
	bool		multimodal;		/* has a vision part, which isn't loaded */
	char		hf_prefix[64];	/* of the current layer, or "" */
	char		gguf_prefix[32];
	const char *ignored[MAX_IGNORED];
	bool		ignored_under[MAX_IGNORED]; /* ignored[i] is the beginning of a name, not the ending */
	int			n_ignored;
	bool		no_sites;		/* don't register adapter sites: adapters use other module names or
								 * another order of rows */
	const char *layers;			/* prefix of layers' names in HF, once known */
	bool		ignore_extra;	/* ignore layers after the last one */
	bool		ignore_rest;	/* tensors that no layer binds */
	const BindExtra *extra;		/* the only layer to bind; NULL = bind all */
	bool		converted;		/* some tensors had a GGUF type that no kernel supports */
	const KTensor *matrix;		/* the quantized matrix of the last request */
	char		matrix_name[MAX_NAME];
	const KTensor *slices;		/* the tensor that was last cut into slices */
	char		slices_name[MAX_NAME];
	const KTensor **used;		/* [n_used] */
	size_t		n_used;
	uint64_t	type_bytes[KT_COUNT];	/* of the matrices, by type in memory */
	uint64_t	before_bytes[KT_COUNT]; /* by the types before quantize_for_x() */
	uint64_t	n_params;
};

/* ---- names ---- */

/* Build a name in buf[MAX_NAME]: hf and ending after the layer's prefix, or gguf and ending in a GGUF
 * file. */
void		bind_full_name(const Binder *b, const char *hf, const char *gguf, const char *ending, char *buf);
/* Return a tensor by its name in any of its spellings, NULL if there is none. */
const KTensor *bind_find(const Binder *b, const char *name);
/* Set ERR_BAD_FILE (no tensor of this name) and return NULL. */
const KTensor *bind_missing(Binder *b, const char *name);
/* Mark a tensor as used. */
void		bind_use(Binder *b, const KTensor *t);

/* ---- tensors and views ---- */

bool		bind_is_float(KType t);
/* Set ERR_BAD_FILE unless t has these dimensions.  name: for the error. */
bool		bind_check_shape(Binder *b, const KTensor *t, const char *name, int ndim, const int64_t *want);
/* Allocate memory that lives as long as the Decoder. */
void	   *bind_keep(Binder *b, size_t bytes);
/* Return a view of n rows of k elements of t.  rows: which ones, NULL = the first ones. */
KTensor    *bind_view(Binder *b, const KTensor *t, const int32_t *rows, int n, int k);

/* ---- matrices ---- */

/* Find a quantized matrix.  Return false on error; *out = NULL if the checkpoint doesn't have it
 * quantized. */
bool		bind_find_quantized(Binder *b, const char *hf, const char *gguf, int64_t n, int64_t k,
								const KTensor **out);
/* Find a matrix [n][k], quantized or not, and mark it as used. */
const KTensor *bind_find_matrix(Binder *b, const char *hf, const char *gguf, int64_t n, int64_t k);
/* Add t as the next n rows of l. */
bool		bind_add_part(Binder *b, Linear *l, const KTensor *t, int n);
/* Change the type of the part that was added last as quantize_for_x() says. */
bool		bind_for_x(Binder *b, Linear *l);
/* Bind the bias of these rows, of n_file in the file. */
bool		bind_bias(Binder *b, Linear *l, const char *hf, const char *gguf, int n_file, const int32_t *rows,
					  int n);

#endif
