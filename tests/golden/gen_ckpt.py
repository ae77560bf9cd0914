#!/usr/bin/env python3
"""Make the fixtures of quantized checkpoints, with their dequantized matrices.

    gen_ckpt.py [name ...]          run in the repository's root

Needs numpy, torch and safetensors.  For each case of CASES it writes

    build/fixtures/ckpt/NAME/config.json            "quantization_config", "expect", "bound"
    build/fixtures/ckpt/NAME/model.safetensors      modules, each with MODULE.reference

and packs the folder into tests/fixtures/ckpt.tar.xz (fixtures.py).

The script computes the references in float64 from the codes, by each format's description, before it packs
the codes.  If a tool that makes the format is installed (AutoAWQ, AutoRound, compressed-tensors,
bitsandbytes, torchao, hqq, Quark), that tool packs or unpacks the same matrix and must agree; "tools:" in
the output lists the tools that did.

Bounds are shares of the largest of 32 weights: EXACT (float's rounding), HALF (a scale in
half precision), ZERO (a zero point times a scale in half precision), Q8 (rounded to 8
bits), BF16.
"""
import importlib.util
import json
import os
import shutil
import sys
import types

import fixtures
import numpy as np
import torch
from safetensors.torch import save_file

FIXTURES = "build/fixtures/ckpt"
EXACT, HALF, ZERO, Q8, BF16 = 3e-7, 2.0 ** -11, 2.0 ** -8, 1 / 254 + 2.0 ** -10, 2.0 ** -8
tools = set()


def i32(a):
    return torch.from_numpy(np.ascontiguousarray(np.asarray(a, dtype=np.uint32).view(np.int32)))


def pack_bits(codes, bits):
    """Pack codes along the last axis into words of 32 bits: one string of bits, lowest first."""
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
    """A fixture that is being made."""

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
    """order: None, "act" (columns in another order) or "none" (no g_idx)."""
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
    """Pack codes [.., n] into words [.., n / 8]."""
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
    tool = awq_tool("utils.packing_utils")
    if tool is None:
        return
    got = tool.dequantize_gemm(t[".qweight"], t[".qzeros"], s.float(), 4, size).T.double().numpy()
    assert np.abs(got - w).max() <= 1e-6, np.abs(got - w).max()
    tools.add("AutoAWQ")


def awq_tool(name):
    """Load a module of AutoAWQ without the packages that it imports."""
    if "awq" not in sys.modules and importlib.util.find_spec("awq") is None:
        return None
    for package in ("awq", "awq.utils", "awq.modules", "awq.modules.linear"):
        m = sys.modules[package] = types.ModuleType(package)
        m.__path__ = [os.path.join(site, *package.split(".")) for site in sys.path]
    return importlib.import_module("awq." + name)


def awq_check(name, cls, t, w, group, s64, z):
    """Compare with AutoAWQ's own packing of the same weights."""
    tool = awq_tool("modules.linear." + name)
    if tool is None:
        return
    n, k = w.shape
    linear = torch.nn.Linear(k, n, bias=False)
    linear.weight.data = torch.from_numpy(w).float()
    zeros = {} if z is None else {"zeros": torch.from_numpy(z.astype(np.float32))}
    m = getattr(tool, cls).from_linear(linear, 4, group, scales=torch.from_numpy(s64).half(), **zeros)
    for ending, mine in t.items():
        assert torch.equal(getattr(m, ending[1:]), mine), (name, ending)
    tools.add("AutoAWQ's " + name)


