"""Architectures that have one or two blocks of their own: Apertus, Baichuan 13B, LFM2, Llama 4, Ministral
3, Persimmon."""
import gguf
import torch
from dense2 import baichuan, cfg, gguf_baichuan, pairs, stored_as, to_baichuan
from moe import experts

NO = ...
THREE = dict(num_attention_heads=3, num_key_value_heads=1)
PLAIN = dict(rope_type="default", rope_theta=10000.0)


def gguf_apertus(out, c, w):
    slopes = {}

    def f(name, t):
        if ".act_fn." in name:
            slopes.setdefault(name.rsplit(".", 1)[1], []).append(t.float().item())
            return None
        return t

    out.keys(c)
    out.usual(c)
    out.tensors(c, w, f)
    for name, values in slopes.items():
        getattr(out.out, "add_xielu_" + name)(values)


def gguf_ministral3(out, c, w):
    out.keys(c)
    out.usual(c)
    out.out.add_rope_dimension_count(c.head_dim)
    out.out.add_rope_scaling_yarn_log_mul(c.rope_parameters["mscale_all_dim"])
    out.out.add_attn_temperature_scale(c.rope_parameters["llama_4_scaling_beta"])
    out.tensors(c, w, pairs(c))


def gguf_lfm2(out, c, w):
    o = out.out
    out.keys(c, kv=[c.num_key_value_heads if t == "full_attention" else 0 for t in c.layer_types])
    o.add_shortconv_l_cache(c.conv_L_cache)
    o.add_layer_norm_rms_eps(c.norm_eps)
    o.add_rope_freq_base(c.rope_parameters["rope_theta"])
    out.tensors(c, w, lambda name, t: t.squeeze(1) if name.endswith("conv.conv.weight") else t)


def expert_bias(model, generator):
    for name, b in model.named_buffers():
        if name.endswith("expert_bias"):
            b.copy_(0.2 * torch.randn(b.shape, generator=generator))


def gguf_lfm2_moe(out, c, w):
    o = out.out
    out.keys(c, kv=[c.num_key_value_heads if t == "full_attention" else 0 for t in c.layer_types])
    o.add_shortconv_l_cache(c.conv_L_cache)
    o.add_layer_norm_rms_eps(c.norm_eps)
    o.add_rope_freq_base(c.rope_parameters["rope_theta"])
    o.add_expert_count(c.num_experts)
    o.add_expert_used_count(c.num_experts_per_tok)
    o.add_expert_feed_forward_length(c.moe_intermediate_size)
    o.add_leading_dense_block_count(c.num_dense_layers)
    o.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)

    def f(name, t):
        if name.endswith("expert_bias"):
            o.add_tensor(f"blk.{name.split('.')[2]}.exp_probs_b.bias", t.float().numpy())
            return None
        return t.squeeze(1) if name.endswith("conv.conv.weight") else t

    experts(out, c, w, f)


def old_lfm2(c):
    """Use the keys of LFM2's own configurations."""
    c["full_attn_idxs"] = [i for i, t in enumerate(c.pop("layer_types")) if t == "full_attention"]
    c["block_ff_dim"] = c.pop("intermediate_size")
    c["tie_embedding"] = c.pop("tie_word_embeddings")


def gguf_llama4(out, c, w):
    o = out.out
    out.keys(c, inter=c.intermediate_size_mlp)
    out.usual(c)
    o.add_rope_dimension_count(c.head_dim)
    o.add_expert_count(c.num_local_experts)
    o.add_expert_used_count(c.num_experts_per_tok)
    o.add_expert_feed_forward_length(c.intermediate_size)
    o.add_interleave_moe_layer_step(c.interleave_moe_layer_step)
    experts(out, c, w, lambda name, t: t.transpose(1, 2) if ".experts." in name else t)


def alibi(model):
    """Make a Llama compute like Baichuan 13B: a bias by distance instead of rotary positions."""
    heads = model.config.num_attention_heads
    pow2 = 2 ** (heads.bit_length() - 1)
    slopes = [2 ** (-8 * (i + 1) / pow2) for i in range(pow2)]
    slopes += [2 ** (-4 * (2 * i + 1) / pow2) for i in range(heads - pow2)]
    slopes = torch.tensor(slopes).reshape(1, -1, 1, 1)

    def bias(module, args, kwargs):
        mask = kwargs["attention_mask"]
        q, k = mask.shape[-2:]
        distance = torch.arange(k).reshape(1, 1, 1, k) - torch.arange(k - q, k).reshape(1, 1, q, 1)
        kwargs["attention_mask"] = mask + slopes * distance
        return args, kwargs

    def no_rotation(x, position_ids):
        n = model.config.head_dim
        return torch.ones(1, position_ids.shape[-1], n), torch.zeros(1, position_ids.shape[-1], n)

    model.model.rotary_emb.forward = no_rotation
    for layer in model.model.layers:
        layer.self_attn.register_forward_pre_hook(bias, with_kwargs=True)


