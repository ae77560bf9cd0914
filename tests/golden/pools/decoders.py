"""Decoders that embed."""
import gen_pool as gp
import numpy as np
import torch
from tokenizers import processors

QUERY = "Instruct: find what answers\nQuery:"
TEXTS = ["The quick brown fox jumps over the lazy dog.", "Ünïcödé, 数字 и прочее", "a",
         "what comes after the first window of this rather long text, which goes on and on and on?"]
LONG = " ".join(TEXTS[3:] * 4)


def embeds(*texts, **more):
    return [dict(task="embed", text=t, **more) for t in texts or TEXTS]


def bos_eos(tok):
    tok.post_processor = processors.TemplateProcessing(
        single="<|bos|> $A <|eos|>", pair="<|bos|> $A <|eos|> <|bos|> $B <|eos|>",
        special_tokens=[("<|bos|>", gp.gm.BOS), ("<|eos|>", gp.gm.EOS)])


def chunked(ref, case):
    """Return the mean of the chunks' vectors, each weighted by its number of tokens, normalized to
    length 1."""
    if case.get("long_input") != "chunk":
        return ref.embed(case)
    tokens = ref.tok(case["text"], add_special_tokens=False)["input_ids"]
    special = len(ref.tok("")["input_ids"])
    room = ref.tok.model_max_length - special
    total = 0
    n = 0
    case["ids"] = []
    for i in range(0, len(tokens), room):
        ids = ref.tok.build_inputs_with_special_tokens(tokens[i:i + room]) if special == 0 else (
            [gp.gm.BOS] + tokens[i:i + room] + [gp.gm.EOS] if special == 2 else tokens[i:i + room] + [gp.gm.EOS])
        case["ids"].append(ids)
        with torch.no_grad():
            h = ref.st[0].model(input_ids=torch.tensor([ids])).last_hidden_state[0].double().numpy()
        total = total + len(ids) * (h[-1] if ref.a["st"]["pooling"] == "lasttoken" else h.mean(0))
        n += len(ids)
    return [gp.unit(total / n)]


def both_ways(model, tokens, case):
    """Return hidden rows with attention in both directions, for a model without such a class in
    transformers."""
    n = len(tokens)
    mask = torch.zeros(1, 1, n, n)
    with torch.no_grad():
        return model(input_ids=torch.tensor([tokens]), attention_mask=mask).last_hidden_state[0].double().numpy()


def mean_both_ways(ref, case):
    return [gp.unit(both_ways(ref.model, ref.tokens(case)[0], case).mean(0))]


def last_both_ways(ref, case):
    return [gp.unit(both_ways(ref.st[0].model, ref.tokens(case)[0], case)[-1])]


def published(name):
    return lambda c: c.update(architectures=[name])


TWO_ROPES = {"full_attention": {"rope_type": "default", "rope_theta": 100000.0},
             "sliding_attention": {"rope_type": "default", "rope_theta": 1000.0}}
POOLERS = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]

