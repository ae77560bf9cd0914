"""Decoders that classify, score and reward."""
import json
import os

import gen_pool as gp
import numpy as np
import torch
from safetensors.torch import load_file, save_file

TEXT = "The quick brown fox jumps over the lazy dog."
OTHER = "Ünïcödé, 数字 и прочее"
QUERY = "what jumps?"
RERANKER = ('<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. '
            'Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
            '<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}<|im_end|>\n'
            '<|im_start|>assistant\n<think>\n\n</think>\n\n')
TASK = "Given a web search query, retrieve relevant passages that answer the query"
TEMPLATE = ("{%- set q = messages | selectattr('role', 'eq', 'query') | map(attribute='content') | first -%}"
            "{%- for m in messages if m['role'] == 'system' %}I: {{ m['content'] }}\n{% endfor -%}"
            "Q: {{ q }}\nD: {% for m in messages if m.role == 'document' %}{{ m['content'] }}{% endfor %}\nA:")


def texts(task, **more):
    return [dict(task=task, text=t, **more) for t in (TEXT, OTHER, "a")]


def classifier(model_type, labels, problem=None, **config):
    names = {str(i): n for i, n in enumerate(labels)}
    return dict(config=dict(model_type=model_type, id2label=names, label2id={n: int(i) for i, n in names.items()},
                            **({"problem_type": problem} if problem else {}), **config),
                auto="AutoModelForSequenceClassification")


def yes_no(tok):
    tok.add_tokens(["yes", "no"])


def plain(ref, text):
    """Return the ids of a text in which the name of a special token is plain text, as in a document."""
    return ref.tok(text, split_special_tokens=True)["input_ids"]


def score_of(ref, text):
    """Return P(yes) at the last token, where only yes and no may follow."""
    ids = plain(ref, text)
    with torch.no_grad():
        logits = ref.model(input_ids=torch.tensor([ids])).logits[0, -1].double().numpy()
    yes, no = (ref.tok.convert_tokens_to_ids(t) for t in ("yes", "no"))
    return ids, float(1 / (1 + np.exp(logits[no] - logits[yes])))


def reranked(ref, case):
    ids, p = score_of(ref, RERANKER.format(instruction=case.get("instruction", TASK), query=case["text"], document=case["pair"]))
    case["ids"] = [ids]
    return [[p]]


def templated(ref, case):
    if "truncate" in case:
        # truncate the document to its longest prefix that leaves room for the rest of the template
        plain_case = {k: v for k, v in case.items() if k != "truncate"}
        doc = ref.tok(case["pair"], return_offsets_mapping=True)
        for n in range(len(doc["input_ids"]), -1, -1):
            end = doc["offset_mapping"][n][0] if n < len(doc["input_ids"]) else len(case["pair"])
            text = templated(ref, {**plain_case, "pair": case["pair"][:end]})
            if len(plain(ref, text)) <= case["truncate"]:
                return text
    return ref.tok.apply_chat_template(
        ([{"role": "system", "content": case["instruction"]}] if "instruction" in case else []) + [
            {"role": "query", "content": case["text"]}, {"role": "document", "content": case["pair"]}], tokenize=False)


def reranked_by_template(ref, case):
    ids, p = score_of(ref, templated(ref, case))
    case["ids"] = [ids]
    return [[p]]


def classified_by_template(ref, case):
    case["ids"] = [plain(ref, templated(ref, case))]
    with torch.no_grad():
        return [[float(torch.sigmoid(ref.model(input_ids=torch.tensor(case["ids"])).logits[0].double()))]]


PAIRS = [dict(task="score", text=QUERY, pair=TEXT), dict(task="score", text=QUERY, pair="yes, <|eos|> no"),
         dict(task="score", text=QUERY, pair=OTHER, instruction="Judge.")]


# ---- reward models, which transformers does not know ----

