#!/usr/bin/env python3
"""Make a tiny model of each family of encoders, and record the hidden rows that Hugging Face transformers
computes with it.

    gen_encoders.py [name ...]      run in the repository's root

Needs torch, transformers, safetensors and gguf.  For each model of ENCODERS below it writes

    build/fixtures/encoders/NAME/               in the layout of transformers' save_pretrained()
    build/fixtures/encoders/NAME_gguf.gguf      the same weights as GGUF, if the family defines it
    tests/golden/encoders_expected/NAME.bin     the expected rows

and packs the folder into tests/fixtures/encoders.tar.xz (fixtures.py).

The .bin files are little-endian: int32 n_seqs, hidden; for each sequence int32 n, n_rows, ids[n], types[n],
rows[n_rows] and float32 hidden[n_rows][hidden], mean[hidden] over all n.  Sequences have 1, 2, 17 and as
many tokens as the model takes ("longest"); each runs by itself, so there is no padding.

An entry:

    config      of the class; "model_type" at least
    auto        transformers' class, default AutoModel
    longest     default 48
    stored      function(config dict, weights): changes the directory to what older tools or other code wrote
    gguf        function(Gguf, config, weights)
    gguf_arch   its general.architecture
    reference   function(config, weights, ids, types) -> hidden: replaces transformers

Weights are half precision, so that a file is small and yet exact in float arithmetic.

Jina's BERT and Nomic's model with experts are not part of transformers: their references are written out
below from public descriptions (arXiv:2310.19923, ALiBi's arXiv:2108.12409, arXiv:2502.07972), and so is the
older layout of Nomic's and GTE's checkpoints, whose arithmetic transformers has.
"""
import json
import math
import os
import shutil
import struct
import sys

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fixtures  # noqa: E402
import gen_archs as ga  # noqa: E402
import gguf  # noqa: E402

FIXTURES = "build/fixtures/encoders"
EXPECTED = "tests/golden/encoders_expected"
VOCAB = 120
F = torch.nn.functional

BERT = dict(vocab_size=VOCAB, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=48, type_vocab_size=2, pad_token_id=0)
ROBERTA = {**BERT, "model_type": "roberta", "max_position_embeddings": 52, "type_vocab_size": 1, "pad_token_id": 1,
           "bos_token_id": 0, "eos_token_id": 2}
ROPE = {**BERT, "max_position_embeddings": 128}
WIDE = {"hidden_size": 64, "intermediate_size": 96}


