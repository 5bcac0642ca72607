"""Rows as `generate evaluate --tasks FILE.jsonl` reads them, and how long they may be."""

import json
import subprocess


def row(task, number, text, outputs, scorer, max_tokens, prefix="", stop=()):
    """One row; number tells the rows of a task apart. An answer ends before a text of stop."""
    if not outputs:
        raise ValueError(f"{task}, row {number}: no reference answer")
    made = {
        "index": number, "id": f"{task}-{number}", "task": task, "input": text, "outputs": outputs,
        "answer_prefix": prefix, "scorer": scorer, "max_tokens": max_tokens,
    }
    return {**made, "stop": list(stop)} if stop else made


def write(rows, out):
    for r in rows:
        out.write(json.dumps(r, ensure_ascii=False) + "\n")


class Counter:
    """Counts tokens with the program, so that rows are sized for a model."""

    def __init__(self, generate, model):
        self.command = [generate, "tokenize", model, "--json"]

    def __call__(self, text):
        done = subprocess.run(self.command, input=text.encode(), stdout=subprocess.PIPE, check=True)
        return len(json.loads(done.stdout)["ids"])


def largest(low, high, fits):
    """RULER's binary search: the largest n that fits, low if none does. fits may draw anew each time."""
    best = low
    while low <= high:
        middle = (low + high) // 2
        if fits(middle):
            best, low = middle, middle + 1
        else:
            high = middle - 1
    return best


def sized(make, count, length, answer, step):
    """Endless texts of at most length tokens with their answers.

    make(number, n) is the text of row `number` with n units, its prefix and its references. n is chosen once, as RULER
    does; a row that comes out too long is made again with `step` units less.
    """
    def fits(number, n):
        text, prefix, outputs = make(number, n)
        return (text, prefix, outputs) if count(text + prefix) + answer <= length else None

    text, prefix, _ = make(0, step)
    each = count(text + prefix) / step
    n = largest(step, max(int(length / each * 3), 2 * step), lambda n: fits(0, n) is not None)
    number = 0
    while True:
        units, made, attempts = n, None, 0
        while made is None:
            made = fits(number, units)
            units = max(units - step, step)
            attempts += 1
            if attempts > 100 + n // step:
                raise ValueError(f"no row of {step} units keeps {length} tokens: ask for longer prompts")
        yield made
        number += 1
