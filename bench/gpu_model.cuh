/*
 * gpu_model.cuh
 *	  The model of bench/gpu: the shape of Llama 3.1 8B in BF16 with random weights, made on the device.
 *	  Included by gpu.cu.
 *
 * Steps are the engine's: begun, ops of the table in the order of src/model's decoder, one graph for
 * each kind of decoding step, ended.  There is no tokenizer, no scheduler and no sampling, so the result
 * is an upper bound of the engine's speed; bench/gpu_sql measures requests through SQL.
 */
#include <time.h>

#define BLOCK	16

static const struct Llama
{
	int			hidden,
				inter,
				layers,
				heads,
				kv_heads,
				head_dim,
				vocab;
	int			seqs,			/* number in the batch */
				prompt,
				answer;
	int			chunk;			/* rows of a prefill step */
}			llama_8b = {4096, 14336, 32, 32, 8, 128, 128256, 256, 512, 128, 8192},
			tiny_llama = {128, 96, 2, 4, 2, 64, 100, 3, 20, 3, 40};

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

struct Layer8
{
	KMat		qkv,
				o,
				up,
				down;
};

struct Bench8
{
	const Llama &c;
	const KDeviceOps *ops;
	KDevice    *dev;
	KPool	   *pool;
	const Kernels *k;
	std::vector<void *> rooms;
	bool		ok;
	double		weights;		/* bytes of weights that a decoding step reads */
	KMat		embed,
				head;
	std::vector<Layer8> layers;
	float	   *norm,
			   *cs,
			   *x,
			   *y,
			   *qkv,
			   *gu,
			   *logits;
	KOp		   *h,
			   *att,
			   *act;
	void	   *ws;
	KvView		kv;
	std::vector<std::vector<int32_t>> blocks;
	std::vector<const int32_t *> tables;

	Bench8(const Llama &c_, const KDeviceOps *ops_, KDevice *dev_, KPool *pool_) : c(c_), ops(ops_),
		dev(dev_), pool(pool_), ok(true), weights(0), kv{}
	{
		size_t		rows = c.chunk,
					scratch = 0;
		int			q = c.heads * c.head_dim,
					most = (c.prompt + c.answer + BLOCK - 1) / BLOCK;

		k = ops->kernels(dev, KT_BF16) != NULL ? ops->kernels(dev, KT_BF16) : ops->kernels(dev, KT_F32);
		embed = matrix(c.vocab, c.hidden, &scratch);
		weights = 0;
		head = matrix(c.vocab, c.hidden, &scratch);
		for (int i = 0; i < c.layers; i++)
		{
			Layer8		l;

			l.qkv = matrix(q + 2 * c.kv_heads * c.head_dim, c.hidden, &scratch);
			l.o = matrix(c.hidden, q, &scratch);
			l.up = matrix(2 * c.inter, c.hidden, &scratch);
			l.down = matrix(c.hidden, c.inter, &scratch);
			layers.push_back(l);
		}
		kv.type = KT_BF16;
		kv.n_layers = c.layers;
		kv.n_blocks = c.seqs * most;
		kv.block_size = BLOCK;
		kv.n_kv_heads = c.kv_heads;
		kv.head_dim = c.head_dim;
		kv.base = (uint8_t *) take(kv_layout(&kv));
		for (int s = 0, b = 0; s < c.seqs; s++)
		{
			blocks.emplace_back();
			for (int i = 0; i < most; i++)
				blocks.back().push_back(b++);
		}
		norm = (float *) take(c.hidden * sizeof(float));
		cs = (float *) take((size_t) (c.prompt + c.answer) * c.head_dim * sizeof(float));
		x = (float *) take(rows * c.hidden * sizeof(float));
		y = (float *) take(rows * c.hidden * sizeof(float));
		qkv = (float *) take(rows * (q + 2 * c.kv_heads * c.head_dim) * sizeof(float));
		gu = (float *) take(rows * 2 * c.inter * sizeof(float));
		logits = (float *) take((size_t) c.seqs * c.vocab * sizeof(float));
		h = (KOp *) take(rows * c.hidden * k->op_size);
		att = (KOp *) take(rows * q * k->op_size);
		act = (KOp *) take(rows * c.inter * k->op_size);
		scratch = std::max(scratch, ok ? k->attn_scratch(&kv, c.heads, c.chunk, 1) : 0);
		ws = take(scratch + 256);
		if (!ok)
			return;
		ops->fill(dev, norm, 0x3c, c.hidden * sizeof(float));
		ops->fill(dev, cs, 0x3c, (size_t) (c.prompt + c.answer) * c.head_dim * sizeof(float));
	}
	~Bench8()
	{
		for (void *p : rooms)
			ops->free(dev, p);
	}

