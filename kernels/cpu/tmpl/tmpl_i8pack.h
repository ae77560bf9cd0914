/*
 * tmpl_i8pack.h
 *	  INT8: the packed layout, packing, row look-up.
 *
 * A panel is 32 columns: their float scales, a word that says whether its codes are small (below), then
 * groups of 128 k, the last one perhaps shorter.  A group has, for each column, the sum of its codes in
 * 16 bits (which is multiplied by activations' zero points), then the codes, signed bytes: 128 bytes for
 * each four of k, placed by Q_LANE.  k is padded to a multiple of 16.
 *
 * Small codes: of k = 8m + {0, 1, 4, 5} and of k = 8m + {2, 3, 6, 7} the sum of |code|
 * is at most INT8_QUAD in all columns.  Then four products with activations of up
 * to 127 fit 16 bits, and tiles add them there (tmpl_i8tile.h).
 */
#define I8_SMALL	(Q_COLS * 4)
#define I8_HEADER	(I8_SMALL + 64)
#define I8_SUMS		(Q_COLS * 2)
#define I8_STEP		16			/* k processed at once */
#define I8_STEPS	(I8_GROUP / I8_STEP)
#define I8_STEP_BYTES	(I8_STEP * Q_COLS)
#define I8_GROUP_BYTES	(I8_SUMS + I8_STEPS * I8_STEP_BYTES)

static inline int
i8_steps(int k)
{
	return (k + I8_STEP - 1) / I8_STEP;
}

static inline size_t
i8_panel_bytes(int k)
{
	size_t		groups = ((size_t) k + I8_GROUP - 1) / I8_GROUP;

	return I8_HEADER + groups * I8_SUMS + (size_t) i8_steps(k) * I8_STEP_BYTES;
}

/* |bytes| of each word, added in pairs */
static inline pv
i8_abs_pairs(pv w)
{
	pv			neg = w >> 7 & 0x01010101u,
				x = (w ^ neg * 255u) + neg;

	return (x & 0x00ff00ffu) + (x >> 8 & 0x00ff00ffu);
}

/*
 * Pack 16 k of all columns; sums: two of 16 bits for each column, of codes + 128.  Return high bits if
 * codes aren't small.
 */
static inline pv
i8_pack_step(uint8_t *rows, const uint8_t *const *src, pv sums[Q_COLS / P_LANES])
{
	const uint32_t past = 0x10001u * (0x8000 - INT8_QUAD - 1);
	pv			large = {0};

	for (int c0 = 0; c0 < Q_COLS; c0 += P_LANES)
	{
		pv			w[4];

		p_load(w, src + c0, 0);
		for (int i = 0; i < 4; i++)
		{
			pv			x = w[i] ^ 0x80808080u;

			p_put(rows + i * Q_FOUR, c0, w[i]);
			sums[c0 / P_LANES] += (x & 0x00ff00ffu) + (x >> 8 & 0x00ff00ffu);
		}
		large |= i8_abs_pairs(w[0]) + i8_abs_pairs(w[1]) + past;
		large |= i8_abs_pairs(w[2]) + i8_abs_pairs(w[3]) + past;
	}
	return large & 0x80008000u;
}

/* pack n codes of each column, at most a group; large: see i8_pack_step(); return the end */
static uint8_t *
i8_pack_group(uint8_t *group, const uint8_t *const *codes, int n, pv *large)
{
	pv			sums[Q_COLS / P_LANES];
	uint8_t    *to = group + I8_SUMS;
	uint8_t		last[Q_COLS][I8_STEP];
	const uint8_t *src[Q_COLS];

	memset(sums, 0, sizeof(sums));
	for (int i = 0; i < n; i += I8_STEP, to += I8_STEP_BYTES)
	{
		for (int c = 0; c < Q_COLS; c++)
		{
			src[c] = codes[c] + i;
			if (n - i < I8_STEP)
			{
				memset(last[c], 0, I8_STEP);
				memcpy(last[c], src[c], (size_t) (n - i));
				src[c] = last[c];
			}
		}
		*large |= i8_pack_step(to, src, sums);
	}
	for (int c0 = 0; c0 < Q_COLS; c0 += P_LANES)
	{
		pv			s = sums[c0 / P_LANES];

		s = (s & 0xffff) + (s >> 16) - 128u * I8_STEP * (uint32_t) i8_steps(n);
		p_put_low(group, c0, s & 0xffff);
	}
	return to;
}

/* Make a panel from rows of a float and k bytes; NULL: zeros. */
static void
i8_pack_panel(uint8_t *panel, const uint8_t *const *rows, int k)
{
	static const uint8_t zeros[I8_GROUP];
	const uint8_t *src[Q_COLS];
	uint8_t    *header = panel;
	pv			large = {0};
	bool		small = true;

	for (int c = 0; c < Q_COLS; c++)
		memcpy(panel + c * 4, rows[c] != NULL ? rows[c] : zeros, 4);
	panel += I8_HEADER;
	for (int i = 0; i < k; i += I8_GROUP)
	{
		for (int c = 0; c < Q_COLS; c++)
			src[c] = rows[c] != NULL ? rows[c] + 4 + i : zeros;
		panel = i8_pack_group(panel, src, k_min(I8_GROUP, k - i), &large);
	}
	for (int i = 0; i < P_LANES; i++)
		small = small && large[i] == 0;
	memset(header + I8_SMALL, 0, I8_HEADER - I8_SMALL);
	header[I8_SMALL] = small;
}

static void
i8_mat_row(const KMat *m, int j, float *out)
{
	int			c = j % Q_COLS;
	const uint8_t *panel = (const uint8_t *) m->data + (size_t) (j / Q_COLS) * i8_panel_bytes(m->k);
	float		d;

	memcpy(&d, panel + c * 4, 4);
	panel += I8_HEADER;
	for (int i = 0; i < m->k; i++)
	{
		const uint8_t *four = panel + (size_t) (i / I8_GROUP + 1) * I8_SUMS + (size_t) (i / 4) * Q_FOUR;

		out[i] = d * (float) (int8_t) four[Q_LANE(i % 4, c)];
	}
}
