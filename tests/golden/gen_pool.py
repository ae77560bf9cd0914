#!/usr/bin/env python3
"""Make tiny pooling models, and record what sentence-transformers and transformers compute with them.

    gen_pool.py [name ...]          run in the repository's root

Needs torch, transformers and sentence-transformers.  For each model of POOLS (pools/*.py beside
this file) it writes

    build/fixtures/pool/NAME/               a directory in the layout in which those libraries save models
    tests/golden/pool_expected/NAME.json    cases and values (format: pool_golden.c)

and packs the folder into tests/fixtures/pool.tar.xz (fixtures.py).

A file of pools has POOLS = {name: dict(config=..., cases=...)}:

    config      keys of config.json beyond gen_archs.COMMON ("model_type" at least; ...: without this key)
    auto        transformers' class that makes the model, default AutoModel
    tokenizer   "bytes" (default: 288 tokens of gen_models.py), or the name of a file of
                tests/fixtures/tokenizers, whose size becomes vocab_size
    post        function(tokenizers.Tokenizer, special): changes the tokenizer, e.g. its post-processor
    tok_config  keys of tokenizer_config.json
    st          sentence-transformers' files beside the model: dict of
                pooling     mode or list of modes
                include_prompt
                dense       [(outputs, bias, activation), ...]
                normalize   bool
                bert        sentence_bert_config.json
                config      config_sentence_transformers.json
    files       {name: JSON value} of more files
    fix, gain, embed, config_json, stored
                as in gen_archs.py
    init        True: the model keeps transformers' initial weights
    also        names of other fixtures, made by "stored", with the same expected results
    resave      True: sentence-transformers saves it again, in its current style
    options     model options
    tasks       the model's tasks, in pool_golden.c's form
    amplifies, raw
                as pool_golden.c has them
    reference   function(Reference, case): rows of values; default: the method of Reference with
                the task's name
    cases       [dict(task=..., text=...)], what pool_golden.c reads; "values", "ids", "type1_at" and
                "labels" are added here, unless a case has them or an "error"; ids=[]: they are not compared; offsets=[]: they are

Variants (VARIANTS in the same files) are fixtures made from the files of another one (variant.h), and have

    base, links, files      as in variant.h; a file's value may be a function of the base's value
    refused     loading must fail, and the message must contain this text
    twin        another fixture that "hf" loads instead
    as          "st" (default): SentenceTransformer, "multi": MultiVectorEncoder, "cross": CrossEncoder, "hf": transformers
    reference, cases, options, tasks    as above; reference(model, path, case)

and tests/golden/pool_variants/NAME.json.

Weights are half precision, so that a file is small and yet exact in float arithmetic.
"""
import contextlib
import glob
import importlib.util
import json
import os
import shutil
import sys
import tempfile

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import AutoTokenizer

sys.modules["gen_pool"] = sys.modules[__name__]
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fixtures  # noqa: E402
import gen_archs as ga  # noqa: E402
import gen_models as gm  # noqa: E402

FIXTURES = "build/fixtures/pool"
EXPECTED = "tests/golden/pool_expected"
VARIANTS = "tests/golden/pool_variants"
TOKENIZERS = "tests/fixtures/tokenizers"
ST = "sentence_transformers.models."
ACTS = {"Identity": "torch.nn.modules.linear.Identity", "Tanh": "torch.nn.modules.activation.Tanh",
        "ReLU": "torch.nn.modules.activation.ReLU", "GELU": "torch.nn.modules.activation.GELU"}


