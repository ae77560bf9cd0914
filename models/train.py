"""Trains the bundled model and its tokenizer from nothing: models/tickets-2m, in the layout of Hugging Face.

The story in five steps.  (1) A byte-level BPE is learned from the generated texts; digits stay out of it, and
the hundred digit pairs are added by hand, so an order number is a few tokens that all occur often.  (2) Each
text becomes a tree: its body once, and one branch for each task, which sees the body and itself but not the
other branches.  That is the same arithmetic as one sequence a task at a third of the cost.  (3) Every eighth
batch is followed by one of long sequences, many texts one after the other up to the full context, so that far
positions are trained too.  (4) The loss lies on the answers, and lightly on the bodies; hidden matrices learn
by Muon, embeddings and norms by AdamW; the rate falls to zero.  (5) The weights are saved in BF16, and the
figures printed are those of the saved weights: a text counts as right if every token of the answer, and
the end after it, is the most likely one, which is what greedy decoding needs.

Needs torch, tokenizers and safetensors, from the Python package index; no GPU.

    python3 models/train.py                      the model of the repository
    python3 models/train.py --steps 200 --out /tmp/small     a quick look
"""
import argparse
import itertools
import json
import math
import os
import random
import shutil
import time
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")      # a waiting thread that spins starves its neighbours

import tokenizers as T
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

import corpus
from phrases import BRANDS, FIRST_NAMES, SURNAMES

SEED = 1
CONTEXT = 2048
VOCAB = 2048
DRILL_STEPS = 300
BOS, EOS = "<|begin_of_text|>", "<|end_of_text|>"
CHAT_TEMPLATE = Path(__file__).resolve().parent / "tickets-2m" / "chat_template.jinja"      # written by hand
# The pre-tokenizer of Llama 3: words with one leading character, digits by three, punctuation, line ends.
LLAMA3_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                r"|\s*[\r\n]+|\s+(?!\S)|\s+")
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCAB, "hidden_size": 256,
    "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 64, "max_position_embeddings": CONTEXT, "rope_theta": 500000.0, "rms_norm_eps": 1e-5,
    "hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True,
    "initializer_range": 0.02, "use_cache": True, "torch_dtype": "bfloat16",
}


# ---- tokenizer ----

