#!/usr/bin/env python3
"""Record how Hugging Face transformers continues texts that are longer than a model's positions,
with rotary scaling set: the reference of model option "rope_scaling" (tests/t/024_models.pl).

    rope_option.py                  run in the repository's root

Needs torch and transformers.  The model is the fixture rope_linear_f16 with 32 positions and no
scaling.  Writes tests/fixtures/rope_option.json.  Dynamic NTK computes theta from the full length, as in
vLLM; in transformers theta changes with each token.
"""
import json
import os
import sys

import numpy as np
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModelForCausalLM

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fixtures  # noqa: E402
import gen_models as gm  # noqa: E402
from archs.rope import full_length  # noqa: E402

MODEL = "rope_linear_f16"
TRAINED, THETA = 32, 10000.0
OPTIONS = {
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": TRAINED},
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
}
WORDS = "the rain in spain stays on a plain and as for cats it is not their line".split()


def main():
    fixtures.unpack("models")
    path = os.path.join(gm.FIXTURES, MODEL)
    tok = Tokenizer.from_file(os.path.join(path, "tokenizer.json"))
    rows = []
    for name, rope in OPTIONS.items():
        config = AutoConfig.from_pretrained(path)
        config.max_position_embeddings = TRAINED
        config.rope_parameters = {**rope, "rope_theta": THETA}
        model = AutoModelForCausalLM.from_pretrained(path, config=config, dtype="float32", attn_implementation="eager").eval()
        if name == "dynamic":
            full_length(round(TRAINED * rope["factor"]))(model)
        gm.N_GREEDY = 40
        for seed in range(100):
            text = " ".join(np.random.default_rng(seed).choice(WORDS, 24))
            ids = tok.encode(text).ids
            tokens, margin = gm.greedy(model, ids)
            if len(ids) > TRAINED + 10 and margin > gm.MARGIN and len(set(tokens)) >= 12:
                break
        else:
            raise SystemExit(f"{name}: no text gives usable greedy tokens")
        print(f"{name}: {len(ids)} tokens, margin {margin:.4f}")
        rows.append({"name": name, "rope_scaling": rope, "prompt": text, "prompt_tokens": len(ids), "token_ids": tokens})
    with open("tests/fixtures/rope_option.json", "w") as f:
        json.dump({"model": MODEL, "max_position_embeddings": TRAINED, "rope_theta": THETA, "rows": rows}, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
