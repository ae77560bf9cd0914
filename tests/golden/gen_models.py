#!/usr/bin/env python3
"""Make the tiny models, and record what Hugging Face transformers computes with them.

    gen_models.py [name ...]        run in the repository's root

Needs torch, transformers, safetensors, tokenizers and gguf.  For each
model of MODELS below it writes

    build/fixtures/models/NAME/             config.json, tokenizer.json, weights ...
    build/fixtures/models/NAME.gguf         the same (or a quantized) model as GGUF
    tests/golden/models_expected/NAME.bin   logits and greedy tokens

and packs the folder into tests/fixtures/models.tar.xz (fixtures.py).

The seeds determine everything: a second run writes the same bytes, given the
same versions of the libraries.  The .bin files are little-endian: int32 n_prompt,
n_pos, vocab, n_greedy; int32 prompt[n_prompt], pos[n_pos], greedy[n_greedy];
float32 logits[n_pos][vocab].

If the engine rounds the inputs of a matrix, there are two expected results: NAME.bin from the dequantized
weights, and NAME_int8.bin (Q8_0) or NAME_bf16.bin (BF16), for which the reference also rounds those inputs
as the engine does.  The first shows how much the rounding costs.  The second shows that the engine rounds
correctly: an early position agrees to the last digits.  In a later one a value near the border of two
roundings may fall to the other side, and from there on the difference spreads.

The weights are random but not arbitrary: logits are of order 1, and the script takes a seed
only if greedy decoding visits enough tokens and its two best tokens are never
closer than MARGIN, so that a test may require "the same 64 tokens".
"""
import json
import os
import shutil
import struct
import sys

import fixtures
import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoConfig, AutoModelForCausalLM

FIXTURES = "build/fixtures/models"
EXPECTED = "tests/golden/models_expected"
VOCAB = 288
BOS, EOS, PAD = 0, 1, 2
N_PROMPT, N_GREEDY = 40, 64
POSITIONS = [0, 6, 17, 39]
MARGIN = 2e-3

LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 64}

# old: write the configuration in the style before transformers 5 (rope_theta at the top, rope_scaling,
# torch_dtype); otherwise with rope_parameters and dtype.
MODELS = {
    "llama_f32": dict(kind="llama", dtype="F32", hidden=48, heads=3, kv=1, hd=16, inter=80,
                      layers=2, gguf=["F32"]),
    "llama_tied_bf16": dict(kind="llama", dtype="BF16", hidden=96, heads=6, kv=2, hd=16, inter=128,
                            layers=2, tied=True, rope=LLAMA3, shards=2, gguf=["BF16", "Q8_0"]),
    "llama_bias_f16": dict(kind="llama", dtype="F16", hidden=80, heads=5, kv=5, hd=24, inter=96,
                           layers=2, old=True, rope={"type": "linear", "factor": 2.5},
                           bias=True),
    "llama3_f32": dict(kind="llama", dtype="F32", hidden=64, heads=2, kv=2, hd=32, inter=72,
                       layers=2, old=True, rope=LLAMA3, theta=500000.0, tied=True, shards=3),
    "mistral_f32": dict(kind="mistral", dtype="F32", hidden=48, heads=6, kv=2, hd=16, inter=72,
                        layers=2, window=12, theta=1000000.0),
    "mistral_bf16": dict(kind="mistral", dtype="BF16", hidden=64, heads=4, kv=1, hd=32, inter=96,
                         layers=2, old=True, shards=2, gguf=["F16"]),
    "qwen2_f32": dict(kind="qwen2", dtype="F32", hidden=48, heads=3, kv=1, hd=16, inter=80,
                      layers=2, tied=True, shards=2, theta=1000000.0),
    "qwen2_bf16": dict(kind="qwen2", dtype="BF16", hidden=64, heads=6, kv=2, hd=16, inter=128,
                       layers=3, window=16, window_from=1, old=True, theta=1000000.0),
    "qwen2_tied_bf16": dict(kind="qwen2", dtype="BF16", hidden=64, heads=4, kv=2, hd=16, inter=96,
                            layers=2, tied=True, theta=1000000.0, gguf=["Q8_0"]),
}
CLASSES = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM"}
DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
NAMES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
TEMPLATE = ("{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + '\\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")


# ---- tokenizer ----

def byte_chars():
    """Return GPT-2's table of printable characters for the 256 bytes."""
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    rest = [b for b in range(256) if b not in keep]
    table = {b: chr(b) for b in keep}
    table.update({b: chr(256 + i) for i, b in enumerate(rest)})
    return [table[b] for b in range(256)]


