"""HELMET's retrieval-augmented generation: the files of nq, triviaqa, popqa and hotpotqa, JSONL of
{"question", "answers", "ctxs": [{"title", "text"}]}, with the template of its data.py. The number of passages is the
file's; HELMET has one for each length. Of popqa it takes the questions about what few look up: log10(s_pop) < 3."""

import hashlib
import json
import math
import random

from rows import row

ANSWER = 20
TEXT = ("Use the given documents to write a concise and short answer to the question. Write your answer in the following "
        "format:\nAnswer: [answer]\n\n{demos}{context}\n\nQuestion: {question}")
PREFIX = "\nAnswer:"
STOP = ("\n",)
POPULARITY = 3  # HELMET's popqa_3


def lines(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.strip()]


def passages(item):
    return "\n\n".join(f"Document (Title: {c['title']}): {c['text']}" for c in item["ctxs"])


def examples(item, demos, shots):
    """Solved examples: the same for the same question."""
    key = "id" if "id" in item else "question"
    others = list({d[key]: d for d in demos if d[key] != item[key]}.values())
    random.Random(hashlib.sha256(str(item[key]).encode()).hexdigest()).shuffle(others)
    return "".join(f"{passages(d)}\n\nQuestion: {d['question']}\nAnswer: {answers(d)[0]}\n\n" for d in others[:shots])


def answers(item):
    """The references, which some files group."""
    return [a for group in item["answers"] for a in (group if isinstance(group, list) else [group])]


def rare(items):
    """What keeps HELMET's popularity threshold; s_pop is a count of page views."""
    return [i for i in items if math.log10(i["s_pop"]) < POPULARITY]


def convert(task, path, demos, shots, samples):
    demos, items = lines(demos) if demos else [], lines(path)
    if task == "popqa":
        demos, items = rare(demos), rare(items)
    for number, item in enumerate(items):
        if samples and number >= samples:
            return
        text = TEXT.format(demos=examples(item, demos, shots), context=passages(item), question=item["question"])
        yield row(task, number, text, answers(item), "substring_exact_match", ANSWER, PREFIX, STOP)
