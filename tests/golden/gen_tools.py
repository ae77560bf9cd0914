#!/usr/bin/env python3
"""Let the tools themselves make tiny quantized models, and record what transformers computes with them
dequantized.

    gen_tools.py [name ...]         run in the repository's root

Needs what gen_quantized.py needs, and the tool of a model (MODELS): auto-round, autoawq, bitsandbytes,
gptqmodel, llmcompressor with compressed-tensors, nvidia-modelopt, amd-quark, torchao; none needs a
GPU.  docs/internals/testing.md has the versions that made the files.  For each model of MODELS it draws a
Llama, lets the tool quantize and export it, and writes

    build/fixtures/models/NAME/             the checkpoint as the tool writes it, with a tokenizer
    tests/golden/models_expected/NAME.bin   logits and greedy tokens of the dequantized model

and packs the folder into tests/fixtures/models.tar.xz (fixtures.py).  The tools give the values that
weights stand for, or the script computes them from the codes by the format's description.
"""
import json
import os
import shutil
import sys
import tempfile

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fixtures  # noqa: E402
import gen_archs as ga  # noqa: E402
import gen_models as gm  # noqa: E402

# columns of the largest matrix are three blocks of 128, so that scales of blocks differ
HIDDEN, INTER = 64, 384
SEED = 1
# another seed for models whose activations round badly with SEED
SEEDS = dict.fromkeys((
    "tool_autoround_gptq", "tool_autoround_4bit", "tool_autoround_2bit", "tool_autoround_nvfp4", "tool_bnb_nf4",
    "tool_bnb_int8", "tool_gptqmodel",
    "tool_gptqmodel_8bit", "tool_llmc_nvfp4", "tool_modelopt_nvfp4", "tool_modelopt_w8a16", "tool_modelopt_w4a8_nvfp4"), 2)
SEEDS |= {"tool_gptqmodel_act": 3, "tool_quark_int8": 3}
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
PARTS = ("config.json", "model.safetensors", "pytorch_model.bin", "quantize_config.json", "quantization_config.json",
         "hf_quant_config.json")


def draw():
    config = LlamaConfig(vocab_size=gm.VOCAB, hidden_size=HIDDEN, intermediate_size=INTER, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
                         bos_token_id=gm.BOS, eos_token_id=gm.EOS, pad_token_id=gm.PAD, tie_word_embeddings=True,
                         architectures=["LlamaForCausalLM"])
    torch.manual_seed(SEED)
    model = LlamaForCausalLM(config).float().eval()
    ga.draw(model, SEED, 1.3, 1)
    return model


def matrices(model):
    return [n for n, m in model.named_modules() if isinstance(m, torch.nn.Linear) and ".layers." in n]


def base_of(folder, dtype=torch.float32):
    """Write the model that a tool shall quantize."""
    draw().to(dtype).save_pretrained(folder)
    gm.write_tokenizer(folder, "qwen2")
    return folder


def tensors(path):
    t = {}
    for file in sorted(os.listdir(path)):
        if file.endswith(".safetensors"):
            t.update(load_file(os.path.join(path, file)))
    return t


def flatten(path):
    """Move files out of the folders that some tools make."""
    for folder, _, names in list(os.walk(path)):
        for name in names if folder != path else []:
            os.rename(os.path.join(folder, name), os.path.join(path, name))


# ---- values of codes ----

def unpack(words, order, bits=4):
    """Unpack I32 [.., n * bits / 32] to codes [.., n]."""
    return torch.stack([words >> bits * i & (1 << bits) - 1 for i in order], -1).flatten(-2)


