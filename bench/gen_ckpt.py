#!/usr/bin/env python3
"""Make a quantized checkpoint of a real model's shape with random codes, to measure how fast it loads.

    bench/gen_ckpt.py SHAPE METHOD OUT

SHAPE as for gen_model.py.  METHOD: gptq | act (GPTQ with its columns in another order) | asym (GPTQ with
zero points) | awq | w4a16 | w8a8 (compressed-tensors) | fp8 (blocks of 128) | nf4 | hqq.  Groups
have 128 columns, those of HQQ and NF4 64.  The layers' matrices are quantized; all other tensors are BF16.
Then run this twice, so that the second time the file is in the page cache:

    vllm_pg_engine --offline --model OUT --random-prompts 1,4 --max-tokens 1 --stats

Standard library only.
"""
import math
import os
import random
import struct
import sys

sys.dont_write_bytecode = True

import gen_model  # noqa: E402

BYTES = {"I32": 4, "I64": 8, "F32": 4, "F16": 2, "BF16": 2, "U8": 1, "I8": 1, "F8_E4M3": 1}
SCALE = struct.pack("<e", 0.004)


def weights(bits, kind, symmetric=True):
    return {"quant_method": "compressed-tensors", "format": kind, "quantization_status": "compressed", "config_groups": {
        "group_0": {"targets": ["Linear"], "weights": {"num_bits": bits, "type": "int", "symmetric": symmetric, "strategy":
                    "group" if bits == 4 else "channel", "group_size": 128 if bits == 4 else None},
                    "input_activations": None if bits == 4 else {"num_bits": 8, "type": "int", "dynamic": True}}}}


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True}
CONFIGS = {
    "gptq": GPTQ, "act": dict(GPTQ, desc_act=True), "asym": dict(GPTQ, sym=False),
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"},
    "w4a16": weights(4, "pack-quantized"), "w8a8": weights(8, "int-quantized"),
    "fp8": {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"},
    "nf4": {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": False},
    "hqq": {"quant_method": "hqq", "skip_modules": ["lm_head"]},
}


def parts(method, n, k):
    """Return (suffix, dtype, shape, bytes to repeat, or None for random bytes) of a matrix's tensors."""
    groups = -(-k // 128)
    if method in ("gptq", "act", "asym"):
        order = [i // 128 for i in range(k)]
        if method == "act":
            random.Random(1).shuffle(order)
        return [("qweight", "I32", (k // 8, n), None), ("scales", "F16", (groups, n), SCALE),
                ("qzeros", "I32", (groups, n // 8), b"\x67" if method == "asym" else b"\x77"),
                ("g_idx", "I32", (k,), struct.pack(f"<{k}i", *order))]
    if method == "awq":
        return [("qweight", "I32", (k, n // 8), None), ("qzeros", "I32", (groups, n // 8), b"\x67"),
                ("scales", "F16", (groups, n), SCALE)]
    if method == "w4a16":
        return [("weight_packed", "I32", (n, k // 8), None), ("weight_scale", "BF16", (n, groups), b"\x80\x3b"),
                ("weight_shape", "I64", (2,), struct.pack("<2q", n, k))]
    if method == "w8a8":
        return [("weight", "I8", (n, k), None), ("weight_scale", "BF16", (n, 1), b"\x80\x39")]
    if method == "fp8":
        # random bytes, repeated to fill the matrix; none of them is a NaN in E4M3
        return [("weight", "F8_E4M3", (n, k), bytes(x for x in random.Random(1).randbytes(1 << 16) if x & 127 != 127)),
                ("weight_scale_inv", "F32", (-(-n // 128), groups), struct.pack("<f", 0.0002))]
    if method == "nf4":
        state = b'{"blocksize": 64, "shape": [%d, %d], "dtype": "bfloat16"}' % (n, k)
        table = struct.pack("<16f", *((i - 7.5) / 7.5 for i in range(16)))
        return [("weight", "U8", (n * k // 2, 1), None), ("weight.absmax", "F32", (n * k // 64,), struct.pack("<f", 0.03)),
                ("weight.quant_map", "F32", (16,), table), ("weight.quant_state.bitsandbytes__nf4", "U8", (len(state),), state)]
    return [("W_q", "U8", (n * k // 128, 64), None), ("scale", "F16", (n * k // 64, 1), SCALE),
            ("zero", "F16", (n * k // 64, 1), struct.pack("<e", 7.3)), ("shape", "I64", (2,), struct.pack("<2q", n, k)),
            ("axis", "U8", (), b"\1"), ("packing", "U8", (7,), b"4bit_u8")]


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in gen_model.SHAPES or sys.argv[2] not in CONFIGS:
        print(__doc__, file=sys.stderr)
        sys.exit(0 if "--help" in sys.argv else 2)
    c, method, out = gen_model.SHAPES[sys.argv[1]], sys.argv[2], sys.argv[3]
    tensors, fill = [], {}
    for name, shape in gen_model.tensors(c):
        if not name.endswith("_proj.weight"):
            tensors.append((name, "BF16", shape, 2 * math.prod(shape)))
            continue
        for ending, dtype, dims, data in parts(method, *shape):
            part = name.removesuffix("weight") + ending
            tensors.append((part, dtype, dims, BYTES[dtype] * math.prod(dims)))
            fill[part] = data
    codes, floats = random.Random(2).randbytes(1 << 24), gen_model.Weights()

    def write(f, name, n):
        data = fill.get(name, codes) or codes
        if name not in fill and "norm" not in name and not name.endswith("bias"):
            floats.write(f, "bf16", n)
            return
        if name not in fill:
            data = b"\x80\x3f" if name.endswith("norm.weight") else b"\0\0"
        while n > 0:
            part = (data * (1 + min(n, 1 << 20) // len(data)))[:n]
            f.write(part)
            n -= len(part)

    os.makedirs(out, exist_ok=True)
    gen_model.write_files(dict(c, quantization_config=CONFIGS[method]), out)
    print(f"{out}: {gen_model.write_safetensors(out, tensors, write)} bytes")


main()
