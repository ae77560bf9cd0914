"""Architectures that are close to Llama."""
import math
import os

import gguf
import torch
from gen_archs import edit_json
from safetensors.torch import load_file, save_file

LONG = {"rope_theta": 10000.0, "short_factor": [1.0, 1.1, 1.3, 1.7, 2.0, 2.5, 3.0, 3.5],
        "long_factor": [1.0, 1.4, 2.0, 2.5, 4.0, 5.0, 7.0, 8.0]}


def llama_pairs(c):
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


def gguf_llama_like(out, c, w):
    out.keys(c)
    out.usual(c)
    out.out.add_vocab_size(c.vocab_size)
    out.out.add_rope_dimension_count(head_dim(c))
    out.tensors(c, w, llama_pairs(c))


def gguf_mistral3(out, c, w):
    """Write the text part alone, as the converter does."""
    names = {k: k.replace("model.language_model.", "model.") for k in w if "language_model." in k or k.startswith("lm_head.")}
    gguf_llama_like(out, c.text_config, {v: w[k] for k, v in names.items()})


def gguf_phi3(out, c, w):
    out.keys(c)
    out.out.add_layer_norm_rms_eps(c.rms_norm_eps)
    rope = c.rope_parameters
    dim = int(head_dim(c) * rope["partial_rotary_factor"])
    old = rope["original_max_position_embeddings"]
    out.out.add_rope_scaling_orig_ctx_len(old)
    out.out.add_rope_dimension_count(dim)
    out.out.add_rope_freq_base(rope["rope_theta"])
    out.out.add_sliding_window(c.sliding_window or 0)
    out.out.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(c.max_position_embeddings / old) / math.log(old)))
    for which in ("long", "short"):
        out.tensor(f"x.{which}", torch.tensor(rope[which + "_factor"]), f"rope_factors_{which}.weight")
    out.tensors(c, w)


def before_5(c):
    """Change config.json to the style before transformers 5."""
    rope = c.pop("rope_parameters")
    c.update(rope_theta=rope["rope_theta"], partial_rotary_factor=rope["partial_rotary_factor"],
             torch_dtype=c.pop("dtype"),
             rope_scaling={"type": "longrope", "short_factor": rope["short_factor"], "long_factor": rope["long_factor"]})


def gguf_olmo(out, c, w):
    out.keys(c)
    out.usual(c)
    out.out.add_layer_norm_eps(1e-5)
    out.out.add_clamp_kqv(c.clip_qkv)
    out.tensors(c, w, llama_pairs(c))


def gguf_olmo2(out, c, w):
    out.keys(c)
    out.usual(c)
    if hasattr(c, "sliding_window"):
        out.out.add_sliding_window(c.sliding_window)
        out.out.add_sliding_window_pattern([t == "sliding_attention" for t in c.layer_types])
    out.tensors(c, w)


def one_scaling(c):
    """Change config.json to the published style, in which the scaling applies only to the full layers."""
    rope = c.pop("rope_parameters")
    c["rope_theta"] = rope["full_attention"].pop("rope_theta")
    c["rope_scaling"] = rope["full_attention"]


def gguf_granite(out, c, w):
    gguf_llama_like(out, c, w)
    out.out.add_attention_scale(c.attention_multiplier)
    out.out.add_embedding_scale(c.embedding_multiplier)
    out.out.add_residual_scale(c.residual_multiplier)
    out.out.add_logit_scale(c.logits_scaling)


def gguf_minicpm(out, c, w):
    out.keys(c)
    out.usual(c)
    out.tensors(c, w, llama_pairs(c))
    out.out.add_embedding_scale(c.embedding_multiplier)
    out.out.add_residual_scale(c.residual_multiplier)
    out.out.add_logit_scale(c.logits_scaling)


