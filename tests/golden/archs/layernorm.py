"""Families with LayerNorm: GPT-2 and its descendants, GPT-NeoX, GPT-J, Phi, Falcon, StableLM, OPT."""
import re

import torch
from transformers.models.mpt import modeling_mpt

NO = ...  # keys of gen_archs' COMMON that a family doesn't have
GPT2 = dict(hidden_size=NO, num_hidden_layers=NO, num_attention_heads=NO, max_position_embeddings=NO,
            intermediate_size=NO, num_key_value_heads=NO, n_embd=48, n_layer=2, n_head=4, n_positions=128)
NEOX = dict(model_type="gpt_neox", num_key_value_heads=NO, max_position_embeddings=128,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))
FALCON = dict(model_type="falcon", intermediate_size=NO, num_key_value_heads=NO, max_position_embeddings=2048)
MPT = dict(model_type="mpt", d_model=32, n_layers=2, n_heads=4, max_seq_len=128, hidden_size=NO, num_hidden_layers=NO,
           num_attention_heads=NO, intermediate_size=NO, num_key_value_heads=NO, max_position_embeddings=NO)
OPT = dict(model_type="opt", intermediate_size=NO, num_key_value_heads=NO, ffn_dim=80, max_position_embeddings=126)


def eps(out, c):
    out.out.add_layer_norm_eps(next(v for k, v in c.to_dict().items() if re.match("layer_norm_eps|norm_eps", k)))


def gguf_gpt2(out, c, w):
    out.keys(c, inter=c.n_inner or 4 * c.n_embd)
    eps(out, c)
    out.tensors(c, w, lambda name, t: t.T if re.search(r"\.c_(attn|proj|fc)\.weight", name) else t)


def gguf_starcoder(out, c, w):
    out.keys(c, inter=c.n_inner or 4 * c.n_embd)
    eps(out, c)
    out.tensors(c, w)


def ungroup(t, n_kv, group, dim):
    """Reorder q, k and v from groups by KV head to all q, all k, all v."""
    x = t.reshape(n_kv, group, dim, *t.shape[1:])
    return torch.cat([x[:, :-2].flatten(0, 2), x[:, -2].flatten(0, 1), x[:, -1].flatten(0, 1)])


