#!/usr/bin/env python3
"""Make the fixtures of quantized checkpoints, with their dequantized matrices.

    gen_ckpt.py [name ...]          run in the repository's root

Needs numpy, torch and safetensors.  For each case of CASES it writes

    tests/fixtures/ckpt/NAME/config.json            "quantization_config", "expect", "bound"
    tests/fixtures/ckpt/NAME/model.safetensors      modules, each with MODULE.reference

The references are computed here in float64 from the codes, by each format's description,
before these are packed.  Where a tool is installed that makes the format (AutoAWQ,
AutoRound, compressed-tensors, bitsandbytes, torchao), it packs or unpacks the same matrix
and must agree; "tools:" in the output says which did.

Bounds are shares of the largest of 32 weights: EXACT (float's rounding), HALF (a scale in
half precision), ZERO (a zero point times a scale in half precision), Q8 (rounded to 8
bits), BF16.
"""
import json
import os
import shutil
import sys

import numpy as np
import torch
from safetensors.torch import save_file

FIXTURES = "tests/fixtures/ckpt"
EXACT, HALF, ZERO, Q8, BF16 = 3e-7, 2.0 ** -11, 2.0 ** -8, 1 / 254 + 2.0 ** -10, 2.0 ** -8
tools = set()


def i32(a):
    return torch.from_numpy(np.ascontiguousarray(np.asarray(a, dtype=np.uint32).view(np.int32)))


