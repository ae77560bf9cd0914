#!/usr/bin/env python3
"""Make tiny adapters, and record what the Python package peft computes with them.

    gen_lora.py [name ...]          run in the repository's root

Needs torch, transformers, peft, safetensors and gguf, and the models of gen_models.py, gen_archs.py and
gen_quantized.py under build/fixtures/models.  For each adapter of CASES it writes

    build/fixtures/lora/NAME/               adapter_config.json, adapter_model.safetensors, as peft saves them
    tests/golden/lora_expected/NAME.bin     logits (the format of gen_models.py, without greedy tokens)

and packs the folder into tests/fixtures/lora.tar.xz (fixtures.py).  tests/golden/lora_golden.c runs them;
its table lists the other bases that each adapter fits.

The adapters' weights are random; unlike before a training, B is not zero.  For each adapter, the model with
the adapter merged into its weights must agree.  The script dequantizes quantized bases and adds the adapter
in float.
"""
import json
import os
import shutil
import sys

import gguf
import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fixtures  # noqa: E402
import gen_models as gm  # noqa: E402

FIXTURES = "build/fixtures/lora"
EXPECTED = "tests/golden/lora_expected"
ATTN = ["q_proj", "k_proj", "v_proj", "o_proj"]
ALL = ATTN + ["gate_proj", "up_proj", "down_proj"]

# base: a model of the fixtures; dtype: the type of the stored weights; save: also store the whole embedding
# and head that the adapter adds to, as peft does by default; all other keys are peft's
CASES = {
    "llama_all": dict(base="llama_f32", r=8, lora_alpha=16, target_modules=ALL),
    "llama_rslora": dict(base="llama_f32", r=16, lora_alpha=8, use_rslora=True, target_modules=["q_proj", "v_proj"],
                         dtype=torch.bfloat16),
    "llama_patterns": dict(base="llama_f32", r=4, lora_alpha=4, target_modules=ALL, dtype=torch.float16,
                           rank_pattern={"v_proj": 7, "layers.1.mlp.down_proj": 3}, alpha_pattern={"layers.0.self_attn.q_proj": 9, "up_proj": 2},
                           layers_to_transform=[1]),
    "llama_ends": dict(base="llama_f32", r=5, lora_alpha=10, target_modules=["embed_tokens", "lm_head", "o_proj"]),
    "llama_regex": dict(base="llama_f32", r=8, lora_alpha=16, target_modules=r".*layers\.0.*(gate|k)_proj"),
    "qwen2_ends": dict(base="qwen2_f32", r=3, lora_alpha=6, target_modules=["embed_tokens", "lm_head"] + ALL, dtype=torch.float16),
    "gemma_all": dict(base="gemma_bf16", r=8, lora_alpha=8, target_modules=ALL + ["embed_tokens"], dtype=torch.bfloat16),
    "gemma3_all": dict(base="gemma3_bf16", r=4, lora_alpha=8, target_modules=ALL, dtype=torch.bfloat16),
    "gpt2_conv1d": dict(base="gpt2_f16", r=6, lora_alpha=12, fan_in_fan_out=True, target_modules=["c_attn", "c_proj", "c_fc"],
                        dtype=torch.float16),
    "gptneox_fused": dict(base="gptneox_f16", r=8, lora_alpha=8, target_modules=["query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"],
                          dtype=torch.float16),
    "falcon_grouped": dict(base="falcon_new_f16", r=8, lora_alpha=8, target_modules=["query_key_value", "dense"], dtype=torch.float16),
    "cohere_paired": dict(base="cohere_f16", r=8, lora_alpha=16, target_modules=ALL, dtype=torch.float16),
    "phi3_fused": dict(base="phi3_f16", r=8, lora_alpha=16, target_modules=["qkv_proj", "o_proj", "gate_up_proj", "down_proj"], dtype=torch.float16),
    "llama_expressions": dict(base="llama_f32", r=4, lora_alpha=4, target_modules=ALL,
                              alpha_pattern={"(q|v)_proj": 9, r".*\.[01]\.mlp\..*": 2, "layers.1.self.attn.k.proj": 7, r"^model\.layers\.0\..*\.o_proj": 6}),
    "llama_saved": dict(base="llama_f32", r=5, lora_alpha=10, target_modules=["embed_tokens", "lm_head", "o_proj"], save="auto"),
    "tied_saved": dict(base="llama_tied_bf16", r=4, lora_alpha=8, target_modules=["embed_tokens", "q_proj"], save=True),
    "quant_gptq": dict(base="quant_gptq", r=8, lora_alpha=16, target_modules=ALL, dtype=torch.float16),
    "quant_awq": dict(base="quant_awq", r=8, lora_alpha=16, target_modules=ALL, dtype=torch.float16),
    "quant_nf4": dict(base="quant_nf4", r=8, lora_alpha=16, target_modules=ALL, dtype=torch.float16),
    "quant_q8_0": dict(base="llama_tied_bf16", r=8, lora_alpha=16, target_modules=ALL, dtype=torch.float16),
}


def dequantized_llama(name):
    """Make a model of gen_quantized.py, with the seed that gives the same prompt."""
    import gen_archs as ga
    import gen_quantized as gq

    method, quantization = gq.MODELS[name]
    want = read_prompt(name)
    config = LlamaConfig(vocab_size=gm.VOCAB, hidden_size=gq.HIDDEN, intermediate_size=gq.INTER, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
                         bos_token_id=gm.BOS, eos_token_id=gm.EOS, pad_token_id=gm.PAD, dtype="float16", tie_word_embeddings=True)
    for seed in range(1, 200):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config).float().eval()
        ga.draw(model, seed, 1.3, 1)
        rng = np.random.default_rng(seed)
        gq.quantize(model, method, quantization, rng)
        if [gm.BOS] + [int(x) for x in rng.integers(3, gm.VOCAB, gm.N_PROMPT - 1)] == want:
            return model
    raise SystemExit(f"{name}: no seed gives its prompt")


