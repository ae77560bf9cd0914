"""Measures the bundled model on held-out texts: through the extension (--sql), or with Hugging Face (--hf).

An answer is right if it equals the expected one, blanks at both ends aside: nothing is searched for in it.

    python3 models/eval.py --sql | psql -X -q mydb          500 tickets, 100 a task; a table of the shares
    python3 models/eval.py --sql --reviews | psql -X -q mydb
    python3 models/eval.py --hf models/tickets-2m           the same items; needs torch and transformers
    python3 models/eval.py --docs > models/docs_sample.sql  64 prompts for the demo table docs

--sql and --docs need nothing but the standard library.
"""
import argparse
import sys

import corpus

MAX_TOKENS = 64              # the longest answer, a JSON object with a long name, has about 45
DOCS_SEED = 8

HEADER = """-- {count} held-out {kind}s of seed {seed}, made by models/eval.py; the model must be the one the server uses.
SET client_encoding = 'UTF8';
CREATE TEMP TABLE eval (id int PRIMARY KEY, task text, prompt text, expected text);
INSERT INTO eval VALUES
"""

MEASURE = """
CREATE TEMP TABLE answered AS
    SELECT id, task, expected, llm_generate(prompt, max_tokens => {max_tokens}) AS answer FROM eval;
SELECT coalesce(task, 'all') AS task, count(*), round(100 * avg((trim(answer) = expected)::int), 1) AS percent_right
    FROM answered GROUP BY ROLLUP (task) ORDER BY answered.task NULLS LAST;
SELECT id, task, expected, answer FROM answered WHERE trim(answer) IS DISTINCT FROM expected ORDER BY id LIMIT 20;
"""


def literal(value):
    """A string of SQL; line ends are written as \\n, so that a statement keeps to its lines."""
    escaped = value.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n")
    return f"E'{escaped}'" if "\\" in escaped else f"'{escaped}'"


def print_sql(items, kind, seed):
    print(HEADER.format(count=len(items), kind=kind, seed=seed), end="")
    rows = (f"({i}, {literal(task.lower())}, {literal(text.prompt(task))}, {literal(text.answers[task])})"
            for i, (text, task) in enumerate(items, 1))
    print(",\n".join(rows) + ";")
    print(MEASURE.format(max_tokens=MAX_TOKENS), end="")


def print_docs():
    """The demo table: 48 questions about tickets and 16 about reviews, all different and all held out."""
    items = corpus.evaluation(48, DOCS_SEED) + corpus.evaluation(16, DOCS_SEED, reviews=True)
    print("-- 64 prompts about held-out texts, made by: python3 models/eval.py --docs > models/docs_sample.sql")
    print("CREATE TABLE IF NOT EXISTS docs (id int PRIMARY KEY, prompt text NOT NULL);")
    print("INSERT INTO docs VALUES")
    print(",\n".join(f"({i}, {literal(text.prompt(task))})" for i, (text, task) in enumerate(items, 1)) + ";")


def measure_hf(path, items):
    """Greedy decoding with transformers, one prompt at a time, the BF16 weights widened to float32."""
    import torch
    import transformers
    transformers.logging.set_verbosity_error()
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    right, total = {}, {}
    for text, task in items:
        name = f"{text.kind} {task}".lower()
        prompt = tokenizer(text.prompt(task), return_tensors="pt")
        with torch.no_grad():
            ids = model.generate(input_ids=prompt["input_ids"], attention_mask=prompt["attention_mask"],
                                 do_sample=False, max_new_tokens=MAX_TOKENS)
        answer = tokenizer.decode(ids[0, prompt["input_ids"].shape[1]:], skip_special_tokens=True).strip()
        good = answer == text.answers[task]
        if not good:
            print(f"{name}: expected {text.answers[task]!r}, got {answer!r}", file=sys.stderr)
        right[name], total[name] = right.get(name, 0) + good, total.get(name, 0) + 1
    for name in total:
        print(f"{name:20} {total[name]:5} {100 * right[name] / total[name]:6.1f} %")
    print(f"{'all':20} {sum(total.values()):5} {100 * sum(right.values()) / sum(total.values()):6.1f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--sql", action="store_true", help="print the items and the measurement as SQL")
    mode.add_argument("--hf", metavar="PATH", help="measure the model in PATH with transformers")
    mode.add_argument("--docs", action="store_true", help="print the rows of the demo table")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=corpus.EVAL_SEED)
    parser.add_argument("--reviews", action="store_true", help="reviews in place of tickets")
    parser.add_argument("--strangers", action="store_true", help="customers whose surnames no training text contains")
    options = parser.parse_args()
    if options.docs:
        print_docs()
        return
    items = corpus.evaluation(options.count, options.seed, options.reviews, options.strangers)
    if options.sql:
        print_sql(items, "review" if options.reviews else "ticket", options.seed)
    else:
        measure_hf(options.hf, items)


if __name__ == "__main__":
    main()
