#!/usr/bin/env python3
"""Let the tools themselves make tiny quantized models, and record what transformers computes with them
dequantized.

    gen_tools.py [name ...]         run in the repository's root

Needs what gen_quantized.py needs and, for some, torchao and auto-round.  For each model
of MODELS it draws a Llama, lets the tool quantize and export it, and writes

    build/fixtures/models/NAME/             the checkpoint as the tool writes it, with a tokenizer
    tests/golden/models_expected/NAME.bin   logits and greedy tokens of the dequantized model

and packs the folder into tests/fixtures/models.tar.xz (fixtures.py).  The tools give the values that
weights stand for, or the script computes them from the codes by the format's description.
"""
import json
import os
import shutil
import sys
import tempfile

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fixtures  # noqa: E402
import gen_archs as ga  # noqa: E402
import gen_models as gm  # noqa: E402

HIDDEN, INTER = 64, 384
SEED = 1
# another seed for models whose activations round badly with SEED
SEEDS = {"tool_autoround_gptq": 2}


def draw():
    config = LlamaConfig(vocab_size=gm.VOCAB, hidden_size=HIDDEN, intermediate_size=INTER, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
                         bos_token_id=gm.BOS, eos_token_id=gm.EOS, pad_token_id=gm.PAD, tie_word_embeddings=True)
    torch.manual_seed(SEED)
    model = LlamaForCausalLM(config).float().eval()
    ga.draw(model, SEED, 1.3, 1)
    return model


def matrices(model):
    return [n for n, m in model.named_modules() if isinstance(m, torch.nn.Linear) and ".layers." in n]


def torchao_pickled(path):
    """Quantize with transformers, and save with torch.save()."""
    from torchao.quantization import IntxWeightOnlyConfig, PerGroup
    from transformers import TorchAoConfig

    config = IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32))
    with tempfile.TemporaryDirectory() as base:
        draw().save_pretrained(base)
        model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, quantization_config=TorchAoConfig(config))
    values = {n: model.get_submodule(n).weight.dequantize().float() for n in matrices(model)}
    model.save_pretrained(path)
    os.unlink(os.path.join(path, "model.safetensors"))
    state = {k: v for k, v in model.state_dict().items() if k != "lm_head.weight"}
    torch.save(state, os.path.join(path, "pytorch_model.bin"))
    return values


def unpack(words, order):
    """Unpack I32 [.., n / 8] to codes [.., n]."""
    return torch.stack([words >> 4 * i & 15 for i in order], -1).flatten(-2)


def autoround(path, export):
    """Run AutoRound with the formats of other tools: GPTQ's and AWQ's."""
    from auto_round import AutoRound

    with tempfile.TemporaryDirectory() as base:
        draw().save_pretrained(base)
        gm.write_tokenizer(base, "qwen2")
        ar = AutoRound(base, scheme="W4A16", group_size=32, sym=export != "auto_awq", iters=0, nsamples=1, seqlen=32,
                       device_map="cpu", disable_opt_rtn=True)
        ar.quantize_and_save(path, format=export)
    for folder, _, names in list(os.walk(path)):
        for name in names if folder != path else []:
            os.rename(os.path.join(folder, name), os.path.join(path, name))
    t, values = {}, {}
    for file in sorted(os.listdir(path)):
        if file.endswith(".safetensors"):
            t.update(load_file(os.path.join(path, file)))
    for name in (k[:-len(".qweight")] for k in t if k.endswith(".qweight")):
        q, z, s = (t[f"{name}.{x}"] for x in ("qweight", "qzeros", "scales"))
        if export == "auto_awq":
            order = [0, 4, 1, 5, 2, 6, 3, 7]
            code, zero = unpack(q, order).T, unpack(z, order).T
        else:
            code = torch.stack([q >> 4 * i & 15 for i in range(8)], 1).reshape(-1, q.shape[1]).T
            zero = unpack(z, range(8)).T + 1
        values[name] = (code - zero.repeat_interleave(32, 1)) * s.T.float().repeat_interleave(32, 1)
    return values


MODELS = {"tool_torchao_pickled": torchao_pickled, "tool_autoround_gptq": lambda path: autoround(path, "auto_gptq"),
          "tool_autoround_awq": lambda path: autoround(path, "auto_awq")}


def make(name):
    global SEED
    SEED = SEEDS.get(name, 1)
    path = os.path.join(gm.FIXTURES, name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    values = MODELS[name](path)
    model = draw()
    missing = set(matrices(model)) - set(values)
    assert not missing, missing
    state = model.state_dict()
    for n, v in values.items():
        drawn = state[n + ".weight"]
        assert v.shape == drawn.shape and (v - drawn).abs().max() < 0.3 * drawn.abs().max(), n
        state[n + ".weight"] = v.float()
    model.load_state_dict(state)
    for file in os.listdir(path):
        if os.path.isdir(os.path.join(path, file)):
            shutil.rmtree(os.path.join(path, file))
        elif file not in ("config.json", "model.safetensors", "pytorch_model.bin", "quantize_config.json",
                        "quantization_config.json"):
            os.unlink(os.path.join(path, file))
    gm.write_tokenizer(path, "qwen2")
    rng = np.random.default_rng(SEED)
    prompt = [gm.BOS] + [int(x) for x in rng.integers(3, gm.VOCAB, gm.N_PROMPT - 1)]
    gm.MARGIN = 0               # rounded activations decide, too
    tokens, margin = gm.greedy(model, prompt)
    gm.write_expected(name, prompt, tokens, gm.logits_of(model, prompt))
    with open(os.path.join(path, "config.json")) as f:
        print(f"{name}: {len(set(tokens))} distinct tokens,", json.dumps(json.load(f)["quantization_config"])[:600], flush=True)


def main():
    torch.set_num_threads(1)
    with fixtures.repacked("models"):
        for name in sys.argv[1:] or MODELS:
            make(name)


if __name__ == "__main__":
    main()
