#!/usr/bin/env python3
"""Record how transformers answers prompts of embeddings that belong to no token, for embeds_golden.c.

    embeds_golden.py        run in the repository's root; writes embeds_golden.txt

Needs torch and transformers.  Rows are mixtures of rows of the embedding's weight.  If a model's embedding
layer multiplies the rows that it looks up, the script multiplies the given rows, too.  Greedy, weights
float32.  A line: model, rows, width, the numbers, the answer's ids.
"""
import torch
from transformers import AutoModelForCausalLM

MODELS = ["llama_f32", "llama_tied_bf16", "gemma_bf16", "gemma2_bf16", "gemma3_bf16", "gpt2_f16", "opt_f16", "opt_post_f16", "granite_f16", "bloom_f16",
          "mamba_f16"]
ROWS, OUTPUT, CLOSE = 8, 8, 0.02


def rows_for(layer, rows):
    """Return the layer's output for these weights."""
    table, ids = layer.weight.data, torch.arange(rows.shape[0])
    keep = table[:rows.shape[0]].clone()
    table[:rows.shape[0]] = rows
    out = layer(ids).float()
    table[:rows.shape[0]] = keep
    return out


def answer(name):
    model = AutoModelForCausalLM.from_pretrained("build/fixtures/models/" + name, dtype=torch.float32).eval()
    layer = model.get_input_embeddings()
    table = layer.weight.data.float()
    for seed in range(100):
        torch.manual_seed(seed)
        a, b = torch.randint(3, table.shape[0] - 3, (2, ROWS))
        rows = (0.6 * table[a] + 0.4 * table[b]).half().float()
        x, ids, gap = rows_for(layer, rows)[None], [], 1e9
        for _ in range(OUTPUT):
            logits = model(inputs_embeds=x, use_cache=False).logits[0, -1].float()
            two = logits.topk(2)
            gap = min(gap, float(two.values[0] - two.values[1]))
            ids.append(int(two.indices[0]))
            x = torch.cat([x, layer(torch.tensor([ids[-1:]])).float()], 1)
        # take only texts whose best two tokens differ clearly, so that rounding can't decide
        if gap > CLOSE:
            return rows, ids
    raise SystemExit(name + ": no clear answer")


def main():
    with torch.no_grad(), open("tests/golden/embeds_golden.txt", "w") as f:
        f.write("# made by embeds_golden.py\n")
        for name in MODELS:
            rows, ids = answer(name)
            f.write(" ".join([name, str(rows.shape[0]), str(rows.shape[1])] + ["%.6g" % v for v in rows.flatten().tolist()]
                             + [str(len(ids))] + [str(i) for i in ids]) + "\n")


if __name__ == "__main__":
    main()