def draw(model, seed):
    """Draw weights that give rows of order 1: matrices by their fan-in, norms about 1, biases large enough
    to show."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            r = torch.randn(p.shape, generator=g)
            if p.ndim == 1:
                p.copy_(1 + 0.2 * r if name.endswith("weight") else 0.3 * r)
            elif "embeddings." in name or "relative_attention_bias" in name or "embed_tokens" in name:
                p.copy_(r)
            else:
                p.copy_(r * p.shape[-1] ** -0.5)


def hidden(model, ids, types):
    args = dict(input_ids=torch.tensor([ids]))
    if any(types):
        args["token_type_ids"] = torch.tensor([types])
    with torch.no_grad():
        return model.base_model(**args).last_hidden_state[0].numpy()


# ---- Jina ----

def slopes(n):
    """Return ALiBi's slopes: a geometric series for a power of two; further heads take every other slope of
    the next series."""
    p = 2 ** math.floor(math.log2(n))
    s = [2 ** (-8 * (i + 1) / p) for i in range(p)]
    return s + [2 ** (-4 * (2 * i + 1) / p) for i in range(n - p)]


def jina_weights(c, seed):
    g = torch.Generator().manual_seed(seed)
    h, f = c["hidden_size"], c["intermediate_size"]
    code = "layer_norm_1" in c["kind"]
    shapes = {"embeddings.word_embeddings.weight": (VOCAB, h), "embeddings.token_type_embeddings.weight": (2, h)}

    def linear(name, n, k, bias=True):
        shapes[name + ".weight"] = (n, k)
        if bias:
            shapes[name + ".bias"] = (n,)

    def norm(name):
        linear(name, h, None)
        shapes[name + ".weight"] = (h,)

    norm("embeddings.LayerNorm")
    for i in range(c["num_hidden_layers"]):
        p = f"encoder.layer.{i}."
        for x in ("query", "key", "value"):
            linear(p + "attention.self." + x, h, h)
        if code:
            for x in ("attention.self.layer_norm_q", "attention.self.layer_norm_k", "layer_norm_1", "layer_norm_2"):
                norm(p + x)
        linear(p + "attention.output.dense", h, h)
        norm(p + "attention.output.LayerNorm")
        linear(p + "mlp." + ("up_gated_layer" if code else "gated_layers"), 2 * f, h, False)
        linear(p + "mlp." + ("down_layer" if code else "wo"), h, f)
        if not code:
            norm(p + "mlp.layernorm")
    w = {}
    for name, shape in shapes.items():
        r = torch.randn(shape, generator=g)
        if len(shape) == 1:
            r = 1 + 0.2 * r if name.endswith("weight") else 0.3 * r
        elif "embeddings" not in name:
            r = r * shape[-1] ** -0.5
        w[name] = r.half()
    return w


def jina(c, w, ids, types):
    w = {k: v.float() for k, v in w.items()}
    heads, n = c["num_attention_heads"], len(ids)
    code = "layer_norm_1" in c["kind"]
    act = torch.relu if c["feed_forward_type"] == "reglu" else F.gelu

    def linear(x, name):
        return F.linear(x, w[name + ".weight"], w.get(name + ".bias"))

    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], c["layer_norm_eps"])

    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.token_type_embeddings.weight"][types]
    x = norm(x, "embeddings.LayerNorm")
    at = torch.arange(n)
    bias = -torch.tensor(slopes(heads))[:, None, None] * (at[None] - at[:, None]).abs()
    for i in range(c["num_hidden_layers"]):
        p = f"encoder.layer.{i}."
        q, k, v = (linear(x, p + "attention.self." + s) for s in ("query", "key", "value"))
        if code:
            q, k = norm(q, p + "attention.self.layer_norm_q"), norm(k, p + "attention.self.layer_norm_k")
        q, k, v = (t.view(n, heads, -1).transpose(0, 1) for t in (q, k, v))
        s = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1]) + bias
        a = (torch.softmax(s, -1) @ v).transpose(0, 1).reshape(n, -1)
        a = norm(linear(a, p + "attention.output.dense") + x, p + "attention.output.LayerNorm")
        if code:
            x = norm(x + a, p + "layer_norm_1")
            up, gate = linear(x, p + "mlp.up_gated_layer").chunk(2, -1)
            x = norm(x + linear(up * act(gate), p + "mlp.down_layer"), p + "layer_norm_2")
        else:
            gate, up = linear(a, p + "mlp.gated_layers").chunk(2, -1)
            x = norm(a + linear(act(gate) * up, p + "mlp.wo"), p + "mlp.layernorm")
    return x.numpy()


# ---- Nomic, version 2 ----

def nomic2_weights(c, seed):
    g = torch.Generator().manual_seed(seed)
    h, f, e = c["n_embd"], c["n_inner"], c["num_experts"]
    shapes = {"embeddings.word_embeddings.weight": (VOCAB, h), "embeddings.token_type_embeddings.weight": (1, h),
              "emb_ln.weight": (h,), "emb_ln.bias": (h,)}
    for i in range(c["n_layer"]):
        p = f"encoder.layers.{i}."
        for name, n, k in (("attn.Wqkv", 3 * h, h), ("attn.out_proj", h, h)):
            shapes[p + name + ".weight"], shapes[p + name + ".bias"] = (n, k), (n,)
        for name in ("norm1", "norm2"):
            shapes[p + name + ".weight"] = shapes[p + name + ".bias"] = (h,)
        if i % c["moe_every_n_layers"] == 1:
            shapes[p + "mlp.router.layer.weight"] = (e, h)
            shapes[p + "mlp.experts.mlp.w1"] = shapes[p + "mlp.experts.mlp.w2"] = (e * f, h)
            shapes[p + "mlp.experts.bias"] = (h,)
        else:
            for name, n, k in (("mlp.fc1", f, h), ("mlp.fc2", h, f)):
                shapes[p + name + ".weight"], shapes[p + name + ".bias"] = (n, k), (n,)
    w = {}
    for name, shape in shapes.items():
        r = torch.randn(shape, generator=g)
        if len(shape) == 1:
            r = 1 + 0.2 * r if name.endswith("weight") else (0 if "experts" in name and c["seed_bias"] == 0 else 0.3) * r
        elif "embeddings" not in name:
            r = (3 if "router" in name else 1) * r * (c["n_inner"] if name.endswith("w2") else shape[-1]) ** -0.5
        w[name] = r.half()
    return w


def nomic2(c, w, ids, types):
    """Compute the model as the paper (arXiv:2502.07972) and the published configuration describe it: the
    layer of Nomic's first BERT with biases and without gates; in every other layer a softmax over all
    experts weighs the two best, and a bias is added to their sum."""
    w = {k: v.float() for k, v in w.items()}
    n, heads, h, f = len(ids), c["n_head"], c["n_embd"], c["n_inner"]
    dim = h // heads

    def norm(x, name):
        return F.layer_norm(x, (h,), w[name + ".weight"], w[name + ".bias"], c["layer_norm_epsilon"])

    def linear(x, name):
        return F.linear(x, w[name + ".weight"], w[name + ".bias"])

    angle = torch.arange(n)[:, None].float() * (1 / c["rotary_emb_base"] ** (torch.arange(0, dim, 2).float() / dim))
    cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)

    def rotate(x):
        return x * cos + torch.cat((-x[..., dim // 2:], x[..., :dim // 2]), -1) * sin

    x = norm(w["embeddings.word_embeddings.weight"][ids] + w["embeddings.token_type_embeddings.weight"][types], "emb_ln")
    for i in range(c["n_layer"]):
        p = f"encoder.layers.{i}."
        q, k, v = linear(x, p + "attn.Wqkv").view(n, 3, heads, dim).permute(1, 2, 0, 3)
        a = torch.softmax(rotate(q) @ rotate(k).transpose(1, 2) / math.sqrt(dim), -1) @ v
        x = norm(x + linear(a.transpose(0, 1).reshape(n, h), p + "attn.out_proj"), p + "norm1")
        if i % c["moe_every_n_layers"] == 1:
            weights, chosen = torch.softmax(x @ w[p + "mlp.router.layer.weight"].T, -1).topk(c["moe_top_k"], -1)
            w1, w2 = (w[p + "mlp.experts.mlp." + s].view(-1, f, h) for s in ("w1", "w2"))
            y = w[p + "mlp.experts.bias"].repeat(n, 1)
            for r in range(n):
                for weight, e in zip(weights[r], chosen[r]):
                    y[r] += weight * (F.gelu(x[r] @ w1[e].T) @ w2[e])
        else:
            y = linear(F.gelu(linear(x, p + "mlp.fc1")), p + "mlp.fc2")
        x = norm(x + y, p + "norm2")
    return x.numpy()


# ---- other checkpoint layouts ----

def nomic_stored(c, w):
    """Store the model like the first checkpoints: q, k and v in one matrix, other names, other keys."""
    for a, b in (("num_hidden_layers", "n_layer"), ("num_attention_heads", "n_head"), ("hidden_size", "n_embd"),
                 ("intermediate_size", "n_inner"), ("layer_norm_eps", "layer_norm_epsilon"),
                 ("max_position_embeddings", "n_positions")):
        c[b] = c.pop(a)
    theta = c.pop("rope_parameters")["rope_theta"]
    c.update(activation_function="swiglu", rotary_emb_base=theta, rotary_emb_fraction=1.0, qkv_proj_bias=False,
             rotary_emb_interleaved=False, mlp_fc1_bias=False, mlp_fc2_bias=False, prenorm=False, causal=False,
             max_trained_positions=c["n_positions"], n_positions=4 * c["n_positions"], rotary_scaling_factor=2)
    del c["hidden_act"], c["head_dim"]
    return c, nomic_old(w)


def nomic_old(w):
    if not any("self_attn.q_proj" in k for k in w):
        return w
    out = {}
    for name, t in w.items():
        new = name.replace("embeddings.LayerNorm", "emb_ln").replace("self_attn.o_proj", "attn.out_proj")
        new = new.replace("mlp.up_proj", "mlp.fc11").replace("mlp.gate_proj", "mlp.fc12").replace("mlp.down_proj", "mlp.fc2")
        new = new.replace("post_attention_layernorm", "norm1").replace("post_mlp_layernorm", "norm2")
        new = "encoder." + new if new.startswith("layers.") else new
        if ".q_proj" in name:
            new = new.replace("self_attn.q_proj", "attn.Wqkv")
            t = torch.cat([w[name.replace("q_proj", x)] for x in ("q_proj", "k_proj", "v_proj")])
        if ".k_proj" not in name and ".v_proj" not in name:
            out[new] = t
    return out


def new_old(w):
    if not any("self_attn.q_proj" in k for k in w):
        return w
    out = {}
    for name, t in w.items():
        new = name.replace("self_attn.o_proj", "attention.o_proj").replace("post_attention_layernorm", "attn_ln")
        new = new.replace("post_mlp_layernorm", "mlp_ln")
        new = "encoder.layer." + new[7:] if new.startswith("layers.") else new
        if ".q_proj" in name:
            new = new.replace("self_attn.q_proj", "attention.qkv_proj")
            t = torch.cat([w[name.replace("q_proj", x)] for x in ("q_proj", "k_proj", "v_proj")])
        if ".up_proj" in name:
            new = new.replace("up_proj", "up_gate_proj")
            t = torch.cat([t, w[name.replace("up_proj", "gate_proj")]])
        if not any(x in name for x in (".k_proj", ".v_proj", ".gate_proj")):
            out["new." + new] = t
    return out


def ntk_reference(c, model):
    """NTK-aware scaling, for which transformers has no rope type: frequencies as in arXiv:2309.00071."""
    dim = c["hidden_size"] // c["num_attention_heads"]
    s = c["rope_scaling"]["factor"]
    freq = 1 / (c["rope_theta"] * s) ** (torch.arange(0, dim, 2).float() / dim) / s ** (2 / dim)
    model.rotary_emb.inv_freq.copy_(freq)


def new_stored(c, w):
    theta = c.pop("rope_parameters")["rope_theta"]
    c.update(architectures=["NewModel"], model_type="new", rope_theta=theta, position_embedding_type="rope",
             layer_norm_type="layer_norm", pack_qkv=True, logn_attention_scale=False)
    return c, new_old(w)


def ntk_stored(c, w):
    c, w = new_stored(c, w)
    c["rope_scaling"] = {"type": "ntk", "factor": 4.0}
    return c, w


def greek(c, w):
    """Use the names of norm vectors from the first checkpoints, under the prefix of a model with a head."""
    return c, {"bert." + k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): t
               for k, t in w.items()}


# ---- GGUF ----

def keys(out, c, length, types, tokens=None):
    g = out.out
    g.add_context_length(length)
    g.add_embedding_length(c["hidden_size"])
    g.add_block_count(c["num_hidden_layers"])
    g.add_feed_forward_length(c["intermediate_size"])
    g.add_head_count(c["num_attention_heads"])
    g.add_causal_attention(False)
    g.add_pooling_type(gguf.PoolingType.MEAN)
    g.add_token_type_count(types)
    g.add_uint32("tokenizer.ggml.padding_token_id", 0)
    if "rms_norm_eps" not in c:
        g.add_layer_norm_eps(c.get("layer_norm_eps", c.get("norm_eps", 1e-12)))
    g.add_token_list(tokens or [f"[unused{i}]" if i else "[PAD]" for i in range(VOCAB)])


def tensors(out, w, change=lambda name, t: t):
    for name, t in w.items():
        t = change(name, t)
        if t is not None and "pooler" not in name and "position_ids" not in name:
            out.tensor(name, t)


def gguf_bert(out, c, w):
    keys(out, c, c["max_position_embeddings"], c["type_vocab_size"])
    tensors(out, w)


def gguf_roberta(out, c, w):
    keys(out, c, c["max_position_embeddings"] - 2, c["type_vocab_size"])
    tensors(out, w, lambda name, t: t[2:] if "position_embeddings" in name else t)


def gguf_distilbert(out, c, w):
    keys(out, {"hidden_size": c["dim"], "num_hidden_layers": c["n_layers"], "intermediate_size": c["hidden_dim"],
               "num_attention_heads": c["n_heads"]}, c["max_position_embeddings"], 1)
    tensors(out, w)


def gguf_nomic(out, c, w):
    keys(out, c, c["max_position_embeddings"], c["type_vocab_size"])
    out.out.add_rope_freq_base(c["rope_parameters"]["rope_theta"])
    tensors(out, nomic_old(w))


def gguf_modern(out, c, w):
    keys(out, c, c["max_position_embeddings"], 0)
    out.out.add_sliding_window(c["local_attention"])
    out.out.add_sliding_window_pattern(3)
    out.out.add_rope_freq_base(c["rope_parameters"]["full_attention"]["rope_theta"])
    out.out.add_rope_freq_base_swa(c["rope_parameters"]["sliding_attention"]["rope_theta"])
    tensors(out, w)


def gguf_jina(out, c, w):
    keys(out, c, c["max_position_embeddings"], 2)
    tensors(out, w)


def gguf_euro(out, c, w):
    keys(out, c, c["max_position_embeddings"], 0)
    out.out.add_head_count_kv(c["num_key_value_heads"])
    out.out.add_layer_norm_rms_eps(c["rms_norm_eps"])
    out.out.add_rope_freq_base(c["rope_parameters"]["rope_theta"])
    tensors(out, w)


def gguf_nomic2(out, c, w):
    keys(out, dict(hidden_size=c["n_embd"], num_hidden_layers=c["n_layer"], intermediate_size=c["n_inner"],
                   num_attention_heads=c["n_head"], layer_norm_eps=c["layer_norm_epsilon"]), c["n_positions"], 1)
    out.out.add_rope_freq_base(c["rotary_emb_base"])
    out.out.add_moe_every_n_layers(c["moe_every_n_layers"])
    out.out.add_expert_count(c["num_experts"])
    out.out.add_expert_used_count(c["moe_top_k"])
    for name, t in w.items():
        # converters leave out the experts' bias, because it is zero
        if ".experts.mlp." in name:
            t = t.view(c["num_experts"], -1, c["n_embd"])
            out.tensor(name + ".weight", t.transpose(1, 2) if name.endswith("w2") else t)
        elif "experts.bias" not in name:
            out.tensor(name, t)


def gguf_jina3(out, c, w):
    keys(out, c, c["max_position_embeddings"], c["type_vocab_size"])
    out.out.add_rope_freq_base(c["rope_parameters"]["rope_theta"])
    tensors(out, w)


JINA = {**BERT, "architectures": ["JinaBertModel"], "model_type": "bert", "max_position_embeddings": 300,
        "position_embedding_type": "alibi", "layer_norm_eps": 1e-12, "hidden_act": "gelu"}
MODERN = dict(model_type="modernbert", vocab_size=VOCAB, hidden_size=48, intermediate_size=40, num_hidden_layers=4,
              num_attention_heads=4, max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=2,
              cls_token_id=1, sep_token_id=2)
NOMIC = {**ROPE, "model_type": "nomic_bert", "hidden_act": "silu"}
NOMIC2 = dict(architectures=["NomicBertModel"], model_type="nomic_bert", vocab_size=VOCAB, n_embd=48, n_inner=64, n_layer=2,
              n_head=4, n_positions=128, max_trained_positions=128, type_vocab_size=1, activation_function="gelu",
              rotary_emb_base=10000, rotary_emb_fraction=1.0, rotary_emb_interleaved=False, qkv_proj_bias=True,
              mlp_fc1_bias=True, mlp_fc2_bias=True, prenorm=False, causal=False, layer_norm_epsilon=1e-5, num_experts=4,
              moe_top_k=2, moe_every_n_layers=2, moe_normalize_expert_weights=False, expert_choice_router=False)
GTE = {**ROPE, "model_type": "gte", "type_vocab_size": 1, "rope_parameters": {"rope_type": "default", "rope_theta": 20000.0}}

ENCODERS = {
    "bert": dict(config={**BERT, "model_type": "bert"}, gguf=gguf_bert, gguf_arch="bert"),
    "bert_old": dict(config={**BERT, "model_type": "bert", "hidden_act": "gelu_new", "num_attention_heads": 3,
                             "layer_norm_eps": 1e-5}, stored=greek),
    "bert_mlm": dict(config={**BERT, "model_type": "bert"}, auto="AutoModelForMaskedLM"),
    "ernie": dict(config={**BERT, "model_type": "ernie", "hidden_act": "relu"}),
    "roberta": dict(config=ROBERTA, longest=50, gguf=gguf_roberta, gguf_arch="bert"),
    "xlm_roberta_mlm": dict(config={**ROBERTA, "model_type": "xlm-roberta"}, longest=50, auto="AutoModelForMaskedLM"),
    "camembert": dict(config={**ROBERTA, "model_type": "camembert"}, longest=50),
    "distilbert": dict(config=dict(model_type="distilbert", vocab_size=VOCAB, dim=48, hidden_dim=80, n_layers=2, n_heads=4,
                                   max_position_embeddings=48), gguf=gguf_distilbert, gguf_arch="bert"),
    "distilbert_mlm": dict(config=dict(model_type="distilbert", vocab_size=VOCAB, dim=48, hidden_dim=80, n_layers=2,
                                       n_heads=4, max_position_embeddings=48), auto="AutoModelForMaskedLM"),
    "mpnet": dict(config={**ROBERTA, "model_type": "mpnet", "max_position_embeddings": 202}, longest=200),
    "electra": dict(config={**BERT, "model_type": "electra", "embedding_size": 32}),
    "electra_wide": dict(config={**BERT, "model_type": "electra", "embedding_size": 48}),
    "modernbert": dict(config={**MODERN, "local_attention": 16}, longest=100, gguf=gguf_modern, gguf_arch="modern-bert"),
    "modernbert_mlm": dict(config={**MODERN, "local_attention": 6, "norm_bias": True, "attention_bias": True,
                                   "mlp_bias": True, "layer_types": ["sliding_attention", "full_attention"] * 2},
                           auto="AutoModelForMaskedLM", longest=100),
    "nomic_bert": dict(config=NOMIC, longest=100, gguf=gguf_nomic, gguf_arch="nomic-bert"),
    "nomic_bert_old": dict(config=NOMIC, longest=100, stored=nomic_stored),
    "gte": dict(config=GTE, longest=100),
    "gte_new": dict(config={**GTE, "type_vocab_size": 2}, longest=100, stored=new_stored),
    "gte_ntk": dict(config={**GTE, "type_vocab_size": 0}, longest=100, stored=ntk_stored, change=ntk_reference),
    "jina_bert": dict(config={**JINA, "feed_forward_type": "geglu", "kind": "", "num_attention_heads": 3}, longest=200,
                      reference=jina, gguf=gguf_jina, gguf_arch="jina-bert-v2"),
    "jina_bert_reglu": dict(config={**JINA, "feed_forward_type": "reglu", "kind": ""}, reference=jina),
    "jina_bert_code": dict(config={**JINA, "feed_forward_type": "geglu", "kind": "layer_norm_1"}, longest=100,
                           reference=jina, gguf=gguf_jina, gguf_arch="jina-bert-v2"),
    "jina_v3": dict(config={**ROPE, "model_type": "jina_embeddings_v3", "type_vocab_size": 1}, longest=100,
                    gguf=gguf_jina3, gguf_arch="jina-bert-v3"),
    "eurobert": dict(config=dict(model_type="eurobert", vocab_size=VOCAB, hidden_size=48, intermediate_size=80,
                                 num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, mask_token_id=3,
                                 max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=2),
                     longest=100, gguf=gguf_euro, gguf_arch="eurobert"),
    # Keep these after the others: a model's place in this table is its seed.
    "nomic_bert_moe": dict(config={**NOMIC2, "seed_bias": 1}, longest=60, weights=nomic2_weights, reference=nomic2),
    "nomic_bert_moe_zero": dict(config={**NOMIC2, "seed_bias": 0}, longest=60, weights=nomic2_weights, reference=nomic2,
                                gguf=gguf_nomic2, gguf_arch="nomic-bert-moe"),
    # rows are multiples of 32, as the formats with blocks of 32 need; pools/initialized.py has other
    # families
    "ernie_wide": dict(config={**BERT, "model_type": "ernie", **WIDE}),
    "jina_bert_wide": dict(config={**JINA, "feed_forward_type": "geglu", "kind": "", **WIDE}, reference=jina),
    "jina_v3_wide": dict(config={**ROPE, "model_type": "jina_embeddings_v3", "type_vocab_size": 1, **WIDE}),
    "nomic_bert_moe_wide": dict(config={**NOMIC2, "n_embd": 64, "seed_bias": 1}, weights=nomic2_weights, reference=nomic2),
}


def write_expected(name, seqs):
    out = struct.pack("<2i", len(seqs), seqs[0][2].shape[1])
    for ids, types, h in seqs:
        n = len(ids)
        rows = sorted({0, n // 2, n - 1})
        out += struct.pack(f"<{2 + 2 * n + len(rows)}i", n, len(rows), *ids, *types, *rows)
        out += np.ascontiguousarray(h[rows], dtype="<f4").tobytes()
        out += h.astype(np.float64).mean(0).astype("<f4").tobytes()
    with open(os.path.join(EXPECTED, name + ".bin"), "wb") as f:
        f.write(out)


def make_transformers(name, path, a, seed):
    c = transformers.AutoConfig.for_model(**a["config"])
    auto = getattr(transformers, a.get("auto", "AutoModel"))
    torch.manual_seed(seed)
    model = auto.from_config(c, dtype=torch.float32, attn_implementation="eager")
    draw(model, seed)
    model.half().save_pretrained(path)
    model = auto.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
    config = json.load(open(os.path.join(path, "config.json")))
    weights = load_file(os.path.join(path, "model.safetensors"))
    if "stored" in a:
        config, weights = a["stored"](dict(config), weights)
        save_file(weights, os.path.join(path, "model.safetensors"), metadata={"format": "pt"})
    if "change" in a:
        a["change"](config, model)
    return config, weights, lambda ids, types: hidden(model, ids, types)


def make(name, a):
    path = os.path.join(FIXTURES, name)
    seed = 1 + list(ENCODERS).index(name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    if "reference" in a:
        config = dict(a["config"])
        weights = a.get("weights", jina_weights)(config, seed)
        save_file(weights, os.path.join(path, "model.safetensors"), metadata={"format": "pt"})
        plain = dict(config)

        def fn(ids, types):
            return a["reference"](plain, weights, ids, types)
        config = {k: v for k, v in config.items() if k not in ("kind", "seed_bias")}
    else:
        config, weights, fn = make_transformers(name, path, a, seed)
    ga.gm.dump(path, "config.json", config)
    rng = np.random.default_rng(seed)
    seqs = []
    n_types = config.get("type_vocab_size", 0) if "dim" not in config else 0
    for n in (17, 1, a.get("longest", 48), 2):
        ids = [int(x) for x in rng.integers(3, VOCAB, n)]
        types = [int(i >= n // 2) if n_types > 1 else 0 for i in range(n)]
        seqs.append((ids, types, fn(ids, types)))
    write_expected(name, seqs)
    print(f"{name}: {sum(np.abs(h).mean() for _, _, h in seqs) / len(seqs):.2f}",
          sorted(weights)[:3], os.path.getsize(os.path.join(path, "model.safetensors")))
    if "gguf" in a:
        class C:  # what Gguf wants of a configuration
            num_hidden_layers = config.get("num_hidden_layers", config.get("n_layers", config.get("n_layer")))

            def get_text_config(self):
                return self
        out = ga.Gguf(os.path.join(FIXTURES, name + "_gguf.gguf"), a["gguf_arch"], C(), "F16")
        a["gguf"](out, config, {k: v.float() for k, v in weights.items()})
        out.close()
        write_expected(name + "_gguf", seqs)


def main():
    torch.set_num_threads(1)
    os.makedirs(EXPECTED, exist_ok=True)
    with fixtures.repacked("encoders"):
        for name in sys.argv[1:] or ENCODERS:
            make(name, ENCODERS[name])


if __name__ == "__main__":
    main()
