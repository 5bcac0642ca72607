"""RULER's needles in essays. The file is the one that RULER downloads: {"text": "..."}, or any folder of .txt files.

The rows have RULER's form (NVIDIA/RULER, scripts/data/synthetic/niah.py) and our own draws. Sentences are told by their
end mark, where the original asks NLTK.
"""

import json
import pathlib
import random
import re
import uuid

from rows import row, sized

TASKS = {  # kind of value, keys, values of each, keys asked for
    "niah_single_2": ("number", 1, 1, 1),
    "niah_single_3": ("uuid", 1, 1, 1),
    "niah_multikey_1": ("number", 4, 1, 1),
    "niah_multivalue": ("number", 1, 4, 1),
    "niah_multiquery": ("number", 4, 1, 4),
}
ANSWER = 128
WORDS = pathlib.Path(__file__).resolve().parents[2] / "eval" / "ruler" / "words"
ONE = ("A special magic {kind} is hidden within the following text. Make sure to memorize it. I will quiz you about the "
       "{kind} afterwards.\n{context}\nWhat is the special magic {kind} for {query} mentioned in the provided text?",
       " The special magic {kind} for {query} mentioned in the provided text is")
MANY = ("Some special magic {kind}s are hidden within the following text. Make sure to memorize it. I will quiz you about "
        "the {kind}s afterwards.\n{context}\nWhat are all the special magic {kind}s for {query} mentioned in the provided "
        "text?", " The special magic {kind}s for {query} mentioned in the provided text are")


def read(path):
    path = pathlib.Path(path)
    if path.is_dir():
        text = " ".join(p.read_text(encoding="utf-8") for p in sorted(path.glob("*.txt")))
    else:
        text = json.loads(path.read_text(encoding="utf-8"))["text"]
    words = text.split()
    if not words:
        raise ValueError(f"{path}: there is no text")
    return words


def sentences(text):
    return [s for s in re.split(r"(?<=[.!?])\s+", text) if s]


class Needles:
    def __init__(self, task, words, seed):
        self.kind, self.keys, self.values, self.asked = TASKS[task]
        self.words, self.seed, self.rng = words, seed, random.Random(seed)
        self.nouns, self.adjectives = ((WORDS / f"{n}list.txt").read_text(encoding="utf-8").splitlines() for n in ("noun", "adjective"))

    def value(self):
        if self.kind == "uuid":
            return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))
        return str(self.rng.randint(1_000_000, 9_999_999))

    def make(self, _, n):
        keys = [f"{self.rng.choice(self.adjectives).strip()}-{self.rng.choice(self.nouns).strip()}" for _ in range(self.keys)]
        values = [[self.value() for _ in range(self.values)] for _ in keys]
        needles = [f"One of the special magic {self.kind}s for {k} is: {v}." for k, vs in zip(keys, values) for v in vs]
        self.rng.shuffle(needles)
        text = sentences(" ".join((self.words * (n // len(self.words) + 1))[:n]))
        depths = sorted(self.rng.sample(range(40), len(needles)))
        for place, needle in reversed(list(zip(depths, needles))):
            text.insert(int(len(text) * place / 39), needle)
        asked = self.rng.sample(range(self.keys), self.asked)
        names = [keys[i] for i in asked]
        query = ", ".join(names[:-1]) + ", and " + names[-1] if len(names) > 1 else names[0]
        outputs = [v for i in asked for v in values[i]]
        form = ONE if len(outputs) == 1 else MANY
        return form[0].format(kind=self.kind, context=" ".join(text), query=query), form[1].format(kind=self.kind, query=query), outputs


def convert(path, tasks, count, length, samples, seed):
    words = read(path)
    for task in tasks:
        made = sized(Needles(task, words, seed).make, count, length, ANSWER, min(500, length // 8))
        for number in range(samples):
            text, prefix, outputs = next(made)
            yield row(task, number, text, outputs, "string_match_all", ANSWER, prefix)