def load_pools():
    pools, variants = {}, {}
    for path in sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "pools", "*.py"))):
        spec = importlib.util.spec_from_file_location("pools_" + os.path.basename(path)[:-3], path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        pools.update(getattr(module, "POOLS", {}))
        variants.update(getattr(module, "VARIANTS", {}))
    return pools, variants


def unit(v):
    return v / max(np.linalg.norm(v), 1e-12)


def softmax(v):
    e = np.exp(v - v.max())
    return e / e.sum()


class Reference:
    """A fixture that the libraries have loaded."""

    def __init__(self, path, a):
        self.path = path
        self.a = a
        self.tok = AutoTokenizer.from_pretrained(path)
        self.st = None
        self.bare = None
        if "st" in a:
            from sentence_transformers import SentenceTransformer
            self.st = SentenceTransformer(path, device="cpu", trust_remote_code=False, model_kwargs={
                "dtype": torch.float32, "attn_implementation": "eager"})
        else:
            auto = getattr(transformers, a.get("auto", "AutoModel"))
            self.model = auto.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()

    def tokens(self, case, **more):
        """Return the ids and token types of a case's text or pair."""
        n = case.get("truncate", 0)
        if case.get("long_input") == "truncate" and n == 0:
            n = -1
        if n == -1:
            n = self.tok.model_max_length
        cut = dict(truncation=True, max_length=n) if n else {}
        config = self.a.get("st", {}).get("config", {})
        name = case.get("prompt_name", config.get("default_prompt_name"))
        prompt = case.get("instruction", config["prompts"][name] if name else "")
        text = prompt + case["text"]
        if self.a.get("st", {}).get("bert", {}).get("do_lower_case"):
            text = text.lower()
        x = self.tok(text, case.get("pair"), return_token_type_ids=True, **cut, **more)
        return x["input_ids"], x["token_type_ids"]

    def hidden(self, case):
        """Return the last hidden rows of a case's text."""
        ids, types = self.tokens(case)
        x = dict(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long))
        model = self.model if self.st is None else self.st[0].model
        if getattr(model.config, "type_vocab_size", 0) > 1:
            x["token_type_ids"] = torch.tensor([types])
        with torch.no_grad():
            return model(**x).last_hidden_state[0].double().numpy()

    def logits(self, case):
        ids, types = self.tokens(case)
        x = dict(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long))
        if getattr(self.model.config, "type_vocab_size", 0) > 1:
            x["token_type_ids"] = torch.tensor([types])
        with torch.no_grad():
            return self.model(**x).logits[0].double().numpy()

    # ---- one function per task ----

    def embed(self, case):
        if self.st is None:
            return [unit(self.hidden(case)[-1])[:case.get("dimensions")]]
        how = {}
        if "instruction" in case:
            how["prompt"] = case["instruction"]
        if "prompt_name" in case:
            how["prompt_name"] = case["prompt_name"]
        most = self.st.max_seq_length
        self.st.max_seq_length = case["truncate"] if case.get("truncate", -1) > 0 else most
        v = self.st.encode([case["text"]], convert_to_numpy=True, **how)[0].astype(np.float64)
        self.st.max_seq_length = most
        v = v[:case["dimensions"]] if "dimensions" in case else v
        return [unit(v) if case.get("use_activation", self.a["st"].get("normalize")) else v]

    def token_embed(self, case):
        return [unit(row) for row in self.hidden(case)]

    def activated(self, case, v):
        config = self.model.config
        if not case.get("use_activation", True) or config.problem_type == "regression":
            return v
        if config.num_labels == 1 or config.problem_type == "multi_label_classification":
            return 1 / (1 + np.exp(-v))
        return softmax(v)

    def classify(self, case):
        return [self.activated(case, self.logits(case))]

    score = classify

    def token_classify(self, case):
        return [self.activated(case, row) for row in self.logits(case)]

    def reward(self, case):
        return [self.logits(case)]


def write_tokenizer(path, a):
    name = a.get("tokenizer", "bytes")
    file = os.path.join(path, "tokenizer.json")
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 256}
    if name == "bytes":
        gm.write_tokenizer(path, "qwen2")
        os.remove(os.path.join(path, "generation_config.json"))
        config = json.load(open(os.path.join(path, "tokenizer_config.json")))
        config.pop("chat_template", None)
    else:
        shutil.copy(os.path.join(TOKENIZERS, name + ".json"), file)
    config.update(a.get("tok_config", {}))
    if "post" in a:
        tok = Tokenizer.from_file(file)
        a["post"](tok)
        tok.save(file, pretty=False)
    gm.dump(path, "tokenizer_config.json", config)


def append_eos(tok):
    """Append EOS, as the tokenizers of Qwen3-Embedding and E5-Mistral do."""
    from tokenizers import processors
    tok.post_processor = processors.TemplateProcessing(
        single="$A <|eos|>", pair="$A $B <|eos|>", special_tokens=[("<|eos|>", gm.EOS)])


