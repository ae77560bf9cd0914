"""The toy world of the bundled model: support tickets and product reviews, with questions about them.

A text is drawn label first: the generator picks a category, a problem, a mood, a priority, a customer, a
product and an order, and then writes them down with the phrases of phrases.py.  So every answer is known.
A prompt is the text and the name of a task, as SQL would concatenate them:

    'Ticket: ' || body || E'\\nCategory:'        answer: ' delivery', then the end of the text

Tasks of a ticket: Sentiment, Category, Priority, Summary, JSON.  Tasks of a review: Sentiment, Summary.

Training and evaluation never share a text.  Three things are reserved for evaluation by construction: the
full names of customers (one pair in eight by hash), order numbers (a residue class) and skeletons (the
combination of problem, phrase, mood and urgency; one in eight by hash).  `--check` generates both sides and
verifies it.  For a harder measurement `strangers` takes surnames that no training text contains.

    python3 models/corpus.py --eval 500 --seed 7     evaluation items as JSON lines
    python3 models/corpus.py --show 5                a few training texts with all their answers
    python3 models/corpus.py --check                 the separation, over the whole training stream
"""
import argparse
import json
import random
import sys
import zlib
from dataclasses import dataclass

import phrases as P

TRAIN_SEED = 20260101
TRAIN_TEXTS = 100_000         # texts in the training stream; train.py reads a prefix of it
EVAL_SEED = 7
REVIEW_SHARE = 0.3
TICKET_TASKS = ("Sentiment", "Category", "Priority", "Summary", "JSON")
REVIEW_TASKS = ("Sentiment", "Summary")
REQUEST_WORDS = {"please", "could", "can", "how", "which", "kindly", "stop", "take", "remove"}
QUESTION_WORDS = {"could", "can", "how", "which"}


@dataclass
class Text:
    """A ticket or a review, with the right answer to each of its tasks."""
    kind: str
    body: str
    answers: dict
    customer: str
    order: str
    skeleton: str

    def prompt(self, task):
        return f"{self.kind}: {self.body}\n{task}:"


