#!/usr/bin/env python3
"""Make tiny quantized models, and record what Hugging Face transformers computes with them dequantized.

    gen_quantized.py [name ...]     run in the repository's root

Needs torch, transformers, safetensors, tokenizers, gguf and, for some, compressed-tensors, bitsandbytes and
torchao.  For each model of MODELS it draws a Llama, quantizes its layers, and writes

    build/fixtures/models/NAME/             the checkpoint
    tests/golden/models_expected/NAME.bin   logits and greedy tokens of the dequantized model

and, if all its matrices hold their values exactly, NAME_int8.bin or NAME_bf16.bin, for which the matrices'
inputs are rounded as the engine rounds them: with these the engine agrees to the last digits.
NAME_dynamic.bin and NAME_static.bin are the same for these values of the option activation_scheme, rounded
by compressed-tensors.  It packs the folder into tests/fixtures/models.tar.xz (fixtures.py).

gen_ckpt.py tests the values of single matrices, and this script uses its packing.  Here whole
checkpoints are loaded, with modules that are left out and configurations in the files where tools put them.
"""
import contextlib
import json
import os
import shutil
import sys

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fixtures  # noqa: E402
import gen_archs as ga  # noqa: E402
import gen_ckpt as gc  # noqa: E402
import gen_models as gm  # noqa: E402

HIDDEN, INTER = 64, 192