def write_st(path, a, width, generator):
    """Write modules.json and the files that it names."""
    st = a["st"]
    modules = [("Transformer", "")]
    if "pooling" in st:
        modes = st["pooling"] if isinstance(st["pooling"], list) else [st["pooling"]]
        keys = {"cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens", "lasttoken": "lasttoken",
                "mean_sqrt_len_tokens": "mean_sqrt_len_tokens", "weightedmean": "weightedmean_tokens"}
        modules.append(("Pooling", "1_Pooling"))
        os.makedirs(os.path.join(path, "1_Pooling"))
        gm.dump(os.path.join(path, "1_Pooling"), "config.json", {
            "word_embedding_dimension": width, "include_prompt": st.get("include_prompt", True),
            **{"pooling_mode_" + k: mode in modes for mode, k in keys.items()}})
        width *= len(modes)
    for n, bias, act in st.get("dense", []):
        folder = f"{len(modules)}_Dense"
        modules.append(("Dense", folder))
        os.makedirs(os.path.join(path, folder))
        gm.dump(os.path.join(path, folder), "config.json", {
            "in_features": width, "out_features": n, "bias": bias, "activation_function": ACTS[act]})
        w = {"linear.weight": torch.randn(n, width, generator=generator) * width ** -0.5}
        if bias:
            w["linear.bias"] = 0.3 * torch.randn(n, generator=generator)
        save_file({k: v.half().float() for k, v in w.items()}, os.path.join(path, folder, "model.safetensors"))
        width = n
    if st.get("normalize"):
        modules.append(("Normalize", f"{len(modules)}_Normalize"))
    for i, (kind, folder) in enumerate(modules):
        modules[i] = {"idx": i, "name": str(i), "path": folder, "type": ST + kind}
        os.makedirs(os.path.join(path, folder), exist_ok=True)
    gm.dump(path, "modules.json", modules)
    gm.dump(path, "sentence_bert_config.json", {"max_seq_length": 256, "do_lower_case": False, **st.get("bert", {})})
    gm.dump(path, "config_sentence_transformers.json", {"prompts": {}, "default_prompt_name": None, **st.get("config", {})})


def rounded(x):
    return [[float(f"{v:.9g}") for v in row] for row in x]


def make(name, a):
    path = os.path.join(FIXTURES, name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    write_tokenizer(path, a)
    vocab = json.load(open(os.path.join(path, "tokenizer.json")))
    ids = [t["id"] for t in vocab["added_tokens"]] + (
        list(vocab["model"]["vocab"].values()) if isinstance(vocab["model"]["vocab"], dict) else
        list(range(len(vocab["model"]["vocab"]))))
    config = ga.config_of({"config": {"hidden_size": 64, "vocab_size": max(ids) + 1, **a["config"]}})
    dtype = config.dtype if isinstance(config.dtype, str) else str(config.dtype).split(".")[-1]
    torch.manual_seed(1)
    model = getattr(transformers, a.get("auto", "AutoModel")).from_config(config, dtype=torch.float32, attn_implementation="eager")
    generator = torch.Generator().manual_seed(1)
    if not a.get("init"):
        generator = ga.draw(model, 1, a.get("gain", 1.3), a.get("embed", 1))
    if "fix" in a:
        with torch.no_grad():
            a["fix"](model, generator)
    model.to(getattr(torch, dtype))
    model.save_pretrained(path)
    if os.path.exists(os.path.join(path, "generation_config.json")):
        os.remove(os.path.join(path, "generation_config.json"))
    if "st" in a:
        write_st(path, a, config.get_text_config().hidden_size, generator)
    for file, value in a.get("files", {}).items():
        os.makedirs(os.path.dirname(os.path.join(path, file)), exist_ok=True)
        gm.dump(path, file, value)
    if "config_json" in a:
        ga.edit_json(path, a["config_json"])
    ref = Reference(path, a)
    if "stored" in a:
        a["stored"](path, model)
    if a.get("resave"):
        ref.st.save_pretrained(path)
        os.remove(os.path.join(path, "README.md"))
    cases = []
    for shared in a["cases"]:
        case = dict(shared)
        out = dict(case)
        if "error" not in case:
            if "values" not in case:
                out["values"] = rounded(a.get("reference", lambda r, c: getattr(r, c["task"])(c))(ref, case))
            out["ids"] = case["ids"] if "ids" in case else out.pop("ids", None)
            if out["ids"] is None:
                del out["ids"]
            if "ids" not in case and "values" not in case and case.get("long_input") != "chunk":
                tokens, types = ref.tokens(case)
                out["ids"] = [tokens]
                if "pair" in case:
                    out["type1_at"] = [types.index(1) if 1 in types else -1]
            if case["task"] == "token_classify" and case.get("offsets") == []:
                out["offsets"] = [x for pair in ref.tok(case["text"], return_offsets_mapping=True)["offset_mapping"] for x in pair]
            if "Classification" in a.get("auto", "") and case["task"] in ("classify", "token_classify") and "labels" not in case and config.num_labels > 1:
                out["labels"] = [config.id2label[i] for i in range(config.num_labels)]
        if out.get("ids") == []:
            del out["ids"]
        cases.append(out)
    expected = {k: a[k] for k in ("options", "tasks", "amplifies", "raw") if k in a}
    for file in [name] + a.get("also", []):
        write_expected(file, expected, cases)
    print(f"{name}: {len(cases)} cases")


class Variant:
    """A directory with another fixture's files and a few others; it exists while it is used."""

    def __init__(self, a):
        self.a = a

    def __enter__(self):
        self.path = tempfile.mkdtemp()
        base = os.path.abspath(os.path.join(FIXTURES, self.a["base"]))
        there = [os.path.relpath(os.path.join(d, f), base) for d, _, files in os.walk(base) for f in files]
        for to, name in self.a.get("links", {f: f for f in there}).items():
            os.makedirs(os.path.dirname(os.path.join(self.path, to)), exist_ok=True)
            os.symlink(os.path.join(base, name), os.path.join(self.path, to))
        for name, value in self.a.get("files", {}).items():
            path = os.path.join(self.path, name)
            if callable(value):
                value = self.a["files"][name] = value(json.load(open(path)))
            if os.path.lexists(path):
                os.remove(path)
            if value is None:
                continue
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if "tensors" in value:
                save_file({k: torch.tensor(t["data"]).reshape(t["shape"]) for k, t in value["tensors"].items()}, path)
            else:
                gm.dump(os.path.dirname(path), os.path.basename(path), value)
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path)


