/*
 * mla.c
 *	  Multi-head latent attention (DeepSeek-V2, 2024, arXiv:2405.04434): the cache keeps only a latent
 *	  vector of a token's k and v, shared by all heads, from which a product would give each head's k
 *	  and v.
 *
 * This code avoids that product: since q (W c) = (q W) c, it maps each head's q to the latent space,
 * runs attention over the latents as over one head of k and v that all heads share, and maps the result
 * to each head's space of v.  So a token takes latent + rope numbers of cache and no more work than its
 * heads need.
 *
 * A part of each head of q and k is rotated by position and stored after the latent; k's is shared, too.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "base/assert.h"
#include "base/alloc.h"
#include "model/layers/bind.h"
#include "model/parallel/shard.h"

/* epsilon of the latents' norms, whatever the configuration says of other norms */
#define LATENT_EPS 1e-6f

/* ---- configuration ---- */

bool
dec_conf_mla(const Conf *c, DecoderConf *o, Err *e)
{
	MlaConf    *m = &o->mla;
	bool		gguf = conf_has(c, "gguf.architecture");
	/* old files have k and v in one matrix, and their sizes in the keys that otherwise give the
	 * latent's */
	bool		split = conf_has(c, "gguf.key_length_mla");
	int			qk = 0;

	if (gguf || conf_is_null(c, "q_lora_rank"))
		m->q_latent = 0;
	if (!dec_conf_int(c, "kv_lora_rank", 1, DEC_MAX_HEAD_DIM, 0, &m->latent, e) ||
		!dec_conf_int(c, "q_lora_rank", 0, DEC_MAX_INTER, m->q_latent, &m->q_latent, e) ||
		!dec_conf_int(c, gguf ? "rotary_dim" : "qk_rope_head_dim", 2, DEC_MAX_HEAD_DIM, 0, &m->rope, e) ||
		!dec_conf_int(c, split ? "gguf.value_length_mla" : "v_head_dim", 1, DEC_MAX_HEAD_DIM, 0, &m->v, e) ||
		(gguf && !dec_conf_int(c, split ? "gguf.key_length_mla" : "head_dim", m->rope + 1,
							   2 * DEC_MAX_HEAD_DIM, 0, &qk, e)) ||
		(!gguf && !dec_conf_int(c, "qk_nope_head_dim", 1, DEC_MAX_HEAD_DIM, 0, &m->plain, e)))
		return false;
	if (gguf)
		m->plain = qk - m->rope;
	if (m->rope % 2 != 0 || m->latent + m->rope > DEC_MAX_HEAD_DIM)
		return err_set(e, ERR_UNSUPPORTED, "latent attention with %d and %d dimensions is not supported",
					   m->latent, m->rope);
	return true;
}

/* ---- weights ---- */

/* Bind heads whose last rope rows are adjacent pairs in the file. */
static bool
bind_roped(Binder *b, Linear *l, const char *hf, const char *gguf, int heads, int plain, int rope, bool bias)
{
	int			dim = plain + rope;
	int			n = heads * dim;
	int32_t    *rows = mem_alloc((size_t) n * sizeof(int32_t));
	bool		ok;

	for (int r = 0; r < n; r++)
	{
		int			i = r % dim - plain;
		int			half = rope / 2;

		rows[r] = i < 0 ? r : r - i + (i < half ? 2 * i : 2 * (i - half) + 1);
	}
	ok = bind_rows(b, l, hf, gguf, n, bind_decoder_conf(b)->interleaved ? rows : NULL, n, bias);
	mem_free(rows);
	return ok;
}

/* Bind each head's matrices: rows of one matrix, or, in newer GGUF files, of tensors with one matrix for
 * each head. */
