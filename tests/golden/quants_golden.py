#!/usr/bin/env python3
"""Quantized weights as the `gguf` package reads them.

    quants_golden.py                run in the repository's root

Needs what gen_models.py needs.  Writes

    tests/golden/quants.bin                          blocks of every format, and their values
    build/fixtures/models/mixed_gguf.gguf            a model with every format in it
    tests/golden/models_expected/mixed_gguf*.bin     its logits (see gen_models.py)

and packs the folder into tests/fixtures/models.tar.xz (fixtures.py).

quants.bin, little-endian, for each format of KINDS:
    uint32 GGUF id, blocks, bytes in a block, weights in a block, offsets of two scales
    (0xffffffff = none), CRC-32 of the sweep
    the blocks, random bits but for the scales, which are finite
    float32 values
The sweep: for each finite half h of the n in ascending order of bits, number i, block
i % blocks with h as its first scale and the half of number n - 1 - i as its second;
MXFP4: for each exponent 0..254.  The CRC-32 is that of all values, so it covers every
scale without 300 MB of floats.

The package can't quantize to most of the formats; as the model's weights are random
anyway, they are random blocks with scales of the right size.
"""
import os
import struct
import zlib

import fixtures
import gguf
import numpy as np
import torch
from gguf.quants import dequantize

import gen_models as gm

T = gguf.GGMLQuantizationType
NONE = 0xffffffff
# byte offsets of the two scales in a block
KINDS = {
    "Q8_0": (0, NONE), "Q4_0": (0, NONE), "Q4_1": (0, 2), "Q5_0": (0, NONE), "Q5_1": (0, 2),
    "Q2_K": (80, 82), "Q3_K": (108, NONE), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208, NONE),
    "IQ4_NL": (0, NONE), "IQ4_XS": (0, NONE), "MXFP4": (NONE, NONE),
}
# root mean square of a weight if the scale is 1 (and the minimum has its proportion)
SIZES = {
    "Q8_0": 74, "Q4_0": 4.6, "Q4_1": 4.6, "Q5_0": 9.2, "Q5_1": 9.2, "Q2_K": 12, "Q3_K": 42, "Q4_K": 280,
    "Q5_K": 560, "Q6_K": 1370, "IQ4_NL": 70, "IQ4_XS": 1300, "MXFP4": 5.6,
}
FINITE = np.array([h for h in range(65536) if h & 0x7c00 != 0x7c00], dtype="<u2")
SWEEP_STEP = 4096               # blocks per call

MIXED = dict(kind="llama", dtype="F32", hidden=256, heads=2, kv=1, hd=32, inter=64, layers=2)
MIXED_TYPES = {
    "model.embed_tokens": "Q6_K", "lm_head": "Q4_K",
    "model.layers.0.self_attn.q_proj": "Q2_K", "model.layers.0.self_attn.k_proj": "Q3_K",
    "model.layers.0.self_attn.v_proj": "Q4_K", "model.layers.0.self_attn.o_proj": "Q4_0",
    "model.layers.0.mlp.gate_proj": "Q5_K", "model.layers.0.mlp.up_proj": "Q6_K",
    "model.layers.0.mlp.down_proj": "Q4_1",
    "model.layers.1.self_attn.q_proj": "IQ4_XS", "model.layers.1.self_attn.k_proj": "IQ4_NL",
    "model.layers.1.self_attn.v_proj": "MXFP4", "model.layers.1.self_attn.o_proj": "Q5_0",
    "model.layers.1.mlp.gate_proj": "Q8_0", "model.layers.1.mlp.up_proj": "Q8_0",
    "model.layers.1.mlp.down_proj": "Q5_1",
}


def put(blocks, at, halves):
    if at != NONE:
        blocks[:, at:at + 2] = np.asarray(halves, dtype="<u2").view(np.uint8).reshape(-1, 2)


def values(blocks, kind):
    return dequantize(blocks.reshape(1, -1), T[kind]).astype("<f4").reshape(-1)


