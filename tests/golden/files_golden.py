#!/usr/bin/env python3
"""Record what transformers reads from a model's tokenizer files: the reference for src/loader/hf_config.c
and src/tokenizer/load/tok_hf.c.

    python3 tests/golden/files_golden.py > tests/golden/files_golden.txt

Needs transformers (made with 5.23).  tokenizer.json is tests/fixtures/tokenizers/o200k.json, without the
added tokens named in "drop", which stay in its vocabulary.  Each line:
    {"name": what the case tests, "drop": [tokens], "files": {path: text},
     "ids": [ids of each text in TEXTS, without BOS and EOS],
     "chats": [[chat_template given, are tools given, text or null if it raises], ...]}
"""
import json
import tempfile
from pathlib import Path

from transformers import PreTrainedTokenizerFast

ROOT = Path(__file__).resolve().parent.parent
FIXTURE = json.loads((ROOT / "fixtures" / "tokenizers" / "o200k.json").read_text())
TEXTS = ["a<s>b", "x <s> y<unk>", "<tool_call> <s><s>", " the<s>wort", "  <unk>  z"]
NAMES = "{{ bos_token }}|{{ eos_token }}|{{ unk_token }}|{{ pad_token }}|{{ sep_token }}|{{ additional_special_tokens }}"
TOOLS = [{"type": "function", "function": {"name": "f"}}]


def obj(content, **flags):
    return {"content": content, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, **flags}


def named(**templates):
    return [{"name": k, "template": v} for k, v in templates.items()]


BOTH = ["<s>", "<unk>"]
CASES = [
    ("nothing names them", BOTH, {}),
    ("tokenizer_config.json", BOTH, {"tokenizer_config.json": {"bos_token": "<s>", "unk_token": "<unk>"}}),
    ("objects in tokenizer_config.json", BOTH, {"tokenizer_config.json": {
        "bos_token": {"__type": "AddedToken", **obj("<s>", lstrip=True)}, "unk_token": {"__type": "AddedToken", **obj("<unk>", rstrip=True)}}}),
    ("special_tokens_map.json alone", BOTH, {"special_tokens_map.json": {"bos_token": "<s>", "eos_token": "<s>", "unk_token": obj("<unk>", rstrip=True)}}),
    ("special_tokens_map.json beside tokenizer_config.json", ["<s>"], {
        "tokenizer_config.json": {"eos_token": "<unk>"}, "special_tokens_map.json": {"bos_token": obj("<s>", lstrip=True), "pad_token": "<unk>"}}),
    ("special_tokens_map.json wins", ["<s>"], {
        "tokenizer_config.json": {"bos_token": "<unk>", "eos_token": "<unk>"}, "special_tokens_map.json": {"bos_token": "<s>"}}),
    ("but not over added_tokens_decoder", ["<s>"], {
        "tokenizer_config.json": {"bos_token": "<unk>", "added_tokens_decoder": {"0": obj("<unk>", special=True)}},
        "special_tokens_map.json": {"bos_token": "<s>", "pad_token": "<s>"}}),
    ("added_tokens_decoder", ["<s>"], {"tokenizer_config.json": {
        "bos_token": "<unk>", "added_tokens_decoder": {"0": obj("<unk>", special=True), "1": obj("<s>", rstrip=True, special=True)}}}),
    ("additional_special_tokens in tokenizer_config.json", BOTH, {"tokenizer_config.json": {"additional_special_tokens": ["<s>", "<unk>"]}}),
    ("extra_special_tokens", ["<s>"], {"tokenizer_config.json": {"extra_special_tokens": ["<s>"]}}),
    ("additional_special_tokens in special_tokens_map.json", ["<s>"], {"special_tokens_map.json": {"bos_token": "<unk>", "additional_special_tokens": ["<s>"]}}),
    ("a word as a special token", [], {"tokenizer_config.json": {"pad_token": "th", "bos_token": "<s>"}}),
    ("chat_template in tokenizer_config.json", [], {"tokenizer_config.json": {"chat_template": "C{{ bos_token }}", "bos_token": "<s>"}}),
    ("named templates", [], {"tokenizer_config.json": {"chat_template": named(default="D", tool_use="T", rag="R{{ messages|length }}")}}),
    ("named templates without a default", [], {"tokenizer_config.json": {"chat_template": named(tool_use="T", rag="R")}}),
    ("chat_template.jinja", [], {"chat_template.jinja": "J\n", "tokenizer_config.json": {"chat_template": named(default="D", tool_use="T")}}),
    ("additional_chat_templates", [], {"chat_template.jinja": "J", "additional_chat_templates/tool_use.jinja": "AT", "additional_chat_templates/rag.jinja": "AR",
                                       "tokenizer_config.json": {"chat_template": "C"}}),
    ("additional_chat_templates alone", [], {"additional_chat_templates/rag.jinja": "AR", "tokenizer_config.json": {"chat_template": "C"}}),
    ("no template", [], {"tokenizer_config.json": {}}),
]


def run(name, drop, files):
    with tempfile.TemporaryDirectory() as d:
        d = Path(d)
        tok = dict(FIXTURE, added_tokens=[a for a in FIXTURE["added_tokens"] if a["content"] not in drop])
        files = {k: v if isinstance(v, str) else json.dumps(v) for k, v in files.items()}
        for k, v in {"tokenizer.json": json.dumps(tok), **files}.items():
            (d / k).parent.mkdir(exist_ok=True)
            (d / k).write_text(v)
        t = PreTrainedTokenizerFast.from_pretrained(str(d))
        chats = []
        for source in (None, NAMES, "default", "tool_use", "rag"):
            for tools in (None, TOOLS):
                try:
                    text = t.apply_chat_template([{"role": "user", "content": "x"}], tools=tools, chat_template=source, tokenize=False)
                except ValueError:
                    text = None
                chats.append([source, tools is not None, text])
        ids = [t.encode(x, add_special_tokens=False) for x in TEXTS]
        print(json.dumps({"name": name, "drop": drop, "files": files, "ids": ids, "chats": chats}))


for case in CASES:
    run(*case)
