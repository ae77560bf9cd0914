"""Fixtures with other files beside the same weights: each tests one setting in a directory's files."""
import gen_pool as gp
import numpy as np
import torch
from tokenizers import normalizers

ST = "sentence_transformers.models."
SHORT = "what is a fox?"
TEXT = "The quick brown fox jumps over the lazy dog."
OTHER = "Ünïcödé, 数字 и прочее"
POOLING = {"word_embedding_dimension": 48, "pooling_mode_mean_tokens": True}


def modules(*kinds):
    """Return modules.json from pairs (kind, folder)."""
    return [{"idx": i, "name": str(i), "path": folder, "type": kind if "." in kind else ST + kind}
            for i, (kind, folder) in enumerate(kinds)]


def embeds(*texts, **more):
    return [dict(task="embed", text=t, **more) for t in texts or (TEXT, OTHER)]


def dense(n, out, folder, act="Tanh", bias=True, **more):
    """Return the files of a Dense module."""
    tensors = {"linear.weight": gp.tensor(out, n, seed=n + out)}
    if bias:
        tensors["linear.bias"] = gp.tensor(out, seed=5)
    config = {"in_features": n, "out_features": out, "bias": bias, "activation_function": gp.ACTS.get(act), **more}
    return {f"{folder}/config.json": {k: v for k, v in config.items() if v is not None},
            f"{folder}/model.safetensors": {"tensors": tensors}}


def scaled(files, by):
    for f in files.values():
        for t in f.get("tensors", {}).values():
            t["data"] = [round(x * by, 6) for x in t["data"]]
    return files


ROWS = dict(module_input_name="token_embeddings")
FIRST = ("Transformer", "")


def pooled_mean(model, rows):
    """Return the mean over the tokens of all (ids, skip), without the first `skip` tokens of each."""
    total = 0
    n = 0
    for ids, skip in rows:
        with torch.no_grad():
            h = model[0].model(input_ids=torch.tensor([ids]), token_type_ids=torch.zeros(1, len(ids), dtype=torch.long))
        total = total + h.last_hidden_state[0, skip:].double().numpy().sum(0)
        n += len(ids) - skip
    return [gp.unit(total / n)]


def chunked(model, case):
    """Embed a text in chunks, each after the instruction; without include_prompt, its tokens and those
    before them are not pooled."""
    tok = model.tokenizer
    before = tok(case["instruction"], add_special_tokens=False)["input_ids"]
    text = tok(case["text"], add_special_tokens=False)["input_ids"]
    room = model.max_seq_length - 2 - len(before)
    skip = 0 if model[1].include_prompt else 1 + len(before)
    case["ids"] = [[tok.cls_token_id, *before, *text[i:i + room], tok.sep_token_id] for i in range(0, len(text), room)]
    return pooled_mean(model, [(ids, skip) for ids in case["ids"]])


def lowered(ref, case):
    """Apply sentence-transformers' do_lower_case."""
    inner = ref.tok.backend_tokenizer
    if not isinstance(inner.normalizer, normalizers.Sequence) or not any(isinstance(x, normalizers.Lowercase) for x in inner.normalizer):
        inner.normalizer = normalizers.Sequence([normalizers.Lowercase(), inner.normalizer])
    case["offsets"] = [x for pair in ref.tok(case["text"], return_offsets_mapping=True)["offset_mapping"] for x in pair]
    return ref.token_classify(case)


def passages(model, case):
    return [[float(np.dot(*(gp.unit(model.encode([case[k]], prompt_name=name)[0].astype(np.float64))
                            for k, name in (("text", "query"), ("pair", "passage")))))]]


def tokenizer(**keys):
    return lambda config: {**config, **keys}


def score(a=SHORT, b=TEXT, **more):
    return dict(task="score", text=a, pair=b, **more)


def without(*names, **more):
    """Return a function that removes some keys from a configuration."""
    return lambda config: {**{k: v for k, v in config.items() if k not in names}, **more}


def longer(n, max_seq=512):
    """Return files that let a model take that many tokens, if its positions suffice."""
    return {"tokenizer_config.json": tokenizer(model_max_length=n), "sentence_bert_config.json": {"max_seq_length": max_seq}}


def at_end(text, most, one="a "):
    """Return two cases: the longest text that the positions allow, and one that is a token longer, which is
    refused."""
    return [*embeds(text), dict(task="embed", text=text + one, error=f"maximum model length of {most}")]


