/*
 * test_encoders.c
 *	  Encoders on a GPU (vllm_pg_cuda.so), the emulated one of tests/emu/module.mk or a real one.
 *
 * Models of tests/golden/encoders_expected: hidden rows of all sequences in one step against the
 * reference; the same bits for each sequence alone, in another order, and when only its last row is
 * wanted.  With operands of floats and of BF16.  The largest error, for rows of order 1, and the worst
 * cosine:
 *	  5e-3, 0.99999	floats: queries are rounded to F16
 *	  0.08, 0.9995	BF16
 *
 * test_encoders [--lib FILE] [NAME ...]: these, or all; on the device of another library.
 */
#include "device_ops.h"
#include "model/weights/device_arena.h"
#include "tests/golden/encoders.h"

static const KDeviceOps *ops;

static Model *
load(const char *name, const Dev *dev, KPool *pool, Err *e)
{
	Files	   *f = encoder_files(name);
	Source		source = {.files = f};
	ModelSource src = source_of(&source);
	ModelOptions opt = {.kernels = dev->k, .pool = pool, .max_rows = MAX_ROWS, .max_out = MAX_ROWS,
						.dev = dev};
	Model	   *m = f != NULL ? model_new(files_conf(f), &src, &opt, e) : NULL;

	source_done(&source);
	files_close(f);
	return m;
}

/*
 * Run one step of the sequences order[0] .. order[n - 1]; all rows are wanted, or only the last of each.
 * out: [rows][width].
 */
static bool
step(Model *m, const Dev *dev, const Encoder *g, const int *order, int n, bool last, float *out, Err *e)
{
	const ModelInfo *info = model_info(m);
	int32_t		start[MAX_SEQS + 1] = {0};
	int32_t		pos[MAX_ROWS];
	int32_t		tokens[MAX_ROWS];
	int32_t		types[MAX_ROWS];
	int32_t		wanted[MAX_ROWS];
	int32_t		tables[MAX_SEQS][MAX_ROWS / BLOCK];
	const int32_t *table[MAX_SEQS];
	int			used = 0;
	Batch		b = {.tokens = tokens, .types = types, .hidden = true, .out_rows = wanted};
	KvView		kv;
	DevMem		mem = {0};
	HostDev		rows = {0};
	bool		ok;

	for (int i = 0; i < n; i++)
	{
		const Seq  *s = &g->seqs[order[i]];

		for (int j = 0; j < s->n; j++)
		{
			int			row = start[i] + j;

			pos[row] = j;
			tokens[row] = s->ids[j];
			types[row] = s->types[j];
			if (!last || j == s->n - 1)
				wanted[b.n_out++] = row;
		}
		start[i + 1] = start[i] + s->n;
		for (int j = 0; j * BLOCK < s->n; j++)
			tables[i][j] = used++;
		table[i] = tables[i];
	}
	b.rows = (KRows) {.n_rows = start[n], .n_seqs = n, .seq_start = start, .pos = pos, .block_table = table};
	kv = (KvView) {.type = dev->k->op_size == 4 ? KT_F16 : KT_BF16, .n_layers = info->n_kv_layers,
				   .n_blocks = used, .block_size = BLOCK,
		.n_kv_heads = info->n_kv_heads, .head_dim = info->head_dim};
	ok = devmem_reserve(&mem, dev, kv_layout(&kv) + 64, HUGE_OFF, "KV", e) &&
		hostdev_new(&rows, dev, (size_t) b.n_out * (size_t) g->width, "rows", e);
	if (ok)
	{
		kv.base = mem.base;
		ok = model_forward(m, &b, &kv, rows.dev);
		hostdev_get(&rows, 0, rows.n);
		ok = dev_wait(dev, e) && ok;
		memcpy(out, rows.host, rows.n * sizeof(float));
	}
	hostdev_free(&rows);
	devmem_free(&mem);
	return ok;
}

