"""Gemma 1, 2 and 3, in BF16, in which all of them were trained."""
import torch


def in_bf16(model):
    """Round the embedding's factor as a BF16 model does; the reference computes in float."""
    for m in model.modules():
        if hasattr(m, "embed_scale"):
            m.embed_scale.copy_(m.embed_scale.to(torch.bfloat16))


def gguf_gemma(out, c, w):
    out.keys(c, add_bos=True)
    out.out.add_layer_norm_rms_eps(c.rms_norm_eps)
    out.out.add_key_length(c.head_dim)
    out.out.add_value_length(c.head_dim)
    if hasattr(c, "sliding_window"):
        out.out.add_sliding_window(c.sliding_window)
    if getattr(c, "attn_logit_softcapping", None):
        out.out.add_attn_logit_softcapping(c.attn_logit_softcapping)
    if getattr(c, "final_logit_softcapping", None):
        out.out.add_final_logit_softcapping(c.final_logit_softcapping)
    if "sliding_attention" in c.rope_parameters:
        out.rope(c)
    out.tensors(c, w, lambda name, t: t + 1 if name.endswith("norm.weight") else t)


def before_5(c):
    """Change config.json to the style of the published checkpoints."""
    c["torch_dtype"] = c.pop("dtype")
    rope = c.pop("rope_parameters")
    if "full_attention" in rope:
        c["rope_theta"] = rope["full_attention"].pop("rope_theta")
        c["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        c["rope_scaling"] = rope["full_attention"]
        del c["layer_types"]
        c["sliding_window_pattern"] = 6
    else:
        c["rope_theta"] = rope["rope_theta"]
    if c.get("hidden_act") == "gelu_pytorch_tanh":
        c["hidden_act"] = "gelu"


def whole_before_5(c):
    """The same for the whole model with its vision part: leave out keys that have their default."""
    t = c["text_config"]
    before_5(t)
    t["sliding_window_pattern"] = 2
    for key in ("tie_word_embeddings", "query_pre_attn_scalar", "attention_bias", "torch_dtype"):
        t.pop(key, None)
    c["torch_dtype"] = c.pop("dtype")


def gemma(model_type, **config):
    return dict(config=dict(model_type=model_type, dtype="bfloat16", num_attention_heads=3, num_key_value_heads=1,
                            head_dim=16, **config), reference=in_bf16, gguf_types=["BF16"],
                gain=2, embed=0.2)


TWO_ROPES = {"full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 100000.0},
             "sliding_attention": {"rope_type": "default", "rope_theta": 1000.0}}
NONE = {k: ... for k in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                         "num_key_value_heads", "max_position_embeddings")}
ARCHS = {
    "gemma_bf16": dict(**gemma("gemma"), config_json=before_5, gguf=gguf_gemma),
    "gemma2_bf16": dict(**gemma("gemma2", num_hidden_layers=3, sliding_window=12, query_pre_attn_scalar=16,
                                attn_logit_softcapping=3.0, final_logit_softcapping=1.0), gguf=gguf_gemma) |
    dict(embed=0.4),
    "gemma2_scalar_bf16": gemma("gemma2", sliding_window=9, query_pre_attn_scalar=24, attention_bias=True,
                                layer_types=["full_attention", "sliding_attention"]),
    "gemma3_bf16": dict(**gemma("gemma3_text", hidden_size=36, num_hidden_layers=6, sliding_window=12,
                                query_pre_attn_scalar=16, rope_parameters=TWO_ROPES),
                        config_json=before_5, gguf=gguf_gemma, gguf_arch="gemma3"),
    "gemma3_layers_bf16": gemma("gemma3_text", sliding_window=9, query_pre_attn_scalar=20, attention_bias=True,
                                final_logit_softcapping=0.6, rope_parameters=TWO_ROPES,
                                layer_types=["full_attention", "sliding_attention"]),
    "gemma3_vision_bf16": dict(
        config=dict(model_type="gemma3", dtype="bfloat16", **NONE, mm_tokens_per_image=4, image_token_index=5,
                    boi_token_index=6, eoi_token_index=7,
                    text_config=dict(vocab_size=288, hidden_size=48, intermediate_size=64, num_hidden_layers=2,
                                     num_attention_heads=3, num_key_value_heads=1, head_dim=16, sliding_window=10,
                                     max_position_embeddings=256, rope_parameters=TWO_ROPES, pad_token_id=2,
                                     layer_types=["sliding_attention", "full_attention"]),
                    vision_config=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                                       num_attention_heads=2, image_size=32, patch_size=8)),
        reference=in_bf16, config_json=whole_before_5, gain=2, embed=0.2),
}