def of_twin(pick):
    """Return the reference of a GGUF file: the directory with the same weights."""
    return lambda ref, case: [gp.unit(ref.hidden(case)[pick])]


def pooled_as(number):
    return {"options": {"hf_overrides": {"gguf": {"pooling_type": number}}}}


LONG = TEXT + " " + TEXT + " " + TEXT
TYPED = dict(model_input_names=["input_ids", "token_type_ids"])
MASKED = dict(mask_token="[MASK]", unk_token="[UNK]")
PYLATE = dict(model_type="ColBERT", similarity_fn_name="maxsim")
COLBERT = [score(), score("what?", "It is, (or was) a fox!"), dict(task="token_embed", text=SHORT, prompt_name="query"),
           dict(task="token_embed", text="It is, (or was) a fox!", prompt_name="document"),
           dict(task="token_embed", text="It is, (or was) a fox!")]

VARIANTS = {
    # ---- modules ----
    "dense_before": dict(base="bert_embed", tasks="embed, token_embed", files={
        "modules.json": modules(FIRST, ("Dense", "1_Dense"), ("Pooling", "1_Pooling"), ("Dense", "3_Dense"), ("Normalize", "4_Normalize")),
        **dense(48, 20, "1_Dense", "ReLU", **ROWS), **dense(20, 8, "3_Dense", "Identity", bias=False)},
        cases=embeds() + [dict(task="token_embed", text=SHORT), dict(task="score", text=SHORT, pair=TEXT)]),
    "dense_defaults": dict(base="bert_embed", files={
        "modules.json": modules(FIRST, ("Pooling", "1_Pooling"), ("Dense", "2_Dense")),
        **{k: {x: v[x] for x in v if x not in ("bias", "activation_function")} if k.endswith("config.json") else v
           for k, v in dense(48, 12, "2_Dense").items()}}, cases=embeds()),
    # small values, so that the norm's epsilon matters
    "layer_norm": dict(base="bert_embed", files={
        "modules.json": modules(FIRST, ("Pooling", "1_Pooling"), ("Dense", "2_Dense"), ("LayerNorm", "3_LayerNorm"), ("Dense", "4_Dense")),
        **scaled(dense(48, 8, "2_Dense", "Identity", bias=False), 0.01), "3_LayerNorm/config.json": {"dimension": 8},
        "3_LayerNorm/model.safetensors": {"tensors": {"norm.weight": gp.tensor(8, seed=1), "norm.bias": gp.tensor(8, seed=2)}},
        **dense(8, 8, "4_Dense", "Tanh")}, cases=embeds()),
    "residual": dict(base="bert_embed", refused="a dense layer with a residual connection", files={
        "modules.json": modules(FIRST, ("Pooling", "1_Pooling"), ("Dense", "2_Dense")), **dense(48, 48, "2_Dense", use_residual=True)}),
    "layer_pooling": dict(base="bert_embed", refused='module "WeightedLayerPooling"', files={
        "modules.json": modules(FIRST, ("WeightedLayerPooling", "1_W"), ("Pooling", "1_Pooling"))}),
    "in_folder": dict(base="bert_embed", links={
        "modules.json": "modules.json", "1_Pooling/config.json": "1_Pooling/config.json",
        "config_sentence_transformers.json": "config_sentence_transformers.json",
        **{"0_Transformer/" + f: f for f in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")}},
        files={"modules.json": modules(("Transformer", "0_Transformer"), ("Pooling", "1_Pooling")),
               "0_Transformer/sentence_bert_config.json": {"max_seq_length": 9}},
        cases=embeds(SHORT) + [dict(task="embed", text=TEXT, error="does not fit the maximum model length of 9")]),
    "truncate_dim": dict(base="bert_embed", files={"config_sentence_transformers.json": {"truncate_dim": 10}},
                         cases=embeds() + embeds(TEXT, use_activation=True) + [
                             dict(task="score", text=SHORT, pair=TEXT), dict(task="token_embed", text=SHORT)]),
    # ---- tokenizer settings ----
    "lower_special": dict(base="bert_lower", cases=embeds("The [MASK] QUICK <|im_start|> Fox", "[MASK]", "İ [SEP] I")),
    "lower_offsets": {"base": "unigram_offsets", "as": "hf", "auto": "AutoModelForTokenClassification", "reference": lowered,
                      "files": {"sentence_bert_config.json": {"do_lower_case": True}},
                      "cases": [dict(task="token_classify", text=t) for t in ("Hugo MÜLLER", "İstanbul ÜNÏCÖDÉ ΣΑΣ")]},
    "cross_length": dict([("as", "cross")], base="bert_score", files={
        "tokenizer_config.json": tokenizer(model_max_length=20, model_input_names=["input_ids", "token_type_ids"])}, cases=[
        score("a", "b"), score(LONG, LONG, error="does not fit the maximum model length of 20")]),
    "cross_types": dict([("as", "cross")], base="bert_score", files={
        "tokenizer_config.json": tokenizer(model_input_names=["input_ids", "attention_mask"])}, cases=[score(type1_at=[-1]), score("a", "b")]),
    # ---- instructions ----
    "chunk_prompt": dict(base="bert_chunks", reference=chunked, cases=[
        dict(task="embed", text=LONG, instruction="about a fox: ", long_input="chunk"),
        dict(task="embed", text="a b c " * 40, instruction="query: ", long_input="chunk"),
        dict(task="embed", text="a b", instruction="a b c d " * 40, long_input="chunk", error="leave no room for a text")]),
    "chunk_no_prompt": dict(base="bert_chunks", reference=chunked, files={
        "1_Pooling/config.json": lambda c: {**c, "include_prompt": False}}, cases=[
        dict(task="embed", text=LONG, instruction="about a fox: ", long_input="chunk"),
        dict(task="embed", text="a b c " * 40, instruction="query: ", long_input="chunk")]),
    "score_prompts": dict(base="bert_embed", files={"config_sentence_transformers.json": {
        "prompts": {"query": "search: ", "document": "text: ", "other": "other: "}, "default_prompt_name": "other"}}, cases=[
            score(), score(prompt_name=""), score(instruction="in: "), score(prompt_name="other"), score(alike=True),
            *embeds(TEXT), *embeds(TEXT, prompt_name=""), *embeds(TEXT, instruction="")]),
    "score_default": dict(base="bert_embed", files={"config_sentence_transformers.json": {
        "prompts": {"other": "other: "}, "default_prompt_name": "other"}}, cases=[score(), score(alike=True)]),
    "score_passage": dict(base="bert_embed", reference=passages, files={"config_sentence_transformers.json": {
        "prompts": {"query": "query: ", "passage": "passage: "}}}, cases=[score()]),
    # ---- ColBERT ----
    "colbert_pylate": {"base": "bert_colbert", "as": "multi", "files": {
        "tokenizer_config.json": tokenizer(**MASKED),
        "modules.json": modules(FIRST, ("pylate.models.Dense.Dense", "1_Dense")),
        "config_sentence_transformers.json": {**PYLATE, "query_prefix": "[Q] ", "document_prefix": "##he ", "query_length": 16,
                                              "document_length": 40, "attend_to_expansion_tokens": False}},
        "cases": COLBERT + [score(LONG, TEXT, error="does not fit the maximum query or document length of 16"),
                            score(SHORT, LONG * 2, error="does not fit the maximum query or document length of 40")]},
    "colbert_attends": {"base": "bert_colbert", "as": "multi", "files": {
        "tokenizer_config.json": tokenizer(**MASKED),
        "config_sentence_transformers.json": {**PYLATE, "query_prefix": "[Q]", "document_prefix": "", "query_length": 12,
                                              "attend_to_expansion_tokens": True, "skiplist_words": ["fox", "no such", "it"]}},
        "cases": COLBERT},
    "colbert_plain": {"base": "bert_colbert", "as": "multi", "files": {
        "tokenizer_config.json": tokenizer(**MASKED),
        "config_sentence_transformers.json": {**PYLATE, "do_query_expansion": False, "query_length": 12, "skiplist_words": []}},
        "cases": COLBERT},
    "multi_vector": {"base": "bert_colbert", "as": "multi", "files": {
        "tokenizer_config.json": tokenizer(**MASKED),
        "sentence_bert_config.json": {"max_seq_length": 256, "query_length": 20, "document_length": 30, "query_expansion": {
            "strategy": "min", "attend": False, "token": "the", "length": 12}},
        "config_sentence_transformers.json": {"prompts": {"query": "search: ", "document": "text: "}, "similarity_fn_name": "meanmaxsim"},
        "1_Dense/config.json": lambda c: {**c, **ROWS},
        "2_Mask/config.json": {"skiplist_words": [".", "is"], "skiplist_tasks": ["query", "document"]},
        "modules.json": modules(FIRST, ("Dense", "1_Dense"), (
            "sentence_transformers.multi_vector_encoder.modules.multi_vector_mask.MultiVectorMask", "2_Mask"))},
        "cases": COLBERT + [score("what is a fox that jumps over?", "."), dict(task="token_embed", text=SHORT, instruction="text: ")]},
    "multi_patches": dict(base="bert_colbert", refused='"keep_only_token_ids"', files={
        "2_Mask/config.json": {"keep_only_token_ids": [4]},
        "modules.json": modules(FIRST, ("Dense", "1_Dense"), ("MultiVectorMask", "2_Mask"))}),
    "colbert_long": dict(base="modernbert_embed", files={
        **longer(16384, 16384), "config.json": lambda c: {**c, "max_position_embeddings": 16384}, "modules.json": modules(FIRST),
        "config_sentence_transformers.json": {**PYLATE, "do_query_expansion": False}}, cases=[
            score("a" * 14000, "b" * 14000, error="too long to compare each token with each")]),
    # ---- lengths and defaults ---- a text so long that the engine computes it in pieces, between which a
    # cancel can stop it
    "modernbert_long": dict(base="modernbert_embed", files={
        "config.json": lambda c: {**c, "max_position_embeddings": 8192}, "sentence_bert_config.json": {"max_seq_length": 8192},
        "tokenizer_config.json": tokenizer(model_max_length=8192)}, cases=embeds("a fox jumps over what it can. " * 140)),
    # Position tables of 259 rows.  The rows up to the padding token's hold no positions.
    "roberta_end": dict(base="xlm_roberta_embed", files=longer(512), cases=at_end("a" * 254, 256, "b")),
    "mpnet_end": dict(base="mpnet_embed", files=longer(512), cases=at_end("a " * 255, 257)),
    "nomic_trained": dict(base="nomic_embed", files={"config.json": lambda c: {**c, "max_trained_positions": 30}},
                          cases=at_end("a " * 28, 30)),
    "modernbert_defaults": dict(base="modernbert_embed", cases=embeds(TEXT * 5), files={
        "config.json": without("rope_parameters", "local_attention", "layer_types")}),
    "nomic_defaults": dict(base="nomic_embed", cases=embeds(TEXT * 5), files={"config.json": without("rope_parameters")}),
    "gte_defaults": dict(base="gte_embed", cases=embeds(TEXT * 5), files={"config.json": without("rope_parameters")}),
    # a decoder with windows, trained with attention in both directions
    "both_ways_window": dict(base="e5_mistral", cases=embeds(TEXT, LONG), files={"config.json": lambda c: {**c, "is_causal": False}}),
    # ---- scores ----
    "cross_identity": dict([("as", "cross")], base="bert_score", cases=[score(), score("a", "b")], files={
        "tokenizer_config.json": tokenizer(**TYPED),
        "config.json": lambda c: {**c, "sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}}}),
    "cross_identity_old": dict([("as", "cross")], base="bert_score", cases=[score(), score("a", "b")], files={
        "tokenizer_config.json": tokenizer(**TYPED),
        "config.json": lambda c: {**c, "sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}}),
    "cross_sigmoid": dict([("as", "cross")], base="bert_score", cases=[score(), score("a", "b")], files={
        "tokenizer_config.json": tokenizer(**TYPED),
        "config.json": lambda c: {**c, "sbert_ce_default_activation_function": "torch.nn.modules.activation.Sigmoid"}}),
    "cross_tanh": dict(base="bert_score", refused='activation function "Tanh" behind a score', files={
        "config.json": lambda c: {**c, "sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Tanh"}}}),
    # Texts end in the token that is also the padding token: the token before it counts.
    "padding_at_end": {"base": "llama_classify", "as": "hf", "auto": "AutoModelForSequenceClassification",
                       "files": {"config.json": lambda c: {**c, "pad_token_id": 49}}, "cases": [
                           dict(task="classify", text=t) for t in (TEXT, "dog...", "a", "...", "dog. ")]},
    # ---- GGUF: pooling_type ----
    "gguf_cls": {"base": ".", "links": {"a.gguf": "bert_embed.gguf"}, "as": "hf", "twin": "bert_embed", "reference": of_twin(0),
                 **pooled_as(2), "cases": embeds()},
    "gguf_last": {"base": ".", "links": {"a.gguf": "bert_embed.gguf"}, "as": "hf", "twin": "bert_embed", "reference": of_twin(-1),
                  **pooled_as(3), "cases": embeds()},
}
