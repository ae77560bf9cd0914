/*
 * table.cu
 *	  The op table of a GPU: an op's arguments to where they lie on the device, then its kernels.
 *
 * Nothing is computed here.  Arrays of the host come from the step, or from the stage (dev.h);
 * structs go along by value.
 */
#include "cuda/dev.h"
#include "cuda/cuda_ops.h"

extern "C"
{
#include "cuda/pack.h"
}

#include <string.h>

/* of an op; NULL: it is lost, and there is nothing to do */
static KDevice *
device_of(const KPool *pool)
{
	KDevice    *d = dev_of(pool);

	return d->lost ? NULL : d;
}

/* kv NULL: without tables.  False: the device is lost. */
static bool
cuda_rows(KDevice *d, const KRows *r, const KvView *kv, CudaRows *c)
{
	*c = CudaRows{r->n_rows, r->n_seqs, 0, NULL, NULL, NULL, 0};
	/* by one array after the other, so all of them must find room */
	c->pos = (const int32_t *) dev_array(d, r->pos, (size_t) r->n_rows * sizeof(int32_t));
	c->seq_start = dev_starts(d, r, &c->row0);
	if (kv != NULL)
		c->table = dev_blocks(d, r, kv->block_size, &c->ld_table);
	return !d->lost;
}

static void
op_rope(KPool *pool, float *x, int rows, int ld, int heads, int head_dim, const int32_t *pos, const float *cs, int rot_dim)
{
	KDevice    *d = device_of(pool);
	const void *at = d == NULL ? NULL : dev_array(d, pos, (size_t) rows * sizeof(int32_t));

	if (at != NULL)
		cuda_rope(x, rows, ld, heads, head_dim, (const int32_t *) at, cs, rot_dim, dev_stream(d));
}

static void
op_kv_write(KPool *pool, const KvView *kv, int layer, const KRows *r, const float *k, int ldk, const float *v, int ldv)
{
	KDevice    *d = device_of(pool);
	CudaRows	rows;
	CudaKv		one;

	if (d == NULL || !cuda_rows(d, r, kv, &rows))
		return;
	one = cuda_kv(kv, layer, dev_pages(d, kv, r));
	if (!d->lost)
		cuda_kv_write(&one, &rows, k, ldk, v, ldv, dev_stream(d));
}

static const Kernels *
table(void)
{
	static Kernels k;

	k.name = "cuda";
	k.mat_bytes = cuda_mat_bytes;
	k.mat_pack = cuda_mat_pack;
	k.mat_row = cuda_mat_row;
	k.rope = op_rope;
	k.kv_write = op_kv_write;
	return &k;
}

const Kernels *
table_of(KType op_type)
{
	(void) op_type;
	return table();
}

const char *
table_lacks(void)
{
	const Kernels *k = table();

	return k->mm == NULL ? "mm" : k->attn == NULL ? "attn" : NULL;
}