def reward_head(outputs, width=64):
    g = torch.Generator().manual_seed(7)
    return {"score.0.weight": torch.randn(width, width, generator=g) * width ** -0.5,
            "score.0.bias": 0.3 * torch.randn(width, generator=g),
            "score.2.weight": torch.randn(outputs, width, generator=g) * width ** -0.5,
            "score.2.bias": 0.3 * torch.randn(outputs, generator=g)}


def with_head(outputs):
    def stored(path, model):
        file = os.path.join(path, "model.safetensors")
        w = {"model." + k: v for k, v in load_file(file).items()}
        save_file({**w, **reward_head(outputs)}, file, {"format": "pt"})
    return stored


def rows_of_head(ref, case, outputs):
    w = {k: v.double() for k, v in reward_head(outputs).items()}
    h = torch.from_numpy(ref.hidden(case))
    return (torch.relu(h @ w["score.0.weight"].T + w["score.0.bias"]) @ w["score.2.weight"].T + w["score.2.bias"]).numpy()


def rewarded(ref, case):
    rows = rows_of_head(ref, case, 1)
    return rows if case["task"] == "token_classify" else [rows[-1]]


def steps(ref, case):
    rows = rows_of_head(ref, case, 2)
    ids = ref.tokens(case)[0]
    keep = [i for i in range(len(ids)) if ids[i] == case.get("step_tag", ids[i])]
    rows = [rows[i][case.get("columns", [0, 1])] for i in keep]
    return [gp.softmax(r) for r in rows] if case.get("use_activation", True) else rows


V_HEAD = torch.randn(1, 64, generator=torch.Generator().manual_seed(9)) / 8


def with_v_head(path, model):
    """Use InternLM2's names: q, k and v in one matrix, group after group."""
    file = os.path.join(path, "model.safetensors")
    out = {"v_head.weight": V_HEAD}
    c = model.config
    per = c.num_attention_heads // c.num_key_value_heads
    w = load_file(file)
    for name, t in w.items():
        name = "model." + name.replace("embed_tokens", "tok_embeddings").replace("input_layernorm", "attention_norm").replace(
            "post_attention_layernorm", "ffn_norm").replace("mlp.gate_proj", "feed_forward.w1").replace(
            "mlp.up_proj", "feed_forward.w3").replace("mlp.down_proj", "feed_forward.w2").replace("self_attn.o_proj", "attention.wo")
        if "self_attn" not in name:
            out[name] = t
    for i in range(c.num_hidden_layers):
        q, k, v = (w[f"layers.{i}.self_attn.{p}_proj.weight"] for p in "qkv")
        out[f"model.layers.{i}.attention.wqkv.weight"] = torch.cat([
            q.reshape(c.num_key_value_heads, per * c.head_dim, -1), k.reshape(c.num_key_value_heads, c.head_dim, -1),
            v.reshape(c.num_key_value_heads, c.head_dim, -1)], dim=1).reshape(-1, q.shape[1]).contiguous()
    save_file(out, file, {"format": "pt"})
    config = json.load(open(os.path.join(path, "config.json")))
    config.update(architectures=["InternLM2ForRewardModel"], model_type="internlm2", bias=False)
    gp.gm.dump(path, "config.json", config)


def v_rewarded(ref, case):
    """Return the value at the reward token, which is appended if it is missing."""
    ids = ref.tokens(case)[0]
    ids = ids if ids[-1] == 7 else ids + [7]
    case["ids"] = [ids]
    with torch.no_grad():
        h = ref.model(input_ids=torch.tensor([ids])).last_hidden_state[0, -1]
    return [[float(h.double() @ V_HEAD[0].double())]]