def nf4_llama(name):
    """Read a bitsandbytes checkpoint: codes of four bits, the high ones first; their scales are quantized,
    too."""
    path = os.path.join(gm.FIXTURES, name)
    with open(os.path.join(path, "config.json")) as f:
        config = json.load(f)
    config.pop("quantization_config")
    files = load_file(os.path.join(path, "model.safetensors"))
    model = LlamaForCausalLM(LlamaConfig(**config)).float().eval()
    state = model.state_dict()
    for key, t in state.items():
        if key + ".quant_map" not in files:
            if key in files:
                state[key] = files[key].float()
            continue
        about = json.loads(bytes(files[key + ".quant_state.bitsandbytes__nf4"].tolist()))
        nested = files[key + ".nested_absmax"].repeat_interleave(about["nested_blocksize"])
        codes = files[key + ".absmax"].long().flatten()
        scales = files[key + ".nested_quant_map"][codes] * nested[:len(codes)] + about["nested_offset"]
        raw = files[key].long().flatten()
        both = torch.stack([raw >> 4, raw & 15], 1).flatten()
        values = files[key + ".quant_map"][both] * scales.repeat_interleave(about["blocksize"])[:len(both)]
        state[key] = values.reshape(about["shape"])
    if config["tie_word_embeddings"]:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state)
    return model


def read_prompt(name):
    raw = np.fromfile(os.path.join(gm.EXPECTED, name + ".bin"), dtype="<i4")
    return [int(x) for x in raw[4:4 + raw[0]]]


def q8_0(model):
    state = model.state_dict()
    kind = gguf.GGMLQuantizationType.Q8_0
    for name, t in state.items():
        if t.ndim == 2:
            state[name] = torch.from_numpy(gguf.quants.dequantize(gguf.quants.quantize(t.float().numpy(), kind), kind))
    model.load_state_dict(state)
    return model


def load_base(name, base):
    if base == "quant_nf4":
        return nf4_llama(base)
    if base.startswith("quant_"):
        return dequantized_llama(base)
    model = AutoModelForCausalLM.from_pretrained(os.path.join(gm.FIXTURES, base), dtype=torch.float32, attn_implementation="eager").eval()
    import gen_archs as ga

    ga.load_archs().get(base, {}).get("reference", lambda model: None)(model)
    return q8_0(model) if name == "quant_q8_0" else model


def draw(model, dtype, seed):
    """Draw random weights, large enough to change logits much."""
    g = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        if "lora_" in name:
            fan = p.shape[1] if "_A" in name and "embedding" not in name else p.shape[0] if "embedding_A" in name else p.shape[1]
            w = torch.randn(p.shape, generator=g) * (0.7 if "_B" in name else 1) * fan ** -0.5
            p.data.copy_(w.to(dtype).float())


def save(model, path, base, dtype, embeddings):
    shutil.rmtree(path, ignore_errors=True)
    model.save_pretrained(path, save_embedding_layers=embeddings)
    for name in os.listdir(path):
        if not name.startswith("adapter_"):
            os.remove(os.path.join(path, name))
    file = os.path.join(path, "adapter_model.safetensors")
    save_file({k: v.to(dtype) for k, v in load_file(file).items()}, file, metadata={"format": "pt"})
    with open(os.path.join(path, "adapter_config.json")) as f:
        config = json.load(f)
    config["base_model_name_or_path"] = base
    if isinstance(config["target_modules"], list):
        config["target_modules"].sort()
    gm.dump(path, "adapter_config.json", config)


def make(name):
    case = dict(CASES[name])
    base, dtype = case.pop("base"), case.pop("dtype", torch.float32)
    embeddings = case.pop("save", False)
    seed = sum(name.encode())
    rng = np.random.default_rng(seed)
    prompt = [gm.BOS] + [int(x) for x in rng.integers(3, gm.VOCAB, gm.N_PROMPT - 1)]
    model = load_base(name, base)
    plain = gm.logits_of(model, prompt)
    model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.1, **case)).eval()
    draw(model, dtype, seed)
    save(model, os.path.join(FIXTURES, name), base, dtype, embeddings)
    logits = gm.logits_of(model, prompt)
    os.makedirs(EXPECTED, exist_ok=True)
    positions = gm.POSITIONS
    gm.EXPECTED = EXPECTED
    gm.write_expected(name, prompt, [], logits, positions)
    gm.EXPECTED = "tests/golden/models_expected"
    # a tied head can't be merged without changing the embedding, too
    tied = getattr(model.config, "tie_word_embeddings", False) and {"lm_head", "embed_tokens"} & set(case["target_modules"])
    merged = np.nan if tied else np.abs(gm.logits_of(model.merge_and_unload(), prompt) - logits).max()
    assert tied or merged < 1e-3, merged
    print(f"{name}: changes logits by {np.abs(logits - plain).mean():.2f} of {np.abs(plain).mean():.2f}, merged differs by {merged:.1e}",
          flush=True)


def main():
    torch.set_num_threads(1)
    with fixtures.repacked("lora"):
        for name in sys.argv[1:] or CASES:
            make(name)


if __name__ == "__main__":
    main()
