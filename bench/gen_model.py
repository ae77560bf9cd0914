#!/usr/bin/env python3
"""Make a model directory of a real shape with random BF16 weights (seeded).

    bench/gen_model.py SHAPE DIR      SHAPE: qwen2.5-0.5b | llama-3.2-1b | tiny

Speed does not depend on the values.  Weights are drawn from a 64 MB pool of random
BF16 numbers of magnitude 2^-8..2^-6, read at changing offsets; norms are 1.  The
tokenizer has the 256 bytes and an end token: byte-level, no merges.  Standard
library only.
"""
import json
import os
import random
import struct
import sys

SHAPES = {
    "qwen2.5-0.5b": dict(architectures=["Qwen2ForCausalLM"], model_type="qwen2", hidden_size=896, intermediate_size=4864,
                         num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2, vocab_size=151936,
                         max_position_embeddings=32768, rope_theta=1000000.0, rms_norm_eps=1e-6, tie_word_embeddings=True),
    "llama-3.2-1b": dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=2048, intermediate_size=8192,
                         num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, head_dim=64, vocab_size=128256,
                         max_position_embeddings=131072, rope_theta=500000.0, rms_norm_eps=1e-5, tie_word_embeddings=True),
    "tiny": dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=128, intermediate_size=256,
                 num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=512,
                 max_position_embeddings=2048, rope_theta=10000.0, rms_norm_eps=1e-5, tie_word_embeddings=True),
}


def tensors(c):
    """(name, shape) of every tensor, in file order."""
    h, f = c["hidden_size"], c["intermediate_size"]
    d = c.get("head_dim", h // c["num_attention_heads"])
    q, kv = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
    yield "model.embed_tokens.weight", (c["vocab_size"], h)
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        yield p + "input_layernorm.weight", (h,)
        for n, rows in (("q", q), ("k", kv), ("v", kv)):
            yield f"{p}self_attn.{n}_proj.weight", (rows, h)
            if c["model_type"] == "qwen2":
                yield f"{p}self_attn.{n}_proj.bias", (rows,)
        yield p + "self_attn.o_proj.weight", (h, q)
        yield p + "post_attention_layernorm.weight", (h,)
        yield p + "mlp.gate_proj.weight", (f, h)
        yield p + "mlp.up_proj.weight", (f, h)
        yield p + "mlp.down_proj.weight", (h, f)
    yield "model.norm.weight", (h,)


def byte_tokens():
    """GPT-2's printable name of each byte."""
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    names, n = {}, 0
    for b in range(256):
        names[b] = chr(b) if b in keep else chr(256 + n)
        n += b not in keep
    return names


def main():
    shape, out = sys.argv[1], sys.argv[2]
    c = dict(SHAPES[shape], hidden_act="silu", torch_dtype="bfloat16", eos_token_id=256)
    os.makedirs(out, exist_ok=True)
    rnd = random.Random(20260101)
    pool_len = 64 << 20
    pool = bytearray(rnd.randbytes(pool_len))
    # BF16, little-endian: the high byte becomes sign and exponent 119..123
    hi = bytes(rnd.choice((0x3b, 0x3c, 0xbb, 0xbc)) for _ in range(1 << 16))
    pool[1::2] = (hi * (pool_len // 2 // len(hi) + 1))[: pool_len // 2]
    header, offset, todo = {}, 0, list(tensors(c))
    for name, dims in todo:
        n = 2
        for x in dims:
            n *= x
        header[name] = {"dtype": "BF16", "shape": list(dims), "data_offsets": [offset, offset + n]}
        offset += n
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open(os.path.join(out, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        for name, dims in todo:
            a, b = header[name]["data_offsets"]
            left = b - a
            if name.endswith("norm.weight"):
                f.write(b"\x80\x3f" * (left // 2))
                continue
            while left > 0:
                at = rnd.randrange(0, pool_len // 2 - 65536) * 2
                n = min(left, pool_len - at)
                f.write(memoryview(pool)[at:at + n])
                left -= n
    vocab = {t: b for b, t in byte_tokens().items()}
    tok = {"version": "1.0", "added_tokens": [{"id": 256, "content": "<|end|>", "special": True, "single_word": False,
                                               "lstrip": False, "rstrip": False, "normalized": False}],
           "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
           "post_processor": None, "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
           "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                     "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocab, "merges": []}}
    for name, value in (("config.json", c), ("tokenizer.json", tok),
                        ("tokenizer_config.json", {"eos_token": "<|end|>", "tokenizer_class": "PreTrainedTokenizerFast"}),
                        ("generation_config.json", {"eos_token_id": 256})):
        with open(os.path.join(out, name), "w") as f:
            json.dump(value, f)
    print(f"{out}: {shape}, {offset / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
