"""A Llama with each kind of scaling of rotary positions."""
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS


def gguf_llama(out, c, w):
    def change(name, t):
        for part, heads in (("q_proj", c.num_attention_heads), ("k_proj", c.num_key_value_heads)):
            if part in name:
                t = t.reshape(heads, 2, t.shape[0] // heads // 2, *t.shape[1:]).swapaxes(1, 2).reshape(t.shape)
        return t

    out.keys(c, add_bos=True)
    out.usual(c)
    out.out.add_vocab_size(c.vocab_size)
    out.out.add_rope_dimension_count(c.head_dim)
    out.tensors(c, w, change)


def full_length(length):
    """Compute dynamic NTK for the full length, whatever the text's length is."""
    def reference(model):
        rope = model.model.rotary_emb
        rope.inv_freq.copy_(ROPE_INIT_FUNCTIONS["dynamic"](model.config, seq_len=length)[0])
        rope.rope_type = "default"
    return reference


def old_style(c):
    """Change config.json to the style before transformers 5."""
    rope = c.pop("rope_parameters")
    c["rope_theta"] = rope.pop("rope_theta")
    rope["type"] = rope.pop("rope_type")
    c["rope_scaling"] = rope
    c["torch_dtype"] = c.pop("dtype")


def llama(reference=None, config_json=None, file=False, **rope):
    a = dict(config=dict(model_type="llama", hidden_size=32, intermediate_size=48, head_dim=16,
                         max_position_embeddings=rope.pop("max_len", 128), rope_parameters=rope))
    if reference is not None:
        a["reference"] = reference
    if config_json is not None:
        a["config_json"] = config_json
    if file:
        a["gguf"] = gguf_llama
    return a


ARCHS = {
    "rope_linear_f16": llama(rope_type="linear", rope_theta=10000.0, factor=2.5, file=True),
    "rope_dynamic_f16": llama(rope_type="dynamic", rope_theta=10000.0, factor=2.0, max_len=64,
                              reference=full_length(128)),
    "rope_yarn_f16": llama(rope_type="yarn", rope_theta=1000.0, factor=4.0, original_max_position_embeddings=32,
                           beta_fast=3.0, beta_slow=0.5, attention_factor=1.25, max_len=32, file=True),
    "rope_yarn_mscale_f16": llama(rope_type="yarn", rope_theta=10000.0, factor=4.0, mscale=0.7, mscale_all_dim=0.3,
                                  original_max_position_embeddings=64, truncate=False, config_json=old_style),
}