POOLS = {
    "qwen3_embedding": dict(
        config=dict(model_type="qwen3", head_dim=16, tie_word_embeddings=True), post=gp.append_eos,
        # like the published checkpoint: the class name has a head, the file has no head tensor
        config_json=lambda c: c.update(architectures=["Qwen3ForCausalLM"], matryoshka_dimensions=[16, 32]),
        tok_config=dict(model_max_length=80),
        st=dict(pooling="lasttoken", normalize=True, bert=dict(max_seq_length=80),
                config=dict(prompts={"query": QUERY, "document": ""}, default_prompt_name=None)),
        tasks="embed, token_embed", amplifies=2, reference=lambda ref, case: (
            chunked(ref, case) if case["task"] == "embed" else ref.token_embed(case)),
        cases=embeds() + embeds(TEXTS[0], prompt_name="query") + embeds(TEXTS[0], instruction="pass: ") + [
            dict(task="token_embed", text=TEXTS[1])] +
        embeds(TEXTS[0], dimensions=16) + embeds(TEXTS[3], dimensions=32) +
        embeds("") + embeds(LONG, long_input="truncate") + embeds(LONG, truncate=-1) + embeds(LONG, truncate=9) +
        embeds(LONG, long_input="chunk") + embeds(TEXTS[0], long_input="chunk") + [
            dict(task="embed", text=LONG, error="does not fit the maximum model length of 80"),
            dict(task="embed", text="a", dimensions=8, error="dimensions must be one of 16, 32, got 8"),
            dict(task="embed", text="a", dimensions=65, error="dimensions must be at most 64"),
            dict(task="embed", text="a", prompt_name="nope", error='the model has no prompt "nope"'),
            dict(task="embed", text="a", prompt_name="query", instruction="x", error="not both"),
            dict(task="embed", text="a", truncate=1, error="1 tokens leave no room for a text: the model adds 1"),
            dict(task="embed", text="a", truncate=81, error="truncate 81 is larger"),
            dict(task="classify", text="a", error='does not support the task "classify"'),
            dict(task="embed", text="a", step_tag=3, error='does not take "step_tag_id"'),
            dict(task="score", text="a", pair="b", long_input="chunk", error='long_input "chunk" is supported only for')]),
    "e5_mistral": dict(
        amplifies=3,
        config=dict(model_type="mistral", sliding_window=20), post=bos_eos,
        st=dict(pooling="lasttoken", normalize=True, config=dict(
            prompts={"web_search_query": QUERY, "sts_query": "Instruct: same?\nQuery: "}, default_prompt_name="sts_query")),
        cases=embeds() + embeds(TEXTS[0], prompt_name="web_search_query") + embeds(TEXTS[0], instruction="") + [
            dict(task="embed", text="a", dimensions=8, error="does not support matryoshka representation")]),
    "embeddinggemma": dict(
        config=dict(model_type="gemma3_text", head_dim=16, num_key_value_heads=1, query_pre_attn_scalar=16,
                    sliding_window=8, use_bidirectional_attention=True, rope_parameters=TWO_ROPES,
                    layer_types=["sliding_attention", "full_attention"]), post=bos_eos, embed=0.2,
        config_json=lambda c: c.update(is_matryoshka=True),
        st=dict(pooling="mean", dense=[(96, False, "Identity"), (48, True, "Tanh")], normalize=True, config=dict(
            prompts={"query": "task: search result | query: ", "document": "title: none | text: "})),
        tasks="embed, token_embed", amplifies=2,
        cases=embeds() + embeds(TEXTS[0], prompt_name="query") + embeds(TEXTS[0], dimensions=20) + [
            dict(task="token_embed", text=TEXTS[3])]),
    "gte_qwen2": dict(
        config=dict(model_type="qwen2", tie_word_embeddings=False), post=gp.append_eos,
        config_json=lambda c: c.update(architectures=["Qwen2ForCausalLM"], is_causal=False),
        st=dict(pooling="lasttoken", normalize=True), reference=last_both_ways, tasks="embed, token_embed", amplifies=2, cases=embeds()),
    "llama_bidirectional": dict(
        config=dict(model_type="llama"), config_json=lambda c: c.update(architectures=["LlamaBidirectionalModel"], pooling="avg"),
        reference=mean_both_ways, tasks="embed, token_embed", cases=embeds() + [
            dict(task="embed", text="", error="the input is empty")]),
    "llama_pooling": dict(
        config=dict(model_type="llama"), post=bos_eos,
        st=dict(pooling=POOLERS[:4], include_prompt=False, config=dict(prompts={"p": "Represent this: "})),
        cases=embeds(*TEXTS[:2]) + embeds(TEXTS[0], prompt_name="p") + embeds(TEXTS[1], use_activation=True)),
    "llama_pooling2": dict(
        config=dict(model_type="llama"), post=bos_eos, amplifies=3,
        st=dict(pooling=POOLERS[4:], include_prompt=False, config=dict(prompts={"p": "Represent this: "})),
        cases=embeds(*TEXTS[:2]) + embeds(TEXTS[0], prompt_name="p")),
    "qwen2_saved": dict(
        config=dict(model_type="qwen2"), post=gp.append_eos, resave=True, amplifies=2, tok_config=dict(model_max_length=30),
        st=dict(pooling=["lasttoken", "mean"], dense=[(32, True, "Tanh")], normalize=True, bert=dict(max_seq_length=30), config=dict(
            prompts={"query": "Q: "}, default_prompt_name="query")),
        cases=embeds(*TEXTS[:3], long_input="truncate") + embeds(LONG, truncate=-1) + embeds(TEXTS[2], instruction="")),
    "llama_cls": dict(config=dict(model_type="llama"), post=bos_eos, st=dict(pooling="cls"), cases=embeds(*TEXTS[:2])),
    "llama_plain": dict(
        config=dict(model_type="llama"), tasks="embed, token_embed",
        cases=embeds(*TEXTS[:2]) + [dict(task="token_embed", text=TEXTS[1]), dict(
            task="score", text="a", pair=TEXTS[0], ids=[])],
        reference=lambda ref, case: [[float(np.dot(*(ref.embed(dict(text=case[k]))[0] for k in ("text", "pair"))))]]
        if case["task"] == "score" else getattr(ref, case["task"])(case), amplifies=4),
}