def sweep_crc(blocks, kind):
    at1, at2 = KINDS[kind]
    scales = np.arange(255, dtype=np.uint8) if kind == "MXFP4" else FINITE
    crc = 0
    for first in range(0, len(scales), SWEEP_STEP):
        i = np.arange(first, min(first + SWEEP_STEP, len(scales)))
        part = blocks[i % len(blocks)].copy()
        if kind == "MXFP4":
            part[:, 0] = scales[i]
        put(part, at1, scales[i])
        put(part, at2, scales[len(scales) - 1 - i])
        crc = zlib.crc32(values(part, kind).tobytes(), crc)
    return crc


def write_blocks():
    rng = np.random.default_rng(1)
    with open("tests/golden/quants.bin", "wb") as f:
        for kind, (at1, at2) in KINDS.items():
            block, size = gguf.GGML_QUANT_SIZES[T[kind]]
            n = 2048 // block
            b = rng.integers(0, 256, (n, size), dtype=np.uint8)
            put(b, at1, rng.choice(FINITE, n))
            put(b, at2, rng.choice(FINITE, n))
            if kind == "MXFP4":
                b[:, 0] = rng.integers(0, 255, n)
            f.write(struct.pack("<7I", T[kind], n, size, block, at1, at2, sweep_crc(b, kind)))
            f.write(b.tobytes() + values(b, kind).tobytes())
            print(f"{kind}: {n} blocks")


def random_matrix(rng, kind, n, k, std):
    """Return [n][bytes of a row] of random blocks; their weights have about that standard deviation."""
    block, size = gguf.GGML_QUANT_SIZES[T[kind]]
    b = rng.integers(0, 256, (n * (k // block), size), dtype=np.uint8)
    at1, at2 = KINDS[kind]
    d = std / SIZES[kind] * rng.uniform(0.7, 1.4, len(b))
    mean = {"Q4_1": -7.5, "Q5_1": -15.5, "Q2_K": 1.5, "Q4_K": 7.5, "Q5_K": 15.5}.get(kind, 0)
    put(b, at1, (d * rng.choice([-1, 1], len(b)) if mean == 0 else d).astype("<f2").view("<u2"))
    put(b, at2, (d * mean).astype("<f2").view("<u2"))
    if kind == "MXFP4":
        b[:, 0] = np.round(np.log2(d)) + 128
    return b.reshape(n, -1)


def write_model():
    rng = np.random.default_rng(2)
    m = MIXED
    file = os.path.join(gm.FIXTURES, "mixed_gguf.gguf")
    out = gguf.GGUFWriter(file, "llama")
    gm.write_gguf_keys(out, "llama", m)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, m["layers"])
    back = {}
    for name, t in gm.weights(m, 1).items():
        stem, suffix = name.rsplit(".", 1)
        kind = MIXED_TYPES.get(stem)
        if kind is None:
            data, raw, back[name] = t.numpy(), T.F32, t
        else:
            std = (1.0 if "layers" not in name else 1.3) * t.shape[1] ** -0.5
            data, raw = random_matrix(rng, kind, *t.shape, std), T[kind]
            back[name] = torch.from_numpy(dequantize(data, raw))
            print(f"{name}: {kind}, deviation {back[name].std():.4f}, meant {std:.4f}")
            if stem.endswith("q_proj"):
                data = gm.permute(data, m["heads"])
            if stem.endswith("k_proj"):
                data = gm.permute(data, m["kv"])
        out.add_tensor(names.get_name(stem) + "." + suffix, data, raw_dtype=raw)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return back


def write_logits(back):
    model = gm.AutoModelForCausalLM.from_config(gm.AutoConfig.for_model(**gm.configuration(MIXED)),
                                                attn_implementation="eager").eval()
    model.load_state_dict(back)
    rng = np.random.default_rng(3)
    prompt = [gm.BOS] + [int(x) for x in rng.integers(3, gm.VOCAB, gm.N_PROMPT - 1)]
    tokens, margin = gm.greedy(model, prompt)
    logits = gm.logits_of(model, prompt)
    gm.write_expected("mixed_gguf", prompt, tokens, logits)
    gm.write_rounded("mixed_gguf", model, prompt, gm.int8)
    print(f"mixed_gguf: margin {margin:.4f}, {len(set(tokens))} distinct tokens, |logits| {np.abs(logits).mean():.2f}")


def main():
    torch.set_num_threads(1)
    with np.errstate(over="ignore"):
        write_blocks()
    with fixtures.repacked("models"):
        write_logits(write_model())


if __name__ == "__main__":
    main()
