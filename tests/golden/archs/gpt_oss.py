"""gpt-oss: experts with biases, sinks, windows in every other layer."""


def gguf_gpt_oss(out, c, w):
    o = out.out
    out.keys(c)
    out.usual(c)
    o.add_sliding_window(c.sliding_window)
    o.add_expert_feed_forward_length(c.intermediate_size)
    o.add_expert_count(c.num_local_experts)
    o.add_expert_used_count(c.num_experts_per_tok)
    for name, t in w.items():
        n = (name.split(".") + [""])[2]
        if name.endswith("gate_up_proj"):
            t = t.transpose(1, 2)
            out.tensor("x.weight", t[:, ::2], f"blk.{n}.ffn_gate_exps.weight")
            out.tensor("x.weight", t[:, 1::2], f"blk.{n}.ffn_up_exps.weight")
        elif name.endswith("experts.down_proj"):
            out.tensor("x.weight", t.transpose(1, 2), f"blk.{n}.ffn_down_exps.weight")
        elif name.endswith("gate_up_proj_bias"):
            o.add_tensor(f"blk.{n}.ffn_gate_exps.bias", t[:, ::2].contiguous().numpy())
            o.add_tensor(f"blk.{n}.ffn_up_exps.bias", t[:, 1::2].contiguous().numpy())
        elif name.endswith("down_proj_bias"):
            o.add_tensor(f"blk.{n}.ffn_down_exps.bias", t.numpy())
        elif name.endswith("router.weight"):
            o.add_tensor(f"blk.{n}.ffn_gate_inp.weight", t.numpy())
        elif name.endswith("sinks"):
            out.tensor(name + ".weight", t)
        else:
            out.tensor(name, t)


def biases(model, g):
    for name, p in model.named_parameters():
        if name.endswith("proj_bias"):
            # large ones of the gate, so that it is clamped now and then
            p.mul_(3 if "gate_up" in name else 0.3)


GPT_OSS = dict(model_type="gpt_oss", hidden_size=32, intermediate_size=24, num_hidden_layers=4, num_local_experts=6,
               num_experts_per_tok=2, head_dim=12, num_attention_heads=4, num_key_value_heads=2, sliding_window=7)
YARN = dict(rope_type="yarn", rope_theta=150000.0, factor=4.0, beta_fast=3.0, beta_slow=0.5, truncate=False,
            original_max_position_embeddings=64)

ARCHS = {
    "gpt_oss_f16": dict(config=dict(GPT_OSS, rope_parameters=YARN), fix=biases, gguf=gguf_gpt_oss,
                        gguf_arch="gpt-oss"),
    "gpt_oss_tied_f16": dict(config=dict(GPT_OSS, num_hidden_layers=2, layer_types=["full_attention", "sliding_attention"],
                                         attention_bias=False, tie_word_embeddings=True,
                                         num_experts_per_tok=4, max_position_embeddings=128,
                                         rope_parameters=dict(YARN, truncate=True, factor=2.0)), fix=biases),
}
