"""Make adapters of random numbers, in peft's format. Standard library only."""
import json
import os
import random
import struct


def sizes(shape):
    """Return the inputs and outputs of a layer's projections."""
    h, inter = shape["hidden_size"], shape["intermediate_size"]
    dim = shape.get("head_dim", h // shape["num_attention_heads"])
    q, kv = dim * shape["num_attention_heads"], dim * shape["num_key_value_heads"]
    return {"q": ("self_attn.q_proj", h, q), "k": ("self_attn.k_proj", h, kv), "v": ("self_attn.v_proj", h, kv),
            "o": ("self_attn.o_proj", q, h), "gate": ("mlp.gate_proj", h, inter), "up": ("mlp.up_proj", h, inter),
            "down": ("mlp.down_proj", inter, h)}


def write_adapter(path, shape, modules, rank, seed, spread=0.02):
    """Write a new adapter directory.  shape: the config.json of a Llama-like model; modules: names of
    sizes().  Return the bytes of its weights."""
    rng = random.Random(seed)
    pool = b"".join(struct.pack("<e", rng.gauss(0, spread)) for _ in range(1 << 16))
    header, at, parts = {}, 0, []
    for layer in range(shape["num_hidden_layers"]):
        for m in modules:
            name, k, n = sizes(shape)[m]
            for part, dims in (("A", [rank, k]), ("B", [n, rank])):
                size = 2 * dims[0] * dims[1]
                header[f"base_model.model.model.layers.{layer}.{name}.lora_{part}.weight"] = {
                    "dtype": "F16", "shape": dims, "data_offsets": [at, at + size]}
                at += size
                parts.append(size)
    os.makedirs(path)
    text = json.dumps(header).encode()
    with open(os.path.join(path, "adapter_model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for size in parts:
            start = rng.randrange(0, 1 << 15) * 2
            whole = (pool + pool)[start:start + len(pool)]
            f.write((whole * (size // len(whole) + 1))[:size])
    with open(os.path.join(path, "adapter_config.json"), "w") as f:
        json.dump({"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "bias": "none",
                   "target_modules": [sizes(shape)[m][0].split(".")[1] for m in modules]}, f)
    return at
