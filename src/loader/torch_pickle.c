/*
 * torch_pickle.c
 *	  One tensor, as torch.save() writes it.
 *
 * Such a file is a ZIP archive of stored members: NAME/data.pkl, a pickle that describes the tensor, and
 * NAME/data/KEY, its storage.  The pickle is a program that may call anything; pickle.c reads it without
 * doing so.
 *
 * The bytes are untrusted: every offset, size and stride is checked against the file.
 *
 * Tested by tests/unit/loader/test_torchfile.c with what tests/golden/torch_tensors.py has written.
 */
#include "loader/torch_pickle.h"

#include <string.h>

#include "base/alloc.h"
#include "blocks.h"
#include "loader/pickle.h"
#include "loader/torch_zip.h"

/* Set the tensor's size in *out, and check that every element lies in a storage of n_stored elements. */
static bool
measure(const PickleTensor *k, size_t n_stored, TorchTensor *out, Err *e)
{
	size_t		last = 0;

	out->n_dims = k->n_dims;
	out->n = 1;
	if (k->offset < 0)
		return torchzip_bad(e, "the tensor lies outside of its storage");
	for (int i = 0; i < k->n_dims; i++)
	{
		if (k->dim[i] < 0 || k->stride[i] < 0)
			return torchzip_bad(e, "the tensor's shape is broken");
		out->dim[i] = (size_t) k->dim[i];
		if (!mem_mul(out->n, out->dim[i], &out->n))
			return torchzip_bad(e, "the tensor's shape is broken");
	}
	for (int i = 0; i < k->n_dims && out->n > 0; i++)
	{
		size_t		span;

		if (!mem_mul(out->dim[i] - 1, (size_t) k->stride[i], &span) || span > n_stored ||
			(last += span) > n_stored)
			return torchzip_bad(e, "the tensor lies outside of its storage");
	}
	/* a stride of 0 would make a large tensor of a small storage */
	if (out->n > n_stored ||
		(out->n > 0 && ((size_t) k->offset >= n_stored || last >= n_stored - (size_t) k->offset)))
		return torchzip_bad(e, "the tensor lies outside of its storage");
	return true;
}

static float
element(const char *p, KType type)
{
	uint32_t	bits = type == KT_F32 ? torchzip_u32(p) : type == KT_BF16 ? torchzip_u16(p) << 16 : 0;
	float		x;

	if (type == KT_F16)
		return kf16_to_f32((uint16_t) torchzip_u16(p));
	memcpy(&x, &bits, sizeof(x));
	return x;
}

static void
copy_elements(const PickleTensor *k, const char *from, size_t size, TorchTensor *out)
{
	size_t		at[TORCH_MAX_DIMS] = {0};
	size_t		pos = (size_t) k->offset;

	for (size_t i = 0; i < out->n; i++)
	{
		out->data[i] = element(from + pos * size, k->type);
		for (int d = out->n_dims - 1; d >= 0; d--)
		{
			pos += (size_t) k->stride[d];
			if (++at[d] < out->dim[d])
				break;
			pos -= at[d] * (size_t) k->stride[d];
			at[d] = 0;
		}
	}
}

/* Read the tensor of an open archive. */
static bool
read_tensor(const TorchZip *zip, const PickleTensor *k, TorchTensor *out, Err *e)
{
	size_t		size = k->type == KT_F32 ? 4 : 2;
	StrView		data;

	if (!torchzip_find(zip, "/data/", k->key, &data, e))
		return false;
	if ((uint64_t) k->stored > data.n / size)
		return torchzip_bad(e, "a storage is shorter than it says");
	if (!measure(k, (size_t) k->stored, out, e))
		return false;
	if ((out->data = mem_try_alloc((out->n + 1) * sizeof(float))) == NULL)
		return err_set(e, ERR_NOMEM, "out of memory for a tensor of %zu numbers", out->n);
	copy_elements(k, data.s, size, out);
	return true;
}

bool
torch_tensor_read(const char *s, size_t n, TorchTensor *out, Err *e)
{
	StrView		none = {"", 0};
	StrView		pkl,
				order;
	TorchZip	zip;
	Pickle	   *k = NULL;
	Err			ignored;
	bool		ok;

	memset(out, 0, sizeof(*out));
	ok = torchzip_open((StrView) {s, n}, &zip, e) && torchzip_find(&zip, "/data.pkl", none, &pkl, e);
	if (ok && torchzip_find(&zip, "/byteorder", none, &order, &ignored) &&
		(order.n != 6 || memcmp(order.s, "little", 6) != 0))
		ok = err_set(e, ERR_UNSUPPORTED, "the tensor must be little-endian");
	ok = ok && (k = pickle_read(pkl, false, e)) != NULL;
	if (ok && pickle_top(k)->kind != PICKLE_TENSOR)
		ok = err_set(e, ERR_UNSUPPORTED, "only a tensor can be read, not an object that holds one");
	ok = ok && read_tensor(&zip, pickle_tensor(k, pickle_top(k)), out, e);
	pickle_free(k);
	torchzip_close(&zip);
	if (!ok && e->cls == ERR_BAD_FILE)
	{
		Err			why = *e;

		err_set(e, ERR_BAD_FILE, "not a tensor of torch.save(): %.300s", why.msg);
	}
	return ok;
}