POOLS = {
    "llama_classify": dict(**classifier("llama", ["negative", "neutral", "positive"]), tasks="classify", amplifies=2,
                           cases=texts("classify") + texts("classify", use_activation=False) + [
                               dict(task="classify", text=TEXT, pair=OTHER),
                               dict(task="embed", text="a", error='does not support the task "embed"'),
                               dict(task="classify", text="a", dimensions=2, error='task "classify" does not take "dimensions"'),
                               dict(task="classify", text="a", long_input="chunk", error='long_input "chunk" is supported only for')]),
    "qwen2_score": dict(**classifier("qwen2", ["LABEL_0"]), tasks="classify, score, reward", amplifies=3, raw=["reward"],
                        cases=texts("classify") + texts("reward") + [dict(task="score", text=TEXT, pair=OTHER)]),
    "mistral_classify": dict(**classifier("mistral", ["toxic", "rude", "kind", "LABEL_3"], "multi_label_classification"),
                             tasks="classify", amplifies=2, cases=texts("classify")),
    "gemma2_score": dict(**classifier("gemma2", ["stars"], "regression", head_dim=16, query_pre_attn_scalar=16,
                                      sliding_window=12, attn_logit_softcapping=3.0), embed=0.4,
                         tasks="classify, score, reward", raw=["classify", "reward"], cases=texts("classify") + texts("reward")),
    "qwen3_tokens": dict(**{**classifier("qwen3", ["O", "B-PER", "I-PER"], head_dim=16), "auto": "AutoModelForTokenClassification"},
                         tasks="token_classify", amplifies=3, post=gp.append_eos, cases=texts("token_classify", offsets=[]) + texts("token_classify", use_activation=False)),
    "qwen3_reranker": dict(
        config=dict(model_type="qwen3", head_dim=16, tie_word_embeddings=True, max_position_embeddings=512),
        auto="AutoModelForCausalLM", post=yes_no, tok_config=dict(model_max_length=512),
        options={"hf_overrides": {"architectures": ["Qwen3ForSequenceClassification"], "classifier_from_token": ["no", "yes"],
                                  "is_original_qwen3_reranker": True}},
        tasks="classify, score", reference=reranked, cases=PAIRS),
    "qwen3_logit_score": dict(
        config=dict(model_type="qwen3", head_dim=16, tie_word_embeddings=False), auto="AutoModelForCausalLM", post=yes_no,
        tok_config={"chat_template": TEMPLATE}, tasks="classify, score", amplifies=3, reference=reranked_by_template,
        cases=PAIRS + [dict(task="score", text=QUERY, pair=TEXT, truncate=30),
                       dict(task="score", text=QUERY, pair=TEXT, truncate=4, error="does not fit 4 tokens")],
        files={"modules.json": [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"},
                                {"idx": 1, "name": "1", "path": "1_LogitScore",
                                 "type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore"}],
               "1_LogitScore/config.json": {"true_token_id": 288, "false_token_id": 289}}),
    "qwen3_reranker_converted": dict(
        **classifier("qwen3", ["LABEL_0"], head_dim=16), tok_config={"chat_template": TEMPLATE},
        tasks="classify, score, reward", amplifies=2, reference=classified_by_template, cases=PAIRS),
    "qwen2_reward": dict(
        config=dict(model_type="qwen2"), stored=with_head(1), config_json=lambda c: c.update(architectures=["Qwen2ForRewardModel"]),
        tasks="token_classify, reward", amplifies=2, raw=["reward", "token_classify"], reference=rewarded, cases=texts("reward") + texts("token_classify") + [
            dict(task="reward", text="a", step_tag=1, error="the model has one reward for a text")]),
    "qwen2_steps": dict(
        config=dict(model_type="qwen2"), stored=with_head(2),
        config_json=lambda c: c.update(architectures=["Qwen2ForProcessRewardModel"]),
        tasks="token_classify, reward", amplifies=2, reference=steps,
        cases=texts("reward")[:2] + [dict(task="reward", text="one.two.three.", step_tag=gp.gm.vocabulary()[0].index(".")),
                                     dict(task="reward", text="one.two.", columns=[1], use_activation=False),
                                     dict(task="reward", text="one.two.", columns=[2], error="column 2 is out of range")]),
    "internlm2_reward": dict(
        config=dict(model_type="llama", head_dim=16), stored=with_v_head, reference=v_rewarded,
        config_json=lambda c: c.update(reward_token_id=7), tasks="token_classify, reward", amplifies=2, raw=["reward"],
        cases=texts("reward")),
}
