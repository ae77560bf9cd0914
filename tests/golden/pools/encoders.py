"""Encoders that embed, score and classify."""
import json

import gen_archs
import gen_encoders
import gen_models as gm
import gen_pool as gp
import torch
from tokenizers import processors

NO = ...  # keys of gen_archs' COMMON that a family doesn't have
TEXTS = ["The quick brown fox jumps over the lazy dog.", "Ünïcödé, 数字 и прочее", "a",
         "what comes after the first window of this rather long text, which goes on and on and on, until nobody "
         "remembers how it began or why anybody thought that it should be so long?"]
PAIRS = [("what is a fox?", "A fox is a small animal that eats hens."), ("what is a fox?", "Rain is expected tomorrow."), ("a", "b")]


def draw(model, generator):
    """Draw weights; norms are about 1, whatever their names."""
    gen_encoders.draw(model, 7)
    for name, p in model.named_parameters():
        if name.startswith(("classifier", "pre_classifier")) and p.ndim == 2:
            p.copy_(1.5 * p)


def special(tok):
    """Put special tokens around texts as RoBERTa does: <s> A </s></s> B </s>."""
    tok.post_processor = processors.TemplateProcessing(
        single="<|bos|> $A <|eos|>", pair="<|bos|> $A <|eos|> <|eos|> $B <|eos|>",
        special_tokens=[("<|bos|>", gm.BOS), ("<|eos|>", gm.EOS)])


def as_gguf(path, model):
    """Write the same model and tokenizer as llama.cpp's converter does: it marks a word's first piece, not
    the others."""
    with open(path + "/tokenizer.json") as f:
        vocab = json.load(f)["model"]["vocab"]
    tokens = sorted(vocab, key=vocab.get)
    config = model.config
    # RoBERTa's position table begins with rows for padding, which are cut off
    first = config.pad_token_id + 1 if config.model_type == "roberta" else 0
    out = gen_archs.Gguf(path + ".gguf", "bert", config, "F16")
    gen_encoders.keys(out, config.to_dict(), config.max_position_embeddings - first, config.type_vocab_size,
                      [x if x[0] == "[" and len(x) > 1 else x[2:] if x.startswith("##") else "\u2581" + x for x in tokens])
    out.out.add_tokenizer_model("bert")
    out.out.add_token_types([3 if x[0] == "[" and len(x) > 1 else 1 for x in tokens])
    for key, token in (("unknown", "[UNK]"), ("cls", "[CLS]"), ("seperator", "[SEP]")):
        out.out.add_uint32(f"tokenizer.ggml.{key}_token_id", vocab[token])
    gen_encoders.tensors(out, {k.removeprefix("roberta."): v.float() for k, v in model.state_dict().items()},
                         lambda name, t: t[first:] if "position_embeddings" in name else t)
    out.close()


def embeds(**more):
    return [dict(task="embed", text=t, **more) for t in TEXTS]


def scores():
    return [dict(task="score", text=a, pair=b) for a, b in PAIRS] + [
        dict(task="score", text=PAIRS[0][0], pair=PAIRS[0][1], use_activation=False)]


def labels(task):
    return [dict(task=task, text=t) for t in TEXTS[:2]]


