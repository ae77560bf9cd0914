#!/usr/bin/env python3
"""Make a tiny model of each architecture, and record what Hugging Face transformers computes with it.

    gen_archs.py [name ...]         run in the repository's root

Needs torch, transformers, safetensors, tokenizers and gguf.  For each model of ARCHS
(archs/*.py beside this file, one a family) it writes what gen_models.py writes, in the
same formats:

    build/fixtures/models/NAME/             in the layout of transformers' save_pretrained()
    build/fixtures/models/NAME_gguf.gguf    the same weights as GGUF, if the family defines it
    tests/golden/models_expected/NAME.bin   logits and greedy tokens

and packs the folder into tests/fixtures/models.tar.xz (fixtures.py).

A family's file has ARCHS = {name: dict(config=..., ...)}:

    config      keys of config.json beyond COMMON below ("model_type" at least)
    gguf        function(Gguf, config, weights): adds keys and tensors; absent: no GGUF file
    gguf_types  types of the GGUF files' matrices, default ["F16"]
    fix         function(model, generator): changes the drawn weights
    config_json function(dict): changes the stored config.json, e.g. to an older style
    auto        transformers' class that makes the model, default AutoModelForCausalLM
    reference   function(model): changes the reference, where the engine differs on purpose
    stored      function(path, model): changes the files, e.g. to names that transformers doesn't know
    rounded     (suffix, function(model)): another expected result, of a model that rounds as the engine does
    gain        factor of the matrices' standard deviation, default 1.3
    embed       the same for the embedding, default 1: with a large factor a tied model repeats its last token
    prompt      number of its tokens, default 40
    greedy      number of greedy tokens after it, default 64
    positions   positions of the recorded logits, default 0, 6, 17 and 39

Weights are half precision, so that a file is small and yet exact in float arithmetic.
"""
import glob
import importlib.util
import json
import os
import shutil
import sys

import gguf
import numpy as np
import torch
import transformers
from transformers import AutoConfig

sys.modules["gen_archs"] = sys.modules[__name__]
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fixtures  # noqa: E402
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "archs"))
import gen_models as gm  # noqa: E402

COMMON = {"vocab_size": gm.VOCAB, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
          "bos_token_id": gm.BOS, "eos_token_id": gm.EOS, "pad_token_id": gm.PAD, "dtype": "float16"}


def load_archs():
    archs = {}
    for path in sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "archs", "*.py"))):
        spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        archs.update(module.ARCHS)
    return archs


def config_of(a):
    c = {**COMMON, **a["config"]}
    c = {k: v for k, v in c.items() if v is not ...}
    return AutoConfig.for_model(**c)


def draw(model, seed, gain, embed):
    """Draw random weights of a size that gives logits of order 1: matrices by their fan-in, norms
    about 1 (about 0 if the model adds the one itself, which its initial zeros show)."""
    g = torch.Generator().manual_seed(seed)
    transposed = {name + ".weight" for name, m in model.named_modules() if type(m).__name__ == "Conv1D"}
    with torch.no_grad():
        for name, p in model.named_parameters():
            r = torch.randn(p.shape, generator=g)
            if ("norm" in name or ".ln_" in name) and name.endswith("weight"):
                p.copy_((p.mean() > 0.5) + 0.2 * r)
            elif p.ndim == 1:
                p.copy_(0.3 * r)
            elif "embed" in name or "wte" in name or "wpe" in name or "lm_head" in name:
                p.copy_(embed * r * p.shape[-1] ** -0.5)
            else:
                p.copy_(gain * r * p.shape[0 if name in transposed else -1] ** -0.5)
    return g


