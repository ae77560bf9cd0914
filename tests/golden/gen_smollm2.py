#!/usr/bin/env python3
"""Record what SmolLM2-135M-Instruct answers in float32, for tests/t/029_smollm2.pl.

    gen_smollm2.py [DIR]                   run in the repository's root; DIR: the model, default build/smollm2
    gen_smollm2.py --perplexity [DIR]      instead print what the documentation's paragraphs cost, nats a token
    gen_smollm2.py --texts                 instead print these paragraphs, for COPY

Needs torch, transformers and gguf; scripts/smollm2 installs the model.  transformers widens the Q4_1 weights to
float32 and rounds no activations.  The tokenizer is built here by the rules of SmolLM2's own tokenizer.json:
digits one by one, then GPT-2's words.  Writes tests/golden/smollm2.txt, four lines for each prompt:

    the messages, as JSON
    the prompt's tokens
    the answer: the most probable token each time, up to 64 or the end of the message
    for each of them a colon, the second most probable token, a colon, and by how much its logit is less
"""
import glob
import json
import sys

import torch
from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
END = 2                       # <|im_end|>
LENGTH = 64
PROMPTS = [
    "What is the capital of France?", "Name three colors.", "What is a database?",
    "Write a sentence about the sea.", "Explain what a transaction is, in two sentences.",
    "Translate to French: Good morning.", "List the days of the week.", "What do bees make?",
    "Why is the sky blue?", "Write a short poem about rain.", "What is 2 + 2?",
    "Give me a recipe for pancakes.", "Who wrote Romeo and Juliet?", "What is the largest planet?",
    "Summarize: The parcel was sent on Monday, 12 May 2025, and it arrived on Friday. The box was wet.",
    "Rewrite politely: Send me the invoice now.",
    "Is this a complaint? \"The lamp broke after two days and nobody answers.\"",
    ("You answer in one sentence.", "What is PostgreSQL?"),
    ("You are a pirate.", "Where is the treasure?"),
    ("You answer in German.", "Wie heißt die Hauptstadt von Österreich? Ein Wort genügt: 東京? naïve? 🙂"),
]


def tokenizer(path):
    fields = GGUFReader(path).fields
    texts = lambda name: [bytes(fields[name].parts[i]).decode() for i in fields[name].data]
    vocab = texts("tokenizer.ggml.tokens")
    merges = [tuple(m.split(" ")) for m in texts("tokenizer.ggml.merges")]
    kinds = [int(fields["tokenizer.ggml.token_type"].parts[i][0]) for i in fields["tokenizer.ggml.token_type"].data]
    t = Tokenizer(models.BPE({v: i for i, v in enumerate(vocab)}, merges))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(v, special=True, normalized=False) for v, k in zip(vocab, kinds) if k == 3])
    return t


def messages(prompt):
    system, user = prompt if isinstance(prompt, tuple) else (None, prompt)
    return ([{"role": "system", "content": system}] if system else []) + [{"role": "user", "content": user}]


def rendered(chat):
    if chat[0]["role"] != "system":
        chat = [{"role": "system", "content": SYSTEM}] + chat
    return "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in chat) + "<|im_start|>assistant\n"


def greedy(model, ids):
    tokens, seconds, cache, at = [], [], None, torch.tensor([ids])
    while len(tokens) < LENGTH and END not in tokens:
        out = model(at, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        value, best = out.logits[0, -1].float().topk(2)
        tokens.append(int(best[0]))
        seconds.append(f":{int(best[1])}:{float(value[0] - value[1]):.4f}")
        at = best[:1].reshape(1, 1)
    return tokens, seconds


def paragraphs():
    """What the documentation says in words: paragraphs of 200 to 2,000 characters, every fifth."""
    texts = [p for f in sorted(glob.glob("docs/user/*.md")) for p in open(f).read().split("\n\n")]
    return [p for p in texts if 200 <= len(p) <= 2000 and not p.startswith(("|", "```", "#"))][::5]


def perplexity(model, t):
    total = count = 0
    for p in paragraphs():
        ids = torch.tensor([t.encode(p).ids])
        logp = model(ids).logits[0, :-1].float().log_softmax(-1)
        total -= float(logp.gather(1, ids[0, 1:, None]).sum())
        count += ids.shape[1] - 1
    print(f"{len(paragraphs())} texts, {count} tokens, {total / count:.5f} nats a token")


def main():
    options = [a for a in sys.argv[1:] if a.startswith("--")]
    folder = ([a for a in sys.argv[1:] if a not in options] or ["build/smollm2"])[0]
    if "--texts" in options:
        for p in paragraphs():
            print(p.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n"))
        return
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=FILE, dtype=torch.float32).eval()
    t = tokenizer(f"{folder}/{FILE}")
    with torch.no_grad():
        if "--perplexity" in options:
            perplexity(model, t)
            return
        with open("tests/golden/smollm2.txt", "w") as f:
            for prompt in PROMPTS:
                chat = messages(prompt)
                ids = t.encode(rendered(chat)).ids
                tokens, seconds = greedy(model, ids)
                print(t.decode(tokens))
                f.write(json.dumps(chat) + "\n")
                for row in (ids, tokens, seconds):
                    f.write(" ".join(map(str, row)) + "\n")


if __name__ == "__main__":
    main()
