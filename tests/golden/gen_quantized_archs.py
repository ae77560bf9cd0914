#!/usr/bin/env python3
"""Make tiny quantized models of several architectures, as gen_quantized.py makes Llamas.

    gen_quantized_archs.py [name ...]       run in the repository's root

Needs what gen_quantized.py needs, and hqq.  Transformers draws and saves a model, so that its tensors
have the names that checkpoints have.  The script quantizes some of them, and loads the values that they
stand for as the reference.
"""
import json
import os
import re
import shutil
import sys
import tempfile

import gguf
import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fixtures  # noqa: E402
import gen_archs as ga  # noqa: E402
import gen_ckpt as gc  # noqa: E402
import gen_models as gm  # noqa: E402
import gen_quantized as gq  # noqa: E402


# ---- methods ----

def gptq(w, rng, name):
    bits = 8 if name == "lm_head" else 4
    q, s, z, v = gq.affine(w, 32, bits, True, torch.float16)
    return {".qweight": gc.i32(gc.pack_bits(q, bits).T), ".qzeros": gc.i32(gc.pack_bits(z.T - 1, bits)), ".scales": s.T,
            ".g_idx": torch.arange(w.shape[1], dtype=torch.int32) // 32}, v


def marlin(w, rng, name):
    q, s, z, v = gq.affine(w, 128, 4, True, torch.float16)
    return {".B": gc.i32(gc.marlin_words(q)), ".s": gc.marlin_scales(s, w.shape[1] // 128)}, v


def hqq(w, rng, name):
    t, v, _ = gc.hqq_tensors(w, 4, 64, 1)
    return t, v


def fp8_together(stored, tensors, values):
    """Store all experts in one tensor, with a scale for each block of 16 x 32."""
    for name in [x for x in stored if x.endswith("experts.0.gate_proj.weight")]:
        stem = name.removesuffix("0.gate_proj.weight")
        n = len([x for x in stored if x.startswith(stem) and x.endswith("gate_proj.weight")])
        for target, parts in (("gate_up_proj", ("gate_proj", "up_proj")), ("down_proj", ("down_proj",))):
            names = [[f"{stem}{i}.{p}.weight" for p in parts] for i in range(n)]
            w = torch.stack([torch.cat([stored[x].double() for x in e]) for e in names])
            blocks = w.unflatten(2, (-1, 32)).unflatten(1, (-1, 16))
            s = (blocks.abs().amax((2, 4), keepdim=True) / 448).float()
            q = (blocks / s).to(torch.float8_e4m3fn)
            tensors[stem + target] = q.reshape(w.shape)
            tensors[stem + target + "_scale_inv"] = s.reshape(n, s.shape[1], s.shape[3])
            v = torch.from_numpy(gq.bf16((q.double() * s.double()).reshape(w.shape).numpy())).float()
            for i, e in enumerate(names):
                for x, part in zip(e, v[i].chunk(len(e))):
                    tensors.pop(x)
                    values[x] = part.contiguous()


# ---- models ----

SMALL = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             head_dim=16, tie_word_embeddings=False)
# Every token uses all experts.  Other tests check the choice of experts, and a rounding may change it.
MOE = dict(num_experts_per_tok=4, norm_topk_prob=True, moe_intermediate_size=64)
QWEN3_MOE = dict(SMALL, model_type="qwen3_moe", num_experts=4, **MOE)
QWEN3_MOE["tie_word_embeddings"] = True
MLA = dict(SMALL, num_key_value_heads=4, head_dim=..., kv_lora_rank=64, qk_nope_head_dim=16, qk_rope_head_dim=8,
           v_head_dim=16, q_lora_rank=32, n_routed_experts=4, first_k_dense_replace=1, n_shared_experts=1,
           routed_scaling_factor=1.5, **MOE)
GPT2 = dict(hidden_size=..., num_hidden_layers=..., num_attention_heads=..., max_position_embeddings=...,
            intermediate_size=..., num_key_value_heads=..., n_embd=64, n_layer=2, n_head=4, n_positions=128)
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": True, "desc_act": False}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}
LAYERS = r"\.layers\..*(proj|proj_with_mqa|\.w\d)$"

# layers: modules that are quantized, LAYERS by default; left: those of them that stay as they are; rounded:
# suffix and rounding function of an expected result with rounded inputs, if all quantized matrices hold
# their values; exact: suffix of an expected result for kernels that keep matrices unconverted, and the
# method that gives these values
MODELS = {
    "quant_qwen3_moe_gptq": dict(config=QWEN3_MOE, method=gptq, quantization=dict(GPTQ, dynamic={"-:.*mlp\\.gate$": {}}),
                                 rounded=("_int8", gm.int8)),
    "quant_qwen3_moe_ct": dict(config=dict(QWEN3_MOE, mlp_only_layers=[0]), method=gq.ct_w4a16,
                               quantization=gc.ct([gc.ct_config()], ignore=[
                                   "lm_head", "re:.*mlp.gate$", "model.layers.1.self_attn.o_proj"]),
                               left=r"layers\.1\.self_attn\.o_proj", rounded=("_int8", gm.int8)),
    "quant_mixtral_awq": dict(config=dict(SMALL, model_type="mixtral", num_local_experts=4, num_experts_per_tok=4),
                              method=gq.awq, left=r"layers\.0\.self_attn\.k_proj", quantization=dict(
                                  AWQ, modules_to_not_convert=["gate", "layers.0.self_attn.k_proj"])),
    "quant_qwen3_moe_fp8": dict(config=QWEN3_MOE, method=gq.fp8, left=r"layers\.1\.self_attn\.q_proj", quantization={
        "quant_method": "fp8", "weight_block_size": [24, 40], "modules_to_not_convert": [
            "lm_head", "model.layers.1.self_attn.q_proj"]}),
    "quant_qwen3_moe_fp8_together": dict(config=QWEN3_MOE, method=gq.fp8, left="self_attn", together=fp8_together,
                                         quantization={"quant_method": "fp8", "weight_block_size": [16, 32],
                                                       "modules_to_not_convert": ["lm_head", "self_attn"]}),
    "quant_deepseek3_fp8": dict(config=dict(MLA, model_type="deepseek_v3", n_group=2, topk_group=2), method=gq.fp8,
                                quantization={"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [24, 40],
                                              "activation_scheme": "dynamic"}, exact=("_fp8", gq.fp8_exact)),
    "quant_deepseek2_awq": dict(config=dict(MLA, model_type="deepseek_v2", topk_method="greedy", norm_topk_prob=...,
                                            tie_word_embeddings=True), method=gq.awq,
                                quantization=AWQ),
    "quant_gptq_head": dict(config=dict(SMALL, model_type="qwen3", intermediate_size=192), method=gptq, layers=LAYERS + "|^lm_head$",
                            quantization=dict(GPTQ, lm_head=True, dynamic={"lm_head": {"bits": 8}}),
                            rounded=("_int8", gm.int8)),
    "quant_marlin": dict(config=dict(SMALL, model_type="llama", hidden_size=128, intermediate_size=256, head_dim=32),
                         method=marlin, quantization=dict(GPTQ, group_size=128, is_marlin_format=True),
                         rounded=("_int8", gm.int8)),
    "quant_hqq": dict(config=dict(SMALL, model_type="llama", intermediate_size=192, tie_word_embeddings=True), method=hqq,
                      left=r"layers\.1\.self_attn\.k_proj", quantization={
                          "quant_method": "hqq", "skip_modules": ["lm_head", "layers.1.self_attn.k_proj"],
                          "quant_config": gc.hqq_config(4, 64)}),
    "quant_gpt2_gptq": dict(config=dict(GPT2, model_type="gpt2", n_inner=256), method=gptq,
                            quantization=GPTQ, layers=r"h\.\d+\..*(c_attn|c_proj|c_fc)$", turned=True),
}


class RoundedWeights:
    """While active, the inputs of quantized weights are rounded as the engine rounds them."""

    def __init__(self, model, modules, rounding):
        self.storages = {p.untyped_storage().data_ptr() for n, p in model.named_parameters()
                         if n.removesuffix(".weight") in modules or ".experts." in n}
        self.rounding = rounding
        self.linear = torch.nn.functional.linear

    def __enter__(self):
        torch.nn.functional.linear = lambda x, w, b=None: self.linear(
            self.rounding(x) if w.untyped_storage().data_ptr() in self.storages else x, w, b)

    def __exit__(self, *args):
        torch.nn.functional.linear = self.linear


def quantize(a, stored, rng):
    """Return the checkpoint's tensors, the values that they stand for, and the names of the quantized
    modules."""
    tensors, values, modules = {}, {}, set()
    for name, t in sorted(stored.items()):
        module = name.removesuffix(".weight")
        left = not re.search(a.get("layers", LAYERS), module) or ("left" in a and re.search(a["left"], module))
        tensors[name], values[name] = t, t.float()
        if not name.endswith(".weight") or t.ndim != 2 or left or ("together" in a and ".experts." in name):
            continue
        w = t.double().numpy()
        new, value = a["method"](w.T if a.get("turned") else w, rng, module)
        value = torch.from_numpy(np.ascontiguousarray(value.T if a.get("turned") else value)).float()
        modules.add(module)
        del tensors[name]
        tensors.update({module + k: v.contiguous() for k, v in new.items()})
        values[name] = value
    if "together" in a:
        a["together"](stored, tensors, values)
    return tensors, values, modules


def draw(a, config, seed):
    """Return the reference, the checkpoint's tensors and configuration, the quantized modules, and a
    prompt."""
    with tempfile.TemporaryDirectory() as tmp:
        file = os.path.join(tmp, "model.safetensors")
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager")
        ga.draw(model, seed, 1.3, 1)
        model.half().save_pretrained(tmp)
        rng = np.random.default_rng(seed)
        tensors, values, modules = quantize(a, load_file(file), rng)
        save_file(values, file, metadata={"format": "pt"})
        model = gm.load(tmp)
        with open(os.path.join(tmp, "config.json")) as f:
            d = json.load(f)
    model.config._experts_implementation = "eager"
    return model, tensors, d, modules, [gm.BOS] + [int(x) for x in rng.integers(3, gm.VOCAB, gm.N_PROMPT - 1)]


def make(name):
    a = MODELS[name]
    path = os.path.join(gm.FIXTURES, name)
    config = ga.config_of(a)
    for seed in range(1, 200):
        model, tensors, d, modules, prompt = draw(a, config, seed)
        tokens, margin = gm.greedy(model, prompt)
        if margin > gm.MARGIN and len(set(tokens)) >= 12:
            break
    else:
        raise SystemExit(f"{name}: no seed gives usable greedy tokens")
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    save_file(tensors, os.path.join(path, "model.safetensors"), metadata={"format": "pt"})
    d["quantization_config"] = a["quantization"]
    with open(os.path.join(path, "config.json"), "w") as f:
        json.dump(d, f, indent=1)
        f.write("\n")
    gm.write_tokenizer(path, "qwen2")
    logits = gm.logits_of(model, prompt)
    gm.write_expected(name, prompt, tokens, logits)
    if "rounded" in a:
        with RoundedWeights(model, modules, a["rounded"][1]):
            rounded, _ = gm.greedy(model, prompt)
            gm.write_expected(name + a["rounded"][0], prompt, rounded, gm.logits_of(model, prompt), list(range(8)))
    if "exact" in a:
        model = draw(dict(a, method=a["exact"][1]), config, seed)[0]
        exact, at = gm.greedy(model, prompt)
        assert at > gm.MARGIN, name
        gm.write_expected(name + a["exact"][0], prompt, exact, gm.logits_of(model, prompt))
    print(f"{name}: seed {seed}, margin {margin:.4f}, {len(set(tokens))} distinct tokens, {len(modules)} modules, "
          f"|logits| {np.abs(logits).mean():.2f}", flush=True)


# ---- NVFP4 in GGUF ----

NVFP4 = gguf.GGMLQuantizationType.NVFP4


def pack_nvfp4(a):
    """Pack rows of blocks of 64: 4 scales without sign, then codes, the low nibbles of 8 bytes first."""
    n, k = a.shape
    g = a.reshape(n, k // 16, 16)
    s = torch.from_numpy(np.abs(g).max(-1) / 6).to(torch.float8_e4m3fn)
    q = np.abs((g / s.double().numpy()[..., None])[..., None] - gc.E2M1).argmin(-1).astype(np.uint8)
    packed = (q[..., :8] | q[..., 8:] << 4).reshape(n, k // 64, 32)
    return np.concatenate([s.view(torch.uint8).numpy().reshape(n, k // 64, 4), packed], axis=-1).reshape(n, k // 64 * 36)


def nvfp4(state):
    """Return blocks of the layers' matrices, and the factors of all; set state to the values that they
    stand for."""
    data, factors = {}, {}
    for name, t in state.items():
        heads = 4 if name.endswith("q_proj.weight") else 2 if name.endswith("k_proj.weight") else 0
        if ".layers." not in name or t.ndim != 2:
            continue
        factor = np.float32(t.abs().max() / 448 / 6)
        a = t.double().numpy() / factor
        data[name] = pack_nvfp4(gm.permute(a, heads) if heads else a)
        factors[name] = factor
        back = gguf.quants.dequantize(data[name], NVFP4).astype(np.float64) * factor
        if heads:
            back = back.reshape(heads, back.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(back.shape)
        state[name] = torch.from_numpy(np.ascontiguousarray(back)).float()
    return data, factors


def make_nvfp4(name):
    config = LlamaConfig(vocab_size=gm.VOCAB, hidden_size=64, intermediate_size=192, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
                         bos_token_id=gm.BOS, eos_token_id=gm.EOS, pad_token_id=gm.PAD, dtype="float16",
                         tie_word_embeddings=True)
    for seed in range(1, 200):
        model = LlamaForCausalLM(config).float().eval()
        ga.draw(model, seed, 1.3, 1)
        state = {k: v.half().float() for k, v in model.state_dict().items()}
        data, factors = nvfp4(state)
        model.load_state_dict(state)
        prompt = [gm.BOS] + [int(x) for x in np.random.default_rng(seed).integers(3, gm.VOCAB, gm.N_PROMPT - 1)]
        tokens, margin = gm.greedy(model, prompt)
        if margin > gm.MARGIN and len(set(tokens)) >= 12:
            break
    out = ga.Gguf(os.path.join(gm.FIXTURES, name + ".gguf"), "llama", config, "F16")
    out.keys(config, add_bos=True)
    out.usual(config)
    out.out.add_rope_dimension_count(16)
    for k, v in state.items():
        if k not in data:
            if k != "lm_head.weight":
                out.tensor(k, v)
            continue
        stem = out.names.get_name(k.removesuffix(".weight"))
        out.out.add_tensor(stem + ".weight", data[k], raw_dtype=NVFP4)
        out.out.add_tensor(stem + ".scale", np.array([factors[k]], dtype=np.float32))
        out.out.add_tensor(stem + ".input_scale", np.array([0.1], dtype=np.float32))
    out.close()
    logits = gm.logits_of(model, prompt)
    gm.write_expected(name, prompt, tokens, logits)
    print(f"{name}: seed {seed}, margin {margin:.4f}, |logits| {np.abs(logits).mean():.2f}", flush=True)


def main():
    torch.set_num_threads(1)
    with fixtures.repacked("models"):
        for name in sys.argv[1:] or [*MODELS, "quant_nvfp4_gguf"]:
            (make if name in MODELS else make_nvfp4)(name)


if __name__ == "__main__":
    main()
