#!/usr/bin/env python3
"""Record how transformers renders chats: the reference for src/template/chat_template.c.

    python3 tests/golden/chat_golden.py > tests/golden/chat_golden.txt

Needs transformers (made with 5.23).  Templates and conversations are small and our
own; the tokenizers are those of tests/fixtures/tokenizers.  Lines:
    {"t": name, "s": template}
    {"m": number, "s": messages as JSON text}
    {"tools": JSON text}
    {"k": tokenizer, "bos": its bos_token, "eos": its eos_token}
    {"k": tokenizer, "t": template, "m": messages, "add": add_generation_prompt, "go_on":
     continue_final_message, "n": bytes of the text, "h": its FNV-1a, "ids": [count,
     FNV-1a of the ids as 32-bit little-endian numbers]}
ids are the result of apply_chat_template(tokenize=True).  "e": it raises an exception.
"""
import json
import struct
from pathlib import Path

from transformers import PreTrainedTokenizerFast

ROOT = Path(__file__).resolve().parent.parent
CHATML = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
STRIPS = "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content | trim }}<|im_end|>{% endfor %}{{ '<|im_start|>assistant:' if add_generation_prompt }}"
INST = "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
BUILT = "{% for m in messages %}{{ '<|im_' + ('start' if m.role == 'user' else 'end') + '|>' + m.content }}{% endfor %}"
REASON = "{% for m in messages %}{{ m.role }}:{{ m.reasoning_content }}/{{ m.thinking }}:{{ m.content }};{% endfor %}"
TOOLS = "{% if tools %}{{ tools | tojson }}\n{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
TEMPLATES = {"chatml": CHATML, "strips": STRIPS, "inst": INST, "built": BUILT, "reason": REASON, "tools": TOOLS}


def u(text):
    return {"role": "user", "content": text}


def a(text, **more):
    return {"role": "assistant", "content": text, **more}


TOOL = [{"type": "function", "function": {"name": "f", "description": "What?", "parameters": {"b": 1, "a": [1.0, None]}}}]
CHATS = [
    [u("Hello, how are you?")],
    [{"role": "system", "content": "Be brief."}, u("Hi"), a("Hello!"), u("Bye  ")],
    [u("  spaces  \n\n and\ttabs "), a("\n\n"), u("")],
    [u("naïve café Ελλάδα 你好 \U0001F600 ﬁ Å Å 10,000 they're don't"), a("x=1;\n\tif (y) {\n\t\treturn;\n\t}\n")],
    [u("a"), a("The answer is  ")],
    [u("a"), a("The answer is\n")],
    [u("a"), a("ends here")],
    [u("a"), a("4", reasoning_content="two and two")],
    [u("a"), a("4", reasoning="two and two")],
    [u("call"), a("", tool_calls=[{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"x": "ü", "n": 1.50, "l": [1, 2]}}}]), {"role": "tool", "content": "{\"r\": 1}", "tool_call_id": "1", "name": "f"}],
    [a("first"), a("second")],
    [u("<tool_call> is no special token </tool_call>")],
]


def fnv(data):
    h = 14695981039346656037
    for b in data:
        h = (h ^ b) * 1099511628211 % (1 << 64)
    return "%016x" % h


def emit(**row):
    print(json.dumps(row, ensure_ascii=False))


def one(fast, template, chat, tools, add, go_on):
    how = dict(tools=tools, chat_template=template, add_generation_prompt=add, continue_final_message=go_on)
    try:
        text = fast.apply_chat_template(chat, tokenize=False, **how).encode()
        ids = fast.apply_chat_template(chat, tokenize=True, return_dict=False, **how)
    except ValueError:
        return {"e": True}
    return {"n": len(text), "h": fnv(text), "ids": [len(ids), fnv(struct.pack("<%di" % len(ids), *ids))]}


def main():
    for name, template in TEMPLATES.items():
        emit(t=name, s=template)
    for i, chat in enumerate(CHATS):
        emit(m=i, s=json.dumps(chat, ensure_ascii=False))
    emit(tools=json.dumps(TOOL))
    for file in sorted((ROOT / "fixtures" / "tokenizers").glob("*.json")):
        vocab = PreTrainedTokenizerFast(tokenizer_file=str(file)).get_vocab()
        bos = "<s>" if "<s>" in vocab else "<|end|>"
        eos = "</s>" if "</s>" in vocab else "<|im_end|>"
        fast = PreTrainedTokenizerFast(tokenizer_file=str(file), bos_token=bos, eos_token=eos)
        emit(k=file.stem, bos=bos, eos=eos)
        for name, template in TEMPLATES.items():
            for i, chat in enumerate(CHATS):
                for add, go_on in ((True, False), (False, True)):
                    emit(k=file.stem, t=name, m=i, add=add, go_on=go_on,
                         **one(fast, template, chat, TOOL if name == "tools" else None, add, go_on))


main()
