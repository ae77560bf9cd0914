"""Hybrids of attention and state-space layers: Granite 4, Jamba, Falcon-H1."""
import torch
from mamba import change, steps
from moe import experts, interleave

NAMES = ("linear_attention", "full_attention")


def ssm_keys(out, c, inner, dt_rank, groups=None):
    o = out.out
    o.add_layer_norm_rms_eps(c.rms_norm_eps)
    o.add_ssm_conv_kernel(c.mamba_d_conv)
    o.add_ssm_inner_size(inner)
    o.add_ssm_state_size(c.mamba_d_state)
    o.add_ssm_time_step_rank(dt_rank)
    if groups is not None:
        o.add_ssm_group_count(groups)


def mamba2_names(w):
    return {k.replace("mamba.dt_bias", "mamba.dt_proj.bias"): v for k, v in w.items()}


def mamba2(groups):
    def f(name, t):
        if name.endswith("mamba.norm.weight"):
            return t.reshape(groups, -1)
        return change(name, t, groups)
    return f


def gguf_granite(out, c, w):
    o = out.out
    kinds = [t == "full_attention" for t in c.layer_types]
    ssm = mamba2(c.mamba_n_groups)
    out.keys(c, kv=[c.num_key_value_heads if k else 0 for k in kinds], length=2 ** 20)
    ssm_keys(out, c, c.mamba_expand * c.hidden_size, c.mamba_n_heads, c.mamba_n_groups)
    o.add_rope_scaling_finetuned(False)
    o.add_attention_scale(c.attention_multiplier)
    o.add_embedding_scale(c.embedding_multiplier)
    o.add_residual_scale(c.residual_multiplier)
    o.add_logit_scale(c.logits_scaling)
    o.add_expert_shared_feed_forward_length(c.shared_intermediate_size)
    if c.num_local_experts:
        o.add_expert_count(c.num_local_experts)
        o.add_expert_used_count(c.num_experts_per_tok)

    def f(name, t):
        n = name.split(".")[2] if name.startswith("model.layers.") else None
        for part, heads in (("q_proj", c.num_attention_heads), ("k_proj", c.num_key_value_heads)):
            if part in name:
                return interleave(t, heads)
        if not c.num_local_experts and "shared_mlp.input_linear" in name:
            half = t.shape[0] // 2
            out.tensor("x.weight", t[:half], f"blk.{n}.ffn_gate.weight")
            out.tensor("x.weight", t[half:], f"blk.{n}.ffn_up.weight")
            return None
        if not c.num_local_experts and "shared_mlp.output_linear" in name:
            out.tensor("x.weight", t, f"blk.{n}.ffn_down.weight")
            return None
        return ssm(name, t)

    experts(out, c, mamba2_names(w), f)


def old_names(c):
    """Use the key names of Granite 4's own configurations."""
    c["layer_types"] = ["mamba" if t == NAMES[0] else "attention" for t in c["layer_types"]]


def gguf_jamba(out, c, w):
    o = out.out
    out.keys(c, kv=[c.num_key_value_heads if k == "attention" else 0 for k in c.layers_block_type])
    ssm_keys(out, c, c.mamba_expand * c.hidden_size, c.mamba_dt_rank)
    o.add_expert_count(c.num_experts)
    o.add_expert_used_count(c.num_experts_per_tok)
    experts(out, c, w, change)


def gguf_falcon(out, c, w):
    """Write the file with the multipliers merged into the weights."""
    o = out.out
    inner, bc = c.mamba_d_ssm, c.mamba_n_groups * c.mamba_d_state
    factors = torch.cat([torch.full((n,), f) for n, f in zip((inner, inner, bc, bc, c.mamba_n_heads), c.ssm_multipliers)])
    ssm = mamba2(c.mamba_n_groups)
    out.keys(c)
    ssm_keys(out, c, inner, c.mamba_n_heads, c.mamba_n_groups)
    head = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    o.add_key_length(head)
    o.add_value_length(head)
    o.add_rope_freq_base(c.rope_parameters["rope_theta"])

    def f(name, t):
        for part, by in (("k_proj", c.key_multiplier * c.attention_in_multiplier), ("q_proj", c.attention_in_multiplier),
                         ("v_proj", c.attention_in_multiplier), ("o_proj", c.attention_out_multiplier),
                         ("out_proj", c.ssm_out_multiplier), ("gate_proj", c.mlp_multipliers[0]),
                         ("down_proj", c.mlp_multipliers[1]), ("lm_head", c.lm_head_multiplier),
                         ("embed_tokens", c.embedding_multiplier)):
            if part + "." in name:
                return t * by
        if "mamba.in_proj" in name:
            return t * c.ssm_in_multiplier * factors[:, None]
        return ssm(name, t)

    out.tensors(c, mamba2_names(w), f)


def granite(types, **config):
    return dict(config=dict(model_type="granitemoehybrid", num_hidden_layers=len(types), hidden_size=32,
                            layer_types=[NAMES[t] for t in types], embedding_multiplier=3.0, residual_multiplier=0.6,
                            attention_multiplier=0.3, logits_scaling=0.8, **config), fix=steps)