def vocabulary():
    tokens = ["<|bos|>", "<|eos|>", "<|pad|>"] + byte_chars()
    merges = []
    for pair in ("Ġ t", "h e", "Ġ a", "i n", "r e", "Ġt he", "o n", "e r", "Ġ s", "a t",
                 "Ġ w", "Ġ o", "e n", "Ġ c", "i t", "i s", "a n", "o r", "e s", "Ġ b",
                 "e d", "Ġ f", "in g", "Ġ p", "o u", "Ġa n", "a l", "a r", "Ġt o"):
        merges.append(tuple(pair.split(" ")))
        tokens.append(pair.replace(" ", ""))
    assert len(tokens) == VOCAB and len(set(tokens)) == VOCAB
    return tokens, merges


def write_tokenizer(path, kind):
    tokens, merges = vocabulary()
    tok = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tok.add_special_tokens(tokens[:3])
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    if kind != "qwen2":
        tok.post_processor = processors.TemplateProcessing(
            single="<|bos|> $A", pair="<|bos|> $A <|bos|> $B", special_tokens=[("<|bos|>", BOS)])
    tok.save(os.path.join(path, "tokenizer.json"), pretty=False)
    dump(path, "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|bos|>",
        "eos_token": "<|eos|>", "pad_token": "<|pad|>", "model_max_length": 256,
        "clean_up_tokenization_spaces": False, "chat_template": TEMPLATE})
    dump(path, "generation_config.json", {
        "bos_token_id": BOS, "eos_token_id": [EOS], "pad_token_id": PAD, "do_sample": True,
        "temperature": 0.7, "top_p": 0.9, "top_k": 40})


# ---- configuration and weights ----

def dump(path, name, value):
    with open(os.path.join(path, name), "w") as f:
        json.dump(value, f, indent=1, sort_keys=True)
        f.write("\n")


def configuration(m):
    c = {"architectures": [CLASSES[m["kind"]]], "model_type": m["kind"],
         "hidden_size": m["hidden"], "intermediate_size": m["inter"],
         "num_hidden_layers": m["layers"], "num_attention_heads": m["heads"],
         "num_key_value_heads": m["kv"], "head_dim": m["hd"], "vocab_size": VOCAB,
         "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "hidden_act": "silu",
         "tie_word_embeddings": m.get("tied", False), "bos_token_id": BOS, "eos_token_id": EOS,
         "pad_token_id": PAD}
    theta = m.get("theta", 10000.0)
    if m.get("old"):
        c.update(rope_theta=theta, rope_scaling=m.get("rope"), torch_dtype=NAMES[m["dtype"]])
    else:
        c.update(rope_parameters={"rope_type": "default", "rope_theta": theta, **m.get("rope", {})},
                 dtype=NAMES[m["dtype"]])
    if m["kind"] == "mistral":
        c["sliding_window"] = m.get("window")
    if m["kind"] == "qwen2":
        c.update(use_sliding_window="window" in m, sliding_window=m.get("window", 4096),
                 max_window_layers=m.get("window_from", m["layers"]))
        if m["hd"] * m["heads"] == m["hidden"]:
            del c["head_dim"]
    if m.get("bias"):
        c.update(attention_bias=True, mlp_bias=True)
    return c


def weights(m, seed):
    g = torch.Generator().manual_seed(seed)

    def normal(*shape, std):
        return (torch.randn(*shape, generator=g) * std).to(DTYPES[m["dtype"]])

    def norm(n):
        return (1 + 0.2 * torch.randn(n, generator=g)).to(DTYPES[m["dtype"]])

    h, q, kv = m["hidden"], m["heads"] * m["hd"], m["kv"] * m["hd"]
    w = {"model.embed_tokens.weight": normal(VOCAB, h, std=h ** -0.5)}
    for i in range(m["layers"]):
        p = f"model.layers.{i}."
        for name, n, k, bias in (("self_attn.q_proj", q, h, m["kind"] == "qwen2"),
                                 ("self_attn.k_proj", kv, h, m["kind"] == "qwen2"),
                                 ("self_attn.v_proj", kv, h, m["kind"] == "qwen2"),
                                 ("self_attn.o_proj", h, q, False),
                                 ("mlp.gate_proj", m["inter"], h, False),
                                 ("mlp.up_proj", m["inter"], h, False),
                                 ("mlp.down_proj", h, m["inter"], False)):
            w[p + name + ".weight"] = normal(n, k, std=1.3 * k ** -0.5)
            if bias or m.get("bias"):
                w[p + name + ".bias"] = normal(n, std=0.3)
        w[p + "input_layernorm.weight"] = norm(h)
        w[p + "post_attention_layernorm.weight"] = norm(h)
    w["model.norm.weight"] = norm(h)
    if not m.get("tied"):
        w["lm_head.weight"] = normal(VOCAB, h, std=h ** -0.5)
    return w


