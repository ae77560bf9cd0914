/*
 * file_types.h
 *	  Which implementations of the op table can run a model's files.
 */
#ifndef VLLM_TESTS_FILE_TYPES_H
#define VLLM_TESTS_FILE_TYPES_H

#include "kernels.h"
#include "loader/model_files.h"

/*
 * Can the implementation multiply with all matrices of the files?  Types from KT_COUNT on, such as the
 * I32 of a quantized checkpoint's codes, exist only in files: the loader makes other matrices of them.
 */
static inline bool
has_all_types(const Kernels *k, const Files *f)
{
	const KTensor *t;

	for (size_t i = 0; (t = files_tensor(f, i)) != NULL; i++)
		if (t->ndim == 2 && t->type < KT_COUNT && k->mat_bytes(t->type, (int) t->shape[0],
															   (int) t->shape[1]) == 0)
			return false;
	return true;
}

/* The same of files that are opened for it; false if they can't be. */
static inline bool
path_has_all_types(const Kernels *k, const char *path)
{
	Err			e = {0};
	Files	   *f = files_open(path, &e);
	bool		ok = f != NULL && has_all_types(k, f);

	if (f != NULL)
		files_close(f);
	return ok;
}

#endif
