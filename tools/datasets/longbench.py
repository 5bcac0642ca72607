"""LongBench v2: its data.json, a list of {"_id", "context", "question", "choice_A" to "choice_D", "answer"}, with the
zero-shot template of its repository, and in place of that template's last line the one of the SANTA++ paper (Appendix
C.3). Long rows are for --truncate middle --limit N."""

import json

from rows import row

ANSWER = 128
TEXT = """Please read the following text and answer the question below.

<text>
{context}
</text>

What is the correct answer to this question: {question}
Choices:
(A) {choice_A}
(B) {choice_B}
(C) {choice_C}
(D) {choice_D}

Keep your reasoning concise (under 3 sentences). There is exactly one correct option. On the final line, provide your \
answer in the exact format: 'Final Answer: [X]' where X is a single letter (A, B, C, or D)."""


def convert(path, samples):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    data = json.loads(text) if text.lstrip().startswith("[") else [json.loads(line) for line in text.splitlines() if line.strip()]
    for number, item in enumerate(data[:samples or None]):
        fields = {k: item[k].strip() for k in ("context", "question", "choice_A", "choice_B", "choice_C", "choice_D")}
        if item["answer"] not in ("A", "B", "C", "D"):
            raise ValueError(f"{item['_id']}: the answer is {item['answer']!r}, want A, B, C or D")
        made = row("longbench_v2", number, TEXT.format(**fields), [item["answer"]], "choice", ANSWER)
        made["id"] = f"longbench_v2-{item['_id']}"
        yield made
