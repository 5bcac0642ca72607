"""RULER's question answering: qa_1 from SQuAD 2.0's dev file, qa_2 from HotpotQA's dev file with distractors.

The rows have RULER's form (NVIDIA/RULER, scripts/data/synthetic/qa.py): the documents of the question among others of the
file. The draws are our own.
"""

import json
import random

from rows import row, sized

ANSWER = 32
TEXT = ("Answer the question based on the given documents. Only give me the answer and do not output any other words.\n\n"
        "The following are given documents.\n\n{context}\n\nAnswer the question based on the given documents. Only give me "
        "the answer and do not output any other words.\n\nQuestion: {query}")
PREFIX = " Answer:"


def squad(path):
    """Questions as (query, outputs, own documents, near documents), and all documents."""
    with open(path, encoding="utf-8") as f:
        data = json.load(f)["data"]
    documents = sorted({p["context"] for d in data for p in d["paragraphs"]})
    at = {text: i for i, text in enumerate(documents)}
    questions = []
    for d in data:
        near = [at[p["context"]] for p in d["paragraphs"]]
        for p in d["paragraphs"]:
            own = at[p["context"]]
            for q in p["qas"]:
                if not q.get("is_impossible", False):
                    questions.append((q["question"], [a["text"] for a in q["answers"]], [own], [i for i in near if i != own]))
    return questions, documents


def hotpotqa(path):
    with open(path, encoding="utf-8") as f:
        data = json.load(f)
    text = lambda title, sentences: f"{title}\n{''.join(sentences)}"
    documents = sorted({text(*c) for d in data for c in d["context"]})
    at = {t: i for i, t in enumerate(documents)}
    return [(d["question"], [d["answer"]], [at[text(*c)] for c in d["context"]], []) for d in data], documents


def maker(questions, documents, seed):
    def make(number, n):
        rng = random.Random(f"{seed}-{number}-{n}")
        query, outputs, own, near = questions[number % len(questions)]
        n = max(n, len(own))
        chosen = own + rng.sample(near, min(n - len(own), len(near)))
        if len(chosen) < n:
            rest = sorted(set(range(len(documents))) - set(own) - set(near))
            chosen += rng.sample(rest, min(n - len(chosen), len(rest)))
        rng.shuffle(chosen)
        context = "\n\n".join(f"Document {i + 1}:\n{documents[c]}" for i, c in enumerate(chosen))
        return TEXT.format(context=context, query=query), PREFIX, outputs
    return make


def convert(task, path, count, length, samples, seed):
    questions, documents = squad(path) if task == "qa_1" else hotpotqa(path)
    if not questions:
        raise ValueError(f"{path}: there are no questions with an answer")
    made = sized(maker(questions, documents, seed), count, length, ANSWER, min(10, len(documents)))
    for number in range(min(samples, len(questions))):
        text, prefix, outputs = next(made)
        yield row(task, number, text, outputs, "string_match_part", ANSWER, prefix)