def awq_width(k, group):
    """Return the number of words of zero points in a row; AutoAWQ rounds it up."""
    several = {32: 4, 64: 2}.get(group, 1)
    words = -(-(k // group) // 8)
    return -(-words // several) * several


def awq_codes(c, n, k, group, zeros):
    groups = k // group
    q = c.rng.integers(0, 16, (n, k))
    z = c.rng.integers(0, 16, (n, groups)) if zeros is None else np.full((n, groups), zeros)
    s, s64 = c.scales(n, groups)
    return q, z, s, s64, (q - z.repeat(group, 1)) * s64.repeat(group, 1)


def awq_gemv(c, module, n, k, group, expect, bound, zeros=None):
    q, z, s, s64, w = awq_codes(c, n, k, group, zeros)
    width = awq_width(k, group)
    packed = np.zeros((n, width * 8), dtype=np.int64)
    packed[:, :k // group] = z
    scales = torch.zeros(n, width * 8, dtype=torch.float16)
    scales[:, :k // group] = s
    t = {".qweight": i32(pack_bits(q, 4)), ".qzeros": i32(pack_bits(packed, 4)), ".scales": scales}
    awq_check("gemv", "WQLinear_GEMV", t, w, group, s64, z)
    c.add(module, t, w, expect, bound)


def awq_gemv_fast(c, module, n, k, group, expect, bound, zeros=None):
    q, z, s, s64, w = awq_codes(c, n, k, group, zeros)
    width = awq_width(k, group)
    words = np.zeros((n // 4, k), dtype=np.uint16)
    for row in range(n):
        for col in range(k):
            at = col // 64 * 64 + row % 4 * 16 + col % 64 // 32 * 8 + col % 8
            words[row // 4, at] |= np.uint16(q[row, col] << 4 * (col % 32 // 8))
    scales = torch.zeros(width * 8, n, dtype=torch.float16)
    scales[:k // group] = s.T
    scaled = torch.zeros(width * 8, n, dtype=torch.float16)
    scaled[:k // group] = -(s * torch.from_numpy(z)).half().T
    w = q * s64.repeat(group, 1) + scaled[:k // group].double().numpy().T.repeat(group, 1)
    t = {".qweight": torch.from_numpy(words.view(np.int16)), ".scales": scales, ".qzeros": scaled}
    awq_check("gemv_fast", "WQLinear_GEMVFast", t, (q - z.repeat(group, 1)) * s64.repeat(group, 1), group, s64, z)
    if group == 32:
        t[".scaled_zeros"] = t.pop(".qzeros")       # the older name
    c.add(module, t, w, expect, bound)


def marlin_words(q):
    """Pack codes [n][k] into words, by the layout's description."""
    n, k = q.shape
    row, col = np.meshgrid(np.arange(n), np.arange(k), indexing="ij")
    word = row // 64 * 128 + 16 * (row % 8) + 4 * (col % 8 // 2) + row % 64 // 16
    nibble = 2 * (row % 16 // 8) + col % 16 // 8 + 4 * (col % 2)
    words = np.zeros((k // 16, n * 2), dtype=np.uint32)
    np.bitwise_or.at(words, (col // 16, word), (q << 4 * nibble).astype(np.uint32))
    return words


def marlin_scales(s, groups):
    """Reorder scales [n][groups] to [groups][n], in Marlin's order."""
    row = np.arange(s.shape[0])
    at = (row - row % 64 + row % 8 * 8 + row % 64 // 8 if groups > 1 else
          row - row % 32 + row % 8 // 2 * 8 + row % 32 // 8 * 2 + row % 2)
    scales = torch.empty_like(s.T).contiguous()
    scales[:, torch.from_numpy(at)] = s.T
    return scales


def marlin(c, module, n, k, group, names, expect="Q4_0", bound=EXACT):
    size = k if group < 0 else group
    q = c.rng.integers(0, 16, (n, k))
    s, s64 = c.scales(n, k // size)
    w = (q - 8) * s64.repeat(size, 1)
    t = {".qweight": i32(marlin_words(q)), ".scales": marlin_scales(s, k // size)}
    awq_check("marlin", "WQLinear_Marlin", t, w, size, s64, None)
    c.add(module, {"." + names[0]: t[".qweight"], "." + names[1]: t[".scales"]}, w, expect, bound)


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

    for name, more in (("gptq_marlin", {"checkpoint_format": "marlin"}), ("gptq_is_marlin", {"is_marlin_format": True}),
                       ("marlin", {"quant_method": "marlin"})):
        c = Case(name, {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False,
                        "lm_head": False, "dynamic": {"+:.*single$": {"group_size": -1}}, **more})
        marlin(c, "m.a", 192, 256, 128, ("B", "s"))
        marlin(c, "m.single", 64, 144, -1, ("B", "s"), "BF16", BF16)
        marlin(c, "m.one", 64, 128, 128, ("B", "s"))
        c.tensors["m.a.workspace"] = torch.zeros(24, dtype=torch.int32)
        c.plain("lm_head", 16, 64)
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

    for name, pack in (("gemv", awq_gemv), ("gemv_fast", awq_gemv_fast)):
        c = Case("awq_" + name, {"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True, "version": name,
                                 "modules_to_not_convert": ["lm_head", "visual"]})
        pack(c, "m.a", 72, 576, 64, "Q4_1", ZERO)
        pack(c, "m.eight", 8, 128, 64, "Q4_0", EXACT, zeros=8)
        c.plain("lm_head", 8, 64)
        c.write()
        c = Case("awq_" + name + "_32", {"quant_method": "awq", "w_bit": 4, "q_group_size": 32, "zero_point": True,
                                         "version": name.upper()})
        pack(c, "m.a", 16, 320, 32, "Q4_1", ZERO)
        c.write()
    c = Case("awq_marlin", {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": False,
                            "version": "marlin", "modules_to_not_convert": None})
    marlin(c, "m.a", 128, 256, 128, ("qweight", "scales"))
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


# ---- compressed-tensors ----

def ct_config(**group):
    g = {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group",
                                            "group_size": 32, "dynamic": False, "observer": "minmax"},
         "input_activations": None, "output_activations": None}
    g["weights"].update(group.pop("weights", {}))
    g.update(group)
    return g


def ct(groups, fmt="pack-quantized", **more):
    return {"quant_method": "compressed-tensors", "format": fmt, "quantization_status": "compressed",
            "config_groups": {f"group_{i}": g for i, g in enumerate(groups)}, "ignore": ["lm_head"],
            "kv_cache_scheme": None, "global_compression_ratio": 1.5, **more}


INT8_ACTS = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True}
FP8_ACTS = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "tensor", "dynamic": False}


def ct_scales(c, n, k, weights, dtype=torch.bfloat16):
    """Return the scales as they are stored, and one for each weight."""
    strategy = weights["strategy"]
    if strategy == "group":
        s, s64 = c.scales(n, -(-k // weights["group_size"]), dtype=dtype)
        return s, s64.repeat(weights["group_size"], 1)[:, :k]
    if strategy == "block":
        a, b = weights["block_structure"]
        s, s64 = c.scales(-(-n // a), -(-k // b), dtype=dtype)
        return s, s64.repeat(a, 0)[:n].repeat(b, 1)[:, :k]
    s, s64 = c.scales(*((n, 1) if strategy == "channel" else (1,)), dtype=dtype)
    return s, np.broadcast_to(s64, (n, k))


def ct_check(config, group, t, w):
    """Compare with what the library itself decompresses from a module's tensors."""
    try:
        from compressed_tensors.compressors import BaseCompressor
        from compressed_tensors.quantization import QuantizationScheme
    except ImportError:
        return
    t = {k[1:]: v.float() if v.dtype == torch.bfloat16 else v for k, v in t.items()}
    scheme = QuantizationScheme(**config["config_groups"][group])
    got = BaseCompressor.get_value_from_registry(config["format"]).decompress(t, scheme)["weight"].double().numpy()
    assert np.abs(got - w).max() <= 2e-2 * np.abs(w).max(), np.abs(got - w).max()
    tools.add("compressed-tensors")


def ct_packed(c, module, group, n, k, expect, bound, dtype=torch.bfloat16, order=False):
    conf = c.config["quantization_config"]
    a = conf["config_groups"][group]["weights"]
    bits = a["num_bits"]
    q = c.rng.integers(0, 1 << bits, (n, k))
    s, s64 = ct_scales(c, n, k, a, dtype)
    groups = s.shape[1]
    z = np.full((n, groups), 1 << (bits - 1)) if a["symmetric"] else c.rng.integers(0, 1 << bits, (n, groups))
    size = a.get("group_size") or k
    g_idx = c.rng.permutation(np.arange(k) // size) if order else np.arange(k) // size
    w = (q - z[:, g_idx]) * s.double().numpy()[:, g_idx]
    t = {".weight_packed": i32(pack_bits(q, bits)), ".weight_scale": s, ".weight_shape": torch.tensor([n, k])}
    if not a["symmetric"]:
        t[".weight_zero_point"] = i32(pack_bits(z.T, bits).T)
    if not order:
        ct_check(conf, group, t, w)
    else:
        t[".weight_g_idx"] = torch.from_numpy(g_idx.astype(np.int32))
    c.add(module, t, w, expect, bound)


def ct_bytes(c, module, group, n, k, expect, bound, dtype=torch.bfloat16, acts=False, kv=False):
    conf = c.config["quantization_config"]
    a = conf["config_groups"][group]["weights"]
    s, s64 = ct_scales(c, n, k, a, dtype)
    t = {".weight_scale": s}
    if a["type"] == "int":
        q = c.rng.integers(-128, 128, (n, k))
        t[".weight"] = torch.from_numpy(q.astype(np.int8))
        q = q.astype(np.float64)
        if not a["symmetric"]:
            z = c.rng.integers(-128, 128, tuple(s.shape))
            t[".weight_zero_point"] = torch.from_numpy(z.astype(np.int8))
            q = q - np.broadcast_to(z, (n, k))
    else:
        t[".weight"] = torch.from_numpy(c.rng.normal(0, 30, (n, k))).to(torch.float8_e4m3fn)
        q = t[".weight"].double().numpy()
    w = q * s64
    ct_check(conf, group, t, w)
    if acts:
        t[".input_scale"] = torch.tensor([0.1])
        t[".input_zero_point"] = torch.zeros(1, dtype=torch.int8)
    if kv:
        t[".output_scale"] = torch.tensor([0.2])
    c.add(module, t, w, expect, bound)


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def fp4_codes(c, n, k):
    q = c.rng.integers(0, 16, (n, k))
    return torch.from_numpy((q[:, 0::2] | q[:, 1::2] << 4).astype(np.uint8)), E2M1[q]


def exponents(c, *shape):
    e = c.rng.integers(115, 125, shape)
    return torch.from_numpy(e.astype(np.uint8)), 2.0 ** (e - 127.0)


def nvfp4(c, n, k):
    q, v = fp4_codes(c, n, k)
    s = torch.from_numpy(c.rng.uniform(1, 448, (n, k // 16))).to(torch.float8_e4m3fn)
    return q, s, v * s.double().numpy().repeat(16, 1)


def compressed_cases():
    w8 = {"num_bits": 8, "type": "int"}
    c = Case("ct_w4a16", ct([ct_config()]))
    ct_packed(c, "m.a", "group_0", 72, 96, "Q4_0", EXACT)
    ct_packed(c, "m.f32", "group_0", 8, 64, "Q4_0", HALF, dtype=torch.float32)
    c.plain("lm_head", 8, 64)
    c.write()
    c = Case("ct_w4a16_asym", ct([ct_config(weights={"symmetric": False, "group_size": 64})]))
    ct_packed(c, "m.a", "group_0", 70, 128, "Q4_1", ZERO)
    ct_packed(c, "m.order", "group_0", 16, 128, "Q8_0", Q8, order=True)
    c.write()
    c = Case("ct_wna16", ct([
        ct_config(targets=["re:.*\\.eight"], weights={"num_bits": 8}),
        ct_config(targets=["m.three", "m.ragged"], weights={"num_bits": 3, "strategy": "channel", "group_size": None}),
        ct_config(weights={"num_bits": 8, "strategy": "channel", "group_size": None, "symmetric": False})]))
    ct_packed(c, "m.eight", "group_0", 8, 64, "Q8_0", EXACT)
    ct_packed(c, "m.three", "group_1", 40, 96, "Q4_0", EXACT)
    ct_packed(c, "m.ragged", "group_1", 8, 45, "BF16", BF16)
    ct_packed(c, "n.other", "group_2", 8, 64, "BF16", BF16)
    c.write()
    c = Case("ct_w8a8", ct([ct_config(weights={**w8, "strategy": "channel", "group_size": None},
                                      input_activations=INT8_ACTS)], "int-quantized"))
    ct_bytes(c, "m.a", "group_0", 72, 80, "INT8", EXACT)
    ct_bytes(c, "m.static", "group_0", 8, 64, "INT8", EXACT, dtype=torch.float32, acts=True)
    c.write()
    c = Case("ct_w8a8_asym", ct([ct_config(weights={**w8, "strategy": "tensor", "group_size": None, "symmetric": False},
                                           input_activations=INT8_ACTS)], "int-quantized"))
    ct_bytes(c, "m.a", "group_0", 8, 64, "BF16", BF16)
    c.write()
    for strategy, more in (("tensor", {}), ("channel", {}), ("block", {"block_structure": [16, 32]})):
        c = Case(f"ct_fp8_{strategy}", ct([ct_config(
            weights={"num_bits": 8, "type": "float", "strategy": strategy, "group_size": None, **more},
            input_activations=FP8_ACTS)], "naive-quantized" if strategy == "tensor" else "float-quantized"))
        ct_bytes(c, "m.k_proj", "group_0", 40, 80, "BF16", BF16, acts=True, kv=strategy == "tensor")
        c.write()
    c = Case("ct_nvfp4", ct([ct_config(weights={"num_bits": 4, "type": "float", "strategy": "tensor_group",
                                                "group_size": 16})], "nvfp4-pack-quantized"))
    for module, k, expect in (("m.a", 96, "Q8_0"), ("m.odd", 48, "BF16")):
        q, s, v = nvfp4(c, 24, k)
        t = {".weight_packed": q, ".weight_scale": s, ".weight_global_scale": torch.tensor([3000.0])}
        ct_check(c.config["quantization_config"], "group_0", t, v / 3000)
        t[".input_global_scale"] = torch.tensor([20.0])
        c.add(module, t, v / 3000, expect, Q8 if expect == "Q8_0" else BF16)
    c.write()
    c = Case("ct_mxfp4", ct([ct_config(weights={"num_bits": 4, "type": "float", "group_size": 32})],
                            "mxfp4-pack-quantized"))
    q, v = fp4_codes(c, 24, 96)
    s, s64 = exponents(c, 24, 3)
    t = {".weight_packed": q, ".weight_scale": s}
    ct_check(c.config["quantization_config"], "group_0", dict(t), v * s64.repeat(32, 1))
    c.add("m.a", t, v * s64.repeat(32, 1), "MXFP4", EXACT)
    c.write()


# ---- FP8, MXFP4, ModelOpt, Quark ----

def f8(c, n, k, dtype=torch.float8_e4m3fn):
    t = torch.from_numpy(c.rng.normal(0, 30, (n, k))).to(dtype)
    return t, t.double().numpy()


def fp8_cases():
    c = Case("fp8_block", {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3",
                           "weight_block_size": [16, 32], "modules_to_not_convert": ["lm_head"]})
    for module, n, k in (("m.a", 72, 96), ("m.ragged", 41, 81), ("m.small", 8, 24)):
        q, v = f8(c, n, k)
        s, s64 = c.scales(-(-n // 16), -(-k // 32), dtype=torch.float32)
        w = v * s64.repeat(16, 0)[:n].repeat(32, 1)[:, :k]
        c.add(module, {".weight": q, ".weight_scale_inv": s}, w, "BF16", BF16)
        try:
            from transformers.integrations.finegrained_fp8 import _dequantize_fp8_weight
            got = _dequantize_fp8_weight(q, s, [16, 32], torch.float32).double().numpy()
            assert np.abs(got - w).max() <= 1e-6 * np.abs(w).max()
            tools.add("transformers' fp8")
        except ImportError:
            pass
    q, v = f8(c, 3 * 48, 80)
    s, s64 = c.scales(3, 3, 3, dtype=torch.float32)
    c.add("m.experts.gate_up_proj", {"": q.reshape(3, 48, 80), "_scale_inv": s},
          v * s64.reshape(9, 3).repeat(16, 0).repeat(32, 1)[:, :80], "BF16", BF16)
    c.plain("lm_head", 8, 32)
    c.write()
    c = Case("fp8_tensor", {"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["lm_head"]})
    for module, shape, dtype in (("m.one", (), torch.float8_e4m3fn), ("m.dim", (1,), torch.float8_e5m2),
                                 ("m.rows", (24,), torch.float8_e4m3fn), ("m.column", (24, 1), torch.float8_e4m3fn)):
        q, v = f8(c, 24, 40, dtype)
        s, s64 = c.scales(*shape, dtype=torch.float32)
        c.add(module, {".weight": q, ".weight_scale": s, ".input_scale": torch.tensor(0.5)},
              v * s64.reshape(-1, 1), "BF16", BF16)
    for module, down in (("m.experts.gate_up_proj", 2), ("m.experts.down_proj", 1)):
        q, v = f8(c, 3 * 24, 40)
        s, s64 = c.scales(3, down, 1, dtype=torch.float32)
        c.add(module, {"": q.reshape(3, 24, 40), "_scale_inv": s, "_activation_scale": torch.ones(3)},
              v * s64.reshape(-1, 1).repeat(24 // down, 0), "BF16", BF16)
    # all codes but NaN
    q = torch.tensor([[b for b in range(256) if b & 127 != 127]], dtype=torch.uint8).view(torch.float8_e4m3fn)
    c.add("m.all", {".weight": q, ".weight_scale": torch.tensor(1.0)}, q.double().numpy(), "BF16", 0.0)
    c.write()


def mxfp4_cases():
    c = Case("mxfp4", {"quant_method": "mxfp4", "modules_to_not_convert": ["model.embed_tokens"]})
    q, v = fp4_codes(c, 3 * 40, 96)
    s, s64 = exponents(c, 3, 40, 3)
    w = v * s64.reshape(120, 3).repeat(32, 1)
    blocks = q.reshape(3, 40, 3, 16)
    c.add("m.experts.gate_up_proj", {"_blocks": blocks, "_scales": s}, w, "MXFP4", EXACT)
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
    got = convert_moe_packed_tensors(blocks, s, dtype=torch.float32).transpose(1, 2).reshape(120, 96).double().numpy()
    assert (got == w).all()
    tools.add("transformers' mxfp4")
    c.write()


def modelopt_cases():
    c = Case("modelopt_fp8", {"quant_method": "modelopt", "quant_algo": "FP8", "producer": {"name": "modelopt"},
                              "kv_cache_scheme": {"num_bits": 8}, "ignore": ["lm_head"]})
    q, v = f8(c, 24, 40)
    s, s64 = c.scales(dtype=torch.float32)
    c.add("a.k_proj", {".weight": q, ".weight_scale": s, ".input_scale": torch.tensor(0.5),
                       ".k_scale": torch.tensor(0.1)}, v * s64, "BF16", BF16)
    c.write()
    c = Case("modelopt_blocks", {"quant_method": "modelopt", "producer": {"name": "modelopt"}, "quantization": {
        "quant_algo": "fp8_pb_wo", "kv_cache_quant_algo": None, "exclude_modules": ["lm_head*"]}})
    q, v = f8(c, 130, 260)
    s, s64 = c.scales(2, 1, 3, 1, dtype=torch.float32)
    c.add("m.a", {".weight": q, ".weight_scale": s},
          v * s64.reshape(2, 3).repeat(128, 0)[:130].repeat(128, 1)[:, :260], "BF16", BF16)
    c.write()
    c = Case("modelopt_nvfp4", {"quant_method": "modelopt", "quantization": {
        "quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"],
        "quantized_layers": {"m.a": {"quant_algo": "NVFP4", "group_size": 16}, "m.mx": {"quant_algo": "MXFP8"}}}})
    q, s, v = nvfp4(c, 24, 96)
    c.add("m.a", {".weight": q, ".weight_scale": s, ".weight_scale_2": torch.tensor(0.0003),
                  ".input_scale": torch.tensor(0.5)}, v * np.float32(0.0003), "Q8_0", Q8)
    q, v = f8(c, 24, 96)
    s, s64 = exponents(c, 24, 3)
    c.add("m.mx", {".weight": q, ".weight_scale": s}, v * s64.repeat(32, 1), "BF16", BF16)
    c.write()


def quark_cases():
    fp8 = {"weight": {"dtype": "fp8_e4m3", "is_dynamic": False, "qscheme": "per_tensor", "ch_axis": None,
                      "group_size": None, "symmetric": True, "round_method": "half_even", "scale_type": "float",
                      "observer_cls": "PerTensorMinMaxObserver"},
           "input_tensors": {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}, "output_tensors": None, "bias": None}
    mx = {"weight": {"dtype": "fp4", "is_dynamic": False, "qscheme": "per_group", "ch_axis": -1, "group_size": 32,
                     "symmetric": None, "scale_format": "e8m0", "scale_type": "float", "round_method": "half_even"},
          "input_tensors": {"dtype": "fp4", "is_dynamic": True, "qscheme": "per_group"}}
    c = Case("quark", {"quant_method": "quark", "quant_mode": "eager_mode", "global_quant_config": fp8,
                       "layer_quant_config": {"*.mx": mx}, "layer_type_quant_config": {}, "exclude": ["lm_head"],
                       "export": {"kv_cache_group": [], "pack_method": "reorder", "weight_format": "real_quantized"},
                       "algo_config": None})
    q, v = f8(c, 24, 40)
    s, s64 = c.scales(dtype=torch.float32)
    c.add("m.k_proj", {".weight": q, ".weight_scale": s, ".input_scale": torch.tensor(0.5),
                       ".output_scale": torch.tensor(0.1)}, v * s64, "BF16", BF16)
    q, v = fp4_codes(c, 24, 64)
    s, s64 = exponents(c, 24, 2)
    c.add("m.mx", {".weight": q, ".weight_scale": s}, v * s64.repeat(32, 1), "MXFP4", EXACT)
    c.write()


def quark_spec(dtype, qscheme, **more):
    return {"weight": {"dtype": dtype, "is_dynamic": False, "qscheme": qscheme, "symmetric": None, "scale_type": "float",
                       "ch_axis": {"per_tensor": None, "per_channel": 0, "per_group": -1}[qscheme],
                       "block_size": None, "is_scale_quant": False, "zero_point_type": "int32", **more}}


def quark_tool():
    try:
        from quark.torch.utils.pack import create_pack_method
    except ImportError:
        return None
    tools.add("Quark")
    return create_pack_method


def quark_words(a, reorder):
    """Pack [.., n] codes of 4 bits into I32 [.., n / 8]."""
    a = (a & 15).reshape(a.shape[:-1] + (-1, 8))
    return i32(pack_bits(a[..., AWQ_ORDER] if reorder else a, 4)[..., 0])


def quark_integers(c, module, n, k, dtype, scheme, expect, bound, symmetric=True, size=None, reorder=True):
    bits = int(dtype[-1])
    lo = 0 if dtype[0] == "u" else -(1 << (bits - 1))
    groups = k // size if size else 1
    shape = {"per_tensor": (), "per_channel": (n,), "per_group": (groups, n)}[scheme]
    q = c.rng.integers(lo, lo + (1 << bits), (n, k))
    middle = lo + (1 << (bits - 1))
    z = np.full(shape, middle) if symmetric else c.rng.integers(lo, lo + (1 << bits), shape)
    s, s64 = c.scales(*shape, dtype=torch.float32)
    full = [x if scheme == "per_tensor" else x[:, None] if scheme == "per_channel" else x.T.repeat(size, 1) for x in (z, s64)]
    down = scheme == "per_group"
    code = q.T if down else q
    if bits == 4:
        t = quark_words(code, reorder)
        tz = torch.tensor(int(z), dtype=torch.int32) if scheme == "per_tensor" else quark_words(z, reorder)
    else:
        kind = np.int8 if lo else np.uint8
        t, tz = torch.from_numpy(np.ascontiguousarray(code.astype(kind))), torch.from_numpy(np.asarray(z, dtype=kind))
    if tool := quark_tool():
        mine = tool(scheme, dtype).pack(torch.from_numpy(q).int(), reorder)
        assert torch.equal(mine, t), (module, mine, t)
    c.add(module, {".weight": t, ".weight_scale": s, ".weight_zero_point": tz}, (q - full[0]) * full[1], expect, bound)


def fp6_values(exponent, mantissa):
    bias = (1 << (exponent - 1)) - 1
    m = np.arange(1 << mantissa) / (1 << mantissa)
    v = np.concatenate([(m + (e > 0)) * 2.0 ** (max(e, 1) - bias) for e in range(1 << exponent)])
    return np.concatenate([v, -v])


def quark_fp6(c, module, n, k, exponent, mantissa):
    q = c.rng.integers(0, 64, (n, k))
    v = fp6_values(exponent, mantissa)[q]
    bits = (q[..., None] >> np.arange(6) & 1).reshape(n, -1)
    t = torch.from_numpy(np.packbits(bits.astype(np.uint8), axis=-1, bitorder="little"))
    if tool := quark_tool():
        assert torch.equal(tool("per_group", f"fp6_e{exponent}m{mantissa}").pack(torch.from_numpy(v).float(), True), t)
    s, s64 = exponents(c, n, k // 32)
    c.add(module, {".weight": t, ".weight_scale": s}, v * s64.repeat(32, 1), "BF16", EXACT)


def quark_more_cases():
    mx = {"group_size": 32, "scale_format": "e8m0"}
    for name, reorder in (("quark_integers", True), ("quark_in_order", False)):
        c = Case(name, {"quant_method": "quark", "global_quant_config": quark_spec("uint4", "per_group", group_size=32),
                        "layer_quant_config": {
                            "*.up?proj": quark_spec("fp6_e2m3", "per_group", **mx),
                            "m.[!abc]own_proj": quark_spec("fp6_e3m2", "per_group", **mx),
                            "*.int4_groups": quark_spec("int4", "per_group", group_size=96),
                            "*.int4_row": quark_spec("int4", "per_channel"), "*.uint4_row": quark_spec("uint4", "per_channel"),
                            "*.uint4_one": quark_spec("uint4", "per_tensor"), "*.int8_groups": quark_spec("int8", "per_group", group_size=32),
                            "*.int8_row": {**quark_spec("int8", "per_channel"), "input_tensors": {"dtype": "int8"}},
                            "*.int8_zeros": quark_spec("int8", "per_channel"), "*.int8_one": quark_spec("int8", "per_tensor"),
                            "*.uint8": quark_spec("uint8", "per_channel")},
                        "export": {"pack_method": "reorder" if reorder else "order", "weight_format": "real_quantized"}})
        quark_integers(c, "m.uint4_groups", 24, 288, "uint4", "per_group", "Q4_1", ZERO, False, 32, reorder)
        quark_integers(c, "m.int4_groups", 24, 288, "int4", "per_group", "Q4_0", HALF, True, 96, reorder)
        quark_integers(c, "m.int4_row", 16, 64, "int4", "per_channel", "Q4_0", HALF, True, None, reorder)
        quark_integers(c, "m.uint4_row", 16, 64, "uint4", "per_channel", "Q4_1", ZERO, False, None, reorder)
        quark_integers(c, "m.uint4_one", 16, 64, "uint4", "per_tensor", "Q4_1", ZERO, False, None, reorder)
        if reorder:
            quark_integers(c, "m.int8_groups", 24, 96, "int8", "per_group", "Q8_0", HALF, True, 32)
            quark_integers(c, "m.int8_row", 24, 96, "int8", "per_channel", "INT8", EXACT)
            quark_integers(c, "m.int8_zeros", 24, 96, "int8", "per_channel", "BF16", BF16, False)
            quark_integers(c, "m.int8_one", 24, 96, "int8", "per_tensor", "Q8_0", HALF)
            quark_integers(c, "m.uint8", 24, 96, "uint8", "per_channel", "BF16", BF16, False)
            quark_fp6(c, "m.up_proj", 24, 320, 2, 3)
            quark_fp6(c, "m.down_proj", 24, 320, 3, 2)
        c.write()


# ---- bitsandbytes, TorchAO ----

def bnb_cases():
    import bitsandbytes as bnb
    import bitsandbytes.functional as F

    def config(kind, double, bits=4):
        return {"quant_method": "bitsandbytes", "load_in_4bit": bits == 4, "load_in_8bit": bits == 8,
                "_load_in_4bit": bits == 4, "_load_in_8bit": bits == 8, "bnb_4bit_quant_type": kind,
                "bnb_4bit_use_double_quant": double, "bnb_4bit_compute_dtype": "bfloat16",
                "bnb_4bit_quant_storage": "uint8", "llm_int8_threshold": 6.0, "llm_int8_skip_modules": ["lm_head"],
                "llm_int8_has_fp16_weight": False, "llm_int8_enable_fp32_cpu_offload": False}

    for kind in ("nf4", "fp4"):
        for double in (False, True):
            c = Case(f"bnb_{kind}" + ("_double" if double else ""), config(kind, double))
            for module, n, k, expect in (("m.a", 72, 288, "Q8_0"), ("m.straddle", 9, 96, "Q8_0"), ("m.odd", 7, 33, "BF16")):
                w = torch.from_numpy(c.rng.normal(0, 0.1, (n, k)).astype(np.float32))
                q, state = F.quantize_4bit(w, quant_type=kind, compress_statistics=double, quant_storage=torch.uint8)
                t = {".weight": q}
                t.update({".weight." + name: x for name, x in state.as_dict(packed=True).items()})
                c.add(module, t, F.dequantize_4bit(q, state).numpy(), expect, Q8 if expect == "Q8_0" else BF16)
            c.plain("lm_head", 8, 32)
            c.write()
    c = Case("bnb_int8", config("fp4", False, 8))
    for module, n, k, expect in (("m.a", 40, 96, "Q8_0"), ("m.odd", 7, 33, "INT8")):
        w = torch.from_numpy(c.rng.normal(0, 0.1, (n, k)).astype(np.float16))
        q, scb, _ = F.int8_vectorwise_quant(w)
        c.add(module, {".weight": q, ".SCB": scb, ".weight_format": torch.tensor(0, dtype=torch.uint8)},
              q.double().numpy() * scb.double().numpy()[:, None] / 127, expect, HALF if expect == "Q8_0" else EXACT)
    c.write()
    tools.add("bitsandbytes " + bnb.__version__)


def torchao_cases():
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    from torchao.quantization import Float8WeightOnlyConfig, Int8WeightOnlyConfig, quantize_

    def config(kind, **data):
        return {"quant_method": "torchao", "quant_type": {"default": {"_type": kind, "_version": 2, "_data": data}},
                "modules_to_not_convert": ["lm_head"], "include_input_output_embeddings": False,
                "untie_embedding_weights": False}

    for name, kind, make, expect, bound in (
            ("torchao_int8", "Int8WeightOnlyConfig", Int8WeightOnlyConfig(version=2), "Q8_0", HALF),
            ("torchao_float8", "Float8WeightOnlyConfig", Float8WeightOnlyConfig(version=2), "BF16", BF16)):
        c = Case(name, config(kind, group_size=None))
        for module, n, k, e, b in (("m.a", 40, 96, expect, bound), ("m.odd", 9, 33, "INT8" if expect == "Q8_0" else expect,
                                                                    EXACT if expect == "Q8_0" else bound)):
            linear = torch.nn.Linear(k, n, bias=False)
            with torch.no_grad():
                linear.weight.copy_(torch.from_numpy(c.rng.normal(0, 0.1, (n, k)).astype(np.float32)))
            quantize_(linear, make)
            t, _ = flatten_tensor_state_dict({module + ".weight": linear.weight})
            c.add(module, {x[len(module):]: v for x, v in t.items()}, linear.weight.dequantize().detach().numpy(), e, b)
        c.plain("lm_head", 8, 32)
        c.write()
    tools.add("torchao")


# ---- HQQ ----

def hqq_config(nbits, group, axis=1):
    return {"weight_quant_params": {"nbits": nbits, "channel_wise": True, "group_size": group, "optimize": True,
                                    "round_zero": nbits == 4, "axis": axis, "view_as_float": False},
            "scale_quant_params": None, "zero_quant_params": None, "offload_meta": False}


def hqq_codes(w_q, packing):
    """Unpack codes by the format's description: of S lines, line i holds rows i, S + i, ..., the first in
    the highest bits."""
    bits = int(packing[0])
    per = 10 if bits == 3 else 8 // bits
    words = w_q.view(torch.int32 if bits == 3 else torch.uint8).numpy().astype(np.int64)
    return np.concatenate([words >> bits * (per - 1 - i) & (1 << bits) - 1 for i in range(per)])


def hqq_tensors(w, nbits, group, axis, dtype=torch.float16, **more):
    """Quantize a matrix with hqq; return the tensors, and their values by the description and by hqq."""
    from hqq.core.quantize import BaseQuantizeConfig, HQQLinear

    n, k = w.shape
    linear = torch.nn.Linear(k, n, bias=False)
    linear.weight.data = torch.from_numpy(np.ascontiguousarray(w)).float()
    config = BaseQuantizeConfig(nbits=nbits, group_size=group, axis=axis, **more)
    layer = HQQLinear(linear, quant_config=config, compute_dtype=dtype, device="cpu")
    t = {"." + name: x.data if isinstance(x, torch.nn.Parameter) else x
         for name, x in layer.state_dict().items() if x is not None}
    q = hqq_codes(t[".W_q"], bytes(t[".packing"].tolist()).decode())
    groups = n * k // (group or (k if axis == 1 else n))
    rows = groups if axis == 1 else n * k // groups
    value = (q[:rows] - t[".zero"].double().numpy()) * t[".scale"].double().numpy()
    return t, value.reshape(n, k), layer.dequantize().detach().double().numpy()


def hqq(c, module, n, k, nbits, group, axis, expect, bound, **more):
    t, w, got = hqq_tensors(c.rng.normal(0, 0.1, (n, k)), nbits, group, axis, **more)
    assert np.abs(got - w).max() <= 1e-2 * np.abs(w).max(), (module, np.abs(got - w).max())
    c.add(module, t, w, expect, bound)
    tools.add("hqq")


def hqq_cases():
    config = hqq_config

    c = Case("hqq", {"quant_method": "hqq", "quant_config": config(4, 64), "skip_modules": ["lm_head"]})
    hqq(c, "m.a", 72, 128, 4, 64, 1, "Q4_1", ZERO)
    hqq(c, "m.bf16", 16, 128, 4, 64, 1, "Q4_1", 2 * ZERO, dtype=torch.bfloat16)
    hqq(c, "m.floats", 16, 64, 4, 64, 1, "Q4_1", ZERO, view_as_float=True)
    hqq(c, "m.row", 16, 64, 4, None, 1, "Q4_1", ZERO)
    hqq(c, "m.across", 40, 96, 4, 64, 1, "Q8_0", Q8)
    hqq(c, "m.odd", 24, 40, 4, 8, 1, "BF16", BF16)
    c.plain("lm_head", 8, 64)
    c.write()
    c = Case("hqq_bits", {"quant_method": "hqq", "skip_modules": ["lm_head"], "quant_config": {
        "mlp.eight": config(8, 64), "mlp.three": config(3, 64), "mlp.two": config(2, 32)}})
    hqq(c, "m.eight", 24, 128, 8, 64, 1, "BF16", BF16)
    hqq(c, "m.six", 24, 128, 6, 64, 1, "BF16", BF16)
    hqq(c, "m.three", 24, 192, 3, 64, 1, "Q4_1", ZERO)
    hqq(c, "m.small", 7, 96, 3, 32, 1, "Q4_1", ZERO)
    hqq(c, "m.two", 32, 320, 2, 32, 1, "Q4_1", ZERO)
    hqq(c, "m.ternary", 32, 64, 1.58, 64, 1, "Q4_1", ZERO)
    # with one bit, a code may lie next to its zero point, and a block may have only one code
    hqq(c, "m.one", 32, 128, 1, 64, 1, "Q4_1", 2.0 ** -4)
    c.write()
    c = Case("hqq_axis0", {"quant_method": "hqq", "skip_modules": [], "quant_config": config(4, 64, 0)})
    hqq(c, "m.a", 64, 288, 4, 64, 0, "Q8_0", Q8)
    hqq(c, "m.across", 24, 96, 4, 64, 0, "Q8_0", Q8)
    hqq(c, "m.three", 40, 96, 3, 16, 0, "Q8_0", Q8)
    hqq(c, "m.floats", 40, 96, 3, 16, 0, "Q8_0", Q8, view_as_float=True)
    hqq(c, "m.two", 16, 64, 2, 16, 0, "Q8_0", Q8)
    hqq(c, "m.one", 16, 64, 1, 64, 0, "Q8_0", Q8)
    hqq(c, "m.eight", 16, 48, 8, 16, 0, "BF16", BF16)
    hqq(c, "m.column", 32, 48, 4, None, 0, "BF16", BF16)
    c.write()


CASES = {"gptq": gptq_cases, "awq": awq_cases, "autoround": autoround_cases, "compressed": compressed_cases,
         "fp8": fp8_cases, "mxfp4": mxfp4_cases, "modelopt": modelopt_cases, "quark": quark_cases, "quark_more": quark_more_cases, "bnb": bnb_cases,
         "torchao": torchao_cases, "hqq": hqq_cases}


def main():
    torch.set_num_threads(1)
    with fixtures.repacked("ckpt"):
        for name in sys.argv[1:] or CASES:
            CASES[name]()
    print("tools:", ", ".join(sorted(tools)) or "none")


if __name__ == "__main__":
    main()