static bool
bind_heads(Binder *b, Layer *l, const DecoderConf *c)
{
	const MlaConf *m = &c->mla;
	int			rows = m->plain + m->v;
	static const char name[] = "self_attn.kv_b_proj";
	static const char gguf[] = "attn_kv_b";
	bool		split = bind_is_gguf(b) && bind_has(b, "", "attn_k_b.weight");
	bool		ok = true;

	bind_stack(b, &l->mla.k, c->n_heads, c->n_heads);
	bind_stack(b, &l->mla.v, c->n_heads, c->n_heads);
	for (int h = 0; ok && h < c->n_heads; h++)
	{
		BindSlice	k = {.count = c->n_heads, .at = h, .n = m->latent, .step = 1, .hf = "",
						 .gguf = "attn_k_b"};
		BindSlice	v = {.count = c->n_heads, .at = h, .n = m->v, .step = 1, .hf = "", .gguf = "attn_v_b"};
		Linear	   *to_k = &l->mla.k.of[h];
		Linear	   *to_v = &l->mla.v.of[h];

		to_k->k = m->plain;
		to_v->k = m->latent;
		if (split)
			ok = bind_slice(b, to_k, &k, m->latent) && bind_slice(b, to_v, &v, m->v);
		else
			ok = bind_block(b, to_k, name, gguf, c->n_heads * rows, m->latent, h * rows, true, m->latent) &&
				bind_block(b, to_v, name, gguf, c->n_heads * rows, m->latent, h * rows + m->plain, false,
						   m->v);
	}
	return ok;
}

bool
bind_mla(Binder *b, Layer *l)
{
	const DecoderConf *c = bind_decoder_conf(b);
	const MlaConf *m = &c->mla;
	Mla		   *w = &l->mla;
	bool		ok;

	w->in.k = c->hidden;
	w->q.k = m->q_latent;
	l->o.k = c->n_heads * m->v;
	if (m->q_latent > 0)
		ok = bind_linear(b, &w->in, "self_attn.q_a_proj", "attn_q_a", m->q_latent, c->qkv_bias) &&
			bind_norm(b, &w->q_norm, "self_attn.q_a_layernorm", "attn_q_a_norm", m->q_latent) &&
			bind_roped(b, &w->q, "self_attn.q_b_proj", "attn_q_b", c->n_heads, m->plain, m->rope, false);
	else
		ok = bind_roped(b, &w->in, "self_attn.q_proj", "attn_q", c->n_heads, m->plain, m->rope, false);
	return ok &&
		bind_roped(b, &w->in, "self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", 1, m->latent, m->rope,
				   c->qkv_bias) &&
		bind_norm(b, &w->norm, "self_attn.kv_a_layernorm", "attn_kv_a_norm", m->latent) &&
		bind_heads(b, l, c) && bind_linear(b, &l->o, "self_attn.o_proj", "attn_output", c->hidden, c->o_bias);
}

/* ---- the block ---- */

/* Rows row0 .. row0 + rows - 1 of a step. */
typedef struct MlaStep
{
	Decoder    *d;
	const Layer *l;
	const float *q;				/* of all rows */
	int			ldq;
	KOp		   *att;			/* of all rows, of this rank's heads */
	int			row0;
	int			rows;
	KRows		r;				/* these rows for the kernels */
} MlaStep;

/* Set the current rows as rows of sequences, and the heads as groups of as many rows. */
static void
cut_rows(MlaStep *s)
{
	const KRows *all = &s->d->b->rows;
	MlaWork    *w = &s->d->mla;
	int			first = 0;
	int			n = 0;

	ALWAYS(s->rows > 0 && s->row0 + s->rows <= all->seq_start[all->n_seqs]);	/* sequences have all rows */
	while (all->seq_start[first + 1] <= s->row0)
		first++;
	for (int i = first; i < all->n_seqs && all->seq_start[i] < s->row0 + s->rows; i++)
		w->seq_start[n++] = all->seq_start[i] > s->row0 ? all->seq_start[i] - s->row0 : 0;
	w->seq_start[n] = s->rows;
	s->r = (KRows) {
		.n_rows = s->rows, .n_seqs = n, .seq_start = w->seq_start, .pos = all->pos + s->row0,
		.block_table = all->block_table + first, .row0 = s->row0, .seq0 = first
	};
	s->d->k->series(s->d->pool, w->start, s->d->c.n_heads + 1, s->rows);
}

