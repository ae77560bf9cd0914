"""Models with the initial weights of transformers, in rows of whole blocks of 32: quantized
weights must hardly change their results.

The other fixtures have larger weights, so that errors show: those make a rounding error up to ten times as
large.
"""
import torch
from pools import classifiers, decoders, encoders

# These models normalize the output of each part of a layer, which makes rounding errors larger.
AMPLIFIES = {"embeddinggemma": 2.5, "gemma2_score": 2}
HEADS = ("score", "classifier", "pre_classifier")


def heads(model, generator):
    """Draw heads that give logits of order 1."""
    for name, p in model.named_parameters():
        if name.startswith(HEADS) and p.ndim == 2:
            p.copy_(1.5 * torch.randn(p.shape, generator=generator) * p.shape[-1] ** -0.5)


def initialized(name, e):
    """Return an entry of the other files, without its cases about files, refusals and truncated texts."""
    e = {k: v for k, v in e.items() if k not in ("also", "amplifies", "gain", "embed", "tasks")}
    if e.get("stored") is encoders.as_gguf:
        del e["stored"]
    config = {**e["config"], "hidden_size": 64, "intermediate_size": 96}
    if "dim" in config:
        config.update(hidden_size=..., intermediate_size=..., dim=64, hidden_dim=96)
    if config.get("embedding_size") == 48:
        config.update(embedding_size=64)
    if name in AMPLIFIES:
        e["amplifies"] = AMPLIFIES[name]
    return {**e, "config": config, "init": True, "fix": heads, "cases": [
        {k: v for k, v in c.items() if k != "offsets"} for c in e["cases"]
        if not {"error", "truncate", "long_input", "dimensions"} & set(c)]}


POOLS = {"init_" + name: initialized(name, e) for name, e in {**decoders.POOLS, **encoders.POOLS, **classifiers.POOLS}.items()
         if name not in ("llama_pooling", "llama_pooling2", "llama_cls", "bert_colbert", "qwen3_reranker")}