def write_weights(path, m, w):
    n = m.get("shards", 1)
    meta = {"format": "pt"}
    if n == 1:
        save_file(w, os.path.join(path, "model.safetensors"), metadata=meta)
        return
    names = list(w)
    total = sum(t.numel() * t.element_size() for t in w.values())
    weight_map = {}
    for i in range(n):
        part = names[len(names) * i // n:len(names) * (i + 1) // n]
        file = f"model-{i + 1:05d}-of-{n:05d}.safetensors"
        save_file({k: w[k] for k in part}, os.path.join(path, file), metadata=meta)
        weight_map.update({k: file for k in part})
    dump(path, "model.safetensors.index.json",
         {"metadata": {"total_size": total}, "weight_map": weight_map})


# ---- the reference ----

def load(path):
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32,
                                                 attn_implementation="eager")
    return model.eval()


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].numpy()


def greedy(model, prompt):
    """Return 64 tokens, and the smallest distance between the best two on the way; fewer tokens if that
    is too small."""
    ids, margin = list(prompt), 1e9
    for _ in range(N_GREEDY):
        last = logits_of(model, ids)[-1]
        best = np.sort(last)[-2:]
        margin = min(margin, float(best[1] - best[0]))
        ids.append(int(last.argmax()))
        if margin <= MARGIN:
            break
    return ids[len(prompt):], margin


def write_expected(name, prompt, tokens, logits, positions=POSITIONS):
    with open(os.path.join(EXPECTED, name + ".bin"), "wb") as f:
        f.write(struct.pack("<4i", len(prompt), len(positions), VOCAB, len(tokens)))
        f.write(struct.pack(f"<{len(prompt)}i", *prompt))
        f.write(struct.pack(f"<{len(positions)}i", *positions))
        f.write(struct.pack(f"<{len(tokens)}i", *tokens))
        f.write(logits[positions].astype("<f4").tobytes())


# ---- GGUF ----

def permute(a, heads):
    """Do what llama.cpp's converter does to q and k: move the two halves of a head to interleaved pairs."""
    return a.reshape(heads, 2, a.shape[0] // heads // 2, *a.shape[1:]).swapaxes(1, 2).reshape(a.shape)


def llama3_factors(m):
    r = m["rope"]
    freqs = 1.0 / (m.get("theta", 10000.0) ** (np.arange(0, m["hd"], 2, dtype=np.float32) / m["hd"]))
    out = []
    for wavelen in 2 * np.pi / freqs:
        if wavelen < r["original_max_position_embeddings"] / r["high_freq_factor"]:
            out.append(1)
        elif wavelen > r["original_max_position_embeddings"] / r["low_freq_factor"]:
            out.append(r["factor"])
        else:
            smooth = ((r["original_max_position_embeddings"] / wavelen - r["low_freq_factor"])
                      / (r["high_freq_factor"] - r["low_freq_factor"]))
            out.append(1 / ((1 - smooth) / r["factor"] + smooth))
    return np.array(out, dtype=np.float32)


def write_gguf_keys(out, arch, m):
    out.add_name("tiny")
    out.add_context_length(256)
    out.add_embedding_length(m["hidden"])
    out.add_block_count(m["layers"])
    out.add_feed_forward_length(m["inter"])
    out.add_head_count(m["heads"])
    out.add_head_count_kv(m["kv"])
    out.add_layer_norm_rms_eps(1e-5)
    out.add_rope_freq_base(m.get("theta", 10000.0))
    if m["kind"] == "llama":
        out.add_vocab_size(VOCAB)
        out.add_rope_dimension_count(m["hd"])
    if m["hd"] * m["heads"] != m["hidden"]:
        out.add_key_length(m["hd"])
        out.add_value_length(m["hd"])
    tokens, merges = vocabulary()
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list(tokens)
    out.add_token_types([3] * 3 + [1] * (VOCAB - 3))
    out.add_token_merges([" ".join(p) for p in merges])
    out.add_bos_token_id(BOS)
    out.add_eos_token_id(EOS)
    out.add_add_bos_token(arch == "llama")
    out.add_chat_template(TEMPLATE)


def write_gguf(file, m, w, qtype):
    """Write the file; return its weights, dequantized, in HF's layout."""
    arch = "qwen2" if m["kind"] == "qwen2" else "llama"
    out = gguf.GGUFWriter(file, arch)
    write_gguf_keys(out, arch, m)
    if m.get("rope", {}).get("rope_type") == "llama3":
        out.add_tensor("rope_freqs.weight", llama3_factors(m))
    names = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, arch.upper()), m["layers"])
    kind = getattr(gguf.GGMLQuantizationType, qtype)
    back = {}
    for name, t in w.items():
        a = t.float().numpy()
        stem, suffix = name.rsplit(".", 1)
        if arch == "llama" and stem.endswith("q_proj"):
            a = permute(a, m["heads"])
        if arch == "llama" and stem.endswith("k_proj"):
            a = permute(a, m["kv"])
        k = kind if a.ndim == 2 else gguf.GGMLQuantizationType.F32
        data = gguf.quants.quantize(a, k)
        out.add_tensor(names.get_name(stem) + "." + suffix, data, raw_dtype=k)
        # The reference uses q and k before the permutation.  That is right because quantization works by
        # rows, and the permutation moves whole rows.
        back[name] = torch.from_numpy(gguf.quants.dequantize(gguf.quants.quantize(t.float().numpy(), k), k))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return back