/* Compute attention of the current rows; k and v of all rows are stored. */
static void
mla_rows(MlaStep *s)
{
	Decoder    *d = s->d;
	const MlaConf *c = &d->c.mla;
	MlaWork    *w = &d->mla;
	KAttn		a = {.scale = d->c.attn_scale};
	size_t		rows = (size_t) s->rows;
	size_t		heads = (size_t) d->c.n_heads;
	size_t		plain = (size_t) c->plain;
	size_t		latent = (size_t) c->latent;
	size_t		q_head = plain + (size_t) c->rope;
	size_t		lq_head = latent + (size_t) c->rope;
	size_t		v = (size_t) c->v;
	const float *q = s->q + (size_t) s->row0 * (size_t) s->ldq;

	cut_rows(s);
	/* reorder q's unrotated parts by head; the products, with the rotated parts, are by row again */
	d->k->swap_heads(d->pool, w->plain, true, plain, rows * plain, q, false, (size_t) s->ldq, q_head, s->rows,
					 d->c.n_heads, c->plain);
	dec_stack(d, &s->l->mla.k, w->start, w->plain, c->plain, w->b, c->latent);
	d->k->swap_heads(d->pool, w->latent_q, false, heads * lq_head, lq_head, w->b, false, latent,
					 rows * latent, s->rows, d->c.n_heads, c->latent);
	d->k->swap_heads(d->pool, w->latent_q + latent, false, heads * lq_head, lq_head, q + plain, false,
					 (size_t) s->ldq, q_head, s->rows, d->c.n_heads, c->rope);
	profile_mark(d->profile, PROF_MATMUL);
	d->k->attn(d->pool, d->kv, s->l->c->kv, &s->r, w->latent_q, (int) (heads * lq_head), d->c.n_heads, &a,
			   w->out, d->ws);
	profile_mark(d->profile, PROF_ATTENTION);
	/* reorder attention's result by head; the products are by row again */
	d->k->swap_heads(d->pool, w->turned, true, latent, rows * latent, w->out, true, heads * latent, latent,
					 s->rows, d->c.n_heads, c->latent);
	dec_stack(d, &s->l->mla.v, w->start, w->turned, c->latent, w->a, c->v);
	d->k->swap_heads(d->pool, kop_at(d, s->att, (size_t) s->row0 * heads * v), true, heads * v, v, w->a,
					 false, v, rows * v, s->rows, d->c.n_heads, c->v);
	profile_mark(d->profile, PROF_MATMUL);
}

void
dec_mla(Decoder *d, const Layer *l)
{
	const MlaConf *c = &d->c.mla;
	const Mla  *m = &l->mla;
	int			ld = m->in.n;
	int			head = c->plain + c->rope;
	float	   *latent = d->qkv + (ld - c->latent - c->rope);
	float	   *q = d->qkv;
	int			ldq = ld;
	MlaStep		s = {.d = d, .l = l};

	dec_linear_op(d, &m->in, d->h, d->c.hidden, d->rows, d->qkv, ld);
	profile_mark(d->profile, PROF_MATMUL);
	d->k->norm_heads(d->pool, KNORM_RMS, latent, d->rows, ld, 1, c->latent, m->norm.w, 0, LATENT_EPS);
	if (c->q_latent > 0)
	{
		d->k->norm_heads(d->pool, KNORM_RMS, d->qkv, d->rows, ld, 1, c->q_latent, m->q_norm.w, 0, LATENT_EPS);
		q = d->mla.q;
		ldq = m->q.n;
		dec_linear(d, &m->q, d->qkv, ld, d->rows, q, ldq);
		profile_mark(d->profile, PROF_MATMUL);
	}
	d->k->rope(d->pool, q + c->plain, d->rows, ldq, d->c.n_heads, head, d->b->rows.pos, d->c.rope[0].table,
			   c->rope);
	d->k->rope(d->pool, latent + c->latent, d->rows, ld, 1, c->rope, d->b->rows.pos, d->c.rope[0].table,
			   c->rope);
	profile_mark(d->profile, PROF_ROWS);
	d->k->kv_write(d->pool, d->kv, l->c->kv, &d->b->rows, latent, ld, latent, ld);
	s.q = q;
	s.ldq = ldq;
	s.att = split_own(d, l->o.all > 0 && d->ranks.heads, d->att);
	for (; s.row0 < d->rows; s.row0 += s.rows)
	{
		s.rows = d->rows - s.row0 < d->mla.rows ? d->rows - s.row0 : d->mla.rows;
		mla_rows(&s);
	}
	split_whole(d, l->o.all > 0 && d->ranks.heads, d->att, d->rows, l->o.k, (size_t) d->k->op_size);
}