	void *
	take(size_t size)
	{
		void	   *p = ok ? ops->alloc(dev, size, "bench") : NULL;

		ok = p != NULL;
		if (ok)
			rooms.push_back(p);
		return p;
	}

	KMat
	matrix(int n, int dim, size_t *scratch)
	{
		size_t		bytes = k->mat_bytes(KT_BF16, n, dim);
		KMat		m = {KT_BF16, n, dim, take(bytes), bytes};

		if (ok)
			LAUNCH(random_kernel, (unsigned) ((bytes / 2 + 255) / 256), 256, 0, stream, (uint16_t *) m.data,
				   bytes / 2);
		*scratch = std::max(*scratch, k->mm_scratch(KT_BF16, c.chunk, dim));
		weights += (double) bytes;
		return m;
	}

	void
	rotate(const KRows *r, int layer, int q, int wide)
	{
		int			kv_dim = c.kv_heads * c.head_dim;

		if (k->rope_kv != NULL)
		{
			k->rope_kv(pool, &kv, layer, r, qkv, wide, c.heads, cs, c.head_dim);
			return;
		}
		k->rope(pool, qkv, r->n_rows, wide, c.heads + c.kv_heads, c.head_dim, r->pos, cs, c.head_dim);
		k->kv_write(pool, &kv, layer, r, qkv + q, wide, qkv + q + kv_dim, wide);
	}

	void
	forward(const KStep *s)
	{
		const KRows *r = s->rows;
		int			n = r->n_rows,
					q = c.heads * c.head_dim,
					wide = q + 2 * c.kv_heads * c.head_dim;
		KAttn		a = {};

		a.scale = 0.0883883f;
		k->rows_of(pool, &embed, s->tokens, 0, n, x, c.hidden);
		for (int i = 0; i < c.layers; i++)
		{
			const Layer8 &l = layers[i];

			if (i == 0)
				k->rmsnorm_op(pool, h, x, norm, n, c.hidden, 1e-5f);
			else
				k->add_rmsnorm(pool, h, x, y, norm, n, c.hidden, 1e-5f);
			k->mm(pool, &l.qkv, h, n, c.hidden, qkv, wide, NULL, ws);
			rotate(r, i, q, wide);
			k->attn(pool, &kv, i, r, qkv, wide, c.heads, &a, att, ws);
			k->mm(pool, &l.o, att, n, q, y, c.hidden, NULL, ws);
			k->add_rmsnorm(pool, h, x, y, norm, n, c.hidden, 1e-5f);
			k->mm(pool, &l.up, h, n, c.hidden, gu, 2 * c.inter, NULL, ws);
			k->act_mul(pool, KACT_SILU, act, gu, n, c.inter);
			k->mm(pool, &l.down, act, n, c.inter, y, c.hidden, NULL, ws);
		}
		k->add(pool, x, y, n, c.hidden);
		k->copy_rows(pool, y, c.hidden, x, c.hidden, s->out_rows, s->n_out, c.hidden);
		k->rmsnorm_op(pool, h, y, norm, s->n_out, c.hidden, 1e-5f);
		k->mm(pool, &head, h, s->n_out, c.hidden, logits, c.vocab, NULL, ws);
	}

	/* Run rows at .. at + n - 1 of sequences first .. first + seqs - 1; if n is 1, all of them decode. */
	bool
	step(int first, int seqs, int at, int n)
	{
		std::vector<int32_t> pos,
					start(1, 0),
					tokens(seqs * n, 7),
					out;
		KRows		r = {};
		KStep		s = {};
		KGraphKey	key = {seqs, seqs, 1, 0};
		char		err[256];
		KRun		run;

		tables.clear();
		for (int i = first; i < first + seqs; i++)
		{
			for (int p = at; p < at + n; p++)
				pos.push_back(p);
			start.push_back((int) pos.size());
			out.push_back((int) pos.size() - 1);
			tables.push_back(blocks[i].data());
		}
		while (key.splits * 512 < at + n)
			key.splits *= 2;
		r.n_rows = (int) pos.size();
		r.n_seqs = seqs;
		r.seq_start = start.data();
		r.pos = pos.data();
		r.block_table = tables.data();
		s.rows = &r;
		s.kv = &kv;
		s.tokens = tokens.data();
		s.out_rows = out.data();
		s.n_out = seqs;
		s.max_pos = at + n - 1;
		ops->step_begin(dev, &s);
		run = ops->graph(dev, n == 1 ? &key : NULL);
		if (run != KRUN_REPLAYED)
			forward(&s);
		if (ops->step_end(dev, err, sizeof(err)))
			return true;
		skip("model8b", err);
		return false;
	}