class Gguf:
    """Writes a GGUF file; sizes and names come from the gguf package's tables."""

    def __init__(self, file, arch, config, kind):
        self.out = gguf.GGUFWriter(file, arch)
        self.kind = getattr(gguf.GGMLQuantizationType, kind)
        self.names = gguf.get_tensor_name_map(
            next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == arch), config.get_text_config().num_hidden_layers)

    def keys(self, config, pre="gpt-2", add_bos=False, inter=None, kv=None, length=None):
        """Add the keys that all decoders share.  inter, kv, length: values, if the configuration has them
        under other names."""
        out = self.out
        out.add_name("tiny")
        out.add_context_length(length or config.max_position_embeddings)
        out.add_embedding_length(config.hidden_size)
        out.add_block_count(config.num_hidden_layers)
        out.add_feed_forward_length(inter or config.intermediate_size)
        out.add_head_count(config.num_attention_heads)
        out.add_head_count_kv(kv or getattr(config, "num_key_value_heads", None) or config.num_attention_heads)
        self.tokenizer(pre, add_bos)

    def tokenizer(self, pre="gpt-2", add_bos=False):
        out = self.out
        tokens, merges = gm.vocabulary()
        out.add_tokenizer_model("gpt2")
        out.add_tokenizer_pre(pre)
        out.add_token_list(tokens)
        out.add_token_types([3] * 3 + [1] * (gm.VOCAB - 3))
        out.add_token_merges([" ".join(p) for p in merges])
        out.add_bos_token_id(gm.BOS)
        out.add_eos_token_id(gm.EOS)
        out.add_add_bos_token(add_bos)

    def usual(self, c):
        """Add the keys that most decoders have: epsilon, head size, rotary base and scaling."""
        out = self.out
        if hasattr(c, "rms_norm_eps"):
            out.add_layer_norm_rms_eps(c.rms_norm_eps)
        if hasattr(c, "layer_norm_eps"):
            out.add_layer_norm_eps(c.layer_norm_eps)
        if getattr(c, "head_dim", None):
            out.add_key_length(c.head_dim)
            out.add_value_length(c.head_dim)
        self.rope(c)

    def rope(self, c):
        out = self.out
        rope = c.rope_parameters.get("full_attention", c.rope_parameters)
        out.add_rope_freq_base(rope["rope_theta"])
        if "sliding_attention" in c.rope_parameters:
            out.add_rope_freq_base_swa(c.rope_parameters["sliding_attention"]["rope_theta"])
        if rope["rope_type"] in ("linear", "yarn"):
            out.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
            out.add_rope_scaling_factor(rope["factor"])
        if rope["rope_type"] == "yarn":
            out.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
            for key, add in (("attention_factor", out.add_rope_scaling_yarn_attn_factor),
                             ("beta_fast", out.add_rope_scaling_yarn_beta_fast),
                             ("beta_slow", out.add_rope_scaling_yarn_beta_slow)):
                if rope.get(key) is not None:
                    add(rope[key])

    def tensors(self, c, weights, change=lambda name, t: t):
        """Add all tensors; change() may replace one (or return None to leave it out)."""
        for name, t in weights.items():
            t = change(name, t)
            if t is not None and (name != "lm_head.weight" or not c.tie_word_embeddings):
                self.tensor(name, t)

    def tensor(self, name, a, raw_name=None):
        """Add a tensor under the GGUF name of its Hugging Face name (or raw_name); return it as
        it is in the file."""
        a = np.ascontiguousarray(a.float().numpy() if isinstance(a, torch.Tensor) else a)
        stem, suffix = name.rsplit(".", 1)
        name = raw_name or self.names.get_name(name) or self.names.get_name(stem) + "." + suffix
        # llama.cpp's converter leaves the same tensors in F32
        exact = a.ndim < 2 or stem.endswith("norm") or name == "position_embd.weight" or ".ssm_conv1d." in name \
            or ".ssm_norm." in name or name.endswith((".ssm_a", ".ssm_d"))
        kind = gguf.GGMLQuantizationType.F32 if exact else self.kind
        data = gguf.quants.quantize(a, kind)
        self.out.add_tensor(name, data, raw_dtype=kind)
        return torch.from_numpy(gguf.quants.dequantize(data, kind))

    def close(self):
        self.out.write_header_to_file()
        self.out.write_kv_data_to_file()
        self.out.write_tensors_to_file()
        self.out.close()


def edit_json(path, edit, name="config.json"):
    with open(os.path.join(path, name)) as f:
        c = json.load(f)
    edit(c)
    gm.dump(path, name, c)


def make(name, a):
    path = os.path.join(gm.FIXTURES, name)
    config = config_of(a)
    dtype = str(config.dtype).removeprefix("torch.")
    gm.N_GREEDY = a.get("greedy", 64)
    positions = a.get("positions", gm.POSITIONS)
    auto = gm.AutoModelForCausalLM = getattr(transformers, a.get("auto", "AutoModelForCausalLM"))
    for seed in range(1, 200):
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        torch.manual_seed(seed)
        model = auto.from_config(config, dtype=torch.float32, attn_implementation="eager")
        generator = draw(model, seed, a.get("gain", 1.3), a.get("embed", 1))
        if "fix" in a:
            with torch.no_grad():
                a["fix"](model, generator)
        model.to(getattr(torch, dtype))
        model.save_pretrained(path)
        if "config_json" in a:
            edit_json(path, a["config_json"])
        model = gm.load(path)
        if "reference" in a:
            with torch.no_grad():
                a["reference"](model)
        rng = np.random.default_rng(seed)
        prompt = [gm.BOS] + [int(x) for x in rng.integers(3, gm.VOCAB, a.get("prompt", gm.N_PROMPT) - 1)]
        tokens, margin = gm.greedy(model, prompt)
        if margin > gm.MARGIN and len(set(tokens)) >= min(12, gm.N_GREEDY):
            break
    else:
        raise SystemExit(f"{name}: no seed gives usable greedy tokens")
    for extra in ("generation_config.json",):
        if os.path.exists(os.path.join(path, extra)):
            os.remove(os.path.join(path, extra))
    gm.write_tokenizer(path, "qwen2")
    logits = gm.logits_of(model, prompt)
    gm.write_expected(name, prompt, tokens, logits, positions)
    print(f"{name}: seed {seed}, margin {margin:.4f}, {len(set(tokens))} distinct tokens, "
          f"|logits| {np.abs(logits).mean():.2f}")
    for qtype in a.get("gguf_types", ["F16"]) if "gguf" in a else []:
        stem = f"{name}_{qtype.lower()}_gguf"
        arch = a.get("gguf_arch", a["config"]["model_type"])
        out = Gguf(os.path.join(gm.FIXTURES, stem + ".gguf"), arch, config, qtype)
        a["gguf"](out, config, {k: v.float() for k, v in model.state_dict().items()})
        out.close()
        # The half-precision GGUF file holds the same weights, so the expected result is the same.
        assert qtype == {"float16": "F16", "bfloat16": "BF16"}[dtype]
        gm.write_expected(stem, prompt, tokens, logits, positions)
    if "stored" in a:
        a["stored"](path, model)
    if "rounded" in a:
        ending, change = a["rounded"]
        change(model)
        tokens, _ = gm.greedy(model, prompt)
        gm.write_expected(name + ending, prompt, tokens, gm.logits_of(model, prompt), list(range(8)))


def main():
    torch.set_num_threads(1)
    os.makedirs(gm.EXPECTED, exist_ok=True)
    archs = load_archs()
    with fixtures.repacked("models"):
        for name in sys.argv[1:] or archs:
            make(name, archs[name])


if __name__ == "__main__":
    main()