class Writer:
    """Draws texts of one side, 'train' or 'eval', from a seed."""

    def __init__(self, side, seed, strangers=False):
        self.side, self.strangers = side, strangers
        self.rng = random.Random(f"{side}/{seed}")

    def maybe(self, share):
        return self.rng.random() < share

    # ---- what both sides draw from, and what only one of them may ----

    def customer(self):
        """A first name and a surname.  Training also meets invented surnames; strangers are for the extra evaluation."""
        while True:
            first = self.rng.choice(P.FIRST_NAMES)
            if self.strangers:
                return first, self.rng.choice(P.STRANGERS)
            if self.side == "train" and self.maybe(0.3):
                return first, self.invented_surname()
            surname = self.rng.choice(P.SURNAMES)
            if self.mine(f"{first} {surname}"):
                return first, surname

    def invented_surname(self):
        while True:
            name = "".join(self.rng.choice("b c d f g h j k l m n p r s t v w z br ch dr fr gr kr pr sch st tr".split())
                           + self.rng.choice("a e i o u ai au ei ia ie oo ou ä ö ü é".split() if self.maybe(0.1)
                                             else "a e i o u".split())
                           for _ in range(self.rng.choice((1, 2, 2, 3))))
            name += self.rng.choice("ck l ld ll m n nd nn nsen r rg rs s sh sky son st t tt tz x".split())
            name = name.capitalize()
            if name not in P.STRANGERS and name not in P.SURNAMES:
                return name

    def order(self):
        while True:
            number = self.rng.randrange(10000, 100000)
            if (number % 7 == 3) == (self.side == "eval"):
                return f"#{number}"

    def mine(self, skeleton):
        return (zlib.crc32(skeleton.encode()) % 8 == 0) == (self.side == "eval")

    def date(self):
        month, day = self.rng.randrange(12), self.rng.randrange(1, 29)
        form = self.rng.randrange(5)
        if form == 0:
            return f"2026-{month + 1:02}-{day:02}"
        return f"{P.MONTHS[month]} {day}" if form < 4 else f"{day} {P.MONTHS[month]}"

    def amount(self):
        whole = self.rng.choice((self.rng.randrange(10, 100), self.rng.randrange(100, 900)))
        return self.rng.choice((f"{whole}.{self.rng.randrange(100):02} EUR", f"${whole}", f"{whole} euros",
                                f"${whole}.{self.rng.randrange(100):02}"))

    def fill(self, template, facts):
        """Puts the facts of this text, and fresh distractors, into the slots of a phrase."""
        agent = self.rng.choice([name for name in P.FIRST_NAMES if name != facts["first"]])
        return template.format(date=self.date(), amount=self.amount(), agent=agent, month=self.rng.choice(P.MONTHS),
                               code=f"E{self.rng.randrange(10, 100)}", **facts)

    def facts(self):
        (first, surname), noun = self.customer(), self.rng.choice(P.NOUNS)
        return {"first": first, "customer": f"{first} {surname}", "noun": noun,
                "product": f"{self.rng.choice(P.BRANDS)} {noun}", "order": self.order()}

    # ---- tickets ----

    def ticket(self):
        rng = self.rng
        while True:
            category = rng.choice(list(P.PROBLEMS))
            problem = rng.randrange(len(P.PROBLEMS[category]))
            issue, wordings = P.PROBLEMS[category][problem]
            sentiment, priority = rng.choice(list(P.MOODS)), rng.choice(list(P.URGENCY))
            wording = rng.choice(wordings)
            mood, urgency = rng.choice(P.MOODS[sentiment]), rng.choice(P.URGENCY[priority])
            skeleton = f"{category}|{wording}|{mood}|{urgency}"
            if self.mine(skeleton):
                break
        facts = self.facts()
        body = self.ticket_body(facts, wording, [s for s in (mood, urgency) if s])
        answers = {"Sentiment": sentiment, "Category": category, "Priority": priority,
                   "Summary": f"{facts['product']}: {issue}",
                   "JSON": json.dumps({"customer": facts["customer"], "product": facts["product"],
                                       "order": facts["order"], "category": category}, ensure_ascii=False)}
        return Text("Ticket", body, answers, facts["customer"], facts["order"], skeleton)

    def ticket_body(self, facts, wording, tail):
        rng = self.rng
        bare = self.maybe(0.3)
        core = [rng.choice(P.CONTEXTS_BARE if bare else P.CONTEXTS), self.problem_sentence(wording)]
        if self.maybe(0.15):
            core.reverse()
        rng.shuffle(tail)
        if bare:
            tail.insert(rng.randrange(len(tail) + 1), rng.choice(P.ORDER_LATER))
        sentences = core + tail
        if self.maybe(0.35):
            intro = rng.choice(P.INTROS)
            greeting = rng.choice(P.GREETINGS) if self.maybe(0.6) else None
            sentences.insert(0, f"{greeting} {intro}" if greeting else intro[0].upper() + intro[1:])
            closing = rng.choice(P.SIGNATURES_SHORT)
        else:
            if self.maybe(0.6):
                lower = sentences[0] if sentences[0].startswith("I ") else sentences[0][0].lower() + sentences[0][1:]
                sentences[0] = f"{rng.choice(P.GREETINGS)} {lower}"
            closing = rng.choice(P.SIGNATURES)
        if closing:
            sentences.append(closing)
        return " ".join(self.fill(sentence, facts) for sentence in sentences)

    def problem_sentence(self, wording):
        opening = wording.split()[0]
        link = self.rng.choice([l for l in P.LINKS if opening not in REQUEST_WORDS or l not in P.STATEMENT_LINKS])
        stop = "?" if opening in QUESTION_WORDS else "."
        return link.replace("{p}.", wording + stop).replace("{P}.", wording[0].upper() + wording[1:] + stop)

    # ---- reviews ----

    def review(self):
        rng = self.rng
        while True:
            sentiment = rng.choice(list(P.VERDICTS))
            aspects = rng.sample(list(P.ASPECTS), rng.choice((1, 2, 2)))
            praises = {"positive": [True, self.maybe(0.7)], "negative": [False, self.maybe(0.3)],
                       "neutral": [self.maybe(0.5)]}[sentiment]
            praises = (praises + [not praises[0]])[:2]
            rng.shuffle(praises)
            said = [(rng.choice(P.ASPECTS[a][0 if good else 2]), P.ASPECTS[a][1 if good else 3])
                    for a, good in zip(aspects, praises)]
            opening, verdict = rng.choice(P.REVIEW_OPENINGS), rng.choice(P.VERDICTS[sentiment])
            skeleton = "|".join([wording for wording, _ in said] + [verdict])
            if self.mine(skeleton):
                break
        facts = self.facts()
        sentences = [opening] + [wording[0].upper() + wording[1:] + "." for wording, _ in said]
        if len(said) == 2 and self.maybe(0.5):
            joint = "and" if praises[0] == praises[1] else "but"
            sentences[1:] = [f"{sentences[1][:-1]} {joint} {said[1][0]}."]
        sentences.append(verdict)
        answers = {"Sentiment": sentiment, "Summary": f"{facts['product']}: {said[0][1]}"}
        return Text("Review", " ".join(self.fill(s, facts) for s in sentences), answers, facts["customer"], "", skeleton)

    def text(self):
        return self.review() if self.maybe(REVIEW_SHARE) else self.ticket()