def rotary(out, c, factor):
    out.out.add_rope_dimension_count(int(factor * (c.hidden_size // c.num_attention_heads)))


def gguf_gptneox(out, c, w):
    out.keys(c)
    eps(out, c)
    rotary(out, c, c.rope_parameters["partial_rotary_factor"])
    out.out.add_parallel_residual(c.use_parallel_residual)
    dim = c.hidden_size // c.num_attention_heads
    out.tensors(c, w, lambda name, t: ungroup(t, c.num_attention_heads, 3, dim) if "query_key_value" in name else t)


def gguf_partial(out, c, w):
    """The file of Phi-2 and StableLM."""
    out.keys(c)
    eps(out, c)
    rotary(out, c, c.rope_parameters["partial_rotary_factor"])
    if hasattr(c, "use_parallel_residual"):
        out.out.add_parallel_residual(c.use_parallel_residual)
    for name in [k for k in w if ".norms.0." in k]:
        heads = [k for k in w if k.startswith(name[:name.index(".norms.")] + ".norms.")]
        t = torch.stack([w.pop(k) for k in heads])
        out.tensor("x.weight", t, f"blk.{name.split('.')[2]}.attn_{'q' if 'q_layernorm' in name else 'k'}_norm.weight")
    out.tensors(c, w)


def gguf_starcoder2(out, c, w):
    out.keys(c)
    eps(out, c)
    out.out.add_rope_freq_base(c.rope_parameters["rope_theta"])
    if c.sliding_window:
        out.out.add_sliding_window(c.sliding_window)
    out.tensors(c, w)


def gguf_falcon(out, c, w):
    n_kv = c.num_kv_heads if c.new_decoder_architecture else 1
    out.keys(c, inter=c.ffn_hidden_size, kv=n_kv)
    eps(out, c)
    out.out.add_tensor_data_layout("jploski")
    dim = c.hidden_size // c.num_attention_heads
    out.tensors(c, w, lambda name, t: ungroup(t, n_kv, c.num_attention_heads // n_kv + 2, dim)
                if "query_key_value" in name else t)


def gguf_bloom(out, c, w):
    out.keys(c, inter=4 * c.hidden_size, length=c.seq_length)
    eps(out, c)
    dim = c.hidden_size // c.n_head
    w = {k.removeprefix("transformer."): v for k, v in w.items()}
    out.tensors(c, w, lambda name, t: ungroup(t, c.n_head, 3, dim) if "query_key_value" in name else t)


def gguf_mpt(out, c, w):
    out.keys(c, inter=4 * c.d_model, length=c.max_seq_len)
    eps(out, c)
    out.out.add_max_alibi_bias(c.attn_config.alibi_bias_max)
    out.tensors(c, w)


def once(model):
    """Use SDPA, because Falcon's eager attention adds ALiBi twice in this version of transformers."""
    model.config._attn_implementation = "sdpa"


def bias_max(model):
    """Apply alibi_bias_max: transformers ignores it, MPT's own code does not."""
    f = modeling_mpt.build_mpt_alibi_tensor
    model.transformer.build_mpt_alibi_tensor = lambda heads, length, device: f(
        heads, length, model.config.attn_config.alibi_bias_max, device)


def theta_old(c):
    """Use the key names of GPT-NeoX's own configurations."""
    rope = c.pop("rope_parameters")
    c.update(rotary_pct=rope["partial_rotary_factor"], rotary_emb_base=rope["rope_theta"])


ARCHS = {
    "gpt2_f16": dict(config=dict(GPT2, model_type="gpt2", n_inner=80), gguf=gguf_gpt2),
    # n_inner has its default; scores are scaled by the layer's number instead of the head size
    "gpt2_scaled_f16": dict(config=dict(GPT2, model_type="gpt2", n_embd=32, scale_attn_by_inverse_layer_idx=True,
                                        scale_attn_weights=False, activation_function="relu",
                                        tie_word_embeddings=False)),
    "gpt_bigcode_f16": dict(config=dict(GPT2, model_type="gpt_bigcode", n_inner=80), gguf=gguf_starcoder,
                            gguf_arch="starcoder"),
    "gpt_bigcode_mha_f16": dict(config=dict(GPT2, model_type="gpt_bigcode", n_inner=96, multi_query=False,
                                            scale_attn_weights=False)),
    "starcoder2_f16": dict(config=dict(model_type="starcoder2", sliding_window=16, num_hidden_layers=3),
                           gguf=gguf_starcoder2),
    "starcoder2_nobias_f16": dict(config=dict(model_type="starcoder2", use_bias=False, tie_word_embeddings=False,
                                              sliding_window=None), gguf=gguf_starcoder2),
    "gptneox_f16": dict(config=dict(NEOX), gguf=gguf_gptneox, gguf_arch="gptneox"),
    "gptneox_serial_f16": dict(config=dict(NEOX, use_parallel_residual=False, num_attention_heads=3,
                                           hidden_act="gelu_new", tie_word_embeddings=True,
                                           rope_parameters=dict(rope_type="default", rope_theta=5000.0,
                                                                partial_rotary_factor=0.25)),
                               config_json=theta_old),
    "gptneox_nobias_f16": dict(config=dict(NEOX, attention_bias=False)),
    "phi_f16": dict(config=dict(model_type="phi", hidden_size=40, num_key_value_heads=4, intermediate_size=160,
                                rope_parameters=dict(rope_type="default", rope_theta=10000.0,
                                                     partial_rotary_factor=0.4)),
                    gguf=gguf_partial, gguf_arch="phi2"),
    "phi_norm_f16": dict(config=dict(model_type="phi", qk_layernorm=True)),
    "phi_gqa_f16": dict(config=dict(model_type="phi", num_key_value_heads=2)),
    "gptj_f16": dict(config=dict(GPT2, model_type="gptj", rotary_dim=8, n_inner=80)),
    "stablelm_f16": dict(config=dict(model_type="stablelm", hidden_size=32), gguf=gguf_partial),
    "stablelm_parallel_f16": dict(config=dict(model_type="stablelm", use_parallel_residual=True, use_qkv_bias=True,
                                              num_key_value_heads=4, hidden_size=32,
                                              rope_parameters=dict(rope_type="default", rope_theta=10000.0,
                                                                   partial_rotary_factor=0.5)),
                                  gguf=gguf_partial),
    "stablelm_norm_f16": dict(config=dict(model_type="stablelm", qk_layernorm=True, num_attention_heads=3,
                                          num_key_value_heads=1), gguf=gguf_partial),
    "falcon_mqa_f16": dict(config=dict(FALCON, ffn_hidden_size=96), gguf=gguf_falcon),
    "falcon_new_f16": dict(config=dict(FALCON, new_decoder_architecture=True, num_kv_heads=2,
                                       ffn_hidden_size=96, tie_word_embeddings=False), gguf=gguf_falcon),
    "falcon_new_one_norm_f16": dict(config=dict(FALCON, hidden_size=32, new_decoder_architecture=True, num_kv_heads=2,
                                                num_ln_in_parallel_attn=1), gguf=gguf_falcon),
    "falcon_serial_f16": dict(config=dict(FALCON, hidden_size=32, parallel_attn=False, multi_query=False,
                                         bias=True)),
    # like Falcon-RW
    "falcon_alibi_f16": dict(config=dict(FALCON, hidden_size=32, alibi=True, parallel_attn=False, multi_query=False,
                                         bias=True), reference=once),
    "bloom_f16": dict(config=dict(model_type="bloom", hidden_size=48, n_layer=2, n_head=6, seq_length=128,
                                  num_hidden_layers=NO, num_attention_heads=NO, intermediate_size=NO,
                                  num_key_value_heads=NO, max_position_embeddings=NO, tie_word_embeddings=False),
                      gguf=gguf_bloom, gain=4.0),
    "mpt_f16": dict(config=dict(MPT), gguf=gguf_mpt),
    "mpt_six_heads_f16": dict(config=dict(MPT, n_heads=6, d_model=36, attn_config=dict(
        alibi_bias_max=4, softmax_scale=0.3, clip_qkv=1.5), tie_word_embeddings=False),
                              reference=bias_max),
    "opt_f16": dict(config=dict(OPT)),
    "opt_post_f16": dict(config=dict(OPT, do_layer_norm_before=False, word_embed_proj_dim=32,
                                     tie_word_embeddings=False), gain=3.0),
    "opt_plain_f16": dict(config=dict(OPT, layer_norm_elementwise_affine=False, enable_bias=False,
                                      tie_word_embeddings=False)),
    "opt_no_final_f16": dict(config=dict(OPT, _remove_final_layer_norm=True)),
}
