"""State-space models: Mamba, Falcon Mamba, Mamba-2."""
import torch

NO = ...
BASE = dict(num_attention_heads=NO, num_key_value_heads=NO, intermediate_size=NO, max_position_embeddings=NO,
            hidden_size=32)


def ssm_keys(out, c, inner, dt_rank):
    o = out.out
    o.add_name("tiny")
    o.add_context_length(2 ** 20)
    o.add_embedding_length(c.hidden_size)
    o.add_feed_forward_length(0)
    o.add_head_count(0)
    o.add_block_count(c.num_hidden_layers)
    o.add_ssm_conv_kernel(c.conv_kernel)
    o.add_ssm_inner_size(inner)
    o.add_ssm_state_size(c.state_size)
    o.add_ssm_time_step_rank(dt_rank)
    o.add_layer_norm_rms_eps(c.layer_norm_epsilon)
    out.tokenizer()


def change(name, t, groups=0):
    """Convert a tensor: A instead of its logarithm, the convolution without dimensions of 1; some tensors
    of Mamba-2 get one more dimension."""
    if name.endswith("A_log"):
        t = -torch.exp(t)
    if name.endswith("conv1d.weight"):
        t = t.squeeze()
    if groups and name.endswith(("A_log", ".D")):
        t = t.reshape(-1, 1)
    if groups and name.endswith("mixer.norm.weight"):
        t = t.reshape(groups, -1)
    return t


def gguf_mamba(out, c, w):
    ssm_keys(out, c, c.intermediate_size, c.time_step_rank)
    out.out.add_ssm_dt_b_c_rms(c.model_type == "falcon_mamba")
    out.tensors(c, w, change)


def gguf_mamba2(out, c, w):
    ssm_keys(out, c, c.num_heads * c.head_dim, c.num_heads)
    out.out.add_ssm_group_count(c.n_groups)
    out.tensors(c, {k.replace("dt_bias", "dt_proj.bias"): v for k, v in w.items()},
                lambda name, t: change(name, t, c.n_groups))


def steps(model, generator):
    """Draw values that give decays of many lengths."""
    for name, p in model.named_parameters():
        if name.endswith("A_log"):
            p.copy_(torch.rand(p.shape, generator=generator) * 2.5)
        if name.endswith(("dt_proj.bias", "dt_bias")):
            p.copy_(torch.rand(p.shape, generator=generator) * 4 - 4)


def mamba(model_type="mamba", **config):
    return dict(config=dict(BASE, model_type=model_type, **config), fix=steps)


ARCHS = {
    "mamba_f16": dict(mamba(state_size=8, tie_word_embeddings=True), gguf=gguf_mamba),
    "mamba_bias_f16": mamba(state_size=20, conv_kernel=3, use_bias=True, use_conv_bias=False, expand=1,
                            time_step_rank=5, tie_word_embeddings=False),
    "falcon_mamba_f16": dict(mamba("falcon_mamba", state_size=16, mixer_rms_eps=1e-3), gguf_arch="mamba"),
    "mamba2_f16": dict(mamba("mamba2", state_size=16, num_heads=4, head_dim=16, n_groups=2), gguf=gguf_mamba2),
    "mamba2_limits_f16": mamba("mamba2", state_size=24, num_heads=8, head_dim=8, n_groups=1, use_bias=True,
                               use_conv_bias=False, conv_kernel=3, time_step_limit=[0.1, 1.5],
                               tie_word_embeddings=True),
}