def to_minicpm(path, model):
    """Store a Granite as a MiniCPM, which transformers lacks: the multipliers have other names."""
    def edit(c):
        c["scale_emb"] = c.pop("embedding_multiplier")
        c["scale_depth"] = c.pop("residual_multiplier") * math.sqrt(c["num_hidden_layers"])
        c["dim_model_base"] = round(c["hidden_size"] / c.pop("logits_scaling"))
        del c["attention_multiplier"]
        c.update(architectures=["MiniCPMForCausalLM"], model_type="minicpm")
    edit_json(path, edit)


def newer_names(path, model):
    """Use the tensor names of a model with a vision part as some releases of transformers store them."""
    file = os.path.join(path, "model.safetensors")
    out = {}
    for name, t in load_file(file).items():
        for a, b in (("language_model.model.", "model.language_model."), ("language_model.lm_head", "lm_head"),
                     ("vision_tower.", "model.vision_tower."), ("multi_modal_", "model.multi_modal_")):
            if name.startswith(a):
                name = b + name[len(a):]
                break
        out[name] = t
    save_file(out, file, metadata={"format": "pt"})


def gguf_glm(out, c, w):
    out.keys(c)
    out.out.add_layer_norm_rms_eps(c.rms_norm_eps)
    out.out.add_rope_dimension_count(head_dim(c) // 2)
    out.out.add_rope_freq_base(c.rope_parameters["rope_theta"])
    out.tensors(c, w)


def gguf_glm_original(out, c, w):
    """Write the file as converted from the original's checkpoints, which have q, k and v in one matrix."""
    w = dict(w)
    for i in range(c.num_hidden_layers):
        for end in ("weight", "bias"):
            t = torch.cat([w.pop(f"model.layers.{i}.self_attn.{x}_proj.{end}") for x in "qkv"])
            out.tensor(f"x.{end}", t, f"blk.{i}.attn_qkv.{end}")
    gguf_glm(out, c, w)


def gguf_glm4(out, c, w):
    out.keys(c)
    out.usual(c)
    out.out.add_rope_dimension_count(int(c.head_dim * c.rope_parameters["partial_rotary_factor"]))
    out.tensors(c, w)


def gguf_cohere(out, c, w):
    out.keys(c)
    out.usual(c)
    out.out.add_logit_scale(c.logit_scale)
    out.out.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    if hasattr(c, "sliding_window"):
        out.out.add_sliding_window(c.sliding_window)
        out.out.add_rope_dimension_count(head_dim(c))
        out.out.add_vocab_size(c.vocab_size)
    out.tensors(c, w)


def cfg(model_type, **config):
    return dict(config=dict(model_type=model_type, **config))


# Models with a vision part have no text options at the top: their text part has its own configuration.
NONE = {k: ... for k in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                         "num_key_value_heads", "max_position_embeddings")}
ARCHS = {
    "mistral3_f16": dict(auto="AutoModelForImageTextToText", **cfg("mistral3", **NONE, image_token_index=5, spatial_merge_size=2, vision_feature_layer=-1,
                        text_config=dict(model_type="mistral", vocab_size=288, hidden_size=48, intermediate_size=64,
                                         num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1, head_dim=12,
                                         max_position_embeddings=256, sliding_window=None, rms_norm_eps=1e-5),
                        vision_config=dict(model_type="pixtral", hidden_size=16, intermediate_size=16, head_dim=8,
                                           num_hidden_layers=1, num_attention_heads=2, image_size=32, patch_size=8)),
                         stored=newer_names, gguf=gguf_mistral3),
    "phi3_f16": dict(**cfg("phi3", num_attention_heads=3, num_key_value_heads=1, max_position_embeddings=256,
                           original_max_position_embeddings=16, tie_word_embeddings=True,
                           rope_parameters={**{k: v[:6] if isinstance(v, list) else v for k, v in LONG.items()},
                                            "rope_type": "longrope", "partial_rotary_factor": 0.75}),
                     config_json=before_5, gguf=gguf_phi3),
    "phi3_short_f16": cfg("phi3", num_attention_heads=3, num_key_value_heads=3, max_position_embeddings=128,
                          original_max_position_embeddings=128, sliding_window=12,
                          rope_parameters={**LONG, "rope_type": "longrope", "attention_factor": 1.3}),
    "smollm3_f16": dict(**cfg("smollm3", num_hidden_layers=4, hidden_size=32, intermediate_size=48, num_key_value_heads=1),
                        gguf=gguf_llama_like),
    "smollm3_window_f16": dict(**cfg("smollm3", num_hidden_layers=3, use_sliding_window=True, sliding_window=10,
                                     no_rope_layers=[1, 0, 1], attention_bias=True, mlp_bias=True, hidden_size=32,
                                     tie_word_embeddings=False),
                               config_json=lambda c: c.pop("layer_types")),
    "olmo_f16": dict(**cfg("olmo", clip_qkv=0.6), gguf=gguf_olmo),
    "olmo_bias_f16": cfg("olmo", attention_bias=True, hidden_size=32, head_dim=8, tie_word_embeddings=True),
    "olmo2_f16": dict(**cfg("olmo2", num_attention_heads=6), gguf=gguf_olmo2),
    "olmo2_bias_f16": dict(**cfg("olmo2", attention_bias=True, rms_norm_eps=1e-3), embed=5),
    "olmo3_f16": dict(**cfg("olmo3", num_hidden_layers=4, hidden_size=32, intermediate_size=48, sliding_window=12,
                            max_position_embeddings=128,
                            rope_parameters={"full_attention": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 500000.0,
                                                                "original_max_position_embeddings": 32},
                                             "sliding_attention": {"rope_type": "default", "rope_theta": 500000.0}}),
                      config_json=one_scaling, gguf=gguf_olmo2, gguf_arch="olmo2"),
    "granite_f16": dict(**cfg("granite", embedding_multiplier=6.0, residual_multiplier=0.4, attention_multiplier=0.2,
                              logits_scaling=1.5), gguf=gguf_granite),
    "granite_bias_f16": cfg("granite", embedding_multiplier=2.0, attention_bias=True, mlp_bias=True,
                            attention_multiplier=0.3, tie_word_embeddings=True),
    "minicpm_f16": dict(**cfg("granite", embedding_multiplier=3.0, residual_multiplier=1.4 / math.sqrt(2),
                              attention_multiplier=12 ** -0.5, logits_scaling=1.5),
                        gguf=gguf_minicpm, gguf_arch="minicpm", stored=to_minicpm),
    "glm_f16": dict(**cfg("glm", num_attention_heads=3, num_key_value_heads=1, head_dim=16, rms_norm_eps=1e-5),
                    gguf=gguf_glm, gguf_arch="chatglm"),
    "glm_original_f16": dict(**cfg("glm", hidden_size=36, num_attention_heads=3, num_key_value_heads=1, head_dim=12,
                                   partial_rotary_factor=0.5),
                             gguf=gguf_glm_original, gguf_arch="chatglm"),
    "glm4_f16": dict(**cfg("glm4", num_attention_heads=3, num_key_value_heads=1, head_dim=24,
                           rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}),
                     gguf=gguf_glm4),
    "cohere_f16": dict(**cfg("cohere", use_qk_norm=True, logit_scale=0.7), gguf=gguf_cohere, gguf_arch="command-r"),
    "cohere_bias_f16": cfg("cohere", attention_bias=True, logit_scale=1.2, tie_word_embeddings=False),
    "cohere2_layers_f16": cfg("cohere2", sliding_window=9, attention_bias=True, logit_scale=1.3, tie_word_embeddings=False,
                              layer_types=["full_attention", "sliding_attention"]),
    "cohere2_f16": dict(**cfg("cohere2", num_hidden_layers=4, hidden_size=32, intermediate_size=48, sliding_window=12,
                              logit_scale=0.8, rotary_pct=1.0), gguf=gguf_cohere),
}
