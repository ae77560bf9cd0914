"""More architectures that are close to Llama."""
import os

import gguf
import torch
from gen_archs import edit_json
from safetensors.torch import load_file, save_file


def pairs(c):
    """Do what the converter does to q and k of Llama-like models: move the two halves of a head to
    interleaved pairs."""
    def change(name, t):
        for part, heads in (("q_proj", c.num_attention_heads), ("k_proj", c.num_key_value_heads)):
            if part in name:
                t = t.reshape(heads, 2, t.shape[0] // heads // 2, *t.shape[1:]).swapaxes(1, 2).reshape(t.shape)
        return t
    return change


def head_dim(c):
    return getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads


def gguf_nemotron(out, c, w):
    out.keys(c)
    out.usual(c)
    out.out.add_layer_norm_rms_eps(c.norm_eps)
    out.out.add_layer_norm_eps(c.norm_eps)
    out.out.add_vocab_size(c.vocab_size)
    out.out.add_rope_dimension_count(int(head_dim(c) * c.rope_parameters["partial_rotary_factor"]))
    out.out.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    out.tensors(c, w, lambda name, t: t + 1 if name.endswith("norm.weight") else t)


def about_one(model, generator):
    """Draw norm weights that are about one after the model has added its own one."""
    for name, p in model.named_parameters():
        if name.endswith("norm.weight"):
            p.sub_(1)


def gguf_arcee(out, c, w):
    out.keys(c)
    out.usual(c)
    out.out.add_vocab_size(c.vocab_size)
    out.out.add_rope_dimension_count(head_dim(c))
    out.tensors(c, w, pairs(c))


def gguf_plain(out, c, w):
    out.keys(c)
    out.usual(c)
    out.tensors(c, w)


def gguf_exaone4(out, c, w):
    out.keys(c)
    out.usual(c)
    out.out.add_vocab_size(c.vocab_size)
    out.out.add_sliding_window(c.sliding_window)
    out.out.add_sliding_window_pattern([t == "sliding_attention" for t in c.layer_types])
    out.tensors(c, w)


def gguf_exaone(out, c, w):
    out.keys(c)
    out.rope(c)
    out.out.add_layer_norm_eps(c.rms_norm_eps)
    out.out.add_key_length(c.head_dim)
    out.out.add_value_length(c.head_dim)
    out.out.add_rope_dimension_count(head_dim(c))
    for name, t in exaone(w).items():
        out.tensor(name, t)


def gguf_internlm2(out, c, w):
    """Write the file with the converter's names and split tensors, like Llama's."""
    out.keys(c)
    out.usual(c)
    for name, t in internlm2_names(w).items():
        qkv = {x: f"blk.{name.split('.')[2]}.attn_{x}.weight" for x in "qkv" if f"{x}_proj" in name}
        out.tensor(name, pairs(c)(name, t), *qkv.values())


# ---- architectures that transformers lacks: Llama with other tensor names ----

def rename(weights, table):
    out = {}
    for name, t in weights.items():
        for a, b in table:
            name = name.replace(a, b)
        out[name] = t
    return out


def exaone(w):
    return rename(w, [
        ("model.layers.", "transformer.h."), ("self_attn.o_proj", "attn.attention.out_proj"), ("self_attn.", "attn.attention."),
        ("mlp.gate_proj", "mlp.c_fc_0"), ("mlp.up_proj", "mlp.c_fc_1"), ("mlp.down_proj", "mlp.c_proj"),
        ("input_layernorm", "ln_1"), ("post_attention_layernorm", "ln_2"), ("model.embed_tokens", "transformer.wte"),
        ("model.norm", "transformer.ln_f")])


def internlm2(c, w):
    """Store q, k and v in one matrix, grouped by the heads of k."""
    for i in range(c.num_hidden_layers):
        p = f"model.layers.{i}.self_attn."
        q, k, v = (w.pop(f"{p}{x}_proj.weight") for x in "qkv")
        parts = (q.reshape(c.num_key_value_heads, -1, head_dim(c), c.hidden_size),
                 k.reshape(-1, 1, head_dim(c), c.hidden_size), v.reshape(-1, 1, head_dim(c), c.hidden_size))
        w[f"model.layers.{i}.attention.wqkv.weight"] = torch.cat(parts, dim=1).reshape(-1, c.hidden_size).contiguous()
        if c.attention_bias:
            q, k, v = (w.pop(f"{p}{x}_proj.bias") for x in "qkv")
            parts = (q.reshape(c.num_key_value_heads, -1, head_dim(c)), k.reshape(-1, 1, head_dim(c)),
                     v.reshape(-1, 1, head_dim(c)))
            w[f"model.layers.{i}.attention.wqkv.bias"] = torch.cat(parts, dim=1).reshape(-1).contiguous()
    return internlm2_names(w)


def internlm2_names(w):
    return rename(w, [
        ("self_attn.o_proj", "attention.wo"), ("mlp.gate_proj", "feed_forward.w1"), ("mlp.up_proj", "feed_forward.w3"),
        ("mlp.down_proj", "feed_forward.w2"), ("input_layernorm", "attention_norm"),
        ("post_attention_layernorm", "ffn_norm"), ("embed_tokens", "tok_embeddings"), ("lm_head", "output")])


def stored_as(rename_weights, edit):
    def stored(path, model):
        file = os.path.join(path, "model.safetensors")
        save_file(rename_weights(model.config, load_file(file)), file, metadata={"format": "pt"})
        edit_json(path, edit)
    return stored


def baichuan(c, w):
    for i in range(c.num_hidden_layers):
        p = f"model.layers.{i}.self_attn."
        w[p + "W_pack.weight"] = torch.cat([w.pop(f"{p}{x}_proj.weight") for x in "qkv"])
    return w


def gguf_baichuan(out, c, w):
    gguf_arcee(out, c, w)
    out.out.add_tensor_data_layout("Meta AI original pth")


def to_baichuan(c):
    c.update(architectures=["BaichuanForCausalLM"], model_type="baichuan")
    del c["num_key_value_heads"], c["head_dim"]


def to_exaone(c):
    c.update(architectures=["ExaoneForCausalLM"], model_type="exaone", num_layers=c.pop("num_hidden_layers"),
             layer_norm_epsilon=c.pop("rms_norm_eps"), activation_function=c.pop("hidden_act"))


def to_internlm2(c):
    c.update(architectures=["InternLM2ForCausalLM"], model_type="internlm2", bias=c.pop("attention_bias"))


def cfg(model_type, **config):
    return dict(config=dict(model_type=model_type, **config))


THREE = dict(num_attention_heads=3, num_key_value_heads=1)
PART = dict(rope_type="default", rope_theta=10000.0)
ARCHS = {
    "nemotron_f16": dict(**cfg("nemotron", **THREE, norm_eps=1e-4), fix=about_one, gguf=gguf_nemotron),
    "nemotron_bias_f16": dict(**cfg("nemotron", **THREE, head_dim=24, attention_bias=True, mlp_bias=True,
                                    rope_parameters=dict(**PART, partial_rotary_factor=0.25)), fix=about_one),
    "arcee_f16": dict(**cfg("arcee", **THREE), gguf=gguf_arcee),
    "arcee_bias_f16": cfg("arcee", attention_bias=True, mlp_bias=True, head_dim=16),
    "ernie4_5_f16": dict(**cfg("ernie4_5", **THREE, head_dim=16, tie_word_embeddings=False), gguf=gguf_plain),
    "ernie4_5_bias_f16": cfg("ernie4_5", **THREE, head_dim=16, use_bias=True, tie_word_embeddings=False),
    "seed_oss_f16": dict(**cfg("seed_oss", **THREE, head_dim=16), gguf=gguf_plain),
    "seed_oss_bias_f16": cfg("seed_oss", **THREE, head_dim=16, attention_bias=False, attention_out_bias=True,
                             mlp_bias=True),
    "hunyuan_f16": dict(**cfg("hunyuan_v1_dense", **THREE, head_dim=16), gguf=gguf_plain, gguf_arch="hunyuan-dense"),
    "hunyuan_alpha_f16": cfg("hunyuan_v1_dense", **THREE, head_dim=16, attention_bias=True,
                             rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, alpha=50.0, factor=1.0)),
    "exaone4_f16": dict(**cfg("exaone4", num_hidden_layers=4, hidden_size=32, intermediate_size=48, sliding_window=12,
                              head_dim=16, layer_types=[w + "_attention" for w in ("full", "sliding", "full", "sliding")]),
                        gguf=gguf_exaone4),
    "exaone4_full_f16": cfg("exaone4", sliding_window=None, layer_types=["full_attention"] * 2),
    "exaone_f16": dict(**cfg("llama", head_dim=12), gguf=gguf_exaone, gguf_arch="exaone",
                       stored=stored_as(lambda c, w: exaone(w), to_exaone)),
    "baichuan_f16": dict(**cfg("llama", num_key_value_heads=4), gguf=gguf_baichuan, gguf_arch="baichuan",
                         stored=stored_as(baichuan, to_baichuan)),
    "internlm2_f16": dict(**cfg("llama", num_attention_heads=6, num_key_value_heads=2),
                          gguf=gguf_internlm2, gguf_arch="internlm2", stored=stored_as(internlm2, to_internlm2)),
    "internlm2_bias_f16": dict(**cfg("llama", num_attention_heads=6, num_key_value_heads=2, attention_bias=True),
                               stored=stored_as(internlm2, to_internlm2)),
    "internlm3_f16": dict(**cfg("internlm3", **THREE, head_dim=16, attention_bias=True, mlp_bias=True),
                          gguf=gguf_arcee, gguf_arch="llama"),
}