def to_baichuan_13b(c):
    to_baichuan(c)
    c["model_max_length"] = c.pop("max_position_embeddings")


YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=8.0, original_max_position_embeddings=24, beta_fast=32.0,
            beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.4)
LLAMA4 = dict(num_hidden_layers=4, head_dim=16, num_local_experts=4, num_experts_per_tok=1, intermediate_size=20,
              intermediate_size_mlp=40, num_attention_heads=3, num_key_value_heads=1)

ARCHS = {
    "apertus_f16": dict(**cfg("apertus", **THREE, rope_parameters=PLAIN), gguf=gguf_apertus),
    "apertus_bias_f16": cfg("apertus", num_attention_heads=4, num_key_value_heads=2, attention_bias=True,
                            tie_word_embeddings=True,
                            rope_parameters=dict(rope_type="llama3", rope_theta=10000.0, factor=8.0,
                                                 original_max_position_embeddings=32, low_freq_factor=1.0,
                                                 high_freq_factor=4.0)),
    "baichuan_13b_f16": dict(**cfg("llama", hidden_size=20, intermediate_size=24, num_hidden_layers=40,
                                   num_attention_heads=5, num_key_value_heads=5),
                             gguf=gguf_baichuan, gguf_arch="baichuan", gain=0.8, reference=alibi,
                             stored=stored_as(baichuan, to_baichuan_13b)),
    "lfm2_f16": dict(**cfg("lfm2", num_hidden_layers=4, hidden_size=32, block_auto_adjust_ff_dim=False,
                           layer_types=["conv", "full_attention", "conv", "conv"]), gguf=gguf_lfm2, embed=0.4),
    "lfm2_adjusted_f16": dict(**cfg("lfm2", num_hidden_layers=3, hidden_size=48, conv_L_cache=4, conv_bias=True,
                                    block_multiple_of=16, block_ffn_dim_multiplier=1.3, tie_word_embeddings=False,
                                    layer_types=["full_attention", "conv", "full_attention"], **THREE),
                              config_json=old_lfm2),
    "lfm2_moe_f16": dict(**cfg("lfm2_moe", num_hidden_layers=4, hidden_size=32, num_experts=6, num_experts_per_tok=2,
                               moe_intermediate_size=16, num_dense_layers=1,
                               layer_types=["conv", "full_attention", "conv", "conv"]),
                         gguf=gguf_lfm2_moe, gguf_arch="lfm2moe", fix=expert_bias, embed=0.4),
    "lfm2_moe_plain_f16": dict(**cfg("lfm2_moe", num_hidden_layers=3, hidden_size=32, num_experts=4,
                                     num_experts_per_tok=3, moe_intermediate_size=16, num_dense_layers=0,
                                     use_expert_bias=False, norm_topk_prob=False, routed_scaling_factor=1.5,
                                     conv_bias=True, tie_word_embeddings=False,
                                     layer_types=["full_attention", "conv", "full_attention"])),
    "llama4_f16": dict(**cfg("llama4_text", **LLAMA4, interleave_moe_layer_step=2), gguf=gguf_llama4,
                       gguf_arch="llama4"),
    "llama4_chunks_f16": cfg("llama4_text", **{**LLAMA4, "num_experts_per_tok": 2}, moe_layers=[0, 1],
                             no_rope_layers=[1, 0, 0, 1], attention_chunk_size=20, floor_scale=16, attn_scale=0.4,
                             attention_bias=True, use_qk_norm=False,
                             layer_types=["chunked_attention", "full_attention", "chunked_attention",
                                          "full_attention"]),
    "ministral3_f16": dict(**cfg("ministral3", num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                                 rope_parameters=YARN), gguf=gguf_ministral3, gguf_arch="mistral3"),
    "persimmon_f16": cfg("persimmon", num_key_value_heads=NO),
    "persimmon_plain_f16": dict(**cfg("persimmon", num_key_value_heads=NO, num_attention_heads=3, qk_layernorm=False,
                                      tie_word_embeddings=True, hidden_act="gelu",
                                      rope_parameters=dict(PLAIN, partial_rotary_factor=0.25)), embed=0.4),
}
