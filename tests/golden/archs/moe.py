"""Mixtures of experts that are otherwise as Llama or Qwen."""


def interleave(t, heads):
    return t.reshape(heads, 2, t.shape[0] // heads // 2, *t.shape[1:]).swapaxes(1, 2).reshape(t.shape)


def experts(out, c, w, change=lambda name, t: t):
    """All tensors; gate and up of the experts, one tensor in transformers, apart."""
    for name, t in w.items():
        t = change(name, t)
        if t is None or name == "lm_head.weight" and c.tie_word_embeddings:
            continue
        if "experts.gate_up_proj" in name:
            n = int(name.split(".")[2])
            half = t.shape[1] // 2
            out.tensor("x.weight", t[:, :half], f"blk.{n}.ffn_gate_exps.weight")
            out.tensor("x.weight", t[:, half:], f"blk.{n}.ffn_up_exps.weight")
        elif "experts.down_proj" in name:
            out.tensor("x.weight", t, f"blk.{name.split('.')[2]}.ffn_down_exps.weight")
        elif name.endswith("mlp.gate.weight"):
            # a router stays in float
            n = int(name.split(".")[2])
            out.out.add_tensor(f"blk.{n}.ffn_gate_inp.weight", t.float().numpy())
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


SMALL = dict(hidden_size=32, intermediate_size=40, num_hidden_layers=2)

ARCHS = {
    "mixtral_f16": dict(config=dict(SMALL, model_type="mixtral", num_local_experts=5, num_experts_per_tok=2,
                                    intermediate_size=28, head_dim=12, sliding_window=9, rms_norm_eps=1e-5)),
    "mixtral_plain_f16": dict(config=dict(SMALL, model_type="mixtral", num_local_experts=4, num_experts_per_tok=3,
                                          intermediate_size=24, head_dim=16, rms_norm_eps=1e-5),
                              gguf=gguf_mixtral, gguf_arch="llama"),
    # experts in layers 1 and 3 but for those listed
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
}