class RoundedInputs:
    """While active, every Linear gets its input rounded as the engine rounds it."""

    def __init__(self, model, rounding):
        self.linears = [x for x in model.modules() if isinstance(x, torch.nn.Linear)]
        self.rounding = rounding

    def __enter__(self):
        self.hooks = [x.register_forward_pre_hook(lambda module, args: (self.rounding(args[0]),))
                      for x in self.linears]

    def __exit__(self, *exc):
        for h in self.hooks:
            h.remove()


def int8(a):
    """Round to -127..127 in blocks of 32, scale amax / 127, as Q8_0 on all kernels."""
    x = a.reshape(*a.shape[:-1], -1, 32)
    amax = x.abs().amax(-1, keepdim=True)
    return (torch.round(x * (127.0 / amax)) * (amax / 127.0)).reshape(a.shape)


def bf16(a):
    """Round to bfloat16, as BF16 weights on kernels with bfloat16 dot products."""
    return a.bfloat16().float()


def write_rounded(name, model, prompt, rounding):
    with RoundedInputs(model, rounding):
        tokens, margin = greedy(model, prompt)
        write_expected(f"{name}_{rounding.__name__}", prompt, tokens, logits_of(model, prompt),
                       list(range(8)))
    print(f"{name}_{rounding.__name__}: margin {margin:.4f}")


# ---- all together ----

def make(name, m):
    path = os.path.join(FIXTURES, name)
    for seed in range(1, 100):
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        dump(path, "config.json", configuration(m))
        w = weights(m, seed)
        write_weights(path, m, w)
        model = load(path)
        rng = np.random.default_rng(seed)
        prompt = [BOS] + [int(x) for x in rng.integers(3, VOCAB, N_PROMPT - 1)]
        tokens, margin = greedy(model, prompt)
        if margin > MARGIN and len(set(tokens)) >= 16:
            break
    else:
        raise SystemExit(f"{name}: no seed gives usable greedy tokens")
    write_tokenizer(path, m["kind"])
    logits = logits_of(model, prompt)
    write_expected(name, prompt, tokens, logits)
    print(f"{name}: seed {seed}, margin {margin:.4f}, {len(set(tokens))} distinct tokens, "
          f"|logits| {np.abs(logits).mean():.2f}")
    if m["dtype"] == "BF16":
        write_rounded(name, model, prompt, bf16)
    for qtype in m.get("gguf", []):
        stem = f"{name.rsplit('_', 1)[0]}_{qtype.lower()}_gguf"
        back = write_gguf(os.path.join(FIXTURES, stem + ".gguf"), m, w, qtype)
        model.load_state_dict(back, strict=False)
        tokens, margin = greedy(model, prompt)
        logits = logits_of(model, prompt)
        write_expected(stem, prompt, tokens, logits)
        print(f"{stem}: margin {margin:.4f}")
        if qtype == "Q8_0":
            write_rounded(stem, model, prompt, int8)


def main():
    torch.set_num_threads(1)
    os.makedirs(EXPECTED, exist_ok=True)
    with fixtures.repacked("models"):
        for name in sys.argv[1:] or MODELS:
            make(name, MODELS[name])


if __name__ == "__main__":
    main()