def training(count=TRAIN_TEXTS, seed=TRAIN_SEED):
    """The training stream: tickets and reviews, in the order in which train.py meets them."""
    writer = Writer("train", seed)
    return (writer.text() for _ in range(count))


def evaluation(count, seed=EVAL_SEED, reviews=False, strangers=False):
    """`count` different held-out texts, each with one task in turn: [(text, task)]."""
    writer = Writer("eval", seed, strangers)
    tasks = REVIEW_TASKS if reviews else TICKET_TASKS
    found = {}
    while len(found) < count:
        text = writer.review() if reviews else writer.ticket()
        found.setdefault(text.body, text)
    return [(text, tasks[i % len(tasks)]) for i, text in enumerate(found.values())]


def check(count, seed):
    """Fails if an evaluation text, or anything reserved for evaluation, occurs in the training stream."""
    held_out = [text for text, _ in evaluation(count, seed)] + [text for text, _ in evaluation(count, seed, reviews=True)]
    reserved = {"bodies": {t.body for t in held_out}, "skeletons": {t.skeleton for t in held_out},
                "customers": {t.customer for t in held_out}, "orders": {t.order for t in held_out if t.order}}
    met = {name: set() for name in reserved}
    for text in training():
        for name, value in zip(reserved, (text.body, text.skeleton, text.customer, text.order)):
            met[name].add(value)
    for name in reserved:
        shared = reserved[name] & met[name]
        print(f"{name}: {len(reserved[name])} held out, {len(met[name])} in training, {len(shared)} shared")
        if shared:
            sys.exit(f"shared {name}: {sorted(shared)[:3]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eval", type=int, metavar="N", help="print N evaluation items as JSON lines")
    parser.add_argument("--reviews", action="store_true", help="with --eval: reviews in place of tickets")
    parser.add_argument("--show", type=int, metavar="N", help="print N training texts")
    parser.add_argument("--check", action="store_true", help="verify that training and evaluation share nothing")
    parser.add_argument("--seed", type=int, help="seed of the evaluation (default %d)" % EVAL_SEED, default=EVAL_SEED)
    options = parser.parse_args()
    if options.eval:
        for text, task in evaluation(options.eval, options.seed, options.reviews):
            print(json.dumps({"task": task.lower(), "prompt": text.prompt(task), "expected": text.answers[task]},
                             ensure_ascii=False))
    if options.show:
        for text in training(options.show):
            print(f"{text.kind}: {text.body}")
            for task, answer in text.answers.items():
                print(f"    {task}: {answer}")
    if options.check:
        check(500, options.seed)


if __name__ == "__main__":
    main()