def entry(kind, tokenizer="bytes", **more):
    config = dict(model_type=kind, hidden_size=48, num_key_value_heads=NO, bos_token_id=0, eos_token_id=1, pad_token_id=2)
    config.update(more.pop("config", {}))
    e = dict(config=config, fix=draw, **more)
    if tokenizer == "bytes":
        e.update(post=special)
    else:
        e.update(tokenizer=tokenizer, tok_config=dict(pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"))
        config.update(bos_token_id=None, eos_token_id=None, pad_token_id=0)
    return e


ROBERTA = dict(max_position_embeddings=259, type_vocab_size=1)
DISTIL = dict(hidden_size=NO, intermediate_size=NO, num_hidden_layers=NO, num_attention_heads=NO, dim=48, hidden_dim=80,
              n_layers=2, n_heads=4)
MODERN = dict(local_attention=16, cls_token_id=0, sep_token_id=1)
SEQUENCE = "AutoModelForSequenceClassification"
TOKENS = "AutoModelForTokenClassification"
MEAN = dict(pooling="mean", normalize=True)

POOLS = {
    "bert_embed": entry("bert", "bert", st=MEAN, stored=as_gguf, also=["bert_embed.gguf"], tasks="embed, token_embed",
                        cases=embeds() + [dict(task="token_embed", text=TEXTS[0])]),
    "xlm_roberta_embed": entry("xlm-roberta", config=ROBERTA, st=dict(pooling="cls", normalize=True), cases=embeds()),
    "distilbert_embed": entry("distilbert", "bert", config=DISTIL, st=dict(pooling=["mean", "cls"]), cases=embeds()),
    # MPNet's class takes token 1 for padding.  Here that is [UNK], so use texts without it.
    "mpnet_embed": entry("mpnet", "bert", config=dict(max_position_embeddings=259), st=MEAN, cases=embeds()[::2] + embeds()[3:]),
    "modernbert_embed": entry("modernbert", config=MODERN, st=dict(pooling="cls", normalize=True), cases=embeds()),
    "nomic_embed": entry("nomic_bert", "bert", cases=embeds(prompt_name="query"), st=dict(
        pooling="mean", normalize=True, config=dict(prompts={"query": "search_query: ", "document": "search_document: "}))),
    "gte_embed": entry("gte", config=dict(type_vocab_size=1), st=dict(pooling="cls", normalize=True), cases=embeds()),
    "bert_score": entry("bert", "bert", config=dict(num_labels=1), auto=SEQUENCE, tasks="classify, score", cases=scores()),
    "roberta_score": entry("roberta", config=dict(ROBERTA, num_labels=1), auto=SEQUENCE, cases=scores()),
    "roberta_classify": entry("roberta", "bert", config=dict(ROBERTA, max_position_embeddings=257, num_labels=1), auto=SEQUENCE,
                              cases=labels("classify"), stored=as_gguf, also=["roberta_classify.gguf"]),
    "gte_score": entry("gte", config=dict(type_vocab_size=1, num_labels=1), auto=SEQUENCE, cases=scores()),
    "modernbert_score": entry("modernbert", config=dict(MODERN, num_labels=1, classifier_pooling="mean", norm_bias=True,
                                                        classifier_bias=True), auto=SEQUENCE, cases=scores()),
    "bert_classify": entry("bert", "bert", config=dict(num_labels=4), auto=SEQUENCE, cases=labels("classify"), tasks="classify"),
    "distilbert_classify": entry("distilbert", "bert", config=dict(DISTIL, num_labels=4, problem_type="multi_label_classification"),
                                 auto=SEQUENCE, cases=labels("classify")),
    "mpnet_classify": entry("mpnet", "bert", config=dict(max_position_embeddings=259, num_labels=4), auto=SEQUENCE,
                            cases=labels("classify")[:1]),
    "electra_classify": entry("electra", "bert", config=dict(embedding_size=32, num_labels=4), auto=SEQUENCE, cases=labels("classify")),
    "eurobert_classify": entry("eurobert", config=dict(num_labels=4, mask_token_id=2, classifier_pooling="mean"), auto=SEQUENCE,
                               cases=labels("classify")),
    "nomic_classify": entry("nomic_bert", "bert", config=dict(num_labels=4), auto=SEQUENCE, cases=labels("classify")),
    "bert_ner": entry("bert", "bert", config=dict(num_labels=5), auto=TOKENS, cases=labels("token_classify"), tasks="token_classify"),
    "camembert_ner": entry("camembert", config=dict(ROBERTA, num_labels=5), auto=TOKENS, cases=labels("token_classify")),
    "modernbert_ner": entry("modernbert", config=dict(MODERN, num_labels=5), auto=TOKENS, amplifies=2, cases=labels("token_classify")),
    "electra_ner": entry("electra", "bert", config=dict(embedding_size=48, num_labels=5), auto=TOKENS, cases=labels("token_classify")),
}
