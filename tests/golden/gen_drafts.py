#!/usr/bin/env python3
"""Make tiny models that draft tokens, and record what PyTorch computes with them.

    gen_drafts.py [name ...]        run in the repository's root

Needs torch, transformers, safetensors and tokenizers.  Writes

    build/fixtures/drafts/target/       a Llama of seven layers
    build/fixtures/drafts/target_mtp/   a GLM-4.5 with an MTP layer after the last one
    build/fixtures/drafts/target_mimo/  a MiMo, which is a Qwen2, with one
    build/fixtures/drafts/NAME/         a draft model for the first target
    tests/golden/drafts_expected/NAME.bin

and packs the folder into tests/fixtures/drafts.tar.xz (fixtures.py).

An expected result is little-endian: int32 n_prompt, n_starts, k, vocab; prompt[n_prompt]; starts[n_starts];
then for each start s, a position of the prompt whose next token is known, int32 guesses[k] after that token
and, for chains, float32 logits[k][vocab]; heads have vocab 0.  The references are plain PyTorch, written
from the papers: layers of transformers where these are the same, and matrices beside them.
"""
import copy
import json
import os
import shutil
import struct
import sys

import torch
from safetensors.torch import save_file
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.glm4_moe.modeling_glm4_moe import Glm4MoeDecoderLayer, Glm4MoeRotaryEmbedding
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer, Qwen2RotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaDecoderLayer, LlamaRMSNorm, LlamaRotaryEmbedding

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fixtures  # noqa: E402
import gen_models as gm  # noqa: E402

FOLDER = "build/fixtures/drafts"
EXPECTED = "tests/golden/drafts_expected"
STARTS = [0, 6, 17, 30]
N_PROMPT = 33
K = 4
HIDDEN = 32

TARGET = dict(model_type="llama", vocab_size=gm.VOCAB, hidden_size=HIDDEN, intermediate_size=48, num_hidden_layers=7,
              num_attention_heads=2, num_key_value_heads=1, head_dim=16, max_position_embeddings=256, rms_norm_eps=1e-5,
              bos_token_id=gm.BOS, eos_token_id=gm.EOS, pad_token_id=gm.PAD, dtype="float16")
MTP = dict(TARGET, model_type="glm4_moe", num_hidden_layers=2, moe_intermediate_size=24, n_routed_experts=4,
           num_experts_per_tok=2, n_shared_experts=1, first_k_dense_replace=1, n_group=1, topk_group=1,
           routed_scaling_factor=1.5, norm_topk_prob=True, use_qk_norm=True, attention_bias=True, partial_rotary_factor=0.5,
           num_nextn_predict_layers=1)
MIMO = dict(TARGET, model_type="qwen2", num_hidden_layers=2, rms_norm_eps=1e-6)
# the draft model's sizes differ from the target's
EAGLE = dict(model_type="llama", vocab_size=gm.VOCAB, hidden_size=HIDDEN, intermediate_size=40, num_hidden_layers=1,
             num_attention_heads=4, num_key_value_heads=2, head_dim=8, hidden_act="silu", max_position_embeddings=64,
             rms_norm_eps=1e-6, rope_theta=10000.0, torch_dtype="float16")


def draw(shape, g, gain=1.3):
    """Draw weights in half precision, so that a file is small and yet exact."""
    r = torch.randn(shape, generator=g)
    if len(shape) == 1:
        return (1 + 0.2 * r).half().float()
    return (gain * r * shape[-1] ** -0.5).half().float()


def fill(module, g, gain=1.3):
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(draw(tuple(p.shape), g, gain))
    return module.eval()


def write(name, config, weights):
    path = f"{FOLDER}/{name}"
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    with open(f"{path}/config.json", "w") as f:
        json.dump(config, f, indent=1)
    save_file({k: v.half().contiguous() if v.is_floating_point() else v.contiguous() for k, v in weights.items()},
              f"{path}/model.safetensors", metadata={"format": "pt"})


