"""gpt-oss: experts with biases, sinks, windows in every other layer."""
import os

import torch
from safetensors.torch import load_file, save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

import gen_archs


def gguf_gpt_oss(out, c, w):
    o = out.out
    out.keys(c)
    out.usual(c)
    o.add_sliding_window(c.sliding_window)
    o.add_expert_feed_forward_length(c.intermediate_size)
    o.add_expert_count(c.num_local_experts)
    o.add_expert_used_count(c.num_experts_per_tok)
    for name, t in w.items():
        n = (name.split(".") + [""])[2]
        if name.endswith("gate_up_proj"):
            t = t.transpose(1, 2)
            out.tensor("x.weight", t[:, ::2], f"blk.{n}.ffn_gate_exps.weight")
            out.tensor("x.weight", t[:, 1::2], f"blk.{n}.ffn_up_exps.weight")
        elif name.endswith("experts.down_proj"):
            out.tensor("x.weight", t.transpose(1, 2), f"blk.{n}.ffn_down_exps.weight")
        elif name.endswith("gate_up_proj_bias"):
            o.add_tensor(f"blk.{n}.ffn_gate_exps.bias", t[:, ::2].contiguous().numpy())
            o.add_tensor(f"blk.{n}.ffn_up_exps.bias", t[:, 1::2].contiguous().numpy())
        elif name.endswith("down_proj_bias"):
            o.add_tensor(f"blk.{n}.ffn_down_exps.bias", t.numpy())
        elif name.endswith("router.weight"):
            o.add_tensor(f"blk.{n}.ffn_gate_inp.weight", t.numpy())
        elif name.endswith("sinks"):
            out.tensor(name + ".weight", t)
        else:
            out.tensor(name, t)


def biases(model, g):
    for name, p in model.named_parameters():
        if name.endswith("proj_bias"):
            # large weights for gate and up, so that some values are clamped
            p.mul_(3 if "gate_up" in name else 0.3)


E2M1 = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, -0.0, -.5, -1, -1.5, -2, -3, -4, -6])


def mxfp4_codes(t):
    """Return the nearest codes and the exponents of blocks of 32 along the last dimension."""
    blocks = t.float().unflatten(-1, (-1, 32))
    e = torch.floor(torch.log2(blocks.abs().amax(-1, keepdim=True).clamp(min=1e-4))) - 2
    codes = ((blocks / 2 ** e).unsqueeze(-1) - E2M1).abs().argmin(-1)
    return codes, e.squeeze(-1)


def mxfp4_values(model, g):
    """Set the experts' weights to values that MXFP4 holds exactly; the model has these weights
    transposed."""
    biases(model, g)
    for name, p in model.named_parameters():
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            codes, e = mxfp4_codes(p.transpose(1, 2))
            p.copy_((E2M1[codes] * 2 ** e.unsqueeze(-1)).flatten(-2).transpose(1, 2))


def mxfp4_stored(path, model):
    """Store the experts as blocks of codes and scales, as gpt-oss is published."""
    file = os.path.join(path, "model.safetensors")
    out = {}
    for name, t in load_file(file).items():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            out[name] = t
            continue
        codes, e = mxfp4_codes(t.transpose(1, 2))
        blocks = (codes[..., ::2] | codes[..., 1::2] << 4).to(torch.uint8)
        scales = (e + 127).to(torch.uint8)
        # the reference must unpack the same values
        assert torch.equal(convert_moe_packed_tensors(blocks, scales, dtype=torch.float32), t.float())
        out[name + "_blocks"], out[name + "_scales"] = blocks, scales
    save_file(out, file, metadata={"format": "pt"})
    gen_archs.edit_json(path, lambda c: c.update(quantization_config={
        "quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                                            "model.embed_tokens", "lm_head"]}))


def int8_inputs(model):
    """Round the inputs of the experts' products, as the engine does with MXFP4."""
    model.config._experts_implementation = "eager"
    for m in model.modules():
        if type(m).__name__ == "GptOssExperts":
            m._apply_gate = lambda x, gate=m._apply_gate: gen_archs.gm.int8(gate(x))
            m.register_forward_pre_hook(lambda module, args: (gen_archs.gm.int8(args[0]), *args[1:]))


GPT_OSS = dict(model_type="gpt_oss", hidden_size=32, intermediate_size=24, num_hidden_layers=4, num_local_experts=6,
               num_experts_per_tok=2, head_dim=12, num_attention_heads=4, num_key_value_heads=2, sliding_window=7)
YARN = dict(rope_type="yarn", rope_theta=150000.0, factor=4.0, beta_fast=3.0, beta_slow=0.5, truncate=False,
            original_max_position_embeddings=64)

ARCHS = {
    "gpt_oss_f16": dict(config=dict(GPT_OSS, rope_parameters=YARN), fix=biases, gguf=gguf_gpt_oss,
                        gguf_arch="gpt-oss"),
    "gpt_oss_tied_f16": dict(config=dict(GPT_OSS, num_hidden_layers=2, layer_types=["full_attention", "sliding_attention"],
                                         attention_bias=False, tie_word_embeddings=True,
                                         num_experts_per_tok=4, max_position_embeddings=128,
                                         rope_parameters=dict(YARN, truncate=True, factor=2.0)), fix=biases),
    "gpt_oss_mxfp4": dict(config=dict(GPT_OSS, num_hidden_layers=2, intermediate_size=64, num_local_experts=8,
                                      num_experts_per_tok=3, tie_word_embeddings=True, max_position_embeddings=128,
                                      rope_parameters=dict(YARN, factor=2.0)),
                          fix=mxfp4_values, stored=mxfp4_stored, rounded=("_int8", int8_inputs)),
}