def train_tokenizer():
    """A byte-level BPE with VOCAB entries; all 256 bytes are among them, so any UTF-8 text can be encoded."""
    split = T.pre_tokenizers.Sequence([
        T.pre_tokenizers.Split(T.Regex(LLAMA3_SPLIT), behavior="isolated"),
        T.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    pairs = [(a, b) for a in "0123456789" for b in "0123456789"]
    learner = T.Tokenizer(T.models.BPE())
    learner.pre_tokenizer = split
    without_digits = str.maketrans("", "", "0123456789")
    names = [f' "{name}" {name}' for name in FIRST_NAMES + SURNAMES + BRANDS] * 200      # whole, after a blank and after a quote
    texts = ("\n".join([f"{text.kind}: {text.body}"] + [f"{task}: {answer}" for task, answer in text.answers.items()])
             .translate(without_digits) for text in corpus.training(8000))
    learner.train_from_iterator(itertools.chain(texts, names), T.trainers.BpeTrainer(
        vocab_size=VOCAB - len(pairs) - 2, initial_alphabet=sorted(T.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False))
    model = json.loads(learner.to_str())["model"]
    vocab, merges = dict(model["vocab"]), [tuple(m) for m in model["merges"]]
    for a, b in pairs:
        vocab[a + b] = len(vocab)
        merges.append((a, b))
    tokenizer = T.Tokenizer(T.models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = T.decoders.ByteLevel()
    tokenizer.add_special_tokens([BOS, EOS])
    tokenizer.post_processor = T.processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B", special_tokens=[(BOS, tokenizer.token_to_id(BOS))])
    assert tokenizer.get_vocab_size() == VOCAB
    return tokenizer


# ---- model: the parameters carry the names that Hugging Face gives them ----

class Norm(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(size))

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, CONFIG["rms_norm_eps"])


def linear(inputs, outputs, zero=False):
    layer = torch.nn.Linear(inputs, outputs, bias=False)
    torch.nn.init.normal_(layer.weight, std=0.0 if zero else inputs ** -0.5)
    return layer


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        hidden, self.size = CONFIG["hidden_size"], CONFIG["head_dim"]
        self.heads, self.kv_heads = CONFIG["num_attention_heads"], CONFIG["num_key_value_heads"]
        self.q_proj = linear(hidden, self.heads * self.size)
        self.k_proj = linear(hidden, self.kv_heads * self.size)
        self.v_proj = linear(hidden, self.kv_heads * self.size)
        self.o_proj = linear(self.heads * self.size, hidden, zero=True)

    def forward(self, x, rope, mask):
        batch, length, _ = x.shape
        q = self.q_proj(x).view(batch, length, self.heads, self.size).transpose(1, 2)
        k = self.k_proj(x).view(batch, length, self.kv_heads, self.size).transpose(1, 2)
        v = self.v_proj(x).view(batch, length, self.kv_heads, self.size).transpose(1, 2)
        group = self.heads // self.kv_heads
        k = rotate(k, *rope).repeat_interleave(group, 1)
        out = F.scaled_dot_product_attention(rotate(q, *rope), k, v.repeat_interleave(group, 1),
                                             attn_mask=mask, is_causal=mask is None)
        return self.o_proj(out.transpose(1, 2).reshape(batch, length, -1))


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        hidden, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
        self.gate_proj, self.up_proj = linear(hidden, inner), linear(hidden, inner)
        self.down_proj = linear(inner, hidden, zero=True)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn, self.mlp = Attention(), Mlp()
        self.input_layernorm, self.post_attention_layernorm = Norm(CONFIG["hidden_size"]), Norm(CONFIG["hidden_size"])

    def forward(self, x, rope, mask):
        x = x + self.self_attn(self.input_layernorm(x), rope, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = torch.nn.Embedding(VOCAB, CONFIG["hidden_size"])
        torch.nn.init.normal_(self.embed_tokens.weight)
        self.layers = torch.nn.ModuleList(Layer() for _ in range(CONFIG["num_hidden_layers"]))
        self.norm = Norm(CONFIG["hidden_size"])
        torch.nn.init.constant_(self.norm.weight, 0.03)        # tied embeddings of size one would give huge logits
        size = CONFIG["head_dim"]
        angles = torch.outer(torch.arange(CONTEXT).float(), CONFIG["rope_theta"] ** (-torch.arange(0, size, 2).float() / size))
        angles = torch.cat((angles, angles), -1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, ids, positions, mask):
        rope = self.cos[positions].unsqueeze(1), self.sin[positions].unsqueeze(1)
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, rope, mask)
        return self.norm(x)

    def logits(self, x):
        return x @ self.embed_tokens.weight.T


@torch.no_grad()
def pair_words(model, tokenizer):
    """Lets a word start out the same with and without its leading blank, but for channel 1, which tells the two
    apart.  JSON values follow a quote and their models in the text a blank: what is learned of one serves the other."""
    vocab, weight = tokenizer.get_vocab(), model.embed_tokens.weight
    weight[:, 1] = -2.0
    for token, index in vocab.items():
        if token.startswith("\u0120"):                           # a blank, in the alphabet of byte-level BPE
            weight[index] = weight[vocab.get(token[1:], index)]
            weight[index, 1] = 2.0


@torch.no_grad()
def start_copying(model):
    """Begins with a circuit that copies, which a training of minutes would not find by chance (Olsson et al. 2022).

    Two heads of layer 0 look at the previous token: channel 0 of every embedding is constant, so query and key are
    constants too, and the rotation between them peaks at a distance of one.  Two heads of layer 1 look for the place
    whose previous token equals the current one, and write the token found there: 'A B ... A' is followed by B.
    Training may change all of it, and the other heads start at random.
    """
    size = CONFIG["head_dim"]
    frequency = CONFIG["rope_theta"] ** (-torch.arange(0, size, 2).float() / size)
    fast, slow = (frequency > 0.15).float(), (frequency < 0.008).float()
    first, second = model.layers[0].self_attn, model.layers[1].self_attn
    pair = range(CONFIG["num_attention_heads"] // CONFIG["num_key_value_heads"])     # the heads of the first group
    model.embed_tokens.weight[:, 0] = 4.0
    first.k_proj.weight[:size], first.q_proj.weight[:len(pair) * size] = 0.0, 0.0
    first.k_proj.weight[:size, 0] = 1.5 * torch.cat([frequency.cos() * fast, frequency.sin() * fast])
    for head in pair:
        first.q_proj.weight[head * size:head * size + size // 2, 0] = 1.5 * fast
    for attention in (first, second):
        attention.v_proj.weight[:size, 0] = 0.0
    torch.nn.init.normal_(first.o_proj.weight[:, :len(pair) * size], std=1 / 16)
    carried = sum(first.o_proj.weight[:, h * size:(h + 1) * size] for h in pair) @ first.v_proj.weight[:size]
    second.k_proj.weight[:size] *= torch.cat([slow, slow])[:, None]
    second.k_proj.weight[:size, 0] = 0.0
    for head in pair:
        rows = slice(head * size, (head + 1) * size)
        second.q_proj.weight[rows] = second.k_proj.weight[:size] @ carried
        second.o_proj.weight[:, rows] = second.v_proj.weight[:size].T


# ---- samples: token ids, positions, branch numbers, the label of each position and its weight ----

class Sample:
    def __init__(self):
        self.ids, self.positions, self.branches, self.labels, self.weights = [], [], [], [], []
        self.answers = []            # (task, first position that predicts the answer, one past the last)

    def add(self, ids, start, branch, weights, labels):
        self.ids += ids
        self.positions += range(start, start + len(ids))
        self.branches += [branch] * len(ids)
        self.labels += labels
        self.weights += weights


def vary(prompt, rng):
    """Small differences that people make when they concatenate: (prompt, what stands before the answer)."""
    draw = rng.random()
    if draw < 0.05:
        return prompt + " ", ""
    if draw < 0.08:
        return prompt + "\n", ""
    if draw < 0.12:
        return "\n\n".join(prompt.rsplit("\n", 1)), " "
    if draw < 0.14:
        return " ".join(prompt.rsplit("\n", 1)), " "
    return prompt, " "


def tree(text, tokenizer, eos, rng=None):
    """One text with all its tasks: the tokens that all prompts share, then a branch a task."""
    prompts, answers = [], []
    for task, answer in text.answers.items():
        prompt, lead = vary(text.prompt(task), rng) if rng else (text.prompt(task), " ")
        prompts.append(prompt)
        answers.append(lead + answer)
    prompts = [e.ids for e in tokenizer.encode_batch(prompts)]
    answers = [e.ids for e in tokenizer.encode_batch(answers, add_special_tokens=False)]
    shared = min(map(len, prompts)) - 1
    while any(p[:shared] != prompts[0][:shared] for p in prompts):
        shared -= 1
    sample = Sample()
    body = prompts[0][:shared]
    sample.add(body, 0, 0, [0.05] * (shared - 1) + [0.0], body[1:] + [eos])
    for branch, (task, prompt, answer) in enumerate(zip(text.answers, prompts, answers), 1):
        ask = prompt[shared:]
        weight = 1.0 if task == "JSON" else 2.0
        first = len(sample.ids) + len(ask) - 1
        sample.add(ask + answer, shared, branch, [0.0] * (len(ask) - 1) + [weight] * (len(answer) + 1),
                   ask[1:] + answer + [eos])
        sample.answers.append((f"{text.kind} {task}".lower(), first, first + len(answer) + 1))
    return sample


def long_sequence(texts, tokenizer, eos, rng, limit):
    """Several texts in one sequence of at most `limit` characters, each with one task; the loss lies on the answers."""
    whole, spans = "", []
    for text in texts:
        task = rng.choice(list(text.answers))
        prompt = whole + ("\n\n" if whole else "") + text.prompt(task)
        longer = prompt + " " + text.answers[task]
        if spans and len(longer) > limit:
            break
        spans.append((f"{text.kind} {task}".lower(), len(prompt), len(longer)))
        whole = longer
    encoding = tokenizer.encode(whole)
    assert len(encoding.ids) <= CONTEXT
    sample, labels = Sample(), encoding.ids[1:] + [eos]
    weights = [0.02] * len(labels)
    at = 0
    for name, start, end in spans:
        inside = []
        while at < len(labels) and encoding.offsets[at][0] < end:
            if encoding.offsets[at][0] >= start and encoding.offsets[at][1] > start:
                inside.append(at)
            at += 1
        for i in range(inside[0] - 1, inside[-1] + 1):
            weights[i] = 1.0
        labels[inside[-1]] = eos
        sample.answers.append((name, inside[0] - 1, inside[-1] + 1))
    sample.add(encoding.ids, 0, 0, weights, labels)
    return sample


def drill(rng, bos, digits):
    """A random span that comes twice: the second time it can be copied.  Sharpens the circuit of start_copying."""
    def noise(count):
        return [rng.choice(digits) if rng.random() < share else rng.randrange(VOCAB - 2) for _ in range(count)]
    share = rng.choice((0.0, 0.3, 0.9))
    span = noise(rng.randrange(6, 40))
    ids = [bos] + noise(rng.randrange(12)) + span + noise(rng.randrange(1, 24)) + span
    sample = Sample()
    sample.add(ids, 0, 0, [0.0] * (len(ids) - len(span)) + [1.0] * (len(span) - 1) + [0.0], ids[1:] + [0])
    return sample


def name_drill(rng, writer, tokenizer):
    """A list of names, and the same names in another order: from the first name follows the surname, as in JSON."""
    names = [(rng.choice(FIRST_NAMES), writer.invented_surname()) for _ in range(rng.randrange(2, 9))]
    ids = tokenizer.encode(", ".join(f"{first} {surname}" for first, surname in names) + "\n").ids
    sample = Sample()
    weights = [0.0] * len(ids)
    for first, surname in rng.sample(names, len(names)):
        head = tokenizer.encode(f' "{first}', add_special_tokens=False).ids
        tail = tokenizer.encode(f' {surname}",', add_special_tokens=False).ids
        ids += head + tail
        weights += [0.0] * (len(head) - 1) + [1.0] * len(tail) + [0.0]
    sample.add(ids, 0, 0, weights, ids[1:] + [0])
    return sample


def collate(samples):
    """Pads samples to one batch of tensors; mask[b, i, j] says whether position i may see position j."""
    length = max(len(s.ids) for s in samples)
    fields = {}
    for name, pad in (("ids", 0), ("positions", 0), ("branches", -1), ("labels", 0), ("weights", 0.0)):
        fields[name] = torch.tensor([getattr(s, name) + [pad] * (length - len(s.ids)) for s in samples])
    branch = fields["branches"]
    if not branch.any():
        return fields, None
    mask = (branch[:, None, :] == 0) | (branch[:, None, :] == branch[:, :, None])
    return fields, (mask & torch.ones(length, length, dtype=torch.bool).tril())[:, None]


def batches(tokenizer, eos, tokens):
    """The training stream, batch by batch: texts of like length together with some drills, many of them at first;
    and a batch of long sequences now and then."""
    rng = random.Random(SEED)
    writer = corpus.Writer("train", "drills")
    bos = tokenizer.token_to_id(BOS)
    digits = [i for token, i in tokenizer.get_vocab().items() if token.isdigit() and token.isascii()]
    stream = itertools.cycle(corpus.training())
    number = 0
    while True:
        window = sorted((tree(text, tokenizer, eos, rng) for text in itertools.islice(stream, 400)),
                        key=lambda sample: len(sample.ids))
        groups, group = [], []
        drills = 3 if number < DRILL_STEPS else 1
        for sample in window:
            if group and (len(group) + 1 + 2 * drills) * len(sample.ids) > tokens:
                groups.append(group)
                group = []
            group.append(sample)
        groups.append(group)
        rng.shuffle(groups)
        for group in groups:
            number += 1
            if number % 8 == 0:
                limit = rng.randrange(600, 3 * CONTEXT)           # a token has more than three characters on average
                yield [long_sequence(list(itertools.islice(stream, 24)), tokenizer, eos, rng, limit)
                       for _ in range(3 * tokens // limit)]
            yield (group + [drill(rng, bos, digits) for _ in range(drills)]
                   + [name_drill(rng, writer, tokenizer) for _ in range(drills)])


# ---- optimizer ----

class Muon:
    """Momentum, orthogonalised: every hidden matrix moves by a step whose singular values are all about one."""

    def __init__(self, matrices, rate, momentum=0.95, decay=0.01):
        self.rate, self.momentum, self.decay = rate, momentum, decay
        shapes = {}
        for matrix in matrices:
            shapes.setdefault(matrix.shape, []).append(matrix)
        self.groups = [(group, torch.zeros(len(group), *shape)) for shape, group in shapes.items()]

    @staticmethod
    def orthogonal(g):
        """Newton-Schulz: five steps of an odd polynomial that drives the singular values towards one."""
        tall = g.shape[-2] > g.shape[-1]
        x = g.mT if tall else g
        x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
        for _ in range(5):
            a = x @ x.mT
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
        return x.mT if tall else x

    @torch.no_grad()
    def step(self, scale):
        for group, momentum in self.groups:
            gradient = torch.stack([m.grad for m in group])
            momentum.lerp_(gradient, 1 - self.momentum)
            update = self.orthogonal(gradient.lerp(momentum, self.momentum))
            rate = self.rate * scale * max(1.0, update.shape[-2] / update.shape[-1]) ** 0.5
            for matrix, u in zip(group, update):
                matrix.mul_(1 - self.rate * scale * self.decay).add_(u, alpha=-rate)
                matrix.grad = None


# ---- training ----

def loss_of(model, samples):
    fields, mask = collate(samples)
    hidden = model(fields["ids"], fields["positions"], mask)
    weights = fields["weights"]
    kept = weights > 0
    losses = F.cross_entropy(model.logits(hidden[kept]), fields["labels"][kept], reduction="none")
    return (losses * weights[kept]).sum() / weights.sum(), fields["ids"].numel()


@torch.no_grad()
def accuracy(model, samples):
    """Share of answers that greedy decoding gets right, by task; the weights are rounded to BF16 for it."""
    rounded = Llama()
    rounded.load_state_dict({k: v.bfloat16().float() for k, v in model.state_dict().items()})
    right, total = {}, {}
    for i in range(0, len(samples), 16):
        group = samples[i:i + 16]
        fields, mask = collate(group)
        best = rounded.logits(rounded(fields["ids"], fields["positions"], mask)).argmax(-1)
        for row, sample in enumerate(group):
            for task, start, end in sample.answers:
                good = torch.equal(best[row, start:end], fields["labels"][row, start:end])
                right[task] = right.get(task, 0) + good
                total[task] = total.get(task, 0) + 1
    return {task: right[task] / total[task] for task in total}


def development_set(tokenizer, eos):
    """Held-out texts of another seed than the evaluation's: what the training prints is not what eval.py measures."""
    writer = corpus.Writer("eval", "development")
    short = [tree(writer.text(), tokenizer, eos) for _ in range(120)]
    rng = random.Random(SEED)
    long = [long_sequence([writer.text() for _ in range(24)], tokenizer, eos, rng, 500 * (i + 3)) for i in range(8)]
    return sorted(short, key=lambda s: len(s.ids)), long


def save(model, tokenizer, out):
    out.mkdir(parents=True, exist_ok=True)
    bos, eos = tokenizer.token_to_id(BOS), tokenizer.token_to_id(EOS)
    tensors = {"model." + name: value.bfloat16().contiguous() for name, value in model.state_dict().items()}
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    (out / "model.safetensors").chmod(0o644)              # the server runs as another user
    tokenizer.save(str(out / "tokenizer.json"))
    files = {
        "config.json": CONFIG | {"bos_token_id": bos, "eos_token_id": eos},
        "generation_config.json": {"bos_token_id": bos, "eos_token_id": eos, "do_sample": False, "temperature": 0.0},
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BOS, "eos_token": EOS,
                                  "model_max_length": CONTEXT, "clean_up_tokenization_spaces": False},
        "special_tokens_map.json": {"bos_token": BOS, "eos_token": EOS},
    }
    for name, content in files.items():
        (out / name).write_text(json.dumps(content, indent=2) + "\n")
    if out.resolve() != CHAT_TEMPLATE.parent:
        shutil.copy(CHAT_TEMPLATE, out)


def rate_at(step, steps):
    """Share of the full learning rate: up within 50 steps, level, then down to zero."""
    return min(1.0, (step + 1) / 50, 1.6 * (steps - step) / steps)


def report(step, steps, start, loss, model, development):
    short, long = (accuracy(model, samples) for samples in development)
    shown = " ".join(f"{task.replace(' ', '-')}={value:.3f}" for task, value in sorted(short.items()))
    print(f"{step}/{steps} {time.time() - start:.0f}s loss={loss:.4f} {shown} long={sum(long.values()) / len(long):.3f}", flush=True)


def train(options):
    torch.manual_seed(SEED)
    torch.set_num_threads(options.threads)
    start = time.time()
    tokenizer = train_tokenizer()
    eos = tokenizer.token_to_id(EOS)
    model = Llama()
    pair_words(model, tokenizer)
    start_copying(model)
    print(f"{sum(p.numel() for p in model.parameters())} parameters, tokenizer after {time.time() - start:.0f}s", flush=True)
    development = development_set(tokenizer, eos)
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    norms = [p for p in model.parameters() if p.ndim == 1]
    muon = Muon(matrices, options.rate)
    adam = torch.optim.AdamW([{"params": [model.embed_tokens.weight], "lr": 0.01}, {"params": norms, "lr": 0.003}],
                             betas=(0.9, 0.98), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: rate_at(step, options.steps))
    seen, smooth = 0, None
    for step, samples in zip(range(options.steps), batches(tokenizer, eos, options.tokens)):
        loss, tokens = loss_of(model, samples)
        loss.backward()
        muon.step(rate_at(step, options.steps))
        adam.step()
        schedule.step()
        adam.zero_grad(set_to_none=True)
        seen += tokens
        smooth = loss.item() if smooth is None else 0.98 * smooth + 0.02 * loss.item()
        assert math.isfinite(smooth), "the training diverged"
        if (step + 1) % 25 == 0:
            print(f"{step + 1} {time.time() - start:.0f}s loss={smooth:.4f} tokens={seen}", flush=True)
        if (step + 1) % options.every == 0 or step + 1 == options.steps:
            report(step + 1, options.steps, start, smooth, model, development)
            save(model, tokenizer, options.out)
    print(f"trained on {seen} tokens in {time.time() - start:.0f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "tickets-2m")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=4096, help="tokens a batch")
    parser.add_argument("--rate", type=float, default=0.02, help="of Muon")
    parser.add_argument("--every", type=int, default=100, help="steps between two measurements")
    parser.add_argument("--threads", type=int, default=2)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