	/* Measure the seconds for all prompts, and for all outputs. */
	bool
	serve(int seqs, double *prompts, double *answers)
	{
		int			together = std::max(1, c.chunk / c.prompt);
		double		t = now();

		for (int s = 0; s < seqs; s += together)
			if (!step(s, std::min(together, seqs - s), 0, c.prompt))
				return false;
		*prompts = now() - t;
		t = now();
		for (int i = 0; i < c.answer; i++)
			if (!step(0, seqs, c.prompt + i, 1))
				return false;
		*answers = now() - t;
		return true;
	}
};

/* Return the bytes of K and V that a decoding step of a sequence reads, on average. */
static double
kv_bytes(const Llama &c)
{
	return 4.0 * c.layers * c.kv_heads * c.head_dim * (c.prompt + c.answer / 2.0);
}

static void
measure_model(Bench8 *b, const char *variant)
{
	const Llama &c = b->c;
	double		prompts,
				answers,
				flop = 2.0 * (b->weights / 2 - (double) c.vocab * c.hidden) * c.prompt * c.seqs,
				least,
				tokens = (double) c.seqs * c.answer,
				hf = given("hf");
	auto		tell = [&](const char *what, double value, const char *unit, double bound, const char *of,
						   double bar) {
		char		text[64];

		snprintf(text, sizeof(text), "%s, %s", what, variant);
		report("model8b", text, value, unit, bound, of, bar);
	};

	/* twice, so that graphs are recorded in the second run */
	for (int i = 0; i < (smoke ? 1 : 2); i++)
		if (!b->serve(1, &prompts, &answers))
			return;
	tell("one stream, decoding", c.answer / answers, "tok/s", copy_rate / (b->weights + kv_bytes(c)), "copy",
		 0.75);
	for (int i = 0; i < (smoke ? 1 : 2); i++)
		if (!b->serve(c.seqs, &prompts, &answers))
			return;
	least = flop / peak() + c.answer * (b->weights + c.seqs * kv_bytes(c)) / copy_rate;
	tell("batch, prompts", flop / prompts / 1e12, "TFLOP/s", peak() / 1e12, "best product", 0);
	tell("batch, decoding", tokens / answers, "tok/s",
		 tokens * copy_rate / c.answer / (b->weights + c.seqs * kv_bytes(c)), "copy", 0);
	tell("batch, prompts and answers", tokens / (prompts + answers), "tok/s", tokens / least,
		 "product and copy", 0.60);
	if (hf > 0)
		tell("batch, beside transformers", tokens / (prompts + answers), "tok/s", hf, "transformers", 3.0);
	else
		skip("model8b", given_why[0] != '\0' ? given_why : "nothing of transformers'");
}

static void
bench_variant(KVariant variant)
{
	const Llama &c = smoke ? tiny_llama : llama_8b;
	const KDeviceOps *ops = vllm_pg_device_ops(KDEVICE_ABI);
	const KHost the_host = {KDEVICE_ABI, NULL, kpool_device, kpool_nthreads};
	const KDevOpen o = {c.chunk, c.seqs, (c.prompt + c.answer) / BLOCK + 2, c.seqs, true, variant, false};
	char		err[256] = "";
	KDevice    *d = ops->open(0, &the_host, &o, err, sizeof(err));
	KPool	   *pool = kpool_new(1);

	if (d == NULL || pool == NULL)
		skip("model8b", err);
	else
	{
		kpool_set_device(pool, d);
		Bench8	   *b = new Bench8(c, ops, d, pool);

		cudaStreamSynchronize(stream);
		if (b->ok)
			measure_model(b, variants[variant == KVARIANT_WGMMA]);
		else
			skip("model8b", "no memory");
		delete b;
	}
	kpool_free(pool);
	if (d != NULL)
		ops->close(d);
}

static void
bench_model8b(void)
{
	bench_variant(KVARIANT_MMA);
	if (n_variants() > 1)
		bench_variant(KVARIANT_WGMMA);
}
