/*
 * test_stepgraph.c
 *	  Which steps are captured in graphs, under which keys, and how they are padded.
 */
#include <string.h>

#include "runtime/capture_sizes.h"
#include "model/step_graph.h"
#include "tests/unit/check.h"

#define ROWS 20

static int32_t pos[ROWS],
			tokens[ROWS],
			out[ROWS],
			start[ROWS + 1],
			slots[ROWS];
static int32_t blocks[2];
static const int32_t *tables[ROWS];

static Batch
decode(int n)
{
	for (int i = 0; i < ROWS; i++)
	{
		pos[i] = 100 + i;
		tokens[i] = 7 * i;
		out[i] = start[i] = i;
		slots[i] = ROWS - i;
		tables[i] = &blocks[i % 2];
	}
	start[ROWS] = ROWS;
	return (Batch) {.rows = {.n_rows = n, .n_seqs = n, .seq_start = start, .pos = pos, .block_table = tables,
							 .state_slot = slots},
		.tokens = tokens, .n_out = n, .out_rows = out};
}

static void
check_padding(StepGraphs *g, const KvView *kv, float *y)
{
	static const int sizes[][2] = {{1, 1}, {2, 4}, {4, 4}, {5, 8}, {8, 8}};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
	{
		int			n = sizes[i][0];
		int			size = sizes[i][1];
		Batch		b = decode(n);
		KGraphKey	key;
		const Batch *p = stepgraphs_pad(g, &b, kv, y, &key);
		int			bad = 0;

		CHECK(p != NULL && key.rows == size && key.seqs == size && key.splits == 1, "%d rows", n);
		if (p == NULL)
			continue;
		CHECK(p->rows.n_rows == size && p->rows.n_seqs == size && p->n_out == size &&
			  p->rows.seq_start[size] == size, "%d rows", n);
		for (int j = 0; j < size; j++)
			bad += p->rows.pos[j] != (j < n ? pos[j] : -1) || p->tokens[j] != (j < n ? tokens[j] : -1) ||
				p->out_rows[j] != j || p->rows.seq_start[j] != j ||
				p->rows.block_table[j] != tables[j < n ? j : 0] ||
				p->rows.state_slot[j] != slots[j < n ? j : 0];
		CHECK(bad == 0, "%d rows: %d of %d are other ones", n, bad, size);
	}
}

static void
check_keys(StepGraphs *g, const KvView *kv, float *y)
{
	static const int splits[][2] = {{0, 1}, {511, 1}, {512, 2}, {1023, 2}, {1024, 4}, {2048, 8},
									{100000, 256}};
	KvView		other = *kv;
	Batch		b = decode(3);
	KGraphKey	first,
				key;

	for (size_t i = 0; i < sizeof(splits) / sizeof(splits[0]); i++)
	{
		for (int j = 0; j < 3; j++)
			pos[j] = j == 1 ? splits[i][0] : 0;
		CHECK(stepgraphs_pad(g, &b, kv, y, &key) != NULL && key.splits == splits[i][1],
			  "position %d: %d splits", splits[i][0], key.splits);
	}
	b = decode(3);
	stepgraphs_pad(g, &b, kv, y, &first);
	b = decode(4);
	stepgraphs_pad(g, &b, kv, y, &key);
	CHECK(memcmp(&first, &key, sizeof(key)) == 0, "rows of one size have two keys");
	stepgraphs_pad(g, &b, kv, y + 1, &key);
	CHECK(memcmp(&first, &key, sizeof(key)) != 0, "results elsewhere have the same key");
	other.base++;
	stepgraphs_pad(g, &b, kv, y, &first);
	stepgraphs_pad(g, &b, &other, y, &key);
	CHECK(memcmp(&first, &key, sizeof(key)) != 0, "another KV has the same key");
}

/* Steps that are not plain decoding. */
static void
check_others(StepGraphs *g, const KvView *kv, float *y)
{
	const float *embeds[ROWS] = {0};
	const LoraAdapter *lora[ROWS] = {0};
	ModelTaps	taps = {0};
	KGraphKey	key;
	Batch		b;

#define NOT(what, how) \
	do { \
		b = decode(4); \
		how; \
		CHECK(stepgraphs_pad(g, &b, kv, y, &key) == NULL, what " is recorded"); \
	} while (0)

	NOT("too large a step", b = decode(9));
	NOT("a prompt", b.rows.n_seqs = 3);
	NOT("a row that nobody wants", b.n_out = 3);
	NOT("a step with hidden rows", b.hidden = true);
	NOT("a step with rows in tokens' place", b.embeds = embeds);
	NOT("a step with adapters", b.lora = lora);
	NOT("a step that is tapped", b.taps = &taps);
	NOT("a step with types", b.types = tokens);
	CHECK(stepgraphs_pad(NULL, &b, kv, y, &key) == NULL, "without sizes a step is recorded");
}

static void
check_sizes(void)
{
	static const int requested[] = {8, 2, 300, 8, 1};
	int			s[GRAPH_SIZES];
	int			n = graph_sizes(requested, 5, 299, s);

	CHECK(n == 3 && s[0] == 1 && s[1] == 2 && s[2] == 8, "%d sizes, %d %d %d", n, s[0], s[1], s[2]);
	n = graph_sizes(NULL, 0, 512, s);
	CHECK(n == 51 && s[2] == 4 && s[3] == 8 && s[4] == 16 && s[33] == 248 && s[34] == 256 && s[35] == 272 &&
		  s[50] == 512, "%d sizes", n);
	CHECK(graph_sizes(NULL, 0, 7, s) == 3, "sizes above the most");
}

int
main(void)
{
	static const int sizes[] = {1, 4, 8, 16};
	float		y[2];
	uint8_t		area[2];
	KvView		kv = {.base = area};
	StepGraphs *g = stepgraphs_new(sizes, 4, 15);

	CHECK(stepgraphs_new(sizes, 4, 0) == NULL && stepgraphs_new(NULL, 0, 8) == NULL, "no sizes");
	RUN(check_sizes());
	RUN(check_padding(g, &kv, y));
	RUN(check_keys(g, &kv, y));
	RUN(check_others(g, &kv, y));
	stepgraphs_free(g);
	return check_done("test_stepgraph");
}