def spread(scale, shape):
    """Repeat scales until they have the shape of a matrix, a last block may be cut."""
    if scale.numel() == 1:
        return scale.reshape(1, 1).float()
    scale = scale.float().squeeze().reshape(-1, 1) if scale.squeeze().ndim == 1 and scale.numel() == shape[0] \
        else scale.float()
    for d in range(2):
        if 1 < scale.shape[d] < shape[d] or (scale.shape[d] == 1 and d == 1):
            scale = scale.repeat_interleave(-(-shape[d] // scale.shape[d]), d)
    return scale[:shape[0], :shape[1]]


def e8m0(b):
    return torch.exp2(b.float() - 127)


def nibbles(packed):
    return torch.stack([packed & 15, packed >> 4], -1).flatten(-2).long()


def gptq_values(t, bits, group, zero_add, order=None):
    """Dequantize GPTQ's or, with an order of the nibbles, AWQ's tensors."""
    values = {}
    for name in (k[:-len(".qweight")] for k in t if k.endswith(".qweight")):
        q, z, s = (t[f"{name}.{x}"] for x in ("qweight", "qzeros", "scales"))
        if order:
            code, zero = unpack(q, order).T, unpack(z, order).T
        else:
            n = 32 // bits
            code = torch.stack([q >> bits * i & (1 << bits) - 1 for i in range(n)], 1).reshape(-1, q.shape[1]).T
            zero = (unpack(z, range(n), bits).T + zero_add) & (1 << bits) - 1
        g = t.get(f"{name}.g_idx", torch.arange(code.shape[1]) // group).long()
        values[name] = (code - zero[:, g]) * s.T.float()[:, g]
    return values


AWQ_ORDER = [0, 4, 1, 5, 2, 6, 3, 7]


# ---- AutoRound ----

def autoround(path, export, scheme="W4A16", sym=True):
    """Run AutoRound; with the formats of GPTQ and AWQ it writes other tools' checkpoints."""
    from auto_round import AutoRound

    with tempfile.TemporaryDirectory() as base:
        base_of(base)
        ar = AutoRound(base, scheme=scheme, group_size=32, sym=sym, iters=0, nsamples=1, seqlen=32, device_map="cpu",
                       disable_opt_rtn=True)
        ar.quantize_and_save(path, format=export)
    flatten(path)
    bits = int(scheme[1])
    return gptq_values(tensors(path), bits, 32, 1, AWQ_ORDER if export == "auto_awq" else None)


def autoround_floats(path, scheme):
    from auto_round import AutoRound

    # some of these look for the largest activations
    rows = torch.utils.data.DataLoader([{"input_ids": torch.arange(3, 35)}] * 2, batch_size=1)
    with tempfile.TemporaryDirectory() as base:
        ar = AutoRound(base_of(base), scheme=scheme, iters=0, nsamples=1, seqlen=32, device_map="cpu", disable_opt_rtn=True,
                       dataset=rows)
        ar.quantize_and_save(path, format="auto_round")
    flatten(path)
    t, values = tensors(path), {}
    for name in (k[:-len(".weight_scale")] for k in t if k.endswith(".weight_scale")):
        s = t[name + ".weight_scale"]
        w = t[name + ".weight"].float() if name + ".weight" in t else E2M1[nibbles(t[name + ".weight_packed"])]
        if name + ".weight_global_scale" in t:
            s = s.float() / t[name + ".weight_global_scale"]
        values[name] = w * spread(e8m0(s) if s.dtype == torch.uint8 else s, w.shape)
    return values


# ---- AutoAWQ, GPTQModel ----

def autoawq(path):
    """Pack a whole model with AutoAWQ's module; its quantizer needs an older transformers."""
    from awq.modules.linear.gemm import WQLinear_GEMM

    model = draw().half()
    for name in matrices(model):
        linear = model.get_submodule(name)
        g = linear.weight.float().reshape(linear.out_features, -1, 32)
        scale = ((g.amax(-1) - g.amin(-1)) / 15).half()
        zero = (-g.amin(-1) / scale.float()).round().clamp(0, 15)
        code = (g / scale.float()[..., None]).round() + zero[..., None]
        code = code.clamp(0, 15) - zero[..., None]
        linear.weight.data = (code * scale[..., None]).reshape(linear.weight.shape).half()
        model.set_submodule(name, WQLinear_GEMM.from_linear(linear, 4, 32, scales=scale.T.contiguous(),
                                                            zeros=zero.T.contiguous()))
    model.config.quantization_config = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True,
                                        "version": "gemm", "modules_to_not_convert": None}
    model.save_pretrained(path)
    return gptq_values(tensors(path), 4, 32, 0, AWQ_ORDER)


def gptqmodel(path, **options):
    os.environ["GPTQMODEL_CPU_WORKERS"] = "2"
    from gptqmodel import GPTQModel, QuantizeConfig

    with tempfile.TemporaryDirectory() as base:
        base_of(base, torch.bfloat16)
        model = GPTQModel.load(base, QuantizeConfig(group_size=32, **options), device="cpu")
        row = torch.arange(3, 67).reshape(1, 64)
        model.quantize([{"input_ids": row, "attention_mask": torch.ones_like(row)}] * 2, batch_size=1)
        model.save(path)
    return gptq_values(tensors(path), options["bits"], 32, 0 if options.get("format") == "gptq_v2" else 1)


# ---- bitsandbytes, TorchAO ----

def bitsandbytes(path, **options):
    import bitsandbytes.functional as bf
    from transformers import BitsAndBytesConfig

    with tempfile.TemporaryDirectory() as base:
        model = AutoModelForCausalLM.from_pretrained(base_of(base), dtype=torch.float32,
                                                     quantization_config=BitsAndBytesConfig(**options))
    values = {}
    for name in matrices(draw()):
        w = model.get_submodule(name).weight
        four = hasattr(w, "quant_state") and w.quant_state is not None
        values[name] = bf.dequantize_4bit(w.data, w.quant_state).float() if four else \
            w.data.float() * w.SCB[:, None] / 127
    model.save_pretrained(path)
    return values


def torchao(path, pickled, config, **options):
    """Quantize with transformers; pickled: save with torch.save()."""
    import torchao.quantization as tq
    from transformers import TorchAoConfig

    if config.startswith("Int") and "weight_dtype" in options:
        options["granularity"] = tq.PerGroup(32)
    with tempfile.TemporaryDirectory() as base:
        model = AutoModelForCausalLM.from_pretrained(base_of(base), dtype=torch.float32,
                                                     quantization_config=TorchAoConfig(getattr(tq, config)(**options)))
    values = {n: model.get_submodule(n).weight.dequantize().float() for n in matrices(draw())}
    model.save_pretrained(path)
    if pickled:
        os.unlink(os.path.join(path, "model.safetensors"))
        state = {k: v for k, v in model.state_dict().items() if k != "lm_head.weight"}
        torch.save(state, os.path.join(path, "pytorch_model.bin"))
    return values


# ---- ModelOpt ----

def modelopt_values(t):
    """Dequantize by the types of tensors; a scale per input column comes first."""
    values = {}
    for name in (k[:-len(".weight")] for k in t if k.endswith("_proj.weight")):
        w, s = t[name + ".weight"], t[name + ".weight_scale"]
        if w.dtype == torch.uint8:
            w, s = E2M1[nibbles(w)], e8m0(s) if s.dtype == torch.uint8 else s.float() * t[name + ".weight_scale_2"]
        elif s.dtype == torch.uint8:
            s = e8m0(s)
        elif s.ndim == 4:
            s = s.squeeze(3).squeeze(1)
        values[name] = w.float() * spread(s, w.shape)
        if name + ".weight_scale" not in t:
            raise ValueError(name)
    return values


def modelopt(path, config):
    import modelopt.torch.quantization as mtq
    import modelopt.torch.quantization.tensor_quant as tq
    from modelopt.torch.export import export_hf_checkpoint

    # Only CUDA has the simulation of blocks; calibration and export don't need it.
    tq.dynamic_block_quantize_op = lambda x, *_: x
    model = mtq.quantize(draw(), getattr(mtq, config), lambda m: m(torch.arange(3, 67).reshape(2, 32)))
    export_hf_checkpoint(model, export_dir=path)
    return modelopt_values(tensors(path))


# ---- compressed-tensors ----

def llmcompressor(path, scheme=None, **weights):
    """Quantize by one of LLM Compressor's schemes, or with these settings of the weights."""
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from llmcompressor import oneshot
    from llmcompressor.modifiers.quantization import QuantizationModifier
    from transformers import CompressedTensorsConfig

    with tempfile.TemporaryDirectory() as base:
        model = AutoModelForCausalLM.from_pretrained(base_of(base), dtype=torch.float32)
        tok = AutoTokenizer.from_pretrained(base)
        how = {"scheme": scheme} if scheme else {"config_groups": {"group_0": QuantizationScheme(
            targets=["Linear"], weights=QuantizationArgs(**weights))}}
        oneshot(model=model, tokenizer=tok, recipe=QuantizationModifier(targets=["Linear"], ignore=["lm_head"], **how))
        model.save_pretrained(path, save_compressed=True)
    whole = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32,
                                                 quantization_config=CompressedTensorsConfig(run_compressed=False))
    return {n: whole.get_submodule(n).weight.detach().float() for n in matrices(draw())}


# ---- Quark ----

def quark(path, spec, **options):
    import quark.torch.quantization.config.config as qc
    from quark.torch import ModelQuantizer, export_safetensors

    weight = getattr(qc, spec)(is_dynamic=False, **options).to_quantization_spec()
    with tempfile.TemporaryDirectory() as base:
        model = AutoModelForCausalLM.from_pretrained(base_of(base), dtype=torch.float32)
        tool = ModelQuantizer(qc.QConfig(global_quant_config=qc.QLayerConfig(weight=weight), exclude=["lm_head"]))
        rows = torch.utils.data.DataLoader(torch.arange(3, 67).reshape(2, 32), batch_size=1)
        model = tool.freeze(tool.quantize_model(model, rows))
        values = {n: model.get_submodule(n).weight.detach().float().clone() for n in matrices(draw())}
        export_safetensors(model, path, weight_format="real_quantized", pack_method="reorder")
    return values


ROUNDED = {"symmetric": True, "scale_type": "float", "round_method": "half_even"}
MODELS = {
    "tool_torchao_pickled": lambda path: torchao(path, True, "IntxWeightOnlyConfig", weight_dtype=torch.int4),
    "tool_torchao_int8": lambda path: torchao(path, False, "Int8DynamicActivationInt8WeightConfig"),
    "tool_torchao_f8": lambda path: torchao(path, False, "Float8WeightOnlyConfig"),
    "tool_autoround_gptq": lambda path: autoround(path, "auto_gptq"),
    "tool_autoround_awq": lambda path: autoround(path, "auto_awq", sym=False),
    "tool_autoround_4bit": lambda path: autoround(path, "auto_round"),
    "tool_autoround_2bit": lambda path: autoround(path, "auto_round", "W2A16"),
    "tool_autoround_mxfp4": lambda path: autoround_floats(path, "MXFP4"),
    "tool_autoround_mxfp8": lambda path: autoround_floats(path, "MXFP8"),
    "tool_autoround_nvfp4": lambda path: autoround_floats(path, "NVFP4"),
    "tool_autoround_fp8": lambda path: autoround_floats(path, "FP8_STATIC"),
    "tool_autoawq": autoawq,
    "tool_gptqmodel": lambda path: gptqmodel(path, bits=4),
    "tool_gptqmodel_act": lambda path: gptqmodel(path, bits=4, desc_act=True, act_group_aware=False),
    "tool_gptqmodel_8bit": lambda path: gptqmodel(path, bits=8, format="gptq_v2"),
    "tool_bnb_nf4": lambda path: bitsandbytes(path, load_in_4bit=True, bnb_4bit_quant_type="nf4",
                                              bnb_4bit_use_double_quant=True),
    "tool_bnb_fp4": lambda path: bitsandbytes(path, load_in_4bit=True, bnb_4bit_quant_type="fp4"),
    "tool_bnb_int8": lambda path: bitsandbytes(path, load_in_8bit=True),
    "tool_modelopt_fp8": lambda path: modelopt(path, "FP8_DEFAULT_CFG"),
    "tool_modelopt_fp8_blocks": lambda path: modelopt(path, "FP8_2D_BLOCKWISE_WEIGHT_ONLY_CFG"),
    "tool_modelopt_nvfp4": lambda path: modelopt(path, "NVFP4_DEFAULT_CFG"),
    "tool_modelopt_w4a8_nvfp4": lambda path: modelopt(path, "W4A8_NVFP4_FP8_CFG"),
    "tool_modelopt_mxfp4": lambda path: modelopt(path, "MXFP4_DEFAULT_CFG"),
    "tool_modelopt_mxfp8": lambda path: modelopt(path, "MXFP8_DEFAULT_CFG"),
    "tool_modelopt_int8": lambda path: modelopt(path, "INT8_DEFAULT_CFG"),
    "tool_modelopt_w8a16": lambda path: modelopt(path, "INT8_WEIGHT_ONLY_CFG"),
    "tool_llmc_w4a16": lambda path: llmcompressor(path, num_bits=4, type="int", symmetric=True, strategy="group",
                                                  group_size=32),
    "tool_llmc_w4a16_asym": lambda path: llmcompressor(path, num_bits=4, type="int", symmetric=False, strategy="group",
                                                       group_size=32),
    "tool_llmc_w8a8": lambda path: llmcompressor(path, "W8A8"),
    "tool_llmc_fp8": lambda path: llmcompressor(path, "FP8_DYNAMIC"),
    "tool_llmc_fp8_block": lambda path: llmcompressor(path, "FP8_BLOCK"),
    "tool_llmc_nvfp4": lambda path: llmcompressor(path, "NVFP4A16"),
    "tool_llmc_mxfp4": lambda path: llmcompressor(path, "MXFP4A16"),
    "tool_llmc_mxfp8": lambda path: llmcompressor(path, "MXFP8"),
    "tool_quark_fp8": lambda path: quark(path, "FP8E4M3PerTensorSpec", observer_method="min_max"),
    "tool_quark_mxfp4": lambda path: quark(path, "OCP_MXFP4Spec", ch_axis=-1),
    "tool_quark_mxfp6": lambda path: quark(path, "OCP_MXFP6E2M3Spec", ch_axis=-1),
    "tool_quark_int8": lambda path: quark(path, "Int8PerChannelSpec", ch_axis=0, **ROUNDED),
    "tool_quark_int4": lambda path: quark(path, "Int4PerGroupSpec", ch_axis=-1, group_size=32, **ROUNDED),
}


def make(name):
    global SEED
    SEED = SEEDS.get(name, 1)
    # NAME_int8.bin and the like are further expectations of model NAME (golden.h)
    assert not any(name + "_" + x in MODELS for x in ("int8", "bf16", "fp8")), name
    path = os.path.join(gm.FIXTURES, name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    values = MODELS[name](path)
    model = draw()
    missing = set(matrices(model)) - set(values)
    assert not missing, missing
    state = model.state_dict()
    far = 0
    for n, v in values.items():
        drawn = state[n + ".weight"]
        far = max(far, float((v - drawn).abs().max() / drawn.abs().max()))
        assert v.shape == drawn.shape, n
        state[n + ".weight"] = v.float()
    assert far < (0.5 if "2bit" in name else 0.3), far
    # what isn't quantized is as the tool has written it
    for n, v in tensors(path).items():
        if n in state and n[:-len(".weight")] not in values:
            state[n] = v.float()
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state)
    for file in os.listdir(path):
        if os.path.isdir(os.path.join(path, file)):
            shutil.rmtree(os.path.join(path, file))
        elif file not in PARTS:
            os.unlink(os.path.join(path, file))
    gm.write_tokenizer(path, "qwen2")
    rng = np.random.default_rng(SEED)
    prompt = [gm.BOS] + [int(x) for x in rng.integers(3, gm.VOCAB, gm.N_PROMPT - 1)]
    gm.MARGIN = 0               # rounded activations decide, too
    tokens, margin = gm.greedy(model, prompt)
    gm.write_expected(name, prompt, tokens, gm.logits_of(model, prompt))
    with open(os.path.join(path, "config.json")) as f:
        print(f"{name}: off by {far:.3f} of the largest weight, {len(set(tokens))} distinct tokens,",
              json.dumps(json.load(f)["quantization_config"])[:600], flush=True)


def main():
    torch.set_num_threads(1)
    with fixtures.repacked("models"):
        for name in sys.argv[1:] or MODELS:
            make(name)


if __name__ == "__main__":
    main()