/* Each sequence has the same bits in another step as in `all`. */
static void
check_bits(const char *name, Model *m, const Dev *dev, const Encoder *g, const float *all, const char *how,
		   const int *order, int n, bool last)
{
	size_t		width = (size_t) g->width;
	float	   *out = mem_alloc(MAX_ROWS * width * sizeof(float));
	const float *at = out;
	Err			e = {0};

	CHECK(step(m, dev, g, order, n, last, out, &e), "%s: %s", name, e.msg);
	for (int i = 0; i < n; i++)
	{
		const float *want = all;
		int			rows = g->seqs[order[i]].n;

		for (int j = 0; j < order[i]; j++)
			want += (size_t) g->seqs[j].n * width;
		if (last)
			want += (size_t) (rows - 1) * width;
		rows = last ? 1 : rows;
		CHECK(memcmp(at, want, (size_t) rows * width * sizeof(float)) == 0,
			  "%s: sequence %d has other bits %s", name, order[i], how);
		at += (size_t) rows * width;
	}
	mem_free(out);
}

static void
check_model(const char *name, KDevice *d, KPool *pool, KType as)
{
	Dev			dev = {.ops = ops, .d = d, .k = ops->kernels(d, as)};
	Encoder		g;
	Err			e = {0};
	Model	   *m;
	int			order[MAX_SEQS];
	int			back[MAX_SEQS];
	float	   *all;
	double		error;
	double		cos;
	bool		thorough = check_effort(1, 1, 2) == 2;

	if (dev.k == NULL)
	{
		check_skip(1, "the device has no ops for operands of that type");
		return;
	}
	if (!encoder_read(name, &g) || (m = load(name, &dev, pool, &e)) == NULL)
	{
		CHECK(false, "%s: %s", name, e.msg);
		return;
	}
	all = mem_alloc(MAX_ROWS * (size_t) g.width * sizeof(float));
	for (int i = 0; i < g.n_seqs; i++)
	{
		order[i] = i;
		back[i] = g.n_seqs - 1 - i;
	}
	CHECK(step(m, &dev, &g, order, g.n_seqs, false, all, &e), "%s: %s", name, e.msg);
	cos = encoder_compare(&g, all, true, &error);
	CHECK(error <= (as == KT_F32 ? 5e-3 : 0.08) && cos >= (as == KT_F32 ? 0.99999 : 0.9995),
		  "%s, operands of %s: error %g, cosine %.6f", name, ktype_name(as), error, cos);
	/* one model with each type */
	if (as == KT_F32 || thorough)
		check_bits(name, m, &dev, &g, all, "in another order", back, g.n_seqs, false);
	if (as != KT_F32 || thorough)
		check_bits(name, m, &dev, &g, all, "with only its last row wanted", order, g.n_seqs, true);
	for (int i = 0; i < (thorough ? g.n_seqs : 1); i++)
		check_bits(name, m, &dev, &g, all, "by itself", &order[i], 1, false);
	printf("%-22s %-5s error %.1e, cosine %.6f\n", name, ktype_name(as), error, cos);
	model_free(m);
	mem_free(all);
	encoder_free(&g);
}

int
main(int argc, char **argv)
{
	KDevOpen	open = {.max_rows = MAX_ROWS, .max_seqs = MAX_SEQS, .max_blocks = MAX_ROWS / BLOCK,
						.max_out = MAX_ROWS, .invariant = true};
	KPool	   *pool = kpool_new(1);
	char		why[256] = "";
	struct dirent **files;
	int			first;
	int			n;
	KDevice    *d;

	setvbuf(stdout, NULL, _IOLBF, 0);
	ops = open_device_ops(argc, argv, &first);
	d = ops != NULL ? ops->open(0, &host, &open, why, sizeof(why)) : NULL;
	CHECK(d != NULL, "open: %s", why);
	if (d == NULL)
		return check_done("test_encoders");
	kpool_set_device(pool, d);
	for (int i = first; i < argc; i++)
	{
		RUN(check_model(argv[i], d, pool, KT_F32));
		RUN(check_model(argv[i], d, pool, KT_BF16));
	}
	n = argc > first ? 0 : scandir(EXPECTED, &files, encoder_is_model, alphasort);
	CHECK(n >= 0, "directory \"%s\" can't be read", EXPECTED);
	for (int i = 0; i < n; i++)
	{
		files[i]->d_name[strlen(files[i]->d_name) - 4] = '\0';
		/* one type of operands for each, in turn; nightly both */
		for (int t = 0; t < 2; t++)
			if (check_effort(1, 1, 2) == 2 || i % 2 == t)
				RUN_NAMED(files[i]->d_name,
						  check_model(files[i]->d_name, d, pool, t == 0 ? KT_F32 : KT_BF16));
		free(files[i]);
	}
	if (n > 0)
		free(files);
	kpool_free(pool);
	ops->close(d);
	return check_done("test_encoders");
}