def affine(w, size, bits, symmetric, dtype):
    """Quantize to codes [n][k], scales and zero points [n][k / size]."""
    n, k = w.shape
    g = w.reshape(n, k // size, size)
    top = (1 << bits) - 1
    if symmetric:
        s = np.abs(g).max(-1) / (top // 2)
        z = np.full(s.shape, 1 << (bits - 1))
    else:
        s = (np.maximum(g.max(-1), 0) - np.minimum(g.min(-1), 0)) / top
        z = None
    s = torch.from_numpy(s).to(dtype)
    s64 = s.double().numpy()
    if z is None:
        z = np.clip(np.rint(-np.minimum(g.min(-1), 0) / s64), 1, top)
    q = np.clip(np.rint(g / s64[..., None]) + z[..., None], 0, top)
    return q.reshape(n, k).astype(np.int64), s, z.astype(np.int64), ((q - z[..., None]) * s64[..., None]).reshape(n, k)


def gptq(w, rng, name):
    """Quantize to 4 bits, with columns in another order; down_proj to 8 bits, in order."""
    bits = 8 if "down_proj" in name else 4
    n, k = w.shape
    order = np.arange(k) if bits == 8 else rng.permutation(k)
    q, s, z, v = affine(w[:, order], 32, bits, True, torch.float16)
    back = np.argsort(order)
    return {".qweight": gc.i32(gc.pack_bits(q[:, back], bits).T), ".qzeros": gc.i32(gc.pack_bits(z.T - 1, bits)),
            ".scales": s.T, ".g_idx": torch.from_numpy((np.arange(k) // 32)[back].astype(np.int32))}, v[:, back]


def gptq3(w, rng, name):
    q, s, z, v = affine(w, 32, 3, False, torch.float16)
    return {".qweight": gc.i32(gc.pack_bits(q, 3).T), ".qzeros": gc.i32(gc.pack_bits(z.T, 3)), ".scales": s.T,
            ".g_idx": torch.arange(w.shape[1], dtype=torch.int32) // 32}, v


def awq(w, rng, name):
    q, s, z, v = affine(w, 32, 4, False, torch.float16)
    return {".qweight": gc.i32(gc.awq_pack(q.T)), ".qzeros": gc.i32(gc.awq_pack(z.T)), ".scales": s.T}, v


def ct_w4a16(w, rng, name):
    q, s, z, v = affine(w, 32, 4, True, torch.bfloat16)
    return {".weight_packed": gc.i32(gc.pack_bits(q, 4)), ".weight_scale": s,
            ".weight_shape": torch.tensor(w.shape)}, v


def ct_w8a8(w, rng, name):
    q, s, z, v = affine(w, w.shape[1], 8, True, torch.bfloat16)
    return {".weight": torch.from_numpy((q - 128).astype(np.int8)), ".weight_scale": s}, v


def to_f8(x):
    return torch.from_numpy(x).to(torch.float8_e4m3fn)


def bf16(v):
    """Return the values that a BF16 matrix holds."""
    return torch.from_numpy(v).to(torch.bfloat16).double().numpy()


def fp8_exact(w, rng, name):
    """Like fp8(), but if a row has one scale, its codes stay FP8 in kernels/ref."""
    n, k = w.shape
    s = np.array([[np.abs(w[i:i + 24, j:j + 40]).max() / 448 for j in range(0, k, 40)] for i in range(0, n, 24)])
    s = torch.from_numpy(s).float()
    full = s.double().numpy().repeat(24, 0)[:n].repeat(40, 1)[:, :k]
    q = to_f8(w / full)
    v = q.double().numpy() * full
    return {".weight": q, ".weight_scale_inv": s}, v if k <= 40 else bf16(v)


def fp8(w, rng, name):
    t, v = fp8_exact(w, rng, name)
    return t, bf16(v)


def fp4(w, size, scales):
    """Return the nearest E2M1 codes, packed, and their values."""
    full = scales.repeat(size, 1)
    q = np.abs((w / full)[..., None] - gc.E2M1).argmin(-1)
    return torch.from_numpy((q[:, 0::2] | q[:, 1::2] << 4).astype(np.uint8)), gc.E2M1[q] * full


def quark(w, rng, name):
    if name.endswith(("k_proj", "v_proj")):
        s = torch.tensor(np.abs(w).max() / 448).float()
        q = to_f8(w / s.item())
        return {".weight": q, ".weight_scale": s, ".input_scale": torch.tensor(0.1)}, bf16(q.double().numpy() * s.item())
    e = np.ceil(np.log2(np.abs(w.reshape(w.shape[0], -1, 32)).max(-1) / 6))
    q, v = fp4(w, 32, 2.0 ** e)
    return {".weight": q, ".weight_scale": torch.from_numpy((e + 127).astype(np.uint8))}, v


def nvfp4(w, rng, name):
    top = np.float32(np.abs(w).max() / 6 / 448)
    s = torch.from_numpy(np.abs(w.reshape(w.shape[0], -1, 16)).max(-1) / 6 / top).to(torch.float8_e4m3fn)
    q, v = fp4(w, 16, s.double().numpy() * top)
    t = {".weight": q, ".weight_scale": s, ".weight_scale_2": torch.tensor(top), ".input_scale": torch.tensor(0.1)}
    if name.endswith(("k_proj", "v_proj")):
        t["." + name[-6] + "_scale"] = torch.tensor(0.05)
    return t, v


def nf4(w, rng, name):
    import bitsandbytes.functional as F

    q, state = F.quantize_4bit(torch.from_numpy(w).float(), quant_type="nf4", compress_statistics=True)
    t = {".weight." + k: v for k, v in state.as_dict(packed=True).items()}
    return {".weight": q, **t}, F.dequantize_4bit(q, state).double().numpy()


def torchao(w, rng, name):
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    linear = torch.nn.Linear(w.shape[1], w.shape[0], bias=False)
    with torch.no_grad():
        linear.weight.copy_(torch.from_numpy(w))
    quantize_(linear, Int8WeightOnlyConfig(version=2))
    t, _ = flatten_tensor_state_dict({"x.weight": linear.weight})
    return {k[1:]: v for k, v in t.items()}, linear.weight.dequantize().detach().double().numpy()


# Inputs of attention are rounded symmetrically, those of the MLP with a zero point.
STATIC = {name: {"num_bits": 8, "type": "int", "symmetric": name == "self_attn", "strategy": "tensor", "dynamic": False}
          for name in ("self_attn", "mlp")}
QUARK_MX = {"weight": {"dtype": "fp4", "qscheme": "per_group", "ch_axis": -1, "group_size": 32, "scale_format": "e8m0"}}
MODELS = {
    "quant_gptq": (gptq, {"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": True, "desc_act": True,
                          "dynamic": {".*down_proj": {"bits": 8}, "-:.*layers\\.1\\.self_attn\\.o_proj": {}}}),
    "quant_gptq_3bit": (gptq3, {"quant_method": "gptq", "bits": 3, "group_size": 32, "sym": False, "desc_act": False,
                                "checkpoint_format": "gptq_v2"}),
    "quant_awq": (awq, {"zero_point": True, "q_group_size": 32, "w_bit": 4, "version": "GEMM"}),
    "quant_ct_w4a16": (ct_w4a16, gc.ct([gc.ct_config()])),
    "quant_ct_w8a8": (ct_w8a8, gc.ct([gc.ct_config(
        weights={"num_bits": 8, "strategy": "channel", "group_size": None}, input_activations=gc.INT8_ACTS)],
        "int-quantized")),
    "quant_ct_static": (ct_w8a8, gc.ct([gc.ct_config(
        targets=[f"re:.*{name}.*"], weights={"num_bits": 8, "strategy": "channel", "group_size": None},
        input_activations=acts) for name, acts in STATIC.items()], "int-quantized")),
    "quant_fp8": (fp8, {"quant_method": "fp8", "weight_block_size": [24, 40], "activation_scheme": "dynamic"}),
    "quant_quark": (quark, {"quant_method": "quark", "global_quant_config": {
        "weight": {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}}, "layer_quant_config": {
            "*mlp*": QUARK_MX, "*q_proj": QUARK_MX, "*o_proj": QUARK_MX}}),
    "quant_nvfp4": (nvfp4, {"producer": {"name": "modelopt", "version": "0.29.0"}, "quantization": {
        "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["lm_head"]}}),
    "quant_nf4": (nf4, {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4",
                        "bnb_4bit_use_double_quant": True, "bnb_4bit_quant_storage": "uint8"}),
    "quant_torchao": (torchao, {"quant_method": "torchao", "quant_type": {"default": {
        "_type": "Int8WeightOnlyConfig", "_version": 2, "_data": {"group_size": None}}}}),
}
# file of the quantization's configuration, if that is not config.json
FILES = {"quant_awq": "quant_config.json", "quant_nvfp4": "hf_quant_config.json"}


def quantize(model, method, config, rng):
    """Return the checkpoint's tensors; set the model's weights to the values that they stand for."""
    out = {}
    state = model.state_dict()
    for name, t in state.items():
        module = name[:-len(".weight")]
        skip = any(k.startswith("-:") and "layers.1.self_attn.o_proj" in name for k in config.get("dynamic", {}))
        if ".layers." not in name or t.ndim != 2 or skip:
            out[name] = t.half()
            state[name] = t.half().float()
            continue
        tensors, value = method(t.double().numpy(), rng, module)
        out.update({module + k: v.contiguous() for k, v in tensors.items()})
        state[name] = torch.from_numpy(np.ascontiguousarray(value)).float()
    model.load_state_dict(state)
    return out


def int8_groups(a):
    """Round to 0..127 with a scale and a zero point for each 128 values of a row, as INT8 on all
    kernels."""
    out = []
    for x in torch.split(a, 128, -1):
        high = x.amax(-1, keepdim=True).clamp(min=0)
        low = -x.amin(-1, keepdim=True).clamp(max=0)
        part = torch.tensor(1 / 127, dtype=torch.float32)
        scale = high * part + low * part
        inverse = torch.where(scale > 0, 1 / scale, torch.zeros_like(scale))
        zero = torch.round(low * inverse)
        out.append(scale * ((torch.round(x * inverse) + zero).clamp(max=127) - zero))
    return torch.cat(out, -1)


def dynamic(a):
    """Round each row with its scale |max| / 127, as vLLM does.  (compressed-tensors itself takes |max| / 127.5,
    so that the largest code, which would be 128, is cut off.)"""
    from compressed_tensors.quantization import QuantizationArgs
    from compressed_tensors.quantization.lifecycle.forward import fake_quantize

    scale = a.abs().amax(-1, keepdim=True) / 127
    return fake_quantize(a, scale, torch.zeros_like(scale), QuantizationArgs(**gc.INT8_ACTS))


def acts_of(module):
    from compressed_tensors.quantization import QuantizationArgs

    return QuantizationArgs(**STATIC[module.split(".")[-2]])


def static_scales(model, prompt):
    """Return tensors with scales that cut off a fifth of the range; k_proj's isn't that of q_proj and v_proj."""
    from compressed_tensors.quantization.utils import calculate_qparams

    out = {}

    def look(module, a):
        args = acts_of(module)
        scale, zero = calculate_qparams(a.amin().reshape(1) * 0.8, a.amax().reshape(1) * 0.8, args)
        out[module + ".input_scale"] = scale * (1.25 if "k_proj" in module else 1)
        if not args.symmetric:
            out[module + ".input_zero_point"] = zero.to(torch.int8)

    with hooked(model, look):
        gm.logits_of(model, prompt)
    return out


@contextlib.contextmanager
def hooked(model, fn):
    """Let fn see the inputs of quantized matrices, and replace them by what it returns."""
    hooks = [m.register_forward_pre_hook(lambda _, args, n=n: fn(n, args[0]))
             for n, m in model.named_modules() if isinstance(m, torch.nn.Linear) and n != "lm_head"]
    yield
    for h in hooks:
        h.remove()


# Expected results with inputs rounded as the engine rounds them, for models whose quantized matrices all
# hold their values exactly.
ROUNDED = {"quant_ct_w4a16": {"_int8": gm.int8}, "quant_gptq_3bit": {"_int8": gm.int8},
           "quant_ct_w8a8": {"_int8": int8_groups, "_dynamic": dynamic}, "quant_fp8": {"_bf16": gm.bf16}}


def write_rounded(name, suffix, model, prompt, rounding):
    with hooked(model, rounding):
        tokens, _ = gm.greedy(model, prompt)
        gm.write_expected(name + suffix, prompt, tokens, gm.logits_of(model, prompt), list(range(8)))


def write_static(name, model, prompt, tensors):
    from compressed_tensors.quantization.lifecycle.forward import fake_quantize

    write_rounded(name, "_static", model, prompt, lambda module, a: fake_quantize(
        a, tensors[module + ".input_scale"], tensors.get(module + ".input_zero_point"), acts_of(module)))


def make(name):
    method, quantization = MODELS[name]
    path = os.path.join(gm.FIXTURES, name)
    config = LlamaConfig(vocab_size=gm.VOCAB, hidden_size=HIDDEN, intermediate_size=INTER, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
                         bos_token_id=gm.BOS, eos_token_id=gm.EOS, pad_token_id=gm.PAD, dtype="float16",
                         tie_word_embeddings=name != "quant_fp8")
    for seed in range(1, 200):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config).float().eval()
        ga.draw(model, seed, 1.3, 1)
        rng = np.random.default_rng(seed)
        tensors = quantize(model, method, quantization, rng)
        prompt = [gm.BOS] + [int(x) for x in rng.integers(3, gm.VOCAB, gm.N_PROMPT - 1)]
        tokens, margin = gm.greedy(model, prompt)
        if margin > gm.MARGIN and len(set(tokens)) >= 12:
            break
    else:
        raise SystemExit(f"{name}: no seed gives usable greedy tokens")
    if name == "quant_ct_static":
        tensors.update(static_scales(model, prompt))
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    if config.tie_word_embeddings:
        tensors.pop("lm_head.weight", None)
    save_file(tensors, os.path.join(path, "model.safetensors"), metadata={"format": "pt"})
    d = config.to_dict()
    d["architectures"] = ["LlamaForCausalLM"]
    d["dtype"] = "float16"
    if name in FILES:
        gm.dump(path, FILES[name], quantization)
    else:
        d["quantization_config"] = quantization
    with open(os.path.join(path, "config.json"), "w") as f:
        json.dump(d, f, indent=1)       # the order of "dynamic" counts
        f.write("\n")
    gm.write_tokenizer(path, "qwen2")
    logits = gm.logits_of(model, prompt)
    gm.write_expected(name, prompt, tokens, logits)
    for suffix, rounding in ROUNDED.get(name, {}).items():
        write_rounded(name, suffix, model, prompt, lambda _, a, fn=rounding: fn(a))
    if name == "quant_ct_static":
        write_static(name, model, prompt, tensors)
    print(f"{name}: seed {seed}, margin {margin:.4f}, {len(set(tokens))} distinct tokens, "
          f"|logits| {np.abs(logits).mean():.2f}", flush=True)


def main():
    torch.set_num_threads(1)
    with fixtures.repacked("models"):
        for name in sys.argv[1:] or MODELS:
            make(name)


if __name__ == "__main__":
    main()
