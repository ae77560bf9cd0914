"""Qwen3, and a Llama that is wide enough for its permuted q and k to span several strips."""


def gguf_qwen3(out, c, w):
    out.keys(c)
    out.out.add_key_length(c.head_dim)
    out.out.add_value_length(c.head_dim)
    out.out.add_layer_norm_rms_eps(c.rms_norm_eps)
    out.out.add_rope_freq_base(c.rope_parameters["rope_theta"])
    for name, t in w.items():
        if name != "lm_head.weight" or not c.tie_word_embeddings:
            out.tensor(name, t)


def interleave(t, heads):
    """Move the two halves of each head to interleaved pairs."""
    return t.reshape(heads, 2, t.shape[0] // heads // 2, *t.shape[1:]).swapaxes(1, 2).reshape(t.shape)


def gguf_llama(out, c, w):
    out.keys(c, add_bos=True)
    out.out.add_layer_norm_rms_eps(c.rms_norm_eps)
    out.out.add_rope_freq_base(c.rope_parameters["rope_theta"])
    out.out.add_rope_dimension_count(c.head_dim)
    out.out.add_key_length(c.head_dim)
    out.out.add_value_length(c.head_dim)
    for name, t in w.items():
        if name.endswith("q_proj.weight"):
            t = interleave(t, c.num_attention_heads)
        if name.endswith("k_proj.weight"):
            t = interleave(t, c.num_key_value_heads)
        out.tensor(name, t)


ARCHS = {
    "qwen3_f16": dict(config=dict(model_type="qwen3", head_dim=16, rms_norm_eps=1e-6, tie_word_embeddings=True),
                      gguf=gguf_qwen3),
    "llama_wide_f16": dict(config=dict(model_type="llama", hidden_size=32, intermediate_size=32, head_dim=32,
                                       num_hidden_layers=1, rms_norm_eps=1e-5),
                           gguf=gguf_llama),
}
