"""Mixtures of experts that are otherwise like Llama or Qwen."""
import os

import gguf
import torch
from safetensors.torch import load_file, save_file


def interleave(t, heads):
    return t.reshape(heads, 2, t.shape[0] // heads // 2, *t.shape[1:]).swapaxes(1, 2).reshape(t.shape)


def experts(out, c, w, change=lambda name, t: t):
    """Add all tensors; split the experts' gate and up, which transformers keeps in one tensor."""
    for name, t in w.items():
        t = change(name, t)
        if t is None or name == "lm_head.weight" and c.tie_word_embeddings:
            continue
        if ".experts.gate_up_proj" in name:
            n = int(name.split(".")[2])
            half = t.shape[1] // 2
            out.tensor("x.weight", t[:, :half], f"blk.{n}.ffn_gate_exps.weight")
            out.tensor("x.weight", t[:, half:], f"blk.{n}.ffn_up_exps.weight")
        elif ".experts.down_proj" in name:
            out.tensor("x.weight", t, f"blk.{name.split('.')[2]}.ffn_down_exps.weight")
        elif name.endswith(("mlp.gate.weight", "router.weight")):
            # the router stays in float
            n = int(name.split(".")[2])
            out.out.add_tensor(f"blk.{n}.ffn_gate_inp.weight", t.float().numpy())
        elif name.endswith("e_score_correction_bias"):
            out.out.add_tensor(f"blk.{name.split('.')[2]}.exp_probs_b.bias", t.numpy())
        elif "shared_mlp.input_linear" in name:
            half = t.shape[0] // 2
            out.tensor("x.weight", t[:half], f"blk.{name.split('.')[2]}.ffn_gate_shexp.weight")
            out.tensor("x.weight", t[half:], f"blk.{name.split('.')[2]}.ffn_up_shexp.weight")
        elif name.endswith("shared_expert_gate.weight"):
            out.out.add_tensor(f"blk.{name.split('.')[2]}.ffn_gate_inp_shexp.weight", t[0].float().numpy())
        else:
            out.tensor(name, t)


def moe_keys(out, c, n, inter=None):
    out.out.add_expert_count(n)
    out.out.add_expert_used_count(c.num_experts_per_tok)
    if inter is not None:
        out.out.add_expert_feed_forward_length(inter)


def gguf_mixtral(out, c, w):
    def change(name, t):
        if name.endswith("q_proj.weight"):
            return interleave(t, c.num_attention_heads)
        if name.endswith("k_proj.weight"):
            return interleave(t, c.num_key_value_heads)
        return t

    out.keys(c, add_bos=True)
    out.usual(c)
    out.out.add_rope_dimension_count(c.head_dim or c.hidden_size // c.num_attention_heads)
    moe_keys(out, c, c.num_local_experts)
    experts(out, c, w, change)


def gguf_qwen(out, c, w):
    out.keys(c)
    out.usual(c)
    moe_keys(out, c, c.num_experts, c.moe_intermediate_size)
    if hasattr(c, "shared_expert_intermediate_size"):
        out.out.add_expert_shared_feed_forward_length(c.shared_expert_intermediate_size)
    experts(out, c, w)


def gguf_granite(out, c, w):
    def change(name, t):
        for part, heads in (("q_proj", c.num_attention_heads), ("k_proj", c.num_key_value_heads)):
            if part in name:
                return interleave(t, heads)
        return t

    o = out.out
    out.keys(c)
    out.usual(c)
    o.add_rope_dimension_count(c.hidden_size // c.num_attention_heads)
    moe_keys(out, c, c.num_local_experts)
    o.add_attention_scale(c.attention_multiplier)
    o.add_embedding_scale(c.embedding_multiplier)
    o.add_residual_scale(c.residual_multiplier)
    o.add_logit_scale(c.logits_scaling)
    if getattr(c, "shared_intermediate_size", 0):
        o.add_expert_shared_feed_forward_length(c.shared_intermediate_size)
    experts(out, c, w, change)


def gguf_olmoe(out, c, w):
    out.keys(c)
    out.usual(c)
    moe_keys(out, c, c.num_experts)
    experts(out, c, w)


def gguf_sigmoid(out, c, w):
    """The file of GLM-4.5 and dots.llm1."""
    o = out.out
    out.keys(c)
    out.usual(c)
    moe_keys(out, c, c.n_routed_experts, c.moe_intermediate_size)
    if c.model_type == "glm4_moe":
        o.add_rope_dimension_count(c.head_dim // 2)
        # the block count includes the MTP layer, which predicts one more token
        o.add_block_count(c.num_hidden_layers + 1)
        o.add_nextn_predict_layers(1)
        out.tensor("x.weight", torch.zeros(4, 8), f"blk.{c.num_hidden_layers}.nextn.eh_proj.weight")
    o.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    o.add_expert_shared_count(c.n_shared_experts)
    o.add_leading_dense_block_count(c.first_k_dense_replace)
    o.add_expert_weights_scale(c.routed_scaling_factor)
    o.add_expert_weights_norm(c.norm_topk_prob)
    o.add_expert_group_count(c.n_group)
    o.add_expert_group_used_count(c.topk_group)
    experts(out, c, w)


def gguf_minimax(out, c, w):
    o = out.out
    out.keys(c)
    out.usual(c)
    moe_keys(out, c, c.num_local_experts, c.intermediate_size)
    o.add_rope_dimension_count(c.rotary_dim)
    o.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    experts(out, c, w)


def gguf_ernie(out, c, w):
    o = out.out
    out.keys(c)
    out.usual(c)
    o.add_rope_dimension_count(c.hidden_size // c.num_attention_heads)
    o.add_expert_count(c.moe_num_experts)
    o.add_expert_used_count(c.moe_k)
    o.add_expert_feed_forward_length(c.moe_intermediate_size)
    o.add_interleave_moe_layer_step(c.moe_layer_interval)
    o.add_leading_dense_block_count(c.moe_layer_start_index)
    o.add_expert_shared_count(c.moe_num_shared_experts)
    experts(out, c, w)


def correct(model, g):
    """Draw the correction bias of the expert choice: it is no parameter, and zero at first."""
    for name, b in list(model.named_buffers()) + list(model.named_parameters()):
        if name.endswith("e_score_correction_bias"):
            b.copy_(0.2 * torch.randn(b.shape, generator=g))


def together(path, model):
    """Store all experts of a layer in two tensors, as newer tools may do."""
    file = os.path.join(path, "model.safetensors")
    tensors = load_file(file)
    for name, t in list(tensors.items()):
        if not name.endswith("experts.0.gate_proj.weight"):
            continue
        stem = name.removesuffix("0.gate_proj.weight")
        n = len([x for x in tensors if x.startswith(stem) and x.endswith("gate_proj.weight")])
        part = {p: [tensors.pop(f"{stem}{i}.{p}_proj.weight") for i in range(n)] for p in ("gate", "up", "down")}
        tensors[stem + "gate_up_proj"] = torch.stack([torch.cat(x) for x in zip(part["gate"], part["up"])])
        tensors[stem + "down_proj"] = torch.stack(part["down"])
    save_file(tensors, file, metadata={"format": "pt"})


def two_types(path, model):
    """Store some experts' matrices in F32: modules that quantizers skip may have several types, too."""
    file = os.path.join(path, "model.safetensors")
    tensors = load_file(file)
    for name, t in tensors.items():
        if ".experts.1." in name or ".experts.3.w3" in name:
            tensors[name] = t.float()
    save_file(tensors, file, metadata={"format": "pt"})


SMALL = dict(hidden_size=32, intermediate_size=40, num_hidden_layers=2)

ARCHS = {
    "mixtral_f16": dict(config=dict(SMALL, model_type="mixtral", num_local_experts=5, num_experts_per_tok=2,
                                    intermediate_size=28, head_dim=12, sliding_window=9, rms_norm_eps=1e-5)),
    "mixtral_plain_f16": dict(config=dict(SMALL, model_type="mixtral", num_local_experts=4, num_experts_per_tok=3,
                                          intermediate_size=24, head_dim=16, rms_norm_eps=1e-5),
                              gguf=gguf_mixtral, gguf_arch="llama"),
    "mixtral_types_f16": dict(config=dict(SMALL, model_type="mixtral", num_local_experts=5, num_experts_per_tok=3,
                                          intermediate_size=24, head_dim=16, rms_norm_eps=1e-5),
                              stored=two_types),
    "minimax_m2_f16": dict(config=dict(SMALL, model_type="minimax_m2", num_local_experts=6, num_experts_per_tok=3,
                                       intermediate_size=20, head_dim=16, rotary_dim=8, scoring_func="sigmoid"),
                           fix=correct, gguf=gguf_minimax, gguf_arch="minimax-m2"),
    "phimoe_f16": dict(config=dict(SMALL, model_type="phimoe", num_local_experts=6, num_experts_per_tok=2,
                                   intermediate_size=20, head_dim=..., attention_bias=True, lm_head_bias=True,
                                   router_jitter_noise=0.2, sliding_window=11, max_position_embeddings=128,
                                   rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, short_mscale=1.2,
                                                        long_mscale=1.3, short_factor=[1.1, 1.3, 1.7, 2.0],
                                                        long_factor=[1.5, 2.0, 3.0, 4.0],
                                                        original_max_position_embeddings=128))),
    "phimoe_plain_f16": dict(config=dict(SMALL, model_type="phimoe", num_local_experts=4, num_experts_per_tok=2,
                                         intermediate_size=20)),
    # layers 1 and 3 have experts, unless they are listed
    "qwen2_moe_f16": dict(config=dict(SMALL, model_type="qwen2_moe", num_hidden_layers=5, num_experts=6,
                                      num_experts_per_tok=3, moe_intermediate_size=20,
                                      shared_expert_intermediate_size=28, decoder_sparse_step=2, mlp_only_layers=[3],
                                      norm_topk_prob=True, qkv_bias=False, use_sliding_window=True,
                                      sliding_window=7, max_window_layers=3)),
    "qwen2_moe_plain_f16": dict(config=dict(SMALL, model_type="qwen2_moe", num_experts=6, num_experts_per_tok=4,
                                            moe_intermediate_size=20, shared_expert_intermediate_size=28),
                                gguf=gguf_qwen, gguf_arch="qwen2moe"),
    "qwen3_moe_f16": dict(config=dict(SMALL, model_type="qwen3_moe", num_hidden_layers=3, num_experts=8, head_dim=10,
                                      num_experts_per_tok=3, moe_intermediate_size=16, mlp_only_layers=[0],
                                      attention_bias=True, use_sliding_window=True, sliding_window=8,
                                      tie_word_embeddings=True)),
    "qwen3_moe_norm_f16": dict(config=dict(SMALL, model_type="qwen3_moe", num_experts=8, head_dim=16,
                                           num_experts_per_tok=2, moe_intermediate_size=16, norm_topk_prob=True),
                               gguf=gguf_qwen, gguf_arch="qwen3moe"),
    "qwen3_moe_together_f16": dict(config=dict(SMALL, model_type="qwen3_moe", num_experts=6, head_dim=16,
                                               num_experts_per_tok=2, moe_intermediate_size=16),
                                   stored=together),
    "granitemoe_f16": dict(config=dict(SMALL, model_type="granitemoe", num_local_experts=5, num_experts_per_tok=3,
                                       intermediate_size=20, attention_bias=True, embedding_multiplier=6.0,
                                       residual_multiplier=0.4, attention_multiplier=0.2, logits_scaling=1.5)),
    "granitemoeshared_f16": dict(config=dict(SMALL, model_type="granitemoeshared", num_local_experts=6,
                                             num_experts_per_tok=2, intermediate_size=20, shared_intermediate_size=28,
                                             embedding_multiplier=3.0, residual_multiplier=0.6,
                                             attention_multiplier=0.3, logits_scaling=0.8),
                                 gguf=gguf_granite, gguf_arch="granitemoe"),
    "olmoe_f16": dict(config=dict(SMALL, model_type="olmoe", num_experts=6, num_experts_per_tok=2,
                                  intermediate_size=20),
                      gguf=gguf_olmoe),
    "olmoe_norm_f16": dict(config=dict(SMALL, model_type="olmoe", num_experts=4, num_experts_per_tok=3, eos_token_id=1,
                                       intermediate_size=20, norm_topk_prob=True, attention_bias=True)),
    "glm4_moe_f16": dict(config=dict(SMALL, model_type="glm4_moe", num_hidden_layers=3, n_routed_experts=6, head_dim=16,
                                     num_experts_per_tok=2, moe_intermediate_size=16, n_group=3, topk_group=2,
                                     routed_scaling_factor=1.5, use_qk_norm=True),
                         fix=correct, gguf=gguf_sigmoid, gguf_arch="glm4moe"),
    "glm4_moe_bias_f16": dict(config=dict(SMALL, model_type="glm4_moe", n_routed_experts=6, head_dim=20,
                                          num_experts_per_tok=2, moe_intermediate_size=16, n_shared_experts=2,
                                          attention_bias=True, norm_topk_prob=False, partial_rotary_factor=0.4),
                              fix=correct),
    "dots1_f16": dict(config=dict(SMALL, model_type="dots1", num_hidden_layers=3, n_routed_experts=6, head_dim=16,
                                  num_experts_per_tok=3, moe_intermediate_size=16, n_shared_experts=2,
                                  first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=2.5,
                                  sliding_window=None, scoring_func="sigmoid"),
                      fix=correct, gguf=gguf_sigmoid),
    "dots1_window_f16": dict(config=dict(SMALL, model_type="dots1", num_hidden_layers=3, n_routed_experts=6,
                                         num_experts_per_tok=2, moe_intermediate_size=16, n_shared_experts=1,
                                         n_group=2, topk_group=1, sliding_window=7, max_window_layers=1,
                                         attention_bias=True),
                             fix=correct),
    "ernie4_5_moe_f16": dict(config=dict(SMALL, model_type="ernie4_5_moe", num_hidden_layers=5, moe_num_experts=6,
                                         moe_k=3, moe_intermediate_size=16, moe_num_shared_experts=2,
                                         moe_layer_start_index=1, moe_layer_end_index=3, moe_layer_interval=2,
                                         moe_norm_min=0.6),
                             fix=correct),
    "ernie4_5_moe_all_f16": dict(config=dict(SMALL, model_type="ernie4_5_moe", moe_num_experts=6, moe_k=2,
                                             moe_intermediate_size=16, moe_num_shared_experts=1,
                                             tie_word_embeddings=False, moe_layer_start_index=0),
                                 fix=correct, gguf=gguf_ernie, gguf_arch="ernie4_5-moe"),
}
