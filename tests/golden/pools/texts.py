"""How texts are processed: truncated pairs, lower case, chunks, and offsets of tokens."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gen_pool as gp  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from encoders import SEQUENCE, TEXTS, TOKENS, entry  # noqa: E402

LONG = TEXTS[3]
SHORT = "what is a fox?"


def pair(a, b, **more):
    return dict(task="score", text=a, pair=b, **more)


def chunked(ref, case):
    """Return the mean of the chunks' vectors, each weighted by its number of tokens, normalized to
    length 1."""
    if case.get("long_input") != "chunk":
        return ref.embed(case)
    tokens = ref.tok(case["text"], add_special_tokens=False)["input_ids"]
    room = ref.tok.model_max_length - 2
    case["ids"] = [[ref.tok.cls_token_id] + tokens[i:i + room] + [ref.tok.sep_token_id] for i in range(0, len(tokens), room)]
    total = 0
    for ids in case["ids"]:
        with torch.no_grad():
            x = dict(input_ids=torch.tensor([ids]), token_type_ids=torch.zeros(1, len(ids), dtype=torch.long))
            total = total + ref.st[0].model(**x).last_hidden_state[0].double().numpy().sum(0)
    return [gp.unit(total)]


def by_token(ref, case):
    """A ColBERT-like model: a dense layer after each token; MaxSim."""
    w = load_file(os.path.join(ref.path, "1_Dense", "model.safetensors"))["linear.weight"].double().numpy()
    rows = {k: [gp.unit(w @ h) for h in ref.hidden(dict(text=case[k]))] for k in ("text", "pair") if k in case}
    if case["task"] == "token_embed":
        return rows["text"]
    return [[float(sum(max(q @ d for d in rows["pair"]) for q in rows["text"]))]]


def limited(n, e):
    e["tok_config"] = dict(e["tok_config"], model_max_length=n)
    return e


POOLS = {
    "bert_colbert": entry("bert", "bert", tasks="token_embed", st=dict(dense=[(24, False, "Identity")]), reference=by_token, cases=[
        dict(task="token_embed", text=TEXTS[0]), dict(task="score", text=SHORT, pair=TEXTS[0], ids=[]),
        dict(task="score", text=SHORT, pair=SHORT, ids=[]), dict(task="embed", text="a", error='does not support the task "embed"')]),
    "bert_pairs": entry("bert", "bert", config=dict(num_labels=1), auto=SEQUENCE, cases=[
        pair(SHORT, LONG, truncate=20), pair(LONG, SHORT, truncate=20), pair(LONG, LONG, truncate=20), pair(LONG, LONG, truncate=21),
        pair(SHORT, SHORT, truncate=20), pair(LONG, LONG, truncate=5), pair(LONG * 4, LONG * 4, long_input="truncate"),
        pair(LONG * 4, SHORT, truncate=-1),
        pair("a", "b", truncate=3, error="3 tokens leave no room for a text: the model adds 3"),
        pair(LONG * 4, LONG * 4, error="does not fit the maximum model length of 256")]),
    "bert_lower": entry("bert", "bertcased", st=dict(pooling="mean", normalize=True, bert=dict(do_lower_case=True)), cases=[
        dict(task="embed", text=t, ids=[]) for t in ("The QUICK Brown fox", "İstanbul ÜNÏCÖDÉ ΣΑΣ", "lower already")]),
    "bert_chunks": limited(40, entry("bert", "bert", reference=chunked, st=dict(
        pooling="mean", normalize=True, bert=dict(max_seq_length=40)), cases=[
            dict(task="embed", text=LONG, long_input="chunk"), dict(task="embed", text=SHORT, long_input="chunk"),
            dict(task="embed", text=LONG * 3, long_input="chunk"), dict(task="embed", text=LONG, long_input="truncate"),
            dict(task="embed", text=""), dict(task="embed", text=LONG, error="does not fit the maximum model length of 40")])),
    "bert_offsets": entry("bert", "bert", config=dict(num_labels=3), auto=TOKENS, cases=[
        dict(task="token_classify", text=t, offsets=[]) for t in (
            "Hugo Müller lives in Zürich.", "数字和文字 1234", "e\u0301a\u0308 o\u0302\tx", "unknown 🙂 word", "don't, can't")]),
    "unigram_offsets": entry("bert", "t5", config=dict(num_labels=3), auto=TOKENS, cases=[
        dict(task="token_classify", text=t, offsets=[]) for t in ("Hugo Müller lives in Zürich.", "two  spaces ﬁne", "数字和文字 1234")]),
}