def falcon(**config):
    return dict(config=dict(model_type="falcon_h1", mamba_d_state=16, **config), fix=steps)


def jamba(**config):
    return dict(config=dict(model_type="jamba", hidden_size=32, **config), fix=steps)


ARCHS = {
    "granite4_f16": dict(granite((0, 1, 0), num_attention_heads=4, num_key_value_heads=1, mamba_n_heads=4, mamba_d_state=16,
                                 num_local_experts=5, num_experts_per_tok=2, intermediate_size=20,
                                 shared_intermediate_size=28),
                         gguf=gguf_granite, gguf_arch="granitehybrid"),
    "granite4_dense_f16": dict(granite((0, 0, 1), num_attention_heads=2, num_key_value_heads=2, mamba_n_heads=8,
                                       mamba_n_groups=2, mamba_d_state=24, mamba_d_conv=3, mamba_conv_bias=False,
                                       num_local_experts=0, shared_intermediate_size=40, attention_bias=True,
                                       tie_word_embeddings=True),
                               gguf=gguf_granite, gguf_arch="granitehybrid", config_json=old_names, embed=0.4),
    "granite4_rope_f16": granite((1, 0), num_attention_heads=4, num_key_value_heads=2, mamba_n_heads=2, mamba_d_state=16,
                                 mamba_proj_bias=True, num_local_experts=4, num_experts_per_tok=3, intermediate_size=16,
                                 shared_intermediate_size=24, position_embedding_type="rope",
                                 time_step_limit=[0.05, 2.0]),
    "granite4_attention_f16": granite((1, 1), num_local_experts=0, mamba_n_heads=4, shared_intermediate_size=40,
                                      position_embedding_type="rope"),
    "jamba_f16": dict(jamba(num_hidden_layers=5, attn_layer_period=3, attn_layer_offset=1, num_experts=4,
                            mamba_d_state=8, intermediate_size=40), gguf=gguf_jamba),
    "jamba_dense_f16": dict(jamba(num_hidden_layers=3, attn_layer_period=2, attn_layer_offset=0, num_experts=1,
                                  num_attention_heads=2, num_key_value_heads=1, mamba_dt_rank=5, mamba_d_conv=3,
                                  mamba_conv_bias=False, mamba_proj_bias=True, mamba_expand=1, rms_norm_eps=1e-4,
                                  tie_word_embeddings=True), embed=0.4),
    # multipliers are powers of two, so that they stay exact when merged into half-precision weights
    "falcon_h1_f16": dict(falcon(hidden_size=32, num_attention_heads=4, num_key_value_heads=2, mamba_d_ssm=48,
                                 mamba_n_heads=3, attention_in_multiplier=0.5, key_multiplier=2.0,
                                 attention_out_multiplier=0.5, ssm_in_multiplier=2.0,
                                 ssm_multipliers=[0.5, 1.0, 2.0, 0.25, 0.5], ssm_out_multiplier=0.5,
                                 mlp_multipliers=[2.0, 0.5], lm_head_multiplier=0.5, embedding_multiplier=4.0),
                          gguf=gguf_falcon, gguf_arch="falcon-h1"),
    "falcon_h1_norm_f16": dict(falcon(num_attention_heads=3, num_key_value_heads=1, mamba_d_ssm=64, mamba_n_heads=4,
                                      mamba_n_groups=2, mamba_d_conv=3, mamba_conv_bias=False, mamba_rms_norm=True,
                                      mamba_norm_before_gate=False, time_step_limit=[0.05, 2.0], head_dim=20,
                                      attention_in_multiplier=0.7, key_multiplier=1.3, attention_out_multiplier=0.6,
                                      ssm_in_multiplier=1.1, ssm_multipliers=[0.35, 0.8, 1.2, 0.9, 0.3],
                                      ssm_out_multiplier=0.45, mlp_multipliers=[0.9, 0.55], lm_head_multiplier=0.8,
                                      embedding_multiplier=5.6)),
    "falcon_h1_bias_f16": dict(falcon(num_attention_heads=3, num_key_value_heads=3, mamba_d_ssm=96, mamba_n_heads=6,
                                      mamba_rms_norm=True, mamba_norm_before_gate=True, attention_bias=True,
                                      mlp_bias=True, mamba_proj_bias=True, projectors_bias=True, key_multiplier=0.8,
                                      attention_out_multiplier=0.6, ssm_multipliers=[0.7, 0.8, 1.2, 0.9, 0.6],
                                      ssm_out_multiplier=0.45, mlp_multipliers=[0.9, 0.55], tie_word_embeddings=True),
                               embed=0.4),
    "falcon_h1_gated_f16": dict(falcon(hidden_size=32, num_attention_heads=2, num_key_value_heads=1, mamba_d_ssm=32,
                                       mamba_n_heads=2, mamba_n_groups=2, mamba_rms_norm=True,
                                       mamba_norm_before_gate=False),
                                gguf=gguf_falcon, gguf_arch="falcon-h1"),
}
