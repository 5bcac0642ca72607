"""Makes nul.json: ids of texts with NUL, by the Hugging Face library, for the small DeepSeek and Qwen tokenizers.
Run in this folder: python nul.py > nul.json (tokenizers 0.23)."""

import json
import random

from tokenizers import Tokenizer

PARTS = ["\0", "\0\0", "a", " b", "!", "'s", "\n", " ", "12", "\u00e9", "\x01", "\x02", "the ", "\u0301", "\r\n", ".\0'll"]
FOLDERS = ["../models/needle-qwen2", "../testdata/tokenizers/deepseek-mini"]

rng = random.Random(1)
rows = []
for folder in FOLDERS:
    tokenizer = Tokenizer.from_file("../" + folder + "/tokenizer.json")
    for _ in range(100):
        text = "\0" + "".join(rng.choice(PARTS) for _ in range(rng.randint(1, 9)))
        rows.append({"folder": folder, "text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids})
print("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]")