def pack_bits(codes, bits):
    """Codes along the last axis to words of 32 bits: one string of bits, lowest first."""
    codes = np.asarray(codes, dtype=np.uint64)
    n = codes.shape[-1]
    words = np.zeros(codes.shape[:-1] + ((n * bits + 31) // 32 + 1,), dtype=np.uint64)
    for i in range(n):
        w, b = divmod(i * bits, 32)
        v = codes[..., i] << np.uint64(b)
        words[..., w] |= v & np.uint64(0xffffffff)
        words[..., w + 1] |= v >> np.uint64(32)
    return words[..., :(n * bits + 31) // 32]


class Case:
    """A fixture in the making."""

    def __init__(self, name, config):
        self.rng = np.random.default_rng(list(name.encode()))
        self.name = name
        self.config = {"quantization_config": config, "expect": {}, "bound": {}}
        self.tensors = {}

    def add(self, module, tensors, reference, expect=None, bound=0.0):
        for ending, t in tensors.items():
            self.tensors[module + ending] = t.contiguous()
        self.tensors[module + ".reference"] = torch.from_numpy(np.ascontiguousarray(reference, dtype=np.float32))
        if expect:
            self.config["expect"][module] = expect
            self.config["bound"][module] = bound

    def plain(self, module, n, k):
        w = torch.from_numpy(self.rng.normal(0, 0.1, (n, k)).astype(np.float16))
        self.add(module, {".weight": w}, w.float().numpy())

    def scales(self, *shape, dtype=torch.float16):
        s = torch.from_numpy(self.rng.uniform(0.002, 0.03, shape).astype(np.float32)).to(dtype)
        return s, s.double().numpy()

    def write(self):
        path = os.path.join(FIXTURES, self.name)
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        with open(os.path.join(path, "config.json"), "w") as f:
            json.dump(self.config, f, indent=1)
            f.write("\n")
        save_file(self.tensors, os.path.join(path, "model.safetensors"))


# ---- GPTQ, AWQ, AutoRound ----

def gptq(c, module, n, k, bits, group, sym, expect, bound, v2=False, order=None, scale=torch.float16, cap=None):
    """order: None, "act" (columns in disorder) or "none" (no g_idx)."""
    size = k if group < 0 else group
    groups = (k + size - 1) // size
    g_idx = np.arange(k) // size
    if order == "act":
        g_idx = c.rng.permutation(g_idx)
    q = c.rng.integers(0, 1 << bits, (n, k))
    lo = 0 if v2 else 1
    z = np.full((groups, n), 1 << (bits - 1)) if sym else c.rng.integers(lo, (1 << bits) + lo, (groups, n))
    if cap:
        z = np.minimum(z, cap)
    s, s64 = c.scales(groups, n, dtype=scale)
    w = ((q - z[g_idx].T) * s64[g_idx].T)
    t = {".qweight": i32(pack_bits(q, bits).T), ".qzeros": i32(pack_bits(z if v2 else z - 1, bits)), ".scales": s}
    if order != "none":
        t[".g_idx"] = torch.from_numpy(g_idx.astype(np.int32))
    c.add(module, t, w, expect, bound)
    check_autoround(t, w, n, k, bits, size, v2, order)


def check_autoround(t, w, n, k, bits, group, v2, order):
    try:
        if v2:
            from auto_round_extension.torch.qlinear_torch import QuantLinear
        else:
            from auto_round_extension.torch.qlinear_torch_zp import QuantLinear
    except ImportError:
        return
    if k % 32 or n % 32 or bits == 8:       # its zeros of 8 bits overflow
        return
    m = QuantLinear(bits, group, k, n, False, g_idx=order == "act")
    for name in ("qweight", "qzeros", "scales"):
        setattr(m, name, t["." + name].float() if name == "scales" else t["." + name].clone())
    if order == "act":
        m.g_idx = t[".g_idx"]
    got = m(torch.eye(k)).T.double().numpy()
    assert np.abs(got - w).max() <= 1e-3 * np.abs(w).max(), (bits, group, v2, np.abs(got - w).max())
    tools.add("AutoRound")


AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]    # the row at each nibble of a word


def awq_pack(a):
    """[.., n] to [.., n / 8]"""
    a = a.reshape(a.shape[:-1] + (-1, 8))[..., AWQ_ORDER]
    return pack_bits(a, 4)[..., 0]


def awq(c, module, n, k, group, expect, bound, zeros=None, scale=torch.float16):
    size = k if group < 0 else group
    groups = k // size
    q = c.rng.integers(0, 16, (k, n))
    z = c.rng.integers(0, 16, (groups, n)) if zeros is None else np.full((groups, n), zeros)
    s, s64 = c.scales(groups, n, dtype=scale)
    w = ((q - z.repeat(size, 0)) * s64.repeat(size, 0)).T
    t = {".qweight": i32(awq_pack(q)), ".qzeros": i32(awq_pack(z)), ".scales": s}
    c.add(module, t, w, expect, bound)
    try:
        from awq.utils.packing_utils import dequantize_gemm
    except ImportError:
        return
    got = dequantize_gemm(t[".qweight"], t[".qzeros"], s.float(), 4, size).T.double().numpy()
    assert np.abs(got - w).max() <= 1e-6, np.abs(got - w).max()
    tools.add("AutoAWQ")


def gptq_cases():
    def config(**more):
        return {"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": True, "desc_act": False,
                "checkpoint_format": "gptq", "damp_percent": 0.01, "true_sequential": True, "lm_head": False,
                "meta": {"quantizer": ["gptqmodel:2.0.0"]}, **more}

    c = Case("gptq", config())
    gptq(c, "m.sym", 72, 96, 4, 32, True, "Q4_0", EXACT)
    gptq(c, "m.no_order", 8, 320, 4, 32, True, "Q4_0", EXACT, order="none")
    gptq(c, "m.ragged", 8, 80, 4, 32, True, "BF16", BF16)
    gptq(c, "m.bf16", 16, 64, 4, 32, True, "Q4_0", EXACT, scale=torch.bfloat16)
    gptq(c, "m.f32", 16, 64, 4, 32, True, "Q4_0", HALF, scale=torch.float32)
    c.plain("lm_head", 16, 64)
    c.write()

    c = Case("gptq_act_order", config(desc_act=True))
    gptq(c, "m.a", 72, 288, 4, 32, True, "Q8_0", Q8, order="act")
    c.write()
    c = Case("gptq_group_8", config(desc_act=True, group_size=8))
    gptq(c, "m.odd", 16, 24, 4, 8, True, "BF16", BF16, order="act")
    gptq(c, "m.even", 16, 64, 4, 8, True, "Q8_0", Q8)
    c.write()

    c = Case("gptq_asym", config(sym=False, group_size=64))
    gptq(c, "m.a", 40, 128, 4, 64, False, "Q4_1", ZERO)
    gptq(c, "m.act", 32, 128, 4, 64, False, "Q8_0", Q8, order="act")
    c.write()

    c = Case("gptq_v2", config(sym=False, group_size=-1, checkpoint_format="gptq_v2"))
    gptq(c, "m.a", 40, 128, 4, -1, False, "Q4_1", ZERO, v2=True)
    c.write()

    for bits, expect, bound in ((2, "Q4_0", EXACT), (3, "Q4_0", EXACT), (8, "Q8_0", EXACT)):
        c = Case(f"gptq_{bits}bit", config(bits=bits))
        gptq(c, "m.a", 96, 288, bits, 32, True, expect, bound)
        c.write()
        c = Case(f"gptq_{bits}bit_asym", config(bits=bits, sym=False, group_size=32))
        gptq(c, "m.a", 64, 96, bits, 32, False, "BF16" if bits == 8 else expect, BF16 if bits == 8 else bound)
        c.write()

    c = Case("gptq_dynamic", config(dynamic={"-:.*skip": {}, "+:m\\.eight": {"bits": 8, "group_size": 64},
                                             ".*_act$": {"sym": False}, "m.*": {"group_size": -1}}))
    gptq(c, "m.eight", 24, 128, 8, 64, True, "Q8_0", EXACT)
    gptq(c, "m.x_act", 24, 64, 4, 32, False, "Q4_1", ZERO)
    gptq(c, "m.other", 24, 64, 4, -1, True, "Q4_0", EXACT)
    gptq(c, "n.base", 24, 64, 4, 32, True, "Q4_0", EXACT)
    c.plain("m.skip", 16, 64)
    c.write()

    c = Case("bitblas", {**config(), "quant_method": "bitblas"})
    gptq(c, "m.a", 8, 64, 4, 32, True, "Q4_0", EXACT)
    c.write()


def awq_cases():
    c = Case("awq", {"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True, "version": "gemm",
                     "modules_to_not_convert": None})
    awq(c, "m.a", 72, 128, 64, "Q4_1", ZERO)
    awq(c, "m.eight", 8, 320, 64, "Q4_0", EXACT, zeros=8)
    c.plain("lm_head", 8, 64)
    c.write()
    c = Case("awq_old", {"quant_method": "awq", "w_bit": 4, "q_group_size": 16, "zero_point": True,
                         "version": "GEMM"})
    awq(c, "m.a", 16, 96, 16, "Q8_0", Q8)
    awq(c, "m.odd", 16, 48, 16, "BF16", BF16)
    c.write()


def autoround_cases():
    def config(**more):
        return {"quant_method": "auto-round", "bits": 4, "group_size": 32, "sym": True, "data_type": "int",
                "autoround_version": "0.5.1", "iters": 200, "block_name_to_quantize": "model.layers", **more}

    c = Case("autoround_gptq", config(packing_format="auto_round:auto_gptq", extra_config={
        "m.eight": {"bits": 8, "group_size": 64}, ".*float": {"bits": 16, "data_type": "float"}}))
    gptq(c, "m.a", 32, 96, 4, 32, True, "Q4_0", EXACT, order="none")
    gptq(c, "m.eight", 32, 128, 8, 64, True, "Q8_0", EXACT, order="none")
    c.plain("m.float", 8, 64)
    c.write()
    c = Case("autoround_asym", config(packing_format="auto_round", sym=False))
    gptq(c, "m.a", 32, 96, 4, 32, False, "Q4_1", ZERO, order="none", v2=True)
    c.write()
    c = Case("autoround_awq", config(packing_format="auto_round:auto_awq", sym=False))
    awq(c, "m.a", 32, 96, 32, "Q4_1", ZERO)
    c.write()


CASES = {"gptq": gptq_cases, "awq": awq_cases, "autoround": autoround_cases}


def main():
    torch.set_num_threads(1)
    for name in sys.argv[1:] or CASES:
        CASES[name]()
    print("tools:", ", ".join(sorted(tools)) or "none")


if __name__ == "__main__":
    main()