def tensor(*shape, seed=3):
    """Return a random tensor for a file of a variant."""
    data = torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * shape[-1] ** -0.5
    return {"shape": list(shape), "data": [round(float(x), 3) for x in data.flatten()]}


def as_library(path, a):
    """Load a variant as the library does; return its result for a case."""
    import sentence_transformers as st
    how = dict(device="cpu", model_kwargs={"dtype": torch.float32, "attn_implementation": "eager"})
    kind = a.get("as", "st")
    if kind == "hf":
        ref = Reference(os.path.join(FIXTURES, a["twin"]) if "twin" in a else path, a)
        return lambda case: a["reference"](ref, case) if "reference" in a else getattr(ref, case["task"])(case)
    if kind == "cross":
        model = st.CrossEncoder(path, **how)
        return lambda case: [[float(model.predict([(case["text"], case["pair"])])[0])]]
    model = (st.MultiVectorEncoder if kind == "multi" else st.SentenceTransformer)(path, **how)
    if "reference" in a:
        return lambda case: a["reference"](model, case)

    def say(case):
        given = {"prompt_name": case["prompt_name"]} if case.get("prompt_name") else {}
        if "instruction" in case or case.get("prompt_name") == "":
            given = {"prompt": case.get("instruction", "")}
        if case["task"] == "score" and case.get("alike"):
            return model.similarity(model.encode([case["text"]]), model.encode([case["pair"]])).double().tolist()
        if case["task"] == "score":
            other = {"prompt": ""} if case.get("prompt_name") == "" else {}
            return model.similarity(model.encode_query([case["text"]], **given),
                                    model.encode_document([case["pair"]], **other)).double().tolist()
        if kind == "multi":
            query = case.get("prompt_name") == "query"
            plain = "instruction" in case
            v = (model.encode if plain else model.encode_query if query else model.encode_document)([case["text"]], **given)[0]
            return v.double().numpy()
        if case["task"] == "token_embed":
            v = model.encode([case["text"]], output_value="token_embeddings", **given)[0].double().numpy()
            return [unit(row) for row in v]
        v = model.encode([case["text"]], **given, **({"normalize_embeddings": True} if case.get("use_activation") else {}))
        return v.astype(np.float64)
    return say


def make_variant(name, a):
    with Variant(a) as path:
        out = {k: a[k] for k in ("base", "links", "files", "refused", "options", "tasks") if k in a}
        cases = []
        say = as_library(path, a) if a.get("cases") else None
        for case in a.get("cases", []):
            case = dict(case)
            if "error" not in case and "values" not in case:
                case["values"] = rounded(say(case))
            cases.append(case)
        os.makedirs(VARIANTS, exist_ok=True)
        with open(os.path.join(VARIANTS, name + ".json"), "w") as f:
            head = json.dumps({**out, "cases": []}, ensure_ascii=False)[:-2]
            f.write(head + "\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "\n]}\n")
    print(f"{name}: {len(cases)} cases")


def write_expected(name, expected, cases):
    with open(os.path.join(EXPECTED, name + ".json"), "w") as f:
        head = json.dumps({**expected, "cases": []}, ensure_ascii=False)[:-2]
        f.write(head + "\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "\n]}\n")


def main():
    torch.set_num_threads(1)
    os.makedirs(EXPECTED, exist_ok=True)
    pools, variants = load_pools()
    names = sys.argv[1:] or [*pools, *variants]
    with fixtures.repacked("pool") if any(n in pools for n in names) else contextlib.nullcontext():
        for name in names:
            if name in variants:
                make_variant(name, variants[name])
                continue
            make(name, pools[name])


if __name__ == "__main__":
    main()
