#!/usr/bin/env python3
"""Tables of docs/evaluation.md from results of `generate evaluate -o`.

    tables.py answers [--pairs oracle:santapp,...] RESULTS.jsonl ...    tasks side by side, differences below
    tables.py divergence RESULTS.jsonl ...                              how far from exact attention
    tables.py between A.jsonl ... -- B.jsonl ...                        two runs of the same prompts: z of what differs

Figures and intervals are those that `generate evaluate --merge` prints; GENERATE names the program (bin/generate).
Python 3.9 or later, without packages.
"""

import json
import math
import os
import re
import subprocess
import sys


def merge(files, pairs=""):
    """What --merge prints of some files."""
    command = [*os.environ.get("GENERATE", "bin/generate").split(), "evaluate", "--merge", *files]
    if pairs:
        command += ["--pairs", pairs]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(done.returncode)  # it has said why
    return done.stdout


TITLE = re.compile(r"(?P<tasks>.+?), (?P<tokens>\d+) tokens(?:, (?P<way>with|without) answer prefix)?, (?P<prompts>\d+) prompts?")


def parse(text):
    """The tables of a print: a list of {title, tasks, tokens, lines, pairs}; lines and pairs are dicts by column."""
    found, head = [], None
    for line in text.splitlines():
        title = TITLE.fullmatch(line)
        if title:
            found.append({**title.groupdict(), "lines": [], "pairs": []})
        if not found or not line.startswith("|"):
            head = None
            continue
        cells = [c.strip() for c in line.strip("|").split("|")]
        if head is None:
            # "interval" stands after what it is of.
            head = [f"{cells[i - 1]} interval" if c == "interval" else c for i, c in enumerate(cells)]
        elif not cells[0].startswith("---"):
            row = dict(zip(head, cells))
            found[-1]["pairs" if head[0] == "difference" else "lines"].append(row)
    return found


def markdown(head, rows):
    return "\n".join("| " + " | ".join(str(c) for c in row) + " |" for row in [head, ["---"] * len(head), *rows])


def split(label):
    """A label's method and groups, and its budget: "santapp (kmeans)", "128"."""
    budget = re.search(r"S (\d+)", label)
    if not budget:
        return label, ""
    return re.sub(r" \(S \d+\)|, S \d+", "", label), budget[1]


METHODS = ("dense", "santa", "santapp", "centroid", "uniform", "oracle")


def by_method(cells):
    """Lines of a method together, whatever the order of the files; a sort that keeps the rest."""
    method = cells[0].split(" ")[0]
    return METHODS.index(method) if method in METHODS else len(METHODS)


def answers(files, pairs):
    tasks = [t for t in parse(merge(files, pairs)) if not t["tasks"].startswith("mean of")]
    head = ["attention", "S"]
    for t in tasks:
        head += [f"{t['tasks']}: exact", "%", "interval", "KV access %"]
    rows = []
    for lines in zip(*(t["lines"] for t in tasks)):
        row = list(split(lines[0]["attention"]))
        for line in lines:
            row += [line["full score"], line["score %"], line["score % interval"], line["KV access %"]]
        rows.append(row)
    rows.sort(key=by_method)
    out = f"\n{tasks[0]['tokens']} tokens, {' and '.join(t['prompts'] for t in tasks)} prompts\n\n{markdown(head, rows)}"
    if not pairs:
        return out
    head = ["difference in points", *(x for t in tasks for x in (t["tasks"], "interval"))]
    rows = [[ps[0]["difference"], *(x for p in ps for x in (p["points"], p["points interval"]))] for ps in zip(*(t["pairs"] for t in tasks))]
    return f"{out}\n\n{markdown(head, rows)}"


def divergence(files):
    head = ["task", "tokens", "prompts", "attention", "S", "KV access %", "Mean KLD", "Maximum KLD", "Same top p %"]
    rows = []
    for t in parse(merge(files)):
        if t["tasks"].startswith("mean of"):
            continue
        for line in t["lines"]:
            if line["attention"] != "dense":
                rows.append([t["tasks"], t["tokens"], t["prompts"], *split(line["attention"]), *(line[c] for c in head[5:])])
    return "\n" + markdown(head, rows)


def read(files):
    """Answers by prompt, attention and repeat."""
    found = {}
    for name in files:
        with open(name, encoding="utf-8") as f:
            next(f)
            for line in f:
                a = json.loads(line)
                if a.get("attention"):
                    found[a["id"], a["attention"], a["repeat"]] = a
    return found


def z(a, b):
    """The difference of two means over its standard error, the samples taken as independent."""
    def moments(x):
        mean = sum(x) / len(x)
        return mean, sum((v - mean) ** 2 for v in x) / max(len(x) - 1, 1) / len(x)
    (ma, va), (mb, vb) = moments(a), moments(b)
    return 0.0 if ma == mb else (mb - ma) / math.sqrt(va + vb) if va + vb else math.inf


def between(a, b):
    """Two runs on prompts that both have, by attention."""
    a, b = read(a), read(b)
    keys = sorted(a.keys() & b.keys())
    head = ["attention", "S", "answers", "exact: A", "B", "z", "KV access %: A", "B", "z", "same text", "other score"]
    rows = []
    for label in dict.fromkeys(k[1] for k in a):
        pairs = [(a[k], b[k]) for k in keys if k[1] == label]
        if not pairs:
            continue
        cells = [*split(label), len(pairs)]
        for name, total in (("score", lambda x: f"{sum(x):g}"), ("access_percent", lambda x: f"{sum(x) / len(x):.2f}")):
            x, y = ([p[side][name] for p in pairs] for side in (0, 1))
            cells += [total(x), total(y), f"{z(x, y):+.2f}"]
        cells += [sum(p["text"] == q["text"] for p, q in pairs), sum(p["score"] != q["score"] for p, q in pairs)]
        rows.append(cells)
    return "\n" + markdown(head, rows)


def main(argv):
    command, rest = (argv or [""])[0], argv[1:]
    pairs = ""
    if command == "answers" and rest[:1] == ["--pairs"]:
        pairs, rest = rest[1], rest[2:]
    if command == "answers" and rest:
        return answers(rest, pairs)
    if command == "divergence" and rest:
        return divergence(rest)
    if command == "between" and "--" in rest[1:-1]:
        at = rest.index("--")
        return between(rest[:at], rest[at + 1 :])
    raise SystemExit(__doc__)


if __name__ == "__main__":
    print(main(sys.argv[1:]))
