#!/usr/bin/env python3
"""Make a model of a real model's shape with random weights (from a seed, nothing is downloaded).

    bench/gen_model.py SHAPE OUT [TYPE]

SHAPE: qwen2.5-0.5b | llama-3.2-1b | llama-3.1-8b | tiny | words.  OUT is a directory in Hugging Face
layout, in BF16, or a file that ends in .gguf, whose TYPE is the word before that (m.q4_0.gguf) or the third
argument: bf16, f16, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k_m, q4_k, q5_k, q6_k, q2_k, q3_k, iq4_nl, iq4_xs,
mxfp4.

Speed does not depend on the values.  The script reads weights from pools of random blocks, at
varying offsets; they have a mean of 0 and a standard deviation of 0.01 to 0.02.  Norms are 1,
biases 0.  In a GGUF file of mixed types each matrix has the type that
llama-quantize would give it: a tied embedding is the head, so Q6_K; q4_k_m has half of attn_v
and ffn_down in Q6_K; if rows are no multiple of 256, Q5_0 replaces Q4_K and Q8_0 replaces
Q6_K.  The tokenizer has the 256 bytes, an end token, two spaces, and for all other ids names that no text
contains: a prompt of n ASCII characters without two adjacent spaces is n tokens.
`words` is like tiny, but its head chooses only words, each with a clear margin: for
comparisons of greedy texts between engines.  Standard library only.
"""
import json
import math
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
    "llama-3.1-8b": dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=4096, intermediate_size=14336,
                         num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, head_dim=128, vocab_size=128256,
                         max_position_embeddings=131072, rope_theta=500000.0, rms_norm_eps=1e-5, tie_word_embeddings=False),
    "tiny": dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=256, intermediate_size=512,
                 num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=512,
                 max_position_embeddings=2048, rope_theta=10000.0, rms_norm_eps=1e-5, tie_word_embeddings=True),
}
SHAPES["words"] = dict(SHAPES["tiny"], tie_word_embeddings=False, _words=True)
WORDS_AT = 258  # the first id of a word
POOL = 64 << 20
# The only merge rule, because some vocabulary readers reject a file without one: two spaces (in GPT-2's
# spelling of that byte).
SPACES, SPACE_MERGE = "\u0120\u0120", "\u0120 \u0120"

# name: (type number in GGUF, weights per block, bytes per block, offset and size of each half float, range
# of scale bytes 8..15) A half is the scale d.  If the format has minima, dmin is the multiple of d that
# makes the mean 0.
BLOCKS = {
    "q4_0": (2, 32, 18, {0: 0.004}, None),
    "q4_1": (3, 32, 20, {0: 0.004, 2: -0.03}, None),
    "q5_0": (6, 32, 22, {0: 0.002}, None),
    "q5_1": (7, 32, 24, {0: 0.002, 2: -0.031}, None),
    "q8_0": (8, 32, 34, {0: 0.00025}, None),
    "q2_k": (10, 256, 84, {80: 0.002, 82: 0.003}, None),
    "q3_k": (11, 256, 110, {108: 0.0005}, None),
    "q4_k": (12, 256, 144, {0: 0.00012, 2: 0.0009}, None),
    "q5_k": (13, 256, 176, {0: 0.00007, 2: 0.001085}, None),
    "q6_k": (14, 256, 210, {208: 0.00009}, (192, 208)),
    "iq4_nl": (20, 32, 18, {0: 0.0003}, None),
    "iq4_xs": (23, 256, 136, {0: 0.00002}, None),
    "mxfp4": (39, 32, 17, {}, (0, 1)),
}
PLAIN = {"f32": (0, 4), "f16": (1, 2), "bf16": (30, 2)}
# Files of mixed types: (matrices, embedding and head).  All other files have one type.
MIXED = {"q4_k_m": ("q4_k", "q6_k"), "q4_k": ("q4_k", "q6_k"), "q5_k": ("q5_k", "q6_k"), "q2_k": ("q2_k", "q6_k"),
         "q3_k": ("q3_k", "q6_k"), "q4_0": ("q4_0", "q6_k"), "q4_1": ("q4_1", "q6_k"), "q5_0": ("q5_0", "q6_k"),
         "q5_1": ("q5_1", "q6_k"), "iq4_nl": ("iq4_nl", "q6_k"), "iq4_xs": ("iq4_xs", "q6_k"), "mxfp4": ("mxfp4", "q6_k")}