def make_target(name, config, seed, extra=None):
    c = AutoConfig.for_model(**config)
    g = torch.Generator().manual_seed(seed)
    model = fill(AutoModelForCausalLM.from_config(c).float(), g)
    for key, b in model.named_buffers():
        if "correction" in key:
            b.copy_(draw((1, b.shape[0]), g)[0] * 0.1)
    weights = {k: v for k, v in model.state_dict().items()}
    weights.update(extra(g) if extra else {})
    shutil.rmtree(f"{FOLDER}/{name}", ignore_errors=True)
    copy.deepcopy(model).half().save_pretrained(f"{FOLDER}/{name}")
    with open(f"{FOLDER}/{name}/config.json") as f:
        stored = json.load(f)
    for key in ("num_nextn_predict_layers",):
        if key in config:
            stored[key] = config[key]
    if extra:
        from safetensors.torch import load_file
        old = load_file(f"{FOLDER}/{name}/model.safetensors")
        old.update({k: v.half().contiguous() for k, v in weights.items() if k not in old and ("layers.2." in k or "mtp" in k)})
        save_file(old, f"{FOLDER}/{name}/model.safetensors", metadata={"format": "pt"})
    with open(f"{FOLDER}/{name}/config.json", "w") as f:
        json.dump(stored, f, indent=1)
    gm.write_tokenizer(f"{FOLDER}/{name}", config["model_type"])
    return model, weights


def prompt_of(seed):
    g = torch.Generator().manual_seed(seed)
    return torch.randint(3, gm.VOCAB, (1, N_PROMPT), generator=g)


def hidden_of(model, ids):
    """Return the rows after the last norm, and the inputs of each layer."""
    with torch.no_grad():
        out = model(ids, output_hidden_states=True)
    return out.hidden_states[-1][0], [h[0] for h in out.hidden_states[:-1]]


def expect(name, prompt, guesses, logits):
    os.makedirs(EXPECTED, exist_ok=True)
    vocab = logits[0].shape[-1] if logits else 0
    with open(f"{EXPECTED}/{name}.bin", "wb") as f:
        f.write(struct.pack("<4i", N_PROMPT, len(STARTS), K, vocab))
        f.write(struct.pack(f"<{N_PROMPT}i", *prompt[0].tolist()))
        f.write(struct.pack(f"<{len(STARTS)}i", *STARTS))
        for i in range(len(STARTS)):
            f.write(struct.pack(f"<{K}i", *guesses[i]))
            if logits:
                f.write(logits[i].float().numpy().astype("<f4").tobytes())


# ---- heads ----

def medusa(name, target, own_heads, bias, authors, small):
    g = torch.Generator().manual_seed(71)
    prompt = prompt_of(5)
    hidden, _ = hidden_of(target, prompt)
    blocks = 2 if authors else 1
    w, config = {}, {}
    ids = torch.arange(gm.VOCAB)
    if small:
        ids = torch.randperm(gm.VOCAB, generator=g)[:100]
        w["token_map"] = ids
    heads = []
    for h in range(K):
        x = hidden
        for i in range(blocks):
            m = draw((HIDDEN, HIDDEN), g)
            b = draw((1, HIDDEN), g)[0] if bias else torch.zeros(HIDDEN)
            w[f"{h}.{i}.linear.weight" if authors else f"blocks.{h}.layers.{i}.weight"] = m
            if bias:
                w[f"{h}.{i}.linear.bias" if authors else f"blocks.{h}.layers.{i}.bias"] = b
            x = x + nn.functional.silu(x @ m.T + b)
        out = target.lm_head.weight
        if own_heads:
            out = draw((len(ids), HIDDEN), g)
            w[f"{h}.{blocks}.weight" if authors else f"lm_heads.{h}.weight"] = out
        heads.append(ids[(x @ out.T).argmax(-1)])
    if authors:
        config = dict(medusa_num_heads=K, medusa_num_layers=blocks, base_model_name_or_path="none")
    else:
        config = dict(model_type="medusa", architectures=["MedusaModel"], hidden_size=HIDDEN, vocab_size=gm.VOCAB, num_heads=K,
                      num_hidden_layers=blocks, truncated_vocab_size=len(ids), medusa_fc_bias=bias, original_lm_head=not own_heads)
    write(name, config, w)
    expect(name, prompt, [[int(heads[h][s]) for h in range(K)] for s in STARTS], None)


