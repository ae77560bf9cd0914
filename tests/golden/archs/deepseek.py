"""Latent attention, and experts as in DeepSeek-V2 and V3."""
import os

import gguf
import torch
from safetensors.torch import load_file, save_file


def correct(model, g):
    """Draw the correction bias of the expert choice: it is no parameter, and zero at first."""
    for name, b in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            b.copy_(0.2 * torch.randn(b.shape, generator=g))


def extra_layer(path, model):
    """Add a layer after the last one, as models with MTP have."""
    file = os.path.join(path, "model.safetensors")
    tensors = load_file(file)
    n = model.config.num_hidden_layers
    tensors[f"model.layers.{n}.eh_proj.weight"] = torch.zeros(4, 8, dtype=torch.float16)
    tensors[f"model.layers.{n}.mlp.gate.weight"] = torch.zeros(4, 8, dtype=torch.float16)
    save_file(tensors, file, metadata={"format": "pt"})


def gguf_deepseek(out, c, w, split=True):
    o = out.out
    v3 = c.model_type == "deepseek_v3"
    heads, plain, rope, latent = c.num_attention_heads, c.qk_nope_head_dim, c.qk_rope_head_dim, c.kv_lora_rank
    shared = dict(c.to_dict(), num_key_value_heads=1)
    out.keys(type("C", (), shared))
    o.add_layer_norm_rms_eps(c.rms_norm_eps)
    out.rope(c)
    o.add_rope_dimension_count(rope)
    if c.rope_parameters.get("mscale_all_dim"):
        o.add_rope_scaling_yarn_log_mul(0.1 * c.rope_parameters["mscale_all_dim"])
    o.add_leading_dense_block_count(c.first_k_dense_replace)
    if c.q_lora_rank is not None:
        o.add_q_lora_rank(c.q_lora_rank)
    o.add_kv_lora_rank(latent)
    if split:
        o.add_key_length(latent + rope)
        o.add_value_length(latent)
        o.add_key_length_mla(plain + rope)
        o.add_value_length_mla(c.v_head_dim)
    else:
        o.add_key_length(plain + rope)
        o.add_value_length(c.v_head_dim)
    o.add_expert_feed_forward_length(c.moe_intermediate_size)
    o.add_expert_count(c.n_routed_experts)
    o.add_expert_used_count(c.num_experts_per_tok)
    o.add_expert_shared_count(c.n_shared_experts)
    o.add_expert_weights_scale(c.routed_scaling_factor)
    if c.n_group is not None:
        o.add_expert_group_count(c.n_group)
        o.add_expert_group_used_count(c.topk_group)
    if v3:
        o.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        o.add_expert_weights_norm(c.norm_topk_prob)
    for name, t in w.items():
        n = (name.split(".") + [""])[2]
        if "mlp.experts.gate_up_proj" in name:
            half = t.shape[1] // 2
            out.tensor("x.weight", t[:, :half], f"blk.{n}.ffn_gate_exps.weight")
            out.tensor("x.weight", t[:, half:], f"blk.{n}.ffn_up_exps.weight")
        elif "mlp.experts.down_proj" in name:
            out.tensor("x.weight", t, f"blk.{n}.ffn_down_exps.weight")
        elif name.endswith("mlp.gate.weight"):
            o.add_tensor(f"blk.{n}.ffn_gate_inp.weight", t.numpy())
        elif name.endswith("e_score_correction_bias"):
            o.add_tensor(f"blk.{n}.exp_probs_b.bias", t.numpy())
        elif name.endswith("kv_b_proj.weight") and not split:
            out.tensor("x.weight", t, f"blk.{n}.attn_kv_b.weight")
        elif name.endswith("kv_b_proj.weight"):
            t = t.view(heads, plain + c.v_head_dim, latent)
            out.tensor("x.weight", t[:, :plain].transpose(1, 2), f"blk.{n}.attn_k_b.weight")
            out.tensor("x.weight", t[:, plain:], f"blk.{n}.attn_v_b.weight")
        else:
            out.tensor(name, t)


def gguf_old(out, c, w):
    """Write the file as older converters did: k and v of all heads in one matrix."""
    gguf_deepseek(out, c, w, split=False)


MLA = dict(hidden_size=32, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=4,
           kv_lora_rank=20, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10, n_routed_experts=8,
           num_experts_per_tok=3, moe_intermediate_size=16, first_k_dense_replace=1)


def v2(**more):
    return dict(MLA, model_type="deepseek_v2", **more)


def v3(**more):
    return dict(MLA, model_type="deepseek_v3", **more)


def yarn(**more):
    return dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=32,
                beta_fast=3.0, beta_slow=0.5, **more)


ARCHS = {
    "deepseek2_f16": dict(config=v2(q_lora_rank=None, topk_method="greedy", n_shared_experts=1, attention_bias=True,
                                    mlp_bias=False, tie_word_embeddings=True)),
    "deepseek2_groups_f16": dict(config=v2(q_lora_rank=24, topk_method="group_limited_greedy", n_group=4, topk_group=2,
                                           n_shared_experts=2, routed_scaling_factor=2.0, max_position_embeddings=128,
                                           rope_parameters=yarn(mscale=0.707, mscale_all_dim=0.707)),
                                 gguf=gguf_deepseek, gguf_arch="deepseek2"),
    "deepseek2_old_f16": dict(config=v2(q_lora_rank=None, topk_method="greedy", n_shared_experts=1),
                              gguf=gguf_old, gguf_arch="deepseek2"),
    "deepseek3_f16": dict(config=v3(q_lora_rank=24, n_group=4, topk_group=2, n_shared_experts=1, attention_bias=True,
                                    routed_scaling_factor=1.5, rope_interleave=False, max_position_embeddings=128,
                                    norm_topk_prob=False, rope_parameters=yarn(mscale=1.0, mscale_all_dim=0.5)),
                          fix=correct, stored=extra_layer),
    "deepseek3_norm_f16": dict(config=v3(q_lora_rank=None, n_group=2, topk_group=1, n_shared_experts=1,
                                         routed_scaling_factor=2.5, norm_topk_prob=True, scoring_func="sigmoid"),
                               fix=correct, gguf=gguf_deepseek, gguf_arch="deepseek2"),
    "glm4_moe_lite_f16": dict(config=dict(MLA, model_type="glm4_moe_lite", q_lora_rank=24, n_group=2, topk_group=1,
                                          n_shared_experts=1, mlp_layer_types=["sparse", "dense", "sparse"],
                                          first_k_dense_replace=...),
                              fix=correct),
}