NARROW = {"q2_k": "q4_0", "q3_k": "q4_0", "q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0", "iq4_xs": "iq4_nl"}


def tensors(c):
    """Yield (name, shape) of every tensor, in file order."""
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
    if not c["tie_word_embeddings"]:
        yield "lm_head.weight", (c["vocab_size"], h)


def gguf_name(name):
    for a, b in (("model.embed_tokens", "token_embd"), ("model.layers.", "blk."), ("model.norm", "output_norm"), ("lm_head", "output"),
                 ("input_layernorm", "attn_norm"), ("post_attention_layernorm", "ffn_norm"), ("self_attn.q_proj", "attn_q"),
                 ("self_attn.k_proj", "attn_k"), ("self_attn.v_proj", "attn_v"), ("self_attn.o_proj", "attn_output"),
                 ("mlp.gate_proj", "ffn_gate"), ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down")):
        name = name.replace(a, b)
    return name


def gguf_type(c, kind, name, dims):
    """Return the type of a tensor in a file of that kind."""
    if len(dims) == 1:
        return "f32"
    kind_of, head = MIXED.get(kind, (kind, kind))
    if name == "lm_head.weight" or name.startswith("model.embed") and c["tie_word_embeddings"]:
        kind_of = head
    elif kind == "q4_k_m" and (".v_proj" in name or ".down_proj" in name):
        i, n = int(name.split(".")[2]), c["num_hidden_layers"]
        if i < n // 8 or i >= 7 * n // 8 or (i - n // 8) % 3 == 2:
            kind_of = "q6_k"
    if kind_of in BLOCKS and dims[1] % BLOCKS[kind_of][1]:
        kind_of = NARROW[kind_of]
    return kind_of


class Weights:
    """Random weights of any type, from one seed."""

    def __init__(self):
        self.rnd = random.Random(20260101)
        self.pools = {}

    def pool(self, kind):
        """Make a pool of random elements or blocks; return it and the size of one."""
        if kind in self.pools:
            return self.pools[kind]
        rnd = self.rnd
        if kind in PLAIN:
            pool, size = bytearray(rnd.randbytes(POOL)), 2
            # little-endian: the high byte holds the sign and most of the exponent, so magnitudes are 2^-8
            # to 2^-6
            high = (0x3b, 0x3c, 0xbb, 0xbc) if kind == "bf16" else (0x1c, 0x20, 0x9c, 0xa0)
            hi = bytes(rnd.choice(high) for _ in range(1 << 16))
            pool[1::2] = (hi * (POOL // 2 // len(hi) + 1))[: POOL // 2]
        else:
            _, _, size, halves, positive = BLOCKS[kind]
            n = POOL // 4 // size
            pool = bytearray(rnd.randbytes(n * size))
            for at, value in halves.items():
                lo, hi = struct.pack("<e", value)
                pool[at::size], pool[at + 1::size] = bytes([lo]) * n, bytes([hi]) * n
            for at in range(*positive) if positive else ():
                # scale bytes: 8 to 15, or for MXFP4 the exponent 2^-8
                pool[at::size] = bytes([119]) * n if kind == "mxfp4" else bytes(x & 7 | 8 for x in rnd.randbytes(n))
        self.pools[kind] = bytes(pool), size
        return self.pools[kind]

    def write(self, f, kind, nbytes):
        pool, size = self.pool(kind)
        view, n = memoryview(pool), len(pool) // size
        while nbytes > 0:
            at = self.rnd.randrange(0, n - 4096) * size
            part = min(nbytes, len(pool) - at)
            f.write(view[at:at + part])
            nbytes -= part

    def write_words(self, f, kind, c):
        """Write a head: zeros for bytes, numbers with a standard deviation of 0.3 for words."""
        if kind not in PLAIN:
            raise SystemExit(f"bench/gen_model.py: no type \"{kind}\" for words")
        rows = bytearray()
        for i in range(c["vocab_size"]):
            for _ in range(c["hidden_size"]):
                x = self.rnd.gauss(0, 0.3) if i >= WORDS_AT else 0.0
                rows += struct.pack("<f", x)[2:] if kind == "bf16" else struct.pack("<e", x)
        f.write(rows)


def byte_tokens():
    """Return GPT-2's printable name of each byte."""
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    names, n = {}, 0
    for b in range(256):
        names[b] = chr(b) if b in keep else chr(256 + n)
        n += b not in keep
    return names


def token_names(c):
    """Return a name for every row of the head: an engine may exclude ids without a name from its choice."""
    names = byte_tokens()
    rest = [f"<|unused{i}|>" for i in range(WORDS_AT, c["vocab_size"])]
    if c.get("_words"):
        syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
        rest = ["\u0120" + syllables[i % len(syllables)] + syllables[i // len(syllables) * 7 % len(syllables)] for i in range(len(rest))]
    return [names[b] for b in range(256)] + ["<|end|>", SPACES] + rest


def write_safetensors(out, tensors, data):
    """Write model.safetensors from (name, dtype, shape, bytes); data(f, name) writes a tensor's bytes."""
    header, offset = {}, 0
    for name, dtype, shape, n in tensors:
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + n]}
        offset += n
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open(os.path.join(out, "model.safetensors.new"), "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        for name, _, _, n in tensors:
            data(f, name, n)
    os.rename(os.path.join(out, "model.safetensors.new"), os.path.join(out, "model.safetensors"))
    return offset


def write_hf(c, out):
    os.makedirs(out, exist_ok=True)
    write_files(c, out)
    weights = Weights()

    def data(f, name, n):
        if name == "lm_head.weight" and c.get("_words"):
            weights.write_words(f, "bf16", c)
        elif "norm" in name or name.endswith("bias"):
            f.write((b"\x80\x3f" if name.endswith("norm.weight") else b"\0\0") * (n // 2))
        else:
            weights.write(f, "bf16", n)

    return write_safetensors(out, [(name, "BF16", dims, 2 * math.prod(dims)) for name, dims in tensors(c)], data)


def write_files(c, out):
    """Write the files that a model has beside its weights."""
    vocab = {t: i for i, t in enumerate(token_names(c)) if i != 256}
    tok = {"version": "1.0", "added_tokens": [{"id": 256, "content": "<|end|>", "special": True, "single_word": False,
                                               "lstrip": False, "rstrip": False, "normalized": False}],
           "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
           "post_processor": None, "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
           "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                     "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocab, "merges": [SPACE_MERGE]}}
    for name, value in (("config.json", dict({k: v for k, v in c.items() if k[0] != "_"}, hidden_act="silu", torch_dtype="bfloat16", eos_token_id=256)), ("tokenizer.json", tok),
                        ("tokenizer_config.json", {"eos_token": "<|end|>", "tokenizer_class": "PreTrainedTokenizerFast"}),
                        ("generation_config.json", {"eos_token_id": 256})):
        with open(os.path.join(out, name), "w") as f:
            json.dump(value, f)


def gguf_string(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def gguf_keys(c, name):
    """Yield the metadata, each item as the bytes of a key and its value."""
    def key(k, code, v):
        return gguf_string(k) + struct.pack("<I", code) + v

    def number(k, v):
        return key(k, 4, struct.pack("<I", v))

    def array(k, code, n, v):
        return key(k, 9, struct.pack("<IQ", code, n) + v)

    a, n = c["model_type"], c["vocab_size"]
    heads, h = c["num_attention_heads"], c["hidden_size"]
    d = c.get("head_dim", h // heads)
    tokens = token_names(c)
    yield key("general.architecture", 8, gguf_string(a))
    yield key("general.name", 8, gguf_string(name))
    yield number(a + ".context_length", c["max_position_embeddings"])
    yield number(a + ".embedding_length", h)
    yield number(a + ".block_count", c["num_hidden_layers"])
    yield number(a + ".feed_forward_length", c["intermediate_size"])
    yield number(a + ".attention.head_count", heads)
    yield number(a + ".attention.head_count_kv", c["num_key_value_heads"])
    yield number(a + ".attention.key_length", d)
    yield number(a + ".attention.value_length", d)
    yield number(a + ".rope.dimension_count", d)
    yield number(a + ".vocab_size", n)
    yield key(a + ".rope.freq_base", 6, struct.pack("<f", c["rope_theta"]))
    yield key(a + ".attention.layer_norm_rms_epsilon", 6, struct.pack("<f", c["rms_norm_eps"]))
    yield key("tokenizer.ggml.model", 8, gguf_string("gpt2"))
    yield key("tokenizer.ggml.pre", 8, gguf_string("qwen2" if a == "qwen2" else "llama-bpe"))
    yield array("tokenizer.ggml.tokens", 8, n, b"".join(map(gguf_string, tokens)))
    yield array("tokenizer.ggml.token_type", 5, n, struct.pack(f"<{n}i", *([1] * 256 + [3, 1] + [1 if c.get("_words") else 5] * (n - WORDS_AT))))
    yield array("tokenizer.ggml.merges", 8, 1, gguf_string(SPACE_MERGE))
    yield number("tokenizer.ggml.eos_token_id", 256)
    yield key("tokenizer.ggml.add_bos_token", 7, b"\0")


def write_gguf(c, kind, name, out):
    todo, infos, offset = [], [], 0
    for tensor, dims in tensors(c):
        t = gguf_type(c, kind, tensor, dims)
        n = 1
        for x in dims:
            n *= x
        code = (PLAIN if t in PLAIN else BLOCKS)[t][0]
        nbytes = n * PLAIN[t][1] if t in PLAIN else n // BLOCKS[t][1] * BLOCKS[t][2]
        todo.append((tensor, t, nbytes))
        infos.append(gguf_string(gguf_name(tensor)) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *reversed(dims), code, offset))
        offset += nbytes + -nbytes % 32
    keys, weights = list(gguf_keys(c, name)), Weights()
    with open(out + ".new", "wb") as f:
        f.write(struct.pack("<4sIQQ", b"GGUF", 3, len(infos), len(keys)) + b"".join(keys) + b"".join(infos))
        f.write(bytes(-f.tell() % 32))
        for tensor, t, nbytes in todo:
            if t == "f32":
                f.write(struct.pack("<f", 1.0 if tensor.endswith("norm.weight") else 0.0) * (nbytes // 4))
            elif tensor == "lm_head.weight" and c.get("_words"):
                weights.write_words(f, t, c)
            else:
                weights.write(f, t, nbytes)
            f.write(bytes(-nbytes % 32))
    os.rename(out + ".new", out)
    return offset


def main():
    if len(sys.argv) == 2 and sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip())
        return
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in SHAPES:
        print("usage: bench/gen_model.py SHAPE OUT [TYPE]; --help says more", file=sys.stderr)
        sys.exit(2)
    shape, out = sys.argv[1], sys.argv[2]
    c = SHAPES[shape]
    if out.endswith(".gguf"):
        kind = sys.argv[3] if len(sys.argv) == 4 else out[: -len(".gguf")].rsplit(".", 1)[-1]
        if kind not in PLAIN and kind not in BLOCKS and kind not in MIXED or kind == "f32":
            print(f"bench/gen_model.py: no type \"{kind}\"", file=sys.stderr)
            sys.exit(2)
        os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
        size = write_gguf(c, kind, f"{shape} {kind}, random", out)
    else:
        size = write_hf(c, out)
    print(f"{out}: {shape}, {size / 1e6:.0f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