def mlp(name, target, tied, scaled, inner):
    g = torch.Generator().manual_seed(72)
    prompt = prompt_of(6)
    hidden, _ = hidden_of(target, prompt)
    n = inner or HIDDEN
    w = {}
    stages = []
    for h in range(K):
        s = {"proj": draw((n, HIDDEN if h == 0 else n), g), "emb": draw((gm.VOCAB, n), g), "head": draw((gm.VOCAB, n), g),
             "w": draw((n,), g), "b": draw((1, n), g)[0]}
        if tied and h > 0:
            s = {**stages[0], "proj": s["proj"] if h == 1 else stages[1]["proj"]}
        stages.append(s)
        if not tied or h < 2:
            w[f"speculator.proj.{h}.weight"] = s["proj"]
        if not tied or h == 0:
            w[f"speculator.emb.{h}.weight"], w[f"speculator.head.{h}.weight"] = s["emb"], s["head"]
            w[f"speculator.ln.{h}.weight"], w[f"speculator.ln.{h}.bias"] = s["w"], s["b"]
    keep = 0.5 ** (0.5 / K)
    weight = ((1 - keep ** 2) * n / 2) ** 0.5

    def norm(x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    guesses = []
    for at in STARTS:
        x, last, row = hidden[at], int(prompt[0, at + 1]), []
        if scaled:
            x = norm(x) / 2 ** 0.5
        for s in stages:
            x = s["proj"] @ x + s["emb"][last] * weight / keep
            x = nn.functional.gelu(s["w"] * norm(x) + s["b"])
            last = int((s["head"] @ x).argmax())
            row.append(last)
        guesses.append(row)
    write(name, dict(model_type="mlp_speculator", architectures=["MLPSpeculatorPreTrainedModel"], emb_dim=HIDDEN, inner_dim=inner,
                     n_predict=K, vocab_size=gm.VOCAB, tie_weights=tied, scale_input=scaled,
                     top_k_tokens_per_head=[1] * K, n_candidates=1), w)
    expect(name, prompt, guesses, None)


# ---- chains ----

def rope_of(rotary, x, n):
    return rotary(x, torch.arange(n)[None])


def run_chain(name, prompt, step, first_rows, head):
    """step(tokens, given, fed) computes the rows of a sequence from position 0 on, each with the token
    after it.  given holds the target's rows and, after these, the rows that were fed back.  It computes
    everything again for each drafted token."""
    guesses, logits = [], []
    with torch.no_grad():
        for at in STARTS:
            tokens = prompt[0, 1:at + 2].tolist()
            fed = []
            row, rows = [], []
            for _ in range(K):
                out, back = step(torch.tensor(tokens), first_rows[:at + 1], fed)
                x = head(out)
                rows.append(x)
                row.append(int(x.argmax()))
                fed.append(back)
                tokens.append(row[-1])
            guesses.append(row)
            logits.append(torch.stack(rows))
    expect(name, prompt, guesses, logits)


def causal(n):
    return torch.full((n, n), float("-inf")).triu(1)[None, None]


def eagle(name, target, bias, norms):
    g = torch.Generator().manual_seed(73)
    c = LlamaConfig(**{**EAGLE, "attention_bias": False})
    c._attn_implementation = "eager"
    layer = fill(LlamaDecoderLayer(c, 0), g, 0.5)
    # there is no norm before the head
    fc = fill(nn.Linear(2 * HIDDEN, HIDDEN, bias=bias), g, 0.5)
    w = {f"layers.0.{k}": v for k, v in layer.state_dict().items() if "input_layernorm" not in k}
    w.update({f"fc.{k}": v for k, v in fc.state_dict().items()})
    w["embed_tokens.weight"] = target.model.embed_tokens.weight
    extra = {}
    token_norm = given_norm = lambda x: x
    if norms:
        token_norm, given_norm = fill(LlamaRMSNorm(HIDDEN, c.rms_norm_eps), g), fill(LlamaRMSNorm(HIDDEN, c.rms_norm_eps), g)
        w["embedding_layernorm.weight"], w["hidden_states_layernorm.weight"] = token_norm.weight, given_norm.weight
        extra["add_para_norm"] = True
    layer.input_layernorm = nn.Identity()
    rotary = LlamaRotaryEmbedding(c)
    prompt = prompt_of(7)
    hidden, _ = hidden_of(target, prompt)

    def step(tokens, given, fed):
        h = torch.cat([given] + [x[None] for x in fed])
        x = fc(torch.cat([token_norm(target.model.embed_tokens(tokens)), given_norm(h)], -1))[None]
        n = x.shape[1]
        out = layer(x, attention_mask=causal(n), position_embeddings=rope_of(rotary, x, n))
        out = (out[0] if isinstance(out, tuple) else out).reshape(n, HIDDEN)
        return out[-1], out[-1]

    write(name, {**EAGLE, **extra, "architectures": ["LlamaForCausalLM"]}, w)
    run_chain(name, prompt, step, hidden, target.lm_head)


class Eagle3(nn.Module):
    def __init__(self, c, vocab, norm_first):
        super().__init__()
        self.midlayer = LlamaDecoderLayer(c, 0)
        a = self.midlayer.self_attn
        for p, n in (("q_proj", c.num_attention_heads), ("k_proj", c.num_key_value_heads), ("v_proj", c.num_key_value_heads)):
            setattr(a, p, nn.Linear(2 * c.hidden_size, n * c.head_dim, bias=False))
        self.midlayer.hidden_norm = LlamaRMSNorm(c.hidden_size, c.rms_norm_eps)
        self.fc = nn.Linear(3 * HIDDEN, c.hidden_size, bias=False)
        self.norm = LlamaRMSNorm(c.hidden_size, c.rms_norm_eps)
        self.lm_head = nn.Linear(c.hidden_size, vocab, bias=False)
        self.norm_first = norm_first

    def rows(self, embeds, h, rotary):
        m = self.midlayer
        n = h.shape[0]
        normed = m.hidden_norm(h)
        x = torch.cat([m.input_layernorm(embeds), normed], -1)[None]
        rest = normed if self.norm_first else h
        a = m.self_attn(x, position_embeddings=rope_of(rotary, x, n), attention_mask=causal(n))[0][0]
        rest = rest + a
        return rest + m.mlp(m.post_attention_layernorm(rest))


def eagle3(name, target, hidden_size, small, own_embed, layers, speculators):
    g = torch.Generator().manual_seed(74)
    c = LlamaConfig(**{**EAGLE, "hidden_size": hidden_size})
    c._attn_implementation = "eager"
    vocab = 90 if small else gm.VOCAB
    m = fill(Eagle3(c, vocab, speculators), g)
    embed = fill(nn.Embedding(gm.VOCAB, hidden_size), g) if own_embed else target.model.embed_tokens
    ids = torch.randperm(gm.VOCAB, generator=g)[:vocab].sort().values if small else torch.arange(gm.VOCAB)
    w = dict(m.state_dict())
    if own_embed:
        w["embed_tokens.weight"] = embed.weight
    if small:
        w["d2t"] = ids - torch.arange(vocab)
        w["t2d"] = torch.zeros(gm.VOCAB, dtype=torch.bool)
        w["t2d"][ids] = True
    config = {**EAGLE, "architectures": ["LlamaForCausalLM"], "hidden_size": hidden_size, "draft_vocab_size": vocab}
    if hidden_size != HIDDEN:
        config["target_hidden_size"] = HIDDEN
    if layers != [2, 3, 4]:
        config["eagle_aux_hidden_state_layer_ids"] = layers
    if speculators:
        w = {k.replace("midlayer.", "layers.0."): v for k, v in w.items()}
        inner = {k: v for k, v in config.items() if k in EAGLE}
        config = {"architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", "speculators_version": "0.1",
                  "draft_vocab_size": vocab, "norm_before_residual": True, "transformer_layer_config": inner,
                  "speculators_config": {"algorithm": "eagle3", "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 3}],
                                         "verifier": {"name_or_path": "none"}}}
    rotary = LlamaRotaryEmbedding(c)
    prompt = prompt_of(8)
    _, inputs = hidden_of(target, prompt)
    given = torch.cat([inputs[i] for i in layers], -1)

    def step(tokens, rows, fed):
        h = torch.cat([m.fc(rows)] + [x[None] for x in fed])
        out = m.rows(embed(tokens), h, rotary)
        return m.norm(out[-1]), out[-1]

    def head(x):
        all_ids = torch.full((gm.VOCAB,), float("-inf"))
        all_ids[ids] = m.lm_head(x)
        return all_ids

    write(name, config, w)
    run_chain(name, prompt, step, given, head)


def mtp():
    name, at = "target_mtp", MTP["num_hidden_layers"]
    c = AutoConfig.for_model(**MTP)
    c._attn_implementation = "eager"
    parts = {}

    def extra(g):
        layer = fill(Glm4MoeDecoderLayer(c, at), g)
        for key, b in layer.named_buffers():
            if "correction" in key:
                b.copy_(draw((1, b.shape[0]), g)[0] * 0.1)
        parts.update(layer=layer, fc=fill(nn.Linear(2 * HIDDEN, HIDDEN, bias=False), g),
                     **{n: fill(LlamaRMSNorm(HIDDEN, c.rms_norm_eps), g) for n in ("enorm", "hnorm", "norm")})
        w = {f"model.layers.{at}.{k}": v for k, v in split_experts(layer.state_dict(), c).items()}
        w[f"model.layers.{at}.eh_proj.weight"] = parts["fc"].weight
        w[f"model.layers.{at}.enorm.weight"], w[f"model.layers.{at}.hnorm.weight"] = parts["enorm"].weight, parts["hnorm"].weight
        w[f"model.layers.{at}.shared_head.norm.weight"] = parts["norm"].weight
        return w

    target, _ = make_target(name, MTP, 79, extra)
    prompt = prompt_of(9)
    hidden, _ = hidden_of(target, prompt)
    rotary = Glm4MoeRotaryEmbedding(c)

    def step(tokens, given, fed):
        h = torch.cat([given] + [x[None] for x in fed])
        e = target.model.embed_tokens(tokens).clone()
        e[0] = 0
        x = parts["fc"](torch.cat([parts["enorm"](e), parts["hnorm"](h)], -1))[None]
        n = x.shape[1]
        out = parts["layer"](x, attention_mask=causal(n), position_embeddings=rope_of(rotary, x, n))
        out = (out[0] if isinstance(out, tuple) else out).reshape(n, HIDDEN)
        out = parts["norm"](out[-1])
        return out, out

    run_chain("mtp", prompt, step, hidden, target.lm_head)


def mimo():
    c = AutoConfig.for_model(**MIMO)
    c._attn_implementation = "eager"
    parts = {}

    def extra(g):
        layer = fill(Qwen2DecoderLayer(c, 0), g)
        parts.update(layer=layer, fc=fill(nn.Linear(2 * HIDDEN, HIDDEN, bias=False), g),
                     **{n: fill(LlamaRMSNorm(HIDDEN, c.rms_norm_eps), g)
                        for n in ("token_layernorm", "hidden_layernorm", "final_layernorm")})
        w = {f"model.mtp_layers.0.{k}": v for k, v in layer.state_dict().items()}
        w["model.mtp_layers.0.input_proj.weight"] = parts["fc"].weight
        w.update({f"model.mtp_layers.0.{n}.weight": parts[n].weight
                  for n in ("token_layernorm", "hidden_layernorm", "final_layernorm")})
        return w

    target, _ = make_target("target_mimo", MIMO, 80, extra)
    with open(f"{FOLDER}/target_mimo/config.json") as f:
        stored = json.load(f)
    stored.update(architectures=["MiMoForCausalLM"], model_type="mimo", attention_bias=True, num_nextn_predict_layers=1)
    with open(f"{FOLDER}/target_mimo/config.json", "w") as f:
        json.dump(stored, f, indent=1)
    prompt = prompt_of(10)
    raw = []
    hook = target.model.norm.register_forward_pre_hook(lambda m, x: raw.append(x[0][0]))
    hidden_of(target, prompt)
    hook.remove()
    hidden = raw[0]
    rotary = Qwen2RotaryEmbedding(c)

    def step(tokens, given, fed):
        h = torch.cat([given] + [x[None] for x in fed])
        e = target.model.embed_tokens(tokens).clone()
        e[0] = 0
        x = parts["fc"](torch.cat([parts["hidden_layernorm"](h), parts["token_layernorm"](e)], -1))[None]
        n = x.shape[1]
        out = parts["layer"](x, attention_mask=causal(n), position_embeddings=rope_of(rotary, x, n))
        out = parts["final_layernorm"]((out[0] if isinstance(out, tuple) else out).reshape(n, HIDDEN)[-1])
        return out, out

    run_chain("mtp_mimo", prompt, step, hidden, target.lm_head)


def split_experts(w, c):
    """Store each expert's matrices as separate tensors, as checkpoints do."""
    out = {}
    for k, v in w.items():
        if k.endswith("experts.gate_up_proj"):
            for i in range(v.shape[0]):
                out[f"mlp.experts.{i}.gate_proj.weight"], out[f"mlp.experts.{i}.up_proj.weight"] = v[i].chunk(2)
        elif k.endswith("experts.down_proj"):
            for i in range(v.shape[0]):
                out[f"mlp.experts.{i}.down_proj.weight"] = v[i]
        else:
            out[k] = v
    return out


DRAFTS = {
    "medusa": lambda t: medusa("medusa", t, True, False, False, False),
    "medusa_small": lambda t: medusa("medusa_small", t, True, True, False, True),
    "medusa_shared": lambda t: medusa("medusa_shared", t, False, False, False, False),
    "medusa_authors": lambda t: medusa("medusa_authors", t, True, True, True, False),
    "mlp": lambda t: mlp("mlp", t, False, False, 24),
    "mlp_tied": lambda t: mlp("mlp_tied", t, True, True, 40),
    "eagle-llama": lambda t: eagle("eagle-llama", t, True, False),
    "eagle-norms": lambda t: eagle("eagle-norms", t, False, True),
    "eagle3": lambda t: eagle3("eagle3", t, HIDDEN, True, False, [2, 3, 4], False),
    "eagle3_own": lambda t: eagle3("eagle3_own", t, 24, False, True, [0, 5, 6], False),
    "eagle3_speculators": lambda t: eagle3("eagle3_speculators", t, HIDDEN, True, True, [2, 3, 4], True),
}


def main():
    with fixtures.repacked("drafts"):
        target, _ = make_target("target", TARGET, 78)
        target.config._attn_implementation = "eager"
        for name in sys.argv[1:] or DRAFTS:
            if name not in ("mtp", "mimo"):
                DRAFTS[name](target)
        if not sys.argv[1:] or "mtp" in sys.argv[1:]:
            mtp()
        if not sys.argv[1:] or "mimo" in sys.argv[1:]:
            mimo()


if __name__ == "__main__":
    main()
